"""`irrun map`: run a model over many inputs."""

from __future__ import annotations

import json
from collections import deque
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING

import click

from irrun.cli import ExampleCommand
from irrun.cli.imports import import_and_pass_option
from irrun.cli.inputs import (
    complete_files,
    image_options,
    model_argument,
    parse_numbers,
    shape_option,
    weights_option,
)
from irrun.cli.numbers import IntegerRange
from irrun.cli.options import setting_options
from irrun.formatting import format_count

if TYPE_CHECKING:
    from irrun.cli.progress import ProgressLine
    from irrun.distributed import MapResult, Progress
    from irrun.runtime.options import RunSettings

__all__ = ["command"]

#: Time window for measuring the speed, in seconds.
WINDOW = 30.0
#: Maximum number of failed inputs listed on stderr.
MAX_ERRORS = 20


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
@click.option(
    "--batch",
    type=IntegerRange(min=1),
    default=1,
    show_default=True,
    help="Samples per run. A model for one sample gets a dynamic batch.",
)
@click.option("--scheduler", metavar="ADDRESS", help="Use this Dask scheduler.  [default: processes on this machine]")
@click.option("--workers", type=IntegerRange(min=1), help="Processes on this machine.  [default: one per core]")
@click.option(
    "--on-error",
    type=click.Choice(["stop", "skip"]),
    default="stop",
    show_default=True,
    help="Stop at a broken input, or skip and record it.",
)
@click.option("--retry", is_flag=True, help="Retry inputs that an earlier run skipped.")
@weights_option
@image_options
@shape_option
@setting_options(
    jit_help="Whether workers use compiled kernels, for all rows alike, also when a run continues; auto: for "
    "200 rows or more.  [default: IRRUN_JIT, or auto]",
    threads_help="Number of threads of each worker.  [default: 1]",
    imports=import_and_pass_option,
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def command(
    model: Path,
    inputs: tuple[str, ...],
    output: Path,
    weights: Path | None,
    batch: int,
    scheduler: str | None,
    workers: int | None,
    on_error: str,
    retry: bool,
    shapes: tuple[str, ...],
    settings: RunSettings,
    files: tuple[Path, ...],
    layout: str,
    channels: str,
    mean: str | None,
    scale: str | None,
    as_json: bool,
) -> None:
    """Run MODEL over many inputs on Dask and write its outputs to a Zarr group.

    INPUTS is a folder or a glob pattern of images, .npy and .npz files, or an array (.npy, .zarr) with samples along
    its first axis. To resume a stopped run, repeat the command. The array rows/status records which rows are done; all
    other rows contain NaN, or the fill value of the array. The exit code is 1 if inputs were skipped.
    """
    from irrun.interrupts import delay_interrupts

    with delay_interrupts():
        from irrun.cli.progress import ProgressLine
        from irrun.data.image import ImageOptions
        from irrun.distributed import MapOptions, map_inputs

    image = ImageOptions(layout, channels, parse_numbers(mean, "--mean"), parse_numbers(scale, "--scale"))
    options = MapOptions(
        batch,
        "skip" if on_error == "skip" else "stop",
        None if weights is None else str(weights),
        settings.memory,
        image=image,
        precision=settings.precision,
        threads=settings.threads or 1,
        jit=settings.jit,
        imports=tuple(map(str, files)),
        weights_memory=settings.weights_memory,
        timeout=settings.timeout,
        shapes=shapes,
    )
    with ProgressLine(model.name) as line:
        progress = _show_inputs(line)
        result = map_inputs(
            model, inputs, output, options, scheduler=scheduler, workers=workers, retry=retry, progress=progress
        )
    if as_json:
        _print_json(result)
    else:
        _print_text(result)
    if result.errors:
        raise click.exceptions.Exit(1)


def _print_json(result: MapResult) -> None:
    arrays = [
        {"name": name, "type": array.dtype, "shape": [result.count, *array.shape], "fill": str(array.fill)}
        for name, array in result.arrays.items()
    ]
    described = {
        "output": str(result.output),
        "rows": result.count,
        "done": result.done,
        "skipped": result.skipped,
        "failed": result.failed,
        "computed": result.computed,
        "damaged": result.damaged,
        "jit": result.jit,
        "arrays": arrays,
        "errors": [error._asdict() for error in result.errors],
    }
    click.echo(json.dumps(described))


def _print_text(result: MapResult) -> None:
    from irrun.errors import to_one_line

    for error in result.errors[:MAX_ERRORS]:
        shown = error.message if error.message.startswith(error.name) else f"{error.name}: {error.message}"
        click.echo(to_one_line(f"{error.status}, row {error.row}: {shown}"), err=True)
    if len(result.errors) > MAX_ERRORS:
        click.echo(f"... and {len(result.errors) - MAX_ERRORS} more; rows/error lists all of them", err=True)
    if result.damaged:
        rows = f"{format_count(result.damaged, 'row')} of an earlier run {_be(result.damaged)} damaged"
        click.echo(f"{rows} and computed again")
    subject = f"wrote {result.output}," if result.computed else f"{result.output} already has"
    rows = (
        f"{result.done} of {format_count(result.count, 'row')}" if result.errors else format_count(result.count, "row")
    )
    states = [f"{n} {_be(n)} skipped" for n in (result.skipped,) if n] + [f"{n} failed" for n in (result.failed,) if n]
    hint = "; --retry retries them" if states else ""
    click.echo(to_one_line(", ".join([f"{subject} {rows}", *states]) + hint))


def _be(count: int) -> str:
    return "was" if count == 1 else "were"


def _show_inputs(line: ProgressLine) -> Progress:
    """Return a function that shows the number of finished inputs, the speed, and the time left."""
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
