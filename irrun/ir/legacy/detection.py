"""Detection: priors, proposals, regions of interest, selection of boxes."""

from __future__ import annotations

import math
from collections.abc import Sequence

from irrun.ir.legacy.builder import Builder, converts
from irrun.ir.legacy.layer import F32, I32, I64, LegacyLayer, Value

__all__: list[str] = []

LOWEST = -3.4028234663852886e38


def _priors(
    builder: Builder, layer: LegacyLayer, type: str, attributes: dict[str, object], image: Sequence[int]
) -> Value:
    """Priors from the sizes of the feature map and the image, which old layers took from shapes."""
    grid = layer.in_shape(0)[-2:]
    inputs = [builder.constant(list(grid), name="grid"), builder.constant(list(image), name="image")]
    made = math.prod(layer.out_shape()) // 2
    value = builder.op(type, inputs, attributes, shape=(2, made), element=F32)
    return builder.reshape(value, layer.out_shape())


@converts("PriorBox")
def prior_box(builder: Builder, layer: LegacyLayer) -> Value:
    """Sizes in pixels, also without `scale_all_sizes`, where those of today are parts of the image's height.

    Its kernels went by `step` alone and heeded neither `step_h` and `step_w` nor `img_size`.
    """
    step = layer.number("step", default=0.0)
    attributes: dict[str, object] = {
        "offset": layer.number("offset", default=0.5),
        "step": step,
        "flip": layer.flag("flip"),
        "clip": layer.flag("clip"),
        "scale_all_sizes": layer.flag("scale_all_sizes", default=True),
        "variance": layer.numbers("variance", default=[]) or [0.1],
    }
    for name in ("min_size", "max_size", "aspect_ratio", "density", "fixed_ratio", "fixed_size"):
        attributes[name] = layer.numbers(name, default=[])
    image = layer.in_shape(1)[-2:]
    if not attributes["scale_all_sizes"]:
        height = max(image[0], 1)
        attributes |= {"step": step / height, "min_size": [n / height for n in layer.numbers("min_size", default=[])]}
    return _priors(builder, layer, "PriorBox", attributes, image)


@converts("PriorBoxClustered")
def prior_box_clustered(builder: Builder, layer: LegacyLayer) -> Value:
    step = layer.number("step", default=0.0)
    attributes: dict[str, object] = {
        "offset": layer.number("offset", default=0.5),
        "step": step,
        "step_w": layer.number("step_w", default=0.0) or step,
        "step_h": layer.number("step_h", default=0.0) or step,
        "clip": layer.flag("clip"),
        "variance": layer.numbers("variance", default=[]) or [0.1],
        "width": layer.numbers("width"),
        "height": layer.numbers("height"),
    }
    # Unlike those of PriorBox, its kernel heeded these attributes.
    height, width = layer.in_shape(1)[-2:]
    image = (layer.integer("img_h", default=0) or height, layer.integer("img_w", default=0) or width)
    return _priors(builder, layer, "PriorBoxClustered", attributes, image)


@converts("DetectionOutput")
def detection_output(builder: Builder, layer: LegacyLayer) -> Value:
    attributes: dict[str, object] = {
        "num_classes": layer.integer("num_classes"),
        "background_label_id": layer.integer("background_label_id", default=0),
        "top_k": layer.integer("top_k", default=-1),
        "keep_top_k": layer.integers("keep_top_k", default=[-1]),
        "nms_threshold": layer.number("nms_threshold"),
        "confidence_threshold": layer.number("confidence_threshold", default=LOWEST),
        "code_type": _code_type(layer),
        "variance_encoded_in_target": layer.flag("variance_encoded_in_target"),
        "share_location": layer.flag("share_location", default=True),
        "clip_before_nms": layer.flag("clip_before_nms") or layer.flag("clip"),
        "clip_after_nms": layer.flag("clip_after_nms"),
        "decrease_label_id": layer.flag("decrease_label_id"),
        "normalized": layer.flag("normalized", default=True),
        # Files of Caffe models say -1 where the sizes are not used.
        "input_height": max(layer.integer("input_height", default=1), 1),
        "input_width": max(layer.integer("input_width", default=1), 1),
        "objectness_score": layer.number("objectness_score", default=0.0),
    }
    inputs = []
    for i in range(len(layer.inputs)):
        value, shape = builder.floating(layer.input(i)), layer.in_shape(i)
        rank = 3 if i == 2 else 2
        if len(shape) > rank:
            value = builder.reshape(value, (*shape[: rank - 1], math.prod(shape[rank - 1 :])))
        inputs.append(value)
    return builder.op("DetectionOutput", inputs, attributes, shape=layer.out_shape())


