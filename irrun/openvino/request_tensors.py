"""The tensors of the inputs and outputs of an infer request."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from irrun.openvino.input_conversion import convert_value, iterate_inputs
from irrun.openvino.node import ConstOutput, Output
from irrun.openvino.results import OVDict
from irrun.openvino.tensor import Tensor

if TYPE_CHECKING:
    from concurrent.futures import Executor

__all__ = ["RequestTensors"]

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


class RequestTensors:
    """The tensors of the inputs and outputs of a compiled model.

    Args:
        compiled: The model.
    """

    def __init__(self, compiled: RequestOwner) -> None:
        self._compiled = compiled
        self._tensors: dict[ConstOutput, Tensor] = {}
        #: Ports that keep their memory, since the user may hold it.
        self._exposed: set[ConstOutput] = set()
        #: Tensors that are concatenated to a batch before each run.
        self._batches: dict[ConstOutput, Sequence[Tensor]] = {}
        #: Outputs whose memory became a result and belongs to the caller.
        self._loaned: set[ConstOutput] = set()

    def _get_arguments(self) -> dict[Any, Array]:
        """Return the values of the inputs for a run."""
        for port, tensors in self._batches.items():
            self._tensors[port] = _concatenate(tensors)
        values: dict[Any, Array] = {i: self._get(port)._to_values() for i, port in enumerate(self._compiled.inputs)}
        for port, value in zip(self._compiled.inputs, values.values(), strict=True):
            _check_shape(port, value.shape)
        return values

    def _store(self, port: ConstOutput, values: Array) -> None:
        tensor = self._tensors.get(port)
        if tensor is not None and port in self._exposed:
            tensor._assign(values)
            return
        self._loaned.discard(port)
        element_type = port._data.element_type or Tensor(values)._element_type
        self._tensors[port] = Tensor._from_values(values, element_type)

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
        index, tensor = _split(arguments)
        self._set(_select(self._compiled.inputs, index, "set_input_tensor"), tensor)

    def set_output_tensor(self, *arguments: Any) -> None:
        """Set the tensor of an output: `set_output_tensor(tensor)` or `set_output_tensor(index, tensor)`."""
        index, tensor = _split(arguments)
        self._set(_select(self._compiled.outputs, index, "set_output_tensor"), tensor)

    def set_tensors(self, *arguments: Any) -> None:
        """Set the tensors of a mapping, or concatenate tensors of one element to a batch: (key, tensors)."""
        if len(arguments) == 2:
            self._set_batch(self._find(arguments[0]), arguments[1])
            return
        for key, tensor in arguments[0].items():
            self._set(self._find_in(self._compiled.inputs, key), tensor)

    def _find_in(self, ports: Sequence[ConstOutput], key: Any) -> ConstOutput:
        """Return a port by its number among some ports, or by name or port."""
        return _select(ports, key, "") if isinstance(key, int) else self._find(key)

    def set_input_tensors(self, *arguments: Any) -> None:
        """Set the tensors of a mapping, or concatenate tensors to a batch: (tensors) or (index, tensors)."""
        if len(arguments) == 1 and isinstance(arguments[0], Mapping):
            self.set_tensors(arguments[0])
            return
        index, tensors = _split(arguments)
        self._set_batch(_select(self._compiled.inputs, index, "set_input_tensors"), tensors)

    def _set_batch(self, port: ConstOutput, tensors: Sequence[Tensor]) -> None:
        self._set(port, _concatenate(tensors))
        self._batches[port] = tensors

    def set_output_tensors(self, outputs: Mapping[Any, Tensor]) -> None:
        """Set the tensors of outputs by index, name or port."""
        for key, tensor in outputs.items():
            self._set(self._find_in(self._compiled.outputs, key), tensor)

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


def _shrink(port: ConstOutput) -> list[int]:
    """Return the shape of the memory of a dynamic port before it is set."""
    shape = port._data.shape
    return [0] if shape is None else [int(d) if isinstance(d, int) else 0 for d in shape]


def _split(arguments: Sequence[Any]) -> tuple[int | None, Any]:
    """Return the index, which may be omitted, and the last argument.

    Raises:
        TypeError: There are more or fewer arguments.
    """
    if len(arguments) not in (1, 2):
        raise TypeError(f"incompatible function arguments: expected an index and a tensor, or a tensor: {arguments}")
    return (None, arguments[0]) if len(arguments) == 1 else (arguments[0], arguments[1])


def _select(ports: Sequence[ConstOutput], index: int | None, call: str) -> ConstOutput:
    if index is None:
        if len(ports) != 1:
            raise RuntimeError(f"{call}() must be called on a model with exactly one port, found {len(ports)}")
        return ports[0]
    if not isinstance(index, int) or index < 0:
        raise TypeError(f"{call}(): incompatible function arguments: expected a number of a port, found {index!r}")
    if index >= len(ports):
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
