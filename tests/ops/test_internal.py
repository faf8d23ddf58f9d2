"""Internal operations, and operations of "type_relaxed_opset"."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest

import irrun
from irrun.errors import InputError, UnsupportedError
from irrun.ops._support import registry
from irrun.ops.internal.compressed_weights import fully_connected_compressed
from irrun.ops.internal.fused_activations import glu, leaky_relu, power_static, rms
from irrun.ops.internal.rope import rope
from irrun.ops.internal.sparse_fill_empty_rows_legacy import sparse_fill_empty_rows_legacy
from irrun.ops.internal.state_spaces import gated_delta_net, paged_causal_conv_1d
from irrun.ops.internal.static_nms import (
    matrix_nms_static,
    multiclass_nms_static,
    non_max_suppression_ie_internal,
)
from irrun.ops.internal.type_relaxed import RelaxedOperation
from irrun.packing import unpack

RELAXED = "type_relaxed_opset"


def run_relaxed(type, attributes, *inputs):
    operation = registry.find(type, RELAXED)
    return operation.kernel(*inputs, **operation.bind(attributes))


def test_relaxed_mat_mul_converts_integers():
    a = np.array([[200, 3], [7, 255]], np.uint8)
    b = np.array([[-100, 5], [2, -128]], np.int8)
    attributes = {"type_relax": "true", "transpose_a": "false", "transpose_b": "true"}
    types = {"input_data_types": "f32, f32", "output_data_types": "f32"}
    result = run_relaxed("MatMul", attributes | types, a, b)
    assert result.dtype == np.float32
    np.testing.assert_array_equal(result, a.astype(np.float32) @ b.T.astype(np.float32))


def test_relaxed_output_is_rounded_toward_zero():
    x = np.array([1.75, -2.5, 3.0], np.float32)
    types = {"input_data_types": "undefined", "output_data_types": "i8"}
    result = run_relaxed("Relu", types, x)
    assert result.dtype == np.int8
    np.testing.assert_array_equal(result, [1, 0, 3])


def test_inputs_without_a_relaxed_type_keep_theirs():
    x = np.array([3, 5], np.int64)
    result = run_relaxed("Equal", {"input_data_types": "i64", "output_data_types": "f32"}, x, np.array([3, 4]))
    assert (result.dtype, result.tolist()) == (np.float32, [1, 0])


def test_relaxed_version_is_selected_by_attributes():
    operation = registry.find("Softmax", RELAXED)
    assert isinstance(operation, RelaxedOperation)
    assert operation.select_version({"axis": "1"}).since == 8
    pool = registry.find("MaxPool", RELAXED)
    assert isinstance(pool, RelaxedOperation)
    old = {"strides": "1,1", "pads_begin": "0,0", "pads_end": "0,0", "kernel": "2,2"}
    old |= {"rounding_type": "floor", "auto_pad": "explicit"}
    assert pool.select_version(old).since == 1
    new = old | {"dilations": "1,1", "index_element_type": "i64", "axis": "0"}
    assert pool.select_version(new).since >= 8
    assert pool.find_unknown(new | {"type_relax": "true", "colour": "red"}) == ["colour"]


def test_unknown_relaxed_operation_is_not_found():
    assert registry.find("NoSuchOperation", RELAXED) is None


@pytest.mark.parametrize("version", ["extension", "experimental"])
def test_older_opset_names_denote_numbered_operations(version):
    for type, since in (("GRUCell", 3), ("RNNCell", 1), ("Proposal", 4), ("ExperimentalDetectronTopKROIs", 6)):
        assert str(registry.find(type, version)) == f"{type}-{since}"
    assert registry.find("NoSuchOperation", version) is None


def test_relaxed_layer_in_file(tmp_path):
    ov = pytest.importorskip("openvino")
    from openvino import opset13 as ops

    from irrun.conformance.layers import compute_nodes, define_layer

    data = np.arange(24, dtype=np.uint8).reshape(1, 2, 3, 4)
    weights = np.arange(-6, 6, dtype=np.int8).reshape(3, 2, 2, 1)
    sum_in_f32 = ops.convolution(
        ops.constant(data.astype(np.float32)),
        ops.constant(weights.astype(np.float32)),
        [1, 1],
        [0, 0],
        [0, 0],
        [1, 1],
    )
    expected = compute_nodes(sum_in_f32)
    attributes = {
        "type_relax": True,
        "input_data_types": "f32, f32",
        "output_data_types": "f32",
        "strides": "1, 1",
        "dilations": "1, 1",
        "pads_begin": "0, 0",
        "pads_end": "0, 0",
        "auto_pad": "explicit",
    }
    build = define_layer("Convolution", RELAXED, [data, weights], attributes, expected, constants=[1])
    ov.serialize(build(), tmp_path / "model.xml")
    result = irrun.compile_model(tmp_path / "model.xml")(data)
    np.testing.assert_array_equal(result[0], expected[0])


def test_fully_connected_decompresses_four_bit_weights():
    rng = np.random.default_rng(1)
    codes = rng.integers(0, 16, (3, 8))
    packed = (codes.reshape(-1, 2)[:, 0] | codes.reshape(-1, 2)[:, 1] << 4).astype(np.uint8)
    weights = unpack(irrun.element_types.ElementType.parse("u4"), packed, (3, 8))
    x, scale = rng.normal(size=(2, 8)).astype(np.float32), np.full((3, 2), 0.5, np.float32)
    scale[1, 1] = 2
    zero_point = np.array([[3]], np.uint8)
    result = fully_connected_compressed(x, weights, np.zeros(0, np.float32), scale, zero_point)
    expected = x @ ((codes - 3.0) * np.repeat(scale, 4, axis=1)).T
    np.testing.assert_allclose(result, expected, rtol=1e-5, atol=1e-5)


def test_mismatched_inputs_are_reported():
    x = np.zeros((1, 2, 3, 4), np.float32)
    with pytest.raises(InputError, match="half of the 4"):
        glu(x, axis=-1, split_lengths=1)
    with pytest.raises(UnsupportedError, match="is_ltx_video"):
        rope(x, x, x, is_ltx_video=True)
    with pytest.raises(InputError, match="gather_position_arg_id is 3"):
        rope(x, x, x, rotary_ndims=4, gather_position_arg_id=3)
    with pytest.raises(InputError, match="scale or zero point"):
        fully_connected_compressed(x, np.zeros((2, 4), np.int8), x[:0], np.ones((2, 3), np.float32))
    with pytest.raises(InputError, match=r"scale or zero point of shape \[2, 2, 2\] does not match data \[2, 4\]"):
        fully_connected_compressed(x, np.zeros((2, 4), np.int8), x[:0], np.ones((2, 2, 2), np.float32))
    with pytest.raises(InputError, match=r"scale or zero point of shape \[2, 0\]"):
        fully_connected_compressed(x, np.zeros((2, 4), np.int8), x[:0], np.ones((2, 0), np.float32))
    for shape in ((2, 3), (4,)):
        with pytest.raises(InputError, match=r"X has shape \[1, 2, 3, 4\] and W .*, expected \[..., I\] and \[O, I\]"):
            fully_connected_compressed(x, np.zeros(shape, np.int8), x[:0], np.float32(1))
    with pytest.raises(InputError, match=r"X has shape \[\]"):
        fully_connected_compressed(x[0, 0, 0, 0], np.zeros((1, 1), np.int8), x[:0], np.float32(1))
    with pytest.raises(InputError, match="RoPE requires its input 2, the sines"):
        rope(x, x, rotary_ndims=4)
    with pytest.raises(UnsupportedError, match="support_3d_rope"):
        rope(x, x, x, support_3d_rope=True)
    for argument in (1, 2, 4):
        with pytest.raises(InputError, match=f"gather_position_arg_id is {argument}"):
            rope(x, x, x, x, rotary_ndims=4, gather_position_arg_id=argument)


def test_rows_of_an_old_sparse_matrix_must_fit_into_its_outputs():
    indices, values = np.array([[0, 0], [2, 1]], np.float32), np.array([5, 7], np.float32)
    shape, default = np.array([4, 3], np.float32), np.array(9, np.float32)
    with pytest.raises(InputError, match="found 2 values and 2 empty rows, expected at most 3 in total"):
        sparse_fill_empty_rows_legacy(indices, values, shape, default, count=3)
    for count in (4, 6):
        rows, filled, flags = sparse_fill_empty_rows_legacy(indices, values, shape, default, count=count)
        assert rows.tolist() == [[0, 0], [1, 0], [2, 1], [3, 0], [-1, -1], [0, 0]][:count]
        assert filled.tolist() == [5, 9, 7, 9, 0, 0][:count]
        assert flags.tolist() == [0, 1, 0, 1]


@pytest.mark.parametrize("outside", [[-1, 0], [0, -1], [4, 0], [0, 3]])
def test_values_of_an_old_sparse_matrix_end_at_the_first_index_outside(outside):
    indices, values = np.array([[1, 2], outside, [3, 0]], np.float32), np.array([5, 6, 7], np.float32)
    rows, filled, flags = sparse_fill_empty_rows_legacy(
        indices, values, np.array([4, 3], np.float32), np.array(9, np.float32), count=5
    )
    assert rows.tolist() == [[0, 0], [1, 2], [2, 0], [3, 0], [-1, -1]]
    assert filled.tolist() == [9, 5, 9, 9, 0]
    assert flags.tolist() == [1, 0, 1, 1]


CORNERS = np.array([[[0, 0, 1, 1], [2, 2, 3, 3], [4, 4, 5, 5]]] * 2, np.float32)
CONFIDENCES = np.array([[[0.9, 0.8, 0.7], [0.3, 0.2, 0.1]]] * 2, np.float32)


@pytest.mark.parametrize("kernel", [matrix_nms_static, partial(multiclass_nms_static, iou_threshold=0.5)])
@pytest.mark.parametrize(
    ("limits", "rows"),
    [
        ({}, 6),
        ({"nms_top_k": 2}, 4),
        ({"nms_top_k": 9}, 6),
        ({"nms_top_k": 0}, 0),
        ({"nms_top_k": -1}, 6),
        ({"keep_top_k": 5}, 5),
        ({"keep_top_k": 7}, 6),
        ({"keep_top_k": 0}, 0),
        ({"keep_top_k": -1}, 6),
        ({"background_class": 0}, 3),
        ({"background_class": 1}, 3),
        ({"background_class": 2}, 6),
        ({"background_class": 1, "nms_top_k": 1, "keep_top_k": 5}, 1),
    ],
)
def test_static_suppression_returns_a_fixed_number_of_rows_per_image(kernel, limits, rows):
    outputs, indices, counts = kernel(CORNERS, CONFIDENCES, sort_result_type="score", **limits)
    assert outputs.shape == (2 * rows, 6)
    assert indices.shape == (2 * rows, 1)
    assert counts.tolist() == [rows, rows]
    fewer, positions, counts = kernel(CORNERS, CONFIDENCES, score_threshold=0.75, **limits)
    assert fewer.shape == (2 * rows, 6)
    kept = counts.tolist()[0]
    assert kept == min(rows, 0 if limits.get("background_class") == 0 else 2)
    is_padding = np.arange(rows) >= kept
    np.testing.assert_array_equal((positions.reshape(2, -1) == -1), [is_padding, is_padding])
    np.testing.assert_array_equal((fewer.reshape(2, -1, 6) == -1).all(axis=-1), [is_padding, is_padding])


@pytest.mark.parametrize("kernel", [matrix_nms_static, multiclass_nms_static])
def test_static_suppression_of_no_images_is_empty(kernel):
    outputs, indices, counts = kernel(CORNERS[:0], CONFIDENCES[:0])
    assert (outputs.shape, indices.shape, counts.shape) == ((0, 6), (0, 1), (0,))


@pytest.mark.parametrize(("limit", "length"), [(0, 0), (1, 4), (2, 8), (3, 12), (9, 12), (-1, 12), (-7, 12)])
def test_internal_suppression_pads_to_the_largest_number_of_boxes(limit, length):
    indices, scores, count = non_max_suppression_ie_internal(
        CORNERS, CONFIDENCES, np.array(limit), np.float32(0.5), np.float32(0.25), sort_result_descending=False
    )
    assert indices.shape == scores.shape == (length, 3)
    kept = 3 if limit < 0 else limit  # the reference implementation reads a negative number as a huge one
    per_image = [[0, 0], [0, 1], [0, 2]][:kept] + [[1, 0]][:kept]
    expected = [[image, *row] for image in (0, 1) for row in per_image]
    assert count.tolist() == [len(expected)]
    assert indices[: len(expected)].tolist() == expected
    assert (indices[len(expected) :] == -1).all()
    assert (scores[len(expected) :] == -1).all()
    np.testing.assert_array_equal(scores[: len(expected), 2], [CONFIDENCES[tuple(i)] for i in expected])


def test_rms_multiplies_by_gamma_only_if_it_is_affine():
    x, gamma = np.array([[3, 4]], np.float32), np.array([2, 10], np.float32)
    plain = x / np.sqrt(12.5, dtype=np.float32)
    np.testing.assert_allclose(rms(x, epsilon=0.0), plain, rtol=1e-6)
    np.testing.assert_allclose(rms(x, gamma, epsilon=0.0), plain * gamma, rtol=1e-6)
    np.testing.assert_allclose(rms(x, gamma, epsilon=0.0, elementwise_affine=False), plain, rtol=1e-6)


def make_delta_net(*, value_heads=4, **changes):
    inputs = {
        "query": np.ones((1, 3, 2, 4), np.float32),
        "key": np.ones((1, 3, 2, 4), np.float32),
        "value": np.ones((1, 3, value_heads, 5), np.float32),
        "recurrent_state": np.zeros((1, value_heads, 4, 5), np.float32),
        "gate": np.zeros((1, 3, value_heads), np.float32),
        "beta": np.ones((1, 3, value_heads), np.float32),
    }
    return list((inputs | changes).values())


def test_gated_delta_net_recalls_what_it_learnt():
    inputs = make_delta_net(key=np.eye(4, dtype=np.float32)[None, :3, None].repeat(2, axis=2))
    inputs[0] = inputs[1]
    inputs[2] = np.arange(60, dtype=np.float32).reshape(1, 3, 4, 5)
    outputs, state = gated_delta_net(*inputs)
    np.testing.assert_array_equal(outputs, inputs[2] / 2)  # orthonormal keys; queries are divided by sqrt(4)
    np.testing.assert_array_equal(state[0, :, :3], inputs[2][0].transpose(1, 0, 2))
    assert not state[0, :, 3].any()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"value_heads": 3}, "value has 3 heads, expected a multiple of the 2 of query"),
        ({"key": np.ones((1, 3, 2, 3), np.float32)}, r"key has shape \[1, 3, 2, 3\], expected \[1, 3, 2, 4\]"),
        ({"gate": np.ones((1, 3), np.float32)}, "gate has shape"),
        ({"recurrent_state": np.ones((1, 4, 5, 4), np.float32)}, "recurrent_state has shape"),
        ({"query": np.ones((3, 2, 4), np.float32)}, "query has shape .* expected a tensor of rank 4"),
    ],
)
def test_gated_delta_net_checks_shapes(changes, message):
    with pytest.raises(InputError, match=message):
        gated_delta_net(*make_delta_net(**changes))


@pytest.mark.parametrize(("rows", "begins"), [([7], [0, 1]), ([-1], [0, 1]), ([0], [1, 1]), ([], [0, 0])])
def test_sequences_need_a_row_of_the_table(rows, begins):
    tokens, table = np.ones((2, 3), np.float32), np.zeros((4, 3, 2), np.float32)
    indices = [np.array(x, np.int32) for x in ([0, 2], rows, begins, [0], [0])]
    with pytest.raises(InputError, match="sequence 0 has no row of the table, which has 4"):
        paged_causal_conv_1d(tokens, table, np.ones((3, 1, 2), np.float32), np.zeros(3, np.float32), *indices)


def test_tables_of_states_are_not_modified():
    tokens, table = np.ones((2, 3), np.float32), np.zeros((4, 3, 2), np.float32)
    indices = [np.array(x, np.int32) for x in ([0, 2], [1, 1], [0, 2], [0], [1])]
    result = paged_causal_conv_1d(tokens, table, np.ones((3, 1, 2), np.float32), np.zeros(0, np.float32), *indices)
    np.testing.assert_array_equal(result, [[1, 1, 1], [2, 2, 2]])
    assert not table.any()


def test_functions_with_constants_compute_in_f64_or_f32():
    third = np.array([-1 / 3, 2 / 3])
    np.testing.assert_array_equal(power_static(third, power=2.0, scale=3.0, shift=0.1), (third * 3 + 0.1) ** 2)
    np.testing.assert_array_equal(leaky_relu(third, negative_slope=0.3), [third[0] * 0.3, third[1]])
    integers = power_static(np.array([5, -5]), power=1.0, scale=0.5, shift=0.25)
    assert (integers.dtype, integers.tolist()) == (np.int64, [2, -2])
    halves = power_static(np.array([1, 2], np.float16), scale=1 / 3, out_type="f32")
    np.testing.assert_array_equal(halves, np.array([1, 2], np.float32) * np.float32(1 / 3))
