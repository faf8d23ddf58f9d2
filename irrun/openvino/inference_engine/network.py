"""`IENetwork`: a network that was read from a file."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from irrun.openvino.inference_engine.data import DataPtr, InputInfoPtr
from irrun.openvino.model import Model
from irrun.openvino.node import Node, Output

__all__ = ["IENetwork", "get_output_name"]


class IENetwork:
    """A network that was read from a file.

    Args:
        model: The path of an .xml, its content as bytes, or a model.
        weights: The path of the .bin, or its content as bytes.
        init_from_buffer: Whether the arguments are bytes; they are recognized anyway.
    """

    def __init__(self, model: Any = "", weights: Any = "", init_from_buffer: bool = False) -> None:
        from irrun.openvino.core import Core

        self._model: Model = model if isinstance(model, Model) else Core().read_model(model, weights or None)
        self._read_ports()

    @classmethod
    def from_ir(cls, model: str, weights: str) -> IENetwork:
        """Read a network, as programs of 2018 do."""
        return cls(model, weights)

    def _read_ports(self) -> None:
        self._inputs = {
            node.get_friendly_name(): InputInfoPtr(DataPtr(node.get_friendly_name(), Output(node, 0)))
            for node in self._model.parameters
        }
        self._outputs = {
            get_output_name(result): DataPtr(get_output_name(result), Output(result, 0))
            for result in self._model.results
        }

    @property
    def name(self) -> str:
        """The name."""
        return self._model.get_friendly_name()

    @property
    def input_info(self) -> dict[str, InputInfoPtr]:
        """The inputs in the order of their names."""
        return dict(sorted(self._inputs.items()))

    @property
    def inputs(self) -> dict[str, DataPtr]:
        """The inputs in the order of their names, as programs before 2020.3 read them."""
        return {name: info.input_data for name, info in self.input_info.items()}

    @property
    def outputs(self) -> dict[str, DataPtr]:
        """The outputs in the order of their names."""
        return dict(sorted(self._outputs.items()))

    @property
    def layers(self) -> dict[str, Any]:
        """The layers by name."""
        return {node.get_friendly_name(): _IELayer(node) for node in self._model.get_ordered_ops()}

    @property
    def batch_size(self) -> int:
        """The first dimension of the first input. Setting it reshapes all inputs."""
        return next(iter(self._inputs.values())).input_data.shape[0]

    @batch_size.setter
    def batch_size(self, batch: int) -> None:
        if batch <= 0:
            raise AttributeError(f"Invalid batch size {batch}! Batch size should be positive integer value")
        self.reshape(
            {name: [batch, *info.input_data.shape[1:]] for name, info in self._inputs.items() if info.input_data.shape}
        )

    def reshape(self, input_shapes: Mapping[str, Any]) -> None:
        """Change the shapes of inputs, and infer the shapes of all outputs.

        Args:
            input_shapes: The shapes by name.

        Raises:
            RuntimeError: The shapes do not fit the layers, or an input does not exist.
        """
        shapes = {}
        for name, shape in input_shapes.items():
            if name not in self._inputs:
                raise RuntimeError(f"Input {name!r} does not exist; the network has {', '.join(self._inputs)}")
            shapes[self._inputs[name].input_data._port] = list(shape)
        self._model.reshape(shapes)

    def add_outputs(self, outputs: Any) -> None:
        """Turn layers into outputs.

        Args:
            outputs: The name of a layer, a pair of name and port, or a list of these.
        """
        items = outputs if isinstance(outputs, list) else [outputs]
        for item in items:
            name, index = item if isinstance(item, tuple) else (item, 0)
            self._model.add_outputs((name, index))
        for result in self._model.results:
            name = get_output_name(result)
            self._outputs.setdefault(name, DataPtr(name, Output(result, 0)))

    def serialize(self, path_to_xml: str | os.PathLike[str], path_to_bin: str | os.PathLike[str] = "") -> None:
        """Write the network as IR v11."""
        from irrun.openvino.serialization import serialize

        serialize(self._model, path_to_xml, path_to_bin)

    def get_ops(self) -> list[Node]:
        """Return the nodes of the graph."""
        return self._model.get_ordered_ops()


class _IELayer:
    """A layer of a network.

    Args:
        node: The node.

    Attributes:
        name: The name.
        type: The type.
        params: The attributes as texts.
    """

    def __init__(self, node: Node) -> None:
        self.name = node.get_friendly_name()
        self.type = node.get_type_name()
        self.params = {name: str(value) for name, value in node.get_attributes().items()}
        self.out_data = [DataPtr(self.name, output) for output in node.outputs()]
        self.affinity = ""


def get_output_name(result: Node) -> str:
    """Return the name of an output: the name of the layer, with the number of its output if it has several."""
    source = result.input_value(0)
    name = source.get_node().get_friendly_name()
    return name if source.get_node().get_output_size() == 1 else f"{name}.{source.get_index()}"
