"""The output of `irrun info` without a model: versions, the processor, and support for compiled kernels."""

from __future__ import annotations

import platform
import sys
from collections.abc import Iterator, Mapping
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import numpy as np

from irrun.processor import allows_feature, find_features, get_level

__all__ = ["collect_environment", "format_environment"]

#: Processor features that kernels depend on: LLVM's name -> NumPy's name.
FEATURES = {
    "avx": "AVX",
    "avx2": "AVX2",
    "fma": "FMA3",
    "f16c": "F16C",
    "avxvnni": "AVX_VNNI",
    "avx512f": "AVX512F",
    "avx512vl": "AVX512VL",
    "avx512vnni": "AVX512VNNI",
    "neon": "NEON",
    "dotprod": "ASIMDDP",
}
#: Packages that irrun compares models with.
ENGINES = ("openvino", "onnxruntime")


def collect_environment() -> dict[str, Any]:
    """Return the facts, for JSON.

    Raises:
        InputError: An environment variable such as IRRUN_CPU or IRRUN_JIT has an unknown value.
    """
    from irrun.blas import get_kernel_name
    from irrun.fast.jit import cache
    from irrun.runtime.compilation import is_installed, resolve_jit
    from irrun.threads import get_default_thread_count
    from irrun.version import __version__

    choice = resolve_jit(None)
    jit: dict[str, Any] = {"installed": is_installed(), "default": "auto" if choice == "auto" else _name(choice)}
    if not is_installed():
        features = _list_features()
    else:
        from irrun.fast.jit.compiler import get_lanes, get_target, has_feature

        features = list(filter(has_feature, FEATURES))
        jit |= {"llvmlite": version("llvmlite"), "target": get_target(), "f32_per_vector": get_lanes()}
    return {
        "irrun": __version__,
        "python": platform.python_version(),
        "numpy": np.__version__,
        "blas_kernels": get_kernel_name(),
        "platform": f"{sys.platform} {platform.machine()}",
        "processor": {"level": get_level(), "features": features},
        "threads": get_default_thread_count(),
        "jit": jit,
        "cache": {"folder": str(cache.get_folder()), "bytes": sum(group.size for group in cache.list_groups())},
        **{name: _find_version(name) for name in ENGINES},
    }


def format_environment(facts: Mapping[str, Any]) -> Iterator[str]:
    """Yield the facts as lines of text."""
    from irrun.limits import format_size

    jit, processor = facts["jit"], facts["processor"]
    blas = f", OpenBLAS for {facts['blas_kernels']}" if facts["blas_kernels"] else ""
    yield f"irrun {facts['irrun']}, Python {facts['python']}, NumPy {facts['numpy']}{blas}"
    level = f" (IRRUN_CPU: {processor['level']})" if processor["level"] else ""
    yield f"processor: {facts['platform']}{level}, {facts['threads']} threads; {', '.join(processor['features'])}"
    if jit["installed"]:
        target = f"llvmlite {jit['llvmlite']}, vectors of {jit['f32_per_vector']} f32, {jit['target']}"
        yield f"compiled kernels: --jit {jit['default']}; {target}"
        yield f"cache: {format_size(facts['cache']['bytes'])} in {facts['cache']['folder']}"
    else:
        yield f"compiled kernels: --jit {jit['default']}; not installed: pip install 'irrun[jit]'"
    yield "; ".join(f"{name}: {facts[name] or 'not installed'}" for name in ENGINES)


def _name(is_on: bool) -> str:
    return "on" if is_on else "off"


def _list_features() -> list[str]:
    """Return the features of this processor according to NumPy, limited to IRRUN_CPU."""
    known = find_features()
    return [name for name, other in FEATURES.items() if known.get(other) and allows_feature(name)]


def _find_version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None
