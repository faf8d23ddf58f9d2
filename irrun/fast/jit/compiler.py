"""Compilation of functions in LLVM's intermediate representation, and calls of them.

LLVM comes with the package llvmlite, the compiler inside numba. Compiled functions take addresses and integers, are
called without the interpreter's lock, and are kept in the user's cache folder as object code.
"""

from __future__ import annotations

import ctypes
import functools
import hashlib
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from irrun.fast.jit import cache

if TYPE_CHECKING:
    from irrun.fast.jit.code import Function

__all__ = ["compile_function", "get_lanes", "has_feature", "verify_text"]

#: Types of parameters in C.
C_TYPES = {"ptr": ctypes.c_void_p, "i64": ctypes.c_int64, "float": ctypes.c_float}


class _Compiler:
    """LLVM for the processor of this machine. Its functions stay loaded as long as the process runs."""

    def __init__(self) -> None:
        import llvmlite.binding as llvm

        llvm.initialize_native_target()
        llvm.initialize_native_asmprinter()
        self._llvm = llvm
        self.cpu = llvm.get_host_cpu_name()
        features = llvm.get_host_cpu_features()
        self.features = features.flatten()
        self.triple = llvm.get_process_triple()
        self.lanes = 16 if features.get("avx512f") else 8 if features.get("avx2") else 4
        self._version = ".".join(map(str, llvm.llvm_version_info))
        self._lock = threading.Lock()
        self._functions: dict[str, tuple[Callable[..., None], Any]] = {}

    @functools.cached_property
    def _machine(self) -> Any:
        target = self._llvm.Target.from_triple(self.triple)
        return target.create_target_machine(cpu=self.cpu, features=self.features, opt=3, reloc="pic", jit=True)

    @functools.cached_property
    def _engine(self) -> Any:
        return self._llvm.create_lljit_compiler(self._machine)

    def get(self, function: Function) -> Callable[..., None]:
        """Return a function that can be called, from the process, the cache or the compiler."""
        text = function.get_text()
        identity = "\n".join((self._version, self.triple, self.cpu, self.features, text))
        key = hashlib.sha256(identity.encode()).hexdigest()
        with self._lock:
            known = self._functions.get(key)
            if known is not None:
                return known[0]
        code = cache.load(key)
        if code is None:
            if not threading.main_thread().is_alive():
                raise RuntimeError("the process ends")
            code = self.compile(text)
            cache.save(key, code)
        with self._lock:
            if key not in self._functions:
                self._functions[key] = self._load(key, code, function)
            return self._functions[key][0]

    def compile(self, text: str) -> bytes:
        """Return the object code of a module."""
        llvm = self._llvm
        context = llvm.create_context()
        module = llvm.parse_assembly(text, context)
        module.triple = self.triple
        module.data_layout = str(self._machine.target_data)
        module.verify()
        target = llvm.Target.from_triple(self.triple)
        machine = target.create_target_machine(cpu=self.cpu, features=self.features, opt=3, reloc="pic", jit=True)
        options = llvm.create_pipeline_tuning_options(speed_level=2)
        options.loop_vectorization = options.slp_vectorization = options.loop_unrolling = False
        builder = llvm.create_pass_builder(machine, options)
        builder.getModulePassManager().run(module, builder)
        return bytes(machine.emit_object(module))

    def _load(self, key: str, code: bytes, function: Function) -> tuple[Callable[..., None], Any]:
        builder = self._llvm.JITLibraryBuilder()
        library = builder.add_object_img(code).export_symbol(function.name).link(self._engine, key)
        signature = ctypes.CFUNCTYPE(None, *(C_TYPES[type_] for type_ in function.signature))
        return signature(library[function.name]), library


@functools.cache
def _get_compiler() -> _Compiler:
    return _Compiler()


def get_lanes() -> int:
    """Return the number of f32 in a vector of this processor."""
    return _get_compiler().lanes


def compile_function(function: Function) -> Callable[..., None]:
    """Return a function that can be called with addresses and integers, without the interpreter's lock."""
    return _get_compiler().get(function)


def has_feature(name: str) -> bool:
    """Return whether this processor has a feature, as LLVM spells it: "avx512vnni"."""
    return f"+{name}" in _get_compiler().features.split(",")


def verify_text(text: str) -> bool:
    """Return whether this version of LLVM accepts a module; it depends on the signatures of intrinsic functions."""
    try:
        _get_compiler().compile(text)
    except RuntimeError:
        return False
    return True
