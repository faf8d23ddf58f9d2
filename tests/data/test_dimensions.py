"""Dimensions and integers of inputs that are generated, for models whose inputs have dynamic shapes."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from ir_text import graph, layer, net, port, write

import irrun
from irrun import openvino as ov
from irrun.data.axes import find_batch_axes, find_roles
from irrun.data.dimensions import _Group, _order_choices
from irrun.data.generated import GeneratedInput
from irrun.data.load import LoadOptions, load_inputs
from irrun.openvino import opset13 as ops
from irrun.shapes import DynamicDimension

F32 = np.float32


@pytest.fixture
def build(tmp_path):
    """Return a function that builds a model from a function on its inputs and from their types and shapes."""

    def build_model(function, **inputs):
        parameters = [ops.parameter(shape, kind, name=name) for name, (kind, shape) in inputs.items()]
        for parameter, name in zip(parameters, inputs, strict=True):
            parameter.output(0).set_names({name})
        results = function(*parameters)
        results = list(results) if isinstance(results, (tuple, list)) else [results]
        path = tmp_path / "model.xml"
        ov.save_model(ov.Model(results, parameters, "model"), path, compress_to_fp16=False)
        return irrun.read_model(path)

    return build_model


def load(model, *specs, seed=0):
    """Return the inputs of a model by name, and run the model on them."""
    arrays = load_inputs(specs or ["random"], model, seed=seed)
    irrun.compile_model(model)(arrays)
    return arrays


def get_shapes(model, *specs):
    return {name: value.shape for name, value in load(model, *specs).items()}


def constant(*shape, kind=F32):
    return ops.constant(np.zeros(shape, kind))


def integers(*values):
    return ops.constant(np.array(values, np.int64))


def embed(ids, size, width=8):
    """Return rows of a table."""
    return ops.gather(constant(size, width), ids, ops.constant(np.int64(0)))


def make_patches(image, patch=16, width=8, channels=3):
    """Return the patches of an image as a sequence, like a vision transformer."""
    weights = constant(width, channels, patch, patch)
    patches = ops.convolution(image, weights, [patch, patch], [0, 0], [0, 0], [1, 1])
    return ops.transpose(ops.reshape(patches, integers(0, width, -1), True), integers(0, 2, 1))


def test_usual_sizes_come_first(build):
    model = build(ops.relu, data=("f32", [-1, 3, -1, -1]))
    assert get_shapes(model) == {"data": (1, 3, 224, 224)}
    model = build(ops.relu, data=("f32", [-1, -1, -1, 3]))
    assert get_shapes(model) == {"data": (1, 224, 224, 3)}
    model = build(ops.relu, x=("f32", [-1, -1, 80]))
    assert get_shapes(model) == {"x": (1, 16, 80)}
    model = build(ops.relu, audio=("f32", [-1, -1]))
    assert get_shapes(model) == {"audio": (1, 16000)}
    model = build(ops.relu, x=("f32", [-1]))
    assert get_shapes(model) == {"x": (16,)}


@pytest.mark.parametrize("size", [224, 384, 448])
def test_positions_of_a_vision_transformer_determine_the_size_of_the_image(build, size):
    count = (size // 16) ** 2
    model = build(lambda x: ops.add(make_patches(x), constant(1, count, 8)), image=("f32", [-1, 3, -1, -1]))
    assert get_shapes(model) == {"image": (1, 3, size, size)}


def test_a_class_token_counts_as_a_position(build):
    def compute(image):
        tokens = ops.concat([constant(1, 1, 8), make_patches(image, 14)], 1)
        return ops.add(tokens, constant(1, 37 * 37 + 1, 8))

    assert get_shapes(build(compute, image=("f32", [1, 3, -1, -1]))) == {"image": (1, 3, 518, 518)}


def test_a_flattened_image_determines_its_size(build):
    def compute(image):
        pooled = ops.avg_pool(image, [4, 4], [0, 0], [0, 0], [4, 4], False)
        return ops.matmul(ops.reshape(pooled, integers(-1, 3 * 12 * 12), False), constant(3 * 12 * 12, 2), False, False)

    assert get_shapes(build(compute, image=("f32", [-1, 3, -1, -1]))) == {"image": (1, 3, 48, 48)}


def test_channels_follow_from_filters(build):
    model = build(lambda x: make_patches(x, channels=9), x=("f32", [-1, -1, -1, -1]))
    assert get_shapes(model) == {"x": (1, 9, 224, 224)}


def test_sizes_of_constants_determine_lengths(build):
    model = build(lambda ids: ops.add(embed(ids, 100), constant(1, 77, 8)), ids=("i64", [-1, -1]))
    assert get_shapes(model) == {"ids": (1, 77)}
    model = build(lambda x: ops.matmul(x, constant(45, 4), False, False), x=("f32", [-1, -1]))
    assert get_shapes(model) == {"x": (1, 45)}


def test_strides_before_positions_count(build):
    def compute(frames):
        weights = constant(8, 20, 3)
        shortened = ops.convolution(frames, weights, [2], [1], [1], [1])
        return ops.add(ops.transpose(shortened, integers(0, 2, 1)), constant(1, 150, 8))

    assert get_shapes(build(compute, frames=("f32", [-1, 20, -1]))) == {"frames": (1, 20, 300)}


def test_a_constant_may_determine_the_batch(build):
    model = build(lambda x: ops.add(x, constant(4, 5)), x=("f32", [-1, 5]))
    assert get_shapes(model) == {"x": (4, 5)}
    model = build(lambda x: ops.concat([x, constant(4, 2)], 1), x=("f32", [-1, 5]))
    assert get_shapes(model) == {"x": (4, 5)}


def test_bounds_are_respected(build):
    model = build(ops.relu, x=("f32", [ov.Dimension(2, 4), 3, ov.Dimension(100, 120), ov.Dimension(700, 720)]))
    shape = get_shapes(model)["x"]
    assert shape[0] in range(2, 5)
    assert shape[2] in range(100, 121)
    assert shape[3] in range(700, 721)
    model = build(ops.relu, x=("f32", [1, 3, ov.Dimension(2000, -1), 20]))  # beyond usual sizes
    assert get_shapes(model) == {"x": (1, 3, 2000, 20)}


def test_texts_share_their_dimensions_and_ids_are_rows_of_tables(build):
    def compute(ids, mask, types):
        states = ops.add(embed(ids, 7), embed(types, 2))
        return ops.multiply(states, ops.unsqueeze(ops.convert(mask, "f32"), integers(-1)))

    dynamic = ("i64", [-1, -1])
    model = build(compute, input_ids=dynamic, attention_mask=dynamic, token_type_ids=dynamic)
    for seed in range(4):
        arrays = load(model, seed=seed)
        assert [value.shape for value in arrays.values()] == [(1, 16)] * 3
        assert set(arrays["input_ids"].flat) <= set(range(7))
        assert len(set(arrays["input_ids"].flat)) > 2
        assert set(arrays["attention_mask"].flat) == {0, 1}
        assert set(arrays["token_type_ids"].flat) == {0, 1}


def test_offsets_of_indices_are_subtracted(build):
    model = build(lambda ids: embed(ops.add(ops.convert(ids, "i32"), np.int32(2)), 5), ids=("i64", [1, 200]))
    assert set(load(model)["ids"].flat) == {0, 1, 2}


def test_indices_in_the_body_of_a_loop_are_rows_of_tables(tmp_path):
    table = layer(1, "Const", data='offset="0" size="12" shape="3" element_type="f32"', outputs=[port(0, (3,), "FP32")])
    axis = layer(2, "Const", data='offset="12" size="8" shape="" element_type="i64"', outputs=[port(0, (), "I64")])
    inner = [
        layer(0, "Parameter", data='shape="1" element_type="i64"', outputs=[port(0, (1,), "I64")]),
        table,
        axis,
        layer(3, "Gather", "opset8", inputs=[port(0, (3,)), port(1, (1,)), port(2)], outputs=[port(3, (1,), "FP32")]),
        layer(4, "Result", inputs=[port(0, (1,))]),
    ]
    edges = [(1, 0, 3, 0), (0, 0, 3, 1), (2, 0, 3, 2), (3, 3, 4, 0)]
    ports = (
        '<port_map><input axis="0" external_port_id="0" internal_layer_id="0"/>'
        f'<output axis="0" external_port_id="1" internal_layer_id="4"/></port_map><body>{graph(inner, edges)}</body>'
    )
    layers = [
        layer(0, "Parameter", data='shape="50" element_type="i64"', outputs=[port(0, (50,), "I64")], name="ids"),
        layer(1, "TensorIterator", inputs=[port(0, (50,))], outputs=[port(1, (50,), "FP32")], inner=ports),
        layer(2, "Result", inputs=[port(0, (50,))]),
    ]
    path = write(tmp_path, net(layers, [(0, 0, 1, 0), (1, 1, 2, 0)]), np.zeros(12, F32).tobytes())
    assert set(load(irrun.read_model(path))["ids"].flat) == {0, 1, 2}


def test_the_mask_of_a_decoder_covers_earlier_tokens(build):
    def compute(ids, mask, past):
        keys = ops.concat([past, ops.unsqueeze(embed(ids, 10), integers(1))], 2)
        scores = ops.matmul(ops.unsqueeze(embed(ids, 10), integers(1)), keys, False, True)
        return ops.add(scores, ops.unsqueeze(ops.convert(mask, "f32"), integers(1, 2)))

    inputs = {"input_ids": ("i64", [-1, -1]), "attention_mask": ("i64", [-1, -1])}
    model = build(compute, **inputs, **{"past_key_values.0.key": ("f32", [-1, 1, -1, 8])})
    shapes = get_shapes(model)
    length, past = shapes["input_ids"][1], shapes["past_key_values.0.key"][2]
    assert shapes["attention_mask"] == (1, length + past)


def test_states_have_the_batch_at_another_axis(build):
    def compute(x, state):
        return ops.add(ops.reshape(x, integers(-1, 1, 4), False), ops.transpose(state, integers(1, 0, 2)))

    model = build(compute, x=("f32", [-1, 4]), state=("f32", [1, -1, 4]))
    assert get_shapes(model, "x=[[1,2,3,4],[5,6,7,8]]", "random") == {"x": (2, 4), "state": (1, 2, 4)}
    assert find_batch_axes(model.inputs) == [0, 1]


def test_lengths_of_sequences_are_at_most_their_sizes(build):
    def compute(x, lengths):
        return ops.reverse_sequence(x, lengths, 0, 1)

    model = build(compute, x=("f32", [3, 4, 2]), lengths=("i32", [3]))
    values = {int(n) for seed in range(20) for n in load(model, seed=seed)["lengths"]}
    assert values == {1, 2, 3, 4}


def test_integers_are_cases_that_the_model_compares_with(build):
    def compute(x, sr, mode):
        is_known = ops.logical_or(ops.equal(sr, np.int64(16000)), ops.equal(sr, np.int64(8000)))
        return ops.select(ops.logical_and(is_known, ops.equal(mode, np.int64(70))), x, x)

    model = build(compute, x=("f32", [2]), sr=("i64", []), mode=("i64", []))
    arrays = load(model)
    assert (int(arrays["sr"]), int(arrays["mode"])) == (16000, 70)


def test_booleans_and_masks_are_0_or_1(build):
    def compute(flags, mask):
        return ops.select(flags, mask, mask)

    arrays = load(build(compute, flags=("boolean", [40]), mask=("f32", [2, 40])))
    assert set(arrays["flags"].flat) == {False, True}
    assert set(arrays["mask"].flat) == {0, 1}


def test_one_text_fills_all_inputs_without_another(build):
    model = build(lambda a, b, c: (ops.add(a, b), c), a=("f32", [2]), b=("f32", [2]), c=("f32", [2]))
    for kind in ("zeros", "ones"):
        assert {name: value.tolist() for name, value in load(model, kind).items()} == {
            name: [kind == "ones"] * 2 for name in "abc"
        }
    arrays = load(model, "random")
    assert len({value.tobytes() for value in arrays.values()}) == 3
    assert load(model, "zeros", "a=[1,2]")["a"].tolist() == [1, 2]
    assert load(model, "a=[1,2]", "zeros")["a"].tolist() == [1, 2]
    arrays = load(model, "zeros", "ones", "b=[3,4]")
    assert [value.tolist() for value in arrays.values()] == [[0, 0], [3, 4], [1, 1]]
    arrays = load(model, "zeros", "[5,6]")  # a text without a name takes the next place, as ever
    assert [value.tolist() for value in arrays.values()] == [[0, 0], [5, 6], [0, 0]]
    for specs in (["a=[1,2]", "a=ones", "random"], ["[1,2]", "[1,2]", "[1,2]", "random"]):
        with pytest.raises(irrun.InputError, match=r"two values|too many inputs"):
            load(model, *specs)


def test_dimensions_follow_inputs_that_are_passed(build):
    model = build(lambda a, b: ops.add(embed(a, 9), embed(b, 9)), a=("i64", [-1, -1]), b=("i64", [-1, -1]))
    assert get_shapes(model, "a=[[1,2,3],[4,5,6]]", "random") == {"a": (2, 3), "b": (2, 3)}
    assert get_shapes(model, "a=random:2,5", "b=random") == {"a": (2, 5), "b": (2, 5)}


def test_chosen_dimensions_are_reported(build):
    model = build(lambda a, b: (ops.relu(a), ops.relu(b)), a=("f32", [-1, 3, -1, -1]), b=("f32", [1, 2]))
    lines = []
    load_inputs(["random"], model, LoadOptions(notify=lines.append))
    assert lines == ["a: [?,3,?,?] -> [1,3,224,224]"]
    lines.clear()
    load_inputs(["a=random:1,3,32,32", "random"], model, LoadOptions(notify=lines.append))
    assert lines == []


def test_dimensions_that_no_layer_accepts_are_an_error(build):
    def compute(x):
        rows = [ops.reshape(x, integers(-1, size), False) for size in (1009, 1013)]
        return ops.concat([ops.reshape(part, integers(-1), False) for part in rows], 0)

    model = build(compute, x=("f32", [-1, 7]))
    with pytest.raises(
        irrun.InputError, match=r"found no sizes for the dynamic dimensions: with x \[1,7\], .* fails: .*--shape x="
    ):
        load(model)


def test_without_a_model_dimensions_follow_roles(build):
    model = build(lambda x: ops.add(make_patches(x), constant(1, 24 * 24, 8)), image=("f32", [-1, 3, -1, -1]))
    assert load_inputs("zeros", model.inputs)["image"].shape == (1, 3, 224, 224)
    assert load_inputs("zeros", irrun.compile_model(model))["image"].shape == (1, 3, 384, 384)


def test_layouts_state_roles(build, tmp_path):
    model = build(ops.relu, x=("f32", [-1, -1, -1, -1]))
    text = model.path.read_text()
    attribute = '<rt_info><attribute name="layout" version="0" layout="[H,W,C,N]"/></rt_info>'
    model.path.write_text(
        text.replace('type="Parameter"', 'type="Parameter" ').replace("</output>", "</output>" + attribute, 1)
    )
    model = irrun.read_model(model.path)
    assert find_roles(model.inputs) == [["size", "size", "channels", "batch"]]
    assert get_shapes(model) == {"x": (224, 224, 3, 1)}


def test_public_models_run_on_random_inputs_of_dynamic_sizes(data, tmp_path):
    for name, size in (("person-detection-0201-int8", 224), ("vehicle-license-plate-detection-0106-f16-int8", 300)):
        model = irrun.read_model(data / "public" / name / "model.xml")
        model.reshape([-1, 3, -1, -1])
        (value,) = load_inputs(["random"], model).values()
        assert value.shape == (1, 3, size, size)


def test_indices_of_the_second_output_of_a_layer_are_within_its_size(build):
    def gather(x, indices):
        first, second = ops.variadic_split(x, ops.constant(np.array(0)), ops.constant(np.array([1, 40]))).outputs()
        return [first, ops.gather(second, indices, ops.constant(np.array(0)))]

    model = build(gather, x=(F32, [41, 3]), indices=(np.int64, [200]))
    assert load(model)["indices"].max() in range(30, 40)


def test_the_first_input_is_drawn_by_default(build):
    model = build(ops.relu, x=(F32, [2, 3]))
    spec = GeneratedInput("random")
    np.testing.assert_array_equal(
        spec.generate((2, 3), model.inputs[0], 5), spec.generate((2, 3), model.inputs[0], 5, position=0)
    )


def test_squares_are_found():
    from irrun.data.dimensions import _is_square

    assert [n for n in range(-4, 200) if _is_square(n)] == [n * n for n in range(1, 15)]


@pytest.mark.parametrize(("count", "batch"), [(2, 2), (4, 4), (16, 16)])
def test_other_sizes_of_the_batch_are_tried_if_one_does_not_fit(build, count, batch):
    def split(x):
        return ops.relu(ops.split(x, ops.constant(np.int64(0)), count).output(0))

    assert get_shapes(build(split, x=("f32", [-1, 80]))) == {"x": (batch, 80)}


@pytest.mark.parametrize(("budget", "count"), [(0, 0), (1, 1), (4, 4), (9, 9), (20, 9)])
def test_choices_of_sizes_are_limited(budget, count):
    groups = [_Group("size", DynamicDimension(), ((0, i),), ((8, 0), (16, 1), (32, 2))) for i in range(2)]
    choices = list(itertools.islice(_order_choices(groups, budget), 50))
    assert len(choices) == len(set(choices)) == count
    assert choices[:1] == [(8, 8)][:count]
