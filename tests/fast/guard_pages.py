"""Run compiled kernels on arrays next to pages that must not be read or written; the process ends if they are.

python guard_pages.py after
"""

from __future__ import annotations

import contextlib
import ctypes
import itertools
import math
import mmap
import sys

import ml_dtypes
import numpy as np

from irrun.fast.compressed import CompressedWeights
from irrun.fast.errors import NoKernelError
from irrun.fast.jit import (
    attention,
    bindings,
    column_softmax,
    compressed,
    concatenation,
    copies,
    group_normalization,
    interpolation,
    kernels,
    means,
    product_kernels,
    quantized_kernels,
    quantized_products,
    rotary,
    small_maps,
)
from irrun.fast.jit import codes as formats
from irrun.fast.jit.addresses import get_address
from irrun.fast.jit.compiler import get_lanes
from irrun.fast.jit.convolution_plan import Geometry
from irrun.fast.jit.dot_products import use_form
from irrun.fast.jit.expressions import Expression, Step
from irrun.fast.jit.quantized_epilogue import CodedOperand
from irrun.fast.specialization import CallSite
from irrun.ops._support.autoload import load_kernels
from irrun.ops._support.registry import find
from irrun.threads import use_threads

PAGE = mmap.PAGESIZE
PROT_NONE = 0

side = "after"
protected = ctypes.CDLL(None, use_errno=True).mprotect
pages = []
allocate_empty = np.empty


