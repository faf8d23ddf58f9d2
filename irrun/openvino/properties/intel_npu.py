"""Names of properties of OpenVINO's NPU plugin."""

from __future__ import annotations

from irrun.openvino.properties._property import Property
from irrun.openvino.properties.enumerations import CompilerType

__all__ = [
    "CompilerType",
    "bypass_umd_caching",
    "compilation_mode_params",
    "compiler_dynamic_quantization",
    "compiler_type",
    "compiler_version",
    "defer_weights_load",
    "device_alloc_mem_size",
    "device_total_mem_size",
    "disable_idle_memory_prunning",
    "driver_version",
    "enable_strides_for",
    "max_tiles",
    "platform",
    "qdq_optimization",
    "qdq_optimization_aggressive",
    "run_inferences_sequentially",
    "tiles",
    "turbo",
]

device_alloc_mem_size = Property("NPU_DEVICE_ALLOC_MEM_SIZE", writable=False)
device_total_mem_size = Property("NPU_DEVICE_TOTAL_MEM_SIZE", writable=False)
driver_version = Property("NPU_DRIVER_VERSION", writable=False)
compiler_version = Property("NPU_COMPILER_VERSION", writable=False)
max_tiles = Property("NPU_MAX_TILES", writable=False)
compilation_mode_params = Property("NPU_COMPILATION_MODE_PARAMS", str)
turbo = Property("NPU_TURBO", bool)
platform = Property("NPU_PLATFORM", str)
tiles = Property("NPU_TILES", int)
bypass_umd_caching = Property("NPU_BYPASS_UMD_CACHING", bool)
defer_weights_load = Property("NPU_DEFER_WEIGHTS_LOAD", bool)
compiler_dynamic_quantization = Property("NPU_COMPILER_DYNAMIC_QUANTIZATION", bool)
qdq_optimization = Property("NPU_QDQ_OPTIMIZATION", bool)
qdq_optimization_aggressive = Property("NPU_QDQ_OPTIMIZATION_AGGRESSIVE", bool)
run_inferences_sequentially = Property("NPU_RUN_INFERENCES_SEQUENTIALLY", bool)
disable_idle_memory_prunning = Property("NPU_DISABLE_IDLE_MEMORY_PRUNING", bool)
enable_strides_for = Property("NPU_ENABLE_STRIDES_FOR", str)
compiler_type = Property("NPU_COMPILER_TYPE", CompilerType)
