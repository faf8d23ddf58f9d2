"""Adding outputs to models, reshaping them, and their names and representations."""

from __future__ import annotations

import numpy as np
import pytest
from ir_text import chain, graph, layer, net, port, write

import irrun

X = np.arange(6, dtype=np.float32).reshape(2, 3) - 3


@pytest.fixture
def model(tmp_path):
    """Return the model Exp(Relu(x)) on f32[2,3]."""
    return irrun.read_model(write(tmp_path, chain("Relu", "Exp")))


def test_add_outputs_adds_an_intermediate_value(model):
    before = irrun.run(model, X)[0]
    (added,) = model.add_outputs("layer1")
    assert added.any_name == "layer1"
    assert added.partial_shape == [2, 3]
    out = irrun.run(model, X)
    assert list(out) == ["layer2", "layer1"]
    np.testing.assert_array_equal(out[added], np.maximum(X, 0))
    np.testing.assert_array_equal(out[0], before)


def test_add_outputs_returns_existing_outputs(model):
    assert [t.any_name for t in model.add_outputs(["x", "layer2", "x", "layer1.0"])] == ["x", "layer2", "x", "layer1"]
    assert len(model.outputs) == 3
    np.testing.assert_array_equal(irrun.run(model, X)["x"], X)


def test_add_outputs_of_unknown_value_changes_nothing(model):
    with pytest.raises(irrun.ModelError, match="unknown value 'layer3'; did you mean layer2, layer1"):
        model.add_outputs(["layer1", "layer3"])
    assert len(model.outputs) == 1


def test_model_with_added_outputs_can_be_saved(model, tmp_path):
    model.add_outputs("layer1")
    xml, _ = irrun.save_model(model, tmp_path / "more.xml")
    assert irrun.validate(xml) == []
    np.testing.assert_array_equal(irrun.run(xml, X)["layer1"], np.maximum(X, 0))


def test_reshaped_inputs_accept_other_shapes(model, tmp_path):
    x = np.ones((5, 3), np.float32)
    with pytest.raises(irrun.InputError, match=r"input x: f32\[2,3\] does not accept shape \[5, 3\]"):
        irrun.run(model, x)
    model.reshape([-1, 3])
    assert model.inputs[0].partial_shape == [-1, 3]
    assert model.outputs[0].partial_shape == [-1, 3]
    assert irrun.run(model, x)[0].shape == (5, 3)
    with pytest.raises(irrun.InputError, match=r"x: f32\[\?,3\] does not accept shape \[5, 2\]"):
        irrun.run(model, x[:, :2])
    xml, _ = irrun.save_model(model, tmp_path / "open.xml")
    assert irrun.read_model(xml).inputs[0].partial_shape == [-1, 3]
    assert irrun.run(xml, x)[0].shape == (5, 3)
    compiled = irrun.compile_model(model, check=True)
    request = compiled.create_infer_request()
    request.infer(x)
    assert request.mismatches == []


def test_reshaped_model_is_read_by_openvino(model, tmp_path):
    ov = pytest.importorskip("openvino")
    model.reshape({"x": [4, "1..3"]})
    xml, _ = irrun.save_model(model, tmp_path / "new.xml")
    theirs = ov.Core().read_model(xml)
    assert str(theirs.inputs[0].partial_shape) == str(theirs.outputs[0].partial_shape) == "[4,1..3]"


def test_reshape_discards_shapes_in_bodies(tmp_path):
    inner = graph(
        [
            layer(0, "Parameter", data='shape="1,3" element_type="f32"', outputs=[port(0, (1, 3), "FP32")]),
            layer(1, "Relu", inputs=[port(0, (1, 3))], outputs=[port(1, (1, 3), "FP32")]),
            layer(2, "Result", inputs=[port(0, (1, 3))]),
        ],
        [(0, 0, 1, 0), (1, 1, 2, 0)],
    )
    ports = (
        '<input axis="0" external_port_id="0" internal_layer_id="0" part_size="1" stride="1" start="0" end="-1"/>',
        '<output axis="0" external_port_id="1" internal_layer_id="2" part_size="1" stride="1" start="0" end="-1"/>',
    )
    iterator = f"<port_map>{''.join(ports)}</port_map><body>{inner}</body>"
    layers = [
        layer(0, "Parameter", data='shape="2,3" element_type="f32"', outputs=[port(0, (2, 3), "FP32", "x")]),
        layer(1, "TensorIterator", inputs=[port(0, (2, 3))], outputs=[port(1, (2, 3), "FP32")], inner=iterator),
        layer(2, "Result", inputs=[port(0, (2, 3))]),
    ]
    model = irrun.read_model(write(tmp_path, net(layers, [(0, 0, 1, 0), (1, 1, 2, 0)])))
    model.reshape({"x": [5, 2]})
    x = np.arange(-5, 5, dtype=np.float32).reshape(5, 2)
    request = irrun.compile_model(model, check=True).create_infer_request()
    np.testing.assert_array_equal(request.infer(x)[0], np.maximum(x, 0))
    assert request.mismatches == []


