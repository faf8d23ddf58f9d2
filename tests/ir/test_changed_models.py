"""Models that were reshaped, extracted or both are saved with all their values; broken structures are reported."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from ir_text import layer, net, port, write

import irrun
from irrun.ir.graph import PortMapEntry

WEIGHTS = np.arange(12, dtype=np.float32).reshape(3, 4) - 5
BIAS = np.array([[0.5, -1, 2, 4]], np.float32)
X = np.linspace(-2, 2, 6, dtype=np.float32).reshape(2, 3)


@pytest.fixture
def dense(tmp_path: Path) -> irrun.Model:
    """A model that computes Relu(x @ WEIGHTS + BIAS), f32[2,4]."""
    data = 'element_type="f32" shape="{}" offset="{}" size="{}"'
    layers = [
        layer(0, "Parameter", data='shape="2,3" element_type="f32"', outputs=[port(0, (2, 3), "FP32", "x")], name="x"),
        layer(1, "Const", data=data.format("3,4", 0, 48), outputs=[port(0, (3, 4), "FP32")], name="weights"),
        layer(2, "Const", data=data.format("1,4", 48, 16), outputs=[port(0, (1, 4), "FP32")], name="bias"),
        layer(3, "MatMul", inputs=[port(0), port(1)], outputs=[port(2, (2, 4), "FP32", "product")], name="product"),
        layer(4, "Add", inputs=[port(0), port(1)], outputs=[port(2, (2, 4), "FP32", "sum")], name="sum"),
        layer(5, "ReLU", inputs=[port(0)], outputs=[port(1, (2, 4), "FP32", "y")], name="y"),
        layer(6, "Result", inputs=[port(0)], name="result"),
    ]
    edges = [(0, 0, 3, 0), (1, 0, 3, 1), (3, 2, 4, 0), (2, 0, 4, 1), (4, 2, 5, 0), (5, 1, 6, 0)]
    return irrun.read_model(write(tmp_path, net(layers, edges), WEIGHTS.tobytes() + BIAS.tobytes()))


def save(model: irrun.Model, folder: Path) -> irrun.Model:
    """Save a model, check the file, and return what is read from it."""
    xml, _ = irrun.save_model(model, folder / "saved.xml")
    assert irrun.validate(xml) == []
    return irrun.read_model(xml)


def find_shapes(model: irrun.Model) -> dict[str, str]:
    return {layer.name: str(layer.outputs[0].shape) for layer in model.graph.layers if layer.outputs}


def test_reshaped_model_is_saved_with_its_constants(dense, tmp_path):
    x = np.linspace(-3, 3, 15, dtype=np.float32).reshape(5, 3)
    dense.reshape({"x": [5, 3]})
    copy = save(dense, tmp_path)
    shapes = find_shapes(copy)
    assert (shapes["x"], shapes["weights"], shapes["bias"]) == ("[5,3]", "[3,4]", "[1,4]")
    for name, expected in (("weights", WEIGHTS), ("bias", BIAS)):
        constant = next(layer.constant for layer in copy.graph.layers if layer.name == name)
        assert constant is not None
        np.testing.assert_array_equal(constant.to_array(), expected)
    np.testing.assert_allclose(irrun.run(copy, x)[0], np.maximum(x @ WEIGHTS + BIAS, 0), rtol=1e-6)


def test_reshaped_model_and_its_part_are_read_by_openvino(dense, tmp_path):
    ov = pytest.importorskip("openvino")
    dense.reshape({"x": [5, 3]})
    for model in (dense, irrun.extract(dense, "product", "y")):
        xml, _ = irrun.save_model(model, tmp_path / "theirs.xml")
        theirs = ov.Core().read_model(xml)
        assert str(theirs.outputs[0].partial_shape) == "[5,4]"


@pytest.mark.parametrize("is_reshaped_first", [True, False])
def test_extracted_and_reshaped_model_is_saved(dense, tmp_path, is_reshaped_first):
    if is_reshaped_first:
        dense.reshape({"x": [4, 3]})
    part = irrun.extract(dense, ["product"], ["y"])
    if not is_reshaped_first:
        part.reshape({"product": [4, 4]})
    copy = save(part, tmp_path)
    assert [str(t) for t in copy.inputs] == ["product: f32[4,4]"]
    assert [layer.type for layer in copy.graph.layers] == ["Parameter", "Constant", "Add", "ReLU", "Result"]
    x = np.linspace(-9, 9, 16, dtype=np.float32).reshape(4, 4)
    np.testing.assert_array_equal(irrun.run(copy, x)[0], np.maximum(x + BIAS, 0))


def test_extracted_model_is_extracted_again(dense, tmp_path):
    part = irrun.extract(irrun.extract(dense, (), "sum"), "product", ())
    np.testing.assert_array_equal(irrun.run(save(part, tmp_path), np.zeros((2, 4), np.float32))[0], BIAS.repeat(2, 0))


@pytest.mark.parametrize("outputs", [["sum"], ["sum", "y"], ["y", "sum"]])
def test_input_of_a_part_may_be_an_output(dense, tmp_path, outputs):
    x = np.linspace(-2, 2, 8, dtype=np.float32).reshape(2, 4)
    part = save(irrun.extract(dense, "sum", outputs), tmp_path)
    expected = {"sum": x, "y": np.maximum(x, 0)}
    for name, value in zip(outputs, irrun.run(part, x).to_tuple(), strict=True):
        np.testing.assert_array_equal(value, expected[name])


def test_reshaping_twice_is_like_reshaping_once(dense, tmp_path):
    dense.reshape({"x": [7, 3]})
    dense.reshape({"x": [2, 3]})
    copy = save(dense, tmp_path)
    assert (copy.inputs[0].shape, copy.outputs[0].shape) == ((2, 3), (2, 4))
    np.testing.assert_allclose(irrun.run(copy, X)[0], np.maximum(X @ WEIGHTS + BIAS, 0), rtol=1e-6)


def test_added_output_of_a_reshaped_model_is_saved(dense, tmp_path):
    dense.reshape({"x": [1, 3]})
    dense.add_outputs("product")
    copy = save(dense, tmp_path)
    assert [t.shape for t in copy.outputs] == [(1, 4), (1, 4)]
    np.testing.assert_allclose(irrun.run(copy, X[:1])["product"], X[:1] @ WEIGHTS, rtol=1e-6)


def test_ports_without_type_are_saved_as_unspecified(tmp_path):
    layers = [
        layer(0, "Parameter", data='shape="2" element_type="f32"', outputs=[port(0, (2,), "FP32", "x")], name="x"),
        layer(1, "ReLU", inputs=[port(0)], outputs=[port(1, (2,))]),
        layer(2, "Result", inputs=[port(0)]),
    ]
    model = irrun.read_model(write(tmp_path, net(layers, [(0, 0, 1, 0), (1, 1, 2, 0)])))
    xml, _ = irrun.save_model(model, tmp_path / "saved.xml")
    text = xml.read_text()
    assert text.count('precision="UNSPECIFIED"') == 1
    assert irrun.read_model(xml).graph.layers[1].outputs[0].element_type is None


def test_entry_of_a_port_map_is_a_whole_value_by_default():
    entry = PortMapEntry(3, 5)
    assert (entry.axis, entry.start, entry.end, entry.stride, entry.part_size) == (None, 0, -1, 1, 1)
    assert (entry.purpose, entry.line) == ("", 0)


def make_cycle(extra):
    layers = [
        layer(0, "Parameter", data='shape="2" element_type="f32"', outputs=[port(0, (2,), "FP32", "x")], name="x"),
        layer(1, "Add", inputs=[port(0), port(1)], outputs=[port(2, (2,), "FP32")], name="first"),
        layer(2, "ReLU", inputs=[port(0)], outputs=[port(1, (2,), "FP32")], name="second"),
        layer(3, "Result", inputs=[port(0)], name="result"),
    ]
    return net(layers, [(0, 0, 1, 0), (2, 1, 1, 1), (1, 2, 2, 0), (2, 1, 3, 0), *extra])


def test_cycle_is_found_if_all_edges_are_valid(tmp_path):
    findings = [str(f) for f in irrun.validate(write(tmp_path, make_cycle([])))]
    assert len(findings) == 1
    assert "cycle" in findings[0]
    findings = [str(f) for f in irrun.validate(write(tmp_path, make_cycle([(0, 7, 3, 9)])))]
    assert [("output port 7" in f, "input port 9" in f) for f in findings] == [(True, False), (False, True)]
