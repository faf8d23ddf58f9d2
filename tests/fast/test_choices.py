"""Which implementation computes what, on both sides of the limits that docs/speed.md states."""

from __future__ import annotations

import numpy as np
import pytest

from fast.harness import calls_plain, find_operation
from irrun.element_types import ELEMENT_TYPES
from irrun.errors import InputError
from irrun.fast import support
from irrun.fast.arithmetic import specialize_ufunc
from irrun.fast.convolution import METHODS, ConvolutionKernel
from irrun.fast.convolution_products import view_windows
from irrun.fast.dot_product_attention import _divide
from irrun.fast.elementwise import ElementwiseChain, Operand, Step
from irrun.fast.errors import NoKernelError
from irrun.fast.methods import MethodEntry, choose_method
from irrun.fast.packing import PackedMemory
from irrun.fast.specialization import CallSite, specialize

F32 = np.float32


def zeros(*shape):
    return np.zeros(shape, F32)


def ints(*values):
    return np.array(values, np.int64)


def make_convolution(filters, rank, limit=1 << 28, **attributes):
    """Return the kernel of a convolution with filters of a shape [GROUPS, C_OUT, C_IN, kernel...]."""
    defaults = {"strides": [1] * rank, "dilations": [1] * rank, "pads_begin": [0] * rank, "pads_end": [0] * rank}
    return ConvolutionKernel(zeros(*filters), {**defaults, **attributes}, PackedMemory(limit))


