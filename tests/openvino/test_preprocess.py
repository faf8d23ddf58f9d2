"""Preprocessing: models that are built with the same steps compute the same in OpenVINO and in its replacement."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from openvino_modules import import_submodule


def build(ov: Any, shape: tuple[int, ...] = (1, 3, 8, 8)) -> Any:
    ops = import_submodule(ov, "opset8")
    data = ops.parameter(list(shape), np.float32, name="data")
    data.output(0).set_names({"data"})
    result = ops.multiply(data, ops.constant(np.array([2], np.float32)))
    result.output(0).set_names({"out"})
    return ov.Model([ops.result(result)], [data], "model")


def use_image(ov: Any, pp: Any, p: Any) -> None:
    tensor = p.input().tensor().set_element_type(ov.Type.u8).set_layout(ov.Layout("NHWC"))
    tensor.set_color_format(pp.ColorFormat.BGR).set_spatial_static_shape(16, 12)
    steps = p.input().preprocess().convert_element_type(ov.Type.f32).convert_color(pp.ColorFormat.RGB)
    steps.resize(pp.ResizeAlgorithm.RESIZE_LINEAR).mean([1.0, 2.0, 3.0]).scale([2.0, 3.0, 4.0])
    p.input().model().set_layout(ov.Layout("NCHW"))


def convert_color(format_name: str) -> Callable[[Any, Any, Any], None]:
    def apply(ov: Any, pp: Any, p: Any) -> None:
        color_format = getattr(pp.ColorFormat, format_name)
        p.input().tensor().set_element_type(ov.Type.u8).set_color_format(color_format)
        p.input().preprocess().convert_color(pp.ColorFormat.RGB)
        p.input().model().set_layout(ov.Layout("NCHW"))

    return apply


def resize(algorithm: str) -> Callable[[Any, Any, Any], None]:
    def apply(ov: Any, pp: Any, p: Any) -> None:
        p.input().tensor().set_layout(ov.Layout("NCHW")).set_shape([1, 3, 16, 12])
        p.input().preprocess().resize(getattr(pp.ResizeAlgorithm, algorithm))
        p.input().model().set_layout(ov.Layout("NCHW"))

    return apply


def use_crop(ov: Any, pp: Any, p: Any) -> None:
    p.input().tensor().set_shape([1, 3, 20, 20])
    p.input().preprocess().crop([0, 0, 2, 2], [1, 3, 10, 10])


def use_padding(ov: Any, pp: Any, p: Any) -> None:
    p.input().tensor().set_shape([1, 3, 6, 6])
    p.input().preprocess().pad([0, 0, 1, 1], [0, 0, 1, 1], 0.5, pp.PaddingMode.CONSTANT)


def use_reflection(ov: Any, pp: Any, p: Any) -> None:
    p.input().tensor().set_shape([1, 3, 6, 6])
    p.input().preprocess().pad([0, 0, 1, 1], [0, 0, 1, 1], 0, pp.PaddingMode.REFLECT)


def reverse(ov: Any, pp: Any, p: Any) -> None:
    p.input().tensor().set_layout(ov.Layout("NCHW"))
    p.input().preprocess().reverse_channels()


def permute(ov: Any, pp: Any, p: Any) -> None:
    p.input().tensor().set_shape([1, 8, 3, 8])
    p.input().preprocess().convert_layout([0, 2, 3, 1])


def use_custom(ov: Any, pp: Any, p: Any) -> None:
    ops = import_submodule(ov, "opset8")
    p.input().preprocess().custom(lambda node: ops.abs(node).output(0)).mean(0.25).scale(0.5)


def use_set_from(ov: Any, pp: Any, p: Any) -> None:
    p.input().tensor().set_from(np.zeros((1, 8, 8, 3), np.uint8)).set_layout(ov.Layout("NHWC"))
    p.input().model().set_layout(ov.Layout("NCHW"))


def postprocess(ov: Any, pp: Any, p: Any) -> None:
    p.output().model().set_layout(ov.Layout("NCHW"))
    p.output().tensor().set_element_type(ov.Type.i32).set_layout(ov.Layout("NHWC"))
    p.output("out").postprocess().convert_element_type(ov.Type.i32)


def convert_layout(ov: Any, pp: Any, p: Any) -> None:
    p.input().tensor().set_layout(ov.Layout("NHWC"))
    p.input().preprocess().convert_layout(ov.Layout("NCHW"))
    p.output().model().set_layout(ov.Layout("NCHW"))
    p.output().postprocess().convert_layout(ov.Layout("NHWC"))


def permute_layout(ov: Any, pp: Any, p: Any) -> None:
    p.input().tensor().set_layout(ov.Layout("NHWC"))
    p.input().preprocess().convert_layout([0, 3, 1, 2])
    p.output().postprocess().convert_layout([0, 2, 3, 1])


def permute_without_layout(ov: Any, pp: Any, p: Any) -> None:
    p.input().preprocess().convert_layout([0, 3, 1, 2])


def permute_to_layout(ov: Any, pp: Any, p: Any) -> None:
    p.input().model().set_layout(ov.Layout("NCHW"))
    p.input().preprocess().convert_layout([0, 3, 1, 2])
    p.output().postprocess().custom(lambda output: output)


STEPS = {
    "image": use_image,
    "convert": convert_layout,
    "permute_layout": permute_layout,
    "permute_without_layout": permute_without_layout,
    "permute_to_layout": permute_to_layout,
    "crop": use_crop,
    "pad": use_padding,
    "reflect": use_reflection,
    "reverse": reverse,
    "permute": permute,
    "custom": use_custom,
    "set_from": use_set_from,
    "output": postprocess,
    **{
        name: convert_color(name)
        for name in (
            *["NV12_SINGLE_PLANE", "NV12_TWO_PLANES", "I420_SINGLE_PLANE", "I420_THREE_PLANES"],
            *["RGBX", "BGRX", "BGR", "RGB"],
        )
    },
    **{
        name: resize(name)
        for name in (
            "RESIZE_LINEAR",
            "RESIZE_NEAREST",
            "RESIZE_CUBIC",
            "RESIZE_BILINEAR_PILLOW",
            "RESIZE_BICUBIC_PILLOW",
        )
    },
}


def process(ov: Any, steps: Callable[[Any, Any, Any], None], shape: tuple[int, ...] = (1, 3, 8, 8)) -> Any:
    pp = import_submodule(ov, "preprocess")
    processor = pp.PrePostProcessor(build(ov, shape))
    steps(ov, pp, processor)
    return processor.build()


def make_inputs(model: Any) -> list[np.ndarray]:
    rng = np.random.default_rng(0)
    return [(rng.random(list(port.shape)) * 255).astype(port.element_type.to_dtype()) for port in model.inputs]


@pytest.mark.parametrize("name", STEPS)
def test_steps_compute_what_openvino_computes(name: str, oracle: Any, irrun_ov: Any, tmp_path: Path) -> None:
    expected_model, model = (process(ov, STEPS[name]) for ov in (oracle, irrun_ov))
    signatures = [
        [(str(port.partial_shape), port.element_type.to_string()) for port in (*m.inputs, *m.outputs)]
        for m in (expected_model, model)
    ]
    assert signatures[1] == signatures[0]
    inputs = make_inputs(model)
    config = {"INFERENCE_PRECISION_HINT": "f32"}
    if name == "RESIZE_BICUBIC_PILLOW":  # the CPU plugin ignores the coefficient in the model
        outputs = [oracle.Tensor(oracle.Type.f32, list(port.shape)) for port in expected_model.outputs]
        expected_model.evaluate(outputs, [oracle.Tensor(array) for array in inputs])
        np.testing.assert_allclose(irrun_ov.compile_model(model, "CPU")(inputs)[0], outputs[0].data, rtol=1e-4)
        return
    expected = oracle.compile_model(expected_model, "CPU", config)(inputs)[0]
    actual = irrun_ov.compile_model(model, "CPU")(inputs)[0]
    assert actual.dtype == expected.dtype
    tolerance = 3 if name.startswith(("NV12", "I420")) else 1e-3  # the CPU plugin computes colors differently
    np.testing.assert_allclose(actual, expected, rtol=1e-4, atol=tolerance)
    irrun_ov.save_model(model, tmp_path / "model.xml", compress_to_fp16=False)
    saved = oracle.compile_model(tmp_path / "model.xml", "CPU", config)(inputs)[0]
    np.testing.assert_allclose(actual, saved, rtol=1e-4, atol=tolerance)


def test_gray_is_computed(oracle: Any, irrun_ov: Any) -> None:
    def steps(ov: Any, pp: Any, p: Any) -> None:
        p.input().tensor().set_layout(ov.Layout("NHWC")).set_color_format(pp.ColorFormat.RGB)
        p.input().preprocess().convert_color(pp.ColorFormat.GRAY)
        p.input().model().set_layout(ov.Layout("NCHW"))

    models = [process(ov, steps, (1, 1, 8, 8)) for ov in (oracle, irrun_ov)]
    image = np.random.default_rng(0).random((1, 8, 8, 3), np.float32)
    expected = oracle.compile_model(models[0], "CPU", {"INFERENCE_PRECISION_HINT": "f32"})(image)[0]
    np.testing.assert_allclose(irrun_ov.compile_model(models[1], "CPU")(image)[0], expected, rtol=1e-4)


def describe_nothing(ov: Any, pp: Any, p: Any) -> None:
    p.input().tensor().set_element_type(ov.Type.f32)
    p.output().model().set_layout(ov.Layout("NCHW"))


def describe_numbers(ov: Any, pp: Any, p: Any) -> None:
    p.input().tensor().set_layout(ov.Layout("NHWC")).set_element_type(ov.Type.u8).set_memory_type("GPU_SURFACE")
    p.input().model().set_layout(ov.Layout("NCHW"))
    steps = p.input().preprocess().convert_element_type().mean(1e-9).scale([1.0, 123456789.0, 1 / 3])
    steps.resize(pp.ResizeAlgorithm.RESIZE_LINEAR, 8, 8)
    p.output().tensor().set_element_type(ov.Type.u8).set_layout(ov.Layout("NCHW"))
    p.output().postprocess().convert_element_type(ov.Type.i32).custom(lambda output: output)


def describe_names(ov: Any, pp: Any, p: Any) -> None:
    p.input().tensor().set_color_format(pp.ColorFormat.NV12_TWO_PLANES, ["y", "uv"]).set_element_type(ov.Type.u8)
    p.input().preprocess().convert_color(pp.ColorFormat.BGR)
    p.input().model().set_layout(ov.Layout("NCHW"))


def fail_after_a_step(ov: Any, pp: Any, p: Any) -> None:
    p.input().preprocess().scale(2.0).mean([1.0, 2.0, 3.0])
    p.output().tensor().set_element_type(ov.Type.u8)


def fail_before_steps(ov: Any, pp: Any, p: Any) -> None:
    p.input().tensor().set_layout(ov.Layout("NCHW"))
    p.input().preprocess().convert_layout(ov.Layout("NDHW"))


def fail_to_resize(ov: Any, pp: Any, p: Any) -> None:
    p.input().preprocess().resize(pp.ResizeAlgorithm.RESIZE_LINEAR)


def fail_to_convert_color(ov: Any, pp: Any, p: Any) -> None:
    p.input().tensor().set_color_format(pp.ColorFormat.GRAY)
    p.input().preprocess().convert_color(pp.ColorFormat.RGB)


def fail_to_convert_output(ov: Any, pp: Any, p: Any) -> None:
    p.output().model().set_layout(ov.Layout("NCHW"))
    p.output().tensor().set_layout(ov.Layout("NDHWC"))


DESCRIBED = {
    **{steps.__name__: steps for steps in (describe_nothing, describe_numbers, describe_names)},
    **{steps.__name__: steps for steps in (fail_after_a_step, fail_before_steps, fail_to_resize)},
    **{steps.__name__: steps for steps in (fail_to_convert_color, fail_to_convert_output)},
    **STEPS,
}


def describe(ov: Any, steps: Callable[[Any, Any, Any], None]) -> str:
    """Return the text of a processor, without the place of an error in the sources of OpenVINO."""
    pp = import_submodule(ov, "preprocess")
    processor = pp.PrePostProcessor(build(ov))
    steps(ov, pp, processor)
    assert repr(processor) == f"<PrePostProcessor: {processor}>"
    return re.sub(r"Check '.*' failed at .*:\n", "", str(processor))


@pytest.mark.parametrize("name", DESCRIBED)
def test_texts_equal_those_of_openvino(name: str, oracle: Any, irrun_ov: Any) -> None:
    assert describe(irrun_ov, DESCRIBED[name]) == describe(oracle, DESCRIBED[name])


def test_describing_steps_does_not_change_the_model(irrun_ov: Any) -> None:
    model = build(irrun_ov)
    processor = irrun_ov.preprocess.PrePostProcessor(model)
    permute_layout(irrun_ov, irrun_ov.preprocess, processor)
    text = str(processor)
    assert len(model.get_ops()) == 4
    assert str(processor) == text
    assert str(processor.build().input().partial_shape) == "[1,8,8,3]"


def test_planes_are_named(ov: Any) -> None:
    pp = import_submodule(ov, "preprocess")
    processor = pp.PrePostProcessor(build(ov))
    processor.input().tensor().set_element_type(ov.Type.u8).set_color_format(
        pp.ColorFormat.NV12_TWO_PLANES, ["y", "uv"]
    )
    processor.input().preprocess().convert_color(pp.ColorFormat.BGR)
    processor.input().model().set_layout(ov.Layout("NCHW"))
    model = processor.build()
    assert [port.get_any_name() for port in model.inputs] == ["data/y", "data/uv"]


def test_dynamic_images_are_resized(ov: Any) -> None:
    def steps(ov: Any, pp: Any, p: Any) -> None:
        p.input().tensor().set_layout(ov.Layout("NHWC")).set_spatial_dynamic_shape()
        p.input().preprocess().resize(pp.ResizeAlgorithm.RESIZE_LINEAR)
        p.input().model().set_layout(ov.Layout("NCHW"))

    model = process(ov, steps)
    assert str(model.input().partial_shape) == "[1,?,?,3]"
    result = ov.compile_model(model, "CPU")(np.ones((1, 31, 17, 3), np.float32))[0]
    np.testing.assert_allclose(result, np.full((1, 3, 8, 8), 2), rtol=1e-2)


def test_wrong_steps_are_reported(ov: Any) -> None:
    def crop_too_much(ov: Any, pp: Any, p: Any) -> None:
        p.input().preprocess().crop([0, 0, 2, 2], [1, 3, 10, 10])

    def use_channels(ov: Any, pp: Any, p: Any) -> None:
        p.input().preprocess().mean([1.0, 2.0, 3.0])

    def use_integers(ov: Any, pp: Any, p: Any) -> None:
        p.input().tensor().set_element_type(ov.Type.u8)
        p.input().preprocess().mean(1.0)

    def convert_gray(ov: Any, pp: Any, p: Any) -> None:
        p.input().tensor().set_color_format(pp.ColorFormat.GRAY)
        p.input().preprocess().convert_color(pp.ColorFormat.RGB)

    for steps, message in (
        (crop_too_much, "not aligned with original parameter's shape"),
        (use_channels, "doesn't have `channels` dimension"),
        (use_integers, "can be applied to 'float' inputs"),
        (convert_gray, "Source color format 'GRAY' is not convertible to 'RGB'"),
    ):
        with pytest.raises(RuntimeError, match=message):
            process(ov, steps)


def test_batch_is_set_by_layout(ov: Any) -> None:
    model = build(ov)
    with pytest.raises(RuntimeError, match="batch is not set in any layout"):
        ov.get_batch(model)
    ov.layout_helpers.set_layout(model.input(), ov.Layout("NCHW"))
    assert ov.get_batch(model) == 1
    ov.set_batch(model, 4)
    assert str(model.output().partial_shape) == "[4,3,8,8]"
    assert ov.layout_helpers.get_layout(model.input()) == ov.Layout("NCHW")


@pytest.mark.parametrize("size", [-1, (1, 5)])
def test_channels_of_unknown_number_are_reversed(ov: Any, size: Any) -> None:
    ops = import_submodule(ov, "opset13")
    x = ops.parameter([1, 2, 2, size], np.float32)
    p = import_submodule(ov, "preprocess").PrePostProcessor(ov.Model([ops.relu(x)], [x], "m"))
    p.input().tensor().set_layout(ov.Layout("NHWC"))
    p.input().preprocess().reverse_channels()
    model = p.build()
    assert model.output(0).partial_shape == ov.PartialShape([1, 2, 2, -1])
    values = np.arange(12, dtype=np.float32).reshape(1, 2, 2, 3)
    np.testing.assert_array_equal(
        ov.compile_model(model, "CPU", {"INFERENCE_PRECISION_HINT": "f32"})(values)[0], values[..., ::-1]
    )


def test_scales_are_reciprocals(ov: Any) -> None:
    ops = import_submodule(ov, "opset13")
    x = ops.parameter([1, 3, 2, 2], np.float32)
    p = import_submodule(ov, "preprocess").PrePostProcessor(ov.Model([ops.relu(x)], [x], "m"))
    p.input().tensor().set_layout(ov.Layout("NCHW"))
    p.input().preprocess().mean(3.0).scale([2.0, 3.0, 7.0])
    nodes = p.build().get_ordered_ops()
    types = [node.get_type_name() for node in nodes]
    assert types == ["Parameter", "Constant", "Subtract", "Constant", "Multiply", "Relu", "Result"]
    np.testing.assert_array_equal(nodes[3].data.reshape(-1), 1 / np.array([2, 3, 7], np.float32))
