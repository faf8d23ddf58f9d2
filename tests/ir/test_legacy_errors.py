"""Layers of IR v2 to v7 that cannot be converted: each is reported with what was expected."""

from __future__ import annotations

import re

import numpy as np
import pytest
from legacy_ir import LegacyNetwork

import irrun
from irrun.errors import ModelError

WINDOW = {"kernel": "3,3", "strides": "1,1", "pads_begin": "0,0", "pads_end": "0,0", "dilations": "1,1"}
IMAGE, WINDOWS = (1, 2, 5, 5), (1, 2, 3, 3)
FILTERS = np.zeros((2, 2, 3, 3), np.float32)
CONVOLUTION = {**WINDOW, "output": 2, "group": 1}
POOLING = {**WINDOW, "pool-method": "max"}

#: Type, shapes of inputs, shape of the output, attributes, blobs, message.
CASES = [
    ("Convolution", [IMAGE], WINDOWS, {**CONVOLUTION, "group": 0}, {}, "group=0 and output=2 do not match an input"),
    ("Convolution", [IMAGE], WINDOWS, {**CONVOLUTION, "group": 3}, {}, "of shape [1, 2, 5, 5]"),
    ("Convolution", [IMAGE], WINDOWS, {**CONVOLUTION, "group": 2, "output": 3}, {}, "group=2 and output=3"),
    ("Convolution", [(1, 2)], (1, 2), CONVOLUTION, {}, "do not match an input of shape [1, 2]"),
    ("Convolution", [IMAGE], WINDOWS, {**CONVOLUTION, "strides": "1"}, {}, "strides has 1 entries, but kernel has 2"),
    ("Convolution", [IMAGE], WINDOWS, {**CONVOLUTION, "strides": "1,0"}, {}, "must be positive"),
    ("Convolution", [IMAGE], WINDOWS, {**CONVOLUTION, "dilations": "0,1"}, {}, "must be positive"),
    ("Convolution", [IMAGE], WINDOWS, {**CONVOLUTION, "kernel": "0,1"}, {}, "must be positive"),
    ("Convolution", [IMAGE], WINDOWS, {**CONVOLUTION, "output": "x"}, {}, "attribute output='x' is not an integer"),
    ("Convolution", [IMAGE], WINDOWS, {**CONVOLUTION, "output": "1.5"}, {}, "attribute output='1.5' is not an integer"),
    ("Convolution", [IMAGE], WINDOWS, WINDOW, {}, "requires the attribute output"),
    (
        "BinaryConvolution",
        [IMAGE],
        WINDOWS,
        {**CONVOLUTION, "mode": "and"},
        {"weights": FILTERS},
        "mode=and are unsupported, expected group=1 and mode=xnor-popcount",
    ),
    (
        "BinaryConvolution",
        [IMAGE],
        WINDOWS,
        {**CONVOLUTION, "group": 2},
        {"weights": FILTERS},
        "group=2 and mode=xnor-popcount are unsupported",
    ),
    ("BinaryConvolution", [IMAGE], WINDOWS, CONVOLUTION, {}, "requires the blob weights"),
    (
        "BinaryConvolution",
        [IMAGE],
        WINDOWS,
        CONVOLUTION,
        {"weights": np.zeros(4, np.uint8)},
        "the blob weights has 4 bytes, expected 36 bits",
    ),
    ("Pooling", [IMAGE], WINDOWS, {**WINDOW, "pool-method": "sum"}, {}, "pool-method is 'sum', expected max or avg"),
    ("FullyConnected", [()], (2,), {"out-size": 2}, {}, "the input is a scalar, expected rank 1 or more"),
    ("Concat", [], (2,), {"axis": 0}, {}, "has no inputs"),
    ("Concat", [(1, 2), (1, 2)], (1, 4), {"axis": 2}, {}, "axis 2 is out of range [-2, 1]"),
    ("Split", [(1, 2)], (1, 2), {"axis": -3}, {}, "axis -3 is out of range [-2, 1]"),
    ("Crop", [(1, 4)], (1, 2), {"axis": "1", "offset": "1,2"}, {}, "does not match rank 2"),
    ("Crop", [(1, 4)], (1, 2), {"axis": "1,5", "offset": "1,2"}, {}, "axis=1,5 with offsets [1, 2]"),
    ("Crop", [(1, 4)], (1, 2), {"axis": "1", "offset": "1", "dim": "1,2"}, {}, "has 2 sizes for 1 axes"),
    ("Crop", [(1, 4)], (1, 2), {"axis": "1", "offset": "3", "dim": "2"}, {}, "the range [3, 5) is outside of axis 1"),
    ("Crop", [(1, 4)], (1, 2), {"axis": "1", "offset": "-1", "dim": "2"}, {}, "the range [-1, 1) is outside"),
    ("Crop", [(1, 4)], (1, 2), {"axis": "1", "offset": "3", "dim": "-1"}, {}, "the range [3, 2) is outside"),
    ("Eltwise", [], (2,), {"operation": "sum"}, {}, "has no inputs"),
    ("Eltwise", [(2,)] * 3, (2,), {"operation": "less"}, {}, "operation=less requires two inputs, found 3"),
    ("Eltwise", [(2,)] * 2, (2,), {"operation": "avg"}, {}, "operation is 'avg', expected one of"),
    ("Eltwise", [(2,)] * 2, (2,), {"operation": "sum", "coeff": "1,2,3"}, {}, "coeff has 3 entries, expected one for"),
    ("PReLU", [(1, 2)], (1, 2), {}, {}, "requires the blob weights"),
    ("BatchNormalization", [(1, 2, 3)], (1, 2, 3), {"epsilon": 1}, {}, "requires the blob biases"),
    (
        "ScaleShift",
        [(1, 2, 3)],
        (1, 2, 3),
        {},
        {"weights": np.zeros(4, np.float32)},
        "the blob weights has 4 numbers, but the input has 2 channels",
    ),
    ("Resample", [(1, 2, 4, 4)], (1, 2, 8), {"type": "caffe.ResampleParameter.LINEAR"}, {}, "images of the same rank"),
    ("Resample", [(1, 2)], (1, 2), {"type": "caffe.ResampleParameter.LINEAR"}, {}, "have ranks 2 and 2"),
    ("Resample", [(1, 2, 4, 4)], (1, 2, 8, 8), {"type": "box"}, {}, "type is 'box', expected NEAREST, LINEAR or CUBIC"),
    ("SpatialTransformer", [(1, 1, 5000, 5000), (1, 6)], (1, 1, 5000, 5000), {}, {}, "5000 x 5000 pixels, expected at"),
    ("Memory", [(1, 2)], (1, 2), {"id": "a"}, {}, "has both inputs and outputs"),
    ("Memory", [], None, {"id": "a"}, {}, "has neither inputs nor outputs"),
    (
        "LSTMSequence",
        [(1, 2, 3)],
        (1, 2, 4),
        {"direction": "both", "hidden_size": 4},
        {},
        "expected Forward or Backward",
    ),
    (
        "DetectionOutput",
        [(1, 8), (1, 4), (1, 2, 8)],
        (1, 1, 4, 7),
        {"code_type": "caffe.PriorBoxParameter.MIDDLE", "num_classes": 2, "keep_top_k": 4, "nms_threshold": 0.5},
        {},
        "code_type is 'caffe.PriorBoxParameter.MIDDLE', expected caffe.PriorBoxParameter.CORNER or .CENTER_SIZE",
    ),
    ("Const", [], (2,), {}, {}, "has 0 blobs, expected one"),
    ("Convert", [(2,)], (2,), {"precision": "FP31"}, {}, "FP31"),
    ("Softmax", [], (2,), {"axis": 0}, {}, "has 0 inputs, requires at least 1"),
    ("Tile", [(2,)], (2,), {"axis": 0, "tiles": "many"}, {}, "attribute tiles='many' is not an integer"),
]


