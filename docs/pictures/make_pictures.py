"""Write irrun.svg, the picture of the documentation: commands and what they print, from a real run.

python docs/pictures/make_pictures.py
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import runpy
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from unittest import mock

from rich.console import Console
from rich.text import Text

from irrun.cli import main

__all__ = ["COMMANDS", "make_picture"]

EXAMPLE = Path(__file__).parents[2] / "examples" / "date_translation"
WIDTH = 104
#: Commands, and the number of lines of their outputs that the picture shows.
COMMANDS = {
    "irrun model.xml --input input.npy --trace 'encoder*'": 8,
    "irrun compare broken.xml model.xml --input input.npy": 13,
}


class _Terminal(io.StringIO):
    """A stream that claims to be a terminal."""

    encoding = "utf-8"

    def isatty(self) -> bool:
        return True


def run(command: str) -> str:
    """Run a command as on a terminal and return what it prints.

    Args:
        command: The command line.
    """
    terminal = _Terminal()
    variables = {"COLUMNS": str(WIDTH), "TERM": "xterm-256color", "FORCE_COLOR": "1"}
    with (
        mock.patch.dict(os.environ, variables),
        contextlib.redirect_stdout(terminal),
        contextlib.suppress(SystemExit),
    ):
        main(command.replace("'", "").split()[1:])
    return terminal.getvalue()


def make_picture() -> str:
    """Return the picture as SVG."""
    console = Console(record=True, width=WIDTH, file=io.StringIO(), force_terminal=True)
    with tempfile.TemporaryDirectory() as folder:
        for name in ("model.xml", "model.bin", "input.npy", "plant_bug.py"):
            shutil.copy(EXAMPLE / name, folder)
        with _change_folder(folder):
            with mock.patch("sys.argv", ["plant_bug.py", "broken.xml"]):
                runpy.run_path("plant_bug.py", run_name="__main__")
            for number, (command, count) in enumerate(COMMANDS.items()):
                lines = run(command).rstrip().splitlines()
                console.print(Text(("\n" if number else "") + f"$ {command}", style="bold green"))
                for line in lines[:count]:
                    console.print(Text.from_ansi(line), overflow="fold")
                if len(lines) > count:
                    console.print(Text("..."))
    svg = console.export_svg(title="irrun", unique_id="irrun")
    return re.sub(r"\s*@font-face \{.*?\}\s*", "\n    ", svg, flags=re.DOTALL)  # no fonts from the network


@contextlib.contextmanager
def _change_folder(folder: str) -> Iterator[None]:
    previous = os.getcwd()
    os.chdir(folder)
    try:
        yield
    finally:
        os.chdir(previous)


if __name__ == "__main__":
    path = Path(__file__).with_name("irrun.svg")
    path.write_text(make_picture(), encoding="utf-8")
    print(path)
