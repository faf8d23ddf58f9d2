"""The broadcasting rules of binary operations."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from irrun.errors import InputError
from irrun.ops._support.numerics import Array
from irrun.shapes import get_broadcast_shape

__all__ = ["AutoBroadcast", "apply_auto_broadcast"]

#: The broadcasting rules of the specification. "explicit" is a synonym of "none" that OpenVINO accepts.
AutoBroadcast = Literal["none", "explicit", "numpy", "pdpd"]


def apply_auto_broadcast(
    a: Array, b: Array, auto_broadcast: AutoBroadcast = "numpy", axis: int = -1
) -> tuple[Array, Array]:
    """Reshape `a` and `b` so that NumPy's broadcasting implements `auto_broadcast`.

    Args:
        a: Any type, any shape.
        b: Any type. "none" requires the shape of `a`, "numpy" a shape that broadcasts with it, "pdpd" a shape that
            matches the dimensions of `a` from `axis` on, apart from trailing dimensions of 1.
        auto_broadcast: The broadcasting rule.
        axis: First dimension of `a` that "pdpd" matches with `b`. -1 aligns the last dimensions. The
            specification's default is -1, but OpenVINO uses 0 for files that omit it, and so do the kernels.

    Returns:
        Views of `a` and `b`.

    Raises:
        InputError: The shapes do not match.
    """
    if auto_broadcast == "pdpd":
        return a, b.reshape(_get_pdpd_shape(a.shape, b.shape, axis))
    if a.shape == b.shape:
        return a, b
    if auto_broadcast != "numpy":
        raise InputError(f"shapes {list(a.shape)} and {list(b.shape)} differ, but auto_broadcast is {auto_broadcast}")
    try:
        get_broadcast_shape(a.shape, b.shape)
    except ValueError:
        raise InputError(f"shapes {list(a.shape)} and {list(b.shape)} cannot be broadcast") from None
    return a, b


def _get_pdpd_shape(a: Sequence[int], b: Sequence[int], axis: int) -> tuple[int, ...]:
    start = len(a) - len(b) if axis == -1 else axis
    kept = list(b)
    while kept and start + len(kept) > len(a) and kept[-1] == 1:
        kept.pop()
    if start < 0 or start + len(kept) > len(a):
        raise InputError(f"shape {list(b)} does not fit into {list(a)} at axis {axis}")
    shape = (*kept, *[1] * (len(a) - start - len(kept)))
    for actual, expected in zip(shape, a[start:], strict=True):
        if actual not in (1, expected):
            raise InputError(f"shape {list(b)} does not broadcast to {list(a)} at axis {axis}")
    return shape
