"""Shapes that the rules infer, on the cases that are compared with OpenVINO: those of results, and OpenVINO's."""

from __future__ import annotations

import functools
import itertools
import random
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest

pytest.importorskip("openvino")

from irrun.conformance.cases import GENERATORS, list_cases, load_generators
from irrun.errors import InputError
from irrun.ops._support import registry
from irrun.ops._support.autoload import load_all
from irrun.ops._support.context import InputShapes, OutputCount, State
from irrun.ops._support.operation import Operation
from irrun.ops._support.slicing import create_slice
from irrun.ops.shape_rules import Inputs, ShapeError, UnknownShapeError, Value, find_rule
from irrun.ops.shape_rules.dimensions import contains, get_bounds, make_dimension, unite
from irrun.ops.shape_rules.slicing import count_slice
from irrun.shapes import DynamicDimension, PartialShape

load_generators()
load_all()
OPERATIONS = [
    o
    for o in registry.list_operations()
    if (o.type, o.since) in GENERATORS and not o.opset and find_rule(o) is not None
]
#: Cases per operation, from all over its list.
SAMPLE = 5

#: Operations whose results have fewer elements than the inferred bounds of a dimension.
SELECTIONS = {
    "GenerateProposals-9",
    "MatrixNms-8",
    "MulticlassNms-8",
    "MulticlassNms-9",
    "NMSRotated-13",
    "NonMaxSuppression-5",
    "NonMaxSuppression-9",
    "NonZero-3",
    "SparseFillEmptyRows-16",
    "StringTensorUnpack-15",
    "Unique-10",
}
#: The specification declares a number of boxes that results do not have.
MISDECLARED = {"NonMaxSuppression-1", "NonMaxSuppression-3", "NonMaxSuppression-4"}
#: Operations with dimensions that are unknown unless all sizes of the data are known.
UNKNOWN_UNLESS_STATIC = {"MatrixNms-8", "MulticlassNms-8", "MulticlassNms-9", "Unique-10"}

#: Operations whose rules know less than OpenVINO's.
LESS_PRECISE = {
    "BatchNormInference-1": "the number of channels does not follow from the other inputs",
    "BatchNormInference-5": "the number of channels does not follow from the other inputs",
    "Einsum-7": "sizes do not follow from other operands",
    "FakeConvert-13": "the data does not follow from the scales",
    "ScaledDotProductAttention-13": "the number of queries does not follow from the mask",
    "SparseFillEmptyRows-16": "the rows do not follow from the values",
    "Transpose-1": "without an order, the result of an unknown rank is no scalar",
    "Unique-10": "the number of elements has no bounds unless all sizes are known",
}

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Call:
    """A case of an operation, as a rule sees it.

    Attributes:
        operation: The operation.
        attributes: The attributes, with defaults.
        values: What is known about the inputs: the values that determine shapes, and the shapes of others.
        outputs: The number of outputs.
    """

    operation: Operation
    attributes: dict[str, Any]
    values: list[Value | None]
    outputs: int

    def infer(self, *changes: tuple[int, Value]) -> list[PartialShape | None]:
        """Return the inferred shapes if something else is known about some inputs."""
        values = list(self.values)
        for position, value in changes:
            values[position] = value
        rule = find_rule(self.operation)
        assert rule is not None
        try:
            return list(rule(Inputs(self.operation, self.attributes, values, self.outputs)))
        except UnknownShapeError:
            return [None] * self.outputs

    def infer_sizes(self, position: int, axis: int, low: int, high: int | None) -> list[PartialShape | None] | None:
        """Return the inferred shapes for other sizes of an axis of an input; None if they do not fit."""
        value = self.values[position]
        assert value is not None
        assert value.shape is not None
        shape = [*value.shape]
        shape[axis] = make_dimension(low, high)
        try:
            return self.infer((position, Value(PartialShape(shape))))
        except (ShapeError, InputError):
            return None

    def list_sizes(self) -> list[tuple[int, int, int]]:
        """Return the input, the axis and the size of all dimensions of inputs with values that are unknown."""
        shapes = [v.shape if v is not None and v.array is None else None for v in self.values]
        return [(i, axis, int(size)) for i, s in enumerate(shapes) if s for axis, size in enumerate(s)]


