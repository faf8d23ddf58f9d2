"""A team of threads that compute parts of kernels together, without the interpreter's lock.

Waking a thread takes 50 to 100 microseconds, and taking the interpreter's lock from another thread takes as long again.
Helpers of a team therefore wait in compiled code for the next job: they join it within a microsecond. After a while
without jobs, they sleep until a job wakes them up.

If other programs keep the cores busy, helpers only take the core from the thread that they help. Jobs are therefore
computed without helpers for a while if a helper took much too long for a part, or if the thread waits for a core.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import os
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from irrun.fast.jit.addresses import get_address
from irrun.fast.jit.compiler import compile_module, find_symbol, get_triple
from irrun.fast.jit.team_code import LAST_WAITS, LINE_SIZE, OWN_PARTS, SIGNATURES, STATE_SIZE, WAITS, make_team_code
from irrun.forks import make_lock

__all__ = ["run_jobs"]

Array = np.ndarray[Any, Any]

#: Number of pauses (25 to 50 nanoseconds each) without a job before a helper sleeps.
PATIENCE = 12_000
#: Number of pauses for which a thread waits before it suspects that a helper has no core: about a millisecond.
MIN_WAITS = 40_000
#: Nanoseconds between checks of how long the thread has waited for a core, and the maximum share of waiting.
SAMPLE_TIME, MAX_DELAY = 40_000_000, 0.15
#: Nanoseconds without helpers: doubled each time, up to a limit.
MIN_PENALTY, MAX_PENALTY = 40_000_000, 1_000_000_000


class _Team:
    """The helpers of the process, started when a job can use them."""

    def __init__(self) -> None:
        kernels = compile_module(make_team_code(get_triple()), SIGNATURES)
        self._run, self._serve = kernels["run_jobs"], kernels["serve"]
        buffer = np.zeros(STATE_SIZE + LINE_SIZE, np.int64)
        start = -get_address(buffer) % (8 * LINE_SIZE) // 8
        self._state = buffer[start : start + STATE_SIZE]
        self._address = get_address(self._state)
        self._yield = find_symbol("SwitchToThread" if sys.platform == "win32" else "sched_yield")
        self._lock = make_lock()
        self._helpers: list[_Helper] = []
        self._load = _Load()
        self._pause_time = self._measure_pause()

    def _measure_pause(self) -> float:
        """Return the duration of a pause in nanoseconds."""
        sleeps = ctypes.c_int64()  # stays in memory until the call has written it
        start = time.perf_counter_ns()
        self.serve(0, sleeps)
        return (time.perf_counter_ns() - start) / (PATIENCE + LAST_WAITS)

    def run(self, jobs: Array, count: int, helper_count: int) -> None:
        """Compute jobs, together with helpers unless the cores are busy."""
        start = 0
        if helper_count:
            start = time.perf_counter_ns()
            if not self._load.allows_helpers(start):
                helper_count = 0
        if len(self._helpers) < helper_count:
            self._start(helper_count)
        for helper in self._helpers[:helper_count]:
            if helper.is_asleep:
                helper.wake()
        self._run(self._address, get_address(jobs), count, helper_count, self._yield)
        if jobs[WAITS] > MIN_WAITS:
            self._load.judge_waiting(start, int(jobs[OWN_PARTS]), int(jobs[WAITS]) * self._pause_time)

    def serve(self, number: int, sleeps: ctypes.c_int64) -> None:
        """Help with jobs until there are none for a while, and set `sleeps` to 1."""
        self._serve(self._address, ctypes.addressof(sleeps), number, PATIENCE)

    def _start(self, count: int) -> None:
        with self._lock, contextlib.suppress(RuntimeError):  # no more threads can be started
            while len(self._helpers) < count:
                self._helpers.append(_Helper(self, len(self._helpers) + 1))


class _Load:
    """Estimates whether other programs use the cores. Times are in nanoseconds."""

    def __init__(self) -> None:
        self._penalty, self._resume_time = MIN_PENALTY, 0
        self._sample = (0, 0, 0)

    def allows_helpers(self, now: int) -> bool:
        """Return whether jobs use helpers, and check from time to time how long the thread has waited for a core."""
        if now < self._resume_time:
            return False
        thread, time_before, delay_before = self._sample
        elapsed = now - time_before
        if elapsed < SAMPLE_TIME:
            return True
        self._sample = (threading.get_ident(), now, _read_delay())
        delay = self._sample[2] - delay_before
        if thread != self._sample[0] or elapsed > 10 * SAMPLE_TIME or delay < MAX_DELAY * elapsed:
            return True
        self._penalize(time_before, now)
        return False

    def judge_waiting(self, start: int, parts: int, waited: float) -> None:
        """Judge finished jobs by the parts that their owner computed and by its longest wait for helpers."""
        now = time.perf_counter_ns()
        if parts and waited > 2 * (now - start - waited) / parts:
            self._penalize(start, now)

    def _penalize(self, start: int, now: int) -> None:
        """Disable helpers for a while, for twice as long as the last time if that was recent."""
        is_repeated = start - self._resume_time < 10 * self._penalty
        self._penalty = min(MAX_PENALTY, 2 * self._penalty) if is_repeated else MIN_PENALTY
        self._resume_time = now + self._penalty
        self._sample = (0, 0, 0)


def _read_delay() -> int:
    """Return how long the current thread has waited for a core in nanoseconds, if the platform tells."""
    try:
        descriptor = os.open("/proc/thread-self/schedstat", os.O_RDONLY)
    except OSError:
        return 0
    try:
        return int(os.read(descriptor, 100).split()[1])
    except (OSError, IndexError, ValueError):
        return 0
    finally:
        os.close(descriptor)


@functools.cache
def _find_core_function() -> Callable[[], int]:
    address = find_symbol("sched_getcpu") if hasattr(os, "sched_setaffinity") else 0
    return ctypes.CFUNCTYPE(ctypes.c_int)(address) if address else lambda: -1


def _get_core() -> int:
    """Return the core of the current thread, or -1 if the platform does not tell."""
    return _find_core_function()()


class _Helper:
    """A thread that helps a team. It sleeps until it is woken up.

    Args:
        team: The team.
        number: The number of the thread, from 1 on.
    """

    def __init__(self, team: _Team, number: int) -> None:
        self._sleeps = ctypes.c_int64(1)
        self._signal = threading.Lock()
        self._signal.acquire()
        self._team, self._number = team, number
        self._avoided_core = -1
        self._thread = threading.Thread(target=self._work, name=f"irrun-kernels-{number}", daemon=True)
        self._thread.start()

    @property
    def is_asleep(self) -> bool:
        """Return whether it must be woken up."""
        return self._sleeps.value != 0

    def wake(self) -> None:
        """Let it help again, on a core other than the current one.

        The operating system may wake it up on the core of the thread that it helps, and leave it there for seconds.
        """
        core = _get_core()
        if core != self._avoided_core:
            self._avoided_core = core
            with contextlib.suppress(OSError):
                os.sched_setaffinity(self._thread.native_id or 0, os.sched_getaffinity(0) - {core})
        self._sleeps.value = 0
        with contextlib.suppress(RuntimeError):  # another thread has just woken it up
            self._signal.release()

    def _work(self) -> None:
        while True:
            self._signal.acquire()
            self._team.serve(self._number, self._sleeps)


@functools.cache
def _get_team() -> _Team:
    return _Team()


if hasattr(os, "register_at_fork"):  # a child process has none of the threads
    os.register_at_fork(after_in_child=_get_team.cache_clear)


def run_jobs(jobs: Array, count: int, helper_count: int) -> None:
    """Compute jobs one after another.

    Args:
        jobs: The jobs; see `irrun.fast.jit.team_code`.
        count: Their number.
        helper_count: The number of helpers that take part in any of them.
    """
    _get_team().run(jobs, count, helper_count)
