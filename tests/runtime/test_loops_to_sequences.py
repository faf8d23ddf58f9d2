"""Which loops are computed for all iterations at once, and which bodies prevent it."""

from __future__ import annotations

import numpy as np
import pytest
from openvino_modules import import_builder

import irrun
from irrun.runtime.lowering import lower
from irrun.runtime.passes.engine import apply_rules
from irrun.runtime.passes.loops_to_sequences import RULES

ov = import_builder()
o = import_builder("openvino.opset13")

F32 = np.float32
RNG = np.random.default_rng(0)
X = RNG.normal(size=(2, 4, 3)).astype(F32)
DEPENDS = "iterations depend on each other through more than recurrent cells"


def constant(*shape):
    return o.constant(RNG.normal(size=shape).astype(F32))


def weigh(gates, size=3):
    """Return weights, recurrent weights and biases of a cell."""
    return constant(gates * size, 3), constant(gates * size, size), constant(gates * size)


def make_loop(build, states=1):
    """Return a TensorIterator over the rows of x, and its inputs.

    Args:
        build: Returns, for a row and the states, the values to concatenate and the next states.
        states: The number of states, of shape [2,3].
    """
    x, *initial = [o.parameter(shape, F32) for shape in [[2, 4, 3], *[[2, 3]] * states]]
    row, *held = [o.parameter(shape, F32) for shape in [[2, 1, 3], *[[2, 3]] * states]]
    collected, following = build(o.squeeze(row, o.constant([1])), *held)
    ends = [o.result(value) for value in (*[o.unsqueeze(value, o.constant([1])) for value in collected], *following)]
    sources = [end.input_value(0) for end in ends]
    body = ov.Model(ends, [row, *held], "body")
    loop = o.tensor_iterator()
    loop.set_body(body)
    loop.set_sliced_input(row, x.output(0), 0, 1, 1, -1, 1)
    for state, start, value in zip(held, initial, sources[len(collected) :], strict=True):
        loop.set_merged_input(state, start.output(0), value)
    outputs = [loop.get_concatenated_slices(value, 0, 1, 1, -1, 1) for value in sources[: len(collected)]]
    return outputs, [x, *initial]


def get_refusal(folder, build, states=1):
    """Apply the rule, and return the number of loops that are left and the reasons."""
    results, parameters = make_loop(build, states)
    ov.serialize(ov.Model([o.result(r) for r in results], parameters, "m"), folder / "m.xml")
    program = lower(irrun.read_model(folder / "m.xml"))
    apply_rules(program, RULES)
    loops = [i for i in program.instructions if i.operation.type == "TensorIterator" and not i.plain]
    return len(loops), [refusal.reason for refusal in program.refusals]


def run_gru(row, state):
    following = o.gru_cell(row, state, *weigh(3), 3)
    return [following], [following]


def run_lstm(row, hidden, cell, exchanges=False):
    following = o.lstm_cell(row, hidden, cell, *weigh(4), 3).outputs()
    return [following[0]], following[::-1] if exchanges else following


CONVERTED = {
    "no state": (lambda row: ([o.relu(row)], []), 0),
    "GRUCell": (run_gru, 1),
    "operations around a cell": (lambda row, s: ([o.tanh(n := o.gru_cell(o.relu(row), s, *weigh(3), 3))], [n]), 1),
    "LSTMCell": (run_lstm, 2),
}


@pytest.mark.parametrize(("build", "states"), CONVERTED.values(), ids=CONVERTED.keys())
def test_iterations_are_computed_at_once(build, states, tmp_path):
    assert get_refusal(tmp_path, build, states) == (0, [])
    inputs = [X, *[RNG.normal(size=(2, 3)).astype(F32) for _ in range(states)]]
    fast, plain = (irrun.compile_model(tmp_path / "m.xml", jit=False, optimize=optimize) for optimize in (True, False))
    np.testing.assert_allclose(fast(inputs)[0], plain(inputs)[0], rtol=1e-5, atol=1e-6)


def use_state(row, state):
    following = o.gru_cell(row, state, *weigh(3), 3)
    return [o.add(following, state)], [following]


def change_state(row, state):
    following = o.gru_cell(row, o.relu(state), *weigh(3), 3)
    return [following], [following]


def keep_another_state(row, state):
    following = o.gru_cell(row, state, *weigh(3), 3)
    return [following], [o.relu(following)]


def ignore_row(row, state):
    following = o.gru_cell(constant(2, 3), state, *weigh(3), 3)
    return [o.add(following, row)], [following]


def use_two_states(row, first, second):
    following = o.gru_cell(first, second, *weigh(3), 3)
    return [following], [row, following]


def vary_weights(row, state):
    weights, recurrent, biases = weigh(3)
    following = o.gru_cell(row, state, o.multiply(weights, o.reduce_max(row, o.constant([0, 1]))), recurrent, biases, 3)
    return [following], [following]


def draw(row):
    limits = [o.constant(F32(n)) for n in (0, 1)]
    return [o.add(row, o.random_uniform(o.constant([2, 3]), *limits, "f32", 1, 2))], []


LEFT = {
    "sum": (lambda row, s: ([n := o.add(row, s)], [n]), 1),
    "state is read": (use_state, 1),
    "state is changed": (change_state, 1),
    "another state follows": (keep_another_state, 1),
    "states are exchanged": (lambda row, h, c: run_lstm(row, h, c, True), 2),
    "cell does not read the row": (ignore_row, 1),
    "cell reads two states": (use_two_states, 2),
    "weights vary": (vary_weights, 1),
    "random numbers": (draw, 0),
    "several outputs": (lambda row: (o.split(row, o.constant(1), 3).outputs()[:1], []), 0),
    "no vectorized form": (lambda row: ([o.cum_sum(row, o.constant(0))], []), 0),
}


@pytest.mark.parametrize(("build", "states"), LEFT.values(), ids=LEFT.keys())
def test_iterations_are_computed_one_by_one(build, states, tmp_path):
    assert get_refusal(tmp_path, build, states) == (1, [DEPENDS])
