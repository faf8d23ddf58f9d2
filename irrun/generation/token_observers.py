"""Observers of the layers of a language model, token by token."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import IO, Any

import numpy as np

from irrun.formatting import format_count
from irrun.inspection.keys import KeyTable
from irrun.inspection.rounding import is_float_array
from irrun.ir.graph import Layer
from irrun.ir.model import Model
from irrun.runtime.observer import Scope

__all__ = ["TokenCheck", "TokenTrace"]

Array = np.ndarray[Any, Any]


class _TokenObserver:
    """Counts the runs of a model. The first run computes the first token.

    Args:
        model: The language model.

    Attributes:
        token: The number of the current token, from 0.
    """

    def __init__(self, model: Model) -> None:
        self.token = -1
        self._table = KeyTable(model)
        self._first: Layer | None = None

    def _count(self, layer: Layer, scope: Scope) -> None:
        self._first = self._first or layer
        if layer is self._first and not scope:
            self.token += 1

    def restart(self) -> None:
        """Count from the first token of another text."""
        self.token = -1


class TokenCheck(_TokenObserver):
    """Finds the first layer that produces NaN or infinities from finite inputs.

    Attributes:
        finding: A description of the finding, or None.
    """

    finding: str | None = None

    def __call__(
        self, layer: Layer, inputs: Sequence[Array | None], outputs: Sequence[Array], seconds: float, scope: Scope
    ) -> None:
        """Observe one layer."""
        self._count(layer, scope)
        if self.finding is not None or layer.is_constant or layer.is_input:
            return
        made = [value for value in outputs if is_float_array(value) and not np.isfinite(value).all()]
        received = [value for value in inputs if value is not None and is_float_array(value)]
        for name, test in (("NaN", np.isnan), ("infinite", np.isinf)):
            count = sum(int(np.count_nonzero(test(value))) for value in made)
            if count and not any(test(value).any() for value in received):
                key = self._table.get_key(layer, scope)
                self.finding = (
                    f"token {self.token}: {key} ({layer.type}) produces {format_count(count, f'{name} element')}"
                )
                return


class TokenTrace(_TokenObserver):
    """Writes a JSON line for each output of each layer.

    Args:
        model: The language model.
        file: The file to write to.
    """

    def __init__(self, model: Model, file: IO[str]) -> None:
        super().__init__(model)
        self._file = file

    def __call__(
        self, layer: Layer, inputs: Sequence[Array | None], outputs: Sequence[Array], seconds: float, scope: Scope
    ) -> None:
        """Observe one layer."""
        from irrun.data.json_output import describe_tensor

        self._count(layer, scope)
        for port, value in enumerate(outputs):
            described = describe_tensor(self._table.get_value_key(layer, port, scope), value, 0)
            described.pop("omitted", None)
            line = {"token": self.token, **described, "operation": layer.type, "seconds": seconds}
            self._file.write(json.dumps(line) + "\n")
