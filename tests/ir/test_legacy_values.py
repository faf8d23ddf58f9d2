"""Values, types and errors of legacy layers whose inputs have unusual types, ranks and numbers."""

from __future__ import annotations

import numpy as np
import pytest
from legacy_ir import LegacyNetwork, StoredInput, build_layer, check_declarations, make_random, run_layer

import irrun
from irrun.ir.legacy.activations import SIMPLE


def find_types(net: LegacyNetwork) -> list[str]:
    """Return the types of the layers of an upgraded network, without Constants, Parameters and Results."""
    types = [layer.type for layer in net.read().graph.layers]
    return [type for type in types if type not in ("Constant", "Parameter", "Result")]


X = make_random(2, 3, 4, 5)
INTEGERS = np.int32([[4, -3, 2], [0, 7, -1]])
STORED_I32 = StoredInput(np.int32([1]))


# Element types


@pytest.mark.parametrize("type", sorted(SIMPLE))
def test_functions_of_integers_are_computed_in_f32_unless_they_keep_integers(type):
    keeps_integers = type in ("Abs", "Ceil", "Ceiling", "Floor", "Neg", "Negative", "Sign")
    net = build_layer(type, [INTEGERS], [INTEGERS.shape], version=6)
    assert find_types(net) == [SIMPLE[type][0]] if keeps_integers else ["Convert", SIMPLE[type][0]]
    assert str(net.read().outputs[0].element_type) == ("i32" if keeps_integers else "f32")


@pytest.mark.parametrize(
    ("data", "element_type", "expected"),
    [
        ({}, np.int32, INTEGERS),
        ({"scale": 2}, np.int32, INTEGERS * 2),
        ({"shift": -3}, np.int32, INTEGERS - 3),
        ({"power": 2}, np.int32, INTEGERS**2),
        ({"power": 0}, np.int32, INTEGERS**0),
        ({"scale": 1.5}, np.float32, INTEGERS * 1.5),
        ({"shift": 0.5}, np.float32, INTEGERS + 0.5),
        ({"scale": 0, "shift": 4, "power": 0.5}, np.float32, np.full((2, 3), 2)),
        ({"scale": 0, "shift": 4, "power": -1}, np.float32, np.full((2, 3), 0.25)),
    ],
)
def test_power_of_integers_is_an_integer_if_all_parameters_are(data, element_type, expected):
    (actual,) = run_layer("Power", [INTEGERS], [(2, 3)], data, version=6)
    assert actual.dtype == element_type
    np.testing.assert_allclose(actual, expected, rtol=1e-6)


def test_power_without_effect_adds_no_layer():
    assert find_types(build_layer("Power", [X], [X.shape], {"scale": 1, "shift": 0, "power": 1})) == []
    assert find_types(build_layer("Power", [X], [X.shape], {"scale": 2})) == ["Multiply"]
    assert find_types(build_layer("Power", [X], [X.shape], {"shift": 2})) == ["Add"]


def test_mean_of_integers_is_a_float():
    (actual,) = run_layer("Eltwise", [INTEGERS, INTEGERS + 1], [(2, 3)], {"operation": "mean"}, version=6)
    np.testing.assert_array_equal(actual, INTEGERS + np.float32(0.5))


@pytest.mark.parametrize("coefficients", [("1,1"), ("1,0.5"), ("2,1")])
def test_sum_of_integers_is_a_float_only_with_coefficients(coefficients):
    a, b = (float(c) for c in coefficients.split(","))
    inputs = [INTEGERS, INTEGERS + 1]
    (actual,) = run_layer("Eltwise", inputs, [(2, 3)], {"operation": "sum", "coeff": coefficients}, version=6)
    assert actual.dtype == (np.int32 if coefficients == "1,1" else np.float32)
    np.testing.assert_allclose(actual, INTEGERS * a + (INTEGERS + 1) * b, rtol=1e-6)


@pytest.mark.parametrize(
    ("operation", "expected"),
    [("logical_and", [0, 0, 0, 1]), ("logical_or", [0, 1, 1, 1]), ("logical_xor", [0, 1, 1, 0])],
)
def test_logical_operations_count_other_values_than_zero_as_true(operation, expected):
    inputs = [np.float32([0, 0, 2, -3]), np.int32([0, 5, 0, 7])]
    (actual,) = run_layer("Eltwise", inputs, [(4,)], {"operation": operation}, precisions=["FP32"])
    assert actual.dtype == np.float32
    np.testing.assert_array_equal(actual, expected)


@pytest.mark.parametrize("precision", ["I32", "I64", "FP32", "BOOL"])
def test_comparisons_have_the_declared_type(precision):
    a, b = np.float32([1, 2, 3]), np.int32([1, 3, 2])
    (actual,) = run_layer("Eltwise", [a, b], [(3,)], {"operation": "less"}, precisions=[precision])
    assert irrun.ElementType.of(actual.dtype).precision == precision
    assert actual.tolist() == [0, 1, 0]


