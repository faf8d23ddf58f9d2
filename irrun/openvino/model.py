"""`Model`: a graph of nodes with inputs and outputs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from irrun.errors import IrrunError
from irrun.ir.model import Model as IrModel
from irrun.ir.weights import Weights
from irrun.openvino import graph_conversion
from irrun.openvino.element_type import Type, to_element_type, to_type
from irrun.openvino.errors import translate_errors
from irrun.openvino.inference import infer_node
from irrun.openvino.node import ConstOutput, Node, Output, PortData, as_output
from irrun.openvino.runtime_info import OVAny, RTMap, parse_rt_info, unwrap
from irrun.openvino.shape import PartialShape, Shape
from irrun.openvino.variables import Variable, VariableInfo

__all__ = ["Model", "find_port"]

_RT_INFO_ERROR = "Cannot get runtime attribute. Path to runtime attribute is incorrect."

_model_count = 0


class Model:
    """A graph of nodes with inputs and outputs.

    Args:
        results: The Results, or nodes and outputs, which become the outputs of the model; or another model,
            whose state this one shares.
        sinks: The Assigns. It may be omitted: `Model(results, parameters, name)`.
        parameters: The Parameters.
        name: The name.
        variables: Variables without a ReadValue.
    """

    def __init__(
        self,
        results: Any,
        sinks: Any = None,
        parameters: Any = None,
        name: str | None = None,
        *,
        variables: Iterable[Variable] = (),
    ) -> None:
        if isinstance(results, Model):
            self.__dict__ = results.__dict__
            return
        global _model_count
        if parameters is None or isinstance(parameters, str):
            if isinstance(parameters, str):
                name = parameters
            sinks, parameters = [], sinks
        self._name = f"Model{_model_count}"
        _model_count += 1
        self._friendly_name = name
        self._parameters: list[Node] = list(parameters or [])
        if isinstance(results, (Node, ConstOutput)):
            results = results.outputs() if isinstance(results, Node) else [results]
        self._results: list[Node] = [_make_result(result) for result in results]
        self._sinks: list[Node] = [sink if isinstance(sink, Node) else sink.node for sink in sinks or []]
        self._variables: list[Variable] = list(variables)
        self._rt_info: dict[str, Any] = {}
        self._weights = Weights()
        self._path: Path | None = None
        self._source_version = 11
        for node in self.get_ordered_ops():
            if node._type == "Parameter" and not any(node is p for p in self._parameters):
                raise RuntimeError(f"Model references undeclared parameters: {node.get_friendly_name()}")
        for node in (*self._parameters, *self._results):
            _name_tensor(node)

    @staticmethod
    def _from_ir(ir: IrModel) -> Model:
        """Return the model for one of irrun."""
        parts = graph_conversion.read_graph(ir)
        model = Model([], name=ir.name)
        model._results, model._sinks, model._parameters = parts.results, parts.sinks, parts.parameters
        model._rt_info = parse_rt_info(ir.rt_info)
        model._weights = ir.weights
        model._path = ir.path
        model._source_version = ir.source_version
        return model

    def _to_ir(self) -> IrModel:
        """Return the model as one of irrun."""
        return graph_conversion.make_ir(
            self._parameters,
            self._results,
            self._sinks,
            self.get_friendly_name(),
            weights=self._weights,
            rt_info=self._rt_info,
            path=self._path,
        )

    def __repr__(self) -> str:
        def show(ports: Iterable[Output]) -> str:
            return ",\n".join(repr(ConstOutput(p._node, p._index)) for p in ports)

        return (
            f"<Model: '{self.get_friendly_name()}'\ninputs[\n{show(self.inputs)}\n]\noutputs[\n{show(self.outputs)}\n]>"
        )

    def _get_raw_address(self) -> int:
        """Return a number that identifies the model."""
        return id(self.__dict__)

    def __enter__(self) -> Model:
        return self

    def __exit__(self, *_: object) -> None:
        return None

    def __copy__(self) -> Model:
        raise TypeError("Cannot copy 'openvino.Model'. Please, use deepcopy instead.")

    def __deepcopy__(self, memo: object) -> Model:
        return self.clone()

    # -- names

    @property
    def name(self) -> str:
        """The unique name."""
        return self._name

    def get_name(self) -> str:
        """Return the unique name."""
        return self._name

    @property
    def friendly_name(self) -> str:
        """The name that the user or the file chose."""
        return self.get_friendly_name()

    @friendly_name.setter
    def friendly_name(self, name: str) -> None:
        self._friendly_name = name

    def get_friendly_name(self) -> str:
        """Return the name that the user or the file chose."""
        return self._name if self._friendly_name is None else self._friendly_name

    def set_friendly_name(self, name: str) -> None:
        """Set the friendly name."""
        self._friendly_name = name

    # -- inputs and outputs

    @property
    def inputs(self) -> list[Output]:
        """The inputs, in order."""
        return [Output(node, 0) for node in self._parameters]

    @property
    def outputs(self) -> list[Output]:
        """The outputs, in order."""
        return [Output(node, 0) for node in self._results]

    def input(self, index: int | str | None = None, *, tensor_name: str | None = None) -> Output:
        """Return an input by index or tensor name; without arguments, the only one.

        Raises:
            RuntimeError: No input has that name, or there are several.
            IndexError: The index is out of range.
        """
        port: Output = find_port(self.inputs, index if tensor_name is None else tensor_name, "Input", "input()")
        return port

    def output(self, index: int | str | None = None, *, tensor_name: str | None = None) -> Output:
        """Return an output by index or tensor name; without arguments, the only one.

        Raises:
            RuntimeError: No output has that name, or there are several.
            IndexError: The index is out of range.
        """
        port: Output = find_port(self.outputs, index if tensor_name is None else tensor_name, "Output", "output()")
        return port

    @property
    def parameters(self) -> list[Node]:
        """The Parameters."""
        return list(self._parameters)

    def get_parameters(self) -> list[Node]:
        """Return the Parameters."""
        return list(self._parameters)

    @property
    def results(self) -> list[Node]:
        """The Results."""
        return list(self._results)

    def get_results(self) -> list[Node]:
        """Return the Results."""
        return list(self._results)

    @property
    def result(self) -> Node:
        """The only Result."""
        return self.get_result()

    def get_result(self) -> Node:
        """Return the only Result.

        Raises:
            RuntimeError: There are several.
        """
        if len(self._results) != 1:
            raise RuntimeError("Model has more than one result")
        return self._results[0]

    @property
    def sinks(self) -> list[Node]:
        """The Assigns."""
        return list(self._sinks)

    def get_sinks(self) -> list[Node]:
        """Return the Assigns."""
        return list(self._sinks)

    def get_output_size(self) -> int:
        """Return the number of outputs."""
        return len(self._results)

    def get_output_op(self, index: int) -> Node:
        """Return the Result of an output."""
        return self._results[index]

    def get_output_element_type(self, index: int) -> Type:
        """Return the element type of an output."""
        return self.outputs[index].element_type

    def get_output_partial_shape(self, index: int) -> PartialShape:
        """Return the shape of an output."""
        return self.outputs[index].partial_shape

    def get_output_shape(self, index: int) -> Shape:
        """Return the static shape of an output."""
        return self.outputs[index].shape

    def get_parameter_index(self, parameter: Node) -> int:
        """Return the index of a Parameter, or -1."""
        return _find_node(self._parameters, parameter)

    def get_result_index(self, value: Any) -> int:
        """Return the index of the output that a Result or an output of a node belongs to, or -1."""
        if isinstance(value, ConstOutput):
            sources = [result._sources[0] for result in self._results]
            by_source = [i for i, s in enumerate(sources) if s is not None and s._key == value._key]
            return by_source[0] if by_source else _find_node(self._results, value._node)
        return _find_node(self._results, value)

    def get_sink_index(self, sink: Any) -> int:
        """Return the index of an Assign, given as a node or its output, or -1.

        Raises:
            TypeError: It is neither a node nor an output.
        """
        node = sink.get_node() if isinstance(sink, ConstOutput) else sink
        if not isinstance(node, Node):
            raise TypeError("Incorrect argument type. Sink node is expected as argument.")
        return _find_node(self._sinks, node)

    # -- nodes

    def get_ordered_ops(self) -> list[Node]:
        """Return all nodes in OpenVINO's topological order."""
        roots = [*self._results, *self._sinks, *self._parameters]
        return graph_conversion.sort_nodes(reversed(roots))

    def get_ops(self) -> list[Node]:
        """Return all nodes in the order in which OpenVINO finds them, from the results upwards."""
        pending = [*self._results, *self._sinks, *self._parameters]
        found: dict[int, Node] = {}
        while pending:
            node = pending.pop()
            if node._id not in found:
                found[node._id] = node
                pending += [source.get_node() for source in node._sources if source is not None]
        return list(found.values())

    def get_variables(self) -> list[Variable]:
        """Return the variables of ReadValue nodes, and those that were added."""
        found = {}
        for node in self.get_ordered_ops():
            if node._type == "ReadValue":
                info = VariableInfo()
                info.variable_id = str(node._attributes.get("variable_id"))
                info.data_shape = PartialShape(node._attributes.get("variable_shape", node.get_output_partial_shape(0)))
                info.data_type = to_type(to_element_type(node._attributes.get("variable_type", node.element_type)))
                found[info.variable_id] = Variable(info)
        found.update((variable.get_id(), variable) for variable in self._variables)
        return list(found.values())

    @property
    def variables(self) -> list[Variable]:
        """The variables."""
        return self.get_variables()

    def get_variable_by_id(self, variable_id: str) -> Variable | None:
        """Return the variable of a name, or None."""
        return next((v for v in self.get_variables() if v.get_id() == variable_id), None)

    def add_variables(self, variables: Sequence[Variable]) -> None:
        """Add variables."""
        self._variables.extend(variables)

    def remove_variable(self, variable: Variable) -> None:
        """Remove a variable that was added."""
        self._variables = [v for v in self._variables if v.get_id() != variable.get_id()]

    # -- edits

    def add_outputs(self, outputs: Any) -> list[Output]:
        """Add outputs for values inside the graph.

        Args:
            outputs: An output of a node, the name of a tensor, a pair of the friendly name of a node and the number
                of its output, or a list of these.

        Returns:
            The outputs of the model.

        Raises:
            RuntimeError: There is no such value.
        """
        is_pair = isinstance(outputs, tuple) and len(outputs) == 2 and isinstance(outputs[1], int)
        items = [outputs] if is_pair or not isinstance(outputs, (list, tuple)) else outputs
        added = []
        where = "." if items is not outputs else " at index {}."
        for i, item in enumerate(items):
            source = self._find_output(item, where.format(i))
            if source._node._type == "Result":
                added.append(source)
                continue
            for result in self._results:
                existing = result._sources[0]
                if existing is not None and existing._key == source._key:
                    break
            else:
                result = _make_result(source)
                self._results.append(result)
            _name_tensor(result)
            added.append(Output(result, 0))
        return added

    def _find_output(self, item: Any, where: str) -> Output:
        if isinstance(item, ConstOutput):
            return as_output(item)
        if isinstance(item, str):
            for node in self.get_ordered_ops():
                for output in node.outputs() if node._type != "Result" else ():
                    if item in output.names:
                        return output
            raise RuntimeError(f"Tensor name {item} was not found.")
        if isinstance(item, tuple) and len(item) == 2:
            for node in self.get_ordered_ops():
                if node.get_friendly_name() == item[0]:
                    return node.output(item[1])
            raise RuntimeError(f"Operation {item[0]} was not found.")
        raise TypeError(f"Incorrect type of a value to add as output{where}")

    def add_results(self, results: Sequence[Node]) -> None:
        """Add Results."""
        self._results.extend(_make_result(result) for result in results)

    def add_parameters(self, parameters: Sequence[Node]) -> None:
        """Add Parameters."""
        self._parameters.extend(parameters)

    def add_sinks(self, sinks: Sequence[Node]) -> None:
        """Add Assigns."""
        self._sinks.extend(sinks)

    def remove_result(self, result: Node) -> None:
        """Remove a Result."""
        self._results.pop(_require(_find_node(self._results, result)))

    def remove_parameter(self, parameter: Node) -> None:
        """Remove a Parameter."""
        self._parameters.pop(_require(_find_node(self._parameters, parameter)))

    def remove_sink(self, sink: Node) -> None:
        """Remove an Assign."""
        self._sinks.pop(_require(_find_node(self._sinks, sink)))

    def replace_parameter(self, parameter_index: int, parameter: Node) -> None:
        """Replace a Parameter, and connect its consumers to the new one."""
        Output(self._parameters[parameter_index], 0).replace(Output(parameter, 0))
        self._parameters[parameter_index] = parameter

    @property
    def dynamic(self) -> bool:
        """Whether the shape of an input or output is dynamic."""
        return self.is_dynamic()

    def is_dynamic(self) -> bool:
        """Return whether the shape of a value in the graph is dynamic."""
        return any(port.partial_shape.is_dynamic for port in (*self.inputs, *self.outputs))

    @translate_errors
    def reshape(self, partial_shape: Any, variables_shapes: Mapping[str, Any] | None = None) -> None:
        """Change the shapes of inputs, and infer all other shapes anew.

        Nodes that state sizes of the old shapes are adapted as in OpenVINO; see `irrun.runtime.fixed_shapes`.

        Args:
            partial_shape: The shape of the only input, or a mapping from inputs, their indices or tensor names to
                shapes.
            variables_shapes: Shapes of variables, which need not be declared.

        Raises:
            RuntimeError: The shapes do not fit the operations, or an input does not exist.
            TypeError: An argument has the wrong type.
        """
        new_shapes: list[tuple[Node, PartialShape]] = []
        for variable, shape in (variables_shapes or {}).items():
            if not isinstance(variable, str):
                raise TypeError(f"Incorrect key type {type(variable)} to reshape a model, expected values as str.")
            _to_shape(shape)
        if isinstance(partial_shape, Mapping):
            for key, shape in partial_shape.items():
                new_shapes.append((self._find_input(key), _to_shape(shape)))
        elif isinstance(partial_shape, (PartialShape, Shape, list, tuple, str)):
            if len(self._parameters) != 1:
                raise RuntimeError("reshape() with one shape requires a model with one input")
            new_shapes.append((self._parameters[0], PartialShape(partial_shape)))
        else:
            raise TypeError(
                "reshape(): incompatible function arguments: expected a shape or a dict of shapes. "
                f"Invoked with: {partial_shape!r}"
            )
        if all(shape.is_static and node._ports[0].shape == shape._to_irrun() for node, shape in new_shapes):
            return
        previous = [(node, node._ports[0].shape) for node, _ in new_shapes]
        undo = self._relax_fixed_shapes()
        try:
            for node, shape in new_shapes:
                node._declare(node._ports[0].element_type, shape._to_irrun())
            self.validate_nodes_and_infer_types()
        except RuntimeError:
            undo()
            for node, old in previous:
                node._declare(node._ports[0].element_type, old)
            self.validate_nodes_and_infer_types()
            raise

    def _relax_fixed_shapes(self) -> Callable[[], None]:
        """Adapt nodes that state sizes of the old shapes, and return a function that undoes it."""
        from irrun.runtime.fixed_shapes import relax_fixed_shapes
        from irrun.runtime.shape_inference import GraphInference

        nodes = graph_conversion.list_nodes(self._parameters, self._results, self._sinks)
        graph = self._to_ir().graph
        return graph_conversion.apply_edits(nodes, relax_fixed_shapes(graph, GraphInference(graph)))

    def _find_input(self, key: Any) -> Node:
        if isinstance(key, ConstOutput):
            port = key if _find_node(self._parameters, key.node) >= 0 else self.input(key.any_name)
            node: Node = port.node
            return node
        if isinstance(key, (int, str)):
            found: Node = self.input(key).node
            return found
        shown = f"<class 'openvino._pyopenvino.op.{key._type}'>" if isinstance(key, Node) else type(key)
        raise TypeError(f"Incorrect key type {shown} to reshape a model, expected keys as openvino.Output, int or str.")

    @translate_errors
    def validate_nodes_and_infer_types(self) -> None:
        """Infer the element types and shapes of all nodes anew."""
        for node in self.get_ordered_ops():
            for port in node._ports:
                if node._type not in ("Parameter", "Constant"):
                    port.value = None
            infer_node(node)

    def clone(self) -> Model:
        """Return a copy with its own nodes and shared constants."""
        copies: dict[int, Node] = {}
        for node in self.get_ordered_ops():
            sources = [None if s is None else Output(copies[s._node._id], s._index) for s in node._sources]
            copies[node._id] = _copy_node(node, sources)

        def get(nodes: list[Node]) -> list[Node]:
            return [copies[node._id] for node in nodes]

        model = Model([])
        model._results, model._sinks, model._parameters = map(get, (self._results, self._sinks, self._parameters))
        model._friendly_name = self._friendly_name
        model._rt_info, model._variables = _copy_values(self._rt_info), list(self._variables)
        model._weights, model._path, model._source_version = self._weights, self._path, self._source_version
        return model

    # -- runtime information

    @property
    def rt_info(self) -> RTMap:
        """Runtime information."""
        return RTMap(self._rt_info)

    def get_rt_info(self, path: Any = None) -> Any:
        """Return runtime information.

        Args:
            path: A name, or a list of names for nested values; by default all of it is returned.

        Returns:
            An `OVAny` with the value; without a path, a mapping.

        Raises:
            RuntimeError: There is no such value.
        """
        if path is None:
            return self.rt_info
        value: Any = self._rt_info
        for name in [path] if isinstance(path, str) else path:
            if not isinstance(value, Mapping) or name not in value:
                raise RuntimeError(_RT_INFO_ERROR)
            value = unwrap(value[name])
        return OVAny(value)

    def has_rt_info(self, path: Any) -> bool:
        """Return whether there is a value; see `get_rt_info`."""
        try:
            self.get_rt_info(path)
        except RuntimeError:
            return False
        return True

    def set_rt_info(self, obj: Any, path: Any) -> None:
        """Set runtime information.

        Args:
            obj: The value.
            path: A name, or a list of names for a nested value.
        """
        names = [path] if isinstance(path, str) else list(path)
        target = self._rt_info
        for name in names[:-1]:
            inner = target.get(name)
            if not isinstance(inner, dict):
                inner = target[name] = {}
            target = inner
        target[names[-1]] = unwrap(obj)

    @translate_errors
    def evaluate(self, output_tensors: Sequence[Any], input_tensors: Sequence[Any], *_: Any) -> bool:
        """Compute the model.

        Args:
            output_tensors: The tensors that the results are written to.
            input_tensors: The tensors of the inputs.

        Raises:
            RuntimeError: The inputs do not fit the model, or a kernel failed.
        """
        from irrun.runtime.request import CompiledModel

        compiled = CompiledModel(self._to_ir(), optimize=False, precision="declared")
        values = {i: tensor._to_values() for i, tensor in enumerate(input_tensors)}
        try:
            results = compiled(values).to_tuple()
        except IrrunError as error:
            raise RuntimeError(f"Cannot evaluate model! {error}") from error
        for tensor, result in zip(output_tensors, results, strict=True):
            tensor._assign(result)
        return True


