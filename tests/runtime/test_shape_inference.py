"""Inference of shapes after a model is reshaped: validated against OpenVINO's."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
from ir_text import chain, layer, net, port, write

import irrun

ov = pytest.importorskip("openvino")
ops = ov.opset13

F32 = np.float32


def make_parameter(*shape, dtype=F32):
    return ops.parameter(ov.PartialShape(list(shape)), dtype)


def make_constant(value, dtype=np.int64):
    return ops.constant(np.array(value, dtype))


def make_convolutions():
    x = make_parameter(1, 3, 32, 32)
    y = ops.convolution(x, make_constant(np.ones((8, 3, 3, 3)), F32), [2, 2], [1, 1], [1, 1], [1, 1])
    y = ops.relu(ops.add(y, make_constant(np.ones((1, 8, 1, 1)), F32)))
    y = ops.group_convolution(y, make_constant(np.ones((8, 1, 1, 3, 3)), F32), [1, 1], [1, 1], [1, 1], [1, 1])
    y = ops.max_pool(y, [2, 2], [1, 1], [0, 0], [1, 1], [3, 3], "ceil").output(0)
    y = ops.convolution_backprop_data(y, make_constant(np.ones((8, 4, 2, 2)), F32), [2, 2])
    y = ops.avg_pool(y, [2, 2], [0, 0], [0, 0], [2, 2], True)
    return [x], [y, ops.reduce_mean(y, make_constant([2, 3]), True)]


def make_computed_shapes():
    x = make_parameter(1, 4, 6, 6)
    shape = ops.shape_of(x)
    batch = ops.gather(shape, make_constant([0]), make_constant(0))
    target = ops.concat([batch, make_constant([-1])], 0)
    flat = ops.reshape(x, target, False)
    zeros = ops.broadcast(make_constant(0, F32), shape)
    halves = ops.split(x, make_constant(1), 2)
    sliced = ops.strided_slice(
        x, make_constant([0, 0, 1, 0]), make_constant([0, 0, 5, 0]), make_constant([1] * 4), [1, 1, 0, 1], [1, 1, 0, 1]
    )
    resized = ops.interpolate(x, make_constant([2.0, 2.0], F32), "nearest", "scales", axes=make_constant([2, 3]))
    return [x], [flat, zeros, halves, sliced, resized, ops.transpose(x, make_constant([0, 2, 3, 1]))]


def make_matrix_products():
    x = make_parameter(2, 5, 8)
    y = ops.matmul(x, make_constant(np.ones((16, 8)), F32), False, True)
    z = ops.matmul(x, y, True, False)
    attention = ops.scaled_dot_product_attention(x, x, x, causal=False)
    return [x], [y, z, attention, ops.matmul(x, make_constant(np.ones(8), F32), False, False), ops.softmax(y, -1)]


def make_sequences():
    x, state = make_parameter(2, 5, 3), make_parameter(2, 1, 4)
    lengths = ops.broadcast(
        make_constant(5, np.int32), ops.gather(ops.shape_of(x), make_constant([0]), make_constant(0))
    )
    weights, recurrent, bias = (make_constant(np.ones(s), F32) for s in ((1, 16, 3), (1, 16, 4), (1, 16)))
    y = ops.lstm_sequence(x, state, state, lengths, weights, recurrent, bias, 4, "FORWARD")
    weights, recurrent, bias = (make_constant(np.ones(s), F32) for s in ((1, 12, 3), (1, 12, 4), (1, 12)))
    return [x, state], [y, ops.gru_sequence(x, state, lengths, weights, recurrent, bias, 4, "FORWARD")]


def make_movements():
    x = make_parameter(2, 6, 4)
    indices = ops.topk(x, make_constant(3), 1, "max", "value")
    padded = ops.pad(x, make_constant([0, 1, 2]), make_constant([0, 0, 1]), "constant", make_constant(0, F32))
    return [x], [
        indices,
        padded,
        ops.unsqueeze(x, make_constant(1)),
        ops.tile(x, make_constant([1, 2, 1])),
        ops.concat([x, x], 1),
        ops.one_hot(ops.convert(x, "i32"), make_constant(7), make_constant(1, F32), make_constant(0, F32), -1),
        ops.reduce_sum(x, make_constant([1]), False),
        ops.gather(x, make_constant([[0, 1]]), make_constant(1)),
        ops.cum_sum(x, make_constant(1)),
        ops.variadic_split(x, make_constant(2), make_constant([1, -1])),
    ]


def make_selections():
    boxes, scores = make_parameter(1, 6, 4), make_parameter(1, 2, 6)
    chosen = ops.non_max_suppression(boxes, scores, make_constant(3), make_constant(0.5, F32), make_constant(0.1, F32))
    return [boxes, scores], [ops.non_zero(scores), ops.convert(chosen.output(1), "f32"), ops.relu(boxes)]


def make_elementwise():
    x, y = make_parameter(2, 3, 4), make_parameter(2, 3, 4)
    condition = ops.greater(x, y)
    return [x, y], [
        ops.elu(x, 1.0),
        ops.prelu(x, make_constant([0.1], F32)),
        ops.hard_sigmoid(x, make_constant(0.2, F32), make_constant(0.5, F32)),
        ops.clamp(x, 0.0, 1.0),
        ops.add(x, y, "none"),
        ops.add(x, make_constant([1], F32)),
        ops.multiply(ops.unsqueeze(x, make_constant(1)), y),
        ops.select(condition, x, y, "none"),
        ops.select(condition, make_constant([[1]], F32), y),
        ops.log_softmax(x, 1),
        ops.mvn(x, make_constant([2]), True, 1e-5, "inside_sqrt"),
    ]


def make_cells():
    x, state = make_parameter(2, 3), make_parameter(2, 4)
    weights = [[make_constant(np.ones(s), F32) for s in ((4 * n, 3), (4 * n, 4), (4 * n,))] for n in (4, 3, 1)]
    lstm = ops.lstm_cell(x, state, state, *weights[0], 4)
    return [x, state], [
        lstm,
        ops.gru_cell(x, state, *weights[1], 4),
        ops.rnn_cell(x, state, *weights[2], 4, ["tanh"], [], []),
    ]


def make_deformable_convolution():
    x, offsets = make_parameter(1, 3, 16, 16), make_parameter(1, 18, 8, 8)
    y = ops.deformable_convolution(
        x, offsets, make_constant(np.ones((5, 3, 3, 3)), F32), [2, 2], [1, 1], [1, 1], [1, 1]
    )
    return [x, offsets], [y, ops.relu(y)]


def make_diagonal_matrix():
    x = make_parameter(2, 3)
    shape = ops.shape_of(x)
    rows, columns = (ops.gather(shape, make_constant(i), make_constant(0)) for i in range(2))
    diagonal = ops.convert(ops.reduce_sum(x, make_constant([0, 1])), np.int64)  # is known in a run only
    return [x], [ov.opset9.eye(rows, columns, diagonal, "f32")]


def make_shapes_from_constants():
    x = make_parameter(8, 4, 6)
    indices = ops.convert(ops.abs(x), np.int64)
    zeros = make_constant([0, 0, 0])
    results = [
        ops.batch_to_space(x, make_constant([1, 2, 2]), zeros, make_constant([0, 1, 0])),
        ops.space_to_batch(x, make_constant([1, 2, 3]), zeros, zeros),
        ov.opset8.adaptive_avg_pool(x, make_constant([2])),
        ops.one_hot(indices, make_constant(5), make_constant(1, F32), make_constant(0, F32), axis=-1),
        ops.tile(x, make_constant([2, 1, 3])),
        ops.reduce_max(x, make_constant([1]), False),
        ops.variadic_split(x, make_constant(2), make_constant([1, 5])),
    ]
    return [x], results


def make_targets_from_shapes():
    """Return operations whose output shapes are computed from the shape of a Parameter."""
    x = make_parameter(2, 4, 6)
    zero, one = make_constant(0, F32), make_constant(1, F32)
    shape = ops.shape_of(x)
    sizes = [ops.gather(shape, make_constant([i]), make_constant(0)) for i in range(3)]
    sides = [ops.squeeze(size, make_constant([0])) for size in sizes]
    random = ops.random_uniform(shape, zero, one, "f32", 1, 2)
    low, high = (reduce(x, make_constant([0, 1, 2])) for reduce in (ops.reduce_min, ops.reduce_max))
    image = ops.unsqueeze(x, make_constant(0))
    enlarged = ops.multiply(ops.concat(sizes[1:], 0), make_constant([2, 3]))
    results = [
        random,
        ops.add(random, x),
        ops.random_uniform(ops.concat([sizes[2], make_constant([5]), sizes[0]], 0), low, high, "f32", 1, 2),
        ops.broadcast(zero, ops.maximum(shape, make_constant([3, 3, 3]))),
        ops.broadcast(ops.reduce_sum(x, make_constant([1]), True), shape, broadcast_spec="BIDIRECTIONAL"),
        ops.tile(x, ops.concat([make_constant([1]), sizes[0], make_constant([1])], 0)),
        ops.range(make_constant(0), sides[2], make_constant(1), "i64"),
        ops.reshape(x, ops.concat([ops.multiply(sizes[0], sizes[1]), make_constant([-1])], 0), False),
        ops.interpolate(image, enlarged, "nearest", "sizes", axes=make_constant([2, 3])),
        ov.opset9.eye(sides[1], sides[2], make_constant(0), "f32"),
        ops.topk(x, ops.minimum(sides[2], make_constant(5)), 2, "max", "value"),
    ]
    return [x], results


CASES: dict[str, Any] = {
    "targets from shapes": (make_targets_from_shapes, [[(3, 8, 10)], [(-1, 4, 6)], [(2, 4, -1)], [(2, -1, -1)]]),
    "shapes from constants": (make_shapes_from_constants, [[(4, 8, 6)]]),
    "diagonal matrix": (make_diagonal_matrix, [[(5, 7)]]),
    "elementwise": (make_elementwise, [[(4, 3, 5)] * 2, [(-1, 3, 4)] * 2]),
    "cells": (make_cells, [[(5, 3), (5, 4)], [(-1, 3), (-1, 4)]]),
    "deformable convolution": (make_deformable_convolution, [[(2, 3, 20, 12), (2, 18, 10, 6)]]),
    "convolutions": (make_convolutions, [[(2, 3, 64, 48)], [(-1, 3, 32, 32)], [(1, 3, -1, 40)]]),
    "computed shapes": (make_computed_shapes, [[(3, 4, 8, 6)], [(-1, 4, 6, 6)], [(2, 4, -1, -1)]]),
    "matrix products": (make_matrix_products, [[(3, 7, 8)], [(-1, 5, 8)], [(-1, -1, 8)]]),
    "sequences": (make_sequences, [[(4, 7, 3), (4, 1, 4)], [(2, -1, 3), (2, 1, 4)], [(-1, 9, 3), (-1, 1, 4)]]),
    "movements": (make_movements, [[(3, 8, 5)], [(-1, 6, 4)], [(2, -1, 5)]]),
    "selections": (make_selections, [[(1, 9, 4), (1, 3, 9)], [(1, -1, 4), (1, 2, -1)]]),
}


@pytest.mark.parametrize(
    ("declared", "has_initial", "expected"),
    [([-1, 3], True, (-1, 3)), ([2, 3], True, (5, 3)), ([-1, 3], False, (-1, 3)), ([2, 3], False, (2, 3))],
)
def test_shape_of_a_variable_is_declared_or_that_of_its_initial_value(declared, has_initial, expected, tmp_path):
    x = make_parameter(2, 3)
    info = ov.op.util.VariableInfo()
    info.data_shape, info.data_type, info.variable_id = ov.PartialShape(declared), ov.Type.f32, "v"
    variable = ov.op.util.Variable(info)
    past = ops.read_value(ops.relu(x), variable) if has_initial else ops.read_value(variable)
    results = [ops.result(ops.exp(past)), ops.result(ops.reduce_sum(x, make_constant([0, 1])))]
    model = ov.Model(results, [ops.assign(past, variable)], [x], "m")
    ov.save_model(model, tmp_path / "m.xml", compress_to_fp16=False)
    read = irrun.read_model(tmp_path / "m.xml")
    read.reshape({0: (5, 3)})
    assert read.outputs[0].partial_shape == expected


def drop_bounds(shape):
    """Return the dimensions of OpenVINO's shape, -1 for dynamic ones with and without bounds."""
    return None if shape.rank.is_dynamic else [d.get_length() if d.is_static else -1 for d in shape]


