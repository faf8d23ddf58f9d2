"""What the scripts of shells ask and are answered, without shells."""

from __future__ import annotations

import click
import pytest
from click.shell_completion import CompletionItem

from irrun.cli.completion import BashCompletion, FishCompletion, ZshCompletion, _Completion


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("irrun info m", (["info"], "m")),
        ("irrun info ", (["info"], "")),
        ("irrun --input=x a=b", (["--input=x"], "a=b")),
        ("A=1 B=2 irrun a=b m", (["a=b"], "m")),
        ("A=1 irrun 'my f", ([], "my f")),
        ("irrun", ([], "irrun")),
        ("A=1", ([], "A=1")),
    ],
)
def test_words_follow_the_command_and_end_at_the_cursor(line, expected, monkeypatch):
    monkeypatch.setenv("COMP_LINE", line)
    assert _Completion(click.Command("irrun"), {}, "irrun", "_IRRUN_COMPLETE").get_completion_args() == expected


def complete_value(context, parameter, incomplete):
    items = {
        "": [CompletionItem("low", help="Few bits.  Fast; not exact."), CompletionItem("high")],
        "f": [CompletionItem("f", type="file", suffix=".xml")],
        "d": [CompletionItem("d", type="dir")],
        "x=d": [CompletionItem("x=d", type="file")],
        "y=m": [CompletionItem("y=mean", type="plain"), CompletionItem("y=m", type="file")],
    }
    return items[incomplete]


COMMAND = click.Command("irrun", params=[click.Option(["--mode"], shell_complete=complete_value)])


@pytest.mark.parametrize(
    ("line", "word", "bash", "zsh", "fish"),
    [
        (
            "--mode ",
            "",
            ["0", "", "plain,low", "plain,high"],
            ["0", "plain,low\tFew bits", "plain,high"],
            ["plain,low\tFew bits", "plain,high"],
        ),
        (
            "--mode=",
            "",
            ["0", "", "plain,low", "plain,high"],
            ["1", "plain,low\tFew bits", "plain,high"],
            ["plain,--mode=low\tFew bits", "plain,--mode=high"],
        ),
        ("--mode f", "f", ["0", "", "file.xml,f"], ["0", "file.xml,f"], ["file.xml,f"]),
        ("--mode=d", "d", ["0", "", "file/,d"], ["1", "file/,d"], ["file/,--mode=d"]),
        ("--mode x=d", "d", ["0", "", "file,d"], ["1", "file,d"], ["file,x=d"]),
        ("--mode=x=d", "d", ["0", "", "file,d"], ["2", "file,d"], ["file,--mode=x=d"]),
        ("--mode x=d", "x=d", ["0", "x=", "file,d"], ["1", "file,d"], ["file,x=d"]),
        ("--mode=x=d", "--mode=x=d", ["0", "--mode=x=", "file,d"], ["2", "file,d"], ["file,--mode=x=d"]),
    ],
)
def test_answers_name_what_replaces_the_word(line, word, bash, zsh, fish, monkeypatch, tmp_path):
    """`word` is what bash replaces: what follows the last = of the word."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COMP_LINE", f"irrun {line}")
    monkeypatch.setenv("COMP_WORD", word)
    for shell, expected in ((BashCompletion, bash), (ZshCompletion, zsh), (FishCompletion, fish)):
        answer = shell(COMMAND, {}, "irrun", "_IRRUN_COMPLETE").complete()
        assert answer.split("\n") == expected, shell.name


def test_files_whose_names_contain_the_separator_are_no_inputs(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "x=data.npy").touch()
    monkeypatch.setenv("COMP_LINE", "irrun --mode x=d")
    assert FishCompletion(COMMAND, {}, "irrun", "_IRRUN_COMPLETE").complete() == "file,x=d"
    assert ZshCompletion(COMMAND, {}, "irrun", "_IRRUN_COMPLETE").complete() == "0\nfile,x=d"


def test_nothing_is_offered_if_the_line_is_wrong(monkeypatch):
    monkeypatch.setenv("COMP_LINE", "irrun --mode unknown")  # which the function refuses
    assert FishCompletion(COMMAND, {}, "irrun", "_IRRUN_COMPLETE").complete() == ""
