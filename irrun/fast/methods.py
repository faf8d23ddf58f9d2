"""Methods: implementations of an operation, chosen by the shapes, the weights and the processor.

A table lists the methods of an operation. The first method that applies and has enough memory for its prepared weights
is chosen; `irrun info --plan` shows it, and why earlier methods were not chosen.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, NamedTuple, TypeVar

from irrun.fast.errors import NoKernelError
from irrun.limits import format_size

__all__ = ["Choice", "MethodEntry", "choose_method"]

P = TypeVar("P")


def _count_nothing(problem: object) -> int:
    return 0


@dataclass(frozen=True, eq=False)
class MethodEntry(Generic[P]):
    """A method for problems of one type.

    Attributes:
        name: Its name.
        reason: When it is chosen.
        applies: Returns whether the method can solve a problem.
        create: Creates the method; each table defines the arguments in addition to the problem.
        count_bytes: Returns the additional memory for prepared weights.
    """

    name: str
    reason: str
    applies: Callable[[P], bool]
    create: Callable[..., Any]
    count_bytes: Callable[[P], int] = _count_nothing


class Choice(NamedTuple):
    """The chosen method.

    Attributes:
        entry: The method.
        others: The methods before it in the table, each with the bytes of its weights if it applies.
    """

    entry: MethodEntry[Any]
    others: tuple[tuple[MethodEntry[Any], int], ...]

    @property
    def description(self) -> str:
        """The name of the method, and when it is chosen."""
        return f"{self.entry.name}: {self.entry.reason}"

    @property
    def refused(self) -> tuple[tuple[str, str], ...]:
        """The names of the methods before it, each with the reason why it was not chosen."""
        return tuple(
            (
                entry.name,
                f"its weights of {format_size(size)} exceed the memory for prepared weights"
                if size
                else f"only for {entry.reason}",
            )
            for entry, size in self.others
        )


def choose_method(
    methods: Sequence[MethodEntry[P]],
    problem: P,
    fits: Callable[[MethodEntry[P], int], bool] = lambda entry, size: True,
) -> Choice:
    """Return the first method that applies.

    Args:
        methods: The table.
        problem: The problem.
        fits: Takes the size of a method's prepared weights, and returns whether there is enough memory for them.

    Raises:
        NoKernelError: No method applies.
    """
    others: list[tuple[MethodEntry[P], int]] = []
    for entry in methods:
        size = 0
        if entry.applies(problem):
            size = entry.count_bytes(problem)
            if not size or fits(entry, size):
                return Choice(entry, tuple(others))
        others.append((entry, size))
    raise NoKernelError("no method applies")
