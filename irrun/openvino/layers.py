"""The layers of nodes."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from irrun import shapes
from irrun.element_types import ElementType
from irrun.ir.graph import Layer, Port
from irrun.openvino.ports import NodeData, PortData

__all__ = ["make_layer"]


def make_layer(node: NodeData, layer_id: int) -> Layer:
    """Return the layer of a node. Input ports are numbered from 0, and output ports from the number of inputs."""
    inputs = []
    for i, source in enumerate(node._sources):
        data = PortData() if source is None else source._data
        inputs.append(Port(i, data.element_type, data.shape))
    first = len(inputs)
    outputs = [
        Port(first + i, p.element_type, p.shape, tuple(sorted(p.names)), p.rt_info_text)
        for i, p in enumerate(node._ports)
    ]
    if node._type == "Result":
        inputs[0].names = tuple(sorted(node._ports[0].names))
        outputs = []
    layer = Layer(
        layer_id,
        node.get_friendly_name(),
        node._type,
        node._version,
        dict(node._attributes),
        inputs,
        outputs,
        bodies=_renumber_bodies(node, first),
        constant=node._constant,
        rt_info=node._rt_info_text,
        line=node._line,
    )
    if node._type == "Parameter":
        _declare_parameter(layer, node._ports[0].element_type, node._ports[0].shape)
    return layer


def _declare_parameter(layer: Layer, element_type: ElementType | None, shape: shapes.PartialShape | None) -> None:
    layer.attributes["shape"] = "..." if shape is None else str(shape)[1:-1]
    layer.attributes["element_type"] = "dynamic" if element_type is None else element_type.name


def _renumber_bodies(node: NodeData, first_output: int) -> dict[str, Any]:
    """Return the bodies with the numbers that `make_layer` assigns to the ports of their layer."""
    if not node._bodies:
        return {}
    bodies = {}
    for tag, body in node._bodies.items():
        inputs, outputs = node._body_port_ids or _number_body_ports(node)
        bodies[tag] = replace(
            body,
            inputs=[replace(e, external_port_id=inputs.get(e.external_port_id, -1)) for e in body.inputs],
            outputs=[
                replace(
                    e, external_port_id=first_output + o if (o := outputs.get(e.external_port_id)) is not None else -1
                )
                for e in body.outputs
            ],
        )
    return bodies


def _number_body_ports(node: NodeData) -> tuple[dict[int, int], dict[int, int]]:
    """Return the positions of the ports by id, for a node with consecutive port numbers."""
    count = len(node._sources)
    return {i: i for i in range(count)}, {count + i: i for i in range(len(node._ports))}