@pytest.mark.parametrize(("name", "shapes"), [(name, s) for name, (_, many) in CASES.items() for s in many], ids=str)
def test_shapes_after_reshape_match_openvino(name, shapes, tmp_path):
    parameters, results = CASES[name][0]()
    outputs = [output for result in results for output in getattr(result, "outputs", lambda r=result: [r])()]
    ov.save_model(ov.Model(outputs, parameters, "m"), tmp_path / "m.xml", compress_to_fp16=False)
    theirs = ov.Core().read_model(tmp_path / "m.xml")
    theirs.reshape(dict(enumerate(ov.PartialShape(list(shape)) for shape in shapes)))
    model = irrun.read_model(tmp_path / "m.xml")
    model.reshape(dict(enumerate(shapes)))
    nodes = {node.get_friendly_name(): node for node in theirs.get_ops()}
    for layer_ in model.graph.layers:
        for i, port_ in enumerate(layer_.outputs):
            expected = drop_bounds(nodes[layer_.name].output(i).get_partial_shape())
            assert is_at_least_as_precise(port_.shape, expected), f"{layer_.name}: {port_.shape}, expected {expected}"
    for tensor, expected in zip(model.outputs, theirs.outputs, strict=True):
        assert is_at_least_as_precise(tensor.partial_shape, drop_bounds(expected.get_partial_shape()))
    request = irrun.compile_model(model, check=True).create_infer_request()
    for size in (6, 13):
        request.infer([np.zeros([size if n == -1 else n for n in shape], F32) for shape in shapes])
        assert request.mismatches == []


