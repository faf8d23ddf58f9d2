"""Options of single layers in onnxruntime, the types and ranks of their inputs, and the nodes that they become."""

from __future__ import annotations

import numpy as np
import pytest
from ir_text import layer, net, port, write

pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")

import onnx

import irrun
from export.test_layers import POOL, check, make, run_exported
from irrun.conformance.cases import list_cases, load_generators
from irrun.element_types import ElementType


def integers(*values):
    return np.array(values, np.int64)


def number(value, dtype=np.int64):
    return np.array(value, dtype)


IMAGE = make(2, 3, 7, 8)
WINDOW = 'strides="2,2" pads_begin="1,0" pads_end="0,1" dilations="1,1" auto_pad="explicit"'
BOXES = np.array([[[0, 0, 2, 1], [0, 0, 1, 1], [0, 0, 0.5, 1], [5, 5, 6, 6]]], np.float32)
SCORES = np.array([[[0.9, 0.8, 0.7, 0.6]]], np.float32)


# -- ranks


@pytest.mark.parametrize(
    ("type", "version", "data", "values", "unranked", "outputs"),
    [
        ("AvgPool", "opset1", POOL.format(k="2,2", s="2,2", b="0,0", e="0,0", r="floor", a="explicit")
         + ' exclude-pad="true"', [IMAGE], [0], 1),
        ("MaxPool", "opset1", POOL.format(k="2,2", s="2,2", b="0,0", e="0,0", r="floor", a="explicit"), [IMAGE], [0],
         1),
        ("Convolution", "opset1", WINDOW, [IMAGE, make(4, 3, 3, 3)], [0], 1),
        ("GroupConvolution", "opset1", WINDOW, [IMAGE, make(3, 2, 1, 3, 3)], [0], 1),
        ("ConvolutionBackpropData", "opset1", WINDOW, [IMAGE, make(3, 2, 3, 3)], [0], 1),
        ("GroupConvolutionBackpropData", "opset1", WINDOW, [IMAGE, make(3, 1, 2, 3, 3)], [0], 1),
        ("Transpose", "opset1", "", [make(2, 3, 4), integers(2, 0, 1)], [0], 1),
        ("NonMaxSuppression", "opset9", 'box_encoding="corner" sort_result_descending="true" output_type="i64"',
         [BOXES, SCORES, number(3), number(0.4, "f4"), number(0.1, "f4")], [0, 1], 3),
        ("NonMaxSuppression", "opset9", 'box_encoding="center" sort_result_descending="true" output_type="i64"',
         [BOXES, SCORES, number(3), number(0.4, "f4"), number(0.1, "f4"), number(0.5, "f4")], [0, 1], 3),
        ("MatrixNms", "opset8", 'sort_result_type="score" output_type="i64" decay_function="linear"', [BOXES, SCORES],
         [0, 1], 3),
        ("MulticlassNms", "opset9", 'sort_result_type="score" output_type="i64" iou_threshold="0.4"',
         [BOXES, SCORES], [0, 1], 3),
    ],
)  # fmt: skip
def test_ranks_that_follow_from_the_operation(type, version, data, values, unranked, outputs, tmp_path):
    constants = [i for i in range(len(values)) if i not in unranked]
    check(tmp_path, type, version, data, values, constants=constants, unranked=unranked, outputs=outputs, rtol=1e-4)


@pytest.mark.parametrize("keep_dims", [True, False])
def test_ranks_of_reductions_over_variable_axes(keep_dims, tmp_path):
    values = [make(2, 3, 4), integers(0, 2)]
    check(tmp_path, "ReduceSum", "opset1", f'keep_dims="{str(keep_dims).lower()}"', values)
    (output,) = onnx.load(str(tmp_path / "model.onnx")).graph.output
    assert len(output.type.tensor_type.shape.dim) == (3 if keep_dims else 1)


# -- nodes


