"""Kernels of instructions that compute with 8-bit codes."""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import numpy as np

from irrun.fast.errors import NoKernelError
from irrun.fast.jit.addresses import get_address
from irrun.fast.jit.bindings import (
    BUFFER,
    CONSTANT,
    MAX_BINDINGS,
    RESULT,
    TABLE,
    Binding,
    Layout,
    Operand,
    Shape,
    keep_binding,
)
from irrun.fast.jit.codes import CodeFormat, bind_decoding, bind_encoding, decode, encode
from irrun.fast.jit.convolution import Geometry
from irrun.fast.jit.dot_products import MAX_PRODUCTS, get_dot_product
from irrun.fast.jit.elementwise import make_contiguous
from irrun.fast.jit.expressions import Expression, Step
from irrun.fast.jit.kernels import classify_operand, expand_operand, make_geometry, make_placeholder
from irrun.fast.jit.product_kernels import classify_operand as classify_row_operand
from irrun.fast.jit.protocol import CompiledKernel
from irrun.fast.jit.quantized_channels import QuantizedChannelConvolution, is_faster
from irrun.fast.jit.quantized_code import count_quads
from irrun.fast.jit.quantized_convolution import QuantizedConvolution
from irrun.fast.jit.quantized_depthwise import QuantizedDepthwiseConvolution
from irrun.fast.jit.quantized_epilogue import CodedOperand, Source, simplify
from irrun.fast.jit.quantized_pads import PadCorrection, may_pad
from irrun.fast.jit.quantized_products import (
    QuantizedProduct,
    bind_row_decoding,
    bind_row_encoding,
    decode_rows,
    encode_rows,
)
from irrun.fast.jit.quantized_products import get_epilogue_address as get_row_epilogue_address
from irrun.fast.jit.tasks import Task
from irrun.limits import check_allocation
from irrun.ops._support.windows import create_windows

__all__ = [
    "DecodingKernel",
    "EncodingKernel",
    "PlainEncodingKernel",
    "PlainRowEncodingKernel",
    "QuantizedConvolutionKernel",
    "QuantizedProductKernel",
    "RowDecodingKernel",
    "RowEncodingKernel",
]

Array = np.ndarray[Any, Any]

F32, U8 = np.dtype(np.float32), np.dtype(np.uint8)

#: Maximum number of shapes with plans, for kernels whose plans hold an array of the size of the result.
MAX_CORRECTED_BINDINGS = 4


class EncodingKernel(CompiledKernel):
    """The kernel of a FakeQuantize that returns codes.

    Args:
        format_: The format of the codes.
        rank: The declared rank of the data.
        channels: The declared number of channels.
    """

    description = "compiled: quantization to 8-bit codes"
    returns_codes = True

    def __init__(self, format_: CodeFormat, rank: int, channels: int) -> None:
        self._format, self._rank, self._channels = format_, rank, channels

    def __call__(self, data: Array) -> Array:
        """Quantize.

        Raises:
            NoKernelError: The data has another rank, or another number of channels.
        """
        self._check(data.shape)
        return encode(data, self._format)

    def bind(self, layouts: Sequence[Layout]) -> Binding:
        """Return the conversion of values of a shape.

        Raises:
            NoKernelError: The data has another rank, or another number of channels.
        """
        (layout,) = layouts
        self._check(layout.shape)
        return bind_encoding(layout.shape, self._format)

    def _check(self, shape: Shape) -> None:
        if len(shape) != self._rank or shape[1] != self._channels:
            raise NoKernelError(f"expected data of rank {self._rank} with {self._channels} channels, found {shape}")


