"""The arrays that describe the rows of the results.

rows/input    the names of the inputs of each row, as the user gave them; one column for each input of the model
if it has several
rows/status   "done", "skipped" if an input cannot be read, "failed" if the model does not accept it, or "pending"
rows/error    why a row was skipped or failed
rows/ragged   whether an output differs in shape from the first sample; it is then in ragged/<output>/<row>
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from irrun.distributed.jobs import Job
from irrun.distributed.manifest import to_utf8
from irrun.distributed.records import DONE, FAILED, PENDING, SKIPPED, Record

__all__ = ["write_rows"]

Array = np.ndarray[Any, Any]

#: Number of rows per chunk of these arrays.
ROWS_PER_CHUNK = 1 << 14


def write_rows(folder: Path, group: Any, job: Job, records: Mapping[int, Record]) -> None:
    """Write the inputs, states and errors of all rows.

    Args:
        folder: The folder of the group.
        group: The Zarr group "rows".
        job: The samples.
        records: The records of the finished chunks.
    """
    count = job.count
    states, errors = np.full(count, PENDING, object), np.full(count, "", object)
    ragged = np.zeros(count, bool)
    for chunk, record in records.items():
        rows = job.get_range(chunk)
        states[rows.start : rows.stop] = DONE
        for index, (status, text) in record.errors.items():
            states[index], errors[index] = status, to_utf8(text)
        ragged[record.ragged] = True
    columns = [[to_utf8(samples.get_name(i)) for i in range(count)] for _, samples in job.inputs]
    # Zarr writes texts in memory order.
    inputs = np.ascontiguousarray(np.array(columns, object).T) if len(columns) > 1 else np.array(columns[0], object)
    _write_column(folder, group, "input", inputs, {"inputs": list(job.input_names)})
    _write_column(folder, group, "status", states, {"values": [DONE, SKIPPED, FAILED, PENDING]})
    _write_column(folder, group, "error", errors, {})
    _write_column(folder, group, "ragged", ragged, {})


def _write_column(folder: Path, group: Any, name: str, values: Array, attributes: Mapping[str, Any]) -> None:
    """Write an array, unless it already contains the values.

    Args:
        folder: The folder of the group.
        group: The group.
        name: The name of the array.
        values: Texts or booleans.
        attributes: The attributes of the array.
    """
    try:
        array = group[name]
        is_intact = array.shape == values.shape and dict(array.attrs) == dict(attributes)
        if is_intact and np.array_equal(np.asarray(array[...], values.dtype), values):
            return
    except Exception:  # the array does not exist or is damaged
        is_intact = False
    if not is_intact:
        shutil.rmtree(folder / name, ignore_errors=True)
        array = group.create_array(
            name,
            shape=values.shape,
            chunks=(min(ROWS_PER_CHUNK, len(values)), *values.shape[1:]),
            dtype=str if values.dtype == object else bool,
            attributes=dict(attributes),
            overwrite=True,
        )
    array[...] = values
