"""`irrun debug`: stop at layers in the Python debugger."""

from __future__ import annotations

import bdb
from pathlib import Path

import click

from irrun.cli import ExampleCommand
from irrun.cli.inputs import model_argument, output_option
from irrun.cli.options import RunOptions, run_options

__all__ = ["command"]


@click.command(
    "debug",
    cls=ExampleCommand,
    examples=[
        "irrun debug model.xml --input x.npy --break 'layer.3*'",
        "irrun debug model.xml --input x.npy --break-if nan",
        "irrun debug model.xml --input x.npy --break 'loop[3]/*' --break-if 'abs>1e4'",
    ],
)
@model_argument
@run_options(is_plain=True)
@click.option("--break", "globs", multiple=True, metavar="GLOB", help="Stop at these layers.  [default: all]")
@click.option("--type", "types", multiple=True, metavar="TYPE", help="Stop at layers of this type.")
@click.option(
    "--break-if",
    "condition",
    metavar="CONDITION",
    help="Stop only if an output satisfies this: nan, inf, or a comparison such as 'abs>1e4' (abs, min, max, mean, "
    "std, zeros). Alternatives are separated by 'or'.",
)
@output_option
def command(
    model: Path,
    options: RunOptions,
    globs: tuple[str, ...],
    types: tuple[str, ...],
    condition: str | None,
    output: str | None,
) -> None:
    """Run MODEL and stop after layers in pdb, the Python debugger.

    The variables layer, key, inputs, outputs and scope are defined. If you change outputs, the rest of the run uses
    them. All pdb commands work, and these: "c" continues to the next breakpoint, "nl" to the next layer, "kernel" steps
    into the Python source of the layer's kernel, "variables" lists the variables, and "q" ends the run. If a kernel
    raises an error, the debugger opens there.
    """
    import irrun
    from irrun.cli.progress import ProgressLine
    from irrun.cli.show import print_tensors
    from irrun.data.save import save_outputs
    from irrun.errors import to_one_line
    from irrun.inspection.debugger import Breakpoint

    if any(spec == "-" or spec.endswith("=-") for spec in options.inputs.specs):
        raise click.BadParameter("expected a file, since the debugger reads commands from stdin", param_hint="--input")
    with ProgressLine(model.name):
        source = options.read_model(model)
        compiled = options.compile(source, optimize=False)
        arrays = options.load_inputs(source)
    observer = Breakpoint(compiled, globs, types=types, condition=condition)
    try:
        outputs = compiled.create_infer_request().infer(arrays, observers=[observer], timeout=options.timeout).to_dict()
    except bdb.BdbQuit:
        return
    except irrun.IrrunError as error:
        if error.layer is not None:
            observer.debug_error(error)
        raise
    if not observer.hits:
        click.echo("the run ended without reaching a breakpoint", err=True)
    for path in save_outputs(outputs, output) if output else []:
        click.echo(to_one_line(f"wrote {path}"))
    if not output:
        print_tensors(outputs)
