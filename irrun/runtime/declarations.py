"""Declared types and shapes against those of the arrays that flow."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from irrun.element_types import ElementType
from irrun.ir.model import Layer
from irrun.runtime.executor import Scope

__all__ = ["DeclarationCheck", "Mismatch"]


class Mismatch(NamedTuple):
    """A layer's output whose declared type or shape is not that of its value.

    Attributes:
        layer: the layer.
        port: the position of the output port.
        declared, actual: as text, such as "f32[1,3]".
    """

    layer: Layer
    port: int
    declared: str
    actual: str

    def __str__(self) -> str:
        return f"{self.layer.describe()}, output {self.port}: declared {self.declared}, is {self.actual}"


class DeclarationCheck:
    """An observer that notes every mismatch, the first time it occurs at each port."""

    def __init__(self) -> None:
        self.found: list[Mismatch] = []
        self._seen: set[tuple[int, int]] = set()

    def __call__(
        self,
        layer: Layer,
        inputs: Sequence[np.ndarray[Any, Any] | None],
        outputs: Sequence[np.ndarray[Any, Any]],
        seconds: float,
        scope: Scope,
    ) -> None:
        for i, (port, value) in enumerate(zip(layer.outputs, outputs, strict=False)):
            actual = ElementType.of(value.dtype)
            wrong_type = port.element_type is not None and port.element_type != actual
            # OpenVINO writes a port of unknown rank without dimensions, exactly as it writes a scalar's.
            wrong_shape = bool(port.shape and not port.shape.fits(value.shape))
            if (wrong_type or wrong_shape) and (id(layer), i) not in self._seen:
                self._seen.add((id(layer), i))
                shape = "[" + ",".join(map(str, value.shape)) + "]"
                declared = f"{port.element_type or ''}{port.shape if port.shape is not None else '[...]'}"
                self.found.append(Mismatch(layer, i, declared, f"{actual}{shape}"))
