"""Files of other formats that are passed as models or weights: the error says what they are and what to do."""

from __future__ import annotations

import gzip
import io
import pickle
import re
import shutil
import tarfile
import zipfile

import numpy as np
import pytest
from command_line import call
from ir_text import chain, layer, net, port, write

import irrun
from irrun.ir import file_kinds
from irrun.ir.weights import MissingWeightsError

POINTER = b"version https://git-lfs.github.com/spec/v1\noid sha256:4d7a214614ab2935c943f9e0ff69d22e\nsize 12345\n"
IR = chain("Relu").encode()
OVC = "convert it with `ovc {path}`"


def make_zip(*names):
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name in names:
            archive.writestr(name, b"x" * 100)
    return buffer.getvalue()


def make_tar(mode):
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode=mode) as archive:
        archive.addfile(tarfile.TarInfo("model.xml"))
    return buffer.getvalue()


def make_array(save):
    buffer = io.BytesIO()
    save(buffer, np.zeros(3))
    return buffer.getvalue()


def make_message(field, content):
    """Return a field of a message of Protocol Buffers."""
    return bytes([field << 3 | 2, len(content)]) + content


NODE = make_message(1, make_message(1, b"input") + make_message(2, b"Placeholder"))

#: The name and the content of a file, and what the error says about it after its path.
FILES = [
    ("model.xml", POINTER, "is a Git LFS pointer, not the file itself: run `git lfs pull`"),
    ("model.bin", POINTER, "is a Git LFS pointer, not the file itself: run `git lfs pull`"),
    ("model.xml", b"\n<!DOCTYPE html>\n<html lang='en'></html>", "is an HTML page, not the file itself"),
    ("model.xml", b"<HTML><body>Not found</body></HTML>", "is an HTML page, not the file itself"),
    ("model.xml", b"<?xml version='1.0'?><!-- a --><!DOCTYPE html PUBLIC 'a'><html/>", "is an HTML page"),
    ("model", b"\x08\x0a\x12\x07pytorch", "is an ONNX model; irrun reads it if the name of the file ends in .onnx"),
    ("model.xml", b"\x08\x03:\x20" + bytes(32), "is an ONNX model; irrun reads it if the name of the file"),
    ("my model.tflite", bytes(9), "is a TensorFlow Lite model; .*ONNX: convert it with `ovc '{path}'`"),
    ("frozen.pb", NODE, f"is a TensorFlow model; irrun reads OpenVINO IR (.xml) and ONNX: {OVC}"),
    ("frozen", NODE, "is a TensorFlow model"),
    ("graph.pbtxt", b"node {\n  name: 'x'\n}\n", "is a TensorFlow model"),
    ("saved_model", b"\x08\x01\x12\x90\x01", "is a TensorFlow model"),
    ("model.tflite", b"\x1c\0\0\0TFL3\0", "is a TensorFlow Lite model"),
    ("model.xml", b"\x20\0\0\0TFL3\0", "is a TensorFlow Lite model"),
    ("inference.pdmodel", make_message(1, b"\x08\0\x10\xff\xff"), "is a PaddlePaddle model"),
    ("inference", make_message(1, b"\x08\0\x10\xff\xff"), "is a PaddlePaddle model"),
    ("model.pth", make_zip("archive/data.pkl", "archive/byteorder"), "is a PyTorch file; .*openvino.convert_model"),
    ("pytorch_model.bin", make_zip("pytorch_model/data.pkl"), "is a PyTorch file"),
    ("old.pth", b"\x80\x02\x8a\x0al\xfc\x9cF\xf9 j\xa8P\x19.\x80\x02M", "is a PyTorch file"),
    ("model.pt", pickle.dumps({"a": 1}), "is a PyTorch file"),
    ("model.pt2", make_zip("model/archive_format"), f"is an exported PyTorch program; .*{OVC}"),
    ("model.pkl", pickle.dumps({"a": 1}), "is a pickle of Python; .*does not load pickles"),
    ("model.keras", make_zip("metadata.json", "config.json"), "is a Keras model; .*model.export"),
    ("model.h5", b"\x89HDF\r\n\x1a\n\0", "is a Keras model"),
    ("net.prototxt", b'name: "net"\nlayer {}\n', "is a Caffe model"),
    ("model.blob", b"\x7fELF\x01", "is a model that OpenVINO compiled for one device; .*pass the IR"),
    ("model.blob", bytes(64), "is a model that OpenVINO compiled for one device"),
    ("model.safetensors", b'\x14\0\0\0\0\0\0\0{"a":{}}', "is a file of tensors without layers"),
    ("model.gguf", b"GGUF\x03\0", "is a file of tensors without layers"),
    ("model.zip", make_zip("model.xml"), "is a ZIP archive, not a model: extract it first, with `unzip {path}`"),
    ("model.xml.gz", gzip.compress(IR), "is compressed with gzip, not a model: extract it first, with `gunzip {path}`"),
    ("model.tar.gz", make_tar("w:gz"), "is a tar archive, not a model: extract it first, with `tar -xf {path}`"),
    ("model.tar", make_tar("w"), "is a tar archive"),
    ("model.xml", b"BZh91AY", "is compressed with bzip2"),
    ("model.xml", b"\xfd7zXZ\0\0", "is compressed with xz"),
    ("weights.bin", bytes(range(256)), "is not XML; .*pass the .xml of the model"),
    ("config.json", b'{"a": 1}', "is JSON, not XML; irrun reads OpenVINO IR (.xml) and ONNX"),
    ("README.md", "# Größe\n".encode(), "is text, not XML; irrun reads OpenVINO IR (.xml) and ONNX"),
    ("model.xml", bytes(100), "is a binary file, not XML; irrun reads OpenVINO IR (.xml) and ONNX"),
    ("model.xml", b"", "is empty; .*get it again"),
    ("x.npy", make_array(np.save), "is a file of NumPy arrays, not a model: pass inputs with --input"),
    ("x.npz", make_array(np.savez), "is a file of NumPy arrays, not a model: pass inputs with --input"),
    ("street.jpg", b"\xff\xd8\xff\xe0\0", "is an image, not a model: pass inputs with --input"),
    ("a.svg", b"<?xml version='1.0'?>\n<!DOCTYPE svg PUBLIC 'a' 'b'>\n<svg/>", "is an SVG image, not a model"),
    ("a.svg", b"<svg:svg xmlns:svg='http://www.w3.org/2000/svg'/>", "is an SVG image, not a model"),
    (
        "street.xml",
        b"<annotation>\n<folder/></annotation>",
        r"is an annotation of an image \(PASCAL VOC\), not a model",
    ),
    ("street.xml", "<annotation/>".encode("utf-16"), r"is an annotation of an image \(PASCAL VOC\), not a model"),
    ("model.mapping", b"<?xml version='1.0' ?>\n<mapping/>", "is a mapping file .*pass the .xml that was written with"),
]


