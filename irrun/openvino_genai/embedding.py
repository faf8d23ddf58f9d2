"""`TextEmbeddingPipeline`: vectors of texts."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar

from irrun.generation.embedding import EmbeddingConfig, TextEmbedder
from irrun.openvino.errors import translate_errors
from irrun.openvino_genai.enumerations import PoolingType
from irrun.openvino_genai.options import Options, OptionSet, to_bool, to_optional, to_text
from irrun.openvino_genai.settings import find_model, make_settings

__all__ = ["TextEmbeddingPipeline"]


def _to_pooling_type(value: Any) -> PoolingType:
    if not isinstance(value, PoolingType):
        raise TypeError(f"expected a PoolingType, found {value!r}")
    return value


class EmbeddingPipelineConfig(OptionSet):
    """The options of embedding; see OpenVINO GenAI's documentation.

    Args:
        **kwargs: Options. Unknown options are ignored.
    """

    _OPTIONS: ClassVar[Options] = {
        "max_length": (None, to_optional(operator.index)),
        "pad_to_max_length": (None, to_optional(to_bool)),
        "batch_size": (None, to_optional(operator.index)),
        "pooling_type": (PoolingType.CLS, _to_pooling_type),
        "normalize": (True, to_bool),
        "query_instruction": (None, to_optional(to_text)),
        "embed_instruction": (None, to_optional(to_text)),
        "padding_side": (None, to_optional(to_text)),
    }

    def __init__(self, **kwargs: Any) -> None:
        super().__init__()
        for name, value in kwargs.items():
            if name in self._OPTIONS:
                setattr(self, name, value)

    def validate(self) -> None:
        """Check the options.

        Raises:
            RuntimeError: A size is 0.
        """
        for name in ("max_length", "batch_size"):
            if getattr(self, name) is not None and getattr(self, name) <= 0:
                raise RuntimeError(f"{name} should be greater than 0")


EmbeddingPipelineConfig.__name__ = "Config"
EmbeddingPipelineConfig.__qualname__ = "TextEmbeddingPipeline.Config"
PoolingType.__qualname__ = "TextEmbeddingPipeline.PoolingType"


class TextEmbeddingPipeline:
    """Converts texts to vectors.

    Args:
        models_path: A folder with openvino_tokenizer.xml and openvino_model.xml.
        device: The device.
        config: The options; None to take them from the keywords.
        **kwargs: Options and properties of the device.

    Raises:
        RuntimeError: A file is missing or invalid, or an option is out of range.
    """

    Config = EmbeddingPipelineConfig
    PoolingType = PoolingType

    @translate_errors
    def __init__(
        self, models_path: Any, device: str, config: EmbeddingPipelineConfig | None = None, **kwargs: Any
    ) -> None:
        options = EmbeddingPipelineConfig(**kwargs) if config is None else config
        options.validate()
        folder = Path(models_path)
        find_model(folder, "openvino_model.xml", "model.xml")
        properties = {name: value for name, value in kwargs.items() if name not in EmbeddingPipelineConfig._OPTIONS}
        settings = make_settings(device, properties)
        self._batch_size = options.batch_size
        self._embedder = TextEmbedder(
            folder,
            EmbeddingConfig(
                max_length=options.max_length,
                pad_to_max_length=bool(options.pad_to_max_length),
                pooling_type=options.pooling_type.name.lower(),
                normalize=options.normalize,
                query_instruction=options.query_instruction or "",
                embed_instruction=options.embed_instruction or "",
                padding_side=options.padding_side,
            ),
            **vars(settings),
        )
        self._documents: list[str] = []
        self._query = ""

    @translate_errors
    def embed(self, texts: Sequence[str], prompt: str) -> list[list[float]]:
        """Put a prefix before each text, and return their vectors.

        Raises:
            RuntimeError: The number of texts is not `batch_size`, or a layer failed.
        """
        if self._batch_size is not None and len(texts) != self._batch_size:
            raise RuntimeError(f"Number of texts passed to pipeline should be equal to batch_size({self._batch_size})")
        vectors: list[list[float]] = self._embedder.embed(list(texts), prompt).tolist()
        return vectors

    def embed_documents(self, texts: Sequence[str]) -> list[list[float]]:
        """Return the vectors of documents.

        Raises:
            RuntimeError: The number of texts is not `batch_size`, or a layer failed.
        """
        return self.embed(texts, self._embedder.config.embed_instruction)

    def embed_query(self, text: str) -> list[float]:
        """Return the vector of a query.

        Raises:
            RuntimeError: A layer failed.
        """
        (vector,) = self.embed([text], self._embedder.config.query_instruction)
        return vector

    def start_embed_documents_async(self, texts: Sequence[str]) -> None:
        """Set the documents of `wait_embed_documents`."""
        self._documents = list(texts)

    def start_embed_query_async(self, text: str) -> None:
        """Set the query of `wait_embed_query`."""
        self._query = text

    def wait_embed_documents(self) -> list[list[float]]:
        """Return the vectors of the documents that were set."""
        return self.embed_documents(self._documents)

    def wait_embed_query(self) -> list[float]:
        """Return the vector of the query that was set."""
        return self.embed_query(self._query)
