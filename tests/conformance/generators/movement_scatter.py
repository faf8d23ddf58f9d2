"""Configurations for ScatterUpdate, ScatterElementsUpdate, ScatterNDUpdate and SliceScatter."""

from __future__ import annotations

import numpy as np

from conformance.generators.movement_samples import DTYPES, Exact, i64, index, sample
from conformance.harness import Case, configurations


@configurations("ScatterUpdate", since=3)
def scatter_update_3(rng):
    for n, (shape, picks, axis) in enumerate(
        [
            ((6,), (3,), 0),
            ((4, 5), (2,), 0),
            ((4, 5), (3,), 1),
            ((4, 6), (2, 2), -1),
            ((4, 5), (), 1),
            ((2, 5, 3), (2, 2), 1),
            ((2, 3, 6), (4,), -1),
            ((2, 3, 2, 4), (3,), 1),
        ]
    ):
        indices = rng.permutation(shape[axis])[: int(np.prod(picks))].reshape(picks).astype((np.int64, np.int32)[n % 2])
        at = axis % len(shape)
        updates = sample(rng, shape[:at] + picks + shape[at + 1 :])
        yield Exact([sample(rng, shape), indices, updates, np.array(axis)], constants=(3,))
        yield Exact([sample(rng, shape), indices, updates, i64(axis)], constants=(1, 3))
    # Neither oracle takes a scalar as updates.
    data = sample(rng, (6,))
    expected = np.where(np.arange(6) == 4, np.float32(7), data)
    inputs = [data, np.array(4), np.array(7, np.float32), np.array(0)]
    yield Exact(inputs, constants=(3,), oracles=(), expected=[expected])
    for dtype in DTYPES:
        inputs = [sample(rng, (4, 3), dtype), i64(3, 1), sample(rng, (2, 3), dtype), np.array(0)]
        yield Exact(inputs, constants=(3,))
    inputs = [sample(rng, (4, 3)), i64(2, 0), sample(rng, (4, 2)), np.array(1)]
    yield Exact(inputs, constants=(3,), dynamic=(0, 1, 2))


def elements(rng, shape, axis, picks, dtype=np.float32, *, low=None, duplicates=False):
    """Inputs of ScatterElementsUpdate; small values, so that sums and products are exact."""
    size = shape[axis]
    if duplicates:
        indices = index(rng, -size if low is None else low, size, picks)
    else:  # a permutation in each line, so that nothing is written twice
        lines = rng.permuted(np.broadcast_to(np.arange(size), (*picks[:axis], *picks[axis + 1 :], size)), axis=-1)
        indices = np.moveaxis(lines[..., : picks[axis]], -1, axis).copy()
    values = [rng.integers(0 if np.dtype(dtype).kind == "u" else -4, 5, s).astype(dtype) for s in (shape, picks)]
    return [values[0], indices, values[1], np.array(axis)]


#: Shapes of data and indices, and the axis.
ELEMENTS = [
    ((6,), 0, (4,)),
    ((4, 5), 0, (3, 5)),
    ((4, 5), 1, (4, 3)),
    ((4, 5), 1, (2, 4)),
    ((3, 4, 5), 0, (2, 4, 5)),
    ((3, 4, 5), 2, (3, 4, 2)),
    ((2, 3, 4, 3), 1, (2, 2, 4, 3)),
]


def overwrite(rng):
    for n, (shape, axis, picks) in enumerate(ELEMENTS):
        inputs = elements(rng, shape, axis, picks)
        inputs[1] = inputs[1].astype((np.int64, np.int32)[n % 2])
        yield Exact(inputs, constants=(3,))
        inputs = elements(rng, shape, axis, picks, DTYPES[n])
        yield Exact([*inputs[:3], i64(axis - len(shape))], constants=(1, 3))
    for dtype in DTYPES:
        if dtype != np.bool_:
            yield Exact(elements(rng, (3, 4), 1, (3, 2), dtype), constants=(3,))
    inputs = elements(rng, (3, 4), 1, (3, 2))
    inputs[1] -= 4
    yield Exact(inputs, constants=(3,), note="negative indices")
    yield Exact(elements(rng, (3, 4), 0, (2, 3)), constants=(3,), dynamic=(0, 1, 2))


@configurations("ScatterElementsUpdate", since=3)
def scatter_elements_update_3(rng):
    yield from overwrite(rng)