def allocate(shape, dtype=np.float64, *args, **kwargs):
    """Return an array that begins or ends at a protected page; replaces `np.empty`."""
    shape = (shape,) if isinstance(shape, (int, np.integer)) else tuple(shape)
    dtype = np.dtype(dtype)
    size = math.prod(shape) * dtype.itemsize
    if not size:
        return allocate_empty(shape, dtype)
    rounded = -(-size // PAGE) * PAGE
    memory = mmap.mmap(-1, rounded + PAGE)
    pages.append(memory)
    start = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    if protected(ctypes.c_void_p(start + (rounded if side == "after" else 0)), PAGE, PROT_NONE):
        raise OSError(ctypes.get_errno(), "mprotect")
    offset = rounded - size if side == "after" else PAGE
    return np.frombuffer(memory, dtype, math.prod(shape), offset).reshape(shape)


def guard(array):
    """Return a copy next to a protected page."""
    copy = allocate(array.shape, array.dtype)
    copy[...] = array
    return copy


def draw(*shape):
    return guard(np.random.default_rng(0).normal(size=shape).astype(np.float32))


def run_kernels():
    """Run each kind of kernel for lengths around the lengths of vectors and tiles."""
    bias = (Step("Add", (0, 1)), Step("Add", (3, 2)))
    for length in (1, 7, 16, 33, 50):
        x = draw(3, 5, length)
        kernels.ExpressionKernel(3, (Step("Sigmoid", (0,)), Step("Multiply", (2, 1))), [None])(x, draw(5, 1))
        kernels.SoftmaxKernel(3)(x)
        attributes = {"normalize_variance": True, "eps": 1e-5, "eps_mode": "inside_sqrt"}
        kernels.NormalizationKernel(3, 1, attributes, bias, [draw(length), None])(x, draw(3, 5, length))
        kernels.NormalizationKernel(3, 1, attributes, bias, [draw(length), None], is_centered=False)(
            x, draw(3, 5, length)
        )
        rotary.RotaryKernel(3)(draw(3, 5, 2 * length), draw(5, 2 * length), draw(1, 2 * length))
        for rows in (1, 4, 9):
            product = product_kernels.ProductKernel(2, draw(length, 50), bias, [draw(50), None])
            product(draw(rows, length), draw(rows, 50))
            product_kernels.ProductKernel(2, draw(length, 50).T, (), [])(draw(rows, 50))
        views = draw(2, 21, 3, length).transpose(0, 2, 1, 3), draw(2, 5, 3, length).transpose(0, 2, 1, 3)
        variable = product_kernels.VariableProductKernel((False, True), bias, [draw(5), None])
        variable(*views, draw(3, 21, 5))
        product_kernels.VariableProductKernel((True, False), (), [])(draw(4, length, 17), draw(length, 33))
        inputs = [draw(2, 9, length), draw(2, 21, length), draw(2, 21, 5)]
        heads = [x.reshape(2, 1, *x.shape[1:]).transpose(0, 2, 1, 3)[:, :9] for x in inputs]
        attention.AttentionKernel([None] * 3, False, False)(*heads)
        attention.AttentionKernel([None] * 3, True, False)(*inputs)
        attention.AttentionKernel([None] * 4, False, False)(*inputs, draw(2, 1, 21))
        run_convolutions(length, bias)
        run_interpolations(length)
        means.MeanKernel(3, 1, False)(draw(3, 5, length))
        run_copies(length)
        group_normalization.GroupNormalizationKernel(3, 2, 1e-5, draw(6), draw(6))(draw(2, 6, length))
    codes = guard(np.random.default_rng(0).integers(-128, 128, (21, 96)).astype(np.int8))
    scale = guard(np.random.default_rng(0).uniform(0.5, 1, (21, 3)).astype(np.float32))
    nibbles = guard(np.random.default_rng(0).integers(0, 256, (21, 48)).astype(np.uint8))
    for name, stored in (("int8", None), ("int4", nibbles), ("uint4", nibbles)):
        dtype = getattr(ml_dtypes, name, name)
        kernel = compressed.CompressedKernel(CompressedWeights(codes.view(dtype), None, scale, 3, stored))
        for rows in (1, 2, 9, 33):
            kernel(draw(rows, 96))


def run_copies(length):
    for view in (draw(3, 5, length).transpose(1, 0, 2), draw(2, length, 40).transpose(0, 2, 1)):
        with contextlib.suppress(NoKernelError):  # of short rows and columns
            copies.bind_contiguous(bindings.get_layout(view)).run([view])
    with contextlib.suppress(NoKernelError):
        copies.RotationKernel({1: 2})(draw(3, 5, length))
    with contextlib.suppress(NoKernelError):
        column_softmax.ColumnSoftmaxKernel(3, 0)(draw(5, 3, length).transpose(1, 0, 2))
    for rows in (1, 3):
        concatenation.bind_copy(rows, length, length + 5).run([draw(rows, length)])


def draw_codes(*shape, dtype=np.uint8):
    limits = np.iinfo(dtype)
    return guard(np.random.default_rng(0).integers(limits.min, limits.max + 1, shape).astype(dtype))


def run_quantized_kernels():
    """Run kernels on codes for lengths around those of vectors and tiles, and numbers of channels around four."""
    low, high = np.array(-1, np.float32), np.array(1, np.float32)
    coded = formats.CodeFormat.create([low, high, low, high], 255, 4)
    limits = [low, high, np.float32(2), np.float32(2), low]
    steps = (Step("Add", (0, 1)), Step("Add", (8, 2)), Step("FakeQuantize", (9, 3, 4, 5, 6, 7), (254.0,)))
    for width in (1, 16, 33, 55):
        for channels in (1, 4, 7):
            data = draw(2, channels, 3, width)
            formats.decode(formats.encode(data, coded), coded, channels)
        for groups, c_out, c_in, kernel in ((1, 9, 7, 3), (1, 36, 4, 1), (10, 1, 1, 3), (2, 8, 4, 2)):
            for stride, dilation, begin, end in ((1, 1, 0, 0), (1, 1, 1, 1), (2, 1, 0, 3), (3, 2, 2, 1)):
                windows = width + begin + end - dilation * (kernel - 1)
                if windows < 1:
                    continue
                attributes = {
                    "strides": [1, stride],
                    "dilations": [1, dilation],
                    "pads_begin": [0, begin],
                    "pads_end": [0, end],
                }
                channels = groups * c_out
                shape = (2, channels, 6 - kernel, (windows - 1) // stride + 1)
                weights = draw_codes(groups, c_out, c_in, kernel, kernel, dtype=np.int8)
                data = draw_codes(2, -(-groups * c_in // 4), 5, width, 4)
                for is_coded in (False, True):
                    sources = [draw(1, channels, 1, 1), CodedOperand(coded) if is_coded else None, *limits]
                    own = steps if is_coded else steps[:2]
                    arguments = (attributes, coded, own, sources, is_coded)
                    convolve = quantized_kernels.QuantizedConvolutionKernel(weights, np.ones(channels), *arguments)
                    residual = formats.encode(draw(*shape), coded) if is_coded else draw(*shape)
                    convolve(data, guard(residual))
                own = (steps[0], Step("FakeQuantize", (7, 2, 3, 4, 5, 6), (254.0,)))
                arguments = (attributes, coded, own, [draw(1, channels, 1, 1), *limits], True)
                quantized_kernels.QuantizedConvolutionKernel(weights, np.ones(channels), *arguments)(data)
        for is_coded in (False, True):
            sources = [draw(width), CodedOperand(coded) if is_coded else None, *limits]
            own = steps if is_coded else steps[:2]
            columns = width + -width % 4 if is_coded else width
            sources[0] = draw(columns)
            weights = draw_codes(columns, 12, dtype=np.int8)
            product = quantized_kernels.QuantizedProductKernel(
                weights, np.ones(columns), 2, coded, own, sources, is_coded
            )
            for rows in (1, 4, 9, 200):
                residual = draw_codes(rows, columns) if is_coded else draw(rows, columns)
                product(draw_codes(rows, 12), residual)
        for data in (draw(width), draw_codes(width)):
            if data.dtype == np.uint8:
                quantized_products.decode_rows(data, coded)
            else:
                quantized_products.encode_rows(data, coded)


def run_convolutions(width, bias):
    """Run convolutions with strides, dilations, and pads of both signs."""
    for stride, dilation, begin, end in ((1, 1, 1, 1), (2, 1, 0, 3), (1, 2, 3, -1), (3, 1, -1, 4), (2, 3, 9, 9)):
        attributes = {
            "strides": [1, stride],
            "dilations": [2, dilation],
            "pads_begin": [2, begin],
            "pads_end": [1, end],
        }
        for filters in ((1, 10, 3, 3, 3), (2, 3, 2, 1, 2), (4, 1, 1, 3, 3), (1, 9, 4, 1, 1)):
            windows = width + begin + end - dilation * (filters[4] - 1)
            if windows < 1 or (filters[1:3] == (1, 1) and stride > 2):
                continue
            channels = filters[0] * filters[1]
            shape = (2, channels, 7 + 3 - 2 * (filters[3] - 1), (windows - 1) // stride + 1)
            kernel = kernels.ConvolutionKernel(draw(*filters), attributes, bias, [draw(1, channels, 1, 1), None])
            kernel(draw(2, filters[0] * filters[2], 7, width), draw(*shape))
    if width >= 16:
        for out_channels in (9, 32):
            geometry = Geometry((1, width), *[(1, 1)] * 3, *[(0, 0)] * 2)
            operands = [(bindings.CONSTANT, get_address(draw(2 * out_channels))), (1, 0)]  # pages stay in memory
            small = small_maps.SmallMapConvolution(draw(1, out_channels, 5, 1, 1))
            binding = small.make_binding(2, geometry, Expression(("channel", "full"), bias), operands)
            binding.run([draw(2, 5, 1, width), draw(2, out_channels, 1, width)])
            geometry = Geometry((3, 2 * width), (1, 1), (3, 2), (1, 1), *[(0, 0)] * 2)
            binding = small.make_binding(2, geometry, Expression(("channel", "full"), bias), operands)
            binding.run([draw(2, 5, 3, 2 * width), draw(2, out_channels, 1, width)])
    pointwise = {"strides": [1, 1], "dilations": [1, 1], "pads_begin": [0, 0], "pads_end": [0, 0]}
    kernel = kernels.ConvolutionKernel(draw(1, 9, 4, 1, 1), pointwise, bias, [draw(1, 9, 1, 1), None])
    kernel(draw(2, 4, 7, width), draw(2, 9, 7, width))
    kernel = kernels.ConvolutionKernel(draw(1, 9, 4, 1, 1), pointwise, bias[:1], [draw(1, 9, 1, 1)])
    kernel(draw(2, 4, 7, width))


def run_interpolations(length):
    """Resize rows and columns, and keep one of them."""
    load_kernels("Interpolate")
    operation = find("Interpolate", "opset11")
    for mode, sizes in itertools.product(("linear", "nearest"), ((14, 3 * length), (7, length // 2 + 1), (9, length))):
        attributes = {"mode": mode, "shape_calculation_mode": "sizes"}
        site = CallSite(operation, attributes, (None, np.array(sizes), np.array([2, 3])), (False,) * 3, 1)
        interpolation.InterpolateKernel(site)(draw(1, 3, 7, length))


if __name__ == "__main__":
    side = sys.argv[1]
    np.empty = allocate  # type: ignore[misc]
    with use_threads(1), np.errstate(all="ignore"):
        run_kernels()
        run_quantized_kernels()
        for form in ("pairs", "portable"):
            with use_form(form):
                run_quantized_kernels()
        if get_lanes() >= 8:
            setattr(quantized_kernels, "is_faster", lambda filters, geometry: True)  # noqa: B010
            for form in ("", "pairs"):
                with use_form(form):
                    run_quantized_kernels()
    print("done")
