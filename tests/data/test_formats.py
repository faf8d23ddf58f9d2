"""Formats of inputs and outputs: what each accepts, and the type and shape of what is read."""

from __future__ import annotations

import json
import os
import re
import stat

import numpy as np
import pytest

from irrun.data import json_output
from irrun.data.image import ImageOptions, load_image
from irrun.data.json_output import describe_tensor
from irrun.data.load import load_input, load_inputs
from irrun.data.save import save_outputs
from irrun.element_types import ELEMENT_TYPES
from irrun.errors import InputError, to_one_line
from irrun.ir.graph import Layer
from irrun.ir.model import TensorSpec
from irrun.packing import pack, unpack
from irrun.shapes import MAX_RANK, PartialShape, parse_dimension, parse_shape


def describe(element_type=None, shape=None, *names):
    """Describe an input; its type and its rank may be unknown."""
    return TensorSpec(
        names or ("x",),
        None if element_type is None else ELEMENT_TYPES[element_type],
        None if shape is None else PartialShape(shape),
        Layer(0, "x", "Parameter"),
    )


# JSON


@pytest.mark.parametrize(
    ("element_type", "text", "dtype", "values"),
    [
        ("f32", "[1.5, 2]", np.float32, [1.5, 2]),
        ("f16", "[0.1]", np.float16, [np.float16(0.1)]),
        ("i32", "[1, -2]", np.int32, [1, -2]),
        ("u64", "[18446744073709551615, 0]", np.uint64, [2**64 - 1, 0]),
        ("boolean", "[true, false]", np.bool_, [True, False]),
        (None, "[1.5]", np.float64, [1.5]),
        ("string", '["a", "ü"]', object, ["a", "ü"]),
        ("f32", "3", np.float32, 3),
    ],
)
def test_json_has_the_type_of_the_input_if_it_is_exact(element_type, text, dtype, values):
    value = load_input(text, describe(element_type))
    assert value.astype(dtype).tolist() == (values.tolist() if isinstance(values, np.generic) else values)
    if element_type in ("f32", "f16", "u64", None, "string"):
        assert value.dtype == dtype


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"a": 1}', "is a JSON object, expected lists of numbers for input x"),
        ('["a"]', "contains elements that are not numbers of at most 64 bits"),
        ("[null]", "contains elements that are not numbers"),
        ("[1, [2]]", "contains lists of different lengths"),
        ("[1,", "is not valid JSON"),
    ],
)
def test_json_that_is_no_array_of_numbers_is_reported(text, message, tmp_path):
    (tmp_path / "x.json").write_text(text)
    with pytest.raises(InputError, match=re.escape(message)):
        load_input(f"{tmp_path}/x.json", describe("f32"))


# Raw bytes


@pytest.mark.parametrize(
    ("element_type", "shape", "size", "expected"),
    [
        ("f32", (2, 3), 24, (2, 3)),
        ("i16", (-1, 3), 24, (4, 3)),
        ("u4", (-1, 2), 3, (3, 2)),
        ("f32", (), 4, ()),
    ],
)
def test_raw_bytes_determine_one_dynamic_dimension(element_type, shape, size, expected, tmp_path):
    (tmp_path / "x.bin").write_bytes(bytes(size))
    assert load_input(f"{tmp_path}/x.bin", describe(element_type, shape)).shape == expected


@pytest.mark.parametrize(
    ("element_type", "shape", "message"),
    [
        (None, (2,), "raw bytes require a declared type and rank"),
        ("f32", None, "raw bytes require a declared type and rank"),
        ("string", (2,), "raw bytes require a declared type and rank"),
        ("f32", (-1, -1), "raw bytes do not determine the dynamic shape of input x"),
        ("f32", (-1, 0), "raw bytes do not determine the dynamic shape of input x"),
        ("f32", (3,), "has 8 bytes, expected 12 for input x"),
        ("f32", (-1, 3), "has 8 bytes, expected 0 for input x"),
    ],
)
def test_raw_bytes_that_do_not_match_the_input_are_reported(element_type, shape, message, tmp_path):
    (tmp_path / "x.raw").write_bytes(bytes(8))
    with pytest.raises(InputError, match=re.escape(message)):
        load_input(f"{tmp_path}/x.raw", describe(element_type, shape))


# Generated values


