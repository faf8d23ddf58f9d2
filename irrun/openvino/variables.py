"""`Variable`, the state that ReadValue and Assign nodes refer to."""

from __future__ import annotations

from irrun.openvino.element_type import Type
from irrun.openvino.getters import from_getter
from irrun.openvino.shape import PartialShape

__all__ = ["Variable", "VariableInfo"]


class VariableInfo:
    """The shape, element type and name of a variable.

    Attributes:
        data_shape: The shape.
        data_type: The element type.
        variable_id: The name.
    """

    def __init__(self) -> None:
        self.data_shape = PartialShape([])
        self.data_type = Type.dynamic
        self.variable_id = ""


class Variable:
    """A variable, which ReadValue and Assign nodes refer to.

    Args:
        info: Its shape, element type and name.
    """

    def __init__(self, info: VariableInfo) -> None:
        self.update(info)

    def get_info(self) -> VariableInfo:
        """Return shape, element type and name."""
        return self._info

    info = from_getter(get_info)

    def get_id(self) -> str:
        """Return the name."""
        return self._info.variable_id

    def update(self, info: VariableInfo) -> None:
        """Set shape, element type and name."""
        self._info = info
