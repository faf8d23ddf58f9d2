"""Kernels check the size of results before they allocate them."""

from __future__ import annotations

import numpy as np
import pytest

from fast.harness import find_operation
from irrun.errors import InputError
from irrun.fast.arranged_weights import ArrangedWeights, multiply_by_arranged_weights
from irrun.fast.cache import append_to_variable
from irrun.fast.compressed import CompressedWeights, gather_rows, multiply_by_weights
from irrun.fast.elementwise import ElementwiseChain, Operand, Step
from irrun.fast.specialization import CallSite, specialize
from irrun.limits import limit_allocations
from irrun.ops._support.context import Variables

F32 = np.float32


def zeros(*shape, dtype=F32):
    return np.zeros(shape, dtype)


def ints(*values):
    return np.array(values, np.int64)


def bind(name, inputs, constants=(), **attributes):
    """Return a function that calls the specialized kernel of an operation."""
    values = tuple(x if i in constants else None for i, x in enumerate(inputs))
    site = CallSite(find_operation(name), attributes, values, (False,) * len(inputs), output_count=1)
    kernel = specialize(site)
    return lambda: kernel(*(x for i, x in enumerate(inputs) if i not in constants))


def bind_chain(*inputs):
    add = Step.create("Add", Operand("input", 0), Operand("input", 1))
    return lambda: ElementwiseChain((add,), 2)(*inputs)


WEIGHTS = CompressedWeights(zeros(20, 64, dtype=np.int8), None, np.ones((20, 2), F32), 2)
WINDOW = {"strides": [1, 1], "dilations": [1, 1], "pads_begin": [9, 9], "pads_end": [9, 9]}
RESIZE = {"shape_calculation_mode": "sizes"}
HEADS = [zeros(2, 30, 4), zeros(2, 5, 4), zeros(2, 5, 8)]
MASK = np.broadcast_to(np.arange(5) > 0, (2, 30, 5))

#: What computes a result, and the number of bytes of its largest array whose size is checked.
CASES = {
    "convolution": (bind("Convolution-1", [zeros(2, 3, 8, 8), zeros(4, 3, 3, 3)], (1,), **WINDOW), 4 * 2 * 4 * 24 * 24),
    "products of resizing": (
        bind("Interpolate-11", [zeros(2, 3, 8, 8), ints(20, 30), ints(2, 3)], (1, 2), mode="linear", **RESIZE),
        4 * 2 * 3 * 20 * 30,
    ),
    "copies of resizing": (
        bind("Interpolate-11", [zeros(2, 3, 8, 8), ints(16, 24), ints(2, 3)], (1, 2), mode="nearest", **RESIZE),
        4 * 2 * 3 * 16 * 24,
    ),
    "attention": (bind("ScaledDotProductAttention-13", HEADS, causal=False), 4 * 2 * 30 * 8),
    "heads side by side": (
        bind("ScaledDotProductAttention-13", [x.swapaxes(0, 1).copy().swapaxes(0, 1) for x in HEADS], causal=False),
        4 * 2 * 30 * 8,
    ),
    "a mask of booleans": (
        bind("ScaledDotProductAttention-13", [*HEADS[:2], HEADS[2][..., :1], MASK], causal=False),
        4 * 2 * 30 * 5,
    ),
    "compressed weights": (lambda: multiply_by_weights(zeros(3, 5, 64), weights=WEIGHTS), 4 * 15 * 20),
    "arranged weights": (
        lambda: multiply_by_arranged_weights(zeros(3, 5, 64), weights=ArrangedWeights(WEIGHTS)),
        4 * 15 * 20,
    ),
    "rows of a table": (lambda: gather_rows(ints(*range(7)).reshape(7, 1), weights=WEIGHTS), 4 * 7 * 64),
    "larger operands": (bind_chain(zeros(1, 3), zeros(5, 3)), 4 * 5 * 3),
    "variables": (
        lambda: append_to_variable(zeros(2, 40, 3), zeros(2, 30, 3), axis=1, variable_id="v", variables=Variables()),
        4 * 2 * 140 * 3,
    ),
    "a few elements of variables": (
        lambda: append_to_variable(zeros(2, 4, 3), zeros(2, 3, 3), axis=1, variable_id="v", variables=Variables()),
        4 * 2 * 64 * 3,
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_results_are_limited_to_their_exact_size(name):
    compute, size = CASES[name]
    with limit_allocations(size):
        compute()
    with limit_allocations(size - 1), pytest.raises(InputError, match="the result would take"):
        compute()
