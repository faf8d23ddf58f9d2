"""Operations that run SentencePiece models embedded in files."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from irrun.deadlines import within_time
from irrun.errors import InputError
from irrun.ops._support.docstrings import describes_like
from irrun.ops._support.numerics import Array
from irrun.ops._support.registry import op
from irrun.text.ragged import check_strings, join_strings, list_strings
from irrun.text.reuse import reuse
from irrun.text.sentencepiece import SentencePieceModel, SpecialTokens, read_model
from irrun.text.words import read_vocabulary

__all__ = ["sentencepiece_detokenizer", "sentencepiece_stream_detokenizer", "sentencepiece_tokenizer"]


@op(
    "SentencepieceTokenizer",
    opset="extension",
    shape="infer_sparse_tokens",
    flops=0,
    folding="never",
    output_types=("i64", "i32", "i64"),
)
def sentencepiece_tokenizer(
    model: Array,
    *inputs: Array,
    nbest_size: int = 0,
    alpha: float = 1.0,
    add_bos: bool = False,
    add_eos: bool = False,
    reverse: bool = False,
) -> tuple[Array, ...]:
    """Split strings into the tokens of a model of SentencePiece.

    The package `sentencepiece` before 0.2.2 chooses the same of several tokenizations with equal scores as OpenVINO
    Tokenizers.

    Args:
        model: u8 [bytes], the serialized model.
        inputs: The strings, as one input of any shape or as three; if there are four more, special tokens as three
            inputs and their ids, i32. Texts between special tokens are encoded one by one, each with its begin of a
            sentence.
        nbest_size: The number of candidates to sample from, negative for all; 0 and 1 select the best tokens.
        alpha: How much the scores of candidates count.
        add_bos: Whether a token for the begin of a sentence is added.
        add_eos: Whether a token for its end is added.
        reverse: Whether the order of tokens is reversed.

    Returns:
        The row and the column of each token, i64 [tokens, 2]; the tokens, i32 [tokens]; the number of strings and of
        columns, i64 [2].

    Raises:
        InputError: The model cannot be read or lacks the tokens that are added, the strings exceed the text, or the
            number of inputs is wrong.

    Spec:
        Defined by sentence_piece.cpp of OpenVINO Tokenizers
    """
    if len(inputs) not in (1, 3, 5, 7):
        raise InputError(f"found {1 + len(inputs)} inputs, expected 2, 4, 6 or 8")
    processor = reuse(read_model, (model,))
    special = reuse(_build_special_tokens, inputs[-4:]) if len(inputs) > 4 else None
    sampling = None if nbest_size in (0, 1) else (nbest_size, alpha)
    begin = [processor.get_begin()] if add_bos else []
    end = [processor.get_end(required=special is None)] if add_eos else []
    rows = []
    for text in within_time(_list_texts(inputs)):
        if special is None:
            tokens = begin + processor.encode(text, sampling)
        else:
            tokens = []
            for part, token in special.split(text):
                if part:
                    tokens += begin + processor.encode(part, sampling)
                if token is not None:
                    tokens.append(token)
        tokens += end
        rows.append(tokens[::-1] if reverse else tokens)
    return _make_sparse(rows)


def _list_texts(inputs: tuple[Array, ...]) -> list[bytes]:
    """Return the strings that one or three inputs hold."""
    if len(inputs) in (1, 5):
        if inputs[0].dtype != object:
            raise InputError(f"the strings are {inputs[0].dtype}, expected strings")
        return [str(text).encode("utf-8", "surrogateescape") for text in inputs[0].reshape(-1).tolist()]
    begins, ends, chars = inputs[:3]
    check_strings(begins, ends, chars)
    return list_strings(begins, ends, chars)


def _build_special_tokens(begins: Array, ends: Array, chars: Array, ids: Array) -> SpecialTokens:
    tokens = read_vocabulary(begins, ends, chars)
    if ids.dtype.kind not in "iu" or ids.size != len(tokens):
        raise InputError(f"the ids are {ids.dtype} {list(ids.shape)}, expected integers for {len(tokens)} tokens")
    return SpecialTokens(tokens, ids.reshape(-1).tolist())


def _make_sparse(rows: list[list[int]]) -> tuple[Array, ...]:
    """Return the positions of tokens, the tokens and the shape of the rows."""
    lengths = np.array([len(row) for row in rows], np.int64)
    values = np.array([token for row in rows for token in row], np.int32)
    positions = np.empty((values.size, 2), np.int64)
    positions[:, 0] = np.repeat(np.arange(len(rows)), lengths)
    positions[:, 1] = np.arange(values.size) - np.repeat(np.cumsum(lengths) - lengths, lengths)
    return positions, values, np.array([len(rows), lengths.max(initial=0)], np.int64)


@op(
    "SentencepieceDetokenizer",
    opset="extension",
    shape="infer_decoded_rows",
    flops=0,
    output_types=("i32", "i32", "u8"),
)
def sentencepiece_detokenizer(model: Array, tokens: Array) -> tuple[Array, ...]:
    """Return the texts of rows of tokens by a model of SentencePiece.

    Args:
        model: u8 [bytes], the serialized model.
        tokens: i32 [rows, columns]. Tokens above the vocabulary are left out.

    Returns:
        Where each text begins and ends, i32 [rows], and the text, u8 [bytes].

    Raises:
        InputError: The model cannot be read, the tokens have another shape, or one is negative.

    Spec:
        Defined by sentence_piece.cpp of OpenVINO Tokenizers
    """
    return _decode_rows(tokens, reuse(read_model, (model,)), SentencePieceModel.decode)


@op(
    "SentencepieceStreamDetokenizer",
    opset="extension",
    shape="infer_decoded_rows",
    flops=0,
    output_types=("i32", "i32", "u8"),
)
@describes_like(sentencepiece_detokenizer)
def sentencepiece_stream_detokenizer(model: Array, tokens: Array) -> tuple[Array, ...]:
    """Return the SentencePiece pieces of rows of tokens, with the bytes that tokens represent.

    Spec:
        Defined by sentence_piece.cpp of OpenVINO Tokenizers
    """
    return _decode_rows(tokens, reuse(read_model, (model,)), SentencePieceModel.join_pieces)


def _decode_rows(
    tokens: Array, model: SentencePieceModel, decode: Callable[[SentencePieceModel, list[int]], bytes]
) -> tuple[Array, ...]:
    if tokens.ndim != 2 or tokens.dtype.kind not in "iu":
        raise InputError(f"the tokens are {tokens.dtype} {list(tokens.shape)}, expected integers [rows, columns]")
    return join_strings([decode(model, row) for row in within_time(tokens.tolist())], tokens.shape[:1])