def is_at_least_as_precise(shape, expected):
    """Return whether a shape has the rank and the static dimensions of the expected one."""
    return len(shape) == len(expected) and all(n in (-1, d) for d, n in zip(shape, expected, strict=True))


@pytest.mark.parametrize(
    ("make_target", "expected"),
    [
        (lambda size: ops.subtract(size, make_constant([2])), [3]),
        (lambda size: ops.subtract(make_constant([4]), size), r"shape is \[-1\], expected non-negative sizes"),
        (lambda size: ops.broadcast(make_constant(1), ops.multiply(size, make_constant([13]))), "65 dimensions"),
    ],
    ids=["size", "negative size", "too many dimensions"],
)
def test_shapes_that_no_array_has_are_errors(make_target, expected, tmp_path):
    x = make_parameter(4)
    random = ops.random_uniform(make_target(ops.shape_of(x)), make_constant(0, F32), make_constant(1, F32), "f32")
    ov.save_model(ov.Model([ops.relu(random)], [x], "m"), tmp_path / "m.xml", compress_to_fp16=False)
    model = irrun.read_model(tmp_path / "m.xml")
    if isinstance(expected, str):
        with pytest.raises(irrun.InputError, match=expected):
            model.reshape([5])
    else:
        model.reshape([5])
        assert model.outputs[0].partial_shape == expected


