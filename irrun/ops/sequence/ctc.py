"""Connectionist temporal classification: CTCGreedyDecoder, CTCGreedyDecoderSeqLen, CTCLoss."""

from __future__ import annotations

import numpy as np

from irrun.deadlines import within_time
from irrun.element_types import ELEMENT_TYPES, ElementType
from irrun.errors import InputError
from irrun.limits import check_scratch
from irrun.ops._support.axes import to_scalar
from irrun.ops._support.checks import check_shape, read_lengths
from irrun.ops._support.numerics import Array, compute_in_float32
from irrun.ops._support.registry import op

__all__ = ["ctc_greedy_decoder_1", "ctc_greedy_decoder_seq_len_6", "ctc_loss_4"]

#: Bytes of integers and masks for each time step, which exceed the data if there are few classes.
STEP_BYTES = 48


@op("CTCGreedyDecoder", since=1, scratch=1.5, kind="selection", shape="infer_ctc_decoder")
@compute_in_float32
def ctc_greedy_decoder_1(data: Array, sequence_mask: Array, *, ctc_merge_repeated: bool = True) -> Array:
    """Decode the most probable class of each time step, without blanks.

    Args:
        data: Floating-point, shape [T, N, C]. The last class is the blank.
        sequence_mask: The type of `data`, shape [T, N]: 1 up to the end of each sequence, 0 after it.
        ctc_merge_repeated: Whether repeated classes are merged.

    Returns:
        The classes, shape [N, T, 1, 1], the type of `data`, padded with -1.

    Raises:
        InputError: The shapes do not match.

    Spec:
        CTCGreedyDecoder-1
    """
    if data.ndim != 3:
        raise InputError(f"data has shape {list(data.shape)}, expected [T, N, C]")
    check_shape("sequence_mask", sequence_mask, *data.shape[:2])
    lengths = np.cumprod(sequence_mask != 0, axis=0).sum(axis=0)
    best = _find_best_classes(data.swapaxes(0, 1))
    classes, _ = _decode(best, lengths, data.shape[2] - 1, ctc_merge_repeated)
    return classes[:, :, None, None].astype(data.dtype)


@op(
    "CTCGreedyDecoderSeqLen",
    since=6,
    scratch=1,
    kind="selection",
    shape="infer_ctc_decoder_with_lengths",
    output_types=("classes_index_type", "sequence_length_type"),
)
@compute_in_float32
def ctc_greedy_decoder_seq_len_6(
    data: Array,
    sequence_length: Array,
    blank_index: Array | None = None,
    *,
    merge_repeated: bool = True,
    classes_index_type: ElementType = ELEMENT_TYPES["i32"],
    sequence_length_type: ElementType = ELEMENT_TYPES["i32"],
) -> tuple[Array, Array]:
    """Decode the most probable class of each time step, without blanks.

    Args:
        data: Floating-point, shape [N, T, C].
        sequence_length: Integer, shape [N].
        blank_index: Integer scalar, the class of the blank; the last class if omitted.
        merge_repeated: Whether repeated classes are merged.
        classes_index_type: Type of the classes.
        sequence_length_type: Type of the lengths.

    Returns:
        The classes, shape [N, T], padded with -1; and the number of classes of each sequence, shape [N].

    Raises:
        InputError: The shapes do not match, or a length is not in [0, T].

    Spec:
        CTCGreedyDecoderSeqLen-6
    """
    if data.ndim != 3:
        raise InputError(f"data has shape {list(data.shape)}, expected [N, T, C]")
    lengths = read_lengths("sequence_length", sequence_length, data.shape[0], data.shape[1])
    blank = data.shape[2] - 1 if blank_index is None else int(to_scalar(blank_index, "blank_index"))
    classes, counts = _decode(_find_best_classes(data), lengths, blank, merge_repeated)
    return classes.astype(classes_index_type.dtype), counts.astype(sequence_length_type.dtype)


