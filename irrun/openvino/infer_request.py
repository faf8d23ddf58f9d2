"""`InferRequest`: the inputs, outputs and variables of one user of a compiled model, and its runs."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from irrun.errors import IrrunError
from irrun.forks import renew_in_children
from irrun.openvino.getters import from_getter
from irrun.openvino.input_conversion import convert_value, iterate_inputs
from irrun.openvino.node import ConstOutput, Output
from irrun.openvino.request_parts import ProfilingInfo as ProfilingInfo
from irrun.openvino.request_parts import VariableState as VariableState
from irrun.openvino.results import OVDict
from irrun.openvino.tensor import Tensor

if TYPE_CHECKING:
    from concurrent.futures import Executor

    from irrun.runtime.request import InferRequest as IrrunRequest

__all__ = ["InferRequest", "ProfilingInfo", "VariableState"]

Array = np.ndarray[Any, Any]


class RequestOwner(Protocol):
    """The interface of a compiled model for requests."""

    @property
    def inputs(self) -> list[ConstOutput]: ...

    @property
    def outputs(self) -> list[ConstOutput]: ...

    @property
    def _executor(self) -> Executor: ...

    @property
    def _is_profiled(self) -> bool: ...

    def _describe(self, name: str) -> str: ...

    def _find_port(self, port: ConstOutput) -> ConstOutput | None: ...

    def _get_variables(self) -> dict[str, Tensor]: ...


class InferRequest:
    """The inputs, outputs and variables of one user of a compiled model, and its runs.

    Args:
        source: A compiled model, or another request to share the state of.
    """

    def __init__(self, source: Any) -> None:
        if isinstance(source, InferRequest):
            self.__dict__ = source.__dict__
            return
        self._compiled: RequestOwner = source
        self._request: IrrunRequest = source._irrun.create_infer_request()
        self._tensors: dict[ConstOutput, Tensor] = {}
        #: Ports that keep their memory, since the user may hold it.
        self._exposed: set[ConstOutput] = set()
        #: Tensors that are concatenated to a batch before each run.
        self._batches: dict[ConstOutput, Sequence[Tensor]] = {}
        #: Outputs whose memory became a result and belongs to the caller.
        self._loaned: set[ConstOutput] = set()
        self._condition = threading.Condition()
        renew_in_children(self)
        self._is_running = False
        self._pending = 0
        self._callback_thread: int | None = None
        self._callback: Callable[[Any], Any] | None = None
        self._queue_callback: Callable[[InferRequest], None] | None = None
        self._error: BaseException | None = None
        self._userdata: Any = None
        self._seconds = 0.0
        self._profile: list[ProfilingInfo] = []

    def __repr__(self) -> str:
        return self._compiled._describe("InferRequest")

    def _at_fork_reinit(self) -> None:
        self._condition = threading.Condition()
        if self._is_running or self._pending:  # the threads of the parent process continue with it
            self._is_running, self._pending, self._callback_thread = False, 0, None
            self._error = RuntimeError("the run continues in the parent process; start it again")

    # -- runs

    def infer(
        self,
        inputs: Any = None,
        share_inputs: bool = False,
        share_outputs: bool = False,
        *,
        decode_strings: bool = True,
    ) -> OVDict:
        """Run once and wait.

        Args:
            inputs: Values to set: an array, a tensor, a sequence in the order of the inputs, or a mapping
                from ports, indices or names. Other inputs keep their values.
            share_inputs: Whether the arrays are used without a copy where possible.
            share_outputs: Whether the results are views of the memory of the request.
            decode_strings: Whether strings are returned as texts instead of bytes.

        Returns:
            The results.

        Raises:
            RuntimeError: The request is running, an input does not fit the model, or a kernel failed.
        """
        self._begin()
        try:
            self._set_inputs(inputs, share_inputs)
            self._run()
        finally:
            with self._condition:
                self._is_running = False
                self._pending -= 1
                self._condition.notify_all()
        return self._get_results(share_outputs, decode_strings)

    def start_async(self, inputs: Any = None, userdata: Any = None, share_inputs: bool = False) -> None:
        """Start a run on another thread.

        Args:
            inputs: Values to set; see `infer`.
            userdata: The argument of the callback.
            share_inputs: Whether the arrays are used without a copy where possible.

        Raises:
            RuntimeError: The request is running, or an input does not fit the model.
        """
        self._begin()
        try:
            self._set_inputs(inputs, share_inputs)
        except BaseException:
            with self._condition:
                self._is_running = False
                self._pending -= 1
                self._condition.notify_all()
            raise
        if userdata is not None:
            self._userdata = userdata
        self._compiled._executor.submit(self._run_async)

    def _begin(self) -> None:
        with self._condition:
            if self._is_running:
                raise RuntimeError("Infer Request is busy")
            self._is_running = True
            self._pending += 1
            self._error = None

    def _run_async(self) -> None:
        error: BaseException | None = None
        try:
            self._run()
        except BaseException as failure:
            error = failure
        with self._condition:
            self._is_running = False
            self._error = error
            self._callback_thread = threading.get_ident()
            self._condition.notify_all()
        try:
            if self._queue_callback is not None:
                self._queue_callback(self)
            elif self._callback is not None:
                self._callback(self._userdata)
        except BaseException as failure:
            with self._condition:
                self._error = self._error or failure
        with self._condition:
            self._callback_thread = None
            self._pending -= 1
            self._condition.notify_all()

    def _run(self) -> None:
        compiled = self._compiled
        for port, tensors in self._batches.items():
            self._tensors[port] = _concatenate(tensors)
        values: dict[Any, Array] = {i: self._get(port)._to_values() for i, port in enumerate(compiled.inputs)}
        self._check_shapes(values)
        profile: list[ProfilingInfo] = []
        observers = [_make_profiler(profile)] if compiled._is_profiled else []
        start = time.perf_counter()
        try:
            results = self._request.infer(values, observers=observers).to_tuple()
        except IrrunError as error:
            raise RuntimeError(str(error)) from error
        self._seconds = time.perf_counter() - start
        self._profile = profile
        for port, values_ in zip(compiled.outputs, results, strict=True):
            self._store(port, values_)

    def _check_shapes(self, values: Mapping[Any, Array]) -> None:
        for port, values_ in zip(self._compiled.inputs, values.values(), strict=True):
            _check_shape(port, values_.shape)

    def _store(self, port: ConstOutput, values: Array) -> None:
        tensor = self._tensors.get(port)
        if tensor is not None and port in self._exposed:
            tensor._assign(values)
            return
        self._loaned.discard(port)
        element_type = port._data.element_type or Tensor(values)._element_type
        self._tensors[port] = Tensor._from_values(values, element_type)

    def wait(self) -> None:
        """Wait until the run and its callback, and all runs that callbacks started, are complete.

        Raises:
            RuntimeError: A kernel failed.
            Exception: The error of the callback.
        """
        with self._condition:
            self._condition.wait_for(self._is_complete)
            error, self._error = self._error, None
        if error is not None:
            raise error

    def wait_for(self, timeout: int) -> bool:
        """Wait for a time.

        Args:
            timeout: The time in milliseconds.

        Returns:
            Whether the run is complete.
        """
        with self._condition:
            return self._condition.wait_for(self._is_complete, timeout / 1000)

    def _is_complete(self) -> bool:
        if self._callback_thread == threading.get_ident():  # a callback does not wait for itself
            return not self._is_running
        return self._pending == 0

    def cancel(self) -> None:
        """Do nothing: a run of NumPy cannot be interrupted."""

    def set_callback(self, callback: Callable[[Any], Any], userdata: Any = None) -> None:
        """Set the function that is called after each asynchronous run.

        Args:
            callback: A function of `userdata`.
            userdata: Any value.
        """
        self._callback = callback
        self._userdata = userdata

    @property
    def userdata(self) -> Any:
        """The argument of the callback."""
        return self._userdata

    @property
    def latency(self) -> float:
        """The time of the last run in milliseconds."""
        return self._seconds * 1000

    def get_profiling_info(self) -> list[ProfilingInfo]:
        """Return the time that each layer took in the last run, if profiling is enabled."""
        return list(self._profile)

    profiling_info = from_getter(get_profiling_info)

    def get_compiled_model(self) -> Any:
        """Return the compiled model."""
        return self._compiled

    # -- inputs and outputs

    def _set_inputs(self, inputs: Any, share_inputs: bool) -> None:
        for port, value in iterate_inputs(inputs, self._compiled.inputs, share_inputs):
            tensor = convert_value(value, port, share_inputs)
            _check_shape(port, tensor._shape, is_set=isinstance(value, Tensor))
            self._batches.pop(port, None)
            current = self._tensors.get(port)
            if not share_inputs and current is not None and port in self._exposed and value is not tensor:
                current._assign(tensor._to_values())
            else:
                self._tensors[port] = tensor

    def _get(self, port: ConstOutput) -> Tensor:
        """Return the tensor of a port; allocate it if needed."""
        tensor = self._tensors.get(port)
        if tensor is None:
            shape = port.partial_shape
            if port._data.element_type is None:
                raise RuntimeError(f"the type of {port!r} is known after the first run only")
            tensor = Tensor(port.element_type, shape.to_shape() if shape.is_static else _shrink(port))
            self._tensors[port] = tensor
        return tensor

    def _expose(self, port: ConstOutput) -> Tensor:
        """Return the tensor of a port, and keep its memory from now on."""
        tensor = self._get(port)
        if port in self._loaned:
            self._loaned.discard(port)
            tensor = self._tensors[port] = Tensor._from_values(tensor._to_values().copy(), tensor._element_type)
        self._exposed.add(port)
        return tensor

    def _find(self, key: Any) -> ConstOutput:
        compiled = self._compiled
        if isinstance(key, str):
            for port in (*compiled.inputs, *compiled.outputs):
                if key in port.names:
                    return port
            raise RuntimeError(
                "Check '::getPort(port, name, {_impl->get_inputs(), _impl->get_outputs()})' failed: "
                f"Port for tensor name {key} was not found."
            )
        if isinstance(key, ConstOutput):
            known = compiled._find_port(key)
            if known is not None:
                return known
            raise RuntimeError(f"Cannot find tensor for port {key!r}")
        raise TypeError(f"incompatible function arguments: expected a name or a port, found {key!r}")

    def get_tensor(self, name_or_port: Any) -> Tensor:
        """Return the tensor of an input or output by name or port.

        Raises:
            RuntimeError: The port does not exist, or several tensors were set for it.
        """
        port = self._find(name_or_port)
        if port in self._batches:
            raise RuntimeError("get_tensor shall not be used together with batched set_tensors/set_input_tensors")
        return self._expose(port)

    def get_input_tensor(self, index: int | None = None) -> Tensor:
        """Return the tensor of an input by index; without arguments, of the only one."""
        return self._expose(_select(self._compiled.inputs, index, "get_input_tensor"))

    def get_output_tensor(self, index: int | None = None) -> Tensor:
        """Return the tensor of an output by index; without arguments, of the only one."""
        return self._expose(_select(self._compiled.outputs, index, "get_output_tensor"))

    @property
    def input_tensors(self) -> list[Tensor]:
        """The tensors of the inputs."""
        return [self._expose(port) for port in self._compiled.inputs]

    @property
    def output_tensors(self) -> list[Tensor]:
        """The tensors of the outputs."""
        return [self._expose(port) for port in self._compiled.outputs]

    def set_tensor(self, name_or_port: Any, tensor: Tensor) -> None:
        """Set the tensor of an input or output by name or port."""
        self._set(self._find(name_or_port), tensor)

    def set_input_tensor(self, *arguments: Any) -> None:
        """Set the tensor of an input: `set_input_tensor(tensor)` or `set_input_tensor(index, tensor)`."""
        index, tensor = arguments if len(arguments) == 2 else (None, arguments[0])
        self._set(_select(self._compiled.inputs, index, "set_input_tensor"), tensor)

    def set_output_tensor(self, *arguments: Any) -> None:
        """Set the tensor of an output: `set_output_tensor(tensor)` or `set_output_tensor(index, tensor)`."""
        index, tensor = arguments if len(arguments) == 2 else (None, arguments[0])
        self._set(_select(self._compiled.outputs, index, "set_output_tensor"), tensor)

    def set_tensors(self, *arguments: Any) -> None:
        """Set the tensors of a mapping, or concatenate tensors of one element to a batch: (key, tensors)."""
        if len(arguments) == 2:
            self._set_batch(self._find(arguments[0]), arguments[1])
            return
        for key, tensor in arguments[0].items():
            port = self._compiled.inputs[key] if isinstance(key, int) else self._find(key)
            self._set(port, tensor)

    def set_input_tensors(self, *arguments: Any) -> None:
        """Set the tensors of a mapping, or concatenate tensors to a batch: (tensors) or (index, tensors)."""
        if len(arguments) == 1 and isinstance(arguments[0], Mapping):
            self.set_tensors(arguments[0])
            return
        index, tensors = arguments if len(arguments) == 2 else (None, arguments[0])
        self._set_batch(_select(self._compiled.inputs, index, "set_input_tensors"), tensors)

    def _set_batch(self, port: ConstOutput, tensors: Sequence[Tensor]) -> None:
        self._set(port, _concatenate(tensors))
        self._batches[port] = tensors

    def set_output_tensors(self, outputs: Mapping[Any, Tensor]) -> None:
        """Set the tensors of outputs by index, name or port."""
        for key, tensor in outputs.items():
            port = self._compiled.outputs[key] if isinstance(key, int) else self._find(key)
            self._set(port, tensor)

    def _set(self, port: ConstOutput, tensor: Any) -> None:
        if not isinstance(tensor, Tensor):
            raise TypeError(f"incompatible function arguments: expected a Tensor, found {type(tensor).__name__}")
        declared = port._data.element_type
        if declared is not None and tensor._element_type is not declared:
            kind = "input" if port in self._compiled.inputs else "output"
            raise RuntimeError(
                f"Can't set the {kind} tensor with name: {min(port.names, default='')}, because the model {kind} "
                f"(element type {declared.name}) and the tensor (element type {tensor._element_type.name}) are "
                "incompatible"
            )
        _check_shape(port, tensor._shape, is_set=True)
        self._batches.pop(port, None)
        self._tensors[port] = tensor
        self._exposed.add(port)

    @property
    def model_inputs(self) -> list[ConstOutput]:
        """The inputs of the model."""
        return self._compiled.inputs

    @property
    def model_outputs(self) -> list[ConstOutput]:
        """The outputs of the model."""
        return self._compiled.outputs

    @property
    def results(self) -> OVDict:
        """The results of the last run, as views of the memory of the request."""
        return self._get_results(True, True)

    def _get_results(self, share: bool, decode_strings: bool) -> OVDict:
        results = {}
        for port in self._compiled.outputs:
            tensor = self._get(port)
            if tensor._element_type.kind == "string":
                results[port] = tensor.str_data if decode_strings else tensor.bytes_data
            elif share:
                results[port] = self._expose(port).data.view()
            elif port in self._exposed or port in self._loaned:
                results[port] = tensor.data.copy()
            else:
                self._loaned.add(port)
                results[port] = tensor.data
        return OVDict(results)

    # -- variables

    def query_state(self) -> list[VariableState]:
        """Return the variables."""
        declared = self._compiled._get_variables()
        return [
            VariableState(variable, declared[variable.name])
            for variable in self._request.query_state()
            if variable.name in declared
        ]

    def reset_state(self) -> None:
        """Restore the initial values of all variables."""
        self._request.reset_state()


def _make_profiler(profile: list[ProfilingInfo]) -> Any:
    def observe(layer: Any, inputs: Any, outputs: Any, seconds: float, scope: Any) -> None:
        if not scope:
            profile.append(ProfilingInfo(layer.name, layer.type, seconds))

    return observe


def _shrink(port: ConstOutput) -> list[int]:
    """Return the shape of the memory of a dynamic port before it is set."""
    shape = port._data.shape
    return [0] if shape is None else [int(d) if isinstance(d, int) else 0 for d in shape]


def _select(ports: Sequence[ConstOutput], index: int | None, call: str) -> ConstOutput:
    if index is None:
        if len(ports) != 1:
            raise RuntimeError(f"{call}() must be called on a model with exactly one port, found {len(ports)}")
        return ports[0]
    if not 0 <= index < len(ports):
        raise RuntimeError(f"vector::_M_range_check: __n (which is {index}) >= this->size() (which is {len(ports)})")
    return ports[index]


def _check_shape(port: ConstOutput, shape: Sequence[int], is_set: bool = False) -> None:
    declared = port._data.shape
    if declared is None or declared.is_compatible(shape):
        return
    shown = f"[{','.join(map(str, shape))}]"
    kind = "output" if isinstance(port, Output) or port._node._type == "Result" else "input"
    if is_set or declared.is_dynamic:
        raise RuntimeError(
            f"Can't set the {kind} tensor with index: {port._index}, because the model {kind} (shape={declared}) and "
            f"the tensor (shape=({'.'.join(map(str, shape))})) are incompatible"
        )
    raise RuntimeError(
        f"The {kind} tensor size is not equal to the model {kind} type: got {shown} expecting {declared}."
    )


def _concatenate(tensors: Sequence[Tensor]) -> Tensor:
    values = np.concatenate([tensor._to_values() for tensor in tensors])
    return Tensor._from_values(values, tensors[0]._element_type)
