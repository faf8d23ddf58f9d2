"""Weights in files and in memory, and the requests to the system that map or release parts of files."""

from __future__ import annotations

import ctypes
import mmap
import re
import sys
import threading
from typing import Any

import numpy as np
import pytest

from irrun.errors import ModelError
from irrun.ir import weights as module
from irrun.ir.weights import MADV_POPULATE_READ, MIN_PREFETCHED, MissingWeightsError, Weights

PAGE = mmap.PAGESIZE
requires_linux = pytest.mark.skipif(sys.platform != "linux", reason="requires Linux")


def view(weights: Weights, offset: int, size: int) -> np.ndarray:
    return np.frombuffer(weights.view(offset, size), np.uint8)


@pytest.fixture
def mapped(tmp_path) -> Weights:
    """Weights of 64 pages."""
    path = tmp_path / "model.bin"
    path.write_bytes(bytes(range(256)) * (64 * PAGE // 256))
    return Weights.open(path)


@pytest.mark.parametrize(
    "source",
    [
        b"\1\2\3\4",
        bytearray(b"\1\2\3\4"),
        memoryview(b"\1\2\3\4"),
        np.uint8([1, 2, 3, 4]),
        np.uint8([[1, 2], [3, 4]]),
        np.uint8([1, 9, 2, 9, 3, 9, 4])[::2],
        np.array([0x04030201], "<u4"),
    ],
)
def test_weights_are_read_from_memory(source):
    weights = Weights.open(source)
    assert (bytes(weights.view(0, 4)), len(weights), weights.path) == (b"\1\2\3\4", 4, None)
    assert bytes(weights.view(1, 2)) == b"\2\3"


def test_folder_in_place_of_the_weights_is_reported(tmp_path):
    (tmp_path / "model.bin").mkdir()
    with pytest.raises(ModelError, match="cannot read the weights: expected a regular file, found a folder"):
        Weights.open(None, tmp_path / "model.xml")


def test_weights_are_next_to_the_model_by_default(tmp_path):
    path = tmp_path / "model.xml"
    for source in (None, ""):
        weights = Weights.open(source, path)
        assert (len(weights), bytes(weights.view(5, 0))) == (0, b"")
        message = f"the weights file {tmp_path / 'model.bin'} is missing; if it is elsewhere, pass its path as weights"
        with pytest.raises(MissingWeightsError, match=re.escape(message)):
            weights.view(0, 1)
    (tmp_path / "model.bin").write_bytes(b"abc")
    (tmp_path / "other.bin").write_bytes(b"other")
    for source, expected in ((None, b"abc"), ("", b"abc"), (tmp_path / "other.bin", b"other")):
        weights = Weights.open(source, path)
        assert bytes(weights.view(0, len(weights))) == expected
        assert weights.path == (source or tmp_path / "model.bin")
    assert len(Weights.open(None)) == len(Weights.open("")) == len(Weights()) == 0


def test_sources_of_weights_are_checked(tmp_path):
    for source, name in ((3, "3"), ([1], "a list of 1"), ({}, "an empty dict")):
        with pytest.raises(TypeError, match=f"expected weights as a path, bytes or an array, found {name}"):
            Weights.open(source)
    for path, reason in (
        (tmp_path, "expected a regular file, found a folder"),
        (tmp_path / "none.bin", "No such file or directory"),
        ("/dev/null", "expected a regular file, found another kind of file"),
    ):
        with pytest.raises(ModelError, match=re.escape(f"{path}: cannot read the weights: {reason}")):
            Weights.open(path)
    (tmp_path / "empty.bin").write_bytes(b"")
    weights = Weights.open(tmp_path / "empty.bin")
    assert (len(weights), weights.path) == (0, tmp_path / "empty.bin")


def test_views_are_inside_the_weights(tmp_path):
    (tmp_path / "w.bin").write_bytes(b"abcd")
    for weights, name in ((Weights(b"abcd"), "the weights"), (Weights.open(tmp_path / "w.bin"), tmp_path / "w.bin")):
        assert bytes(weights.view(0, 4)) == b"abcd"
        assert bytes(weights.view(4, 0)) == bytes(weights.view(99, 0)) == b""
        for offset, size in ((0, 5), (1, 4), (4, 1), (99, 1)):
            with pytest.raises(
                ModelError, match=f"^requires bytes {offset} to {offset + size} of {name}, found 4 bytes$"
            ):
                weights.view(offset, size)
        for offset, size in ((-1, 2), (0, -1), (-1, 0)):
            with pytest.raises(ModelError, match=f"size of a constant >= 0, found {offset} and {size}"):
                weights.view(offset, size)


class FakeLibrary:
    """A C library that records the advice it gets, as (first byte from the start of the mapping, size)."""

    def __init__(self, results: list[int], on_call=lambda: None) -> None:
        self.calls: list[tuple[int, int]] = []
        self.start = 0

        def madvise(address: int, size: int, advice: int) -> int:
            assert advice == MADV_POPULATE_READ
            self.calls.append((address - self.start, size))
            on_call()
            return results.pop() if results else 0

        self.madvise: Any = madvise


def record_advice(weights, arrays, monkeypatch, results=(), on_call=lambda: None):
    """Return what the system is asked to map in advance."""
    library = FakeLibrary(list(results), on_call)
    library.start = np.frombuffer(weights._mapping, np.uint8, 1).ctypes.data
    monkeypatch.setattr("irrun.ir.weights.ctypes.CDLL", lambda name: library)
    weights.prefetch(arrays)
    for thread in threading.enumerate():
        if thread.name == "irrun-weights":
            thread.join()
    if library.calls:  # addresses and sizes do not fit into the default, an int
        types = library.madvise.argtypes
        assert [ctypes.sizeof(type) for type in types[:2]] == [ctypes.sizeof(ctypes.c_void_p)] * 2
    return library.calls


@requires_linux
def test_arrays_are_mapped_from_the_first_to_the_last_page(mapped, monkeypatch):
    size = 20 * PAGE
    assert size >= MIN_PREFETCHED
    for offset, length, expected in (
        (0, size, [(0, size)]),
        (PAGE, size, [(PAGE, size)]),
        (PAGE + 5, size, [(PAGE, size + 5)]),
        (44 * PAGE, size, [(44 * PAGE, size)]),
        (0, MIN_PREFETCHED, [(0, MIN_PREFETCHED)]),
        (40 * PAGE, MIN_PREFETCHED - 1, []),
    ):
        assert record_advice(mapped, [view(mapped, offset, length)], monkeypatch) == expected
    arrays = [view(mapped, 0, size), view(mapped, 40 * PAGE, 100), view(mapped, 22 * PAGE, size)]
    assert record_advice(mapped, arrays, monkeypatch) == [(0, size), (22 * PAGE, size)]
    monkeypatch.setattr(module, "MAPPED_AT_ONCE", 8 * PAGE)
    expected = [(PAGE, 8 * PAGE), (9 * PAGE, 8 * PAGE), (17 * PAGE, 4 * PAGE + 5)]
    assert record_advice(mapped, [view(mapped, PAGE + 5, size)], monkeypatch) == expected
    # an older system refuses the first request, or a later one
    assert record_advice(mapped, arrays, monkeypatch, results=[-1]) == [(0, 8 * PAGE)]
    assert record_advice(mapped, arrays, monkeypatch, results=[-1, 0]) == [(0, 8 * PAGE), (8 * PAGE, 8 * PAGE)]


@requires_linux
def test_arrays_of_other_memory_are_not_mapped(mapped, monkeypatch, tmp_path):
    size = 20 * PAGE
    (tmp_path / "other.bin").write_bytes(bytes(size))
    other = Weights.open(tmp_path / "other.bin")
    whole = view(mapped, 0, 64 * PAGE)
    for array, expected in (
        (np.zeros(size, np.uint8), []),
        (view(other, 0, size), []),
        (whole[::2], []),
        (whole, [(0, 64 * PAGE)]),
        (whole.reshape(64, PAGE).T, [(0, 64 * PAGE)]),
        (whole.reshape(64, PAGE)[:, : PAGE // 2], []),
    ):
        assert record_advice(mapped, [array], monkeypatch) == expected


@requires_linux
def test_number_of_bytes_that_are_mapped_in_advance_is_limited(mapped, monkeypatch):
    monkeypatch.setattr(module, "MAX_PREFETCHED", 40 * PAGE)
    parts = [view(mapped, i * 20 * PAGE, 20 * PAGE) for i in range(3)]
    assert record_advice(mapped, parts, monkeypatch) == [(0, 20 * PAGE), (20 * PAGE, 20 * PAGE)]
    assert record_advice(mapped, [view(mapped, 0, 41 * PAGE), parts[2]], monkeypatch) == []


@requires_linux
def test_released_arrays_are_not_mapped_again(mapped, monkeypatch):
    first, second = view(mapped, 0, 20 * PAGE), view(mapped, 20 * PAGE, 20 * PAGE)
    third = view(mapped, 40 * PAGE, 20 * PAGE)
    mapped.release(first)
    assert record_advice(mapped, [first, second, third], monkeypatch) == [
        (20 * PAGE, 20 * PAGE),
        (40 * PAGE, 20 * PAGE),
    ]
    # released while its first part is being mapped
    monkeypatch.setattr(module, "MAPPED_AT_ONCE", 8 * PAGE)
    monkeypatch.setattr(mapped, "_lock", threading.RLock())
    calls = record_advice(mapped, [second, third], monkeypatch, on_call=lambda: mapped.release(second))
    assert calls == [(20 * PAGE, 8 * PAGE), *((40 * PAGE + n * PAGE, s * PAGE) for n, s in ((0, 8), (8, 8), (16, 4)))]


@requires_linux
def test_other_systems_map_nothing_in_advance(mapped, monkeypatch):
    monkeypatch.setattr(sys, "platform", "darwin")
    assert record_advice(mapped, [view(mapped, 0, 20 * PAGE)], monkeypatch) == []
    memory = Weights(bytes(20 * PAGE))
    memory.prefetch([view(memory, 0, 20 * PAGE)])
    memory.release(view(memory, 0, 20 * PAGE))


class FakeMapping:
    """A mapping that records the advice for parts of it."""

    def __init__(self) -> None:
        self.calls: list[tuple[int, ...]] = []

    def madvise(self, option: int, *place: int) -> None:
        assert option == mmap.MADV_DONTNEED
        self.calls.append(place)


@requires_linux
@pytest.mark.parametrize(
    ("offset", "size", "expected"),
    [
        (0, PAGE, [(0, PAGE)]),
        (PAGE, 2 * PAGE, [(PAGE, 2 * PAGE)]),
        (1, 2 * PAGE, [(PAGE, PAGE)]),
        (1, 3 * PAGE - 2, [(PAGE, PAGE)]),
        (PAGE - 1, PAGE + 1, [(PAGE, PAGE)]),
        (1, PAGE, []),
        (5, PAGE - 5, []),
        (1, 10, []),
        (63 * PAGE, PAGE, [(63 * PAGE, PAGE)]),
    ],
)
def test_pages_without_other_data_are_released(mapped, offset, size, expected, monkeypatch):
    array = view(mapped, offset, size)
    mapped._find(array)  # the address of the mapping is known
    fake = FakeMapping()
    monkeypatch.setattr(mapped, "_mapping", fake)
    mapped.release(array)
    assert fake.calls == expected
    mapped.release()
    assert fake.calls[-1] == ()


def test_arrays_of_a_mapped_file_are_recognized(mapped):
    array = view(mapped, 8, 24).reshape(4, 6)
    assert mapped.contains(array)
    assert mapped.contains(array.T)
    assert not mapped.contains(array[:, 1:])
    assert not mapped.contains(array.copy())
    memory = Weights(bytes(24))
    assert not memory.contains(view(memory, 0, 24))
