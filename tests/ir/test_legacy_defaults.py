"""Attributes that old files omit have the defaults of their format, and reshaped old files compute other shapes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pytest
from legacy_ir import LegacyNetwork, make_random, to_text

import irrun
from irrun.ir.legacy.layer import LegacyLayer

Shape = tuple[int, ...]
IMAGE = (2, 4, 6, 5)

RECURRENT = {"hidden_size": (2, 3), "clip": (0, 1), "activation_alpha": ("", 0.5), "activation_beta": ("", 0.5)}

#: (type, shapes of inputs, shape of the output, attributes) -> attribute -> (default, another value).
LAYERS: list[tuple[str, Sequence[Shape], Shape, dict[str, Any], dict[str, tuple[Any, Any]]]] = [
    ("ReLU", [IMAGE], IMAGE, {}, {"negative_slope": (0, 0.5)}),
    ("ReLU6", [IMAGE], IMAGE, {}, {"n": (6, 5)}),
    ("ELU", [IMAGE], IMAGE, {}, {"alpha": (1, 2)}),
    ("Swish", [IMAGE], IMAGE, {}, {"beta": (1, 2), "alpha": (1, 2)}),
    ("HardSigmoid", [IMAGE], IMAGE, {}, {"alpha": (0.2, 0.5), "beta": (0.5, 0.2)}),
    ("Selu", [IMAGE], IMAGE, {}, {"alpha": (1.67326324, 1), "gamma": (1.05070098, 1)}),
    ("Round", [IMAGE], IMAGE, {}, {"mode": ("half_to_even", "half_away_from_zero")}),
    ("Activation", [IMAGE], IMAGE, {"type": "elu"}, {"alpha": (1, 2)}),
    ("Activation", [IMAGE], IMAGE, {"type": "bounded_relu"}, {"alpha": (0, 6)}),
    ("Activation", [IMAGE], IMAGE, {"type": "linear"}, {"alpha": (1, 2), "beta": (0, 1)}),
    ("Power", [IMAGE], IMAGE, {}, {"scale": (1, 2), "shift": (0, 1), "power": (1, 2)}),
    ("Eltwise", [IMAGE, IMAGE], IMAGE, {}, {"operation": ("sum", "max"), "coeff": ("1,1", "1,2")}),
    (
        "PriorBox",
        [(1, 3, 5, 4), (1, 3, 20, 16)],
        (1, 2, 80),
        {"min_size": 4},
        {
            "offset": (0.5, 0.25),
            "variance": (0.1, "0.1,0.1,0.2,0.2"),
            "max_size": ("", 8),
            "aspect_ratio": ("", 2),
            "density": ("", 2),
            "fixed_ratio": ("", 2),
            "fixed_size": ("", 2),
            "step": (0, 3),
            "flip": (0, 1),
            "clip": (0, 1),
            "scale_all_sizes": (1, 0),
        },
    ),
    ("PriorBox", [(1, 3, 5, 4), (1, 3, 20, 16)], (1, 2, 80), {"fixed_size": 4, "density": 1}, {"min_size": ("", 2)}),
    (
        "PriorBox",
        [(1, 3, 5, 4), (1, 3, 20, 16)],
        (1, 2, 80),
        {"fixed_size": 4, "density": 1, "scale_all_sizes": 0},
        {"min_size": ("", 2), "step": (0, 3)},
    ),
    (
        "PriorBoxClustered",
        [(1, 3, 5, 4), (1, 3, 20, 16)],
        (1, 2, 80),
        {"width": 4, "height": 4},
        {
            "offset": (0.5, 0.25),
            "variance": (0.1, "0.1,0.1,0.2,0.2"),
            "img_h": (0, 40),
            "img_w": (0, 32),
            "step": (0, 3),
            "step_w": (0, 2),
            "step_h": (0, 2),
            "clip": (0, 1),
        },
    ),
    (
        "DetectionOutput",
        [(1, 20), (1, 10), (1, 2, 20)],
        (1, 1, 5, 7),
        {
            "num_classes": 2,
            "nms_threshold": 0.5,
        },
        {
            "keep_top_k": (-1, 5),
            "clip": (0, 1),
            "background_label_id": (0, 1),
            "top_k": (-1, 3),
            "variance_encoded_in_target": (0, 1),
            "share_location": (1, 0),
            "code_type": ("caffe.PriorBoxParameter.CORNER", "caffe.PriorBoxParameter.CENTER_SIZE"),
            "clip_before_nms": (0, 1),
            "clip_after_nms": (0, 1),
            "decrease_label_id": (0, 1),
            "normalized": (1, 0),
            "input_height": (1, 2),
            "input_width": (1, 2),
            "objectness_score": (0, 0.5),
            "confidence_threshold": (None, 0.5),
        },
    ),
    (
        "RegionYolo",
        [(1, 24, 3, 3)],
        (1, 216),
        {"classes": 3, "coords": 4, "num": 3},
        {
            "do_softmax": (1, 0),
            "axis": (1, 2),
            "end_axis": (3, 2),
            "anchors": ("", "1,2"),
            "mask": ("", "1,2"),
        },
    ),
    (
        "RegionYolo",
        [(1, 24, 3, 3)],
        (1, 0, 3, 3),
        {"classes": 3, "coords": 4, "num": 3, "do_softmax": 0},
        {"mask": ("", "0,1,2")},
    ),
    (
        "Proposal",
        [(1, 4, 3, 3), (1, 8, 3, 3), (1, 3)],
        (5, 5),
        {
            "base_size": 4,
            "feat_stride": 4,
            "min_size": 1,
            "nms_thresh": 0.5,
            "pre_nms_topn": 9,
            "post_nms_topn": 5,
            "ratio": 1,
            "scale": "1,2",
        },
        {
            "clip_before_nms": (1, 0),
            "clip_after_nms": (0, 1),
            "normalize": (0, 1),
            "box_size_scale": (1, 2),
            "box_coordinate_scale": (1, 2),
            "framework": ("", "tensorflow"),
        },
    ),
    (
        "PSROIPooling",
        [(1, 4, 6, 6), (1, 5)],
        (1, 4, 1, 1),
        {"output_dim": 4, "spatial_scale": 1},
        {
            "mode": ("average", "bilinear"),
            "group_size": (1, 2),
            "spatial_bins_x": (1, 2),
            "spatial_bins_y": (1, 2),
        },
    ),
    (
        "PSROIPooling",
        [(1, 4, 6, 6), (1, 5), (1, 2, 1, 1)],
        (1, 4, 1, 1),
        {"output_dim": 4, "spatial_scale": 1, "mode": "bilinear_deformable"},
        {"trans_std": (1, 0.1), "part_size": (1, 2), "no_trans": (0, 1)},
    ),
    (
        "NonMaxSuppression",
        [(1, 20, 4), (1, 2, 20)],
        (8, 3),
        {},
        {"center_point_box": (0, 1), "sort_result_descending": (1, 0)},
    ),
    ("CTCGreedyDecoder", [(6, 2, 5), (6, 2)], (2, 6, 1, 1), {}, {"ctc_merge_repeated": (1, 0)}),
    (
        "ROIPooling",
        [(1, 4, 6, 6), (1, 5)],
        (1, 4, 2, 2),
        {"pooled_h": 2, "pooled_w": 2, "spatial_scale": 1},
        {
            "method": ("max", "bilinear"),
        },
    ),
    ("Gather", [IMAGE, (3,)], (3, 4, 6, 5), {}, {"axis": (0, 1)}),
    ("TopK", [IMAGE, (1,)], (2, 4, 6, 3), {}, {"axis": (-1, 1), "mode": ("max", "min"), "sort": ("index", "value")}),
    ("ArgMax", [IMAGE], (2, 1, 1), {}, {"top_k": (1, 2), "out_max_val": (0, 1)}),
    ("OneHot", [(2, 3)], (2, 3, 4), {"depth": 4}, {"axis": (-1, 1), "on_value": (1, 2), "off_value": (0, 3)}),
    ("GatherND", [IMAGE, (2, 1)], (2, 4, 6, 5), {}, {"batch_dims": (0, 1)}),
    ("Bucketize", [IMAGE, (3,)], IMAGE, {}, {"with_right_bound": (1, 0)}),
    ("CumSum", [IMAGE, (1,)], IMAGE, {}, {"exclusive": (0, 1), "reverse": (0, 1)}),
    ("Unique", [(5,)], (5,), {}, {"sorted": (0, 1), "return_inverse": (0, 1), "return_counts": (0, 1)}),
    ("ScatterUpdate", [(5, 5), (2, 5), (2, 5)], (5, 5), {}, {"axis": (0, 1)}),
    (
        "StridedSlice",
        [IMAGE, (4,), (4,)],
        IMAGE,
        {},
        {
            "begin_mask": ("1,1,1,1", "1,1,0,1"),
            "end_mask": ("1,1,1,1", "1,1,0,1"),
            "new_axis_mask": ("0,0,0,0", "0,0,1,0"),
            "shrink_axis_mask": ("0,0,0,0", "0,0,1,0"),
            "ellipsis_mask": ("0,0,0,0", "0,0,1,0"),
        },
    ),
    (
        "Gemm",
        [(3, 3), (3, 3), (3, 3)],
        (3, 3),
        {},
        {
            "transpose_a": (0, 1),
            "transpose_b": (0, 1),
            "alpha": (1, 2),
            "beta": (1, 2),
        },
    ),
    ("Concat", [IMAGE, IMAGE], (2, 8, 6, 5), {}, {"axis": (1, 2)}),
    ("Concat", [(2,), (3,)], (5,), {}, {"axis": (0, 1)}),
    ("Convert", [IMAGE], IMAGE, {}, {"precision": ("FP32", "I32")}),
    ("Crop", [IMAGE], (2, 2, 6, 5), {"axis": 1}, {"offset": (0, 1)}),
    ("Reshape", [IMAGE], (2, 120), {}, {"dim": ("2,120", "0,-1")}),
    ("Split", [IMAGE], (2, 4, 6, 5), {}, {"axis": (1, 2)}),
    (
        "Pad",
        [IMAGE],
        (2, 4, 8, 5),
        {"pads_begin": "0,0,1,0", "pads_end": "0,0,1,0"},
        {
            "pad_mode": ("constant", "edge"),
            "pad_value": (0, 1),
        },
    ),
    ("Flatten", [IMAGE], (2, 120), {}, {"axis": (1, 2), "end_axis": (-1, 2)}),
    ("ReverseSequence", [IMAGE, (2,)], IMAGE, {}, {"seq_axis": (1, 2), "batch_axis": (0, 3)}),
    ("ShuffleChannels", [IMAGE], IMAGE, {}, {"axis": (1, 2), "group": (1, 2)}),
    ("DepthToSpace", [IMAGE], IMAGE, {}, {"block_size": (1, 2), "mode": ("blocks_first", "depth_first")}),
    (
        "Norm",
        [IMAGE],
        IMAGE,
        {"local-size": 3, "alpha": 1e-4, "beta": 0.75},
        {
            "region": ("across", "same"),
            "k": (1, 2),
        },
    ),
    ("GRN", [IMAGE], IMAGE, {}, {"bias": (0, 1)}),
    ("MVN", [IMAGE], IMAGE, {}, {"across_channels": (0, 1), "normalize_variance": (1, 0), "eps": (1e-9, 1e-3)}),
    ("Normalize", [IMAGE], IMAGE, {}, {"across_spatial": (0, 1), "eps": (1e-10, 1e-3)}),
    ("SoftMax", [IMAGE], IMAGE, {}, {"axis": (1, 2)}),
    ("SoftMax", [(4,)], (4,), {}, {"axis": (0, 1)}),
    ("LogSoftmax", [IMAGE], IMAGE, {}, {"axis": (-1, 2)}),
    (
        "Pooling",
        [IMAGE],
        IMAGE,
        {"kernel": "1,1"},
        {
            "pool-method": ("max", "avg"),
            "global_pool": (0, 1),
            "auto_pad": ("explicit", "same_upper"),
            "strides": ("1,1", "2,2"),
            "pads_begin": ("0,0", "1,1"),
            "rounding_type": ("floor", "ceil"),
            "pads_end": ("0,0", "1,1"),
        },
    ),
    ("Pooling", [IMAGE], IMAGE, {"kernel": "1,1", "pool-method": "avg"}, {"exclude-pad": (0, 1)}),
    ("Convolution", [IMAGE], IMAGE, {"kernel": "1,1", "output": 4}, {"group": (1, 2), "dilations": ("1,1", "2,2")}),
    (
        "DeformableConvolution",
        [IMAGE, (2, 2, 6, 5)],
        IMAGE,
        {"kernel": "1,1", "output": 4},
        {"deformable_group": (1, 2), "group": (1, 2)},
    ),
    (
        "BinaryConvolution",
        [IMAGE],
        (2, 4, 8, 7),
        {"kernel": "1,1", "output": 4, "pads_begin": "1,1"},
        {"pad_value": (0, 1), "mode": ("xnor-popcount", "and"), "group": (1, 2)},
    ),
    *[
        (
            f"{kind}Cell",
            [(2, 2)] * (3 if kind == "LSTM" else 2),
            (2, 2),
            {},
            {"activations": (activations, activations.replace("tanh", "relu")), **RECURRENT},
        )
        for kind, activations in (("LSTM", "sigmoid,tanh,tanh"), ("GRU", "sigmoid,tanh"), ("RNN", "tanh"))
    ],
    ("GRUCell", [(2, 2), (2, 2)], (2, 2), {}, {"linear_before_reset": (0, 1)}),
    (
        "RNNSequence",
        [(2, 3, 2)],
        (2, 3, 2),
        {},
        {"activations": ("tanh", "relu"), "direction": ("Forward", "Backward"), "axis": (1, 0), **RECURRENT},
    ),
    ("ReduceMean", [IMAGE, (1,)], (2, 1, 6, 5), {}, {"keep_dims": (1, 0)}),
    (
        "Interp",
        [IMAGE],
        (2, 4, 12, 10),
        {"width": 10, "height": 12},
        {
            "pad_beg": (0, 1),
            "pad_end": (0, 1),
            "align_corners": (1, 0),
        },
    ),
    (
        "Resample",
        [IMAGE],
        (2, 4, 12, 10),
        {},
        {
            "type": ("caffe.ResampleParameter.NEAREST", "caffe.ResampleParameter.LINEAR"),
            "antialias": (0, 0),
        },
    ),
]

#: The attributes of windows, which test_legacy_windows.py tests.
WINDOW = frozenset({"kernel", "strides", "pads_begin", "pads_end", "dilations", "auto_pad"})

#: The blobs of these layers.
BLOBS = {
    "Convolution": {"weights": make_random(4, 4, 1, 1)},
    "DeformableConvolution": {"weights": make_random(4, 4, 1, 1)},
    "BinaryConvolution": {"weights": np.zeros(2, np.uint8)},
    "LSTMCell": {"weights": make_random(8, 4)},
    "GRUCell": {"weights": make_random(6, 4)},
    "RNNCell": {"weights": make_random(2, 4)},
    "RNNSequence": {"weights": make_random(2, 4)},
}

#: Inputs of these layers, by position, are Const layers with integers.
CONSTANTS = {"TopK": {1: np.int32([3])}, "ReduceMean": {1: np.int32([1])}, "CumSum": {1: np.int32([0])}}

ROWS = [(layer, name) for layer in LAYERS for name in layer[4]]


def count_outputs(type: str, data: Mapping[str, Any]) -> int:
    return 1 + sum(bool(data.get(name)) for name in ("return_inverse", "return_counts"))


def convert(
    type: str, inputs: Sequence[Shape], output: Shape, data: Mapping[str, Any], version: int = 7
) -> list[tuple[str, dict[str, str], bytes | None]]:
    """Return the types, attributes and constants of the layers that a legacy layer is converted to."""
    net = LegacyNetwork(version)
    constants = CONSTANTS.get(type, {})
    sources = [net.add_const(constants[i]) if i in constants else net.add_input(s) for i, s in enumerate(inputs)]
    attributes = {name: to_text(value) for name, value in data.items()}
    net.add_layer(type, sources, [output] * count_outputs(type, data), attributes, BLOBS.get(type))
    return [
        (
            layer.type,
            {name: str(value) for name, value in layer.attributes.items()} | {"inputs": str(len(layer.inputs))},
            bytes(layer.constant.data or b"") if layer.constant else None,
        )
        for layer in net.read().graph.layers
    ]


@pytest.mark.parametrize(("layer", "name"), ROWS, ids=[f"{layer[0]}-{name}" for layer, name in ROWS])
def test_omitted_attribute_has_the_default_of_the_format(layer, name):
    type, inputs, output, data, attributes = layer
    default, other = attributes[name]
    omitted = convert(type, inputs, output, data)
    if default is not None:
        assert convert(type, inputs, output, {**data, name: default}) == omitted
    if default == "":
        spellings = {name, name.replace("activation_", "activations_")}
        values = [stated[key] for _, stated, _ in omitted for key in spellings if key in stated]
        assert values in ([""], ["[]"])
    if default != other:
        try:
            changed = convert(type, inputs, output, {**data, name: other})
        except irrun.ModelError:
            return  # the other value does not fit the shapes
        assert changed != omitted


def test_defaults_of_all_attributes_are_tested(monkeypatch):
    """Each attribute that a layer above omits, and whose default its conversion reads, is in its row."""
    omitted: set[tuple[str, ...]] = set()
    convert_attribute = LegacyLayer._convert

    def record(layer, names, default, parse, description):
        if default is not None and not layer.has_attribute(*names):
            omitted.add(tuple(names))
        return convert_attribute(layer, names, default, parse, description)

    monkeypatch.setattr(LegacyLayer, "_convert", record)
    missing = set()
    for type, inputs, output, data, _ in LAYERS:
        omitted.clear()
        convert(type, inputs, output, data)
        tested = WINDOW.union(*(layer[4] for layer in LAYERS if layer[0] == type))
        missing |= {(type, *names) for names in omitted if not tested & set(names)}
    assert not missing


def test_network_of_one_image_is_reshaped_to_several():
    net = LegacyNetwork(5)
    x = net.add_input((1, 3, 8, 8), name="data")
    attributes = {"kernel": "3,3", "strides": "1,1", "pads_begin": "1,1", "pads_end": "1,1", "output": 4, "group": 1}
    blobs = {"weights": make_random(4, 3, 3, 3), "biases": make_random(4)}
    convolution = net.add_layer("Convolution", [x], [(1, 4, 8, 8)], attributes, blobs)
    pooling = net.add_layer(
        "Pooling", [(convolution, 1)], [(1, 4, 4, 4)], {"kernel": "2,2", "strides": "2,2", "pool-method": "max"}
    )
    blobs = {"weights": make_random(5, 64), "biases": make_random(5, seed=1)}
    dense = net.add_layer("FullyConnected", [(pooling, 1)], [(1, 5)], {"out-size": 5}, blobs)
    net.add_layer("SoftMax", [(dense, 1)], [(1, 5)], {"axis": 1}, name="prob")
    images = make_random(3, 3, 8, 8, seed=2)
    single = irrun.compile_model(net.read())
    expected = np.concatenate([single(image[None])[0] for image in images])
    model = net.read()
    model.reshape({"data": images.shape})
    assert model.outputs[0].shape == (3, 5)
    np.testing.assert_allclose(irrun.run(model, images)[0], expected, rtol=1e-5, atol=1e-7)


def test_positive_pads_of_interp_extend_with_zeros():
    x = make_random(1, 2, 4, 4)
    net = LegacyNetwork(7)
    data = {"width": 7, "height": 7, "pad_beg": 1, "pad_end": 2}
    net.add_layer("Interp", [net.add_input(x.shape)], [(1, 2, 7, 7)], data)
    np.testing.assert_array_equal(net.run(x)[0], np.pad(x, ((0, 0), (0, 0), (1, 2), (1, 2))))


def test_empty_attributes_are_omitted_ones():
    assert convert("ELU", [IMAGE], IMAGE, {"alpha": " "}) == convert("ELU", [IMAGE], IMAGE, {})
    size = {"pooled_h": "", "pooled_w": 2, "spatial_scale": 1}
    with pytest.raises(irrun.ModelError, match="attribute pooled_h='' is not an integer"):
        convert("ROIPooling", [(1, 4, 6, 6), (1, 5)], (1, 4, 2, 2), size)
    del size["pooled_h"]
    with pytest.raises(irrun.ModelError, match="requires the attribute pooled_h"):
        convert("ROIPooling", [(1, 4, 6, 6), (1, 5)], (1, 4, 2, 2), size)


def test_offsets_or_the_mode_make_pooling_of_regions_deformable():
    inputs, data = [(1, 4, 6, 6), (1, 5)], {"output_dim": 4, "spatial_scale": 1}
    offsets = (1, 2, 1, 1)
    for shapes, mode, expected in (
        (inputs, {}, ("PSROIPooling", 2)),
        (inputs, {"mode": "bilinear"}, ("PSROIPooling", 2)),
        (inputs, {"mode": "bilinear_deformable"}, ("DeformablePSROIPooling", 2)),
        ([*inputs, offsets], {"mode": "bilinear_deformable"}, ("DeformablePSROIPooling", 3)),
        ([*inputs, offsets], {"no_trans": 1}, ("DeformablePSROIPooling", 2)),
        ([*inputs, offsets], {}, ("DeformablePSROIPooling", 3)),
    ):
        net = LegacyNetwork(7)
        attributes = {name: to_text(value) for name, value in {**data, **mode}.items()}
        net.add_layer("PSROIPooling", [net.add_input(shape) for shape in shapes], [(1, 4, 1, 1)], attributes)
        (layer,) = (layer for layer in net.read().graph.layers if "Pooling" in layer.type)
        assert (layer.type, len(layer.inputs)) == expected


@pytest.mark.parametrize(
    ("type", "output", "data"),
    [
        ("Convolution", (2, 3, 6, 5), {"kernel": "1,1", "output": 3}),
        ("FullyConnected", (2, 3), {"out-size": 3}),
    ],
)
def test_missing_weights_are_reported(type, output, data):
    with pytest.raises(irrun.ModelError, match="weights"):
        convert(type, [IMAGE], output, data)
