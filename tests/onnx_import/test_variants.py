"""Operators of old opsets, of onnxruntime and with rare attributes, compared with onnxruntime or with NumPy."""

from __future__ import annotations

import re

import numpy as np
import pytest

import irrun

onnx = pytest.importorskip("onnx")
from onnx import TensorProto, helper, numpy_helper  # noqa: E402

from onnx_import.test_reading import compare_with_onnxruntime, make_model, read  # noqa: E402

F32, I64 = TensorProto.FLOAT, TensorProto.INT64
MICROSOFT = "com.microsoft"
RNG = np.random.default_rng(0)


def draw(*shape):
    return RNG.standard_normal(shape).astype(np.float32)


IMAGE, ROWS, CUBE = draw(1, 2, 4, 6), draw(3, 4), draw(2, 3, 4)
DATES = np.array([[1, -2, 3], [4, 5, -6]], np.float32)
LSTM = {"w": RNG.integers(0, 255, (1, 4, 12)).astype(np.uint8), "r": RNG.integers(0, 255, (1, 3, 12)).astype(np.uint8)}


def number(*values, dtype=np.int64):
    return np.array(values if len(values) != 1 else values[0], dtype)


#: Operator, the first input, constants, attributes, outputs, opset.
CASES = [
    ("Softmax", CUBE, {}, {"axis": 1}, 1, 12),
    ("Softmax", CUBE, {}, {}, 1, 11),
    ("LogSoftmax", CUBE, {}, {"axis": 2}, 1, 12),
    ("Hardmax", CUBE, {}, {"axis": 1}, 1, 12),
    ("Hardmax", CUBE, {}, {"axis": 0}, 1, 13),
    ("Flatten", CUBE, {}, {"axis": 0}, 1, 13),
    ("Flatten", CUBE, {}, {"axis": 2}, 1, 13),
    ("Flatten", CUBE, {}, {"axis": 3}, 1, 13),
    ("Flatten", CUBE, {}, {"axis": -1}, 1, 13),
    ("Upsample", IMAGE, {"s": np.float32([1, 1, 2, 3])}, {"mode": "nearest"}, 1, 9),
    ("Upsample", IMAGE, {}, {"scales": [1.0, 1.0, 2.0, 2.0], "mode": "linear"}, 1, 7),
    ("Resize", IMAGE, {"s": np.float32([1, 1, 2, 0.5])}, {"mode": "linear"}, 1, 10),
    ("Resize", IMAGE, {"r": None, "s": np.float32([1, 1, 1.7, 0.6])},
     {"mode": "linear", "coordinate_transformation_mode": "half_pixel"}, 1, 18),
    ("Resize", IMAGE, {"r": None, "s": np.float32([1, 1, 1.7, 0.2])},
     {"mode": "linear", "coordinate_transformation_mode": "pytorch_half_pixel"}, 1, 18),
    ("Resize", IMAGE, {"r": None, "s": np.float32([1, 1, 1.7, 0.6])},
     {"mode": "cubic", "coordinate_transformation_mode": "half_pixel_symmetric"}, 1, 19),
    ("Resize", IMAGE, {"r": None, "s": np.float32([1, 1, 1.7, 0.6])},
     {"mode": "cubic", "coordinate_transformation_mode": "asymmetric", "cubic_coeff_a": -0.5}, 1, 18),
    ("Resize", IMAGE, {"r": None, "s": np.float32([1, 1, 1.5, 0.5])},
     {"mode": "cubic", "coordinate_transformation_mode": "align_corners", "exclude_outside": 1}, 1, 18),
    ("Resize", IMAGE, {"r": None, "s": None, "z": number(1, 2, 8, 3)},
     {"mode": "nearest", "nearest_mode": "ceil"}, 1, 18),
    ("Resize", IMAGE, {"r": None, "s": None, "z": number(8, 3)}, {"mode": "linear", "axes": [2, 3]}, 1, 18),
    ("Resize", IMAGE, {"r": np.float32([0, 0, 0.2, -0.1, 1, 1, 0.8, 1.3]), "s": None, "z": number(1, 2, 5, 4)},
     {"mode": "linear", "coordinate_transformation_mode": "tf_crop_and_resize", "extrapolation_value": 9.0}, 1, 18),
    ("MaxPool", draw(1, 2, 7, 8), {}, {"kernel_shape": [3, 2], "strides": [2, 3], "ceil_mode": 1}, 1, 18),
    ("MaxPool", draw(1, 2, 7), {}, {"kernel_shape": [3], "pads": [1, 1]}, 2, 18),
    ("LpPool", draw(1, 2, 7, 8), {},
     {"kernel_shape": [3, 3], "strides": [2, 3], "ceil_mode": 1, "pads": [1, 0, 1, 0]}, 1, 18),
    ("AveragePool", draw(1, 2, 7, 8), {}, {"kernel_shape": [2, 3], "strides": [2, 2], "dilations": [2, 1]}, 1, 19),
    ("AveragePool", draw(1, 2, 7, 8), {}, {"kernel_shape": [3, 3], "strides": [2, 2], "ceil_mode": 1}, 1, 19),
    ("Split", draw(7, 2), {}, {"axis": 0, "num_outputs": 3}, 3, 18),
    ("Split", draw(6, 2), {}, {"axis": 0, "split": [1, 3, 2]}, 3, 11),
    ("Split", draw(6, 2), {"s": number(1, 3, 2)}, {"axis": 0}, 3, 13),
    ("Slice", ROWS, {}, {"starts": [1, -3], "ends": [9, -1]}, 1, 9),
    ("Slice", ROWS, {}, {"starts": [1], "ends": [3], "axes": [1]}, 1, 9),
    ("Slice", ROWS, {"a": number([1]), "b": number([3])}, {}, 1, 13),
    ("Slice", ROWS, {"a": number(3, -1), "b": number(0, -9), "c": number(1, 0), "d": number(-1, -2)}, {}, 1, 13),
    ("GatherND", CUBE, {"i": number([1, -1], [0, 2])}, {}, 1, 13),
    ("GatherND", CUBE, {"i": number([[-1]], [[0]]).reshape(2, 1)}, {"batch_dims": 1}, 1, 13),
    ("GatherElements", ROWS, {"i": number([-1, 0, 2, -3])[None]}, {"axis": 0}, 1, 13),
    ("ScatterElements", ROWS, {"i": number([[1, -1]]).reshape(1, 2), "u": draw(1, 2)},
     {"axis": 1, "reduction": "add"}, 1, 18),
    ("ScatterND", ROWS, {"i": number([[0], [2]]).reshape(2, 1), "u": draw(2, 4)}, {"reduction": "max"}, 1, 18),
    ("Tile", ROWS, {"r": number(2, 3)}, {}, 1, 13),
    ("Concat", ROWS, {"b": draw(3, 2)}, {"axis": -1}, 1, 13),
    ("Expand", draw(3, 1), {"s": number(2, 1, 4)}, {}, 1, 13),
    ("ReduceL1", DATES, {}, {"keepdims": 0}, 1, 13),
    ("ReduceL2", DATES, {"a": number([1])}, {"keepdims": 0}, 1, 18),
    ("ReduceL1", DATES, {"a": np.zeros(0, np.int64)}, {"noop_with_empty_axes": 1}, 1, 18),
    ("ReduceL2", DATES, {"a": np.zeros(0, np.int64)}, {"noop_with_empty_axes": 1}, 1, 18),
    ("ReduceLogSumExp", DATES, {"a": np.zeros(0, np.int64)}, {"noop_with_empty_axes": 1}, 1, 18),
    ("ReduceLogSumExp", DATES, {"a": number([1])}, {"keepdims": 1}, 1, 18),
    ("ReduceSumSquare", DATES, {"a": number([0])}, {}, 1, 18),
    ("ReduceLogSum", np.abs(DATES), {"a": number([0])}, {"keepdims": 0}, 1, 18),
    ("ReduceMean", DATES, {}, {"axes": [1]}, 1, 13),
    ("DFT", draw(1, 8, 2), {"n": number(6), "a": number(1)}, {"onesided": 0}, 1, 20),
    ("DFT", draw(1, 8, 1), {"n": None, "a": number(-2)}, {"onesided": 1}, 1, 20),
    ("DFT", draw(2, 8, 5, 1), {"n": None, "a": number(1)}, {"onesided": 1}, 1, 20),
    ("STFT", draw(1, 16), {"s": number(4), "w": None, "n": number(8)}, {"onesided": 1}, 1, 17),
    ("STFT", draw(1, 16, 2), {"s": number(3), "w": draw(8)}, {"onesided": 0}, 1, 17),
    ("RNN", draw(5, 2, 4), {"w": draw(1, 3, 4), "r": draw(1, 3, 3)},
     {"hidden_size": 3, "activations": ["HardSigmoid"], "activation_alpha": [0.3], "activation_beta": [0.4]}, 2, 14),
    ("Gemm", ROWS, {"b": draw(5, 4)}, {"transB": 1}, 1, 13),
    ("ConvTranspose", draw(1, 4, 5, 5), {"w": draw(4, 3, 3, 3), "b": draw(6)}, {"group": 2, "strides": [2, 1]}, 1, 11),
    ("ConvTranspose", draw(1, 2, 4, 5), {"w": draw(2, 3, 3, 3)}, {"strides": [2, 2], "output_shape": [8, 9]}, 1, 11),
    ("ConvTranspose", draw(1, 2, 4, 5), {"w": draw(2, 3, 3, 3)}, {"strides": [2, 2], "auto_pad": "SAME_UPPER"}, 1, 11),
    ("ConvTranspose", draw(1, 2, 4, 5), {"w": draw(2, 3, 3, 3)}, {"strides": [2, 2], "auto_pad": "SAME_LOWER"}, 1, 11),
    ("ConvTranspose", draw(1, 2, 4, 5), {"w": draw(2, 3, 3, 3)}, {"auto_pad": "VALID", "dilations": [2, 1]}, 1, 11),
    ("Conv", draw(1, 2, 7, 7), {"w": draw(4, 2, 3, 3), "b": draw(4)},
     {"auto_pad": "SAME_UPPER", "strides": [2, 2]}, 1, 11),
    ("BatchNormalization", IMAGE, {"s": draw(2), "b": draw(2), "m": draw(2), "v": np.abs(draw(2))},
     {"epsilon": 0.1}, 1, 15),
    ("Trilu", ROWS, {}, {"upper": 1}, 1, 18),
    ("Clip", ROWS, {"a": np.float32(-0.5), "b": None}, {}, 1, 13),
    ("Clip", ROWS, {}, {"min": -0.5, "max": 0.3}, 1, 6),
    ("CumSum", ROWS, {"axis": number(-1)}, {"reverse": 1}, 1, 14),
    ("Mod", ROWS, {"b": np.abs(draw(3, 4)) + 1}, {"fmod": 1}, 1, 13),
    ("PRelu", ROWS, {"s": draw(4)}, {}, 1, 16),
    ("Einsum", ROWS, {"b": draw(4, 2)}, {"equation": "ij,jk->ki"}, 1, 12),
]  # fmt: skip


