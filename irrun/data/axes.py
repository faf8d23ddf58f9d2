"""Meanings of input axes: batch, channels, height and width, or the length of a sequence."""

from __future__ import annotations

import re
from collections.abc import Sequence

from irrun.ir.model import TensorSpec
from irrun.shapes import Dimension, DynamicDimension

__all__ = ["AUDIO", "BATCH", "CHANNELS", "PAST", "SEQUENCE", "SIZE", "TOTAL", "find_batch_axes", "find_roles"]

#: The samples in a batch.
BATCH = "batch"
#: The channels of images.
CHANNELS = "channels"
#: The height or width of images.
SIZE = "size"
#: The length of a sequence, such as the tokens of a text.
SEQUENCE = "sequence"
#: The number of samples of a sound.
AUDIO = "audio"
#: The length of the keys and values of earlier runs of a decoder.
PAST = "past"
#: The sum of both, which is the length of the attention mask of a decoder.
TOTAL = "total"

#: Letters of layouts -> meanings.
LETTERS = {"N": BATCH, "C": CHANNELS, "H": SIZE, "W": SIZE, "D": SEQUENCE, "T": SEQUENCE, "S": SEQUENCE, "L": SEQUENCE}
#: Numbers of channels of images.
IMAGE_CHANNELS = (1, 3, 4)

_PAST_NAME = re.compile(r"past|cache|(^|[._/])(key|value)s?([._/]|$)", re.IGNORECASE)
_MASK_NAME = re.compile(r"mask", re.IGNORECASE)
_AUDIO_NAME = re.compile(r"audio|wav|speech|pcm|signal|input_values", re.IGNORECASE)
_LAYOUT = re.compile(r'name="layout"[^>]*\blayout="\[?([^"\]]*)\]?"')


def find_roles(inputs: Sequence[TensorSpec]) -> list[list[str]]:
    """Return the meaning of each axis of each input, as far as layouts, ranks, sizes and names show it.

    Args:
        inputs: The inputs of a model.

    Returns:
        For each input, a list with the role of each axis; empty if its rank is unknown.
    """
    batch_axes = find_batch_axes(inputs)
    has_past = any(_is_past(tensor) for tensor in inputs)
    return [_find_roles(tensor, axis, has_past) for tensor, axis in zip(inputs, batch_axes, strict=True)]


def find_batch_axes(inputs: Sequence[TensorSpec]) -> list[int | None]:
    """Return the batch axis of each input, or None for inputs without one.

    It is axis N of the layout. Without layouts, it is the first axis of the first input of rank 2 or more, and the axis
    with the same size in other inputs: the first axis or, as in states of recurrent layers, the second.

    Args:
        inputs: The inputs of a model.
    """
    axes: list[int | None] = []
    sizes: list[Dimension] = []
    for tensor in inputs:
        shape = tensor.partial_shape or ()
        layout = find_layout(tensor)
        if layout is not None:
            axes.append(layout.index("N") if "N" in layout else None)
        else:
            axes.append(0 if len(shape) > 1 and not sizes else None)
        axis = axes[-1]
        if axis is not None:
            sizes.append(shape[axis])
    for i, tensor in enumerate(inputs):
        shape = tensor.partial_shape or ()
        if axes[i] is not None or not sizes or find_layout(tensor) is not None:
            continue
        # A static vector has an independent size, such as a step or a threshold.
        count = 0 if len(shape) == 1 and isinstance(shape[0], int) else 2 if len(shape) > 2 else 1
        axes[i] = next((axis for axis in range(min(count, len(shape))) if _is_same(shape[axis], sizes[0])), None)
    return axes


def find_layout(tensor: TensorSpec) -> list[str] | None:
    """Return the letters of an input's layout in the file, or None.

    Args:
        tensor: The input.
    """
    rank = len(tensor.partial_shape or ())
    for text in (tensor.layer.rt_info, None if tensor.port is None else tensor.port.rt_info):
        found = _LAYOUT.search(text or "")
        letters = found[1].strip().upper() if found else ""
        parts = [part.strip() for part in letters.split(",")] if "," in letters else list(letters)
        if rank and len(parts) == rank:
            return parts
    return None


def _find_roles(tensor: TensorSpec, batch_axis: int | None, has_past: bool) -> list[str]:
    shape: list[Dimension] = list(tensor.partial_shape or ())
    layout = find_layout(tensor)
    if layout is not None:
        return [LETTERS.get(letter, SEQUENCE) for letter in layout]
    rank = len(shape)
    roles = [SEQUENCE] * rank
    is_integer = tensor.element_type is not None and tensor.element_type.is_integer and tensor.element_type.name != "u8"
    if _is_past(tensor):
        roles = [PAST] * rank
    elif rank == 4 and not is_integer:
        is_last = shape[3] in IMAGE_CHANNELS and shape[1] not in IMAGE_CHANNELS
        roles = [BATCH, SIZE, SIZE, CHANNELS] if is_last else [BATCH, CHANNELS, SIZE, SIZE]
    elif rank == 3 and not is_integer and shape[0] == 3 and not any(isinstance(d, int) for d in shape[1:]):
        roles = [CHANNELS, SIZE, SIZE]
    elif not is_integer and any(_AUDIO_NAME.search(name) for name in tensor.names):
        roles = [AUDIO] * rank
    elif has_past and any(_MASK_NAME.search(name) for name in tensor.names):
        roles = [TOTAL] * rank
    if batch_axis is not None and roles[batch_axis] not in (CHANNELS, SIZE):
        roles[batch_axis] = BATCH
    return roles


def _is_past(tensor: TensorSpec) -> bool:
    """Return whether an input has the keys or values of earlier runs of a decoder."""
    shape: Sequence[Dimension] = tensor.partial_shape or ()
    if len(shape) not in (3, 4) or (isinstance(shape[-2], int) and isinstance(shape[-1], int)):
        return False
    return any(_PAST_NAME.search(name) for name in tensor.names)


def _is_same(first: Dimension, second: Dimension) -> bool:
    if isinstance(first, DynamicDimension) or isinstance(second, DynamicDimension):
        return isinstance(first, DynamicDimension) and isinstance(second, DynamicDimension)
    return int(first) == int(second)
