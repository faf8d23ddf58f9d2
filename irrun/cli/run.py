"""`irrun run`: the main job."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from irrun.ir.model import Layer
    from irrun.runtime.executor import Observer, Scope

__all__ = ["command"]


@click.command("run")
@click.argument("model", type=click.Path(path_type=Path))
@click.option(
    "-i",
    "--input",
    "inputs",
    multiple=True,
    metavar="[NAME=]VALUE",
    help="A .npy, .npz (file.npz:key), raw .bin, .json or picture; JSON text such as 'ids=[[1,2,3]]'; or random, "
    "zeros, ones (random:1,3,224,224 where the shape is open). Without NAME: the next input.",
)
@click.option("-o", "--output", metavar="PATH", help="Write the outputs to .npz, .npy or a folder.")
@click.option("-w", "--weights", type=click.Path(path_type=Path), help="The .bin, if not beside the model.")
@click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True, help="Of random inputs.")
@click.option("--layout", default="auto", show_default=True, metavar="NCHW|NHWC|...", help="Of picture inputs.")
@click.option(
    "--channels",
    type=click.Choice(["BGR", "RGB"], case_sensitive=False),
    metavar="BGR|RGB",
    default="BGR",
    show_default=True,
    help="Channel order of picture inputs.",
)
@click.option("--mean", metavar="M[,M,M]", help="Taken from the pixels (0 to 255) of pictures.")
@click.option("--scale", metavar="S[,S,S]", help="What they are divided by after that.")
@click.option(
    "--show",
    multiple=True,
    metavar="NAME",
    help="Add a value inside the model to the outputs, named by a tensor name, by the layer that makes it, or by "
    "layer.port.",
)
@click.option("--trace", is_flag=True, help="Show what each layer that runs computes, in bodies too.")
@click.option("--check", is_flag=True, help="Report declared types and shapes that are wrong; exit 1 if any is.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def command(
    model: Path,
    inputs: tuple[str, ...],
    output: str | None,
    weights: Path | None,
    seed: int,
    layout: str,
    channels: str,
    mean: str | None,
    scale: str | None,
    show: tuple[str, ...],
    trace: bool,
    check: bool,
    as_json: bool,
) -> None:
    """Run MODEL (an .xml of OpenVINO) on the inputs given, and show or save its outputs.

    \b
    irrun run model.xml --input x.npy
    irrun run model.xml --input ids='[[1,2,3]]' --input mask=m.npy -o out.npz
    irrun run detector.xml --input street.jpg --json
    irrun run model.xml --input x.npy --show conv1 --show relu1
    """
    import irrun
    from irrun.cli.progress import progress
    from irrun.cli.show import columns, describe, table
    from irrun.data.image import ImageOptions
    from irrun.data.load import LoadOptions, load_inputs
    from irrun.data.save import save_outputs
    from irrun.errors import to_one_line, escape_unprintable

    if output == "":
        raise click.BadParameter("it is empty, expected an .npz, an .npy or a folder", param_hint="--output")
    options = LoadOptions(seed, ImageOptions(layout, channels, _numbers(mean, "--mean"), _numbers(scale, "--scale")))
    found = irrun.read_model(model, weights)
    found.add_outputs(show)
    compiled = irrun.compile_model(found, check=check)
    request = compiled.create_infer_request()
    fed = load_inputs(inputs, compiled.inputs, options)
    traced: list[Any] = []
    try:
        with progress(model.name) as observers:
            if trace:
                observers = [*observers, _tracer(traced, as_json)]
            outputs = request.infer(fed, observers=observers).to_dict()
    finally:  # a run that fails shows how far it came
        if traced and not as_json:
            header = ("layer", "operation", "type", "shape", "range", "first values")
            click.echo(columns([header, *traced]) + "\n")
    written = save_outputs(outputs, output) if output else []
    if as_json:
        answer: dict[str, object] = {"outputs": [describe(name, value) for name, value in outputs.items()]}
        if trace:
            answer["trace"] = traced
        if written:
            answer["written"] = [str(path) for path in written]
        if check:
            answer["mismatches"] = [str(m) for m in request.mismatches]
        click.echo(json.dumps(answer))
    else:
        if not written:
            click.echo(table(outputs))
        for path in written:
            click.echo(f"wrote {escape_unprintable(str(path))}")
        for mismatch in request.mismatches:
            click.echo(f"declared otherwise: {to_one_line(str(mismatch))}")
    if request.mismatches:
        raise click.exceptions.Exit(1)


def _tracer(traced: list[Any], as_json: bool) -> Observer:
    """An observer that adds what every layer computes: a row, or a dictionary for JSON."""
    from irrun.cli.show import describe, summary

    def observe(layer: Layer, inputs: Sequence[Any], outputs: Sequence[Any], seconds: float, scope: Scope) -> None:
        inside = "".join(f"{owner.name}[{iteration}]/" for owner, iteration in scope)
        for i, value in enumerate(outputs):
            name = f"{inside}{layer.name}" + (f".{i}" if len(outputs) > 1 else "")
            if as_json:
                traced.append({**describe(name, value), "operation": layer.type})
            else:
                traced.append((name, layer.type, *summary(value)))

    return observe


def _numbers(text: str | None, option: str) -> tuple[float, ...]:
    try:
        numbers = tuple(float(part) for part in text.split(",")) if text else ()
    except ValueError:
        raise click.BadParameter(f"{text!r} is no list of numbers", param_hint=option) from None
    if not all(math.isfinite(n) and (n or option != "--scale") for n in numbers):
        raise click.BadParameter(f"{text!r} holds a number that is no {option[2:]}", param_hint=option)
    return numbers
