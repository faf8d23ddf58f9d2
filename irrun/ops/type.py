"""Type operations: Convert and its variants, and the packing of text into string tensors."""

from __future__ import annotations

import numpy as np

from irrun.element_types import ELEMENT_TYPES, ElementType
from irrun.errors import InputError
from irrun.limits import check_scratch
from irrun.ops._support.conversion import convert
from irrun.ops._support.numerics import Array, is_integer
from irrun.ops._support.registry import op
from irrun.ops._support.type_promotion import find_common_type

__all__ = [
    "convert_1",
    "convert_like_1",
    "convert_promote_types_14",
    "string_tensor_pack_15",
    "string_tensor_unpack_15",
]

#: The bytes of a string besides its text, and of its range as integers of Python.
STRING_BYTES = 152


@op("Convert", since=1, scratch=2.25, kind="elementwise", extremes="kept", shape="keep_shape", converts=True, flops=0)
def convert_1(data: Array, *, destination_type: ElementType) -> Array:
    """Convert `data` to another element type.

    Floats are truncated toward zero when they become integers. Integers that do not fit lose their high bits.
    Everything but zero converts to true. Values too large for a float become infinity, or NaN in f8e4m3; f4e2m1
    saturates, and so does f16 when i32 is converted. The specification leaves floats that no integer can hold
    undefined; they are converted as the reference implementation does on x86. Rounding is to nearest even, also
    for bf16, where the reference implementation rounds some values down.

    Args:
        data: Any type, any shape. Strings can only be converted to strings.
        destination_type: The element type of the result.

    Returns:
        The shape of `data`, the type `destination_type`.

    Raises:
        InputError: Strings are converted to numbers, or numbers to strings.

    Spec:
        Convert-1
    """
    return convert(data, destination_type)


@op(
    "ConvertLike",
    since=1,
    scratch=2.25,
    kind="elementwise",
    extremes="kept",
    shape="keep_shape",
    flops=0,
    output_types=(1,),
)
def convert_like_1(data: Array, like: Array) -> Array:
    """Convert `data` to the element type of `like`, by the rules of Convert.

    Args:
        data: Any type, any shape.
        like: Any type, any shape.

    Returns:
        The shape of `data`, the type of `like`.

    Raises:
        InputError: Only one of the inputs holds strings.

    Spec:
        ConvertLike-1
    """
    return convert(data, ElementType.of(like.dtype))


@op("ConvertPromoteTypes", since=14, kind="elementwise", shape=(0, 1), flops=0)
def convert_promote_types_14(
    input_0: Array,
    input_1: Array,
    *,
    promote_unsafe: bool = False,
    pytorch_scalar_promotion: bool = False,
    u64_integer_promotion_target: ElementType = ELEMENT_TYPES["f32"],
) -> tuple[Array, Array]:
    """Convert both inputs to a common type that can hold the values of either.

    Floats take precedence over integers, and integers over boolean. The common type of two floats or two
    integers holds all values of both; it is signed if either integer is.

    Args:
        input_0: Numeric or boolean, any shape.
        input_1: Numeric or boolean, any shape.
        promote_unsafe: Whether the common type may lose values or precision.
        pytorch_scalar_promotion: Whether a scalar and a tensor that are both floats or both integers get the type
            of the tensor.
        u64_integer_promotion_target: The common type of u64 and a signed integer.

    Returns:
        Both inputs, in their shapes and the common type.

    Raises:
        InputError: No common type exists, or no safe one and `promote_unsafe` is false, or there are no
            rules for one of the types.

    Spec:
        ConvertPromoteTypes-14
    """
    a, b = ElementType.of(input_0.dtype), ElementType.of(input_1.dtype)
    scalars = (input_0.ndim == 0, input_1.ndim == 0) if pytorch_scalar_promotion else (False, False)
    common = find_common_type(a, b, scalars, u64_integer_promotion_target, unsafe=promote_unsafe)
    if common is None:
        kind = "" if promote_unsafe else "safely "
        raise InputError(f"{a} and {b} cannot be {kind}promoted to a common type")
    return convert(input_0, common), convert(input_1, common)


@op(
    "StringTensorPack",
    since=15,
    scratch=0,
    kind="movement",
    shape="keep_shape",
    folding="linear",
    flops=0,
    output_types=("string",),
)
def string_tensor_pack_15(begins: Array, ends: Array, symbols: Array) -> Array:
    """Create strings from ranges of UTF-8 text.

    Args:
        begins: i32 or i64, any shape. Where each string begins in `symbols`.
        ends: The type and shape of `begins`. Where each string ends.
        symbols: u8, shape [number of bytes].

    Returns:
        The shape of `begins`, string.

    Raises:
        InputError: `begins` and `ends` differ in shape, or a range exceeds the text or ends before it begins.

    Spec:
        StringTensorPack-15
    """
    if not (is_integer(begins.dtype) and is_integer(ends.dtype)):
        raise InputError("begins and ends have other types, expected integers")
    if begins.shape != ends.shape:
        raise InputError(f"begins has shape {list(begins.shape)} and ends {list(ends.shape)}, expected equal shapes")
    invalid = (begins < 0) | (ends < begins) | (ends > symbols.size)
    if invalid.any():
        begin, end = begins[invalid][0], ends[invalid][0]
        raise InputError(f"string range [{begin}, {end}) is invalid for {symbols.size} bytes of text")
    total = int(ends.sum(dtype=np.int64) - begins.sum(dtype=np.int64))
    check_scratch(STRING_BYTES * begins.size + 2 * total + symbols.size)
    text = symbols.tobytes()
    strings = np.empty(begins.size, object)
    strings[:] = [
        text[begin:end].decode("utf-8", "surrogateescape")
        for begin, end in zip(begins.reshape(-1).tolist(), ends.reshape(-1).tolist(), strict=True)
    ]
    return np.asarray(strings.reshape(begins.shape))


@op(
    "StringTensorUnpack",
    since=15,
    scratch=15,
    kind="movement",
    shape="infer_unpacked_strings",
    folding="linear",
    flops=0,
    output_types=("i32", "i32", "u8"),
)
def string_tensor_unpack_15(data: Array) -> tuple[Array, Array, Array]:
    """Concatenate all strings, and return the text and the range of each string in it.

    Args:
        data: String, any shape.

    Returns:
        Where each string begins and where it ends, i32 of the shape of `data`, and the text in UTF-8, u8
        [number of bytes].

    Raises:
        InputError: A string has a surrogate that does not represent a byte.

    Spec:
        StringTensorUnpack-15
    """
    try:
        encoded = [str(text).encode("utf-8", "surrogateescape") for text in data.reshape(-1).tolist()]
    except UnicodeEncodeError as error:
        code = ord(error.object[error.start])
        raise InputError(f"a string has the surrogate U+{code:04X}, which UTF-8 cannot represent") from None
    bounds = np.cumsum([0, *map(len, encoded)]).astype(np.int32)
    begins, ends = bounds[:-1].reshape(data.shape), bounds[1:].reshape(data.shape)
    return begins, ends, np.frombuffer(b"".join(encoded), np.uint8)
