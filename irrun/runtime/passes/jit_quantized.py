"""Compiled kernels on codes of 8 bits: convolutions of quantized values by quantized weights.

The values of a FakeQuantize that such a convolution reads are *coded*: kept as codes in a slot of their own, which the
convolution and its residuals read. Other instructions read values that are decoded from it. Instructions that a kernel
replaces are preceded by a decoding and followed by an encoding, in case that they run.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from irrun.fast.jit.codes import CodeFormat, find_weight_codes
from irrun.fast.jit.dot_products import MAX_PRODUCTS
from irrun.fast.jit.expressions import Step
from irrun.fast.jit.quantized_epilogue import CodedOperand, Source
from irrun.fast.jit.quantized_kernels import (
    DecodingKernel,
    EncodingKernel,
    PlainEncodingKernel,
    QuantizedConvolutionKernel,
)
from irrun.runtime.program import Instruction

if TYPE_CHECKING:
    from irrun.runtime.passes.jit import Compilation

__all__ = ["quantize_convolutions"]

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class _Quantization:
    """A FakeQuantize whose values may be coded.

    Attributes:
        number: The number of its instruction.
        format: The format of the codes.
        rank: The rank of the data.
        channels: The number of channels.
    """

    number: int
    format: CodeFormat
    rank: int
    channels: int


@dataclass(frozen=True)
class _Weights:
    """Codes of filters [GROUPS, CO, CI, kernel...] and the scales of output channels [GROUPS * CO]."""

    codes: Array
    scales: Array


class _ExcludedError(Exception):
    """A convolution without a kernel on codes."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number


def quantize_convolutions(compilation: Compilation) -> None:
    """Replace convolutions of quantized values, with what follows them, by kernels on codes.

    Args:
        compilation: The rewriting of a program, before other groups are replaced.
    """
    formats = _find_formats(compilation)
    if not formats:
        return
    convolutions = _find_convolutions(compilation, formats)
    saved = compilation.taken.copy(), compilation.replacements.copy()
    while convolutions:
        try:
            _Rewriting(compilation, formats, convolutions).run()
        except _ExcludedError as error:
            del convolutions[error.number]
            compilation.taken, compilation.replacements = saved[0].copy(), saved[1].copy()
            compilation.encoded.clear()
            compilation.insertions.clear()
        else:
            return


def _find_formats(c: Compilation) -> dict[int, _Quantization]:
    """Return the quantizations by the slots of their values."""
    formats = {}
    for number, instruction in enumerate(c.instructions):
        if str(instruction.operation) != "FakeQuantize-1" or not c.is_replaceable(number):
            continue
        slot = instruction.outputs[0]
        shape = c.get_shape(slot)
        if shape is None or len(shape) not in (3, 4) or shape[1] is None or c.get_shape(instruction.inputs[0]) != shape:
            continue
        if not (c.is_f32(slot) and c.is_f32(instruction.inputs[0])):
            continue
        if instruction.attributes.get("auto_broadcast", "numpy") != "numpy":
            continue
        limits = [c.get_constant(s) for s in instruction.inputs[1:]]
        format_ = CodeFormat.create(limits, int(instruction.attributes["levels"]), len(shape))
        if format_ is not None and (format_.is_uniform or format_.low.size == shape[1]):
            formats[slot] = _Quantization(number, format_, len(shape), shape[1])
    return formats


def _find_convolutions(c: Compilation, formats: dict[int, _Quantization]) -> dict[int, _Weights]:
    """Return the weights of convolutions of quantized values by the numbers of their instructions."""
    convolutions = {}
    for number, instruction in enumerate(c.instructions):
        if instruction.operation.type not in ("Convolution", "GroupConvolution") or not c.is_replaceable(number):
            continue
        source = formats.get(instruction.inputs[0])
        filters = c.get_constant(instruction.inputs[1])
        shape = c.get_shape(instruction.outputs[0])
        if source is None or filters is None or filters.dtype != np.float32 or shape is None or not filters.size:
            continue
        grouped = filters if instruction.operation.type == "GroupConvolution" else filters[np.newaxis]
        if grouped.ndim != len(shape) + 1 or not c.is_f32(instruction.outputs[0]) or shape[1] is None:
            continue
        weights = _find_weights(grouped, source, c)
        if weights is not None:
            convolutions[number] = weights
    return convolutions


def _find_weights(grouped: Array, source: _Quantization, c: Compilation) -> _Weights | None:
    groups, out_channels, in_channels = grouped.shape[:3]
    is_depthwise = groups > 1 and out_channels == in_channels == 1
    if groups * in_channels != source.channels or not (source.format.is_uniform or is_depthwise):
        return None
    if groups > 1 and not is_depthwise and (out_channels % 4 or in_channels % 4):
        return None
    if grouped[0, 0].size > MAX_PRODUCTS or not c.packed.fits(grouped.size * (4 if is_depthwise else 1)):
        return None
    found = find_weight_codes(grouped.reshape(groups * out_channels, -1))
    return None if found is None else _Weights(found[0].reshape(grouped.shape), found[1])


