"""Limits on memory: of one array and of a run."""

from __future__ import annotations

import re

import numpy as np
import pytest
from ir_text import chain, write

import irrun
from irrun import limits, machine_memory
from irrun.limits import (
    LARGE,
    MAX_EMPTY,
    MAX_UNCOUNTED,
    QUOTA,
    Collection,
    MemoryBudget,
    MemoryLimitError,
    check_allocation,
    check_empty,
    collect_values,
    find_owner,
    format_size,
    limit_allocations,
    parse_size,
    run_within,
)

MIB = 1 << 20
U8 = np.dtype(np.uint8)


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("1", 1),
        ("800M", 800 << 20),
        ("1.5G", 3 << 29),
        ("2 GiB", 2 << 30),
        (" 3kb ", 3 << 10),
        ("4T", 4 << 40),
        ("7 B", 7),
        ("9223372036854774784", (1 << 63) - 1024),
    ],
)
def test_sizes_are_parsed(text, size):
    assert parse_size(text) == size


@pytest.mark.parametrize("text", ["", "0", "0.5", "-1M", "3X", "M", "nan", "inf", "9223372036854775808", "1 G G"])
def test_invalid_sizes_are_rejected(text):
    with pytest.raises(ValueError, match=re.escape(f"expected a size such as 800M or 2G, found {text!r}")):
        parse_size(text)


@pytest.mark.parametrize(
    ("size", "text"), [(1 << 19, "0.5 MiB"), ((1 << 30) - 1, "1.02e+03 MiB"), (1 << 30, "1 GiB"), (5 << 29, "2.5 GiB")]
)
def test_sizes_are_formatted(size, text):
    assert format_size(size) == text


def test_owner_of_views_is_the_array_that_was_allocated(tmp_path):
    array = np.arange(8)
    strided = np.lib.stride_tricks.as_strided(array, (3, 2), (8, 8))
    for view in (array, array[2:], array.reshape(2, 4).T[1:], strided, strided[1:]):
        assert find_owner(view) is array
    array.tofile(tmp_path / "x.bin")
    mapped = np.memmap(tmp_path / "x.bin", np.int64, "r")
    assert find_owner(mapped) is None
    assert find_owner(np.frombuffer(b"12345678", np.uint8)) is None


