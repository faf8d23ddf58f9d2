"""Register a custom operation and run a model that contains it."""

from pathlib import Path

import numpy as np

import irrun


@irrun.op("Checkerboard", opset="extension")
def checkerboard(data, *, period: int = 2, fill: float = 0.0):
    """Return `data` where row + column is a multiple of `period`, and `fill` elsewhere."""
    row, column = np.indices(data.shape)
    return np.where((row + column) % period == 0, data, np.float32(fill))


outputs = irrun.run(Path(__file__).with_name("model.xml"), np.arange(12, dtype=np.float32).reshape(3, 4))
print(outputs["board"])
