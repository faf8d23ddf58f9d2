"""`irrun upgrade`: an old IR as one that today's OpenVINO reads."""

from __future__ import annotations

from pathlib import Path

import click

__all__ = ["command"]


@click.command("upgrade")
@click.argument("model", type=click.Path(path_type=Path))
@click.option("-o", "--output", type=click.Path(path_type=Path), required=True, help="The .xml to write.")
@click.option("-w", "--weights", type=click.Path(path_type=Path), help="The .bin, if not beside the model.")
def command(model: Path, output: Path, weights: Path | None) -> None:
    """Write MODEL, an IR of any version, as IR v11, which today's OpenVINO reads and runs.

    \b
    irrun upgrade old.xml -o new.xml
    """
    from irrun.cli import refuse_to_replace
    from irrun.errors import escape_unprintable
    from irrun.ir.reader import read_model
    from irrun.ir.writer import save_model
    from irrun.runtime.lowering import unsupported_error

    refuse_to_replace(model, weights, output)
    old = read_model(model, weights)
    lacking = unsupported_error(old)
    if lacking is not None:
        raise lacking
    xml, binary = save_model(old, output)
    click.echo(escape_unprintable(f"wrote {xml} (IR v11, from v{old.source_version}) and {binary}"))