@pytest.mark.parametrize(
    ("type", "version", "data", "values", "expected"),
    [
        ("Pad", "opset1", 'pad_mode="reflect"', [make(3, 4), integers(1, 2), integers(0, 1)], ["Pad"]),
        ("Pad", "opset12", 'pad_mode="edge"', [make(3, 4), integers(1, -1), integers(0, 1)], ["Pad", "Slice"]),
        ("ScatterUpdate", "opset3", "", [make(3, 4), integers(2, 0), make(2, 4, seed=1), number(0)],
         ["Unsqueeze", "ScatterND"]),
        ("StridedSlice", "opset1", 'begin_mask="1,0" end_mask="0,1"',
         [make(3, 4), integers(1, 1), integers(2, 2), integers(1, 1)], ["Slice"]),
        ("ScatterNDUpdate", "opset15", 'reduction="none"', [make(3, 4), np.array([[0], [2]]), make(2, 4, seed=1)],
         ["ScatterND"]),
        ("Pad", "opset1", 'pad_mode="symmetric"', [make(3, 4), integers(0, 0), integers(0, 0)], []),
        ("Interpolate", "opset11", 'mode="nearest" shape_calculation_mode="sizes" nearest_mode="floor"'
         ' coordinate_transformation_mode="asymmetric"', [make(2, 3), integers(2, 3), integers(0, 1)], []),
        ("Split", "opset1", 'num_splits="1"', [make(2, 3), number(1)], []),
        ("VariadicSplit", "opset1", "", [make(2, 3), number(1), integers(3)], []),
        ("Squeeze", "opset1", "", [make(), integers(0)], []),
        ("Identity", "opset16", "", [make(2, 3)], []),
        ("Round", "opset5", 'mode="half_to_even"', [integers(1, 2)], []),
        ("CumSum", "opset3", "", [make(), number(0)], []),
    ],
)  # fmt: skip
def test_nodes_of_layers(type, version, data, values, expected, tmp_path):
    constants = [i for i, value in enumerate(values) if i and value.dtype.kind == "i"]
    found = check(tmp_path, type, version, data, values, constants=constants)
    assert [t for t in found if t != "Identity"] == expected


# -- options


@pytest.mark.parametrize("pad", ["same_upper", "same_lower", "valid"])
@pytest.mark.parametrize(("rates", "strides"), [("1,1", "2,3"), ("2,1", "1,2")])
def test_patches_of_images(pad, rates, strides, tmp_path):
    data = f'sizes="3,2" strides="{strides}" rates="{rates}" auto_pad="{pad}"'
    check(tmp_path, "ExtractImagePatches", "opset3", data, [IMAGE])


@pytest.mark.parametrize("dtype", ["f2", "f8", "i8", "u1"])
@pytest.mark.parametrize("mode", ["ZERO", "LOWEST"])
@pytest.mark.parametrize("count", [None, 2, 5])
def test_maxima_of_segments(count, mode, dtype, tmp_path):
    data = np.array([[1.5, -2.25], [0.5, 8], [-3, 7]], "f4").astype(dtype)
    if dtype == "i8":
        data[0, 0] = 1 << 40
    values = [data, np.array([0, 0, 3], np.int32), *([] if count is None else [number(count)])]
    check(tmp_path, "SegmentMax", "opset16", f'fill_mode="{mode}"', values, constants=[1, 2])


@pytest.mark.parametrize("dtype", ["f2", "i1"])
@pytest.mark.parametrize("uses", ["true", "false"])
@pytest.mark.parametrize("reduction", ["sum", "prod", "min", "max", "mean", "none"])
def test_elements_that_are_reduced(reduction, uses, dtype, tmp_path):
    data = np.array([[1, 2, 3], [-4, 5, -6]]).astype(dtype)
    indices = np.array([[0, 0, 2], [2, 2, 0]])
    updates = np.array([[-7, 4, 3], [2, -5, 9]]).astype(dtype)
    attributes = f'reduction="{reduction}" use_init_val="{uses}"'
    values = [data, indices, updates, number(1)]
    check(tmp_path, "ScatterElementsUpdate", "opset12", attributes, values, constants=[3])


@pytest.mark.parametrize("reduction", ["sum", "sub", "prod", "min", "max", "none"])
@pytest.mark.parametrize("dtype", ["f2", "u4", "i1"])
def test_slices_that_are_reduced(dtype, reduction, tmp_path):
    data = np.array([[10, 20], [30, 40], [50, 60]]).astype(dtype)
    updates = np.array([[2, 3], [4, 5], [6, 1]]).astype(dtype)
    values = [data, np.array([[0], [2], [0 if reduction != "none" else 1]]), updates]
    check(tmp_path, "ScatterNDUpdate", "opset15", f'reduction="{reduction}"', values, rtol=1e-3)


