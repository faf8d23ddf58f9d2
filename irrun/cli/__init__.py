"""The command line: one module per command, each imported when it is called."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

import click

from irrun.errors import IrrunError

__all__ = ["main"]

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

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if args and args[0] not in COMMANDS and _names_model(args):
            args = ["run", *args]
        return super().parse_args(ctx, args)


def _names_model(args: list[str]) -> bool:
    first = args[0]
    if first.startswith("-"):
        return first not in ("--help", "--version", "-h") and any(a.endswith(".xml") for a in args)
    return first.endswith(".xml") or Path(first).exists() or "/" in first


@click.group(cls=_Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="irrun", prog_name="irrun")
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
    try:
        code = _group.main(args, prog_name="irrun", standalone_mode=False)
        if code:
            sys.exit(code)
    except click.UsageError as error:
        if error.ctx is not None and type(error).__name__ != "NoArgsIsHelpError":
            click.echo(f"irrun: {error.format_message()} (see: {error.ctx.command_path} --help)", err=True)
        else:
            click.echo(error.format_message(), err=True)
        sys.exit(2)
    except click.ClickException as error:
        click.echo(f"irrun: {error.format_message()}", err=True)
        sys.exit(2)
    except IrrunError as error:
        click.echo(f"irrun: {error}", err=True)
        sys.exit(2)
    except (click.Abort, KeyboardInterrupt):
        click.echo("irrun: stopped", err=True)
        sys.exit(130)
    except BrokenPipeError:
        sys.stderr.close()
        sys.exit(1)
    except MemoryError:
        click.echo("irrun: out of memory", err=True)
        sys.exit(2)