def _to_shape(value: Any) -> PartialShape:
    if not isinstance(value, (PartialShape, Shape, list, tuple, str)):
        raise TypeError(
            f"Incorrect value type {type(value)} to reshape a model, expected values as openvino.PartialShape, str, "
            "list or tuple."
        )
    return PartialShape(value)


def _make_result(value: Any) -> Node:
    node = value if isinstance(value, Node) else value.get_node()
    if node._type == "Result":
        return node
    return Node("Result", "opset1", [value.output(0) if isinstance(value, Node) else as_output(value)], {})


def _name_tensor(node: Node) -> None:
    """Name the tensor of a Parameter or Result after the node if it has no name."""
    data = node._get_port(0)
    if not data.names and not node._ports[0].names:
        data.names = {node.get_friendly_name()}


def _copy_node(node: Node, sources: Sequence[Output | None]) -> Node:
    copied = Node(node._type, node._version, sources, node._attributes, node.get_friendly_name())
    copied._ports = []
    for port in node._ports:
        data = PortData(port.element_type, port.shape, port.names, port.rt_info_text)
        data.rt_info = dict(port.rt_info)
        data.value = port.value
        copied._ports.append(data)
    copied._bodies, copied._constant = node._bodies, node._constant
    copied._rt_info, copied._rt_info_text = dict(node._rt_info), node._rt_info_text
    copied._layout, copied._line = node._layout, node._line
    copied._body_port_ids, copied._implementation = node._body_port_ids, node._implementation
    return copied


