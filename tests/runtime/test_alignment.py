"""Constants at unaligned offsets of the .bin."""

from __future__ import annotations

import gc
import re
import weakref

import numpy as np
import pytest
from openvino_modules import import_builder

import irrun
from irrun.fast.alignment import _copies, align
from irrun.fast.packing import RELEASE_INTERVAL, PackedMemory
from irrun.fast.specialization import CallSite, specialize
from irrun.ops._support import registry

ov = import_builder()
o = import_builder("openvino.opset8")

INNER, COLUMNS = 520, 600  # more than MIN_POSTPONED_BYTES


def make_unaligned(array):
    """Return a copy of an array that starts at an odd address."""
    raw = np.empty(array.nbytes + 1, np.uint8)
    result = raw[1:].view(array.dtype).reshape(array.shape)
    result[...] = array
    assert not result.flags.aligned
    return result


@pytest.fixture(params=[False, True], ids=["KN", "NK"])
def paths(request, tmp_path):
    """Save a product with constant weights, and the same model with all constants one byte later."""
    x = ov.op.Parameter(ov.Type.f32, ov.PartialShape([-1, INNER]))
    values = np.random.default_rng(0).normal(size=(INNER, COLUMNS)).astype(np.float32)
    weights = ov.op.Constant(np.ascontiguousarray(values.T) if request.param else values)
    model = ov.Model([ov.op.Result(o.matmul(x, weights, False, request.param).output(0))], [x])
    ov.serialize(model, tmp_path / "aligned.xml")
    text = (tmp_path / "aligned.xml").read_text()
    text = re.sub(r' offset="(\d+)"', lambda match: f' offset="{int(match[1]) + 1}"', text)
    (tmp_path / "unaligned.xml").write_text(text)
    (tmp_path / "unaligned.bin").write_bytes(b"\0" + (tmp_path / "aligned.bin").read_bytes())
    return tmp_path / "aligned.xml", tmp_path / "unaligned.xml"


@pytest.mark.usefixtures("any_products")
@pytest.mark.parametrize("rows", [1, 3, 100, 700])
def test_unaligned_weights_return_the_same_bits_in_every_run(paths, rows):
    x = np.random.default_rng(1).normal(size=(rows, INNER)).astype(np.float32)
    expected = irrun.compile_model(paths[0], jit=False)(x)[0]
    for threads in (1, 2):
        compiled = irrun.compile_model(paths[1], jit=False, threads=threads)
        for _ in range(3):
            np.testing.assert_array_equal(compiled(x)[0], expected)


def test_observers_see_aligned_weights(paths):
    compiled = irrun.compile_model(paths[1], jit=False)
    (slot,) = compiled._program.unaligned
    assert not compiled._program.initial[slot].flags.aligned
    seen = []
    compiled(np.ones((2, INNER), np.float32), observers=[lambda layer, inputs, *_: seen.append(inputs[1])])
    assert seen[0].flags.aligned
    assert not compiled._program.unaligned


def test_programs_without_specialized_kernels_do_not_postpone_copies(paths):
    plain = irrun.compile_model(paths[1], optimize=False)
    assert not plain._program.unaligned
    assert all(value.flags.aligned for value in plain._program.initial if value is not None)


@pytest.mark.usefixtures("without_panels")
def test_weights_that_exceed_the_budget_are_never_copied_as_a_whole(paths):
    x = np.ones((2, INNER), np.float32)
    expected = irrun.compile_model(paths[0], jit=False)(x)[0]
    limited = irrun.compile_model(paths[1], jit=False, weights_memory=4 * INNER * COLUMNS - 1)
    before = len(_copies)
    for _ in range(3):
        np.testing.assert_array_equal(limited(x)[0], expected)
    assert len(_copies) <= before


def test_copies_of_several_weights_share_the_budget(tmp_path):
    size = 4 * INNER * COLUMNS
    x = ov.op.Parameter(ov.Type.f32, ov.PartialShape([-1, INNER]))
    weights = [ov.op.Constant(np.full((INNER, COLUMNS), i, np.float32)) for i in (1, 2)]
    ov.serialize(
        ov.Model([ov.op.Result(o.matmul(x, w, False, False).output(0)) for w in weights], [x]), tmp_path / "m.xml"
    )
    text = re.sub(r' offset="(\d+)"', lambda match: f' offset="{int(match[1]) + 1}"', (tmp_path / "m.xml").read_text())
    (tmp_path / "m.xml").write_text(text)
    (tmp_path / "m.bin").write_bytes(b"\0" + (tmp_path / "m.bin").read_bytes())
    for limit, count in ((2 * size, 2), (2 * size - 1, 1), (size - 1, 0)):
        compiled = irrun.compile_model(tmp_path / "m.xml", jit=False, weights_memory=limit)
        assert len(compiled._program.unaligned) == count
        actual = compiled(np.ones((2, INNER), np.float32)).to_tuple()
        np.testing.assert_array_equal([float(r[0, 0]) for r in actual], [INNER, 2 * INNER])