def _code_type(layer: LegacyLayer) -> str:
    stated = layer.text("code_type", default="caffe.PriorBoxParameter.CORNER")
    kinds = {name.lower(): name for name in ("CORNER", "CENTER_SIZE")}
    kind = stated.rpartition(".")[2].lower()
    if kind not in kinds:
        raise layer.error(f"code_type={stated!r}, expected one of caffe.PriorBoxParameter.CORNER, .CENTER_SIZE")
    return f"caffe.PriorBoxParameter.{kinds[kind]}"


@converts("RegionYolo")
def region_yolo(builder: Builder, layer: LegacyLayer) -> Value:
    softmax = layer.flag("do_softmax", default=True)
    attributes = {
        "axis": layer.integer("axis", default=1),
        "end_axis": layer.integer("end_axis", default=3),
        "coords": layer.integer("coords"),
        "classes": layer.integer("classes"),
        "num": layer.integer("num"),
        "do_softmax": softmax,
        "mask": layer.integers("mask", default=[]),
        "anchors": layer.numbers("anchors", default=[]),
    }
    value = builder.floating(layer.input(0))
    shape = layer.in_shape()
    if softmax:
        made: Sequence[int] = (shape[0], math.prod(shape[1:]))
    else:
        per_box = layer.integer("coords") + layer.integer("classes") + 1
        made = (shape[0], len(layer.integers("mask", default=[])) * per_box, *shape[2:])
    value = builder.op("RegionYolo", [value], attributes, shape=made)
    return builder.reshape(value, layer.out_shape())


@converts("ReorgYolo")
def reorg_yolo(builder: Builder, layer: LegacyLayer) -> Value:
    attributes = {"stride": [layer.integer("stride")]}
    return builder.op("ReorgYolo", [layer.input(0)], attributes, shape=layer.out_shape(), version="opset2")


@converts("Proposal")
def proposal(builder: Builder, layer: LegacyLayer) -> Sequence[Value]:
    """Regions, and their probabilities where there is a second output."""
    attributes: dict[str, object] = {
        "base_size": layer.integer("base_size"),
        "pre_nms_topn": layer.integer("pre_nms_topn"),
        "post_nms_topn": layer.integer("post_nms_topn"),
        "nms_thresh": layer.number("nms_thresh"),
        "feat_stride": layer.integer("feat_stride"),
        "min_size": layer.integer("min_size"),
        "ratio": layer.numbers("ratio"),
        "scale": layer.numbers("scale"),
        "clip_before_nms": layer.flag("clip_before_nms", default=True),
        "clip_after_nms": layer.flag("clip_after_nms"),
        "normalize": layer.flag("normalize"),
        "box_size_scale": layer.number("box_size_scale", default=1.0),
        "box_coordinate_scale": layer.number("box_coordinate_scale", default=1.0),
        "framework": layer.text("framework", default=""),
    }
    scores, deltas, info = (builder.floating(layer.input(i)) for i in range(3))
    count = math.prod(layer.in_shape(2))
    info = builder.reshape(info, (count,))
    if count > 4:
        info = builder.slice(info, [0], [0], [3])
    inputs = [scores, deltas, info]
    if len(layer.outputs) == 1:
        return [builder.op("Proposal", inputs, attributes, shape=layer.out_shape())]
    outputs = [(F32, layer.out_shape(0)), (F32, layer.out_shape(1))]
    made = builder.layer("Proposal", inputs, outputs, attributes, version="opset4")
    return [Value(made, port) for port in made.outputs]


