"""The layers that single steps add to a model."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from irrun.openvino.dimension import Dimension
from irrun.openvino.element_type import Type
from irrun.openvino.factories import create_node, make_constant
from irrun.openvino.layout import Layout
from irrun.openvino.node import Output, as_output
from irrun.openvino.preprocess.enumerations import ColorFormat, PaddingMode, ResizeAlgorithm
from irrun.openvino.shape import PartialShape

__all__ = ["Context", "Step", "find_permutation", "name_color", "permute_layout"]

_RESIZE_MODES = {
    ResizeAlgorithm.RESIZE_LINEAR: "linear",
    ResizeAlgorithm.RESIZE_CUBIC: "cubic",
    ResizeAlgorithm.RESIZE_NEAREST: "nearest",
    ResizeAlgorithm.RESIZE_BILINEAR_PILLOW: "bilinear_pillow",
    ResizeAlgorithm.RESIZE_BICUBIC_PILLOW: "bicubic_pillow",
}

#: Weights of red, green and blue in gray.
_LUMINANCE = (0.299, 0.587, 0.114)


@dataclass
class Context:
    """The properties of the value that steps apply to.

    Attributes:
        outputs: The value; one output per plane of an image.
        layout: Its layout.
        color_format: Its color format.
        model_shape: The shape that the model expects.
        model_layout: The layout that the model expects.
        model_type: The element type that the model expects.
    """

    outputs: list[Output]
    layout: Layout
    color_format: ColorFormat
    model_shape: PartialShape
    model_layout: Layout
    model_type: Type
    names: set[str] = field(default_factory=set)

    @property
    def output(self) -> Output:
        """The value of an image that is a single plane.

        Raises:
            RuntimeError: The image has several planes.
        """
        if len(self.outputs) != 1:
            raise RuntimeError(
                "This preprocessing step can't be applied to an image of several planes. Consider using of "
                "'convert_color' before"
            )
        return self.outputs[0]

    @output.setter
    def output(self, output: Any) -> None:
        self.outputs = [as_output(output)]

    def list_implicit_steps(self) -> list[Step]:
        """Return the conversions to the element type and the layout of the model that remain."""
        implicit = []
        if self.output.element_type is not self.model_type:
            implicit.append(convert_type(self.model_type))
        if not self.model_layout.empty and self.layout != self.model_layout:
            implicit.append(convert_layout(self.model_layout))
        return implicit

    def find_axis(self, name: str) -> int:
        """Return the axis of a dimension in the current layout.

        Raises:
            RuntimeError: The layout does not name it.
        """
        words = {"C": "channels", "H": "height", "W": "width"}
        if not self.layout.has_name(name):
            raise RuntimeError(f"Layout {self.layout} doesn't have `{words[name]}` dimension")
        axis = self.layout.get_index_by_name(name)
        return axis + len(self.output.partial_shape) if axis < 0 else axis


@dataclass(frozen=True)
class Step:
    """A step of the processing of an input or an output.

    Attributes:
        name: The text that describes the step.
        apply: Adds the layers to the value of a context.
        layout: The layout or the order of dimensions that the step converts to, if it does.
    """

    name: str
    apply: Callable[[Context], None]
    layout: Layout | Sequence[int] | None = None


def convert_type(element_type: Type | None) -> Step:
    """Return a step that converts the element type, by default to the model's."""

    def apply(context: Context) -> None:
        target = element_type if element_type is not None and element_type.is_static() else context.model_type
        if context.output.element_type is not target:
            context.output = create_node(
                "Convert", "opset1", [context.output], {"destination_type": target.to_string()}
            )

    return Step(f"convert type ({'dynamic' if element_type is None else element_type.to_string()})", apply)


