"""`irrun info`: show the inputs, outputs, operations and weights of a model."""

from __future__ import annotations

import difflib
import json
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from irrun.cli import ExampleCommand
from irrun.cli.inputs import ShapeOptions, optional_model_argument, shape_options, weights_option
from irrun.cli.options import setting_options
from irrun.formatting import format_count

if TYPE_CHECKING:
    from irrun.ir.graph import Layer, Port
    from irrun.ir.model import Model, TensorSpec
    from irrun.runtime.options import RunSettings

__all__ = ["command"]

#: Titles of the lists that are shown if they are not empty -> their keys in JSON.
PROBLEMS = {
    "unsupported operations": "unsupported",
    "unknown attributes (ignored)": "unknown_attributes",
    "findings": "findings",
}


@click.command(
    "info",
    cls=ExampleCommand,
    examples=[
        "irrun info",
        "irrun info model.xml",
        "irrun info model.xml --layers 'conv*'",
        "irrun info model.xml --plan",
    ],
)
@optional_model_argument
@weights_option
@shape_options
@setting_options(is_run=False)
@click.option(
    "--layers",
    "pattern",
    is_flag=False,
    flag_value="*",
    metavar="[PATTERN]",
    help="List the layers, in bodies too, whose name or tensor name matches a pattern such as 'conv*'; all by default.",
)
@click.option(
    "--plan", "shows_plan", is_flag=True, help="Show which implementation was chosen for each layer, and why."
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def command(
    model: Path | None,
    weights: Path | None,
    shapes: ShapeOptions,
    settings: RunSettings,
    pattern: str | None,
    shows_plan: bool,
    as_json: bool,
) -> None:
    """Show the inputs, outputs, operations and weights of MODEL, and anything that prevents it from running.

    The model does not run, and the .bin file is not needed, except for --plan. Run options only affect the plan.
    The exit code is 1 if the model cannot run. Without a model, show the versions, the processor, and whether kernels
    can be compiled for it.
    """
    from irrun.cli.progress import ProgressLine
    from irrun.cli.tables import print_lines
    from irrun.ir.reader import read_findings
    from irrun.runtime.options import DEFAULT_SETTINGS
    from irrun.runtime.validation import check_operations

    if settings != DEFAULT_SETTINGS and not shows_plan:
        raise click.UsageError("--precision, --jit, --threads, --memory and --weights-memory require --plan")
    if shows_plan and pattern is not None:
        raise click.UsageError("--plan cannot be combined with --layers")
    if model is None:
        if shows_plan or pattern is not None or weights is not None or shapes.is_set:
            raise click.UsageError("expected a model for these options")
        _print_environment(as_json)
        return
    progress = ProgressLine(model.name)
    if shows_plan:
        with progress:
            plan = _list_plan(model, weights, shapes, settings)
        _print_plan(plan, as_json)
        return
    with progress:
        source, findings = read_findings(model, weights)
        shapes.apply(source)
        others = [f for f in check_operations(source, check_shapes=False) if "unsupported operation" not in f.message]
        facts = _collect_facts(source, [*findings, *others])
    if pattern is not None:
        layers = _list_layers(source, pattern)
        facts["layer_list"] = layers
    if as_json:
        click.echo(json.dumps(facts))
    elif pattern is not None:
        _print_layers(layers)
    else:
        print_lines(_format_facts(facts, model.name))
    if facts["unsupported"] or facts["findings"]:
        raise click.exceptions.Exit(1)


def _print_environment(as_json: bool) -> None:
    from irrun.cli.environment import collect_environment, format_environment
    from irrun.cli.tables import print_lines

    facts = collect_environment()
    if as_json:
        click.echo(json.dumps(facts))
    else:
        print_lines(format_environment(facts))


def _list_plan(model: Path, weights: Path | None, shapes: ShapeOptions, settings: RunSettings) -> list[dict[str, Any]]:
    """Return the instructions of a compiled model, in order."""
    from irrun.ir.reader import read_model
    from irrun.runtime.plan import list_plan

    source = read_model(model, weights)
    shapes.apply(source)
    compiled = settings.compile(source)
    return [asdict(entry) for entry in list_plan(compiled._fast_program)]


def _print_plan(plan: Sequence[dict[str, Any]], as_json: bool) -> None:
    from irrun.cli.tables import print_table

    if as_json:
        click.echo(json.dumps({"plan": plan}))
        return
    rows: list[tuple[str, ...]] = []
    for entry in plan:
        layers = _shorten(entry["layers"], "  " * entry["depth"] + entry["layers"][-1])
        rows.append((layers, "+".join(entry["operations"]), entry["implementation"]))
    print_table(("layers", "operations", "implementation"), rows, texts=("implementation",))
    refused: dict[str, list[str]] = {}
    for entry in plan:
        for reason in entry["refused"]:
            refused.setdefault(reason, []).append("  " * entry["depth"] + entry["layers"][-1])
    if refused:
        click.echo("\nrewrites and methods that do not apply")
        rows = [(_shorten(layers, layers[0]), reason) for reason, layers in refused.items()]
        print_table(("layers", "rewrite or method: reason"), rows, texts=("rewrite or method: reason",))


def _shorten(names: Sequence[str], shown: str) -> str:
    """Return the first name and the number of others."""
    return f"{shown} and {len(names) - 1} more" if len(names) > 1 else shown


def _list_layers(model: Model, pattern: str) -> list[dict[str, Any]]:
    """Return the facts about the layers whose key or tensor name matches a pattern.

    Raises:
        InputError: No layer matches.
    """
    from irrun.errors import InputError
    from irrun.inspection.keys import KeyTable, compile_glob

    expression = compile_glob(pattern)
    rows = []
    known: set[str] = set()
    for key, layer in KeyTable(model).iterate_layers():
        names = [name for port in layer.outputs for name in port.names]
        known.update((key, *names))
        if any(expression.fullmatch(name) for name in (key, layer.name, *names)):
            rows.append(_describe_layer(key, layer))
    if not rows:
        similar = difflib.get_close_matches(pattern.strip("*?"), sorted(known), 3)
        hint = f"did you mean {', '.join(similar)}?" if similar else "irrun info MODEL --layers lists all"
        raise InputError(f"no layer matches {pattern!r}; {hint}")
    return rows


def _describe_layer(key: str, layer: Layer) -> dict[str, Any]:
    from irrun.ops._support import registry

    operation = registry.find(layer.type, layer.version)
    return {
        "name": key,
        "operation": str(operation) if operation else f"{layer.type} ({layer.version})",
        "line": layer.line,
        "inputs": [_format_port(port) for port in layer.inputs],
        "outputs": [{"type_and_shape": _format_port(port), "names": list(port.names)} for port in layer.outputs],
    }


def _format_port(port: Port) -> str:
    return f"{port.element_type or ''}{'[...]' if port.shape is None else port.shape}"


def _print_layers(layers: Sequence[dict[str, Any]]) -> None:
    from irrun.cli.tables import print_table

    rows = []
    for layer in layers:
        shapes = " ".join(output["type_and_shape"] for output in layer["outputs"])
        names = [name for output in layer["outputs"] for name in output["names"] if name != layer["name"]]
        rows.append((layer["name"], layer["operation"], shapes, ", ".join(names)))
    print_table(("layer", "operation", "outputs", "tensor names"), rows, texts=("tensor names",))


def _format_facts(facts: dict[str, Any], file_name: str) -> Iterator[str]:
    from irrun.cli.show import format_bytes
    from irrun.cli.tables import format_columns
    from irrun.errors import to_one_line

    name = to_one_line(facts["name"]) or to_one_line(file_name)
    yield f"{name}: IR version {facts['ir_version']}, {format_count(facts['layers'], 'layer')}"
    for side in ("inputs", "outputs"):
        yield from ("", side)
        yield from [f"  {to_one_line(t['name'])}: {t['type']}{t['shape']}" for t in facts[side]] or ["  none"]
    yield from ("", "operations")
    rows = [(f"  {operation}", str(count)) for operation, count in facts["operations"].items()]
    yield from format_columns(rows).split("\n") if rows else ["  none"]
    weights = facts["weights"]
    yield ""
    yield f"weights: {format_bytes(weights['bytes'])} in {format_count(weights['constants'], 'constant')}"
    if weights["types"]:
        yield "  " + ", ".join(f"{count} {element_type}" for element_type, count in weights["types"].items())
    for title, key in PROBLEMS.items():
        if facts[key]:
            yield from ("", title)
            yield from (f"  {to_one_line(line)}" for line in facts[key])


def _collect_facts(model: Model, findings: Sequence[object]) -> dict[str, Any]:
    from irrun.ops._support import registry
    from irrun.runtime.lowering import find_unsupported

    operations: Counter[str] = Counter()
    types: Counter[str] = Counter()
    unknown: Counter[str] = Counter()
    size = 0
    for _, layer in model.graph.walk():
        operation = registry.find(layer.type, layer.version)
        if operation is None:
            operations[f"{layer.type} ({layer.version})"] += 1
            continue
        operations[str(operation)] += 1
        if layer.is_constant:
            types[str(layer.outputs[0].element_type)] += 1
            size += _get_size(layer, not len(model.weights))
        unknown.update(f"{operation} {name}" for name in operation.find_unknown(layer.attributes))
    return {
        "name": model.name,
        "ir_version": model.source_version,
        "layers": sum(operations.values()),
        "inputs": [_describe_tensor_spec(t) for t in model.inputs],
        "outputs": [_describe_tensor_spec(t) for t in model.outputs],
        "operations": dict(sorted(operations.items(), key=lambda pair: (-pair[1], pair[0]))),
        "weights": {
            "file_bytes": len(model.weights),
            "bytes": size,
            "constants": sum(types.values()),
            "types": dict(types),
        },
        "unsupported": [
            f"{name}: {format_count(len(layers), 'layer')}" for name, layers in find_unsupported(model).items()
        ],
        "unknown_attributes": [f"{name} ({count})" for name, count in sorted(unknown.items())],
        "findings": [str(f) for f in findings],
    }


def _get_size(layer: Layer, is_in_memory: bool) -> int:
    """Return the size of a Constant in the .bin file, or in memory if the model has none."""
    constant = layer.constant
    return 0 if constant is None or (constant.offset is None and not is_in_memory) else constant.size


def _describe_tensor_spec(tensor: TensorSpec) -> dict[str, Any]:
    return {
        "name": tensor.names[0] if tensor.names else "",
        "names": list(tensor.names),
        "type": str(tensor.element_type or "any"),
        "shape": "[...]" if tensor.partial_shape is None else str(tensor.partial_shape),
    }