class DecodingKernel(CompiledKernel):
    """The kernel that converts codes to the values of a FakeQuantize.

    Args:
        format_: The format of the codes.
        channels: The number of channels.
    """

    description = "compiled: values of 8-bit codes"

    def __init__(self, format_: CodeFormat, channels: int) -> None:
        self._format, self._channels = format_, channels

    def __call__(self, codes: Array) -> Array:
        """Convert."""
        return decode(codes, self._format, self._channels)

    def bind(self, layouts: Sequence[Layout]) -> Binding:
        """Return the conversion of codes of a shape.

        Raises:
            NoKernelError: The codes have another number of channels.
        """
        ((shape, _),) = layouts
        if len(shape) < 3 or shape[1] != count_quads(self._channels) or shape[-1] != 1:
            raise NoKernelError("expected codes of the declared channels")
        return bind_decoding((shape[0], self._channels, *shape[2:-1]), self._format)


class PlainEncodingKernel(EncodingKernel):
    """The conversion of the values of a FakeQuantize to codes, after plain kernels.

    Args:
        format_: The format of the codes.
        rank: The declared rank of the data.
        channels: The declared number of channels.
    """

    def __init__(self, format_: CodeFormat, rank: int, channels: int) -> None:
        f = format_
        super().__init__(CodeFormat(f.out_low, f.out_high, f.out_low, f.out_high, f.levels), rank, channels)

    def __call__(self, data: Array) -> Array:
        """Convert."""
        if data.ndim == self._rank and not data.size:
            return np.empty(_to_codes(data.shape), U8)
        return super().__call__(np.asarray(data, F32))


@dataclass(frozen=True)
class _BoundConvolution:
    """A convolution for inputs of certain shapes.

    Attributes:
        binding: The convolution of the data, with operands in the form that the epilogue reads.
        shape: The shape of the values of the result.
        kinds: The kinds of the variable operands that the epilogue reads, by their numbers.
        copies_operands: Whether an operand has another form than the epilogue reads.
    """

    binding: Binding
    shape: tuple[int, ...]
    kinds: dict[int, str]
    copies_operands: bool


