"""Checks of inputs."""

from __future__ import annotations

import numpy as np

from irrun.errors import InputError
from irrun.ops._support.numerics import Array

__all__ = ["check_minimum", "check_rank", "check_shape", "read_lengths"]


def check_shape(name: str, array: Array, *shape: int) -> None:
    """Check that an input has a shape.

    Args:
        name: Name of the input, for the error message.
        array: The input.
        shape: The expected dimensions.

    Raises:
        InputError: The shape differs.
    """
    if array.shape != shape:
        raise InputError(f"{name} has shape {list(array.shape)}, expected {list(shape)}")


def check_rank(name: str, array: Array, rank: int) -> None:
    """Check that an input has a rank.

    Args:
        name: Name of the input, for the error message.
        array: The input.
        rank: The expected rank.

    Raises:
        InputError: The rank differs.
    """
    if array.ndim != rank:
        raise InputError(f"{name} has shape {list(array.shape)}, expected a tensor of rank {rank}")


def check_minimum(name: str, value: int, minimum: int) -> None:
    """Check that an attribute is not too small.

    Args:
        name: Name of the attribute, for the error message.
        value: Its value.
        minimum: Smallest allowed value.

    Raises:
        InputError: The value is smaller.
    """
    if value < minimum:
        raise InputError(f"{name} is {value}, expected at least {minimum}")


def read_lengths(name: str, lengths: Array, batch: int, maximum: int) -> Array:
    """Return the lengths of the sequences of a batch as i64.

    Args:
        name: Name of the input, for the error message.
        lengths: Integer, shape [batch].
        batch: Number of sequences.
        maximum: Greatest allowed length.

    Raises:
        InputError: The shape does not match, or a length is not in [0, maximum].
    """
    check_shape(name, lengths, batch)
    lengths = lengths.astype(np.int64)
    if batch and (lengths.min() < 0 or lengths.max() > maximum):
        raise InputError(f"{name} is {lengths.tolist()}, expected values in [0, {maximum}]")
    return lengths
