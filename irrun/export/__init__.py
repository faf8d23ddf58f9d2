"""Export of models to ONNX.

`export_onnx` reads a model and writes the same computation in ONNX operations. Rules in `rules/`
define how each operation is expressed.
"""

from __future__ import annotations

from irrun.export.api import export_onnx

__all__ = ["export_onnx"]
