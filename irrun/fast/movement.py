"""Data movement with constant indices, axes and lengths: one call of NumPy with arguments prepared in advance."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np

from irrun.fast.specialization import CallSite, SpecializedKernel, specializes
from irrun.fast.support import MAX_BYTES, Array, Memo, freeze, get_axis, make_placeholder, to_int_tuple
from irrun.ops._support.slicing import create_slices

__all__: list[str] = []

Index = tuple[Any, ...]


def index_axis(axis: int, index: Any) -> Index:
    """Return an index that applies `index` to one axis and gives an array; negative axes are allowed."""
    if axis >= 0:
        return (*[slice(None)] * axis, index, ...)
    return (..., index, *[slice(None)] * (-axis - 1))


@specializes("Transpose-1")
def specialize_transpose(site: CallSite) -> SpecializedKernel | None:
    """Call `transpose` with a constant order."""
    constant = site.get_constant(1)
    if constant is None or constant.dtype.kind not in "iu":
        return None
    order = to_int_tuple(constant)
    if not order:
        return _reverse_axes

    def compute(arg: Array) -> Any:
        return arg.transpose(order)

    return compute


def _reverse_axes(arg: Array) -> Any:
    return arg.transpose()


@specializes("Concat-1")
def specialize_concat(site: CallSite) -> SpecializedKernel | None:
    """Call `np.concatenate`, which checks the shapes, after a check of the types."""
    axis, call_plain, concatenate = site.attributes["axis"], site.call_plain, np.concatenate
    count = len(site.constants)
    if count < 2 or any(site.is_absent):
        return None
    if site.variable_inputs == (0, 1) and count == 2:

        def compute_two(a: Array, b: Array) -> Any:
            return concatenate((a, b), axis) if a.dtype is b.dtype else call_plain(a, b)

        return compute_two
    if len(site.variable_inputs) == count:

        def compute(*inputs: Array) -> Any:
            dtype = inputs[0].dtype
            for x in inputs:
                if x.dtype is not dtype:
                    return call_plain(*inputs)
            return concatenate(inputs, axis)

        return compute
    parts: list[Any] = list(site.constants)
    constant_dtypes = {c.dtype for c in parts if c is not None}
    positions = site.variable_inputs
    if len(constant_dtypes) != 1:
        return None
    (common,) = constant_dtypes

    def compute_with_constants(*inputs: Array) -> Any:
        arrays = parts.copy()
        for position, x in zip(positions, inputs, strict=True):
            if x.dtype is not common:
                return call_plain(*inputs)
            arrays[position] = x
        return concatenate(arrays, axis)

    return compute_with_constants


def _specialize_division(site: CallSite, axis: int) -> SpecializedKernel:
    """Index with slices derived from the output shapes of the plain kernel."""

    @Memo
    def indices(shape: tuple[int, ...]) -> tuple[Index, ...]:
        parts = site.call_plain(make_placeholder(shape))
        bounds = np.cumsum([0, *(part.shape[axis] for part in parts)]).tolist()
        before = [slice(None)] * (axis % len(shape))
        return tuple((*before, slice(*pair)) for pair in itertools.pairwise(bounds))

    def compute(data: Array) -> Any:
        return [data[index] for index in indices[data.shape]]

    def compute_two(data: Array) -> Any:
        first, second = indices[data.shape]
        return data[first], data[second]

    lengths = site.get_constant(2)
    count = site.attributes["num_splits"] if lengths is None else lengths.size
    return compute_two if count == 2 else compute


@specializes("Split-1")
def specialize_split(site: CallSite) -> SpecializedKernel | None:
    """Index with prepared slices."""
    axis = get_axis(site, 1)
    return None if axis is None else _specialize_division(site, axis)


@specializes("VariadicSplit-1")
def specialize_variadic_split(site: CallSite) -> SpecializedKernel | None:
    """Index with prepared slices if the lengths are constant."""
    axis = get_axis(site, 1)
    return None if axis is None or site.variable_inputs != (0,) else _specialize_division(site, axis)


@specializes("Slice-8")
def specialize_slice(site: CallSite) -> SpecializedKernel | None:
    """Index with prepared slices, which depend only on the rank if all steps are positive."""
    start, stop, step, axes = (site.get_constant(i) for i in range(1, 5))
    if start is None or stop is None or step is None or (axes is None and site.has_input(4)):
        return None
    if any(x is not None and x.dtype.kind not in "iu" for x in (start, stop, step, axes)):
        return None
    if not (step > 0).all():
        return None
    bounds, sliced_axes = (start, stop, step), axes

    @Memo
    def indices(rank: int) -> Index:
        return create_slices((1,) * rank, *bounds, sliced_axes)

    def compute(data: Array) -> Array:
        result: Array = data[indices[data.ndim]]
        return result

    return compute


def _expand_mask(mask: list[int] | None, count: int) -> list[bool]:
    return [i < len(mask) and mask[i] == 1 for i in range(count)] if mask else [False] * count


@specializes("StridedSlice-1")
def specialize_strided_slice(site: CallSite) -> SpecializedKernel | None:
    """Index with one prepared tuple; NumPy checks it against the rank and the sizes."""
    begin, end, stride = (site.get_constant(i) for i in range(1, 4))
    if begin is None or end is None or (stride is None and site.has_input(3)):
        return None
    if any(x is not None and x.dtype.kind not in "iu" for x in (begin, end, stride)):
        return None
    begins, ends = to_int_tuple(begin), to_int_tuple(end)
    strides = (1,) * len(begins) if stride is None else to_int_tuple(stride)
    if not len(begins) == len(ends) == len(strides) or 0 in strides:
        return None
    index = _create_index(site, begins, ends, strides)
    if index is None:
        return None
    ready = index

    def compute(data: Array) -> Array:
        return data[ready]

    return compute


def _create_index(
    site: CallSite, begins: tuple[int, ...], ends: tuple[int, ...], strides: tuple[int, ...]
) -> Index | None:
    """Return the index of a StridedSlice, or None if it depends on the sizes."""
    masks = {
        name: _expand_mask(site.attributes.get(f"{name}_mask"), len(begins))
        for name in ("begin", "end", "new_axis", "shrink_axis", "ellipsis")
    }
    if sum(masks["ellipsis"]) > 1:
        return None
    index: list[Any] = []
    for i, (first, last, step) in enumerate(zip(begins, ends, strides, strict=True)):
        if masks["ellipsis"][i]:
            index.append(...)
        elif masks["new_axis"][i]:
            index.append(None)
        elif masks["shrink_axis"][i]:
            index.append(first)
        else:
            start = None if masks["begin"][i] else first
            if step < 0 and start is not None and start < -1:
                return None  # before the first element of a short axis, a special case
            index.append(slice(start, None if masks["end"][i] else last, step))
    if not any(masks["ellipsis"]):
        index.append(...)  # the result is an array, not a scalar
    return tuple(index)


@specializes("Gather-1", "Gather-7", "Gather-8")
def specialize_gather(site: CallSite) -> SpecializedKernel | None:
    """Call `take`. It raises an exception for indices out of range, where the plain kernel returns zeros."""
    axis, indices = get_axis(site, 2), site.get_constant(1)
    if axis is None:
        return None
    if site.attributes.get("batch_dims", 0) != 0:
        return _specialize_batched_gather(site, axis) if site.variable_inputs == (0, 1) else None
    if indices is not None:
        return _specialize_constant_indices(site, axis, indices)
    data = site.get_constant(0)
    call_plain = site.call_plain
    if data is not None:
        if not -data.ndim <= axis < data.ndim or data.size == 0:
            return None
        table, limit = data, MAX_BYTES // (data.nbytes // data.shape[axis])

        def compute_from_table(indices: Array) -> Any:
            if indices.size > limit or indices.dtype.kind != "i":
                return call_plain(indices)
            return table.take(indices, axis)

        return compute_from_table

    def compute(data: Array, indices: Array) -> Any:
        if indices.size * data.nbytes > MAX_BYTES or indices.dtype.kind != "i" or not data.ndim:
            return call_plain(data, indices)
        return data.take(indices, axis)

    return compute


def _specialize_batched_gather(site: CallSite, axis: int) -> SpecializedKernel | None:
    """Index each batch by its own indices if the gathered axis follows the batch axes."""
    if site.attributes["batch_dims"] != axis or axis < 1:
        return None
    call_plain = site.call_plain

    @Memo
    def rows(count: int) -> Array:
        return freeze(np.arange(count)[:, np.newaxis])

    def compute(data: Array, indices: Array) -> Any:
        leading = data.shape[:axis]
        if leading != indices.shape[:axis] or indices.size * data.nbytes > MAX_BYTES or indices.dtype.kind != "i":
            return call_plain(data, indices)
        batches = math.prod(leading)
        flat = data.reshape(batches, data.shape[axis], math.prod(data.shape[axis + 1 :]))
        result = flat[rows[batches], indices.reshape(batches, math.prod(indices.shape[axis:]))]
        return result.reshape(*indices.shape, *data.shape[axis + 1 :])

    return compute


def _specialize_constant_indices(site: CallSite, axis: int, indices: Array) -> SpecializedKernel | None:
    """Index with an integer or a slice if the indices are regular."""
    if indices.dtype.kind not in "iu" or indices.size == 0:
        return None
    call_plain = site.call_plain
    lowest, highest = int(indices.min()), int(indices.max())
    if indices.ndim == 0:
        index = index_axis(axis, lowest)

        def compute_element(data: Array) -> Array:
            return data[index]

        return compute_element
    values = to_int_tuple(indices)
    steps = {b - a for a, b in itertools.pairwise(values)} or {1}
    if indices.ndim == 1 and len(steps) == 1 and min(steps) > 0 and (lowest >= 0 or values == (-1,)):
        stop = None if values == (-1,) else highest + 1
        index = index_axis(axis, slice(lowest, stop, min(steps)))
        smallest = 1 if values == (-1,) else highest + 1

        def compute_slice(data: Array) -> Any:
            return data[index] if data.shape[axis] >= smallest else call_plain(data)

        return compute_slice
    if indices.size > 1 << 16:
        return None
    positions, count = freeze(indices.astype(np.intp)), indices.size

    def compute(data: Array) -> Any:
        if count * data.nbytes > MAX_BYTES or not data.ndim:
            return call_plain(data)
        return data.take(positions, axis)

    return compute


@specializes("Pad-1", "Pad-12")
def specialize_pad(site: CallSite) -> SpecializedKernel | None:
    """Copy `data` into the middle of an array of zeros or another constant."""
    begin, end = site.get_constant(1), site.get_constant(2)
    if site.attributes["pad_mode"] != "constant" or site.variable_inputs != (0,) or begin is None or end is None:
        return None
    if begin.dtype.kind not in "iu" or end.dtype.kind not in "iu":
        return None
    begins, ends, value = to_int_tuple(begin), to_int_tuple(end), site.get_constant(3)
    if len(begins) != len(ends) or any(n < 0 for n in (*begins, *ends)) or (value is not None and value.size != 1):
        return None
    scalar = value.reshape(()) if value is not None and value.tobytes().strip(b"\0") else None
    expected = None if value is None else value.dtype
    call_plain, rank = site.call_plain, len(begins)
    if not any((*begins, *ends)):
        return call_plain  # returns a view

    @Memo
    def targets(shape: tuple[int, ...]) -> Any:
        """Return the shape of the result, its number of elements, and the index of the data in it."""
        target = tuple(b + n + e for b, n, e in zip(begins, shape, ends, strict=True))
        return target, math.prod(target), tuple(slice(b, b + n) for b, n in zip(begins, shape, strict=True))

    def compute(data: Array) -> Any:
        dtype = data.dtype
        if data.ndim != rank:
            return call_plain(data)
        target, size, index = targets[data.shape]
        if size * data.itemsize > MAX_BYTES or dtype.hasobject or (expected is not None and dtype is not expected):
            return call_plain(data)
        if scalar is None:
            result = np.zeros(target, dtype)
        else:
            result = np.empty(target, dtype)
            result[...] = scalar
        result[index] = data
        return result

    return compute
