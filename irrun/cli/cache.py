"""`irrun cache`: show or clear the compiled kernels on disk."""

from __future__ import annotations

import json

import click

from irrun.cli import ExampleCommand

__all__ = ["command"]


@click.command("cache", cls=ExampleCommand, examples=["irrun cache", "irrun cache --clear"])
@click.option("--clear", is_flag=True, help="Remove all kernels.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def command(clear: bool, as_json: bool) -> None:
    """Show the compiled kernels stored on disk, or remove them.

    With the extra jit, kernels are compiled once per version of irrun and LLVM and per processor, and stored in the
    user's cache folder, or in IRRUN_CACHE_DIR. With --jit auto, a model uses them once all of its kernels have been
    compiled. If they exceed 512 MiB, the least recently used ones are removed.
    """
    from irrun.errors import InputError
    from irrun.fast.jit import cache
    from irrun.limits import format_size

    try:
        folder = cache.get_folder()
        removed = cache.clear() if clear else None
    except (OSError, RuntimeError) as error:  # no home folder, or no permission
        raise InputError(f"cannot remove the compiled kernels: {error}" if clear else str(error)) from error
    groups = cache.list_groups()
    if as_json:
        result = {
            "folder": str(folder),
            "max_bytes": cache.MAX_BYTES,
            "targets": [
                {"target": group.name, "kernels": group.kernels, "models": group.programs, "bytes": group.size}
                for group in groups
            ],
        }
        if removed is not None:
            result["removed"] = {"files": removed.files, "bytes": removed.size}
        click.echo(json.dumps(result))
        return
    if removed is not None:
        click.echo(f"removed {removed.files} files ({format_size(removed.size)}) from {folder}")
        return
    total = sum(group.size for group in groups)
    click.echo(f"{folder}: {format_size(total)} of at most {format_size(cache.MAX_BYTES)}")
    for group in groups:
        name = group.name or "older versions of irrun"
        models = f", complete for {group.programs} models" if group.programs else ""
        click.echo(f"  {name}: {group.kernels} kernels, {format_size(group.size)}{models}")
