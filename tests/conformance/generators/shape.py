"""Configurations for the shape operations."""

from __future__ import annotations

import numpy as np

from conformance.harness import Case, configurations


@configurations("ShapeOf", since=1)
def shape_of_1(rng):
    for shape in [(), (0,), (1,), (5,), (2, 3), (2, 0, 3), (1, 2, 3, 4), (2, 1, 2, 1, 2)]:
        yield Case([rng.normal(size=shape).astype(np.float32)])
