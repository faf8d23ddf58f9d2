"""Shapes that follow from partial shapes: what is known of the outputs, if not all is known of the inputs."""

from __future__ import annotations

import dataclasses
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np
import pytest

from irrun.errors import InputError
from irrun.ops._support.operation import Operation
from irrun.ops._support.registry import list_operations
from irrun.ops.shape_rules import Inputs, UnknownShapeError, Value, find_rule
from irrun.shapes import PartialShape

OPERATIONS = {str(operation): operation for operation in list_operations()}


class Bounds(NamedTuple):
    """A list of integers that are known to be within bounds."""

    low: list[float]
    high: list[float]


#: An input that is not connected.
ABSENT = object()

INFINITY = float("inf")


def i64(*values: int) -> np.ndarray[Any, Any]:
    return np.array(values, np.int64)


def one(value: int) -> np.ndarray[Any, Any]:
    return np.array(value)


def f32(*values: float) -> np.ndarray[Any, Any]:
    return np.array(values, np.float32)


PROPOSALS = {"min_size": "1", "nms_threshold": "0.5", "pre_nms_count": "9", "post_nms_count": "5"}
SUPPRESSION = [(2, 8, 4), (2, 3, 8)]
LIMITS = {"keep_top_k": "-1", "nms_top_k": "-1", "background_class": "-1"}
DETECTION = {
    "background_label_id": "0",
    "nms_threshold": "0.5",
    "keep_top_k": "-1",
    "share_location": "true",
    "normalized": "true",
}
CLUSTERED = {"width": "1,2,3", "height": "1,2,3", "offset": "0.5"}
#: Attributes of ROIPooling, and the size of its result.
POOLED_SIZES: list[tuple[dict[str, str], str]] = [
    ({"pooled_h": "2", "pooled_w": "4"}, "2,4"),
    ({"output_size": "3,5"}, "3,5"),
    ({"output_roi": "3,5"}, "3,5"),
    ({"output_roi": "3,5", "output_size": "6,7"}, "3,5"),
    ({"output_size": "3,5", "pooled_h": "2"}, "3,5"),
    ({"output_size": "3,5", "pooled_w": "2"}, "3,5"),
    ({"output_size": "3,5", "pooled_h": "2", "pooled_w": "4"}, "2,4"),
    ({"output_roi": "3", "pooled_h": "2", "pooled_w": "4"}, "2,4"),
]
#: Attributes of PriorBox, and the number of boxes of a cell.
PRIOR_BOXES: list[tuple[dict[str, str], int]] = [
    ({"min_size": "8,9"}, 2),
    ({"min_size": "8,9", "max_size": "20"}, 3),
    ({"min_size": "8,9", "aspect_ratio": "2,3"}, 6),
    ({"min_size": "8,9", "aspect_ratio": "2,3", "flip": "true"}, 10),
    ({"min_size": "8,9", "aspect_ratio": "1,2,2,0.5", "flip": "true"}, 6),
    ({"min_size": "8,9", "aspect_ratio": "2,2.0000001", "flip": "false"}, 4),
    ({"min_size": "8,9", "aspect_ratio": "2,2.00001", "flip": "false"}, 6),
    ({"min_size": "8,9", "max_size": "20", "aspect_ratio": "2,3", "scale_all_sizes": "false"}, 4),
    ({"fixed_size": "8,9", "density": "1,1", "aspect_ratio": "2"}, 4),
    ({"fixed_size": "8,9", "density": "2,3", "aspect_ratio": "2"}, 4 + 2 * 3 + 2 * 8),
    ({"fixed_size": "8,9", "density": "2,3", "fixed_ratio": "1,2,3"}, 2 + 3 * 3 + 3 * 8),
    ({"fixed_size": "8", "density": "2", "min_size": "8,9,10", "scale_all_sizes": "false"}, 4),
]
SEQUENCE = {"hidden_size": "4", "direction": "forward"}
SCALES = {
    "mode": "nearest",
    "shape_calculation_mode": "scales",
    "pads_begin": "0",
    "pads_end": "0",
}
SIZES = {**SCALES, "shape_calculation_mode": "sizes"}
GROUPED = {
    "num_heads": "4",
    "kv_num_heads": "2",
    "scale": "1",
    "do_rotary": "false",
    "rotary_interleaved": "false",
}
PATCHES = {"sizes": "2,3", "strides": "2,1", "rates": "1,2"}
WINDOWS = {"strides": "2,2", "pads_begin": "0,0", "pads_end": "0,0", "dilations": "1,1"}
POOLING = {"kernel": "3,3", "strides": "2,2", "pads_begin": "1,1", "pads_end": "1,1", "dilations": "1,1"}
#: Where the three rows of a ragged tensor begin and end, and their elements.
ROWS: list[str | None] = ["[3]", "[3]", "[?]"]

