"""The declaration of inputs and the steps of their preprocessing."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from irrun.openvino.dimension import Dimension
from irrun.openvino.element_type import Type, to_element_type, to_type
from irrun.openvino.factories import make_parameter
from irrun.openvino.layout import Layout, to_layout
from irrun.openvino.node import Node, Output
from irrun.openvino.preprocess import steps
from irrun.openvino.preprocess.enumerations import ColorFormat, PaddingMode, ResizeAlgorithm
from irrun.openvino.shape import PartialShape
from irrun.openvino.tensor import Tensor

__all__ = ["InputInfo", "InputModelInfo", "InputTensorInfo", "PreProcessSteps"]


class InputTensorInfo:
    """An input as programs pass it."""

    def __init__(self) -> None:
        self._type: Type | None = None
        self._layout: Layout | None = None
        self._shape: PartialShape | None = None
        self._spatial: tuple[Dimension, Dimension] | None = None
        self._color_format = ColorFormat.UNDEFINED
        self._sub_names: list[str] = []
        self._memory_type: str | None = None

    def set_element_type(self, type: Any) -> InputTensorInfo:
        """Set the element type."""
        self._type = to_type(to_element_type(type))
        return self

    def set_layout(self, layout: Layout | str) -> InputTensorInfo:
        """Set the layout."""
        self._layout = to_layout(layout)
        return self

    def set_shape(self, shape: Any) -> InputTensorInfo:
        """Set the shape."""
        self._shape = PartialShape(shape)
        return self

    def set_spatial_dynamic_shape(self) -> InputTensorInfo:
        """Let height and width be dynamic."""
        self._spatial = (Dimension(), Dimension())
        return self

    def set_spatial_static_shape(self, height: int, width: int) -> InputTensorInfo:
        """Set height and width."""
        self._spatial = (Dimension(height), Dimension(width))
        return self

    def set_color_format(self, format: ColorFormat, sub_names: Sequence[str] = ()) -> InputTensorInfo:
        """Set the color format.

        Args:
            format: The color format.
            sub_names: The suffixes of the names of the planes.
        """
        planes = steps._PLANES.get(format, 1)
        if sub_names and len(sub_names) != planes:
            raise RuntimeError(
                f"Number of sub-names ({len(sub_names)}) shall match with number of planes for '{format.name}' "
                f"color format ({planes})"
            )
        self._color_format, self._sub_names = format, list(sub_names)
        return self

    def set_memory_type(self, memory_type: str) -> InputTensorInfo:
        """Set the kind of memory, which the input states: irrun has one kind."""
        self._memory_type = memory_type
        return self

    def set_from(self, tensor: Any) -> InputTensorInfo:
        """Set element type and shape from a tensor or array."""
        source = tensor if isinstance(tensor, Tensor) else Tensor(tensor)
        self._type, self._shape = source.element_type, PartialShape(source.shape)
        return self


class InputModelInfo:
    """An input as the model expects it."""

    def __init__(self) -> None:
        self._layout: Layout | None = None

    def set_layout(self, layout: Layout | str) -> InputModelInfo:
        """Set the layout."""
        self._layout = to_layout(layout)
        return self


class PreProcessSteps:
    """The steps of the preprocessing of an input, in order."""

    def __init__(self) -> None:
        self._steps: list[steps.Step] = []
        self._changes_size = False

    def _add(self, step: steps.Step) -> PreProcessSteps:
        self._steps.append(step)
        return self

    def convert_element_type(self, type: Any = None) -> PreProcessSteps:
        """Convert the element type, by default to the model's."""
        return self._add(steps.convert_type(None if type is None else to_type(to_element_type(type))))

    def convert_layout(self, layout: Any = None) -> PreProcessSteps:
        """Convert the layout, or reorder the dimensions; by default to the layout of the model."""
        target = to_layout(layout) if isinstance(layout, str) else layout
        return self._add(steps.convert_layout(target))

    def convert_color(self, dst_format: ColorFormat) -> PreProcessSteps:
        """Convert the color format."""
        return self._add(steps.convert_color(dst_format))

    def mean(self, value: float | Sequence[float]) -> PreProcessSteps:
        """Subtract a value, or one value per channel."""
        return self._add(steps.normalize(value, is_scale=False))

    def scale(self, value: float | Sequence[float]) -> PreProcessSteps:
        """Divide by a value, or by one value per channel."""
        return self._add(steps.normalize(value, is_scale=True))

    def resize(
        self, alg: ResizeAlgorithm, dst_height: int | None = None, dst_width: int | None = None
    ) -> PreProcessSteps:
        """Resize an image, by default to the size that the model expects."""
        return self._add(steps.resize(alg, dst_height, dst_width))

    def crop(self, begin: Sequence[int], end: Sequence[int]) -> PreProcessSteps:
        """Take a part of a tensor."""
        return self._add(steps.crop(begin, end))

    def pad(self, pads_begin: Sequence[int], pads_end: Sequence[int], value: Any, mode: PaddingMode) -> PreProcessSteps:
        """Pad a tensor."""
        return self._add(steps.pad(pads_begin, pads_end, value, mode))

    def reverse_channels(self) -> PreProcessSteps:
        """Reverse the order of the channels."""
        return self._add(steps.reverse_channels())

    def custom(self, operation: Callable[[Output], Any]) -> PreProcessSteps:
        """Apply a function that takes and returns an output of a node."""
        return self._add(steps.custom(operation))