@converts("SimplerNMS")
def simpler_nms(builder: Builder, layer: LegacyLayer) -> Value:
    """A Proposal with base size 16 and three ratios; its score and box inputs may come in either order."""
    scores, deltas, info = (builder.floating(layer.input(i)) for i in range(3))
    if layer.in_shape(0)[1] > layer.in_shape(1)[1]:
        scores, deltas = deltas, scores
    attributes: dict[str, object] = {
        "base_size": 16,
        "ratio": [0.5, 1.0, 2.0],
        "scale": layer.numbers("scale"),
        "min_size": layer.integer("min_bbox_size"),
        "feat_stride": layer.integer("feat_stride"),
        "pre_nms_topn": layer.integer("pre_nms_topn"),
        "post_nms_topn": layer.integer("post_nms_topn"),
        "nms_thresh": layer.number("iou_threshold"),
    }
    info = builder.reshape(info, (math.prod(layer.in_shape(2)),))
    return builder.op("Proposal", [scores, deltas, info], attributes, shape=layer.out_shape())


@converts("PSROIPooling")
def psroi_pooling(builder: Builder, layer: LegacyLayer) -> Value:
    """With offsets as third input, or the mode "bilinear_deformable", the deformable one."""
    inputs = [builder.floating(v) for v in layer.inputs]
    mode = layer.text("mode", default="average")
    attributes: dict[str, object] = {
        "output_dim": layer.integer("output_dim"),
        "group_size": layer.integer("group_size", default=1),
        "spatial_scale": layer.number("spatial_scale"),
        "mode": mode,
        "spatial_bins_x": layer.integer("spatial_bins_x", default=1),
        "spatial_bins_y": layer.integer("spatial_bins_y", default=1),
    }
    if mode != "bilinear_deformable" and len(inputs) == 2:
        return builder.op("PSROIPooling", inputs, attributes, shape=layer.out_shape())
    attributes |= {
        "mode": "bilinear_deformable",
        "trans_std": layer.number("trans_std", default=1.0),
        "part_size": layer.integer("part_size", default=1),
    }
    if layer.flag("no_trans"):
        inputs = inputs[:2]
    return builder.op("DeformablePSROIPooling", inputs, attributes, shape=layer.out_shape())


@converts("ROIPooling")
def roi_pooling(builder: Builder, layer: LegacyLayer) -> Value:
    attributes: dict[str, object] = {
        "pooled_h": layer.integer("pooled_h"),
        "pooled_w": layer.integer("pooled_w"),
        "spatial_scale": layer.number("spatial_scale"),
        "method": layer.text("method", default="max").lower(),
    }
    data, rois = (builder.floating(layer.input(i)) for i in (0, 1))
    shape = layer.in_shape(1)
    if len(shape) > 2:
        rois = builder.reshape(rois, (math.prod(shape[:-1]), shape[-1]))
    return builder.op("ROIPooling", [data, rois], attributes, shape=layer.out_shape(), version="opset2")


@converts("NonMaxSuppression")
def non_max_suppression(builder: Builder, layer: LegacyLayer) -> Value:
    """As many rows as the output declares; those behind the last box are -1."""
    boxes, scores = builder.floating(layer.input(0)), builder.floating(layer.input(1))
    inputs = [boxes, scores]
    # Without these inputs all boxes may be selected, and only what no other box covers is left out.
    for i, (name, default) in enumerate((("count", layer.in_shape()[1]), ("overlap", 1.0), ("score", 0.0))):
        kind = I64 if i == 0 else F32
        if i + 2 >= len(layer.inputs):
            inputs.append(builder.constant(default, kind, name))
        else:
            scalar = builder.scalar(layer.inputs[i + 2])
            inputs.append(builder.integral(scalar) if i == 0 else builder.floating(scalar))
    element = I64 if layer.out_type().name == "i64" else I32
    attributes = {
        "box_encoding": "center" if layer.flag("center_point_box") else "corner",
        "sort_result_descending": layer.flag("sort_result_descending", default=True),
        "output_type": element.name,
    }
    rows = layer.out_shape()[0]
    found = builder.op("NonMaxSuppression", inputs, attributes, element=element, version="opset3")
    padded = builder.concat([found, builder.filled(-1, (rows, 3), element)], 0)
    return builder.slice(padded, [0], [0], [rows])


