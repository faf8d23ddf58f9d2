"""`<pre-process>`: the mean that old files subtract from an image, the scale that they divide it by."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

from irrun.ir.legacy.builder import Builder
from irrun.ir.legacy.layer import F32, Blob, Value
from irrun.ir.legacy.xml_elements import integer, malformed, number, stored_type

__all__ = ["normalized", "preprocessed_input"]


def preprocessed_input(element: Any, inputs: Mapping[str, Value]) -> str:
    """The name of the input that is meant: the one that is named, else the first by name of rank 4, else of any.

    Raises:
        ModelError: there is none.
    """
    wanted = str(element.get("reference-layer-name", "")).strip()
    if not inputs:
        raise malformed(element, "<pre-process> stands in a file without inputs")
    if wanted and wanted not in inputs:
        raise malformed(element, f"<pre-process> names the input {wanted!r}, which does not exist")
    names = sorted(inputs)
    return wanted or next((name for name in names if len(inputs[name].shape or ()) == 4), names[0])


@dataclass
class _Channels:
    """What the `channel` elements say, by channel."""

    means: dict[int, float] = field(default_factory=dict)
    planes: dict[int, Blob] = field(default_factory=dict)
    scales: dict[int, float] = field(default_factory=dict)


def normalized(builder: Builder, element: Any, value: Value, precision: str | None) -> Value:
    """The input with its mean values or mean images subtracted, divided by its scales.

    Raises:
        ModelError: the channels do not fit the input, or not all of them have a mean.
    """
    shape = value.shape or ()
    if len(shape) < 2:
        raise malformed(element, f"<pre-process> needs an input of rank 2 or more, found {list(shape)}")
    axis = 0 if len(shape) == 3 else 1
    count = shape[axis]
    found = _read_channels(element, count, element.get("mean-precision") or precision)
    for given, what in ((found.means, "mean values"), (found.planes, "mean images")):
        if given and len(given) != count:
            raise malformed(element, f"<pre-process> gives {what} for {sorted(given)} of {count} channels")
    value = builder.floating(value)
    per_channel = [count if i == axis else 1 for i in range(len(shape))]
    if found.planes:
        planes = [found.planes[i] for i in range(count)]
        value = builder.binary("Subtract", value, _mean_image(builder, element, planes, axis, shape))
    elif found.means:
        means = [found.means[i] for i in range(count)]
        value = builder.binary("Subtract", value, _by_channel(builder, means, per_channel, "mean"))
    if any(scale != 1 for scale in found.scales.values()):
        scales = [found.scales.get(i, 1.0) for i in range(count)]
        value = builder.binary("Divide", value, _by_channel(builder, scales, per_channel, "scale"))
    return value


def _read_channels(element: Any, count: int, precision: str | None) -> _Channels:
    found = _Channels()
    position = -1
    for channel in element.iterchildren("channel"):
        position = integer(channel, "channel id", channel.get("id", str(position + 1)))
        if not 0 <= position < count:
            raise malformed(channel, f"<pre-process> names channel {position}, the input has {count}")
        mean, scale = channel.find("mean"), channel.find("scale")
        if mean is not None and mean.get("value") is not None:
            found.means[position] = number(mean, mean.get("value"))
        if mean is not None and mean.get("size") is not None:
            size, offset = (integer(mean, k, mean.get(k, "0")) for k in ("size", "offset"))
            found.planes[position] = Blob(stored_type(mean, precision) or F32, offset, size)
        if scale is not None and scale.get("value") is not None:
            found.scales[position] = number(scale, scale.get("value"))
    return found


def _by_channel(builder: Builder, numbers: Sequence[float], shape: Sequence[int], name: str) -> Value:
    import numpy as np

    return builder.constant(np.array(numbers, np.float32).reshape(shape), F32, name)


def _mean_image(builder: Builder, element: Any, planes: Sequence[Blob], axis: int, image: Sequence[int]) -> Value:
    """The mean images of all channels as one tensor; one Constant where they lie one after another."""
    height, width = image[-2:]
    for plane in planes:
        if plane.size != plane.type.get_byte_size(height * width):
            message = f"a mean image takes {plane.size} bytes, {plane.type}[{height},{width}] was expected"
            raise malformed(element, message)
    shape = [1] * (len(image) - 2) + [height, width]
    if all(b.offset == a.offset + a.size for a, b in pairwise(planes)):
        shape[axis] = len(planes)
        whole = Blob(planes[0].type, planes[0].offset, sum(p.size for p in planes))
        return builder.stored(whole, shape, "mean")
    return builder.concat([builder.stored(p, shape, f"mean.{i}") for i, p in enumerate(planes)], axis)