@pytest.mark.parametrize("is_dynamic", [False, True])
@pytest.mark.parametrize("case", CASES, ids=[f"{case[0]}-{i}" for i, case in enumerate(CASES)])
def test_variants_agree_with_onnxruntime(case, is_dynamic):
    operator, x, constants, attributes, outputs, opset = case
    names = ["" if value is None else name for name, value in constants.items()]
    weights = {name: value for name, value in constants.items() if value is not None}
    results = [f"y{i}" for i in range(outputs)]
    node = helper.make_node(operator, ["x", *names], results, **attributes)
    declared = {name: (I64 if operator == "MaxPool" and name == "y1" else F32, None) for name in results}
    static = (1, x.ndim - 1) if operator == "DFT" else (1,)  # the last axis holds complex numbers
    shape = [None if is_dynamic and i not in static else d for i, d in enumerate(x.shape)]
    model = make_model([node], {"x": (F32, shape)}, declared, weights, opset=opset)
    try:
        compare_with_onnxruntime(model, {"x": x}, 1e-4)
    except irrun.UnsupportedError as error:
        if not is_dynamic or "dynamic" not in str(error):
            raise


@pytest.mark.parametrize("exclusive", [0, 1])
@pytest.mark.parametrize("reverse", [0, 1])
@pytest.mark.parametrize("axis", [0, 1, -1])
def test_products_of_all_elements_before(axis, reverse, exclusive):
    node = helper.make_node("CumProd", ["x", "a"], ["y"], exclusive=exclusive, reverse=reverse)
    model = make_model([node], {"x": (F32, [2, 3, 4])}, {"y": (F32, None)}, {"a": np.array(axis)}, opset=22)
    expected = np.flip(CUBE, axis) if reverse else CUBE
    expected = np.cumprod(expected, axis)
    if exclusive:
        first = np.ones_like(np.take(expected, [0], axis))
        expected = np.concatenate([first, np.take(expected, range(expected.shape[axis] - 1), axis)], axis)
    expected = np.flip(expected, axis) if reverse else expected
    np.testing.assert_allclose(irrun.compile_model(read(model))(CUBE)[0], expected, 1e-5)


