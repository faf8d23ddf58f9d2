"""A planter of faults: copies of a model in which one, two or three things are wrong, chosen at random.

Each kind of fault is a function that changes a copy of a model and returns a `Mark`: the layers that may be named for
the fault, and a pattern of the reason that is expected.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np

import irrun
from irrun.element_types import ElementType
from irrun.inspection import KeyTable
from irrun.inspection.keys import find_constant_layers
from irrun.ir.constant import Constant
from irrun.ir.graph import Edge, Port
from irrun.ir.structure import sort_layers

__all__ = ["KINDS", "Fault", "Mark", "copy_model", "plant"]

#: Other values of attributes that keep the shape of the result, by kind of fault, type of layer and attribute.
ATTRIBUTES: dict[str, dict[tuple[str, str], str | None]] = {
    "eps": {("MVN", "eps"): "0.1", ("NormalizeL2", "eps"): "3", ("BatchNormInference", "epsilon"): "0.5"},
    "axis": {("SoftMax", "axis"): "0", ("Softmax", "axis"): "0", ("LogSoftmax", "axis"): "0", ("Concat", "axis"): "0"},
    "pads": {
        ("Convolution", "pads_begin"): None,
        ("GroupConvolution", "pads_begin"): None,
        ("MaxPool", "pads_begin"): None,
        ("AvgPool", "pads_begin"): None,
    },
    "mode": {
        ("MVN", "normalize_variance"): "false",
        ("NormalizeL2", "eps_mode"): "max",
        ("Gelu", "approximation_mode"): "TANH",
        ("AvgPool", "exclude-pad"): "false",
        ("TopK", "mode"): "min",
        ("LSTMSequence", "direction"): "reverse",
        ("LSTMCell", "activations"): "sigmoid,relu,tanh",
        ("DetectionOutput", "variance_encoded_in_target"): "true",
        ("MatMul", "transpose_b"): None,
    },
    "number": {
        ("Elu", "alpha"): "0.3",
        ("Clamp", "max"): "0.2",
        ("PriorBoxClustered", "offset"): "0.1",
        ("PriorBox", "offset"): "0.1",
        ("DetectionOutput", "nms_threshold"): "0.1",
        ("DetectionOutput", "confidence_threshold"): "0.5",
        ("FakeQuantize", "levels"): "16",
    },
}
#: Types of layers of which the order of the inputs matters, with the positions that are swapped.
ORDERED_INPUTS = {
    "Subtract": (0, 1),
    "Divide": (0, 1),
    "MatMul": (0, 1),
    "Concat": (0, 1),
    "Select": (1, 2),
    "LSTMCell": (1, 2),
    "LSTMSequence": (2, 3),
    "Power": (0, 1),
    "Less": (0, 1),
    "Greater": (0, 1),
    "DetectionOutput": (0, 1),
    "TensorIterator": (1, 2),
    "Loop": (3, 4),
}
#: Operations with the same inputs and shapes that compute something else.
OTHER_TYPES = {
    "Relu": ("Abs", "opset1"),
    "ReLU": ("Abs", "opset1"),
    "Tanh": ("Sigmoid", "opset1"),
    "Sigmoid": ("Tanh", "opset1"),
    "Add": ("Subtract", "opset1"),
    "Subtract": ("Add", "opset1"),
    "Multiply": ("Maximum", "opset1"),
    "Divide": ("Multiply", "opset1"),
    "Maximum": ("Minimum", "opset1"),
    "Cos": ("Sin", "opset1"),
    "Sin": ("Cos", "opset1"),
    "Sqrt": ("Abs", "opset1"),
    "ReduceMean": ("ReduceSum", "opset1"),
    "ReduceSum": ("ReduceMax", "opset1"),
    "Gelu": ("Swish", "opset4"),
    "Swish": ("Gelu", "opset2"),
}
CONDITIONS = {
    "Greater": "Less",
    "Less": "GreaterEqual",
    "LessEqual": "Greater",
    "Equal": "NotEqual",
    "NotEqual": "Equal",
}
UNARY = frozenset(
    ("Relu", "ReLU", "Tanh", "Sigmoid", "Gelu", "Swish", "Elu", "Clamp", "SoftMax", "Softmax", "LogSoftmax", "MVN",
     "Add", "Multiply", "Subtract", "Sqrt", "NormalizeL2", "FakeQuantize", "Abs", "Exp", "PReLU", "Round")
)  # fmt: skip


def copy_model(model: irrun.Model) -> irrun.Model:
    """Return a copy of a model that shares constants."""
    return irrun.Model(copy_graph(model.graph), model.weights, 11, None)


def copy_graph(graph):
    """Return a copy of a graph with copies of everything but constants."""
    layers = [
        replace(
            layer,
            attributes=dict(layer.attributes),
            inputs=[replace(port) for port in layer.inputs],
            outputs=[replace(port) for port in layer.outputs],
            bodies={
                tag: replace(
                    body,
                    graph=copy_graph(body.graph),
                    inputs=[replace(entry) for entry in body.inputs],
                    outputs=[replace(entry) for entry in body.outputs],
                    back_edges=[replace(edge) for edge in body.back_edges],
                )
                for tag, body in layer.bodies.items()
            },
        )
        for layer in graph.layers
    ]
    return irrun.Graph(layers, list(graph.edges), graph.name)


class Mark(NamedTuple):
    """Where a fault is.

    Attributes:
        layers: Paths of the layers that may be named first.
        reason: A pattern of the reason.
    """

    layers: frozenset[str]
    reason: str


@dataclass
class Fault:
    """A copy of a model with faults.

    Attributes:
        kind: The kind.
        description: What was changed.
        marks: Where the faults are.
        model: The copy.
    """

    kind: str
    description: str
    marks: list[Mark]
    model: irrun.Model
    notes: list[str] = field(default_factory=list)

    def __repr__(self) -> str:
        return f"<Fault: {self.kind}, {self.description}>"


class Site:
    """A copy of a model that faults are planted in, with what planters ask about it."""

    def __init__(self, model, rng) -> None:
        self.model = copy_model(model)
        self.rng = rng
        self.table = KeyTable(self.model)
        self.layers = list(self.table.iterate_layers())
        self.taken: set[str] = set()

    def choose(self, candidates):
        """Yield candidates in random order."""
        candidates = list(candidates)
        for i in self.rng.permutation(len(candidates)):
            yield candidates[i]

    def executed(self):
        """Return the paths and layers that are neither structural nor constant."""
        return [(p, n) for p, n in self.layers if not n.is_structural and not self.is_constant(n)]

    def is_constant(self, layer) -> bool:
        return layer.id in find_constant_layers(self.table.get_graph(layer))

    def find_source(self, layer, position):
        """Return the edge and the layer of an input."""
        graph = self.table.get_graph(layer)
        port = layer.inputs[position].id
        edge = next((e for e in graph.edges if e.to_layer == layer.id and e.to_port == port), None)
        return edge, None if edge is None else next(n for n in graph.layers if n.id == edge.from_layer)

    def find_consumers(self, layer, port=0):
        graph = self.table.get_graph(layer)
        ids = {e.to_layer for e in graph.edges if e.from_layer == layer.id and e.from_port == layer.outputs[port].id}
        return [n for n in graph.layers if n.id in ids]

    def find_users(self, layer) -> frozenset[str]:
        """Return the paths of the first executed layers that use a layer, past constants and into bodies."""
        graph = self.table.get_graph(layer)
        folded = find_constant_layers(graph)
        reached, users = {layer.id}, set()
        for n in sort_layers(graph):
            edges = [e for e in graph.edges if e.to_layer == n.id and e.from_layer in reached]
            if not edges:
                continue
            if n.id in folded:
                reached.add(n.id)
            elif n.is_output:
                users |= self.find_writers(n)
            else:
                users.add(self.table.get_path(n))
                for edge in edges:
                    users |= self.enter(n, edge.to_port)
        return frozenset(users)

    def enter(self, owner, port) -> frozenset[str]:
        """Return the users of the Parameters of bodies that an input of their owner is connected to."""
        users = frozenset()
        for body in owner.bodies.values():
            for entry in body.inputs:
                if entry.external_port_id == port:
                    users |= self.find_users(next(n for n in body.graph.layers if n.id == entry.internal_layer_id))
        return users

    def find_writers(self, result) -> frozenset[str]:
        """Return the layers that a Result stands for: its producer, and the owner of its body."""
        _, producer = self.find_source(result, 0)
        owner = self.table.get_owner(result)
        paths = {self.table.get_path(result)}
        if producer is not None:
            paths.add(self.table.get_path(producer))
        if owner is not None:
            paths.add(self.table.get_path(owner))
        return frozenset(paths)

    def find_users_of_next_iteration(self, layer) -> frozenset[str]:
        """Return the layers that use a layer of a body through back edges, which recorded values do not show."""
        owner = self.table.get_owner(layer)
        users: frozenset[str] = frozenset()
        results = {n.id for n in self.find_consumers(layer) if n.is_output}
        for body in owner.bodies.values() if owner is not None else ():
            targets = {e.to_layer for e in body.back_edges if e.from_layer in results}
            for parameter in body.graph.layers:
                if body.graph is self.table.get_graph(layer) and parameter.id in targets:
                    users |= self.find_users(parameter)
        return users

    def redirect(self, layer, position, source, port=0) -> None:
        """Connect an input to an output."""
        graph = self.table.get_graph(layer)
        to_port = layer.inputs[position].id
        graph.edges[:] = [e for e in graph.edges if not (e.to_layer == layer.id and e.to_port == to_port)]
        graph.edges.append(Edge(source.id, source.outputs[port].id, layer.id, to_port))


def _change_constant(kind):
    """Return a planter that changes a constant with at least two axes."""

    def plant(site: Site):
        for path, layer in site.choose(site.layers):
            constant = layer.constant
            if constant is None or not constant.element_type.is_float or constant.element_type.bits < 16:
                continue
            value = np.array(constant.to_array())
            is_weight = value.ndim >= 2 and value.size >= 16 and sorted(value.shape)[-2] > 1
            users = site.find_users(layer)
            if is_weight == (kind in ("scale", "bias")) or not value.size or not users:
                continue
            types = {site.table.find_layer(p).type for p in users}
            if kind == "scale" and not types & {"Multiply", "FakeQuantize", "Divide", "Power"}:
                continue
            if kind == "bias" and not types & {"Add", "Subtract", "Convolution", "LSTMCell", "LSTMSequence", "Less"}:
                continue
            flat = value.reshape(-1)
            size = np.abs(flat[np.isfinite(flat)].astype(np.float64)).max(initial=0) or 1.0
            if kind == "element":
                index = int(site.rng.integers(flat.size))
                flat[index] = float(flat[index]) + 0.7 * size
            elif kind == "channel":
                index = int(site.rng.integers(value.shape[0]))
                value[index] = value[index] * 1.5
            elif kind == "all weights":
                value = np.ascontiguousarray(value[::-1])
            elif kind == "scale":
                value = value * np.asarray(1.3, value.dtype)
            else:
                value = value + np.asarray(0.4 * size, value.dtype)
            layer.constant = Constant.from_array(value.astype(constant.to_array().dtype), constant.element_type)
            yield f"{kind} of {path}", Mark(users, "constant")

    return plant


def _change_attribute(kind):
    def plant(site: Site):
        for path, layer in site.choose(site.executed()):
            for (type_, name), value in ATTRIBUTES[kind].items():
                if layer.type != type_ or (name not in layer.attributes and name != "activations"):
                    continue
                before = str(layer.attributes.get(name))
                if kind == "pads":
                    begin = [int(v) for v in before.split(",")]
                    end = [int(v) for v in str(layer.attributes["pads_end"]).split(",")]
                    if not any(end):
                        continue
                    value = ",".join(str(a + b) for a, b in zip(begin, end, strict=True))
                    layer.attributes["pads_end"] = ",".join("0" for _ in end)
                    if layer.attributes.get("auto_pad") not in (None, "explicit"):
                        continue
                elif value is None:
                    value = "false" if before == "true" else "true"
                if before == value:
                    continue
                layer.attributes[name] = value
                yield f"{name} of {path}: {before} -> {value}", Mark(frozenset([path]), name)

    return plant


def _change_integers(site: Site):
    """Change axes, orders and shapes that are constants."""
    for path, layer in site.choose(site.layers):
        constant = layer.constant
        if constant is None or constant.element_type.name not in ("i64", "i32"):
            continue
        users = site.find_users(layer)
        types = {site.table.find_layer(p).type for p in users}
        value = np.array(constant.to_array())
        if not types & {"Transpose", "ReduceMean", "ReduceSum", "Gather", "MVN", "Roll", "NormalizeL2", "Slice"}:
            continue
        if value.size >= 2 and "Transpose" in types:
            changed = value.copy()
            changed.reshape(-1)[[-1, -2]] = value.reshape(-1)[[-2, -1]]
        elif value.size:
            changed = value + 1 if site.rng.random() < 0.5 else value - 1
        else:
            continue
        layer.constant = Constant.from_array(changed.astype(value.dtype), constant.element_type)
        yield f"{path}: {value.tolist()} -> {changed.tolist()}", Mark(users, "constant")


def _swap_inputs(site: Site):
    for path, layer in site.choose(site.executed()):
        positions = ORDERED_INPUTS.get(layer.type)
        if positions is None or len(layer.inputs) <= max(positions):
            continue
        graph = site.table.get_graph(layer)
        first, second = (layer.inputs[i].id for i in positions)
        swapped = {first: second, second: first}
        graph.edges[:] = [
            e._replace(to_port=swapped.get(e.to_port, e.to_port)) if e.to_layer == layer.id else e for e in graph.edges
        ]
        layers = {path}.union(*(site.enter(layer, p) for p in (first, second)))
        yield f"inputs {positions} of {path} swapped", Mark(frozenset(layers), "exchanged|comes from")


def _list_chains(site: Site):
    """Return layers with one data input of the type of their output."""
    chains = []
    for path, layer in site.executed():
        if layer.type not in UNARY or len(layer.outputs) != 1:
            continue
        variable = [i for i in range(len(layer.inputs)) if (s := site.find_source(layer, i)[1]) is not None
                    and not site.is_constant(s)]  # fmt: skip
        if len(variable) == 1:
            chains.append((path, layer, variable[0]))
    return chains


def _drop_layer(site: Site):
    for path, layer, position in site.choose(_list_chains(site)):
        edge, source = site.find_source(layer, position)
        graph = site.table.get_graph(layer)
        users = site.find_users(layer)
        if any(n.is_output for n in site.find_consumers(layer)):
            users |= {site.table.get_path(source)} | site.find_users_of_next_iteration(layer)
        graph.edges[:] = [
            e._replace(from_layer=edge.from_layer, from_port=edge.from_port) if e.from_layer == layer.id else e
            for e in graph.edges
            if e.to_layer != layer.id
        ]
        graph.layers.remove(layer)
        yield f"{path} dropped", Mark(users - {path}, f"comes from|{re.escape(layer.name)}|missing")


def _double_layer(site: Site):
    for path, layer, position in site.choose(_list_chains(site)):
        graph = site.table.get_graph(layer)
        users, following = site.find_users(layer), site.find_users_of_next_iteration(layer)
        number = max(n.id for n in graph.layers) + 1
        name = f"{layer.name}/again"
        copy = replace(layer, id=number, name=name, inputs=list(layer.inputs),
                       outputs=[Port(p.id, p.element_type, p.shape) for p in layer.outputs])  # fmt: skip
        out = layer.outputs[0].id
        edges = [e._replace(from_layer=number) if e.from_layer == layer.id else e for e in graph.edges]
        edges += [e._replace(to_layer=number) for e in graph.edges if e.to_layer == layer.id
                  and e.to_port != layer.inputs[position].id]  # fmt: skip
        edges.append(Edge(layer.id, out, number, layer.inputs[position].id))
        graph.edges[:] = edges
        graph.layers.insert(graph.layers.index(layer) + 1, copy)
        prefix = path[: len(path) - len(site.table.get_key(layer))]
        yield (
            f"{path} doubled",
            Mark(users | following | {prefix + name, path}, f"comes from|{re.escape(layer.name)}|not in the reference"),
        )


def _swap_layers(site: Site):
    """Exchange a layer with the layer that it reads."""
    chains = {id(n): (p, n, i) for p, n, i in _list_chains(site)}
    for path, layer, position in site.choose(chains.values()):
        edge, source = site.find_source(layer, position)
        if id(source) not in chains or source.type == layer.type or len(site.find_consumers(source)) != 1:
            continue
        first_path, first, first_position = chains[id(source)]
        before, _ = site.find_source(first, first_position)
        graph = site.table.get_graph(layer)
        users = site.find_users(layer)
        edges = []
        for e in graph.edges:
            if e.from_layer == layer.id:
                e = Edge(first.id, first.outputs[0].id, e.to_layer, e.to_port)
            elif e == edge:
                e = Edge(before.from_layer, before.from_port, layer.id, layer.inputs[position].id)
            elif e == before:
                e = Edge(layer.id, layer.outputs[0].id, first.id, first.inputs[first_position].id)
            edges.append(e)
        graph.edges[:] = edges
        yield f"{first_path} and {path} swapped", Mark(users | {path, first_path}, "comes from")


def _connect_elsewhere(site: Site):
    """Connect an input to another value of the same type and shape."""
    for path, layer in site.choose(site.executed()):
        graph = site.table.get_graph(layer)
        order = {n.id: i for i, n in enumerate(sort_layers(graph))}
        for position in range(len(layer.inputs)):
            edge, source = site.find_source(layer, position)
            if source is None or source.is_structural or site.is_constant(source):
                continue
            port = next(p for p in source.outputs if p.id == edge.from_port)
            for other in site.choose(graph.layers):
                if other is source or other is layer or other.is_structural or site.is_constant(other):
                    continue
                if order[other.id] < order[layer.id] and len(other.outputs) == 1:
                    shown = other.outputs[0].shape, other.outputs[0].element_type
                    if shown == (port.shape, port.element_type):
                        site.redirect(layer, position, other)
                        layers = {path} | site.enter(layer, layer.inputs[position].id)
                        yield (
                            f"input {position} of {path} reads {other.name}, not {source.name}",
                            Mark(frozenset(layers), "comes from"),
                        )
                        return


def _list_bodies(site: Site):
    return [(p, n, b) for p, n in site.layers for b in n.bodies.values()]


def _swap_back_edges(site: Site):
    for path, _, body in site.choose(_list_bodies(site)):
        if len(body.back_edges) < 2:
            continue
        i, k = site.rng.permutation(len(body.back_edges))[:2]
        a, b = body.back_edges[i], body.back_edges[k]
        body.back_edges[i], body.back_edges[k] = replace(a, to_layer=b.to_layer), replace(b, to_layer=a.to_layer)
        users = {path}
        for edge in (a, b):
            users |= site.find_users(next(n for n in body.graph.layers if n.id == edge.to_layer))
        yield f"back edges {i} and {k} of {path} swapped", Mark(frozenset(users), "back edge")


def _change_port_map(site: Site):
    for path, _, body in site.choose(_list_bodies(site)):
        users = {path}
        entries = [*body.inputs, *body.outputs]
        for entry in site.choose(entries):
            layer = next(n for n in body.graph.layers if n.id == entry.internal_layer_id)
            if entry.axis is not None:
                entry.start, entry.end, entry.stride = entry.end, entry.start, -entry.stride
                what = "reversed"
            else:
                group = body.inputs if layer.is_input else body.outputs
                others = [e for e in group if e is not entry and e.axis is None and e.external_port_id >= 0]
                if not others or entry.external_port_id < 0:
                    continue
                other = others[int(site.rng.integers(len(others)))]
                entry.external_port_id, other.external_port_id = other.external_port_id, entry.external_port_id
                other_layer = next(n for n in body.graph.layers if n.id == other.internal_layer_id)
                users |= site.find_users(other_layer) if layer.is_input else site.find_writers(other_layer)
                what = "exchanged"
            users |= site.find_users(layer) if layer.is_input else site.find_writers(layer)
            yield f"port map of {path}: {layer.name} {what}", Mark(frozenset(users), "port map|comes from")
            return


def _change_condition(site: Site):
    for path, layer in site.choose(site.executed()):
        other = CONDITIONS.get(layer.type)
        if other is not None and not layer.bodies:
            before, layer.type = layer.type, other
            yield f"{path}: {before} -> {other}", Mark(frozenset([path]), "type is|operation")


def _swap_branches(site: Site):
    for path, layer in site.choose(site.layers):
        if layer.type == "If":
            bodies = layer.bodies
            bodies["then_body"], bodies["else_body"] = bodies["else_body"], bodies["then_body"]
            inner = {p for p, n in site.layers if site.table.get_owner(n) is layer and not n.is_structural}
            yield f"branches of {path} swapped", Mark(frozenset({path} | inner), "body|branch|comes from|type")


def _change_iterations(site: Site):
    """Change the number of iterations: trip counts, and limits in conditions."""
    for path, layer in site.choose(site.layers):
        constant = layer.constant
        if constant is None or constant.element_type.name not in ("i32", "i64") or constant.to_array().size != 1:
            continue
        users = site.find_users(layer)
        types = {site.table.find_layer(p).type for p in users}
        if not types & {"Loop", "Less", "Greater", "LessEqual"}:
            continue
        value = constant.to_array()
        layer.constant = Constant.from_array((value - 2).astype(value.dtype), constant.element_type)
        yield f"{path}: {value.tolist()} -> {(value - 2).tolist()}", Mark(users, "constant|iterations")


def _change_variable(site: Site):
    """Exchange the ids of two variables, where they are read or where they are written."""
    for type_ in site.choose(["ReadValue", "Assign"]):
        layers = [(p, n) for p, n in site.executed() if n.type == type_]
        for i in site.choose(range(len(layers) - 1)):
            (path, layer), (other_path, other) = layers[i], layers[i + 1]
            name, other_name = layer.attributes["variable_id"], other.attributes["variable_id"]
            layer.attributes["variable_id"], other.attributes["variable_id"] = other_name, name
            users = {path, other_path, *site.find_users(layer), *site.find_users(other)} if type_ == "ReadValue" else {
                path, other_path, *(p for p, n in site.layers if n.type == "ReadValue")}  # fmt: skip
            yield f"variables of {path} and {other_path} exchanged", Mark(frozenset(users), "variable")


def _change_initial_value(site: Site):
    for path, layer in site.choose(site.layers):
        if layer.constant is None or not layer.constant.element_type.is_float:
            continue
        users = site.find_users(layer)
        if "ReadValue" in {site.table.find_layer(p).type for p in users}:
            value = layer.constant.to_array()
            layer.constant = Constant.from_array((value + 0.5).astype(value.dtype), layer.constant.element_type)
            yield f"initial value {path}", Mark(users, "constant")


def _change_type(site: Site):
    for path, layer in site.choose(site.executed()):
        if layer.type in OTHER_TYPES:
            before = layer.type
            layer.type, layer.version = OTHER_TYPES[layer.type]
            yield f"{path}: {before} -> {layer.type}", Mark(frozenset([path]), "type is|operation")


def _change_element_type(site: Site):
    for path, layer in site.choose(site.layers):
        if layer.type == "Convert" and not site.is_constant(layer):
            before = str(layer.attributes["destination_type"])
            name = "u8" if before != "u8" else "boolean"
            layer.attributes["destination_type"] = name
            layer.outputs[0].element_type = ElementType.parse(name)
            yield f"{path}: {before} -> {name}", Mark(frozenset([path]) | site.find_users(layer), "destination_type")
        if layer.constant is not None and layer.constant.element_type.name == "f32" and site.rng.random() < 0.3:
            value, users = layer.constant.to_array(), site.find_users(layer)
            if users:
                rounded = (np.round(value * 8) / 8).astype(np.float32)
                layer.constant = Constant.from_array(rounded, layer.constant.element_type)
                yield f"{path} rounded to 1/8", Mark(users, "constant")


def _change_dilations(site: Site):
    """Change strides and dilations together so that the shape stays."""
    for path, layer in site.choose(site.executed()):
        if layer.type in ("Convolution", "GroupConvolution") and "dilations" in layer.attributes:
            graph = site.table.get_graph(layer)
            port = layer.inputs[1]
            _, source = site.find_source(layer, 1)
            while source is not None and source.constant is None and source.inputs:
                _, source = site.find_source(source, 0)
            if source is None or source.constant is None or source.constant.shape[-1] != 3 or port is None or not graph:
                continue
            ones = [int(v) for v in str(layer.attributes["pads_begin"]).split(",")]
            if any(v != 1 for v in ones) or str(layer.attributes["dilations"]) != ",".join("1" for _ in ones):
                continue
            for name in ("pads_begin", "pads_end", "dilations"):
                layer.attributes[name] = ",".join("2" for _ in ones)
            yield f"dilations of {path}", Mark(frozenset([path]), "dilations")


#: Yields descriptions and marks of faults in a copy of a model; only the first one is made.
Planter = Callable[[Site], Iterator[tuple[str, Mark]]]

KINDS: dict[str, Planter] = {
    "element": _change_constant("element"),
    "channel": _change_constant("channel"),
    "all weights": _change_constant("all weights"),
    "scale": _change_constant("scale"),
    "bias": _change_constant("bias"),
    "eps": _change_attribute("eps"),
    "axis": _change_attribute("axis"),
    "axes in constants": _change_integers,
    "pads": _change_attribute("pads"),
    "dilations": _change_dilations,
    "mode": _change_attribute("mode"),
    "number": _change_attribute("number"),
    "order of inputs": _swap_inputs,
    "other source": _connect_elsewhere,
    "dropped layer": _drop_layer,
    "doubled layer": _double_layer,
    "swapped layers": _swap_layers,
    "back edges": _swap_back_edges,
    "port map": _change_port_map,
    "condition": _change_condition,
    "branches": _swap_branches,
    "iterations": _change_iterations,
    "variable": _change_variable,
    "initial value": _change_initial_value,
    "operation": _change_type,
    "element type": _change_element_type,
}


def plant(model: irrun.Model, kinds: Sequence[str], seed, has_effect) -> Fault | None:
    """Return a copy of a model with a fault of each of some kinds, or None if the model has no place for one.

    Args:
        model: The model, which is not changed.
        kinds: The kinds.
        seed: Seed for the choice of the places.
        has_effect: Returns whether a copy runs and has other outputs than the previous copy.
    """
    rng = np.random.default_rng(seed)
    marks: list[Mark] = []
    descriptions: list[str] = []
    current = model
    for kind in kinds:
        for _ in range(8):
            site = Site(current, rng)
            found = next(KINDS[kind](site), None)
            if found is None:
                return None
            description, mark = found
            is_apart = all(mark.layers.isdisjoint(other.layers) for other in marks)
            if mark.layers and is_apart and has_effect(current, site.model):
                current = site.model
                descriptions.append(description)
                marks.append(mark)
                break
        else:
            return None
    return Fault(" + ".join(kinds), "; ".join(descriptions), marks, current)
