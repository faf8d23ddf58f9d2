"""`ChatHistory`: the messages of a chat."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from typing import Any

__all__ = ["ChatHistory"]


class ChatHistory:
    """The messages of a chat, with tools and further variables of its template.

    Args:
        messages: Messages such as `{"role": "user", "content": "Hello"}`.
    """

    def __init__(self, messages: Sequence[Mapping[str, Any]] = ()) -> None:
        self._messages: list[dict[str, Any]] = []
        self._tools: list[dict[str, Any]] = []
        self._extra_context: dict[str, Any] = {}
        self.set_messages(messages)

    def __len__(self) -> int:
        return len(self._messages)

    #: Elements have no index, and iteration is not supported.
    __iter__ = None

    def append(self, message: Mapping[str, Any]) -> None:
        """Add a message.

        Raises:
            TypeError: The message is not a mapping.
        """
        if not isinstance(message, Mapping):
            raise TypeError(f"append(): incompatible function arguments: expected a dict, found {message!r}")
        self._messages.append(copy.deepcopy(dict(message)))

    def pop(self) -> dict[str, Any]:
        """Remove and return the last message.

        Raises:
            IndexError: The history is empty.
        """
        if not self._messages:
            raise IndexError("Cannot pop from an empty chat history")
        return self._messages.pop()

    def clear(self) -> None:
        """Remove all messages."""
        self._messages.clear()

    def get_messages(self) -> list[dict[str, Any]]:
        """Return copies of the messages."""
        return copy.deepcopy(self._messages)

    def set_messages(self, messages: Sequence[Mapping[str, Any]]) -> None:
        """Replace all messages.

        Raises:
            TypeError: A message is not a mapping.
        """
        self._messages = []
        for message in messages:
            self.append(message)

    def get_tools(self) -> list[dict[str, Any]]:
        """Return a copy of the tool definitions."""
        return copy.deepcopy(self._tools)

    def set_tools(self, tools: Sequence[Mapping[str, Any]]) -> None:
        """Replace the tool definitions."""
        self._tools = [copy.deepcopy(dict(tool)) for tool in tools]

    def get_extra_context(self) -> dict[str, Any]:
        """Return a copy of the further variables."""
        return copy.deepcopy(self._extra_context)

    def set_extra_context(self, extra_context: Mapping[str, Any]) -> None:
        """Replace the further variables."""
        self._extra_context = copy.deepcopy(dict(extra_context))