def _copy_values(values: Mapping[str, Any]) -> dict[str, Any]:
    return {k: _copy_values(v) if isinstance(v, Mapping) else v for k, v in values.items()}


def _find_node(nodes: Sequence[Node], node: Any) -> int:
    return next((i for i, candidate in enumerate(nodes) if candidate is node), -1)


def _require(index: int) -> int:
    if index < 0:
        raise RuntimeError("the model does not contain the node")
    return index


def find_port(ports: Sequence[Any], key: int | str | None, kind: str, call: str) -> Any:
    """Return the port of an index or tensor name; without a key, the only one.

    Raises:
        RuntimeError: No port has that name, or there are several ports.
        IndexError: The index is out of range.
    """
    if key is None:
        if len(ports) != 1:
            raise RuntimeError(f"{call} must be called on a model with exactly one {kind.lower()}, found {len(ports)}")
        return ports[0]
    if isinstance(key, str):
        for port in ports:
            if key in port.names:
                return port
        raise RuntimeError(f"{kind} for tensor name '{key}' is not found.")
    if not isinstance(key, int):
        raise TypeError(f"{call}: incompatible function arguments. Invoked with: {key!r}")
    if not 0 <= key < len(ports):
        raise IndexError(f"{kind} index {key} is out of range: this->size() is {len(ports)}")
    return ports[key]
