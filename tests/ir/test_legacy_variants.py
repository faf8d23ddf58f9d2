"""Variants of legacy detection layers, sequences and normalized inputs that mean the same."""

from __future__ import annotations

import math
import re

import numpy as np
import pytest
from legacy_ir import LegacyNetwork, StoredInput, build_layer, check_declarations, make_random, run_layer
from lxml import etree

import irrun


def find_layer(net, type):
    (layer,) = net.read().graph.find_layers(type)
    return layer


# Detection

FEATURES, IMAGE = np.zeros((1, 3, 2, 3), np.float32), np.zeros((1, 3, 20, 30), np.float32)
SIZES = {"PriorBox": {"min_size": "4,6"}, "PriorBoxClustered": {"width": "4,6", "height": "5,3"}}


@pytest.mark.parametrize("type", SIZES)
@pytest.mark.parametrize(
    ("shape", "last"), [((1, 2, 48), "Unsqueeze"), ((2, 48), ""), ((1, 1, 96), "Reshape"), ((2, 1, 48), "Reshape")]
)
def test_priors_have_the_declared_shape(type, shape, last):
    data = {**SIZES[type], "variance": "0.1,0.1,0.2,0.2", "step": 10}
    (expected,) = run_layer(type, [FEATURES, IMAGE], [(1, 2, 48)], data)
    (actual,) = run_layer(type, [FEATURES, IMAGE], [shape], data)
    np.testing.assert_array_equal(actual, expected.reshape(shape))
    types = [layer.type for layer in build_layer(type, [FEATURES, IMAGE], [shape], data).read().graph.layers]
    assert {"Unsqueeze", "Reshape"} & set(types) == ({last} if last else set())


def test_priors_without_scaling_of_all_sizes_are_in_pixels():
    """PriorBox expects fractions of the height then, which may be 0."""
    data = {"min_size": "4,6", "step": 10, "scale_all_sizes": 0}
    for height, scale in ((20, 20), (1, 1), (0, 1)):
        image = np.zeros((1, 3, height, 30), np.float32)
        layer = find_layer(build_layer("PriorBox", [FEATURES, image], [(1, 2, 48)], data), "PriorBox")
        assert layer.attributes["step"] == 10 / scale
        assert layer.attributes["min_size"] == [4 / scale, 6 / scale]


@pytest.mark.parametrize(
    ("data", "steps", "size"),
    [
        ({}, (0, 0), None),
        ({"step": 8}, (8, 8), None),
        ({"step": 8, "step_w": 4}, (8, 4), None),
        ({"step": 8, "step_h": 4}, (4, 8), None),
        ({"img_h": 40}, (0, 0), [40, 30]),
        ({"img_w": 60}, (0, 0), [20, 60]),
        ({"img_h": 20, "img_w": 30}, (0, 0), None),
    ],
)
def test_steps_and_image_of_clustered_priors(data, steps, size):
    """The size of the image is computed from the second input unless the file states another one."""
    net = build_layer("PriorBoxClustered", [FEATURES, IMAGE], [(1, 2, 48)], {**SIZES["PriorBoxClustered"], **data})
    layer = find_layer(net, "PriorBoxClustered")
    assert (layer.attributes["step_h"], layer.attributes["step_w"]) == steps
    graph = net.read().graph
    producers = [next(e.from_layer for e in graph.edges if (e.to_layer, e.to_port) == (layer.id, i)) for i in (0, 1)]
    grid, image = (next(p for p in graph.layers if p.id == producer) for producer in producers)
    assert grid.type == "Gather"
    assert image.type == ("Constant" if size else "Gather")
    if size:
        assert image.constant.to_array().tolist() == size


BOXES = make_random(1, 12, seed=1), make_random(1, 9, seed=2), np.abs(make_random(1, 2, 12, seed=3)) / 4
DETECTION = {"num_classes": 3, "nms_threshold": 0.5, "keep_top_k": 4, "confidence_threshold": -9}