@pytest.mark.parametrize(
    ("type", "inputs", "output", "data", "blobs", "message"), CASES, ids=[f"{c[0]}-{i}" for i, c in enumerate(CASES)]
)
def test_layer_that_cannot_be_converted_is_reported(type, inputs, output, data, blobs, message):
    network = LegacyNetwork(6)
    sources = [network.add_input(shape) for shape in inputs]
    network.add_layer(type, sources, [] if output is None else [output], data, blobs, name="the layer")
    with pytest.raises(ModelError, match=re.escape(message)) as info:
        network.read()
    assert "the layer" in str(info.value)


@pytest.mark.parametrize(("text", "expected"), [("true", True), ("1", True), ("0.0", False), ("False", False)])
def test_booleans_are_spelled_as_words_or_numbers(text, expected):
    x = np.array([[1, 2, 3, 6]], np.float32)
    network = LegacyNetwork(6)
    source = network.add_input(x.shape)
    network.add_layer("MVN", [source], [x.shape], {"across_channels": 1, "normalize_variance": text, "eps": 0})
    expected_values = x - 3
    if expected:
        expected_values = expected_values / np.sqrt(np.mean(expected_values**2))
    np.testing.assert_allclose(network.run(x)[0], expected_values, rtol=1e-6)


def test_integers_may_be_written_as_floats():
    x = np.array([[1, 2]], np.float32)
    network = LegacyNetwork(6)
    network.add_layer("Tile", [network.add_input(x.shape)], [(1, 6)], {"axis": "1.0", "tiles": "3.0"})
    np.testing.assert_array_equal(network.run(x)[0], np.tile(x, (1, 3)))


