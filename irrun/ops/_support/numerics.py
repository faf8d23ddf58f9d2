"""Computation with all element types: the type that a kernel computes in, and the rounding of its result.

Decorators below `@op` convert the types, so that kernels do not have to. Low-precision floats are computed in f32 and
rounded once, and sub-byte integers are computed in i32 and wrap:

- `compute_in_native_type`: for elementwise kernels and reductions with a result of the first input's type;
- `predicate`: for elementwise kernels with a boolean result;
- `compute_in_float64`: for elementwise functions that NumPy computes in f32 with less than full precision, and for
  functions whose results for integers are rounded or truncated;
- `compute_in_float32`: for all other kernels that do arithmetic on floats.

If the computation of a kernel depends on the element type of its input, the kernel is not decorated. It calls a
decorated function, or `apply_in_float64`, which implements `compute_in_float64`.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, Literal, TypeVar

import numpy as np

from irrun.deadlines import within_time
from irrun.element_types import ElementType
from irrun.errors import InputError

__all__ = [
    "Array",
    "apply_in_float64",
    "cast_to_integers",
    "compute_in_float32",
    "compute_in_float64",
    "compute_in_native_type",
    "divide_toward_zero",
    "evaluate_polynomial",
    "get_integer_limits",
    "get_lowest_float",
    "is_float",
    "is_integer",
    "is_low_precision",
    "predicate",
    "reduce_along",
    "round_half_away",
    "to_native",
    "truncate_to",
    "upcast",
    "upcast_for_accumulation",
]

Array = np.ndarray[Any, Any]
Function = TypeVar("Function", bound=Callable[..., Any])

#: The only low-precision type that NumPy computes with.
F16 = np.dtype(np.float16)
#: `np.dtype.isbuiltin` of types that NumPy does not define, such as the types of ml_dtypes.
EXTENSION = 2

#: Smallest and largest number of elements that `apply_in_float64` computes at a time: large enough to hide the overhead
#: of NumPy's calls, small enough for the processor's cache.
BLOCK_SIZES = (1 << 12, 1 << 14)


def is_low_precision(dtype: np.dtype[Any]) -> bool:
    """Return whether `dtype` is a floating-point type that is computed in f32."""
    return dtype == F16 or (dtype.isbuiltin == EXTENSION and _get_extension_kind(dtype) == "float")


def is_float(dtype: np.dtype[Any]) -> bool:
    """Return whether `dtype` is a floating-point type of NumPy or ml_dtypes."""
    return dtype.kind == "f" or is_low_precision(dtype)


def is_integer(dtype: np.dtype[Any]) -> bool:
    """Return whether `dtype` is an integer type of NumPy or ml_dtypes; boolean is not."""
    return dtype.kind in "iu" or _is_sub_byte_integer(dtype)


def _is_sub_byte_integer(dtype: np.dtype[Any]) -> bool:
    """Return whether `dtype` is an integer type of ml_dtypes; these are narrower than a byte."""
    return dtype.isbuiltin == EXTENSION and _get_extension_kind(dtype) in ("int", "uint")


@functools.cache
def _get_extension_kind(dtype: np.dtype[Any]) -> str:
    """Return the kind of an ml_dtypes element type; empty for other types."""
    try:
        return ElementType.of(dtype).kind
    except ValueError:
        return ""


def upcast(x: Array) -> Array:
    """Return `x` in f32 if its type is a low-precision float, else `x` itself."""
    return x.astype(np.float32) if is_low_precision(x.dtype) else x


def upcast_for_accumulation(x: Array) -> Array:
    """Return `x` in the type of its sums: f32 for low-precision floats, i64 for sub-byte integers, else unchanged."""
    if is_low_precision(x.dtype):
        return x.astype(np.float32)
    return x.astype(np.int64) if _is_sub_byte_integer(x.dtype) else x


def to_native(x: Array) -> Array:
    """Return `x` in a type that NumPy computes in: f32 for low-precision floats, i32 for sub-byte integers.

    Raises:
        InputError: `x` is nf4, which has no arithmetic.
    """
    if x.dtype.kind != "V":
        return x.astype(np.float32) if x.dtype == np.float16 else x
    if x.dtype.fields is None:
        return x.astype(np.float32 if is_low_precision(x.dtype) else np.int32)
    if x.dtype.names == ("nf4",):
        raise InputError("arithmetic on nf4 is undefined")
    codes: Array = np.ascontiguousarray(x).view(np.uint8).reshape(x.shape)
    return codes.astype(np.int32)


def _convert_from_native(x: Array, dtype: np.dtype[Any]) -> Array:
    """Convert `x` back to `dtype`: floats are rounded, integers wrap."""
    if dtype.fields is None:
        return x.astype(dtype)
    mask = (1 << ElementType.of(dtype).bits) - 1
    return np.asarray(np.asarray(x & mask).astype(np.uint8).view(dtype))


def compute_in_native_type(kernel: Function) -> Function:
    """Decorate a kernel so that it gets types that NumPy computes in.

    The kernel gets low-precision floats as f32 and sub-byte integers as i32, and its result is converted to the
    type of the first input.
    """

    @functools.wraps(kernel)
    def wrapper(data: Array, /, *inputs: Array | None, **attributes: Any) -> Array:
        native = [None if x is None else to_native(x) for x in inputs]
        result = np.asarray(kernel(to_native(data), *native, **attributes))
        return result if result.dtype == data.dtype else _convert_from_native(result, data.dtype)

    return wrapper  # type: ignore[return-value]


def predicate(kernel: Function) -> Function:
    """Decorate an elementwise kernel with a boolean result so that it gets types that NumPy computes in.

    The kernel gets low-precision floats as f32 and sub-byte integers as i32. Its result is returned unchanged.
    """

    @functools.wraps(kernel)
    def wrapper(*inputs: Array, **attributes: Any) -> Array:
        return np.asarray(kernel(*map(to_native, inputs), **attributes))

    return wrapper  # type: ignore[return-value]


def compute_in_float32(kernel: Function) -> Function:
    """Decorate a kernel so that it gets low-precision floats as f32.

    Results in f32 are converted back to the type of the first low-precision input; all others are returned as they
    are. Types without arithmetic raise an InputError.
    """

    @functools.wraps(kernel)
    def wrapper(*inputs: Array | None, **attributes: Any) -> Any:
        dtype = None
        for i, x in enumerate(inputs):
            if x is None:
                continue
            if is_low_precision(x.dtype):
                dtype = dtype or x.dtype
            else:
                _check_is_numeric(i, x)
        if dtype is None:
            return kernel(*inputs, **attributes)
        result = kernel(*[None if x is None else upcast(x) for x in inputs], **attributes)
        if isinstance(result, tuple):
            return tuple(r.astype(dtype) if r.dtype == np.float32 else r for r in result)
        return result.astype(dtype) if result.dtype == np.float32 else result

    return wrapper  # type: ignore[return-value]


def _check_is_numeric(position: int, x: Array) -> None:
    """Raise an InputError for strings and bits, which have no arithmetic."""
    if x.dtype.kind in "OV" and (x.dtype.kind == "O" or x.dtype.fields is not None):
        raise InputError(f"input {position} is {ElementType.of(x.dtype)}, expected a numeric type")


def compute_in_float64(
    *, integers: Literal["round", "truncate"] = "round", only_integers: bool = False
) -> Callable[[Function], Function]:
    """Decorate an elementwise kernel so that it gets its first input as f64.

    The result is rounded once, to the type of the first input. All other inputs stay unchanged. The kernel
    may be called several times, with blocks of the first input, so that other inputs must have one element.

    Args:
        integers: How results for integers become integers.
        only_integers: Whether floats stay in their native type instead, which is faster. This is for functions
            that NumPy computes in f32 with sufficient precision.
    """

    def decorate(kernel: Function) -> Function:
        native_kernel = compute_in_native_type(kernel)

        @functools.wraps(kernel)
        def wrapper(data: Array, /, *inputs: Array | None, **attributes: Any) -> Array:
            if only_integers and is_float(data.dtype):
                return native_kernel(data, *inputs, **attributes)  # type: ignore[no-any-return]
            return apply_in_float64(lambda x: kernel(x, *inputs, **attributes), data, integers=integers)

        return wrapper  # type: ignore[return-value]

    return decorate


def apply_in_float64(
    function: Callable[[Array], Array], data: Array, *, integers: Literal["round", "truncate"] = "round"
) -> Array:
    """Compute an elementwise `function` in f64 and round the result once, to the type of `data`.

    NumPy's f32 functions are off by up to four units in the last place and differ between processors.

    Args:
        function: Takes and returns f64 arrays, elementwise.
        data: Numeric, any shape.
        integers: How results for integers become integers.

    Returns:
        An array of the type and shape of `data`.

    Raises:
        InputError: The elements are strings or bits.
    """
    if not is_float(data.dtype):
        _check_is_numeric(0, data)
        if data.size <= BLOCK_SIZES[1]:
            return _apply_to_integers(function, data, integers)
        flat = data.reshape(-1)
        result = np.empty(flat.shape, data.dtype)
        for start in within_time(range(0, flat.size, BLOCK_SIZES[1])):
            block = slice(start, start + BLOCK_SIZES[1])
            result[block] = _apply_to_integers(function, flat[block], integers)
        return np.asarray(result.reshape(data.shape))
    block_size = min(max(data.size // 16, BLOCK_SIZES[0]), BLOCK_SIZES[1])  # keeps the workspace below the data
    if data.size <= block_size:
        return np.asarray(function(data.astype(np.float64, copy=False))).astype(data.dtype, copy=False)
    flat = data.reshape(-1)
    result = np.empty(flat.shape, data.dtype)
    for start in within_time(range(0, flat.size, block_size)):
        block = slice(start, start + block_size)
        result[block] = function(flat[block].astype(np.float64, copy=False))
    return np.asarray(result.reshape(data.shape))


def _apply_to_integers(function: Callable[[Array], Array], data: Array, integers: str) -> Array:
    """Compute a `function` of integers in f64."""
    native = to_native(data)
    exact = np.asarray(function(native.astype(np.float64)))
    whole = cast_to_integers(round_half_away(exact) if integers == "round" else exact, native.dtype)
    return whole if whole.dtype == data.dtype else _convert_from_native(whole, data.dtype)


def reduce_along(ufunc: Any, x: Array, axis: int) -> Array:
    """Reduce along one axis and keep it with length 1.

    Args:
        ufunc: A binary ufunc of NumPy.
        x: Any type that NumPy computes in, any shape.
        axis: An axis in [0, rank).
    """
    # For a short last axis, NumPy takes as long as for a hundred elements; reducing slice by slice is faster.
    if axis == x.ndim - 1 and 1 < x.shape[axis] <= 16 and x.size >= 2048:
        return np.expand_dims(functools.reduce(ufunc, np.moveaxis(x, axis, 0)), axis)
    return np.asarray(ufunc.reduce(x, axis, x.dtype, keepdims=True))


def evaluate_polynomial(coefficients: Sequence[float], x: Array) -> Array:
    """Evaluate a polynomial by Horner's scheme.

    Args:
        coefficients: From the constant term up; at least two.
        x: A floating-point array.
    """
    result: Array = x * coefficients[-1]
    for c in coefficients[-2:0:-1]:
        result += c
        result *= x
    result += coefficients[0]
    return result


def round_half_away(x: Array) -> Array:
    """Round to the nearest integer, halves away from zero, as C's `round` does."""
    whole = np.trunc(x)
    return np.asarray(whole + np.copysign(np.abs(x - whole) >= 0.5, x))