def test_inputs_of_detections_are_flattened():
    (expected,) = run_layer("DetectionOutput", BOXES, [(1, 1, 4, 7)], DETECTION)
    assert (expected[..., 0] == 0).any()
    location, scores, priors = BOXES
    for shapes in (
        ((1, 12, 1, 1), (1, 9), (1, 2, 12)),
        ((1, 12), (1, 3, 3), (1, 2, 12)),
        ((1, 12), (1, 9), (1, 2, 3, 4)),
        ((1, 3, 4), (1, 9, 1, 1, 1), (1, 2, 12, 1, 1)),
    ):
        inputs = [a.reshape(s) for a, s in zip((location, scores, priors), shapes, strict=True)]
        np.testing.assert_array_equal(run_layer("DetectionOutput", inputs, [(1, 1, 4, 7)], DETECTION)[0], expected)
        count = sum(len(s) > n for s, n in zip(shapes, (2, 2, 3), strict=True))
        model = build_layer("DetectionOutput", inputs, [(1, 1, 4, 7)], DETECTION).read()
        assert len(model.graph.find_layers("Reshape")) == count


@pytest.mark.parametrize(
    ("data", "name", "expected"),
    [
        ({"clip": 1}, "clip_before_nms", True),
        ({"clip_before_nms": 1}, "clip_before_nms", True),
        ({"clip_before_nms": 0, "clip": 0}, "clip_before_nms", False),
        ({"clip": 1}, "clip_after_nms", False),
        ({"input_height": -1, "input_width": 0}, "input_height", 1),
        ({"input_height": 7, "input_width": 0}, "input_height", 7),
        ({"input_height": 7, "input_width": 0}, "input_width", 1),
        ({"input_width": 5}, "input_width", 5),
        ({"code_type": "center_size"}, "code_type", "caffe.PriorBoxParameter.CENTER_SIZE"),
        ({"code_type": "caffe.PriorBoxParameter.corner"}, "code_type", "caffe.PriorBoxParameter.CORNER"),
    ],
)
def test_attributes_of_detections(data, name, expected):
    net = build_layer("DetectionOutput", BOXES, [(1, 1, 4, 7)], {**DETECTION, **data})
    assert find_layer(net, "DetectionOutput").attributes[name] == expected


@pytest.mark.parametrize(("softmax", "shape"), [(1, (2, 6 * 14)), (0, (2, 14, 2, 3))])
def test_regions_keep_their_declared_shape(softmax, shape):
    data = {"coords": 4, "classes": 2, "num": 3, "do_softmax": softmax, "mask": "0,2"}
    net = build_layer("RegionYolo", [make_random(2, 14, 2, 3)], [shape], data if not softmax else {**data, "num": 2})
    layer = find_layer(net, "RegionYolo")
    attributes = [layer.attributes[name] for name in ("coords", "classes", "num", "mask")]
    assert attributes == [4, 2, 2 if softmax else 3, [0, 2]]
    check_declarations(net.read(), [make_random(2, 14, 2, 3)])
    assert [tuple(port.shape) for port in layer.outputs] == [shape]


SCORES = np.random.default_rng(0).random((1, 6, 2, 3)).astype(np.float32)
DELTAS = make_random(1, 12, 2, 3) * np.float32(0.2)
PROPOSAL = {"base_size": 16, "pre_nms_topn": 60, "post_nms_topn": 5, "nms_thresh": 0.7, "feat_stride": 16,
            "min_size": 4, "ratio": "0.5,1,2", "scale": "1"}  # fmt: skip


@pytest.mark.parametrize("info", [[40, 60, 1], [40, 60, 1, 1], [40, 60, 1, 7, 8], [40, 60, 1, 0, 0, 0]])
@pytest.mark.parametrize("rank", [1, 2, 4])
def test_sizes_of_the_image_have_any_rank(info, rank):
    """The first three of more than four numbers are used."""
    (expected,) = run_layer("Proposal", [SCORES, DELTAS, np.float32([40, 60, 1])], [(5, 5)], PROPOSAL)
    array = np.float32(info).reshape((1, -1, 1, 1)[:rank] if rank > 1 else -1)
    (actual,) = run_layer("Proposal", [SCORES, DELTAS, array], [(5, 5)], PROPOSAL)
    np.testing.assert_array_equal(actual, expected)
    net = build_layer("Proposal", [SCORES, DELTAS, array], [(5, 5)], PROPOSAL)
    assert str(find_layer(net, "Proposal").inputs[2].shape) == ("[4]" if len(info) == 4 else "[3]")


