"""Loading of inputs from files, JSON text, random numbers and constants."""

from __future__ import annotations

import ast
import json
import math
import os
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np

from irrun.data.image import IMAGE_SUFFIXES, ImageOptions, load_image
from irrun.element_types import ElementType
from irrun.errors import InputError
from irrun.ir.model import TensorSpec, index_names
from irrun.limits import check_allocation, check_empty
from irrun.packing import unpack
from irrun.shapes import DynamicDimension

__all__ = ["LoadOptions", "load_input", "load_inputs"]

Array = np.ndarray[Any, Any]

_GENERATED = re.compile(r"(random|zeros|ones)(?::(.*))?")

_NPY_MAGIC = b"\x93NUMPY"


@dataclass(frozen=True)
class LoadOptions:
    """How inputs are loaded.

    Attributes:
        seed: Seed for random inputs.
        image: How images are converted to tensors.
    """

    seed: int = 0
    image: ImageOptions = field(default_factory=ImageOptions)


def load_inputs(
    specs: Iterable[str],
    tensors: Sequence[TensorSpec],
    options: LoadOptions | None = None,
    *,
    seed: int | None = None,
    layout: str | None = None,
    channels: str | None = None,
    mean: float | Sequence[float] | None = None,
    scale: float | Sequence[float] | None = None,
) -> dict[str | int, Array]:
    """Load inputs from specifications such as "x.npy", "ids=[[1,2,3]]", "data=street.jpg" or "all.npz".

    A text without a name specifies the next input that is not set yet. An .npz file whose keys are names of inputs
    may specify several inputs at once.

    Args:
        specs: Texts of the form `[name=]value`; see `load_input` for the values.
        tensors: The inputs of the model.
        options: Seed and image options. The following arguments replace single ones of them.
        seed: Seed for random inputs.
        layout: The layout of image inputs, such as "NCHW"; "auto" derives it from the shape.
        channels: The channel order of image inputs, "BGR" or "RGB".
        mean: Mean to subtract from the pixels of images (0 to 255): one number, or one for each channel.
        scale: Divisor that is applied after subtracting the mean, in the same form.

    Returns:
        Name -> array; position -> array for inputs that do not have a unique name.

    Raises:
        InputError: A name is unknown, a value cannot be read, an input is missing or passed twice, or there are image
            options but no images.
    """
    options = _merge_options(options or LoadOptions(), seed, layout, channels, mean, scale)
    has_image = False
    arrays: dict[int, Array] = {}
    for spec in [specs] if isinstance(specs, str) else specs:
        position, text = _split_name(spec, tensors)
        if position is None:
            members = _load_npz_by_name(text, tensors)
            if members:
                for i, value in members.items():
                    _check_not_set(i, arrays, tensors)
                    arrays[i] = value
                continue
            position = next((i for i in range(len(tensors)) if i not in arrays), None)
            if position is None:
                raise InputError(f"too many inputs: expected {_format_inputs(tensors)}, found also {spec!r}")
        elif text.lower().endswith(".npz"):
            text = _select_member(text, tensors[position])
        _check_not_set(position, arrays, tensors)
        arrays[position] = load_input(text, tensors[position], options)
        has_image = has_image or _is_image(text)
    if options.image != ImageOptions() and not has_image:
        raise InputError("layout, channels, mean and scale apply to image files only, and no input is an image file")
    missing = [t for i, t in enumerate(tensors) if i not in arrays]
    if missing:
        raise InputError(
            f"missing input {_format_inputs(missing)}"
            + (f"; the model has {_format_inputs(tensors)}" if arrays else "")
        )
    names = index_names(tensors)
    return {t.names[0] if t.names and names[t.names[0]] == i else i: arrays[i] for i, t in enumerate(tensors)}


