"""`irrun profile`: measure the time of each layer."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from irrun.cli import ExampleCommand
from irrun.cli.inputs import model_argument
from irrun.cli.numbers import IntegerRange
from irrun.cli.options import RunOptions, run_options

if TYPE_CHECKING:
    from irrun.inspection.profile_table import Sort
    from irrun.inspection.profiling import Grouping, Profile

__all__ = ["command"]

#: Maximum number of rows without --all.
MAX_ROWS = 30


@click.command(
    "profile",
    cls=ExampleCommand,
    examples=[
        "irrun profile model.xml --input x.npy",
        "irrun profile model.xml --input random --by type",
        "irrun profile model.xml --input random --against openvino --threads 2",
        "irrun profile model.xml --input x.npy --chrome trace.json",
        "irrun profile model.xml --input x.npy --csv -o layers.csv",
    ],
)
@model_argument
@run_options()
@click.option(
    "--runs",
    type=IntegerRange(1, 100_000),
    default=10,
    show_default=True,
    help="Measure this many runs, after a warm-up.",
)
@click.option(
    "--by",
    type=click.Choice(["layer", "type", "module"]),
    default="layer",
    show_default=True,
    help="Sum up the rows of the table by layer, type or module.",
)
@click.option(
    "--depth",
    type=IntegerRange(min=1),
    metavar="N",
    help="With --by module, the number of nested modules per row.  [default: as many as 40 rows allow]",
)
@click.option(
    "--sort",
    type=click.Choice(["order", "time", "excess"]),
    help="Order of the rows; excess is the time above the lower bound.  [default: time]",
)
@click.option("--top", type=IntegerRange(min=1), metavar="N", help=f"Print the first N rows.  [default: {MAX_ROWS}]")
@click.option("--all", "show_all", is_flag=True, help="Print all rows.")
@click.option("--against", type=click.Choice(["openvino"]), help="Also show OpenVINO's time of each layer.")
@click.option("--plain", is_flag=True, help="Measure the plain kernels, which run when there are observers.")
@click.option(
    "--chrome",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="Write the calls of the last run as .json for Perfetto (ui.perfetto.dev) and speedscope.",
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.option("--csv", "as_csv", is_flag=True, help="Print CSV.")
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="Write JSON or CSV to this file.",
)
def command(
    model: Path,
    options: RunOptions,
    runs: int,
    by: Grouping,
    depth: int | None,
    sort: Sort | None,
    top: int | None,
    show_all: bool,
    against: str | None,
    plain: bool,
    chrome: Path | None,
    as_json: bool,
    as_csv: bool,
    output: Path | None,
) -> None:
    """Measure the time of each layer in a run of MODEL.

    The table shows, for each layer, the median time over several runs after a warm-up, its share, the number of
    arithmetic operations (two per multiply-add), the bytes read and written, the bytes of all values alive at that
    point, and the time beyond the minimum for these operations and bytes on this machine. Layers computed together
    share one row.

    Without --json and --csv, -o writes CSV if the file ends in .csv, else JSON.
    """
    from irrun.cli.progress import ProgressLine
    from irrun.errors import to_one_line
    from irrun.inspection.profiling import profile

    if as_json and as_csv:
        raise click.UsageError("--json and --csv cannot be combined")
    if depth is not None and by != "module":
        raise click.UsageError("--depth requires --by module")
    if output is not None and not (as_json or as_csv):
        as_csv = output.suffix.lower() == ".csv"
        as_json = not as_csv
    progress = ProgressLine(model.name)
    source = options.read_model(model)
    compiled = options.compile(source, optimize=not plain)
    arrays = options.load_inputs(source)
    with progress:
        result = profile(
            compiled, arrays, runs=runs, against=against, progress=progress.update, timeout=options.timeout
        )
    if chrome is not None:
        result.save_chrome(chrome)
    if as_json or as_csv:
        text = result.to_csv(by, depth) if as_csv else json.dumps(result.to_dict(by, depth), indent=1) + "\n"
        if output is None:
            click.echo(text, nl=False)
        else:
            _write(output, text)
    else:
        _print_profile(result, by, depth, sort or "time", None if show_all else (top or MAX_ROWS))
    for path in (output, chrome):
        if path is not None and not (output is None and (as_json or as_csv)):
            click.echo(to_one_line(f"wrote {path}"))


def _print_profile(result: Profile, by: Grouping, depth: int | None, sort: Sort, top: int | None) -> None:
    from irrun.cli.tables import print_lines, print_omitted, print_table
    from irrun.errors import to_one_line
    from irrun.inspection.profile_table import (
        describe_candidates,
        describe_profile,
        make_openvino_rows,
        make_profile_rows,
    )

    print_lines(map(to_one_line, describe_profile(result)))
    click.echo("")
    header, rows, right = make_profile_rows(result, by, depth, sort, top)
    names = () if by == "type" else header[:1]
    print_table(header, rows, right, names)
    omitted = len(result.group(by, depth)) - (top or sys.maxsize)
    if omitted > 0:
        print_omitted(omitted, "row")
    if result.openvino is not None:
        other = result.openvino
        click.echo("")
        line = (
            f"OpenVINO {other.version} in f32 with the same number of threads: "
            f"{other.seconds * 1000:.3f} ms per run with counters, {other.layer_seconds * 1000:.3f} ms in layers"
        )
        print_lines([to_one_line(line)])
        click.echo("")
        header, rows, right = make_openvino_rows(result, by, depth, sort, top)
        print_table(header, rows, right, names, texts=("kernel",))
        return
    candidates = describe_candidates(result)
    if candidates:
        click.echo("")
        click.echo("worth making faster:")
    print_lines(f"  {to_one_line(f'{name}: {text}')}" for name, text in candidates)


def _write(path: Path, text: str) -> None:
    from irrun.atomic_files import atomic_write
    from irrun.errors import InputError

    try:
        with atomic_write(path) as file:
            file.write(text.encode("utf-8", "surrogatepass"))
    except OSError as error:
        raise InputError(f"cannot write {path}: {error.strerror or error}") from None