def normalize(values: float | Sequence[float], *, is_scale: bool) -> Step:
    """Return a step that subtracts a value, or divides by it, or one value per channel.

    Divisions multiply by the reciprocal in the type of the input, as OpenVINO's.
    """
    name = "Scale" if is_scale else "Mean"

    def apply(context: Context) -> None:
        if not context.output.element_type.is_real():
            raise RuntimeError(
                f"{name} preprocessing can be applied to 'float' inputs. Consider using of 'convert_element_type' "
                f"before scaling. Current type is: {context.output.element_type.to_string()}"
            )
        array: Any = np.asarray(values, np.float32).reshape(-1)
        if not isinstance(values, (int, float)):
            shape = [1] * len(context.output.partial_shape)
            shape[context.find_axis("C")] = array.size
            array = array.reshape(shape)
        if is_scale:
            with np.errstate(divide="ignore"):
                array = np.float32(1) / array
        constant = make_constant(array, context.output.element_type)
        context.output = create_node("Multiply" if is_scale else "Subtract", "opset1", [context.output, constant])

    return Step(f"{name.lower()} ({_join(values, 'g')})", apply)


def resize(algorithm: ResizeAlgorithm, height: int | None, width: int | None) -> Step:
    """Return a step that resizes an image, by default to the size that the model expects.

    Raises:
        TypeError: Only the height or the width is given.
    """
    given = [size for size in (height, width) if size is not None]
    if len(given) == 1:
        raise TypeError("resize(): incompatible function arguments: expected a height and a width, or neither")

    def apply(context: Context) -> None:
        if not context.layout.has_name("H") or not context.layout.has_name("W"):
            raise RuntimeError(
                "Can't add resize for layout without W/H specified. Use 'set_layout' API to define layout of image "
                "data, like `NCHW`"
            )
        axes = [context.find_axis("H"), context.find_axis("W")]
        sizes = list(given)
        if not sizes:
            layout = context.model_layout
            for name in ("H", "W"):
                if not layout.has_name(name):
                    raise RuntimeError(f"Resize: the layout {layout} of the model has no dimension {name}")
                length = context.model_shape[layout.get_index_by_name(name) % len(context.model_shape)]
                if length.is_dynamic:
                    raise RuntimeError("Resize: the model expects images of dynamic size, pass a height and a width")
                sizes.append(length.get_length())
        context.output = create_node(
            "Interpolate",
            "opset11",
            [context.output, make_constant(np.array(sizes, np.int64)), make_constant(np.array(axes, np.int64))],
            {
                "mode": _RESIZE_MODES[algorithm],
                "shape_calculation_mode": "sizes",
                "coordinate_transformation_mode": "half_pixel",
                "nearest_mode": "round_prefer_floor",
                "antialias": False,
                "pads_begin": [0] * len(context.output.partial_shape),
                "pads_end": [0] * len(context.output.partial_shape),
                "cube_coeff": -0.75,
            },
        )

    return Step(f"resize to ({height}, {width})" if given else "resize to model width/height", apply)


def crop(begin: Sequence[int], end: Sequence[int]) -> Step:
    """Return a step that takes a part of a tensor."""

    def apply(context: Context) -> None:
        count = len(begin)
        bounds = [np.array(begin, np.int32), np.array(end, np.int32), np.ones(count, np.int32)]
        inputs = [context.output, *map(make_constant, (*bounds, np.arange(count, dtype=np.int64)))]
        context.output = create_node("Slice", "opset8", inputs)

    bounds = ",".join(f"[ {', '.join(map(str, bound))} ]" for bound in (begin, end))
    return Step(f"Crop ({bounds})", apply)


def pad(begin: Sequence[int], end: Sequence[int], value: Any, mode: PaddingMode) -> Step:
    """Return a step that pads a tensor."""

    def apply(context: Context) -> None:
        fill = make_constant(np.asarray(value, np.float32).reshape(-1)[0], context.output.element_type)
        inputs = [context.output, *(make_constant(np.array(pads, np.int64)) for pads in (begin, end)), fill]
        context.output = create_node("Pad", "opset1", inputs, {"pad_mode": mode.name.lower()})

    values = {
        PaddingMode.CONSTANT: f"with ({_join(value, 'g')})",
        PaddingMode.REFLECT: "reflected from tensor",
        PaddingMode.SYMMETRIC: "symmetrically added from tensor",
    }
    return Step(f"pad(begin ({_join(begin)}), end ({_join(end)}), {values[mode]})", apply)


def _join(values: Any, form: str = "d") -> str:
    return ",".join(format(value, form) for value in np.asarray(values).reshape(-1).tolist())