@pytest.mark.parametrize(
    ("text", "element_type", "shape", "expected"),
    [
        ("zeros", "string", (2,), ["", ""]),
        ("ones", "string", (2,), ["irrun", "irrun"]),
        ("random", "string", (1,), ["irrun"]),
        ("zeros", "f32", (2,), [0, 0]),
        ("ones", "i8", (2,), [1, 1]),
        ("ones:1x2", "f32", (-1, -1), [[1, 1]]),
        ("zeros:[1, 2]", None, None, [[0, 0]]),
        ("zeros", None, ("..", 2), [[0, 0]]),
        ("zeros", None, ("3..7",), [0, 0, 0]),
        ("ones:", "f32", (), 1),
    ],
)
def test_values_are_generated_in_the_smallest_shape(text, element_type, shape, expected):
    value = load_input(text, describe(element_type, shape))
    assert value.tolist() == expected
    assert value.dtype == (np.float32 if element_type is None else ELEMENT_TYPES[element_type].dtype)


@pytest.mark.parametrize(
    ("element_type", "values"),
    [("u8", range(256)), ("i64", range(10)), ("boolean", range(2)), ("i8", range(10)), ("u16", range(10))],
)
def test_random_integers_cover_their_range(element_type, values):
    value = load_input("random:2000", describe(element_type))
    assert value.dtype == ELEMENT_TYPES[element_type].dtype
    assert set(value.astype(int).tolist()) == set(values) if element_type != "u8" else value.max() > 250
    assert np.isin(value.astype(int), list(values)).all()


def test_generated_value_requires_a_shape():
    with pytest.raises(InputError, match="has an unknown rank, expected a shape such as ones:1,3,224,224"):
        load_input("ones", describe("f32"))
    with pytest.raises(InputError, match=r"expected a shape such as ones:1,3,224,224 for input x: .*, found ones:a"):
        load_input("ones:a", describe("f32"))
    with pytest.raises(InputError):
        load_input("ones:" + ",".join("1" * 65), describe("f32"))


# .npz files


def test_array_of_npz_file_is_selected_by_the_name_or_the_key(tmp_path):
    path = tmp_path / "x.npz"
    np.savez(path, x=np.float32([1]), y=np.float32([2]), z=np.float32([3]))
    x, y = describe("f32", (1,)), describe("f32", (1,), "y", "other")
    assert load_input(f"{path}", x).tolist() == [1]
    assert load_input(f"{path}:z", x).tolist() == [3]
    assert {k: v.tolist() for k, v in load_inputs([str(path)], [x, y]).items()} == {"x": [1], "y": [2]}
    with pytest.raises(InputError, match=r"does not contain 'w', found x, y, z"):
        load_input(f"{path}:w", x)
    with pytest.raises(InputError, match=r"contains x, y, z; select an array with .*x.npz:KEY for input v"):
        load_input(f"{path}", describe("f32", (1,), "v"))
    with pytest.raises(InputError, match=r"does not contain 'v', found x, y, z; select an array"):
        load_inputs([f"v={path}"], [describe("f32", (1,), "v"), x])
    np.savez(tmp_path / "one.npz", anything=np.float32([4]))
    assert load_input(f"{tmp_path}/one.npz", x).tolist() == [4]
    np.savez(tmp_path / "unnamed.npz", np.float32([5]), np.float32([6]))
    assert load_input(f"{tmp_path}/unnamed.npz:arr_1", x).tolist() == [6]
    np.savez(tmp_path / "shape.npz", x=np.float32([[1, 2]]))
    with pytest.raises(InputError, match=r"'x' in .*shape.npz has shape \[1, 2\], for input x"):
        load_input(f"{tmp_path}/shape.npz", x)


def test_names_that_npz_files_do_not_support_are_reported(tmp_path):
    with pytest.raises(InputError, match="has more than 60000 bytes"):
        save_outputs({"n" * 70_000: np.zeros(1)}, tmp_path / "x.npz")
    assert not list(tmp_path.iterdir())
    with pytest.raises(InputError, match=r"an .npy file stores one output, found a, b; expected .* an .npz file"):
        save_outputs({"a": np.zeros(1), "b": np.zeros(1)}, tmp_path / "x.npy")


def test_json_output_states_names_types_and_shapes(tmp_path):
    (path,) = save_outputs({"a": np.float32([[1, 2]]), "b": np.int64([3])}, tmp_path / "x.json")
    first, second = json.loads(path.read_text())["outputs"]
    assert (first["name"], first["type"], first["shape"], first["values"]) == ("a", "f32", [1, 2], [[1.0, 2.0]])
    assert (second["name"], second["type"], second["shape"], second["values"]) == ("b", "i64", [1], [3])


