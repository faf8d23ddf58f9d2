"""CompiledModel and InferRequest: a lowered model, and one user's run of it."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from irrun.element_types import ElementType
from irrun.errors import ExecutionError, InputError, IrrunError
from irrun.ir.model import Model, TensorSpec, index_names
from irrun.ir.reader import read_model
from irrun.ir.weights import WeightsSource
from irrun.runtime.declarations import DeclarationCheck, Mismatch
from irrun.runtime.executor import Executor, Observer, RequestState
from irrun.runtime.lowering import lower
from irrun.runtime.malloc import keep_freed_blocks
from irrun.runtime.passes import DEFAULT_LIMIT, apply_passes

__all__ = ["CompiledModel", "InferRequest", "Inputs", "Outputs", "VariableState", "compile_model", "run"]

Array = np.ndarray[Any, Any]

#: One array, a list in Parameter order, or a mapping from names (or positions, or tensors) to arrays.
Inputs = Any


#: The devices of OpenVINO that irrun stands in for.
DEVICES = ("CPU", "AUTO")


def compile_model(
    model: Model | str | os.PathLike[str],
    weights: WeightsSource | None = None,
    *,
    device_name: str = "CPU",
    check: bool = False,
    fold_limit: int = DEFAULT_LIMIT,
    **config: Any,
) -> CompiledModel:
    """Lower a model so that it can run.

    Args:
        model: a Model, or the path of its .xml.
        weights: for a path, where its weights are, if not beside it. OpenVINO's programs have the device name in
            its place, which counts as `device_name`.
        device_name: "CPU" or "AUTO", which are the same here.
        check: whether runs compare declared types and shapes with actual ones (`InferRequest.mismatches`).
        fold_limit: bytes that values computed from constants alone (decompressed weights, mostly) may take; what
            does not fit is computed in each run, and freed after its last use. 0 folds nothing.
        config: nothing else is known.

    Raises:
        UnsupportedError: it needs operations that irrun lacks; all are listed.
        ModelError: the file is wrong.
        TypeError: an unknown option.
        ValueError: another device.
    """
    if config:
        raise TypeError(f"compile_model() has no option {', '.join(sorted(config))}")
    if isinstance(weights, str) and weights in DEVICES:
        device_name, weights = weights, None
    if device_name not in DEVICES:
        raise ValueError(f"irrun computes on the CPU, not on {device_name!r}")
    if not isinstance(model, Model):
        model = read_model(model, weights)
    return CompiledModel(model, check=check, fold_limit=fold_limit)


class CompiledModel:
    """A lowered model; calling it runs it.

    Attributes:
        model: what it was made from.
        inputs, outputs: as `Model.inputs` and `Model.outputs`.
    """

    def __init__(self, model: Model, *, check: bool = False, fold_limit: int = DEFAULT_LIMIT) -> None:
        self.model = model
        self.inputs = model.inputs
        self.outputs = model.outputs
        self.check = check
        self._input_names = index_names(self.inputs)
        self._output_names = index_names(self.outputs)
        self._program = lower(model)
        apply_passes(self._program, fold_limit, model.weights.release)
        keep_freed_blocks()
        self._request: InferRequest | None = None

    def __repr__(self) -> str:
        return f"<CompiledModel: {self.model!r}>"

    def input(self, key: int | str = 0) -> TensorSpec:
        """The input at a position or of a name.

        Raises:
            ModelError: there is none.
        """
        return self.model.input(key)

    def output(self, key: int | str = 0) -> TensorSpec:
        """The output at a position or of a name.

        Raises:
            ModelError: there is none.
        """
        return self.model.output(key)

    def create_infer_request(self) -> InferRequest:
        """A request with variables of its own; requests can run side by side on several threads."""
        return InferRequest(self)

    def __call__(self, inputs: Inputs = None, *, observers: Sequence[Observer] = ()) -> Outputs:
        """Run once, on a request that all calls share: variables go on from call to call.

        Raises:
            InputError: what was fed does not fit.
            ExecutionError: a kernel failed.
        """
        if self._request is None:
            self._request = self.create_infer_request()
        return self._request.infer(inputs, observers=observers)

    def reset_state(self) -> None:
        """Give the variables of the shared request their first values again."""
        if self._request is not None:
            self._request.reset_state()


class Outputs(Mapping[Any, Array]):
    """The outputs of one run: by position, by any name, or in a loop over names."""

    def __init__(self, tensors: Sequence[TensorSpec], names: Mapping[str, int], arrays: Sequence[Array]) -> None:
        self._tensors = tensors
        self._names = names
        self._arrays = arrays

    def __getitem__(self, key: Any) -> Array:
        position = _position(key, self._tensors, self._names)
        if position is None:
            shown = str(key) if isinstance(key, TensorSpec) else repr(key)
            known = ", ".join(t.names[0] for t in self._tensors if t.names)
            error = IndexError if isinstance(key, int) else KeyError
            raise error(f"no output {shown}; the model has {len(self._arrays)}: {known}")
        return self._arrays[position]

    def __repr__(self) -> str:
        held = (f"{name}: {_told(array)}" for name, array in self.to_dict().items())
        return f"<Outputs: {', '.join(held)}>"

    def __contains__(self, key: object) -> bool:
        return _position(key, self._tensors, self._names) is not None

    def __iter__(self) -> Iterator[str]:
        return iter(self.to_dict())

    def __len__(self) -> int:
        return len(self._arrays)

    def to_tuple(self) -> tuple[Array, ...]:
        """The arrays in the order of the model's Results."""
        return tuple(self._arrays)

    def to_dict(self) -> dict[str, Array]:
        """Name -> array, each output under one name of its own."""
        found: dict[str, Array] = {}
        for i, (tensor, array) in enumerate(zip(self._tensors, self._arrays, strict=True)):
            free = [n for n in (*tensor.names, f"output{i}") if n not in found]
            found[free[0]] = array
        return found


