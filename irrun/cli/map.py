"""`irrun map`: run a model over many inputs."""

from __future__ import annotations

from collections import deque
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING

import click

from irrun.cli import ExampleCommand
from irrun.cli.imports import import_and_pass_option
from irrun.cli.inputs import complete_files, image_options, model_argument, parse_numbers, parse_size, precision_option

if TYPE_CHECKING:
    from irrun.cli.progress import ProgressLine
    from irrun.distributed import Progress

__all__ = ["command"]

#: Seconds over which the speed is measured.
WINDOW = 30.0


@click.command(
    "map",
    cls=ExampleCommand,
    examples=[
        "irrun map model.xml photos/ -o results.zarr",
        "irrun map model.xml 'photos/**/*.jpg' -o results.zarr --batch 8 --on-error skip",
        "irrun map bert.xml ids=ids.npy mask=mask.npy -o results.zarr --scheduler tcp://host:8786",
    ],
)
@model_argument
@click.argument("inputs", nargs=-1, required=True, metavar="[NAME=]INPUTS...", shell_complete=complete_files)
@click.option("-o", "--output", required=True, type=click.Path(path_type=Path), help="The Zarr group of the results.")
@click.option("-w", "--weights", type=click.Path(), help="The .bin file, if not next to the model.")
@click.option("--batch", type=click.IntRange(min=1), default=1, show_default=True, help="Samples per run of the model.")
@click.option("--scheduler", metavar="ADDRESS", help="A Dask scheduler.  [default: one process per core]")
@click.option("--workers", type=click.IntRange(min=1), help="Processes on this machine.  [default: the cores]")
@click.option(
    "--on-error",
    type=click.Choice(["stop", "skip"]),
    default="stop",
    show_default=True,
    help="Whether a broken input ends the run, or is recorded and skipped.",
)
@precision_option
@click.option("--memory", metavar="SIZE", help="Memory that the values of one run may take, such as 800M or 2G.")
@import_and_pass_option
@image_options
def command(
    model: Path,
    inputs: tuple[str, ...],
    output: Path,
    weights: str | None,
    batch: int,
    scheduler: str | None,
    workers: int | None,
    on_error: str,
    precision: str,
    memory: str | None,
    files: tuple[Path, ...],
    layout: str,
    channels: str,
    mean: str | None,
    scale: str | None,
) -> None:
    """Run MODEL over many inputs on Dask and write its outputs to a Zarr group.

    INPUTS is a folder or a pattern of images, .npy and .npz files, or an array (.npy, .zarr) whose first axis counts
    samples. A run that was stopped continues where it was.
    """
    from irrun.cli.progress import ProgressLine
    from irrun.data.image import ImageOptions
    from irrun.distributed import MapOptions, map_inputs
    from irrun.errors import to_one_line

    image = ImageOptions(layout, channels, parse_numbers(mean, "--mean"), parse_numbers(scale, "--scale"))
    parse_size(memory, "--memory")
    options = MapOptions(
        batch,
        "skip" if on_error == "skip" else "stop",
        weights,
        memory,
        image=image,
        precision=precision,
        imports=tuple(map(str, files)),
    )
    with ProgressLine(model.name) as line:
        errors = map_inputs(
            model, inputs, output, options, scheduler=scheduler, workers=workers, progress=_show_inputs(line)
        )
    for name, message in errors.items():
        shown = message if message.startswith(name) else f"{name}: {message}"
        click.echo(f"skipped {to_one_line(shown)}", err=True)
    skipped = f", {len(errors)} input{' was' if len(errors) == 1 else 's were'} skipped" if errors else ""
    click.echo(f"wrote {output}{skipped}")
    if errors:
        raise click.exceptions.Exit(1)


def _show_inputs(line: ProgressLine) -> Progress:
    """Return a function that shows the number of inputs, how many of them take a second, and the time left."""
    from irrun.cli.progress import format_duration

    history: deque[tuple[float, int]] = deque()

    def update(finished: int, count: int) -> None:
        now = monotonic()
        history.append((now, finished))
        while history[0][0] < now - WINDOW and len(history) > 2:
            history.popleft()
        start, first = history[0]
        speed = (finished - first) / (now - start) if finished > first else 0.0
        left = f", {format_duration((count - finished) / speed)} left" if speed and finished < count else ""
        line.update(f"{speed:.1f}/s{left}" if speed else "", finished, count, "inputs")

    return update
