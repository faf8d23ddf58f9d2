"""Checks of custom operations: wrong results, written inputs, misspelled attributes."""

from __future__ import annotations

import inspect

import numpy as np
import pytest
from ir_text import chain, layer, net, port, write

import irrun
from irrun.ir.graph import Layer
from irrun.ops._support.operation import Operation
from irrun.runtime.custom_kernels import guard_kernel

X = np.ones((2, 3), np.float32)


def compile_custom(tmp_path, function, data="", outputs=1):
    inputs, results = [port(0, (2, 3))], [port(i, (2, 3), "FP32") for i in range(1, outputs + 1)]
    layers = [
        layer(0, "Parameter", data='shape="2,3" element_type="f32"', outputs=[port(0, (2, 3), "FP32")], name="x"),
        layer(1, "Custom", "extension", data, inputs, results, name="mine"),
        *(layer(1 + i, "Result", inputs=[port(0)], name=f"out{i}") for i in range(1, outputs + 1)),
    ]
    edges = [(0, 0, 1, 0), *((1, i, 1 + i, 0) for i in range(1, outputs + 1))]
    operation = irrun.Operation.from_function(function, "Custom", opset="extension")
    return irrun.compile_model(write(tmp_path, net(layers, edges)), operations=[operation])


def refuse(x):
    raise ValueError("refused")


def write_to_input(x):
    x += 1
    return x


@pytest.mark.parametrize(
    ("function", "outputs", "message"),
    [
        (lambda x: None, 1, "the kernel of Custom-extension returned None, expected an array; is `return` missing"),
        (lambda x: (x, x), 1, "the kernel of Custom-extension returned 2 outputs, the layer has 1"),
        (lambda x: x, 2, "the kernel of Custom-extension returned 1 output, the layer has 2"),
        (
            lambda x: x.astype(np.float64),
            1,
            "output 0 of the kernel of Custom-extension has type f64, the layer declares f32",
        ),
        (
            lambda x: (x, x > 0),
            2,
            "output 1 of the kernel of Custom-extension has type boolean, the layer declares f32",
        ),
        (lambda x: x.astype(complex), 1, "output 0 of .* has the NumPy type complex128, which is not an element type"),
        (lambda x: "text", 1, "output 0 of the kernel of Custom-extension is a str, expected an array"),
        (lambda x: [1.0], 1, "output 0 of the kernel of Custom-extension is a float, expected an array"),
        (refuse, 1, "ValueError: refused"),
        (write_to_input, 1, "the kernel of Custom-extension writes to an input; copy the input first"),
    ],
)
def test_wrong_results_are_reported(tmp_path, function, outputs, message):
    compiled = compile_custom(tmp_path, function, outputs=outputs)
    with pytest.raises(irrun.ExecutionError, match=rf"layer 1 'mine' \(Custom, extension\): {message}"):
        compiled(X)
    np.testing.assert_array_equal(X, 1)


def test_inputs_that_are_not_connected_are_none(tmp_path):
    received = []

    def compute(x, y=None, z=None):
        received.append((y, z))
        return x if z is None else x + z

    operation = irrun.Operation.from_function(compute, "Custom", opset="extension")
    for connects_last in (False, True):
        layers = [
            layer(0, "Parameter", data='shape="2,3" element_type="f32"', outputs=[port(0, (2, 3), "FP32")], name="x"),
            layer(1, "Custom", "extension", "", [port(i, (2, 3)) for i in range(3)], [port(3, (2, 3))], name="mine"),
            layer(2, "Result", inputs=[port(0)]),
        ]
        edges = [(0, 0, 1, 0), (1, 3, 2, 0), *([(0, 0, 1, 2)] if connects_last else [])]
        compiled = irrun.compile_model(write(tmp_path, net(layers, edges)), operations=[operation])
        np.testing.assert_array_equal(compiled(X)[0], X + X if connects_last else X)  # its type is not declared
        y, z = received[-1]
        assert y is None
        assert (z is not None) == connects_last


def test_correct_results_are_accepted(tmp_path):
    for function, outputs in ((lambda x: x, 1), (lambda x: [x, x + 1], 2), (lambda x: (np.float32(3),), 1)):
        compiled = compile_custom(tmp_path, function, outputs=outputs)
        assert len(compiled(X)) == outputs
        assert compiled(X, observers=[lambda *_: None])[0].dtype == np.float32


def test_misspelled_attributes_are_reported(tmp_path):
    def scale(x, *, factor: float = 1.0):
        return x * np.float32(factor)

    with pytest.raises(irrun.ModelError, match="does not have the attribute facter; did you mean factor"):
        compile_custom(tmp_path, scale, 'facter="3"')
    assert compile_custom(tmp_path, scale, 'factor="3" note="x"')(X)[0][0, 0] == 3


def test_missing_attributes_name_similar_ones(tmp_path):
    data = 'stridez="1" kernel="2" pads_begin="0" pads_end="0"'
    path = write(tmp_path, chain("MaxPool", shape=(1, 1, 4), data=[data]))
    with pytest.raises(irrun.ModelError, match=r"MaxPool-1 requires the attribute strides \(found stridez\)"):
        irrun.compile_model(path)


def test_unsupported_operations_say_how_to_register_one(tmp_path):
    path = write(tmp_path, chain("Foo", versions=["extension"]))
    message = r'unsupported operations: Foo of extension \(layer 1 .*@irrun.op\("Foo", opset="extension"\)'
    with pytest.raises(irrun.UnsupportedError, match=message):
        irrun.compile_model(path)


def test_checked_kernels_have_the_name_and_source_of_their_function():
    """The debugger steps into the source."""

    def double(x):
        """Twice."""
        return 2 * x

    operation = Operation.from_function(double, "Double", opset="extension")
    kernel = guard_kernel(operation, Layer(0, "d", "Double"))
    assert inspect.unwrap(kernel) is double
    assert (kernel.__name__, kernel.__doc__) == ("double", "Twice.")  # type: ignore[attr-defined]
