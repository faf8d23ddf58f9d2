"""Weights, attributes and inputs with which recurrent cells and sequences are computed by their specialized kernels."""

from __future__ import annotations

import numpy as np
import pytest

from irrun.fast.errors import NoKernelError
from irrun.fast.recurrent.cells import MAX_BATCH_SIZES, _GateProduct
from irrun.fast.recurrent.matrices import PartedMatrix, from_gate_shape, to_gate_shape
from irrun.fast.recurrent.preparation import get_kind, prepare_cell
from irrun.fast.recurrent.recurrences import run_direction, run_whole_direction
from irrun.fast.recurrent.sequences import RecurrentSequence
from irrun.fast.specialization import CallSite, specialize
from irrun.ops._support.autoload import load_kernels
from irrun.ops._support.registry import find

F32, F64 = np.float32, np.float64
GATES = {"LSTM": 4, "GRU": 3, "RNN": 1}
VERSIONS = {"LSTM": "opset4", "GRU": "opset3", "RNN": "opset1"}
BATCH, TIME, SIZE, HIDDEN = 2, 4, 3, 5


def draw(*shape, dtype=F32):
    return (np.random.default_rng(sum(shape)).normal(size=shape) / 2).astype(dtype)


def make_cell(name, version=None, more=(), bias_count=None, **changes):
    """Return the call site of a cell; changes replace its weights W, R and B, or its attributes."""
    load_kernels(f"{name}Cell")
    operation = find(f"{name}Cell", version or VERSIONS[name])
    assert operation is not None
    rows = GATES[name] * HIDDEN
    weights = {"W": draw(rows, SIZE), "R": draw(rows, HIDDEN), "B": draw((bias_count or GATES[name]) * HIDDEN)}
    weights |= {key: changes.pop(key) for key in ("W", "R", "B") if key in changes}
    attributes = operation.bind({"hidden_size": str(HIDDEN)}) | changes
    constants = (*[None] * (3 if name == "LSTM" else 2), *weights.values(), *more)
    return CallSite(operation, attributes, constants, (False,) * len(constants), 2 if name == "LSTM" else 1)


def make_states(name, *shape):
    return [draw(*shape) for _ in range(2 if name == "LSTM" else 1)]


@pytest.fixture
def plain(monkeypatch):
    """Return "plain" instead of the result of plain kernels."""
    monkeypatch.setattr(CallSite, "call_plain", lambda site, *inputs: "plain")


@pytest.mark.parametrize("name", GATES)
def test_cells_of_other_inputs_are_left_to_the_plain_kernel(plain, name):
    cell = specialize(make_cell(name))
    X, states = draw(BATCH, SIZE), make_states(name, BATCH, HIDDEN)
    assert not isinstance(cell(X, *states), str)
    others = [
        (X.astype(F64), *states),
        (draw(BATCH, SIZE + 1), *states),
        (draw(BATCH + 1, SIZE), *states),
        (draw(BATCH, SIZE, 1), *states),
    ]
    for position in range(len(states)):
        for value in (states[0].astype(F64), draw(BATCH, HIDDEN + 1), draw(BATCH + 1, HIDDEN), draw(1, HIDDEN)):
            others.append((X, *[value if i == position else state for i, state in enumerate(states)]))
    assert [cell(*inputs) for inputs in others] == ["plain"] * len(others)


@pytest.mark.parametrize("name", GATES)
@pytest.mark.parametrize(
    ("changes", "is_specialized"),
    [
        ({}, True),
        ({"B": None}, False),  # an input that is not constant
        ({"W": None}, False),
        ({"R": None}, False),
        ({"W": draw(15)}, False),
        ({"W": draw(7, SIZE)}, False),
        ({"R": draw(7, HIDDEN)}, False),
        ({"R": draw(15, HIDDEN - 1)}, False),
        ({"B": draw(HIDDEN - 1)}, False),
        ({"hidden_size": 0}, False),
        ({"hidden_size": HIDDEN + 1}, False),
        ({"clip": 0.0}, True),
        ({"clip": 0.5}, False),
        ({"activations": ["tanh"] * 3}, False),
        ({"activations": []}, True),
        ({"more": (draw(15),)}, False),
    ],
    ids=str,
)
def test_cells_with_these_weights_and_attributes_are_specialized(name, changes, is_specialized):
    if name == "RNN" and changes.get("activations"):
        changes = {"activations": ["relu"]}
    assert (specialize(make_cell(name, **changes)) is not None) == is_specialized


