"""Names and globs of values on the command line."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from irrun.errors import InputError, ModelError
from irrun.inspection.keys import KeyTable, Selection, find_similar
from irrun.ir.graph import Layer
from irrun.ir.model import Model
from irrun.runtime.observer import Scope

__all__ = ["UnmatchedPatterns", "add_output"]


class UnmatchedPatterns:
    """An observer that removes the patterns that the executed layers match.

    Args:
        patterns: Names or globs of values.
        table: The keys of the model.

    Attributes:
        patterns: The patterns that no layer has matched yet.
    """

    def __init__(self, patterns: Sequence[str], table: KeyTable) -> None:
        self.patterns = list(dict.fromkeys(patterns))
        self._selections = {pattern: Selection([pattern]) for pattern in patterns}
        self._table = table

    def __call__(
        self, layer: Layer, inputs: Sequence[Any], outputs: Sequence[Any], seconds: float, scope: Scope
    ) -> None:
        """Remove the patterns that a layer matches."""
        if self.patterns:
            key = self._table.get_key(layer, scope)
            self.patterns = [p for p in self.patterns if not self._selections[p].select_ports(layer, key)]

    def check(self) -> None:
        """Check that each pattern matched a layer that was executed.

        Raises:
            InputError: No executed layer matches a pattern.
        """
        if not self.patterns:
            return
        names = ", ".join(map(repr, self.patterns))
        if any(re.search(r"\[\d+\]/", pattern) for pattern in self.patterns):
            hint = "--trace lists the iterations that ran"
        else:
            hint = "values that depend only on constants are computed when the model is compiled"
        raise InputError(f"no executed layer matches {names}; {hint}")


def add_output(model: Model, name: str, table: KeyTable) -> None:
    """Add an intermediate value to the outputs of a model.

    Args:
        model: The model.
        name: The name of the value.
        table: The keys of the model.

    Raises:
        ModelError: No value has this name. The message lists similar ones.
        InputError: No value has this name, but a value in a body has it or a similar one.
    """
    try:
        model.add_outputs([name])
    except ModelError as error:
        similar = find_similar(name, [path for path in table.get_paths() if "]/" in path])
        is_exact = len(similar) == 1 and similar[0].endswith("/" + name.rpartition("/")[2])
        if not similar or ("did you mean" in str(error) and not is_exact):
            raise
        raise InputError(f"unknown value {name!r}; did you mean {', '.join(similar)}?") from None
