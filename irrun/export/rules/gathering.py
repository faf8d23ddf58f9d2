"""Export of operations that gather and scatter elements."""

from __future__ import annotations

import numpy as np

from irrun.export.graph import Value, cast, constant, op
from irrun.export.rules.helpers import (
    LAST,
    concat,
    expand,
    get_dimension,
    reshape,
    slice_axis,
    transpose,
    unsqueeze,
    where,
)
from irrun.export.site import Site, exports


@exports("Gather-1", "Gather-7", "Gather-8")
def export_gather(site: Site) -> Value:
    """Export Gather. With batch dimensions, it becomes a GatherND."""
    data, indices = site[0], site[1]
    batch = int(site.attributes.get("batch_dims", 0))
    axis = site.read_integers(2)[0]
    if batch == 0 and data.type.name != "string":
        return op("Gather", data, indices, axis=axis)
    rank, index_rank = site.get_rank(0), site.get_rank(1)
    axis = axis % rank
    batch = batch + index_rank if batch < 0 else batch
    if batch == 0 and data.type.name == "string":
        # onnxruntime only copies the first string of each slice.
        order = [*range(axis), *range(axis + 1, rank), axis]
        result = op("Gather", transpose(data, order), indices, axis=rank - 1)
        new = range(rank - 1, rank - 1 + index_rank)
        return transpose(result, [*range(axis), *new, *range(axis, rank - 1)])
    if batch == 0:
        return op("Gather", data, indices, axis=axis)
    order = [*range(batch), axis, *range(batch, axis), *range(axis + 1, rank)]
    moved = transpose(data, order)
    places = cast(indices, "i64")
    length = get_dimension(data, axis)
    is_inside = (places >= -length) & (places < length)
    result = op("GatherND", moved, unsqueeze(where(is_inside, places, 0), [-1]), batch_dims=batch)
    if data.type.name != "string":
        result = where(unsqueeze(is_inside, list(range(index_rank, index_rank + rank - batch - 1))), result, 0)
    between, inner = axis - batch, index_rank - batch
    final = [
        *range(batch),
        *range(batch + inner, batch + inner + between),
        *range(batch, batch + inner),
        *range(batch + inner + between, rank - 1 + inner),
    ]
    return transpose(result, final)


@exports("GatherElements-6")
def export_gather_elements(site: Site) -> Value:
    """Export GatherElements."""
    return op("GatherElements", site[0], site[1], axis=int(site.axis))


@exports("GatherND-5", "GatherND-8")
def export_gather_nd(site: Site) -> Value:
    """Export GatherND. Version 5 joins the batch dimensions."""
    batch = int(site.batch_dims)
    data = site[0]
    result = op("GatherND", data, cast(site[1], "i64"), batch_dims=batch)
    if batch > 1 and str(site.layer.version) in ("opset5", "opset6", "opset7"):
        shape = op("Shape", result, result="i64", start=batch)
        return op("Reshape", result, concat([constant([-1]), shape]))
    return result


def _choose_reduction(site: Site) -> str:
    reduction = str(site.attributes.get("reduction", "none"))
    return {"sum": "add", "prod": "mul"}.get(reduction, reduction)


@exports("ScatterElementsUpdate-3", "ScatterElementsUpdate-12")
def export_scatter_elements(site: Site) -> Value:
    """Export ScatterElementsUpdate."""
    data, indices, updates = site[0], site[1], site[2]
    axis = site.read_integers(3)[0]
    reduction = _choose_reduction(site)
    if data.type.kind == "boolean" and reduction not in ("none",):
        same = {"add": "max", "mul": "min"}.get(reduction, reduction)
        copy = Site(
            site.layer,
            [cast(data, "i32"), indices, cast(updates, "i32"), site[3]],
            {**site.attributes, "reduction": same},
        )
        return cast(export_scatter_elements(copy), "boolean")
    if reduction == "none":
        return op("ScatterElements", data, indices, updates, axis=axis)
    narrow = data.type
    if narrow.is_float and narrow.bits < 32:
        data, updates = cast(data, "f32"), cast(updates, "f32")
    elif narrow.is_integer and narrow.bits < 32:
        data, updates = cast(data, "i32"), cast(updates, "i32")
    initial = data
    if not site.use_init_val:
        neutral = _get_neutral(data, reduction)
        filled = expand(constant(neutral, data.type), op("Shape", updates, result="i64"))
        initial = op("ScatterElements", data, indices, filled, axis=axis)
    if reduction != "mean":
        return cast(op("ScatterElements", initial, indices, updates, axis=axis, reduction=reduction), narrow)
    sums = op("ScatterElements", initial, indices, updates, axis=axis, reduction="add")
    ones = expand(constant(1, data.type), op("Shape", updates, result="i64"))
    zeros = expand(constant(0, data.type), op("Shape", data, result="i64"))
    counts = op("ScatterElements", zeros, indices, ones, axis=axis, reduction="add")
    counts = counts + 1 if site.use_init_val else op("Max", counts, constant(1, data.type))
    if data.type.is_float:
        return cast(sums / counts, narrow)
    quotient = sums / counts
    is_lower = ~op("Equal", sums - quotient * counts, 0) & (sums < 0)
    return cast(quotient - cast(is_lower, data.type), narrow)


