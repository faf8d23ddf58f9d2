"""Rules for the export of operations to ONNX. Each module registers its rules when it is imported."""

from __future__ import annotations

from irrun.export.rules import (  # noqa: F401
    detection,
    elementwise,
    image,
    movement,
    products,
    quantization,
    regions,
    sequences,
    signals,
    sparse,
    suppression,
    windows,
)
