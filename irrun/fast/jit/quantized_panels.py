"""Panels of codes: copies of padded rows that all taps of a convolution read at offsets."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from irrun.fast.jit.convolution import Geometry
from irrun.fast.jit.quantized_code import compile_packing
from irrun.fast.jit.tasks import Address, Argument, Call, make_base

__all__ = ["PanelLayout", "divide_copies"]

Array = np.ndarray[Any, Any]

#: Minimum number of elements per part of a copy, and maximum number of parts.
MIN_COPY_SIZE, MAX_COPIES = 1 << 13, 16
#: Elements between panels, for vectors that read beyond the last pixel.
PANEL_MARGIN = 64


class PanelLayout:
    """The layout of the panels of a convolution: for each group of four channels, the rows of each phase.

    The panel of a pointwise convolution is the data itself, whose pixels are one row.

    Args:
        geometry: The windows.
        quads: The number of groups of four channels.

    Attributes:
        geometry: The windows.
        quads: The number of groups of four channels.
        row_size: Pixels of a row of the result; pointwise convolutions have rows of one pixel.
        columns: Pixels of a copied row.
    """

    def __init__(self, geometry: Geometry, quads: int) -> None:
        self.geometry, self.quads = geometry, quads
        self.row_size = 1 if geometry.is_pointwise else geometry.output[1]
        self.columns = self.row_size + geometry.halo[1]

    @property
    def phase_count(self) -> int:
        """The number of phases."""
        return len(self.geometry.phases)

    def get_phase_size(self, rows: int) -> int:
        """Return the elements of a phase that rows of the result read."""
        return 0 if self.geometry.is_pointwise else (rows + self.geometry.halo[0]) * self.columns

    def get_quad_size(self, rows: int) -> int:
        """Return the elements between groups of four channels."""
        g = self.geometry
        return math.prod(g.size) if g.is_pointwise else self.get_phase_size(rows) * self.phase_count

    def get_size(self, rows: int, quads: int) -> int:
        """Return the elements of the panel of some rows of the result: 0 if the data is the panel."""
        return 0 if self.geometry.is_pointwise else quads * self.get_quad_size(rows) + PANEL_MARGIN

    def make_offsets(self, rows: int) -> Array:
        """Return the offset of each tap in the panel of some rows of the result, for each group of four channels."""
        g, size = self.geometry, self.get_phase_size(rows)
        (dy, dx), (sy, sx) = g.dilations, g.strides
        taps = [
            g.phases.index((dy * y % sy, dx * x % sx)) * size + dy * y // sy * self.columns + dx * x // sx
            for y in range(g.kernel[0])
            for x in range(g.kernel[1])
        ]
        starts = np.arange(self.quads, dtype=np.int64)[:, np.newaxis] * self.get_quad_size(rows)
        return (starts + np.array(taps, np.int64)).reshape(-1)

    def copy(self, plane: int, panel: Address, quads: tuple[int, int], block: tuple[int, int], pad: int) -> list[Call]:
        """Return the calls that copy the padded rows of a block of the result to a panel.

        Args:
            plane: The number of the first plane of the data.
            panel: The address of the panel.
            quads: The first group of channels, and the one after the last.
            block: The first row of the result, and the row after the last one.
            pad: The four codes of a padded pixel.
        """
        g, size, quad_size = self.geometry, *(f(block[1] - block[0]) for f in (self.get_phase_size, self.get_quad_size))
        rows, plane_size = size // self.columns, math.prod(g.size)
        source = make_base(0).move(4 * (plane + quads[0]) * plane_size)
        panel = panel.move(4 * quads[0] * quad_size)
        calls = []
        for i, (y, x) in enumerate(g.phases):
            has_pairs = g.strides[1] == 2 and {(y, 0), (y, 1)} <= {*g.phases}
            if has_pairs and x:
                continue  # copied together with the even columns
            row = block[0] * g.strides[0] + y - g.pads_begin[0]
            place = (quads[1] - quads[0], plane_size, quad_size, row, g.strides[0], rows, *g.size)
            line = (x - g.pads_begin[1], g.strides[1], self.columns, size if has_pairs else 0, pad)
            arguments: tuple[Argument, ...] = (source, panel.move(4 * i * size), *place, *line)
            calls.append(Call(compile_packing(), arguments))
        return calls


def divide_copies(quads: int, size: int) -> list[tuple[int, int]]:
    """Return the groups of channels of each part of the copy of a panel with a number of elements."""
    count = max(1, min(quads, MAX_COPIES, size // MIN_COPY_SIZE))
    return [(quads * i // count, quads * (i + 1) // count) for i in range(count)]
