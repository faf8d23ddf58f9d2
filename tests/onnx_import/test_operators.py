"""Operators with attributes that few models have, compared with onnxruntime."""

from __future__ import annotations

import re

import numpy as np
import pytest

import irrun

onnx = pytest.importorskip("onnx")
from onnx import TensorProto, helper  # noqa: E402

from onnx_import.test_reading import compare_with_onnxruntime, make_model, read  # noqa: E402

F32 = TensorProto.FLOAT
MICROSOFT = "com.microsoft"
RNG = np.random.default_rng(0)


def draw(*shape):
    return RNG.standard_normal(shape).astype(np.float32)


def number(*values, dtype=np.int64):
    return np.array(values if len(values) != 1 else values[0], dtype)


IMAGE, ROWS, SIGNAL = draw(2, 3, 6, 7), draw(3, 4), draw(2, 16)
COMPLEX = draw(1, 8, 2)
BYTES = RNG.integers(0, 256, (4, 5)).astype(np.uint8)
LSTM = {"w": draw(1, 12, 4), "r": draw(1, 12, 3), "b": draw(1, 24)}
BOTH = {"w": draw(2, 12, 4), "r": draw(2, 12, 3), "b": draw(2, 24)}
GRU = {"w": draw(1, 9, 4), "r": draw(1, 9, 3), "b": draw(1, 18)}
RNN = {"w": draw(1, 3, 4), "r": draw(1, 3, 3)}
STEPS = draw(5, 2, 4)

