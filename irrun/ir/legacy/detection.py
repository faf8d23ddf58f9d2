"""Detection: priors, proposals, regions of interest, selection of boxes."""

from __future__ import annotations

import math
from collections.abc import Sequence

from irrun.ir.legacy.builder import Builder, converts
from irrun.ir.legacy.layer import F32, I32, I64, LegacyLayer, Value

__all__: list[str] = []

_LOWEST_FLOAT = -3.4028234663852886e38


def _add_priors(
    builder: Builder, layer: LegacyLayer, operation: str, attributes: dict[str, object], image_size: Sequence[int]
) -> Value:
    """Add an operation that takes as inputs the sizes of the feature map and the image, which used to be implied."""
    grid_size = layer.in_shape(0)[-2:]
    inputs = [builder.constant(list(grid_size), name="grid"), builder.constant(list(image_size), name="image")]
    count = math.prod(layer.out_shape()) // 2
    value = builder.op(operation, inputs, attributes, shape=(2, count), element=F32)
    return builder.reshape(value, layer.out_shape())


@converts("PriorBox")
def convert_prior_box(builder: Builder, layer: LegacyLayer) -> Value:
    """Convert to PriorBox.

    Sizes are in pixels even without `scale_all_sizes`, whereas PriorBox then expects fractions of the image height.
    Legacy kernels used `step` alone and ignored `step_h`, `step_w` and `img_size`.
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
    image_size = layer.in_shape(1)[-2:]
    if not attributes["scale_all_sizes"]:
        height = max(image_size[0], 1)
        attributes |= {"step": step / height, "min_size": [n / height for n in layer.numbers("min_size", default=[])]}
    return _add_priors(builder, layer, "PriorBox", attributes, image_size)


@converts("PriorBoxClustered")
def convert_prior_box_clustered(builder: Builder, layer: LegacyLayer) -> Value:
    """Convert to PriorBoxClustered.

    Unlike those of PriorBox, its legacy kernels used `step_h`, `step_w`, `img_h` and `img_w`.
    """
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
    height, width = layer.in_shape(1)[-2:]
    image_size = (layer.integer("img_h", default=0) or height, layer.integer("img_w", default=0) or width)
    return _add_priors(builder, layer, "PriorBoxClustered", attributes, image_size)


@converts("DetectionOutput")
def convert_detection_output(builder: Builder, layer: LegacyLayer) -> Value:
    """Convert to DetectionOutput."""
    attributes: dict[str, object] = {
        "num_classes": layer.integer("num_classes"),
        "background_label_id": layer.integer("background_label_id", default=0),
        "top_k": layer.integer("top_k", default=-1),
        "keep_top_k": layer.integers("keep_top_k", default=[-1]),
        "nms_threshold": layer.number("nms_threshold"),
        "confidence_threshold": layer.number("confidence_threshold", default=_LOWEST_FLOAT),
        "code_type": _read_code_type(layer),
        "variance_encoded_in_target": layer.flag("variance_encoded_in_target"),
        "share_location": layer.flag("share_location", default=True),
        "clip_before_nms": layer.flag("clip_before_nms") or layer.flag("clip"),
        "clip_after_nms": layer.flag("clip_after_nms"),
        "decrease_label_id": layer.flag("decrease_label_id"),
        "normalized": layer.flag("normalized", default=True),
        # Files converted from Caffe state -1 where the sizes are not used.
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


def _read_code_type(layer: LegacyLayer) -> str:
    stated = layer.text("code_type", default="caffe.PriorBoxParameter.CORNER")
    code = stated.rpartition(".")[2].upper()
    if code not in ("CORNER", "CENTER_SIZE"):
        raise layer.error(f"code_type is {stated!r}, expected caffe.PriorBoxParameter.CORNER or .CENTER_SIZE")
    return f"caffe.PriorBoxParameter.{code}"


@converts("RegionYolo")
def convert_region_yolo(builder: Builder, layer: LegacyLayer) -> Value:
    """Convert to RegionYolo."""
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
    in_shape = layer.in_shape()
    if softmax:
        shape: Sequence[int] = (in_shape[0], math.prod(in_shape[1:]))
    else:
        channels_per_box = layer.integer("coords") + layer.integer("classes") + 1
        shape = (in_shape[0], len(layer.integers("mask", default=[])) * channels_per_box, *in_shape[2:])
    value = builder.op("RegionYolo", [value], attributes, shape=shape)
    return builder.reshape(value, layer.out_shape())


@converts("ReorgYolo")
def convert_reorg_yolo(builder: Builder, layer: LegacyLayer) -> Value:
    """Convert to ReorgYolo."""
    attributes = {"stride": [layer.integer("stride")]}
    return builder.op("ReorgYolo", [layer.input(0)], attributes, shape=layer.out_shape(), version="opset2")


@converts("Proposal")
def convert_proposal(builder: Builder, layer: LegacyLayer) -> Sequence[Value]:
    """Convert to Proposal-1, or to Proposal-4 if a second output holds probabilities."""
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
    scores, deltas, image_info = (builder.floating(layer.input(i)) for i in range(3))
    count = math.prod(layer.in_shape(2))
    image_info = builder.reshape(image_info, (count,))
    if count > 4:
        image_info = builder.slice(image_info, [0], [0], [3])
    inputs = [scores, deltas, image_info]
    if len(layer.outputs) == 1:
        return [builder.op("Proposal", inputs, attributes, shape=layer.out_shape())]
    outputs = [(F32, layer.out_shape(0)), (F32, layer.out_shape(1))]
    proposal = builder.layer("Proposal", inputs, outputs, attributes, version="opset4")
    return [Value(proposal, port) for port in proposal.outputs]


@converts("SimplerNMS")
def convert_simpler_nms(builder: Builder, layer: LegacyLayer) -> Value:
    """Convert to a Proposal of base size 16 and three ratios. The inputs for scores and boxes come in either order."""
    scores, deltas, image_info = (builder.floating(layer.input(i)) for i in range(3))
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
    image_info = builder.reshape(image_info, (math.prod(layer.in_shape(2)),))
    return builder.op("Proposal", [scores, deltas, image_info], attributes, shape=layer.out_shape())


@converts("PSROIPooling")
def convert_psroi_pooling(builder: Builder, layer: LegacyLayer) -> Value:
    """Convert to PSROIPooling.

    With offsets as the third input, or with the mode "bilinear_deformable", convert to DeformablePSROIPooling.
    """
    inputs = [builder.floating(value) for value in layer.inputs]
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
def convert_roi_pooling(builder: Builder, layer: LegacyLayer) -> Value:
    """Convert to ROIPooling."""
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
def convert_non_max_suppression(builder: Builder, layer: LegacyLayer) -> Value:
    """Convert to NonMaxSuppression, padded with rows of -1 to the number of rows that the output declares."""
    boxes, scores = builder.floating(layer.input(0)), builder.floating(layer.input(1))
    inputs = [boxes, scores]
    # Without these inputs all boxes may be selected, except those that another box covers entirely.
    for i, (name, default) in enumerate((("count", layer.in_shape()[1]), ("overlap", 1.0), ("score", 0.0))):
        if i + 2 >= len(layer.inputs):
            inputs.append(builder.constant(default, I64 if i == 0 else F32, name))
        else:
            scalar = builder.scalar(layer.inputs[i + 2])
            inputs.append(builder.integral(scalar) if i == 0 else builder.floating(scalar))
    element = I64 if layer.out_type().name == "i64" else I32
    attributes = {
        "box_encoding": "center" if layer.flag("center_point_box") else "corner",
        "sort_result_descending": layer.flag("sort_result_descending", default=True),
        "output_type": element,
    }
    rows = layer.out_shape()[0]
    selected = builder.op("NonMaxSuppression", inputs, attributes, element=element, version="opset3")
    padded = builder.concat([selected, builder.filled(-1, (rows, 3), element)], 0)
    return builder.slice(padded, [0], [0], [rows])


@converts("CTCGreedyDecoder")
def convert_ctc_greedy_decoder(builder: Builder, layer: LegacyLayer) -> Value:
    """Convert to CTCGreedyDecoder.

    Legacy kernels took the mask of Caffe, where a 0 marks the first step of a sequence, which ends before the next 0.
    The first step is therefore always included. Without a mask all steps are.
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


