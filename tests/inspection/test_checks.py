"""Checks of the values of a run."""

from __future__ import annotations

import numpy as np
import pytest
from ir_text import chain, layer, net, port, write

import irrun
from irrun.inspection import check

X = np.ones((2, 3), np.float32)


def list_kinds(report):
    return [(f.kind, f.key) for f in report.findings]


def test_model_without_findings_passes(tmp_path):
    report = check(write(tmp_path, chain("Sigmoid", "Exp")), X)
    assert report.passed
    assert report.findings == []
    assert report.to_json() == {"passed": True, "runs": 1, "first": None, "findings": []}


def test_layer_that_makes_nan_is_named(tmp_path):
    report = check(write(tmp_path, chain("Negative", "Sqrt", "Exp")), X)
    assert not report.passed
    assert report.first.key == "layer2"
    assert report.first.message == "6 NaN elements, made here; they appear here first"
    assert list_kinds(report) == [("nan", "layer2")]


def test_nan_of_the_inputs_is_inherited(tmp_path):
    report = check(write(tmp_path, chain("Exp", "Sqrt")), np.full((2, 3), np.nan, np.float32))
    assert list_kinds(report) == [("nan", "layer1")]
    assert "inherited from an input of the model or a constant" in report.first.message


def test_infinity_and_nan_from_it_are_distinguished(tmp_path):
    report = check(write(tmp_path, chain("Exp", "Sin")), np.full((2, 3), 100, np.float32))
    assert list_kinds(report) == [("infinity", "layer1"), ("nan", "layer2")]
    assert "made from infinite inputs" in report.findings[1].message


def test_swallowed_nan_is_noted(tmp_path):
    layers = [
        layer(0, "Parameter", data='shape="2" element_type="f32"', outputs=[port(0)], name="x"),
        layer(1, "Sqrt", inputs=[port(0)], outputs=[port(1)]),
        layer(2, "IsNaN", "opset10", inputs=[port(0)], outputs=[port(1)]),
        layer(3, "Select", inputs=[port(0), port(1), port(2)], outputs=[port(3)]),
        layer(4, "Result", inputs=[port(0)]),
    ]
    edges = [(0, 0, 1, 0), (1, 1, 2, 0), (2, 1, 3, 0), (0, 0, 3, 1), (1, 1, 3, 2), (3, 3, 4, 0)]
    report = check(write(tmp_path, net(layers, edges)), np.float32([-1, 4]))
    assert list_kinds(report) == [("nan", "layer1"), ("nan swallowed", "layer3")]


@pytest.mark.parametrize(
    ("target", "value", "kinds"),
    [
        ("f16", 12, [("overflow", "layer1")]),
        ("bf16", 12, []),
        ("f16", -20, [("vanishing", "layer1")]),
        ("bf16", -20, []),
        (None, 12, []),
        (None, -95, [("denormal", "layer1")]),
    ],
)
def test_values_that_a_type_cannot_represent_are_reported(tmp_path, target, value, kinds):
    report = check(write(tmp_path, chain("Exp", "Sigmoid")), np.full((2, 3), value, np.float32), target_type=target)
    assert list_kinds(report) == kinds
    assert report.passed == ("overflow" not in str(kinds))


def test_constant_channels_are_found_over_all_inputs(tmp_path):
    path = write(tmp_path, chain("Relu", shape=("?", 3)))
    x = np.float32([[-1, 1, 2]] * 8)
    report = check(path, x)
    assert list_kinds(report) == [("zero channels", "layer1"), ("constant channels", "layer1")]
    other = np.float32([[-1, 3, 4]] * 8)
    report = check(path, input_sets=[x, other])
    assert [(f.kind, f.message) for f in report.findings] == [
        ("zero channels", "1 of 3 channels are always zero over all inputs")
    ]
    assert report.runs == 2


