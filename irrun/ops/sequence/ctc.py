"""Connectionist temporal classification: CTCGreedyDecoder, CTCGreedyDecoderSeqLen, CTCLoss."""

from __future__ import annotations

import numpy as np

from irrun.element_types import ELEMENT_TYPES, ElementType
from irrun.errors import InputError
from irrun.ops._support.axes import to_scalar
from irrun.ops._support.numerics import Array, compute_in_float32, upcast
from irrun.ops._support.recurrent_steps import expect_shape
from irrun.ops._support.registry import op

__all__ = ["ctc_greedy_decoder_1", "ctc_greedy_decoder_seq_len_6", "ctc_loss_4"]


@op("CTCGreedyDecoder", since=1)
def ctc_greedy_decoder_1(data: Array, sequence_mask: Array, *, ctc_merge_repeated: bool = True) -> Array:
    """The best class at each time, without blanks and, with ctc_merge_repeated, without repetitions.

    data: float [T, N, C], whose last class is the blank; sequence_mask: float [T, N], 1 up to the end of each
    sequence, 0 behind it.
    Returns the classes in the type of data, [N, T, 1, 1], filled up with -1.
    Raises InputError where the shapes do not fit.
    Spec: CTCGreedyDecoder-1.
    """
    if data.ndim != 3:
        raise InputError(f"data has shape {list(data.shape)}, expected [T, N, C]")
    expect_shape("sequence_mask", sequence_mask, *data.shape[:2])
    lengths = np.cumprod(upcast(sequence_mask) != 0, axis=0).sum(axis=0)
    best = _best_class(data.swapaxes(0, 1))
    classes, _ = _decode(best, lengths, data.shape[2] - 1, ctc_merge_repeated)
    return classes[:, :, None, None].astype(data.dtype)


@op("CTCGreedyDecoderSeqLen", since=6)
def ctc_greedy_decoder_seq_len_6(
    data: Array,
    sequence_length: Array,
    blank_index: Array | None = None,
    *,
    merge_repeated: bool = True,
    classes_index_type: ElementType = ELEMENT_TYPES["i32"],
    sequence_length_type: ElementType = ELEMENT_TYPES["i32"],
) -> tuple[Array, Array]:
    """The best class at each time, without blanks and, with merge_repeated, without repetitions.

    data: float [N, T, C]; sequence_length: integer [N]; blank_index: the class that is the blank, the last
    where left out.
    Returns the classes, [N, T] filled up with -1, and how many each sequence has, [N].
    Raises InputError where the shapes do not fit or a length is not in [0, T].
    Spec: CTCGreedyDecoderSeqLen-6.
    """
    if data.ndim != 3:
        raise InputError(f"data has shape {list(data.shape)}, expected [N, T, C]")
    lengths = _lengths("sequence_length", sequence_length, data.shape[0], data.shape[1])
    blank = data.shape[2] - 1 if blank_index is None else int(to_scalar(blank_index, "blank_index"))
    classes, counts = _decode(_best_class(data), lengths, blank, merge_repeated)
    return classes.astype(classes_index_type.dtype), counts.astype(sequence_length_type.dtype)


def _lengths(name: str, values: Array, batch: int, longest: int) -> Array:
    expect_shape(name, values, batch)
    lengths = values.astype(np.int64)
    if batch and (lengths.min() < 0 or lengths.max() > longest):
        raise InputError(f"{name} holds {lengths.tolist()}, expected 0 to {longest}")
    return lengths


def _best_class(data: Array) -> Array:
    """The first class of the highest value; as in C++, NaN is never higher, nor lower."""
    data = upcast(data)
    if data.size == 0:
        return np.zeros(data.shape[:-1], np.int64)
    missing = np.isnan(data)
    if not missing.any():
        return data.argmax(axis=-1)  # type: ignore[no-any-return]
    best = np.argmax(np.where(missing, -np.inf, data), axis=-1)
    return np.where(missing[..., 0], 0, best)


def _decode(best: Array, lengths: Array, blank: int, merge: bool) -> tuple[Array, Array]:
    """The classes [N, T] that remain of `best` [N, T], moved to the front of -1s, and their number [N]."""
    keep = (np.arange(best.shape[1]) < lengths[:, None]) & (best != blank)
    if merge:
        keep[:, 1:] &= best[:, 1:] != best[:, :-1]
    return _pack(best, keep, -1)


def _pack(values: Array, keep: Array, fill: int) -> tuple[Array, Array]:
    """What is kept of each row, moved to its front, and the number of kept values."""
    counts = keep.sum(axis=1)
    packed = np.full(values.shape, fill, np.int64)
    packed[np.arange(values.shape[1]) < counts[:, None]] = values[keep]
    return packed, counts


