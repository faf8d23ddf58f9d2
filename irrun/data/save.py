"""Saving of outputs to files, which are written atomically."""

from __future__ import annotations

import os
import re
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from irrun.atomic_files import atomic_write
from irrun.element_types import ElementType
from irrun.errors import InputError

__all__ = ["save_outputs", "to_storable"]

Array = np.ndarray[Any, Any]


def save_outputs(outputs: Mapping[str, Array], target: str | os.PathLike[str]) -> list[Path]:
    """Save outputs to an .npz file, to an .npy file (one output) or to a folder (one .npy file each).

    Types that NumPy's files do not support are widened without loss; see `to_storable`.

    Args:
        outputs: Name -> array.
        target: The path of the file or folder. The suffix determines the format; a path without a suffix is a folder.

    Returns:
        The files written.

    Raises:
        InputError: The target is neither of these, or cannot be written.
    """
    path = Path(target)
    arrays = {name: to_storable(value) for name, value in outputs.items()}
    suffix = path.suffix.lower()
    try:
        if suffix == ".npz":
            _write(path, lambda file: _write_npz(file, arrays))
            return [path]
        if suffix == ".npy":
            if len(arrays) != 1:
                raise InputError(
                    f"an .npy file stores one output, found {', '.join(arrays)}; expected {path} to be an .npz file "
                    "or a folder"
                )
            _write_npy(path, *arrays.values())
            return [path]
        if suffix and not path.is_dir() and not str(target).endswith(("/", os.sep)):
            raise InputError(f"expected an .npz file, an .npy file or a folder for the outputs, found {path}")
        if path.exists() and not path.is_dir():
            raise InputError(f"{path} exists and is not a folder; expected an .npz file, an .npy file or a folder")
        path.mkdir(parents=True, exist_ok=True)
        written: list[Path] = []
        for name, value in arrays.items():
            written.append(_choose_path(path, name, written))
            _write_npy(written[-1], value)
        return written
    except OSError as error:
        raise InputError(f"cannot write {path}: {error.strerror or error}") from None


def to_storable(value: Array) -> Array:
    """Convert an array to a type that .npy files support.

    Args:
        value: An array of any element type.

    Returns:
        Low-precision floats that NumPy does not support in f32, sub-byte integers in 8 bits, strings as Unicode text,
        and all other types unchanged.
    """
    element_type = ElementType.of(value.dtype)
    if element_type.kind == "string":
        return value.astype(np.str_)
    if value.dtype.fields:
        return value.view(np.uint8)
    if value.dtype.kind not in "V" and not value.dtype.name.startswith(
        ("bfloat", "float8", "float4", "int4", "uint4", "uint2")
    ):
        return value
    if element_type.is_float:
        return value.astype(np.float32)
    return value.astype(np.int8 if element_type.kind == "int" else np.uint8)


def _write(path: Path, writer: Callable[[BinaryIO], None]) -> None:
    with atomic_write(path) as file:
        writer(file)


def _write_npy(path: Path, value: Array) -> None:
    _write(path, lambda file: np.save(file, value))


def _write_npz(file: BinaryIO, arrays: Mapping[str, Array]) -> None:
    """Write arrays as np.savez does, which cannot write an array named "file"."""
    with zipfile.ZipFile(file, "w", allowZip64=True) as archive:
        for name, value in arrays.items():
            with archive.open(f"{name}.npy", "w", force_zip64=True) as entry:
                np.lib.format.write_array(entry, value, allow_pickle=False)


def _choose_path(folder: Path, name: str, taken: list[Path]) -> Path:
    """Return a path for an output that is a valid file name and not in `taken`."""
    stem = re.sub(r"[^\w.-]+", "_", name)[:100].strip(".") or "output"
    path = folder / f"{stem}.npy"
    number = 2
    while path in taken:
        path = folder / f"{stem}_{number}.npy"
        number += 1
    return path
