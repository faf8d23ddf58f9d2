"""A model that runs in OpenVINO. Added outputs expose the values of its layers.

Added outputs change OpenVINO's results on some models, especially with FakeQuantize, because they prevent
fusions. Outputs are therefore added in batches. After each batch, the outputs of the model are compared with the
outputs of the unchanged model. A batch that changed them by more than rounding is divided into smaller batches. Values
of a small batch that still changes them by more than rounding are marked as perturbed.
"""

from __future__ import annotations

import math
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from irrun.activity import announce
from irrun.element_types import ElementType
from irrun.errors import ExecutionError, InputError
from irrun.inspection.keys import KeyTable, find_constant_layers
from irrun.inspection.metrics import Metrics, measure
from irrun.inspection.openvino_core import create_core
from irrun.inspection.openvino_evaluate import REFERENCE, ReferenceModel
from irrun.inspection.openvino_precision import (
    Target,
    count_precisions,
    format_type,
    get_precision,
    get_precision_epsilon,
)
from irrun.inspection.openvino_tensors import make_tensor, read_tensor
from irrun.inspection.spool import Spool
from irrun.ir.graph import Graph, Layer
from irrun.ir.model import Model
from irrun.ir.writer import save_model
from irrun.shapes import PartialShape

__all__ = ["OpenVinoModel", "is_unchanged"]

Array = np.ndarray[Any, Any]

#: A batch of at most this many layers is not divided.
SMALL_BATCH = 24
#: Changes of outputs by at most this multiple of the epsilon of the precision count as rounding.
ROUNDING = 64.0
#: Maximum size of a batch's added outputs with static declared shapes, in bytes.
BATCH_BYTES = 256 << 20


