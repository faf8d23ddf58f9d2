"""Names of nodes and models."""

from __future__ import annotations

from irrun.openvino.getters import from_getter

__all__ = ["Named"]


class Named:
    """A node or model, with a unique name and one that the user or the file chose."""

    _name: str
    _friendly_name: str | None

    def get_name(self) -> str:
        """Return the unique name."""
        return self._name

    name = from_getter(get_name)

    def get_friendly_name(self) -> str:
        """Return the name that the user or the file chose."""
        return self._name if self._friendly_name is None else self._friendly_name

    def set_friendly_name(self, name: str) -> None:
        """Set the friendly name."""
        self._friendly_name = name

    friendly_name = from_getter(get_friendly_name, set_friendly_name)
