"""Rules for the import of ONNX's operators. Each module registers its rules when it is imported."""

from __future__ import annotations

from irrun.onnx_import.rules import (  # noqa: F401
    contrib,
    control_flow,
    elementwise,
    image,
    movement,
    normalization,
    products,
    quantization,
    recurrent,
    reduction,
    selection,
    sequences,
    signals,
    windows,
)
