"""Loading of inputs and saving of outputs."""

from __future__ import annotations

import io
import os
import stat
import tracemalloc
import warnings
import zipfile

import numpy as np
import pytest
from ir_text import chain, layer, net, port, write

import irrun
from irrun.data.load import LoadOptions, load_input, load_inputs
from irrun.data.save import save_outputs
from irrun.data.storable import to_storable
from irrun.element_types import ELEMENT_TYPES
from irrun.errors import InputError
from irrun.limits import limit_allocations

SHAPES = [*[(name, (2, 3)) for name in ELEMENT_TYPES], ("f32", ()), ("f32", (0, 3)), ("string", ()), ("i64", (0,))]


def compile_identity(tmp_path, *inputs):
    """Compile a model whose outputs are its inputs; an input is (type, shape, name)."""
    layers, edges = [], []
    for i, (type, shape, name) in enumerate(inputs):
        data = f'shape="{",".join(map(str, shape))}" element_type="{type}"'
        layers.append(layer(i, "Parameter", data=data, outputs=[port(0, shape)], name=name))
        layers.append(layer(1000 + i, "Result", inputs=[port(0)], name=name))
        edges.append((i, 0, 1000 + i, 0))
    return irrun.compile_model(write(tmp_path, net(layers, edges), None))


@pytest.mark.parametrize("kind", ["random", "zeros", "ones"])
def test_generated_inputs_are_saved_and_loaded(kind, tmp_path):
    """Inputs have every element type; some are scalars or empty."""
    model = compile_identity(tmp_path, *[(type, shape, f"n{i}") for i, (type, shape) in enumerate(SHAPES)])
    expected = model(load_inputs([kind] * len(SHAPES), model.inputs)).to_dict()
    assert [(irrun.ElementType.of(x.dtype).name, x.shape) for x in expected.values()] == SHAPES
    save_outputs(expected, tmp_path / "all.npz")
    save_outputs(expected, tmp_path / "folder")
    for texts in ([f"{tmp_path}/all.npz"], [f"n{i}={tmp_path}/folder/n{i}.npy" for i in range(len(SHAPES))]):
        loaded = model(load_inputs(texts, model.inputs)).to_dict()
        for name, value in expected.items():
            assert loaded[name].dtype == value.dtype
            np.testing.assert_array_equal(to_storable(loaded[name]), to_storable(value))


def test_unusual_names_are_saved_and_loaded(tmp_path):
    """Names are equal, empty, contain = or /, or are "file", which np.savez does not support."""
    names = ["a=b", "a,b", "sp ace", "ünï", "file", "../../x", "a/b", "", "s", "s", "x" * 300]
    model = compile_identity(tmp_path, *[("f32", (), name) for name in names])
    arrays = load_inputs([str(i) for i in range(len(names))], model.inputs)
    outputs = model(arrays).to_dict()
    assert [float(x) for x in outputs.values()] == list(range(len(names)))
    save_outputs(outputs, tmp_path / "out.npz")
    with np.load(tmp_path / "out.npz") as archive:
        assert {name: float(archive[name]) for name in archive.files} == {n: float(x) for n, x in outputs.items()}
    written = save_outputs(outputs, tmp_path / "folder")
    assert len(set(written)) == len(names)
    assert all(path.parent == tmp_path / "folder" for path in written)
    arrays = load_inputs(["a=b=1", "a,b=2", "sp ace=3", "file=4", "7=0", "9=0", *["5"] * 5], model.inputs)
    assert float(arrays["a=b"]) == 1
    assert 7 in arrays


def write_npz_with_empty_member(path):
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("x.npy", b"")


def write_npz_with_huge_shape(path):
    header = b"{'descr': '<f4', 'fortran_order': False, 'shape': (1099511627776, 1099511627776), }"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("x.npy", b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header)


def write_npy_with_huge_shape(path):
    header = b"{'descr': '<f4', 'fortran_order': False, 'shape': (1099511627776,), }"
    path.write_bytes(b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header)


def make_npy_writer(header):
    def write_npy(path):
        path.write_bytes(b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header + b"\0" * 64)

    return write_npy


def write_compressed_npz(path):
    header = io.BytesIO()
    np.lib.format.write_array_header_1_0(header, {"descr": "<f4", "fortran_order": False, "shape": (1 << 26,)})
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive, archive.open("x.npy", "w") as entry:
        entry.write(header.getvalue())
        for _ in range(16):
            entry.write(b"\0" * (1 << 24))


def write_npz_without_arrays(path):
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("x.npy", b"hello")
        archive.writestr("x", b"hello")


def write_damaged_npz(path):
    buffer = io.BytesIO()
    np.savez_compressed(buffer, x=np.arange(1000.0))
    data = bytearray(buffer.getvalue())
    data[200:300] = b"\xff" * 100
    path.write_bytes(data)


