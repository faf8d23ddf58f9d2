"""The public API of execution: compiled models, infer requests, their outputs and variables."""

from __future__ import annotations

import contextlib
import os
import re
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from irrun.activity import announce, start_activity, stop_activity
from irrun.arguments import check_choice, check_flag, check_functions, check_instance, check_number, describe_value
from irrun.deadlines import Deadline, end_at
from irrun.element_types import ElementType
from irrun.errors import ExecutionError, InputError, IrrunError
from irrun.fast.specialization import DEFAULT_PACKED_BYTES
from irrun.forks import make_lock, renew_in_children
from irrun.garbage import pause_collection
from irrun.ir.model import Model, TensorSpec, index_names, name_outputs
from irrun.ir.reader import read_model
from irrun.ir.weights import WeightsSource
from irrun.limits import format_size, parse_size, run_within
from irrun.machine_memory import get_available_memory
from irrun.ops._support.context import Declaration
from irrun.ops._support.operation import Operation, check_operation_list
from irrun.runtime import passes
from irrun.runtime.compilation import JIT_PACKED_BYTES, Jit, ProgramKernels, find_kernels, resolve_jit
from irrun.runtime.executor import Executor, Fallback, Instrument, RequestState
from irrun.runtime.inputs import InputKey, Inputs, collect_inputs, describe_type, find_position
from irrun.runtime.lowering import lower
from irrun.runtime.malloc import keep_freed_blocks
from irrun.runtime.observer import Observer
from irrun.runtime.passes.precision import PRECISIONS, change_precision
from irrun.runtime.program import ABSENT, Instruction, Program
from irrun.runtime.shape_values import ShapeCache, ShapeKey, get_shape_key
from irrun.shapes import PartialShape
from irrun.threads import get_default_thread_count, use_threads

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from irrun.runtime.declaration_check import DeclarationCheck, Mismatch
    from irrun.runtime.index_check import IndexCheck, InvalidIndices

__all__ = ["CompiledModel", "InferRequest", "Outputs", "VariableState", "compile_model", "run"]

Array = np.ndarray[Any, Any]

#: Maximum number of executors that a request keeps. Each has its own copies of the data that kernels prepare.
MAX_EXECUTORS = 6
#: Inputs and outputs that `repr` of a compiled model shows.
MAX_TENSORS = 4
#: Names of OpenVINO's devices that are accepted.
DEVICES = ("CPU", "AUTO", "AUTO:CPU")

#: The device names of OpenVINO.
_DEVICE_NAME = re.compile(r"(AUTO|BATCH|CPU|GNA|GPU|HETERO|MULTI|NPU|TEMPLATE)(\.\d+)?(:.*)?")