def test_reshape_of_unknown_input_is_reported(tmp_path, model):
    with pytest.raises(irrun.ModelError, match="unknown input 'y'; the model has x"):
        model.reshape({"y": [1]})
    layers = [
        layer(i, "Parameter", data='shape="2" element_type="f32"', outputs=[port(0, (2,))], name=name)
        for i, name in enumerate("ab")
    ]
    layers += [layer(2, "Add", inputs=[port(0), port(1)], outputs=[port(2)]), layer(3, "Result", inputs=[port(0)])]
    pair = irrun.read_model(write(tmp_path, net(layers, [(0, 0, 2, 0), (1, 0, 2, 1), (2, 2, 3, 0)])))
    with pytest.raises(irrun.ModelError, match="expected shapes by the names of inputs; the model has a: "):
        pair.reshape([3])


def test_representations_are_short(model):
    compiled = irrun.compile_model(model, threads=2)
    shown = "<Model: 'net', 4 layers, (x: f32[2,3]) -> (layer2: f32[2,3])>"
    assert repr(model) == shown
    signature = "'net', (x: f32[2,3]) -> (layer2: f32[2,3])"
    assert repr(compiled) == f"<CompiledModel: {signature}, 2 threads, precision f32, jit off>"
    plain = irrun.compile_model(model, threads=1, precision="f64", optimize=False)
    assert repr(plain) == f"<CompiledModel: {signature}, 1 thread, precision f64, plain kernels>"
    assert repr(compiled.inputs) == "[<Tensor: x: f32[2,3]>]"
    assert repr(model.inputs[0].element_type) == "<ElementType: f32>"
    assert repr(model.graph) == "<Graph: 'net', 4 layers, 3 edges>"
    assert repr(compiled(X)) == "<Outputs: layer2: f32[2,3]>"


def test_tensor_name_takes_precedence_over_layer_name(tmp_path):
    declared = 'shape="2,3" element_type="f32"'
    layers = [
        layer(0, "Parameter", data=declared, outputs=[port(0, (2, 3), "FP32", "a")], name="b"),
        layer(1, "Parameter", data=declared, outputs=[port(0, (2, 3), "FP32", "b")], name="a"),
        layer(2, "Subtract", inputs=[port(0), port(1)], outputs=[port(2, (2, 3), "FP32", "d")], name="c"),
        layer(3, "Negative", inputs=[port(0)], outputs=[port(1, (2, 3), "FP32", "c")], name="d"),
        layer(4, "Result", inputs=[port(0)]),
        layer(5, "Result", inputs=[port(0)]),
    ]
    edges = [(0, 0, 2, 0), (1, 0, 2, 1), (2, 2, 3, 0), (2, 2, 4, 0), (3, 1, 5, 0)]
    model = irrun.read_model(write(tmp_path, net(layers, edges)))
    zero = np.zeros_like(X)
    for inputs in ({"a": X, "b": zero}, irrun.load_inputs([f"b={zero.tolist()}", f"a={X.tolist()}"], model.inputs)):
        out = irrun.run(model, inputs)
        np.testing.assert_array_equal(out["d"], X)
        np.testing.assert_array_equal(out["c"], -X)
    assert (model.input("b").layer.name, model.output("d").layer.id) == ("a", 4)
    np.testing.assert_array_equal(irrun.run(irrun.extract(model, (), "c"), {"a": X, "b": zero})[0], -X)


def test_outputs_of_the_same_value_do_not_share_memory(tmp_path):
    layers = [
        layer(0, "Parameter", data='shape="2,3" element_type="f32"', outputs=[port(0, (2, 3), "FP32")]),
        layer(1, "Exp", inputs=[port(0)], outputs=[port(1, (2, 3), "FP32")]),
        *[layer(i, "Result", inputs=[port(0)]) for i in (2, 3)],
    ]
    out = irrun.run(write(tmp_path, net(layers, [(0, 0, 1, 0), (1, 1, 2, 0), (1, 1, 3, 0)])), X)
    before = out[1].copy()
    out[0][:] = 7
    np.testing.assert_array_equal(out[1], before)
