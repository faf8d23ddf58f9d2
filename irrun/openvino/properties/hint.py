"""Names of properties that state what matters, and their values."""

from __future__ import annotations

from irrun.openvino.element_type import Type
from irrun.openvino.properties._property import Property
from irrun.openvino.properties.enumerations import (
    ExecutionMode,
    ModelDistributionPolicy,
    PerformanceMode,
    Priority,
    SchedulingCoreType,
)

__all__ = [
    "ExecutionMode",
    "ModelDistributionPolicy",
    "PerformanceMode",
    "Priority",
    "SchedulingCoreType",
    "activations_scale_factor",
    "allow_auto_batching",
    "compiled_blob",
    "dynamic_quantization_group_size",
    "enable_cpu_pinning",
    "enable_cpu_reservation",
    "enable_hyper_threading",
    "execution_mode",
    "inference_precision",
    "kv_cache_precision",
    "model",
    "model_distribution_policy",
    "model_priority",
    "num_requests",
    "performance_mode",
    "scheduling_core_type",
]

inference_precision = Property("INFERENCE_PRECISION_HINT", Type)
model_priority = Property("MODEL_PRIORITY", Priority)
performance_mode = Property("PERFORMANCE_HINT", PerformanceMode)
enable_cpu_pinning = Property("ENABLE_CPU_PINNING", bool)
enable_cpu_reservation = Property("ENABLE_CPU_RESERVATION", bool)
scheduling_core_type = Property("SCHEDULING_CORE_TYPE", SchedulingCoreType)
model_distribution_policy = Property("MODEL_DISTRIBUTION_POLICY", set)
enable_hyper_threading = Property("ENABLE_HYPER_THREADING", bool)
execution_mode = Property("EXECUTION_MODE_HINT", ExecutionMode)
num_requests = Property("PERFORMANCE_HINT_NUM_REQUESTS", int, minimum=0)
model = Property("MODEL_PTR")
allow_auto_batching = Property("ALLOW_AUTO_BATCHING", bool)
dynamic_quantization_group_size = Property("DYNAMIC_QUANTIZATION_GROUP_SIZE", int, minimum=0)
kv_cache_precision = Property("KV_CACHE_PRECISION", Type)
activations_scale_factor = Property("ACTIVATIONS_SCALE_FACTOR", float)
compiled_blob = Property("COMPILED_BLOB")
