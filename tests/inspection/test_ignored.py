"""Elements of values on which no output depends: they are no errors, and hide none."""

from __future__ import annotations

import numpy as np
import pytest

from inspection import bodies
from inspection.graphs import Row, make_model
from irrun.inspection import compare, record

FAR = float(np.finfo(np.float32).min)


@pytest.fixture
def x():
    return np.random.default_rng(1).standard_normal((3, 5, 6)).astype(np.float32)


def record_arrays(model, x, folder):
    trace = record(model, [x], folder / "run.trace")
    return {key: np.array(trace[key]) for key in trace}


@pytest.mark.parametrize("garbage", [7.5, np.nan, 1e30])
def test_undefined_steps_are_no_errors(x, garbage, tmp_path):
    model = bodies.make_padded()
    arrays = record_arrays(model, x, tmp_path)
    ends = np.arange(5) >= np.array([[5], [2], [3]])
    for key, value in arrays.items():
        if value.shape == (3, 1, 5, 4):
            value[ends[:, None]] = garbage
        elif value.shape == (3, 5, 4) and key == "steps":
            value[ends] = garbage
        elif value.shape == (3, 5, 4) and key == "active":
            value[ends] = 1 / (1 + np.exp(-garbage)) if garbage < 100 else 1.0
    if np.isnan(garbage):
        arrays["active"][ends] = np.nan
        arrays = {k: v for k, v in arrays.items() if k in ("scaled", "lstm.0", "lstm.1", "lstm.2", "steps", "active")}
    result = compare(model, arrays, x)
    assert result.causes == []
    assert {layer.verdict for layer in result.layers} <= {"exact"}
    assert result.agrees


def test_defined_steps_are_compared(x, tmp_path):
    model = bodies.make_padded()
    arrays = record_arrays(model, x, tmp_path)
    arrays["lstm.0"][1, 0, 1] += 0.1
    result = compare(model, arrays, x)
    assert "lstm" in [layer.key for layer in result.causes]
    assert not result.agrees


@pytest.mark.parametrize(("name", "change"), [("first/masked", 1.6), ("first/masked", 0.1), ("second/masked", 0.01)])
def test_masks_hide_no_errors(name, change):
    model = bodies.make_masked()
    x = bodies.MODELS["masked"][1](np.random.default_rng(0))

    def add(layer, inputs, outputs, seconds, scope):
        if layer.name == name:
            value = np.array(outputs[0])
            value[0, :, 0] += np.float32(change)
            return [value]
        return None

    result = compare(model, "f64", x, observers=[add])
    assert [layer.key for layer in result.causes] == [name]
    assert result.causes[0].reason.startswith("the kernel differs from the same operation in f64")
    assert result.causes[0].own.max_abs == pytest.approx(change, rel=1e-3)
    assert result.causes[0].own.sqnr_db < 70


def make_sums(mask):
    """Return a softmax of scores to which a bias and a mask are added."""
    return make_model(
        Row("x", "Parameter", shapes=[[1, 4, 6]]),
        Row("mask", "Constant", value=np.array([0, mask, 0, mask, mask, mask], np.float32)),
        Row("biased", "Add", ["x", "mask"], shapes=[[1, 4, 6]]),
        Row("least", "Constant", value=np.float32(FAR)),
        Row("limited", "Maximum", ["biased", "least"], shapes=[[1, 4, 6]]),
        Row("weights", "SoftMax", ["limited"], {"axis": "2"}, shapes=[[1, 4, 6]]),
        Row("y", "Result", ["weights"]),
    )


@pytest.mark.parametrize("mask", [-np.inf, FAR, -1e4])
def test_other_masks_are_no_errors(mask, tmp_path):
    model = make_sums(mask)
    x = np.random.default_rng(2).standard_normal((1, 4, 6)).astype(np.float32)
    arrays = record_arrays(model, x, tmp_path)
    for key in ("biased", "limited"):
        arrays[key][..., 1] = -3e4
    assert compare(model, arrays, x).agrees
    assert {layer.verdict for layer in compare(model, arrays, x).layers} == {"exact"}
    arrays["limited"][..., 1] = 0.5  # which the mask excludes on one side only
    assert "limited" in [layer.key for layer in compare(model, arrays, x).causes]


def test_values_that_also_go_elsewhere_are_compared(tmp_path):
    rows = [
        Row("x", "Parameter", shapes=[[1, 4]]),
        Row("mask", "Constant", value=np.array([0, -1e4, 0, 0], np.float32)),
        Row("masked", "Add", ["x", "mask"], shapes=[[1, 4]]),
        Row("weights", "SoftMax", ["masked"], {"axis": "1"}, shapes=[[1, 4]]),
        Row("y", "Result", ["weights"]),
        Row("scores", "Result", ["masked"]),
    ]
    model, x = make_model(*rows), np.ones((1, 4), np.float32)
    arrays = record_arrays(model, x, tmp_path)
    arrays["masked"][0, 1] = -2e4
    result = compare(model, arrays, x)
    assert [layer.key for layer in result.causes] == ["masked"]
