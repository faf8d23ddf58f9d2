"""Compiled kernels on 8-bit codes: convolutions and products of quantized values with quantized weights.

If such an operation reads the values of a FakeQuantize, they are *coded*: an additional slot holds their codes. The
operation reads the codes, and so do operations that add them as residuals. Values that such an operation computes and
another one only adds as residuals are coded, too. Other instructions read values that are decoded from the codes. The
instructions that a kernel replaces are kept between a decoding and an encoding, in case they have to run. Convolutions
read codes of four channels side by side (the layout "channels"), products read rows of codes (the layout "rows").
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from irrun.fast.compressed import CompressedWeights, multiply_by_weights
from irrun.fast.errors import REFUSALS
from irrun.fast.jit.codes import CodeFormat, find_weight_codes
from irrun.fast.jit.dot_products import MAX_PRODUCTS
from irrun.fast.jit.expressions import Step
from irrun.fast.jit.quantized_epilogue import CodedOperand, Source
from irrun.fast.jit.quantized_kernels import (
    DecodingKernel,
    EncodingKernel,
    PlainEncodingKernel,
    PlainRowEncodingKernel,
    QuantizedConvolutionKernel,
    QuantizedProductKernel,
    RowDecodingKernel,
    RowEncodingKernel,
)
from irrun.runtime.passes.jit_compilation import Compilation, is_row_or_full
from irrun.runtime.program import ABSENT, Instruction

__all__ = ["use_quantized_kernels"]

Array = np.ndarray[Any, Any]

#: Maximum number of operations between an operation on codes and the FakeQuantize of its result.
MAX_STEPS = 8


@dataclass(frozen=True)
class _Quantization:
    """A FakeQuantize with values that may be coded, or an operation that selects such values.

    Attributes:
        number: The number of its instruction.
        format: The format of the codes.
        shape: The declared shape, with None for dynamic dimensions.
        is_selection: Whether it selects values: these stay f32, and their codes are computed in addition.
    """

    number: int
    format: CodeFormat
    shape: tuple[Any, ...]
    is_selection: bool = False

    @property
    def rank(self) -> int:
        """The rank of the data."""
        return len(self.shape)

    @property
    def channels(self) -> int:
        """The number of channels."""
        return int(self.shape[1])


@dataclass(frozen=True)
class _Weights:
    """Codes of filters [GROUPS, CO, CI, kernel...] or of a matrix [N, K], and the scales of channels or columns."""

    codes: Array
    scales: Array

    @property
    def layout(self) -> str:
        """The layout of the codes of data."""
        return "rows" if self.codes.ndim == 2 else "channels"


class _ExcludedError(Exception):
    """An operation has no kernel on codes."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number


class _CodedResidualError(Exception):
    """A value is only a residual, and can be coded."""

    def __init__(self, slot: int, layout: str) -> None:
        super().__init__(slot, layout)
        self.slot, self.layout = slot, layout


def use_quantized_kernels(compilation: Compilation) -> None:
    """Replace convolutions and products of quantized values, with what follows them, by kernels on codes.

    Args:
        compilation: The rewriting of a program, before other groups are replaced.
    """
    formats = _find_formats(compilation)
    if not formats:
        return
    operations = _find_operations(compilation, formats)
    residuals: dict[int, str] = {}
    saved = compilation.taken.copy(), compilation.replacements.copy()
    while operations:
        try:
            _Rewriting(compilation, formats, operations, residuals).run()
        except (_ExcludedError, _CodedResidualError) as error:
            if isinstance(error, _CodedResidualError):
                residuals[error.slot] = error.layout
            else:
                del operations[error.number]
                residuals.clear()
            compilation.taken, compilation.replacements = saved[0].copy(), saved[1].copy()
            compilation.encoded.clear()
            compilation.insertions.clear()
        else:
            return