#: Padding that keeps the shape with windows of 3x3.
SAME = {"pads_begin": [1, 1], "pads_end": [1, 1]}
#: Method, data, filters [GROUPS, C_OUT, C_IN, kernel...], attributes.
CONVOLUTIONS = [
    # rows as long as the data
    ("shifted", (1, 1000, 9, 9), (1000, 1, 1, 3, 3), SAME),
    ("banded", (1, 1000, 8, 8), (1000, 1, 1, 3, 3), SAME),
    ("banded", (1, 1000, 9, 9), (1000, 1, 1, 3, 3), {}),
    ("shifted", (1, 1000, 9, 9), (1000, 1, 1, 3, 2), {"pads_end": [0, 1]}),
    ("banded", (1, 1000, 9, 9), (1000, 1, 1, 3, 4), {"pads_end": [0, 3]}),
    ("taps", (1, 1000, 9, 15), (1000, 1, 1, 3, 1), {}),
    ("shifted", (1, 64, 64, 64), (64, 1, 1, 3, 3), {**SAME, "strides": [2, 2]}),
    ("banded", (1, 64, 62, 62), (64, 1, 1, 3, 3), {**SAME, "strides": [2, 2]}),
    ("banded", (1, 64, 63, 65), (64, 1, 1, 3, 3), {**SAME, "strides": [2, 2]}),
    ("banded", (1, 100, 96, 96), (100, 1, 1, 3, 3), {**SAME, "strides": [3, 3]}),
    ("banded", (1, 100, 32, 32), (100, 1, 1, 3, 3), {"dilations": [1, 2], "pads_begin": [0, 2], "pads_end": [0, 2]}),
    # at least 32,768 results, and at most 262,144 per channel
    ("shifted", (1, 32, 32, 32), (32, 1, 1, 3, 3), SAME),
    ("banded", (1, 31, 32, 32), (31, 1, 1, 3, 3), SAME),
    ("shifted", (1, 2, 512, 512), (2, 1, 1, 3, 3), SAME),
    ("taps", (1, 2, 513, 512), (2, 1, 1, 3, 3), SAME),
    ("taps", (1, 32, 1, 1024), (32, 1, 1, 1, 3), {"pads_begin": [0, 1], "pads_end": [0, 1]}),
    # at most 11 results in a row
    ("banded", (1, 2, 3, 13), (2, 1, 1, 3, 3), {}),
    ("taps", (1, 2, 3, 14), (2, 1, 1, 3, 3), {}),
    ("banded", (1, 2, 13), (2, 1, 1, 3), {}),
    ("taps", (1, 2, 14), (2, 1, 1, 3), {}),
    # at least 6 rows
    ("banded", (1, 2, 8, 14), (2, 1, 1, 3, 3), {}),
    ("taps", (1, 2, 7, 14), (2, 1, 1, 3, 3), {}),
    # at most 16,384 results per channel
    ("banded", (1, 2, 128, 129), (2, 1, 1, 1, 2), {}),
    ("taps", (1, 2, 127, 131), (2, 1, 1, 1, 2), {}),
    # windows of two or more columns
    ("banded", (1, 2, 8, 13), (2, 1, 1, 3, 2), {}),
    ("taps", (1, 2, 8, 12), (2, 1, 1, 3, 1), {}),
    # segments that cover at most 64 columns
    ("banded", (1, 2, 8, 64), (2, 1, 1, 3, 4), {"strides": [1, 4]}),
    ("taps", (1, 2, 8, 65), (2, 1, 1, 3, 5), {"strides": [1, 4]}),
    ("banded", (1, 2, 8, 64), (2, 1, 1, 3, 4), {"dilations": [1, 16]}),
    ("taps", (1, 2, 8, 65), (2, 1, 1, 3, 2), {"dilations": [1, 49]}),
    # strides and dilations along the same axis
    ("taps", (1, 2, 5, 40), (2, 1, 1, 2, 2), {"strides": [2, 1], "dilations": [1, 2]}),
    ("columns", (1, 2, 5, 40), (2, 1, 1, 2, 2), {"strides": [1, 2], "dilations": [1, 2]}),
    ("columns", (1, 2, 5, 40), (2, 1, 1, 2, 2), {"strides": [2, 1], "dilations": [2, 1]}),
    # not depthwise
    ("columns", (1, 1, 9, 9), (1, 1, 1, 3, 3), {}),
    ("columns", (1, 4, 9, 9), (2, 1, 2, 3, 3), {}),
    ("columns", (1, 2, 9, 9), (2, 2, 1, 3, 3), {}),
    ("columns", (1, 2, 4, 9, 9), (2, 1, 1, 3, 3, 3), {}),
    ("columns", (1, 1, 13), (1, 1, 1, 3), {}),
    ("columns", (1, 4, 13), (2, 1, 2, 3), {}),
    ("columns", (1, 2, 13), (2, 2, 1, 3), {}),
    # maps of one element, up to 1,048,576 multiplications
    ("vector", (1, 1024, 1, 1), (1, 1024, 1024, 1, 1), {}),
    ("product", (2, 1024, 1, 1), (1, 1024, 1024, 1, 1), {}),
    ("product", (1, 1024, 1, 1), (1, 1025, 1024, 1, 1), {}),
    ("vector", (2, 3, 1), (1, 4, 3, 1), {}),
    ("vector", (2, 3, 1, 1, 1), (1, 4, 3, 1, 1, 1), {}),
    ("vector", (2, 3, 1, 1), (1, 4, 3, 1, 1), {"strides": [2, 2]}),
    ("product", (2, 6, 1, 1), (2, 4, 3, 1, 1), {}),
    ("product", (2, 3, 1, 2), (1, 4, 3, 1, 1), {"strides": [1, 2]}),
    ("product", (2, 3, 1, 1), (1, 4, 3, 1, 1), {"pads_end": [0, 1]}),
    ("columns", (2, 3, 1, 1), (1, 4, 3, 1, 3), {"pads_begin": [0, 1], "pads_end": [0, 1]}),
    # windows of one element
    ("product", (1, 3, 5, 6), (1, 4, 3, 1, 1), {}),
    ("product", (1, 6, 5, 6), (2, 4, 3, 1, 1), {"strides": [2, 2]}),
    ("columns", (1, 3, 5, 6), (1, 4, 3, 1, 2), {}),
    ("columns", (1, 3, 5, 6), (1, 4, 3, 2, 1), {}),
    # 16 channels and 25 tiles
    ("Winograd", (1, 16, 12, 12), (1, 16, 16, 3, 3), {}),
    ("Winograd", (1, 16, 11, 11), (1, 16, 16, 3, 3), {}),
    ("columns", (1, 16, 10, 11), (1, 16, 16, 3, 3), {}),
    ("columns", (1, 16, 11, 10), (1, 16, 16, 3, 3), {}),
    ("columns", (1, 15, 12, 12), (1, 16, 15, 3, 3), {}),
    ("columns", (1, 16, 12, 12), (1, 15, 16, 3, 3), {}),
    ("columns", (1, 32, 12, 12), (2, 16, 16, 3, 3), {}),
    ("columns", (1, 16, 30, 30), (1, 16, 16, 3, 3), {"strides": [1, 2]}),
    ("columns", (1, 16, 30, 30), (1, 16, 16, 3, 3), {"strides": [2, 1]}),
    ("columns", (1, 16, 30, 30), (1, 16, 16, 3, 3), {"dilations": [1, 2]}),
    ("columns", (1, 16, 30, 30), (1, 16, 16, 3, 3), {"dilations": [2, 1]}),
    ("columns", (1, 16, 30, 30), (1, 16, 16, 3, 2), {}),
    ("columns", (1, 16, 30), (1, 16, 16, 3), {}),
]


@pytest.mark.parametrize(("method", "data", "filters", "attributes"), CONVOLUTIONS, ids=str)
def test_convolution_is_computed_by_the_documented_method(method, data, filters, attributes):
    assert make_convolution(filters, len(data) - 2, **attributes).choose(data).entry.name.startswith(method)


@pytest.mark.parametrize(
    ("data", "filters", "size"),
    [
        ((1, 16, 12, 12), (1, 16, 16, 3, 3), 16 * 4 * 16 * 16),
        # 40 channels, blocks of 6 rows that depend on 8 rows, 3 columns of the filter; the first and last block apart
        ((1, 40, 30, 32), (40, 1, 1, 3, 3), 4 * 40 * 6 * 3 * (8 + 7 + 7)),
        # 6 channels, 3 rows of the filter, a segment of 16 results that covers 18 columns, or two for 17 results
        ((1, 6, 8, 18), (6, 1, 1, 3, 3), 4 * 6 * 3 * 18 * 16),
        ((1, 6, 8, 19), (6, 1, 1, 3, 3), 4 * 6 * 3 * 11 * 9),
        # up to and above 768 KiB
        ((1, 256, 8, 18), (256, 1, 1, 3, 3), 4 * 256 * 3 * 10 * 8),
        ((1, 227, 8, 18), (227, 1, 1, 3, 3), 4 * 227 * 3 * 18 * 16),
        ((1, 228, 8, 18), (228, 1, 1, 3, 3), 4 * 228 * 3 * 10 * 8),
        # windows of more than three rows
        ((1, 256, 9, 18), (256, 1, 1, 4, 3), 4 * 256 * 4 * 18 * 16),
    ],
    ids=str,
)
def test_prepared_filters_count_the_documented_memory(data, filters, size):
    """They are used up to the last byte of the limit."""
    attributes = SAME if filters[0] == 40 else {}
    kernel = make_convolution(filters, 2, size, **attributes)
    name = kernel.choose(data).entry.name
    assert name.startswith(("shifted", "banded", "Winograd"))
    kernel(zeros(*data))
    assert kernel._packed.used == size
    assert not make_convolution(filters, 2, size - 1, **attributes).choose(data).entry.name.startswith(name)