def compile_model(
    model: Model | str | os.PathLike[str],
    weights: WeightsSource | None = None,
    config: Mapping[str, Any] | None = None,
    *,
    device_name: str = "CPU",
    check: bool = False,
    weights_memory: int | str | None = None,
    threads: int | None = None,
    operations: Sequence[Operation] = (),
    optimize: bool = True,
    memory: int | str | None = None,
    jit: Jit = None,
    precision: str = "f32",
) -> CompiledModel:
    """Prepare a model for execution.

    Args:
        model: A model, or the path of its .xml file.
        weights: The weights of a model given as a path; by default the .bin next to it. A device name in this position,
            as in OpenVINO's `Core.compile_model`, is used as `device_name`.
        config: None or empty: irrun does not support properties of OpenVINO's devices.
        device_name: "CPU" or "AUTO", which have the same effect.
        check: Whether runs compare declared types and shapes with actual ones, and look for indices out of range; see
            `InferRequest.mismatches` and `InferRequest.invalid_indices`.
        weights_memory: Maximum number of bytes of folded constants, most of which are decompressed weights, or a text
            such as "2G". None selects half of `memory`, or half of the memory that is available to the process.
            Values beyond the limit are computed in each run and freed after their last use. 0 disables constant
            folding, and methods of convolution that keep their filters in another form, up to 256 MiB in total. Integer
            weights of large matrix products always stay compressed, because products of few rows are faster with them.
        threads: Number of threads of a run; None for the value of the environment variable IRRUN_NUM_THREADS, or the
            number of cores. Results do not depend on it.
        operations: Custom operations for this model; they take precedence over registered ones.
        optimize: Whether runs without observers use specialized kernels. Otherwise, and in runs with observers, the
            plain kernels of `irrun.ops` compute every intermediate value.
        memory: Maximum size of the values of one run at the same time, without the weights and the inputs: a number of
            bytes, or a text such as "2G". By default the memory that is available to the process.
        jit: Whether runs use kernels that are compiled for the processor, which requires the extra `jit`. True compiles
            them now. "auto" uses them if they have been compiled before for this model and these options; otherwise,
            once runs have taken long enough for it to pay off, they are compiled in the background for models that are
            compiled later. Compiled kernels may round f32 differently, so a compiled model never switches kernels. None
            selects the value of the environment variable IRRUN_JIT, or "auto".
        precision: The precision of computations. "f32", as in OpenVINO's CPU plugin with the same precision hint,
            computes values in f16 and bf16 in f32, without rounding between operations. "declared" rounds each value
            to its declared type. "f64" computes all floating-point values in f64. Inputs, outputs and variables
            keep their declared types.

    Returns:
        A model that can be called.

    Raises:
        UnsupportedError: The model has unsupported operations; the message lists all of them.
        ModelError: The file is invalid.
        InputError: `device_name` is not supported, `config` has properties, `weights` is set for a model that was
            read already, `threads` is not positive, `memory` is not a positive size, `precision` is unknown, or `jit`
            is True and llvmlite is not installed. It is a `ValueError`.
    """
    if isinstance(weights, str) and _is_device(weights):
        device_name, weights = weights, None
    if isinstance(weights, Mapping):
        weights, config = None, weights
    if config is not None and check_instance("config", config, Mapping, "None"):
        raise InputError(
            f"properties of devices are not supported, found {', '.join(map(str, config))}; "
            "the options of irrun are the keyword arguments of compile_model"
        )
    if not isinstance(device_name, str) or device_name not in DEVICES:
        raise InputError(f"device {describe_value(device_name)} is not supported, expected one of {', '.join(DEVICES)}")
    if not isinstance(model, Model):
        model = read_model(model, weights)
    elif weights is not None:
        raise InputError("weights can be passed with the path of a model only; pass them to read_model")
    return CompiledModel(
        model,
        check=check,
        weights_memory=weights_memory,
        threads=threads,
        operations=operations,
        optimize=optimize,
        memory=memory,
        jit=jit,
        precision=precision,
    )


def _is_device(text: str) -> bool:
    """Return whether a text passed as the weights is the name of a device."""
    is_word = bool(text) and text.replace(".", "").replace(":", "").isalnum()
    return bool(_DEVICE_NAME.fullmatch(text)) or (is_word and not Path(text).suffix and not os.path.exists(text))


