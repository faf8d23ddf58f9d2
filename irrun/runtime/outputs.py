"""The outputs of a run."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from irrun.ir.model import TensorSpec, name_outputs
from irrun.runtime.inputs import InputKey, describe_tensor, find_position

__all__ = ["Outputs"]

Array = np.ndarray[Any, Any]


class Outputs(Mapping[InputKey, Array]):
    """The outputs of one run, by position or name. Iteration yields one name per output."""

    def __init__(self, specs: Sequence[TensorSpec], names: Mapping[str, int], arrays: Sequence[Array]) -> None:
        self._specs = specs
        self._names = names
        self._arrays = arrays

    def __getitem__(self, key: InputKey) -> Array:
        position = find_position(key, self._specs, self._names)
        if position is None:
            shown = str(key) if isinstance(key, TensorSpec) else repr(key)
            known = ", ".join(spec.names[0] for spec in self._specs if spec.names)
            error = IndexError if isinstance(key, int) else KeyError
            raise error(f"unknown output {shown}; the model has {len(self._arrays)}: {known}")
        return self._arrays[position]

    def __repr__(self) -> str:
        shown = (f"{name}: {describe_tensor(array)}" for name, array in self.to_dict().items())
        return f"<Outputs: {', '.join(shown)}>"

    def _repr_html_(self) -> str:
        from irrun._html import describe_array, make_table

        rows = [(name, describe_tensor(array), *describe_array(array)) for name, array in self.to_dict().items()]
        return make_table("Outputs", ("output", "type", "range", "first values"), rows)

    def __contains__(self, key: object) -> bool:
        return find_position(key, self._specs, self._names) is not None

    def __iter__(self) -> Iterator[str]:
        return iter(self.to_dict())

    def __len__(self) -> int:
        return len(self._arrays)

    def to_tuple(self) -> tuple[Array, ...]:
        """Return the arrays in the order of the model's Results."""
        return tuple(self._arrays)

    def to_dict(self) -> dict[str, Array]:
        """Return the arrays by name, each under one name."""
        return dict(zip(name_outputs(self._specs), self._arrays, strict=True))