def gather_table(shape, count):
    return [zeros(*shape), np.zeros(count, np.int64), np.array(0)]


SHORT = {"keep_dims": False}
TOP = {"axis": -1, "mode": "max", "sort": "value"}
RESIZE = {"mode": "linear_onnx", "shape_calculation_mode": "sizes"}
NORMALIZE = {"eps": 1e-5, "eps_mode": "inside_sqrt", "normalize_variance": True}
REDUCTIONS = ("ReduceSum-1", "ReduceProd-1", "ReduceMean-1", "ReduceMax-1", "ReduceMin-1", "ReduceL1-4", "ReduceL2-4")
#: Whether the definition computes the operation; its inputs, attributes and constants.
CASES = [
    *[(is_plain, name, [zeros(*shape), ints(axis)], SHORT, (1,))
      for name in REDUCTIONS
      for is_plain, shape, axis in ((True, (128, 16), 1), (True, (128, 16), -1), (True, (2, 64, 16), 2),
                                    (False, (127, 16), 1), (False, (128, 17), 1), (False, (128, 17), -1),
                                    (False, (16, 128), 0), (False, (16, 128), -2), (False, (2, 16, 64), 1))],
    *[(False, name, [zeros(128, 16), ints(0, 1)], SHORT, (1,)) for name in REDUCTIONS],
    *[(is_plain, name, [zeros(*shape)], {"axis": axis}, ())
      for name in ("Softmax-8", "LogSoftmax-5")
      for is_plain, shape, axis in ((True, (128, 16), 1), (True, (128, 16), -1), (True, (2, 64, 16), 2),
                                    (False, (127, 16), 1), (False, (128, 17), -1), (False, (16, 128), 0))],
    (False, "TopK-3", [zeros(2, 512), np.array(2)], TOP, (1,)),
    (True, "TopK-3", [zeros(2, 513), np.array(2)], TOP, (1,)),
    (False, "TopK-3", [zeros(2, 513), np.array(1)], TOP, (1,)),
    (False, "TopK-3", [zeros(2, 5), np.array(5)], TOP, (1,)),
    (False, "TopK-3", [zeros(2, 5), np.array(2)], {**TOP, "axis": 1}, (1,)),
    (True, "TopK-3", [zeros(5, 2), np.array(2)], {**TOP, "axis": 0}, (1,)),
    (False, "Interpolate-11", [zeros(1, 2, 4096), ints(2, 2), ints(1, 2)], RESIZE, (1, 2)),
    (False, "Interpolate-11", [zeros(1, 2, 3), ints(3, 4096), ints(1, 2)], RESIZE, (1, 2)),
    (False, "Interpolate-11", [zeros(1, 2, 3), ints(4096, 3), ints(1, 2)], RESIZE, (1, 2)),
    (True, "Interpolate-11", [zeros(1, 2, 4097), ints(2, 2), ints(1, 2)], RESIZE, (1, 2)),
    (True, "Interpolate-11", [zeros(1, 2, 3), ints(3, 4097), ints(1, 2)], RESIZE, (1, 2)),
    (True, "Interpolate-11", [zeros(1, 2, 3), ints(4097, 3), ints(1, 2)], RESIZE, (1, 2)),
    (False, "Interpolate-11", [zeros(2, 2, 3), ints(2, 4, 6)], RESIZE, (1,)),
    (True, "Interpolate-11", [zeros(2, 2, 3), ints(4, 4, 6)], RESIZE, (1,)),
    (True, "Interpolate-11", [zeros(2, 3), ints(4, 6)], RESIZE, (1,)),
    (False, "Interpolate-11", [zeros(1, 2, 3), ints(4, 6), ints(1, 2)], {**RESIZE, "mode": "nearest"}, (1, 2)),
    (True, "Interpolate-11", [zeros(1, 2, 3), ints(3, 6), ints(1, 2)], {**RESIZE, "mode": "nearest"}, (1, 2)),
    (True, "Interpolate-11", [zeros(1, 2, 3), ints(4, 7), ints(1, 2)], {**RESIZE, "mode": "nearest"}, (1, 2)),
    *[(is_plain, "Broadcast-3", [zeros(1, 4), ints(rows, 4)], {"mode": "numpy"}, constants)
      for is_plain, rows in ((False, 1 << 13), (True, 8193)) for constants in ((1,), (0,), ())],
    *[(is_plain, "Range-4", [np.array(v) for v in bounds], {"output_type": ELEMENT_TYPES["i64"]}, (0,))
      for is_plain, *bounds in ((False, 0, (1 << 20) - 1, 1), (True, 0, 1 << 20, 1),
                                (False, 5, 6 - (1 << 20), -2), (True, 5, 5 - (1 << 20), -2))],
    (False, "Convert-1", [np.full(1, 2.0**30, F32)], {"destination_type": ELEMENT_TYPES["i32"]}, ()),
    (False, "Convert-1", [np.full(1, 2.0**30, F32)], {"destination_type": ELEMENT_TYPES["i64"]}, ()),
    (True, "Convert-1", [np.full(2, 2.0**30, F32)], {"destination_type": ELEMENT_TYPES["i32"]}, ()),
    (True, "Convert-1", [np.full(1, np.nan, F32)], {"destination_type": ELEMENT_TYPES["i32"]}, ()),
    *[(True, "Convert-1", [zeros(3)], {"destination_type": ELEMENT_TYPES[name]}, ())
      for name in ("i8", "i16", "u32", "u64", "f16")],
    *[(False, "Convert-1", [ints(3)], {"destination_type": ELEMENT_TYPES[name]}, ())
      for name in ("i8", "u32", "i64", "f32", "f64", "boolean")],
    *[(False, "Convert-1", [np.ones(3, bool)], {"destination_type": ELEMENT_TYPES[name]}, ())
      for name in ("i8", "u32", "f32", "f64", "boolean")],
    (False, "Gather-8", [zeros(9, 1), np.resize([1, 0], 1 << 16), np.array(0)], {}, (1, 2)),
    (True, "Gather-8", [zeros(9, 1), np.resize([1, 0], (1 << 16) + 1), np.array(0)], {}, (1, 2)),
]  # fmt: skip


