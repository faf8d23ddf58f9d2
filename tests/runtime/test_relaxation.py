"""What adaptations of fixed shapes know about the layers of a graph, and the layers that they add."""

from __future__ import annotations

import numpy as np
import pytest
from ir_text import layer, net, port, write
from openvino_modules import import_builder

import irrun
from irrun.ir.editor import GraphEditor
from irrun.runtime.fixed_shapes.relaxation import Relaxation
from irrun.runtime.fixed_shapes.slices import _get_squeezed_axes, crop_image_size
from irrun.runtime.fixed_shapes.states import broadcast_states
from irrun.runtime.shape_inference import GraphInference
from irrun.shapes import PartialShape

ov = import_builder()
o = import_builder("openvino.opset13")

SHAPE = (2, 5)


@pytest.fixture
def relaxation(tmp_path):
    """The graph Parameter x [2,5] -> StridedSlice s [1,5] without masks -> Relu r; and a ShapeOf, a Custom and a c."""
    data = 'shape="{}" element_type="{}" offset="{}" size="{}"'
    integers = [data.format("2", "i64", 16 * i, 16) for i in range(3)]
    layers = [
        layer(0, "Parameter", data='shape="2,5" element_type="f32"', outputs=[port(0, SHAPE, "FP32")], name="x"),
        *(layer(i + 1, "Const", data=text, outputs=[port(0, (2,), "I64")]) for i, text in enumerate(integers)),
        layer(4, "StridedSlice", data='begin_mask="0,1"', inputs=[port(i, (2,)) for i in range(4)],
              outputs=[port(4, (1, 5), "FP32")], name="s"),
        layer(5, "Relu", inputs=[port(0, (1, 5))], outputs=[port(1, (1, 5), "FP32")], name="r"),
        layer(6, "Result", inputs=[port(0, (1, 5))]),
        layer(7, "Custom", "extension", inputs=[port(0, SHAPE)], outputs=[port(1), port(3, (7,), "FP32")], name="u"),
        layer(8, "Const", data=data.format("2", "f32", 0, 8), outputs=[port(0, (2,), "FP32")], name="c"),
        layer(9, "ShapeOf", "opset3", 'output_type="i64"', [port(0, SHAPE)], [port(1, (2,), "I64")], name="shape"),
        layer(10, "Result", inputs=[port(0, (2,))]),
    ]  # fmt: skip
    edges = [(0, 0, 4, 0), *((i, 0, 4, i) for i in (1, 2, 3)), (4, 4, 5, 0), (5, 1, 6, 0), (0, 0, 7, 0), (0, 0, 9, 0)]
    weights = np.array([0, 0, 1, 5, 1, 1], np.int64)
    graph = irrun.read_model(write(tmp_path, net(layers, [*edges, (9, 1, 10, 0)]), weights)).graph
    return Relaxation(GraphEditor(graph), GraphInference(graph, {}))


def find(relaxation, name):
    return next(layer for layer in relaxation.editor.graph.layers if layer.name == name)


def test_attributes_that_a_file_omits_have_their_defaults(relaxation):
    operation, attributes = relaxation.get_operation(find(relaxation, "s"))
    assert operation.type == "StridedSlice"
    assert attributes["begin_mask"] == [0, 1]
    assert all(attributes[f"{name}_mask"] == [] for name in ("new_axis", "shrink_axis", "ellipsis"))
    assert relaxation.get_operation(find(relaxation, "u")) is None


def test_shapes_are_set_then_inferred_then_declared(relaxation):
    s, u = find(relaxation, "s"), find(relaxation, "u")
    assert relaxation.get_shape(None) is None
    assert relaxation.get_shape((s.id, 4)) == PartialShape([1, 5])
    relaxation.inference.values.pop((u.id, 3), None)
    assert relaxation.get_shape((u.id, 3)) == PartialShape([7])
    assert relaxation.get_shape((u.id, 2)) is None
    assert relaxation.get_input_shape(find(relaxation, "r"), 0) == PartialShape([1, 5])
    assert relaxation.get_rank(s) == 2
    relaxation.set_shape(s, PartialShape([9]))
    assert relaxation.get_shape((s.id, 4)) == PartialShape([9])
    assert relaxation.get_input_shape(find(relaxation, "r"), 0) == PartialShape([9])
    assert relaxation.get_rank(s) == 1
    assert relaxation.get_input_shape(s, 9) is None


def test_elements_of_constants_are_integers(relaxation):
    s = find(relaxation, "s")
    assert [relaxation.get_constant(s, i) for i in range(5)] == [None, [0, 0], [1, 5], [1, 1], None]
    u = find(relaxation, "u")
    relaxation.editor.set_input(u, 0, (find(relaxation, "c").id, 0))
    u = find(relaxation, "u")
    assert relaxation.get_constant(u, 0) is None  # of f32
    assert relaxation.get_constant_array(u, 0).dtype == np.float32


