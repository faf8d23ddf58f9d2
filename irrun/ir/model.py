"""Models in memory: a graph and its weights, with the specs of its inputs and outputs."""

from __future__ import annotations

import operator
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from irrun._lazy import get_provider
from irrun.arguments import check_texts, describe_value
from irrun.element_types import ElementType
from irrun.errors import ModelError
from irrun.ir.graph import Graph, Layer, OutputNames, Port
from irrun.ir.weights import Weights
from irrun.shapes import PartialShape

__all__ = ["Model", "TensorSpec", "index_names", "name_inputs", "name_outputs"]


@dataclass(frozen=True, repr=False)
class TensorSpec:
    """The declaration of an input or output of a model, like OpenVINO's `ov::Output`.

    Attributes:
        names: All names: tensor names first, then the name of the layer.
        element_type: The declared element type, or None.
        partial_shape: The declared shape; None if its rank is dynamic.
        layer: The Parameter or Result.
        port: The output port that produces the value, or None.
    """

    names: tuple[str, ...]
    element_type: ElementType | None
    partial_shape: PartialShape | None
    layer: Layer
    port: Port | None = None

    def __hash__(self) -> int:  # a spec can be the key of an input
        return hash((self.names, self.layer.id))

    @property
    def tensor_names(self) -> frozenset[str]:
        """The tensor names, without the name of the layer."""
        ports = [*([self.port] if self.port else []), *self.layer.inputs[:1]]
        return frozenset(name for port in ports for name in port.names)

    @property
    def any_name(self) -> str:
        """The first name: a tensor name if there is one.

        Raises:
            ModelError: The tensor has no name.
        """
        if not self.names:
            raise ModelError("the tensor has no name", layer=self.layer.describe())
        return self.names[0]

    @property
    def shape(self) -> tuple[int, ...]:
        """The static shape.

        Raises:
            ModelError: The shape is dynamic.
        """
        if self.partial_shape is None or not self.partial_shape.is_static:
            raise ModelError(f"{self.any_name} has the dynamic shape {self.partial_shape or '[...]'}")
        return tuple(int(d) for d in self.partial_shape if isinstance(d, int))

    def __repr__(self) -> str:
        return f"<Tensor: {self}>"

    def __str__(self) -> str:
        shape = "[...]" if self.partial_shape is None else str(self.partial_shape)
        return f"{self.names[0] if self.names else '(unnamed)'}: {self.element_type or 'any'}{shape}"


