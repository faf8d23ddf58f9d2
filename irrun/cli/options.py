"""The options of all commands that run a model: its files, inputs, shapes and the settings of runs."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from irrun.cli import RunOption
from irrun.cli.imports import import_option
from irrun.cli.inputs import (
    InputOptions,
    ShapeOptions,
    add_options,
    complete_files,
    input_options,
    parse_size,
    precision_option,
    shape_options,
)
from irrun.cli.numbers import IntegerRange, NumberRange

if TYPE_CHECKING:
    import numpy as np

    from irrun.ir.model import Model
    from irrun.runtime.compiled_model import CompiledModel
    from irrun.runtime.options import RunSettings

__all__ = ["RunOptions", "against_option", "choose_reference", "run_options", "setting_options"]

PLAIN_HELP = "auto or off: this command always uses the plain kernels."
THREADS_HELP = "Number of threads.  [default: IRRUN_NUM_THREADS, or the number of cores]"
JIT_HELP = (
    "Use kernels compiled for the processor (needs the extra jit); auto: if they have been compiled before.  "
    "[default: IRRUN_JIT, or auto]"
)

REFERENCES = (
    "another IR (other.xml), f64 (the same model in f64), openvino, openvino:PRECISION or openvino:DEVICE:PRECISION "
    "(f32 by default), openvino:float (without int8 kernels), openvino:reference (Model.evaluate)"
)


def against_option(effect: str = "", *, accepts_values: bool = True) -> Callable[[Callable[..., Any]], Any]:
    """Return the option `--against`, with the parameter `against`.

    Args:
        effect: A sentence that says what the option does.
        accepts_values: Whether files of values are accepted as references too.
    """
    values = ", an .onnx file (run in onnxruntime), a .trace, .npz or .safetensors file, or a folder of .npy files"
    values = values if accepts_values else ""
    text = f"The reference: {REFERENCES}{values}."
    return click.option(
        "--against", metavar="WITH", shell_complete=complete_files, help=f"{effect} {text}" if effect else text
    )


def choose_reference(against: str | None, other: str | None, name: str) -> str | None:
    """Return the reference, given by `--against` or its older spelling.

    Args:
        against: The value of `--against`.
        other: The value of the other spelling.
        name: The other spelling.

    Raises:
        click.UsageError: Both are given.
    """
    if against is not None and other is not None:
        raise click.UsageError(f"--against and {name} cannot be combined, found {against!r} and {other!r}")
    return other if against is None else against


timeout_option = click.option(
    "--timeout",
    type=NumberRange(min=0),
    metavar="SECONDS",
    help="Time limit per run; a run that exceeds it fails.",
    cls=RunOption,
)


@dataclass(frozen=True)
class RunOptions:
    """The command line's settings for the runs of a model.

    Attributes:
        inputs: The inputs and the weights.
        shapes: The shapes of inputs.
        settings: Options for compiling and running the model.
    """

    inputs: InputOptions
    shapes: ShapeOptions
    settings: RunSettings

    @property
    def weights(self) -> Path | None:
        """The .bin file, or None for the one next to the model."""
        return self.inputs.weights

    @property
    def timeout(self) -> float | None:
        """Time limit of each run in seconds, or None."""
        return self.settings.timeout

    @property
    def _memory(self) -> int | None:
        """The value of `--memory` in bytes."""
        return self.settings.memory if isinstance(self.settings.memory, int) else None

    def read_model(self, path: Path) -> Model:
        """Read a model and apply `--shape` and `--batch`.

        Args:
            path: The .xml file.

        Raises:
            click.BadParameter: A shape does not fit the model.
            IrrunError: See `irrun.read_model`.
        """
        import irrun

        self.inputs.create_load_options()  # reports mistakes before a large file is read
        model = irrun.read_model(path, self.inputs.weights)
        self.shapes.apply(model)
        return model

    def read_reference(self, against: str, model: Model) -> Model | str:
        """Read the reference if it is another model, and apply `--shape` and `--batch` to its inputs.

        Args:
            against: The value of `--against`.
            model: The model to compare with it.

        Returns:
            The other model, or `against`.

        Raises:
            click.BadParameter: The reference does not accept the shapes.
            IrrunError: See `irrun.read_model`.
        """
        import irrun
        from irrun.data.shapes import copy_shapes
        from irrun.errors import InputError

        if not against.lower().endswith(".xml"):
            return against
        other = irrun.read_model(against)
        if self.shapes.is_set:
            try:
                copy_shapes(model, other)
            except InputError as error:
                raise click.BadParameter(f"{against}: {error}", param_hint="--against") from None
        return other

    def compile(self, model: Model, *, optimize: bool = True, **others: Any) -> CompiledModel:
        """Compile a model.

        Args:
            model: The model.
            optimize: Whether runs without observers use specialized kernels.
            others: More arguments of `CompiledModel`.

        Raises:
            IrrunError: See `compile_model`.
        """
        return self.settings.compile(model, optimize=optimize, **others)

    def load_inputs(self, model: Model) -> dict[str | int, np.ndarray[Any, Any]]:
        """Load the inputs of one run.

        Args:
            model: The model.

        Raises:
            InputError: A name is unknown, a value cannot be read, or an input is missing.
        """
        return self.inputs.load(model, self._memory)

    def load_input_sets(self, model: Model) -> list[dict[str | int, np.ndarray[Any, Any]]]:
        """Load the inputs of several runs: repeating an input starts the next run.

        Args:
            model: The model.

        Raises:
            InputError: A name is unknown, a value cannot be read, or an input is missing.
        """
        return self.inputs.load_sets(model, self._memory)


def run_options(*, is_plain: bool = False) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Add the options of all commands that run a model.

    These are `--input`, `--weights`, `--seed`, `--layout`, `--channels`, `--mean`, `--scale`, `--shape`, `--batch`,
    `--precision`, `--jit`, `--threads`, `--memory`, `--weights-memory`, `--timeout` and `--import`.

    Args:
        is_plain: Whether the command shows intermediate values, which the plain kernels compute.

    Returns:
        A decorator of a function with a parameter `options`, a `RunOptions`.
    """

    def decorate(command: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(command)
        def run(inputs: InputOptions, shapes: ShapeOptions, settings: RunSettings, **others: Any) -> Any:
            return command(options=RunOptions(inputs, shapes, settings), **others)

        return input_options(shape_options(setting_options(is_plain=is_plain)(run)))

    return decorate


def setting_options(
    *,
    is_plain: bool = False,
    is_run: bool = True,
    jit_help: str = JIT_HELP,
    threads_help: str = THREADS_HELP,
    imports: Callable[[Callable[..., Any]], Callable[..., Any]] = import_option,
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Add the options of runs.

    These are `--precision`, `--jit`, `--threads`, `--memory`, `--weights-memory`, `--timeout` and `--import`.

    Args:
        is_plain: Whether the command shows intermediate values, which the plain kernels compute.
        is_run: Whether the command runs the model. Otherwise, `--timeout` is not added.
        jit_help: The help of `--jit`.
        threads_help: The help of `--threads`.
        imports: Adds `--import`.

    Returns:
        A decorator of a function with a parameter `settings`, a `RunSettings`.
    """

    def decorate(command: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(command)
        def run(
            precision: str,
            jit: str | None,
            threads: int | None,
            memory: str | None,
            weights_memory: str | None,
            timeout: float | None = None,
            **others: Any,
        ) -> Any:
            from irrun.runtime.options import RunSettings

            settings = RunSettings(
                precision,
                threads,
                parse_size(memory, "--memory"),
                parse_size(weights_memory, "--weights-memory", accepts_zero=True),
                _parse_jit(jit, is_plain),
                timeout,
            )
            return command(settings=settings, **others)

        options = [
            precision_option,
            click.option(
                "--jit",
                type=click.Choice(["auto", "on", "off"]),
                help=PLAIN_HELP if is_plain else jit_help,
                cls=RunOption,
            ),
            click.option("--threads", type=IntegerRange(min=1), metavar="N", help=threads_help, cls=RunOption),
            click.option(
                "--memory",
                metavar="SIZE",
                help="Memory limit for the values of a run, such as 800M or 2G.  [default: the available memory]",
                cls=RunOption,
            ),
            click.option(
                "--weights-memory",
                metavar="SIZE",
                help="Memory limit for decompressed weights, such as 800M or 2G, or 0 to decompress them while the "
                "model runs.  [default: half of the available memory]",
                cls=RunOption,
            ),
            *([timeout_option] if is_run else []),
            imports,
        ]
        return add_options(options, run)

    return decorate


def _parse_jit(text: str | None, is_plain: bool) -> Any:
    """Return the value of the option --jit.

    Raises:
        click.UsageError: The value does not apply, or llvmlite is not installed.
    """
    from irrun.errors import InputError
    from irrun.runtime.compilation import VALUES, resolve_jit

    if is_plain and text == "on":
        raise click.UsageError("--jit on does not apply: this command uses the plain kernels")
    if text is None:
        return None
    try:
        return resolve_jit(VALUES[text])
    except InputError as error:
        raise click.UsageError(str(error)) from None
