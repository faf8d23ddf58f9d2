"""Names of properties of OpenVINO's GPU plugin."""

from __future__ import annotations

from irrun.openvino.properties._property import Property
from irrun.openvino.properties.intel_gpu import hint

__all__ = [
    "CapabilityGPU",
    "MemoryType",
    "device_max_alloc_mem_size",
    "device_total_mem_size",
    "disable_winograd_convolution",
    "enable_loop_unrolling",
    "execution_units_count",
    "hint",
    "memory_statistics",
    "uarch_version",
]


class CapabilityGPU:
    """Names of capabilities."""

    HW_MATMUL = "GPU_HW_MATMUL"
    USM_MEMORY = "GPU_USM_MEMORY"


class MemoryType:
    """Names of kinds of memory."""

    surface = "GPU_SURFACE"
    buffer = "GPU_BUFFER"


device_total_mem_size = Property("GPU_DEVICE_TOTAL_MEM_SIZE", writable=False)
device_max_alloc_mem_size = Property("GPU_DEVICE_MAX_ALLOC_MEM_SIZE", writable=False)
uarch_version = Property("GPU_UARCH_VERSION", writable=False)
execution_units_count = Property("GPU_EXECUTION_UNITS_COUNT", writable=False)
memory_statistics = Property("GPU_MEMORY_STATISTICS", writable=False)
enable_loop_unrolling = Property("GPU_ENABLE_LOOP_UNROLLING", bool)
disable_winograd_convolution = Property("GPU_DISABLE_WINOGRAD_CONVOLUTION", bool)
