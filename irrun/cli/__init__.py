"""The command line: one module per command, imported when the command is called."""

from __future__ import annotations

from irrun.startup import end_startup  # first, because the other imports take longer

# isort: split
import contextlib
import importlib
import io
import os
import signal
import sys
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import click
from click.shell_completion import CompletionItem

from irrun.errors import IrrunError, to_one_line
from irrun.interrupts import INTERRUPTS
from irrun.version import __version__

__all__ = ["ExampleCommand", "InputOption", "RunOption", "main"]

#: Command -> description, in the order of the help. The module of a command has its name.
COMMANDS = {
    "run": "Run a model and print or save its outputs.",
    "generate": "Continue texts with a language model and its tokenizer.",
    "embed": "Convert texts to embedding vectors.",
    "transcribe": "Transcribe speech.",
    "map": "Run a model over many inputs, on all cores or a cluster.",
    "info": "Show the inputs, outputs and operations of a model.",
    "upgrade": "Convert an older IR (v2 to v10) to IR v11.",
    "extract": "Extract a sub-model with its weights.",
    "export": "Write a model as ONNX.",
    "validate": "Check a model file without running it.",
    "ops": "List supported operations, or describe one.",
    "trace": "Record the values of a run.",
    "replay": "Run one layer on its recorded inputs.",
    "compare": "Compare a model, layer by layer, with another model, f64, OpenVINO or recorded values.",
    "diff": "Compare two models without running them.",
    "reduce": "Find the smallest part of a model that still fails.",
    "debug": "Stop at layers in the Python debugger.",
    "report": "Write an HTML page of the layers, values, times and errors of a run.",
    "profile": "Measure the time of each layer, type or module.",
    "bench": "Measure latency, throughput, start and memory, optionally against OpenVINO.",
    "check": "Find NaN, overflow, saturation and constant channels.",
    "cache": "Show or clear compiled kernels.",
    "conformance": "Compare OpenVINO's devices with irrun, operation by operation.",
}


#: Examples in the help of the command line.
EXAMPLES = (
    "irrun model.xml --input x.npy",
    "irrun model.xml --input a=a.npy --input b=b.npz:key --output result.npz",
    "irrun info model.xml",
)


class InputOption(click.Option):
    """An option for the inputs of a model, shared by several commands."""

    section = "Options of inputs"


class RunOption(click.Option):
    """An option for the runs of a model, shared by several commands."""

    section = "Options of runs"


