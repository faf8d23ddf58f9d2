"""`irrun trace`: record the values of a run."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from irrun.cli import ExampleCommand
from irrun.cli.inputs import model_argument, parse_size
from irrun.cli.numbers import IntegerRange
from irrun.cli.options import RunOptions, run_options

if TYPE_CHECKING:
    from irrun.inspection.trace import Trace, TracedValue

__all__ = ["command"]

#: Sort orders of the table -> their sort keys.
SORT_KEYS = ("order", "time", "size", "max", "name")


@click.command(
    "trace",
    cls=ExampleCommand,
    examples=[
        "irrun trace model.xml --input x.npy -o run.trace",
        "irrun trace model.xml --input x.npy --layers 'encoder.layer.3*' --sort time --top 20",
        "irrun trace run.trace --type MatMul",
    ],
)
@model_argument
@run_options(is_plain=True)
@click.option("-o", "--output", type=click.Path(path_type=Path), metavar="FILE", help="The .trace file to write.")
@click.option("--layers", multiple=True, metavar="GLOB", help="Record these layers or values, such as 'loop[*]/lstm'.")
@click.option("--type", "types", multiple=True, metavar="TYPE", help="Record layers of this type.")
@click.option("--module", "modules", multiple=True, metavar="PREFIX", help="Record layers with this key prefix.")
@click.option("--max-bytes", metavar="SIZE", help="Beyond this size (800M, 2G), record statistics only.")
@click.option("--sort", type=click.Choice(SORT_KEYS), default="order", show_default=True, help="Order of the table.")
@click.option("--top", type=IntegerRange(min=1), metavar="N", help="Print the first N rows only.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def command(
    model: Path,
    options: RunOptions,
    output: Path | None,
    layers: tuple[str, ...],
    types: tuple[str, ...],
    modules: tuple[str, ...],
    max_bytes: str | None,
    sort: str,
    top: int | None,
    as_json: bool,
) -> None:
    """Run MODEL and record the outputs of its layers, in bodies too, or print the .trace file MODEL."""
    from irrun.cli.progress import ProgressLine
    from irrun.errors import escape_unprintable
    from irrun.inspection.recording import record
    from irrun.inspection.trace import Trace

    limit = parse_size(max_bytes, "--max-bytes", accepts_zero=True)
    if model.suffix.lower() == ".trace":
        with Trace.open(model) as trace:
            print_trace(trace, layers, types, modules, sort, top, as_json)
        return
    progress = ProgressLine(model.name)
    source = options.read_model(model)
    compiled = options.compile(source, optimize=False)
    arrays = options.load_inputs(source)
    if output is None:
        limit = 0  # the table requires statistics only
    with progress:
        trace = record(
            compiled,
            arrays,
            output,
            layers=layers,
            types=types,
            modules=modules,
            max_bytes=limit,
            timeout=options.timeout,
        )
    with trace:
        print_trace(trace, (), (), (), sort, top, as_json)
        if output is not None and not as_json:
            size = output.stat().st_size
            from irrun.cli.show import format_bytes

            click.echo(escape_unprintable(f"wrote {output} ({len(trace)} values, {format_bytes(size)})"))


def print_trace(
    trace: Trace,
    layers: Sequence[str],
    types: Sequence[str],
    modules: Sequence[str],
    sort: str,
    top: int | None,
    as_json: bool,
) -> None:
    """Print a trace as a table or as JSON.

    Args:
        trace: The trace.
        layers: Globs for the layers to print.
        types: Types of the layers to print.
        modules: Prefixes of the keys of the layers to print.
        sort: The order: one of `SORT_KEYS`.
        top: The number of rows; None for all.
        as_json: Whether to print JSON.

    Raises:
        InputError: No recorded value satisfies the conditions.
    """
    from irrun.cli.tables import format_seconds, print_table
    from irrun.errors import InputError
    from irrun.inspection.keys import Selection
    from irrun.ir.graph import Layer, Port

    selection = Selection(layers, types, modules)
    values = []
    for value in trace.entries.values():
        layer = Layer(0, "", value.layer_type, outputs=[Port(i) for i in range(value.port + 1)])
        if value.is_selected and value.port in selection.select_ports(layer, value.layer):
            values.append(value)
    conditions = [*layers, *(f"--type {name}" for name in types), *(f"--module {name}" for name in modules)]
    if conditions and not values:
        raise InputError(f"no recorded value matches {', '.join(conditions)}")
    values = sort_values(values, sort)[:top]
    if as_json:
        entries = [value.to_json() for value in values]
        click.echo(json.dumps({**trace.index, "values": entries}))
        return
    header = ("layer", "operation", "type", "shape", "time", "range", "mean", "remarks")
    rows = [
        (
            value.key,
            value.layer_type,
            value.type,
            f"[{','.join(map(str, value.shape))}]",
            format_seconds(value.seconds),
            _format_range(value.statistics),
            _format_number(value.statistics.get("mean")),
            _format_remarks(value),
        )
        for value in values
    ]
    print_table(header, rows, right=("time",), texts=("remarks",))


def sort_values(values: Sequence[TracedValue], sort: str) -> list[TracedValue]:
    """Return values in sorted order.

    Args:
        values: The values in the order of execution.
        sort: One of `SORT_KEYS`.
    """
    import math

    def get_largest(value: TracedValue) -> float:
        bounds = [value.statistics.get(name) for name in ("min", "max")]
        return max((abs(bound) for bound in bounds if bound is not None), default=0.0)

    keys: dict[str, Any] = {
        "time": lambda value: -value.seconds,
        "size": lambda value: -math.prod(value.shape),
        "max": lambda value: -get_largest(value),
        "name": lambda value: value.key,
    }
    return sorted(values, key=keys[sort]) if sort in keys else list(values)


def _format_range(statistics: Any) -> str:
    if statistics.get("min") is None:
        return ""
    return f"{_format_number(statistics['min'])} to {_format_number(statistics['max'])}"


def _format_number(number: float | None) -> str:
    from irrun.formatting import format_number

    return "" if number is None else format_number(number)


def _format_remarks(value: TracedValue) -> str:
    names = {"nans": "NaN", "infinities": "inf"}
    return ", ".join(f"{value.statistics[key]} {name}" for key, name in names.items() if value.statistics.get(key))
