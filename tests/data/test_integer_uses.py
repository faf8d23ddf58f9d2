"""How models use integer inputs, and the values that are drawn for inputs."""

from __future__ import annotations

import numpy as np
import pytest
from ir_text import layer, net, port, write

import irrun
from irrun.data.generated import SAMPLE_RATE, _choose_case, _draw, parse_generated
from irrun.data.uses import IntegerUse, find_integer_uses
from irrun.element_types import ElementType
from irrun.ir.graph import Layer
from irrun.ir.model import TensorSpec
from irrun.shapes import PartialShape

I64 = np.int64


class Builder:
    """A model of one input of i64, and what its layers are connected with."""

    def __init__(self, folder, shape=(4,)):
        self.folder = folder
        self.layers = [layer(0, "Parameter", data=f'shape="{",".join(map(str, shape))}" element_type="i64"',
                             outputs=[port(3, shape, "I64")], name="ids")]  # fmt: skip
        self.x = (0, 3)
        self.edges: list[tuple[int, ...]] = []
        self.weights = b""

    def constant(self, value, dtype=I64):
        value = np.asarray(value, dtype)
        kind = str(ElementType.of(value.dtype))
        place = f'offset="{len(self.weights)}" size="{value.nbytes}"'
        data = f'element_type="{kind}" shape="{",".join(map(str, value.shape))}" {place}'
        self.weights += value.tobytes()
        self.layers.append(layer(len(self.layers), "Const", data=data, outputs=[port(7, value.shape)]))
        return len(self.layers) - 1, 7

    def add(self, type, *sources, opset="opset1", data="", shape=(4,), inner=""):
        number = len(self.layers)
        outputs = [port(9, shape, "I64")]
        inputs = [port(i) for i in range(len(sources))]
        self.layers.append(layer(number, type, opset, data, inputs, outputs, inner=inner))
        self.edges += [(*source, number, i) for i, source in enumerate(sources)]
        return number, 9

    def find(self, result, inferred=None):
        """Return the use of the input."""
        number = len(self.layers)
        layers = [*self.layers, layer(number, "Result", inputs=[port(0)])]
        text = net(layers, [*self.edges, (*result, number, 0)])
        model = irrun.read_model(write(self.folder, text, self.weights), check=False)
        (use,) = find_integer_uses(model, inferred or {})
        return use


@pytest.fixture
def model(tmp_path):
    return Builder(tmp_path)


def gather(model, ids, axis=0, table=(5, 6)):
    return model.add("Gather", model.constant(np.zeros(table)), ids, model.constant(axis), opset="opset8")


def test_indices_are_less_than_the_size_of_the_axis(model):
    assert model.find(gather(model, model.x)) == IntegerUse(5)


@pytest.mark.parametrize(("axis", "limit"), [(1, 6), (-1, 6), (-2, 5), (2, 1), (-3, 1)])
def test_indices_of_other_axes(axis, limit, model):
    """The index 0 exists on all axes, also if the axis does not exist."""
    assert model.find(gather(model, model.x, axis)) == IntegerUse(limit)


def test_indices_of_bags_are_rows(model):
    table = model.constant(np.zeros((5, 6)))
    packed = model.add("EmbeddingBagPackedSum", table, model.x, opset="opset3")
    assert model.find(packed) == IntegerUse(5)


def test_axes_that_are_computed_are_unknown(model):
    axis = model.add("Abs", model.constant(0))
    assert model.find(model.add("Gather", model.constant(np.zeros(5)), model.x, axis, opset="opset8")) == IntegerUse(1)


def test_axes_in_attributes_and_converted_constants(model):
    elements = model.add("GatherElements", model.constant(np.zeros((5, 6))), model.x, opset="opset6", data='axis="1"')
    assert model.find(elements) == IntegerUse(6)
    axis = model.add("Convert", model.add("Squeeze", model.constant([1], np.int32)), data='destination_type="i64"')
    table = model.constant(np.zeros((7, 3)))
    result = model.add("Gather", table, model.x, axis, opset="opset8")
    assert model.find(model.add("Concat", elements, result, data='axis="0"')) == IntegerUse(3)


def test_smallest_table_limits_the_indices(model):
    results = [gather(model, model.x, table=(size,)) for size in (9, 4, 7)]
    assert model.find(model.add("Concat", *results, data='axis="0"')) == IntegerUse(4)


@pytest.mark.parametrize(
    ("type", "number", "is_first", "limit"),
    [("Add", 2, True, 3), ("Add", 2, False, 3), ("Subtract", 2, True, 7), ("Subtract", 2, False, None)],
)
def test_offsets_of_indices_are_subtracted(type, number, is_first, limit, model):
    sources = (model.x, model.constant(number)) if is_first else (model.constant(number), model.x)
    shifted = model.add(type, *sources, data='auto_broadcast="numpy"')
    assert model.find(gather(model, shifted)) == IntegerUse(limit)


