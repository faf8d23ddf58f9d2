"""Options that several commands share: the inputs of a run and their shapes, its precision and its threads."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.shell_completion import CompletionItem

from irrun.cli import InputOption, RunOption
from irrun.cli.numbers import IntegerRange
from irrun.numerals import parse_float

if TYPE_CHECKING:
    import numpy as np

    from irrun.data.load import LoadOptions
    from irrun.ir.model import Model

__all__ = [
    "FilePath",
    "InputOptions",
    "ShapeOptions",
    "complete_files",
    "image_options",
    "input_options",
    "model_argument",
    "optional_model_argument",
    "output_option",
    "parse_numbers",
    "parse_size",
    "precision_option",
    "shape_option",
    "shape_options",
    "weights_option",
]


class FilePath(click.Path):
    """The path of a file; shells complete files with a suffix.

    Args:
        suffix: The suffix, such as ".xml".
    """

    def __init__(self, suffix: str) -> None:
        super().__init__(path_type=Path)
        self.suffix = suffix

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        """Complete a path in a shell."""
        return [CompletionItem(incomplete, type="file", suffix=self.suffix)]


def _notify(text: str) -> None:
    """Show the chosen dimensions on stderr."""
    from irrun.errors import to_one_line

    click.echo(to_one_line(text), err=True)


def complete_files(ctx: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Complete the path of a file in a shell."""
    return [CompletionItem(incomplete, type="file")]


def _check_output(ctx: click.Context, parameter: click.Parameter, value: str | None) -> str | None:
    """Check the path of the outputs before the run, since a run may be long."""
    from irrun.data.save import check_target
    from irrun.errors import InputError

    if value is not None:
        try:
            check_target(value)
        except InputError as error:
            raise click.BadParameter(str(error), param_hint="--output") from None
    return value


model_argument = click.argument("model", type=FilePath(".xml"))
optional_model_argument = click.argument("model", type=FilePath(".xml"), required=False)

output_option = click.option(
    "-o",
    "--output",
    metavar="PATH",
    shell_complete=complete_files,
    callback=_check_output,
    help="Save the outputs to an .npz, .npy or .json file or a folder.",
)

weights_option = click.option(
    "-w",
    "--weights",
    cls=InputOption,
    type=FilePath(".bin"),
    metavar="FILE",
    help="The .bin file, if not next to the model.",
)

shape_option = click.option(
    "--shape",
    "shapes",
    cls=InputOption,
    multiple=True,
    metavar="[NAME=]1,3,224,224",
    help="Reshape an input. ? or -1 is a dynamic dimension, 1..8 has bounds.",
)

precision_option = click.option(
    "--precision",
    cls=RunOption,
    type=click.Choice(["f32", "declared", "f64"]),
    default="f32",
    show_default=True,
    help="Precision: f32 (also for f16 and bf16 graphs), the declared types, or f64.",
)


@dataclass(frozen=True)
class InputOptions:
    """The model's weights and inputs as given on the command line.

    Attributes:
        specs: Texts of the form `[name=]value`.
        weights: The .bin file, or None for the one next to the model.
        seed: Seed for random inputs.
        layout: Layout of image inputs.
        channels: Channel order of image inputs.
        mean: Text of `--mean`.
        scale: Text of `--scale`.
    """

    specs: tuple[str, ...] = ()
    weights: Path | None = None
    seed: int = 0
    layout: str = "auto"
    channels: str = "BGR"
    mean: str | None = None
    scale: str | None = None

    def load(self, model: Model, memory: int | None = None) -> dict[str | int, np.ndarray[Any, Any]]:
        """Load the inputs of one run. Chosen dimensions are shown on stderr.

        Args:
            model: The model.
            memory: Maximum size of an array in a file, in bytes; see `LoadOptions`.

        Raises:
            click.BadParameter: A text is not a list of numbers.
            InputError: A name is unknown, a value cannot be read, or an input is missing.
        """
        from irrun.data.load import load_inputs

        return load_inputs(self.specs, model, self.create_load_options(memory))

    def load_sets(self, model: Model, memory: int | None = None) -> list[dict[str | int, np.ndarray[Any, Any]]]:
        """Load the inputs of several runs; see `load_input_sets`.

        Args:
            model: The model.
            memory: Maximum size of an array in a file, in bytes; see `LoadOptions`.

        Raises:
            click.BadParameter: A text is not a list of numbers.
            InputError: A name is unknown, a value cannot be read, or an input is missing.
        """
        from irrun.data.load import load_input_sets

        return load_input_sets(self.specs, model, self.create_load_options(memory))

    def create_load_options(self, memory: int | None = None) -> LoadOptions:
        """Return the options for loading inputs.

        Args:
            memory: Maximum size of an array in a file, in bytes; see `LoadOptions`.

        Raises:
            click.BadParameter: A text is not a list of numbers.
        """
        from irrun.data.image import ImageOptions
        from irrun.data.load import LoadOptions

        mean, scale = parse_numbers(self.mean, "--mean"), parse_numbers(self.scale, "--scale")
        return LoadOptions(self.seed, ImageOptions(self.layout, self.channels, mean, scale), _notify, memory)


