"""Inputs that hold a shape with more elements than an array can have axes."""

from __future__ import annotations

import numpy as np
import pytest
from ir_text import layer, net, port, write

import irrun

DATA = np.ones(3, np.float32)
#: The product of so many dimensions takes a minute.
SHAPE = np.full(1 << 20, 3)
ONE = np.array([3])


@pytest.mark.parametrize("optimize", [False, True])
@pytest.mark.parametrize(
    ("operation", "data", "inputs"),
    [
        ("Broadcast-1", "", [DATA, SHAPE]),
        ("Broadcast-3", 'mode="numpy"', [DATA, SHAPE]),
        ("Broadcast-3", 'mode="bidirectional"', [DATA, SHAPE]),
        ("Broadcast-3", 'mode="explicit"', [DATA, SHAPE, ONE]),
        ("Eye-9", 'output_type="f32"', [ONE, ONE, ONE, SHAPE]),
        ("RandomUniform-8", 'output_type="f32"', [SHAPE, DATA[:1] * 0, DATA[:1]]),
        ("Reshape-1", 'special_zero="true"', [DATA, SHAPE]),
        ("Tile-1", "", [DATA, SHAPE]),
    ],
)
def test_more_dimensions_than_axes_are_refused(operation, data, inputs, optimize, tmp_path):
    type, _, version = operation.partition("-")
    layers = []
    for i, x in enumerate(inputs):
        attributes = f'shape="{x.size}" element_type="{"f32" if x.dtype == np.float32 else "i64"}"'
        layers.append(layer(i, "Parameter", data=attributes, outputs=[port(0, x.shape)]))
    ports = [port(i, x.shape) for i, x in enumerate(inputs)]
    layers.append(layer(100, type, f"opset{version}", data, ports, [port(100)]))
    layers.append(layer(101, "Result", inputs=[port(0)]))
    edges = [*[(i, 0, 100, i) for i in range(len(inputs))], (100, 100, 101, 0)]
    compiled = irrun.compile_model(write(tmp_path, net(layers, edges)), optimize=optimize)
    with pytest.raises(irrun.InputError, match=r"has 1048576 elements, expected at most 64, one per axis"):
        compiled(inputs)
