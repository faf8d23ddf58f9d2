"""`irrun report`: write an HTML page that shows a model and its values."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import click

from irrun.cli import ExampleCommand
from irrun.cli.inputs import FilePath, model_argument, parse_size
from irrun.cli.options import RunOptions, against_option, choose_reference, run_options

if TYPE_CHECKING:
    from irrun.inspection.report.data import Report
    from irrun.ir.model import Model

__all__ = ["command"]

#: Formats of a report.
FORMATS = ("html", "model-explorer")


@click.command(
    "report",
    cls=ExampleCommand,
    examples=[
        "irrun report model.xml --input photo.jpg -o report.html",
        "irrun report model.xml",
        "irrun report model.xml other.xml",
        "irrun report int8.xml --input x.npy --against fp32.xml -o report.html",
        "irrun report model.xml --input random --format model-explorer -o graph.json",
    ],
)
@model_argument
@click.argument("other", type=FilePath(".xml"), required=False)
@run_options()
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="The file to write.  [default: the name of the model, with .html or .json]",
)
@against_option("Show errors too.")
@click.option("--compare", "compared", metavar="WITH", hidden=True)
@click.option(
    "--tensors",
    metavar="SIZE",
    default="1200K",
    show_default=True,
    help="Limit for the compressed size of full values, which the page draws whole and offers for download.",
)
@click.option("--format", "kind", type=click.Choice(FORMATS), default=FORMATS[0], show_default=True, help="Format.")
def command(
    model: Path,
    other: Path | None,
    options: RunOptions,
    output: Path | None,
    against: str | None,
    compared: str | None,
    tensors: str,
    kind: str,
) -> None:
    """Write an HTML file that shows the graph of MODEL and, with --input, its values, times and errors.

    If OTHER is given, the page shows it next to MODEL, with their differences. With inputs, it compares their values.

    The file opens in any browser and loads nothing else. --format model-explorer writes the graph as JSON for
    Google's Model Explorer, with the numbers as node data next to it: graph.time_ms.json and others.

    If the run fails, the file contains the values before the failure, and the exit code is 2.
    """
    from irrun.cli.progress import ProgressLine
    from irrun.inspection.report.data import collect_report

    reference = choose_reference(against, compared, "--compare")
    progress = ProgressLine(model.name)
    notes: list[str] = []
    if options.inputs.specs or not (reference is None or reference.lower().endswith(".xml")):
        source = options.read_model(model)
    else:
        source = _read_structure(model, options, notes)
    output = output or Path(f"{model.stem}.html" if kind == "html" else f"{model.stem}.graph.json")
    beside = None if other is None else options.read_reference(str(other), source)
    compared_with = None if reference is None else options.read_reference(reference, source)
    if beside is None and not options.inputs.specs and not isinstance(compared_with, str):
        beside, compared_with = compared_with, None  # differences of the structure need no inputs
    arrays = options.load_inputs(source) if options.inputs.specs or compared_with is not None else None
    with progress:
        report = collect_report(
            source,
            arrays,
            against=compared_with,
            other=beside,
            channels=options.inputs.channels.upper(),
            tensor_bytes=parse_size(tensors, "--tensors", accepts_zero=True) or 0,
            settings=options.settings,
        )
    report.notes.extend(notes)
    if kind == "html":
        _write_page(report, output)
    else:
        _write_model_explorer(report, output)
    if report.error is not None:
        raise report.error


def _read_structure(path: Path, options: RunOptions, notes: list[str]) -> Model:
    """Read a model. If its weights are missing, add a note."""
    from irrun.ir.reader import read_findings
    from irrun.ir.structure import raise_findings

    source, findings = read_findings(path, options.weights)
    if source.inputs:  # otherwise the model runs
        missing = [finding for finding in findings if finding.message.startswith("the weights file ")]
        notes.extend(str(finding) for finding in missing)
        findings = [finding for finding in findings if finding not in missing]
    raise_findings(findings, source.path)
    options.shapes.apply(source)
    return source


def _write_page(report: Report, output: Path) -> None:
    from irrun.inspection.report.page import render_page

    page = render_page(report.to_json(), report.title)
    _write(output, page.encode())


def _write_model_explorer(report: Report, output: Path) -> None:
    from irrun.inspection.report.model_explorer import make_graphs, make_node_data

    _write(output, json.dumps(make_graphs(report), allow_nan=False).encode())
    stem = output.name.removesuffix(".json")
    for name, data in make_node_data(report).items():
        _write(output.with_name(f"{stem}.{name}.json"), json.dumps(data, allow_nan=False).encode())


def _write(path: Path, data: bytes) -> None:
    from irrun.atomic_files import atomic_write
    from irrun.cli.show import format_bytes
    from irrun.errors import InputError, escape_unprintable

    try:
        with atomic_write(path) as file:
            file.write(data)
    except OSError as error:
        raise InputError(f"cannot write {path}: {error.strerror or error}") from None
    click.echo(escape_unprintable(f"wrote {path} ({format_bytes(len(data))})"))