@pytest.mark.parametrize("batch_dims", [0, -1])
def test_batches_of_texts_and_numbers(batch_dims, tmp_path):
    texts = np.array([["a", "b"], ["c", "d"], ["e", "f"]], object)
    for data in (texts, make(3, 2)):
        for axis in (0, 1):
            values = [data, integers(1, 0), number(axis)]
            check(tmp_path, "Gather", "opset8", f'batch_dims="{batch_dims}"', values, constants=[2])


@pytest.mark.parametrize("dtype", ["f2", "f8", "i4"])
@pytest.mark.parametrize("shape", [(), (1,)])
def test_factors_of_selu(shape, dtype, tmp_path):
    data = np.array([-3, -1, 0, 1, 2, -0.25]).astype(dtype)
    factors = [np.full(shape, value).astype(dtype) for value in ((1.75, 1.25) if dtype[0] == "f" else (2, 3))]
    check(tmp_path, "Selu", "opset1", "", [data, *factors], constants=[1, 2], rtol=1e-3)
    check(tmp_path, "Selu", "opset1", "", [np.asarray(data[1]), *factors], rtol=1e-3)


@pytest.mark.parametrize("mode", ["TANH", "ERF"])
@pytest.mark.parametrize("dtype", ["f4", "f2", "f8"])
def test_kinds_of_gelu(dtype, mode, tmp_path):
    x = np.linspace(-3, 3, 13).astype(dtype)
    check(tmp_path, "Gelu", "opset7", f'approximation_mode="{mode}"', [x], rtol=1e-3 if dtype == "f2" else 1e-5)


@pytest.mark.parametrize("dtype", ["f2", "f4", "f8", "i1", "i4", "u1"])
def test_signs(dtype, tmp_path):
    x = np.array([0, 1, 2, 3]).astype(dtype)
    if np.dtype(dtype).kind == "f":
        x = np.array([np.nan, -np.inf, -0.5, 0, 2]).astype(dtype)
    elif np.dtype(dtype).kind == "i":
        x[1] = -5
    check(tmp_path, "Sign", "opset1", "", [x])


@pytest.mark.parametrize("exclusive", ["true", "false"])
@pytest.mark.parametrize("reverse", ["true", "false"])
@pytest.mark.parametrize("dtype", ["f2", "i4"])
def test_sums_of_all_elements_before(dtype, reverse, exclusive, tmp_path):
    data = f'exclusive="{exclusive}" reverse="{reverse}"'
    x = np.arange(1, 7).reshape(2, 3).astype(dtype)
    check(tmp_path, "CumSum", "opset3", data, [x, number(1, "i4")], constants=[1])
    check(tmp_path, "CumSum", "opset3", data, [x, number(0)])
    check(tmp_path, "CumSum", "opset3", data, [np.array(3).astype(dtype), number(0)], constants=[1])


@pytest.mark.parametrize(("axis", "expected"), [(number(1), ["CumSum"]), (integers(1), ["Reshape", "CumSum"])])
def test_axes_of_sums_become_scalars(axis, expected, tmp_path):
    assert check(tmp_path, "CumSum", "opset3", "", [make(2, 3), axis]) == expected


@pytest.mark.parametrize("mode", ["linear", "linear_onnx", "cubic", "bilinear_pillow"])
@pytest.mark.parametrize("scale", [1.2, 1.0])
def test_axes_that_keep_their_length_are_not_resized(scale, mode, tmp_path):
    data = f'mode="{mode}" shape_calculation_mode="scales" coordinate_transformation_mode="asymmetric"'
    values = [make(1, 2, 4, 4), np.float32([scale, 2]), integers(2, 3)]
    types = check(tmp_path, "Interpolate", "opset11", data, values, constants=[1, 2], rtol=1e-4)
    assert types.count("MatMul") == 1