def test_weights_in_bodies_are_aligned(tmp_path):
    data, x = (ov.op.Parameter(ov.Type.f32, ov.PartialShape([n, INNER])) for n in (3, 1))
    product = o.matmul(x, ov.op.Constant(np.ones((INNER, COLUMNS), np.float32)), False, False)
    result = ov.op.Result(o.softmax(product, 1).output(0))
    iterator = o.tensor_iterator()
    iterator.set_body(ov.Model([result], [x]))
    iterator.set_sliced_input(x, data.output(0), 0, 1, 1, -1, 0)
    output = ov.op.Result(iterator.get_concatenated_slices(result.output(0), 0, 1, 1, -1, 0))
    ov.serialize(ov.Model([output], [data]), tmp_path / "m.xml")
    text = re.sub(r' offset="(\d+)"', lambda match: f' offset="{int(match[1]) + 1}"', (tmp_path / "m.xml").read_text())
    (tmp_path / "m.xml").write_text(text)
    (tmp_path / "m.bin").write_bytes(b"\0" + (tmp_path / "m.bin").read_bytes())
    compiled = irrun.compile_model(tmp_path / "m.xml", jit=False)
    weights = []
    compiled(np.ones((3, INNER), np.float32), observers=[lambda layer, inputs, *_: weights.extend(inputs[1:2])])
    assert {value.shape for value in weights} >= {(INNER, COLUMNS)}
    assert all(value.flags.aligned for value in weights)


@pytest.mark.usefixtures("without_panels")
def test_unaligned_weights_are_copied_in_the_second_run(paths):
    x = np.ones((2, INNER), np.float32)
    compiled = irrun.compile_model(paths[1], jit=False)
    gc.collect()  # copies of other tests
    before, counts = len(_copies), []
    for _ in range(3):
        compiled(x)
        counts.append(len(_copies) - before)
    assert counts == [0, 1, 1]


@pytest.mark.usefixtures("without_panels")
@pytest.mark.parametrize("transpose_b", [False, True])
def test_originals_of_weights_that_are_copied_are_released(transpose_b, monkeypatch):
    monkeypatch.setattr(CallSite, "call_plain", None)  # is not called
    weights = make_unaligned(np.ones((COLUMNS, INNER) if transpose_b else (INNER, COLUMNS), np.float32))
    releases = []
    packed = PackedMemory(1 << 30, releases.append)
    operation, attributes = registry.find("MatMul", "opset1"), {"transpose_b": transpose_b}
    site = CallSite(operation, attributes, (None, weights), (False, False), 1, packed, True)
    kernel = specialize(site)
    x = np.ones((2, INNER), np.float32)
    for count in (0, 1, 1):
        np.testing.assert_allclose(kernel(x), INNER)
        assert len(releases) == count
    assert releases[0] is weights


def test_copies_of_the_same_memory_are_shared_while_they_are_used():
    original = make_unaligned(np.arange(6, dtype=np.float32).reshape(2, 3))
    copy = align(original)
    assert copy.flags.aligned
    assert not copy.flags.writeable
    assert align(original) is copy
    assert align(original.T) is not copy
    assert align(copy) is copy
    np.testing.assert_array_equal(copy, original)
    del copy
    original[0, 0] = 7  # there is no copy left that could be outdated
    assert align(original)[0, 0] == 7


def test_copies_keep_their_originals_so_that_no_other_array_has_the_address():
    original = make_unaligned(np.arange(6, dtype=np.float32)).view(Observed)
    copy, reference = align(original), weakref.ref(original)
    del original
    assert reference() is not None
    del copy
    assert reference() is None


class Observed(np.ndarray):
    """An array that can be referred to weakly."""


def test_originals_of_packed_weights_are_released():
    releases = []
    packed = PackedMemory(1 << 40, lambda original: releases.append((packed.used, original)))
    packed.reserve(RELEASE_INTERVAL - 1)
    assert releases == []
    packed.reserve(1)
    assert releases == [(RELEASE_INTERVAL, None)]
    packed.release(RELEASE_INTERVAL)
    packed.originals.count_copy(RELEASE_INTERVAL)
    assert len(releases) == 2
    assert packed.used == 0


@pytest.mark.parametrize(
    ("rows", "columns", "kind", "count"),
    [(520, 600, "f32", 1), (64, 64, "f32", 0), (520, 600, "f64", 0), (520, 600, "result", 0), (520, 600, "sum", 0)],
)
def test_copies_of_large_weights_in_f32_are_postponed(rows, columns, kind, count, tmp_path):
    """They must be factors only, and of more than a megabyte."""
    dtype = np.float64 if kind == "f64" else np.float32
    x = ov.op.Parameter(ov.Type.f64 if kind == "f64" else ov.Type.f32, ov.PartialShape([2, rows]))
    values = np.random.default_rng(0).normal(size=(rows, columns)).astype(dtype)
    weights = ov.op.Constant(values)
    outputs = [o.matmul(x, weights, False, False)]
    if kind == "result":
        outputs.append(weights)
    elif kind == "sum":
        outputs.append(o.add(weights, o.reduce_sum(x, np.array([0, 1]))))
    ov.serialize(ov.Model([ov.op.Result(output.output(0)) for output in outputs], [x]), tmp_path / "m.xml")
    text = re.sub(r' offset="(\d+)"', lambda match: f' offset="{int(match[1]) + 1}"', (tmp_path / "m.xml").read_text())
    (tmp_path / "m.xml").write_text(text)
    (tmp_path / "m.bin").write_bytes(b"\0" + (tmp_path / "m.bin").read_bytes())
    compiled = irrun.compile_model(tmp_path / "m.xml", jit=False)
    assert len(compiled._program.unaligned) == count
    data = np.ones((2, rows), dtype)
    np.testing.assert_allclose(compiled(data)[0], data @ values, rtol=1e-3, atol=1e-3)
