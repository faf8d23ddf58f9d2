"""Observers of a run: callables that get the inputs and outputs of each layer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np

from irrun.ir.graph import Layer

__all__ = ["Observer", "Scope"]

Array = np.ndarray[Any, Any]

#: Where an instruction runs: the owners of the bodies that contain it, outermost first, each with its iteration.
Scope = tuple[tuple[Layer, int], ...]


class Observer(Protocol):
    """A callable that is called after each instruction, in bodies too."""

    def __call__(
        self,
        layer: Layer,
        inputs: Sequence[Array | None],
        outputs: Sequence[Array],
        seconds: float,
        scope: Scope,
    ) -> Sequence[Array] | None:
        """Observe one layer.

        Args:
            layer: The layer that ran.
            inputs: Its inputs; None for an optional input that is not connected.
            outputs: Its outputs.
            seconds: The run time of its kernel.
            scope: The layers whose bodies contain it, outermost first, each with its iteration.

        Returns:
            None, or values that replace the outputs: one array per output. The consumers of the layer and later
            observers get these values.
        """