@pytest.mark.parametrize(("type", "version", "count"), [("RNNCell", 3, 1), ("LSTMCell", 4, 4), ("LSTMCell", 1, 4)])
def test_cells_with_joined_weights(type, version, count, tmp_path):
    """One matrix multiplies the input and the state."""
    states = [make(1, 2, seed=i) for i in range(1 if count == 1 else 2)]
    values = [make(1, 3), *states, make(2 * count, 5, seed=3), make(2 * count, seed=4)]
    constants = [len(values) - 2, len(values) - 1]
    outputs = len(states)
    check(tmp_path, type, f"opset{version}", 'hidden_size="2"', values, constants=constants, outputs=outputs, rtol=1e-4)


@pytest.mark.parametrize("axes", [[-1], [0, 2]])
@pytest.mark.parametrize("dtype", ["f2", "i4", "u1"])
def test_reductions_of_types(dtype, axes, tmp_path):
    x = (np.arange(24).reshape(2, 3, 4) % 7 - (0 if dtype == "u1" else 3)).astype(dtype)
    for name in ("Sum", "Mean", "Min", "L1", "L2"):
        version = "opset4" if name[0] == "L" else "opset1"
        check(tmp_path, f"Reduce{name}", version, 'keep_dims="false"', [x, np.array(axes, np.int64)], constants=[1],
              rtol=2e-3 if dtype == "f2" else 1e-5)  # fmt: skip


@pytest.mark.parametrize("threshold", [0.5, 0.25, 1.0, 0.0])
def test_overlaps_that_equal_a_variable_threshold(threshold, tmp_path):
    values = [BOXES, SCORES, number(4), number(threshold, "f4"), number(0.0, "f4")]
    data = 'box_encoding="corner" sort_result_descending="true" output_type="i64"'
    check(tmp_path, "NonMaxSuppression", "opset9", data, values, constants=[2, 4], outputs=3)


@pytest.mark.parametrize("length", [3, 4])
@pytest.mark.parametrize("transposed", ["true", "false"])
def test_windows_of_transforms(transposed, length, tmp_path):
    values = [make(2, 9), np.abs(make(length, seed=1)), number(4), number(2)]
    types = check(tmp_path, "STFT", "opset15", f'transpose_frames="{transposed}"', values, constants=[2, 3], rtol=1e-4)
    assert ("Pad" in types) == (length < 4)


@pytest.mark.parametrize("rank", [3, 4])
@pytest.mark.parametrize("count", [6, 4])
def test_features_that_are_not_rotated(count, rank, tmp_path):
    data = 'rotary_ndims="4" is_interleaved="false" is_chatglm="false" is_qwen="false" support_2d_rope="false"'
    data += ' slice_start="0" slice_stop="0" head_cnt="0" head_size="0" gather_position_arg_id="0"'
    data += ' input_trans0213="false" output_trans0213="false"'
    values = [make(1, 2, 3, count)[0 if rank == 3 else slice(None)], make(1, 1, 3, 4, seed=1), make(1, 1, 3, 4, seed=2)]
    check(tmp_path, "RoPE", "ie_internal_opset", data, values, rtol=1e-4)


@pytest.mark.parametrize("shape", [(1, 3), (1, 1, 3, 1)])
def test_positions_of_rotated_features(shape, tmp_path):
    data = 'rotary_ndims="4" is_interleaved="false" is_chatglm="false" is_qwen="true" support_2d_rope="false"'
    data += ' slice_start="0" slice_stop="8" head_cnt="2" head_size="4" gather_position_arg_id="3"'
    data += ' input_trans0213="false" output_trans0213="false"'
    positions = np.array([4, 1, 2], np.int32).reshape(shape)
    values = [make(1, 3, 8), make(1, 6, 1, 4, seed=1), make(1, 6, 1, 4, seed=2), positions]
    check(tmp_path, "RoPE", "ie_internal_opset", data, values, rtol=1e-4)


@pytest.mark.parametrize("angles", [2, 4])
def test_angles_of_halves(angles, tmp_path):
    """The second half of the features has angles of its own, unless there are only as many as half of them."""
    data = 'rotary_ndims="4" is_interleaved="false" is_chatglm="false" is_qwen="false" support_2d_rope="false"'
    data += ' slice_start="0" slice_stop="0" head_cnt="0" head_size="0" gather_position_arg_id="0"'
    data += ' input_trans0213="false" output_trans0213="false"'
    values = [make(1, 2, 3, 4), make(1, 1, 3, angles, seed=1), make(1, 1, 3, angles, seed=2)]
    check(tmp_path, "RoPE", "ie_internal_opset", data, values, rtol=1e-4)