def load_input(text: str, tensor: TensorSpec, options: LoadOptions | None = None) -> Array:
    """Load one input from a text.

    Args:
        text: The path of an .npy, .npz (`file.npz:key`), raw .bin, .json or image file; JSON text; or `random`,
            `zeros`, `ones`, followed by a shape if that of the model is dynamic (`random:1,3,224,224`).
        tensor: The input. Its type and shape determine how JSON, raw bytes and images are read.
        options: Seed and image options.

    Returns:
        The array that the text specifies. Its type and shape are validated when it is passed to the model.

    Raises:
        InputError: The file does not exist or does not contain a value for this input.
    """
    options = options or LoadOptions()
    generated = _GENERATED.fullmatch(text.strip())
    if generated:
        return _generate(generated[1], generated[2], tensor, options.seed)
    path, key = _split_key(text)
    suffix = path.suffix.lower()
    if _is_image(text):
        return load_image(path, tensor, options.image)
    if text.lstrip()[:1] in ("[", "{", '"') or _is_scalar(text):
        return _parse_json(text, tensor, "the text")
    if suffix in READERS:
        return _read_file(path, key, tensor)
    if os.path.isfile(path):
        raise InputError(
            f"{path}: expected a .npy, .npz, .bin, .json or image file ({', '.join(IMAGE_SUFFIXES)}), found {suffix!r}"
        )
    if os.path.exists(path):
        kind = "a folder" if os.path.isdir(path) else "not a regular file"
        raise InputError(f"{text!r} is {kind}, expected a .npy, .npz, .bin, .json or image file for input {tensor}")
    hint = "; write lists as [1,2,3]" if re.match(r"\s*-?[\d.]+\s*,", text) else ""
    raise InputError(f"{text!r} is not a file, JSON, random, zeros or ones, for input {tensor}{hint}")


def _merge_options(
    options: LoadOptions,
    seed: int | None,
    layout: str | None,
    channels: str | None,
    mean: float | Sequence[float] | None,
    scale: float | Sequence[float] | None,
) -> LoadOptions:
    """Return options with those replaced that are not None."""
    if channels is not None and channels.upper() not in ("BGR", "RGB"):
        raise InputError(f"expected the channels BGR or RGB, found {channels!r}")
    image = options.image
    image = ImageOptions(
        image.layout if layout is None else layout,
        image.channels if channels is None else channels.upper(),
        image.mean if mean is None else _to_numbers("mean", mean),
        image.scale if scale is None else _to_numbers("scale", scale),
    )
    return LoadOptions(options.seed if seed is None else seed, image)


def _to_numbers(name: str, value: float | Sequence[float]) -> tuple[float, ...]:
    numbers = tuple(float(number) for number in np.atleast_1d(value))
    if not all(map(math.isfinite, numbers)) or (name == "scale" and 0 in numbers):
        raise InputError(f"{name}: expected finite numbers{' other than 0' * (name == 'scale')}, found {value}")
    return numbers


def _is_image(text: str) -> bool:
    return text.lower().endswith(IMAGE_SUFFIXES) and os.path.isfile(text)


def _select_member(text: str, tensor: TensorSpec) -> str:
    """Return the path of an .npz file with the key of the array for an input that was specified by its name.

    Raises:
        InputError: The file has arrays for other names only.
    """
    if not os.path.isfile(text):
        return text
    try:
        with np.load(text, allow_pickle=False) as archive:
            keys = list(archive.files)
    except Exception:  # reported when the file is read
        return text
    matching = [key for key in keys if key in (*tensor.names, "arr_0")]  # np.savez(path, x) names x arr_0
    if keys and not matching:
        raise InputError(
            f"{text} does not contain {tensor.names[0]!r}, found {', '.join(keys)}; "
            f"select an array with {text}:KEY for input {tensor}"
        )
    return text


def _read_file(path: Path, key: str, tensor: TensorSpec) -> Array:
    suffix = path.suffix.lower()
    try:
        if os.path.exists(path) and not os.path.isfile(path):  # opening a pipe would wait for its writer
            kind = "a folder" if path.is_dir() else "another kind of file"
            raise OSError(f"expected a regular file, found {kind}")
        with np.errstate(all="ignore"):  # NumPy multiplies the dimensions of a file's header
            return READERS[suffix](path, key, tensor)
    except InputError:
        raise
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror or error}, for input {tensor}") from None
    except MemoryError:
        raise InputError(f"{path} is larger than the memory, for input {tensor}") from None
    except Exception as error:  # NumPy raises many types of errors for invalid files
        raise InputError(f"{path} cannot be read as {suffix[1:]}: {error}, for input {tensor}") from None


