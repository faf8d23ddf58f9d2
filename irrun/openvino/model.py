"""`Model`: a graph of nodes with inputs and outputs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from irrun.errors import IrrunError
from irrun.ir.model import Model as IrModel
from irrun.ir.weights import Weights
from irrun.openvino import graph_conversion
from irrun.openvino.custom_operation import make_operations
from irrun.openvino.element_type import to_element_type, to_type
from irrun.openvino.errors import translate_errors
from irrun.openvino.getters import from_getter
from irrun.openvino.inference import infer_node
from irrun.openvino.model_ports import ModelPorts
from irrun.openvino.named import Named
from irrun.openvino.node import ConstOutput, Node, Output, PortData, as_output
from irrun.openvino.reshaping import reshape_model
from irrun.openvino.runtime_info import OVAny, RTMap, parse_meta_data, parse_rt_info, unwrap
from irrun.openvino.shape import PartialShape
from irrun.openvino.variables import Variable, VariableInfo

__all__ = ["Model"]

_RT_INFO_ERROR = "Cannot get runtime attribute. Path to runtime attribute is incorrect."

_model_count = 0


class Model(Named, ModelPorts):
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
        model._rt_info = parse_rt_info(ir.rt_info) if ir.rt_info else parse_meta_data(ir.meta_data)
        if ir.path is None or ir.path.suffix != ".onnx":
            model._rt_info["version"] = ir.source_version
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
            rt_info={name: value for name, value in self._rt_info.items() if name != "version"},
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

    # -- nodes

    def get_ordered_ops(self) -> list[Node]:
        """Return all nodes in OpenVINO's topological order."""
        roots = [*self._results, *self._sinks, *self._parameters]
        return graph_conversion.sort_nodes(reversed(roots))

    def get_ops(self) -> list[Node]:
        """Return all nodes in OpenVINO's order, which starts at the results."""
        pending = [*self._results, *self._sinks, *self._parameters]
        found: dict[int, Node] = {}
        while pending:
            node = pending.pop()
            if node._id not in found:
                found[node._id] = node
                pending += [source.get_node() for source in node._sources if source is not None]
        return list(found.values())

    def get_variables(self) -> list[Variable]:
        """Return the variables of ReadValue nodes, and added variables."""
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

    variables = from_getter(get_variables)

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
            RuntimeError: The value does not exist.
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
        """Remove a Result, if the model has it."""
        self._results = [node for node in self._results if node is not result]

    def remove_parameter(self, parameter: Node) -> None:
        """Remove a Parameter, if the model has it."""
        self._parameters = [node for node in self._parameters if node is not parameter]

    def remove_sink(self, sink: Node) -> None:
        """Remove an Assign, if the model has it."""
        self._sinks = [node for node in self._sinks if node is not sink]

    def replace_parameter(self, parameter_index: int, parameter: Node) -> None:
        """Replace a Parameter, and connect its consumers to the new one.

        Raises:
            RuntimeError: The model has no Parameter with that number.
        """
        if not 0 <= parameter_index < len(self._parameters):
            raise RuntimeError(f"replace_parameter(): index {parameter_index} is out of range")
        Output(self._parameters[parameter_index], 0).replace(Output(parameter, 0))
        self._parameters[parameter_index] = parameter

    def is_dynamic(self) -> bool:
        """Return whether the shape of a value in the graph is dynamic."""
        return any(port.partial_shape.is_dynamic for port in (*self.inputs, *self.outputs))

    dynamic = from_getter(is_dynamic)

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
        reshape_model(self, partial_shape, variables_shapes)

    @translate_errors
    def validate_nodes_and_infer_types(self) -> None:
        """Infer the element types and shapes of all nodes anew."""
        for node in self.get_ordered_ops():
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
            RuntimeError: The value does not exist.
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
        from irrun.runtime.compiled_model import CompiledModel

        with make_operations(self.get_ordered_ops()) as operations:
            compiled = CompiledModel(self._to_ir(), operations=operations, optimize=False, precision="declared")
        values = {i: tensor._to_values() for i, tensor in enumerate(input_tensors)}
        try:
            results = compiled(values).to_tuple()
        except IrrunError as error:
            raise RuntimeError(f"Cannot evaluate model! {error}") from error
        for tensor, result in zip(output_tensors, results, strict=True):
            tensor._assign(result)
        return True


def _make_result(value: Any) -> Node:
    node = value if isinstance(value, Node) else value.get_node()
    if node._type == "Result":
        return node
    return Node("Result", "opset1", [value.output(0) if isinstance(value, Node) else as_output(value)], {})


def _name_tensor(node: Node) -> None:
    """Name the tensor of a Parameter or Result after the node if it has no name."""
    if not Output(node, 0).names:
        Output(node, 0).set_names({node.get_friendly_name()})


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
