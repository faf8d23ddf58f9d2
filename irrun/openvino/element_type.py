"""`Type`, the element types of tensors."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from irrun.element_types import ELEMENT_TYPES, ElementType
from irrun.openvino.getters import from_getter

__all__ = ["Type", "to_element_type", "to_type"]

#: The names in representations that differ from those in XML.
_SHOWN_NAMES = {
    "boolean": "char",
    "f16": "float16",
    "f32": "float32",
    "f64": "double64",
    "bf16": "bfloat16",
    "i8": "int8_t",
    "i16": "int16_t",
    "i32": "int32_t",
    "i64": "int64_t",
    "i4": "int4_t",
    "u1": "uint1_t",
    "u2": "uint2_t",
    "u3": "uint3_t",
    "u4": "uint4_t",
    "u6": "uint6_t",
    "u8": "uint8_t",
    "u16": "uint16_t",
    "u32": "uint32_t",
    "u64": "uint64_t",
    "nf4": "nfloat4",
}

#: The order of OpenVINO's enumeration, which hash values follow.
_ORDER = (
    "dynamic",
    "boolean",
    "bf16",
    "f16",
    "f32",
    "f64",
    "i4",
    "i8",
    "i16",
    "i32",
    "i64",
    "u1",
    "u2",
    "u3",
    "u4",
    "u6",
    "u8",
    "u16",
    "u32",
    "u64",
    "nf4",
    "f8e4m3",
    "f8e5m2",
    "string",
    "f4e2m1",
    "f8e8m0",
)

#: The NumPy types of tensors with element types that NumPy does not support.
_STORAGE = {"bf16": np.float16, "i4": np.int8, "string": np.bytes_}


class Type:
    """An element type.

    Each element type exists once, as an attribute of this class such as `Type.f32`.

    Args:
        dtype: Anything that `np.dtype` accepts.

    Raises:
        RuntimeError: No element type corresponds to `dtype`.
    """

    __slots__ = ("_element_type", "_name")

    _members: ClassVar[dict[str, Type]] = {}

    bf16: ClassVar[Type]
    boolean: ClassVar[Type]
    dynamic: ClassVar[Type]
    f16: ClassVar[Type]
    f32: ClassVar[Type]
    f4e2m1: ClassVar[Type]
    f64: ClassVar[Type]
    f8e4m3: ClassVar[Type]
    f8e5m2: ClassVar[Type]
    f8e8m0: ClassVar[Type]
    i16: ClassVar[Type]
    i32: ClassVar[Type]
    i4: ClassVar[Type]
    i64: ClassVar[Type]
    i8: ClassVar[Type]
    nf4: ClassVar[Type]
    string: ClassVar[Type]
    u1: ClassVar[Type]
    u16: ClassVar[Type]
    u2: ClassVar[Type]
    u3: ClassVar[Type]
    u32: ClassVar[Type]
    u4: ClassVar[Type]
    u6: ClassVar[Type]
    u64: ClassVar[Type]
    u8: ClassVar[Type]
    undefined: ClassVar[Type]

    _name: str
    _element_type: ElementType | None

    def __new__(cls, dtype: Any) -> Type:
        """Return the member for `dtype`; see the class."""
        if isinstance(dtype, Type):
            return dtype
        parsed = np.dtype(dtype)
        try:
            element_type = ElementType.of(parsed)
        except ValueError:
            element_type = None
        if element_type is None or parsed.kind == "O":
            raise RuntimeError(f"Unsupported data type: {parsed}")
        return cls._members[element_type.name]

    @classmethod
    def _add_member(cls, name: str) -> None:
        member = object.__new__(cls)
        member._name = name
        member._element_type = ELEMENT_TYPES.get(name)
        cls._members[name] = member
        setattr(cls, name, member)

    def __repr__(self) -> str:
        return f"<Type: '{_SHOWN_NAMES.get(self._name, self._name)}'>"

    def __eq__(self, other: object) -> bool:
        return self is other

    def __hash__(self) -> int:
        return _ORDER.index(self._name)

    def __reduce__(self) -> tuple[Any, ...]:
        return _get_member, (self._name,)

    def __copy__(self) -> Type:
        return self

    def __deepcopy__(self, memo: object) -> Type:
        return self

    def to_string(self) -> str:
        """Return the name, such as "f32"."""
        return self._name

    def get_type_name(self) -> str:
        """Return the name, such as "f32"."""
        return self._name

    type_name = from_getter(get_type_name)

    def to_dtype(self) -> np.dtype[Any]:
        """Return the NumPy type of tensor data: an integer type for element types unknown to NumPy.

        Raises:
            IndexError: The type is dynamic.
        """
        element_type = self._element_type
        if element_type is None:
            raise IndexError("Unsupported data type: dynamic")
        if self._name in _STORAGE:
            return np.dtype(_STORAGE[self._name])
        is_native = element_type.kind in ("boolean", "int", "uint") or self._name in ("f16", "f32", "f64")
        is_native = is_native and not element_type.is_packed
        return element_type.dtype if is_native else np.dtype(np.uint8)

    def is_static(self) -> bool:
        """Return whether the type is not `Type.dynamic`."""
        return self._element_type is not None

    def is_dynamic(self) -> bool:
        """Return whether the type is `Type.dynamic`."""
        return self._element_type is None

    def is_real(self) -> bool:
        """Return whether the type is a floating-point type."""
        return self._element_type is not None and self._element_type.is_float and self._name != "nf4"

    real = from_getter(is_real)

    def is_integral(self) -> bool:
        """Return whether the type is not a floating-point type."""
        return not self.is_real()

    integral = from_getter(is_integral)

    def is_integral_number(self) -> bool:
        """Return whether the type is an integer type; boolean is not."""
        return self.is_integral() and self._name != "boolean"

    integral_number = from_getter(is_integral_number)

    def is_signed(self) -> bool:
        """Return whether the type has negative values."""
        element_type = self._element_type
        return element_type is not None and element_type.kind in ("float", "int", "boolean") and self._name != "nf4"

    signed = from_getter(is_signed)

    def is_quantized(self) -> bool:
        """Return whether the type is one that quantized tensors have."""
        return self._name in _QUANTIZED

    quantized = from_getter(is_quantized)

    def get_bitwidth(self) -> int:
        """Return the width of an element in bits."""
        if self._element_type is None:
            return 0
        return _STRING_SIZE * 8 if self._name == "string" else self._element_type.bits

    bitwidth = from_getter(get_bitwidth)

    def get_size(self) -> int:
        """Return the width of an element in bytes, rounded up."""
        return (self.get_bitwidth() + 7) // 8

    size = from_getter(get_size)

    def compatible(self, other: Type) -> bool:
        """Return whether the types are equal or one of them is dynamic."""
        return self is other or self.is_dynamic() or other.is_dynamic()

    def merge(self, other: Type) -> Type | None:
        """Return the type that is not dynamic, or None if the types differ."""
        if not self.compatible(other):
            return None
        return other if self.is_dynamic() else self


#: Bytes of a string object of OpenVINO.
_STRING_SIZE = 32

_QUANTIZED = ("i4", "i8", "i32", "u8", "nf4", "f8e4m3", "f8e5m2", "f8e8m0", "f4e2m1")

for _name in _ORDER:
    Type._add_member(_name)
Type.undefined = Type.dynamic


def _get_member(name: str) -> Type:
    return Type._members[name]


def to_type(element_type: ElementType | None) -> Type:
    """Return the `Type` of an element type of irrun; None is dynamic."""
    return Type.dynamic if element_type is None else Type._members[element_type.name]


def to_element_type(value: Any) -> ElementType | None:
    """Return the element type of irrun; None if it is dynamic.

    Args:
        value: A `Type`, the name of an element type, or what `np.dtype` accepts.

    Raises:
        RuntimeError: The element type does not exist.
    """
    if isinstance(value, Type):
        return value._element_type
    if isinstance(value, ElementType) or value is None:
        return value
    if isinstance(value, str):
        if value.lower() in ("dynamic", "undefined"):
            return None
        try:
            return ElementType.parse(value)
        except ValueError:
            pass
    return Type(value)._element_type
