"""Names of properties of OpenVINO's CPU plugin."""

from __future__ import annotations

from irrun.openvino.properties._property import Property
from irrun.openvino.properties.enumerations import TbbPartitioner

__all__ = [
    "TbbPartitioner",
    "denormals_optimization",
    "sparse_weights_decompression_rate",
    "tbb_partitioner",
]

denormals_optimization = Property("CPU_DENORMALS_OPTIMIZATION", bool)
sparse_weights_decompression_rate = Property("CPU_SPARSE_WEIGHTS_DECOMPRESSION_RATE", float)
tbb_partitioner = Property("TBB_PARTITIONER", TbbPartitioner)