def divide_toward_zero(x: Array, y: Array | int) -> Array:
    """Divide integers and round toward zero, as C does; NumPy rounds down."""
    quotient = np.asarray(x // y)
    is_rounded = np.asarray(quotient * y != x)
    is_rounded &= quotient < 0
    quotient += is_rounded
    return quotient


def cast_to_integers(x: Array, dtype: np.dtype[Any]) -> Array:
    """Convert floats to an integer type, dropping the fraction.

    C leaves the conversion of values out of range undefined. The reference implementation on x86 returns the
    lowest integer, of 32 bits for narrower types, and then drops the high bits; for u64 it returns zero where the
    value is too large. This function does the same on every machine.

    Args:
        x: A floating-point array.
        dtype: An integer type of NumPy.
    """
    limit = 2.0 ** (63 if dtype.itemsize == 8 or dtype == np.uint32 else 31)
    fits = (x >= -limit) & (x < limit)
    if fits.all():
        return x.astype(np.int64).astype(dtype, copy=False)
    whole = np.where(fits, x, x.dtype.type(-limit)).astype(np.int64)
    if dtype == np.uint64:
        high = x - x.dtype.type(limit)
        upper = np.where((high >= 0) & (high < limit), high, 0).astype(np.uint64) + np.uint64(2**63)
        return np.where(x >= limit, np.where(high < limit, upper, np.uint64(0)), whole.astype(np.uint64))
    return whole.astype(dtype, copy=False)


def truncate_to(x: Array, dtype: np.dtype[Any]) -> Array:
    """Convert floats to `dtype`; for integer types the fraction is dropped and values wrap."""
    if is_integer(dtype):
        x = cast_to_integers(x, np.dtype(np.int64))
    return x.astype(dtype, copy=False)


def get_integer_limits(dtype: np.dtype[Any]) -> tuple[int, int]:
    """Return the lowest and the greatest value of an integer type of any width."""
    element_type = ElementType.of(dtype)
    if element_type.kind == "uint":
        return 0, (1 << element_type.bits) - 1
    return -(1 << element_type.bits - 1), (1 << element_type.bits - 1) - 1


def get_lowest_float(dtype: np.dtype[Any]) -> float:
    """Return the lowest finite value of a floating-point type of NumPy or ml_dtypes."""
    if dtype.isbuiltin != EXTENSION:
        return float(np.finfo(dtype).min)
    import ml_dtypes

    info: Any = ml_dtypes.finfo(dtype)  # type: ignore[no-untyped-call]
    return float(info.min)