class VariableState:
    """One variable of a request, after OpenVINO's class of that name."""

    def __init__(self, name: str, values: dict[str, Array]) -> None:
        self.name = name
        self._values = values

    def __repr__(self) -> str:
        value = self._values.get(self.name)
        held = "its first value" if value is None else _told(value)
        return f"<VariableState: {self.name!r}, {held}>"

    @property
    def state(self) -> Array | None:
        """A copy of its value; None while it has none of its own."""
        value = self._values.get(self.name)
        return None if value is None else value.copy()

    @state.setter
    def state(self, value: Any) -> None:
        self._values[self.name] = np.array(value)

    def reset(self) -> None:
        """Give it its first value again."""
        self._values.pop(self.name, None)


class InferRequest:
    """One user's run of a compiled model, with variables of its own.

    Attributes:
        mismatches: with `check=True`, where declared and actual types and shapes of the last run differ.
    """

    def __init__(self, compiled: CompiledModel) -> None:
        self._compiled = compiled
        self._state = RequestState()
        self._executor = Executor(compiled._program, self._state)
        self.mismatches: list[Mismatch] = []

    def infer(self, inputs: Inputs = None, *, observers: Sequence[Observer] = ()) -> Outputs:
        """Run once.

        Args:
            inputs: one array, a list in Parameter order, or {name: array}.
            observers: called after each instruction with the layer, its inputs, its outputs and its seconds.

        Raises:
            InputError: a name is unknown, an input is missing, or a type or shape does not fit.
            ExecutionError: a kernel failed. The variables are then what they were before.
        """
        compiled = self._compiled
        arguments = self._arguments(inputs)
        check = DeclarationCheck() if compiled.check else None
        self._state.observers = [*observers, *([check] if check else [])]
        variables = self._state.variables.values
        before = dict(variables)
        try:
            with np.errstate(all="ignore"):
                results = self._executor.run(arguments)
        except BaseException as error:
            variables.clear()
            variables.update(before)
            if isinstance(error, IrrunError):
                error.path = error.path or compiled.model.path
            raise
        if check:
            self.mismatches = check.found
        for name, value in variables.items():
            if value is not before.get(name):
                variables[name] = _owned(value, arguments)
        shared = [*arguments, *variables.values()]
        owned: list[Array] = []
        try:
            for result in results:
                owned.append(_owned(result, [*shared, *owned]))
            return Outputs(compiled.outputs, compiled._output_names, owned)
        except MemoryError:
            sizes = ", ".join(f"{t}: {r.nbytes}" for t, r in zip(compiled.outputs, results, strict=True))
            raise ExecutionError(
                f"out of memory; the outputs take so many bytes: {sizes}", path=compiled.model.path
            ) from None

    def query_state(self) -> list[VariableState]:
        """The variables of the model, each to be read, set or reset."""
        names: dict[str, None] = {}
        for _, layer in self._compiled.model.graph.walk():
            if layer.type in ("ReadValue", "Assign"):
                names[str(layer.attributes.get("variable_id", ""))] = None
        return [VariableState(name, self._state.variables.values) for name in names]

    def reset_state(self) -> None:
        """Give every variable its first value again, and restart random generators."""
        self._state.variables.values.clear()
        self._executor.reset()

    def _arguments(self, inputs: Inputs) -> list[Array]:
        tensors = self._compiled.inputs
        given = self._by_position(inputs)
        missing = [str(t) for i, t in enumerate(tensors) if i not in given]
        if missing:
            raise InputError(f"missing input {', '.join(missing)}")
        return [fit(given[i], tensor) for i, tensor in enumerate(tensors)]

    def _by_position(self, inputs: Inputs) -> dict[int, Any]:
        tensors, names = self._compiled.inputs, self._compiled._input_names
        if inputs is None:
            return {}
        if isinstance(inputs, Mapping):
            given = {}
            for key, value in inputs.items():
                position = _position(key, tensors, names)
                if position is None:
                    shown = str(key) if isinstance(key, TensorSpec) else repr(key)
                    known = "; ".join(map(str, tensors)) or "none"
                    raise InputError(f"no input {shown}; the model has {known}")
                if position in given:
                    raise InputError(f"input {tensors[position]} is fed twice")
                given[position] = value
            return given
        is_list = isinstance(inputs, (list, tuple)) and (
            len(tensors) != 1 or (len(inputs) == 1 and isinstance(inputs[0], (np.ndarray, np.generic)))
        )
        values = list(inputs) if is_list else [inputs]
        if len(values) > len(tensors):
            raise InputError(f"{len(values)} inputs are given, the model has {len(tensors)}")
        return dict(enumerate(values))


