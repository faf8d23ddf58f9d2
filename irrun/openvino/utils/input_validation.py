"""Checks of the attributes that callers pass to functions that create nodes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np

from irrun.openvino.exceptions import UserInputError

__all__ = [
    "assert_list_of_ints",
    "check_valid_attribute",
    "check_valid_attributes",
    "is_non_negative_value",
    "is_positive_value",
]


def assert_list_of_ints(value_list: Iterable[int], message: str) -> None:
    """Raise a UserInputError with a message unless all values are integers."""
    if not isinstance(value_list, Iterable) or not all(isinstance(value, int) for value in value_list):
        raise UserInputError(message, value_list)


def check_valid_attribute(
    op_name: str,
    attr_dict: Mapping[str, Any],
    attr_key: str,
    val_type: Any,
    cond: Callable[[Any], bool] | None = None,
    required: bool = False,
) -> bool:
    """Check one attribute, a number or several numbers.

    Args:
        op_name: The type of the node.
        attr_dict: The attributes by name.
        attr_key: The name of the attribute.
        val_type: The type of NumPy or Python that its values must have.
        cond: An additional condition for each value.
        required: Whether the attribute must be present.

    Raises:
        UserInputError: The attribute is missing, or a value has another type or violates the condition.
    """
    if attr_key not in attr_dict:
        if required:
            raise UserInputError(f'{op_name} requires the attribute "{attr_key}", which is missing')
        return True
    values = attr_dict[attr_key]
    return all(
        _check_value(op_name, attr_key, value, val_type, cond)
        for value in ([values] if np.isscalar(values) else values)
    )


def _check_value(
    op_name: str, attr_key: str, value: Any, val_type: Any, cond: Callable[[Any], bool] | None = None
) -> bool:
    """Check one number of an attribute; see `check_valid_attribute`."""
    if not np.issubdtype(type(value), val_type):
        raise UserInputError(f'{op_name}: attribute "{attr_key}" is {value!r}, expected a value of {val_type}')
    if cond is not None and not cond(value):
        raise UserInputError(f'{op_name}: attribute "{attr_key}" is {value!r}, which violates its condition')
    return True


def check_valid_attributes(
    op_name: str, attributes: Mapping[str, Any], requirements: Iterable[tuple[str, bool, Any, Any]]
) -> bool:
    """Check several attributes: pairs of name, whether it is required, type and condition.

    Raises:
        UserInputError: See `check_valid_attribute`.
    """
    for name, required, value_type, condition in requirements:
        check_valid_attribute(op_name, attributes, name, value_type, condition, required)
    return True


def is_positive_value(value: Any) -> bool:
    """Return whether a number is greater than 0."""
    return bool(value > 0)


def is_non_negative_value(value: Any) -> bool:
    """Return whether a number is at least 0."""
    return bool(value >= 0)