#: The types of IR v7 that opset6 holds unchanged. Each attribute is named with the method that reads it.
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

#: The element types of their outputs; a single f32 output for the others.
_DETECTRON_OUTPUTS = {
    "ExperimentalDetectronDetectionOutput": (F32, I32, F32),
    "ExperimentalDetectronGenerateProposalsSingleImage": (F32, F32),
    "ExperimentalDetectronROIFeatureExtractor": (F32, F32),
}


@converts(*_DETECTRON)
def convert_detectron(builder: Builder, layer: LegacyLayer) -> Sequence[Value]:
    """Convert to the operation of the same name. Sizes and scale of the image are reshaped to its rank."""
    attributes = {
        name: getattr(layer, method)(name) for name, method in _DETECTRON[layer.kind].items() if layer.has(name)
    }
    shapes = [declared.shape for declared in layer.outputs]
    types = _DETECTRON_OUTPUTS.get(layer.kind, (F32,))
    outputs = [(element, shapes[i] if i < len(shapes) else None) for i, element in enumerate(types)]
    inputs = [builder.floating(value) for value in layer.inputs]
    for suffix, position, shape in (("GenerateProposalsSingleImage", 0, (3,)), ("DetectionOutput", 3, (1, 3))):
        if layer.kind.endswith(suffix):
            inputs[position] = builder.reshape(inputs[position], shape)
    converted = builder.layer(layer.kind, inputs, outputs, attributes, version="opset6")
    return [Value(converted, port) for port in converted.outputs]
