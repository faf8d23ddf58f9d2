"""The public API is typed precisely: mypy accepts correct programs and rejects wrong ones."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = Path(__file__).parent / "typing" / "public_api.py"


def test_public_api_is_typed(tmp_path):
    pytest.importorskip("mypy")
    command = [
        sys.executable,
        "-m",
        "mypy",
        "--strict",
        "--warn-unused-ignores",
        "--cache-dir",
        str(tmp_path),
        str(PROGRAM),
    ]
    result = subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path)
    assert result.returncode == 0, result.stdout
