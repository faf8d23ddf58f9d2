"""Reading of arrays from .npy, .npz, .json and raw files, or from stdin."""

from __future__ import annotations

import ast
import contextlib
import io
import json
import math
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from irrun.data.npy import check_compression, read_npy_header
from irrun.data.pipe import Pipe
from irrun.element_types import ElementType
from irrun.errors import InputError
from irrun.ir.model import TensorSpec
from irrun.limits import check_allocation
from irrun.packing import unpack
from irrun.shapes import DynamicDimension

__all__ = ["READERS", "check_member", "parse_json", "read_file", "read_npz_by_name", "read_strings"]

Array = np.ndarray[Any, Any]

_NPY_MAGIC = b"\x93NUMPY"


def read_file(path: Path | Pipe, key: str, tensor: TensorSpec) -> Array:
    """Read an array from a file with a suffix in `READERS`.

    Args:
        path: The path, or the contents of stdin.
        key: The key of an array in an .npz file; "" for the name of the input.
        tensor: The input.

    Raises:
        InputError: The file cannot be read, or does not contain a value for this input.
    """
    suffix = path.suffix.lower()
    try:
        is_file = isinstance(path, Pipe) or os.path.isfile(path)
        if not is_file and isinstance(path, Path) and path.exists():  # opening a pipe would wait for its writer
            kind = "a folder" if path.is_dir() else "another kind of file"
            raise OSError(f"expected a regular file, found {kind}")
        with np.errstate(all="ignore"):  # NumPy multiplies the dimensions of a file's header
            return READERS[suffix](path, key, tensor)
    except InputError:
        raise
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror or error}, for input {tensor}") from None
    except MemoryError:
        raise InputError(f"{path} does not fit in memory, for input {tensor}") from None
    except Exception as error:  # NumPy raises many types of errors for invalid files
        raise InputError(f"{path} cannot be read as {suffix[1:]}: {error}, for input {tensor}") from None


def check_member(source: str | Pipe, tensor: TensorSpec) -> None:
    """Check that an .npz file contains an array for an input that was specified by its name.

    Args:
        source: The path, or the contents of stdin.
        tensor: The input.

    Raises:
        InputError: The file has arrays for other names only.
    """
    if isinstance(source, Pipe) and source.suffix != ".npz":
        return
    try:
        with np.load(_rewind(source), allow_pickle=False) as archive:
            keys = list(archive.files)
    except Exception:  # reported when the file is read
        return
    matching = [key for key in keys if key in (*tensor.names, "arr_0")]  # np.savez(path, x) names x arr_0
    if keys and not matching:
        hint = "" if isinstance(source, Pipe) else f"; select an array with {source}:KEY for input {tensor}"
        raise InputError(f"{source} does not contain {tensor.names[0]!r}, found {', '.join(keys)}{hint}")


def read_npz_by_name(source: str | Pipe, tensors: Sequence[TensorSpec]) -> dict[int, Array]:
    """Load the arrays of an .npz file with names of inputs as keys.

    Args:
        source: The path, or the contents of stdin.
        tensors: The inputs of the model.

    Returns:
        Position of the input -> array. Empty if the source is not an .npz file, or if it has several keys of
        which only one is the name of an input.
    """
    path = source if isinstance(source, Pipe) else Path(source)
    if path.suffix.lower() != ".npz" or (isinstance(path, Path) and not path.is_file()):
        return {}
    try:
        with np.load(_rewind(path), allow_pickle=False) as archive:
            keys: dict[int, str] = {}
            for key in archive.files:
                for i, tensor in enumerate(tensors):
                    if key in tensor.names:
                        keys.setdefault(i, key)
            if len(keys) == 1 < len(archive.files):
                return {}
            return {i: _read_member(archive, key, tensors[i], path) for i, key in keys.items()}
    except InputError:
        raise
    except MemoryError:
        raise InputError(f"{path} does not fit in memory, {_describe_expected(tensors)}") from None
    except Exception as error:  # as in read_file
        raise InputError(f"cannot read {path} as npz: {error}, {_describe_expected(tensors)}") from None


