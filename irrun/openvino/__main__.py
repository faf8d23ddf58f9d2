"""Running of programs that import `openvino`: `python -m irrun.openvino [--replace] script.py arguments`."""

from __future__ import annotations

import os
import runpy
import sys
from collections.abc import Sequence

from irrun.openvino.install import install_as_openvino

USAGE = """\
usage: python -m irrun.openvino [--replace] (script.py | -m module) [arguments]

Run a program that imports openvino on irrun.

  --replace   use irrun even if openvino is installed
"""


def main(arguments: Sequence[str]) -> int:
    """Run a program.

    Args:
        arguments: The arguments of the command line.

    Returns:
        The exit code, if the program does not exit itself.
    """
    rest = list(arguments)
    replace = bool(rest) and rest[0] == "--replace"
    if replace:
        rest.pop(0)
    is_module = bool(rest) and rest[0] == "-m"
    if is_module:
        rest.pop(0)
    if not rest or rest[0] in ("-h", "--help"):
        print(USAGE, end="")
        return 0 if rest else 2
    try:
        install_as_openvino(replace=replace)
    except RuntimeError:
        print("openvino is installed; pass --replace to use irrun instead", file=sys.stderr)
        return 2
    sys.argv[:] = rest
    if is_module:
        sys.path[0] = os.getcwd()
        runpy.run_module(rest[0], run_name="__main__", alter_sys=True)
    else:
        sys.path[0] = os.path.dirname(os.path.abspath(rest[0]))
        runpy.run_path(rest[0], run_name="__main__")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
