"""The hash that identifies a model in traces."""

from __future__ import annotations

import hashlib

from irrun.activity import announce
from irrun.ir.model import Model

__all__ = ["hash_model"]


def hash_model(model: Model) -> str:
    """Return a hash of the layers, edges and weights of a model.

    Args:
        model: The model.
    """
    with announce("hashing the weights"):
        return _hash_model(model)


def _hash_model(model: Model) -> str:
    digest = hashlib.sha256()
    for graph, layer in model.graph.walk():
        text = [
            layer.id,
            layer.name,
            layer.type,
            layer.version,
            sorted((k, str(v)) for k, v in layer.attributes.items()),
        ]
        digest.update(repr(text).encode("utf-8", "surrogatepass"))
        if layer is graph.layers[0]:
            digest.update(repr([tuple(edge) for edge in graph.edges]).encode())
        if layer.constant is not None and layer.constant.data is not None:
            digest.update(layer.constant.data)
    return f"sha256:{digest.hexdigest()}"
