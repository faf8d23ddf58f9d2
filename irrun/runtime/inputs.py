"""Conversion of the arguments of a run to the declared inputs of a model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Union

import numpy as np

from irrun.element_types import ElementType
from irrun.errors import InputError
from irrun.ir.model import TensorSpec

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

__all__ = ["InputKey", "Inputs", "collect_inputs", "convert_input", "describe_type", "find_position"]

Array = np.ndarray[Any, Any]

#: A key that identifies an input: a name, a position or a tensor spec.
InputKey = str | int | TensorSpec

#: The inputs of a run: an array for a model of one input, a sequence in the order of the Parameters, or a mapping.
Inputs = Union["ArrayLike", "Sequence[ArrayLike]", "Mapping[Any, ArrayLike]", None]


def collect_inputs(inputs: Inputs, specs: Sequence[TensorSpec], names: Mapping[str, int]) -> list[Array]:
    """Convert the inputs of a run to one array per Parameter.

    Args:
        inputs: An array, a sequence or a mapping.
        specs: The inputs that the model declares.
        names: The position of each name of an input.

    Raises:
        InputError: A name is unknown, an input is missing or passed twice, or a type or shape does not match.
    """
    values = _assign_positions(inputs, specs, names)
    missing = [str(spec) for i, spec in enumerate(specs) if i not in values]
    if missing:
        raise InputError(f"missing input {', '.join(missing)}")
    return [convert_input(values[i], spec) for i, spec in enumerate(specs)]


def _assign_positions(inputs: Inputs, specs: Sequence[TensorSpec], names: Mapping[str, int]) -> dict[int, Any]:
    if inputs is None:
        return {}
    if isinstance(inputs, Mapping):
        values: dict[int, Any] = {}
        for key, value in inputs.items():
            position = find_position(key, specs, names)
            if position is None:
                shown = str(key) if isinstance(key, TensorSpec) else repr(key)
                known = "; ".join(map(str, specs)) or "none"
                raise InputError(f"unknown input {shown}; the model has {known}")
            if position in values:
                raise InputError(f"input {specs[position]} is passed twice")
            values[position] = value
        return values
    is_sequence = isinstance(inputs, (list, tuple)) and (
        len(specs) != 1 or (len(inputs) == 1 and isinstance(inputs[0], (np.ndarray, np.generic)))
    )
    sequence: list[Any] = list(inputs) if is_sequence else [inputs]  # type: ignore[arg-type]
    if len(sequence) > len(specs):
        raise InputError(f"{len(sequence)} inputs are passed, the model has {len(specs)}")
    return dict(enumerate(sequence))


def find_position(key: object, specs: Sequence[TensorSpec], names: Mapping[str, int]) -> int | None:
    """Return the position that a key refers to, or None if there is no such input."""
    if isinstance(key, str):
        return names.get(key)
    if isinstance(key, TensorSpec):
        return next((i for i, spec in enumerate(specs) if spec == key), None)
    return int(key) if isinstance(key, (int, np.integer)) and 0 <= key < len(specs) else None


def convert_input(value: ArrayLike, spec: TensorSpec) -> Array:
    """Convert a value to the element type of an input without loss.

    Args:
        value: An array, or anything that `np.asarray` accepts.
        spec: The declaration of the input.

    Returns:
        An array of the declared type; `value` itself if it already is one.

    Raises:
        InputError: The type or the shape does not match.
    """
    array = _convert_type(value, spec)
    if spec.partial_shape is not None and not spec.partial_shape.is_compatible(array.shape):
        raise InputError(f"input {spec} does not accept shape {list(array.shape)}")
    return array


def _convert_type(value: Any, spec: TensorSpec) -> Array:
    expected = spec.element_type
    if expected is not None and expected.kind == "string":
        return _convert_strings(value, spec)
    is_array = isinstance(value, (np.ndarray, np.generic))
    try:
        array = np.asarray(value)
        if expected is None:
            expected = ElementType.of(array.dtype)
        if array.dtype == expected.dtype and expected.kind != "string":
            return array
        if expected.kind == "string":
            return _convert_strings(value, spec)
        if array.dtype.kind in "OUScmM" or array.dtype.fields or array.dtype.type is np.void:
            raise ValueError
        if expected.dtype.fields:
            return _convert_codes(array, expected)
        with np.errstate(all="ignore"):
            converted = array.astype(expected.dtype)
            if not is_array and expected.is_float and array.dtype.kind in "iuf":
                return converted  # Python numbers do not have a precision that could be lost
            restored = converted.astype(array.dtype)
    except InputError:
        raise
    except (ValueError, TypeError, OverflowError):
        raise InputError(f"input {spec} does not accept {describe_type(value)}") from None
    is_same = (restored == array) | ((restored != restored) & (array != array))
    if not np.all(is_same):
        raise InputError(
            f"input {spec} does not accept {describe_type(value)} with values that {expected} cannot represent; "
            "convert it first"
        )
    return converted


def _convert_strings(value: Any, spec: TensorSpec) -> Array:
    array = np.array(value, dtype=object)
    for index, element in np.ndenumerate(array):
        if isinstance(element, bytes):
            array[index] = element.decode("utf-8", "surrogateescape")
        elif not isinstance(element, str):
            raise InputError(f"input {spec} does not accept a {type(element).__name__} among its strings")
    return array


def _convert_codes(array: Array, element_type: ElementType) -> Array:
    """Convert integers to a type without arithmetic, of which they are the codes.

    Raises:
        ValueError: The elements are not integers, or have more bits.
    """
    if array.dtype.kind not in "iu" or not np.all((array >= 0) & (array < 1 << element_type.bits)):
        raise ValueError
    codes: Array = np.array(array, np.uint8).view(element_type.dtype)
    return codes


def describe_type(value: object) -> str:
    """Return the type of a value, for a message."""
    if not isinstance(value, (np.ndarray, np.generic)):
        return f"a {type(value).__name__}"
    if value.dtype.kind == "O":
        return "objects"
    try:
        return str(ElementType.of(value.dtype))
    except ValueError:
        return str(value.dtype)
