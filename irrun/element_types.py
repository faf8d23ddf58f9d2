"""Element types: their names in XML, their widths and the NumPy types of their arrays.

Sub-byte types take one byte per element in memory and are packed in `.bin` files only. Types that neither NumPy nor
ml_dtypes supports (nf4, u6, u3, u1) are represented by structured types of one field: operations that move data
accept them, while NumPy refuses arithmetic on them. `Convert` converts them to other types.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import ml_dtypes
import numpy as np

__all__ = ["ELEMENT_TYPES", "ElementType"]


@dataclass(frozen=True)
class ElementType:
    """An element type of OpenVINO.

    Attributes:
        name: The name in `element_type` attributes, such as "f32".
        precision: The name in `precision` attributes of ports, such as "FP32".
        bits: The width of an element in a `.bin` file; 0 for strings.
        dtype: The NumPy type of arrays of this element type.
        kind: "float", "int", "uint", "boolean" or "string".
    """

    name: str
    precision: str
    bits: int
    dtype: np.dtype[Any]
    kind: str

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
        except KeyError:
            pass
        try:
            return _BY_NAME[text.strip().lower()]
        except KeyError:
            raise ValueError(f"unknown element type {text!r}") from None

    @staticmethod
    @lru_cache(maxsize=256)
    def of(dtype: Any) -> ElementType:
        """Return the element type of arrays of a NumPy type.

        Args:
            dtype: A NumPy type in any byte order, or an argument of `np.dtype`. All types of strings and
                objects map to "string".

        Raises:
            ValueError: No element type corresponds to `dtype`.
        """
        dtype = np.dtype(dtype)
        element_type = _BY_DTYPE.get(dtype.newbyteorder("=") if dtype.fields is None else dtype)
        if element_type is not None:
            return element_type
        if dtype.kind in "USTO":
            return ELEMENT_TYPES["string"]
        raise ValueError(f"no element type corresponds to the NumPy type {dtype}")


def _make_structured_dtype(name: str) -> np.dtype[Any]:
    """Return the NumPy type of an element type that neither NumPy nor ml_dtypes supports."""
    return np.dtype([(name, np.uint8)])


ELEMENT_TYPES: dict[str, ElementType] = {
    t.name: t
    for t in (
        ElementType("f64", "FP64", 64, np.dtype(np.float64), "float"),
        ElementType("f32", "FP32", 32, np.dtype(np.float32), "float"),
        ElementType("f16", "FP16", 16, np.dtype(np.float16), "float"),
        ElementType("bf16", "BF16", 16, np.dtype(ml_dtypes.bfloat16), "float"),
        ElementType("f8e4m3", "F8E4M3", 8, np.dtype(ml_dtypes.float8_e4m3fn), "float"),
        ElementType("f8e5m2", "F8E5M2", 8, np.dtype(ml_dtypes.float8_e5m2), "float"),
        ElementType("f8e8m0", "F8E8M0", 8, np.dtype(ml_dtypes.float8_e8m0fnu), "float"),
        ElementType("f4e2m1", "F4E2M1", 4, np.dtype(ml_dtypes.float4_e2m1fn), "float"),
        ElementType("nf4", "NF4", 4, _make_structured_dtype("nf4"), "float"),
        ElementType("i64", "I64", 64, np.dtype(np.int64), "int"),
        ElementType("i32", "I32", 32, np.dtype(np.int32), "int"),
        ElementType("i16", "I16", 16, np.dtype(np.int16), "int"),
        ElementType("i8", "I8", 8, np.dtype(np.int8), "int"),
        ElementType("i4", "I4", 4, np.dtype(ml_dtypes.int4), "int"),
        ElementType("u64", "U64", 64, np.dtype(np.uint64), "uint"),
        ElementType("u32", "U32", 32, np.dtype(np.uint32), "uint"),
        ElementType("u16", "U16", 16, np.dtype(np.uint16), "uint"),
        ElementType("u8", "U8", 8, np.dtype(np.uint8), "uint"),
        ElementType("u6", "U6", 6, _make_structured_dtype("u6"), "uint"),
        ElementType("u4", "U4", 4, np.dtype(ml_dtypes.uint4), "uint"),
        ElementType("u3", "U3", 3, _make_structured_dtype("u3"), "uint"),
        ElementType("u2", "U2", 2, np.dtype(ml_dtypes.uint2), "uint"),
        ElementType("u1", "U1", 1, _make_structured_dtype("u1"), "uint"),
        ElementType("boolean", "BOOL", 8, np.dtype(np.bool_), "boolean"),
        ElementType("string", "STRING", 0, np.dtype(object), "string"),
    )
}

_BY_DTYPE = {t.dtype: t for t in ELEMENT_TYPES.values()}

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
