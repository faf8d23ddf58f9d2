"""Layers with dynamic dimensions, with axes and lists that are inputs of the model, and with types that are converted.

Each case is exported and compared with irrun, in onnxruntime.
"""

from __future__ import annotations

import itertools

import numpy as np
import pytest

pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")

import irrun
from export.test_layers import check, make
from irrun.element_types import ElementType

IMAGE = make(1, 2, 4, 6)


def integers(*values):
    return np.array(values, np.int64)


def number(value, dtype=np.int64):
    return np.array(value, dtype)


#: Type, opset, attributes, inputs.
MOVEMENTS = [
    ("Squeeze", "opset1", "", [make(1, 3, 1), integers(0)]),
    ("Squeeze", "opset1", "", [make(1, 3, 1), integers(-1, 0)]),
    ("Squeeze", "opset1", "", [make(1, 3, 1)]),
    ("Squeeze", "opset1", "", [make(1, 3, 1), np.zeros(0, np.int64)]),
    ("Unsqueeze", "opset1", "", [make(2, 3), integers(1)]),
    ("Unsqueeze", "opset1", "", [make(2, 3), integers(0, -1)]),
    ("Transpose", "opset1", "", [make(2, 3, 4), integers(2, 0, 1)]),
    ("Transpose", "opset1", "", [make(2, 3, 4), np.zeros(0, np.int64)]),
    ("Reshape", "opset1", 'special_zero="true"', [make(2, 3, 4), integers(0, -1)]),
    ("Reshape", "opset1", 'special_zero="false"', [make(0, 3), integers(3, 0)]),
    ("ShapeOf", "opset3", 'output_type="i32"', [make(2, 3)]),
    ("VariadicSplit", "opset1", "", [make(2, 7), number(1), integers(2, -1, 1)]),
    ("VariadicSplit", "opset1", "", [make(7, 2), number(-2), integers(-1, 2, 4)]),
    ("Tile", "opset1", "", [make(2, 3), integers(2, 1, 2)]),
    ("Tile", "opset1", "", [make(2, 1, 3), integers(3, 2)]),
    ("Broadcast", "opset3", 'mode="bidirectional"', [make(3, 1), integers(2, 1, 4)]),
    ("Broadcast", "opset3", 'mode="numpy"', [make(3, 1), integers(2, 3, 4)]),
    ("Reverse", "opset1", 'mode="index"', [make(3, 4), integers(-1)]),
    ("Reverse", "opset1", 'mode="mask"', [make(3, 4), np.array([True, False])]),
    ("Roll", "opset7", "", [make(3, 4), integers(2, -1), integers(0, -1)]),
    ("Roll", "opset7", "", [make(3, 4), number(1), integers(1, 0)]),
    ("ReverseSequence", "opset1", 'batch_axis="-1" seq_axis="0"', [make(4, 2, 3), integers(1, 4, 2)]),
    ("Gather", "opset8", 'batch_dims="0"', [make(3, 4), np.array([[2, 0], [1, 1]]), number(1)]),
    ("Gather", "opset8", 'batch_dims="1"', [make(2, 3, 4), np.array([[2, 0, -1], [1, 1, 7]]), number(2)]),
    ("Gather", "opset8", 'batch_dims="-1"', [make(2, 3), np.array([[2], [1]]), number(-1)]),
    ("GatherElements", "opset6", 'axis="-1"', [make(2, 3), np.array([[2, 0], [1, 1]])]),
    ("GatherND", "opset8", 'batch_dims="1"', [make(2, 3, 4), np.array([[[2]], [[0]]])]),
    ("GatherND", "opset5", 'batch_dims="2"', [make(2, 3, 4), np.zeros((2, 3, 1), np.int64)]),
    ("ScatterUpdate", "opset3", "", [make(3, 4), integers(2, 0), make(3, 2, seed=1), number(1)]),
    ("ScatterUpdate", "opset3", "", [make(3, 4), np.array([[2], [0]]), make(2, 1, 4, seed=1), number(0)]),
    ("SpaceToBatch", "opset2", "", [make(1, 4, 5), integers(1, 2, 3), integers(0, 1, 0), integers(0, 1, 1)]),
    ("BatchToSpace", "opset2", "", [make(6, 2, 3), integers(1, 2, 3), integers(0, 1, 0), integers(0, 0, 2)]),
    ("DepthToSpace", "opset1", 'mode="depth_first" block_size="2"', [make(1, 8, 2, 3)]),
    ("DepthToSpace", "opset1", 'mode="blocks_first" block_size="2"', [make(1, 8, 2, 3)]),
    ("DepthToSpace", "opset1", 'mode="depth_first" block_size="2"', [make(1, 8, 2)]),
    ("DepthToSpace", "opset1", 'mode="blocks_first" block_size="2"', [make(1, 8, 2)]),
    ("SpaceToDepth", "opset1", 'mode="blocks_first" block_size="2"', [IMAGE]),
    ("SpaceToDepth", "opset1", 'mode="depth_first" block_size="2"', [IMAGE]),
    ("SpaceToDepth", "opset1", 'mode="depth_first" block_size="2"', [make(1, 2, 4)]),
    ("ShuffleChannels", "opset1", 'axis="-3" group="2"', [make(1, 6, 2, 2)]),
    ("SliceScatter", "opset15", "", [make(3, 4), make(2, 4, seed=1), integers(0), integers(3), integers(2),
                                     integers(0)]),
    ("SliceScatter", "opset15", "", [make(3, 4), make(3, 2, seed=1), integers(0, 3), integers(9, -9),
                                     integers(1, -2)]),
    ("OneHot", "opset1", 'axis="-1"', [integers(1, 4, -1), number(3), number(2, "f4"), number(-1, "f4")]),
    ("OneHot", "opset16", 'axis="0" negative_indices_mode="normalize"',
     [np.array([[1, 4], [-1, -3]]), number(3), number(5, "i4"), number(-1, "i4")]),
    ("Eye", "opset9", 'output_type="f32"', [number(3), number(4), number(1)]),
    ("Eye", "opset9", 'output_type="i32"', [number(3), number(4), number(-1), integers(2, 1)]),
    ("NonZero", "opset3", 'output_type="i32"', [np.float32([[0, 1.5], [-2, 0]])]),
    ("NonZero", "opset3", 'output_type="i64"', [np.array([[False, True], [True, False]])]),
    ("TopK", "opset11", 'axis="0" mode="min" sort="index" index_element_type="i64" stable="false"',
     [make(5, 2), number(3)]),
    ("TopK", "opset11", 'axis="-1" mode="max" sort="value" index_element_type="i32" stable="false"',
     [make(2, 5), number(2)]),
    ("CumSum", "opset3", 'exclusive="true" reverse="false"', [make(3, 4), number(-1)]),
    ("CumSum", "opset3", 'exclusive="false" reverse="true"', [make(3, 4), np.array([0], np.int32)]),
    ("Einsum", "opset7", 'equation="...ij,j...->i..."', [make(2, 3, 4), make(4, 2, seed=1)]),
    ("Einsum", "opset7", 'equation="...i,...i->..."', [make(2, 3, 4), make(3, 4, seed=1)]),
]  # fmt: skip