def _find_formats(c: Compilation) -> dict[int, _Quantization]:
    """Return the quantizations by the slots of their values."""
    formats: dict[int, _Quantization] = {}
    for number, instruction in enumerate(c.instructions):
        if instruction.operation.keeps_values and c.is_replaceable(number):
            formats.update(_find_selections(c, number, formats))
            continue
        if not instruction.operation.has_levels or not c.is_replaceable(number):
            continue
        slot = instruction.outputs[0]
        shape = c.view.get_shape(slot)
        if shape is None or len(shape) < 2 or c.view.get_shape(instruction.inputs[0]) != shape:
            continue
        if not (c.view.is_f32(slot) and c.view.is_f32(instruction.inputs[0])):
            continue
        if not instruction.broadcasts_like_numpy:
            continue
        limits = [c.view.get_constant(s) for s in instruction.inputs[1:]]
        format_ = CodeFormat.create(limits, int(instruction.attributes["levels"]), len(shape))
        if format_ is not None and (format_.is_uniform or format_.low.size == shape[1]):
            formats[slot] = _Quantization(number, format_, shape)
    return formats


def _find_selections(c: Compilation, number: int, formats: dict[int, _Quantization]) -> dict[int, _Quantization]:
    """Return the formats of the results of an operation that selects values of a single format."""
    instruction = c.instructions[number]
    count = len(instruction.inputs) if instruction.operation.concatenates else 1
    sources = [formats.get(slot) for slot in instruction.inputs[:count]]
    first = sources[0] if sources else None
    if first is None or not all(source is not None and source.format.equals(first.format) for source in sources):
        return {}
    shapes = {slot: c.view.get_shape(slot) for slot in instruction.outputs if c.view.is_f32(slot)}
    return {
        slot: _Quantization(number, first.format, shape, is_selection=True)
        for slot, shape in shapes.items()
        if shape is not None and len(shape) >= 2 and first.format.is_uniform
    }


def _find_operations(c: Compilation, formats: dict[int, _Quantization]) -> dict[int, _Weights]:
    """Return the weights of operations on quantized values by the numbers of their instructions."""
    operations: dict[int, _Weights] = {}
    layouts: dict[int, str] = {}
    for find in (_find_filters, _find_matrix):
        for number, instruction in enumerate(c.instructions):
            slot = instruction.inputs[0] if instruction.inputs else ABSENT
            if slot not in formats or not c.view.is_f32(instruction.outputs[0]):
                continue
            weights = find(c, number, formats[slot])
            if weights is not None and layouts.setdefault(slot, weights.layout) == weights.layout:
                operations[number] = weights
    return operations


def _find_filters(c: Compilation, number: int, source: _Quantization) -> _Weights | None:
    """Return the weights of a convolution, or None for other instructions."""
    instruction = c.instructions[number]
    if not instruction.operation.convolves or not c.is_replaceable(number):
        return None
    filters, shape = c.view.get_constant(instruction.inputs[1]), c.view.get_shape(instruction.outputs[0])
    if filters is None or filters.dtype != np.float32 or not filters.size:
        return None
    if source.rank not in (3, 4) or shape is None or len(shape) != source.rank or shape[1] is None:
        return None
    grouped = filters if instruction.operation.has_groups else filters[np.newaxis]
    if grouped.ndim != source.rank + 1:
        return None
    groups, out_channels, in_channels = grouped.shape[:3]
    is_depthwise = groups > 1 and out_channels == in_channels == 1
    if groups * in_channels != source.shape[1] or not (source.format.is_uniform or is_depthwise):
        return None
    if groups > 1 and not is_depthwise and (out_channels % 4 or in_channels % 4):
        return None
    if grouped[0, 0].size > MAX_PRODUCTS or not c.packed.fits(grouped.size * (4 if is_depthwise else 1)):
        return None
    found = find_weight_codes(grouped.reshape(groups * out_channels, -1))
    return None if found is None else _Weights(found[0].reshape(grouped.shape), found[1])


def _find_matrix(c: Compilation, number: int, source: _Quantization) -> _Weights | None:
    """Return the weights of a product, or None for other instructions."""
    instruction = c.instructions[number]
    shape = c.view.get_shape(instruction.outputs[0])
    if not instruction.operation.multiplies_matrices or not source.format.is_uniform or shape is None:
        return None
    if len(shape) != source.rank or shape[-1] is None:
        return None
    weights: _Weights | None
    if instruction.kernel is multiply_by_weights:
        weights = _find_compressed(instruction.attributes["weights"])
    else:
        matrix = c.view.get_constant(instruction.inputs[1])
        if not c.is_replaceable(number) or matrix is None or matrix.ndim != 2 or matrix.dtype != np.float32:
            return None
        if instruction.attributes.get("transpose_a") or not matrix.size:
            return None
        found = find_weight_codes(matrix if instruction.attributes.get("transpose_b") else matrix.T)
        weights = None if found is None else _Weights(*found)
    if weights is None or weights.codes.shape != (shape[-1], source.shape[-1]):
        return None
    inner = weights.codes.shape[1]
    return weights if not inner % 4 and inner <= MAX_PRODUCTS and c.packed.fits(weights.codes.size) else None


