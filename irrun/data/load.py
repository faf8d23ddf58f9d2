"""Inputs from what a user writes: a file, JSON text, `random`, `zeros`."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from irrun.data.image import IMAGE_SUFFIXES, ImageOptions, load_image
from irrun.element_types import ElementType
from irrun.errors import InputError
from irrun.ir.model import TensorSpec, index_names
from irrun.limits import check_allocation
from irrun.packing import unpack
from irrun.shapes import DynamicDimension

__all__ = ["LoadOptions", "load_input", "load_inputs"]

Array = np.ndarray[Any, Any]

_GENERATED = re.compile(r"(random|zeros|ones)(?::([\d,x ]*))?")


@dataclass(frozen=True)
class LoadOptions:
    """How inputs are made where their text leaves it open.

    Attributes:
        seed: of the generator behind `random`.
        image: how pictures become tensors.
    """

    seed: int = 0
    image: ImageOptions = field(default_factory=ImageOptions)


def load_inputs(
    specs: Iterable[str], tensors: Sequence[TensorSpec], options: LoadOptions | None = None
) -> dict[str | int, Array]:
    """Inputs from texts such as "x.npy", "ids=[[1,2,3]]", "data=street.jpg", "all.npz".

    A text without a name stands for the next input that has no value yet; an .npz whose keys are names of inputs
    may stand for several at once. The result is by name, and by position where an input has no name of its own.

    Args:
        specs: `[name=]value`, as `load_input` takes values.
        tensors: the model's inputs.
        options: seed and image options.

    Raises:
        InputError: an unknown name, a value that cannot be read, an input fed twice or not at all.
    """
    options = options or LoadOptions()
    given: dict[int, Array] = {}
    for spec in [specs] if isinstance(specs, str) else specs:
        position, text = _split_name(spec, tensors)
        if position is None:
            several = _named_in_npz(text, tensors)
            if several:
                for i, value in several.items():
                    given[_unfed(i, given, tensors)] = value
                continue
            position = next((i for i in range(len(tensors)) if i not in given), None)
            if position is None:
                raise InputError(f"{spec!r} is one input more than the model has; it takes {_wanted(tensors)}")
        given[_unfed(position, given, tensors)] = load_input(text, tensors[position], options)
    missing = [t for i, t in enumerate(tensors) if i not in given]
    if missing:
        raise InputError(
            f"missing input {_wanted(missing)}" + (f"; the model takes {_wanted(tensors)}" if given else "")
        )
    names = index_names(tensors)
    return {t.names[0] if t.names and names[t.names[0]] == i else i: given[i] for i, t in enumerate(tensors)}


def load_input(text: str, tensor: TensorSpec, options: LoadOptions | None = None) -> Array:
    """One input from a text.

    Args:
        text: a path to .npy, .npz (`file.npz:key`), raw .bin, .json or a picture; JSON itself; or `random`,
            `zeros`, `ones`, with a shape where the model leaves it open (`random:1,3,224,224`).
        tensor: what it is for: its type and shape decide how text, raw bytes and pictures are read.
        options: seed and image options.

    Raises:
        InputError: there is no such file, or it does not hold what the model wants.
    """
    options = options or LoadOptions()
    generated = _GENERATED.fullmatch(text.strip())
    if generated:
        return _generate(generated[1], generated[2], tensor, options.seed)
    path, _, key = _split_key(text)
    suffix = path.suffix.lower()
    if suffix in IMAGE_SUFFIXES and os.path.isfile(path):
        return load_image(path, tensor, options.image)
    if text.lstrip()[:1] in ("[", "{", '"') or _is_number(text):
        return _from_json(text, tensor, "the text")
    if suffix in READERS:
        try:
            if os.path.exists(path) and not os.path.isfile(path):  # a pipe would wait for whoever writes into it
                raise OSError("it is a folder" if path.is_dir() else "it is no regular file")
            with np.errstate(all="ignore"):  # NumPy multiplies the sizes that a header states
                return READERS[suffix](path, key, tensor)
        except InputError:
            raise
        except OSError as error:
            raise InputError(f"cannot read {path}: {error.strerror or error}, for input {tensor}") from None
        except MemoryError:
            raise InputError(f"{path} is larger than the memory, for input {tensor}") from None
        except Exception as error:  # of many kinds, where a file is not what its name says
            raise InputError(f"{path} cannot be read as {suffix[1:]}: {error}, for input {tensor}") from None
    if os.path.isfile(path):
        raise InputError(
            f"{path}: irrun reads .npy, .npz, .bin, .json and pictures ({', '.join(IMAGE_SUFFIXES)}), not {suffix}"
        )
    raise InputError(f"{text!r} is no file, no JSON, and neither random, zeros nor ones; it stands for input {tensor}")


def _split_name(spec: str, tensors: Sequence[TensorSpec]) -> tuple[int | None, str]:
    names = [pair for pair in index_names(tensors).items() if spec.startswith(pair[0] + "=")]
    if names:
        name, position = max(names, key=lambda pair: len(pair[0]))
        return position, spec[len(name) + 1 :]
    name, equals, rest = spec.partition("=")
    if equals and not os.path.exists(spec) and not re.match(r"\s*[\[{\"]", spec):
        if name.isdecimal() and int(name) < len(tensors):
            return int(name), rest
        raise InputError(f"no input {name!r}; the model takes {_wanted(tensors)}")
    return None, spec


def _split_key(text: str) -> tuple[Path, str, str]:
    match = re.fullmatch(r"(.*\.npz):(.+)", text)
    return (Path(match[1]), ":", match[2]) if match else (Path(text), "", "")


def _unfed(position: int, given: dict[int, Array], tensors: Sequence[TensorSpec]) -> int:
    if position in given:
        raise InputError(f"input {tensors[position]} is fed twice")
    return position


def _named_in_npz(text: str, tensors: Sequence[TensorSpec]) -> dict[int, Array]:
    path = Path(text)
    if path.suffix.lower() != ".npz" or not os.path.isfile(path):
        return {}
    try:
        with np.load(path, allow_pickle=False) as archive:
            found: dict[int, str] = {}
            for key in archive.files:
                for i, tensor in enumerate(tensors):
                    if key in tensor.names and i not in found:
                        found[i] = key
            if len(found) == 1 < len(archive.files):
                return {}
            return {i: _member(archive, key, tensors[i], path) for i, key in found.items()}
    except InputError:
        raise
    except MemoryError:
        raise InputError(f"{path} is larger than the memory, expected arrays for {_wanted(tensors)}") from None
    except Exception as error:  # as in load_input
        raise InputError(f"cannot read {path} as npz: {error}, expected arrays for {_wanted(tensors)}") from None


def _from_npz(path: Path, key: str, tensor: TensorSpec) -> Array:
    with np.load(path, allow_pickle=False) as archive:
        if not key:
            fitting = [k for k in archive.files if k in tensor.names]
            if not fitting and len(archive.files) != 1:
                raise InputError(
                    f"{path} holds {', '.join(archive.files) or 'nothing'}; name one as {path}:KEY for input {tensor}"
                )
            key = fitting[0] if fitting else archive.files[0]
        if key not in archive.files:
            raise InputError(f"{path} has no {key!r}, it holds {', '.join(archive.files)}")
        return _member(archive, key, tensor, path)


def _member(archive: Any, key: str, tensor: TensorSpec, path: Path) -> Array:
    """One array of an .npz. Its header is read first: a small file may unpack to any size."""
    if f"{key}.npy" not in archive.zip.namelist():
        raise InputError(f"{key!r} in {path} is no array, for input {tensor}")
    with archive.zip.open(f"{key}.npy") as file:
        first = np.lib.format.read_magic(file) == (1, 0)
        header = (np.lib.format.read_array_header_1_0 if first else np.lib.format.read_array_header_2_0)(file)
    shape, dtype = header[0], header[2]
    if tensor.partial_shape is not None and not tensor.partial_shape.is_compatible(shape):
        raise InputError(f"{key!r} in {path} has the shape {list(shape)}, for input {tensor}")
    check_allocation(shape, dtype)
    value: Array = archive[key]
    return value


def _from_npy(path: Path, _: str, tensor: TensorSpec) -> Array:
    value = np.load(path, allow_pickle=False, mmap_mode="r")
    if not isinstance(value, np.ndarray):
        raise InputError(f"{path} holds no array, for input {tensor}")
    return value


def _from_json_file(path: Path, _: str, tensor: TensorSpec) -> Array:
    return _from_json(path.read_text(encoding="utf-8-sig"), tensor, str(path))


def _from_json(text: str, tensor: TensorSpec, where: str) -> Array:
    try:
        value = json.loads(text)
    except json.JSONDecodeError as error:
        raise InputError(f"{where} is no JSON: {error}, for input {tensor}") from None
    except (RecursionError, ValueError):  # 100,000 brackets, numbers of 5000 digits
        raise InputError(f"{where} is no JSON that anyone would write, for input {tensor}") from None
    if isinstance(value, dict):
        raise InputError(f"{where} is a JSON object, expected lists of numbers for input {tensor}")
    if tensor.element_type is not None and tensor.element_type.kind == "string":
        return np.array(value, dtype=object)
    try:
        array = np.array(value)
    except ValueError:
        told = f"{where} holds lists of different lengths, or too many in each other"
        raise InputError(f"{told}, for input {tensor}") from None
    wanted = tensor.element_type
    if array.dtype.kind in "fO" and wanted is not None and wanted.dtype.kind in "iu":
        # NumPy takes integers beyond i64 for floats or objects.
        exact = np.array(value, object)
        if all(type(v) is int for v in exact.reshape(-1)):
            try:
                return exact.astype(wanted.dtype)
            except OverflowError:
                raise InputError(f"{where} holds integers that do not fit {wanted}, for input {tensor}") from None
    if array.dtype.kind not in "iufb":
        told = f"{where} holds something other than numbers of at most 64 bits"
        raise InputError(f"{told}, for input {tensor}")
    if wanted is not None and wanted.is_float and not wanted.dtype.fields:
        return array.astype(wanted.dtype)  # decimal text has no width that could be lost
    return array


def _from_bytes(path: Path, _: str, tensor: TensorSpec) -> Array:
    wanted = tensor.element_type
    shape = tensor.partial_shape
    if wanted is None or wanted.kind == "string" or shape is None:
        raise InputError(f"{path}: raw bytes need a declared type and rank, the input is {tensor}")
    data = np.fromfile(path, np.uint8)
    open_dimensions = [i for i, d in enumerate(shape) if isinstance(d, DynamicDimension)]
    sizes = [1 if isinstance(d, DynamicDimension) else d for d in shape]
    known = int(np.prod(sizes, dtype=object)) if sizes else 1
    if len(open_dimensions) == 1 and known and wanted.bits:
        sizes[open_dimensions[0]] = data.size * 8 // wanted.bits // known
    elif open_dimensions:
        raise InputError(f"{path}: raw bytes leave the shape of input {tensor} open")
    expected = wanted.get_byte_size(int(np.prod(sizes, dtype=object)) if sizes else 1)
    if data.size != expected:
        raise InputError(f"{path} has {data.size} bytes, input {tensor} takes {expected}")
    return unpack(wanted, data, sizes)


#: What reads a file of each suffix, given its path, the key after the colon and the input that it is for.
READERS: dict[str, Callable[[Path, str, TensorSpec], Array]] = {
    ".npy": _from_npy,
    ".npz": _from_npz,
    ".json": _from_json_file,
    ".bin": _from_bytes,
    ".raw": _from_bytes,
}


def _generate(how: str, shape_text: str | None, tensor: TensorSpec, seed: int) -> Array:
    shape = _shape_for(how, shape_text, tensor)
    wanted = tensor.element_type or ElementType.parse("f32")
    rng = np.random.default_rng(seed)
    if wanted.kind == "string":
        return np.full(shape, "" if how == "zeros" else "irrun", dtype=object)
    fill: Array
    if how != "random":
        fill = np.full(shape, int(how == "ones"), np.uint8)
    elif wanted.is_float and not wanted.dtype.fields:
        fill = rng.standard_normal(shape, np.float32)
    elif wanted.name == "u8":
        fill = rng.integers(0, 256, shape)
    else:
        fill = rng.integers(0, 2 if wanted.bits < 8 or wanted.kind == "boolean" else 10, shape)
    return fill.astype(np.uint8).view(wanted.dtype) if wanted.dtype.fields else fill.astype(wanted.dtype)


def _shape_for(how: str, text: str | None, tensor: TensorSpec) -> tuple[int, ...]:
    if text is not None:
        shape = tuple(int(d[:19]) for d in re.split(r"[,x ]+", text.strip()) if d)  # 19 digits are too many already
    elif tensor.partial_shape is None:
        raise InputError(f"input {tensor} has an unknown rank; give a shape, such as {how}:1,3,224,224")
    else:
        shape = tuple(max(d.minimum, 1) if isinstance(d, DynamicDimension) else d for d in tensor.partial_shape)
    try:
        check_allocation((*shape, 8), np.dtype(np.uint8))
        np.broadcast_to(np.uint8(0), shape)  # fails where NumPy has not so many dimensions
    except (InputError, ValueError):
        raise InputError(f"a shape of {list(shape)} is too large to be made up, for input {tensor}") from None
    return shape


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return text.strip() in ("true", "false")
    return True


def _wanted(tensors: Sequence[TensorSpec]) -> str:
    return "; ".join(map(str, tensors)) or "no inputs"