#: Operator, the first input, constants, attributes, outputs, opset.
CASES = [
    ("LRN", IMAGE, {}, {"size": 3, "alpha": 0.1, "beta": 0.5, "bias": 2.0}, 1, 18),
    ("LRN", IMAGE, {}, {"size": 3}, 1, 18),
    ("MeanVarianceNormalization", IMAGE, {}, {}, 1, 13),
    ("MeanVarianceNormalization", IMAGE, {}, {"axes": [1, 2]}, 1, 13),
    ("LpNormalization", ROWS, {}, {"p": 1, "axis": 0}, 1, 18),
    ("LpNormalization", ROWS, {}, {}, 1, 18),
    ("LayerNormalization", IMAGE, {"s": draw(6, 7), "b": draw(6, 7)}, {"axis": 2, "epsilon": 0.1}, 1, 17),
    ("GroupNormalization", draw(2, 4, 5), {"s": draw(4), "b": draw(4)}, {"num_groups": 2, "epsilon": 0.1}, 1, 21),
    ("GroupNormalization", draw(2, 4, 5), {"s": draw(2), "b": draw(2)}, {"num_groups": 2}, 1, 18),
    ("LayerNormalization", IMAGE, {"s": draw(7)}, {}, 3, 17),
    ("LpPool", IMAGE, {}, {"kernel_shape": [2, 3], "strides": [2, 2], "p": 1}, 1, 18),
    ("LpPool", IMAGE, {}, {"kernel_shape": [2, 3], "pads": [1, 0, 1, 1]}, 1, 18),
    ("LpPool", IMAGE, {}, {"kernel_shape": [2, 2], "p": 3}, 1, 18),
    ("GlobalLpPool", IMAGE, {}, {"p": 1}, 1, 18),
    ("GlobalLpPool", IMAGE, {}, {"p": 3}, 1, 18),
    ("GlobalMaxPool", IMAGE, {}, {}, 1, 18),
    ("MaxPool", IMAGE, {}, {"kernel_shape": [2, 2], "strides": [2, 2], "storage_order": 1}, 2, 18),
    ("MaxPool", IMAGE, {}, {"kernel_shape": [3, 3], "strides": [2, 2], "ceil_mode": 1, "dilations": [1, 2]}, 1, 18),
    ("AveragePool", IMAGE, {}, {"kernel_shape": [2, 2], "pads": [1, 1, 1, 1], "count_include_pad": 1}, 1, 18),
    ("AveragePool", IMAGE, {}, {"kernel_shape": [2, 2], "pads": [1, 0, 0, 1]}, 1, 18),
    ("MaxRoiPool", IMAGE, {"rois": np.float32([[0, 0, 0, 5, 5], [1, 1, 2, 6, 4]])},
     {"pooled_shape": [2, 3], "spatial_scale": 1.0}, 1, 18),
    ("STFT", SIGNAL[..., None], {"step": number(4), "window": draw(8)}, {}, 1, 18),
    ("STFT", SIGNAL[..., None], {"step": number(4), "window": draw(8), "length": number(8)}, {"onesided": 0}, 1, 18),
    ("DFT", COMPLEX, {}, {"axis": 1}, 1, 18),
    ("DFT", COMPLEX, {}, {"axis": 1, "inverse": 1}, 1, 18),
    ("DFT", COMPLEX[..., :1], {}, {"axis": 1, "onesided": 1}, 1, 18),
    ("DFT", COMPLEX[..., :1], {"n": number(6)}, {"axis": 1}, 1, 18),
    ("LSTM", STEPS, LSTM, {"hidden_size": 3}, 3, 18),
    ("LSTM", STEPS, BOTH, {"hidden_size": 3, "direction": "bidirectional"}, 3, 18),
    ("LSTM", STEPS, LSTM, {"hidden_size": 3, "direction": "reverse", "clip": 0.5}, 3, 18),
    ("LSTM", STEPS, LSTM, {"hidden_size": 3, "activations": ["Sigmoid", "Relu", "Tanh"]}, 3, 18),
    ("LSTM", STEPS, {**LSTM, "n": None, "h": draw(1, 2, 3), "c": draw(1, 2, 3), "p": draw(1, 9)},
     {"hidden_size": 3}, 3, 18),
    ("LSTM", STEPS, {**LSTM, "n": number(2, 5, dtype=np.int32), "h": draw(1, 2, 3), "c": draw(1, 2, 3)},
     {"hidden_size": 3}, 3, 18),
    ("GRU", STEPS, GRU, {"hidden_size": 3}, 2, 18),
    ("GRU", STEPS, GRU, {"hidden_size": 3, "linear_before_reset": 1}, 2, 18),
    ("GRU", STEPS, {"w": GRU["w"], "r": GRU["r"]}, {"hidden_size": 3, "direction": "reverse"}, 2, 18),
    ("RNN", STEPS, RNN, {"hidden_size": 3}, 2, 18),
    ("RNN", STEPS, RNN, {"hidden_size": 3, "activations": ["Relu"]}, 2, 18),
    ("RNN", STEPS, RNN, {"hidden_size": 3, "activations": ["HardSigmoid"]}, 2, 18),
    ("RNN", STEPS, {"w": draw(2, 3, 4), "r": draw(2, 3, 3)},
     {"hidden_size": 3, "direction": "bidirectional", "activations": ["HardSigmoid"] * 2,
      "activation_alpha": [0.4, 0.4], "activation_beta": [0.3, 0.3]}, 2, 18),
    ("GRU", STEPS, GRU, {"hidden_size": 3, "activations": ["HardSigmoid", "Sigmoid"], "activation_alpha": [0.4],
                         "activation_beta": [0.3]}, 2, 18),
    ("LSTM", STEPS, LSTM, {"hidden_size": 3, "activations": ["Sigmoid", "HardSigmoid", "HardSigmoid"],
                           "activation_alpha": [0.4, 0.5], "activation_beta": [0.3]}, 3, 18),
    ("DepthToSpace", draw(1, 8, 2, 3), {}, {"blocksize": 2, "mode": "CRD"}, 1, 18),
    ("Gemm", ROWS, {"b": draw(3, 5), "c": draw(5)}, {"transA": 1, "alpha": 0.5, "beta": 2.0}, 1, 18),
    ("Selu", ROWS, {}, {"alpha": 2.0, "gamma": 0.5}, 1, 18),
    ("ThresholdedRelu", ROWS, {}, {"alpha": 0.5}, 1, 18),
    ("Shrink", ROWS, {}, {"lambd": 0.5, "bias": 0.25}, 1, 18),
    ("HardSigmoid", ROWS, {}, {"alpha": 0.3, "beta": 0.6}, 1, 18),
    ("Celu", ROWS, {}, {"alpha": 2.0}, 1, 18),
    ("Elu", ROWS, {}, {"alpha": 0.5}, 1, 18),
    ("TopK", ROWS, {"k": number([2])}, {"axis": 0, "largest": 0}, 2, 18),
    ("Trilu", ROWS, {"k": number(1)}, {"upper": 0}, 1, 18),
    ("CumSum", ROWS, {"axis": number(1)}, {"exclusive": 1, "reverse": 1}, 1, 18),
    ("EyeLike", ROWS, {}, {"k": 1}, 1, 18),
    ("ArgMax", ROWS, {}, {"axis": 1, "keepdims": 0, "select_last_index": 1}, 1, 18),
    ("ReduceLogSumExp", ROWS, {"axes": number([0])}, {"keepdims": 0}, 1, 18),
    ("ReduceSum", ROWS, {"axes": np.zeros(0, np.int64)}, {"noop_with_empty_axes": 1}, 1, 18),
    ("Pad", ROWS, {"pads": number(1, 0), "value": np.float32(7), "axes": number([1])}, {}, 1, 18),
    ("Pad", ROWS, {"pads": number(1, 2, 0, 1)}, {"mode": "reflect"}, 1, 18),
    ("Split", ROWS, {}, {"axis": 1, "num_outputs": 3}, 3, 18),
    ("InstanceNormalization", IMAGE, {"s": draw(3), "b": draw(3)}, {"epsilon": 0.1}, 1, 18),
    ("GridSample", IMAGE, {"grid": RNG.uniform(-1.2, 1.2, (2, 4, 5, 2)).astype(np.float32)},
     {"mode": "nearest", "padding_mode": "border", "align_corners": 1}, 1, 16),
    ("GridSample", IMAGE, {"grid": RNG.uniform(-1.2, 1.2, (2, 4, 5, 2)).astype(np.float32)},
     {"padding_mode": "reflection"}, 1, 16),
    ("RoiAlign", IMAGE, {"rois": np.float32([[0, 0, 4, 5], [1, 1, 6, 4]]), "i": number(0, 1)},
     {"output_height": 2, "output_width": 3, "sampling_ratio": 2,
      "coordinate_transformation_mode": "output_half_pixel"}, 1, 16),
    ("ConvTranspose", draw(1, 2, 4, 5), {"w": draw(2, 3, 3, 3)},
     {"strides": [2, 2], "output_padding": [1, 1], "pads": [1, 0, 1, 0]}, 1, 18),
    ("Conv", draw(1, 4, 6), {"w": draw(6, 2, 3)}, {"group": 2, "auto_pad": "SAME_LOWER", "strides": [2]}, 1, 18),
]  # fmt: skip


