"""Sentence vectors: a tokenizer, a language model without a head, and the pooling of its last hidden state."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np

from irrun.arguments import check_choice, check_flag, check_texts, describe_value
from irrun.errors import InputError, ModelError
from irrun.generation.tokenization import TextTokenizer, TokenizerOptions, find_file
from irrun.ir.reader import read_model
from irrun.runtime.options import RunSettings

__all__ = ["POOLING_TYPES", "EmbeddingConfig", "TextEmbedder", "embed"]

Array = np.ndarray[Any, Any]

#: Ways to combine the vectors of a text's tokens into one vector.
POOLING_TYPES = ("cls", "mean", "last_token")
#: Names of an embedding model's inputs, and of its output, the vectors of tokens.
INPUTS = ("input_ids", "attention_mask", "token_type_ids")
OUTPUTS = ("last_hidden_state", "token_embeddings")


@dataclass(frozen=True)
class EmbeddingConfig:
    """The options of embedding, with the names and meanings of OpenVINO GenAI's TextEmbeddingPipeline.Config.

    Attributes:
        max_length: Maximum number of tokens; the rest of a text is ignored. None for the tokenizer's limit.
        pad_to_max_length: Whether shorter texts are padded to `max_length`.
        batch_size: The number of texts per run; None for all.
        pooling_type: "cls" for the vector of the first token, "mean" for the mean of all tokens, or "last_token".
        normalize: Whether vectors have the length 1.
        query_instruction: Prefix of queries.
        embed_instruction: Prefix of documents.
        padding_side: "left" or "right"; None for the side of the tokenizer.
    """

    max_length: int | None = None
    pad_to_max_length: bool = False
    batch_size: int | None = None
    pooling_type: str = "cls"
    normalize: bool = True
    query_instruction: str = ""
    embed_instruction: str = ""
    padding_side: str | None = None

    def __post_init__(self) -> None:
        """Check the values.

        Raises:
            InputError: A value is out of range.
        """
        check_choice("pooling_type", self.pooling_type, POOLING_TYPES)
        check_choice("padding_side", self.padding_side, (None, "left", "right"))
        for name in ("normalize", "pad_to_max_length"):
            check_flag(name, getattr(self, name))
        for name in ("max_length", "batch_size"):
            value = getattr(self, name)
            if value is not None and (not isinstance(value, int) or value < 1):
                raise InputError(f"{name} is {describe_value(value)}; expected a positive integer")
        for name in ("query_instruction", "embed_instruction"):
            if not isinstance(getattr(self, name), str):
                raise InputError(f"{name} is {describe_value(getattr(self, name))}; expected a text")


class TextEmbedder:
    """Converts texts to vectors with the models in a folder.

    Args:
        folder: The folder with openvino_tokenizer.xml and openvino_model.xml.
        config: The options.
        **options: Options of runs, such as `jit`, `threads`, `memory` and `timeout`.

    Raises:
        InputError: A file is missing, or an option is out of range.
        ModelError: A file is damaged, or the model has other inputs or outputs.
    """

    def __init__(self, folder: str | Path, config: EmbeddingConfig | None = None, **options: Any) -> None:
        path = Path(folder)
        self.config = config or EmbeddingConfig()
        self._settings = RunSettings(**options)
        self._tokenizer = TextTokenizer.read(path, self._settings, decodes=False)
        self._model = self._settings.compile(read_model(find_file(path, "openvino_model.xml", "model.xml")))
        model = self._model.model
        self._inputs = [next((name for name in INPUTS if name in spec.names), spec.any_name) for spec in model.inputs]
        if any(name not in INPUTS for name in self._inputs):
            raise ModelError(
                f"the inputs of the embedding model are {', '.join(self._inputs)}; expected {', '.join(INPUTS)}",
                path=model.path,
            )
        names = [name for spec in model.outputs for name in spec.names]
        output = next((name for name in OUTPUTS if name in names), None)
        if output is None:
            raise ModelError(
                f"the embedding model has no output {' or '.join(OUTPUTS)}; found {', '.join(names)}", path=model.path
            )
        self._output = output

    def embed_documents(self, texts: Sequence[str]) -> Array:
        """Return the vectors of documents, f32 of shape [texts, size].

        Args:
            texts: The texts; `embed_instruction` is put before each.

        Raises:
            InputError: `texts` is empty.
            IrrunError: A layer failed.
        """
        return self.embed(texts, self.config.embed_instruction)

    def embed_query(self, text: str) -> Array:
        """Return the vector of a query, f32 of shape [size].

        Args:
            text: The text; `query_instruction` is put before it.

        Raises:
            IrrunError: A layer failed.
        """
        vector: Array = self.embed([text], self.config.query_instruction)[0]
        return vector

    def embed(self, texts: Sequence[str], instruction: str = "") -> Array:
        """Return the vectors of texts, f32 of shape [texts, size].

        Args:
            texts: The texts.
            instruction: Prefix of each text.

        Raises:
            InputError: `texts` is empty.
            IrrunError: A layer failed.
        """
        if not texts:
            raise InputError("there are no texts")
        size = self.config.batch_size or len(texts)
        whole = [instruction + text for text in texts]
        return np.concatenate([self._embed_batch(whole[start : start + size]) for start in range(0, len(whole), size)])

    def _embed_batch(self, texts: Sequence[str]) -> Array:
        config = self.config
        options = TokenizerOptions(
            truncation=True,
            max_length=config.max_length,
            pad_to_max_length=config.pad_to_max_length,
            padding_side=config.padding_side,
        )
        tokens, mask = self._tokenizer.encode(texts, options)
        if tokens.shape[1] == 0:
            raise InputError("the texts have no tokens")
        values = {"input_ids": tokens, "attention_mask": mask, "token_type_ids": np.zeros_like(tokens)}
        outputs = self._settings.infer(self._model, {name: values[name] for name in self._inputs})
        states: Array = outputs[self._output]
        if states.shape[:2] != tokens.shape or states.ndim != 3:
            raise ModelError(
                f"the output {self._output} has the shape {list(states.shape)}, expected {[*tokens.shape, 'size']}",
                path=self._model.model.path,
            )
        vectors = _pool(states.astype(np.float32, copy=False), mask, config.pooling_type)
        if config.normalize:
            squares = np.einsum("ij,ij->i", vectors, vectors)[:, None]
            vectors = vectors / np.sqrt(np.maximum(squares, np.float32(1e-12)))
        return vectors


def _pool(states: Array, mask: Array, pooling_type: str) -> Array:
    """Return a vector for each text.

    Args:
        states: f32 of shape [texts, tokens, size].
        mask: 0 for padding, i64 of shape [texts, tokens].
        pooling_type: An element of `POOLING_TYPES`.
    """
    result: Array
    if pooling_type == "cls":
        result = states[:, 0]
    elif pooling_type == "mean":
        weights = mask.astype(np.float32)
        counts = np.maximum(weights.sum(axis=1, keepdims=True), np.float32(1e-12))
        result = np.einsum("ijk,ij->ik", states, weights) / counts
    else:
        result = states[np.arange(len(states)), mask.shape[1] - 1 - mask[:, ::-1].argmax(axis=1)]
    return result


def embed(
    folder: str | Path,
    texts: str | Sequence[str],
    config: EmbeddingConfig | Mapping[str, Any] | None = None,
    *,
    is_query: bool = False,
    **options: Any,
) -> Array:
    """Convert texts to vectors with the models in a folder; see `TextEmbedder`.

    Args:
        folder: A folder exported by optimum-intel.
        texts: A text, or several texts.
        config: A configuration, or its fields: `{"pooling_type": "mean"}`.
        is_query: Whether texts are queries, which get `query_instruction` instead of `embed_instruction`.
        **options: Options of `TextEmbedder`.

    Returns:
        f32 of shape [size] for a text, and [texts, size] for several.

    Raises:
        IrrunError: A file is missing or damaged, an option is out of range, or a layer failed.
    """
    if not isinstance(config, EmbeddingConfig):
        names = [field.name for field in fields(EmbeddingConfig)]
        for name in config or {}:
            if name not in names:
                raise InputError(f"unknown option {name}; expected one of {', '.join(names)}")
        config = EmbeddingConfig(**(config or {}))
    checked = check_texts("texts", texts)
    embedder = TextEmbedder(folder, config, **options)
    vectors = embedder.embed(checked, config.query_instruction if is_query else config.embed_instruction)
    return vectors[0] if isinstance(texts, str) else vectors
