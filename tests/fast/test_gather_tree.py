"""The specialized GatherTree computes what the plain kernel computes."""

from __future__ import annotations

import numpy as np
import pytest
from ir_text import layer, net, port, write

import irrun


def write_model(folder, type):
    data = [f'element_type="{type}" shape="{shape}"' for shape in ("?,?,?", "?,?,?", "?", "")]
    layers = [layer(i, "Parameter", data=text, outputs=[port(0)]) for i, text in enumerate(data)]
    layers.append(layer(4, "GatherTree", inputs=[port(i) for i in range(4)], outputs=[port(4)]))
    layers.append(layer(5, "Result", inputs=[port(0)]))
    return write(folder, net(layers, [*((i, 0, 4, i) for i in range(4)), (4, 4, 5, 0)]))


@pytest.mark.parametrize("type", ["i32", "i64", "u8", "f32"])
@pytest.mark.parametrize("shape", [(1, 1, 1), (9, 1, 4), (5, 3, 2), (40, 2, 5), (3, 0, 2), (0, 1, 2)])
def test_gather_tree(tmp_path, shape, type):
    path = write_model(tmp_path, type)
    fast, plain = irrun.compile_model(path), irrun.compile_model(path, optimize=False)
    (instruction,) = fast._fast_program.instructions
    assert instruction.kernel is not instruction.operation.kernel
    rng = np.random.default_rng(sum(shape))
    time, batch, beams = shape
    dtype = {"i32": np.int32, "i64": np.int64, "u8": np.uint8, "f32": np.float32}[type]
    for lengths in (np.full(batch, time), rng.integers(0, time + 3, batch)):
        inputs = [
            rng.integers(0, 9, shape).astype(dtype),
            rng.integers(0, beams, shape).astype(dtype),
            lengths.astype(dtype),
            np.array(0, dtype),
        ]
        np.testing.assert_array_equal(fast(inputs)[0], plain(inputs)[0])


@pytest.mark.falls_back
def test_invalid_parents_matter_only_on_the_path_of_a_beam(tmp_path):
    path = write_model(tmp_path, "i32")
    fast, plain = irrun.compile_model(path), irrun.compile_model(path, optimize=False)
    ids = np.arange(1, 19, dtype=np.int32).reshape(3, 2, 3)
    parents = np.zeros((3, 2, 3), np.int32)
    parents[0] = 99
    parents[1, 0, 2] = -1
    inputs = [ids, parents, np.array([3, 3], np.int32), np.array(0, np.int32)]
    np.testing.assert_array_equal(fast(inputs)[0], plain(inputs)[0])
    parents[2, 0, 1] = 2
    with pytest.raises(irrun.IrrunError, match="parent_ids at step 1, batch 0, beam 2 is -1, expected 0 to 2"):
        fast(inputs)
    inputs[2] = np.array([1, 3], np.int32)  # the first sequence ends before
    np.testing.assert_array_equal(fast(inputs)[0], plain(inputs)[0])
