"""Operations with vocabularies on random inputs, compared with OpenVINO Tokenizers.

`IRRUN_TEXT_INPUTS` states the number of inputs per operation.
"""

from __future__ import annotations

import functools
import io
import os

import numpy as np
import pytest

pytest.importorskip("regex")
pytest.importorskip("openvino_tokenizers")
pytest.importorskip("sentencepiece")

import sentencepiece

from text.generators import WORDS, make_any_text, make_ragged
from text.oracle import Oracle
from text.strings import run, to_strings, to_u8

COUNT = int(os.environ.get("IRRUN_TEXT_INPUTS", "20"))
#: Inputs per vocabulary.
REPEATS = 5
ALPHABETS = ("ab", "abc", "aé▁漢", "▁ab", "ab<0x4E1>", "a#b", "aaab")


@pytest.fixture
def random(request):
    return np.random.default_rng([*request.node.originalname.encode(), int(os.environ.get("IRRUN_SEED", "0"))])


def choose(random, items):
    return items[int(random.integers(len(items)))]


def make_words(random, tokens, alphabet):
    """Return random rows of words, without gaps or with gaps and overlaps, as five inputs."""
    words = []
    for _ in range(random.integers(1, 12)):
        parts = (*tokens, *alphabet)
        length = int(choose(random, (1, 2, 4, 8, 60, 150)))
        words.append("".join(choose(random, parts) for _ in range(length)) or "a")
    has_gaps = bool(random.integers(2))
    begins, ends, chars = to_strings(*words)
    if has_gaps:
        order = random.permutation(len(words))
        begins, ends = begins[order], ends[order]
    return [*make_ragged(random, int(random.integers(1, 5)), len(words), has_gaps, overlaps=False), begins, ends, chars]


def make_tokens(random, alphabet):
    """Return different random tokens."""
    texts = ["".join(choose(random, alphabet) for _ in range(random.integers(1, 5))) for _ in range(12)]
    return list(dict.fromkeys((*texts, *alphabet)))


def check(operation_type, data, constants, attributes, random, make_data):
    """Compare an operation on several inputs; return the number of them."""
    inputs = [*data, *constants]
    oracle = Oracle(operation_type, inputs, attributes, range(len(data), len(inputs)))
    compared = 0
    for _ in range(REPEATS):
        try:
            expected = oracle.run([*data, *constants])
        except RuntimeError as error:
            if "ragged_offset < outputs[2].get_size()" not in str(error):  # more tokens than bytes
                raise
        else:
            found = run(operation_type, *data, *constants, **attributes)
            for result, reference in zip(found, expected, strict=True):
                assert result.dtype == reference.dtype
                assert result.tolist() == reference.tolist(), (inputs, attributes)
            compared += 1
        data = make_data()
    return compared


def make_merges(random, alphabet):
    """Return tokens and pairs of them that merge."""
    tokens, merges = list(dict.fromkeys(alphabet)), []
    for _ in range(random.integers(1, 20)):
        left, right = choose(random, tokens), choose(random, tokens)
        if len(left + right) < 10:
            merges.append((left, right))
            tokens.append(left + right)
    random.shuffle(merges)
    extra = ("abab", "aa", "▁▁", "<0x41>", "<unk>", *(f"<0x{code:02X}>" for code in range(256)))
    tokens += extra[: int(choose(random, (0, 3, len(extra))))]
    tokens = list(dict.fromkeys(tokens))
    random.shuffle(tokens)
    return tokens, merges


@pytest.mark.parametrize("segment", [None, 5])
def test_bpe_tokenizer(random, monkeypatch, segment):
    if segment:  # long words are cut between symbols that no merge joins
        monkeypatch.setattr("irrun.text.bpe._SEGMENT", segment)
        monkeypatch.setattr("irrun.text.bpe._MAX_SEARCHED", 2)
    compared = 0
    while compared < COUNT:
        alphabet = choose(random, ALPHABETS)
        tokens, merges = make_merges(random, alphabet)
        constants = to_strings(*tokens)
        if random.integers(2):
            constants += to_strings(*(" ".join(merge) for merge in merges))
        else:
            constants += [*to_strings(*(left for left, _ in merges)), *to_strings(*(right for _, right in merges))]
        if random.integers(2):
            ids = [int(choose(random, (0, 1, 500, len(tokens)))) for _ in range(3)]
            constants += [*to_strings("abba", "X", "▁a"), np.array(ids, np.int32)]
        attributes = {
            "unk_token": choose(random, ("", "<unk>", tokens[0])),
            "fuse_unk": bool(random.integers(2)),
            "suffix_indicator": "",
            "end_suffix": choose(random, ("", "", "b", "</w>")),
            "byte_fallback": bool(random.integers(2)),
        }
        make_data = functools.partial(make_words, random, (*tokens, "X"), alphabet)
        compared += check("BPETokenizer", make_data(), constants, attributes, random, make_data)


