"""Arithmetic, comparison and selection: NumPy's ufuncs without preparation."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from irrun.fast.specialization import CallSite, SpecializedKernel, specializes
from irrun.fast.support import (
    BOOL,
    F32,
    NATIVE,
    NATIVE_FLOATS,
    NATIVE_INTEGERS,
    ZERO,
    Array,
    call_by_rows,
    has_nan,
    to_operand,
)

__all__: list[str] = []

Dtype = np.dtype[Any]
Ufunc = Callable[..., Any]


def uses_numpy_broadcasting(site: CallSite) -> bool:
    """Return whether NumPy's broadcasting implements the broadcasting of the operation."""
    return bool(site.attributes.get("auto_broadcast", "numpy") == "numpy")


def specialize_ufunc(
    site: CallSite, ufunc: Ufunc, dtypes: frozenset[Dtype], common: Dtype = F32
) -> SpecializedKernel | None:
    """Return a kernel that calls a binary ufunc directly where both inputs have one of `dtypes`.

    Args:
        site: The call site.
        ufunc: The ufunc, or a function of the same signature.
        dtypes: Types that the ufunc computes as the plain kernel does.
        common: The most frequent type, which is checked first.
    """
    if not uses_numpy_broadcasting(site):
        return None
    left, right, call_plain = site.get_constant(0), site.get_constant(1), site.call_plain
    if left is None and right is None:

        def compute(a: Array, b: Array) -> Any:
            dtype = a.dtype
            if dtype is b.dtype and (dtype is common or dtype in dtypes):
                if a.ndim == b.ndim == 4 and a.shape != b.shape:
                    return call_by_rows(_count_row(a.shape, b.shape), ufunc, a, b)
                return ufunc(a, b)
            return call_plain(a, b)

        return compute
    constant = right if right is not None else left
    if constant is None or constant.dtype not in dtypes:
        return None
    operand, dtype, rank = to_operand(constant), constant.dtype, constant.ndim
    if rank == 0 or constant.size != 1:
        rank = 0  # the operand is the constant itself
    if right is not None:

        def compute_right(a: Array) -> Any:
            return ufunc(a, operand) if a.dtype is dtype and a.ndim >= rank else call_plain(a)

        def compute_right_of_any_rank(a: Array) -> Any:
            return ufunc(a, operand) if a.dtype is dtype else call_plain(a)

        return compute_right if rank else compute_right_of_any_rank

    def compute_left(b: Array) -> Any:
        return ufunc(operand, b) if b.dtype is dtype and b.ndim >= rank else call_plain(b)

    return compute_left


def _count_row(a: tuple[int, ...], b: tuple[int, ...]) -> int:
    """Return the number of elements of a channel of [N, C, H, W] if the other shape is [N, C, 1, 1], else 0."""
    if a[2] == a[3] == 1:
        return b[2] * b[3]
    return a[2] * a[3] if b[2] == b[3] == 1 else 0


@specializes("Add-1", ufunc=np.add)
@specializes("Multiply-1", ufunc=np.multiply)
@specializes("Subtract-1", ufunc=np.subtract)
def specialize_arithmetic(site: CallSite, ufunc: Ufunc) -> SpecializedKernel | None:
    """Call the ufunc: NumPy's integers wrap as in the plain kernels."""
    return specialize_ufunc(site, ufunc, NATIVE)


@specializes("Equal-1", ufunc=np.equal)
@specializes("Greater-1", ufunc=np.greater)
@specializes("GreaterEqual-1", ufunc=np.greater_equal)
@specializes("Less-1", ufunc=np.less)
@specializes("LessEqual-1", ufunc=np.less_equal)
@specializes("NotEqual-1", ufunc=np.not_equal)
def specialize_comparison(site: CallSite, ufunc: Ufunc) -> SpecializedKernel | None:
    """Call the ufunc."""
    return specialize_ufunc(site, ufunc, NATIVE | {BOOL})


@specializes("LogicalAnd-1", ufunc=np.logical_and)
@specializes("LogicalOr-1", ufunc=np.logical_or)
@specializes("LogicalXor-1", "Xor-1", ufunc=np.logical_xor)
def specialize_logical(site: CallSite, ufunc: Ufunc) -> SpecializedKernel | None:
    """Call the ufunc for boolean."""
    return specialize_ufunc(site, ufunc, frozenset((BOOL,)), BOOL)


@specializes("LogicalNot-1")
def specialize_logical_not(site: CallSite) -> SpecializedKernel:
    """Call the ufunc for boolean."""
    call_plain = site.call_plain

    def compute(x: Array) -> Any:
        return np.logical_not(x) if x.dtype is BOOL else call_plain(x)

    return compute


@specializes("Maximum-1", ufunc=np.maximum)
@specializes("Minimum-1", ufunc=np.minimum)
def specialize_extremum(site: CallSite, ufunc: Ufunc) -> SpecializedKernel | None:
    """Call the ufunc. It propagates NaN, as the plain kernel does if only `a` can be NaN."""
    right = site.get_constant(1)
    if right is not None and not (right.dtype.kind == "f" and np.isnan(right).any()):
        return specialize_ufunc(site, ufunc, NATIVE)
    if site.variable_inputs != (0, 1) or not uses_numpy_broadcasting(site):
        return None
    call_plain = site.call_plain

    def compute(a: Array, b: Array) -> Any:
        if a.dtype is not F32 or b.dtype is not F32:
            return ufunc(a, b) if a.dtype is b.dtype and a.dtype in NATIVE_INTEGERS else call_plain(a, b)
        result = ufunc(a, b)
        return call_plain(a, b) if has_nan(result) else result

    return compute


