"""`irrun compare`: compare a model with a reference, layer by layer."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from irrun.cli import ExampleCommand
from irrun.cli.inputs import complete_files, model_argument
from irrun.cli.numbers import IntegerRange, NumberRange
from irrun.cli.options import RunOptions, against_option, choose_reference, run_options

if TYPE_CHECKING:
    from irrun.data.labels import Array
    from irrun.inspection.comparison import Comparison
    from irrun.inspection.cure import Cure
    from irrun.ir.model import Model
    from irrun.runtime.inputs import Inputs

__all__ = ["command"]

#: The exit code if the outputs differ, but no layer adds an error.
UNEXPLAINED = 3
#: Report OpenVINO's int8 kernels as the reason if the results without them differ by more than this, in dB.
EXPLAINED_DB = 1.0
#: Maximum number of layers in the table without --all.
MAX_ROWS = 25
#: Verdicts of layers that are not printed.
FOLDED = ("exact", "near zero", "inherits")


@click.command(
    "compare",
    cls=ExampleCommand,
    examples=[
        "irrun compare model.xml --against openvino --input x.npy",
        "irrun compare fp32.xml --against int8.xml --input x.npy --cure 3",
        "irrun compare fp32.xml --against int8.xml --input inputs/ --until 30dB -o cured.xml",
        "irrun compare model.xml --against f64 --input random",
        "irrun compare model.xml activations.safetensors --input x.npy --map out0=detection_out",
        "irrun compare model.xml model.onnx --input inputs/ --fail-below 40dB --junit report.xml",
    ],
)
@model_argument
@click.argument("positional", metavar="[WITH]", required=False, shell_complete=complete_files)
@against_option()
@run_options(is_plain=True)
@click.option("--layers", multiple=True, metavar="GLOB", help="Print these layers only.")
@click.option("--all", "show_all", is_flag=True, help="Print all layers, including layers that agree.")
@click.option(
    "--sort", type=click.Choice(["order", "own", "accumulated"]), default="order", show_default=True, help="Order."
)
@click.option(
    "--tolerance",
    type=NumberRange(min=0),
    metavar="K",
    help="Tolerance of a layer as a multiple of its own rounding error.  [default: 64; 2 for another IR]",
)
@click.option("--cure", type=IntegerRange(min=1), metavar="N", help="Find the N layers to keep in floating point.")
@click.option(
    "--until",
    metavar="N[dB]",
    help="Keep layers in floating point until the outputs reach this SQNR, or this value of the metric.",
)
@click.option(
    "-o",
    "--output",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="CURED.xml",
    help="Write the quantized model with these layers in floating point.",
)
@click.option(
    "--ignored-scope",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE.json",
    help="Write the layers to keep in floating point as the ignored_scope of NNCF.",
)
@click.option(
    "--map",
    "names",
    multiple=True,
    metavar="THEIRS=OURS",
    help="Match the array THEIRS of the reference with the layer or tensor OURS of the model; repeatable.",
)
@click.option(
    "--fail-below",
    "limits",
    multiple=True,
    metavar="[OUTPUT=]N[dB]",
    help="Fail (exit code 1) only if the SQNR or the metric of an output is below N; repeatable.",
)
@click.option(
    "--metric",
    metavar="FILE.py:FUNCTION",
    help="A function of an output and its reference that replaces the SQNR in --fail-below. The file is executed.",
)
@click.option(
    "--labels",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="The correct class of each input, for --cure and --until: a .npy file, or lines of FILE,LABEL. Accuracy then "
    "is the metric, unless --metric names another function of an output and its label.",
)
@click.option(
    "--junit", type=click.Path(dir_okay=False, path_type=Path), metavar="FILE.xml", help="Write a JUnit file."
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def command(
    model: Path,
    positional: str | None,
    against: str | None,
    options: RunOptions,
    layers: tuple[str, ...],
    show_all: bool,
    sort: str,
    tolerance: float | None,
    cure: int | None,
    until: str | None,
    output: Path | None,
    ignored_scope: Path | None,
    names: tuple[str, ...],
    limits: tuple[str, ...],
    metric: str | None,
    labels: Path | None,
    junit: Path | None,
    as_json: bool,
) -> None:
    """Compare MODEL with a reference, layer by layer.

    `irrun compare MODEL WITH` is short for `irrun compare MODEL --against WITH`.

    The own error of a layer is the error of its outputs, given the inputs of the reference. The accumulated error
    includes the errors of its inputs. Repeat --input, or pass a folder, for several runs of one session: variables keep
    their values. The exit code is 0 if the model agrees, 1 if layers add an error, 2 after an error, and 3 if outputs
    differ although no layer adds an error.
    """
    from irrun.atomic_files import atomic_write
    from irrun.cli.progress import ProgressLine
    from irrun.data.labels import read_labels
    from irrun.inspection.acceptance import find_failures, make_junit, parse_limit
    from irrun.inspection.comparing import compare

    reference = choose_reference(against, positional, "WITH")
    if reference is None:
        raise click.UsageError("Missing option '--against', the reference")
    is_cured = cure is not None or until is not None
    option = "--until" if cure is None else "--cure"
    if is_cured and not reference.lower().endswith(".xml"):
        message = f"{option} requires another IR (other.xml), found {reference!r}"
        raise click.BadParameter(message, param_hint="--against")
    if not is_cured and (output is not None or ignored_scope is not None):
        raise click.UsageError("--output and --ignored-scope require --cure or --until")
    if not is_cured and labels is not None:
        raise click.UsageError("--labels requires --cure or --until")
    if output is not None and output.suffix.lower() != ".xml":
        raise click.BadParameter(f"expected a path that ends in .xml, found {output}", param_hint="--output")
    target = None if until is None else parse_limit(until).minimum
    progress = ProgressLine(model.name)
    minima = [parse_limit(text) for text in limits]
    function = None if metric is None else _load_metric(metric)
    pairs = _parse_names(names)
    options = _expand_folders(options)
    source = options.read_model(model)
    sets = options.load_input_sets(source)
    other = options.read_reference(reference, source)
    compared = sets[:1] if is_cured else sets
    known = None if labels is None else read_labels(labels, _name_runs(options, len(sets)))
    with progress:
        result = compare(
            source,
            other,
            sequence=compared,
            names=pairs,
            metric=None if labels else function,
            factor=tolerance,
            settings=options.settings,
        )
    failures = find_failures(result, minima)
    if junit is not None:
        _write_junit(junit, make_junit(result, model.name, minima), options)
    if as_json and not is_cured:
        click.echo(json.dumps(result.to_json()))
    elif not as_json:
        _print_comparison(result, model, layers, show_all, sort)
        for failure in failures:
            click.echo(f"below the limit: {failure}")
    if is_cured:
        found = _cure(source, other, sets, cure, target, function, known, result, as_json, options, model.name)
        if ignored_scope is not None:
            with atomic_write(ignored_scope) as file:
                file.write(json.dumps(found.to_ignored_scope()).encode() + b"\n")
        if output is not None:
            _write_cured(source, other, found, output, sets, as_json, options)
    if failures:
        raise click.exceptions.Exit(1)
    if not result.agrees and not minima:
        raise click.exceptions.Exit(UNEXPLAINED if result.outcome == "unexplained" else 1)


def _parse_names(texts: Sequence[str]) -> dict[str, str] | None:
    pairs = [text.partition("=") for text in texts]
    for text, (theirs, _, ours) in zip(texts, pairs, strict=True):
        if not theirs or not ours:
            raise click.BadParameter(f"expected THEIRS=OURS, found {text!r}", param_hint="--map")
    return {theirs: ours for theirs, _, ours in pairs} or None


def _name_runs(options: RunOptions, count: int) -> list[str]:
    """Return a name for each run: its input file if it has one input, else its number."""
    specs = options.inputs.specs
    return [spec.rpartition("=")[2] for spec in specs] if len(specs) == count else [f"run {i}" for i in range(count)]


def _load_metric(text: str) -> Callable[..., float]:
    from irrun.errors import InputError
    from irrun.imports import import_file

    path, _, name = text.rpartition(":")
    try:
        module = import_file(Path(path)) if path else None
    except InputError as error:
        raise click.BadParameter(str(error), param_hint="--metric") from error
    function = getattr(module, name, None)
    if not callable(function):
        raise click.BadParameter(f"expected FILE.py:FUNCTION, found {text!r}", param_hint="--metric")
    checked: Callable[..., float] = function
    return checked


def _expand_folders(options: RunOptions) -> RunOptions:
    """Replace folders among the inputs by their files; each file is the input of another run."""
    specs: list[str] = []
    for spec in options.inputs.specs:
        folder = Path(spec)
        if not folder.is_dir():
            specs.append(spec)
            continue
        files = sorted(str(file) for file in folder.iterdir() if file.is_file() and not file.name.startswith("."))
        if not files:
            raise click.BadParameter(f"{spec} does not contain files", param_hint="--input")
        specs += files
    return replace(options, inputs=replace(options.inputs, specs=tuple(specs)))


def _write_junit(path: Path, content: bytes, options: RunOptions) -> None:
    from irrun.atomic_files import atomic_write

    with atomic_write(path) as file:
        file.write(content)


def _cure(
    source: Model,
    other: Model | str,
    sets: Sequence[Inputs],
    count: int | None,
    until: float | None,
    metric: Callable[..., float] | None,
    labels: list[Array] | None,
    result: Comparison,
    as_json: bool,
    options: RunOptions,
    title: str,
) -> Cure:
    """Print the layers to keep in floating point as they are found, chosen with three quarters of the inputs."""
    from irrun.cli.progress import ProgressLine
    from irrun.errors import escape_unprintable
    from irrun.inspection.cure import CureProgress, find_cure

    number = len(sets) // 4 or int(len(sets) > 1)
    chosen, held_out = sets[: len(sets) - number], sets[len(sets) - number :]
    what, unit, digits = ("an SQNR", " dB", 1) if metric is None else ("a metric", "", 4)
    if labels is not None:
        what, unit, digits = "an accuracy" if metric is None else "a metric", "", 4
    line = ProgressLine(title)
    found: list[float] = []  # the values so far, each better than the ones before

    def report(progress: CureProgress) -> None:
        tried = progress.tried
        line.update("trying layers", progress.done, progress.total)
        if tried is None:
            found.append(progress.initial_db)
            if not as_json:
                click.echo("")
                value = f"{progress.initial_db:.{digits}f}{unit}"
                click.echo(f"layers to keep in floating point; the outputs now have {what} of {value}:")
        elif progress.is_found and not as_json:
            click.echo(escape_unprintable(f"  {tried.layer} ({tried.type}): {tried.sqnr_db:.{digits}f}{unit}"))
        elif found and tried.sqnr_db > found[-1] and line.is_enabled:
            found.append(tried.sqnr_db)
            text = f"  trying: {tried.layer} alone gives {tried.sqnr_db:.{digits}f}{unit}"
            click.echo(escape_unprintable(text), err=True)

    with line:
        cure = find_cure(
            source,
            other,
            chosen,
            count,
            until=until,
            held_out=held_out,
            metric=metric,
            labels=labels,
            report=report,
            settings=options.settings,
        )
    if as_json:
        click.echo(json.dumps({**result.to_json(), "cure": cure.to_json()}))
        return cure
    click.echo(escape_unprintable(f"nncf.IgnoredScope(names={cure.names!r})"))
    if cure.held_out_db is not None:
        before, after = (f"{value:.{digits}f}{unit}" for value in cure.held_out_db)
        click.echo(f"with {number} other input{'s' * (number > 1)}: {before}, then {after}")
    for text in cure.advice:
        click.echo(escape_unprintable(text))
    return cure


def _write_cured(
    source: Model,
    other: Model | str,
    cure: Cure,
    path: Path,
    sets: Sequence[Inputs],
    as_json: bool,
    options: RunOptions,
) -> None:
    """Write the cured model, and print what OpenVINO gives for it if it is installed."""
    from irrun.inspection.cured_model import explain_int8_kernels, make_cured_model, measure_in_openvino
    from irrun.ir.reader import read_model
    from irrun.ir.writer import save_model

    second = read_model(other) if isinstance(other, str) else other
    cured = make_cured_model(source, second, cure.names)
    save_model(cured, path)
    measured = measure_in_openvino(source, second, cured, sets)
    if not as_json:
        click.echo(f"written to {path}")
        if measured is not None:
            before, after, without = measured
            click.echo(f"in OpenVINO: {before:.1f} dB, then {after:.1f} dB")
            if abs(after - without) > EXPLAINED_DB:
                click.echo(f"without the int8 kernels of OpenVINO: {without:.1f} dB")
                for text in explain_int8_kernels(cured, sets[0]):
                    click.echo(f"  {text}")


def _print_comparison(result: Comparison, model: Path, globs: tuple[str, ...], show_all: bool, sort: str) -> None:
    from irrun.cli.tables import print_lines, print_omitted, print_table
    from irrun.errors import to_one_line
    from irrun.inspection.comparison_table import LAYER_TITLES, OUTPUT_TITLES, make_layer_row, make_output_rows
    from irrun.inspection.keys import Selection
    from irrun.ir.graph import Layer

    by_order = len({layer.name for layer in result.layers if layer.matched_by == "order"})
    how = f"{by_order} of them by order, type and shape" if by_order else "all of them by name"
    summary = (
        f"{model} against {result.reference} ({result.precision}): "
        f"{result.matched} of {result.layers_total} layers matched, {how}"
    )
    print_lines(map(to_one_line, (result.describe(), summary, *result.notes)))
    selection = Selection(globs)
    is_whole = show_all or bool(globs)
    kept = [layer for layer in result.layers if layer.verdict not in ("adds", *FOLDED)]
    shown = [
        layer
        for layer in (result.layers if is_whole else [*result.causes, *kept])
        if selection.contains(Layer(0, layer.name, layer.type), layer.key)
    ]
    folded = 0 if is_whole else len({layer.path for layer in result.layers if layer.verdict == "inherits"})
    if sort != "order":
        shown.sort(key=lambda layer: getattr(layer, sort).sqnr_db)
    rows = [make_layer_row(layer, result.runs > 1) for layer in shown]
    omitted = 0 if show_all or globs else max(0, len(rows) - MAX_ROWS)
    if rows:
        click.echo("")
        print_table(LAYER_TITLES, rows[: len(rows) - omitted], right=LAYER_TITLES[3:])
        if omitted:
            print_omitted(omitted, "layer")
    if folded:
        text = "1 layer inherits an error" if folded == 1 else f"{folded} layers inherit errors"
        click.echo(f"{text}; --all prints them")
    click.echo("")
    print_table(OUTPUT_TITLES, make_output_rows(result), right=OUTPUT_TITLES[1:])