def test_scores_and_boxes_of_simpler_nms_have_any_order():
    data = {"min_bbox_size": 4, "feat_stride": 16, "pre_nms_topn": 60, "post_nms_topn": 5, "iou_threshold": 0.7}
    info = np.float32([[40, 60, 1]])
    (expected,) = run_layer("Proposal", [SCORES, DELTAS, info], [(5, 5)], PROPOSAL)
    for inputs in ([SCORES, DELTAS, info], [DELTAS, SCORES, info]):
        (actual,) = run_layer("SimplerNMS", inputs, [(5, 5)], {**data, "scale": 1}, version=2)
        np.testing.assert_array_equal(actual, expected)


def test_pooled_regions_may_have_leading_dimensions():
    features, rois = make_random(1, 2, 8, 10), np.float32([[0, 4, 4, 7, 6], [0, 1, 2, 7, 6], [0, 0, 0, 2, 2]])
    data = {"pooled_h": 3, "pooled_w": 2, "spatial_scale": 1, "method": "MAX"}
    (expected,) = run_layer("ROIPooling", [features, rois], [(3, 2, 3, 2)], data)
    for shape in ((1, 3, 5), (1, 1, 3, 5)):
        (actual,) = run_layer("ROIPooling", [features, rois.reshape(shape)], [(3, 2, 3, 2)], data)
        np.testing.assert_array_equal(actual, expected)
    with pytest.raises(irrun.ModelError, match="requires the attribute pooled_h"):
        build_layer("ROIPooling", [features, rois], [(3, 2, 3, 2)], {}).read()


CORNERS = np.float32([[[0, 0, 1, 1], [0, 0, 1, 0.9], [2, 2, 3, 3], [0, 0, 1, 1]]])
CONFIDENCE = np.float32([[[0.9, 0.8, 0.5, -0.2], [0.1, 0.2, 0.7, 0.3]]])


@pytest.mark.parametrize(
    ("limits", "expected"),
    [
        ([], [[0, 0, 0], [0, 0, 1], [0, 1, 2], [0, 0, 2], [0, 1, 3], [0, 1, 1]]),
        ([np.int32(1)], [[0, 0, 0], [0, 1, 2]]),
        ([np.int64([1])], [[0, 0, 0], [0, 1, 2]]),
        ([np.float32(2)], [[0, 0, 0], [0, 0, 1], [0, 1, 2], [0, 1, 3]]),
        ([np.int32(4), np.float32(0.5)], [[0, 0, 0], [0, 1, 2], [0, 0, 2], [0, 1, 3]]),
        ([np.int32(4), np.float32([0.5]), np.float32([0.4])], [[0, 0, 0], [0, 1, 2], [0, 0, 2]]),
    ],
)
def test_limits_of_suppression_may_be_omitted(limits, expected):
    """Without limits, all boxes of a score above 0 are selected that no other one covers entirely."""
    inputs = [CORNERS, CONFIDENCE, *map(StoredInput, map(np.asarray, limits))]
    for precision in ("I32", "I64", "FP32"):
        (actual,) = run_layer("NonMaxSuppression", inputs, [(8, 3)], precisions=[precision], may_be_dynamic=True)
        assert irrun.ElementType.of(actual.dtype).precision == precision
        assert actual.tolist() == expected + [[-1] * 3] * (8 - len(expected))
        net = build_layer("NonMaxSuppression", inputs, [(8, 3)], precisions=[precision])
        output_type = find_layer(net, "NonMaxSuppression").attributes["output_type"]
        assert str(output_type) == ("i64" if precision == "I64" else "i32")