def _describe_expected(tensors: Sequence[TensorSpec]) -> str:
    return f"expected arrays for {'; '.join(map(str, tensors))}"


def _read_npz(path: Path | Pipe, key: str, tensor: TensorSpec) -> Array:
    with np.load(_rewind(path), allow_pickle=False) as archive:
        keys = ", ".join(archive.files) or "no arrays"
        if not key:
            matching = [k for k in archive.files if k in tensor.names]
            if not matching and len(archive.files) != 1:
                hint = "" if isinstance(path, Pipe) else f"; select an array with {path}:KEY"
                raise InputError(f"{path} contains {keys}{hint} for input {tensor}")
            key = matching[0] if matching else archive.files[0]
        if key not in archive.files:
            raise InputError(f"{path} does not contain {key!r}, found {keys}")
        return _read_member(archive, key, tensor, path)


def _read_member(archive: Any, key: str, tensor: TensorSpec, path: Path | Pipe) -> Array:
    """Read an array of an .npz file after validating its header, since a small file may expand to any size."""
    if f"{key}.npy" not in archive.zip.namelist():
        raise InputError(f"{key!r} in {path} is not an array, for input {tensor}")
    info = archive.zip.getinfo(f"{key}.npy")
    check_compression(info)
    with archive.zip.open(info) as file:
        shape, _, dtype = read_npy_header(file, info.file_size)
    if tensor.partial_shape is not None and not tensor.partial_shape.is_compatible(shape):
        raise InputError(f"{key!r} in {path} has shape {list(shape)}, for input {tensor}")
    check_allocation(shape, dtype)
    value: Array = archive[key]
    return value


def _read_npy(path: Path | Pipe, _: str, tensor: TensorSpec) -> Array:
    with _open(path) as file:
        if file.read(len(_NPY_MAGIC)) != _NPY_MAGIC:  # otherwise NumPy recommends to unpickle the file
            raise InputError(f"{path} cannot be read as npy: it is not an .npy file, for input {tensor}")
    if _has_float8_header(path):
        return _read_float8(path)
    with _open(path) as file:
        size = file.seek(0, io.SEEK_END)
        file.seek(0)
        shape, _is_fortran, dtype = read_npy_header(file, size)
    if isinstance(path, Pipe):  # other files are mapped
        check_allocation(shape, dtype)
    value: Array = np.load(_rewind(path), allow_pickle=False, mmap_mode="r" if isinstance(path, Path) else None)
    return value


def _has_float8_header(path: Path | Pipe) -> bool:
    """Return whether NumPy saved an f8e5m2 array, under the name of a type that it does not load."""
    with _open(path) as file:
        return b"'descr': '<f1'" in file.read(128)


def _read_float8(path: Path | Pipe) -> Array:
    with _open(path) as file:
        np.lib.format.read_magic(file)
        header = file.read(int.from_bytes(file.read(2), "little"))
        facts = ast.literal_eval(header.decode("latin1"))
        data = np.frombuffer(file.read(), ElementType.parse("f8e5m2").dtype)
    value: Array = data.reshape(facts["shape"], order="F" if facts["fortran_order"] else "C")
    return value


def _read_json(path: Path | Pipe, _: str, tensor: TensorSpec) -> Array:
    with _open(path) as file:
        return parse_json(file.read().decode("utf-8-sig"), tensor, str(path))


