"""Comparison of exported models, messages about layers that cannot be exported, and quantized layers."""

from __future__ import annotations

import re
import sys

import ml_dtypes
import numpy as np
import pytest
from ir_text import chain, layer, net, port, write

pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")

import onnx

import irrun
from export.test_layers import check, make, run_exported
from irrun.export import verification, writing
from irrun.export.rules import describe_rule, find_rule
from irrun.export.verification import Difference, verify_export

INF, NAN = np.inf, np.nan


@pytest.mark.parametrize(
    ("expected", "found", "maximum", "differs"),
    [
        ([1.0, 2.0], [1.0, 2.0], 0, False),
        ([1.0, 2.0], [1.0, 2.0 + 2e-4 * 0.9], 0.9e-4, False),
        ([1.0, 2.0], [1.0, 2.0 + 2e-4 * 1.1], 1.1e-4, True),
        ([0.0, 1e-3], [0.0, 1e-3 + 0.9e-6], 0.9e-4, False),
        ([0.0, 1e-3], [0.0, 1e-3 + 1.1e-6], 1.1e-4, True),
        ([INF, NAN, -INF, 2.0], [INF, NAN, -INF, 2.0], 0, False),
        ([INF, 2.0], [-INF, 2.0], INF, True),
        ([NAN, 2.0], [1.0, 2.0], INF, True),
        ([1.0, 2.0], [NAN, 2.0], INF, True),
        ([1.0, 2.0], [1.0], INF, True),
        ([], [], 0, False),
    ],
)
def test_differences_are_relative_to_the_range(expected, found, maximum, differs):
    result = verification._compare("y", np.array(expected), np.array(found))
    assert (result.name, result.differs, result.uncertainty) == ("y", differs, 0)
    assert result.maximum == pytest.approx(maximum, rel=1e-6)


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16])
def test_narrow_types_have_a_tolerance_of_their_own(dtype):
    for error, differs in ((2**-7, False), (2**-6, True)):
        result = verification._compare("y", np.array([1], dtype), np.array([1 + error], dtype))
        assert (result.maximum, result.differs) == (error, differs)
    result = verification._compare("y", np.array([1000], np.int16), np.array([1005], np.int16))
    assert (result.maximum, result.differs) == (0.005, True)


def test_texts_are_equal_or_not():
    assert verification._compare("y", np.array(["a", "b"]), np.array(["a", "b"], object)) == ("y", 0, False, 0)
    assert verification._compare("y", np.array(["a", "b"]), np.array(["a", "c"], object)) == ("y", INF, True, 0)


def test_differences_as_text():
    assert str(Difference("y", 0.5, True)) == "y: differs, by 0.5 of the range"
    assert str(Difference("y", 1e-7, False)) == "y: agrees, by 1e-07 of the range"
    text = "y: is uncertain, by 0.01 of the range; rounding in quantization changes it by 0.02"
    assert str(Difference("y", 0.01, False, 0.02)) == text


def test_models_that_onnxruntime_cannot_run_are_reported(tmp_path):
    model = irrun.read_model(write(tmp_path, chain("Relu", "Mine", versions=["opset1", "extension"])))
    relu = irrun.read_model(write(tmp_path, chain("Relu"), name="relu"))
    irrun.export_onnx(model, tmp_path / "model.onnx", partial=True)
    with pytest.raises(irrun.ExecutionError, match="onnxruntime cannot run the exported model: "):
        verify_export(relu, tmp_path / "model.onnx")


def test_inputs_of_the_same_name(tmp_path):
    data = 'shape="2" element_type="f32"'
    layers = [
        layer(0, "Parameter", data=data, outputs=[port(0, (2,), "FP32", "x")]),
        layer(1, "Parameter", data=data, outputs=[port(0, (2,), "FP32", "x")]),
        layer(2, "Subtract", inputs=[port(0), port(1)], outputs=[port(2, (2,), "FP32", "y")]),
        layer(3, "Result", inputs=[port(0)]),
    ]
    model = irrun.read_model(write(tmp_path, net(layers, [(0, 0, 2, 0), (1, 0, 2, 1), (2, 2, 3, 0)])))
    irrun.export_onnx(model, tmp_path / "model.onnx")
    assert verify_export(model, tmp_path / "model.onnx") == [("y", 0, False, 0)]


