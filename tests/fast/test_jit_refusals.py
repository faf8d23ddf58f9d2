"""Inputs that compiled kernels refuse, each with its reason, and the nearest inputs that they accept."""

from __future__ import annotations

import contextlib
import re
import sys
from typing import NamedTuple

import numpy as np
import pytest

pytest.importorskip("llvmlite")

from irrun.element_types import ELEMENT_TYPES
from irrun.errors import InputError
from irrun.fast.errors import NoKernelError
from irrun.fast.jit import compiler
from irrun.fast.jit.attention import AttentionKernel
from irrun.fast.jit.bindings import Layout, make_layout
from irrun.fast.jit.concatenation import ConcatKernel
from irrun.fast.jit.conversion import WideningKernel
from irrun.fast.jit.copies import MAX_SMALL_SIZE, RotationKernel, bind_contiguous
from irrun.fast.jit.detections import DetectionKernel
from irrun.fast.jit.elementwise import MAX_ROWS, plan_rows
from irrun.fast.jit.expressions import Step
from irrun.fast.jit.group_normalization import GroupNormalizationKernel
from irrun.fast.jit.kernels import (
    ConvolutionKernel,
    ExpressionKernel,
    NormalizationKernel,
    SoftmaxKernel,
    expand_operand,
)
from irrun.fast.jit.means import MeanKernel
from irrun.fast.jit.nests import Copy, StridedLayout, make_nest
from irrun.fast.jit.pooling import MaxPoolKernel
from irrun.fast.jit.product_kernels import (
    ProductKernel,
    VariableProductKernel,
    classify_item_operand,
    classify_operand,
)
from irrun.fast.jit.projections import Projection
from irrun.fast.jit.protocol import CompiledKernel
from irrun.fast.jit.scalar_functions import find_scalar_function
from irrun.fast.jit.sequence_members import Computation, Concatenation, Views, view_elements, view_layout
from irrun.fast.jit.sequence_plans import make_plan
from irrun.fast.jit.sequences import SequenceKernel
from irrun.fast.jit.sites import create_kernel
from irrun.fast.jit.transposition import MIN_MATRIX_SIZE
from irrun.fast.jit.variable_products import MAX_ITEMS, MAX_PACKED_SIZE, MIN_ROWS, describe_products
from irrun.fast.specialization import CallSite
from irrun.limits import limit_allocations
from irrun.ops._support.autoload import load_kernels
from irrun.ops._support.registry import find
from irrun.ops.detection.detection_output import DetectionSettings

pytestmark = pytest.mark.usefixtures("own_kernel_cache")

F32, F64, I32, I64, BOOL = (np.dtype(t) for t in (np.float32, np.float64, np.int32, np.int64, np.bool_))
ADD = (Step("Add", (0, 1)),)
CONVOLUTION = {"strides": [1, 1], "dilations": [1, 1], "pads_begin": [0, 0], "pads_end": [0, 0]}
MVN = {"eps": 1e-5, "normalize_variance": True, "eps_mode": "inside_sqrt"}


def ones(*shape, dtype=F32):
    return np.ones(shape, dtype)


def unaligned(*shape):
    """Return f32 whose first element is not at a multiple of four bytes."""
    return np.ones(4 * int(np.prod(shape)) + 1, np.uint8)[1:].view(np.float32).reshape(shape)


def refuses(message):
    return pytest.raises(NoKernelError, match=f"^{re.escape(message)}")


def make_kernels():
    filters = ones(1, 4, 3, 3, 3)
    return {
        "expression": ExpressionKernel(2, ADD, [None]),
        "convolution": ConvolutionKernel(filters, CONVOLUTION, ADD, [None]),
        "normalization": NormalizationKernel(3, 1, MVN, ADD, [None]),
        "softmax": SoftmaxKernel(2),
        "mean": MeanKernel(3, 2, True),
        "groups": GroupNormalizationKernel(3, 2, 1e-5, ones(4), ones(4)),
        "pooling": MaxPoolKernel({"kernel": [2, 2], "strides": [1, 2], "pads_begin": [0, 0], "pads_end": [0, 0]}),
        "product": ProductKernel(2, ones(5, 3), ADD, [None]),
        "transposed product": ProductKernel(2, ones(5, 3), (), [], True),
        "variable product": VariableProductKernel((False, False), ADD, [None]),
        "attention": AttentionKernel((None,) * 3, False, False),
        "masked attention": AttentionKernel((None,) * 4, False, False),
        "projection": Projection(ones(5, 8), None),
        "rotation": RotationKernel({1: 2}),
        "concatenation": ConcatKernel(1, (None, None)),
    }


