"""Conformance cases for TopK."""

from __future__ import annotations

from itertools import product

import numpy as np

from irrun.conformance.cases import Case, register_cases

FLOATS: list[type] = [np.float32, np.float16, np.float64]
INTEGERS: list[type] = [np.int8, np.uint8, np.int16, np.uint16, np.int32, np.uint32, np.int64, np.uint64]


def sample_distinct(rng, *shape, dtype=np.float32):
    """Return distinct values in random order."""
    values = rng.permutation(int(np.prod(shape))).reshape(shape)
    return (values - values.size // 2 if np.dtype(dtype).kind != "u" else values).astype(dtype)


def sort_by_index(outputs):
    """Sort elements along the last axis by index, where the operation does not define their order."""
    order = np.argsort(outputs[1], axis=-1)
    return [np.take_along_axis(x, order, -1) for x in outputs]


@register_cases("TopK", since=1, k_types=[np.int64, np.int32, np.int8])
@register_cases("TopK", since=3, k_types=[np.int64, np.int32, np.int8])
def generate_topk_cases(rng, k_types):
    for mode, sort, index in product(("max", "min"), ("value", "index"), ("i32", "i64")):
        attributes = {"axis": 1, "mode": mode, "sort": sort, "index_element_type": index}
        for k in (1, 3, 6):
            yield Case([sample_distinct(rng, 2, 6, 3), np.array(k, k_types[0])], attributes, constants=[1])
        yield Case(
            [rng.integers(0, 3, (4, 9)).astype(np.float32), np.array(5, k_types[0])],
            attributes,
            constants=[1],
            note="equal elements, in the order of the reference implementation",
        )
    for mode, k in product(("max", "min"), (1, 3, 5)):
        attributes = {"axis": -1, "mode": mode, "sort": "none"}
        yield Case(
            [sample_distinct(rng, 2, 5), np.array(k, k_types[0])], attributes, constants=[1], normalize=sort_by_index
        )
    for axis, shape in [(0, (7,)), (0, (4, 2)), (-2, (3, 4, 2)), (3, (2, 1, 2, 3, 2)), (-1, (1, 1))]:
        attributes = {"axis": axis, "mode": "max", "sort": "value"}
        k = min(2, shape[axis])
        yield Case([sample_distinct(rng, *shape), np.array(k, k_types[0])], attributes, constants=[1])
    for dtype, mode in product(FLOATS + INTEGERS, ("max", "min")):
        attributes = {"axis": 1, "mode": mode, "sort": "value"}
        yield Case([sample_distinct(rng, 3, 8, dtype=dtype), np.array(3, k_types[0])], attributes, constants=[1])
    for dtype in (np.int32, np.uint64):
        info = np.iinfo(dtype)
        data = np.array([[0, info.max, info.min, 5, info.max - 1, 1]], dtype)
        for mode in ("max", "min"):
            yield Case(
                [data, np.array(4, k_types[0])],
                {"axis": 1, "mode": mode, "sort": "value"},
                constants=[1],
                faults=("plugin-64-bits",),
                note="extreme values",
            )
    special = np.array([[0.0, -np.inf, 3.0, np.inf, -2.0, 1e-40, -5.0]], np.float32)
    for mode in ("max", "min"):
        yield Case([special, np.array(5, k_types[0])], {"axis": 1, "mode": mode, "sort": "value"}, constants=[1])
    for dtype in k_types:
        attributes = {"axis": 0, "mode": "min", "sort": "value"}
        yield Case([sample_distinct(rng, 5, 2), np.array(2, dtype)], attributes, constants=[1])
    yield Case(
        [sample_distinct(rng, 3, 200), np.array(4, k_types[0])],
        {"axis": 1, "mode": "max", "sort": "value"},
        dynamic=[0],
        note="few of many elements, k as a Parameter",
    )
    yield Case(
        [rng.integers(0, 20, (3, 200)).astype(np.int32), np.array(9, k_types[0])],
        {"axis": 1, "mode": "max", "sort": "index"},
        constants=[1],
        faults=("plugin-topk",),
        note="few of many elements, some equal",
    )


@register_cases("TopK", since=11)
def topk_11(rng):
    yield from generate_topk_cases(rng, [np.int64, np.int32, np.int8])
    for mode, sort, k, dtype in product(("max", "min"), ("value", "index"), (2, 7), (np.float32, np.int32)):
        yield Case(
            [rng.integers(0, 4, (3, 9)).astype(dtype), np.array(k)],
            {"axis": 1, "mode": mode, "sort": sort, "stable": True},
            constants=[1],
            faults=() if sort == "value" else ("plugin-topk",),
            note="stable, equal elements",
        )