def _position(key: Any, tensors: Sequence[TensorSpec], names: Mapping[str, int]) -> int | None:
    """Which of the tensors a name, a position or a tensor means."""
    if isinstance(key, str):
        return names.get(key)
    if isinstance(key, TensorSpec):
        return next((i for i, tensor in enumerate(tensors) if tensor == key), None)
    return int(key) if isinstance(key, (int, np.integer)) and 0 <= key < len(tensors) else None


def fit(value: Any, tensor: TensorSpec) -> Array:
    """`value` as an array of the type that the input declares, where nothing is lost by that.

    Raises:
        InputError: the type or the shape does not fit.
    """
    wanted = tensor.element_type
    array = _typed(value, wanted, tensor)
    if tensor.partial_shape is not None and not tensor.partial_shape.fits(array.shape):
        raise InputError(f"input {tensor} is fed shape {list(array.shape)}")
    return array


def _typed(value: Any, wanted: ElementType | None, tensor: TensorSpec) -> Array:
    if wanted is not None and wanted.kind == "string":
        return _strings(value, tensor)
    is_array = isinstance(value, (np.ndarray, np.generic))
    try:
        array = np.asarray(value)
        if wanted is None:
            wanted = ElementType.of(array.dtype)
        if array.dtype == wanted.dtype and wanted.kind != "string":
            return array
        if wanted.kind == "string":
            return _strings(value, tensor)
        if array.dtype.kind in "OUScmM" or array.dtype.fields or array.dtype.type is np.void:
            raise ValueError
        if wanted.dtype.fields:
            return _codes(array, wanted)
        with np.errstate(all="ignore"):
            converted = array.astype(wanted.dtype)
            if not is_array and wanted.is_float and array.dtype.kind in "iuf":
                return converted  # Python's own numbers have no width that could be lost
            back = converted.astype(array.dtype)
    except (ValueError, TypeError, OverflowError):
        raise InputError(f"input {tensor} cannot be fed {_type_name(value)}") from None
    same = (back == array) | ((back != back) & (array != array))
    if not np.all(same):
        raise InputError(
            f"input {tensor} is fed {_type_name(value)} whose values do not all fit {wanted} without loss; "
            "convert it first"
        )
    return converted


def _strings(value: Any, tensor: TensorSpec) -> Array:
    array = np.array(value, dtype=object)
    for place, one in np.ndenumerate(array):
        if isinstance(one, bytes):
            array[place] = one.decode("utf-8", "surrogateescape")
        elif not isinstance(one, str):
            raise InputError(f"input {tensor} is fed a {type(one).__name__} among its strings")
    return array


def _codes(array: Array, wanted: ElementType) -> Array:
    """Integers as elements of a type that is known by its bits alone.

    Raises:
        ValueError: they are no integers, or have more bits.
    """
    if array.dtype.kind not in "iu" or not np.all((array >= 0) & (array < 1 << wanted.bits)):
        raise ValueError
    codes: Array = np.array(array, np.uint8).view(wanted.dtype)
    return codes


def _type_name(value: Any) -> str:
    if not isinstance(value, (np.ndarray, np.generic)):
        return f"a {type(value).__name__}"
    if value.dtype.kind == "O":
        return "objects"
    try:
        return str(ElementType.of(value.dtype))
    except ValueError:
        return str(value.dtype)


def _told(array: Array) -> str:
    return f"{_type_name(array)}[{','.join(map(str, array.shape))}]"


def _owned(result: Array, shared: Sequence[Array]) -> Array:
    """`result`, or a copy where writing to it could change an input, a constant, a variable or another output."""
    if result.flags.owndata and result.flags.writeable and not any(result is other for other in shared):
        return result
    return np.array(result)


def run(model: Model | str | os.PathLike[str], inputs: Inputs = None, weights: WeightsSource | None = None) -> Outputs:
    """Read, compile and run a model once.

    Args:
        model: a Model, or the path of its .xml.
        inputs: one array, a list in Parameter order, or {name: array}.
        weights: for a path, where its weights are, if not beside it.

    Raises:
        IrrunError: as `compile_model` and `CompiledModel.__call__`.
    """
    return compile_model(model, weights)(inputs)
