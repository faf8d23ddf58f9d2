"""Graph -> Program: all that can be decided once is decided here."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from irrun.errors import IrrunError, ModelError, UnsupportedError
from irrun.ir.model import Body, Edge, Graph, Layer, Model
from irrun.ir.structure import constant_extent, is_placeholder, sort_layers
from irrun.ops._support import registry
from irrun.ops._support.context import BackEdgeDescription, BodyRunner, InputDescription, OutputCount, OutputDescription
from irrun.ops._support.operation import Operation
from irrun.packing import unpack
from irrun.runtime.program import ABSENT, BodyProgram, Instruction, Program

__all__ = ["lower", "unsupported", "unsupported_error"]


def lower(model: Model) -> Program:
    """The Program of a model; its bodies are lowered with it, once.

    Raises:
        UnsupportedError: operations that irrun lacks, all of them.
        ModelError: an attribute is missing or wrong, a required input is not connected, a constant does not fit.
    """
    lacking = unsupported_error(model)
    if lacking is not None:
        raise lacking
    try:
        return _Lowering(model, model.graph, _Stored(model)).program()
    except IrrunError as error:
        error.path = error.path or model.path
        raise


def unsupported(model: Model) -> dict[str, list[Layer]]:
    """The operations of a model, bodies included, that irrun lacks -> the layers that need them."""
    lacking: dict[str, list[Layer]] = {}
    for _, layer in model.graph.walk():
        if registry.find(layer.type, layer.version) is None:
            lacking.setdefault(f"{layer.type} of {layer.version}", []).append(layer)
    return lacking


def unsupported_error(model: Model) -> UnsupportedError | None:
    """What `lower` raises for the operations that irrun lacks, all of them; None where it lacks none."""
    lacking = unsupported(model)
    if not lacking:
        return None
    shown = "; ".join(f"{name} ({_places(layers)})" for name, layers in lacking.items())
    return UnsupportedError(f"operations that irrun lacks: {shown}", path=model.path)


def _places(layers: list[Layer]) -> str:
    first = layers[0]
    return f"layer {first.id} {first.name!r}" + (f" and {len(layers) - 1} more" if len(layers) > 1 else "")


class _Stored:
    """The constants of a model, those of the same bytes, type and shape as one array.

    Types that share bytes are unpacked as the model is lowered. Constants that overlap could make that any amount,
    so that there is a bound: a few times the length of the weights.
    """

    def __init__(self, model: Model) -> None:
        self.model = model
        self.values: dict[tuple[int, str, tuple[int, ...]], np.ndarray[Any, Any]] = {}
        self.left = (1 << 20) + 8 * len(model.weights)

    def value(self, layer: Layer) -> np.ndarray[Any, Any]:
        """The tensor of a Constant.

        Raises:
            ModelError: it does not fit its bytes, or too many constants share the same ones.
        """
        port = layer.outputs[0]
        assert port.element_type is not None
        assert port.shape is not None
        extent = constant_extent(layer, self.model)
        shape = tuple(int(d) for d in port.shape)  # type: ignore[arg-type]
        key = (int(layer.attributes.get("offset", 0)), port.element_type.name, shape)
        if key not in self.values:
            if port.element_type.is_packed or port.element_type.name in ("boolean", "string"):
                self.left -= len(extent)
                if self.left < 0:
                    length = len(self.model.weights)
                    raise ModelError(
                        f"constants overlap: they take more than 8 times the {length} bytes of the weights"
                    )
            try:
                self.values[key] = unpack(port.element_type, extent, shape)
            except ValueError as error:
                raise ModelError(str(error)) from error
        return self.values[key]


class _Lowering:
    """Lowers one graph; numbers its slots as it goes."""

    def __init__(self, model: Model, graph: Graph, stored: _Stored) -> None:
        self.model = model
        self.stored = stored
        self.graph = graph
        self.initial: list[np.ndarray[Any, Any] | None] = [None]
        self.slots: dict[tuple[int, int], int] = {}
        self.sources: dict[tuple[int, int], tuple[int, int]] = {
            (e.to_layer, e.to_port): (e.from_layer, e.from_port) for e in graph.edges
        }
        self.read = set(self.sources.values())
        self.constant_layers: dict[int, Layer] = {}

    def program(self) -> Program:
        instructions = []
        for layer in _in_order(self.graph):
            operation = registry.find(layer.type, layer.version)
            assert operation is not None
            try:
                if operation.type == "Parameter":
                    self.check_one_output(layer)
                    self.outputs(layer)
                elif operation.type == "Constant":
                    self.constant(layer)
                elif operation.type == "Result":
                    self.result(layer, operation)
                else:
                    instructions.append(self.instruction(layer, operation))
            except IrrunError as error:
                error.layer = error.layer or layer.describe()
                error.line = error.line or layer.line or None
                raise
        parameters = self.graph.of_type("Parameter")
        results = self.graph.of_type("Result")
        program = Program(
            instructions=instructions,
            initial=self.initial,
            parameters=[self.slots[p.id, p.outputs[0].id] for p in parameters],
            results=[self.input_slots(r)[0] for r in results],
            parameter_layers=parameters,
            result_layers=results,
            constant_layers=self.constant_layers,
        )
        program.free_after_last_use()
        return program

    def new_slot(self) -> int:
        self.initial.append(None)
        return len(self.initial) - 1

    def outputs(self, layer: Layer) -> tuple[int, ...]:
        """New slots for the output ports of a layer; one that nothing reads where it has no port."""
        slots = []
        for port in layer.outputs:
            slot = self.slots[layer.id, port.id] = self.new_slot()
            slots.append(slot)
        return tuple(slots) or (self.new_slot(),)

    def outputs_wanted(self, layer: Layer) -> int:
        """All outputs up to the last one that anything reads; the first one always."""
        return max((i for i, port in enumerate(layer.outputs, 1) if (layer.id, port.id) in self.read), default=1)

    def input_slots(self, layer: Layer) -> tuple[int, ...]:
        slots = []
        for port in layer.inputs:
            source = self.sources.get((layer.id, port.id))
            slots.append(ABSENT if source is None else self.slots[source])
        while slots and slots[-1] == ABSENT:
            slots.pop()
        return tuple(slots)

    def constant(self, layer: Layer) -> None:
        if is_placeholder(layer):
            self.slots.update(((layer.id, port.id), ABSENT) for port in layer.outputs)
            return
        self.check_one_output(layer)
        (slot, *_) = self.outputs(layer)
        self.constant_layers[slot] = layer
        given = layer.attributes.get("value")  # of a layer that does not come from a file
        if isinstance(given, np.ndarray):
            value = given.view()
        else:
            value = self.stored.value(layer).view()
        value.flags.writeable = False
        self.initial[slot] = value

    def check_one_output(self, layer: Layer) -> None:
        if any((layer.id, port.id) in self.read for port in layer.outputs[1:]):
            raise ModelError(f"an edge reads one of its {len(layer.outputs)} output ports that is not the first")

    def result(self, layer: Layer, operation: Operation) -> None:
        """Nothing runs for a Result; a layer that reads its output, as OpenVINO admits, reads its input."""
        slots = self.input_slots(layer)
        self.check_inputs(operation, layer, slots)
        self.slots.update(((layer.id, port.id), slots[0]) for port in layer.outputs)

    def instruction(self, layer: Layer, operation: Operation) -> Instruction:
        inputs = self.input_slots(layer)
        self.check_inputs(operation, layer, inputs)
        attributes = operation.bind(layer.attributes)
        outputs = self.outputs(layer)
        bodies = {}
        provided = {}
        for name, kind in operation.provided.items():
            if kind is BodyRunner:
                if name not in layer.bodies:
                    raise ModelError(f"{operation} needs a <{name}>")
                bodies[name] = self.body(layer, layer.bodies[name])
            elif kind is OutputCount:
                outputs = outputs[: self.outputs_wanted(layer)]
                attributes[name] = OutputCount(len(outputs))
            else:
                provided[name] = kind
        return Instruction(
            operation.kernel, inputs, outputs, layer, operation, attributes, bodies=bodies, provided=provided
        )

    def check_inputs(self, operation: Operation, layer: Layer, slots: tuple[int, ...]) -> None:
        declared = operation.inputs
        if len(slots) > len(declared) and not (declared and declared[-1].variadic):
            raise ModelError(f"{operation} takes {len(declared)} inputs, {len(slots)} are connected")
        for i, one in enumerate(declared):
            if not one.optional and (i >= len(slots) or slots[i] == ABSENT):
                raise ModelError(f"{operation} needs its input {i} ({one.name}), no edge leads into it")

    def body(self, layer: Layer, body: Body) -> BodyProgram:
        program = _Lowering(self.model, body.graph, self.stored).program()
        parameters = {p.id: i for i, p in enumerate(program.parameter_layers)}
        results = {r.id: i for i, r in enumerate(program.result_layers)}
        inputs = {p.id: i for i, p in enumerate(layer.inputs)}
        outputs = {p.id: i for i, p in enumerate(layer.outputs)}
        self.check_port_map(layer, body)
        return BodyProgram(
            program=program,
            inputs=tuple(
                InputDescription(
                    inputs.get(e.external_port_id, -1),
                    parameters[e.internal_layer_id],
                    e.axis,
                    e.start,
                    e.end,
                    e.stride,
                    e.part_size,
                    e.purpose,
                )
                for e in body.inputs
            ),
            outputs=tuple(
                OutputDescription(
                    outputs.get(e.external_port_id, -1),
                    results[e.internal_layer_id],
                    e.axis,
                    e.start,
                    e.end,
                    e.stride,
                    e.part_size,
                    e.purpose,
                )
                for e in body.outputs
            ),
            back_edges=tuple(
                BackEdgeDescription(results[e.from_layer], parameters[e.to_layer]) for e in body.back_edges
            ),
            output_count=len(layer.outputs),
        )

    def check_port_map(self, layer: Layer, body: Body) -> None:
        """Raise ModelError where a value is read that the port map does not give."""
        fed = {e.internal_layer_id for e in body.inputs}
        read = {e.from_layer for e in body.graph.edges}
        for parameter in body.graph.of_type("Parameter"):
            if parameter.id in read and parameter.id not in fed:
                raise ModelError(f"its port map feeds nothing to {parameter.describe()} of its body")
        given = {e.external_port_id for e in body.outputs}
        for edge in self.graph.edges:
            if edge.from_layer == layer.id and edge.from_port not in given:
                raise ModelError(f"its port map gives nothing to output port {edge.from_port}")


def _in_order(graph: Graph) -> Iterable[Layer]:
    """Topological order in which each ReadValue comes before the Assign of its variable."""
    assigns = {a.attributes.get("variable_id"): a for a in graph.of_type("Assign")}
    if not assigns:
        return sort_layers(graph)
    extra = [
        Edge(read.id, -1, assigns[name].id, -1)
        for read in graph.of_type("ReadValue")
        if (name := read.attributes.get("variable_id")) in assigns
    ]
    return sort_layers(Graph(graph.layers, [*graph.edges, *extra]))
