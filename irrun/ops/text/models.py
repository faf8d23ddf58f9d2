"""Operations that split words into tokens by a vocabulary."""

from __future__ import annotations

from functools import partial

import numpy as np

from irrun.errors import InputError
from irrun.limits import check_allocation
from irrun.ops._support.docstrings import describes_like
from irrun.ops._support.numerics import Array
from irrun.ops._support.registry import op
from irrun.text.bpe import BytePairEncoder
from irrun.text.ragged import check_strings, list_strings
from irrun.text.reuse import reuse
from irrun.text.trie import TrieEncoder
from irrun.text.unigram import UnigramEncoder
from irrun.text.wordpiece import WordPieceEncoder
from irrun.text.words import encode_rows, read_vocabulary

__all__ = ["bpe_tokenizer", "trie_tokenizer", "unigram_tokenizer", "vocab_encoder", "wordpiece_tokenizer"]

_tokenizer = partial(op, opset="extension", shape="infer_ragged_tokens", flops=0, output_types=("i32", "i32", "i32"))


@_tokenizer("BPETokenizer")
def bpe_tokenizer(
    row_begins: Array,
    row_ends: Array,
    begins: Array,
    ends: Array,
    chars: Array,
    *vocabulary: Array,
    unk_token: str = "",
    fuse_unk: bool = False,
    suffix_indicator: str = "",
    end_suffix: str = "",
    byte_fallback: bool = False,
    cache_capacity: int = 20000,
) -> tuple[Array, ...]:
    """Split words into tokens by byte pair encoding.

    Equal pairs that become neighbors in the same merge are merged in the order of a heap of libstdc++, on which
    OpenVINO Tokenizers relies.

    Args:
        row_begins: i32, any shape.
        row_ends: i32, the shape of `row_begins`.
        begins: i32 [words].
        ends: i32 [words].
        chars: u8 [bytes].
        vocabulary: The tokens as three inputs, whose ids are their positions; the pairs that merge by rank, as three
            inputs with a space between the parts, or six with the left and the right parts; if there are four more,
            added tokens as three inputs and their ids, i32.
        unk_token: The token of bytes without token.
        fuse_unk: Not used, as in OpenVINO Tokenizers.
        suffix_indicator: Not used, as in OpenVINO Tokenizers.
        end_suffix: The suffix of each word.
        byte_fallback: Whether tokens such as `<0x0A>` represent bytes without a token.
        cache_capacity: Not used: how many words are kept does not change results.

    Returns:
        Where each row begins and ends, i32 of the shape of `row_begins`, and its tokens, i32 [tokens].

    Raises:
        InputError: Rows, words or tokens exceed what they refer to, the number of inputs is wrong, or the vocabulary
            lacks a token that a merge needs.

    Spec:
        Defined by bpe_tokenizer.cpp of OpenVINO Tokenizers
    """
    del fuse_unk, suffix_indicator, cache_capacity
    if len(vocabulary) not in (6, 9, 10, 13):
        raise InputError(f"found {5 + len(vocabulary)} inputs, expected 11, 14, 15 or 18")
    encoder = reuse(_build_bpe, vocabulary, unk_token, end_suffix, byte_fallback)
    return encode_rows(encoder, row_begins, row_ends, begins, ends, chars)


def _build_bpe(*inputs: Array | str | bool) -> BytePairEncoder:
    """Return the encoder of a vocabulary, followed by three attributes."""
    *arrays, unknown, end_suffix, byte_fallback = inputs
    strings = [array for array in arrays if isinstance(array, np.ndarray)]
    tokens = read_vocabulary(*strings[:3])
    vocabulary = dict(zip(tokens, range(len(tokens)), strict=True))
    lefts = read_vocabulary(*strings[3:6])
    if len(strings) in (9, 13):
        rights = read_vocabulary(*strings[6:9])
        if len(lefts) != len(rights):
            raise InputError(f"found {len(lefts)} left parts and {len(rights)} right parts of merges")
    else:
        # A merge without a space is a pair of equal parts.
        parts = [merge.partition(b" ") for merge in lefts]
        lefts = [left for left, _, _ in parts]
        rights = [right if space else left for left, space, right in parts]
    if len(strings) in (10, 13):
        added = read_vocabulary(*strings[-4:-1])
        for token, value in zip(added, _read_ids(strings[-1], len(added)), strict=True):
            vocabulary.setdefault(token, value)
    return BytePairEncoder(
        vocabulary, (lefts, rights), _encode(unknown), _encode(end_suffix), byte_fallback=bool(byte_fallback)
    )