OUTPUTS = {"VariadicSplit": 3, "TopK": 2}


def take_constants(type, values):
    """Return the positions of integers that are constants in most models."""
    return [i for i, value in enumerate(values) if i and value.dtype.kind in "iu" and value.ndim < 2]


@pytest.mark.parametrize("case", range(len(MOVEMENTS)), ids=lambda i: f"{MOVEMENTS[i][0]}-{i}")
@pytest.mark.parametrize("dynamic", [False, True])
def test_shapes_and_positions(case, dynamic, tmp_path):
    type, version, data, values = MOVEMENTS[case]
    outputs = OUTPUTS.get(type, 1)
    constants = take_constants(type, values)
    if type == "ShapeOf" and not dynamic:
        return  # the result is a constant of the type of the port, which is not declared here
    if type == "Tile" or type == "Unsqueeze" or not constants:
        check(tmp_path, type, version, data, values, dynamic=dynamic and type != "Tile", outputs=outputs)
    if constants:
        check(tmp_path, type, version, data, values, constants=constants, dynamic=dynamic, outputs=outputs)


#: Operations whose lists may be inputs of the model, with a rank that is known from their lengths.
VARIABLE = ("Squeeze", "Transpose", "Reshape", "VariadicSplit", "Broadcast", "Reverse", "SpaceToBatch", "BatchToSpace",
            "SliceScatter", "OneHot", "Eye", "CumSum")  # fmt: skip


