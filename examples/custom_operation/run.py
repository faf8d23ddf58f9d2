"""Registers an operation of one's own, then runs a model that uses it."""

from pathlib import Path

import numpy as np

import irrun


@irrun.op("Checkerboard", opset="extension")
def checkerboard(data, *, period: int = 2, fill: float = 0.0):
    """`data` where row + column is a multiple of `period`, `fill` elsewhere."""
    row, column = np.indices(data.shape)
    return np.where((row + column) % period == 0, data, np.float32(fill))


out = irrun.run(Path(__file__).with_name("model.xml"), np.arange(12, dtype=np.float32).reshape(3, 4))
print(out["board"])
