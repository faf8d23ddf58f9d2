"""Keys: unambiguous names for the layers and values of a run, in bodies and iterations too.

The key of a layer is its name. If the name is missing, or another layer or value has the same name, the key is
`name#id`. In bodies, the layer that owns the body and the iteration precede the key: `loop[3]/layer`. The key
of a value is the key of its layer, followed by the position of the output port if there are several: `layer.1`.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Iterator

from irrun.arguments import check_instance, check_text, check_texts
from irrun.errors import InputError
from irrun.ir.graph import Graph, Layer
from irrun.ir.model import Model
from irrun.runtime.observer import Scope

__all__ = ["KeyTable", "Selection", "compile_glob", "find_constant_layers", "find_similar"]

_ITERATION = re.compile(r"\[\d+\]/")


class KeyTable:
    """The keys of all layers of a model.

    Args:
        model: The model, or its graph.
    """

    def __init__(self, model: Model | Graph) -> None:
        check_instance("model", model, (Model, Graph), "a Model or a Graph")
        self.graph = model.graph if isinstance(model, Model) else model
        self._local_keys: dict[int, str] = {}
        self._layers: dict[str, Layer] = {}
        self._owners: dict[int, Layer | None] = {}
        self._graphs: dict[int, Graph] = {}
        self._add_graph(self.graph, None, "", set())

    def get_key(self, layer: Layer, scope: Scope = ()) -> str:
        """Return the key of a layer.

        Args:
            layer: A layer of the model.
            scope: The layers whose bodies contain it, outermost first, each with its iteration.
        """
        prefix = "".join(f"{self._local_keys[id(owner)]}[{iteration}]/" for owner, iteration in scope)
        return prefix + self._local_keys[id(layer)]

    def get_value_key(self, layer: Layer, port: int, scope: Scope = ()) -> str:
        """Return the key of an output of a layer.

        Args:
            layer: A layer of the model.
            port: The position of the output port.
            scope: The layers whose bodies contain the layer, outermost first, each with its iteration.
        """
        return self.get_key(layer, scope) + get_port_suffix(layer, port)

    def get_path(self, layer: Layer) -> str:
        """Return the key of a layer with iteration 0 of every body that contains it."""
        owner = self._owners[id(layer)]
        prefix = "" if owner is None else f"{self.get_path(owner)}[0]/"
        return prefix + self._local_keys[id(layer)]

    def get_graph(self, layer: Layer) -> Graph:
        """Return the graph that contains a layer: the model's, or a body's."""
        return self._graphs[id(layer)]

    def get_owner(self, layer: Layer) -> Layer | None:
        """Return the layer whose body contains a layer; None for a layer of the model's own graph."""
        return self._owners[id(layer)]

    def find_layer(self, key: str) -> Layer:
        """Return the layer of a key. The numbers of iterations do not matter.

        Args:
            key: The key of a layer or of one of its values.

        Raises:
            InputError: No layer has this key. The message lists similar keys.
        """
        path = _ITERATION.sub("[0]/", check_text("the key of a layer", key))
        for candidate in (key, path, path.rpartition(".")[0]):
            layer = self._layers.get(candidate)
            if layer is not None:
                return layer
        raise InputError(f"unknown layer {key!r}{_suggest(key, self._layers)}")

    def get_paths(self) -> list[str]:
        """Return the keys of all layers in the order of the file, with iteration 0 of every body."""
        return list(self._layers)

    def iterate_layers(self) -> Iterator[tuple[str, Layer]]:
        """Iterate over all layers in the order of the file.

        Yields:
            The key, with iteration 0 of every body, and the layer.
        """
        yield from self._layers.items()

    def _add_graph(self, graph: Graph, owner: Layer | None, prefix: str, taken: set[str], tag: str = "") -> None:
        owners = tuple(f"{layer.name}[" for layer in graph.layers if layer.bodies)
        for layer in graph.layers:
            local = self._choose_key(layer, taken, owners, tag)
            taken.update((local, *(f"{local}.{i}" for i in range(len(layer.outputs)))))
            self._local_keys[id(layer)] = local
            self._layers[prefix + local] = layer
            self._owners[id(layer)] = owner
            self._graphs[id(layer)] = graph
        for layer in graph.layers:
            names: set[str] = set()
            for body_tag, body in layer.bodies.items():
                inner = f"{prefix}{self._local_keys[id(layer)]}[0]/"
                self._add_graph(body.graph, layer, inner, names, body_tag if len(layer.bodies) > 1 else "")

    @staticmethod
    def _choose_key(layer: Layer, taken: set[str], owners: tuple[str, ...], tag: str) -> str:
        """Return a key that is not in `taken` and does not look like the key of a layer in a body."""

        def is_free(candidate: str) -> bool:
            values = (candidate, *(f"{candidate}.{i}" for i in range(len(layer.outputs))))
            looks_nested = candidate.startswith(owners) and _ITERATION.search(candidate) is not None
            return bool(candidate) and not looks_nested and taken.isdisjoint(values)

        candidates = [layer.name, f"{layer.name}#{layer.id}"]
        if tag:
            candidates += [f"{tag}:{layer.name}", f"{tag}:{layer.name}#{layer.id}"]
        for candidate in candidates:
            if is_free(candidate):
                return candidate
        number = 2
        base = f"{tag or 'layer'}:{layer.id}"
        while not is_free(f"{base}#{number}"):
            number += 1
        return f"{base}#{number}"


def get_port_suffix(layer: Layer, port: int) -> str:
    """Return the suffix of an output of a layer: `.1`, or nothing if there is only one output."""
    return f".{port}" if len(layer.outputs) > 1 else ""


