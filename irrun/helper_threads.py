"""Threads that help others with a computation, and sleep in between.

Waking a helper takes a third of the time of submitting a function to an executor of `concurrent.futures`.
"""

from __future__ import annotations

import itertools
import os
import threading
from collections import deque
from collections.abc import Callable
from contextlib import suppress

import numpy as np

__all__ = ["Task", "begin_tasks"]


class Task:
    """A function that a helper calls, unless the task is withdrawn before.

    Args:
        function: It must not raise an exception.
        helper: An idle helper.
    """

    def __init__(self, function: Callable[[], object], helper: _Helper) -> None:
        #: Emptied by the first to take the task: the helper, or the thread that withdraws it.
        self._functions = [function]
        self._helper = helper
        self._is_done = threading.Lock()
        self._is_done.acquire()
        helper.add(self)

    def run(self) -> None:
        """Call the function, if the task was not withdrawn. Called by the helper, which is idle afterwards."""
        try:
            function = self._functions.pop()
        except IndexError:
            return
        function()
        _idle_helpers.append(self._helper)
        self._is_done.release()

    def withdraw(self) -> bool:
        """Withdraw the task if it has not started; return whether it was withdrawn."""
        try:
            self._functions.pop()
        except IndexError:
            return False
        _idle_helpers.append(self._helper)
        return True

    def finish(self) -> None:
        """Withdraw the task, or wait until it is done. To be called once."""
        if not self.withdraw():
            self._is_done.acquire()


class _Helper(threading.Thread):
    """A thread that runs tasks."""

    def __init__(self) -> None:
        super().__init__(name="irrun", daemon=True)
        self._signal = threading.Lock()
        self._signal.acquire()
        self._tasks: deque[Task] = deque()
        self.start()

    def run(self) -> None:
        """Run tasks for the rest of the process."""
        np.seterr(all="ignore")
        while True:
            self._signal.acquire()
            while self._tasks:
                self._tasks.popleft().run()

    def add(self, task: Task) -> None:
        """Add a task. All tasks before it are done or withdrawn."""
        self._tasks.append(task)
        with suppress(RuntimeError):  # the helper is about to wake up for a withdrawn task, and will find this one
            self._signal.release()


_idle_helpers: deque[_Helper] = deque()
_helper_numbers = itertools.count()


def begin_tasks(count: int, function: Callable[[], object]) -> list[Task]:
    """Let helpers call a function.

    Args:
        count: The number of helpers. There are fewer if all are busy, or no more threads can be started.
        function: It must not raise an exception.
    """
    tasks = []
    for _ in range(count):
        try:
            helper = _idle_helpers.pop()
        except IndexError:
            if next(_helper_numbers) >= 2 * (os.cpu_count() or 2):
                break
            try:
                helper = _Helper()
            except RuntimeError:
                break
        tasks.append(Task(function, helper))
    return tasks


def _forget_helpers() -> None:
    global _helper_numbers
    _idle_helpers.clear()
    _helper_numbers = itertools.count()


if hasattr(os, "register_at_fork"):  # a child process has none of the threads
    os.register_at_fork(after_in_child=_forget_helpers)
