"""Element types: their names in XML, their widths and the NumPy types of their arrays.

Sub-byte types take one byte per element in memory and are packed in `.bin` files only. Types that neither NumPy nor
ml_dtypes supports (nf4, u6, u3, u1) are represented by structured types with one field: operations that move data
accept them, while NumPy rejects arithmetic on them. `Convert` converts them to other types.
"""

from __future__ import annotations

from functools import cache, cached_property, lru_cache
from typing import Any

import numpy as np

from irrun.arguments import check_integer, describe_value

__all__ = ["ELEMENT_TYPES", "ElementType"]


class ElementType:
    """An element type of OpenVINO. Each exists once, and never changes.

    Args:
        name: See below.
        precision: See below.
        bits: See below.
        kind: See below.
        scalar: The type of NumPy's scalars, or the name of a type in ml_dtypes; None for a structured type.

    Attributes:
        name: The name in `element_type` attributes, such as "f32".
        precision: The name in `precision` attributes of ports, such as "FP32".
        bits: The width of an element in a `.bin` file; 0 for strings.
        kind: "float", "int", "uint", "boolean" or "string".
    """

    name: str
    precision: str
    bits: int
    kind: str
    _scalar: Any

    def __init__(self, name: str, precision: str, bits: int, kind: str, scalar: Any = None) -> None:
        self.__dict__.update(name=name, precision=precision, bits=bits, kind=kind, _scalar=scalar)

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"element types are immutable, cannot assign to {name}")

    def __reduce__(self) -> tuple[Any, ...]:
        return ElementType.parse, (self.name,)

    @cached_property
    def dtype(self) -> np.dtype[Any]:
        """The NumPy type of arrays of this element type."""
        if self._scalar is None:
            return np.dtype([(self.name, np.uint8)])
        scalar = self._scalar
        if isinstance(scalar, str):
            import ml_dtypes  # takes longer to import than small models to compile

            scalar = getattr(ml_dtypes, scalar)
        dtype: np.dtype[Any] = np.dtype(scalar)
        return dtype

    @property
    def is_float(self) -> bool:
        """Whether the type is a floating-point type."""
        return self.kind == "float"

    @property
    def is_integer(self) -> bool:
        """Whether the type is a signed or unsigned integer type; boolean is not."""
        return self.kind in ("int", "uint")

    @property
    def is_packed(self) -> bool:
        """Whether elements are narrower than a byte, so that `.bin` files store several in one."""
        return 0 < self.bits < 8

    def get_byte_size(self, count: int) -> int:
        """Return the number of bytes of `count` elements in a `.bin` file; undefined for strings."""
        count = check_integer("count", count, 0)
        if self.name in ("u3", "u6"):  # stored in groups of three bytes
            group_size = 24 // self.bits
            return 3 * -(-count // group_size)
        return -(-count * self.bits // 8)

    def to_dtype(self) -> np.dtype[Any]:
        """Return `dtype`, under the name of OpenVINO's method."""
        return self.dtype

    def __str__(self) -> str:
        return self.name

    def __repr__(self) -> str:
        return f"<ElementType: {self.name}>"

    @staticmethod
    def parse(text: str) -> ElementType:
        """Return the element type of a name.

        Args:
            text: A name ("f32") or a precision ("FP32"). Case and surrounding whitespace do not matter.

        Raises:
            ValueError: No element type has that name.
        """
        try:
            return _BY_NAME[text]
        except (KeyError, TypeError):  # TypeError: the argument cannot be hashed
            pass
        found = _BY_NAME.get(text.strip().lower()) if isinstance(text, str) else None
        if found is None:
            raise ValueError(f"unknown element type {describe_value(text)}")
        return found

    @staticmethod
    def of(dtype: Any) -> ElementType:
        """Return the element type of arrays of a NumPy type.

        Args:
            dtype: A NumPy type in any byte order, or an argument of `np.dtype`. All types of strings and
                objects map to "string".

        Raises:
            ValueError: No element type corresponds to `dtype`.
        """
        try:
            return _find_by_dtype(dtype)
        except TypeError:  # the argument cannot be hashed
            raise ValueError(f"no element type corresponds to {describe_value(dtype)}") from None


@lru_cache(maxsize=256)
def _find_by_dtype(dtype: Any) -> ElementType:
    dtype = _parse_dtype(dtype)
    native = dtype.newbyteorder("=") if dtype.fields is None else dtype
    element_type = _BY_DTYPE.get(native)
    if element_type is None and native.isbuiltin == 2:  # a type that NumPy does not define
        element_type = _get_extension_types().get(native)
    if element_type is not None:
        return element_type
    if dtype.kind in "USTO":
        return ELEMENT_TYPES["string"]
    raise ValueError(f"no element type corresponds to the NumPy type {dtype}")


def _parse_dtype(dtype: Any) -> np.dtype[Any]:
    result: np.dtype[Any]
    try:
        result = np.dtype(dtype)
    except (TypeError, ValueError):  # NumPy knows the names of extension types once they have been imported
        _get_extension_types()
        try:
            result = np.dtype(dtype)
        except (TypeError, ValueError):
            raise ValueError(f"no element type corresponds to {describe_value(dtype)}") from None
    return result


ELEMENT_TYPES: dict[str, ElementType] = {
    t.name: t
    for t in (
        ElementType("f64", "FP64", 64, "float", np.float64),
        ElementType("f32", "FP32", 32, "float", np.float32),
        ElementType("f16", "FP16", 16, "float", np.float16),
        ElementType("bf16", "BF16", 16, "float", "bfloat16"),
        ElementType("f8e4m3", "F8E4M3", 8, "float", "float8_e4m3fn"),
        ElementType("f8e5m2", "F8E5M2", 8, "float", "float8_e5m2"),
        ElementType("f8e8m0", "F8E8M0", 8, "float", "float8_e8m0fnu"),
        ElementType("f4e2m1", "F4E2M1", 4, "float", "float4_e2m1fn"),
        ElementType("nf4", "NF4", 4, "float"),
        ElementType("i64", "I64", 64, "int", np.int64),
        ElementType("i32", "I32", 32, "int", np.int32),
        ElementType("i16", "I16", 16, "int", np.int16),
        ElementType("i8", "I8", 8, "int", np.int8),
        ElementType("i4", "I4", 4, "int", "int4"),
        ElementType("u64", "U64", 64, "uint", np.uint64),
        ElementType("u32", "U32", 32, "uint", np.uint32),
        ElementType("u16", "U16", 16, "uint", np.uint16),
        ElementType("u8", "U8", 8, "uint", np.uint8),
        ElementType("u6", "U6", 6, "uint"),
        ElementType("u4", "U4", 4, "uint", "uint4"),
        ElementType("u3", "U3", 3, "uint"),
        ElementType("u2", "U2", 2, "uint", "uint2"),
        ElementType("u1", "U1", 1, "uint"),
        ElementType("boolean", "BOOL", 8, "boolean", np.bool_),
        ElementType("string", "STRING", 0, "string", np.object_),
    )
}

_BY_DTYPE = {t.dtype: t for t in ELEMENT_TYPES.values() if not isinstance(t._scalar, str)}


@cache
def _get_extension_types() -> dict[np.dtype[Any], ElementType]:
    """Return the element types with NumPy types from ml_dtypes."""
    return {t.dtype: t for t in ELEMENT_TYPES.values() if isinstance(t._scalar, str)}


_BY_NAME: dict[str, ElementType] = {}
for _type in ELEMENT_TYPES.values():
    for _name in (_type.name, _type.precision, _type.precision.lower()):
        _BY_NAME[_name] = _type
_BY_NAME.update(
    {
        "bool": ELEMENT_TYPES["boolean"],
        "bin": ELEMENT_TYPES["u1"],
        "fp8_e4m3": ELEMENT_TYPES["f8e4m3"],
        "fp8_e5m2": ELEMENT_TYPES["f8e5m2"],
    }
)
