"""Reshapes to constant shapes, which OpenVINO adapts before it changes the shapes of a model's inputs."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from irrun.openvino.factories import make_constant
from irrun.openvino.node import Node, Output

__all__ = ["relax_fixed_shapes"]


def relax_fixed_shapes(nodes: Iterable[Node]) -> None:
    """Let the target of each Reshape to a constant shape leave open what follows from the size of the data.

    Those to one dimension become [-1]. Those to two dimensions in front of a MatMul keep the dimension that the other
    matrix determines. The results for the current shapes stay the same.

    Args:
        nodes: The nodes of a model.
    """
    for node in nodes:
        if node.get_type_name() != "Reshape":
            continue
        constant = node.input_value(1).get_node()
        if constant.get_type_name() != "Constant":
            continue
        target = constant.data
        if target.ndim != 1 or not (target > 0).all():
            continue
        kept_axis = _find_matrix_axis(node) if len(target) == 2 else None
        if len(target) == 1 or kept_axis is not None:
            relaxed = np.full_like(target, -1)
            if kept_axis is not None:
                relaxed[kept_axis] = target[kept_axis]
            node._set_source(1, Output(make_constant(relaxed), 0))


def _find_matrix_axis(node: Node) -> int | None:
    """Return the axis that the MatMul which consumes the output of a node contracts; None if there is none."""
    consumers: Any = node.output(0).get_target_inputs()
    for consumer in consumers:
        matmul = consumer.get_node()
        if matmul.get_type_name() == "MatMul":
            index = consumer.get_index()
            is_transposed = bool(matmul.get_attributes()[("transpose_a", "transpose_b")[index]])
            return int((index == 0) != is_transposed)
    return None
