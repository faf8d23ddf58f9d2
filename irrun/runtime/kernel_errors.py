"""Errors of kernels, as messages about the layer."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, NoReturn

import numpy as np

from irrun.element_types import ElementType
from irrun.errors import ExecutionError, IrrunError
from irrun.ir.graph import Layer
from irrun.runtime.observer import Scope
from irrun.runtime.program import Instruction

__all__ = ["raise_located"]

Array = np.ndarray[Any, Any]


def raise_located(error: Exception, instruction: Instruction, inputs: Sequence[Array | None], scope: Scope) -> NoReturn:
    """Raise the exception of a kernel as an error that names its layer.

    Args:
        error: The exception. An error of irrun is raised again; if it does not name a layer, the layer is added.
        instruction: The instruction of the kernel.
        inputs: The inputs of the instruction.
        scope: The layers whose bodies contain the instruction, outermost first, each with its iteration.

    Raises:
        IrrunError: Always.
    """
    if isinstance(error, IrrunError):
        _add_location(error, instruction.layer, scope)
        raise error
    message = _explain_error(error, instruction)
    shown = ", ".join(map(_describe_value, inputs))
    located = ExecutionError(f"{message}, for inputs {shown or 'none'}")
    _add_location(located, instruction.layer, scope)
    raise located from error


def _explain_error(error: Exception, instruction: Instruction) -> str:
    """Return the problem with the inputs of an instruction, as far as NumPy's exception tells.

    Kernels check what they depend on. This function covers NumPy's own checks: types that it cannot compute with, and
    shapes that cannot be broadcast.
    """
    text = f"{type(error).__name__}: {error}"
    if isinstance(error, MemoryError):
        return "out of memory"
    operation = instruction.operation
    if re.search(r"array is too big|[Mm]aximum (allowed|supported)|[Ii]nteger overflow", text):
        return f"{operation} would have a result with more elements than an array can have"
    if "ufunc" in text and isinstance(error, TypeError) and not operation.is_custom:
        return f"{operation} is not defined for these element types"
    if re.search(r"could not be broadcast|does not match|must match|mismatch in", text) and not operation.is_custom:
        return f"{operation} does not accept these shapes: {error}"
    if isinstance(error, (ValueError, IndexError)) and re.search(r"broadcast|shape|dimension|reshape|axis|axes", text):
        return f"{operation} does not accept inputs of these shapes ({text})"
    if isinstance(error, (ValueError, IndexError, OverflowError)) and not operation.is_custom:
        return f"{operation} does not accept these values ({text})"
    if isinstance(error, (TypeError, AttributeError)) and not operation.is_custom:
        return f"{operation} does not accept inputs of these element types and ranks ({text})"
    return text


def _describe_value(value: Array | None) -> str:
    """Return the type and shape of a value, for a message."""
    if value is None:
        return "none"
    try:
        name = str(ElementType.of(value.dtype))
    except ValueError:
        name = str(value.dtype)
    return f"{name}{list(value.shape)}"


def _add_location(error: IrrunError, layer: Layer, scope: Scope) -> None:
    """Add the layer and the iterations of the bodies that contain it to an error that does not name a layer."""
    if error.layer is None:
        bodies = "".join(f" in iteration {n} of {owner.describe()}" for owner, n in reversed(scope))
        error.layer = layer.describe() + bodies
        error.line = error.line or layer.line or None