def _split_name(spec: str, tensors: Sequence[TensorSpec]) -> tuple[int | None, str]:
    """Split `name=value` into the position of the input (None without a name) and the value."""
    names = [pair for pair in index_names(tensors).items() if spec.startswith(pair[0] + "=")]
    if names:
        name, position = max(names, key=lambda pair: len(pair[0]))
        return position, spec[len(name) + 1 :]
    name, equals, rest = spec.partition("=")
    if equals and not os.path.exists(spec) and not re.match(r"\s*[\[{\"]", spec):
        if name.isdecimal() and len(name) < 10 and int(name) < len(tensors):
            return int(name), rest
        raise InputError(f"unknown input {name!r}; the model has {_format_inputs(tensors)}")
    return None, spec


def _split_key(text: str) -> tuple[Path, str]:
    """Split `file.npz:key` into path and key; the key of other texts is empty."""
    match = re.fullmatch(r"(.*\.npz):(.+)", text)
    return (Path(match[1]), match[2]) if match else (Path(text), "")


def _check_not_set(position: int, arrays: dict[int, Array], tensors: Sequence[TensorSpec]) -> None:
    if position in arrays:
        raise InputError(f"input {tensors[position]} is passed twice")


def _load_npz_by_name(text: str, tensors: Sequence[TensorSpec]) -> dict[int, Array]:
    """Load the arrays of an .npz file whose keys are names of inputs.

    Returns:
        Position of the input -> array. Empty if the text does not name an .npz file, or if it has several keys of
        which only one is the name of an input.
    """
    path = Path(text)
    if path.suffix.lower() != ".npz" or not os.path.isfile(path):
        return {}
    try:
        with np.load(path, allow_pickle=False) as archive:
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
        raise InputError(f"{path} is larger than the memory, expected arrays for {_format_inputs(tensors)}") from None
    except Exception as error:  # as in _read_file
        raise InputError(f"cannot read {path} as npz: {error}, expected arrays for {_format_inputs(tensors)}") from None


def _read_npz(path: Path, key: str, tensor: TensorSpec) -> Array:
    with np.load(path, allow_pickle=False) as archive:
        keys = ", ".join(archive.files) or "no arrays"
        if not key:
            matching = [k for k in archive.files if k in tensor.names]
            if not matching and len(archive.files) != 1:
                raise InputError(f"{path} contains {keys}; select an array with {path}:KEY for input {tensor}")
            key = matching[0] if matching else archive.files[0]
        if key not in archive.files:
            raise InputError(f"{path} does not contain {key!r}, found {keys}")
        return _read_member(archive, key, tensor, path)


def _read_member(archive: Any, key: str, tensor: TensorSpec, path: Path) -> Array:
    """Read an array of an .npz file after validating its header, since a small file may expand to any size."""
    if f"{key}.npy" not in archive.zip.namelist():
        raise InputError(f"{key!r} in {path} is not an array, for input {tensor}")
    with archive.zip.open(f"{key}.npy") as file:
        is_version_1 = np.lib.format.read_magic(file) == (1, 0)
        header = (np.lib.format.read_array_header_1_0 if is_version_1 else np.lib.format.read_array_header_2_0)(file)
    shape, dtype = header[0], header[2]
    if tensor.partial_shape is not None and not tensor.partial_shape.is_compatible(shape):
        raise InputError(f"{key!r} in {path} has shape {list(shape)}, for input {tensor}")
    check_allocation(shape, dtype)
    value: Array = archive[key]
    return value


def _read_npy(path: Path, _: str, tensor: TensorSpec) -> Array:
    with open(path, "rb") as file:
        if file.read(len(_NPY_MAGIC)) != _NPY_MAGIC:  # otherwise NumPy recommends to unpickle the file
            raise InputError(f"{path} cannot be read as npy: it is not an .npy file, for input {tensor}")
    if _has_float8_header(path):
        return _read_float8(path)
    value: Array = np.load(path, allow_pickle=False, mmap_mode="r")
    return value


