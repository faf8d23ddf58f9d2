"""Rules for resizing and sampling of images."""

from __future__ import annotations

import numpy as np

from irrun.errors import ModelError
from irrun.onnx_import.graph import Value, cast, check_axis, constant, op
from irrun.onnx_import.node import Node, translate
from irrun.onnx_import.rules.helpers import get_lengths, integers, reshape, unsqueeze, where
from irrun.onnx_import.rules.selection import to_scalar

#: The modes of Interpolate.
_MODES = {"nearest": "nearest", "linear": "linear_onnx", "cubic": "cubic", "bilinear": "linear_onnx"}
#: The coordinate modes that Interpolate supports.
_COORDINATES = ("half_pixel", "pytorch_half_pixel", "asymmetric", "tf_half_pixel_for_nn", "align_corners")
_ROUNDINGS = ("round_prefer_floor", "round_prefer_ceil", "floor", "ceil")


@translate("Upsample")
def translate_upsample(node: Node) -> Value:
    """Interpolate."""
    x = node[0]
    if node.version < 7:
        scales = constant([1.0, 1.0, node.get_float("height_scale"), node.get_float("width_scale")])
    elif node.has("scales"):
        scales = constant(np.array(node.attributes["scales"], np.float32))
    else:
        scales = node[1]
    return op(
        "Interpolate",
        x,
        scales,
        integers(*range(x.get_rank())),
        mode=_get_mode(node),
        shape_calculation_mode="scales",
        coordinate_transformation_mode="asymmetric",
        nearest_mode="floor",
    )


def _get_mode(node: Node) -> str:
    mode = node.get_text("mode", "nearest")
    if mode not in _MODES:
        raise ModelError(f"the attribute mode is {mode!r}, expected one of {', '.join(_MODES)}")
    return _MODES[mode]


@translate("Resize")
def translate_resize(node: Node) -> Value:
    """Interpolate; otherwise, products with matrices of weights."""
    x, rank = node[0], node[0].get_rank()
    axes = [check_axis(axis, rank) for axis in node.get_ints("axes", list(range(rank)))]
    mode = _get_mode(node)
    coordinates = node.get_text("coordinate_transformation_mode", "half_pixel" if node.version >= 11 else "asymmetric")
    roi, scales, sizes = (None, node[1], None) if node.version == 10 else (node.get(1), node.get(2), node.get(3))
    if sizes is not None and sizes.get_dimension(0) == 0:
        sizes = None
    if sizes is None and scales is None:
        raise ModelError("found neither scales nor sizes")
    policy = node.get_text("keep_aspect_ratio_policy", "stretch")
    rounding = node.get_text("nearest_mode", "round_prefer_floor" if node.version >= 11 else "floor")
    if rounding not in _ROUNDINGS:
        raise ModelError(f"the attribute nearest_mode is {rounding!r}, expected one of {', '.join(_ROUNDINGS)}")
    is_simple = (
        coordinates in _COORDINATES
        and policy == "stretch"
        and not node.get_int("antialias", 0)
        and not node.get_int("exclude_outside", 0)
        and not (coordinates == "align_corners" and sizes is None and mode != "nearest")
    )
    if is_simple:
        return op(
            "Interpolate",
            x,
            sizes if sizes is not None else scales,
            integers(*axes),
            mode=mode,
            shape_calculation_mode="scales" if sizes is None else "sizes",
            coordinate_transformation_mode=coordinates,
            nearest_mode=rounding,
            cube_coeff=node.get_float("cubic_coeff_a", -0.75),
        )
    return _Resize(node, axes, mode, coordinates, rounding, policy).resize(x, roi, scales, sizes)


