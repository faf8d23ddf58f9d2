"""Type operations: Convert and its relatives, and the packing of text into string tensors."""

from __future__ import annotations

import numpy as np

from irrun.element_types import ELEMENT_TYPES, ElementType
from irrun.errors import InputError
from irrun.ops._support.numerics import Array, cast_to_integers
from irrun.ops._support.registry import op

__all__ = [
    "convert",
    "convert_1",
    "convert_like_1",
    "convert_promote_types_14",
    "string_tensor_pack_15",
    "string_tensor_unpack_15",
]

#: What the codes of nf4 stand for: the quantiles of the normal distribution, scaled to [-1, 1].
NF4 = np.array(
    [
        -1.0,
        -0.6961928009986877,
        -0.5250730514526367,
        -0.39491748809814453,
        -0.28444138169288635,
        -0.18477343022823334,
        -0.09105003625154495,
        0.0,
        0.07958029955625534,
        0.16093020141124725,
        0.24611230194568634,
        0.33791524171829224,
        0.44070982933044434,
        0.5626170039176941,
        0.7229568362236023,
        1.0,
    ],
    np.float32,
)
#: A value goes to the higher of two codes where it exceeds the number between them.
NF4_BOUNDS = np.array(
    [
        -0.8480964004993439,
        -0.6106329262256622,
        -0.4599952697753906,
        -0.33967943489551544,
        -0.23460740596055984,
        -0.13791173323988914,
        -0.045525018125772476,
        0.03979014977812767,
        0.1202552504837513,
        0.2035212516784668,
        0.2920137718319893,
        0.3893125355243683,
        0.5016634166240692,
        0.6427869200706482,
        0.8614784181118011,
    ],
    np.float32,
)


@op("Convert", since=1, folding="linear")
def convert_1(data: Array, *, destination_type: ElementType) -> Array:
    """`data` in another element type.

    data: any type and shape; strings become strings only.
    Returns the shape of data in the type destination_type. Floats become integers by truncation towards zero,
    integers too wide lose their high bits, and everything but zero is true. What is too large for a float becomes
    infinity, or NaN in f8e4m3; f4e2m1 saturates, and so does f16 where i32 is converted. Undefined in the
    specification are floats that no integer can hold: these give what the reference gives on x86. Rounding is to
    nearest even, for bf16 too, where the reference rounds some values down.
    Raises InputError where strings are to become numbers, or numbers strings.
    Spec: Convert-1.
    """
    return convert(data, destination_type)


@op("ConvertLike", since=1, folding="linear")
def convert_like_1(data: Array, like: Array) -> Array:
    """`data` in the element type of `like`, by the rules of Convert.

    data: any type and shape; like: any type and shape.
    Returns the shape of data in the type of like.
    Raises InputError where only one of them holds strings.
    Spec: ConvertLike-1.
    """
    return convert(data, ElementType.of(like.dtype))


@op("ConvertPromoteTypes", since=14, folding="linear")
def convert_promote_types_14(
    input_0: Array,
    input_1: Array,
    *,
    promote_unsafe: bool = False,
    pytorch_scalar_promotion: bool = False,
    u64_integer_promotion_target: ElementType = ELEMENT_TYPES["f32"],
) -> tuple[Array, Array]:
    """Both inputs in the type that can hold either.

    input_0, input_1: numbers or boolean, any shapes.
    Returns both, in their shapes and one common type: that of floats before integers before boolean; of floats
    that hold all values of both; of integers likewise, signed if one is, but u64_integer_promotion_target for u64
    and a signed one; with pytorch_scalar_promotion that of the tensor whose partner of the same kind is a scalar.
    Raises InputError where there is none that is safe, unless promote_unsafe, and for types without rules.
    Spec: ConvertPromoteTypes-14.
    """
    a, b = ElementType.of(input_0.dtype), ElementType.of(input_1.dtype)
    common = _common_type(
        a,
        b,
        unsafe=promote_unsafe,
        scalar=(input_0.ndim == 0, input_1.ndim == 0) if pytorch_scalar_promotion else (False, False),
        u64_target=u64_integer_promotion_target,
    )
    if common is None:
        kind = "" if promote_unsafe else "safely "
        raise InputError(f"{a} and {b} cannot be {kind}promoted to a common type")
    return convert(input_0, common), convert(input_1, common)


@op("StringTensorPack", since=15, folding="linear")
def string_tensor_pack_15(begins: Array, ends: Array, symbols: Array) -> Array:
    """Strings cut out of one run of UTF-8 text.

    begins, ends: i32 or i64, of equal shape; symbols: u8 [number of bytes].
    Returns string of the shape of begins: the bytes from begin up to end.
    Raises InputError where the shapes differ, or a range lies outside of the text or ends before it begins.
    Spec: StringTensorPack-15.
    """
    if begins.shape != ends.shape:
        raise InputError(f"begins has shape {list(begins.shape)} and ends {list(ends.shape)}, expected equal ones")
    wrong = (begins < 0) | (ends < begins) | (ends > symbols.size)
    if wrong.any():
        begin, end = begins[wrong][0], ends[wrong][0]
        raise InputError(f"a string spans [{begin}, {end}), but there are {symbols.size} bytes of text")
    text = symbols.tobytes()
    packed = np.empty(begins.size, object)
    packed[:] = [
        text[begin:end].decode("utf-8", "surrogateescape")
        for begin, end in zip(begins.reshape(-1).tolist(), ends.reshape(-1).tolist(), strict=True)
    ]
    return np.asarray(packed.reshape(begins.shape))