@pytest.mark.parametrize("case", CASES, ids=[f"{case[0]}-{i}" for i, case in enumerate(CASES)])
def test_operators_agree_with_onnxruntime(case):
    operator, x, constants, attributes, outputs, opset = case
    names = ["" if value is None else name for name, value in constants.items()]
    weights = {name: value for name, value in constants.items() if value is not None}
    results = [f"y{i}" for i in range(outputs)]
    node = helper.make_node(operator, ["x", *names], results, **attributes)
    kinds = dict.fromkeys(results, F32)
    if operator in ("MaxPool", "TopK") and outputs == 2:
        kinds["y1"] = TensorProto.INT64
    if operator == "ArgMax":
        kinds["y0"] = TensorProto.INT64
    declared = {name: (kind, None) for name, kind in kinds.items()}
    model = make_model([node], {"x": (F32, list(x.shape))}, declared, weights, opset=opset)
    compare_with_onnxruntime(model, {"x": x}, 1e-4)


@pytest.mark.parametrize("attributes", [{}, {"inverse": 1}, {"onesided": 1}])
@pytest.mark.parametrize("data", [COMPLEX, COMPLEX[..., :1]], ids=["complex", "real"])
def test_transforms_of_data_that_may_be_real_or_complex(data, attributes):
    node = helper.make_node("DFT", ["x"], ["y"], axis=1, **attributes)
    model = make_model([node], {"x": (F32, [1, 8, None])}, {"y": (F32, None)}, opset=18)
    compare_with_onnxruntime(model, {"x": data}, 1e-4)


