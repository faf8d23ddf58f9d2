"""Element types, and the packing of their values against files that OpenVINO wrote."""

from __future__ import annotations

import numpy as np
import pytest

from irrun.element_types import ELEMENT_TYPES, ElementType
from irrun.packing import pack, unpack

NUMERIC = [t for t in ELEMENT_TYPES.values() if t.name != "string"]


def codes(element: ElementType, count: int) -> np.ndarray:
    """`count` values of `element` that use all of its bits."""
    rng = np.random.default_rng(count)
    raw = rng.integers(0, 256, (count, element.dtype.itemsize), np.uint8)
    if element.bits < 8:
        raw = raw & np.uint8((1 << element.bits) - 1)
    if element.name == "boolean":
        raw &= 1
    return np.ascontiguousarray(raw).view(element.dtype).reshape(count)


def bits(array: np.ndarray) -> bytes:
    return np.ascontiguousarray(array).tobytes()


@pytest.mark.parametrize("element", NUMERIC, ids=str)
@pytest.mark.parametrize("count", [0, 1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 24, 33])
def test_round_trip(element: ElementType, count: int) -> None:
    array = codes(element, count)
    packed = pack(element, array)
    assert len(packed) == element.byte_size(count)
    back = unpack(element, packed, (count,))
    assert back.dtype == element.dtype
    assert bits(back) == bits(array)


@pytest.mark.parametrize("element", NUMERIC, ids=str)
@pytest.mark.parametrize("count", [1, 3, 8, 13, 26])
def test_bytes_that_openvino_writes(element: ElementType, count: int, tmp_path) -> None:
    ov = pytest.importorskip("openvino")
    array = codes(element, count)
    kind = getattr(ov.Type, element.name)
    if element.bits >= 8:
        tensor = ov.Tensor(kind, ov.Shape([count]))
        tensor.data.view(np.uint8)[:] = array.view(np.uint8)
        constant = ov.op.Constant(tensor)
    elif element.name in ("nf4", "f4e2m1"):
        # OpenVINO is asked for values; the codes of these are theirs to choose.
        values = {"nf4": NF4, "f4e2m1": F4E2M1}[element.name]
        constant = ov.op.Constant(kind, ov.Shape([count]), [values[c] for c in array.view(np.uint8) & 15])
    else:
        dtype = np.int8 if element.name == "i4" else np.uint8
        values = array.astype(dtype) if element.name == "i4" else array.view(dtype)
        constant = ov.op.Constant(kind, ov.Shape([count]), values.tolist())
    ov.serialize(ov.Model([ov.op.Result(constant.output(0))], []), tmp_path / "m.xml")
    written = (tmp_path / "m.bin").read_bytes()
    assert pack(element, array) == written
    assert bits(unpack(element, written, (count,))) == bits(array)


F4E2M1 = [0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0, -0.0, -0.5, -1.0, -1.5, -2.0, -3.0, -4.0, -6.0]
NF4 = [
    -1.0, -0.6961928, -0.52507305, -0.39491749, -0.28444138, -0.18477343, -0.09105004, 0.0,
    0.0795803, 0.1609302, 0.24611230, 0.33791524, 0.44070983, 0.5626170, 0.72295684, 1.0,
]  # fmt: skip


@pytest.mark.parametrize(
    ("name", "values", "expected"),
    [
        ("u1", [1, 0, 1, 1, 0, 0, 0, 0, 1], "b080"),
        ("u2", [1, 2, 3, 0, 2], "3902"),
        ("u3", [4, 1, 6, 3, 0, 5, 2, 7, 4], "1b1ba5000080"),
        ("u4", [1, 2, 3], "2103"),
        ("i4", [-1, 2, -8], "2f08"),
        ("u6", [35, 58, 17, 40, 63], "3a18b6f000c0"),
    ],
)
def test_layout_of_narrow_types(name: str, values: list[int], expected: str) -> None:
    element = ELEMENT_TYPES[name]
    array = (np.array(values) & (1 << element.bits) - 1).astype(np.uint8).view(element.dtype)
    assert pack(element, array).hex() == expected
    assert bits(unpack(element, bytes.fromhex(expected), array.shape)) == bits(array)


