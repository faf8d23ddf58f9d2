"""`irrun export`: write a model as ONNX."""

from __future__ import annotations

from pathlib import Path

import click

from irrun.cli import ExampleCommand
from irrun.cli.imports import import_option
from irrun.cli.inputs import ShapeOptions, model_argument, shape_options, weights_option

__all__ = ["command"]


@click.command(
    "export",
    cls=ExampleCommand,
    examples=[
        "irrun export model.xml -o model.onnx",
        "irrun export model.xml -o model.onnx --opset 20 --verify",
    ],
)
@model_argument
@click.option("-o", "--output", type=click.Path(path_type=Path), required=True, help="The .onnx file to write.")
@click.option("--opset", type=int, metavar="N", help="The ONNX opset version, 18 to 28.  [default: 21]")
@click.option("--partial", is_flag=True, help="Write layers that ONNX cannot express as nodes in a custom domain.")
@click.option("--verify", is_flag=True, help="Run both models on random inputs, the ONNX model in onnxruntime.")
@weights_option
@shape_options
@import_option
def command(
    model: Path,
    output: Path,
    opset: int | None,
    partial: bool,
    verify: bool,
    weights: Path | None,
    shapes: ShapeOptions,
) -> None:
    """Write MODEL, an IR of any version, as ONNX.

    The exit code is 0 if the model was written, 1 if --verify finds different results, and 2 after an error. If ONNX
    cannot express some layers, the error lists all of them and nothing is written.
    """
    from irrun.cli.progress import ProgressLine
    from irrun.cli.tables import print_lines
    from irrun.errors import to_one_line
    from irrun.export import export_onnx
    from irrun.ir.reader import read_model

    if partial and verify:
        raise click.UsageError("--verify needs a complete model; --partial may leave layers unexported")
    differences = []
    with ProgressLine(model.name):
        source = read_model(model, weights)
        shapes.apply(source)
        result = export_onnx(source, output, opset=opset, partial=partial)
        if verify:
            from irrun.export.verification import verify_export

            differences = verify_export(source, output)
    lines = [f"wrote {' and '.join(map(str, result.files))} (opset {result.opset})"]
    lines += [f"not exported: {text}" for text in result.unsupported]
    if verify:
        lines += [str(difference) for difference in differences]
        is_uncertain = any(difference.uncertainty for difference in differences)
        agree = "the results agree up to rounding in quantization" if is_uncertain else "the results agree"
        lines.append("the results differ" if any(d.differs for d in differences) else agree)
    print_lines(map(to_one_line, lines))
    if any(difference.differs for difference in differences):
        raise click.exceptions.Exit(1)
