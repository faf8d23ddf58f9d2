"""Comparison with an ONNX model in onnxruntime."""

from __future__ import annotations

import numpy as np
import pytest
from command_line import call
from ir_text import chain, layer, net, port, write

pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")

import onnx

import irrun
from irrun.ir.graph import name_values


def make_product(name="y"):
    """Return a net of a product with a constant matrix, between two functions, and the matrix."""
    matrix = 'element_type="f32" shape="3,3" offset="0" size="36"'
    layers = [
        layer(0, "Parameter", data='shape="1,3" element_type="f32"', outputs=[port(0, (1, 3), "FP32", "x")]),
        layer(1, "Tanh", inputs=[port(0, (1, 3))], outputs=[port(1, (1, 3), "FP32", "y")]),
        layer(2, "Const", data=matrix, outputs=[port(0, (3, 3), "FP32")]),
        layer(3, "MatMul", data='transpose_a="false" transpose_b="false"',
              inputs=[port(0, (1, 3)), port(1, (3, 3))], outputs=[port(2, (1, 3), "FP32")]),
        layer(4, "Sigmoid", inputs=[port(0, (1, 3))], outputs=[port(1, (1, 3), "FP32", name)]),
        layer(5, "Result", inputs=[port(0, (1, 3))]),
    ]  # fmt: skip
    edges = [(0, 0, 1, 0), (1, 1, 3, 0), (2, 0, 3, 1), (3, 2, 4, 0), (4, 1, 5, 0)]
    return net(layers, edges), np.eye(3, dtype=np.float32)


def change_matrix(path):
    model = onnx.load(path)
    (matrix,) = (tensor for tensor in model.graph.initializer if list(tensor.dims) == [3, 3])
    matrix.CopyFrom(onnx.numpy_helper.from_array(2 * np.eye(3, dtype=np.float32), matrix.name))
    onnx.save(model, path)


@pytest.mark.parametrize("repeated", [False, True])
def test_the_layer_that_differs_is_named(repeated, tmp_path, capsys):
    path = write(tmp_path, *make_product("y" if repeated else "z"))
    irrun.export_onnx(path, tmp_path / "model.onnx")
    code, out, _ = call(capsys, "compare", path, tmp_path / "model.onnx", "--input", "random")
    assert code == 0
    assert "no layer adds an error" in out
    change_matrix(tmp_path / "model.onnx")
    code, out, _ = call(capsys, "compare", path, tmp_path / "model.onnx", "--input", "random")
    assert code == 1
    assert "layer3 (MatMul) is the first layer that adds an error" in out


def test_values_have_unique_names(tmp_path):
    model = irrun.read_model(write(tmp_path, *make_product("y")))
    names = list(name_values(model.graph).values())
    assert len(set(names)) == len(names)
    assert names.count("y") == 1


@pytest.mark.parametrize(("content", "error"), [(None, "is not a file"), (b"no model", "cannot read")])
def test_files_that_are_no_models(content, error, tmp_path, capsys):
    path = write(tmp_path, chain("Relu"))
    if content is not None:
        (tmp_path / "model.onnx").write_bytes(content)
    code, _, err = call(capsys, "compare", path, tmp_path / "model.onnx", "--input", "random")
    assert code == 2
    assert error in err
