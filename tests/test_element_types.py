"""Element types and the packing of their values, compared with files that OpenVINO writes."""

from __future__ import annotations

import copy
import pickle
import subprocess
import sys

import numpy as np
import pytest
from ir_text import chain, write

from irrun.element_types import ELEMENT_TYPES, ElementType
from irrun.packing import pack, unpack

NUMERIC = [t for t in ELEMENT_TYPES.values() if t.name != "string"]


def make_values(element_type: ElementType, count: int) -> np.ndarray:
    """Return `count` random values that use all bits of the type."""
    rng = np.random.default_rng(count)
    raw = rng.integers(0, 256, (count, element_type.dtype.itemsize), np.uint8)
    if element_type.bits < 8:
        raw = raw & np.uint8((1 << element_type.bits) - 1)
    if element_type.name == "boolean":
        raw &= 1
    return np.ascontiguousarray(raw).view(element_type.dtype).reshape(count)


def get_bytes(array: np.ndarray) -> bytes:
    return np.ascontiguousarray(array).tobytes()


@pytest.mark.parametrize("element_type", NUMERIC, ids=str)
@pytest.mark.parametrize("count", [0, 1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 24, 33])
def test_packed_values_are_unpacked_unchanged(element_type: ElementType, count: int) -> None:
    array = make_values(element_type, count)
    packed = pack(element_type, array)
    assert len(packed) == element_type.get_byte_size(count)
    unpacked = unpack(element_type, packed, (count,))
    assert unpacked.dtype == element_type.dtype
    assert get_bytes(unpacked) == get_bytes(array)


@pytest.mark.parametrize("element_type", NUMERIC, ids=str)
@pytest.mark.parametrize("count", [1, 3, 8, 13, 26])
def test_packed_bytes_equal_those_of_openvino(element_type: ElementType, count: int, tmp_path) -> None:
    ov = pytest.importorskip("openvino")
    array = make_values(element_type, count)
    kind = getattr(ov.Type, element_type.name)
    if element_type.bits >= 8:
        tensor = ov.Tensor(kind, ov.Shape([count]))
        tensor.data.view(np.uint8)[:] = array.view(np.uint8)
        constant = ov.op.Constant(tensor)
    elif element_type.name in ("nf4", "f4e2m1"):
        # OpenVINO is passed values, from which it chooses the codes.
        values = {"nf4": NF4, "f4e2m1": F4E2M1}[element_type.name]
        constant = ov.op.Constant(kind, ov.Shape([count]), [values[c] for c in array.view(np.uint8) & 15])
    else:
        dtype = np.int8 if element_type.name == "i4" else np.uint8
        numbers = array.astype(dtype) if element_type.name == "i4" else array.view(dtype)
        constant = ov.op.Constant(kind, ov.Shape([count]), numbers.tolist())
    ov.serialize(ov.Model([ov.op.Result(constant.output(0))], []), tmp_path / "m.xml")
    written = (tmp_path / "m.bin").read_bytes()
    assert pack(element_type, array) == written
    assert get_bytes(unpack(element_type, written, (count,))) == get_bytes(array)


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
def test_sub_byte_types_are_packed_in_the_documented_layout(name: str, values: list[int], expected: str) -> None:
    element_type = ELEMENT_TYPES[name]
    array = (np.array(values) & (1 << element_type.bits) - 1).astype(np.uint8).view(element_type.dtype)
    assert pack(element_type, array).hex() == expected
    assert get_bytes(unpack(element_type, bytes.fromhex(expected), array.shape)) == get_bytes(array)


def test_types_of_whole_bytes_are_views_at_any_offset() -> None:
    buffer = bytes(1) + np.arange(6, dtype="<f4").tobytes() + b"more"
    view = memoryview(buffer)[1:]
    values = unpack(ELEMENT_TYPES["f32"], view, (2, 3))
    assert np.shares_memory(values, np.frombuffer(buffer, np.uint8))
    assert not values.flags.writeable
    assert values.tolist() == [[0, 1, 2], [3, 4, 5]]
    assert unpack(ELEMENT_TYPES["f32"], buffer[1:], ()).shape == ()
    assert unpack(ELEMENT_TYPES["i64"], b"", (0, 3)).shape == (0, 3)