class _Resize:
    """Resizes axis by axis, by products with weight matrices or by indices of the nearest elements.

    Args:
        node: The node.
        axes: The axes.
        mode: The mode of Interpolate.
        coordinates: The coordinates.
        rounding: How coordinates are rounded to the nearest element.
        policy: Whether the ratio of the lengths is kept.
    """

    def __init__(self, node: Node, axes: list[int], mode: str, coordinates: str, rounding: str, policy: str) -> None:
        self.node = node
        self.axes = axes
        self.mode = mode
        self.coordinates = coordinates
        self.rounding = rounding
        self.policy = policy

    def resize(self, x: Value, roi: Value | None, scales: Value | None, sizes: Value | None) -> Value:
        """Return the resized data."""
        lengths = get_lengths(x, *self.axes)
        if sizes is not None:
            factors = cast(sizes, "f32") / cast(lengths, "f32")
            new = cast(sizes, "i64")
            if self.policy != "stretch":
                chosen = "ReduceMin" if self.policy == "not_larger" else "ReduceMax"
                factors = op("Broadcast", op(chosen, factors, constant([0]), keep_dims=True), integers(len(self.axes)))
                new = cast(op("Round", factors * cast(lengths, "f32"), mode="half_away_from_zero"), "i64")
        else:
            assert scales is not None
            factors = cast(scales, "f32")
            new = cast(op("Floor", factors * cast(lengths, "f32")), "i64")
        kind = x.type
        result = cast(x, "f32")
        outside: Value | None = None
        for i, axis in enumerate(self.axes):
            known = factors.read()
            if known is not None and known[i] == 1 and self.coordinates != "tf_crop_and_resize":
                continue
            factor, length, total = (
                to_scalar(op("Gather", v, constant([i]), constant(0))) for v in (factors, lengths, new)
            )
            bounds = None
            if self.coordinates == "tf_crop_and_resize":
                if roi is None:
                    raise ModelError("the region for tf_crop_and_resize is missing")
                bounds = [
                    to_scalar(op("Gather", cast(roi, "f32"), constant([p]), constant(0)))
                    for p in (i, i + len(self.axes))
                ]
            position = self.map_coordinates(factor, length, total, bounds)
            if bounds is not None:
                beyond = (position < 0) | (position > cast(length, "f32") - 1)
                shape = [-1 if j == axis else 1 for j in range(x.get_rank())]
                flags = reshape(beyond, shape)
                outside = flags if outside is None else outside | flags
            result = self.resize_axis(result, axis, position, factor, length)
        if outside is not None:
            result = where(outside, self.node.get_float("extrapolation_value", 0.0), result)
        if kind.is_integer:
            low, high = (0, 255) if kind.name == "u8" else (-128, 127) if kind.name == "i8" else (None, None)
            if low is not None and high is not None:
                result = op("Minimum", op("Maximum", op("Round", result, mode="half_to_even"), low), high)
        return cast(result, kind)

    def map_coordinates(self, factor: Value, length: Value, total: Value, bounds: list[Value] | None) -> Value:
        """Return the position in the data of each element of the result."""
        index = cast(op("Range", constant(0), total, constant(1), output_type="i64"), "f32")
        size, resized = cast(length, "f32"), factor * cast(length, "f32")
        name = self.coordinates
        if name == "asymmetric":
            return index / factor
        if name == "align_corners":
            return where(op("Equal", resized, 1.0), 0.0, index * (size - 1) / (resized - 1))
        if name == "tf_crop_and_resize":
            assert bounds is not None
            start, end = bounds
            step = (end - start) * (size - 1)
            many = start * (size - 1) + index * step / op("Maximum", cast(total, "f32") - 1, 1.0)
            return where(total > 1, many, (start + end) * (size - 1) * 0.5 + index * 0)
        result = (index + 0.5) / factor - 0.5
        if name == "pytorch_half_pixel":
            return where(resized > 1, result, index * 0)
        if name == "half_pixel_symmetric":
            adjustment = cast(total, "f32") / resized
            center = size / 2
            return center * (1 - adjustment) + result
        if name == "tf_half_pixel_for_nn":
            return result + 0.5
        if name == "half_pixel":
            return result
        raise ModelError(f"the attribute coordinate_transformation_mode is {name!r}")

    def resize_axis(self, x: Value, axis: int, position: Value, factor: Value, length: Value) -> Value:
        """Return the data with one axis resized."""
        if self.mode == "nearest":
            rounded = {
                "floor": lambda v: op("Floor", v),
                "ceil": lambda v: op("Ceiling", v),
                "round_prefer_floor": lambda v: op("Ceiling", v - 0.5),
                "round_prefer_ceil": lambda v: op("Floor", v + 0.5),
            }[self.rounding](position)
            index = op("Minimum", op("Maximum", cast(rounded, "i64"), 0), length - 1)
            return op("Gather", x, index, constant(axis))
        weights = self.make_weights(position, factor, length)
        rank = x.get_rank()
        order = [*[i for i in range(rank) if i != axis], axis]
        moved = op("Transpose", x, constant(order))
        product = op("MatMul", moved, weights, transpose_a=False, transpose_b=True)
        return op("Transpose", product, constant([int(i) for i in np.argsort(order)]))

    def make_weights(self, position: Value, factor: Value, length: Value) -> Value:
        """Return the weights of the elements of the data, one row for each element of the result."""
        scale = op("Minimum", factor, 1.0) if self.node.get_int("antialias", 0) else constant(1.0)
        margin = cast(op("Ceiling", constant(2.0) / scale), "i64") + 1
        taps = op("Range", 0 - margin, length + margin, constant(1), output_type="i64")
        distance = op("Abs", (unsqueeze(cast(taps, "f32"), 0) - unsqueeze(position, 1)) * scale)
        weights = self.evaluate(distance)
        clamped = op("Minimum", op("Maximum", taps, 0), length - 1)
        if self.node.get_int("exclude_outside", 0):
            weights = where(unsqueeze(op("Equal", clamped, taps), 0), weights, 0.0)
        weights = weights / op("ReduceSum", weights, constant([1]), keep_dims=True)
        elements = op("Range", constant(0), length, constant(1), output_type="i64")
        belongs = cast(op("Equal", unsqueeze(clamped, 1), unsqueeze(elements, 0)), "f32")
        return op("MatMul", weights, belongs, transpose_a=False, transpose_b=False)

    def evaluate(self, distance: Value) -> Value:
        """Return the filter at some distances."""
        if self.mode == "linear_onnx":
            return op("Maximum", 1 - distance, 0.0)
        a = self.node.get_float("cubic_coeff_a", -0.75)
        square = distance * distance
        near = square * distance * (a + 2) - square * (a + 3) + 1
        far = (square * distance - square * 5 + distance * 8 - 4) * a
        return where(distance <= 1, near, where(distance < 2, far, 0.0))


