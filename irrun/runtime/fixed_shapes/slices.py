"""Slices and squeezed dimensions."""

from __future__ import annotations

from irrun.ir.graph import Layer
from irrun.runtime.fixed_shapes.relaxation import Relaxation

__all__ = ["crop_image_size", "join_slice_and_squeeze", "join_squeeze_and_slice"]


def crop_image_size(relaxation: Relaxation, proposal: Layer) -> None:
    """Let Proposal read the size of the first image if all image sizes are reshaped to one dimension."""
    editor = relaxation.editor
    reshape = editor.get_producer(proposal, 2)
    if reshape is None or reshape.type != "Reshape" or relaxation.get_rank(reshape) != 1:
        return
    source = editor.get_producer(reshape, 0)
    if source is not None and relaxation.get_card(source).converts:
        source = editor.get_producer(source, 0)
    shape = None if source is None or not source.is_input else source.outputs[0].shape
    if shape is None or len(shape) != 2 or not isinstance(shape[1], int) or shape[1] not in (3, 4):
        return
    if relaxation.get_constant(reshape, 1) is None:
        return
    address = editor.get_source(proposal, 2)
    assert address is not None
    slicing = [[0], [int(shape[1])], [1]]
    editor.set_input(proposal, 2, relaxation.add_strided_slice(reshape, address, slicing, {}))


def _get_plain_slice(relaxation: Relaxation, layer: Layer) -> tuple[list[list[int]], dict[str, list[int]]] | None:
    """Return the begin and end of a StridedSlice with steps of 1 and their masks; None if it has other masks."""
    found = relaxation.get_operation(layer)
    parts = [relaxation.get_constant(layer, i) for i in (1, 2, 3)]
    begin, end, strides = parts
    if found is None or begin is None or end is None or strides is None or any(n != 1 for n in strides):
        return None
    attributes = found[1]
    if any(any(attributes[f"{name}_mask"]) for name in ("new_axis", "shrink_axis", "ellipsis")):
        return None
    masks = {name: [*attributes[f"{name}_mask"], *[0] * len(begin)][: len(begin)] for name in ("begin", "end")}
    return [begin, end, strides], masks


def _extend_slice(parts: list[list[int]], masks: dict[str, list[int]], rank: int) -> None:
    """Add the axes that a slice does not change."""
    for values, kept in ((parts[0], 0), (parts[1], 0), (parts[2], 1), (masks["begin"], 1), (masks["end"], 1)):
        values.extend([kept] * (rank - len(values)))


def _get_squeezed_axes(relaxation: Relaxation, squeeze: Layer) -> list[int] | None:
    """Return the axes of a Squeeze in ascending order if they are constant."""
    axes, shape = relaxation.get_constant(squeeze, 1), relaxation.get_input_shape(squeeze, 0)
    if not axes or shape is None or any(not -len(shape) <= axis < len(shape) for axis in axes):
        return None
    return sorted({axis % len(shape) for axis in axes})


def join_squeeze_and_slice(relaxation: Relaxation, layer: Layer) -> None:
    """Let a StridedSlice take the first element of the axes that a Squeeze in front of it removes."""
    squeeze = relaxation.editor.get_producer(layer, 0)
    if squeeze is None or squeeze.type != "Squeeze" or relaxation.get_only_consumer(squeeze, "StridedSlice") is None:
        return
    axes, found = _get_squeezed_axes(relaxation, squeeze), _get_plain_slice(relaxation, layer)
    rank, data = relaxation.get_rank(squeeze), relaxation.editor.get_source(squeeze, 0)
    if axes is None or found is None or rank is None or data is None:
        return
    parts, masks = found
    _extend_slice(parts, masks, rank)
    shrink = [0] * rank
    for axis in axes:
        for values, element in ((parts[0], 0), (parts[1], 1), (parts[2], 1), (masks["begin"], 0), (masks["end"], 0)):
            values.insert(axis, element)
        shrink.insert(axis, 1)
    new = relaxation.add_strided_slice(layer, data, parts, {**masks, "shrink_axis": shrink})
    relaxation.editor.replace_output((layer.id, layer.outputs[0].id), new)


def join_slice_and_squeeze(relaxation: Relaxation, squeeze: Layer) -> None:
    """Let a StridedSlice remove the axes that a Squeeze after it removes."""
    layer = relaxation.editor.get_producer(squeeze, 0)
    if layer is None or layer.type != "StridedSlice" or relaxation.get_only_consumer(layer, "Squeeze") is None:
        return
    axes, found = _get_squeezed_axes(relaxation, squeeze), _get_plain_slice(relaxation, layer)
    rank, data = relaxation.get_rank(layer), relaxation.editor.get_source(layer, 0)
    if axes is None or found is None or rank is None or data is None:
        return
    parts, masks = found
    _extend_slice(parts, masks, rank)
    begin, end, _ = parts
    for axis in axes:
        if masks["begin"][axis]:
            begin[axis], end[axis] = 0, 1
            masks["begin"][axis] = masks["end"][axis] = 0
        elif begin[axis] == -1:
            masks["end"][axis] = 1
        else:
            end[axis] = begin[axis] + 1
            masks["end"][axis] = 0
    shrink = [int(axis in axes) for axis in range(rank)]
    new = relaxation.add_strided_slice(squeeze, data, parts, {**masks, "shrink_axis": shrink})
    relaxation.editor.replace_output((squeeze.id, squeeze.outputs[0].id), new)