class QuantizedConvolutionKernel(CompiledKernel):
    """The kernel of a convolution of codes with an epilogue.

    Args:
        codes: The weights: i8, shape [GROUPS, CO, CI, kernel...], with one or two spatial axes.
        scales: The scale of the codes of each output channel: f64, shape [GROUPS * CO].
        attributes: The attributes of Convolution.
        source: The format of the data.
        steps: The steps of the epilogue.
        sources: For each operand of the steps: its value if it is constant, its format if it holds codes, or None.
        is_coded: Whether the result is codes of the last step, a FakeQuantize.

    Raises:
        NoKernelError: No such kernel exists.

    Attributes:
        description: How it is computed.
    """

    def __init__(
        self,
        codes: Array,
        scales: Array,
        attributes: Mapping[str, Any],
        source: CodeFormat,
        steps: tuple[Step, ...],
        sources: Sequence[Source],
        is_coded: bool,
    ) -> None:
        groups, out_channels, in_channels = codes.shape[:3]
        self._attributes, self.returns_codes = attributes, is_coded
        self._kernel_shape = codes.shape[3:]
        self._rank = codes.ndim - 1
        self._in_channels, self._out_channels = groups * in_channels, groups * out_channels
        is_depthwise = groups > 1 and in_channels == out_channels == 1
        if math.prod(codes.shape[2:]) > MAX_PRODUCTS:
            raise NoKernelError("the sums are too long")
        if not source.is_uniform and not is_depthwise:
            raise NoKernelError("expected one scale of the data")
        # The value of a code is (code - zero) * step + rest. Pads have the code of zero, or their value is subtracted.
        zero = source.nearest_zero
        pads_exactly = source.zero is not None and bool(zero.min() == zero.max())
        rest = source.out_low + zero * source.step
        sums = codes.reshape(self._out_channels, -1).sum(axis=1, dtype=np.int64)
        self._pad = int(zero.min()) * 0x01010101
        planar = codes if self._rank == 4 else codes[:, :, :, np.newaxis]
        bias = (-zero * sums).astype(np.int32)
        self._depthwise = QuantizedDepthwiseConvolution(planar[:, 0, 0], bias) if is_depthwise else None
        self._bias, self._filters = bias, planar[0] if groups == 1 else None
        self._by_channels: QuantizedChannelConvolution | None = None
        self._create_convolution = functools.partial(QuantizedConvolution, planar, bias)
        #: It is created for windows and epilogues that the other forms do not support, or for which it is faster.
        self._convolution = self._create_convolution() if groups > 1 and not is_depthwise else None
        self._correction: PadCorrection | None = None
        if not pads_exactly and may_pad(attributes, self._kernel_shape):
            value = source.out_low + int(zero.min()) * source.step
            self._correction = PadCorrection(planar, value * scales)
        self._formats = _list_formats(sources)
        self._types = [U8 if has_codes else F32 for has_codes in self._formats]
        #: The number of the variable that holds the correction.
        self._added = None if self._correction is None else len(self._formats)
        step, offset = source.step * scales, rest * scales * sums
        epilogue = simplify(steps, sources, step, offset, self._rank, is_coded, axis=1, added=self._added)
        self._steps = epilogue.steps
        self._operands = epilogue.operands
        self._bindings: dict[tuple[tuple[int, ...], ...], _BoundConvolution] = {}
        self._copies_operands = False
        kind = "depthwise convolution" if is_depthwise else "convolution"
        self.description = _describe(kind, is_coded)

    def __call__(self, data: Array, *variables: Array) -> Array:
        """Convolve, and compute the epilogue."""
        if data.dtype != U8 or [x.dtype for x in variables] != self._types:
            raise NoKernelError("expected codes and f32")
        bound = self._find_binding(data.shape, tuple([x.shape for x in variables]))
        check_allocation(bound.binding.shape, F32)
        operands = [
            _expand(x, bound.kinds[number], bound.shape) if number in bound.kinds else x
            for number, x in enumerate(variables)
        ]
        result = bound.binding.run((make_contiguous(data), *operands))
        return result.view(U8) if self.returns_codes else result

    def bind(self, layouts: Sequence[Layout]) -> Binding:
        """Return the convolution of inputs of certain shapes.

        Raises:
            NoKernelError: No kernel supports these shapes, or an operand would be copied.
        """
        data, *variables = (
            _to_bytes(layout.shape) if has_codes else layout.shape
            for layout, has_codes in zip(layouts, (True, *self._formats), strict=True)
        )
        bound = self._find_binding(data, tuple(variables))
        if bound.copies_operands:
            raise NoKernelError("expected operands as the epilogue reads them")
        return bound.binding

    def prepare(self, shapes: Sequence[Shape]) -> None:
        """Compile the kernels for declared shapes of the data and the variable operands, in f32."""
        coded = [_to_codes(s) if c else s for s, c in zip(shapes, [True, *self._formats], strict=True)]
        self._copies_operands = self._find_binding(coded[0], tuple(coded[1:])).copies_operands

    @property
    def can_bind(self) -> bool:
        """Whether operands of the declared shapes have the form that the epilogue reads."""
        return not self._copies_operands

    def _find_binding(self, data: tuple[int, ...], variables: tuple[tuple[int, ...], ...]) -> _BoundConvolution:
        """Return the convolution for shapes of arrays: codes have the shape of their bytes."""
        bound = self._bindings.get((data, *variables))
        if bound is None:
            limit = MAX_BINDINGS if self._correction is None else MAX_CORRECTED_BINDINGS
            bound = keep_binding(self._bindings, (data, *variables), self._bind(data, variables), limit)
        return bound

    def _bind(self, data_shape: tuple[int, ...], shapes: Sequence[tuple[int, ...]]) -> _BoundConvolution:
        if len(data_shape) != self._rank + 1 or data_shape[1] != count_quads(self._in_channels):
            raise NoKernelError("expected the channels of the filters")
        if not math.prod(data_shape) or data_shape[-1] != 4:
            raise NoKernelError("expected data")
        spatial = data_shape[2:-1]
        windows = create_windows(spatial, self._kernel_shape, **self._attributes)
        geometry = make_geometry(spatial, windows)
        output = geometry.output if self._rank == 4 else geometry.output[1:]
        shape = (data_shape[0], self._out_channels, *output)
        kinds: list[str] = []
        operands: list[Operand] = []
        constants: list[Array] = []
        for operand in self._operands:
            if isinstance(operand, int) and operand != self._added:
                kinds.append(self._classify(shapes[operand], self._formats[operand], shape))
                operands.append((1 + operand, 0))
                continue
            kind, value = self._prepare_constant(operand, geometry, shape)
            kinds.append(kind)
            operands.append((CONSTANT, get_address(value)))
            constants.append(value)
        expression = Expression(tuple(kinds), self._steps)
        tasks, buffer_size = self._make_tasks(data_shape[0], geometry, expression)
        stored = (*_to_codes(shape)[:-1], 1) if self.returns_codes else shape
        bases = (0, RESULT, TABLE, BUFFER) if buffer_size else (0, RESULT, TABLE)
        binding = Binding(stored, tasks, bases, operands, buffer_size, constants)
        variables = {number - 1: kind for (number, _), kind in zip(operands, kinds, strict=True) if number != CONSTANT}
        padded = (shape[0], 4 * count_quads(shape[1]))
        sizes = {"scalar": 1, "channel": math.prod(padded), "full": math.prod(shape)}
        copies_operands = any(
            kind != "codes" and math.prod(shapes[number]) != sizes[kind] for number, kind in variables.items()
        )
        return _BoundConvolution(binding, shape, variables, copies_operands)

    def _make_tasks(self, batch: int, geometry: Geometry, expression: Expression) -> tuple[list[Task], int]:
        """Return the tasks of the fastest method that supports the windows and epilogue, and their shared memory."""
        if self._depthwise is not None and self.returns_codes:
            with suppress(NoKernelError):
                return [self._depthwise.make_task(batch, geometry, self._pad, expression)], 0
        if self._filters is not None and self.returns_codes and is_faster(self._filters, geometry):
            with suppress(NoKernelError):
                if self._by_channels is None:
                    self._by_channels = QuantizedChannelConvolution(self._filters, self._bias)
                return self._by_channels.make_tasks(batch, geometry, self._pad, expression)
        if self._convolution is None:
            self._convolution = self._create_convolution()
        return self._convolution.make_tasks(batch, geometry, self._pad, expression, self.returns_codes)

    def _prepare_constant(self, operand: int | Array, geometry: Geometry, shape: tuple[int, ...]) -> tuple[str, Array]:
        """Return the kind of a constant operand, or of the correction, and its value as the epilogue reads it."""
        if isinstance(operand, int):
            assert self._correction is not None
            correction = self._correction.compute(geometry, shape[0]).reshape(shape[1:])
            return "full", _expand(correction[np.newaxis], "full", shape)
        kind = {0: "scalar", 1: "channel"}.get(operand.ndim, "full")
        return kind, _expand(operand, kind, shape)

    def _classify(self, operand: tuple[int, ...], is_coded: bool, shape: tuple[int, ...]) -> str:
        if is_coded:
            if operand != _to_codes(shape):
                raise NoKernelError("expected codes of the shape of the result")
            return "codes"
        return classify_operand(make_placeholder(operand), shape)


