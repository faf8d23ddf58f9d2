"""Lazy Dask arrays of the results of a model."""

from __future__ import annotations

import contextlib
import os
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from irrun.arguments import check_instance, check_integer, check_path, describe_value
from irrun.distributed.cluster import check_is_installed
from irrun.distributed.jobs import MapOptions, hash_file, read_shaped_model, resolve_imports, resolve_kernels
from irrun.distributed.manifest import get_fill_value
from irrun.distributed.quiet import silence_libraries
from irrun.distributed.workers import compile_for_worker, convert_type
from irrun.errors import InputError, IrrunError
from irrun.ir.model import TensorSpec

__all__ = ["map_batches"]

Array = np.ndarray[Any, Any]


def map_batches(
    model: str | os.PathLike[str], data: Any, *, batch: int | None = None, options: MapOptions | None = None
) -> Any:
    """Return the first output of a model for the samples of an array, as a lazy `dask.array`.

    As in `map_inputs`, all samples use the same kernels, and types that Zarr does not have are widened. With
    `on_error="skip"`, the rows of samples that the model does not accept contain NaN, the smallest value of signed
    and the largest of unsigned integers, False or "".

    Args:
        model: The .xml file of a model with one input. The first axis of the input is the batch.
        data: A NumPy, Zarr or Dask array with samples along its first axis, or a Dask bag of samples.
        batch: Number of samples per block; by default `options.batch`.
        options: Errors, kernels, memory, weights, threads and files that register custom operations.

    Raises:
        InputError: Dask is not installed, the model or an imported file does not exist, or an argument is invalid.
    """
    check_is_installed("dask")
    path = check_path("model", model, "the path of an .xml file")
    options = MapOptions() if options is None else check_instance("options", options, MapOptions, "a MapOptions")
    batch = options.batch if batch is None else check_integer("batch", batch, 1)
    with silence_libraries():
        return _map_batches(str(Path(path).resolve()), data, replace(options, batch=batch))


def _map_batches(path: str, data: Any, options: MapOptions) -> Any:
    import dask
    import dask.array

    library: Any = dask
    da: Any = dask.array
    is_bag = hasattr(data, "to_delayed") and not hasattr(data, "chunks")
    shape = None if is_bag else _get_shape(data)
    options = resolve_kernels(resolve_imports(options), shape[0] if shape else None)
    declared = _find_output(path, options)
    weights = [Path(options.weights)] if options.weights else [Path(path).with_suffix(".bin")]
    files = [Path(path), *(file for file in weights if file.is_file()), *map(Path, options.imports)]
    dtype = np.dtype(np.float32) if declared.element_type is None else declared.element_type.dtype
    dtype = convert_type(np.empty(0, dtype)).dtype
    run = _BlockRunner(path, "".join(map(hash_file, files)), options, dtype)
    if is_bag:
        run = replace(run, shape=_infer_shape(run, None, declared))
        blocks = [library.delayed(lambda samples: run(np.stack(list(samples))))(part) for part in data.to_delayed()]
        return da.concatenate([da.from_delayed(b, (np.nan, *run.shape), dtype) for b in blocks])
    batch = min(options.batch, max(shape[0], 1)) if shape else options.batch
    array = data if isinstance(data, da.Array) else da.from_array(data, chunks=(batch, *data.shape[1:]))
    array = array.rechunk((batch, *array.shape[1:]))
    run = replace(run, shape=_infer_shape(run, array, declared))
    rank = 1 + len(run.shape)
    return array.map_blocks(
        run,
        dtype=dtype,
        chunks=(array.chunks[0], *((n,) for n in run.shape)),
        drop_axis=list(range(1, array.ndim)),
        new_axis=list(range(1, rank)),
        meta=np.empty((0,) * rank, dtype),
    )


@dataclass(frozen=True)
class _BlockRunner:
    """Runs a model on a block of samples in a worker.

    Attributes:
        path: The .xml file.
        digest: The hash of all files.
        options: Errors and kernels.
        dtype: The type of results.
        shape: The shape of the result for one sample.
    """

    path: str
    digest: str
    options: MapOptions
    dtype: np.dtype[Any]
    shape: tuple[int, ...] = ()

    def __call__(self, block: Array) -> Array:
        """Return the results. If errors are skipped and the block fails, run its samples one by one."""
        try:
            return self.run(block)
        except IrrunError:
            if self.options.on_error == "stop":
                raise
        results = np.full((len(block), *self.shape), get_fill_value(self.dtype), self.dtype)
        for index in range(len(block)):
            with contextlib.suppress(IrrunError):
                result = self.run(block[index : index + 1])
                if result.shape[1:] == self.shape:
                    results[index] = result[0]
        return results

    def run(self, block: Array) -> Array:
        """Return the results of all samples in a block.

        Raises:
            InputError: The model does not accept the block, or the first axis of its output is not the batch.
        """
        compiled = compile_for_worker(self.path, self.digest, self.options)
        outputs = compiled.create_infer_request().infer([np.ascontiguousarray(block)], timeout=self.options.timeout)
        result = convert_type(outputs[0])
        if result.shape[:1] != (len(block),):
            raise InputError(f"expected {len(block)} rows in the output, found shape {list(result.shape)}")
        return result


def _get_shape(data: Any) -> tuple[Any, ...]:
    shape = getattr(data, "shape", None)
    if not isinstance(shape, tuple) or not shape or not hasattr(data, "dtype"):
        expected = "a NumPy, Zarr or Dask array with samples along its first axis, or a Dask bag"
        raise InputError(f"data is {describe_value(data)}, expected {expected}")
    return shape


def _find_output(path: str, options: MapOptions) -> TensorSpec:
    """Return the first output of the model.

    Raises:
        InputError: The model does not have one input, or has no outputs.
    """
    source = read_shaped_model(path, options)
    if len(source.inputs) != 1 or not source.outputs:
        raise InputError(
            f"{path} has {len(source.inputs)} inputs and {len(source.outputs)} outputs, expected one input and one "
            "output; map_inputs accepts models with several inputs"
        )
    return source.output(0)


def _infer_shape(run: _BlockRunner, array: Any, declared: TensorSpec) -> tuple[int, ...]:
    """Return the shape of the output for one sample, from the declaration or from a run on zeros.

    Args:
        run: Runs the model on a block.
        array: The Dask array of the samples, or None.
        declared: The output.

    Raises:
        InputError: The shape is dynamic and there is no array.
    """
    shape = declared.partial_shape
    if shape and all(isinstance(n, int) for n in shape[1:]):  # files contain no dimensions if the rank is dynamic
        return tuple(int(n) for n in shape[1:] if isinstance(n, int))
    if array is None:
        raise InputError("the output has a dynamic shape; pass an array instead of a bag")
    return tuple(run.run(np.zeros((1, *array.shape[1:]), array.dtype)).shape[1:])
