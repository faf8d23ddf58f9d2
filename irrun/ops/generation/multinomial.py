"""Multinomial: random classes, drawn by their probabilities."""

from __future__ import annotations

import numpy as np

from irrun.element_types import ElementType
from irrun.errors import InputError
from irrun.limits import check_allocation
from irrun.ops._support.axes import to_scalar
from irrun.ops._support.numerics import Array, upcast
from irrun.ops._support.registry import op
from irrun.ops.generation.random_uniform import uniform

__all__ = ["multinomial_13"]


@op("Multinomial", since=13, folding="never")
def multinomial_13(
    probs: Array,
    num_samples: Array,
    *,
    convert_type: ElementType,
    with_replacement: bool,
    log_probs: bool,
    global_seed: int = 0,
    op_seed: int = 0,
) -> Array:
    """Classes drawn at random by the probabilities `probs`, which need not sum up to 1.

    probs: float [batch, classes] or [classes], logarithms with `log_probs`; num_samples: integer, one element.
    Without replacement no class is drawn twice. With seeds the classes are those of OpenVINO's reference, the
    same in each run; with both seeds 0 they cannot be foreseen. A random number of exactly 0 (one of 1024 in f16)
    draws the first class, even one of probability 0, as in the reference.
    Returns [batch, num_samples] or [num_samples] of type convert_type.
    Raises InputError where probs has another rank or no class, or there are fewer classes than samples and
    none may be drawn twice.
    Spec: Multinomial-13.
    """
    samples = to_scalar(num_samples, "num_samples")
    if probs.ndim not in (1, 2) or probs.shape[-1] == 0 or samples < 0:
        raise InputError(f"{samples} samples of probabilities of shape {list(probs.shape)} cannot be drawn")
    if not with_replacement and samples > probs.shape[-1]:
        raise InputError(f"{samples} different classes cannot be drawn from {probs.shape[-1]}")
    check_allocation((*probs.shape[:-1], samples), np.dtype(np.int64))
    weights = np.exp(upcast(probs)).astype(probs.dtype) if log_probs else probs
    # Sums and shares are rounded to the type of probs, as the reference does.
    cumulative = np.add.accumulate(weights.reshape(-1, probs.shape[-1]), axis=1)
    cumulative = cumulative / cumulative[:, -1:]
    zero, one = np.zeros((), probs.dtype), np.ones((), probs.dtype)
    places = uniform(len(cumulative) * samples, zero, one, global_seed, op_seed)[0].reshape(
        -1 if samples else len(cumulative), samples
    )
    draw = _with_replacement if with_replacement else _without_replacement
    return draw(cumulative, places).astype(convert_type.dtype).reshape(*probs.shape[:-1], samples)


def _with_replacement(cumulative: Array, places: Array) -> Array:
    """The first class whose cumulative probability reaches each place; 0 where none does."""
    found = [np.searchsorted(upcast(row), upcast(place)) for row, place in zip(cumulative, places, strict=True)]
    classes = np.array(found, np.int64).reshape(places.shape)
    return np.where(classes < cumulative.shape[1], classes, 0)


def _without_replacement(cumulative: Array, places: Array) -> Array:
    """The same, but each class that was drawn loses its probability before the next one is."""
    classes = np.zeros(places.shape, np.int64)
    rows = np.arange(len(cumulative))
    number = np.arange(cumulative.shape[1])
    for i, place in enumerate(places.T):
        reached = place[:, None] <= cumulative
        share = np.concatenate([cumulative[:, :1], cumulative[:, 1:] - cumulative[:, :-1]], axis=1)
        # Rounding can leave the last sum below the place: then the likeliest class is drawn.
        drawn = np.where(reached.any(axis=1), reached.argmax(axis=1), upcast(share).argmax(axis=1))
        classes[:, i] = drawn
        if i + 1 < places.shape[1]:
            lost = share[rows, drawn][:, None]
            lowered = np.where(number >= drawn[:, None], cumulative - lost, cumulative)
            cumulative = lowered / (lost.dtype.type(1) - lost)
    return classes