@pytest.mark.parametrize(
    ("precision", "expected"), [("I32", "i32"), ("I64", "i64"), ("FP32", "i32"), ("FP16", "i32"), ("U8", "i32")]
)
def test_shapes_are_computed_as_integers(precision, expected):
    net = build_layer("ShapeOf", [X], [(4,)], precisions=[precision])
    (layer,) = net.read().graph.find_layers("ShapeOf")
    assert str(layer.outputs[0].element_type) == str(layer.attributes["output_type"]) == expected
    np.testing.assert_array_equal(net.run(X)[0], X.shape)


def test_one_hot_values_have_the_declared_type():
    numbers = np.int32([0, 2, 5])
    for precision, on, off in (("FP32", 2.5, -0.5), ("I32", 2.0, -1.0), ("U8", "True", "False")):
        data = {"depth": 3, "on_value": on, "off_value": off}
        (actual,) = run_layer("OneHot", [numbers], [(3, 3)], data, precisions=[precision])
        on, off = ({"True": 1, "False": 0}.get(value, value) for value in (on, off))
        assert irrun.ElementType.of(actual.dtype).precision == precision
        np.testing.assert_array_equal(actual, [[on, off, off], [off, off, on], [off, off, off]])


@pytest.mark.parametrize(("fill", "dtype"), [("1.5", np.float32), ("3", np.int32), ("200", np.uint8)])
def test_padding_has_the_type_of_the_data(fill, dtype):
    x = np.arange(6).reshape(2, 3).astype(dtype)
    data = {"pads_begin": "0,1", "pads_end": "1,0", "pad_value": fill}
    (actual,) = run_layer("Pad", [x], [(3, 4)], data)
    np.testing.assert_array_equal(actual, np.pad(x, ((0, 1), (1, 0)), constant_values=dtype(float(fill))))


def test_select_converts_the_condition_and_unifies_the_values():
    condition, a, b = np.float32([[0], [2]]), np.int32([1, 2, 3]), np.float32([[0.5]])
    (actual,) = run_layer("Select", [condition, a, b], [(2, 3)])
    np.testing.assert_array_equal(actual, np.where(condition != 0, a, b).astype(np.float32))


# Weights


@pytest.mark.parametrize(
    ("shape", "count"),
    [((3,), 1), ((3,), 3), ((2, 3), 1), ((2, 3), 3), ((2, 3, 4), 3), ((2, 3, 4), 12), ((2, 3, 4), 1), ((), 1)],
)
def test_scales_are_per_channel_per_element_or_for_all(shape, count):
    x, weights, biases = make_random(*shape), make_random(count, seed=1), make_random(count, seed=2)
    axis = 0 if len(shape) == 1 else 1
    target = [count if i == axis else 1 for i in range(len(shape))] if count == 3 else shape[1:]
    w, b = (values.reshape(target if count > 1 else ()) for values in (weights, biases))
    (actual,) = run_layer("ScaleShift", [x], [shape], {}, {"weights": weights, "biases": biases})
    assert actual.shape == shape
    np.testing.assert_allclose(actual, x * w + b, rtol=1e-6)


@pytest.mark.parametrize(
    ("shape", "count", "channels"), [((3, 5), 3, 5), ((3,), 2, 3), ((), 2, 1), ((2, 3, 4), 8, 3), ((2, 3, 4), 24, 3)]
)
def test_scales_of_another_size_are_reported(shape, count, channels):
    net = build_layer("ScaleShift", [make_random(*shape)], [shape], {}, {"weights": make_random(count)})
    message = f"the blob weights has {count} numbers, but the input has {channels} channels"
    with pytest.raises(irrun.ModelError, match=message):
        net.read()


@pytest.mark.parametrize(
    ("shape", "weights_shape"),
    [((2, 3, 4), (3,)), ((2, 3, 4), (1,)), ((2, 3, 4), (1, 3, 1)), ((3,), (3,)), ((2, 3), (3,)), ((2, 3), (2, 1))],
)
def test_scales_may_be_inputs(shape, weights_shape):
    x, weights, biases = (make_random(*s, seed=i) for i, s in enumerate((shape, weights_shape, weights_shape)))
    w, b = weights, biases
    if weights_shape == (3,) and len(shape) == 3:
        w, b = weights.reshape(3, 1), biases.reshape(3, 1)
    (actual,) = run_layer("ScaleShift", [x, StoredInput(weights), StoredInput(biases)], [shape])
    np.testing.assert_allclose(actual, x * w + b, rtol=1e-6)
    (actual,) = run_layer("ScaleShift", [x, StoredInput(weights)], [shape])
    np.testing.assert_allclose(actual, x * w, rtol=1e-6)