def transpose(output: Output, order: Sequence[int]) -> Output:
    """Return an output with its dimensions in another order."""
    if list(order) == list(range(len(order))):
        return output
    return as_output(create_node("Transpose", "opset1", [output, make_constant(np.array(order, np.int64))]))


def convert_layout(target: Layout | Sequence[int] | None) -> Step:
    """Return a step that converts the layout, by default to the model's."""

    def apply(context: Context) -> None:
        if target is not None and not isinstance(target, Layout):
            context.output = transpose(context.output, target)
            context.layout = permute_layout(context.layout, target)
            return
        destination = context.model_layout if target is None or target.empty else target
        order = find_permutation(context.layout, destination, len(context.output.partial_shape))
        if order is not None:
            context.output = transpose(context.output, order)
        if not destination.empty:
            context.layout = destination

    if target is None or isinstance(target, Layout):
        return Step(f"convert layout {target or Layout()}", apply, target)
    return Step(f"convert layout ({_join(target)})", apply, target)


def permute_layout(layout: Layout, order: Sequence[int]) -> Layout:
    """Return a layout with its dimensions in another order; the layout itself if it has other dimensions."""
    names = layout._names
    return Layout(f"[{','.join(names[i] for i in order)}]") if len(names) == len(order) else layout


def find_permutation(source: Layout, target: Layout, rank: int) -> list[int] | None:
    """Return the order of dimensions that converts a layout; None if one is unknown or both are equal.

    Raises:
        RuntimeError: The layouts name different dimensions.
    """
    if source.empty or target.empty or source == target:
        return None
    names, target_names = (_expand(layout, rank) for layout in (source, target))
    if len(names) != len(target_names):
        raise RuntimeError(f"Conversion is not supported for layouts with different sizes, {source} <-> {target}")
    for name in names:
        if name != "?" and name not in target_names:
            raise RuntimeError(f"Dimension name '{name}' is not found in layout: {target}")
    if len(names) != rank:
        raise RuntimeError(f"Layout conversion failed. Layout {source} does not fit the rank {rank}")
    others = iter([i for i, name in enumerate(names) if name == "?"])  # they keep their order
    return [names.index(name) if name != "?" and name in names else next(others) for name in target_names]


def _expand(layout: Layout, rank: int) -> list[str]:
    """Return the names of the dimensions of a layout, with "?" instead of "..."."""
    names = list(layout._names)
    if "..." in names:
        position = names.index("...")
        names[position : position + 1] = ["?"] * (rank - len(names) + 1)
    return names


def reverse_channels() -> Step:
    """Return a step that reverses the order of the channels."""
    return Step("reverse channels", _reverse_channels)


def _reverse_channels(context: Context) -> None:
    axis = context.find_axis("C")
    shape = context.output.partial_shape
    if shape.rank.is_static and shape[axis].is_static:
        indices = make_constant(np.arange(shape[axis].get_length() - 1, -1, -1, dtype=np.int32))
    else:
        indices = _count_down(context.output, axis)
    inputs = [context.output, indices, make_constant(np.array([axis], np.int32))]
    context.output = create_node("Gather", "opset8", inputs, {"batch_dims": 0})


def _count_down(output: Any, axis: int) -> Any:
    """Return the indices of an axis of unknown length, from the last one to 0."""
    zero, minus_one = (make_constant(np.array(value, np.int32)) for value in (0, -1))
    sizes = create_node("ShapeOf", "opset3", [output], {"output_type": "i32"})
    size = create_node("Gather", "opset8", [sizes, make_constant(np.array(axis, np.int32)), zero], {"batch_dims": 0})
    last = create_node("Add", "opset1", [size, minus_one])
    return create_node("Range", "opset4", [last, minus_one, minus_one], {"output_type": "i32"})


