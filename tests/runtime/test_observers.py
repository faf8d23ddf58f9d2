"""Observers see every instruction, in bodies too, and what they raise reaches the caller."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from ir_text import chain, write

import irrun

EXAMPLE = Path(__file__).parents[2] / "examples/date_translation"
X = np.ones((2, 3), np.float32)


def test_each_instruction_is_seen_with_its_values(tmp_path):
    seen = []

    def watch(layer, inputs, outputs, seconds, scope):
        seen.append((layer.name, inputs[0].sum(), outputs[0].sum(), scope))
        assert seconds >= 0

    compiled = irrun.compile_model(write(tmp_path, chain("Negative", "Relu")))
    compiled(X, observers=[watch])
    assert seen == [("layer1", 6, -6, ()), ("layer2", -6, 0, ())]
    compiled(X)
    assert len(seen) == 2


def test_bodies_are_seen_with_their_iteration():
    iterations = []

    def watch(layer, inputs, outputs, seconds, scope):
        if layer.type == "LSTMCell":
            ((owner, iteration),) = scope
            assert owner.type == "TensorIterator"
            iterations.append(iteration)

    irrun.compile_model(EXAMPLE / "model.xml")(np.load(EXAMPLE / "input.npy"), observers=[watch])
    assert iterations == list(range(11))


@pytest.mark.parametrize("kind", ["Relu", "LSTMCell"])
def test_what_an_observer_raises_reaches_the_caller(tmp_path, kind):
    class Enough(Exception):
        pass

    def watch(layer, inputs, outputs, seconds, scope):
        if layer.type == kind:
            raise Enough

    in_body = kind == "LSTMCell"
    path = EXAMPLE / "model.xml" if in_body else write(tmp_path, chain("Relu"))
    with pytest.raises(Enough):
        irrun.compile_model(path)(np.load(EXAMPLE / "input.npy") if in_body else X, observers=[watch])
