"""Numbers of operations of whole networks: `pytest -m slow tests/zoo/test_profile.py`."""

from __future__ import annotations

import pytest
import zoo

import irrun
from irrun.inspection.instruments import FlopCounter
from irrun.inspection.keys import KeyTable

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]


def count_flops(name: str) -> dict[str, int]:
    """Return the number of operations of a network by type."""
    if not (zoo.get_cache() / name / "model.xml").exists():
        for package in ("torch", "transformers", "nncf"):
            pytest.importorskip(package, reason=f"{name} is not built, and building it requires {package}")
    compiled = irrun.compile_model(zoo.fetch(name))
    counter = FlopCounter(KeyTable(compiled.model))
    compiled.create_infer_request(counter).infer(zoo.load_inputs(name), observers=[counter])
    total: dict[str, int] = {}
    for layer in counter.layers:
        total[layer.type] = total.get(layer.type, 0) + (counter.flops[id(layer)] or 0)
    return total


def test_resnet_50_has_8_2_giga_operations():
    flops = count_flops("resnet50")
    convolutions = 2 * 112 * 112 * 64 * 3 * 49
    channels, size = 64, 56
    for stage, blocks in enumerate((3, 4, 6, 3)):
        width, area = 64 << stage, (56 >> stage) ** 2
        for block in range(blocks):
            stride_area = size * size if block == 0 else area  # the stride is that of the 3x3 convolution
            convolutions += 2 * stride_area * channels * width  # 1x1
            convolutions += 2 * area * width * width * 9  # 3x3
            convolutions += 2 * area * width * 4 * width  # 1x1
            if block == 0:
                convolutions += 2 * area * channels * 4 * width  # shortcut
            channels, size = 4 * width, 56 >> stage
    assert flops["Convolution"] == convolutions
    assert flops["MatMul"] == 2 * 2048 * 1000
    assert round(sum(flops.values()) / 1e9, 1) == 8.2


def test_bert_base_has_the_operations_of_the_formula():
    layers, size, heads, tokens = 12, 768, 12, 128
    values = tokens * size
    projections = 4 * 2 * tokens * size * size
    attention = 2 * 2 * tokens * tokens * size + 7 * heads * tokens * tokens  # scaling, mask, softmax
    perceptron = 2 * 2 * tokens * size * 4 * size + 5 * 4 * values  # Gelu
    normalization = 7 * values
    # The biases of the products are 0 in a network that was not trained, and the exporter omits them.
    layer_flops = projections + attention + perceptron + 2 * normalization + 2 * values
    embeddings = 2 * values + normalization
    pooler = 2 * size * size + size
    expected = layers * layer_flops + embeddings + pooler
    # Besides, the positions and the mask [tokens, tokens] are computed.
    assert 0 <= sum(count_flops("bert_base").values()) - expected <= 2 * tokens * tokens
