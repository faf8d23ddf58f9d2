"""Names of hints of OpenVINO's GPU plugin."""

from __future__ import annotations

from irrun.openvino.properties._property import Property
from irrun.openvino.properties.enumerations import Priority

__all__ = [
    "ThrottleLevel",
    "available_device_mem",
    "enable_large_allocations",
    "enable_lora_operation",
    "host_task_priority",
    "queue_priority",
    "queue_throttle",
]

ThrottleLevel = Priority

queue_throttle = Property("GPU_QUEUE_THROTTLE", Priority)
queue_priority = Property("GPU_QUEUE_PRIORITY", Priority)
host_task_priority = Property("GPU_HOST_TASK_PRIORITY", Priority)
available_device_mem = Property("AVAILABLE_DEVICE_MEM_SIZE", int)
enable_lora_operation = Property("GPU_ENABLE_LORA_OPERATION", bool)
enable_large_allocations = Property("GPU_ENABLE_LARGE_ALLOCATIONS", bool)
