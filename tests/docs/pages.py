"""Blocks of code of Markdown pages, and their execution.

A page is executed from top to bottom in one folder. Python blocks share one namespace; a `text` block that directly
follows one is its output. In `console` blocks, `$ ` starts a command, a line after a `\\` continues it, and the
lines up to the next command are its output; without such lines the output is not compared. Further rules:

- `...` on a line of its own stands for any number of lines of an output.
- Times and the width of columns are not compared. Numbers may differ in the last digit that is printed.
- `(irrun) command` in an output is a command of the debugger, which is passed to its standard input.
- A command that prints an error starts its output with `irrun: `; all others must not exit with 2.

A comment before a block changes this:

- `<!-- test: requires openvino, dask -->` skips the block where a package is missing.
- `<!-- test: skip, REASON -->` never runs the block.
"""

from __future__ import annotations

import contextlib
import importlib.util
import io
import json
import os
import re
import runpy
import shlex
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from irrun.cli import main

__all__ = ["Block", "Command", "Page", "compare_outputs", "parse_commands", "read_blocks"]

#: The relative difference of results that rounding on another processor may cause.
TOLERANCE = 1e-4
LANGUAGES = ("bash", "console", "json", "python", "text", "toml", "xml")

_FENCE = re.compile(r"^(```+)([\w{}]*)[^\n]*\n(.*?)^\1[ \t]*$", re.MULTILINE | re.DOTALL)
_COMMENT = re.compile(r"<!-- test: (\w+),? (.+?) -->\s*\Z", re.DOTALL)
_TIME = re.compile(r"(?<![\w.])[\d.]+ (?:ns|us|µs|ms|s|min)\b")
_PROMPT = re.compile(r"^(\(irrun\) |\(Pdb\) )(.*)\n?", re.MULTILINE)


@dataclass(frozen=True)
class Block:
    """A fenced block of a page.

    Attributes:
        language: The word after the fence.
        text: The content.
        line: The line of the fence.
        directive: "requires" or "skip", or empty.
        argument: The packages that are required, or the reason for skipping.
        follows: Whether only empty lines separate it from the block before it.
    """

    language: str
    text: str
    line: int
    directive: str = ""
    argument: str = ""
    follows: bool = False

    def find_missing_package(self) -> str | None:
        """Return a required package that is not installed."""
        names = re.split(r",\s*", self.argument) if self.directive == "requires" else []
        return next((name for name in names if importlib.util.find_spec(name) is None), None)


@dataclass(frozen=True)
class Command:
    """A command of a `console` block, its standard input and its output as shown."""

    line: str
    output: str
    stdin: str


def read_blocks(text: str) -> list[Block]:
    """Return the fenced blocks of a page in order; directives of MyST such as `{toctree}` are omitted."""
    blocks, end = [], 0
    for match in _FENCE.finditer(text):
        comment = _COMMENT.search(text[end : match.start()])
        directive, argument = comment.groups() if comment else ("", "")
        follows = not text[end : match.start()].strip()
        if not match[2].startswith("{"):
            line = text.count("\n", 0, match.start()) + 1
            blocks.append(Block(match[2], match[3], line, directive, argument, follows))
        end = match.end()
    return blocks


def parse_commands(text: str) -> list[Command]:
    """Return the commands of a `console` block."""
    commands = []
    for part in re.split(r"^\$ ", text, flags=re.MULTILINE)[1:]:
        lines = part.splitlines()
        count = next(i for i, line in enumerate(lines, 1) if not line.endswith("\\"))
        output = "\n".join(lines[count:]).strip("\n")
        stdin = "".join(f"{command}\n" for _, command in _PROMPT.findall(output))
        command = "\n".join(lines[:count]).replace("\\\n", " ")
        commands.append(Command(command, _PROMPT.sub(r"\1", output), stdin))
    return commands


def compare_outputs(actual: str, expected: str) -> None:
    """Compare an output with the one that a page shows."""
    lines = [_normalize(line) for line in actual.strip("\n").splitlines()]
    shown = [_normalize(line) for line in expected.strip("\n").splitlines()]
    assert _match(lines, shown), f"the output is\n{actual}\nexpected\n{expected}"


def _normalize(line: str) -> str:
    return " ".join(_TIME.sub("TIME", line).split())


def _match(lines: list[str], shown: list[str]) -> bool:
    """Return whether lines match the lines of a page, where `...` matches any number of lines."""
    if not shown:
        return not lines
    if shown[0] == "...":
        return any(_match(lines[i:], shown[1:]) for i in range(len(lines) + 1))
    return bool(lines) and _match_line(lines[0], shown[0]) and _match(lines[1:], shown[1:])


