"""The command line: one module per command, each imported when it is called."""

from __future__ import annotations

import contextlib
import importlib
import io
import os
import signal
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click

from irrun import __version__
from irrun.errors import IrrunError, to_one_line

__all__ = ["main", "refuse_to_replace"]

#: Commands in the order of the help: name -> what it does; each lives in the module of its name.
COMMANDS = {
    "run": "Run a model and show or save its outputs.",
    "info": "Show what a model takes, gives and is made of.",
    "upgrade": "Write an old IR (v2 to v10) as IR v11.",
    "extract": "Cut a sub-model out, with its weights.",
    "validate": "Check a model file against schema and structure.",
    "ops": "List the operations irrun supports, or explain one.",
}


class _Commands(click.Group):
    """Imports a command when it is called; a path in place of a command means `run`."""

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
        if args[0] not in COMMANDS and not args[0].startswith("-"):
            known = ", ".join(COMMANDS)
            ctx.fail(f"No such command {args[0]!r}, and no such file; commands are {known}, and a model is an .xml")
        return super().resolve_command(ctx, args)

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:  # click would print an empty line
            raise click.Abort from None

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if args and args[0] not in COMMANDS and _names_model(args):
            args = ["run", *args]
        return super().parse_args(ctx, args)


def refuse_to_replace(model: Path, weights: Path | None, output: Path) -> None:
    """Raise BadParameter where writing a model to `output` would replace what it is made from."""
    for read in (model, weights or model.with_suffix(".bin")):
        for written in (output, output.with_suffix(".bin")):
            if read.exists() and written.exists() and read.samefile(written):
                text = f"it would replace {read}, which is read; name another .xml"
                raise click.BadParameter(text, param_hint="--output")


def _names_model(args: list[str]) -> bool:
    first = args[0]
    if first.startswith("-"):
        return first not in ("--help", "--version", "-h") and any(a.endswith(".xml") for a in args)
    return first.endswith(".xml") or Path(first).exists() or "/" in first


@click.group(cls=_Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="irrun")
def _group() -> None:
    """Run OpenVINO IR models in pure Python on NumPy, and see every value inside.

    \b
    irrun model.xml --input x.npy
    irrun model.xml --input a=a.npy --input b=b.npz:key --output result.npz
    irrun info model.xml

    `irrun MODEL ...` is short for `irrun run MODEL ...`.
    """


def main(args: list[str] | None = None) -> None:
    """Run the command line; errors are one line on stderr and exit code 2."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # a name that the terminal cannot show is no error
    with _interrupts() as interrupts:
        code = _outcome(args, interrupts)
    if code:
        sys.exit(code)


def _outcome(args: list[str] | None, interrupts: list[int]) -> int:
    """The exit code, once everything is said."""
    code = 0
    try:
        code = _group.main(args, prog_name="irrun", standalone_mode=False) or 0
        if sys.stdout is not None:
            sys.stdout.flush()
    except click.UsageError as error:
        code = 2
        if type(error).__name__ == "NoArgsIsHelpError":
            click.echo(error.format_message(), err=True)
        else:
            _complain(f"{error.format_message()} (see: {error.ctx.command_path if error.ctx else 'irrun'} --help)")
    except click.ClickException as error:
        code = _complain(error.format_message())
    except IrrunError as error:
        code = _complain(str(error))
    except (click.Abort, KeyboardInterrupt):
        _complain("stopped")
        code = 130
    except ImportError:
        if not interrupts:
            raise
        _complain("stopped")  # NumPy takes an interrupt while it is imported for a broken installation
        code = 130
    except BrokenPipeError:  # whoever reads has seen enough
        _drop_stdout()
        code = 1
    except MemoryError:
        code = _complain("out of memory")
    except OSError as error:
        code = _complain(f"cannot write the output: {error.strerror or error}")
        _drop_stdout()
    return code


@contextlib.contextmanager
def _interrupts() -> Iterator[list[int]]:
    """A list that grows with each Ctrl-C in this block."""
    received: list[int] = []

    def note(number: int, frame: Any) -> None:
        received.append(number)
        raise KeyboardInterrupt

    is_ours = threading.current_thread() is threading.main_thread()
    if not is_ours or signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        yield received
        return
    signal.signal(signal.SIGINT, note)
    try:
        yield received
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def _complain(text: str) -> int:
    with contextlib.suppress(OSError):
        click.echo(f"irrun: {to_one_line(text)}", err=True)
    return 2


def _drop_stdout() -> None:
    """What is still to be written goes nowhere, so that closing the stream at the end does not fail once more."""
    with contextlib.suppress(OSError, ValueError, AttributeError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