@configurations("ScatterElementsUpdate", since=12)
def scatter_elements_update_12(rng):
    yield from overwrite(rng)
    for use_init_val in (True, False):
        for reduction in ("none", "sum", "prod", "min", "max", "mean"):
            attributes = {"reduction": reduction, "use_init_val": use_init_val}
            for shape, axis, picks in ELEMENTS[:6]:
                inputs = elements(rng, shape, axis, picks, duplicates=reduction != "none")
                yield Case(inputs, attributes, constants=(3,))
            for dtype in (np.int32, np.int64, np.int8, np.uint8):
                inputs = elements(rng, (4, 5), 1, (4, 7), dtype, duplicates=reduction != "none")
                oracles = ("evaluate", "cpu")
                if reduction == "none":
                    inputs = elements(rng, (4, 5), 1, (4, 3), dtype)
                elif reduction == "mean" and dtype == np.int8:  # Model.evaluate lacks i8
                    inputs[0], inputs[2] = abs(inputs[0]), abs(inputs[2])
                elif reduction == "mean" and dtype != np.uint8:
                    oracles = ("evaluate",)  # the reference rounds down, the CPU plugin towards zero
                yield Case(inputs, attributes, constants=(3,), oracles=oracles)
            if reduction != "mean":
                data, updates = sample(rng, (3, 4), bool), sample(rng, (3, 6), bool)
                indices = index(rng, 0, 4, (3, 6))
                if reduction != "none":
                    inputs = [data, indices, updates, np.array(1)]
                    yield Case(inputs, attributes, constants=(3,), oracles=("evaluate",))
    for reduction in ("sum", "mean", "max"):
        for dtype in (np.float16, np.float64):
            inputs = elements(rng, (4, 5), 1, (4, 7), dtype, duplicates=True)
            # Model.evaluate lacks f64, for which the CPU plugin computes in f32.
            oracles, tolerance = (("cpu",), (1e-6, 0)) if dtype == np.float64 else (("evaluate",), None)
            attributes = {"reduction": reduction, "use_init_val": True}
            yield Case(inputs, attributes, constants=(3,), oracles=oracles, tolerance=tolerance)
    inputs = elements(rng, (40,), 0, (300,), np.int32, duplicates=True)
    inputs[2] = sample(rng, (300,), np.int32)
    for reduction in ("sum", "prod"):
        attributes = {"reduction": reduction, "use_init_val": True}
        yield Case(inputs, attributes, constants=(3,), oracles=("evaluate",), note="wrapping around")
    for reduction in ("min", "max"):
        data, updates = np.array([np.nan, 1, 2], np.float32), np.array([5, np.nan, np.inf], np.float32)
        yield Case(
            [data, i64(0, 1, 2), updates, np.array(0)],
            {"reduction": reduction, "use_init_val": True},
            constants=(3,),
            oracles=("evaluate",),  # the CPU plugin lets a NaN of data win
            note="NaN",
        )


#: Shapes of data and of indices.
ND = [
    ((8,), (3, 1)),
    ((8,), (1,)),
    ((4, 5), (3, 2)),
    ((4, 5), (2, 1)),
    ((4, 5), (2,)),
    ((3, 4, 5), (4, 3)),
    ((3, 4, 5), (4, 2)),
    ((4, 4, 4), (2, 1)),
    ((3, 4, 5), (2, 2, 2)),
    ((2, 3, 2, 4), (2, 3)),
]


def places(rng, shape, picks, *, duplicates=False, negative=False):
    """Coordinates [..., k] in data of `shape`; all different unless `duplicates`."""
    outer = shape[: picks[-1]]
    count, total = int(np.prod(picks[:-1])), int(np.prod(outer))
    flat = rng.integers(0, total, count) if duplicates else rng.permutation(total)[:count]
    found = np.stack(np.unravel_index(flat, outer), axis=-1).reshape(picks)
    return found - np.array(outer) if negative else found


def updates_shape(shape, picks):
    return picks[:-1] + shape[picks[-1] :]


