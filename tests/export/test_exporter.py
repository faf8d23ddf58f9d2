"""Values that are computed during the export, and those that are not."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
from ir_text import layer, net, port, write

pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")

import onnx
import onnxruntime as ort

import irrun
from irrun.element_types import ELEMENT_TYPES, ElementType
from irrun.export import exporter
from irrun.export.graph import constant
from irrun.ops import shape_rules
from irrun.ops._support import registry
from irrun.shapes import PartialShape


def fold(folder, type, version, data, arrays, *, kind="f32"):
    """Export a layer of constants, and return the types of the nodes that remain."""
    layers, edges, weights = [], [], b""
    for i, array in enumerate(arrays):
        name = str(ElementType.of(array.dtype))
        text = f'element_type="{name}" shape="{",".join(map(str, array.shape))}" offset="{len(weights)}"'
        layers.append(layer(i, "Const", data=f'{text} size="{array.nbytes}"', outputs=[port(0, array.shape)]))
        edges.append((i, 0, 50, i))
        weights += array.tobytes()
    layers += [
        layer(50, type, version, data, [port(i) for i in range(len(arrays))], [port(99, (), kind.upper(), "y")]),
        layer(51, "Result", inputs=[port(0)]),
    ]
    path = write(folder, net(layers, [*edges, (50, 99, 51, 0)]), weights)
    irrun.export_onnx(path, folder / "model.onnx")
    exported = onnx.load(str(folder / "model.onnx")).graph
    (found,) = ort.InferenceSession(folder / "model.onnx", providers=["CPUExecutionProvider"]).run(None, {})
    np.testing.assert_allclose(found, irrun.run(path, {})[0], rtol=1e-5, atol=2**-22)  # terms of FakeQuantize cancel
    return [node.op_type for node in exported.node if node.op_type != "Identity"]


def floats(count, dtype="f4"):
    return np.linspace(-1, 1, count).astype(dtype)


SPREAD = 'mode="numpy"'
FROM = [np.array(0), np.array(5000), np.array(1)]
FOLDED = [
    ("Exp", "opset1", "", [floats(3)], []),
    ("Exp", "opset1", "", [floats(5000)], []),  # not larger than the input
    ("Broadcast", "opset3", SPREAD, [floats(1), np.array([4096])], []),
    ("Broadcast", "opset3", SPREAD, [floats(1), np.array([4097])], ["Expand"]),
    ("Broadcast", "opset3", SPREAD, [floats(3000), np.array([1, 3000])], []),
    ("Range", "opset4", 'output_type="i64"', FROM, []),
    ("Convert", "opset1", 'destination_type="f32"', [floats(64, "f2")], []),
    ("Convert", "opset1", 'destination_type="f32"', [floats(65, "f2")], ["Cast"]),
    ("Convert", "opset1", 'destination_type="f16"', [floats(1)], []),
    ("Convert", "opset1", 'destination_type="f16"', [floats(2)], ["Cast"]),
    ("FakeQuantize", "opset1", 'levels="256"', [floats(5000), *np.float32([-1.28, 1.27, -1.28, 1.27])],
     ["DequantizeLinear"]),
]  # fmt: skip


@pytest.mark.parametrize(("type", "version", "data", "arrays", "expected"), FOLDED)
def test_values_that_are_computed_during_the_export(type, version, data, arrays, expected, tmp_path):
    kind = "i64" if type == "Range" else "f16" if "f16" in data else "f32"
    assert fold(tmp_path, type, version, data, [np.asarray(a) for a in arrays], kind=kind) == expected


def test_large_values_are_not_computed_during_the_export(tmp_path, monkeypatch):
    monkeypatch.setattr(exporter, "FOLDING_MEMORY", 5000)
    assert fold(tmp_path, "Exp", "opset1", "", [floats(4999)]) == []
    assert fold(tmp_path, "Exp", "opset1", "", [floats(5000)]) == ["Exp"]


def test_layers_with_omitted_inputs_are_computed_if_the_result_is_small():
    operation = registry.find("EmbeddingBagOffsetsSum", "opset3")
    table, indices, offsets = constant(np.float32([[1, 2], [3, 4]])), constant([0, 1, 1]), constant([0, 1])
    inputs = [table, indices, offsets, None, constant(np.float32([1, 1, 2]))]
    layer = SimpleNamespace(outputs=[SimpleNamespace(element_type=ELEMENT_TYPES["f32"])])
    known = shape_rules.Value(PartialShape([2, 2]))
    (result,) = exporter._fold(operation, {}, inputs, [known], layer)
    assert result.read().tolist() == [[1, 2], [9, 12]]
    assert exporter._fold(operation, {}, inputs, [None], layer) is None
