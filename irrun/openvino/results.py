"""`OVDict`: the results of a run, by port, index or name."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from irrun.openvino.node import ConstOutput

__all__ = ["OVDict"]


class OVDict(Mapping[Any, Any]):
    """The results of a run.

    Keys are the outputs of the compiled model. Their indices and tensor names are accepted too.

    Args:
        results: The arrays by output.
    """

    def __init__(self, results: dict[ConstOutput, Any]) -> None:
        self._results = results
        self._names: dict[str, ConstOutput] | None = None

    def __repr__(self) -> str:
        return repr(self._results)

    def __iter__(self) -> Iterator[ConstOutput]:
        return iter(self._results)

    def __len__(self) -> int:
        return len(self._results)

    def __getitem__(self, key: Any) -> Any:
        if isinstance(key, ConstOutput) and type(key) is ConstOutput:
            return self._results[key]
        if isinstance(key, int):
            try:
                return list(self._results.values())[key]
            except IndexError:
                raise KeyError(key) from None
        if isinstance(key, str):
            if self._names is None:
                self._names = {name: port for port in self._results for name in port.names}
            return self._results[self._names[key]]
        raise TypeError(f"Unknown key type: {type(key)}")

    def keys(self) -> Any:
        """Return the outputs."""
        return self._results.keys()

    def values(self) -> Any:
        """Return the arrays."""
        return self._results.values()

    def items(self) -> Any:
        """Return pairs of outputs and arrays."""
        return self._results.items()

    def names(self) -> tuple[set[str], ...]:
        """Return the tensor names of each output."""
        return tuple(port.names for port in self._results)

    def to_dict(self) -> dict[ConstOutput, Any]:
        """Return the arrays by output as a dictionary."""
        return self._results

    def to_tuple(self) -> tuple[Any, ...]:
        """Return the arrays in the order of the outputs."""
        return tuple(self._results.values())
