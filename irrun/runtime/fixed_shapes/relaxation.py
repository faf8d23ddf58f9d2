"""The state of the adaptation of a graph, and the layers that adaptations add."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from irrun.element_types import ELEMENT_TYPES
from irrun.ir.editor import GraphEditor
from irrun.ir.graph import Layer, OutputAddress
from irrun.ops._support import registry
from irrun.ops._support.card import Card
from irrun.ops._support.operation import Operation
from irrun.runtime.shape_inference import GraphInference
from irrun.shapes import UNBOUNDED, PartialShape

__all__ = ["Relaxation"]

Array = np.ndarray[Any, Any]

_I64 = ELEMENT_TYPES["i64"]


class Relaxation:
    """The state of the adaptation of a graph.

    Args:
        editor: Edits the graph.
        inference: The facts about the values of the original graph.
    """

    def __init__(self, editor: GraphEditor, inference: GraphInference) -> None:
        self.editor = editor
        self.inference = inference
        self._shapes: dict[OutputAddress, PartialShape] = {}

    def is_used(self, layer: Layer) -> bool:
        """Return whether a layer has consumers, or does not need them."""
        return not layer.outputs or any(self.editor.get_consumers((layer.id, port.id)) for port in layer.outputs)

    def get_shape(self, address: OutputAddress | None) -> PartialShape | None:
        """Return the shape of a value for the original inputs; None if its rank is unknown."""
        if address is None:
            return None
        if address in self._shapes:
            return self._shapes[address]
        known = self.inference.values.get(address)
        if known is not None:
            return known.shape
        port = next((port for port in self.editor.get_layer(address[0]).outputs if port.id == address[1]), None)
        return None if port is None else port.shape

    def set_shape(self, layer: Layer, shape: PartialShape) -> None:
        """Set the shape that the first output of a layer has for the original inputs, after a change of the layer."""
        self._shapes[layer.id, layer.outputs[0].id] = shape

    def get_input_shape(self, layer: Layer, position: int) -> PartialShape | None:
        """Return the shape of an input of a layer for the original inputs."""
        return self.get_shape(self.editor.get_source(layer, position))

    def get_rank(self, layer: Layer) -> int | None:
        """Return the rank of the first output of a layer."""
        shape = self.get_shape((layer.id, layer.outputs[0].id))
        return None if shape is None else len(shape)

    def get_constant(self, layer: Layer, position: int) -> list[int] | None:
        """Return the elements of an input of a layer if it is a Constant of integers."""
        array = self.get_constant_array(layer, position)
        return None if array is None or array.dtype.kind not in "biu" else [int(n) for n in array.reshape(-1).tolist()]

    def get_constant_array(self, layer: Layer, position: int) -> Array | None:
        """Return the value of an input of a layer if it is a Constant."""
        producer = self.editor.get_producer(layer, position)
        if producer is None or not producer.is_constant or producer.constant is None or producer.constant.data is None:
            return None
        return producer.constant.to_array()

    def get_card(self, layer: Layer) -> Card:
        """Return the card of the operation of a layer."""
        return registry.get_card(layer.type, layer.version)

    def get_operation(self, layer: Layer) -> tuple[Operation, dict[str, Any]] | None:
        """Return the operation of a layer and its attributes with defaults; None if it is unsupported."""
        operation = registry.find(layer.type, layer.version)
        if operation is None or operation.is_custom:
            return None
        defaults = {a.name: a.default for a in operation.attributes if not a.required}
        return operation, {**defaults, **operation.bind(layer.attributes)}

    def get_only_consumer(self, layer: Layer, layer_type: str, position: int = 0) -> Layer | None:
        """Return the only consumer of a layer if it has a type and reads the layer at a position."""
        consumers = self.editor.get_consumers((layer.id, layer.outputs[0].id))
        if len(consumers) != 1 or consumers[0][0].type != layer_type or consumers[0][1] != position:
            return None
        return consumers[0][0]

    def add_dimensions(self, address: OutputAddress, axes: Sequence[int], name: str) -> OutputAddress:
        """Add layers that compute dimensions of a value, 1D; a constant if the value is constant."""
        editor = self.editor
        producer = editor.get_layer(address[0])
        if producer.is_constant and producer.constant is not None:
            return editor.add_constant([producer.constant.shape[axis] for axis in axes], name)
        shape = self.get_shape(address)
        rank = PartialShape([UNBOUNDED if shape is None else len(shape)])
        sizes = editor.add_layer(
            "ShapeOf", "opset3", [address], {"output_type": "i64"}, name=f"{name}/shape", element_type=_I64, shape=rank
        )
        places = editor.add_constant(axes, f"{name}/axes")
        return editor.add_gather(sizes, places, 0, name, _I64, PartialShape([len(axes)]))

    def add_concatenation(self, parts: Sequence[OutputAddress], count: int, name: str) -> OutputAddress:
        """Add a layer that joins 1D values of i64 to one with a number of elements."""
        return self.editor.add_layer(
            "Concat", "opset1", parts, {"axis": "0"}, name=name, element_type=_I64, shape=PartialShape([count])
        )

    def add_strided_slice(
        self, old: Layer, data: OutputAddress, parts: Sequence[Sequence[int]], masks: dict[str, Sequence[int]]
    ) -> OutputAddress:
        """Add a StridedSlice that replaces a layer.

        Args:
            old: The layer that gives its name, type and shape to the new one.
            data: The data.
            parts: The begin, end and strides.
            masks: The masks without the suffix of their names.
        """
        port = old.outputs[0]
        constants = [self.editor.add_constant(values, f"{old.name}/slice") for values in parts]
        zeros = [0] * len(parts[0])
        attributes = {
            f"{name}_mask": ",".join(map(str, masks.get(name, zeros)))
            for name in ("begin", "end", "new_axis", "shrink_axis", "ellipsis")
        }
        return self.editor.add_layer(
            "StridedSlice",
            "opset1",
            [data, *constants],
            attributes,
            name=old.name,
            element_type=port.element_type,
            shape=self.get_shape((old.id, port.id)),
        )
