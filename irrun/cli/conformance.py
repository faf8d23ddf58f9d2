"""`irrun conformance`: compare OpenVINO's devices with irrun, operation by operation."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import click

from irrun.cli import ExampleCommand
from irrun.cli.numbers import IntegerRange, NumberRange

if TYPE_CHECKING:
    from irrun.conformance.survey import Finding, OperationResult, Survey

__all__ = ["command"]

#: Where findings are written if there is no page.
FOLDER = "conformance"


@click.command(
    "conformance",
    cls=ExampleCommand,
    examples=[
        "irrun conformance -o report.html",
        "irrun conformance --ops 'Gather*' --ops TopK-11",
        "irrun conformance --device reference --json",
    ],
)
@click.option(
    "--device",
    default="CPU",
    show_default=True,
    metavar="DEVICE",
    help="CPU, GPU, NPU or another OpenVINO device, computing in f32; or reference (Model.evaluate).",
)
@click.option("--ops", "patterns", multiple=True, metavar="GLOB", help="Run these operations only, such as Gather-8.")
@click.option("--cases", type=IntegerRange(min=1), metavar="N", help="Run at most N cases of each operation.")
@click.option("--seed", type=IntegerRange(min=0), default=0, show_default=True, help="Seed for the values.")
@click.option("-o", "--output", type=click.Path(path_type=Path), metavar="FILE", help="The page to write (.html).")
@click.option(
    "--models",
    "folder",
    type=click.Path(path_type=Path, file_okay=False),
    metavar="FOLDER",
    help=f"Folder for the smallest model and inputs of each finding.  [default: {FOLDER}, or the name of the "
    "page without .html]",
)
@click.option("--workers", type=IntegerRange(min=1), metavar="N", help="Number of processes.  [default: the cores]")
@click.option(
    "--timeout",
    type=NumberRange(min=0),
    default=60,
    show_default=True,
    metavar="SECONDS",
    help="Time limit of a case; a case that exceeds it counts as crashed.",
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def command(
    device: str,
    patterns: tuple[str, ...],
    cases: int | None,
    seed: int,
    output: Path | None,
    folder: Path | None,
    workers: int | None,
    timeout: float,
    as_json: bool,
) -> None:
    """Run cases of every operation on irrun and on a device of the installed OpenVINO, and compare the outputs.

    Cases run in separate processes, so that a crash or a hang does not end the command. For each operation,
    the command prints how many cases agree, differ, are refused by the device, and crash. For cases that differ or
    crash, it writes the smallest model and inputs, which `irrun compare` runs again.

    The exit code is 0 if no case differs or crashes, 1 if any does, and 2 after an error.
    """
    from irrun.cli.progress import ProgressLine
    from irrun.conformance.survey import run_survey

    if output is not None and output.suffix.lower() not in (".html", ".htm"):
        raise click.BadParameter(f"expected an .html file, found {output}", param_hint="--output")
    folder = folder or (Path(FOLDER) if output is None else output.with_suffix(""))
    with ProgressLine(f"conformance of {device}") as line:
        survey = run_survey(
            device,
            patterns,
            cases=cases,
            seed=seed,
            folder=folder,
            workers=workers,
            timeout=timeout,
            progress=lambda done, total: line.update("", done, total, "cases"),
        )
    if output is not None:
        _write_page(survey, output)
    if as_json:
        click.echo(json.dumps(survey.to_json()))
    else:
        _print_survey(survey, output)
    if survey.findings:
        raise click.exceptions.Exit(1)


def _write_page(survey: Survey, output: Path) -> None:
    from irrun.atomic_files import atomic_write
    from irrun.conformance.page import render_survey
    from irrun.errors import InputError

    try:
        with atomic_write(output) as file:
            file.write(render_survey(survey).encode())
    except OSError as error:
        raise InputError(f"cannot write {output}: {error.strerror or error}") from None


def _print_survey(survey: Survey, output: Path | None) -> None:
    from irrun.cli.tables import print_lines, print_table
    from irrun.errors import to_one_line

    rows = [_make_row(result) for result in survey.operations if result.counts["agree"] != result.counts.total()]
    titles = ("operation", "cases", "agree", "differ", "refused", "crashed", "finding")
    if rows:
        print_table(titles, rows, right=titles[1:6], texts=("finding",))
        click.echo("")
    counts = survey.counts
    lines = [
        f"{survey.device} of OpenVINO {survey.version}: {counts.total()} cases of {len(survey.operations)} operations: "
        f"{counts['agree']} agree, {counts['differ']} differ, {counts['refused']} are refused, "
        f"{counts['crashed']} crash"
    ]
    known = sum(bool(finding.fault) for finding in survey.findings)
    if survey.findings:
        lines.append(f"{len(survey.findings)} findings, {known} of them known faults of OpenVINO")
    commands = [finding.command for finding in survey.findings if finding.command]
    if commands:
        lines.append(f"for example: {commands[0]}")
    if output is not None:
        lines.append(f"wrote {output}")
    print_lines(map(to_one_line, lines))


def _make_row(result: OperationResult) -> tuple[str, ...]:
    counts = result.counts
    numbers = (counts.total(), counts["agree"], counts["differ"], counts["refused"], counts["crashed"])
    texts = [_describe(finding) for finding in result.findings]
    if not texts and result.refusals:
        texts = [f"refused: {next(iter(result.refusals))[:120]}"]
    return (result.operation, *map(str, numbers), "; ".join(texts))


def _describe(finding: Finding) -> str:
    return finding.title or finding.text
