"""Runs of a model over many inputs on Dask: on the cores of this machine, or on any cluster.

A run writes a Zarr group, chunk by chunk. A manifest in it describes the model and the options, and a record of each
chunk is written after its results. A run that was stopped continues with the chunks that have no record, and a worker
that is killed loses nothing, since Dask computes its chunks again.
"""

from irrun.distributed.arrays import map_batches
from irrun.distributed.jobs import MapOptions
from irrun.distributed.manifest import OutputArray
from irrun.distributed.mapping import MapResult, Progress, RowError, map_inputs

__all__ = ["MapOptions", "MapResult", "OutputArray", "Progress", "RowError", "map_batches", "map_inputs"]