class OpenVinoModel:
    """A model that runs in OpenVINO.

    Args:
        model: The model.
        target: The device and precision.

    Attributes:
        precision: The precision that OpenVINO actually used.
        default_precision: The precision that OpenVINO would use by default.
        kernel_precisions: The number of kernels per compute type.
        perturbed: The keys of layers that changed the outputs of the model when they became outputs.
        keeps_batches: Whether to keep the compiled batches for further runs.

    Raises:
        InputError: OpenVINO is not installed, or does not have the device.
        ExecutionError: OpenVINO does not accept the model.
    """

    def __init__(self, model: Model, target: Target) -> None:
        try:
            import openvino
        except ImportError:
            raise InputError("this reference requires OpenVINO: pip install 'irrun[openvino]'") from None
        self._openvino: Any = openvino
        self._core = create_core(openvino, model)
        self.target = target
        self.model = model
        self.perturbed: set[str] = set()
        self.keeps_batches = False
        self._variables: dict[str, Array] = {}
        self._table = KeyTable(model)
        self._consumed = {(e.from_layer, e.from_port) for e in model.graph.edges}
        self._config: dict[str, Any] = {"INFERENCE_PRECISION_HINT": target.precision} if target.precision else {}
        if target.keeps_quantizers:
            self._config["LP_TRANSFORMS_MODE"] = "NO"  # the transformations that create int8 kernels
        if (target.device, target.precision) == ("CPU", "f32"):
            self._config["KV_CACHE_PRECISION"] = "f32"  # 8 bits by default
            self._config["DYNAMIC_QUANTIZATION_GROUP_SIZE"] = 0  # by default, activations are quantized to 8 bits
        self._folder = tempfile.TemporaryDirectory(prefix="irrun-")
        self._plans: list[tuple[list[Layer], Any, dict[tuple[str, int], int]]] = []
        with self._report_errors(), announce("running OpenVINO"):
            self._names, self._source = self._read()
            self._base = self._compile(self._source)
            self._request = self._base.create_infer_request()
            self.precision = get_precision(self._base)
            self.default_precision = self._find_default_precision()
            self.kernel_precisions = count_precisions(self._base)
        self._nodes = self._index_nodes()

    def close(self) -> None:
        """Release the compiled models and the temporary files."""
        self._plans.clear()
        self._base = self._request = None
        self._folder.cleanup()

    def infer(self, arguments: Sequence[Array]) -> list[Array]:
        """Run the model and return its outputs.

        Args:
            arguments: The inputs, in the order of the Parameters.
        """
        with self._report_errors(), announce("running OpenVINO"):
            return self._infer(self._base.create_infer_request(), arguments)

    def run(self, arguments: Sequence[Array], spool: Spool) -> list[Array]:
        """Run the model and store the values of its layers.

        Args:
            arguments: The inputs, in the order of the Parameters.
            spool: Receives the values by key.

        Returns:
            The outputs.
        """
        with self._report_errors(), announce("running OpenVINO"):
            values = self._infer(self._request, arguments)
            self._variables = {v.name: read_tensor(v.state) for v in self._request.query_state()}
            if not self.keeps_batches:
                # The weights take as much memory as the weights of a batch.
                self._base = self._request = None
            if not self._plans:
                for batch in self._make_batches():
                    self._add_batch(batch, arguments, values, spool)
            else:
                for layers, request, positions in self._plans:
                    self._store(layers, self._infer(request, arguments), positions, spool)
        return values

    def get_variable(self, name: str) -> Array | None:
        """Return the value of a variable after the last run, or None.

        Args:
            name: The id of the variable.
        """
        value = self._variables.get(name)
        declared = [
            layer.outputs[0].shape
            for layer in self.model.graph.find_layers("ReadValue")
            if layer.attributes.get("variable_id") == name and layer.outputs
        ]
        if value is not None and value.shape == (1,) and declared and declared[0] == PartialShape([]):
            return value.reshape(())  # the CPU plugin stores scalars with one dimension
        return value

    def _add_batch(self, layers: list[Layer], arguments: Sequence[Array], values: list[Array], spool: Spool) -> None:
        """Run with the outputs of some layers added. If that changes the other outputs, divide the batch."""
        changed = self._source.clone()
        nodes = {n.get_friendly_name(): n for n in changed.get_ops()}
        for layer in layers:
            node = nodes[self._names[id(layer)]]
            changed.add_outputs([node.output(i) for i in self._find_consumed_ports(layer)])
        positions = _find_positions(changed)
        request = self._compile(changed).create_infer_request()
        results = self._infer(request, arguments)
        is_perturbed = self._have_moved(map(measure, results, values))
        if is_perturbed and len(layers) > SMALL_BATCH:
            for start in range(0, len(layers), SMALL_BATCH):
                self._add_batch(layers[start : start + SMALL_BATCH], arguments, values, spool)
            return
        if is_perturbed:
            self.perturbed.update(self._table.get_key(layer) for layer in layers)
        self._store(layers, results, positions, spool)
        if self.keeps_batches:
            self._plans.append((layers, request, positions))

    def _have_moved(self, differences: Iterable[Metrics]) -> bool:
        """Return whether the outputs of the model differ by more than rounding."""
        epsilon = get_precision_epsilon(self.precision) or float(np.finfo(np.float32).eps)
        limit = -20 * math.log10(ROUNDING * epsilon)
        return any(difference.sqnr_db < limit for difference in differences)

    def _store(
        self, layers: Sequence[Layer], results: Sequence[Array], positions: dict[tuple[str, int], int], spool: Spool
    ) -> None:
        for layer in layers:
            for port in self._find_consumed_ports(layer):
                value = results[positions[self._names[id(layer)], port]]
                shape = layer.outputs[port].shape
                if shape is None or shape.is_compatible(value.shape):  # a fused node may have the name of a layer
                    spool.put(self._table.get_value_key(layer, port), value)

    def _make_batches(self) -> Iterator[list[Layer]]:
        """Divide the layers into batches whose values fit into the memory."""
        constants = find_constant_layers(self.model.graph)
        batch: list[Layer] = []
        size = 0
        for layer in self.model.graph.layers:
            if layer.id in constants or layer.is_input or layer.is_output or layer.writes_variable or not layer.outputs:
                continue
            if not self._has_node(layer) or not self._find_consumed_ports(layer):
                continue
            layer_size = sum(_estimate_size(port) for port in layer.outputs)
            if batch and size + layer_size > BATCH_BYTES:
                yield batch
                batch, size = [], 0
            batch.append(layer)
            size += layer_size
        if batch:
            yield batch

    def _has_node(self, layer: Layer) -> bool:
        node = self._nodes.get(self._names[id(layer)])
        return node is not None and node.get_output_size() == len(layer.outputs)

    def _find_consumed_ports(self, layer: Layer) -> list[int]:
        """Return the positions of the outputs that are used; OpenVINO does not compute all unused outputs correctly."""
        return [i for i, port in enumerate(layer.outputs) if (layer.id, port.id) in self._consumed]

    def _index_nodes(self) -> dict[str, Any]:
        return {node.get_friendly_name(): node for node in self._source.get_ops()}

    def _read(self) -> tuple[dict[int, str], Any]:
        """Return the names of the nodes and OpenVINO's model, with unique names."""
        model = self.model
        names = {layer.name for layer in model.graph.layers}
        is_unique = "" not in names and len(names) == len(model.graph.layers)
        path = model.path
        if is_unique and path is not None and model.source_version >= 10 and is_unchanged(model):
            return {id(layer): layer.name for layer in model.graph.layers}, self._core.read_model(path)
        keys = {id(layer): self._table.get_key(layer) for layer in model.graph.layers}
        renamed = [replace(layer, name=keys[id(layer)]) for layer in model.graph.layers]
        graph = Graph(renamed, model.graph.edges, "model")
        xml = Path(self._folder.name) / "model.xml"
        save_model(Model(graph, model.weights), xml)
        return keys, self._core.read_model(xml)

    def _compile(self, source: Any) -> Any:
        if self.target.device == REFERENCE:
            return ReferenceModel(self._openvino, source)
        return self._core.compile_model(source, self.target.device, self._config)

    def _infer(self, request: Any, arguments: Sequence[Array]) -> list[Array]:
        compiled = request.get_compiled_model()
        for i, value in enumerate(arguments):
            declared = ElementType.parse(compiled.inputs[i].get_element_type().get_type_name())
            if declared.is_float and declared.dtype != value.dtype:  # OpenVINO reads f16 inputs of IR v10 as f32
                value = value.astype(declared.dtype)
            request.set_input_tensor(i, make_tensor(self._openvino, value))
        request.infer()
        return [read_tensor(request.get_output_tensor(i)) for i in range(len(compiled.outputs))]

    def _find_default_precision(self) -> str:
        try:
            return format_type(self._core.get_property(self.target.device, "INFERENCE_PRECISION_HINT"))
        except RuntimeError:  # a virtual device does not have one
            return self.precision

    def _report_errors(self) -> _OpenVinoErrors:
        return _OpenVinoErrors()