@pytest.mark.parametrize("type", ["Relu", "FakeQuantize"])
@pytest.mark.parametrize("differs", [False, True])
def test_only_quantized_models_that_differ_run_without_optimizations(type, differs, tmp_path, monkeypatch):
    """The second run gives the uncertainty."""
    limits = np.float32([0, 2, 0, 2])
    count = 5 if type == "FakeQuantize" else 1
    layers = [
        layer(0, "Parameter", data='shape="4" element_type="f32"', outputs=[port(0, (4,), "FP32", "x")]),
        *(layer(i, "Const", data=f'element_type="f32" shape="" offset="{4 * i - 4}" size="4"', outputs=[port(0, ())])
          for i in range(1, count)),
        layer(5, type, data='levels="256"' if count > 1 else "", inputs=[port(i) for i in range(count)],
              outputs=[port(5, (4,), "FP32")]),
        layer(6, "Result", inputs=[port(0)]),
    ]  # fmt: skip
    edges = [(0, 0, 5, 0), *((i, 0, 5, i) for i in range(1, count)), (5, 5, 6, 0)]
    model = irrun.read_model(write(tmp_path, net(layers, edges), limits))
    irrun.export_onnx(model, tmp_path / "model.onnx")
    monkeypatch.setattr(verification, "_compare", lambda name, *_: Difference(name, 0.5, differs))
    (result,) = verify_export(model, tmp_path / "model.onnx")
    assert (result.uncertainty, result.differs) == ((0.5, False) if differs and count > 1 else (0, differs))


@pytest.mark.parametrize("error", [1.5, 3])
def test_results_of_quantized_models_are_uncertain_by_levels(error, tmp_path, monkeypatch):
    """Errors of up to twice the difference that rounding makes are accepted."""
    limits = np.float32([0, 2, 0, 2])
    layers = [
        layer(0, "Parameter", data='shape="4" element_type="f32"', outputs=[port(0, (4,), "FP32", "x")]),
        *(layer(i, "Const", data=f'element_type="f32" shape="" offset="{4 * i - 4}" size="4"', outputs=[port(0, ())])
          for i in range(1, 5)),
        layer(5, "FakeQuantize", data='levels="256"', inputs=[port(i) for i in range(5)],
              outputs=[port(5, (4,), "FP32")]),
        layer(6, "Result", inputs=[port(0)]),
    ]  # fmt: skip
    edges = [(0, 0, 5, 0), *((i, 0, 5, i) for i in range(1, 5)), (5, 5, 6, 0)]
    model = irrun.read_model(write(tmp_path, net(layers, edges), limits))
    irrun.export_onnx(model, tmp_path / "model.onnx")
    differences = iter([0.01 * error, 0.01])
    monkeypatch.setattr(
        verification, "_compare", lambda name, *_: Difference(name, value := next(differences), value > 0.001)
    )
    (result,) = verify_export(model, tmp_path / "model.onnx")
    assert (result.maximum, result.uncertainty, result.differs) == (0.01 * error, 0.01, error > 2)


@pytest.mark.parametrize("package", ["onnx", "onnxruntime"])
def test_missing_packages_are_named(package, tmp_path, monkeypatch):
    model = irrun.read_model(write(tmp_path, chain("Relu")))
    irrun.export_onnx(model, tmp_path / "model.onnx")
    monkeypatch.setitem(sys.modules, package, None)
    run = irrun.export_onnx if package == "onnx" else verify_export
    with pytest.raises(irrun.InputError, match=rf"requires {package}: pip install '?(irrun\[)?{package}"):
        run(model, tmp_path / "model.onnx")


