"""Whether and when the kernels of a model are compiled: the option `jit`."""

from __future__ import annotations

import contextlib
import importlib.util
import os
import threading
from collections.abc import Callable
from typing import Literal, TypeAlias

import numpy as np

from irrun.arguments import check_choice
from irrun.errors import InputError
from irrun.forks import make_lock, renew_in_children
from irrun.processor import get_level
from irrun.runtime.program import Program

__all__ = ["JIT_PACKED_BYTES", "BackgroundCompilation", "Jit", "is_installed", "resolve_jit"]

Jit: TypeAlias = bool | Literal["auto"] | None

#: The values of the environment variable IRRUN_JIT.
VALUES: dict[str, bool | Literal["auto"]] = {
    "": "auto",
    "auto": "auto",
    "0": False,
    "off": False,
    "1": True,
    "on": True,
}
#: Bytes of weights that compiled kernels keep in the order in which they read them, at most.
JIT_PACKED_BYTES = 1 << 30
#: Runs, and seconds that they take together, after which it pays to compile the kernels of a model.
MIN_RUNS, MIN_SECONDS = 3, 0.5


def resolve_jit(jit: Jit) -> bool | Literal["auto"]:
    """Return the option of a model: None stands for the environment variable IRRUN_JIT, or "auto".

    Raises:
        InputError: The value is unknown, or kernels cannot be compiled because llvmlite is not installed. IRRUN_CPU is
            unknown, or names what this processor cannot run.
    """
    is_from_environment = jit is None
    if jit is None:
        text = os.environ.get("IRRUN_JIT", "").strip().lower()
        if text not in VALUES:
            raise InputError(f"IRRUN_JIT is {text!r}, expected one of auto, on, off, 1, 0")
        jit = VALUES[text]
    choice = check_choice("jit", jit, (True, False, "auto"))
    if choice is not False and choice != "auto":
        choice = bool(choice)  # 0, 1 and booleans of NumPy
    if choice is True and not is_installed():
        cause = "IRRUN_JIT is on; " if is_from_environment else ""
        raise InputError(f"{cause}compiled kernels require llvmlite: pip install 'irrun[jit]'")
    if get_level() is not None and choice is not False and is_installed():
        from irrun.fast.jit.compiler import check_target

        check_target()
    result: bool | Literal["auto"] = choice
    return result


def is_installed() -> bool:
    """Return whether LLVM is installed, without importing it."""
    return importlib.util.find_spec("llvmlite") is not None


class BackgroundCompilation:
    """The compilation of a model in another thread, as soon as its runs have taken so long that it pays.

    Args:
        compile_program: Returns the program with compiled kernels.
    """

    def __init__(self, compile_program: Callable[[], Program]) -> None:
        self._compile = compile_program
        self._lock = make_lock()
        renew_in_children(self)
        self._run_count = 0
        self._seconds = 0.0
        self._thread: threading.Thread | None = None
        #: The program, once it is complete.
        self.program: Program | None = None

    def count_run(self, seconds: float) -> None:
        """Count a run, and start the compilation after enough of them."""
        if self._thread is not None:
            return
        with self._lock:
            self._run_count += 1
            self._seconds += seconds
            is_due = self._run_count >= MIN_RUNS and self._seconds >= MIN_SECONDS and self._thread is None
            if is_due:
                self._thread = threading.Thread(target=self._run, name="irrun-jit")
        if is_due and self._thread is not None:
            if is_installed():
                self._thread.start()
            else:
                self._thread = threading.current_thread()

    def finish(self) -> None:
        """Compile now, or wait for the thread that compiles; without LLVM this does nothing."""
        with self._lock:
            is_first = self._thread is None
            if is_first:
                self._thread = threading.current_thread()
        if not is_first:
            self.wait()
        elif is_installed():
            self._run()

    def _at_fork_reinit(self) -> None:
        if self._thread is not None and not self._thread.is_alive():  # it compiles in the parent process
            self._thread = None

    def wait(self) -> None:
        """Wait until a compilation that has started is complete."""
        thread = self._thread
        if thread is not None and thread is not threading.current_thread():
            thread.join()

    def _run(self) -> None:
        # A model that cannot be compiled keeps its kernels.
        with contextlib.suppress(Exception), np.errstate(all="ignore"):
            self.program = self._compile()
