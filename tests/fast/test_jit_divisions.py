"""How compiled kernels divide their work into parts, blocks, sections and memory."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

pytest.importorskip("llvmlite")

from irrun.fast.errors import NoKernelError
from irrun.fast.jit import (
    compiler,
    compressed,
    conversion,
    convolution_plan,
    convolution_tiles,
    interpolation,
    products,
    quantized_kernels,
    quantized_products,
    winograd,
)
from irrun.fast.jit.bindings import Binding, Layout, make_layout
from irrun.fast.jit.codes import CodeFormat
from irrun.fast.jit.column_softmax import ColumnSoftmaxKernel
from irrun.fast.jit.concatenation import bind_copy
from irrun.fast.jit.convolution_plan import Geometry
from irrun.fast.jit.convolution_tiles import get_tile
from irrun.fast.jit.copies import RotationKernel, bind_contiguous
from irrun.fast.jit.expressions import Expression, Step
from irrun.fast.jit.kernels import ConvolutionKernel, ExpressionKernel, NormalizationKernel, SoftmaxKernel
from irrun.fast.jit.means import MeanKernel
from irrun.fast.jit.nests import Copy, StridedLayout, make_nest
from irrun.fast.jit.pooling import MaxPoolKernel
from irrun.fast.jit.product_kernels import ProductKernel, VariableProductKernel
from irrun.fast.jit.quantized_kernels import EncodingKernel, QuantizedProductKernel, RowEncodingKernel
from irrun.fast.jit.rotary import RotaryKernel
from irrun.fast.jit.sequence_plans import Block, place_blocks
from irrun.fast.jit.tasks import align_size

pytestmark = pytest.mark.usefixtures("own_kernel_cache")

F32 = np.dtype(np.float32)
ADD = (Step("Add", (0, 1)),)
MVN = {"eps": 1e-5, "normalize_variance": True, "eps_mode": "inside_sqrt"}
POOLING = {"kernel": [2, 2], "strides": [2, 2], "pads_begin": [0, 0], "pads_end": [0, 0]}
WINDOWS = {"strides": [1, 1], "dilations": [1, 1], "pads_begin": [0, 0], "pads_end": [0, 0]}
LOW, HIGH = np.array(-1, np.float32), np.array(1, np.float32)
FORMAT = CodeFormat(LOW, HIGH, LOW, HIGH, 256)


def count_parts(task):
    return 1 + task.count_helpers(1 << 30)


def bind(kernel, *shapes):
    return kernel.bind([make_layout(shape) for shape in shapes])


def make_kernel(name, rank):
    return {
        "expression": lambda: ExpressionKernel(rank, (Step("Relu", (0,)),), []),
        "sum": lambda: ExpressionKernel(rank, ADD, [None]),
        "normalization": lambda: NormalizationKernel(rank, 1, MVN, (), []),
        "softmax": lambda: SoftmaxKernel(rank),
        "mean": lambda: MeanKernel(rank, 1, False),
        "pooling": lambda: MaxPoolKernel(POOLING),
        "rotation": lambda: RotationKernel({0: 1}),
        "depthwise": lambda: ConvolutionKernel(np.ones((8, 1, 1, 3, 3), np.float32), WINDOWS, (), []),
        "product": lambda: VariableProductKernel((False, False), (), []),
        "codes": lambda: EncodingKernel(FORMAT, rank, 8 if rank == 4 else 4),
        "rows of codes": lambda: RowEncodingKernel(FORMAT, rank, 512),
    }[name]()


@pytest.mark.parametrize(
    ("name", "shapes", "parts"),
    [
        # parts of 32,768 elements, at most 16
        ("expression", [(1, 65535)], 1),
        ("expression", [(1, 65536)], 2),
        ("expression", [(100, 1310)], 3),
        ("expression", [(1, 1 << 19)], 16),
        ("expression", [(1, 1 << 21)], 16),
        ("sum", [(64, 1024), (64, 1)], 2),
        ("sum", [(3, 1 << 18), (3, 1)], 15),
        # the same, of whole rows
        *(
            case
            for name in ("normalization", "softmax", "mean", "rotation")
            for case in (
                (name, [(2, 32767)], 1),
                (name, [(2, 32768)], 2),
                (name, [(2, 1 << 18)], 2),
                (name, [(4096, 64)], 8),
                (name, [(4096, 1024)], 16),
            )
        ),
        # parts of 262,144 elements of windows, of whole channels
        ("pooling", [(1, 4, 256, 256)], 1),
        ("pooling", [(1, 8, 256, 256)], 2),
        ("pooling", [(2, 4, 256, 256)], 2),
        ("pooling", [(1, 1, 1024, 1024)], 1),
        ("pooling", [(1, 64, 512, 512)], 16),
        # parts of 65,536 multiplications, of whole channels
        ("depthwise", [(1, 8, 34, 34)], 1),
        ("depthwise", [(1, 8, 66, 66)], 4),
        ("depthwise", [(2, 8, 66, 66)], 9),
        ("depthwise", [(1, 8, 258, 258)], 8),
        # parts of 524,288 multiplications, of at least 64 rows
        ("product", [(1, 64, 64), (64, 64)], 1),
        ("product", [(1, 64, 128), (128, 64)], 1),
        ("product", [(1, 127, 128), (128, 128)], 1),
        ("product", [(1, 256, 64), (64, 64)], 2),
        ("product", [(1, 4096, 128), (128, 128)], 16),
        ("product", [(4, 64, 64), (64, 64)], 2),
        ("product", [(3, 64, 512), (512, 64)], 3),
        # parts of 16,384 vectors of four channels, which may be parts of planes
        ("codes", [(1, 8, 64, 127)], 1),
        ("codes", [(2, 8, 64, 64)], 1),
        ("codes", [(2, 8, 64, 128)], 2),
        ("codes", [(1, 8, 128, 128)], 2),
        ("codes", [(1, 4, 65536)], 4),
        ("codes", [(1, 8, 1024, 1024)], 16),
        # parts of 65,536 elements
        ("rows of codes", [(255, 512)], 1),
        ("rows of codes", [(256, 512)], 2),
        ("rows of codes", [(1 << 13, 512)], 16),
    ],
)  # fmt: skip
def test_work_is_divided_into_parts_of_the_documented_size(name, shapes, parts):
    (task,) = bind(make_kernel(name, len(shapes[0])), *shapes).tasks
    assert count_parts(task) == parts


def list_parts(binding: Binding) -> int:
    return count_parts(binding.tasks[0])


@pytest.mark.parametrize(
    ("rows", "length", "parts"),
    [(1, 65535, 1), (1, 65536, 2), (1, 1 << 20, 8), (2, 32768, 2), (3, 1 << 20, 3), (4096, 64, 8), (4096, 15, 1)],
)
def test_copies_of_rows_are_divided(rows, length, parts):
    assert list_parts(bind_copy(rows, length, 2 * length)) == parts


@pytest.mark.parametrize(
    ("layout", "parts"),
    [
        (Layout((256, 255), (4, 1024)), 1),
        (Layout((256, 256), (4, 1024)), 2),
        (Layout((1024, 1024), (4, 4096)), 16),
        (Layout((3, 256, 256), (262144, 4, 1024)), 6),
        (Layout((16, 64, 64), (16384, 4, 256)), 16),
    ],
)
def test_transpositions_are_divided(layout, parts):
    assert list_parts(bind_contiguous(layout)) == parts


@pytest.mark.parametrize(
    ("shape", "strides", "parts"),
    [
        ((4, 1 << 14), (1 << 18, 8), 4),
        ((4, (1 << 14) - 1), (1 << 18, 8), 1),
        ((64, 1 << 14), (1 << 18, 8), 16),
        ((1 << 16,), (8,), 1),
        ((4, 1 << 14), (1 << 16, 4), 1),  # one axis, since all elements follow each other
    ],
)
def test_functions_of_large_values_are_divided_along_their_first_axis(shape, strides, parts):
    result = StridedLayout(shape, np.empty(shape, np.float32).strides, F32)
    assert count_parts(make_nest(Copy(), shape, [result], [StridedLayout(shape, strides, F32)])) == parts


def check_cover(ranges, total):
    """Assert that ranges follow each other and cover all numbers."""
    assert ranges[0][0] == 0
    assert ranges[-1][1] == total
    assert all(a < b for a, b in ranges)
    assert all(a[1] == b[0] for a, b in itertools.pairwise(ranges))


SIZES = [1, 7, 8, 64, 100, 127, 128, 129, 500, 1000, 4096]


@pytest.mark.parametrize("count", SIZES)
@pytest.mark.parametrize("inner", [1, 64, 768, 5000])
def test_products_are_divided_into_blocks_of_rows_and_sections_of_columns(count, inner):
    lanes = compiler.get_lanes()
    tile = products.get_tile()[1] * lanes
    for columns in (1, 16, 63, 64, 65, 200, 1024, 3000):
        blocks, sections = products._divide(count, inner, columns, tile)
        check_cover(blocks, count)
        check_cover(sections, columns)
        assert all(a % 8 == 0 for a, _ in blocks)
        assert all(a % tile == 0 for a, _ in sections)
        assert len(sections) == 1 or sections[-1][1] - sections[-1][0] > lanes
        parts = len(blocks) * len(sections)
        assert parts <= max(products.MAX_PARTS, len(blocks))
        work = count * inner * columns
        few = count * inner * columns < products.MIN_PART_WORK and inner * columns < products.MIN_PART_WEIGHTS
        assert not few or len(sections) == 1
        # Where there is enough work, there are as many parts as a few threads need, unless rows or columns are few.
        wanted = min(products.FEW_PARTS, work // products.MIN_PART_WORK)
        assert parts >= wanted or blocks[0][1] <= products.MIN_SHORT_ROWS or parts * products.MIN_SHORT_ROWS >= count


@pytest.mark.parametrize(
    ("count", "inner", "columns", "blocks", "sections"),
    [
        (1, 64, 512, 1, 1),
        (1, 1024, 1024, 1, 16),  # parts of 65,536 weights for few rows
        (4, 1024, 1024, 1, 4),  # parts of 1,048,576 multiplications
        (128, 64, 64, 1, 1),
        (256, 64, 256, 1, 4),
        (256, 64, 128, 1, 2),
        (4096, 64, 16, 4, 1),  # there are no more columns to divide
        (3000, 64, 16, 2, 1),
    ],
)
def test_products_have_parts_of_the_documented_size(count, inner, columns, blocks, sections):
    found = products._divide(count, inner, columns, 16)
    assert tuple(map(len, found)) == (blocks, sections)


@pytest.mark.parametrize("count", SIZES)
@pytest.mark.parametrize("inner", [4, 64, 768, 5000])
def test_products_of_codes_are_divided(count, inner):
    for columns, tile in itertools.product((4, 60, 64, 200, 1024), (16, 64)):
        blocks, sections = quantized_products._divide(count, inner, columns, tile)
        check_cover(blocks, count)
        check_cover(sections, columns)
        assert all(a % 8 == 0 for a, _ in blocks)
        assert all(a % tile == 0 for a, _ in sections)
        limit = max(128, (256 << 10) // inner)
        assert max(b - a for a, b in blocks) < limit + 8
        assert len(blocks) == -(-count // limit) or len(blocks) < -(-count // limit) + 1
        work = min(count, blocks[0][1]) * inner * columns
        assert len(sections) <= max(1, min(16 // len(blocks), -(-work // (1 << 20))))


@pytest.mark.parametrize(("rows", "columns"), [(1, 1), (4, 9), (7, 30), (56, 56), (3, 200)])
@pytest.mark.parametrize("limit", [1, 5, 16, 100, 10000])
def test_tiles_are_divided_into_blocks(rows, columns, limit):
    covered = np.zeros((rows, columns), int)
    blocks = winograd._divide_tiles(rows, columns, limit)
    for block in blocks:
        covered[block.row : block.row + block.rows, block.column : block.column + block.columns] += 1
        assert 0 < block.rows * block.columns <= limit
    assert (covered == 1).all()
    heights, widths = {block.rows for block in blocks}, {block.columns for block in blocks}
    assert max(heights) - min(heights) <= 1
    assert max(widths) - min(widths) <= 1
    assert rows * columns > limit or len(blocks) == 1


@pytest.mark.parametrize("channels", [1, 16, 17, 32, 33, 48, 64, 100, 256, 500])
def test_panels_are_divided_into_equal_sections(channels):
    panels = products.divide_columns(channels)
    starts = [start for start, _ in panels]
    lanes, vectors = compiler.get_lanes(), products.get_tile()[1]
    total = -(-channels // lanes)
    assert sum(width for _, width in panels) == lanes * total
    assert all(a + n == b for (a, n), b in itertools.pairwise([*panels, (lanes * total, 0)]) for b in [b[0]])
    assert max(width for _, width in panels) <= vectors * lanes
    assert total == 1 or min(width for _, width in panels) > lanes
    for count in (1, 2, 3, 4, winograd.MAX_PARTS):
        sections = winograd._divide_panels(channels, count)
        check_cover(sections, channels)
        sizes = {sum(a <= start < b for start in starts) for a, b in sections}
        assert len(sizes) == 1
        wanted = count if count in (1, winograd.MAX_PARTS) else 2 * count
        assert len(sections) >= min(wanted, len(starts))
        assert count > 1 or len(sections) == 1


def test_blocks_in_use_at_the_same_time_are_apart():
    random = np.random.default_rng(0)
    for _ in range(200):
        blocks = []
        for _ in range(random.integers(1, 12)):
            first = int(random.integers(0, 10))
            blocks.append(Block(int(random.integers(1, 300)), first, first + int(random.integers(0, 5))))
        total = place_blocks(blocks)
        ends = []
        for block in blocks:
            assert block.place.base == 0
            assert block.place.offset % 64 == 0
            ends.append(block.place.offset + align_size(block.size))
        assert total == max(ends)
        for (a, end), (b, other_end) in itertools.combinations(zip(blocks, ends, strict=True), 2):
            is_used_together = a.first <= b.last and b.first <= a.last
            assert not is_used_together or end <= b.place.offset or other_end <= a.place.offset
        busiest = max(sum(align_size(b.size) for b in blocks if b.first <= n <= b.last) for n in range(16))
        assert total >= busiest


def test_memory_of_earlier_values_is_used_again():
    blocks = [Block(100, 0, 1), Block(300, 1, 2), Block(100, 2, 3), Block(64, 2, 2)]
    assert place_blocks(blocks) == 128 + 320 + 64
    assert [block.place.offset for block in blocks] == [0, 128, 0, 448]
    exact = [Block(128, 0, 0), Block(64, 0, 5), Block(128, 1, 1)]
    assert place_blocks(exact) == 192
    assert [block.place.offset for block in exact] == [0, 128, 0]


def test_members_of_a_block_use_its_memory():
    inner, middle, outer = Block(8, 3, 4), Block(16, 5, 5), Block(64, 6, 6)
    middle.join(outer, 32)
    inner.join(middle, 8)
    assert (outer.first, outer.last) == (3, 6)
    assert inner.find_owner() == (outer, 40)
    inner.use(9)
    inner.use(1)
    assert (outer.first, outer.last, middle.first, middle.last) == (1, 9, 1, 9)


def draw_geometry(random):
    """Return windows of any kind: pointwise, of one row, or others."""
    kind = random.integers(0, 3)
    size = tuple(random.integers(8, 200, 2).tolist())
    if kind == 0:
        return Geometry(size, (1, 1), (1, 1), (1, 1), (0, 0), (0, 0))
    kernel, strides, dilations = (tuple(random.integers(1, 4, 2).tolist()) for _ in range(3))
    begin, end = (tuple(random.integers(0, 3, 2).tolist()) for _ in range(2))
    if kind == 1:
        length = int(random.integers(20, 5000))
        return Geometry((1, length), (1, kernel[1]), (1, strides[1]), (1, dilations[1]), (0, begin[1]), (0, end[1]))
    return Geometry(size, kernel, strides, dilations, begin, end)


@pytest.mark.parametrize("seed", range(60))
def test_plans_of_convolutions_cover_all_results(seed):
    random = np.random.default_rng(seed)
    geometry = draw_geometry(random)
    in_channels, out_channels, images = (int(n) for n in random.integers(1, (300, 300, 4)))
    plan = convolution_plan.Plan(geometry, in_channels, out_channels, images)
    height, width = geometry.output
    rows = get_tile()[0]
    check_cover(plan.sections, out_channels)
    assert all(first % rows == 0 for first, _ in plan.sections)
    check_cover(plan.ranges, len(plan.blocks))
    is_line = geometry.is_line and not geometry.is_pointwise
    total = height * width if geometry.is_pointwise else width if is_line else height
    check_cover([(block.first, block.last) for block in plan.blocks], total)
    for block in plan.blocks:
        starts, _, sizes = block.tiles.T
        np.testing.assert_array_equal(starts, [0, *np.cumsum(sizes)[:-1]])
        pixels = (block.last - block.first) * plan.columns - (0 if is_line else geometry.halo[1])
        assert sizes.sum() == pixels
        assert plan.is_direct or plan.length >= pixels + 16 * 3  # vectors may extend beyond the last pixel
    # parts of at least 524,288 multiplications, at most 16
    work = math.prod(geometry.output) * math.prod(geometry.kernel) * in_channels * out_channels * images
    assert plan.part_count == max(1, min(16, work >> 19))
    assert len(plan.ranges) * len(plan.sections) <= max(len(plan.ranges), -(-plan.part_count // images))
    if geometry.is_pointwise:
        assert (plan.panel_size, plan.is_shared, plan.columns, plan.row_size) == (0, False, 1, 1)
        np.testing.assert_array_equal(plan.offsets[0], np.arange(in_channels) * (height * width))
        return
    assert plan.is_shared == (len(plan.sections) > 1)
    assert not plan.is_shared or plan.panel_size * len(plan.blocks) * images <= 1 << 22
    assert plan.row_size == (1 if is_line else width)
    assert plan.columns == (1 if is_line else width + geometry.halo[1])
    copied = [block.last - block.first + geometry.halo[is_line] for block in plan.blocks]
    assert plan.panel_size == max(copied) * plan.columns * len(geometry.phases) * in_channels
    assert set(plan.offsets) == set(copied)
    for count, offsets in plan.offsets.items():
        assert len(offsets) == in_channels * math.prod(geometry.kernel)
        assert offsets.min() >= 0
        assert len(set(offsets.tolist())) == len(offsets)  # each element of the panel is one of the data
        assert offsets.max() < count * plan.columns * len(geometry.phases) * in_channels
    # a block fits into 384 KiB, unless it has one row or vector, or 640 KiB are not divided
    per_row = plan.panel_size // max(copied)
    is_small = per_row * (total + geometry.halo[is_line]) <= 160 << 10
    least = get_tile()[1] * compiler.get_lanes() if is_line else 1
    limit = (96 << 10) + 8 * per_row * is_line  # tiles of a line may have extra pixels
    assert is_small or plan.panel_size <= limit or max(b.last - b.first for b in plan.blocks) <= least + 8


@pytest.mark.parametrize(("channels", "count"), [(8, 16), (48, 3), (56, 3), (64, 1), (72, 1)])
def test_rows_are_divided_if_there_are_too_few_tiles_of_channels(channels, count, monkeypatch):
    """There are 16 parts, and tiles have 8 channels."""
    for module in (convolution_plan, convolution_tiles):
        monkeypatch.setattr(module, "get_lanes", lambda: 16)
    geometry = Geometry((40, 40), (3, 3), (1, 1), (1, 1), (1, 1), (1, 1))
    plan = convolution_plan.Plan(geometry, 128 if channels == 8 else 16, channels, 1)
    assert (plan.part_count, len(plan.blocks)) == (16, count)


def test_sections_share_rows_that_are_small(monkeypatch):
    geometry = Geometry((40, 40), (3, 3), (1, 1), (1, 1), (1, 1), (1, 1))
    plan = convolution_plan.Plan(geometry, 16, 64, 1)
    size = plan.panel_size * len(plan.blocks)
    for limit, is_shared in ((size, True), (size - 1, False)):
        monkeypatch.setattr(convolution_plan, "MAX_SHARED_SIZE", limit)
        plan = convolution_plan.Plan(geometry, 16, 64, 1)
        assert plan.is_shared == (len(plan.sections) > 1) == is_shared


def test_products_have_memory_for_a_tile_of_f32():
    product = products.Product(np.ones((64, 50), F32))
    size = 4 * products.get_tile_size()
    task = product.make_rows_task([(9, 0, 64, 0, 1)], Expression((), ()))
    assert task.scratch_size == size
    kernel = ProductKernel(2, np.ones((64, 50), F32), (), [])
    assert [task.scratch_size for task in bind(kernel, (9, 64)).tasks] == [size]


def test_sums_of_quantized_products_are_limited(monkeypatch):
    monkeypatch.setattr(quantized_kernels, "MAX_PRODUCTS", 28)
    for inner, is_supported in ((28, True), (24, True), (32, False), (26, False)):
        arguments = (np.ones((4, inner), np.int8), np.ones(4), 2, FORMAT, (), [], False)
        if is_supported:
            QuantizedProductKernel(*arguments)
        else:
            with pytest.raises(NoKernelError, match="expected rows of a multiple of 4 with one scale"):
                QuantizedProductKernel(*arguments)


@pytest.mark.parametrize("seed", range(40))
def test_plans_of_winograds_algorithm_cover_all_results(seed):
    random = np.random.default_rng(seed)
    pads, extent = (tuple(random.integers(low, high, 2).tolist()) for low, high in ((0, 3), (4, 120)))
    geometry = Geometry(extent, (3, 3), (1, 1), (1, 1), pads, (1, 0))
    in_channels, out_channels = (int(n) for n in random.integers(1, 300, 2))
    size, lanes = (2, 4)[seed % 2], compiler.get_lanes()
    plan = winograd._Plan(geometry, in_channels, out_channels, size)
    rows, columns = (-(-n // size) for n in geometry.output)
    covered = np.zeros((rows, columns), int)
    for block in plan.blocks:
        covered[block.row : block.row + block.rows, block.column : block.column + block.columns] += 1
    assert (covered == 1).all()
    check_cover(plan.sections, out_channels)
    check_cover(plan.pieces, in_channels)
    assert all(first % lanes == 0 for first, _ in (*plan.sections, *plan.pieces))
    assert 1 <= plan.part_count <= 8
    assert len(plan.sections) == 1 or len(plan.blocks) < plan.part_count
    # transformed data, a block of pixels, one of results and the products have their own memory
    positions = (size + 2) ** 2
    padded = {block: -(-(block.columns * size + 2) // lanes) * lanes for block in plan.blocks}
    pixels = 4 * lanes * max((block.rows * size + 2) * padded[block] for block in plan.blocks)
    results = 4 * lanes * max(block.rows * size * padded[block] for block in plan.blocks)
    width = max(-(-(last - first) // lanes) * lanes for first, last in plan.sections)
    tiles = max(plan.count_rows(block) for block in plan.blocks)
    products_size = 4 * positions * (tiles * width + lanes)
    assert plan.planes_offset == align_size(pixels)
    assert plan.products_offset - plan.planes_offset == align_size(results)
    assert plan.work_size - plan.products_offset == align_size(products_size)
    for block in plan.blocks:
        assert block.rows * block.columns <= plan.count_rows(block) < block.rows * block.columns + 8
        distance, step = plan.get_strides(block)
        assert in_channels <= distance < in_channels + lanes
        assert step == plan.count_rows(block) * distance + lanes
        assert positions * step <= plan.data_size
        last = plan.describe_result(block, 10_000, 5)
        height, length = last[3:5]
        assert block.row * size + height <= geometry.output[0]
        assert block.column * size + length <= geometry.output[1]
        assert last[5:] == (10_000, block.row * size * geometry.output[1] + block.column * size, geometry.output[1], 5)
        assert plan.describe_data(block)[4:6] == (block.row * size - pads[0], block.column * size - pads[1])
    assert plan.data_size == positions * max(plan.get_strides(block)[1] for block in plan.blocks)


def lay_out_all(*shapes):
    return [make_layout(shape) for shape in shapes]


@pytest.mark.parametrize(
    ("shape", "parts"),
    [((1, 511, 64), 1), ((1, 512, 64), 2), ((1, 1 << 13, 64), 16), ((1, 2, 1 << 16), 2), ((4, 512, 64), 8)],
)
def test_rotations_of_halves_are_divided_into_parts_of_16384_elements(shape, parts):
    assert list_parts(RotaryKernel(3).bind(lay_out_all(shape, shape, shape))) == parts


@pytest.mark.parametrize(
    ("shape", "axis", "parts"),
    [
        ((8, 2047), 0, 1),
        ((8, 2048), 0, 2),
        ((8, 4096), 0, 4),
        ((256, 64), 0, 2),  # vectors are not divided
        ((3, 8, 2048), 1, 6),
        ((1024, 2, 64), 1, 16),  # of 64 runs each
    ],
)
def test_softmax_of_columns_is_divided_into_parts_of_8192_elements(shape, axis, parts):
    assert list_parts(ColumnSoftmaxKernel(len(shape), axis).bind(lay_out_all(shape))) == parts
    if parts == 16:
        with pytest.raises(NoKernelError, match="the runs of columns are too short"):
            ColumnSoftmaxKernel(3, 1).bind(lay_out_all((1025, 2, 64)))


@pytest.mark.parametrize(("size", "parts"), [(1, 1), ((1 << 17) - 1, 1), (1 << 17, 2), (1 << 20, 16), (1 << 24, 16)])
def test_conversions_are_divided_into_parts_of_65536_elements(size, parts):
    assert count_parts(conversion._make_widening_task(size)) == parts


@pytest.mark.parametrize(
    ("rows", "inner", "bounds"),
    [
        (1024, 1023, [0, 1024]),
        (1024, 1024, [0, 512, 1024]),
        (1001, 1536, [0, 504, 1001]),
        (3, 1 << 20, [0, 3]),
        (1 << 14, 1 << 10, range(0, (1 << 14) + 1, 1 << 10)),
    ],
)
def test_compressed_weights_are_divided_into_parts_of_whole_groups_of_rows(rows, inner, bounds):
    parts = compressed._divide(rows, inner)
    assert [parts[0][0], *(last for _, last in parts)] == list(bounds)
    assert all(first % compressed.ROWS == 0 for first, _ in parts)


@pytest.mark.parametrize(
    ("extent", "size", "channels", "blocks"),
    [
        (20, 4, (32, 32), 2),  # the transforms take longer than the products
        (20, 4, (32, 16), 1),  # too little work
        (10, 2, (64, 64), 2),
        (40, 4, (16, 16), 4),
        (4, 4, (60, 60), 1),  # one row of tiles
        (12, 4, (64, 64), 1),  # large filters: the positions of the products are divided instead
    ],
)
def test_small_maps_of_winograds_algorithm_are_divided_into_rows_of_tiles(extent, size, channels, blocks):
    geometry = Geometry((extent, extent), (3, 3), (1, 1), (1, 1), (1, 1), (1, 1))
    assert len(winograd._Plan(geometry, channels[0], channels[1], size).blocks) == blocks


@pytest.mark.parametrize(("planes", "parts"), [(1, 1), (3, 1), (4, 2), (31, 15), (100, 16)])
def test_interpolations_are_divided_into_parts_of_16384_results(planes, parts):
    taps = interpolation._find_taps(np.kron(np.eye(32, dtype=np.float32), np.ones((3, 1), np.float32))[:96])
    plan = interpolation._Plan(taps, interpolation._find_taps(np.eye(88, dtype=np.float32)))
    task, count = plan.make_task(planes)
    assert count_parts(task) == count == parts
