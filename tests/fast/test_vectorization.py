"""Operations on the values of all iterations of a loop against the plain kernels in each iteration."""

from __future__ import annotations

import numpy as np
import pytest

from fast.harness import find_operation, make_floats
from irrun.element_types import ELEMENT_TYPES
from irrun.fast import vectorization
from irrun.fast.specialization import CallSite
from irrun.fast.vectorization import NotVectorizableError, vectorize
from irrun.ops._support.operation import Operation

F32 = np.float32
#: Number of iterations.
COUNT = 3


class Stacked:
    """The values of an input in all iterations."""

    def __init__(self, values):
        self.values = values


def stack(*shape, seed=1):
    """Return a stacked value of a shape in each iteration."""
    return Stacked(make_floats((COUNT, *shape), seed))


class Variable:
    """An input that is not constant, and the same in all iterations."""

    def __init__(self, values):
        self.values = values


def variable(*shape, seed=2):
    return Variable(make_floats(shape, seed))


def constant(*shape, seed=3):
    return make_floats(shape, seed)


def ints(*values):
    return np.array(values, np.int64)


def is_constant(x):
    return isinstance(x, np.ndarray)


def create(name, inputs, attributes):
    """Return the kernel for all iterations, and what it is passed."""
    operation = name if isinstance(name, Operation) else find_operation(name)
    values = tuple(x if is_constant(x) else None for x in inputs)
    site = CallSite(operation, attributes, values, (False,) * len(inputs), output_count=1)
    arguments = [x for x in inputs if not is_constant(x)]
    return vectorize(site, [isinstance(x, Stacked) for x in arguments]), [x.values for x in arguments]


TO_I32 = {"destination_type": ELEMENT_TYPES["i32"]}
INDICES = Stacked(np.array([[0, 3], [2, 1], [1, 1]]))
CASES = [
    ("Relu-1", [stack(2, 4)], {}),
    ("Relu-1", [stack()], {}),
    ("Clamp-1", [stack(4)], {"min": -0.5, "max": 0.5}),
    ("Convert-1", [stack(2, 3)], TO_I32),
    ("Atan-1", [stack(2, 3)], {}),
    ("BitwiseAnd-13", [INDICES, np.array([1, 2])], {}),
    ("Selu-1", [stack(2, 3), np.array([1.5], F32), np.array(0.5, F32)], {}),
    ("Add-1", [stack(2, 3), stack(2, 3, seed=2)], {}),
    ("Subtract-1", [stack(2, 3), stack(3, seed=2)], {}),
    ("Subtract-1", [stack(3), stack(2, 3, seed=2)], {}),
    ("Divide-1", [stack(4), variable(3, 4)], {}),
    ("Divide-1", [variable(3, 4), stack(4)], {}),
    ("Divide-1", [variable(3, 4), stack(2, 1, 4)], {}),
    ("Divide-1", [stack(2, 1, 4), variable(3, 4)], {}),
    ("Multiply-1", [stack(3, 4), constant(4)], {}),
    ("Subtract-1", [stack(4), constant(3, 4)], {}),
    ("Subtract-1", [stack(4), constant(2, 3, 1)], {}),
    ("Subtract-1", [constant(3, 4), stack(4)], {}),
    ("Greater-1", [stack(4), stack(4, seed=2)], {}),
    ("Reshape-1", [stack(2, 6), ints(3, -1)], {"special_zero": False}),
    ("Reshape-1", [stack(2, 6), ints(0, 3, 2)], {"special_zero": True}),
    ("Squeeze-1", [stack(1, 3, 1), ints(0)], {}),
    ("Squeeze-1", [stack(1, 3, 1), ints(-1)], {}),
    ("Unsqueeze-1", [stack(3), ints(0, 2)], {}),
    ("Transpose-1", [stack(2, 3, 4), ints(2, 0, 1)], {}),
    ("Transpose-1", [stack(2, 3, 4), ints()], {}),
    ("Transpose-1", [stack(2, 3), ints(-1, -2)], {}),
    ("MatMul-1", [stack(4), constant(4, 5)], {}),
    ("MatMul-1", [stack(2, 4), constant(4, 5)], {}),
    ("MatMul-1", [stack(2, 3, 4), constant(5, 4)], {"transpose_b": True}),
    ("Concat-1", [stack(2, 3), stack(2, 4, seed=2)], {"axis": 1}),
    ("Concat-1", [stack(2, 3), stack(4, 3, seed=2)], {"axis": -2}),
    ("Gather-8", [constant(4, 5), INDICES, np.array(0)], {}),
    ("Gather-8", [variable(4, 5), INDICES, ints(0)], {"batch_dims": 0}),
]


