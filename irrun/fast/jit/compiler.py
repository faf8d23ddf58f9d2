"""Compile functions in LLVM's intermediate representation, and call them.

LLVM comes with the package llvmlite, which numba uses, too. Compiled functions take addresses and integers, and run
without the interpreter's lock. Their object code is stored in the user's cache folder.

Importing LLVM and making source texts takes longer than loading kernels. A process that finds all of its kernels in the
cache does neither: `cache_kernel` stores which kernel a function returns for which arguments, `irrun.fast.jit.host`
describes the processor, and `irrun.fast.jit.objects` loads the object code.

Each function has an *entry*, which takes its arguments from an array: for each argument, the number of a base address
and an offset. Tasks call kernels by their entries; see `irrun.fast.jit.tasks`.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import os
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ParamSpec, Protocol, cast

import numpy as np

from irrun.deadlines import check_time
from irrun.digests import make_digest
from irrun.fast.jit import cache
from irrun.fast.jit.host import find_host, make_target
from irrun.fast.jit.objects import load_object
from irrun.forks import hold_while_forking
from irrun.processor import LEVELS, check_processor, get_level

if TYPE_CHECKING:
    from irrun.fast.jit.code import Function

__all__ = [
    "Kernel",
    "cache_kernel",
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

P = ParamSpec("P")

#: The content of a check that LLVM has accepted.
ACCEPTED = b"accepted"

#: Types of parameters in C.
C_TYPES = {"ptr": ctypes.c_void_p, "i64": ctypes.c_int64, "float": ctypes.c_float}


#: Whether kernels are found by the functions that make them. Tests that change these functions disable it.
USES_ALIASES = True


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
        identity: The key of its module in the cache and its name, if `compile_function` made it.
    """

    def __init__(self, address: int, signature: Sequence[str], entry: int = 0) -> None:
        self.address = address
        self.signature = tuple(signature)
        self.entry = entry
        self.identity = ("", "")
        self._function: Callable[..., object] | None = None

    def __call__(self, *arguments: float) -> None:
        """Call the function."""
        if self._function is None:
            self._function = ctypes.CFUNCTYPE(None, *(C_TYPES[type_] for type_ in self.signature))(self.address)
        self._function(*arguments)


class _Compiler:
    """LLVM for this processor, or for the level that IRRUN_CPU names. Its functions stay loaded in the process.

    Args:
        level: The level of x86-64; None for this processor.

    Raises:
        InputError: This processor lacks features of the level.
    """

    def __init__(self, level: str | None) -> None:
        host = find_host()
        self.cpu, self.features, self.known = host.cpu, host.features, host.known
        if level is not None:
            check_processor(level, self.known)
            self.cpu, self.features, self.known = level, "", LEVELS[level]
        self.triple = host.triple
        self.lanes = 16 if "avx512f" in self.known else 8 if "avx2" in self.known else 4
        self.target = make_target(host, self.cpu)
        self._lock = threading.RLock()
        hold_while_forking(self._lock)
        self._binding: Any = None
        self._engine: Any = None
        self._modules: dict[str, tuple[dict[str, Kernel], Any]] = {}

    @property
    def _llvm(self) -> Any:
        """LLVM, which takes long to import."""
        with self._lock:
            if self._binding is None:
                import llvmlite.binding as llvm

                llvm.initialize_native_target()
                llvm.initialize_native_asmprinter()
                hold_while_forking(llvm.ffi.lib._lock)
                self._binding = llvm
            return self._binding

    def _make_machine(self) -> Any:
        target = self._llvm.Target.from_triple(self.triple)
        return target.create_target_machine(cpu=self.cpu, features=self.features, opt=3, reloc="pic", jit=True)

    def get(self, text: str, signatures: Mapping[str, Sequence[str]]) -> dict[str, Kernel]:
        """Return the functions of a module by name, from the process, the cache or the compiler."""
        key = self.make_key(text)
        kernels = self.find(key, signatures)
        if kernels is not None:
            return kernels
        check_time()
        code = self.compile(text)
        cache.save(key, code)
        return self._add(key, key, code, signatures)

    def make_key(self, text: str) -> str:
        """Return the key of something that depends on a text and the target."""
        identity = "\n".join((self.target, self.triple, self.features, text))
        return f"{self.target}/{make_digest(identity)}"

    def find(self, key: str, signatures: Mapping[str, Sequence[str]]) -> dict[str, Kernel] | None:
        """Return the functions of a module by name, from the process or the cache, or None."""
        with self._lock:
            known = self._modules.get(key)
            if known is not None:
                return known[0]
        code = cache.load(key)
        if code is not None:
            with contextlib.suppress(RuntimeError):  # LLVM cannot link the object code, so it is compiled again
                return self._add(key, f"{key}/cached", code, signatures)
        return None

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
        machine = self._make_machine()
        module.data_layout = str(machine.target_data)
        module.verify()
        options = llvm.create_pipeline_tuning_options(speed_level=2)
        options.loop_vectorization = options.slp_vectorization = options.loop_unrolling = False
        builder = llvm.create_pass_builder(machine, options)
        builder.getModulePassManager().run(module, builder)
        return bytes(machine.emit_object(module))

    def _load(self, name: str, code: bytes, signatures: Mapping[str, Sequence[str]]) -> tuple[dict[str, Kernel], Any]:
        addresses = load_object(code, signatures)
        if addresses is not None:
            return {symbol: Kernel(addresses[symbol], signature) for symbol, signature in signatures.items()}, None
        if self._engine is None:
            self._engine = self._llvm.create_lljit_compiler(self._make_machine())
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
    text, compiler = function.get_text(), _get_compiler()
    signatures = _add_entry(function.name, function.signature)
    return _join(compiler.get(text, signatures), compiler.make_key(text), function.name)


