"""An observer that compares declared with actual types and shapes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from irrun.element_types import ElementType
from irrun.ir.graph import Layer, Port
from irrun.runtime.observer import Scope

__all__ = ["DeclarationCheck", "Mismatch"]


class Mismatch(NamedTuple):
    """An output with a value that differs from the declared type or shape.

    Attributes:
        layer: The layer.
        port: The position of the output port.
        declared: The declaration, such as "f32[1,3]".
        actual: The type and shape of the value, in the same form.
    """

    layer: Layer
    port: int
    declared: str
    actual: str

    def __str__(self) -> str:
        return f"{self.layer.describe()}, output {self.port}: declared {self.declared}, actual {self.actual}"


class DeclarationCheck:
    """Observer that records the first mismatch of each output port.

    Args:
        computed_types: The types of arrays that the program replaces by others.

    Attributes:
        mismatches: The mismatches, in order of execution.
    """

    def __init__(self, computed_types: Mapping[np.dtype[Any], np.dtype[Any]] | None = None) -> None:
        self._computed_types = computed_types or {}
        self.mismatches: list[Mismatch] = []
        self._seen: set[tuple[int, int]] = set()

    def __call__(
        self,
        layer: Layer,
        inputs: Sequence[np.ndarray[Any, Any] | None],
        outputs: Sequence[np.ndarray[Any, Any]],
        seconds: float,
        scope: Scope,
    ) -> None:
        """Compare the outputs of a layer with its declarations."""
        for i, (port, value) in enumerate(zip(layer.outputs, outputs, strict=False)):
            if (id(layer), i) not in self._seen and not self._is_as_declared(port, value):
                self._seen.add((id(layer), i))
                declared = f"{port.element_type or ''}{port.shape if port.shape is not None else '[...]'}"
                actual = f"{ElementType.of(value.dtype)}[{','.join(map(str, value.shape))}]"
                self.mismatches.append(Mismatch(layer, i, declared, actual))

    def _is_as_declared(self, port: Port, value: np.ndarray[Any, Any]) -> bool:
        declared = port.element_type
        if declared is not None and declared != ElementType.of(value.dtype):
            is_replaced = self._computed_types.get(declared.dtype) == value.dtype
            if not is_replaced:
                return False
        # OpenVINO writes ports without dimensions for both scalars and dynamic ranks.
        return not port.shape or port.shape.is_compatible(value.shape)
