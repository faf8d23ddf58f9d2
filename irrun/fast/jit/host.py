"""The processor of this machine and the version of LLVM, as LLVM describes them.

LLVM is asked once. The description is stored next to the kernels, since importing LLVM takes longer than loading the
kernels of a model. It is found by everything that it depends on: the processor, as the operating system and NumPy
describe it, and the files of llvmlite.
"""

from __future__ import annotations

import contextlib
import importlib.util
import os
import platform
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from irrun.digests import make_digest
from irrun.fast.jit import cache
from irrun.processor import find_features
from irrun.version import __version__

__all__ = ["Host", "find_host"]

#: Features of ARM that LLVM only finds for processors that it knows by name: LLVM's name -> NumPy's name.
ARM_FEATURES = {"neon": "NEON", "dotprod": "ASIMDDP"}
#: Lines of /proc/cpuinfo that describe a processor, on x86-64 and on ARM, and the size of the part that is read.
CPU_FIELDS = frozenset({"vendor_id", "cpu family", "model", "model name", "stepping", "flags"}) | {
    *("Features", "CPU implementer", "CPU architecture", "CPU variant", "CPU part", "CPU revision")
}
CPU_SIZE = 1 << 14


class Host(NamedTuple):
    """A processor and a version of LLVM.

    Attributes:
        cpu: LLVM's name of the processor.
        features: Its features, as LLVM's code generator takes them.
        known: The names of the features that it has.
        triple: The platform, such as "x86_64-unknown-linux-gnu".
        version: The version of LLVM.
    """

    cpu: str
    features: str
    known: frozenset[str]
    triple: str
    version: str

    @property
    def target(self) -> str:
        """The name of the cache folder of kernels for this processor."""
        return make_target(self, self.cpu)


def make_target(host: Host, cpu: str) -> str:
    """Return the name of the cache folder of kernels that are compiled for a processor or level."""
    return f"irrun-{__version__}-llvm-{host.version}-{cpu}"


def find_host() -> Host:
    """Return the processor of this machine, from the cache or from LLVM."""
    name = _make_name()
    if name is None:
        return ask_llvm()
    content = cache.find(name)
    if content is not None:
        with contextlib.suppress(ValueError):
            cpu, features, triple, version, *known = content.decode().split("\n")
            return Host(cpu, features, frozenset(known), triple, version)
    host = ask_llvm()
    lines = (host.cpu, host.features, host.triple, host.version, *sorted(host.known))
    cache.save(f"{host.target}/{name}", "\n".join(lines).encode())
    return host


def ask_llvm() -> Host:
    """Import LLVM and return the processor of this machine."""
    import llvmlite.binding as llvm

    features = llvm.get_host_cpu_features()
    known = find_features()
    features.update({name: True for name, other in ARM_FEATURES.items() if known.get(other)})
    names = frozenset(name for name, has in features.items() if has)
    version = ".".join(map(str, llvm.llvm_version_info))
    return Host(llvm.get_host_cpu_name(), features.flatten(), names, llvm.get_process_triple(), version)


def _make_name() -> str | None:
    """Return the name of the file with the description; None if the operating system does not describe processors."""
    processor = _read_processor()
    library = _find_library()
    if processor is None or library is None:
        return None
    facts = (__version__, platform.machine(), processor, sorted(find_features().items()), library)
    return make_digest(repr(facts)) + cache.HOST


def _read_processor() -> list[str] | None:
    """Return what the operating system says about the first processor, or None."""
    with contextlib.suppress(OSError), open("/proc/cpuinfo", "rb") as file:
        first, end, _ = file.read(CPU_SIZE).decode("utf-8", "replace").partition("\n\n")
        if end:
            return [line for line in first.splitlines() if line.partition(":")[0].strip() in CPU_FIELDS]
    return None


def _find_library() -> list[tuple[str, int, int]] | None:
    """Return the path, size and time of the files of llvmlite's binding that are no Python code, or None."""
    spec = importlib.util.find_spec("llvmlite")
    if spec is None or spec.origin is None:
        return None
    with contextlib.suppress(OSError):
        return sorted(_list_libraries(Path(spec.origin).parent / "binding")) or None
    return None


def _list_libraries(folder: Path) -> Iterator[tuple[str, int, int]]:
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.is_file() and not entry.name.endswith(".py"):
                status = entry.stat()
                yield entry.path, status.st_size, status.st_mtime_ns
