"""Loading of inputs from files, JSON text, random numbers and constants."""

from __future__ import annotations

import math
import os
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from irrun.data.files import READERS, check_member, parse_json, read_file, read_npz_by_name
from irrun.data.image import IMAGE_SUFFIXES, ImageOptions, load_image
from irrun.data.pipe import Pipe, read_stdin
from irrun.element_types import ElementType
from irrun.errors import InputError
from irrun.ir.model import TensorSpec, index_names
from irrun.limits import check_allocation, check_empty
from irrun.shapes import DynamicDimension

__all__ = ["LoadOptions", "load_input", "load_inputs"]

Array = np.ndarray[Any, Any]

_GENERATED = re.compile(r"(random|zeros|ones)(?::(.*))?")

#: The name of stdin instead of a path.
STDIN = "-"


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
        source = read_stdin() if text == STDIN else text
        if position is None:
            members = read_npz_by_name(source, tensors)
            if members:
                for i, value in members.items():
                    _check_not_set(i, arrays, tensors)
                    arrays[i] = value
                continue
            position = next((i for i in range(len(tensors)) if i not in arrays), None)
            if position is None:
                raise InputError(f"too many inputs: expected {_format_inputs(tensors)}, found also {spec!r}")
        elif isinstance(source, Pipe) or text.lower().endswith(".npz"):
            check_member(source, tensors[position])
        _check_not_set(position, arrays, tensors)
        arrays[position] = _load_source(source, tensors[position], options)
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
        text: The path of an .npy, .npz (`file.npz:key`), raw .bin, .json or image file; `-` for an .npy, .npz or
            .json file on stdin; JSON text; or `random`, `zeros`, `ones`, followed by a shape if that of the model is
            dynamic (`random:1,3,224,224`).
        tensor: The input. Its type and shape determine how JSON, raw bytes and images are read.
        options: Seed and image options.

    Returns:
        The array that the text specifies. Its type and shape are validated when it is passed to the model.

    Raises:
        InputError: The file does not exist or does not contain a value for this input.
    """
    return _load_source(read_stdin() if text == STDIN else text, tensor, options or LoadOptions())


def _load_source(text: str | Pipe, tensor: TensorSpec, options: LoadOptions) -> Array:
    if isinstance(text, Pipe):
        return read_file(text, "", tensor)
    generated = _GENERATED.fullmatch(text.strip())
    if generated:
        return _generate(generated[1], generated[2], tensor, options.seed)
    path, key = _split_key(text)
    suffix = path.suffix.lower()
    if _is_image(text):
        return load_image(path, tensor, options.image)
    if text.lstrip()[:1] in ("[", "{", '"') or _is_scalar(text):
        return parse_json(text, tensor, "the text")
    if suffix in READERS:
        return read_file(path, key, tensor)
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
