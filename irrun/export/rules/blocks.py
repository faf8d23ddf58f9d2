"""Export of operations that move blocks between axes."""

from __future__ import annotations

from irrun.export.graph import Value, cast, constant, op
from irrun.export.rules.helpers import (
    concat,
    divide,
    flatten,
    get_dimension,
    get_dimensions,
    list_entries,
    multiply,
    reshape_to,
    squeeze,
    transpose,
    unsqueeze,
)
from irrun.export.site import Site, exports


@exports("ShuffleChannels-1")
def export_shuffle_channels(site: Site) -> Value:
    """Export ShuffleChannels: groups and their members are exchanged."""
    dimensions = get_dimensions(site, 0)
    rank = len(dimensions)
    axis = site.axis % rank
    before, after = multiply(*dimensions[:axis]), multiply(*dimensions[axis + 1 :])
    split = reshape_to(site[0], [before, site.group, divide(dimensions[axis], site.group), after])
    return reshape_to(transpose(split, [0, 2, 1, 3]), dimensions)


@exports("DepthToSpace-1")
def export_depth_to_space(site: Site) -> Value:
    """Export DepthToSpace for any number of spatial axes."""
    dimensions, block = get_dimensions(site, 0), int(site.block_size)
    count = len(dimensions) - 2
    if count == 2:
        return op("DepthToSpace", site[0], blocksize=block, mode="DCR" if site.mode == "blocks_first" else "CRD")
    batch, channels, *spatial = dimensions
    depth = divide(channels, block**count)
    if site.mode == "blocks_first":
        split = reshape_to(site[0], [batch, *[block] * count, depth, *spatial])
        order = [0, 1 + count]
        blocks = range(1, 1 + count)
    else:
        split = reshape_to(site[0], [batch, depth, *[block] * count, *spatial])
        order = [0, 1]
        blocks = range(2, 2 + count)
    for i, b in enumerate(blocks):
        order += [2 + count + i, b]
    return reshape_to(transpose(split, order), [batch, depth, *(multiply(d, block) for d in spatial)])


@exports("SpaceToDepth-1")
def export_space_to_depth(site: Site) -> Value:
    """Export SpaceToDepth for any number of spatial axes."""
    dimensions, block = get_dimensions(site, 0), int(site.block_size)
    count = len(dimensions) - 2
    if count == 2 and site.mode == "blocks_first":
        return op("SpaceToDepth", site[0], blocksize=block)
    batch, channels, *spatial = dimensions
    outer = [divide(d, block) for d in spatial]
    split = reshape_to(site[0], [batch, channels, *(d for o in outer for d in (o, block))])
    blocks, places = [3 + 2 * i for i in range(count)], [2 + 2 * i for i in range(count)]
    order = [0, *blocks, 1, *places] if site.mode == "blocks_first" else [0, 1, *blocks, *places]
    return reshape_to(transpose(split, order), [batch, multiply(channels, block**count), *outer])


@exports("BatchToSpace-2")
def export_batch_to_space(site: Site) -> Value:
    """Export BatchToSpace: blocks of the batch become spatial positions, which are cropped."""
    dimensions = get_dimensions(site, 0)
    rank = len(dimensions)
    blocks = list_entries(site, 1, rank)
    batch = divide(dimensions[0], multiply(*blocks))
    split = reshape_to(site[0], [*blocks[1:], batch, *dimensions[1:]])
    order = [rank - 1]
    for i in range(1, rank):
        order += [rank - 1 + i, i - 1]
    spatial = [multiply(d, b) for d, b in zip(dimensions[1:], blocks[1:], strict=True)]
    joined = reshape_to(transpose(split, order), [batch, *spatial])
    stops = op("Shape", joined, result="i64") - flatten(site[3])
    return op("Slice", joined, flatten(site[2]), stops)


@exports("SpaceToBatch-2")
def export_space_to_batch(site: Site) -> Value:
    """Export SpaceToBatch: spatial positions of padded data become blocks of the batch."""
    dimensions = get_dimensions(site, 0)
    rank = len(dimensions)
    blocks = list_entries(site, 1, rank)
    padded = op("Pad", site[0], concat([flatten(site[2]), flatten(site[3])]))
    outer = [divide(get_dimension(padded, i), blocks[i]) for i in range(1, rank)]
    split = reshape_to(padded, [dimensions[0], *(x for o, n in zip(outer, blocks[1:], strict=True) for x in (o, n))])
    order = [*(2 * i for i in range(1, rank)), 0, *(2 * i - 1 for i in range(1, rank))]
    return reshape_to(transpose(split, order), [multiply(dimensions[0], *blocks), *outer])


@exports("ExtractImagePatches-3")
def export_patches(site: Site) -> Value:
    """Export ExtractImagePatches: a strided slice for each element of the window."""
    sizes, strides, rates = site.sizes, site.strides, site.rates
    data, pads, counts = site[0], [], []
    for length, size, stride, rate in zip(site.get_static_shape(0, 2), sizes, strides, rates, strict=True):
        extent = (size - 1) * rate + 1
        is_padded = site.auto_pad != "valid"
        count = -(-length // stride) if is_padded else max(0, (length - extent) // stride + 1)
        total = max(0, (count - 1) * stride + extent - length) if is_padded else 0
        small = total // 2
        pads.append((small, total - small) if site.auto_pad != "same_lower" else (total - small, small))
        counts.append(count)
    height, width = counts
    if any(map(any, pads)):
        data = op("Pad", data, constant([0, 0, pads[0][0], pads[1][0], 0, 0, pads[0][1], pads[1][1]]))
    parts = []
    for i in range(sizes[0]):
        for j in range(sizes[1]):
            starts = [i * rates[0], j * rates[1]]
            stops = [s + (n - 1) * step + 1 for s, n, step in zip(starts, (height, width), strides, strict=True)]
            parts.append(op("Slice", data, constant(starts), constant(stops), constant([2, 3]), constant(strides)))
    return op("Concat", *parts, axis=1)


@exports("Col2Im-15", compute="f32")
def export_col2im(site: Site) -> Value:
    """Export Col2Im. ONNX's version requires a batch."""
    data = site[0]
    has_batch = site.get_rank(0) == 3
    wide = cast(data, "f64") if data.type.is_integer else data
    kind = wide.type
    if kind.name != "f32":
        wide = cast(wide, "f32")
    if not has_batch:
        wide = unsqueeze(wide, [0])
    result = op(
        "Col2Im", wide, flatten(site[1]), flatten(site[2]), strides=list(site.strides), dilations=list(site.dilations),
        pads=[*site.pads_begin, *site.pads_end],
    )  # fmt: skip
    return cast(result if has_batch else squeeze(result, [0]), data.type)
