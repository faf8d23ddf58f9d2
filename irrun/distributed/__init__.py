"""Runs of a model over many inputs on Dask: on the cores of this machine, or on any cluster.

A run writes a Zarr group, chunk by chunk. A manifest in the group describes the model and the options, and a record of
each chunk is written after its results. A stopped run continues with the chunks that have no record. If a worker is
killed, nothing is lost, because Dask computes its chunks again.
"""

from irrun.distributed.arrays import map_batches
from irrun.distributed.jobs import MapOptions
from irrun.distributed.manifest import OutputArray
from irrun.distributed.mapping import MapResult, Progress, RowError, map_inputs

__all__ = ["MapOptions", "MapResult", "OutputArray", "Progress", "RowError", "map_batches", "map_inputs"]
