"""`irrun validate`: validate a model file and print every finding with its line."""

from __future__ import annotations

import json
from pathlib import Path

import click

from irrun.cli import ExampleCommand
from irrun.cli.imports import import_option
from irrun.cli.inputs import FilePath, model_argument

__all__ = ["command"]


@click.command(
    "validate",
    cls=ExampleCommand,
    examples=["irrun validate model.xml", "irrun validate model.xml --import my_ops.py"],
)
@model_argument
@click.option("-w", "--weights", type=FilePath(".bin"), help="The .bin file, if not next to the model.")
@import_option
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def command(model: Path, weights: Path | None, as_json: bool) -> None:
    """Check MODEL without running it.

    Checks the schema of its IR version, the edges and port maps, the constants, the operations, their attributes and
    inputs, and the declared types and shapes.

    Prints every finding with its line. The exit code is 1 if there are findings and 2 if the file cannot be read.
    """
    from irrun.cli.progress import ProgressLine
    from irrun.errors import escape_unprintable, to_one_line
    from irrun.runtime.validation import validate

    with ProgressLine(model.name):
        findings = validate(model, weights)
    if as_json:
        click.echo(json.dumps([f._asdict() for f in findings]))
    else:
        name = escape_unprintable(str(model))
        for finding in findings:
            location = f"{name}:{finding.line}" if finding.line else name
            message = f"{finding.layer}: {finding.message}" if finding.layer else finding.message
            click.echo(f"{location}: {to_one_line(message)}")
        if not findings:
            click.echo(f"{name}: no findings")
    if findings:
        raise click.exceptions.Exit(1)