@pytest.mark.parametrize(
    "case",
    [i for i, c in enumerate(MOVEMENTS) if c[0] in VARIABLE and len(c[3]) > 1],
    ids=lambda i: f"{MOVEMENTS[i][0]}-{i}",
)
def test_lists_that_are_inputs_of_the_model(case, tmp_path):
    type, version, data, values = MOVEMENTS[case]
    check(tmp_path, type, version, data, values, outputs=OUTPUTS.get(type, 1))


SLICES = [
    ([1, 0], [3, 5], [1, 2], {}),
    ([1, -1], [-1, 0], [1, -2], {}),
    ([3, 4], [0, 1], [-1, -1], {"begin_mask": "1,0", "end_mask": "0,1"}),
    ([0, 1], [2, 2], [1, 1], {"begin_mask": "0,1", "end_mask": "1,0"}),
    ([1, 2], [9, 9], [1, 1], {"shrink_axis_mask": "1,0"}),
    ([-1, -1], [0, 0], [1, 1], {"shrink_axis_mask": "1,1"}),
    ([-1, 1], [0, 4], [1, 1], {"shrink_axis_mask": "1,0", "begin_mask": "1,0", "end_mask": "1,1"}),
    ([0, 1, 0], [0, 3, 4], [1, 1, 2], {"new_axis_mask": "1,0,0"}),
    ([0, 1], [0, 3], [1, 1], {"ellipsis_mask": "1,0"}),
    ([0, 0, 1], [0, 0, 3], [1, 1, 1], {"ellipsis_mask": "1,0,0", "new_axis_mask": "0,1,0"}),
    ([0, 0, 1], [0, 0, 3], [1, 1, 1], {"new_axis_mask": "0,1,0", "shrink_axis_mask": "0,0,1"}),
    ([0, 0, 2], [0, 0, 3], [1, 1, 1], {"ellipsis_mask": "0,1,0", "shrink_axis_mask": "1,0,1"}),
]


@pytest.mark.parametrize("known", ["all", "strides", "none", "without strides"])
@pytest.mark.parametrize("case", range(len(SLICES)))
def test_strided_slices(case, known, tmp_path):
    begin, end, strides, masks = SLICES[case]
    masks = {"begin_mask": "", "end_mask": "", **masks}
    data = " ".join(f'{name}="{text}"' for name, text in masks.items())
    values = [make(4, 5, 3), integers(*begin), integers(*end)]
    if known == "without strides":
        strides = [1] * len(begin)
    else:
        values.append(integers(*strides))
    constants = {"all": [1, 2, 3], "strides": [3]}.get(known, [])
    check(tmp_path, "StridedSlice", "opset1", data, values, constants=constants, dynamic=False)
    if known == "all":
        check(tmp_path, "StridedSlice", "opset1", data, values, constants=constants, dynamic=True)


@pytest.mark.parametrize("is_constant", [True, False])
@pytest.mark.parametrize("mode", ["constant", "edge", "reflect", "symmetric"])
@pytest.mark.parametrize(("begin", "end"), [([1, 2], [0, 1]), ([0, 0], [0, 0]), ([-1, 2], [1, -2]), ([0, -1], [2, 0])])
def test_padding(begin, end, mode, is_constant, tmp_path):
    values = [make(3, 5), integers(*begin), integers(*end)]
    constants = [1, 2] if is_constant else []
    check(tmp_path, "Pad", "opset12", f'pad_mode="{mode}"', values, constants=constants, dynamic=is_constant)
    if mode == "constant":
        values.append(number(7, "f4"))
        check(tmp_path, "Pad", "opset12", f'pad_mode="{mode}"', values, constants=constants)


def test_padding_of_flags_is_false(tmp_path):
    values = [np.array([True, True]), integers(1), integers(2)]
    check(tmp_path, "Pad", "opset12", 'pad_mode="constant"', values, constants=[1, 2])


REDUCTIONS = ["none", "sum", "prod", "min", "max", "mean"]


