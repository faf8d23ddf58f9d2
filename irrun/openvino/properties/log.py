"""Names of properties of logging."""

from __future__ import annotations

from irrun.openvino.properties._property import Property
from irrun.openvino.properties.enumerations import LogLevel as Level

__all__ = [
    "Level",
    "level",
]

level = Property("LOG_LEVEL", Level)
