"""The modules `opset1` to `opset17`, with functions that create nodes."""

from __future__ import annotations

import types
from typing import Any

__all__ = ["LAST_OPSET", "OpsetModule"]

LAST_OPSET = 17

#: Nodes that contain models, and the first opset with each.
_CONTROL = {"if_op": 8, "loop": 5, "tensor_iterator": 1}


class OpsetModule(types.ModuleType):
    """A module with the functions of an opset as attributes.

    Args:
        number: The number of the opset.
    """

    def __init__(self, number: int) -> None:
        super().__init__(f"irrun.openvino.opset{number}", f"Functions that create the nodes of opset {number}.")
        self._number = number

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        if _CONTROL.get(name, self._number + 1) <= self._number:
            from irrun.openvino.op import control

            return getattr(control, name)
        from irrun.openvino.factories import get_factory

        return get_factory(name, self._number)

    def __dir__(self) -> list[str]:
        from irrun.openvino.factories import list_factories

        return sorted([*list_factories(self._number), *(n for n, first in _CONTROL.items() if first <= self._number)])
