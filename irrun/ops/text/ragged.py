"""Operations on the rows of ragged tensors."""

from __future__ import annotations

import numpy as np

from irrun.errors import InputError
from irrun.limits import check_allocation
from irrun.ops._support.numerics import Array
from irrun.ops._support.registry import op
from irrun.text.ragged import (
    FEW,
    check_integers,
    check_ranges,
    gather_ranges,
    make_bounds,
    read_flag,
    read_size,
    read_text,
)

__all__ = [
    "combine_segments",
    "fuze_ragged",
    "ragged_tensor_pack",
    "ragged_to_dense",
    "ragged_to_ragged",
    "ragged_to_sparse",
    "truncate",
]


@op("Truncate", opset="extension", scratch=4, shape=(0, 1, 2, 3, 4, 5), flops=0, output_types=("i32", "i32", 2))
def truncate(*inputs: Array, m_num_inputs: int = 0) -> tuple[Array, ...]:
    """Shorten rows, or pairs of rows, to a length.

    Args:
        inputs: One or two ragged tensors, each as where its rows begin and end, i32 of any shape, and its elements; the
            largest number of elements, i32 scalar; the side from which elements are removed, u8 "left" or "right"; and
            from which row of a pair, u8 "only_first", "only_second" or "longest_first".
        m_num_inputs: The number of ragged tensors, which follows from the number of inputs.

    Returns:
        The ragged tensors with shorter rows.

    Raises:
        InputError: Rows are out of range or differ in number, the length is negative, or a side or mode is unknown.

    Spec:
        Defined by truncate.cpp of OpenVINO Tokenizers
    """
    if len(inputs) not in (6, 9):
        raise InputError(f"found {len(inputs)} inputs, expected 6 or 9")
    *ragged, length, side_text, mode_text = inputs
    side, mode = read_text("the side", side_text), read_text("the mode", mode_text)
    if side not in (b"left", b"right"):
        raise InputError(f"the side is {side!r}, expected left or right")
    if mode not in (b"only_first", b"only_second", b"longest_first"):
        raise InputError(f"the mode is {mode!r}, expected only_first, only_second or longest_first")
    most = read_size("the largest number of elements", length)
    rows = [ragged[i : i + 3] for i in range(0, len(ragged), 3)]
    for begins, ends, elements in rows:
        check_ranges(begins, ends, elements.shape[0] if elements.ndim else 0)
    lengths = [ends - begins for begins, ends, _ in rows]
    if len(rows) == 1:
        kept = [np.minimum(lengths[0], most)]
    else:
        if lengths[0].shape != lengths[1].shape:
            raise InputError(f"{lengths[0].size} rows cannot be paired with {lengths[1].size} rows")
        kept = _truncate_pairs(lengths[0], lengths[1], most, mode)
    results: list[Array] = []
    for (begins, ends, elements), size in zip(rows, kept, strict=True):
        if side == b"right":
            results += (begins, (begins + size).astype(ends.dtype), elements)
        else:
            results += ((ends - size).astype(begins.dtype), ends, elements)
    return tuple(results)


def _truncate_pairs(first: Array, second: Array, most: int, mode: bytes) -> list[Array]:
    """Return the lengths of the rows of pairs."""
    is_longer = first.astype(np.int64) + second > most
    if mode == b"only_first":
        return [np.where(is_longer, np.minimum(first, most), first), second]
    if mode == b"only_second":
        return [first, np.where(is_longer, np.minimum(second, most), second)]
    half, rest = divmod(most, 2)
    shortens_first = (first >= half + rest) & (second <= half)
    shortens_second = (first < half + rest) & (second > half)
    shares_first, shares_second = half + rest * (first >= second), half + rest * (first < second)
    kept_first = np.where(shortens_first, most - second, np.where(shortens_second, first, shares_first))
    kept_second = np.where(shortens_second, most - first, np.where(shortens_first, second, shares_second))
    return [np.where(is_longer, kept_first, first), np.where(is_longer, kept_second, second)]