@dataclass(frozen=True)
class ShapeOptions:
    """The shapes of inputs as given on the command line.

    Attributes:
        shapes: Texts of the form `[name=]1,3,224,224`.
        batch: The size of the batch, or None.
    """

    shapes: tuple[str, ...] = ()
    batch: int | None = None

    @property
    def is_set(self) -> bool:
        """Whether there are shapes or a batch."""
        return bool(self.shapes) or self.batch is not None

    def apply(self, model: Model) -> None:
        """Change the shapes of a model.

        Args:
            model: The model.

        Raises:
            click.BadParameter: A text is not a shape, or does not fit the model.
        """
        from irrun.data.shapes import apply_batch, apply_shapes
        from irrun.errors import IrrunError

        option = "--shape"
        try:
            apply_shapes(model, self.shapes)
            option = "--batch"
            if self.batch is not None:
                apply_batch(model, self.batch)
        except IrrunError as error:
            raise click.BadParameter(str(error), param_hint=option) from None


def add_options(options: Sequence[Callable[..., Any]], command: Callable[..., Any]) -> Callable[..., Any]:
    """Add options to a command, in this order and before its own options."""
    for option in reversed(options):
        command = option(command)
    return command


def image_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options `--layout`, `--channels`, `--mean` and `--scale`."""
    options = [
        click.option(
            "--layout",
            cls=InputOption,
            default="auto",
            show_default=True,
            metavar="NCHW|NHWC|...",
            help="Layout of image inputs.",
        ),
        click.option(
            "--channels",
            cls=InputOption,
            type=click.Choice(["BGR", "RGB"], case_sensitive=False),
            metavar="BGR|RGB",
            default="BGR",
            show_default=True,
            help="Channel order of image inputs.",
        ),
        click.option(
            "--mean", cls=InputOption, metavar="M[,M,M]", help="Subtract this mean from image pixels (0 to 255)."
        ),
        click.option(
            "--scale",
            cls=InputOption,
            metavar="S[,S,S]",
            help="Divide image pixels by this after subtracting the mean.",
        ),
    ]
    return add_options(options, command)


def input_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options `--input`, `--weights`, `--seed`, `--layout`, `--channels`, `--mean` and `--scale`.

    Args:
        command: A function with a parameter `inputs`, an `InputOptions`.
    """

    @functools.wraps(command)
    def run(
        inputs: tuple[str, ...],
        weights: Path | None,
        seed: int,
        layout: str,
        channels: str,
        mean: str | None,
        scale: str | None,
        **others: Any,
    ) -> Any:
        return command(inputs=InputOptions(inputs, weights, seed, layout, channels, mean, scale), **others)

    options = [
        click.option(
            "-i",
            "--input",
            "inputs",
            cls=InputOption,
            multiple=True,
            metavar="[NAME=]VALUE",
            shell_complete=complete_files,
            help="A .npy, .npz (file.npz:key), raw .bin, .json or image file; - for a .npy, .npz or .json file on "
            "stdin; JSON text such as 'ids=[[1,2,3]]'; for string inputs, a text or a .txt file of lines; or random, "
            "zeros, ones (random:1,3,224,224 sets the shape). "
            "Without NAME, a file is for the next input; random, zeros and ones are for all inputs without a value.",
        ),
        weights_option,
        click.option(
            "--seed",
            cls=InputOption,
            type=IntegerRange(min=0),
            default=0,
            show_default=True,
            help="Seed for random inputs.",
        ),
    ]
    return add_options(options, image_options(run))


def shape_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options `--shape` and `--batch`.

    Args:
        command: A function with a parameter `shapes`, a `ShapeOptions`.
    """

    @functools.wraps(command)
    def run(shapes: tuple[str, ...], batch: int | None, **others: Any) -> Any:
        return command(shapes=ShapeOptions(shapes, batch), **others)

    options = [
        shape_option,
        click.option(
            "--batch",
            cls=InputOption,
            type=IntegerRange(min=1),
            metavar="N",
            help="Reshape all inputs to this batch size.",
        ),
    ]
    return add_options(options, run)


def parse_size(text: str | None, option: str, *, accepts_zero: bool = False) -> int | None:
    """Parse a size such as "800M".

    Args:
        text: The text, or None.
        option: The option, for error messages.
        accepts_zero: Whether the size may be 0.

    Raises:
        click.BadParameter: The text is not a size.
    """
    from irrun.limits import parse_size as parse

    if text == "0" and accepts_zero:
        return 0
    try:
        return None if text is None else parse(text)
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint=option) from None


def parse_numbers(text: str | None, option: str) -> tuple[float, ...]:
    """Parse the list of numbers of `--mean` or `--scale`.

    Args:
        text: The text, or None.
        option: The option, for error messages.

    Raises:
        click.BadParameter: The text is not a list of finite numbers, or contains a scale of 0.
    """
    try:
        numbers = tuple(parse_float(part) for part in text.split(",")) if text else ()
    except ValueError:
        raise click.BadParameter(f"expected a list of numbers, found {text!r}", param_hint=option) from None
    if not all(math.isfinite(n) for n in numbers):
        raise click.BadParameter(f"expected finite numbers, found {text!r}", param_hint=option)
    if option == "--scale" and 0 in numbers:
        raise click.BadParameter(f"expected numbers other than 0, found {text!r}", param_hint=option)
    return numbers
