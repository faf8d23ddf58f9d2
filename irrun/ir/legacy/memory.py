"""Memory layers: pairs with the same `id`. One layer reads the value that the other one stored in the previous run."""

from __future__ import annotations

from irrun.ir.legacy.builder import Builder
from irrun.ir.legacy.layer import LegacyLayer, Value
from irrun.shapes import PartialShape

__all__ = ["MemoryConverter"]


class MemoryConverter:
    """Converts Memory layers to ReadValue and Assign of a variable named by their `id`.

    The layer with an output reads the variable, the layer with an input assigns it. Its initial value is zero.

    Attributes:
        readers: The layer that reads each variable.
        writers: The layer that assigns each variable.
    """

    def __init__(self) -> None:
        self.readers: dict[str, LegacyLayer] = {}
        self.writers: dict[str, LegacyLayer] = {}

    def convert(self, builder: Builder, layer: LegacyLayer) -> list[Value]:
        """Convert one of the two layers of a pair.

        Args:
            builder: The graph under construction.
            layer: A Memory layer.

        Returns:
            The value of the variable for a reader, and an empty list for a writer.

        Raises:
            ModelError: The pair has two readers or writers, or the layer has both inputs and outputs, or neither.
        """
        variable = layer.get_text("id")
        is_reader = bool(layer.outputs)
        layers = self.readers if is_reader else self.writers
        if variable in layers:
            raise layer.make_error(f"two Memory layers {'read' if is_reader else 'assign'} the variable {variable!r}")
        if is_reader == bool(layer.inputs):
            raise layer.make_error("has both inputs and outputs" if is_reader else "has neither inputs nor outputs")
        layers[variable] = layer
        attributes: dict[str, object] = {"variable_id": variable}
        if is_reader:
            value = builder.fill(0, layer.get_output_shape(), layer.get_output_type())
            attributes |= {
                "variable_type": layer.get_output_type(),
                "variable_shape": PartialShape(layer.get_output_shape()),
            }
        else:
            value = layer.get_input()
        converted = builder.add_layer(
            "ReadValue" if is_reader else "Assign",
            [value],
            [(value.element_type, value.shape)],
            attributes,
            version="opset6",
            name=layer.name,
        )
        return [Value(converted, port) for port in converted.outputs] if is_reader else []

    def check_pairs(self) -> None:
        """Check that each variable is both read and assigned.

        Raises:
            ModelError: A variable is only read or only assigned.
        """
        for layers, counterparts, verb in (
            (self.readers, self.writers, "assigns"),
            (self.writers, self.readers, "reads"),
        ):
            for variable in layers.keys() - counterparts.keys():
                raise layers[variable].make_error(f"no Memory layer {verb} the variable {variable!r}")