#: Kernel -> inputs that it accepts, and the shape of the result.
ACCEPTED = [
    ("expression", (ones(2, 3), ones(3)), (2, 3)),
    ("convolution", (ones(1, 3, 5, 5), ones(4, 1, 1)), (1, 4, 3, 3)),
    ("normalization", (ones(2, 3, 4), ones(4)), (2, 3, 4)),
    ("softmax", (ones(2, 3),), (2, 3)),
    ("mean", (ones(2, 3, 4),), (2, 1, 1)),
    ("groups", (ones(2, 4, 5),), (2, 4, 5)),
    ("pooling", (ones(1, 3, 4, 6),), (1, 3, 3, 3)),
    ("product", (ones(2, 5), ones(3)), (2, 3)),
    ("transposed product", (ones(5, 2),), (2, 3)),
    ("variable product", (ones(16, 4), ones(4, 8), ones(8)), (16, 8)),
    ("attention", (ones(2, 3, 4), ones(2, 5, 4), ones(2, 5, 6)), (2, 3, 6)),
    ("attention", (ones(3, 4), ones(5, 4), ones(5, 6)), (3, 6)),
    ("attention", (ones(2, 3, 4), ones(1, 5, 4), ones(2, 5, 6)), (2, 3, 6)),
    ("masked attention", (ones(2, 3, 4), ones(2, 5, 4), ones(2, 5, 6), ones(3, 5)), (2, 3, 6)),
    ("masked attention", (ones(2, 3, 4), ones(2, 5, 4), ones(2, 5, 6), ones(3, 1)), (2, 3, 6)),
    ("projection", (ones(2, 3, 5),), (2, 3, 8)),
    ("rotation", (ones(2, 3, 16),), (2, 3, 16)),
    ("concatenation", (ones(2, 3), ones(2, 4)), (2, 7)),
]

#: Kernel, inputs, and the reason.
REFUSED = [
    ("expression", (ones(2, 3, dtype=F64), ones(3)), "expected f32 of the declared rank"),
    ("expression", (ones(1, 2, 3), ones(3)), "expected f32 of the declared rank"),
    ("expression", (ones(0, 3), ones(3)), "expected f32 of the declared rank"),
    ("expression", (ones(2, 3), ones(3, dtype=I32)), "expected operands of aligned f32"),
    ("expression", (ones(2, 3), unaligned(2, 1)), "expected operands of aligned f32"),
    ("expression", (ones(2, 3), ones(4)), "an operand does not broadcast to the result"),
    ("expression", (ones(2, 3), ones(1, 2, 3)), "an operand has more dimensions than the result"),
    ("convolution", (ones(1, 2, 5, 5), ones(4, 1, 1)), "expected the channels of the filters"),
    ("convolution", (ones(3, 5, 5), ones(4, 1, 1)), "expected the channels of the filters"),
    ("convolution", (ones(0, 3, 5, 5), ones(4, 1, 1)), "expected the channels of the filters"),
    ("convolution", (ones(1, 3, 5, 5, dtype=F64), ones(4, 1, 1)), "expected f32"),
    ("convolution", (ones(1, 3, 5, 5), ones(4, 1, 1, dtype=F64)), "expected f32"),
    ("convolution", (ones(1, 3, 5, 5), ones(3, 1, 1)), "an operand does not broadcast to the result"),
    ("convolution", (ones(1, 3, 5, 5), ones(1, 1, 4, 3, 3)), "an operand does not broadcast to the result"),
    ("normalization", (ones(2, 3, 4, dtype=F64), ones(4)), "expected f32 of the declared rank"),
    ("normalization", (ones(3, 4), ones(4)), "expected f32 of the declared rank"),
    ("normalization", (ones(0, 3, 4), ones(4)), "expected f32 of the declared rank"),
    ("normalization", (ones(2, 3, 4), ones(4, dtype=F64)), "expected f32 of the declared rank"),
    ("softmax", (ones(2, 3, dtype=F64),), "expected f32 of the declared rank"),
    ("softmax", (ones(3),), "expected f32 of the declared rank"),
    ("mean", (ones(2, 3, 4, dtype=F64),), "expected f32 of the declared rank"),
    ("mean", (ones(2, 3),), "expected f32 of the declared rank"),
    ("mean", (ones(0, 3, 4),), "expected f32 of the declared rank"),
    ("groups", (ones(2, 4, 5, dtype=F64),), "expected f32 of the declared rank and channels"),
    ("groups", (ones(2, 4),), "expected f32 of the declared rank and channels"),
    ("groups", (ones(2, 3, 5),), "expected f32 of the declared rank and channels"),
    ("groups", (ones(0, 4, 5),), "expected f32 of the declared rank and channels"),
    ("pooling", (ones(3, 4, 6),), "expected data with two spatial axes"),
    ("pooling", (ones(0, 3, 4, 6),), "expected data with two spatial axes"),
    ("pooling", (ones(1, 3, 4, 6, dtype=F64),), "expected f32"),
    ("product", (ones(5), ones(3)), "expected data of shape [..., K]"),
    ("product", (ones(2, 4), ones(3)), "expected data of shape [..., K]"),
    ("product", (ones(0, 5), ones(3)), "expected data of shape [..., K]"),
    ("product", (ones(2, 5, dtype=F64), ones(3)), "expected f32"),
    ("product", (ones(2, 5), ones(3, dtype=F64)), "expected f32"),
    ("product", (ones(2, 5), ones(2, 1)), "expected an operand with the shape of the result or of its columns"),
    ("transposed product", (ones(2, 5),), "expected data of shape [..., K]"),
    ("variable product", (ones(16, 4, dtype=F64), ones(4, 8), ones(8)), "expected contiguous rows"),
    ("variable product", (ones(16, 4), ones(4, 8, dtype=F64), ones(8)), "expected f32"),
    ("variable product", (ones(16, 4), ones(4, 8), ones(8, dtype=I32)), "expected f32"),
    ("variable product", (ones(16, 4), ones(3, 8), ones(8)), "the shapes do not match"),
    ("attention", (ones(3, 4, dtype=F64), ones(5, 4), ones(5, 6)), "expected queries, keys and values in f32"),
    ("attention", (ones(3, 4), ones(5, 4, dtype=F64), ones(5, 6)), "expected queries, keys and values in f32"),
    ("attention", (ones(3, 4), ones(5, 4), ones(5, 6, dtype=F64)), "expected queries, keys and values in f32"),
    ("attention", (ones(4), ones(4), ones(4)), "expected queries, keys and values in f32"),
    ("attention", (ones(3, 4), ones(1, 5, 4), ones(1, 5, 6)), "expected queries, keys and values in f32"),
    ("attention", (ones(3, 4), ones(5, 4), ones(1, 5, 6)), "expected queries, keys and values in f32"),
    ("attention", (ones(2, 3, 4), ones(3, 5, 4), ones(2, 5, 6)), "the shapes do not match"),
    ("attention", (ones(2, 3, 4), ones(2, 5, 4), ones(3, 5, 6)), "the shapes do not match"),
    ("attention", (ones(3, 4), ones(6, 4), ones(5, 6)), "the shapes do not match"),
    ("attention", (ones(0, 4), ones(5, 4), ones(5, 6)), "a value is empty"),
    ("attention", (ones(3, 4), ones(5, 4), ones(5, 0)), "a value is empty"),
    ("masked attention", (ones(3, 4), ones(5, 4), ones(5, 6), ones(3, 5, dtype=F64)), "expected a boolean or f32 mask"),
    ("masked attention", (ones(3, 4), ones(5, 4), ones(5, 6), ones(2, 5)), "the mask does not match"),
    ("masked attention", (ones(3, 4), ones(5, 4), ones(5, 6), ones(1, 3, 5)), "the mask does not match"),
    ("projection", (ones(3, 5),), "the input has shape (3, 5) and type float32"),
    ("projection", (ones(2, 3, 5, dtype=F64),), "the input has shape (2, 3, 5) and type float64"),
    ("projection", (ones(2, 3, 4),), "the input has shape (2, 3, 4) and type float32"),
    ("projection", (ones(0, 3, 5),), "the input has shape (0, 3, 5) and type float32"),
    ("rotation", (ones(2, 3, 16, dtype=F64),), "expected f32"),
    ("rotation", (ones(16),), "the value is empty, or has fewer axes than the rotation"),
    ("rotation", (ones(2, 0, 16),), "the value is empty, or has fewer axes than the rotation"),
    ("concatenation", (ones(2, 3), ones(2, 4, dtype=F64)), "expected inputs of one type"),
]