def test_slopes_of_prelu_may_be_an_input():
    slopes = make_random(3, seed=1)
    (actual,) = run_layer("PReLU", [X, StoredInput(slopes)], [X.shape])
    np.testing.assert_allclose(actual, np.where(X < 0, X * slopes.reshape(3, 1, 1), X), rtol=1e-6)


def test_normalization_of_a_batch_without_channels_has_one():
    x = make_random(4)
    blobs = {"weights": np.float32([3]), "biases": np.float32([0.5])}
    net = build_layer("BatchNormalization", [x], [(4,)], {"epsilon": 1}, blobs)
    (layer,) = net.read().graph.find_layers("BatchNormInference")
    assert [str(port.shape) for port in layer.inputs[1:]] == ["[1]"] * 4


@pytest.mark.parametrize(
    ("shape", "output", "data"),
    [
        ((2, 6), (2, 5), {"out-size": 5}),
        ((2, 6), (2, 5), {"out_size": 5}),
        ((2, 3, 2), (2, 5), {"out-size": 5}),
        ((2, 3, 6), (2, 3, 5), {"out-size": 5}),
        ((2, 3, 2, 1), (2, 5), {"out-size": 5}),
        ((2, 3, 2, 1), (2, 5, 1, 1), {"out-size": 5}),
        ((2, 3, 2), (2, 5, 1, 1), {"out-size": 5}),
        ((2, 6), (2, 5, 1), {"out-size": 5}),
        ((2,), (2, 5), {"out-size": 5}),
        ((2, 0, 3), (2, 5), {"out-size": 5}),
    ],
)
def test_dense_layers_are_over_all_axes_but_the_first(shape, output, data):
    keeps_axis = len(shape) == len(output) == 3
    x = make_random(*shape)
    features = shape[-1] if keeps_axis else int(np.prod(shape[1:]))
    weights, biases = make_random(5, features, seed=1), make_random(5, seed=2)
    blobs = {"weights": weights, "biases": biases} if features else {"biases": biases}
    flat = x if keeps_axis else x.reshape(shape[0], features)
    expected = (flat @ weights.T + biases).reshape(output)
    if features:
        (actual,) = run_layer("FullyConnected", [x], [output], data, blobs)
        np.testing.assert_allclose(actual, expected, rtol=1e-5, atol=1e-6)
    inputs = [x, StoredInput(weights) if features else weights, StoredInput(biases)]
    (actual,) = run_layer("FullyConnected", inputs, [output], data)
    np.testing.assert_allclose(actual, expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("count", [2, 3])
def test_factors_of_gemm_apply_to_their_terms(count):
    a, b, c = make_random(2, 3, 4), make_random(2, 5, 4, seed=1), make_random(1, 5, seed=2)
    data = {"transpose_b": "true", "alpha": 0.5, "beta": -2}
    (actual,) = run_layer("Gemm", [a, b, c][:count], [(2, 3, 5)], data)
    expected = 0.5 * (a @ b.transpose(0, 2, 1)) - (2 * c if count == 3 else 0)
    np.testing.assert_allclose(actual, expected, rtol=1e-5, atol=1e-6)
    (actual,) = run_layer(
        "Gemm", [a.transpose(0, 2, 1).copy(), b.transpose(0, 2, 1).copy()], [(2, 3, 5)], {"transpose_a": 1}
    )
    np.testing.assert_allclose(actual, a @ b.transpose(0, 2, 1), rtol=1e-5, atol=1e-6)


# Movement


def test_further_targets_of_shapes_and_axes():
    row = make_random(3)
    shape, axes = StoredInput(np.int32([2, 3, 4])), StoredInput(np.float32([1]))
    (actual,) = run_layer("Broadcast", [row, shape, axes], [(2, 3, 4)])
    np.testing.assert_array_equal(actual, np.broadcast_to(row[:, None], (2, 3, 4)))
    thin = make_random(1, 3)
    (actual,) = run_layer("Unsqueeze", [thin], [(1, 3, 1)])
    np.testing.assert_array_equal(actual, thin[:, :, None])
    assert find_types(build_layer("Squeeze", [thin, STORED_I32], [(1, 3)])) == ["Squeeze"]
    (actual,) = run_layer("squeeze", [thin, StoredInput(np.int32([0]))], [(3,)])
    np.testing.assert_array_equal(actual, thin[0])


@pytest.mark.parametrize(
    ("pattern", "output", "special"),
    [
        ("0,12", (2, 12), True),
        ("0,-1", (2, 12), True),
        ("-1,0,4", (2, 3, 4), True),
        ("4,-1", (4, 6), True),
        ("24", (24,), True),
        # other patterns than the declared shape fits
        ("0,13", (2, 12), False),
        ("5,-1", (2, 12), False),
        ("0,0,0,0", (2, 12), False),
        ("0,0,4,0", (2, 3, 4), False),
        ("0,0,4,0", (2, 3, 4, 1), False),
        ("-1,-1", (4, 6), False),
        ("-2,12", (2, 12), False),
        ("12,2", (2, 12), False),
        ("12,2", (24,), False),
    ],
)
def test_pattern_of_reshape_counts_if_it_yields_the_declared_shape(pattern, output, special):
    x = make_random(2, 3, 4)
    net = build_layer("Reshape", [x], [output], {"dim": pattern})
    np.testing.assert_array_equal(net.run(x)[0], x.reshape(output))
    check_declarations(net.read(), [x])
    layers = net.read().graph.find_layers("Reshape")
    if output != x.shape or special:
        (layer,) = layers
        assert layer.attributes["special_zero"] == special


def test_pattern_of_reshape_may_keep_empty_dimensions():
    x = np.zeros((0, 3), np.float32)
    for pattern, output in (("0,3,1", (0, 3, 1)), ("0,-1", (0, 3)), ("3,0", (3, 0))):
        assert run_layer("Reshape", [x], [output], {"dim": pattern})[0].shape == output


@pytest.mark.parametrize(
    ("data", "output"),
    [
        ({}, (2, 60)),
        ({"axis": 2}, (2, 3, 20)),
        ({"axis": 0}, (120,)),
        ({"axis": 3}, (2, 3, 4, 5)),
        ({"axis": 1, "end_axis": 3}, (2, 60)),
        ({"axis": 1, "end_axis": 2}, (2, 12, 5)),
        ({"axis": 0, "end_axis": 1}, (6, 4, 5)),
        ({"axis": -2}, (2, 3, 20)),
        ({"axis": 4}, (2, 3, 4, 5, 1)),
    ],
)
def test_flattened_axes_are_those_between_the_stated_ones(data, output):
    net = build_layer("Flatten", [X], [output], data)
    np.testing.assert_array_equal(net.run(X)[0], X.reshape(output))
    if (set(data) <= {"axis"} and 0 <= data.get("axis", 1) < 4) or data.get("end_axis") == 3:
        model = net.read()
        model.reshape([7, 3, 4, 5])
        assert model.outputs[0].shape == (7 * output[0] // 2, *output[1:])


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        ({"axis": "1,-1", "offset": "1,2", "dim": "2,3"}, X[:, 1:3, :, 2:5]),
        ({"axis": "-4", "offset": "1", "dim": "1"}, X[1:]),
        ({"axis": "2", "crop_begin": "1", "crop_end": "2"}, X[:, :, 1:2]),
        ({"axis": "3,1", "offset": "0,0", "dim": "5,3"}, X),
        ({"axis": "3", "dim": "2"}, X[..., :2]),
        ({"axis": "2", "offset": "2"}, X[:, :, 2:]),
        ({"axis": "2", "offset": "4", "dim": "0"}, X[:, :, 4:]),
    ],
)
def test_cropped_ranges_are_stated_in_several_ways(data, expected):
    (actual,) = run_layer("Crop", [X], [expected.shape], data)
    np.testing.assert_array_equal(actual, expected)


