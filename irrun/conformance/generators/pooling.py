"""Conformance cases for the pooling operations."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np

from irrun.conformance.cases import Case, register_cases

F32, F16, F64, BF16 = np.float32, np.float16, np.float64, ml_dtypes.bfloat16


def sample_values(rng, shape, dtype=F32):
    """Return random values with many duplicates, so that the choice among equal maxima matters."""
    low = 0 if np.dtype(dtype).kind == "u" else -20
    return (rng.integers(low, 21, shape) / (4 if np.dtype(dtype).kind not in "iu" else 1)).astype(dtype)


def make_attributes(rank, kernel, *, strides=1, begin=0, end=0, **extra):
    """Return the attributes that all pooling operations have in common. A number applies to every axis."""
    per_axis = {"strides": strides, "pads_begin": begin, "pads_end": end}
    per_axis = {k: [v] * rank if isinstance(v, int) else list(v) for k, v in per_axis.items()}
    return {"kernel": list(kernel)} | per_axis | extra


#: (spatial shape, kernel, attributes).
WINDOWS: list[tuple[tuple[int, ...], tuple[int, ...], dict[str, Any]]] = [
    ((7,), (3,), {}),
    ((8,), (3,), {"strides": 2, "begin": 1, "end": 0}),
    ((8,), (3,), {"strides": 2, "rounding_type": "ceil"}),
    ((8,), (2,), {"strides": 3, "begin": 1, "end": 1, "rounding_type": "ceil"}),
    ((6,), (4,), {"auto_pad": "same_upper", "strides": 2}),
    ((6,), (4,), {"auto_pad": "same_lower", "strides": 1}),
    ((5, 6), (2, 3), {}),
    ((5, 6), (1, 1), {"strides": 2}),
    ((5, 6), (5, 6), {}),
    ((7, 8), (3, 2), {"strides": (2, 3), "begin": (1, 0), "end": (0, 1)}),
    ((7, 8), (3, 3), {"strides": 2, "begin": 1, "end": 1}),
    ((7, 8), (3, 3), {"strides": 2, "begin": 1, "end": 1, "rounding_type": "ceil"}),
    ((7, 8), (2, 2), {"strides": (3, 4), "rounding_type": "ceil"}),
    ((6, 7), (3, 3), {"strides": 2, "rounding_type": "ceil"}),
    ((6, 7), (2, 3), {"strides": 1, "begin": (0, 2), "end": (1, 1)}),
    ((7, 8), (3, 4), {"auto_pad": "same_upper", "strides": (2, 3)}),
    ((7, 8), (3, 4), {"auto_pad": "same_upper", "strides": 2, "rounding_type": "ceil"}),
    ((7, 8), (4, 3), {"auto_pad": "same_lower", "strides": (3, 2), "begin": 4, "end": 4}),
    ((7, 8), (3, 3), {"auto_pad": "valid", "begin": 1, "end": 1, "strides": 2}),
    ((7, 8), (2, 2), {"auto_pad": "valid", "strides": 2, "rounding_type": "ceil"}),
    ((7, 8), (3, 3), {"auto_pad": "explicit", "begin": 1, "end": 1}),
    ((4, 5, 6), (2, 3, 2), {}),
    ((4, 5, 6), (3, 3, 3), {"strides": (1, 2, 3), "begin": (1, 0, 2), "end": (0, 1, 1)}),
    ((4, 5, 6), (3, 2, 3), {"strides": 2, "begin": 1, "end": 1, "rounding_type": "ceil"}),
    ((4, 5, 6), (2, 2, 3), {"strides": 2, "rounding_type": "ceil"}),
    ((4, 5, 6), (3, 2, 3), {"auto_pad": "same_upper", "strides": 2}),
    ((4, 5, 6), (2, 3, 2), {"auto_pad": "same_lower", "strides": 2}),
]

#: Windows whose last position could start in the padding.
TORCH_WINDOWS: list[tuple[tuple[int, ...], tuple[int, ...], dict[str, Any]]] = [
    ((8,), (2,), {"strides": 3, "begin": 1, "end": 1}),
    ((5,), (1,), {"strides": 3, "begin": 0, "end": 0}),
    ((7, 8), (2, 2), {"strides": (3, 4)}),
    ((6, 7), (2, 2), {"strides": 3, "begin": 1, "end": 1}),
    ((6, 8), (3, 3), {"strides": 2, "begin": 1, "end": 1}),
    ((6, 8), (3, 3), {"strides": (3, 2), "begin": (0, 1), "end": 1}),
    ((4, 5, 6), (2, 2, 3), {"strides": (2, 3, 2), "begin": 1, "end": 1}),
    ((4, 5, 6), (2, 2, 3), {"strides": 2}),
]
TORCH_WINDOWS = [
    (spatial, kernel, window | {"rounding_type": "ceil_torch"}) for spatial, kernel, window in TORCH_WINDOWS
]

#: Windows with dilations.
DILATED_WINDOWS: list[tuple[tuple[int, ...], tuple[int, ...], dict[str, Any]]] = [
    ((9,), (3,), {"dilations": [2]}),
    ((9,), (2,), {"dilations": [3], "strides": 2, "begin": 1, "end": 1}),
    ((7, 8), (3, 2), {"dilations": [2, 3]}),
    ((7, 8), (2, 3), {"dilations": [3, 2], "strides": 2, "begin": 1, "end": 1}),
    ((7, 8), (2, 2), {"dilations": [2, 2], "strides": 2, "rounding_type": "ceil"}),
    ((7, 8), (3, 2), {"dilations": [1, 2], "auto_pad": "same_upper", "strides": 2}),
    ((7, 8), (2, 3), {"dilations": [2, 1], "auto_pad": "same_lower"}),
    ((5, 5, 6), (2, 2, 2), {"dilations": [1, 2, 3], "begin": 1, "end": 1}),
]


@register_cases("MaxPool", since=1)
def max_pool_1(rng):
    for i, (spatial, kernel, window) in enumerate(WINDOWS):
        dynamic = i % 4 == 1 and "auto_pad" not in window
        yield Case(
            [sample_values(rng, (1 + i % 2, 3, *spatial))],
            make_attributes(len(spatial), kernel, **window),
            dynamic=[0] if dynamic else [],
        )
    for dtype in (F16, BF16, F64, np.int32, np.int64, np.uint32, np.uint64, np.int8, np.uint8):
        yield Case([sample_values(rng, (1, 2, 5, 6), dtype)], make_attributes(2, (3, 3), strides=2, begin=1, end=1))


@register_cases("MaxPool", since=8, table=WINDOWS + DILATED_WINDOWS)
@register_cases("MaxPool", since=14, table=WINDOWS + DILATED_WINDOWS + TORCH_WINDOWS)
def generate_max_pool_cases(rng, table):
    """Yield the cases of max pooling with two outputs."""
    for i, (spatial, kernel, window) in enumerate(table):
        rank = len(spatial)
        attributes = make_attributes(rank, kernel, **{"dilations": [1] * rank} | window)
        attributes["axis"] = (0, 2, 1, -1, -rank)[i % 5]
        attributes["index_element_type"] = ("i64", "i32")[i % 2]
        dynamic = i % 4 == 1 and "auto_pad" not in window
        yield Case(
            [sample_values(rng, (1 + i % 2, 3, *spatial))],
            attributes,
            dynamic=[0] if dynamic else [],
            faults=("reference-dynamic-output",) if dynamic else (),
        )
    data = sample_values(rng, (2, 3, 5, 6))
    rows = np.pad(data, ((0, 0), (0, 0), (1, 0), (0, 0)), constant_values=-np.inf)
    expected = rows.reshape(2, 3, 3, 2, 3, 2).max(axis=(3, 5))
    same = make_attributes(2, (2, 2), strides=2, dilations=[1, 1], axis=0) | {"auto_pad": "same_lower"}
    faults = ("reference-dynamic-output", "plugin-max-pool")
    yield Case([data], same, dynamic=[0], faults=faults, expected=[expected, None], note="same_lower, dynamic")
    attributes = make_attributes(2, (3, 3), strides=2, begin=1, end=1, dilations=[1, 1], axis=0)
    attributes["index_element_type"] = "i64"
    for dtype in (F16, F64, np.int32, np.int64, np.uint32, np.uint64, np.int8, np.uint8):
        yield Case([sample_values(rng, (2, 2, 5, 6), dtype)], attributes)
    special = sample_values(rng, (2, 2, 5, 6))
    special[0, 0, :3] = -np.inf
    special[0, 1, 2:] = np.finfo(F32).min
    special[1, 0, 1:4, 2:5] = np.inf
    yield Case([special], attributes, note="infinities")
    special[1, 1, ::2] = np.nan
    yield Case([special], attributes, note="NaN")


@register_cases("AvgPool", since=1, table=WINDOWS)
@register_cases("AvgPool", since=14, table=WINDOWS + TORCH_WINDOWS)
def generate_avg_pool_cases(rng, table, extra_attributes=None):
    """Yield the cases of average pooling.

    `extra_attributes` apply to the two-dimensional cases for the element types.
    """
    for i, (spatial, kernel, window) in enumerate(table):
        for exclude in (False, True):
            attributes = make_attributes(len(spatial), kernel, **window) | {"exclude-pad": exclude}
            empty = has_empty_window(spatial, attributes)
            yield Case(
                [sample_values(rng, (1 + i % 2, 3, *spatial))],
                attributes,
                dynamic=[0] if i % 4 == 1 else [],
                normalize=replace_nan if empty else None,
                note="the CPU plugin divides 0 by 0 in empty windows" if empty else "",
            )
    attributes = make_attributes(2, (3, 2), strides=2, begin=1, end=1, **extra_attributes or {}) | {"exclude-pad": True}
    for dtype in (np.int8, np.uint8):  # the CPU plugin rounds, the reference implementation divides as u64
        info = np.iinfo(dtype)
        yield Case([rng.integers(info.min, info.max, (1, 2, 5, 6), dtype, endpoint=True)], attributes)
    for dtype in (F16, BF16, F64):
        tolerance = (1e-6, 1e-6) if dtype is F64 else None  # the CPU plugin computes in f32
        yield Case([sample_values(rng, (1, 2, 5, 6), dtype)], attributes, tolerance=tolerance)
    for dtype in (np.int32, np.int64, np.uint32, np.uint64):
        data = sample_values(rng, (1, 2, 6, 4), dtype)
        total = data.reshape(1, 2, 2, 3, 2, 2).sum(axis=(3, 5), dtype=dtype)
        sign = np.sign(total.astype(np.int64)).astype(dtype)
        integer_attributes = make_attributes(2, (3, 2), strides=(3, 2), **extra_attributes or {}) | {
            "exclude-pad": False
        }
        yield Case(
            [data],
            integer_attributes,
            faults=("plugin-avg-pool",),
            expected=[sign * (sign * total // dtype(6))],
        )


def has_empty_window(spatial, attributes):
    """Return whether a window contains only padding. The reference implementation returns 0 as its average."""
    if attributes.get("rounding_type") != "ceil" or "auto_pad" in attributes:
        return False
    arguments = (attributes[k] for k in ("kernel", "strides", "pads_begin", "pads_end"))
    for n, k, s, b, e in zip(spatial, *arguments, strict=True):
        last = -(-(n + b + e - k) // s) * s
        if last >= n + b:
            return True
    return False


def replace_nan(outputs):
    return [np.nan_to_num(x) for x in outputs]


@register_cases("AvgPool", since=16)
def avg_pool_16(rng):
    table = [(s, k, {"dilations": [1] * len(s)} | window) for s, k, window in WINDOWS + TORCH_WINDOWS + DILATED_WINDOWS]
    yield from generate_avg_pool_cases(rng, table, {"dilations": [1, 1]})


#: (spatial shape, output shape) of adaptive pooling.
ADAPTIVE = [
    ((7,), (3,)),
    ((7,), (7,)),
    ((3,), (5,)),
    ((1,), (1,)),
    ((7,), (1,)),
    ((5, 6), (3, 2)),
    ((5, 6), (1, 1)),
    ((5, 6), (5, 6)),
    ((7, 8), (4, 3)),
    ((4, 5), (6, 7)),
    ((1, 9), (1, 4)),
    ((4, 5, 6), (2, 3, 4)),
    ((4, 5, 6), (1, 1, 1)),
    ((3, 7, 4), (2, 5, 6)),
]


@register_cases("AdaptiveAvgPool", since=8)
def adaptive_avg_pool_8(rng):
    for i, (spatial, shape) in enumerate(ADAPTIVE):
        yield Case(
            [sample_values(rng, (1 + i % 2, 3, *spatial)), np.array(shape, (np.int64, np.int32)[i % 2])],
            constants=[1] if i % 3 else [],
        )
    for dtype in (F16, BF16, F64):
        tolerance = (1e-6, 1e-6) if dtype is F64 else None  # the CPU plugin computes in f32
        yield Case([sample_values(rng, (2, 2, 5, 6), dtype), np.array([2, 4])], constants=[1], tolerance=tolerance)


@register_cases("AdaptiveMaxPool", since=8)
def adaptive_max_pool_8(rng):
    for i, (spatial, shape) in enumerate(ADAPTIVE):
        yield make_adaptive_max_case(rng, spatial, shape, F32, ("i64", "i32")[i // 2 % 2], [1] if i % 3 else [])
    for dtype in (F16, BF16, F64, np.int32, np.int64, np.uint8):
        yield make_adaptive_max_case(rng, (5, 6), (2, 4), dtype, "i64", [1])


def make_adaptive_max_case(rng, spatial, shape, dtype, index_type, constants):
    """Return a case of AdaptiveMaxPool with expected outputs computed window by window.

    No oracle returns indices in i64.
    """
    data = sample_values(rng, (2, 3, *spatial), dtype)
    maxima = np.zeros((2, 3, *shape), dtype)
    positions = np.zeros(maxima.shape, {"i64": np.int64, "i32": np.int32}[index_type])
    indices = np.arange(np.prod(spatial)).reshape(spatial)
    for cell in np.ndindex(*shape):
        target = (..., *cell)
        window = tuple(slice(p * n // m, -(-(p + 1) * n // m)) for p, n, m in zip(cell, spatial, shape, strict=True))
        part = (..., *window)
        values = data[part].reshape(2, 3, -1)
        first = values.argmax(axis=2)
        maxima[target] = np.take_along_axis(values, first[..., np.newaxis], 2)[..., 0]
        positions[target] = indices[window].reshape(-1)[first]
    return Case(
        [data, np.array(shape, np.int64)],
        {"index_element_type": index_type},
        constants=constants,
        expected=[maxima, positions],
    )
