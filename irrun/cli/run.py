"""`irrun run`: run a model."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from irrun.cli import ExampleCommand
from irrun.cli.inputs import model_argument, output_option
from irrun.cli.options import RunOptions, run_options
from irrun.formatting import format_count

if TYPE_CHECKING:
    from irrun.inspection.keys import KeyTable, Selection
    from irrun.ir.graph import Layer
    from irrun.runtime.observer import Observer, Scope

__all__ = ["command"]

TRACE_HEADER = ("layer", "operation", "type", "shape", "time", "range", "first values")


class _RunCommand(ExampleCommand):
    """A command with an option `--trace` that may be followed by a glob."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        parsed: list[str] = []
        remaining = iter(args)
        for text in remaining:
            if text == "--trace":
                parsed.append(text)
                following = next(remaining, None)
                if following is None:
                    break
                is_glob = not following.startswith("-") and not following.lower().endswith(".xml")
                parsed += ["--trace-layers", following] if is_glob and not Path(following).exists() else [following]
            elif text.startswith("--trace="):
                parsed += ["--trace", "--trace-layers", text.removeprefix("--trace=")]
            else:
                parsed.append(text)
        return super().parse_args(ctx, parsed)


@click.command(
    "run",
    cls=_RunCommand,
    examples=[
        "irrun run model.xml --input x.npy",
        "irrun run model.xml --input ids='[[1,2,3]]' --input mask=m.npy -o out.npz",
        "irrun run detector.xml --input street.jpg --json",
        "irrun run model.xml --input random --shape 1,3,640,640",
        "irrun run model.xml --input x.npy --show conv1 --show 'loop[3]/*'",
        "irrun run model.xml --input x.npy --trace 'encoder.layer.3*'",
    ],
)
@model_argument
@run_options()
@output_option
@click.option("--dump", metavar="FOLDER", help="Write all values, in bodies too, to .npy files in a folder.")
@click.option(
    "--show",
    multiple=True,
    metavar="NAME",
    help="Add an intermediate value to the outputs. NAME is a tensor name, a layer name, or layer.port, or "
    "'loop[3]/layer' in the body of a loop; * and ? match any characters.",
)
@click.option(
    "--trace",
    is_flag=True,
    help="Print the outputs of every executed layer, in bodies too. A glob may follow, as in --trace 'conv*'.",
)
@click.option("--trace-layers", multiple=True, hidden=True)
@click.option(
    "--check",
    is_flag=True,
    help="Report wrong declared types and shapes, and indices out of range; exit with 1 if there are any.",
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def command(
    model: Path,
    options: RunOptions,
    output: str | None,
    dump: str | None,
    show: tuple[str, ...],
    trace: bool,
    trace_layers: tuple[str, ...],
    check: bool,
    as_json: bool,
) -> None:
    """Run MODEL, an OpenVINO .xml or .onnx file, and print or save its outputs."""
    from irrun.cli.dump import ValueDump
    from irrun.cli.patterns import UnmatchedPatterns, add_output
    from irrun.cli.progress import ProgressLine
    from irrun.cli.tables import print_table
    from irrun.data.save import save_outputs
    from irrun.errors import escape_unprintable
    from irrun.inspection.keys import KeyTable, Selection

    progress = ProgressLine(model.name)
    source = options.read_model(model)
    is_glob = {name: any(c in name for c in "*?") or "]/" in name for name in show}
    table = KeyTable(source)
    for name in show:
        if not is_glob[name]:
            add_output(source, name, table)
    weights_memory = options.settings.weights_memory
    if dump and weights_memory is None:
        weights_memory = 0  # so that all values are computed in the run
    compiled = options.compile(source, check=check, weights_memory=weights_memory)
    request = compiled.create_infer_request()
    arrays = options.load_inputs(source)
    traced: list[Any] = []
    checked: set[int] = set()
    shown: dict[str, Any] = {}
    table = KeyTable(source)  # with the new outputs
    tracer = _create_tracer(traced, table, Selection(trace_layers), as_json)
    viewer = _create_viewer(shown, table, Selection([name for name in show if is_glob[name]]))
    unmatched = UnmatchedPatterns([*trace_layers, *(name for name in show if is_glob[name])], table)
    value_dump = None if dump is None else ValueDump(Path(dump), table)
    if value_dump:
        value_dump.write_inputs(arrays)
    try:
        with progress:
            observers: list[Observer] = [value_dump] if value_dump else []
            observers += [_create_counter(checked)] if check else []
            observers += [*([tracer] if trace else []), *([viewer] if any(is_glob.values()) else [])]
            observers += [unmatched] if unmatched.patterns else []
            outputs = request.infer(arrays, observers=observers, timeout=options.timeout).to_dict()
    finally:  # the trace of a failed run ends at the layer that failed
        dumped = value_dump.finish() if value_dump else ""
        if traced and not as_json:
            print_table(TRACE_HEADER, traced, right=("time",))
            click.echo("")
    unmatched.check()
    outputs.update(shown)
    written = save_outputs(outputs, output) if output else []
    mismatches = [str(m) for m in request.mismatches]
    invalid = [str(indices) for indices in request.invalid_indices if not indices.is_intended]
    if as_json:
        checks = {"mismatches": mismatches, "invalid_indices": invalid} if check else {}
        _print_json(outputs, written, traced if trace else None, checks)
    else:
        _print_text(outputs, written, mismatches, invalid)
        if dumped:
            click.echo(escape_unprintable(dumped))
        if check:
            wrong = format_count(len(mismatches), "wrong declaration") if mismatches else "all as declared"
            indices = f", {format_count(len(invalid), 'layer')} with indices out of range" if invalid else ""
            click.echo(f"{format_count(len(checked), 'layer')} checked, {wrong}{indices}")
    if mismatches or invalid:
        raise click.exceptions.Exit(1)


def _print_json(
    outputs: Mapping[str, Any], written: Sequence[Path], traced: list[Any] | None, checks: Mapping[str, list[str]]
) -> None:
    from irrun.data.json_output import MAX_OUTPUT_ELEMENTS, describe_tensor

    described = [describe_tensor(name, value, MAX_OUTPUT_ELEMENTS) for name, value in outputs.items()]
    result: dict[str, object] = {"outputs": described}
    if traced is not None:
        result["trace"] = traced
    if written:
        result["written"] = [str(path) for path in written]
    result.update(checks)
    click.echo(json.dumps(result))


def _print_text(
    outputs: Mapping[str, Any], written: Sequence[Path], mismatches: Sequence[str], invalid: Sequence[str]
) -> None:
    from irrun.cli.show import print_tensors
    from irrun.errors import escape_unprintable, to_one_line

    if not written:
        print_tensors(outputs)
    for path in written:
        click.echo(f"wrote {escape_unprintable(str(path))}")
    for mismatch in mismatches:
        click.echo(f"wrong declaration: {to_one_line(mismatch)}")
    for indices in invalid:
        click.echo(f"indices out of range: {to_one_line(indices)}")


def _create_tracer(traced: list[Any], table: KeyTable, selection: Selection, as_json: bool) -> Observer:
    """Return an observer that appends the outputs of selected layers: table rows, or dictionaries for JSON."""
    from irrun.cli.show import describe_tensor, summarize_tensor
    from irrun.cli.tables import format_seconds

    selection.check(table)

    def observe(layer: Layer, inputs: Sequence[Any], outputs: Sequence[Any], seconds: float, scope: Scope) -> None:
        for i in selection.select_ports(layer, table.get_key(layer, scope))[: len(outputs)]:
            name = table.get_value_key(layer, i, scope)
            if as_json:
                traced.append({**describe_tensor(name, outputs[i]), "operation": layer.type, "seconds": seconds})
            else:
                kind, shape, *summary = summarize_tensor(outputs[i])
                traced.append((name, layer.type, kind, shape, format_seconds(seconds), *summary))

    return observe


def _create_counter(checked: set[int]) -> Observer:
    """Return an observer that collects the layers that were executed."""

    def observe(layer: Layer, inputs: Sequence[Any], outputs: Sequence[Any], seconds: float, scope: Scope) -> None:
        checked.add(id(layer))

    return observe


def _create_viewer(shown: dict[str, Any], table: KeyTable, selection: Selection) -> Observer:
    """Return an observer that collects the outputs of selected layers."""
    selection.check(table)

    def observe(layer: Layer, inputs: Sequence[Any], outputs: Sequence[Any], seconds: float, scope: Scope) -> None:
        for i in selection.select_ports(layer, table.get_key(layer, scope))[: len(outputs)]:
            shown[table.get_value_key(layer, i, scope)] = outputs[i].copy()

    return observe
