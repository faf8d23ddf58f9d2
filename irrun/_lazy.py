"""Lazy imports of submodules."""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Callable
from typing import Any

__all__ = ["get_provider", "make_lazy_getattr"]

#: Functions that a module calls although a module of a higher package implements them -> that module. Results
#: do not know how they are shown, models not how their shapes are inferred, and the reader not how ONNX is imported.
PROVIDERS = {
    "compare_bodies": "irrun.inspection.bodies",
    "make_chrome_trace": "irrun.inspection.chrome_trace",
    "make_comparison_html": "irrun.inspection.html",
    "make_profile_html": "irrun.inspection.html",
    "make_report": "irrun.inspection.report",
    "make_rich_table": "irrun.inspection.profile_table",
    "make_trace_html": "irrun.inspection.html",
    "open_trace": "irrun.inspection.trace_file",
    "read_onnx": "irrun.onnx_import.api",
    "reshape_model": "irrun.runtime.reshaping",
}


def make_lazy_getattr(package: str) -> Callable[[str], Any]:
    """Return a module-level `__getattr__` that imports submodules of a package on first access.

    Args:
        package: The qualified name of the package.

    Returns:
        A function that returns a submodule by its name and raises AttributeError if it does not exist.
    """

    def load(name: str) -> Any:
        if not name.startswith("__"):
            qualified = f"{package}.{name}"
            if importlib.util.find_spec(qualified) is not None:
                return importlib.import_module(qualified)
        raise AttributeError(f"module {package!r} has no attribute {name!r}")

    return load


def get_provider(name: str) -> Callable[..., Any]:
    """Import the module of a function in `PROVIDERS`, and return the function."""
    provider: Callable[..., Any] = getattr(importlib.import_module(PROVIDERS[name]), name)
    return provider