def test_sizes_of_a_crop_are_those_of_its_second_input():
    reference = np.zeros((9, 2, 9, 3), np.float32)
    (actual,) = run_layer("Crop", [X, StoredInput(reference)], [(2, 2, 4, 3)], {"axis": "1,3", "offset": "1,0"})
    np.testing.assert_array_equal(actual, X[:, 1:3, :, :3])


def test_copied_and_converted_values():
    for precision, expected in (("FP32", np.float32), ("FP16", np.float32), ("I64", np.int64)):
        (actual,) = run_layer("Convert", [INTEGERS], [(2, 3)], precisions=[precision])
        assert actual.dtype == expected
        (actual,) = run_layer("Convert", [INTEGERS], [(2, 3)], {"precision": precision}, version=6)
        assert actual.dtype == expected
    (actual,) = run_layer("Convert", [X], [X.shape], {"precision": "I32"}, version=6)
    np.testing.assert_array_equal(actual, X.astype(np.int32))


@pytest.mark.parametrize(
    ("inputs", "expected"),
    [
        ((np.int32(1), np.int32(8), np.int32(3)), np.int32([1, 4, 7])),
        ((np.float32(1), np.int32(4), np.int32(1)), np.float32([1, 2, 3])),
        ((np.int32([5]), np.int32([2]), np.int32([-1])), np.int32([5, 4, 3])),
    ],
)
def test_ranges_have_the_type_of_their_bounds(inputs, expected):
    first, *rest = inputs
    (actual,) = run_layer(
        "Range", [np.asarray(first), *map(StoredInput, map(np.asarray, rest))], [expected.shape], version=6
    )
    assert actual.dtype == expected.dtype
    np.testing.assert_array_equal(actual, expected)


