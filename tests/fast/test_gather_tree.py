"""The specialized GatherTree computes what the plain kernel computes."""

from __future__ import annotations

import importlib.util

import numpy as np
import pytest
from ir_text import layer, net, port, write

import irrun
from fast.harness import calls_plain, check, find_operation


def write_model(folder, type):
    data = [f'element_type="{type}" shape="{shape}"' for shape in ("?,?,?", "?,?,?", "?", "")]
    layers = [layer(i, "Parameter", data=text, outputs=[port(0)]) for i, text in enumerate(data)]
    layers.append(layer(4, "GatherTree", inputs=[port(i) for i in range(4)], outputs=[port(4)]))
    layers.append(layer(5, "Result", inputs=[port(0)]))
    return write(folder, net(layers, [*((i, 0, 4, i) for i in range(4)), (4, 4, 5, 0)]))


@pytest.mark.parametrize("type", ["i32", "i64", "u8", "f32"])
@pytest.mark.parametrize("shape", [(1, 1, 1), (9, 1, 4), (5, 3, 2), (40, 2, 5), (7, 3, 12), (3, 0, 2), (0, 1, 2)])
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


@pytest.mark.skipif(importlib.util.find_spec("llvmlite") is None, reason="llvmlite is not installed")
@pytest.mark.usefixtures("own_kernel_cache")
@pytest.mark.parametrize("dtype", [np.int32, np.int64])
def test_compiled_paths(tmp_path, dtype):
    from irrun.fast.jit.beams import GatherTreeKernel

    path = write_model(tmp_path, np.dtype(dtype).name.replace("int", "i"))
    fast, plain = irrun.compile_model(path, jit=True), irrun.compile_model(path, optimize=False)
    (instruction,) = fast._fast_program.instructions
    assert isinstance(instruction.kernel, GatherTreeKernel)
    assert instruction.description == "compiled: paths of all beams"
    rng = np.random.default_rng(7)
    for time, batch, beams in [(1, 1, 1), (9, 1, 4), (5, 3, 2), (60, 2, 5), (7, 3, 12), (3, 0, 2), (0, 1, 2)]:
        for end, lengths in (
            (99, np.full(batch, time)),
            (3, np.full(batch, time)),
            (3, rng.integers(-2, time + 3, batch)),
            (-4, rng.integers(0, time + 3, batch)),
        ):
            ids, parents = rng.integers(-9, 9, (2 * time, batch, beams)), rng.integers(0, beams, (beams, time, batch))
            parents[:, :1] = 99  # not used
            turned = parents.astype(dtype).transpose(1, 2, 0)
            inputs = [ids.astype(dtype)[::2], turned, lengths.astype(dtype), np.array(end, dtype)]
            for arguments in (inputs, [x.copy() for x in inputs]):
                expected = plain(arguments)[0]
                for _ in range(2):
                    np.testing.assert_array_equal(fast(arguments)[0], expected)


def compute(compiled, inputs):
    """Return the bytes of the output, or the message of the error."""
    try:
        return compiled(inputs)[0].tobytes()
    except irrun.IrrunError as error:
        return str(error)


@pytest.mark.skipif(importlib.util.find_spec("llvmlite") is None, reason="llvmlite is not installed")
@pytest.mark.usefixtures("own_kernel_cache")
@pytest.mark.falls_back
def test_errors_of_compiled_paths(tmp_path):
    path = write_model(tmp_path, "i64")
    fast, plain = irrun.compile_model(path, jit=True), irrun.compile_model(path, optimize=False)
    for row in range(6):
        for batch in range(3):
            for value in (-1, 4, 1 << 40):
                inputs = make_beams(row, dtype=np.int64)
                inputs[1][row, batch, 2] = value
                assert compute(fast, inputs) == compute(plain, inputs)
    with pytest.raises(irrun.IrrunError, match="max_seq_len has shape"):
        fast([*inputs[:2], inputs[2][:2], inputs[3]])


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


def make_beams(seed, shape=(6, 3, 4), dtype=np.int32):
    rng = np.random.default_rng(seed)
    time, batch, beams = shape
    return [
        rng.integers(1, 9, shape).astype(dtype),
        rng.integers(0, beams, shape).astype(dtype),
        rng.integers(0, time + 2, batch).astype(dtype),
        np.array(0, dtype),
    ]


def change(inputs, position, value):
    return [value if i == position else x for i, x in enumerate(inputs)]


