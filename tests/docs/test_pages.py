"""Every block of code in the README and in docs/ runs, and prints what the page shows."""

from __future__ import annotations

import json
import os
import re
import shutil
import socket
import sys
import threading
import urllib.error
import urllib.request
from http.server import HTTPServer
from pathlib import Path

import pytest

import irrun
from docs.files import write_files
from docs.pages import Page, compare_outputs, parse_commands, read_blocks
from irrun.ops._support import autoload, registry

ROOT = Path(__file__).parents[2]
PAGES = ["README.md", *sorted(p.relative_to(ROOT).as_posix() for p in (ROOT / "docs").glob("*.md"))]
PAGES += sorted(p.relative_to(ROOT).as_posix() for p in (ROOT / "examples").glob("*/README.md"))
#: What needs an extra in blocks of code -> the extra.
EXTRAS = {
    r"\bopenvino\b": "openvino",
    r"\.jpg\b|from PIL|\bimages/": "images",
    r"irrun map\b|map_batches": "dask",
    r"\.safetensors\b": "safetensors",
    r"--jit on|jit=True": "jit",
}
#: Pages whose blocks other tests run, some in processes of their own.
RUN_ELSEWHERE = {"docs/openvino_faults.md": "tests/conformance/test_faults.py"}
#: How many blocks in all pages may be exempt from running.
MAX_SKIPPED = 12


@pytest.fixture(scope="session")
def files(tmp_path_factory):
    pytest.importorskip("openvino")
    pytest.importorskip("PIL")
    folder = tmp_path_factory.mktemp("docs") / "files"
    folder.mkdir()
    write_files(folder)
    return folder


@pytest.fixture
def folder(files, tmp_path, monkeypatch):
    """Change to a folder with the example files, a server that ends with the test, and a registry of its own."""
    path = tmp_path / "work"
    shutil.copytree(files, path)
    shutil.copytree(ROOT / "examples", path / "examples", ignore=shutil.ignore_patterns("__pycache__"))
    monkeypatch.chdir(path)
    # Commands that irrun starts, such as `python`, come from this environment.
    monkeypatch.setenv("PATH", str(Path(sys.executable).parent), prepend=os.pathsep)
    autoload.load_all()  # what is loaded later would be lost
    monkeypatch.setattr(registry._registry, "_extensions", dict(registry._registry._extensions))
    servers: list[HTTPServer] = []

    def serve(server: HTTPServer) -> None:
        servers.append(server)
        threading.Thread(target=serve_forever, args=(server,), daemon=True).start()

    serve_forever = HTTPServer.serve_forever
    monkeypatch.setattr(HTTPServer, "serve_forever", serve)
    yield path
    for server in servers:
        server.shutdown()
        server.server_close()


@pytest.fixture
def port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


@pytest.mark.parametrize("name", [name for name in PAGES if name not in RUN_ELSEWHERE])
@pytest.mark.usefixtures("folder")
def test_blocks_of_page_run_and_print_their_outputs(name, port):
    page = Page(port)
    page.run(read_blocks((ROOT / name).read_text(encoding="utf-8")))
    if name.endswith("recipes.md"):
        check_server(f"http://127.0.0.1:{port}")


def check_server(url: str) -> None:
    """Check the answers of the server of the recipe."""
    request = b'{"text": [[51, 32, 109, 97, 121, 32, 50, 54]]}'
    with urllib.request.urlopen(url, request) as response:
        assert sorted(json.load(response)) == ["beams", "scores"]
    with pytest.raises(urllib.error.HTTPError) as error:
        urllib.request.urlopen(url, b'{"text": [[0.5]]}')
    assert "floats are not converted to i32" in json.load(error.value)["error"]


def test_readme_has_the_two_commands_that_every_commit_must_pass():
    """`.ci/run` finds them by their first words, and runs them in this order."""
    script = (ROOT / ".ci" / "run").read_text(encoding="utf-8")
    assert r"sed -n 's/^\$ \(pip install .*\)/\1/p' README.md" in script
    first, second = re.findall(r"^\$ (pip install .*)", (ROOT / "README.md").read_text(encoding="utf-8"), re.MULTILINE)
    example = "examples/date_translation"
    assert first == f"pip install -e . && irrun {example}/model.xml --input {example}/input.npy"
    assert second == "pip install -e '.[test]' && pytest -n auto"


