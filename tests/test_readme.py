"""The README: its code runs, and its outputs are what the programs print."""

from __future__ import annotations

import contextlib
import io
import json
import re
import subprocess
import sys
import threading
import urllib.error
import urllib.request
from http.server import HTTPServer
from pathlib import Path

import pytest

import irrun
from irrun.cli import main

ROOT = Path(__file__).parent.parent
TEXT = (ROOT / "README.md").read_text(encoding="utf-8")
SECTIONS = dict(re.findall(r"^##+ (.+)\n((?:(?!^##).*\n?)*)", TEXT, re.MULTILINE))


def get_blocks(section):
    return re.findall(r"```python\n(.*?)```", SECTIONS[section], re.DOTALL)


def get_output(section):
    """Return the indented lines of a section that follow its first block of code."""
    lines = SECTIONS[section].partition("```\n\n")[2].splitlines()
    end = next(i for i, line in enumerate(lines) if line and not line.startswith("    "))
    return "\n".join(line[4:] for line in lines[:end]).strip()


def check_equal_up_to_rounding(printed, shown):
    """Compare texts, and the numbers in them with the precision that depends on the processor."""
    for actual, expected in zip(printed.split(), shown.split(), strict=True):
        try:
            assert float(actual) == pytest.approx(float(expected), rel=2e-5)
        except ValueError:
            assert actual == expected


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Change to a folder that contains the examples."""
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def run(code, names=None):
    """Run code and return what it prints."""
    output = io.StringIO()
    with contextlib.redirect_stdout(output):
        exec(code, {"__name__": "__main__"} if names is None else names)
    return output.getvalue()


@pytest.mark.usefixtures("folder")
def test_python_section_runs_and_prints_its_output():
    names: dict[str, object] = {}
    first, *others = get_blocks("Python")
    assert run(first, names).strip() == get_output("Python")
    for code in others:
        assert run(code, names) or "load_inputs" in code
    assert names["findings"] == []
    assert Path("part.xml").exists()


def test_first_commands_print_their_outputs(monkeypatch, capsys):
    monkeypatch.chdir(ROOT)
    lines = TEXT.splitlines()
    start = lines.index("    $ irrun examples/date_translation/model.xml --input examples/date_translation/input.npy")
    main(lines[start].split()[2:])
    shown = "\n".join(line[4:] for line in lines[start + 1 : lines.index("", start)])
    check_equal_up_to_rounding(capsys.readouterr().out, shown)
    start = lines.index('    $ python examples/date_translation/translate.py "may 3rd, 26"')
    command = [sys.executable, "examples/date_translation/translate.py", "may 3rd, 26"]
    process = subprocess.run(command, capture_output=True, text=True, check=True)
    assert process.stdout.splitlines()[0] == lines[start + 1].strip()


def test_recipe_for_text_generation(folder):
    (code,) = get_blocks("Generate text with a stateful model")
    text = run(code).strip()
    assert text.startswith("Once there was")
    assert len(text) > 40


def test_recipe_for_features_of_an_inner_layer(folder):
    (code,) = get_blocks("Use the features of an inner layer")
    assert run(code) == "(3, 128)\n"


def test_recipe_for_a_detector(data, folder):
    image = pytest.importorskip("PIL.Image")
    for suffix in ("xml", "bin"):
        (folder / f"detector.{suffix}").symlink_to(data / f"face-detection-retail-0004/ir11/model.{suffix}")
    (folder / "street.jpg").symlink_to(data / "street.jpg")
    (code,) = get_blocks("Draw the boxes of a detector")
    run(code)
    assert image.open("boxes.png").size == image.open("street.jpg").size


def test_recipe_for_a_server(folder, monkeypatch):
    servers: list[HTTPServer] = []
    monkeypatch.setattr(HTTPServer, "serve_forever", lambda server: servers.append(server))
    (code,) = get_blocks("Serve a model")
    run(code.replace("8000", "0"))
    (server,) = servers
    monkeypatch.undo()
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        url = f"http://127.0.0.1:{server.server_address[1]}"
        body = re.search(r"curl -d '(.*?)'", SECTIONS["Serve a model"])
        assert body is not None
        with urllib.request.urlopen(url, body[1].encode()) as response:
            answer = json.load(response)
        assert sorted(answer) == ["beams", "scores"]
        with pytest.raises(urllib.error.HTTPError) as error:
            urllib.request.urlopen(url, b'{"text": [[0.5]]}')
        assert "floats are not converted to i32" in json.load(error.value)["error"]
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@pytest.mark.usefixtures("folder")
def test_custom_operation_is_registered_and_passed():
    from irrun.ops._support import registry

    registered, passed = get_blocks("Custom operations")
    names: dict[str, object] = {"irrun": irrun}
    try:
        run(registered, names)
        assert registry.find("MyOp", "extension") is not None
        run(passed.replace('"model.xml"', '"examples/date_translation/model.xml"'), names)
    finally:
        registry._registry._extensions.pop(("extension", "MyOp"), None)


def test_every_command_and_option_exists(capsys):
    from irrun.cli import COMMANDS

    for name in re.findall(r"irrun ([a-z]+) ", SECTIONS["Command line"]):
        assert name in COMMANDS
    texts = []
    for name in COMMANDS:
        with contextlib.suppress(SystemExit):
            main([name, "--help"])
        texts.append(capsys.readouterr().out)
    for option in set(re.findall(r"(?<![\w-])--[a-z]+", SECTIONS["Command line"])):
        assert any(option in text for text in texts), option
