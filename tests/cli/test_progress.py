"""The line that shows the progress of a long command."""

from __future__ import annotations

import contextlib
import importlib
import io
import re
import sys
import time

import click
import numpy as np
import pytest
from command_line import call
from ir_text import chain, write

from irrun.activity import Step, announce
from irrun.cli.progress import ProgressLine, format_duration, format_step
from irrun.cli.terminal import measure_width
from irrun.inspection.machine import Machine


class Terminal(io.StringIO):
    """A stream that collects what is written to a terminal."""

    encoding = "utf-8"  # type: ignore[assignment]

    def isatty(self) -> bool:
        return True

    def wait_for(self, text: str) -> None:
        """Wait until the terminal was shown a text."""
        end = time.monotonic() + 30
        while text not in self.getvalue():
            assert time.monotonic() < end, f"{text!r} is not in {self.getvalue()!r}"
            time.sleep(0.001)

    def read_lines(self) -> list[str]:
        """Return what is left on the screen."""
        lines = []
        for line in self.getvalue().split("\n"):
            shown: list[str] = []
            for part in line.split("\r"):
                shown[: len(part)] = part
            lines.append("".join(shown).rstrip())
        return lines


def open_terminal(monkeypatch) -> Terminal:
    """Make stdout and stderr a terminal of 80 columns, on which lines are drawn at once.

    This is no fixture, because pytest replaces what fixtures assign to the streams.
    """
    stream = Terminal()
    monkeypatch.setattr("irrun.cli.progress.DELAY", 0)
    monkeypatch.setattr("irrun.cli.progress.INTERVAL", 0.001)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setattr("sys.stdout", stream)
    monkeypatch.setattr("sys.stderr", stream)
    return stream


def test_announced_steps_are_drawn_and_erased(monkeypatch):
    terminal = open_terminal(monkeypatch)
    with ProgressLine("m.xml"):
        with announce("reading", "layers"):
            terminal.wait_for("\rm.xml  reading layers  0:00")
        with announce("reading", "m.xml"):
            terminal.wait_for("\rm.xml  reading  0:00")
        with announce("compiling kernels"):
            terminal.wait_for("\rm.xml  compiling kernels  0:00")
    print("result")
    assert terminal.read_lines() == ["result", ""]
    assert sys.stdout is sys.stderr is terminal
    assert "\x1b" not in terminal.getvalue()


def test_own_steps_take_the_place_of_announced_ones(monkeypatch):
    terminal = open_terminal(monkeypatch)
    with ProgressLine("m.xml") as line, announce("reading"):
        line.update("2.5/s", 3, 10, "inputs")
        terminal.wait_for("m.xml  ━━━───────  3/10 inputs  2.5/s  0:00")


def test_nothing_is_drawn_while_nothing_is_announced(monkeypatch):
    terminal = open_terminal(monkeypatch)
    with ProgressLine("m.xml"):
        time.sleep(0.02)
    assert terminal.getvalue().strip("\r \n") == ""


def test_line_is_erased_when_the_step_ends(monkeypatch):
    terminal = open_terminal(monkeypatch)
    with ProgressLine("m.xml"):
        with announce("reading"):
            terminal.wait_for("reading")
        while terminal.read_lines() != [""]:
            time.sleep(0.001)
        assert terminal.getvalue().endswith("\r")  # what is printed next starts at the left


def test_what_is_printed_meanwhile_stays_whole(monkeypatch):
    """Custom kernels print, and parts of lines wait for their ends."""
    terminal = open_terminal(monkeypatch)
    with ProgressLine("m.xml") as line, announce("reading"):
        terminal.wait_for("reading")
        print("a line")
        terminal.wait_for("a line\n\rm.xml")
        with pytest.raises(io.UnsupportedOperation):  # otherwise `input` would write its prompt beside the line
            sys.stdout.fileno()
        print("half a ", end="")
        length = len(terminal.getvalue())
        line.update("writing")
        time.sleep(0.02)
        assert len(terminal.getvalue()) == length
        print("line", file=sys.stderr)
        sys.stdout.writelines(["two ", "parts\n"])
        terminal.wait_for("parts\n\rm.xml  writing")
    assert terminal.read_lines() == ["a line", "half a line", "two parts", ""]


