"""The samples of a run: files with one sample each, and rows of arrays in files."""

from __future__ import annotations

import functools
import glob
import itertools
import os
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from irrun.data.image import IMAGE_SUFFIXES, ImageOptions
from irrun.data.load import LoadOptions, load_input
from irrun.data.npy import read_npy_header
from irrun.errors import InputError
from irrun.ir.model import TensorSpec

__all__ = ["Samples", "Source", "find_source", "load_sample", "open_array"]

Array = np.ndarray[Any, Any]

SUFFIXES = (*IMAGE_SUFFIXES, ".npy", ".npz")


@dataclass(frozen=True)
class Source:
    """The samples named by one argument.

    Attributes:
        names: The files, as the user named them: one per sample, or the .npy or .zarr file of an array.
        rows: The number of samples of an array; None for files with one sample each.
    """

    names: tuple[str, ...]
    rows: int | None = None

    @property
    def count(self) -> int:
        """The number of samples."""
        return len(self.names) if self.rows is None else self.rows

    def get_name(self, index: int) -> str:
        """Return the name of a sample."""
        return self.names[index] if self.rows is None else f"{self.names[0]}[{index}]"


@dataclass(frozen=True)
class Samples:
    """The samples of one input of the model, in the order in which the user named them.

    Attributes:
        sources: The files and arrays.
        folder: The folder to which their names are relative.
    """

    sources: tuple[Source, ...]
    folder: str

    @functools.cached_property
    def _starts(self) -> list[int]:
        return [0, *itertools.accumulate(source.count for source in self.sources)]

    @property
    def count(self) -> int:
        """The number of samples."""
        return self._starts[-1]

    def find(self, index: int) -> tuple[Source, int]:
        """Return the source of a sample, and the position in it."""
        position = bisect_right(self._starts, index) - 1
        return self.sources[position], index - self._starts[position]

    def get_name(self, index: int) -> str:
        """Return the name of a sample, as the user gave it."""
        source, position = self.find(index)
        return source.get_name(position)

    def get_path(self, index: int) -> str:
        """Return the name of a sample with the absolute path of its file."""
        return os.path.join(self.folder, self.get_name(index))

    def load(self, index: int, tensor: TensorSpec, image: ImageOptions) -> Array:
        """Return a sample with the rank of an input of the model.

        Raises:
            InputError: The sample cannot be read. The message names the file as the user did.
        """
        source, position = self.find(index)
        name = source.names[0 if source.rows is not None else position]
        path = os.path.join(self.folder, name)
        try:
            return load_sample(path, None if source.rows is None else position, tensor, image)
        except Exception as error:  # a file may be broken in any way
            text = str(error) if isinstance(error, (InputError, OSError)) else f"{type(error).__name__}: {error}"
            raise InputError(text.replace(path, name)) from None

    def select_first(self) -> Samples:
        """Return the first sample only."""
        source = next(source for source in self.sources if source.count)
        return Samples((Source(source.names[:1], None if source.rows is None else 1),), self.folder)


def load_sample(path: str, row: int | None, tensor: TensorSpec, image: ImageOptions) -> Array:
    """Return the sample in a file, or a row of the array in a file, with the rank of an input.

    Args:
        path: The file.
        row: The position in the array; None for a file with one sample.
        tensor: The input.
        image: How images are converted.
    """
    if row is None:
        return np.asarray(load_input(path, tensor, LoadOptions(0, image)))
    value = np.asarray(open_array(path)[row])
    rank = None if tensor.partial_shape is None else len(tensor.partial_shape)
    return value[np.newaxis] if rank is None or value.ndim < rank else value


def open_array(path: str) -> Any:
    """Return the array in a .npy or .zarr file. Its elements are read when they are used.

    Raises:
        InputError: The file cannot be read.
    """
    file = path if path.endswith(".npy") else os.path.join(path, "zarr.json")
    try:
        status = os.stat(file)
    except OSError:
        return _open_array(path, ())  # reports what is wrong
    return _open_array(path, (status.st_ino, status.st_size, status.st_mtime_ns))


@functools.lru_cache(maxsize=8)
def _open_array(path: str, version: tuple[int, ...]) -> Any:
    """Return the array in a file, of which `version` differs if it is replaced: processes serve several runs."""
    try:
        if path.endswith(".npy"):
            with open(path, "rb") as file:
                read_npy_header(file, os.path.getsize(path))  # otherwise, NumPy would recommend unpickling other files
            return np.load(path, mmap_mode="r", allow_pickle=False)
        import zarr

        return zarr.open_array(path, mode="r")
    except Exception as error:  # broken metadata of an array fails in many ways
        raise InputError(f"cannot read {path}: {str(error) or type(error).__name__}") from None


def find_source(text: str) -> Source:
    """Return the samples in a folder, of a pattern or in a file, sorted by name.

    A link to a missing file is a sample too: it cannot be read, but other samples keep their rows.

    Raises:
        InputError: The source contains no samples.
    """
    path = Path(text)
    if os.path.isdir(text) and path.suffix != ".zarr":
        files = _sort(entry for entry in path.iterdir() if entry.suffix.lower() in SUFFIXES)
        if not files:
            raise InputError(f"{text} contains no images, .npy or .npz files")
        return Source(files)
    if path.suffix in (".npy", ".zarr") and os.path.exists(text):
        shape = open_array(os.path.abspath(text)).shape
        if not shape:
            raise InputError(f"{text} is a scalar, expected an array with samples along its first axis")
        return Source((text,), int(shape[0]))
    if os.path.lexists(text):
        return Source((text,))
    files = _sort(map(Path, glob.glob(text, recursive=True)))
    if not files:
        raise InputError(f"{text!r} is not a folder, a pattern of files, or an array (.npy, .zarr)")
    return Source(files)


def _sort(paths: Any) -> tuple[str, ...]:
    return tuple(sorted(str(path) for path in paths if not path.is_dir()))


def check_counts(samples: Sequence[Samples]) -> int:
    """Return the number of samples, which must be the same for all inputs.

    Raises:
        InputError: The numbers differ, or there are no samples.
    """
    counts = {item.count for item in samples}
    if len(counts) != 1 or 0 in counts:
        raise InputError(f"expected the same positive number of samples for all inputs, found {sorted(counts)}")
    return counts.pop()
