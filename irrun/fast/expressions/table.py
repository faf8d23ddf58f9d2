"""The table of expressions: the expression, the operands and the parameters for each operation.

An expression is a function of a machine and of values::

    @elementwise("SoftSign-9")
    def soft_sign(m: Machine, x: Value) -> Value:
        return x / (m.abs(x) + 1.0)

Its keyword-only arguments are *parameters*: numbers, flags or names that kernels are compiled for. An operation with
attributes or additional inputs has a function that *binds* it, that is, chooses the operands and the parameters.
"""

from __future__ import annotations

import functools
import importlib
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

import numpy as np

from irrun.fast.expressions.machine import Machine, Value, list_primitives

__all__ = [
    "EXPRESSIONS",
    "Call",
    "Expression",
    "Site",
    "Step",
    "elementwise",
    "evaluate_steps",
    "find_call",
    "get_expression",
    "list_operations",
]

Array = np.ndarray[Any, Any]
Function = TypeVar("Function", bound=Callable[..., Value])

F32 = np.dtype(np.float32)


@dataclass(frozen=True, eq=False)
class Call:
    """An expression with its operands and parameters.

    Attributes:
        name: The name of the expression.
        operands: For each operand, the position of an input of the operation, or an f32 constant that replaces inputs.
            The first operand has the shape of the result, unless NumPy's broadcasting applies to two inputs.
        parameters: The parameters, in order; the last ones may be missing.
    """

    name: str
    operands: tuple[int | Array, ...] = (0,)
    parameters: tuple[Any, ...] = ()


@dataclass(frozen=True)
class Step:
    """One expression of a chain.

    Attributes:
        name: The name of the expression.
        operands: Their numbers: 0 is the running value, the operands of the chain follow, then earlier steps.
        parameters: The parameters of the expression, such as the limits of Clamp.
    """

    name: str
    operands: tuple[int, ...] = (0,)
    parameters: tuple[Any, ...] = ()


@dataclass(frozen=True, eq=False)
class Site:
    """The facts about an operation that is bound to an expression.

    Attributes:
        name: The name of the expression.
        attributes: The attributes of the operation.
        constants: For each input, its value if it is constant.
        rank: The rank of the first input if it is known.
    """

    name: str
    attributes: Mapping[str, Any]
    constants: Sequence[Array | None]
    rank: int | None

    def get_number(self, position: int) -> float | None:
        """Return a constant input of one finite f32, or None."""
        value = self.get_array(position)
        return float(value.item()) if value is not None and value.size == 1 else None

    def get_array(self, position: int) -> Array | None:
        """Return a constant input of finite f32, or None."""
        value = self.constants[position] if position < len(self.constants) else None
        return value if value is not None and value.dtype == F32 and np.isfinite(value).all() else None


#: Returns the call that computes an operation, or None if its attributes or constants do not allow it.
Bind = Callable[[Site], Call | None]


@dataclass(frozen=True, eq=False)
class Expression:
    """A row of the table.

    Attributes:
        name: Its name in the steps of chains: the type of the operation.
        function: The function of a machine, operands, and parameters.
        bind: Binds an operation to it.
        is_cheap: Whether NumPy computes it in one pass, about as fast as it reads memory.
        machine: The only machine that uses the expression, if the other machine has another one.
    """

    name: str
    function: Callable[..., Value]
    bind: Bind
    is_cheap: bool
    machine: str
    _primitives: dict[Any, set[str]] = field(default_factory=dict, repr=False)

    @property
    def operand_count(self) -> int:
        """The number of operands that every call has."""
        return int(self._code.co_argcount) - 1

    def evaluate(self, machine: Machine, operands: Sequence[Value], parameters: Sequence[Any]) -> Value:
        """Compute the expression on a machine."""
        return self.function(machine, *operands, **self._name(parameters))

    def find_missing(self, machine: type[Machine], operand_count: int, parameters: Sequence[Any]) -> set[str]:
        """Return the primitives of the expression that a machine does not have."""
        key = operand_count, tuple(parameters)
        used = self._primitives.get(key)
        if used is None:
            used = self._primitives[key] = list_primitives(self.function, operand_count, self._name(parameters))
        return used.difference(dir(machine))

    @property
    def _code(self) -> Any:
        function: Any = self.function
        return function.__code__

    def _name(self, parameters: Sequence[Any]) -> dict[str, Any]:
        code = self._code
        names = code.co_varnames[code.co_argcount : code.co_argcount + code.co_kwonlyargcount]
        return dict(zip(names, parameters, strict=False))


