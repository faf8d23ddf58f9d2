"""Metrics of the difference between two arrays, of any element type."""

from __future__ import annotations

import contextlib
import math
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from irrun.arguments import check_integer, check_number, describe_value
from irrun.element_types import ElementType
from irrun.errors import InputError

__all__ = ["Metrics", "are_identical", "describe_values", "measure", "measure_top_k", "widen"]

Array = np.ndarray[Any, Any]

#: Number of elements processed at once: temporary arrays stay in the cache, and BLAS computes products of such
#: vectors in the calling thread.
CHUNK = 1 << 13


@dataclass(frozen=True)
class Metrics:
    """The difference of an array from a reference.

    Two NaNs are equal, and so are two infinities of the same sign. If only one of two elements is finite, their
    difference is infinite. Booleans count as 0 and 1; different strings differ by 1. If the shapes differ, the
    difference is infinite.

    Attributes:
        max_abs: The largest absolute difference.
        max_rel: The largest absolute difference relative to the reference; infinite where the reference is 0.
        rms: The root mean square of the differences.
        cosine: The cosine of the angle between the arrays; 1 if both are zero.
        sqnr_db: The ratio of the signal (the reference) to the noise (the difference) in dB;
            infinite if there is no difference.
        max_ulps: The largest difference in units in the last place, in the narrower of the two types.
        over_tolerance: The fraction of elements with a difference above the tolerance.
        differing: The number of elements that differ.
        count: The number of elements.
        same_shape: Whether the shapes are equal.
    """

    max_abs: float = 0.0
    max_rel: float = 0.0
    rms: float = 0.0
    cosine: float = 1.0
    sqnr_db: float = math.inf
    max_ulps: float = 0.0
    over_tolerance: float = 0.0
    differing: int = 0
    count: int = 0
    same_shape: bool = True

    @property
    def is_exact(self) -> bool:
        """Whether no element differs."""
        return self.same_shape and not self.differing

    def to_json(self) -> dict[str, float | int | str]:
        """Return the metrics for JSON. Infinities become texts such as "inf"."""
        names = ("max_abs", "max_rel", "rms", "cosine", "sqnr_db", "max_ulps", "over_tolerance")
        values = {name: float(getattr(self, name)) for name in names}
        return {name: value if math.isfinite(value) else str(value) for name, value in values.items()}


#: The difference of arrays that cannot be compared.
INCOMPARABLE = Metrics(
    math.inf, math.inf, math.inf, 0.0, -math.inf, math.inf, 1.0, differing=1, count=1, same_shape=False
)


def measure(actual: Array, reference: Array, tolerance: Array | float = 0.0) -> Metrics:
    """Return the difference of an array from a reference.

    Args:
        actual: An array of any element type.
        reference: An array of any element type.
        tolerance: Absolute differences above it count for `over_tolerance`; a number or an array.
    """
    actual, reference = _to_array("actual", actual), _to_array("reference", reference)
    if not isinstance(tolerance, np.ndarray):
        tolerance = check_number("tolerance", tolerance, 0, "a number of at least 0, or an array")
    elif tolerance.dtype.kind not in "iuf":
        raise InputError(f"tolerance is {describe_value(tolerance)}, expected an array of numbers")
    if actual.shape != reference.shape:
        return INCOMPARABLE
    if not actual.size:
        return Metrics()
    if are_identical(actual, reference):
        return Metrics(count=actual.size)
    if _is_text(actual) or _is_text(reference):
        return _measure_texts(actual, reference)
    return _Sums(actual, reference, tolerance).to_metrics()


def measure_top_k(actual: Array, reference: Array, k: int = 5) -> float:
    """Return the mean fraction of the k largest elements of each row that both arrays have in common.

    Args:
        actual: An array of numbers. Its last axis holds the rows.
        reference: An array of the same shape.
        k: The number of elements, at most the length of a row.

    Returns:
        A number from 0 to 1; 1 for empty arrays, 0 for different shapes.
    """
    actual, reference = _to_array("actual", actual), _to_array("reference", reference)
    k = check_integer("k", k, 0)
    if actual.shape != reference.shape:
        return 0.0
    if not actual.size:
        return 1.0
    length = np.atleast_1d(actual).shape[-1]
    rows = [widen(array).reshape(-1, length) for array in (actual, reference)]
    k = max(1, min(k, length))
    # A stable sort ranks equal elements by position; NaN counts as the smallest number.
    tops = [np.argsort(-np.where(np.isnan(r), -np.inf, r), axis=1, kind="stable")[:, :k] for r in rows]
    common = (tops[0][:, :, None] == tops[1][:, None, :]).any(axis=2)
    return float(common.mean())


def _to_array(name: str, value: Any) -> Array:
    """Return an argument as an array of an element type.

    Raises:
        InputError: The argument is neither an array nor a number.
    """
    array = value if isinstance(value, (np.ndarray, np.generic)) else None
    if array is None and isinstance(value, (bool, int, float, list, tuple)):
        with contextlib.suppress(ValueError, OverflowError):  # rows of different lengths
            array = np.asarray(value)
    try:
        if array is not None and ElementType.of(array.dtype):
            return np.asarray(array)
    except ValueError:
        pass
    raise InputError(f"{name} is {describe_value(value)}, expected an array of an element type")