@pytest.fixture(scope="module")
def kernels(own_kernel_cache):
    return make_kernels()


@pytest.mark.parametrize(("name", "inputs", "shape"), ACCEPTED)
def test_matching_inputs_are_computed(kernels, name, inputs, shape):
    assert kernels[name](*inputs).shape == shape


@pytest.mark.parametrize(
    ("name", "inputs"),
    [
        (name, inputs)
        for name, inputs, _ in ACCEPTED
        if name not in ("groups", "projection", "rotation", "concatenation")
    ],
)
def test_first_runs_with_declared_shapes_compile_nothing(own_kernel_cache, monkeypatch, name, inputs):
    made, make = [], compiler._Compiler.get

    def record(own, text, signatures):
        made.append([*signatures])
        return make(own, text, signatures)

    monkeypatch.setattr(compiler._Compiler, "get", record)
    for module in [m for key, m in sys.modules.items() if key.startswith("irrun.fast.jit.")]:
        for own, value in vars(module).items():
            if own.lstrip("_").startswith(("compile_", "make_", "get_epilogue")) and hasattr(value, "cache_clear"):
                value.cache_clear()
    kernel = make_kernels()[name]
    kernel.prepare([x.shape for x in inputs])
    assert made
    made.clear()
    kernel(*inputs)
    assert made in ([], [["run_jobs", "serve"]])  # the threads start when they have work


#: Kernels whose results may be larger than their inputs.
GROWING = ("convolution", "pooling", "product", "transposed product", "variable product", "attention", "projection")


@pytest.mark.parametrize(("name", "inputs", "shape"), [case for case in ACCEPTED if case[0] in GROWING])
def test_results_are_checked_before_they_are_allocated(kernels, name, inputs, shape):
    size = 4 * int(np.prod(shape))
    with limit_allocations(size):
        kernels[name](*inputs)
    with limit_allocations(size - 1), pytest.raises(InputError, match="would take"):
        kernels[name](*inputs)


@pytest.mark.parametrize(("name", "inputs", "reason"), REFUSED)
def test_other_inputs_are_refused(kernels, name, inputs, reason):
    with refuses(reason):
        kernels[name](*inputs)


@pytest.mark.parametrize(
    ("name", "shapes", "reason"),
    [
        ("expression", [(3,), (3,)], "expected data of the declared rank"),
        ("expression", [(0, 3), (3,)], "expected data of the declared rank"),
        ("convolution", [(2, 3, 5, 5), (4, 1, 1)], "expected an operand as the epilogue reads it"),
        ("convolution", [(1, 3, 5, 5), (4, 3, 1)], "expected an operand as the epilogue reads it"),
        ("normalization", [(3, 4), (4,)], "expected data of the declared rank"),
        ("normalization", [(0, 3, 4), (4,)], "expected data of the declared rank"),
        ("softmax", [(3,)], "expected data of the declared rank"),
        ("softmax", [(0, 3)], "expected data of the declared rank"),
        ("mean", [(3, 4)], "expected f32 of the declared rank"),
        ("mean", [(2, 0, 4)], "expected f32 of the declared rank"),
        ("transposed product", [(2, 5)], "expected data that is not transposed"),
        ("groups", [(2, 4, 5)], "the kernel is called with arrays only"),
    ],
)
def test_other_layouts_are_not_bound(kernels, name, shapes, reason):
    with refuses(reason):
        kernels[name].bind([make_layout(shape) for shape in shapes])