@pytest.mark.parametrize("error", [KeyboardInterrupt, ValueError])
def test_line_is_erased_after_errors(error, monkeypatch):
    terminal = open_terminal(monkeypatch)

    def work() -> None:
        with ProgressLine("m.xml"), announce("reading"):
            terminal.wait_for("reading")
            raise error

    with pytest.raises(error):
        work()
    assert terminal.read_lines() == [""]
    assert sys.stdout is sys.stderr is terminal


def test_line_is_erased_with_the_context_of_its_command(monkeypatch):
    """Before an error is reported, which the command does not catch."""
    terminal = open_terminal(monkeypatch)

    @click.command()
    def command() -> None:
        ProgressLine("m.xml")
        with announce("reading"):
            terminal.wait_for("reading")
            raise click.ClickException("failed")

    with contextlib.suppress(SystemExit):
        command.main([])
    assert terminal.read_lines() == ["Error: failed", ""]
    assert sys.stdout is sys.stderr is terminal


@pytest.mark.parametrize(("name", "value"), [("TERM", "dumb"), ("NO_COLOR", "1"), ("stderr", ""), ("no stderr", "")])
def test_line_is_not_drawn_where_it_cannot_be_erased(name, value, monkeypatch):
    terminal = open_terminal(monkeypatch)
    if name.isupper():
        monkeypatch.setenv(name, value)
    else:
        monkeypatch.setattr("sys.stderr", io.StringIO() if name == "stderr" else None)
    with ProgressLine("m.xml") as line, announce("reading"):
        time.sleep(0.02)
    assert not line.is_enabled
    assert terminal.getvalue() == ""
    assert not sys.stderr or isinstance(sys.stderr, Terminal) or sys.stderr.getvalue() == ""  # type: ignore[attr-defined]


def test_short_commands_draw_nothing(monkeypatch):
    terminal = open_terminal(monkeypatch)
    monkeypatch.setattr("irrun.cli.progress.DELAY", 1000)
    with ProgressLine("m.xml"), announce("reading"):
        time.sleep(0.02)
    assert terminal.getvalue() == ""


def test_terminal_that_is_gone_does_not_stop_the_command(monkeypatch):
    terminal = open_terminal(monkeypatch)

    def fail(text):
        raise OSError(5, "Input/output error")

    with ProgressLine("m.xml"), announce("reading"):
        terminal.wait_for("reading")
        monkeypatch.setattr(terminal, "write", fail)


STEP = Step("Convolution", "encoder/level3/conv1", "4 of 10 iterations of", "decoder/loop", 1234, 5678)


@pytest.mark.parametrize(
    ("width", "expected"),
    [
        (
            120,
            "model.xml  ━━━━────────────────  1234/5678 layers  Convolution encoder…3/conv1, "
            "4 of 10 iterations of decoder/loop  1:05",
        ),
        (90, "model.xml  1234/5678 layers  Convolution enco…onv1, 4 of 10 iterations of deco…loop  1:05"),
        (77, "model.xml  1234/5678 layers  4 of 10 iterations of decoder/loop  1:05"),
        (40, "model.xml  1234/5678 layers  1:05"),
        (30, "model.xml  1234/5678 layers"),
        (10, "mode……yers"),
    ],
)
def test_names_are_shortened_before_other_parts_are_left_out(width, expected):
    line = format_step("model.xml", STEP, 65, width)
    assert (line, len(line) <= width) == (expected, True)


@pytest.mark.parametrize("has_symbols", [True, False])
@pytest.mark.parametrize(
    "step", [STEP, STEP._replace(name="畳み込み" * 9), Step("reading"), Step("run", done=2, total=2)]
)
def test_lines_never_exceed_the_terminal(step, has_symbols):
    for width in range(1, 160):
        line = format_step("a/very/long/name/of/a/model.xml", step, 5, width, has_symbols)
        assert measure_width(line) <= width
        assert has_symbols or not re.search("[━╸─…]", line)


