"""RegionYolo and ReorgYolo."""

from __future__ import annotations

import math

import numpy as np

from irrun.errors import InputError
from irrun.ops._support.axes import normalize_axis
from irrun.ops._support.numerics import Array, compute_in_float32
from irrun.ops._support.registry import op

__all__ = ["region_yolo_1", "reorg_yolo_2"]


@op("RegionYolo", since=1)
@compute_in_float32
def region_yolo_1(
    data: Array,
    *,
    axis: int,
    coords: int,
    classes: int,
    end_axis: int,
    num: int,
    anchors: list[float] = [],  # noqa: B006
    do_softmax: bool = True,
    mask: list[int] = [],  # noqa: B006
) -> Array:
    """Regions of YOLO: centres and objectness through the sigmoid, classes through softmax or the sigmoid.

    data: float [N, C, H, W], C being regions * (coords + 1 + classes), or more of which the first are used;
    the regions are `num` with `do_softmax`, as many as `mask` has entries without. `anchors` are not used.
    Returns the type of data: its shape with the axes from `axis` to `end_axis` in one with `do_softmax`,
    [N, regions * (coords + 1 + classes), H, W] without.
    Raises InputError where the shape does not fit the attributes.
    Spec: RegionYolo-1.
    """
    if data.ndim != 4:
        raise InputError(f"data have shape {list(data.shape)}, expected [N, C, H, W]")
    regions = num if do_softmax else len(mask)
    batch, channels, height, width = data.shape
    entries = coords + 1 + classes
    used = regions * entries
    if used > channels or (do_softmax and used != channels):
        raise InputError(f"data have {channels} channels, expected {regions} * ({coords} + 1 + {classes})")
    result = data[:, :used].reshape(batch, regions, entries, height, width).copy()
    result[:, :, :2] = _sigmoid(result[:, :, :2])
    sigmoid_end = coords + 1 if do_softmax else entries
    result[:, :, coords:sigmoid_end] = _sigmoid(result[:, :, coords:sigmoid_end])
    if not do_softmax:
        found: Array = result.reshape(batch, used, height, width)
        return found
    if classes:
        scores = data[:, :used].reshape(result.shape)[:, :, coords + 1 :]
        powers = np.exp(scores - scores.max(axis=2, keepdims=True))
        result[:, :, coords + 1 :] = powers / powers.sum(axis=2, keepdims=True)
    first, last = normalize_axis(axis, 4), normalize_axis(end_axis, 4, "end_axis")
    shape = data.shape
    if first > last:
        raise InputError(f"axis {axis} comes after end_axis {end_axis}")
    flat: Array = result.reshape(*shape[:first], math.prod(shape[first : last + 1]), *shape[last + 1 :])
    return flat


def _sigmoid(x: Array) -> Array:
    one = x.dtype.type(1)
    found: Array = one / (one + np.exp(-x))
    return found


@op("ReorgYolo", since=2)
def reorg_yolo_2(data: Array, *, stride: list[int]) -> Array:
    """Pixels to channels, in the order that YOLO's own implementation gives them.

    data: any type, [N, C, H, W], H and W divisible by the stride, C at least its square.
    Returns the type of data, [N, C * stride^2, H / stride, W / stride].
    Raises InputError where the shape is not divisible or has too few channels.
    The data are read as if they had the shape [N, C / stride^2, H * stride, W * stride], rounded down, as in the
    reference: where the square does not divide C, some values are read twice and others not at all.
    Spec: ReorgYolo-1.
    """
    step = stride[0] if stride else 0
    if data.ndim != 4 or step < 1:
        raise InputError(f"data have shape {list(data.shape)} and stride is {stride}, expected rank 4, stride >= 1")
    batch, channels, height, width = data.shape
    if height % step or width % step or channels < step * step:
        raise InputError(
            f"data have shape {list(data.shape)}, expected at least {step * step} channels and a height and width "
            f"divisible by stride {step}"
        )
    planes = channels // (step * step)
    block, plane = np.divmod(np.arange(channels), planes)
    rows = np.arange(height) * step + block[:, None] // step
    columns = np.arange(width) * step + block[:, None] % step
    places = (plane[:, None] * height * step + rows)[:, :, None] * (width * step) + columns[:, None, :]
    starts = np.arange(batch) * (planes * step * step * height * width)
    result = np.empty((batch, channels * step * step, height // step, width // step), data.dtype)
    for image, start in zip(result, starts, strict=True):
        image.reshape(-1)[:] = data.reshape(-1)[start:][places.reshape(-1)]
    return result
