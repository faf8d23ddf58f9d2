"""Reading of ONNX models."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from irrun.errors import IrrunError, ModelError, UnsupportedError
from irrun.ir.model import Model
from irrun.ir.weights import Weights

__all__ = ["read_onnx"]


def read_onnx(model: Path | bytes) -> Model:
    """Read an ONNX model.

    Args:
        model: The path of the .onnx file, or its contents. External data must be in the folder of the model.

    Returns:
        The model, with OpenVINO's operations instead of ONNX's operators.

    Raises:
        ModelError: The file cannot be read or is invalid, or the package onnx is missing.
        UnsupportedError: OpenVINO's operations cannot express some nodes; the message lists all of them.
    """
    path = None if isinstance(model, bytes) else model
    try:
        import onnx
    except ImportError:
        raise ModelError("reading ONNX models needs the package onnx: pip install 'irrun[onnx]'", path=path) from None
    from irrun.onnx_import.types import TensorReader

    try:
        proto = onnx.ModelProto.FromString(model if isinstance(model, bytes) else model.read_bytes())
    except OSError as error:
        raise ModelError(f"cannot read the file: {error.strerror or error}", path=path) from error
    except Exception:  # the class of Protocol Buffers depends on its implementation
        raise ModelError("the file is not a valid ONNX model", path=path) from None
    if not proto.HasField("graph"):
        raise ModelError("expected an ONNX model with a graph", path=path)
    try:
        return _import_model(proto, TensorReader(None if path is None else path.parent), path)
    except IrrunError as error:
        raise type(error)(error.message, path=path) from error


def _import_model(proto: Any, tensors: Any, path: Path | None) -> Model:
    from irrun.onnx_import.graph import Graph, Value
    from irrun.onnx_import.importer import Context, GraphImporter

    context = Context(proto, tensors)
    graph = Graph(proto.graph.name)
    importer = GraphImporter(context, graph, context.versions)
    importer.add_initializers(proto.graph)
    proto.graph.ClearField("initializer")  # its data has been copied
    for info in proto.graph.input:
        if info.name not in importer.items:
            importer.add_input(info)
    importer.run(proto.graph.node)
    if context.failures:
        failures = list(context.failures)
        count = len(failures)
        raise UnsupportedError(
            f"{count} node{'s' if count > 1 else ''} cannot be expressed in OpenVINO's operations: "
            f"{'; '.join(failures)}"
        )
    for info in proto.graph.output:
        value = importer.find(info.name)
        if not isinstance(value, Value):
            raise UnsupportedError(f"output {info.name!r} is not a tensor, expected a tensor")
        graph.add_result(value, info.name)
    return Model(graph.finish(), Weights(), path=path)
