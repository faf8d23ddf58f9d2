"""The exceptions of irrun and the built-in exceptions that they derive from."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from ir_text import layer, net, port, write

import irrun
from irrun.errors import ExecutionError, InputError, IrrunError, ModelError, UnsupportedError
from irrun.ops.sequence.attention import scaled_dot_product_attention_13


@pytest.mark.parametrize(
    ("error", "builtin"),
    [
        (ModelError, RuntimeError),
        (UnsupportedError, RuntimeError),
        (ExecutionError, RuntimeError),
        (InputError, ValueError),
    ],
)
def test_errors_are_caught_as_builtin_exceptions(error, builtin):
    with pytest.raises(builtin, match=r"^model\.xml:3: Relu: a message$"):
        raise error("a message", path="model.xml", line=3, layer="Relu")
    assert issubclass(error, IrrunError)
    copy = pickle.loads(pickle.dumps(error("a message", path="model.xml", line=3)))
    assert type(copy) is error
    assert str(copy) == "model.xml:3: a message"


def test_input_error_of_attention_is_not_reported_as_shape_mismatch():
    x = np.zeros((1, 2, 4), np.float32)
    with pytest.raises(InputError, match=r"^sink has shape \[2, 4\], expected \[\.\.\., L or 1, 1\]"):
        scaled_dot_product_attention_13(x, x, x, None, None, np.zeros((2, 4), np.float32))


def test_input_error_of_untyped_input_is_reported_unchanged(tmp_path):
    layers = [
        layer(0, "Parameter", data='shape="?" element_type="dynamic"', outputs=[port(0, names="x")], name="x"),
        layer(1, "Result", inputs=[port(0)]),
    ]
    model = irrun.compile_model(write(tmp_path, net(layers, [(0, 0, 1, 0)]), None))
    with pytest.raises(InputError, match="a int among its strings"):
        model([np.array(["a", 1], dtype=object)])


def test_texts_of_the_greatest_length_are_not_shortened():
    from irrun.errors import MAX_LENGTH, to_one_line

    text = ("word " * MAX_LENGTH)[: MAX_LENGTH - 2] + "ab"
    assert to_one_line(text) == text
    longer = to_one_line(text + "c")
    assert " ... " in longer
    assert longer.endswith("abc")