def _get_neutral(data: Value, reduction: str) -> float | int:
    if reduction in ("add", "mean", "sub"):
        return 0
    if reduction == "mul":
        return 1
    if data.type.is_float:
        return np.inf if reduction == "min" else -np.inf
    limits = np.iinfo(data.type.dtype)
    return int(limits.max if reduction == "min" else limits.min)


@exports("ScatterNDUpdate-4", "ScatterNDUpdate-15")
def export_scatter_nd(site: Site) -> Value:
    """Export ScatterNDUpdate."""
    data, indices, updates = site[0], cast(site[1], "i64"), site[2]
    reduction = _choose_reduction(site)
    if data.type.kind == "boolean" and reduction != "none":
        if reduction == "sub":  # exclusive or: the parity of the sum
            counts = op("ScatterND", cast(data, "i32"), indices, cast(updates, "i32"), reduction="add")
            return op("Equal", op("Mod", counts, 2), 1)
        same = {"add": "max", "mul": "min"}.get(reduction, reduction)
        wide = op("ScatterND", cast(data, "i32"), indices, cast(updates, "i32"), reduction=same)
        return cast(wide, "boolean")
    depth = site.get_shape(1)[-1]
    if depth is not None and updates.rank != site.get_rank(1) - 1 + site.get_rank(0) - depth:
        lead = op("Shape", indices, result="i64", end=-1)
        updates = op("Reshape", updates, concat([lead, op("Shape", data, result="i64", start=depth)]))
    narrow = data.type
    if reduction != "none" and narrow.bits < 32 and narrow.kind != "string":
        wide_type = "f32" if narrow.is_float else "i32"
        data, updates = cast(data, wide_type), cast(updates, wide_type)
    if reduction == "sub":
        if data.type.kind == "uint":
            data, updates = cast(data, "i64"), cast(updates, "i64")
        return cast(op("ScatterND", data, indices, -updates, reduction="add"), narrow)
    return cast(op("ScatterND", data, indices, updates, reduction=reduction), narrow)


@exports("ScatterUpdate-3")
def export_scatter(site: Site) -> Value:
    """Export ScatterUpdate: the axis is moved to the front, where ScatterND writes slices."""
    data, indices, updates = site[0], site[1], site[2]
    rank, index_rank = site.get_rank(0), site.get_rank(1)
    axis = site.read_integers(3)[0] % rank
    shape = op("Shape", data, result="i64")
    parts = [op("Shape", indices, result="i64")] if index_rank else []
    if axis:
        parts.insert(0, slice_axis(shape, 0, axis))
    if axis + 1 < rank:
        parts.append(slice_axis(shape, axis + 1, LAST))
    if updates.rank != rank - 1 + index_rank:
        updates = op("Reshape", updates, concat(parts), allowzero=1) if parts else reshape(updates, [])
    order = [axis, *range(axis), *range(axis + 1, rank)]
    moved = transpose(data, order)
    update_order = [*range(axis, axis + index_rank), *range(axis), *range(axis + index_rank, rank - 1 + index_rank)]
    result = op("ScatterND", moved, unsqueeze(cast(indices, "i64"), [-1]), transpose(updates, update_order))
    return transpose(result, [int(i) for i in np.argsort(order)])
