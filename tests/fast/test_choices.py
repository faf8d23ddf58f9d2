"""Which implementation computes what, on both sides of the limits that docs/speed.md states."""

from __future__ import annotations

import numpy as np
import pytest

from fast.harness import calls_plain, find_operation
from irrun.element_types import ELEMENT_TYPES
from irrun.fast.convolution import ConvolutionKernel
from irrun.fast.elementwise import ElementwiseChain, Operand, Step
from irrun.fast.elementwise_functions import find_block_function
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


#: Method, data, filters [GROUPS, C_OUT, C_IN, kernel...], attributes.
METHODS = [
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


@pytest.mark.parametrize(("method", "data", "filters", "attributes"), METHODS, ids=str)
def test_convolution_is_computed_by_the_documented_method(method, data, filters, attributes):
    assert make_convolution(filters, len(data) - 2, **attributes).describe(data).startswith(method)


@pytest.mark.parametrize(
    ("data", "filters", "size"),
    [
        ((1, 16, 12, 12), (1, 16, 16, 3, 3), 16 * 4 * 16 * 16),
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
    kernel = make_convolution(filters, 2, size)
    name = kernel.describe(data)
    assert name.startswith(("banded", "Winograd"))
    kernel(zeros(*data))
    assert kernel._packed.used == size
    assert not make_convolution(filters, 2, size - 1).describe(data).startswith(name)


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
    # channels, of which there is more than one for 64 positions: twice the time
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
    assert kernel.describe(data).startswith("product")
    kernel(zeros(*data))
    assert part_counts == [parts]


@pytest.mark.parametrize(
    ("blocks", "size"), [(1, 262_143), (2, 262_144), (2, 524_288), (4, 524_289), (4, 1_048_576), (6, 1_048_577)]
)
def test_functions_are_computed_by_blocks_of_the_documented_size(blocks, size, part_counts):
    site = CallSite(find_operation("Sigmoid-1"), {}, (None,), (False,), output_count=1)
    specialize(site)(zeros(size))
    assert part_counts == [blocks]
    sigmoid = find_block_function("Sigmoid-1", {}, [None])
    ElementwiseChain((Step("Sigmoid-1", (Operand("input", 0),), {}, sigmoid),))(zeros(size))
    assert part_counts == [blocks, blocks]
