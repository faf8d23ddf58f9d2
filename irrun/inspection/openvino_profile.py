"""OpenVINO's counters per layer, joined with a profile of irrun.

OpenVINO fuses layers and inserts others, as do the passes of irrun. The runtime model gives the original layers of each
node. Rows of the result are the smallest groups of layers common to both.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import Any

from irrun.errors import ExecutionError, InputError
from irrun.inspection.keys import KeyTable
from irrun.inspection.modules import ModulePath, format_module
from irrun.inspection.openvino_core import create_core
from irrun.inspection.openvino_tensors import make_tensor
from irrun.inspection.profile_layers import LayerProfile
from irrun.ir.graph import Graph
from irrun.ir.model import Model, index_names
from irrun.ir.writer import save_model
from irrun.runtime.compiled_model import CompiledModel
from irrun.runtime.inputs import Inputs, collect_inputs

__all__ = ["LayerPair", "OpenVinoProfile", "check_is_installed", "profile_openvino"]


@dataclass(frozen=True)
class LayerPair:
    """Layers that irrun and OpenVINO run, each in one or several kernels.

    Attributes:
        key: The key of the layer with the most operations in irrun, or the name of OpenVINO's node.
        type: The types of irrun's layers, or the type of OpenVINO's node.
        layers: The keys of the layers.
        seconds: The time of irrun in seconds; None if irrun has no such layer.
        openvino_seconds: The time of OpenVINO in seconds; None if OpenVINO has no such layer.
        kernels: The kernels that OpenVINO ran.
        flops: The number of operations, or None.
        module: The module path of the layer.
    """

    key: str
    type: str
    layers: tuple[str, ...]
    seconds: float | None
    openvino_seconds: float | None
    kernels: tuple[str, ...]
    flops: int | None
    module: ModulePath = ()

    @property
    def is_matched(self) -> bool:
        """Whether both run the layers."""
        return self.seconds is not None and self.openvino_seconds is not None

    @property
    def ratio(self) -> float | None:
        """The time of irrun divided by OpenVINO's; None if either is missing or 0."""
        return self.seconds / self.openvino_seconds if self.seconds and self.openvino_seconds else None

    def to_dict(self) -> dict[str, Any]:
        """Return the fields and the ratio by name."""
        lists = {"layers": list(self.layers), "kernels": list(self.kernels)}
        return {**vars(self), **lists, "module": format_module(self.module), "ratio": self.ratio}


@dataclass(frozen=True)
class OpenVinoProfile:
    """The counters of OpenVINO next to the times of irrun.

    Attributes:
        version: The version of OpenVINO.
        pairs: The joined layers, in the order of irrun, then layers that only OpenVINO runs.
        seconds: The median time of a run with counters, in seconds.
        layer_seconds: The sum of the medians of all OpenVINO nodes.
    """

    version: str
    pairs: tuple[LayerPair, ...]
    seconds: float
    layer_seconds: float

    def to_dict(self) -> dict[str, Any]:
        """Return the counters for JSON."""
        return {**vars(self), "pairs": [pair.to_dict() for pair in self.pairs]}


@dataclass(frozen=True)
class _Node:
    """A node of OpenVINO's runtime model.

    Attributes:
        name: The name.
        type: The type.
        layers: The keys of the original layers.
        kernel: The kernel and its precision.
        seconds: The median time in seconds.
    """

    name: str
    type: str
    layers: tuple[str, ...]
    kernel: str
    seconds: float


def check_is_installed() -> Any:
    """Return the package of OpenVINO.

    Raises:
        InputError: OpenVINO is not installed.
    """
    try:
        import openvino
    except ImportError:
        raise InputError("--against openvino requires OpenVINO: pip install 'irrun[openvino]'") from None
    if openvino.__name__ != "openvino":
        raise InputError("--against openvino requires OpenVINO, found irrun in its place")
    return openvino


def profile_openvino(
    compiled: CompiledModel, inputs: Inputs, layers: Sequence[LayerProfile], runs: int, table: KeyTable
) -> OpenVinoProfile:
    """Measure OpenVINO on the CPU in f32, with the same number of threads.

    Args:
        compiled: irrun's compiled model.
        inputs: The inputs.
        layers: The times of irrun.
        runs: The number of runs after a warm-up.
        table: The keys of the model.

    Raises:
        InputError: OpenVINO is not installed.
        ExecutionError: OpenVINO does not accept the model or the inputs.
    """
    openvino = check_is_installed()
    model = compiled.model
    arguments = collect_inputs(inputs, compiled.inputs, index_names(compiled.inputs))
    config = {
        "PERF_COUNT": "YES",
        "INFERENCE_PRECISION_HINT": "f32",
        "INFERENCE_NUM_THREADS": str(compiled.threads),
        "PERFORMANCE_HINT": "LATENCY",
    }
    try:
        with TemporaryDirectory(prefix="irrun-") as folder:
            path, keys = _save_with_unique_names(model, table, Path(folder))
            runtime = create_core(openvino, model).compile_model(path, "CPU", config)
            request = runtime.create_infer_request()
            tensors = [make_tensor(openvino, x) if x.dtype.kind == "O" else x for x in arguments]
            totals, counters = _measure(request, tensors, runs)
            nodes = _list_nodes(runtime, counters, keys)
    except InputError:
        raise
    except Exception as error:
        message = str(error).strip().splitlines() or [type(error).__name__]
        raise ExecutionError(f"OpenVINO failed: {message[-1].strip()}", path=model.path) from None
    return OpenVinoProfile(
        version=openvino.get_version(),
        pairs=tuple(_join(layers, nodes)),
        seconds=statistics.median(totals),
        layer_seconds=sum(node.seconds for node in nodes),
    )