def test_kernels_that_can_be_bound_say_so(kernels):
    bound = {name for name, kernel in kernels.items() if isinstance(kernel, CompiledKernel) and kernel.can_bind}
    assert set(kernels) - bound == {"groups", "projection", "concatenation"}


def test_operands_of_convolutions_are_bound_as_the_epilogue_reads_them(kernels):
    for operand in ((), (1,), (1, 4, 1, 1), (4, 1, 1), (1, 4, 3, 3), (4, 3, 3)):
        assert kernels["convolution"].bind([make_layout((1, 3, 5, 5)), make_layout(operand)]).shape == (1, 4, 3, 3)
    assert kernels["convolution"].bind([make_layout((2, 3, 5, 5)), make_layout((2, 4, 1, 1))]).shape == (2, 4, 3, 3)


def test_operands_of_products_with_strides_are_not_bound(kernels):
    layouts = [make_layout((16, 4)), make_layout((4, 8))]
    assert kernels["variable product"].bind([*layouts, make_layout((16, 8))]).shape == (16, 8)
    with refuses("expected contiguous operands"):
        kernels["variable product"].bind([*layouts, Layout((16, 8), (4, 64))])


def test_constants_of_other_types_have_no_kernels():
    with refuses("expected f32"):
        ConvolutionKernel(ones(1, 4, 3, 3, 3), CONVOLUTION, ADD, [ones(4, 1, 1, dtype=F64)])(ones(1, 3, 5, 5))
    for weights in (ones(5, 3, dtype=F64), ones(5, 3, dtype=I32)):
        with refuses("expected f32"):
            ProductKernel(2, weights, (), [])


def test_operands_have_the_form_that_epilogues_read():
    shape = (2, 4, 3, 3)
    scalar, channel, full = ones(), ones(4, 1, 1), ones(*shape)
    assert expand_operand(scalar, "scalar", shape) is scalar
    assert expand_operand(full, "full", shape) is full
    assert expand_operand(channel, "channel", shape).shape == (2, 4)
    assert expand_operand(ones(2, 4, 1, 1), "channel", shape).shape == (2, 4)
    assert expand_operand(ones(4, 3, 3), "full", shape).shape == shape
    assert expand_operand(full.swapaxes(2, 3), "full", shape).flags.c_contiguous


def test_unaligned_matrices_are_copied():
    kernel = VariableProductKernel((False, False), (), [])
    left, right = np.arange(64, dtype=np.float32).reshape(16, 4), np.arange(32, dtype=np.float32).reshape(4, 8)
    for values in ((left, right), (right[:, :4], left.T)):
        shifted = [unaligned(*x.shape) for x in values]
        for x, value in zip(shifted, values, strict=True):
            x[...] = value
        with contextlib.suppress(NoKernelError):
            np.testing.assert_array_equal(kernel(*shifted), kernel(*values))
    assert kernel(left, right).shape == (16, 8)


@pytest.mark.parametrize(
    ("attributes", "divide"),
    [({}, np.floor_divide), ({"m_pythondiv": False}, lambda a, b: np.trunc(a / b).astype(np.int32))],
)
def test_integers_are_divided_downwards_or_toward_zero(attributes, divide):
    element, dtype = find_scalar_function("Divide-1", attributes, (I32, I32))
    assert dtype == I32
    a, b = np.meshgrid(np.arange(-9, 10, dtype=np.int32), np.array([-4, -3, -1, 1, 3, 4], np.int32))
    result = np.empty(a.shape, np.int32)
    layouts = [StridedLayout(x.shape, x.strides, I32) for x in (result, a, b)]
    make_nest(element, a.shape, layouts[:1], layouts[1:]).run(*(x.ctypes.data for x in (result, a, b)))
    np.testing.assert_array_equal(result, divide(a, b))


@pytest.mark.parametrize(
    ("operand", "kind"),
    [
        ((), "scalar"),
        ((1, 1, 1), "scalar"),
        ((2, 3, 4), "full"),
        ((4,), "column"),
        ((1, 1, 4), "column"),
        ((3, 4), None),
        ((3, 1), None),
        ((4, 1), None),
        ((1, 1, 1, 1), None),
        ((1, 2, 3, 4), None),
    ],
)
def test_operands_of_products_are_classified(operand, kind):
    if kind is None:
        with refuses("expected an operand with the shape of the result or of its columns"):
            classify_operand(operand, (2, 3, 4))
    else:
        assert classify_operand(operand, (2, 3, 4)) == kind


@pytest.mark.parametrize(
    ("operand", "kind"),
    [((2, 1, 4), "column"), ((1, 3, 4), "full"), ((5, 2, 1, 1), "scalar"), ((3, 4), "full"), ((), "scalar")],
)
def test_operands_of_several_products_are_classified_by_their_last_axes(operand, kind):
    assert classify_item_operand(operand, (5, 2, 3, 4)) == kind


@pytest.mark.parametrize("operand", [(3, 3, 4), (2, 2, 3, 4), (1, 5, 2, 3, 4)])
def test_operands_of_several_products_must_broadcast(operand):
    with refuses("expected an operand that broadcasts to the result"):
        classify_item_operand(operand, (5, 2, 3, 4))


COLUMNS = MAX_PACKED_SIZE // 64


