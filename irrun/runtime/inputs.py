"""Conversion of the arguments of a run to the declared inputs of a model."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Union

import numpy as np

from irrun.element_types import ElementType
from irrun.errors import InputError
from irrun.formatting import format_count
from irrun.ir.model import TensorSpec
from irrun.shapes import PartialShape

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

__all__ = ["InputKey", "Inputs", "collect_inputs", "convert_input", "describe_tensor", "describe_type", "find_position"]

Array = np.ndarray[Any, Any]

#: The orders of axes that convert the layouts of images.
_TO_NCHW = (0, 3, 1, 2)
_TO_NHWC = (0, 2, 3, 1)

#: A key that identifies an input: a name, a position or a tensor spec.
InputKey = str | int | TensorSpec

#: The inputs of a run: an array for a model with one input, a sequence in the order of the Parameters, or a mapping.
Inputs = Union["ArrayLike", "Sequence[ArrayLike]", "Mapping[Any, ArrayLike]", None]


def collect_inputs(inputs: Inputs, specs: Sequence[TensorSpec], names: Mapping[str, int]) -> list[Array]:
    """Convert the inputs of a run to one array per Parameter.

    Args:
        inputs: An array, a sequence or a mapping.
        specs: The inputs that the model declares.
        names: The position of each name of an input.

    Raises:
        InputError: A name is unknown, an input is missing or given twice, or a type or shape does not match.
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
                raise InputError(f"found two values for input {specs[position]}")
            values[position] = value
        return values
    is_sequence = isinstance(inputs, (list, tuple)) and (
        len(specs) != 1 or (len(inputs) == 1 and isinstance(inputs[0], (np.ndarray, np.generic)))
    )
    sequence: list[Any] = list(inputs) if is_sequence else [inputs]  # type: ignore[arg-type]
    if len(sequence) > len(specs):
        raise InputError(f"found {format_count(len(sequence), 'input')}, the model has {len(specs)}")
    return dict(enumerate(sequence))


def find_position(key: object, specs: Sequence[TensorSpec], names: Mapping[str, int]) -> int | None:
    """Return the position that a key refers to, or None if there is no such input."""
    if isinstance(key, str):
        return names.get(key)
    if isinstance(key, TensorSpec):
        return next((i for i, spec in enumerate(specs) if spec == key), None)
    return int(key) if isinstance(key, (int, np.integer)) and 0 <= key < len(specs) else None


def convert_input(value: ArrayLike, spec: TensorSpec) -> Array:
    """Convert a value to the element type of an input.

    As in OpenVINO, floats are cast to any floating-point type. Other conversions must not change a value, and floats
    are never converted to integers. If the shape has one dimension, a scalar is accepted as its element.

    Args:
        value: An array, or anything that `np.asarray` accepts.
        spec: The declaration of the input.

    Returns:
        An array of the declared type; `value` itself if it already is one.

    Raises:
        InputError: The type or the shape does not match.
    """
    array = _convert_type(value, spec)
    if array.ndim == 0 and spec.partial_shape is not None and spec.partial_shape.is_compatible((1,)):
        array = array.reshape(1)
    if spec.partial_shape is not None and not spec.partial_shape.is_compatible(array.shape):
        reason = _explain_shape(array.shape, spec.partial_shape)
        raise InputError(f"input {spec} does not accept shape {list(array.shape)}: {reason}")
    return array


def _explain_shape(shape: tuple[int, ...], expected: PartialShape) -> str:
    """Return the difference between a shape and the declared shape, and the likely cause."""
    if len(shape) == len(expected):
        order = _find_layout_change(shape, expected)
        if order is not None:
            found, declared = ("NHWC", "NCHW") if order == _TO_NCHW else ("NCHW", "NHWC")
            return f"it looks like {found}, expected {declared}; transpose it: x.transpose{order}"
        differences = [
            f"dimension {i} is {actual}, expected {dimension}"
            for i, (actual, dimension) in enumerate(zip(shape, expected, strict=True))
            if not PartialShape([dimension]).is_compatible([actual])
        ]
        is_batch = len(shape) > 1 and [d[:11] for d in differences] == ["dimension 0"]
        hint = f"; another batch size requires Model.reshape or --batch {shape[0]}" if is_batch else ""
        return "; ".join(differences) + hint
    message = f"found {format_count(len(shape), 'dimension')}, expected {len(expected)}"
    if expected.is_compatible((1, *shape)):
        return f"{message}; add a batch axis: x[None]"
    if len(expected) == 4 and len(shape) == 3:
        order = _find_layout_change((1, *shape), expected)
        if order is not None:
            axes = tuple(axis - 1 for axis in order[1:])
            found, declared = ("HWC", "NCHW") if order == _TO_NCHW else ("CHW", "NHWC")
            return f"{message}; it looks like {found}, expected {declared}: x.transpose{axes}[None]"
    if shape[:1] == (1,) and expected.is_compatible(shape[1:]):
        return f"{message}; remove the first axis: x[0]"
    return message


