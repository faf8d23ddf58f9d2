"""PyTorch modules and ONNX files as references of the networks that were exported from them.

`pytest -m slow tests/zoo/test_references.py`
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import zoo

import irrun
from irrun.inspection import compare
from irrun.ir.constant import Constant

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]


def fetch(name: str, kind: str) -> Any:
    """Return the path of a network, which must be cached or can be built."""
    if not (zoo.get_cache() / name / f"model.{kind}").exists():
        for package in ("torch", "transformers"):
            pytest.importorskip(package, reason=f"{name} is not built, and building it requires {package}")
    return zoo.fetch(name, kind)


def change_weights(model: irrun.Model, kind: str, number: int) -> str:
    """Double the weights of the n-th layer of a type, and return the module that contains the layer."""
    layers = {layer.id: layer for layer in model.graph.layers}
    candidates = [layer for layer in model.graph.layers if layer.type == kind and layer.name.startswith("__module.")]
    chosen = candidates[number]
    sources = {e.to_port: layers[e.from_layer] for e in model.graph.edges if e.to_layer == chosen.id}
    weights = sources[chosen.inputs[1].id]
    assert weights.constant is not None
    value = np.array(weights.constant.to_array())
    weights.constant = Constant.from_array(value * np.asarray(2, value.dtype), weights.constant.element_type)
    return chosen.name.partition("/")[0]


@pytest.mark.parametrize(("name", "least"), [("small", 8), ("bert_small", 36), ("convnext", 60), ("efficientnet", 100)])
def test_networks_agree_with_their_modules(name, least):
    for package in ("torch", "transformers"):
        pytest.importorskip(package, reason=f"the module of {name} requires {package}")
    module, example = zoo.make_source(name)
    inputs = {key: value.numpy() for key, value in example.items()}
    model = irrun.read_model(fetch(name, "xml"))
    result = compare(model, module.eval(), inputs)
    assert (result.outcome, result.matched >= least) == ("agrees", True)
    if name == "bert_small":
        changed = change_weights(model, "MatMul", 9)
        result = compare(model, module, inputs)
        assert [layer.name.partition("/")[0] for layer in result.causes] == [changed]


@pytest.mark.parametrize(("name", "least"), [("mobilenet_v2", 50), ("mobilenet_v3", 60), ("minilm", 60)])
def test_networks_agree_with_their_onnx_files(name, least):
    pytest.importorskip("onnxruntime")
    path = fetch(name, "onnx")
    model = irrun.read_model(fetch(name, "xml"))
    inputs = zoo.load_inputs(name)
    result = compare(model, path, inputs)
    assert (result.outcome, result.matched >= least) == ("agrees", True)
    if name == "minilm":
        changed = change_weights(model, "MatMul", 9)
        result = compare(model, path, inputs)
        assert [layer.name.partition("/")[0] for layer in result.causes] == [changed]
