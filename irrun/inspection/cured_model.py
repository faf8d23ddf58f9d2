"""The cured model: a quantized model with some layers computed in floating point."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from importlib.util import find_spec

from irrun.element_types import ElementType
from irrun.errors import InputError
from irrun.formatting import format_count
from irrun.inspection.comparing import compare
from irrun.inspection.connections import Connections, find_free_ids
from irrun.inspection.cure import order_models
from irrun.inspection.cure_search import rate_outputs
from irrun.inspection.isolated_layers import IsolatedLayer
from irrun.inspection.keys import KeyTable
from irrun.inspection.matching import match_layers
from irrun.inspection.references import convert_arguments, match_outputs
from irrun.ir.graph import Edge, Graph, Layer, OutputAddress, Port
from irrun.ir.model import Model, index_names
from irrun.ir.structure import sort_layers
from irrun.runtime.inputs import Inputs, collect_inputs
from irrun.runtime.options import RunSettings

__all__ = ["explain_int8_kernels", "make_cured_model", "measure_in_openvino"]


def make_cured_model(model: Model, other: Model, names: Sequence[str]) -> Model:
    """Return a quantized model with some layers replaced by layers of the floating-point model.

    The replaced layers have floating-point weights and unquantized inputs. Quantizers and weights that
    become unused are removed.

    Args:
        model: The floating-point or the quantized model.
        other: The other one.
        names: The names of the layers, such as `Cure.names`.

    Raises:
        InputError: A layer does not exist in both models, or it occurs more than once.
    """
    quantized, exact = order_models(model, other)
    graph = quantized.graph
    layers = {layer.id: layer for layer in graph.layers}
    connections, exact_table = Connections(graph), KeyTable(exact)
    matches = match_layers(graph, exact.graph)
    free_ids = find_free_ids(graph)
    taken = {layer.name for layer in graph.layers}
    sources: dict[tuple[int, int], OutputAddress] = dict(connections.addresses)
    for name in names:
        found = [layer for layer in graph.layers if layer.name == name]
        match = matches.find(found[0]) if len(found) == 1 else None
        if match is None:
            raise InputError(f"expected the name of one layer of both models, found {name!r}")
        target = found[0]
        isolated = IsolatedLayer(connections, exact, exact_table, target, match.layer, RunSettings())
        if not isolated.is_usable:
            raise InputError(f"the inputs of {name!r} before quantization are unknown")
        parameters = isolated.part.graph.find_layers("Parameter")
        inputs = {n.id: a for n, a in zip(parameters, isolated.addresses, strict=True) if a is not None}
        ids = {n.id: next(free_ids) for n in isolated.part.graph.layers if n is not match.layer}
        ids[match.layer.id] = target.id
        for layer in isolated.part.graph.layers:
            if layer.id in inputs or layer.is_output:
                continue
            own = name if layer is match.layer else _make_name(layer.name, name, taken)
            # Offsets are positions in the weights of the floating-point model.
            constant = None if layer.constant is None else replace(layer.constant, offset=None)
            copied = replace(layer, id=ids[layer.id], name=own, constant=constant)
            copied.outputs = [replace(port, names=()) for port in layer.outputs]
            if layer is match.layer:
                copied.outputs = [replace(p, id=q.id, names=q.names) for p, q in _pair(copied, target)]
            layers[copied.id] = copied
        for port in target.inputs:
            sources.pop((target.id, port.id), None)
        for edge in isolated.part.graph.edges:
            consumer = next(n for n in isolated.part.graph.layers if n.id == edge.to_layer)
            if consumer.is_output:
                continue
            address = inputs.get(edge.from_layer, (ids[edge.from_layer], edge.from_port))
            destination = (ids[edge.to_layer], edge.to_port)
            wanted = next(p for p in consumer.inputs if p.id == edge.to_port)
            sources[destination] = _convert(layers, address, wanted.element_type, free_ids, sources, name, taken)
        _restore_types(layers, target, sources, free_ids, name, taken)
    return _build(quantized, layers, sources)


def measure_in_openvino(
    model: Model, other: Model, cured: Model, input_sets: Sequence[Inputs]
) -> tuple[float, float, float] | None:
    """Return the SQNR in dB of the quantized and of the cured model in OpenVINO, where int8 kernels may run.

    The difference from the SQNR of the cured model without int8 kernels is the effect of these kernels.

    Args:
        model: The floating-point or the quantized model.
        other: The other one.
        cured: The cured model.
        input_sets: The inputs of `model` in one or more runs.

    Returns:
        The SQNR of the quantized model, of the cured model, and of the cured model without int8 kernels; None if
        OpenVINO is not installed.

    Raises:
        ExecutionError: OpenVINO does not accept a model.
    """
    if find_spec("openvino") is None:
        return None
    from irrun.inspection.openvino_model import OpenVinoModel
    from irrun.inspection.openvino_precision import Target

    quantized, exact = order_models(model, other)
    specs = model.inputs
    sets = [collect_inputs(inputs, specs, index_names(specs)) for inputs in input_sets]
    results = []
    for part, is_float in ((exact, False), (quantized, False), (cured, False), (cured, True)):
        runner = OpenVinoModel(part, Target(keeps_quantizers=is_float))
        try:
            results.append([runner.infer(convert_arguments(model, part, arguments)) for arguments in sets])
        finally:
            runner.close()
    positions = match_outputs(quantized, exact)
    references = [[None if i is None else outputs[i] for i in positions] for outputs in results[0]]
    before, after, exactly = (rate_outputs(outputs, references) for outputs in results[1:])
    return before, after, exactly


def explain_int8_kernels(cured: Model, inputs: Inputs) -> list[str]:
    """Return why OpenVINO's int8 kernels give different results, with the number of layers for each reason.

    Args:
        cured: The cured model.
        inputs: The inputs of a run.

    Raises:
        ExecutionError: OpenVINO does not accept the model.
    """
    compared = compare(cured, "openvino", inputs)
    counts: Counter[str] = Counter()
    for layer in compared.layers:
        if layer.reason.startswith("the int8 kernel"):
            counts[layer.reason.partition(" (" if ": " not in layer.reason else ": ")[0]] += 1
        elif layer.verdict == "one level":
            counts["a few elements are rounded to another level"] += 1
        elif layer.verdict in ("adds", "perturbed"):
            counts["the kernel computes different values for an unknown reason"] += 1
    return [f"{format_count(count, 'layer')}: {reason}" for reason, count in counts.most_common()]


def _pair(layer: Layer, target: Layer) -> list[tuple[Port, Port]]:
    return list(zip(layer.outputs, target.outputs, strict=True))


def _make_name(name: str, owner: str, taken: set[str]) -> str:
    """Return an unused layer name."""
    candidate, number = name, 0
    while candidate in taken:
        number += 1
        candidate = f"{owner}/{name}_{number}"
    taken.add(candidate)
    return candidate


def _convert(
    layers: dict[int, Layer],
    address: OutputAddress,
    wanted: ElementType | None,
    free_ids: Iterator[int],
    sources: dict[tuple[int, int], OutputAddress],
    name: str,
    taken: set[str],
) -> OutputAddress:
    """Return the address of a value in the type that a layer declares, with a conversion if required."""
    port = next(p for p in layers[address[0]].outputs if p.id == address[1])
    if wanted is None or port.element_type in (None, wanted):
        return address
    number = next(free_ids)
    layers[number] = Layer(
        number,
        _make_name(f"{name}/convert", name, taken),
        "Convert",
        attributes={"destination_type": str(wanted)},
        inputs=[replace(port, id=0, names=(), rt_info=None)],
        outputs=[Port(1, wanted, port.shape)],
    )
    sources[number, 0] = address
    return number, 1


def _restore_types(
    layers: dict[int, Layer],
    target: Layer,
    sources: dict[tuple[int, int], OutputAddress],
    free_ids: Iterator[int],
    name: str,
    taken: set[str],
) -> None:
    """Restore the original types for the consumers of a layer."""
    for port in target.outputs:
        consumers = [key for key, address in sources.items() if address == (target.id, port.id)]
        address = _convert(layers, (target.id, port.id), port.element_type, free_ids, sources, name, taken)
        sources.update(dict.fromkeys(consumers, address))


def _build(model: Model, layers: dict[int, Layer], sources: dict[tuple[int, int], OutputAddress]) -> Model:
    """Return the model without layers that no output or variable depends on."""
    required: set[int] = set()
    stack = [layer.id for layer in model.graph.find_layers("Parameter")]
    stack += [layer.id for layer in layers.values() if layer.is_output or layer.writes_variable]
    while stack:
        number = stack.pop()
        if number in required:
            continue
        required.add(number)
        stack += [sources[number, p.id][0] for p in layers[number].inputs if (number, p.id) in sources]
    graph = Graph(name=model.graph.name, rt_info=model.graph.rt_info)
    graph.layers = [layer for number, layer in layers.items() if number in required]
    graph.edges = [Edge(*address, *key) for key, address in sources.items() if key[0] in required]
    graph.layers = list(sort_layers(graph))
    return Model(graph, model.weights, 11, model.path, model.rt_info, model.meta_data, model.source_version)