class RowEncodingKernel(CompiledKernel):
    """The kernel of a FakeQuantize that returns codes in bytes.

    Args:
        format_: The format of the codes.
        rank: The declared rank of the data.
        length: The declared length of the last axis.
    """

    description = "compiled: quantization to 8-bit codes"
    returns_codes = True

    def __init__(self, format_: CodeFormat, rank: int, length: int) -> None:
        self._format, self._rank, self._length = format_, rank, length

    def __call__(self, data: Array) -> Array:
        """Quantize.

        Raises:
            NoKernelError: The data has another rank, or rows of another length.
        """
        self._check(data.shape)
        return encode_rows(data, self._format)

    def bind(self, layouts: Sequence[Layout]) -> Binding:
        """Return the conversion of values of a shape.

        Raises:
            NoKernelError: The data has another rank, or rows of another length.
        """
        (layout,) = layouts
        self._check(layout.shape)
        return bind_row_encoding(layout.shape, self._format)

    def _check(self, shape: Shape) -> None:
        if len(shape) != self._rank or shape[-1] != self._length:
            raise NoKernelError(f"expected data of rank {self._rank} with rows of {self._length}, found {shape}")


class PlainRowEncodingKernel(RowEncodingKernel):
    """The conversion of the values of a FakeQuantize to codes in bytes, after plain kernels.

    Args:
        format_: The format of the codes.
        rank: The declared rank of the data.
        length: The declared length of the last axis.
    """

    def __init__(self, format_: CodeFormat, rank: int, length: int) -> None:
        f = format_
        super().__init__(CodeFormat(f.out_low, f.out_high, f.out_low, f.out_high, f.levels), rank, length)

    def __call__(self, data: Array) -> Array:
        """Convert."""
        return super().__call__(np.asarray(data, F32)) if data.size else np.empty(data.shape, U8)


