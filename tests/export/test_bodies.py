"""Loops and conditions in onnxruntime: slices of inputs, states, collected outputs and limits."""

from __future__ import annotations

import re

import numpy as np
import pytest
from ir_text import graph, layer, net, port, write

pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")
pytest.importorskip("openvino")

import onnx
import openvino as ov
from openvino import opset13 as ops

import irrun
from export.test_layers import run_exported
from irrun.runtime.shape_inference import GraphInference

X = np.arange(1, 25, dtype=np.float32).reshape(2, 6, 2)


def check(model, folder, *values):
    """Check that onnxruntime computes what irrun does, and return the nodes of the exported model."""
    ov.save_model(model, folder / "model.xml", compress_to_fp16=False)
    model = irrun.read_model(folder / "model.xml")
    results = irrun.compile_model(model)(list(values))
    irrun.export_onnx(model, folder / "model.onnx")
    exported = onnx.load(str(folder / "model.onnx"))
    onnx.checker.check_model(exported)
    for i, found in enumerate(run_exported(folder / "model.onnx", values)):
        expected = np.asarray(results[i])
        assert (found.dtype, found.shape) == (expected.dtype, expected.shape)
        np.testing.assert_allclose(found, expected, rtol=1e-6)
    return exported.graph.node


def make_iterator(slices, stacks, *, shape=None, part=(2, 1, 2)):
    """Return a model of a TensorIterator that sums slices: the last sum, and the sums of all iterations.

    Args:
        slices: Start, stride, size of parts, end and axis of the slices.
        stacks: The same of the concatenated output; None without it.
        shape: The shape of the input, by default that of X.
        part: The shape of a slice.
    """
    x = ops.parameter(shape or X.shape, np.float32, name="x")
    start = ops.constant(np.zeros(part, np.float32))
    piece, total = (ops.parameter(part, np.float32) for _ in range(2))
    new = ops.add(piece, total)
    body = ov.Model([new, ops.multiply(new, np.float32(2))], [piece, total], "body")
    iterator = ops.tensor_iterator()
    iterator.set_body(body)
    iterator.set_sliced_input(piece, x.output(0), *slices)
    iterator.set_merged_input(total, start.output(0), body.results[0].output(0))
    outputs = [iterator.get_iter_value(body.results[0].output(0), -1)]
    if stacks is not None:
        outputs.append(iterator.get_concatenated_slices(body.results[1].output(0), *stacks))
    return ov.Model(outputs, [x], "m")


@pytest.mark.parametrize(
    ("slices", "stacks", "part"),
    [
        ((0, 1, 1, -1, 1), (0, 1, 1, -1, 1), (2, 1, 2)),
        ((0, 2, 2, -1, 1), (0, 2, 2, -1, 1), (2, 2, 2)),
        ((-1, -1, 1, 0, 1), (-1, -1, 1, 0, 1), (2, 1, 2)),
        ((-1, -2, 2, 0, 1), (-1, -2, 2, 0, 1), (2, 2, 2)),
        ((0, 1, 1, -1, 1), (-1, -1, 1, 0, 1), (2, 1, 2)),
        ((1, 1, 1, 4, 1), (0, 1, 1, -1, 1), (2, 1, 2)),
        ((0, 1, 1, -1, 0), (0, 1, 1, -1, 0), (1, 6, 2)),
        ((0, 1, 1, -1, 2), (0, 1, 1, -1, 2), (2, 6, 1)),
        ((0, 1, 1, -1, -1), (0, 1, 1, -1, -1), (2, 6, 1)),
        ((0, 2, 2, -1, 1), None, (2, 2, 2)),
    ],
)
def test_slices_of_iterators(slices, stacks, part, tmp_path):
    nodes = check(make_iterator(slices, stacks, part=part), tmp_path, X)
    (loop,) = (node for node in nodes if node.op_type == "Loop")
    state = loop.attribute[0].g.input[2].type.tensor_type
    assert [d.dim_value for d in state.shape.dim] == list(part)


@pytest.mark.parametrize("axis", [0, -1, -2])
def test_ranks_of_slices(axis, tmp_path):
    """The body counts axes from the end."""
    part = [1 if i == axis % 3 else n for i, n in enumerate(X.shape)]
    x, piece = ops.parameter(X.shape, np.float32, name="x"), ops.parameter(part, np.float32)
    body = ov.Model([ops.reduce_sum(piece, np.int64([-1]), True)], [piece], "body")
    iterator = ops.tensor_iterator()
    iterator.set_body(body)
    iterator.set_sliced_input(piece, x.output(0), 0, 1, 1, -1, axis)
    check(
        ov.Model([iterator.get_concatenated_slices(body.results[0].output(0), 0, 1, 1, -1, 0)], [x], "m"), tmp_path, X
    )


