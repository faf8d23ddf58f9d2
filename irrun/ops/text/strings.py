"""Operations that pack, compare, join and split strings."""

from __future__ import annotations

import math
from typing import Literal

import numpy as np

from irrun.deadlines import within_time
from irrun.errors import InputError
from irrun.limits import check_allocation
from irrun.ops._support.axes import normalize_axis
from irrun.ops._support.checks import check_minimum
from irrun.ops._support.numerics import Array
from irrun.ops._support.registry import op
from irrun.ops.type import string_tensor_pack_15, string_tensor_unpack_15
from irrun.text.farmhash import hash_text
from irrun.text.ragged import check_strings, join_strings, list_strings, read_flag, read_text

__all__ = [
    "contrib_string_join",
    "contrib_string_split",
    "equal_str",
    "numeric_to_string",
    "string_tensor_pack",
    "string_tensor_unpack",
    "string_to_hash_bucket",
]


@op(
    "StringTensorPack",
    opset="extension",
    kind="movement",
    shape="keep_shape",
    folding="linear",
    flops=0,
    output_types=("string",),
)
def string_tensor_pack(
    begins: Array, ends: Array, chars: Array, *, mode: Literal["begins_ends"] = "begins_ends"
) -> Array:
    """Create strings from ranges of UTF-8 text, as StringTensorPack-15 does.

    Args:
        begins: i32, any shape.
        ends: i32, the shape of `begins`.
        chars: u8 [bytes].
        mode: How strings are stated.

    Returns:
        The shape of `begins`, string.

    Raises:
        InputError: The strings exceed the text.

    Spec:
        Defined by string_tensor_pack.hpp of OpenVINO Tokenizers
    """
    return string_tensor_pack_15(begins, ends, chars)


