"""PagedAttentionExtension, and copies in its caches of keys and values, which are divided into blocks."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from irrun.errors import InputError
from irrun.limits import check_allocation
from irrun.ops._support.axes import to_scalar
from irrun.ops._support.checks import check_rank, check_shape
from irrun.ops._support.context import OutputCount, State
from irrun.ops._support.numerics import Array, compute_in_float32
from irrun.ops._support.registry import op

__all__ = ["pa_kv_reorder", "paged_attention_extension"]

ALL_OUTPUTS = OutputCount(2)


@op("PagedAttentionExtension", opset="extension", kind="product", shape="infer_paged_attention")
@compute_in_float32
def paged_attention_extension(
    query: Array,
    key: Array,
    value: Array,
    key_cache: Array,
    value_cache: Array,
    past_lens: Array,
    subsequence_begins: Array,
    block_indices: Array,
    block_indices_begins: Array,
    scale: Array,
    sliding_window: Array,
    alibi_slopes: Array | None = None,
    max_context_len: Array | None = None,
    score_aggregation_window: Array | None = None,
    rotated_block_indices: Array | None = None,
    rotation_deltas: Array | None = None,
    rotation_trig_lut: Array | None = None,
    xattention_threshold: Array | None = None,
    xattention_block_size: Array | None = None,
    xattention_stride: Array | None = None,
    sinks: Array | None = None,
    adaptive_rkv_start_size: Array | None = None,
    adaptive_rkv_evictable_sizes: Array | None = None,
    adaptive_rkv_diversity_block_set_indices: Array | None = None,
    adaptive_rkv_diversity_block_set_indices_begins: Array | None = None,
    token_type_ids: Array | None = None,
    qq_bias: Array | None = None,
    qq_bias_begins: Array | None = None,
    *,
    write_kv_cache: bool = True,
    state: State,
    outputs: OutputCount = ALL_OUTPUTS,
) -> tuple[Array, ...]:
    """Compute causal attention of sequences with earlier keys and values in blocks of caches.

    OpenVINO writes new keys and values to the caches in place. Here inputs are not modified: as in the reference
    implementation, each request copies the caches in its first run and writes to the copies. Later caches
    replace the copies if they differ from the caches of the first run.

    Args:
        query: Floating-point, shape [tokens, heads * size]: the sequences one after another.
        key: The type of `query`, shape [tokens, key heads * size]. Neighboring heads share a key.
        value: The type of `query`, shape [tokens, key heads * value size].
        key_cache: Floating-point, shape [blocks, key heads, block size, size], or with the last axes exchanged.
        value_cache: Floating-point, shape [blocks, key heads, block size, value size].
        past_lens: i32, shape [sequences]: the tokens of each sequence that are in the caches.
        subsequence_begins: i32, shape [sequences + 1]: where sequences begin, and the number of tokens.
        block_indices: i32, shape [n]: the blocks of sequences, sequence by sequence.
        block_indices_begins: i32, shape [sequences + 1]: where the blocks of sequences begin, and n.
        scale: Factor of the scores; without elements 1 / sqrt(size).
        sliding_window: The number of last tokens, itself included, that a token attends to; 0 for all.
        alibi_slopes: Floating-point, shape [heads]: factors of the distance, which is subtracted from scores; ignored
            if omitted or empty.
        max_context_len: Has no influence.
        score_aggregation_window: i32, shape [sequences] or scalar: the number of last tokens with added-up attention
            up; by default 1.
        rotated_block_indices: Must be empty, like all of the following except `sinks`; other values need the caches of
            OpenVINO's scheduler.
        rotation_deltas: Ignored.
        rotation_trig_lut: Ignored.
        xattention_threshold: Must be empty.
        xattention_block_size: Ignored.
        xattention_stride: Ignored.
        sinks: Floating-point, one value per head: an additional score, without a value; ignored if omitted or empty.
        adaptive_rkv_start_size: Ignored.
        adaptive_rkv_evictable_sizes: Ignored.
        adaptive_rkv_diversity_block_set_indices: Ignored.
        adaptive_rkv_diversity_block_set_indices_begins: Ignored.
        token_type_ids: Must be empty.
        qq_bias: Must be empty.
        qq_bias_begins: Ignored.
        write_kv_cache: Whether new keys and values are written to the caches.
        state: The caches of the request.
        outputs: The number of outputs.

    Returns:
        The result, shape [tokens, heads * value size], and the attention to each token, added up over heads and the
        last tokens of its sequence, shape [tokens of all sequences, cached ones included].

    Raises:
        InputError: The shapes do not match, a block does not exist, or an input is not supported.

    Spec:
        Defined by openvino/op/paged_attention.hpp and openvino/reference/paged_attention.hpp
    """
    refused = {
        "rotated_block_indices": rotated_block_indices,
        "xattention_threshold": xattention_threshold,
        "token_type_ids": token_type_ids,
        "qq_bias": qq_bias,
    }
    _check_is_empty(refused)
    if outputs > 2:
        raise InputError("the third output, scores of diversity, is not supported")
    keys, values = _open_caches(state, key_cache, value_cache)
    heads, q, k, v = _split_heads(query, key, value, keys.shape[1])
    is_transposed = keys.shape[3] != k.shape[2] and keys.shape[2] == k.shape[2]
    blocks = keys.swapaxes(2, 3) if is_transposed else keys
    check_shape("key_cache", blocks, len(blocks), k.shape[1], values.shape[2], k.shape[2])
    check_shape("value_cache", values, len(blocks), v.shape[1], values.shape[2], v.shape[2])
    slopes, sink = (_get_per_head(n, x, heads) for n, x in (("alibi_slopes", alibi_slopes), ("sinks", sinks)))
    factor = np.float32(to_scalar(scale, "scale") if scale.size else k.shape[2] ** -0.5)
    window = int(to_scalar(sliding_window, "sliding_window")) if sliding_window.size else 0
    counts = _get_windows(score_aggregation_window, len(past_lens))
    check_shape("subsequence_begins", subsequence_begins, len(past_lens) + 1)
    check_shape("block_indices_begins", block_indices_begins, len(past_lens) + 1)
    result = np.zeros((len(q), heads, v.shape[2]), np.float32)
    attention = []
    for i, past in enumerate(past_lens.tolist()):
        part = slice(int(subsequence_begins[i]), int(subsequence_begins[i + 1]))
        own = block_indices[int(block_indices_begins[i]) : int(block_indices_begins[i + 1])]
        places = _locate(own, past + max(part.stop - part.start, 0), blocks)
        length = part.stop - part.start
        if length <= 0:
            attention.append(np.zeros(past, np.float32))
            continue
        old, new = (tuple(axis[span] for axis in places) for span in (slice(past), slice(past, None)))
        all_keys = np.concatenate([blocks[old[0], :, old[1]], k[part]])
        all_values = np.concatenate([values[old[0], :, old[1]], v[part]])
        if write_kv_cache:
            blocks[new[0], :, new[1]], values[new[0], :, new[1]] = k[part], v[part]
        weights = _compute_weights(q[part] * factor, all_keys, past, window, slopes, sink)
        result[part] = _weigh(weights, all_values)
        attention.append(weights[:, max(length - counts[i], 0) :].sum(axis=(0, 1)))
    flat = result.reshape(len(q), -1)
    scores = np.concatenate(attention) if attention else np.zeros(0, np.float32)
    return (flat, scores)[: max(outputs, 1)]


def _check_is_empty(inputs: Mapping[str, Array | None]) -> None:
    for name, x in inputs.items():
        if x is not None and x.size:
            raise InputError(f"{name} has shape {list(x.shape)}, expected no elements: it is not supported")


def _open_caches(state: State, key_cache: Array, value_cache: Array) -> tuple[Array, Array]:
    """Return the caches of the request, copied from the inputs."""
    given = {"key": key_cache, "value": value_cache}
    for name, cache in given.items():
        check_rank(f"{name}_cache", cache, 4)
        if cache.dtype.kind != "f":
            raise InputError(f"{name}_cache has the type {cache.dtype}, expected a floating-point type")
    if not all(_is_same(state.get(f"given {name}"), cache) for name, cache in given.items()):
        state.update({f"given {name}": cache.copy() for name, cache in given.items()})
        state.update({name: cache.copy() for name, cache in given.items()})
    return state["key"], state["value"]


def _is_same(old: Array | None, new: Array) -> bool:
    return old is not None and old.dtype == new.dtype and np.array_equal(old, new, equal_nan=True)


def _split_heads(query: Array, key: Array, value: Array, groups: int) -> tuple[int, Array, Array, Array]:
    """Return the number of heads of the query, and all arrays with an axis of heads."""
    for name, x in (("query", query), ("key", key), ("value", value)):
        check_rank(name, x, 2)
        check_shape(name, x, len(query), x.shape[1])
    size = key.shape[1] // groups if groups else 0
    if not size or key.shape[1] % groups or value.shape[1] % groups or query.shape[1] % (size * groups):
        raise InputError(
            f"query, key and value have {query.shape[1]}, {key.shape[1]} and {value.shape[1]} columns, expected "
            f"multiples of the {groups} heads of the caches"
        )
    shaped = (x.reshape(len(x), n, -1) for x, n in ((query, query.shape[1] // size), (key, groups), (value, groups)))
    return query.shape[1] // size, *shaped


def _get_per_head(name: str, x: Array | None, heads: int) -> Array | None:
    """Return one value per head, or None."""
    if x is None or not x.size:
        return None
    if x.size not in (1, heads):
        raise InputError(f"{name} has {x.size} values, expected one for each of the {heads} heads")
    return np.broadcast_to(x.reshape(-1), (heads,)).astype(np.float32)


def _get_windows(window: Array | None, sequences: int) -> list[int]:
    """Return the number of last tokens of each sequence with added-up attention."""
    if window is None or not window.size:
        return [1] * sequences
    if window.size not in (1, sequences):
        raise InputError(f"score_aggregation_window has {window.size} values, expected {sequences}")
    return [int(n) for n in np.broadcast_to(window.reshape(-1), (sequences,))]


def _locate(own: Array, length: int, blocks: Array) -> tuple[Array, Array]:
    """Return the block and the place in it of each token of a sequence."""
    size = blocks.shape[2]
    if length > len(own) * size or (own.size and not 0 <= own.min() <= own.max() < len(blocks)):
        raise InputError(
            f"a sequence of {length} tokens has the blocks {own.tolist()}, expected enough blocks of {size} tokens in "
            f"[0, {len(blocks)})"
        )
    positions = np.arange(length)
    return own[positions // max(size, 1)], positions % max(size, 1)


def _compute_weights(
    query: Array, keys: Array, past: int, window: int, slopes: Array | None, sink: Array | None
) -> Array:
    """Return the weights [heads, tokens, keys] of the values."""
    length, heads, size = query.shape
    groups = keys.shape[1]
    check_allocation((heads, length, len(keys)), query.dtype)
    grouped = query.reshape(length, groups, heads // groups, size).transpose(1, 2, 0, 3)
    scores: Array = (grouped @ keys.transpose(1, 2, 0)[:, np.newaxis]).reshape(heads, length, -1)
    distance = np.arange(past, past + length)[:, np.newaxis] - np.arange(len(keys))
    if slopes is not None:
        scores = scores - slopes[:, np.newaxis, np.newaxis] * distance.astype(np.float32)
    masked = distance < 0 if window <= 0 else (distance < 0) | (distance >= window)
    scores = np.where(masked, -np.inf, scores)
    highest = scores.max(axis=-1, keepdims=True)
    if sink is not None:
        highest = np.maximum(highest, sink[:, np.newaxis, np.newaxis])
    weights = np.exp(scores - highest)
    total = weights.sum(axis=-1, keepdims=True)
    if sink is not None:
        total = total + np.exp(sink[:, np.newaxis, np.newaxis] - highest)
    result: Array = weights / total
    return result


def _weigh(weights: Array, values: Array) -> Array:
    """Return [tokens, heads, size]: the values multiplied by their weights."""
    heads, length, count = weights.shape
    groups = values.shape[1]
    grouped = weights.reshape(groups, heads // groups, length, count)
    result: Array = (grouped @ values.transpose(1, 0, 2)[:, np.newaxis]).reshape(heads, length, -1).transpose(1, 0, 2)
    return result


@op("PaKVReorder", opset="extension", kind="movement", shape=(0, 1), flops=0)
def pa_kv_reorder(
    key_cache: Array,
    value_cache: Array,
    block_indices: Array,
    block_indices_begins: Array,
    block_update_indices: Array,
    block_update_indices_begins: Array,
) -> tuple[Array, Array]:
    """Copy keys and values of tokens to the places of other tokens of their sequence, one after another.

    OpenVINO does it in place.

    Args:
        key_cache: Any type, shape [blocks, heads, size, tokens].
        value_cache: Any type, shape [blocks, heads, tokens, size].
        block_indices: i32, shape [n]: the blocks of sequences, sequence by sequence.
        block_indices_begins: i32, shape [sequences + 1]: where the blocks of sequences begin, and n.
        block_update_indices: i32, shape [2 * m] or [m, 2]: for each copy, the position of the token in its sequence
            and the position to copy it to.
        block_update_indices_begins: i32, shape [sequences + 1]: where the copies of sequences begin, and m.

    Returns:
        Both caches. Positions and blocks that do not exist are ignored.

    Raises:
        InputError: The shapes do not match.

    Spec:
        Defined by openvino/op/pa_kv_reorder.hpp and the CPU plugin's pa_kv_reorder.cpp
    """
    check_rank("key_cache", key_cache, 4)
    check_rank("value_cache", value_cache, 4)
    blocks, heads, block_size = value_cache.shape[:3]
    check_shape("key_cache", key_cache, blocks, heads, key_cache.shape[2], block_size)
    check_shape("block_update_indices_begins", block_update_indices_begins, *block_indices_begins.shape)
    if not block_size:
        raise InputError(f"value_cache has shape {list(value_cache.shape)}, expected blocks with tokens")
    keys, values = key_cache.copy(), value_cache.copy()
    copies = block_update_indices.reshape(-1)[: block_update_indices.size // 2 * 2].reshape(-1, 2)
    for sequence in range(len(block_indices_begins) - 1):
        own = block_indices[
            max(int(block_indices_begins[sequence]), 0) : max(int(block_indices_begins[sequence + 1]), 0)
        ]
        first, last = (max(int(block_update_indices_begins[sequence + i]), 0) for i in (0, 1))
        for source, target in copies[first:last].tolist():
            if min(source, target) < 0 or max(source, target) // block_size >= len(own):
                continue
            old, new = int(own[source // block_size]), int(own[target // block_size])
            if 0 <= old < blocks and 0 <= new < blocks:
                keys[new, :, :, target % block_size] = keys[old, :, :, source % block_size]
                values[new, :, target % block_size] = values[old, :, source % block_size]
    return keys, values
