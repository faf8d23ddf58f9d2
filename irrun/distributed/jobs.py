"""What `irrun map` computes: the samples, and what workers need to know.

Jobs are sent to workers, which may run on other machines with the same file system.
"""

from __future__ import annotations

import functools
import glob
import hashlib
import os
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np

from irrun.data.image import IMAGE_SUFFIXES, ImageOptions
from irrun.data.load import LoadOptions, load_input
from irrun.errors import InputError
from irrun.ir.model import TensorSpec, index_names
from irrun.ir.reader import read_model
from irrun.runtime.compilation import is_installed, resolve_jit

__all__ = ["Job", "MapOptions", "create_job", "hash_file", "resolve_imports", "resolve_kernels"]

Array = np.ndarray[Any, Any]

#: Smallest number of samples per task, so that the time of the scheduler is small against that of the model.
MIN_SAMPLES = 16
#: Samples for which compiling kernels pays.
MIN_JIT_SAMPLES = 200
SUFFIXES = (*IMAGE_SUFFIXES, ".npy", ".npz")


@dataclass(frozen=True)
class MapOptions:
    """How a model is run over many inputs.

    Attributes:
        batch: Number of samples that are passed to the model at once.
        on_error: Whether an input that cannot be read or computed ends the run, or is recorded and skipped.
        weights: The .bin file, if it is not next to the model.
        memory: Memory of one run; see `compile_model`.
        precision: Precision of computations; see `compile_model`.
        threads: Threads of each worker.
        jit: Whether all workers use compiled kernels, which require llvmlite. By default, those of runs over many
            samples do if it is installed here. Results differ by rounding errors.
        image: How images are converted to tensors.
        imports: Python files that register custom operations. Each worker executes them.
    """

    batch: int = 1
    on_error: Literal["stop", "skip"] = "stop"
    weights: str | None = None
    memory: str | None = None
    precision: str = "f32"
    threads: int = 1
    jit: bool | None = None
    image: ImageOptions = field(default_factory=ImageOptions)
    imports: tuple[str, ...] = ()


@dataclass(frozen=True)
class Samples:
    """The samples of one input: files with one sample each, or the rows of an array in a file.

    Attributes:
        files: The files; empty for an array.
        array: The .npy or .zarr file of an array, or "".
        count: Number of samples.
    """

    files: tuple[str, ...]
    array: str
    count: int

    def get_name(self, index: int) -> str:
        return self.files[index] if self.files else f"{self.array}[{index}]"

    def load(self, index: int, tensor: TensorSpec, options: MapOptions) -> Array:
        """Return a sample with the rank of the input."""
        if self.files:
            return np.asarray(load_input(self.files[index], tensor, LoadOptions(0, options.image)))
        value = np.asarray(open_array(self.array)[index])
        rank = None if tensor.partial_shape is None else len(tensor.partial_shape)
        return value[np.newaxis] if rank is None or value.ndim < rank else value


@dataclass(frozen=True)
class Job:
    """What a worker needs to compute any chunk."""

    model: str
    digest: str
    inputs: tuple[tuple[int, Samples], ...]
    output: str
    options: MapOptions
    size: int
    count: int

    def get_range(self, chunk: int) -> range:
        """Return the indices of the samples of a chunk."""
        return range(chunk * self.size, min((chunk + 1) * self.size, self.count))

    def get_name(self, index: int) -> str:
        """Return the names of the inputs of a sample."""
        return ", ".join(samples.get_name(index) for _, samples in self.inputs)

    def select_first(self) -> Job:
        """Return the job of the first sample."""
        inputs = tuple((i, Samples(s.files[:1], s.array, 1)) for i, s in self.inputs)
        return replace(self, inputs=inputs, count=1)


@functools.lru_cache(maxsize=8)
def open_array(path: str) -> Any:
    try:
        if path.endswith(".npy"):
            with open(path, "rb") as file:
                np.lib.format.read_magic(file)  # otherwise NumPy recommends to unpickle the file
            return np.load(path, mmap_mode="r", allow_pickle=False)
        import zarr

        return zarr.open_array(path, mode="r")
    except (OSError, ValueError, EOFError) as error:
        raise InputError(f"cannot read {path}: {error}") from None


