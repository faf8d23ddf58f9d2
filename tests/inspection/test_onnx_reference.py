"""Comparison with an ONNX model in onnxruntime."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from command_line import call
from ir_text import chain, layer, net, port, write

pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")

import onnx

import irrun
from inspection.graphs import Row, make_model
from irrun.inspection import compare
from irrun.inspection.onnx_reference import OnnxReference
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


W1 = np.float32([[1, 0.5], [0.25, -1]])
B1 = np.float32([0.5, -0.25])
W2 = np.float32([[0.5, 0.25], [1, -0.5]])
X = np.float32([[0.3, -0.6], [1.5, 0.2]])


def make_ir(b1=B1):
    """Return a network with the names that OpenVINO gives the operations of a PyTorch module."""
    linear, scale = "__module.block.0/aten::linear/", "__module.block.1/aten::mul/Multiply"
    return make_model(
        Row("x", "Parameter", shapes=[(2, 2)]),
        Row("w1", "Constant", value=W1),
        Row("b1", "Constant", value=b1),
        Row("two", "Constant", value=np.float32([[2]])),
        Row("w2", "Constant", value=W2),
        Row(linear + "MatMul", "MatMul", ["x", "w1"], shapes=[(2, 2)]),
        Row(linear + "Add", "Add", [linear + "MatMul", "b1"], shapes=[(2, 2)]),
        Row(scale, "Multiply", [linear + "Add", "two"], shapes=[(2, 2)]),
        Row("__module.block.2/aten::relu/Relu", "Relu", [scale], shapes=[(2, 2)]),
        Row("__module.head/aten::linear/MatMul", "MatMul", ["__module.block.2/aten::relu/Relu", "w2"]),
        Row("y", "Result", ["__module.head/aten::linear/MatMul"]),
    )


def write_onnx(path, is_merged):
    """Write the network with the names of PyTorch's exporter, which may merge the product into the linear layer."""
    helper = onnx.helper
    factor = 2 if is_merged else 1
    rows = [
        ("MatMul", "/block/block.0/MatMul", ["x", "w1"], "/block/block.0/MatMul_output_0"),
        ("Add", "/block/block.0/Add", ["b1", "/block/block.0/MatMul_output_0"], "/block/block.0/Add_output_0"),
    ]
    last = rows[-1][3]
    if not is_merged:
        rows.append(("Mul", "/block/block.1/Mul", [last, "two"], "/block/block.1/Mul_output_0"))
        last = rows[-1][3]
    rows += [
        ("Relu", "/block/block.2/Relu", [last], "/block/block.2/Relu_output_0"),
        ("MatMul", "/head/MatMul", ["/block/block.2/Relu_output_0", "w2"], "17"),
    ]
    weights = {"w1": factor * W1, "b1": factor * B1, "two": np.float32([[2]]), "w2": W2}
    graph = helper.make_graph(
        [helper.make_node(kind, sources, [output], name=name) for kind, name, sources, output in rows],
        "net",
        [helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, (2, 2))],
        [helper.make_tensor_value_info("17", onnx.TensorProto.FLOAT, (2, 2))],
        [onnx.numpy_helper.from_array(value, name) for name, value in weights.items()],
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    return path


def test_modules_of_exported_files_are_matched(tmp_path):
    path = write_onnx(tmp_path / "model.onnx", is_merged=False)
    result = compare(make_ir(), path, X)
    assert result.agrees
    assert [layer.name for layer in result.layers] == [
        "__module.block.0/aten::linear/Add",
        "__module.block.1/aten::mul/Multiply",
        "__module.block.2/aten::relu/Relu",
        "__module.head/aten::linear/MatMul",
    ]
    result = compare(make_ir(B1 + np.float32([0, 0.125])), path, X)
    assert [layer.name for layer in result.causes] == ["__module.block.0/aten::linear/Add"]


def test_modules_that_were_merged_are_left_out(tmp_path):
    path = write_onnx(tmp_path / "model.onnx", is_merged=True)
    result = compare(make_ir(), path, X)
    assert result.agrees
    assert [layer.name for layer in result.layers] == [
        "__module.block.2/aten::relu/Relu",
        "__module.head/aten::linear/MatMul",
    ]
    result = compare(make_ir(B1 + np.float32([0, 0.125])), path, X)
    assert [layer.name for layer in result.causes] == ["__module.block.2/aten::relu/Relu"]


class Session:
    """A session of onnxruntime with two inputs, a variable, and a result that NumPy has no type for."""

    def __init__(self, names=("x", "y")):
        self.names = names
        self.feeds: list[dict[str, np.ndarray]] = []

    def get_inputs(self):
        return [SimpleNamespace(name=name) for name in self.names]

    def get_outputs(self):
        types = {"sum": "tensor(float)", "list": "seq(tensor(float))", "state.new": "tensor(float)"}
        return [SimpleNamespace(name=name, type=kind) for name, kind in types.items()]

    def run(self, names, feeds):
        assert names == ["sum", "state.new"]
        self.feeds.append(feeds)
        return [feeds["x"] - feeds["y"], feeds.get("state", 0) + 1]


def make_reference(session, positions):
    reference = OnnxReference.__new__(OnnxReference)
    vars(reference).update(_path=Path("m.onnx"), _session=session, _states={}, _positions=positions, _arrays={})
    return reference


def test_inputs_of_onnx_files_are_found_by_name_or_position():
    for positions, expected in (
        ({"y": 0, "x": 1}, {"x": 3, "y": 1}),
        ({}, {"x": 1, "y": 3}),
        ({"x": 0}, {"x": 1, "y": 3}),
    ):
        session = Session()
        make_reference(session, positions).advance([np.float32(1), np.float32(3)])
        assert session.feeds == [expected]


def test_variables_of_onnx_files_keep_their_values():
    session = Session()
    reference = make_reference(session, {})
    for count in (1, 2):
        reference.advance([np.float32(5), np.float32(3)])
        assert reference._arrays == {"sum": 2, "state.new": count}
        assert reference._states == {"state": count}
    assert session.feeds == [{"x": 5, "y": 3}, {"x": 5, "y": 3, "state": 1}]


@pytest.mark.parametrize(("names", "positions"), [(("x", "y", "z"), {}), (("x", "x"), {}), (("x", "y"), {"y": 2})])
def test_onnx_files_with_other_inputs_are_refused(names, positions):
    with pytest.raises(irrun.InputError, match=r"^m\.onnx differs from the model in the number of inputs$"):
        make_reference(Session(names), positions).advance([np.float32(1), np.float32(3)])
