"""The tasks of workers. Each task computes a chunk of samples and writes its results."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from irrun.data.storable import to_storable
from irrun.distributed.jobs import Job, MapOptions, read_shaped_model
from irrun.distributed.manifest import RAGGED, OutputArray, name_arrays, to_utf8
from irrun.distributed.quiet import silence_libraries
from irrun.distributed.records import FAILED, SKIPPED, Record, describe_files, write_record
from irrun.distributed.store import get_chunk_file, open_group
from irrun.element_types import ElementType
from irrun.errors import InputError, IrrunError
from irrun.imports import import_file
from irrun.runtime.compiled_model import CompiledModel, compile_model
from irrun.runtime.malloc import override_thresholds
from irrun.runtime.request import InferRequest

__all__ = ["compile_for_worker", "compute_samples", "convert_type", "describe_outputs", "run_chunk"]

Array = np.ndarray[Any, Any]

#: The state and the message of samples without results, by index.
Errors = dict[int, tuple[str, str]]


@functools.lru_cache(maxsize=2)
def compile_for_worker(model: str, digest: str, options: MapOptions) -> CompiledModel:
    """Compile a model once per worker; its weights are mapped, so that workers of one machine share them."""
    override_thresholds()
    for file in options.imports:
        import_file(Path(file))
    source = read_shaped_model(model, options)
    return compile_model(
        source,
        memory=options.memory,
        weights_memory=options.weights_memory,
        threads=options.threads,
        precision=options.precision,
        # With "auto", the bits of results would depend on when kernels become complete.
        jit=bool(options.jit),
    )


def describe_outputs(job: Job, index: int) -> dict[str, OutputArray] | tuple[str, str]:
    """Return the outputs of a sample as arrays by name, or the state and the message of its failure."""
    results, errors = compute_samples(job, [index])
    if index in errors:
        return errors[index]
    return {
        name: OutputArray(value.shape, "string" if value.dtype == object else value.dtype.str)
        for name, value in results[index].items()
    }


def run_chunk(job: Job, outputs: Mapping[str, OutputArray], chunk: int, previous: Record | None = None) -> Record:
    """Compute a chunk, write its results, then its record.

    Args:
        job: The samples and the model.
        outputs: The arrays of the results.
        chunk: The number of the chunk.
        previous: The record of an earlier run, to retry its errors.

    Returns:
        The record. If a failure ends the run, the record has no files, and nothing is written.
    """
    rows = job.get_range(chunk)
    results, errors = compute_samples(job, sorted(previous.errors) if previous else list(rows))
    record = Record(len(rows), errors)
    if errors and job.options.on_error == "stop":
        return record
    ragged = set(previous.ragged if previous else ())
    with silence_libraries():
        import zarr

        library: Any = zarr
        root = Path(job.output)
        group = open_group(root)
        with library.config.set({"array.write_empty_chunks": True}):  # each chunk has a file, which can be checked
            for name, output in outputs.items():
                place = slice(rows.start, rows.stop)
                block = np.asarray(group[name][place], output.numpy_type) if previous else output.make_block(len(rows))
                for index, values in results.items():
                    value = values.get(name)
                    if value is None or not output.accepts(value):
                        ragged.add(index)
                        _write_ragged(root / RAGGED / name / str(index), value)
                    else:
                        block[index - rows.start] = value
                group[name][place] = block
    record.ragged = sorted(ragged)
    places = [f"{RAGGED}/{name}/{index}" for name in outputs for index in record.ragged]
    places = [place for place in places if (root / place).is_dir()]
    record.files = describe_files(root, [*(get_chunk_file(*item, chunk) for item in outputs.items()), *places])
    write_record(root, chunk, record)
    return record


def compute_samples(job: Job, indices: Sequence[int]) -> tuple[dict[int, dict[str, Array]], Errors]:
    """Return the outputs of samples by name, and the states and messages of failed samples.

    Both are indexed by sample.
    """
    compiled = compile_for_worker(job.model, job.digest, job.options)
    samples: dict[int, list[Array]] = {}
    errors: Errors = {}
    for index in indices:
        try:
            samples[index] = [s.load(index, compiled.inputs[position], job.options.image) for position, s in job.inputs]
        except IrrunError as error:
            errors[index] = SKIPPED, str(error)
    results: dict[int, dict[str, Array]] = {}
    request = compiled.create_infer_request()
    batch = 1 if request.query_state() else job.options.batch
    for group in _group_by_shape(samples, batch):
        try:
            results.update(_run_group(request, compiled, group, samples, job.options.timeout))
        except IrrunError as error:
            if len(group) == 1:
                errors[group[0]] = FAILED, str(error)
                continue
            for index in group:
                try:
                    results.update(_run_group(request, compiled, [index], samples, job.options.timeout))
                except IrrunError as single_error:
                    errors[index] = FAILED, str(single_error)
    return results, errors


def _write_ragged(path: Path, value: Array | None) -> None:
    """Write an output of a different shape as a separate array, or None for a missing output."""
    if value is None:
        return
    import zarr

    library: Any = zarr
    kind = str if value.dtype == object else value.dtype
    array = library.create_array(str(path), shape=value.shape, dtype=kind, overwrite=True)
    array[...] = value


def _group_by_shape(samples: Mapping[int, Sequence[Array]], batch: int) -> list[list[int]]:
    """Return batches of samples of the same shapes, in order."""
    groups: dict[tuple[Any, ...], list[int]] = {}
    for index, values in samples.items():
        groups.setdefault(tuple((value.shape, value.dtype.str) for value in values), []).append(index)
    return [group[i : i + batch] for group in groups.values() for i in range(0, len(group), batch)]


def _run_group(
    request: InferRequest,
    compiled: CompiledModel,
    group: Sequence[int],
    samples: Mapping[int, Sequence[Array]],
    timeout: float | None,
) -> dict[int, dict[str, Array]]:
    """Run the model on some samples at once, and split its outputs."""
    if len(group) == 1:
        if request.query_state():
            outputs = _run_sequence(request, compiled, samples[group[0]], timeout)
        else:
            outputs = request.infer(list(samples[group[0]]), timeout=timeout).to_dict()
        return {group[0]: _prepare_outputs(outputs)}
    inputs = [np.concatenate(values) for values in zip(*(samples[index] for index in group), strict=True)]
    outputs = request.infer(inputs, timeout=timeout).to_dict()
    lengths = [len(samples[index][0]) for index in group]
    if any(value.ndim == 0 or len(value) != sum(lengths) for value in outputs.values()):
        raise InputError("the first axis of an output does not count samples")
    results: dict[int, dict[str, Array]] = {}
    start = 0
    for index, length in zip(group, lengths, strict=True):
        results[index] = _prepare_outputs({name: value[start : start + length] for name, value in outputs.items()})
        start += length
    return results


def _run_sequence(
    request: InferRequest, compiled: CompiledModel, values: Sequence[Array], timeout: float | None
) -> dict[str, Array]:
    """Run a model with state over the steps of a sample, from its initial state."""
    request.reset_state()
    shape = compiled.inputs[0].partial_shape
    step = shape[0] if shape else 1
    length = len(values[0])
    if not isinstance(step, int) or step < 1 or length == step:
        return dict(request.infer(list(values), timeout=timeout).to_dict())
    steps = [
        request.infer([v[i : i + step] for v in values], timeout=timeout).to_dict() for i in range(0, length, step)
    ]
    return {name: np.concatenate([s[name] for s in steps]) for name in steps[0]}


def _prepare_outputs(outputs: Mapping[str, Array]) -> dict[str, Array]:
    """Return outputs by array name, in types that Zarr stores and without a batch axis of 1."""
    names = name_arrays(list(outputs))
    return {names[name]: _drop_batch(convert_type(value)) for name, value in outputs.items()}


def convert_type(value: Array) -> Array:
    """Return an array in a type that Zarr stores: strings as objects, other types as `to_storable` converts them."""
    if ElementType.of(value.dtype).kind != "string":
        return to_storable(value)
    texts = np.empty(value.size, object)
    texts[:] = [to_utf8(text) for text in value.reshape(-1).tolist()]
    shaped: Array = texts.reshape(value.shape)
    return shaped


def _drop_batch(value: Array) -> Array:
    return value[0] if value.ndim and len(value) == 1 else value
