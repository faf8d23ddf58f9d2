"""The names of `openvino`, under the name that programs of 2022 to 2024 import."""

from __future__ import annotations

import sys
from typing import Any

import irrun.openvino as _openvino
from irrun.openvino.opsets import LAST_OPSET

for _number in range(1, LAST_OPSET + 1):
    sys.modules[f"{__name__}.opset{_number}"] = sys.modules[f"irrun.openvino.opset{_number}"]


def __getattr__(name: str) -> Any:
    return getattr(_openvino, name)


def __dir__() -> list[str]:
    return [name for name in dir(_openvino) if not name.startswith("_")]
