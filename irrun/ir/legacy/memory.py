"""Memory layers: pairs of one `id`, of which one gives what the other was given in the run before."""

from __future__ import annotations

from irrun.ir.legacy.builder import Builder
from irrun.ir.legacy.layer import LegacyLayer, Value

__all__ = ["Memories"]


class Memories:
    """Turns Memory layers into ReadValue and Assign of a variable named by their `id`.

    The layer with an output reads, the one with an input is set; before the first run the value is zero.
    """

    def __init__(self) -> None:
        self.readers: dict[str, LegacyLayer] = {}
        self.writers: dict[str, LegacyLayer] = {}

    def convert(self, builder: Builder, layer: LegacyLayer) -> list[Value]:
        """One of the two layers of a pair."""
        variable = layer.text("id")
        reads = bool(layer.outputs)
        found = self.readers if reads else self.writers
        if variable in found:
            raise layer.error(f"two Memory layers {'read' if reads else 'set'} the variable {variable!r}")
        if reads == bool(layer.inputs):
            raise layer.error("has both inputs and outputs" if reads else "has neither inputs nor outputs")
        found[variable] = layer
        if not reads:
            value = layer.input(0)
            self._layer(builder, "Assign", variable, value, layer)
            return []
        zero = builder.filled(0, layer.out_shape(), layer.out_type())
        return [self._layer(builder, "ReadValue", variable, zero, layer)]

    @staticmethod
    def _layer(builder: Builder, type: str, variable: str, value: Value, layer: LegacyLayer) -> Value:
        attributes = {"variable_id": variable}
        if type == "ReadValue" and value.type is not None:
            attributes["variable_type"] = value.type.name
            attributes["variable_shape"] = ",".join(map(str, value.shape or ()))
        made = builder.layer(type, [value], [(value.type, value.shape)], attributes, version="opset6", name=layer.name)
        return Value(made, made.outputs[0])

    def finish(self) -> None:
        """Raise ModelError where a variable is set that nobody reads, or read that nobody sets."""
        for own, other, what in (
            (self.readers, self.writers, "sets"),
            (self.writers, self.readers, "reads"),
        ):
            for variable in own.keys() - other.keys():
                raise own[variable].error(f"no Memory layer {what} the variable {variable!r}")