def _find_best_classes(data: Array) -> Array:
    """Return the first class with the highest value; as in C++, comparisons with NaN are false."""
    if data.size == 0:
        return np.zeros(data.shape[:-1], np.int64)
    check_scratch(STEP_BYTES * (data.size // data.shape[-1]) + data.nbytes + data.size)
    is_nan = np.isnan(data)
    if not is_nan.any():
        return data.argmax(axis=-1)  # type: ignore[no-any-return]
    best = np.argmax(np.where(is_nan, -np.inf, data), axis=-1)
    return np.where(is_nan[..., 0], 0, best)


def _decode(best: Array, lengths: Array, blank: int, merge: bool) -> tuple[Array, Array]:
    """Return the classes [N, T] without blanks, padded with -1, and their number [N]."""
    keep = (np.arange(best.shape[1]) < lengths[:, None]) & (best != blank)
    if merge:
        keep[:, 1:] &= best[:, 1:] != best[:, :-1]
    return _compact(best, keep, -1)


def _compact(values: Array, keep: Array, fill_value: int) -> tuple[Array, Array]:
    """Move the selected values of each row to its front; return the rows and the number of selected values."""
    counts = keep.sum(axis=1)
    compacted = np.full(values.shape, fill_value, np.int64)
    compacted[np.arange(values.shape[1]) < counts[:, None]] = values[keep]
    return compacted, counts


@op("CTCLoss", since=4, scratch=4, shape="infer_ctc_loss")
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
    """Compute the negative logarithm of the probability of the labels.

    Args:
        logits: Floating-point, shape [N, T, C].
        logit_length: Integer, shape [N].
        labels: Integer, shape [N, T].
        label_length: Integer, shape [N]. Only the path of blanks produces an empty sequence of labels; the reference
            implementation returns 0 for it.
        blank_index: Integer scalar, the class of the blank; the last class if omitted.
        preprocess_collapse_repeated: Whether equal neighboring labels are merged. `unique` overrides it.
        ctc_merge_repeated: Whether a label may span several time steps, so that equal neighboring labels are
            separated by a blank.
        unique: Whether only the first of equal labels is kept.

    Returns:
        The losses, shape [N], the type of `logits`; infinity if no path produces the labels.

    Raises:
        InputError: Shapes do not match, a length is not in [0, T], there are more labels than logits, or a label is
            not a class.

    Spec:
        CTCLoss-4
    """
    if logits.ndim != 3:
        raise InputError(f"logits has shape {list(logits.shape)}, expected [N, T, C]")
    batch, time, classes = logits.shape
    lengths = read_lengths("logit_length", logit_length, batch, time)
    label_lengths = read_lengths("label_length", label_length, batch, time)
    check_shape("labels", labels, batch, time)
    if (label_lengths > lengths).any():
        raise InputError(f"label_length {label_lengths.tolist()} exceeds logit_length {lengths.tolist()}")
    blank = classes - 1 if blank_index is None else int(to_scalar(blank_index, "blank_index"))
    keep = np.arange(time) < label_lengths[:, None]
    used = labels[keep]
    if not 0 <= blank < classes or (used.size and (used.min() < 0 or used.max() >= classes)):
        raise InputError(f"labels or blank_index are out of range, expected values in [0, {classes - 1}]")
    if unique:
        keep &= _is_first_occurrence(labels)
    elif preprocess_collapse_repeated:
        keep[:, 1:] &= labels[:, 1:] != labels[:, :-1]
    target, counts = _compact(labels, keep, blank)
    return -_compute_log_likelihood(_log_softmax(logits), lengths, target, counts, blank, ctc_merge_repeated)


def _is_first_occurrence(labels: Array) -> Array:
    """Return which labels do not occur earlier in their row."""
    order = np.argsort(labels, axis=1, kind="stable")
    ascending = np.take_along_axis(labels, order, axis=1)
    is_first = np.ones(labels.shape, np.bool_)
    is_first[:, 1:] = ascending[:, 1:] != ascending[:, :-1]
    result = np.empty_like(is_first)
    np.put_along_axis(result, order, is_first, axis=1)
    return result


def _log_softmax(logits: Array) -> Array:
    shifted = logits - logits.max(axis=-1, keepdims=True, initial=-np.inf)
    result: Array = shifted - np.log(np.exp(shifted).sum(axis=-1, keepdims=True))
    return result


def _compute_log_likelihood(
    log_probability: Array, lengths: Array, target: Array, counts: Array, blank: int, merge: bool
) -> Array:
    """Return the logarithm of the total probability of all paths that produce `target`.

    This is the forward algorithm over the states blank, label 0, blank, label 1, ..., blank of all sequences at once.
    `forward[n, s]` is the logarithm of the probability of state s after the time steps so far.
    """
    batch, time = target.shape
    rows = np.arange(batch)
    width = 2 * int(counts.max(initial=0)) + 1
    states = np.full((batch, width), blank)
    states[:, 1::2] = target[:, : width // 2]
    is_label = np.arange(width) % 2 == 1
    # A label may follow the previous label without a blank unless the two would be merged.
    can_skip = np.zeros(states.shape, np.bool_)
    can_skip[:, 2:] = is_label[2:] & (states[:, 2:] != states[:, :-2]) if merge else is_label[2:]
    border = np.full((batch, 2), -np.inf, log_probability.dtype)
    forward = np.full((batch, width), -np.inf, log_probability.dtype)
    forward[:, 0] = 0
    for t in within_time(range(time)):
        stay = forward if merge else np.where(is_label, -np.inf, forward)
        shifted = np.concatenate([border, forward], axis=1)
        skip = np.where(can_skip, shifted[:, :width], -np.inf)
        total = np.logaddexp(np.logaddexp(stay, shifted[:, 1 : 1 + width]), skip)
        total += np.take_along_axis(log_probability[:, t], states, axis=1)
        forward = np.where(t < lengths[:, None], total, forward)
    last_label = np.where(counts > 0, forward[rows, np.maximum(2 * counts - 1, 0)], -np.inf)
    result: Array = np.logaddexp(forward[rows, 2 * counts], last_label)
    return result.astype(log_probability.dtype)