@pytest.mark.parametrize(
    ("left", "right", "reason"),
    [
        (make_layout((MIN_ROWS, 64)), make_layout((64, COLUMNS)), ""),
        (make_layout((MIN_ROWS - 1, 64)), make_layout((64, COLUMNS)), "the rows are too few"),
        (make_layout((MIN_ROWS, 64)), make_layout((64, COLUMNS + 1)), "the rows are too few, or the matrices are too"),
        (make_layout((MAX_ITEMS, 16, 1)), make_layout((1, 2)), ""),
        (make_layout((MAX_ITEMS + 1, 16, 1)), make_layout((1, 2)), "the matrices are empty, or the products are too"),
        (make_layout((0, 16, 1)), make_layout((1, 2)), "the matrices are empty"),
        (make_layout((16, 0)), make_layout((0, 2)), "the matrices are empty"),
        (make_layout((16, 2)), make_layout((2, 0)), "the matrices are empty"),
        (make_layout((16,)), make_layout((16, 2)), "the shapes do not match"),
        (make_layout((16, 2)), make_layout((2,)), "the shapes do not match"),
        (make_layout((16, 2)), make_layout((3, 2)), "the shapes do not match"),
        (Layout((16, 2), (4, 64)), make_layout((2, 2)), "expected contiguous rows"),
        (Layout((16, 1), (4, 64)), make_layout((1, 2)), ""),
        (Layout((16, 2), (10, 4)), make_layout((2, 2)), "the elements are not aligned"),
        (make_layout((16, 2)), Layout((2, 2), (10, 4)), "the elements are not aligned"),
        (make_layout((16, 2)), Layout((2, 2), (4, 8)), ""),
    ],
)
def test_products_of_variable_matrices_are_compiled_if_they_pay(left, right, reason):
    if reason:
        with refuses(reason):
            describe_products(*left, *right)
    else:
        assert describe_products(*left, *right).shape[-2:] == (left.shape[-2], right.shape[-1])


def test_layouts_of_products_give_the_steps_between_matrices():
    left, right = make_layout((3, 1, 16, 2)), make_layout((5, 2, 4))
    layout = describe_products(*left, *right)
    assert layout.shape == (3, 5, 16, 4)
    assert layout.steps == ((128, 0), (0, 32))
    assert (layout.inner, layout.row_stride, layout.right_strides) == (2, 2, (4, 1))


def test_bound_attention_needs_aligned_queries_of_contiguous_rows():
    kernel, masked = AttentionKernel((None,) * 3, False, False), AttentionKernel((None,) * 4, False, False)
    queries, keys, values = make_layout((3, 4)), make_layout((5, 4)), make_layout((5, 6))
    assert kernel.bind([queries, keys, values]).shape == (3, 6)
    assert kernel.bind([queries, Layout((5, 4), (4, 20)), values]).shape == (3, 6)
    for layouts in (
        [Layout((3, 4), (4, 12)), keys, values],
        [Layout((3, 4), (18, 4)), keys, values],
        [queries, Layout((5, 4), (18, 4)), values],
        [queries, keys, Layout((5, 6), (26, 4))],
    ):
        with refuses("expected queries of contiguous rows, and aligned values"):
            kernel.bind(layouts)
    assert masked.bind([queries, keys, values, make_layout((3, 5))]).shape == (3, 6)
    assert masked.bind([queries, keys, values, make_layout((1, 5))]).shape == (3, 6)
    for mask in (Layout((3, 5), (4, 12)), make_layout((3, 1))):
        with refuses("expected a contiguous mask with as many columns as keys"):
            masked.bind([queries, keys, values, mask])


@pytest.mark.parametrize(
    ("attributes", "shape", "fits"),
    [
        ({"kernel": [2, 2], "strides": [3, 2]}, (1, 1, 9, 9), True),
        ({"kernel": [2, 2], "strides": [1, 3]}, (1, 1, 9, 9), False),
        ({"kernel": [8, 16], "strides": [1, 1]}, (1, 1, 16, 16), True),
        ({"kernel": [3, 43], "strides": [1, 1]}, (1, 1, 16, 50), False),
    ],
)
def test_maxima_of_large_windows_are_not_compiled(attributes, shape, fits):
    kernel = MaxPoolKernel({"pads_begin": [0, 0], "pads_end": [0, 0], **attributes})
    if fits:
        assert kernel(ones(*shape)).ndim == 4
    else:
        with refuses("the windows or strides are too large"):
            kernel(ones(*shape))
    with refuses("expected data with two spatial axes"):
        MaxPoolKernel({"kernel": [2], "strides": [1], "pads_begin": [0], "pads_end": [0]})(ones(1, 1, 5, 5))