def test_boxes_of_suppression_may_have_centers():
    centers = np.float32([[[0.5, 0.5, 1, 1], [0.5, 0.45, 1, 0.9], [2.5, 2.5, 1, 1], [0.5, 0.5, 1, 1]]])
    limits = [StoredInput(np.asarray(n)) for n in (np.int32(4), np.float32(0.5), np.float32(0.4))]
    (expected,) = run_layer("NonMaxSuppression", [CORNERS, CONFIDENCE, *limits], [(4, 3)], {"center_point_box": 0},
                      precisions=["I32"], may_be_dynamic=True)  # fmt: skip
    (actual,) = run_layer("NonMaxSuppression", [centers, CONFIDENCE, *limits], [(4, 3)], {"center_point_box": 1},
                    precisions=["I32"], may_be_dynamic=True)  # fmt: skip
    assert actual.tolist() == expected.tolist()


LOGITS = np.eye(4, dtype=np.float32)[[[0, 1], [0, 1], [2, 3], [3, 0], [1, 0]]]  # [5, 2, 4], the last class is blank


@pytest.mark.parametrize("dtype", [np.float32, np.int32])
def test_sequences_of_the_decoder_end_before_the_second_zero(dtype):
    mask = np.array([[0, 0], [1, 1], [1, 1], [0, 1], [0, 1]], dtype)
    first, second = [0, 2, -1, -1, -1], [1, 0, -1, -1, -1]
    for shape in ((5, 2), (5, 2, 1)):
        (actual,) = run_layer(
            "CTCGreedyDecoder", [LOGITS, mask.reshape(shape)], [(2, 5, 1, 1)], version=6, may_be_dynamic=True
        )
        assert actual.reshape(2, 5).tolist() == [first, second]
    (actual,) = run_layer("CTCGreedyDecoder", [LOGITS], [(2, 5)], version=6, may_be_dynamic=True)
    assert actual.tolist() == [[0, 2, 1, -1, -1], second]
    (actual,) = run_layer(
        "CTCGreedyDecoder", [LOGITS], [(2, 5)], {"ctc_merge_repeated": 0}, version=6, may_be_dynamic=True
    )
    assert actual.tolist() == [[0, 0, 2, 1, -1], [1, 1, 0, 0, -1]]


def test_sizes_of_the_image_have_the_rank_of_each_operation():
    proposals = [np.float32([[32, 40, 1]]), np.zeros((6, 4), np.float32), make_random(4, 2, 3), make_random(1, 2, 3)]
    for shape in ((1, 3), (3,)):
        inputs = [proposals[0].reshape(shape), *proposals[1:]]
        type = "ExperimentalDetectronGenerateProposalsSingleImage"
        net = build_layer(type, inputs, [(4, 4), (4,)], {"min_size": 0, "post_nms_count": 4})
        layer = find_layer(net, type)
        assert [str(port.shape) for port in layer.inputs] == ["[3]", "[6,4]", "[4,2,3]", "[1,2,3]"]
        assert layer.attributes == {"min_size": 0.0, "post_nms_count": 4}
        rois = np.zeros((3, 4), np.float32)
        inputs = [rois, make_random(3, 8), make_random(3, 2), proposals[0].reshape(shape)]
        type = "ExperimentalDetectronDetectionOutput"
        layer = find_layer(build_layer(type, inputs, [(4, 4)], {"num_classes": 2}), type)
        assert [str(port.shape) for port in layer.inputs] == ["[3,4]", "[3,8]", "[3,2]", "[1,3]"]
        assert [(str(port.element_type), str(port.shape)) for port in layer.outputs] == [
            ("f32", "[4,4]"),
            ("i32", "None"),
            ("f32", "None"),
        ]


# Sequences

KINDS = {"LSTM": 2, "GRU": 1, "RNN": 1}
DATA, H, C = make_random(2, 4, 3), make_random(2, 5, seed=1), make_random(2, 5, seed=2)
SHAPES = [(2, 4, 5), (2, 5), (2, 5)]


