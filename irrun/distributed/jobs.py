"""Jobs of `irrun map`: the options, the samples, and the information for workers.

Jobs are sent to workers, which may run on other machines with the same file system.
"""

from __future__ import annotations

import contextlib
import glob
import hashlib
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal

from irrun.arguments import (
    check_choice,
    check_instance,
    check_integer,
    check_number,
    check_path,
    check_paths,
    check_texts,
    describe_value,
)
from irrun.data.image import ImageOptions
from irrun.data.shapes import apply_batch, apply_shapes
from irrun.distributed.samples import Samples, Source, check_counts, find_source
from irrun.errors import InputError
from irrun.ir.model import Model, index_names
from irrun.ir.reader import read_model
from irrun.limits import parse_size
from irrun.runtime.compilation import Jit, is_installed, resolve_jit
from irrun.runtime.passes.precision import PRECISIONS

__all__ = ["Job", "MapOptions", "create_job", "hash_file", "resolve_imports", "resolve_kernels"]

#: Minimum number of samples per task, so that the model takes much more time than the scheduler.
MIN_SAMPLES = 16
#: Minimum number of samples for compiling kernels to pay off.
MIN_JIT_SAMPLES = 200


@dataclass(frozen=True)
class MapOptions:
    """The options for running a model over many inputs.

    Attributes:
        batch: Number of samples per run of the model.
        on_error: Whether an input that cannot be read or computed ends the run ("stop"), or is recorded and its row
            keeps the fill value ("skip").
        weights: The .bin file, if it is not next to the model.
        memory: Memory of one run; see `compile_model`.
        precision: Precision of computations; see `compile_model`.
        threads: Threads of each worker.
        jit: Whether all workers use compiled kernels, which require llvmlite; None for the value of the environment
            variable IRRUN_JIT, or "auto": yes for many samples if llvmlite is installed here. The choice is
            made before the first sample, recorded with the results, and kept when the run continues. Results differ by
            rounding errors.
        image: How images are converted to tensors.
        imports: Python files that register custom operations. Each worker executes them.
        weights_memory: Memory of decompressed weights; see `compile_model`.
        timeout: Time limit of each run in seconds.
        shapes: New shapes of inputs, such as "data=?,3,224,224".

    Raises:
        InputError: A value is invalid.
    """

    batch: int = 1
    on_error: Literal["stop", "skip"] = "stop"
    weights: str | None = None
    memory: int | str | None = None
    precision: str = "f32"
    threads: int = 1
    jit: Jit = None
    image: ImageOptions = field(default_factory=ImageOptions)
    imports: tuple[str, ...] = ()
    weights_memory: int | str | None = None
    timeout: float | None = None
    shapes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        values = {
            "batch": check_integer("batch", self.batch, 1),
            "on_error": check_choice("on_error", self.on_error, ("stop", "skip")),
            "weights": None if self.weights is None else check_path("weights", self.weights),
            "memory": _check_size("memory", self.memory),
            "weights_memory": _check_size("weights_memory", self.weights_memory, accepts_zero=True),
            "precision": check_choice("precision", self.precision, tuple(PRECISIONS)),
            "threads": check_integer("threads", self.threads, 1),
            "image": check_instance("image", self.image, ImageOptions, "an ImageOptions"),
            "imports": tuple(check_paths("imports", self.imports)),
            "timeout": None if self.timeout is None else check_number("timeout", self.timeout, 0, "seconds or None"),
            "shapes": tuple(check_texts("shapes", self.shapes)),
        }
        check_choice("jit", self.jit, (None, True, False, "auto"))
        for name, value in values.items():
            object.__setattr__(self, name, value)


def _check_size(name: str, value: int | str | None, *, accepts_zero: bool = False) -> str | None:
    """Format a number of bytes as text.

    Raises:
        InputError: The value is not a size.
    """
    if value is None:
        return None
    try:
        if not accepts_zero or str(value) != "0":
            parse_size(str(value))
    except ValueError:
        expected = "a number of bytes, or a text such as '800M' or '2G'"
        raise InputError(f"{name} is {describe_value(value)}, expected {expected}") from None
    return str(value)


