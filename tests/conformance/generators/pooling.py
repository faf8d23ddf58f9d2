"""Configurations for the pooling operations."""

from __future__ import annotations

import ml_dtypes
import numpy as np

from conformance.harness import Case, configurations

F32, F16, F64, BF16 = np.float32, np.float16, np.float64, ml_dtypes.bfloat16
EVALUATE = ("evaluate",)


def values(rng, shape, dtype=F32):
    """Random values with many equal ones, so that the first maximum matters."""
    low = 0 if np.dtype(dtype).kind == "u" else -20
    return (rng.integers(low, 21, shape) / (4 if np.dtype(dtype).kind not in "iu" else 1)).astype(dtype)


def attributes(rank, kernel, *, strides=1, begin=0, end=0, **others):
    """The attributes all poolings share; a number stands for the same in every axis."""
    wide = {"strides": strides, "pads_begin": begin, "pads_end": end}
    wide = {k: [v] * rank if isinstance(v, int) else list(v) for k, v in wide.items()}
    return {"kernel": list(kernel)} | wide | others


#: (spatial shape, kernel, attributes).
PLACES = [
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

#: The same where the last window could begin in the padding.
TORCH = [
    ((8,), (2,), {"strides": 3, "begin": 1, "end": 1}),
    ((5,), (1,), {"strides": 3, "begin": 0, "end": 0}),
    ((7, 8), (2, 2), {"strides": (3, 4)}),
    ((6, 7), (2, 2), {"strides": 3, "begin": 1, "end": 1}),
    ((6, 8), (3, 3), {"strides": 2, "begin": 1, "end": 1}),
    ((6, 8), (3, 3), {"strides": (3, 2), "begin": (0, 1), "end": 1}),
    ((4, 5, 6), (2, 2, 3), {"strides": (2, 3, 2), "begin": 1, "end": 1}),
    ((4, 5, 6), (2, 2, 3), {"strides": 2}),
]
TORCH = [(spatial, kernel, places | {"rounding_type": "ceil_torch"}) for spatial, kernel, places in TORCH]

#: The same with elements of a window apart.
DILATED = [
    ((9,), (3,), {"dilations": [2]}),
    ((9,), (2,), {"dilations": [3], "strides": 2, "begin": 1, "end": 1}),
    ((7, 8), (3, 2), {"dilations": [2, 3]}),
    ((7, 8), (2, 3), {"dilations": [3, 2], "strides": 2, "begin": 1, "end": 1}),
    ((7, 8), (2, 2), {"dilations": [2, 2], "strides": 2, "rounding_type": "ceil"}),
    ((7, 8), (3, 2), {"dilations": [1, 2], "auto_pad": "same_upper", "strides": 2}),
    ((7, 8), (2, 3), {"dilations": [2, 1], "auto_pad": "same_lower"}),
    ((5, 5, 6), (2, 2, 2), {"dilations": [1, 2, 3], "begin": 1, "end": 1}),
]


@configurations("MaxPool", since=1)
def max_pool_1(rng):
    for i, (spatial, kernel, places) in enumerate(PLACES):
        dynamic = i % 4 == 1 and "auto_pad" not in places
        yield Case(
            [values(rng, (1 + i % 2, 3, *spatial))],
            attributes(len(spatial), kernel, **places),
            dynamic=[0] if dynamic else [],
        )
    for dtype in (F16, BF16, F64, np.int32, np.int64, np.uint32, np.uint64, np.int8, np.uint8):
        yield Case([values(rng, (1, 2, 5, 6), dtype)], attributes(2, (3, 3), strides=2, begin=1, end=1))


@configurations("MaxPool", since=8)
def max_pool_8(rng):
    yield from max_pool_indices(rng, PLACES + DILATED)


@configurations("MaxPool", since=14)
def max_pool_14(rng):
    yield from max_pool_indices(rng, PLACES + DILATED + TORCH)


def max_pool_indices(rng, table):
    """Configurations of max pooling with two outputs.

    With dynamic shapes, OpenVINO's evaluate writes the positions past the end of their tensor, and the CPU plugin
    takes padding of auto_pad as zero.
    """
    for i, (spatial, kernel, places) in enumerate(table):
        rank = len(spatial)
        described = attributes(rank, kernel, **{"dilations": [1] * rank} | places)
        described["axis"] = (0, 2, 1, -1, -rank)[i % 5]
        described["index_element_type"] = ("i64", "i32")[i % 2]
        dynamic = i % 4 == 1 and "auto_pad" not in places
        yield Case(
            [values(rng, (1 + i % 2, 3, *spatial))],
            described,
            dynamic=[0] if dynamic else [],
            oracles=("cpu",) if dynamic else ("evaluate", "cpu"),
        )
    described = attributes(2, (3, 3), strides=2, begin=1, end=1, dilations=[1, 1], axis=0)
    described["index_element_type"] = "i64"
    for dtype in (F16, F64, np.int32, np.int64, np.uint32, np.uint64, np.int8, np.uint8):
        yield Case([values(rng, (2, 2, 5, 6), dtype)], described)
    special = values(rng, (2, 2, 5, 6))
    special[0, 0, :3] = -np.inf
    special[0, 1, 2:] = np.finfo(F32).min
    special[1, 0, 1:4, 2:5] = np.inf
    yield Case([special], described, oracles=EVALUATE, note="infinities")
    special[1, 1, ::2] = np.nan
    yield Case([special], described, oracles=EVALUATE, note="NaN")


def avg_pool(rng, table, more=None):
    """Configurations of average pooling; `more` are attributes of the two-dimensional ones for element types."""
    for i, (spatial, kernel, places) in enumerate(table):
        for exclude in (False, True):
            described = attributes(len(spatial), kernel, **places) | {"exclude-pad": exclude}
            empty = beyond(spatial, described)
            yield Case(
                [values(rng, (1 + i % 2, 3, *spatial))],
                described,
                dynamic=[0] if i % 4 == 1 else [],
                normalize=zero_for_nan if empty else None,
                note="the CPU plugin divides 0 by 0 for windows without elements" if empty else "",
            )
    described = attributes(2, (3, 2), strides=2, begin=1, end=1, **more or {}) | {"exclude-pad": True}
    for dtype in (np.int8, np.uint8):  # the CPU plugin rounds; the reference divides as unsigned 64-bit integers
        whole = np.iinfo(dtype)
        yield Case([rng.integers(whole.min, whole.max, (1, 2, 5, 6), dtype, endpoint=True)], described)
    for dtype in (F16, BF16, F64):
        tolerance = (1e-6, 1e-6) if dtype is F64 else None  # the CPU plugin computes in f32
        yield Case([values(rng, (1, 2, 5, 6), dtype)], described, tolerance=tolerance)
    for dtype in (np.int32, np.int64, np.uint32, np.uint64):
        data = values(rng, (1, 2, 6, 4), dtype)
        total = data.reshape(1, 2, 2, 3, 2, 2).sum(axis=(3, 5), dtype=dtype)
        sign = np.sign(total.astype(np.int64)).astype(dtype)
        whole = attributes(2, (3, 2), strides=(3, 2), **more or {}) | {"exclude-pad": False}
        yield Case(
            [data],
            whole,
            oracles=(),
            expected=[sign * (sign * total // dtype(6))],
            note="the reference cuts the quotient of integers off, the CPU plugin rounds it",
        )


def beyond(spatial, described):
    """Whether some window has no element of the data, so that the mean of nothing is asked (0, says the reference)."""
    if described.get("rounding_type") != "ceil" or "auto_pad" in described:
        return False
    lists = (described[k] for k in ("kernel", "strides", "pads_begin", "pads_end"))
    for n, k, s, b, e in zip(spatial, *lists, strict=True):
        last = -(-(n + b + e - k) // s) * s
        if last >= n + b:
            return True
    return False


def zero_for_nan(outputs):
    return [np.nan_to_num(x) for x in outputs]


@configurations("AvgPool", since=1)
def avg_pool_1(rng):
    yield from avg_pool(rng, PLACES)


@configurations("AvgPool", since=14)
def avg_pool_14(rng):
    yield from avg_pool(rng, PLACES + TORCH)


@configurations("AvgPool", since=16)
def avg_pool_16(rng):
    table = [(s, k, {"dilations": [1] * len(s)} | places) for s, k, places in PLACES + TORCH + DILATED]
    yield from avg_pool(rng, table, {"dilations": [1, 1]})


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


@configurations("AdaptiveAvgPool", since=8)
def adaptive_avg_pool_8(rng):
    for i, (spatial, shape) in enumerate(ADAPTIVE):
        yield Case(
            [values(rng, (1 + i % 2, 3, *spatial)), np.array(shape, (np.int64, np.int32)[i % 2])],
            constants=[1] if i % 3 else [],
        )
    for dtype in (F16, BF16, F64):
        tolerance = (1e-6, 1e-6) if dtype is F64 else None  # the CPU plugin computes in f32
        yield Case([values(rng, (2, 2, 5, 6), dtype), np.array([2, 4])], constants=[1], tolerance=tolerance)


@configurations("AdaptiveMaxPool", since=8)
def adaptive_max_pool_8(rng):
    for i, (spatial, shape) in enumerate(ADAPTIVE):
        yield adaptive_max(rng, spatial, shape, F32, ("i64", "i32")[i // 2 % 2], [1] if i % 3 else [])
    for dtype in (F16, BF16, F64, np.int32, np.int64, np.uint8):
        yield adaptive_max(rng, (5, 6), (2, 4), dtype, "i64", [1])


def adaptive_max(rng, spatial, shape, dtype, index_type, constants):
    """One AdaptiveMaxPool, worked out window by window: no oracle gives positions in i64."""
    data = values(rng, (2, 3, *spatial), dtype)
    maxima = np.zeros((2, 3, *shape), dtype)
    places = np.zeros(maxima.shape, {"i64": np.int64, "i32": np.int32}[index_type])
    numbers = np.arange(np.prod(spatial)).reshape(spatial)
    for place in np.ndindex(*shape):
        window = tuple(slice(p * n // m, -(-(p + 1) * n // m)) for p, n, m in zip(place, spatial, shape, strict=True))
        seen = data[(..., *window)].reshape(2, 3, -1)
        first = seen.argmax(axis=2)
        maxima[(..., *place)] = np.take_along_axis(seen, first[..., np.newaxis], 2)[..., 0]
        places[(..., *place)] = numbers[window].reshape(-1)[first]
    return Case(
        [data, np.array(shape, np.int64)],
        {"index_element_type": index_type},
        constants=constants,
        expected=[maxima, places],
    )
