"""What many kernels need: axes, run-time lists, broadcasting, arithmetic of narrow floats."""

from __future__ import annotations

import functools
import math
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Literal, TypeVar

import ml_dtypes
import numpy as np

from irrun.elements import ElementType
from irrun.errors import InputError

__all__ = [
    "Array",
    "AutoBroadcast",
    "align",
    "at_most",
    "check_size",
    "in_f32",
    "int_list",
    "is_float",
    "is_integer",
    "is_narrow",
    "normalize_axes",
    "normalize_axis",
    "scalar",
    "widen",
]

Array = np.ndarray[Any, Any]
#: "explicit" is another name of "none", which OpenVINO reads too.
AutoBroadcast = Literal["none", "explicit", "numpy", "pdpd"]
Function = TypeVar("Function", bound=Callable[..., Any])

#: Floating-point types whose arithmetic is computed in f32 and rounded once.
NARROW = frozenset(
    np.dtype(t)
    for t in (
        np.float16,
        ml_dtypes.bfloat16,
        ml_dtypes.float8_e4m3fn,
        ml_dtypes.float8_e5m2,
        ml_dtypes.float8_e8m0fnu,
        ml_dtypes.float4_e2m1fn,
    )
)


def is_narrow(dtype: np.dtype[Any]) -> bool:
    """Whether arithmetic on `dtype` is done in f32."""
    return dtype in NARROW


def is_float(dtype: np.dtype[Any]) -> bool:
    """Whether `dtype` is a floating-point type, NumPy's or ml_dtypes'."""
    return dtype.kind == "f" or dtype in NARROW


def is_integer(dtype: np.dtype[Any]) -> bool:
    """Whether `dtype` is an integer type, NumPy's or ml_dtypes' (boolean is none)."""
    return dtype.kind in "iu" or dtype.name in ("int4", "uint4", "int2", "uint2")


def widen(x: Array) -> Array:
    """`x` in f32 where its type is a narrow float; otherwise `x` itself."""
    return x.astype(np.float32) if x.dtype in NARROW else x


def in_f32(kernel: Function) -> Function:
    """Decorator: narrow float inputs reach the kernel as f32, and its float results are rounded back once.

    Results in f32 go back to the type of the first narrow input; other results stay as they are.
    """

    @functools.wraps(kernel)
    def wrapper(*inputs: Array | None, **attributes: Any) -> Any:
        narrow = next((x.dtype for x in inputs if x is not None and x.dtype in NARROW), None)
        if narrow is None:
            return kernel(*inputs, **attributes)
        result = kernel(*[None if x is None else widen(x) for x in inputs], **attributes)
        if isinstance(result, tuple):
            return tuple(_rounded(r, narrow) for r in result)
        return _rounded(result, narrow)

    return wrapper  # type: ignore[return-value]


def _rounded(result: Any, dtype: np.dtype[Any]) -> Any:
    return result.astype(dtype) if result.dtype == np.float32 else result


def normalize_axis(axis: int, rank: int, name: str = "axis") -> int:
    """`axis` counted from the front.

    Raises:
        InputError: it is not in [-rank, rank).
    """
    axis = int(axis)
    if not -rank <= axis < rank:
        raise InputError(f"{name} {axis} is outside [{-rank}, {rank - 1}] of a tensor of rank {rank}")
    return axis + rank if axis < 0 else axis


def normalize_axes(axes: Iterable[int], rank: int, name: str = "axes") -> tuple[int, ...]:
    """`axes` counted from the front, in the order given.

    Raises:
        InputError: one is out of range, or occurs twice.
    """
    found = tuple(normalize_axis(a, rank, name) for a in axes)
    if len(set(found)) != len(found):
        raise InputError(f"{name} {list(found)} name an axis twice")
    return found


@functools.lru_cache(maxsize=1)
def largest() -> int:
    """Bytes that one array may take: half of the machine's memory, 8 GiB where that is unknown."""
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 2
    except (AttributeError, ValueError, OSError):
        return 8 << 30


_limit: ContextVar[int | None] = ContextVar("limit", default=None)


@contextmanager
def at_most(limit: int) -> Iterator[None]:
    """In this block `check_size` admits no array of more than `limit` bytes."""
    token = _limit.set(min(limit, largest()))
    try:
        yield
    finally:
        _limit.reset(token)


def check_size(shape: Iterable[int], dtype: np.dtype[Any]) -> None:
    """Refuse an array that would be too large, before it is made.

    Kernels call it where the size of their result comes from values or attributes, which may say anything.

    Raises:
        InputError: it would take more than half of the machine's memory, or than `at_most` says.
    """
    sizes = [max(0, int(n)) for n in shape]
    needed = math.prod(sizes) * dtype.itemsize
    limit = _limit.get() or largest()
    if needed > limit:
        raise InputError(
            f"a tensor of {dtype.itemsize} * {' * '.join(map(str, sizes))} bytes would come out, "
            f"expected at most {limit / 2**30:.3g} GiB"
        )


def int_list(values: Array) -> list[int]:
    """The values of a run-time list of integers (axes, a shape, ...) of rank 0 or 1 as Python integers.

    Raises:
        InputError: they are no numbers, or not finite.
    """
    try:
        return [int(v) for v in values.reshape(-1).tolist()]
    except (TypeError, ValueError, OverflowError):
        raise InputError(f"integers are expected, found {ElementType.of(values.dtype)}: {values}") from None


def scalar(value: Array, name: str) -> Any:
    """The one element of a run-time scalar (rank 0, or one element of any rank) as a Python number.

    Raises:
        InputError: the tensor does not have exactly one element.
    """
    if value.size != 1:
        raise InputError(f"{name} has shape {list(value.shape)}, expected a scalar")
    return value.reshape(-1)[0].item()


def align(a: Array, b: Array, auto_broadcast: AutoBroadcast = "numpy", axis: int = -1) -> tuple[Array, Array]:
    """`a` and `b` reshaped so that NumPy's own broadcasting gives what `auto_broadcast` means.

    "none" wants equal shapes; "numpy" leaves both as they are; "pdpd" lines `b` up with `a` from `axis` on
    (-1: so that the last dimensions meet), trailing ones of `b` dropped. The specification's default for `axis` is
    -1, but in files that leave it out OpenVINO takes 0, and so do the kernels.
    Raises:
        InputError: the shapes do not fit.
    """
    if auto_broadcast == "numpy":
        return a, b
    if auto_broadcast in ("none", "explicit"):
        if a.shape != b.shape:
            raise InputError(
                f"shapes {list(a.shape)} and {list(b.shape)} differ, and auto_broadcast is {auto_broadcast}"
            )
        return a, b
    return a, b.reshape(_pdpd_shape(a.shape, b.shape, axis))


def _pdpd_shape(a: Sequence[int], b: Sequence[int], axis: int) -> tuple[int, ...]:
    start = len(a) - len(b) if axis == -1 else axis
    kept = list(b)
    while kept and start + len(kept) > len(a) and kept[-1] == 1:
        kept.pop()
    if start < 0 or start + len(kept) > len(a):
        raise InputError(f"shape {list(b)} does not fit into {list(a)} from axis {axis} on")
    shape = (*kept, *[1] * (len(a) - start - len(kept)))
    for have, want in zip(shape, a[start:], strict=True):
        if have not in (1, want):
            raise InputError(f"shape {list(b)} does not broadcast to {list(a)} from axis {axis} on")
    return shape
