"""Limits on the memory of arrays, checked before an allocation."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import numpy as np

from irrun.errors import InputError
from irrun.machine_memory import get_available_memory, get_default_limit
from irrun.numerals import parse_float

__all__ = [
    "LARGE",
    "Collection",
    "MemoryBudget",
    "MemoryLimitError",
    "check_allocation",
    "check_empty",
    "check_scratch",
    "collect_values",
    "find_owner",
    "format_size",
    "limit_allocations",
    "parse_size",
    "reserve_scratch",
    "run_within",
]

Array = np.ndarray[Any, Any]

#: Minimum size in bytes of arrays that are checked one by one; for a small limit, this part of the limit.
LARGE = 1 << 24
LARGE_PART = 32
#: Bytes that a run may use before the available memory is measured.
QUOTA = 1 << 26
#: The share of the available memory that a run may use.
USABLE = 0.9

#: Bytes that a collection may grow by before they are counted.
MAX_UNCOUNTED = 1 << 20

#: Largest product of the other dimensions of an array without elements.
MAX_EMPTY = 1 << 24

_SUFFIXES = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}

_limit: ContextVar[int | None] = ContextVar("limit", default=None)
_budget: ContextVar[MemoryBudget | None] = ContextVar("budget", default=None)


def parse_size(text: str) -> int:
    """Parse a number of bytes such as "800M", "1.5G" or "2 GiB".

    Raises:
        InputError: The text is not a positive size. It is a ValueError.
    """
    stripped = text.strip().upper().removesuffix("B").removesuffix("I").rstrip()
    suffix = stripped[-1:] if stripped[-1:].isalpha() else ""
    try:
        size = parse_float(stripped[: len(stripped) - len(suffix)]) * _SUFFIXES[suffix]
        if not 1 <= size < 1 << 63:
            raise ValueError
    except (KeyError, ValueError):
        raise InputError(f"expected a size such as 800M or 2G, found {text!r}") from None
    return int(size)


def format_size(size: int) -> str:
    """Return a number of bytes in MiB or GiB."""
    return f"{size / 2**30:.3g} GiB" if size >= 1 << 30 else f"{size / 2**20:.3g} MiB"


def find_owner(value: Array) -> Array | None:
    """Return the array that owns the memory of `value`; None if it belongs to something else, such as a mapped file."""
    owner: Any = value
    while not owner.flags.owndata:
        base = owner.base
        if not isinstance(base, np.ndarray):
            base = getattr(base, "base", None)  # np.lib.stride_tricks puts an object in between
            if not isinstance(base, np.ndarray):
                return None
        owner = base
    return owner  # type: ignore[no-any-return]


class MemoryLimitError(InputError):
    """A run would exceed its memory."""


class MemoryBudget:
    """The memory that the values of one run may take at the same time.

    Small arrays are not counted. `used` grows with each large array and is not updated when one is freed. When it would
    exceed the limit, the values that are still alive are counted again, so that most runs do not count them at all.

    Args:
        limit: Bytes; by default 90 % of the memory that is available when the run first requires more than 64 MiB.

    Attributes:
        large: Minimum size of arrays that are checked one by one, in bytes.
        limit: Bytes; None until it is determined.
        scratch: Bytes that the running kernel allocates in addition to a result that it checks itself.
        used: Bytes of the large arrays that were alive when they were last counted, and of all later ones.
        sources: Lists of values that may be alive, each with the indices of those to count; None for all.
        collections: Values collected by running kernels.
    """

    def __init__(self, limit: int | None = None) -> None:
        self.large = LARGE if limit is None else min(LARGE, limit // LARGE_PART)
        self.limit = limit
        self.scratch = 0
        self.used = 0
        self._stated = limit
        self.sources: list[tuple[Sequence[Array | None], Sequence[int] | None]] = []
        self.collections: list[Collection] = []
        self._excluded: list[Array] = []

    def start(self, arguments: Iterable[Array]) -> None:
        """Prepare for a run.

        Args:
            arguments: The inputs, which belong to the caller and are not counted.
        """
        self.limit = self._stated
        self.used = 0
        arguments = list(arguments)
        for value in arguments:
            if not value.size:
                check_empty(value.shape)
        self._excluded = [owner for owner in map(find_owner, arguments) if owner is not None]

    def finish(self) -> None:
        """Release the values of a run that ended."""
        self.sources = []
        self.collections = []
        self._excluded = []

    def get_counted_size(self, count: int) -> int:
        """Return the size in bytes of the smallest values that are counted.

        Args:
            count: Number of instructions.
        """
        negligible = QUOTA if self._stated is None else min(QUOTA, self._stated // 4)
        return min(max(negligible // max(count, 1), 64), MAX_UNCOUNTED)

    def add(self, value: Array) -> None:
        """Count a new value.

        Raises:
            MemoryLimitError: The values that are alive exceed the limit.
        """
        if value.size:
            owner = find_owner(value)
            if owner is not None:
                self.used += owner.nbytes
                self.check(0)
        else:
            check_empty(value.shape)

    def check(self, required: int) -> None:
        """Check that an array of `required` bytes can be added.

        Raises:
            MemoryLimitError: It would exceed the limit.
        """
        total = self.used + required
        if total <= (QUOTA if self.limit is None else self.limit):
            return
        self.used = self.count_alive()
        if self.limit is None:
            if self.used + required <= QUOTA:
                return
            self.limit = self.used + int(USABLE * get_available_memory())
        if self.used + required > self.limit:
            raise MemoryLimitError(
                f"the run would take {format_size(self.used + required)}, "
                f"{format_size(self.used)} of which are in use; "
                f"expected at most {format_size(self.limit)} (change it with memory= or --memory)"
            )

    def count_alive(self, new: Iterable[Array] = (), excluded: Iterable[int] = ()) -> int:
        """Return the bytes of the values that are alive; values that share memory count once.

        Args:
            new: Values that are not in a slot yet.
            excluded: The ids of arrays with memory that is not counted.
        """
        owners: dict[int, int] = {}
        for array in new:
            if (base := find_owner(array)) is not None:
                owners[id(base)] = base.nbytes
        for values, positions in self.sources:
            for position in range(len(values)) if positions is None else positions:
                value = values[position]
                owner = None if value is None else find_owner(value)
                if owner is not None:
                    owners[id(owner)] = owner.nbytes
        for owner in self._excluded:
            owners.pop(id(owner), None)
        for identity in excluded:
            owners.pop(identity, None)
        return sum(owners.values()) + sum(collection.size for collection in self.collections)


class Collection:
    """Arrays that a kernel keeps until it returns, such as the values that a loop concatenates.

    Args:
        budget: The budget of the run; None outside of runs.

    Attributes:
        size: Bytes of the arrays.
    """

    def __init__(self, budget: MemoryBudget | None) -> None:
        self.size = 0
        self._budget = budget
        self._uncounted = 0

    def add(self, size: int) -> None:
        """Count a new array of `size` bytes.

        Raises:
            InputError: The values that are alive exceed the limit of the run.
        """
        self.size += size
        self._uncounted += size
        if self._uncounted <= MAX_UNCOUNTED:
            return
        if self._budget is None:
            check_allocation([self.size], np.dtype(np.uint8))
        else:
            self._budget.used += self._uncounted
            self._budget.check(0)
        self._uncounted = 0


@contextmanager
def collect_values() -> Iterator[Collection]:
    """Yield a collection of arrays that count as alive until the `with` block ends."""
    budget = _budget.get()
    collection = Collection(budget)
    collections = [] if budget is None else budget.collections
    collections.append(collection)
    try:
        yield collection
    finally:
        collections.pop()


@contextmanager
def run_within(budget: MemoryBudget) -> Iterator[None]:
    """Make `check_allocation` respect a budget inside a `with` block."""
    token = _budget.set(budget)
    try:
        yield
    finally:
        _budget.reset(token)


@contextmanager
def limit_allocations(limit: int) -> Iterator[None]:
    """Lower the limit of `check_allocation` inside a `with` block.

    Args:
        limit: Maximum number of bytes of an array. A value above `get_default_limit()` has no effect.
    """
    token = _limit.set(min(limit, get_default_limit()))
    try:
        yield
    finally:
        _limit.reset(token)


def check_empty(shape: Sequence[int]) -> None:
    """Reject the shape of an empty array if loops over its other dimensions, or their results, would be large.

    Args:
        shape: The shape, with a dimension of 0.

    Raises:
        InputError: The other dimensions multiply to more than 16 million.
    """
    if math.prod(max(n, 1) for n in shape) > MAX_EMPTY:
        raise MemoryLimitError(
            f"shape {list(shape)} has no elements, expected its other dimensions to multiply to at most {MAX_EMPTY}"
        )


def check_scratch(size: int) -> None:
    """Check the memory of a kernel that depends on more than the sizes of inputs and results.

    Args:
        size: Bytes, of intermediate values and results that are not checked otherwise.

    Raises:
        MemoryLimitError: The current run has less left.
    """
    budget = _budget.get()
    if budget is not None and size > budget.large:
        budget.check(size)


def reserve_scratch(size: int) -> None:
    """Check the memory that the running kernel allocates in addition to a result, and count it with the result.

    Args:
        size: Bytes.

    Raises:
        MemoryLimitError: The current run has less left.
    """
    budget = _budget.get()
    if budget is not None and size > budget.large:
        budget.check(size)
        budget.scratch = size


def check_allocation(shape: Iterable[int], dtype: np.dtype[Any]) -> None:
    """Check the size of an array before it is allocated.

    Kernels call this if the size of a result depends on values or attributes, which come from untrusted files.

    Args:
        shape: The dimensions of the array. Negative ones count as 0.
        dtype: The type of its elements.

    Raises:
        InputError: The array exceeds the limit for one array, or what the current run has left, or a run
            would compute an array without elements but with other large dimensions.
    """
    sizes = [max(0, int(n)) for n in shape]
    required = math.prod(sizes) * dtype.itemsize
    budget, limit = _budget.get(), _limit.get()
    if not required and (budget is not None or limit is not None):
        check_empty(sizes)
    limit = limit or get_default_limit()
    if required > limit:
        raise InputError(
            f"the result would take {dtype.itemsize} * {' * '.join(map(str, sizes))} bytes, "
            f"expected at most {limit / 2**30:.3g} GiB"
        )
    if budget is not None and required > budget.large:
        budget.check(required + budget.scratch)