@pytest.mark.parametrize(("name", "content", "message"), FILES, ids=[f"{n}-{i}" for i, (n, _, _) in enumerate(FILES)])
def test_files_of_other_formats_are_named(name, content, message, tmp_path):
    path = tmp_path / name
    path.write_bytes(content)
    message = message.replace("(.xml)", r"\(.xml\)").format(path=re.escape(str(path)))
    with pytest.raises(irrun.ModelError, match=f"^{re.escape(str(path))} {message}"):
        irrun.read_model(path)


def test_only_the_first_bytes_are_looked_at(monkeypatch, tmp_path):
    monkeypatch.setattr(file_kinds, "HEAD_SIZE", 16)
    path = tmp_path / "model.xml"
    path.write_bytes(b"<net>" + b" " * 20 + b"</net><html>")
    with pytest.raises(irrun.ModelError, match="not well-formed XML"):
        irrun.read_model(path)
    path.write_bytes(b"\0" * 16 + POINTER)
    with pytest.raises(irrun.ModelError, match="is a binary file"):
        irrun.read_model(path)


def test_text_whose_last_character_is_cut_is_text(monkeypatch, tmp_path):
    monkeypatch.setattr(file_kinds, "HEAD_SIZE", 16)
    path = tmp_path / "a.txt"
    for length in (13, 14, 15):
        path.write_bytes(b"a" * length + "\U0001f600 more".encode())
        with pytest.raises(irrun.ModelError, match="is text, not XML"):
            irrun.read_model(path)