def test_space_and_depth_are_rearranged_by_blocks():
    x = make_random(1, 8, 2, 3)
    for mode, axes in (("blocks_first", (0, 3, 4, 1, 5, 2)), ("depth_first", (0, 1, 4, 2, 5, 3))):
        expected = x.reshape(1, 2, 2, 2, 2, 3).transpose(axes).reshape(1, 2, 4, 6)
        (actual,) = run_layer("DepthToSpace", [x], [(1, 2, 4, 6)], {"block_size": 2, "mode": mode})
        np.testing.assert_array_equal(actual, expected)
        (back,) = run_layer("SpaceToDepth", [actual], [x.shape], {"block_size": 2, "mode": mode})
        np.testing.assert_array_equal(back, x)


# Indices


def test_axis_of_a_cumulative_sum_may_be_omitted():
    for inputs, axis in (([X], 0), ([X, StoredInput(np.int32([2]))], 2), ([X, StoredInput(np.float32(-1))], -1)):
        (actual,) = run_layer("CumSum", inputs, [X.shape])
        np.testing.assert_allclose(actual, np.cumsum(X, axis), rtol=1e-5, atol=1e-6)
    for name, expected in (("exclusive", [0, 1, 3]), ("reverse", [6, 5, 3])):
        (actual,) = run_layer("CumSum", [np.float32([1, 2, 3])], [(3,)], {name: 1})
        assert actual.tolist() == expected


def test_default_of_a_dense_tensor_is_zero():
    indices, shape, values = np.int32([[0, 1], [2, 2]]), StoredInput(np.int32([3, 4])), np.float32([5, 6])
    for more, default in (([], 0), ([StoredInput(np.float32([0.5]))], 0.5), ([StoredInput(np.int32(2))], 2)):
        expected = np.full((3, 4), default, np.float32)
        expected[[0, 2], [1, 2]] = 5, 6
        for dtype in (np.float32, np.int32) if default != 0.5 else (np.float32,):
            inputs = [indices, shape, values.astype(dtype), *more]
            (actual,) = run_layer("SparseToDense", inputs, [(3, 4)], version=6)
            assert actual.dtype == dtype
            np.testing.assert_array_equal(actual, expected)


@pytest.mark.parametrize("names", [(), ("return_inverse",), ("return_counts",), ("return_inverse", "return_counts")])
def test_outputs_of_unique_are_those_on_request(names):
    x = np.float32([3, 1, 3, 2])
    for is_sorted in (1, 0):
        expected = {
            "": [1, 2, 3, 3] if is_sorted else [3, 1, 2, 2],
            "return_inverse": [2, 0, 2, 1] if is_sorted else [0, 1, 0, 2],
            "return_counts": [1, 1, 2, 0] if is_sorted else [2, 1, 1, 0],
        }
        data = {"sorted": is_sorted, **dict.fromkeys(names, 1)}
        actual = run_layer("Unique", [x], [(4,)] * (1 + len(names)), data, may_be_dynamic=True)
        assert [value.tolist() for value in actual] == [expected[name] for name in ("", *names)]


@pytest.mark.parametrize("axis", [None, 0, 1, -1])
@pytest.mark.parametrize("count", [1, 2])
@pytest.mark.parametrize("has_values", [0, 1])
def test_largest_elements_are_along_an_axis_or_in_an_image(axis, count, has_values):
    x = make_random(3, 4, 5)
    data = {"top_k": count, "out_max_val": has_values, **({} if axis is None else {"axis": axis})}
    source = x if axis is not None else x.reshape(3, 20)
    order = np.argsort(-source, axis=-1 if axis is None else axis, kind="stable")
    chosen = np.take(order, range(count), axis=-1 if axis is None else axis)
    values = np.take_along_axis(source, chosen, axis=-1 if axis is None else axis)
    if axis is not None:
        expected = values if has_values else chosen
    else:
        expected = np.stack([chosen, values] if has_values else [chosen], axis=1)
    (actual,) = run_layer("ArgMax", [x], [expected.shape], data)
    assert actual.dtype == np.float32
    np.testing.assert_allclose(actual, expected, rtol=1e-6)


def test_single_output_of_top_k_holds_values_or_indices():
    x, k = make_random(2, 5), StoredInput(np.int32(2))
    order = np.argsort(-x, axis=1)[:, :2]
    for precision, expected in (("FP32", np.take_along_axis(x, order, 1)), ("I32", order)):
        data = {"axis": 1, "sort": "value"}
        (actual,) = run_layer("TopK", [x, k], [(2, 2)], data, precisions=[precision])
        np.testing.assert_allclose(actual, expected, rtol=1e-6)
    for sort, is_stable in (("none", False), ("value", True), ("index", True)):
        net = build_layer("TopK", [x, k], [(2, 2), (2, 2)], {"sort": sort}, precisions=["FP32", "I32"])
        (layer,) = net.read().graph.find_layers("TopK")
        assert layer.attributes["stable"] == is_stable


