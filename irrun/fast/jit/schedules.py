"""Schedules: tasks of several kernels, which compiled code computes one after another without the interpreter."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from irrun.fast.jit.addresses import get_address
from irrun.fast.jit.tasks import Address, Task, reserve_scratch
from irrun.fast.jit.team import run_jobs

__all__ = ["ABSOLUTE", "Schedule"]

Array = np.ndarray[Any, Any]

#: The base of absolute addresses. Others are the numbers of the arrays of a run.
ABSOLUTE = -1
#: The base of the words of a run. Those of the scratch memory of each thread come before.
_WORDS = -2
_WORD_SIZE = 8


class Schedule:
    """Tasks with the addresses of their arrays.

    All words that describe a run, its jobs and its tables of addresses, are sums of a base and an offset, so that they
    are computed at once.

    Args:
        tables: Tables of addresses, relative to the arrays of a run or ABSOLUTE.
        tasks: The tasks, each with its arrays: addresses, or the numbers of tables.
        thread_count: The number of threads that compute them.
    """

    def __init__(
        self,
        tables: Iterable[Sequence[Address]],
        tasks: Iterable[tuple[Task, Sequence[Address | int]]],
        thread_count: int,
    ) -> None:
        words: list[Address] = []
        places = []
        for table in tables:
            places.append(Address(_WORDS, _WORD_SIZE * len(words)))
            words += table
        self._first_job = len(words)
        self._tasks = []
        self._helper_count = 0
        for task, arrays in tasks:
            addresses = [x if isinstance(x, Address) else places[x] for x in arrays]
            helpers = task.count_helpers(thread_count)
            words += (Address(ABSOLUTE, word) for word in task.describe(helpers, len(addresses)))
            for thread in range(helpers + 1):
                words += (Address(ABSOLUTE), Address(_WORDS - 1 - thread), *addresses)
            self._helper_count = max(self._helper_count, helpers)
            self._tasks.append(task)
        self._scratch_size = max(task.scratch_size for task in self._tasks)
        self._bases = np.array([word.base for word in words], np.intp)
        self._offsets = np.array([word.offset for word in words], np.int64)

    def run(self, arrays: Sequence[int]) -> None:
        """Compute the tasks, for the addresses of the arrays of a run."""
        words = np.empty(len(self._bases), np.int64)
        scratch = [reserve_scratch(thread, self._scratch_size) for thread in range(self._helper_count, -1, -1)]
        known = np.array([*arrays, *scratch, get_address(words), 0], np.int64)
        known.take(self._bases, out=words, mode="wrap")
        words += self._offsets
        run_jobs(words[self._first_job :], len(self._tasks), self._helper_count)
