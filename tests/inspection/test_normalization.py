"""Normalization of quantized values without epsilon, as int8 kernels compute it, is named as the reason."""

from __future__ import annotations

import numpy as np
import pytest

from inspection.graphs import Row, make_model
from irrun.inspection import compare

SCALE = np.float32(0.01)
SHAPE = (1, 4, 3, 3)
GAIN = np.float32([1, 2, 3, 4])
LAYERS = {
    "GroupNormalization": ("opset12", ["gain", "gain"], {"num_groups": "2", "epsilon": "1e-3"}),
    "MVN": ("opset6", ["axes"], {"normalize_variance": "true", "eps": "1e-3", "eps_mode": "INSIDE_SQRT"}),
}


def make_network(kind, is_quantized=True):
    version, sources, attributes = LAYERS[kind]
    return make_model(
        Row("x", "Parameter", shapes=[SHAPE]),
        Row("low", "Constant", value=np.float32(0)),
        Row("high", "Constant", value=255 * SCALE),
        Row("gain", "Constant", value=GAIN),
        Row("axes", "Constant", value=np.int64([1, 2, 3])),
        Row("fq", "FakeQuantize", ["x", "low", "high", "low", "high"], {"levels": "256"}, shapes=[SHAPE]),
        Row("norm", kind, ["fq" if is_quantized else "x", *sources], attributes, version=version),
        Row("y", "Result", ["norm"]),
    )


def normalize(x, kind, epsilon):
    rows = x.astype(np.float64).reshape(2 if kind == "GroupNormalization" else 1, -1)
    rows = (rows - rows.mean(1, keepdims=True)) / np.sqrt(rows.var(1, keepdims=True) + epsilon)
    values = rows.reshape(x.shape)
    gain = GAIN.reshape(4, 1, 1)
    return (values * gain + gain if kind == "GroupNormalization" else values).astype(np.float32)


@pytest.mark.parametrize("kind", LAYERS)
def test_missing_epsilon_is_the_reason(kind):
    x = (np.random.default_rng(0).integers(0, 256, SHAPE) * SCALE).astype(np.float32)
    name = "epsilon" if kind == "GroupNormalization" else "eps"
    assert compare(make_network(kind), {"fq": x, "norm": normalize(x, kind, 1e-3)}, x).agrees
    result = compare(make_network(kind), {"fq": x, "norm": normalize(x, kind, 1e-3 * SCALE**2)}, x)
    assert result.outcome == "differs"
    assert result.causes[0].key == "norm"
    assert f"adds {name} to the variance of quantized codes" in result.causes[0].reason
    # Other errors and other inputs have other reasons.
    other = compare(make_network(kind), {"fq": x, "norm": normalize(x, kind, 0.1)}, x)
    assert (other.causes[0].key, other.causes[0].reason) == ("norm", "")
    plain = compare(make_network(kind, is_quantized=False), {"norm": normalize(x, kind, 0)}, x)
    assert (plain.causes[0].key, plain.causes[0].reason) == ("norm", "")
