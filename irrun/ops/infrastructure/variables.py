"""Variables: ReadValue, Assign."""

from __future__ import annotations

from irrun.element_types import ElementType
from irrun.ops._support.context import Declaration, Variables
from irrun.ops._support.numerics import Array
from irrun.ops._support.registry import op
from irrun.shapes import PartialShape

__all__ = ["assign_3", "read_value_3", "read_value_6"]


@op("ReadValue", since=3, kind="state", shape="infer_variable", flops=0)
def read_value_3(init_value: Array, *, variable_id: str, variables: Variables) -> Array:
    """Return the value of a variable.

    Args:
        init_value: Any type, any shape. The value until the variable is written. Its type is the type of the variable.
        variable_id: Name of the variable.
        variables: The variables of the infer request.

    Returns:
        The last value that Assign wrote, or `init_value`.

    Raises:
        InputError: The value has another type.

    Spec:
        ReadValue-3
    """
    declaration = Declaration(ElementType.of(init_value.dtype), None)
    variables.declarations[variable_id] = declaration
    value = variables.values.get(variable_id, init_value)
    declaration.check(variable_id, value)
    return value


@op("ReadValue", since=6, kind="state", shape="infer_variable", flops=0)
def read_value_6(
    init_value: Array | None = None,
    *,
    variable_id: str,
    variable_type: ElementType | None = None,
    variable_shape: PartialShape | None = None,
    variables: Variables,
) -> Array:
    """Return the value of a variable.

    Args:
        init_value: The declared type and shape. The value until the variable is written; zeros if omitted.
        variable_id: Name of the variable.
        variable_type: Type of the variable; None for the type of `init_value`.
        variable_shape: Shape of the variable; None for any shape. Dynamic dimensions of zeros have their lower bound.
        variables: The variables of the infer request.

    Returns:
        The last value that Assign wrote, or the initial value.

    Raises:
        InputError: The value does not have the declared type and shape.

    Spec:
        ReadValue-6
    """
    if variable_type is None and init_value is not None:
        variable_type = ElementType.of(init_value.dtype)
    declaration = Declaration(variable_type, variable_shape)
    variables.declarations[variable_id] = declaration
    value = variables.values.get(variable_id, init_value)
    if value is not None:
        declaration.check(variable_id, value)
        return value
    return declaration.make_zeros()


@op("Assign", since=3, kind="state", shape="keep_shape", flops=0)
@op("Assign", since=6, kind="state", shape="keep_shape", flops=0)
def assign_3(new_value: Array, *, variable_id: str, variables: Variables) -> Array:
    """Write a variable, which the next run of the infer request reads.

    Args:
        new_value: The declared type and shape of the variable.
        variable_id: Name of the variable.
        variables: The variables of the infer request.

    Returns:
        `new_value`.

    Raises:
        InputError: `new_value` does not have the declared type and shape.

    Spec:
        Assign-3, Assign-6
    """
    declaration = variables.declarations.get(variable_id)
    if declaration is not None:
        declaration.check(variable_id, new_value)
    variables.values[variable_id] = new_value
    return new_value
