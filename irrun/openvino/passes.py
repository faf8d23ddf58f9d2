"""Passes over models. irrun's passes run when a model is compiled; OpenVINO's passes are not available."""

from __future__ import annotations

from typing import Any

__all__ = ["Manager"]


class Manager:
    """A list of passes."""

    def __init__(self) -> None:
        self._passes: list[Any] = []

    def register_pass(self, *arguments: Any) -> Any:
        """Add a pass, which is an object with a method `run_on_model`."""
        item = arguments[0]
        if not hasattr(item, "run_on_model"):
            raise RuntimeError(f"irrun does not have the pass {item!r}")
        self._passes.append(item)
        return item

    def run_passes(self, model: Any) -> None:
        """Run the passes."""
        for item in self._passes:
            item.run_on_model(model)
