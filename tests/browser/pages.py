"""Models whose reports are tested in a browser."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from ir_text import layer, net, port, write

from irrun.inspection.report import make_report

__all__ = ["HOSTILE", "write_deep_report", "write_hostile_report", "write_large_report"]

#: A text that would run a script if it were part of the page as HTML.
HOSTILE = "</script><img src=x onerror=alert(1)>"


def write_large_report(folder: Path, count: int = 5000) -> Path:
    """Write the report of a network of `count` layers without modules: a chain with shortcuts."""
    shape = (2, 3)
    data = 'shape="2,3" element_type="f32"'
    layers = [layer(0, "Parameter", data=data, outputs=[port(0, shape, "FP32", "x")], name="x")]
    edges = []
    types = ("Relu", "Sigmoid", "Tanh", "Add", "Abs")
    for i in range(1, count - 1):
        type = types[i % len(types)] if i > 12 else "Relu"
        if type == "Add":
            layers.append(layer(i, type, inputs=[port(0, shape), port(1, shape)], outputs=[port(2, shape, "FP32")]))
            edges.append((i - 12, _get_output(layers[i - 12]), i, 1))
        else:
            layers.append(layer(i, type, inputs=[port(0, shape)], outputs=[port(2, shape, "FP32")]))
        edges.append((i - 1, _get_output(layers[i - 1]), i, 0))
    layers.append(layer(count - 1, "Result", inputs=[port(0, shape)], name="result"))
    edges.append((count - 2, 2, count - 1, 0))
    path = write(folder, net(layers, edges), name="large")
    return _write_report(folder / "large.html", path, np.linspace(-1, 1, 6, dtype=np.float32).reshape(shape))


def write_hostile_report(folder: Path) -> Path:
    """Write the report of a network whose names, types of attributes and tensor names are hostile."""
    from xml.sax.saxutils import quoteattr

    def make_layer(id: int, type: str, data: str, inputs: list[str], outputs: list[str]) -> str:
        text = layer(id, type, data=data, inputs=inputs, outputs=outputs, name="@")
        return text.replace('"@"', quoteattr(f"{HOSTILE}/{id}/\u202e{type}"))

    names = quoteattr(HOSTILE)[1:-1]
    layers = [
        make_layer(0, "Parameter", 'shape="2,3" element_type="f32"', [], [port(0, (2, 3), "FP32", names)]),
        make_layer(1, "Relu", f'note="{names}"', [port(0, (2, 3))], [port(1, (2, 3), "FP32", names)]),
        make_layer(2, "Sigmoid", "", [port(0, (2, 3))], [port(1, (2, 3), "FP32")]),
        make_layer(3, "Result", "", [port(0, (2, 3))], []),
    ]
    text = net(layers, [(0, 0, 1, 0), (1, 1, 2, 0), (2, 1, 3, 0)], name="@").replace('"@"', quoteattr(HOSTILE))
    return _write_report(folder / "hostile.html", write(folder, text, name="hostile"), np.ones((2, 3), np.float32))


def write_deep_report(folder: Path) -> Path:
    """Write the report of a network of images with modules, which is compared with f64."""
    names = ["stem/conv", "stem/activation", "head/block/softmax", "head/block/square"]
    shape = (1, 3, 16, 16)
    data = 'shape="1,3,16,16" element_type="f32"'
    layers = [layer(0, "Parameter", data=data, outputs=[port(0, shape, "FP32", "image")], name="image")]
    types = [("Sigmoid", ""), ("Tanh", ""), ("SoftMax", 'axis="3"'), ("Exp", "")]
    for i, (name, (type, attributes)) in enumerate(zip(names, types, strict=True), 1):
        layers.append(layer(i, type, "opset1", attributes, [port(0, shape)], [port(2, shape, "FP32")], name=name))
    layers.append(layer(5, "Result", inputs=[port(0, shape)], name="result"))
    edges = [(i, 2 if i else 0, i + 1, 0) for i in range(5)]
    image = np.random.default_rng(0).standard_normal(shape).astype(np.float32)
    path = write(folder, net(layers, edges), name="deep")
    return _write_report(folder / "deep.html", path, image, reference="f64")


def _get_output(text: str) -> int:
    """Return the id of the only output port of a layer."""
    return 0 if 'type="Parameter"' in text else 2


def _write_report(path: Path, model: Path, *inputs: np.ndarray, **options: str) -> Path:
    path.write_text(make_report(model, list(inputs), **options), encoding="utf-8")
    return path
