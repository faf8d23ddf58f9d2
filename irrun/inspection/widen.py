"""Models in which every floating-point type is replaced by f64."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from irrun.element_types import ELEMENT_TYPES, ElementType
from irrun.errors import ModelError
from irrun.ir.constant import Constant
from irrun.ir.graph import Body, Edge, Graph, Layer, Port
from irrun.ir.model import Model
from irrun.ir.structure import is_placeholder

__all__ = ["widen_attributes", "widen_model"]

F64 = ELEMENT_TYPES["f64"]

#: Constants of at most this many bytes are widened at once. Larger ones are widened by a Convert when they are used.
SMALL_CONSTANT = 1 << 16

#: Layers whose types are part of the computation: the random numbers and the rounding depend on them.
KEPT_TYPES = ("FakeConvert", "RandomUniform")


def widen_model(model: Model) -> Model:
    """Return a model that computes in f64: its floating-point inputs, constants, variables and conversions are f64.

    Layers keep their names. Convert layers are inserted after large constants and after layers of random numbers.

    Args:
        model: The model, which is not changed.
    """
    graph = _widen_graph(model.graph)
    return Model(graph, model.weights, 11, model.path, model.rt_info, model.meta_data, model.source_version)


def widen_attributes(layer: Layer) -> dict[str, object]:
    """Return the attributes of a layer with floating-point types replaced by f64.

    Args:
        layer: The layer.
    """
    if layer.type in KEPT_TYPES:
        return dict(layer.attributes)
    return {name: "f64" if _is_float_type(name, value) else value for name, value in layer.attributes.items()}


def _is_float_type(name: str, value: object) -> bool:
    if not name.endswith("type"):
        return False
    try:
        element_type = value if isinstance(value, ElementType) else ElementType.parse(str(value))
    except ValueError:
        return False
    return element_type.is_float


def _widen_graph(graph: Graph) -> Graph:
    result = Graph(name=graph.name, rt_info=graph.rt_info)
    next_id = max((layer.id for layer in graph.layers), default=0) + 1
    converted: dict[tuple[int, int], int] = {}
    for layer in graph.layers:
        widened = _widen_layer(layer)
        result.layers.append(widened)
        if _requires_convert(widened):
            port = layer.outputs[0]
            converted[layer.id, port.id] = next_id
            result.layers.append(_make_convert(next_id, layer, port))
            next_id += 1
    for edge in graph.edges:
        source = (edge.from_layer, edge.from_port)
        if source in converted:
            edge = Edge(converted[source], 1, edge.to_layer, edge.to_port)
        result.edges.append(edge)
    result.edges += [Edge(*source, layer_id, 0) for source, layer_id in converted.items()]
    return result


def _widen_layer(layer: Layer) -> Layer:
    constant = layer.constant
    is_small = constant is not None and constant.element_type.is_float and constant.size <= SMALL_CONSTANT
    keeps_types = layer.type in KEPT_TYPES or (layer.type == "Constant" and not is_small)
    result = replace(
        layer,
        attributes=dict(layer.attributes) if keeps_types else widen_attributes(layer),
        inputs=[_widen_port(port) for port in layer.inputs],
        outputs=[port if keeps_types else _widen_port(port) for port in layer.outputs],
        bodies={name: _widen_body(body) for name, body in layer.bodies.items()},
    )
    if constant is not None and is_small and constant.data is not None:
        try:
            array = constant.to_array()
        except ModelError:
            return result  # lowering reports it
        if array.dtype.fields:
            result.constant, result.outputs = constant, layer.outputs
        else:
            with np.errstate(all="ignore"):
                result.constant = Constant.from_array(array.astype(np.float64), F64)
    return result


def _requires_convert(layer: Layer) -> bool:
    if layer.type == "RandomUniform":
        return True
    constant = layer.constant
    is_widened = constant is None or not constant.element_type.is_float or constant.element_type == F64
    return not is_widened and not is_placeholder(layer)


def _make_convert(layer_id: int, source: Layer, port: Port) -> Layer:
    return Layer(
        layer_id,
        f"{source.name}/f64",
        "Convert",
        attributes={"destination_type": "f64"},
        inputs=[replace(port, id=0, names=())],
        outputs=[Port(1, F64, port.shape)],
    )


def _widen_body(body: Body) -> Body:
    return replace(body, graph=_widen_graph(body.graph))


def _widen_port(port: Port) -> Port:
    if port.element_type is None or not port.element_type.is_float:
        return port
    return replace(port, element_type=F64)
