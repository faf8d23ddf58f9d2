"""Shapes of inputs from texts such as "data=1,3,224,224", and the size of the batch."""

from __future__ import annotations

import re
from collections.abc import Iterable

from irrun.data.axes import find_batch_axes
from irrun.errors import InputError, IrrunError
from irrun.ir.model import Model, TensorSpec, index_names
from irrun.numerals import is_decimal
from irrun.shapes import PartialShape, parse_shape

__all__ = ["apply_batch", "apply_shapes", "copy_shapes"]

_BRACKETS = re.compile(r"\s*,?\s*([^\[\]]*?)\s*\[([^\]]*)\]")


def apply_shapes(model: Model, texts: Iterable[str]) -> None:
    """Change the shapes of inputs.

    Args:
        model: The model.
        texts: Texts of the form `[name=]1,3,224,224`. `?` and `-1` are dynamic dimensions, and `1..8` is a dynamic
            dimension with bounds. The form of OpenVINO's benchmark_app, `ids[1,16],mask[1,16]`, is accepted too.

    Raises:
        InputError: A name is unknown, a text is not a shape, or the model does not accept it.
    """
    inputs = model.inputs
    shapes: dict[int, PartialShape] = {}
    for text in [texts] if isinstance(texts, str) else texts:
        for name, shape_text in _split_shapes(text, inputs):
            position = _find_position(name, text, inputs)
            if position in shapes:
                raise InputError(f"two shapes for input {inputs[position]}")
            shapes[position] = _parse(shape_text, text, inputs[position])
    _reshape(model, shapes)


def apply_batch(model: Model, batch: int) -> None:
    """Change the size of the batch of all inputs; see `find_batch_axes`.

    Args:
        model: The model.
        batch: The size, or -1 for a dynamic batch.

    Raises:
        InputError: No input has a batch, or the model does not accept the size.
    """
    inputs = model.inputs
    shapes: dict[int, PartialShape] = {}
    for position, (tensor, axis) in enumerate(zip(inputs, find_batch_axes(inputs), strict=True)):
        if axis is not None and tensor.partial_shape is not None:
            dimensions = tensor.partial_shape
            shapes[position] = PartialShape([*dimensions[:axis], batch, *dimensions[axis + 1 :]])
    if not shapes:
        raise InputError(f"no input has a batch: {_format_inputs(inputs)}")
    _reshape(model, shapes)


def copy_shapes(model: Model, other: Model) -> None:
    """Give the inputs of another model the same shapes as the inputs of a model.

    Args:
        model: The model.
        other: The other model. Its inputs are found by name, or else by position.

    Raises:
        InputError: The models have different inputs, or the other one does not accept a shape.
    """
    specs, others = model.inputs, other.inputs
    if len(specs) != len(others):
        raise InputError(f"the models have {len(specs)} and {len(others)} inputs, expected the same inputs")
    names = index_names(others)
    found = [next((names[n] for n in spec.names if n in names), None) for spec in specs]
    positions = range(len(specs)) if None in found or len(set(found)) < len(found) else found
    shapes = {
        position: spec.partial_shape
        for position, spec in zip(positions, specs, strict=True)
        if position is not None and spec.partial_shape is not None
    }
    _reshape(other, {i: shape for i, shape in shapes.items() if shape != others[i].partial_shape})


def _reshape(model: Model, shapes: dict[int, PartialShape]) -> None:
    if not shapes:
        return
    try:
        model.reshape(shapes)
    except InputError:
        raise
    except (IrrunError, ValueError) as error:
        raise InputError(str(error)) from None


def _split_shapes(text: str, inputs: list[TensorSpec]) -> list[tuple[str, str]]:
    """Split a text into pairs of a name, which may be "", and the text of a shape."""
    names = [name for name in index_names(inputs) if text.startswith(name + "=")]
    if names:
        name = max(names, key=len)
        return [(name, text[len(name) + 1 :])]
    name, equals, rest = text.partition("=")
    if equals:
        return [(name.strip(), rest)]
    matches = list(_BRACKETS.finditer(text))
    if matches and "".join(match[0] for match in matches) == text.rstrip():
        return [(match[1], match[2]) for match in matches]
    return [("", text)]


def _find_position(name: str, text: str, inputs: list[TensorSpec]) -> int:
    if not name:
        if len(inputs) != 1:
            raise InputError(f"expected NAME={text}; the model has {_format_inputs(inputs)}")
        return 0
    position = index_names(inputs).get(name)
    if position is None and is_decimal(name) and int(name[:9]) < len(inputs):
        position = int(name)
    if position is None:
        raise InputError(f"unknown input {name!r}; the model has {_format_inputs(inputs)}")
    return position


def _parse(shape_text: str, text: str, tensor: TensorSpec) -> PartialShape:
    try:
        shape = parse_shape(re.sub(r"(?<=[\d?])x(?=[\d?-])", ",", shape_text))
    except ValueError as error:
        raise InputError(f"{text!r} for input {tensor}: {error}") from None
    if shape is None:
        raise InputError(f"{text!r} for input {tensor}: expected a shape such as 1,3,224,224")
    declared = tensor.partial_shape
    if declared is not None and len(shape) != len(declared):
        raise InputError(f"{text!r} has {len(shape)} dimensions, expected {len(declared)} for input {tensor}")
    return shape


def _format_inputs(inputs: Iterable[TensorSpec]) -> str:
    return "; ".join(map(str, inputs)) or "no inputs"
