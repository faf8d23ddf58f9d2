"""Values of Constants in memory and in weights."""

from __future__ import annotations

import mmap
import sys
import threading
from pathlib import Path

import numpy as np
import pytest

from irrun.element_types import ElementType
from irrun.errors import ModelError
from irrun.ir.constant import Constant
from irrun.ir.weights import Weights

F32, U4, STRING = (ElementType.parse(name) for name in ("f32", "u4", "string"))


@pytest.mark.parametrize(
    ("array", "element_type", "size"),
    [
        (np.arange(6, dtype=np.float32).reshape(2, 3), F32, 24),
        (np.array([1, 15, 7], U4.dtype), U4, 2),
        (np.array(["", "word"], object), STRING, 20),
        (np.zeros((0, 3), np.float32), F32, 0),
    ],
)
def test_array_is_preserved(array, element_type, size):
    constant = Constant.from_array(array, element_type)
    assert (constant.shape, constant.size, constant.offset) == (array.shape, size, None)
    np.testing.assert_array_equal(constant.to_array(), array)


def test_array_of_another_type_is_rejected():
    with pytest.raises(ValueError, match="f32"):
        Constant.from_array(np.zeros(3), F32)


def test_weights_are_not_copied():
    weights = bytes(4) + np.array([1, 2, 3], np.float32).tobytes()
    constant = Constant.from_weights(Weights(weights), F32, (3,), 4, 12)
    array = constant.to_array()
    assert array.tolist() == [1, 2, 3]
    assert np.shares_memory(array, np.frombuffer(weights, np.uint8))
    assert not array.flags.writeable


@pytest.mark.parametrize(
    ("offset", "size", "message"),
    [
        (0, 8, r"expected at least 12 bytes for f32\[3\], found the size 8"),
        (4, 12, "requires bytes 4 to 16 of the weights, found 12 bytes"),
        (-1, 12, "expected offset and size of a constant >= 0, found -1 and 12"),
    ],
)
def test_invalid_extent_is_rejected(offset, size, message):
    with pytest.raises(ModelError, match=message):
        Constant.from_weights(Weights(bytes(12)), F32, (3,), offset, size)


def count_resident_bytes(path):
    """Return the bytes of a mapped file that are in the memory of this process."""
    is_file, size = False, 0
    for line in Path("/proc/self/smaps").read_text().splitlines():
        if not line.split()[0].endswith(":"):
            is_file = line.endswith(str(path))
        elif is_file and line.startswith("Rss:"):
            size += int(line.split()[1]) * 1024
    return size


@pytest.mark.skipif(not Path("/proc/self/smaps").exists(), reason="requires the maps of Linux")
def test_memory_of_one_array_or_of_the_whole_file_is_released(tmp_path):
    path, page = tmp_path / "model.bin", mmap.PAGESIZE
    numbers = np.arange(512 * page // 4, dtype=np.float32)
    numbers.tofile(path)
    weights = Weights.open(path)
    constants = [Constant.from_weights(weights, F32, (256, page // 4), o) for o in (100, 100 + 256 * (page - 4))]
    arrays = [constant.to_array() for constant in constants]
    assert all(array.sum() for array in arrays)
    before = count_resident_bytes(path)
    assert before >= 2 * 255 * page
    weights.release(arrays[0].T)
    assert count_resident_bytes(path) <= before - 200 * page  # the pages at its ends contain other data
    assert arrays[1].sum()
    before = count_resident_bytes(path)
    weights.release(arrays[1][:, ::2])  # not contiguous
    weights.release(np.ones(10**6, np.float32))  # of other memory
    assert count_resident_bytes(path) == before > 200 * page
    np.testing.assert_array_equal(arrays[0].ravel(), numbers[25 : 25 + arrays[0].size])
    weights.release()
    assert count_resident_bytes(path) == 0
    np.testing.assert_array_equal(arrays[0].ravel(), numbers[25 : 25 + arrays[0].size])


def wait_for_mapping():
    for thread in threading.enumerate():
        if thread.name == "irrun-weights":
            thread.join()


@pytest.mark.skipif(not Path("/proc/self/smaps").exists(), reason="requires the maps of Linux")
def test_arrays_are_mapped_in_advance_unless_they_were_released(tmp_path, monkeypatch):
    path, size = tmp_path / "model.bin", 1 << 21
    np.arange(4 * size // 4, dtype=np.float32).tofile(path)
    weights = Weights.open(path)
    first, last = (Constant.from_weights(weights, F32, (size // 4,), o).to_array() for o in (0, 3 * size))
    weights.prefetch([np.ones(size), last[:: size // 64], first[:100]])  # other memory, not contiguous, small
    wait_for_mapping()
    assert count_resident_bytes(path) == 0
    weights.prefetch([first, last])
    wait_for_mapping()
    if not count_resident_bytes(path):
        pytest.skip("requires Linux 5.14")
    assert count_resident_bytes(path) >= 2 * size
    weights.release(first)
    weights.release()
    weights.prefetch([first, last])
    wait_for_mapping()
    assert size <= count_resident_bytes(path) <= 2 * size
    np.testing.assert_array_equal(first, np.arange(size // 4))
    weights.release()
    monkeypatch.setattr("irrun.ir.weights.MAX_PREFETCHED", size - 1)
    weights.prefetch([last])
    wait_for_mapping()
    assert count_resident_bytes(path) == 0


def test_arrays_are_not_mapped_in_advance_where_no_thread_can_be_started(tmp_path, monkeypatch):
    def refuse(thread):
        calls.append(thread.name)
        raise RuntimeError("can't start new thread")

    path, calls = tmp_path / "model.bin", []
    np.arange(1 << 18, dtype=np.float32).tofile(path)
    weights = Weights.open(path)
    array = Constant.from_weights(weights, F32, (1 << 18,), 0).to_array()
    monkeypatch.setattr(threading.Thread, "start", refuse)
    weights.prefetch([array])
    assert calls == (["irrun-weights"] if sys.platform == "linux" else [])
    np.testing.assert_array_equal(array, np.arange(1 << 18))


def test_other_weights_than_files_are_neither_mapped_nor_released():
    weights = Weights(bytes(1 << 20))
    array = Constant.from_weights(weights, F32, (1 << 18,), 0).to_array()
    weights.prefetch([array])
    weights.release(array)
    weights.release()
    assert not array.any()