@pytest.mark.parametrize(("across", "axes"), [(None, (0, 2, 3)), (0, (0, 2, 3)), (1, (0, 1, 2, 3))])
def test_normalization_across_channels_of_old_opsets(across, axes):
    attributes = {} if across is None else {"across_channels": across}
    node = helper.make_node("MeanVarianceNormalization", ["x"], ["y"], **attributes)
    model = make_model([node], {"x": (F32, [1, 2, 4, 6])}, {"y": (F32, None)}, opset=8)
    centered = IMAGE - IMAGE.mean(axes, keepdims=True)
    expected = centered / centered.std(axes, keepdims=True)
    np.testing.assert_allclose(irrun.compile_model(read(model))(IMAGE)[0], expected, 1e-4, 1e-5)


def test_types_are_texts_in_the_first_opsets():
    node = helper.make_node("Cast", ["x"], ["y"], to="INT32")
    model = make_model([node], {"x": (F32, [2, 3])}, {"y": (TensorProto.INT32, None)}, opset=5)
    result = irrun.compile_model(read(model))(DATES)[0]
    assert (result.dtype, result.tolist()) == (np.int32, DATES.astype(int).tolist())


def test_tiles_along_one_axis_in_the_first_opsets():
    node = helper.make_node("Tile", ["x", "n", "a"], ["y"])
    for axis in (0, 1):
        weights = {"n": np.float32(3), "a": np.int64(axis)}
        model = make_model([node], {"x": (F32, [2, 3])}, {"y": (F32, None)}, weights, opset=5)
        repeats = [3 if i == axis else 1 for i in range(2)]
        assert irrun.compile_model(read(model))(DATES)[0].tolist() == np.tile(DATES, repeats).tolist()


