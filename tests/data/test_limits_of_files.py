"""Files that are too large or of another kind, and the layouts of images."""

from __future__ import annotations

import builtins
import io
import re
import sys
import zipfile

import numpy as np
import pytest
from ir_text import chain, write

import irrun
from irrun.data import image, pipe
from irrun.data.load import load_input, load_inputs
from irrun.data.pipe import read_stdin
from irrun.data.save import save_outputs
from irrun.errors import InputError

Image = pytest.importorskip("PIL.Image")


@pytest.fixture
def tensor(tmp_path):
    return irrun.read_model(write(tmp_path, chain("Relu"))).inputs[0]


def read_image_input(folder, *shape):
    return irrun.read_model(write(folder, chain("Relu", shape=shape))).inputs[0]


def raise_memory_error(*_, **__):
    raise MemoryError


def test_files_larger_than_the_memory_are_reported(tensor, tmp_path, monkeypatch):
    np.save(tmp_path / "x.npy", np.ones((2, 3), np.float32))
    np.savez(tmp_path / "x.npz", x=np.ones((2, 3), np.float32))
    Image.new("RGB", (4, 4)).save(tmp_path / "x.png")
    picture = read_image_input(tmp_path, 1, 3, 4, 4)
    monkeypatch.setattr(np, "load", raise_memory_error)
    with pytest.raises(InputError, match=re.escape("x.npy does not fit in memory, for input x: f32[2,3]")):
        load_input(str(tmp_path / "x.npy"), tensor)
    with pytest.raises(InputError, match=re.escape("x.npz does not fit in memory, expected arrays for x: f32[2,3]")):
        load_inputs([str(tmp_path / "x.npz")], [tensor])
    monkeypatch.setattr(image, "_read_pixels", raise_memory_error)
    with pytest.raises(InputError, match=re.escape("x.png does not fit in memory, for input x: f32[1,3,4,4]")):
        load_input(str(tmp_path / "x.png"), picture)


def test_members_of_archives_that_are_no_arrays_are_reported(tensor, tmp_path):
    with zipfile.ZipFile(tmp_path / "x.npz", "w") as archive:
        archive.writestr("x", b"text")
    with pytest.raises(InputError, match=r"'x' in .*x\.npz is not an array, for input x"):
        load_inputs([str(tmp_path / "x.npz")], [tensor])


def test_images_of_too_many_pixels_are_refused(tmp_path, monkeypatch):
    Image.new("RGB", (5, 4)).save(tmp_path / "x.png")
    tensor = read_image_input(tmp_path, 1, 3, 2, 2)
    monkeypatch.setattr(image, "MAX_PIXELS", 20)
    assert load_input(str(tmp_path / "x.png"), tensor).shape == (1, 3, 2, 2)
    monkeypatch.setattr(image, "MAX_PIXELS", 19)
    with pytest.raises(InputError, match=r"x\.png has 20 pixels, expected at most 19; reduce its size first"):
        load_input(str(tmp_path / "x.png"), tensor)


def test_images_require_pillow(tmp_path, monkeypatch):
    Image.new("RGB", (4, 4)).save(tmp_path / "x.png")
    tensor = read_image_input(tmp_path, 1, 3, 4, 4)
    original = builtins.__import__

    def import_others(name, *arguments, **options):
        if name == "PIL":
            raise ImportError
        return original(name, *arguments, **options)

    monkeypatch.setattr(builtins, "__import__", import_others)
    with pytest.raises(InputError, match=r"requires Pillow: pip install 'irrun\[images\]'"):
        load_input(str(tmp_path / "x.png"), tensor)


@pytest.mark.parametrize(
    ("shape", "layout"),
    [
        ((1, 3, 8, 9), "NCHW"),
        ((1, 8, 9, 3), "NHWC"),
        ((1, 8, 9, 1), "NHWC"),
        ((1, 3, 8, 3), "NCHW"),  # both are possible
        ((3, 8, 9), "CHW"),
        ((8, 9, 3), "HWC"),
        ((3, 9, 3), "CHW"),
        ((1, 9, 4), "CHW"),
        ((8, 9, 4), "HWC"),
        ((8, 9), "HW"),
    ],
)
def test_layouts_follow_from_shapes(shape, layout, tmp_path):
    """The green channel is 200, and all others are 0."""
    Image.new("RGB", (13, 11), (0, 200, 0)).save(tmp_path / "x.png")
    value = load_input(str(tmp_path / "x.png"), read_image_input(tmp_path, *shape))
    assert value.shape == shape
    assert value.dtype == np.float32
    if "C" not in layout or shape[layout.index("C")] == 1:
        assert (value == value.flat[0]).all()
    else:
        channels = np.moveaxis(value, layout.index("C"), 0)
        assert [float(channel.max()) for channel in channels[:3]] == [0, 200, 0]


def test_size_of_stdin_is_limited(monkeypatch):
    monkeypatch.setattr(pipe, "BLOCK", 4)
    monkeypatch.setattr(pipe, "get_default_limit", lambda: 8)
    for count in (8, 9, 13):
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"[1,2,3,4,5,6]"[:count])))
        if count == 8:
            assert read_stdin().tell() == 8
        else:
            with pytest.raises(InputError, match="stdin contains more than"):
                read_stdin()


def test_outputs_with_many_elements_are_not_written_as_json(tmp_path, monkeypatch):
    monkeypatch.setattr("irrun.data.json_output.MAX_OUTPUT_ELEMENTS", 6)
    save_outputs({"y": np.ones((2, 3), np.float32)}, tmp_path / "y.json")
    with pytest.raises(InputError, match=r"y has 7 elements, more than the 6 that \.json files may contain"):
        save_outputs({"y": np.ones(7, np.float32)}, tmp_path / "z.json")
    assert not (tmp_path / "z.json").exists()


def test_files_are_not_used_as_folders(tmp_path):
    (tmp_path / "y").write_text("")
    with pytest.raises(InputError, match=r"y exists and is not a folder; expected an \.npz, \.npy or \.json file"):
        save_outputs({"y": np.ones(1, np.float32)}, tmp_path / "y")
