"""Detection: prior boxes, proposals, pooling of regions, and selection of boxes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

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
    attributes = layer.read(offset=0.5, step=0.0, flip=False, clip=False, scale_all_sizes=True)
    attributes["variance"] = layer.get_floats("variance", default=[]) or [0.1]
    for name in ("min_size", "max_size", "aspect_ratio", "density", "fixed_ratio", "fixed_size"):
        attributes[name] = layer.get_floats(name, default=[])
    image_size = layer.get_input_shape(1)[-2:]
    if not attributes["scale_all_sizes"]:
        height = max(image_size[0], 1)
        attributes |= {
            "step": attributes["step"] / height,
            "min_size": [n / height for n in layer.get_floats("min_size", default=[])],
        }
    return _add_priors(builder, layer, "PriorBox", attributes, image_size)


@converts("PriorBoxClustered")
def convert_prior_box_clustered(builder: Builder, layer: LegacyLayer) -> Value:
    """Convert to PriorBoxClustered.

    Unlike PriorBox, its legacy kernels used `step_h`, `step_w`, `img_h` and `img_w`.
    """
    attributes = layer.read(offset=0.5, step=0.0, step_w=0.0, step_h=0.0, clip=False)
    for name in ("step_w", "step_h"):
        attributes[name] = attributes[name] or attributes["step"]
    attributes["variance"] = layer.get_floats("variance", default=[]) or [0.1]
    attributes |= layer.read(width=list[float], height=list[float])
    height, width = layer.get_input_shape(1)[-2:]
    image_size = (layer.get_int("img_h", default=0) or height, layer.get_int("img_w", default=0) or width)
    return _add_priors(builder, layer, "PriorBoxClustered", attributes, image_size)


@converts("DetectionOutput")
def convert_detection_output(builder: Builder, layer: LegacyLayer) -> Value:
    """Convert to DetectionOutput."""
    attributes = layer.read(
        num_classes=int, background_label_id=0, top_k=-1, keep_top_k=[-1], nms_threshold=float,
        confidence_threshold=_LOWEST_FLOAT, variance_encoded_in_target=False, share_location=True,
        clip_after_nms=False, decrease_label_id=False, normalized=True, objectness_score=0.0,
    )  # fmt: skip
    attributes |= {
        "code_type": _read_code_type(layer),
        "clip_before_nms": layer.get_bool("clip_before_nms") or layer.get_bool("clip"),
        # Files converted from Caffe state -1 where the sizes are not used.
        "input_height": max(layer.get_int("input_height", default=1), 1),
        "input_width": max(layer.get_int("input_width", default=1), 1),
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
    attributes = layer.read(coords=int, classes=int, num=int, do_softmax=True, axis=1, end_axis=3)
    attributes["mask"] = layer.get_ints("mask", default=[])
    attributes["anchors"] = layer.get_floats("anchors", default=[])
    value = builder.to_float(layer.get_input())
    in_shape = layer.get_input_shape()
    if attributes["do_softmax"]:
        shape: Sequence[int] = (in_shape[0], math.prod(in_shape[1:]))
    else:
        channels = len(attributes["mask"]) * (attributes["coords"] + attributes["classes"] + 1)
        shape = (in_shape[0], channels, *in_shape[2:])
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
    attributes = layer.read(
        base_size=int, pre_nms_topn=int, post_nms_topn=int, nms_thresh=float, feat_stride=int, min_size=int,
        ratio=list[float], scale=list[float], clip_before_nms=True, clip_after_nms=False, normalize=False,
        box_size_scale=1.0, box_coordinate_scale=1.0, framework="",
    )  # fmt: skip
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
    attributes = {"base_size": 16, "ratio": [0.5, 1.0, 2.0], "min_size": layer.get_int("min_bbox_size")}
    attributes |= layer.read(scale=list[float], feat_stride=int, pre_nms_topn=int, post_nms_topn=int)
    attributes["nms_thresh"] = layer.get_float("iou_threshold")
    image_info = builder.reshape(image_info, (math.prod(layer.get_input_shape(2)),))
    return builder.add_op("Proposal", [scores, deltas, image_info], attributes, shape=layer.get_output_shape())


@converts("PSROIPooling")
def convert_psroi_pooling(builder: Builder, layer: LegacyLayer) -> Value:
    """Convert to PSROIPooling.

    With offsets as the third input, or with the mode "bilinear_deformable", convert to DeformablePSROIPooling.
    """
    inputs = [builder.to_float(value) for value in layer.inputs]
    attributes = layer.read(
        output_dim=int, group_size=1, spatial_scale=float, mode="average", spatial_bins_x=1, spatial_bins_y=1
    )
    if attributes["mode"] != "bilinear_deformable" and len(inputs) == 2:
        return builder.add_op("PSROIPooling", inputs, attributes, shape=layer.get_output_shape())
    attributes |= {"mode": "bilinear_deformable", **layer.read(trans_std=1.0, part_size=1)}
    if layer.get_bool("no_trans"):
        inputs = inputs[:2]
    return builder.add_op("DeformablePSROIPooling", inputs, attributes, shape=layer.get_output_shape())


@converts("ROIPooling")
def convert_roi_pooling(builder: Builder, layer: LegacyLayer) -> Value:
    """Convert to ROIPooling."""
    attributes = layer.read(pooled_h=int, pooled_w=int, spatial_scale=float, method="max")
    attributes["method"] = attributes["method"].lower()
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


#: The types of IR v7 that opset6 contains unchanged -> their attributes and the type of each.
_DETECTRON: dict[str, dict[str, Any]] = {
    "ExperimentalDetectronDetectionOutput": {
        "class_agnostic_box_regression": bool, "deltas_weights": list[float], "max_delta_log_wh": float,
        "max_detections_per_image": int, "nms_threshold": float, "num_classes": int, "post_nms_count": int,
        "score_threshold": float,
    },
    "ExperimentalDetectronGenerateProposalsSingleImage": {
        "min_size": float, "nms_threshold": float, "post_nms_count": int, "pre_nms_count": int,
    },
    "ExperimentalDetectronPriorGridGenerator": {
        "flatten": bool, "h": int, "w": int, "stride_x": float, "stride_y": float,
    },
    "ExperimentalDetectronROIFeatureExtractor": {
        "output_size": int, "pyramid_scales": list[int], "sampling_ratio": int, "aligned": bool,
    },
    "ExperimentalDetectronTopKROIs": {"max_rois": int},
}  # fmt: skip

#: The element types of their outputs; other types have a single f32 output.
_DETECTRON_OUTPUTS = {
    "ExperimentalDetectronDetectionOutput": (F32, I32, F32),
    "ExperimentalDetectronGenerateProposalsSingleImage": (F32, F32),
    "ExperimentalDetectronROIFeatureExtractor": (F32, F32),
}


@converts(*_DETECTRON)
def convert_detectron(builder: Builder, layer: LegacyLayer) -> Sequence[Value]:
    """Convert to the operation of the same name. Sizes and scale of the image are reshaped to its rank."""
    fields = {name: kind for name, kind in _DETECTRON[layer.type].items() if layer.has_attribute(name)}
    attributes = layer.read(**fields)
    shapes = [declared.shape for declared in layer.outputs]
    types = _DETECTRON_OUTPUTS.get(layer.type, (F32,))
    outputs = [(element_type, shapes[i] if i < len(shapes) else None) for i, element_type in enumerate(types)]
    inputs = [builder.to_float(value) for value in layer.inputs]
    for suffix, position, shape in (("GenerateProposalsSingleImage", 0, (3,)), ("DetectionOutput", 3, (1, 3))):
        if layer.type.endswith(suffix):
            inputs[position] = builder.reshape(inputs[position], shape)
    converted = builder.add_layer(layer.type, inputs, outputs, attributes, version="opset6")
    return [Value(converted, port) for port in converted.outputs]
