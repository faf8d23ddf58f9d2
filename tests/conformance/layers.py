"""Models of one layer that OpenVINO's Python API cannot make: any type, opset, attributes and inputs.

OpenVINO only writes the file; what the layer should give comes from elsewhere, mostly from a decomposition into
standard operations that OpenVINO computes.
"""

from __future__ import annotations

import types
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from conformance.harness import ORACLES, to_tensor
from irrun.element_types import ElementType

__all__ = ["computed", "one_layer"]


def one_layer(
    type: str,
    opset: str,
    inputs: Sequence[np.ndarray],
    attributes: dict[str, Any],
    expected: Sequence[np.ndarray],
    constants: Sequence[int] = (),
) -> Callable[[], Any]:
    """What `Case.build` takes: makes a model whose only operation is such a layer.

    inputs become Parameters, or Constants where `constants` names them; expected gives the types and shapes of
    the outputs.
    """
    import openvino as ov

    def create(node: Any, arguments: Any) -> None:
        ov.Op.__init__(node, node, arguments)
        node.constructor_validate_and_infer_types()

    def declare(node: Any) -> None:
        for i, x in enumerate(expected):
            node.set_output_type(i, getattr(ov.Type, ElementType.of(x.dtype).name), ov.PartialShape(list(x.shape)))

    def visit(node: Any, visitor: Any) -> bool:
        visitor.on_attributes(dict(attributes))
        return True

    def build() -> Any:
        body = {"__init__": create, "validate_and_infer_types": declare, "visit_attributes": visit}
        node_class = types.new_class(type, (ov.Op,), exec_body=lambda namespace: namespace.update(body))
        parameters, arguments = [], []
        for i, x in enumerate(inputs):
            if i in constants:
                arguments.append(ov.op.Constant(to_tensor(x)).output(0))
                continue
            element = getattr(ov.Type, ElementType.of(x.dtype).name)
            parameters.append(ov.op.Parameter(element, ov.PartialShape(list(x.shape))))
            arguments.append(parameters[-1].output(0))
        node = node_class(arguments)
        node.get_rt_info()["opset"] = opset
        return ov.Model([ov.op.Result(output) for output in node.outputs()], parameters)

    return build


def computed(*outputs: Any) -> list[np.ndarray]:
    """The values of nodes that hang on Constants alone, computed by OpenVINO."""
    import openvino as ov

    return ORACLES["cpu"](ov.Model([ov.op.Result(o.output(0)) for o in outputs], []), [])
