"""The element types that onnxruntime's CPU kernels support.

`tools/onnx_kernel_types.py` writes `kernel_types.txt`. Each line has an ONNX operation, a type variable of its schema,
and element types.
"""

from __future__ import annotations

from importlib.resources import files

__all__ = ["KERNEL_TYPES"]


def _read_types() -> dict[str, dict[str, str]]:
    table: dict[str, dict[str, str]] = {}
    for line in (files(__package__) / "kernel_types.txt").read_text(encoding="utf-8").splitlines():
        operation, variable, *types = line.split()
        table.setdefault(operation, {})[variable] = " ".join(types)
    return table


#: ONNX operation -> type variable of its schema -> element types. Types that are missing are computed in another one.
KERNEL_TYPES = _read_types()
