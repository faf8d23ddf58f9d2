"""OpenVINO Tokenizers as the reference of single operations."""

from __future__ import annotations

import numpy as np
import openvino
from openvino import opset15
from openvino_tokenizers import _get_factory

__all__ = ["Oracle", "make_node"]

_factory = _get_factory("opset15")
_core = openvino.Core()


def _to_type(dtype):
    return openvino.Type.string if dtype.kind == "O" else openvino.Type(dtype)


def make_node(operation_type, inputs, attributes):
    """Return the node of an operation with constant inputs."""
    return _factory.create(operation_type, [opset15.constant(x).output(0) for x in inputs], attributes)


class Oracle:
    """An operation, compiled by OpenVINO.

    Args:
        operation_type: The type of the operation.
        inputs: Inputs of the first call, whose types and ranks are those of all calls.
        attributes: The attributes.
        constants: Positions of the inputs that are constants; negative ones count from the end.
    """

    def __init__(self, operation_type, inputs, attributes, constants=()):
        self.constants = {position % len(inputs) for position in constants}
        parameters, nodes = [], []
        for position, value in enumerate(inputs):
            if position in self.constants:
                nodes.append(opset15.constant(value).output(0))
            else:
                parameters.append(opset15.parameter([-1] * value.ndim, _to_type(value.dtype)))
                nodes.append(parameters[-1].output(0))
        node = _factory.create(operation_type, nodes, attributes)
        model = openvino.Model(node.outputs(), parameters, operation_type)
        self.compiled = _core.compile_model(model, "CPU")

    def run(self, inputs):
        """Return the outputs as a list."""
        values = [value for position, value in enumerate(inputs) if position not in self.constants]
        results = self.compiled([v.astype(str) if v.dtype.kind == "O" else openvino.Tensor(v) for v in values])
        outputs = [np.array(results[port]) for port in range(len(self.compiled.outputs))]
        return [output.astype(object) if output.dtype.kind in "SU" else output for output in outputs]
