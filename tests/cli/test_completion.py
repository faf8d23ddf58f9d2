"""Completion in real shells: interactive bash and zsh in a pseudo-terminal, and fish."""

from __future__ import annotations

import contextlib
import os
import re
import select
import shlex
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from time import monotonic

import pytest

pty = pytest.importorskip("pty", reason="this system has no pseudo-terminals")

#: What is typed before TAB, and the last word after it.
CASES = {
    "irrun inf": "info",
    "irrun mod": "model.xml",
    "irrun info mod": "model.xml",
    "irrun info --weights mod": "model.bin",
    "irrun info my": "my net.xml",
    "irrun info 'my n": "my net.xml",
    "irrun info nets/in": "nets/inner.xml",
    "irrun info ~/mod": "~/model.xml",
    "irrun ops gathere": "GatherElements",
    "irrun model.xml --prec": "--precision",
    "irrun run m.xml --precision d": "declared",
    "irrun run m.xml --precision=d": "--precision=declared",
    "irrun run m.xml --input x=x": "x=x.npy",
    "irrun run m.xml --input=x=x": "--input=x=x.npy",
    "irrun unknown x.n": "x.npy",
    "true; irrun upg": "upgrade",
}

BASH_SETUP = r"""bind -x '"\C-o": echo "<<$READLINE_LINE>>"; READLINE_LINE='
eval "$(_IRRUN_COMPLETE=bash_source irrun)"
echo rea""dy
"""
ZSH_SETUP = r"""autoload -Uz compinit; compinit -u -D
show() { print -r -- "<<$BUFFER>>"; BUFFER=; zle redisplay}
zle -N show; bindkey '^O' show
eval "$(_IRRUN_COMPLETE=zsh_source irrun)"
echo rea""dy
"""