@op(
    "StringTensorUnpack",
    opset="extension",
    kind="movement",
    shape="infer_extension_strings",
    folding="linear",
    flops=0,
    output_types=("i32", "i32", "u8"),
)
def string_tensor_unpack(data: Array, *, mode: Literal["begins_ends"] = "begins_ends") -> tuple[Array, Array, Array]:
    """Return the text of strings and the range of each string in it, as StringTensorUnpack-15 does.

    Args:
        data: String of any shape, or packed strings, u8 [bytes]: their number, where the first one begins and where
            each ends, i32, and their text.
        mode: How strings are stated.

    Returns:
        Where each string begins and where it ends, i32 of the shape of `data` or [strings], and the text, u8 [bytes].

    Raises:
        InputError: Packed strings are malformed.

    Spec:
        Defined by string_tensor_unpack.cpp of OpenVINO Tokenizers
    """
    if data.dtype != np.uint8:
        return string_tensor_unpack_15(data)
    words = data.reshape(-1)[: data.size // 4 * 4].view("<i4").astype(np.int32)
    count = int(words[0]) if words.size else -1
    if not 0 <= count <= words.size - 2:
        raise InputError(f"packed strings have {data.size} bytes and state a number of {count} strings")
    begins, ends = words[1 : count + 1], words[2 : count + 2]
    chars = data.reshape(-1)[4 * (count + 2) :][: int(words[count + 1])]
    check_strings(begins, ends, chars)
    return begins, ends, chars


@op("EqualStr", opset="extension", scratch=2, shape="infer_list", flops=0, output_types=("i32",))
def equal_str(begins_0: Array, ends_0: Array, chars_0: Array, begins_1: Array, ends_1: Array, chars_1: Array) -> Array:
    """Return which strings are equal.

    Args:
        begins_0: i32, any shape. Behind the end of the shorter list its first string takes part.
        ends_0: i32, the shape of `begins_0`.
        chars_0: u8 [bytes].
        begins_1: i32, any shape.
        ends_1: i32, the shape of `begins_1`.
        chars_1: u8 [bytes].

    Returns:
        1 or 0, i32 [strings of the longer list]; empty if a list is.

    Raises:
        InputError: Strings exceed their text.

    Spec:
        Defined by equal_str.cpp of OpenVINO Tokenizers
    """
    check_strings(begins_0, ends_0, chars_0)
    check_strings(begins_1, ends_1, chars_1)
    first, second = list_strings(begins_0, ends_0, chars_0), list_strings(begins_1, ends_1, chars_1)
    if not first or not second:
        return np.zeros(0, np.int32)
    first += first[:1] * (len(second) - len(first))
    second += second[:1] * (len(first) - len(second))
    return np.array([a == b for a, b in zip(first, second, strict=True)], np.int32)


@op("NumericToString", opset="extension", scratch=14, shape="keep_shape", flops=0, output_types=("string",))
def numeric_to_string(data: Array) -> Array:
    """Write numbers as text: floats with six significant digits, booleans as true and false.

    Args:
        data: Boolean, an integer of 8 to 64 bits, f32 or f64, any shape.

    Returns:
        The shape of `data`, string.

    Raises:
        InputError: The element type is another one.

    Spec:
        Defined by numeric_to_string.cpp of OpenVINO Tokenizers
    """
    values = data.reshape(-1).tolist()
    if data.dtype == np.bool_:
        texts = ["true" if value else "false" for value in values]
    elif data.dtype in (np.float32, np.float64):
        texts = ["-nan" if math.isnan(x) and math.copysign(1, x) < 0 else f"{x:g}" for x in values]
    elif data.dtype.kind in "iu":
        texts = list(map(str, values))
    else:
        raise InputError(f"the numbers are {data.dtype}, expected boolean, integers, f32 or f64")
    strings = np.empty(len(texts), object)
    strings[:] = texts
    return np.asarray(strings.reshape(data.shape))


@op("StringToHashBucket", opset="extension", scratch=2, shape="keep_shape", flops=0, output_types=("i64",))
def string_to_hash_bucket(begins: Array, ends: Array, chars: Array, *, num_buckets: int) -> Array:
    """Distribute strings among buckets by FarmHash64.

    Args:
        begins: i32, any shape.
        ends: i32, the shape of `begins`.
        chars: u8 [bytes].
        num_buckets: The number of buckets.

    Returns:
        The bucket of each string, i64 of the shape of `begins`.

    Raises:
        InputError: The strings exceed the text, or `num_buckets` is less than 1.

    Spec:
        Defined by string_to_hash_bucket.cpp of OpenVINO Tokenizers
    """
    check_minimum("num_buckets", num_buckets, 1)
    check_strings(begins, ends, chars)
    strings = within_time(list_strings(begins, ends, chars))
    buckets = np.array([hash_text(text) % num_buckets for text in strings], np.int64)
    return np.asarray(buckets.reshape(begins.shape))


@op(
    "ContribStringJoin",
    opset="extension",
    scratch=2,
    shape="infer_joined_strings",
    flops=0,
    output_types=("i32", "i32", "u8"),
)
def contrib_string_join(
    begins: Array, ends: Array, chars: Array, separator: Array, axis: Array
) -> tuple[Array, Array, Array]:
    """Join strings along an axis.

    Args:
        begins: i32, any shape.
        ends: i32, the shape of `begins`.
        chars: u8 [bytes].
        separator: u8 [bytes]: the text between two strings.
        axis: Integer, one element. Negative values count from the end.

    Returns:
        Strings of the shape of `begins` without the axis.

    Raises:
        InputError: The strings exceed the text, or the axis is out of range.

    Spec:
        Defined by contrib_string_ops.cpp of OpenVINO Tokenizers
    """
    check_strings(begins, ends, chars)
    if axis.size != 1 or axis.dtype.kind not in "iu":
        raise InputError(f"the axis is {axis.dtype} {list(axis.shape)}, expected one integer")
    strings = np.empty(begins.size, object)
    strings[:] = list_strings(begins, ends, chars)
    if not begins.ndim:
        return join_strings(strings.tolist(), ())
    position = normalize_axis(int(axis.reshape(-1)[0]), begins.ndim)
    between = read_text("the separator", separator)
    moved = np.moveaxis(strings.reshape(begins.shape), position, -1)
    joined = [between.join(row) for row in moved.reshape(math.prod(moved.shape[:-1]), moved.shape[-1])]
    return join_strings(joined, moved.shape[:-1])


@op(
    "ContribStringSplit",
    opset="extension",
    scratch=9,
    shape="infer_split_strings",
    flops=0,
    output_types=("i64", "i32", "i32", "u8", "i64"),
)
def contrib_string_split(
    begins: Array, ends: Array, chars: Array, delimiter: Array, skip_empty: Array
) -> tuple[Array, ...]:
    """Split strings at a delimiter; an empty delimiter splits them into bytes.

    Args:
        begins: i32, any shape.
        ends: i32, the shape of `begins`.
        chars: u8 [bytes].
        delimiter: u8 [bytes].
        skip_empty: Boolean, one element: whether empty parts are left out.

    Returns:
        The position of each part (the position of its string, then its number), i64 [parts, rank + 1]; the parts as
        strings; and the shape of the strings followed by the largest number of parts, i64 [rank + 1].

    Raises:
        InputError: The strings exceed the text, or their parts exceed the memory limit.

    Spec:
        Defined by contrib_string_ops.cpp of OpenVINO Tokenizers
    """
    check_strings(begins, ends, chars)
    skips, between = read_flag("skip_empty", skip_empty), read_text("the delimiter", delimiter)
    rows = [
        text.split(between) if between else [text[i : i + 1] for i in range(len(text))]
        for text in within_time(list_strings(begins, ends, chars))
    ]
    counts = np.array([len(row) for row in rows], np.int64)
    total = int(counts.sum())
    check_allocation((total, begins.ndim + 1), np.dtype(np.int64))
    numbers = np.arange(total) - np.repeat(np.cumsum(counts) - counts, counts)
    coordinates = np.unravel_index(np.repeat(np.arange(begins.size), counts), begins.shape) if begins.ndim else ()
    positions = np.stack([*coordinates, numbers], axis=1).astype(np.int64)
    parts = [part for row in rows for part in row]
    if skips:
        positions = positions[np.array([bool(part) for part in parts], bool)]
        parts = [part for part in parts if part]
    largest = int(counts.max(initial=0))
    return positions, *join_strings(parts, (len(parts),)), np.array([*begins.shape, largest], np.int64)
