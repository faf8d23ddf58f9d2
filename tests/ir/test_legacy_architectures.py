"""Whole networks as legacy versions of the Model Optimizer wrote them, compared with OpenVINO."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from legacy_ir import Array, LegacyNetwork, check_declarations, compare, make_random, run_openvino
from lxml import etree

pytest.importorskip("openvino")

import openvino as ov
from openvino import opset13 as ops

from irrun.ir.writer import save_model

PortKey = tuple[int, int]


class VersionedNetwork(LegacyNetwork):
    """A legacy network with the conventions of its version.

    Output ports are numbered after inputs and blobs. In IR v2 weights are children of the layer rather than of
    `blobs`, and the attributes of windows are `kernel-x`, `kernel-y` and so on. In late IR v7 only ports and blobs
    have a precision.
    """

    def add(
        self,
        type: str,
        inputs: Sequence[PortKey],
        shapes: Sequence[Sequence[int]] | Sequence[int],
        data: Mapping[str, Any] | None = None,
        blobs: Mapping[str, Array] | None = None,
        *,
        name: str | None = None,
        precisions: Sequence[str] | None = None,
    ) -> PortKey:
        """Add a layer and return its first output port."""
        shapes = shapes if shapes and not isinstance(shapes[0], int) else [shapes]
        stored = {k: v.astype(np.float16) if self.precision == "FP16" else v for k, v in (blobs or {}).items()}
        tag = f"{type.lower()}_data" if self.version == 2 else "data"
        tag = {"fullyconnected_data": "fc_data", "norm_data": "norm_data"}.get(tag, tag)
        id = self.add_layer(type, inputs, shapes, data, stored, name=name, precisions=precisions, data_tag=tag)
        element, first_port = self.layers[id], len(inputs) + len(stored)
        known_shapes = [self.shapes.pop((id, len(inputs) + i)) for i in range(len(shapes))]
        for i, (port, shape) in enumerate(zip(element.iterfind("output/port"), known_shapes, strict=True)):
            port.set("id", str(first_port + i))
            self.shapes[id, first_port + i] = shape
        if self.version == 7:
            del element.attrib["precision"]
        section = element.find("blobs")
        if self.version == 2 and section is not None:
            for blob in list(section):
                element.append(blob)
            element.remove(section)
        return id, first_port

    def make_window(self, kernel: int, stride: int = 1, pad: int = 0, *, end: int | None = None) -> dict[str, Any]:
        end = pad if end is None else end
        if self.version == 2:
            names = {"kernel": kernel, "stride": stride, "pad": pad}
            window = {f"{name}-{axis}": value for name, value in names.items() for axis in "xy"}
            return window if end == pad else {**window, "pad-r": end, "pad-b": end}
        return {
            "kernel": [kernel] * 2,
            "strides": [stride] * 2,
            "pads_begin": [pad] * 2,
            "pads_end": [end] * 2,
        }

    def add_convolution(
        self, source: PortKey, outputs: int, kernel: int, stride: int = 1, pad: int = 0, group: int = 1, **keywords: Any
    ) -> PortKey:
        n, channels, *image = self.shapes[source]
        weights = make_random(outputs, channels // group, kernel, kernel, seed=len(self.layers)) / np.float32(kernel)
        size = [(s + 2 * pad - kernel) // stride + 1 for s in image]
        dilations = {"dilation-x": 1, "dilation-y": 1} if self.version == 2 else {"dilations": [1, 1]}
        data = {**self.make_window(kernel, stride, pad), **dilations, "group": group, "output": outputs}
        blobs = {"weights": weights, "biases": make_random(outputs, seed=len(self.layers))}
        return self.add("Convolution", [source], (n, outputs, *size), data, blobs, **keywords)

    def add_pooling(
        self, source: PortKey, kernel: int, stride: int, pad: int = 0, method: str = "max", ceil: bool = False
    ) -> PortKey:
        n, channels, *image = self.shapes[source]
        size = [(s + 2 * pad - kernel + (stride - 1 if ceil else 0)) // stride + 1 for s in image]
        rounding = "rounding-type" if self.version == 2 else "rounding_type"
        data = {
            **self.make_window(kernel, stride, pad),
            "pool-method": method,
            "exclude-pad": "false",
            rounding: "ceil" if ceil else "floor",
        }
        return self.add("Pooling", [source], (n, channels, *size), data)

    def add_relu(self, source: PortKey, slope: float = 0.0) -> PortKey:
        return self.add("ReLU", [source], self.shapes[source], {"negative_slope": slope} if slope else None)

    def check(
        self, reference: Sequence[ov.Output], arrays: Sequence[Array], parameters: Sequence[Any], path: Path
    ) -> Any:
        """Check that irrun on the file, and OpenVINO on the upgraded file, return what the reference does."""
        expected = run_openvino(ov.Model(list(reference), list(parameters)), arrays)
        model = self.read()
        compare(self.run(*arrays), expected, "irrun on the legacy file, OpenVINO on the reference")
        check_declarations(model, arrays, may_be_dynamic=True)  # of CTCGreedyDecoder
        upgraded, _ = save_model(model, path / "upgraded.xml")
        compare(run_openvino(upgraded, arrays), expected, "OpenVINO on the upgraded file")
        return model


def convolve(x: Any, position: int, outputs: int, kernel: int, stride: int = 1, pad: int = 0, half: bool = False):
    """Return the reference of the convolution that is layer `position` of the legacy file."""
    channels = (x if isinstance(x, ov.Output) else x.output(0)).get_shape()[1]
    weights = make_random(outputs, channels, kernel, kernel, seed=position) / np.float32(kernel)
    biases = make_random(outputs, seed=position)
    if half:
        weights, biases = (a.astype(np.float16).astype(np.float32) for a in (weights, biases))
    y = ops.convolution(x, ops.constant(weights), [stride] * 2, [pad] * 2, [pad] * 2, [1, 1])
    return ops.add(y, ops.constant(biases.reshape(1, -1, 1, 1)))


def make_constant(value: Any, type: Any = np.int64) -> Any:
    return ops.constant(np.asarray(value, type))


def flatten(x: Any) -> Any:
    return ops.reshape(x, make_constant([0, -1]), True)


def transpose(x: Any, order: Sequence[int]) -> Any:
    return ops.transpose(x, make_constant(order))


def pool(x: Any, kernel: int, stride: int, pad: int = 0, rounding: str = "floor", method: str = "max") -> Any:
    if method == "max":
        return ops.max_pool(x, [stride] * 2, [1] * 2, [pad] * 2, [pad] * 2, [kernel] * 2, rounding).output(0)
    return ops.avg_pool(x, [stride] * 2, [pad] * 2, [pad] * 2, [kernel] * 2, False, rounding)


def apply_dense(x: Any, weights: Array, biases: Array) -> Any:
    return ops.add(ops.matmul(x, ops.constant(weights), False, True), ops.constant(biases.reshape(1, -1)))


VARIANCE = [0.1, 0.1, 0.2, 0.2]


@pytest.mark.parametrize(("version", "precision"), [(2, "FP32"), (3, "FP16"), (6, "FP32"), (7, "FP16")])
def test_single_shot_detector_matches_openvino(version: int, precision: str, tmp_path: Path) -> None:
    """Two heads of PriorBox, Permute, Flatten and Concat; SoftMax over classes; DetectionOutput."""
    half = precision == "FP16"
    net = VersionedNetwork(version, precision)
    image = net.add_input((1, 3, 32, 32), name="data")
    scale, shift = np.float32([0.5, 0.25, 2]), np.float32([1, 0, -1])
    source = net.add("ScaleShift", [image], (1, 3, 32, 32), {}, {"weights": scale, "biases": shift}, name="data/scale")
    source = net.add_relu(net.add_convolution(source, 8, 3, 2, 1))
    first = net.add_pooling(source, 2, 2)
    second = net.add_relu(net.add_convolution(first, 6, 3, 2, 1))
    x = ops.parameter((1, 3, 32, 32), np.float32, name="data")
    node = ops.add(
        ops.multiply(x, make_constant(scale.reshape(1, 3, 1, 1), np.float32)),
        make_constant(shift.reshape(1, 3, 1, 1), np.float32),
    )
    node = ops.relu(convolve(node, 2, 8, 3, 2, 1, half))
    maps = [pool(node, 2, 2)]
    maps.append(ops.relu(convolve(maps[0], 5, 6, 3, 2, 1, half)))
    heads: dict[str, list[PortKey]] = {"loc": [], "conf": [], "prior": []}
    nodes: dict[str, list[Any]] = {"loc": [], "conf": [], "prior": []}
    for i, (feature, reference_feature) in enumerate(zip((first, second), maps, strict=True)):
        side = net.shapes[feature][2]
        for head, per in (("loc", 4), ("conf", 3)):
            count = 4 * per
            position = len(net.layers)
            output = net.add_convolution(feature, count, 3, 1, 1, name=f"{head} {i}")
            output = net.add("Permute", [output], (1, side, side, count), {"order": [0, 2, 3, 1]})
            heads[head].append(net.add("Flatten", [output], (1, count * side**2), {"axis": 1, "end_axis": -1}))
            node = transpose(convolve(reference_feature, position, count, 3, 1, 1, half), [0, 2, 3, 1])
            nodes[head].append(flatten(node))
        sizes = {"min_size": [6.0 + 6 * i], "max_size": [12.0 + 6 * i], "aspect_ratio": [2.0]}
        step = 32 // side
        prior_data = {
            **sizes,
            "flip": 1,
            "clip": 0,
            "variance": VARIANCE,
            "img_size": 0,
            "img_h": 0,
            "img_w": 0,
            "step": step,
            "step_h": 0,
            "step_w": 0,
            "offset": 0.5,
            "scale_all_sizes": "True" if version > 5 else 1,
        }
        heads["prior"].append(net.add("PriorBox", [feature, image], (1, 2, 16 * side**2), prior_data))
        node = ops.prior_box(
            make_constant([side, side]),
            make_constant([32, 32]),
            {**sizes, "flip": True, "clip": False, "variance": VARIANCE, "step": float(step), "offset": 0.5},
        )
        nodes["prior"].append(ops.unsqueeze(node, make_constant(0)))
    total = sum(net.shapes[end][1] for end in heads["loc"]) // 4
    joined = {
        head: net.add("Concat", parts, shape, {"axis": axis})
        for (head, parts), shape, axis in zip(
            heads.items(), ((1, 4 * total), (1, 3 * total), (1, 2, 4 * total)), (1, 1, 2), strict=True
        )
    }
    scores = net.add("Reshape", [joined["conf"]], (1, total, 3), {"dim": [0, -1, 3], "axis": 0, "num_axes": -1})
    scores = net.add("SoftMax", [scores], (1, total, 3), {"axis": 2})
    scores = net.add("Flatten", [scores], (1, 3 * total), {"axis": 1, "end_axis": -1})
    detection_data = {
        "num_classes": 3,
        "share_location": 1,
        "background_label_id": 0,
        "nms_threshold": 0.45,
        "top_k": 40,
        "input_height": -1 if version == 3 else 1,
        "input_width": -1 if version == 3 else 1,
        "code_type": "caffe.PriorBoxParameter.CENTER_SIZE",
        "variance_encoded_in_target": 0,
        "keep_top_k": 20,
        "confidence_threshold": 0.3,
        "visualize": "False",
        "eta": 1.0,
        "normalized": 1,
        "objectness_score": 0,
    }
    net.add(
        "DetectionOutput", [joined["loc"], scores, joined["prior"]], (1, 1, 20, 7), detection_data, name="detection out"
    )
    locations, conf, priors = (ops.concat(nodes[head], axis) for head, axis in (("loc", 1), ("conf", 1), ("prior", 2)))
    conf = flatten(ops.softmax(ops.reshape(conf, make_constant([0, -1, 3]), True), 2))
    attributes = {
        "num_classes": 3,
        "nms_threshold": 0.45,
        "top_k": 40,
        "keep_top_k": [20],
        "confidence_threshold": 0.3,
        "code_type": "caffe.PriorBoxParameter.CENTER_SIZE",
        "share_location": True,
        "normalized": True,
        "background_label_id": 0,
    }
    result = ops.detection_output(locations, conf, priors, attributes)
    model = net.check(result.outputs(), [make_random(1, 3, 32, 32)], [x], tmp_path)
    assert [t.any_name for t in model.outputs] == ["detection out"]


@pytest.mark.parametrize("version", [2, 5, 7])
def test_yolo_matches_openvino(version: int, tmp_path: Path) -> None:
    """YOLOv2 with ReorgYolo and softmax, YOLOv3 with Resample, a mask and two outputs."""
    net = VersionedNetwork(version)
    x = ops.parameter((1, 3, 16, 16), np.float32)
    image = net.add_input((1, 3, 16, 16), name="input_1")
    source = net.add_relu(net.add_convolution(image, 4, 3, 1, 1), 0.1)
    node = ops.prelu(convolve(x, 1, 4, 3, 1, 1), make_constant([0.1], np.float32))
    fine, fine_node = source, node
    source = net.add_relu(net.add_convolution(net.add_pooling(source, 2, 2), 4, 3, 1, 1), 0.1)
    node = ops.prelu(convolve(pool(node, 2, 2), 4, 4, 3, 1, 1), make_constant([0.1], np.float32))
    if version == 2:
        passed = net.add("ReorgYolo", [fine], (1, 16, 8, 8), {"stride": 2})
        joined = net.add("Concat", [passed, source], (1, 20, 8, 8), {"axis": 1})
        region = net.add_convolution(joined, 14, 1)
        data = {"classes": 2, "coords": 4, "num": 2, "anchors": [1.0, 2.0, 3.0, 4.0], "do_softmax": 1}
        net.add("RegionYolo", [region], (1, 14 * 64), data, name="region")
        joined_node = ops.concat([ops.reorg_yolo(fine_node, [2]), node], 1)
        outputs = [ops.region_yolo(convolve(joined_node, 8, 14, 1), 4, 2, 2, True, [], 1, 3)]
    else:
        data = {"axis": 1, "classes": 2, "coords": 4, "do_softmax": 0, "end_axis": 3, "num": 6}
        data["anchors"] = list(range(10, 22))
        coarse = net.add_convolution(source, 21, 1, name="detector/yolo-v3/Conv_6/BiasAdd")
        net.add("RegionYolo", [coarse], (1, 21, 8, 8), {**data, "mask": [3, 4, 5]}, name="detector/yolo-v3/coarse")
        size = {"factor": 2.0, "height": 0, "width": 0, "antialias": 0, "type": "caffe.ResampleParameter.NEAREST"}
        grown = net.add("Resample", [source], (1, 4, 16, 16), size)
        joined = net.add("Concat", [grown, fine], (1, 8, 16, 16), {"axis": 1})
        region = net.add_convolution(joined, 21, 1)
        net.add("RegionYolo", [region], (1, 21, 16, 16), {**data, "mask": [0, 1, 2]}, name="detector/yolo-v3/fine")
        outputs = [ops.region_yolo(convolve(node, 6, 21, 1), 4, 2, 6, False, [3, 4, 5], 1, 3)]
        grown_node = ops.tile(
            ops.reshape(node, make_constant([1, 4, 8, 1, 8, 1]), False), make_constant([1, 1, 1, 2, 1, 2])
        )
        grown_node = ops.reshape(grown_node, make_constant([1, 4, 16, 16]), False)
        last = convolve(ops.concat([grown_node, fine_node], 1), 10, 21, 1)
        outputs.append(ops.region_yolo(last, 4, 2, 6, False, [0, 1, 2], 1, 3))
    model = net.check([o.output(0) for o in outputs], [make_random(1, 3, 16, 16)], [x], tmp_path)
    assert len(model.outputs) == len(outputs)


@pytest.mark.parametrize("version", [2, 4])
def test_face_cascade_matches_openvino(version: int, tmp_path: Path) -> None:
    """PReLU, pooling that rounds up, an InnerProduct over the whole image, SoftMax, two outputs and mean values."""
    net = VersionedNetwork(version)
    x = ops.parameter((1, 3, 24, 24), np.float32)
    slopes = make_random(4, seed=9)
    source = net.add_convolution(net.add_input((1, 3, 24, 24), name="data"), 4, 3)
    source = net.add("PReLU", [source], (1, 4, 22, 22), {"channel_shared": 0}, {"weights": slopes})
    source = net.add_pooling(source, 3, 2, ceil=True)
    shape = net.shapes[source]
    assert shape == (1, 4, 11, 11)
    weights, biases = make_random(16, 4 * 121) * np.float32(0.1), make_random(16)
    source = net.add(
        "InnerProduct" if version == 2 else "FullyConnected",
        [source],
        (1, 16),
        {"out-size": 16},
        {"weights": weights, "biases": biases},
    )
    source = net.add("PReLU", [source], (1, 16), {"channel_shared": 1}, {"weights": np.float32([0.25])})
    heads = [(make_random(2, 16), make_random(2)), (make_random(4, 16), make_random(4))]
    outputs = [
        net.add("FullyConnected", [source], (1, len(b)), {"out-size": len(b)}, {"weights": w, "biases": b}, name=name)
        for (w, b), name in zip(heads, ("conv5-1", "conv5-2"), strict=True)
    ]
    net.add("SoftMax", outputs[:1], (1, 2), {"axis": 1}, name="prob1")
    element = etree.SubElement(net.root, "pre-process", {"reference-layer-name": "data"})
    for i, mean in enumerate((127.5, 127.5, 128.0)):
        channel = etree.SubElement(element, "channel", id=str(i))
        etree.SubElement(channel, "mean", value=str(mean))
        etree.SubElement(channel, "scale", value="127.5")
    node = ops.subtract(x, make_constant([[[[127.5]], [[127.5]], [[128]]]], np.float32))
    node = convolve(ops.divide(node, make_constant(127.5, np.float32)), 1, 4, 3)
    node = pool(ops.prelu(node, ops.constant(slopes)), 3, 2, 0, "ceil")
    node = ops.prelu(apply_dense(flatten(node), weights, biases), make_constant([0.25], np.float32))
    first, second = (apply_dense(node, *head) for head in heads)
    model = net.check(
        [second.output(0), ops.softmax(first, 1).output(0)],
        [make_random(1, 3, 24, 24) * np.float32(100)],
        [x],
        tmp_path,
    )
    assert [t.any_name for t in model.outputs] == ["conv5-2", "prob1"]


@pytest.mark.parametrize("version", [2, 3, 7])
def test_classifier_with_local_normalization_matches_openvino(version: int, tmp_path: Path) -> None:
    """Norm, grouped convolution, average pooling with padding, and Concat of branches, as in GoogLeNet."""
    net = VersionedNetwork(version)
    x = ops.parameter((2, 3, 17, 17), np.float32)
    source = net.add_relu(net.add_convolution(net.add_input((2, 3, 17, 17), name="data"), 6, 5, 2, 2))
    source = net.add_pooling(source, 3, 2, ceil=True)
    size = "local-size" if version < 6 else "local_size"
    norm = {"alpha": 0.5, "beta": 0.75, size: 5, "region": "across", "k": 1}
    source = net.add("Norm", [source], net.shapes[source], norm)
    group = net.add_convolution(source, 4, 3, 1, 1, group=2)
    branch = net.add_pooling(source, 3, 1, 1, method="avg")
    joined = net.add("Concat", [group, branch], (2, 10, 4, 4), {"axis": 1})
    source = net.add_pooling(joined, 4, 1, method="avg")
    weights, biases = make_random(5, 10), make_random(5)
    blobs = {"biases": biases, "weights": weights}
    source = net.add("FullyConnected", [source], (2, 5), {"out-size": 5}, blobs)
    net.add("SoftMax", [source], (2, 5), {"axis": 1}, name="prob")
    node = ops.relu(convolve(x, 1, 6, 5, 2, 2))
    node = ops.lrn(pool(node, 3, 2, 0, "ceil"), make_constant([1]), 0.5, 0.75, 1.0, 5)
    split = ops.constant(make_random(4, 3, 3, 3, seed=5).reshape(2, 2, 3, 3, 3) / np.float32(3))
    grouped = ops.group_convolution(node, split, [1, 1], [1, 1], [1, 1], [1, 1])
    grouped = ops.add(grouped, ops.constant(make_random(4, seed=5).reshape(1, 4, 1, 1)))
    node = ops.concat([grouped, pool(node, 3, 1, 1, method="avg")], 1)
    node = apply_dense(flatten(pool(node, 4, 1, method="avg")), weights, biases)
    net.check([ops.softmax(node, 1).output(0)], [make_random(2, 3, 17, 17)], [x], tmp_path)


@pytest.mark.parametrize("version", [3, 6])
def test_segmentation_matches_openvino(version: int, tmp_path: Path) -> None:
    """A grouped Deconvolution, Interp with and without aligned corners, an Eltwise sum with Crop, ArgMax."""
    net = VersionedNetwork(version)
    x = ops.parameter((1, 3, 16, 16), np.float32)
    image = net.add_input((1, 3, 16, 16), name="data")
    source = net.add_convolution(image, 4, 3, 2, 1)
    weights = make_random(4, 1, 4, 4, seed=1)
    data = {**net.make_window(4, 2, 1), "output": 4, "group": 4, "dilations": [1, 1]}
    large = net.add("Deconvolution", [source], (1, 4, 16, 16), data, {"weights": weights})
    size = {"height": 18, "width": 18, "zoom_factor": 1, "shrink_factor": 1, "pad_beg": 0, "pad_end": 0}
    if version == 6:
        size["align_corners"] = 0
    other = net.add("Interp", [source], (1, 4, 18, 18), size)
    cut = net.add("Crop", [other, large], (1, 4, 16, 16), {"axis": [2, 3], "offset": [1, 1]})
    added = net.add("Eltwise", [large, cut], (1, 4, 16, 16), {"operation": "sum", "coeff": [1.0, 0.5]})
    net.add("ArgMax", [added], (1, 1, 16, 16), {"out_max_val": 0, "top_k": 1, "axis": 1}, name="labels")
    node = convolve(x, 1, 4, 3, 2, 1)
    grown = ops.group_convolution_backprop_data(
        node, ops.constant(weights.reshape(4, 1, 1, 4, 4)), [2, 2], pads_begin=[1, 1], pads_end=[1, 1]
    )
    mode = "asymmetric" if version == 6 else "align_corners"
    resized = ops.interpolate(
        node,
        make_constant([18, 18]),
        "linear_onnx",
        "sizes",
        coordinate_transformation_mode=mode,
        axes=make_constant([2, 3]),
    )
    cropped = ops.slice(
        resized, make_constant([1, 1]), make_constant([17, 17]), make_constant([1, 1]), make_constant([2, 3])
    )
    total = ops.add(grown, ops.multiply(cropped, make_constant(0.5, np.float32)))
    labels = ops.topk(total, make_constant(1), 1, "max", "value", "i32").output(1)
    net.check([ops.convert(labels, "f32").output(0)], [make_random(1, 3, 16, 16)], [x], tmp_path)


@pytest.mark.parametrize("version", [2, 7])
def test_multi_task_network_matches_openvino(version: int, tmp_path: Path) -> None:
    """Age and gender: two heads with a common backbone, Power, BatchNormalization and ScaleShift."""
    net = VersionedNetwork(version, "FP16" if version == 7 else "FP32")
    half = version == 7

    def stored(array: Array) -> Array:
        return array.astype(np.float16).astype(np.float32) if half else array

    x = ops.parameter((1, 3, 12, 12), np.float32)
    source = net.add_convolution(net.add_input((1, 3, 12, 12), name="data"), 4, 3, 1)
    mean, variance = make_random(4, seed=5), np.abs(make_random(4, seed=6)) + np.float32(0.5)
    source = net.add(
        "BatchNormalization",
        [source],
        net.shapes[source],
        {"epsilon": 0.001},
        {"weights": variance, "biases": mean},
    )
    scale, shift = make_random(4, seed=7), make_random(4, seed=8)
    source = net.add("ScaleShift", [source], net.shapes[source], None, {"weights": scale, "biases": shift})
    source = net.add_relu(source)
    age = net.add_convolution(source, 1, 10)
    net.add("Power", [age], (1, 1, 1, 1), {"power": 1, "scale": 0.01, "shift": 0.5}, name="age_conv3")
    gender = net.add_convolution(source, 2, 10)
    net.add("SoftMax", [gender], (1, 2, 1, 1), {"axis": 1}, name="prob")
    per = (1, 4, 1, 1)
    node = convolve(x, 1, 4, 3, half=half)
    node = ops.divide(
        ops.subtract(node, ops.constant(stored(mean).reshape(per))),
        ops.constant(np.sqrt(stored(variance) + np.float32(0.001)).reshape(per)),
    )
    node = ops.multiply(node, ops.constant(stored(scale).reshape(per)))
    node = ops.relu(ops.add(node, ops.constant(stored(shift).reshape(per))))
    first = ops.add(
        ops.multiply(convolve(node, 5, 1, 10, half=half), make_constant(0.01, np.float32)),
        make_constant(0.5, np.float32),
    )
    second = ops.softmax(convolve(node, 7, 2, 10, half=half), 1)
    model = net.check([first.output(0), second.output(0)], [make_random(1, 3, 12, 12)], [x], tmp_path)
    assert [t.any_name for t in model.outputs] == ["age_conv3", "prob"]
    assert {str(t.element_type) for t in (*model.inputs, *model.outputs)} == {"f32"}


@pytest.mark.parametrize("version", [2, 5, 7])
def test_region_classifier_matches_openvino(version: int, tmp_path: Path) -> None:
    """Faster R-CNN and R-FCN: Proposal (SimplerNMS in IR v2), ROIPooling or PSROIPooling, and two heads."""
    net = VersionedNetwork(version)
    x, info = ops.parameter((1, 3, 32, 32), np.float32), ops.parameter((1, 3), np.float32)
    image, sizes = net.add_input((1, 3, 32, 32), name="data"), net.add_input((1, 3), name="im_info")
    trunk = net.add_relu(net.add_convolution(image, 8, 3, 2, 1))
    reduced = net.add_pooling(net.add_pooling(trunk, 2, 2), 2, 2)
    node = ops.relu(convolve(x, 2, 8, 3, 2, 1))
    small = pool(pool(node, 2, 2), 2, 2)
    at = len(net.layers)
    scores, deltas = net.add_convolution(reduced, 18, 1), net.add_convolution(reduced, 36, 1)
    shaped = net.add("Reshape", [scores], (1, 2, 36, 4), {"dim": [0, 2, -1, 0], "axis": 0, "num_axes": -1})
    shaped = net.add("SoftMax", [shaped], (1, 2, 36, 4), {"axis": 1})
    shaped = net.add("Reshape", [shaped], (1, 18, 4, 4), {"dim": [0, 18, -1, 0], "axis": 0, "num_axes": -1})
    scored = ops.softmax(ops.reshape(convolve(small, at, 18, 1), make_constant([0, 2, -1, 0]), True), 1)
    scored = ops.reshape(scored, make_constant([0, 18, -1, 0]), True)
    data: dict[str, Any] = {"feat_stride": 8, "pre_nms_topn": 40, "post_nms_topn": 6, "scale": [0.25, 0.5, 1.0]}
    if version == 2:
        data |= {"min_bbox_size": 4, "iou_threshold": 0.7, "cls_threshold": 0.5}
        rois = net.add("SimplerNMS", [shaped, deltas, sizes], (6, 5), data)
    else:
        data |= {"base_size": 16, "min_size": 4, "nms_thresh": 0.7, "ratio": [0.5, 1.0, 2.0]}
        rois = net.add("Proposal", [shaped, deltas, sizes], (6, 5), data)
    exact: dict[str, Any] = {
        "base_size": np.uint64(16),
        "pre_nms_topn": np.uint64(40),
        "post_nms_topn": np.uint64(6),
        "feat_stride": np.uint64(8),
        "min_size": np.uint64(4),
        "nms_thresh": np.float64(0.7),
        "ratio": np.float64([0.5, 1, 2]),
        "scale": np.float64([0.25, 0.5, 1]),
        "clip_before_nms": True,
        "clip_after_nms": False,
        "normalize": False,
        "framework": "",
    }
    flat = ops.reshape(info, make_constant([-1]), False)
    reference_rois = ops.proposal(scored, convolve(small, at + 1, 36, 1), flat, exact).output(0)
    if version == 5:
        data = {"output_dim": 2, "group_size": 2, "spatial_scale": 0.5, "trans_std": 0, "no_trans": 1, "part_size": 2}
        regions = net.add("PSROIPooling", [trunk, rois], (6, 2, 2, 2), data)
        pooled = ops.psroi_pooling(node, reference_rois, 2, 2, 0.5, 1, 1, "average")
        features = 8
    else:
        data = {"pooled_h": 2, "pooled_w": 2, "spatial_scale": 0.5}
        data |= {"method": "max"} if version == 7 else {}
        regions = net.add("ROIPooling", [trunk, rois], (6, 8, 2, 2), data)
        pooled = ops.roi_pooling(node, reference_rois, [2, 2], 0.5, "max")
        features = 32
    w, b = make_random(3, features), make_random(3)
    classes = net.add("FullyConnected", [regions], (6, 3), {"out-size": 3}, {"weights": w, "biases": b})
    net.add("SoftMax", [classes], (6, 3), {"axis": 1}, name="cls_prob")
    boxes, shift = make_random(12, features, seed=1), make_random(12, seed=1)
    net.add(
        "FullyConnected", [regions], (6, 12), {"out-size": 12}, {"weights": boxes, "biases": shift}, name="bbox_pred"
    )
    outputs = [
        ops.softmax(apply_dense(flatten(pooled), w, b), 1).output(0),
        apply_dense(flatten(pooled), boxes, shift).output(0),
    ]
    model = net.check(outputs, [make_random(1, 3, 32, 32), np.float32([[32, 32, 1]])], [x, info], tmp_path)
    assert [t.any_name for t in (*model.inputs, *model.outputs)] == ["data", "im_info", "cls_prob", "bbox_pred"]


@pytest.mark.parametrize("version", [4, 6, 7])
def test_text_recognition_matches_openvino(version: int, tmp_path: Path) -> None:
    """TensorIterators over an LSTMCell in both directions, and a decoder with a mask that starts with 0 as in Caffe."""
    steps, features, hidden = 5, 6, 4
    net = VersionedNetwork(version)
    x = ops.parameter((1, 3, 8, 10), np.float32)
    source = net.add_relu(net.add_convolution(net.add_input((1, 3, 8, 10), name="input"), features, 8, 1, 0))
    source = net.add("Pooling", [source], (1, features, 1, 3), {**net.make_window(1), "pool-method": "max"})
    steps = 3
    source = net.add("Reshape", [source], (1, features, steps), {"dim": [0, features, steps]})
    source = net.add("Permute", [source], (1, steps, features), {"order": [0, 2, 1]})
    node = ops.relu(convolve(x, 1, features, 8))
    node = transpose(ops.reshape(node, make_constant([1, features, steps]), False), [0, 2, 1])
    outputs, nodes = [], []
    zero = net.add_const(np.zeros((1, hidden), np.float32))
    for backward in (False, True):
        blobs = {
            "weights": make_random(4 * hidden, features + hidden, seed=backward) * np.float32(0.5),
            "biases": make_random(4 * hidden, seed=2 + backward),
        }
        id = net.add_layer("TensorIterator", [source, zero, zero], [(1, steps, hidden)], name=f"lstm {backward}")
        net.layers[id].attrib.pop("precision") if version == 7 else None
        body = VersionedNetwork(version, root=etree.SubElement(net.layers[id], "body"), weights=net.weights)
        squeeze = body.add_layer(
            "Reshape", [[1, 1, features]], [(1, features)], {"dim": [-1, features]}, name="squeeze"
        )
        cell = body.add_layer(
            "LSTMCell",
            [(squeeze, 1), [1, hidden], [1, hidden]],
            [(1, hidden), (1, hidden)],
            {"hidden_size": hidden},
            blobs,
            name="cell",
        )
        unsqueeze = body.add_layer("Reshape", [(cell, 3)], [(1, 1, hidden)], {"dim": [-1, 1, hidden]}, name="unsqueeze")
        section = etree.SubElement(net.layers[id], "port_map")
        order = {"stride": -1, "start": -1, "end": 0} if backward else {"stride": 1, "start": 0, "end": -1}
        for tag, port, inner, sliced in (
            ("input", 0, (squeeze, 0), True),
            ("input", 1, (cell, 1), False),
            ("input", 2, (cell, 2), False),
            ("output", 3, (unsqueeze, 1), True),
        ):
            values = {"external_port_id": port, "internal_layer_id": inner[0], "internal_port_id": inner[1]}
            values |= {"axis": 1, "part_size": 1, **order} if sliced else {}
            etree.SubElement(section, tag, {k: str(v) for k, v in values.items()})
        section = etree.SubElement(net.layers[id], "back_edges")
        for port in (1, 2):
            values = {"from-layer": cell, "from-port": port + 2, "to-layer": cell, "to-port": port}
            etree.SubElement(section, "edge", {k: str(v) for k, v in values.items()})
        outputs.append((id, 3))
        state = make_constant(np.zeros((1, 1, hidden)), np.float32)
        parts = [blobs["weights"][:, :features], blobs["weights"][:, features:], blobs["biases"]]
        sequence = ops.lstm_sequence(
            node,
            state,
            state,
            make_constant([steps]),
            *(ops.constant(np.ascontiguousarray(p)[None]) for p in parts),
            hidden,
            "reverse" if backward else "forward",
        )
        nodes.append(ops.squeeze(sequence.output(0), make_constant(1)))
    joined = net.add("Concat", outputs, (1, steps, 2 * hidden), {"axis": 2})
    joined = net.add("Permute", [joined], (steps, 1, 2 * hidden), {"order": [1, 0, 2]})
    flat = net.add("Reshape", [joined], (steps, 2 * hidden), {"dim": [-1, 2 * hidden]})
    w, b = make_random(5, 2 * hidden), make_random(5)
    flat = net.add("FullyConnected", [flat], (steps, 5), {"out-size": 5}, {"weights": w, "biases": b})
    logits = net.add("Reshape", [flat], (steps, 1, 5), {"dim": [steps, 1, 5]})
    logits = net.add("SoftMax", [logits], (steps, 1, 5), {"axis": 2})
    mask = net.add_const(np.float32([[0], [1], [1]]))
    net.add("CTCGreedyDecoder", [logits, mask], (1, steps, 1, 1), {"ctc_merge_repeated": 1}, name="decoded")
    node = transpose(ops.concat(nodes, 2), [1, 0, 2])
    node = apply_dense(ops.reshape(node, make_constant([-1, 2 * hidden]), False), w, b)
    node = ops.softmax(ops.reshape(node, make_constant([steps, 1, 5]), False), 2)
    decoded = ops.ctc_greedy_decoder(node, make_constant(np.ones((steps, 1)), np.float32), True)
    for seed in range(3):
        net.check([decoded.output(0)], [make_random(1, 3, 8, 10, seed=seed)], [x], tmp_path)


def test_region_based_detector_matches_openvino(tmp_path: Path) -> None:
    """The head of R-FCN as published: priors of five numbers, boxes per class, and sizes in pixels."""
    count = 12
    net = VersionedNetwork(4)
    shapes = {
        "cls": (1, 12, 6, 8),
        "box": (1, 24, 6, 8),
        "info": (1, 6),
        "box_maps": (1, 72, 6, 8),
        "maps": (1, 18, 6, 8),
    }
    inputs = [net.add_input(shape, name=name) for name, shape in shapes.items()]
    x = [ops.parameter(shape, np.float32) for shape in shapes.values()]
    scales = [4.0, 6.0, 9.0, 16.0, 24.0, 32.0]
    data: dict[str, Any] = {
        "base_size": 16,
        "feat_stride": 16,
        "min_size": 16,
        "nms_thresh": 0.6,
        "post_nms_topn": count,
    }
    data |= {"pre_nms_topn": 6000, "ratio": 2.669, "scale": scales}
    rois = net.add("Proposal", inputs[:3], (count, 5), data)
    exact = {k: np.uint64(v) if isinstance(v, int) else np.float64(v) for k, v in data.items()}
    exact |= {"ratio": np.float64([2.669]), "clip_before_nms": True, "clip_after_nms": False, "normalize": False}
    sizes = ops.reshape(
        ops.slice(x[2], make_constant([0]), make_constant([3]), make_constant([1]), make_constant([1])),
        make_constant([3]),
        False,
    )
    reference_rois = ops.proposal(x[0], x[1], sizes, {**exact, "framework": ""}).output(0)
    heads, nodes = [], []
    target = net.add_const(np.float32([1, -1]))
    for maps, node, outputs in ((inputs[3], x[3], 8), (inputs[4], x[4], 2)):
        data = {"group_size": 3, "mode": "average", "output_dim": outputs, "spatial_scale": 0.0625}
        head = net.add("PSROIPooling", [maps, rois], (count, outputs, 3, 3), data)
        head = net.add_pooling(head, 3, 3, method="avg", ceil=True)
        reference_head = ops.avg_pool(
            ops.psroi_pooling(node, reference_rois, outputs, 3, 0.0625, 1, 1, "average"),
            [3, 3],
            [0, 0],
            [0, 0],
            [3, 3],
            False,
        )
        if outputs == 2:
            head = net.add("SoftMax", [head], (count, 2, 1, 1), {"axis": 1})
            reference_head = ops.softmax(reference_head, 1)
        heads.append(net.add("Reshape", [head, target], (1, count * outputs), {"axis": 0, "num_axes": -1}))
        nodes.append(ops.reshape(reference_head, make_constant([1, -1]), False))
    heads.append(net.add("Reshape", [rois, net.add_const(np.float32([1, 1, -1]))], (1, 1, 5 * count), {"axis": 0}))
    nodes.append(ops.reshape(reference_rois, make_constant([1, 1, -1]), False))
    detection_data = {"background_label_id": 0, "code_type": "caffe.PriorBoxParameter.CENTER_SIZE", "top_k": 12000}
    detection_data |= {"input_height": 96, "input_width": 128, "num_classes": 2, "nms_threshold": 0.4}
    flags = {"normalized": False, "share_location": False, "variance_encoded_in_target": True}
    net.add(
        "DetectionOutput",
        heads,
        (1, 1, count, 7),
        {**detection_data, **flags, "keep_top_k": count, "visualize": "False"},
    )
    attributes = {**detection_data, **flags, "keep_top_k": [count], "confidence_threshold": -3.4028234663852886e38}
    scores = np.abs(make_random(1, 12, 6, 8)) / np.float32(4)
    arrays = [scores, make_random(1, 24, 6, 8) * np.float32(0.1), np.float32([[96, 128, 1, 1, 1, 1]])]
    arrays += [make_random(1, 72, 6, 8), make_random(1, 18, 6, 8)]
    net.check(ops.detection_output(*nodes, attributes).outputs(), arrays, x, tmp_path)
