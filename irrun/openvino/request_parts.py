"""Results of infer requests besides tensors: profiling information and variables."""

from __future__ import annotations

import enum
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from irrun.openvino.errors import translate_errors
from irrun.openvino.tensor import Tensor

if TYPE_CHECKING:
    from irrun.runtime.variables import VariableState as IrrunVariable

__all__ = ["ProfilingInfo", "VariableState"]


class ProfilingInfo:
    """The time that a layer took.

    Attributes:
        node_name: The name of the layer.
        node_type: The type of the layer.
        exec_type: The implementation.
        real_time: The time.
        cpu_time: The same time.
        status: `Status.EXECUTED`.
    """

    class Status(enum.Enum):
        """The execution status of a layer."""

        NOT_RUN = 0
        OPTIMIZED_OUT = 1
        EXECUTED = 2

    NOT_RUN, OPTIMIZED_OUT, EXECUTED = Status.NOT_RUN, Status.OPTIMIZED_OUT, Status.EXECUTED

    def __init__(self, node_name: str, node_type: str, seconds: float) -> None:
        self.node_name = node_name
        self.node_type = node_type
        self.exec_type = "irrun"
        self.real_time = self.cpu_time = timedelta(seconds=seconds)
        self.status = ProfilingInfo.Status.EXECUTED

    def __repr__(self) -> str:
        return f"<ProfilingInfo: {self.node_name} {self.real_time}>"


class VariableState:
    """A variable of an infer request.

    Args:
        variable: The variable of irrun.
        declared: The tensor that is returned while the variable has its initial value.
    """

    def __init__(self, variable: IrrunVariable, declared: Tensor) -> None:
        self._variable = variable
        self._declared = declared

    @property
    def name(self) -> str:
        """The name of the variable."""
        return self._variable.name

    @property
    def state(self) -> Tensor:
        """The value."""
        value = self._variable.state
        if value is None:
            return self._declared
        return Tensor._from_values(value, self._declared._element_type)

    @state.setter
    @translate_errors
    def state(self, state: Any) -> None:
        tensor = state if isinstance(state, Tensor) else Tensor(state)
        self._variable.state = tensor._to_values()

    def reset(self) -> None:
        """Restore the initial value."""
        self._variable.reset()