@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview, lambda b: np.frombuffer(b, np.uint8)])
def test_unpack_accepts_any_kind_of_buffer(kind) -> None:
    values = unpack(ELEMENT_TYPES["i16"], kind(b"\x01\x00\xff\xff"), (2,))
    assert values.tolist() == [1, -1]
    assert not values.flags.writeable


def test_every_nonzero_byte_is_true() -> None:
    values = unpack(ELEMENT_TYPES["boolean"], bytes([0, 1, 2, 255]), (4,))
    assert values.view(np.uint8).tolist() == [0, 1, 1, 1]


@pytest.mark.parametrize("element_type", NUMERIC, ids=str)
def test_short_buffer_is_reported(element_type: ElementType) -> None:
    size = element_type.get_byte_size(9)
    unpack(element_type, bytes(size), (3, 3))
    with pytest.raises(ValueError, match="buffer has"):
        unpack(element_type, bytes(size - 1), (3, 3))


def test_pack_rejects_another_type() -> None:
    with pytest.raises(ValueError, match="expected an array of int4 for i4, found int8"):
        pack(ELEMENT_TYPES["i4"], np.zeros(3, np.int8))


@pytest.mark.parametrize(
    ("strings", "shape"),
    [([], (0,)), (["x"], ()), (["ab", "", "héllo"], (3,)), (["a\0b", "日本", "", ""], (2, 2))],
)
def test_packed_strings_equal_those_of_openvino(strings: list[str], shape: tuple[int, ...], tmp_path) -> None:
    ov = pytest.importorskip("openvino")
    array = np.empty(len(strings), object)
    array[:] = strings
    array = array.reshape(shape)
    packed = pack(ELEMENT_TYPES["string"], array)
    unpacked = unpack(ELEMENT_TYPES["string"], packed, shape)
    assert unpacked.dtype == object
    assert unpacked.tolist() == array.tolist()
    constant = ov.op.Constant(ov.Tensor(array.astype("U")))
    ov.serialize(ov.Model([ov.op.Result(constant.output(0))], []), tmp_path / "m.xml")
    assert (tmp_path / "m.bin").read_bytes() == packed


def test_text_that_is_not_utf8_survives() -> None:
    raw = np.array([2, 0, 2, 3], "<i4").tobytes() + b"\xff\xfea"
    values = unpack(ELEMENT_TYPES["string"], raw, (2,))
    assert values[1] == "a"
    assert pack(ELEMENT_TYPES["string"], values) == raw


@pytest.mark.parametrize(
    "numbers",
    [[2, 0, 1], [3, 0, 1, 2], [2, 0, 2, 1], [2, 0, 1, 9], [2, -1, 0, 1], [2, 0, -5, 1], [-1, 0, 1, 2]],
)
def test_invalid_offsets_of_strings_are_reported(numbers: list[int]) -> None:
    raw = np.array(numbers, "<i4").tobytes() + (b"abc" if len(numbers) == 4 else b"")
    with pytest.raises(ValueError, match="string"):
        unpack(ELEMENT_TYPES["string"], raw, (2,))


def test_element_types_are_found_by_name_and_by_numpy_type() -> None:
    for element_type in ELEMENT_TYPES.values():
        assert ElementType.parse(element_type.name) is element_type
        assert ElementType.parse(element_type.precision) is element_type
        assert ElementType.of(element_type.dtype) is element_type
    assert ElementType.of(np.dtype(">f4")).name == "f32"
    assert ElementType.of("U5").name == "string"
    with pytest.raises(ValueError, match="unknown element type"):
        ElementType.parse("f13")
    with pytest.raises(ValueError, match="no element type"):
        ElementType.of(np.complex64)


def test_element_types_exist_once_and_never_change():
    element_type = ElementType.parse("bf16")
    assert pickle.loads(pickle.dumps(element_type)) is copy.deepcopy(element_type) is element_type
    with pytest.raises(AttributeError, match="are immutable"):
        element_type.bits = 8


def test_ml_dtypes_is_imported_when_a_type_of_it_is_used(tmp_path):
    path = write(tmp_path, chain("Relu"))
    script = f"""if True:
        import sys
        import irrun
        irrun.compile_model({str(path)!r})({{"x": [[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]}})
        assert "ml_dtypes" not in sys.modules
        assert irrun.ElementType.of("bfloat16").name == "bf16"
    """
    subprocess.run([sys.executable, "-c", script], check=True)
