"""`irrun extract`: a part of a model as a model of its own."""

from __future__ import annotations

from pathlib import Path

import click

__all__ = ["command"]


@click.command("extract")
@click.argument("model", type=click.Path(path_type=Path))
@click.option("--inputs", "-i", multiple=True, metavar="NAME[,NAME]", help="Values that become inputs.")
@click.option("--outputs", multiple=True, metavar="NAME[,NAME]", help="Values that become outputs.")
@click.option("-o", "--output", type=click.Path(path_type=Path), required=True, help="The .xml to write.")
@click.option("-w", "--weights", type=click.Path(path_type=Path), help="The .bin, if not beside the model.")
def command(model: Path, inputs: tuple[str, ...], outputs: tuple[str, ...], output: Path, weights: Path | None) -> None:
    """Write the part of MODEL between some of its values as a model of its own, with its weights.

    A value is named by a tensor name, by the layer that makes it, or by layer.port.

    \b
    irrun extract model.xml --inputs conv1 --outputs fc1 -o part.xml
    """
    from irrun.cli import refuse_to_replace
    from irrun.errors import escape_unprintable
    from irrun.ir.extract import extract
    from irrun.ir.reader import read_model
    from irrun.ir.writer import save_model

    refuse_to_replace(model, weights, output)
    whole = read_model(model, weights)
    part = extract(whole, _names("--inputs", inputs, whole), _names("--outputs", outputs, whole))
    xml, binary = save_model(part, output)
    count = f"{len(part.graph.layers)} of {len(whole.graph.layers)} layers"
    click.echo(escape_unprintable(f"wrote {xml} ({count}) and {binary}"))


def _names(option: str, given: tuple[str, ...], model: object) -> list[str]:
    """Names separated by commas, unless a name holds the comma itself."""
    from irrun.ir.model import Model

    assert isinstance(model, Model)
    known = {n for layer in model.graph.layers for n in (layer.name, *(m for p in layer.outputs for m in p.names))}
    found: list[str] = []
    for text in given:
        if not text.strip(" ,") and text not in known:
            raise click.BadParameter(f"{text!r} names nothing", param_hint=option)
        found.extend([text] if text in known else [part.strip() for part in text.split(",") if part.strip()])
    return found