@dataclass(frozen=True)
class Job:
    """The information for computing any chunk in a worker.

    Attributes:
        model: The .xml file.
        digest: The hash of its contents, its weights, and imported files.
        inputs: The samples by the position of the input of the model.
        input_names: The names of these inputs.
        output: The folder of the results.
        options: The options.
        size: The number of samples of a chunk.
        count: The number of samples.
    """

    model: str
    digest: str
    inputs: tuple[tuple[int, Samples], ...]
    input_names: tuple[str, ...]
    output: str
    options: MapOptions
    size: int
    count: int

    @property
    def chunk_count(self) -> int:
        """The number of chunks."""
        return -(-self.count // self.size)

    def get_range(self, chunk: int) -> range:
        """Return the indices of the samples of a chunk."""
        return range(chunk * self.size, min((chunk + 1) * self.size, self.count))

    def get_name(self, index: int) -> str:
        """Return the names of the inputs of a sample."""
        return ", ".join(samples.get_name(index) for _, samples in self.inputs)

    def hash_samples(self) -> str:
        """Return the hash of the paths of all samples in their order."""
        digest = hashlib.sha256()
        for index in range(self.count):
            paths = ", ".join(samples.get_path(index) for _, samples in self.inputs)
            digest.update(f"{paths}\n".encode("utf-8", "surrogateescape"))
        return digest.hexdigest()

    def select_first(self) -> Job:
        """Return the job of the first sample."""
        return replace(self, inputs=tuple((i, samples.select_first()) for i, samples in self.inputs), count=1)


def resolve_kernels(options: MapOptions, count: int | None) -> MapOptions:
    """Return the options with the choice of kernels for a number of samples (None if unknown).

    Raises:
        InputError: Compiled kernels are required, and llvmlite is not installed.
    """
    jit = resolve_jit(options.jit)
    if jit == "auto":
        jit = is_installed() and (count is None or count >= MIN_JIT_SAMPLES)
    return replace(options, jit=jit)


def read_shaped_model(path: str, options: MapOptions) -> Model:
    """Read a model and set the shapes of its inputs from the options.

    A model declared for one sample gets a dynamic batch if the options have a larger batch. If its layers do not
    support this, samples run one by one.

    Args:
        path: The .xml file.
        options: The options.

    Raises:
        IrrunError: The file is invalid, or the model does not accept a shape.
    """
    model = read_model(path, options.weights)
    apply_shapes(model, options.shapes)
    has_state = any(layer.reads_variable for layer in model.graph.layers)
    if options.batch > 1 and not options.shapes and not has_state:
        with contextlib.suppress(InputError):
            apply_batch(model, -1)
    return model


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
    model: str | os.PathLike[str],
    inputs: str | Sequence[str | os.PathLike[str]],
    output: str | os.PathLike[str],
    options: MapOptions,
) -> Job:
    """Read the inputs of the model and find the samples.

    Args:
        model: The .xml file.
        inputs: Texts of the form `[name=]source`; see `map_inputs`.
        output: The folder of the results.
        options: Batches, kernels and images. The choice of kernels is not yet made.

    Raises:
        InputError: A source does not exist, is not an input of the model, or has a different number of samples.
    """
    model_path = check_path("model", model, "the path of an .xml file")
    target = check_path("output", output, "the path of a folder")
    check_instance("options", options, MapOptions, "a MapOptions")
    texts = check_paths("inputs", inputs, "a list of folders, patterns or files")
    source = read_shaped_model(model_path, options)
    specs = source.inputs
    names = index_names(specs)
    sources: dict[int, list[Source]] = {}
    for text in texts:
        position, place = _find_position(text, names, sources, [str(spec) for spec in specs])
        sources.setdefault(position, []).append(find_source(place))
    missing = [str(spec) for i, spec in enumerate(specs) if i not in sources]
    if missing:
        raise InputError(f"missing input {', '.join(missing)}")
    samples = {position: Samples(tuple(found), os.getcwd()) for position, found in sorted(sources.items())}
    count = check_counts(list(samples.values()))
    digest = hash_file(Path(model_path))
    weights = Path(options.weights) if options.weights else Path(model_path).with_suffix(".bin")
    if weights.is_file():
        digest += hash_file(weights)
    options = resolve_imports(options)
    digest += "".join(hash_file(Path(file)) for file in options.imports)
    size = options.batch * -(-MIN_SAMPLES // options.batch)
    return Job(
        str(Path(model_path).resolve()),
        digest,
        tuple(samples.items()),
        tuple(specs[position].names[0] if specs[position].names else str(position) for position in samples),
        str(Path(target).resolve()),
        options,
        size,
        count,
    )


def _find_position(
    text: str, names: Mapping[str, int], sources: Mapping[int, object], specs: Sequence[str]
) -> tuple[int, str]:
    """Parse a text of the form `[name=]source`; return the input and the source.

    A text without a name is for the next input. If the model has a single input, all texts are for it.
    """
    name, equals, rest = text.partition("=")
    if equals and name in names:
        return names[name], rest
    if equals and not os.path.lexists(text) and not glob.glob(text):
        raise InputError(f"unknown input {name!r}; the model has {'; '.join(specs)}")
    free = next((i for i in range(len(specs)) if i not in sources), 0 if len(specs) == 1 else -1)
    if free < 0:
        raise InputError(f"too many inputs: {text!r}; the model has {len(specs)}")
    return free, text


def hash_file(path: Path) -> str:
    """Return the SHA-256 digest of a file.

    Raises:
        InputError: The file cannot be read.
    """
    digest = hashlib.sha256()
    try:
        with open(path, "rb") as file:
            while block := file.read(1 << 20):
                digest.update(block)
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror or error}") from None
    return digest.hexdigest()
