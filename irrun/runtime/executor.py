"""The loop that runs a program, with or without observers."""

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

#: Where an instruction runs: the layers whose bodies contain it, outermost first, each with its iteration.
Scope = tuple[tuple[Layer, int], ...]


class Observer(Protocol):
    """A callable that is called after each instruction, in bodies too."""

    def __call__(
        self,
        layer: Layer,
        inputs: Sequence[Array | None],
        outputs: Sequence[Array],
        seconds: float,
        scope: Scope,
    ) -> None:
        """Observe one layer.

        Args:
            layer: The layer that ran.
            inputs: Its inputs; None for an optional input that is not connected.
            outputs: Its outputs.
            seconds: The run time of its kernel.
            scope: The layers whose bodies contain it, outermost first, each with its iteration.
        """


class RequestState:
    """What the executors of one request share.

    Attributes:
        variables: The variables of the request.
        observers: The observers of the current run.
        observer_error: The exception that an observer raised, which reaches the caller unchanged.
    """

    def __init__(self) -> None:
        self.variables = Variables()
        self.observers: list[Observer] = []
        self.observer_error: Exception | None = None


_Step = tuple[Callable[..., Any], tuple[int, ...], tuple[int, ...], tuple[int, ...], Layer]


class Executor:
    """Runs one program for one request.

    Args:
        program: Shared between requests; never changed.
        state: The state of the request.
    """

    def __init__(self, program: Program, state: RequestState) -> None:
        self._program = program
        self._state = state
        self._scope: Scope = ()
        self._layer_states: list[State] = []
        self._children: list[Executor] = []
        self._steps: list[_Step] = [
            (self._bind_kernel(i), i.inputs, i.outputs, i.frees, i.layer) for i in program.instructions
        ]

    def run(self, arguments: Sequence[Array | None], scope: Scope = ()) -> list[Array]:
        """Run the program.

        Args:
            arguments: One value per Parameter.
            scope: For a body, where it runs.

        Returns:
            The value of every Result, in order.

        Raises:
            IrrunError: A kernel failed. The error names the layer.
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
                    self._run_observed(step, values)
            else:
                for kernel, inputs, outputs, frees, layer in self._steps:  # noqa: B007
                    result = kernel(*[values[slot] for slot in inputs])
                    if type(result) is ndarray and len(outputs) == 1:
                        values[outputs[0]] = result
                    else:
                        _store_outputs(values, outputs, result)
                    for slot in frees:
                        values[slot] = None
        except IrrunError as error:
            _add_location(error, layer, scope)
            raise
        except Exception as error:
            if error is self._state.observer_error:
                raise
            message = f"{type(error).__name__}: {error}" if not isinstance(error, MemoryError) else "out of memory"
            shown = ", ".join(_describe_value(values[slot]) for slot in inputs)
            wrapped = ExecutionError(f"{message}, for inputs {shown or 'none'}")
            _add_location(wrapped, layer, scope)
            raise wrapped from error
        return [values[slot] for slot in program.results]

    def reset(self) -> None:
        """Discard what layers keep between runs, apart from variables."""
        for state in self._layer_states:
            state.clear()
        for child in self._children:
            child.reset()

    def _run_observed(self, step: _Step, values: list[Any]) -> None:
        kernel, inputs, outputs, frees, layer = step
        arguments = [values[slot] for slot in inputs]
        start = perf_counter()
        result = kernel(*arguments)
        seconds = perf_counter() - start
        _store_outputs(values, outputs, result)
        results = [values[slot] for slot in outputs]
        try:
            for observer in self._state.observers:
                observer(layer, arguments, results, seconds, self._scope)
        except Exception as error:
            self._state.observer_error = error
            raise
        for slot in frees:
            values[slot] = None

    def _bind_kernel(self, instruction: Instruction) -> Callable[..., Any]:
        """Return the kernel with its attributes and what this request provides."""
        keywords: dict[str, Any] = dict(instruction.attributes)
        for name, kind in instruction.provided.items():
            if kind is Variables:
                keywords[name] = self._state.variables
            else:
                keywords[name] = State()
                self._layer_states.append(keywords[name])
        for name, body in instruction.bodies.items():
            keywords[name] = self._make_runner(body, instruction.layer)
        return functools.partial(instruction.kernel, **keywords) if keywords else instruction.kernel

    def _make_runner(self, body: BodyProgram, owner: Layer) -> BodyRunner:
        executor = Executor(body.program, self._state)
        self._children.append(executor)

        def run(arguments: Sequence[Array | None], iteration: int) -> list[Array]:
            return executor.run(arguments, (*self._scope, (owner, iteration)))

        result_ports = [r.inputs[0] for r in body.program.result_layers]
        parameter_ports = [p.outputs[0] for p in body.program.parameter_layers]
        return BodyRunner(
            run=run,
            parameter_count=len(body.program.parameters),
            output_count=body.output_count,
            inputs=body.inputs,
            outputs=body.outputs,
            back_edges=body.back_edges,
            output_shapes=tuple(map(_get_declared_shape, owner.outputs)),
            result_shapes=tuple(map(_get_declared_shape, result_ports)),
            result_dtypes=tuple(map(_get_declared_dtype, result_ports)),
            parameter_shapes=tuple(map(_get_declared_shape, parameter_ports)),
            parameter_dtypes=tuple(map(_get_declared_dtype, parameter_ports)),
        )


def _get_declared_shape(port: Port) -> tuple[int | None, ...] | None:
    """Return the declared shape with None for dynamic dimensions, or None if the rank is dynamic."""
    return None if port.shape is None else tuple(d if isinstance(d, int) else None for d in port.shape)


def _get_declared_dtype(port: Port) -> np.dtype[Any] | None:
    return port.element_type.dtype if port.element_type else None


def _store_outputs(values: list[Any], outputs: tuple[int, ...], result: Any) -> None:
    if not isinstance(result, (tuple, list)):
        result = (result,)
    if len(result) < len(outputs):
        raise ExecutionError(f"the kernel returned {len(result)} outputs, the layer has {len(outputs)}")
    for slot, value in zip(outputs, result, strict=False):
        values[slot] = np.asarray(value)


def _describe_value(value: Array | None) -> str:
    """Return the type and shape of a value, for a message."""
    if value is None:
        return "none"
    try:
        name = str(ElementType.of(value.dtype))
    except ValueError:
        name = str(value.dtype)
    return f"{name}{list(value.shape)}"


def _add_location(error: IrrunError, layer: Layer | None, scope: Scope) -> None:
    """Add the layer, and the bodies and iterations it runs in, to an error that names none."""
    if error.layer is None and layer is not None:
        bodies = "".join(f" in iteration {n} of {owner.describe()}" for owner, n in reversed(scope))
        error.layer = layer.describe() + bodies
        error.line = error.line or layer.line or None
