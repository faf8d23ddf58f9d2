"""`irrun run`: run a model."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from irrun.cli import ExampleCommand

if TYPE_CHECKING:
    from irrun.ir.graph import Layer
    from irrun.runtime.executor import Observer, Scope

__all__ = ["command"]

TRACE_HEADER = ("layer", "operation", "type", "shape", "range", "first values")


@click.command(
    "run",
    cls=ExampleCommand,
    examples=[
        "irrun run model.xml --input x.npy",
        "irrun run model.xml --input ids='[[1,2,3]]' --input mask=m.npy -o out.npz",
        "irrun run detector.xml --input street.jpg --json",
        "irrun run model.xml --input x.npy --show conv1 --show relu1",
    ],
)
@click.argument("model", type=click.Path(path_type=Path))
@click.option(
    "-i",
    "--input",
    "inputs",
    multiple=True,
    metavar="[NAME=]VALUE",
    help="A .npy, .npz (file.npz:key), raw .bin, .json or image file; JSON text such as 'ids=[[1,2,3]]'; or random, "
    "zeros, ones (random:1,3,224,224 if the shape is dynamic). Without NAME: the next input.",
)
@click.option("-o", "--output", metavar="PATH", help="Save the outputs to an .npz file, an .npy file or a folder.")
@click.option("-w", "--weights", type=click.Path(path_type=Path), help="The .bin file, if not next to the model.")
@click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True, help="Seed for random inputs.")
@click.option("--layout", default="auto", show_default=True, metavar="NCHW|NHWC|...", help="Layout of image inputs.")
@click.option(
    "--channels",
    type=click.Choice(["BGR", "RGB"], case_sensitive=False),
    metavar="BGR|RGB",
    default="BGR",
    show_default=True,
    help="Channel order of image inputs.",
)
@click.option("--mean", metavar="M[,M,M]", help="Subtract this mean from image pixels (0 to 255).")
@click.option("--scale", metavar="S[,S,S]", help="Divide image pixels by this after subtracting the mean.")
@click.option(
    "--show",
    multiple=True,
    metavar="NAME",
    help="Add an intermediate value to the outputs: a tensor name, the name of the layer that produces it, or "
    "layer.port.",
)
@click.option("--trace", is_flag=True, help="Print the outputs of every executed layer, in bodies too.")
@click.option("--check", is_flag=True, help="Report wrong declared types and shapes; exit with 1 if there are any.")
@click.option("--timeout", type=click.FloatRange(min=0), metavar="SECONDS", help="End the run after this time.")
@click.option(
    "--memory",
    metavar="SIZE",
    help="Memory that the values of the run may take, such as 800M or 2G.  [default: what the machine has left]",
)
@click.option(
    "--weights-memory",
    metavar="SIZE",
    help="Memory that decompressed weights may take, such as 800M or 2G, or 0 to decompress them while the model "
    "runs.  [default: half of what the machine has left]",
)
@click.option(
    "--threads",
    type=click.IntRange(min=1),
    metavar="N",
    help="Number of threads.  [default: IRRUN_NUM_THREADS, or the number of cores]",
)
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
    timeout: float | None,
    memory: str | None,
    weights_memory: str | None,
    threads: int | None,
    as_json: bool,
) -> None:
    """Run MODEL, an OpenVINO .xml file, and print or save its outputs."""
    import irrun
    from irrun.cli.progress import show_progress
    from irrun.cli.show import format_columns
    from irrun.data.image import ImageOptions
    from irrun.data.load import LoadOptions, load_inputs
    from irrun.data.save import save_outputs

    if output == "":
        raise click.BadParameter("expected an .npz file, an .npy file or a folder, found ''", param_hint="--output")
    image_options = ImageOptions(layout, channels, _parse_numbers(mean, "--mean"), _parse_numbers(scale, "--scale"))
    source = irrun.read_model(model, weights)
    source.add_outputs(show)
    compiled = irrun.compile_model(
        source,
        check=check,
        memory=_parse_size(memory, "--memory"),
        weights_memory=0 if weights_memory == "0" else _parse_size(weights_memory, "--weights-memory"),
        threads=threads,
    )
    request = compiled.create_infer_request()
    arrays = load_inputs(inputs, compiled.inputs, LoadOptions(seed, image_options))
    traced: list[Any] = []
    try:
        with show_progress(model.name) as observers:
            if trace:
                observers = [*observers, _create_tracer(traced, as_json)]
            outputs = request.infer(arrays, observers=observers, timeout=timeout).to_dict()
    finally:  # the trace of a failed run ends at the layer that failed
        if traced and not as_json:
            click.echo(format_columns([TRACE_HEADER, *traced]) + "\n")
    written = save_outputs(outputs, output) if output else []
    mismatches = [str(m) for m in request.mismatches]
    if as_json:
        _print_json(outputs, written, traced if trace else None, mismatches if check else None)
    else:
        _print_text(outputs, written, mismatches)
    if mismatches:
        raise click.exceptions.Exit(1)


def _print_json(
    outputs: Mapping[str, Any], written: Sequence[Path], traced: list[Any] | None, mismatches: list[str] | None
) -> None:
    from irrun.cli.show import describe_tensor

    result: dict[str, object] = {"outputs": [describe_tensor(name, value) for name, value in outputs.items()]}
    if traced is not None:
        result["trace"] = traced
    if written:
        result["written"] = [str(path) for path in written]
    if mismatches is not None:
        result["mismatches"] = mismatches
    click.echo(json.dumps(result))


def _print_text(outputs: Mapping[str, Any], written: Sequence[Path], mismatches: Sequence[str]) -> None:
    from irrun.cli.show import format_tensors
    from irrun.errors import escape_unprintable, to_one_line

    if not written:
        click.echo(format_tensors(outputs))
    for path in written:
        click.echo(f"wrote {escape_unprintable(str(path))}")
    for mismatch in mismatches:
        click.echo(f"wrong declaration: {to_one_line(mismatch)}")


def _create_tracer(traced: list[Any], as_json: bool) -> Observer:
    """Return an observer that appends the outputs of every layer: table rows, or dictionaries for JSON."""
    from irrun.cli.show import describe_tensor, summarize_tensor

    def observe(layer: Layer, inputs: Sequence[Any], outputs: Sequence[Any], seconds: float, scope: Scope) -> None:
        prefix = "".join(f"{owner.name}[{iteration}]/" for owner, iteration in scope)
        for i, value in enumerate(outputs):
            name = f"{prefix}{layer.name}" + (f".{i}" if len(outputs) > 1 else "")
            if as_json:
                traced.append({**describe_tensor(name, value), "operation": layer.type})
            else:
                traced.append((name, layer.type, *summarize_tensor(value)))

    return observe


def _parse_numbers(text: str | None, option: str) -> tuple[float, ...]:
    try:
        numbers = tuple(float(part) for part in text.split(",")) if text else ()
    except ValueError:
        raise click.BadParameter(f"expected a list of numbers, found {text!r}", param_hint=option) from None
    if not all(math.isfinite(n) for n in numbers):
        raise click.BadParameter(f"expected finite numbers, found {text!r}", param_hint=option)
    if option == "--scale" and 0 in numbers:
        raise click.BadParameter(f"expected numbers other than 0, found {text!r}", param_hint=option)
    return numbers


def _parse_size(text: str | None, option: str) -> int | None:
    from irrun.limits import parse_size

    try:
        return None if text is None else parse_size(text)
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint=option) from None