@pytest.mark.parametrize(
    ("shape", "is_valid"),
    [
        ((0,), True),
        ((0, MAX_EMPTY), True),
        ((MAX_EMPTY, 0, 0), True),
        ((0, MAX_EMPTY + 1), False),
        ((2, 0, MAX_EMPTY // 2 + 1), False),
    ],
)
def test_empty_arrays_with_large_other_dimensions_are_rejected_in_runs(shape, is_valid):
    check_allocation(shape, U8)  # outside of runs nothing loops over them
    for context in (limit_allocations(1 << 20), run_within(MemoryBudget(1 << 20))):
        with context:
            if is_valid:
                check_allocation(shape, U8)
            else:
                with pytest.raises(MemoryLimitError, match="has no elements"):
                    check_allocation(shape, U8)
    if is_valid:
        check_empty(shape)
    else:
        with pytest.raises(MemoryLimitError, match=rf"{re.escape(str(list(shape)))} has no elements"):
            MemoryBudget().start([np.empty(shape, np.float32)])
        with pytest.raises(MemoryLimitError, match="has no elements"):
            MemoryBudget().add(np.empty(shape, np.float32))


def test_size_of_one_array_is_limited():
    with limit_allocations(800):
        check_allocation([10, 20], np.dtype(np.float32))
        with pytest.raises(irrun.InputError, match=r"the result would take 4 \* 201 bytes"):
            check_allocation([201], np.dtype(np.float32))
        with pytest.raises(irrun.InputError, match=r"8 \* 101 bytes"):
            check_allocation([101], np.dtype(np.float64))
    check_allocation([201], np.dtype(np.float32))
    with limit_allocations(1 << 80), pytest.raises(irrun.InputError):
        check_allocation([machine_memory.get_default_limit() + 1], U8)
    with pytest.raises(irrun.InputError):
        check_allocation([machine_memory.get_default_limit() + 1], U8)


def test_large_array_must_fit_into_the_rest_of_the_run():
    budget = MemoryBudget(3 * LARGE)
    budget.start([])
    budget.used = LARGE
    with run_within(budget):
        check_allocation([2 * LARGE], U8)
        budget.sources = [([np.empty(LARGE + 1, np.uint8)], None)]
        budget.used = LARGE + 1
        check_allocation([LARGE], U8)
        with pytest.raises(MemoryLimitError, match=re.escape("the run would take 48 MiB, 16 MiB of which are in use")):
            check_allocation([2 * LARGE], U8)
    check_allocation([2 * LARGE], U8)


def test_memory_that_is_shared_or_belongs_to_the_caller_counts_once_or_never():
    value, other, argument = (np.zeros(n, np.uint8) for n in (100, 30, 7))
    budget = MemoryBudget(1000)
    budget.start([argument[1:]])
    budget.sources = [([value, None, value[5:], argument], None), ([other, value, None], [2, 0])]
    assert budget.count_alive() == 130
    assert budget.count_alive(new=[np.zeros(11, np.uint8), value[1:]]) == 141
    assert budget.count_alive(excluded=[id(value), id(argument)]) == 30
    with run_within(budget), collect_values() as collection:
        collection.add(9)
        assert budget.count_alive() == 139
    assert budget.count_alive() == 130
    budget.finish()
    assert budget.count_alive(new=[argument]) == 7


def test_run_forgets_values_that_are_freed():
    budget = MemoryBudget(100)
    budget.start([])
    alive: list[np.ndarray | None] = [None]
    budget.sources = [(alive, None)]
    for _ in range(5):  # 300 bytes altogether, 60 at a time
        alive[0] = np.zeros(60, np.uint8)
        budget.add(alive[0])
    alive.append(np.zeros(41, np.uint8))
    with pytest.raises(MemoryLimitError, match="the run would take"):
        budget.add(alive[1])
    budget.start([])
    assert (budget.used, budget.limit) == (0, 100)
    budget.add(np.zeros(100, np.uint8))


def test_limit_of_a_run_is_what_is_left_when_it_exceeds_the_quota(monkeypatch):
    monkeypatch.setattr(limits, "get_available_memory", lambda: 1000)
    budget = MemoryBudget()
    budget.start([])
    budget.check(QUOTA)
    assert budget.limit is None
    budget.used = 1  # of a value that is not alive any more
    budget.check(QUOTA)
    assert budget.limit is None
    budget.sources = [([np.zeros(5000, np.uint8)], None)]
    with pytest.raises(MemoryLimitError):
        budget.check(QUOTA + 1)
    assert budget.limit == 5900
    budget.check(900)
    with pytest.raises(MemoryLimitError):
        budget.check(901)


def test_values_that_are_not_counted_take_a_quarter_of_the_limit_at_most():
    for limit, count, size in (
        (None, 1, MAX_UNCOUNTED),
        (None, 1 << 10, QUOTA >> 10),
        (None, 0, MAX_UNCOUNTED),
        (1 << 20, 1, 1 << 18),
        (1 << 20, 1 << 8, 1 << 10),
        (1 << 40, 1 << 10, QUOTA >> 10),
        (1 << 10, 1000, 64),
    ):
        assert MemoryBudget(limit).get_counted_size(count) == size


def test_collections_are_checked_after_each_mebibyte():
    with limit_allocations(3 * MIB):
        collection = Collection(None)
        for _ in range(3):
            collection.add(MIB)
        with pytest.raises(irrun.InputError, match=rf"1 \* {4 * MIB} bytes"):
            collection.add(MIB)
    budget = MemoryBudget(3 * MIB)
    budget.start([])
    with run_within(budget):
        for _ in range(3):  # what an earlier kernel collected is freed
            with collect_values() as collection:
                collection.add(MIB + 1)
                assert budget.used == MIB + 1
                collection.add(MIB)
                assert budget.used == MIB + 1
                assert collection.size == 2 * MIB + 1
            budget.used = 0
        with collect_values() as collection:
            collection.add(3 * MIB)
            collection.add(MIB)
            with pytest.raises(MemoryLimitError):
                collection.add(MIB)


def test_run_fails_if_its_values_exceed_the_memory(tmp_path):
    """Two values are alive at a time: the input of a layer and its output; the input of the model is not counted."""
    shape = (512, 1024)
    path = write(tmp_path, chain("Sigmoid", "Exp", "Sigmoid", "Exp", shape=shape))
    x = np.zeros(shape, np.float32)
    expected = irrun.compile_model(path, optimize=False)(x)[0]
    np.testing.assert_array_equal(irrun.compile_model(path, memory="4M", optimize=False)(x)[0], expected)
    with pytest.raises(MemoryLimitError, match=r"expected at most 3 MiB \(change it with memory= or --memory\)"):
        irrun.compile_model(path, memory="3M", optimize=False)(x)


@pytest.mark.parametrize(("size", "is_checked"), [(100, False), (101, True)])
@pytest.mark.parametrize("keeps", [False, True])
def test_scratch_memory_is_checked_from_the_size_of_large_arrays_on(size, is_checked, keeps):
    """What a kernel reserves counts with the results that it checks afterwards."""
    budget = MemoryBudget(100 * limits.LARGE_PART)
    reserve = limits.reserve_scratch if keeps else limits.check_scratch
    with run_within(budget):
        reserve(size)
        assert budget.scratch == (size if keeps and is_checked else 0)
        budget.limit = 1000
        if keeps and is_checked:
            check_allocation([899], U8)
            with pytest.raises(MemoryLimitError):
                check_allocation([900], U8)
        budget.limit = size - 1
        if is_checked:
            with pytest.raises(MemoryLimitError):
                reserve(size)
        else:
            reserve(size)
    reserve(1 << 50)  # nothing is limited outside of runs