def test_images_are_enlarged_by_factors_of_the_height_and_the_width():
    node = helper.make_node("Upsample", ["x"], ["y"], height_scale=2.0, width_scale=3.0)
    model = make_model([node], {"x": (F32, [1, 2, 4, 6])}, {"y": (F32, None)}, opset=6)
    expected = IMAGE.repeat(2, 2).repeat(3, 3)
    assert irrun.compile_model(read(model))(IMAGE)[0].tolist() == expected.tolist()


@pytest.mark.parametrize("epsilon", [None, 0.5])
@pytest.mark.parametrize("axis", [None, 1])
@pytest.mark.parametrize("domain", ["", MICROSOFT])
def test_root_mean_squares(domain, axis, epsilon):
    attributes = {name: value for name, value in (("axis", axis), ("epsilon", epsilon)) if value is not None}
    scale = draw(*CUBE.shape[-1 if axis is None else axis :])
    node = helper.make_node("SimplifiedLayerNormalization", ["x", "s"], ["y"], domain=domain, **attributes)
    model = make_model([node], {"x": (F32, [2, 3, 4])}, {"y": (F32, None)}, {"s": scale}, domains=[MICROSOFT])
    axes = (2,) if axis is None else (1, 2)
    mean = (CUBE**2).mean(axes, keepdims=True)
    expected = CUBE / np.sqrt(mean + (1e-5 if epsilon is None else epsilon)) * scale
    np.testing.assert_allclose(irrun.compile_model(read(model))(CUBE)[0], expected, 1e-5)


