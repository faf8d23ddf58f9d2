"""Names of properties of streams."""

from __future__ import annotations

from irrun.openvino.properties._property import Property
from irrun.openvino.properties.enumerations import Num

__all__ = [
    "Num",
    "num",
]

num = Property("NUM_STREAMS", int)
