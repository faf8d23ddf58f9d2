"""Infer requests, which run a model."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Sequence
from time import perf_counter
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from irrun.activity import start_activity, stop_activity
from irrun.arguments import check_functions, check_number, describe_value
from irrun.deadlines import Deadline, end_at
from irrun.errors import ExecutionError, InputError, IrrunError
from irrun.forks import renew_in_children
from irrun.limits import run_within
from irrun.runtime.executor import Executor, Fallback, Instrument, RequestState
from irrun.runtime.inputs import Inputs, collect_inputs
from irrun.runtime.observer import Observer
from irrun.runtime.outputs import Outputs
from irrun.runtime.prepared_model import PreparedModel
from irrun.runtime.program import Program
from irrun.runtime.shape_values import ShapeKey, get_shape_key
from irrun.runtime.variables import RunLock, VariableState, list_variables
from irrun.threads import use_threads

if TYPE_CHECKING:
    from irrun.runtime.declaration_check import DeclarationCheck, Mismatch
    from irrun.runtime.index_check import IndexCheck, InvalidIndices

__all__ = ["InferRequest"]

Array = np.ndarray[Any, Any]

#: Maximum number of executors that a request keeps. Each has its own copies of the data that kernels prepare.
MAX_EXECUTORS = 6


class InferRequest:
    """The state of one user of a compiled model, which includes its own variables.

    Only one thread at a time may use a request: while it runs, others that call it get an `ExecutionError`.

    Attributes:
        mismatches: Differences between declared and actual types and shapes in the last run, if `check` is true.
        invalid_indices: Indices out of range in the last run, which kernels accept, if `check` is true.
    """

    def __init__(self, compiled: PreparedModel, instrument: Instrument | None = None) -> None:
        if not isinstance(compiled, PreparedModel):
            raise InputError(f"compiled is {describe_value(compiled)}, expected a CompiledModel")
        if instrument is not None and not hasattr(instrument, "wrap"):
            raise InputError(f"instrument is {describe_value(instrument)}, expected an Instrument or None")
        self._compiled = compiled
        self._state = RequestState(compiled.memory, instrument)
        self._executors: dict[int, Executor] = {}  # by the identity of their programs
        self._shape_key: ShapeKey = ()
        self._lock = RunLock()
        #: The variables before the current run.
        self._previous: dict[str, Array] = {}
        renew_in_children(self)
        self.mismatches: list[Mismatch] = []
        self.invalid_indices: list[InvalidIndices] = []

    @property
    def fallbacks(self) -> list[Fallback]:
        """Instructions whose specialized kernels failed in some run, so that the slower plain kernels ran."""
        return list(self._state.fallbacks.values())

    def __repr__(self) -> str:
        return f"<InferRequest: {self._compiled.model!r}>"

    def __reduce__(self) -> NoReturn:
        raise TypeError(
            "an InferRequest cannot be copied or pickled: create one for each user with "
            "compiled_model.create_infer_request()"
        )

    def infer(
        self, inputs: Inputs = None, *, observers: Sequence[Observer] = (), timeout: float | None = None
    ) -> Outputs:
        """Run once.

        Args:
            inputs: An array, a sequence in the order of the Parameters, or a mapping from names to arrays.
            observers: Called after each instruction; see `Observer`.
            timeout: Seconds after which the run ends with an error: between two instructions, in bodies too, or between
                the blocks of a long computation.

        Returns:
            The outputs. Their arrays belong to the caller.

        Raises:
            InputError: A name is unknown, an input is missing, a type or shape does not match, or the run would
                exceed its memory.
            ExecutionError: A kernel failed, after which the variables keep the values from before the run; or the
                request is running already.
            TimeLimitError: The run took longer than `timeout`. It is an `ExecutionError`.
        """
        with self._lock:
            return self._infer(inputs, observers, timeout)

    def _infer(self, inputs: Inputs, observers: Sequence[Observer], timeout: float | None) -> Outputs:
        if timeout is not None:
            timeout = check_number("timeout", timeout, 0, "a number of seconds")
        if type(observers) is not tuple or observers:
            observers = check_functions("observers", observers)
        state = self._state
        start = perf_counter()
        state.deadline = None if timeout is None else Deadline(timeout)
        compiled = self._compiled
        arguments = collect_inputs(inputs, compiled.inputs, compiled._input_names)
        checks = _make_checks(compiled) if compiled.check else None
        self._state.observers = [*observers, *(checks or ())]
        variables = self._state.variables.values
        previous = self._previous = dict(variables)
        state.memory.start(arguments)
        start_activity(state)
        try:
            with (
                np.errstate(all="ignore"),
                run_within(state.memory),
                end_at(state.deadline),
                use_threads(compiled.threads),
            ):
                results = self._copy_shared_results(self._run(arguments), arguments)
        except BaseException as error:
            self._restore_variables()
            if isinstance(error, IrrunError):
                error.path = error.path or compiled.model.path
            raise
        finally:
            self._previous = {}
            stop_activity(state)
            state.memory.finish()
        if not self._state.observers:
            compiled._count_run(perf_counter() - start)
        if checks is not None:
            declarations, indices = checks
            self.mismatches, self.invalid_indices = declarations.mismatches, indices.found
        argument_ids = set(map(id, arguments))
        for name, value in variables.items():
            is_private = value.base is not None and value.base is state.variables.buffers.get(name)
            if value is not previous.get(name) and not is_private:
                variables[name] = value if _is_private(value, argument_ids) else np.array(value)
        return Outputs(compiled.outputs, compiled._output_names, results)

    def _restore_variables(self) -> None:
        variables = self._state.variables.values
        variables.clear()
        variables.update(self._previous)

    def _at_fork_reinit(self) -> None:
        if self._lock.renew():  # the run of another thread, which continues in the parent process
            self._restore_variables()
            self._executors = {}
            self._state.running.clear()
            self._state.memory.finish()
            with contextlib.suppress(ValueError):
                stop_activity(self._state)

    def query_state(self) -> list[VariableState]:
        """Return the variables of the model."""
        return list_variables(self._compiled._program, self._state.variables.values, self._lock)

    def reset_state(self) -> None:
        """Restore the initial value of every variable, and restart random generators.

        Raises:
            ExecutionError: The request is running.
        """
        with self._lock:
            self._state.reset()

    def _run(self, arguments: Sequence[Array | None]) -> list[Array]:
        """Run the program for the current observers and the shapes of the inputs."""
        compiled = self._compiled
        if self._state.observers:
            return self._get_executor(compiled._get_plain_program()).run(arguments)
        program = compiled._start_run()
        cache = compiled._get_shape_cache()
        if not cache.pays or self._state.instrument is not None:  # which measures all layers
            return self._get_executor(program).run(arguments)
        key = get_shape_key(arguments)
        is_repeated, self._shape_key = key == self._shape_key, key
        recording = None
        if is_repeated:
            known = cache.find(key)
            if known is not None:
                return self._get_executor(known).run(arguments)
            recording = cache.start_recording(key)
        if recording is None:
            return self._get_executor(program).run(arguments)
        results = Executor(recording.program, self._state).run(arguments)
        count = len(program.results)
        recording.keep(results[count:])
        return results[:count]

    def _get_executor(self, program: Program) -> Executor:
        """Return the executor of a program; recent executors are kept."""
        executor = self._executors.get(id(program))
        if executor is None or executor.program is not program:
            executor = self._executors[id(program)] = Executor(program, self._state)
            while len(self._executors) > MAX_EXECUTORS:
                self._executors.pop(next(iter(self._executors)))
        return executor

    def _copy_shared_results(self, results: Sequence[Array], arguments: Sequence[Array]) -> list[Array]:
        """Copy the results that share memory with an input, a constant, a variable or another result.

        Raises:
            InputError: The copies would exceed the memory of the run.
            ExecutionError: There is not enough memory for the copies.
        """
        compiled, memory = self._compiled, self._state.memory
        shared = {id(value) for value in (*arguments, *self._state.variables.values.values())}
        owned: list[Array] = []
        unchecked, large = 0, memory.large
        memory.sources += [(results, None), (owned, None)]
        try:
            for result in results:
                if not _is_private(result, shared):
                    unchecked += result.nbytes
                    if unchecked > large:
                        memory.check(result.nbytes)
                        unchecked = 0
                    memory.used += result.nbytes
                    result = np.array(result)
                owned.append(result)
                shared.add(id(result))
        except MemoryError:
            sizes = ", ".join(f"{spec}: {r.nbytes}" for spec, r in zip(compiled.outputs, results, strict=True))
            raise ExecutionError(
                f"out of memory; sizes of the outputs in bytes: {sizes}", path=compiled.model.path
            ) from None
        return owned


def _make_checks(compiled: PreparedModel) -> tuple[DeclarationCheck, IndexCheck]:
    from irrun.runtime.declaration_check import DeclarationCheck
    from irrun.runtime.index_check import IndexCheck

    return DeclarationCheck(compiled._program.computed_types), IndexCheck(compiled._program)


def _is_private(result: Array, shared: set[int]) -> bool:
    """Return whether writing to `result` cannot change a constant or an array with an id in `shared`.

    A view is private if no other array refers to the memory of its base, and it shows all of that memory.
    """
    if id(result) in shared or not result.flags.writeable:
        return False
    if result.flags.owndata:
        return True
    base = result.base
    if type(base) is not np.ndarray or not base.flags.owndata or base.nbytes != result.nbytes:
        return False
    del base
    return sys.getrefcount(result.base) <= 2  # the view, and the argument of the call