@op(
    "CombineSegments",
    opset="extension",
    scratch=2,
    shape="infer_combined_segments",
    flops=0,
    output_types=(0, 0, 2, 0, 0, -1),
)
def combine_segments(*inputs: Array) -> tuple[Array, ...]:
    """Concatenate the rows of ragged tensors, and number the elements by the tensor that they are from.

    Args:
        inputs: Ragged tensors, each as where its rows begin and end, i32 of any shape, and its elements; one row is
            part of all results. At the end the number of each tensor, any type [tensors].

    Returns:
        The rows and their elements, and the rows again with the numbers of elements.

    Raises:
        InputError: Rows are out of range, or their number or the types of elements differ.

    Spec:
        Defined by combine_segments.cpp of OpenVINO Tokenizers
    """
    count = (len(inputs) - 1) // 3
    if len(inputs) < 4 or len(inputs) % 3 != 1 or inputs[-1].size != count:
        raise InputError(f"found {len(inputs)} inputs, expected three per ragged tensor and a number for each")
    tensors = [_align_bounds(*inputs[3 * i : 3 * i + 3]) for i in range(count)]
    for begins, ends, elements in tensors:
        if elements.ndim != 1 or elements.dtype != tensors[0][2].dtype:
            raise InputError(f"elements are {elements.dtype} {list(elements.shape)}, expected lists of the same type")
        check_ranges(begins, ends, elements.size)
    shape = next((begins.shape for begins, _, _ in reversed(tensors) if begins.ndim), ())
    size = int(np.prod(shape))
    if any(begins.size not in (1, size) for begins, _, _ in tensors):
        raise InputError(f"the ragged tensors have {[t[0].size for t in tensors]} rows, expected {size} or 1")
    check_allocation((size, count), np.dtype(np.int64))
    first, last = np.empty((size, count), np.int64), np.empty((size, count), np.int64)
    offset = 0
    for i, (begins, ends, elements) in enumerate(tensors):
        first[:, i] = begins.reshape(-1) + np.int64(offset)
        last[:, i] = ends.reshape(-1) + np.int64(offset)
        offset += elements.size
    lengths = last - first
    rows = make_bounds(lengths.sum(axis=1), shape)
    joined = gather_ranges(first, last, np.concatenate([elements for _, _, elements in tensors]))
    numbers = np.repeat(np.tile(inputs[-1].reshape(-1), size), lengths.reshape(-1))
    return *rows, joined, *rows, numbers


def _align_bounds(begins: Array, ends: Array, elements: Array) -> tuple[Array, Array, Array]:
    """Return a ragged tensor of one row with bounds of the same rank; converters create a scalar and a list."""
    return begins, ends.reshape(begins.shape) if begins.size == ends.size == 1 else ends, elements


@op("RaggedToDense", opset="extension", scratch=5, shape="infer_dense_rows", flops=0, output_types=(2, "boolean"))
def ragged_to_dense(
    begins: Array,
    ends: Array,
    data: Array,
    padding_size: Array,
    value: Array,
    pad_right_input: Array | None = None,
    *,
    pad_right: bool = True,
    m_pad_max_length: bool = False,
) -> tuple[Array, Array]:
    """Write the rows of a ragged tensor to a tensor of a fixed length, with padding.

    Args:
        begins: i32, any shape: where each row begins.
        ends: i32, the shape of `begins`.
        data: Any type, shape [n, ...]: the elements.
        padding_size: Integer scalar or [1]: the length of the rows of the result. Longer rows lose their end.
        value: The type of `data`, scalar: the padding.
        pad_right_input: Boolean scalar, which replaces `pad_right`.
        pad_right: Whether padding follows a row, rather than preceding it.
        m_pad_max_length: Whether rows continue in the elements behind them instead of being padded.

    Returns:
        Shape begins.shape + [padding_size] + data.shape[1:] and the type of `data`; and which elements are not padding,
        boolean of the same shape.

    Raises:
        InputError: Rows are out of range, or the length is negative or exceeds the memory limit.

    Spec:
        Defined by ragged_to_dense.cpp of OpenVINO Tokenizers
    """
    if not data.ndim or value.size != 1 or value.dtype != data.dtype:
        raise InputError(
            f"the padding is {value.dtype} {list(value.shape)}, expected one {data.dtype} for rows of data"
        )
    size = read_size("the length of rows", padding_size)
    if pad_right_input is not None:
        pad_right = read_flag("pad_right", pad_right_input)
    first, inner = begins.reshape(-1).astype(np.int64), data.shape[1:]
    shape = (*begins.shape, size, *inner)
    check_allocation(shape, data.dtype)
    check_allocation((first.size, size), np.dtype(np.int64))
    check_ranges(begins, ends, data.shape[0])
    lengths = np.full(first.size, size) if m_pad_max_length else np.minimum(ends.reshape(-1) - first, size)
    check_ranges(first, first + lengths, data.shape[0])
    dense = np.full((first.size, size, *inner), value.reshape(()), data.dtype)
    if first.size <= FEW and not inner:
        mask = np.zeros((first.size, size), bool)
        for i, (begin, length) in enumerate(zip(first.tolist(), lengths.tolist(), strict=True)):
            place = slice(length) if pad_right else slice(size - length, None)
            dense[i, place] = data[begin : begin + length]
            mask[i, place] = True
        return dense.reshape(shape), mask.reshape(shape)
    columns = np.arange(size)
    if not pad_right:
        columns = columns - (size - lengths[:, None])
    present = (columns >= 0) & (columns < lengths[:, None])
    dense[present] = data[(first[:, None] + columns)[present]]
    mask = np.broadcast_to(present.reshape(present.shape + (1,) * len(inner)), dense.shape)
    return dense.reshape(shape), mask.reshape(shape)


