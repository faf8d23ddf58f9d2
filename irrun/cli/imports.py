"""The option --import, which runs Python files that register custom operations."""

from __future__ import annotations

import importlib.util
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

__all__ = ["import_file", "import_option"]

Command = TypeVar("Command", bound=Callable[..., Any])


def import_option(command: Command) -> Command:
    """Add the option --import to a command."""
    decorate = click.option(
        "--import",
        "files",
        multiple=True,
        type=click.Path(path_type=Path),
        metavar="FILE.py",
        expose_value=False,
        callback=_import_files,
        help="A Python file that registers custom operations with @irrun.op. It is executed.",
    )
    return decorate(command)


def _import_files(ctx: click.Context, parameter: click.Parameter, files: tuple[Path, ...]) -> None:
    if ctx.resilient_parsing:
        return
    for path in files:
        import_file(path)


def import_file(path: Path) -> None:
    """Execute a Python file as a module.

    Args:
        path: The file.

    Raises:
        click.BadParameter: The file does not exist, or raises an exception.
    """
    hint = "--import"
    if not path.is_file():
        raise click.BadParameter(f"expected a Python file, found {str(path)!r}", param_hint=hint)
    name = f"irrun_import_{path.stem}"
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise click.BadParameter(f"expected a file that ends in .py, found {str(path)!r}", param_hint=hint)
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    sys.path.insert(0, str(path.parent.resolve()))  # as for a script, so that the file can import its neighbors
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        frames = [frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename == str(path)]
        location = f"{path}:{frames[-1].lineno}" if frames else str(path)
        raise click.BadParameter(f"{location}: {type(error).__name__}: {error}", param_hint=hint) from error
    finally:
        sys.path.pop(0)