@pytest.mark.parametrize(("is_plain", "name", "inputs", "attributes", "constants"), CASES, ids=lambda v: str(v)[:30])
def test_definition_computes_what_is_documented(is_plain, name, inputs, attributes, constants):
    outputs = 2 if name.startswith("TopK") else 1
    assert calls_plain(name, inputs, attributes, constants=constants, outputs=outputs) == is_plain


@pytest.mark.parametrize(
    ("name", "inputs", "attributes", "constants"),
    [
        # each index may take as much as the whole data
        ("Gather-8", [zeros(8, 2), np.resize([1, 0], 16), np.array(0)], {}, (1, 2)),
        ("Gather-8", [zeros(8, 2), np.zeros(16, np.int64), np.array(0)], {}, (2,)),
        ("Gather-8", [zeros(4, 4), np.zeros((4, 4), np.int64), np.array(1)], {"batch_dims": 1}, (2,)),
        ("Gather-8", [zeros(8, 2), np.zeros(128, np.int64), np.array(0)], {}, (0, 2)),
        ("Gather-8", [zeros(4, 2), np.zeros(64, np.int64), np.array(1)], {}, (0, 2)),
        ("Pad-12", [zeros(8, 2), ints(1, 2), ints(7, 12)], {"pad_mode": "constant"}, (1, 2)),
        ("Tile-1", [zeros(8, 2), ints(2, 8)], {}, (1,)),
    ],
    ids=str,
)
def test_definition_checks_results_of_unknown_size(name, inputs, attributes, constants, monkeypatch):
    """The results, or their bounds, take 1 KiB."""
    for module in ("movement", "shape"):
        monkeypatch.setattr(f"irrun.fast.{module}.MAX_BYTES", 1 << 10)
    assert not calls_plain(name, inputs, attributes, constants=constants)
    for module in ("movement", "shape"):
        monkeypatch.setattr(f"irrun.fast.{module}.MAX_BYTES", 1023)
    assert calls_plain(name, inputs, attributes, constants=constants)


@pytest.mark.parametrize(
    ("a", "b", "is_row_by_row"),
    [
        ((2, 3, 20, 20), (2, 3, 1, 1), True),
        ((2, 3, 1, 1), (2, 3, 20, 20), True),
        ((2, 3, 20, 20), (1, 3, 1, 1), True),
        ((2, 3, 1, 400), (2, 3, 1, 1), True),
        ((2, 3, 19, 21), (2, 3, 1, 1), False),
        ((2, 3, 1, 1), (2, 3, 19, 21), False),
        ((2, 3, 20, 20), (2, 3, 20, 1), False),
        ((2, 3, 20, 20), (2, 3, 1, 20), False),
        ((2, 3, 20, 1), (2, 3, 20, 20), False),
        ((2, 3, 1, 20), (2, 3, 20, 20), False),
        ((2, 3, 20, 20), (2, 3, 20, 20), False),
        ((3, 20, 20), (3, 1, 1), False),
        ((2, 3, 20, 20), (3, 1, 1), False),
    ],
)
def test_values_per_channel_are_computed_row_by_row(a, b, is_row_by_row):
    """NumPy's buffers are small if rows have 400 elements."""
    sizes = []

    def record(left, right):
        sizes.append(np.getbufsize())
        return left * right

    site = CallSite(find_operation("Multiply-1"), {}, (None, None), (False, False), output_count=1)
    before = np.getbufsize()
    specialize_ufunc(site, record, frozenset([np.dtype(F32)]))(zeros(*a), zeros(*b))
    assert sizes == [16 if is_row_by_row and support._settings is not None else before]
    assert np.getbufsize() == before