@translate("GridSample")
def translate_grid_sample(node: Node) -> Value:
    """GridSample of images."""
    if node[0].get_rank() != 4:
        raise node.refuse(f"GridSample of rank {node[0].get_rank()}")
    modes = {
        "linear": "bilinear",
        "bilinear": "bilinear",
        "nearest": "nearest",
        "cubic": "bicubic",
        "bicubic": "bicubic",
    }
    mode = node.get_text("mode", "bilinear")
    if mode not in modes:
        raise ModelError(f"the attribute mode is {mode!r}, expected one of {', '.join(modes)}")
    return op(
        "GridSample",
        node[0],
        node[1],
        align_corners=bool(node.get_int("align_corners", 0)),
        mode=modes[mode],
        padding_mode=node.get_text("padding_mode", "zeros"),
    )


@translate("RoiAlign")
def translate_roi_align(node: Node) -> Value:
    """ROIAlign."""
    default = "half_pixel" if node.version >= 16 else "output_half_pixel"
    aligned = {"half_pixel": "half_pixel_for_nn", "output_half_pixel": "asymmetric"}
    coordinates = node.get_text("coordinate_transformation_mode", default)
    if coordinates not in aligned:
        raise ModelError(f"the attribute coordinate_transformation_mode is {coordinates!r}")
    return op(
        "ROIAlign",
        node[0],
        node[1],
        cast(node[2], "i32"),
        pooled_h=node.get_int("output_height", 1),
        pooled_w=node.get_int("output_width", 1),
        sampling_ratio=node.get_int("sampling_ratio", 0),
        spatial_scale=node.get_float("spatial_scale", 1.0),
        mode=node.get_text("mode", "avg"),
        aligned_mode=aligned[coordinates],
    )