class CompiledModel:
    """A model that can be run.

    A compiled model never changes, so threads can share it if each of them creates its own infer request. Calling the
    model runs a request that all calls share, so only one thread at a time may call it; a second one gets an
    `ExecutionError`.

    Attributes:
        model: The model that it was compiled from.
        inputs: The inputs, in the order of the Parameters.
        outputs: The outputs, in the order of the Results.
        check: Whether runs compare declared types and shapes with actual ones, and look for indices out of range.
        threads: Number of threads of a run.
        optimize: Whether runs without observers use specialized kernels.
        memory: Memory limit in bytes for the values of one run; None for the available memory.
        precision: The precision of computations: "f32", "declared" or "f64".
        jit: Whether kernels are compiled for the processor: True, False or "auto".

    Args:
        keeps_output_types: Whether outputs are converted to their declared types, which references in f64 are not.
    """

    def __init__(
        self,
        model: Model,
        *,
        check: bool = False,
        weights_memory: int | str | None = None,
        threads: int | None = None,
        operations: Sequence[Operation] = (),
        optimize: bool = True,
        memory: int | str | None = None,
        jit: Jit = None,
        precision: str = "f32",
        keeps_output_types: bool = True,
    ) -> None:
        check_instance("model", model, Model, "a Model; compile_model accepts the path of an .xml file, too")
        check, optimize = check_flag("check", check), check_flag("optimize", optimize)
        operations = check_operation_list(operations)
        self.precision = check_choice("precision", precision, tuple(PRECISIONS))
        self.memory = None if memory is None else _resolve_size("memory", memory)
        if weights_memory is not None:
            weights_memory = _resolve_size("weights_memory", weights_memory, accepts_zero=True)
        limit = weights_memory
        self.threads = _resolve_threads(threads)
        self.model = model
        self.inputs = model.inputs
        self.outputs = model.outputs
        self.check = check
        self.optimize = optimize
        self._input_names = index_names(self.inputs)
        self._output_names = index_names(self.outputs)
        if weights_memory is None:
            weights_memory = (get_available_memory() if self.memory is None else self.memory) // 2
        self._packed_bytes = weights_memory
        self.jit = resolve_jit(jit)
        self._kernels: ProgramKernels | None = None
        if optimize and self.jit:
            options = (precision, memory, limit, keeps_output_types, sorted(map(str, operations)))
            self._kernels = find_kernels(model, options)
        #: Whether runs without observers use compiled kernels, which never changes after the first one.
        self._is_compiled = self._kernels is not None and (self.jit is True or self._kernels.are_complete())
        with use_threads(self.threads), announce(self._describe_preparation()):
            with pause_collection():
                self._program = lower(model, operations)
            change_precision(self._program, precision, keeps_output_types)
            passes.apply_passes(self._program, weights_memory, model.weights.release, keeps_compressed=optimize)
            with np.errstate(all="ignore"), pause_collection():
                self._fast_program = self._choose_program() if optimize else self._program
        self._is_settled = False
        self._settling = make_lock()
        keep_freed_blocks()
        self._shape_cache: ShapeCache | None = None
        self._request: InferRequest | None = None
        self._request_lock = make_lock()
        #: Whether the next run is the first one that reads weights from the file; compiled kernels have copies.
        self._prefetches_weights = not self._is_compiled

    def __repr__(self) -> str:
        inputs, outputs = map(_list_tensors, (self.inputs, self.outputs))
        threads = f"{self.threads} thread{'s' * (self.threads != 1)}"
        options = f"{threads}, precision {self.precision}, {self._describe_kernels()}"
        return f"<CompiledModel: {self.model.name!r}, ({inputs}) -> ({outputs}), {options}>"

    def __reduce__(self) -> NoReturn:
        raise TypeError(
            "a CompiledModel cannot be copied or pickled: it never changes, so threads share it; pass the path of the "
            "model, or compiled.model, which can be pickled, to another process, and compile it there"
        )

    def _describe_kernels(self) -> str:
        """Return which kernels runs without observers use."""
        if not self.optimize:
            return "plain kernels"
        if self.jit != "auto":
            return "jit on" if self.jit else "jit off"
        if self._is_compiled:
            return "jit auto (compiled)"
        return f"jit auto ({'llvmlite is not installed' if self._kernels is None else 'not compiled'})"

    def _repr_html_(self) -> str:
        from irrun._html import make_table

        instructions = self._fast_program.instructions
        fast = sum(bool(instruction.plain) for instruction in instructions)
        rows = [
            ("threads", self.threads),
            ("precision", self.precision),
            ("kernels", self._describe_kernels()),
            ("program", f"{len(instructions)} instructions, {fast} of them with specialized kernels"),
            ("memory", "the available memory" if self.memory is None else format_size(self.memory)),
        ]
        return f"<div>{self.model._repr_html_()}{make_table('Compiled', ('', ''), rows)}</div>"

    @property
    def computed_types(self) -> Mapping[np.dtype[Any], np.dtype[Any]]:
        """The declared types that runs replace by others, because of `precision`."""
        return self._program.computed_types

    def input(self, key: int | str = 0) -> TensorSpec:
        """Return the input of a position or name.

        Raises:
            ModelError: The model does not have it.
        """
        return self.model.input(key)

    def output(self, key: int | str = 0) -> TensorSpec:
        """Return the output of a position or name.

        Raises:
            ModelError: The model does not have it.
        """
        return self.model.output(key)

    def _describe_preparation(self) -> str:
        if not self._is_compiled:
            return "preparing the program"
        return "compiling kernels" if self.jit is True else "loading kernels"

    def _choose_program(self) -> Program:
        """Return the program of runs without observers."""
        if self._is_compiled:
            try:
                return self._compile_program()
            except Exception:
                if self.jit is True:
                    raise
                self._is_compiled = False
        return self._optimize(uses_jit=False)

    def _compile_program(self) -> Program:
        """Return the program with compiled kernels, and note that they have been compiled."""
        program = self._optimize(uses_jit=True)
        if self._kernels is not None:
            self._kernels.set_complete(program)
        return program

    def _optimize(self, uses_jit: bool) -> Program:
        weights = self.model.weights
        return passes.optimize(
            self._program,
            uses_jit,
            min(self._packed_bytes, JIT_PACKED_BYTES if uses_jit else DEFAULT_PACKED_BYTES),
            weights.release,
            # Compiled kernels read compressed weights in their stored form, and copy other weights.
            0 if uses_jit else self._packed_bytes,
            weights.contains,
        )

    def _start_runs(self) -> Program:
        """Return the program of runs without observers, which does not change from now on."""
        if not self._is_settled:
            with self._settling:
                self._is_settled = True
        return self._fast_program

    def _count_run(self, seconds: float) -> None:
        """Count a run without observers. After enough of them, kernels are compiled for later models."""
        if self._kernels is not None and not self._is_compiled:
            self._kernels.count_run(seconds, lambda: self._optimize(uses_jit=True))

    def _get_shape_cache(self, program: Program) -> ShapeCache:
        cache = self._shape_cache
        if cache is None or cache.program is not program:
            cache = self._shape_cache = ShapeCache(program, self.optimize)
        return cache

    def _prefetch_weights(self, program: Program) -> None:
        """Read the weights that are used as a whole into memory; other operations may only need some rows."""
        self._prefetches_weights = False
        instructions = (i for instruction in program.instructions for i in instruction.plain or (instruction,))
        slots = [s for i in instructions if i.operation.kind in ("product", "window") for s in i.inputs]
        constants = [program.initial[slot] for slot in dict.fromkeys(slots) if slot in program.constant_layers]
        self.model.weights.prefetch([value for value in constants if value is not None])

    def _get_plain_program(self) -> Program:
        """Return the program of runs with observers."""
        if self._program.unaligned:
            from irrun.runtime.passes.constant_alignment import align_postponed_constants

            align_postponed_constants(self._program)
            self.model.weights.release()
        return self._program

    def finish_compilation(self) -> None:
        """Compile now the kernels that would be compiled in the background, and use them from the first run on.

        The kernels of a model do not change after its first run. From then on, this method only waits for a compilation
        that has started in the background.
        """
        with self._settling:
            if not self._is_settled and self._kernels is not None and not self._is_compiled:
                with contextlib.suppress(Exception), np.errstate(all="ignore"), use_threads(self.threads):
                    self._fast_program = self._compile_program()
                    self._is_compiled, self._prefetches_weights = True, False
        if self._kernels is not None:
            self._kernels.wait()

    def create_infer_request(self, instrument: Instrument | None = None) -> InferRequest:
        """Create an infer request with its own variables. Requests can run in several threads at once.

        Args:
            instrument: Measures the kernels; see `Instrument`.
        """
        return InferRequest(self, instrument)

    def __call__(
        self, inputs: Inputs = None, *, observers: Sequence[Observer] = (), timeout: float | None = None
    ) -> Outputs:
        """Run once, on a request that all calls share: variables keep their values between calls.

        Args:
            inputs: An array, a sequence in the order of the Parameters, or a mapping from names to arrays.
            observers: Called after each instruction; see `Observer`.
            timeout: Seconds after which the run ends with an error; see `InferRequest.infer`.

        Raises:
            InputError: The inputs do not match the model, or the run would exceed its memory.
            ExecutionError: A kernel failed, the run exceeded its time limit, or the shared request is running.
        """
        with self._request_lock:
            if self._request is None:
                self._request = self.create_infer_request()
        return self._request.infer(inputs, observers=observers, timeout=timeout)

    def reset_state(self) -> None:
        """Reset the variables of the request that all calls share."""
        if self._request is not None:
            self._request.reset_state()


