"""The converter of models, which programs import as `openvino.tools.ovc`: of ONNX, and of PyTorch through ONNX."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

from irrun import shapes
from irrun.element_types import ElementType
from irrun.errors import IrrunError
from irrun.ir.graph import Graph, Layer, Port
from irrun.openvino.dimension import Dimension
from irrun.openvino.element_type import to_element_type
from irrun.openvino.model import Model
from irrun.openvino.shape import PartialShape, Shape
from irrun.openvino.torch_modules import export_module, get_examples, is_module

__all__ = ["convert_model", "name_producers"]


#: The ending of the names of Results of ONNX models.
_RESULT = "/sink_port_0"


def convert_model(
    input_model: Any = None, *, input: Any = None, output: Any = None, example_input: Any = None, **options: Any
) -> Model:
    """Convert an ONNX model or a PyTorch module.

    Args:
        input_model: The path of an .onnx, an `onnx.ModelProto`, or a module, which PyTorch exports to ONNX.
        example_input: The inputs of a run of the module: a tensor, several, or tensors by the names of arguments.
        input: New shapes of the inputs: one shape, a pair of name and shape, a list of these, or a mapping by name.
        output: The names of the outputs to keep, in their order; one name or a list. None for all.
        options: `verbose` and `share_weights`, which have no effect.

    Raises:
        AssertionError: `output` is neither a name nor a list of names.
        RuntimeError: The model is of another framework or invalid, or an option or output is not supported.
    """
    unknown = [
        name for name, value in options.items() if name not in ("verbose", "share_weights") and value is not None
    ]
    if unknown:
        raise RuntimeError(f"irrun's convert_model does not support the options {', '.join(unknown)}")
    names = [output] if isinstance(output, str) else output or []
    if not isinstance(names, (list, tuple)) or not all(isinstance(name, str) for name in names):
        raise AssertionError(f"output '{output}' is incorrect, it should be string or a list/tuple of strings")
    return _select_outputs(_convert(input_model, input, example_input), names)


def _convert(input_model: Any, input: Any, example_input: Any) -> Model:
    if isinstance(input_model, (list, tuple)) and len(input_model) == 1:
        input_model = input_model[0]
    if is_module(input_model):
        return _read(export_module(input_model, example_input), input, get_examples(input_model, example_input))
    if example_input is not None:
        raise RuntimeError("example_input is for PyTorch modules only")
    is_path = isinstance(input_model, (str, os.PathLike)) and str(input_model).lower().endswith(".onnx")
    if not is_path and type(input_model).__name__ != "ModelProto":
        raise RuntimeError(
            "irrun converts ONNX models and PyTorch modules only. Install openvino, convert the model with "
            "openvino.convert_model and openvino.save_model, and read the .xml"
        )
    return _read(input_model if is_path else input_model.SerializeToString(), input)


def _read(
    source: str | os.PathLike[str] | bytes, shapes: Any, examples: Mapping[str, Any] = MappingProxyType({})
) -> Model:
    """Return an ONNX model with new shapes of its inputs, and with those inputs of a module that it does not use."""
    from irrun.ir.reader import read_model

    try:
        model = read_model(source)
        _add_unused_inputs(model.graph, examples)
        if shapes is not None:
            model.reshape(_to_shapes(shapes))
    except IrrunError as error:
        raise RuntimeError(str(error)) from error
    result = Model._from_ir(model)
    name_producers(result)
    _check_types(result, shapes)
    return result


def _add_unused_inputs(graph: Graph, examples: Mapping[str, Any]) -> None:
    """Add inputs of a module, given the examples by the names of all inputs, for which the ONNX model has no input."""
    known = {name: layer for layer in graph.layers if layer.type == "Parameter" for name in layer.outputs[0].names}
    if not known.keys() <= examples.keys() or len(known) == len(examples):
        return
    number = max(layer.id for layer in graph.layers) + 1
    inputs = []
    for i, (name, value) in enumerate(examples.items()):
        layer = known.get(name)
        if layer is None:
            dtype = str(value.dtype).removeprefix("torch.")
            # NumPy has the other types, by the same names.
            element_type = ElementType.parse("bf16") if dtype == "bfloat16" else ElementType.of(dtype)
            shape = shapes.PartialShape([shapes.UNBOUNDED] * value.ndim)
            attributes = {"element_type": element_type.name, "shape": str(shape)[1:-1]}
            port = Port(0, element_type, shape, (name,))
            layer = Layer(number + i, name, "Parameter", attributes=attributes, outputs=[port])
        inputs.append(layer)
    graph.layers[:] = [*inputs, *(layer for layer in graph.layers if layer.type != "Parameter")]


def name_producers(model: Model) -> None:
    """Name nodes that give outputs of an ONNX model like the outputs, as OpenVINO does."""
    for result in model.get_results():
        name, node = result.get_friendly_name(), result.input_value(0).get_node()
        if name.endswith(_RESULT) and node.get_type_name() != "Parameter":
            node.set_friendly_name(name.removesuffix(_RESULT))


def _select_outputs(model: Model, names: Sequence[str]) -> Model:
    """Keep some outputs of a model; all if there are no names.

    Raises:
        RuntimeError: An output does not exist.
    """
    results = []
    for name in names:
        found = [result for result in model.get_results() if name in result.output(0).get_names()]
        if not found:
            raise RuntimeError(f"Name {name} is not found among model outputs.")
        results += found
    return Model(results, model.get_sinks(), model.get_parameters(), model.get_friendly_name()) if results else model


def _to_shapes(shapes: Any) -> Any:
    """Return the argument of `reshape`: shapes by the names or positions of inputs.

    Args:
        shapes: A shape, a pair such as `("data", [1, 3])`, a list of shapes and pairs, or a mapping from names to
            shapes. A type may follow the shape of a pair.

    Raises:
        RuntimeError: An item is something else, such as a type.
    """
    if isinstance(shapes, dict):
        return {name: _to_shape(shape) for name, shape in shapes.items()}
    if _is_shape(shapes):
        return {0: _to_shape(shapes)}
    items = [shapes] if isinstance(shapes, tuple) and isinstance(shapes[0], str) else shapes
    if not isinstance(items, (list, tuple)):
        raise _refuse(shapes)
    pairs = [
        item if isinstance(item, tuple) and isinstance(item[0], str) else (i, item) for i, item in enumerate(items)
    ]
    if any(len(pair) not in (2, 3) for pair in pairs):
        raise _refuse(shapes)
    return {pair[0]: _to_shape(pair[1]) for pair in pairs}


def _check_types(model: Model, items: Any) -> None:
    """Raise RuntimeError if an item such as `("data", [1, 3], np.float16)` has another type than the input."""
    items = [items] if isinstance(items, tuple) else items
    for item in items if isinstance(items, list) else []:
        if isinstance(item, tuple) and len(item) == 3 and isinstance(item[0], str):
            declared = model.input(item[0]).element_type
            if to_element_type(item[2]) != to_element_type(declared):
                raise RuntimeError(f"irrun's convert_model keeps the types of inputs: {item[0]} is {declared!r}")


def _is_shape(value: Any) -> bool:
    if isinstance(value, (PartialShape, Shape)):
        return True
    return isinstance(value, (list, tuple)) and bool(value) and all(isinstance(d, (int, Dimension)) for d in value)


def _to_shape(value: Any) -> Any:
    if isinstance(value, list) and not value:
        return []
    if not _is_shape(value):
        raise _refuse(value)
    return PartialShape(value)._to_irrun()


def _refuse(value: Any) -> RuntimeError:
    return RuntimeError(f"irrun's convert_model expects names and shapes as the input, found {value!r}")
