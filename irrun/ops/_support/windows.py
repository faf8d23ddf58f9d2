"""Windows that slide over the spatial axes: their geometry, and views of the data under them.

Convolution and pooling share this. Spatial axes are always the last ones; data is [N, C, spatial...].
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from irrun.errors import InputError
from irrun.limits import check_allocation
from irrun.ops._support.numerics import Array

__all__ = ["AutoPad", "Rounding", "Windows", "fill", "pad_spatial", "place_windows", "same_padding"]

AutoPad = Literal["explicit", "notset", "same_upper", "same_lower", "valid"]
Rounding = Literal["floor", "ceil", "ceil_torch"]


@dataclass(frozen=True)
class Windows:
    """Where the windows of one layer stand, one entry per spatial axis.

    Attributes:
        kernel: elements of a window.
        strides: distance of neighbouring windows.
        dilations: distance of neighbouring elements of a window.
        begin: padding before the data; negative crops.
        end: padding after the data, as much as the attributes say; windows may reach beyond it.
        out: how many windows there are.
    """

    kernel: tuple[int, ...]
    strides: tuple[int, ...]
    dilations: tuple[int, ...]
    begin: tuple[int, ...]
    end: tuple[int, ...]
    out: tuple[int, ...]

    def between(self, start: int, stop: int) -> Windows:
        """Only the windows from `start` to `stop` along the first spatial axis."""
        begin = self.begin[0] - start * self.strides[0]
        return replace(self, begin=(begin, *self.begin[1:]), out=(stop - start, *self.out[1:]))

    def reach(self) -> tuple[int, ...]:
        """Length of the padded data that the windows touch."""
        return tuple(
            (n - 1) * s + (k - 1) * d + 1
            for n, s, k, d in zip(self.out, self.strides, self.kernel, self.dilations, strict=True)
        )

    def covered(self, x: Array, value: Any = 0) -> Array:
        """`x`, padded with `value` or cropped to exactly what the windows touch."""
        spatial = x.shape[x.ndim - len(self.kernel) :]
        end = [r - b - n for r, b, n in zip(self.reach(), self.begin, spatial, strict=True)]
        return pad_spatial(x, self.begin, end, value)

    def taps(self, covered: Array) -> Iterator[tuple[tuple[int, ...], Array]]:
        """For each element of a window its position, and the view of `covered` with what lies under it."""
        for position in itertools.product(*map(range, self.kernel)):
            picked = (
                slice(p * d, p * d + (n - 1) * s + 1, s)
                for p, d, n, s in zip(position, self.dilations, self.out, self.strides, strict=True)
            )
            under: tuple[Any, ...] = (..., *picked)
            yield position, covered[under]

    def view(self, covered: Array) -> Array:
        """The read-only view [..., window positions, kernel elements] of `covered`; nothing is copied."""
        rank = len(self.kernel)
        lead, step = covered.strides[: covered.ndim - rank], covered.strides[covered.ndim - rank :]
        return np.lib.stride_tricks.as_strided(
            covered,
            (*covered.shape[: covered.ndim - rank], *self.out, *self.kernel),
            (
                *lead,
                *(b * s for b, s in zip(step, self.strides, strict=True)),
                *(b * d for b, d in zip(step, self.dilations, strict=True)),
            ),
            writeable=False,
        )


def same_padding(size: int, kernel: int, stride: int, dilation: int) -> tuple[int, int]:
    """The smaller and the larger half of the padding that makes ceil(size / stride) windows fit."""
    total = max(0, (-(-size // stride) - 1) * stride + (kernel - 1) * dilation + 1 - size)
    return total // 2, total - total // 2


def place_windows(
    spatial: Sequence[int],
    kernel: Sequence[int],
    strides: Sequence[int],
    dilations: Sequence[int],
    pads_begin: Sequence[int],
    pads_end: Sequence[int],
    auto_pad: AutoPad = "explicit",
    rounding: Rounding = "floor",
) -> Windows:
    """The windows over data of the shape `spatial`; empty lists mean ones, or zeros where they are pads.

    Raises:
        InputError: an attribute does not fit the number of spatial axes, or a window does not fit the data.
    """
    rank = len(spatial)
    kernel = fill("kernel", kernel, rank, 1, at_least=1)
    strides = fill("strides", strides, rank, 1, at_least=1)
    dilations = fill("dilations", dilations, rank, 1, at_least=1)
    if auto_pad == "valid":
        begin = end = (0,) * rank
    elif auto_pad in ("same_upper", "same_lower"):
        halves = [same_padding(*z) for z in zip(spatial, kernel, strides, dilations, strict=True)]
        small, large = tuple(h[0] for h in halves), tuple(h[1] for h in halves)
        begin, end = (small, large) if auto_pad == "same_upper" else (large, small)
    else:
        begin, end = fill("pads_begin", pads_begin, rank, 0), fill("pads_end", pads_end, rank, 0)
    out = []
    for n, k, s, d, b, e in zip(spatial, kernel, strides, dilations, begin, end, strict=True):
        room = n + b + e - ((k - 1) * d + 1)
        if room < 0:
            raise InputError(f"a window of {k} with dilation {d} does not fit into {n} elements padded to {n + b + e}")
        count = (room // s if rounding == "floor" else -(-room // s)) + 1
        if rounding == "ceil_torch" and (count - 1) * s >= n + b:
            count -= 1  # a window must not start in the padding after the data
        out.append(count)
    check_allocation(out, np.dtype(np.float32))
    return Windows(kernel, strides, dilations, begin, end, tuple(out))


def fill(name: str, values: Sequence[int], rank: int, default: int, at_least: int | None = None) -> tuple[int, ...]:
    """`values`, one for each of `rank` spatial axes; `default` for each where there are none.

    Raises:
        InputError: their number is another, or one is too small.
    """
    found = tuple(values) if len(values) else (default,) * rank
    if len(found) != rank:
        raise InputError(f"{name} {list(found)} has {len(found)} values, expected one for each of {rank} spatial axes")
    if at_least is not None and any(v < at_least for v in found):
        raise InputError(f"{name} {list(found)} has a value below {at_least}")
    return found


def pad_spatial(x: Array, begin: Sequence[int], end: Sequence[int], value: Any = 0) -> Array:
    """`x` with its last axes padded with `value`, or cropped where an amount is negative."""
    if not any(begin) and not any(end):
        return x
    lead = x.ndim - len(begin)
    sizes = tuple(n + b + e for n, b, e in zip(x.shape[lead:], begin, end, strict=True))
    if min(sizes) <= 0:
        return np.empty((*x.shape[:lead], *(max(n, 0) for n in sizes)), x.dtype)
    check_allocation((*x.shape[:lead], *sizes), x.dtype)
    if any(n + min(b, 0) + min(e, 0) <= 0 for n, b, e in zip(x.shape[lead:], begin, end, strict=True)):
        return np.full((*x.shape[:lead], *sizes), value, x.dtype)  # all of the data is cropped
    source: tuple[Any, ...] = (
        ...,
        *(slice(max(-b, 0), n - max(-e, 0)) for n, b, e in zip(x.shape[lead:], begin, end, strict=True)),
    )
    if max(*begin, *end) <= 0:
        cropped: Array = x[source]
        return cropped
    padded = np.empty((*x.shape[:lead], *sizes), x.dtype)
    inside: tuple[Any, ...] = (slice(None),) * lead
    for n, b, e in zip(sizes, begin, end, strict=True):
        # Only the borders are filled: a padded image is mostly image.
        before: tuple[Any, ...] = (*inside, slice(0, max(b, 0)))
        after: tuple[Any, ...] = (*inside, slice(n - max(e, 0), n))
        padded[before] = value
        padded[after] = value
        inside = (*inside, slice(max(b, 0), n - max(e, 0)))
    padded[inside] = x[source]
    return padded