class Shell:
    """An interactive shell in a pseudo-terminal.

    Args:
        command: The command that starts it.
        setup: Lines that it runs first; they bind Ctrl-O to a function that prints the line and clears it.
        environment: Its variables.
        folder: Its working directory.
    """

    def __init__(self, command, setup, environment, folder):
        self.pid, self.terminal = pty.fork()
        if self.pid == 0:
            os.chdir(folder)
            os.execvpe(command[0], command, environment)
        os.write(self.terminal, setup.replace("\n", "\r").encode())
        self.read_until("ready")

    def read_until(self, pattern):
        """Return what the shell prints up to a pattern."""
        text, end = "", monotonic() + 30
        while not re.search(pattern, text):
            assert select.select([self.terminal], [], [], max(end - monotonic(), 0))[0], text
            text += os.read(self.terminal, 1 << 16).decode(errors="replace")
        return text

    def complete(self, line, tabs=1, listed=""):
        """Type a line and TAB, wait until something is listed, and return the line after that."""
        os.write(self.terminal, line.encode() + b"\t" * tabs)
        self.read_until(listed)
        os.write(self.terminal, b"\x0f")
        return re.search("<<(.*)>>", self.read_until("<<.*>>"))[1]

    def close(self):
        os.kill(self.pid, signal.SIGKILL)
        with contextlib.suppress(OSError):
            os.waitpid(self.pid, 0)
        os.close(self.terminal)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder with files to complete, and the command irrun in bin."""
    folder = tmp_path_factory.mktemp("shell")
    for name in ("model.xml", "model.bin", "my net.xml", "x.npy", "nets/inner.xml"):
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).touch()
    (folder / "bin").mkdir()
    command = folder / "bin" / "irrun"
    command.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -m irrun "$@"\n')
    command.chmod(0o755)
    return folder


@pytest.fixture(scope="module")
def environment(folder):
    paths = [str(Path(__file__).parents[2]), os.environ.get("PYTHONPATH", "")]
    changes = {
        "PATH": f"{folder}/bin{os.pathsep}{os.environ['PATH']}",
        "PYTHONPATH": os.pathsep.join(filter(None, paths)),
        "HOME": str(folder),
        "ZDOTDIR": str(folder),
        "INPUTRC": os.devnull,
        "TERM": "dumb",
        "LC_ALL": "C.UTF-8",
        "PS1": "$ ",
    }
    return {**os.environ, **changes}


@pytest.fixture(scope="module")
def bash(folder, environment):
    shell = Shell(["bash", "--norc", "--noprofile"], BASH_SETUP, environment, folder)
    yield shell
    shell.close()


@pytest.fixture(scope="module")
def zsh(folder, environment):
    if shutil.which("zsh") is None:
        pytest.skip("zsh is not installed")
    shell = Shell(["zsh", "-f"], ZSH_SETUP, {**environment, "TERM": "vt100", "COLUMNS": "120"}, folder)
    yield shell
    shell.close()


@pytest.fixture
def run_fish(folder, environment):
    """Return the completions of lines in fish, with their descriptions."""
    if shutil.which("fish") is None:
        pytest.skip("fish is not installed")

    def run(*lines):
        script = "_IRRUN_COMPLETE=fish_source irrun | source; for line in $argv; complete -C $line; echo ---; end"
        command = ["fish", "--no-config", "-c", script, *lines]
        text = subprocess.run(command, env=environment, cwd=folder, capture_output=True, text=True, check=True).stdout
        return [answer.splitlines() for answer in text.split("---\n")[:-1]]

    return run


def get_last_word(line):
    return shlex.split(line)[-1]


def test_words_are_completed_in_bash(bash):
    assert {line: get_last_word(bash.complete(line)) for line in CASES} == CASES


def test_words_are_completed_in_zsh(zsh):
    assert {line: get_last_word(zsh.complete(line)) for line in CASES} == CASES


def test_words_are_completed_in_fish(run_fish):
    lines = list(CASES)
    answers = run_fish(*lines)
    assert {line: [item.split("\t")[0] for item in answer] for line, answer in zip(lines, answers, strict=True)} == {
        line: [word] for line, word in CASES.items()
    }


@pytest.fixture
def similar_file(folder):
    """A model whose name starts as a command does."""
    path = folder / "info.xml"
    path.touch()
    yield
    path.unlink()


def test_commands_and_files_are_offered_together_in_bash(bash, similar_file):
    assert bash.complete("irrun in", tabs=3, listed=r"info +info\.xml") == "irrun info"


def test_commands_and_files_are_offered_together_in_zsh(zsh, similar_file):
    listed = r"info +-- Show the inputs, outputs and operations of a model\.[\s\S]*info\.xml"
    assert zsh.complete("irrun info", listed=listed) == "irrun info"


def test_commands_and_files_are_offered_together_in_fish(run_fish, similar_file):
    (items,) = run_fish("irrun in")
    assert items == ["info\tShow the inputs, outputs and operations of a model.", "info.xml"]


def test_options_are_described_in_fish(run_fish):
    (items,) = run_fish("irrun run --s")
    assert "--seed\tSeed for random inputs." in items
    assert [item.split("\t")[0] for item in items] == ["--seed", "--scale", "--shape", "--show"]


def test_folders_are_completed_before_files_in_them(bash, folder):
    assert bash.complete("irrun info ne") == "irrun info nets/"
    assert bash.complete("irrun ne") == "irrun nets/"


def test_paths_with_variables_are_completed_in_bash(bash):
    assert bash.complete("irrun info $HOME/x.n") == "irrun info $HOME/x.npy "
    assert bash.complete('irrun info "$HOME/x.n') == 'irrun info "$HOME/x.npy" '


def test_scripts_ask_without_messages(folder, environment):
    """What is wrong on the line is not reported while it is written."""
    for shell in ("bash", "zsh", "fish"):
        variables = {**environment, "_IRRUN_COMPLETE": f"{shell}_complete", "COMP_LINE": "irrun run --jit never --"}
        variables["COMP_WORD"] = "--"  # in bash, the part after the last = or :
        command = [sys.executable, "-m", "irrun"]
        result = subprocess.run(command, env=variables, cwd=folder, capture_output=True, text=True, check=True)
        assert result.stderr == ""
        assert "--input" in result.stdout