FILES = {
    "empty.npy": lambda path: path.write_bytes(b""),
    "empty.npz": lambda path: path.write_bytes(b""),
    "text.npz": lambda path: path.write_text("hello"),
    "hollow.npz": write_npz_with_empty_member,
    "wild.npz": write_npz_with_huge_shape,
    "wild.npy": write_npy_with_huge_shape,
    "damaged.npz": write_damaged_npz,
    "bomb.npz": write_compressed_npz,
    "textual.npz": write_npz_without_arrays,
    "truth.npy": make_npy_writer(b"{'descr': '<f4', 'fortran_order': False, 'shape': (True, 3)}"),
    "overflow.npy": make_npy_writer(
        b"{'descr': '<f4', 'fortran_order': False, 'shape': (1099511627776, 1099511627776)}"
    ),
    "overflowing.npy": make_npy_writer(b"{'descr': '<f4', 'fortran_order': False, 'shape': (%d, 9)}" % (1 << 62)),
    "call.npy": make_npy_writer(b"__import__('os').getcwd()"),
    "empty.json": lambda path: path.write_bytes(b""),
    "latin.json": lambda path: path.write_bytes(b"[\xff]"),
    "deep.json": lambda path: path.write_text("[" * 100_000),
    "long.json": lambda path: path.write_text("[" + "9" * 5000 + "]"),
    "folder.npy": lambda path: path.mkdir(),
    "short.bin": lambda path: path.write_bytes(b"abc"),
    "none.png": lambda path: path.write_bytes(b""),
    "junk.tif": lambda path: path.write_bytes(b"II*\0" + b"\xff" * 50),
    "wide.ppm": lambda path: path.write_bytes(b"P6 99999 99999 255\n"),
    "unknown.dat": lambda path: path.write_bytes(b""),
}


@pytest.mark.parametrize("name", FILES)
def test_invalid_files_are_reported(name, tmp_path):
    if name.endswith((".png", ".tif", ".ppm")):
        pytest.importorskip("PIL")
    FILES[name](tmp_path / name)
    tensor = compile_identity(tmp_path, ("f32", (4, 4), "x")).inputs[0]
    tracemalloc.start()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            with pytest.raises(InputError, match=name.partition(".")[0]):
                load_inputs([str(tmp_path / name)], [tensor])
            with pytest.raises(InputError, match=name.partition(".")[0]):
                load_input(str(tmp_path / name), tensor)
        assert tracemalloc.get_traced_memory()[1] < 16 << 20
    finally:
        tracemalloc.stop()


@pytest.mark.timeout(30)
@pytest.mark.parametrize("suffix", ["npy", "npz", "json", "bin"])
def test_named_pipes_are_rejected(suffix, tmp_path):
    if not hasattr(os, "mkfifo"):
        pytest.skip("requires named pipes")
    os.mkfifo(tmp_path / f"x.{suffix}")
    with pytest.raises(InputError, match="expected a regular file, found another kind of file, for input x"):
        load_inputs([f"{tmp_path}/x.{suffix}"], compile_identity(tmp_path, ("f32", (4, 4), "x")).inputs)


def test_huge_void_type_is_rejected_without_allocation(tmp_path):
    make_npy_writer(b"{'descr': '|V2147483647', 'fortran_order': False, 'shape': (0,)}")(tmp_path / "x.npy")
    model = compile_identity(tmp_path, ("f32", (4, 4), "x"))
    tracemalloc.start()
    try:
        with pytest.raises(InputError, match=r"input x: f32\[4,4\] does not accept"):
            model(load_inputs([f"{tmp_path}/x.npy"], model.inputs))
        assert tracemalloc.get_traced_memory()[1] < 16 << 20
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(("type", "maximum"), [("u64", 2**64 - 1), ("i64", 2**63 - 1), ("i8", 127)])
def test_json_integers_are_exact(type, maximum, tmp_path):
    tensor = compile_identity(tmp_path, (type, (2,), "x")).inputs[0]
    assert load_input(f"[1, {maximum}]", tensor).tolist() == [1, maximum]
    model = compile_identity(tmp_path, (type, (2,), "x"))
    with pytest.raises(InputError):
        model([load_input(f"[1, {maximum + 1}]", tensor)])


def test_json_file_may_start_with_byte_order_mark(tmp_path):
    (tmp_path / "x.json").write_text("[1, 2]", encoding="utf-8-sig")
    tensor = compile_identity(tmp_path, ("f32", (2,), "x")).inputs[0]
    assert load_input(f"{tmp_path}/x.json", tensor).tolist() == [1, 2]


def test_long_value_for_unknown_name_is_reported(tmp_path):
    with pytest.raises(InputError, match="unknown input 'y'; the model has x"):
        load_inputs(["y=" + "1," * 5000], compile_identity(tmp_path, ("f32", (2,), "x")).inputs)


@pytest.mark.parametrize(
    "text", ["random:9999999999,9999999999", "zeros:1000000,1000000", "ones:" + "9" * 5000, "[" * 50_000, "[1,[2]]"]
)
def test_too_large_shapes_and_invalid_json_are_reported(text, tmp_path):
    with pytest.raises(InputError):
        load_input(text, compile_identity(tmp_path, ("f32", (4, 4), "x")).inputs[0])


