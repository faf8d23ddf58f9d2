"""The files that a command reads and writes, so that it never overwrites its inputs."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import click

from irrun.atomic_files import check_not_overwriting
from irrun.errors import InputError

__all__ = ["check_outputs", "find_sources", "note_sources"]

#: Parameters that name output files.
OUTPUTS = ("output", "dump", "chrome", "junit", "ignored_scope")
#: Parameters that may name a folder whose files are read as values.
REFERENCES = ("against", "compared", "positional")

#: Maximum position of the "=" after a name in an argument, in characters.
MAX_NAME = 4096
#: Key of the files in a context that no parameter holds.
_NOTED = "irrun.sources"


def note_sources(ctx: click.Context, paths: tuple[Path, ...]) -> None:
    """Record files that a command reads but none of its parameters names."""
    ctx.meta.setdefault(_NOTED, []).extend(paths)


def find_sources(ctx: click.Context) -> list[str | Path | int]:
    """Return the files that the arguments of a command may name as inputs; some may not exist.

    Args:
        ctx: The context of the command, with its arguments.
    """
    found: list[str | Path | int] = list(ctx.meta.get(_NOTED, ()))
    for name, value in ctx.params.items():
        if name in OUTPUTS:
            continue
        for item in value if isinstance(value, tuple) else (value,):
            if isinstance(item, (str, Path)):
                found += _list_files(str(item), name)
        if name == "model" and ctx.params.get("weights") is not None:
            found = [path for path in found if path != value.with_suffix(".bin")]
    return found


def check_outputs(ctx: click.Context) -> None:
    """Check before a run that a command does not write to any of the files that `keep_files` protects.

    Args:
        ctx: The context of the command, with its arguments.

    Raises:
        click.BadParameter: An output is one of these files.
    """
    for name in OUTPUTS:
        value = ctx.params.get(name)
        if not isinstance(value, (str, Path)):
            continue
        path = Path(value)
        try:
            check_not_overwriting([path, *([path.with_suffix(".bin")] if path.suffix.lower() == ".xml" else [])])
        except InputError as error:
            raise click.BadParameter(str(error), param_hint=f"--{name.replace('_', '-')}") from None


def _list_files(text: str, name: str) -> Iterator[str | Path | int]:
    """Yield the files that an argument may name, such as `file.npz:key` or `name=file.npy`."""
    for start in [0, *(match.end() for match in re.finditer("=", text[:MAX_NAME]))]:
        part = text[start:]
        yield part
        if part == "-" and sys.stdin is not None:
            yield _get_descriptor()
        if part.lower().endswith(".xml"):
            yield Path(part).with_suffix(".bin")
        member = re.fullmatch(r"(.*\.npz):.+", part, re.DOTALL)
        if member:
            yield member[1]
        if name in REFERENCES and os.path.isdir(part):
            yield from Path(part).iterdir()


def _get_descriptor() -> int | str:
    """Return the descriptor of stdin, or "" if it has none."""
    try:
        return sys.stdin.fileno()
    except (OSError, ValueError):
        return ""