@pytest.mark.parametrize(
    ("type", "version", "data", "values", "message"),
    [
        ("Clamp", "opset1", 'min="2" max="1"', [make(2)], "min 2.0 is greater than max 1.0"),
        ("Convert", "opset1", 'destination_type="string"', [make(2)], "f32 cannot be converted to string"),
        ("BinaryConvolution", "opset1", f'{WINDOW} mode="xnor-popcount" pad_value="0.5"',
         [IMAGE, np.ones((4, 3, 3, 3), np.uint8)], "a pad_value of 0.5, expected 0 or 1"),
        ("RNNCell", "opset3", 'hidden_size="2" activations="exp"',
         [make(1, 2), make(1, 2), make(2, 2), make(2, 2), make(2)], "the activation function 'exp'"),
        ("RoPE", "ie_internal_opset", 'rotary_ndims="4" is_ltx_video="true"', [make(1, 2, 3, 4)] * 3,
         "is_ltx_video and support_3d_rope have no published definition"),
        ("RoPE", "ie_internal_opset", 'rotary_ndims="4" support_3d_rope="true"', [make(1, 2, 3, 4)] * 3,
         "is_ltx_video and support_3d_rope have no published definition"),
        ("LSTMSequence", "opset1", 'hidden_size="2" direction="forward" input_forget="true" '
         'activations="relu,tanh,tanh"', [make(1, 3, 2), make(1, 1, 2), make(1, 1, 2), integers(3), make(1, 8, 2),
                                          make(1, 8, 2), make(1, 8)],
         "input_forget with the activation function Relu"),
        ("LSTMSequence", "opset1", 'hidden_size="2" direction="forward"',
         [make(1, 3, 2), make(1, 1, 2), make(1, 1, 2), integers(3), make(1, 8, 2), make(1, 8, 2), make(1, 8), make(6)],
         "peepholes of an unsupported rank"),
        ("Selu", "opset1", "", [make(2), make()], "alpha or lambda is not connected"),
    ],
)  # fmt: skip
def test_options_that_cannot_be_exported(type, version, data, values, message, tmp_path):
    with pytest.raises(irrun.IrrunError, match=message):
        check(tmp_path, type, version, data, values, constants=range(1, len(values)))


# -- older and rarer layers


@pytest.mark.parametrize("mode", ["nearest", "linear", "cubic"])
@pytest.mark.parametrize(("rank", "axes"), [(4, [2, 3]), (4, [1, 2]), (3, [1, 2]), (5, [2, 3])])
@pytest.mark.parametrize("options", ['align_corners="false"', 'align_corners="true"', 'pads_begin="1" pads_end="1"'])
def test_coordinates_of_the_first_interpolation(options, rank, axes, mode, tmp_path):
    if options.startswith("pads"):
        options = f'align_corners="false" pads_begin="{"1," * (rank - 1)}0" pads_end="{"0," * (rank - 1)}1"'
    data = f'axes="{",".join(map(str, axes))}" mode="{mode}" {options} antialias="false"'
    values = [make(*(2, 3, 4, 3, 2)[:rank]), integers(7, 6)]
    check(tmp_path, "Interpolate", "opset1", data, values, constants=[1], rtol=1e-4)


@pytest.mark.parametrize("axis", [0, 1, 2, -1])
@pytest.mark.parametrize("rank", [1, 2, 3])
def test_axes_that_are_inputs(rank, axis, tmp_path):
    if axis < rank:
        shape = (2, 3, 4)[:rank]
        values = [make(*shape), np.zeros(shape, np.int64), make(*shape, seed=1), number(axis)]
        check(tmp_path, "ScatterElementsUpdate", "opset3", "", values)
        assert count_branches(onnx.load(str(tmp_path / "model.onnx")).graph) == rank - 1


def count_branches(graph):
    """Return the number of If nodes, with those inside others."""
    bodies = [a.g for node in graph.node for a in node.attribute if a.type == onnx.AttributeProto.GRAPH]
    return sum(node.op_type == "If" for node in graph.node) + sum(map(count_branches, bodies))


