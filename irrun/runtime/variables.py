"""The variables of infer requests, and the lock that protects them during a run."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from irrun.arguments import describe_value
from irrun.element_types import ElementType
from irrun.errors import ExecutionError, InputError
from irrun.ops._support.context import Declaration
from irrun.runtime.inputs import describe_tensor
from irrun.runtime.program import ABSENT, Instruction, Program
from irrun.shapes import PartialShape

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

__all__ = ["RunLock", "VariableState", "list_variables"]

Array = np.ndarray[Any, Any]


class RunLock:
    """A lock that a request holds while it runs.

    A second caller does not wait, because it would get the state of the first one.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._thread = 0

    def __enter__(self) -> None:
        if not self._lock.acquire(blocking=False):
            raise ExecutionError(
                "the infer request is running; each thread needs its own request: compiled_model.create_infer_request()"
            )
        self._thread = threading.get_ident()

    def __exit__(self, *error: object) -> None:
        self._thread = 0
        self._lock.release()

    def renew(self) -> bool:
        """Release the lock if its thread does not exist in the child process, and return whether that was so."""
        is_abandoned = self._lock.locked() and self._thread != threading.get_ident()
        if is_abandoned:
            self._lock = threading.Lock()
        return is_abandoned


class VariableState:
    """A variable of an infer request, after OpenVINO's class of the same name.

    Attributes:
        name: The id of the variable.
    """

    def __init__(
        self,
        name: str,
        values: dict[str, Array],
        declaration: Declaration,
        initial: Array | None = None,
        computed_types: Mapping[np.dtype[Any], np.dtype[Any]] | None = None,
        lock: RunLock | None = None,
    ) -> None:
        self.name = name
        self._lock = lock or RunLock()
        self._values = values
        self._declaration = declaration
        self._initial = initial
        self._computed_types = computed_types or {}

    def __repr__(self) -> str:
        value = self._values.get(self.name)
        shown = "initial value" if value is None else describe_tensor(value)
        return f"<VariableState: {self.name!r}, {shown}>"

    @property
    def state(self) -> Array:
        """A copy of the value.

        An initial value that the inputs of the next run determine is represented by zeros of the declared type, with
        the lower bounds of the declared shape.

        Raises:
            InputError: On assignment, if the new value does not have the declared type and shape.
            ExecutionError: On assignment, if the request is running.
        """
        value = self._values.get(self.name, self._initial)
        if value is None:
            return self._declaration.make_zeros()
        element_type = self._declaration.type
        is_changed = element_type is not None and self._computed_types.get(element_type.dtype) == value.dtype
        return value.astype(element_type.dtype) if element_type is not None and is_changed else value.copy()

    @state.setter
    def state(self, value: ArrayLike) -> None:
        element_type = self._declaration.type
        is_typed = isinstance(value, (np.ndarray, np.generic))
        try:
            array = np.array(value) if is_typed or element_type is None else np.array(value, element_type.dtype)
        except Exception:  # objects convert themselves
            found = describe_value(value)
            raise InputError(f"the value of variable {self.name!r} is {found}, expected an array") from None
        self._declaration.check(self.name, array)
        with self._lock:
            self._values[self.name] = array.astype(self._computed_types.get(array.dtype, array.dtype), copy=False)

    def reset(self) -> None:
        """Restore the initial value.

        Raises:
            ExecutionError: The request is running.
        """
        with self._lock:
            self._values.pop(self.name, None)


def list_variables(program: Program, values: dict[str, Array], lock: RunLock) -> list[VariableState]:
    """Return the variables of a model.

    Args:
        program: The plain program of the model.
        values: The values of the variables of a request.
        lock: The lock that the request holds while it runs.
    """
    variables: dict[str, tuple[Declaration, Array | None]] = {}
    for current, instruction in program.walk():
        name = instruction.attributes.get("variable_id")
        if name is not None and any(port.name == "init_value" for port in instruction.operation.inputs):
            variables[name] = _declare_variable(current, instruction)
        elif name is not None:
            variables.setdefault(name, (Declaration(None, None), None))
    return [
        VariableState(name, values, *variable, program.computed_types, lock) for name, variable in variables.items()
    ]


def _declare_variable(program: Program, instruction: Instruction) -> tuple[Declaration, Array | None]:
    """Return the declaration of the variable of a ReadValue, and its initial value unless inputs determine it."""
    attributes = instruction.attributes
    element_type = attributes.get("variable_type")
    if element_type is None and instruction.layer.outputs:
        element_type = instruction.layer.outputs[0].element_type
    slot = instruction.inputs[0] if instruction.inputs else ABSENT
    initial = program.initial[slot]
    if initial is not None:
        element_type = ElementType.of(initial.dtype)
    declared = instruction.layer.outputs[0].element_type if instruction.layer.outputs else None
    if declared and element_type and program.computed_types.get(declared.dtype) == element_type.dtype:
        element_type = declared
    declaration = Declaration(element_type, _find_variable_shape(instruction, initial))
    return declaration, declaration.make_zeros() if slot == ABSENT else initial


def _find_variable_shape(instruction: Instruction, initial: Array | None) -> PartialShape | None:
    """Return the shape of a variable: the declared shape or, if it has no rank, the shape of the initial value."""
    shape: PartialShape | None = instruction.attributes.get("variable_shape")
    if shape is not None or not instruction.inputs:
        return shape
    if initial is not None:
        return PartialShape(initial.shape)
    ports = (*instruction.layer.outputs[:1], *instruction.layer.inputs[:1])
    # OpenVINO writes ports without dimensions for both scalars and dynamic ranks.
    return next((port.shape for port in ports if port.shape), None)