class _Rewriting:
    """One attempt to replace all convolutions."""

    def __init__(self, c: Compilation, formats: dict[int, _Quantization], convolutions: dict[int, _Weights]) -> None:
        self.c = c
        self.formats = formats
        self.convolutions = convolutions
        #: Slots of coded values -> slots of their codes.
        self.coded: dict[int, int] = {}
        #: Slots whose f32 a kernel on codes reads.
        self.decoded: set[int] = set()

    def run(self) -> None:
        c = self.c
        first_slot = len(c.program.initial)
        for number in self.convolutions:
            slot = c.instructions[number].inputs[0]
            self.coded.setdefault(slot, first_slot + len(self.coded))
        c.encoded.update(self.formats[slot].number for slot in self.coded)
        readers: dict[int, set[int]] = {slot: set() for slot in self.coded}
        for number in self.convolutions:
            self.replace(number, readers)
        for slot in self.coded:
            quantization = self.formats[slot]
            if quantization.number not in c.taken:
                self.encode(slot)
            if slot in self.decoded or not c.consumers[slot] <= readers[slot]:
                c.insertions[quantization.number] = [self.make_decoding(slot, is_inserted=True)]
        c.program.initial.extend([None] * len(self.coded))

    def encode(self, slot: int) -> None:
        """Replace a FakeQuantize by the kernel whose result is codes."""
        c, quantization = self.c, self.formats[slot]
        instruction = c.instructions[quantization.number]
        kernel = EncodingKernel(quantization.format, quantization.rank, quantization.channels)
        c.replacements[quantization.number] = replace(
            instruction,
            kernel=kernel,
            attributes={},
            inputs=instruction.inputs[:1],
            outputs=(self.coded[slot],),
            plain=(instruction, self.make_encoding(slot)),
            description=kernel.description,
        )
        c.taken.add(quantization.number)

    def make_encoding(self, slot: int) -> Instruction:
        """Return the instruction that follows plain instructions."""
        quantization = self.formats[slot]
        instruction = self.c.instructions[quantization.number]
        kernel = PlainEncodingKernel(quantization.format, quantization.rank, quantization.channels)
        return replace(
            instruction, kernel=kernel, attributes={}, inputs=(slot,), outputs=(self.coded[slot],), is_observed=False
        )

    def make_decoding(self, slot: int, is_inserted: bool) -> Instruction:
        """Return the instruction that decodes values, before plain instructions or as one of the program."""
        quantization = self.formats[slot]
        instruction = self.c.instructions[quantization.number]
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
        """Replace a convolution and what follows it."""
        c, weights = self.c, self.convolutions[number]
        instruction = c.instructions[number]
        group = c.make_group(number, instruction.inputs[:1])
        group.is_quantized = True
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
            elif operand in self.coded and c.get_shape(operand) == group.shape:
                sources.append(CodedOperand(self.formats[operand].format))
                coded_inputs[operand] = None
                inputs.append(self.coded[operand])
            else:
                sources.append(None)
                inputs.append(operand)
                self.decoded.add(operand)
        try:
            kernel = self.create_kernel(number, weights, steps, sources, is_coded)
            variables = [operand for operand in group.operands if isinstance(operand, int)]
            shapes = [c.get_shape(slot) for slot in (instruction.inputs[0], *variables)]
            if all(shape is not None and None not in shape for shape in shapes):
                kernel.prepare(shapes[0] or (), [shape or () for shape in shapes[1:]])
        except (ArithmeticError, ValueError) as error:
            raise _ExcludedError(number) from error
        for slot in coded_inputs:
            readers[slot].update(n for n in c.consumers[slot] if n in group.members)
        c.packed.reserve(weights.codes.nbytes)
        members = [c.instructions[n] for n in group.members]
        c.replacements[group.members[-1]] = replace(
            last,
            kernel=kernel,
            attributes={},
            inputs=tuple(inputs),
            outputs=(self.coded[result],) if is_coded else last.outputs,
            plain=(
                *(self.make_decoding(slot, is_inserted=False) for slot in coded_inputs),
                *members,
                *([self.make_encoding(result)] if is_coded else []),
            ),
            description=kernel.description,
        )
        c.taken.update(group.members)

    def create_kernel(
        self, number: int, weights: _Weights, steps: tuple[Step, ...], sources: Sequence[Source], is_coded: bool
    ) -> QuantizedConvolutionKernel:
        instruction = self.c.instructions[number]
        source = self.formats[instruction.inputs[0]].format
        return QuantizedConvolutionKernel(
            weights.codes, weights.scales, instruction.attributes, source, steps, sources, is_coded
        )