@pytest.mark.parametrize(
    ("classes", "kept", "background"), [(1, -1, 0), (1, -1, -1), (1, 2, 0), (2, 0, -1), (2, 3, 1), (3, -1, 2)]
)
@pytest.mark.parametrize("best", [-1, 0, 2])
def test_detections_of_few_classes(best, classes, kept, background, tmp_path):
    scores = np.random.default_rng(0).random((1, classes, 4)).astype(np.float32)
    data = f'sort_result_type="score" output_type="i64" keep_top_k="{kept}" background_class="{background}"'
    data += f' nms_top_k="{best}"'
    for type, own in (("MulticlassNms", ' iou_threshold="0.4"'), ("MatrixNms", "")):
        check(tmp_path, type, "opset9", data + own, [BOXES, scores], outputs=3, rtol=1e-4)
    padded = data + ' iou_threshold="0.4"'
    check(tmp_path, "MulticlassNmsIEInternal", "ie_internal_opset", padded, [BOXES, scores], outputs=3, rtol=1e-4)


@pytest.mark.parametrize("decreases", [False, True])
@pytest.mark.parametrize("limits", [(-1, -1), (3, 4), (-1, 3), (20, 1), (-1, 50), (0, 2)], ids=str)
def test_limits_of_detections(limits, decreases, tmp_path):
    """The limits of an image and of a class; with `decrease_label_id`, a box belongs to its best class only."""
    load_generators()
    case = list_cases("DetectionOutput", 8)[0]
    kept, best = limits
    changes = {"keep_top_k": kept, "top_k": best, "decrease_label_id": decreases, "confidence_threshold": 0.1}
    texts = {name: str(value).lower() for name, value in (case.attributes | changes).items() if name != "code_type"}
    data = f'code_type="{case.attributes["code_type"]}" ' + " ".join(f'{name}="{x}"' for name, x in texts.items())
    check(tmp_path, "DetectionOutput", "opset8", data, case.inputs, rtol=1e-4)


WIDE = 'strides="1,1" pads_begin="2,2" pads_end="2,2" kernel="2,2" rounding_type="floor" auto_pad="explicit"'


@pytest.mark.parametrize("dtype", ["f4", "f2", "i1", "u1", "i4"])
@pytest.mark.parametrize("dynamic", [False, True])
def test_windows_inside_the_padding_have_the_lowest_value(dynamic, dtype, tmp_path):
    x = (make(1, 2, 3, 4) * 9).astype(dtype)
    check(tmp_path, "MaxPool", "opset1", WIDE, [x], dynamic=dynamic)


def test_cells_without_biases(tmp_path):
    for type, version, gates, states in (("RNNCell", 3, 1, 1), ("GRUCell", 3, 3, 1)):
        values = [make(2, 3), make(2, 2, seed=1), make(2 * gates, 3, seed=2), make(2 * gates, 2, seed=3)]
        check(tmp_path, type, f"opset{version}", 'hidden_size="2"', values, constants=[2, 3], outputs=states, rtol=1e-4)


@pytest.mark.parametrize("couples", ["true", "false"])
def test_peepholes_of_sequences(couples, tmp_path):
    data = f'hidden_size="2" direction="forward" input_forget="{couples}"'
    values = [make(1, 3, 2), make(1, 1, 2, seed=1), make(1, 1, 2, seed=2), integers(3), make(1, 8, 2, seed=3),
              make(1, 8, 2, seed=4), make(1, 8, seed=5), make(1, 6, seed=6)]  # fmt: skip
    check(tmp_path, "LSTMSequence", "opset1", data, values, constants=range(3, 8), outputs=3, rtol=1e-4)


@pytest.mark.parametrize("type", ["RDFT", "IRDFT"])
def test_transforms_over_no_axes(type, tmp_path):
    x = make(3, 4) if type == "RDFT" else make(3, 4, 2)
    check(tmp_path, type, "opset9", "", [x, np.zeros(0, np.int64)], constants=[1])