def test_offsets_add_up(model):
    once = model.add("Add", model.x, model.constant(1))
    assert model.find(gather(model, model.add("Add", once, model.constant([1])))) == IntegerUse(3)


def test_several_offsets_are_not_followed(model):
    assert model.find(gather(model, model.add("Add", model.x, model.constant([1, 2, 3, 4])))) == IntegerUse()


@pytest.mark.parametrize("type", ["Reshape", "Unsqueeze", "Convert"])
def test_moved_and_converted_elements_are_followed(type, model):
    more = () if type == "Convert" else (model.constant([4] if type == "Reshape" else [0]),)
    data = 'destination_type="i32"' if type == "Convert" else ""
    assert model.find(gather(model, model.add(type, model.x, *more, data=data))) == IntegerUse(5)


def test_elements_that_are_selected_are_followed(model):
    condition = model.constant([True] * 4, bool)
    chosen = model.add("Select", condition, model.constant([0] * 4), model.x)
    assert model.find(gather(model, chosen)) == IntegerUse(5)
    assert model.find(gather(model, model.add("Concat", model.constant([0]), model.x, data='axis="0"'))) == IntegerUse(
        5
    )


def test_positions_are_not_values(model):
    """The input is the shape of a Reshape, or the condition of a Select."""
    shaped = model.add("Reshape", model.constant(np.zeros(4)), model.x)
    chosen = model.add("Select", model.x, shaped, shaped)
    assert model.find(gather(model, chosen)) == IntegerUse()


def test_depths_limit_indices_before_an_offset_is_added(model):
    values = model.constant(1), model.constant(0)
    shifted = model.add("Add", model.x, model.constant(2))
    assert model.find(model.add("OneHot", shifted, model.constant(6), *values, data='axis="-1"')) == IntegerUse(4)


def test_depths_of_one_hot_limit_the_indices(model):
    values = model.constant(1), model.constant(0)
    computed = model.add("OneHot", model.x, model.add("Abs", model.constant(6)), *values, data='axis="-1"')
    assert model.find(computed) == IntegerUse()
    hot = model.add("OneHot", model.x, model.constant(6), *values, data='axis="-1"')
    assert model.find(hot) == IntegerUse(6)


@pytest.mark.parametrize(("axis", "limit"), [("", 8), ('seq_axis="0"', 4), ('seq_axis="2"', 10), ('seq_axis="3"', 2)])
def test_lengths_of_sequences_are_at_least_one(axis, limit, model):
    data = model.constant(np.zeros((3, 7, 9)))
    result = model.add("ReverseSequence", data, model.x, data=f'batch_axis="0" {axis}')
    assert model.find(result) == IntegerUse(limit, 1)


def test_sizes_are_inferred_or_declared(model):
    table = model.add("Abs", model.constant(np.zeros((2, 2))), shape=(8, "?"))
    result = model.add("Gather", table, model.x, model.constant(0), opset="opset8")
    assert model.find(result) == IntegerUse(8)
    assert model.find(result, {table: (11, 3)}) == IntegerUse(11)
    result = model.add("Gather", table, model.x, model.constant(1), opset="opset8")
    assert model.find(result) == IntegerUse(1)  # dynamic


@pytest.mark.parametrize("number", [1, 0])
def test_constants_that_values_are_compared_with_are_cases(number, model):
    def compare(value, constant):
        sources = (value, constant) if number else (constant, value)
        return model.add("Equal", *sources, data='auto_broadcast="numpy"')

    first = compare(model.x, model.constant([8000, 16000]))
    second = compare(model.add("Subtract", model.x, model.constant(3)), model.constant([1, 15997]))
    third = compare(model.x, model.constant(2.0, np.float32))
    fourth = compare(model.x, model.constant(2.5, np.float32))
    many, too_many = (compare(model.x, model.constant([count] * count)) for count in (64, 65))
    use = model.find(model.add("Concat", first, second, third, fourth, many, too_many, data='axis="0"'))
    assert (use.limit, use.minimum) == (None, 0)
    assert sorted(use.cases) == [2, 4, 64, 8000, 16000]