#: Operation, inputs, attributes, expected shapes. An input is a partial shape, None for an unknown rank, a value, the
#: bounds of a value, or ABSENT.
CASES: list[tuple[str, list[Any], dict[str, str], list[str | None]]] = [
    # Operations on strings and ragged tensors
    ("CaseFold-extension", [(2, 3), (2, 3), (-1,)], {}, ["[2,3]", "[2,3]", "[?]"]),
    ("CaseFold-extension", [(2, 3), (2, 3), (-1,), (5,)], {}, ["[2,3]", "[2,3]", "[?]", "[5]"]),
    ("CaseFold-extension", [None, None, (9,)], {}, [None, None, "[?]"]),
    ("RegexSplit-extension", [(2,), (2,), (5,), (5,), (9,), (4,)], {}, ["[2]", "[2]", "[?]", "[?]", "[?]"]),
    ("RegexSplit-extension", [None] * 6, {}, [None, None, "[?]", "[?]", "[?]", "[?]"]),
    ("CombineSegments-extension", [(), (), (4,), (3,), (3,), (8,), (2,)], {}, ROWS * 2),
    ("CombineSegments-extension", [(3,), (3,), (8,), (), (), (4,), (2,)], {}, ROWS * 2),
    ("CombineSegments-extension", [(3,), (3,), (8,), None, (3,), (4,), (2,)], {}, [None, None, "[?]"] * 2),
    ("CombineSegments-extension", [(), (), (4,), (1,)], {}, ["[]", "[]", "[?]"] * 2),
    ("RaggedToDense-extension", [(2, 3), (2, 3), (9, 4), i64(7), ()], {}, ["[2,3,7,4]"] * 2),
    ("RaggedToDense-extension", [(2,), (2,), (-1,), (), ()], {}, ["[2,?]"] * 2),
    ("RaggedToDense-extension", [(2,), (2,), None, i64(7), ()], {}, [None, None]),
    ("RaggedToDense-extension", [None, None, (9,), i64(7), ()], {}, [None, None]),
    ("RaggedToSparse-extension", [(3,), (3,)], {}, ["[?,2]"]),
    ("RaggedToRagged-extension", [(7,), i64(4)], {}, ["[4]", "[4]"]),
    ("RaggedToRagged-extension", [(7,), (1,)], {}, ["[?]", "[?]"]),
    ("VocabDecoder-extension", [(2, 5), (9,), (9,), (30,)], {}, ["[2]", "[2]", "[?]", "[?]", "[?]"]),
    ("VocabDecoder-extension", [None, (9,), (9,), (30,)], {}, ["[?]", "[?]", "[?]", "[?]", "[?]"]),
    ("WordpieceTokenizer-extension", [(3,), (3,)], {}, ROWS),
    ("WordpieceTokenizer-extension", [None, None], {}, [None, None, "[?]"]),
    ("SentencepieceTokenizer-extension", [(90,), (3,)], {}, ["[?,2]", "[?]", "[2]"]),
    ("SentencepieceDetokenizer-extension", [(90,), (3, 7)], {}, ROWS),
    ("SentencepieceDetokenizer-extension", [(90,), None], {}, ["[?]", "[?]", "[?]"]),
    ("VocabEncoder-extension", [(7,)], {}, ["[7]"]),
    ("VocabEncoder-extension", [(7, 2)], {}, ["[?]"]),
    ("VocabEncoder-extension", [None], {}, ["[?]"]),
    ("StringTensorUnpack-extension", [(7,)], {}, [None, None, "[?]"]),
    ("EqualStr-extension", [(7,), (7,), (9,), (5,), (5,), (9,)], {}, ["[?]"]),
    ("ContribStringJoin-extension", [(2, 3, 4), (2, 3, 4), (9,), (1,), i64(1)], {}, ["[2,4]", "[2,4]", "[?]"]),
    ("ContribStringJoin-extension", [(2, 3, 4), (2, 3, 4), (9,), (1,), i64(-1)], {}, ["[2,3]", "[2,3]", "[?]"]),
    ("ContribStringJoin-extension", [(2, 3, 4), (2, 3, 4), (9,), (1,), i64(-3)], {}, ["[3,4]", "[3,4]", "[?]"]),
    ("ContribStringJoin-extension", [(2, 3, 4), (2, 3, 4), (9,), (1,), i64(3)], {}, ["[?,?]", "[?,?]", "[?]"]),
    ("ContribStringJoin-extension", [(2, 3, 4), (2, 3, 4), (9,), (1,), (1,)], {}, ["[?,?]", "[?,?]", "[?]"]),
    ("ContribStringJoin-extension", [(2, 3), (2, 3), (9,), (1,), i64(0, 1)], {}, ["[?]", "[?]", "[?]"]),
    ("ContribStringJoin-extension", [(), (), (9,), (1,), (1,)], {}, ["[]", "[]", "[?]"]),
    ("ContribStringJoin-extension", [None, None, (9,), (1,), i64(1)], {}, [None, None, "[?]"]),
    ("ContribStringSplit-extension", [(2, 3), (2, 3), (9,)], {}, ["[?,3]", "[?]", "[?]", "[?]", "[3]"]),
    ("ContribStringSplit-extension", [None, None, (9,)], {}, ["[?,?]", "[?]", "[?]", "[?]", "[?]"]),
    ("StringTensorUnpack-15", [(2, 3)], {}, ["[2,3]", "[2,3]", "[?]"]),
    # Products and attention
    ("MatMul-1", [(3,), (2, 3, 4)], {}, ["[2,4]"]),
    ("MatMul-1", [(2, 5, 3), (3,)], {}, ["[2,5]"]),
    ("MatMul-1", [(3,), (3,)], {}, ["[]"]),
    ("MatMul-1", [("1..2", 5, 3), (2, 3, -1)], {}, ["[2,5,?]"]),
    ("MatMul-1", [("1..2", 5, 3), ("1..4", 3, -1)], {}, ["[1..4,5,?]"]),
    ("FullyConnected-ie_internal_opset", [(2, -1, 3), (5, 3)], {}, ["[2,?,5]"]),
    ("FullyConnected-ie_internal_opset", [(3,), (5, 3)], {}, ["[5]"]),
    ("FullyConnected-ie_internal_opset", [(), (5, 3)], {}, [None]),
    ("FullyConnected-ie_internal_opset", [(2, 3), (3,)], {}, [None]),
    ("Einsum-7", [(2, "3..4"), (-1, 5)], {"equation": "ij,jk->ik"}, ["[2,5]"]),
    ("Einsum-7", [(2, 3), (3, 5)], {"equation": "ij, jk"}, ["[2,5]"]),
    ("Einsum-7", [(7, 2, 3), (3, 5)], {"equation": "...ba,ac"}, ["[7,2,5]"]),
    ("Einsum-7", [None, (3, 5)], {"equation": "ij,jk->ik"}, ["[?,?]"]),
    ("Einsum-7", [None, (3, 5)], {"equation": "...ij,jk->...ik"}, [None]),
    ("Einsum-7", [None, (3, 5)], {"equation": "ij,jk"}, [None]),
    ("ScaledDotProductAttention-13", [(5, 3, 4), (5, 7, 4), (5, 7, 6)], {"causal": "false"}, ["[5,3,6]"]),
    ("ScaledDotProductAttention-13", [(1, 3, 4), (5, 7, 4), (-1, 7, 6)], {"causal": "false"}, ["[5,3,6]"]),
    ("ScaledDotProductAttention-13", [(5, 3, 4), None, (5, 7, 6)], {"causal": "false"}, ["[5,3,6]"]),
    ("ScaledDotProductAttention-13", [(5, 3, 4), (5, 7, 4), None], {"causal": "false"}, ["[5,3,?]"]),
    ("RoPE-ie_internal_opset", [(2, 5, 8), (5, 4)], {}, ["[?,?,?]"]),
    ("RoPE-ie_internal_opset", [(2, 5, 24), (5, 4)], {"is_qwen": "true"}, ["[?,?,?,?]"]),
    ("RoPE-ie_internal_opset", [(2, 5, 24), (5, 4)], {"is_chatglm": "true"}, ["[?,?,?,?]"]),
    ("RoPE-ie_internal_opset", [None, (5, 4)], {}, [None]),
    ("GLU-ie_internal_opset", [(2, 8, 3)], {"axis": "1", "split_lengths": "4"}, ["[2,4,3]"]),
    ("GLU-ie_internal_opset", [(2, -1, 8)], {"axis": "-1", "split_lengths": "4"}, ["[2,?,4]"]),
    ("GroupedMatMul-17", [(9, 4), (3, 6, 4), (3,)], {}, ["[9,6]"]),
    ("GroupedMatMul-17", [(3, 9, 4), (3, 6, 4)], {}, ["[3,9,6]"]),
    ("GroupedMatMul-17", [(4, 9), (9, 6), (3,)], {}, ["[3,9,6]"]),
    ("RNNCell-1", [("2..3", 3), (-1, 4), (4, 3), (4, 4), (4,)], {"hidden_size": "4"}, ["[2..3,4]"]),
    ("RNNCell-1", [(-1, 3), (2, -1), None, None, None], {"hidden_size": "4"}, ["[2,?]"]),
    ("RNNCell-1", [None, (2, "3..5"), None, None, None], {"hidden_size": "4"}, ["[2,3..5]"]),
    ("RNNCell-1", [None, (2, -1), (4, 3), None, None], {"hidden_size": "4"}, ["[2,4]"]),
    ("RNNCell-1", [None, (2, -1), None, (4, 4), None], {"hidden_size": "4"}, ["[2,4]"]),
    ("LSTMCell-4", [None, (2, -1), (-1, "3..4"), None, None], {"hidden_size": "4"}, ["[2,4]", "[2,4]"]),
    ("LSTMSequence-5", [None, (2, 1, -1), None, None, None, None, None], SEQUENCE, ["[2,1,?,?]", *["[2,1,?]"] * 2]),
    (
        "LSTMSequence-5",
        [(2, 7, 3), None, None, None, None, (1, 16, 4), None],
        SEQUENCE,
        ["[2,1,7,4]", *["[2,1,4]"] * 2],
    ),
    (
        "GRUSequence-5",
        [(2, -1, 3), None, None, (2, 12, 3), None, None],
        {**SEQUENCE, "direction": "bidirectional"},
        ["[2,2,?,4]", "[2,2,4]"],
    ),
    (
        "AUGRUSequence-ie_internal_opset",
        [(2, 7, 3), (2, 1, 4), (2,), (1, 12, 3), (1, 12, 4), (1, 12), (2, 7, 1)],
        {"hidden_size": "4"},
        ["[2,1,7,4]", "[2,1,4]"],
    ),
    ("CTCGreedyDecoder-1", [None, (7, 2)], {}, ["[2,7,1,1]"]),
    ("CTCGreedyDecoder-1", [(7, 2, 5), None], {}, ["[2,7,1,1]"]),
    ("CTCGreedyDecoderSeqLen-6", [None, (2,)], {}, ["[2,?]", "[2]"]),
    ("CTCGreedyDecoderSeqLen-6", [(-1, 7, 5), (2,)], {}, ["[2,7]", "[2]"]),
    ("CTCLoss-4", [None, (-1,), (2, 5), None], {}, ["[2]"]),
    (
        "GroupQueryAttention-extension",
        [(2, 4, 3, 8), (2, 2, 3, 8), (2, 2, 3, 8), (2, 2, 9, 8), (2, 2, 9, 8)],
        GROUPED,
        ["[2,3,32]", *["[2,2,9,8]"] * 2],
    ),
    (
        "GroupQueryAttention-extension",
        [(2, 4, -1, 8), (2, 2, -1, 8), (2, 2, -1, 8), (2, 2, 9, 8), (2, 2, 9, 8)],
        GROUPED,
        ["[2,?,32]", *["[2,2,?,8]"] * 2],
    ),
    (
        "GroupQueryAttention-extension",
        [(2, 4, 3, 8), (2, 2, 3, 8), (2, 2, 3, 8), (-1, 2, 9, 8), (2, 2, 9, 8)],
        GROUPED,
        ["[2,3,32]", *["[?,2,?,8]"] * 2],
    ),
    ("GroupQueryAttention-extension", [None, None, None, (2, 2, 9, 8), None], GROUPED, [None, *["[2,2,?,8]"] * 2]),
    (
        "GroupQueryAttention-extension",
        [None, None, None, (-1, 2, 9, 8), None],
        {**GROUPED, "sliding_window_cache": "true"},
        [None, *["[?,2,9,8]"] * 2],
    ),
    (
        "GroupQueryAttention-extension",
        [(2, 4, 3, 8), (2, 2, 3, 8), None, None, None],
        GROUPED,
        ["[2,3,32]", None, None],
    ),
    ("GatherMatmul-extension", [(1, 5, 8), (4, 6, 8), (5, 2)], {}, ["[2,5,6]"]),
    ("GatherMatmul-extension", [(1, 5, 8), None, None], {}, ["[?,?,?]"]),
    ("VLSDPA-ie_internal_opset", [(7, 2, 8), (7, 2, 8), (7, 2, 6), (3,)], {}, ["[7,2,6]"]),
    (
        "VLSDPA-ie_internal_opset",
        [(7, 2, 8), (7, 2, 8), (7, 2, 6), (3,)],
        {f"order_{name}": "1,0,2" for name in ("q", "k", "v", "out")},
        ["[7,2,6]"],
    ),
    (
        "VLSDPA-ie_internal_opset",
        [(7, 2, 8), (7, 2, 8), (6, 7, 2), (3,)],
        {"order_q": "1,0,2", "order_v": "2,1,0"},
        ["[2,7,6]"],
    ),
    ("VLSDPA-ie_internal_opset", [(7, 2, 8), (7, 2, 8), None, (3,)], {}, ["[?,?,?]"]),
    ("VLSDPA-ie_internal_opset", [None, (7, 2, 8), (7, 2, 8), (3,)], {}, [None]),
    ("PagedAttentionExtension-extension", [(7, 32), (7, 16), (7, 8)], {}, ["[7,16]", "[?]", "[?]"]),
    ("PagedAttentionExtension-extension", [(7, 32), (7, -1), (7, 8)], {}, ["[7,?]", "[?]", "[?]"]),
    ("PagedAttentionExtension-extension", [(7, -1), (7, 16), (7, 8)], {}, ["[7,?]", "[?]", "[?]"]),
    ("PagedAttentionExtension-extension", [(7, 32), (7, 16), (7, -1)], {}, ["[7,?]", "[?]", "[?]"]),
    ("PagedAttentionExtension-extension", [(7, 32), (7, 0), (7, 0)], {}, ["[7,?]", "[?]", "[?]"]),
    ("PagedAttentionExtension-extension", [None, (7, 16), (7, 8)], {}, ["[?,?]", "[?]", "[?]"]),
    # Selections
    ("ReduceSum-1", [(2, 3, 4), (1,)], {"keep_dims": "false"}, ["[?,?]"]),
    ("ReduceSum-1", [(2, 3, 4), (1,)], {"keep_dims": "true"}, ["[?,?,?]"]),
    ("ReduceSum-1", [(2, 3, 4), (2,)], {"keep_dims": "false"}, [None]),
    ("ReduceSum-1", [(), (1,)], {"keep_dims": "false"}, [None]),
    ("ReduceSum-1", [(2, 3, 4), i64(-1, 2)], {"keep_dims": "false"}, ["[2,3]"]),
    ("ReduceSum-1", [(), i64(0)], {"keep_dims": "false"}, ["[]"]),
    ("Gather-8", [(2, 3, 4), (2, 5), i64(1)], {"batch_dims": "1"}, ["[2,5,4]"]),
    ("Gather-8", [(2, 3, 4), (-1, 5), i64(-1)], {"batch_dims": "-1"}, ["[2,3,5]"]),
    ("Gather-8", [("2..4", 3), ("3..5", 5), (1,)], {"batch_dims": "1"}, ["[3..4,?]"]),
    ("Gather-8", [(2, 3), (5,), (1,)], {}, ["[?,?]"]),
    ("GatherElements-6", [(2, 3), None], {"axis": "1"}, ["[2,?]"]),
    ("GatherElements-6", [None, (2, 3)], {"axis": "1"}, ["[2,3]"]),
    ("GatherElements-6", [None, None], {"axis": "1"}, [None]),
    ("GatherElements-6", [(2, -1, 4), ("1..3", 5, -1)], {"axis": "1"}, ["[2,5,4]"]),
    ("GatherND-8", [(2, 3, 4), (2, 5, 1)], {"batch_dims": "1"}, ["[2,5,4]"]),
    ("GatherND-8", [(2, 3, 4), (2, 3, 1)], {"batch_dims": "2"}, ["[2,3]"]),
    ("GatherND-5", [(2, 3, 4), (2, 3, 1)], {"batch_dims": "2"}, ["[6]"]),
    ("GatherND-5", [(2, 3, 4), (2, 5, 1)], {"batch_dims": "1"}, ["[2,5,4]"]),
    ("GatherND-8", [(2, 3, 4), (5, -1)], {}, [None]),
    ("GatherND-8", [(2, 3, 4), (5, 3)], {}, ["[5]"]),
    ("Broadcast-3", [(3, 1), i64(2, 1, 4)], {"mode": "bidirectional"}, ["[2,3,4]"]),
    ("Broadcast-3", [(3, 4), (3,)], {"mode": "bidirectional"}, ["[?,3,4]"]),
    ("Broadcast-3", [(3, 1), (2,)], {"mode": "bidirectional"}, ["[3,?]"]),
    ("Broadcast-3", [(3, 1), (-1,)], {"mode": "bidirectional"}, [None]),
    ("Broadcast-3", [None, (3,)], {"mode": "bidirectional"}, [None]),
    ("Broadcast-3", [None, i64(2, 3)], {"mode": "bidirectional"}, [None]),
    ("Broadcast-3", [None, i64(2, 3)], {"mode": "numpy"}, ["[2,3]"]),
    ("Broadcast-3", [(3,), (3,)], {"mode": "numpy"}, ["[?,?,?]"]),
    ("Broadcast-3", [(3,), (-1,)], {"mode": "numpy"}, [None]),
    ("Broadcast-3", [(3,), Bounds([2, 3], [5, 3])], {"mode": "numpy"}, ["[2..5,3]"]),
    ("Broadcast-3", [(), i64(2, 3), i64(0)], {"mode": "explicit"}, ["[2,3]"]),
    ("Broadcast-3", [(3,), i64(2, 3), i64(-1)], {"mode": "explicit"}, ["[2,3]"]),
    ("Broadcast-1", [(3,), i64(2, 3), i64(1)], {"mode": "none"}, ["[2,3]"]),
    *(
        ("Broadcast-1", [data, i64(2, 3, 4)], {"mode": "pdpd", "axis": axis}, ["[2,3,4]"])
        for data, axis in [((3, 4), "1"), ((3,), "1"), ((2, 3), "0"), ((3, 4), "-1"), ((1,), "0"), ((4, 1), "2")]
    ),
    ("Broadcast-1", [(5,), i64(2, 1, 4)], {"mode": "pdpd", "axis": "1"}, ["[2,5,4]"]),
    ("Broadcast-1", [None, i64(2, 3, 4)], {"mode": "pdpd", "axis": "1"}, ["[?,?,?]"]),
    ("TopK-11", [(2, "3..9"), i64(3)], {"axis": "1", "mode": "max", "sort": "none"}, ["[2,3]"] * 2),
    ("TopK-11", [(2, "3..9"), ()], {"axis": "1", "mode": "max", "sort": "none"}, ["[2,..9]"] * 2),
    ("TopK-11", [(2, "3..9"), Bounds([4], [20])], {"axis": "1", "mode": "max", "sort": "none"}, ["[2,3..9]"] * 2),
    ("TopK-11", [(2, -1), Bounds([4], [20])], {"axis": "1", "mode": "max", "sort": "none"}, ["[2,..20]"] * 2),
    ("TopK-11", [(2, "6..9"), Bounds([4], [INFINITY])], {"axis": "1", "mode": "max", "sort": "none"}, ["[2,4..9]"] * 2),
    ("SegmentMax-16", [(5, 4), i64(0, 0, 1, 3, 3)], {"fill_mode": "ZERO"}, ["[4,4]"]),
    ("SegmentMax-16", [(0, 4), i64()], {"fill_mode": "ZERO"}, ["[0,4]"]),
    ("SegmentMax-16", [(5, 4), i64(0, 0, 1, 3, 3), i64(7)], {"fill_mode": "ZERO"}, ["[7,4]"]),
    ("SegmentMax-16", [(5, 4), i64(0, 0, 1, 3, 3), ()], {"fill_mode": "ZERO"}, ["[?,4]"]),
    ("SegmentMax-16", [(5, 4), (5,)], {"fill_mode": "ZERO"}, ["[?,4]"]),
    ("SegmentMax-16", [None, i64(0, 1)], {"fill_mode": "ZERO"}, [None]),
    ("SearchSorted-15", [None, (2, 3)], {}, ["[2,3]"]),
    ("SearchSorted-15", [(9,), (2, 3)], {}, ["[2,3]"]),
    ("SearchSorted-15", [(2, 9), (-1, 3)], {}, ["[2,3]"]),
    ("SearchSorted-15", [(2, 9), None], {}, [None]),
    ("ReverseSequence-1", [("1..3", 5), (2,)], {"batch_axis": "0", "seq_axis": "1"}, ["[2,5]"]),
    ("ReverseSequence-1", [("1..3", 5), None], {"batch_axis": "0", "seq_axis": "1"}, ["[1..3,5]"]),
    ("ReverseSequence-1", [(5, -1), (2,)], {"batch_axis": "1", "seq_axis": "0"}, ["[5,2]"]),
    ("GatherTree-1", [(4, -1, 3), (4, 2, -1), None, ()], {}, ["[4,2,3]"]),
    ("GatherTree-1", [(4, -1, 3), None, (2,), ()], {}, ["[4,2,3]"]),
    ("GatherTree-1", [None, (4, -1, 3), (2,), ()], {}, ["[4,2,3]"]),
    ("GatherTree-1", [None, None, (2,), ()], {}, [None]),
    ("ScatterNDUpdate-4", [(2, 3), (1, 2), (1,)], {}, ["[2,3]"]),
    ("ScatterNDUpdate-4", [(2, 3), (2,), (1,)], {}, ["[2,3]"]),
    ("ScatterNDUpdate-4", [(2, 3), (5, -1), (9, 9)], {}, ["[2,3]"]),
    # Detection
    ("NonMaxSuppression-5", [*SUPPRESSION, i64(5)], {}, ["[..30,3]", "[..30,3]", "[1]"]),
    ("NonMaxSuppression-5", [*SUPPRESSION, i64(20)], {}, ["[..48,3]", "[..48,3]", "[1]"]),
    ("NonMaxSuppression-5", SUPPRESSION, {}, ["[0,3]", "[0,3]", "[1]"]),
    ("NonMaxSuppression-5", [*SUPPRESSION, ()], {}, ["[?,3]", "[?,3]", "[1]"]),
    ("NonMaxSuppression-5", [("1..2", "..8", 4), ("1..2", 3, 8), i64(5)], {}, ["[..30,3]", "[..30,3]", "[1]"]),
    ("NonMaxSuppression-5", [(2, -1, 4), (2, 3, 8), i64(5)], {}, ["[?,3]", "[?,3]", "[1]"]),
    ("NonMaxSuppression-5", [None, (2, 3, 8), i64(5)], {}, ["[?,3]", "[?,3]", "[1]"]),
    ("NonMaxSuppression-4", [*SUPPRESSION, i64(5)], {}, ["[30,3]"]),
    ("NonMaxSuppression-4", [("1..2", 8, 4), ("1..2", 3, 8), i64(5)], {}, ["[?,3]"]),
    ("NonMaxSuppression-3", [*SUPPRESSION, i64(5)], {}, ["[15,3]"]),
    ("NonMaxSuppression-3", [(-1, 8, 4), (-1, 3, 8), i64(5)], {}, ["[15,3]"]),
    ("NonMaxSuppression-3", [(-1, 8, 4), (-1, 3, 8), ()], {}, ["[?,3]"]),
    ("NMSRotated-13", [(2, 8, 5), (2, 3, 8), i64(5), (), ()], {}, ["[..30,3]", "[..30,3]", "[1]"]),
    (
        "NonMaxSuppressionIEInternal-ie_internal_opset",
        [(2, 8, 5), (2, 3, 8), i64(5)],
        {"rotation": "1"},
        ["[..30,3]", "[..30,3]", "[1]"],
    ),
    ("MulticlassNms-9", SUPPRESSION, LIMITS, ["[..48,6]", "[..48,1]", "[2]"]),
    ("MulticlassNms-9", SUPPRESSION, {**LIMITS, "background_class": "0"}, ["[..32,6]", "[..32,1]", "[2]"]),
    ("MulticlassNms-9", SUPPRESSION, {**LIMITS, "background_class": "3"}, ["[..48,6]", "[..48,1]", "[2]"]),
    ("MulticlassNms-9", SUPPRESSION, {**LIMITS, "nms_top_k": "2"}, ["[..12,6]", "[..12,1]", "[2]"]),
    ("MulticlassNms-9", SUPPRESSION, {**LIMITS, "nms_top_k": "0"}, ["[0,6]", "[0,1]", "[2]"]),
    ("MulticlassNms-9", SUPPRESSION, {**LIMITS, "nms_top_k": "9"}, ["[..48,6]", "[..48,1]", "[2]"]),
    ("MulticlassNms-9", SUPPRESSION, {**LIMITS, "keep_top_k": "5"}, ["[..10,6]", "[..10,1]", "[2]"]),
    ("MulticlassNms-9", SUPPRESSION, {**LIMITS, "keep_top_k": "0"}, ["[0,6]", "[0,1]", "[2]"]),
    ("MulticlassNms-9", [(-1, 8, 4), ("..3", 3, 8)], LIMITS, ["[..72,6]", "[..72,1]", "[..3]"]),
    ("MulticlassNms-9", [(2, 8, 4), (-1, 3, 8)], LIMITS, ["[?,6]", "[?,1]", "[2]"]),
    ("MulticlassNms-9", [(2, -1, 4), (2, 3, 8)], LIMITS, ["[?,6]", "[?,1]", "[2]"]),
    ("MulticlassNms-9", [(2, 8, 4), (2, -1, 8)], LIMITS, ["[?,6]", "[?,1]", "[2]"]),
    ("MulticlassNms-9", [None, (2, 3, 8)], LIMITS, ["[?,6]", "[?,1]", "[2]"]),
    ("MulticlassNms-9", [(2, 8, 4), None], LIMITS, ["[?,6]", "[?,1]", "[2]"]),
    ("MulticlassNms-9", [None, None], LIMITS, ["[?,6]", "[?,1]", "[?]"]),
    ("MulticlassNms-9", [(3, 8, 4), (3, 8), (2,)], LIMITS, ["[..48,6]", "[..48,1]", "[2]"]),
    ("MulticlassNms-9", [(3, 8, 4), None, (2,)], LIMITS, ["[?,6]", "[?,1]", "[2]"]),
    ("DetectionOutput-8", [(2, 40), (2, 30), (1, 2, 40)], {**DETECTION, "keep_top_k": "7"}, ["[1,1,14,7]"]),
    ("DetectionOutput-8", [(2, 40), (2, 30), (1, 2, 40)], {**DETECTION, "top_k": "5"}, ["[1,1,30,7]"]),
    ("DetectionOutput-8", [(2, 40), (2, 30), (1, 2, 40)], {**DETECTION, "top_k": "0"}, ["[1,1,60,7]"]),
    ("DetectionOutput-8", [(2, 40), (2, 30), (1, 2, 40)], DETECTION, ["[1,1,60,7]"]),
    ("DetectionOutput-8", [(2, 40), (2, 30), (1, 2, 50)], {**DETECTION, "normalized": "false"}, ["[1,1,60,7]"]),
    ("DetectionOutput-8", [(2, 120), (2, 30), (1, 2, 40)], {**DETECTION, "share_location": "false"}, ["[1,1,60,7]"]),
    ("DetectionOutput-8", [(-1, 40), (2, 30), (1, 2, 40)], DETECTION, ["[1,1,?,7]"]),
    ("DetectionOutput-8", [(2, 40), (2, -1), (1, 2, 40)], DETECTION, ["[1,1,?,7]"]),
    ("DetectionOutput-8", [(2, 40), None, (1, 2, 40)], {**DETECTION, "top_k": "5"}, ["[1,1,?,7]"]),
    ("DetectionOutput-8", [(2, 40), (2, 30), (1, 2, -1)], DETECTION, ["[1,1,?,7]"]),
    ("DetectionOutput-8", [("..2", 40), None, None], {**DETECTION, "keep_top_k": "7"}, ["[1,1,..14,7]"]),
    ("DetectionOutput-8", [None, None, None], {**DETECTION, "keep_top_k": "7"}, ["[1,1,?,7]"]),
    ("DetectionOutput-1", [(2, 40), None, (1, 2, 40)], {**DETECTION, "num_classes": "3"}, ["[1,1,60,7]"]),
    ("GenerateProposalsIEInternal-ie_internal_opset", [(2, 3), None, None, None], PROPOSALS, ["[10,4]", "[10]", "[2]"]),
    (
        "GenerateProposalsIEInternal-ie_internal_opset",
        [("..3", 3), None, None, None],
        PROPOSALS,
        ["[..15,4]", "[..15]", "[..3]"],
    ),
    (
        "GenerateProposals-9",
        [None, None, (2, 12, 4, 4), None],
        {**PROPOSALS, "normalized": "true"},
        ["[..10,4]", "[..10]", "[2]"],
    ),
    (
        "GenerateProposals-9",
        [None, None, None, ("..2", 3, 4, 4)],
        {**PROPOSALS, "normalized": "true"},
        ["[..10,4]", "[..10]", "[..2]"],
    ),
    ("GenerateProposals-9", [None, None, None, None], {**PROPOSALS, "normalized": "true"}, ["[?,4]", "[?]", "[?]"]),
    ("ExperimentalDetectronPriorGridGenerator-6", [(3, 4), (1, 2, 5, 6), None], {"flatten": "true"}, ["[90,4]"]),
    ("ExperimentalDetectronPriorGridGenerator-6", [(3, 4), (1, 2, 5, 6), None], {"flatten": "false"}, ["[5,6,3,4]"]),
    ("ExperimentalDetectronPriorGridGenerator-6", [(3, 4), None, None], {"flatten": "false"}, ["[?,?,3,4]"]),
    (
        "ExperimentalDetectronROIFeatureExtractor-6",
        [(5, 4), None, (1, 7, 3, 3)],
        {"output_size": "2", "sampling_ratio": "2", "pyramid_scales": "4,8"},
        ["[5,7,2,2]", "[5,4]"],
    ),
    (
        "ExperimentalDetectronROIFeatureExtractor-6",
        [None, None, None],
        {"output_size": "2", "sampling_ratio": "2", "pyramid_scales": "4,8"},
        ["[?,?,2,2]", "[?,4]"],
    ),
    ("PriorBoxClustered-1", [(2,), (2,)], CLUSTERED, ["[2,?]"]),
    ("PriorBoxClustered-1", [i64(4, 5), (2,)], CLUSTERED, ["[2,240]"]),
    ("PriorBoxClustered-1", [Bounds([4, 5], [6, 5]), (2,)], CLUSTERED, ["[2,240..360]"]),
    *(
        ("ROIPooling-2", [(1, 3, 9, 9), (5, 5)], {"spatial_scale": "1", **sizes}, [f"[5,3,{expected}]"])
        for sizes, expected in POOLED_SIZES
    ),
    ("ROIPooling-2", [None, None], {"spatial_scale": "1", "pooled_h": "2", "pooled_w": "4"}, ["[?,?,2,4]"]),
    (
        "ROIAlign-9",
        [None, (5, 4), None],
        {"pooled_h": "2", "pooled_w": "3", "sampling_ratio": "2", "spatial_scale": "1", "mode": "avg"},
        ["[5,?,2,3]"],
    ),
    (
        "ROIAlign-9",
        [(1, 7, 4, 4), None, (5,)],
        {"pooled_h": "2", "pooled_w": "3", "sampling_ratio": "2", "spatial_scale": "1", "mode": "avg"},
        ["[5,7,2,3]"],
    ),
    (
        "Proposal-4",
        [None, (2, 24, 4, 4), None],
        {
            "base_size": "4",
            "pre_nms_topn": "9",
            "post_nms_topn": "5",
            "nms_thresh": "0.5",
            "feat_stride": "1",
            "min_size": "1",
            "ratio": "1",
            "scale": "1",
        },
        ["[10,5]", "[10]"],
    ),
    # Generated values
    ("RandomUniform-8", [(3,), (), ()], {"output_type": "f32"}, ["[?,?,?]"]),
    ("RandomUniform-8", [i64(2, 3), (), ()], {"output_type": "f32"}, ["[2,3]"]),
    ("RandomUniform-8", [Bounds([2, 0], [2, INFINITY]), (), ()], {"output_type": "f32"}, ["[2,?]"]),
    ("OneHot-1", [(2, 3), (), (), ()], {"axis": "1"}, ["[2,?,3]"]),
    ("OneHot-1", [(2, 3), i64(4), (), ()], {"axis": "-1"}, ["[2,3,4]"]),
    ("NonZero-3", [(2, "..3", 4)], {}, ["[3,..24]"]),
    ("NonZero-3", [(2, -1)], {}, ["[2,?]"]),
    ("NonZero-3", [None], {}, ["[?,?]"]),
    ("Range-4", [i64(1), i64(8), i64(3)], {"output_type": "i64"}, ["[3]"]),
    ("Range-4", [i64(8), i64(1), i64(3)], {"output_type": "i64"}, ["[0]"]),
    ("Range-4", [i64(8), i64(1), i64(-3)], {"output_type": "i64"}, ["[3]"]),
    ("Range-4", [f32(0.5), f32(3), f32(0.5)], {"output_type": "f32"}, ["[5]"]),
    ("Range-4", [f32(0.9), f32(3.9), f32(1.9)], {"output_type": "i64"}, ["[3]"]),
    ("Range-4", [i64(1), (), i64(3)], {"output_type": "i64"}, ["[?]"]),
    ("Eye-9", [i64(2), i64(3), i64(0), (2,)], {"output_type": "f32"}, ["[?,?,2,3]"]),
    ("Eye-9", [i64(2), i64(3), i64(0), (-1,)], {"output_type": "f32"}, [None]),
    ("Eye-9", [(), i64(3), i64(0), i64(5)], {"output_type": "f32"}, ["[5,?,3]"]),
    ("Eye-9", [i64(2), (1,), i64(0)], {"output_type": "f32"}, ["[2,?]"]),
    (
        "Multinomial-13",
        [(2, 3), ()],
        {"convert_type": "i64", "with_replacement": "true", "log_probs": "false"},
        ["[2,?]"],
    ),
    (
        "Multinomial-13",
        [(3,), i64(5)],
        {"convert_type": "i64", "with_replacement": "true", "log_probs": "false"},
        ["[5]"],
    ),
    ("Unique-10", [None], {}, ["[?]"] * 4),
    ("Unique-10", [(2, 3)], {}, ["[1..6]", "[1..6]", "[6]", "[1..6]"]),
    ("Unique-10", [(0, 3)], {}, ["[0]"] * 4),
    ("Unique-10", [(2, 3), i64(1)], {}, ["[2,1..3]", "[1..6]", "[3]", "[1..6]"]),
    ("Unique-10", [(2, "..3"), i64(1)], {}, ["[2,..3]", "[?]", "[..3]", "[?]"]),
    ("Unique-10", [(2, 3), ()], {}, ["[?,?]", "[?]", "[?]", "[?]"]),
    ("Unique-10", [None, i64(1)], {}, [None, "[?]", "[?]", "[?]"]),
    # Images and windows
    (
        "Interpolate-4",
        [(1, 2, 4, 5), i64(8, 9), f32(2, 3), i64(2, 3)],
        {**SCALES, "pads_begin": "0,0,1,0"},
        ["[1,2,10,15]"],
    ),
    ("Interpolate-4", [(1, 2, "4..6", 5), i64(8, 9), f32(2, 1), i64(2, 3)], SCALES, ["[1,2,8..12,5]"]),
    ("Interpolate-4", [(1, 2, 4, 5), (2,), (2,), i64(2, 3)], SCALES, ["[1,2,?,?]"]),
    ("Interpolate-4", [(1, 2, 4, 5), i64(8, 9), (2,), i64(-1, 2)], SIZES, ["[1,2,9,8]"]),
    ("Interpolate-4", [(1, 2, 4, 5), (2,), (2,), i64(2, 3)], {**SIZES, "pads_end": "1"}, ["[2,2,?,?]"]),
    ("Interpolate-4", [(1, 2, 4, 5), i64(8, 9), (2,), (2,)], SIZES, ["[?,?,?,?]"]),
    ("Interpolate-4", [(4, 5), i64(8, 9), (2,)], SIZES, ["[8,9]"]),
    ("Interpolate-11", [(1, 2, 4, 5), f32(0.5, 0.4), i64(2, 3)], SCALES, ["[1,2,2,2]"]),
    ("Interpolate-11", [(1, 2, 4, 5), f32(1.3, 3), i64(2, 3)], SCALES, ["[1,2,5,15]"]),
    ("Interpolate-11", [(1, 2, 4, 5), i64(8, 9), i64(2, 3)], SIZES, ["[1,2,8,9]"]),
    ("Interpolate-1", [(1, 2, 4, 5), i64(8)], {"axes": "2", "mode": "nearest"}, ["[1,2,8,5]"]),
    ("GridSample-9", [None, (2, 3, 4, 2)], {"align_corners": "false"}, ["[2,?,3,4]"]),
    ("GridSample-9", [("..3", 7, 5, 5), (2, 3, -1, -1)], {"align_corners": "false"}, ["[2,7,3,?]"]),
    ("GridSample-9", [(2, 7, 5, 5), None], {"align_corners": "false"}, ["[2,7,?,?]"]),
    ("NV12toRGB-8", [(2, 6, 8, 1)], {}, ["[2,4,8,3]"]),
    ("NV12toRGB-8", [None], {}, ["[?,?,?,3]"]),
    ("NV12toRGB-8", [(2, -1, -1, 1), (2, 2, 4, 2)], {}, ["[2,4,8,3]"]),
    ("NV12toRGB-8", [(2, -1, 8, 1), None], {}, ["[2,?,8,3]"]),
    ("I420toRGB-8", [(2, -1, -1, 1), (2, 2, -1, 1), (2, -1, 4, 1)], {}, ["[2,4,8,3]"]),
    ("RGBtoNV12-17", [(2, 4, 8, 3)], {"single_plane": "true"}, ["[2,6,8,1]"]),
    ("RGBtoNV12-17", [(2, 4, 8, 3)], {"single_plane": "false"}, ["[2,4,8,1]", "[2,2,4,2]"]),
    ("RGBtoNV12-17", [None], {"single_plane": "true"}, ["[?,?,?,1]"]),
    ("RGBtoNV12-17", [None], {"single_plane": "false"}, ["[?,?,?,1]", "[?,?,?,2]"]),
    ("Convolution-1", [(1, 3, 8, "7..8"), (4, 3, 3, 3)], WINDOWS, ["[1,4,3,3]"]),
    ("Convolution-1", [(1, 3, 8, "7..9"), (4, 3, 3, 3)], WINDOWS, ["[1,4,3,3..4]"]),
    ("Convolution-1", [(1, 3, 8, -1), (4, 3, 3, 3)], WINDOWS, ["[1,4,3,1..]"]),
    ("Convolution-1", [(1, 3, "7..9", 8), (4, 3, 3, 3)], {**WINDOWS, "auto_pad": "same_upper"}, ["[1,4,4..5,4]"]),
    (
        "Convolution-1",
        [(1, 3, "7..9", 8), (4, 3, 3, 3)],
        {**WINDOWS, "auto_pad": "valid", "pads_begin": "5,5"},
        ["[1,4,3..4,3]"],
    ),
    (
        "Convolution-1",
        [(1, 3, "7..9", 8), (4, 3, 3, 3)],
        {**WINDOWS, "pads_begin": "2,0", "pads_end": "1,0", "dilations": "2,2"},
        ["[1,4,3..4,2]"],
    ),
    ("Convolution-1", [(1, 3, 9, 9), (4, 3, "3..5", 3)], WINDOWS, ["[1,4,3..4,4]"]),
    ("Convolution-1", [None, (4, 3, 3, 3)], WINDOWS, ["[?,4,1..,1..]"]),
    ("Convolution-1", [None, None], WINDOWS, ["[?,?,1..,1..]"]),
    (
        "Convolution-1",
        [None, None],
        {"strides": "2", "pads_begin": "0", "pads_end": "0", "dilations": "1"},
        ["[?,?,1..]"],
    ),
    ("GroupConvolution-1", [(1, 6, 8, 8), (-1, 5, 3, 3, 3)], WINDOWS, ["[1,10,3,3]"]),
    ("GroupConvolution-1", [(1, -1, 8, 8), (2, 5, 3, 3, 3)], WINDOWS, ["[1,10,3,3]"]),
    ("GroupConvolution-1", [(1, -1, 8, 8), (-1, 5, 3, 3, 3)], WINDOWS, ["[1,?,3,3]"]),
    ("DeformableConvolution-8", [None, None, None], WINDOWS, [None]),
    ("DeformableConvolution-8", [(-1, 3, 8, 8), (2, 18, 3, 3), (4, 3, 3, 3)], WINDOWS, ["[2,4,3,3]"]),
    ("DeformableConvolution-8", [None, (2, 18, 3, 3), (4, 3, 3, 3)], WINDOWS, ["[2,4,1..,1..]"]),
    ("DeformableConvolution-8", [(2, 3, 8, 8), None, None], WINDOWS, ["[2,?,1..4,1..4]"]),
    ("MaxPool-1", [(1, 3, 7, "7..8")], POOLING, ["[1,3,4,4]"]),
    ("MaxPool-1", [(1, 3, 7, "7..8")], {**POOLING, "rounding_type": "ceil"}, ["[1,3,4,4..5]"]),
    ("MaxPool-1", [None], POOLING, ["[?,?,?,?]"]),
    ("MaxPool-8", [(1, 3, -1, 7)], {**POOLING, "auto_pad": "same_lower"}, ["[1,3,?,4]"] * 2),
    (
        "MaxPool-8",
        [(1, 3, "6..7", 7)],
        {**POOLING, "auto_pad": "same_lower", "rounding_type": "ceil"},
        ["[1,3,?,4]"] * 2,
    ),
    (
        "MaxPool-14",
        [(1, 3, "2..6", 6)],
        {**POOLING, "kernel": "2,2", "strides": "3,3", "rounding_type": "ceil_torch"},
        ["[1,3,1..3,3]"] * 2,
    ),
    ("AdaptiveAvgPool-8", [(1, 3, 8, 8), i64(2, 4)], {}, ["[1,3,2,4]"]),
    ("AdaptiveAvgPool-8", [(1, 3, 8, 8), (2,)], {}, ["[1,3,?,?]"]),
    ("ConvolutionBackpropData-1", [(1, 4, 5, "5..6"), (4, 3, 3, 3)], WINDOWS, ["[1,3,11,11..13]"]),
    (
        "ConvolutionBackpropData-1",
        [(1, 4, 5, 5), (4, 3, 3, 3)],
        {**WINDOWS, "output_padding": "1,0", "pads_begin": "1,0", "pads_end": "0,2"},
        ["[1,3,11,9]"],
    ),
    (
        "ConvolutionBackpropData-1",
        [(1, 4, 5, 5), (4, 3, 3, 3)],
        {**WINDOWS, "auto_pad": "valid", "pads_begin": "1,0"},
        ["[1,3,11,11]"],
    ),
    ("ConvolutionBackpropData-1", [(1, 4, 5, 5), (4, 3, 3, 3), i64(10, 9)], WINDOWS, ["[1,3,10,9]"]),
    ("ConvolutionBackpropData-1", [(1, 4, 5, 5), (4, 3, 3, 3), (2,)], WINDOWS, ["[1,3,?,?]"]),
    ("ConvolutionBackpropData-1", [None, None, (2,)], {**WINDOWS, "strides": ""}, ["[?,?,?,?]"]),
    ("ConvolutionBackpropData-1", [None, None], {**WINDOWS, "strides": ""}, [None]),
    ("GroupConvolutionBackpropData-1", [(1, 4, 5, 5), (2, 2, 3, 3, 3)], WINDOWS, ["[1,6,11,11]"]),
    ("GroupConvolutionBackpropData-1", [(1, 4, 5, 5), (-1, 2, 3, 3, 3)], WINDOWS, ["[1,6,11,11]"]),
    ("ExtractImagePatches-3", [(1, 3, 10, 11)], {**PATCHES, "auto_pad": "valid"}, ["[1,18,5,7]"]),
    ("ExtractImagePatches-3", [(1, 3, "..10", 11)], {**PATCHES, "auto_pad": "same_upper"}, ["[1,18,..5,11]"]),
    ("ExtractImagePatches-3", [None], {**PATCHES, "auto_pad": "valid"}, ["[?,?,?,?]"]),
    # Signals, embeddings and variables
    ("DFT-7", [(2, 8, 2), i64(1)], {}, ["[2,8,2]"]),
    ("DFT-7", [(2, 8, 2), i64(0, 1), i64(5, -1)], {}, ["[5,8,2]"]),
    ("DFT-7", [(2, 8, 2), i64(1), (1,)], {}, ["[2,?,2]"]),
    ("DFT-7", [(2, 8, 2), (1,)], {}, ["[?,?,2]"]),
    ("RDFT-9", [(2, 8), i64(1)], {}, ["[2,5,2]"]),
    ("RDFT-9", [(2, "7..9"), i64(1)], {}, ["[2,4..5,2]"]),
    ("RDFT-9", [(2, 0), i64(1)], {}, ["[2,0,2]"]),
    ("RDFT-9", [(2, 8), i64(1, 0), i64(6, 4)], {}, ["[3,6,2]"]),
    ("RDFT-9", [(2, 8), (1,)], {}, ["[?,?,2]"]),
    ("IRDFT-9", [(2, 5, 2), i64(1)], {}, ["[2,8]"]),
    ("IRDFT-9", [(2, 5, 2), i64(1), i64(9)], {}, ["[2,9]"]),
    ("IRDFT-9", [(2, 5, 2), i64(1), i64(-1)], {}, ["[2,8]"]),
    ("IRDFT-9", [(2, 5, 2), i64(1), (1,)], {}, ["[2,?]"]),
    ("IRDFT-9", [(2, 5, 2), i64(1, 0), i64(-1, 7)], {}, ["[7,5]"]),
    ("STFT-15", [(2, 20), (5,), i64(5), i64(3)], {"transpose_frames": "false"}, ["[2,6,3,2]"]),
    ("STFT-15", [(2, 20), (5,), i64(5), i64(3)], {"transpose_frames": "true"}, ["[2,3,6,2]"]),
    ("STFT-15", [("20..23",), (5,), i64(5), i64(3)], {"transpose_frames": "false"}, ["[6..7,3,2]"]),
    ("STFT-15", [(2, 20), (5,), i64(5), ()], {"transpose_frames": "false"}, ["[2,?,3,2]"]),
    ("STFT-15", [(2, 20), (5,), (), i64(3)], {"transpose_frames": "false"}, ["[2,?,?,2]"]),
    ("STFT-15", [(2, 5), (5,), i64(5), i64(3)], {"transpose_frames": "false"}, ["[2,1,3,2]"]),
    ("ISTFT-16", [(2, 3, 6, 2), (5,), i64(4), i64(3)], {"center": "false", "normalized": "false"}, ["[2,19]"]),
    ("ISTFT-16", [(2, 3, 6, 2), (5,), i64(4), i64(3)], {"center": "true", "normalized": "false"}, ["[2,15]"]),
    ("ISTFT-16", [(2, 3, 6, 2), (5,), i64(5), i64(3)], {"center": "true", "normalized": "false"}, ["[2,16]"]),
    ("ISTFT-16", [(2, 3, 6, 2), (5,), i64(5), i64(3)], {"center": "false", "normalized": "false"}, ["[2,20]"]),
    ("ISTFT-16", [(2, 3, 6, 2), (5,), i64(5), ()], {"center": "true", "normalized": "false"}, ["[2,?]"]),
    ("ISTFT-16", [(2, 3, 6, 2), (5,), (), i64(3)], {"center": "true", "normalized": "false"}, ["[2,?]"]),
    ("ISTFT-16", [(2, 3, 6, 2), (5,), i64(5), i64(3), i64(17)], {"center": "true", "normalized": "false"}, ["[2,17]"]),
    ("ISTFT-16", [(2, 3, 6, 2), (5,), i64(5), i64(3), ()], {"center": "true", "normalized": "false"}, ["[2,?]"]),
    ("EmbeddingBagOffsetsSum-3", [(9, 4), (5,), (2,)], {}, ["[2,4]"]),
    ("EmbeddingBagOffsetsSum-3", [(9, 4), (5,), None], {}, ["[?,4]"]),
    ("EmbeddingBagOffsetsSum-3", [None, (5,), (2,)], {}, [None]),
    ("EmbeddingBagPackedSum-3", [(9, 4), (5, 3)], {}, ["[5,4]"]),
    ("EmbeddingSegmentsSum-3", [(9, 4), (5,), (5,), i64(3)], {}, ["[3,4]"]),
    ("EmbeddingSegmentsSum-3", [(9, 4), (5,), (5,), ()], {}, ["[?,4]"]),
    ("SparseFillEmptyRows-16", [(3,), i64(5, 2), (3, 2), ()], {}, ["[?,2]", "[?]", "[5]"]),
    ("SparseFillEmptyRows-16", [(3,), (2,), (3, 2), ()], {}, ["[?,2]", "[?]", "[?]"]),
    ("SparseFillEmptyRows-legacy", [(3, 2), (3,), i64(5, 2), ()], {"count": "3"}, ["[?,2]", "[?]", "[5]"]),
    ("Col2Im-15", [(2, 12, 9), i64(5, 6), i64(2, 3)], {}, ["[2,2,5,6]"]),
    ("Col2Im-15", [(12, 9), i64(5, 6), i64(2, 3)], {}, ["[2,5,6]"]),
    ("Col2Im-15", [(2, 12, 9), (2,), (2,)], {}, ["[2,?,?,?]"]),
    # Slices, repetitions and other shapes of the same elements
    ("ShapeOf-3", [(2, -1)], {"output_type": "i64"}, ["[2]"]),
    ("ShapeOf-3", [None], {"output_type": "i64"}, ["[?]"]),
    ("Reshape-1", [(2, 3, 4), (2,)], {"special_zero": "true"}, ["[?,?]"]),
    ("Reshape-1", [(2, 3, 4), (-1,)], {"special_zero": "true"}, [None]),
    ("Reshape-1", [(), i64()], {"special_zero": "true"}, ["[]"]),
    ("Reshape-1", [(1,), one(7)], {"special_zero": "true"}, ["[]"]),
    ("Reshape-1", [(2, 3, 4), i64(0, -1)], {"special_zero": "true"}, ["[2,12]"]),
    ("Reshape-1", [(2, "3..5", 4), i64(0, -1)], {"special_zero": "true"}, ["[2,12..20]"]),
    ("Reshape-1", [(2, "3..5", 4), i64(-1, 0)], {"special_zero": "true"}, ["[8,3..5]"]),
    ("Reshape-1", [(2, "3..5", 4), i64(2, -1, 2)], {"special_zero": "true"}, ["[2,6..10,2]"]),
    ("Reshape-1", [None, i64(0, 3)], {"special_zero": "true"}, ["[?,3]"]),
    ("Reshape-1", [None, i64(3, -1)], {"special_zero": "true"}, ["[3,1..]"]),
    ("Reshape-1", [None, i64(0, -1)], {"special_zero": "true"}, ["[?,?]"]),
    ("Reshape-1", [(0, 3), i64(0, -1)], {"special_zero": "false"}, ["[0,0]"]),
    ("Reshape-1", [(0, 3), i64(4, -1)], {"special_zero": "false"}, ["[4,0]"]),
    ("Reshape-1", [(6, 4), Bounds([2, -1], [3, -1])], {"special_zero": "false"}, ["[2..3,8..12]"]),
    ("Reshape-1", [("..24",), Bounds([2, -1], [3, -1])], {"special_zero": "false"}, ["[2..3,..12]"]),
    ("Reshape-1", [(-1,), Bounds([2, -1], [INFINITY, -1])], {"special_zero": "false"}, ["[2..,?]"]),
    ("Reshape-1", [(6, 4), Bounds([0, -1], [INFINITY, -1])], {"special_zero": "false"}, ["[?,1..]"]),
    ("Squeeze-15", [(1, 3, "1..2"), i64(2)], {"allow_axis_skip": "true"}, [None]),
    ("Squeeze-15", [(1, 3, "1..2"), i64(2)], {"allow_axis_skip": "false"}, ["[1,3]"]),
    ("Squeeze-15", [(1, 3, "1..2"), i64(0, 1)], {"allow_axis_skip": "true"}, ["[3,1..2]"]),
    ("Squeeze-1", [(1, 3, -1), (1,)], {}, ["[?,?]"]),
    ("Squeeze-1", [(1, 3, -1), (4,)], {}, [None]),
    ("Squeeze-1", [(1, 3, -1), (-1,)], {}, [None]),
    ("Squeeze-1", [(1, 3, 1)], {}, ["[3]"]),
    ("Squeeze-1", [(1, 3, -1)], {}, [None]),
    ("Squeeze-1", [(1, 3, 1), i64()], {}, ["[3]"]),
    ("Squeeze-1", [(), i64(0)], {}, ["[]"]),
    ("Unsqueeze-1", [(2, 3), i64(-1, 0)], {}, ["[1,2,3,1]"]),
    ("Unsqueeze-1", [(2, 3), i64(1, 1)], {}, ["[2,1,3]"]),
    ("Unsqueeze-1", [(2, 3), (2,)], {}, ["[?,?,?,?]"]),
    ("Unsqueeze-1", [(2, 3), (-1,)], {}, [None]),
    ("Transpose-1", [(2, 3), i64()], {}, ["[3,2]"]),
    ("Transpose-1", [None, i64()], {}, [None]),
    ("Transpose-1", [None, i64(1, 0)], {}, ["[?,?]"]),
    ("Transpose-1", [(2, 3), (2,)], {}, ["[?,?]"]),
    ("Transpose-1", [None, (2,)], {}, ["[?,?]"]),
    ("Transpose-1", [None, (0,)], {}, [None]),
    ("Transpose-1", [None, (-1,)], {}, [None]),
    ("Concat-1", [(2, "..3"), (2, 5), ("1..4", 1)], {"axis": "1"}, ["[2,6..9]"]),
    ("Concat-1", [(2, 3), None], {"axis": "-1"}, ["[2,3..]"]),
    ("Concat-1", [None, (2, 3)], {"axis": "0"}, ["[2..,3]"]),
    ("Concat-1", [None, None], {"axis": "0"}, [None]),
    ("Split-1", [(2, 6), i64(1)], {"num_splits": "3"}, ["[2,2]"] * 3),
    ("Split-1", [(2, "6..8"), i64(-1)], {"num_splits": "3"}, ["[2,2]"] * 3),
    ("Split-1", [(2, 6), ()], {"num_splits": "3"}, ["[?,?]"] * 3),
    ("Split-1", [None, i64(1)], {"num_splits": "3"}, [None] * 3),
    ("VariadicSplit-1", [(2, 6), i64(1), i64(1, -1, 2)], {}, ["[2,1]", "[2,3]", "[2,2]"]),
    ("VariadicSplit-1", [(2, "6..8"), i64(1), i64(1, -1)], {}, ["[2,1]", "[2,5..7]"]),
    ("VariadicSplit-1", [(2, 6), i64(1), (2,)], {}, ["[2,?]"] * 2),
    ("VariadicSplit-1", [(2, 6), (), i64(1, 5)], {}, ["[?,?]"] * 2),
    ("VariadicSplit-1", [None, i64(1), i64(1, 5)], {}, [None] * 2),
    ("VariadicSplit-1", [(2, 9), i64(1), Bounds([1, 2], [INFINITY, 5])], {}, ["[2,1..]", "[2,2..5]"]),
    ("DepthToSpace-1", [(2, "8..12", 3, 5)], {"mode": "blocks_first", "block_size": "2"}, ["[2,2..3,6,10]"]),
    ("SpaceToDepth-1", [(2, 3, 4, "6..8")], {"mode": "blocks_first", "block_size": "2"}, ["[2,12,2,3..4]"]),
    ("BatchToSpace-2", [(12, 3, 5), i64(1, 2, 3), i64(0, 1, 2), i64(0, 0, 1)], {}, ["[2,5,12]"]),
    ("BatchToSpace-2", [(12, 3, 5), i64(1, 2, 3), (3,), i64(0, 0, 1)], {}, ["[2,?,?]"]),
    ("BatchToSpace-2", [(12, 3, 5), i64(1, 2, 3), i64(0, 1, 2), (3,)], {}, ["[2,?,?]"]),
    ("BatchToSpace-2", [(12, 3, 5), (3,), i64(0, 1, 2), i64(0, 0, 1)], {}, ["[?,?,?]"]),
    ("SpaceToBatch-2", [(2, 3, 6), i64(1, 2, 3), i64(0, 1, 2), i64(0, 0, 1)], {}, ["[12,2,3]"]),
    ("SpaceToBatch-2", [(2, 3, 6), i64(1, 2, 3), (3,), i64(0, 0, 1)], {}, ["[12,?,?]"]),
    ("SpaceToBatch-2", [(2, 3, 6), i64(1, 2, 3), i64(0, 1, 2), (3,)], {}, ["[12,?,?]"]),
    ("SpaceToBatch-2", [(2, 3, 6), (3,), i64(0, 1, 2), i64(0, 0, 1)], {}, ["[?,?,?]"]),
    ("ReorgYolo-2", [(1, 3, 4, "6..8")], {"stride": "2"}, ["[1,12,2,3..4]"]),
    (
        "RegionYolo-1",
        [(1, 21, 4, 5)],
        {"axis": "1", "end_axis": "3", "classes": "2", "coords": "4", "num": "3", "do_softmax": "true"},
        ["[1,420]"],
    ),
    (
        "RegionYolo-1",
        [(1, 21, 4, 5)],
        {"axis": "0", "end_axis": "1", "classes": "2", "coords": "4", "num": "3", "do_softmax": "true"},
        ["[21,4,5]"],
    ),
    (
        "RegionYolo-1",
        [(1, 21, 4, 5)],
        {"axis": "1", "end_axis": "3", "classes": "2", "coords": "4", "num": "3", "do_softmax": "false", "mask": "0,1"},
        ["[1,14,4,5]"],
    ),
    ("Slice-8", [(9, 8), i64(1), i64(7), i64(2)], {}, ["[3,8]"]),
    ("Slice-8", [(9, 8), i64(1), i64(7), i64(2), i64(-1)], {}, ["[9,3]"]),
    ("Slice-8", [(9, 8), (1,), i64(7), i64(2), i64(-1)], {}, ["[9,..8]"]),
    ("Slice-8", [(9, 8), i64(1), (1,), i64(2)], {}, ["[..9,8]"]),
    ("Slice-8", [(9, 8), i64(1), i64(7), (1,)], {}, ["[..9,8]"]),
    ("Slice-8", [(9, 8), i64(1), i64(7), i64(2), (1,)], {}, ["[..9,..8]"]),
    ("Slice-8", [(9, 8), (1,), (1,), (1,)], {}, ["[..9,8]"]),
    ("Slice-8", [(9, 8), (-1,), (-1,), (-1,)], {}, ["[?,?]"]),
    (
        "StridedSlice-1",
        [(9, 8, 7), i64(1, 2), i64(7, 8), i64(2, 3)],
        {"begin_mask": "0,0", "end_mask": "0,0"},
        ["[3,2,7]"],
    ),
    (
        "StridedSlice-1",
        [(9, 8, 7), i64(1, 2), i64(7, 8), i64(2, 3)],
        {"begin_mask": "1,0", "end_mask": "0,1"},
        ["[4,2,7]"],
    ),
    ("StridedSlice-1", [(9, 8, 7), i64(1, 2), i64(7, 8)], {"begin_mask": "0,0", "end_mask": "0,0"}, ["[6,6,7]"]),
    ("StridedSlice-1", [(9, 8, 7), (2,), i64(7, 8)], {"begin_mask": "0,1", "end_mask": "0,0"}, ["[..9,8,7]"]),
    ("StridedSlice-1", [(9, 8, 7), i64(1, 2), (2,)], {"begin_mask": "0,0", "end_mask": "0,1"}, ["[..9,6,7]"]),
    (
        "StridedSlice-1",
        [(9, 8, 7), i64(1, 2), i64(7, 8), (2,)],
        {"begin_mask": "0,0", "end_mask": "0,0"},
        ["[..9,..8,7]"],
    ),
    (
        "StridedSlice-1",
        [(9, 8, 7), (2,), (2,)],
        {"begin_mask": "0,0", "end_mask": "0,0", "shrink_axis_mask": "1"},
        ["[..8,7]"],
    ),
    ("StridedSlice-1", [(9, 8, 7), (-1,), (-1,)], {"begin_mask": "0,0", "end_mask": "0,0"}, [None]),
    (
        "StridedSlice-1",
        [(9, 8, 7), i64(0, 0), i64(0, 3)],
        {"begin_mask": "0,0", "end_mask": "0,0", "ellipsis_mask": "1"},
        ["[9,8,3]"],
    ),
    (
        "StridedSlice-1",
        [(9, 8), i64(0, 1), i64(0, 5)],
        {"begin_mask": "0,0", "end_mask": "0,0", "new_axis_mask": "1"},
        ["[1,4,8]"],
    ),
    ("StridedSlice-1", [(9, 8), i64(-1), i64(0), i64(-1)], {"begin_mask": "1", "end_mask": "1"}, ["[9,8]"]),
    ("Pad-1", [(2, "3..5"), i64(1, 2), i64(0, 3), ()], {"pad_mode": "constant"}, ["[3,8..10]"]),
    ("Pad-1", [(2, 3), (2,), i64(0, 3), ()], {"pad_mode": "constant"}, ["[?,?]"]),
    ("Pad-1", [(2, -1), i64(1, 2), i64(0, 3), ()], {"pad_mode": "constant"}, ["[3,5..]"]),
    ("Pad-12", [(2, "3..5"), i64(0, -4), i64(0, 0), ()], {"pad_mode": "constant"}, ["[2,..1]"]),
    ("Pad-12", [(2, 9), Bounds([0, 1], [0, 4]), i64(0, 0), ()], {"pad_mode": "constant"}, ["[2,10..13]"]),
    ("Tile-1", [(2, 3), i64(4, 1, 2)], {}, ["[4,2,6]"]),
    ("Tile-1", [(5, 2, 3), i64(2)], {}, ["[5,2,6]"]),
    ("Tile-1", [(2, "3..4"), Bounds([1, 2], [INFINITY, 3])], {}, ["[2..,6..12]"]),
    ("Tile-1", [(2, 3), (3,)], {}, ["[?,?,?]"]),
    ("Tile-1", [(2, 3), (1,)], {}, ["[?,?]"]),
    ("Tile-1", [None, i64(2)], {}, [None]),
    ("Tile-1", [(2, 3), (-1,)], {}, [None]),
    # Elementwise operations
    ("Add-1", [(3, 1), (2, 1, 4)], {}, ["[2,3,4]"]),
    ("Add-1", [("1..3", "2..3"), ("2..4", "3..5")], {}, ["[2..4,3]"]),
    ("Add-1", [None, (2,)], {}, [None]),
    ("Add-1", [("..3",), (2,)], {"auto_broadcast": "none"}, ["[2]"]),
    ("Add-1", [None, (2,)], {"auto_broadcast": "none"}, ["[2]"]),
    ("Add-1", [(2, 3, 4), (3, 1)], {"auto_broadcast": "pdpd", "auto_broadcast_axis": "1"}, ["[2,3,4]"]),
    ("Add-1", [(2, 3, 4), (3, 4)], {"auto_broadcast": "pdpd", "auto_broadcast_axis": "-1"}, ["[2,3,4]"]),
    ("Add-1", [(2, 3, 4), (4, 1, 1)], {"auto_broadcast": "pdpd", "auto_broadcast_axis": "2"}, ["[2,3,4]"]),
    ("Add-1", [(2, -1, 4), (3,)], {"auto_broadcast": "pdpd", "auto_broadcast_axis": "1"}, ["[2,3,4]"]),
    ("Add-1", [None, (3,)], {"auto_broadcast": "pdpd", "auto_broadcast_axis": "1"}, [None]),
    ("Select-1", [(3,), (2, 1), (1, 3)], {}, ["[2,3]"]),
    ("Select-1", [("..3",), (3,), (3,)], {"auto_broadcast": "none"}, ["[3]"]),
    ("Select-1", [(3,), (2, 3), (1, 3)], {"auto_broadcast": "pdpd", "auto_broadcast_axis": "-1"}, ["[2,3]"]),
    ("Inverse-14", [(2, "..3", 3)], {"adjoint": "false"}, ["[2,..3,3]"]),
    ("FakeQuantize-1", [(2, 3), (), (), (3,), None], {"levels": "256"}, ["[2,3]"]),
]


