"""`Tokenizer`: converts texts to tokens and back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from irrun.generation.chat_template import ChatTemplateError, render_chat
from irrun.generation.folder_files import SpecialTokens, find_chat_template
from irrun.generation.tokenization import DETOKENIZER, TOKENIZER, TextTokenizer, TokenizerOptions
from irrun.ir.model import Model
from irrun.ir.reader import read_model
from irrun.openvino.errors import translate_errors
from irrun.openvino.tensor import Tensor
from irrun.openvino_genai.chat_history import ChatHistory

__all__ = ["TokenizedInputs", "Tokenizer"]

Array = np.ndarray[Any, Any]


class TokenizedInputs:
    """The tokens of texts.

    Args:
        input_ids: i64 of shape [texts, tokens].
        attention_mask: 0 for padding, i64 of shape [texts, tokens].

    Attributes:
        input_ids: The first argument.
        attention_mask: The second one.
    """

    def __init__(self, input_ids: Tensor, attention_mask: Tensor) -> None:
        self.input_ids = input_ids
        self.attention_mask = attention_mask


class Tokenizer:
    """Converts texts to tokens and back.

    Args:
        tokenizer_path: A folder with openvino_tokenizer.xml and openvino_detokenizer.xml; or the contents of the first
            file, followed by its weights, the contents of the second file and its weights.
        *rest: See above.
        properties: Properties. They have no effect.
        **kwargs: The same.

    Raises:
        RuntimeError: A file is missing or invalid.
    """

    @translate_errors
    def __init__(
        self, tokenizer_path: Any = None, *rest: Any, properties: Mapping[str, Any] | None = None, **kwargs: Any
    ) -> None:
        names = ("tokenizer_weights", "detokenizer_model", "detokenizer_weights")
        parts = [*rest, *(kwargs.pop(name) for name in names[len(rest) :] if name in kwargs)]
        source = kwargs.pop("tokenizer_model", tokenizer_path)
        folder: Path | None = None
        if len(parts) == len(names):
            models: tuple[Model | None, Model | None] = (_read(source, parts[0]), _read(parts[1], parts[2]))
        else:
            folder = Path(source)
            if folder.suffix == ".xml":
                raise RuntimeError("'models_path' parameter should be a path to a dir not a xml file")
            paths = [folder / name for name in (TOKENIZER, DETOKENIZER)]
            if not any(path.exists() for path in paths):
                raise RuntimeError(f"Neither tokenizer nor detokenzier models were provided: {folder} has none")
            tokenizer, detokenizer = (read_model(path) if path.exists() else None for path in paths)
            models = tokenizer, detokenizer
        self._tokenizer = TextTokenizer(*models)
        special = SpecialTokens(self._tokenizer, folder)
        self._ids, self._texts = special.ids, special.texts
        template = None if folder is None else find_chat_template(folder)
        self._template = self._original_template = template or self._tokenizer.get_info("chat_template") or ""

    @translate_errors
    def encode(
        self,
        prompts: Any = None,
        prompts_2: Sequence[str] | None = None,
        add_special_tokens: bool = True,
        pad_to_max_length: bool = False,
        max_length: int | None = None,
        padding_side: str | None = None,
        truncation: bool = False,
        *,
        prompt: str | None = None,
        prompts_1: Sequence[str] | None = None,
    ) -> TokenizedInputs:
        """Convert texts to tokens.

        Args:
            prompts: A text, several, or several pairs.
            prompts_2: The second text of each pair.
            add_special_tokens: Whether tokens such as [CLS] are added.
            pad_to_max_length: Whether texts are padded to `max_length`.
            max_length: Maximum number of tokens; None for the limit of the tokenizer.
            padding_side: "left" or "right"; None for the side of the tokenizer.
            truncation: Whether texts are truncated to `max_length`.
            prompt: The first argument, if it is one text.
            prompts_1: The first argument, if `prompts_2` is given.

        Raises:
            RuntimeError: The folder has no tokenizer, or it does not support pairs.
            TypeError: An argument has a wrong type.
        """
        if isinstance(prompts_2, bool):  # positional arguments without second texts
            raise TypeError("encode(): pass options by keyword")
        values: Any = next((v for v in (prompts, prompts_1, prompt) if v is not None), None)
        texts: list[Any] = [values] if isinstance(values, str) else list(values)
        if texts and all(isinstance(pair, (list, tuple)) and len(pair) == 2 for pair in texts):
            texts, prompts_2 = [pair[0] for pair in texts], [pair[1] for pair in texts]
        if not all(isinstance(text, str) for text in (*texts, *(prompts_2 or ()))):
            raise TypeError("encode(): incompatible function arguments: expected texts")
        options = TokenizerOptions(add_special_tokens, truncation, max_length, pad_to_max_length, padding_side)
        tokens, mask = self._tokenizer.encode(texts, options, prompts_2)
        return TokenizedInputs(Tensor(tokens), Tensor(mask))

    @translate_errors
    def decode(self, tokens: Any, skip_special_tokens: bool = True) -> Any:
        """Convert tokens to a text, or several rows of tokens to several texts.

        Args:
            tokens: The tokens.
            skip_special_tokens: Whether to omit special tokens.

        Raises:
            RuntimeError: The folder has no detokenizer.
        """
        if isinstance(tokens, Tensor):
            return self._tokenizer.decode(tokens.data, skip_special_tokens=skip_special_tokens)
        rows = list(tokens)
        if not any(isinstance(row, (Sequence, np.ndarray)) for row in rows):
            return self._decode_row(rows, skip_special_tokens)
        return [self._decode_row(row, skip_special_tokens) for row in rows]

    def _decode_row(self, tokens: Sequence[int], skips: bool) -> str:
        return self._tokenizer.decode(np.array([tokens], np.int64), skip_special_tokens=skips)[0]

    def apply_chat_template(
        self,
        history: ChatHistory | Sequence[Mapping[str, Any]],
        add_generation_prompt: bool,
        chat_template: str = "",
        tools: Sequence[Mapping[str, Any]] | None = None,
        extra_context: Mapping[str, Any] | None = None,
    ) -> str:
        """Return the messages of a chat as a text.

        Args:
            history: The messages.
            add_generation_prompt: Whether to append the prefix of an answer.
            chat_template: The template; empty for the folder's template.
            tools: Definitions of tools; None for the history's tools.
            extra_context: Further variables; None for the history's variables.

        Raises:
            RuntimeError: The tokenizer has no template, or it failed.
        """
        if not isinstance(history, ChatHistory):
            history = ChatHistory(history)
        template = chat_template or self._template
        if not template:
            raise RuntimeError(
                "Chat template wasn't found. This may indicate that the model wasn't trained for chat scenario. Please "
                "add 'chat_template' to tokenizer_config.json to use the model in chat scenario."
            )
        variables: dict[str, Any] = {f"{name}_token": text for name, text in self._texts.items()}
        if tools := (history.get_tools() if tools is None else tools):
            variables["tools"] = tools
        variables |= history.get_extra_context() if extra_context is None else extra_context
        try:
            text = render_chat(template, history.get_messages(), add_generation_prompt, variables)
        except ChatTemplateError as error:
            raise RuntimeError(f"the chat template failed: {error}") from error
        if not text:
            raise RuntimeError("Applied chat template resulted in an empty string.")
        return text

    @property
    def chat_template(self) -> str:
        """The chat template; empty if there is none."""
        return self._template

    @chat_template.setter
    def chat_template(self, chat_template: str) -> None:
        self.set_chat_template(chat_template)

    def set_chat_template(self, chat_template: str) -> None:
        """Set the chat template."""
        self._template = self._original_template = chat_template

    def get_original_chat_template(self) -> str:
        """Return the chat template."""
        return self._original_template

    def get_pad_token_id(self) -> int:
        """Return the padding token, or -1."""
        return self._ids["pad"]

    def get_bos_token_id(self) -> int:
        """Return the token that begins texts, or -1."""
        return self._ids["bos"]

    def get_eos_token_id(self) -> int:
        """Return the token that ends texts, or -1."""
        return self._ids["eos"]

    def get_pad_token(self) -> str:
        """Return the padding token as a text."""
        return self._texts["pad"]

    def get_bos_token(self) -> str:
        """Return the token that begins texts as a text."""
        return self._texts["bos"]

    def get_eos_token(self) -> str:
        """Return the token that ends texts as a text."""
        return self._texts["eos"]

    def get_vocab(self) -> dict[bytes, int]:
        """Return bytes -> token. The bytes may not be valid UTF-8.

        Raises:
            RuntimeError: The detokenizer has no vocabulary.
        """
        return {text: token for token, text in enumerate(self._read_vocabulary())}

    def get_vocab_vector(self) -> list[str]:
        """Return the texts of all tokens.

        Raises:
            RuntimeError: The detokenizer has no vocabulary.
        """
        return [text.decode("utf-8", "replace") for text in self._read_vocabulary()]

    @translate_errors
    def _read_vocabulary(self) -> list[bytes]:
        model = self._tokenizer.detokenizer
        decoders = model.graph.find_layers("VocabDecoder") if model is not None else []
        if model is None or not decoders:
            raise RuntimeError("the detokenizer has no vocabulary")
        sources = {(edge.to_layer, edge.to_port): edge.from_layer for edge in model.graph.edges}
        constants = {layer.id: layer.constant for layer in model.graph.layers}
        arrays = []
        for port in decoders[0].inputs[1:4]:
            constant = constants.get(sources.get((decoders[0].id, port.id), -1))
            if constant is None:
                raise RuntimeError("the vocabulary of the detokenizer is not constant")
            arrays.append(constant.to_array())
        begins, ends, characters = arrays
        content = characters.tobytes()
        return [content[begin:end] for begin, end in zip(begins.tolist(), ends.tolist(), strict=True)]

    def supports_paired_input(self) -> bool:
        """Return whether the tokenizer supports pairs of texts."""
        return self._tokenizer.takes_pairs


def _read(model: Any, weights: Any) -> Model:
    """Read a model from its contents and its weights."""
    content = model.encode() if isinstance(model, str) else model
    return read_model(content, np.ascontiguousarray(weights.data) if isinstance(weights, Tensor) else weights)
