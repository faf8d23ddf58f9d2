"""The loop that runs a Program, with observers."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from time import perf_counter
from typing import Any, Protocol

import numpy as np

from irrun.element_types import ElementType
from irrun.errors import ExecutionError, IrrunError
from irrun.ir.model import Layer, Port
from irrun.ops._support.context import BodyRunner, State, Variables
from irrun.runtime.program import BodyProgram, Instruction, Program

__all__ = ["Executor", "Observer", "RequestState", "Scope"]

Array = np.ndarray[Any, Any]

#: Where an instruction runs: the layers whose bodies it is in, outermost first, each with its iteration.
Scope = tuple[tuple[Layer, int], ...]


class Observer(Protocol):
    """Called after each instruction."""

    def __call__(
        self,
        layer: Layer,
        inputs: Sequence[Array | None],
        outputs: Sequence[Array],
        seconds: float,
        scope: Scope,
    ) -> None: ...


class RequestState:
    """What the executors of one request share.

    Attributes:
        variables: the request's variables.
        observers: called after each instruction, in bodies too.
        raised_by_observer: what an observer raised; it reaches the caller as it is.
    """

    def __init__(self) -> None:
        self.variables = Variables()
        self.observers: list[Observer] = []
        self.raised_by_observer: Exception | None = None


_Step = tuple[Callable[..., Any], tuple[int, ...], tuple[int, ...], tuple[int, ...], Layer]


class Executor:
    """Runs one Program for one request.

    Args:
        program: shared between requests, never changed.
        state: the request's.
    """

    def __init__(self, program: Program, state: RequestState) -> None:
        self._program = program
        self._state = state
        self._scope: Scope = ()
        self._states: list[State] = []
        self._children: list[Executor] = []
        self._steps: list[_Step] = [
            (self._bound(i), i.inputs, i.outputs, i.frees, i.layer) for i in program.instructions
        ]

    def run(self, arguments: Sequence[Array | None], scope: Scope = ()) -> list[Array]:
        """The value of every Result, in order.

        Args:
            arguments: one per Parameter.
            scope: for a body, where it runs.

        Raises:
            IrrunError: a kernel failed; the error says at which layer.
        """
        program = self._program
        values: list[Any] = program.initial.copy()
        for slot, argument in zip(program.parameters, arguments, strict=True):
            values[slot] = argument
        self._scope = scope
        layer: Layer | None = None
        inputs: tuple[int, ...] = ()
        ndarray = np.ndarray
        try:
            if self._state.observers:
                for step in self._steps:
                    _, inputs, _, _, layer = step
                    self._observed(step, values)
            else:
                for kernel, inputs, outputs, frees, layer in self._steps:  # noqa: B007
                    result = kernel(*[values[slot] for slot in inputs])
                    if type(result) is ndarray and len(outputs) == 1:
                        values[outputs[0]] = result
                    else:
                        _store(values, outputs, result)
                    for slot in frees:
                        values[slot] = None
        except IrrunError as error:
            _located(error, layer, scope)
            raise
        except Exception as error:
            if error is self._state.raised_by_observer:
                raise
            text = f"{type(error).__name__}: {error}" if not isinstance(error, MemoryError) else "out of memory"
            text += f", on inputs {', '.join(map(_shown, (values[slot] for slot in inputs))) or 'none'}"
            raise _located(ExecutionError(text), layer, scope) from error
        return [values[slot] for slot in program.results]

    def reset(self) -> None:
        """Forget what layers keep from run to run (not the variables)."""
        for state in self._states:
            state.clear()
        for child in self._children:
            child.reset()

    def _observed(self, step: _Step, values: list[Any]) -> None:
        kernel, inputs, outputs, frees, layer = step
        arguments = [values[slot] for slot in inputs]
        began = perf_counter()
        result = kernel(*arguments)
        seconds = perf_counter() - began
        _store(values, outputs, result)
        results = [values[slot] for slot in outputs]
        try:
            for observer in self._state.observers:
                observer(layer, arguments, results, seconds, self._scope)
        except Exception as error:
            self._state.raised_by_observer = error
            raise
        for slot in frees:
            values[slot] = None

    def _bound(self, instruction: Instruction) -> Callable[..., Any]:
        """The kernel with what it is handed for this request."""
        given: dict[str, Any] = dict(instruction.attributes)
        for name, kind in instruction.provided.items():
            if kind is Variables:
                given[name] = self._state.variables
            else:
                given[name] = State()
                self._states.append(given[name])
        for name, body in instruction.bodies.items():
            given[name] = self._callable_body(body, instruction.layer)
        return functools.partial(instruction.kernel, **given) if given else instruction.kernel

    def _callable_body(self, body: BodyProgram, owner: Layer) -> BodyRunner:
        executor = Executor(body.program, self._state)
        self._children.append(executor)

        def run(arguments: Sequence[Array | None], iteration: int) -> list[Array]:
            return executor.run(arguments, (*self._scope, (owner, iteration)))

        declared = [r.inputs[0] for r in body.program.result_layers]
        ports = [p.outputs[0] for p in body.program.parameter_layers]
        return BodyRunner(
            run=run,
            parameter_count=len(body.program.parameters),
            output_count=body.output_count,
            inputs=body.inputs,
            outputs=body.outputs,
            back_edges=body.back_edges,
            output_shapes=tuple(_declared_shape(p) for p in owner.outputs),
            result_shapes=tuple(_declared_shape(p) for p in declared),
            result_dtypes=tuple(p.element_type.dtype if p.element_type else None for p in declared),
            parameter_shapes=tuple(_declared_shape(p) for p in ports),
            parameter_dtypes=tuple(p.element_type.dtype if p.element_type else None for p in ports),
        )


def _declared_shape(port: Port) -> tuple[int | None, ...] | None:
    """The shape that a port declares, open dimensions as None; None where its rank is open."""
    return None if port.shape is None else tuple(d if isinstance(d, int) else None for d in port.shape)


def _store(values: list[Any], outputs: tuple[int, ...], result: Any) -> None:
    if not isinstance(result, (tuple, list)):
        result = (result,)
    if len(result) < len(outputs):
        raise ExecutionError(f"gave {len(result)} outputs, the layer has {len(outputs)} output ports")
    for slot, value in zip(outputs, result, strict=False):
        values[slot] = np.asarray(value)


def _shown(value: Array | None) -> str:
    """The type and shape of a value, for a message."""
    if value is None:
        return "none"
    try:
        kind = str(ElementType.of(value.dtype))
    except ValueError:
        kind = str(value.dtype)
    return f"{kind}{list(value.shape)}"


def _located(error: IrrunError, layer: Layer | None, scope: Scope) -> IrrunError:
    if error.layer is None and layer is not None:
        inside = "".join(f" in iteration {n} of {owner.describe()}" for owner, n in reversed(scope))
        error.layer = layer.describe() + inside
        error.line = error.line or layer.line or None
    return error
