"""A team of threads that compute parts of kernels together, without the interpreter's lock.

Waking a thread takes 50 to 100 microseconds, and taking the interpreter's lock from another thread as long again.
Helpers of a team therefore wait in compiled code for the next job: they join it within a microsecond. After a while
without jobs, they sleep until a job wakes them up. A job never waits for helpers that sleep or do not get a core, only
for parts that they have begun.
"""

from __future__ import annotations

import contextlib
import functools
import os
import sys
import threading
from typing import Any

import numpy as np

from irrun.fast.jit.addresses import get_address
from irrun.fast.jit.compiler import compile_module, find_symbol, get_triple
from irrun.fast.jit.team_code import LINE_SIZE, SIGNATURES, STATE_SIZE, make_team_code

__all__ = ["run_job"]

Array = np.ndarray[Any, Any]

#: Pauses without a job until a helper sleeps, each of 25 to 50 nanoseconds.
PATIENCE = 12_000


class _Team:
    """The helpers of the process, which are started when a job has use for them."""

    def __init__(self) -> None:
        kernels = compile_module(make_team_code(get_triple()), SIGNATURES)
        self._run, self._serve = kernels["run_job"], kernels["serve"]
        buffer = np.zeros(STATE_SIZE + LINE_SIZE, np.int64)
        start = -get_address(buffer) % (8 * LINE_SIZE) // 8
        self._state = buffer[start : start + STATE_SIZE]
        self._address = get_address(self._state)
        self._yield = find_symbol("SwitchToThread" if sys.platform == "win32" else "sched_yield")
        self._lock = threading.Lock()
        self._helpers: list[_Helper] = []

    def run(self, job: int, helper_count: int) -> None:
        """Compute a job with up to a number of helpers."""
        if len(self._helpers) < helper_count:
            self._start(helper_count)
        for helper in self._helpers[:helper_count]:
            if helper.is_asleep:
                helper.wake()
        self._run(self._address, job, self._yield)

    def serve(self, number: int) -> None:
        """Help with jobs, until there were none for a while."""
        self._serve(self._address, number, PATIENCE)

    def _start(self, count: int) -> None:
        with self._lock:
            while len(self._helpers) < count:
                self._helpers.append(_Helper(self, len(self._helpers) + 1))


class _Helper:
    """A thread that helps a team.

    Args:
        team: The team.
        number: The number of the thread, from 1 on.

    Attributes:
        is_asleep: Whether it has to be woken up.
    """

    def __init__(self, team: _Team, number: int) -> None:
        self.is_asleep = False
        self._signal = threading.Lock()
        self._signal.acquire()
        self._team, self._number = team, number
        threading.Thread(target=self._work, name=f"irrun-kernels-{number}", daemon=True).start()

    def wake(self) -> None:
        """Let it help again."""
        self.is_asleep = False
        with contextlib.suppress(RuntimeError):  # another thread has just woken it up
            self._signal.release()

    def _work(self) -> None:
        while True:
            self._team.serve(self._number)
            self.is_asleep = True
            self._signal.acquire()
            self.is_asleep = False


@functools.cache
def _get_team() -> _Team:
    return _Team()


if hasattr(os, "register_at_fork"):  # a child process has none of the threads
    os.register_at_fork(after_in_child=_get_team.cache_clear)


def run_job(job: int, helper_count: int) -> None:
    """Compute a job; see `irrun.fast.jit.team_code`.

    Args:
        job: Its address.
        helper_count: The number of helpers that may take part.
    """
    _get_team().run(job, helper_count)
