"""OpenVINO's reference implementation with the interface of a compiled model."""

from __future__ import annotations

from typing import Any

__all__ = ["REFERENCE", "ReferenceModel"]

#: The device of a target that means the reference implementation.
REFERENCE = "reference"


class ReferenceModel:
    """A model that `Model.evaluate` computes, as a compiled model and its only request.

    Args:
        openvino: The package of OpenVINO.
        model: The model of OpenVINO.
    """

    def __init__(self, openvino: Any, model: Any) -> None:
        self._openvino = openvino
        self._model = model
        self._arguments: dict[int, Any] = {}
        self._results: list[Any] = []
        self.inputs = model.inputs
        self.outputs = model.outputs

    def get_property(self, name: str) -> str:
        """Return in which precision the model computes: it has no other properties."""
        return "declared"

    def get_runtime_model(self) -> Any:
        """Raise RuntimeError, since there are no kernels to list."""
        raise RuntimeError("the reference implementation has no runtime model")

    def create_infer_request(self) -> ReferenceModel:
        """Return the model, which keeps the tensors itself."""
        return self

    def get_compiled_model(self) -> ReferenceModel:
        """Return the model, which is its own request."""
        return self

    def query_state(self) -> list[Any]:
        """Return no variables, which the reference implementation does not show."""
        return []

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
        shapes = [x.shape if x.partial_shape.is_static else ov.Shape([0]) for x in model.outputs]
        results = [ov.Tensor(x.element_type, shape) for x, shape in zip(model.outputs, shapes, strict=True)]
        if not model.evaluate(results, arguments):
            raise RuntimeError("the reference implementation does not support the model")
        self._results = results

    def get_output_tensor(self, number: int) -> Any:
        """Return an output."""
        return self._results[number]