def _find_compressed(weights: CompressedWeights) -> _Weights | None:
    if weights.codes.dtype != np.int8 or weights.groups != 1 or weights.zero_point is not None or weights.scale is None:
        return None
    scales = np.broadcast_to(weights.scale.reshape(-1), weights.shape[:1]).astype(np.float64)
    return _Weights(np.asarray(weights.codes), scales) if np.isfinite(scales).all() else None


class _Rewriting:
    """One attempt to replace all operations."""

    def __init__(
        self,
        c: Compilation,
        formats: dict[int, _Quantization],
        operations: dict[int, _Weights],
        residuals: dict[int, str],
    ) -> None:
        self.c = c
        self.formats = formats
        self.operations = operations
        #: Slots of coded values -> layouts of their codes.
        self.layouts = {c.instructions[n].inputs[0]: weights.layout for n, weights in operations.items()} | residuals
        #: Slots -> numbers of the instructions that compute them.
        self.producers = {slot: number for number, i in enumerate(c.instructions) for slot in i.outputs}
        #: Slots of coded values -> slots of their codes.
        self.coded: dict[int, int] = {}
        #: Slots whose f32 a kernel on codes reads.
        self.decoded: set[int] = set()

    def run(self) -> None:
        """Replace the operations.

        Raises:
            _ExcludedError: A FakeQuantize or operation has no kernel.
        """
        c = self.c
        first_slot = len(c.program.initial)
        self.coded = {slot: first_slot + i for i, slot in enumerate(self.layouts)}
        for slot, layout in self.layouts.items():
            if not self.formats[slot].is_selection:
                c.encoded[self.formats[slot].number] = layout
        readers: dict[int, set[int]] = {slot: set() for slot in self.coded}
        for number in sorted(self.operations):
            self.replace(number, readers)
        for slot in self.coded:
            quantization = self.formats[slot]
            if quantization.is_selection:
                c.insertions.setdefault(quantization.number, []).append(self.make_encoding(slot, is_inserted=True))
                continue
            if quantization.number not in c.taken:
                self.encode(slot)
            if slot in self.decoded or not c.consumers[slot] <= readers[slot]:
                c.insertions[quantization.number] = [self.make_decoding(slot, is_inserted=True)]
        c.program.initial.extend([None] * len(self.coded))

    def encode(self, slot: int) -> None:
        """Replace a FakeQuantize by the kernel that returns codes."""
        c, quantization = self.c, self.formats[slot]
        instruction = c.instructions[quantization.number]
        kernel: EncodingKernel | RowEncodingKernel
        if self.layouts[slot] == "rows":
            kernel = RowEncodingKernel(quantization.format, quantization.rank, quantization.shape[-1])
        else:
            kernel = EncodingKernel(quantization.format, quantization.rank, quantization.channels)
        c.replace(
            [quantization.number],
            kernel,
            instruction.inputs[:1],
            outputs=(self.coded[slot],),
            plain=(instruction, self.make_encoding(slot, is_inserted=False)),
        )

    def make_encoding(self, slot: int, is_inserted: bool) -> Instruction:
        """Return the instruction that encodes values, after plain instructions or in the program."""
        quantization = self.formats[slot]
        instruction = self.c.instructions[quantization.number]
        kernel: PlainEncodingKernel | PlainRowEncodingKernel
        if self.layouts[slot] == "rows":
            kernel = PlainRowEncodingKernel(quantization.format, quantization.rank, quantization.shape[-1])
        else:
            kernel = PlainEncodingKernel(quantization.format, quantization.rank, quantization.channels)
        encoding = replace(
            instruction,
            kernel=kernel,
            attributes={},
            inputs=(slot,),
            outputs=(self.coded[slot],),
            is_observed=False,
            description=kernel.description,
        )
        return replace(encoding, plain=(encoding,)) if is_inserted else encoding

    def make_decoding(self, slot: int, is_inserted: bool) -> Instruction:
        """Return the instruction that decodes values, before plain instructions or in the program."""
        quantization = self.formats[slot]
        instruction = self.c.instructions[quantization.number]
        kernel: DecodingKernel | RowDecodingKernel
        if self.layouts[slot] == "rows":
            kernel = RowDecodingKernel(quantization.format)
        else:
            kernel = DecodingKernel(quantization.format, quantization.channels)
        decoding = replace(
            instruction,
            kernel=kernel,
            attributes={},
            inputs=(self.coded[slot],),
            outputs=(slot,),
            is_observed=False,
            description=kernel.description,
        )
        return replace(decoding, plain=(decoding,)) if is_inserted else decoding

    def replace(self, number: int, readers: dict[int, set[int]]) -> None:
        """Replace an operation and the operations that follow it."""
        c, weights = self.c, self.operations[number]
        instruction = c.instructions[number]
        group = c.make_group(number, instruction.inputs[:1])
        group.layout = weights.layout
        if weights.layout == "rows":
            group.accepts = functools.partial(is_row_or_full, group.shape)
        c.extend(group)
        last = c.instructions[group.members[-1]]
        result = last.outputs[0]
        is_coded = result in self.coded
        steps = c.number_steps(group)
        sources: list[Source] = []
        coded_inputs = {instruction.inputs[0]: None}
        inputs = [self.coded[instruction.inputs[0]]]
        for operand in group.operands:
            if not isinstance(operand, int):
                sources.append(operand)
            elif self.layouts.get(operand) == weights.layout and c.view.get_shape(operand) == group.shape:
                sources.append(CodedOperand(self.formats[operand].format))
                coded_inputs[operand] = None
                inputs.append(self.coded[operand])
            elif self.is_codable_residual(operand, weights.layout, group.shape, set(group.members)):
                raise _CodedResidualError(operand, weights.layout)
            else:
                sources.append(None)
                inputs.append(operand)
                self.decoded.add(operand)
        try:
            kernel = self.create_kernel(number, weights, steps, sources, is_coded)
            variables = [operand for operand in group.operands if isinstance(operand, int)]
            shapes = [c.view.get_shape(slot) for slot in (instruction.inputs[0], *variables)]
            if all(shape is not None and None not in shape for shape in shapes):
                kernel.prepare([shape or () for shape in shapes])
        except REFUSALS as error:
            raise _ExcludedError(number) from error
        for slot in coded_inputs:
            readers[slot].update(n for n in c.consumers[slot] if n in group.members)
        c.packed.reserve(weights.codes.nbytes)
        members = [c.instructions[n] for n in group.members]
        c.replace(
            group.members,
            kernel,
            tuple(inputs),
            outputs=(self.coded[result],) if is_coded else last.outputs,
            plain=(
                *(self.make_decoding(slot, is_inserted=False) for slot in coded_inputs),
                *(i for member in members for i in member.plain or (member,)),
                *([self.make_encoding(result, is_inserted=False)] if is_coded else []),
            ),
        )

    def is_codable_residual(self, slot: int, layout: str, shape: Any, members: set[int]) -> bool:
        """Return whether a residual is quantized after an operation on codes, and read by one group only."""
        if slot not in self.formats or self.c.view.get_shape(slot) != shape or not self.c.consumers[slot] <= members:
            return False
        format_, length = self.formats[slot].format, self.formats[slot].shape[-1]
        if not format_.is_uniform or (layout == "rows" and (length is None or length % 4)):
            return False
        number = self.formats[slot].number
        for _ in range(MAX_STEPS):
            if number in self.operations:
                return self.operations[number].layout == layout
            source = next(iter(self.c.instructions[number].inputs), ABSENT)
            if source not in self.producers or self.c.view.get_shape(source) != shape:
                return False
            number = self.producers[source]
        return False

    def create_kernel(
        self, number: int, weights: _Weights, steps: tuple[Step, ...], sources: Sequence[Source], is_coded: bool
    ) -> QuantizedConvolutionKernel | QuantizedProductKernel:
        """Return the kernel of an operation and the steps that follow it."""
        instruction = self.c.instructions[number]
        source = self.formats[instruction.inputs[0]]
        rest = (source.format, steps, sources, is_coded)
        if weights.layout == "rows":
            return QuantizedProductKernel(weights.codes, weights.scales, source.rank, *rest)
        return QuantizedConvolutionKernel(weights.codes, weights.scales, instruction.attributes, *rest)
