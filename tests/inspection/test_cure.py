"""The layers of a quantized model to keep in floating point."""

from __future__ import annotations

import numpy as np
import pytest

import irrun
from inspection import networks, planted
from irrun.inspection import find_cure
from irrun.ir.constant import Constant
from irrun.ir.graph import Edge, Layer, Port
from irrun.ir.model import Model

F32 = irrun.ElementType.parse("f32")


@pytest.fixture(scope="module")
def exact(tmp_path_factory):
    pytest.importorskip("openvino")
    return irrun.read_model(networks.save(networks.make_resnet((1, 1)), tmp_path_factory.mktemp("net"), "resnet"))


def quantize(model: Model, inputs, names=None, coarse=()) -> Model:
    """Return a model with a FakeQuantize before the input of each convolution, coarser for some of them."""
    ranges = {}

    def observe(layer, arguments, outputs, seconds, scope):
        ranges[layer.name] = [float(arguments[0].min()), float(arguments[0].max())]

    irrun.compile_model(model, optimize=False)(inputs, observers=[observe])
    result = planted.copy_model(model)
    graph = result.graph
    next_id = max(n.id for n in graph.layers) + 1
    for layer in [n for n in graph.layers if n.type == "Convolution"]:
        if names is not None and layer.name not in names:
            continue
        ids = []
        for value in ranges[layer.name] * 2:
            constant = Constant.from_array(np.array(value, np.float32), F32)
            graph.layers.append(
                Layer(next_id, f"{layer.name}/bound{len(ids)}", "Constant", outputs=[Port(0)], constant=constant)
            )
            ids.append(next_id)
            next_id += 1
        levels = "4" if layer.name in coarse else "256"
        quantizer = Layer(
            next_id,
            f"{layer.name}/fq_input_0",
            "FakeQuantize",
            attributes={"levels": levels},
            inputs=[Port(i) for i in range(5)],
            outputs=[Port(5)],
        )
        graph.layers.append(quantizer)
        edge = next(e for e in graph.edges if e.to_layer == layer.id and e.to_port == layer.inputs[0].id)
        graph.edges.remove(edge)
        graph.edges.append(Edge(edge.from_layer, edge.from_port, next_id, 0))
        graph.edges.append(Edge(next_id, 5, edge.to_layer, edge.to_port))
        graph.edges += [Edge(ids[i], 0, next_id, i + 1) for i in range(4)]
        next_id += 1
    return result


def measure(model, other, inputs):
    a, b = (irrun.compile_model(m)(inputs)[0].astype(np.float64) for m in (model, other))
    return 10 * np.log10(np.sum(a**2) / np.sum((a - b) ** 2))


def test_worst_layers_are_found_and_the_prediction_holds(exact):
    x = np.random.default_rng(0).standard_normal((1, 3, 32, 32), np.float32)
    names = [n.name for n in exact.graph.layers if n.type == "Convolution"]
    coarse = (names[2], names[5])
    quantized = quantize(exact, x, coarse=coarse)
    cure = find_cure(exact, quantized, [x], 2)
    assert {step.layer for step in cure.steps} == set(coarse)
    assert cure.initial_db == pytest.approx(measure(exact, quantized, x), abs=1e-3)
    for count in (1, 2):
        kept = [step.layer for step in cure.steps[:count]]
        again = quantize(exact, x, [n for n in names if n not in kept], coarse)
        assert cure.steps[count - 1].sqnr_db == pytest.approx(measure(exact, again, x), abs=1e-3)
    assert find_cure(quantized, exact, [x], 1).steps == cure.steps[:1]
    assert set(cure.single_db) == set(names)
    assert set(find_cure(exact, quantize(exact, x, names[1:3]), [x], 1).single_db) == set(names[1:3])
    assert set(cure.to_json()) == {"initial_db", "layers", "single_db"}


def test_models_that_are_not_quantized_are_refused(exact):
    with pytest.raises(irrun.InputError, match="expected a quantized model"):
        find_cure(exact, exact, [np.zeros((1, 3, 32, 32), np.float32)], 1)
    with pytest.raises(irrun.InputError, match="a cure requires two models, found 'f64'"):
        find_cure(exact, "f64", [], 1)
