"""RandomUniform: the uniformly distributed random numbers of OpenVINO."""

from __future__ import annotations

import math

import numpy as np

from irrun.element_types import ElementType
from irrun.errors import InputError
from irrun.limits import check_allocation
from irrun.ops._support.axes import to_shape
from irrun.ops._support.context import State
from irrun.ops._support.numerics import Array
from irrun.ops._support.random_numbers import Alignment, draw_uniform
from irrun.ops._support.registry import op

__all__ = ["random_uniform_8"]

#: Key of the state that is kept between runs: the lower and upper half of the index of the next block of numbers.
POSITION = "position"


@op("RandomUniform", since=8, scratch=6, kind="random", shape="infer_random")
def random_uniform_8(
    shape: Array,
    minval: Array,
    maxval: Array,
    *,
    output_type: ElementType,
    global_seed: int = 0,
    op_seed: int = 0,
    alignment: Alignment = "tensorflow",
    state: State,
) -> Array:
    """Generate random numbers, uniformly distributed in [minval, maxval).

    If a seed is not 0, the numbers equal OpenVINO's: each run of an infer request continues the sequence of the
    previous one, and a new request starts from the beginning. With the alignment "pytorch", the numbers are the same in
    each run. If both seeds are 0, the numbers are not reproducible.

    Args:
        shape: Integer, 1D.
        minval: One element of type `output_type`; the lower bound, included.
        maxval: One element of type `output_type`; the upper bound, excluded.
        output_type: f16, bf16, f32, f64, i32 or i64.
        global_seed: First seed.
        op_seed: Second seed.
        alignment: The framework to match.
        state: State of the infer request.

    Returns:
        The shape `shape`, the type `output_type`.

    Raises:
        InputError: A dimension is negative, a bound is not a scalar of type `output_type`, the type is unsupported, or
            the range of integers is empty.

    Spec:
        RandomUniform-8
    """
    for name, bound in (("minval", minval), ("maxval", maxval)):
        if bound.size != 1 or bound.dtype != output_type.dtype:
            raise InputError(f"{name} is {bound.dtype}{list(bound.shape)}, expected one element of {output_type.dtype}")
    dimensions = to_shape(shape, "shape")
    if dimensions and min(dimensions) < 0:
        raise InputError(f"the shape is {dimensions}, expected non-negative dimensions")
    check_allocation((*dimensions, 3), np.dtype(np.uint64))  # the intermediate numbers
    numbers, state[POSITION] = draw_uniform(
        math.prod(dimensions),
        minval.reshape(()),
        maxval.reshape(()),
        global_seed,
        op_seed,
        alignment,
        state.get(POSITION, (0, 0)),
    )
    return numbers.reshape(dimensions)
