"""OpenVINO's reference implementation with the interface of a compiled model."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

__all__ = ["REFERENCE", "ReferenceModel"]

#: The device name of the reference implementation.
REFERENCE = "reference"


class ReferenceModel:
    """A model computed by `Model.evaluate`; it acts as a compiled model and as its only request.

    `Model.evaluate` forgets the values of variables. They are therefore outputs of one run and constants of the next.

    Args:
        openvino: The package of OpenVINO.
        model: The model of OpenVINO.
    """

    def __init__(self, openvino: Any, model: Any) -> None:
        self._openvino = openvino
        self._model = model
        self._arguments: dict[int, Any] = {}
        self._results: list[Any] = []
        self._variables: dict[str, Any] = {}
        self.inputs = model.inputs
        self.outputs = model.outputs

    def get_property(self, name: str) -> str:
        """Return the precision of the model, its only property."""
        return "declared"

    def get_runtime_model(self) -> Any:
        """Raise RuntimeError, since there are no kernels to list."""
        raise RuntimeError("the reference implementation has no runtime model")

    def create_infer_request(self) -> ReferenceModel:
        """Return the model itself, which keeps the tensors."""
        return self

    def get_compiled_model(self) -> ReferenceModel:
        """Return the model itself, as its own request."""
        return self

    def query_state(self) -> list[Any]:
        """Return the variables with their values after the last run."""
        return [SimpleNamespace(name=name, state=tensor) for name, tensor in self._variables.items()]

    def set_input_tensor(self, number: int, tensor: Any) -> None:
        """Set an input."""
        self._arguments[number] = tensor

    def infer(self) -> None:
        """Compute the outputs.

        Raises:
            RuntimeError: An operation has no reference implementation.
        """
        ov = self._openvino
        arguments = [self._arguments[i] for i in range(len(self.inputs))]
        model = self._model
        if any(x.partial_shape.is_dynamic for x in model.inputs):  # some operations do not resize their outputs
            model = model.clone()
            model.reshape({i: ov.PartialShape(list(tensor.shape)) for i, tensor in enumerate(arguments)})
        count = len(self.outputs)
        names: list[str] = []
        if model.get_sinks():
            model = model.clone()
            names = self._expose_variables(model)
        outputs = model.outputs
        shapes = [x.shape if x.partial_shape.is_static else ov.Shape([0]) for x in outputs]
        results = [ov.Tensor(x.element_type, shape) for x, shape in zip(outputs, shapes, strict=True)]
        if not model.evaluate(results, arguments):
            raise RuntimeError("the reference implementation does not support the model")
        self._results = results[:count]
        self._variables = dict(zip(names, results[count:], strict=True))

    def _expose_variables(self, model: Any) -> list[str]:
        """Turn the values of variables into the last outputs of a model, and start from the known values.

        Returns:
            The names of the variables.
        """
        names = []
        for sink in model.get_sinks():
            if sink.get_type_name() == "Assign":
                names.append(sink.get_variable_id())
                model.add_results([self._openvino.opset13.result(sink.input_value(0))])
                model.remove_sink(sink)
        for node in model.get_ops():
            if node.get_type_name() == "ReadValue" and node.get_variable_id() in self._variables:
                constant = self._openvino.opset13.constant(self._variables[node.get_variable_id()])
                node.output(0).replace(constant.output(0))
        return names

    def get_output_tensor(self, number: int) -> Any:
        """Return an output."""
        return self._results[number]