#: Name -> expression.
EXPRESSIONS: dict[str, Expression] = {}
#: Operation with version -> the expressions that compute it.
_ROWS: dict[str, list[Expression]] = defaultdict(list)


def _bind_first_input(site: Site) -> Call | None:
    return Call(site.name)


def elementwise(
    *operations: str, bind: Bind = _bind_first_input, is_cheap: bool = False, machine: str = "", name: str = ""
) -> Callable[[Function], Function]:
    """Declare the decorated function as the expression that computes operations.

    Args:
        operations: Types with versions: "Gelu-2", "Gelu-7". None for expressions that only kernels use.
        bind: Returns the call for an operation. By default, the only operand is the first input.
        is_cheap: See `Expression`.
        machine: See `Expression`.
        name: The name of the expression, if it is not the type of the operation.
    """

    def declare(function: Function) -> Function:
        own = name or operations[0].rpartition("-")[0]
        expression = EXPRESSIONS[own] = Expression(own, function, bind, is_cheap, machine)
        for operation in operations:
            _ROWS[operation].append(expression)
        return function

    return declare


@functools.cache
def _load() -> None:
    for module in ("functions", "quantization"):
        importlib.import_module(f"irrun.fast.expressions.{module}")


def get_expression(name: str) -> Expression:
    """Return an expression."""
    _load()
    return EXPRESSIONS[name]


def evaluate_steps(machine: Machine, steps: Sequence[Step], operands: Sequence[Value]) -> Value:
    """Compute a chain on a machine.

    Args:
        machine: The machine.
        steps: The steps. The last one is the result; without steps, it is the running value.
        operands: The running value and the other operands of the chain.
    """
    values = list(operands)
    for step in steps:
        values.append(get_expression(step.name).evaluate(machine, [values[i] for i in step.operands], step.parameters))
    return values[-1] if steps else values[0]


def list_operations(operand_count: int | None = None) -> list[str]:
    """Return the operations that expressions compute, with their versions.

    Args:
        operand_count: The number of operands of the expressions; any by default.
    """
    _load()
    return [name for name, (row, *_) in _ROWS.items() if operand_count in (None, row.operand_count)]


def find_call(
    machine: type[Machine],
    operation: str,
    attributes: Mapping[str, Any],
    constants: Sequence[Array | None],
    rank: int | None = None,
    report: Callable[[str], object] | None = None,
) -> Call | None:
    """Return the call that computes an operation on a machine, or None.

    Args:
        machine: The machine.
        operation: Type with version: "Gelu-7".
        attributes: Attributes of the operation.
        constants: One entry per input: its value if it is constant.
        rank: The rank of the first input, if it is known. Some calls depend on it.
        report: Called with the reason if the machine does not have a primitive.
    """
    _load()
    for expression in _ROWS.get(operation, ()):
        if expression.machine not in ("", machine.__name__):
            continue
        call = expression.bind(Site(expression.name, attributes, constants, rank))
        if call is None:
            continue
        variable = {position for position, value in enumerate(constants) if value is None}
        if not variable or not variable <= {o for o in call.operands if isinstance(o, int)}:
            continue
        row = EXPRESSIONS[call.name]
        missing = row.find_missing(machine, len(call.operands), call.parameters)
        if not missing:
            return call
        if report is not None:
            report(f"{machine.__name__.lower()} have no fast form of {', '.join(sorted(missing))}")
    return None