@pytest.mark.parametrize(("sizes", "expected"), [((4, 3), [4, 3]), ((-1, 3), [-1, 3])])
def test_iterated_slices_are_counted(tmp_path, sizes, expected):
    inner = (
        '<port_map><input axis="0" external_port_id="0" internal_layer_id="0"/>'
        '<output axis="0" external_port_id="1" internal_layer_id="2"/></port_map><body>'
        + chain("Relu", shape=(1, 3)).partition("<net")[2].partition(">")[2].removesuffix("</net>")
        + "</body>"
    )
    layers = [
        layer(0, "Parameter", data='shape="2,3" element_type="f32"', outputs=[port(0, (2, 3), "FP32")], name="x"),
        layer(1, "TensorIterator", inputs=[port(0, (2, 3))], outputs=[port(1, (2, 3), "FP32")], inner=inner),
        layer(2, "Result", inputs=[port(0, (2, 3))]),
    ]
    model = irrun.read_model(write(tmp_path, net(layers, [(0, 0, 1, 0), (1, 1, 2, 0)])))
    model.reshape({"x": sizes})
    assert model.outputs[0].partial_shape == expected


@pytest.mark.parametrize(("condition", "expected"), [("true", [4, 5]), ("computed", [-1, 5])])
def test_iterations_of_loops_are_counted(tmp_path, condition, expected):
    x, inner = make_parameter(1, 3), make_parameter(1, 3)
    running = make_constant(True, bool)
    result = (
        running
        if condition == "true"
        else ops.less(ops.reduce_sum(inner, make_constant([0, 1])), make_constant(9, F32))
    )
    value = ops.relu(inner)
    loop = ops.loop(make_constant(4), running)
    loop.set_function(ov.Model([value, result], [inner], "body"))
    loop.set_special_body_ports([-1, 1])
    loop.set_merged_input(inner, x.output(0), value.output(0))
    output = loop.get_concatenated_slices(value.output(0), 0, 1, 1, -1, 0)
    ov.save_model(ov.Model([output], [x], "m"), tmp_path / "m.xml", compress_to_fp16=False)
    model = irrun.read_model(tmp_path / "m.xml")
    model.reshape([1, 5])
    assert model.outputs[0].partial_shape == expected


def test_unchanged_values_keep_their_declaration(tmp_path):
    layers = [
        layer(0, "Parameter", data='shape="2" element_type="f32"', outputs=[port(0, (2,), "FP32")], name="a"),
        layer(1, "Parameter", data='shape="2" element_type="f32"', outputs=[port(0, (2,), "FP32")], name="b"),
        layer(2, "NonZero", "opset3", 'output_type="i64"', [port(0, (2,))], [port(1, (1, "0..2"), "I64")]),
        layer(3, "Unsupported", inputs=[port(0, (2,))], outputs=[port(1, (5, 7), "FP32")]),
        layer(4, "Result", inputs=[port(0)], name="indices"),
        layer(5, "Result", inputs=[port(0)], name="other"),
    ]
    edges = [(0, 0, 2, 0), (1, 0, 3, 0), (2, 1, 4, 0), (3, 1, 5, 0)]
    model = irrun.read_model(write(tmp_path, net(layers, edges)))
    model.reshape({"a": [2]})
    assert [str(spec.partial_shape) for spec in model.outputs] == ["[1,..2]", "[5,7]"]
    model.reshape({"a": [3]})
    assert [str(spec.partial_shape) for spec in model.outputs] == ["[1,..3]", "[5,7]"]
    model.reshape({"b": [3]})
    assert model.outputs[1].partial_shape is None
    with pytest.raises(irrun.ModelError, match="dynamic"):
        _ = model.outputs[1].shape