def make_weights(kind):
    rows = {"LSTM": 20, "GRU": 15, "RNN": 5}[kind]
    return {"weights": make_random(rows, 8, seed=3) / 2, "biases": make_random(rows, seed=4)}


def run_sequence(kind, inputs, *, count=None, steps_first=False, biases=True, **data):
    blobs = make_weights(kind)
    if not biases:
        blobs = {"weights": blobs["weights"]}
    shapes = [(4, 2, 5) if steps_first else (2, 4, 5), *SHAPES[1 : 1 + KINDS[kind]]]
    return run_layer(f"{kind}Sequence", inputs, shapes[:count], data, blobs)


@pytest.mark.parametrize("kind", KINDS)
def test_omitted_states_are_zero_and_omitted_lengths_are_full(kind):
    zeros = [np.zeros((2, 5), np.float32)] * KINDS[kind]
    expected = run_sequence(kind, [DATA, *zeros])
    lengths = StoredInput(np.float32([4, 4]))
    for inputs in ([DATA], [DATA, zeros[0]], [DATA, *zeros, lengths], [DATA, *(z.reshape(2, 1, 5) for z in zeros)]):
        for a, b in zip(run_sequence(kind, inputs), expected, strict=True):
            np.testing.assert_array_equal(a, b)
    assert len(run_sequence(kind, [DATA], count=1)) == 1
    assert len(run_sequence(kind, [DATA], count=2)) == 2
    without = run_sequence(kind, [DATA], biases=False)
    assert not np.allclose(without[0], expected[0])


