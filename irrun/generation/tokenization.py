"""The tokenizer and detokenizer of a folder, with the options that OpenVINO GenAI sets at run time."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from html import unescape
from pathlib import Path
from typing import Any

import numpy as np

from irrun.element_types import ELEMENT_TYPES
from irrun.errors import InputError, UnsupportedError
from irrun.ir.editor import GraphEditor
from irrun.ir.graph import Layer
from irrun.ir.model import Model
from irrun.ir.reader import read_model
from irrun.runtime.compiled_model import CompiledModel
from irrun.runtime.options import DEFAULT_SETTINGS, RunSettings

__all__ = ["TextTokenizer", "TokenizerOptions", "find_file"]

Array = np.ndarray[Any, Any]

TOKENIZER, DETOKENIZER = "openvino_tokenizer.xml", "openvino_detokenizer.xml"
#: The length limit of texts that are not truncated.
NO_LIMIT = 2**31 - 65


def find_file(folder: Path, *names: str) -> Path:
    """Return the first file that exists.

    Args:
        folder: The folder to search.
        names: Names of files.

    Raises:
        InputError: The folder or file does not exist.
    """
    if not folder.is_dir():
        raise InputError(f"{folder} is not a folder; expected a folder with {' or '.join(names)}")
    for name in names:
        if (folder / name).exists():
            return folder / name
    raise InputError(f"{folder} has no {' or '.join(names)}")


@dataclass(frozen=True)
class TokenizerOptions:
    """The options of tokenization, with the names and meanings of OpenVINO GenAI's Tokenizer.

    Attributes:
        add_special_tokens: Whether tokens such as [CLS] and [SEP] are added.
        truncation: Whether texts are truncated to `max_length`.
        max_length: Maximum number of tokens; None for the limit of the tokenizer.
        pad_to_max_length: Whether shorter texts are padded to `max_length`.
        padding_side: "left" or "right"; None for the side of the tokenizer.
    """

    add_special_tokens: bool = True
    truncation: bool = False
    max_length: int | None = None
    pad_to_max_length: bool = False
    padding_side: str | None = None

    def __post_init__(self) -> None:
        """Check the values.

        Raises:
            InputError: A value is out of range.
        """
        if self.padding_side not in (None, "left", "right"):
            raise InputError(f"padding_side is {self.padding_side!r}; expected left or right")
        if self.max_length is not None and self.max_length < 1:
            raise InputError(f"max_length is {self.max_length}; expected at least 1")


class TextTokenizer:
    """Converts texts to tokens and back.

    Args:
        tokenizer: The tokenizer, or None if texts need not be converted.
        detokenizer: The detokenizer, or None if tokens need not be converted.
        settings: The settings for compiling both.
    """

    def __init__(
        self, tokenizer: Model | None, detokenizer: Model | None, settings: RunSettings = DEFAULT_SETTINGS
    ) -> None:
        self.tokenizer, self.detokenizer = tokenizer, detokenizer
        self._settings = settings
        self._compiled: dict[TokenizerOptions | bool, CompiledModel] = {}

    @classmethod
    def read(cls, folder: Path, settings: RunSettings = DEFAULT_SETTINGS, *, decodes: bool = True) -> TextTokenizer:
        """Read the files of a folder.

        Args:
            folder: The folder.
            settings: The settings for compiling models.
            decodes: Whether to read the detokenizer, too.

        Raises:
            InputError: A file is missing.
            ModelError: A file is damaged.
        """
        tokenizer = read_model(find_file(folder, TOKENIZER))
        return cls(tokenizer, read_model(find_file(folder, DETOKENIZER)) if decodes else None, settings)

    @property
    def takes_pairs(self) -> bool:
        """Whether the tokenizer has an input for second texts."""
        return self.tokenizer is not None and len(self.tokenizer.inputs) > 1

    def get_info(self, name: str) -> str | None:
        """Return an entry of `rt_info` of the tokenizer or the detokenizer, or None.

        Args:
            name: The name, such as "eos_token_id".
        """
        for model in (self.tokenizer, self.detokenizer):
            match = re.search(rf'<{re.escape(name)} value="([^"]*)"', (model.rt_info if model else None) or "")
            if match:
                return unescape(match[1])
        return None

    def get_token(self, name: str) -> int | None:
        """Return a token in `rt_info`, or None.

        Args:
            name: The name, such as "eos_token_id".
        """
        text = self.get_info(name) or ""
        return int(text) if text.isascii() and text.isdigit() and len(text) < 10 else None

    def encode(
        self, texts: Sequence[str], options: TokenizerOptions | None = None, pairs: Sequence[str] | None = None
    ) -> tuple[Array, Array]:
        """Return `input_ids` and `attention_mask`, i64 of shape [texts, tokens].

        Args:
            texts: The texts.
            options: The options.
            pairs: The second text of each pair.

        Raises:
            InputError: The folder has no tokenizer, or it does not support pairs.
            IrrunError: A layer failed.
        """
        if self.tokenizer is None:
            raise InputError("there is no tokenizer")
        if pairs is not None and not self.takes_pairs:
            raise InputError("the tokenizer does not support pairs of texts")
        options = options or TokenizerOptions()
        if options not in self._compiled:
            self._compiled[options] = self._settings.compile(_apply(self.tokenizer, options))
        values = [np.array(list(texts), object)]
        if self.takes_pairs:
            values.append(np.array(list(pairs or ()), object))
        outputs = self._compiled[options](values)
        return outputs["input_ids"].astype(np.int64), outputs["attention_mask"].astype(np.int64)

    def decode(self, rows: Array, *, skip_special_tokens: bool = True) -> list[str]:
        """Return the texts of tokens.

        Args:
            rows: i64 of shape [texts, tokens].
            skip_special_tokens: Whether to omit special tokens.

        Raises:
            InputError: The folder has no detokenizer.
            IrrunError: A layer failed.
        """
        if self.detokenizer is None:
            raise InputError("there is no detokenizer")
        if skip_special_tokens not in self._compiled:
            model = self.detokenizer if skip_special_tokens else _keep_special_tokens(self.detokenizer)
            self._compiled[skip_special_tokens] = self._settings.compile(model)
        if rows.shape[1] == 0:
            return [""] * len(rows)
        values = self._compiled[skip_special_tokens]([rows])[0]
        return [text.decode("utf-8", "replace") if isinstance(text, bytes) else str(text) for text in values]


def _apply(model: Model, options: TokenizerOptions) -> Model:
    """Return a tokenizer with the options as constants."""
    editor = GraphEditor(model.graph)
    segments = editor.graph.find_layers("CombineSegments")
    limit = _set_length(editor, segments[-1], options) if segments else options.max_length
    for layer in editor.graph.find_layers("RaggedToDense"):
        length = editor.get_source(layer, 3)
        if options.pad_to_max_length and limit is not None and length is not None:
            address = editor.add_constant(limit, "max_length", "i32")
            kind = ELEMENT_TYPES["i32"]
            larger = editor.add_layer("Maximum", "opset1", (length, address), name="padded_length", element_type=kind)
            editor.set_input(layer, 3, larger)
        if options.padding_side is not None:
            editor.set_attributes(layer, {"pad_right": str(options.padding_side == "right").lower()})
    return replace(model, graph=editor.finish())


def _set_length(editor: GraphEditor, segments: Layer, options: TokenizerOptions) -> int | None:
    """Set which special tokens a tokenizer adds and where it truncates; return the maximum number of tokens.

    The inputs of CombineSegments are begins, ends and elements of each segment. Ends of special tokens are constants.
    """
    special = []
    for position in range(0, len(segments.inputs) - 1, 3):
        begin, end = (editor.get_producer(segments, position + i) for i in (0, 1))
        if begin is not None and end is not None and begin.type != "Subtract" and end.type not in ("Add", "Truncate"):
            special.append(position + 1)
    source = _find_limit(editor)
    if not options.add_special_tokens:
        nothing = editor.add_constant(0, "no_special_tokens", "i32")
        for position in special:
            editor.set_input(segments, position, nothing)
    if source is None:
        return options.max_length
    layer, position, limit = source
    total = options.max_length if options.max_length is not None else limit + len(special)
    added = len(special) if options.add_special_tokens else 0
    address = editor.add_constant(max(total - added, 0) if options.truncation else NO_LIMIT, "max_length", "i32")
    old = editor.get_source(layer, position)
    for consumer, index in editor.get_consumers(old) if old else ():
        editor.set_input(consumer, index, address)
    return total


def _find_limit(editor: GraphEditor) -> tuple[Layer, int, int] | None:
    """Return the layer that truncates, the input that gives the limit, and the limit; or None."""
    for layer in editor.graph.layers:
        if layer.type == "Truncate":
            position = len(layer.inputs) - 3
        elif layer.type == "Minimum":  # older tokenizers truncate like this
            position = 1
        else:
            continue
        producer = editor.get_producer(layer, position)
        if producer is not None and producer.type == "Select":  # selects the limit or none
            producer = editor.get_producer(producer, 1)
        if producer is not None and producer.constant is not None:
            value = producer.constant.to_array()
            if value.size == 1:
                return layer, position, int(value.reshape(-1)[0])
    return None


def _keep_special_tokens(model: Model) -> Model:
    """Return a detokenizer that keeps special tokens.

    Raises:
        UnsupportedError: It comes from a release that stores them as an attribute.
    """
    editor = GraphEditor(model.graph)
    for layer in editor.graph.find_layers("VocabDecoder")[:1]:
        if len(layer.inputs) < 5:
            raise UnsupportedError("the detokenizer cannot keep special tokens; it comes from an older release")
        editor.set_input(layer, 4, editor.add_constant(np.empty(0, np.int32), "skip_tokens", "i32"))
    return replace(model, graph=editor.finish())