def make_value(known: Any) -> Value | None:
    """Return the facts about an input."""
    if known is ABSENT:
        return None
    if isinstance(known, np.ndarray):
        return Value.of_array(known)
    if isinstance(known, Bounds):
        low, high = np.array(known.low, np.float64), np.array(known.high, np.float64)
        return Value(PartialShape(low.shape), bounds=(low, high))
    return Value(None if known is None else PartialShape(known))


def infer(operation: Operation, inputs: list[Any], attributes: dict[str, str], outputs: int) -> list[str | None]:
    """Return the shapes that the rule of an operation infers."""
    defaults = {a.name: a.default for a in operation.attributes if not a.required}
    rule = find_rule(operation)
    assert rule is not None
    values = [make_value(known) for known in inputs]
    try:
        shapes = rule(Inputs(operation, {**defaults, **operation.bind(attributes)}, values, outputs))
    except UnknownShapeError:
        return [None] * outputs
    return [None if shape is None else str(shape) for shape in shapes]


@pytest.mark.parametrize("name", dict.fromkeys(name for name, *_ in CASES))
def test_shape_rules_infer_what_follows_from_partial_shapes(name: str) -> None:
    for own_name, inputs, attributes, expected in CASES:
        if own_name == name:
            assert infer(OPERATIONS[name], inputs, attributes, len(expected)) == expected, (inputs, attributes)


