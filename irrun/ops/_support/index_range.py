"""Indices that kernels do not check, since the reference implementation accepts all of them.

`@op(..., index_range=...)` declares them beside the kernel, so that checks of a run can report those out of range.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from irrun.ops._support.flops import Call

__all__ = ["GetIndexRange", "IndexRange"]

Array = np.ndarray[Any, Any]


class IndexRange(NamedTuple):
    """The indices of a call, and their valid range.

    Attributes:
        indices: The indices.
        minimum: The smallest valid index.
        maximum: The largest valid index.
        effect: The effect of other indices, such as "the result is zero there".
        is_intended: Whether models use indices out of range on purpose.
    """

    indices: Array
    minimum: int
    maximum: int
    effect: str
    is_intended: bool = False


#: Returns the indices of a call; None if there are none.
GetIndexRange = Callable[[Call], IndexRange | None]