def test_existing_file_is_not_replaced_by_folder(tmp_path):
    (tmp_path / "notes").write_text("mine")
    with pytest.raises(InputError, match="exists and is not a folder"):
        save_outputs({"x": np.zeros(2)}, tmp_path / "notes")
    assert (tmp_path / "notes").read_text() == "mine"


@pytest.mark.skipif(os.name != "posix", reason="requires POSIX links and permissions")
def test_links_and_permissions_are_kept(tmp_path):
    (tmp_path / "there.npy").write_bytes(b"old")
    (tmp_path / "there.npy").chmod(0o600)
    (tmp_path / "link.npy").symlink_to("there.npy")
    (tmp_path / "dangling.npy").symlink_to("new.npy")
    for name in ("link", "dangling"):
        save_outputs({"x": np.zeros(2)}, tmp_path / f"{name}.npy")
        assert (tmp_path / f"{name}.npy").is_symlink()
    assert np.load(tmp_path / "there.npy").shape == np.load(tmp_path / "new.npy").shape == (2,)
    assert stat.S_IMODE((tmp_path / "there.npy").stat().st_mode) == 0o600
    assert len(list(tmp_path.iterdir())) == 4


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="requires named pipes")
def test_pipes_and_folders_are_not_replaced(tmp_path):
    os.mkfifo(tmp_path / "pipe.npy")
    (tmp_path / "folder.npy").mkdir()
    for name, message in (("pipe", "is not a regular file"), ("folder", "cannot write")):
        with pytest.raises(InputError, match=message):
            save_outputs({"x": np.zeros(2)}, tmp_path / f"{name}.npy")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["folder.npy", "pipe.npy"]


def test_file_names_of_maximum_length_are_written(tmp_path):
    save_outputs({"x": np.zeros(2)}, tmp_path / ("x" * 251 + ".npy"))
    assert len(list(tmp_path.iterdir())) == 1


def test_image_options_are_keywords(tmp_path):
    image = pytest.importorskip("PIL.Image")
    pixels = np.zeros((2, 2, 3), np.uint8)
    pixels[:] = (200, 100, 50)
    image.fromarray(pixels).save(tmp_path / "x.png")
    model = irrun.compile_model(write(tmp_path, chain("Relu", shape=(1, 3, 2, 2))))

    def load(**options):
        (value,) = irrun.load_inputs([f"x={tmp_path}/x.png"], model.inputs, **options).values()
        assert value.shape == (1, 3, 2, 2)
        return value[0, :, 0, 0].tolist()

    assert load() == [50, 100, 200]
    assert load(channels="RGB") == [200, 100, 50]
    assert load(channels="rgb", mean=100, scale=50) == [2, 0, -1]
    assert load(mean=[50, 99, 200], scale=(1, 2, 4), layout="NCHW") == [0, 0.5, 0]
    for options, message in (
        ({"channels": "GRB"}, "expected the channels BGR or RGB, found 'GRB'"),
        ({"scale": 0}, "scale: expected finite numbers other than 0, found 0"),
        ({"mean": float("nan")}, "mean: expected finite numbers, found nan"),
        ({"mean": [1, 2]}, "mean: expected 1 or 3 numbers"),
        ({"layout": "NHW"}, "layout 'NHW' does not fit"),
    ):
        with pytest.raises(irrun.InputError, match=message):
            load(**options)


def test_seed_is_a_keyword(tmp_path):
    model = irrun.compile_model(write(tmp_path, chain("Relu")))
    first, second, again = (irrun.load_inputs(["random"], model.inputs, seed=seed)["x"] for seed in (1, 2, 1))
    np.testing.assert_array_equal(first, again)
    assert (first != second).any()


def test_seed_is_0_by_default(tmp_path):
    model = irrun.compile_model(write(tmp_path, chain("Relu")))
    expected = irrun.load_inputs(["random"], model.inputs, seed=0)["x"]
    for options in (None, LoadOptions(), LoadOptions(memory=1 << 20)):
        np.testing.assert_array_equal(irrun.load_inputs(["random"], model.inputs, options)["x"], expected)
        np.testing.assert_array_equal(load_input("random", model.inputs[0], options), expected)


def test_image_options_without_images_are_reported(tmp_path):
    model = irrun.compile_model(write(tmp_path, chain("Relu")))
    np.save(tmp_path / "x.npy", np.zeros((2, 3), np.float32))
    with pytest.raises(irrun.InputError, match="apply to image files only"):
        irrun.load_inputs([f"{tmp_path}/x.npy"], model.inputs, mean=1)


def test_memory_of_strings_is_that_of_the_longest_one():
    strings = np.array(["a" * 1000, *[""] * 999], object)
    with limit_allocations(4_000_000):
        assert to_storable(strings).nbytes == 4_000_000
    with limit_allocations(3_999_999), pytest.raises(irrun.InputError, match=r"4 bytes|bytes, expected at most"):
        to_storable(strings)