@pytest.mark.parametrize("name", GATES)
def test_weights_and_biases_are_f32(name):
    rows = GATES[name] * HIDDEN
    for changes in (
        {"W": draw(rows, SIZE, dtype=F64)},
        {"R": draw(rows, HIDDEN, dtype=F64)},
        {"B": draw(rows, dtype=F64)},
    ):
        assert specialize(make_cell(name, **changes)) is None


def test_names_of_functions_are_read_without_case_and_spaces():
    assert get_kind(make_cell("LSTM", activations=[" Sigmoid", "TANH "])) is not None
    assert get_kind(make_cell("LSTM", activations=["sigmoid", "tanh", "relu"])) is None
    assert get_kind(make_cell("LSTM", version="opset1", input_forget=True)) is None
    assert get_kind(make_cell("LSTM", version="opset1", input_forget=False)) is not None


def test_linear_gates_have_a_bias_of_their_own_unless_it_is_zero():
    bias = draw(4 * HIDDEN)
    weights = prepare_cell(make_cell("GRU", B=bias, linear_before_reset=True))
    np.testing.assert_array_equal(weights.options["hidden_bias"], bias[3 * HIDDEN :])
    zero = np.concatenate([bias[: 3 * HIDDEN], np.zeros(HIDDEN, F32)])
    assert prepare_cell(make_cell("GRU", B=zero, linear_before_reset=True)).options["hidden_bias"] is None
    assert prepare_cell(make_cell("GRU", linear_before_reset=True)) is None
    assert prepare_cell(make_cell("GRU", B=bias)) is None


def test_weights_of_both_products_may_be_one_matrix():
    joined = draw(4 * HIDDEN, SIZE + HIDDEN)
    site = make_cell("LSTM", version="opset1", W=joined, R=draw(4 * HIDDEN))
    constants = (*site.constants[:5],)
    site = CallSite(site.operation, site.attributes, constants, (False,) * 5, 2)
    weights = prepare_cell(site)
    assert weights is None or weights.input_size == SIZE
    narrow = CallSite(site.operation, site.attributes, (*constants[:3], draw(4 * HIDDEN, HIDDEN - 1), constants[4]),
                      (False,) * 5, 2)  # fmt: skip
    assert prepare_cell(narrow) is None


def test_products_of_a_limited_number_of_batch_sizes_are_kept():
    matrix = draw(2 * 6, 4)
    product = _GateProduct(PartedMatrix(matrix, 2), draw(12))
    for batch in range(1, MAX_BATCH_SIZES + 3):
        x = draw(batch, 4)
        gates = product(x).reshape(2, batch, -1)
        expected = (x @ matrix.T + draw(12)).reshape(batch, 2, 6).swapaxes(0, 1)
        np.testing.assert_allclose(gates, expected, rtol=1e-5, atol=1e-6)
        assert len(product._products) == (batch if batch <= MAX_BATCH_SIZES + 1 else 1)


@pytest.mark.parametrize(
    ("hidden", "columns", "batch", "parts"),
    [
        # divisors of the hidden size, up to 262,144 multiplications, or rows of at least 16 elements
        (64, 64, 64, 1),
        (64, 65, 64, 2),
        (128, 128, 64, 4),
        (96, 128, 64, 3),
        (17, 1 << 16, 64, 1),
        (64, 1 << 16, 64, 4),
        (31, 1 << 16, 64, 1),
        (40, 1 << 16, 64, 2),
    ],
)
def test_gates_are_divided_into_parts(hidden, columns, batch, parts):
    matrix = PartedMatrix(np.lib.stride_tricks.as_strided(np.zeros(1, F32), (hidden, 1), (0, 0)), 1)
    matrix.matrix = np.lib.stride_tricks.as_strided(np.zeros(1, F32), (hidden, columns), (0, 0))
    assert matrix.count_parts(batch) == parts