@pytest.mark.parametrize(("name", "inputs", "attributes"), CASES, ids=lambda v: v if isinstance(v, str) else "")
def test_stacked_values_equal_those_of_the_iterations(name, inputs, attributes):
    kernel, arguments = create(name, inputs, attributes)
    actual = kernel(*arguments)
    plain = find_operation(name).kernel
    expected = [
        plain(
            *(x if is_constant(x) else x.values[i] if isinstance(x, Stacked) else x.values for x in inputs),
            **attributes,
        )
        for i in range(COUNT)
    ]
    assert actual.dtype == expected[0].dtype
    np.testing.assert_allclose(actual, np.stack(expected), rtol=1e-6, atol=1e-6)


def multiply(a, b):
    return a * b


OTHERS = [
    ("Softmax-8", [stack(3)], {"axis": 0}),
    ("Selu-1", [stack(2, 3), Variable(np.ones(1, F32)), np.ones(1, F32)], {}),
    ("HardSigmoid-1", [stack(2, 3), np.full(2, 0.5, F32), np.ones(1, F32)], {}),
    ("Add-1", [stack(2, 3), stack(2, seed=2)], {"auto_broadcast": "pdpd"}),
    ("Add-1", [stack(2, 3), stack(2, 3, seed=2)], {"auto_broadcast": "none"}),
    ("Reshape-1", [stack(2, 6), Variable(ints(3, 4))], {"special_zero": False}),
    ("Transpose-1", [stack(2, 3), Variable(ints(1, 0))], {}),
    ("Transpose-1", [Variable(np.ones((2, 3), F32)), Stacked(np.zeros((COUNT, 2), np.int64))], {}),
    ("MatMul-1", [stack(4, 2), constant(4, 5)], {"transpose_a": True}),
    ("MatMul-1", [stack(2, 4), constant(1, 4, 5)], {}),
    ("MatMul-1", [stack(4), constant(4)], {}),
    ("MatMul-1", [stack(2, 4), variable(4, 5)], {}),
    ("MatMul-1", [constant(2, 4), stack(4, 5)], {}),
    ("Concat-1", [stack(2, 3), constant(2, 4)], {"axis": 1}),
    ("Concat-1", [stack(2, 3), variable(2, 4)], {"axis": 1}),
    ("Gather-8", [constant(4, 5), INDICES, np.array(1)], {}),
    ("Gather-8", [constant(4, 5), INDICES, ints(0, 0)], {}),
    ("Gather-8", [constant(4, 5), INDICES, Variable(np.array(0))], {}),
    ("Gather-8", [constant(2, 4, 5), INDICES, np.array(0)], {"batch_dims": 1}),
    ("Gather-8", [stack(4, 5), INDICES, np.array(0)], {}),
    ("Gather-8", [stack(4, 5), ints(1, 2), np.array(0)], {}),
    ("RandomUniform-8", [Stacked(np.ones((COUNT, 1), np.int64)), np.zeros(1, F32), np.ones(1, F32)], {}),
    (Operation.from_function(multiply, "Multiply", since=1), [stack(2), stack(2)], {}),
]


@pytest.mark.parametrize(("name", "inputs", "attributes"), OTHERS, ids=lambda v: v if isinstance(v, str) else "")
def test_other_operations_are_not_computed_at_once(name, inputs, attributes):
    assert create(name, inputs, attributes)[0] is None


@pytest.mark.parametrize(
    ("name", "inputs", "size"),
    [
        # the results, in multiples of the larger input
        ("Add-1", [stack(8), constant(6, 1)], 6),
        ("Add-1", [constant(6, 1), stack(8)], 6),
        ("Add-1", [stack(8), variable(6, 1)], 6),
        ("Add-1", [variable(6, 1), stack(8)], 6),
        ("Add-1", [stack(8), stack(6, 1, seed=2)], 6),
        ("MatMul-1", [stack(2, 8), constant(8, 48)], 6),
    ],
    ids=["Add-1 " + text for text in ("constant", "constant first", "variable", "variable first", "stacked")]
    + ["MatMul-1"],
)
def test_values_that_grow_too_much_are_left_to_the_loop(name, inputs, size, monkeypatch):
    kernel, arguments = create(name, inputs, {})
    largest = max(x.size for x in [*arguments, *(x for x in inputs if is_constant(x))]) if name == "Add-1" else 48
    for limits in ((size, 0), (0, size * largest)):
        monkeypatch.setattr(vectorization, "GROWTH_LIMITS", limits)
        kernel, arguments = create(name, inputs, {})
        assert kernel(*arguments).size == size * largest
    monkeypatch.setattr(vectorization, "GROWTH_LIMITS", (size - 1, size * largest - 1))
    kernel, arguments = create(name, inputs, {})
    with pytest.raises(NotVectorizableError):
        kernel(*arguments)


def test_products_of_numbers_are_left_to_the_loop():
    """In each iteration, a product of a scalar and a matrix is an error."""
    kernel, _ = create("MatMul-1", [stack(), constant(COUNT, 5)], {})
    with pytest.raises(NotVectorizableError):
        kernel(make_floats((COUNT,)))
