"""Operations on inputs of wrong types, shapes and values: each ends in a result or in one clear error."""

from __future__ import annotations

import os

import numpy as np
import pytest

pytest.importorskip("regex")

from irrun.deadlines import Deadline, end_at
from irrun.errors import IrrunError
from irrun.limits import MemoryBudget, limit_allocations, run_within
from irrun.ops._support import registry
from text.generators import make_ragged, make_strings, make_text
from text.strings import run, to_strings, to_u8

COUNT = int(os.environ.get("IRRUN_TEXT_INPUTS", "20"))
MODULES = ("decoding", "normalization", "ragged", "splitting", "strings")
OPERATIONS = [
    operation
    for operation in registry.list_operations()
    if operation.kernel.__module__ in {f"irrun.ops.text.{module}" for module in MODULES}
]
SHAPES = ((), (0,), (1,), (3,), (5,), (2, 3), (2, 0))
TEXTS = (
    *("a", "(", "^", "", r"(a|b)*c", "x{2,}", "\\", "[", "(?", r"\p{", "a{99999}", "(?<=a+)", "(" * 200, "|", "(?#"),
    *(r"\Q", r"\x{", "[[:x:]]", "$9", "${", "$$", "right", "longest_first", "(?i", r"\N{", "[a-", "a**", "(?P<"),
    *(r"\k<", r"\g{", r"\1", "(?(", "[]", r"(?|(a)|(b))\1", "(x|x)+[yz]", r"(?:\s*)(a)"),
)
VALUES = ("true", "false", "1", "-1", "0", "3", "NFC", "nfkc", "isolate", "remove", "mergedwithnext", "contiguous", "")


def make_value(random):
    """Return an input of any type."""
    shape = SHAPES[random.integers(len(SHAPES))]
    size = int(np.prod(shape))
    kind = random.integers(7)
    if kind < 2:
        return random.integers(-5, 30, shape).astype(np.int32)
    if kind == 2:
        return random.choice([0, 1, 5, 2**31 - 1, -(2**31)], shape).astype(np.int32)
    if kind == 3:
        return to_u8(make_text(random) if random.integers(2) else str(random.choice(TEXTS)))
    if kind == 4:
        return random.integers(0, 256, random.integers(0, 40), np.uint8)
    if kind == 5:
        return random.integers(0, 2, shape).astype(random.choice([np.float32, np.int64, np.uint64, np.int8, bool]))
    strings = np.empty(size, object)
    strings[:] = [make_text(random, 2) for _ in range(size)]
    return strings.reshape(shape)


def make_inputs(random, operation):
    """Return inputs that are often those that the operation expects."""
    names = [declared.name for declared in operation.inputs]
    count = int(random.integers(0, 6))
    inputs = []
    if random.integers(4) and "row_begins" in names:
        inputs += make_ragged(random, int(random.integers(1, 4)), count, bool(random.integers(2)))
    if random.integers(4) and "chars" in names:
        inputs += make_strings(random, count, bool(random.integers(2)))
    is_variadic = operation.inputs[-1].variadic
    total = len(names) + (int(random.integers(-1, 4)) if is_variadic else 0)
    inputs += [make_value(random) for _ in range(total - len(inputs))]
    if random.random() < 0.3 and inputs:
        inputs[random.integers(len(inputs))] = make_value(random)
    return inputs[: total if is_variadic else len(names)]


@pytest.mark.parametrize("operation", OPERATIONS, ids=str)
def test_hostile_inputs_end_in_one_error(operation):
    random = np.random.default_rng([*operation.type.encode(), int(os.environ.get("IRRUN_SEED", "0"))])
    outcomes = []
    for _ in range(5 * COUNT):
        given = [a for a in operation.attributes if a.required or random.random() < 0.4]
        try:
            attributes = operation.bind({a.name: str(random.choice(VALUES)) for a in given})
            with end_at(Deadline(5)), np.errstate(all="ignore"):
                operation.kernel(*make_inputs(random, operation), **attributes)
        except IrrunError as error:
            outcomes.append(str(error))
        else:
            outcomes.append("")
    assert len(outcomes) == 5 * COUNT
    assert all("\n" not in outcome and len(outcome) < 500 for outcome in outcomes)


@pytest.mark.parametrize("name", ["EqualStr", "StringToHashBucket", "RegexSplit", "VocabEncoder", "BPETokenizer"])
def test_strings_that_overlap_are_within_the_memory_limit(name):
    begins, chars = np.zeros(100_000, np.int32), np.zeros(1 << 20, np.uint8)
    strings = [begins, begins + chars.size, chars]
    rows = [np.zeros(1, np.int32), np.full(1, begins.size, np.int32)]
    vocabulary = to_strings("a", "b", "ab")
    inputs = {
        "EqualStr": [*strings, *to_strings("a")],
        "StringToHashBucket": strings,
        "RegexSplit": [*rows, *strings, to_u8("(a+)+$")],
        "VocabEncoder": [*strings, *vocabulary, np.arange(3, dtype=np.int32), np.array([0], np.int32)],
        "BPETokenizer": [*rows, *strings, *vocabulary, *to_strings("a b")],
    }[name]
    attributes = {"num_buckets": 2} if name == "StringToHashBucket" else {}
    attributes |= {"behaviour": "isolate"} if name == "RegexSplit" else {}
    with limit_allocations(1 << 30), pytest.raises(IrrunError, match="expected at most 1 GiB"):
        run(name, *inputs, **attributes)


@pytest.mark.parametrize("name", ["BPETokenizer", "RegexNormalization", "RegexSplit"])
def test_long_strings_are_within_the_memory_limit(name):
    strings = to_strings("ab " * (1 << 20))
    rows = [np.zeros(1, np.int32), np.ones(1, np.int32)]
    inputs = {
        "BPETokenizer": [*rows, *strings, *to_strings("a", "b", " ", "ab"), *to_strings("a b")],
        "RegexNormalization": [*strings, to_u8(" "), to_u8("_")],
        "RegexSplit": [*rows, *strings, to_u8(" ")],
    }[name]
    attributes = {"global_replace": True} if name == "RegexNormalization" else {}
    attributes |= {"behaviour": "isolate"} if name == "RegexSplit" else {}
    with run_within(MemoryBudget(1 << 25)), pytest.raises(IrrunError, match=r"expected at most 32 MiB"):
        run(name, *inputs, **attributes)


def test_texts_of_sentencepiece_are_within_the_memory_limit():
    pytest.importorskip("sentencepiece")
    from text.test_sentencepiece import make_model

    with limit_allocations(1 << 27), pytest.raises(IrrunError, match=r"expected at most 0\.125 GiB"):
        run("SentencepieceTokenizer", make_model(), *to_strings("a" * (1 << 21)))