@op("CTCLoss", since=4)
@compute_in_float32
def ctc_loss_4(
    logits: Array,
    logit_length: Array,
    labels: Array,
    label_length: Array,
    blank_index: Array | None = None,
    *,
    preprocess_collapse_repeated: bool = False,
    ctc_merge_repeated: bool = True,
    unique: bool = False,
) -> Array:
    """The negative logarithm of the probability that the labels come out of the logits.

    logits: float [N, T, C]; logit_length, label_length: integer [N]; labels: integer [N, T]; blank_index: the
    class that is the blank, the last where left out. `unique` keeps the first of equal labels, otherwise
    preprocess_collapse_repeated keeps one of equal neighbours; with ctc_merge_repeated a label may last for
    several times, and equal neighbours need a blank between them.
    Returns the losses in the type of logits, [N]; infinity where no path fits.
    Raises InputError where shapes do not fit, a length is not in [0, T], more labels than logits are given, or
    a label is no class.
    Where no labels are given, only the path of blanks fits; the reference implementation gives 0 there.
    Spec: CTCLoss-4.
    """
    if logits.ndim != 3:
        raise InputError(f"logits has shape {list(logits.shape)}, expected [N, T, C]")
    batch, time, classes = logits.shape
    lengths = _lengths("logit_length", logit_length, batch, time)
    label_lengths = _lengths("label_length", label_length, batch, time)
    expect_shape("labels", labels, batch, time)
    if (label_lengths > lengths).any():
        raise InputError(f"label_length {label_lengths.tolist()} exceeds logit_length {lengths.tolist()}")
    blank = classes - 1 if blank_index is None else int(to_scalar(blank_index, "blank_index"))
    keep = np.arange(time) < label_lengths[:, None]
    given = labels[keep]
    if not 0 <= blank < classes or (given.size and (given.min() < 0 or given.max() >= classes)):
        raise InputError(f"labels and blank_index are expected to be in [0, {classes - 1}]")
    if unique:
        keep &= _first_occurrence(labels)
    elif preprocess_collapse_repeated:
        keep[:, 1:] &= labels[:, 1:] != labels[:, :-1]
    target, counts = _pack(labels, keep, blank)
    return -_log_likelihood(_log_softmax(logits), lengths, target, counts, blank, ctc_merge_repeated)


def _first_occurrence(labels: Array) -> Array:
    """Which labels do not occur before in their row."""
    order = np.argsort(labels, axis=1, kind="stable")
    ascending = np.take_along_axis(labels, order, axis=1)
    first = np.ones(labels.shape, np.bool_)
    first[:, 1:] = ascending[:, 1:] != ascending[:, :-1]
    result = np.empty_like(first)
    np.put_along_axis(result, order, first, axis=1)
    return result


def _log_softmax(logits: Array) -> Array:
    shifted = logits - logits.max(axis=-1, keepdims=True, initial=-np.inf)
    result: Array = shifted - np.log(np.exp(shifted).sum(axis=-1, keepdims=True))
    return result


def _log_likelihood(
    log_probability: Array, lengths: Array, target: Array, counts: Array, blank: int, merge: bool
) -> Array:
    """The logarithm of the summed probability of all paths that give `target`.

    The forward algorithm over the states blank, label 0, blank, label 1, ..., blank of each sequence at once:
    reached[n, s] is the probability of having come to state s after the times seen so far.
    """
    batch, time = target.shape
    rows = np.arange(batch)
    width = 2 * int(counts.max(initial=0)) + 1
    states = np.full((batch, width), blank)
    states[:, 1::2] = target[:, : width // 2]
    is_label = np.arange(width) % 2 == 1
    # A label follows the one before it without a blank, unless both would be merged into one.
    skips = np.zeros(states.shape, np.bool_)
    skips[:, 2:] = is_label[2:] & (states[:, 2:] != states[:, :-2]) if merge else is_label[2:]
    never = np.full((batch, 2), -np.inf, log_probability.dtype)
    reached = np.full((batch, width), -np.inf, log_probability.dtype)
    reached[:, 0] = 0
    for t in range(time):
        stay = reached if merge else np.where(is_label, -np.inf, reached)
        shifted = np.concatenate([never, reached], axis=1)
        skip = np.where(skips, shifted[:, :width], -np.inf)
        total = np.logaddexp(np.logaddexp(stay, shifted[:, 1 : 1 + width]), skip)
        total += np.take_along_axis(log_probability[:, t], states, axis=1)
        reached = np.where(t < lengths[:, None], total, reached)
    last_label = np.where(counts > 0, reached[rows, np.maximum(2 * counts - 1, 0)], -np.inf)
    result: Array = np.logaddexp(reached[rows, 2 * counts], last_label)
    return result.astype(log_probability.dtype)