def test_long_prologs_are_read_in_linear_time():
    for repeated in (b"<?a?>", b"<!-- a -->", b"<!--", b"<?", b"<"):
        assert file_kinds.explain_file(repeated * 2000, None) is None


def test_contents_of_other_formats_are_named():
    with pytest.raises(irrun.ModelError, match=r"^this is a ZIP archive, not a model"):
        irrun.read_model(make_zip("model.xml"))
    for content in (b"", b"text", bytes(9)):
        with pytest.raises(irrun.ModelError, match=r"^line 1: not well-formed XML"):
            irrun.read_model(content)


def test_weights_in_place_of_the_model(tmp_path):
    path = write(tmp_path, chain("Relu"), bytes(64))
    message = f"{path.with_suffix('.bin')} is the weights of a model, not the model itself: pass {path}"
    with pytest.raises(irrun.ModelError, match=f"^{re.escape(message)}$"):
        irrun.read_model(path.with_suffix(".bin"))


@pytest.mark.parametrize(
    ("names", "message"),
    [
        ([], "is a folder without .xml files; expected the .xml file of a model"),
        (["model.xml", "model.bin"], "is a folder; pass the model in it: {path}/model.xml"),
        (["b.xml", "a.XML"], "is a folder; pass one of the .xml files in it: {path}/a.XML, {path}/b.xml"),
        ([f"{c}.xml" for c in "abcde"], "pass one of the .xml files in it: {path}/a.xml, .*/c.xml and 2 more"),
        (["saved_model.pb"], "is a TensorFlow model; .*`ovc {path}`"),
    ],
)
def test_folders_in_place_of_models(names, message, tmp_path):
    for name in names:
        (tmp_path / name).touch()
    with pytest.raises(irrun.ModelError, match=f"^{tmp_path} .*{message.format(path=tmp_path)}") as error:
        irrun.read_model(tmp_path)
    assert "\n" not in str(error.value)


@pytest.fixture
def with_constant(tmp_path):
    """A model that adds a constant of 12 bytes."""
    layers = [
        layer(0, "Parameter", data='shape="3" element_type="f32"', outputs=[port(0, (3,), "FP32")]),
        layer(1, "Const", data='element_type="f32" shape="3" offset="0" size="12"', outputs=[port(0, (3,), "FP32")]),
        layer(2, "Add", inputs=[port(0), port(1)], outputs=[port(2, (3,), "FP32")]),
        layer(3, "Result", inputs=[port(0)]),
    ]
    return write(tmp_path, net(layers, [(0, 0, 2, 0), (1, 0, 2, 1), (2, 2, 3, 0)]), bytes(12))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (POINTER, "is a Git LFS pointer, not the file itself: run `git lfs pull`; 1 constant requires it"),
        (b"<!doctype html><html></html>", "is an HTML page, not the file itself: .*; 1 constant requires it"),
        (b"<?xml version='1.0'?>\n<net/>", "is XML, not the weights of a model"),
    ],
)
def test_weights_that_are_none(with_constant, content, message, tmp_path):
    """They are reported as missing ones, so that the model can still be inspected."""
    other = tmp_path / "other.bin"
    other.write_bytes(content)
    with pytest.raises(irrun.ModelError, match=f"^{with_constant}: {other} {message}"):
        irrun.read_model(with_constant, other)
    shutil.copy(other, with_constant.with_suffix(".bin"))
    with pytest.raises(irrun.ModelError, match=f"^{with_constant}: {with_constant.with_suffix('.bin')} {message}"):
        irrun.compile_model(with_constant)
    model = irrun.read_model(with_constant, check=False)
    with pytest.raises(MissingWeightsError, match=message.partition(";")[0]):
        irrun.compile_model(model)