@op("StringTensorUnpack", since=15, folding="linear")
def string_tensor_unpack_15(data: Array) -> tuple[Array, Array, Array]:
    """The text of all strings in one run, and where each begins and ends in it.

    data: string, any shape.
    Returns begins and ends, i32 of the shape of data, and the text as UTF-8, u8 [number of bytes].
    Spec: StringTensorUnpack-15.
    """
    encoded = [str(text).encode("utf-8", "surrogateescape") for text in data.reshape(-1).tolist()]
    bounds = np.cumsum([0, *map(len, encoded)]).astype(np.int32)
    begins, ends = bounds[:-1].reshape(data.shape), bounds[1:].reshape(data.shape)
    return begins, ends, np.frombuffer(b"".join(encoded), np.uint8)


def convert(data: Array, target: ElementType) -> Array:
    """`data` in the element type `target`; `data` itself where it has that type.

    Raises:
        InputError: strings are to become something else, or the reverse.
    """
    source = ElementType.of(data.dtype)
    if source == target:
        return data
    if "string" in (source.kind, target.kind):
        raise InputError(f"{source} cannot be converted to {target}")
    values = _values(data, source)
    if target.kind == "boolean":
        return np.asarray(values != 0)
    if target.is_float:
        return np.asarray(_to_float(values, target))
    if values.dtype.kind == "f":
        values = cast_to_integers(values, np.dtype(np.int32) if target.is_packed else target.dtype)
    if target.is_packed:
        codes = np.asarray(values.astype(np.uint8) & np.uint8((1 << target.bits) - 1))
        return codes.view(target.dtype)
    return np.asarray(values.astype(target.dtype, copy=False))


def _values(data: Array, source: ElementType) -> Array:
    """`data` in a type of NumPy's own that holds every value of `source`, floats in f32 or f64."""
    if source.name == "nf4":
        return np.asarray(NF4[data.view(np.uint8)])
    if source.is_packed and source.kind == "uint":
        return data.view(np.uint8)
    if source.name == "i4":
        return data.astype(np.int8)
    return data.astype(np.float32) if source.is_float and source.bits < 32 else data


def _to_float(values: Array, target: ElementType) -> Array:
    if target.bits >= 32:
        return values.astype(target.dtype, copy=False)
    if target.name == "f16" and values.dtype == np.int32:
        values = np.clip(values, -65504, 65504)  # alone among the sources, i32 saturates
    # Narrower floats are made from f32, as in the reference: a value of f64 or i64 is rounded twice.
    values = values.astype(np.float32, copy=False)
    if target.name == "nf4":
        codes = np.searchsorted(NF4_BOUNDS, np.where(np.isnan(values), -1, values)).astype(np.uint8)
        return np.asarray(codes.view(target.dtype))
    if target.name == "f8e8m0":
        return _to_f8e8m0(values)
    if target.name in ("f8e4m3", "f8e5m2"):
        values = values.astype(np.float16)  # and these from f16 in turn
    elif target.name == "f4e2m1":  # knows neither NaN nor infinity
        values = np.where(np.isnan(values), np.copysign(np.float32(6), values), np.clip(values, -6, 6))
    return values.astype(target.dtype)


def _to_f8e8m0(values: Array) -> Array:
    """The nearest power of two, ties to the even exponent; there is no sign, no zero and no infinity."""
    bits = np.ascontiguousarray(values).view(np.uint32)
    exponent = bits >> 23
    codes = np.where(exponent == 0, bits > 0x600000, bits + 0x3FFFFF + (exponent & 1) >> 23)
    codes = np.where(values > 0, np.minimum(codes, 254), np.where(np.isnan(values), 255, 0))
    packed = codes.astype(np.uint8).view(ELEMENT_TYPES["f8e8m0"].dtype)
    return np.asarray(packed.reshape(values.shape))


_PROMOTED = (
    "boolean",
    "f16",
    "f32",
    "f64",
    "i4",
    "i8",
    "i16",
    "i32",
    "i64",
    "u1",
    "u4",
    "u8",
    "u16",
    "u32",
    "u64",
)
_SAME_WIDTH = {frozenset(("f8e4m3", "f8e5m2")): "f16", frozenset(("bf16", "f16")): "f32"}


def _common_type(
    a: ElementType, b: ElementType, *, unsafe: bool, scalar: tuple[bool, bool], u64_target: ElementType
) -> ElementType | None:
    """The type that ConvertPromoteTypes gives to both, or None."""
    for t in (a, b):
        if t.name not in (*_PROMOTED, "f8e4m3", "f8e5m2", "bf16"):
            return None
    if a == b or b.kind == "boolean":
        return a
    if a.kind == "boolean":
        return b
    if a.is_float != b.is_float:
        real, integer = (a, b) if a.is_float else (b, a)
        return real if unsafe or real.bits >= 2 * integer.bits else None
    signed = (a.kind != "uint", b.kind != "uint")
    if scalar[0] != scalar[1]:
        target, other = (b, a) if scalar[0] else (a, b)
        if unsafe or (target.kind == other.kind and target.bits >= other.bits):
            return target
        return target if target.kind == "int" and other.kind == "uint" and target.bits * 2 >= other.bits else None
    if signed[0] != signed[1]:
        unsigned, integer = (b, a) if signed[0] else (a, b)
        if unsigned.bits <= 32 and (unsafe or unsigned.bits * 2 <= integer.bits):
            return ELEMENT_TYPES[f"i{max(2 * unsigned.bits, integer.bits)}"]
        return u64_target if unsafe else None
    if a.bits != b.bits:
        return a if a.bits > b.bits else b
    name = _SAME_WIDTH.get(frozenset((a.name, b.name)))
    return ELEMENT_TYPES[name] if unsafe and name else None
