"""The primitives of machines, which expressions are written in."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

__all__ = ["Machine", "Value", "list_primitives"]

#: A value that a machine computes: it has the operators +, -, * and /, also with numbers on the right, the sign -, and
#: / with a number on the left.
Value: TypeAlias = Any


class Machine:
    """Computes primitives on values of f32.

    Machines may omit primitives. All primitives are accurate to 4 units in the last place:

    - `abs`, `ceil`, `floor`, `rint`, `sign`, `sqrt`, `exp`, `expm1` (up to 80), `log`, `log1p` (from 0 to 1), `sin`,
      `cos`, `tanh`: functions of one value.
    - `maximum(a, b)`, `minimum(a, b)`: b where it is greater or less than a, else a. If b is NaN, a must be NaN, too.
    - `maximum_number(x, limit)`, `minimum_number(x, limit)`: the same with a number; the limit where x is NaN.
    - `clip(x, low, high)`: the minimum of the maximum with numbers or operands that are not NaN.
    - `select_greater(a, b, then, other)`: `then` where a > b, else `other`.
    - `multiply_add(a, b, c)`: a * b + c; b and c may be numbers.

    Attributes:
        exponent_factor: The factor that `exponentiate` expects in its argument.
    """

    exponent_factor = 1.0

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(f"{type(self).__name__.lower()} have no fast form of {name}")

    def exponentiate(self, x: Value) -> Value:
        """Return e^y for x = y times `exponent_factor`."""
        return self.exp(x)

    def polynomial(self, coefficients: Sequence[float], x: Value) -> Value:
        """Return the value of a polynomial of at least two coefficients, from the highest power down."""
        result: Value = coefficients[0]
        for coefficient in coefficients[1:]:
            result = self.multiply_add(x, result, coefficient)
        return result


class _Anything:
    """The value of every primitive of a `_Recorder`."""

    def _compute(self, *_: object) -> _Anything:
        return self

    __add__ = __sub__ = __mul__ = __truediv__ = __rtruediv__ = __neg__ = _compute


class _Recorder(Machine):
    """Records the names of the primitives that an expression uses."""

    def __init__(self) -> None:
        self.names: set[str] = set()

    def __getattr__(self, name: str) -> Any:
        self.names.add(name)
        return lambda *_: _Anything()


def list_primitives(function: Any, operand_count: int, parameters: dict[str, Any]) -> set[str]:
    """Return the names of the primitives that an expression uses.

    Args:
        function: The expression.
        operand_count: The number of its operands.
        parameters: Its parameters.
    """
    recorder = _Recorder()
    function(recorder, *[_Anything()] * operand_count, **parameters)
    return recorder.names