@pytest.mark.parametrize("uses", ["true", "false"])
@pytest.mark.parametrize("reduction", REDUCTIONS)
@pytest.mark.parametrize("dtype", ["f4", "f2", "i4", "i1", "i8", "?"])
def test_elements_that_are_scattered(dtype, reduction, uses, tmp_path):
    if dtype == "?" and reduction == "mean":
        return  # OpenVINO does not define it
    rng = np.random.default_rng(0)
    data, updates = (rng.integers(-4, 5, shape).astype(dtype) for shape in ((3, 4), (2, 4)))
    indices = (
        np.array([[0, 2, 1, -1], [1, 0, 1, 2]]) if reduction != "none" else np.array([[0, 2, 1, -1], [1, 0, 2, 0]])
    )
    attributes = f'reduction="{reduction}" use_init_val="{uses}"'
    values = [data, indices, updates, number(0)]
    check(tmp_path, "ScatterElementsUpdate", "opset12", attributes, values, constants=[3], dynamic=True, rtol=1e-3)


@pytest.mark.parametrize("reduction", ["none", "sum", "sub", "prod", "min", "max"])
@pytest.mark.parametrize("dtype", ["f4", "f2", "i4", "i1", "u1", "u4", "?"])
def test_slices_that_are_scattered(dtype, reduction, tmp_path):
    rng = np.random.default_rng(0)
    low = -4 if np.dtype(dtype).kind in "fi" else 0
    data, updates = (rng.integers(low, 5, shape).astype(dtype) for shape in ((3, 2), (3, 2)))
    if np.dtype(dtype).kind == "u" and reduction == "sub":
        data += 20
    indices = np.array([[0], [2], [0]]) if reduction != "none" else np.array([[0], [2], [-2]])
    attributes = f'reduction="{reduction}"'
    check(tmp_path, "ScatterNDUpdate", "opset15", attributes, [data, indices, updates], rtol=1e-3)


@pytest.mark.parametrize("reduction", ["prod", "min", "max"])
@pytest.mark.parametrize("dtype", ["f4", "i4"])
def test_values_before_are_replaced_by_neutral_ones(dtype, reduction, tmp_path):
    data, updates = np.array([9, 9, 9], dtype), np.array([2, 3, -4], dtype)
    attributes = f'reduction="{reduction}" use_init_val="false"'
    values = [data, integers(0, 0, 1), updates, number(0)]
    check(tmp_path, "ScatterElementsUpdate", "opset12", attributes, values, constants=[3])


CONVERTED = ["f4", "f2", "f8", "i1", "u1", "i4", "u4", "i8", "u8", "i2", "u2", "?"]


@pytest.mark.parametrize("source", CONVERTED)
def test_conversions(source, tmp_path):
    values = np.array([0, 1, 2, 100, 127], source)
    if np.dtype(source).kind == "f":
        values = np.array([0, 0.5, 1.75, 100.25, 3], source)
    if np.dtype(source).kind in "fi":
        values[-1] = -3 if np.dtype(source).kind == "i" else -2.75
    for target in CONVERTED:
        if np.dtype(source).kind == "f" and np.dtype(target).kind == "u":
            values = np.abs(values)  # what negative numbers become depends on the machine
        kind = ElementType.of(np.dtype(target))
        check(tmp_path, "Convert", "opset1", f'destination_type="{kind}"', [values], dynamic=True)


def test_great_integers_become_the_greatest_f16(tmp_path):
    check(tmp_path, "Convert", "opset1", 'destination_type="f16"', [np.array([70000, -70000, 5], np.int32)])


@pytest.mark.parametrize("target", ["f8e4m3", "f8e5m2"])
@pytest.mark.parametrize("has_shift", [True, False])
def test_numbers_that_are_rounded_to_8_bits(target, has_shift, tmp_path):
    limit = 1.5 * (448 if target == "f8e4m3" else 57344)
    powers = 2.0 ** np.arange(-12, 12, 0.37)
    data = np.concatenate([powers, -powers, [0, limit, -limit, 1e-9]]).astype(np.float32)[np.newaxis]
    values = [data, np.float32([[1.5]]), *([np.float32([[0.25]])] if has_shift else [])]
    check(tmp_path, "FakeConvert", "opset13", f'destination_type="{target}"', values)