@pytest.mark.parametrize("kind", KINDS)
def test_sequences_end_after_their_length(kind):
    states = [H, C][: KINDS[kind]]
    for lengths in (np.int32([2, 4]), np.float32([2, 4])):
        output, hidden, *_ = run_sequence(kind, [DATA, *states, StoredInput(lengths)])
        expected, _, *_ = run_sequence(kind, [DATA, *states])
        np.testing.assert_allclose(output[0, :2], expected[0, :2], rtol=1e-5, atol=1e-6)
        np.testing.assert_allclose(output[1], expected[1], rtol=1e-5, atol=1e-6)
        assert not output[0, 2:].any()
        np.testing.assert_allclose(hidden[0], expected[0, 1], rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("kind", KINDS)
def test_steps_may_be_the_first_axis_and_reversed(kind):
    states = [H, C][: KINDS[kind]]
    expected, hidden, *_ = run_sequence(kind, [DATA, *states])
    first, *_ = run_sequence(kind, [DATA.transpose(1, 0, 2).copy(), *states], steps_first=True, axis=0)
    np.testing.assert_allclose(first.transpose(1, 0, 2), expected, rtol=1e-5, atol=1e-6)
    for text in ("Backward", "backward"):
        backward, last, *_ = run_sequence(kind, [DATA[:, ::-1].copy(), *states], direction=text)
        np.testing.assert_allclose(backward[:, ::-1], expected, rtol=1e-5, atol=1e-6)
        np.testing.assert_allclose(last, hidden, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("kind", KINDS)
def test_cell_is_a_sequence_of_one_step(kind):
    states, blobs = [H, C][: KINDS[kind]], make_weights(kind)
    actual = run_layer(f"{kind}Cell", [DATA[:, 0].copy(), *states], SHAPES[1 : 1 + KINDS[kind]], {}, blobs)
    output, *_ = run_sequence(kind, [DATA, *states])
    np.testing.assert_allclose(actual[0], output[:, 0], rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("names", [("activation_alpha", "activation_beta"), ("activations_alpha", "activations_beta")])
def test_parameters_of_activations_are_read(names):
    data = {"activations": " HardSigmoid, TanH , tanh", names[0]: "0.2,0.3", names[1]: "0.5", "clip": 2}
    net = build_layer("LSTMCell", [DATA[:, 0].copy(), H, C], SHAPES[1:], data, make_weights("LSTM"))
    attributes = find_layer(net, "LSTMCell").attributes
    assert attributes == {
        "hidden_size": 5,
        "clip": 2.0,
        "activations": ["hardsigmoid", "tanh", "tanh"],
        "activations_alpha": [0.2, 0.3],
        "activations_beta": [0.5],
    }


# The `pre-process` element


def normalize(shape, channels, **attributes):
    """Return a network whose input is normalized; `channels` are elements as text."""
    net = LegacyNetwork(3)
    net.add_layer("Power", [net.add_input(shape, name="image")], [shape], {}, name="out")
    element = etree.SubElement(net.root, "pre-process", attributes)
    for channel in channels:
        element.append(etree.fromstring(channel))
    return net


@pytest.mark.parametrize(
    ("channels", "means", "scales"),
    [
        (['<channel id="1"><scale value="2"/></channel>'], [0, 0, 0], [1, 2, 1]),
        (['<channel><mean value="1"/></channel>'] * 3, [1, 1, 1], [1, 1, 1]),
        ([f'<channel><mean value="{i}"/></channel>' for i in (3, 4, 5)], [3, 4, 5], [1, 1, 1]),
        ([f'<channel id="{i}"><mean value="{i}"/></channel>' for i in (2, 0, 1)], [0, 1, 2], [1, 1, 1]),
        (['<channel id="1"/>', '<channel><scale value="4"/></channel>'], [0, 0, 0], [1, 1, 4]),
        (['<channel id="0"><scale value="1"/></channel>', '<channel id="1"><mean/></channel>'], [0, 0, 0], [1, 1, 1]),
    ],
)
@pytest.mark.parametrize("shape", [(2, 3), (3, 4, 5), (2, 3, 4, 5), (2, 3, 2, 4, 5)])
def test_channels_may_be_incomplete(channels, means, scales, shape):
    x = make_random(*shape)
    target = (3, *[1] * 2) if len(shape) == 3 else (3, *[1] * (len(shape) - 2))
    mean, scale = (np.float32(values).reshape(target) for values in (means, scales))
    net = normalize(shape, channels)
    np.testing.assert_allclose(net.run(x)[0], (x - mean) / scale, rtol=1e-6)
    check_declarations(net.read(), [x])
    types = {layer.type for layer in net.read().graph.layers}
    assert ("Subtract" in types, "Divide" in types) == (any(means), scales != [1] * 3)


@pytest.mark.parametrize("shape", [(3, 4, 5), (2, 3, 4, 5)])
@pytest.mark.parametrize("gap", [0, 4])
def test_mean_images_have_the_size_of_the_input(shape, gap):
    planes = make_random(3, 4, 5)
    channels = [f'<channel><mean offset="{i * (80 + gap)}" size="80"/></channel>' for i in range(3)]
    net = normalize(shape, channels)
    for plane in planes:
        net.weights += plane.tobytes() + bytes(gap)
    x = make_random(*shape, seed=1)
    np.testing.assert_allclose(net.run(x)[0], x - planes, rtol=1e-6)
    check_declarations(net.read(), [x])


@pytest.mark.parametrize(
    ("shape", "channels", "message"),
    [
        ((3,), [], "<pre-process> requires an input of rank 2 or more, found shape [3]"),
        ((1, 3), ['<channel id="3"/>'], "<pre-process> refers to channel 3 of 3"),
        ((1, 3), ['<channel id="-1"/>'], "<pre-process> refers to channel -1 of 3"),
        ((1, 3), ['<channel id="2"/>', "<channel/>"], "<pre-process> refers to channel 3 of 3"),
        ((1, 3), ['<channel id="x"/>'], "channel id 'x' of <channel> is not an integer"),
        ((1, 3), ['<channel><mean size="x"/></channel>'], "size 'x' of <mean> is not an integer"),
        ((1, 3), ['<channel><mean size="1" offset="x"/></channel>'], "offset 'x' of <mean> is not an integer"),
        ((1, 3), ['<channel><mean value="x"/></channel>'], "'x' of <mean> is not a number"),
        ((1, 3), ['<channel><scale value="x"/></channel>'], "'x' of <scale> is not a number"),
        ((1, 3), ['<channel id="1"><mean value="1"/></channel>'], "has mean values for the channels [1] of 3"),
        (
            (1, 1, 2, 3),
            ['<channel><mean size="20"/></channel>'],
            "a mean image has 20 bytes, expected 24 for f32[2,3]",
        ),
        (
            (1, 2, 2, 3),
            ['<channel><mean size="24"/></channel>'],
            "<pre-process> has mean images for the channels [0] of 2",
        ),
    ],
)
def test_channels_that_do_not_match_are_reported(shape, channels, message):
    with pytest.raises(irrun.ModelError, match=re.escape(message)):
        normalize(shape, channels).read()


def test_input_that_is_normalized():
    """The named one, or else the first image by name, or else the first one by name."""
    channel = '<channel><mean value="1"/></channel>'
    for shapes, name, expected in (
        ({"b": (1, 1), "a": (1, 1)}, "", "a"),
        ({"b": (1, 1), "a": (1, 1)}, "b", "b"),
        ({"b": (1, 1, 2, 2), "a": (1, 1)}, "", "b"),
        ({"c": (1, 1, 2, 2), "b": (1, 1, 2, 2), "a": (1, 1, 1)}, "", "b"),
        ({"b": (1, 1, 2, 2), "a": (1, 1)}, " a ", "a"),
    ):
        net = LegacyNetwork(3)
        for key, shape in shapes.items():
            net.add_layer("Power", [net.add_input(shape, name=key)], [shape], {}, name=f"{key}/out")
        element = etree.SubElement(net.root, "pre-process", {"reference-layer-name": name})
        element.append(etree.fromstring(channel))
        values = dict(zip(shapes, net.run(*(np.zeros(s, np.float32) for s in shapes.values())), strict=True))
        assert {key for key, value in values.items() if value.any()} == {expected}
    net = LegacyNetwork(3)
    net.add_const(np.float32([1]))
    etree.SubElement(net.root, "pre-process")
    with pytest.raises(irrun.ModelError, match="<pre-process> requires an input, but the model has none"):
        net.read()


@pytest.mark.parametrize("shape", [(1, 3), (2, 5, 1)])
def test_variable_has_the_shape_and_type_of_the_memory(shape):
    for precision, dtype in (("FP32", np.float32), ("I32", np.int32)):
        net = LegacyNetwork(7, precision)
        x = net.add_input(shape, name="x")
        before = net.add_layer("Memory", [], [shape], {"id": "r", "index": 1, "size": 2}), 0
        total = net.add_layer("Eltwise", [x, before], [shape], {"operation": "sum"}, name="total"), 2
        net.add_layer("Memory", [total], [], {"id": "r", "index": 0, "size": 2})
        net.add_layer("Power", [total], [shape], {}, name="out")
        value = np.ones(shape, dtype)
        check_declarations(net.read(), [value])
        layer = find_layer(net, "ReadValue")
        assert layer.attributes["variable_id"] == find_layer(net, "Assign").attributes["variable_id"] == "r"
        assert str(layer.attributes["variable_type"]) == irrun.ElementType.of(dtype).name
        assert tuple(layer.attributes["variable_shape"]) == shape
        request = irrun.compile_model(net.read()).create_infer_request()
        assert [int(request.infer([value])[0].sum()) for _ in range(3)] == [math.prod(shape) * n for n in (1, 2, 3)]


@pytest.mark.parametrize(("is_reader", "verb"), [(True, "assigns"), (False, "reads")])
def test_memory_without_counterpart_is_reported(is_reader, verb):
    net = LegacyNetwork(7)
    x = net.add_input((1, 3))
    if is_reader:
        x = net.add_layer("Memory", [], [(1, 3)], {"id": "r"}), 0
    else:
        net.add_layer("Memory", [x], [], {"id": "r"})
    net.add_layer("ReLU", [x], [(1, 3)])
    with pytest.raises(irrun.ModelError, match=f"no Memory layer {verb} the variable 'r'"):
        net.read()
