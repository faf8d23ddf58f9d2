"""The modules `opset1` to `opset17`, whose functions create nodes."""

from __future__ import annotations

import types
from typing import Any

__all__ = ["LAST_OPSET", "OpsetModule"]

LAST_OPSET = 17


class OpsetModule(types.ModuleType):
    """A module whose attributes are the functions of an opset.

    Args:
        number: The number of the opset.
    """

    def __init__(self, number: int) -> None:
        super().__init__(f"irrun.openvino.opset{number}", f"Functions that create the nodes of opset {number}.")
        self._number = number

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        from irrun.openvino import graph_control

        if name in graph_control.CLASSES:
            return getattr(graph_control, name)
        from irrun.openvino.factories import get_factory

        return get_factory(name, self._number)

    def __dir__(self) -> list[str]:
        from irrun.openvino.factories import list_factories

        return list_factories(self._number)