def test_readme_is_short():
    assert len((ROOT / "README.md").read_text(encoding="utf-8").splitlines()) <= 120


def test_few_blocks_are_exempt_and_each_has_a_reason():
    blocks = [block for name in PAGES for block in read_blocks((ROOT / name).read_text(encoding="utf-8"))]
    skipped = [block.argument for block in blocks if block.directive == "skip"]
    assert len(skipped) <= MAX_SKIPPED
    assert all(len(reason.split()) > 2 for reason in skipped)
    assert {block.directive for block in blocks} <= {"", "skip", "requires"}


@pytest.mark.parametrize("name", PAGES)
def test_code_is_in_fenced_blocks(name):
    """Indented blocks have no language, so that they would not be tested."""
    text = re.sub(r"^(```+).*?^\1", "", (ROOT / name).read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    assert not re.findall(r"(?<=\n\n)    (?:\$ |irrun |python |pip |import ).*", text)


@pytest.mark.usefixtures("folder")
def test_json_of_comparison_has_the_keys_that_the_page_shows():
    text = (ROOT / "docs/inspection.md").read_text(encoding="utf-8")
    (shown,) = [json.loads(block.text) for block in read_blocks(text) if block.language == "json"]
    from irrun.inspection import compare

    actual = compare("model.xml", "other.xml", irrun.load_inputs(["x.npy"], irrun.read_model("model.xml").inputs))
    check_keys(shown, json.loads(json.dumps(actual.to_json())))


def check_keys(shown: object, actual: object) -> None:
    """Check that a JSON value has the keys of another one."""
    if isinstance(shown, dict):
        assert isinstance(actual, dict)
        assert shown.keys() <= actual.keys()
        for key in shown:
            check_keys(shown[key], actual[key])
    elif isinstance(shown, list) and shown:
        assert isinstance(actual, list)
        check_keys(shown[0], actual[0])


@pytest.mark.parametrize("name", PAGES)
def test_sections_name_the_extras_that_their_code_needs(name):
    text = (ROOT / name).read_text(encoding="utf-8")
    # Pages of reproductions name what all of them need once.
    for section in [text] if name in RUN_ELSEWHERE else re.split(r"^#+ ", text, flags=re.MULTILINE):
        code = "\n".join(b.text for b in read_blocks(section) if b.directive != "skip" and b.language != "text")
        needed = [extra for pattern, extra in EXTRAS.items() if re.search(pattern, code.replace("irrun.openvino", ""))]
        named = re.sub(r"^(```+).*?^\1", "", section, flags=re.MULTILINE | re.DOTALL)
        missing = [extra for extra in needed if not re.search(rf"extra\s+`{extra}`|\[{extra}\]", named)]
        assert not missing, f"{section.partition(chr(10))[0]}: the text does not name the extra of {missing}"


class TestOutputs:
    """The comparison of outputs can fail."""

    @pytest.mark.parametrize(
        ("actual", "shown"),
        [
            ("a  1.0", "a 1.0"),
            ("0.12 ms", "317 ms"),
            ("1.2345", "1.2346"),
            ("-9.10189", "-9.1019"),
            ("a\nb\nc\nd", "a\n...\nd"),
            ("a", "a\n..."),
        ],
    )
    def test_equal_outputs_are_accepted(self, actual, shown):
        compare_outputs(actual, shown)

    @pytest.mark.parametrize(
        ("actual", "shown"),
        [("a", "b"), ("1.25", "1.28"), ("3", "4"), ("a\nb", "a"), ("a", "a\n...\nb"), ("", "a"), ("1.0", "-1.0")],
    )
    def test_other_outputs_are_refused(self, actual, shown):
        with pytest.raises(AssertionError, match="expected"):
            compare_outputs(actual, shown)

    def test_commands_and_inputs_of_the_debugger_are_separated(self):
        first, second = parse_commands(
            "$ irrun a.xml \\\n  --json\n$ irrun debug\nstop\n(irrun) p x\n1\n(irrun) c\nend"
        )
        assert (first.line, first.output) == ("irrun a.xml    --json", "")
        assert (second.output, second.stdin) == ("stop\n(irrun) 1\n(irrun) end", "p x\nc\n")
