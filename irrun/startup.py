"""Imported before everything else by the command line: an interrupt during its imports ends the process in one line.

It only imports modules that Python has already imported. A program that imports `irrun.cli` itself is not affected.
"""

import _signal as signal  # type: ignore[import-not-found]  # the module signal takes longer to import
import os
import sys

__all__ = ["end_startup"]

#: The names of the file that the command is started with.
PROGRAMS = ("irrun", "irrun.exe", "irrun-script.py")


def _exit(number: int, frame: object) -> None:
    os.write(2, b"irrun: interrupted\n")
    os._exit(130)


def end_startup() -> None:
    """Let interrupts raise KeyboardInterrupt again."""
    if signal.getsignal(signal.SIGINT) is _exit:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def _is_program() -> bool:
    main = getattr(sys.modules.get("__main__"), "__file__", None) or ""
    is_program = os.path.basename(main) in PROGRAMS or main == os.path.join(os.path.dirname(__file__), "__main__.py")
    return is_program and signal.getsignal(signal.SIGINT) is signal.default_int_handler


if _is_program():
    signal.signal(signal.SIGINT, _exit)