class Outputs(Mapping[InputKey, Array]):
    """The outputs of one run, by position or name. Iteration yields one name per output."""

    def __init__(self, specs: Sequence[TensorSpec], names: Mapping[str, int], arrays: Sequence[Array]) -> None:
        self._specs = specs
        self._names = names
        self._arrays = arrays

    def __getitem__(self, key: InputKey) -> Array:
        position = find_position(key, self._specs, self._names)
        if position is None:
            shown = str(key) if isinstance(key, TensorSpec) else repr(key)
            known = ", ".join(spec.names[0] for spec in self._specs if spec.names)
            error = IndexError if isinstance(key, int) else KeyError
            raise error(f"unknown output {shown}; the model has {len(self._arrays)}: {known}")
        return self._arrays[position]

    def __repr__(self) -> str:
        shown = (f"{name}: {_describe_array(array)}" for name, array in self.to_dict().items())
        return f"<Outputs: {', '.join(shown)}>"

    def _repr_html_(self) -> str:
        from irrun._html import describe_array, make_table

        rows = [(name, _describe_array(array), *describe_array(array)) for name, array in self.to_dict().items()]
        return make_table("Outputs", ("output", "type", "range", "first values"), rows)

    def __contains__(self, key: object) -> bool:
        return find_position(key, self._specs, self._names) is not None

    def __iter__(self) -> Iterator[str]:
        return iter(self.to_dict())

    def __len__(self) -> int:
        return len(self._arrays)

    def to_tuple(self) -> tuple[Array, ...]:
        """Return the arrays in the order of the model's Results."""
        return tuple(self._arrays)

    def to_dict(self) -> dict[str, Array]:
        """Return the arrays by name, each under one name."""
        return dict(zip(name_outputs(self._specs), self._arrays, strict=True))