@converts("CTCGreedyDecoder")
def ctc_greedy_decoder(builder: Builder, layer: LegacyLayer) -> Value:
    """Without a mask as second input all steps count; the first one does in any case.

    Masks of Caffe, which the old kernels took, are 0 where a sequence begins: it ends before the next 0.
    """
    logits = builder.floating(layer.input(0))
    steps, batch = layer.in_shape()[:2]
    if len(layer.inputs) > 1:
        mask = builder.reshape(builder.convert(layer.inputs[1], logits.type or F32), (steps, batch))
        first = builder.constant([[1.0], *[[0.0]] * (steps - 1)], F32, "first")
        mask = builder.binary("Maximum", mask, first)
    else:
        mask = builder.filled(1, (steps, batch))
    attributes = {"ctc_merge_repeated": layer.flag("ctc_merge_repeated", default=True)}
    value = builder.op("CTCGreedyDecoder", [logits, mask], attributes)
    return builder.reshape(value, layer.out_shape())


#: Layers of IR v7 that opset6 holds as they were: type -> its attributes by kind.
_DETECTRON = {
    "ExperimentalDetectronDetectionOutput": {
        "class_agnostic_box_regression": "flag",
        "deltas_weights": "numbers",
        "max_delta_log_wh": "number",
        "max_detections_per_image": "integer",
        "nms_threshold": "number",
        "num_classes": "integer",
        "post_nms_count": "integer",
        "score_threshold": "number",
    },
    "ExperimentalDetectronGenerateProposalsSingleImage": {
        "min_size": "number",
        "nms_threshold": "number",
        "post_nms_count": "integer",
        "pre_nms_count": "integer",
    },
    "ExperimentalDetectronPriorGridGenerator": {
        "flatten": "flag",
        "h": "integer",
        "w": "integer",
        "stride_x": "number",
        "stride_y": "number",
    },
    "ExperimentalDetectronROIFeatureExtractor": {
        "output_size": "integer",
        "pyramid_scales": "integers",
        "sampling_ratio": "integer",
        "aligned": "flag",
    },
    "ExperimentalDetectronTopKROIs": {"max_rois": "integer"},
}

_OUTPUTS = {
    "ExperimentalDetectronDetectionOutput": (F32, I32, F32),
    "ExperimentalDetectronGenerateProposalsSingleImage": (F32, F32),
    "ExperimentalDetectronROIFeatureExtractor": (F32, F32),
}


@converts(*_DETECTRON)
def detectron(builder: Builder, layer: LegacyLayer) -> Sequence[Value]:
    kinds = _DETECTRON[layer.kind]
    attributes = {name: getattr(layer, kind)(name) for name, kind in kinds.items() if layer.has(name)}
    shapes = [d.shape for d in layer.outputs]
    types = _OUTPUTS.get(layer.kind, (F32,))
    outputs = [(type, shapes[i] if i < len(shapes) else None) for i, type in enumerate(types)]
    inputs = [builder.floating(v) for v in layer.inputs]
    for kind, position, shape in (("GenerateProposalsSingleImage", 0, (3,)), ("DetectionOutput", 3, (1, 3))):
        if layer.kind.endswith(kind):  # height, width and scale of the image
            inputs[position] = builder.reshape(inputs[position], shape)
    made = builder.layer(layer.kind, inputs, outputs, attributes, version="opset6")
    return [Value(made, port) for port in made.outputs]