class RowDecodingKernel(CompiledKernel):
    """The kernel that converts codes in bytes to the values of a FakeQuantize.

    Args:
        format_: The format of the codes.
    """

    description = "compiled: values of 8-bit codes"

    def __init__(self, format_: CodeFormat) -> None:
        self._format = format_

    def __call__(self, codes: Array) -> Array:
        """Convert."""
        return decode_rows(codes, self._format)

    def bind(self, layouts: Sequence[Layout]) -> Binding:
        """Return the conversion of codes of a shape.

        Raises:
            NoKernelError: The array of codes is empty.
        """
        ((shape, _),) = layouts
        return bind_row_decoding((*shape[:-1], 4 * shape[-1]), self._format)


class QuantizedProductKernel(CompiledKernel):
    """The kernel of a product of rows of codes with constant weights, with an epilogue.

    Args:
        codes: The weights: i8, shape [N, K].
        scales: The scale of the codes of each column: f64, shape [N].
        rank: The declared rank of the data.
        source: The format of the data.
        steps: The steps of the epilogue.
        sources: For each operand of the steps: its value if it is constant, its format if it holds codes, or None.
        is_coded: Whether the result is codes of the last step, a FakeQuantize.

    Raises:
        NoKernelError: No such kernel exists.

    Attributes:
        description: How it is computed.
    """

    def __init__(
        self,
        codes: Array,
        scales: Array,
        rank: int,
        source: CodeFormat,
        steps: tuple[Step, ...],
        sources: Sequence[Source],
        is_coded: bool,
    ) -> None:
        columns, inner = codes.shape
        if inner > MAX_PRODUCTS or inner % 4 or not source.is_uniform:
            raise NoKernelError("expected rows of a multiple of 4 with one scale")
        self._rank, self._inner, self._columns, self.returns_codes = rank, inner, columns, is_coded
        zero = source.nearest_zero
        rest = source.out_low + zero * source.step
        sums = codes.sum(axis=1, dtype=np.int64)
        self._product = QuantizedProduct(codes, (-zero * sums).astype(np.int32))
        epilogue = simplify(steps, sources, source.step * scales, rest * scales * sums, rank, is_coded, axis=-1)
        self._steps, self._operands = epilogue.steps, epilogue.operands
        if is_coded and columns % 4:
            raise NoKernelError("expected rows of codes of a multiple of 4")
        self._formats = _list_formats(sources)
        self._bindings: dict[tuple[tuple[int, ...], ...], Binding] = {}
        self.description = _describe("product", is_coded)

    def __call__(self, data: Array, *variables: Array) -> Array:
        """Multiply, and compute the epilogue."""
        types = [U8 if is_coded else F32 for is_coded in self._formats]
        if data.dtype != U8 or [x.dtype for x in variables] != types:
            raise NoKernelError("expected codes and f32")
        binding = self._find_binding((data.shape, *[x.shape for x in variables]))
        check_allocation(binding.shape, F32)
        result = binding.run([make_contiguous(x) for x in (data, *variables)])
        return result.view(U8) if self.returns_codes else result

    def bind(self, layouts: Sequence[Layout]) -> Binding:
        """Return the product of inputs of certain shapes.

        Raises:
            NoKernelError: No kernel supports these shapes.
        """
        shapes = [
            _to_bytes(layout.shape) if has_codes else layout.shape
            for layout, has_codes in zip(layouts, (True, *self._formats), strict=True)
        ]
        return self._find_binding(tuple(shapes))

    def prepare(self, shapes: Sequence[Shape]) -> None:
        """Compile the kernels for declared shapes of the data and the variable operands."""
        expression = self._classify(shapes[1:], (*shapes[0][:-1], self._columns))
        get_row_epilogue_address(expression, self.returns_codes)

    def _find_binding(self, shapes: tuple[tuple[int, ...], ...]) -> Binding:
        """Return the product for shapes of arrays: codes have the shape of their bytes."""
        data = shapes[0]
        if len(data) != self._rank or data[-1] != self._inner or not math.prod(data):
            raise NoKernelError("expected rows of the weights")
        binding = self._bindings.get(shapes)
        if binding is None:
            shape = (*data[:-1], self._columns)
            constants = [make_contiguous(x) for x in self._operands if not isinstance(x, int)]
            remaining = iter(constants)
            operands = [
                (1 + x, 0) if isinstance(x, int) else (CONSTANT, get_address(next(remaining))) for x in self._operands
            ]
            expression = self._classify(shapes[1:], shape)
            binding = self._product.make_binding(shape, expression, operands, constants, self.returns_codes)
            keep_binding(self._bindings, shapes, binding)
        return binding

    def _classify(self, shapes: Sequence[tuple[int, ...]], shape: tuple[int, ...]) -> Expression:
        kinds = []
        for operand in self._operands:
            own = shapes[operand] if isinstance(operand, int) else operand.shape
            if isinstance(operand, int) and self._formats[operand]:
                if own != shape:
                    raise NoKernelError("expected codes of the shape of the result")
                kinds.append("codes")
            else:
                kinds.append(classify_row_operand(own, shape))
        return Expression(tuple(kinds), self._steps)


