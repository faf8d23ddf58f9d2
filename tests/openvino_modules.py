"""Import of modules of OpenVINO and of its replacement."""

from __future__ import annotations

import importlib
from typing import Any


def import_builder(name: str = "openvino") -> Any:
    """Return a module of OpenVINO that builds models, or of its replacement if OpenVINO is not installed.

    Tests that compare results with OpenVINO skip without it.
    """
    try:
        return importlib.import_module(name)
    except ImportError:
        return importlib.import_module(f"irrun.{name}")


def import_submodule(ov: Any, name: str) -> Any:
    """Return a submodule of OpenVINO or of its replacement."""
    return importlib.import_module(f"{ov.__name__}.{name}")
