"""Conformance cases for SearchSorted."""

from __future__ import annotations

from itertools import product

import numpy as np

from irrun.conformance.cases import Case, register_cases
from irrun.conformance.generators.movement_samples import DTYPES


@register_cases("SearchSorted", since=15)
def search_sorted_15(rng):
    for right_mode, output_type in product((False, True), ("i32", "i64")):
        attributes = {"right_mode": right_mode, "output_type": output_type}
        for rows, wanted in [
            ((7,), (4,)),
            ((7,), (2, 3)),
            ((7,), ()),
            ((3, 5), (3, 4)),
            ((2, 2, 6), (2, 2, 9)),
            ((1, 1), (1, 3)),
            ((8,), (2, 1, 3)),
        ]:
            sequence = np.sort(rng.integers(0, 9, rows), axis=-1).astype(np.float32)
            values = rng.integers(-1, 10, wanted).astype(np.float32)
            yield Case([sequence, values], attributes)
    for dtype, right_mode in product(DTYPES[:-1], (False, True)):
        sequence = np.sort(rng.integers(0, 9, (2, 6)), axis=-1).astype(dtype)
        values = rng.integers(0, 10, (2, 4)).astype(dtype)
        yield Case([sequence, values], {"right_mode": right_mode, "output_type": "i64"})
    attributes = {"right_mode": False, "output_type": "i64"}
    special = np.array([-np.inf, -1, 0, 0, 3, np.inf], np.float32)
    values = np.array([np.inf, -np.inf, np.nan, -0.0, 0, 4], np.float32)
    yield Case([special, values], attributes, note="infinities and NaN")
    unsorted = rng.permutation(9).astype(np.float32)
    values = np.arange(9).astype(np.float32)
    yield Case([unsorted, values], attributes, note="unsorted, same search steps")
    yield Case([special, np.arange(4).astype(np.float32)], attributes, constants=[0], dynamic=[1])
