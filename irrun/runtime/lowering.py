"""Lowering of a graph to a program. Decisions that do not depend on the inputs of a run are made here."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from irrun.errors import IrrunError, ModelError, UnsupportedError
from irrun.fast.packing import RELEASE_INTERVAL
from irrun.ir.graph import Body, Edge, Graph, Layer, PortMapEntry
from irrun.ir.model import Model
from irrun.ir.structure import check_body_is_mapped, is_placeholder, sort_layers
from irrun.limits import check_empty
from irrun.ops._support import registry
from irrun.ops._support.context import (
    BackEdgeDescription,
    BodyRunner,
    InputDescription,
    InputShapes,
    OutputCount,
    OutputDescription,
)
from irrun.ops._support.operation import Operation
from irrun.packing import PostponedNibbles
from irrun.runtime.program import ABSENT, BodyProgram, Instruction, Program

__all__ = ["find_unsupported", "lower", "make_unsupported_error"]

Array = np.ndarray[Any, Any]
#: Returns the operation of a layer type and version.
OperationFinder = Callable[[str, str], Operation | None]

#: Unpacked constants may take this many times the bytes of the weights, since constants may overlap.
OVERLAP_FACTOR = 8
#: Bytes of such constants that are always allowed.
OVERLAP_ALLOWANCE = 1 << 20
#: Minimum size of a constant that is not unpacked yet, in bytes.
MIN_POSTPONED_BYTES = 1 << 16


def lower(model: Model, operations: Sequence[Operation] = (), postpones: bool = False) -> Program:
    """Lower a model, with its bodies.

    Args:
        model: The model.
        operations: Operations that take precedence over registered ones.
        postpones: Whether large constants of u4 and i4 are not unpacked yet; see `Program.postponed`.

    Raises:
        UnsupportedError: The model has unsupported operations; the message lists all of them.
        ModelError: An attribute is missing or invalid, a required input is not connected, or a constant is invalid.
    """
    error = make_unsupported_error(model, operations)
    if error is not None:
        raise error
    try:
        # Layers of the same type and version share an operation, which is looked up once.
        find = functools.cache(functools.partial(registry.find, operations=operations))
        return _GraphLowering(model.graph, _ConstantPool(model, postpones), find).lower()
    except IrrunError as failure:
        failure.path = failure.path or model.path
        raise


def find_unsupported(model: Model, operations: Sequence[Operation] = ()) -> dict[str, list[Layer]]:
    """Return the unsupported operations of a model, bodies included, each with the layers that require it.

    Args:
        model: The model.
        operations: Operations that take precedence over registered ones.
    """
    unsupported: dict[str, list[Layer]] = {}
    is_supported: dict[tuple[str, str], bool] = {}
    for _, layer in model.graph.walk():
        key = (layer.type, layer.version)
        if key not in is_supported:
            is_supported[key] = registry.find(*key, operations) is not None
        if not is_supported[key]:
            unsupported.setdefault(f"{layer.type} of {layer.version}", []).append(layer)
    return unsupported


def make_unsupported_error(model: Model, operations: Sequence[Operation] = ()) -> UnsupportedError | None:
    """Return the error that lists all unsupported operations of a model, or None if it has none."""
    unsupported = find_unsupported(model, operations)
    if not unsupported:
        return None
    shown = "; ".join(f"{name} ({_describe_layers(layers)})" for name, layers in unsupported.items())
    first = next(iter(unsupported.values()))[0]
    hint = (
        f'to add one, pass a function with the decorator @irrun.op("{first.type}", opset="{first.version}"), '
        "on the command line with --import FILE.py"
    )
    return UnsupportedError(f"unsupported operations: {shown}; {hint}", path=model.path)


def _describe_layers(layers: list[Layer]) -> str:
    first = layers[0]
    return f"layer {first.id} {first.name!r}" + (f" and {len(layers) - 1} more" if len(layers) > 1 else "")


class _ConstantPool:
    """The arrays of a model's constants; constants of the same bytes, type and shape share one array.

    Sub-byte types and strings are unpacked when a model is lowered. Since constants may overlap, the memory for this is
    limited to a multiple of the size of the weights.
    """

    def __init__(self, model: Model, postpones: bool) -> None:
        self.weights = model.weights
        self.postpones = postpones
        #: Constants that are not unpacked yet, by the identity of their arrays.
        self.postponed: dict[int, PostponedNibbles] = {}
        self.arrays: dict[tuple[int, str, tuple[int, ...]], Array] = {}
        self.remaining = OVERLAP_ALLOWANCE + OVERLAP_FACTOR * len(model.weights)
        self.unreleased = 0

    def get_array(self, layer: Layer) -> Array:
        """Return the value of a Constant.

        Raises:
            ModelError: The layer has no valid value, or too many constants overlap.
            InputError: It has no elements and its other dimensions are large.
        """
        constant = layer.constant
        if constant is None:
            raise ModelError("the layer has no constant")
        if constant.data is None:
            self.weights.check_exists()
        if 0 in constant.shape:
            check_empty(constant.shape)
        if constant.offset is None:
            return constant.to_array()
        key = (constant.offset, constant.element_type.name, constant.shape)
        if key not in self.arrays:
            if constant.element_type.is_packed or constant.element_type.name in ("boolean", "string"):
                self.remaining -= constant.size
                if self.remaining < 0:
                    raise ModelError(
                        f"constants overlap: they take more than {OVERLAP_FACTOR} times the {len(self.weights)} bytes "
                        "of the weights"
                    )
            is_large = constant.size >= MIN_POSTPONED_BYTES and constant.element_type.name in ("i4", "u4")
            if self.postpones and is_large and constant.data is not None:
                postponed = PostponedNibbles(constant.element_type, constant.data, constant.shape)
                self.arrays[key] = postponed.array
                self.postponed[id(postponed.array)] = postponed
                return self.arrays[key]
            self.arrays[key] = constant.to_array()
            if constant.element_type.is_packed:
                self.release_originals(constant.size)
        return self.arrays[key]

    def release_originals(self, size: int) -> None:
        """Count bytes that were unpacked, and release the memory that the file took when they were read."""
        self.unreleased += size
        if self.unreleased >= RELEASE_INTERVAL:
            self.unreleased = 0
            self.weights.release()


class _GraphLowering:
    """Lowers one graph and numbers its slots."""

    def __init__(self, graph: Graph, constants: _ConstantPool, find_operation: OperationFinder) -> None:
        self.graph = graph
        self.constants = constants
        self.find_operation = find_operation
        self.initial: list[Array | None] = [None]
        self.slots: dict[tuple[int, int], int] = {}
        self.sources: dict[tuple[int, int], tuple[int, int]] = {
            (e.to_layer, e.to_port): (e.from_layer, e.from_port) for e in graph.edges
        }
        self.consumed = set(self.sources.values())
        self.constant_layers: dict[int, Layer] = {}
        self.postponed: dict[int, PostponedNibbles] = {}

    def lower(self) -> Program:
        instructions = []
        for layer in _sort_with_variables(self.graph):
            operation = self.find_operation(layer.type, layer.version)
            assert operation is not None
            try:
                if layer.is_input:
                    self.check_single_output(layer)
                    self.add_outputs(layer)
                elif layer.is_constant:
                    self.add_constant(layer)
                elif layer.is_output:
                    self.add_result(layer, operation)
                else:
                    instructions.append(self.make_instruction(layer, operation))
            except IrrunError as error:
                error.layer = error.layer or layer.describe()
                error.line = error.line or layer.line or None
                raise
        parameters = self.graph.find_layers("Parameter")
        results = self.graph.find_layers("Result")
        program = Program(
            instructions=instructions,
            initial=self.initial,
            parameters=[self.slots[p.id, p.outputs[0].id] for p in parameters],
            results=[self.get_input_slots(r)[0] for r in results],
            parameter_layers=parameters,
            result_layers=results,
            constant_layers=self.constant_layers,
            postponed=self.postponed,
        )
        program.free_after_last_use()
        return program

    def add_slot(self) -> int:
        self.initial.append(None)
        return len(self.initial) - 1

    def add_outputs(self, layer: Layer) -> tuple[int, ...]:
        """Add slots for the output ports of a layer; if it has no ports, add one slot without a consumer."""
        slots = []
        for port in layer.outputs:
            slot = self.slots[layer.id, port.id] = self.add_slot()
            slots.append(slot)
        return tuple(slots) or (self.add_slot(),)

    def count_consumed_outputs(self, layer: Layer) -> int:
        """Return the number of outputs up to the last one that has a consumer, at least 1."""
        return max((i for i, port in enumerate(layer.outputs, 1) if (layer.id, port.id) in self.consumed), default=1)

    def get_input_slots(self, layer: Layer) -> tuple[int, ...]:
        slots = []
        for port in layer.inputs:
            source = self.sources.get((layer.id, port.id))
            slots.append(ABSENT if source is None else self.slots[source])
        while slots and slots[-1] == ABSENT:
            slots.pop()
        return tuple(slots)

    def add_constant(self, layer: Layer) -> None:
        if is_placeholder(layer):
            self.slots.update(((layer.id, port.id), ABSENT) for port in layer.outputs)
            return
        self.check_single_output(layer)
        (slot, *_) = self.add_outputs(layer)
        self.constant_layers[slot] = layer
        array = self.constants.get_array(layer)
        if id(array) in self.constants.postponed:
            self.postponed[slot] = self.constants.postponed[id(array)]
        value = array.view()
        value.flags.writeable = False
        self.initial[slot] = value

    def check_single_output(self, layer: Layer) -> None:
        if any((layer.id, port.id) in self.consumed for port in layer.outputs[1:]):
            raise ModelError(f"the layer has {len(layer.outputs)} output ports, expected edges only from the first one")

    def add_result(self, layer: Layer, operation: Operation) -> None:
        """Connect the consumers of a Result's output, which OpenVINO allows, to its input."""
        slots = self.get_input_slots(layer)
        operation.check_inputs([slot != ABSENT for slot in slots])
        self.slots.update(((layer.id, port.id), slots[0]) for port in layer.outputs)

    def make_instruction(self, layer: Layer, operation: Operation) -> Instruction:
        inputs = self.get_input_slots(layer)
        operation.check_inputs([slot != ABSENT for slot in inputs])
        attributes = operation.bind(layer.attributes)
        kernel = _guard_custom_kernel(operation, layer) if operation.is_custom else operation.kernel
        outputs = self.add_outputs(layer)
        bodies = {}
        provided = {}
        for name, kind in operation.provided.items():
            if kind is BodyRunner:
                if name not in layer.bodies:
                    raise ModelError(f"{operation} requires a <{name}>")
                bodies[name] = self.lower_body(layer, layer.bodies[name])
            elif kind is OutputCount:
                outputs = outputs[: self.count_consumed_outputs(layer)]
                attributes[name] = OutputCount(len(outputs))
            elif kind is InputShapes:
                attributes[name] = InputShapes(port.shape for port in layer.inputs)
            else:
                provided[name] = kind
        return Instruction(kernel, inputs, outputs, layer, operation, attributes, bodies=bodies, provided=provided)

    def lower_body(self, layer: Layer, body: Body) -> BodyProgram:
        program = _GraphLowering(body.graph, self.constants, self.find_operation).lower()
        parameters = {p.id: i for i, p in enumerate(program.parameter_layers)}
        results = {r.id: i for i, r in enumerate(program.result_layers)}
        inputs = {p.id: i for i, p in enumerate(layer.inputs)}
        outputs = {p.id: i for i, p in enumerate(layer.outputs)}
        consumed = {port.id for port in layer.outputs if (layer.id, port.id) in self.consumed}
        check_body_is_mapped(layer, body, consumed)
        return BodyProgram(
            program=program,
            inputs=tuple(
                InputDescription(inputs.get(e.external_port_id, -1), parameters[e.internal_layer_id], **_get_slicing(e))
                for e in body.inputs
            ),
            outputs=tuple(
                OutputDescription(outputs.get(e.external_port_id, -1), results[e.internal_layer_id], **_get_slicing(e))
                for e in body.outputs
            ),
            back_edges=tuple(
                BackEdgeDescription(results[e.from_layer], parameters[e.to_layer]) for e in body.back_edges
            ),
            output_count=len(layer.outputs),
        )


def _get_slicing(entry: PortMapEntry) -> dict[str, Any]:
    names = ("axis", "start", "end", "stride", "part_size", "purpose")
    return {name: getattr(entry, name) for name in names}


def _guard_custom_kernel(operation: Operation, layer: Layer) -> Callable[..., Any]:
    from irrun.runtime.custom_kernels import guard_kernel

    return guard_kernel(operation, layer)


def _sort_with_variables(graph: Graph) -> Iterable[Layer]:
    """Return the layers in topological order, each ReadValue before the Assign of its variable."""
    assigns = {a.attributes.get("variable_id"): a for a in graph.find_layers("Assign")}
    if not assigns:
        return sort_layers(graph)
    extra = [
        Edge(read.id, -1, assigns[name].id, -1)
        for read in graph.find_layers("ReadValue")
        if (name := read.attributes.get("variable_id")) in assigns
    ]
    return sort_layers(Graph(graph.layers, [*graph.edges, *extra]))
