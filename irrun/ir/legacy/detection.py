"""Detection: prior boxes, proposals, pooling of regions, and selection of boxes."""

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
    """Add an operation with the formerly implied sizes of the feature map and the image as inputs.

    Sizes that the inputs of the layer have are computed from them, so that the priors follow when a model is reshaped.
    """
    inputs = [_add_spatial_size(builder, layer.get_input(), layer.get_input_shape(0), "grid")]
    if tuple(image_size) == tuple(layer.get_input_shape(1)[-2:]):
        inputs.append(_add_spatial_size(builder, layer.get_input(1), layer.get_input_shape(1), "image"))
    else:
        inputs.append(builder.add_constant(list(image_size), name="image"))
    shape = layer.get_output_shape()
    value = builder.add_op(operation, inputs, attributes, shape=(2, math.prod(shape) // 2), element_type=F32)
    if shape[:-2] != (1,) or shape[-2] != 2:
        return builder.reshape(value, shape)
    return builder.add_op("Unsqueeze", [value, builder.add_constant(0, name="axis")], shape=shape)


def _add_spatial_size(builder: Builder, value: Value, shape: Sequence[int], name: str) -> Value:
    """Return the last two dimensions of a value as a tensor."""
    whole = builder.add_op(
        "ShapeOf", [value], {"output_type": I64}, shape=(len(shape),), element_type=I64, version="opset3"
    )
    last = builder.add_constant([len(shape) - 2, len(shape) - 1], name=name)
    axis = builder.add_constant(0, name="axis")
    return builder.add_op("Gather", [whole, last, axis], shape=(2,), version="opset8")


@converts("PriorBox")
def convert_prior_box(builder: Builder, layer: LegacyLayer) -> Value:
    """Convert to PriorBox.

    Sizes are in pixels even without `scale_all_sizes`, whereas PriorBox then expects fractions of the image height.
    Legacy kernels used `step` alone and ignored `step_h`, `step_w` and `img_size`.
    """
    step = layer.get_float("step", default=0.0)
    attributes: dict[str, object] = {
        "offset": layer.get_float("offset", default=0.5),
        "step": step,
        "flip": layer.get_bool("flip"),
        "clip": layer.get_bool("clip"),
        "scale_all_sizes": layer.get_bool("scale_all_sizes", default=True),
        "variance": layer.get_floats("variance", default=[]) or [0.1],
    }
    for name in ("min_size", "max_size", "aspect_ratio", "density", "fixed_ratio", "fixed_size"):
        attributes[name] = layer.get_floats(name, default=[])
    image_size = layer.get_input_shape(1)[-2:]
    if not attributes["scale_all_sizes"]:
        height = max(image_size[0], 1)
        attributes |= {
            "step": step / height,
            "min_size": [n / height for n in layer.get_floats("min_size", default=[])],
        }
    return _add_priors(builder, layer, "PriorBox", attributes, image_size)


@converts("PriorBoxClustered")
def convert_prior_box_clustered(builder: Builder, layer: LegacyLayer) -> Value:
    """Convert to PriorBoxClustered.

    Unlike PriorBox, its legacy kernels used `step_h`, `step_w`, `img_h` and `img_w`.
    """
    step = layer.get_float("step", default=0.0)
    attributes: dict[str, object] = {
        "offset": layer.get_float("offset", default=0.5),
        "step": step,
        "step_w": layer.get_float("step_w", default=0.0) or step,
        "step_h": layer.get_float("step_h", default=0.0) or step,
        "clip": layer.get_bool("clip"),
        "variance": layer.get_floats("variance", default=[]) or [0.1],
        "width": layer.get_floats("width"),
        "height": layer.get_floats("height"),
    }
    height, width = layer.get_input_shape(1)[-2:]
    image_size = (layer.get_int("img_h", default=0) or height, layer.get_int("img_w", default=0) or width)
    return _add_priors(builder, layer, "PriorBoxClustered", attributes, image_size)


@converts("DetectionOutput")
def convert_detection_output(builder: Builder, layer: LegacyLayer) -> Value:
    """Convert to DetectionOutput."""
    attributes: dict[str, object] = {
        "num_classes": layer.get_int("num_classes"),
        "background_label_id": layer.get_int("background_label_id", default=0),
        "top_k": layer.get_int("top_k", default=-1),
        "keep_top_k": layer.get_ints("keep_top_k", default=[-1]),
        "nms_threshold": layer.get_float("nms_threshold"),
        "confidence_threshold": layer.get_float("confidence_threshold", default=_LOWEST_FLOAT),
        "code_type": _read_code_type(layer),
        "variance_encoded_in_target": layer.get_bool("variance_encoded_in_target"),
        "share_location": layer.get_bool("share_location", default=True),
        "clip_before_nms": layer.get_bool("clip_before_nms") or layer.get_bool("clip"),
        "clip_after_nms": layer.get_bool("clip_after_nms"),
        "decrease_label_id": layer.get_bool("decrease_label_id"),
        "normalized": layer.get_bool("normalized", default=True),
        # Files converted from Caffe state -1 where the sizes are not used.
        "input_height": max(layer.get_int("input_height", default=1), 1),
        "input_width": max(layer.get_int("input_width", default=1), 1),
        "objectness_score": layer.get_float("objectness_score", default=0.0),
    }
    inputs = []
    for i in range(len(layer.inputs)):
        value, shape = builder.to_float(layer.get_input(i)), layer.get_input_shape(i)
        rank = 3 if i == 2 else 2
        if len(shape) > rank:
            pattern = builder.add_constant([*[0] * (rank - 1), -1], name="shape")
            flat = (*shape[: rank - 1], math.prod(shape[rank - 1 :]))
            value = builder.add_op("Reshape", [value, pattern], {"special_zero": True}, shape=flat)
        inputs.append(value)
    return builder.add_op("DetectionOutput", inputs, attributes, shape=layer.get_output_shape())


def _read_code_type(layer: LegacyLayer) -> str:
    stated = layer.get_text("code_type", default="caffe.PriorBoxParameter.CORNER")
    code = stated.rpartition(".")[2].upper()
    if code not in ("CORNER", "CENTER_SIZE"):
        raise layer.make_error(f"code_type is {stated!r}, expected caffe.PriorBoxParameter.CORNER or .CENTER_SIZE")
    return f"caffe.PriorBoxParameter.{code}"


@converts("RegionYolo")
def convert_region_yolo(builder: Builder, layer: LegacyLayer) -> Value:
    """Convert to RegionYolo."""
    coords, classes, num = (layer.get_int(name) for name in ("coords", "classes", "num"))
    softmax, mask = layer.get_bool("do_softmax", default=True), layer.get_ints("mask", default=[])
    attributes = {
        "axis": layer.get_int("axis", default=1),
        "end_axis": layer.get_int("end_axis", default=3),
        "coords": coords,
        "classes": classes,
        "num": num,
        "do_softmax": softmax,
        "mask": mask,
        "anchors": layer.get_floats("anchors", default=[]),
    }
    value = builder.to_float(layer.get_input())
    in_shape = layer.get_input_shape()
    if softmax:
        shape: Sequence[int] = (in_shape[0], math.prod(in_shape[1:]))
    else:
        shape = (in_shape[0], len(mask) * (coords + classes + 1), *in_shape[2:])
    value = builder.add_op("RegionYolo", [value], attributes, shape=shape)
    return builder.reshape(value, layer.get_output_shape())


@converts("ReorgYolo")
def convert_reorg_yolo(builder: Builder, layer: LegacyLayer) -> Value:
    """Convert to ReorgYolo."""
    attributes = {"stride": [layer.get_int("stride")]}
    return builder.add_op(
        "ReorgYolo", [layer.get_input()], attributes, shape=layer.get_output_shape(), version="opset2"
    )


@converts("Proposal")
def convert_proposal(builder: Builder, layer: LegacyLayer) -> Sequence[Value]:
    """Convert to Proposal-1, or to Proposal-4 if a second output holds probabilities."""
    attributes: dict[str, object] = {
        "base_size": layer.get_int("base_size"),
        "pre_nms_topn": layer.get_int("pre_nms_topn"),
        "post_nms_topn": layer.get_int("post_nms_topn"),
        "nms_thresh": layer.get_float("nms_thresh"),
        "feat_stride": layer.get_int("feat_stride"),
        "min_size": layer.get_int("min_size"),
        "ratio": layer.get_floats("ratio"),
        "scale": layer.get_floats("scale"),
        "clip_before_nms": layer.get_bool("clip_before_nms", default=True),
        "clip_after_nms": layer.get_bool("clip_after_nms"),
        "normalize": layer.get_bool("normalize"),
        "box_size_scale": layer.get_float("box_size_scale", default=1.0),
        "box_coordinate_scale": layer.get_float("box_coordinate_scale", default=1.0),
        "framework": layer.get_text("framework", default=""),
    }
    scores, deltas, image_info = (builder.to_float(layer.get_input(i)) for i in range(3))
    count = math.prod(layer.get_input_shape(2))
    image_info = builder.reshape(image_info, (count,))
    if count > 4:
        image_info = builder.slice(image_info, [0], [0], [3])
    inputs = [scores, deltas, image_info]
    if len(layer.outputs) == 1:
        return [builder.add_op("Proposal", inputs, attributes, shape=layer.get_output_shape())]
    outputs = [(F32, layer.get_output_shape(0)), (F32, layer.get_output_shape(1))]
    proposal = builder.add_layer("Proposal", inputs, outputs, attributes, version="opset4")
    return [Value(proposal, port) for port in proposal.outputs]


@converts("SimplerNMS")
def convert_simpler_nms(builder: Builder, layer: LegacyLayer) -> Value:
    """Convert to a Proposal of base size 16 and three ratios. The inputs for scores and boxes come in either order."""
    scores, deltas, image_info = (builder.to_float(layer.get_input(i)) for i in range(3))
    if layer.get_input_shape(0)[1] > layer.get_input_shape(1)[1]:
        scores, deltas = deltas, scores
    attributes: dict[str, object] = {
        "base_size": 16,
        "ratio": [0.5, 1.0, 2.0],
        "scale": layer.get_floats("scale"),
        "min_size": layer.get_int("min_bbox_size"),
        "feat_stride": layer.get_int("feat_stride"),
        "pre_nms_topn": layer.get_int("pre_nms_topn"),
        "post_nms_topn": layer.get_int("post_nms_topn"),
        "nms_thresh": layer.get_float("iou_threshold"),
    }
    image_info = builder.reshape(image_info, (math.prod(layer.get_input_shape(2)),))
    return builder.add_op("Proposal", [scores, deltas, image_info], attributes, shape=layer.get_output_shape())


@converts("PSROIPooling")
def convert_psroi_pooling(builder: Builder, layer: LegacyLayer) -> Value:
    """Convert to PSROIPooling.

    With offsets as the third input, or with the mode "bilinear_deformable", convert to DeformablePSROIPooling.
    """
    inputs = [builder.to_float(value) for value in layer.inputs]
    mode = layer.get_text("mode", default="average")
    attributes: dict[str, object] = {
        "output_dim": layer.get_int("output_dim"),
        "group_size": layer.get_int("group_size", default=1),
        "spatial_scale": layer.get_float("spatial_scale"),
        "mode": mode,
        "spatial_bins_x": layer.get_int("spatial_bins_x", default=1),
        "spatial_bins_y": layer.get_int("spatial_bins_y", default=1),
    }
    if mode != "bilinear_deformable" and len(inputs) == 2:
        return builder.add_op("PSROIPooling", inputs, attributes, shape=layer.get_output_shape())
    attributes |= {
        "mode": "bilinear_deformable",
        "trans_std": layer.get_float("trans_std", default=1.0),
        "part_size": layer.get_int("part_size", default=1),
    }
    if layer.get_bool("no_trans"):
        inputs = inputs[:2]
    return builder.add_op("DeformablePSROIPooling", inputs, attributes, shape=layer.get_output_shape())


@converts("ROIPooling")
def convert_roi_pooling(builder: Builder, layer: LegacyLayer) -> Value:
    """Convert to ROIPooling."""
    attributes: dict[str, object] = {
        "pooled_h": layer.get_int("pooled_h"),
        "pooled_w": layer.get_int("pooled_w"),
        "spatial_scale": layer.get_float("spatial_scale"),
        "method": layer.get_text("method", default="max").lower(),
    }
    data, rois = (builder.to_float(layer.get_input(i)) for i in (0, 1))
    shape = layer.get_input_shape(1)
    rois = builder.reshape(rois, (math.prod(shape[:-1]), shape[-1]))
    return builder.add_op("ROIPooling", [data, rois], attributes, shape=layer.get_output_shape(), version="opset2")


@converts("NonMaxSuppression")
def convert_non_max_suppression(builder: Builder, layer: LegacyLayer) -> Value:
    """Convert to NonMaxSuppression, padded with rows of -1 to the number of rows that the output declares."""
    boxes, scores = builder.to_float(layer.get_input()), builder.to_float(layer.get_input(1))
    inputs = [boxes, scores]
    # Without these inputs all boxes may be selected, unless another box covers them entirely.
    for i, (name, default) in enumerate((("count", layer.get_input_shape()[1]), ("overlap", 1.0), ("score", 0.0))):
        if i + 2 >= len(layer.inputs):
            inputs.append(builder.add_constant(default, I64 if i == 0 else F32, name))
        else:
            scalar = builder.to_scalar(layer.inputs[i + 2])
            inputs.append(builder.to_int(scalar) if i == 0 else builder.to_float(scalar))
    element_type = I64 if layer.get_output_type().name == "i64" else I32
    attributes = {
        "box_encoding": "center" if layer.get_bool("center_point_box") else "corner",
        "sort_result_descending": layer.get_bool("sort_result_descending", default=True),
        "output_type": element_type,
    }
    rows = layer.get_output_shape()[0]
    selected = builder.add_op("NonMaxSuppression", inputs, attributes, element_type=element_type, version="opset3")
    padded = builder.concat([selected, builder.fill(-1, (rows, 3), element_type)], 0)
    return builder.slice(padded, [0], [0], [rows])


@converts("CTCGreedyDecoder")
def convert_ctc_greedy_decoder(builder: Builder, layer: LegacyLayer) -> Value:
    """Convert to CTCGreedyDecoder.

    Legacy kernels expected Caffe's mask, in which a 0 marks the first step of a sequence, which ends before the next 0.
    The first step is therefore always included. Without a mask, all steps are included.
    """
    logits = builder.to_float(layer.get_input())
    steps, batch = layer.get_input_shape()[:2]
    if len(layer.inputs) > 1:
        mask = builder.reshape(builder.convert(layer.inputs[1], logits.element_type or F32), (steps, batch))
        first = builder.add_constant([[1.0], *[[0.0]] * (steps - 1)], F32, "first")
        mask = builder.add_binary("Maximum", mask, first)
    else:
        mask = builder.fill(1, (steps, batch))
    attributes = {"ctc_merge_repeated": layer.get_bool("ctc_merge_repeated", default=True)}
    value = builder.add_op("CTCGreedyDecoder", [logits, mask], attributes)
    return builder.reshape(value, layer.get_output_shape())


#: The types of IR v7 that opset6 contains unchanged -> their attributes and the method that reads each.
_DETECTRON = {
    "ExperimentalDetectronDetectionOutput": {
        "class_agnostic_box_regression": "get_bool",
        "deltas_weights": "get_floats",
        "max_delta_log_wh": "get_float",
        "max_detections_per_image": "get_int",
        "nms_threshold": "get_float",
        "num_classes": "get_int",
        "post_nms_count": "get_int",
        "score_threshold": "get_float",
    },
    "ExperimentalDetectronGenerateProposalsSingleImage": {
        "min_size": "get_float",
        "nms_threshold": "get_float",
        "post_nms_count": "get_int",
        "pre_nms_count": "get_int",
    },
    "ExperimentalDetectronPriorGridGenerator": {
        "flatten": "get_bool",
        "h": "get_int",
        "w": "get_int",
        "stride_x": "get_float",
        "stride_y": "get_float",
    },
    "ExperimentalDetectronROIFeatureExtractor": {
        "output_size": "get_int",
        "pyramid_scales": "get_ints",
        "sampling_ratio": "get_int",
        "aligned": "get_bool",
    },
    "ExperimentalDetectronTopKROIs": {"max_rois": "get_int"},
}

#: The element types of their outputs; other types have a single f32 output.
_DETECTRON_OUTPUTS = {
    "ExperimentalDetectronDetectionOutput": (F32, I32, F32),
    "ExperimentalDetectronGenerateProposalsSingleImage": (F32, F32),
    "ExperimentalDetectronROIFeatureExtractor": (F32, F32),
}


@converts(*_DETECTRON)
def convert_detectron(builder: Builder, layer: LegacyLayer) -> Sequence[Value]:
    """Convert to the operation of the same name. Sizes and scale of the image are reshaped to its rank."""
    attributes = {
        name: getattr(layer, method)(name)
        for name, method in _DETECTRON[layer.type].items()
        if layer.has_attribute(name)
    }
    shapes = [declared.shape for declared in layer.outputs]
    types = _DETECTRON_OUTPUTS.get(layer.type, (F32,))
    outputs = [(element_type, shapes[i] if i < len(shapes) else None) for i, element_type in enumerate(types)]
    inputs = [builder.to_float(value) for value in layer.inputs]
    for suffix, position, shape in (("GenerateProposalsSingleImage", 0, (3,)), ("DetectionOutput", 3, (1, 3))):
        if layer.type.endswith(suffix):
            inputs[position] = builder.reshape(inputs[position], shape)
    converted = builder.add_layer(layer.type, inputs, outputs, attributes, version="opset6")
    return [Value(converted, port) for port in converted.outputs]