@pytest.fixture
def part_counts(monkeypatch):
    """Return the numbers of parts that the kernels of the test compute."""
    counts = []

    def run(function, count, batch=1):
        counts.append(count)
        for part in range(count):
            function(part)

    modules = ("convolution_products", "depthwise", "dot_product_attention", "elementwise", "interpolate")
    for module in (*modules, "normalization", "quantization", "support", "winograd"):
        monkeypatch.setattr(f"irrun.fast.{module}.run_parallel", run)
    return counts


#: Parts, data, filters [GROUPS, C_OUT, C_IN, kernel...].
PARTS = [
    # positions: 35 multiplications per nanosecond, and parts of 250 microseconds
    (1, (1, 32, 130, 131), (1, 32, 32, 1, 1)),
    (2, (1, 32, 131, 131), (1, 32, 32, 1, 1)),
    (4, (2, 32, 131, 131), (1, 32, 32, 1, 1)),
    (2, (1, 32, 184, 185), (1, 32, 32, 1, 1)),
    (4, (1, 32, 185, 185), (1, 32, 32, 1, 1)),
    # 64 positions for each channel
    (2, (1, 270, 32, 64), (1, 32, 270, 1, 1)),
    (1, (1, 270, 23, 89), (1, 32, 270, 1, 1)),
    # fewer positions: channels, in parts of twice the time
    (1, (1, 256, 22, 24), (1, 256, 256, 1, 1)),
    (2, (1, 256, 23, 24), (1, 256, 256, 1, 1)),
    (6, (3, 256, 23, 24), (1, 256, 256, 1, 1)),
    # groups
    (1, (1, 512, 16, 16), (4, 128, 128, 1, 1)),
    (2, (1, 512, 22, 24), (4, 128, 128, 1, 1)),
    (4, (1, 512, 22, 24), (4, 130, 128, 1, 1)),
]


@pytest.mark.parametrize(("parts", "data", "filters"), PARTS, ids=str)
def test_products_are_divided_into_parts_of_the_documented_time(parts, data, filters, part_counts):
    kernel = make_convolution(filters, len(data) - 2)
    assert kernel.choose(data).entry.name.startswith("product")
    kernel(zeros(*data))
    assert part_counts == [parts]


def compute_blocks(method, data, filters, **attributes):
    """Compute a convolution by a method and return the number of blocks of the result."""
    entry = next(entry for entry in METHODS if entry.name.startswith(method))
    problem = make_convolution(filters, len(data) - 2, **attributes)._make_problem(data)
    blocks = []
    result = np.empty((problem.batch, problem.groups * problem.c_out, problem.positions), F32)
    compute = entry.create(entry.prepare(zeros(*filters), problem), problem)
    compute(zeros(*data), result, lambda *place: blocks.append(place))
    return len(blocks)


#: Blocks, and parts in each nested computation, of a method, the data and the filters [GROUPS, C_OUT, C_IN, kernel...].
BLOCKS = [
    # Winograd: 256 tiles of 64 channels with one that is discarded in each row, or 16.8 million multiplications
    (1, [1, 1], "Winograd", (1, 64, 34, 32), (1, 64, 64, 3, 3)),
    (2, [2, 1, 1], "Winograd", (1, 64, 35, 32), (1, 64, 64, 3, 3)),
    (4, [4, 1, 1, 1, 1], "Winograd", (1, 64, 67, 32), (1, 64, 64, 3, 3)),
    (1, [1, 1], "Winograd", (1, 16, 130, 128), (1, 16, 16, 3, 3)),
    (2, [2, 1, 1], "Winograd", (1, 16, 131, 128), (1, 16, 16, 3, 3)),
    # a single block: its products
    (1, [1, 2], "Winograd", (1, 64, 34, 32), (1, 72, 64, 3, 3)),
    (1, [1, 4], "Winograd", (1, 128, 34, 32), (1, 128, 128, 3, 3)),
    (2, [2, 1, 1], "Winograd", (2, 64, 34, 32), (1, 72, 64, 3, 3)),
    # columns: 524,288 elements
    (1, [1, 1], "columns", (1, 16, 35, 67), (1, 8, 16, 4, 4)),
    (2, [2, 1, 1], "columns", (1, 16, 36, 67), (1, 8, 16, 4, 4)),
    (4, [4, 1, 1, 1, 1], "columns", (1, 16, 100, 67), (1, 8, 16, 4, 4)),
    # at least 64 windows
    (2, [2, 1, 1], "columns", (1, 1 << 13, 35, 7), (1, 1, 1 << 13, 4, 4)),
    # a single block: channels
    (1, [1, 1], "columns", (1, 16, 35, 67), (1, 133, 16, 4, 4)),
    (2, [2], "columns", (1, 16, 35, 67), (1, 134, 16, 4, 4)),
    (2, [2, 1, 1], "columns", (2, 16, 35, 67), (1, 134, 16, 4, 4)),
    # groups
    (1, [1], "columns", (1, 64, 19, 35), (4, 1, 16, 4, 4)),
    (2, [2], "columns", (1, 80, 19, 35), (5, 1, 16, 4, 4)),
    (4, [4], "columns", (1, 32, 36, 67), (2, 1, 16, 4, 4)),
    # banded products: 131,072 results, and 40 microseconds for each call of NumPy
    (1, [1], "banded", (1, 128, 34, 34), (128, 1, 1, 3, 3)),
    (2, [1], "banded", (1, 129, 34, 34), (129, 1, 1, 3, 3)),
    (4, [1], "banded", (1, 390, 34, 34), (390, 1, 1, 3, 3)),
    (4, [2], "banded", (1, 391, 34, 34), (391, 1, 1, 3, 3)),
    # taps: 65,536 elements, and 3 products of elements in a nanosecond
    (2, [1], "taps", (1, 32, 64, 64), (32, 1, 1, 3, 3)),
    (3, [1], "taps", (1, 33, 64, 64), (33, 1, 1, 3, 3)),
    (3, [1], "taps", (1, 43, 64, 64), (43, 1, 1, 3, 3)),
    (3, [2], "taps", (1, 44, 64, 64), (44, 1, 1, 3, 3)),
    (2, [1], "taps", (1, 17, 68, 68), (17, 1, 1, 7, 7)),
    (2, [2], "taps", (1, 18, 68, 68), (18, 1, 1, 7, 7)),
]