@pytest.mark.parametrize(
    ("declared", "expected"), [("300..", -1), ("300..400", -1), ("2..3", -1), ("7..7", 7), ("..", -1), ("..9", -1)]
)
@pytest.mark.parametrize("position", [0, 1])
def test_dimensions_within_bounds_stay_dynamic(declared, expected, position, tmp_path):
    """The sizes that are sampled are outside of some bounds; a single size would seem to be static."""
    model = irrun.read_model(write(tmp_path, chain("Relu", "Negative", shape=(2, 3))))
    sizes: list[Any] = [2, 3]
    sizes[position] = declared
    model.reshape({"x": sizes})
    expected_sizes = [2, 3]
    expected_sizes[position] = expected
    shape = model.outputs[0].partial_shape
    assert shape is not None
    assert [d if isinstance(d, int) else -1 for d in shape] == expected_sizes


def write_iterator(folder, slicing, inner_shape=(1, 3), types=("Relu",), output='axis="0"', extra="", declared=(6, 3)):
    """Write a TensorIterator over x, f32[6,3], with the attributes of the entries of its port map."""
    body = chain(*types, shape=inner_shape).partition("<net")[2].partition(">")[2].removesuffix("</net>")
    inner = (
        f'<port_map><input external_port_id="0" internal_layer_id="0" {slicing}/>'
        f'<output external_port_id="1" internal_layer_id="{len(types) + 1}" {output}/></port_map>'
        f"<body>{body}</body>{extra}"
    )
    layers = [
        layer(0, "Parameter", data='shape="6,3" element_type="f32"', outputs=[port(0, (6, 3), "FP32")], name="x"),
        layer(1, "TensorIterator", inputs=[port(0, (6, 3))], outputs=[port(1, declared, "FP32")], inner=inner),
        layer(2, "Abs", inputs=[port(0, declared)], outputs=[port(1, declared, "FP32")]),
        layer(3, "Result", inputs=[port(0, declared)]),
    ]
    return write(folder, net(layers, [(0, 0, 1, 0), (1, 1, 2, 0), (2, 1, 3, 0)]))


@pytest.mark.parametrize(
    ("slicing", "inner_shape", "output", "size"),
    [
        ('axis="0"', (1, 3), 'axis="0"', (9, 3)),
        ('axis="0"', (1, 3), 'axis="1"', (9, 3)),
        ('axis="0"', (1, 3), 'axis="-1"', (9, 3)),
        ('axis="1"', (6, 1), 'axis="0"', (6, 7)),
        ('axis="-1"', (6, 1), 'axis="1"', (6, 7)),
        ('axis="0" start="0" end="-1"', (1, 3), 'axis="0"', (9, 3)),
        ('axis="0" start="2" end="-1"', (1, 3), 'axis="0"', (9, 3)),
        ('axis="0" start="1" end="-3"', (1, 3), 'axis="0"', (9, 3)),
        ('axis="0" start="1" end="4"', (1, 3), 'axis="0"', (9, 3)),
        ('axis="0" start="-1" end="0" stride="-1"', (1, 3), 'axis="0"', (9, 3)),
        ('axis="0" start="-2" end="1" stride="-1"', (1, 3), 'axis="0"', (9, 3)),
        ('axis="0" stride="2" part_size="2"', (2, 3), 'axis="0"', (8, 3)),
        ('axis="0" stride="3" part_size="3"', (3, 3), 'axis="1"', (9, 3)),
        ('axis="0" start="-1" end="0" stride="-2" part_size="2"', (2, 3), 'axis="0"', (8, 3)),
        ('axis="0"', (1, 3), "", (9, 3)),
    ],
)
def test_shapes_of_iterated_slices_are_those_of_a_run(slicing, inner_shape, output, size, tmp_path):
    model = irrun.read_model(write_iterator(tmp_path, slicing, inner_shape, output=output))
    model.reshape(size)
    assert model.outputs[0].partial_shape == irrun.compile_model(model)(np.ones(size, F32))[0].shape


