"""Conformance cases for CTCGreedyDecoder, CTCGreedyDecoderSeqLen and CTCLoss."""

from __future__ import annotations

from itertools import product

import numpy as np

from irrun.conformance.cases import Case, register_cases

F32 = np.float32


def make_mask(lengths, time, dtype=F32):
    return (np.arange(time)[:, None] < np.asarray(lengths)).astype(dtype)


@register_cases("CTCGreedyDecoder", since=1)
def ctc_greedy_decoder_1(rng):
    for merge, (time, batch, classes) in product((True, False), [(5, 2, 3), (12, 3, 4), (1, 1, 2), (6, 1, 8)]):
        data = rng.normal(size=(time, batch, classes)).astype(F32)
        attributes = {"ctc_merge_repeated": merge}
        yield Case([data, np.ones((time, batch), F32)], attributes)
        lengths = rng.integers(1, time + 1, batch)
        yield Case([data, make_mask(lengths, time)], attributes, dynamic=[0, 1], note="sequences of different lengths")
        ties = rng.integers(0, 2, data.shape).astype(F32)
        yield Case([ties, make_mask(lengths, time)], attributes, note="first of equal scores")
    data = rng.normal(size=(5, 2, 4)).astype(np.float16)
    yield Case([data, make_mask([5, 3], 5, np.float16)], {"ctc_merge_repeated": True})
    yield Case(
        [rng.normal(size=(4, 1, 3)).astype(F32), make_mask([0], 4)], {"ctc_merge_repeated": True}, note="empty sequence"
    )


@register_cases("CTCGreedyDecoderSeqLen", since=6)
def ctc_greedy_decoder_seq_len_6(rng):
    for merge, classes_type, lengths_type in product((True, False), ("i32", "i64"), ("i32", "i64")):
        attributes = {
            "merge_repeated": merge,
            "classes_index_type": classes_type,
            "sequence_length_type": lengths_type,
        }
        for (batch, time, classes), blank in [((2, 5, 3), None), ((3, 9, 3), 0), ((1, 8, 4), 2)]:
            dtype = np.int64 if lengths_type == "i64" else np.int32
            data = rng.normal(size=(batch, time, classes)).astype(F32)
            lengths = rng.integers(1, time + 1, batch).astype(dtype)
            blank_input = None if blank is None else np.array(blank, dtype)
            yield Case([data, lengths, blank_input], attributes)
    attributes = {"merge_repeated": True, "classes_index_type": "i32", "sequence_length_type": "i32"}
    data = rng.normal(size=(2, 6, 4)).astype(np.float16)
    yield Case([data, np.array([6, 2], np.int32)], attributes)
    ties = rng.integers(0, 2, (3, 7, 4)).astype(F32)
    yield Case([ties, np.array([7, 7, 4], np.int32)], attributes, note="first of equal scores")
    yield Case([data.astype(F32), np.array([0, 3], np.int32)], attributes, note="empty sequence")
    yield Case([data.astype(F32), np.array([4, 3], np.int32)], attributes, dynamic=[0, 1])


@register_cases("CTCLoss", since=4)
def ctc_loss_4(rng):
    for collapse, merge, unique in product((False, True), repeat=3):
        attributes = {
            "preprocess_collapse_repeated": collapse,
            "ctc_merge_repeated": merge,
            "unique": unique,
        }
        for dtype, (batch, time, classes), blank in [
            (np.int32, (2, 5, 4), None),
            (np.int64, (3, 7, 3), 0),
            (np.int32, (1, 4, 5), 2),
            (np.int64, (2, 1, 3), None),
        ]:
            own = np.array([c for c in range(classes) if c != (classes - 1 if blank is None else blank)])
            labels = rng.choice(own, (batch, time)).astype(dtype)
            label_length = rng.integers(1, time // 2 + 2, batch).clip(max=time).astype(dtype)
            logit_length = rng.integers(label_length, time + 1).astype(dtype)
            logits = rng.normal(size=(batch, time, classes)).astype(F32)
            blank_input = None if blank is None else np.array(blank, dtype)
            yield Case([logits, logit_length, labels, label_length, blank_input], attributes, tolerance=(1e-5, 1e-5))
    attributes = {"preprocess_collapse_repeated": False, "ctc_merge_repeated": True, "unique": False}
    labels, lengths = np.zeros((1, 4), np.int32), np.array([4], np.int32)
    logits = rng.normal(size=(1, 4, 3)).astype(F32)
    yield Case([logits, lengths, labels, np.array([3], np.int32)], attributes, note="no valid path, infinite loss")
    yield Case([logits, lengths, labels, np.array([2], np.int32)], attributes, tolerance=(1e-5, 1e-5))
    yield Case(
        [logits.astype(np.float16), lengths, labels, np.array([2], np.int32)], attributes, tolerance=(4e-3, 1e-3)
    )
    yield Case([logits, lengths, labels, np.array([1], np.int32)], attributes, dynamic=range(4), tolerance=(1e-5, 1e-5))
