"""The prompts of `irrun generate`: arguments, or lines of standard input."""

from __future__ import annotations

import io
import sys

import pytest

from irrun.cli.generate import _iterate_prompts


def open_stdin(monkeypatch, text, is_terminal):
    stream = io.StringIO(text)
    stream.isatty = lambda: is_terminal
    monkeypatch.setattr(sys, "stdin", stream)


@pytest.mark.parametrize("is_terminal", [False, True])
def test_prompts_are_lines_with_text(is_terminal, monkeypatch, capsys):
    open_stdin(monkeypatch, "first\n\n  \n second \nlast", is_terminal)
    assert list(_iterate_prompts([])) == ["first", " second ", "last"]
    assert capsys.readouterr().out == ("> > > > > > \n" if is_terminal else "")


@pytest.mark.parametrize("is_terminal", [False, True])
def test_prompts_of_the_command_line_are_not_asked_for(is_terminal, monkeypatch, capsys):
    open_stdin(monkeypatch, "two\nlines\n\n", is_terminal)
    assert list(_iterate_prompts(["one", "-", "three"])) == ["one", "two\nlines", "three"]
    assert capsys.readouterr().out == ""