def widen(value: Array) -> Array:
    """Convert an array to f64: booleans to 0 and 1, types without arithmetic to their codes.

    Args:
        value: An array of numbers or booleans.
    """
    if value.dtype.fields:
        value = value.view(np.uint8)
    return value.astype(np.float64)


def describe_values(value: Array) -> dict[str, float | int | None]:
    """Return statistics of an array.

    Args:
        value: An array of any element type.

    Returns:
        Minimum, maximum, mean and standard deviation of the finite elements (None if there are none), and the number
        of zeros, NaNs and infinities. Empty for strings.
    """
    if _is_text(value):
        return {}
    low, high, count, total, squares = math.inf, -math.inf, 0, 0.0, 0.0
    zeros = nans = infinities = 0
    with np.errstate(all="ignore"):
        flat = value.reshape(-1)
        for start in range(0, flat.size, CHUNK):
            numbers = widen(flat[start : start + CHUNK])
            zeros += numbers.size - int(np.count_nonzero(numbers))
            is_finite = np.isfinite(numbers)
            if not is_finite.all():
                nan_count = int(np.isnan(numbers).sum())
                nans += nan_count
                infinities += int(numbers.size - is_finite.sum()) - nan_count
                numbers = numbers[is_finite]
            if numbers.size:
                low, high = min(low, float(numbers.min())), max(high, float(numbers.max()))
                count += numbers.size
                total += float(numbers.sum())
                squares += float(np.dot(numbers, numbers))
    if not count:
        bounds: dict[str, float | int | None] = {"min": None, "max": None, "mean": None, "std": None}
    else:
        mean = total / count
        std = math.sqrt(max(0.0, squares / count - mean * mean)) if math.isfinite(squares) else math.inf
        bounds = {"min": low, "max": high, "mean": _to_finite(mean), "std": _to_finite(std)}
    return {**bounds, "zeros": zeros, "nans": nans, "infinities": infinities}


def _to_finite(number: float) -> float | None:
    return number if math.isfinite(number) else None


def _is_text(value: Array) -> bool:
    return value.dtype.kind in "OUST"


def are_identical(actual: Array, reference: Array) -> bool:
    """Return whether two arrays of numbers have the same type, shape and values.

    Args:
        actual: An array.
        reference: An array.
    """
    if actual.dtype != reference.dtype or _is_text(actual):
        return False
    with np.errstate(all="ignore"):
        if actual.dtype.fields:
            return bool(np.array_equal(actual.view(np.uint8), reference.view(np.uint8)))
        return bool(np.array_equal(actual, reference))


def _measure_texts(actual: Array, reference: Array) -> Metrics:
    differs = np.array([str(a) != str(b) for a, b in zip(actual.reshape(-1), reference.reshape(-1), strict=True)])
    count = int(differs.sum())
    if not count:
        return Metrics(count=differs.size)
    fraction = count / differs.size
    cosine = 1 - fraction
    return Metrics(
        1.0, 1.0, math.sqrt(fraction), cosine, -10 * math.log10(fraction), 1.0, fraction, count, differs.size
    )


