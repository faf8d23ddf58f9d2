"""Names of properties that describe devices."""

from __future__ import annotations

from typing import Any

from irrun.openvino.properties._property import Property
from irrun.openvino.properties.enumerations import DeviceType as Type

__all__ = [
    "Capability",
    "Type",
    "architecture",
    "capabilities",
    "full_name",
    "gops",
    "id",
    "luid",
    "pci_info",
    "priorities",
    "properties",
    "thermal",
    "type",
    "uuid",
]


class Capability:
    """Names of capabilities."""

    BF16 = "BF16"
    BIN = "BIN"
    EXPORT_IMPORT = "EXPORT_IMPORT"
    FP16 = "FP16"
    FP32 = "FP32"
    INT16 = "INT16"
    INT8 = "INT8"
    WINOGRAD = "WINOGRAD"


class _Priorities(Property):
    """The property of several names of devices."""

    def _convert(self, *values: Any) -> str:
        for value in values:
            if not isinstance(value, str):
                raise TypeError(f"Incorrect passed value: {value} , expected string values.")
        return "".join(f"{value}," for value in values)


priorities = _Priorities("MULTI_DEVICE_PRIORITIES")
id = Property("DEVICE_ID", str)
full_name = Property("FULL_DEVICE_NAME", writable=False)
architecture = Property("DEVICE_ARCHITECTURE", writable=False)
type = Property("DEVICE_TYPE", writable=False)
gops = Property("DEVICE_GOPS", writable=False)
pci_info = Property("DEVICE_PCI_INFO", writable=False)
thermal = Property("DEVICE_THERMAL", writable=False)
capabilities = Property("OPTIMIZATION_CAPABILITIES", writable=False)
uuid = Property("DEVICE_UUID", writable=False)
luid = Property("DEVICE_LUID", writable=False)
properties = Property("DEVICE_PROPERTIES")
