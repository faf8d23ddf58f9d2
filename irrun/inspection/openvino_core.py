"""OpenVINO's core, with OpenVINO Tokenizers if a model needs it and the package is installed."""

from __future__ import annotations

import ctypes
import importlib.util
from pathlib import Path
from typing import Any

from irrun.ir.model import Model
from irrun.ops._support.registry import find

__all__ = ["create_core"]


def create_core(openvino: Any, model: Model) -> Any:
    """Return a core that can read a model.

    Args:
        openvino: The package of OpenVINO.
        model: The model.
    """
    core = openvino.Core()
    if any(_is_text_operation(layer.type, layer.version) for _, layer in model.graph.walk()):
        for library in _find_libraries():
            ctypes.CDLL(str(library))  # keeps it in memory: nodes of the model may outlive the core
            core.add_extension(str(library))
    return core


def _is_text_operation(operation_type: str, version: str) -> bool:
    operation = find(operation_type, version) if version == "extension" else None
    return operation is not None and operation.category == "text"


def _find_libraries() -> list[Path]:
    """Return the library of the package `openvino_tokenizers`, without importing the package."""
    specification = importlib.util.find_spec("openvino_tokenizers")
    folders = (specification.submodule_search_locations if specification else None) or ()
    return [path for folder in folders for path in sorted(Path(folder, "lib").glob("*openvino_tokenizers.*"))]
