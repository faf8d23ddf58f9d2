"""Variants of layers that few models have, in onnxruntime: types, axes, ranks and attributes."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")

import irrun
from export.test_layers import check, make

TEXTS = np.array(["a", "bb", "c", "d", "e", "ff", "g", "h", "i", "j", "k", "l"], object)


@pytest.mark.parametrize("indices", [1, [2, 0], [[0, 1], [1, 1]]], ids=["scalar", "vector", "matrix"])
@pytest.mark.parametrize("axis", [0, 1, -1])
def test_texts_that_are_gathered(axis, indices, tmp_path):
    indices = np.minimum(indices, 1 if axis else 2)
    values = [TEXTS.reshape(3, 2, 2), np.asarray(indices), np.array(axis)]
    check(tmp_path, "Gather", "opset8", "", values, constants=[2])


def test_texts_that_are_gathered_from_batches(tmp_path):
    values = [TEXTS.reshape(2, 3, 2), np.array([[2, 0], [1, 1]]), np.array(1)]
    check(tmp_path, "Gather", "opset8", 'batch_dims="1"', values, constants=[2])


def test_rows_out_of_range_are_zero(tmp_path):
    values = [make(2, 3, 2), np.array([[-3, 2, 3], [-4, 0, -1]]), np.array(1)]
    check(tmp_path, "Gather", "opset8", 'batch_dims="1"', values, constants=[2])
    check(tmp_path, "Gather", "opset8", 'batch_dims="1"', values, constants=[2], dynamic=True)


@pytest.mark.parametrize("size", [-1, 3, 4, 5, 8])
@pytest.mark.parametrize("axes", [[0], [1], [-1]])
def test_sizes_of_transforms(axes, size, tmp_path):
    sizes = [np.array(axes), np.array([size])]
    for type in ("DFT", "IDFT", "RDFT", "IRDFT"):
        version = "opset7" if type in ("DFT", "IDFT") else "opset9"
        x = make(4, 5) if type == "RDFT" else make(4, 5, 2)
        check(tmp_path, type, version, "", [x, *sizes], constants=[1, 2], rtol=1e-4)
        check(tmp_path, type, version, "", [x, sizes[0]], constants=[1], rtol=1e-4)


@pytest.mark.parametrize("axis", [0, 1, 2, -2])
@pytest.mark.parametrize("shape", [(), (2,), (1, 2)])
def test_slices_that_are_replaced(shape, axis, tmp_path):
    data = make(3, 4, 2)
    indices = np.array([1, 0])[: max(1, int(np.prod(shape)))].reshape(shape)
    updates = make(*data.shape[: axis % 3], *shape, *data.shape[axis % 3 + 1 :], seed=1)
    values = [data, indices, updates, np.array(axis)]
    check(tmp_path, "ScatterUpdate", "opset3", "", values, constants=[3], dynamic=False)
    check(tmp_path, "ScatterUpdate", "opset3", "", values, constants=[3], dynamic=True)


def test_elements_of_vectors_that_are_replaced(tmp_path):
    for indices, updates in ((np.array(1), np.float32(7)), (np.array([1]), np.float32([7]))):
        values = [make(3), indices, np.asarray(updates), np.array(0)]
        check(tmp_path, "ScatterUpdate", "opset3", "", values, constants=[3])


@pytest.mark.parametrize(
    ("shape", "stride"), [((1, 4, 4, 6), 2), ((2, 8, 2, 4), 2), ((2, 5, 4, 4), 2), ((3, 10, 3, 6), 3)]
)
def test_reorganized_images(shape, stride, tmp_path):
    check(tmp_path, "ReorgYolo", "opset2", f'stride="{stride}"', [make(*shape)])


#: Limits of inputs and outputs, levels.
RANGES = [
    (-1.28, 1.27, 0, 2.55, 256),
    (0, 2.55, 0, 2.55, 256),
    (0, 2.55, -1.28, 1.27, 256),
    (-1.28, 1.27, -1.28, 1.27, 256),
    (-1.27, 1.27, -1.27, 1.27, 255),
    (-1, 1.27, -1, 1.27, 255),
    (-1, 1.55, -1, 1.55, 256),
    (0.5, 3.05, 0.5, 3.05, 256),
    (-3.05, -0.5, -3.05, -0.5, 256),
    (2, -1, 2, -1, 256),
    (0, 1, 0, 1, 4),
    (0, 5, 5, 0, 256),
]


@pytest.mark.parametrize("has_channels", [False, True])
@pytest.mark.parametrize("limits", RANGES)
def test_ranges_of_quantization(limits, has_channels, tmp_path):
    *values, levels = limits
    data = np.linspace(-4, 4, 30, dtype=np.float32).reshape(2, 3, 5)
    scale = np.float32([1, 2, 0.5]).reshape(3, 1) if has_channels else np.float32(1)
    arrays = [np.asarray(np.float32(v) * scale, np.float32) for v in values]
    attributes = f'levels="{levels}" auto_broadcast="numpy"'
    types = check(tmp_path, "FakeQuantize", "opset1", attributes, [data, *arrays], constants=[1, 2, 3, 4], rtol=1e-5)
    is_pair = limits in RANGES[1:7:1] and limits not in (RANGES[2], RANGES[5])
    assert ("QuantizeLinear" in types) == is_pair


@pytest.mark.parametrize("couples", ["true", "false"])
@pytest.mark.parametrize("has_peepholes", [False, True])
@pytest.mark.parametrize("clip", [0, 0.3])
def test_cells_with_peepholes(clip, has_peepholes, couples, tmp_path):
    values = [make(2, 4, seed=1), make(2, 3, seed=2), make(2, 3, seed=3), make(12, 4, seed=4), make(12, 3, seed=5),
              make(12, seed=6), *([make(9, seed=7)] if has_peepholes else [])]  # fmt: skip
    data = f'hidden_size="3" input_forget="{couples}" weights_format="fico" clip="{clip}"'
    constants = range(3, len(values))
    check(tmp_path, "LSTMCell", "opset1", data, values, constants=constants, outputs=2, rtol=1e-4)


@pytest.mark.parametrize("method", ["max", "bilinear"])
@pytest.mark.parametrize("size", ['pooled_h="3" pooled_w="2"', 'output_roi="3,2"', 'output_size="3,2"'])
def test_sizes_of_pooled_regions(size, method, tmp_path):
    boxes = [[0, 1, 1, 9, 7], [1, 0, 2, 6, 10]] if method == "max" else [[0, 0.1, 0, 0.9, 0.6], [1, 0, 0.2, 1, 1]]
    rois = np.array([*boxes, [-1, 0, 0, 0, 0], boxes[0]], np.float32)  # the regions end at a batch of -1
    data = f'{size} spatial_scale="0.5" method="{method}"'
    check(tmp_path, "ROIPooling", "opset2", data, [make(2, 3, 6, 7), rois], rtol=1e-4)


def make_boxes(seed=0):
    rng = np.random.default_rng(seed)
    corners = rng.uniform(0, 4, (2, 5, 2))
    boxes = np.concatenate([corners, corners + rng.uniform(0.5, 4, (2, 5, 2))], axis=2).astype(np.float32)
    boxes[1, 3, 2:] = boxes[1, 3, :2]  # without area
    boxes[0, 4] = boxes[0, 1] + np.float32([1.25, 0, 1.25, 0]) * (boxes[0, 1, 2] - boxes[0, 1, 0])  # beside another one
    return [boxes, rng.permutation(30).reshape(2, 3, 5).astype(np.float32) / 30]


MULTICLASS = (
    'sort_result_type="{sort}" sort_result_across_batch="{across}" output_type="i64" score_threshold="0.1" '
    'nms_top_k="{best}" keep_top_k="{kept}" background_class="{background}" normalized="{normalized}"'
)


@pytest.mark.parametrize("across", ["true", "false"])
@pytest.mark.parametrize("sort", ["none", "score", "classid"])
@pytest.mark.parametrize(
    ("best", "kept", "background", "normalized"),
    [(-1, -1, -1, "true"), (3, -1, 0, "true"), (-1, 4, 2, "false"), (2, 3, -1, "false")],
)
def test_detections_of_classes(sort, across, best, kept, background, normalized, tmp_path):
    data = MULTICLASS.format(sort=sort, across=across, best=best, kept=kept, background=background,
                             normalized=normalized)  # fmt: skip
    greedy = data + ' iou_threshold="0.05" nms_eta="0.9"'
    check(tmp_path, "MulticlassNms", "opset9", greedy, make_boxes(), outputs=3, rtol=1e-4)
    for decay, sigma in (("linear", 2), ("gaussian", 1.5)):
        matrix = data + f' decay_function="{decay}" gaussian_sigma="{sigma}" post_threshold="0.2"'
        check(tmp_path, "MatrixNms", "opset8", matrix, make_boxes(1), outputs=3, rtol=1e-4)


@pytest.mark.parametrize("encoding", ["corner", "center"])
@pytest.mark.parametrize("sigma", [0.0, 0.5])
@pytest.mark.parametrize("threshold", [0.0, 0.4])
def test_soft_suppression(threshold, sigma, encoding, tmp_path):
    numbers = [np.array(3), *(np.array(x, np.float32) for x in (0.4, threshold, sigma))]
    data = f'box_encoding="{encoding}" sort_result_descending="false" output_type="i64"'
    values = [*make_boxes(2), *numbers]
    check(tmp_path, "NonMaxSuppression", "opset9", data, values, constants=[2, 3, 4, 5], outputs=3, rtol=1e-4)


@pytest.mark.parametrize(("clockwise", "place"), [("true", 0), ("false", 3000)])
def test_rotated_boxes(clockwise, place, tmp_path):
    rng = np.random.default_rng(3)
    parts = [rng.uniform(0, 3, (1, 6, 2)) + place, rng.uniform(1, 3, (1, 6, 2)), rng.uniform(-1, 1, (1, 6, 1))]
    boxes = np.concatenate(parts, axis=2).astype(np.float32)
    scores = (rng.permutation(12).reshape(1, 2, 6) / 12).astype(np.float32)
    numbers = [np.array(4), np.array(0.2, np.float32), np.array(0.1, np.float32)]
    data = f'clockwise="{clockwise}" sort_result_descending="true" output_type="i64"'
    values = [boxes, scores, *numbers]
    check(tmp_path, "NMSRotated", "opset13", data, values, constants=[2, 3, 4], outputs=3, rtol=1e-4)


@pytest.mark.parametrize("dtype", ["u1", "i1", "i2", "i4", "i8", "f2", "f8"])
@pytest.mark.parametrize(("low", "high"), [(-1.5, 2.5), (0.5, 300), (-1e10, 1e10)])
def test_limits_of_types(low, high, dtype, tmp_path):
    data = np.array([0, 1, 2, 3, 100, 127]).astype(dtype)
    if np.dtype(dtype).kind != "u":
        data[0] = -2
    check(tmp_path, "Clamp", "opset1", f'min="{low}" max="{high}"', [data])


@pytest.mark.parametrize("dtype", ["i1", "i4", "i8"])
def test_functions_of_integers(dtype, tmp_path):
    data = np.array([-3, -1, 0, 1, 2]).astype(dtype)
    for type, version, attributes in (("Elu", "opset1", 'alpha="1.0"'), ("Sign", "opset1", ""), ("Floor", "opset1", ""),
                                      ("Ceiling", "opset1", ""), ("HardSigmoid", "opset1", "")):  # fmt: skip
        extra = [np.array(0.2).astype(dtype), np.array(0.5).astype(dtype)] if type == "HardSigmoid" else []
        try:
            check(tmp_path, type, version, attributes, [data, *extra])
        except irrun.InputError:
            assert type == "HardSigmoid"


def test_the_inverse_error_function_near_its_ends(tmp_path):
    ends = 1 - 2.0 ** -np.arange(1, 24, 0.5)
    x = np.concatenate([ends, -ends, np.linspace(-0.99, 0.99, 100), [0, 1, -1, 1.5, np.nan]]).astype(np.float32)
    check(tmp_path, "ErfInv", "opset17", "", [x], rtol=2e-6)


@pytest.mark.parametrize("angle", [0, np.pi / 2, 1])
def test_rotated_boxes_with_parallel_sides(angle, tmp_path):
    """Boxes that are equal, shifted along a side, inside each other, or touch."""
    along, across = (np.cos(angle), np.sin(angle)), (-np.sin(angle), np.cos(angle))
    places = [(0, 0, 4, 2), (0, 0, 4, 2), (1, 0, 4, 2), (0, 1, 4, 2), (0, 0, 2, 1), (4, 0, 4, 2), (3, 1.5, 4, 2)]
    boxes = np.array([[[a * along[0] + b * across[0], a * along[1] + b * across[1], w, h, angle]
                       for a, b, w, h in places]], np.float32)  # fmt: skip
    scores = np.linspace(0.9, 0.1, len(places), dtype=np.float32).reshape(1, 1, -1)
    for threshold in (0.05, 0.4):
        numbers = [np.array(9), np.array(threshold, np.float32), np.array(0.0, np.float32)]
        data = 'clockwise="true" sort_result_descending="true" output_type="i64"'
        values = [boxes, scores, *numbers]
        check(tmp_path, "NMSRotated", "opset13", data, values, constants=[2, 3, 4], outputs=3, rtol=1e-4)


@pytest.mark.parametrize("axes", [[], [0], [1], [0, 1], [-1]])
@pytest.mark.parametrize("dynamic", [False, True])
def test_axes_of_other_lengths_stay(dynamic, axes, tmp_path):
    if not dynamic or 1 not in axes:  # onnxruntime refuses to remove them
        values = [make(1, 3, 1), np.array(axes, np.int64)]
        check(tmp_path, "Squeeze", "opset1", "", values, constants=[1], dynamic=dynamic)


@pytest.mark.parametrize("dtype", ["f4", "i4", "u1"])
def test_powers_of_scaled_values(dtype, tmp_path):
    data = 'scale="0.75" shift="1.5" power="2"'
    check(tmp_path, "PowerStatic", "cpu_plugin_opset", data, [np.array([0, 1, 2, 5]).astype(dtype)])


@pytest.mark.parametrize("mode", ["mask", "index"])
def test_layers_that_do_nothing(mode, tmp_path):
    """The result is a copy of the input."""
    x = make(2, 3)
    none = np.array([False, False]) if mode == "mask" else np.zeros(0, np.int64)
    for type, version, data, values in (
        ("Reverse", "opset1", f'mode="{mode}"', [x, none]),
        ("Roll", "opset7", "", [x, np.zeros(0, np.int64), np.zeros(0, np.int64)]),
        ("ReduceSum", "opset1", 'keep_dims="true"', [x, np.zeros(0, np.int64)]),
        ("Convert", "opset1", 'destination_type="f32"', [x]),
        ("Squeeze", "opset1", "", [x]),
    ):
        assert set(check(tmp_path, type, version, data, values, constants=range(1, len(values)))) <= {
            "Identity",
            "Squeeze",
        }