@pytest.mark.parametrize("seed", range(4))
def test_paths_of_beams_equal_those_of_the_plain_kernel(seed):
    """Steps after the length of a sequence, and after its end token, are end tokens."""
    inputs = make_beams(seed)
    parents, time = inputs[1], len(inputs[0])
    invalid = parents.copy()
    invalid[0] = 99
    past_end = parents.copy()
    past_end[3:, 0], past_end[4:, 1] = -1, 99
    repeat = [
        change(inputs, 2, np.full(3, time, np.int32)),
        change(inputs, 2, np.array([0, 1, time - 1], np.int32)),
        change(inputs, 3, np.array(5, np.int32)),
        change(inputs, 3, np.array([5], np.int32)),
        change(change(inputs, 3, np.array(5, np.int32)), 2, np.full(3, time, np.int32)),
        change(inputs, 1, invalid),
        change(change(inputs, 1, past_end), 2, np.array([3, 4, 6], np.int32)),
        make_beams(seed, (1, 2, 3)),
        make_beams(seed, (2, 1, 1)),
        make_beams(seed, dtype=np.uint8),
        make_beams(seed, dtype=np.float32),
    ]
    check("GatherTree-1", inputs, repeat=repeat)
    check("GatherTree-1", inputs, constants=(1, 3))


@pytest.mark.parametrize("row", range(6))
def test_parents_out_of_range_are_left_to_the_plain_kernel(row):
    """They are errors where the sequence has not ended, in all steps but the first."""
    inputs = make_beams(1)
    inputs[2] = np.array([6, 3, 6], np.int32)
    for value in (-1, 4):
        for batch in range(3):
            parents = inputs[1].copy()
            parents[row, batch, 2] = value
            check("GatherTree-1", change(inputs, 1, parents))
    assert calls_plain("GatherTree-1", inputs) is False


def test_other_beams_are_left_to_the_plain_kernel():
    inputs = make_beams(1)
    for position, value in (
        (0, inputs[0].astype(np.int64)),
        (1, inputs[1].astype(np.int64)),
        (2, inputs[2].astype(np.int64)),
        (3, inputs[3].astype(np.int64)),
        (1, inputs[1][:5]),
        (2, inputs[2][:2]),
        (2, inputs[2][:, np.newaxis]),
        (3, np.zeros(2, np.int32)),
    ):
        check("GatherTree-1", change(inputs, position, value))
    check("GatherTree-1", [inputs[0][0], inputs[1][0], *inputs[2:]])


@pytest.mark.skipif(importlib.util.find_spec("llvmlite") is None, reason="llvmlite is not installed")
@pytest.mark.usefixtures("own_kernel_cache")
def test_other_beams_are_left_to_the_kernel_on_numpy(monkeypatch):
    from irrun.fast.errors import NoKernelError
    from irrun.fast.jit.beams import GatherTreeKernel
    from irrun.fast.specialization import CallSite

    def make_kernel(*constants):
        constants = (None,) * (4 - len(constants)) + constants
        return GatherTreeKernel(CallSite(find_operation("GatherTree-1"), {}, constants, (False,) * 4, 1))

    inputs = make_beams(1)
    plain = find_operation("GatherTree-1").kernel(*inputs)
    monkeypatch.setattr("irrun.fast.jit.beams.specialize", lambda site: lambda *inputs: "other")
    for kernel, own in ((make_kernel(), inputs), (make_kernel(inputs[3]), inputs[:3])):
        np.testing.assert_array_equal(kernel(*own), plain)
    for position, value in (
        *((i, x.astype(np.int64)) for i, x in enumerate(inputs)),
        (1, inputs[1][:5]),
        (2, inputs[2][:2]),
        (2, inputs[2][:, np.newaxis]),
        (3, np.zeros(2, np.int32)),
        (1, np.full_like(inputs[1], 4)),
    ):
        assert make_kernel()(*change(inputs, position, value)) == "other"
    assert make_kernel()(*[x.astype(np.int16) for x in inputs]) == "other"
    assert make_kernel()(*make_beams(1, (6, 0, 4))) == "other"
    assert make_kernel()(inputs[0][0], inputs[1][0], inputs[2][:0], inputs[3]) == "other"
    unaligned = np.zeros(4 * inputs[0].size + 1, np.uint8)[1:].view(np.int32).reshape(inputs[0].shape)
    unaligned[...] = inputs[0]
    np.testing.assert_array_equal(make_kernel()(unaligned, *inputs[1:]), plain)
    for constants in ((inputs[2], inputs[3].astype(np.int64)), (inputs[3].astype(np.float32),)):
        with pytest.raises(NoKernelError, match="expected ids of one type, i32 or i64"):
            make_kernel(*constants)
    monkeypatch.setattr("irrun.fast.jit.beams.specialize", lambda site: None)
    short = make_beams(2, dtype=np.int16)
    np.testing.assert_array_equal(make_kernel()(*short), find_operation("GatherTree-1").kernel(*short))
