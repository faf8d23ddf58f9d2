"""`CompiledModel`: a model that can be run."""

from __future__ import annotations

import io
import os
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from irrun.errors import IrrunError
from irrun.openvino.config import Config
from irrun.openvino.custom_operation import make_operations
from irrun.openvino.infer_request import InferRequest
from irrun.openvino.model import Model
from irrun.openvino.model_ports import find_port
from irrun.openvino.node import ConstOutput
from irrun.openvino.results import OVDict
from irrun.openvino.tensor import Tensor

__all__ = ["CompiledModel"]


class CompiledModel:
    """A model that can be run.

    Args:
        model: The model, or another compiled model; calls of both use different requests.
        config: The properties.
        operations: Custom operations.
    """

    def __init__(self, model: Any, config: Config | None = None, operations: Any = ()) -> None:
        if isinstance(model, CompiledModel):
            self.__dict__ = {**model.__dict__, "_infer_request": None}
            return
        from irrun.runtime.compiled_model import CompiledModel as IrrunCompiledModel

        self._model: Model = model.clone()
        self._config = config or Config()
        threads = int(self._config.get("INFERENCE_NUM_THREADS") or 0) or None
        precision = self._config.get_precision()
        with make_operations(self._model.get_ordered_ops()) as own_operations:
            operations = [*own_operations, *operations]
            try:
                ir = self._model._to_ir()
                self._irrun = IrrunCompiledModel(ir, operations=operations, threads=threads, precision=precision)
            except IrrunError as error:
                raise RuntimeError(str(error)) from error
        self._inputs = [ConstOutput(node, 0) for node in self._model._parameters]
        self._outputs = [ConstOutput(node, 0) for node in self._model._results]
        #: Names of the source model's ports; requests accept them, too.
        self._aliases = {
            port: alias
            for ports, aliases in ((model.inputs, self._inputs), (model.outputs, self._outputs))
            for port, alias in zip(ports, aliases, strict=True)
        }
        self._infer_request: InferRequest | None = None
        #: The threads of each process: a forked child process does not have them.
        self._executors: dict[int, ThreadPoolExecutor] = {}

    @property
    def _executor(self) -> ThreadPoolExecutor:
        executor = self._executors.get(os.getpid())
        if executor is None:
            workers = max(2 * (os.cpu_count() or 1), self._config.count_requests())
            executor = ThreadPoolExecutor(workers, thread_name_prefix="irrun-request")
            executor = self._executors.setdefault(os.getpid(), executor)
        return executor

    @property
    def _is_profiled(self) -> bool:
        return bool(self._config.get("PERF_COUNT"))

    def _describe(self, name: str) -> str:
        def show(ports: list[ConstOutput]) -> str:
            return ",\n".join(map(repr, ports))

        return f"<{name}:\ninputs[\n{show(self._inputs)}\n]\noutputs[\n{show(self._outputs)}\n]>"

    def __repr__(self) -> str:
        return self._describe("CompiledModel")

    def __enter__(self) -> CompiledModel:
        return self

    def __exit__(self, *_: object) -> None:
        return None

    def _find_port(self, port: ConstOutput) -> ConstOutput | None:
        """Return the port of this model for a port of this model, of the source model, or with the same name."""
        for candidate in (*self._inputs, *self._outputs):
            if candidate._key == port._key:
                return candidate
        return self._aliases.get(port)

    def _get_variables(self) -> dict[str, Tensor]:
        """Return a tensor for each variable, with the declared type and the smallest shape."""
        tensors = {}
        for node in self._model.get_ordered_ops():
            if node._type == "ReadValue" and node._ports[0].element_type is not None:
                shape = node._ports[0].shape
                lengths = [int(d) if isinstance(d, int) else d.minimum for d in shape or ()]
                tensors[str(node._attributes.get("variable_id", ""))] = Tensor(node.output(0).element_type, lengths)
        return tensors

    @property
    def inputs(self) -> list[ConstOutput]:
        """The inputs."""
        return list(self._inputs)

    @property
    def outputs(self) -> list[ConstOutput]:
        """The outputs."""
        return list(self._outputs)

    def input(self, index: int | str | None = None, *, tensor_name: str | None = None) -> ConstOutput:
        """Return an input by index or tensor name; without arguments, the only one.

        Raises:
            RuntimeError: The input does not exist.
        """
        return self._get_port(self._inputs, index if tensor_name is None else tensor_name, "Input", "input")

    def output(self, index: int | str | None = None, *, tensor_name: str | None = None) -> ConstOutput:
        """Return an output by index or tensor name; without arguments, the only one.

        Raises:
            RuntimeError: The output does not exist.
        """
        return self._get_port(self._outputs, index if tensor_name is None else tensor_name, "Output", "output")

    def _get_port(self, ports: list[ConstOutput], key: Any, kind: str, name: str) -> ConstOutput:
        try:
            port: ConstOutput = find_port(ports, key, kind, f"{name}()")
        except IndexError:
            raise RuntimeError(f"Cannot get {name} for index: {key} {name}s size is {len(ports)}") from None
        return port

    def create_infer_request(self) -> InferRequest:
        """Create an infer request."""
        return InferRequest(self)

    def infer_new_request(self, inputs: Any = None) -> OVDict:
        """Run once on a new request; see `InferRequest.infer`."""
        return self.create_infer_request().infer(inputs)

    def __call__(
        self,
        inputs: Any = None,
        share_inputs: bool = True,
        share_outputs: bool = False,
        *,
        decode_strings: bool = True,
    ) -> OVDict:
        """Run once on a request that all calls share; see `InferRequest.infer`."""
        if self._infer_request is None:
            self._infer_request = self.create_infer_request()
        return self._infer_request.infer(inputs, share_inputs, share_outputs, decode_strings=decode_strings)

    def query_state(self) -> Any:
        """Return the variables of the request that all calls share."""
        if self._infer_request is None:
            self._infer_request = self.create_infer_request()
        return self._infer_request.query_state()

    def reset_state(self) -> None:
        """Restore the variables of the request that all calls share."""
        if self._infer_request is not None:
            self._infer_request.reset_state()

    def get_runtime_model(self) -> Model:
        """Return a copy of the model, since it runs unchanged."""
        return self._model.clone()

    def get_property(self, name: Any) -> Any:
        """Return a property.

        Raises:
            RuntimeError: The property is unknown.
        """
        key = name() if callable(name) else str(name)
        return self._config.get_compiled(key, self._model.get_friendly_name())

    def set_property(self, properties: Any) -> None:
        """Refuse to set a property, as OpenVINO's CPU plugin does.

        Raises:
            RuntimeError: Always.
        """
        raise RuntimeError("Not Implemented: properties of a compiled model cannot be changed")

    def release_memory(self) -> None:
        """Do nothing: memory is freed after each run."""

    def export_model(self, model_stream: Any = None) -> io.BytesIO | None:
        """Write the model to a stream that `Core.import_model` reads.

        Args:
            model_stream: A binary stream; by default a new one is returned.
        """
        from irrun.openvino.serialization import pack_model

        data = pack_model(self._model)
        if model_stream is None:
            return io.BytesIO(data)
        model_stream.write(data)
        if isinstance(model_stream, io.BytesIO):
            model_stream.seek(0)
        return None
