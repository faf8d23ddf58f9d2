"""Headers of .npy files and members of .npz files that are too large, too short or compressed in other ways."""

from __future__ import annotations

import io
import tracemalloc
import zipfile
from pathlib import Path

import numpy as np
import pytest
from command_line import call
from ir_text import chain, write

import irrun
from irrun.data.files import read_file
from irrun.data.load import load_inputs
from irrun.data.npy import MAX_HEADER, read_npy_header
from irrun.data.pipe import Pipe
from irrun.inspection import Trace, compare, record

X = np.arange(6, dtype=np.float32).reshape(2, 3)
HUGE = 64 << 20


def make_npy(header_size: int = 0, version: int = 2, shape: tuple[int, ...] = (2, 3)) -> bytes:
    """Return an .npy file of X whose header is filled with blanks."""
    header = f"{{'descr': '<f4', 'fortran_order': False, 'shape': {shape}}}".encode().ljust(header_size)
    size = len(header).to_bytes(2 if version == 1 else 4, "little")
    return b"\x93NUMPY" + bytes((version, 0)) + size + header + X.tobytes()


def write_npz(path: Path, content: bytes, method: int = zipfile.ZIP_DEFLATED) -> Path:
    with zipfile.ZipFile(path, "w", method) as archive:
        for name in ("x.npy", "layer1.npy"):  # the input, and the output that is compared
            archive.writestr(name, content)
    return path


@pytest.fixture
def model(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return irrun.read_model(write(tmp_path, chain("Relu")))


@pytest.fixture
def memory():
    """Return the bytes that Python and NumPy had allocated at most."""
    tracemalloc.start()
    yield lambda: tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()


@pytest.mark.parametrize("version", [1, 2, 3])
def test_headers_have_a_largest_size(version):
    for size in (0, MAX_HEADER):
        content = make_npy(size, version)
        assert read_npy_header(io.BytesIO(content), len(content)) == ((2, 3), False, X.dtype)
    content = make_npy(MAX_HEADER + 1, version)
    with pytest.raises(ValueError, match="its header has 10001 bytes, expected at most 10000"):
        read_npy_header(io.BytesIO(content), len(content))


def test_invalid_headers_are_refused():
    for content, message in (
        (make_npy(version=4), r"expected version 1, 2 or 3 of the format, found 4\.0"),
        (make_npy(shape=(-2, -3)), r"shape \[-2, -3\] has a negative dimension"),
        (make_npy(shape=(1 << 40, 1 << 40)), "it has .* bytes, .* are required for shape"),
        (make_npy()[:-1], "are required for shape"),
    ):
        with pytest.raises(ValueError, match=message):
            read_npy_header(io.BytesIO(content), len(content))


def test_members_with_large_headers_are_refused_before_they_are_expanded(model, memory):
    path = write_npz(Path("x.npz"), make_npy(HUGE))
    tracemalloc.reset_peak()
    for specs in (["x.npz:x"], ["x=x.npz"]):
        with pytest.raises(irrun.InputError, match=r"its header has 67108864 bytes, expected at most 10000"):
            load_inputs(specs, model)
    pipe = Pipe(path.read_bytes())
    with pytest.raises(irrun.InputError, match=r"stdin cannot be read as npz: its header has 67108864 bytes"):
        read_file(pipe, "", model.inputs[0])
    with pytest.raises(irrun.InputError, match=r"cannot read 'layer1' of x\.npz: its header has 67108864 bytes"):
        compare(model, "x.npz", [X])
    assert memory() < HUGE


def test_files_with_large_headers_are_refused(model, memory):
    Path("values").mkdir()
    for name in ("x.npy", "values/layer1.npy"):
        with open(name, "wb") as file:
            file.write(make_npy()[:8] + HUGE.to_bytes(4, "little"))
            file.truncate(HUGE + 100)
    with pytest.raises(irrun.InputError, match=r"x\.npy cannot be read as npy: its header has 67108864 bytes"):
        load_inputs(["x.npy"], model)
    with pytest.raises(irrun.InputError, match=r"layer1\.npy: its header has 67108864 bytes"):
        compare(model, "values", [X])
    assert memory() < HUGE


@pytest.mark.parametrize("method", [zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_members_that_cannot_be_expanded_in_parts_are_refused(model, method, memory):
    write_npz(Path("x.npz"), make_npy(HUGE), method)
    tracemalloc.reset_peak()
    with pytest.raises(irrun.InputError, match=r"'x\.npy' has the compression .* of zip files, expected 8"):
        load_inputs(["x.npz:x"], model)
    with pytest.raises(irrun.InputError, match=r"'layer1\.npy' has the compression .* of zip files, expected 8"):
        compare(model, "x.npz", [X])
    assert memory() < HUGE


def test_recorded_values_with_large_headers_are_refused(model):
    record(model, [X], "run.trace").close()
    with zipfile.ZipFile("run.trace") as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    members = {name: make_npy(20_000) if name.endswith(".npy") else data for name, data in members.items()}
    with zipfile.ZipFile("run.trace", "w") as archive:
        for name, data in members.items():
            archive.writestr(name, data)
    with Trace.open("run.trace") as trace, pytest.raises(irrun.InputError, match="its header has 20000 bytes"):
        trace["x"]


def test_arrays_larger_than_the_memory_option_are_refused(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    write(tmp_path, chain("Relu", shape=(64, 1024)))
    np.savez("x.npz", x=np.zeros((64, 1024), np.float32))
    code, _, err = call(capsys, "model.xml", "-i", "x.npz", "--memory", "200K")
    assert code == 2
    assert "the result would take 4 * 64 * 1024 bytes" in err
    assert call(capsys, "model.xml", "-i", "x.npz", "--memory", "1M", "--json")[0] == 0