def _save_with_unique_names(model: Model, table: KeyTable, folder: Path) -> tuple[Path, dict[str, str]]:
    """Write a model with unique layer names without commas, and return the keys of the layers by name."""
    names = {f"L{number}": layer for number, layer in enumerate(model.graph.layers)}
    keys = {name: table.get_key(layer) for name, layer in names.items()}
    layers = [replace(layer, name=name) for name, layer in names.items()]
    path = folder / "model.xml"
    save_model(Model(Graph(layers, model.graph.edges, "model"), model.weights), path)
    return path, keys


def _measure(request: Any, arguments: Sequence[Any], runs: int) -> tuple[list[float], dict[str, list[Any]]]:
    """Return the times of runs in seconds, and the counters of each node in these runs by name."""
    totals: list[float] = []
    counters: dict[str, list[Any]] = {}
    for number in range(runs + 1):
        request.reset_state()
        start = perf_counter()
        request.infer(list(arguments))
        seconds = perf_counter() - start
        if not number:
            continue
        totals.append(seconds)
        for info in request.profiling_info:
            counters.setdefault(info.node_name, []).append(info)
    return totals, counters


def _list_nodes(runtime: Any, counters: Mapping[str, Sequence[Any]], keys: Mapping[str, str]) -> list[_Node]:
    originals: dict[str, str] = {}
    for operation in runtime.get_runtime_model().get_ordered_ops():
        information = operation.get_rt_info()
        if "originalLayersNames" in information:
            originals[operation.get_friendly_name()] = information["originalLayersNames"].astype(str)
    nodes = []
    for name, infos in counters.items():
        names = [part for part in (*originals.get(name, "").split(","), name) if part in keys]
        seconds = statistics.median(info.real_time.total_seconds() for info in infos)
        if not seconds and not names:
            continue
        layers = tuple(dict.fromkeys(keys[part] for part in names))
        shown = _replace_names(name, keys)
        nodes.append(_Node(shown, infos[0].node_type, layers, infos[0].exec_type, seconds))
    return nodes


def _replace_names(name: str, keys: Mapping[str, str]) -> str:
    """Replace the layer names in the name of an inserted node, such as "L3_abcd_L4", by layer keys."""
    return "_".join(keys.get(part, part) for part in name.split("_"))


def _join(layers: Sequence[LayerProfile], nodes: Sequence[_Node]) -> Iterable[LayerPair]:
    """Yield the connected groups of irrun's layers and OpenVINO's nodes."""
    parents: dict[str, str] = {}

    def find(key: str) -> str:
        parents.setdefault(key, key)
        while parents[key] != key:
            parents[key] = parents[parents[key]]
            key = parents[key]
        return key

    def find_group(keys: Sequence[str]) -> str:
        return next((find(key) for key in keys), "")

    own = [tuple(dict.fromkeys(map(_get_outermost, layer.layers))) for layer in layers]
    for keys in (*own, *(node.layers for node in nodes)):
        for key, following in pairwise(keys):
            parents[find(key)] = find(following)
    groups: dict[str, tuple[list[LayerProfile], list[_Node]]] = {}
    for layer, keys in zip(layers, own, strict=True):
        groups.setdefault(find_group(keys), ([], []))[0].append(layer)
    alone = []
    for node in nodes:
        group = find_group(node.layers)
        if group in groups:
            groups[group][1].append(node)
        else:
            alone.append(node)
    for members, matches in groups.values():
        yield _make_pair(members, matches)
    for node in alone:
        if node.seconds:
            yield LayerPair(node.name, node.type, node.layers, None, node.seconds, (node.kernel,), None)


def _make_pair(layers: Sequence[LayerProfile], nodes: Sequence[_Node]) -> LayerPair:
    main = max(layers, key=lambda layer: layer.flops or 0)
    counts = [layer.flops for layer in layers if layer.flops is not None]
    return LayerPair(
        key=_get_outermost(main.key),
        type="+".join(dict.fromkeys(name for layer in layers for name in layer.types)),
        layers=tuple(dict.fromkeys(_get_outermost(name) for layer in layers for name in layer.layers)),
        seconds=sum(layer.seconds for layer in layers),
        openvino_seconds=sum(node.seconds for node in nodes) if nodes else None,
        kernels=tuple(dict.fromkeys(node.kernel for node in nodes if node.seconds)),
        flops=sum(counts) if counts else None,
        module=main.module,
    )


def _get_outermost(key: str) -> str:
    """Return the key of the layer of the model that owns the bodies of a layer."""
    return key.partition("[*]/")[0]
