"""Runs tasks in processes and survives their end."""

from __future__ import annotations

import multiprocessing
import signal
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import replace
from multiprocessing.connection import Connection, wait
from pathlib import Path
from time import monotonic
from typing import Any

from irrun.conformance.worker import Outcome, Task, WorkerSettings, work
from irrun.errors import ExecutionError, to_one_line

__all__ = ["Pool"]

#: Seconds that a process may take to start, which is not part of the time of its first case.
START_TIMEOUT = 60.0

#: Receives the task and the outcome of each case.
Receiver = Callable[[Task, Outcome], None]


class Pool:
    """Processes that run tasks. A case that ends its process or takes too long is run again alone.

    Args:
        count: The number of processes.
        settings: The settings shared by all cases; the logs of the processes are written next to `settings.log`.
        timeout: Seconds that a case may take.
        target: The target of the processes.
    """

    def __init__(
        self,
        count: int,
        settings: WorkerSettings,
        timeout: float,
        target: Callable[[Connection, WorkerSettings], None] = work,
    ) -> None:
        self._count = count
        self._settings = settings
        self._timeout = timeout
        self._target = target
        self._context = multiprocessing.get_context("spawn")
        self._started = 0

    def run(self, tasks: Iterable[Task], receive: Receiver) -> None:
        """Run tasks.

        Args:
            tasks: The tasks.
            receive: Called for each case, in any order.

        Raises:
            ExecutionError: A process cannot be started.
        """
        queue = deque(tasks)
        workers: list[_Worker] = []
        try:
            while queue or any(worker.task is not None for worker in workers):
                self._assign(queue, workers)
                waiting = {worker.connection: worker for worker in workers if worker.task is not None}
                for connection in wait(list(waiting), 1.0):
                    self._handle(waiting[connection], queue, receive)  # type: ignore[index]
                for worker in waiting.values():
                    timeout = self._timeout if worker.has_started else max(self._timeout, START_TIMEOUT)
                    if worker.task is not None and monotonic() - worker.since > timeout:
                        self._end_case(worker, f"no result after {timeout:g} s", queue, receive)
                workers = [worker for worker in workers if not worker.is_closed]
        finally:
            for worker in workers:
                worker.close()

    def _assign(self, queue: deque[Task], workers: list[_Worker]) -> None:
        """Give each idle process a task, and start missing ones."""
        for worker in [w for w in workers if w.task is None]:
            if queue and not worker.is_used_up and not queue[0].is_alone:
                worker.assign(queue.popleft())
            elif queue:
                worker.close()
                workers.remove(worker)
        while queue and len(workers) < self._count:
            self._started += 1
            log = self._settings.log.with_name(f"{self._settings.log.name}{self._started}")
            workers.append(_Worker(self._context, self._target, replace(self._settings, log=log)))
            workers[-1].assign(queue.popleft())

    def _handle(self, worker: _Worker, queue: deque[Task], receive: Receiver) -> None:
        """Handle a message of a process, or its end."""
        try:
            message = worker.connection.recv()
        except (EOFError, OSError):
            self._end_case(worker, "", queue, receive)
            return
        task = worker.task
        assert task is not None
        worker.since = monotonic()
        worker.has_started = True
        if isinstance(message, Outcome):
            receive(task, message)
            worker.done += 1
        elif message is None:
            worker.task = None
        else:
            worker.stage, worker.number = message

    def _end_case(self, worker: _Worker, reason: str, queue: deque[Task], receive: Receiver) -> None:
        """End a process, record the case that it ran, and put the rest of its task back into the queue."""
        task, number = worker.task, worker.number
        assert task is not None
        worker.close()
        if number is None:
            if not worker.done:
                raise ExecutionError(f"a process ended before it ran a case{worker.describe_end()}")
            queue.appendleft(task)  # it ended between two tasks
            return
        rest = task.numbers[task.numbers.index(number) + 1 :]
        if rest:
            queue.appendleft(replace(task, numbers=rest))
        one = replace(task, numbers=(number,), is_alone=True)
        if worker.stage == "reference":
            queue.appendleft(replace(one, asks_reference=False))
        elif worker.done:  # what ran before may be the cause
            queue.appendleft(one)
        else:
            where = "irrun: " if worker.stage == "irrun" else ""
            receive(task, Outcome(number, "crashed", where + (reason or f"the process ended{worker.describe_end()}")))


class _Worker:
    """A process.

    Args:
        context: Starts processes.
        target: The target of the process.
        settings: The settings shared by all cases.

    Attributes:
        task: The current task, or None.
        number: The number of the case that it runs, or None.
        stage: The current stage of the case.
        since: When it sent the last message.
        has_started: Whether the process has sent a message.
        done: The number of cases that it has run.
        is_used_up: Whether it must not get another task.
        is_closed: Whether the process has ended.
    """

    def __init__(
        self, context: Any, target: Callable[[Connection, WorkerSettings], None], settings: WorkerSettings
    ) -> None:
        self.task: Task | None = None
        self.number: int | None = None
        self.stage = ""
        self.since = monotonic()
        self.has_started = False
        self.done = 0
        self.is_used_up = False
        self.is_closed = False
        self._log = settings.log
        self.connection: Connection
        self.connection, other = context.Pipe()
        self._process = context.Process(target=target, args=(other, settings), daemon=True)
        self._process.start()
        other.close()

    def assign(self, task: Task) -> None:
        """Start a task."""
        self.task, self.number, self.since = task, None, monotonic()
        self.is_used_up = task.is_alone
        self.connection.send(task)

    def close(self) -> None:
        """End the process."""
        self.is_closed = True
        self.task = None
        self.connection.close()
        self._process.join(0.2)
        if self._process.is_alive():
            self._process.kill()
            self._process.join()

    def describe_end(self) -> str:
        """Return how the process ended, and the last line that it printed."""
        code = self._process.exitcode
        if code is None:
            return ""
        try:
            name = signal.Signals(-code).name if code < 0 else f"exit code {code}"
        except ValueError:
            name = f"signal {-code}"
        return f" with {name}{self._read_last_line()}"

    def _read_last_line(self) -> str:
        lines = _read(self._log).strip().splitlines()
        return to_one_line(f": {lines[-1][:200]}") if lines else ""


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