class _Sums:
    """Accumulates the metrics of two arrays of numbers, part by part."""

    def __init__(self, actual: Array, reference: Array, tolerance: Array | float) -> None:
        self.count = actual.size
        self.max_abs = self.max_rel = self.max_ulps = 0.0
        self.differing = self.over = 0
        self.has_infinite = False
        #: Sums of products, scaled by the largest magnitude to avoid overflow.
        self.scale = _find_scale((actual, reference))
        self.noise = self.signal = self.power = self.product = 0.0
        flat = (actual.reshape(-1), reference.reshape(-1))
        tolerances = np.broadcast_to(tolerance, actual.shape).reshape(-1) if np.ndim(tolerance) else None
        with np.errstate(all="ignore"):
            for start in range(0, self.count, CHUNK):
                part = slice(start, start + CHUNK)
                limit: Any = tolerance if tolerances is None else tolerances[part]
                self.add(flat[0][part], flat[1][part], limit)

    def add(self, actual: Array, reference: Array, tolerance: Any) -> None:
        a, b = widen(actual), widen(reference)
        difference, is_equal = self.subtract((actual, reference), (a, b))
        differing = int(is_equal.size - np.count_nonzero(is_equal))
        self.differing += differing
        self.over += int(np.count_nonzero(difference > tolerance))
        self.max_abs = max(self.max_abs, float(difference.max()))
        self.has_infinite |= self.max_abs == math.inf
        if differing:
            relative = np.divide(difference, np.abs(b), out=np.zeros_like(b), where=~is_equal)
            self.max_rel = max(self.max_rel, float(np.where(np.isnan(relative), np.inf, relative).max()))
            self.max_ulps = max(self.max_ulps, _count_ulps(actual, reference, is_equal))
        is_finite = np.isfinite(a) & np.isfinite(b)
        if not is_finite.all():
            a, b, difference = (np.where(is_finite, x, 0.0) for x in (a, b, difference))
        a, b, noise = a / self.scale, b / self.scale, difference / self.scale
        self.noise += float(noise @ noise)
        self.signal += float(b @ b)
        self.power += float(a @ a)
        self.product += float(a @ b)

    @staticmethod
    def subtract(arrays: tuple[Array, Array], wide: tuple[Array, Array]) -> tuple[Array, Array]:
        """Return the absolute differences and which elements are equal, for two arrays also given as f64."""
        (actual, reference), (a, b) = arrays, wide
        if actual.dtype.kind in "iu" and actual.dtype == reference.dtype:
            is_equal = actual == reference
            # The difference of 64-bit integers is exact in modular arithmetic, but not in f64.
            largest, smallest = np.maximum(actual, reference), np.minimum(actual, reference)
            difference = largest.astype(np.uint64) - smallest.astype(np.uint64)
            return difference.astype(np.float64), is_equal
        is_equal = (a == b) | (np.isnan(a) & np.isnan(b))
        difference = np.where(is_equal, 0.0, np.abs(a - b))
        return np.where(np.isnan(difference), np.inf, difference), is_equal

    def to_metrics(self) -> Metrics:
        rms = math.sqrt(self.noise / self.count) * self.scale
        if self.has_infinite:
            rms, sqnr = math.inf, -math.inf
        elif not self.noise:
            sqnr = math.inf
        else:
            sqnr = 10 * math.log10(self.signal / self.noise) if self.signal else -math.inf
        if self.signal and self.power:
            cosine = max(-1.0, min(1.0, self.product / math.sqrt(self.signal) / math.sqrt(self.power)))
        else:
            cosine = float(self.signal == self.power)
        return Metrics(
            self.max_abs,
            self.max_rel,
            rms,
            cosine,
            sqnr,
            self.max_ulps,
            self.over / self.count,
            self.differing,
            self.count,
        )


def _find_scale(arrays: Sequence[Array]) -> float:
    """Return the largest finite magnitude of arrays; at least the smallest normal number."""
    scale = sys.float_info.min
    for array in arrays:
        for start in range(0, array.size, CHUNK):
            part = widen(array.reshape(-1)[start : start + CHUNK])
            largest = max(float(part.max()), -float(part.min()))
            if not math.isfinite(largest):
                largest = float(np.max(np.abs(part), where=np.isfinite(part), initial=scale))
            scale = max(scale, largest)
    return scale


def _count_ulps(actual: Array, reference: Array, is_equal: Array) -> float:
    """Return the largest distance of two elements, as a number of representable values."""
    dtype = min((actual.dtype, reference.dtype), key=_get_width)
    if dtype.fields or not ElementType.of(dtype).is_float:
        return float(np.abs(widen(actual) - widen(reference)).max())
    arrays = [array.astype(dtype, copy=False) for array in (actual, reference)]
    if not np.array_equal(np.isnan(arrays[0]), np.isnan(arrays[1])):
        return math.inf
    if dtype.itemsize in (4, 8):
        # Elements of the same sign are as far apart as their bits; most other pairs are near 0.
        bits = [np.ascontiguousarray(array).view(f"i{dtype.itemsize}") for array in arrays]
        is_mixed = (bits[0] ^ bits[1]) < 0
        distances = np.abs(bits[0] - bits[1])
        if not is_mixed.any():
            return float(np.max(distances, where=~is_equal, initial=0))
        same = float(np.max(distances, where=~(is_equal | is_mixed), initial=0))
        arrays, is_equal = [array[is_mixed] for array in arrays], is_equal[is_mixed]
    else:
        same = 0.0
    codes = [_order_codes(array) for array in arrays]
    unsigned = f"u{codes[0].dtype.itemsize}"
    distance = np.maximum(*codes).view(unsigned) - np.minimum(*codes).view(unsigned)  # exact in modular arithmetic
    return max(same, float(np.max(distance, where=~is_equal, initial=0)))


def _get_width(dtype: np.dtype[Any]) -> tuple[bool, int]:
    """Return a key that orders floating-point types by width, before all other types."""
    return not ElementType.of(dtype).is_float, ElementType.of(dtype).bits


def _order_codes(values: Array) -> Array:
    """Return integers that are ordered as the floating-point values and count the representable ones."""
    codes = np.ascontiguousarray(values).view(f"i{values.dtype.itemsize}")
    name = ElementType.of(values.dtype).name
    if name == "f8e8m0":  # without a sign
        return codes.astype(np.int16) & 0xFF
    if name == "f4e2m1":
        codes = np.where(codes & 8, codes - 16, codes)
        return np.where(codes < 0, -8 - codes, codes)
    return np.where(codes < 0, np.iinfo(codes.dtype).min - codes, codes)
