"""Files with custom operations are executed as they are now."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from irrun.errors import InputError
from irrun.imports import import_file


def test_changes_that_keep_the_time_and_the_size_of_a_file_are_seen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    path = tmp_path / "operations.py"
    for value in (1, 2):
        path.write_text(f"number = {value}\n")
        os.utime(path, (1, 1))
        module = import_file(path)
        assert module.number == value
    assert [entry.name for entry in tmp_path.iterdir()] == ["operations.py"]


def test_files_import_their_neighbors(tmp_path: Path) -> None:
    (tmp_path / "neighbor_of_operations.py").write_text("number = 7\n")
    (tmp_path / "operations.py").write_text("from neighbor_of_operations import number\n")
    before = list(sys.path)
    assert import_file(tmp_path / "operations.py").number == 7
    assert sys.path == before


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("operations.txt", "", r"expected a file that ends in \.py, found '.*operations\.txt'"),
        ("operations.py", "x = 1\nx.missing\n", r"operations\.py:2: AttributeError: .*missing"),
        ("operations.py", "import sys\nsys.exit(3)\n", r"operations\.py:2: SystemExit: 3"),
        ("operations.py", "x =\n", r"operations\.py: SyntaxError: invalid syntax"),
    ],
)
def test_invalid_files_are_reported(name: str, text: str, message: str, tmp_path: Path) -> None:
    (tmp_path / name).write_text(text)
    with pytest.raises(InputError, match=message):
        import_file(tmp_path / name)
    with pytest.raises(InputError, match="expected a Python file, found '"):
        import_file(tmp_path / "missing.py")
