"""`ExecutableNetwork`, a loaded network, and `InferRequest`, its inputs, outputs and runs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import IntEnum
from typing import Any

import numpy as np

from irrun.element_types import ElementType
from irrun.openvino.compiled_model import CompiledModel
from irrun.openvino.config import get_device_property
from irrun.openvino.infer_request import InferRequest as OpenVinoRequest
from irrun.openvino.inference_engine.data import (
    Blob,
    DataPtr,
    InputInfoPtr,
    ResizeAlgorithm,
    TensorDesc,
    get_default_layout,
)
from irrun.openvino.inference_engine.network import IENetwork, get_output_name

__all__ = ["ExecutableNetwork", "InferRequest", "StatusCode", "WaitMode"]

Array = np.ndarray[Any, Any]


class StatusCode(IntEnum):
    """The result of waiting for a request."""

    OK = 0
    GENERAL_ERROR = -1
    RESULT_NOT_READY = -9
    NOT_ALLOCATED = -10
    INFER_NOT_STARTED = -11


class WaitMode(IntEnum):
    """How long to wait for a request."""

    RESULT_READY = -1
    STATUS_ONLY = 0


class InferRequest:
    """A request of a network.

    Args:
        network: The network.
    """

    def __init__(self, network: ExecutableNetwork) -> None:
        self._network = network
        self._request = OpenVinoRequest(network._compiled)
        self._input_blobs = {
            name: Blob(TensorDesc(info.precision, _get_blob_shape(info), info.layout))
            for name, info in network.input_info.items()
        }
        self._output_blobs: dict[str, Blob] = {}
        #: The names, which programs read although the attributes are private.
        self._inputs_list, self._outputs_list = list(self._input_blobs), list(network.outputs)
        self._callback: Callable[[int, Any], Any] | None = None
        self._callback_data: Any = None
        self._is_started = False
        self._request.set_callback(self._complete)

    @property
    def input_blobs(self) -> dict[str, Blob]:
        """The inputs by name; values can be written to their buffers."""
        return self._input_blobs

    @property
    def output_blobs(self) -> dict[str, Blob]:
        """The outputs in the order of their names."""
        for name, data in self._network.outputs.items():
            if name not in self._output_blobs:
                self._output_blobs[name] = Blob(TensorDesc(data.precision, data.shape, data.layout))
        return dict(sorted(self._output_blobs.items()))

    @property
    def inputs(self) -> dict[str, Array]:
        """The values of the inputs by name."""
        return {name: blob.buffer for name, blob in self._input_blobs.items()}

    @property
    def outputs(self) -> dict[str, Array]:
        """The values of the outputs by name."""
        return {name: blob.buffer for name, blob in self.output_blobs.items()}

    @property
    def latency(self) -> float:
        """The time of the last run in milliseconds."""
        return self._request.latency

    def set_blob(self, blob_name: str, blob: Blob, preprocess_info: Any = None) -> None:
        """Set the blob of an input or output."""
        if blob_name in self._input_blobs:
            self._input_blobs[blob_name] = blob
            if preprocess_info is not None:
                self._network.input_info[blob_name].preprocess_info = preprocess_info
        elif blob_name in self._network.outputs:
            self._output_blobs[blob_name] = blob
        else:
            raise RuntimeError(f"Failed to find input or output with name: {blob_name!r}")

    def set_batch(self, size: int) -> None:
        """Refuse to change the batch size of a loaded network.

        Raises:
            RuntimeError: The size is not the one that the network was loaded with.
        """
        if size != self._network._batch_size:
            raise RuntimeError(
                "irrun does not support dynamic batches: set batch_size of the network before loading it"
            )

    def infer(self, inputs: Mapping[str, Any] | None = None) -> None:
        """Run once and wait.

        Args:
            inputs: Values of inputs by name. Other inputs keep their values.
        """
        self._fill(inputs)
        self._request.infer(self._collect())
        self._store()

    def async_infer(self, inputs: Mapping[str, Any] | None = None) -> None:
        """Start a run.

        Args:
            inputs: Values of inputs by name. Other inputs keep their values.
        """
        self._fill(inputs)
        self._is_started = True
        self._request.start_async(self._collect())

    def wait(self, timeout: int | None = None) -> int:
        """Wait for a run.

        Args:
            timeout: The time in milliseconds; -1 or None to wait until the run is complete, 0 not to wait.

        Returns:
            A status: 0 if the run is complete.
        """
        if not self._is_started:
            return int(StatusCode.INFER_NOT_STARTED)
        if timeout is not None and timeout >= 0 and not self._request.wait_for(timeout):
            return int(StatusCode.RESULT_NOT_READY)
        try:
            self._request.wait()
        except RuntimeError:
            return int(StatusCode.GENERAL_ERROR)
        return int(StatusCode.OK)

    def set_completion_callback(self, py_callback: Callable[[int, Any], Any], py_data: Any = None) -> None:
        """Set the function that is called after each asynchronous run.

        Args:
            py_callback: A function of the status and `py_data`.
            py_data: Any value.
        """
        self._callback, self._callback_data = py_callback, py_data

    def get_perf_counts(self) -> dict[str, dict[str, Any]]:
        """Return the time that each layer took, if PERF_COUNT is set."""
        return {
            info.node_name: {
                "status": "EXECUTED",
                "layer_type": info.node_type,
                "exec_type": info.exec_type,
                "real_time": int(info.real_time.total_seconds() * 1e6),
                "cpu_time": int(info.cpu_time.total_seconds() * 1e6),
                "execution_index": i,
            }
            for i, info in enumerate(self._request.profiling_info)
        }

    def query_state(self) -> Any:
        """Return the variables."""
        return self._request.query_state()

    def _complete(self, _: Any) -> None:
        if self._request._error is None:
            self._store()
        if self._callback is not None:
            status = StatusCode.OK if self._request._error is None else StatusCode.GENERAL_ERROR
            self._callback(int(status), self._callback_data)

    def _fill(self, inputs: Mapping[str, Any] | None) -> None:
        for name, value in (inputs or {}).items():
            if name not in self._input_blobs:
                raise ValueError(f"No input with name {name!r} found; the network has {', '.join(self._input_blobs)}")
            if isinstance(value, Blob):
                self._input_blobs[name] = value
                continue
            blob, array = self._input_blobs[name], np.asarray(value)
            is_resized = self._network.input_info[name].preprocess_info.resize_algorithm != ResizeAlgorithm.NO_RESIZE
            if is_resized and array.shape != blob.buffer.shape:
                blob.buffer = array
            elif array.size == blob.buffer.size:
                blob.buffer[...] = array.reshape(blob.buffer.shape)
            else:
                blob.buffer[...] = array

    def _collect(self) -> list[Array]:
        infos = self._network.input_info
        return [_prepare(self._input_blobs[name].buffer, infos[name]) for name in self._network._input_names]

    def _store(self) -> None:
        results = self._request.results.to_tuple()
        for name, values in zip(self._network._output_names, results, strict=True):
            data = self._network.outputs[name]
            dtype = ElementType.parse(data.precision).dtype
            converted = values.astype(dtype)
            blob = self._output_blobs.get(name)
            if blob is not None and blob.buffer.shape == converted.shape:
                blob.buffer[...] = converted
            else:
                layout = get_default_layout(converted.ndim)
                self._output_blobs[name] = Blob(TensorDesc(data.precision, converted.shape, layout), converted)


class ExecutableNetwork:
    """A network that can be run.

    Args:
        network: The network.
        device: The device.
        config: Properties.
        num_requests: The number of requests; 0 for the number that keeps the processor busy.
    """

    def __init__(self, network: IENetwork, device: str, config: Any, num_requests: int) -> None:
        from irrun.openvino.core import Core

        properties = {_RENAMED.get(name, name): value for name, value in (config or {}).items()}
        properties = {name: value for name, value in properties.items() if name not in _IGNORED}
        self._compiled: CompiledModel = Core().compile_model(network._model, device, properties)
        self.input_info: dict[str, InputInfoPtr] = dict(network.input_info)
        self.outputs: dict[str, DataPtr] = dict(network.outputs)
        self._input_names = [node.get_friendly_name() for node in network._model.parameters]
        self._output_names = [get_output_name(result) for result in network._model.results]
        self._batch_size = network.batch_size if network.input_info else 1
        count = num_requests or int(self._compiled.get_property("OPTIMAL_NUMBER_OF_INFER_REQUESTS"))
        self.requests = tuple(InferRequest(self) for _ in range(count))

    @property
    def inputs(self) -> dict[str, DataPtr]:
        """The inputs by name, as programs before 2020.3 read them."""
        return {name: info.input_data for name, info in self.input_info.items()}

    def infer(self, inputs: Mapping[str, Any] | None = None) -> dict[str, Array]:
        """Run once and wait.

        Args:
            inputs: Values of inputs by name.

        Returns:
            The values of the outputs by name.
        """
        request = self.requests[0]
        request.infer(inputs)
        return {name: blob.buffer.copy() for name, blob in request.output_blobs.items()}

    def start_async(self, request_id: int, inputs: Mapping[str, Any] | None = None) -> InferRequest:
        """Start a run on a request.

        Args:
            request_id: The index of the request.
            inputs: Values of inputs by name.
        """
        if not 0 <= request_id < len(self.requests):
            raise ValueError("Incorrect request_id specified!")
        request = self.requests[request_id]
        request.async_infer(inputs)
        return request

    def wait(self, num_requests: int | None = None, timeout: int | None = None) -> int:
        """Wait for requests.

        Args:
            num_requests: The number of idle requests to wait for; by default all.
            timeout: The time in milliseconds for each.

        Returns:
            A status: 0 if they are idle.
        """
        status = int(StatusCode.OK)
        for request in self.requests[: num_requests or len(self.requests)]:
            if request._is_started:
                status = request.wait(timeout) or status
        return status

    def get_idle_request_id(self) -> int:
        """Return the index of an idle request, or -1."""
        for i, request in enumerate(self.requests):
            if request._request.wait_for(0):
                return i
        return -1

    def get_metric(self, metric_name: str) -> Any:
        """Return a property of the network."""
        return self._compiled.get_property(metric_name)

    def get_config(self, config_name: str) -> Any:
        """Return a property of the network."""
        return self._compiled.get_property(_RENAMED.get(config_name, config_name))

    def export(self, model_file: str) -> None:
        """Write the network to a file."""
        import io
        from pathlib import Path

        stream = io.BytesIO()
        self._compiled.export_model(stream)
        Path(model_file).write_bytes(stream.getvalue())

    def get_exec_graph_info(self) -> IENetwork:
        """Return the network that is run."""
        return IENetwork(self._compiled.get_runtime_model())


#: Names of properties of the Inference Engine.
_RENAMED = {
    "CPU_THREADS_NUM": "INFERENCE_NUM_THREADS",
    "CPU_THROUGHPUT_STREAMS": "NUM_STREAMS",
    "ENFORCE_BF16": "ENFORCE_BF16",
}

#: Properties that have no effect on irrun.
_IGNORED = (
    "CONFIG_FILE",
    "CPU_BIND_THREAD",
    "DUMP_EXEC_GRAPH_AS_DOT",
    "DYN_BATCH_ENABLED",
    "DYN_BATCH_LIMIT",
    "ENFORCE_BF16",
    "EXCLUSIVE_ASYNC_REQUESTS",
)


def get_metric(device: str, name: str) -> Any:
    """Return a property of a device, under its name in the Inference Engine."""
    from irrun.openvino.config import Config, parse_device

    if name == "SUPPORTED_METRICS":
        return ["AVAILABLE_DEVICES", "FULL_DEVICE_NAME", "OPTIMIZATION_CAPABILITIES", "RANGE_FOR_STREAMS"]
    if name == "SUPPORTED_CONFIG_KEYS":
        return [*_RENAMED, "PERF_COUNT"]
    return get_device_property(Config(), parse_device(device), name)


def _get_blob_shape(info: InputInfoPtr) -> list[int]:
    shape, layout = info.input_data.shape, info.layout
    default = get_default_layout(len(shape))
    if layout == default or sorted(layout) != sorted(default):
        return shape
    return [shape[default.index(name)] for name in layout]


def _prepare(values: Array, info: InputInfoPtr) -> Array:
    """Convert the values that a program passes to the layout, size and type of the input."""
    shape, layout = info.input_data.shape, info.layout
    default = get_default_layout(len(shape))
    if layout != default and sorted(layout) == sorted(default) and values.ndim == len(layout):
        values = values.transpose([layout.index(name) for name in default])
    if info.preprocess_info.resize_algorithm != ResizeAlgorithm.NO_RESIZE and list(values.shape) != shape:
        values = _resize(values, shape)
    return np.ascontiguousarray(values)


def _resize(values: Array, shape: list[int]) -> Array:
    from irrun.openvino.factories import create_node, make_constant, make_parameter
    from irrun.openvino.inference import compute_node

    parameter = make_parameter(list(values.shape), np.float32)
    sizes, axes = np.array(shape[2:], np.int64), np.array([2, 3], np.int64)
    scales = sizes.astype(np.float32)  # which the sizes replace
    node = create_node(
        "Interpolate",
        "opset4",
        [parameter, make_constant(sizes), make_constant(scales), make_constant(axes)],
        {"mode": "linear", "shape_calculation_mode": "sizes"},
    )
    return compute_node(node, [values.astype(np.float32), sizes, scales, axes])[0]
