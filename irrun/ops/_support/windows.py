"""Sliding windows: their number, their padding, and views of the elements of each.

Convolution and pooling share this. The spatial axes are the last ones: data has shape [N, C, spatial...].
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import Any, Literal, NamedTuple

import numpy as np

from irrun.deadlines import within_time
from irrun.errors import InputError
from irrun.limits import check_allocation
from irrun.ops._support.numerics import Array

__all__ = [
    "AutoPad",
    "Rounding",
    "Windows",
    "compute_same_padding",
    "create_windows",
    "expand_attribute",
    "pad_spatial",
]

#: Padding modes. "notset" is a synonym of "explicit" that OpenVINO accepts.
AutoPad = Literal["explicit", "notset", "same_upper", "same_lower", "valid"]
#: Rounding of the number of windows. "ceil_torch" omits windows that start in the padding after the data.
Rounding = Literal["floor", "ceil", "ceil_torch"]


class Windows(NamedTuple):
    """Sliding windows over the spatial axes of a tensor.

    Attributes:
        kernel: Number of elements of a window along each spatial axis.
        strides: Distance between neighboring windows.
        dilations: Distance between neighboring elements of a window.
        pads_begin: Padding before the data. Negative values crop.
        pads_end: Padding after the data as the attributes state it. Windows may extend beyond it.
        output_shape: Number of windows along each spatial axis.
    """

    kernel: tuple[int, ...]
    strides: tuple[int, ...]
    dilations: tuple[int, ...]
    pads_begin: tuple[int, ...]
    pads_end: tuple[int, ...]
    output_shape: tuple[int, ...]

    def select_rows(self, start: int, stop: int) -> Windows:
        """Return the windows in [start, stop) along the first spatial axis."""
        begin = self.pads_begin[0] - start * self.strides[0]
        return self._replace(
            pads_begin=(begin, *self.pads_begin[1:]), output_shape=(stop - start, *self.output_shape[1:])
        )

    def crop_kernel(self, spatial: Sequence[int]) -> Windows:
        """Return windows without the elements that are in the padding for every window.

        Args:
            spatial: Lengths of the spatial axes.
        """
        kernel, begins = [], []
        for n, k, s, d, b, count in zip(
            spatial, self.kernel, self.strides, self.dilations, self.pads_begin, self.output_shape, strict=True
        ):
            first = max(0, -(-(b - (count - 1) * s) // d))
            last = min(k - 1, (b + n - 1) // d)
            if first > last:
                first = last = 0
            kernel.append(last - first + 1)
            begins.append(b - first * d)
        return self._replace(kernel=tuple(kernel), pads_begin=tuple(begins))

    def get_extent(self) -> tuple[int, ...]:
        """Return the spatial shape of the padded data that the windows cover."""
        return tuple(
            (n - 1) * s + (k - 1) * d + 1
            for n, s, k, d in zip(self.output_shape, self.strides, self.kernel, self.dilations, strict=True)
        )

    def pad(self, x: Array, value: Any = 0) -> Array:
        """Pad or crop `x` to exactly the extent of the windows.

        Args:
            x: Any type, shape [..., spatial...].
            value: Value of the padding.

        Returns:
            Shape [..., extent...], the type of `x`; `x` itself if it already has that shape.
        """
        spatial = x.shape[x.ndim - len(self.kernel) :]
        end = [extent - b - n for extent, b, n in zip(self.get_extent(), self.pads_begin, spatial, strict=True)]
        return pad_spatial(x, self.pads_begin, end, value)

    def iterate_taps(self, padded: Array) -> Iterator[tuple[tuple[int, ...], Array]]:
        """Yield each position in the kernel with the elements of all windows at that position.

        Args:
            padded: Padded data, shape [..., extent...].

        Yields:
            The position, and a view of `padded` of shape [..., output_shape...].
        """
        for position in within_time(itertools.product(*map(range, self.kernel))):
            slices = (
                slice(p * d, p * d + (n - 1) * s + 1, s)
                for p, d, n, s in zip(position, self.dilations, self.output_shape, self.strides, strict=True)
            )
            index: tuple[Any, ...] = (..., *slices)
            yield position, padded[index]

    def get_view(self, padded: Array) -> Array:
        """Return a read-only view of the elements of each window, without copying.

        Args:
            padded: Padded data, shape [..., extent...].

        Returns:
            Shape [..., output_shape..., kernel...].
        """
        rank = len(self.kernel)
        lead_strides, spatial_strides = padded.strides[: padded.ndim - rank], padded.strides[padded.ndim - rank :]
        return np.lib.stride_tricks.as_strided(
            padded,
            (*padded.shape[: padded.ndim - rank], *self.output_shape, *self.kernel),
            (
                *lead_strides,
                *(b * s for b, s in zip(spatial_strides, self.strides, strict=True)),
                *(b * d for b, d in zip(spatial_strides, self.dilations, strict=True)),
            ),
            writeable=False,
        )


def compute_same_padding(size: int, kernel: int, stride: int, dilation: int) -> tuple[int, int]:
    """Return the padding of "same_upper" and "same_lower": room for ceil(size / stride) windows.

    Args:
        size: Length of the axis.
        kernel: Number of elements of a window.
        stride: Distance between neighboring windows.
        dilation: Distance between neighboring elements of a window.

    Returns:
        The smaller and the larger half of the padding.
    """
    total = max(0, (-(-size // stride) - 1) * stride + (kernel - 1) * dilation + 1 - size)
    return total // 2, total - total // 2


def create_windows(
    spatial: Sequence[int],
    kernel: Sequence[int],
    strides: Sequence[int],
    dilations: Sequence[int],
    pads_begin: Sequence[int],
    pads_end: Sequence[int],
    auto_pad: AutoPad = "explicit",
    rounding: Rounding = "floor",
) -> Windows:
    """Compute the windows over data of the shape `spatial`.

    Args:
        spatial: Lengths of the spatial axes.
        kernel: Number of elements of a window along each axis.
        strides: Distance between neighboring windows; 1 if empty.
        dilations: Distance between neighboring elements of a window; 1 if empty.
        pads_begin: Padding before the data; 0 if empty. Negative values crop.
        pads_end: Padding after the data; 0 if empty. Negative values crop.
        auto_pad: Padding mode. All modes but "explicit" and "notset" ignore `pads_begin` and `pads_end`.
        rounding: Rounding of the number of windows.

    Raises:
        InputError: An attribute does not match the number of spatial axes, or a window exceeds the padded data.
    """
    rank = len(spatial)
    kernel = expand_attribute("kernel", kernel, rank, 1, minimum=1)
    strides = expand_attribute("strides", strides, rank, 1, minimum=1)
    dilations = expand_attribute("dilations", dilations, rank, 1, minimum=1)
    if auto_pad == "valid":
        begin = end = (0,) * rank
    elif auto_pad in ("same_upper", "same_lower"):
        halves = [compute_same_padding(*axis) for axis in zip(spatial, kernel, strides, dilations, strict=True)]
        smaller, larger = tuple(h[0] for h in halves), tuple(h[1] for h in halves)
        begin, end = (smaller, larger) if auto_pad == "same_upper" else (larger, smaller)
    else:
        begin = expand_attribute("pads_begin", pads_begin, rank, 0)
        end = expand_attribute("pads_end", pads_end, rank, 0)
    output_shape = []
    for n, k, s, d, b, e in zip(spatial, kernel, strides, dilations, begin, end, strict=True):
        room = n + b + e - ((k - 1) * d + 1)
        if room < 0:
            raise InputError(
                f"a window of {k} elements with dilation {d} does not fit into {n} elements padded to {n + b + e}"
            )
        count = (room // s if rounding == "floor" else -(-room // s)) + 1
        if rounding == "ceil_torch" and (count - 1) * s >= n + b:
            count -= 1  # the last window would start in the padding after the data
        output_shape.append(count)
    check_allocation(output_shape, np.dtype(np.float32))
    return Windows(kernel, strides, dilations, begin, end, tuple(output_shape))


def expand_attribute(
    name: str, values: Sequence[int], rank: int, default: int, minimum: int | None = None
) -> tuple[int, ...]:
    """Return an attribute with one value for each spatial axis.

    Args:
        name: Name of the attribute, for the error message.
        values: One value per axis, or none.
        rank: Number of spatial axes.
        default: The value for all axes if `values` is empty.
        minimum: The least allowed value.

    Raises:
        InputError: The number of values is wrong, or a value is too small.
    """
    expanded = tuple(values) if len(values) else (default,) * rank
    if len(expanded) != rank:
        raise InputError(
            f"{name} {list(expanded)} has {len(expanded)} values, expected one for each of {rank} spatial axes"
        )
    if minimum is not None and any(v < minimum for v in expanded):
        raise InputError(f"{name} {list(expanded)} has a value below {minimum}")
    return expanded


def pad_spatial(x: Array, begin: Sequence[int], end: Sequence[int], value: Any = 0) -> Array:
    """Pad the last axes of `x` with a constant. Negative amounts crop.

    Args:
        x: Any type, shape [..., spatial...].
        begin: Number of elements before the data, for each spatial axis.
        end: Number of elements after the data.
        value: Value of the padding.

    Returns:
        The type of `x`; `x` itself or a view of it if nothing is padded.

    Raises:
        InputError: The result would exceed the memory limit.
    """
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
    interior: tuple[Any, ...] = (slice(None),) * lead
    for n, b, e in zip(sizes, begin, end, strict=True):
        # Only the borders are filled: most of a padded image is the image itself.
        before: tuple[Any, ...] = (*interior, slice(0, max(b, 0)))
        after: tuple[Any, ...] = (*interior, slice(n - max(e, 0), n))
        padded[before] = value
        padded[after] = value
        interior = (*interior, slice(max(b, 0), n - max(e, 0)))
    padded[interior] = x[source]
    return padded
