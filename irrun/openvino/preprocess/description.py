"""The text that describes the processing of inputs and outputs, after OpenVINO's."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from irrun.errors import IrrunError
from irrun.openvino.factories import make_parameter
from irrun.openvino.layout import Layout
from irrun.openvino.node import Node, Output
from irrun.openvino.preprocess.enumerations import ColorFormat
from irrun.openvino.preprocess.inputs import InputInfo
from irrun.openvino.preprocess.outputs import OutputInfo
from irrun.openvino.preprocess.steps import Context, Step, name_color

__all__ = ["describe"]


def describe(inputs: Iterable[InputInfo], outputs: Iterable[OutputInfo]) -> str:
    """Return the types, shapes and layouts of inputs and outputs before and after each step.

    It leaves out unchanged inputs and outputs. The text ends with the first error.

    Args:
        inputs: The inputs.
        outputs: The outputs.
    """
    parts: list[str] = []
    try:
        for info in inputs:
            parts.extend(_describe_input(info))
        for output_info in outputs:
            parts.extend(_describe_output(output_info))
    except (RuntimeError, IrrunError) as error:
        parts.append(f"\nError occurred: {error}\n")
    return "".join(parts)


def _describe_input(info: InputInfo) -> Iterator[str]:
    old, color_format, memory = info._parameter, info._tensor._color_format, info._tensor._memory_type
    parameters, context = info._start()
    first = Output(parameters[0], 0)
    is_changed = (first.partial_shape, first.element_type, context.layout, context.model_layout) != (
        old.partial_shape,
        old.element_type,
        old.layout,
        old.layout,
    )
    if not (is_changed or info._steps._steps or memory is not None or len(parameters) > 1):
        return
    yield f'Input "{_get_name(old)}"'
    if color_format is not ColorFormat.UNDEFINED:
        yield f" (color {name_color(color_format)})"
    yield ":\n" if memory is None else f" memory type={memory}:\n"
    if len(parameters) == 1:
        yield f"    User's input tensor: {_describe_value(first, context.layout)}\n"
    else:
        yield f"    {len(parameters)} user's tensors expected for each plane:\n"
        for i, parameter in enumerate(parameters):
            name = f"{_get_name(parameter)} " if info._tensor._sub_names else ""
            yield f"       {i}: {name}{_describe_value(Output(parameter, 0), context.layout)}\n"
    yield f"    Model's expected tensor: {_describe_value(Output(old, 0), context.model_layout)}\n"
    yield from _apply_steps("Pre-processing steps", info._steps._steps, context)
    yield from _apply_steps("Implicit pre-processing steps", context.list_implicit_steps(), context)


def _describe_output(info: OutputInfo) -> Iterator[str]:
    source = info._result.input_value(0)
    value = Output(make_parameter(source.partial_shape, source.element_type), 0)  # the model is not changed
    context = info._start(value)
    steps = info._steps._steps
    if not (steps or info._list_implicit_steps(context)):
        return
    yield f'Output "{_get_name(info._result)}":\n'
    yield f"    Model's data tensor: {_describe_value(value, context.layout)}\n"
    yield from _apply_steps("Post-processing steps", steps, context)
    yield from _apply_steps("Post-processing implicit steps", info._list_implicit_steps(context), context)
    yield f"    User's output tensor: {_describe_value(context.output, context.layout)}\n"


def _apply_steps(title: str, steps: list[Step], context: Context) -> Iterator[str]:
    if steps:
        yield f"    {title} ({len(steps)}):\n"
    for step in steps:
        yield f"      {step.name}: ({_describe_context(context)}"
        step.apply(context)
        yield f") -> ({_describe_context(context)})\n"


def _describe_context(context: Context) -> str:
    color = "" if context.color_format is ColorFormat.UNDEFINED else f", {name_color(context.color_format)}"
    return _describe_value(context.outputs[0], context.layout) + color


def _describe_value(value: Output, layout: Layout) -> str:
    return f"{value.partial_shape}, {'<no layout>' if layout.empty else layout}, {value.element_type.to_string()}"


def _get_name(node: Node) -> str:
    """Return the first tensor name of a Parameter or Result, or its friendly name."""
    names = Output(node, 0).names
    return min(names) if names else node.get_friendly_name()