# Images

PIXELS = np.arange(2 * 5 * 4, dtype=np.uint8).reshape(2, 5, 4) * 6


def save_image(folder, channels):
    image = pytest.importorskip("PIL.Image")
    pixels = PIXELS[:, :, 0] if channels == 1 else PIXELS[:, :, :channels]
    image.fromarray(pixels).save(folder / "x.png")
    return folder / "x.png"


@pytest.mark.parametrize(
    ("shape", "layout", "order"),
    [
        ((1, 3, 2, 5), "auto", "NCHW"),
        ((1, 2, 5, 3), "auto", "NHWC"),
        ((1, -1, -1, 3), "auto", "NHWC"),
        ((1, 3, -1, -1), "auto", "NCHW"),
        ((3, 2, 5), "auto", "CHW"),
        ((2, 5, 3), "auto", "HWC"),
        ((2, 5), "auto", "HW"),
        ((1, 2, 5), "NHW", "NHW"),
        ((3, 5, 2), "cwh", "CWH"),
        ((2, 1, 5, 3), "HNWC", "HNWC"),
    ],
)
def test_image_is_arranged_in_the_layout_of_the_input(shape, layout, order, tmp_path):
    path = save_image(tmp_path, 1 if "C" not in order else 3)
    value = load_image(path, describe("u8", shape), ImageOptions(layout=layout, channels="RGB"))
    expected = PIXELS[:, :, :3] if "C" in order else PIXELS[:, :, 0]
    expected = expected.transpose([("HWC" if "C" in order else "HW").index(a) for a in order if a != "N"])
    if "N" in order:
        expected = np.expand_dims(expected, order.index("N"))
    np.testing.assert_array_equal(value, expected)
    assert value.dtype == np.uint8
    assert value.flags.c_contiguous


@pytest.mark.parametrize("channels", [1, 3, 4])
@pytest.mark.parametrize("order", ["BGR", "rgb"])
def test_image_has_as_many_channels_as_the_input(channels, order, tmp_path):
    value = load_image(save_image(tmp_path, channels), describe("u8", (channels, 2, 5)), ImageOptions(channels=order))
    indices = [2, 1, 0, 3][:channels] if order == "BGR" and channels > 1 else range(channels)
    np.testing.assert_array_equal(value, PIXELS[:, :, indices].transpose(2, 0, 1))


def test_image_is_resized_to_the_input(tmp_path):
    value = load_image(save_image(tmp_path, 1), describe("f32", (1, 1, 4, 10)), ImageOptions())
    assert (value.shape, value.dtype) == ((1, 1, 4, 10), np.float32)


@pytest.mark.parametrize(
    ("element_type", "options", "dtype", "expected"),
    [
        (None, {}, np.uint8, [0, 6, 12]),
        ("u8", {}, np.uint8, [0, 6, 12]),
        ("f32", {}, np.float32, [0, 6, 12]),
        ("f16", {}, np.float16, [0, 6, 12]),
        (None, {"mean": (2,)}, np.float32, [-2, 4, 10]),
        ("f32", {"mean": (0, 6, 2), "scale": (2,)}, np.float32, [0, 0, 5]),
        ("f16", {"scale": (1, 2, 4)}, np.float16, [0, 3, 3]),
    ],
)
def test_image_is_normalized_to_the_type_of_the_input(element_type, options, dtype, expected, tmp_path):
    path = save_image(tmp_path, 3)
    value = load_image(path, describe(element_type, (3, 2, 5)), ImageOptions(channels="RGB", **options))
    assert value.dtype == dtype
    assert value[:, 0, 0].tolist() == expected


