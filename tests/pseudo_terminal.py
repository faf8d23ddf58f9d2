"""Runs of the command line on a pseudo-terminal, and what is left on its screen."""

from __future__ import annotations

import contextlib
import json
import os
import re
import select
import struct
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

import pytest

__all__ = ["Result", "needs_terminal", "run_in_pipe", "run_in_terminal"]

needs_terminal = pytest.mark.skipif(sys.platform == "win32", reason="Windows has no pseudo-terminals in Python")

#: Separates the outputs of commands.
SEPARATOR = "\x1e"
#: Seconds after which a process that has not ended is an error. Emulated processes take minutes.
TIMEOUT = 1200
#: Runs commands in one process. A line is drawn soon, and runs of the plain program by observers are counted.
SCRIPT = f"""
import json, sys
if sys.stdin.isatty():
    import fcntl, termios
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)
from irrun.cli import main, progress
from irrun.runtime.executor import Executor

progress.DELAY, progress.INTERVAL = 0, 0.01
counts = [0]
run_observed = Executor._run_observed

def count(executor, values):
    counts[0] += 1
    return run_observed(executor, values)

Executor._run_observed = count
for arguments in json.loads(sys.argv[1]):
    code, counts[0] = 0, 0
    try:
        main(arguments)
    except SystemExit as stop:
        code = stop.code or 0
    sys.stderr.flush()
    print(f"{SEPARATOR}{{code}} {{counts[0]}}", flush=True)
"""


class Result(NamedTuple):
    """What a command did.

    Attributes:
        code: The exit code.
        lines: The lines that are left on the screen, or that it printed to the pipe.
        raw: All that it wrote.
        observed: The number of runs of programs, bodies included, with observers.
    """

    code: int
    lines: list[str]
    raw: str
    observed: int


def run_in_pipe(folder: Path, commands: Sequence[Sequence[str]]) -> list[Result]:
    """Run commands in one process whose stdout and stderr are one pipe.

    Args:
        folder: The working folder.
        commands: The arguments of each command.
    """
    process = subprocess.run(
        [sys.executable, "-c", SCRIPT, json.dumps(commands)],
        cwd=folder,
        env=_make_environment({}),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        timeout=TIMEOUT,
        check=True,
    )
    return _parse(process.stdout.decode())


def run_in_terminal(
    folder: Path,
    commands: Sequence[Sequence[str]],
    columns: int = 80,
    react: Callable[[str], str | None] = lambda text: None,
    **variables: str,
) -> list[Result]:
    """Run commands in one process on a terminal, which is their stdin, stdout and stderr.

    Args:
        folder: The working folder.
        commands: The arguments of each command.
        columns: The width of the terminal.
        react: Is passed all that was written so far, and returns what the user types then, once.
        **variables: Environment variables.
    """
    import fcntl
    import pty
    import termios

    main, terminal = pty.openpty()
    try:
        fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 40, columns, 0, 0))
        process = subprocess.Popen(
            [sys.executable, "-c", SCRIPT, json.dumps(commands)],
            cwd=folder,
            env=_make_environment({"TERM": "xterm-256color", **variables}),
            stdin=terminal,
            stdout=terminal,
            stderr=terminal,
            start_new_session=True,
        )
        os.close(terminal)
        text = _read(main, process, react)
    finally:
        os.close(main)
    return _parse(text)


def _read(main: int, process: subprocess.Popen[bytes], react: Callable[[str], str | None]) -> str:
    """Return all that a process writes to its terminal."""
    content = b""
    typed: str | None = None
    end = time.monotonic() + TIMEOUT
    try:
        while True:
            if select.select([main], [], [], 0.1)[0]:
                try:
                    part = os.read(main, 1 << 16)
                except OSError:  # on Linux, the end of the process
                    part = b""
                if not part:
                    break
                content += part
            elif process.poll() is not None:
                break
            assert time.monotonic() < end, content.decode(errors="replace")
            if typed is None:
                typed = react(content.decode(errors="replace"))
                if typed is not None:
                    os.write(main, typed.encode())
        process.wait(TIMEOUT)
    finally:
        with contextlib.suppress(OSError):
            process.kill()
        process.wait()
    return content.decode()


def _make_environment(variables: dict[str, str]) -> dict[str, str]:
    removed = ("COLUMNS", "LINES", "NO_COLOR", "FORCE_COLOR", "TERM")
    own = {name: value for name, value in os.environ.items() if name not in removed}
    path = os.pathsep.join(filter(None, (str(Path(__file__).parents[1]), own.get("PYTHONPATH", ""))))
    return {**own, "PYTHONIOENCODING": "utf-8", "PYTHONPATH": path, **variables}


def _parse(text: str) -> list[Result]:
    """Return the results of the commands from what they wrote."""
    results = []
    *parts, rest = re.split(rf"{SEPARATOR}(\d+ \d+)\r?\n", text)
    assert not rest.strip("\r\n "), rest
    for raw, numbers in zip(parts[::2], parts[1::2], strict=True):
        code, observed = map(int, numbers.split())
        lines = [_render(line) for line in raw.replace("\r\n", "\n").split("\n")]
        assert not lines[-1], f"the command left {lines[-1]!r} in the line where the next one starts"
        results.append(Result(code, lines[:-1], raw, observed))
    return results


def _render(line: str) -> str:
    """Return what is left of a line on the screen after carriage returns; other controls are an error."""
    assert "\x1b" not in line, f"{line!r} changes the terminal"
    shown: list[str] = []
    for part in line.split("\r"):
        shown[: len(part)] = part
    return "".join(shown).rstrip()