class VariableState:
    """A variable of an infer request, after OpenVINO's class of the same name.

    Attributes:
        name: The id of the variable.
    """

    def __init__(
        self,
        name: str,
        values: dict[str, Array],
        declaration: Declaration,
        initial: Array | None = None,
        computed_types: Mapping[np.dtype[Any], np.dtype[Any]] | None = None,
        lock: _RunLock | None = None,
    ) -> None:
        self.name = name
        self._lock = lock or _RunLock()
        self._values = values
        self._declaration = declaration
        self._initial = initial
        self._computed_types = computed_types or {}

    def __repr__(self) -> str:
        value = self._values.get(self.name)
        shown = "initial value" if value is None else _describe_array(value)
        return f"<VariableState: {self.name!r}, {shown}>"

    @property
    def state(self) -> Array:
        """A copy of the value.

        An initial value that the inputs of the next run determine is represented by zeros of the declared type, with
        the lower bounds of the declared shape.

        Raises:
            InputError: On assignment, if the new value does not have the declared type and shape.
            ExecutionError: On assignment, if the request is running.
        """
        value = self._values.get(self.name, self._initial)
        if value is None:
            return self._declaration.make_zeros()
        element_type = self._declaration.type
        is_changed = element_type is not None and self._computed_types.get(element_type.dtype) == value.dtype
        return value.astype(element_type.dtype) if element_type is not None and is_changed else value.copy()

    @state.setter
    def state(self, value: ArrayLike) -> None:
        element_type = self._declaration.type
        is_typed = isinstance(value, (np.ndarray, np.generic))
        try:
            array = np.array(value) if is_typed or element_type is None else np.array(value, element_type.dtype)
        except Exception:  # objects convert themselves
            found = describe_value(value)
            raise InputError(f"the value of variable {self.name!r} is {found}, expected an array") from None
        self._declaration.check(self.name, array)
        with self._lock:
            self._values[self.name] = array.astype(self._computed_types.get(array.dtype, array.dtype), copy=False)

    def reset(self) -> None:
        """Restore the initial value.

        Raises:
            ExecutionError: The request is running.
        """
        with self._lock:
            self._values.pop(self.name, None)


