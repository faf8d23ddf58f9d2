"""Cuts a part out of a model."""

from __future__ import annotations

from collections.abc import Sequence

from irrun.errors import ModelError
from irrun.ir.model import Edge, Graph, Layer, Model, Place, Places, Port
from irrun.ir.structure import sort_layers

__all__ = ["extract"]


def extract(model: Model, inputs: str | Sequence[str] = (), outputs: str | Sequence[str] = ()) -> Model:
    """The part of a model between some of its values, as a model of its own on the same weights.

    Args:
        model: the whole.
        inputs: values that become Parameters, each named by a tensor name or `layer` or `layer.port`. Parameters
            of the whole that the part still needs stay inputs.
        outputs: values that become Results; all Results of the whole where left out.

    Raises:
        ModelError: there is no such value, or the part needs none of the inputs named.
    """
    inputs, outputs = ([names] if isinstance(names, str) else names for names in (inputs, outputs))
    graph = model.graph
    layers = {layer.id: layer for layer in graph.layers}
    sources: dict[Place, Place] = {(e.to_layer, e.to_port): (e.from_layer, e.from_port) for e in graph.edges}
    places = Places(graph)
    cut = {places.find(name): name for name in inputs}
    wanted = [places.find(name) for name in outputs]
    kept, used = _needed(layers, sources, cut, wanted, keep_results=not outputs)
    unused = [name for place, name in cut.items() if place not in used]
    if unused:
        raise ModelError(f"the outputs do not depend on {', '.join(unused)}")

    part = Graph(name=graph.name, rt_info=graph.rt_info)
    fresh = max(layers, default=0)
    stand_in: dict[Place, Place] = {}
    for place, name in cut.items():
        fresh += 1
        port = _port(layers, place)
        part.layers.append(_parameter(fresh, name, port, layers[place[0]].type))
        stand_in[place] = (fresh, 0)
    part.layers.extend(layer for layer in graph.layers if layer.id in kept)
    for edge in graph.edges:
        if edge.to_layer in kept:
            source = stand_in.get((edge.from_layer, edge.from_port), (edge.from_layer, edge.from_port))
            part.edges.append(Edge(*source, edge.to_layer, edge.to_port))
    for place, name in zip(wanted, outputs, strict=True):
        part.add_result(name, stand_in.get(place, place))
    part.layers = list(sort_layers(part))
    return Model(part, model.weights, 11, model.path, model.rt_info, model.meta_data, model.source_version)


def _needed(
    layers: dict[int, Layer],
    sources: dict[Place, Place],
    cut: dict[Place, str],
    wanted: list[Place],
    keep_results: bool,
) -> tuple[set[int], set[Place]]:
    """The layers that the wanted values need, without going past the cut; and the cuts that were reached."""
    kept: set[int] = set()
    used = {place for place in wanted if place in cut}
    stack = [place[0] for place in wanted if place not in cut]
    if keep_results:
        stack += [layer.id for layer in layers.values() if layer.type in ("Result", "Assign")]
    assigns = {layer.attributes.get("variable_id"): layer.id for layer in layers.values() if layer.type == "Assign"}
    while stack:
        layer = layers[stack.pop()]
        if layer.id in kept:
            continue
        kept.add(layer.id)
        if layer.type == "ReadValue" and layer.attributes.get("variable_id") in assigns:
            stack.append(assigns[layer.attributes.get("variable_id")])
        for port in layer.inputs:
            place = sources.get((layer.id, port.id))
            if place in cut:
                used.add(place)
            elif place is not None:
                stack.append(place[0])
    return kept, used


def _port(layers: dict[int, Layer], place: Place) -> Port:
    return next(p for p in layers[place[0]].outputs if p.id == place[1])


def _parameter(id: int, name: str, port: Port, source: str) -> Layer:
    """A Parameter for the value of `port`, which a layer of type `source` makes."""
    # OpenVINO writes no dimensions for a scalar and for an unknown rank alike, but where `data` holds the shape.
    known = port.shape if port.shape or source in ("Parameter", "Constant") else None
    own = Port(0, port.element_type, known, port.names)
    shape = "..." if known is None else str(known)[1:-1]
    attributes = {"element_type": str(port.element_type or "dynamic"), "shape": shape}
    return Layer(id, name, "Parameter", attributes=attributes, outputs=[own])
