"""Attributes of modules that are imported when they are first used."""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Callable
from typing import Any

__all__ = ["lazy_submodules"]


def lazy_submodules(package: str) -> Callable[[str], Any]:
    """Return a `__getattr__` for a package that imports its submodules when they are first used."""

    def load(name: str) -> Any:
        if not name.startswith("__"):
            qualified = f"{package}.{name}"
            if importlib.util.find_spec(qualified) is not None:
                return importlib.import_module(qualified)
        raise AttributeError(f"module {package!r} has no attribute {name!r}")

    return load
