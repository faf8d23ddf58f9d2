"""Inputs from whatever a user names, outputs to whatever a user names."""

from __future__ import annotations

import io
import zipfile

import numpy as np
import pytest
from ir_text import layer, net, port, write

import irrun
from irrun.elements import ELEMENT_TYPES
from irrun.errors import InputError
from irrun.values.load import load_input, load_inputs
from irrun.values.save import save_outputs, storable

SHAPES = [*[(name, (2, 3)) for name in ELEMENT_TYPES], ("f32", ()), ("f32", (0, 3)), ("string", ()), ("i64", (0,))]


def passing(tmp_path, *inputs):
    """A compiled model that gives what it is fed; an input is (type, shape, name)."""
    layers, edges = [], []
    for i, (type, shape, name) in enumerate(inputs):
        data = f'shape="{",".join(map(str, shape))}" element_type="{type}"'
        layers.append(layer(i, "Parameter", data=data, outputs=[port(0, shape)], name=name))
        layers.append(layer(1000 + i, "Result", inputs=[port(0)], name=name))
        edges.append((i, 0, 1000 + i, 0))
    return irrun.compile_model(write(tmp_path, net(layers, edges), None))


@pytest.mark.parametrize("how", ["random", "zeros", "ones"])
def test_what_is_made_up_and_written_can_be_read_and_fed_again(how, tmp_path):
    """Every element type, scalars and empty tensors."""
    model = passing(tmp_path, *[(type, shape, f"n{i}") for i, (type, shape) in enumerate(SHAPES)])
    first = model(load_inputs([how] * len(SHAPES), model.inputs)).to_dict()
    assert [(irrun.ElementType.of(x.dtype).name, x.shape) for x in first.values()] == SHAPES
    save_outputs(first, tmp_path / "all.npz")
    save_outputs(first, tmp_path / "folder")
    for texts in ([f"{tmp_path}/all.npz"], [f"n{i}={tmp_path}/folder/n{i}.npy" for i in range(len(SHAPES))]):
        again = model(load_inputs(texts, model.inputs)).to_dict()
        for name, value in first.items():
            assert again[name].dtype == value.dtype
            np.testing.assert_array_equal(storable(again[name]), storable(value))


def test_names_of_every_kind_and_none(tmp_path):
    """Equal names, empty ones, those with = and / in them, and "file", which np.savez cannot write."""
    names = ["a=b", "a,b", "sp ace", "ünï", "file", "../../x", "a/b", "", "s", "s", "x" * 300]
    model = passing(tmp_path, *[("f32", (), name) for name in names])
    fed = load_inputs([str(i) for i in range(len(names))], model.inputs)
    given = model(fed).to_dict()
    assert [float(x) for x in given.values()] == list(range(len(names)))
    save_outputs(given, tmp_path / "out.npz")
    with np.load(tmp_path / "out.npz") as archive:
        assert {name: float(archive[name]) for name in archive.files} == {n: float(x) for n, x in given.items()}
    written = save_outputs(given, tmp_path / "folder")
    assert len(set(written)) == len(names)
    assert all(path.parent == tmp_path / "folder" for path in written)
    fed = load_inputs(["a=b=1", "a,b=2", "sp ace=3", "file=4", "7=0", "9=0", *["5"] * 5], model.inputs)
    assert float(fed["a=b"]) == 1
    assert 7 in fed


def npz_without_content(path):
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("x.npy", b"")


def npz_with_a_wild_header(path):
    header = b"{'descr': '<f4', 'fortran_order': False, 'shape': (1099511627776, 1099511627776), }"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("x.npy", b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header)


def npy_with_a_wild_header(path):
    header = b"{'descr': '<f4', 'fortran_order': False, 'shape': (1099511627776,), }"
    path.write_bytes(b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header)


def damaged_npz(path):
    buffer = io.BytesIO()
    np.savez_compressed(buffer, x=np.arange(1000.0))
    data = bytearray(buffer.getvalue())
    data[200:300] = b"\xff" * 100
    path.write_bytes(data)


FILES = {
    "empty.npy": lambda path: path.write_bytes(b""),
    "empty.npz": lambda path: path.write_bytes(b""),
    "text.npz": lambda path: path.write_text("hello"),
    "hollow.npz": npz_without_content,
    "wild.npz": npz_with_a_wild_header,
    "wild.npy": npy_with_a_wild_header,
    "damaged.npz": damaged_npz,
    "empty.json": lambda path: path.write_bytes(b""),
    "latin.json": lambda path: path.write_bytes(b"[\xff]"),
    "deep.json": lambda path: path.write_text("[" * 100_000),
    "long.json": lambda path: path.write_text("[" + "9" * 5000 + "]"),
    "folder.npy": lambda path: path.mkdir(),
    "short.bin": lambda path: path.write_bytes(b"abc"),
    "none.png": lambda path: path.write_bytes(b""),
    "unknown.dat": lambda path: path.write_bytes(b""),
}


@pytest.mark.parametrize("name", FILES)
def test_files_that_are_not_what_their_name_says(name, tmp_path):
    if name.endswith(".png"):
        pytest.importorskip("PIL")
    FILES[name](tmp_path / name)
    tensor = passing(tmp_path, ("f32", (4, 4), "x")).inputs[0]
    with pytest.raises(InputError, match=name.partition(".")[0]):
        load_inputs([str(tmp_path / name)], [tensor])
    with pytest.raises(InputError, match=name.partition(".")[0]):
        load_input(str(tmp_path / name), tensor)


@pytest.mark.parametrize(
    "text", ["random:9999999999,9999999999", "zeros:1000000,1000000", "ones:" + "9" * 5000, "[" * 50_000, "[1,[2]]"]
)
def test_texts_that_no_one_should_write(text, tmp_path):
    with pytest.raises(InputError):
        load_input(text, passing(tmp_path, ("f32", (4, 4), "x")).inputs[0])


def test_outputs_do_not_replace_what_is_no_output(tmp_path):
    (tmp_path / "notes").write_text("mine")
    with pytest.raises(InputError, match="is there and is no folder"):
        save_outputs({"x": np.zeros(2)}, tmp_path / "notes")
    assert (tmp_path / "notes").read_text() == "mine"