@pytest.mark.parametrize(
    ("activation", "parameters"),
    [("Relu", []), ("LeakyRelu", [0.25]), ("Clip", [-0.5, 0.75]), ("HardSigmoid", [0.3, 0.6]), ("Tanh", []), ("", [])],
)
def test_activations_of_convolutions(activation, parameters):
    attributes = {"activation": activation} if activation else {}
    if parameters:
        attributes["activation_params"] = parameters
    node = helper.make_node("FusedConv" if activation else "Conv", ["x", "w"], ["y"], **attributes)
    node.domain = MICROSOFT if activation else ""
    weights = {"w": draw(3, 2, 3, 3)}
    model = make_model([node], {"x": (F32, [1, 2, 5, 5])}, {"y": (F32, None)}, weights, domains=[MICROSOFT])
    compare_with_onnxruntime(model, {"x": draw(1, 2, 5, 5)}, 1e-4)


@pytest.mark.parametrize("has_zero", [False, True])
@pytest.mark.parametrize("has_bias", [False, True])
def test_products_with_dynamic_scales(has_zero, has_bias):
    weights = {"w": BYTES, "s": np.float32([0.05])}
    names = ["x", "w", "s"]
    if has_zero or has_bias:
        names.append("z" if has_zero else "")
        weights |= {"z": np.uint8([120])} if has_zero else {}
    if has_bias:
        names.append("b")
        weights["b"] = draw(5)
    node = helper.make_node("DynamicQuantizeMatMul", names, ["y"], domain=MICROSOFT)
    model = make_model([node], {"x": (F32, [3, 4])}, {"y": (F32, None)}, weights, domains=[MICROSOFT])
    compare_with_onnxruntime(model, {"x": ROWS}, 1e-3)


def test_mel_weights_agree_with_onnxruntime():
    values = {"n": number(8), "d": number(32), "r": number(8000), "l": np.float32(100), "h": np.float32(3500)}
    node = helper.make_node("MelWeightMatrix", list(values), ["m"])
    product = helper.make_node("MatMul", ["x", "m"], ["y"])
    model = make_model([node, product], {"x": (F32, [2, 17])}, {"y": (F32, None)}, values)
    compare_with_onnxruntime(model, {"x": draw(2, 17)}, 1e-4)


@pytest.mark.parametrize(
    ("operator", "constants", "attributes", "message"),
    [
        ("LpNormalization", {}, {"p": 3}, "the attribute p is 3, expected 1 or 2"),
        ("RNN", {"w": draw(1, 3, 4), "r": draw(1, 3, 3)}, {"direction": "up"}, "the attribute direction is 'up'"),
        ("LSTM", {"w": draw(1, 12, 4), "r": draw(1, 12, 3)}, {"input_forget": 1}, "input_forget of LSTM"),
        ("RNN", {"w": draw(2, 3, 4), "r": draw(2, 3, 3)},
         {"direction": "bidirectional", "activations": ["Tanh", "Relu"]},
         "different activations for the directions"),
        ("RNN", {"w": draw(2, 3, 4), "r": draw(2, 3, 3)},
         {"direction": "bidirectional", "activations": ["HardSigmoid"] * 2, "activation_alpha": [0.4, 0.5]},
         "different activations for the directions"),
        ("RNN", {"w": draw(1, 3, 4), "r": draw(1, 3, 3)}, {"activations": ["LeakyRelu"], "activation_alpha": [0.1]},
         "the activation function 'leakyrelu' is not supported"),
    ],
)  # fmt: skip
def test_operators_that_cannot_be_expressed(operator, constants, attributes, message):
    node = helper.make_node(operator, ["x", *constants], ["y"], **attributes)
    model = make_model([node], {"x": (F32, [3, 4, 4])}, {"y": (F32, None)}, constants)
    with pytest.raises(irrun.IrrunError, match=message):
        read(model)