def test_states_have_the_shape_of_gates_and_back():
    state = draw(3, 8)
    gate = to_gate_shape(state, 4)
    assert gate.shape == (4, 3, 2)
    np.testing.assert_array_equal(from_gate_shape(gate), state)
    for single in (state[0], state[:1]):
        assert to_gate_shape(single, 4).shape == (8,)
        np.testing.assert_array_equal(from_gate_shape(to_gate_shape(single, 4)), state[:1])


# Sequences


def make_sequence(name, lengths=None, **changes):
    load_kernels(f"{name}Sequence")
    operation = find(f"{name}Sequence", "opset5")
    assert operation is not None
    rows = GATES[name] * HIDDEN
    weights = {"W": draw(1, rows, SIZE), "R": draw(1, rows, HIDDEN), "B": draw(1, rows)} | changes
    attributes = operation.bind({"hidden_size": str(HIDDEN), "direction": "forward"})
    constants = (*[None] * (3 if name == "LSTM" else 2), lengths, *weights.values())
    return CallSite(operation, attributes, constants, (False,) * len(constants), 3 if name == "LSTM" else 2)


@pytest.mark.parametrize("name", GATES)
def test_sequences_of_other_inputs_are_left_to_the_plain_kernel(plain, name):
    sequence = specialize(make_sequence(name))
    X, states, lengths = draw(BATCH, TIME, SIZE), make_states(name, BATCH, 1, HIDDEN), np.full(BATCH, TIME)
    assert not isinstance(sequence(X, *states, lengths), str)
    others = [
        (X.astype(F64), *states, lengths),
        (X[0], *states, lengths),
        (X[:, :0], *states, lengths * 0),
        (X, *states, lengths[:1]),
        (X, *states, lengths[:, np.newaxis]),
        (X, *[state[0] for state in states], lengths),
        (X, *states[:-1], states[-1].astype(F64), lengths),
        (X, *states[:-1], draw(BATCH, 2, HIDDEN), lengths),
    ]
    assert [sequence(*inputs) for inputs in others] == ["plain"] * len(others)


@pytest.mark.parametrize("name", GATES)
def test_sequences_with_other_weights_are_not_specialized(name):
    rows = GATES[name] * HIDDEN
    for changes in ({"W": None}, {"R": None}, {"B": None}, {"W": draw(2, rows, SIZE)}, {"B": draw(2, rows)}):
        assert specialize(make_sequence(name, **changes)) is None
    assert isinstance(specialize(make_sequence(name)), RecurrentSequence)


@pytest.mark.parametrize(
    ("lengths", "expected"),
    [(None, -1), (np.full(2, 4), 4), (np.array([4, 3]), -1), (np.zeros(0, np.int64), -1), (np.array([7]), 7)],
    ids=str,
)
def test_constant_lengths_are_known_if_they_are_equal(lengths, expected):
    sequence = specialize(make_sequence("LSTM", lengths))
    assert isinstance(sequence, RecurrentSequence)
    assert sequence._constant_length == expected


@pytest.mark.parametrize("run", [run_whole_direction, lambda *inputs: list(run_direction(*inputs))])
def test_directions_refuse_other_shapes_and_types(run):
    weights = prepare_cell(make_cell("LSTM"))
    X, states, Y = draw(TIME, BATCH, SIZE), make_states("LSTM", BATCH, HIDDEN), np.empty((TIME, BATCH, HIDDEN), F32)
    run(weights, X, states, Y)
    none = [state[:0] for state in states]
    for inputs in (
        (X.astype(F64), states, Y),
        (X[:-1], states, Y),
        (X[:, :1], states, Y),
        (X[..., :2], states, Y),
        (X, states, np.empty((TIME, BATCH, HIDDEN + 1), F32)),
        (X[:, :0], none, Y[:, :0]),
        (X, states[:1], Y),
        (X, [states[0], states[1].astype(F64)], Y),
        (X, [states[0], states[1][:1]], Y),
    ):
        with pytest.raises(NoKernelError, match=r"^(X has shape|the states do not have the shape)"):
            run(weights, *inputs)
