"""Runs of a model over many inputs on Dask: on the cores of this machine, or on any cluster.

A run writes a Zarr group, chunk by chunk. A manifest in it describes the model and the options, and a record of each
chunk is written after its results. A run that was stopped continues with the chunks that have no record, and a worker
that is killed loses nothing, since Dask computes its chunks again.
"""

from __future__ import annotations

import functools
import glob
import hashlib
import importlib.util
import json
import os
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np

from irrun.atomic_files import atomic_write
from irrun.data.image import IMAGE_SUFFIXES, ImageOptions
from irrun.data.load import LoadOptions, load_input
from irrun.data.save import to_storable
from irrun.errors import InputError, IrrunError
from irrun.ir.model import TensorSpec, index_names
from irrun.ir.reader import read_model
from irrun.runtime.compilation import is_installed, resolve_jit
from irrun.runtime.malloc import override_thresholds
from irrun.runtime.request import CompiledModel, InferRequest, compile_model

__all__ = ["MapOptions", "Progress", "map_batches", "map_inputs"]

Array = np.ndarray[Any, Any]

MANIFEST, RECORDS, RAGGED = "irrun.json", "irrun-chunks", "ragged"
#: Smallest number of samples per task, so that the time of the scheduler is small against that of the model.
MIN_SAMPLES = 16
#: Samples for which compiling kernels pays.
MIN_JIT_SAMPLES = 200
SUFFIXES = (*IMAGE_SUFFIXES, ".npy", ".npz")