def test_only_consumer_has_a_type_and_a_position(relaxation):
    s, x = find(relaxation, "s"), find(relaxation, "x")
    assert relaxation.get_only_consumer(s, "Relu").name == "r"
    assert relaxation.get_only_consumer(s, "Sigmoid") is None
    assert relaxation.get_only_consumer(s, "Relu", 1) is None
    assert relaxation.get_only_consumer(x, "StridedSlice") is None  # one of three
    constant = relaxation.editor.get_producer(s, 1)
    assert relaxation.get_only_consumer(constant, "StridedSlice", 1).name == "s"
    assert relaxation.get_only_consumer(constant, "StridedSlice") is None


def test_layers_are_used_by_consumers_or_as_results(relaxation):
    used = {layer.name or layer.type: relaxation.is_used(layer) for layer in relaxation.editor.graph.layers}
    assert {name for name, is_used in used.items() if not is_used} == {"u", "c"}


def test_dimensions_of_constants_are_constant(relaxation):
    s = find(relaxation, "s")
    address = relaxation.editor.get_source(s, 1)
    dimensions = relaxation.editor.get_layer(relaxation.add_dimensions(address, [0, 0], "d")[0])
    assert dimensions.is_constant
    assert dimensions.constant.to_array().tolist() == [2, 2]


def test_dimensions_of_other_values_are_computed(relaxation):
    x = find(relaxation, "x")
    gather = relaxation.editor.get_layer(relaxation.add_dimensions((x.id, 0), [1, 0], "d")[0])
    assert (gather.type, gather.outputs[0].shape) == ("Gather", PartialShape([2]))
    assert relaxation.get_constant(gather, 1) == [1, 0]
    assert relaxation.get_constant(gather, 2) == [0]
    sizes = relaxation.editor.get_producer(gather, 0)
    assert (sizes.type, sizes.outputs[0].shape) == ("ShapeOf", PartialShape([2]))
    assert relaxation.editor.get_source(sizes, 0) == (x.id, 0)
    u = find(relaxation, "u")
    relaxation.inference.values.pop((u.id, 3), None)
    address = relaxation.add_dimensions((u.id, 3), [0], "e")
    assert relaxation.editor.get_producer(relaxation.editor.get_layer(address[0]), 0).outputs[0].shape == PartialShape(
        [1]
    )


def test_joined_dimensions_are_a_vector(relaxation):
    parts = [relaxation.editor.add_constant([n], "part") for n in (3, 4)]
    joined = relaxation.editor.get_layer(relaxation.add_concatenation(parts, 2, "target")[0])
    assert (joined.type, joined.attributes, joined.outputs[0].shape) == ("Concat", {"axis": "0"}, PartialShape([2]))
    assert [relaxation.editor.get_source(joined, i) for i in range(2)] == parts


def test_slices_replace_a_layer(relaxation):
    s, x = find(relaxation, "s"), find(relaxation, "x")
    address = relaxation.add_strided_slice(s, (x.id, 0), [[0, 1], [1, 3], [1, 1]], {"shrink_axis": [1, 0]})
    new = relaxation.editor.get_layer(address[0])
    assert (new.type, new.name) == ("StridedSlice", "s.1")
    assert [relaxation.get_constant(new, i) for i in (1, 2, 3)] == [[0, 1], [1, 3], [1, 1]]
    zeros = dict.fromkeys(("begin_mask", "end_mask", "new_axis_mask", "ellipsis_mask"), "0,0")
    assert new.attributes == {**zeros, "shrink_axis_mask": "1,0"}
    assert (str(new.outputs[0].element_type), new.outputs[0].shape) == ("f32", PartialShape([1, 5]))


def make_image_sizes(folder, change, shape=(1, 3)):
    """Return the adaptation of a Concat, in place of a Proposal, that reads the sizes of images."""
    x = o.parameter(list(shape), np.float32, "x")
    sizes = change(x)
    others = [o.constant(np.ones(2, np.float32)) for _ in range(2)]
    result = o.concat([*others, sizes], 0)
    ov.serialize(ov.Model([o.result(result)], [x], "m"), folder / "m.xml")
    graph = irrun.read_model(folder / "m.xml").graph
    relaxation = Relaxation(GraphEditor(graph), GraphInference(graph, {}))
    concat = next(layer for layer in graph.layers if layer.type == "Concat")
    crop_image_size(relaxation, concat)
    return relaxation, relaxation.editor.get_layer(concat.id)


def flatten(x, target=(3,)):
    return o.reshape(x, o.constant(np.array(target)), False)


