"""Limits of outputs, JUnit reports, names of arrays, and ONNX models as references."""

from __future__ import annotations

from xml.etree import ElementTree

import numpy as np
import pytest

import irrun
from inspection.graphs import Row, make_model
from irrun.inspection import compare
from irrun.inspection.acceptance import find_failures, make_junit, parse_limit

X = np.linspace(-2, 2, 12, dtype=np.float32).reshape(3, 4)


def make_chain():
    return make_model(
        Row("x", "Parameter", shapes=[[3, 4]]),
        Row("a", "Tanh", ["x"], shapes=[[3, 4]]),
        Row("b", "Sigmoid", ["a"], shapes=[[3, 4]]),
        Row("c", "Exp", ["b"], shapes=[[3, 4]]),
        Row("y", "Result", ["c"]),
    )


def compute(x):
    return np.exp(1 / (1 + np.exp(-np.tanh(x))))


def test_limits():
    assert parse_limit("scores=30dB") == parse_limit("scores=30")
    assert parse_limit("40 dB").minimum == 40
    with pytest.raises(irrun.InputError, match="expected a limit such as 40dB"):
        parse_limit("low")
    result = compare(make_chain(), {"c": compute(X) * 1.01}, X)
    assert find_failures(result, [parse_limit("30dB")]) == []
    (failure,) = find_failures(result, [parse_limit("30dB"), parse_limit("c=50dB")])
    assert str(failure).startswith("output 'c' has 40")
    with pytest.raises(irrun.InputError, match="the model has no output 'd', expected one of c"):
        find_failures(result, [parse_limit("d=1")])


def test_metric_of_the_user_is_the_score():
    result = compare(make_chain(), {"c": compute(X)}, X, metric=lambda a, b: float(np.abs(a - b).max() < 1e-3))
    assert result.outputs[0].score == 1.0
    assert find_failures(result, [parse_limit("1")]) == []


def test_junit():
    result = compare(make_chain(), {"c": compute(X) * 2}, X)
    suite = ElementTree.fromstring(make_junit(result, "net\0"))
    assert (suite.get("tests"), suite.get("failures")) == ("2", "2")
    assert [case.get("name") for case in suite] == ["output c", "layers"]
    suite = ElementTree.fromstring(make_junit(result, "net", [parse_limit("1dB")]))
    assert suite.get("failures") == "0"


def test_error_is_between_values_that_the_reference_has():
    result = compare(make_chain(), {"a": np.tanh(X), "c": compute(X) * 2}, X)
    assert result.causes[0].since == ("a",)
    assert result.describe().startswith("an error arises between a and c (Exp)")
    assert compare(make_chain(), {"c": compute(X) * 2}, X).causes[0].since == ("x",)


def test_arrays_are_matched_by_position_and_by_given_names():
    result = compare(make_chain(), {"out0": compute(X)}, X)
    assert result.agrees
    assert result.notes == ["no array has a name of the model: outputs are matched by position (out0=c)"]
    for names in ({"out0": "c"}, {"c": "out0"}):
        result = compare(make_chain(), {"out0": compute(X), "other": X}, X, names=names)
        assert result.agrees
        assert result.matched == 1
    with pytest.raises(irrun.InputError, match="has no array 'out1', expected one of out0"):
        compare(make_chain(), {"out0": X}, X, names={"out1": "c"})
    with pytest.raises(irrun.InputError, match="the model has no layer or tensor 'd'"):
        compare(make_chain(), {"out0": X}, X, names={"out0": "d"})
    with pytest.raises(irrun.InputError, match="only if the reference consists of arrays"):
        compare(make_chain(), "f64", X, names={"out0": "c"})


def test_onnx_model_is_a_reference(tmp_path):
    pytest.importorskip("onnxruntime")
    from irrun.export import export_onnx

    path = tmp_path / "model.onnx"
    export_onnx(make_chain(), path)
    result = compare(make_chain(), path, X)
    assert result.agrees
    assert result.matched == 3
    wrong = make_chain()
    wrong.graph.layers[2].type = "Tanh"
    result = compare(wrong, path, sequence=[X, X + 1])
    assert {layer.key for layer in result.causes} == {"b"}
    (tmp_path / "bad.onnx").write_bytes(b"no model")
    with pytest.raises(irrun.InputError, match="cannot read"):
        compare(wrong, tmp_path / "bad.onnx", X)
