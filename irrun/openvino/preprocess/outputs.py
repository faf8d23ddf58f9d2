"""The declaration of outputs and the steps of their postprocessing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from irrun.openvino.element_type import Type, to_element_type, to_type
from irrun.openvino.layout import Layout, to_layout
from irrun.openvino.node import Node, Output
from irrun.openvino.preprocess import steps
from irrun.openvino.preprocess.enumerations import ColorFormat

__all__ = ["OutputInfo", "OutputModelInfo", "OutputTensorInfo", "PostProcessSteps"]


class OutputTensorInfo:
    """An output as programs receive it."""

    def __init__(self) -> None:
        self._type: Type | None = None
        self._layout: Layout | None = None

    def set_element_type(self, type: Any) -> OutputTensorInfo:
        """Set the element type."""
        self._type = to_type(to_element_type(type))
        return self

    def set_layout(self, layout: Layout | str) -> OutputTensorInfo:
        """Set the layout."""
        self._layout = to_layout(layout)
        return self


class OutputModelInfo:
    """An output as the model computes it."""

    def __init__(self) -> None:
        self._layout: Layout | None = None
        self._color_format = ColorFormat.UNDEFINED

    def set_layout(self, layout: Layout | str) -> OutputModelInfo:
        """Set the layout."""
        self._layout = to_layout(layout)
        return self

    def set_color_format(self, format: ColorFormat, sub_names: Any = ()) -> OutputModelInfo:
        """Set the color format."""
        self._color_format = format
        return self


class PostProcessSteps:
    """The steps of the postprocessing of an output, in order."""

    def __init__(self) -> None:
        self._steps: list[steps.Step] = []

    def _add(self, step: steps.Step) -> PostProcessSteps:
        self._steps.append(step)
        return self

    def convert_element_type(self, type: Any = None) -> PostProcessSteps:
        """Convert the element type, by default to the tensor's."""
        return self._add(steps.convert_type(None if type is None else to_type(to_element_type(type))))

    def convert_layout(self, layout: Any = None) -> PostProcessSteps:
        """Convert the layout, or reorder the dimensions; by default to the layout of the tensor."""
        return self._add(steps.convert_layout(to_layout(layout) if isinstance(layout, str) else layout))

    def convert_color(self, dst_format: ColorFormat) -> PostProcessSteps:
        """Convert the color format."""
        return self._add(steps.convert_color(dst_format))

    def custom(self, operation: Callable[[Output], Any]) -> PostProcessSteps:
        """Apply a function that takes and returns an output of a node."""
        return self._add(steps.custom(operation))


class OutputInfo:
    """An output and its postprocessing.

    Args:
        result: The Result.
    """

    def __init__(self, result: Node) -> None:
        self._result = result
        self._tensor = OutputTensorInfo()
        self._steps = PostProcessSteps()
        self._model = OutputModelInfo()

    def tensor(self) -> OutputTensorInfo:
        """Return what programs receive."""
        return self._tensor

    def postprocess(self) -> PostProcessSteps:
        """Return the steps."""
        return self._steps

    def model(self) -> OutputModelInfo:
        """Return what the model computes."""
        return self._model

    def _start(self, source: Output) -> steps.Context:
        """Return the context of the first step for a value."""
        layout = self._model._layout or self._result.layout
        target_layout = self._tensor._layout or Layout()
        element_type = self._tensor._type or source.element_type
        color_format = self._model._color_format
        return steps.Context([source], layout, color_format, source.partial_shape, target_layout, element_type)

    def _list_implicit_steps(self, context: steps.Context) -> list[steps.Step]:
        """Return the conversions to the element type and the layout of the tensor that remain."""
        if self._tensor._type is None:
            context.model_type = context.output.element_type
        return context.list_implicit_steps()

    def _build(self) -> None:
        """Add the layers before the Result."""
        source = self._result.input_value(0)
        context = self._start(source)
        for step in self._steps._steps:
            step.apply(context)
        for step in self._list_implicit_steps(context):
            step.apply(context)
        names = Output(self._result, 0).names
        if context.output != source:
            source._data.names -= names
            self._result.input(0).replace_source_output(context.output)
            context.output.add_names(names)
        if not context.layout.empty:
            self._result.layout = context.layout