MATH = [
    ("Sign", "f2"), ("Sign", "i4"), ("Erf", "i4"), ("Ceiling", "i4"), ("Floor", "i8"), ("LogicalNot", "?"),
    ("Negative", "i4"), ("Abs", "i1"), ("Sqrt", "i4"), ("Exp", "i4"), ("Log", "i4"), ("Relu", "i4"), ("Sigmoid", "i4"),
    ("Sigmoid", "u1"), ("Tan", "i4"), ("Sinh", "i4"), ("Atan", "i4"), ("Cos", "f2"), ("Abs", "f2"), ("Exp", "f8"),
]  # fmt: skip


@pytest.mark.parametrize(("type", "dtype"), MATH)
def test_functions_of_other_types(type, dtype, tmp_path):
    values = np.array(
        [1, 2, 4, 3] if type in ("Sqrt", "Log") else [0, 1, 3, 2] if dtype in ("u1", "?") else [-2, 0, 3, 1]
    )
    check(tmp_path, type, "opset1", "", [values.astype(dtype)], rtol=2e-3)


BINARY = ["Add", "Subtract", "Multiply", "Maximum", "Minimum", "Equal", "NotEqual", "Less", "LessEqual", "Greater",
          "GreaterEqual", "SquaredDifference", "Divide", "FloorMod", "Mod", "Power"]  # fmt: skip


@pytest.mark.parametrize("dtype", ["f4", "f2", "i4", "i1", "u1", "i8", "u8"])
def test_operations_of_two_values(dtype, tmp_path):
    a, b = np.array([[7, 1, 5, 4]]).astype(dtype), np.array([[2], [5], [3]]).astype(dtype)
    if np.dtype(dtype).kind != "u":
        a[0, 0], b[1, 0] = -7, -5
    for type in BINARY:
        if type == "Power":
            b = np.abs(b)
        check(tmp_path, type, "opset1", "", [a, b], dynamic=True, rtol=2e-3)


@pytest.mark.parametrize("type", ["FloorMod", "Mod"])
def test_remainders_of_fractions(type, tmp_path):
    a = np.float32([[1.25, -1.25, 0.5, -0.5, 0, 3, np.inf, 2]])
    b = np.float32([[0.75], [-0.75], [0.5], [-0.5], [np.inf], [-np.inf]])
    check(tmp_path, type, "opset1", "", [a, b], dynamic=True)


@pytest.mark.parametrize("type", ["LogicalAnd", "LogicalOr", "LogicalXor", "Equal", "NotEqual", "Less", "LessEqual",
                                  "Greater", "GreaterEqual", "BitwiseAnd", "BitwiseOr", "BitwiseXor"])  # fmt: skip
def test_operations_of_two_flags(type, tmp_path):
    version = "opset13" if type.startswith("Bitwise") else "opset1"
    check(tmp_path, type, version, "", [np.array([True, True, False, False]), np.array([True, False, True, False])])


@pytest.mark.parametrize(
    ("shape", "axis"), [((3,), 1), ((3, 4), 1), ((3, 1), 1), ((4,), -1), ((2, 3), 0), ((4, 1, 1), 2)]
)
def test_broadcasting_from_an_axis(shape, axis, tmp_path):
    data = f'auto_broadcast="pdpd" auto_broadcast_axis="{axis}"'
    check(tmp_path, "Add", "opset1", data, [make(2, 3, 4), make(*shape, seed=1)])


REDUCED = ["ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin", "ReduceProd", "ReduceL1", "ReduceL2"]


@pytest.mark.parametrize("keeps", ["true", "false"])
@pytest.mark.parametrize("type", REDUCED)
def test_reductions(type, keeps, tmp_path):
    version = "opset4" if type.startswith("ReduceL") else "opset1"
    for dtype, axes in itertools.product(("f4", "f8", "f2", "i4", "i8", "i1"), ([0, -1], [1])):
        values = [np.array([[[1, 3], [2, -2]], [[-1, 1], [3, 1]]]).astype(dtype), integers(*axes)]
        check(tmp_path, type, version, f'keep_dims="{keeps}"', values, constants=[1], dynamic=True, rtol=2e-3)
    check(tmp_path, type, version, f'keep_dims="{keeps}"', values)


@pytest.mark.parametrize("type", ["ReduceLogicalAnd", "ReduceLogicalOr"])
def test_reductions_of_flags(type, tmp_path):
    values = [np.array([[True, False, True], [True, True, True], [False, False, False]]), integers(1)]
    check(tmp_path, type, "opset1", 'keep_dims="false"', values, constants=[1], dynamic=True)