def test_shapes_in_bodies_follow_those_of_the_inputs(tmp_path):
    path = write_iterator(tmp_path, 'axis="0"')
    for size in ((6, 3), (6, 5)):
        model = irrun.read_model(path)
        model.reshape(size)
        (iterator,) = model.graph.find_layers("TensorIterator")
        (body,) = iterator.bodies.values()
        shapes = [p.shape for inner in body.graph.layers for p in (*inner.inputs, *inner.outputs)]
        assert shapes == [(1, size[1])] * 4
        assert [p.shape for p in iterator.inputs] == [size]
        irrun.save_model(model, tmp_path / "saved.xml")
        x = np.full(size, -1, F32)
        request = irrun.compile_model(tmp_path / "saved.xml", check=True).create_infer_request()
        np.testing.assert_array_equal(request.infer(x)[0], np.zeros(size))
        assert request.mismatches == []


def test_dimensions_that_back_edges_change_are_dynamic(tmp_path):
    """The state is as long as two slices; after the second iteration, it is as long as four."""
    x = make_parameter(6, 3)
    state, part = make_parameter(-1, 3), make_parameter(1, 3)
    longer = ops.concat([state, part], 0)
    iterator = ops.tensor_iterator()
    iterator.set_body(ov.Model([ops.result(longer)], [state, part], "body"))
    iterator.set_sliced_input(part, x.output(0), 0, 1, 1, -1, 0)
    iterator.set_merged_input(state, ops.relu(x).output(0), longer.output(0))
    output = iterator.get_iter_value(longer.output(0), -1)
    ov.save_model(ov.Model([ops.abs(output)], [x], "m"), tmp_path / "m.xml", compress_to_fp16=False)
    model = irrun.read_model(tmp_path / "m.xml")
    model.reshape((4, 5))
    assert str(model.outputs[0].partial_shape) == "[1..,5]"


@pytest.mark.parametrize(
    ("count", "expected"), [(3, (2, 15)), (0, (2, 0)), (-1, (2, -1)), ("computed", (2, -1)), (None, (2, -1))]
)
def test_trip_counts_of_loops_determine_shapes(count, expected, tmp_path):
    """A loop that concatenates five columns in each iteration; a negative count means no limit."""
    x, inner = make_parameter(2, 3), make_parameter(2, 3)
    if count == "computed":
        trip_count = ops.convert(ops.reduce_max(x, make_constant([0, 1])), np.int64)
    else:
        trip_count = make_constant(-1 if count is None else count)
    value, running = ops.relu(inner), make_constant(True, bool)
    condition = (
        ops.less(ops.reduce_sum(inner, make_constant([0, 1])), make_constant(9, F32)) if count is None else running
    )
    loop = ops.loop(trip_count, running)
    loop.set_function(ov.Model([value, condition], [inner], "body"))
    loop.set_special_body_ports([-1, 1])
    loop.set_merged_input(inner, x.output(0), value.output(0))
    output = loop.get_concatenated_slices(value.output(0), 0, 1, 1, -1, 1)
    last = loop.get_iter_value(value.output(0), -1)
    ov.save_model(ov.Model([output, last], [x], "m"), tmp_path / "m.xml", compress_to_fp16=False)
    model = irrun.read_model(tmp_path / "m.xml")
    model.reshape([2, 5])
    assert model.outputs[0].partial_shape == expected
    assert model.outputs[1].partial_shape == (2, 5)


def test_loops_that_may_run_no_iteration_have_dynamic_shapes(tmp_path):
    x, inner = make_parameter(2, 3), make_parameter(2, 3)
    value = ops.relu(inner)
    starts = ops.less(ops.reduce_sum(x, make_constant([0, 1])), make_constant(9, F32))
    loop = ops.loop(make_constant(3), starts)
    loop.set_function(ov.Model([value, make_constant(True, bool)], [inner], "body"))
    loop.set_special_body_ports([-1, 1])
    loop.set_merged_input(inner, x.output(0), value.output(0))
    output = loop.get_concatenated_slices(value.output(0), 0, 1, 1, -1, 0)
    ov.save_model(ov.Model([ops.abs(output)], [x], "m"), tmp_path / "m.xml", compress_to_fp16=False)
    model = irrun.read_model(tmp_path / "m.xml")
    model.reshape([2, 5])
    assert model.outputs[0].partial_shape == (-1, 5)


