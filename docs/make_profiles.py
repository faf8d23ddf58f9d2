"""Write the tables of profile.md that compare irrun with OpenVINO.

    PYTHONPATH=benchmarks python docs/make_profiles.py

It requires OpenVINO and the networks of benchmarks/zoo.py, and an idle machine.
"""

from __future__ import annotations

import contextlib
import io
import re
from pathlib import Path

import zoo

from irrun.cli import main

PAGE = Path(__file__).with_name("profile.md")
NETWORKS = {"resnet50": "ResNet-50", "mobilenet_v2": "MobileNetV2", "bert_base": "BERT-base, 128 tokens"}
START, END = "<!-- tables -->\n", "<!-- end of tables -->\n"


def make_table(name: str) -> str:
    """Return what `irrun profile --against openvino` prints for a network, from the line of OpenVINO on."""
    path = zoo.fetch(name)
    output = io.StringIO()
    with contextlib.redirect_stdout(output):
        options = ("--runs", "20", "--threads", "2", "--against", "openvino", "--by", "type")
        main(["profile", str(path), "--input", str(path.with_name("inputs.npz")), *options])
    lines = output.getvalue().splitlines()
    first = next(i for i, line in enumerate(lines) if line.startswith("OpenVINO "))
    return "\n".join([line for line in lines[:4] if line.startswith(("Profile", "This", "The "))] + lines[first:])


def update() -> None:
    """Replace the tables of the page."""
    sections = [f"### {title}\n\n```text\n{make_table(name)}\n```\n" for name, title in NETWORKS.items()]
    text = PAGE.read_text(encoding="utf-8")
    pattern = re.compile(f"(?<={re.escape(START)}).*(?={re.escape(END)})", re.DOTALL)
    tables = "\n" + "\n".join(sections) + "\n"
    PAGE.write_text(pattern.sub(lambda _: tables, text), encoding="utf-8")


if __name__ == "__main__":
    update()
