"""Type operations: examples of the specification, all pairs of types, and errors."""

from __future__ import annotations

import numpy as np
import pytest

from irrun.element_types import ELEMENT_TYPES
from irrun.errors import InputError
from irrun.ops import type as kernels
from irrun.ops._support.conversion import convert
from irrun.ops._support.numerics import compute_in_float32
from irrun.ops.activation.elementwise import gelu_7

STRINGS = np.array(["a", "b"], object)


def test_strings_and_numbers_cannot_be_converted() -> None:
    with pytest.raises(InputError, match="string cannot be converted to f32"):
        kernels.convert_1(STRINGS, destination_type=ELEMENT_TYPES["f32"])
    with pytest.raises(InputError, match="i64 cannot be converted to string"):
        kernels.convert_like_1(np.zeros(2, np.int64), STRINGS)
    assert kernels.convert_like_1(STRINGS, STRINGS) is STRINGS


@pytest.mark.parametrize("source", [n for n in ELEMENT_TYPES if n != "string"])
@pytest.mark.parametrize("shape", [(), (0,), (2, 3)])
def test_conversion_between_all_types_keeps_the_shape(source: str, shape: tuple[int, ...]) -> None:
    data = np.ones(shape, np.uint8).view(ELEMENT_TYPES[source].dtype) if ELEMENT_TYPES[source].bits <= 8 else None
    if data is None:
        data = np.ones(shape, ELEMENT_TYPES[source].dtype)
    for target in ELEMENT_TYPES.values():
        if target.name == "string":
            continue
        result = convert(data, target)
        assert isinstance(result, np.ndarray)
        assert result.dtype == target.dtype
        assert result.shape == shape


def test_nan_is_kept_by_types_that_have_it() -> None:
    nan = np.array([np.nan, -np.nan], np.float32)
    for name in ("f64", "f16", "bf16", "f8e4m3", "f8e5m2", "f8e8m0"):
        assert np.isnan(convert(nan, ELEMENT_TYPES[name]).astype(np.float32)).all(), name


def test_floats_beyond_i64_are_converted_to_u64() -> None:
    x = np.array([2.0**63, 1.5 * 2.0**63, 2.0**64, -1, np.nan])
    result = convert(x, ELEMENT_TYPES["u64"])
    assert result.tolist() == [2**63, 3 * 2**62, 0, 2**64 - 1, 2**63]


@pytest.mark.parametrize(
    ("a", "b"), [("f16", "i64"), ("f64", "u64"), ("i8", "u8"), ("f16", "bf16"), ("f8e4m3", "f8e5m2"), ("u64", "i8")]
)
def test_unsafe_promotions_are_rejected_by_default(a: str, b: str) -> None:
    x, y = np.ones(2, ELEMENT_TYPES[a].dtype), np.ones(2, ELEMENT_TYPES[b].dtype)
    with pytest.raises(InputError, match="cannot be safely promoted"):
        kernels.convert_promote_types_14(x, y)
    kernels.convert_promote_types_14(x, y, promote_unsafe=True)


def test_types_without_promotion_rules_are_rejected() -> None:
    x = np.ones(2, ELEMENT_TYPES["f8e8m0"].dtype)
    with pytest.raises(InputError, match="cannot be promoted"):
        kernels.convert_promote_types_14(x, x, promote_unsafe=True)


def test_scalar_is_promoted_to_the_type_of_a_tensor() -> None:
    scalar, tensor = np.array(1, np.uint8), np.ones(2, np.int8)
    result, _ = kernels.convert_promote_types_14(scalar, tensor, pytorch_scalar_promotion=True)
    assert result.dtype == np.int8
    with pytest.raises(InputError, match="safely"):
        kernels.convert_promote_types_14(np.array(1, np.int64), tensor, pytorch_scalar_promotion=True)