@pytest.mark.parametrize("stacks", [None, (0, 1, 1, -1, 1)])
def test_bodies_whose_shapes_are_not_inferred(stacks, tmp_path, monkeypatch):
    """Their shapes follow from those of the slices."""
    model = make_iterator((0, 1, 1, -1, 1), stacks)
    monkeypatch.setattr(GraphInference, "keep_body", lambda *_: None)
    check(model, tmp_path, X)


def test_slices_of_dynamic_lengths(tmp_path):
    check(make_iterator((0, 1, 1, -1, 1), (0, 1, 1, -1, 1), shape=[2, -1, 2]), tmp_path, X[:, :4])
    check(make_iterator((-1, -1, 1, 0, 1), (-1, -1, 1, 0, 1), shape=[2, -1, 2]), tmp_path, X[:, :3])


def make_loop(trips, first, condition, *, has_number=True, shape=(2,), number=None):
    """Return a model of a Loop that adds x and the number of the iteration to a state while `condition` holds.

    Args:
        trips: The maximum number of iterations; None for an input of the model.
        first: Whether the first iteration runs; None for an input of the model.
        condition: Takes the new state, and returns whether the next iteration runs.
        has_number: Whether the body uses the number of the iteration.
        shape: The shape of x.
        number: The shape of the number of the iteration.
    """
    x = ops.parameter(shape, np.float32, name="x")
    count = ops.parameter([], np.int64, name="count") if trips is None else ops.constant(np.array(trips))
    start = ops.parameter([], bool, name="start") if first is None else ops.constant(np.array(first))
    state, added = ops.parameter(shape, np.float32), ops.parameter(shape, np.float32)
    iteration = ops.parameter([] if number is None else number, np.int64)
    new = ops.add(state, added)
    if has_number:
        new = ops.add(new, ops.convert(iteration, "f32"))
    goes_on = condition(new)
    body = ov.Model([goes_on, new], [iteration, state, added] if has_number else [state, added], "body")
    loop = ops.loop(count, start)
    loop.set_function(body)
    loop.set_special_body_ports([0 if has_number else -1, 0])
    loop.set_invariant_input(added, x.output(0))
    loop.set_merged_input(state, x.output(0), body.results[1].output(0))
    outputs = [
        loop.get_iter_value(body.results[1].output(0), -1),
        loop.get_concatenated_slices(body.results[1].output(0), 0, 1, 1, -1, 0),
    ]
    parameters = [x, *([count] if trips is None else []), *([start] if first is None else [])]
    return ov.Model(outputs, parameters, "m")


def forever(state):
    return ops.constant(np.array(True))


def while_small(state):
    return ops.less(ops.reduce_max(state, np.array([0]), False), np.float32(20))


@pytest.mark.parametrize("number", [None, [1]])
@pytest.mark.parametrize("has_number", [True, False])
def test_loops_with_a_number_of_iterations(has_number, number, tmp_path):
    x = np.float32([1, -2])
    check(make_loop(3, True, forever, has_number=has_number, number=number), tmp_path, x)
    check(make_loop(None, True, forever, has_number=has_number, number=number), tmp_path, x, np.array(4))


@pytest.mark.parametrize("trips", [-1, 3, 100])
def test_loops_with_a_condition(trips, tmp_path):
    x = np.float32([1, -2])
    check(make_loop(trips, True, while_small), tmp_path, x)
    nodes = check(make_loop(None, True, while_small), tmp_path, x, np.array(trips))
    assert [len(node.output) for node in nodes if node.op_type == "Loop"] == [2]  # the condition is no output
    check(make_loop(None, None, while_small), tmp_path, x, np.array(trips), np.array(True))


def make_condition(shapes, *, is_input=True):
    """Return a model of an If whose branches return x and y, times 2 or 3."""
    x, y = (ops.parameter(shape, np.float32, name=name) for name, shape in zip("xy", shapes, strict=True))
    c = ops.parameter([], bool, name="c")
    layer = ops.if_op(c)
    bodies = []
    for factor, shape in zip((2, 3), shapes, strict=True):
        own = ops.parameter(shape, np.float32)
        bodies.append(ov.Model([ops.multiply(own, np.float32(factor))], [own], "branch"))
    layer.set_then_body(bodies[0])
    layer.set_else_body(bodies[1])
    layer.set_input(x.output(0), bodies[0].get_parameters()[0], None)
    layer.set_input(y.output(0), None, bodies[1].get_parameters()[0])
    return ov.Model([layer.set_output(bodies[0].results[0], bodies[1].results[0])], [c, x, y], "m")


