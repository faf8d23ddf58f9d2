"""Random well-formed models of many layers, over all operations, with bodies and dynamic dimensions.

Operations come from the seeds of one operation, with the element types and shapes that these declare. A value gets the
type and the number of elements that an input needs by Convert, Concat, Slice and Reshape, unless it has them already.
"""

from __future__ import annotations

import xml.sax.saxutils
from dataclasses import dataclass, field
from functools import cache

import numpy as np
from ir_text import graph, layer, net, port
from lxml import etree

import irrun
from fuzz.seeds import Seed, list_operations
from irrun.element_types import ElementType
from irrun.ops._support.registry import get_card
from irrun.packing import pack, unpack

__all__ = ["make_graph"]

#: Operations of one and of two inputs that take any shape. Without Gelu, whose errors of rounding are relative to its input
#: and amplified wherever its small results matter.
UNARY = (
    "Abs", "Ceiling", "Clamp", "Cos", "Elu", "Erf", "Exp", "Floor", "HardSigmoid", "HSigmoid", "HSwish", "Mish",
    "Negative", "PRelu", "ReLU", "Round", "Selu", "Sigmoid", "Sign", "Sin", "SoftPlus", "SoftSign", "Sqrt", "Swish",
    "Tanh",
)  # fmt: skip
BINARY = ("Add", "Divide", "Maximum", "Minimum", "Multiply", "SquaredDifference", "Subtract")
#: The types of elements that connect operations; others are constants or inputs of the model.
FLOATS = ("f32", "f16", "bf16", "f64")


@dataclass(frozen=True)
class Template:
    """An operation as in the seed of one operation.

    Attributes:
        type: Its type.
        version: Its opset.
        data: The attributes as text.
        inputs: The values of its inputs.
        element_types: Their element types.
        free: The inputs that other operations may compute.
        outputs: Element type and shape of each output.
        is_selection: Whether the values of the inputs determine the shapes of the outputs.
    """

    type: str
    version: str
    data: str
    inputs: tuple[np.ndarray, ...]
    element_types: tuple[str, ...]
    free: frozenset[int]
    outputs: tuple[tuple[str, tuple[int, ...]], ...]
    is_selection: bool


@cache
def list_templates() -> tuple[Template, ...]:
    """Return the operations that the seeds of one operation hold, and that run."""
    templates = []
    for seed in list_operations():
        template = _parse_template(seed)
        if template is not None:
            templates.append(template)
    return tuple(templates)


def _parse_template(seed: Seed) -> Template | None:
    root = etree.fromstring(seed.xml)
    *sources, element, _ = root.find("layers")
    given = iter(seed.inputs)
    values, types = [], []
    try:
        model = irrun.read_model(seed.xml, seed.weights)
        results = list(irrun.compile_model(model, optimize=False, precision="declared")(list(seed.inputs)).values())
    except irrun.IrrunError:
        return None  # a case that tests an error
    for source in sources:
        data = source.find("data")
        types.append(data.get("element_type"))
        if source.get("type") == "Parameter":
            values.append(np.asarray(next(given)))
        else:
            shape = [int(n) for n in data.get("shape").split(",") if n]
            buffer = memoryview(seed.weights)[int(data.get("offset")) :]
            values.append(np.array(unpack(ElementType.parse(types[-1]), buffer, shape)))
    card = get_card(element.get("type"), element.get("version"))
    if card.kind in ("random", "state", "control"):
        return None
    shaped = range(len(types)) if card.shaped_by is None else card.shaped_by
    free = frozenset(
        i for i, kind in enumerate(types) if kind in FLOATS and i not in shaped and values[i].size and values[i].ndim
    )
    data = element.find("data")
    text = "" if data is None else " ".join(f"{k}={_quote(v)}" for k, v in data.attrib.items())
    outputs = tuple((str(ElementType.of(x.dtype)), x.shape) for x in map(np.asarray, results))
    return Template(
        element.get("type"),
        element.get("version"),
        text,
        tuple(values),
        tuple(types),
        free,
        outputs,
        card.kind == "selection",
    )


