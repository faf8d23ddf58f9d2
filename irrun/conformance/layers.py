"""Models of one layer that OpenVINO's Python API cannot build: any type, opset, attributes and inputs.

OpenVINO only writes the file. The expected outputs come from elsewhere, mostly from a decomposition into standard
operations that OpenVINO computes.
"""

from __future__ import annotations

import types
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from irrun.conformance.harness import COMPUTE, to_tensor
from irrun.element_types import ElementType

__all__ = ["compute_nodes", "define_layer"]


def define_layer(
    type: str,
    opset: str,
    inputs: Sequence[np.ndarray],
    attributes: dict[str, Any],
    expected: Sequence[np.ndarray],
    constants: Sequence[int] = (),
) -> Callable[[], Any]:
    """Return a function for `Case.build` that builds a model with this layer as its only operation.

    Args:
        type: The type of the layer.
        opset: The opset of the layer.
        inputs: The values of the inputs.
        attributes: The attributes of the layer.
        expected: Arrays with the types and shapes of the outputs.
        constants: Positions of inputs that are Constants of the model. All others are Parameters.
    """
    import openvino as ov

    def create(node: Any, arguments: Any) -> None:
        ov.Op.__init__(node, node, arguments)
        node.constructor_validate_and_infer_types()

    def declare_outputs(node: Any) -> None:
        for i, x in enumerate(expected):
            node.set_output_type(i, getattr(ov.Type, ElementType.of(x.dtype).name), ov.PartialShape(list(x.shape)))

    def visit_attributes(node: Any, visitor: Any) -> bool:
        visitor.on_attributes(dict(attributes))
        return True

    def build() -> Any:
        members = {
            # The version differs from OpenVINO's own operation of this name, so that OpenVINO does not confuse them.
            "class_type_info": ov.DiscreteTypeInfo(type, "irrun"),
            "__init__": create,
            "validate_and_infer_types": declare_outputs,
            "visit_attributes": visit_attributes,
            "has_evaluate": lambda node: False,
            "evaluate": lambda node, outputs, inputs: False,
        }
        node_class = types.new_class(type, (ov.Op,), exec_body=lambda namespace: namespace.update(members))
        parameters, arguments = [], []
        for i, x in enumerate(inputs):
            if i in constants:
                arguments.append(ov.op.Constant(to_tensor(x)).output(0))
                continue
            element_type = getattr(ov.Type, ElementType.of(x.dtype).name)
            parameters.append(ov.op.Parameter(element_type, ov.PartialShape(list(x.shape))))
            arguments.append(parameters[-1].output(0))
        node = node_class(arguments)
        node.get_rt_info()["opset"] = opset
        return ov.Model([ov.op.Result(output) for output in node.outputs()], parameters)

    return build


def compute_nodes(*nodes: Any) -> list[np.ndarray]:
    """Compute the values of nodes that depend on Constants only, with OpenVINO.

    The reference implementation, which takes much less time to set up, is preferred to the CPU plugin.
    """
    import openvino as ov

    model = ov.Model([ov.op.Result(node.output(0)) for node in nodes], [])
    try:
        return COMPUTE["evaluate"](model, [], [()] * len(nodes))
    except RuntimeError:  # some operations have no reference implementation
        return COMPUTE["cpu"](model, [])
