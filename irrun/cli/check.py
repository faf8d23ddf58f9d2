"""`irrun check`: run a model and check the values of all layers."""

from __future__ import annotations

import json
from pathlib import Path

import click

from irrun.cli import ExampleCommand
from irrun.cli.inputs import model_argument
from irrun.cli.options import RunOptions, run_options

__all__ = ["command"]


@click.command(
    "check",
    cls=ExampleCommand,
    examples=[
        "irrun check model.xml --input x.npy",
        "irrun check model.xml --input a.jpg --input b.jpg --as f16",
    ],
)
@model_argument
@run_options(is_plain=True)
@click.option("--as", "target_type", type=click.Choice(["f16", "bf16"]), help="Also report overflow in this type.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def command(
    model: Path,
    options: RunOptions,
    target_type: str | None,
    as_json: bool,
) -> None:
    """Run MODEL and check the values of all layers.

    Errors: NaN and infinities, with the first layer that produces them; overflow in the type of --as; indices out of
    range, for which Gather returns zeros; wrong declared types and shapes. Notes: NaN values that disappear, values
    that become 0, denormal values, indices that OneHot ignores, FakeQuantize layers that clip, and channels that are
    zero or constant over all inputs. Repeat an input to run the model again. The exit code is 1 if there are errors.
    """
    from irrun.cli.progress import ProgressLine
    from irrun.cli.tables import print_lines, print_table
    from irrun.errors import to_one_line
    from irrun.inspection.checks import check

    progress = ProgressLine(model.name)
    source = options.read_model(model)
    compiled = options.compile(source, optimize=False)
    sets = options.load_input_sets(source)
    with progress:
        report = check(compiled, input_sets=sets, target_type=target_type, timeout=options.timeout)
    if as_json:
        click.echo(json.dumps(report.to_json()))
    elif not report.findings:
        click.echo(to_one_line(f"{model}: no findings"))
    else:
        first = report.first
        if first is not None:
            print_lines([to_one_line(f"first error: {first.key} ({first.type}): {first.message}")])
            click.echo("")
        rows = [(f.key, f.type, f.level, f.kind, f.message) for f in report.findings]
        print_table(("layer", "type", "level", "kind", "finding"), rows, texts=("finding",))
    if not report.passed:
        raise click.exceptions.Exit(1)
