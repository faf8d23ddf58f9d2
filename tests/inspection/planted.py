"""A generator of planted faults: copies of a model in which one thing is wrong.

A fault changes one element of a constant, one attribute, the order of two inputs, or one element type. The layer that
has the fault is the one with the attribute, the inputs or the type; for a constant it is the first layer that uses it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

import irrun
from inspection.faults import copy_model
from irrun.element_types import ElementType
from irrun.inspection import KeyTable
from irrun.inspection.keys import find_constant_layers
from irrun.ir.constant import Constant
from irrun.ir.structure import sort_layers

__all__ = ["Fault", "plant_faults"]

#: Other values of attributes that do not change the shape of the result, by type of layer and attribute.
ATTRIBUTES = {
    ("MVN", "eps"): "0.1",
    ("MVN", "normalize_variance"): "false",
    ("Softmax", "axis"): "1",
    ("SoftMax", "axis"): "1",
    ("LogSoftmax", "axis"): "0",
    ("Gelu", "approximation_mode"): "TANH",
    ("LSTMSequence", "activations"): "tanh,tanh,tanh",
    ("LSTMSequence", "direction"): "reverse",
    ("LSTMCell", "activations"): "sigmoid,relu,tanh",
    ("LSTMCell", "clip"): "0.1",
    ("TopK", "mode"): "min",
    ("NormalizeL2", "eps"): "10",
    ("NormalizeL2", "eps_mode"): "max",
    ("PReLU", "slope"): "0.5",
    ("DetectionOutput", "nms_threshold"): "0.1",
    ("DetectionOutput", "confidence_threshold"): "0.5",
    ("DetectionOutput", "variance_encoded_in_target"): "true",
    ("PriorBoxClustered", "offset"): "0.1",
    ("PriorBox", "offset"): "0.1",
    ("Elu", "alpha"): "0.3",
    ("Clamp", "max"): "0.2",
    ("AvgPool", "exclude-pad"): "false",
    ("OneHot", "axis"): "0",
}
#: Types of layers of which the order of the inputs matters, with the positions that are swapped.
ORDERED_INPUTS = {
    "Subtract": (0, 1),
    "Divide": (0, 1),
    "MatMul": (0, 1),
    "Concat": (0, 1),
    "Select": (1, 2),
    "LSTMCell": (1, 2),
    "LSTMSequence": (1, 2),
    "Power": (0, 1),
    "Less": (0, 1),
    "Greater": (0, 1),
    "DetectionOutput": (0, 1),
}


@dataclass
class Fault:
    """A copy of a model with one fault.

    Attributes:
        kind: "constant", "attribute", "port order" or "element type".
        description: What was changed.
        layer: The key of the layer that has the fault, with iteration 0 of bodies.
        model: The copy.
    """

    kind: str
    description: str
    layer: str
    model: irrun.Model

    def __repr__(self) -> str:
        return f"<Fault: {self.kind} of {self.layer}, {self.description}>"


def plant_faults(model: irrun.Model, inputs, count: int, seed: int = 0, only_bodies: bool = False) -> Iterator[Fault]:
    """Iterate over faults that change an output of the layer that has them, kinds in turn.

    Args:
        model: The model, which is not changed.
        inputs: Inputs of the model. Faults without effect on them are left out.
        count: The largest number of faults.
        seed: Seed for the choice of layers.
        only_bodies: Whether all faults are in bodies.
    """
    rng = np.random.default_rng(seed)
    table = KeyTable(model)
    expected = irrun.compile_model(model, optimize=False)(inputs).to_tuple()
    kinds: list[list[Callable[[irrun.Model], Fault | None]]] = [
        list(_find_constants(model, table, rng, only_bodies)),
        list(_find_attributes(model, table, only_bodies)),
        list(_find_port_orders(model, table, only_bodies)),
        list(_find_element_types(model, table, only_bodies)),
    ]
    for candidates in kinds:
        rng.shuffle(candidates)
    while count and any(kinds):
        for candidates in kinds:
            fault = None
            while candidates and fault is None:
                fault = candidates.pop()(copy_model(model))
                if fault is not None and not _has_effect(fault.model, inputs, expected):
                    fault = None
            if fault is not None and count:
                count -= 1
                yield fault


def _has_effect(model, inputs, expected) -> bool:
    """Return whether the model runs and has other outputs."""
    try:
        outputs = irrun.compile_model(model, optimize=False)(inputs).to_tuple()
    except irrun.IrrunError:
        return False
    pairs = zip(outputs, expected, strict=True)
    return all(a.shape == b.shape for a, b in zip(outputs, expected, strict=True)) and any(
        not np.array_equal(a, b) for a, b in pairs
    )


def _walk(model, table, only_bodies):
    for key, layer in table.iterate_layers():
        if not only_bodies or "[0]/" in key:
            yield key, layer


def _find_constants(model, table, rng, only_bodies):
    for key, layer in _walk(model, table, only_bodies):
        if layer.type == "Constant" and layer.constant is not None and layer.constant.element_type.is_float:
            consumer = _find_consumer(table, layer)
            if consumer is not None:
                yield _make_constant_fault(key, table.get_path(consumer), rng.random())


def _find_consumer(table, constant):
    """Return the first executed layer that uses a constant."""
    graph = table.get_graph(constant)
    folded = find_constant_layers(graph)
    reached = {constant.id}
    order = list(sort_layers(graph))
    for layer in order:
        if any(e.from_layer in reached and e.to_layer == layer.id for e in graph.edges):
            if layer.id not in folded:
                return None if layer.type == "Result" or layer.bodies else layer
            reached.add(layer.id)
    return None


def _make_constant_fault(key, consumer, position):
    def plant(model):
        layer = KeyTable(model).find_layer(key)
        value = np.array(layer.constant.to_array())
        if not value.size or value.dtype.fields:
            return None
        flat = value.reshape(-1)
        index = int(position * flat.size)
        before = flat[index]
        largest = np.abs(flat.astype(np.float64)).max()
        flat[index] = float(before) + 0.5 * (largest if np.isfinite(largest) and largest else 1)
        layer.constant = Constant.from_array(value, layer.constant.element_type)
        return Fault("constant", f"element {index} of {key}: {before} -> {flat[index]}", consumer, model)

    return plant


def _find_attributes(model, table, only_bodies):
    for key, layer in _walk(model, table, only_bodies):
        for (kind, name), value in ATTRIBUTES.items():
            is_known = name in layer.attributes or name in ("activations", "clip")
            if layer.type == kind and is_known and str(layer.attributes.get(name)) != value:
                yield _make_attribute_fault(key, name, value)


def _make_attribute_fault(key, name, value):
    def plant(model):
        layer = KeyTable(model).find_layer(key)
        before = layer.attributes.get(name)
        layer.attributes[name] = value
        return Fault("attribute", f"{name}: {before} -> {value}", key, model)

    return plant


def _find_port_orders(model, table, only_bodies):
    for key, layer in _walk(model, table, only_bodies):
        positions = ORDERED_INPUTS.get(layer.type)
        if positions is None or len(layer.inputs) <= max(positions):
            continue
        if layer.id not in find_constant_layers(table.get_graph(layer)):
            yield _make_port_fault(key, positions)


def _make_port_fault(key, positions):
    def plant(model):
        table = KeyTable(model)
        layer = table.find_layer(key)
        graph = table.get_graph(layer)
        first, second = (layer.inputs[i].id for i in positions)
        swapped = {first: second, second: first}
        graph.edges[:] = [
            e._replace(to_port=swapped.get(e.to_port, e.to_port)) if e.to_layer == layer.id else e for e in graph.edges
        ]
        return Fault("port order", f"inputs {positions} swapped", key, model)

    return plant


def _find_element_types(model, table, only_bodies):
    for key, layer in _walk(model, table, only_bodies):
        if layer.type == "Convert" and layer.id not in find_constant_layers(table.get_graph(layer)):
            for name in ("f16", "i32", "u8", "boolean"):
                if name != layer.attributes["destination_type"]:
                    yield _make_attribute_fault_of_type(key, name)
        if layer.type == "Constant" and layer.constant is not None and layer.constant.element_type.name == "f32":
            consumer = _find_consumer(table, layer)
            if consumer is not None:
                yield _make_type_fault(key, table.get_path(consumer))


def _make_attribute_fault_of_type(key, name):
    def plant(model):
        layer = KeyTable(model).find_layer(key)
        before = layer.attributes["destination_type"]
        layer.attributes["destination_type"] = name
        layer.outputs[0].element_type = ElementType.parse(name)
        return Fault("element type", f"{before} -> {name}", key, model)

    return plant


def _make_type_fault(key, consumer):
    """Return a fault that stores a constant in f16, and converts it back where it is used."""

    def plant(model):
        table = KeyTable(model)
        layer = table.find_layer(key)
        value = layer.constant.to_array()
        with np.errstate(all="ignore"):
            rounded = value.astype(np.float16)
        if np.array_equal(rounded.astype(np.float32), value):
            return None
        layer.constant = Constant.from_array(rounded, ElementType.parse("f16"))
        layer.outputs[0].element_type = ElementType.parse("f16")
        return Fault("element type", f"constant {key}: f32 -> f16", consumer, model)

    return plant