@op("FuzeRagged", opset="extension", scratch=3, shape=(0, 0), flops=0, output_types=("i32", "i32"))
def fuze_ragged(row_begins: Array, row_ends: Array, begins: Array, ends: Array) -> tuple[Array, Array]:
    """Join the strings of each row: the result begins with the first one and ends with the last one.

    Args:
        row_begins: i32, any shape: where each row of strings begins.
        row_ends: i32, the shape of `row_begins`.
        begins: i32 [strings].
        ends: i32 [strings].

    Returns:
        Where the text of each row begins and ends, i32 of the shape of `row_begins`. A row without strings is the
        string that would follow.

    Raises:
        InputError: Rows are out of range.

    Spec:
        Defined by fuze.cpp of OpenVINO Tokenizers
    """
    check_ranges(row_begins, row_ends, begins.size)
    if begins.shape != ends.shape:
        raise InputError(f"{begins.size} strings begin and {ends.size} end")
    last = np.maximum(row_ends - 1, row_begins)
    beyond = np.append(begins.reshape(-1), np.int32(0)), np.append(ends.reshape(-1), np.int32(0))
    return beyond[0][row_begins], beyond[1][last]


@op("RaggedTensorPack", opset="extension", kind="view", shape=(2,), flops=0, output_types=(2,))
def ragged_tensor_pack(begins: Array, ends: Array, data: Array) -> Array:
    """Return the elements of a ragged tensor, without its rows.

    Args:
        begins: i32, any shape.
        ends: i32, the shape of `begins`.
        data: Any type, any shape.

    Returns:
        `data`.

    Spec:
        Defined by ragged_tensor_pack.cpp of OpenVINO Tokenizers
    """
    return data


@op("RaggedToSparse", opset="extension", scratch=6, shape="infer_sparse_rows", flops=0, output_types=("i32",))
def ragged_to_sparse(begins: Array, ends: Array) -> Array:
    """Return the row and the column of each element of a ragged tensor.

    Args:
        begins: i32 [rows].
        ends: i32 [rows].

    Returns:
        i32 [elements, 2].

    Raises:
        InputError: A row ends before it begins, or the result exceeds the memory limit.

    Spec:
        Defined by ragged_to_sparse.cpp of OpenVINO Tokenizers
    """
    check_ranges(begins, ends, np.iinfo(np.int32).max)
    lengths = (ends - begins).reshape(-1).astype(np.int64)
    total = int(lengths.sum())
    check_allocation((total, 2), np.dtype(np.int64))
    rows = np.repeat(np.arange(lengths.size), lengths)
    columns = np.arange(total) - np.repeat(np.cumsum(lengths) - lengths, lengths)
    return np.stack([rows, columns], axis=1).astype(np.int32)


@op(
    "RaggedToRagged",
    opset="extension",
    scratch=6,
    shape="infer_rows_by_count",
    shaped_by=(1,),
    flops=0,
    output_types=("i32", "i32"),
)
def ragged_to_ragged(rowids: Array, first_dim_size: Array) -> tuple[Array, Array]:
    """Return where rows begin and end, by the row of each element.

    Args:
        rowids: i32 [elements], ascending: the row of each element. Elements of further rows are left out.
        first_dim_size: i32 scalar or [1]: the number of rows.

    Returns:
        i32 [rows] twice.

    Raises:
        InputError: A row is negative or less than the one before, or the result exceeds the memory limit.

    Spec:
        Defined by ragged_to_ragged.cpp of OpenVINO Tokenizers
    """
    count = read_size("the number of rows", first_dim_size)
    check_integers("rowids", rowids)
    ids = rowids.reshape(-1)
    if (ids < 0).any() or (ids[1:] < ids[:-1]).any():
        raise InputError("the rows of elements are negative or not in ascending order")
    check_allocation((count,), np.dtype(np.int64))
    bounds = np.searchsorted(ids, np.arange(count + 1)).astype(np.int32)
    return bounds[:-1], bounds[1:]