def _find_layout_change(shape: tuple[int, ...], expected: PartialShape) -> tuple[int, ...] | None:
    """Return the order of axes that converts between NHWC and NCHW and makes the shape fit, or None."""
    for order in (_TO_NCHW, _TO_NHWC):
        if len(shape) == len(expected) == 4 and expected.is_compatible([shape[axis] for axis in order]):
            return order
    return None


def _convert_type(value: Any, spec: TensorSpec) -> Array:
    expected = spec.element_type
    if expected is not None and expected.kind == "string":
        return _convert_strings(value, spec)
    is_array = isinstance(value, (np.ndarray, np.generic))
    try:
        array = _to_array(value)
        if expected is None:
            expected = ElementType.of(array.dtype)
        if array.dtype == expected.dtype and expected.kind != "string":
            # Kernels compare types by identity, and an array from another process has its own dtype object.
            return array if array.dtype is expected.dtype else array.view(expected.dtype)
        if not is_array and not array.size and not expected.dtype.fields:  # NumPy makes f64 of an empty list
            return array.astype(expected.dtype)
        if expected.kind == "string":
            return _convert_strings(value, spec)
        if array.dtype.kind in "OUScmM" or array.dtype.fields or array.dtype.type is np.void:
            if _has_bits_of(array, expected):
                return array.view(expected.dtype)
            raise ValueError
        if expected.dtype.fields:
            return _convert_codes(array, expected)
        if _is_float(array.dtype) and not expected.is_float:
            shown = describe_type(value)
            shown = f"{shown} of floats" if shown.startswith("a ") else shown
            raise InputError(
                f"input {spec} does not accept {shown}: floats are not converted to {expected}; "
                f"convert it first, for example with x.astype(np.{expected.dtype.name})"
            )
        if expected.is_float and expected.bits >= 16 and array.dtype in (np.uint8, np.int8):
            return _convert_bytes(array, expected.dtype)
        with np.errstate(all="ignore"):
            converted = array.astype(expected.dtype)
            if expected.is_float and (_is_float(array.dtype) or (not is_array and array.dtype.kind in "iu")):
                return converted  # Python's own integers have no width that could be lost
            restored = converted.astype(array.dtype)
    except InputError:
        raise
    except (ValueError, TypeError, OverflowError):
        raise InputError(f"input {spec} does not accept {describe_type(value)}{_explain_type(value)}") from None
    is_same = (restored == array) & ((converted < 0) == (array < 0))  # u64 and i64 exchange their sign bits
    if not np.all(is_same):
        raise InputError(
            f"input {spec} does not accept {describe_type(value)} with values that {expected} cannot represent; "
            "convert it first"
        )
    return converted


def _to_array(value: Any) -> Array:
    """Return a value as an array.

    Raises:
        ValueError: It cannot be converted.
    """
    try:
        return np.asarray(value)
    except Exception as error:  # objects convert themselves
        raise ValueError from error


def _convert_bytes(array: Array, dtype: np.dtype[Any]) -> Array:
    """Convert 8-bit integers to floats, which represent all of them exactly."""
    if dtype != np.float16 or array.dtype != np.uint8:
        return array.astype(dtype)
    # NumPy rounds to f16 in software. If exponents fit in f16, the bits of f32 only move.
    bits = (array.astype(np.float32) * np.float32(2.0**-112)).view(np.uint32)
    return np.asarray((bits >> np.uint32(13)).astype(np.uint16).view(np.float16))


def _explain_type(value: Any) -> str:
    """Explain why a value is not an array of numbers, judging by its type."""
    if isinstance(value, (str, os.PathLike)):
        return "; irrun.load_inputs reads files"
    if isinstance(value, (list, tuple)):
        lengths = {len(x) for x in value if isinstance(x, (list, tuple))}
        return f" with rows of {min(lengths)} and {max(lengths)} elements" if len(lengths) > 1 else ""
    return ""


def _is_float(dtype: np.dtype[Any]) -> bool:
    return ElementType.of(dtype).is_float


def _has_bits_of(array: Array, element_type: ElementType) -> bool:
    """Return whether an array contains the bits of a type that NumPy does not have, as in files of np.save."""
    is_void = array.dtype.type is np.void and not array.dtype.fields
    is_extension = element_type.is_float and element_type.bits >= 8 and element_type.dtype.type.__module__ != "numpy"
    return is_void and is_extension and array.dtype.itemsize == element_type.dtype.itemsize


def _convert_strings(value: Any, spec: TensorSpec) -> Array:
    array = np.array(value, dtype=object)
    elements = array.reshape(-1)  # np.ndenumerate supports 32 dimensions only
    for index, element in enumerate(elements):
        if isinstance(element, bytes):
            elements[index] = element.decode("utf-8", "surrogateescape")
        elif not isinstance(element, str):
            raise InputError(f"input {spec} does not accept a {type(element).__name__} among its strings")
    return array


def _convert_codes(array: Array, element_type: ElementType) -> Array:
    """Convert integer codes to a type without arithmetic.

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


def describe_tensor(array: Array) -> str:
    """Return the type and the shape of an array, such as "f32[1,3]"."""
    return f"{describe_type(array)}[{','.join(map(str, array.shape))}]"