@pytest.mark.parametrize("shapes", [((2,), (2,)), ((2,), (3,)), ((), (1,)), ((3,), ()), ((), ()), ((2, 2), (4,))])
@pytest.mark.parametrize("chosen", [True, False])
def test_branches_of_other_shapes(shapes, chosen, tmp_path):
    values = [np.full(shape, i + 1, np.float32) for i, shape in enumerate(shapes)]
    model = make_condition(shapes)
    ov.save_model(model, tmp_path / "model.xml", compress_to_fp16=False)
    irrun.export_onnx(tmp_path / "model.xml", tmp_path / "model.onnx")
    (found,) = run_exported(tmp_path / "model.onnx", [np.array(chosen), *values])
    expected = values[0] * 2 if chosen else values[1] * 3
    assert found.ravel().tolist() == expected.ravel().tolist()
    (output,) = onnx.load(str(tmp_path / "model.onnx")).graph.output
    kind = output.type.tensor_type
    assert not kind.HasField("shape") or len(kind.shape.dim) == found.ndim
    assert kind.HasField("shape") == (len(shapes[0]) == len(shapes[1]) or max(map(len, shapes)) < 2)
    assert found.ndim == max(expected.ndim, int(max(map(len, shapes)) > 0))  # a scalar beside a tensor gets an axis


def make_unsupported():
    """Return a body with a layer that ONNX does not have."""
    x = ops.parameter([2, 3], np.float32, name="x")
    piece = ops.parameter([1, 3], np.float32)
    random = ops.random_uniform(np.array([1, 3]), np.float32(0), np.float32(1), "f32")
    body = ov.Model([ops.add(piece, random)], [piece], "body")
    iterator = ops.tensor_iterator()
    iterator.set_body(body)
    iterator.set_sliced_input(piece, x.output(0), 0, 1, 1, -1, 0)
    return ov.Model([iterator.get_concatenated_slices(body.results[0].output(0), 0, 1, 1, -1, 0)], [x], "m")


def test_layers_of_bodies_that_cannot_be_exported_are_listed(tmp_path):
    model = make_unsupported()
    ov.save_model(model, tmp_path / "model.xml", compress_to_fp16=False)
    with pytest.raises(irrun.UnsupportedError) as caught:
        irrun.export_onnx(tmp_path / "model.xml", tmp_path / "model.onnx")
    assert re.search(r"1 layer cannot be exported to ONNX: layer \d+ .*RandomUniform", str(caught.value))
    irrun.export_onnx(tmp_path / "model.xml", tmp_path / "model.onnx", partial=True)
    (loop,) = (node for node in onnx.load(str(tmp_path / "model.onnx")).graph.node if node.op_type == "Loop")
    assert "RandomUniform" in [node.op_type for node in loop.attribute[0].g.node]


@pytest.mark.parametrize("chosen", [True, False])
def test_branches_of_unknown_ranks(chosen, tmp_path):
    x, shape = ops.parameter([4], np.float32, name="x"), ops.parameter([-1], np.int64, name="shape")
    c = ops.parameter([], bool, name="c")
    layer = ops.if_op(c)
    bodies = []
    for factor in (2, 3):
        own, target = ops.parameter([4], np.float32), ops.parameter([-1], np.int64)
        product = ops.multiply(own, ops.constant(np.float32(factor)))
        bodies.append(ov.Model([ops.reshape(product, target, False)], [own, target], "branch"))
    layer.set_then_body(bodies[0])
    layer.set_else_body(bodies[1])
    for value, i in ((x, 0), (shape, 1)):
        layer.set_input(value.output(0), bodies[0].get_parameters()[i], bodies[1].get_parameters()[i])
    result = ops.softmax(layer.set_output(bodies[0].results[0], bodies[1].results[0]), 0)
    ov.save_model(ov.Model([result], [c, x, shape], "m"), tmp_path / "model.xml", compress_to_fp16=False)
    model = irrun.read_model(tmp_path / "model.xml")
    irrun.export_onnx(model, tmp_path / "model.onnx")
    values = [np.array(chosen), np.float32([1, 2, 3, 5]), np.array([2, 2])]
    (found,) = run_exported(tmp_path / "model.onnx", values)
    np.testing.assert_allclose(found, irrun.compile_model(model)(values)[0], rtol=1e-5)


BODY = [
    layer(0, "Parameter", data='shape="2" element_type="f32"', outputs=[port(0, (2,), "FP32")]),
    layer(1, "Sqrt", inputs=[port(0)], outputs=[port(1, (2,), "FP32")]),
    layer(2, "Result", inputs=[port(0)]),
    layer(3, "Negative", inputs=[port(0)], outputs=[port(1, (2,), "FP32")]),
    layer(4, "Result", inputs=[port(0)]),
]
STEPS = [(0, 0, 1, 0), (1, 1, 2, 0), (1, 1, 3, 0), (3, 1, 4, 0)]
STATE = '<input external_port_id="0" internal_layer_id="0"/>'