def test_updates_are_scattered_along_the_axis():
    x, updates = make_random(3, 4), np.float32([[10, 20], [30, 40]])
    places = np.int32([[2, 0], [1, 3]])
    for type, axis, expected_axis in (("ScatterUpdate", {}, 0), ("ScatterUpdate", {"axis": -1}, 1)):
        expected = x.copy()
        inside = places % 3 if expected_axis == 0 else places
        np.put_along_axis(expected[:2] if expected_axis else expected[:, :2], inside, updates, expected_axis)
        (actual,) = run_layer(type, [x, inside, updates], [(3, 4)], axis)
        np.testing.assert_array_equal(actual, expected)


def test_tokens_of_a_tree_are_unified():
    steps, parents = np.float32([[[1, 2]], [[3, 4]]]), np.int32([[[0, 0]], [[1, 0]]])
    inputs = [steps, parents, np.int32([2]), StoredInput(np.int32([9]))]
    (actual,) = run_layer("GatherTree", inputs, [(2, 1, 2)])
    assert actual.dtype == np.float32
    assert actual.tolist() == [[[2, 1]], [[3, 4]]]


TABLE = make_random(5, 3)


@pytest.mark.parametrize("dtype", [np.int32, np.int64, np.float32])
def test_indices_of_embeddings_may_be_floats(dtype):
    def store(*values):
        return StoredInput(np.array(values, dtype))

    indices = np.array([0, 2, 4], dtype)
    weights = np.float32([1, 2, -1])
    zero = np.zeros(3, np.float32)
    first, second = TABLE[0] + 2 * TABLE[2], -TABLE[4]
    for type, inputs, expected in (
        ("EmbeddingBagOffsetsSum", [np.array([0, 2, 2], dtype), store(3), weights], [first, TABLE[3], second]),
        ("EmbeddingSegmentsSum", [np.array([0, 0, 2], dtype), store(3), store(1), weights], [first, TABLE[1], second]),
        ("EmbeddingBagOffsetsSum", [np.array([0, 2], dtype)], [TABLE[0] + TABLE[2], TABLE[4]]),
        ("EmbeddingSegmentsSum", [np.array([0, 0, 2], dtype), store(3)], [TABLE[0] + TABLE[2], zero, TABLE[4]]),
    ):
        (actual,) = run_layer(type, [TABLE, indices, *inputs], [(len(expected), 3)])
        np.testing.assert_allclose(actual, expected, rtol=1e-6)
    packed, weights = np.array([[0, 2], [4, 1]], dtype), np.float32([[1, 2], [-1, 0]])
    (actual,) = run_layer("EmbeddingBagPackedSum", [TABLE, packed, weights], [(2, 3)])
    np.testing.assert_allclose(actual, [first, second], rtol=1e-6)


@pytest.mark.parametrize(("type", "divisors"), [("Sum", (1, 1)), ("Mean", (3, 1)), ("SqrtN", (3**0.5, 1))])
def test_segments_are_summed(type, divisors):
    table = make_random(6, 2, 3)
    indices, segments = np.float32([0, 2, 5, 1]), np.float32([0, 0, 0, 2])
    (actual,) = run_layer(f"SparseSegment{type}", [table, indices, segments], [(4, 2, 3)])
    expected = np.zeros((4, 2, 3), np.float32)
    expected[0] = (table[0] + table[2] + table[5]) / divisors[0]
    expected[2] = table[1] / divisors[1]
    np.testing.assert_allclose(actual, expected, rtol=1e-5, atol=1e-6)


def test_rows_of_a_sparse_matrix_are_weighted():
    indices, values = np.float32([[0, 0], [0, 1], [2, 3]]), np.float32([0, 2, 4])
    shape, default, weights = StoredInput(np.int32([4, 4])), StoredInput(np.int32([3])), np.float32([1, 2, -1])
    for more, factors in (([], (1, 1, 1)), ([weights], weights)):
        expected = [TABLE[0] * factors[0] + TABLE[2] * factors[1], TABLE[3], TABLE[4] * factors[2], TABLE[3]]
        inputs = [indices, values, shape, TABLE, default, *more]
        (actual,) = run_layer("ExperimentalSparseWeightedSum", inputs, [(4, 3)])
        np.testing.assert_allclose(actual, expected, rtol=1e-6)