@pytest.mark.parametrize("count", [3, 4])
@pytest.mark.parametrize("is_converted", [False, True])
def test_size_of_the_first_image_is_read(count, is_converted, tmp_path):
    def change(x):
        return flatten(o.convert(x, "f32") if is_converted else x, [count])

    relaxation, concat = make_image_sizes(tmp_path, change, (1, count))
    cropped = relaxation.editor.get_producer(concat, 2)
    assert cropped.type == "StridedSlice"
    assert relaxation.editor.get_producer(cropped, 0).type == "Reshape"
    assert [relaxation.get_constant(cropped, i) for i in (1, 2, 3)] == [[0], [count], [1]]


OTHERS = {
    "no Reshape": (lambda x: o.squeeze(x, o.constant(np.array([0]))), (1, 3)),
    "computed": (lambda x: flatten(o.relu(x)), (1, 3)),
    "converted": (lambda x: flatten(o.convert(o.relu(x), "f32")), (1, 3)),
    "5 numbers": (lambda x: flatten(x, [5]), (1, 5)),
    "2 numbers": (lambda x: flatten(x, [2]), (1, 2)),
    "a vector": (flatten, (3,)),
    "3 axes": (flatten, (1, 1, 3)),
    "variable target": (lambda x: o.reshape(x, o.reduce_prod(o.shape_of(x), np.array([0]), True), False), (1, 3)),
}


@pytest.mark.parametrize(("change", "shape"), OTHERS.values(), ids=OTHERS.keys())
def test_other_sizes_of_images_stay(change, shape, tmp_path):
    relaxation, concat = make_image_sizes(tmp_path, change, shape)
    assert all(layer.type != "StridedSlice" for layer in relaxation.editor.graph.layers)
    assert concat.type == "Concat"


@pytest.mark.parametrize(
    ("batch", "hidden", "types"),
    [
        (1, lambda state: state, ["Broadcast", "Broadcast"]),
        (1, o.exp, ["Exp", "Broadcast"]),
        (2, lambda state: state, ["Constant", "Constant"]),
    ],
    ids=["one", "computed", "two"],
)
def test_constant_states_of_one_batch_get_the_batch_of_the_data(batch, hidden, types, tmp_path):
    def constant(*shape):
        return o.constant(np.ones(shape, np.float32))

    x = o.parameter([batch, 3], np.float32)
    states = hidden(constant(batch, 4)), constant(batch, 4)
    cell = o.lstm_cell(x, *states, constant(16, 3), constant(16, 4), constant(16), 4)
    ov.serialize(ov.Model([o.result(cell.output(0))], [x], "m"), tmp_path / "m.xml")
    graph = irrun.read_model(tmp_path / "m.xml").graph
    relaxation = Relaxation(GraphEditor(graph), GraphInference(graph, {}))
    (layer,) = graph.find_layers("LSTMCell")
    broadcast_states(relaxation, layer)
    layer = relaxation.editor.get_layer(layer.id)
    producers = [relaxation.editor.get_producer(layer, i) for i in (1, 2)]
    assert [producer.type for producer in producers] == types
    for producer in producers:
        if producer.type == "Broadcast":
            assert producer.outputs[0].shape == PartialShape([1, 4])
            target = relaxation.editor.get_producer(producer, 1)
            assert relaxation.get_constant(target, 1) == [4]
            gather = relaxation.editor.get_producer(target, 0)
            assert relaxation.get_constant(gather, 1) == [0]
            sizes = relaxation.editor.get_producer(gather, 0)
            assert relaxation.editor.get_producer(sizes, 0).is_input


@pytest.mark.parametrize(
    ("shape", "axes", "expected"),
    [
        ([1, 3, 1], [0], [0]),
        ([1, 3, 1], [-1, 0], [0, 2]),
        ([1, 3, 1], [2, -1], [2]),
        ([1, 3, 1], [], None),
        ([1, 3, 1], None, None),  # computed
        (None, [0], None),
    ],
    ids=str,
)
def test_squeezed_axes_are_constant_and_of_a_known_rank(shape, axes, expected, tmp_path):
    x = o.parameter(ov.PartialShape.dynamic() if shape is None else shape, np.float32)
    numbers = o.parameter([1], np.int64)
    squeeze = o.squeeze(x, numbers if axes is None else o.constant(np.array(axes, np.int64)))
    ov.serialize(ov.Model([o.result(squeeze)], [x, numbers], "m"), tmp_path / "m.xml")
    graph = irrun.read_model(tmp_path / "m.xml").graph
    relaxation = Relaxation(GraphEditor(graph), GraphInference(graph, {}))
    (layer,) = graph.find_layers("Squeeze")
    assert _get_squeezed_axes(relaxation, layer) == expected