def test_uses_in_bodies_are_found(model):
    body_layers = [
        layer(0, "Parameter", data='shape="1" element_type="i64"', outputs=[port(0, (1,), "I64")]),
        layer(
            1, "Const", data='element_type="f32" shape="6,1" offset="0" size="24"', outputs=[port(0, (6, 1), "FP32")]
        ),
        layer(2, "Const", data='element_type="i64" shape="" offset="0" size="8"', outputs=[port(0, (), "I64")]),
        layer(3, "Gather", "opset8", inputs=[port(0), port(1), port(2)], outputs=[port(3, (1, 1), "FP32")]),
        layer(4, "Result", inputs=[port(0, (1, 1))]),
    ]
    body = net(body_layers, [(1, 0, 3, 0), (0, 0, 3, 1), (2, 0, 3, 2), (3, 3, 4, 0)])
    inner = (
        '<port_map><input axis="0" external_port_id="0" internal_layer_id="0"/>'
        '<output axis="0" external_port_id="9" internal_layer_id="4"/></port_map>'
        f"<body>{body.partition('<net')[2].partition('>')[2].removesuffix('</net>')}</body>"
    )
    model.constant(np.zeros(6))
    assert model.find(model.add("TensorIterator", model.x, inner=inner)) == IntegerUse(6)


def test_unsupported_operations_use_nothing(model):
    assert model.find(gather(model, model.add("Foo", model.x))) == IntegerUse()


# Drawn values


def make_spec(name="ids", kind="i64", shape=(4,)):
    return TensorSpec((name,), ElementType.parse(kind), PartialShape(shape), Layer(0, name, "Parameter"))


def draw(spec, use=None, seed=0):
    shape = tuple(spec.partial_shape)
    return _draw(np.random.default_rng(seed), shape, spec, spec.element_type, use or IntegerUse())


def collect(spec, use=None):
    return {int(n) for seed in range(200) for n in draw(spec, use, seed).reshape(-1)}


@pytest.mark.parametrize(
    ("kind", "use", "expected"),
    [
        ("i64", IntegerUse(3), {0, 1, 2}),
        ("i64", IntegerUse(4, 2), {2, 3}),
        ("i64", IntegerUse(1, 1), {0}),
        ("i64", IntegerUse(2, 5), {1}),
        ("i8", IntegerUse(1000), set(range(128))),
        ("u8", IntegerUse(), set(range(256))),
        ("u4", IntegerUse(), {0, 1}),
        ("boolean", IntegerUse(), {0, 1}),
        ("f64", IntegerUse(2), None),
    ],
)
def test_drawn_values_suit_their_use(kind, use, expected):
    spec = make_spec(kind=kind, shape=(40,))
    if expected is None:
        assert draw(spec, use).dtype == np.float32
        assert draw(spec, use).std() > 0.5
    else:
        assert collect(spec, use) == expected


@pytest.mark.parametrize(
    ("shape", "is_mask"), [((2, 3), True), ((2, 2, 3), True), ((3,), False), ((1, 2, 2, 3), False)]
)
@pytest.mark.parametrize("kind", ["i64", "f32", "boolean"])
def test_first_element_of_masks_is_one(shape, is_mask, kind):
    spec = make_spec("attention_mask", kind, shape)
    values = [np.asarray(draw(spec, seed=seed)) for seed in range(30)]
    if is_mask:
        assert all((value[..., 0] == 1).all() for value in values)
        assert {float(n) for value in values for n in value[..., 1:].reshape(-1)} == {0, 1}
    else:
        assert not all((value[..., 0] == 1).all() for value in values)


def test_single_values_are_cases_or_sample_rates():
    cases = IntegerUse(cases=[7, 9])
    assert collect(make_spec(shape=(1,)), cases) == {7, 9}
    assert not collect(make_spec(shape=(40,)), cases) <= {7, 9}
    assert collect(make_spec(shape=()), IntegerUse(3, cases=[7, 9])) == {0, 1, 2}
    assert collect(make_spec("sample_rate", shape=(1,))) == {SAMPLE_RATE}
    assert len(collect(make_spec("sample_rate", shape=(2,)))) > 2
    rates = [8000, SAMPLE_RATE]
    assert _choose_case(make_spec("sr"), rates, np.random.default_rng(0)) == SAMPLE_RATE
    assert {_choose_case(make_spec("x"), rates, np.random.default_rng(i)) for i in range(9)} == set(rates)
    assert {_choose_case(make_spec("sr"), [8000, 4], np.random.default_rng(i)) for i in range(9)} == {8000, 4}


@pytest.mark.parametrize(
    ("text", "kind", "shape"),
    [("random", "random", None), (" zeros ", "zeros", None), ("ones:1,3", "ones", "1,3"), ("twos", None, None)],
)
def test_texts_of_generated_inputs(text, kind, shape):
    found = parse_generated(text)
    assert (None if found is None else (found.kind, found.shape_text)) == (None if kind is None else (kind, shape))
