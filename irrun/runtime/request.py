"""The public API of execution: compiled models, infer requests, their outputs and variables."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from irrun.errors import ExecutionError, IrrunError
from irrun.ir.model import Model, TensorSpec, index_names
from irrun.ir.reader import read_model
from irrun.ir.weights import WeightsSource
from irrun.ops._support.operation import Operation
from irrun.runtime import passes
from irrun.runtime.declarations import DeclarationCheck, Mismatch
from irrun.runtime.executor import Executor, Observer, RequestState
from irrun.runtime.inputs import InputKey, Inputs, collect_inputs, describe_type, find_position
from irrun.runtime.lowering import lower
from irrun.runtime.malloc import keep_freed_blocks
from irrun.runtime.passes import DEFAULT_LIMIT, apply_passes

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

__all__ = ["CompiledModel", "InferRequest", "Outputs", "VariableState", "compile_model", "run"]

Array = np.ndarray[Any, Any]

#: OpenVINO's devices that irrun stands in for.
DEVICES = ("CPU", "AUTO", "AUTO:CPU")

#: What OpenVINO accepts as a device name.
_DEVICE_NAME = re.compile(r"(AUTO|BATCH|CPU|GNA|GPU|HETERO|MULTI|NPU|TEMPLATE)(\.\d+)?(:.*)?")


def compile_model(
    model: Model | str | os.PathLike[str],
    weights: WeightsSource | None = None,
    *,
    device_name: str = "CPU",
    check: bool = False,
    fold_limit: int = DEFAULT_LIMIT,
    operations: Sequence[Operation] = (),
    optimize: bool = True,
) -> CompiledModel:
    """Prepare a model for execution.

    Args:
        model: A model, or the path of its .xml file.
        weights: For a path, where the weights are if not beside it. A device name in this position, as in
            OpenVINO's `Core.compile_model`, is taken as `device_name`.
        device_name: "CPU" or "AUTO", which are the same here.
        check: Whether runs compare declared types and shapes with actual ones; see `InferRequest.mismatches`.
        fold_limit: Bytes that values computed from constants alone, mostly decompressed weights, may take. What
            exceeds them is computed in each run and freed after its last use. 0 disables constant folding.
        operations: Custom operations for this model; they take precedence over registered ones.
        optimize: Whether runs without observers use faster implementations. Otherwise, and in runs with observers,
            the plain definitions of `irrun.ops` compute every intermediate value.

    Returns:
        A model that can be called.

    Raises:
        UnsupportedError: The model has unsupported operations; the message lists all of them.
        ModelError: The file is invalid.
        ValueError: `device_name` is not supported.
    """
    if isinstance(weights, str) and _DEVICE_NAME.fullmatch(weights):
        device_name, weights = weights, None
    if device_name not in DEVICES:
        raise ValueError(f"device {device_name!r} is not supported, expected one of {', '.join(DEVICES)}")
    if not isinstance(model, Model):
        model = read_model(model, weights)
    return CompiledModel(model, check=check, fold_limit=fold_limit, operations=operations, optimize=optimize)


class CompiledModel:
    """A model that can be run.

    A compiled model never changes, so that threads can share it: create one infer request per thread. Calling it
    runs a request that all calls share, so that only one thread at a time may do that.

    Attributes:
        model: The model that it was compiled from.
        inputs: The inputs, in the order of the Parameters.
        outputs: The outputs, in the order of the Results.
        check: Whether runs compare declared types and shapes with actual ones.
    """

    def __init__(
        self,
        model: Model,
        *,
        check: bool = False,
        fold_limit: int = DEFAULT_LIMIT,
        operations: Sequence[Operation] = (),
        optimize: bool = True,
    ) -> None:
        self.model = model
        self.inputs = model.inputs
        self.outputs = model.outputs
        self.check = check
        self._input_names = index_names(self.inputs)
        self._output_names = index_names(self.outputs)
        self._program = lower(model, operations)
        apply_passes(self._program, fold_limit, model.weights.release)
        self._fast_program = passes.optimize(self._program) if optimize else self._program
        keep_freed_blocks()
        self._request: InferRequest | None = None

    def __repr__(self) -> str:
        return f"<CompiledModel: {self.model!r}>"

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

    def create_infer_request(self) -> InferRequest:
        """Create an infer request with variables of its own. Requests can run on several threads at once."""
        return InferRequest(self)

    def __call__(self, inputs: Inputs = None, *, observers: Sequence[Observer] = ()) -> Outputs:
        """Run once, on a request that all calls share: variables keep their values between calls.

        Args:
            inputs: An array, a sequence in the order of the Parameters, or a mapping from names to arrays.
            observers: Called after each instruction; see `Observer`.

        Raises:
            InputError: The inputs do not match the model.
            ExecutionError: A kernel failed.
        """
        if self._request is None:
            self._request = self.create_infer_request()
        return self._request.infer(inputs, observers=observers)

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
        arrays: dict[str, Array] = {}
        for i, (spec, array) in enumerate(zip(self._specs, self._arrays, strict=True)):
            name = next(n for n in (*spec.names, f"output{i}", f"output{i}.result") if n not in arrays)
            arrays[name] = array
        return arrays


class VariableState:
    """A variable of an infer request, after OpenVINO's class of the same name.

    Attributes:
        name: The variable's id.
    """

    def __init__(self, name: str, values: dict[str, Array]) -> None:
        self.name = name
        self._values = values

    def __repr__(self) -> str:
        value = self._values.get(self.name)
        shown = "initial value" if value is None else _describe_array(value)
        return f"<VariableState: {self.name!r}, {shown}>"

    @property
    def state(self) -> Array | None:
        """A copy of the value; None while the variable has its initial value."""
        value = self._values.get(self.name)
        return None if value is None else value.copy()

    @state.setter
    def state(self, value: ArrayLike) -> None:
        self._values[self.name] = np.array(value)

    def reset(self) -> None:
        """Restore the initial value."""
        self._values.pop(self.name, None)


class InferRequest:
    """One user's run of a compiled model, with variables of its own.

    A request belongs to one thread at a time.

    Attributes:
        mismatches: With `check=True`, where declared and actual types and shapes of the last run differ.
    """

    def __init__(self, compiled: CompiledModel) -> None:
        self._compiled = compiled
        self._state = RequestState()
        self._executors: dict[bool, Executor] = {}  # by whether there are observers
        self.mismatches: list[Mismatch] = []

    def __repr__(self) -> str:
        return f"<InferRequest: {self._compiled.model!r}>"

    def infer(self, inputs: Inputs = None, *, observers: Sequence[Observer] = ()) -> Outputs:
        """Run once.

        Args:
            inputs: An array, a sequence in the order of the Parameters, or a mapping from names to arrays.
            observers: Called after each instruction; see `Observer`.

        Returns:
            Arrays that belong to the caller.

        Raises:
            InputError: A name is unknown, an input is missing, or a type or shape does not match.
            ExecutionError: A kernel failed. The variables keep the values from before the run.
        """
        compiled = self._compiled
        arguments = collect_inputs(inputs, compiled.inputs, compiled._input_names)
        check = DeclarationCheck() if compiled.check else None
        self._state.observers = [*observers, *([check] if check else [])]
        variables = self._state.variables.values
        previous = dict(variables)
        try:
            with np.errstate(all="ignore"):
                results = self._get_executor().run(arguments)
        except BaseException as error:
            variables.clear()
            variables.update(previous)
            if isinstance(error, IrrunError):
                error.path = error.path or compiled.model.path
            raise
        if check:
            self.mismatches = check.mismatches
        for name, value in variables.items():
            if value is not previous.get(name):
                variables[name] = _copy_if_shared(value, arguments)
        return Outputs(compiled.outputs, compiled._output_names, self._own_results(results, arguments))

    def query_state(self) -> list[VariableState]:
        """Return the variables of the model."""
        names: dict[str, None] = {}
        for _, layer in self._compiled.model.graph.walk():
            if layer.type in ("ReadValue", "Assign"):
                names[str(layer.attributes.get("variable_id", ""))] = None
        return [VariableState(name, self._state.variables.values) for name in names]

    def reset_state(self) -> None:
        """Restore the initial value of every variable, and restart random generators."""
        self._state.reset()

    def _get_executor(self) -> Executor:
        is_observed = bool(self._state.observers)
        if is_observed not in self._executors:
            compiled = self._compiled
            program = compiled._program if is_observed else compiled._fast_program
            self._executors[is_observed] = Executor(program, self._state)
        return self._executors[is_observed]

    def _own_results(self, results: Sequence[Array], arguments: Sequence[Array]) -> list[Array]:
        """Copy the results that an input, a constant, a variable or another result shares."""
        shared = [*arguments, *self._state.variables.values.values()]
        owned: list[Array] = []
        try:
            for result in results:
                owned.append(_copy_if_shared(result, [*shared, *owned]))
        except MemoryError:
            compiled = self._compiled
            sizes = ", ".join(f"{spec}: {r.nbytes}" for spec, r in zip(compiled.outputs, results, strict=True))
            raise ExecutionError(
                f"out of memory; sizes of the outputs in bytes: {sizes}", path=compiled.model.path
            ) from None
        return owned


def _copy_if_shared(result: Array, shared: Sequence[Array]) -> Array:
    """Return `result`, or a copy if writing to it could change one of `shared` or a constant."""
    if result.flags.owndata and result.flags.writeable and not any(result is other for other in shared):
        return result
    return np.array(result)


def _describe_array(array: Array) -> str:
    return f"{describe_type(array)}[{','.join(map(str, array.shape))}]"


def run(model: Model | str | os.PathLike[str], inputs: Inputs = None, weights: WeightsSource | None = None) -> Outputs:
    """Read, compile and run a model once.

    Args:
        model: A model, or the path of its .xml file.
        inputs: An array, a sequence in the order of the Parameters, or a mapping from names to arrays.
        weights: For a path, where the weights are if not beside it.

    Raises:
        IrrunError: As `compile_model` and `CompiledModel.__call__`.
    """
    return compile_model(model, weights)(inputs)
