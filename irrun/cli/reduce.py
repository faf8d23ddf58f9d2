"""`irrun reduce`: find the smallest part of a model that still fails."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import click

from irrun.cli import ExampleCommand
from irrun.cli.inputs import model_argument
from irrun.cli.numbers import IntegerRange
from irrun.cli.options import RunOptions, against_option, run_options

if TYPE_CHECKING:
    from irrun.cli.progress import ProgressLine
    from irrun.inspection.reduction_search import Progress

__all__ = ["command"]


@click.command(
    "reduce",
    cls=ExampleCommand,
    examples=[
        "irrun reduce model.xml --input x.npy --against openvino -o part/",
        "irrun reduce int8.xml --input x.npy --against fp32.xml --fails 'sqnr<20' -o part/",
        "irrun reduce model.xml --input x.npy --fails nan -o part/",
        "irrun reduce model.xml --input x.npy --fails error -o part/",
        "irrun reduce model.xml --input x.npy --test 'python check.py {model} {inputs}' -o part/",
    ],
)
@model_argument
@run_options(is_plain=True)
@against_option(accepts_values=False)
@click.option(
    "--fails",
    metavar="CONDITION",
    help="Condition for failure: nan, inf, error, or a comparison with a number. For differences: sqnr, max_abs, "
    "max_rel, rms, cosine, ulps; for values: abs, min, max, mean, std. Alternatives are separated by 'or'.  [default "
    "with --against: sqnr<60; sqnr<120 for another .xml of the same precision]",
)
@click.option(
    "--test",
    metavar="COMMAND",
    help="A command that fails (exit code other than 0 and 125) if a part fails. {model}, {inputs} and {folder} "
    "are replaced by paths.",
)
@click.option(
    "-o", "--output", type=click.Path(path_type=Path, file_okay=False), metavar="FOLDER", help="Write to this folder."
)
@click.option("--max-trials", type=IntegerRange(min=1), metavar="N", help="Test at most N parts.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def command(
    model: Path,
    options: RunOptions,
    against: str | None,
    fails: str | None,
    test: str | None,
    output: Path | None,
    max_trials: int | None,
    as_json: bool,
) -> None:
    """Find the smallest part of MODEL that still fails and write it to a folder.

    The values of a run become the inputs of the parts. If only one layer with a body is left, the search continues in
    the body. The folder contains model.xml, model.bin, inputs.npz, reference.xml (the same part of another model), and
    repro.py, which runs the part and exits with 1 if it fails.

    The exit code is 0 if the model was reduced, 1 if it does not fail, and 2 after an error.
    """
    from irrun.atomic_files import check_not_overwriting
    from irrun.cli.progress import ProgressLine
    from irrun.errors import to_one_line
    from irrun.inspection.reduction import reduce
    from irrun.inspection.reproduction import PART_FILES

    if output is not None:  # before the search, which may be long
        check_not_overwriting(output / name for name in PART_FILES)
    line = ProgressLine(model.name)
    source = options.read_model(model)
    arrays = options.load_inputs(source)
    with line:
        result = reduce(
            source,
            arrays,
            against=None if against is None else options.read_reference(against, source),
            fails=fails,
            test=test,
            max_trials=max_trials,
            progress=_show_trials(line),
            settings=options.settings,
        )
    if result is None:
        if as_json:
            click.echo(json.dumps({"fails": False}))
        else:
            click.echo(to_one_line(f"{model} does not fail"))
        raise click.exceptions.Exit(1)
    written = [str(path) for path in result.save(output)] if output is not None else []
    if as_json:
        click.echo(json.dumps({"fails": True, **result.to_json(), "written": written}))
        return
    count = len(result.layers)
    noun = "layer" if count == 1 else "layers"
    click.echo(
        to_one_line(f"{model}: {result.layers_total} layers reduced to {count} {noun} in {result.trials} trials")
    )
    for key in result.layers:
        click.echo(to_one_line(f"  {key}"))
    click.echo(to_one_line(result.message))
    for path in written:
        click.echo(to_one_line(f"wrote {path}"))


def _show_trials(line: ProgressLine) -> Progress:
    """Return a function that shows the state of a search."""

    def update(remaining: int, total: int, trials: int) -> None:
        line.update(f"{remaining} left, {trials} trials", max(total - remaining, 0), total, "layers removed")

    return update
