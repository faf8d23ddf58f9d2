"""irrun: runs OpenVINO IR files in pure Python on NumPy, and shows every value inside."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from irrun.errors import ExecutionError, InputError, IrrunError, ModelError, UnsupportedError

if TYPE_CHECKING:
    from irrun.data.load import load_inputs
    from irrun.data.save import save_outputs
    from irrun.element_types import ElementType
    from irrun.ir.extract import extract
    from irrun.ir.model import Model
    from irrun.ir.reader import read_model
    from irrun.ir.schema import validate
    from irrun.ir.writer import save_model
    from irrun.ops._support.registry import op
    from irrun.runtime.request import CompiledModel, InferRequest, Outputs, compile_model, run
    from irrun.shapes import PartialShape

__all__ = [
    "CompiledModel",
    "ElementType",
    "ExecutionError",
    "InferRequest",
    "InputError",
    "IrrunError",
    "Model",
    "ModelError",
    "Outputs",
    "PartialShape",
    "UnsupportedError",
    "compile_model",
    "extract",
    "load_inputs",
    "op",
    "read_model",
    "run",
    "save_model",
    "save_outputs",
    "validate",
]

__version__ = "0.1.0"

#: Where the public names live that are imported when they are first used.
_LAZY = {
    "CompiledModel": "irrun.runtime.request",
    "ElementType": "irrun.element_types",
    "InferRequest": "irrun.runtime.request",
    "Model": "irrun.ir.model",
    "Outputs": "irrun.runtime.request",
    "PartialShape": "irrun.shapes",
    "compile_model": "irrun.runtime.request",
    "extract": "irrun.ir.extract",
    "load_inputs": "irrun.data.load",
    "op": "irrun.ops._support.registry",
    "read_model": "irrun.ir.reader",
    "run": "irrun.runtime.request",
    "save_model": "irrun.ir.writer",
    "save_outputs": "irrun.data.save",
    "validate": "irrun.ir.schema",
}


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        raise AttributeError(f"module 'irrun' has no attribute {name!r}")
    import importlib

    value = getattr(importlib.import_module(_LAZY[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
