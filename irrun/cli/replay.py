"""`irrun replay`: run one layer on its recorded inputs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import click

from irrun.cli import ExampleCommand
from irrun.cli.inputs import output_option, weights_option
from irrun.cli.options import setting_options

if TYPE_CHECKING:
    from irrun.runtime.options import RunSettings

__all__ = ["command"]


@click.command(
    "replay",
    cls=ExampleCommand,
    examples=[
        "irrun replay run.trace conv1",
        "irrun replay run.trace 'loop[3]/lstm' --model changed.xml -o outputs.npz",
    ],
)
@click.argument("trace", type=click.Path(path_type=Path))
@click.argument("layer")
@click.option("-m", "--model", type=click.Path(path_type=Path), help="Use this model, not the recorded one.")
@output_option
@weights_option
@setting_options(is_plain=True)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def command(
    trace: Path,
    layer: str,
    model: Path | None,
    weights: Path | None,
    settings: RunSettings,
    output: str | None,
    as_json: bool,
) -> None:
    """Run LAYER on the inputs that TRACE contains, and compare its outputs with the recorded ones.

    The exit code is 1 if an output differs.
    """
    from irrun.atomic_files import keep_files
    from irrun.cli.progress import ProgressLine
    from irrun.cli.show import print_tensors
    from irrun.data.save import save_outputs
    from irrun.errors import InputError, escape_unprintable
    from irrun.formatting import format_number
    from irrun.inspection.metrics import measure
    from irrun.inspection.model_hash import hash_model
    from irrun.inspection.replaying import replay
    from irrun.inspection.trace import Trace
    from irrun.ir.reader import read_model

    with ProgressLine(trace.name), Trace.open(trace) as opened:
        recorded = opened.index["model"].get("path")
        if model is None and not recorded:
            raise InputError("the trace does not name its model; pass --model")
        path = model or Path(str(recorded))
        source = read_model(path, weights)
        is_same_model = hash_model(source) == opened.model_hash
        outputs = replay(opened, source, layer, settings=settings)
        metrics = {key: measure(value, opened[key]) for key, value in outputs.items() if opened.has_data(key)}
    with keep_files([path, weights or path.with_suffix(".bin")]):
        written = save_outputs(outputs, output) if output else []
    if as_json:
        entries = [
            {"key": key, **(metrics[key].to_json() if key in metrics else {}), "exact": metrics[key].is_exact}
            if key in metrics
            else {"key": key, "exact": None}
            for key in outputs
        ]
        click.echo(json.dumps({"same_model": is_same_model, "outputs": entries}))
    else:
        print_tensors(outputs)
        for path in written:
            click.echo(f"wrote {escape_unprintable(str(path))}")
        if not is_same_model:
            click.echo("the model differs from the recorded one")
        for key, difference in metrics.items():
            size = f"max abs {format_number(difference.max_abs)}, SQNR {difference.sqnr_db:.1f} dB"
            text = "equals" if difference.is_exact else "differs from"
            text += " the recorded value" + ("" if difference.is_exact else f": {size}")
            click.echo(escape_unprintable(f"{key} {text}"))
    if any(not difference.is_exact for difference in metrics.values()):
        raise click.exceptions.Exit(1)
