"""The processor that irrun computes for: this one, or on x86-64 a level that IRRUN_CPU names."""

from __future__ import annotations

import os
from collections.abc import Container, Mapping

from irrun.errors import InputError

__all__ = ["HOST", "LEVELS", "X86_64", "allows_feature", "check_processor", "find_features", "get_level"]

#: The value of IRRUN_CPU for this processor.
HOST = "host"
#: Python's names of x86-64.
X86_64 = ("x86_64", "AMD64")

_V1 = frozenset({"cmov", "cx8", "fxsr", "mmx", "sse", "sse2"})
_V2 = _V1 | {"cx16", "popcnt", "sahf", "sse3", "sse4.1", "sse4.2", "ssse3"}
_V3 = _V2 | {"avx", "avx2", "bmi", "bmi2", "f16c", "fma", "lzcnt", "movbe", "xsave"}
_V4 = _V3 | {"avx512bw", "avx512cd", "avx512dq", "avx512f", "avx512vl"}
#: The levels of x86-64 and their features, as LLVM names both.
LEVELS = {"x86-64": _V1, "x86-64-v2": _V2, "x86-64-v3": _V3, "x86-64-v4": _V4}


def get_level() -> str | None:
    """Return the level that the environment variable IRRUN_CPU names; None for this processor.

    Raises:
        InputError: The value is unknown, or a level on another processor than x86-64.
    """
    text = os.environ.get("IRRUN_CPU", "").strip().lower()
    if text in ("", HOST):
        return None
    import platform

    machine = platform.machine()
    if machine not in X86_64:
        raise InputError(f"IRRUN_CPU is {text!r}, expected {HOST!r}, the only value on {machine}")
    if text not in LEVELS:
        raise InputError(f"IRRUN_CPU is {text!r}, expected one of {', '.join((HOST, *LEVELS))}")
    return text


def allows_feature(name: str) -> bool:
    """Return whether IRRUN_CPU allows a feature of this processor, as LLVM names it: "avx512f"."""
    try:
        level = get_level()
    except InputError:  # reported where a model is compiled
        return True
    return level is None or name in LEVELS[level]


def find_features() -> Mapping[str, bool]:
    """Return whether this processor has each feature that NumPy knows, by NumPy's name: "AVX512_SKX"."""
    try:
        from numpy._core._multiarray_umath import __cpu_features__  # type: ignore[import-not-found]
    except ImportError:  # NumPy 1
        from numpy.core._multiarray_umath import __cpu_features__  # type: ignore[no-redef]
    features: Mapping[str, bool] = __cpu_features__
    return features


def check_processor(level: str, features: Container[str]) -> None:
    """Check that this processor has the features of a level.

    Raises:
        InputError: It has not.
    """
    missing = sorted(name for name in LEVELS[level] if name not in features)
    if missing:
        raise InputError(
            f"IRRUN_CPU is {level!r}, but this processor lacks {', '.join(missing)}; expected a lower level or {HOST!r}"
        )
