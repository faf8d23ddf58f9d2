"""Compare specialized kernels with plain ones.

`check` runs one operation on the executor twice: as lowered, and after the pass that specializes instructions. The
inputs that are constant are constants of the program, so that the pass sees what it sees in a model.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import itertools
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import pytest

from irrun.errors import IrrunError
from irrun.fast.packing import PackedMemory
from irrun.fast.specialization import specialize
from irrun.ir.graph import Layer, Port
from irrun.ops._support.operation import Operation
from irrun.ops._support.registry import list_operations
from irrun.processor import LEVELS
from irrun.runtime.executor import Executor, RequestState
from irrun.runtime.passes.specialization import make_site, specialize_instructions
from irrun.runtime.program import Instruction, Program
from irrun.threads import use_threads

#: Values at which functions of f32 have special results.
SPECIAL_FLOATS = [0.0, -0.0, 1.0, -1.0, 0.5, -2.5, 3e38, -3e38, 1e-40, np.inf, -np.inf, np.nan, 20.0, -100.0]
INTEGERS = [np.dtype(f"{kind}{size}") for kind in "iu" for size in (1, 2, 4, 8)]

Array = np.ndarray


@functools.cache
def find_operation(name: str) -> Operation:
    """Return the operation that is spelled "Gather-8"."""
    return next(o for o in list_operations() if str(o) == name)


def make_programs(
    operation: Operation,
    inputs: Sequence[Array | None],
    attributes: dict[str, Any],
    constants: Iterable[int],
    outputs: int,
) -> tuple[Program, Program]:
    """Return the plain program of one instruction and the specialized one."""
    constants = set(constants)
    count = len(inputs)
    ports = [Port(i, None, None) for i in range(count)]
    layer = Layer(0, "layer", operation.type, "opset1", {}, ports, [])
    slots = tuple(0 if x is None else i + 1 for i, x in enumerate(inputs))
    initial: list[Array | None] = [None] * (1 + count + outputs)
    for i in constants:
        value = np.array(inputs[i])
        value.flags.writeable = False
        initial[i + 1] = value
    results = list(range(1 + count, 1 + count + outputs))
    instruction = Instruction(operation.kernel, slots, tuple(results), layer, operation, attributes)
    parameters = [i + 1 for i, x in enumerate(inputs) if x is not None and i not in constants]
    program = Program(
        [instruction], initial, parameters, results, [], [], dict.fromkeys((i + 1 for i in constants), layer)
    )
    fast = program.copy()
    specialize(make_site(fast, instruction, PackedMemory(0)))  # the pass ignores exceptions
    specialize_instructions(fast)
    return program, fast


def is_specialized(name: str, inputs: Sequence[Array | None], constants: Iterable[int] = (), **attributes: Any) -> bool:
    """Return whether the pass replaces the kernel."""
    _, fast = make_programs(find_operation(name), inputs, attributes, constants, 1)
    return bool(fast.instructions[0].plain)


def calls_plain(
    name: str,
    inputs: Sequence[Array | None],
    attributes: dict[str, Any] | None = None,
    *,
    constants: Iterable[int] = (),
    outputs: int = 1,
    runs: int = 3,
) -> bool:
    """Return whether the plain kernel computes the inputs, after the runs in which a specialized one may learn from it.

    Args:
        name: The operation, such as "Gather-8".
        inputs: See `check`.
        attributes: See `check`.
        constants: See `check`.
        outputs: See `check`.
        runs: The run that counts.
    """
    operation, calls = find_operation(name), []

    @functools.wraps(operation.kernel)
    def record(*arguments: Any, **options: Any) -> Any:
        calls.append(name)
        return operation.kernel(*arguments, **options)

    recorded = dataclasses.replace(operation, kernel=record)
    _, fast = make_programs(recorded, inputs, attributes or {}, constants, outputs)
    (instruction,) = fast.instructions
    arguments = [x for i, x in enumerate(inputs) if x is not None and i not in set(constants)]
    if not instruction.plain:
        return True
    with np.errstate(all="ignore"):
        for _ in range(runs):
            calls.clear()
            instruction.kernel(*arguments)
    return bool(calls)


class _LenientState(RequestState):
    """The state of a request whose specialized kernels may fail, as always outside of tests."""

    count_fallback = RequestState.count_fallback


class _StrictExecutor(Executor):
    """An executor that does not run the plain instructions where a specialized kernel fails."""

    def _run_plain(self, instruction: Instruction, values: Any) -> Any:
        raise AssertionError(f"the specialized kernel of {instruction.operation} failed")


def _run(program: Program, arguments: Sequence[Array], executor: type[Executor] = Executor) -> list[Array]:
    with np.errstate(all="ignore"):
        return executor(program, _LenientState()).run(arguments)


def check(
    name: str,
    inputs: Sequence[Array | None],
    attributes: dict[str, Any] | None = None,
    *,
    constants: Iterable[int] = (),
    outputs: int = 1,
    compare: Callable[[Array, Array, Sequence[Array | None]], None] | None = None,
    repeat: Sequence[Sequence[Array | None]] = (),
    falls_back: bool = False,
) -> None:
    """Compare the outputs of the specialized kernel with the plain one.

    Args:
        name: The operation, such as "Gather-8".
        inputs: One value per input; None for an optional input that is not connected.
        attributes: Keyword arguments of the kernel.
        constants: Positions of inputs that are constant.
        outputs: Number of outputs.
        compare: Compares an actual with the expected output; bit by bit by default.
        repeat: Further inputs for the same specialized kernel; their constants must be equal.
        falls_back: Whether the specialized kernel may raise an exception, after which the plain kernel runs: for rare
            inputs that it does not test for. It always may for scalars and empty arrays.
    """
    constants = tuple(constants)
    plain, fast = make_programs(find_operation(name), inputs, attributes or {}, constants, outputs)
    for values in (inputs, *repeat, inputs):
        arguments = [x for i, x in enumerate(values) if x is not None and i not in constants]
        before = [np.array(x) for x in arguments]
        try:
            expected = _run(plain, arguments)
        except IrrunError:
            expected = None
        if expected is None:
            try:
                _run(fast, arguments)
            except IrrunError:
                continue
            raise AssertionError("the specialized kernel accepts inputs that the plain kernel refuses")
        is_strict = not falls_back and all(x.ndim and x.size for x in arguments)
        actual = _run(fast, arguments, _StrictExecutor if is_strict else Executor)
        for a, b in zip(_run(fast, arguments), actual, strict=True):
            assert_same_bits(a, b)
        for a, b in zip(arguments, before, strict=True):
            assert_same_bits(a, b)  # kernels do not change their inputs
        for a, b in zip(actual, expected, strict=True):
            assert a.dtype == b.dtype, f"found type {a.dtype}, expected {b.dtype}"
            assert a.shape == b.shape, f"found shape {a.shape}, expected {b.shape}"
            (compare or _compare_bits)(a, b, values)


def assert_same_bits(a: Array, b: Array) -> None:
    """Assert that two arrays have the same bits, except in NaN."""
    if a.dtype == object:
        np.testing.assert_array_equal(a, b)
        return
    same = np.ascontiguousarray(a).tobytes() == np.ascontiguousarray(b).tobytes()
    if not same:
        assert a.dtype.kind == "f", f"found {a}, expected {b}"
        np.testing.assert_array_equal(a, b)
        is_number = ~np.isnan(a)
        np.testing.assert_array_equal(np.signbit(a[is_number]), np.signbit(b[is_number]))


def _compare_bits(a: Array, b: Array, _: object) -> None:
    assert_same_bits(a, b)


def compare_values(a: Array, b: Array, _: object = None) -> None:
    """Assert that values are equal, where zeros may differ in sign."""
    np.testing.assert_array_equal(a, b)


def compare_with_exact(
    name: str, attributes: dict[str, Any] | None = None, *, cancels: bool = True, allowed_error: float = 2e-7
) -> Callable[[Array, Array, Sequence[Array | None]], None]:
    """Return a comparison of f32 with the plain kernel in f64: 4 units in the last place.

    Args:
        name: The operation.
        attributes: Keyword arguments of the kernel.
        cancels: Whether terms cancel, so that an absolute error is allowed as well.
        allowed_error: The absolute error, relative to results above 1.
    """
    kernel = find_operation(name).kernel

    def compare(a: Array, b: Array, inputs: Sequence[Array | None]) -> None:
        if a.dtype != np.float32:
            assert_same_bits(a, b)
            return
        wide = [x.astype(np.float64) if x is not None and x.dtype == np.float32 else x for x in inputs]
        with np.errstate(all="ignore"):
            exact = np.asarray(kernel(*wide, **(attributes or {})))
            limited = np.clip(np.abs(exact), np.finfo(np.float32).tiny, np.finfo(np.float32).max).astype(np.float32)
            allowed = 4 * np.spacing(limited).astype(np.float64)
            if cancels:
                allowed = np.maximum(allowed, allowed_error * np.maximum(1, np.abs(exact)))
            is_finite = np.isfinite(a) & np.isfinite(b)
            errors = np.where(is_finite, np.abs(a - exact) / allowed, 0)
        at = errors.argmax() if errors.size else 0
        if errors.size and errors.flat[at] > 1:
            arguments = [x.flat[at % x.size] for x in inputs if x is not None]
            raise AssertionError(f"found {a.flat[at]!r}, expected {exact.flat[at]!r} for {arguments}")
        np.testing.assert_array_equal(a[~is_finite], b[~is_finite])

    return compare


def make_floats(shape: tuple[int, ...], seed: int = 0, scale: float = 1.0, *, special: bool = False) -> Array:
    """Return random f32, optionally with special values in the first places."""
    x = np.asarray(np.random.default_rng(seed).standard_normal(shape) * scale, np.float32)
    if special:
        count = min(x.size, len(SPECIAL_FLOATS))
        x.reshape(-1)[:count] = np.random.default_rng(seed).permutation(SPECIAL_FLOATS)[:count]
    return x


def make_values(shape: tuple[int, ...], dtype: Any, seed: int = 0) -> Array:
    """Return random values of any type; integers over their whole range, floats with special values."""
    dtype = np.dtype(dtype)
    rng = np.random.default_rng(seed)
    if dtype == np.bool_:
        return np.asarray(rng.integers(0, 2, shape), bool)
    if dtype.kind in "iu":
        info = np.iinfo(dtype)
        return np.asarray(rng.integers(info.min, info.max, shape, dtype, endpoint=True))
    return np.asarray(make_floats(shape, seed, special=dtype.itemsize >= 4).astype(dtype))


def iterate_constants(count: int) -> list[tuple[int, ...]]:
    """Return the subsets of inputs that may be constant, except all of them."""
    return [c for n in range(count) for c in itertools.combinations(range(count), n)]


def run_with_threads(function: Callable[..., Any]) -> Any:
    """Return what a function returns, after checking that it has the same bits for other numbers of threads."""
    results = []
    for count in (1, 2, 4):
        with use_threads(count), np.errstate(all="ignore"):
            results.append(function())
    assert all(np.array_equal(results[0], other, equal_nan=True) for other in results[1:])
    return results[0]


def forget_kernels() -> None:
    """Make all compiled kernels again when they are used: their source texts, and from these only new kernels."""
    kept = ("_get_compiler", "_get_team", "_find_core_function")
    for module in [m for key, m in sys.modules.items() if key.startswith("irrun.fast.jit.")]:
        for name, value in vars(module).items():
            if name not in kept and hasattr(value, "cache_clear") and not isinstance(value, type):
                value.cache_clear()


@contextlib.contextmanager
def use_lanes(lanes: int) -> Iterator[None]:
    """Compile kernels for vectors of 4 or 8 f32, and with 16 registers, as on processors without AVX-512."""
    from irrun.fast.jit import compiler

    forget_kernels()
    with pytest.MonkeyPatch.context() as patch:
        own = compiler._get_compiler()
        wider = LEVELS["x86-64-v4"] - LEVELS["x86-64-v3" if lanes == 8 else "x86-64-v2"]
        features = frozenset(name for name in own.known if name not in wider and not name.startswith("avx512"))
        patch.setattr(own, "lanes", lanes)
        patch.setattr(own, "known", features)
        yield
    forget_kernels()


def list_sequences(compiled):
    """Return the sequences of a compiled model, each with the types of its operations."""
    instructions = compiled._fast_program.sequences or []
    sequences = [i for i in instructions if hasattr(i.kernel, "_members")]
    return {i.kernel: [p.operation.type for p in i.plain] for i in sequences}


def run_single_instructions(compiled, inputs):
    """Return the results of the instructions, without sequences."""
    program = dataclasses.replace(compiled._fast_program, sequences=None)
    program.free_after_last_use()
    request = compiled.create_infer_request()
    with np.errstate(all="ignore"), use_threads(1):
        return Executor(program, request._state).run(list(inputs))
