"""Contiguous copies of transposed arrays: the same values in every layout, for any number of threads."""

from __future__ import annotations

import numpy as np
import pytest

from irrun.errors import IrrunError
from irrun.fast import transposition
from irrun.fast.transposition import copy_transposed, make_contiguous
from irrun.threads import use_threads


def make_values(*shape, dtype=np.float32):
    return np.arange(np.prod(shape)).reshape(shape).astype(dtype)


LAYOUTS = {
    "channels after positions": make_values(256, 1024).T,
    "positions after channels": make_values(1024, 256).T,
    "spatial axes": make_values(1, 32, 32, 128).transpose(0, 3, 1, 2),
    "several images": make_values(3, 128, 40, 24).transpose(0, 2, 3, 1),
    "tiles at the ends": make_values(384, 700 + 68)[:, :700].T,
    "few columns": make_values(15, 1024).T,
    "competing rows of another distance": make_values(200, 300).T,
    "steps": make_values(128, 512).T[:, ::2],
    "four axes": make_values(8, 16, 32, 64).transpose(3, 1, 2, 0),
    "reversed": make_values(64, 256).T[::-1],
    "broadcast": np.broadcast_to(make_values(1, 256), (128, 256)).T,
    "f64": make_values(64, 256, dtype=np.float64).T,
    "integers": make_values(64, 256, dtype=np.int64).T,
    "another byte order": make_values(64, 256).astype(">f4").T,
    "unaligned": np.frombuffer(b"\0" + make_values(64, 256).tobytes(), np.uint8)[1:]
    .view(np.float32)
    .reshape(64, 256)
    .T,
    "empty": make_values(0, 256).T,
    "scalar": np.float32(3) + np.zeros((), np.float32),
}


@pytest.mark.parametrize("count", [1, 2, 4])
@pytest.mark.parametrize("name", LAYOUTS)
def test_copies_have_the_values_of_the_original(name, count, monkeypatch):
    monkeypatch.setattr(transposition, "TILE_SIZE", 1 << 12)
    monkeypatch.setattr(transposition, "MAX_TILE_ROWS", 64)
    monkeypatch.setattr(transposition, "COPY_TIME", 10)
    x = LAYOUTS[name]
    with use_threads(count):
        copy = make_contiguous(x)
        out = np.empty(x.shape, x.dtype)
        copy_transposed(x, out)
    assert copy.flags.c_contiguous
    assert copy.dtype == x.dtype
    np.testing.assert_array_equal(copy, x)
    np.testing.assert_array_equal(out, x)


def test_contiguous_arrays_are_not_copied():
    x = make_values(64, 256)
    assert make_contiguous(x) is x


def test_rows_that_compete_are_copied_by_tiles(monkeypatch):
    """Rows whose distance is a multiple of 512 bytes, and at least 16 rows and columns."""
    purposes = []

    def record(purpose, *shape):
        purposes.append(shape)
        return np.empty(shape, np.float32)

    monkeypatch.setattr(transposition, "get_scratch", record)
    for shape in ((64, 130), (15, 128), (64, 15 * 128)):
        make_contiguous(make_values(*shape).T[:15] if shape[1] > 1000 else make_values(*shape).T)
    assert not purposes
    make_contiguous(make_values(16, 128).T)
    make_contiguous(make_values(200, 1024).T)
    make_contiguous(make_values(260, 256).T)
    assert purposes == [(16, 128 + 4), (200, 327 + 4), (256, 256 + 4)]


def test_copies_count_towards_the_memory_limit():
    with pytest.raises(IrrunError, match="expected at most"):
        make_contiguous(np.broadcast_to(np.float32(1), (1 << 24, 1 << 24)))