@_tokenizer("WordpieceTokenizer")
@describes_like(bpe_tokenizer)
def wordpiece_tokenizer(
    row_begins: Array,
    row_ends: Array,
    begins: Array,
    ends: Array,
    chars: Array,
    vocabulary_begins: Array,
    vocabulary_ends: Array,
    vocabulary_chars: Array,
    unknown: Array,
    *,
    suffix_indicator: str = "##",
    max_bytes_per_word: int = 100,
) -> tuple[Array, ...]:
    """Split words into the longest tokens from left to right.

    Args:
        vocabulary_begins: i32 [tokens]. Ids are positions.
        vocabulary_ends: i32 [tokens].
        vocabulary_chars: u8 [bytes].
        unknown: i32, one element: the id of words that cannot be split.
        suffix_indicator: The prefix of tokens inside words.
        max_bytes_per_word: Maximum size of a word that is split, in bytes.

    Raises:
        InputError: Rows, words or tokens exceed what they refer to, or there is not one id of unknown words.

    Spec:
        Defined by wordpiece_tokenizer.cpp of OpenVINO Tokenizers
    """
    vocabulary = (vocabulary_begins, vocabulary_ends, vocabulary_chars)
    options = (_encode(suffix_indicator), max_bytes_per_word, _read_ids(unknown, 1)[0])
    encoder = reuse(_build_wordpiece, vocabulary, *options)
    return encode_rows(encoder, row_begins, row_ends, begins, ends, chars)


def _build_wordpiece(
    begins: Array, ends: Array, chars: Array, prefix: bytes, max_bytes: int, unknown: int
) -> WordPieceEncoder:
    return WordPieceEncoder(read_vocabulary(begins, ends, chars), prefix, max_bytes, unknown)


@_tokenizer("UnigramTokenizer")
@describes_like(wordpiece_tokenizer)
def unigram_tokenizer(
    row_begins: Array,
    row_ends: Array,
    begins: Array,
    ends: Array,
    chars: Array,
    vocabulary_begins: Array,
    vocabulary_ends: Array,
    vocabulary_chars: Array,
    scores: Array,
    *,
    byte_fallback: bool = False,
    unk_token_id: int = 0,
    fuse_unk: bool = False,
    min_score: float = float("inf"),
) -> tuple[Array, ...]:
    """Split words into the tokens with the largest sum of scores.

    Args:
        scores: f32 [tokens].
        byte_fallback: Not used, as in OpenVINO Tokenizers.
        unk_token_id: The id of characters without token. Neighboring ones are one token.
        fuse_unk: Not used, as in OpenVINO Tokenizers.
        min_score: Not used, as in OpenVINO Tokenizers.

    Raises:
        InputError: Rows, words or tokens exceed what they refer to, there are not as many scores as tokens, or a token
            is empty.

    Spec:
        Defined by unigram_tokenizer.cpp of OpenVINO Tokenizers
    """
    del byte_fallback, fuse_unk, min_score
    vocabulary = (vocabulary_begins, vocabulary_ends, vocabulary_chars, scores)
    encoder = reuse(_build_unigram, vocabulary, unk_token_id)
    return encode_rows(encoder, row_begins, row_ends, begins, ends, chars)


def _build_unigram(begins: Array, ends: Array, chars: Array, scores: Array, unknown: int) -> UnigramEncoder:
    tokens = read_vocabulary(begins, ends, chars)
    if scores.size != len(tokens):
        raise InputError(f"found {scores.size} scores for {len(tokens)} tokens")
    return UnigramEncoder(tokens, scores.reshape(-1).astype(np.float32).tolist(), unknown)