def list_calls(operation: Operation) -> list[tuple[Any, Call]]:
    """Return cases of an operation, without cases that build a model, and what a rule sees of them."""
    cases = [c for c in list_cases(operation.type, operation.since) if c.build is None and c.opset is None]
    defaults = {a.name: a.default for a in operation.attributes if not a.required}
    calls = []
    for case in cases[:: max(1, len(cases) // SAMPLE)]:
        shaping = operation.shaped_by
        values: list[Value | None] = []
        for i, x in enumerate(case.inputs):
            if x is None:
                values.append(None)
            elif shaping is None or i in shaping:
                values.append(Value.of_array(np.asarray(x)))
            else:
                values.append(Value(PartialShape(np.asarray(x).shape)))
        calls.append((case, Call(operation, {**defaults, **operation.bind(case.attributes)}, values, 0)))
    return calls


def compute(operation: Operation, case: Any) -> list[Array]:
    """Return the results of the kernel."""
    given = {OutputCount: OutputCount(8), State: State(), InputShapes: InputShapes([])}
    provided = {name: given[kind] for name, kind in operation.provided.items() if kind in given}
    inputs = [None if x is None else np.asarray(x) for x in case.inputs]
    with np.errstate(all="ignore"):
        result = operation.kernel(*inputs, **operation.bind(case.attributes), **provided)
    return list(result) if isinstance(result, tuple | list) else [result]


@functools.cache
def list_completed_calls(operation: Operation) -> list[tuple[Call, list[PartialShape]]]:
    """Return cases of an operation and the shapes of the results."""
    calls = []
    for case, call in list_calls(operation):
        outputs = compute(operation, case)
        calls.append((replace(call, outputs=len(outputs)), [PartialShape(y.shape) for y in outputs]))
    return calls


each_operation = pytest.mark.parametrize("operation", OPERATIONS, ids=str)


@each_operation
def test_inferred_shapes_are_those_of_results(operation: Operation) -> None:
    for call, expected in list_completed_calls(operation):
        shapes = call.infer()
        assert len(shapes) == len(expected)
        for shape, actual in zip(shapes, expected, strict=True):
            assert shape is not None
            if str(operation) in MISDECLARED:
                assert (len(shape), shape[1]) == (len(actual), actual[1])
            else:
                assert contains(shape, actual)
                assert shape == actual or str(operation) in SELECTIONS


@each_operation
def test_inferred_shapes_contain_the_results_of_all_sizes(operation: Operation) -> None:
    """The shape for a size between two sizes is the smallest one that contains the shapes of both."""
    is_exact = str(operation) not in UNKNOWN_UNLESS_STATIC
    for call, _ in list_completed_calls(operation):
        known = call.infer()
        for position, axis, size in call.list_sizes():
            interval = call.infer_sizes(position, axis, size, size + 1)
            unbounded = call.infer_sizes(position, axis, 0, None)
            larger = call.infer_sizes(position, axis, size + 1, size + 1)
            assert interval is not None
            assert unbounded is not None
            for a, b, c, d in zip(known, interval, unbounded, larger or known, strict=True):
                assert a is not None
                if b is None or c is None or d is None or not len(a) == len(b) == len(c) == len(d):
                    assert operation.type in ("Squeeze", "GatherND"), "the rank depends on a size"
                    continue
                union = PartialShape(itertools.starmap(unite, zip(a, d, strict=True)))
                assert contains(b, union)
                assert contains(c, union)
                if larger is not None and is_exact:
                    assert b == union


@each_operation
def test_inferred_shapes_contain_the_results_if_less_is_known(operation: Operation) -> None:
    """Some inputs have unknown or bounded sizes, an unknown rank, or an unknown value."""
    rng = random.Random(str(operation))
    for call, expected in list_completed_calls(operation):
        for _ in range(4):
            values = [value and forget(value, rng) for value in call.values]
            shapes = replace(call, values=values).infer()
            if operation.type == "Squeeze" or str(operation) in MISDECLARED:
                continue  # axes of unknown sizes are assumed to be 1, as in OpenVINO
            for shape, actual in zip(shapes, expected, strict=True):
                assert shape is None or contains(shape, actual)


def forget(value: Value, rng: random.Random) -> Value:
    """Return fewer facts about a value."""
    assert value.shape is not None
    sizes = [[n, -1, DynamicDimension(max(int(n) - 1, 0), int(n) + 1)] for n in value.shape]
    choices = [value, Value(None), Value(value.shape), Value(PartialShape(map(rng.choice, sizes)))]
    return rng.choice(choices)


@pytest.mark.parametrize(
    "operation", [o for o in OPERATIONS if o.shaped_by is not None or str(o) in SELECTIONS], ids=str
)
def test_inferred_shapes_know_as_much_as_openvino(operation: Operation) -> None:
    """One input at a time has unknown sizes, an unknown rank, or an unknown value."""
    checked = 0
    for case, call in list_calls(operation)[:3]:
        for position, value in enumerate(call.values):
            if value is None or value.shape is None:
                continue
            unknown = [Value(PartialShape([-1] * len(value.shape))), Value(None)]
            for changed in [*unknown, Value(value.shape)] if value.array is not None else unknown:
                expected = infer_with_openvino(call, case, position, changed)
                if expected is None:
                    continue
                shapes = replace(call, outputs=len(expected)).infer((position, changed))
                for shape, sizes in zip(shapes, expected, strict=True):
                    if sizes is not None and str(operation) not in LESS_PRECISE:
                        assert shape is not None
                        assert len(shape) == len(sizes)
                        assert all(n in (-1, d) for d, (n, _) in zip(shape, sizes, strict=True))
                        highest = [get_bounds(d)[1] for d in shape]
                        assert all(
                            n == -1 or (m is not None and m <= n) for m, (_, n) in zip(highest, sizes, strict=True)
                        )
                    checked += 1
    assert checked or not any(v is not None for _, call in list_calls(operation) for v in call.values)


def infer_with_openvino(
    call: Call, case: Any, position: int, changed: Value
) -> list[list[tuple[int, int]] | None] | None:
    """Return the shapes that OpenVINO infers, each dimension with its upper bound, or -1; None if it fails."""
    import openvino as ov
    from openvino import op
    from openvino.utils.node_factory import NodeFactory

    from irrun.conformance.harness import to_tensor
    from irrun.element_types import ElementType

    arguments = []
    for i, (x, value) in enumerate(zip(case.inputs, call.values, strict=True)):
        if x is None or value is None:
            continue
        known = changed if i == position else value
        if known.array is not None:
            arguments.append(op.Constant(to_tensor(np.asarray(x))).output(0))
            continue
        sizes = None if known.shape is None else [d if isinstance(d, int) else -1 for d in known.shape]
        shape = ov.PartialShape.dynamic() if sizes is None else ov.PartialShape(sizes)
        arguments.append(op.Parameter(getattr(ov.Type, ElementType.of(x.dtype).name), shape).output(0))
    try:
        node = NodeFactory(f"opset{call.operation.since}").create(call.operation.type, arguments, case.attributes)
    except RuntimeError:
        return None
    shapes = [output.get_partial_shape() for output in node.outputs()]
    return [
        None if s.rank.is_dynamic else [(d.get_length() if d.is_static else -1, d.get_max_length()) for d in s]
        for s in shapes
    ]


def test_slices_of_all_sizes_and_ends_are_counted() -> None:
    """The number of elements of a slice has the bounds of the slices of all sizes, from all starts to all stops."""
    random = np.random.default_rng(1)
    ends = [-np.inf, np.inf, *range(-6, 7)]
    for _ in range(1000):
        low, step = int(random.integers(0, 9)), int(random.choice([-3, -2, -1, 1, 2, 3]))
        high = low + int(random.integers(0, 9)) if random.random() < 0.7 else None
        start, stop = (draw_interval(random, ends) for _ in range(2))
        sizes = range(low, 100 if high is None else high + 1)
        counts = {
            len(range(*create_slice(a, b, step, size).indices(size)))
            for size in sizes
            for a in list_integers(start)
            for b in list_integers(stop)
        }
        found = get_bounds(count_slice(make_dimension(low, high), start, stop, step))
        assert found[0] <= min(counts)
        grows = high is None and max(counts) > 20  # more than between any two ends that count from the same side
        assert found[1] is None or (not grows and found[1] >= max(counts))
        if start[0] == start[1] and stop[0] == stop[1]:
            assert found == (min(counts), None if grows else max(counts))


def draw_interval(random: np.random.Generator, ends: list[float]) -> tuple[float, float]:
    """Return a random index, or an interval of some."""
    low = float(random.choice(ends))
    return low, low + float(random.integers(0, 5)) if random.random() < 0.4 else low


def list_integers(interval: tuple[float, float]) -> list[int]:
    """Return the indices in an interval; infinities as numbers behind all data."""
    low, high = interval
    return [int(np.copysign(100, low))] if np.isinf(low) else list(range(int(low), int(high) + 1))
