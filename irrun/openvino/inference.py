"""Inference of element types and shapes of the nodes of a graph.

Each output of a node has two samples: examples of its shape, and of its value where that does not depend on the inputs
of the model. The dynamic dimensions of Parameters have different sizes in the two samples. A dimension that is equal in
both samples of an output is static, and the others are dynamic. The samples of a node are computed from those of its
inputs: by rules where computing would take long, otherwise by the kernel, with arrays that take no memory in place
of unknown values.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from irrun import shapes
from irrun.element_types import ElementType
from irrun.errors import IrrunError
from irrun.openvino.node import Node, Output, PortData
from irrun.openvino.unknown_shapes import get_unknown_ranks
from irrun.openvino.unknown_types import get_unknown_types
from irrun.ops._support import registry
from irrun.ops._support.context import BodyRunner, OutputCount, State, Variables
from irrun.ops._support.operation import Operation
from irrun.runtime.shape_rules import SHAPE_INPUTS, VALUE_DEPENDENT, Rule, fails_for_shapes_only, find_rule

__all__ = ["Sample", "compute_node", "count_outputs", "get_known_value", "infer_node"]

Array = np.ndarray[Any, Any]

#: Sizes of unbounded dimensions in the two samples: of the first axis, and of the others.
_SIZES = ((2, 3), (96, 160))

#: Values with more elements are not tracked.
_MAX_VALUE_SIZE = 4096

#: Nodes whose inputs or expected results have more elements are not computed.
_MAX_COMPUTED_SIZE = 1 << 27

#: The number of outputs of operations that have more than one.
_OUTPUT_COUNTS = {
    "CTCGreedyDecoderSeqLen": 2,
    "ExperimentalDetectronDetectionOutput": 3,
    "ExperimentalDetectronGenerateProposalsSingleImage": 2,
    "ExperimentalDetectronROIFeatureExtractor": 2,
    "GRUSequence": 2,
    "GenerateProposals": 3,
    "LSTMCell": 2,
    "LSTMSequence": 3,
    "MatrixNms": 3,
    "MulticlassNms": 3,
    "NMSRotated": 3,
    "RNNSequence": 2,
    "SparseFillEmptyRows": 3,
    "StringTensorUnpack": 3,
    "TopK": 2,
    "Unique": 4,
    "AdaptiveMaxPool": 2,
}


#: The inputs whose values select the bodies that run, and how often.
_CONDITIONS = {"If": (0,), "Loop": (0, 1)}


#: Operations whose output has another type than their first input.
_CONVERSIONS = ("Convert", "ConvertLike")


@dataclass(frozen=True)
class Sample:
    """An example of a tensor.

    Attributes:
        element_type: The element type; None if it is unknown.
        shape: A static shape; None if the rank is unknown.
        value: The value; None if it depends on the inputs of the model, or is large.
        unknown: The axes whose sizes are unknown. The shape has arbitrary sizes there.
    """

    element_type: ElementType | None
    shape: tuple[int, ...] | None
    value: Array | None = None
    unknown: frozenset[int] = frozenset()


def infer_node(node: Node) -> None:
    """Infer element types and shapes of the outputs of a node, and store them in its ports.

    Raises:
        RuntimeError: The inputs do not fit the operation.
    """
    if node._type in ("Parameter", "Constant", "Result"):
        return
    inputs = [None if source is None else _get_samples(source) for source in node._sources]
    is_static = all(s is None or (s._data.shape is not None and s._data.shape.is_static) for s in node._sources)
    count = count_outputs(node)
    results = []
    for k in (0, 1):
        try:
            results.append(_sample_outputs(node, [None if i is None else i[k] for i in inputs], k, count))
        except (IrrunError, ValueError, IndexError, TypeError) as error:
            if is_static and k == 0 and _is_strict(node) and not isinstance(error, TypeError):
                raise RuntimeError(_describe_failure(node, str(error))) from None
            results.append(_make_unknown(node, [None if i is None else i[k] for i in inputs], count))
        if is_static and not _depends_on_values(node, inputs):
            results.append(results[0])
            break
    while len(node._ports) < max(count, len(results[0])):
        node._ports.append(PortData())
    has_unbounded = any(s is not None and _is_unbounded(s._data.shape) for s in node._sources)
    for port, first, second in zip(node._ports, results[0], results[1], strict=False):
        port.element_type = first.element_type
        port.shape = _join(first, second, has_unbounded)
        port.samples = (first, second)


def _is_strict(node: Node) -> bool:
    operation = find_operation(node)
    return operation is not None and fails_for_shapes_only(operation)


def _describe_failure(node: Node, message: str) -> str:
    inputs = ", ".join(
        f"{s._node._version}::{s._node._type} {s._node.get_friendly_name()}[{s._index}]:"
        f"{s.element_type.to_string()}{s.partial_shape}"
        for s in node._sources
        if s is not None
    )
    return (
        f"While validating node '{node._version}::{node._type} {node.get_name()} ({inputs})' with friendly_name "
        f"'{node.get_friendly_name()}':\n{message}"
    )


def _depends_on_values(node: Node, inputs: Sequence[tuple[Sample, Sample] | None]) -> bool:
    """Return whether two static samples may have different results, because values of inputs are unknown."""
    return bool(node._bodies) or any(i is not None and i[0].unknown for i in inputs)


def _is_unbounded(shape: shapes.PartialShape | None) -> bool:
    return shape is None or any(isinstance(d, shapes.DynamicDimension) and d.maximum is None for d in shape)


def _join(first: Sample, second: Sample, has_unbounded: bool) -> shapes.PartialShape | None:
    if first.shape is None or second.shape is None or len(first.shape) != len(second.shape):
        return None
    dimensions: list[Any] = []
    unknown = first.unknown | second.unknown
    for axis, (a, b) in enumerate(zip(first.shape, second.shape, strict=True)):
        if axis in unknown or (a != b and has_unbounded):
            dimensions.append(-1)
        else:
            dimensions.append(a if a == b else shapes.DynamicDimension(min(a, b), max(a, b)))
    return shapes.PartialShape(dimensions)


def _get_samples(output: Output) -> tuple[Sample, Sample]:
    """Return the samples of an output; those of a declared one are made from its declaration."""
    port = output._data
    if port.samples is None:
        constant = output._node._constant
        value = None
        if constant is not None and math.prod(constant.shape) <= _MAX_VALUE_SIZE:
            value = constant.to_array()
        port.samples = (_sample_port(port, 0, value), _sample_port(port, 1, value))
    return port.samples


def get_known_value(output: Output) -> Array | None:
    """Return the value of an output if it does not depend on the inputs of the model, or None."""
    first, second = _get_samples(output)
    if first.value is None or second.value is None or first.value.shape != second.value.shape:
        return None
    return first.value if np.array_equal(first.value, second.value) else None


def _sample_port(port: PortData, k: int, value: Array | None) -> Sample:
    if port.shape is None:
        return Sample(port.element_type, None)
    lengths = []
    for axis, dimension in enumerate(port.shape):
        if isinstance(dimension, int):
            lengths.append(int(dimension))
        elif dimension.maximum is not None:
            lengths.append((max(dimension.minimum, 1), dimension.maximum)[k])
        else:
            lengths.append(max(_SIZES[min(axis, 1)][k], dimension.minimum + k))
    return Sample(port.element_type, tuple(lengths), value)


def count_outputs(node: Node) -> int:
    """Return the number of outputs of a node."""
    if node._bodies:
        return max(len(node._ports), 1)
    if node._type == "Split":
        return int(node._attributes.get("num_splits", 1))
    if node._type == "VariadicSplit" and node._sources[2] is not None:
        shape = node._sources[2]._data.shape
        return int(shape[0]) if shape is not None and len(shape) == 1 and isinstance(shape[0], int) else 1
    if node._type == "NonMaxSuppression":
        return 3 if _get_opset(node._version) >= 5 else 1
    if node._type == "Proposal":
        return 2 if _get_opset(node._version) >= 4 else 1
    if node._type == "MaxPool":
        return 2 if _get_opset(node._version) >= 8 else 1
    return max(_OUTPUT_COUNTS.get(node._type, 1), len(node._ports))


def _get_opset(version: str) -> int:
    digits = version.removeprefix("opset")
    return int(digits) if digits.isdecimal() else 0


def find_operation(node: Node) -> Operation | None:
    """Return the registered operation of a node; None if it is unsupported."""
    return registry.find(node._type, node._version)


def _sample_outputs(node: Node, inputs: Sequence[Sample | None], k: int, count: int) -> list[Sample]:
    operation = find_operation(node)
    if operation is None or any(i is not None and (i.shape is None or i.element_type is None) for i in inputs):
        return _make_unknown(node, inputs, count)
    known = all(i is None or i.value is not None for i in inputs)
    if known and operation.folding != "never" and node._type not in ("ReadValue", "Assign"):
        values = compute_node(node, [None if i is None else i.value for i in inputs], operation)
        return [_make_sample(value, keep_value=True) for value in values]
    value_inputs = _CONDITIONS.get(node._type) or SHAPE_INPUTS.get(node._type, ())
    if node._type in VALUE_DEPENDENT:
        value_inputs = (0, 1)
    if any(i < len(inputs) and (s := inputs[i]) is not None and s.value is None for i in value_inputs):
        return _make_unknown(node, inputs, count)
    unknown = any(i is not None and i.unknown for i in inputs)
    rule = find_rule(operation)
    is_cheap = operation.kind in ("elementwise", "rowwise") and operation.folding == "linear"
    if rule is not None and (is_cheap or node._type in _CONVERSIONS):
        results = [_sample_elementwise(node, operation, inputs)]
    elif rule is not None:
        results = _sample_rule(node, rule, operation.bind(node._attributes), inputs, count)
    else:
        results = _sample_kernel(node, operation, inputs, k, count)
    if unknown:  # sizes may be wrong where an input has an unknown size
        results = [
            Sample(r.element_type, r.shape, None, _spread_unknown(r.shape, inputs)) if r.shape is not None else r
            for r in results
        ]
    return results


def _spread_unknown(shape: tuple[int, ...], inputs: Sequence[Sample | None]) -> frozenset[int]:
    """Return the axes of a result whose sizes may depend on unknown sizes of the inputs."""
    unknown: set[int] = set()
    for sample in inputs:
        if sample is None or sample.shape is None or not sample.unknown:
            continue
        if len(sample.shape) == len(shape):
            unknown |= sample.unknown
        else:
            unknown |= set(range(len(shape)))
    return frozenset(unknown)


def _make_sample(array: Array, keep_value: bool) -> Sample:
    array = np.asarray(array)
    value = array if keep_value and array.size <= _MAX_VALUE_SIZE else None
    return Sample(ElementType.of(array.dtype), array.shape, value)


def _make_unknown(node: Node, inputs: Sequence[Sample | None], count: int) -> list[Sample]:
    """Return samples of unknown sizes, with the rank where it is known."""
    element_types = get_unknown_types(node._type, _bind_attributes(node), inputs, count)
    ranks = get_unknown_ranks(node._type, inputs)
    results = []
    for i in range(count):
        rank = ranks[i] if i < len(ranks) else None
        shape = None if rank is None else (1,) * rank
        unknown = frozenset(range(rank or 0))
        port = node._ports[i] if i < len(node._ports) else PortData()
        results.append(Sample(port.element_type or element_types[i], shape, None, unknown))
    return results


def _bind_attributes(node: Node) -> Mapping[str, Any]:
    """Return the attributes of a node, with defaults where its operation is known."""
    operation = find_operation(node)
    try:
        return node._attributes if operation is None else operation.bind(node._attributes)
    except IrrunError:
        return node._attributes


def _sample_rule(
    node: Node, rule: Rule, attributes: Mapping[str, Any], inputs: Sequence[Sample | None], count: int
) -> list[Sample]:
    if node._type in ("Convolution", "GroupConvolution"):
        _check_channels(node._type, inputs)
    element_types = [inputs[0].element_type if inputs[0] is not None else None] * count
    if node._type == "MaxPool" and count > 1:
        element_types[1] = attributes["index_element_type"]
    output_shapes = rule([() if i is None or i.shape is None else i.shape for i in inputs], attributes)
    return [Sample(t, shape) for t, shape in zip(element_types, output_shapes, strict=False)]


def _check_channels(node_type: str, inputs: Sequence[Sample | None]) -> None:
    """Check the channels of a convolution as OpenVINO does, where they are known."""
    data, filters = (i.shape if i is not None and not i.unknown else None for i in inputs[:2])
    if node_type == "Convolution" and data and filters and data[1:2] != filters[1:2]:
        raise ValueError(
            f"Data batch channel count ({data[1]}) does not match filter input channel count ({filters[1]})."
        )


def _sample_elementwise(node: Node, operation: Operation, inputs: Sequence[Sample | None]) -> Sample:
    shapes_ = [i.shape for i in inputs if i is not None and i.shape is not None]
    arguments = [None if i is None else _make_array(i, (1,) * len(i.shape or ()), 1) for i in inputs]
    result = compute_node(node, arguments, operation)[0]
    attributes = operation.bind(node._attributes)
    if attributes.get("auto_broadcast", "numpy") == "pdpd" or node._type in ("PRelu", "CumSum", "Softmax"):
        shape = shapes_[0]
    else:
        shape = _broadcast(node, shapes_)
    return Sample(ElementType.of(result.dtype), shape)


def _broadcast(node: Node, operands: Sequence[tuple[int, ...]]) -> tuple[int, ...]:
    rank = max(map(len, operands))
    is_static = all(s is None or (s._data.shape is not None and s._data.shape.is_static) for s in node._sources)
    lengths = [1] * rank
    for operand in operands:
        for axis, length in enumerate(operand, rank - len(operand)):
            if lengths[axis] in (1, length):
                lengths[axis] = length
            elif length != 1:
                if is_static:
                    raise ValueError("Argument shapes are inconsistent.")
                lengths[axis] = max(lengths[axis], length)
    return tuple(lengths)


def _make_array(sample: Sample, shape: tuple[int, ...], fill: int) -> Array:
    """Return an array of the type of a sample: its value if it is known, otherwise one that takes no memory."""
    if sample.value is not None and sample.value.shape == shape:
        return sample.value
    assert sample.element_type is not None
    if sample.element_type.kind == "string":
        element = np.array("", object)
    elif sample.element_type.dtype.fields:
        element = np.zeros((), sample.element_type.dtype)
    else:
        element = np.array(fill).astype(sample.element_type.dtype)
    return np.broadcast_to(element, shape)


def _sample_kernel(
    node: Node, operation: Operation, inputs: Sequence[Sample | None], k: int, count: int
) -> list[Sample]:
    size = sum(math.prod(i.shape) for i in inputs if i is not None and i.shape is not None)
    if size > _MAX_COMPUTED_SIZE:
        return _make_unknown(node, inputs, count)
    arguments = [None if i is None else _make_array(i, i.shape or (), k) for i in inputs]
    keep_value = node._type == "ShapeOf"
    return [_make_sample(result, keep_value) for result in compute_node(node, arguments, operation)]


def compute_node(node: Node, arguments: Sequence[Array | None], operation: Operation | None = None) -> list[Array]:
    """Compute a node.

    Args:
        node: The node.
        arguments: The values of its inputs.
        operation: The registered operation; by default it is looked up.

    Returns:
        The values of its outputs.

    Raises:
        IrrunError: The kernel failed.
        RuntimeError: The operation is unsupported.
    """
    operation = operation or find_operation(node)
    if operation is None:
        raise RuntimeError(f"unsupported operation {node._type} of {node._version}")
    if node._bodies or operation.type in ("Parameter", "Result", "Constant"):
        return _compute_with_bodies(node, arguments)
    keywords = dict(operation.bind(node._attributes))
    for name, kind in operation.provided.items():
        if kind is OutputCount:
            keywords[name] = OutputCount(count_outputs(node))
        elif kind is Variables:
            keywords[name] = Variables()
        elif kind is not BodyRunner:
            keywords[name] = State()
    values = list(arguments)
    while values and values[-1] is None:
        values.pop()
    with np.errstate(all="ignore"):
        result = operation.kernel(*values, **keywords)
    results = result if isinstance(result, (tuple, list)) else (result,)
    return [np.asarray(value) for value in results]


def _compute_with_bodies(node: Node, arguments: Sequence[Array | None]) -> list[Array]:
    from irrun.ir.graph import Edge, Graph, Layer, Port
    from irrun.ir.model import Model
    from irrun.ir.weights import Weights
    from irrun.openvino.graph_conversion import make_layer
    from irrun.runtime.request import CompiledModel

    layer = make_layer(node, 0)
    graph = Graph([layer])
    values = []
    for port, argument in zip(layer.inputs, arguments, strict=True):
        if argument is None:
            continue
        number = len(graph.layers)
        declared = Port(0, ElementType.of(argument.dtype), shapes.PartialShape(argument.shape))
        graph.layers.append(Layer(number, f"input{number}", "Parameter", outputs=[declared]))
        graph.edges.append(Edge(number, 0, 0, port.id))
        values.append(argument)
    for port in layer.outputs:
        graph.add_result(f"output{port.id}", (0, port.id))
    compiled = CompiledModel(Model(graph, Weights()), weights_memory=0, optimize=False, precision="declared")
    return list(compiled.create_infer_request().infer(dict(enumerate(values))).to_tuple())
