"""Operations on caches of keys and values that are divided into blocks."""

from __future__ import annotations

from irrun.errors import InputError
from irrun.ops._support.checks import check_rank, check_shape
from irrun.ops._support.numerics import Array
from irrun.ops._support.registry import op

__all__ = ["pa_kv_reorder"]


@op("PaKVReorder", opset="extension", kind="movement", shape="infer_reordered_caches", flops=0)
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
        block_update_indices: i32, shape [2 * m] or [m, 2]: for each copy the position of the token in its sequence, and
            that of the place.
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