def test_weights_may_begin_like_text(with_constant):
    for content in (b"<netw\0\0\0\0\0\0\0", b"< <?xml\0\0\0\0\0", b"version https"):
        with_constant.with_suffix(".bin").write_bytes(content)
        assert irrun.read_model(with_constant).weights.view(0, 12) == content[:12]


@pytest.mark.parametrize(
    "arguments",
    [
        "{path}",
        "-i x.npy {path}",
        "run {path}",
        "info {path}",
        "validate {path}",
        "upgrade {path} -o out.xml",
        "extract {path} --outputs a -o out.xml",
        "trace {path}",
        "compare {path} f64",
        "reduce {path} --against f64",
        "profile {path}",
        "check {path}",
        "report {path}",
        "debug {path}",
    ],
)
def test_commands_report_other_formats(arguments, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "model.tflite"
    path.write_bytes(b"\x1c\0\0\0TFL3\0")
    code, out, err = call(capsys, *(word.format(path=path) for word in arguments.split()))
    assert (code, out) == (2, "")
    message = "irrun reads OpenVINO IR (.xml) and ONNX: convert it with"
    assert err == f"irrun: {path} is a TensorFlow Lite model; {message} `ovc {path}` (pip install openvino)\n"


def test_compare_reports_onnx_models_that_do_not_load(tmp_path, capsys):
    pytest.importorskip("onnxruntime")
    path = tmp_path / "model.onnx"
    path.write_bytes(b"\x08\x0a\x12\x07pytorch")
    code, out, err = call(capsys, "compare", write(tmp_path, chain("Relu")), path, "-i", "ones")
    assert (code, out) == (2, "")
    assert err.startswith(f"irrun: onnxruntime cannot run {path}: ")
    assert err.count("\n") == 1


def test_short_form_reports_files_that_do_not_exist(capsys):
    code, _, err = call(capsys, "nowhere.onnx")
    assert (code, err) == (2, "irrun: nowhere.onnx: cannot read the model: No such file or directory\n")


@pytest.mark.parametrize(
    ("position", "start", "kind"),
    [
        (0, b"version https://git-lfs.github.com/spec/", "Git LFS"),
        (4, b"TFL3", "TensorFlow Lite"),
        (0, b"\x89HDF\r\n\x1a\n", "Keras"),
        (0, b"GGUF", "a file of tensors without layers"),
        (0, b"\x93NUMPY", "NumPy"),
        (0, b"\x89PNG\r\n", "an image"),
        (0, b"\xff\xd8\xff", "an image"),
        (0, b"GIF8", "an image"),
        (0, b"\x1f\x8b\x08", "compressed with gzip"),
        (0, b"BZh", "compressed with bzip2"),
        (0, b"\xfd7zXZ\x00", "compressed with xz"),
        (0, b"\x28\xb5\x2f\xfd", "compressed with Zstandard"),
        (0, b"7z\xbc\xaf\x27\x1c", "a 7z archive"),
        (257, b"ustar", "a tar archive"),
        (0, b"\x80\x02\x8a\x0al\xfc\x9cF\xf9", "PyTorch"),
    ],
)
def test_formats_are_recognized_at_their_position(position, start, kind):
    def explain(offset):
        return file_kinds.explain_file(b"\0" * offset + start + b"\0" * 300, None) or ""

    assert kind in explain(position)
    assert kind not in explain(position + 1)
    assert not position or kind not in explain(position - 1)