class ExampleCommand(click.Command):
    """A command. Its help lists its own options first, then shared options, then examples.

    It refuses to overwrite the files that it reads.

    Args:
        examples: Command lines.
        *args: Passed to `click.Command`.
        **kwargs: Passed to `click.Command`.
    """

    def __init__(self, *args: Any, examples: Sequence[str] = (), **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.examples = examples

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse arguments. The error for an extra argument points to --input."""
        try:
            return super().parse_args(ctx, args)
        except click.UsageError as error:
            if "unexpected extra argument" in error.message and any(p.name == "inputs" for p in self.params):
                raise click.UsageError(f"{error.message}; pass inputs with --input", ctx) from None
            raise

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command."""
        from irrun.atomic_files import keep_files
        from irrun.cli.overwriting import check_outputs, find_sources

        with keep_files(find_sources(ctx)):
            check_outputs(ctx)
            return super().invoke(ctx)

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the options to the help: first the command's own, then shared options."""
        sections: dict[str, list[tuple[str, str]]] = {"Options": [], InputOption.section: [], RunOption.section: []}
        for parameter in self.get_params(ctx):
            record = parameter.get_help_record(ctx)
            if record is not None and isinstance(parameter, click.Option):
                sections[getattr(parameter, "section", "Options")].append(record)
        for title, records in sections.items():
            if records:
                with formatter.section(title):
                    formatter.write_dl(records)

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the examples to the help."""
        _write_examples(formatter, self.examples)


def _write_examples(formatter: click.HelpFormatter, examples: Sequence[str]) -> None:
    with formatter.section("Examples"):
        for line in examples:
            formatter.write(f"{'':{formatter.current_indent}}{line}\n")


class _ClosedPipeError(Exception):
    """The reader closed the pipe of stdout. Without this class, click would exit with code 1."""


class _CommandGroup(click.Group):
    """A group that imports commands on demand; `irrun MODEL` runs a model."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        if name not in COMMANDS:
            return None
        module = importlib.import_module(f"irrun.cli.{name}")
        command: click.Command = module.command
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args[0] not in COMMANDS and not args[0].startswith("-") and not ctx.resilient_parsing:
            import difflib

            similar = difflib.get_close_matches(args[0], COMMANDS, 1)
            hint = f"; did you mean {similar[0]}?" if similar else ""
            commands = ", ".join(COMMANDS)
            ctx.fail(f"No such command or file {args[0]!r}; expected a model (.xml) or one of {commands}{hint}")
        return super().resolve_command(ctx, args)

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Complete commands, and the files of models in the short form."""
        names = [name for name in COMMANDS if name.startswith(incomplete)]
        items = [CompletionItem(name, help=COMMANDS[name]) for name in names]
        items += click.Command.shell_complete(self, ctx, incomplete)  # options
        return items if incomplete.startswith("-") else [*items, CompletionItem(incomplete, type="file", suffix=".xml")]

    def make_context(self, *args: Any, **kwargs: Any) -> click.Context:
        try:
            return super().make_context(*args, **kwargs)
        except BrokenPipeError:  # while the help is printed
            raise _ClosedPipeError from None

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:  # click would print an empty line
            raise click.Abort from None
        except BrokenPipeError:
            raise _ClosedPipeError from None

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        _write_examples(formatter, EXAMPLES)

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if args and args[0] not in COMMANDS and _has_model(args):
            args = ["run", *args]
        return super().parse_args(ctx, args)


def _has_model(args: list[str]) -> bool:
    first = args[0]
    if first in ("--help", "--version", "-h"):
        return False
    from irrun.ir.file_kinds import MODEL_SUFFIXES  # models of other formats are refused by the command run

    if first.startswith("-"):
        return any(Path(a).suffix.lower() in MODEL_SUFFIXES for a in args)
    return Path(first).suffix.lower() in MODEL_SUFFIXES or Path(first).exists() or "/" in first


@click.group(cls=_CommandGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="irrun")
def _group() -> None:
    """Run OpenVINO IR models in pure Python on NumPy and inspect every intermediate value.

    `irrun MODEL ...` is short for `irrun run MODEL ...`.
    """


def main(args: list[str] | None = None) -> None:
    """Run the command line; an error is reported as one line on stderr with exit code 2.

    Args:
        args: The arguments; by default `sys.argv`.
    """
    _open_missing_streams()
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # names may not be encodable in the terminal's encoding
    if "_IRRUN_COMPLETE" in os.environ:  # a shell asks for completions
        importlib.import_module("irrun.cli.completion")
    end_startup()
    with _record_interrupts() as interrupts:
        code = _run_group(args, interrupts)
    if interrupts and interrupts[0] != signal.SIGINT:
        signal.raise_signal(interrupts[0])  # with the default handler, so that the parent process sees the signal
    if code:
        sys.exit(code)


def _open_missing_streams() -> None:
    """Open the null device for each standard stream that is closed, so that no file of the command takes its number."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, os.fdopen(os.open(os.devnull, os.O_RDWR), mode, encoding="utf-8"))


def _run_group(args: list[str] | None, interrupts: list[int]) -> int:
    """Run the command, report errors and return the exit code."""
    code = 0
    try:
        code = _group.main(args, prog_name="irrun", standalone_mode=False) or 0
        sys.stdout.flush()
    except click.UsageError as error:
        code = 2
        if type(error).__name__ == "NoArgsIsHelpError":
            click.echo(error.format_message(), err=True)
        else:
            _print_error(f"{error.format_message()} (see: {error.ctx.command_path if error.ctx else 'irrun'} --help)")
    except click.ClickException as error:
        code = _print_error(error.format_message())
    except IrrunError as error:
        code = _print_error(str(error))
    except (click.Abort, KeyboardInterrupt):
        code = _report_interrupt(interrupts)
    except ImportError:
        if not interrupts:
            raise
        code = _report_interrupt(interrupts)  # NumPy reports one during its import as a broken installation
    except (BrokenPipeError, _ClosedPipeError):
        _discard_stdout()
        code = 128 + 13  # what a shell reports for a program that SIGPIPE ends
    except MemoryError:
        code = _print_error("out of memory")
    except OSError as error:
        code = _print_error(f"cannot write the output: {error.strerror or error}")
        _discard_stdout()
    return code


def _report_interrupt(interrupts: list[int]) -> int:
    """Print what interrupted the command, and return its exit code."""
    number = interrupts[0] if interrupts else signal.SIGINT
    _print_error("interrupted" if number == signal.SIGINT else f"ended by {signal.Signals(number).name}")
    return 128 + number


@contextlib.contextmanager
def _record_interrupts() -> Iterator[list[int]]:
    """Yield a list that receives the number of each signal that interrupts this block.

    SIGTERM and SIGHUP interrupt as SIGINT does, so that temporary files are deleted and processes are ended.
    """
    received: list[int] = []

    def interrupt(number: int, frame: Any) -> None:
        received.append(number)
        raise KeyboardInterrupt

    handlers = {number: signal.getsignal(number) for number in INTERRUPTS}
    is_main = threading.current_thread() is threading.main_thread()
    defaults = (signal.SIG_DFL, signal.default_int_handler)
    replaced = [number for number, handler in handlers.items() if is_main and handler in defaults]
    for number in replaced:
        signal.signal(number, interrupt)
    try:
        yield received
    finally:
        for number in replaced:
            signal.signal(number, handlers[number])


def _print_error(text: str) -> int:
    """Print an error to stderr and return the exit code 2."""
    with contextlib.suppress(OSError):
        click.echo(f"irrun: {to_one_line(text)}", err=True)
    return 2


def _discard_stdout() -> None:
    """Redirect stdout to the null device, so that flushing its buffer at exit does not fail again."""
    with contextlib.suppress(OSError, ValueError, AttributeError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