@pytest.mark.parametrize(("blocks", "parts", "method", "data", "filters"), BLOCKS, ids=str)
def test_convolution_is_divided_into_blocks_of_the_documented_size(blocks, parts, method, data, filters, part_counts):
    assert compute_blocks(method, data, filters) == blocks
    assert part_counts == parts


@pytest.mark.parametrize(
    ("data", "filters", "is_padded_at_once"),
    [
        ((1, 32, 128, 128), (2, 1, 16, 3, 3), True),
        ((1, 32, 129, 128), (2, 1, 16, 3, 3), False),
        ((2, 32, 128, 128), (1, 1, 32, 3, 3), True),
        ((1, 33, 128, 128), (1, 1, 33, 3, 3), False),
    ],
)
def test_small_data_is_padded_at_once(data, filters, is_padded_at_once, monkeypatch):
    """Up to 524,288 elements of an image; else the rows of each block are padded."""
    calls = []

    def record(*arguments):
        calls.append(arguments)
        return view_windows(*arguments)

    monkeypatch.setattr("irrun.fast.convolution_products.view_windows", record)
    blocks = compute_blocks("columns", data, filters)
    assert blocks > 1
    assert len(calls) == (1 if is_padded_at_once else blocks)


@pytest.mark.parametrize(
    ("blocks", "name", "inputs", "attributes", "constants"),
    [
        # rows with up to 65,536 elements
        ([], "Softmax-8", [zeros(64, 1024)], {"axis": 1}, ()),
        ([2], "Softmax-8", [zeros(65, 1024)], {"axis": 1}, ()),
        ([3], "LogSoftmax-5", [zeros(129, 1024)], {"axis": -1}, ()),
        ([], "Softmax-8", [zeros(65, 1024).T], {"axis": 0}, ()),
        ([3], "Softmax-8", [zeros(3, 40, 1000)], {"axis": 1}, ()),
        ([3], "Softmax-8", [zeros(3, 1, 65537)], {"axis": 2}, ()),
        ([], "Softmax-8", [zeros(40, 3000)], {"axis": 0}, ()),
        ([], "MVN-6", [zeros(64, 1024), ints(1)], NORMALIZE, (1,)),
        ([2], "MVN-6", [zeros(65, 1024), ints(1)], NORMALIZE, (1,)),
        ([2], "MVN-6", [zeros(13, 5, 1024), ints(-1)], NORMALIZE, (1,)),
        ([3], "MVN-6", [zeros(3, 5, 8000), ints(1, 2)], NORMALIZE, (1,)),
        ([], "MVN-6", [zeros(3, 5, 8000), ints(0, 2)], NORMALIZE, (1,)),
        ([4], "GroupNormalization-12", [zeros(2, 4, 200, 300), zeros(4), zeros(4)],
         {"num_groups": 2, "epsilon": 1e-5}, (1, 2)),
        # channels with up to 65,536 elements
        ([1], "FakeQuantize-1", [zeros(1, 64, 1024), *[np.full((64, 1), n, F32) for n in (0, 1, 0, 1)]],
         {"levels": 256}, (1, 2, 3, 4)),
        ([2], "FakeQuantize-1", [zeros(1, 65, 1024), *[np.full((65, 1), n, F32) for n in (0, 1, 0, 1)]],
         {"levels": 256}, (1, 2, 3, 4)),
        ([6], "FakeQuantize-1", [zeros(3, 65, 1024), *[np.full((65, 1), n, F32) for n in (0, 1, 0, 1)]],
         {"levels": 256}, (1, 2, 3, 4)),
        ([2], "FakeQuantize-1", [zeros(1, 2, 65537), *[np.full((2, 1), n, F32) for n in (0, 1, 0, 1)]],
         {"levels": 256}, (1, 2, 3, 4)),
        # 262,144 results
        ([1], "Interpolate-11", [zeros(1, 4, 128, 128), ints(256, 256), ints(2, 3)], RESIZE, (1, 2)),
        ([2], "Interpolate-11", [zeros(1, 5, 128, 128), ints(256, 256), ints(2, 3)], RESIZE, (1, 2)),
        ([3], "Interpolate-11", [zeros(3, 3, 128, 128), ints(256, 256), ints(2, 3)], RESIZE, (1, 2)),
    ],
    ids=lambda v: str(v)[:30],
)  # fmt: skip
def test_other_operations_are_computed_by_blocks_of_the_documented_size(
    blocks, name, inputs, attributes, constants, part_counts
):
    absent = (False,) * len(inputs)
    values = tuple(x if i in constants else None for i, x in enumerate(inputs))
    specialize(CallSite(find_operation(name), attributes, values, absent, output_count=1))(
        *[x for i, x in enumerate(inputs) if i not in constants]
    )
    assert part_counts == blocks


