"""Submodules that are imported on first access."""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Callable
from typing import Any

__all__ = ["make_lazy_getattr"]


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
