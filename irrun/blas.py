"""NumPy's BLAS library: its threads and its kernels.

NumPy's wheels contain OpenBLAS, which is found by the names of its functions. threadpoolctl finds other libraries, but
takes 4 milliseconds. threadpoolctl's own limits take 100 microseconds, the functions of OpenBLAS less than one.
"""

from __future__ import annotations

import contextlib
import ctypes
import sys
from collections.abc import Callable
from functools import cache
from typing import Any

from irrun.processor import allows_feature

__all__ = ["find_thread_functions", "get_kernel_name", "has_small_kernels"]

#: OpenBLAS's names of processors whose kernels multiply small matrices without copying them.
SMALL_KERNELS = frozenset({"SkylakeX", "Cooperlake", "SapphireRapids"})


def find_thread_functions() -> list[tuple[Callable[[], int], Callable[[int], object]]]:
    """Return the functions that read and set the thread count of each BLAS library."""
    with contextlib.suppress(Exception):
        functions = _find_openblas_functions(_load_numpy_library())
        if functions is not None:
            return [functions]
    try:
        from threadpoolctl import ThreadpoolController

        controllers = ThreadpoolController().select(user_api="blas").lib_controllers
    except Exception:  # an unknown library: its thread count stays
        return []
    return [
        (_find_openblas_functions(c.dynlib) if c.internal_api == "openblas" else None)
        or (c.get_num_threads, c.set_num_threads)
        for c in controllers
    ]


@cache
def has_small_kernels() -> bool:
    """Return whether products of up to a million multiplications are computed without copying the matrices.

    OpenBLAS copies the matrices of other products into the order in which its kernels read them. OpenBLAS follows the
    environment variable OPENBLAS_CORETYPE, and irrun also follows IRRUN_CPU.
    """
    return allows_feature("avx512f") and get_kernel_name() in SMALL_KERNELS


def get_kernel_name() -> str:
    """Return OpenBLAS's name of the processor that its kernels target; an empty text for another library."""
    with contextlib.suppress(Exception):
        get_name = _find_function(_load_numpy_library(), "openblas_get_corename")
        if get_name is not None:
            get_name.restype = ctypes.c_char_p
            return str(get_name().decode())
    return ""


def _load_numpy_library() -> Any:
    return ctypes.CDLL(sys.modules["numpy._core._multiarray_umath"].__file__)


def _find_openblas_functions(library: Any) -> tuple[Callable[[], int], Callable[[int], object]] | None:
    """Return the functions of OpenBLAS in a library or its dependencies, or None."""
    get_count = _find_function(library, "openblas_get_num_threads")
    set_count = _find_function(library, "openblas_set_num_threads")
    if get_count is None or set_count is None:
        return None
    get_count.restype, set_count.argtypes, set_count.restype = ctypes.c_int, [ctypes.c_int], None
    return get_count, set_count


def _find_function(library: Any, name: str) -> Any:
    """Return a function of OpenBLAS by its name without the prefix and suffix of the build, or None."""
    names = (f"{prefix}{name}{suffix}" for prefix in ("scipy_", "", "lib") for suffix in ("64_", "", "_64"))
    return next((getattr(library, each) for each in names if hasattr(library, each)), None)
