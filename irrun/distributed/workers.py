"""The tasks of workers: each computes a chunk of samples and writes its results."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from irrun.data.save import to_storable
from irrun.distributed.jobs import Job, MapOptions
from irrun.distributed.store import RAGGED, get_record_path, read_output_names, write_json
from irrun.errors import InputError, IrrunError
from irrun.imports import import_file
from irrun.ir.reader import read_model
from irrun.runtime.malloc import override_thresholds
from irrun.runtime.request import CompiledModel, InferRequest, compile_model

__all__ = ["compile_for_worker", "compute_samples", "describe_outputs", "run_chunk"]

Array = np.ndarray[Any, Any]


@functools.lru_cache(maxsize=2)
def compile_for_worker(model: str, digest: str, options: MapOptions) -> CompiledModel:
    """Compile a model once per worker; its weights are mapped, so that workers of one machine share them."""
    override_thresholds()
    for file in options.imports:
        import_file(Path(file))
    source = read_model(model, options.weights)
    return compile_model(
        source,
        memory=options.memory,
        threads=options.threads,
        precision=options.precision,
        # With "auto", the bits of results would depend on the time when kernels are complete.
        jit=bool(options.jit),
    )


def describe_outputs(job: Job, index: int) -> dict[str, Any]:
    """Return the shapes and types of the outputs for a sample by name, or the message of its failure as "error"."""
    results, errors = compute_samples(job, [index])
    if index in errors:
        return {"error": errors[index]}
    return {name: (value.shape, value.dtype.str) for name, value in results[index].items()}


def run_chunk(job: Job, chunk: int) -> dict[str, Any]:
    """Compute a chunk and write its results, and then its record."""
    import zarr

    indices = list(job.get_range(chunk))
    results, errors = compute_samples(job, indices)
    record: dict[str, Any] = {
        "count": len(indices),
        "errors": {job.get_name(i): message for i, message in errors.items()},
        "ragged": [],
    }
    if errors and job.options.on_error == "stop":
        return record
    group = zarr.open_group(job.output, mode="a")
    for name in read_output_names(job.output):
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
    write_json(get_record_path(Path(job.output), chunk), record)
    return record


def compute_samples(job: Job, indices: Sequence[int]) -> tuple[dict[int, dict[str, Array]], dict[int, str]]:
    """Return the outputs of samples by name, and the messages of those that failed, both by the index of the sample."""
    compiled = compile_for_worker(job.model, job.digest, job.options)
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
