"""What specialized kernels share: constants, layouts, blocks, and memory that is kept."""

from __future__ import annotations

import gc
import mmap
import sys
import threading

import numpy as np
import pytest

from fast.harness import find_operation, make_floats
from irrun.fast import alignment, support
from irrun.fast.alignment import align
from irrun.fast.elementwise import ElementwiseChain, Operand, Step
from irrun.fast.fused import FusedKernel
from irrun.fast.packing import PackedMemory, allocate_kept
from irrun.fast.scratch import get_scratch
from irrun.fast.specialization import CallSite, get_summary
from irrun.fast.support import apply_in_tiles, call_by_rows, find_contiguous_order, get_axis, has_nan, to_operand
from irrun.ops._support.operation import Operation

F32 = np.float32


def make_site(*constants, is_absent=None):
    count = len(constants)
    return CallSite(find_operation("Gather-8"), {}, constants, is_absent or (False,) * count, output_count=1)


@pytest.mark.parametrize(
    ("value", "axis"),
    [
        (np.array(1), 1),
        (np.array([-2], np.int32), -2),
        (np.array([3], np.uint8), 3),
        (np.array(63), 63),
        (np.array(-64), -64),
        (np.array(64), None),
        (np.array(-65), None),
        (np.array([[1]]), None),
        (np.array([1, 2]), None),
        (np.array(1.0), None),
        (None, None),
    ],
    ids=str,
)
def test_axis_is_a_constant_of_one_element(value, axis):
    assert get_axis(make_site(None, value), 1) == axis
    assert get_axis(make_site(None), 1) is None


def test_call_site_knows_its_inputs():
    table = np.ones(3)
    site = make_site(None, table, None, is_absent=(False, False, True))
    assert site.variable_inputs == (0,)
    assert [site.has_input(i) for i in range(4)] == [True, True, False, False]
    assert site.get_constant(1) is table
    assert [site.get_constant(i) for i in (0, 2, 3)] == [None] * 3


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([1, 2], False),
        ([1, np.nan], True),
        ([np.inf, -np.inf], False),
        ([0, np.inf], False),
        ([], False),
        ([3e38] * 2, False),
    ],
    ids=str,
)
def test_nan_is_found(values, expected):
    assert has_nan(np.array(values, F32)) is expected


def test_operands_of_one_element_have_no_dimensions():
    assert to_operand(None) is None
    assert to_operand(np.ones((1, 1), F32)).shape == ()
    pair = np.ones(2, F32)
    assert to_operand(pair) is pair
    assert to_operand(np.ones((0,), F32)).shape == (0,)


def test_contiguous_order_is_that_of_memory():
    x = make_floats((2, 3, 4))
    for order in ((0, 1, 2), (2, 0, 1), (1, 2, 0), (2, 1, 0)):
        transposed = np.ascontiguousarray(x.transpose(order)).transpose(np.argsort(order))
        actual, contiguous = find_contiguous_order(transposed)
        assert actual == order
        assert contiguous.flags.c_contiguous
        assert np.shares_memory(contiguous, transposed)
    assert find_contiguous_order(x[:, :, ::2]) is None
    assert find_contiguous_order(np.broadcast_to(x[:, :1], x.shape)) is None
    assert find_contiguous_order(np.ones((3, 1, 4)))[0] == (0, 1, 2)


@pytest.mark.parametrize("shape", [(40, 50), (256, 256), (257, 256), (2, 700, 900), (0, 3)], ids=str)
def test_functions_of_tiles_keep_the_layout(shape):
    """Large arrays are computed in the order of their elements in memory."""
    x = make_floats(shape)
    blocks = []

    def negate(block, out):
        blocks.append(block.size)
        np.negative(block, out)

    for data in (x, np.ascontiguousarray(x.T).T, np.repeat(x, 2, axis=-1)[..., ::2]):
        blocks.clear()
        result = apply_in_tiles(negate, data)
        np.testing.assert_array_equal(result, -x)
        assert sum(blocks) == x.size
        is_large = x.size > 65_536 and find_contiguous_order(data) is not None
        assert result.strides == (data.strides if is_large else np.empty(shape, F32).strides)


@pytest.mark.parametrize(("length", "is_small"), [(399, False), (400, True), (10_000, True)])
def test_long_rows_are_computed_without_buffers(length, is_small):
    before = np.getbufsize()
    inside = call_by_rows(length, np.getbufsize)
    assert inside == (16 if is_small and support._settings is not None else before)
    with pytest.raises(ValueError, match="7"):
        call_by_rows(length, int, "7.5x")
    assert np.getbufsize() == before


def test_memory_of_prepared_weights_is_counted():
    memory = PackedMemory(100)
    assert memory.fits(100)
    assert not memory.fits(101)
    memory.reserve(60)
    assert (memory.used, memory.fits(40), memory.fits(41)) == (60, True, False)
    memory.release(20)
    assert (memory.used, memory.fits(60), memory.fits(61)) == (40, True, False)
    memory.originals.count_copy(1000)
    assert memory.used == 40


