"""`irrun upgrade`: convert an older IR to IR v11."""

from __future__ import annotations

from pathlib import Path

import click

from irrun.cli import ExampleCommand
from irrun.cli.imports import import_option
from irrun.cli.inputs import ShapeOptions, model_argument, shape_options, weights_option

__all__ = ["command"]


@click.command(
    "upgrade",
    cls=ExampleCommand,
    examples=[
        "irrun upgrade old.xml -o new.xml",
    ],
)
@model_argument
@click.option("-o", "--output", type=click.Path(path_type=Path), required=True, help="The .xml file to write.")
@weights_option
@shape_options
@import_option
def command(model: Path, output: Path, weights: Path | None, shapes: ShapeOptions) -> None:
    """Convert MODEL, an IR of any version, to IR v11, which current OpenVINO releases read."""
    from irrun.cli.progress import ProgressLine
    from irrun.errors import escape_unprintable
    from irrun.ir.reader import read_model
    from irrun.ir.writer import save_model
    from irrun.runtime.lowering import make_unsupported_error

    with ProgressLine(model.name):
        source = read_model(model, weights)
        shapes.apply(source)
        error = make_unsupported_error(source)
        if error is not None:
            raise error
        xml, binary = save_model(source, output)
    click.echo(escape_unprintable(f"wrote {xml} (IR v11, from v{source.source_version}) and {binary}"))