MODES = [
    ("nearest", "half_pixel", "round_prefer_floor"),
    ("nearest", "asymmetric", "floor"),
    ("nearest", "align_corners", "ceil"),
    ("nearest", "asymmetric", "simple"),
    ("nearest", "tf_half_pixel_for_nn", "round_prefer_ceil"),
    ("linear", "half_pixel", "floor"),
    ("linear", "align_corners", "floor"),
    ("linear_onnx", "pytorch_half_pixel", "floor"),
    ("linear_onnx", "asymmetric", "floor"),
    ("cubic", "half_pixel", "floor"),
    ("cubic", "align_corners", "floor"),
]
RESIZED = 'mode="{}" coordinate_transformation_mode="{}" nearest_mode="{}" shape_calculation_mode="{}"'
RESIZED += ' antialias="{}" cube_coeff="-0.6" pads_begin="{}" pads_end="{}"'


@pytest.mark.parametrize("by", ["sizes", "scales"])
@pytest.mark.parametrize("mode", MODES, ids="-".join)
def test_resized_images(mode, by, tmp_path):
    image, data = make(1, 2, 4, 5), RESIZED.format(*mode, by, "false", "0,0,0,0", "0,0,0,0")
    for factors in (([8, 10], [2, 2]), ([2, 3], [0.5, 0.6])):
        wanted = integers(*factors[0]) if by == "sizes" else np.float32(factors[1])
        values = [image, wanted, integers(2, 3)]
        check(tmp_path, "Interpolate", "opset11", data, values, constants=[1, 2], rtol=1e-4)
        if mode[1] != "tf_half_pixel_for_nn":
            check(tmp_path, "Interpolate", "opset11", data, values, constants=[2], dynamic=[0], rtol=1e-4)


@pytest.mark.parametrize("mode", ["nearest", "linear", "linear_onnx", "cubic", "bilinear_pillow", "bicubic_pillow"])
def test_resized_images_that_are_padded_and_smoothed(mode, tmp_path):
    is_smoothed = "true" if mode == "linear" else "false"
    data = RESIZED.format(mode, "half_pixel", "round_prefer_ceil", "sizes", is_smoothed, "0,0,1,0", "0,0,0,2")
    if "pillow" in mode:
        data = RESIZED.format(mode, "half_pixel", "round_prefer_ceil", "sizes", is_smoothed, "0", "0")
    check(
        tmp_path, "Interpolate", "opset11", data, [IMAGE, integers(3, 5), integers(-2, -1)], constants=[1, 2], rtol=1e-4
    )
    if "pillow" not in mode:
        check(tmp_path, "Interpolate", "opset11", data, [IMAGE, integers(1, 2, 3, 6)], constants=[1], rtol=1e-4)


@pytest.mark.parametrize("dtype", ["u1", "i1", "i4", "i8"])
@pytest.mark.parametrize("mode", ["linear", "linear_onnx", "cubic"])
def test_resized_integers(mode, dtype, tmp_path):
    image = np.random.default_rng(0).integers(0, 127, (1, 1, 4, 4)).astype(dtype)
    data = RESIZED.format(mode, "half_pixel", "floor", "sizes", "false", "0", "0")
    check(tmp_path, "Interpolate", "opset11", data, [image, integers(7, 3), integers(2, 3)], constants=[1, 2])


