"""Names of properties that state what matters, and their values."""

from __future__ import annotations

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

inference_precision = Property("INFERENCE_PRECISION_HINT")
model_priority = Property("MODEL_PRIORITY")
performance_mode = Property("PERFORMANCE_HINT")
enable_cpu_pinning = Property("ENABLE_CPU_PINNING")
enable_cpu_reservation = Property("ENABLE_CPU_RESERVATION")
scheduling_core_type = Property("SCHEDULING_CORE_TYPE")
model_distribution_policy = Property("MODEL_DISTRIBUTION_POLICY")
enable_hyper_threading = Property("ENABLE_HYPER_THREADING")
execution_mode = Property("EXECUTION_MODE_HINT")
num_requests = Property("PERFORMANCE_HINT_NUM_REQUESTS")
model = Property("MODEL_PTR")
allow_auto_batching = Property("ALLOW_AUTO_BATCHING")
dynamic_quantization_group_size = Property("DYNAMIC_QUANTIZATION_GROUP_SIZE")
kv_cache_precision = Property("KV_CACHE_PRECISION")
activations_scale_factor = Property("ACTIVATIONS_SCALE_FACTOR")
compiled_blob = Property("COMPILED_BLOB")
