"""`irrun extract`: extract a sub-model."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from irrun.cli import ExampleCommand
from irrun.cli.imports import import_option
from irrun.cli.inputs import ShapeOptions, model_argument, shape_options, weights_option

if TYPE_CHECKING:
    from irrun.ir.model import Model

__all__ = ["command"]


@click.command(
    "extract",
    cls=ExampleCommand,
    examples=[
        "irrun extract model.xml --inputs conv1 --outputs fc1 -o part.xml",
    ],
)
@model_argument
@click.option("--inputs", "-i", multiple=True, metavar="NAME[,NAME]", help="Values that become inputs.")
@click.option("--outputs", multiple=True, metavar="NAME[,NAME]", help="Values that become outputs.")
@click.option("-o", "--output", type=click.Path(path_type=Path), required=True, help="The .xml file to write.")
@weights_option
@shape_options
@import_option
def command(
    model: Path,
    inputs: tuple[str, ...],
    outputs: tuple[str, ...],
    output: Path,
    weights: Path | None,
    shapes: ShapeOptions,
) -> None:
    """Write the part of MODEL between two sets of values as a separate model with its weights.

    Name a value by its tensor name, by the layer that produces it, or as layer.port.
    """
    from irrun.cli.progress import ProgressLine
    from irrun.errors import escape_unprintable
    from irrun.ir.extract import extract
    from irrun.ir.reader import read_model
    from irrun.ir.writer import save_model

    with ProgressLine(model.name):
        whole = read_model(model, weights)
        shapes.apply(whole)
        part = extract(whole, _split_names("--inputs", inputs, whole), _split_names("--outputs", outputs, whole))
        xml, binary = save_model(part, output)
    count = f"{len(part.graph.layers)} of {len(whole.graph.layers)} layers"
    click.echo(escape_unprintable(f"wrote {xml} ({count}) and {binary}"))


def _split_names(option: str, texts: tuple[str, ...], model: Model) -> list[str]:
    """Split texts at commas, except where the whole text is the name of a value."""
    known = {n for layer in model.graph.layers for n in (layer.name, *(m for p in layer.outputs for m in p.names))}
    names: list[str] = []
    for text in texts:
        if not text.strip(" ,") and text not in known:
            raise click.BadParameter(f"{text!r} contains no names", param_hint=option)
        names.extend([text] if text in known else [part.strip() for part in text.split(",") if part.strip()])
    return names