def _quote(value: str) -> str:
    return xml.sax.saxutils.quoteattr(value)


@dataclass(frozen=True)
class Value:
    """An output of a layer: its layer and port, its element type, and its shape, -1 where the data determine it."""

    layer: int
    port: int
    type: str
    shape: tuple[int, ...]

    @property
    def is_static(self) -> bool:
        """Whether the shape is known."""
        return -1 not in self.shape


@dataclass
class Builder:
    """Collect the layers of a model or of a body.

    Attributes:
        random: The source of all choices.
        weights: The .bin, which bodies share.
        layers, edges: As text.
        values: What layers can consume.
        used: The outputs that have consumers.
        parameters: The values of the inputs, and their parameters.
        depth: How many bodies surround this graph.
    """

    random: np.random.Generator
    weights: bytearray
    depth: int = 0
    layers: list[str] = field(default_factory=list)
    edges: list[tuple[int, int, int, int]] = field(default_factory=list)
    values: list[Value] = field(default_factory=list)
    used: set[tuple[int, int]] = field(default_factory=set)
    parameters: list[tuple[Value, np.ndarray]] = field(default_factory=list)
    variables: list[tuple[str, Value]] = field(default_factory=list)

    def add(
        self, type: str, version: str, data: str, inputs: list[Value], outputs: list[tuple[str, tuple[int, ...]]],
        inner: str = "",
    ) -> list[Value]:  # fmt: skip
        """Append a layer and return its outputs."""
        number, count = len(self.layers), len(inputs)
        ports = [_make_port(i, value.type, value.shape) for i, value in enumerate(inputs)]
        results = [Value(number, count + i, *output) for i, output in enumerate(outputs)]
        self.layers.append(
            layer(
                number, type, version, data, ports, [_make_port(v.port, v.type, v.shape) for v in results], inner=inner
            )
        )
        for i, value in enumerate(inputs):
            self.edges.append((value.layer, value.port, number, i))
            self.used.add((value.layer, value.port))
        return results

    def add_constant(self, array: np.ndarray, element_type: str | None = None) -> Value:
        """Append a Constant."""
        kind = ElementType.of(array.dtype) if element_type is None else ElementType.parse(element_type)
        packed = pack(kind, array)
        data = f'element_type="{kind}" shape="{_join(array.shape)}" offset="{len(self.weights)}" size="{len(packed)}"'
        self.weights += packed
        return self.add("Const", "opset1", data, [], [(str(kind), array.shape)])[0]

    def add_zeros(self, element_type: str, shape: tuple[int, ...]) -> Value:
        """Append a Constant of zeros or of empty strings."""
        kind = ElementType.parse(element_type)
        array = np.full(shape, "", object) if kind.kind == "string" else np.zeros(shape, kind.dtype)
        return self.add_constant(array, element_type)

    def add_parameter(self, array: np.ndarray, element_type: str) -> Value:
        """Append a Parameter, some of whose dimensions are dynamic."""
        is_dynamic = self.depth == 0 and self.random.random() < 0.3
        shape = ",".join("?" if is_dynamic and self.random.random() < 0.5 else str(n) for n in array.shape)
        (value,) = self.add(
            "Parameter", "opset1", f'shape="{shape}" element_type="{element_type}"', [], [(element_type, array.shape)]
        )
        self.parameters.append((value, array))
        return value

    def add_source(self, array: np.ndarray, element_type: str) -> Value:
        """Append a Constant or a Parameter; bodies take the values of inputs from outside, where these are."""
        if self.random.random() < 0.4:
            return self.add_parameter(array, element_type)
        return self.add_constant(array, element_type)

    def choose(self) -> Value | None:
        """Return a value that layers can consume, recent ones more often."""
        values = [v for v in self.values if v.type in FLOATS]
        if not values:
            return None
        return values[-1 - min(int(self.random.exponential(3)), len(values) - 1)]

    def adapt(self, value: Value, element_type: str, shape: tuple[int, ...]) -> Value:
        """Return a value with an element type and a shape that holds elements of another, and zeros behind them."""
        if self.random.random() < 0.2:
            (value,) = self.add("Tanh", "opset1", "", [value], [(value.type, value.shape)])
        if value.type != element_type:
            (value,) = self.add(
                "Convert", "opset1", f'destination_type="{element_type}"', [value], [(element_type, value.shape)]
            )
        if value.shape == shape:
            return value
        count = int(np.prod(shape))
        size = int(np.prod(value.shape)) if value.is_static else -1
        if size != count:
            flat = self.add_constant(np.array([-1]))
            (value,) = self.add("Reshape", "opset1", 'special_zero="false"', [value, flat], [(element_type, (size,))])
            if size < count:
                zeros = self.add_zeros(element_type, (count - max(size, 0),))
                size = -1 if size < 0 else count
                (value,) = self.add("Concat", "opset1", 'axis="0"', [value, zeros], [(element_type, (size,))])
            bounds = [self.add_constant(np.array([n])) for n in (0, count, 1, 0)]
            (value,) = self.add("Slice", "opset8", "", [value, *bounds], [(element_type, (count,))])
        target = self.add_constant(np.array(shape, np.int64))
        return self.add("Reshape", "opset1", 'special_zero="false"', [value, target], [(element_type, shape)])[0]

    def add_template(self) -> None:
        """Append an operation as one of its seeds declares it."""
        templates = list_templates()
        template = templates[self.random.integers(len(templates))]
        inputs = []
        for i, (array, kind) in enumerate(zip(template.inputs, template.element_types, strict=True)):
            source = self.choose() if i in template.free and self.random.random() < 0.8 else None
            inputs.append(self.add_source(array, kind) if source is None else self.adapt(source, kind, array.shape))
        outputs = [(kind, (-1,) * len(shape) if template.is_selection else shape) for kind, shape in template.outputs]
        self.values += self.add(template.type, template.version, template.data, inputs, outputs)

    def add_elementwise(self) -> None:
        """Append an operation that takes any shape."""
        first = self.choose()
        if first is None:
            return
        if self.random.random() < 0.5:
            second = self.choose()
            if not first.is_static or self.random.random() < 0.5:
                sizes = first.shape if first.is_static else ()
                shape = tuple(1 if self.random.random() < 0.6 else n for n in sizes)[
                    self.random.integers(len(sizes) + 1) :
                ]
                second = self.adapt(
                    self.add_constant(self.random.normal(size=shape).astype(np.float32)), first.type, shape
                )
            else:
                second = self.adapt(second, first.type, first.shape)
            inputs, type = [first, second], BINARY[self.random.integers(len(BINARY))]
        else:
            inputs, type = [first], UNARY[self.random.integers(len(UNARY))]
        version, data = "opset1", ""
        if type == "Clamp":
            data = 'min="-1.5" max="2"'
        elif type == "Elu":
            data = 'alpha="0.7"'
        elif type in ("HardSigmoid", "Selu"):
            inputs += [self.add_constant(np.array(n, np.float32), "f32") for n in (0.3, 0.4)]
            inputs[1:] = [self.adapt(x, first.type, ()) for x in inputs[1:]]
        elif type == "PRelu":
            inputs.append(self.adapt(self.add_constant(np.array([0.2], np.float32)), first.type, (1,)))
        elif type in ("HSwish", "Mish", "Swish", "SoftPlus"):
            version = "opset4"
        elif type in ("HSigmoid", "Round"):
            version, data = "opset5", 'mode="half_away_from_zero"' if type == "Round" else ""
        elif type == "SoftSign":
            version = "opset9"
        self.values += self.add(type, version, data, inputs, [(first.type, first.shape)])

    def add_movement(self) -> None:
        """Append a Transpose, a Softmax, a reduction or a Split that the shape of a value allows."""
        value = self.choose()
        if value is None or not value.shape or not value.is_static:
            return
        axis = int(self.random.integers(len(value.shape)))
        constant = self.add_constant(np.array([axis]))
        kind = self.random.integers(4)
        if kind == 0:
            order = self.random.permutation(len(value.shape))
            shape = tuple(value.shape[i] for i in order)
            self.values += self.add("Transpose", "opset1", "", [value, self.add_constant(order)], [(value.type, shape)])
        elif kind == 1:
            self.values += self.add("Softmax", "opset8", f'axis="{axis}"', [value], [(value.type, value.shape)])
        elif kind == 2:
            shape = tuple(1 if i == axis else n for i, n in enumerate(value.shape))
            type = ("ReduceMean", "ReduceMax", "ReduceSum")[self.random.integers(3)]
            if value.shape[axis]:
                self.values += self.add(type, "opset1", 'keep_dims="true"', [value, constant], [(value.type, shape)])
        elif value.shape[axis]:
            scalar = self.add_constant(np.array(axis))
            shape = tuple(1 if i == axis else n for i, n in enumerate(value.shape))
            count = value.shape[axis]
            data = f'num_splits="{count}"'
            if count <= 8:
                self.values += self.add("Split", "opset1", data, [value, scalar], [(value.type, shape)] * count)

    def add_variable(self) -> None:
        """Append a ReadValue that a value initializes; `finish` assigns another."""
        value = self.choose()
        if value is None or not value.is_static:
            return
        name = f"v{self.depth}_{len(self.layers)}"
        data = f'variable_id="{name}" variable_type="{value.type}" variable_shape="{_join(value.shape)}"'
        (result,) = self.add("ReadValue", "opset6", data, [value], [(value.type, value.shape)])
        self.values.append(result)
        self.variables.append((name, result))

    def add_body(self) -> None:
        """Append an If, a TensorIterator or a Loop with a random body."""
        body = Builder(self.random, self.weights, self.depth + 1)
        body.extend(int(self.random.integers(1, 10)))
        results = body.finish()
        if not results:
            return
        kind = ("If", "TensorIterator", "Loop")[self.random.integers(3)]
        if kind == "If":
            self._add_if(body, results)
        else:
            self._add_loop(kind, body, results)

    def _add_if(self, body: Builder, results: list[tuple[int, Value]]) -> None:
        other = Builder(self.random, self.weights, self.depth + 1)
        entries = ""
        for i, (_, value) in enumerate(results):
            shape = tuple(2 if n < 0 else n for n in value.shape)
            constant = other.add_zeros(value.type, shape)
            other.add("Result", "opset1", "", [constant], [])
            entries += f'<output external_port_id="{{{i}}}" internal_layer_id="{constant.layer + 1}"/>'
        condition = self.add_source(np.array(self.random.random() < 0.7), "boolean")
        inputs = [condition, *(self.add_source(array, value.type) for value, array in body.parameters)]
        ports = range(len(inputs), len(inputs) + len(results))
        then = "".join(
            f'<input external_port_id="{i}" internal_layer_id="{value.layer}"/>'
            for i, (value, _) in enumerate(body.parameters, 1)
        ) + "".join(
            f'<output external_port_id="{p}" internal_layer_id="{number}"/>'
            for p, (number, _) in zip(ports, results, strict=True)
        )
        inner = (
            f"<then_port_map>{then}</then_port_map><else_port_map>{entries.format(*ports)}</else_port_map>"
            f"<then_body>{graph(body.layers, body.edges)}</then_body>"
            f"<else_body>{graph(other.layers, other.edges)}</else_body>"
        )
        self.values += self.add("If", "opset8", "", inputs, [(v.type, v.shape) for _, v in results], inner)

    def _add_loop(self, kind: str, body: Builder, results: list[tuple[int, Value]]) -> None:
        count = int(self.random.integers(1, 6))
        inputs, entries, back = [], "", ""
        if kind == "Loop":
            inputs += [self.add_constant(np.array(count)), self.add_constant(np.array(True))]
        is_sliced = False
        free = list(results)
        for value, array in body.parameters:
            same = next((r for r in free if r[1].type == value.type and r[1].shape == value.shape), None)
            number = len(inputs)
            axis = int(self.random.integers(array.ndim)) if array.ndim else None
            if same is not None and self.random.random() < 0.6:
                free.remove(same)
                back += f'<edge from-layer="{same[0]}" to-layer="{value.layer}"/>'
                entries += f'<input external_port_id="{number}" internal_layer_id="{value.layer}"/>'
            elif axis is not None and array.dtype != object and array.size and self.random.random() < 0.7:
                is_sliced = True
                step = array.shape[axis] * (-1 if self.random.random() < 0.3 else 1)
                start, end = (0, -1) if step > 0 else (-1, 0)
                entries += (
                    f'<input external_port_id="{number}" internal_layer_id="{value.layer}" axis="{axis}" '
                    f'start="{start}" end="{end}" stride="{step}" part_size="{abs(step)}"/>'
                )
                array = np.concatenate([array] * count, axis)
            else:
                entries += f'<input external_port_id="{number}" internal_layer_id="{value.layer}"/>'
            inputs.append(self.add_source(array, value.type))
        outputs = []
        for number, value in results:
            port_number = len(inputs) + len(outputs)
            entries += f'<output external_port_id="{port_number}" internal_layer_id="{number}"'
            shape = value.shape
            if shape and value.is_static and 0 not in shape and self.random.random() < 0.6:
                axis = int(self.random.integers(len(shape)))
                size = shape[axis]
                shape = (*shape[:axis], size * count, *shape[axis + 1 :])
                entries += f' axis="{axis}" start="0" end="-1" stride="{size}" part_size="{size}"'
            entries += "/>"
            outputs.append((value.type, shape))
        if kind == "TensorIterator" and not is_sliced:
            return
        if kind == "Loop":
            true = body.add_constant(np.array(True))
            body.add("Result", "opset1", "", [true], [])
            entries += (
                f'<output external_port_id="-1" internal_layer_id="{true.layer + 1}" purpose="execution_condition"/>'
            )
        inner = f"<port_map>{entries}</port_map><back_edges>{back}</back_edges><body>{graph(body.layers, body.edges)}</body>"
        self.values += self.add(kind, "opset1" if kind == "TensorIterator" else "opset5", "", inputs, outputs, inner)

    def extend(self, count: int) -> None:
        """Append operations at random."""
        for _ in range(count):
            choice = self.random.random()
            if choice < 0.4 or not self.values:
                self.add_template()
            elif choice < 0.75:
                self.add_elementwise()
            elif choice < 0.9:
                self.add_movement()
            elif choice < 0.93:
                self.add_variable() if self.depth == 0 else self.add_movement()
            elif self.depth < 2:
                self.add_body()

    def finish(self) -> list[tuple[int, Value]]:
        """Append Assigns, and Results of values without consumers; return the numbers and values of the Results."""
        for name, value in self.variables:
            source = self.adapt(self.choose(), value.type, value.shape)
            self.add("Assign", "opset6", f'variable_id="{name}"', [source], [(source.type, source.shape)])
        results = []
        for value in self.values:
            if (value.layer, value.port) not in self.used or self.random.random() < 0.1:
                number = len(self.layers)
                self.add("Result", "opset1", "", [value], [])
                results.append((number, value))
        return results


def make_graph(seed: int, number: int) -> Seed:
    """Return a random model of 5 to 200 operations, always the same for a seed and a number."""
    random = np.random.default_rng((seed, number))
    builder = Builder(random, bytearray())
    builder.extend(int(5 * 40 ** random.random()))
    builder.finish()
    text = net(builder.layers, builder.edges)
    return Seed(text.encode(), bytes(builder.weights), [array for _, array in builder.parameters])


def _make_port(number: int, element_type: str, shape: tuple[int, ...]) -> str:
    return port(number, shape, ElementType.parse(element_type).precision)


def _join(shape: tuple[int, ...]) -> str:
    return ",".join(map(str, shape))
