"""Specialized kernels agree with the plain ones where inputs differ from typical ones in one respect.

Each call of test_typical_inputs.py is varied: which inputs are constant, and the type, the rank and the size of one.
"""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from fast.harness import assert_same_bits, check
from fast.test_typical_inputs import CASES
from irrun.fast import specialization
from irrun.fast.specialization import load_specializers

F32 = np.float32


#: Operations whose specialized kernels may fail, after which the plain ones run: indices that are out of range, shapes
#: of rank 2, and data of other types.
FALLING_BACK = ("Gather-8", "Reshape-1", "Convolution-1")


def choose_cases():
    """Return one call of each specializer with the same constants, apart from large ones."""
    chosen = {}
    for case in CASES:
        name, inputs, constants, _, _ = case
        load_specializers(name.partition("-")[0])
        key = (specialization._specializers[name], constants, [x.size > 1 for x in inputs[1:]])
        if max(x.size for x in inputs) < 1000:
            chosen.setdefault(str(key), case)
    return list(chosen.values())


def compare(a, b, _):
    """Allow the rounding errors of the few terms of these inputs, and those of f16."""
    if a.dtype.kind == "f":
        tolerance = 2e-3 if a.dtype.itemsize == 2 else 1e-5
        np.testing.assert_allclose(a, b, rtol=tolerance, atol=tolerance)
    else:
        assert_same_bits(a, b)


def iterate_variants(inputs, position):
    """Yield other values of an input."""
    x = inputs[position]
    is_float = x.dtype.kind == "f"
    types = ("f8", "f2", "i4") if is_float else ("f4", "?", "u1", "i4", "i8")
    yield from (x.astype(t) for t in types if np.dtype(t) != x.dtype)
    yield x[np.newaxis]
    if x.ndim and len(x):
        yield x[0]
        yield x[:0]
    if x.size == 1:
        yield x.reshape(1, 1)
    elif x.ndim:
        yield np.concatenate([x, x])


@pytest.mark.parametrize(
    ("name", "inputs", "constants", "attributes", "outputs"),
    choose_cases(),
    ids=lambda v: v if isinstance(v, str) else "",
)
def test_unusual_inputs_agree_with_the_plain_kernel(name, inputs, constants, attributes, outputs):
    count = len(inputs)
    for size in range(count + 1):
        for subset in itertools.combinations(range(count), size):
            if count <= 4 or size <= 1 or size >= count - 1:
                check(name, inputs, attributes, constants=subset, outputs=outputs, compare=compare)
    for position in range(count):
        for value in iterate_variants(inputs, position):
            varied = [value if i == position else x for i, x in enumerate(inputs)]
            falls_back = name in FALLING_BACK
            options = {"constants": constants, "outputs": outputs, "compare": compare, "falls_back": falls_back}
            check(name, varied, attributes, **options)