@pytest.mark.parametrize("is_reader", [False, True])
def test_memory_is_read_and_assigned_once(is_reader):
    network = LegacyNetwork(6)
    source = network.add_input((1, 2))
    for number in range(2):
        name, data = f"memory{number}", {"id": "state", "index": int(is_reader), "size": 2}
        if is_reader:
            network.add_layer("Memory", [], [(1, 2)], data, name=name)
        else:
            network.add_layer("Memory", [source], [], data, name=name)
    verb = "read" if is_reader else "assign"
    with pytest.raises(ModelError, match=f"two Memory layers {verb} the variable 'state'"):
        network.read()


def test_types_and_shapes_of_layers_are_checked():
    text = LegacyNetwork(6)
    text.add_layer("Power", [text.add_input((1, 2))], [(1, 2)], {"power": 1})
    valid = text.to_xml().decode()
    for old, new, message in (
        ('type="Power"', 'type=""', "a layer requires the attribute type"),
        ("<dim>2</dim>", "<dim>-2</dim>", "the shape [1, -2] has a negative dimension"),
        ("<dim>2</dim>", f"<dim>{1 << 63}</dim>", "dimensions below 2^63, found 2"),
        ("<dim>2</dim>", "<dim>1</dim>" * 64, "dimensions below 2^63, found 65"),
    ):
        with pytest.raises(ModelError, match=re.escape(message)):
            irrun.read_model(valid.replace(old, new).encode())


def test_largest_shapes_of_layers_are_accepted():
    text = LegacyNetwork(6)
    text.add_layer("Power", [text.add_input((1, 2))], [(1, 2)], {"power": 1})
    for dimensions in ([1, (1 << 63) - 1], [1] * 64):
        new = "".join(f"<dim>{d}</dim>" for d in dimensions[1:])
        model = irrun.read_model(text.to_xml().decode().replace("<dim>2</dim>", new).encode())
        assert model.inputs[0].shape == tuple(dimensions)


def test_omitted_variance_of_prior_boxes_is_a_tenth():
    network = LegacyNetwork(6)
    sources = [network.add_input((1, 8, 4, 4)), network.add_input((1, 3, 64, 64))]
    data = {"width": "4,5", "height": "4,5", "offset": 0.5, "step": 16, "clip": 0}
    network.add_layer("PriorBoxClustered", sources, [(1, 2, 128)], data)
    boxes = network.run(np.zeros((1, 8, 4, 4), np.float32), np.zeros((1, 3, 64, 64), np.float32))[0]
    np.testing.assert_allclose(boxes[0, 1], 0.1, rtol=1e-6)
