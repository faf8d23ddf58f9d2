"""The walk over an ONNX graph."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import onnx

from irrun.errors import IrrunError, ModelError, UnsupportedError
from irrun.onnx_import import rules as _rules
from irrun.onnx_import.graph import Graph, Value, constant
from irrun.onnx_import.node import Item, Node, find_rule
from irrun.onnx_import.types import TensorReader, get_element_type, get_known, make_type_proto

__all__ = ["Context", "FailedInputError", "GraphImporter"]

assert _rules  # the import registers the rules

#: Maximum depth of nested functions, and maximum number of imported nodes; nodes of functions count once per call.
MAX_DEPTH, MAX_NODES = 64, 1 << 18


class FailedInputError(Exception):
    """An input comes from a node that could not be imported."""


class Context:
    """Data shared by all graphs of a model.

    Args:
        model: The ModelProto.
        tensors: Reads tensors.

    Attributes:
        tensors: Reads tensors.
        versions: The operator versions that the model declares, by domain.
        functions: The functions of the model, by domain and name.
        failures: Descriptions of the nodes that could not be imported.
    """

    def __init__(self, model: Any, tensors: TensorReader) -> None:
        self.tensors = tensors
        self.versions = _read_versions(model.opset_import)
        self.functions = {(_normalize(f.domain), f.name): f for f in model.functions}
        self.failures: dict[str, None] = {}
        self.depth = 0
        self.node_count = 0


class GraphImporter:
    """Imports the nodes of an ONNX graph to a graph of OpenVINO's operations.

    Args:
        context: Data shared by all graphs.
        graph: The graph to add layers to.
        versions: The versions of the operators, by domain.
        parent: The importer of the graph around a body. The body can read its names.
        parameters: The attributes of a function call. Nodes of the function refer to them.
    """

    def __init__(
        self,
        context: Context,
        graph: Graph,
        versions: Mapping[str, int],
        parent: GraphImporter | None = None,
        parameters: Mapping[str, Any] | None = None,
    ) -> None:
        self.context = context
        self.graph = graph
        self.versions = versions
        self.parent = parent
        self.parameters = parameters or {}
        self.items: dict[str, Item] = {}
        self.failed: set[str] = set()
        self.is_function = parent is None and parameters is not None

    def create(self, graph: Graph) -> GraphImporter:
        """Return an importer for a body."""
        return GraphImporter(self.context, graph, self.versions, self, self.parameters)

    def find(self, name: str) -> Item:
        """Return the value of a name.

        Raises:
            ModelError: No node computes it.
            FailedInputError: The node that computes it could not be imported.
        """
        importer: GraphImporter | None = self
        while importer is not None:
            if name in importer.failed:
                raise FailedInputError
            if name in importer.items:
                return importer.items[name]
            importer = importer.parent
        raise ModelError(f"there is no value {name!r}; nodes must follow the nodes that compute their inputs")

    def set(self, name: str, item: Item) -> None:
        """Set the value of a name."""
        if not name:
            return
        self.items[name] = item
        if isinstance(item, Value):
            item.add_name(name)

    def add_initializers(self, graph: Any) -> None:
        """Add the initializers of a GraphProto."""
        for tensor in graph.initializer:
            self.set(tensor.name, constant(self.context.tensors.read(tensor)))
        for tensor in graph.sparse_initializer:
            self.set(tensor.values.name, constant(self.context.tensors.read_sparse(tensor)))

    def add_input(self, info: Any) -> Value:
        """Add a Parameter for a ValueInfoProto."""
        kind = info.type.WhichOneof("value")
        if kind != "tensor_type":
            name = (kind or "no type").removesuffix("_type")
            raise UnsupportedError(f"input {info.name!r} is of the type {name}, expected a tensor")
        value = self.graph.add_parameter(
            get_element_type(info.type.tensor_type.elem_type), get_known(info.type.tensor_type), info.name
        )
        self.set(info.name, value)
        return value

    def import_body(self, proto: Any) -> list[Item]:
        """Import the nodes of a GraphProto after its inputs have been set, and return its outputs.

        Raises:
            FailedInputError: A node could not be imported.
        """
        before = len(self.context.failures)
        self.add_initializers(proto)
        self.run(proto.node)
        if len(self.context.failures) > before:
            raise FailedInputError
        return [self.find(info.name) for info in proto.output]

    def run(self, nodes: Sequence[Any]) -> None:
        """Import nodes. `Context.failures` describes nodes that cannot be imported."""
        with self.graph.activate():
            for node in nodes:
                description = _describe(node)
                name, first = _get_name(node), len(self.graph.layers)
                try:
                    with self.graph.rename(name):
                        outputs = self.import_node(node)
                except FailedInputError:
                    self.failed.update(name for name in node.output if name)
                    continue
                except Exception as error:  # rules may raise any error on an invalid file
                    message = error.message if isinstance(error, IrrunError) else f"{type(error).__name__}: {error}"
                    self.context.failures[f"{description}: {message}"] = None
                    self.failed.update(name for name in node.output if name)
                    continue
                if not self.is_function:
                    self.graph.name_layer(name, outputs, first)
                for output, value in zip(node.output, outputs, strict=False):
                    if output and output in self.items:
                        self.context.failures[f"{description}: another node also has the output {output!r}"] = None
                    if self.is_function:
                        self.items[output] = value
                    else:
                        self.set(output, value)

    def import_node(self, proto: Any) -> Sequence[Item]:
        """Return the outputs of a node."""
        self.context.node_count += 1
        if self.context.node_count > MAX_NODES:
            raise ModelError(f"the model has more than {MAX_NODES} nodes, including nodes of functions")
        domain = _normalize(proto.domain)
        items = [self.find(name) if name else None for name in proto.input]
        function = self.context.functions.get((domain, proto.op_type))
        if function is not None:
            return self.call(function, proto, items, _read_versions(function.opset_import))
        if domain not in self.versions:
            raise ModelError(f"the model does not declare a version of the domain {domain or 'ai.onnx'!r}")
        version = self.versions[domain]
        attributes = dict(self.read_attributes(proto))
        rule = find_rule(domain, proto.op_type)
        if rule is not None:
            try:
                result = rule(Node(proto, version, items, attributes, self, self.is_function))
                return [result] if isinstance(result, Value) else list(result)
            except UnsupportedError:
                function = self.find_function(proto, items, version)
                if function is None:
                    raise
        else:
            function = self.find_function(proto, items, version)
        if function is None:
            name = f"{domain}:{proto.op_type}" if domain else proto.op_type
            raise UnsupportedError(f"the operator {name} of version {version} is not supported")
        return self.call(function, proto, items, _read_versions(function.opset_import))

    def find_function(self, proto: Any, items: Sequence[Item], version: int) -> Any:
        """Return the function that ONNX defines for an operator; None if there is none."""
        if not has_schema(proto, version):
            return None
        schema = onnx.defs.get_schema(proto.op_type, version, proto.domain)
        if schema.has_function:
            return schema.function_body
        if not schema.has_context_dependent_function or any(isinstance(item, list) for item in items):
            return None
        types = [
            onnx.TypeProto() if item is None else make_type_proto(item.type, item.shape)
            for item in items
            if not isinstance(item, list)
        ]
        resolved = onnx.NodeProto()
        resolved.CopyFrom(proto)
        del resolved.attribute[:]
        resolved.attribute.extend(attribute for attribute in self.resolve_attributes(proto))
        texts = [t.SerializeToString() for t in types]
        known = [v for v in schema.context_dependent_function_opset_versions if v <= version]
        try:
            text = schema.get_context_dependent_function_with_opset_version(
                max(known, default=version), resolved.SerializeToString(), texts
            )
        except Exception:  # the body depends on unknown information
            return None
        function = onnx.FunctionProto()
        function.ParseFromString(text)
        return function

    def call(self, function: Any, proto: Any, items: Sequence[Item], versions: Mapping[str, int]) -> list[Item]:
        """Return the outputs of a call of a function."""
        parameters = {attribute.name: attribute for attribute in function.attribute_proto}
        schema_defaults = _read_defaults(proto, self.versions)
        parameters = schema_defaults | parameters | {a.name: a for a in self.resolve_attributes(proto)}
        inner = GraphImporter(self.context, self.graph, {**self.versions, **versions}, None, parameters)
        for name, item in zip(function.input, [*items, *[None] * len(function.input)], strict=False):
            inner.items[name] = item
        if self.context.depth >= MAX_DEPTH:
            raise ModelError(f"functions call each other more than {MAX_DEPTH} levels deep")
        before = len(self.context.failures)
        self.context.depth += 1
        inner.run(function.node)
        self.context.depth -= 1
        if len(self.context.failures) > before:
            raise FailedInputError
        # Functions omit nodes for outputs that the node does not have.
        used = zip(function.output, proto.output, strict=False)
        return [inner.find(name) if name and own else None for name, own in used]

    def resolve_attributes(self, proto: Any) -> Iterator[Any]:
        """Yield the attributes of a node as AttributeProto. References to function attributes are replaced."""
        for attribute in proto.attribute:
            if not attribute.ref_attr_name:
                yield attribute
            elif attribute.ref_attr_name in self.parameters:
                copy = onnx.AttributeProto()
                copy.CopyFrom(self.parameters[attribute.ref_attr_name])
                copy.name = attribute.name
                yield copy

    def read_attributes(self, proto: Any) -> Iterator[tuple[str, Any]]:
        """Yield the attributes of a node as Python values: tensors as `Constant`, bodies as GraphProto."""
        for attribute in self.resolve_attributes(proto):
            yield attribute.name, _read_attribute(attribute, self.context.tensors)


def _read_attribute(attribute: Any, tensors: TensorReader) -> Any:
    kind = attribute.type
    if kind == onnx.AttributeProto.TENSOR:
        return tensors.read(attribute.t)
    if kind == onnx.AttributeProto.SPARSE_TENSOR:
        return tensors.read_sparse(attribute.sparse_tensor)
    if kind == onnx.AttributeProto.TENSORS:
        return [tensors.read(t) for t in attribute.tensors]
    value = onnx.helper.get_attribute_value(attribute)
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    if isinstance(value, list):
        return [v.decode("utf-8", "replace") if isinstance(v, bytes) else v for v in value]
    return value


def _read_versions(imports: Sequence[Any]) -> dict[str, int]:
    return {_normalize(entry.domain): int(entry.version) for entry in imports}


def _read_defaults(proto: Any, versions: Mapping[str, int]) -> dict[str, Any]:
    """Return the defaults of the attributes of an operator that is a function."""
    version = versions.get(_normalize(proto.domain))
    if version is None or not has_schema(proto, version):
        return {}
    schema = onnx.defs.get_schema(proto.op_type, version, proto.domain)
    return {name: a.default_value for name, a in schema.attributes.items() if a.default_value.type}


def has_schema(proto: Any, version: int) -> bool:
    """Return whether ONNX defines the operator of a node in a version of its domain."""
    return 0 < version < 1 << 31 and bool(onnx.defs.has(proto.op_type, version, proto.domain))


def _normalize(domain: str) -> str:
    return "" if domain == "ai.onnx" else domain


def _get_name(node: Any) -> str:
    """Return the name of a node; if it has none, the name of its first output."""
    return str(node.name or next((o for o in node.output if o), ""))


def _describe(node: Any) -> str:
    name = _get_name(node)
    operator = f"{node.domain}:{node.op_type}" if _normalize(node.domain) else node.op_type
    return f"node {name!r} ({operator})"
