"""Whether and when the kernels of a model are compiled: the option `jit`.

The choice of kernels is made when a model is compiled, so its results never change. With "auto", compiled kernels are
used if a mark in the cache states that they have been compiled before. Otherwise they are compiled in the background,
as soon as this pays off, for models that are compiled later.
"""

from __future__ import annotations

import contextlib
import importlib.util
import math
import os
import threading
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Literal, TypeAlias

import numpy as np

from irrun.arguments import check_choice
from irrun.deadlines import Deadline, end_at
from irrun.digests import sha256
from irrun.errors import InputError, TimeLimitError
from irrun.forks import make_lock, renew_in_children
from irrun.processor import get_level
from irrun.runtime.program import Program
from irrun.version import __version__

if TYPE_CHECKING:
    from irrun.ir.model import Model

__all__ = ["JIT_PACKED_BYTES", "Jit", "ProgramKernels", "find_kernels", "is_installed", "resolve_jit"]

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
#: Maximum size of the weights that compiled kernels rearrange, in bytes.
JIT_PACKED_BYTES = 1 << 30
#: Number of runs, and their total time in seconds, after which compiling the kernels of a program pays off.
MIN_RUNS, MIN_SECONDS = 3, 0.5


def resolve_jit(jit: Jit) -> bool | Literal["auto"]:
    """Return the option of a model: None means the environment variable IRRUN_JIT, or "auto".

    Raises:
        InputError: The value is unknown, or kernels cannot be compiled because llvmlite is not installed, or IRRUN_CPU
            is unknown or names a level that this processor does not support.
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


class ProgramKernels:
    """The compiled kernels of a program, shared by all models in the process with this program.

    Args:
        name: The digest of everything that the kernels depend on.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._lock = make_lock()
        renew_in_children(self)
        self._run_count = 0
        self._seconds = 0.0
        self._thread: threading.Thread | None = None
        self._is_complete = False

    def are_complete(self) -> bool:
        """Return whether all of them have been compiled, by this process or another one."""
        from irrun.fast.jit import cache

        name = f"{self._name}{cache.MARK}"
        if not self._is_complete and cache.has_file(name):
            from irrun.fast.jit.compiler import get_target

            self._is_complete = cache.load(f"{get_target()}/{name}") is not None
        return self._is_complete

    def set_complete(self, program: Program) -> None:
        """Note that the kernels of a program have been compiled, if it has any."""
        if any(instruction.description.startswith("compiled") for _, instruction in program.walk()):
            from irrun.fast.jit import cache
            from irrun.fast.jit.compiler import get_target

            if not self.are_complete():
                cache.save(f"{get_target()}/{self._name}{cache.MARK}", b"complete")
            self._is_complete = True

    def count_run(self, seconds: float, compile_program: Callable[[], Program]) -> None:
        """Count a run without compiled kernels, and after enough runs, start to compile them.

        Args:
            seconds: The seconds that the run took.
            compile_program: Compiles the kernels, and returns the program that uses them.
        """
        if self._thread is not None or self._is_complete:
            return
        with self._lock:
            self._run_count += 1
            self._seconds += seconds
            if self._run_count < MIN_RUNS or self._seconds < MIN_SECONDS or self._thread is not None:
                return
            self._thread = threading.Thread(target=self._compile, args=(compile_program,), name="irrun-jit")
        self._thread.start()

    def wait(self) -> None:
        """Wait until a compilation that has started is complete."""
        if self._thread is not None:
            self._thread.join()

    def _compile(self, compile_program: Callable[[], Program]) -> None:
        # If kernels cannot be compiled, nothing changes.
        with contextlib.suppress(Exception), np.errstate(all="ignore"), end_at(_ProcessEnd()):
            if not self.are_complete():
                self.set_complete(compile_program())

    def _at_fork_reinit(self) -> None:
        if self._thread is not None and not self._thread.is_alive():  # it compiles in the parent process
            self._thread = None


class _ProcessEnd(Deadline):
    """The main thread has ended, and the process does not wait for kernels that it will not use."""

    def __init__(self) -> None:
        super().__init__(math.inf)

    def check(self) -> None:
        """Check that the main thread is running.

        Raises:
            TimeLimitError: It has ended.
        """
        if not threading.main_thread().is_alive():
            raise TimeLimitError("the process ends")


#: The kernels of the programs that this process has compiled, by their names.
_known: dict[str, ProgramKernels] = {}


def find_kernels(model: Model, options: Sequence[object]) -> ProgramKernels | None:
    """Return the compiled kernels of a model, or None without LLVM.

    Args:
        model: The model.
        options: The options of compilation as a text, equal for equal options.
    """
    if not is_installed():
        return None
    name = _digest(model, options)
    return _known.setdefault(name, ProgramKernels(name))


def _digest(model: Model, options: Sequence[object]) -> str:
    """Return a digest of the layers, shapes and edges of a model and of options.

    It does not read the weights, which would take seconds for large models. Kernels rarely depend on weights; a kernel
    that does, and is not in the cache, is compiled before the first run.
    """
    digest = sha256(repr([__version__, get_level(), *options]).encode("utf-8", "surrogatepass"))
    for graph, layer in model.graph.walk():
        if layer is graph.layers[0]:
            digest.update(repr([tuple(edge) for edge in graph.edges]).encode())
        attributes = sorted((key, str(value)) for key, value in layer.attributes.items())
        ports = [(port.element_type, port.shape) for port in layer.outputs]
        facts = (layer.id, layer.type, layer.version, attributes, ports)
        digest.update(repr(facts).encode("utf-8", "surrogatepass"))
    name: str = digest.hexdigest()
    return name