def test_priors_with_aspect_ratios_of_zero_are_refused() -> None:
    attributes = {"offset": "0.5", "min_size": "8", "aspect_ratio": "0", "flip": "true"}
    with pytest.raises(ValueError, match="an aspect ratio is 0, expected a positive number"):
        infer(OPERATIONS["PriorBox-8"], [i64(4, 5), (2,)], attributes, 1)


@pytest.mark.parametrize(("attributes", "count"), PRIOR_BOXES)
def test_priors_of_kernels_are_as_many(attributes: dict[str, str], count: int) -> None:
    operation = OPERATIONS["PriorBox-8"]
    assert operation.kernel(i64(4, 5), i64(40, 50), **operation.bind({**attributes, "offset": "0.5"})).shape == (
        2,
        80 * count,
    )


@pytest.mark.parametrize(("sizes", "expected"), POOLED_SIZES)
def test_regions_are_pooled_to_the_inferred_size(sizes: dict[str, str], expected: str) -> None:
    operation = OPERATIONS["ROIPooling-2"]
    data, rois = np.zeros((1, 3, 9, 9), np.float32), np.zeros((5, 5), np.float32)
    result = operation.kernel(data, rois, **operation.bind({"spatial_scale": "1", **sizes}))
    assert str(PartialShape(result.shape)) == f"[5,3,{expected}]"