def parse_json(text: str, tensor: TensorSpec, source: str) -> Array:
    """Convert JSON text to an array.

    Args:
        text: The text.
        tensor: The input.
        source: The name of the text in error messages.

    Raises:
        InputError: The text is not JSON, or contains anything except lists of numbers with equal lengths.
    """
    try:
        value = json.loads(text)
    except json.JSONDecodeError as error:
        raise InputError(f"{source} is not valid JSON: {error}, for input {tensor}") from None
    except (RecursionError, ValueError):  # 100,000 brackets, or a number of 5000 digits
        raise InputError(f"{source} is not valid JSON: too deep or too long, for input {tensor}") from None
    if isinstance(value, dict):
        raise InputError(f"{source} is a JSON object, expected lists of numbers for input {tensor}")
    expected = tensor.element_type
    if expected is not None and expected.kind == "string":
        return np.array(value, dtype=object)
    try:
        array = np.array(value)
    except ValueError:
        raise InputError(
            f"{source} contains lists of different lengths, or too many nested lists, for input {tensor}"
        ) from None
    if array.dtype.kind in "fO" and expected is not None and expected.dtype.kind in "iu":
        integers = np.array(value, object)  # NumPy converts integers that exceed i64 to floats or objects
        if all(type(v) is int for v in integers.reshape(-1)):
            return _convert_integers(integers, expected, tensor, source)
    if array.dtype.kind not in "iufb":
        raise InputError(f"{source} contains elements that are not numbers of at most 64 bits, for input {tensor}")
    if expected is not None and expected.is_float and not expected.dtype.fields:
        return array.astype(expected.dtype)  # a decimal number does not have a precision that could be lost
    return array


def read_strings(text: str, tensor: TensorSpec) -> Array:
    """Return the strings of a text: JSON strings, the lines of a .txt file, or the text itself.

    Args:
        text: The text.
        tensor: The input.

    Raises:
        InputError: The file cannot be read, or the JSON text contains anything except strings.
    """
    if text.endswith(".txt") and os.path.isfile(text):
        try:
            with open(text, encoding="utf-8", errors="surrogateescape", newline="\n") as file:
                return np.array(file.read().removesuffix("\n").split("\n"), object)
        except OSError as error:
            raise InputError(f"cannot read {text}: {error.strerror or error}, for input {tensor}") from None
    if text.lstrip()[:1] in ("[", '"'):
        try:
            json.loads(text)
        except (ValueError, RecursionError):  # a text such as "[MASK]"
            pass
        else:
            return parse_json(text, tensor, "the text")
    return np.full((1,) * len(tensor.partial_shape or ()), text, object)


def _convert_integers(integers: Array, element_type: ElementType, tensor: TensorSpec, source: str) -> Array:
    try:
        return integers.astype(element_type.dtype)
    except OverflowError:
        raise InputError(f"{source} contains integers out of range of {element_type}, for input {tensor}") from None


def _read_raw(path: Path | Pipe, _: str, tensor: TensorSpec) -> Array:
    element_type = tensor.element_type
    shape = tensor.partial_shape
    if element_type is None or element_type.kind == "string" or shape is None:
        raise InputError(f"{path}: raw bytes require a declared type and rank, found input {tensor}")
    data = np.fromfile(path, np.uint8)
    dynamic = [i for i, d in enumerate(shape) if isinstance(d, DynamicDimension)]
    sizes = [1 if isinstance(d, DynamicDimension) else d for d in shape]
    known = math.prod(sizes)
    if len(dynamic) == 1 and known and element_type.bits:
        sizes[dynamic[0]] = data.size * 8 // element_type.bits // known
    elif dynamic:
        raise InputError(f"{path}: raw bytes do not determine the dynamic shape of input {tensor}")
    expected = element_type.get_byte_size(math.prod(sizes))
    if data.size != expected:
        raise InputError(f"{path} has {data.size} bytes, expected {expected} for input {tensor}")
    return unpack(element_type, data, sizes)


#: Suffix -> function that reads a file, from the path, the key after the colon and the input.
READERS: dict[str, Callable[[Path | Pipe, str, TensorSpec], Array]] = {
    ".npy": _read_npy,
    ".npz": _read_npz,
    ".json": _read_json,
    ".bin": _read_raw,
    ".raw": _read_raw,
}


def _rewind(path: Any) -> Any:
    """Return a path, or the contents of stdin at their start."""
    if isinstance(path, Pipe):
        path.seek(0)
    return path


def _open(path: Path | Pipe) -> Any:
    return contextlib.nullcontext(_rewind(path)) if isinstance(path, Pipe) else open(path, "rb")
