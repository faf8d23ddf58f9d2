"""What irrun answers to the completion scripts of shells."""

from __future__ import annotations

import pytest
from click.shell_completion import CompletionItem

from irrun.cli import _group
from irrun.cli.completion import BASH_SCRIPT, FISH_SCRIPT, ZSH_SCRIPT, BashCompletion, FishCompletion, ZshCompletion

COMPARE = "Compare a model, layer by layer, with another model, f64, OpenVINO or recorded values."
INPUT = "A .npy, .npz (file.npz:key), raw .bin, .json or image file"


@pytest.fixture
def answer(tmp_path, monkeypatch):
    """Return a function that returns the lines of the answer to a line, in a folder with the files x.npy and a=b.npy.

    In bash, a word is what follows the last = or : of the last word.
    """
    monkeypatch.chdir(tmp_path)
    for name in ("x.npy", "a=b.npy"):
        (tmp_path / name).touch()

    def ask(shell, line, word=""):
        monkeypatch.setenv("COMP_LINE", line)
        monkeypatch.setenv("COMP_WORD", word)
        return shell(_group, {}, "irrun", "_IRRUN_COMPLETE").complete().split("\n")

    return ask


@pytest.mark.parametrize(
    ("line", "word", "expected"),
    [
        # The number of characters to cut from paths, the text to put before them, and the items.
        ("irrun compa", "compa", ["0", "", "plain,compare", "file.xml,compa"]),
        ("irrun run --inp", "--inp", ["0", "", "plain,--input"]),
        ("irrun run m.xml --precision f", "f", ["0", "", "plain,f32", "plain,f64"]),
        ("irrun run m.xml --precision=f", "f", ["0", "", "plain,f32", "plain,f64"]),
        ("irrun run m.xml --input x=x", "x", ["0", "", "file,x"]),
        ("irrun run m.xml --input a=b", "b", ["2", "", "file,a=b"]),  # the name of a file
        ("irrun run m.xml --input=x=x.n", "x.n", ["0", "", "file,x.n"]),
        ("irrun compare m.xml --against=x:p", "p", ["2", "", "file,x:p"]),
        ("irrun extract m.xml -o ", "", ["0", "", "file,"]),
        ("A=1 B=2 irrun upg", "upg", ["0", "", "plain,upgrade", "file.xml,upg"]),
        ("irrun reduce m.xml --output ", "", ["0", "", "file/,"]),
        ("irrun info 'my n", "'my n", ["0", "", "file.xml,my n"]),
        (r"irrun info my\ n", r"my\ n", ["0", "", "file.xml,my n"]),
    ],
)
def test_answers_to_bash(line, word, expected, answer):
    assert answer(BashCompletion, line, word) == expected


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        # The number of texts that end in "=" before the values, and the items, with help after a tab.
        ("irrun compa", ["0", f"plain,compare\t{COMPARE}", "file.xml,compa"]),
        ("irrun run --inp", ["0", f"plain,--input\t{INPUT}"]),
        ("irrun run m.xml --precision=f", ["1", "plain,f32", "plain,f64"]),
        ("irrun run m.xml --input x=x", ["1", "file,x"]),
        ("irrun run m.xml --input a=b", ["0", "file,a=b"]),
        ("irrun run m.xml --input=x=x.n", ["2", "file,x.n"]),
        ("irrun reduce m.xml --output ", ["0", "file/,"]),
    ],
)
def test_answers_to_zsh(line, expected, answer):
    assert answer(ZshCompletion, line) == expected


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        # The items as whole words, with help after a tab.
        ("irrun compa", [f"plain,compare\t{COMPARE}", "file.xml,compa"]),
        ("irrun run --inp", [f"plain,--input\t{INPUT}"]),
        ("irrun run m.xml --precision f", ["plain,f32", "plain,f64"]),
        ("irrun run m.xml --precision=f", ["plain,--precision=f32", "plain,--precision=f64"]),
        ("irrun run m.xml --input x=x", ["file,x=x"]),
        ("irrun run m.xml --input=x=x.n", ["file,--input=x=x.n"]),
    ],
)
def test_answers_to_fish(line, expected, answer):
    assert answer(FishCompletion, line) == expected


@pytest.mark.parametrize("shell", [BashCompletion, ZshCompletion, FishCompletion])
def test_wrong_lines_have_no_answer(shell, answer, monkeypatch):
    monkeypatch.setattr(shell, "get_completions", lambda *arguments: 1 / 0)
    assert answer(shell, "irrun run --inp", "--inp") == [""]


def test_names_before_files_are_kept_if_other_items_follow(answer, monkeypatch):
    items = [CompletionItem("x=a", type="file"), CompletionItem("x=plain")]
    monkeypatch.setattr(FishCompletion, "get_completions", lambda *arguments: items)
    assert answer(FishCompletion, "irrun run m.xml --input x=") == ["file,x=a", "plain,x=plain"]


def test_scripts_are_those_of_irrun():
    for shell, script in ((BashCompletion, BASH_SCRIPT), (ZshCompletion, ZSH_SCRIPT), (FishCompletion, FISH_SCRIPT)):
        assert shell(_group, {}, "irrun", "_IRRUN_COMPLETE").source() == script