def _list_formats(sources: Sequence[Source]) -> list[bool]:
    """Return for each variable operand whether it holds codes."""
    return [isinstance(s, CodedOperand) for s in sources if s is None or isinstance(s, CodedOperand)]


def _describe(kind: str, is_coded: bool) -> str:
    result = "codes" if is_coded else "f32"
    form = get_dot_product(can_saturate=kind != "product")
    return f"compiled: {kind} of 8-bit codes to {result}, sums in i32 ({form.name})"


def _to_bytes(shape: tuple[int, ...]) -> tuple[int, ...]:
    """Return the shape of codes in bytes for their shape in elements of four bytes."""
    return (*shape[:-1], 4 * shape[-1])


def _to_codes(shape: Sequence[int]) -> tuple[int, ...]:
    """Return the shape of the codes of values of a shape."""
    if len(shape) < 2:
        raise NoKernelError("expected channels")
    return (shape[0], count_quads(shape[1]), *shape[2:], 4)


def _expand(operand: Array, kind: str, shape: tuple[int, ...]) -> Array:
    """Return an operand in the form that the epilogue reads."""
    if kind == "codes":
        return make_contiguous(operand)
    if kind != "channel":
        return expand_operand(operand, kind, shape)
    own = ((1,) * max(0, len(shape) - operand.ndim) + operand.shape) if operand.ndim > 2 else operand.shape
    padded = np.zeros((shape[0], count_quads(shape[1]) * 4), F32)
    padded[:, : shape[1]] = operand.reshape(own[:2])
    return padded
