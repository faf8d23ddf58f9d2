"""`irrun validate`: every finding of schema and structure, with its line."""

from __future__ import annotations

import json
from pathlib import Path

import click

__all__ = ["command"]


@click.command("validate")
@click.argument("model", type=click.Path(path_type=Path))
@click.option("-w", "--weights", type=click.Path(path_type=Path), help="The .bin, if not beside the model.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def command(model: Path, weights: Path | None, as_json: bool) -> None:
    """Check MODEL against the schema of its IR version, its edges, port maps and constants.

    Prints every finding with its line; exits 1 if there is one, 2 if the file cannot be read at all.
    """
    from irrun.errors import to_one_line, escape_unprintable
    from irrun.ir.schema import validate

    findings = validate(model, weights)
    if as_json:
        click.echo(json.dumps([f._asdict() for f in findings]))
    else:
        name = escape_unprintable(str(model))
        for finding in findings:
            where = f"{name}:{finding.line}" if finding.line else name
            found = f"{finding.layer}: {finding.message}" if finding.layer else finding.message
            click.echo(f"{where}: {to_one_line(found)}")
        if not findings:
            click.echo(f"{name}: nothing found")
    if findings:
        raise click.exceptions.Exit(1)
