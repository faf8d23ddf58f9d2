"""The picture of the documentation shows what the commands print."""

from __future__ import annotations

import html
import re
import runpy
from pathlib import Path

FOLDER = Path(__file__).parents[2] / "docs" / "pictures"


def read_lines(svg: str) -> list[str]:
    """Return the lines of a picture; numbers and dashes are replaced, since they depend on the processor."""
    texts = re.findall(r'<text class="irrun-r\d+".*? y="([\d.]+)".*?>(.*?)</text>', svg)
    lines: dict[str, str] = {}
    for y, text in texts:
        lines[y] = lines.get(y, "") + html.unescape(text)
    return [" ".join(re.sub(r"-?\d+(\.\d*)?…?|─+", "0", line).split()) for line in lines.values()]


def test_picture_shows_what_the_commands_print():
    script = runpy.run_path(str(FOLDER / "make_pictures.py"))
    shown = read_lines((FOLDER / "irrun.svg").read_text(encoding="utf-8"))
    assert read_lines(script["make_picture"]()) == shown
    assert len(shown) > 20
    assert all(any(line.startswith(f"$ {command.split()[0]}") for line in shown) for command in script["COMMANDS"])