def test_memory_of_originals_is_released():
    """That of an array at once, that of the whole file after every 4 MiB."""
    releases, weights = [], np.ones(3)
    memory = PackedMemory(1 << 30, releases.append)
    memory.originals.count_copy(1, weights)
    memory.reserve(4 << 20, weights)
    assert [x is weights for x in releases] == [True, True]
    releases.clear()
    memory.originals.count_copy((4 << 20) - 1)
    assert releases == []
    memory.reserve(1)
    assert releases == [None]
    memory.originals.count_copy((4 << 20) - 1)
    assert releases == [None]
    memory.originals.count_copy(5)
    assert releases == [None, None]


@pytest.mark.parametrize(("size", "has_pages"), [(1 << 14, True), ((1 << 14) - 1, False), (1 << 19, True)])
def test_large_arrays_have_pages_of_their_own(size, has_pages, monkeypatch):
    mappings = []
    create = mmap.mmap

    def record(*arguments, **options):
        mappings.append(arguments[1])
        return create(*arguments, **options)

    monkeypatch.setattr(mmap, "mmap", record)
    if sys.platform == "win32":
        pytest.skip("arrays are allocated by the C library")
    values = allocate_kept((2, size // 2)) if size % 2 == 0 else allocate_kept((size,))
    assert not values.any()
    values[...] = 1
    assert mappings == ([4 * size] if has_pages else [])


@pytest.mark.skipif(not hasattr(mmap, "MADV_HUGEPAGE"), reason="the system has no huge pages")
@pytest.mark.parametrize(("size", "is_huge"), [(1 << 19, True), ((1 << 19) - 1, False)])
def test_arrays_of_2_mib_have_huge_pages(size, is_huge, monkeypatch):
    advice = []

    class Pages(mmap.mmap):
        def madvise(self, *arguments):
            advice.append(arguments)
            raise OSError("a system without them")

    monkeypatch.setattr(mmap, "mmap", Pages)
    assert allocate_kept((size,)).size == size
    assert advice == ([(mmap.MADV_HUGEPAGE,)] if is_huge else [])


def test_arrays_that_do_not_fit_are_refused(monkeypatch):
    def fail(*_, **__):
        raise OSError("no memory")

    monkeypatch.setattr(mmap, "mmap", fail)
    if sys.platform != "win32":
        with pytest.raises(MemoryError, match=str(4 << 20)):
            allocate_kept((1 << 20,))


def test_temporary_memory_is_reused_by_its_thread():
    first = get_scratch("a test", 3, 4)
    assert first.shape == (3, 4)
    assert np.shares_memory(first, get_scratch("a test", 12))
    assert np.shares_memory(first, get_scratch("a test", 2, 2))
    assert not np.shares_memory(first, get_scratch("another test", 3, 4))
    larger = get_scratch("a test", 13)
    assert larger.shape == (13,)
    assert np.shares_memory(larger, get_scratch("a test", 3, 4))
    others = []
    thread = threading.Thread(target=lambda: others.append(get_scratch("a test", 13)))
    thread.start()
    thread.join()
    assert not np.shares_memory(larger, others[0])


def make_unaligned(x):
    raw = np.empty(x.nbytes + 1, np.uint8)
    values = raw[1:].view(x.dtype).reshape(x.shape)
    values[...] = x
    return values


def test_unaligned_constants_share_a_copy():
    x = make_floats((3, 4))
    assert align(x) is x
    unaligned = make_unaligned(x)
    copy = align(unaligned)
    assert copy.flags.aligned
    assert not copy.flags.writeable
    np.testing.assert_array_equal(copy, x)
    assert align(unaligned) is copy
    for other in (unaligned[:2], unaligned.T, unaligned.view(np.int32)):
        aligned = align(other)
        assert aligned is not copy
        assert aligned.strides == np.array(other, order="K", copy=True).strides
        np.testing.assert_array_equal(aligned, other)
    del copy, aligned
    gc.collect()
    assert not [key for key in alignment._copies if key[0] == unaligned.__array_interface__["data"][0]]


def test_summaries_are_phrases():
    summary = get_summary(find_operation("Add-1"))
    assert summary[:1].islower()
    assert not summary.endswith(".")
    assert (
        get_summary(find_operation("PRelu-1"))
        == "use max(x, slope x) for slopes in (0, 1], and the sum of both halves for other slopes"
    )
    assert get_summary(find_operation("NonZero-3")) == ""
    assert get_summary(find_operation("MVN-2")) == "compute in place"

    def add(a, b):
        return a + b

    assert get_summary(Operation.from_function(add, "Add", since=99)) == ""


def test_fused_kernels_compute_what_follows_in_place():
    product = []

    def multiply(a, b):
        product.append(a * b)
        return product[-1]

    chain = ElementwiseChain((Step.create("Add", Operand("input", 0), Operand("input", 1)),), 2)
    a, b, c = (make_floats((3, 4), n) for n in range(3))
    result = FusedKernel(multiply, 2, chain)(a, b, c)
    assert result is product[0]
    np.testing.assert_array_equal(result, a * b + c)
