"""RegionYolo and ReorgYolo."""

from __future__ import annotations

import math

import numpy as np

from irrun.deadlines import within_time
from irrun.errors import InputError
from irrun.ops._support.axes import normalize_axis
from irrun.ops._support.numerics import Array, compute_in_float32
from irrun.ops._support.registry import op
from irrun.ops._support.special_functions import sigmoid

__all__ = ["region_yolo_1", "reorg_yolo_2"]


@op("RegionYolo", since=1, scratch=2, shape="infer_regions", flops=1)
@compute_in_float32
def region_yolo_1(
    data: Array,
    *,
    axis: int,
    coords: int,
    classes: int,
    end_axis: int,
    num: int,
    anchors: list[float] = [],
    do_softmax: bool = True,
    mask: list[int] = [],
) -> Array:
    """Apply the activations of a YOLO head: sigmoid to centers and objectness, softmax or sigmoid to classes.

    Args:
        data: Floating-point, shape [N, C, H, W]. C is regions * (coords + 1 + classes). If `do_softmax` is false, there
            may be more channels, which are ignored.
        axis: First axis that is flattened if `do_softmax` is true.
        coords: Number of coordinates of a region.
        classes: Number of classes.
        end_axis: Last axis that is flattened if `do_softmax` is true.
        num: Number of regions if `do_softmax` is true.
        anchors: Not used.
        do_softmax: Whether softmax is applied to the classes and the result is flattened. Otherwise, the sigmoid is
            applied to the classes.
        mask: One value for each region if `do_softmax` is false.

    Returns:
        The shape of `data` with the axes from `axis` to `end_axis` flattened if `do_softmax` is true, else shape [N,
        regions * (coords + 1 + classes), H, W]; the type of `data`.

    Raises:
        InputError: The shape does not match the attributes.

    Spec:
        RegionYolo-1
    """
    if data.ndim != 4:
        raise InputError(f"data has shape {list(data.shape)}, expected [N, C, H, W]")
    regions = num if do_softmax else len(mask)
    batch, channels, height, width = data.shape
    entries = coords + 1 + classes
    used = regions * entries
    if used > channels or (do_softmax and used != channels):
        raise InputError(f"data has {channels} channels, expected {regions} * ({coords} + 1 + {classes})")
    result = data[:, :used].reshape(batch, regions, entries, height, width).copy()
    result[:, :, :2] = sigmoid(result[:, :, :2])
    sigmoid_end = coords + 1 if do_softmax else entries
    result[:, :, coords:sigmoid_end] = sigmoid(result[:, :, coords:sigmoid_end])
    if not do_softmax:
        return np.asarray(result.reshape(batch, used, height, width))
    if classes:
        scores = data[:, :used].reshape(result.shape)[:, :, coords + 1 :]
        powers = np.exp(scores - scores.max(axis=2, keepdims=True))
        result[:, :, coords + 1 :] = powers / powers.sum(axis=2, keepdims=True)
    first, last = normalize_axis(axis, 4), normalize_axis(end_axis, 4, "end_axis")
    if first > last:
        raise InputError(f"axis {axis} is greater than end_axis {end_axis}")
    shape = data.shape
    return np.asarray(result.reshape(*shape[:first], math.prod(shape[first : last + 1]), *shape[last + 1 :]))


@op("ReorgYolo", since=2, scratch=3.25, kind="movement", shape="infer_reorganization", flops=0)
def reorg_yolo_2(data: Array, *, stride: list[int]) -> Array:
    """Move blocks of pixels to channels, in the order of the original implementation of YOLO.

    The data is read as if its shape were [N, C / stride^2, H * stride, W * stride], rounded down, as in the reference
    implementation. If stride^2 does not divide C, some values are read twice and others not at all.

    Args:
        data: Any type, shape [N, C, H, W]. H and W are divisible by the stride, and C is at least its square.
        stride: Height and width of a block, as a single value; other values are ignored.

    Returns:
        Shape [N, C * stride^2, H / stride, W / stride], the type of `data`.

    Raises:
        InputError: The height or width is not divisible by the stride, or there are too few channels.

    Spec:
        ReorgYolo-1
    """
    step = stride[0] if stride else 0
    if data.ndim != 4 or step < 1:
        raise InputError(f"data has shape {list(data.shape)} and stride is {stride}, expected rank 4 and stride >= 1")
    batch, channels, height, width = data.shape
    if height % step or width % step or channels < step * step:
        raise InputError(
            f"data has shape {list(data.shape)}, expected at least {step * step} channels and a height and width "
            f"divisible by stride {step}"
        )
    planes = channels // (step * step)
    block, plane = np.divmod(np.arange(channels), planes)
    rows = np.arange(height) * step + block[:, None] // step
    columns = np.arange(width) * step + block[:, None] % step
    indices = (plane[:, None] * height * step + rows)[:, :, None] * (width * step) + columns[:, None, :]
    starts = np.arange(batch) * (planes * step * step * height * width)
    result = np.empty((batch, channels * step * step, height // step, width // step), data.dtype)
    for image, start in within_time(zip(result, starts, strict=True)):
        image.reshape(-1)[:] = data.reshape(-1)[start:][indices.reshape(-1)]
    return result
