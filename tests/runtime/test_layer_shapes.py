"""Trial runs of kernels without a shape rule: their arguments, and what their results say about shapes."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

import irrun
from irrun.element_types import ElementType
from irrun.ir.graph import Layer, Port
from irrun.ops._support.operation import Operation
from irrun.ops.shape_rules import ShapeError, Value
from irrun.runtime import layer_shapes
from irrun.runtime.layer_shapes import _choose_shape, _fill, _join, _run, infer_layer
from irrun.shapes import parse_shape


@pytest.mark.parametrize(
    ("text", "size", "expected"),
    [
        ("?,3", 5, (5, 3)),
        ("2..4,6..", 5, (4, 6)),
        ("2..4,6..", 1, (2, 6)),
        ("2..4,1..", 3, (3, 3)),
        ("", 5, ()),
        (None, 5, None),
    ],
)
def test_trial_shapes_are_within_the_bounds(text, size, expected):
    assert _choose_shape(None if text is None else parse_shape(text), size) == expected


@pytest.mark.parametrize("dtype", [bool, np.int8, np.uint64, np.float16, np.float64, ml_dtypes.bfloat16])
def test_trial_values_are_zeros_ones_or_both(dtype):
    dtype = np.dtype(dtype)
    for fill, expected in ((0, [[0, 0, 0]] * 2), (None, [[0, 1, 0], [1, 0, 1]])):
        values = _fill((2, 3), dtype, fill)
        assert values.dtype == dtype
        assert values.astype(int).tolist() == expected
    if dtype.kind != "V":
        assert _fill((2, 3), dtype, 1).astype(int).tolist() == [[1] * 3] * 2
    for fill in (0, 1):
        assert _fill((1 << 20, 1 << 20), dtype, fill).strides == (0, 0)  # takes no memory


def test_trial_texts_are_empty():
    assert _fill((2,), np.dtype(object), None).tolist() == [0, 0]
    assert _fill((2,), np.dtype("U1"), 1).tolist() == ["", ""]


@pytest.mark.parametrize(
    ("shapes", "expected"),
    [([(2, 3), (2, 3)], "[2,3]"), ([(2, 3), (5, 3)], "[?,3]"), ([(2,), (2, 1)], None), ([(), ()], "[]")],
)
def test_dimensions_that_differ_between_trials_are_dynamic(shapes, expected):
    joined = _join(shapes)
    assert (None if joined is None else str(joined)) == expected


def test_kernels_are_called_as_in_a_run():
    calls: list[Any] = []

    def kernel(*values, factor):
        calls.append((len(values), factor))
        return values[0], [1.5]

    operation = Operation.from_function(kernel_of(kernel), "Custom", opset="extension")
    x = np.ones(2, np.float32)
    results = _run(operation, {"factor": 3}, [x, None, x, None, None], 2)
    assert results is not None
    first, second = results
    assert calls == [(3, 3)]  # inputs at the end that are not connected are left out
    np.testing.assert_array_equal(first, x)
    np.testing.assert_array_equal(second, [1.5])


def kernel_of(function):
    def kernel(*values, factor: int):
        return function(*values, factor=factor)

    return kernel


@pytest.mark.parametrize("error", [irrun.InputError("no"), ValueError("no")])
def test_only_errors_of_inputs_are_reported(error):
    def kernel(x):
        raise error

    operation = Operation.from_function(kernel, "Custom", opset="extension")
    if isinstance(error, irrun.InputError):
        with pytest.raises(ShapeError, match=r"^no$"):
            _run(operation, {}, [np.ones(2)], 1)
    else:
        assert _run(operation, {}, [np.ones(2)], 1) is None


@pytest.fixture
def infer(monkeypatch):
    """Return a function that infers the shapes of a layer of a custom kernel."""

    def run(kernel, *inputs, outputs=1):
        operation = Operation.from_function(kernel, "Custom", opset="extension")
        monkeypatch.setattr("irrun.ops._support.registry.find", lambda *arguments: operation)
        f32 = ElementType.parse("f32")
        ports = [Port(i, f32) for i in range(len(inputs))]
        layer = Layer(0, "custom", "Custom", inputs=ports, outputs=[Port(9 + i, f32) for i in range(outputs)])
        values = [
            None if text is None else Value(parse_shape(text) if isinstance(text, str) else text) for text in inputs
        ]
        return [None if v.shape is None else str(v.shape) for v in infer_layer(layer, values)]

    return run


def test_shapes_of_custom_kernels_are_those_of_their_results(infer):
    def halve(x, y=None):
        assert y is None or y.size
        return x[: len(x) // 2]

    assert infer(halve, "8,3") == ["[4,3]"]
    assert infer(halve, "?,3") == ["[?,3]"]
    assert infer(halve, "8,?", None) == ["[4,?]"]
    assert infer(halve, "?,3", "2") == ["[?,3]"]
    assert infer(lambda x: (x, x[0]), "?,3", outputs=3) == ["[?,3]", "[3]", None]


def test_shapes_that_depend_on_values_are_unknown(infer):
    assert infer(lambda x: x[x > 0], "3,4") == ["[?]"]
    assert infer(lambda x: x if x.any() else x[0], "3,4") == [None]


def test_kernels_without_trials(infer, monkeypatch):
    def fail(x):
        raise KeyError(x)

    assert infer(fail, "2") == [None]
    assert infer(lambda x: x, Value(None).shape) == [None]
    monkeypatch.setattr(layer_shapes, "_PROBE_LIMIT", 12)
    assert infer(lambda x, y: x, "3,2", "6") == ["[3,2]"]
    assert infer(lambda x, y: x, "3,2", "7") == [None]


def test_results_have_at_most_64_dimensions():
    ports = [Port(0, ElementType.parse("f32")), Port(1, ElementType.parse("i64"))]
    layer = Layer(0, "u", "Unsqueeze", "opset1", inputs=ports, outputs=[Port(2, ElementType.parse("f32"))])
    axes = Value.of_array(np.array([0]))
    (value,) = infer_layer(layer, [Value(parse_shape(",".join("2" * 63))), axes])
    assert str(value.shape) == f"[1,{','.join('2' * 63)}]"
    with pytest.raises(ShapeError, match=r"^the result has 65 dimensions, expected at most 64$"):
        infer_layer(layer, [Value(parse_shape(",".join("2" * 64))), axes])
