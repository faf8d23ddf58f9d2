"""`irrun bench`: measure how long a model takes to start and to run."""

from __future__ import annotations

import sys
import textwrap
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from irrun.cli import ExampleCommand
from irrun.cli.inputs import model_argument
from irrun.cli.numbers import IntegerRange, NumberRange
from irrun.cli.options import RunOptions, run_options
from irrun.formatting import format_count

if TYPE_CHECKING:
    from irrun.inspection.bench_results import Bench, KernelState

__all__ = ["command"]

#: Line width in files and pipes.
WIDTH = 80
#: Maximum number of inputs listed.
MAX_INPUTS = 3
#: If the 90th percentile exceeds the minimum by this factor, something else probably used the processor.
MAX_VARIATION = 2

#: Titles of the rows.
TITLES = {
    "read_seconds": "read model",
    "compile_seconds": "compile model",
    "first_seconds": "first inference",
    "median_seconds": "latency: median",
    "average_seconds": "average",
    "min_seconds": "minimum",
    "p90_seconds": "90 % within",
    "p99_seconds": "99 % within",
    "max_seconds": "maximum",
    "throughput": "throughput",
    "peak_bytes": "memory growth",
}


@click.command(
    "bench",
    cls=ExampleCommand,
    examples=[
        "irrun bench model.xml",
        "irrun bench model.xml --input x.npy --runs 100 --threads 2",
        "irrun bench model.xml --against openvino --seconds 10",
        "irrun bench model.xml --shape 8,3,224,224 --requests 4 --json",
    ],
)
@model_argument
@run_options()
@click.option("--runs", type=IntegerRange(min=1), metavar="N", help="Measure this many runs, after a warm-up.")
@click.option(
    "--seconds",
    type=NumberRange(min=0, min_open=True),
    metavar="S",
    help="Measure for this many seconds. With --runs, stop at whichever comes first.  [default: 5, without --runs]",
)
@click.option(
    "--requests",
    type=IntegerRange(1, 1024),
    default=1,
    show_default=True,
    metavar="N",
    help="Run N requests concurrently; they share the threads.",
)
@click.option(
    "--against", type=click.Choice(["openvino"]), help="Also measure OpenVINO, with the same number of threads, in f32."
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def command(
    model: Path,
    options: RunOptions,
    runs: int | None,
    seconds: float | None,
    requests: int,
    against: str | None,
    as_json: bool,
) -> None:
    """Measure how long MODEL takes to start and to run.

    Latency is measured for single runs, after a warm-up and after kernels are compiled; throughput counts the runs of
    all requests. The model file is already in the system's cache. Memory growth is the peak growth of the process from
    before reading the model until the end of the warm-up. Without --input, inputs are random.

    With --against openvino, irrun and OpenVINO take turns in the same process. The ratio is irrun's value
    divided by OpenVINO's: below 1, irrun takes less time or memory, or has less throughput.
    """
    from irrun.cli.progress import ProgressLine
    from irrun.inspection.benchmark import bench

    progress = ProgressLine(model.name)
    source = options.read_model(model)
    if not options.inputs.specs:
        options = replace(options, inputs=replace(options.inputs, specs=("random",) * len(source.inputs)))
    arrays = options.load_inputs(source)
    with progress:
        result = bench(
            source,
            arrays,
            runs=runs,
            seconds=seconds,
            requests=requests,
            against=against,
            progress=progress.update,
            settings=options.settings,
        )
    if as_json:
        click.echo(result.to_json())
    else:
        _print_bench(result, all(map(_is_random, options.inputs.specs)))


def _print_bench(result: Bench, is_random: bool) -> None:
    from irrun.cli.tables import print_lines, print_table
    from irrun.errors import to_one_line

    lines = [to_one_line(line) for line in _describe(result, is_random)]
    if not sys.stdout.isatty():
        lines = [part for line in lines for part in textwrap.wrap(line, WIDTH, subsequent_indent="  ")]
    print_lines(lines)
    click.echo("")
    header = ["", "irrun", *(["OpenVINO", "irrun/OpenVINO"] if result.openvino else [])]
    print_table(header, [row[: len(header)] for row in _make_rows(result)], header[1:])


def _describe(result: Bench, is_random: bool) -> Iterator[str]:
    """Yield sentences that describe the measurement."""
    own, other = result.irrun, result.openvino
    requests = format_count(result.requests, "request")
    if result.requests > 1:
        requests += f" with {format_count(result.threads_per_request, 'thread')} each"
    yield f"{result.model}: {format_count(result.threads, 'thread')}, {requests}, precision {result.precision}"
    inputs = [f"{name} {described}" for name, described in result.inputs.items()]
    more = f" and {len(inputs) - MAX_INPUTS} more" if len(inputs) > MAX_INPUTS else ""
    if inputs:
        yield f"inputs: {', '.join(inputs[:MAX_INPUTS])}{more}{', random values' * is_random}"
    yield f"kernels: {_describe_kernels(result.kernels)}"
    warm_up = f"{result.warm_up_runs} warm-up runs{' of each request' * (result.requests > 1)}"
    yield f"measured: {format_count(own.runs, 'run')} in {own.seconds:.3g} s, after {warm_up}"
    if other is not None:
        version = other.version.partition("-")[0]
        runs = format_count(other.runs, "run")
        yield f"OpenVINO {version}: {runs} in {other.seconds:.3g} s, in f32, alternating with irrun"
    if result.process_peak is not None:
        yield f"peak memory of the process with irrun alone: {_format_size(result.process_peak)}"
    for engine in (own, other):
        if engine is not None and engine.get_percentile(90) > MAX_VARIATION * engine.get_percentile(0):
            yield "times vary between runs: other programs may be using the processor"
            return


def _is_random(spec: str) -> bool:
    return spec.rpartition("=")[2].startswith("random")


def _describe_kernels(kernels: KernelState) -> str:
    """Return which kernels the measured runs used."""
    from irrun.runtime.compilation import is_installed

    counts = ", ".join(f"{count} {kind}" for kind, count in kernels.counts.items())
    state = f"{counts} (--jit {kernels.jit})"
    if kernels.compile_seconds is not None:
        state += f"; they were compiled before the measured runs, in {kernels.compile_seconds:.3g} s"
    elif kernels.jit == "auto" and not is_installed():
        state += "; llvmlite is not installed: pip install 'irrun[jit]'"
    return state


def _make_rows(result: Bench) -> Iterator[tuple[str, str, str, str]]:
    """Yield the title, the values of irrun and OpenVINO and their ratio."""
    for row in result.list_rows():
        ratio = "" if row.ratio is None else f"{row.ratio:.2f}" if row.ratio < 10 else f"{row.ratio:.0f}"
        yield TITLES[row.key], _format(row.key, row.irrun), _format(row.key, row.openvino), ratio
        if row.key == "compile_seconds" and result.kernels.compile_seconds is not None:
            yield "compile kernels", _format(row.key, result.kernels.compile_seconds), "", ""


def _format(key: str, value: float | None) -> str:
    """Return a value with its unit; "-" if it is unknown."""
    if value is None:
        return "-"
    if key == "peak_bytes":
        return _format_size(int(value))
    if key == "throughput":
        return f"{_format_number(value)} runs/s"
    return f"{_format_number(value * 1000)} ms"


def _format_number(value: float) -> str:
    """Return a number with four significant digits, or all digits of its whole part."""
    return f"{value:.0f}" if value >= 1000 else f"{value:.4g}"


def _format_size(size: int) -> str:
    from irrun.limits import format_size

    return format_size(size)
