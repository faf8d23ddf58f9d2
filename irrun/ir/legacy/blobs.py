"""Weights, biases and other blobs of layers, as inputs of operations."""

from __future__ import annotations

import math
from collections.abc import Sequence

from irrun.ir.legacy.builder import Builder
from irrun.ir.legacy.layer import LegacyLayer, Value

__all__ = ["add_biases", "get_channel_blob", "get_weights"]


def add_biases(builder: Builder, layer: LegacyLayer, value: Value, shape: Sequence[int], position: int = 2) -> Value:
    """Add the biases of a layer to a value, if it has any.

    Args:
        builder: The graph under construction.
        layer: The legacy layer.
        value: The value.
        shape: The shape to reshape the biases to.
        position: The position of the input with the biases in IR v7, where they are not a blob.
    """
    if "biases" in layer.blobs:
        biases = builder.add_blob(layer, "biases", shape)
    elif len(layer.inputs) > position:
        biases = builder.reshape(layer.inputs[position], shape)
    else:
        return value
    return builder.add_binary("Add", value, builder.to_float(biases))


def get_weights(builder: Builder, layer: LegacyLayer, shape: list[int], position: int = 1) -> Value:
    """Return the weights of a layer as floats.

    Args:
        builder: The graph under construction.
        layer: The legacy layer.
        shape: The shape of the weights.
        position: The position of the input with the weights in IR v7, where they are not a blob.

    Raises:
        ModelError: The weights are missing, or their size does not match.
    """
    if "weights" in layer.blobs or len(layer.inputs) <= position:
        return builder.to_float(builder.add_blob(layer, "weights", shape))
    return builder.to_float(builder.reshape(layer.inputs[position], shape))


def get_channel_blob(builder: Builder, layer: LegacyLayer, name: str) -> Value:
    """Return a blob in a shape that broadcasts with the first input.

    Args:
        builder: The graph under construction.
        layer: A layer with a blob of one number per channel, one number for all, or one per element of a sample.
        name: Name of the blob.

    Returns:
        The blob.

    Raises:
        ModelError: The blob has another size.
    """
    shape = layer.get_input_shape()
    count = layer.blobs[name].count
    axis = 0 if len(shape) == 1 else 1
    if count == 1:
        return builder.add_blob(layer, name, [1] * len(shape))
    if shape and count == shape[axis]:
        return builder.add_blob(layer, name, [count if i == axis else 1 for i in range(len(shape))])
    if count == math.prod(shape[1:]):
        return builder.add_blob(layer, name, (1, *shape[1:]))
    channels = shape[axis] if shape else 1
    raise layer.make_error(f"the blob {name} has {count} numbers, but the input has {channels} channels")