@pytest.mark.parametrize(
    ("scalar", "tensor", "is_safe"),
    [
        ("u8", "i8", True),
        ("u8", "i16", True),
        ("u16", "i8", True),
        ("u32", "i8", False),
        ("u64", "i32", True),
        ("u64", "i16", False),
        ("i8", "u8", False),
        ("i8", "u64", False),
        ("i16", "i16", True),
        ("i16", "i8", False),
        ("f32", "f16", False),
        ("f16", "f32", True),
    ],
)
def test_scalars_are_promoted_safely_to_types_that_can_hold_them(scalar: str, tensor: str, is_safe: bool) -> None:
    values = np.ones((), ELEMENT_TYPES[scalar].dtype), np.ones(2, ELEMENT_TYPES[tensor].dtype)
    for inputs in (values, values[::-1]):
        results = kernels.convert_promote_types_14(*inputs, promote_unsafe=True, pytorch_scalar_promotion=True)
        assert {x.dtype for x in results} == {values[1].dtype}
        if is_safe:
            results = kernels.convert_promote_types_14(*inputs, pytorch_scalar_promotion=True)
            assert {x.dtype for x in results} == {values[1].dtype}
        else:
            with pytest.raises(InputError, match="safely"):
                kernels.convert_promote_types_14(*inputs, pytorch_scalar_promotion=True)


def test_values_are_converted_without_an_intermediate_type() -> None:
    large = 2**40 + 1
    assert convert(np.float64([large, -large]), ELEMENT_TYPES["i64"]).tolist() == [large, -large]
    assert convert(np.int64([2**24 + 1]), ELEMENT_TYPES["i32"]).tolist() == [2**24 + 1]
    assert convert(np.int64([2**24 + 1]), ELEMENT_TYPES["f64"]).tolist() == [2**24 + 1]
    assert convert(np.float64([1e-300]), ELEMENT_TYPES["f64"]).tolist() == [1e-300]


def test_powers_of_two_are_rounded_to_the_nearest_or_the_even_exponent() -> None:
    below, above = np.nextafter(np.float32([1.5, 3]), 0), np.nextafter(np.float32([1.5, 3]), 4)
    for values, expected in (
        (below, [1, 2]),
        (np.float32([1.5, 3]), [2, 2]),  # ties: the codes of 1 and 2 are 127 and 128
        (above, [2, 4]),
        (np.float32([1, 2]), [1, 2]),
        (np.nextafter(np.float32([2, 4]), 0), [2, 4]),
        (np.float32([2.0**-127, 1.5 * 2.0**-127]), [2.0**-127, 2.0**-127]),
        (np.float32([1.625 * 2.0**-127, 2.0**-126]), [2.0**-126, 2.0**-126]),
        (np.float32([0, -3]), [2.0**-127, 2.0**-127]),
        (np.float32([np.finfo(np.float32).max, np.inf]), [2.0**127, 2.0**127]),
    ):
        result = convert(values, ELEMENT_TYPES["f8e8m0"])
        assert result.astype(np.float64).tolist() == expected, values


#: The specification's examples: both types (of a scalar if in brackets), promote_unsafe, common type.
PROMOTIONS = [
    ("i8", "f32", False, "f32"),
    ("i32", "u8", False, "i32"),
    ("f16", "f32", False, "f32"),
    ("f16", "i64", True, "f16"),
    ("f64", "u64", True, "f64"),
    ("i8", "u8", True, "i16"),
    ("i16", "u32", True, "i64"),
    ("f16", "bf16", True, "f32"),
    ("f8e4m3", "f8e5m2", True, "f16"),
    ("u64", "i8", True, "f32"),
    ("[i64]", "u8", True, "u8"),
    ("[f16]", "i8", False, "f16"),
]


