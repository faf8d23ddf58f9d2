"""SentencepieceTokenizer, SentencepieceDetokenizer and SentencepieceStreamDetokenizer."""

from __future__ import annotations

import functools
import io

import numpy as np
import pytest

pytest.importorskip("sentencepiece")
pytest.importorskip("regex")

import sentencepiece

from irrun.errors import InputError
from text.strings import from_strings, run, to_strings, to_u8

TEXT = ["the cat sat on the mat", "people operate the machine", "a b c d e f g h i j k l m n o p q r s t u v w x y z"]


@functools.cache
def make_model(**options):
    """Return a model whose tokens are characters, as an input."""
    model = io.BytesIO()
    options = {"vocab_size": 300, "model_type": "bpe", "byte_fallback": True, **options}
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(TEXT), model_writer=model, minloglevel=2, hard_vocab_limit=False, **options
    )
    return to_u8(model.getvalue())


@functools.cache
def make_processor(**options):
    return sentencepiece.SentencePieceProcessor(model_proto=make_model(**options).tobytes())


def tokenize(*texts, special=(), **attributes):
    """Return rows of tokens."""
    inputs = to_strings(*texts)
    if special:
        ids = np.array([value for _, value in special], np.int32)
        inputs += [*to_strings(*(token for token, _ in special)), ids]
    indices, values, shape = run("SentencepieceTokenizer", make_model(), *inputs, **attributes)
    assert (indices.dtype, values.dtype, shape.dtype) == (np.int64, np.int32, np.int64)
    rows = [values[indices[:, 0] == i].tolist() for i in range(len(texts))]
    assert indices[:, 1].tolist() == [i for row in rows for i in range(len(row))]
    assert shape.tolist() == [len(texts), max(map(len, rows), default=0)]
    return rows


def test_texts_are_encoded():
    processor = make_processor()
    texts = ["the cat", "", "漢 x"]
    assert tokenize(*texts) == [processor.Encode(text) for text in texts]
    (row,) = tokenize("the")
    assert tokenize("the", add_bos=True, add_eos=True) == [[1, *row, 2]]
    assert tokenize("the", add_bos=True, add_eos=True, reverse=True) == [[2, *row[::-1], 1]]


def test_strings_may_be_one_input():
    values = run("SentencepieceTokenizer", make_model(), np.array(["the", "cat"], object))[1]
    assert values.tolist() == [token for row in tokenize("the", "cat") for token in row]


def test_special_tokens_split_texts():
    (the,), (cat,) = tokenize("the"), tokenize(" cat")
    special = [("[S]", 500), ("sop", 501), ("a|b", 502)]
    assert tokenize("the[S] cat", special=special) == [[*the, 500, *cat]]
    assert tokenize("[S][S]", special=special, add_bos=True, add_eos=True) == [[500, 500, 2]]
    assert tokenize("the[S]the", special=special, add_bos=True, reverse=True) == [[*the[::-1], 1, 500, *the[::-1], 1]]
    assert 501 not in tokenize("asopa", special=special)[0]
    assert tokenize("sopa|b", special=special) == [[501, 502]]


def test_tokens_are_decoded():
    row = tokenize("the 漢 cat")[0]
    tokens = np.array([row, [*row[:-1], 100000]], np.int32)
    assert from_strings(*run("SentencepieceDetokenizer", make_model(), tokens))[0] == "the 漢 cat"
    assert from_strings(*run("SentencepieceStreamDetokenizer", make_model(), tokens))[0] == "▁the▁漢▁cat"
    assert from_strings(*run("SentencepieceDetokenizer", make_model(), tokens[:, :0])) == ["", ""]


def test_a_part_of_a_character_stays_in_a_stream():
    row = make_processor().PieceToId("<0xE6>")
    tokens = np.array([[row]], np.int32)
    assert run("SentencepieceStreamDetokenizer", make_model(), tokens)[2].tobytes() == b"\xe6"
    assert run("SentencepieceDetokenizer", make_model(), tokens)[2].tobytes() == "\ufffd".encode()


def test_hostile_inputs_are_refused():
    with pytest.raises(InputError, match="the SentencePiece model cannot be read"):
        run("SentencepieceTokenizer", to_u8("nonsense"), *to_strings("a"))
    with pytest.raises(InputError, match="the SentencePiece model is empty"):
        run("SentencepieceTokenizer", to_u8(""), *to_strings("a"))
    with pytest.raises(InputError, match="a piece with a null character"):  # with which SentencePiece aborts
        run("SentencepieceTokenizer", to_u8(make_model().tobytes().replace(b"the", b"\0he")), *to_strings("a"))
    with pytest.raises(InputError, match="found 3 inputs, expected 2, 4, 6 or 8"):
        run("SentencepieceTokenizer", make_model(), *to_strings("a")[:2])
    with pytest.raises(InputError, match="the token -1 is negative"):
        run("SentencepieceDetokenizer", make_model(), np.array([[-1]], np.int32))
    with pytest.raises(InputError, match=r"the tokens are int32 \[1\]"):
        run("SentencepieceStreamDetokenizer", make_model(), np.array([1], np.int32))
    model = make_model(bos_id=-1)
    with pytest.raises(InputError, match="has no token for the begin of a sentence"):
        run("SentencepieceTokenizer", model, *to_strings("a"), add_bos=True)


def test_strings_and_ids_of_special_tokens_are_checked():
    with pytest.raises(InputError, match="the strings are int32, expected strings"):
        run("SentencepieceTokenizer", make_model(), np.zeros(2, np.int32))
    texts, tokens = to_strings("a"), to_strings("<x>", "<y>")
    for ids in (np.zeros(2, np.float32), np.zeros(3, np.int32), np.zeros(1, np.int32)):
        with pytest.raises(InputError, match=r"the ids are .*, expected integers for 2 tokens"):
            run("SentencepieceTokenizer", make_model(), *texts, *tokens, ids)
    strings = np.array(["a"], object)
    expected = run("SentencepieceTokenizer", make_model(), *texts)
    for found, same in zip(run("SentencepieceTokenizer", make_model(), strings), expected, strict=True):
        assert found.tolist() == same.tolist()