@pytest.mark.parametrize(
    ("operator", "inputs", "attributes"),
    [
        ("SkipLayerNormalization", ["x", "x", "v", "v", "v"], {"epsilon": 0.1}),
        ("SkipLayerNormalization", ["x", "x", "v", "", "v"], {}),
        ("FusedMatMul", ["x", "x"], {"transB": 1}),
        ("QLinearMul", ["q", "s", "z", "q", "t", "z", "t", "z"], {}),
        ("QLinearLeakyRelu", ["q", "s", "z", "t", "z"], {"alpha": 0.5}),
        ("QLinearLeakyRelu", ["q", "s", "z", "t", "z"], {}),
        ("MatMulIntegerToFloat", ["q", "q", "s", "t", "z", "z", "v"], {}),
        ("FusedConv", ["i", "w", "b", "m"], {"activation": "Relu"}),
        ("FusedConv", ["i", "w", "", "m"], {"activation": "Sigmoid"}),
    ],
)
def test_variants_of_onnxruntime(operator, inputs, attributes):
    rng = np.random.default_rng(0)
    weights = {
        "v": rng.random(4).astype(np.float32),
        "q": rng.integers(0, 256, (4, 4), np.uint8),
        "s": np.float32(0.05),
        "t": np.float32(0.08),
        "z": np.uint8(120),
        "i": draw(1, 2, 5, 5),
        "w": draw(3, 2, 3, 3),
        "b": draw(3),
        "m": draw(1, 3, 3, 3),
    }
    weights = {name: np.asarray(value) for name, value in weights.items() if name in inputs}
    node = helper.make_node(operator, inputs, ["y"], domain=MICROSOFT, **attributes)
    kind = TensorProto.UINT8 if operator.startswith("QLinear") else F32
    used = {"x": (F32, [4, 4])} if "x" in inputs else {}
    model = make_model([node], used, {"y": (kind, None)}, weights, domains=[MICROSOFT])
    compare_with_onnxruntime(model, {name: rng.normal(size=(4, 4)).astype(np.float32) for name in used}, 1e-4)


@pytest.mark.parametrize("name", ["transBatchA", "transBatchB"])
def test_matrices_whose_first_axes_are_exchanged(name):
    node = helper.make_node("FusedMatMul", ["x", "w"], ["y"], domain=MICROSOFT, **{name: 1})
    a, b = draw(2, 3, 4), draw(2, 4, 5)
    if name == "transBatchA":
        a = a.transpose(1, 0, 2)
    else:
        b = b.transpose(1, 0, 2)
    model = make_model([node], {"x": (F32, list(a.shape))}, {"y": (F32, None)}, {"w": b}, domains=[MICROSOFT])
    compare_with_onnxruntime(model, {"x": a}, 1e-4)


@pytest.mark.parametrize("is_separate", [False, True])
def test_recurrent_layers_with_dequantized_weights(is_separate):
    count = 12 if is_separate else 1
    shape = (1, count) if is_separate else (1,)
    weights = {
        **LSTM, "b": draw(1, 24),
        "ws": RNG.random(shape).astype(np.float32) * 0.01, "wz": RNG.integers(100, 150, shape).astype(np.uint8),
        "rs": RNG.random(shape).astype(np.float32) * 0.01, "rz": RNG.integers(100, 150, shape).astype(np.uint8),
    }  # fmt: skip
    names = ["x", "w", "r", "b", "", "", "", "", "ws", "wz", "rs", "rz"]
    node = helper.make_node("DynamicQuantizeLSTM", names, ["y"], domain=MICROSOFT, hidden_size=3)
    x = draw(5, 2, 4)
    model = make_model([node], {"x": (F32, [5, 2, 4])}, {"y": (F32, None)}, weights, domains=[MICROSOFT])

    def restore(name):
        value, scale, zero = (weights[key].astype(np.float32) for key in (name, f"{name}s", f"{name}z"))
        scale, zero = (v.reshape((1, 1, -1)) for v in (scale, zero))
        return ((value - zero) * scale).transpose(0, 2, 1)

    plain = {"w": restore("w"), "r": restore("r"), "b": weights["b"]}
    lstm = helper.make_node("LSTM", ["x", "w", "r", "b"], ["y"], hidden_size=3)
    expected = irrun.compile_model(read(make_model([lstm], {"x": (F32, [5, 2, 4])}, {"y": (F32, None)}, plain)))(x)[0]
    np.testing.assert_allclose(irrun.compile_model(read(model))(x)[0], expected, 1e-5, 1e-6)


