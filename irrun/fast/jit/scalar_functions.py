"""Elementwise functions of scalars of any type that kernels compute: integers, booleans, comparisons and selections."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from irrun.element_types import ElementType
from irrun.fast.errors import NoKernelError
from irrun.fast.jit.code import Function, Value

__all__ = ["ScalarFunction", "find_scalar_function"]

Array = np.ndarray[Any, Any]
DType = np.dtype[Any]
Emit = Callable[..., Value]

F32, I32, I64, BOOL = (np.dtype(name) for name in ("float32", "int32", "int64", "bool"))


class _Row(NamedTuple):
    """A function.

    Attributes:
        emit: Appends its instructions.
        operand_count: The number of operands.
        kinds: The supported kinds of NumPy types.
        compares: Whether the result is a boolean; otherwise it has the type of the last operand.
    """

    emit: Emit
    operand_count: int = 2
    kinds: str = "i"
    compares: bool = False


#: Operation -> function.
_ROWS: dict[str, _Row] = {}


def _computes(*operations: str, **options: Any) -> Callable[[Emit], Emit]:
    """Register the decorated function for operations; see `_Row` for the options."""

    def register(function: Emit) -> Emit:
        _ROWS.update(dict.fromkeys(operations, _Row(function, **options)))
        return function

    return register


class ScalarFunction(NamedTuple):
    """A function of scalars.

    Attributes:
        name: The operation.
        target: The LLVM type that Convert returns, or empty.
    """

    name: str
    target: str = ""
    result_count: int = 1
    is_vector: bool = False

    def emit(self, function: Function, values: Sequence[Value]) -> Sequence[Value]:
        """Append the instructions."""
        if self.target:
            return [_convert(function, values[0], self.target)]
        return [_ROWS[self.name].emit(function, *values)]


def find_scalar_function(
    operation: str, attributes: Mapping[str, Any], dtypes: Sequence[DType]
) -> tuple[ScalarFunction, DType]:
    """Return the function that computes an operation, and the type of its result.

    Args:
        operation: Type with version.
        attributes: The attributes.
        dtypes: The types of the inputs.

    Raises:
        NoKernelError: No such function exists.
    """
    if attributes.get("auto_broadcast", "numpy") != "numpy":
        raise NoKernelError("kernels broadcast as NumPy does")
    if operation == "Convert-1":
        return _find_conversion(dtypes[0], attributes["destination_type"])
    row = _ROWS.get(operation)
    if row is None or row.operand_count != len(dtypes):
        raise NoKernelError(f"{operation} has no compiled form")
    own = dtypes[1:] if operation == "Select-1" else dtypes
    if any(dtype.kind not in row.kinds or dtype != own[0] for dtype in own):
        raise NoKernelError(f"{operation} has no compiled form for these element types")
    if operation == "Select-1" and dtypes[0] != BOOL:
        raise NoKernelError("the condition is not boolean")
    name = operation if attributes.get("m_pythondiv", True) else f"{operation} toward zero"
    return ScalarFunction(name), BOOL if row.compares else own[-1]


def _find_conversion(source: DType, destination: ElementType) -> tuple[ScalarFunction, DType]:
    target = destination.dtype
    types = {F32: "float", I32: "i32", I64: "i64", BOOL: "i1"}
    if source not in types or target not in types:
        raise NoKernelError(f"the conversion from {source} to {target} has no compiled form")
    return ScalarFunction("Convert-1", types[target]), np.dtype(target)


def _convert(f: Function, x: Value, target: str) -> Value:
    if x.type == target:
        return x
    if target == "i1":
        return f.compare("une" if x.is_float else "ne", x, 0)
    if target == "float":
        return f.convert("uitofp" if x.type == "i1" else "sitofp", x, target)
    if x.type == "i1":
        return f.convert("zext", x, target)
    if x.is_float:  # values out of range and NaN become the lowest integer
        limit = float(1 << (int(target[1:]) - 1))
        fits = f.compare("oge", x, -limit) & f.compare("olt", x, limit)
        whole = f.convert("fptosi", f.select(fits, x, 0.0), target)
        return f.select(fits, whole, -(1 << (int(target[1:]) - 1)))
    return f.convert("trunc" if target == "i32" else "sext", x, target)


def _register_comparison(operation: str, integer: str, real: str) -> None:
    @_computes(operation, kinds="ifb" if integer in ("eq", "ne") else "if", compares=True)
    def compare(f: Function, a: Value, b: Value) -> Value:
        return f.compare(real if a.is_float else integer, a, b)


for _operation, *_conditions in (
    ("Equal-1", "eq", "oeq"),
    ("NotEqual-1", "ne", "une"),
    ("Less-1", "slt", "olt"),
    ("LessEqual-1", "sle", "ole"),
    ("Greater-1", "sgt", "ogt"),
    ("GreaterEqual-1", "sge", "oge"),
):
    _register_comparison(_operation, *_conditions)

_computes("Add-1")(lambda f, a, b: a + b)
_computes("Subtract-1")(lambda f, a, b: a - b)
_computes("Multiply-1")(lambda f, a, b: a * b)
_computes("Maximum-1")(lambda f, a, b: f.max(a, b))
_computes("Minimum-1")(lambda f, a, b: f.min(a, b))
_computes("Negative-1", operand_count=1)(lambda f, a: f.coerce(0, a.type) - a)
_computes("LogicalAnd-1", kinds="b", compares=True)(lambda f, a, b: a & b)
_computes("LogicalOr-1", kinds="b", compares=True)(lambda f, a, b: a | b)
_computes("LogicalXor-1", kinds="b", compares=True)(lambda f, a, b: a ^ b)
_computes("LogicalNot-1", operand_count=1, kinds="b", compares=True)(lambda f, a: a ^ 1)
_computes("Select-1", operand_count=3, kinds="ifb")(lambda f, condition, a, b: f.select(condition, a, b))


def _divide_safely(f: Function, a: Value, b: Value) -> tuple[Value, Value]:
    """Return the quotient, rounded toward zero, and the remainder.

    Dividing by 0, or the lowest integer by -1, would crash the process.
    """
    is_minus_one = f.compare("eq", b, -1)
    divisor = f.select(is_minus_one | f.compare("eq", b, 0), f.coerce(1, b.type), b)
    quotient = f.select(is_minus_one, f.coerce(0, a.type) - a, a / divisor)
    return quotient, f.emit(a.type, f"srem {a.type} {a}, {divisor}")


def _define(f: Function, value: Value, b: Value) -> Value:
    """Return a quotient or remainder, or the lowest integer where the divisor is 0."""
    lowest = -(1 << (int(value.type[1:]) - 1))
    return f.select(f.compare("eq", b, 0), f.coerce(lowest, value.type), value)


def _is_uneven(f: Function, rest: Value, b: Value) -> Value:
    """Return whether a remainder is not 0 and differs in sign from the divisor."""
    return f.compare("ne", rest, 0) & f.compare("slt", rest ^ b, 0)


@_computes("FloorMod-1")
def _floor_mod(f: Function, a: Value, b: Value) -> Value:
    """Compute the remainder with the sign of the divisor."""
    rest = _divide_safely(f, a, b)[1]
    return _define(f, f.select(_is_uneven(f, rest, b), rest + b, rest), b)


@_computes("Mod-1")
def _mod(f: Function, a: Value, b: Value) -> Value:
    """Compute the remainder with the sign of the dividend."""
    return _define(f, _divide_safely(f, a, b)[1], b)


@_computes("Divide-1")
def _divide(f: Function, a: Value, b: Value) -> Value:
    """Compute the quotient, rounded down."""
    quotient, rest = _divide_safely(f, a, b)
    return _define(f, f.select(_is_uneven(f, rest, b), quotient - 1, quotient), b)


@_computes("Divide-1 toward zero")
def _divide_toward_zero(f: Function, a: Value, b: Value) -> Value:
    """Compute the quotient, rounded toward zero."""
    return _define(f, _divide_safely(f, a, b)[0], b)