def nd_overwrite(rng):
    for n, (shape, picks) in enumerate(ND):
        updates = sample(rng, updates_shape(shape, picks))
        indices = places(rng, shape, picks).astype((np.int64, np.int32)[n % 2])
        yield Exact([sample(rng, shape), indices, updates])
        yield Exact([sample(rng, shape), indices, updates], constants=(1,))
        indices = places(rng, shape, picks, negative=True)
        yield Exact([sample(rng, shape), indices, updates], note="negative indices")
    for dtype in DTYPES:
        inputs = [sample(rng, (4, 3), dtype), np.array([[2], [0]]), sample(rng, (2, 3), dtype)]
        yield Exact(inputs)
    inputs = [sample(rng, (4, 3)), np.array([[2, 1], [0, 0]]), sample(rng, (2,))]
    yield Exact(inputs, dynamic=(0, 1, 2))


@configurations("ScatterNDUpdate", since=4)
def scatter_nd_update_4(rng):
    yield from nd_overwrite(rng)


@configurations("ScatterNDUpdate", since=15)
def scatter_nd_update_15(rng):
    yield from nd_overwrite(rng)
    for reduction in ("none", "sum", "sub", "prod", "min", "max"):
        for n, (shape, picks) in enumerate(ND):
            values = [rng.integers(-4, 5, s).astype(np.float32) for s in (shape, updates_shape(shape, picks))]
            indices = places(rng, shape, picks, duplicates=reduction != "none", negative=n % 2 == 1)
            yield Case([values[0], indices, values[1]], {"reduction": reduction})
        # Model.evaluate lacks 8 bits; the CPU plugin answers, for values that do not wrap around.
        for dtype in (np.int32, np.int64, np.int8, np.uint8, np.float16):
            low = 0 if np.dtype(dtype).kind == "u" else -4
            values = [rng.integers(low, 5, s).astype(dtype) for s in ((4, 3), (5,))]
            indices = places(rng, (4, 3), (5, 2), duplicates=reduction != "none")
            if dtype == np.uint8 and reduction == "sub":
                values[0] += 50
            yield Case([values[0], indices, values[1]], {"reduction": reduction})
        values = [sample(rng, s, bool) for s in ((4, 3), (6,))]
        indices = places(rng, (4, 3), (6, 2), duplicates=reduction != "none")
        yield Case([values[0], indices, values[1]], {"reduction": reduction}, oracles=("evaluate",))
    for reduction in ("min", "max"):
        data, updates = np.array([np.nan, 1, 2], np.float32), np.array([5, np.nan, np.inf], np.float32)
        indices = np.array([[0], [1], [2]])
        yield Case([data, indices, updates], {"reduction": reduction}, oracles=("evaluate",), note="NaN")


@configurations("SliceScatter", since=15)
def slice_scatter_15(rng):
    for shape, start, stop, step, axes in [
        ((8,), [1], [6], [1], None),
        ((8,), [1], [8], [3], [0]),
        ((8,), [7], [-9], [-1], [0]),
        ((8,), [-2], [0], [-2], [-1]),
        ((4, 5), [1, 0], [3, 5], [1, 2], None),
        ((4, 5), [1], [4], [1], [1]),
        ((4, 5), [0, 1], [2, 4], [1, 1], [1, 0]),
        ((4, 5), [-100, -100], [100, 100], [1, 1], [0, 1]),
        ((3, 4, 5), [2, 0], [-4, 4], [-1, 3], [0, 2]),
        ((3, 4, 5), [0], [2**31 - 1], [2], [-2]),
        ((2, 3, 2, 3), [1, 1], [2, 3], [1, 1], [3, 1]),
        ((4, 5), [3], [3], [1], [0]),
    ]:
        window = [slice(None)] * len(shape)
        for axis, *bounds in zip(axes or range(len(start)), start, stop, step, strict=True):
            window[axis] = slice(*bounds)
        data = sample(rng, shape)
        updates = sample(rng, data[tuple(window)].shape)
        inputs = [data, updates, i64(*start), i64(*stop), i64(*step), None if axes is None else i64(*axes)]
        constants = tuple(range(2, 5 if axes is None else 6))
        yield Exact(inputs, constants=constants)
        if updates.size:  # the CPU plugin crashes on an empty slice, and takes static shapes for constant bounds
            yield Exact(inputs, dynamic=(0, 1), note="bounds at run time")
    bounds = [i64(0), i64(4), i64(2), i64(1)]
    for dtype in DTYPES:
        yield Exact([sample(rng, (3, 4), dtype), sample(rng, (3, 2), dtype), *bounds], constants=(2, 3, 4, 5))
