"""The `pre-process` element: means that are subtracted from an image, and divisors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

from irrun.ir.legacy.builder import Builder
from irrun.ir.legacy.layer import F32, Blob, Value
from irrun.ir.legacy.xml_elements import create_error, parse_float, parse_int, parse_precision

__all__ = ["normalize_input", "select_input"]


def select_input(element: Any, inputs: Mapping[str, Value]) -> str:
    """Return the name of the input that a `pre-process` element applies to.

    Args:
        element: The `pre-process` element.
        inputs: The inputs of the model, by name.

    Returns:
        The input that the element names, or the first input of rank 4 by name, or the first one of any rank.

    Raises:
        ModelError: The input does not exist.
    """
    name = str(element.get("reference-layer-name", "")).strip()
    if not inputs:
        raise create_error(element, "<pre-process> requires an input, but the model has none")
    if name and name not in inputs:
        raise create_error(element, f"<pre-process> refers to the input {name!r}, which does not exist")
    names = sorted(inputs)
    return name or next((n for n in names if len(inputs[n].shape or ()) == 4), names[0])


@dataclass
class _Channels:
    """The contents of the `channel` elements, by channel.

    Attributes:
        means: Mean values.
        images: Mean images.
        scales: Divisors.
    """

    means: dict[int, float] = field(default_factory=dict)
    images: dict[int, Blob] = field(default_factory=dict)
    scales: dict[int, float] = field(default_factory=dict)


def normalize_input(builder: Builder, element: Any, value: Value, precision: str | None) -> Value:
    """Subtract the mean values or mean images from an input, and divide it by the scales.

    Args:
        builder: The graph under construction.
        element: The `pre-process` element.
        value: The input.
        precision: The precision of mean images, unless the element states it.

    Returns:
        The normalized input.

    Raises:
        ModelError: The channels do not match the input, or some of them have no mean.
    """
    shape = value.shape or ()
    if len(shape) < 2:
        raise create_error(element, f"<pre-process> requires an input of rank 2 or more, found shape {list(shape)}")
    axis = 0 if len(shape) == 3 else 1
    count = shape[axis]
    channels = _read_channels(element, count, element.get("mean-precision") or precision)
    for entries, name in ((channels.means, "mean values"), (channels.images, "mean images")):
        if entries and len(entries) != count:
            raise create_error(element, f"<pre-process> has {name} for the channels {sorted(entries)} of {count}")
    value = builder.to_float(value)
    channel_shape = [count if i == axis else 1 for i in range(len(shape))]
    if channels.images:
        images = [channels.images[i] for i in range(count)]
        value = builder.add_binary("Subtract", value, _get_mean_image(builder, element, images, axis, shape))
    elif channels.means:
        means = [channels.means[i] for i in range(count)]
        value = builder.add_binary("Subtract", value, _add_channel_constant(builder, means, channel_shape, "mean"))
    if any(scale != 1 for scale in channels.scales.values()):
        scales = [channels.scales.get(i, 1.0) for i in range(count)]
        value = builder.add_binary("Divide", value, _add_channel_constant(builder, scales, channel_shape, "scale"))
    return value


def _read_channels(element: Any, count: int, precision: str | None) -> _Channels:
    channels = _Channels()
    position = -1
    for channel in element.iterchildren("channel"):
        position = parse_int(channel, "channel id", channel.get("id", str(position + 1)))
        if not 0 <= position < count:
            raise create_error(channel, f"<pre-process> refers to channel {position} of {count}")
        mean, scale = channel.find("mean"), channel.find("scale")
        if mean is not None and mean.get("value") is not None:
            channels.means[position] = parse_float(mean, mean.get("value"))
        if mean is not None and mean.get("size") is not None:
            size, offset = (parse_int(mean, name, mean.get(name, "0")) for name in ("size", "offset"))
            channels.images[position] = Blob(parse_precision(mean, precision) or F32, offset, size)
        if scale is not None and scale.get("value") is not None:
            channels.scales[position] = parse_float(scale, scale.get("value"))
    return channels


def _add_channel_constant(builder: Builder, numbers: Sequence[float], shape: Sequence[int], name: str) -> Value:
    import numpy as np

    return builder.add_constant(np.array(numbers, np.float32).reshape(shape), F32, name)


def _get_mean_image(
    builder: Builder, element: Any, images: Sequence[Blob], axis: int, input_shape: Sequence[int]
) -> Value:
    """Return the mean images of all channels as one tensor, a single Constant if they are adjacent in the weights."""
    height, width = input_shape[-2:]
    for image in images:
        expected = image.element_type.get_byte_size(height * width)
        if image.size != expected:
            raise create_error(
                element,
                f"a mean image has {image.size} bytes, expected {expected} for {image.element_type}[{height},{width}]",
            )
    shape = [1] * (len(input_shape) - 2) + [height, width]
    if all(b.offset == a.offset + a.size for a, b in pairwise(images)):
        shape[axis] = len(images)
        first = images[0]
        blob = Blob(first.element_type, first.offset, sum(image.size for image in images))
        return builder.add_stored_constant(blob, shape, "mean")
    return builder.concat(
        [builder.add_stored_constant(image, shape, f"mean.{i}") for i, image in enumerate(images)], axis
    )
