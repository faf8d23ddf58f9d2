"""Time limits of runs, which long computations check between their blocks."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from time import perf_counter
from typing import TypeVar

from irrun.errors import TimeLimitError

__all__ = ["Deadline", "check_time", "end_at", "get_deadline", "within_time"]

T = TypeVar("T")


class Deadline:
    """The time at which a run must end.

    Args:
        seconds: The seconds from now on.
    """

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._end = perf_counter() + seconds

    def check(self) -> None:
        """Check that the deadline has not passed.

        Raises:
            TimeLimitError: It has passed.
        """
        if perf_counter() > self._end:
            raise TimeLimitError(f"the run exceeded its time limit of {self._seconds:g} s")

    def get_remaining_seconds(self) -> float:
        """Return the remaining seconds; negative after the end."""
        return self._end - perf_counter()


_deadline: ContextVar[Deadline | None] = ContextVar("deadline", default=None)


@contextmanager
def end_at(deadline: Deadline | None) -> Iterator[None]:
    """Let computations of this thread inside a `with` block check a deadline; None for no limit."""
    token = _deadline.set(deadline)
    try:
        yield
    finally:
        _deadline.reset(token)


def get_deadline() -> Deadline | None:
    """Return the deadline of the current run; None outside of runs and without a limit."""
    return _deadline.get()


def check_time() -> None:
    """Check that the current run, if there is one, may continue.

    Raises:
        TimeLimitError: It has exceeded its time limit.
    """
    deadline = _deadline.get()
    if deadline is not None:
        deadline.check()


def within_time(items: Iterable[T]) -> Iterator[T]:
    """Yield the blocks of a computation, and check before each that the current run may continue.

    Args:
        items: The blocks. Each takes much less than a second.

    Raises:
        TimeLimitError: The run has exceeded its time limit.
    """
    deadline = _deadline.get()
    if deadline is None:
        yield from items
        return
    for item in items:
        deadline.check()
        yield item
