"""Module paths: the source framework's modules, derived from layer names.

Converters derive the names of layers from the modules of the original network:

| framework | name | module path |
| --- | --- | --- |
| PyTorch | `__module.encoder.layer.0.attention/aten::linear/MatMul` | encoder, layer, 0, attention |
| PyTorch, weights | `self.encoder.layer.0.attention.weight` | encoder, layer, 0, attention |
| ONNX | `/encoder/layer.0/attention/MatMul` | encoder, layer, 0, attention |
| TensorFlow, Caffe | `encoder/attention/MatMul` | encoder, attention |
| others | `encoder.layer.0.attention.matmul` | encoder, layer, 0, attention |
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Literal

from irrun.ir.graph import Graph, Layer
from irrun.ir.model import Model
from irrun.ir.structure import sort_layers

__all__ = ["ModulePath", "choose_depth", "find_common_path", "find_modules", "format_module", "parse_module_path"]

#: The names of nested modules, outermost first. The empty path is the network itself.
ModulePath = tuple[str, ...]

#: How a converter writes module paths in names.
Convention = Literal["pytorch", "onnx", "path", "dots"]

#: Suffixes that transformations append to layer names.
_SUFFIX = re.compile(r"/(WithoutBiases|Dims\d*|fq_(input|output|weights)_\d+|Broadcast|Squeeze|Unsqueeze)$")
#: A name of parts separated by dots, each an index or with a letter: not a number or a file.
_DOTS = re.compile(r"(?!self\.)[A-Za-z_]\w*(\.(\d+|[A-Za-z_]\w*))*\.[A-Za-z_]\w*")
#: Prefixes in the names of PyTorch's operations.
_PYTORCH_OPERATION = re.compile(r"(aten|prim|prims|quantized|torchvision|higher_order)::")


def parse_module_path(name: str, convention: Convention | None = None) -> ModulePath | None:
    """Return the module path in the name of a layer.

    Args:
        name: The name of the layer.
        convention: The convention that names follow; None to recognize it from this name alone.

    Returns:
        The path, outermost module first; None if the name does not contain one.
    """
    convention = convention or _recognize(name)
    if convention == "pytorch":
        return _parse_pytorch(name)
    if convention == "onnx":
        return _parse_onnx(name) if name.startswith("/") else None
    if convention == "path":
        head, separator, _ = _SUFFIX.sub("", name).rpartition("/")
        return _split(head, "/") if separator else None
    if convention == "dots":
        return _split(name.rpartition(".")[0], ".") if _DOTS.fullmatch(name) else None
    return None


def find_modules(model: Model | Graph) -> dict[int, ModulePath]:
    """Find the module path of every layer, bodies included.

    A layer without a path in its name gets the path of its constants if they share one, otherwise the common path of
    its consumers, otherwise the common path of its producers. In bodies, the last
    resort is the path of the layer that owns the body.

    Args:
        model: A model, or its graph.

    Returns:
        The paths by `id` of the layer object.
    """
    graph = model.graph if isinstance(model, Model) else model
    conventions = Counter(c for _, layer in graph.walk() if (c := _recognize(layer.name)) is not None)
    ranks: dict[Convention, int] = {"pytorch": 2, "onnx": 1, "path": 0, "dots": 0}
    convention = max(conventions, key=lambda found: (ranks[found], conventions[found]), default=None)
    paths: dict[int, ModulePath] = {}
    _find_in_graph(graph, convention, (), paths)
    return paths


def find_common_path(paths: Iterable[ModulePath]) -> ModulePath:
    """Return the innermost module that contains all given modules.

    Args:
        paths: The module paths; at least one.
    """
    paths = list(paths)
    first = min(paths)
    ends = first, max(paths)
    length = next((i for i, names in enumerate(zip(*ends, strict=False)) if len(set(names)) > 1), min(map(len, ends)))
    return first[:length]


def choose_depth(paths: Iterable[ModulePath], max_groups: int) -> int:
    """Return the largest depth (at least 1) at which modules form at most a number of groups.

    Args:
        paths: The module paths.
        max_groups: Maximum number of groups.
    """
    distinct = set(paths)
    deepest = max((len(path) for path in distinct), default=1)
    for depth in range(deepest, 1, -1):
        if len({path[:depth] for path in distinct}) <= max_groups:
            return depth
    return 1


def format_module(path: Sequence[str]) -> str:
    """Return a module path as text: "encoder.layer.0", and "(network)" for the empty path.

    Args:
        path: The module path.
    """
    return ".".join(path) or "(network)"


def _recognize(name: str) -> Convention | None:
    if name == "__module" or name.startswith(("__module.", "__module/")) or _PYTORCH_OPERATION.match(name):
        return "pytorch"
    if name.startswith("/") and name.count("/") > 1:
        return "onnx"
    if "/" in _SUFFIX.sub("", name).strip("/"):
        return "path"
    return "dots" if _DOTS.fullmatch(name) else None


def _parse_pytorch(name: str) -> ModulePath | None:
    if _PYTORCH_OPERATION.match(name):
        return ()
    head = name.partition("/")[0]
    root, _, path = head.partition(".")
    if root == "__module":
        return _split(path, ".")
    return _split(path.rpartition(".")[0], ".") if root == "self" and path else None


def _parse_onnx(name: str) -> ModulePath:
    """Return the path of a name where children of a Sequential repeat its name: "/layer/layer.0/Relu"."""
    parts = name.split("/")[1:-1]
    kept = [a for a, b in zip(parts, [*parts[1:], ""], strict=False) if not b.startswith(f"{a}.")]
    return _split("/".join(kept), "/.")


def _split(text: str, separators: str) -> ModulePath:
    return tuple(part for part in re.split(f"[{re.escape(separators)}]", text) if part)


def _find_in_graph(
    graph: Graph, convention: Convention | None, default: ModulePath, paths: dict[int, ModulePath]
) -> None:
    """Add the paths of the layers of a graph and of the bodies in it.

    Args:
        graph: The graph.
        convention: The convention of the names of the model.
        default: The path of layers without a neighbor that has a path.
        paths: The paths by `id` of the layer object.
    """
    known = {n.id: p for n in graph.layers if convention and (p := parse_module_path(n.name, convention)) is not None}
    producers: dict[int, list[int]] = {}
    consumers: dict[int, list[int]] = {}
    for edge in graph.edges:
        producers.setdefault(edge.to_layer, []).append(edge.from_layer)
        consumers.setdefault(edge.from_layer, []).append(edge.to_layer)
    order = sort_layers(graph)
    constants = {layer.id for layer in order if layer.is_constant}
    for layer in order:  # weights, and the layers that decompress them
        if layer.id not in known and not layer.bodies:
            sources = producers.get(layer.id, [])
            weights = {known[i] for i in sources if i in constants and i in known}
            if len(weights) == 1:
                known[layer.id] = weights.pop()
            if sources and constants.issuperset(sources):
                constants.add(layer.id)
    _take_from_neighbors(reversed(order), consumers, known)
    _take_from_neighbors(order, producers, known)
    _take_from_neighbors(reversed(order), consumers, known)  # constants of the layers before
    for layer in graph.layers:
        path = paths[id(layer)] = known.get(layer.id, default)
        for body in layer.bodies.values():
            _find_in_graph(body.graph, convention, path, paths)


def _take_from_neighbors(order: Iterable[Layer], neighbors: dict[int, list[int]], known: dict[int, ModulePath]) -> None:
    """Give layers without a path the common path of their neighbors, in the order of the layers."""
    for layer in order:
        if layer.id not in known:
            candidates = [known[i] for i in neighbors.get(layer.id, ()) if i in known]
            if candidates:
                known[layer.id] = find_common_path(candidates)
