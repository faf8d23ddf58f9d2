"""Conformance cases for ScatterUpdate, ScatterElementsUpdate, ScatterNDUpdate and SliceScatter."""

from __future__ import annotations

import numpy as np

from irrun.conformance.cases import Case, register_cases
from irrun.conformance.generators.movement_samples import DTYPES, ExactCase, make_i64, sample_indices, sample_values


@register_cases("ScatterUpdate", since=3)
def scatter_update_3(rng):
    for n, (shape, index_shape, axis) in enumerate(
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
        indices = (
            rng.permutation(shape[axis])[: int(np.prod(index_shape))]
            .reshape(index_shape)
            .astype((np.int64, np.int32)[n % 2])
        )
        at = axis % len(shape)
        updates = sample_values(rng, shape[:at] + index_shape + shape[at + 1 :])
        yield ExactCase([sample_values(rng, shape), indices, updates, np.array(axis)], constants=(3,))
        yield ExactCase([sample_values(rng, shape), indices, updates, make_i64(axis)], constants=(1, 3))
    # Neither oracle supports scalar updates.
    data = sample_values(rng, (6,))
    expected = np.where(np.arange(6) == 4, np.float32(7), data)
    inputs = [data, np.array(4), np.array(7, np.float32), np.array(0)]
    yield ExactCase(inputs, constants=(3,), faults=("reference-scatter-update",), expected=[expected])
    for dtype in DTYPES:
        inputs = [sample_values(rng, (4, 3), dtype), make_i64(3, 1), sample_values(rng, (2, 3), dtype), np.array(0)]
        yield ExactCase(inputs, constants=(3,))
    inputs = [sample_values(rng, (4, 3)), make_i64(2, 0), sample_values(rng, (4, 2)), np.array(1)]
    yield ExactCase(inputs, constants=(3,), dynamic=(0, 1, 2))


def sample_elements(rng, shape, axis, index_shape, dtype=np.float32, *, low=None, duplicates=False):
    """Return random inputs of ScatterElementsUpdate, small enough for exact sums and products."""
    size = shape[axis]
    if duplicates:
        indices = sample_indices(rng, -size if low is None else low, size, index_shape)
    else:  # a permutation along the axis, so that no element is written twice
        lines = rng.permuted(
            np.broadcast_to(np.arange(size), (*index_shape[:axis], *index_shape[axis + 1 :], size)), axis=-1
        )
        indices = np.moveaxis(lines[..., : index_shape[axis]], -1, axis).copy()
    values = [rng.integers(0 if np.dtype(dtype).kind == "u" else -4, 5, s).astype(dtype) for s in (shape, index_shape)]
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


@register_cases("ScatterElementsUpdate", since=3)
def generate_overwrite_cases(rng):
    for n, (shape, axis, index_shape) in enumerate(ELEMENTS):
        inputs = sample_elements(rng, shape, axis, index_shape)
        inputs[1] = inputs[1].astype((np.int64, np.int32)[n % 2])
        yield ExactCase(inputs, constants=(3,))
        inputs = sample_elements(rng, shape, axis, index_shape, DTYPES[n])
        yield ExactCase([*inputs[:3], make_i64(axis - len(shape))], constants=(1, 3))
    for dtype in DTYPES:
        if dtype != np.bool_:
            yield ExactCase(sample_elements(rng, (3, 4), 1, (3, 2), dtype), constants=(3,))
    inputs = sample_elements(rng, (3, 4), 1, (3, 2))
    inputs[1] -= 4
    yield ExactCase(inputs, constants=(3,), note="negative indices")
    yield ExactCase(sample_elements(rng, (3, 4), 0, (2, 3)), constants=(3,), dynamic=(0, 1, 2))


@register_cases("ScatterElementsUpdate", since=12)
def scatter_elements_update_12(rng):
    yield from generate_overwrite_cases(rng)
    for use_init_val in (True, False):
        for reduction in ("none", "sum", "prod", "min", "max", "mean"):
            attributes = {"reduction": reduction, "use_init_val": use_init_val}
            for shape, axis, index_shape in ELEMENTS[:6]:
                inputs = sample_elements(rng, shape, axis, index_shape, duplicates=reduction != "none")
                yield Case(inputs, attributes, constants=(3,))
            for dtype in (np.int32, np.int64, np.int8, np.uint8):
                inputs = sample_elements(rng, (4, 5), 1, (4, 7), dtype, duplicates=reduction != "none")
                faults = ()
                if reduction == "none":
                    inputs = sample_elements(rng, (4, 5), 1, (4, 3), dtype)
                elif reduction == "mean" and dtype == np.int8:  # Model.evaluate does not support i8
                    inputs[0], inputs[2] = abs(inputs[0]), abs(inputs[2])
                elif reduction == "mean" and dtype != np.uint8:
                    faults = ("plugin-scatter-mean",)
                yield Case(inputs, attributes, constants=(3,), faults=faults)
            if reduction != "mean":
                data, updates = sample_values(rng, (3, 4), bool), sample_values(rng, (3, 6), bool)
                indices = sample_indices(rng, 0, 4, (3, 6))
                if reduction != "none":
                    inputs = [data, indices, updates, np.array(1)]
                    yield Case(inputs, attributes, constants=(3,))
    for reduction in ("sum", "mean", "max"):
        for dtype in (np.float16, np.float64):
            inputs = sample_elements(rng, (4, 5), 1, (4, 7), dtype, duplicates=True)
            tolerance = (1e-6, 0) if dtype == np.float64 else None  # the CPU plugin computes f64 in f32
            attributes = {"reduction": reduction, "use_init_val": True}
            yield Case(inputs, attributes, constants=(3,), tolerance=tolerance)
    inputs = sample_elements(rng, (40,), 0, (300,), np.int32, duplicates=True)
    inputs[2] = sample_values(rng, (300,), np.int32)
    for reduction in ("sum", "prod"):
        attributes = {"reduction": reduction, "use_init_val": True}
        yield Case(inputs, attributes, constants=(3,), note="integer overflow")
    for reduction in ("min", "max"):
        data, updates = np.array([np.nan, 1, 2], np.float32), np.array([5, np.nan, np.inf], np.float32)
        yield Case(
            [data, make_i64(0, 1, 2), updates, np.array(0)],
            {"reduction": reduction, "use_init_val": True},
            constants=(3,),
            faults=("plugin-scatter-nan",),
            note="NaN",
        )


#: Shapes of data and of indices.
ND_SHAPES = [
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


def sample_coordinates(rng, shape, index_shape, *, duplicates=False, negative=False):
    """Return random coordinates, [..., k], in data of `shape`, distinct unless `duplicates`."""
    outer = shape[: index_shape[-1]]
    count, total = int(np.prod(index_shape[:-1])), int(np.prod(outer))
    flat = rng.integers(0, total, count) if duplicates else rng.permutation(total)[:count]
    coordinates = np.stack(np.unravel_index(flat, outer), axis=-1).reshape(index_shape)
    return coordinates - np.array(outer) if negative else coordinates


def get_updates_shape(shape, index_shape):
    return index_shape[:-1] + shape[index_shape[-1] :]


@register_cases("ScatterNDUpdate", since=4)
def generate_nd_overwrite_cases(rng):
    for n, (shape, index_shape) in enumerate(ND_SHAPES):
        updates = sample_values(rng, get_updates_shape(shape, index_shape))
        indices = sample_coordinates(rng, shape, index_shape).astype((np.int64, np.int32)[n % 2])
        yield ExactCase([sample_values(rng, shape), indices, updates])
        yield ExactCase([sample_values(rng, shape), indices, updates], constants=(1,))
        indices = sample_coordinates(rng, shape, index_shape, negative=True)
        yield ExactCase([sample_values(rng, shape), indices, updates], note="negative indices")
    for dtype in DTYPES:
        inputs = [sample_values(rng, (4, 3), dtype), np.array([[2], [0]]), sample_values(rng, (2, 3), dtype)]
        yield ExactCase(inputs)
    inputs = [sample_values(rng, (4, 3)), np.array([[2, 1], [0, 0]]), sample_values(rng, (2,))]
    yield ExactCase(inputs, dynamic=(0, 1, 2))


@register_cases("ScatterNDUpdate", since=15)
def scatter_nd_update_15(rng):
    yield from generate_nd_overwrite_cases(rng)
    for reduction in ("none", "sum", "sub", "prod", "min", "max"):
        for n, (shape, index_shape) in enumerate(ND_SHAPES):
            values = [rng.integers(-4, 5, s).astype(np.float32) for s in (shape, get_updates_shape(shape, index_shape))]
            indices = sample_coordinates(rng, shape, index_shape, duplicates=reduction != "none", negative=n % 2 == 1)
            yield Case([values[0], indices, values[1]], {"reduction": reduction})
        # Model.evaluate does not support 8-bit types. The CPU plugin does, for values that do not overflow.
        for dtype in (np.int32, np.int64, np.int8, np.uint8, np.float16):
            low = 0 if np.dtype(dtype).kind == "u" else -4
            values = [rng.integers(low, 5, s).astype(dtype) for s in ((4, 3), (5,))]
            indices = sample_coordinates(rng, (4, 3), (5, 2), duplicates=reduction != "none")
            if dtype == np.uint8 and reduction == "sub":
                values[0] += 50
            yield Case([values[0], indices, values[1]], {"reduction": reduction})
        values = [sample_values(rng, s, bool) for s in ((4, 3), (6,))]
        indices = sample_coordinates(rng, (4, 3), (6, 2), duplicates=reduction != "none")
        yield Case([values[0], indices, values[1]], {"reduction": reduction})
    for reduction in ("min", "max"):
        data, updates = np.array([np.nan, 1, 2], np.float32), np.array([5, np.nan, np.inf], np.float32)
        indices = np.array([[0], [1], [2]])
        yield Case([data, indices, updates], {"reduction": reduction}, note="NaN")


@register_cases("SliceScatter", since=15)
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
        data = sample_values(rng, shape)
        updates = sample_values(rng, data[tuple(window)].shape)
        inputs = [
            data,
            updates,
            make_i64(*start),
            make_i64(*stop),
            make_i64(*step),
            None if axes is None else make_i64(*axes),
        ]
        constants = tuple(range(2, 5 if axes is None else 6))
        yield ExactCase(inputs, constants=constants)
        if updates.size:  # the CPU plugin crashes on empty slices and assumes constant bounds if shapes are static
            yield ExactCase(inputs, dynamic=(0, 1), note="bounds as Parameters")
    bounds = [make_i64(0), make_i64(4), make_i64(2), make_i64(1)]
    for dtype in DTYPES:
        yield ExactCase(
            [sample_values(rng, (3, 4), dtype), sample_values(rng, (3, 2), dtype), *bounds], constants=(2, 3, 4, 5)
        )
