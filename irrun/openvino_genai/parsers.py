"""Parsers, which find reasoning and calls of tools in texts."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Any

from irrun.arguments import describe_value
from irrun.openvino_genai.enumerations import StreamingStatus

__all__ = [
    "DeepSeekR1ReasoningIncrementalParser",
    "DeepSeekR1ReasoningParser",
    "IncrementalParser",
    "Llama3JsonToolParser",
    "Llama3PythonicToolParser",
    "Parser",
    "Phi4ReasoningIncrementalParser",
    "Phi4ReasoningParser",
    "ReasoningIncrementalParser",
    "ReasoningParser",
    "apply_parsers",
    "join_messages",
    "to_parsers",
]

Message = dict[str, Any]

_CALL = re.compile(r"\[(.*?)\]")
_ARGUMENT = re.compile(r'(\w+)\s*=\s*"([^"]*)"')


class Parser:
    """Changes a message with the whole text as "content". Subclasses override `parse`."""

    def parse(self, message: Message) -> None:
        """Add what is found to a message.

        Raises:
            RuntimeError: A subclass does not override it.
        """
        raise RuntimeError("parse method not implemented in Python subclass")


class ReasoningParser(Parser):
    """Finds reasoning between two tags.

    Args:
        expect_open_tag: Whether the text contains the first tag, not the prompt.
        keep_original_content: Whether the reasoning stays in the content.
        open_tag: The tag in front of the reasoning.
        close_tag: The tag after it.
    """

    def __init__(
        self,
        expect_open_tag: bool = True,
        keep_original_content: bool = True,
        open_tag: str = "<think>",
        close_tag: str = "</think>",
    ) -> None:
        self._expects_open_tag = expect_open_tag
        self._keeps_content = keep_original_content
        self._tags = (open_tag, close_tag)

    def parse(self, message: Message) -> None:
        """Add the reasoning as "reasoning_content"; "" if there is none."""
        content, (open_tag, close_tag) = message["content"], self._tags
        reasoning, rest = "", content
        if self._expects_open_tag:
            start, end = content.find(open_tag), content.find(close_tag)
            if 0 <= start < end:
                reasoning = content[start + len(open_tag) : end]
                rest = content[:start] + content[end + len(close_tag) :]
        else:
            reasoning, _, rest = content.partition(close_tag)
        if not self._keeps_content:
            message["content"] = rest
        message["reasoning_content"] = reasoning


class DeepSeekR1ReasoningParser(ReasoningParser):
    """Finds the reasoning of DeepSeek-R1, whose prompt contains the first tag."""

    def __init__(self) -> None:
        super().__init__(expect_open_tag=False)


class Phi4ReasoningParser(ReasoningParser):
    """Finds the reasoning of Phi-4."""

    def __init__(self) -> None:
        super().__init__(expect_open_tag=True)


class Llama3JsonToolParser(Parser):
    """Finds a call of a tool that is a JSON object."""

    def parse(self, message: Message) -> None:
        """Add the call as "tool_calls", if there is one.

        Raises:
            RuntimeError: The text between braces is not JSON.
        """
        content = message["content"]
        start, end = content.find("{"), content.rfind("}")
        if 0 <= start < end:
            try:
                message["tool_calls"] = [json.loads(content[start : end + 1])]
            except ValueError as error:
                raise RuntimeError(f"the call of a tool is not JSON: {error}") from error


class Llama3PythonicToolParser(Parser):
    """Finds a call of a tool that looks like `[name(key="value")]`."""

    def parse(self, message: Message) -> None:
        """Add the name and the arguments of the call as "tool_calls", if there is one."""
        found = _CALL.search(message["content"])
        if found is not None:
            name, _, arguments = found[1].partition("(")
            message["tool_calls"] = [{"arguments": dict(_ARGUMENT.findall(arguments)), "name": name}]


class IncrementalParser:
    """Changes parts of a text while it is generated. Subclasses override `parse` and `reset`."""

    _status = StreamingStatus.RUNNING

    def parse(self, delta_message: Message, delta_text: str, delta_tokens: Sequence[int] | None = None) -> str:
        """Add what is found to a message, and return the text that belongs to its content.

        Raises:
            RuntimeError: A subclass does not override it.
        """
        raise RuntimeError("parse method not implemented in Python subclass")

    def reset(self) -> None:
        """Start with a new text.

        Raises:
            RuntimeError: A subclass does not override it.
        """
        raise RuntimeError('Tried to call pure virtual function "IncrementalParser::reset"')

    def get_status(self) -> StreamingStatus:
        """Return whether the generation goes on."""
        return self._status

    def set_status(self, status: StreamingStatus) -> None:
        """Set whether the generation goes on."""
        self._status = status


class ReasoningIncrementalParser(IncrementalParser):
    """Finds reasoning between two tags while the text is generated; see `ReasoningParser`."""

    def __init__(
        self,
        expect_open_tag: bool = True,
        keep_original_content: bool = True,
        open_tag: str = "<think>",
        close_tag: str = "</think>",
    ) -> None:
        self._expects_open_tag = expect_open_tag
        self._keeps_content = keep_original_content
        self._tags = (open_tag, close_tag)
        self.reset()

    def reset(self) -> None:
        """Start with a new text."""
        self._is_inside, self._is_done, self._held = not self._expects_open_tag, False, ""

    def parse(self, delta_message: Message, delta_text: str, delta_tokens: Sequence[int] | None = None) -> str:
        """Add reasoning as "reasoning_content", and return the text that belongs to the content.

        Text that may begin a tag is held back.
        """
        if self._is_done:
            return delta_text
        text, self._held = self._held + delta_text, ""
        open_tag, close_tag = self._tags
        start = -1 if self._is_inside else text.find(open_tag)
        end = text.find(close_tag)
        if not self._is_inside and start < 0:
            self._held = text
            return ""
        begin = 0 if self._is_inside else start + len(open_tag)
        if end >= 0 and (self._is_inside or end > start):
            rest = text[end + len(close_tag) :]
            delta_message["reasoning_content"], delta_message["content"] = text[begin:end], rest
            kept = text if self._is_inside else delta_text
            self._is_inside, self._is_done = False, True
            return kept if self._keeps_content else rest
        if not self._is_inside:
            self._is_inside = True
            delta_message["reasoning_content"] = text[begin:]
            return text if self._keeps_content else ""
        length = max(n for n in range(len(close_tag) + 1) if text.endswith(close_tag[:n]))
        text, self._held = text[: len(text) - length], text[len(text) - length :]
        delta_message["reasoning_content"] = text
        return text if self._keeps_content else ""


class DeepSeekR1ReasoningIncrementalParser(ReasoningIncrementalParser):
    """Finds the reasoning of DeepSeek-R1, whose prompt contains the first tag."""

    def __init__(self) -> None:
        super().__init__(expect_open_tag=False)


class Phi4ReasoningIncrementalParser(ReasoningIncrementalParser):
    """Finds the reasoning of Phi-4."""

    def __init__(self) -> None:
        super().__init__(expect_open_tag=True)


def join_messages(message: Message, delta: Message) -> None:
    """Append the texts of a message to another one, and add its other values.

    Raises:
        RuntimeError: Both have a value that is no text.
    """
    for key, value in delta.items():
        known = message.get(key)
        if key not in message:
            message[key] = value
        elif isinstance(known, dict) and isinstance(value, dict):
            join_messages(known, value)
        elif isinstance(known, str) and isinstance(value, str):
            message[key] = known + value
        else:
            raise RuntimeError(f"JsonContainer concatenate type mismatch for key '{key}'.")


def apply_parsers(parsers: Sequence[Parser], texts: Sequence[str], messages: list[Message]) -> list[Message]:
    """Return the messages of texts, parsed by all parsers, given the messages of a streamer."""
    if not parsers:
        return messages
    results = []
    for i, text in enumerate(texts):
        message = messages[i] if i < len(messages) else {"content": text}
        for parser in parsers:
            parser.parse(message)
        results.append(message)
    return results


def to_parsers(value: Any) -> list[Parser]:
    """Return a list of parsers.

    Raises:
        TypeError: The value is something else.
    """
    if isinstance(value, (str, bytes)) or not all(isinstance(parser, Parser) for parser in value):
        raise TypeError(f"expected a list of Parser, found {describe_value(value)}")
    return list(value)