@pytest.mark.parametrize(
    ("rows", "layout", "reason"),
    [
        (3, ((3, 4), (16, 4)), ""),
        (3, ((3, 4), (18, 4)), "the elements of an operand are not aligned"),
        (MAX_ROWS // 4, ((MAX_ROWS // 4, 4), (4, MAX_ROWS)), ""),
        (MAX_ROWS // 4 + 1, ((MAX_ROWS // 4 + 1, 4), (4, MAX_ROWS + 4)), "the rows are too short"),
    ],
)
def test_rows_of_operands_are_long_enough(rows, layout, reason):
    if reason:
        with refuses(reason):
            plan_rows((rows, 4), (layout,))
    else:
        plan_rows((rows, 4), (layout,))


def test_copies_of_large_values_need_rows_or_columns():
    short = compiler.get_lanes() // 2 - 1
    rows = MAX_SMALL_SIZE // short
    assert bind_contiguous(Layout((rows, short), (8 * short, 4))).shape == (rows, short)
    assert bind_contiguous(Layout((rows, short + 1), (8 * short + 8, 4))).shape == (rows, short + 1)
    for layout in (Layout((rows + 1, short), (8 * short, 4)), Layout((8, 8), (34, 4))):
        with refuses("the rows are too short"):
            bind_contiguous(layout)


@pytest.mark.parametrize(
    ("operation", "attributes", "dtypes", "result"),
    [
        ("Add-1", {}, (I32, I32), I32),
        ("Add-1", {}, (I64, I64), I64),
        ("Equal-1", {}, (BOOL, BOOL), BOOL),
        ("Less-1", {}, (I32, I32), BOOL),
        ("Select-1", {}, (BOOL, I32, I32), I32),
        ("Convert-1", {"destination_type": ELEMENT_TYPES["i32"]}, (F32,), I32),
        ("Add-1", {"auto_broadcast": "pdpd"}, (F32, F32), "kernels broadcast as NumPy does"),
        ("Roll-7", {}, (F32, I32, I32), "Roll-7 has no compiled form"),
        ("Add-1", {}, (F32,), "Add-1 has no compiled form"),
        ("Add-1", {}, (F32, I32), "Add-1 has no compiled form for these element types"),
        ("Add-1", {}, (F32, F32), "Add-1 has no compiled form for these element types"),
        ("Add-1", {}, (BOOL, BOOL), "Add-1 has no compiled form for these element types"),
        ("Less-1", {}, (BOOL, BOOL), "Less-1 has no compiled form for these element types"),
        ("Select-1", {}, (BOOL, I32, F32), "Select-1 has no compiled form for these element types"),
        ("Select-1", {}, (I32, I32, I32), "the condition is not boolean"),
        (
            "Convert-1",
            {"destination_type": ELEMENT_TYPES["f64"]},
            (F32,),
            "the conversion from float32 to float64 has no compiled form",
        ),
        (
            "Convert-1",
            {"destination_type": ELEMENT_TYPES["f32"]},
            (F64,),
            "the conversion from float64 to float32 has no compiled form",
        ),
    ],
)
def test_scalar_functions_exist_for_some_types(operation, attributes, dtypes, result):
    if isinstance(result, str):
        with refuses(result):
            find_scalar_function(operation, attributes, dtypes)
    else:
        assert find_scalar_function(operation, attributes, dtypes)[1] == result


def lay_out(shape, dtype=F32, strides=None):
    return StridedLayout(shape, strides or ones(*shape, dtype=dtype).strides, np.dtype(dtype))


class First(NamedTuple):
    """The function of vectors that returns its first operand."""

    result_count: int = 1
    is_vector: bool = True

    def emit(self, function, values):
        return values[:1]


def test_nests_refuse_other_types_and_layouts():
    value = lay_out((3, 4))
    make_nest(First(), (3, 4), [value], [value, lay_out((4,))])
    make_nest(First(), (3, 4), [value], [value, lay_out((3, 4), F32, (-16, 8))])
    make_nest(Copy(), (3, 4), [lay_out((3, 4), F64)], [lay_out((3, 4), F64, (8, 24))])
    make_nest(Copy(), (3, 4), [lay_out((3, 4), F32, (4, 12))], [value])
    for shape, result, operand, reason in (
        ((3, 0), lay_out((3, 0)), lay_out((3, 0)), "a value is empty"),
        ((3, 4), value, lay_out((3, 4), F64), "kernels do not compute values of type float64"),
        ((3, 4), value, lay_out((3, 4), F32, (18, 4)), "the elements are not aligned"),
        ((3, 4), value, lay_out((2, 4)), "an operand does not broadcast to the result"),
        ((3, 4), value, lay_out((1, 3, 4)), "an operand does not broadcast to the result"),
        ((3, 4), lay_out((3, 4), F32, (4, 12)), value, "expected results whose rows are contiguous"),
        ((3, 4), value, lay_out((3, 4), I32), "expected results whose rows are contiguous"),
    ):
        with refuses(reason):
            make_nest(First(), shape, [result], [value, operand])
    for dtype in (object, np.complex128):
        with refuses(f"kernels do not copy values of type {np.dtype(dtype)}"):
            make_nest(Copy(), (3, 4), [lay_out((3, 4), dtype)], [lay_out((3, 4), dtype)])


def test_members_of_sequences_see_codes_and_views():
    assert view_elements(np.ones((2, 8), np.uint8)).shape == (2, 2)
    for codes in (np.ones((2, 6), np.uint8), np.ones((0, 8), np.uint8)):
        with refuses("expected rows of codes"):
            view_elements(codes)
    layout = Layout((3, 4), (32, 4))
    assert view_layout(lambda x: x[1:], layout) == [(Layout((2, 4), (32, 4)), 32)]
    assert view_layout(lambda x: [x[:, :1], x[:, 1:]], layout) == [
        (Layout((3, 1), (32, 4)), 0),
        (Layout((3, 3), (32, 4)), 4),
    ]
    assert view_layout(np.array, layout) is None
    repeated = Layout((3, 4), (0, 4))
    assert view_layout(lambda x: x[1:], repeated) == [(Layout((2, 4), (0, 4)), 0)]
    assert view_layout(lambda x: np.broadcast_to(x[:1], (5, 4)), layout) == [(Layout((5, 4), (0, 4)), 0)]
    for view, own in (
        (lambda x: x[:0], layout),
        (lambda x: x[::-1], layout),
        (lambda x: [x, x[:, ::-1]], layout),
        (lambda x: x, Layout((3, 0), (32, 4))),
        (lambda x: x, Layout((3, 4), (-32, 4))),
    ):
        with refuses("a view is empty or reversed"):
            view_layout(view, own)


LARGE = (1, 64, 60, 70)
SCALE = ones(4)
DETECTION = {
    "background_label_id": 0,
    "nms_threshold": 0.5,
    "keep_top_k": [3],
    "num_classes": 2,
    "normalized": True,
}


def find_refusal(name, version, attributes, constants, shapes):
    """Return why a call site has no compiled kernel, or "" if it has one."""
    load_kernels(name)
    operation = find(name, version)
    assert operation is not None
    site = CallSite(operation, attributes, tuple(constants), (False,) * len(constants), 1)
    try:
        create_kernel(site, shapes)
    except NoKernelError as error:
        return str(error)
    return ""


@pytest.mark.parametrize(
    ("name", "version", "attributes", "constants", "shapes", "reason"),
    [
        ("Concat", "opset1", {"axis": 0}, (None, None), [LARGE, (1, 2), None], ""),
        ("Concat", "opset1", {"axis": 0}, (None, None), [(None, None), (1, 2), None], ""),
        ("Concat", "opset1", {"axis": 0}, (None,), [LARGE, None], "not several inputs of known rank"),
        ("Concat", "opset1", {"axis": 0}, (None, None), [LARGE, None, None], "not several inputs of known rank"),
        ("Concat", "opset1", {"axis": 0}, (None, None), [(MIN_MATRIX_SIZE,), (1,), None], ""),
        (
            "Concat",
            "opset1",
            {"axis": 0},
            (None, None),
            [(MIN_MATRIX_SIZE - 1,), (1,), None],
            f"NumPy is as fast for inputs of fewer than {MIN_MATRIX_SIZE:,} elements",
        ),
        ("ReduceMean", "opset1", {}, (None, np.array([1])), [(32, 64), (1,), None], ""),
        ("ReduceMean", "opset1", {}, (None, np.array([-1])), [(None, 32), (1,), None], ""),
        ("ReduceMean", "opset1", {}, (None, np.array([0])), [(32, 64), (1,), None], "not along the last axes"),
        ("ReduceMean", "opset1", {}, (None, np.array([2])), [(32, 64), (1,), None], "not along the last axes"),
        (
            "ReduceMean",
            "opset1",
            {},
            (None, np.array([1])),
            [(32, 63), (1,), None],
            "NumPy is as fast for fewer than 2,048 elements",
        ),
        (
            "ReduceMean",
            "opset1",
            {},
            (None, None),
            [(32, 64), (1,), None],
            "not a value of known rank with constant axes",
        ),
        (
            "ReduceMean",
            "opset1",
            {},
            (None, np.array([1])),
            [None, (1,), None],
            "not a value of known rank with constant axes",
        ),
        ("Roll", "opset7", {}, (None, np.array([2]), np.array([0, -2])), [(8, 32, 64), (1,), (2,), None], ""),
        ("Roll", "opset7", {}, (None, np.array([1 << 31]), np.array([0])), [(8, 32, 64), (1,), (1,), None], ""),
        *(
            (
                "Roll",
                "opset7",
                {},
                (None, np.array([shift]), np.array(axes)),
                [(8, 32, 64), (1,), (len(axes),), None],
                "only along different axes before the last one, by shifts of 32 bits",
            )
            for shift, axes in ((1, [2]), (1, [-1]), (1, [0, -3]), ((1 << 31) + 1, [0]))
        ),
        *(
            (
                "Roll",
                "opset7",
                {},
                constants,
                [shape, (1,), (1,), None],
                "not a value of known rank with constant axes and shifts",
            )
            for constants, shape in (
                ((None, None, np.array([0])), (8, 32, 64)),
                ((None, np.array([1]), None), (8, 32, 64)),
                ((None, np.array([1]), np.array([0])), None),
            )
        ),
        (
            "Roll",
            "opset7",
            {},
            (None, np.array([1]), np.array([0])),
            [(8, 32, 63), (1,), (1,), None],
            "NumPy is as fast for fewer than 16,384 elements",
        ),
        (
            "Roll",
            "opset7",
            {},
            (None, np.array([1, 2, 3]), np.array([0, 1])),
            [(8, 32, 64), (3,), (2,), None],
            "the plain kernel refuses the constants",
        ),
        (
            "GroupNormalization",
            "opset12",
            {"num_groups": 2, "epsilon": 1e-5},
            (None, SCALE, SCALE),
            [(2, 4, 5), (4,), (4,), None],
            "",
        ),
        *(
            (
                "GroupNormalization",
                "opset12",
                {"num_groups": 2, "epsilon": 1e-5},
                constants,
                [shape, (4,), (4,), None],
                "not a value of known rank with constant scale and bias",
            )
            for constants, shape in (
                ((None, None, SCALE), (2, 4, 5)),
                ((None, SCALE, None), (2, 4, 5)),
                ((None, SCALE, SCALE), None),
                ((None, SCALE, SCALE), (4,)),
                ((ones(2, 4, 5), SCALE, SCALE), (2, 4, 5)),
            )
        ),
        *(
            (
                "GroupNormalization",
                "opset12",
                {"num_groups": groups, "epsilon": 1e-5},
                (None, scale, bias),
                [(2, 4, 5), (4,), (4,), None],
                "scale and bias do not have one element for each channel of the groups",
            )
            for groups, scale, bias in (
                (3, SCALE, SCALE),
                (0, SCALE, SCALE),
                (2, ones(1, 4), ones(1, 4)),
                (2, SCALE, ones(1)),
                (1, ones(0), ones(0)),
            )
        ),
        *(
            (
                "GroupNormalization",
                "opset12",
                {"num_groups": 2, "epsilon": 1e-5},
                (None, scale, bias),
                [(2, 4, 5), (4,), (4,), None],
                "scale and bias are not f32",
            )
            for scale, bias in ((SCALE, SCALE.astype(F64)), (SCALE.astype(F64), SCALE.astype(F64)))
        ),
        ("DetectionOutput", "opset1", DETECTION, (None,) * 3, [(1, 8), (1, 4), (1, 2, 8), None], ""),
        (
            "DetectionOutput",
            "opset1",
            DETECTION,
            (None,) * 3,
            [(1, 8), (1, 6), (1, 2, 8), None],
            "the number of scores is not the number of priors and classes",
        ),
        (
            "DetectionOutput",
            "opset1",
            DETECTION,
            (None,) * 3,
            [(1, 8), (1, None), (1, 2, 8), None],
            "the shapes of the scores and priors are unknown",
        ),
        (
            "DetectionOutput",
            "opset1",
            DETECTION,
            (None,) * 3,
            [(1, 8), (1, 4), None, None],
            "the shapes of the scores and priors are unknown",
        ),
        (
            "DetectionOutput",
            "opset1",
            {**DETECTION, "normalized": False},
            (None,) * 3,
            [(1, 8), (1, 4), (1, 2, 10), None],
            "",
        ),
    ],
)
def test_call_sites_have_kernels_or_a_reason(name, version, attributes, constants, shapes, reason):
    assert find_refusal(name, version, attributes, constants, shapes) == reason


@pytest.mark.parametrize(
    ("kernel", "strides", "fits"),
    [
        ((3, 3), (3, 2), True),
        ((3, 3), (1, 3), False),
        ((3, 4), (1, 1), True),
        ((1, 13), (1, 1), False),
    ],
)
def test_depthwise_convolutions_of_large_windows_are_not_compiled(kernel, strides, fits, monkeypatch):
    monkeypatch.setattr("irrun.fast.jit.depthwise.MAX_TAPS", 12)  # the code of more would take long to compile
    convolution = ConvolutionKernel(ones(2, 1, 1, *kernel), {**CONVOLUTION, "strides": list(strides)}, (), [])
    if fits:
        assert convolution(ones(1, 2, 50, 50)).shape[:2] == (1, 2)
    else:
        with refuses("the filter or the stride is too large"):
            convolution(ones(1, 2, 50, 50))


def test_values_in_f16_are_widened_and_those_in_f32_stay():
    kernel, data = WideningKernel(), ones(2, 3)
    assert kernel(data) is data
    widened = kernel(data.astype(np.float16))
    assert widened.dtype == F32
    np.testing.assert_array_equal(widened, data)
    with refuses("expected f16"):
        kernel(data.astype(F64))


def test_detections_are_computed_in_f32():
    load_kernels("DetectionOutput")
    attributes = find("DetectionOutput", "opset8").attributes
    defaults = {a.name: a.default for a in attributes if not a.required}
    settings = DetectionSettings(**defaults | {"keep_top_k": [3], "nms_threshold": 0.5, "normalized": True})
    inputs = [np.zeros((1, 4), F32), np.zeros((1, 2), F32), np.array([[[0, 0, 1, 1], [1, 1, 1, 1]]], F32)]
    for position in (None, 0, 1, 2):
        kernel = DetectionKernel(settings, (None,) * 3, (False,) * 3)
        own = [x.astype(F64) if i == position else x for i, x in enumerate(inputs)]
        if position is None:
            assert kernel(*own).shape[-1] == 7
        else:
            with refuses("expected f32"):
                kernel(*own)


def test_sequences_refuse_other_types():
    members = [Computation((1,), 2, SoftmaxKernel(2))]
    kernel, coded = SequenceKernel(members, [1], [2]), SequenceKernel(members, [1], [2], [1])
    assert kernel(ones(2, 3)).shape == (2, 3)
    for own, data in ((kernel, ones(2, 3, dtype=F64)), (kernel, ones(2, 4, dtype=np.uint8)), (coded, ones(2, 3))):
        with refuses("expected f32, and codes in bytes"):
            own(data)


def test_parts_of_sequences_that_do_not_fit_together_have_no_plan():
    layouts = {1: make_layout((2, 3)), 2: make_layout((2, 4)), 3: make_layout((0, 3))}
    views = [Views(1, (4,), lambda x: x.copy())]
    for members, output, reason in (
        ([Concatenation((1, 2), 4, 0)], 4, "expected inputs of the same shape apart from the axis"),
        ([Concatenation((3, 3), 4, 1)], 4, "expected inputs of the same shape apart from the axis"),
        (views, 4, "expected views"),
    ):
        with refuses(reason):
            make_plan(members, layouts, [output])
    assert make_plan([Concatenation((1, 2), 4, -1)], layouts, [4]).results == [(2, 7)]
    assert make_plan([Concatenation((1, 3), 4, 0)], layouts, [4]).results == [(2, 3)]
