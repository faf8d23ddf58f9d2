"""Recognizes files that users pass as models or weights by mistake, and says what to do.

The first bytes decide or, if they are ambiguous, the suffix. At most `HEAD_SIZE` bytes are read.
"""

from __future__ import annotations

import os
import re
import shlex
from pathlib import Path

__all__ = [
    "HEAD_SIZE",
    "MODEL_SUFFIXES",
    "explain_file",
    "explain_folder",
    "explain_path",
    "explain_weights",
    "is_onnx",
]

#: Number of bytes at the start of a file that are read.
HEAD_SIZE = 4096
#: Maximum number of entries of a folder that are checked, and of models in it that are named.
MAX_ENTRIES, MAX_NAMES = 10_000, 3

_IR_ONLY = "irrun reads OpenVINO IR (.xml) and ONNX"
_OVC = f"{_IR_ONLY}: convert it with `ovc {{path}}` (pip install openvino)"
_COMPRESSED = "not a model: extract it first, with `{command} {{path}}`"
_INPUT = "not a model: pass inputs with --input"

# Kinds of files, and what to do. "{path}" is the file, quoted for a shell, and "{model}" the .xml next to it.
_ONNX = ("an ONNX model", "irrun reads it if the name of the file ends in .onnx")
_TENSORFLOW = ("a TensorFlow model", _OVC)
_TFLITE = ("a TensorFlow Lite model", _OVC)
_PADDLE = ("a PaddlePaddle model", _OVC)
_PYTORCH = (
    "a PyTorch file",
    f"{_IR_ONLY}: load it with PyTorch, convert the module with openvino.convert_model(module, example_input=...), "
    "and write the result with openvino.save_model",
)
_EXPORTED = ("an exported PyTorch program", _OVC)
_KERAS = (
    "a Keras model",
    f"{_IR_ONLY}: load it with Keras, write it with model.export(folder), and convert that with `ovc folder`",
)
_CAFFE = ("a Caffe model", f"{_IR_ONLY}; openvino-dev 2023.3 is the last release that converts Caffe models")
_PICKLE = ("a pickle of Python", f"{_IR_ONLY}, and does not load pickles")
_COMPILED = ("a model that OpenVINO compiled for one device", f"{_IR_ONLY}: pass the IR that it was compiled from")
_TENSORS = ("a file of tensors without layers", _IR_ONLY)
_POINTER = ("a Git LFS pointer", "not the file itself: run `git lfs pull`")
_HTML = ("an HTML page", "not the file itself: the download returned a web page; download the raw file")
_ARRAY = ("a file of NumPy arrays", _INPUT)
_IMAGE = ("an image", _INPUT)
_ZIP = ("a ZIP archive", _COMPRESSED.format(command="unzip"))
_GZIP = ("compressed with gzip", _COMPRESSED.format(command="gunzip"))
_TAR = ("a tar archive", _COMPRESSED.format(command="tar -xf"))
_BIN = ("not XML", f"{_IR_ONLY}: pass the .xml of the model, which finds its weights in the .bin next to it")
_WEIGHTS = ("the weights of a model", "not the model itself: pass {model}")
_EMPTY = ("empty", "the download or the conversion that wrote it may have failed: get it again")
_JSON = ("JSON", f"not XML; {_IR_ONLY}")
_TEXT = ("text", f"not XML; {_IR_ONLY}")
_BINARY = ("a binary file", f"not XML; {_IR_ONLY}")

#: The bytes that identify a format, and their position.
_MAGIC = [
    (0, b"version https://git-lfs.github.com/spec/", _POINTER),
    (4, b"TFL3", _TFLITE),
    (0, b"\x89HDF\r\n\x1a\n", _KERAS),
    (0, b"RR_UPCVO", _COMPILED),
    (0, b"\x7fELF", _COMPILED),
    (0, b"GGUF", _TENSORS),
    (0, b"\x93NUMPY", _ARRAY),
    (0, b"\x89PNG\r\n", _IMAGE),
    (0, b"\xff\xd8\xff", _IMAGE),
    (0, b"GIF8", _IMAGE),
    (0, b"\x1f\x8b\x08", _GZIP),
    (0, b"BZh", ("compressed with bzip2", _COMPRESSED.format(command="bunzip2"))),
    (0, b"\xfd7zXZ\x00", ("compressed with xz", _COMPRESSED.format(command="unxz"))),
    (0, b"\x28\xb5\x2f\xfd", ("compressed with Zstandard", _COMPRESSED.format(command="unzstd"))),
    (0, b"7z\xbc\xaf\x27\x1c", ("a 7z archive", _COMPRESSED.format(command="7z x"))),
    (257, b"ustar", _TAR),
    (0, b"\x80\x02\x8a\x0al\xfc\x9cF\xf9", _PYTORCH),  # torch.save before 1.6
]