def test_files_that_cannot_be_written_are_reported(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(irrun.InputError, match=r"cannot write .*: "):
        irrun.export_onnx(write(tmp_path, chain("Relu")), tmp_path / "file" / "model.onnx")


@pytest.mark.parametrize("opset", [17, onnx.defs.onnx_opset_version() + 1, -1])
def test_opsets_out_of_range(opset, tmp_path):
    with pytest.raises(irrun.InputError, match=f"opset {opset} is not supported, expected 18 to"):
        irrun.export_onnx(write(tmp_path, chain("Relu")), tmp_path / "model.onnx", opset=opset)


def test_the_first_and_the_newest_opset(tmp_path):
    newest = min(28, onnx.defs.onnx_opset_version())
    for opset in (18, newest):
        result = irrun.export_onnx(write(tmp_path, chain("Relu")), tmp_path / "model.onnx", opset=opset)
        assert (result.opset, result.unsupported) == (opset, [])


def test_rules_are_described():
    assert find_rule("Mystery-1") is None
    assert describe_rule("Mystery-1") == "not supported"
    assert describe_rule("Tanh-1") == "Tanh."
    assert describe_rule("Roll-7") == "Export Roll: both parts of each axis are exchanged."


@pytest.mark.parametrize(
    ("type", "version", "data", "values", "constants", "dynamic", "message"),
    [
        ("Clamp", "opset1", 'min="2" max="1"', [make(3)], [], False, "min 2.0 is greater than max 1.0"),
        ("StridedSlice", "opset1", 'begin_mask="" end_mask=""', [make(3), np.int64([0]), np.int64([1])], [], True,
         "the number of sliced axes is dynamic"),
        ("Squeeze", "opset1", "", [make(1, 3), np.int64([5])], [1], False, "axis|axes"),
        ("Inverse", "opset14", 'adjoint="false"', [make(2, 2)], [], True, "matrices of a dynamic number of rows"),
        ("BinaryConvolution", "opset1",
         'mode="xnor-popcount" strides="1,1" dilations="1,1" pads_begin="0,0" pads_end="0,0" pad_value="0"',
         [make(1, 3, 5, 5), np.ones((2, 3, 3, 3), np.uint8)], [], False, "the binary filters are not constant"),
        ("BinaryConvolution", "opset1",
         'mode="xnor-popcount" strides="1,1" dilations="1,1" pads_begin="0,0" pads_end="0,0" pad_value="0"',
         [make(1, 3, 5, 5), np.ones((2, 3, 3, 3), np.uint8)], [1], True, "binary convolutions with dynamic shapes"),
        ("MaxPool", "opset1", 'kernel="2,2" strides="1,1" pads_begin="-1,0" pads_end="0,0" rounding_type="floor"',
         [make(1, 2, 4, 4)], [], True, "negative pads with a dynamic shape"),
        ("Convert", "opset1", 'destination_type="string"', [make(3)], [], False, "f32 cannot be converted to string"),
    ],
)  # fmt: skip
def test_layers_that_cannot_be_exported(type, version, data, values, constants, dynamic, message, tmp_path):
    with pytest.raises(irrun.IrrunError, match=message):
        check(tmp_path, type, version, data, values, constants=constants, dynamic=dynamic)


def test_inputs_that_onnx_does_not_have(tmp_path):
    layers = [
        layer(0, "Parameter", data='shape="4" element_type="u2"', outputs=[port(0, (4,), "U2", "x")]),
        layer(1, "Parameter", data='shape="4" element_type="f32"', outputs=[port(0, (4,), "FP32", "y")]),
        layer(2, "Relu", inputs=[port(0)], outputs=[port(1, (4,), "FP32")]),
        layer(3, "Result", inputs=[port(0)]),
    ]
    path = write(tmp_path, net(layers, [(1, 0, 2, 0), (2, 1, 3, 0)]))
    message = r": 1 layer cannot be exported to ONNX: layer 0 .*: ONNX opset 21 does not have the element type u2$"
    with pytest.raises(irrun.UnsupportedError, match=message):
        irrun.export_onnx(path, tmp_path / "model.onnx")


def test_axes_of_data_of_unknown_rank(tmp_path):
    layers = [
        layer(0, "Parameter", data='shape="..." element_type="f32"', outputs=[port(0, (), "FP32", "x")]),
        layer(1, "Parameter", data='shape="1" element_type="i64"', outputs=[port(0, (1,), "I64", "axes")]),
        layer(2, "ReduceSum", data='keep_dims="false"', inputs=[port(0), port(1)], outputs=[port(2, (), "FP32")]),
        layer(3, "Result", inputs=[port(0)]),
    ]
    path = write(tmp_path, net(layers, [(0, 0, 2, 0), (1, 0, 2, 1), (2, 2, 3, 0)]))
    irrun.export_onnx(path, tmp_path / "model.onnx")
    x = make(2, 3)
    (found,) = run_exported(tmp_path / "model.onnx", [x, np.array([1])])
    np.testing.assert_allclose(found, x.sum(1), rtol=1e-5)


def test_data_of_layers_that_cannot_be_exported(tmp_path):
    path = write(tmp_path, chain("Mine", "Relu"))
    with pytest.raises(irrun.UnsupportedError) as caught:
        irrun.export_onnx(path, tmp_path / "model.onnx")
    assert re.search(
        r"2 layers cannot .* the operation is unknown; .*an input comes from a layer", str(caught.value)
    ) or (re.search(r"1 layer cannot .* the operation is unknown", str(caught.value)))


@pytest.mark.parametrize("mask", [[True, False], [False, True], [False, False], [True, True]])
def test_reversed_axes_of_constant_masks(mask, tmp_path):
    types = check(tmp_path, "Reverse", "opset1", 'mode="mask"', [make(3, 4), np.array(mask)], constants=[1])
    assert ("Slice" in types) == any(mask)


@pytest.mark.parametrize("detects", [("true", "false"), ("false", "true"), ("true", "true"), ("false", "false")])
def test_infinities(detects, tmp_path):
    data = f'detect_negative="{detects[0]}" detect_positive="{detects[1]}"'
    check(tmp_path, "IsInf", "opset10", data, [np.float32([1, INF, -INF, NAN])])


@pytest.mark.parametrize("dtype", ["i1", "i2", "i4", "i8"])
def test_slopes_of_integers(dtype, tmp_path):
    check(tmp_path, "PRelu", "opset1", "", [np.array([[-4, 5], [6, -8]], dtype), np.array([2, 3], dtype)])


@pytest.mark.parametrize("axis", [0, 1])
def test_explicit_broadcasts(axis, tmp_path):
    values = [make(3), np.int64([3, 4] if axis == 0 else [4, 3]), np.int64([axis])]
    check(tmp_path, "Broadcast", "opset3", 'mode="explicit"', values, constants=[1, 2])
    check(tmp_path, "Broadcast", "opset3", 'mode="explicit"', [np.array(2.5, np.float32), np.int64([2, 3]),
          np.zeros(0, np.int64)], constants=[1, 2])  # fmt: skip


@pytest.mark.parametrize(("axis", "shape"), [(0, (2,)), (1, (3,)), (-1, (3, 4)), (1, (3, 4))])
def test_broadcasts_from_an_axis(axis, shape, tmp_path):
    for version in ("opset1", "opset3"):
        values = [make(*shape), np.int64([2, 3, 4])]
        check(tmp_path, "Broadcast", version, f'mode="pdpd" axis="{axis}"', values, constants=[1])


@pytest.mark.parametrize("shape", [(), (3,)])
def test_scalars_and_vectors(shape, tmp_path):
    data = make(*shape) if shape else np.array(0.5, np.float32)
    for type, version, attributes in (
        ("Softmax", "opset8", 'axis="0"'),
        ("LogSoftmax", "opset5", 'axis="0"'),
        ("NonZero", "opset3", 'output_type="i64"'),
        ("Selu", "opset1", ""),
    ):
        if type.endswith("oftmax") and not shape:
            continue
        values = [data, *(np.float32([1.6]), np.float32([1.05]))[: 2 if type == "Selu" else 0]]
        check(tmp_path, type, version, attributes, values)


FAKE = 'levels="{}"'


#: How the lowest value is chosen, and the number of levels. With 255 levels, the zero point is 0.
RANGES = [("symmetric", 255), ("symmetric", 256), ("symmetric", 16), ("unsigned", 255), ("unsigned", 256),
          ("unsigned", 16), ("asymmetric", 256), ("asymmetric", 16)]  # fmt: skip


@pytest.mark.parametrize("axis", [None, 0, 1])
@pytest.mark.parametrize("is_constant", [False, True])
@pytest.mark.parametrize(("kind", "levels"), RANGES)
def test_quantized_values(kind, levels, is_constant, axis, tmp_path):
    shape = (4, 3)
    high = np.float32(2.0) if axis is None else np.linspace(1, 2, shape[axis], dtype=np.float32)
    if axis is not None:
        high = high.reshape([-1 if i == axis else 1 for i in range(2)])
    steps = levels - 1
    if kind == "unsigned":
        low = np.zeros_like(high)
    elif kind == "asymmetric":
        low = (-high * (steps // 4) / (steps - steps // 4)).astype(np.float32)
    else:
        low = -high if levels == 255 else (-high * (levels / (levels - 2))).astype(np.float32)
    low = np.asarray(low, np.float32)
    data = np.random.default_rng(0).uniform(-3, 3, shape).astype(np.float32)
    values = [data, low, np.asarray(high), low, np.asarray(high)]
    if is_constant:
        values.append(make(*shape, seed=2))
        layers = [layer(0, "Parameter", data='shape="4,3" element_type="f32"', outputs=[port(0, shape, "FP32", "x")])]
        weights = b""
        for i, value in enumerate(values[:5], 1):
            text = f'element_type="f32" shape="{",".join(map(str, value.shape))}" offset="{len(weights)}"'
            layers.append(
                layer(i, "Const", data=f'{text} size="{value.nbytes}"', outputs=[port(0, value.shape, "FP32")])
            )
            weights += value.tobytes()
        layers += [
            layer(6, "FakeQuantize", data=FAKE.format(levels), inputs=[port(i) for i in range(5)],
                  outputs=[port(5, shape, "FP32")]),
            layer(7, "Add", inputs=[port(0), port(1)], outputs=[port(2, shape, "FP32")]),
            layer(8, "Result", inputs=[port(0)]),
        ]  # fmt: skip
        edges = [*((i, 0, 6, i - 1) for i in range(1, 6)), (0, 0, 7, 0), (6, 5, 7, 1), (7, 2, 8, 0)]
        model = irrun.read_model(write(tmp_path, net(layers, edges), weights))
        irrun.export_onnx(model, tmp_path / "model.onnx")
        (found,) = run_exported(tmp_path / "model.onnx", [values[5]])
        expected = irrun.run(model, values[5])[0]
        # Codes that are nearly halfway between two may be rounded to either.
        assert np.abs(found - expected).max() <= np.max(high - low) / steps * 1.001
        assert np.mean(np.abs(found - expected) > 1e-5) < 0.1
        return
    types = check(tmp_path, "FakeQuantize", "opset1", FAKE.format(levels), values, constants=[1, 2, 3, 4], rtol=2e-5)
    assert ("QuantizeLinear" in types) == (levels in (255, 256) and not (kind == "unsigned" and levels == 255))


def test_flags_are_stored_as_zero_and_one(tmp_path):
    layers = [
        layer(0, "Parameter", data='shape="3" element_type="boolean"', outputs=[port(0, (3,), "BOOL", "x")]),
        layer(1, "Const", data='element_type="boolean" shape="3" offset="0" size="3"', outputs=[port(0, (3,), "BOOL")]),
        layer(2, "LogicalAnd", inputs=[port(0), port(1)], outputs=[port(2, (3,), "BOOL")]),
        layer(3, "Result", inputs=[port(0)]),
    ]
    path = write(tmp_path, net(layers, [(0, 0, 2, 0), (1, 0, 2, 1), (2, 2, 3, 0)]), b"\x00\x01\xff")
    irrun.export_onnx(path, tmp_path / "model.onnx")
    (tensor,) = onnx.load(str(tmp_path / "model.onnx")).graph.initializer
    assert tensor.raw_data == b"\x00\x01\x01"


@pytest.mark.parametrize("size", [0, 1, 127, 128, 16383, 16384, 2**31])
def test_headers_of_fields_are_those_of_protocol_buffers(size):
    header = writing._encode_field(9, size)
    assert header[0] == 9 << 3 | 2
    digits = [byte & 127 for byte in header[1:]]
    assert sum(digit << 7 * i for i, digit in enumerate(digits)) == size
    assert [byte >> 7 for byte in header[1:]] == [1] * (len(digits) - 1) + [0]
    assert digits[-1] or size == 0


def test_values_that_depend_on_constants_are_computed_during_the_export(tmp_path):
    layers = [
        layer(0, "Parameter", data='shape="3" element_type="f32"', outputs=[port(0, (3,), "FP32", "x")]),
        layer(1, "Const", data='element_type="f32" shape="3" offset="0" size="12"', outputs=[port(0, (3,), "FP32")]),
        layer(2, "Exp", inputs=[port(0)], outputs=[port(1, (3,), "FP32")]),
        layer(3, "Add", inputs=[port(0), port(1)], outputs=[port(2, (3,), "FP32")]),
        layer(4, "Result", inputs=[port(0)]),
    ]
    edges = [(0, 0, 3, 0), (1, 0, 2, 0), (2, 1, 3, 1), (3, 2, 4, 0)]
    irrun.export_onnx(write(tmp_path, net(layers, edges), np.float32([0, 1, 2])), tmp_path / "model.onnx")
    exported = onnx.load(str(tmp_path / "model.onnx")).graph
    assert [node.op_type for node in exported.node] == ["Add"]
    np.testing.assert_allclose(onnx.numpy_helper.to_array(exported.initializer[0]), np.exp([0, 1, 2]), rtol=1e-6)


def test_products_of_groups_of_rows(tmp_path):
    values = [make(5, 3), make(2, 4, 3, seed=1), np.int32([2, 5])]
    check(tmp_path, "GroupedMatMul", "opset17", "", values, rtol=1e-4)
    check(tmp_path, "GroupedMatMul", "opset17", "", [make(2, 5, 3), make(2, 4, 3, seed=1)], rtol=1e-4)