#: Called with the number of samples that are finished, and of all.
Progress = Callable[[int, int], None]


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
    """

    batch: int = 1
    on_error: Literal["stop", "skip"] = "stop"
    weights: str | None = None
    memory: str | None = None
    precision: str = "f32"
    threads: int = 1
    jit: bool | None = None
    image: ImageOptions = field(default_factory=ImageOptions)


@dataclass(frozen=True)
class _Samples:
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
        value = np.asarray(_open_array(self.array)[index])
        rank = None if tensor.partial_shape is None else len(tensor.partial_shape)
        return value[np.newaxis] if rank is None or value.ndim < rank else value


@dataclass(frozen=True)
class _Job:
    """What a worker needs to compute any chunk."""

    model: str
    digest: str
    inputs: tuple[tuple[int, _Samples], ...]
    output: str
    options: MapOptions
    size: int
    count: int

    def get_range(self, chunk: int) -> range:
        return range(chunk * self.size, min((chunk + 1) * self.size, self.count))

    def get_name(self, index: int) -> str:
        return ", ".join(samples.get_name(index) for _, samples in self.inputs)


@functools.lru_cache(maxsize=8)
def _open_array(path: str) -> Any:
    try:
        if path.endswith(".npy"):
            with open(path, "rb") as file:
                np.lib.format.read_magic(file)  # otherwise NumPy recommends to unpickle the file
            return np.load(path, mmap_mode="r", allow_pickle=False)
        import zarr

        return zarr.open_array(path, mode="r")
    except (OSError, ValueError, EOFError) as error:
        raise InputError(f"cannot read {path}: {error}") from None


@functools.lru_cache(maxsize=2)
def _compile(model: str, digest: str, options: MapOptions) -> CompiledModel:
    """Compile a model once per worker; its weights are mapped, so that workers of one machine share them."""
    override_thresholds()
    source = read_model(model, options.weights)
    return compile_model(
        source,
        memory=options.memory,
        threads=options.threads,
        precision=options.precision,
        # With "auto", the bits of results would depend on the time when kernels are complete.
        jit=bool(options.jit),
    )


def _resolve_jit(options: MapOptions, count: int | None) -> MapOptions:
    """Return the options with the choice of kernels for a number of samples, which may be unknown."""
    if options.jit is not None:
        return options
    pays = count is None or count >= MIN_JIT_SAMPLES
    return replace(options, jit=pays and resolve_jit(None) is not False and is_installed())


def map_inputs(
    model: str | os.PathLike[str],
    inputs: Sequence[str],
    output: str | os.PathLike[str],
    options: MapOptions | None = None,
    *,
    scheduler: str | None = None,
    workers: int | None = None,
    progress: Progress | None = None,
) -> dict[str, str]:
    """Run a model over many inputs and write the results to a Zarr group; continue if it exists.

    Each output of the model is an array whose first axis counts samples. Samples whose output has another shape than
    that of the first sample are arrays of their own in the group "ragged".

    Args:
        model: The .xml file.
        inputs: Texts of the form `[name=]source`: a folder or glob pattern of images, .npy and .npz files, or an array
            (.npy or .zarr) whose first axis counts samples. Without a name: the next input.
        output: The folder of the Zarr group.
        options: Batches, errors and images.
        scheduler: Address of a Dask scheduler; by default a local cluster with one process per core.
        workers: Number of processes of the local cluster.
        progress: Called after each chunk.

    Returns:
        The messages of the inputs that were skipped, by the names of the inputs.

    Raises:
        InputError: Dask or Zarr is not installed, a source does not exist, their numbers of samples differ, the output
            belongs to a run of another model or other options, or an input is broken and `on_error` is "stop".
    """
    _check_is_installed()
    job = _create_job(model, inputs, output, options or MapOptions())
    options = job.options
    root = Path(output)
    is_new = not root.exists()
    manifest = _check_manifest(root, job)
    chunks = range(-(-job.count // job.size))
    records = {chunk: record for chunk in chunks if (record := _read_record(root, chunk)) is not None}
    remaining = [chunk for chunk in chunks if chunk not in records]
    errors = {name: text for record in records.values() for name, text in record["errors"].items()}
    finished = sum(len(job.get_range(chunk)) for chunk in records)
    if progress:
        progress(finished, job.count)
    if not remaining:
        return errors
    try:
        with _connect(scheduler, workers) as client:
            if not manifest.get("outputs"):
                _create_outputs(client, job, root, manifest)
            for record in _compute_chunks(client, job, remaining):
                errors.update(record["errors"])
                if record["errors"] and options.on_error == "stop":
                    raise _create_error(*next(iter(record["errors"].items())))
                finished += record["count"]
                if progress:
                    progress(finished, job.count)
    finally:
        if is_new and not any((root / RECORDS).iterdir()):  # a run that failed at once leaves nothing behind
            shutil.rmtree(root, ignore_errors=True)
    return errors


def _create_error(name: str, message: str) -> InputError:
    """Return the error for an input; a message that starts with the name of its file does not repeat it."""
    return InputError(message if message.startswith(name) else f"{name}: {message}")


def _compute_chunks(client: Any, job: _Job, chunks: Sequence[int]) -> Iterator[Any]:
    """Yield the record of each chunk, with a bounded number of tasks in the scheduler."""
    import distributed

    as_completed: Any = distributed.as_completed
    pending = iter(chunks)
    window = 4 * max(1, sum(client.nthreads().values()))
    shared = client.scatter(job, broadcast=True, hash=False)

    def submit(chunk: int) -> Any:
        return client.submit(_run_chunk, shared, chunk, pure=False, retries=3)

    futures = as_completed([submit(chunk) for _, chunk in zip(range(window), pending, strict=False)])
    for future in futures:
        record = future.result()
        for chunk in pending:
            futures.add(submit(chunk))
            break
        yield record


def _check_is_installed() -> None:
    missing = [name for name in ("dask", "distributed", "zarr") if importlib.util.find_spec(name) is None]
    if missing:
        raise InputError(f"mapping requires {', '.join(missing)}: pip install 'irrun[dask]'")


def _connect(scheduler: str | None, workers: int | None) -> Any:
    """Return a Dask client, which closes a local cluster when its block ends."""
    import distributed

    library: Any = distributed
    if scheduler is not None:
        try:
            return library.Client(scheduler)
        except (OSError, ValueError) as error:
            raise InputError(f"cannot connect to the scheduler: {error}") from None
    count = workers or os.cpu_count() or 1
    try:
        cluster = library.LocalCluster(
            n_workers=count,
            threads_per_worker=1,
            processes=True,
            dashboard_address="127.0.0.1:0",
            silence_logs="CRITICAL",
        )
    except RuntimeError as error:  # each process imports the main module of the program
        raise InputError(
            f"worker processes could not start ({error}); a program must call map_inputs below "
            "`if __name__ == '__main__':`"
        ) from error
    return _LocalClient(cluster, library.Client(cluster))


class _LocalClient:
    """A client of a local cluster; leaving its block ends both."""

    def __init__(self, cluster: Any, client: Any) -> None:
        self.cluster = cluster
        self.client = client

    def __enter__(self) -> Any:
        return self.client

    def __exit__(self, *_: object) -> None:
        self.client.close()
        self.cluster.close()


def _create_job(
    model: str | os.PathLike[str], inputs: Sequence[str], output: str | os.PathLike[str], options: MapOptions
) -> _Job:
    if options.batch < 1:
        raise InputError(f"expected a batch of at least 1, found {options.batch}")
    source = read_model(model, options.weights)
    positions: dict[int, _Samples] = {}
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
    digest = _hash_file(Path(model))
    weights = Path(options.weights) if options.weights else Path(model).with_suffix(".bin")
    if weights.is_file():
        digest += _hash_file(weights)
    size = options.batch * -(-MIN_SAMPLES // options.batch)
    path = str(Path(model).resolve())
    target = str(Path(output).resolve())
    count = counts.pop()
    options = _resolve_jit(options, count)
    return _Job(path, digest, tuple(sorted(positions.items())), target, options, size, count)


def _find_samples(text: str) -> _Samples:
    path = Path(text)
    if path.is_dir() and path.suffix != ".zarr":
        files = sorted(str(p.resolve()) for p in path.iterdir() if p.suffix.lower() in SUFFIXES)
        if not files:
            raise InputError(f"{text} contains no images, .npy or .npz files")
        return _Samples(tuple(files), "", len(files))
    if path.suffix in (".npy", ".zarr") and path.exists():
        name = str(path.resolve())
        shape = _open_array(name).shape
        if not shape:
            raise InputError(f"{text} is a scalar, expected an array whose first axis counts samples")
        return _Samples((), name, int(shape[0]))
    files = sorted(str(Path(p).resolve()) for p in glob.glob(text, recursive=True) if os.path.isfile(p))
    if not files:
        raise InputError(f"{text!r} is not a folder, a pattern of files, or an array (.npy, .zarr)")
    return _Samples(tuple(files), "", len(files))


def _hash_file(path: Path) -> str:
    digest = hashlib.sha256()
    with open(path, "rb") as file:
        while block := file.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()


def _check_manifest(root: Path, job: _Job) -> dict[str, Any]:
    """Return the manifest of the output, which is created if it does not exist.

    Raises:
        InputError: The output belongs to another run, or is something else.
    """
    names = hashlib.sha256("\n".join(job.get_name(i) for i in range(job.count)).encode()).hexdigest()
    options = {name: value for name, value in asdict(job.options).items() if name not in ("on_error", "threads")}
    description = {"model": job.digest, "samples": job.count, "inputs": names, "options": options, "chunk": job.size}
    description = json.loads(json.dumps(description))
    path = root / MANIFEST
    if path.exists():
        manifest: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        differing = [name for name, value in description.items() if manifest.get(name) != value]
        if differing:
            raise InputError(f"{root} belongs to another run: {', '.join(differing)} differ; choose another output")
        return dict(manifest)
    if root.exists() and any(root.iterdir()):
        raise InputError(f"{root} exists and is not the output of a run; choose another output")
    import zarr

    zarr.open_group(str(root), mode="a")
    (root / RECORDS).mkdir(exist_ok=True)
    _write_json(path, description)
    return dict(description)


def _write_json(path: Path, value: Mapping[str, Any]) -> None:
    with atomic_write(path) as file:
        file.write(json.dumps(value).encode())


def _get_record_path(root: Path, chunk: int) -> Path:
    return root / RECORDS / f"{chunk:08d}.json"


def _read_record(root: Path, chunk: int) -> Any:
    try:
        return json.loads(_get_record_path(root, chunk).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None


def _create_outputs(client: Any, job: _Job, root: Path, manifest: dict[str, Any]) -> None:
    """Create the arrays of the outputs, whose types and shapes are those of the first sample that can be computed."""
    import zarr

    group = zarr.open_group(str(root), mode="a")
    outputs: dict[str, Any] = {}
    for index in range(job.count):
        outputs = client.submit(_describe_outputs, job, index, pure=False).result()
        if "error" not in outputs:
            break
        if job.options.on_error == "stop":
            raise _create_error(job.get_name(index), outputs["error"])
    else:
        raise InputError("none of the inputs can be computed")
    for name, (shape, dtype) in outputs.items():
        group.create_array(
            name, shape=(job.count, *shape), chunks=(job.size, *(max(n, 1) for n in shape)), dtype=dtype, overwrite=True
        )
    manifest["outputs"] = {name: [list(shape), dtype] for name, (shape, dtype) in outputs.items()}
    _write_json(root / MANIFEST, manifest)


def _describe_outputs(job: _Job, index: int) -> dict[str, Any]:
    results, errors = _compute(job, [index])
    if index in errors:
        return {"error": errors[index]}
    return {name: (value.shape, value.dtype.str) for name, value in results[index].items()}


def _read_output_names(output: str) -> list[str]:
    """Return the names of the arrays of a run; listing the group would warn of the files that are not arrays."""
    manifest = json.loads((Path(output) / MANIFEST).read_text(encoding="utf-8"))
    return list(manifest["outputs"])


def _run_chunk(job: _Job, chunk: int) -> dict[str, Any]:
    """Compute a chunk and write its results, and then its record."""
    import zarr

    indices = list(job.get_range(chunk))
    results, errors = _compute(job, indices)
    record: dict[str, Any] = {
        "count": len(indices),
        "errors": {job.get_name(i): message for i, message in errors.items()},
        "ragged": [],
    }
    if errors and job.options.on_error == "stop":
        return record
    group = zarr.open_group(job.output, mode="a")
    for name in _read_output_names(job.output):
        target: Any = group[name]
        block = np.zeros((len(indices), *target.shape[1:]), target.dtype)
        for row, index in enumerate(indices):
            value = results[index].get(name) if index in results else None
            if value is None:
                continue
            if value.shape == block.shape[1:] and value.dtype == block.dtype:
                block[row] = value
            else:
                record["ragged"].append(index)
                ragged = group.require_group(f"{RAGGED}/{name}")
                array = ragged.create_array(str(index), shape=value.shape, dtype=value.dtype, overwrite=True)
                array[...] = value
        target[indices[0] : indices[-1] + 1] = block
    _write_json(_get_record_path(Path(job.output), chunk), record)
    return record


def _compute(job: _Job, indices: Sequence[int]) -> tuple[dict[int, dict[str, Array]], dict[int, str]]:
    """Return the outputs of samples by name, and the messages of those that failed, both by the index of the sample."""
    compiled = _compile(job.model, job.digest, job.options)
    samples: dict[int, list[Array]] = {}
    errors: dict[int, str] = {}
    for index in indices:
        try:
            samples[index] = [s.load(index, compiled.inputs[position], job.options) for position, s in job.inputs]
        except (IrrunError, OSError) as error:
            errors[index] = str(error)
    results: dict[int, dict[str, Array]] = {}
    request = compiled.create_infer_request()
    batch = 1 if request.query_state() else job.options.batch
    for group in _group_by_shape(samples, batch):
        try:
            results.update(_run_group(request, compiled, group, samples))
        except IrrunError as error:
            if len(group) == 1:
                errors[group[0]] = str(error)
                continue
            for index in group:
                try:
                    results.update(_run_group(request, compiled, [index], samples))
                except IrrunError as single_error:
                    errors[index] = str(single_error)
    return results, errors


def _group_by_shape(samples: Mapping[int, Sequence[Array]], batch: int) -> list[list[int]]:
    """Return batches of samples of the same shapes, in order."""
    groups: dict[tuple[Any, ...], list[int]] = {}
    for index, values in samples.items():
        groups.setdefault(tuple((value.shape, value.dtype.str) for value in values), []).append(index)
    return [group[i : i + batch] for group in groups.values() for i in range(0, len(group), batch)]


def _run_group(
    request: InferRequest, compiled: CompiledModel, group: Sequence[int], samples: Mapping[int, Sequence[Array]]
) -> dict[int, dict[str, Array]]:
    """Run the model on some samples at once, and split its outputs."""
    if len(group) == 1:
        if request.query_state():
            outputs = _run_sequence(request, compiled, samples[group[0]])
        else:
            outputs = request.infer(list(samples[group[0]])).to_dict()
        return {group[0]: {_name_array(name): _drop_batch(to_storable(value)) for name, value in outputs.items()}}
    inputs = [np.concatenate(values) for values in zip(*(samples[index] for index in group), strict=True)]
    outputs = request.infer(inputs).to_dict()
    lengths = [len(samples[index][0]) for index in group]
    if any(value.ndim == 0 or len(value) != sum(lengths) for value in outputs.values()):
        raise InputError("the first axis of an output does not count samples")
    results: dict[int, dict[str, Array]] = {}
    start = 0
    for index, length in zip(group, lengths, strict=True):
        results[index] = {
            _name_array(name): _drop_batch(to_storable(value[start : start + length]))
            for name, value in outputs.items()
        }
        start += length
    return results


def _run_sequence(request: InferRequest, compiled: CompiledModel, values: Sequence[Array]) -> dict[str, Array]:
    """Run a model with state over the steps of a sample, from its initial state."""
    request.reset_state()
    shape = compiled.inputs[0].partial_shape
    step = shape[0] if shape else 1
    length = len(values[0])
    if not isinstance(step, int) or step < 1 or length == step:
        return dict(request.infer(list(values)).to_dict())
    steps = [request.infer([v[i : i + step] for v in values]).to_dict() for i in range(0, length, step)]
    return {name: np.concatenate([s[name] for s in steps]) for name in steps[0]}


def _drop_batch(value: Array) -> Array:
    return value[0] if value.ndim and len(value) == 1 else value


def _name_array(name: str) -> str:
    return name.replace("/", "_").replace("\\", "_").strip(".") or "output"


def map_batches(model: str | os.PathLike[str], data: Any, *, batch: int = 1, options: MapOptions | None = None) -> Any:
    """Return the first output of a model over the samples of an array as a lazy `dask.array`.

    Args:
        model: The .xml file of a model of one input, whose first axis is the batch.
        data: A NumPy, Zarr or Dask array whose first axis counts samples, or a Dask bag of samples.
        batch: Number of samples per block.
        options: Memory, weights and threads.

    Raises:
        InputError: Dask is not installed.
    """
    try:
        import dask
        import dask.array
    except ImportError:
        raise InputError("map_batches requires Dask: pip install 'irrun[dask]'") from None
    library: Any = dask
    da: Any = dask.array
    shape = getattr(data, "shape", ())
    options = _resolve_jit(options or MapOptions(batch=batch), shape[0] if shape else None)
    path = str(Path(model).resolve())
    digest = _hash_file(Path(path))
    declared = read_model(path, options.weights).output(0)
    dtype = np.dtype(np.float32) if declared.element_type is None else declared.element_type.dtype
    run = functools.partial(_run_block, path, digest, options)
    if hasattr(data, "to_delayed") and not hasattr(data, "chunks"):  # a bag
        blocks = [library.delayed(lambda samples: run(np.stack(list(samples))))(part) for part in data.to_delayed()]
        rest = _get_rest(_infer_shape(run, None, declared))
        return da.concatenate(
            [da.from_delayed(b, (np.nan, *rest), dtype) for b in blocks], allow_unknown_chunksizes=True
        )
    array = data if isinstance(data, da.Array) else da.from_array(data, chunks=(batch, *data.shape[1:]))
    array = array.rechunk((batch, *array.shape[1:]))
    rest = _get_rest(_infer_shape(run, array, declared))
    return array.map_blocks(
        run,
        dtype=dtype,
        chunks=(array.chunks[0], *((n,) for n in rest)),
        drop_axis=list(range(1, array.ndim)),
        new_axis=list(range(1, 1 + len(rest))),
        meta=np.empty((0,) * (1 + len(rest)), dtype),
    )


def _get_rest(shape: Sequence[int]) -> tuple[int, ...]:
    return tuple(shape[1:])


def _infer_shape(run: Callable[[Array], Array], array: Any, declared: TensorSpec) -> tuple[int, ...]:
    """Return the shape of the output for one sample: the declared one, or that of a run on zeros.

    Args:
        run: Runs the model on a block.
        array: The Dask array of the samples, or None.
        declared: The output.

    Raises:
        InputError: The shape is dynamic and there is no array.
    """
    shape = declared.partial_shape
    if shape and all(isinstance(n, int) for n in shape[1:]):  # files state no dimensions of an unknown shape
        return (1, *(int(n) for n in shape[1:] if isinstance(n, int)))
    if array is None:
        raise InputError("the output has a dynamic shape; pass an array instead of a bag")
    return tuple(run(np.zeros((1, *array.shape[1:]), array.dtype)).shape)


def _run_block(path: str, digest: str, options: MapOptions, block: Array) -> Array:
    compiled = _compile(path, digest, options)
    return np.asarray(compiled.create_infer_request().infer([np.ascontiguousarray(block)])[0])
