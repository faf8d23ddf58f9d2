"""Names of properties of devices and compiled models."""

from __future__ import annotations

from irrun.openvino.element_type import Type
from irrun.openvino.properties import device, hint, intel_auto, intel_cpu, intel_gpu, intel_npu, log, streams
from irrun.openvino.properties._property import Property
from irrun.openvino.properties.enumerations import CacheMode, CompatibilityCheck, Num, WorkloadType

__all__ = [
    "CacheMode",
    "CompatibilityCheck",
    "WorkloadType",
    "auto_batch_timeout",
    "available_devices",
    "cache_dir",
    "cache_encryption_callbacks",
    "cache_mode",
    "compatibility_check",
    "compilation_num_threads",
    "device",
    "enable_mmap",
    "enable_profiling",
    "enable_weightless",
    "execution_devices",
    "force_tbb_terminate",
    "hint",
    "inference_num_threads",
    "intel_auto",
    "intel_cpu",
    "intel_gpu",
    "intel_npu",
    "key_cache_group_size",
    "key_cache_precision",
    "loaded_from_cache",
    "log",
    "max_batch_size",
    "model_name",
    "num_streams",
    "optimal_batch_size",
    "optimal_number_of_infer_requests",
    "range_for_async_infer_requests",
    "range_for_streams",
    "runtime_requirements",
    "streams",
    "supported_properties",
    "value_cache_group_size",
    "value_cache_precision",
    "weights_path",
    "workload_type",
]

enable_profiling = Property("PERF_COUNT", bool)
cache_dir = Property("CACHE_DIR", str)
workload_type = Property("WORKLOAD_TYPE", WorkloadType)
cache_mode = Property("CACHE_MODE", CacheMode)
auto_batch_timeout = Property("AUTO_BATCH_TIMEOUT", int, minimum=0)
num_streams = Property("NUM_STREAMS", Num)
inference_num_threads = Property("INFERENCE_NUM_THREADS", int)
compilation_num_threads = Property("COMPILATION_NUM_THREADS", int)
force_tbb_terminate = Property("FORCE_TBB_TERMINATE", bool)
enable_mmap = Property("ENABLE_MMAP", bool)
weights_path = Property("WEIGHTS_PATH", str)
key_cache_precision = Property("KEY_CACHE_PRECISION", Type)
value_cache_precision = Property("VALUE_CACHE_PRECISION", Type)
key_cache_group_size = Property("KEY_CACHE_GROUP_SIZE", int, minimum=0)
value_cache_group_size = Property("VALUE_CACHE_GROUP_SIZE", int, minimum=0)
enable_weightless = Property("ENABLE_WEIGHTLESS", bool)
supported_properties = Property("SUPPORTED_PROPERTIES", writable=False)
available_devices = Property("AVAILABLE_DEVICES", writable=False)
model_name = Property("NETWORK_NAME", writable=False)
optimal_number_of_infer_requests = Property("OPTIMAL_NUMBER_OF_INFER_REQUESTS", writable=False)
range_for_streams = Property("RANGE_FOR_STREAMS", writable=False)
optimal_batch_size = Property("OPTIMAL_BATCH_SIZE", writable=False)
max_batch_size = Property("MAX_BATCH_SIZE", writable=False)
range_for_async_infer_requests = Property("RANGE_FOR_ASYNC_INFER_REQUESTS", writable=False)
execution_devices = Property("EXECUTION_DEVICES", writable=False)
loaded_from_cache = Property("LOADED_FROM_CACHE", writable=False)
compatibility_check = Property("COMPATIBILITY_CHECK", writable=False)
runtime_requirements = Property("RUNTIME_REQUIREMENTS", writable=False)
cache_encryption_callbacks = Property("CACHE_ENCRYPTION_CALLBACKS", writable=False)