class _OpenVinoErrors:
    """Context that reports the exceptions of OpenVINO as ExecutionError."""

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        if type(error) is RuntimeError:
            lines = [line.strip() for line in str(error).splitlines() if line.strip()]
            raise ExecutionError(f"OpenVINO: {' '.join(lines[-3:])}") from error


def is_unchanged(model: Model) -> bool:
    """Return whether the file of a model, with its weights next to it, has the same layers as the model in memory."""
    from irrun.ir.reader import read_model

    assert model.path is not None
    if model.path.suffix.lower() == ".onnx":  # OpenVINO converts it to other layers
        return False
    try:
        original = read_model(model.path)
    except Exception:  # the file was replaced
        return False

    def describe(graph: Graph) -> list[tuple[object, ...]]:
        return [
            (
                n.id,
                n.name,
                n.type,
                n.version,
                sorted((k, str(v)) for k, v in n.attributes.items()),
                None if n.constant is None else (n.constant.offset, n.constant.element_type.name, n.constant.shape),
            )
            for _, n in graph.walk()
        ]

    is_same = describe(original.graph) == describe(model.graph) and original.graph.edges == model.graph.edges
    return is_same and original.weights.path == model.weights.path


def _find_positions(source: Any) -> dict[tuple[str, int], int]:
    """Return the positions of the outputs of OpenVINO's model by the names of their producers and ports."""
    positions: dict[tuple[str, int], int] = {}
    for i, result in enumerate(source.get_results()):
        producer = result.input_value(0)
        positions[producer.get_node().get_friendly_name(), producer.get_index()] = i
    return positions


def _estimate_size(port: Any) -> int:
    if port.shape is None or not port.shape.is_static or port.element_type is None:
        return 1 << 20
    if not port.element_type.bits:
        return 0
    return int(port.element_type.get_byte_size(math.prod(int(d) for d in port.shape)))