@specializes("Divide-1")
def specialize_divide(site: CallSite) -> SpecializedKernel | None:
    """Call the ufunc for floats, and for integers if the divisor is constant and not zero."""
    divisor = site.get_constant(1)
    if divisor is None or divisor.dtype.kind == "f":
        return specialize_ufunc(site, np.divide, NATIVE_FLOATS)
    if not divisor.all() or not site.attributes.get("m_pythondiv", True):
        return None
    return specialize_ufunc(site, np.floor_divide, NATIVE_INTEGERS, divisor.dtype)


@specializes("FloorMod-1", ufunc=np.remainder)
@specializes("Mod-1", ufunc=np.fmod)
def specialize_mod(site: CallSite, ufunc: Ufunc) -> SpecializedKernel | None:
    """Call the ufunc if the divisor is a constant integer that is not zero, or finite."""
    divisor = site.get_constant(1)
    if divisor is None or divisor.dtype not in NATIVE:
        return None
    if not (np.isfinite(divisor).all() if divisor.dtype.kind == "f" else divisor.all()):
        return None
    return specialize_ufunc(site, ufunc, NATIVE, divisor.dtype)


@specializes("SquaredDifference-1")
def specialize_squared_difference(site: CallSite) -> SpecializedKernel | None:
    """Square in place."""

    def compute(a: Array, b: Array) -> Any:
        difference = np.subtract(a, b)
        return np.multiply(difference, difference, difference) if difference.ndim else difference * difference

    return specialize_ufunc(site, compute, NATIVE)


@specializes("Power-1")
def specialize_power(site: CallSite) -> SpecializedKernel | None:
    """Compute powers of f32 in f32; squares, roots and reciprocals without logarithms."""
    exponent = site.get_constant(1)
    if not uses_numpy_broadcasting(site):
        return None
    if exponent is None:
        return _specialize_variable_power(site)
    if exponent.size != 1 or exponent.dtype != F32:
        return specialize_ufunc(site, np.power, frozenset((F32,)))
    function = POWERS.get(float(exponent.item()))
    if function is None:
        return specialize_ufunc(site, np.power, frozenset((F32,)))
    call_plain, rank = site.call_plain, exponent.ndim

    def compute(x: Array) -> Any:
        return function(x) if x.dtype is F32 and x.ndim >= rank else call_plain(x)

    def compute_root(x: Array) -> Any:
        if x.dtype is not F32 or x.ndim < max(rank, 1):
            return call_plain(x)
        result = function(x)
        return call_plain(x) if has_nan(result) else result  # the root of minus infinity is infinity

    return compute_root if function in (_compute_root, _compute_reciprocal_root) else compute


def _specialize_variable_power(site: CallSite) -> SpecializedKernel:
    call_plain = site.call_plain
    base: Any = site.get_constant(0)

    def compute(a: Array, b: Array) -> Any:
        # For a single exponent, NumPy computes some powers differently, with other results for minus infinity.
        return np.power(a, b) if a.dtype is F32 and b.dtype is F32 and b.size > 1 else call_plain(a, b)

    def compute_exponential(b: Array) -> Any:
        return np.power(base, b) if b.dtype is F32 and b.size > 1 else call_plain(b)

    return compute if base is None else compute_exponential if base.dtype == F32 else call_plain


def _compute_root(x: Array) -> Array:
    root = np.add(x, ZERO)  # -0 becomes 0
    return np.sqrt(root, root)


def _compute_reciprocal_root(x: Array) -> Array:
    root = _compute_root(x)
    return np.reciprocal(root, root)


#: Exponent -> function of an f32 array.
POWERS: dict[float, Ufunc] = {
    2.0: np.square,
    -1.0: np.reciprocal,
    0.5: _compute_root,
    -0.5: _compute_reciprocal_root,
}


@specializes("Select-1")
def specialize_select(site: CallSite) -> SpecializedKernel | None:
    """Call `np.where` with prepared constants."""
    if not uses_numpy_broadcasting(site) or 0 not in site.variable_inputs:
        return None
    call_plain, where = site.call_plain, np.where
    then, other = site.get_constant(1), site.get_constant(2)
    if then is None and other is None:

        def compute(cond: Array, a: Array, b: Array) -> Any:
            return where(cond, a, b) if cond.dtype is BOOL and a.dtype is b.dtype else call_plain(cond, a, b)

        return compute
    if then is not None and other is not None:
        if then.dtype != other.dtype:
            return None

        def compute_from_constants(cond: Array) -> Any:
            return where(cond, then, other) if cond.dtype is BOOL else call_plain(cond)

        return compute_from_constants
    if then is not None:

        def compute_then(cond: Array, b: Array) -> Any:
            return where(cond, then, b) if cond.dtype is BOOL and b.dtype is then.dtype else call_plain(cond, b)

        return compute_then
    assert other is not None

    def compute_else(cond: Array, a: Array) -> Any:
        return where(cond, a, other) if cond.dtype is BOOL and a.dtype is other.dtype else call_plain(cond, a)

    return compute_else