@pytest.mark.parametrize(
    ("blocks", "query", "key_length", "value_size"),
    [
        # 262,144 scores
        (1, (2, 512, 4), 256, 4),
        (2, (3, 512, 4), 256, 4),
        (4, (8, 512, 8), 256, 8),
        (8, (8, 512, 8), 512, 8),
        (2, (1, 513, 8), 512, 8),
        # smaller ones for several parts of 12,582,912 multiplications
        (1, (2, 512, 16), 192, 47),
        (1, (1, 512, 64), 192, 64),
        (2, (2, 512, 64), 192, 64),
        (1, (2, 512, 64), 191, 64),
    ],
)  # fmt: skip
def test_attention_is_computed_by_blocks_of_the_documented_size(blocks, query, key_length, value_size, part_counts):
    key, value = zeros(*query[:-2], key_length, query[-1]), zeros(*query[:-2], key_length, value_size)
    site = CallSite(find_operation("ScaledDotProductAttention-13"), {}, (None,) * 3, (False,) * 3, output_count=1)
    specialize(site)(zeros(*query), key, value)
    assert part_counts == [blocks]


def test_attention_has_as_many_parts_as_documented():
    """Up to 32 parts have at least the second number of multiplications."""
    assert len(_divide((64, 512), 192, 128, 1 << 18, 3 << 22)) == 32
    assert len(_divide((64, 512), 192, 128, 1 << 18, 1 << 30)) == 32
    assert len(_divide((64, 512), 192, 128, 1 << 19, 1 << 30)) == 13  # five heads
    assert len(_divide((64, 512), 192, 128, 1 << 19, 3 << 22)) == 32


@pytest.mark.parametrize(("is_divided", "size"), [(False, 65_536), (True, 65_537)])
def test_small_chains_are_computed_at_once(is_divided, size, part_counts):
    make_doubling_chain()(zeros(size))
    assert part_counts == ([1] if is_divided else [])


@pytest.mark.parametrize(
    ("blocks", "size"), [(1, 262_143), (2, 262_144), (2, 524_288), (4, 524_289), (4, 1_048_576), (6, 1_048_577)]
)
def test_functions_are_computed_by_blocks_of_the_documented_size(blocks, size, part_counts):
    site = CallSite(find_operation("Sigmoid-1"), {}, (None,), (False,), output_count=1)
    specialize(site)(zeros(size))
    assert part_counts == ([blocks] if blocks > 1 else [])
    part_counts.clear()
    ElementwiseChain((Step.create("Sigmoid", Operand("input", 0)),))(zeros(size))
    assert part_counts == [blocks]


def make_resizing_kernel():
    operation, constants = find_operation("Interpolate-11"), (None, np.array([2.0, 2.0], F32), ints(2, 3))
    attributes = {"mode": "linear_onnx", "shape_calculation_mode": "scales"}
    return specialize(CallSite(operation, attributes, constants, (False,) * 3, output_count=1))


def make_doubling_chain():
    return ElementwiseChain((Step.create("Add", Operand("input", 0), Operand("input", 0)),))


@pytest.mark.parametrize(
    ("create", "kept", "prepare", "limit"),
    [
        (lambda: make_convolution((1, 2, 3, 3, 3), 2), "_methods", "_prepare", 16),
        (make_resizing_kernel, "resizers", "make_resizer", 16),
        (make_doubling_chain, "_checked_shapes", None, 64),
    ],
    ids=["convolution", "resizing", "chains"],
)
def test_what_is_prepared_is_kept_for_a_limited_number_of_shapes(create, kept, prepare, limit, monkeypatch):
    kernel, calls = create(), []
    if prepare is not None:
        original = getattr(kernel, prepare)

        def record(*arguments):
            calls.append(arguments)
            return original(*arguments)

        monkeypatch.setattr(kernel, prepare, record)
    for count in range(limit):
        for _ in range(2):
            kernel(zeros(1, 3, 3 + count, 4))
        assert len(getattr(kernel, kept)) == count + 1
    assert len(calls) in (0, limit)
    kernel(zeros(1, 3, 3 + limit, 4))
    assert len(getattr(kernel, kept)) == 1
    assert len(calls) in (0, limit + 1)


