"""Condition operations: Select."""

from __future__ import annotations

import numpy as np

from irrun.errors import InputError
from irrun.ops.common import Array, AutoBroadcast, align
from irrun.ops.registry import op

__all__ = ["select_1"]


@op("Select", since=1)
def select_1(
    cond: Array, then: Array, else_: Array, *, auto_broadcast: AutoBroadcast = "numpy", axis: int = -1
) -> Array:
    """Elements of `then` where `cond` is true, of `else` where it is not.

    cond: boolean; then, else: any one type; shapes as `auto_broadcast` admits: "none" wants all equal,
    "numpy" broadcasts all three, "pdpd" places cond and else into the shape of then.
    Returns the type of then.
    Raises InputError where the shapes do not fit.
    Spec: Select-1.
    """
    if auto_broadcast == "pdpd":
        cond = align(then, cond, auto_broadcast, axis)[1]
        else_ = align(then, else_, auto_broadcast, axis)[1]
    elif auto_broadcast == "none":
        align(then, cond, auto_broadcast)
        align(then, else_, auto_broadcast)
    try:
        return np.where(cond.astype(np.bool_), then, else_)
    except ValueError:
        raise InputError(
            f"cond {list(cond.shape)}, then {list(then.shape)} and else {list(else_.shape)} do not broadcast"
        ) from None
