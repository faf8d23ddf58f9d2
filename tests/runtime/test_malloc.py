"""Settings of the allocator of the C library."""

from __future__ import annotations

import ctypes

import pytest

from irrun.runtime import malloc


def call_with(monkeypatch, library):
    monkeypatch.setattr(ctypes, "CDLL", library)
    malloc.override_thresholds.cache_clear()
    malloc.override_thresholds()
    malloc.override_thresholds.cache_clear()


def test_thresholds_of_glibc_are_set(monkeypatch):
    """mallopt(3) numbers M_TRIM_THRESHOLD -1 and M_MMAP_THRESHOLD -3."""
    calls = {}

    class Library:
        def __init__(self, name):
            self.mallopt = calls.__setitem__

    call_with(monkeypatch, Library)
    assert set(calls) == {-1, -3}
    assert 16 << 20 < calls[-3] < 32 << 20  # larger ones than its maximum would be ignored
    assert calls[-1] > calls[-3]


@pytest.mark.parametrize("error", [OSError, AttributeError, TypeError])
def test_other_libraries_are_left_as_they_are(error, monkeypatch):
    def fail(name):
        raise error

    call_with(monkeypatch, fail)


def test_blocks_are_kept_if_memory_is_short(monkeypatch):
    def fail(*_):
        raise MemoryError

    monkeypatch.setattr("numpy.empty", fail)
    malloc.keep_freed_blocks.cache_clear()
    malloc.keep_freed_blocks()
    malloc.keep_freed_blocks.cache_clear()
