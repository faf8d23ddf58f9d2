"""The option --import, which runs Python files that register custom operations."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from irrun.cli import RunOption
from irrun.cli.inputs import FilePath
from irrun.cli.overwriting import note_sources

__all__ = ["import_and_pass_option", "import_option"]

Command = TypeVar("Command", bound=Callable[..., Any])


def import_option(command: Command) -> Command:
    """Add the option --import to a command."""
    return _create_option("It is executed.", is_passed=False)(command)


def import_and_pass_option(command: Command) -> Command:
    """Add the option --import, with the parameter `files`, to a command with workers that import the files too."""
    return _create_option("It is executed in each worker.", is_passed=True)(command)


def _create_option(remark: str, is_passed: bool) -> Callable[[Command], Command]:
    return click.option(
        "--import",
        "files",
        cls=RunOption,
        multiple=True,
        type=FilePath(".py"),
        metavar="FILE.py",
        expose_value=is_passed,
        callback=_import_files,
        help=f"A Python file that registers custom operations with @irrun.op. {remark}",
    )


def _import_files(ctx: click.Context, parameter: click.Parameter, files: tuple[Path, ...]) -> tuple[Path, ...]:
    from irrun.errors import InputError
    from irrun.imports import import_file

    if not ctx.resilient_parsing:
        note_sources(ctx, files)
        for path in files:
            try:
                import_file(path)
            except InputError as error:
                raise click.BadParameter(str(error), param_hint="--import") from error
    return files
