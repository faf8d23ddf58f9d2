"""Models whose reports are tested in a browser."""

from __future__ import annotations

import runpy
import sys
from pathlib import Path
from typing import Any

import numpy as np
from ir_text import layer, net, port, write

from irrun.inspection.report import make_report

__all__ = [
    "EXAMPLE",
    "HOSTILE",
    "write_branch_report",
    "write_broken_report",
    "write_deep_report",
    "write_hostile_report",
    "write_large_report",
]

EXAMPLE = Path(__file__).parents[2] / "examples" / "date_translation"
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
    return _write_report(folder / "deep.html", path, image, against="f64")


def write_broken_report(folder: Path) -> Path:
    """Write the report of the example with a wrong weight in its loop, compared with the example."""
    sys.argv = ["plant_bug.py", str(folder / "broken.xml")]
    runpy.run_path(str(EXAMPLE / "plant_bug.py"), run_name="__main__")
    text = np.load(EXAMPLE / "input.npy")
    return _write_report(folder / "broken.html", folder / "broken.xml", text, against=EXAMPLE / "model.xml")


def write_branch_report(folder: Path) -> Path:
    """Write the report of an If whose executed branch contains a Loop of 5 iterations. This requires OpenVINO."""
    import openvino as ov
    from openvino import opset13 as ops

    names = ("condition", "x", "then_input", "else_input", "state")
    condition, x, then_input, else_input, state = (
        ops.parameter([] if name == "condition" else [2, 8], np.bool_ if name == "condition" else np.float32, name=name)
        for name in names
    )
    step = ops.tanh(ops.add(state, ops.constant(np.float32(0.5))), name="step")
    body = ov.Model([ops.result(ops.constant(True)), ops.result(step)], [state], "body")
    loop = ops.loop(ops.constant(np.int64(5)), ops.constant(True))
    loop.set_function(body)
    loop.set_special_body_ports([-1, 0])
    loop.set_merged_input(state, then_input.output(0), body.results[1].output(0))
    loop.set_friendly_name("repeat")
    last = loop.get_iter_value(body.results[1].output(0))
    then_body = ov.Model([ops.result(ops.relu(last, name="then_relu"))], [then_input], "then_body")
    else_body = ov.Model([ops.result(ops.sigmoid(else_input, name="else_sigmoid"))], [else_input], "else_body")
    branch = ops.if_op(condition)
    branch.set_then_body(then_body)
    branch.set_else_body(else_body)
    branch.set_input(x.output(0), then_input, else_input)
    output = branch.set_output(then_body.results[0], else_body.results[0])
    branch.set_friendly_name("branch")
    path = folder / "branch.xml"
    ov.save_model(ov.Model([ops.result(output)], [condition, x], "branch"), path, compress_to_fp16=False)
    return _write_report(folder / "branch.html", path, np.array(True), np.zeros((2, 8), np.float32))


def _get_output(text: str) -> int:
    """Return the id of the only output port of a layer."""
    return 0 if 'type="Parameter"' in text else 2


def _write_report(path: Path, model: Path, *inputs: np.ndarray, **options: Any) -> Path:
    path.write_text(make_report(model, list(inputs), **options), encoding="utf-8")
    return path