def _match_line(line: str, shown: str) -> bool:
    pattern = r"-?\d+(?:\.\d+)?(?:e[-+]?\d+)?"
    if re.sub(pattern, "0", line) != re.sub(pattern, "0", shown):
        return False
    return all(map(_match_number, re.findall(pattern, line), re.findall(pattern, shown)))


def _match_number(text: str, shown: str) -> bool:
    if text == shown:
        return True
    if "." not in text + shown:
        return False
    digits = max(len(number.partition("e")[0].partition(".")[2]) for number in (text, shown))
    exponent = int(shown.partition("e")[2] or 0)
    allowed = TOLERANCE * abs(float(shown)) + 1.001 * 10.0 ** (exponent - digits)
    return abs(float(text) - float(shown)) <= allowed


@dataclass
class Page:
    """The execution of a page.

    Args:
        port: The port that replaces 8000.

    Attributes:
        names: The namespace of the Python blocks.
        skipped: Why blocks did not run.
    """

    port: int
    names: dict[str, Any] = field(default_factory=lambda: {"__name__": "__main__"})
    skipped: list[str] = field(default_factory=list)

    def run(self, blocks: list[Block]) -> None:
        """Run blocks in the current folder."""
        printed: str | None = None
        for block in blocks:
            missing = block.find_missing_package()
            if block.directive == "skip" or missing:
                self.skipped.append(f"line {block.line}: {missing or block.argument}")
                printed = None
                continue
            try:
                printed = self._run_block(block, printed)
            except BaseException as error:
                if isinstance(error, KeyboardInterrupt):
                    raise
                raise AssertionError(f"line {block.line}: {type(error).__name__}: {error}\n{block.text}") from error

    def _run_block(self, block: Block, printed: str | None) -> str | None:
        """Run a block and return what it prints if it is a block of Python."""
        assert block.language in LANGUAGES, f"expected one of {LANGUAGES}, found {block.language!r}"
        if block.language == "python":
            with _redirect_output() as output:
                code = block.text.replace("8000", str(self.port))
                exec(compile(code, f"<block in line {block.line}>", "exec"), self.names)
            return output.getvalue()
        if block.language == "console":
            commands = parse_commands(block.text)
            assert commands, "a console block contains no command; commands start with '$ '"
            for command in commands:
                self._run_command(command)
        elif block.language == "bash":
            run_bash(block.text)
        elif block.language == "json":
            json.loads(block.text)
        elif block.language == "text" and block.follows and printed is not None:
            compare_outputs(printed, block.text)
        return None

    def _run_command(self, command: Command) -> None:
        with _redirect_output(command.stdin) as output:
            code = run_command(command.line.replace("8000", str(self.port)))
        assert code in ((2,) if command.output.startswith("irrun: ") else (0, 1)), (
            f"exit code {code}: {output.getvalue()}"
        )
        if command.output:
            compare_outputs(output.getvalue(), command.output)


@contextlib.contextmanager
def _redirect_output(stdin: str = "") -> Iterator[io.StringIO]:
    output, arguments, original = io.StringIO(), sys.argv, sys.stdin
    try:
        sys.stdin = io.StringIO(stdin)
        with contextlib.redirect_stdout(output), contextlib.redirect_stderr(output):
            yield output
    finally:
        sys.argv, sys.stdin = arguments, original


def run_bash(text: str) -> None:
    """Run a script in bash, which must be silent."""
    process = subprocess.run(["bash", "-c", text], capture_output=True, text=True)
    assert (process.returncode, process.stdout, process.stderr) == (0, "", "")


def run_command(line: str) -> int:
    """Run a command of the shell in this process and return its exit code."""
    code = 0
    for part in line.split("&&"):
        program, *arguments = shlex.split(part, comments=True)
        stdin = sys.stdin
        try:
            if "<" in arguments:
                position = arguments.index("<")
                sys.stdin = io.TextIOWrapper(io.BytesIO(Path(arguments[position + 1]).read_bytes()))
                del arguments[position : position + 2]
            if program == "irrun":
                main(arguments)
            elif program == "python" and arguments[0] == "-m":
                sys.argv = arguments[1:]
                runpy.run_module(arguments[1], run_name="__main__")
            elif program == "python":
                sys.argv = arguments
                runpy.run_path(arguments[0], run_name="__main__")
            elif program == "cd":
                os.chdir(arguments[0])
            elif program == "curl":
                assert arguments[0] == "-d"
                with urllib.request.urlopen(arguments[2], arguments[1].encode()) as response:
                    print(response.read().decode())
            else:
                raise AssertionError(f"{program!r} is not run here: {Path.cwd()}")
        except SystemExit as exit:
            code = int(exit.code or 0)
        finally:
            sys.stdin = stdin
        if code:
            break
    return code
