"""Files for Google's Model Explorer: the graph, and irrun's numbers as node data.

The formats follow `graph_builder.py` and `node_data_builder.py` in the package `ai-edge-model-explorer`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from irrun.inspection.report.data import Report

__all__ = ["make_graphs", "make_node_data"]

#: Colors from the smallest to the largest value.
_GRADIENT = (("0", "#fff7bc"), ("0.5", "#fe9929"), ("1", "#8c2d04"))


def make_graphs(report: Report) -> dict[str, Any]:
    """Return the graph collection: one graph for the model and one for each body.

    Args:
        report: The data of the report.
    """
    data = report.to_json()
    layers, graphs = data["layers"], data["graphs"]
    identifiers = _name_graphs(graphs, layers)
    namespaces: dict[int, str] = {}
    for graph in graphs:
        _find_namespaces(graph["members"], "", namespaces)
    result = []
    for number, identifier in enumerate(identifiers):
        nodes = [
            _make_node(i, layer, data, identifiers, namespaces)
            for i, layer in enumerate(layers)
            if layer["graph"] == number and not layer.get("constant")
        ]
        result.append({"id": identifier, "nodes": nodes})
    return {"label": report.title, "graphs": result}


def make_node_data(report: Report) -> dict[str, dict[str, Any]]:
    """Return the node data by measure: times, memory, ranges, and errors if the model was compared.

    Args:
        report: The data of the report.

    Returns:
        For each measure, the contents of a file. In bodies, the numbers describe the first iteration.
    """
    data = report.to_json()
    layers = data["layers"]
    identifiers = _name_graphs(data["graphs"], layers)
    measures: dict[str, Callable[[int], float | None]] = {
        "time_ms": lambda i: _get_time(data, i),
        "output_bytes": lambda i: _sum_bytes(data, i),
        "largest_magnitude": lambda i: _get_magnitude(data, i),
    }
    if data["reference"] is not None:
        measures["own_error_db"] = lambda i: _get_error(data, i, "own")
        measures["accumulated_error_db"] = lambda i: _get_error(data, i, "accumulated")
    files: dict[str, dict[str, Any]] = {}
    for name, measure in measures.items():
        contents: dict[str, Any] = {}
        for number, identifier in enumerate(identifiers):
            numbers = [i for i, layer in enumerate(layers) if layer["graph"] == number and not layer.get("constant")]
            results = {str(i): {"value": value} for i in numbers if (value := measure(i)) is not None}
            colors = _GRADIENT if not name.endswith("_db") else [(s, c) for s, (_, c) in _reverse_gradient()]
            gradient = [{"stop": float(stop), "bgColor": color} for stop, color in colors]
            contents[identifier] = {"name": name, "results": results, "gradient": gradient}
        files[name] = contents
    return files


def _reverse_gradient() -> list[tuple[str, tuple[str, str]]]:
    """Return the gradient that emphasizes the smallest value: a low signal-to-noise ratio is a large error."""
    return [(stop, color) for (stop, _), color in zip(_GRADIENT, reversed(_GRADIENT), strict=True)]


def _name_graphs(graphs: list[dict[str, Any]], layers: list[dict[str, Any]]) -> list[str]:
    names: list[str] = []
    for i, graph in enumerate(graphs):
        owner = graph["owner"]
        name = "main" if owner is None else f"{layers[owner]['key']}/{graph['tag']}"
        names.append(name if name not in names else f"{name}#{i}")
    return names


def _find_namespaces(members: list[Any], prefix: str, namespaces: dict[int, str]) -> None:
    for member in members:
        if isinstance(member, int):
            namespaces[member] = prefix
        else:
            label = member["label"].replace("/", "_")
            _find_namespaces(member["members"], f"{prefix}/{label}" if prefix else label, namespaces)


def _make_node(
    number: int, layer: dict[str, Any], data: dict[str, Any], graphs: list[str], namespaces: dict[int, str]
) -> dict[str, Any]:
    layers = data["layers"]
    edges, attributes = [], [("name", layer["name"]), ("key", layer["key"]), ("opset", layer["version"])]
    attributes += list(layer.get("attributes", {}).items())
    for position, source in enumerate(layer["inputs"]):
        if source is None:
            continue
        producer, port = source
        if layers[producer].get("constant"):
            declared = (layers[producer]["outputs"] or [{"type": "", "shape": ""}])[min(port, 0)]
            attributes.append((f"input {position}", f"constant {declared['type']}{declared['shape']}"))
        else:
            edges.append(
                {
                    "sourceNodeId": str(producer),
                    "sourceNodeOutputId": str(port),
                    "targetNodeInputId": str(position),
                }
            )
    record = _get_record(data, number)
    outputs = []
    for i, declared in enumerate(layer["outputs"]):
        items = [("declared", f"{declared['type']}{declared['shape']}")]
        actual = (record.get("outputs") or [])[i : i + 1]
        if actual and actual[0]:
            shape = f"{actual[0]['type']}{actual[0]['shape']}".replace(" ", "")
            items.append(("tensor_shape", shape))
            names = ("min", "max", "mean", "std", "zeros", "nans", "infinities")
            statistics = actual[0].get("stats") or []
            items += [(n, f"{v:g}") for n, v in zip(names, statistics, strict=False) if v is not None]
        outputs.append({"id": str(i), "attrs": _to_pairs(items)})
    node = {
        "id": str(number),
        "label": layer["type"],
        "namespace": namespaces.get(number, ""),
        "attrs": _to_pairs(attributes),
        "incomingEdges": edges,
        "outputsMetadata": outputs,
    }
    if layer.get("bodies"):
        node["subgraphIds"] = [graphs[i] for i in layer["bodies"]]
    return node


def _to_pairs(items: list[tuple[str, str]]) -> list[dict[str, str]]:
    return [{"key": key, "value": value} for key, value in items]


def _get_record(data: dict[str, Any], number: int) -> dict[str, Any]:
    records = data["values"].get(number, {})
    return next(iter(records.values()), {})


def _get_time(data: dict[str, Any], number: int) -> float | None:
    kernels = data["times"]["kernels"] if data["times"] else []
    return next((kernel["seconds"] * 1000 for kernel in kernels if kernel["layers"][0] == number), None)


def _sum_bytes(data: dict[str, Any], number: int) -> float | None:
    outputs = _get_record(data, number).get("outputs")
    return None if outputs is None else sum(output["bytes"] for output in outputs if output)


def _get_magnitude(data: dict[str, Any], number: int) -> float | None:
    outputs = _get_record(data, number).get("outputs") or []
    bounds = [abs(n) for o in outputs if o and o.get("stats") for n in o["stats"][:2] if n is not None]
    return max(bounds, default=None)


def _get_error(data: dict[str, Any], number: int, kind: str) -> float | None:
    errors = data["errors"].get(number, {})
    first: dict[str, Any] = next(iter(errors.values()), {})
    metrics = first.get(kind)
    return None if metrics is None or metrics["db"] is None else metrics["db"]