def test_names_cannot_change_the_terminal():
    line = format_step("[red]\x1b[31m", STEP._replace(name="a\nb\u202e", owner="\x9b"), 0, 200)
    assert line.isprintable()
    assert r"[red]\x1b[31m" in line


@pytest.mark.parametrize(("seconds", "expected"), [(0.9, "0:00"), (65, "1:05"), (3600 * 2 + 61, "2:01:01")])
def test_durations(seconds, expected):
    assert format_duration(seconds) == expected


@pytest.mark.parametrize(
    ("share", "bar"), [(0, "──────────"), (5, "━━━━━─────"), (9.5, "━━━━━━━━━╸"), (11, "━━━━━━━━━━")]
)
def test_bars(share, bar):
    line = format_step("m", Step("", done=share, total=10, unit=""), 0, 80)
    assert line == f"m  {bar}  {share}/10  0:00"


@pytest.mark.parametrize(("width", "length"), [(200, 20), (100, 20), (99, 10), (60, 10), (59, 0)])
def test_bars_are_longer_on_wider_terminals(width, length):
    line = format_step("m", Step("", done=5, total=10, unit=""), 0, width)
    assert sum(line.count(symbol) for symbol in "━╸─") == length


def test_mapping_shows_its_speed(tmp_path, monkeypatch, capsys):
    terminal = open_terminal(monkeypatch)
    pytest.importorskip("dask")
    from irrun.distributed import MapResult

    seen = []

    def map_inputs(*arguments, progress, **keywords):
        for finished in range(2, 6):  # 2 of an earlier run
            time.sleep(0.01)
            progress(finished, 5)
            seen.append(f"{finished}/5 inputs")
            terminal.wait_for(seen[-1])
        return MapResult(tmp_path / "r.zarr", 5, computed=3)

    monkeypatch.setattr("irrun.distributed.map_inputs", map_inputs)
    path = write(tmp_path, chain("Relu"))
    call(capsys, "map", path, "*.npy", "-o", tmp_path / "r.zarr")
    assert len(seen) == 4
    assert re.search(r"4/5 inputs  \d+\.\d/s, 0:00 left  0:0\d", terminal.getvalue())
    assert terminal.read_lines() == [f"wrote {tmp_path / 'r.zarr'}, 5 rows", ""]


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (("run", "m.xml"), "preparing the program"),
        (("run", "m.xml", "--jit", "on"), "compiling kernels"),
        (("trace", "m.xml"), "preparing the program"),
        (("check", "m.xml"), "preparing the program"),
        (("compare", "m.xml", "f64"), "preparing the program"),
        (("report", "m.xml", "-o", "r.html"), "preparing the program"),
        (("profile", "m.xml", "--runs", "1"), "run 1 of 1"),
        (("reduce", "m.xml", "--fails", "min>0.2"), "layers removed"),
    ],
)
def test_commands_show_their_steps(arguments, text, tmp_path, monkeypatch, capsys):
    """Each command waits until its step was drawn."""
    terminal = open_terminal(monkeypatch)
    if "--jit" in arguments:
        pytest.importorskip("llvmlite")

    def wait_in(owner, name, condition=lambda *_: True):
        function = getattr(owner, name)

        def wait(*arguments, **options):
            result = function(*arguments, **options)
            if condition(*arguments):
                terminal.wait_for(text)
            return result

        monkeypatch.setattr(owner, name, wait)

    monkeypatch.chdir(tmp_path)
    module = importlib.import_module("irrun.inspection.profiling")
    monkeypatch.setattr(module, "measure_machine", lambda threads: Machine(threads, 1e11, 1e10))
    module = importlib.import_module("irrun.runtime.prepared_model")
    wait_in(module, "lower", lambda *_: text.endswith(("program", "kernels")))
    wait_in(ProgressLine, "update", lambda line, *step: text in step or "layers removed" in step)
    write(tmp_path, chain("Relu", "Sigmoid"), name="m")
    np.save("x.npy", np.zeros((2, 3), np.float32))
    call(capsys, *arguments, "--input", "x.npy")
    assert text in terminal.getvalue()
    assert not any("m.xml  " in line for line in terminal.read_lines())