def compile_glob(pattern: str) -> re.Pattern[str]:
    """Return a regular expression for a glob. Only `*` and `?` are wildcards; brackets belong to iterations.

    Args:
        pattern: The glob.
    """
    text = "".join({"*": ".*", "?": "."}.get(c, re.escape(c)) for c in pattern)
    return re.compile(text, re.DOTALL)


class Selection:
    """A choice of layers by globs, types and modules. An empty selection contains all layers.

    Args:
        layers: Globs for keys of layers, for keys of values, or for tensor names.
        types: Types of layers, as globs. Case does not matter.
        modules: Prefixes of keys that end at the end of a part: "encoder.layer.0" contains
            "encoder.layer.0/matmul" but not "encoder.layer.01". `__module.` at the start of a key may be omitted.
    """

    def __init__(self, layers: Iterable[str] = (), types: Iterable[str] = (), modules: Iterable[str] = ()) -> None:
        self.layers = tuple(check_texts("layers", layers))
        self.types = tuple(check_texts("types", types))
        self.modules = tuple(check_texts("modules", modules))
        self._globs = [compile_glob(pattern) for pattern in self.layers]
        self._types = [compile_glob(pattern.lower()) for pattern in self.types]

    def __bool__(self) -> bool:
        return bool(self.layers or self.types or self.modules)

    def contains(self, layer: Layer, key: str) -> bool:
        """Return whether the selection contains an output of a layer.

        Args:
            layer: The layer.
            key: Its key, or the key of one of its values.
        """
        return bool(self.select_ports(layer, key))

    def select_ports(self, layer: Layer, key: str) -> tuple[int, ...]:
        """Return the positions of the outputs of a layer that the selection contains.

        Args:
            layer: The layer.
            key: Its key.
        """
        ports = tuple(range(max(len(layer.outputs), 1)))
        if self._types and not any(glob.fullmatch(layer.type.lower()) for glob in self._types):
            return ()
        if self.modules and not any(_is_in_module(key, module) for module in self.modules):
            return ()
        if not self._globs or any(glob.fullmatch(key) for glob in self._globs):
            return ports
        return tuple(i for i in ports if self._matches_port(layer, key, i))

    def check(self, table: KeyTable) -> None:
        """Check that every part of the selection contains a layer.

        Args:
            table: The keys of the model.

        Raises:
            InputError: A part contains no layer. The message lists similar names.
        """
        for glob in self.layers:
            first = Selection([_ITERATION.sub("[0]/", glob)])
            if not any(first.contains(layer, path) for path, layer in table.iterate_layers()):
                raise InputError(f"no layer matches {glob!r}{_suggest(glob, table.get_paths())}")
        for glob in self.types:
            if not any(Selection(types=[glob]).contains(layer, path) for path, layer in table.iterate_layers()):
                types = sorted({layer.type for _, layer in table.iterate_layers()})
                raise InputError(f"no layer is of type {glob!r}; the model has {', '.join(types)}")
        for module in self.modules:
            if not any(_is_in_module(path, module) for path in table.get_paths()):
                raise InputError(f"no layer is in the module {module!r}{_suggest(module, table.get_paths())}")

    def _matches_port(self, layer: Layer, key: str, port: int) -> bool:
        names = [f"{key}.{port}"]
        if port < len(layer.outputs):
            names += layer.outputs[port].names
        return any(glob.fullmatch(name) for glob in self._globs for name in names)


def find_constant_layers(graph: Graph) -> set[int]:
    """Return the ids of the layers in a graph that depend only on constants.

    Args:
        graph: The graph of a model or of a body.
    """
    from irrun.ir.structure import sort_layers
    from irrun.ops._support import registry
    from irrun.ops._support.context import OutputCount

    sources: dict[int, list[int]] = {}
    for edge in graph.edges:
        sources.setdefault(edge.to_layer, []).append(edge.from_layer)
    constant: set[int] = set()
    for layer in sort_layers(graph):
        if layer.is_constant:
            constant.add(layer.id)
        elif not (layer.is_input or layer.is_output) and not layer.bodies:
            operation = registry.find(layer.type, layer.version)
            inputs = sources.get(layer.id, [])
            is_foldable = (
                operation is not None
                and operation.folding != "never"
                and all(kind is OutputCount for kind in operation.provided.values())
            )
            if is_foldable and inputs and constant.issuperset(inputs):
                constant.add(layer.id)
    return constant


def _is_in_module(key: str, module: str) -> bool:
    for prefix in (module, f"__module.{module}"):
        if key.startswith(prefix) and (len(key) == len(prefix) or prefix[-1:] in "./:" or key[len(prefix)] in "./:[#"):
            return True
    return False


def find_similar(name: str, paths: Iterable[str]) -> list[str]:
    """Return at most three keys that are similar to a name.

    Args:
        name: A name or a glob.
        paths: The keys of layers. Layers in bodies are also found by their last part, and without iterations.
    """
    known = list(paths)
    inner = {path.rpartition("]/")[2]: path for path in reversed(known) if "]/" in path}
    without_iterations = {_ITERATION.sub("/", path): path for path in inner.values()}
    if name in inner or name in without_iterations:
        return [inner.get(name) or without_iterations[name]]
    similar = difflib.get_close_matches(name, known, 3)
    return similar or [inner[local] for local in difflib.get_close_matches(name.strip("*?"), inner, 3)]


def _suggest(name: str, names: Iterable[str]) -> str:
    similar = find_similar(name, names)
    return f"; did you mean {', '.join(similar)}?" if similar else ""
