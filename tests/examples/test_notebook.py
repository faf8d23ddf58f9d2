"""The example notebook: it runs, and its stored outputs are up to date."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[2] / "examples/date_translation"
NOTEBOOK = FOLDER / "inspection.ipynb"
#: What differs between runs: times, and what is computed from them.
VARIABLE = re.compile(r"[\d.]+ (ms|KB|GFLOP/s|GB/s)|[\d.]+%")


def read_cells(path=NOTEBOOK):
    return [cell for cell in json.loads(path.read_text(encoding="utf-8"))["cells"] if cell["cell_type"] == "code"]


def get_texts(cell):
    """Return the outputs of a cell as plain text."""
    texts = [o["text"] if o["output_type"] == "stream" else o["data"]["text/plain"] for o in cell["outputs"]]
    return [VARIABLE.sub("…", "".join(text)) for text in texts]


def test_stored_outputs_are_complete_and_free_of_paths_and_scripts():
    cells = read_cells()
    assert [cell["execution_count"] for cell in cells] == list(range(1, len(cells) + 1))
    assert all(cell["outputs"] for cell in cells)
    text = NOTEBOOK.read_text(encoding="utf-8")
    assert len(text) < 100_000
    assert "<script" not in text
    assert not re.search(r"/(home|root|tmp|Users|work)/", text)
    assert {o["output_type"] for cell in cells for o in cell["outputs"]} <= {"execute_result", "stream"}


def test_run_has_the_stored_outputs():
    nbclient = pytest.importorskip("nbclient", reason="the notebook is executed with nbclient")
    pytest.importorskip("ipykernel", reason="the notebook is executed with ipykernel")
    nbformat = pytest.importorskip("nbformat")
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    client = nbclient.NotebookClient(notebook, timeout=120, resources={"metadata": {"path": str(FOLDER)}})
    client.execute()
    stored = read_cells()
    actual = [cell for cell in notebook.cells if cell["cell_type"] == "code"]
    groups = stored.pop()  # the order of types depends on the times
    assert [get_texts(cell) for cell in actual[:-1]] == [get_texts(cell) for cell in stored]
    assert len(get_texts(actual[-1])) == len(get_texts(groups)) == 1
    shown = [o["data"]["text/html"] for cell in actual for o in cell["outputs"] if "text/html" in o.get("data", {})]
    assert len(shown) == 5
    assert all(text.startswith("<div") for text in shown)