class InputInfo:
    """An input and its preprocessing.

    Args:
        parameter: The Parameter.
    """

    def __init__(self, parameter: Node) -> None:
        self._parameter = parameter
        self._tensor = InputTensorInfo()
        self._steps = PreProcessSteps()
        self._model = InputModelInfo()

    def tensor(self) -> InputTensorInfo:
        """Return what programs pass."""
        return self._tensor

    def preprocess(self) -> PreProcessSteps:
        """Return the steps."""
        return self._steps

    def model(self) -> InputModelInfo:
        """Return what the model expects."""
        return self._model

    def _start(self) -> tuple[list[Node], steps.Context]:
        """Return the Parameters that replace the present one, and the context of the first step."""
        old, color_format = self._parameter, self._tensor._color_format
        orders = [step.layout for step in self._steps._steps if step.layout is not None]
        model_layout = self._model._layout or old.layout
        layout = self._tensor._layout or Layout()
        if self._tensor._layout is None and color_format is not ColorFormat.UNDEFINED:
            layout = Layout("NHWC")
        elif self._tensor._layout is None:
            layout = model_layout
            for order in reversed(orders):
                if not isinstance(order, Layout):
                    layout = steps.permute_layout(layout, np.argsort(order).tolist())
        elif model_layout.empty:
            model_layout = layout
            for order in orders:
                if not isinstance(order, Layout):
                    model_layout = steps.permute_layout(model_layout, order)
                elif not order.empty:
                    model_layout = order
        parameters = self._make_parameters(layout, model_layout)
        outputs = [Output(parameter, 0) for parameter in parameters]
        shape, element_type = old.partial_shape, old.element_type
        return parameters, steps.Context(outputs, layout, color_format, shape, model_layout, element_type)

    def _build(self) -> list[Node]:
        """Add the layers, and return the Parameters that replace the present one.

        Raises:
            RuntimeError: A step cannot be applied, or the result does not fit the model.
        """
        old = self._parameter
        parameters, context = self._start()
        for step in self._steps._steps:
            step.apply(context)
        for step in context.list_implicit_steps():
            step.apply(context)
        result = context.output
        if not result.partial_shape.compatible(old.partial_shape):
            raise RuntimeError(
                f"Resulting shape '{result.partial_shape}' after preprocessing is not aligned with original "
                f"parameter's shape: {old.partial_shape}, input parameter: {old.get_friendly_name()}"
            )
        for target in Output(old, 0).get_target_inputs():
            if not any(target.node is parameter for parameter in parameters):
                target.replace_source_output(result)
        return parameters

    def _make_parameters(self, layout: Layout, model_layout: Layout) -> list[Node]:
        old, color_format = self._parameter, self._tensor._color_format
        shape = self._tensor._shape or self._derive_shape(layout, model_layout)
        shapes = steps.plane_shapes(color_format, shape) if color_format in steps._PLANES else [shape]
        if self._tensor._shape is not None and len(shapes) == 1:
            shapes = [shape]
        element_type = self._tensor._type or old.element_type
        names = Output(old, 0).names
        parameters = []
        for i, plane in enumerate(shapes):
            parameter = make_parameter(plane, element_type)
            suffix = f"/{self._tensor._sub_names[i]}" if self._tensor._sub_names else ""
            if len(shapes) == 1 or suffix:
                parameter.set_friendly_name(old.get_friendly_name() + suffix)
                parameter.output(0).set_names({name + suffix for name in names})
            parameter.layout = layout
            if self._tensor._memory_type is not None:
                parameter.output(0).set_rt_info(self._tensor._memory_type, "memory_type_0")
            parameters.append(parameter)
        return parameters

    def _derive_shape(self, layout: Layout, model_layout: Layout) -> PartialShape:
        """Return the shape that programs pass, where it was not set."""
        shape = self._parameter.partial_shape
        if shape.rank.is_dynamic:
            return shape
        order = steps.find_permutation(model_layout, layout, len(shape))
        if order is not None:
            shape = PartialShape([shape[i] for i in order])
        elif layout == model_layout or layout.empty or model_layout.empty:
            for step in reversed(self._steps._steps):
                if step.layout is not None and not isinstance(step.layout, Layout):
                    shape = PartialShape([shape[i] for i in np.argsort(step.layout)])
        if self._tensor._spatial is not None:
            for name, length in zip("HW", self._tensor._spatial, strict=True):
                if not layout.has_name(name):
                    raise RuntimeError(f"the layout {layout} has no dimension {name}, but its size is set")
                shape[layout.get_index_by_name(name) % len(shape)] = length
        channels = {ColorFormat.RGBX: 4, ColorFormat.BGRX: 4}
        count = channels.get(self._tensor._color_format)
        if self._tensor._color_format in (ColorFormat.RGB, ColorFormat.BGR):
            count = 3
        if count is not None and layout.has_name("C"):
            shape[layout.get_index_by_name("C") % len(shape)] = Dimension(count)
        return shape
