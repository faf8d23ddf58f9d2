"""Compiled kernels of single instructions, without epilogues."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from irrun.element_types import ELEMENT_TYPES
from irrun.fast.errors import NoKernelError
from irrun.fast.jit.kernels import SoftmaxKernel
from irrun.fast.jit.sites import SITES, create_kernel
from irrun.fast.specialization import CallSite
from irrun.ir.graph import Port
from irrun.ops._support import registry
from irrun.runtime.passes.jit_compilation import Compilation
from irrun.runtime.passes.specialization import make_site
from irrun.runtime.program import ABSENT, Instruction

if TYPE_CHECKING:
    from irrun.fast.jit.body_kernels import CellKernel
    from irrun.fast.jit.cell_sequences import CellSequenceKernel
    from irrun.fast.jit.column_softmax import ColumnSoftmaxKernel

__all__ = ["SINGLES"]

BOOLEAN, F16, F32 = (ELEMENT_TYPES[name] for name in ("boolean", "f16", "f32"))
#: Minimum number of elements of an input for compiling its conversion from f16.
MIN_WIDENED_SIZE = 1 << 14
#: The size of dynamic dimensions for compiling kernels before their shapes are known.
ASSUMED_DIMENSION = 2
#: Minimum number of columns for compiling the softmax of columns.
MIN_COLUMNS = 64


#: Replaces an instruction, or raises one of `REFUSALS`.
Replacement = Callable[[Compilation, int], None]
#: Operation type -> the function that replaces an instruction that has a compiled kernel and no epilogue.
SINGLES: dict[str, Replacement] = {}


def replaces(*types: str) -> Callable[[Replacement], Replacement]:
    """Register the decorated function for types of operations."""

    def decorate(function: Replacement) -> Replacement:
        SINGLES.update(dict.fromkeys(types, function))
        return function

    return decorate


@replaces("Convert")
def replace_conversion(compilation: Compilation, number: int) -> None:
    """Replace the conversion of an input of the model from f16 to f32."""
    instruction = compilation.instructions[number]
    slot, (result,) = instruction.inputs[0], instruction.outputs
    port, shape = compilation.view.ports.get(slot), compilation.view.get_shape(slot)
    is_f16 = slot in compilation.program.parameters and port is not None and port.element_type == F16
    if not is_f16 or not compilation.view.is_f32(result):
        raise NoKernelError("not an input of the model in f16 that is converted to f32")
    if shape is None or math.prod(d or MIN_WIDENED_SIZE for d in shape) < MIN_WIDENED_SIZE:
        raise NoKernelError(f"NumPy is as fast for fewer than {MIN_WIDENED_SIZE:,} elements")
    from irrun.fast.jit.conversion import WideningKernel, compile_widening

    compile_widening()
    compilation.replace([number], WideningKernel(), instruction.inputs)


def _find_variable(compilation: Compilation, instruction: Instruction) -> tuple[int, tuple[Any, ...]]:
    """Return the slot of the only variable input, and the shape of the result.

    Raises:
        NoKernelError: There are other variable inputs, or the result is not f32 of known rank.
    """
    view = compilation.view
    slots = [slot for slot in instruction.inputs if view.get_constant(slot) is None]
    shape = view.get_shape(instruction.outputs[0])
    if shape is None or not view.is_f32(instruction.outputs[0]) or len(slots) != 1 or ABSENT in slots:
        raise NoKernelError("not f32 of known rank with one variable input")
    return slots[0], shape


def _list_variables(compilation: Compilation, instruction: Instruction) -> tuple[int, ...]:
    """Return the slots of the inputs that are connected and not constant."""
    return tuple(s for s in instruction.inputs if s != ABSENT and compilation.view.get_constant(s) is None)


@replaces("Softmax")
def replace_softmax(compilation: Compilation, number: int) -> None:
    """Replace Softmax of rows, or of columns that are next to each other."""
    instruction = compilation.instructions[number]
    slot, shape = _find_variable(compilation, instruction)
    axis, rank = instruction.attributes.get("axis", 1), len(shape)
    if not -rank <= axis < rank:
        raise NoKernelError(f"axis {axis} is out of range for rank {rank}")
    axis %= rank
    kernel: ColumnSoftmaxKernel | SoftmaxKernel
    if axis < rank - 1:
        from irrun.fast.jit.column_softmax import MAX_LENGTH, ColumnSoftmaxKernel

        length, columns = shape[axis], math.prod(d or MIN_COLUMNS for d in shape[axis + 1 :])
        if length is None or not 1 < length <= MAX_LENGTH or columns < MIN_COLUMNS:
            raise NoKernelError(f"only for at least {MIN_COLUMNS} columns of 2 to {MAX_LENGTH} elements")
        kernel = ColumnSoftmaxKernel(rank, axis)
    else:
        if shape[-1] == 1:
            raise NoKernelError("rows have one element")
        kernel = SoftmaxKernel(rank)
        kernel.prepare(())
    compilation.replace([number], kernel, (slot,))


@replaces("MaxPool")
def replace_max_pool(compilation: Compilation, number: int) -> None:
    """Replace MaxPool of images without indices."""
    from irrun.fast.jit.pooling import MaxPoolKernel

    instruction = compilation.instructions[number]
    slot, shape = _find_variable(compilation, instruction)
    if len(shape) != 4 or len(instruction.outputs) != 1:
        raise NoKernelError("only for images, without indices")
    kernel = MaxPoolKernel(instruction.attributes)
    data_shape = compilation.view.get_shape(slot)
    if data_shape is not None and None not in data_shape:
        kernel.prepare([data_shape])
    compilation.replace([number], kernel, (slot,))


@replaces("ScaledDotProductAttention")
def replace_attention(compilation: Compilation, number: int) -> None:
    """Replace ScaledDotProductAttention without a sink."""
    from irrun.fast.jit.attention import AttentionKernel

    instruction = compilation.instructions[number]
    constants = [compilation.view.get_constant(slot) for slot in instruction.inputs]
    has_scale = len(constants) == 5
    if any(x is not None for x in constants[:3]) or len(constants) > 5 or (has_scale and constants[4] is None):
        raise NoKernelError("queries, keys or values are constant, the scale is not, or there is a sink")
    values = (*instruction.inputs[:3], *instruction.outputs)
    if ABSENT in instruction.inputs or not all(map(compilation.view.is_f32, values)):
        raise NoKernelError("not f32, or an input is not connected")
    mask = constants[3] if len(constants) > 3 else None
    port = compilation.view.ports.get(instruction.inputs[3]) if len(constants) > 3 else None
    is_boolean = mask.dtype == np.bool_ if mask is not None else port is not None and port.element_type == BOOLEAN
    kernel = AttentionKernel(constants, bool(instruction.attributes.get("causal", False)), is_boolean)
    kernel.prepare(())
    instruction = convert_mask_before(compilation, instruction)
    compilation.replace([number], kernel, _list_variables(compilation, instruction), plain=(instruction,))


def convert_mask_before(compilation: Compilation, attention: Instruction) -> Instruction:
    """Return attention with an f32 mask, shared by several layers, instead of a boolean mask."""
    if len(attention.inputs) < 4:
        return attention
    from irrun.fast.jit.attention import convert_mask

    slot = attention.inputs[3]
    port = compilation.view.ports.get(slot)
    number = next((i for i, x in enumerate(compilation.instructions) if slot in x.outputs), None)
    if number is None or number in compilation.taken or port is None or port.element_type != BOOLEAN:
        return attention
    added = compilation.insertions.setdefault(number, [])
    converted = next((x.outputs[0] for x in added if x.kernel is convert_mask), None)
    if converted is None:
        operation = registry.find("Convert", "opset1")
        assert operation is not None
        output = Port(0, F32, port.shape)
        converted = compilation.view.add_slot(port=output)
        layer = replace(compilation.instructions[number].layer, type="Convert", outputs=[output], bodies={})
        added.append(Instruction(convert_mask, (slot,), (converted,), layer, operation, is_observed=False, plain=()))
    return replace(attention, inputs=(*attention.inputs[:3], converted, *attention.inputs[4:]))


@replaces("GatherTree")
def replace_gather_tree(compilation: Compilation, number: int) -> None:
    """Replace GatherTree of integers."""
    from irrun.fast.jit.beams import ELEMENT_BITS, GatherTreeKernel, compile_paths

    instruction = compilation.instructions[number]
    ports = [compilation.view.ports.get(slot) for slot in (*instruction.outputs, *instruction.inputs)]
    dtype = next((x.element_type.dtype for x in ports if x is not None and x.element_type is not None), None)
    if dtype not in ELEMENT_BITS or ABSENT in instruction.inputs:
        raise NoKernelError("not integers, or an input is not connected")
    kernel = GatherTreeKernel(make_site(compilation.program, instruction, compilation.packed))
    compile_paths(ELEMENT_BITS[dtype])
    compilation.replace([number], kernel, _list_variables(compilation, instruction))


@replaces("LSTMCell", "GRUCell", "RNNCell", "AUGRUCell")
def replace_cell(compilation: Compilation, number: int) -> None:
    """Replace a recurrent cell with constant weights."""
    from irrun.fast.jit.body_kernels import CellKernel

    instruction, view = compilation.instructions[number], compilation.view
    inputs = _list_variables(compilation, instruction)
    shape = view.get_shape(inputs[0]) if inputs else None
    if shape is None or not all(map(view.is_f32, (*inputs, *instruction.outputs))):
        raise NoKernelError("not f32 of known rank")
    if shape[:1] == (1,):
        raise NoKernelError("NumPy is as fast for one row")
    _replace_recurrent(compilation, number, CellKernel)


@replaces("LSTMSequence", "GRUSequence", "RNNSequence", "AUGRUSequence")
def replace_sequence(compilation: Compilation, number: int) -> None:
    """Replace a recurrent sequence with attributes that specialized kernels do not support."""
    from irrun.fast.jit.cell_sequences import CellSequenceKernel
    from irrun.fast.recurrent.preparation import get_kind

    instruction = compilation.instructions[number]
    site = make_site(compilation.program, instruction, compilation.packed)
    if get_kind(site) is None:
        _replace_recurrent(compilation, number, CellSequenceKernel)


def _replace_recurrent(
    compilation: Compilation, number: int, create: Callable[[CallSite], CellKernel | CellSequenceKernel]
) -> None:
    """Replace a cell or a sequence by a kernel if its weights fit into the memory for weights."""
    instruction, view = compilation.instructions[number], compilation.view
    inputs = _list_variables(compilation, instruction)
    shapes = [view.get_shape(slot) for slot in inputs]
    site = make_site(compilation.program, instruction, compilation.packed)
    weights = sum(x.nbytes for x in site.constants if x is not None)
    if not all(map(view.is_f32, instruction.outputs)):
        raise NoKernelError("not f32")
    if not compilation.packed.fits(weights):
        raise NoKernelError("the prepared weights do not fit into the memory for weights")
    kernel = create(site)
    kernel.prepare([tuple(d or ASSUMED_DIMENSION for d in shape or ()) for shape in shapes])
    compilation.packed.reserve(weights)
    compilation.replace([number], kernel, inputs)


@replaces(*SITES)
def replace_site(compilation: Compilation, number: int) -> None:
    """Replace an instruction by a compiled form of its specialized kernel, if it has one."""
    instruction = compilation.instructions[number]
    slots = [slot for slot in instruction.inputs if slot != ABSENT]
    shapes = [compilation.view.get_shape(slot) for slot in (*slots, *instruction.outputs)]
    if not compilation.view.is_f32(slots[0]) or not compilation.view.is_f32(instruction.outputs[0]):
        raise NoKernelError("not f32")
    kernel = create_kernel(make_site(compilation.program, instruction, compilation.packed), shapes)
    compilation.replace([number], kernel, _list_variables(compilation, instruction))