@pytest.mark.parametrize(("is_transposed", "expected"), [(False, "[4,5]"), (True, "[4..5,4..5]")])
def test_shapes_of_branches_are_united(is_transposed, expected, tmp_path):
    x, condition = make_parameter(3, 3), ops.parameter(ov.PartialShape([]), bool, name="c")
    a, b = make_parameter(3, 3), make_parameter(3, 3)
    branch = ops.if_op(condition)
    then_result = ops.result(ops.relu(a))
    else_result = ops.result(ops.transpose(b, make_constant([1, 0])) if is_transposed else ops.exp(b))
    branch.set_then_body(ov.Model([then_result], [a], "then"))
    branch.set_else_body(ov.Model([else_result], [b], "else"))
    branch.set_input(x.output(0), a, b)
    output = branch.set_output(then_result, else_result)
    x.set_friendly_name("x")
    ov.save_model(ov.Model([ops.abs(output)], [x, condition], "m"), tmp_path / "m.xml", compress_to_fp16=False)
    model = irrun.read_model(tmp_path / "m.xml")
    model.reshape({"x": (4, 5)})
    assert str(model.outputs[0].partial_shape) == expected


def write_layer(folder, type, data, *shapes, constants=(), element_type="f32"):
    """Write a model of one layer, all of whose inputs are parameters "0", "1", ..., and a Negative after it."""
    layers, edges = [], []
    for i, shape in enumerate(shapes):
        attributes = f'shape="{",".join(map(str, shape))}" element_type="{element_type}"'
        layers.append(layer(i, "Parameter", data=attributes, outputs=[port(0, shape, "FP32")], name=str(i)))
        edges.append((i, 0, 90, i))
    ports = [port(i, shape) for i, shape in enumerate(shapes)]
    layers.append(layer(90, type, "opset1", data, ports, [port(9, (1, 2, 3), "FP32")]))
    layers.append(layer(91, "Negative", inputs=[port(0)], outputs=[port(1, (1, 2, 3), "FP32")]))
    layers.append(layer(92, "Result", inputs=[port(0)]))
    return write(folder, net(layers, [*edges, (90, 9, 91, 0), (91, 1, 92, 0)]))


CHANNELS = "data has 5 channels, the filters [3,2,3,3] expect 2"
CONVOLUTION = 'strides="1,1" dilations="1,1" pads_begin="0,0" pads_end="0,0"'
PDPD = 'auto_broadcast="pdpd" auto_broadcast_axis='