def test_wordpiece_tokenizer(random):
    for _ in range(0, COUNT, REPEATS):
        alphabet = choose(random, ALPHABETS)
        tokens = make_tokens(random, alphabet)
        tokens += ["##" + token for token in tokens if random.integers(2)]
        constants = [*to_strings(*tokens), np.array(random.integers(-1, 9), np.int32)]
        attributes = {"suffix_indicator": "##", "max_bytes_per_word": int(choose(random, (100, 5, 3)))}
        make_data = functools.partial(make_words, random, tokens, alphabet)
        assert check("WordpieceTokenizer", make_data(), constants, attributes, random, make_data) == REPEATS


def test_unigram_tokenizer(random):
    for _ in range(0, COUNT, REPEATS):
        alphabet = choose(random, ALPHABETS)
        tokens = make_tokens(random, alphabet)
        random.shuffle(tokens)
        scores = random.choice([random.normal(-8, 3, len(tokens)), random.integers(-4, 1, len(tokens))])
        constants = [*to_strings(*tokens), scores.astype(np.float32)]
        attributes = {"byte_fallback": False, "unk_token_id": int(random.integers(4)), "fuse_unk": False}
        make_data = functools.partial(make_words, random, tokens, [*alphabet, "?", "漢"])
        assert check("UnigramTokenizer", make_data(), constants, attributes, random, make_data) == REPEATS


@pytest.mark.parametrize("dtype", [np.int32, np.int64])
def test_vocab_encoder(random, dtype):
    for _ in range(0, COUNT, REPEATS):
        alphabet = choose(random, ALPHABETS)
        tokens = make_tokens(random, alphabet) + list(alphabet)
        values = random.integers(-5, 99, len(tokens)).astype(dtype)
        constants = [*to_strings(*tokens), values, np.array(7, dtype)]
        make_data = functools.partial(lambda *arguments: make_words(*arguments)[2:], random, tokens, alphabet)
        assert check("VocabEncoder", make_data(), constants, {}, random, make_data) == REPEATS


def test_trie_tokenizer(random):
    for _ in range(0, COUNT, REPEATS):
        alphabet = choose(random, ALPHABETS)
        tokens = make_tokens(random, alphabet)
        constants = [*to_strings(*tokens), random.integers(0, 99, len(tokens)).astype(np.int32)]

        def make_data(tokens=tokens, alphabet=alphabet):
            rows, words = np.arange(5, dtype=np.int32), make_words(random, tokens, alphabet)
            count = min(4, words[2].size)  # the reference has as many rows as words
            return [rows[:count], rows[1 : count + 1], words[2][:count], words[3][:count], words[4]]

        assert check("TrieTokenizer", make_data(), constants, {}, random, make_data) == REPEATS


@functools.cache
def make_model(kind, **options):
    """Return a model of SentencePiece as an input."""
    random, model = np.random.default_rng(0), io.BytesIO()
    texts = [" ".join(random.choice([*WORDS, "é", "漢字", "שלום"], 20)) for _ in range(200)]
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(texts),
        model_writer=model,
        model_type=kind,
        vocab_size=500,
        hard_vocab_limit=False,
        minloglevel=2,
        num_threads=1,
        **options,
    )
    return to_u8(model.getvalue())


MODELS = (
    ("unigram", {}),
    ("bpe", {"byte_fallback": True, "normalization_rule_name": "identity", "remove_extra_whitespaces": False}),
)


@pytest.mark.parametrize(("kind", "options"), MODELS)
def test_sentencepiece_tokenizer(random, kind, options):
    model = make_model(kind, **options)
    special = [*to_strings("<s>", "</s>", "the", "[MASK]", "a|b"), np.arange(500, 505, dtype=np.int32)]
    for number in range(COUNT):
        attributes = {
            "nbest_size": number % 2,
            "alpha": 1.0,
            **{name: bool(random.integers(2)) for name in ("add_bos", "add_eos", "reverse")},
        }
        texts = [make_any_text(random) for _ in range(random.integers(1, 5))]
        strings = to_strings(*texts) if random.integers(2) else [np.array(texts, object)]
        inputs = [model, *strings, *(special if random.integers(2) else [])]
        constants = [0, *range(1 + len(strings), len(inputs))]
        expected = Oracle("SentencepieceTokenizer", inputs, attributes, constants).run(inputs)
        found = run("SentencepieceTokenizer", *inputs, **attributes)
        for result, reference in zip(found, expected, strict=True):
            assert result.dtype == reference.dtype
            assert result.tolist() == reference.tolist(), (texts, attributes)


@pytest.mark.parametrize(("kind", "options"), MODELS)
@pytest.mark.parametrize("operation_type", ["SentencepieceDetokenizer", "SentencepieceStreamDetokenizer"])
def test_sentencepiece_detokenizers(random, operation_type, kind, options):
    model = make_model(kind, **options)
    oracle = Oracle(operation_type, [model, np.zeros((1, 1), np.int32)], {}, [0])
    for _ in range(COUNT):
        tokens = random.integers(0, 800, (random.integers(1, 5), random.integers(0, 12))).astype(np.int32)
        for result, reference in zip(run(operation_type, model, tokens), oracle.run([model, tokens]), strict=True):
            assert result.tolist() == reference.tolist(), tokens
