"""Interrupts while the command line starts."""

from __future__ import annotations

import subprocess
import sys

import pytest


@pytest.mark.parametrize(("file", "arguments"), [("tool.py", ["tool.py"]), ("tool/__main__.py", ["-m", "tool"])])
def test_programs_that_import_the_command_line_keep_their_handler_of_interrupts(tmp_path, file, arguments):
    path = tmp_path / file
    path.parent.mkdir(exist_ok=True)
    check = "assert signal.getsignal(signal.SIGINT) is signal.default_int_handler"
    path.write_text(f"import signal, irrun.cli\n{check}\nprint('kept')\n")
    process = subprocess.run([sys.executable, *arguments], cwd=tmp_path, capture_output=True, text=True)
    assert (process.stdout, process.stderr, process.returncode) == ("kept\n", "", 0)
