"""Exported models in onnxruntime: examples, loops, variables, quantized and compressed models."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")

import onnx
import onnxruntime as ort
from ir_text import layer, net, port, write, write_row_loop

import irrun
from irrun.export.verification import verify_export

EXAMPLES = Path(__file__).parents[2] / "examples"


def check(model, folder):
    """Export a model, verify it, and return the types of its nodes."""
    result = irrun.export_onnx(model, folder / "model.onnx")
    onnx.checker.check_model(str(result.files[0]))
    differences = verify_export(model, result.files[0])
    assert differences
    assert not [str(d) for d in differences if d.differs]
    return [node.op_type for node in onnx.load(str(result.files[0])).graph.node]


@pytest.mark.parametrize("name", ["date_translation", "text_generation"])
def test_examples(name, tmp_path):
    check(irrun.read_model(EXAMPLES / name / "model.xml"), tmp_path)


@pytest.mark.parametrize(
    "name",
    [
        "face-detection-retail-0004/ir3",
        "face-detection-retail-0004/ir11",
        "samplenet",
        "silero-vad",
        "public/vehicle-license-plate-detection-0106-f16-int8",
        "public/person-detection-0201-int8",
    ],
)
def test_real_networks(name, data, tmp_path):
    check(irrun.read_model(data / name / "model.xml"), tmp_path)


def test_dynamic_batch_of_a_detector(data, tmp_path):
    model = irrun.read_model(data / "face-detection-retail-0004" / "ir11" / "model.xml")
    model.reshape({"data": [-1, 3, 300, 300]})
    irrun.export_onnx(model, tmp_path / "model.onnx")
    onnx.checker.check_model(str(tmp_path / "model.onnx"), full_check=True)
    session = ort.InferenceSession(tmp_path / "model.onnx", providers=["CPUExecutionProvider"])
    images = np.random.default_rng(0).uniform(0, 255, (2, 3, 300, 300)).astype(np.float32)
    (found,) = session.run(None, {"data": images})
    # Detections of nearly equal scores may be in another order.
    expected = irrun.run(model, images)["detection_out"]
    np.testing.assert_allclose(np.sort(found, axis=2), np.sort(expected, axis=2), atol=1e-5)


def test_the_transposed_matrix_of_a_product_with_a_vector(tmp_path):
    matmul = 'transpose_a="true" transpose_b="false"'
    layers = [
        layer(0, "Parameter", data='shape="4,3" element_type="f32"', outputs=[port(0, (4, 3), "FP32", "a")]),
        layer(1, "Parameter", data='shape="4" element_type="f32"', outputs=[port(0, (4,), "FP32", "b")]),
        layer(2, "MatMul", data=matmul, inputs=[port(0, (4, 3)), port(1, (4,))], outputs=[port(2, (3,), "FP32", "y")]),
        layer(3, "Result", inputs=[port(0, (3,))]),
    ]
    check(irrun.read_model(write(tmp_path, net(layers, [(0, 0, 2, 0), (1, 0, 2, 1), (2, 2, 3, 0)]))), tmp_path)


def test_loops(tmp_path):
    assert "Loop" in check(irrun.read_model(write_row_loop(tmp_path)), tmp_path)


def make_accumulator():
    """Return a net that adds its input to a variable."""
    variable = 'variable_id="total" variable_type="f32" variable_shape="2"'
    layers = [
        layer(0, "Parameter", data='shape="2" element_type="f32"', outputs=[port(0, (2,), "FP32", "x")]),
        layer(1, "ReadValue", "opset6", variable, outputs=[port(0, (2,), "FP32")]),
        layer(2, "Add", inputs=[port(0, (2,)), port(1, (2,))], outputs=[port(2, (2,), "FP32", "sum")]),
        layer(3, "Assign", "opset6", 'variable_id="total"', [port(0, (2,))], [port(1, (2,), "FP32")]),
        layer(4, "Result", inputs=[port(0, (2,))]),
    ]
    return net(layers, [(0, 0, 2, 0), (1, 0, 2, 1), (2, 2, 3, 0), (2, 2, 4, 0)])


def test_variables_are_inputs_with_defaults_and_outputs(tmp_path):
    model = write(tmp_path, make_accumulator())
    irrun.export_onnx(model, tmp_path / "model.onnx")
    session = ort.InferenceSession(tmp_path / "model.onnx", providers=["CPUExecutionProvider"])
    assert [value.name for value in session.get_outputs()] == ["sum", "total.new"]
    x = np.array([1, 2], np.float32)
    first, state = session.run(None, {"x": x})
    second, _ = session.run(None, {"x": x, "total": state})
    request = irrun.compile_model(model).create_infer_request()
    for found in (first, second):
        np.testing.assert_array_equal(found, request.infer({"x": x})["sum"])


def test_variables_that_are_read_twice(tmp_path):
    """Both layers read the same state, whose initial value depends on an input or is a constant."""
    variable = 'variable_id="total" variable_type="f32" variable_shape="2"'
    for has_initial in (False, True):
        inputs = [port(0, (2,))] if has_initial else []
        layers = [
            layer(0, "Parameter", data='shape="2" element_type="f32"', outputs=[port(0, (2,), "FP32", "x")]),
            layer(1, "ReadValue", "opset6", variable, inputs, [port(1, (2,), "FP32")]),
            layer(2, "ReadValue", "opset6", variable, inputs, [port(1, (2,), "FP32")]),
            layer(3, "Multiply", inputs=[port(0, (2,)), port(1, (2,))], outputs=[port(2, (2,), "FP32", "product")]),
            layer(4, "Add", inputs=[port(0, (2,)), port(1, (2,))], outputs=[port(2, (2,), "FP32")]),
            layer(5, "Assign", "opset6", 'variable_id="total"', [port(0, (2,))], [port(1, (2,), "FP32")]),
            layer(6, "Result", inputs=[port(0, (2,))]),
        ]
        edges = [(1, 1, 3, 0), (2, 1, 3, 1), (0, 0, 4, 0), (1, 1, 4, 1), (4, 2, 5, 0), (3, 2, 6, 0)]
        model = write(tmp_path, net(layers, [*edges, *([(0, 0, 1, 0), (0, 0, 2, 0)] if has_initial else [])]))
        irrun.export_onnx(model, tmp_path / "model.onnx")
        session = ort.InferenceSession(tmp_path / "model.onnx", providers=["CPUExecutionProvider"])
        x, states = np.float32([2, 3]), {}
        request = irrun.compile_model(model).create_infer_request()
        for _ in range(3):
            product, state = session.run(None, {"x": x, **states})
            states = {"total": state}
            np.testing.assert_array_equal(product, request.infer({"x": x})["product"])


@pytest.mark.parametrize(("declared", "expected"), [("?,2", ["total_dim_0", 2]), ("1,2", [1, 2])])
def test_shapes_of_variables(declared, expected, tmp_path):
    data = f'variable_id="total" variable_type="f32" variable_shape="{declared}"'
    layers = [
        layer(0, "Const", data='element_type="f32" shape="1,2" offset="0" size="8"', outputs=[port(0, (1, 2), "FP32")]),
        layer(1, "ReadValue", "opset6", data, [port(0)], [port(1, (), "FP32")]),
        layer(2, "Assign", "opset6", 'variable_id="total"', [port(0)], [port(1, (), "FP32")]),
        layer(3, "Relu", inputs=[port(0)], outputs=[port(1, (), "FP32")]),
        layer(4, "Result", inputs=[port(0)]),
    ]
    path = write(tmp_path, net(layers, [(0, 0, 1, 0), (1, 1, 2, 0), (1, 1, 3, 0), (3, 1, 4, 0)]), np.float32([1, -2]))
    irrun.export_onnx(path, tmp_path / "model.onnx")
    exported = onnx.load(str(tmp_path / "model.onnx")).graph
    (state,) = exported.input
    assert [d.dim_param or d.dim_value for d in state.type.tensor_type.shape.dim] == expected
    session = ort.InferenceSession(tmp_path / "model.onnx", providers=["CPUExecutionProvider"])
    assert [value.tolist() for value in session.run(None, {})] == [[[1, 0]], [[1, -2]]]


def make_quantized(low, high, levels=256):
    """Return a net of one FakeQuantize, and its weights."""
    limits = [layer(i, "Const", data=f'element_type="f32" shape="" offset="{4 * (i - 1)}" size="4"',
                    outputs=[port(0, (), "FP32")]) for i in range(1, 5)]  # fmt: skip
    layers = [
        layer(0, "Parameter", data='shape="1,64" element_type="f32"', outputs=[port(0, (1, 64), "FP32", "x")]),
        *limits,
        layer(5, "FakeQuantize", data=f'levels="{levels}" auto_broadcast="numpy"',
              inputs=[port(i, (1, 64) if i == 0 else ()) for i in range(5)],
              outputs=[port(5, (1, 64), "FP32", "y")]),
        layer(6, "Result", inputs=[port(0, (1, 64))]),
    ]  # fmt: skip
    edges = [(0, 0, 5, 0), *((i, 0, 5, i) for i in range(1, 5)), (5, 5, 6, 0)]
    return net(layers, edges), np.array([low, high, low, high], np.float32)


@pytest.mark.parametrize(
    ("low", "high", "levels", "expected"),
    [
        (0, 2.55, 256, ["QuantizeLinear", "DequantizeLinear"]),
        (-1.28, 1.27, 256, ["QuantizeLinear", "DequantizeLinear"]),
        (-1.27, 1.27, 255, ["Clip", "QuantizeLinear", "DequantizeLinear"]),
    ],
)
def test_fake_quantize_becomes_a_pair(low, high, levels, expected, tmp_path):
    text, weights = make_quantized(low, high, levels)
    model = irrun.read_model(write(tmp_path, text, weights))
    irrun.export_onnx(model, tmp_path / "model.onnx")
    assert [node.op_type for node in onnx.load(str(tmp_path / "model.onnx")).graph.node] == expected
    x = np.linspace(-2, 3, 64, dtype=np.float32)[np.newaxis]
    session = ort.InferenceSession(tmp_path / "model.onnx", providers=["CPUExecutionProvider"])
    (found,) = session.run(None, {"x": x})
    # Values between two levels may be rounded to either.
    np.testing.assert_allclose(found, irrun.run(model, x)["y"], atol=(high - low) / (levels - 1) * 1.001)
    assert np.mean(np.abs(found - irrun.run(model, x)["y"]) > 1e-6) < 0.05


def test_other_levels_are_computed_in_steps(tmp_path):
    text, weights = make_quantized(-1, 2, 16)
    types = check(irrun.read_model(write(tmp_path, text, weights)), tmp_path)
    assert "QuantizeLinear" not in types


@pytest.mark.parametrize("kind", ["u8", "i8", "u4", "i4"])
@pytest.mark.parametrize("groups", [1, 4])
@pytest.mark.parametrize("has_zero_point", [False, True])
def test_compressed_weights_stay_compressed(kind, groups, has_zero_point, tmp_path):
    ov = pytest.importorskip("openvino")
    from openvino import opset13 as ops

    rng = np.random.default_rng(0)
    low, high = {"u8": (0, 256), "i8": (-128, 128), "u4": (0, 16), "i4": (-8, 8)}[kind]
    shape = (128, groups, 128 // groups) if groups > 1 else (128, 128)
    scales = (*shape[:-1], 1)

    def make_integers(shape):
        values = rng.integers(low, high, shape).ravel().tolist()
        return ops.convert(ov.op.Constant(getattr(ov.Type, kind), ov.Shape(shape), values), np.float32)

    x = ops.parameter([-1, 128], np.float32, name="x")
    weights = make_integers(shape)
    if has_zero_point:
        weights = ops.subtract(weights, make_integers(scales))
    weights = ops.multiply(weights, ops.constant(rng.random(scales).astype(np.float32)))
    if groups > 1:
        weights = ops.reshape(weights, np.array([128, 128]), False)
    model = ov.Model([ops.matmul(x, weights, False, True)], [x], "m")
    ov.save_model(model, tmp_path / "model.xml", compress_to_fp16=False)
    model = irrun.read_model(tmp_path / "model.xml")
    assert check(model, tmp_path)[0] == "DequantizeLinear"
    assert (tmp_path / "model.onnx").stat().st_size < 128 * 128 * 2 + 8192
    irrun.export_onnx(model, tmp_path / "old.onnx", opset=18)  # without types of 4 bits, and without blocks
    assert not any(difference.differs for difference in verify_export(model, tmp_path / "old.onnx"))


@pytest.mark.parametrize("kind", ["nf4", "f4e2m1", "f8e4m3", "u2", "i4"])
def test_weights_that_are_scaled_in_f16_are_not_rounded(kind, tmp_path):
    ov = pytest.importorskip("openvino")
    from openvino import opset13 as ops

    rng = np.random.default_rng(0)
    codes = ov.op.Constant(getattr(ov.Type, kind), ov.Shape([16, 4, 32]), rng.integers(0, 4, 2048).tolist())
    scaled = ops.multiply(ops.convert(codes, np.float16), ops.constant(rng.random((16, 4, 1)).astype(np.float16)))
    weights = ops.convert(ops.reshape(scaled, np.array([16, 128]), False), np.float32)
    x = ops.parameter([-1, 128], np.float32, name="x")
    ov.save_model(ov.Model([ops.matmul(x, weights, False, True)], [x]), tmp_path / "model.xml", compress_to_fp16=False)
    model = irrun.read_model(tmp_path / "model.xml")
    assert check(model, tmp_path)[0] == ("DequantizeLinear" if kind == "i4" else "Cast")
    assert (tmp_path / "model.onnx").stat().st_size < 2048 + 2048
    assert max(difference.maximum for difference in verify_export(model, tmp_path / "model.onnx")) < 1e-6
