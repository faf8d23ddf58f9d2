"""Schedules: compiled code computes the tasks of several kernels one after another, without the interpreter."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from irrun.fast.jit.addresses import get_address
from irrun.fast.jit.tasks import Address, Task, reserve_scratch
from irrun.fast.jit.team import run_jobs
from irrun.fast.jit.team_code import OWN_PARTS, WAITS

__all__ = ["ABSOLUTE", "LoopSchedule", "Schedule"]

Array = np.ndarray[Any, Any]

#: The base of absolute addresses. All other bases are numbers of arrays of a run.
ABSOLUTE = -1
#: The base of the words of a run, after the bases of each thread's scratch memory.
_WORDS = -2
_WORD_SIZE = 8


class Schedule:
    """Tasks with the addresses of their arrays.

    All words that describe a run (its jobs and tables of addresses) are sums of a base and an offset, so they
    are computed in one step.

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


class LoopSchedule:
    """Tasks that are repeated with different addresses of some arrays.

    Args:
        tables: Tables of addresses; see `Schedule`.
        tasks: The tasks; see `Schedule`.
        thread_count: The number of threads that compute them.
        varying: The numbers of the arrays whose addresses differ between iterations, in the order of their addresses.

    Attributes:
        size: The number of words of an iteration.
    """

    def __init__(
        self,
        tables: Iterable[Sequence[Address]],
        tasks: Iterable[tuple[Task, Sequence[Address | int]]],
        thread_count: int,
        varying: Sequence[int],
    ) -> None:
        schedule = Schedule(tables, tasks, thread_count)
        self._tasks, self._helper_count = schedule._tasks, schedule._helper_count
        self._scratch_size = schedule._scratch_size
        self._split = split = schedule._first_job
        self._bases, self._offsets = schedule._bases, schedule._offsets
        self.size = len(self._bases)
        order = {number: column for column, number in enumerate(varying)}
        columns = np.array([order.get(base, -1) for base in self._bases.tolist()])
        places = np.flatnonzero(columns >= 0)
        #: For tables and jobs: the positions of varying words, the columns of their addresses, and their offsets.
        self._words = [
            (own - first, columns[own], self._offsets[own])
            for first, own in ((0, places[places < split]), (split, places[places >= split]))
        ]
        #: The positions in jobs of the addresses of tables.
        self._tables = np.flatnonzero(self._bases[split:] == _WORDS)

    def start(self, arrays: Sequence[int], rows: int) -> LoopRun:
        """Return a run of the tasks.

        Args:
            arrays: The addresses of the arrays, 0 for arrays that vary.
            rows: The maximum number of iterations per call.
        """
        scratch = [reserve_scratch(thread, self._scratch_size) for thread in range(self._helper_count, -1, -1)]
        split = self._split
        tables = np.empty((rows, split), np.int64)
        jobs = np.empty((rows, self.size - split), np.int64)
        known = np.array([*arrays, *scratch, get_address(tables), 0], np.int64)
        words = known.take(self._bases, mode="wrap")
        words += self._offsets
        tables[...], jobs[...] = words[:split], words[split:]
        if split:
            jobs[:, self._tables] += np.arange(0, rows * split * _WORD_SIZE, split * _WORD_SIZE)[:, np.newaxis]
        targets = zip((tables, jobs), self._words, strict=True)
        varying = [(x, *own) for x, own in targets if len(own[0])]
        return LoopRun(varying, tables, jobs, len(self._tasks), self._helper_count)


class LoopRun:
    """Iterations of tasks.

    Args:
        words: Arrays with the positions of varying words, the columns of their addresses, and their offsets.
        tables: The tables of several iterations, whose addresses are in the jobs.
        jobs: The jobs of several iterations.
        task_count: The number of jobs of an iteration.
        helper_count: The number of helpers that take part.
    """

    def __init__(
        self,
        words: Sequence[tuple[Array, Array, Array, Array]],
        tables: Array,
        jobs: Array,
        task_count: int,
        helper_count: int,
    ) -> None:
        self._words, self._tables, self._jobs = words, tables, jobs
        self._task_count, self._helper_count = task_count, helper_count

    def run(self, count: int, addresses: Array) -> None:
        """Compute some iterations.

        Args:
            count: The number of iterations.
            addresses: The addresses of the arrays that vary, shape [count, arrays].
        """
        for target, positions, columns, offsets in self._words:
            target[:count, positions] = addresses[:, columns] + offsets
        self._jobs[0, OWN_PARTS] = self._jobs[0, WAITS] = 0
        run_jobs(self._jobs.reshape(-1), count * self._task_count, self._helper_count)
