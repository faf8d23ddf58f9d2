"""Multinomial: random classes with given probabilities."""

from __future__ import annotations

import numpy as np

from irrun.element_types import ElementType
from irrun.errors import InputError
from irrun.limits import check_allocation
from irrun.ops._support.axes import to_scalar
from irrun.ops._support.numerics import Array, compute_in_float32, upcast
from irrun.ops._support.random_numbers import draw_uniform
from irrun.ops._support.registry import op

__all__ = ["multinomial_13"]


@op(
    "Multinomial",
    since=13,
    scratch=7.25,
    kind="random",
    shape="infer_multinomial",
    shaped_by=(1,),
    output_types=("convert_type",),
)
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
    """Draw random classes with the probabilities `probs`.

    If a seed is not 0, the classes equal the reference implementation's and are the same in each run. If both are 0,
    the classes are not reproducible. A random number of exactly 0 (1 of 1024 in f16) draws the first class even if its
    probability is 0, as in the reference implementation.

    Args:
        probs: Floating-point, shape [batch, classes] or [classes]. The probabilities need not add up to 1.
        num_samples: Integer scalar.
        convert_type: Type of the result.
        with_replacement: Whether a class may be drawn several times.
        log_probs: Whether `probs` are logarithms of probabilities.
        global_seed: First seed.
        op_seed: Second seed.

    Returns:
        Shape [batch, num_samples] or [num_samples], the type `convert_type`.

    Raises:
        InputError: `probs` has another rank or no classes, or without replacement there are fewer classes than
            samples.

    Spec:
        Multinomial-13
    """
    samples = to_scalar(num_samples, "num_samples")
    if probs.ndim not in (1, 2) or probs.shape[-1] == 0:
        raise InputError(f"probs has shape {list(probs.shape)}, expected [batch, classes] or [classes]")
    if samples < 0:
        raise InputError(f"num_samples is {samples}, expected a non-negative number")
    if not with_replacement and samples > probs.shape[-1]:
        raise InputError(f"{samples} different classes cannot be drawn from {probs.shape[-1]}")
    check_allocation((*probs.shape[:-1], samples), np.dtype(np.int64))
    weights = compute_in_float32(np.exp)(probs) if log_probs else probs
    # All steps are rounded to the type of probs, as in the reference implementation.
    cumulative = np.add.accumulate(weights.reshape(-1, probs.shape[-1]), axis=1)
    cumulative = cumulative / cumulative[:, -1:]
    zero, one = np.zeros((), probs.dtype), np.ones((), probs.dtype)
    thresholds, _ = draw_uniform(len(cumulative) * samples, zero, one, global_seed, op_seed)
    draw = _draw_with_replacement if with_replacement else _draw_without_replacement
    classes = draw(cumulative, thresholds.reshape(len(cumulative), samples))
    return classes.astype(convert_type.dtype).reshape(*probs.shape[:-1], samples)


@compute_in_float32
def _draw_with_replacement(cumulative: Array, thresholds: Array) -> Array:
    """Return the first class with a cumulative probability that reaches each threshold, or 0."""
    classes = np.array([np.searchsorted(row, t) for row, t in zip(cumulative, thresholds, strict=True)], np.int64)
    classes = classes.reshape(thresholds.shape)
    return np.where(classes < cumulative.shape[1], classes, 0)


def _draw_without_replacement(cumulative: Array, thresholds: Array) -> Array:
    """Draw as `_draw_with_replacement`, but set the probability of each drawn class to 0 for the next draws."""
    classes = np.zeros(thresholds.shape, np.int64)
    rows = np.arange(len(cumulative))
    class_index = np.arange(cumulative.shape[1])
    for i, threshold in enumerate(thresholds.T):
        is_reached = threshold[:, None] <= cumulative
        probabilities = np.concatenate([cumulative[:, :1], cumulative[:, 1:] - cumulative[:, :-1]], axis=1)
        # Rounding can leave the last sum below the threshold. In this case the most probable class is drawn.
        most_probable = upcast(probabilities).argmax(axis=1)
        drawn = np.where(is_reached.any(axis=1), is_reached.argmax(axis=1), most_probable)
        classes[:, i] = drawn
        if i + 1 < thresholds.shape[1]:
            removed = probabilities[rows, drawn][:, None]
            remaining = np.where(class_index >= drawn[:, None], cumulative - removed, cumulative)
            cumulative = remaining / (removed.dtype.type(1) - removed)
    return classes
