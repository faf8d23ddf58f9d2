"""Constants whose size follows an input of the model: initial states, and sequences of positions."""

from __future__ import annotations

from typing import Any

import numpy as np

from irrun.element_types import ELEMENT_TYPES
from irrun.ir.graph import Body, Layer, OutputAddress
from irrun.ops.shape_rules import Value
from irrun.runtime.fixed_shapes.relaxation import Relaxation
from irrun.runtime.shape_inference import GraphInference
from irrun.shapes import UNBOUNDED, PartialShape

__all__ = ["broadcast_outer_states", "broadcast_states", "lengthen_sequence"]


def lengthen_sequence(relaxation: Relaxation, broadcast: Layer) -> None:
    """Give a broadcast constant 0, 1, 2, ... the length of the dimension that it is broadcast to."""
    editor, found = relaxation.editor, relaxation.get_operation(broadcast)
    array, target = relaxation.get_constant_array(broadcast, 0), editor.get_source(broadcast, 1)
    if found is None or found[1]["mode"] != "bidirectional" or array is None or target is None:
        return
    is_sequence = array.dtype.kind in "iu" and 5 < array.size < 500 and max(array.shape) == array.size
    if not is_sequence or not np.array_equal(array.reshape(-1), np.arange(array.size)):
        return
    constant = editor.get_producer(broadcast, 0)
    assert constant is not None
    kind, name = constant.outputs[0].element_type, constant.name
    target_kind = next(p for p in editor.get_layer(target[0]).outputs if p.id == target[1]).element_type
    if kind is None or target_kind is None:
        return
    axis, scalar = array.shape.index(array.size), PartialShape()
    version = {"element_type": kind, "shape": scalar}

    def add(layer_type: str, opset: str, inputs: list[OutputAddress], attributes: dict[str, Any], **output: Any) -> Any:
        return editor.add_layer(layer_type, opset, inputs, attributes, name=f"{name}/{layer_type}", **output)

    place = editor.add_constant(axis - array.ndim, f"{name}/place")
    size = relaxation.editor.add_gather(target, place, 0, f"{name}/Gather", target_kind, scalar)
    one = editor.add_constant(1, f"{name}/one", target_kind.name)
    is_one = add(
        "Equal", "opset1", [size, one], {"auto_broadcast": "numpy"}, element_type=ELEMENT_TYPES["boolean"], shape=scalar
    )
    converted = add("Convert", "opset1", [size], {"destination_type": kind.name}, **version)
    length = editor.add_constant(array.size, f"{name}/length", kind.name)
    end = add("Select", "opset1", [is_one, length, converted], {"auto_broadcast": "numpy"}, **version)
    start, step = (editor.add_constant(n, f"{name}/{part}", kind.name) for n, part in ((0, "start"), (1, "step")))
    result = add(
        "Range",
        "opset4",
        [start, end, step],
        {"output_type": kind.name},
        element_type=kind,
        shape=PartialShape([array.size]),
    )
    others = [i for i in range(array.ndim) if i != axis]
    if others:
        axes = editor.add_constant(others, f"{name}/axes")
        result = add("Unsqueeze", "opset1", [result, axes], {}, element_type=kind, shape=PartialShape(array.shape))
    editor.set_input(broadcast, 0, result)


def broadcast_states(relaxation: Relaxation, cell: Layer) -> None:
    """Let constant initial states of an LSTMCell for a batch of 1 have the batch size of the data."""
    found, data = relaxation.get_operation(cell), relaxation.editor.get_source(cell, 0)
    if found is not None and found[0].since >= 4 and data is not None:
        for position in (1, 2):
            _broadcast_state(relaxation, cell, position, data, 0)


def _broadcast_state(relaxation: Relaxation, layer: Layer, position: int, data: OutputAddress, batch_axis: int) -> None:
    """Broadcast a constant input of batch size 1 to the batch size of the data."""
    editor = relaxation.editor
    address, constant = editor.get_source(layer, position), editor.get_producer(layer, position)
    if address is None or constant is None or not constant.is_constant or constant.constant is None:
        return
    shape = constant.constant.shape
    if len(shape) != 2 or shape[0] != 1:
        return
    name = f"{layer.name}/state"
    batch = relaxation.add_dimensions(data, [batch_axis], f"{name}/batch")
    target = relaxation.add_concatenation([batch, editor.add_constant([shape[1]], f"{name}/size")], 2, f"{name}/target")
    state = editor.add_layer(
        "Broadcast",
        "opset3",
        [address, target],
        {"mode": "numpy"},
        name=name,
        element_type=constant.outputs[0].element_type,
        shape=PartialShape(shape),
    )
    editor.set_input(layer, position, state)


def broadcast_outer_states(relaxation: Relaxation, iterator: Layer) -> None:
    """Let constant initial states of LSTMCells in a TensorIterator have the batch size of the data."""
    body = iterator.bodies.get("body")
    if body is None:
        return
    places = {entry.internal_layer_id: entry.external_port_id for entry in body.inputs}
    positions = {port.id: i for i, port in enumerate(iterator.inputs)}
    sources: dict[int, dict[int, int]] = {edge.to_layer: {} for edge in body.graph.edges}
    for edge in body.graph.edges:
        sources[edge.to_layer][edge.to_port] = edge.from_layer
    for cell in body.graph.find_layers("LSTMCell"):
        found = relaxation.get_operation(cell)
        batch = _find_batch(body, cell)
        if found is None or found[0].since < 4 or batch is None or batch[0] not in places:
            continue
        data = relaxation.editor.get_source(iterator, positions[places[batch[0]]])
        for port in cell.inputs[1:3]:
            parameter = sources.get(cell.id, {}).get(port.id)
            if parameter in places and data is not None:
                _broadcast_state(relaxation, iterator, positions[places[parameter]], data, batch[1])


def _find_batch(body: Body, cell: Layer) -> tuple[int, int] | None:
    """Return the Parameter of a body and its axis that the batch size of a cell comes from."""
    marker = 7919  # a size that no layer of the body has
    ranks = {p.id: p.outputs[0].shape for p in body.graph.find_layers("Parameter")}
    unknown = {i: Value(None if s is None else PartialShape([UNBOUNDED] * len(s))) for i, s in ranks.items()}
    for parameter, shape in ranks.items():
        for axis in range(len(shape or ())):
            marked = [UNBOUNDED] * len(shape or ())
            sizes = [marker if i == axis else size for i, size in enumerate(marked)]
            inference = GraphInference(body.graph, {**unknown, parameter: Value(PartialShape(sizes))})
            data = inference.get_inputs(cell)[0]
            if data is not None and data.shape and data.shape[0] == marker:
                return parameter, axis
    return None
