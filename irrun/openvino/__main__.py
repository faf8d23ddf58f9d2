"""Running of programs that import `openvino`: `python -m irrun.openvino [--replace] script.py arguments`."""

from __future__ import annotations

import importlib.util
import io
import os
import runpy
import sys
import types
from collections.abc import Sequence

from irrun.openvino.install import install_as_openvino

USAGE = """\
usage: python -m irrun.openvino [--replace] (script.py | -m module) [arguments]

Run a program that imports openvino on irrun.

  --replace   use irrun even if openvino is installed
  -m module   run a module, such as pytest
  -c code     run code; "-" runs the code that it reads from the standard input
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
        if importlib.util.find_spec(rest[0].partition(".")[0]) is None:
            print(f"python -m irrun.openvino: there is no module {rest[0]}", file=sys.stderr)
            return 2
        runpy.run_module(rest[0], run_name="__main__", alter_sys=True)
        return 0
    if rest[0] in ("-", "-c"):
        if rest == ["-c"]:
            print("python -m irrun.openvino: expected code after -c", file=sys.stderr)
            return 2
        sys.path[0] = ""
        sys.argv[:] = [rest[0], *rest[2:]] if rest[0] == "-c" else rest
        code = rest[1].encode() if rest[0] == "-c" else sys.stdin.buffer.read()
        _run_script(code, "<string>" if rest[0] == "-c" else "<stdin>")
        return 0
    path = os.path.abspath(rest[0])
    sys.path[0] = os.path.dirname(path)
    if os.path.exists(os.path.join(path, "__main__.py")):
        runpy.run_path(path, run_name="__main__")
        return 0
    try:
        with io.open_code(path) as file:
            source = file.read()
    except OSError as error:
        print(f"python -m irrun.openvino: cannot read {rest[0]}: {error.strerror}", file=sys.stderr)
        return 2
    if source[:4] == b"PK\x03\x04":
        runpy.run_path(path, run_name="__main__")
    else:
        _run_script(source, path)
    return 0


def _run_script(source: bytes, path: str) -> None:
    """Run a script as `python script.py` does: as the main module, with tracebacks that start in the script.

    Args:
        source: The script.
        path: Its path, or what names it in tracebacks, such as "<stdin>".
    """

    def print_error(kind: type[BaseException], error: BaseException, frames: types.TracebackType | None) -> None:
        while frames is not None and frames.tb_frame.f_code.co_filename != path:
            frames = frames.tb_next
        sys.__excepthook__(kind, error.with_traceback(frames), frames)

    module = types.ModuleType("__main__")
    if path != "<string>":
        module.__file__ = path
    sys.modules["__main__"] = module
    sys.excepthook = print_error
    exec(compile(source, path, "exec"), module.__dict__)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