def test_epilogues_with_operands_are_computed_with_those_of_each_call():
    """Chains of large results without operands are bound to a shape once."""
    data, filters = zeros(1, 3, 80, 80), zeros(1, 16, 3, 3, 3)
    chain = make_doubling_chain()
    attributes = {"strides": [1, 1], "dilations": [1, 1], "pads_begin": [1, 1], "pads_end": [1, 1]}
    kernel = ConvolutionKernel(filters, attributes, PackedMemory(0), chain)
    for _ in range(2):
        np.testing.assert_array_equal(kernel(data), zeros(1, 16, 80, 80))
    chain = ElementwiseChain((Step.create("Add", Operand("input", 0), Operand("input", 1)),), 2)
    kernel = ConvolutionKernel(filters, attributes, PackedMemory(0), chain)
    for value in (1, 2):
        operand = np.full((1, 16, 80, 80), value, F32)
        np.testing.assert_array_equal(kernel(data, operand), operand)
    with pytest.raises(NoKernelError, match="expected f32"):
        kernel(data.astype(float), operand)
    with pytest.raises(NoKernelError, match="expected f32"):
        kernel(data, operand.astype(float))
    larger = np.ones((2, 16, 80, 80), F32)
    np.testing.assert_array_equal(kernel(data, larger), larger)


def test_bands_of_all_widths_count():
    """They are kept as long as the methods of the shapes."""
    memory = PackedMemory(1 << 28)
    kernel = ConvolutionKernel(
        zeros(2, 1, 1, 3, 3), {"strides": [], "dilations": [], "pads_begin": [], "pads_end": []}, memory
    )
    wide, narrow = 4 * 2 * 3 * 18 * 16, 4 * 2 * 3 * 12 * 10
    for width, used in ((18, wide), (12, wide + narrow), (18, wide + narrow)):
        kernel(zeros(1, 2, 8, width))
        assert memory.used == used
    memory.limit = memory.used
    assert kernel.choose((1, 2, 9, 18)).entry.name.startswith("banded")
    assert kernel.choose((1, 2, 9, 19)).entry.name.startswith("taps")
    for height in range(9, 9 + 15):
        kernel(zeros(1, 2, height, 12))
    assert memory.used == narrow


@pytest.mark.parametrize(
    ("is_plain", "name", "inputs", "attributes"),
    [
        (False, "Reshape-1", [zeros(4, 6), ints(3, 8)], {"special_zero": False}),
        (False, "Reshape-1", [zeros(1), ints()], {"special_zero": False}),
        (True, "Reshape-1", [zeros(4, 6), ints(3, -1)], {"special_zero": False}),
        (True, "Reshape-1", [zeros(4, 6), ints(0, 6)], {"special_zero": True}),
        (True, "Reshape-1", [zeros(1), np.array(4)], {"special_zero": False}),
        (True, "Squeeze-1", [zeros(4, 1), ints(1)], {}),
        (True, "Split-1", [zeros(4, 1), np.array(0)], {"num_splits": 2}),
        (False, "Slice-8", [zeros(4, 1), ints(1), ints(3), ints(1)], {}),
        (False, "Tile-1", [zeros(4, 1), ints(2, 2)], {}),
        (False, "Pad-1", [zeros(4, 1), ints(1, 1), ints(1, 1)], {"pad_mode": "constant"}),
        (True, "Pad-1", [zeros(4, 1), ints(0, 0), ints(0, 0)], {"pad_mode": "constant"}),
        (True, "Broadcast-3", [zeros(4, 1), ints(4, 4)], {"mode": "numpy"}),
        (False, "ReduceMean-1", [zeros(4, 5), ints(1)], {"keep_dims": True}),
    ],
    ids=str,
)
def test_results_of_a_new_shape_are_learned_from_the_definition(is_plain, name, inputs, attributes):
    """Where they depend on it; all others are computed at once."""
    outputs = 2 if name == "Split-1" else 1
    constants = range(1, len(inputs))
    assert calls_plain(name, inputs, attributes, constants=constants, outputs=outputs, runs=1) == is_plain
    if name != "Pad-1":
        assert not calls_plain(name, inputs, attributes, constants=constants, outputs=outputs)


@pytest.mark.parametrize("shape", [(1, 3, 9), (1, 3, 9, 9, 9), (1, 4, 9, 9), (0, 3, 9, 9), (1, 3, 0, 9)])
def test_data_that_does_not_match_the_filters_is_refused(shape):
    kernel = make_convolution((1, 4, 3, 3, 3), 2)
    kernel.choose((1, 3, 9, 9))
    with pytest.raises(NoKernelError, match="the data does not match the filters"):
        kernel.choose(shape)


def test_windows_larger_than_the_data_have_no_result():
    kernel = make_convolution((1, 4, 3, 3, 3), 2)
    assert kernel.choose((1, 3, 3, 3)).entry.name == "columns"
    for shape in ((1, 3, 2, 9), (1, 3, 9, 2)):
        with pytest.raises(InputError, match="a window of 3 elements with dilation 1 does not fit into 2 elements"):
            kernel.choose(shape)


def test_methods_that_do_not_fit_are_passed_over():
    small = MethodEntry("small", "", lambda problem: problem < 10, lambda problem: "small")
    packed = MethodEntry("packed", "", lambda problem: problem < 20, lambda problem: "packed", lambda problem: problem)
    sizes = []

    def fits(entry, size):
        sizes.append((entry.name, size))
        return size <= 12

    assert choose_method((small, packed), 5, fits).entry is small
    assert sizes == []
    choice = choose_method((small, packed), 12, fits)
    assert (choice.entry, choice.others) == (packed, ((small, 0),))
    with pytest.raises(NoKernelError, match="no method applies"):
        choose_method((small, packed), 13, fits)
    with pytest.raises(NoKernelError, match="no method applies"):
        choose_method((small, packed), 20, fits)
    assert sizes == [("packed", 12), ("packed", 13)]
