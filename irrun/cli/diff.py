"""`irrun diff`: compare two models without running them."""

from __future__ import annotations

import json
from pathlib import Path

import click

from irrun.cli import ExampleCommand
from irrun.cli.inputs import FilePath, model_argument

__all__ = ["command"]

#: Maximum number of layers printed without --all.
MAX_ROWS = 25


@click.command(
    "diff",
    cls=ExampleCommand,
    examples=["irrun diff model.xml other.xml", "irrun diff fp32.xml int8.xml --all --json"],
)
@model_argument
@click.argument("other", type=FilePath(".xml"))
@click.option("--all", "show_all", is_flag=True, help="Print all layers that differ.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def command(model: Path, other: Path, show_all: bool, as_json: bool) -> None:
    """Compare MODEL with OTHER without running them: layers, attributes, connections, shapes and constants.

    The exit code is 0 if nothing differs, 1 if something differs, and 2 after an error.
    """
    from irrun.cli.tables import print_lines
    from irrun.errors import to_one_line
    from irrun.inspection.differences import diff
    from irrun.ir.reader import read_model

    result = diff(read_model(model), read_model(other))
    if as_json:
        click.echo(json.dumps(result.to_json()))
    else:
        lines = [f"{layer.key} ({layer.type}): {'; '.join(layer.differences)}" for layer in result.layers]
        lines += [f"only in {model}: {key} ({kind})" for key, kind in result.added]
        lines += [f"only in {other}: {key} ({kind})" for key, kind in result.removed]
        omitted = 0 if show_all else max(0, len(lines) - MAX_ROWS)
        print_lines(map(to_one_line, lines[: len(lines) - omitted]))
        if omitted:
            click.echo(f"{omitted} more; --all prints them")
        counts = f"{len(result.layers)} differ, {len(result.added)} added, {len(result.removed)} removed"
        click.echo(f"{result.matched} layers matched: " + ("no difference" if result.is_equal else counts))
    if not result.is_equal:
        raise click.exceptions.Exit(1)