@pytest.mark.parametrize(
    ("constants", "keepdims", "shapes"),
    [
        ({"s": np.int64(3)}, None, [(3, 2), (3, 2), (1, 2)]),
        ({"s": number(2, 5)}, None, [(2, 2), (5, 2)]),
        ({}, 1, [(1, 2)] * 7),
        ({}, 0, [(2,)] * 7),
        ({"s": np.int64(4)}, 0, [(4, 2), (3, 2)]),
    ],
)
def test_sequences_of_parts(constants, keepdims, shapes):
    attributes = {} if keepdims is None else {"keepdims": keepdims}
    parts = len(shapes)
    nodes = [helper.make_node("SplitToSequence", ["x", *constants], ["s0"], **attributes)]
    for i in range(parts):
        nodes.append(helper.make_node("SequenceAt", ["s0", f"i{i}"], [f"y{i}"]))
    weights = {**constants, **{f"i{i}": np.int64(i) for i in range(parts)}}
    outputs = {f"y{i}": (F32, None) for i in range(parts)}
    x = draw(7, 2)
    results = irrun.compile_model(read(make_model(nodes, {"x": (F32, [7, 2])}, outputs, weights)))(x)
    assert [results[i].shape for i in range(parts)] == shapes
    assert np.concatenate([results[i].reshape(-1, 2) for i in range(parts)]).tolist() == x.tolist()


@pytest.mark.parametrize("operator", ["RandomUniform", "RandomUniformLike", "RandomNormal", "RandomNormalLike"])
def test_random_numbers(operator):
    is_uniform = "Uniform" in operator
    attributes = {"low": 2.0, "high": 5.0} if is_uniform else {"mean": 3.0, "scale": 0.5}
    inputs = ["x"] if operator.endswith("Like") else []
    attributes |= {"seed": 3.0} if inputs else {"seed": 3.0, "shape": [50, 40]}
    nodes = [
        helper.make_node(operator, inputs, ["r"], **attributes),
        helper.make_node("Add", ["x", "r"], ["y"]),
    ]
    model = make_model(nodes, {"x": (F32, [50, 40])}, {"y": (F32, None)})
    values = irrun.compile_model(read(model))(np.zeros((50, 40), np.float32))[0]
    assert values.shape == (50, 40)
    if is_uniform:
        assert 2 <= values.min() < 2.1
        assert 4.9 < values.max() < 5
    # Means of 2,000 values are within five standard errors.
    deviation = 3 / np.sqrt(12) if is_uniform else 0.5
    assert abs(values.mean() - (3.5 if is_uniform else 3.0)) < 5 * deviation / np.sqrt(2000)
    assert abs(values.std() / deviation - 1) < 0.1


def test_random_choices():
    node = helper.make_node("Multinomial", ["x"], ["y"], sample_size=500, dtype=I64)
    model = make_model([node], {"x": (F32, [2, 3])}, {"y": (I64, None)})
    with np.errstate(divide="ignore"):
        logarithms = np.log(np.float32([[0, 1, 1], [1, 0, 0]]))
    values = irrun.compile_model(read(model))(logarithms)[0]
    assert (values.shape, values.dtype) == ((2, 500), np.int64)
    assert set(values[0]) == {1, 2}
    assert set(values[1]) == {0}


def make_sparse(indices, dims=(2, 3), values=(5, 7)):
    tensor = numpy_helper.from_array(np.array(values, np.float32), "sparse")
    return helper.make_sparse_tensor(tensor, numpy_helper.from_array(np.array(indices, np.int64), "i"), list(dims))


@pytest.mark.parametrize("indices", [[1, 5], [[0, 1], [1, 2]]])
@pytest.mark.parametrize("is_initializer", [False, True])
def test_sparse_tensors(indices, is_initializer):
    nodes = [helper.make_node("Add", ["x", "sparse"], ["y"])]
    if not is_initializer:
        nodes.insert(0, helper.make_node("Constant", [], ["sparse"], sparse_value=make_sparse(indices)))
    model = make_model(nodes, {"x": (F32, [2, 3])}, {"y": (F32, None)})
    if is_initializer:
        model.graph.sparse_initializer.append(make_sparse(indices))
    result = irrun.compile_model(read(model))(np.zeros((2, 3), np.float32))[0]
    assert result.tolist() == [[0, 5, 0], [0, 0, 7]]


