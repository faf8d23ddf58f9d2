"""Extraction of a sub-model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from irrun.arguments import check_instance, check_texts
from irrun.errors import ModelError
from irrun.ir.graph import Edge, Graph, Layer, OutputAddress, OutputNames, Port
from irrun.ir.model import Model
from irrun.ir.structure import sort_layers

__all__ = ["extract", "extract_between"]


def extract(model: Model, inputs: str | Sequence[str] = (), outputs: str | Sequence[str] = ()) -> Model:
    """Return the part of a model between some of its intermediate values.

    Args:
        model: The whole model.
        inputs: The values that become Parameters, each named by a tensor name, the layer that produces it, or
            `layer.port`. Parameters of the model that the part requires remain inputs.
        outputs: The values that become Results, named in the same way; by default all Results of the model.

    Returns:
        A model that shares its layers and weights with `model`.

    Raises:
        ModelError: A value does not exist, or the outputs do not depend on an input.
    """
    check_instance("model", model, Model, "a Model; read_model reads one")
    inputs, outputs = check_texts("inputs", inputs), check_texts("outputs", outputs)
    graph = model.graph
    layers = {layer.id: layer for layer in graph.layers}
    output_names = OutputNames(graph)
    cuts = {output_names.find(name): name for name in inputs}
    targets = [output_names.find(name) for name in outputs]
    required, reached = _find_required(graph, layers, cuts, targets, keep_results=not outputs)
    unreached = [name for address, name in cuts.items() if address not in reached]
    if unreached:
        raise ModelError(f"the outputs do not depend on {', '.join(unreached)}")
    return _build_part(model, layers, required, cuts, list(zip(targets, outputs, strict=True)))


def extract_between(
    model: Model, cuts: Mapping[OutputAddress, str], targets: Sequence[tuple[OutputAddress, str]]
) -> Model:
    """Return the part of a model between output ports, which need not have names.

    Args:
        model: The whole model.
        cuts: The output ports that become Parameters, with the names of the Parameters. Ports that the targets do not
            depend on are ignored. The ids of the Parameters follow the largest id of the model, in this order.
        targets: The output ports that become Results, with the names of the values. The ids of the Results are
            ascending.

    Returns:
        A model that shares its layers and weights with `model`.
    """
    layers = {layer.id: layer for layer in model.graph.layers}
    addresses = [address for address, _ in targets]
    required, reached = _find_required(model.graph, layers, cuts, addresses, keep_results=False)
    return _build_part(model, layers, required, {a: name for a, name in cuts.items() if a in reached}, targets)


def _build_part(
    model: Model,
    layers: Mapping[int, Layer],
    required: set[int],
    cuts: Mapping[OutputAddress, str],
    targets: Sequence[tuple[OutputAddress, str]],
) -> Model:
    graph = model.graph
    part = Graph(name=graph.name, rt_info=graph.rt_info)
    parameters: dict[OutputAddress, OutputAddress] = {}
    for layer_id, (address, name) in enumerate(cuts.items(), max(layers, default=0) + 1):
        producer = layers[address[0]]
        port = next(p for p in producer.outputs if p.id == address[1])
        part.layers.append(_make_parameter(layer_id, name, port, producer.type))
        parameters[address] = (layer_id, 0)
    part.layers.extend(layer for layer in graph.layers if layer.id in required)
    for edge in graph.edges:
        if edge.to_layer in required:
            source = (edge.from_layer, edge.from_port)
            part.edges.append(Edge(*parameters.get(source, source), edge.to_layer, edge.to_port))
    for address, name in targets:
        part.add_result(name, parameters.get(address, address))
    part.layers = list(sort_layers(part))
    return Model(part, model.weights, 11, model.path, model.rt_info, model.meta_data, model.source_version)


def _find_required(
    graph: Graph,
    layers: Mapping[int, Layer],
    cuts: Mapping[OutputAddress, str],
    targets: Sequence[OutputAddress],
    keep_results: bool,
) -> tuple[set[int], set[OutputAddress]]:
    """Return the ids of the layers between the cuts and the targets, and the cuts that the targets depend on."""
    sources: dict[tuple[int, int], OutputAddress] = {
        (e.to_layer, e.to_port): (e.from_layer, e.from_port) for e in graph.edges
    }
    required: set[int] = set()
    reached = {address for address in targets if address in cuts}
    stack = [address[0] for address in targets if address not in cuts]
    if keep_results:
        stack += [layer.id for layer in layers.values() if layer.is_output or layer.writes_variable]
    assigns = {layer.attributes.get("variable_id"): layer.id for layer in layers.values() if layer.writes_variable}
    while stack:
        layer = layers[stack.pop()]
        if layer.id in required:
            continue
        required.add(layer.id)
        if layer.reads_variable and layer.attributes.get("variable_id") in assigns:
            stack.append(assigns[layer.attributes.get("variable_id")])
        for port in layer.inputs:
            address = sources.get((layer.id, port.id))
            if address is None:
                continue
            if address in cuts:
                reached.add(address)
            else:
                stack.append(address[0])
    return required, reached


def _make_parameter(layer_id: int, name: str, port: Port, producer_type: str) -> Layer:
    """Return a Parameter for the value of `port`."""
    # OpenVINO writes ports without dimensions for both scalars and dynamic ranks, except where `data` has the shape.
    shape = port.shape if port.shape or producer_type in ("Parameter", "Constant") else None
    attributes = {
        "element_type": str(port.element_type or "dynamic"),
        "shape": "..." if shape is None else str(shape)[1:-1],
    }
    return Layer(
        layer_id, name, "Parameter", attributes=attributes, outputs=[Port(0, port.element_type, shape, port.names)]
    )