@dataclass(slots=True, repr=False)
class Model:
    """A graph and its weights.

    Models can be pickled and copied. A pickled model refers to the file of its weights, which must still exist.

    Attributes:
        graph: The graph.
        weights: The weights.
        version: The IR version, 10 or 11. Legacy IR is upgraded to 11 when it is read.
        path: The .xml that the model was read from, or None.
        rt_info: The `rt_info` element as text, or None.
        meta_data: The `meta_data` element as text, or None.
        source_version: The IR version of the file.
    """

    graph: Graph
    weights: Weights
    version: int = 11
    path: Path | None = None
    rt_info: str | None = None
    meta_data: str | None = None
    source_version: int = 11

    def __repr__(self) -> str:
        inputs, outputs = (", ".join(map(str, tensors)) for tensors in (self.inputs, self.outputs))
        return f"<Model: {self.name!r}, {len(self.graph.layers)} layers, ({inputs}) -> ({outputs})>"

    def _repr_html_(self) -> str:
        from irrun._html import make_table

        types = Counter(layer.type for _, layer in self.graph.walk() if not layer.is_structural)
        rows = [
            (kind, ", ".join(tensor.names), tensor.element_type or "any", tensor.partial_shape or "[...]")
            for kind, tensors in (("input", self.inputs), ("output", self.outputs))
            for tensor in tensors
        ]
        title = f"Model: {self.name or 'unnamed'}, IR v{self.source_version}, {len(self.graph.layers)} layers"
        notes = ", ".join(f"{count} {name}" for name, count in types.most_common())
        return make_table(title, ("", "names", "type", "shape"), rows, notes=notes)

    @property
    def files(self) -> list[Path]:
        """The .xml and the .bin file that the model was read from, if it was."""
        return [path for path in (self.path, self.weights.path) if path is not None]

    @property
    def name(self) -> str:
        """The name of the network."""
        return self.graph.name

    @property
    def inputs(self) -> list[TensorSpec]:
        """The inputs, one per Parameter, in the order of the file."""
        specs = []
        for layer in self.graph.find_layers("Parameter"):
            port = layer.outputs[0] if layer.outputs else Port(0)
            names = _remove_duplicates(*port.names, layer.name)
            specs.append(TensorSpec(names, port.element_type, port.shape, layer, port))
        return specs

    @property
    def outputs(self) -> list[TensorSpec]:
        """The outputs, one per Result, in the order of the file, with names and type of the producer's port."""
        results = self.graph.find_layers("Result")
        result_ids = {layer.id for layer in results}
        sources = {e.to_layer: (e.from_layer, e.from_port) for e in self.graph.edges if e.to_layer in result_ids}
        producer_ids = {layer_id for layer_id, _ in sources.values()}
        producers = {layer.id: layer for layer in self.graph.layers if layer.id in producer_ids}
        ports = {
            (layer.id, port.id): (layer, i, port)
            for layer in producers.values()
            for i, port in reversed(list(enumerate(layer.outputs)))
        }
        specs = []
        for result in results:
            declared = result.inputs[0] if result.inputs else Port(0)
            place = ports.get(sources[result.id]) if result.id in sources else None
            if place is None:
                names = _remove_duplicates(result.name)
                specs.append(TensorSpec(names, declared.element_type, declared.shape, result))
                continue
            producer, position, port = place
            layer_name = producer.name if len(producer.outputs) == 1 else f"{producer.name}.{position}"
            names = _remove_duplicates(*declared.names, *port.names, layer_name, result.name)
            specs.append(TensorSpec(names, port.element_type, port.shape, result, port))
        return specs

    def input(self, key: int | str = 0) -> TensorSpec:
        """Return an input.

        Args:
            key: Its position or one of its names.

        Raises:
            ModelError: The input does not exist.
        """
        return _get_tensor(self.inputs, key, "input")

    def output(self, key: int | str = 0) -> TensorSpec:
        """Return an output.

        Args:
            key: Its position or one of its names.

        Raises:
            ModelError: The output does not exist.
        """
        return _get_tensor(self.outputs, key, "output")

    def add_outputs(self, names: str | Sequence[str]) -> list[TensorSpec]:
        """Turn intermediate values into outputs. Values that are outputs already are not added again.

        Args:
            names: One or more names, each a tensor name, the name of the producer, or `layer.port`.

        Returns:
            One output per name.

        Raises:
            ModelError: A value does not exist.
        """
        output_names = OutputNames(self.graph)
        addresses = [(name, output_names.find(name)) for name in check_texts("names", names)]
        result_ids = {layer.id for layer in self.graph.find_layers("Result")}
        results = {
            (e.from_layer, e.from_port): e.to_layer for e in reversed(self.graph.edges) if e.to_layer in result_ids
        }
        for name, address in addresses:
            if address not in results:
                results[address] = self.graph.add_result(name, address).id
        tensors = {tensor.layer.id: tensor for tensor in self.outputs}
        return [tensors[results[address]] for _, address in addresses]

    def reshape(self, shapes: Sequence[Any] | Mapping[Any, Any]) -> None:
        """Change the declared shapes of inputs, and infer the shapes of all values that depend on them.

        Dimensions that depend on a dynamic dimension or on the values of tensors become dynamic.

        Args:
            shapes: The shapes by name or position of the input, or the shape of the only input. Dimensions are those
                that `PartialShape` accepts: integers, -1 for a dynamic dimension, texts such as "1..8". None stands
                for a dynamic rank.

        Raises:
            ModelError: An input does not exist, or a single shape was passed but the model does not have one input.
            InputError: The shapes do not fit a layer. The model is unchanged.
            ValueError: A dimension is invalid.
        """
        if not isinstance(shapes, Mapping):
            if len(self.inputs) != 1:
                raise ModelError(
                    f"expected shapes by the names of inputs; the model has {_describe_tensors(self.inputs)}"
                )
            shapes = {0: shapes}
        new_shapes = {
            self.input(key).layer.id: None if shape is None else PartialShape(shape) for key, shape in shapes.items()
        }
        reshape_model = get_provider("reshape_model")  # it needs operations, which this package does not depend on
        reshape_model(self, new_shapes)


def index_names(tensors: Sequence[TensorSpec]) -> Mapping[str, int]:
    """Return the position of the tensor that each name refers to.

    A tensor name takes precedence over the name of a layer. Among equal names, the first tensor takes precedence.
    """
    positions: dict[str, int] = {}
    for position, tensor in enumerate(tensors):
        for name in tensor.tensor_names:
            positions.setdefault(name, position)
    for position, tensor in enumerate(tensors):
        for name in tensor.names:
            positions.setdefault(name, position)
    return positions


def name_inputs(inputs: Sequence[TensorSpec]) -> list[str]:
    """Return a unique name for each input; see `name_outputs`.

    Args:
        inputs: The inputs of a model.
    """
    return _name_tensors(inputs, "input")


def name_outputs(outputs: Sequence[TensorSpec]) -> list[str]:
    """Return a unique name for each output: the first of its names that no output before it has taken.

    Args:
        outputs: The outputs of a model.
    """
    return _name_tensors(outputs, "output")


def _name_tensors(tensors: Sequence[TensorSpec], kind: str) -> list[str]:
    names: dict[str, None] = {}
    for i, spec in enumerate(tensors):
        names[next(n for n in (*spec.names, f"{kind}{i}", f"{kind}{i}.result") if n not in names)] = None
    return list(names)


def _remove_duplicates(*names: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys(n for n in names if n))


def _get_tensor(tensors: list[TensorSpec], key: int | str, kind: str) -> TensorSpec:
    position = index_names(tensors).get(key, -1) if isinstance(key, str) else _to_index(key)
    if 0 <= position < len(tensors):
        return tensors[position]
    raise ModelError(f"unknown {kind} {describe_value(key)}; the model has {_describe_tensors(tensors)}")


def _to_index(key: Any) -> int:
    try:
        return operator.index(key)
    except TypeError:
        return -1


def _describe_tensors(tensors: Sequence[TensorSpec]) -> str:
    return "; ".join(map(str, tensors)) or "none"
