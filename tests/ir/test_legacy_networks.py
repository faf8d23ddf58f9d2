"""Whole networks as the Model Optimizer of their years wrote them, against the same networks of today."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from lxml import etree
from old_ir import Array, OldNet, compare, random, run_openvino

pytest.importorskip("openvino")

import openvino as ov
from openvino import opset13 as ops

from irrun.ir.writer import save_model

End = tuple[int, int]


class Written(OldNet):
    """A file with the habits of its version.

    Blobs count as inputs where output ports are numbered; until IR v2 weights stand beside `<blobs>`-less layers and
    kernels are `kernel-x`, `kernel-y`; in late IR v7 only ports and blobs have a precision.
    """

    def add(
        self,
        type: str,
        inputs: Sequence[End],
        shapes: Sequence[Sequence[int]] | Sequence[int],
        data: Mapping[str, Any] | None = None,
        blobs: Mapping[str, Array] | None = None,
        *,
        name: str | None = None,
        precisions: Sequence[str] | None = None,
    ) -> End:
        """The first output of a new layer."""
        shapes = shapes if shapes and not isinstance(shapes[0], int) else [shapes]
        stored = {k: v.astype(np.float16) if self.precision == "FP16" else v for k, v in (blobs or {}).items()}
        tag = f"{type.lower()}_data" if self.version == 2 else "data"
        tag = {"fullyconnected_data": "fc_data", "norm_data": "norm_data"}.get(tag, tag)
        id = self.layer(type, inputs, shapes, data, stored, name=name, precisions=precisions, data_tag=tag)
        element, first = self.layers[id], len(inputs) + len(stored)
        known = [self.shapes.pop((id, len(inputs) + i)) for i in range(len(shapes))]
        for i, (port, shape) in enumerate(zip(element.iterfind("output/port"), known, strict=True)):
            port.set("id", str(first + i))
            self.shapes[id, first + i] = shape
        if self.version == 7:
            del element.attrib["precision"]
        section = element.find("blobs")
        if self.version == 2 and section is not None:
            for blob in list(section):
                element.append(blob)
            element.remove(section)
        return id, first

    def window(self, kernel: int, stride: int = 1, pad: int = 0, *, end: int | None = None) -> dict[str, Any]:
        end = pad if end is None else end
        if self.version == 2:
            names = {"kernel": kernel, "stride": stride, "pad": pad}
            found = {f"{name}-{axis}": value for name, value in names.items() for axis in "xy"}
            return found if end == pad else {**found, "pad-r": end, "pad-b": end}
        return {
            "kernel": [kernel] * 2,
            "strides": [stride] * 2,
            "pads_begin": [pad] * 2,
            "pads_end": [end] * 2,
        }

    def convolution(
        self, source: End, outputs: int, kernel: int, stride: int = 1, pad: int = 0, group: int = 1, **keywords: Any
    ) -> End:
        n, channels, *image = self.shapes[source]
        weights = random(outputs, channels // group, kernel, kernel, seed=len(self.layers)) / np.float32(kernel)
        size = [(s + 2 * pad - kernel) // stride + 1 for s in image]
        dilations = {"dilation-x": 1, "dilation-y": 1} if self.version == 2 else {"dilations": [1, 1]}
        data = {**self.window(kernel, stride, pad), **dilations, "group": group, "output": outputs}
        blobs = {"weights": weights, "biases": random(outputs, seed=len(self.layers))}
        return self.add("Convolution", [source], (n, outputs, *size), data, blobs, **keywords)

    def pooling(
        self, source: End, kernel: int, stride: int, pad: int = 0, method: str = "max", ceil: bool = False
    ) -> End:
        n, channels, *image = self.shapes[source]
        size = [(s + 2 * pad - kernel + (stride - 1 if ceil else 0)) // stride + 1 for s in image]
        rounding = "rounding-type" if self.version == 2 else "rounding_type"
        data = {
            **self.window(kernel, stride, pad),
            "pool-method": method,
            "exclude-pad": "false",
            rounding: "ceil" if ceil else "floor",
        }
        return self.add("Pooling", [source], (n, channels, *size), data)

    def relu(self, source: End, slope: float = 0.0) -> End:
        return self.add("ReLU", [source], self.shapes[source], {"negative_slope": slope} if slope else None)

    def check(self, modern: Sequence[ov.Output], fed: Sequence[Array], parameters: Sequence[Any], path: Path) -> Any:
        """The same outputs from the old file here, from `modern`, and from the upgraded file in OpenVINO."""
        expected = run_openvino(ov.Model(list(modern), list(parameters)), fed)
        model = self.read()
        found = self.run(*fed)
        compare(found, expected, "irrun on the old file, OpenVINO on the network of today")
        upgraded, _ = save_model(model, path / "upgraded.xml")
        compare(run_openvino(upgraded, fed), expected, "OpenVINO on the upgraded file")
        return model


def convolution(x: Any, position: int, outputs: int, kernel: int, stride: int = 1, pad: int = 0, half: bool = False):
    """The convolution that is the layer at `position` of the old file."""
    channels = (x if isinstance(x, ov.Output) else x.output(0)).get_shape()[1]
    weights = random(outputs, channels, kernel, kernel, seed=position) / np.float32(kernel)
    biases = random(outputs, seed=position)
    if half:
        weights, biases = (a.astype(np.float16).astype(np.float32) for a in (weights, biases))
    y = ops.convolution(x, ops.constant(weights), [stride] * 2, [pad] * 2, [pad] * 2, [1, 1])
    return ops.add(y, ops.constant(biases.reshape(1, -1, 1, 1)))


def constant(value: Any, type: Any = np.int64) -> Any:
    return ops.constant(np.asarray(value, type))


def flattened(x: Any) -> Any:
    return ops.reshape(x, constant([0, -1]), True)


def transposed(x: Any, order: Sequence[int]) -> Any:
    return ops.transpose(x, constant(order))


def pooled(x: Any, kernel: int, stride: int, pad: int = 0, rounding: str = "floor", method: str = "max") -> Any:
    if method == "max":
        return ops.max_pool(x, [stride] * 2, [1] * 2, [pad] * 2, [pad] * 2, [kernel] * 2, rounding).output(0)
    return ops.avg_pool(x, [stride] * 2, [pad] * 2, [pad] * 2, [kernel] * 2, False, rounding)


def dense(x: Any, weights: Array, biases: Array) -> Any:
    return ops.add(ops.matmul(x, ops.constant(weights), False, True), ops.constant(biases.reshape(1, -1)))


VARIANCE = [0.1, 0.1, 0.2, 0.2]


@pytest.mark.parametrize(("version", "precision"), [(2, "FP32"), (3, "FP16"), (6, "FP32"), (7, "FP16")])
def test_single_shot_detector(version: int, precision: str, tmp_path: Path) -> None:
    """Two heads of PriorBox, Permute, Flatten and Concat; SoftMax over classes; DetectionOutput."""
    half = precision == "FP16"
    net = Written(version, precision)
    image = net.input((1, 3, 32, 32), name="data")
    scale, shift = np.float32([0.5, 0.25, 2]), np.float32([1, 0, -1])
    source = net.add("ScaleShift", [image], (1, 3, 32, 32), {}, {"weights": scale, "biases": shift}, name="data/scale")
    source = net.relu(net.convolution(source, 8, 3, 2, 1))
    first = net.pooling(source, 2, 2)
    second = net.relu(net.convolution(first, 6, 3, 2, 1))
    x = ops.parameter((1, 3, 32, 32), np.float32, name="data")
    node = ops.add(
        ops.multiply(x, constant(scale.reshape(1, 3, 1, 1), np.float32)),
        constant(shift.reshape(1, 3, 1, 1), np.float32),
    )
    node = ops.relu(convolution(node, 2, 8, 3, 2, 1, half))
    maps = [pooled(node, 2, 2)]
    maps.append(ops.relu(convolution(maps[0], 5, 6, 3, 2, 1, half)))
    heads: dict[str, list[End]] = {"loc": [], "conf": [], "prior": []}
    nodes: dict[str, list[Any]] = {"loc": [], "conf": [], "prior": []}
    for i, (feature, today) in enumerate(zip((first, second), maps, strict=True)):
        side = net.shapes[feature][2]
        for head, per in (("loc", 4), ("conf", 3)):
            count = 4 * per
            position = len(net.layers)
            made = net.convolution(feature, count, 3, 1, 1, name=f"{head} {i}")
            made = net.add("Permute", [made], (1, side, side, count), {"order": [0, 2, 3, 1]})
            heads[head].append(net.add("Flatten", [made], (1, count * side**2), {"axis": 1, "end_axis": -1}))
            node = transposed(convolution(today, position, count, 3, 1, 1, half), [0, 2, 3, 1])
            nodes[head].append(flattened(node))
        sizes = {"min_size": [6.0 + 6 * i], "max_size": [12.0 + 6 * i], "aspect_ratio": [2.0]}
        step = 32 // side
        written = {
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
        heads["prior"].append(net.add("PriorBox", [feature, image], (1, 2, 16 * side**2), written))
        node = ops.prior_box(
            constant([side, side]),
            constant([32, 32]),
            {**sizes, "flip": True, "clip": False, "variance": VARIANCE, "step": float(step), "offset": 0.5},
        )
        nodes["prior"].append(ops.unsqueeze(node, constant(0)))
    total = sum(net.shapes[end][1] for end in heads["loc"]) // 4
    ends = {
        head: net.add("Concat", found, shape, {"axis": axis})
        for (head, found), shape, axis in zip(
            heads.items(), ((1, 4 * total), (1, 3 * total), (1, 2, 4 * total)), (1, 1, 2), strict=True
        )
    }
    scores = net.add("Reshape", [ends["conf"]], (1, total, 3), {"dim": [0, -1, 3], "axis": 0, "num_axes": -1})
    scores = net.add("SoftMax", [scores], (1, total, 3), {"axis": 2})
    scores = net.add("Flatten", [scores], (1, 3 * total), {"axis": 1, "end_axis": -1})
    stated = {
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
    net.add("DetectionOutput", [ends["loc"], scores, ends["prior"]], (1, 1, 20, 7), stated, name="detection out")
    locations, conf, priors = (ops.concat(nodes[head], axis) for head, axis in (("loc", 1), ("conf", 1), ("prior", 2)))
    conf = flattened(ops.softmax(ops.reshape(conf, constant([0, -1, 3]), True), 2))
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
    model = net.check(result.outputs(), [random(1, 3, 32, 32)], [x], tmp_path)
    assert [t.any_name for t in model.outputs] == ["detection out"]


@pytest.mark.parametrize("version", [2, 5, 7])
def test_yolo(version: int, tmp_path: Path) -> None:
    """Of the second generation with ReorgYolo and softmax, of the third with Resample, a mask and two outputs."""
    net = Written(version)
    x = ops.parameter((1, 3, 16, 16), np.float32)
    image = net.input((1, 3, 16, 16), name="input_1")
    source = net.relu(net.convolution(image, 4, 3, 1, 1), 0.1)
    node = ops.prelu(convolution(x, 1, 4, 3, 1, 1), constant([0.1], np.float32))
    fine, fine_node = source, node
    source = net.relu(net.convolution(net.pooling(source, 2, 2), 4, 3, 1, 1), 0.1)
    node = ops.prelu(convolution(pooled(node, 2, 2), 4, 4, 3, 1, 1), constant([0.1], np.float32))
    if version == 2:
        passed = net.add("ReorgYolo", [fine], (1, 16, 8, 8), {"stride": 2})
        joined = net.add("Concat", [passed, source], (1, 20, 8, 8), {"axis": 1})
        region = net.convolution(joined, 14, 1)
        data = {"classes": 2, "coords": 4, "num": 2, "anchors": [1.0, 2.0, 3.0, 4.0], "do_softmax": 1}
        net.add("RegionYolo", [region], (1, 14 * 64), data, name="region")
        joined_node = ops.concat([ops.reorg_yolo(fine_node, [2]), node], 1)
        outputs = [ops.region_yolo(convolution(joined_node, 8, 14, 1), 4, 2, 2, True, [], 1, 3)]
    else:
        data = {"axis": 1, "classes": 2, "coords": 4, "do_softmax": 0, "end_axis": 3, "num": 6}
        data["anchors"] = list(range(10, 22))
        coarse = net.convolution(source, 21, 1, name="detector/yolo-v3/Conv_6/BiasAdd")
        net.add("RegionYolo", [coarse], (1, 21, 8, 8), {**data, "mask": [3, 4, 5]}, name="detector/yolo-v3/coarse")
        size = {"factor": 2.0, "height": 0, "width": 0, "antialias": 0, "type": "caffe.ResampleParameter.NEAREST"}
        grown = net.add("Resample", [source], (1, 4, 16, 16), size)
        joined = net.add("Concat", [grown, fine], (1, 8, 16, 16), {"axis": 1})
        region = net.convolution(joined, 21, 1)
        net.add("RegionYolo", [region], (1, 21, 16, 16), {**data, "mask": [0, 1, 2]}, name="detector/yolo-v3/fine")
        outputs = [ops.region_yolo(convolution(node, 6, 21, 1), 4, 2, 6, False, [3, 4, 5], 1, 3)]
        grown_node = ops.tile(ops.reshape(node, constant([1, 4, 8, 1, 8, 1]), False), constant([1, 1, 1, 2, 1, 2]))
        grown_node = ops.reshape(grown_node, constant([1, 4, 16, 16]), False)
        last = convolution(ops.concat([grown_node, fine_node], 1), 10, 21, 1)
        outputs.append(ops.region_yolo(last, 4, 2, 6, False, [0, 1, 2], 1, 3))
    model = net.check([o.output(0) for o in outputs], [random(1, 3, 16, 16)], [x], tmp_path)
    assert len(model.outputs) == len(outputs)


@pytest.mark.parametrize("version", [2, 4])
def test_cascade_of_faces(version: int, tmp_path: Path) -> None:
    """PReLU, pooling that rounds up, an InnerProduct over all places, SoftMax and a second output; mean values."""
    net = Written(version)
    x = ops.parameter((1, 3, 24, 24), np.float32)
    slopes = random(4, seed=9)
    source = net.convolution(net.input((1, 3, 24, 24), name="data"), 4, 3)
    source = net.add("PReLU", [source], (1, 4, 22, 22), {"channel_shared": 0}, {"weights": slopes})
    source = net.pooling(source, 3, 2, ceil=True)
    shape = net.shapes[source]
    assert shape == (1, 4, 11, 11)
    weights, biases = random(16, 4 * 121) * np.float32(0.1), random(16)
    source = net.add(
        "InnerProduct" if version == 2 else "FullyConnected",
        [source],
        (1, 16),
        {"out-size": 16},
        {"weights": weights, "biases": biases},
    )
    source = net.add("PReLU", [source], (1, 16), {"channel_shared": 1}, {"weights": np.float32([0.25])})
    heads = [(random(2, 16), random(2)), (random(4, 16), random(4))]
    ends = [
        net.add("FullyConnected", [source], (1, len(b)), {"out-size": len(b)}, {"weights": w, "biases": b}, name=name)
        for (w, b), name in zip(heads, ("conv5-1", "conv5-2"), strict=True)
    ]
    net.add("SoftMax", ends[:1], (1, 2), {"axis": 1}, name="prob1")
    element = etree.SubElement(net.root, "pre-process", {"reference-layer-name": "data"})
    for i, mean in enumerate((127.5, 127.5, 128.0)):
        channel = etree.SubElement(element, "channel", id=str(i))
        etree.SubElement(channel, "mean", value=str(mean))
        etree.SubElement(channel, "scale", value="127.5")
    node = ops.subtract(x, constant([[[[127.5]], [[127.5]], [[128]]]], np.float32))
    node = convolution(ops.divide(node, constant(127.5, np.float32)), 1, 4, 3)
    node = pooled(ops.prelu(node, ops.constant(slopes)), 3, 2, 0, "ceil")
    node = ops.prelu(dense(flattened(node), weights, biases), constant([0.25], np.float32))
    first, second = (dense(node, *head) for head in heads)
    model = net.check(
        [second.output(0), ops.softmax(first, 1).output(0)], [random(1, 3, 24, 24) * np.float32(100)], [x], tmp_path
    )
    assert [t.any_name for t in model.outputs] == ["conv5-2", "prob1"]


@pytest.mark.parametrize("version", [2, 3, 7])
def test_classifier_with_local_normalization(version: int, tmp_path: Path) -> None:
    """Norm, grouped convolution, average pooling with padding, Concat of branches, one file for all of GoogLeNet."""
    net = Written(version)
    x = ops.parameter((2, 3, 17, 17), np.float32)
    source = net.relu(net.convolution(net.input((2, 3, 17, 17), name="data"), 6, 5, 2, 2))
    source = net.pooling(source, 3, 2, ceil=True)
    size = "local-size" if version < 6 else "local_size"
    norm = {"alpha": 0.5, "beta": 0.75, size: 5, "region": "across", "k": 1}
    source = net.add("Norm", [source], net.shapes[source], norm)
    group = net.convolution(source, 4, 3, 1, 1, group=2)
    branch = net.pooling(source, 3, 1, 1, method="avg")
    joined = net.add("Concat", [group, branch], (2, 10, 4, 4), {"axis": 1})
    source = net.pooling(joined, 4, 1, method="avg")
    weights, biases = random(5, 10), random(5)
    blobs = {"biases": biases, "weights": weights}
    source = net.add("FullyConnected", [source], (2, 5), {"out-size": 5}, blobs)
    net.add("SoftMax", [source], (2, 5), {"axis": 1}, name="prob")
    node = ops.relu(convolution(x, 1, 6, 5, 2, 2))
    node = ops.lrn(pooled(node, 3, 2, 0, "ceil"), constant([1]), 0.5, 0.75, 1.0, 5)
    split = ops.constant(random(4, 3, 3, 3, seed=5).reshape(2, 2, 3, 3, 3) / np.float32(3))
    grouped = ops.group_convolution(node, split, [1, 1], [1, 1], [1, 1], [1, 1])
    grouped = ops.add(grouped, ops.constant(random(4, seed=5).reshape(1, 4, 1, 1)))
    node = ops.concat([grouped, pooled(node, 3, 1, 1, method="avg")], 1)
    node = dense(flattened(pooled(node, 4, 1, method="avg")), weights, biases)
    net.check([ops.softmax(node, 1).output(0)], [random(2, 3, 17, 17)], [x], tmp_path)


@pytest.mark.parametrize("version", [3, 6])
def test_segmentation(version: int, tmp_path: Path) -> None:
    """A grouped Deconvolution, Interp with and without aligned corners, an Eltwise sum with Crop, ArgMax."""
    net = Written(version)
    x = ops.parameter((1, 3, 16, 16), np.float32)
    image = net.input((1, 3, 16, 16), name="data")
    source = net.convolution(image, 4, 3, 2, 1)
    weights = random(4, 1, 4, 4, seed=1)
    data = {**net.window(4, 2, 1), "output": 4, "group": 4, "dilations": [1, 1]}
    large = net.add("Deconvolution", [source], (1, 4, 16, 16), data, {"weights": weights})
    size = {"height": 18, "width": 18, "zoom_factor": 1, "shrink_factor": 1, "pad_beg": 0, "pad_end": 0}
    if version == 6:
        size["align_corners"] = 0
    other = net.add("Interp", [source], (1, 4, 18, 18), size)
    cut = net.add("Crop", [other, large], (1, 4, 16, 16), {"axis": [2, 3], "offset": [1, 1]})
    added = net.add("Eltwise", [large, cut], (1, 4, 16, 16), {"operation": "sum", "coeff": [1.0, 0.5]})
    net.add("ArgMax", [added], (1, 1, 16, 16), {"out_max_val": 0, "top_k": 1, "axis": 1}, name="labels")
    node = convolution(x, 1, 4, 3, 2, 1)
    grown = ops.group_convolution_backprop_data(
        node, ops.constant(weights.reshape(4, 1, 1, 4, 4)), [2, 2], pads_begin=[1, 1], pads_end=[1, 1]
    )
    mode = "asymmetric" if version == 6 else "align_corners"
    resized = ops.interpolate(
        node, constant([18, 18]), "linear_onnx", "sizes", coordinate_transformation_mode=mode, axes=constant([2, 3])
    )
    cropped = ops.slice(resized, constant([1, 1]), constant([17, 17]), constant([1, 1]), constant([2, 3]))
    total = ops.add(grown, ops.multiply(cropped, constant(0.5, np.float32)))
    labels = ops.topk(total, constant(1), 1, "max", "value", "i32").output(1)
    net.check([ops.convert(labels, "f32").output(0)], [random(1, 3, 16, 16)], [x], tmp_path)


@pytest.mark.parametrize("version", [2, 7])
def test_two_tasks_of_one_trunk(version: int, tmp_path: Path) -> None:
    """Age and gender: two ends of one trunk with a Power, BatchNormalization and ScaleShift."""
    net = Written(version, "FP16" if version == 7 else "FP32")
    half = version == 7

    def stored(array: Array) -> Array:
        return array.astype(np.float16).astype(np.float32) if half else array

    x = ops.parameter((1, 3, 12, 12), np.float32)
    source = net.convolution(net.input((1, 3, 12, 12), name="data"), 4, 3, 1)
    mean, variance = random(4, seed=5), np.abs(random(4, seed=6)) + np.float32(0.5)
    source = net.add(
        "BatchNormalization",
        [source],
        net.shapes[source],
        {"epsilon": 0.001},
        {"weights": variance, "biases": mean},
    )
    scale, shift = random(4, seed=7), random(4, seed=8)
    source = net.add("ScaleShift", [source], net.shapes[source], None, {"weights": scale, "biases": shift})
    source = net.relu(source)
    age = net.convolution(source, 1, 10)
    net.add("Power", [age], (1, 1, 1, 1), {"power": 1, "scale": 0.01, "shift": 0.5}, name="age_conv3")
    gender = net.convolution(source, 2, 10)
    net.add("SoftMax", [gender], (1, 2, 1, 1), {"axis": 1}, name="prob")
    per = (1, 4, 1, 1)
    node = convolution(x, 1, 4, 3, half=half)
    node = ops.divide(
        ops.subtract(node, ops.constant(stored(mean).reshape(per))),
        ops.constant(np.sqrt(stored(variance) + np.float32(0.001)).reshape(per)),
    )
    node = ops.multiply(node, ops.constant(stored(scale).reshape(per)))
    node = ops.relu(ops.add(node, ops.constant(stored(shift).reshape(per))))
    first = ops.add(
        ops.multiply(convolution(node, 5, 1, 10, half=half), constant(0.01, np.float32)), constant(0.5, np.float32)
    )
    second = ops.softmax(convolution(node, 7, 2, 10, half=half), 1)
    model = net.check([first.output(0), second.output(0)], [random(1, 3, 12, 12)], [x], tmp_path)
    assert [t.any_name for t in model.outputs] == ["age_conv3", "prob"]
    assert {str(t.element_type) for t in (*model.inputs, *model.outputs)} == {"f32"}


@pytest.mark.parametrize("version", [2, 5, 7])
def test_regions_and_their_classes(version: int, tmp_path: Path) -> None:
    """Faster R-CNN and R-FCN: Proposal (SimplerNMS in IR v2), ROIPooling or PSROIPooling, two ends."""
    net = Written(version)
    x, info = ops.parameter((1, 3, 32, 32), np.float32), ops.parameter((1, 3), np.float32)
    image, sizes = net.input((1, 3, 32, 32), name="data"), net.input((1, 3), name="im_info")
    trunk = net.relu(net.convolution(image, 8, 3, 2, 1))
    half_way = net.pooling(net.pooling(trunk, 2, 2), 2, 2)
    node = ops.relu(convolution(x, 2, 8, 3, 2, 1))
    small = pooled(pooled(node, 2, 2), 2, 2)
    at = len(net.layers)
    scores, deltas = net.convolution(half_way, 18, 1), net.convolution(half_way, 36, 1)
    shaped = net.add("Reshape", [scores], (1, 2, 36, 4), {"dim": [0, 2, -1, 0], "axis": 0, "num_axes": -1})
    shaped = net.add("SoftMax", [shaped], (1, 2, 36, 4), {"axis": 1})
    shaped = net.add("Reshape", [shaped], (1, 18, 4, 4), {"dim": [0, 18, -1, 0], "axis": 0, "num_axes": -1})
    scored = ops.softmax(ops.reshape(convolution(small, at, 18, 1), constant([0, 2, -1, 0]), True), 1)
    scored = ops.reshape(scored, constant([0, 18, -1, 0]), True)
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
    flat = ops.reshape(info, constant([-1]), False)
    found = ops.proposal(scored, convolution(small, at + 1, 36, 1), flat, exact).output(0)
    if version == 5:
        data = {"output_dim": 2, "group_size": 2, "spatial_scale": 0.5, "trans_std": 0, "no_trans": 1, "part_size": 2}
        regions = net.add("PSROIPooling", [trunk, rois], (6, 2, 2, 2), data)
        cut = ops.psroi_pooling(node, found, 2, 2, 0.5, 1, 1, "average")
        features = 8
    else:
        data = {"pooled_h": 2, "pooled_w": 2, "spatial_scale": 0.5}
        data |= {"method": "max"} if version == 7 else {}
        regions = net.add("ROIPooling", [trunk, rois], (6, 8, 2, 2), data)
        cut = ops.roi_pooling(node, found, [2, 2], 0.5, "max")
        features = 32
    w, b = random(3, features), random(3)
    classes = net.add("FullyConnected", [regions], (6, 3), {"out-size": 3}, {"weights": w, "biases": b})
    net.add("SoftMax", [classes], (6, 3), {"axis": 1}, name="cls_prob")
    boxes, shift = random(12, features, seed=1), random(12, seed=1)
    net.add(
        "FullyConnected", [regions], (6, 12), {"out-size": 12}, {"weights": boxes, "biases": shift}, name="bbox_pred"
    )
    outputs = [ops.softmax(dense(flattened(cut), w, b), 1).output(0), dense(flattened(cut), boxes, shift).output(0)]
    model = net.check(outputs, [random(1, 3, 32, 32), np.float32([[32, 32, 1]])], [x, info], tmp_path)
    assert [t.any_name for t in (*model.inputs, *model.outputs)] == ["data", "im_info", "cls_prob", "bbox_pred"]


@pytest.mark.parametrize("version", [4, 6, 7])
def test_text_recognition(version: int, tmp_path: Path) -> None:
    """Loops over an LSTMCell in both directions, joined; decoded with a mask that starts with 0, as Caffe has it."""
    steps, features, hidden = 5, 6, 4
    net = Written(version)
    x = ops.parameter((1, 3, 8, 10), np.float32)
    source = net.relu(net.convolution(net.input((1, 3, 8, 10), name="input"), features, 8, 1, 0))
    source = net.add("Pooling", [source], (1, features, 1, 3), {**net.window(1), "pool-method": "max"})
    steps = 3
    source = net.add("Reshape", [source], (1, features, steps), {"dim": [0, features, steps]})
    source = net.add("Permute", [source], (1, steps, features), {"order": [0, 2, 1]})
    node = ops.relu(convolution(x, 1, features, 8))
    node = transposed(ops.reshape(node, constant([1, features, steps]), False), [0, 2, 1])
    ends, nodes = [], []
    zero = net.const(np.zeros((1, hidden), np.float32))
    for backward in (False, True):
        blobs = {
            "weights": random(4 * hidden, features + hidden, seed=backward) * np.float32(0.5),
            "biases": random(4 * hidden, seed=2 + backward),
        }
        id = net.layer("TensorIterator", [source, zero, zero], [(1, steps, hidden)], name=f"lstm {backward}")
        net.layers[id].attrib.pop("precision") if version == 7 else None
        body = Written(version, root=etree.SubElement(net.layers[id], "body"), weights=net.weights)
        # Body layers are numbered with gaps, ports of open inputs from 0.
        squeeze = body.layer("Reshape", [[1, 1, features]], [(1, features)], {"dim": [-1, features]}, name="squeeze")
        cell = body.layer(
            "LSTMCell",
            [(squeeze, 1), [1, hidden], [1, hidden]],
            [(1, hidden), (1, hidden)],
            {"hidden_size": hidden},
            blobs,
            name="cell",
        )
        unsqueeze = body.layer("Reshape", [(cell, 3)], [(1, 1, hidden)], {"dim": [-1, 1, hidden]}, name="unsqueeze")
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
        ends.append((id, 3))
        state = constant(np.zeros((1, 1, hidden)), np.float32)
        parts = [blobs["weights"][:, :features], blobs["weights"][:, features:], blobs["biases"]]
        made = ops.lstm_sequence(
            node,
            state,
            state,
            constant([steps]),
            *(ops.constant(np.ascontiguousarray(p)[None]) for p in parts),
            hidden,
            "reverse" if backward else "forward",
        )
        nodes.append(ops.squeeze(made.output(0), constant(1)))
    joined = net.add("Concat", ends, (1, steps, 2 * hidden), {"axis": 2})
    joined = net.add("Permute", [joined], (steps, 1, 2 * hidden), {"order": [1, 0, 2]})
    flat = net.add("Reshape", [joined], (steps, 2 * hidden), {"dim": [-1, 2 * hidden]})
    w, b = random(5, 2 * hidden), random(5)
    flat = net.add("FullyConnected", [flat], (steps, 5), {"out-size": 5}, {"weights": w, "biases": b})
    logits = net.add("Reshape", [flat], (steps, 1, 5), {"dim": [steps, 1, 5]})
    logits = net.add("SoftMax", [logits], (steps, 1, 5), {"axis": 2})
    mask = net.const(np.float32([[0], [1], [1]]))
    net.add("CTCGreedyDecoder", [logits, mask], (1, steps, 1, 1), {"ctc_merge_repeated": 1}, name="decoded")
    node = transposed(ops.concat(nodes, 2), [1, 0, 2])
    node = dense(ops.reshape(node, constant([-1, 2 * hidden]), False), w, b)
    node = ops.softmax(ops.reshape(node, constant([steps, 1, 5]), False), 2)
    decoded = ops.ctc_greedy_decoder(node, constant(np.ones((steps, 1)), np.float32), True)
    for seed in range(3):
        net.check([decoded.output(0)], [random(1, 3, 8, 10, seed=seed)], [x], tmp_path)


def test_region_based_detector(tmp_path: Path) -> None:
    """The end of R-FCN as it was published: regions as priors of five numbers, boxes by class, sizes in pixels."""
    count = 12
    net = Written(4)
    shapes = {
        "cls": (1, 12, 6, 8),
        "box": (1, 24, 6, 8),
        "info": (1, 6),
        "box_maps": (1, 72, 6, 8),
        "maps": (1, 18, 6, 8),
    }
    ends = [net.input(shape, name=name) for name, shape in shapes.items()]
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
    rois = net.add("Proposal", ends[:3], (count, 5), data)
    exact = {k: np.uint64(v) if isinstance(v, int) else np.float64(v) for k, v in data.items()}
    exact |= {"ratio": np.float64([2.669]), "clip_before_nms": True, "clip_after_nms": False, "normalize": False}
    sizes = ops.reshape(
        ops.slice(x[2], constant([0]), constant([3]), constant([1]), constant([1])), constant([3]), False
    )
    found = ops.proposal(x[0], x[1], sizes, {**exact, "framework": ""}).output(0)
    heads, nodes = [], []
    target = net.const(np.float32([1, -1]))
    for maps, node, outputs in ((ends[3], x[3], 8), (ends[4], x[4], 2)):
        data = {"group_size": 3, "mode": "average", "output_dim": outputs, "spatial_scale": 0.0625}
        head = net.add("PSROIPooling", [maps, rois], (count, outputs, 3, 3), data)
        head = net.pooling(head, 3, 3, method="avg", ceil=True)
        today = ops.avg_pool(
            ops.psroi_pooling(node, found, outputs, 3, 0.0625, 1, 1, "average"), [3, 3], [0, 0], [0, 0], [3, 3], False
        )
        if outputs == 2:
            head = net.add("SoftMax", [head], (count, 2, 1, 1), {"axis": 1})
            today = ops.softmax(today, 1)
        heads.append(net.add("Reshape", [head, target], (1, count * outputs), {"axis": 0, "num_axes": -1}))
        nodes.append(ops.reshape(today, constant([1, -1]), False))
    heads.append(net.add("Reshape", [rois, net.const(np.float32([1, 1, -1]))], (1, 1, 5 * count), {"axis": 0}))
    nodes.append(ops.reshape(found, constant([1, 1, -1]), False))
    stated = {"background_label_id": 0, "code_type": "caffe.PriorBoxParameter.CENTER_SIZE", "top_k": 12000}
    stated |= {"input_height": 96, "input_width": 128, "num_classes": 2, "nms_threshold": 0.4}
    flags = {"normalized": False, "share_location": False, "variance_encoded_in_target": True}
    net.add("DetectionOutput", heads, (1, 1, count, 7), {**stated, **flags, "keep_top_k": count, "visualize": "False"})
    attributes = {**stated, **flags, "keep_top_k": [count], "confidence_threshold": -3.4028234663852886e38}
    scores = np.abs(random(1, 12, 6, 8)) / np.float32(4)
    fed = [scores, random(1, 24, 6, 8) * np.float32(0.1), np.float32([[96, 128, 1, 1, 1, 1]])]
    fed += [random(1, 72, 6, 8), random(1, 18, 6, 8)]
    net.check(ops.detection_output(*nodes, attributes).outputs(), fed, x, tmp_path)
