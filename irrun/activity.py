"""The current activity of the process, for a display that another thread draws.

Long steps announce themselves here. They do not know whether a display exists, and the cost is one entry of a list.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple, Protocol

__all__ = ["Activity", "Step", "announce", "find_step", "start_activity", "stop_activity"]


class Step(NamedTuple):
    """The step that an activity has reached.

    Attributes:
        text: The activity, such as "compiling kernels", or the type of a layer.
        name: The name of its object.
        detail: A prefix, such as "4 of 10 iterations of".
        owner: The name at the end of the detail. Displays may shorten both names.
        done: The number of parts that are done.
        total: The number of all parts; 0 if it is not known.
        unit: The name of the parts, such as "layers".
    """

    text: str
    name: str = ""
    detail: str = ""
    owner: str = ""
    done: int = 0
    total: int = 0
    unit: str = "layers"


class Activity(Protocol):
    """An activity that takes long enough to be shown."""

    def describe_step(self) -> Step | None:
        """Return the current step, or None if there is nothing to show. Any thread may call it."""


class _NamedActivity:
    """An activity that consists of one step."""

    def __init__(self, step: Step) -> None:
        self._step = step

    def describe_step(self) -> Step:
        return self._step


#: The activities of all threads, the latest last.
_activities: list[Activity] = []


def start_activity(activity: Activity) -> None:
    """Add an activity, which lasts until `stop_activity` is called with it."""
    _activities.append(activity)


def stop_activity(activity: Activity) -> None:
    """Remove an activity that was started."""
    _activities.remove(activity)


@contextmanager
def announce(text: str, name: str = "") -> Iterator[None]:
    """Announce the activity of a `with` block.

    Args:
        text: The activity, such as "reading".
        name: The name of its object.
    """
    activity = _NamedActivity(Step(text, name))
    start_activity(activity)
    try:
        yield
    finally:
        stop_activity(activity)


def find_step() -> Step | None:
    """Return the step of the latest activity that has one; None if the process has announced nothing."""
    steps = (activity.describe_step() for activity in reversed(_activities.copy()))
    return next((step for step in steps if step is not None), None)