#: Names of members of a ZIP archive that identify a format.
_MEMBERS = [
    (b"/archive_format", _EXPORTED),
    (b"serialized_exported_program.json", _EXPORTED),
    (b"/data.pkl", _PYTORCH),
    (b"config.json", _KERAS),
    (b".npy", _ARRAY),
]

#: Kinds of files by suffix, if their contents do not tell.
_SUFFIXES = {
    ".onnx": _ONNX,
    ".pb": _TENSORFLOW,
    ".pbtxt": _TENSORFLOW,
    ".meta": _TENSORFLOW,
    ".tflite": _TFLITE,
    ".pdmodel": _PADDLE,
    ".pt": _PYTORCH,
    ".pth": _PYTORCH,
    ".pt2": _EXPORTED,
    ".keras": _KERAS,
    ".h5": _KERAS,
    ".caffemodel": _CAFFE,
    ".prototxt": _CAFFE,
    ".blob": _COMPILED,
    ".safetensors": _TENSORS,
    ".bin": _BIN,
}

#: Suffixes of files that hold models, including formats that irrun does not read.
MODEL_SUFFIXES = frozenset((".xml", *_SUFFIXES))

#: The root elements of XML files that are not models.
_ROOTS = {
    "html": _HTML,
    "svg": ("an SVG image", _INPUT + ", as PNG or JPEG"),
    "annotation": ("an annotation of an image (PASCAL VOC)", "not a model"),
    "mapping": ("a mapping file of OpenVINO's converter", "not a model: pass the .xml that was written with it"),
}

# The starts of messages of Protocol Buffers: ModelProto of ONNX, GraphDef and SavedModel of TensorFlow, and ProgramDesc
# of PaddlePaddle.
_ONNX_START = re.compile(rb"\x08[\x01-\x3f][\x12\x1a\x22\x28\x32\x3a\x42]")
_GRAPH_START = re.compile(rb"\x0a[\x80-\xff]{0,4}[\x01-\x7f]\x0a([\x01-\x7f])")
_SAVED_MODEL_START = re.compile(rb"\x08\x01\x12")
_PADDLE_START = re.compile(rb"\x0a[\x80-\xff]{0,4}[\x01-\x7f]\x08\x00\x10")
_XML_NAME = re.compile(rb"<(?:!doctype\s+)?([a-z_][\w.:-]*)", re.IGNORECASE)


def explain_file(head: bytes, path: Path | None) -> str | None:
    """Explain what a file is if it is not an IR.

    Args:
        head: The first bytes of the file, in UTF-8 if it is text.
        path: The file, or None for a model in bytes.

    Returns:
        One sentence; None for a file that may be an IR, for other XML, and for unknown bytes without a path.
    """
    kind = _identify(head[:HEAD_SIZE], path)
    return None if kind is None else _format(kind, path)


def explain_path(path: Path) -> str | None:
    """Explain what a file is if it is not an IR; see `explain_file`.

    Args:
        path: The file.

    Returns:
        One sentence; None also for a file that cannot be read.
    """
    try:
        with path.open("rb") as file:
            return explain_file(file.read(HEAD_SIZE), path)
    except OSError:
        return None


def is_onnx(model: bytes | Path) -> bool:
    """Return whether a model is in ONNX.

    Args:
        model: Its content, or its path, which ends in .onnx then.
    """
    if isinstance(model, bytes):
        return model[:1] == b"\x08" and _identify(model[:HEAD_SIZE], None) is _ONNX
    if model.suffix.lower() != ".onnx" or not model.is_file():
        return False
    try:
        with model.open("rb") as file:
            return _identify(file.read(HEAD_SIZE), model) is _ONNX
    except OSError:  # which the reader reports
        return False


def explain_weights(head: bytes, path: Path) -> str | None:
    """Explain a file that cannot contain weights: a Git LFS pointer, a web page or another XML file.

    Args:
        head: The first bytes of the file.
        path: The file.

    Returns:
        One sentence; None for a file that may contain weights.
    """
    head = head[:HEAD_SIZE]
    if head.startswith(_MAGIC[0][1]):
        return _format(_POINTER, path)
    name = _find_root(head) if head.lstrip()[:1] == b"<" else ""
    if name == "html":
        return _format(_HTML, path)
    if name == "net" or (name and head.lstrip().startswith(b"<?xml")):
        return _format(("XML", "not the weights of a model, which are in a .bin file"), path)
    return None


