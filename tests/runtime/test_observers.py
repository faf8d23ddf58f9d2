"""Observers are called after every instruction, in bodies too; their exceptions reach the caller."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from ir_text import chain, write

import irrun

EXAMPLE = Path(__file__).parents[2] / "examples/date_translation"
X = np.ones((2, 3), np.float32)


def test_observer_is_called_with_the_values_of_each_instruction(tmp_path):
    seen = []

    def observe(layer, inputs, outputs, seconds, scope):
        seen.append((layer.name, inputs[0].sum(), outputs[0].sum(), scope))
        assert seconds >= 0

    compiled = irrun.compile_model(write(tmp_path, chain("Negative", "Relu")))
    compiled(X, observers=[observe])
    assert seen == [("layer1", 6, -6, ()), ("layer2", -6, 0, ())]
    compiled(X)
    assert len(seen) == 2


def test_observer_is_called_in_bodies_with_the_iteration():
    iterations = []

    def observe(layer, inputs, outputs, seconds, scope):
        if layer.type == "LSTMCell":
            ((owner, iteration),) = scope
            assert owner.type == "TensorIterator"
            iterations.append(iteration)

    irrun.compile_model(EXAMPLE / "model.xml")(np.load(EXAMPLE / "input.npy"), observers=[observe])
    assert iterations == list(range(11))


@pytest.mark.parametrize("kind", ["Relu", "LSTMCell"])
def test_exception_of_an_observer_reaches_the_caller(tmp_path, kind):
    class StopRun(Exception):
        pass

    def observe(layer, inputs, outputs, seconds, scope):
        if layer.type == kind:
            raise StopRun

    in_body = kind == "LSTMCell"
    path = EXAMPLE / "model.xml" if in_body else write(tmp_path, chain("Relu"))
    with pytest.raises(StopRun):
        irrun.compile_model(path)(np.load(EXAMPLE / "input.npy") if in_body else X, observers=[observe])


def test_observer_can_replace_outputs(tmp_path):
    def negate(layer, inputs, outputs, seconds, scope):
        return [-outputs[0]] if layer.name == "layer1" else None

    seen = []

    def observe(layer, inputs, outputs, seconds, scope):
        seen.append(outputs[0].sum())

    compiled = irrun.compile_model(write(tmp_path, chain("Negative", "Relu")))
    np.testing.assert_array_equal(compiled(X, observers=[negate, observe])[0], X)
    assert seen == [6, 6]
    np.testing.assert_array_equal(compiled(X)[0], np.zeros_like(X))


@pytest.mark.parametrize(
    ("replacement", "found"), [(np.ones(3), "an array"), ([], "0 arrays"), ([np.ones(3), np.ones(3)], "2 arrays")]
)
def test_wrong_number_of_replaced_outputs_is_reported(tmp_path, replacement, found):
    compiled = irrun.compile_model(write(tmp_path, chain("Relu")))
    with pytest.raises(ValueError, match=f"an observer returned {found}, expected None or a sequence of 1 arrays"):
        compiled(X, observers=[lambda *arguments: replacement])