@op("VocabEncoder", opset="extension", shape="infer_flat_strings", flops=0, output_types=(6,))
def vocab_encoder(
    begins: Array,
    ends: Array,
    chars: Array,
    vocabulary_begins: Array,
    vocabulary_ends: Array,
    vocabulary_chars: Array,
    values: Array,
    default: Array,
) -> Array:
    """Look strings up in a vocabulary.

    Args:
        begins: i32, any shape.
        ends: i32, the shape of `begins`.
        chars: u8 [bytes].
        vocabulary_begins: i32 [tokens].
        vocabulary_ends: i32 [tokens].
        vocabulary_chars: u8 [bytes].
        values: i32 or i64 [tokens]. Of equal tokens, the first counts.
        default: The type of `values`, one element: the value of all other strings.

    Returns:
        Shape [strings], the type of `values`.

    Raises:
        InputError: Strings or tokens exceed the text, there are not as many values as tokens, or there is not one
            default value.

    Spec:
        Defined by vocab_encoder.cpp of OpenVINO Tokenizers
    """
    check_strings(begins, ends, chars)
    vocabulary = reuse(_build_vocabulary, (vocabulary_begins, vocabulary_ends, vocabulary_chars, values))
    other = _read_ids(default, 1)[0]
    strings = list_strings(begins, ends, chars)
    check_allocation((len(strings),), values.dtype)
    return np.array([vocabulary.get(text, other) for text in strings], values.dtype)


def _build_vocabulary(begins: Array, ends: Array, chars: Array, values: Array) -> dict[bytes, int]:
    """Return the values of tokens. If tokens are equal, the first one counts."""
    tokens = read_vocabulary(begins, ends, chars)
    ids = _read_ids(values, len(tokens))
    return dict(zip(reversed(tokens), reversed(ids), strict=True))


@_tokenizer("TrieTokenizer")
def trie_tokenizer(
    row_begins: Array,
    row_ends: Array,
    begins: Array,
    ends: Array,
    chars: Array,
    vocabulary_begins: Array,
    vocabulary_ends: Array,
    vocabulary_chars: Array,
    values: Array,
) -> tuple[Array, ...]:
    """Split strings into the longest tokens from left to right.

    Args:
        row_begins: i32, any shape.
        row_ends: i32, the shape of `row_begins`.
        begins: i32 [strings].
        ends: i32 [strings].
        chars: u8 [bytes].
        vocabulary_begins: i32 [tokens].
        vocabulary_ends: i32 [tokens].
        vocabulary_chars: u8 [bytes].
        values: i32 [tokens]. Of equal tokens, the last counts.

    Returns:
        Where each row begins and ends, i32 of the shape of `row_begins`, and its values, i32 [values].

    Raises:
        InputError: Rows, strings or tokens exceed what they refer to, there are not as many values as tokens, or no
            token begins at a position of a string.

    Spec:
        Defined by trie_tokenizer.cpp of OpenVINO Tokenizers
    """
    encoder = reuse(_build_trie, (vocabulary_begins, vocabulary_ends, vocabulary_chars, values))
    return encode_rows(encoder, row_begins, row_ends, begins, ends, chars)


def _build_trie(begins: Array, ends: Array, chars: Array, values: Array) -> TrieEncoder:
    tokens = read_vocabulary(begins, ends, chars)
    return TrieEncoder(dict(zip(tokens, _read_ids(values, len(tokens)), strict=True)))


def _read_ids(values: Array, count: int) -> list[int]:
    """Return ids as a list.

    Raises:
        InputError: They are not integers, or there is another number of them.
    """
    if values.dtype.kind not in "iu" or values.size != count:
        raise InputError(f"the ids are {values.dtype} {list(values.shape)}, expected integers for {count} tokens")
    ids: list[int] = values.reshape(-1).tolist()
    return ids


def _encode(text: object) -> bytes:
    """Return the bytes of an attribute."""
    return str(text).encode("utf-8", "surrogateescape")