@pytest.mark.parametrize("type", ["ReduceMax", "ReduceMin", "ReduceSum", "ReduceProd", "ReduceLogicalAnd"])
def test_reductions_of_booleans(type, tmp_path):
    x = np.array([[True, False], [True, True]])
    check(tmp_path, type, "opset1", 'keep_dims="false"', [x, integers(1)], constants=[1])


@pytest.mark.parametrize("dtype", ["f2", "i4", "i8"])
def test_types_of_tables(dtype, tmp_path):
    table, indices = np.arange(12).reshape(4, 3).astype(dtype), np.array([[0, 3], [1, 1]])
    check(tmp_path, "EmbeddingBagPackedSum", "opset3", "", [table, indices], constants=[1])
    offsets = [np.array([0, 3, 1]), integers(0, 2), number(2)]
    check(tmp_path, "EmbeddingBagOffsetsSum", "opset3", "", [table, *offsets], constants=[1, 2, 3])


@pytest.mark.parametrize("has_mask", [True, False])
@pytest.mark.parametrize("dtype", ["f4", "i4"])
def test_deformable_convolutions_of_types(dtype, has_mask, tmp_path):
    data = 'strides="1,1" pads_begin="0,0" pads_end="0,0" dilations="1,1" auto_pad="explicit"'
    numbers = np.random.default_rng(0).integers(-3, 4, (1, 2, 5, 5)), np.zeros((1, 8, 4, 4))
    values = [*numbers, np.random.default_rng(1).integers(-3, 4, (3, 2, 2, 2)), np.full((1, 4, 4, 4), 2)]
    values = [value.astype(dtype) for value in values[: 4 if has_mask else 3]]
    check(tmp_path, "DeformableConvolution", "opset8", data, values, constants=[2], rtol=1e-4)


@pytest.mark.parametrize("default", [-1, 0, 2])
def test_rows_of_empty_segments(default, tmp_path):
    values = [make(4, 3), integers(1, 3, 3), integers(0, 2, 2), number(4), number(default)]
    check(tmp_path, "EmbeddingSegmentsSum", "opset3", "", values, constants=[1, 2, 3, 4])


@pytest.mark.parametrize(("length", "expected"), [(9, ["ConvTranspose"]), (8, ["ConvTranspose"]),
                                                  (10, ["ConvTranspose", "Pad"])])  # fmt: skip
def test_sizes_of_transposed_convolutions(length, expected, tmp_path):
    """Rows after the last window are zero."""
    data = 'strides="2,2" pads_begin="0,0" pads_end="0,0" dilations="1,1" auto_pad="explicit"'
    values = [make(1, 3, 4, 4), make(3, 2, 3, 3), integers(length, length)]
    assert check(tmp_path, "ConvolutionBackpropData", "opset1", data, values, constants=[2], rtol=1e-4) == expected


@pytest.mark.parametrize("kind", ["f8e4m3", "f8e5m2", "u4", "i4", "f16", "boolean"])
@pytest.mark.parametrize("dtype", ["f4", "i4"])
def test_types_of_conversions(dtype, kind, tmp_path):
    x = np.array([0, 1, 2, 7, 100000]).astype(dtype)
    layers = 'destination_type="{}"'
    if kind in ("boolean", "f16"):
        check(tmp_path, "Convert", "opset1", layers.format(kind), [x])
        return
    model = irrun.read_model(write(tmp_path, chain_conversions(dtype, kind)))
    x = x[:4]
    irrun.export_onnx(model, tmp_path / "model.onnx")
    (found,) = run_exported(tmp_path / "model.onnx", [x])
    np.testing.assert_array_equal(found, irrun.run(model, x)[0])


def chain_conversions(dtype, kind):
    """Return a model that converts 4 numbers to a type and then to f32."""
    given = ElementType.of(np.dtype(dtype))
    layers = [
        layer(0, "Parameter", data=f'shape="4" element_type="{given}"', outputs=[port(0, (4,))]),
        layer(1, "Convert", data=f'destination_type="{kind}"', inputs=[port(0)], outputs=[port(1, (4,))]),
        layer(2, "Convert", data='destination_type="f32"', inputs=[port(0)], outputs=[port(1, (4,))]),
        layer(3, "Result", inputs=[port(0)]),
    ]
    return net(layers, [(0, 0, 1, 0), (1, 1, 2, 0), (2, 1, 3, 0)])
