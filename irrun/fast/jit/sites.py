"""Compiled forms of specialized kernels of single instructions."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from irrun.fast.errors import NoKernelError
from irrun.fast.jit.concatenation import ConcatKernel
from irrun.fast.jit.copies import RotationKernel
from irrun.fast.jit.transposition import MIN_MATRIX_SIZE
from irrun.fast.specialization import CallSite, specialize
from irrun.fast.support import F32

if TYPE_CHECKING:
    from irrun.fast.jit.detections import DetectionKernel
    from irrun.fast.jit.group_normalization import GroupNormalizationKernel
    from irrun.fast.jit.interpolation import InterpolateKernel
    from irrun.fast.jit.means import MeanKernel

__all__ = ["SITES", "SiteKernel", "create_kernel"]

#: Minimum number of elements for compiled means.
MIN_REDUCED_SIZE = 1 << 11

#: Minimum number of elements for compiled rotations, and maximum number of shifts.
MIN_ROTATED_SIZE, MAX_SHIFT = 1 << 14, 1 << 31

SiteKernel: TypeAlias = (
    "ConcatKernel | DetectionKernel | GroupNormalizationKernel | InterpolateKernel | MeanKernel | RotationKernel"
)
#: The declared shapes of inputs and outputs, or None if the rank is unknown. Dynamic dimensions are None.
Shapes = Sequence[Sequence[Any] | None]


def _is_static(shape: Sequence[Any] | None) -> bool:
    return shape is not None and None not in shape


Creator: TypeAlias = "Callable[[CallSite, Shapes], SiteKernel]"
#: Operation type -> the function that creates the kernel of a call site in f32, or raises one of `REFUSALS`.
SITES: dict[str, Creator] = {}


def creates(operation_type: str) -> Callable[[Creator], Creator]:
    """Register the decorated function for a type of operation."""

    def decorate(function: Creator) -> Creator:
        SITES[operation_type] = function
        return function

    return decorate


@creates("Interpolate")
def _create_interpolation(site: CallSite, shapes: Shapes) -> InterpolateKernel:
    from irrun.fast.interpolate import Interpolation
    from irrun.fast.jit.interpolation import InterpolateKernel

    if site.attributes["mode"] == "cubic" or not isinstance(specialize(site), Interpolation):
        raise NoKernelError("not linear or nearest interpolation of the last axes")
    kernel = InterpolateKernel(site)
    if _is_static(shapes[0]) and _is_static(shapes[-1]):
        kernel.compile_resizer(tuple(shapes[0] or ()), tuple(shapes[-1] or ()))
    return kernel


@creates("Concat")
def _create_concatenation(site: CallSite, shapes: Shapes) -> ConcatKernel:
    """Create a kernel if an input may be large enough for a compiled copy."""
    sizes = [math.prod(d or MIN_MATRIX_SIZE for d in shape) for shape in shapes[:-1] if shape is not None]
    if len(sizes) < 2 or any(site.is_absent):
        raise NoKernelError("not several inputs of known rank")
    if max(sizes) < MIN_MATRIX_SIZE:
        raise NoKernelError(f"NumPy is as fast for inputs of fewer than {MIN_MATRIX_SIZE:,} elements")
    return ConcatKernel(site.attributes["axis"], site.constants)


@creates("ReduceMean")
def _create_mean(site: CallSite, shapes: Shapes) -> MeanKernel:
    """Create a kernel for means along the last axes, if there are many elements."""
    from irrun.fast.jit.means import MeanKernel
    from irrun.fast.reduction import read_axes

    axes, shape = read_axes(site), shapes[0]
    if not axes or shape is None:
        raise NoKernelError("not a value of known rank with constant axes")
    if math.prod(d or 64 for d in shape) < MIN_REDUCED_SIZE:
        raise NoKernelError(f"NumPy is as fast for fewer than {MIN_REDUCED_SIZE:,} elements")
    rank, count = len(shape), len(axes)
    if sorted(axis % rank for axis in axes if -rank <= axis < rank) != list(range(rank - count, rank)):
        raise NoKernelError("not along the last axes")
    return MeanKernel(rank, count, bool(site.attributes.get("keep_dims", False)))


@creates("Roll")
def _create_rotation(site: CallSite, shapes: Shapes) -> RotationKernel:
    """Create a kernel for rotations along axes before the last one, by one shift or one for each axis."""
    shift, axes = site.get_constant(1), site.get_constant(2)
    shape = shapes[0]
    if shift is None or axes is None or shape is None:
        raise NoKernelError("not a value of known rank with constant axes and shifts")
    if math.prod(d or 64 for d in shape) < MIN_ROTATED_SIZE:
        raise NoKernelError(f"NumPy is as fast for fewer than {MIN_ROTATED_SIZE:,} elements")
    numbers = [int(axis) % len(shape) for axis in axes.reshape(-1)]
    shifts = [int(n) for n in np.broadcast_to(shift.reshape(-1), len(numbers))]
    if len(shape) - 1 in numbers or len(set(numbers)) < len(numbers) or any(abs(n) > MAX_SHIFT for n in shifts):
        raise NoKernelError("only along different axes before the last one, by shifts of 32 bits")
    return RotationKernel(dict(zip(numbers, shifts, strict=True)))


@creates("DetectionOutput")
def _create_detection(site: CallSite, shapes: Shapes) -> DetectionKernel:
    """Create a kernel for the versions of the specification; the first one states the number of classes, too."""
    from irrun.fast.jit.detections import DetectionKernel
    from irrun.ops.detection.detection_output import DetectionSettings

    known = {a.name: a.default for a in site.operation.attributes if not a.required} | dict(site.attributes)
    classes = known.pop("num_classes", None)
    scores, priors = shapes[1], shapes[2]
    if classes is not None:
        prior_size = 4 if known["normalized"] else 5
        if not _is_static(scores) or not _is_static(priors):
            raise NoKernelError("the shapes of the scores and priors are unknown")
        if tuple(scores or ())[-1:] != (tuple(priors or (0,))[-1] // prior_size * classes,):
            raise NoKernelError("the number of scores is not the number of priors and classes")
    kernel = DetectionKernel(DetectionSettings(**known), site.constants, site.is_absent)
    kernel.prepare(())
    return kernel


@creates("GroupNormalization")
def _create_group_normalization(site: CallSite, shapes: Shapes) -> GroupNormalizationKernel:
    from irrun.fast.jit.group_normalization import GroupNormalizationKernel

    scale, bias = site.get_constant(1), site.get_constant(2)
    groups, shape = int(site.attributes["num_groups"]), shapes[0]
    if scale is None or bias is None or shape is None or len(shape) < 2 or site.variable_inputs != (0,):
        raise NoKernelError("not a value of known rank with constant scale and bias")
    if scale.ndim != 1 or scale.shape != bias.shape or groups < 1 or len(scale) % groups or not len(scale):
        raise NoKernelError("scale and bias do not have one element for each channel of the groups")
    if not scale.dtype == bias.dtype == F32:
        raise NoKernelError("scale and bias are not f32")
    return GroupNormalizationKernel(len(shape), groups, float(site.attributes["epsilon"]), scale, bias)


def create_kernel(site: CallSite, shapes: Shapes) -> SiteKernel:
    """Return the kernel of a call site.

    Args:
        site: The call site. Its first input and its result are f32.
        shapes: The declared shapes of the inputs and the outputs, with None for dynamic dimensions.

    Raises:
        NoKernelError: The site has no kernel.
    """
    try:
        return SITES[site.operation.type](site, shapes)
    except (ArithmeticError, ValueError, IndexError) as error:
        raise NoKernelError("the plain kernel refuses the constants") from error
