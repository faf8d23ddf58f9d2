"""Convolution without columns: a block of padded rows is copied, and every tap reads it at an offset.

The innermost loop keeps a tile of several output channels and several vectors of neighboring pixels in registers. For
each input channel and tap it loads the pixels at the offset of the tap and multiplies them by the weights of the
channels. Strides are removed when rows are copied: rows and columns with the same remainder of their index form a
*phase*, in which neighboring windows read neighboring elements. Neighboring rows follow each other without a gap, so
that a tile may span several of them; results at row ends that belong to no window are not stored.

An epilogue (an expression) completes each tile, or each block of a few channels if it has such results, while it
is in the processor's cache.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from irrun.fast.jit.addresses import get_address
from irrun.fast.jit.affine import AffineEpilogue, find_affine_epilogue
from irrun.fast.jit.bindings import BUFFER, RESULT, TABLE, Binding, Operand
from irrun.fast.jit.convolution_kernels import (
    compile_epilogue,
    compile_packing,
    compile_products,
    emit_rows,
    get_epilogue_address,
    pack_weights,
)
from irrun.fast.jit.convolution_plan import Block, Geometry, Plan, divide
from irrun.fast.jit.expressions import Expression
from irrun.fast.jit.tasks import SCRATCH, Address, Call, Task, make_base

__all__ = ["DirectConvolution", "Geometry", "compile_epilogue", "emit_rows", "get_epilogue_address"]

Array = np.ndarray[Any, Any]

F32 = np.dtype(np.float32)

#: Minimum number of elements per part that copies rows, and maximum number of parts that copy a block.
MIN_COPIED_SIZE, MAX_COPIES = 1 << 13, 8


class DirectConvolution:
    """A convolution with constant weights.

    Args:
        filters: f32, shape [GROUPS, CO, CI, KH, KW].
    """

    def __init__(self, filters: Array) -> None:
        self.groups, self.out_channels, self.in_channels = filters.shape[:3]
        self.weights = [pack_weights(group) for group in filters]

    def make_binding(
        self, batch: int, geometry: Geometry, expression: Expression, operands: Sequence[Operand] = ()
    ) -> Binding:
        """Return the convolution for data of one shape.

        Args:
            batch: N.
            geometry: The windows.
            expression: The epilogue. `compile_epilogue` describes how its operands are addressed.
            operands: The addresses of its operands. Operands of the kind "channel" have N * GROUPS * CO elements.

        Returns:
            The binding. Input 0 is the data, shape [N, GROUPS * CI, H, W]. The result has the shape
            [N, GROUPS * CO, output...].

        Raises:
            NoKernelError: The copied rows take too much memory, or there are too many blocks.
        """
        images = batch * self.groups
        plan = Plan(geometry, self.in_channels, self.out_channels, images)
        affine = find_affine_epilogue(expression) if plan.is_direct else None
        epilogue = get_epilogue_address(expression, "channels" if plan.is_direct else "any")
        tasks = self._make_tasks(images, plan, epilogue, affine)
        shape = (batch, self.groups * self.out_channels, *geometry.output)
        if not plan.is_shared:
            return Binding(shape, tasks, (0, RESULT, TABLE), operands)
        buffer_size = plan.panel_size * len(plan.blocks) * images + 64
        return Binding(shape, tasks, (0, RESULT, TABLE, BUFFER), operands, buffer_size)

    def _make_tasks(self, images: int, plan: Plan, epilogue: int, affine: AffineEpilogue | None) -> list[Task]:
        """Return the calls of the kernels for the data, the result, and the table of the epilogue's operands."""
        copies: list[list[Call]] = []
        parts: list[list[Call]] = []
        for index in range(images):
            for first, last in plan.ranges:
                panels = [
                    make_base(3).move(4 * plan.panel_size * (index * len(plan.blocks) + number))
                    if plan.is_shared
                    else SCRATCH.move(plan.panel_offset)
                    for number in range(first, last)
                ]
                blocks = list(zip(plan.blocks[first:last], panels, strict=True))
                if plan.is_shared:
                    for item in blocks:
                        copies += self._divide_copies(plan, *item, index)
                for section in plan.sections:
                    calls: list[Call] = []
                    for block, panel in blocks:
                        if not plan.is_shared:
                            calls += self._copy_rows(plan, block, panel, index, (0, self.in_channels))
                        calls.append(self._multiply(plan, block, panel, index, section, epilogue, affine))
                    parts.append(calls)
        if images == 1 and plan.geometry.is_pointwise and self.out_channels > self.in_channels:
            # Neighboring parts compute all pixels of some channels, which depthwise convolutions read.
            count = len(plan.sections)
            parts = [part for number in range(count) for part in parts[number::count]]
        if images > 1:  # a part computes several images or groups
            bounds = divide(len(parts), min(len(parts), plan.part_count))
            parts = [list(itertools.chain.from_iterable(parts[a:b])) for a, b in bounds]
        task = Task(parts, plan.panel_offset + (0 if plan.is_shared else 4 * plan.panel_size + 256))
        task.keep(*plan.offsets.values(), *self.weights, *(block.tiles for block in plan.blocks))
        return [Task(copies), task] if copies else [task]

    def _divide_copies(self, plan: Plan, block: Block, panel: Address, index: int) -> list[list[Call]]:
        """Return the calls of each part that copies rows of a block. A part copies phases of some input channels."""
        pieces = divide(self.in_channels, min(self.in_channels, MAX_COPIES))
        calls = [call for piece in pieces for call in self._copy_rows(plan, block, panel, index, piece)]
        size = plan.count_copied(block) * plan.columns * len(plan.geometry.phases) * self.in_channels
        count = max(1, min(len(calls), MAX_COPIES, size // MIN_COPIED_SIZE))
        return [calls[a:b] for a, b in divide(len(calls), count)]

    def _copy_rows(self, plan: Plan, block: Block, panel: Address, index: int, channels: tuple[int, int]) -> list[Call]:
        """Return the calls that copy the rows of some input channels to a panel."""
        geometry = plan.geometry
        if geometry.is_pointwise:
            return []
        plane, columns = math.prod(geometry.size), plan.columns
        rows = plan.count_copied(block)
        step = rows * columns * len(geometry.phases)
        first, last = channels
        source = make_base(0).move(4 * (index * self.in_channels + first) * plane)
        calls = []
        for i, (y, x) in enumerate(geometry.phases):
            target = panel.move(4 * (first * step + i * rows * columns))
            first_row, first_column = y - geometry.pads_begin[0], x - geometry.pads_begin[1]
            if geometry.is_line:
                lines = (first_row, 1, 1, *geometry.size)
                line = (first_column + block.first * geometry.strides[1], geometry.strides[1], rows)
            else:
                first_row += block.first * geometry.strides[0]
                lines = (first_row, geometry.strides[0], rows, *geometry.size)
                line = (first_column, geometry.strides[1], columns)
            calls.append(Call(compile_packing(), (source, target, last - first, plane, step, *lines, *line)))
        return calls

    def _multiply(
        self,
        plan: Plan,
        block: Block,
        panel: Address,
        index: int,
        section: tuple[int, int],
        epilogue: int,
        affine: AffineEpilogue | None,
    ) -> Call:
        """Return the call that computes the results of some channels of a block."""
        geometry = plan.geometry
        plane = math.prod(geometry.output)
        rows = 0
        if geometry.is_pointwise:
            panel = make_base(0).move(4 * (index * self.in_channels * plane + block.first))
        else:
            rows = plan.count_copied(block)
        offsets = plan.offsets[rows]
        addresses = (panel, get_address(offsets), get_address(self.weights[index % self.groups]))
        products = (get_address(block.tiles), SCRATCH, plan.length, int(not plan.is_direct))
        places = (make_base(1), make_base(2), epilogue)
        sizes = (len(offsets), len(block.tiles), *section, plane, block.first * plan.row_size)
        shape = (block.last - block.first, plan.row_size)
        if plan.columns == plan.row_size:
            shape = (1, math.prod(shape))
        layout = (*shape, plan.columns, index * self.out_channels)
        more = () if affine is None else affine.arguments
        return Call(
            compile_products(affine is not None, plan.packs_pixels),
            (*addresses, *products, *places, *sizes, *layout, *more),
        )