@pytest.mark.parametrize(
    ("element_type", "shape", "options", "message"),
    [
        ("u8", (3, 2, 5), {"mean": (1.0,)}, "mean and scale require an input of a floating-point type, found input x"),
        ("f32", (3, 2, 5), {"mean": (1.0, 2.0)}, "mean: expected 1 or 3 numbers for the channels of input x"),
        ("f32", (3, 2, 5), {"scale": (1.0,) * 4}, "scale: expected 1 or 3 numbers for the channels of input x"),
        ("f32", None, {}, "does not accept images: expected rank 2 to 4, found an unknown rank"),
        ("f32", (5,), {}, "does not accept images: expected rank 2 to 4, found 1"),
        ("f32", (1, 1, 3, 2, 5), {}, "does not accept images: expected rank 2 to 4, found 5"),
        ("f32", (3, 2, 5), {"layout": "HW"}, "layout 'HW' does not fit input x"),
        ("f32", (3, 2, 5), {"layout": "CCH"}, "layout 'CCH' does not fit input x"),
        ("f32", (3, 2, 5), {"layout": "HHW"}, "layout 'HHW' does not fit input x"),
        ("f32", (3, 2, 5), {"layout": "HWX"}, "layout 'HWX' does not fit input x"),
    ],
)
def test_input_that_does_not_accept_the_image_is_reported(element_type, shape, options, message, tmp_path):
    with pytest.raises(InputError, match=re.escape(message)):
        load_image(save_image(tmp_path, 3), describe(element_type, shape), ImageOptions(**options))


# Contents of .bin files


@pytest.mark.parametrize("name", [n for n, t in ELEMENT_TYPES.items() if t.is_packed])
@pytest.mark.parametrize("count", [0, 1, 5, 8, 24, 33])
def test_packed_codes_are_unpacked_again(name, count):
    element_type = ELEMENT_TYPES[name]
    codes = (np.arange(count) * 7 + 1) % (1 << element_type.bits)
    array = unpack(element_type, pack(element_type, codes.astype(np.uint8).view(element_type.dtype)), [count])
    mask = (1 << element_type.bits) - 1
    assert (array.view(np.uint8) & mask).tolist() == codes.tolist()
    assert len(pack(element_type, array)) == element_type.get_byte_size(count)
    assert not array.flags.writeable


@pytest.mark.parametrize(
    ("name", "codes", "expected"),
    [
        ("u1", [1, 0, 0, 0, 0, 0, 1, 1], b"\x83"),
        ("u2", [1, 2, 3, 0], b"\x39"),
        ("u4", [1, 2, 3], b"\x21\x03"),
        ("i4", [15, 8], b"\x8f"),
        ("u3", [0, 1, 2, 3, 4, 5, 6, 7], b"\x1b\x1b\x0f"),
        ("u6", [1, 18, 35, 52], b"\x12\x34\x1b"),
    ],
)
def test_codes_have_the_order_of_openvino(name, codes, expected):
    element_type = ELEMENT_TYPES[name]
    assert pack(element_type, np.array(codes, np.uint8).view(element_type.dtype)) == expected


def make_strings(count, offsets, text=b"abcdef"):
    return np.array([count, *offsets], "<i4").tobytes() + text


@pytest.mark.parametrize(
    ("buffer", "message"),
    [
        (make_strings(2, [0, 1, 3])[:12], "2 strings require a header of 16 bytes, the buffer has 12"),
        (make_strings(3, [0, 1, 3]), "expected 2 strings, the buffer states 3"),
        (make_strings(2, [-1, 1, 3]), "offsets of strings are out of range for 6 bytes of text"),
        (make_strings(2, [0, 2, 1]), "offsets of strings are out of range"),
        (make_strings(2, [0, 2, 7]), "offsets of strings are out of range"),
    ],
)
def test_invalid_strings_are_reported(buffer, message):
    string = ELEMENT_TYPES["string"]
    assert unpack(string, make_strings(2, [1, 2, 6]), [2]).tolist() == ["b", "cdef"]
    with pytest.raises(ValueError, match=re.escape(message)):
        unpack(string, buffer, [2])


def test_buffers_of_other_sizes_and_arrays_of_other_types_are_reported():
    f32 = ELEMENT_TYPES["f32"]
    assert unpack(f32, bytes(12), [2]).shape == (2,)
    with pytest.raises(ValueError, match=re.escape("f32 of shape [2] takes 8 bytes, the buffer has 7")):
        unpack(f32, bytes(7), [2])
    with pytest.raises(ValueError, match=re.escape("shape [-1, -2] has a negative dimension")):
        unpack(f32, bytes(8), [-1, -2])
    with pytest.raises(ValueError, match="expected an array of float32 for f32, found int32"):
        pack(f32, np.zeros(2, np.int32))
    assert pack(f32, np.array([1], ">f4")) == np.array([1], "<f4").tobytes()
    assert unpack(ELEMENT_TYPES["boolean"], b"\x00\x02\x01", [3]).tolist() == [False, True, True]