@pytest.mark.parametrize(
    ("mode", "coordinates", "smoothed", "message"),
    [
        ("bilinear_pillow", "half_pixel", "false", "mode bilinear_pillow with a dynamic shape"),
        ("linear", "half_pixel", "true", "mode linear with a dynamic shape"),
        ("nearest", "tf_half_pixel_for_nn", "false", "tf_half_pixel_for_nn with a dynamic shape"),
    ],
)
def test_resizing_that_needs_static_shapes(mode, coordinates, smoothed, message, tmp_path):
    data = RESIZED.format(mode, coordinates, "floor", "sizes", smoothed, "0", "0")
    values = [IMAGE, integers(8, 12), integers(2, 3)]
    with pytest.raises(irrun.UnsupportedError, match=message):
        check(tmp_path, "Interpolate", "opset11", data, values, constants=[1, 2], dynamic=True)
    with pytest.raises(irrun.UnsupportedError, match="the axes are not constant"):
        check(tmp_path, "Interpolate", "opset11", data, values, constants=[1])


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("has_shape", [False, True])
@pytest.mark.parametrize(
    ("pads", "padding", "auto_pad"),
    [("0,0", "0,0", "explicit"), ("1,0", "1,0", "explicit"), ("0,0", "0,0", "same_upper"), ("0,0", "0,0", "valid")],
)
def test_transposed_convolutions(pads, padding, auto_pad, has_shape, dynamic, tmp_path):
    data = f'strides="2,2" dilations="1,2" pads_begin="{pads}" pads_end="{pads[::-1]}" output_padding="{padding}"'
    data += f' auto_pad="{auto_pad}"'
    values = [make(1, 2, 3, 4), make(2, 3, 3, 2, seed=1)]
    constants = [1]
    if has_shape:
        values.append(integers(6, 9))
        constants.append(2)
    if dynamic and has_shape:
        with pytest.raises(irrun.UnsupportedError, match="the output shape for data of dynamic shape"):
            check(tmp_path, "ConvolutionBackpropData", "opset1", data, values, constants=constants, dynamic=True)
    elif auto_pad == "explicit" or has_shape or not dynamic:
        check(
            tmp_path, "ConvolutionBackpropData", "opset1", data, values, constants=constants, dynamic=dynamic, rtol=1e-4
        )


@pytest.mark.parametrize("dtype", ["f4", "i4", "u1"])
@pytest.mark.parametrize("rounding", ["floor", "ceil", "ceil_torch"])
@pytest.mark.parametrize("excludes", ["true", "false"])
@pytest.mark.parametrize("auto_pad", ["explicit", "same_lower"])
def test_averages_of_windows(dtype, rounding, excludes, auto_pad, tmp_path):
    data = f'kernel="3,2" strides="2,3" pads_begin="1,0" pads_end="2,1" rounding_type="{rounding}"'
    data += f' exclude-pad="{excludes}" auto_pad="{auto_pad}" dilations="1,1"'
    image = np.random.default_rng(0).integers(0, 9, (1, 2, 6, 8)).astype(dtype)
    for dynamic in (False, True):
        check(tmp_path, "AvgPool", "opset14", data, [image], dynamic=dynamic)


@pytest.mark.parametrize("counts", [(1, 1), (3, 2), (5, 7)])
def test_windows_that_adapt_to_the_result(counts, tmp_path):
    values = [make(1, 2, 5, 7), integers(*counts)]
    check(tmp_path, "AdaptiveAvgPool", "opset8", "", values, constants=[1], rtol=1e-4)
    check(tmp_path, "AdaptiveMaxPool", "opset8", 'index_element_type="i32"', values, constants=[1], outputs=2)


@pytest.mark.parametrize("pad", ["0.0", "1.0"])
def test_binary_convolutions(pad, tmp_path):
    data = 'mode="xnor-popcount" strides="1,2" dilations="1,1" pads_begin="1,1" pads_end="0,1" auto_pad="explicit"'
    data += f' pad_value="{pad}"'
    rng = np.random.default_rng(0)
    values = [rng.integers(0, 2, (1, 3, 5, 5)).astype(np.float32), rng.integers(0, 2, (2, 3, 3, 3)).astype(np.uint8)]
    check(tmp_path, "BinaryConvolution", "opset1", data, values, constants=[1])


@pytest.mark.parametrize("axis", [0, 2, -2])
@pytest.mark.parametrize(
    ("type", "values"),
    [("Gather", [make(2, 3, 4), integers(1, 0)]), ("Split", [make(4, 2, 6)]), ("CumSum", [make(2, 3, 4)])],
)
def test_axes_that_are_inputs_of_the_model(type, values, axis, tmp_path):
    version, data = {"Gather": ("opset8", ""), "Split": ("opset1", 'num_splits="2"'), "CumSum": ("opset3", "")}[type]
    types = check(tmp_path, type, version, data, [*values, number(axis)], outputs=2 if type == "Split" else 1)
    assert ("If" in types) == (type != "CumSum")  # ONNX's axis is an input too


def test_the_axis_of_a_vector_is_known(tmp_path):
    assert "If" not in check(tmp_path, "Gather", "opset8", "", [make(4), integers(2, 0), number(-1)])
