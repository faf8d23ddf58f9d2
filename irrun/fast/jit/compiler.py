"""Compile functions in LLVM's intermediate representation, and call them.

LLVM comes with the package llvmlite, which numba uses, too. Compiled functions take addresses and integers, and run
without the interpreter's lock. Their object code is stored in the user's cache folder.

Each function has an *entry*, which takes its arguments from an array: for each argument, the number of a base address
and an offset. Tasks call kernels by their entries; see `irrun.fast.jit.tasks`.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import hashlib
import threading
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from irrun.deadlines import check_time
from irrun.fast.jit import cache
from irrun.forks import hold_while_forking
from irrun.processor import LEVELS, check_processor, find_features, get_level
from irrun.version import __version__

if TYPE_CHECKING:
    from irrun.fast.jit.code import Function

__all__ = [
    "Kernel",
    "check_target",
    "compile_function",
    "compile_module",
    "find_symbol",
    "get_lanes",
    "get_target",
    "get_triple",
    "has_feature",
    "verify_text",
]

#: Features of ARM that LLVM only finds for processors that it knows by name: LLVM's name -> NumPy's name.
ARM_FEATURES = {"neon": "NEON", "dotprod": "ASIMDDP"}

#: Types of parameters in C.
C_TYPES = {"ptr": ctypes.c_void_p, "i64": ctypes.c_int64, "float": ctypes.c_float}


class Kernel:
    """A compiled function of addresses and integers. It runs without the interpreter's lock.

    Args:
        address: The address of its code.
        signature: The types of its parameters.
        entry: The address of its entry, or 0.

    Attributes:
        address: The address of its code.
        signature: The types of its parameters.
        entry: The address of its entry, or 0.
    """

    def __init__(self, address: int, signature: Sequence[str], entry: int = 0) -> None:
        self.address = address
        self.signature = tuple(signature)
        self.entry = entry
        self._function = ctypes.CFUNCTYPE(None, *(C_TYPES[type_] for type_ in signature))(address)

    def __call__(self, *arguments: float) -> None:
        """Call the function."""
        self._function(*arguments)


class _Compiler:
    """LLVM for this processor, or for the level that IRRUN_CPU names. Its functions stay loaded in the process.

    Args:
        level: The level of x86-64; None for this processor.

    Raises:
        InputError: This processor lacks features of the level.
    """

    def __init__(self, level: str | None) -> None:
        import llvmlite.binding as llvm

        llvm.initialize_native_target()
        llvm.initialize_native_asmprinter()
        self._llvm = llvm
        features = llvm.get_host_cpu_features()
        known = find_features()
        features.update({name: True for name, other in ARM_FEATURES.items() if known.get(other)})
        self.known = frozenset(name for name, has in features.items() if has)
        self.cpu, self.features = llvm.get_host_cpu_name(), features.flatten()
        if level is not None:
            check_processor(level, self.known)
            self.cpu, self.features, self.known = level, "", LEVELS[level]
        self.triple = llvm.get_process_triple()
        self.lanes = 16 if "avx512f" in self.known else 8 if "avx2" in self.known else 4
        version = ".".join(map(str, llvm.llvm_version_info))
        self.target = f"irrun-{__version__}-llvm-{version}-{self.cpu}"
        self._lock = threading.RLock()
        hold_while_forking(self._lock)
        hold_while_forking(llvm.ffi.lib._lock)
        self._machine = self._make_machine()
        self._engine: Any = None
        self._modules: dict[str, tuple[dict[str, Kernel], Any]] = {}

    def _make_machine(self) -> Any:
        target = self._llvm.Target.from_triple(self.triple)
        return target.create_target_machine(cpu=self.cpu, features=self.features, opt=3, reloc="pic", jit=True)

    def get(self, text: str, signatures: Mapping[str, Sequence[str]]) -> dict[str, Kernel]:
        """Return the functions of a module by name, from the process, the cache or the compiler."""
        identity = "\n".join((self.target, self.triple, self.features, text))
        key = f"{self.target}/{hashlib.sha256(identity.encode()).hexdigest()}"
        with self._lock:
            known = self._modules.get(key)
            if known is not None:
                return known[0]
        code = cache.load(key)
        if code is not None:
            with contextlib.suppress(RuntimeError):  # LLVM cannot link the object code, so it is compiled again
                return self._add(key, f"{key}/cached", code, signatures)
        check_time()
        code = self.compile(text)
        cache.save(key, code)
        return self._add(key, key, code, signatures)

    def _add(self, key: str, name: str, code: bytes, signatures: Mapping[str, Sequence[str]]) -> dict[str, Kernel]:
        with self._lock:
            if key not in self._modules:
                self._modules[key] = self._load(name, code, signatures)
            return self._modules[key][0]

    def compile(self, text: str) -> bytes:
        """Return the object code of a module."""
        llvm = self._llvm
        context = llvm.create_context()
        module = llvm.parse_assembly(text, context)
        module.triple = self.triple
        module.data_layout = str(self._machine.target_data)
        module.verify()
        machine = self._make_machine()
        options = llvm.create_pipeline_tuning_options(speed_level=2)
        options.loop_vectorization = options.slp_vectorization = options.loop_unrolling = False
        builder = llvm.create_pass_builder(machine, options)
        builder.getModulePassManager().run(module, builder)
        return bytes(machine.emit_object(module))

    def _load(self, name: str, code: bytes, signatures: Mapping[str, Sequence[str]]) -> tuple[dict[str, Kernel], Any]:
        if self._engine is None:
            self._engine = self._llvm.create_lljit_compiler(self._machine)
        builder = self._llvm.JITLibraryBuilder().add_object_img(code)
        for symbol in signatures:
            builder = builder.export_symbol(symbol)
        library = builder.link(self._engine, name)
        return {symbol: Kernel(library[symbol], signature) for symbol, signature in signatures.items()}, library


@functools.cache
def _get_compiler() -> _Compiler:
    return _Compiler(get_level())


def check_target() -> None:
    """Check that this processor can run compiled kernels.

    Raises:
        InputError: IRRUN_CPU has an unknown value, or this processor lacks features of the level that it names.
    """
    _get_compiler()


def get_target() -> str:
    """Return the name of the cache folder of kernels: the versions and the processor that they are compiled for."""
    return _get_compiler().target


def get_lanes() -> int:
    """Return the number of f32 in a vector of the processor that kernels are compiled for."""
    return _get_compiler().lanes


def compile_function(function: Function) -> Kernel:
    """Return a function with its entry."""
    name, entry = function.name, f"{function.name}.entry"
    kernels = _get_compiler().get(function.get_text(), {name: function.signature, entry: ("ptr", "ptr")})
    return Kernel(kernels[name].address, function.signature, kernels[entry].address)


def compile_module(text: str, signatures: Mapping[str, Sequence[str]]) -> dict[str, Kernel]:
    """Return the functions of a module, given their names and parameter types."""
    return _get_compiler().get(text, signatures)


def get_triple() -> str:
    """Return the platform, as LLVM spells it: "x86_64-unknown-linux-gnu"."""
    return str(_get_compiler().triple)


def find_symbol(name: str) -> int:
    """Return the address of a function of the C library, or 0."""
    import llvmlite.binding as llvm

    return llvm.address_of_symbol(name) or 0


def has_feature(name: str) -> bool:
    """Return whether kernels may use a feature, as LLVM spells it: "avx512vnni"."""
    return name in _get_compiler().known


def verify_text(text: str) -> bool:
    """Return whether this version of LLVM accepts a module; it depends on the signatures of intrinsic functions."""
    try:
        _get_compiler().compile(text)
    except RuntimeError:
        return False
    return True