def test_sparse_tensors_with_indices_out_of_range():
    node = helper.make_node("Constant", [], ["y"], sparse_value=make_sparse([1, 6]))
    with pytest.raises(irrun.IrrunError, match="sparse tensor 'sparse': index 6 is out of bounds"):
        read(make_model([node], {}, {"y": (F32, None)}))


def test_constants_of_all_kinds_of_attributes():
    attributes = {
        "a": {"value_float": 1.5}, "b": {"value_floats": [1.5, 2]}, "c": {"value_int": 3}, "d": {"value_ints": [3, 4]},
        "e": {"value_string": "s"}, "f": {"value_strings": ["s", "t"]},
        "g": {"value": numpy_helper.from_array(np.int8([[1]]))},
    }  # fmt: skip
    nodes = [helper.make_node("Constant", [], [name], **values) for name, values in attributes.items()]
    kinds = dict(
        zip("abcdefg", (F32, F32, I64, I64, TensorProto.STRING, TensorProto.STRING, TensorProto.INT8), strict=True)
    )
    model = read(make_model(nodes, {}, {name: (kind, None) for name, kind in kinds.items()}))
    results = irrun.compile_model(model)({})
    assert [np.asarray(results[i]).tolist() for i in range(7)] == [1.5, [1.5, 2], 3, [3, 4], "s", ["s", "t"], [[1]]]
    assert [str(spec.element_type) for spec in model.outputs] == ["f32", "f32", "i64", "i64", "string", "string", "i8"]


@pytest.mark.parametrize(
    ("operator", "shape", "constants", "attributes", "message"),
    [
        ("BitShift", (2,), {"n": np.uint8([1, 2])}, {"direction": "UP"}, "the attribute direction is 'UP'"),
        ("MaxPool", (1, 1, 4, 4, 4), {}, {"kernel_shape": [2, 2, 2], "storage_order": 1},
         "storage_order 1 of 3 spatial axes"),
    ],
)  # fmt: skip
def test_attributes_that_are_refused(operator, shape, constants, attributes, message):
    kind = TensorProto.UINT8 if operator == "BitShift" else F32
    outputs = ["y", "z"] if operator == "MaxPool" else ["y"]
    node = helper.make_node(operator, ["x", *constants], outputs, **attributes)
    declared = {"y": (kind, None), **({"z": (I64, None)} if len(outputs) > 1 else {})}
    with pytest.raises(irrun.IrrunError, match=re.escape(message)):
        read(make_model([node], {"x": (kind, list(shape))}, declared, constants))


def test_outputs_with_equal_names_are_reported():
    nodes = [helper.make_node("Relu", ["x"], ["y"], name="a"), helper.make_node("Tanh", ["x"], ["y"], name="b")]
    with pytest.raises(irrun.IrrunError, match=r"node 'b' \(Tanh\): another node also has the output 'y'"):
        read(make_model(nodes, {"x": (F32, [2])}, {"y": (F32, [2])}))


def test_domains_need_versions():
    node = helper.make_node("Gelu", ["x"], ["y"], domain=MICROSOFT)
    with pytest.raises(irrun.IrrunError, match=r"does not declare a version of the domain 'com\.microsoft'"):
        read(make_model([node], {"x": (F32, [2])}, {"y": (F32, [2])}))


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("offset", "x", "expected integers as offset and length of external data"),
        ("length", "1.5", "expected integers as offset and length of external data"),
        ("location", "../data", "expected a file in the folder of the model"),
        ("location", "other", "does not exist"),
    ],
)
def test_files_of_weights_that_are_refused(key, value, message, tmp_path):
    model = make_model([helper.make_node("Add", ["x", "w"], ["y"])], {"x": (F32, [2])}, {"y": (F32, [2])},
                       {"w": np.float32([1, 2])})  # fmt: skip
    (tensor,) = model.graph.initializer
    onnx.external_data_helper.set_external_data(tensor, "data", 0, 8)
    tensor.data_location = TensorProto.EXTERNAL
    (tmp_path / "data").write_bytes(tensor.raw_data)
    tensor.ClearField("raw_data")
    path = tmp_path / "model.onnx"
    path.write_bytes(model.SerializeToString())
    assert irrun.compile_model(irrun.read_model(path))(np.float32([1, 1]))[0].tolist() == [2, 3]
    for entry in tensor.external_data:
        entry.value = value if entry.key == key else entry.value
    path.write_bytes(model.SerializeToString())
    with pytest.raises(irrun.ModelError, match=re.escape(message)):
        irrun.read_model(path)


