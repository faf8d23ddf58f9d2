"""Runs of the command line in the process of the tests."""

from __future__ import annotations

import pytest

from irrun.cli import main

__all__ = ["call"]


def call(capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[int | str | None, str, str]:
    """Run the command line and return the exit code, stdout and stderr."""
    code: int | str | None = 0
    try:
        main([str(a) for a in arguments])
    except SystemExit as stop:
        code = stop.code
    captured = capsys.readouterr()
    return code, captured.out, captured.err