def write_iterator(folder, entries, back="", *, body=BODY, steps=STEPS, shape="2", kind="TensorIterator"):
    """Write a model of a TensorIterator with a port map as text."""
    inner = f"<port_map>{entries}</port_map><back_edges>{back}</back_edges><body>{graph(body, steps)}</body>"
    count = entries.count("<output")
    outputs = [port(i, (), "FP32") for i in range(1, count + 1)]
    layers = [
        layer(0, "Parameter", data=f'shape="{shape}" element_type="f32"', outputs=[port(0, (), "FP32", "x")]),
        layer(1, kind, inputs=[port(0)], outputs=outputs, inner=inner),
        *(layer(i + 9, "Result", inputs=[port(0)]) for i in range(1, count + 1)),
    ]
    edges = [(0, 0, 1, 0), *((1, i, i + 9, 0) for i in range(1, count + 1))]
    return irrun.read_model(write(folder, net(layers, edges)))


BACK = '<edge from-layer="2" to-layer="0"/>'
STACKED = '<output external_port_id="1" internal_layer_id="2" axis="0" start="0" end="6" stride="2" part_size="2"/>'
LAST = '<output external_port_id="{}" internal_layer_id="{}"/>'


@pytest.mark.parametrize(
    ("entries", "expected"),
    [
        (STACKED + LAST.format(2, 4), [[4, 9, 2, 3, 2**0.5, 3**0.5], [-(2**0.5), -(3**0.5)]]),
        (LAST.format(1, 2) + LAST.format(2, 4), [[4, 9], [-4, -9]]),
    ],
    ids=["collected", "last"],
)
def test_iterations_that_outputs_count(entries, expected, tmp_path):
    """Without slices of inputs, the collected outputs determine the number of iterations, or there is one."""
    model = write_iterator(tmp_path, STATE + entries, BACK)
    irrun.export_onnx(model, tmp_path / "model.onnx")
    found = run_exported(tmp_path / "model.onnx", [np.float32([16, 81])])
    results = irrun.compile_model(model)(np.float32([16, 81]))
    for i, (own, values) in enumerate(zip(found, expected, strict=True)):
        np.testing.assert_allclose(own, values, rtol=1e-6)
        np.testing.assert_allclose(results[i], values, rtol=1e-6)


SLICE = '<{} external_port_id="{}" internal_layer_id="{}" axis="{}" start="0" end="-1" stride="1" part_size="1"/>'
UNKNOWN = [
    layer(0, "Parameter", data='shape="..." element_type="f32"', outputs=[port(0, (), "FP32")]),
    layer(1, "Exp", inputs=[port(0)], outputs=[port(1, (), "FP32")]),
    layer(2, "Result", inputs=[port(0)]),
]


@pytest.mark.parametrize(
    ("axes", "message"),
    [
        ((0, 0), None),
        ((1, 0), None),
        ((0, -1), "the rank of a concatenated output is dynamic"),
        ((0, 1), "the rank of a concatenated output is dynamic"),
        ((-1, 0), "the rank of a sliced input is dynamic"),
    ],
)
def test_axes_of_iterators_of_unknown_ranks(axes, message, tmp_path):
    entries = SLICE.format("input", 0, 0, axes[0]) + SLICE.format("output", 1, 2, axes[1])
    model = write_iterator(tmp_path, entries, body=UNKNOWN, steps=[(0, 0, 1, 0), (1, 1, 2, 0)], shape="...")
    if message is not None:
        with pytest.raises(irrun.UnsupportedError, match=message):
            irrun.export_onnx(model, tmp_path / "model.onnx")
        return
    irrun.export_onnx(model, tmp_path / "model.onnx")
    x = X[0, :3]
    (found,) = run_exported(tmp_path / "model.onnx", [x])
    np.testing.assert_allclose(found, irrun.compile_model(model)(x)[0], rtol=1e-6)


@pytest.mark.parametrize(
    ("inner", "message"),
    [
        (layer(1, "ReadValue", "opset6", 'variable_id="v" variable_type="f32" variable_shape="2"', [port(0)],
               [port(1, (2,), "FP32")]), r"layer 1 .*\(TensorIterator, opset1\): the body reads a variable"),
        (layer(1, "Mine", "extension", "", [port(0)], [port(1, (2,), "U2")]),
         r"3 layers .*: the operation is unknown; .* an input comes from a layer that cannot be exported; "
         r".*\(TensorIterator, opset1\): a layer of the body cannot be exported"),
    ],
    ids=["variable", "unknown"],
)  # fmt: skip
def test_bodies_that_cannot_be_exported(inner, message, tmp_path):
    model = write_iterator(tmp_path, STATE + LAST.format(1, 2), BACK, body=[BODY[0], inner, *BODY[2:]])
    with pytest.raises(irrun.UnsupportedError, match=message):
        irrun.export_onnx(model, tmp_path / "model.onnx")