def explain_folder(path: Path) -> str:
    """Explain which file of a folder to pass as the model.

    Args:
        path: The folder.

    Returns:
        One sentence.
    """
    names = []
    try:
        with os.scandir(path) as entries:
            for _, entry in zip(range(MAX_ENTRIES), entries, strict=False):
                names.append(entry.name)
    except OSError:
        pass  # a folder that cannot be read
    if "saved_model.pb" in names:
        return _format(_TENSORFLOW, path)
    models = [str(path / name) for name in sorted(names) if name.lower().endswith(".xml")]
    if not models:
        return f"{path} is a folder without .xml files; expected the .xml file of a model"
    if len(models) == 1:
        return f"{path} is a folder; pass the model in it: {models[0]}"
    more = f" and {len(models) - MAX_NAMES} more" if len(models) > MAX_NAMES else ""
    return f"{path} is a folder; pass one of the .xml files in it: {', '.join(models[:MAX_NAMES])}{more}"


def _format(kind: tuple[str, str], path: Path | None) -> str:
    name, advice = kind
    subject = "this" if path is None else str(path)
    file, model = ("FILE", "MODEL.xml") if path is None else (shlex.quote(subject), str(path.with_suffix(".xml")))
    separator = ", " if advice.startswith("not ") else "; "
    return f"{subject} is {name}{separator}{advice.format(path=file, model=model)}"


def _identify(head: bytes, path: Path | None) -> tuple[str, str] | None:
    """Return what a file is and what to do, or None for XML that may be an IR."""
    name = "" if path is None else path.name.lower()
    suffix = Path(name).suffix
    if not head:
        return None if path is None else _EMPTY
    for offset, magic, kind in _MAGIC:
        if head.startswith(magic, offset):
            return _TAR if kind is _GZIP and name.endswith((".tar.gz", ".tgz")) else kind
    if head.startswith((b"PK\x03\x04", b"PK\x05\x06")):
        return next((kind for member, kind in _MEMBERS if member in head), _SUFFIXES.get(suffix, _ZIP))
    start = head.lstrip(b"\xef\xbb\xbf \t\r\n")
    if start.startswith(b"<"):
        return _ROOTS.get(_find_root(start))
    if suffix == ".bin" and path is not None:
        return _WEIGHTS if path.with_suffix(".xml").exists() else _BIN
    if not _is_text(head):
        return _identify_binary(head, suffix) or (None if path is None else _BINARY)
    if suffix in _SUFFIXES:
        return _SUFFIXES[suffix]
    return _JSON if start[:1] in (b"{", b"[") else None if path is None else _TEXT


def _identify_binary(head: bytes, suffix: str) -> tuple[str, str] | None:
    """Return the kind of a file without a signature: a Protocol Buffers message, or the kind of its suffix."""
    if head[8:10] == b'{"' and int.from_bytes(head[:8], "little") < 1 << 32:
        return _TENSORS
    if head[:1] == b"\x80" and head[1:2] in b"\x02\x03\x04\x05":
        return _SUFFIXES.get(suffix, _PICKLE)
    if suffix in _SUFFIXES:
        return _SUFFIXES[suffix]
    node = _GRAPH_START.match(head)
    if node and head[node.end() + node[1][0] :][:1] == b"\x12":  # name and operation of a node
        return _TENSORFLOW
    for pattern, kind in ((_SAVED_MODEL_START, _TENSORFLOW), (_ONNX_START, _ONNX), (_PADDLE_START, _PADDLE)):
        if pattern.match(head):
            return kind
    return None


def _find_root(text: bytes) -> str:
    """Return the local name of the document type or the root element of XML or HTML in lower case, or ""."""
    text = text.lstrip(b"\xef\xbb\xbf \t\r\n")
    for start, end in ((b"<?", b"?>"), (b"<!--", b"-->")) * 8:  # declarations and comments
        while text.startswith(start):
            text = text.partition(end)[2].lstrip()
    match = _XML_NAME.match(text)
    return match[1].decode("ascii", "replace").rpartition(":")[2].lower() if match else ""


def _is_text(head: bytes) -> bool:
    """Return whether the first bytes of a file are text in UTF-8, apart from a character that is cut."""
    try:
        text = head.decode()
    except UnicodeDecodeError as error:
        if error.start < len(head) - 3:
            return False
        text = head[: error.start].decode()
    return all(c.isprintable() or c in "\t\r\n\f" for c in text)