@pytest.mark.parametrize(
    ("type", "data", "declared", "shapes", "expected"),
    [
        ("MatMul", "", [(2, 3), (3, 4)], [(5, 3), (3, 7)], (5, 7)),
        ("MatMul", "", [(2, 3), (3, 4)], [(2, 5), (3, 4)], "expected 5 rows in b, found 3"),
        ("MatMul", "", [(2, 3), (3, 4)], [(3,), (3, 7)], (7,)),
        ("MatMul", 'transpose_a="true"', [(2, 3), (3, 4)], [(3,), (3, 7)], (7,)),
        ("MatMul", 'transpose_b="true"', [(2, 3), (4, 3)], [(5, 3), (3,)], (5,)),
        ("MatMul", "", [(2, 3), (3, 4)], [(3,), (3,)], ()),
        ("MatMul", 'transpose_a="true"', [(3, 2), (3, 4)], [(6, 3, 2), (1, 3, 4)], (6, 2, 4)),
        ("MatMul", "", [(2, 3), (3, 4)], [(4, 2, 3), (5, 3, 4)], "batch dimensions cannot be broadcast"),
        (
            "Add",
            "",
            [(2, 3), (2, 3)],
            [(2, 3), (4, 3)],
            "b has the shape [4,3], which does not fit the shape [2,3] of a",
        ),
        ("Add", "", [(2, 3), (2, 3)], [(5, 1, 3), (4, 3)], (5, 4, 3)),
        ("Add", PDPD + '"1"', [(2, 3), (2, 3)], [(2, 3, 4), (3, 4)], (2, 3, 4)),
        ("Add", PDPD + '"1"', [(2, 3), (2, 3)], [(2, 3, 4), (3, 1)], (2, 3, 4)),
        ("Add", PDPD + '"1"', [(2, 3), (2, 3)], [(2, 3), (3, 1)], (2, 3)),
        ("Add", PDPD + '"-1"', [(2, 3), (2, 3)], [(2, 3, 4), (3, 4)], (2, 3, 4)),
        ("Add", PDPD + '"1"', [(2, 3), (2, 3)], [(2, 3), (3, 4)], "expected consecutive dimensions of the first"),
        ("Add", PDPD + '"1"', [(2, 3), (2, 3)], [(2, 3), (2, 1)], "expected consecutive dimensions of the first"),
        ("Add", PDPD + '"1"', [(2, 3), (2, 3)], [(2, 1), (3,)], "expected consecutive dimensions of the first"),
        ("Add", PDPD + '"-1"', [(2, 3), (2, 3)], [(3,), (1, 3)], "expected consecutive dimensions of the first"),
        ("Add", 'auto_broadcast="none"', [(2, 3), (2, 3)], [(4, 5), (4, 5)], (4, 5)),
        ("Add", 'auto_broadcast="none"', [(2, 3), (2, 3)], [(4, 5), (1, 5)], "expected equal shapes"),
        (
            "Convolution",
            CONVOLUTION,
            [(1, 2, 8, 8), (3, 2, 3, 3)],
            [(1, 2, 8), (3, 2, 3, 3)],
            "expected data of rank 4",
        ),
        ("Convolution", CONVOLUTION, [(1, 2, 8, 8), (3, 2, 3, 3)], [(1, 2, 2, 2), (3, 2, 3, 3)], "does not fit into 2"),
        ("Convolution", CONVOLUTION, [(1, 2, 8, 8), (3, 2, 3, 3)], [(1, 5, 8, 8), (3, 2, 3, 3)], CHANNELS),
        ("Convolution", CONVOLUTION, [(1, 2, 8, 8), (3, 2, 3, 3)], [(4, 2, 9, 7), (5, 2, 3, 1)], (4, 5, 7, 7)),
        (
            "GroupConvolution",
            CONVOLUTION,
            [(1, 4, 8, 8), (2, 3, 2, 3, 3)],
            [(1, 4, 9, 8), (2, 3, 2, 3, 1)],
            (1, 6, 7, 8),
        ),
        ("Concat", 'axis="1"', [(2, 3), (2, 3)], [(2, 3), (2, 5)], (2, 8)),
        (
            "Concat",
            'axis="1"',
            [(2, 3), (2, 3)],
            [(2, 3), (4, 3)],
            "input 1 has the shape [4,3], expected [2,3] except",
        ),
        ("Unsupported", "", [(2, 3)], [(2, 4)], None),
    ],
)
def test_shapes_that_do_not_fit_are_errors(type, data, declared, shapes, expected, tmp_path):
    model = irrun.read_model(write_layer(tmp_path, type, data, *declared))
    new_shapes = {str(i): shape for i, shape in enumerate(shapes)}
    if isinstance(expected, str):
        with pytest.raises(irrun.InputError, match=re.escape(expected)) as caught:
            model.reshape(new_shapes)
        assert re.search(r"model\.xml:\d+: layer 90 'layer90' \(" + type, str(caught.value))
        assert [tensor.partial_shape for tensor in model.inputs] == declared
        assert model.outputs[0].partial_shape == (1, 2, 3)
        return
    model.reshape(new_shapes)
    assert model.outputs[0].partial_shape == expected
    ports = {p.id: p.shape for p in model.graph.layers[-2].inputs}
    assert ports == {0: expected}


def test_inputs_of_dynamic_rank_keep_it(tmp_path):
    text = write_layer(tmp_path, "Add", "", (2, 3), (2, 3)).read_text()
    model = irrun.read_model(write(tmp_path, text.replace('shape="2,3"', 'shape="..."', 1)))
    model.reshape({"1": (4, 3)})
    assert [spec.partial_shape for spec in (*model.inputs, *model.outputs)] == [None, (4, 3), None]


@pytest.mark.parametrize(("columns", "expected"), [(3, "[7]"), ("?", None)])
def test_layers_after_values_that_stay_the_same_keep_their_declaration(columns, expected, tmp_path):
    """The sum over the rows has the same shape for all numbers of rows, unless it is dynamic, so that it may differ."""
    layers = [
        layer(0, "Parameter", data=f'shape="2,{columns}" element_type="f32"', outputs=[port(0, (), "FP32")], name="x"),
        layer(1, "Const", data='element_type="i64" shape="1" offset="0" size="8"', outputs=[port(0, (1,), "I64")]),
        layer(2, "ReduceSum", data='keep_dims="false"', inputs=[port(0), port(1)], outputs=[port(2, (), "FP32")]),
        layer(3, "Foo", "extension", inputs=[port(0)], outputs=[port(1, (7,), "FP32")], name="foo"),
        layer(4, "Result", inputs=[port(0)]),
    ]
    model = irrun.read_model(
        write(tmp_path, net(layers, [(0, 0, 2, 0), (1, 0, 2, 1), (2, 2, 3, 0), (3, 1, 4, 0)]), bytes(8))
    )
    model.reshape([5, -1 if columns == "?" else columns])
    (foo,) = (n for n in model.graph.layers if n.name == "foo")
    assert (None if foo.outputs[0].shape is None else str(foo.outputs[0].shape)) == expected
