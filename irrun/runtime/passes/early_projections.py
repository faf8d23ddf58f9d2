"""Early projections: compute 1x1 convolutions before their data is enlarged and concatenated.

Decoders of segmentation networks enlarge maps of several sizes, concatenate them, and combine their channels by a 1x1
convolution. Since all channels are enlarged in the same way, the channels of the small maps can be combined first, and
the results enlarged and added, with a fraction of the multiplications. If the channels of a map are the columns of a
product with constant weights, these weights and the weights of the convolution become one matrix.

The results agree within rounding errors. Values that are not finite make other neighbors NaN, as with Winograd's
algorithm.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np

from irrun.fast.packing import PackedMemory
from irrun.ir.graph import Port
from irrun.ops._support import registry
from irrun.runtime.passes.engine import View
from irrun.runtime.passes.phases import Resources
from irrun.runtime.program import Instruction, Program
from irrun.shapes import PartialShape

__all__ = ["run"]

Array = np.ndarray[Any, Any]
Shape = tuple[int, ...]

F32 = np.dtype(np.float32)

#: Multiplications that are saved for each result of a convolution and each map that is added to it.
MIN_SAVED = 64


def run(program: Program, resources: Resources) -> None:
    """Move 1x1 convolutions before Interpolate if that saves most of their multiplications, in bodies too.

    Args:
        program: Changed in place.
        resources: The memory of products of weights.
    """
    for current in program.walk_programs():
        view = View(current)
        for instruction in current.instructions:
            if instruction.operation.convolves and not instruction.operation.has_groups:
                _Rewriter(view, resources.packed).replace_convolution(instruction)
        view.commit()


@dataclass
class _Branch:
    """One of the values that are concatenated.

    Attributes:
        slot: Its slot.
        weights: The weights of its channels, [CO, CI].
        chain: The instructions that compute only this value, from the last to the first, each with the channel axis of
            its result.
        is_product: Whether the chain ends with a product that absorbs the weights of the convolution.
    """

    slot: int
    weights: Array
    chain: list[tuple[Instruction, int]] = field(default_factory=list)
    is_product: bool = False


class _Step(NamedTuple):
    """An instruction that may compute its channels from the channels of its first input.

    Attributes:
        instruction: The instruction.
        source: The shape of its first input.
        shape: The shape of its result.
        axis: The axis of the channels of the result.
        constants: The values of its other inputs, or None.
    """

    instruction: Instruction
    source: Shape
    shape: Shape
    axis: int
    constants: Sequence[Array | None]


#: Operation type -> the function that returns the axis of the first input that has the channels of the result, or None.
_AXES: dict[str, Callable[[_Step], int | None]] = {}


def _finds_axis(operation_type: str) -> Callable[[Callable[[_Step], int | None]], Callable[[_Step], int | None]]:
    """Register the decorated function for a type of operation."""

    def decorate(function: Callable[[_Step], int | None]) -> Callable[[_Step], int | None]:
        _AXES[operation_type] = function
        return function

    return decorate


@_finds_axis("Interpolate")
def _find_axis_before_interpolation(step: _Step) -> int | None:
    since = step.instruction.operation.since
    if len(step.constants) != {4: 3, 11: 2}.get(since) or (axes := step.constants[-1]) is None:
        return None
    if step.axis in axes.reshape(-1) % len(step.shape) or step.source[step.axis] != step.shape[step.axis]:
        return None  # interpolates or pads the channels
    return step.axis


@_finds_axis("Transpose")
def _find_axis_before_transposition(step: _Step) -> int | None:
    order = step.constants[0]
    return None if order is None or len(order) != len(step.shape) else int(order[step.axis])


@_finds_axis("Reshape")
def _find_axis_before_reshaping(step: _Step) -> int | None:
    before = math.prod(step.shape[: step.axis])
    sizes = list(step.source)
    return next((i for i, d in enumerate(sizes) if d == step.shape[step.axis] and math.prod(sizes[:i]) == before), None)


@_finds_axis("Add")
def _find_axis_before_addition(step: _Step) -> int | None:
    offsets = step.constants[0]
    if not step.instruction.broadcasts_like_numpy:
        return None
    if step.axis != len(step.shape) - 1 or step.source != step.shape or offsets is None or offsets.dtype != F32:
        return None
    return step.axis if offsets.ndim and offsets.shape[-1] == offsets.size == step.shape[-1] else None


def _find_axis_of_product(step: _Step) -> int | None:
    weights = step.constants[0]
    is_matrix = weights is not None and weights.ndim == 2 and weights.dtype == F32
    return step.axis if is_matrix and step.axis == len(step.shape) - 1 else None


class _Rewriter:
    """The rewriting of convolutions of one program."""

    def __init__(self, view: View, packed: PackedMemory) -> None:
        self.view = view
        self.packed = packed

    # Recognition

    def replace_convolution(self, convolution: Instruction) -> None:
        """Replace a convolution, if that saves multiplications."""
        weights, shape = self.get_weights(convolution), self.get_shape(convolution.outputs[0])
        if weights is None or shape is None:
            return
        concatenation = self.find_concatenation(convolution.inputs[0])
        slots = [convolution.inputs[0]] if concatenation is None else list(concatenation.inputs)
        shapes = [self.get_shape(slot) for slot in slots]
        if any(s is None or len(s) != 4 for s in shapes) or sum(s[1] for s in shapes if s) != weights.shape[1]:
            return
        bounds = np.cumsum([s[1] for s in shapes if s])[:-1]
        branches = [_Branch(s, w) for s, w in zip(slots, np.split(weights, bounds, axis=1), strict=True)]
        early: list[_Branch] = []
        late: list[_Branch] = []
        saved = 0
        for branch in branches:
            count = self.trace(branch, shape)
            saved += count
            (early if count else late).append(branch)
        if saved < MIN_SAVED * len(early) or not early:
            return
        self.rewrite(convolution, concatenation, early, late)

    def get_weights(self, convolution: Instruction) -> Array | None:
        """Return the weights of a convolution with 1x1 windows, [CO, CI], or None for other convolutions."""
        filters = self.view.get_constant(convolution.inputs[1])
        attributes = convolution.attributes
        if filters is None or filters.ndim != 4 or filters.shape[2:] != (1, 1) or filters.dtype != F32:
            return None
        if any(n != 1 for n in attributes["strides"]) or not _is_plain(convolution):
            return None
        if any(any(attributes.get(name, ())) for name in ("pads_begin", "pads_end")):
            return None
        return filters[:, :, 0, 0] if self.packed.fits(filters.nbytes) else None

    def find_concatenation(self, slot: int) -> Instruction | None:
        """Return the concatenation of channels if only one instruction needs its result, or None."""
        producer = self.get_exclusive_producer(slot)
        if producer is None or not producer.operation.concatenates or producer.attributes["axis"] not in (1, -3):
            return None
        return producer

    def trace(self, branch: _Branch, shape: Shape) -> int:
        """Find the chain of a branch.

        Returns:
            The multiplications that are saved for each result of the convolution, whose shape is stated.
        """
        out_channels, in_channels = map(int, branch.weights.shape)
        pixels = math.prod(shape[2:])
        slot, axis = branch.slot, 1
        while (producer := self.get_exclusive_producer(slot)) is not None:
            following = self.find_source(producer, axis)
            if following is None:
                break
            branch.chain.append((producer, axis))
            if producer.operation.multiplies_matrices:
                branch.is_product = out_channels == in_channels
                break
            slot, axis = following
        if branch.is_product:
            return in_channels
        # Otherwise, the convolution is computed before the interpolations that end the chain.
        count = next((i for i, (p, _) in enumerate(branch.chain) if p.operation.kind != "window"), None)
        del branch.chain[len(branch.chain) if count is None else count :]
        source = self.get_shape(branch.chain[-1][0].inputs[0]) if branch.chain else None
        own_pixels = pixels if source is None else math.prod(source[2:])
        return in_channels * max(0, pixels - own_pixels) // pixels

    def find_source(self, instruction: Instruction, axis: int) -> tuple[int, int] | None:
        """Return the slot and the axis of the channels from which a result computes its channels.

        Args:
            instruction: An instruction.
            axis: The axis of the channels of its result.

        Returns:
            None if its channels depend on each other, or are computed in another way.
        """
        data = instruction.inputs[0]
        shape, source = self.get_shape(instruction.outputs[0]), self.get_shape(data)
        operation = instruction.operation
        find_axis = _find_axis_of_product if operation.multiplies_matrices else _AXES.get(operation.type)
        if shape is None or source is None or find_axis is None:
            return None
        constants = [self.view.get_constant(slot) for slot in instruction.inputs[1:]]
        source_axis = find_axis(_Step(instruction, source, shape, axis, constants))
        return None if source_axis is None else (data, source_axis)

    def get_exclusive_producer(self, slot: int) -> Instruction | None:
        """Return the instruction that computes a value with a single consumer, or None."""
        producer = self.view.get_sole_producer(slot)
        return producer if producer is not None and _is_plain(producer) else None

    def get_shape(self, slot: int) -> Shape | None:
        """Return the declared shape of a value if it is static and not empty."""
        shape = self.view.get_static_shape(slot)
        return shape if shape is not None and 0 not in shape else None

    # Replacement

    def rewrite(
        self, convolution: Instruction, concatenation: Instruction | None, early: list[_Branch], late: list[_Branch]
    ) -> None:
        """Replace a convolution by one for each early branch, and one for all late branches together."""
        result: list[Instruction] = []
        removed = [convolution] if concatenation is None else [convolution, concatenation]
        terms = []
        for branch in early:
            removed += [instruction for instruction, _ in branch.chain]
            terms.append(self.project(branch, convolution, result))
        if late:
            terms.insert(0, self.convolve_together(late, convolution, concatenation, result))
        self.add_terms(terms, convolution, result)
        for instruction in removed:
            self.view.replace(instruction)
        self.view.replace(convolution, *result)

    def project(self, branch: _Branch, convolution: Instruction, result: list[Instruction]) -> int:
        """Append the instructions that compute a branch and combine its channels; return the slot of the value."""
        weights, chain = branch.weights, branch.chain[::-1]
        slot = chain[0][0].inputs[0]
        if not branch.is_product:
            slot = self.convolve(slot, weights, convolution, result)
        for instruction, axis in chain:
            inputs = [slot, *instruction.inputs[1:]]
            if instruction.operation.multiplies_matrices:
                inputs[1] = self.multiply_weights(instruction, weights)
            elif instruction.operation.kind == "elementwise":
                offsets = self.view.get_constant(inputs[1])
                assert offsets is not None
                inputs[1] = self.add_constant(_multiply(offsets, weights.T), inputs[1])
            port = instruction.layer.outputs[0]
            shape: list[int] = list(self.get_shape(instruction.outputs[0]) or ())
            shape[axis] = len(weights)
            slot = self.append(result, instruction, inputs, Port(port.id, port.element_type, PartialShape(shape)))
        return slot

    def multiply_weights(self, product: Instruction, weights: Array) -> int:
        """Return the slot of the weights of a product and a convolution."""
        slot = product.inputs[1]
        matrix = self.view.get_constant(slot)
        assert matrix is not None
        if product.attributes.get("transpose_b"):
            return self.add_constant(_multiply(weights, matrix), slot)
        return self.add_constant(_multiply(matrix, weights.T), slot)

    def convolve(self, slot: int, weights: Array, convolution: Instruction, result: list[Instruction]) -> int:
        """Append the convolution of a value with some of the weights."""
        filters = self.add_constant(np.ascontiguousarray(weights)[:, :, np.newaxis, np.newaxis], convolution.inputs[1])
        shape = list(self.get_shape(slot) or ())
        shape[1] = len(weights)
        port = Port(0, convolution.layer.outputs[0].element_type, PartialShape(shape))
        return self.append(result, convolution, (slot, filters), port)

    def convolve_together(
        self,
        branches: Sequence[_Branch],
        convolution: Instruction,
        concatenation: Instruction | None,
        result: list[Instruction],
    ) -> int:
        """Append the convolution of the branches that are not convolved before."""
        weights = np.concatenate([branch.weights for branch in branches], axis=1)
        slot = branches[0].slot
        if len(branches) > 1 and concatenation is not None:
            shape = list(self.get_shape(concatenation.outputs[0]) or ())
            shape[1] = weights.shape[1]
            port = Port(0, concatenation.layer.outputs[0].element_type, PartialShape(shape))
            slot = self.append(result, concatenation, [branch.slot for branch in branches], port)
        return self.convolve(slot, weights, convolution, result)

    def add_terms(self, terms: Sequence[int], convolution: Instruction, result: list[Instruction]) -> None:
        """Append the sum of the terms, which becomes the result of the convolution."""
        operation = registry.find("Add", "opset1")
        assert operation is not None
        port = convolution.layer.outputs[0]
        add = replace(convolution, operation=operation, kernel=operation.kernel, attributes={})
        slot = terms[0]
        for term in terms[1:]:
            slot = self.append(result, add, (slot, term), port)
        result[-1] = replace(result[-1], outputs=convolution.outputs, layer=convolution.layer)

    def append(self, result: list[Instruction], original: Instruction, inputs: Sequence[int], port: Port) -> int:
        """Append an instruction for other inputs, and return the slot of its output."""
        slot = self.view.add_slot(port=port)
        layer = replace(original.layer, type=original.operation.type, outputs=[port])
        result.append(replace(original, inputs=tuple(inputs), outputs=(slot,), layer=layer))
        return slot

    def add_constant(self, value: Array, original: int) -> int:
        """Add a constant that is computed from another one, and return its slot."""
        value.flags.writeable = False
        self.packed.reserve(value.nbytes)
        program = self.view.program
        return program.add_slot(value, program.constant_layers[original])


def _is_plain(instruction: Instruction) -> bool:
    """Return whether an instruction is an unchanged instruction of irrun's own operations."""
    is_replaced = instruction.operation.is_custom or instruction.plain or instruction.bodies
    return not is_replaced and len(instruction.outputs) == 1


def _multiply(a: Array, b: Array) -> Array:
    """Return the product of two matrices of f32, rounded once."""
    product: Array = np.matmul(a.astype(np.float64), b.astype(np.float64)).astype(F32)
    return product
