"""Building of small IR files as text."""

from __future__ import annotations

from pathlib import Path

import numpy as np

import irrun
from irrun.element_types import ElementType

__all__ = ["chain", "dims", "layer", "net", "port", "run_layer", "write", "write_row_loop"]


def dims(shape) -> str:
    return "".join(f"<dim>{d}</dim>" for d in shape)


def port(id: int, shape=(), precision: str = "", names: str = "") -> str:
    attributes = (f' precision="{precision}"' if precision else "") + (f' names="{names}"' if names else "")
    return f'<port id="{id}"{attributes}>{dims(shape)}</port>'


def layer(id, type, version="opset1", data="", inputs=(), outputs=(), name=None, inner="") -> str:
    """Return a layer element with ports and attributes as text."""
    name_attribute = f' name="{name if name is not None else f"layer{id}"}"' if name != "" else ""
    version = f' version="{version}"' if version else ""
    text = f'<layer id="{id}"{name_attribute} type="{type}"{version}>'
    if data:
        text += f"<data {data}/>"
    if inputs:
        text += "<input>" + "".join(inputs) + "</input>"
    if outputs:
        text += "<output>" + "".join(outputs) + "</output>"
    return text + inner + "</layer>"


def graph(layers, edges) -> str:
    """Return the `layers` and `edges` elements; an edge is (from layer, from port, to layer, to port)."""
    edge = '<edge from-layer="{}" from-port="{}" to-layer="{}" to-port="{}"/>\n'
    return "<layers>" + "\n".join(layers) + "</layers>\n<edges>" + "".join(edge.format(*e) for e in edges) + "</edges>"


def net(layers, edges, version="11", name="net", extra="") -> str:
    return f'<?xml version="1.0"?>\n<net name="{name}" version="{version}">\n{graph(layers, edges)}{extra}</net>'


def chain(*types: str, shape=(2, 3), versions=(), data=()) -> str:
    """Return a net that applies unary layers of some types one after another."""
    parameter = f'shape="{",".join(map(str, shape))}" element_type="f32"'
    layers = [layer(0, "Parameter", data=parameter, outputs=[port(0, shape, "FP32", "x")], name="x")]
    edges = []
    for i, type in enumerate(types, 1):
        version = versions[i - 1] if versions else "opset1"
        attributes = data[i - 1] if data else ""
        layers.append(layer(i, type, version, attributes, [port(0, shape)], [port(1, shape, "FP32")]))
        edges.append((i - 1, 0 if i == 1 else 1, i, 0))
    end = len(types) + 1
    layers.append(layer(end, "Result", inputs=[port(0, shape)], name="result"))
    edges.append((end - 1, 1 if types else 0, end, 0))
    return net(layers, edges)


def write(folder: Path, text: str, weights: bytes | np.ndarray | None = b"", name: str = "model") -> Path:
    """Write model.xml, and model.bin unless `weights` is None."""
    path = folder / f"{name}.xml"
    path.write_text(text, encoding="utf-8")
    if weights is not None:
        path.with_suffix(".bin").write_bytes(weights if isinstance(weights, bytes) else weights.tobytes())
    return path


def run_layer(folder: Path, type: str, version: str, data: str, *inputs: np.ndarray, outputs: int = 1):
    """Run a layer that is read from a file, and return its outputs."""
    ports = range(len(inputs), len(inputs) + outputs)
    layers, edges = [], []
    for i, x in enumerate(inputs):
        parameter = f'shape="{",".join(map(str, x.shape))}" element_type="{ElementType.of(x.dtype)}"'
        layers.append(layer(i, "Parameter", data=parameter, outputs=[port(0, x.shape)]))
        edges.append((i, 0, len(inputs), i))
    layers.append(
        layer(len(inputs), type, version, data, [port(i) for i in range(len(inputs))], [port(p) for p in ports])
    )
    for p in ports:
        layers.append(layer(p + 1, "Result", inputs=[port(0)]))
        edges.append((len(inputs), p, p + 1, 0))
    results = irrun.compile_model(write(folder, net(layers, edges)))(list(inputs))
    return [np.array(results[i]) for i in range(outputs)]


def write_row_loop(folder: Path) -> Path:
    """Write a model with a TensorIterator "it" that computes layer1, the Relu of each row of x, f32[2,3]."""
    body = chain("Relu", shape=(1, 3)).partition("<net")[2].partition(">")[2].removesuffix("</net>")
    inner = (
        '<port_map><input axis="0" external_port_id="0" internal_layer_id="0"/>'
        f'<output axis="0" external_port_id="1" internal_layer_id="2"/></port_map><body>{body}</body>'
    )
    layers = [
        layer(0, "Parameter", data='shape="2,3" element_type="f32"', outputs=[port(0, (2, 3), "FP32")], name="x"),
        layer(1, "TensorIterator", inputs=[port(0, (2, 3))], outputs=[port(1, (2, 3), "FP32")], inner=inner, name="it"),
        layer(2, "Result", inputs=[port(0, (2, 3))]),
    ]
    return write(folder, net(layers, [(0, 0, 1, 0), (1, 1, 2, 0)]), name="loop")