# Texts


def test_long_messages_are_shortened_in_the_middle():
    assert to_one_line("a\n  b\tc") == "a b c"
    assert to_one_line("x" * 299) == "x" * 299
    assert to_one_line(f"<{'x' * 300}>") == "<" + "x" * 119 + "..." + "x" * 59 + ">"
    text = to_one_line("word " * 10_000 + "end")
    assert len(text) < len("word " * 10_000)
    assert text.startswith("word word")
    assert " ... " in text
    assert text.endswith("word end")
    assert to_one_line("a\x1b[31mb\u202e") == "a\\x1b[31mb\\u202e"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", ()),
        ("  ", ()),
        ("[2,3]", (2, 3)),
        ("[]", ()),
        (" 2 , 3 ", (2, 3)),
        ("...", None),
        ("[ ... ]", None),
        ("1,?,2..4", (1, -1, "2..4")),
    ],
)
def test_shapes_are_parsed(text, expected):
    assert parse_shape(text) == (None if expected is None else PartialShape(expected))
    padded = " " * 5000 + text  # not cached
    assert parse_shape(padded) == (None if expected is None else PartialShape(expected))


def test_shapes_of_too_many_dimensions_are_reported():
    assert len(parse_shape(",".join("1" * MAX_RANK)) or ()) == MAX_RANK
    with pytest.raises(ValueError, match=f"expected at most {MAX_RANK} dimensions, found {MAX_RANK + 1}"):
        parse_shape(",".join("1" * (MAX_RANK + 1)))


@pytest.mark.parametrize(
    ("text", "expected"), [("5", 5), ("4..4", 4), ("..8", "..8"), ("2..", "2.."), ("9" * 18, int("9" * 18))]
)
def test_dimensions_are_parsed(text, expected):
    assert str(parse_dimension(text)) == str(expected)


@pytest.mark.parametrize("text", ["1" * 20, "1.." + "1" * 20, "x", "", "-2", "5..4", "-3..4", "1.5"])
def test_invalid_dimensions_are_reported(text):
    with pytest.raises(ValueError, match="invalid dimension"):
        parse_dimension(text)


@pytest.mark.parametrize(
    ("shape", "has_values"), [((6,), True), ((1, 6), True), ((7,), False), ((0, 6), True), ((7, 0), False)]
)
def test_json_contains_the_values_of_small_tensors(shape, has_values):
    described = describe_tensor("y", np.zeros(shape, np.float32), 6)
    assert ("values" in described) is has_values
    assert ("omitted" in described) is (shape == (7,))


@pytest.mark.skipif(os.name != "posix", reason="requires POSIX permissions")
@pytest.mark.parametrize(("mask", "mode"), [(0o022, 0o644), (0o077, 0o600)])
def test_new_files_have_the_default_permissions(mask, mode, tmp_path):
    previous = os.umask(mask)
    try:
        save_outputs({"x": np.zeros(1)}, tmp_path / "x.npy")
        assert os.umask(mask) == mask
    finally:
        os.umask(previous)
    assert stat.S_IMODE((tmp_path / "x.npy").stat().st_mode) == mode


def test_damaged_npz_file_of_several_inputs_is_reported(tmp_path):
    (tmp_path / "x.npz").write_bytes(b"PK\x03\x04 damaged")
    tensors = [describe("f32", (1,)), describe("f32", (1,), "y")]
    with pytest.raises(InputError, match=r"cannot read .*x.npz as npz: .*, expected arrays for x: f32\[1\]"):
        load_inputs([f"{tmp_path}/x.npz"], tensors)


def test_json_files_contain_all_values_or_none(tmp_path, monkeypatch):
    monkeypatch.setattr(json_output, "MAX_OUTPUT_ELEMENTS", 6)
    save_outputs({"y": np.zeros((2, 3))}, tmp_path / "y.json")
    assert json.loads((tmp_path / "y.json").read_text())["outputs"][0]["values"] == [[0, 0, 0], [0, 0, 0]]
    with pytest.raises(InputError, match=r"^y has 8 elements, more than the 6 that \.json files may contain"):
        save_outputs({"x": np.zeros(1), "y": np.zeros((2, 4))}, tmp_path / "large.json")
    assert not (tmp_path / "large.json").exists()