def _has_float8_header(path: Path) -> bool:
    """Return whether NumPy saved an f8e5m2 array, under the name of a type that it does not load."""
    with open(path, "rb") as file:
        return b"'descr': '<f1'" in file.read(128)


def _read_float8(path: Path) -> Array:
    with open(path, "rb") as file:
        np.lib.format.read_magic(file)
        header = file.read(int.from_bytes(file.read(2), "little"))
        facts = ast.literal_eval(header.decode("latin1"))
        data = np.frombuffer(file.read(), ml_dtypes.float8_e5m2)
    value: Array = data.reshape(facts["shape"], order="F" if facts["fortran_order"] else "C")
    return value


def _read_json(path: Path, _: str, tensor: TensorSpec) -> Array:
    return _parse_json(path.read_text(encoding="utf-8-sig"), tensor, str(path))


def _parse_json(text: str, tensor: TensorSpec, source: str) -> Array:
    """Convert JSON text to an array; `source` names the text in error messages."""
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


def _convert_integers(integers: Array, element_type: ElementType, tensor: TensorSpec, source: str) -> Array:
    try:
        return integers.astype(element_type.dtype)
    except OverflowError:
        raise InputError(f"{source} contains integers out of range of {element_type}, for input {tensor}") from None


def _read_raw(path: Path, _: str, tensor: TensorSpec) -> Array:
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


#: Suffix -> function that reads a file; it is passed the path, the key after the colon and the input.
READERS: dict[str, Callable[[Path, str, TensorSpec], Array]] = {
    ".npy": _read_npy,
    ".npz": _read_npz,
    ".json": _read_json,
    ".bin": _read_raw,
    ".raw": _read_raw,
}


def _generate(kind: str, shape_text: str | None, tensor: TensorSpec, seed: int) -> Array:
    """Create an input from "random", "zeros" or "ones"."""
    shape = _resolve_shape(kind, shape_text, tensor)
    element_type = tensor.element_type or ElementType.parse("f32")
    rng = np.random.default_rng(seed)
    if element_type.kind == "string":
        return np.full(shape, "" if kind == "zeros" else "irrun", dtype=object)
    array: Array
    if kind != "random":
        array = np.full(shape, int(kind == "ones"), np.uint8)
    elif element_type.is_float and not element_type.dtype.fields:
        array = rng.standard_normal(shape, np.float32)
    elif element_type.name == "u8":
        array = rng.integers(0, 256, shape)
    else:
        array = rng.integers(0, 2 if element_type.bits < 8 or element_type.kind == "boolean" else 10, shape)
    if element_type.dtype.fields:
        return array.astype(np.uint8).view(element_type.dtype)
    return array.astype(element_type.dtype)


def _resolve_shape(kind: str, text: str | None, tensor: TensorSpec) -> tuple[int, ...]:
    if text is not None:
        sizes = [part for part in re.split(r"[,x ]+", text.strip().strip("[]")) if part]
        if not all(size.isdecimal() for size in sizes):
            raise InputError(f"expected a shape such as {kind}:1,3,224,224 for input {tensor}, found {kind}:{text}")
        shape = tuple(int(size[:19]) for size in sizes)  # 19 digits exceed any memory
    elif tensor.partial_shape is None:
        raise InputError(f"input {tensor} has an unknown rank, expected a shape such as {kind}:1,3,224,224")
    else:
        shape = tuple(max(d.minimum, 1) if isinstance(d, DynamicDimension) else d for d in tensor.partial_shape)
    try:
        if 0 in shape:
            check_empty(shape)
        check_allocation((*shape, 8), np.dtype(np.uint8))
        np.broadcast_to(np.uint8(0), shape)  # fails if NumPy does not support this many dimensions
    except ValueError:
        raise InputError(f"shape {list(shape)} is too large to be generated, for input {tensor}") from None
    return shape


def _is_scalar(text: str) -> bool:
    """Return whether a text is a number or a boolean."""
    try:
        float(text)
    except ValueError:
        return text.strip() in ("true", "false")
    return True


def _format_inputs(tensors: Sequence[TensorSpec]) -> str:
    return "; ".join(map(str, tensors)) or "no inputs"
