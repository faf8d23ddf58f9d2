"""SentencePiece models embedded in files; the package `sentencepiece` runs them.

OpenVINO Tokenizers 2026.4 contains SentencePiece 0.2.1. Since 0.2.2, unigram models choose differently between
tokenizations with equal scores.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from irrun.errors import InputError
from irrun.limits import check_allocation
from irrun.text.packages import import_sentencepiece
from irrun.text.patterns import compile_pattern, prepare

__all__ = ["SentencePieceModel", "SpecialTokens", "read_model"]

#: Memory that SentencePiece needs to encode a text, in bytes per byte of the text.
ENCODING_BYTES = 120

_META = re.compile(rb"[.^$*+?()\[\]{}|\\]")
_LETTERS = re.compile(rb"[A-Za-z]*")
#: The form of a piece that represents a byte. Other digits represent the byte 255.
_BYTE_PIECE = re.compile(rb"<0x..>", re.DOTALL)
_BYTES = {b"<0x%02X>" % byte: bytes([byte]) for byte in range(256)}


class SentencePieceModel:
    """A SentencePiece model.

    Args:
        content: The serialized model.

    Raises:
        InputError: The content is not a model, or the package `sentencepiece` is not installed.
    """

    def __init__(self, content: bytes) -> None:
        package = import_sentencepiece()
        self._processor: Any = package.SentencePieceProcessor()
        if not content:
            raise InputError("the SentencePiece model is empty")
        _check_pieces(content)
        try:
            self._processor.LoadFromSerializedProto(content)
        except (RuntimeError, ValueError, OSError) as error:
            raise InputError(f"the SentencePiece model cannot be read: {_get_reason(error)}") from None
        self.size: int = self._processor.GetPieceSize()
        self._pieces: list[bytes] | None = None

    def get_begin(self) -> int:
        """Return the id of the token that begins a sentence.

        Raises:
            InputError: The model has no such token.
        """
        return self._check_defined("begin", self._processor.bos_id())

    def get_end(self, required: bool) -> int:
        """Return the id of the token that ends a sentence, or -1.

        Args:
            required: Whether a missing token is an error.

        Raises:
            InputError: The model has no such token.
        """
        end: int = self._processor.eos_id()
        return self._check_defined("end", end) if required else end

    def _check_defined(self, name: str, value: int) -> int:
        if value < 0:
            raise InputError(f"the SentencePiece model has no token for the {name} of a sentence")
        return value

    def encode(self, text: bytes, sampling: tuple[int, float] | None = None) -> list[int]:
        """Return the tokens of a text.

        Args:
            text: The text.
            sampling: The number of candidates to sample from (negative for all) and the weight of their scores;
                None for the best tokens.

        Raises:
            InputError: SentencePiece fails, or needs more memory than the limit.
        """
        check_allocation((len(text), ENCODING_BYTES), np.dtype(np.uint8))
        try:
            if sampling is None:
                found: list[int] = self._processor.Encode(text, out_type=int)
            else:
                count, alpha = sampling
                found = self._processor.Encode(text, out_type=int, enable_sampling=True, nbest_size=count, alpha=alpha)
        except (RuntimeError, ValueError) as error:
            raise InputError(f"SentencePiece cannot encode a text: {_get_reason(error)}") from None
        return found

    def decode(self, tokens: Sequence[int]) -> bytes:
        """Return the text of tokens. Tokens beyond the vocabulary are omitted.

        Raises:
            InputError: A token is negative.
        """
        known = self._select(tokens)
        try:
            text = self._processor.Decode(known) if known else ""
        except (RuntimeError, ValueError) as error:
            raise InputError(f"SentencePiece cannot decode tokens: {_get_reason(error)}") from None
        return text if isinstance(text, bytes) else str(text).encode("utf-8", "surrogateescape")

    def join_pieces(self, tokens: Sequence[int]) -> bytes:
        """Return the unchanged pieces of tokens. Tokens beyond the vocabulary are omitted.

        Raises:
            InputError: A token is negative.
        """
        if self._pieces is None:
            try:
                self._pieces = [_make_piece(self._processor.IdToPiece(i)) for i in range(self.size)]
            except (RuntimeError, ValueError) as error:  # a piece is not UTF-8
                raise InputError(f"the SentencePiece model has a malformed piece: {_get_reason(error)}") from None
        pieces = self._pieces
        return b"".join([pieces[token] for token in self._select(tokens)])

    def _select(self, tokens: Sequence[int]) -> list[int]:
        if tokens and min(tokens) < 0:
            raise InputError(f"the token {min(tokens)} is negative")
        size = self.size
        return [token for token in tokens if token < size]


def read_model(content: Any) -> SentencePieceModel:
    """Return the model of an array of bytes."""
    return SentencePieceModel(content.tobytes())


class SpecialTokens:
    """Tokens at which a text is split before the model encodes it.

    A token that consists of letters must begin or end at a word boundary.

    Args:
        tokens: The tokens.
        ids: Their ids. If tokens are equal, the first one counts.
    """

    def __init__(self, tokens: Sequence[bytes], ids: Sequence[int]) -> None:
        self.ids: dict[bytes, int] = dict(zip(reversed(tokens), reversed(ids), strict=True))
        source = b""
        for token in tokens:
            if source:
                source += b"|"
            quoted = _META.sub(rb"\\\g<0>", token)
            source += rb"\b%b|%b\b" % (quoted, quoted) if _LETTERS.fullmatch(token) else quoted
        self._pattern = compile_pattern(source)

    def split(self, text: bytes) -> Iterator[tuple[bytes, int | None]]:
        """Yield each text before a token with the id of the token, and the rest with None.

        Args:
            text: The text.
        """
        decoded = text.decode("utf-8", "surrogateescape")
        position = 0
        for match in self._pattern.find_matches(prepare(decoded)):
            start, end = match.span()
            token = decoded[start:end].encode("utf-8", "surrogateescape")
            yield decoded[position:start].encode("utf-8", "surrogateescape"), self.ids[token]
            position = end
        yield decoded[position:].encode("utf-8", "surrogateescape"), None


def _check_pieces(content: bytes) -> None:
    """Check that no piece of a serialized model contains a null character, which would crash SentencePiece.

    Raises:
        InputError: A piece contains a null character.
    """
    if b"\0" not in content:
        return
    position, size = 0, len(content)
    while position < size:
        common = _COMMON_PIECE.match(content, position)  # a short message that begins with its piece
        if common is not None and content[position + 3] <= content[position + 1] - 2:
            begin, position = common.end(), position + 2 + content[position + 1]
            if content.find(b"\0", begin, begin + content[begin - 1]) >= 0:
                raise InputError("the SentencePiece model has a piece with a null character")
            if position - begin - content[begin - 1] == 5:  # only the score follows
                continue
            begin -= 2
        else:
            tag, begin, position = _read_field(content, position)
            if tag != 0x0A:
                continue
        while begin < position:
            tag, first, begin = _read_field(content, begin)
            if tag == 0x0A and content.find(b"\0", first, begin) >= 0:
                raise InputError("the SentencePiece model has a piece with a null character")


_COMMON_PIECE = re.compile(rb"\n[\x02-\x7f]\n[\0-\x7f]")


def _read_field(content: bytes, position: int) -> tuple[int, int, int]:
    """Return the tag of a protocol buffer field, and the start and the end of its value."""
    tag, position = _read_number(content, position)
    kind = tag & 7
    if kind == 0:
        return tag, position, _read_number(content, position)[1]
    if kind == 2:
        size, position = _read_number(content, position)
        return tag, position, position + size
    if kind in (1, 5):
        return tag, position, position + (8 if kind == 1 else 4)
    return tag, position, len(content)  # malformed; SentencePiece reports it


def _read_number(content: bytes, position: int) -> tuple[int, int]:
    number = 0
    for count in range(10):
        byte = content[position + count] if position + count < len(content) else 0
        number |= (byte & 0x7F) << (7 * count)
        if byte < 0x80:
            return number, position + count + 1
    return number, position + 10


def _make_piece(piece: str | bytes) -> bytes:
    """Return the text of a piece in a stream: itself or a byte."""
    encoded = piece if isinstance(piece, bytes) else piece.encode("utf-8", "surrogateescape")
    return _BYTES.get(encoded, b"\xff") if _BYTE_PIECE.fullmatch(encoded) else encoded


def _get_reason(error: Exception) -> str:
    return str(error).strip().partition("\n")[0] or type(error).__name__
