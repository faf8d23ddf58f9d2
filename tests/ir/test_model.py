"""A model in the hands of its user: more outputs, other shapes, how it looks."""

from __future__ import annotations

import numpy as np
import pytest
from ir_text import chain, graph, layer, net, port, write

import irrun

X = np.arange(6, dtype=np.float32).reshape(2, 3) - 3


@pytest.fixture
def model(tmp_path):
    """Exp(Relu(x)), f32[2,3]."""
    return irrun.read_model(write(tmp_path, chain("Relu", "Exp")))


def test_values_inside_become_outputs(model):
    before = irrun.run(model, X)[0]
    (added,) = model.add_outputs("layer1")
    assert added.any_name == "layer1"
    assert added.partial_shape == [2, 3]
    out = irrun.run(model, X)
    assert list(out) == ["layer2", "layer1"]
    np.testing.assert_array_equal(out[added], np.maximum(X, 0))
    np.testing.assert_array_equal(out[0], before)


def test_what_is_an_output_already_stays_the_one_it_is(model):
    assert [t.any_name for t in model.add_outputs(["x", "layer2", "x", "layer1.0"])] == ["x", "layer2", "x", "layer1"]
    assert len(model.outputs) == 3
    np.testing.assert_array_equal(irrun.run(model, X)["x"], X)


def test_a_value_that_is_not_there_changes_nothing(model):
    with pytest.raises(irrun.ModelError, match="no value 'layer3'; is it layer2, layer1"):
        model.add_outputs(["layer1", "layer3"])
    assert len(model.outputs) == 1


def test_a_model_with_more_outputs_can_be_written(model, tmp_path):
    model.add_outputs("layer1")
    xml, _ = irrun.save_model(model, tmp_path / "more.xml")
    assert irrun.validate(xml) == []
    np.testing.assert_array_equal(irrun.run(xml, X)["layer1"], np.maximum(X, 0))


def test_reshaped_inputs_take_other_shapes(model, tmp_path):
    x = np.ones((5, 3), np.float32)
    with pytest.raises(irrun.InputError, match="is fed shape"):
        irrun.run(model, x)
    model.reshape([-1, 3])
    assert model.inputs[0].partial_shape == [-1, 3]
    assert model.outputs[0].partial_shape is None
    assert irrun.run(model, x)[0].shape == (5, 3)
    with pytest.raises(irrun.InputError, match=r"x: f32\[\?,3\] is fed shape \[5, 2\]"):
        irrun.run(model, x[:, :2])
    xml, _ = irrun.save_model(model, tmp_path / "open.xml")
    assert irrun.read_model(xml).inputs[0].partial_shape == [-1, 3]
    assert irrun.run(xml, x)[0].shape == (5, 3)
    compiled = irrun.compile_model(model, check=True)
    request = compiled.create_infer_request()
    request.infer(x)
    assert request.mismatches == []


def test_openvino_reads_what_was_reshaped(model, tmp_path):
    ov = pytest.importorskip("openvino")
    model.reshape({"x": [4, "1..3"]})
    xml, _ = irrun.save_model(model, tmp_path / "new.xml")
    theirs = ov.Core().read_model(xml)
    assert str(theirs.inputs[0].partial_shape) == str(theirs.outputs[0].partial_shape) == "[4,1..3]"


def test_shapes_of_bodies_are_forgotten_too(tmp_path):
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


def test_a_shape_needs_an_input(tmp_path, model):
    with pytest.raises(irrun.ModelError, match="no input 'y'; the model has x"):
        model.reshape({"y": [1]})
    layers = [
        layer(i, "Parameter", data='shape="2" element_type="f32"', outputs=[port(0, (2,))], name=name)
        for i, name in enumerate("ab")
    ]
    layers += [layer(2, "Add", inputs=[port(0), port(1)], outputs=[port(2)]), layer(3, "Result", inputs=[port(0)])]
    pair = irrun.read_model(write(tmp_path, net(layers, [(0, 0, 2, 0), (1, 0, 2, 1), (2, 2, 3, 0)])))
    with pytest.raises(irrun.ModelError, match="needs the name of an input; the model has a: "):
        pair.reshape([3])


def test_models_and_their_parts_look_short(model):
    compiled = irrun.compile_model(model)
    shown = "<Model: 'net', 4 layers, (x: f32[2,3]) -> (layer2: f32[2,3])>"
    assert repr(model) == shown
    assert repr(compiled) == f"<CompiledModel: {shown}>"
    assert repr(compiled.inputs) == "[<Tensor: x: f32[2,3]>]"
    assert repr(model.inputs[0].element_type) == "<ElementType: f32>"
    assert repr(model.graph) == "<Graph: 'net', 4 layers, 3 edges>"
    assert repr(compiled(X)) == "<Outputs: layer2: f32[2,3]>"


def test_a_tensor_name_comes_before_the_name_of_another_layer(tmp_path):
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
    for fed in ({"a": X, "b": zero}, irrun.load_inputs([f"b={zero.tolist()}", f"a={X.tolist()}"], model.inputs)):
        out = irrun.run(model, fed)
        np.testing.assert_array_equal(out["d"], X)
        np.testing.assert_array_equal(out["c"], -X)
    assert (model.input("b").layer.name, model.output("d").layer.id) == ("a", 4)
    np.testing.assert_array_equal(irrun.run(irrun.extract(model, (), "c"), {"a": X, "b": zero})[0], -X)


def test_outputs_that_are_one_value_are_arrays_of_their_own(tmp_path):
    layers = [
        layer(0, "Parameter", data='shape="2,3" element_type="f32"', outputs=[port(0, (2, 3), "FP32")]),
        layer(1, "Exp", inputs=[port(0)], outputs=[port(1, (2, 3), "FP32")]),
        *[layer(i, "Result", inputs=[port(0)]) for i in (2, 3)],
    ]
    out = irrun.run(write(tmp_path, net(layers, [(0, 0, 1, 0), (1, 1, 2, 0), (1, 1, 3, 0)])), X)
    before = out[1].copy()
    out[0][:] = 7
    np.testing.assert_array_equal(out[1], before)
