"""Save outputs to files atomically."""

from __future__ import annotations

import json
import os
import re
import stat
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any, BinaryIO

import numpy as np

from irrun.arguments import check_instance, check_path, check_text
from irrun.atomic_files import atomic_write
from irrun.data.storable import to_storable
from irrun.errors import InputError

__all__ = ["FileNames", "check_target", "save_outputs", "write_npy"]

Array = np.ndarray[Any, Any]

#: Maximum length of a name in an .npz file in bytes.
MAX_NAME = 60_000


def save_outputs(outputs: Mapping[str, Array], target: str | os.PathLike[str]) -> list[Path]:
    """Save outputs to an .npz file, an .npy file (one output), a .json file or a folder (one .npy file each).

    Missing folders are created. A .json file contains what `irrun run --json` prints for the outputs. Types that
    NumPy's files do not support are widened without loss; see `to_storable`.

    Args:
        outputs: Name -> array.
        target: The path of the file or folder. The suffix determines the format; a path without a suffix is a folder.

    Returns:
        The files written.

    Raises:
        InputError: The target has another suffix or cannot be written, or an output has too many elements for a .json
            file.
    """
    target = check_path("target", target, "an .npz, .npy or .json file or a folder")
    check_instance("outputs", outputs, Mapping, "a mapping from names to arrays")
    for name, value in outputs.items():
        check_text("a name in outputs", name)
        check_instance(f"outputs[{name!r}]", value, (np.ndarray, np.generic), "an array")
    check_target(target)
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
        if suffix == ".json":
            _write(path, lambda file: _write_json(file, outputs))
            return [path]
        path.mkdir(parents=True, exist_ok=True)
        written: list[Path] = []
        names = FileNames(path)
        for name, value in arrays.items():
            written.append(names.choose(name))
            _write_npy(written[-1], value)
        return written
    except OSError as error:
        raise InputError(f"cannot write {path}: {error.strerror or error}") from None


def check_target(target: str | os.PathLike[str]) -> None:
    """Check that outputs can be saved to a path, judging by its name.

    Args:
        target: The path of the file or folder.

    Raises:
        InputError: It is neither an .npz, .npy or .json file nor a folder.
    """
    path = Path(target)
    expected = "expected an .npz, .npy or .json file or a folder"
    if str(target) in ("", "-"):
        raise InputError(f"{expected} for the outputs, found {str(target)!r}")
    if path.suffix.lower() in (".npz", ".npy", ".json"):
        return
    is_folder = exists = False
    try:
        is_folder = stat.S_ISDIR(path.stat().st_mode)
        exists = True
    except (FileNotFoundError, NotADirectoryError):
        pass
    except (OSError, ValueError) as error:  # a name that is too long, a folder that is not accessible, a null byte
        raise InputError(f"cannot write {path}: {getattr(error, 'strerror', None) or error}") from None
    if path.suffix and not is_folder and not str(target).endswith(("/", os.sep)):
        raise InputError(f"{expected} for the outputs, found {path}")
    if exists and not is_folder:
        raise InputError(f"{path} exists and is not a folder; {expected}")


def _write(path: Path, writer: Callable[[BinaryIO], None]) -> None:
    with atomic_write(path) as file:
        writer(file)


def write_npy(file: BinaryIO, value: Array) -> None:
    """Write an array as np.save does, but raise the error of the system if the disk is full.

    For files that it knows, np.save calls `tofile`, whose error only states numbers of elements.
    """
    np.save(SimpleNamespace(write=file.write), value)


def _write_npy(path: Path, value: Array) -> None:
    _write(path, lambda file: write_npy(file, value))


def _write_npz(file: BinaryIO, arrays: Mapping[str, Array]) -> None:
    """Write arrays as np.savez does, which cannot write an array named "file"."""
    with zipfile.ZipFile(file, "w", allowZip64=True) as archive:
        for name, value in arrays.items():
            if len(name.encode("utf-8", "surrogateescape")) > MAX_NAME:
                raise InputError(f"the name {name!r} has more than {MAX_NAME} bytes, which .npz files do not support")
            with archive.open(f"{name}.npy", "w", force_zip64=True) as entry:
                np.lib.format.write_array(entry, value, allow_pickle=False)


def _write_json(file: BinaryIO, outputs: Mapping[str, Array]) -> None:
    from irrun.data.json_output import MAX_OUTPUT_ELEMENTS, describe_tensor

    for name, value in outputs.items():
        if value.size > MAX_OUTPUT_ELEMENTS:
            raise InputError(
                f"{name} has {value.size} elements, more than the {MAX_OUTPUT_ELEMENTS} that .json files may contain; "
                "expected an .npz file or a folder"
            )
    described = [describe_tensor(name, value, MAX_OUTPUT_ELEMENTS) for name, value in outputs.items()]
    file.write(json.dumps({"outputs": described}).encode())


class FileNames:
    """Chooses a valid and unique file name for each of many values.

    Args:
        folder: The folder of the files.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._numbers: dict[str, int] = {}

    def choose(self, name: str) -> Path:
        """Return a path for a value that differs from all earlier paths, also if the file system ignores case."""
        base = stem = re.sub(r"[^\w.-]+", "_", name)[:100].strip(".") or "output"
        while stem.lower() in self._numbers:
            self._numbers[base.lower()] += 1
            stem = f"{base}_{self._numbers[base.lower()]}"
        self._numbers[stem.lower()] = 1
        return self.folder / f"{stem}.npy"