def test_facts_are_equal_if_all_of_them_are() -> None:
    constant = make_constant([1, 2])
    facts = [
        make_value(known)
        for known in (None, (2,), (-1,), i64(1, 2), i64(1, 3), Bounds([1, 2], [1, 4]), Bounds([1, 2], [1, 5]))
    ]
    facts += [Value.of_constant(constant), Value.of_constant(make_constant([1, 2]))]
    for i, first in enumerate(facts):
        for j, second in enumerate(facts):
            assert first is not None
            assert second is not None
            assert first.equals(second) == (i == j)
    assert Value.of_constant(constant).equals(Value.of_constant(constant))
    for known in ((2,), i64(1, 2), Bounds([1, 2], [1, 4])):
        first, second = make_value(known), make_value(known)
        assert first is not None
        assert second is not None
        assert first.equals(second)


def make_constant(values: list[int]) -> Any:
    """Return a constant that is read when its value is needed."""
    array = i64(*values)
    return SimpleNamespace(shape=array.shape, data=array.tobytes(), to_array=lambda: array)


def test_unknown_rules_are_reported_with_the_closest_name() -> None:
    operation = dataclasses.replace(OPERATIONS["Relu-1"], shape="infer_gathr")
    with pytest.raises(
        InputError, match=r"^Relu-1: there is no shape rule 'infer_gathr'; did you mean infer_gather\?$"
    ):
        find_rule(operation)
