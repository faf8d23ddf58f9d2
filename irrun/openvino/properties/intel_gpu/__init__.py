"""Names of properties of OpenVINO's GPU plugin."""

from __future__ import annotations

from irrun.openvino.properties._property import Property
from irrun.openvino.properties.intel_gpu import hint

__all__ = [
    "device_max_alloc_mem_size",
    "device_total_mem_size",
    "disable_winograd_convolution",
    "enable_loop_unrolling",
    "execution_units_count",
    "hint",
    "memory_statistics",
    "uarch_version",
]

device_total_mem_size = Property("GPU_DEVICE_TOTAL_MEM_SIZE", writable=False)
device_max_alloc_mem_size = Property("GPU_DEVICE_MAX_ALLOC_MEM_SIZE", writable=False)
uarch_version = Property("GPU_UARCH_VERSION", writable=False)
execution_units_count = Property("GPU_EXECUTION_UNITS_COUNT", writable=False)
memory_statistics = Property("GPU_MEMORY_STATISTICS", writable=False)
enable_loop_unrolling = Property("GPU_ENABLE_LOOP_UNROLLING")
disable_winograd_convolution = Property("GPU_DISABLE_WINOGRAD_CONVOLUTION")
