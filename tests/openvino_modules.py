"""Import of submodules of OpenVINO and of its replacement."""

from __future__ import annotations

import importlib
from typing import Any


def import_submodule(ov: Any, name: str) -> Any:
    """Return a submodule of OpenVINO or of its replacement."""
    return importlib.import_module(f"{ov.__name__}.{name}")
