"""The machine that computes arrays of f32 with NumPy: in place, with few passes.

An expression is evaluated once to record its instructions, then written as a Python function::

    def compute(x0, out=None, scratch=None):
        ...
        multiply(x0, c0, t0)
        exp2(t0, t0)
        add(t0, c1, t0)
        return divide(x0, t0, out)

`out` receives the result, or is None for a new array. `scratch` is a vector of f32 with at least `scratch_factor` times
as many elements as the result. It is overwritten; None allocates it.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from types import CodeType
from typing import Any, NamedTuple

import numpy as np

from irrun.fast.expressions.machine import Machine
from irrun.fast.expressions.table import Call, Step, evaluate_steps
from irrun.fast.support import F32, HAS_AVX512, apply_in_tiles, clip, freeze

__all__ = ["Arrays", "BlockFunction", "compile_expression", "compile_steps", "make_kernel"]

Array = np.ndarray[Any, Any]

#: One-sided limits: with a scalar, `clip` takes a third of the time of `np.maximum`.
LOWEST, HIGHEST = -math.inf, math.inf
#: Names in the generated functions.
_NAMES: dict[str, Any] = {"empty": np.empty, "F32": F32}


class BlockFunction(NamedTuple):
    """A compiled expression or chain.

    Attributes:
        compute: Called with the operands, the array for the result, and a flat scratch array or None. Operands
            broadcast to the result.
        scratch_factor: Number of scratch arrays of the size of the result.
    """

    compute: Callable[..., Any]
    scratch_factor: int


class _Value:
    """An operand, or the result of an instruction.

    Args:
        machine: The machine.
        ufunc: The ufunc that computes it; None for an operand.
        arguments: The arguments of the ufunc: values and numbers.
    """

    def __init__(self, machine: Arrays, ufunc: Any = None, arguments: tuple[Any, ...] = ()) -> None:
        self.machine, self.ufunc, self.arguments = machine, ufunc, arguments

    def __add__(self, other: _Value | float) -> _Value:
        return self.machine.emit(np.add, self, other)

    def __sub__(self, other: _Value | float) -> _Value:
        return self.machine.emit(np.subtract, self, other)

    def __mul__(self, other: _Value | float) -> _Value:
        return self.machine.emit(np.square, self) if other is self else self.machine.emit(np.multiply, self, other)

    def __truediv__(self, other: _Value | float) -> _Value:
        return self.machine.emit(np.divide, self, other)

    def __rtruediv__(self, other: float) -> _Value:
        return self.machine.emit(np.reciprocal, self) if other == 1 else self.machine.emit(np.divide, other, self)

    def __neg__(self) -> _Value:
        return self.machine.emit(np.negative, self)


def _call(ufunc: Any) -> Callable[..., _Value]:
    """Return the primitive that one ufunc computes."""
    return lambda machine, *arguments: machine.emit(ufunc, *arguments)


class Arrays(Machine):
    """Records the calls of ufuncs. No ufunc selects in one pass."""

    # With AVX-512, NumPy computes powers of two in half the time of powers of e.
    exponent_factor = math.log2(math.e) if HAS_AVX512 else 1.0

    abs, ceil, floor, rint, sign = map(_call, (np.abs, np.ceil, np.floor, np.rint, np.sign))
    sqrt, exp, expm1, log, log1p = map(_call, (np.sqrt, np.exp, np.expm1, np.log, np.log1p))
    sin, cos, tanh = map(_call, (np.sin, np.cos, np.tanh))
    exponentiate = _call(np.exp2 if HAS_AVX512 else np.exp)
    clip = _call(clip)
    maximum_number, minimum_number = map(_call, (np.fmax, np.fmin))

    def __init__(self) -> None:
        self.instructions: list[_Value] = []

    def emit(self, ufunc: Any, *arguments: Any) -> _Value:
        """Append a call and return its result."""
        self.instructions.append(_Value(self, ufunc, arguments))
        return self.instructions[-1]

    def maximum(self, a: _Value, b: _Value | float) -> _Value:
        """Return b where it is greater, else a."""
        return self.emit(np.maximum, a, b) if isinstance(b, _Value) else self.emit(clip, a, b, HIGHEST)

    def minimum(self, a: _Value, b: _Value | float) -> _Value:
        """Return b where it is less, else a."""
        return self.emit(np.minimum, a, b) if isinstance(b, _Value) else self.emit(clip, a, LOWEST, b)

    def multiply_add(self, a: _Value, b: _Value | float, c: _Value | float) -> _Value:
        """Return a * b + c, rounded twice."""
        return a * b + c


class _Program(NamedTuple):
    """The source code of a function.

    Attributes:
        lines: Its body.
        names: The names that it uses.
        result: The first instruction without its target: "exp(x0)".
        scratch_factor: See `BlockFunction`.
    """

    lines: list[str]
    names: dict[str, Any]
    first: str
    scratch_factor: int


def _write(steps: Sequence[Step], is_reused: Sequence[bool]) -> _Program:
    """Write the body of a function.

    A value overwrites an argument that is not needed again. `out` also stores intermediate values, once the operands
    that may overlap with it are no longer needed.

    Args:
        steps: The chain.
        is_reused: For each operand, whether it may be `out`.
    """
    machine = Arrays()
    operands = [_Value(machine) for _ in is_reused]
    evaluate_steps(machine, steps, operands)
    instructions = machine.instructions
    last_use = {id(v): i for i, instruction in enumerate(instructions) for v in instruction.arguments}
    first_free = max(
        (last_use.get(id(v), -1) for v, reused in zip(operands, is_reused, strict=True) if reused), default=-1
    )
    places = {id(v): f"x{i}" for i, v in enumerate(operands)}
    names: dict[str, Any] = {}
    numbers: dict[str, str] = {}
    lines: list[str] = []
    temporaries: list[str] = []
    first = ""
    for i, instruction in enumerate(instructions):
        called = instruction.ufunc.__name__
        names[called] = instruction.ufunc
        shown = []
        for argument in instruction.arguments:
            if isinstance(argument, _Value):
                shown.append(places[id(argument)])
                continue
            constant = numbers.setdefault(repr(argument), f"c{len(numbers)}")
            names[constant] = _to_scalar(argument)
            shown.append(constant)
        busy = {places[id(v)] for v in (*operands, *instructions[:i]) if last_use.get(id(v), -1) > i}
        ending = [places[id(v)] for v in instruction.arguments if isinstance(v, _Value) and v.ufunc is not None]
        candidates = [*(p for p in ending if p not in busy), *(["out"] if i >= first_free else []), *temporaries]
        place = next((p for p in candidates if p not in busy), f"t{len(temporaries)}")
        if i == len(instructions) - 1:
            place = "out"
        elif place not in ("out", *temporaries):
            temporaries.append(place)
        places[id(instruction)] = place
        target = f"out={place}" if instruction.ufunc in (np.maximum, np.minimum) else place  # as NumPy requires
        lines.append(f"{called}({', '.join(shown)}, {target})")
        first = first or f"{called}({', '.join(shown)})"
    return _Program(_surround(lines, temporaries), names, first, len(temporaries))


def _surround(lines: list[str], temporaries: list[str]) -> list[str]:
    """Return the lines with the allocations before them."""
    body = [*lines[:-1], f"return {lines[-1]}"]
    if len(lines) == 1:
        return body
    start = ["if out is None:", "    out = empty(x0.shape, F32)"]
    if temporaries:
        start += ["if scratch is None:", *(f"    {t} = empty(out.shape, F32)" for t in temporaries)]
        start += ["else:", "    size = out.size"]
        start += [
            f"    {t} = scratch[{f'{i} * size' if i else ''}:{f'{i + 1} * size' if i else 'size'}].reshape(out.shape)"
            for i, t in enumerate(temporaries)
        ]
    return start + body


def _to_scalar(value: float) -> Array:
    """Return a number as a scalar of f32. NumPy converts other numbers in every call."""
    with np.errstate(over="ignore"):
        return freeze(np.array(value, np.float32))


@functools.lru_cache(maxsize=512)
def _compile(text: str) -> CodeType:
    return compile(text, "<expression>", "exec")


def _define(parameters: str, lines: Sequence[str], names: dict[str, Any]) -> Callable[..., Any]:
    """Return the function from its source code."""
    names = {**_NAMES, **names}
    exec(_compile("\n    ".join((f"def compute({parameters}):", *lines))), names)
    function: Callable[..., Any] = names["compute"]
    return function


def compile_expression(
    name: str, operands: int | Sequence[bool], parameters: tuple[Any, ...] = (), *, reuses_operands: bool
) -> BlockFunction:
    """Return the function that computes an expression.

    Args:
        name: The expression.
        operands: The number of operands, or for each operand, whether the result may be written to it.
        parameters: The parameters of the expression.
        reuses_operands: Whether the result may be written to an operand. Otherwise, the result has separate memory, and
            fewer scratch arrays are needed.
    """
    is_reused = (reuses_operands,) * operands if isinstance(operands, int) else tuple(operands)
    return compile_steps((Step(name, tuple(range(len(is_reused))), parameters),), is_reused)


def compile_steps(steps: tuple[Step, ...], is_reused: tuple[bool, ...]) -> BlockFunction:
    """Return the function that computes a chain.

    Args:
        steps: The steps.
        is_reused: For each operand of the chain, whether the result may be written to it.
    """
    return _compile_steps(steps, is_reused, repr([step.parameters for step in steps]))


@functools.lru_cache(maxsize=512)
def _compile_steps(steps: tuple[Step, ...], is_reused: tuple[bool, ...], shown: str) -> BlockFunction:
    """Compile a chain; `shown` distinguishes parameters that are equal, such as 0.0 and -0.0."""
    program = _write(steps, is_reused)
    arguments = ", ".join(f"x{i}" for i in range(len(is_reused)))
    function = _define(f"{arguments}, out=None, scratch=None", program.lines, program.names)
    return BlockFunction(function, program.scratch_factor)


def make_kernel(call: Call, call_plain: Callable[..., Any]) -> Callable[[Array], Any]:
    """Return the specialized kernel of an expression of one operand: by tiles if it takes several passes.

    Args:
        call: The expression.
        call_plain: The plain kernel, for types other than f32.
    """
    program = _write([Step(call.name, (0,), call.parameters)], (False,))
    if len(program.lines) == 1:
        line = f"return {program.first} if x0.dtype is F32 else call_plain(x0)"
        return _define("x0", [line], {**program.names, "call_plain": call_plain})
    function = compile_expression(call.name, 1, call.parameters, reuses_operands=False).compute

    def compute(x: Array) -> Any:
        return apply_in_tiles(function, x) if x.dtype is F32 else call_plain(x)

    return compute
