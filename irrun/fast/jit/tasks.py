"""Tasks: calls of compiled kernels, divided into parts. The threads of a run take one part after another.

A task is created once per data shape. Compiled code reads its calls from an array, so the parts need
neither the interpreter nor its lock. Addresses that differ between runs are relative to *bases*: the arrays
of the run, and the scratch memory of the thread.
"""

from __future__ import annotations

import ctypes
import functools
import itertools
import struct
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from irrun.fast.jit.addresses import get_address
from irrun.fast.jit.compiler import Kernel
from irrun.fast.jit.team import run_jobs
from irrun.fast.jit.team_code import HEADER_SIZE
from irrun.fast.scratch import reserve
from irrun.fast.support import F32
from irrun.threads import get_thread_count

__all__ = [
    "SCRATCH",
    "Address",
    "Argument",
    "Call",
    "Task",
    "align_size",
    "make_base",
    "make_range_task",
    "reserve_scratch",
]

Array = np.ndarray[Any, Any]

#: Size of a cache line in bytes.
_ALIGNMENT = 64


class Address(NamedTuple):
    """An address relative to a base.

    Attributes:
        base: The number of the base.
        offset: Bytes.
    """

    base: int
    offset: int = 0

    def move(self, offset: int) -> Address:
        """Return the address plus a number of bytes."""
        return Address(self.base, self.offset + offset)


#: An integer or a float, an absolute address as an integer, or a relative one.
Argument: TypeAlias = "int | float | Address"


class Call(NamedTuple):
    """A call of a kernel.

    Attributes:
        kernel: The kernel.
        arguments: Integers and floats, absolute addresses as integers, or relative ones.
    """

    kernel: Kernel
    arguments: Sequence[Argument]


#: The base of a thread's scratch memory. The arrays of a run have the bases from 2 on.
SCRATCH = Address(1)
_FIRST_ARRAY = 2


class Task:
    """Kernel calls, divided into parts.

    Args:
        parts: The calls of each part, in order. Parts may run in any order.
        scratch_size: Scratch memory per part in bytes.

    Attributes:
        scratch_size: The same.
    """

    def __init__(self, parts: Iterable[Iterable[Call]], scratch_size: int = 0) -> None:
        words: list[int] = []
        starts = [0]
        for part in parts:
            for kernel, arguments in part:
                words += (kernel.entry, 2 + 2 * len(arguments))
                for argument in arguments:
                    words += _encode(argument)
            starts.append(len(words))
        self._arrays: list[Array] = []
        self._calls, self._starts = np.array(words or [0], np.int64), np.array(starts, np.int64)
        self._part_count = len(starts) - 1
        self._header = (get_address(self._calls), get_address(self._starts), self._part_count)
        self.scratch_size = scratch_size
        #: The entry of the only call and the address of its arguments.
        self._single: tuple[Callable[[int, bytes], object], int] | None = None
        if self._part_count == 1 and words and len(words) == words[1]:
            self._single = _make_entry(words[0]), self._header[0] + 2 * self._calls.itemsize

    def keep(self, *arrays: Array) -> None:
        """Keep arrays in memory that absolute addresses point to."""
        self._arrays += arrays

    def run(self, *addresses: int) -> None:
        """Compute all parts.

        Args:
            addresses: The bases of the arrays of this run, from base 2 on.
        """
        if self._single is not None:  # skip the array that describes a job, which would dominate small tasks
            enter, arguments = self._single
            scratch = reserve_scratch(0, self.scratch_size)
            enter(arguments, struct.pack(f"{_FIRST_ARRAY + len(addresses)}q", 0, scratch, *addresses))
            return
        helpers = self.count_helpers(get_thread_count())
        bases: list[int] = []
        for thread in range(helpers + 1):
            bases += (0, reserve_scratch(thread, self.scratch_size), *addresses)
        run_jobs(np.array((*self.describe(helpers, len(addresses)), *bases), np.int64), 1, helpers)

    def count_helpers(self, thread_count: int) -> int:
        """Return the number of helpers that can take part."""
        return max(0, min(thread_count, self._part_count) - 1)

    def describe(self, helpers: int, array_count: int) -> tuple[int, ...]:
        """Return the header of a job; the bases of each thread follow: 0, its scratch memory, and the arrays."""
        base_count = _FIRST_ARRAY + array_count
        return (*self._header, helpers, base_count, 0, 0, HEADER_SIZE + base_count * (helpers + 1))


@functools.lru_cache(maxsize=4096)
def _make_entry(address: int) -> Callable[[int, bytes], object]:
    """Return the entry of a kernel at an address."""
    return ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_char_p)(address)


def make_base(number: int) -> Address:
    """Return the address of an array of a run: 0 for the first one."""
    return Address(_FIRST_ARRAY + number)


def make_range_task(
    kernel: Kernel, before: Sequence[Argument], total: int, part_count: int, after: Sequence[Argument] = ()
) -> Task:
    """Return the task that calls a kernel for each part of a range.

    Args:
        kernel: The kernel. It takes `before`, the first element of a part, the element after the last one, and `after`.
        before: Arguments.
        total: The number of elements.
        part_count: The number of parts.
        after: Arguments.
    """
    bounds = [total * i // part_count for i in range(part_count + 1)]
    return Task([Call(kernel, (*before, *part, *after))] for part in itertools.pairwise(bounds))


def align_size(size: int) -> int:
    """Round a number of bytes up to whole cache lines."""
    return size + -size % _ALIGNMENT


def _encode(argument: Argument) -> tuple[int, int]:
    """Return the base and the offset of an argument; the bits of a float are its offset."""
    if isinstance(argument, Address):
        return argument
    if isinstance(argument, float):
        return 0, struct.unpack("<i", struct.pack("<f", argument))[0]
    return 0, int(argument)


def reserve_scratch(thread: int, size: int) -> int:
    """Return the scratch memory of one of the threads that compute the current thread's jobs."""
    if not size:
        return 0
    address = get_address(reserve(thread, -(-(size + _ALIGNMENT) // F32.itemsize)))
    return address + -address % _ALIGNMENT
