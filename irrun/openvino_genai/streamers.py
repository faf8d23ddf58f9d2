"""Streamers, which receive tokens or texts as they are generated."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from typing import Any, SupportsInt

from irrun.openvino_genai.enumerations import StreamingStatus
from irrun.openvino_genai.parsers import IncrementalParser, join_messages
from irrun.openvino_genai.tokenizer import Tokenizer

__all__ = ["StreamerBase", "TextParserStreamer", "TextStreamer", "make_streamer", "to_status"]

#: Number of last tokens whose text may become shorter with later tokens.
DELAY = 3
#: The replacement of an incomplete character.
INCOMPLETE = "\N{REPLACEMENT CHARACTER}"


class StreamerBase:
    """Receives tokens. Subclasses override both methods."""

    def write(self, token: SupportsInt | Sequence[SupportsInt]) -> StreamingStatus | bool:
        """Receive a token, or a list of tokens, and return whether to continue.

        Raises:
            RuntimeError: A subclass does not override it.
        """
        raise RuntimeError('Tried to call pure virtual function "StreamerBase::write"')

    def end(self) -> None:
        """Receive the end of the text.

        Raises:
            RuntimeError: A subclass does not override it.
        """
        raise RuntimeError('Tried to call pure virtual function "StreamerBase::end"')


class TextStreamer(StreamerBase):
    """Converts tokens to parts of a text, as soon as later tokens cannot change them.

    Args:
        tokenizer: Converts tokens to texts.
        callback: Receives the parts, and returns a status, or True to stop.
        detokenization_params: Options of `Tokenizer.decode`.
    """

    def __init__(
        self,
        tokenizer: Tokenizer,
        callback: Callable[[str], Any],
        detokenization_params: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__()
        self._tokenizer = tokenizer
        self._callback = callback
        self._options = dict(detokenization_params or {})
        self._clear()

    def _clear(self) -> None:
        self._tokens: list[int] = []
        #: The length of the text after each token; -1 if it is incomplete, None if it was not decoded.
        self._lengths: list[int | None] = []
        self._printed = 0

    def _decode(self, count: int) -> str:
        text: str = self._tokenizer.decode(self._tokens[:count], **self._options)
        return text

    def write(self, token: SupportsInt | Sequence[SupportsInt]) -> StreamingStatus:
        """Receive tokens, and pass on the final parts of the text."""
        tokens = [int(t) for t in token] if isinstance(token, Sequence) else [int(token)]
        if not tokens:
            return StreamingStatus.RUNNING
        self._tokens += tokens
        text = self._decode(len(self._tokens))
        self._lengths += [None] * (len(tokens) - 1) + [len(text)]
        if text.endswith("\n") and len(text) > self._printed:
            part = text[self._printed :]
            self._clear()
            return self._pass_on(part)
        if text.endswith(INCOMPLETE):
            self._lengths[-1] = -1
            return StreamingStatus.RUNNING
        position = len(self._lengths) - DELAY
        if position < 0:
            return StreamingStatus.RUNNING
        length = self._lengths[position]
        if length is None:
            shorter = self._decode(position + 1)
            length = self._lengths[position] = -1 if shorter.endswith(INCOMPLETE) else len(shorter)
        part = text[self._printed : length] if length > self._printed else ""
        self._printed = max(self._printed, length)
        return self._pass_on(part)

    def end(self) -> None:
        """Pass on the rest of the text."""
        part = self._decode(len(self._tokens))[self._printed :]
        if part:
            self._clear()
            self._callback(part)

    def _pass_on(self, part: str) -> StreamingStatus:
        return to_status(self._callback(part)) if part else StreamingStatus.RUNNING


class TextParserStreamer(TextStreamer):
    """Converts tokens to parts of a text, and passes on what parsers find in them. Subclasses override `write`.

    Args:
        tokenizer: Converts tokens to texts.
        parsers: The parsers.
    """

    def __init__(self, tokenizer: Tokenizer, parsers: Sequence[IncrementalParser] = ()) -> None:
        super().__init__(tokenizer, self._parse)
        self._parsers = list(parsers)
        self._message: dict[str, Any] = {"content": ""}

    def write(self, message: Any) -> Any:
        """Receive a message, and return whether to continue.

        Raises:
            RuntimeError: A subclass does not override it.
        """
        raise RuntimeError('Tried to call pure virtual function "TextParserStreamer::write"')

    def _write(self, chunk: Any) -> StreamingStatus:
        """Receive tokens or a part of a text."""
        return self._parse(chunk) if isinstance(chunk, str) else TextStreamer.write(self, chunk)

    def _parse(self, text: str) -> StreamingStatus:
        message: dict[str, Any] = {}
        status = StreamingStatus.RUNNING
        for parser in self._parsers:
            text = parser.parse(message, text, None)
            status = parser.get_status()
            if status is not StreamingStatus.RUNNING:
                break
        message["content"] = text
        join_messages(self._message, message)
        answer = to_status(self.write(message))
        return answer if status is StreamingStatus.RUNNING else status

    def get_parsed_message(self) -> dict[str, Any]:
        """Return all messages, joined."""
        return copy.deepcopy(self._message)

    def reset(self) -> None:
        """Start with a new text."""
        self._message = {"content": ""}
        for parser in self._parsers:
            parser.reset()


class _TokenWriter(StreamerBase):
    """Passes tokens on to a streamer whose `write` receives messages.

    Args:
        streamer: The streamer.
    """

    def __init__(self, streamer: TextParserStreamer) -> None:
        self._streamer = streamer

    def write(self, token: SupportsInt | Sequence[SupportsInt]) -> StreamingStatus:
        """Receive tokens."""
        return self._streamer._write(token)

    def end(self) -> None:
        """Receive the end of the text."""
        self._streamer.end()


def to_status(value: Any) -> StreamingStatus:
    """Convert the result of a callback to a status. True is STOP; None and False are RUNNING."""
    if isinstance(value, StreamingStatus):
        return value
    return StreamingStatus.STOP if value else StreamingStatus.RUNNING


def make_streamer(streamer: Any, tokenizer: Tokenizer) -> StreamerBase | None:
    """Return a streamer of tokens.

    Args:
        streamer: A streamer, a function of texts, or None.
        tokenizer: Converts tokens to texts.

    Raises:
        TypeError: The streamer is something else.
    """
    if isinstance(streamer, TextParserStreamer):
        return _TokenWriter(streamer)
    if streamer is None or isinstance(streamer, StreamerBase):
        return streamer
    if not callable(streamer):
        raise TypeError(f"streamer is {streamer!r}; expected a function, a StreamerBase or None")
    return TextStreamer(tokenizer, streamer)