def convert_color(target: ColorFormat) -> Step:
    """Return a step that converts the color format."""

    def apply(context: Context) -> None:
        source = context.color_format
        if source is target:
            return
        if source in _PLANES and target in (ColorFormat.RGB, ColorFormat.BGR):
            operation = f"{source.name.split('_')[0]}to{target.name}"
            context.output = create_node(operation, "opset8", context.outputs)
        elif source in (ColorFormat.RGBX, ColorFormat.BGRX) and target in (ColorFormat.RGB, ColorFormat.BGR):
            _remove_last_channel(context)
            if source.name[:3] != target.name:
                _reverse_channels(context)
        elif {source, target} == {ColorFormat.RGB, ColorFormat.BGR}:
            _reverse_channels(context)
        elif source in (ColorFormat.RGB, ColorFormat.BGR) and target is ColorFormat.GRAY:
            _convert_to_gray(context, reverse=source is ColorFormat.BGR)
        else:
            raise RuntimeError(
                f"Source color format '{name_color(source)}' is not convertible to '{name_color(target)}'"
            )
        context.color_format = target

    return Step(f"convert color ({name_color(target)})", apply)


def name_color(color_format: ColorFormat) -> str:
    """Return the name of a color format in texts."""
    return _COLOR_NAMES.get(color_format, color_format.name)


_COLOR_NAMES = {
    ColorFormat.UNDEFINED: "Unknown",
    ColorFormat.NV12_SINGLE_PLANE: "NV12 (single plane)",
    ColorFormat.NV12_TWO_PLANES: "NV12 (multi-plane)",
    ColorFormat.I420_SINGLE_PLANE: "I420 (single plane)",
    ColorFormat.I420_THREE_PLANES: "I420 (multi-plane)",
}

#: The number of planes of a color format.
_PLANES = {
    ColorFormat.NV12_SINGLE_PLANE: 1,
    ColorFormat.NV12_TWO_PLANES: 2,
    ColorFormat.I420_SINGLE_PLANE: 1,
    ColorFormat.I420_THREE_PLANES: 3,
}


def _remove_last_channel(context: Context) -> None:
    axis = context.find_axis("C")
    bounds = [np.array([value], np.int32) for value in (0, -1, 1, axis)]
    context.output = create_node("Slice", "opset8", [context.output, *map(make_constant, bounds)])


def _convert_to_gray(context: Context, reverse: bool) -> None:
    layout, element_type = context.layout, context.output.element_type
    rank = len(context.output.partial_shape)
    names = layout._names
    channels_first = Layout(f"[N,C,{','.join(n for n in names if n not in ('N', 'C'))}]")
    order = find_permutation(layout, channels_first, rank)
    value = transpose(context.output, order) if order else context.output
    if not element_type.is_real():
        value = as_output(create_node("Convert", "opset1", [value], {"destination_type": "f32"}))
    weights = np.array(_LUMINANCE[::-1] if reverse else _LUMINANCE, np.float32).reshape([1, 3] + [1] * (rank - 2))
    spatial = rank - 2
    attributes = {
        name: [n] * spatial for name, n in (("strides", 1), ("dilations", 1), ("pads_begin", 0), ("pads_end", 0))
    }
    inputs = [value, make_constant(weights, value.element_type)]
    value = as_output(create_node("Convolution", "opset1", inputs, attributes))
    if not element_type.is_real():
        rounded = create_node("Round", "opset5", [value], {"mode": "half_to_even"})
        value = as_output(create_node("Convert", "opset1", [rounded], {"destination_type": element_type.to_string()}))
    back = find_permutation(channels_first, layout, rank)
    context.output = transpose(value, back) if back else value


def custom(function: Callable[[Output], Any]) -> Step:
    """Return a step that applies a function of the user."""

    def apply(context: Context) -> None:
        context.output = function(context.output)

    return Step("custom", apply)


def plane_shapes(color_format: ColorFormat, shape: PartialShape) -> list[PartialShape]:
    """Return the shape of each plane of an image.

    Args:
        color_format: The color format.
        shape: The shape of the image in the layout NHWC.
    """
    batch, height, width = shape[0], shape[1], shape[2]

    def scale(length: Dimension, numerator: int, denominator: int) -> Dimension:
        if length.is_dynamic:
            return Dimension()
        return Dimension(length.get_length() * numerator // denominator)

    full = PartialShape([batch, height, width, 1])
    half = [scale(height, 1, 2), scale(width, 1, 2)]
    if _PLANES[color_format] == 1:
        return [PartialShape([batch, scale(height, 3, 2), width, 1])]
    if color_format is ColorFormat.NV12_TWO_PLANES:
        return [full, PartialShape([batch, *half, 2])]
    return [full, *(PartialShape([batch, *half, 1]) for _ in range(2))]