def test_wide_types_are_views_at_any_offset() -> None:
    buffer = bytes(1) + np.arange(6, dtype="<f4").tobytes() + b"more"
    view = memoryview(buffer)[1:]
    found = unpack(ELEMENT_TYPES["f32"], view, (2, 3))
    assert np.shares_memory(found, np.frombuffer(buffer, np.uint8))
    assert not found.flags.writeable
    assert found.tolist() == [[0, 1, 2], [3, 4, 5]]
    assert unpack(ELEMENT_TYPES["f32"], buffer[1:], ()).shape == ()
    assert unpack(ELEMENT_TYPES["i64"], b"", (0, 3)).shape == (0, 3)


@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview, lambda b: np.frombuffer(b, np.uint8)])
def test_kinds_of_buffers(kind) -> None:
    found = unpack(ELEMENT_TYPES["i16"], kind(b"\x01\x00\xff\xff"), (2,))
    assert found.tolist() == [1, -1]
    assert not found.flags.writeable


def test_every_byte_but_zero_is_true() -> None:
    found = unpack(ELEMENT_TYPES["boolean"], bytes([0, 1, 2, 255]), (4,))
    assert found.view(np.uint8).tolist() == [0, 1, 1, 1]


@pytest.mark.parametrize("element", NUMERIC, ids=str)
def test_short_buffer(element: ElementType) -> None:
    size = element.byte_size(9)
    unpack(element, bytes(size), (3, 3))
    with pytest.raises(ValueError, match="buffer has"):
        unpack(element, bytes(size - 1), (3, 3))


def test_pack_refuses_another_type() -> None:
    with pytest.raises(ValueError, match="does not hold"):
        pack(ELEMENT_TYPES["i4"], np.zeros(3, np.int8))


@pytest.mark.parametrize(
    ("strings", "shape"),
    [([], (0,)), (["x"], ()), (["ab", "", "héllo"], (3,)), (["a\0b", "日本", "", ""], (2, 2))],
)
def test_strings(strings: list[str], shape: tuple[int, ...], tmp_path) -> None:
    ov = pytest.importorskip("openvino")
    array = np.empty(len(strings), object)
    array[:] = strings
    array = array.reshape(shape)
    packed = pack(ELEMENT_TYPES["string"], array)
    back = unpack(ELEMENT_TYPES["string"], packed, shape)
    assert back.dtype == object
    assert back.tolist() == array.tolist()
    constant = ov.op.Constant(ov.Tensor(array.astype("U")))
    ov.serialize(ov.Model([ov.op.Result(constant.output(0))], []), tmp_path / "m.xml")
    assert (tmp_path / "m.bin").read_bytes() == packed


def test_text_that_is_no_utf8_survives() -> None:
    raw = np.array([2, 0, 2, 3], "<i4").tobytes() + b"\xff\xfea"
    found = unpack(ELEMENT_TYPES["string"], raw, (2,))
    assert found[1] == "a"
    assert pack(ELEMENT_TYPES["string"], found) == raw


@pytest.mark.parametrize(
    "numbers",
    [[2, 0, 1], [3, 0, 1, 2], [2, 0, 2, 1], [2, 0, 1, 9], [2, -1, 0, 1], [2, 0, -5, 1], [-1, 0, 1, 2]],
)
def test_offsets_of_strings_that_do_not_fit(numbers: list[int]) -> None:
    raw = np.array(numbers, "<i4").tobytes() + (b"abc" if len(numbers) == 4 else b"")
    with pytest.raises(ValueError, match="string"):
        unpack(ELEMENT_TYPES["string"], raw, (2,))


def test_parse_and_of() -> None:
    for element in ELEMENT_TYPES.values():
        assert ElementType.parse(element.name) is element
        assert ElementType.parse(element.precision) is element
        assert ElementType.of(element.dtype) is element
    assert ElementType.of(np.dtype(">f4")).name == "f32"
    assert ElementType.of("U5").name == "string"
    with pytest.raises(ValueError, match="unknown element type"):
        ElementType.parse("f13")
    with pytest.raises(ValueError, match="no element type"):
        ElementType.of(np.complex64)