MAPS = (1, 4, 6, 6)
#: Operator, shape of x, constants, attributes, message.
MISTAKES = [
    ("Constant", None, {}, {"value_int2": 1}, "expected an attribute that holds the value"),
    ("Unsqueeze", (2, 3), {}, {}, "the axes are missing"),
    ("ScatterElements", (2, 3), {"i": np.int64([[0]]), "u": draw(1, 1)}, {"reduction": "mean"},
     "the attribute reduction is 'mean', expected one of none, add, mul, max, min"),
    ("DepthToSpace", MAPS, {}, {"blocksize": 2, "mode": "RDC"}, "the attribute mode is 'RDC', expected DCR or CRD"),
    ("SpaceToDepth", MAPS, {}, {"blocksize": 2, "mode": "RDC"}, "the attribute mode is 'RDC', expected DCR or CRD"),
    ("Conv", MAPS, {"w": draw(2, 4, 3, 3)}, {"auto_pad": "SAME"}, "the attribute auto_pad is 'SAME', expected one of"),
    ("Conv", MAPS, {"w": draw(2, 4, 3, 3)}, {"pads": [1, 1]}, "the attribute pads has 2 values, expected 4"),
    ("Conv", MAPS, {"w": draw(2, 4, 3, 3)}, {"strides": [1]}, "the attribute strides has 1 values, expected 2"),
    ("Conv", (1, 4), {"w": draw(2, 4)}, {}, "the data has rank 2, expected at least 3"),
    ("ConvTranspose", (1, 2, None), {"w": draw(2, 2, 3)}, {"output_shape": [9]},
     "an output shape with dynamic dimensions"),
    ("Resize", MAPS, {"r": None, "s": np.float32([1, 1, 2, 2])}, {"mode": "area"},
     "the attribute mode is 'area', expected one of nearest, linear, cubic"),
    ("Resize", MAPS, {}, {}, "found neither scales nor sizes"),
    ("Resize", MAPS, {"r": None, "s": np.float32([1, 1, 2, 2])}, {"nearest_mode": "up"},
     "the attribute nearest_mode is 'up', expected one of"),
    ("Resize", MAPS, {"r": None, "s": np.float32([1, 1, 2, 2])}, {"coordinate_transformation_mode": "center"},
     "the attribute coordinate_transformation_mode is 'center'"),
    ("Resize", MAPS, {"r": None, "s": np.float32([1, 1, 2, 2])},
     {"coordinate_transformation_mode": "tf_crop_and_resize"}, "the region for tf_crop_and_resize is missing"),
    ("GridSample", MAPS, {"g": draw(1, 2, 2, 2)}, {"mode": "area"}, "the attribute mode is 'area', expected one of"),
    ("GridSample", (1, 2, 3, 3, 3), {"g": draw(1, 2, 2, 2, 3)}, {}, "GridSample of rank 5"),
    ("RoiAlign", MAPS, {"r": draw(1, 4), "i": number(0)}, {"coordinate_transformation_mode": "center"},
     "the attribute coordinate_transformation_mode is 'center'"),
    ("LpPool", (1, 2, None), {}, {"kernel_shape": [2], "ceil_mode": 1}, "ceil_mode of LpPool with dynamic dimensions"),
    ("CumProd", (2, None), {"a": np.int64(1)}, {}, "CumProd of a dimension that is dynamic or longer than"),
    ("Dropout", (2, 3), {"r": np.float32(0.5), "t": np.array(True)}, {}, "training_mode of Dropout with a ratio other"),
    ("Cast", (2, 3), {}, {"to": TensorProto.STRING}, "conversion from f32 to string"),
    ("STFT", (1, 8, 1), {"s": np.int64(2)}, {}, "found neither the window nor the length of frames"),
    ("STFT", (1, None, 2), {"s": np.int64(2), "w": draw(4)}, {}, "STFT of complex signals without constant lengths"),
    ("SequenceAt", (2, 3), {"i": np.int64(0)}, {}, "input 0 is not a sequence of a known length"),
    ("OptionalGetElement", None, {}, {}, "the optional has no value"),
    ("If", None, {"c": np.array(True)}, {}, "the attribute then_branch is missing, expected a graph"),
    ("Loop", None, {"n": np.int64(2), "c": np.array(True)}, {}, "the attribute body is missing, expected a graph"),
    ("LSTM", (80, 1, 4),
     {"w": draw(1, 12, 4), "r": draw(1, 12, 3), "b": None, "l": None, "h": None, "c": None, "p": draw(1, 9)},
     {"hidden_size": 3}, "LSTM with peepholes, except forward over at most 64 steps"),
    ("LSTM", (2, 1, 4),
     {"w": draw(1, 12, 4), "r": draw(1, 12, 3), "b": None, "l": None, "h": None, "c": None, "p": draw(1, 9)},
     {"hidden_size": 3, "clip": 1.0}, "LSTM with peepholes and layout, clip or lengths"),
]  # fmt: skip