def test_nodes_after_a_body_that_cannot_be_imported_are_not_named():
    body = helper.make_graph(
        [helper.make_node("Det", ["x"], ["unused"], name="inner"), helper.make_node("Relu", ["x"], ["z"])],
        "body", [], [helper.make_tensor_value_info("z", F32, [2, 2])],
    )  # fmt: skip
    nodes = [
        helper.make_node("If", ["c"], ["r"], name="if", then_branch=body, else_branch=body),
        helper.make_node("Det", ["r"], ["y"], name="after"),
    ]
    model = make_model(nodes, {"c": (TensorProto.BOOL, []), "x": (F32, [2, 2])}, {"y": (F32, None)})
    with pytest.raises(irrun.UnsupportedError, match=r"^1 node cannot be expressed .* node 'inner'"):
        read(model)


def test_nodes_after_a_function_that_cannot_be_imported_are_not_named():
    inner = [helper.make_node("Det", ["a"], ["unused"], name="inner"), helper.make_node("Relu", ["a"], ["b"])]
    function = helper.make_function("own", "Mine", ["a"], ["b"], inner, [helper.make_opsetid("", 18)])
    nodes = [
        helper.make_node("Mine", ["x"], ["r"], domain="own"),
        helper.make_node("Det", ["r"], ["y"], name="after"),
    ]
    model = make_model(nodes, {"x": (F32, [2, 2])}, {"y": (F32, None)}, functions=[function], domains=["own"])
    with pytest.raises(irrun.UnsupportedError, match=r"^1 node cannot be expressed .* node 'inner'"):
        read(model)


def test_names_of_nodes_in_functions_and_bodies():
    """Functions are called several times, so their nodes and values have no names of their own; bodies keep them."""
    result = helper.make_tensor_value_info("z", F32, [2])
    steps = [helper.make_node("Relu", ["x"], ["m"], name="inner"), helper.make_node("Tanh", ["m"], ["z"])]
    body = helper.make_graph(steps, "body", [], [result])
    inner = [helper.make_node("Relu", ["a"], ["b"], name="inner"), helper.make_node("Tanh", ["b"], ["c"])]
    function = helper.make_function("own", "Mine", ["a"], ["c"], inner, [helper.make_opsetid("", 18)])
    nodes = [
        helper.make_node("Mine", ["x"], ["r"], name="call", domain="own"),
        helper.make_node("If", ["c"], ["y"], name="if", then_branch=body, else_branch=body),
        helper.make_node("Add", ["y", "r"], ["w"]),
    ]
    inputs = {"c": (TensorProto.BOOL, []), "x": (F32, [2])}
    model = read(make_model(nodes, inputs, {"w": (F32, [2])}, functions=[function], domains=["own"]))
    found = {layer.type: (layer.name, layer.outputs[0].names) for layer in model.graph.layers if layer.outputs}
    assert found["Relu"] == ("inner/Relu", ())
    assert found["Tanh"] == ("call", ("r",))
    (branch,) = (layer for layer in model.graph.layers if layer.type == "If")
    for own in branch.bodies.values():
        found = {layer.type: (layer.name, layer.outputs[0].names) for layer in own.graph.layers if layer.outputs}
        assert (found["Relu"], found["Tanh"]) == (("inner", ("m",)), ("z", ("z",)))


def test_values_quantized_to_floats_of_8_bits():
    nodes = [
        helper.make_node("QuantizeLinear", ["x", "s", "z"], ["q"]),
        helper.make_node("DequantizeLinear", ["q", "s", "z"], ["y"]),
    ]
    zero = helper.make_tensor("z", TensorProto.FLOAT8E4M3FN, [], [0.0])
    model = make_model(nodes, {"x": (F32, [6])}, {"y": (F32, None)}, {"s": np.float32(0.5)}, opset=19)
    model.graph.initializer.append(zero)
    compare_with_onnxruntime(model, {"x": np.float32([0, 1, -3.3, 100, 500, -1e6])})