def _add_entry(name: str, signature: Sequence[str]) -> dict[str, Sequence[str]]:
    """Return the signatures of a function and of its entry."""
    return {name: signature, f"{name}.entry": ("ptr", "ptr")}


def _join(kernels: Mapping[str, Kernel], key: str, name: str) -> Kernel:
    """Return a function of a module with its entry, given the key of the module."""
    kernel = Kernel(kernels[name].address, kernels[name].signature, kernels[f"{name}.entry"].address)
    kernel.identity = (key, name)
    return kernel


class CachedMaker(Protocol[P]):
    """A function whose kernels are cached; see `cache_kernel`."""

    def __call__(self, *arguments: P.args, **named: P.kwargs) -> Kernel:
        """Return a kernel."""

    def cache_clear(self) -> None:
        """Forget the kernels in the process, but not on disk."""


def cache_kernel(make: Callable[P, Kernel]) -> CachedMaker[P]:
    """Cache the kernels that a function returns, in the process and on disk.

    Later processes load a kernel by the name of the function and the texts of its arguments, without calling the
    function, if no file of `irrun.fast` has changed. Arguments whose texts contain addresses are not cached on disk.

    Args:
        make: A function that returns the result of `compile_function`. It depends on nothing but its arguments, the
            target and constants. Different arguments have different texts.
    """

    @functools.cache
    @functools.wraps(make)
    def get(*arguments: P.args, **named: P.kwargs) -> Kernel:
        text = f"{make.__module__}.{make.__qualname__}{arguments!r}{named!r}"
        if not USES_ALIASES or " at 0x" in text:
            return make(*arguments, **named)
        compiler = _get_compiler()
        alias = compiler.make_key(f"{_describe_code()} {compiler.lanes} {text}") + cache.ALIAS
        kernel = _find_alias(alias)
        if kernel is None:
            kernel = make(*arguments, **named)
            key, name = kernel.identity
            cache.save(alias, "\n".join((key, name, *kernel.signature)).encode())
        return kernel

    return cast(CachedMaker[P], get)


def _find_alias(alias: str) -> Kernel | None:
    """Return the kernel that an alias names, or None if either is not in the cache."""
    content = cache.load(alias)
    if content is None:
        return None
    with contextlib.suppress(ValueError):
        key, name, *signature = content.decode().split("\n")
        kernels = _get_compiler().find(key, _add_entry(name, signature))
        return None if kernels is None else _join(kernels, key, name)
    return None


@functools.cache
def _describe_code() -> str:
    """Return a digest of what the source texts of kernels depend on: the versions and files of irrun and NumPy.

    As for Python's compiled modules, the size and time of a file tell whether it has changed.
    """
    folder = Path(__file__).parents[1]
    files = []
    for parent, _, names in os.walk(folder):
        for name in names:
            if name.endswith((".py", ".pyc")) and not parent.endswith("__pycache__"):
                status = os.stat(os.path.join(parent, name))
                files.append((parent, name, status.st_size, status.st_mtime_ns))
    return make_digest(repr((np.__version__, sys.version, sorted(files))))


def compile_module(text: str, signatures: Mapping[str, Sequence[str]]) -> dict[str, Kernel]:
    """Return the functions of a module, given their names and parameter types."""
    return _get_compiler().get(text, signatures)


def get_triple() -> str:
    """Return the platform, as LLVM spells it: "x86_64-unknown-linux-gnu"."""
    return str(_get_compiler().triple)


def find_symbol(name: str) -> int:
    """Return the address of a function of the C library, or of the kernel of Windows, or 0."""
    library = ctypes.CDLL("kernel32" if sys.platform == "win32" else None)
    function = getattr(library, name, None)
    return 0 if function is None else ctypes.cast(function, ctypes.c_void_p).value or 0


def has_feature(name: str) -> bool:
    """Return whether kernels may use a feature, as LLVM spells it: "avx512vnni"."""
    return name in _get_compiler().known


def verify_text(text: str) -> bool:
    """Return whether this version of LLVM accepts a module; it depends on the signatures of intrinsic functions."""
    compiler = _get_compiler()
    key = compiler.make_key(text) + cache.CHECK
    known = cache.load(key)
    if known is None:
        try:
            compiler.compile(text)
            known = ACCEPTED
        except RuntimeError:
            known = b"refused"
        cache.save(key, known)
    return known == ACCEPTED