@pytest.mark.parametrize(("a", "b", "unsafe", "common"), PROMOTIONS)
def test_promotion_examples_of_the_specification(a: str, b: str, unsafe: bool, common: str) -> None:
    pytorch = a.startswith("[")
    x = np.ones(() if pytorch else (2, 1), ELEMENT_TYPES[a.strip("[]")].dtype)
    y = np.ones(3, ELEMENT_TYPES[b].dtype)
    attributes = {"promote_unsafe": unsafe, "pytorch_scalar_promotion": pytorch}
    for pair in ((x, y), (y, x)):
        for source, result in zip(pair, kernels.convert_promote_types_14(*pair, **attributes), strict=True):
            assert (result.shape, result.dtype) == (source.shape, ELEMENT_TYPES[common].dtype)
            assert (result == 1).all()


def test_conversion_examples_of_the_specification() -> None:
    pi = np.array([3.141592, -3.9], np.float32)
    assert kernels.convert_1(pi, destination_type=ELEMENT_TYPES["i32"]).tolist() == [3, -3]
    assert kernels.convert_1(np.array([-1], np.int32), destination_type=ELEMENT_TYPES["u32"]).tolist() == [2**32 - 1]


@pytest.mark.parametrize(
    ("text", "begins", "ends", "strings"),
    [
        (b"IntelOpenVINO", [0, 5], [5, 13], ["Intel", "OpenVINO"]),
        (b"OMZGenAI 2024", [0, 3, 3, 8, 9], [3, 3, 8, 9, 13], ["OMZ", "", "GenAI", " ", "2024"]),
        (b"123456789", [0, 8], [1, 9], ["1", "9"]),
        (b"IntelOpenVINOOMZGenAI", [[0, 5], [13, 16]], [[5, 13], [16, 21]], [["Intel", "OpenVINO"], ["OMZ", "GenAI"]]),
    ],
)
def test_string_examples_of_the_specification(text: bytes, begins: list, ends: list, strings: list) -> None:
    packed = kernels.string_tensor_pack_15(np.array(begins), np.array(ends), np.frombuffer(text, np.uint8))
    assert packed.tolist() == strings
    if text != b"123456789":
        result = kernels.string_tensor_unpack_15(packed)
        assert [part.dtype for part in result] == [np.int32, np.int32, np.uint8]
        assert [part.tolist() for part in result] == [begins, ends, list(text)]


@pytest.mark.parametrize(("begin", "end"), [(-1, 2), (2, 1), (0, 4)])
def test_string_ranges_outside_the_text_are_rejected(begin: int, end: int) -> None:
    text = np.frombuffer(b"abc", np.uint8)
    with pytest.raises(InputError, match=r"string range \[.* is invalid for 3 bytes"):
        kernels.string_tensor_pack_15(np.array([begin]), np.array([end]), text)
    with pytest.raises(InputError, match="expected equal shapes"):
        kernels.string_tensor_pack_15(np.array([0]), np.array([[1]]), text)


def test_invalid_utf8_is_preserved() -> None:
    text = np.array([255, 254, 97], np.uint8)
    packed = kernels.string_tensor_pack_15(np.array([0]), np.array([3]), text)
    assert kernels.string_tensor_unpack_15(packed)[2].tolist() == text.tolist()


def test_functions_refuse_strings_that_are_numbers() -> None:
    for text in ("one", "1.5"):
        with pytest.raises(InputError, match="input 0 is string, expected a numeric type"):
            gelu_7(np.array([text], object))


def test_kernels_of_floats_refuse_types_without_arithmetic_only() -> None:
    @compute_in_float32
    def add(a, b=None):
        return a

    for name in ("f32", "bf16", "i4", "u4", "u2", "boolean"):
        x = np.zeros(2, ELEMENT_TYPES[name].dtype)
        assert add(x).dtype == x.dtype
        expected = x.dtype if name == "bf16" else np.float32
        assert add(np.zeros(2, np.float32), x).dtype == expected
    refused = [np.zeros(2, ELEMENT_TYPES[name].dtype) for name in ("nf4", "u1", "u3")]
    for x in (*refused, np.array(["a"], object)):
        with pytest.raises(InputError, match=r"input 1 is .*, expected a numeric type"):
            add(np.zeros(2, np.float32), x)