def write_quantization(folder, low, high):
    """Write a model that quantizes its input to 256 levels."""
    layers = [
        layer(0, "Parameter", data='shape="?" element_type="f32"', outputs=[port(0, (-1,), "FP32")], name="x"),
        layer(1, "FakeQuantize", data='levels="256"', inputs=[port(i) for i in range(5)], outputs=[port(5)]),
        *(
            layer(2 + i, "Const", data=f'element_type="f32" shape="" offset="{4 * i}" size="4"', outputs=[port(0)])
            for i in range(2)
        ),
        layer(4, "Result", inputs=[port(0)]),
    ]
    edges = [(0, 0, 1, 0), *((2 + i % 2, 0, 1, 1 + i) for i in range(4)), (1, 5, 4, 0)]
    return write(folder, net(layers, edges), np.float32([low, high]))


@pytest.mark.parametrize(
    ("low", "high", "count", "message"),
    [
        (0, 1, 0, None),
        (0, 1, 1, "1.0% of the elements are clipped"),
        (0, 1, 37, "37.0% of the elements are clipped"),
        (-9, 0.5, 37, "63.0% of the elements are clipped"),
        (1, 0, 2, "2.0% of the elements are clipped"),
    ],
)
def test_elements_that_are_clipped_are_counted(tmp_path, low, high, count, message):
    x = np.linspace(0.501, 1, 100, dtype=np.float32)
    x[:count] = -1
    report = check(write_quantization(tmp_path, low, high), x)
    assert [f.message for f in report.findings if f.kind == "saturation"] == ([message] if message else [])
    assert report.passed


def test_values_at_the_limits_are_not_clipped(tmp_path):
    x = np.full(100, 1 + 5e-7, np.float32)
    assert not [f for f in check(write_quantization(tmp_path, 0, 1), x).findings if f.kind == "saturation"]
    x[:] = 1 + 2e-6
    findings = check(write_quantization(tmp_path, 0, 1), x).findings
    assert [f.message for f in findings if f.kind == "saturation"] == ["100.0% of the elements are clipped"]


@pytest.mark.parametrize(
    ("shape", "channels"), [((8, 3), 3), ((2, 4, 3), 3), ((1, 2, 4, 5), 2), ((1, 2, 2, 2, 5), 2), ((7, 3), None)]
)
def test_channels_are_the_second_axis_of_images_and_the_last_of_others(tmp_path, shape, channels):
    x = np.zeros(shape, np.float32)
    report = check(write(tmp_path, chain("Relu", shape=shape)), x)
    messages = [f.message for f in report.findings if f.kind == "zero channels"]
    assert messages == ([f"{channels} of {channels} channels are always zero over all inputs"] if channels else [])


def test_inputs_may_have_different_numbers_of_channels(tmp_path):
    path = write(tmp_path, chain("Relu", shape=("?", "?")))
    report = check(path, input_sets=[np.zeros((8, 3), np.float32), np.ones((8, 4), np.float32)])
    assert report.runs == 2
    assert [f.message for f in report.findings] == ["3 of 3 channels are always zero over all inputs"]


def test_channels_of_layers_that_inherit_them_are_not_repeated(tmp_path):
    x = np.float32([[0, 1, 2]] * 8) + np.float32([[0, 1, 0]]) * np.arange(8, dtype=np.float32)[:, None]
    report = check(write(tmp_path, chain("Relu", "Relu", "Sigmoid", shape=(8, 3))), x)
    assert ("zero channels", "layer1") in list_kinds(report)
    assert ("zero channels", "layer2") not in list_kinds(report)


def test_wrong_declarations_are_errors(tmp_path):
    text = chain("Relu").replace(
        '<port id="1" precision="FP32"><dim>2</dim><dim>3</dim>',
        '<port id="1" precision="FP32"><dim>2</dim><dim>4</dim>',
    )
    report = check(irrun.read_model(write(tmp_path, text)), X)
    assert list_kinds(report) == [("declaration", "layer1")]
    assert "declared f32[2,4] and is f32[2,3]" in report.first.message


def test_unknown_type_is_reported(tmp_path):
    with pytest.raises(irrun.InputError, match="expected one of the types f16, bf16, found 'f8'"):
        check(write(tmp_path, chain("Relu")), X, target_type="f8")
