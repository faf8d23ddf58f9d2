"""Tests of intermediate values of strings."""

from __future__ import annotations

import numpy as np
from ir_text import layer, net, port, write

import irrun


def test_single_element_of_a_string_tensor_stays_a_string(tmp_path):
    """Gather returns a Python string here, which must not become an array of fixed width."""
    constant = 'element_type="i64" shape="" offset="0" size="8"'
    layers = [
        layer(0, "Parameter", data='shape="3" element_type="string"', outputs=[port(0, (3,))], name="x"),
        layer(1, "Const", data=constant, outputs=[port(0, (), "I64")]),
        layer(2, "Const", data=constant.replace('"0" size', '"8" size'), outputs=[port(0, (), "I64")]),
        layer(3, "Gather", "opset8", inputs=[port(0), port(1), port(2)], outputs=[port(3, ())]),
        layer(4, "Result", inputs=[port(0)]),
    ]
    edges = [(0, 0, 3, 0), (1, 0, 3, 1), (2, 0, 3, 2), (3, 3, 4, 0)]
    path = write(tmp_path, net(layers, edges), np.array([1, 0], np.int64).tobytes())
    for optimize in (False, True):
        result = irrun.compile_model(path, optimize=optimize)({"x": ["a", "long text", "c"]})[0]
        assert result.dtype == object
        assert result.item() == "long text"
