"""Outputs as files, each written under a temporary name and renamed when it is whole."""

from __future__ import annotations

import os
import re
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from irrun.element_types import ElementType
from irrun.errors import InputError
from irrun.files import atomic_write

__all__ = ["save_outputs", "to_storable"]

Array = np.ndarray[Any, Any]


def save_outputs(outputs: Mapping[str, Array], target: str | os.PathLike[str]) -> list[Path]:
    """Write outputs to an .npz, an .npy (one output) or a folder (one .npy each).

    Types that NumPy's files do not know are widened without loss (`to_storable`).

    Returns:
        The files written.

    Raises:
        InputError: the target is of no known kind, or cannot be written.
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
                    f"{path} holds one output, the model has {', '.join(arrays)}; name an .npz or a folder"
                )
            (value,) = arrays.values()
            _write(path, lambda file: np.save(file, value))
            return [path]
        if suffix and not path.is_dir() and not str(target).endswith(("/", os.sep)):
            raise InputError(f"{path}: outputs are written to .npz, .npy or a folder")
        if path.exists() and not path.is_dir():
            raise InputError(f"{path} is there and is no folder; outputs are written to .npz, .npy or a folder")
        path.mkdir(parents=True, exist_ok=True)
        written: list[Path] = []
        for name, value in arrays.items():
            file_path = _free_name(path, name, written)
            _write(file_path, lambda file, value=value: np.save(file, value))  # type: ignore[misc]
            written.append(file_path)
        return written
    except OSError as error:
        raise InputError(f"cannot write {path}: {error.strerror or error}") from None


def to_storable(value: Array) -> Array:
    """`value` in a type that .npy files know: narrow floats as f32, narrow integers as 8 bits, strings as text."""
    element = ElementType.of(value.dtype)
    if element.kind == "string":
        return value.astype(np.str_)
    if value.dtype.fields:
        return value.view(np.uint8)
    if value.dtype.kind not in "V" and not value.dtype.name.startswith(
        ("bfloat", "float8", "float4", "int4", "uint4", "uint2")
    ):
        return value
    return value.astype(np.float32 if element.is_float else np.int8 if element.kind == "int" else np.uint8)


def _write(path: Path, writer: Callable[[BinaryIO], None]) -> None:
    with atomic_write(path) as file:
        writer(file)


def _write_npz(file: BinaryIO, arrays: Mapping[str, Array]) -> None:
    """As np.savez, which cannot write an output that is called "file"."""
    with zipfile.ZipFile(file, "w", allowZip64=True) as archive:
        for name, value in arrays.items():
            with archive.open(f"{name}.npy", "w", force_zip64=True) as entry:
                np.lib.format.write_array(entry, value, allow_pickle=False)


def _free_name(folder: Path, name: str, taken: list[Path]) -> Path:
    safe = re.sub(r"[^\w.-]+", "_", name)[:100].strip(".") or "output"
    path = folder / f"{safe}.npy"
    number = 2
    while path in taken:
        path = folder / f"{safe}_{number}.npy"
        number += 1
    return path
