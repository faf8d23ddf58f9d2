"""Names of properties of the device AUTO."""

from __future__ import annotations

from irrun.openvino.properties._property import Property
from irrun.openvino.properties.enumerations import SchedulePolicy

__all__ = [
    "SchedulePolicy",
    "device_bind_buffer",
    "devices_utilization_threshold",
    "enable_runtime_fallback",
    "enable_startup_fallback",
    "low_power_device",
    "perf_curve_table",
    "schedule_policy",
]

device_bind_buffer = Property("DEVICE_BIND_BUFFER", bool)
enable_startup_fallback = Property("ENABLE_STARTUP_FALLBACK", bool)
enable_runtime_fallback = Property("ENABLE_RUNTIME_FALLBACK", bool)
schedule_policy = Property("SCHEDULE_POLICY", SchedulePolicy)
devices_utilization_threshold = Property("DEVICES_UTILIZATION_THRESHOLD")
perf_curve_table = Property("PERF_CURVE_TABLE")
low_power_device = Property("LOW_POWER_DEVICE", str)