class _RunLock:
    """A lock that a request holds while it runs.

    A second caller does not wait, because it would get the state of the first one.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._thread = 0

    def __enter__(self) -> None:
        if not self._lock.acquire(blocking=False):
            raise ExecutionError(
                "the infer request is running; each thread needs its own request: compiled_model.create_infer_request()"
            )
        self._thread = threading.get_ident()

    def __exit__(self, *error: object) -> None:
        self._thread = 0
        self._lock.release()

    def renew(self) -> bool:
        """Release the lock if its thread does not exist in the child process, and return whether that was so."""
        is_abandoned = self._lock.locked() and self._thread != threading.get_ident()
        if is_abandoned:
            self._lock = threading.Lock()
        return is_abandoned


class InferRequest:
    """The state of one user of a compiled model, which includes its own variables.

    Only one thread at a time may use a request: while it runs, others that call it get an `ExecutionError`.

    Attributes:
        mismatches: Differences between declared and actual types and shapes in the last run, if `check` is true.
        invalid_indices: Indices out of range in the last run, which kernels accept, if `check` is true.
    """

    def __init__(self, compiled: CompiledModel, instrument: Instrument | None = None) -> None:
        if not isinstance(getattr(compiled, "model", None), Model):
            raise InputError(f"compiled is {describe_value(compiled)}, expected a CompiledModel")
        if instrument is not None and not hasattr(instrument, "wrap"):
            raise InputError(f"instrument is {describe_value(instrument)}, expected an Instrument or None")
        self._compiled = compiled
        self._state = RequestState(compiled.memory, instrument)
        self._executors: dict[int, Executor] = {}  # by the identity of their programs
        self._shape_key: ShapeKey = ()
        self._lock = _RunLock()
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
        variables: dict[str, tuple[Declaration, Array | None]] = {}
        for program, instruction in self._compiled._program.walk():
            name = instruction.attributes.get("variable_id")
            if name is not None and any(port.name == "init_value" for port in instruction.operation.inputs):
                variables[name] = _declare_variable(program, instruction)
            elif name is not None:
                variables.setdefault(name, (Declaration(None, None), None))
        values = self._state.variables.values
        computed_types = self._compiled.computed_types
        return [
            VariableState(name, values, *variable, computed_types, self._lock) for name, variable in variables.items()
        ]

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
        program = compiled._start_runs()
        if compiled._prefetches_weights:
            compiled._prefetch_weights(program)
        cache = compiled._get_shape_cache(program)
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
        memory.sources += [(results, None), (owned, None)]
        try:
            for result in results:
                if _is_private(result, shared):
                    owned.append(result)
                else:
                    memory.check(result.nbytes)
                    owned.append(np.array(result))
                    memory.used += result.nbytes
                shared.add(id(owned[-1]))
        except MemoryError:
            sizes = ", ".join(f"{spec}: {r.nbytes}" for spec, r in zip(compiled.outputs, results, strict=True))
            raise ExecutionError(
                f"out of memory; sizes of the outputs in bytes: {sizes}", path=compiled.model.path
            ) from None
        return owned


def _list_tensors(specs: Sequence[TensorSpec]) -> str:
    """Return the first inputs or outputs as text."""
    more = [f"{len(specs) - MAX_TENSORS} more"] if len(specs) > MAX_TENSORS else []
    return ", ".join([*map(str, specs[:MAX_TENSORS]), *more])


def _resolve_size(name: str, size: int | str, *, accepts_zero: bool = False) -> int:
    """Return a number of bytes.

    Raises:
        InputError: It is not a positive size, or 0 if that is accepted.
    """
    try:
        return 0 if accepts_zero and str(size) == "0" else parse_size(str(size))
    except ValueError:
        raise InputError(f"{name} is {size!r}, expected a number of bytes or a size such as '800M' or '2G'") from None


def _resolve_threads(threads: int | None) -> int:
    """Return the number of threads of runs.

    Raises:
        InputError: It is not a positive integer.
    """
    if threads is None:
        return get_default_thread_count()
    if not isinstance(threads, (int, np.integer)) or isinstance(threads, (bool, np.bool_)) or threads < 1:
        raise InputError(f"threads: expected at least one thread, found {threads!r}")
    return int(threads)


def _declare_variable(program: Program, instruction: Instruction) -> tuple[Declaration, Array | None]:
    """Return the declaration of the variable of a ReadValue, and its initial value unless inputs determine it."""
    attributes = instruction.attributes
    element_type = attributes.get("variable_type")
    if element_type is None and instruction.layer.outputs:
        element_type = instruction.layer.outputs[0].element_type
    slot = instruction.inputs[0] if instruction.inputs else ABSENT
    initial = program.initial[slot]
    if initial is not None:
        element_type = ElementType.of(initial.dtype)
    declared = instruction.layer.outputs[0].element_type if instruction.layer.outputs else None
    if declared and element_type and program.computed_types.get(declared.dtype) == element_type.dtype:
        element_type = declared
    declaration = Declaration(element_type, _find_variable_shape(instruction, initial))
    return declaration, declaration.make_zeros() if slot == ABSENT else initial


def _find_variable_shape(instruction: Instruction, initial: Array | None) -> PartialShape | None:
    """Return the shape of a variable: the declared shape or, if it has no rank, the shape of the initial value."""
    shape: PartialShape | None = instruction.attributes.get("variable_shape")
    if shape is not None or not instruction.inputs:
        return shape
    if initial is not None:
        return PartialShape(initial.shape)
    ports = (*instruction.layer.outputs[:1], *instruction.layer.inputs[:1])
    # OpenVINO writes ports without dimensions for both scalars and dynamic ranks.
    return next((port.shape for port in ports if port.shape), None)


def _make_checks(compiled: CompiledModel) -> tuple[DeclarationCheck, IndexCheck]:
    from irrun.runtime.declaration_check import DeclarationCheck
    from irrun.runtime.index_check import IndexCheck

    return DeclarationCheck(compiled.computed_types), IndexCheck(compiled._program)


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


def _describe_array(array: Array) -> str:
    return f"{describe_type(array)}[{','.join(map(str, array.shape))}]"


def run(model: Model | str | os.PathLike[str], inputs: Inputs = None, weights: WeightsSource | None = None) -> Outputs:
    """Read, compile and run a model once.

    Args:
        model: A model, or the path of its .xml file.
        inputs: An array, a sequence in the order of the Parameters, or a mapping from names to arrays.
        weights: The weights of a model given as a path; by default the .bin next to it.

    Raises:
        IrrunError: See `compile_model` and `CompiledModel.__call__`.
    """
    return compile_model(model, weights)(inputs)