@pytest.mark.parametrize(("operator", "shape", "constants", "attributes", "message"), MISTAKES)
def test_mistakes_in_attributes_and_inputs_are_reported(operator, shape, constants, attributes, message):
    names = ["" if value is None else name for name, value in constants.items()]
    node = helper.make_node(operator, [*([] if shape is None else ["x"]), *names], ["y"], name="wrong", **attributes)
    weights = {name: value for name, value in constants.items() if value is not None}
    inputs = {"x": (F32, list(shape or (1,)))}
    model = make_model([node], inputs, {"y": (F32, None)}, weights, opset=22)
    with pytest.raises(irrun.IrrunError, match=re.escape(message)) as caught:
        read(model)
    assert f"node 'wrong' ({operator})" in str(caught.value)


@pytest.mark.parametrize(
    ("constants", "attributes", "message"),
    [
        ({"w": np.zeros((3, 2, 8), np.uint8)}, {}, None),
        ({"w": np.zeros((3, 2, 8), np.uint8)}, {"bits": 2}, "MatMulNBits of 2 bits or with the indices of groups"),
        ({"w": np.zeros((3, 2, 4), np.uint8)}, {}, "the weights have 24 bytes, expected the size of [3, 2, 16] of u4"),
        ({"w": np.zeros((3, 2, 8), np.uint8)}, {"bits": 8}, "expected the size of [3, 2, 16] of u8"),
        (
            {"w": np.zeros((3, 2, 8), np.uint8), "z": np.zeros(4, np.uint8)},
            {},
            "the zero points have 4 bytes, expected the size of [3, 2] of u4",
        ),
    ],
)
def test_weights_of_bits_must_have_the_stated_size(constants, attributes, message):
    names = ["x", "w", "s", *(["z"] if "z" in constants else [])]
    attributes = {"N": 3, "K": 32, "block_size": 16, "bits": 4, **attributes}
    node = helper.make_node("MatMulNBits", names, ["y"], domain=MICROSOFT, **attributes)
    weights = {**constants, "s": draw(6)}
    model = make_model([node], {"x": (F32, [2, 32])}, {"y": (F32, None)}, weights, domains=[MICROSOFT])
    if message is None:
        assert read(model).outputs[0].partial_shape == (2, 3)
        return
    with pytest.raises(irrun.IrrunError, match=re.escape(message)):
        read(model)


def test_sequences_have_elements_at_their_positions_only():
    nodes = [
        helper.make_node("SequenceConstruct", ["x", "x"], ["s"]),
        helper.make_node("SequenceAt", ["s", "i"], ["y"], name="wrong"),
    ]
    for index, is_valid in ((0, True), (1, True), (-2, True), (2, False), (3, False), (-3, False)):
        model = make_model(nodes, {"x": (F32, [2])}, {"y": (F32, None)}, {"i": np.int64(index)})
        if is_valid:
            assert read(model).outputs[0].partial_shape == (2,)
            continue
        with pytest.raises(irrun.IrrunError, match=f"the position is {index}, expected one in a sequence of 2 tensors"):
            read(model)
