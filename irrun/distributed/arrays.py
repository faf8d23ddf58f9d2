"""Lazy Dask arrays of the results of a model."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from irrun.distributed.jobs import MapOptions, hash_file, resolve_imports, resolve_kernels
from irrun.distributed.workers import compile_for_worker
from irrun.errors import InputError
from irrun.ir.model import TensorSpec
from irrun.ir.reader import read_model

__all__ = ["map_batches"]

Array = np.ndarray[Any, Any]


def map_batches(model: str | os.PathLike[str], data: Any, *, batch: int = 1, options: MapOptions | None = None) -> Any:
    """Return the first output of a model over the samples of an array as a lazy `dask.array`.

    Args:
        model: The .xml file of a model of one input, whose first axis is the batch.
        data: A NumPy, Zarr or Dask array whose first axis counts samples, or a Dask bag of samples.
        batch: Number of samples per block.
        options: Memory, weights, threads and files that register custom operations.

    Raises:
        InputError: Dask is not installed, or an imported file does not exist.
    """
    try:
        import dask
        import dask.array
    except ImportError:
        raise InputError("map_batches requires Dask: pip install 'irrun[dask]'") from None
    library: Any = dask
    da: Any = dask.array
    shape = getattr(data, "shape", ())
    options = resolve_imports(options or MapOptions(batch=batch))
    options = resolve_kernels(options, shape[0] if shape else None)
    path = str(Path(model).resolve())
    digest = "".join(map(hash_file, map(Path, [path, *options.imports])))
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
    compiled = compile_for_worker(path, digest, options)
    return np.asarray(compiled.create_infer_request().infer([np.ascontiguousarray(block)])[0])
