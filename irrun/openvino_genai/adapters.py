"""`AdapterConfig`: which adapters are added to a model. irrun accepts configurations without adapters only."""

from __future__ import annotations

from typing import Any

from irrun.arguments import describe_value
from irrun.openvino_genai.enumerations import AdapterMode

__all__ = ["Adapter", "AdapterConfig", "to_adapters"]


class Adapter:
    """An adapter; only the empty one can be created.

    Raises:
        RuntimeError: A file or a tensor was passed.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        if args or kwargs:
            raise RuntimeError("irrun does not support adapters of OpenVINO GenAI: openvino_genai.Adapter")

    def __bool__(self) -> bool:
        return False


class AdapterConfig:
    """Adapters and their weights.

    The arguments are one of `(mode)`, `(adapter, alpha, mode)`, `(adapter, mode)`, `(adapters, mode)`, with a list of
    adapters or of pairs of adapters and weights. `mode` may be left out.

    Raises:
        TypeError: An argument is of another type.
    """

    Mode = AdapterMode

    def __init__(self, *args: Any, mode: AdapterMode = AdapterMode.MODE_AUTO, **kwargs: Any) -> None:
        values = [*args, *kwargs.values()]
        if values and isinstance(values[-1], AdapterMode):
            mode = values.pop()
        self.mode = mode
        self._adapters: list[tuple[Adapter, float]] = []
        if values and isinstance(values[0], Adapter):
            self.add(*values)
        elif len(values) == 1 and isinstance(values[0], (list, tuple)):
            for item in values[0]:
                self.add(*item) if isinstance(item, tuple) else self.add(item)
        elif values:
            raise TypeError(f"AdapterConfig(): incompatible constructor arguments: {describe_value(values[0])}")

    def __bool__(self) -> bool:
        return bool(self._adapters)

    def add(self, adapter: Adapter, alpha: float = 1.0) -> AdapterConfig:
        """Add an adapter, and return this object.

        Raises:
            RuntimeError: The adapter was added before.
            TypeError: It is no adapter.
        """
        if not isinstance(adapter, Adapter):
            raise TypeError(f"add(): incompatible function arguments: expected an Adapter, found {adapter!r}")
        if any(known is adapter for known, _ in self._adapters):
            raise RuntimeError("Adapter object passed to AdapterConfig::add was already added before")
        self._adapters.append((adapter, float(alpha)))
        return self

    def get_adapters(self) -> list[Adapter]:
        """Return the adapters."""
        return [adapter for adapter, _ in self._adapters]

    def get_adapters_and_alphas(self) -> list[tuple[Adapter, float]]:
        """Return the adapters with their weights."""
        return list(self._adapters)

    def set_adapters_and_alphas(self, adapters: list[tuple[Adapter, float]]) -> None:
        """Replace the adapters and their weights."""
        self._adapters = [(adapter, float(alpha)) for adapter, alpha in adapters]

    def _find(self, adapter: Adapter) -> int:
        for i, (known, _) in enumerate(self._adapters):
            if known is adapter:
                return i
        raise RuntimeError("Unknown adapter passed as parameter: it is not in this AdapterConfig")

    def get_alpha(self, adapter: Adapter) -> float:
        """Return the weight of an adapter.

        Raises:
            RuntimeError: The adapter was not added.
        """
        return self._adapters[self._find(adapter)][1]

    def set_alpha(self, adapter: Adapter, alpha: float) -> AdapterConfig:
        """Set the weight of an adapter, and return this object.

        Raises:
            RuntimeError: The adapter was not added.
        """
        self._adapters[self._find(adapter)] = (adapter, float(alpha))
        return self

    def remove(self, adapter: Adapter) -> AdapterConfig:
        """Remove an adapter, and return this object.

        Raises:
            RuntimeError: The adapter was not added.
        """
        del self._adapters[self._find(adapter)]
        return self


def to_adapters(value: Any) -> AdapterConfig | None:
    """Return a configuration without adapters, or None.

    Raises:
        RuntimeError: There are adapters.
        TypeError: The value is something else.
    """
    if value is not None and not isinstance(value, AdapterConfig):
        raise TypeError(f"expected an AdapterConfig, found {describe_value(value)}")
    if value:
        raise RuntimeError("irrun does not support adapters of OpenVINO GenAI")
    return value


AdapterMode.__name__ = "Mode"
AdapterMode.__qualname__ = "AdapterConfig.Mode"
