"""Files of exported graphs: constants, names, nodes that are left out, and dimensions."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

pytest.importorskip("onnx")

import onnx

from export.inputs import value
from irrun.element_types import ELEMENT_TYPES
from irrun.export import writing
from irrun.export.graph import Graph, constant, op, ops

pytestmark = pytest.mark.usefixtures("graph")

F32 = ELEMENT_TYPES["f32"]


def write(graph, folder, **options):
    source = SimpleNamespace(path=None, source_version=None)  # a model that no file contains
    files = writing.write_model(graph, source, folder / "m.onnx", **options)
    return onnx.load(str(files[0])), files


def test_equal_constants_are_stored_once(graph, tmp_path):
    x = value(4)
    small = [constant(np.float32([1, 2, 3, 4])) for _ in range(2)]
    total = op("Sum", x, *small, constant(np.int32([1, 2, 3, 4]).view(np.float32)), constant(np.float32([1, 2, 3, 4])))
    graph.add_output(total, "y")
    model, _ = write(graph, tmp_path)
    assert len(model.graph.initializer) == 2
    names = [tensor.name for tensor in model.graph.initializer]
    assert list(model.graph.node[0].input) == ["x", names[0], names[0], names[1], names[0]]
    assert names == ["constant", "constant_2"]


def test_nodes_without_used_results_are_not_written(graph, tmp_path):
    x = value(2)
    op("Exp", x)
    kept = graph.add("Mine", [x], [F32], {}, "domain")
    then, other = Graph(21, "then", parent=graph), Graph(21, "else", parent=graph)
    inner = op("Tanh", x)
    then.add_output(inner)
    with other.activate():
        other.add_output(op("Neg", op("Abs", x)))
    graph.add_output(op("If", constant(True), result=F32, then_branch=then, else_branch=other), "y")
    model, _ = write(graph, tmp_path)
    assert kept
    assert [node.op_type for node in model.graph.node] == ["Mine", "Tanh", "If"]
    assert [node.name for node in model.graph.node] == ["layer/Mine", "layer/Tanh", "layer/If"]
    assert [(o.domain, o.version) for o in model.opset_import] == [("", 21), ("domain", 1)]
    assert (model.ir_version, model.doc_string, list(model.metadata_props)) == (10, "", [])


def test_names_are_unique(graph, tmp_path):
    x = value(2, name="")
    y = value(2, name="value")
    graph.add_output(op("Add", op("Relu", x), op("Relu", y)), "value")
    graph.add_output(op("Exp", x), "sum")
    for part in ops("Split", x, outputs=2, num_outputs=2):
        graph.add_output(op("Abs", part))
    model, _ = write(graph, tmp_path)
    assert [v.name for v in model.graph.input] == ["value", "value_2"]
    assert [v.name for v in model.graph.output[:2]] == ["value_3", "sum"]
    assert [node.name for node in model.graph.node[:3]] == ["layer/Relu", "layer/Relu_2", "layer/Add"]
    assert list(model.graph.node[0].output) == ["layer/Relu"]
    (split,) = (node for node in model.graph.node if node.op_type == "Split")
    assert list(split.output) == ["layer/Split.0", "layer/Split.1"]


def test_large_constants_are_aligned_in_their_file(graph, tmp_path):
    x = value(300)
    arrays = [np.arange(n, dtype=np.float32) for n in (300, 255, 256)]
    total = op("Add", x, constant(arrays[0]))
    for array in arrays[1:]:
        total = op("Concat", total, constant(array), axis=0)
    graph.add_output(total, "y")
    size = sum(array.nbytes for array in arrays)
    _, files = write(graph, tmp_path, threshold=size)
    assert [file.name for file in files] == ["m.onnx"]
    _, files = write(graph, tmp_path, threshold=size - 1)
    assert [file.name for file in files] == ["m.onnx", "m.onnx.data"]
    model = onnx.load(str(files[0]), load_external_data=False)
    found = {t.dims[0]: {e.key: e.value for e in t.external_data} for t in model.graph.initializer}
    assert found == {
        300: {"location": "m.onnx.data", "offset": "0", "length": "1200"},
        255: {},
        256: {"location": "m.onnx.data", "offset": "1216", "length": "1024"},
    }
    loaded = onnx.load(str(files[0])).graph.initializer
    assert sorted(map(len, map(onnx.numpy_helper.to_array, loaded))) == [255, 256, 300]


def test_texts_are_stored(graph, tmp_path):
    x = value(3, type="string")
    texts = constant(np.array(["a", "ü", b"\xff"], object), "string")
    graph.add_output(op("Where", value(3, type="boolean", name="c"), x, texts), "y")
    model, _ = write(graph, tmp_path)
    assert list(model.graph.initializer[0].string_data) == [b"a", "ü".encode(), b"\xff"]


def test_dynamic_dimensions_of_inputs_have_names(graph, tmp_path):
    x = value(-1, 3, name="folder/data")
    y = value(None, name="y")
    middle = op("Relu", x)
    middle.name = "middle"
    graph.add_output(op("Abs", middle), "out")
    graph.add_output(op("Neg", y), "other")
    model, _ = write(graph, tmp_path)
    shapes = [[d.dim_param or d.dim_value for d in v.type.tensor_type.shape.dim] for v in model.graph.input]
    assert shapes == [["data_dim_0", 3], []]
    assert not model.graph.input[1].type.tensor_type.HasField("shape")
    (info,) = model.graph.value_info
    assert (info.name, [d.dim_param or d.dim_value for d in info.type.tensor_type.shape.dim]) == ("middle", [0, 3])