@pytest.mark.parametrize(
    ("bounds", "data", "expected"),
    [
        (([0, 1, 1], [0, 3, 4]), {"begin_mask": "0,1,1", "end_mask": "0,1,1"}, np.s_[:, 1:3, 1:4]),
        (([1, 1, 1], [2, 3, 3]), {"begin_mask": "1,0"}, np.s_[1:2, :3, 1:3]),
        (([1, 1, 1], [2, 3, 3]), {"end_mask": "1,0"}, np.s_[1:2, 1:, 1:3]),
        (([1, 0, 0], [2, 3, 4], [1, 2, 3]), {}, np.s_[1:2, 0:3:2, 0:4:3]),
        (([1, 0, 0], [2, 3, 4]), {"shrink_axis_mask": "1"}, np.s_[1, 0:3, 0:4]),
        (([1, 0, 2], [2, 0, 4]), {"ellipsis_mask": "0,1"}, np.s_[1:2, ..., 2:4]),
        (([1, 0, 2], [2, 1, 3]), {"new_axis_mask": "0,1"}, np.s_[1:2, None, 2:3]),
        (([1, 2],), {}, np.s_[1:, 2:]),
    ],
)
def test_strided_slices_have_inverted_masks(bounds, data, expected):
    x = make_random(2, 3, 4)
    inputs = [x, *(StoredInput(np.array(values, np.float32)) for values in bounds)]
    (actual,) = run_layer("StridedSlice", inputs, [x[expected].shape], data)
    np.testing.assert_array_equal(actual, x[expected])


# Images


@pytest.mark.parametrize(
    ("begin", "end", "types"),
    [
        (0, 0, ["Interpolate"]),
        (1, 0, ["Pad", "Interpolate"]),
        (0, 2, ["Pad", "Interpolate"]),
        (-1, 0, ["Slice", "Interpolate"]),
        (0, -2, ["Slice", "Interpolate"]),
        (2, -1, ["Pad", "Slice", "Interpolate"]),
        (-1, 2, ["Pad", "Slice", "Interpolate"]),
    ],
)
def test_images_are_cropped_and_extended_before_interpolation(begin, end, types):
    x = make_random(1, 2, 5, 6)
    rows, columns = 5 + begin + end, 6 + begin + end
    expected = np.pad(x, ((0, 0), (0, 0), *[(max(begin, 0), max(end, 0))] * 2))
    expected = expected[:, :, max(-begin, 0) :, max(-begin, 0) :][:, :, :rows, :columns]
    net = build_layer("Interp", [x], [(1, 2, rows, columns)], {"pad_beg": begin, "pad_end": end})
    assert find_types(net) == types
    check_declarations(net.read(), [x])
    np.testing.assert_allclose(net.run(x)[0], expected, rtol=1e-6)


@pytest.mark.parametrize("type", ["linear", "bilinear", "nearest", "cubic", "caffe.ResampleParameter.NEAREST"])
@pytest.mark.parametrize("shape", [(1, 2, 4), (1, 2, 3, 4), (1, 1, 2, 3, 4)])
def test_images_of_all_ranks_are_resampled(type, shape):
    x = make_random(*shape)
    output = (*shape[:2], *(2 * n for n in shape[2:]))
    for name in ("type", "sample_type"):
        net = build_layer("Resample", [x], [output], {name: type}, version=6)
        check_declarations(net.read(), [x])
        (layer,) = net.read().graph.find_layers("Interpolate")
        mode = type.lower().rpartition(".")[2].replace("bilinear", "linear")
        assert (layer.attributes["mode"], layer.attributes["coordinate_transformation_mode"]) == (mode, "half_pixel")
        if mode == "nearest":
            expected = x
            for axis in range(2, len(shape)):
                expected = expected.repeat(2, axis)
            np.testing.assert_array_equal(net.run(x)[0], expected)


def test_transformed_images_keep_their_size():
    """The identity, and a shift to the left by one pixel: coordinates are -1 at the first pixel, 1 after the last."""
    x = make_random(1, 2, 3, 4)
    net = build_layer("SpatialTransformer", [x, np.zeros((1, 6), np.float32)], [x.shape])
    for shift, expected in ((0, x), (2 / 4, np.pad(x, ((0, 0), (0, 0), (0, 0), (0, 1)))[..., 1:])):
        theta = np.float32([[1, 0, 0, 0, 1, shift]])
        check_declarations(net.read(), [x, theta])
        np.testing.assert_allclose(net.run(x, theta)[0], expected, rtol=1e-5, atol=1e-6)


def test_largest_transformed_images_are_accepted(monkeypatch):
    monkeypatch.setattr("irrun.ir.legacy.resizing._LARGEST_GRID", 12)
    for shape, is_valid in (((1, 1, 3, 4), True), ((1, 1, 13, 1), False)):
        net = build_layer("SpatialTransformer", [np.zeros(shape, np.float32), np.zeros((1, 6), np.float32)], [shape])
        if is_valid:
            assert net.read().outputs
        else:
            with pytest.raises(irrun.ModelError, match="13 x 1 pixels, expected at most 12"):
                net.read()


# Normalizations