def resolve_kernels(options: MapOptions, count: int | None) -> MapOptions:
    """Return the options with the choice of kernels for a number of samples, which may be unknown."""
    if options.jit is not None:
        return options
    pays = count is None or count >= MIN_JIT_SAMPLES
    return replace(options, jit=pays and resolve_jit(None) is not False and is_installed())


def resolve_imports(options: MapOptions) -> MapOptions:
    """Return the options with absolute paths of the imported files.

    Raises:
        InputError: A file does not exist.
    """
    for file in options.imports:
        if not os.path.isfile(file):
            raise InputError(f"expected a Python file, found {file!r}")
    return replace(options, imports=tuple(os.path.abspath(file) for file in options.imports))


def create_job(
    model: str | os.PathLike[str], inputs: Sequence[str], output: str | os.PathLike[str], options: MapOptions
) -> Job:
    """Read the inputs of the model and find the samples.

    Args:
        model: The .xml file.
        inputs: Texts of the form `[name=]source`; see `map_inputs`.
        output: The folder of the results.
        options: Batches, kernels and images.

    Raises:
        InputError: A source does not exist, is not an input of the model, or has another number of samples.
    """
    if options.batch < 1:
        raise InputError(f"expected a batch of at least 1, found {options.batch}")
    source = read_model(model, options.weights)
    positions: dict[int, Samples] = {}
    names = index_names(source.inputs)
    for text in inputs:
        name, equals, rest = text.partition("=")
        if equals and name in names:
            position, text = names[name], rest
        elif equals and not os.path.exists(text) and not glob.glob(text):
            raise InputError(f"unknown input {name!r}; the model has {'; '.join(map(str, source.inputs))}")
        else:
            position = next((i for i in range(len(source.inputs)) if i not in positions), -1)
        if position < 0 or position in positions:
            raise InputError(f"{text!r} is one input too many; the model has {len(source.inputs)}")
        positions[position] = _find_samples(text)
    missing = [str(spec) for i, spec in enumerate(source.inputs) if i not in positions]
    if missing:
        raise InputError(f"missing input {', '.join(missing)}")
    counts = {samples.count for samples in positions.values()}
    if len(counts) != 1 or 0 in counts:
        raise InputError(f"expected the same positive number of samples for all inputs, found {sorted(counts)}")
    digest = hash_file(Path(model))
    weights = Path(options.weights) if options.weights else Path(model).with_suffix(".bin")
    if weights.is_file():
        digest += hash_file(weights)
    options = resolve_imports(options)
    digest += "".join(hash_file(Path(file)) for file in options.imports)
    size = options.batch * -(-MIN_SAMPLES // options.batch)
    path = str(Path(model).resolve())
    target = str(Path(output).resolve())
    count = counts.pop()
    options = resolve_kernels(options, count)
    return Job(path, digest, tuple(sorted(positions.items())), target, options, size, count)


def _find_samples(text: str) -> Samples:
    path = Path(text)
    if path.is_dir() and path.suffix != ".zarr":
        files = sorted(str(p.resolve()) for p in path.iterdir() if p.suffix.lower() in SUFFIXES)
        if not files:
            raise InputError(f"{text} contains no images, .npy or .npz files")
        return Samples(tuple(files), "", len(files))
    if path.suffix in (".npy", ".zarr") and path.exists():
        name = str(path.resolve())
        shape = open_array(name).shape
        if not shape:
            raise InputError(f"{text} is a scalar, expected an array whose first axis counts samples")
        return Samples((), name, int(shape[0]))
    files = sorted(str(Path(p).resolve()) for p in glob.glob(text, recursive=True) if os.path.isfile(p))
    if not files:
        raise InputError(f"{text!r} is not a folder, a pattern of files, or an array (.npy, .zarr)")
    return Samples(tuple(files), "", len(files))


def hash_file(path: Path) -> str:
    """Return the SHA-256 digest of a file."""
    digest = hashlib.sha256()
    with open(path, "rb") as file:
        while block := file.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()
