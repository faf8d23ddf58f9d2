"""`irrun info`: what a model takes, gives and is made of."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import click

__all__ = ["command"]


@click.command("info")
@click.argument("model", type=click.Path(path_type=Path))
@click.option("-w", "--weights", type=click.Path(path_type=Path), help="The .bin, if not beside the model.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def command(model: Path, weights: Path | None, as_json: bool) -> None:
    """Show the inputs, outputs, operations and weights of MODEL, and what irrun lacks to run it.

    Nothing runs, and a missing .bin does not matter.
    """
    from irrun.cli.show import columns, human_bytes
    from irrun.errors import to_one_line
    from irrun.ir.reader import read_findings

    found, findings = read_findings(model, weights)
    facts = _facts(found, findings)
    if as_json:
        click.echo(json.dumps(facts))
        return
    lines = [
        f"{to_one_line(facts['name']) or to_one_line(model.name)}: IR version {facts['ir_version']}, {facts['layers']} layers"
    ]
    for side in ("inputs", "outputs"):
        lines += ["", side]
        lines += [f"  {to_one_line(t['name'])}: {t['type']}{t['shape']}" for t in facts[side]] or ["  none"]
    lines += ["", "operations"]
    rows = [(f"  {name}", str(count)) for name, count in facts["operations"].items()]
    lines.append(columns(rows) if rows else "  none")
    held = facts["weights"]
    lines += ["", f"weights: {human_bytes(held['bytes'])} in {held['constants']} constants"]
    if held["types"]:
        lines.append("  " + ", ".join(f"{n} {kind}" for kind, n in held["types"].items()))
    for title, key in (
        ("not supported", "unsupported"),
        ("attributes that irrun does not know, and ignores", "unknown_attributes"),
        ("wrong with the file", "findings"),
    ):
        if facts[key]:
            lines += ["", title, *(f"  {to_one_line(line)}" for line in facts[key])]
    click.echo("\n".join(lines))


def _facts(model: Any, findings: Any) -> dict[str, Any]:
    from irrun.ops._support import registry
    from irrun.runtime.lowering import unsupported

    operations: Counter[str] = Counter()
    types: Counter[str] = Counter()
    unknown: Counter[str] = Counter()
    layers = size = 0
    for _, layer in model.graph.walk():
        layers += 1
        operation = registry.find(layer.type, layer.version)
        if operation is None:
            operations[f"{layer.type} ({layer.version})"] += 1
            continue
        operations[str(operation)] += 1
        if operation.type == "Constant":
            element = layer.outputs[0].element_type
            types[str(element)] += 1
            text = str(layer.attributes.get("size", "0"))
            size += int(text) if text.isdecimal() and len(text) < 20 else 0
        for name in operation.find_unknown(layer.attributes):
            if (operation.type, name) == ("Constant", "value"):  # what no .bin holds, not something of the file
                continue
            unknown[f"{operation} {name}"] += 1
    return {
        "name": model.name,
        "ir_version": model.source_version,
        "layers": layers,
        "inputs": [_tensor(t) for t in model.inputs],
        "outputs": [_tensor(t) for t in model.outputs],
        "operations": dict(sorted(operations.items(), key=lambda pair: (-pair[1], pair[0]))),
        "weights": {
            "file_bytes": len(model.weights),
            "bytes": size,
            "constants": sum(types.values()),
            "types": dict(types),
        },
        "unsupported": [f"{name}: {_count(len(layers))}" for name, layers in unsupported(model).items()],
        "unknown_attributes": [f"{name} ({count})" for name, count in sorted(unknown.items())],
        "findings": [str(f) for f in findings],
    }


def _count(layers: int) -> str:
    return f"{layers} layer{'s' * (layers != 1)}"


def _tensor(tensor: Any) -> dict[str, Any]:
    return {
        "name": tensor.names[0] if tensor.names else "",
        "names": list(tensor.names),
        "type": str(tensor.element_type or "any"),
        "shape": "[...]" if tensor.partial_shape is None else str(tensor.partial_shape),
    }