def normalize(x, axes, *, variance=True, eps=0.0, outside=False):
    centered = x - x.mean(axis=axes, keepdims=True)
    if not variance:
        return centered
    power = (centered**2).mean(axis=axes, keepdims=True)
    return centered / (np.sqrt(power) + eps if outside else np.sqrt(power + eps))


@pytest.mark.parametrize("version", [2, 3, 4, 7])
@pytest.mark.parametrize("across", [0, 1])
@pytest.mark.parametrize("shape", [(2, 3, 4), (2, 3, 4, 5), (2, 3, 2, 2, 3)])
def test_mean_and_variance_are_over_the_image(version, across, shape):
    x = make_random(*shape)
    axes = tuple(range(1 if across else 2, len(shape)))
    data = {"across_channels": across, "normalize_variance": 1, "eps": 0.5}
    (actual,) = run_layer("MVN", [x], [shape], data, version=version)
    np.testing.assert_allclose(actual, normalize(x, axes, eps=0.5, outside=version < 4), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("shape", [(2, 3), (2, 3, 4), (2, 3, 4, 5)])
@pytest.mark.parametrize("across", [0, 1])
def test_lengths_are_over_channels_or_samples(shape, across):
    x, weights = make_random(*shape), make_random(3, seed=1)
    axes = tuple(range(1, len(shape))) if across else (1,)
    expected = x / np.sqrt((x**2).sum(axis=axes, keepdims=True) + 0.1)
    data = {"across_spatial": across, "eps": 0.1}
    (actual,) = run_layer("Normalize", [x], [shape], data)
    np.testing.assert_allclose(actual, expected, rtol=1e-5, atol=1e-6)
    (actual,) = run_layer("Normalize", [x], [shape], data, {"weights": weights})
    np.testing.assert_allclose(actual, expected * weights.reshape(3, *[1] * (len(shape) - 2)), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("names", [("k", "local-size"), ("bias", "local_size")])
def test_local_responses_are_over_channels_or_the_image(names):
    x = make_random(1, 4, 3, 3)
    squares = np.pad(x**2, ((0, 0), (1, 1), (1, 1), (1, 1)))
    across = sum(squares[:, i : i + 4, 1:-1, 1:-1] for i in range(3)) / 3
    same = sum(squares[:, 1:-1, i : i + 3, j : j + 3] for i in range(3) for j in range(3)) / 9
    for region, total in (("across", across), ("same", same), ("ACROSS", across)):
        data = {names[0]: 2, names[1]: 3, "alpha": 0.5, "beta": 0.75, "region": region}
        (actual,) = run_layer("Norm", [x], [x.shape], data)
        np.testing.assert_allclose(actual, x / (2 + 0.5 * total) ** 0.75, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", ["epsilon", "eps"])
def test_batch_normalization_divides_by_the_deviation(name):
    blobs = {"weights": np.float32([3, 0, 8]), "biases": np.float32([1, 2, 3])}
    (actual,) = run_layer("BatchNormalization", [X], [X.shape], {name: 1}, blobs)
    mean, variance = (blobs[key].reshape(3, 1, 1) for key in ("biases", "weights"))
    np.testing.assert_allclose(actual, (X - mean) / np.sqrt(variance + 1), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("dtype", [np.int32, np.float32])
def test_reductions_of_integers_are_integers(dtype):
    x, axes = INTEGERS.astype(dtype), StoredInput(np.float32([1]))
    for type, expected in (
        ("ReduceSum", x.sum(1, dtype)),
        ("ReduceMax", x.max(1)),
        ("ReduceSumSquare", (x**2).sum(1, dtype)),
        ("ReduceL1", abs(x).sum(1, dtype)),
        ("ReduceL2", np.sqrt((x**2).sum(1)).astype(np.float32)),
        ("ReduceLogSumExp", np.log(np.exp(x).sum(1)).astype(np.float32)),
    ):
        for keeps in (True, False):
            (actual,) = run_layer(type, [x, axes], [(2, 1) if keeps else (2,)], {"keep_dims": keeps}, version=6)
            assert actual.dtype == expected.dtype
            np.testing.assert_allclose(actual.ravel(), expected, rtol=1e-5)


def test_identity_is_added_to_each_row_of_six():
    x = make_random(2, 3, 4)
    expected = (x.reshape(4, 6) + np.float32([1, 0, 0, 0, 1, 0])).reshape(x.shape)
    np.testing.assert_allclose(run_layer("PowerFile", [x], [x.shape])[0], expected, rtol=1e-6)


def test_activation_of_an_activation_is_unsupported():
    for kind in ("activation", "Activation"):
        with pytest.raises(irrun.UnsupportedError, match=f"Activation:{kind}"):
            irrun.compile_model(build_layer("Activation", [X], [X.shape], {"type": kind}).read())
    with pytest.raises(irrun.ModelError, match="requires the attribute type"):
        build_layer("Activation", [X], [X.shape]).read()
