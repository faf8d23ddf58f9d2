"""Which recurrent sequences are compiled as loops around cells."""

from __future__ import annotations

import re

import numpy as np
import pytest

pytest.importorskip("llvmlite")

from irrun.fast.errors import NoKernelError
from irrun.fast.jit.cell_sequences import CellSequenceKernel
from irrun.fast.specialization import CallSite
from irrun.ops._support.autoload import load_kernels
from irrun.ops._support.registry import find

pytestmark = pytest.mark.usefixtures("own_kernel_cache")

F32 = np.float32
GATES = {"LSTM": 4, "GRU": 3, "RNN": 1}
BATCH, TIME, SIZE, HIDDEN = 2, 4, 3, 5


def make_site(name, direction="forward", peepholes=(), missing=(), **attributes):
    """Return a call site with weights that are constant, except for those at some positions."""
    for type_name in (f"{name}Sequence", f"{name}Cell", "Squeeze", "Unsqueeze"):
        load_kernels(type_name)
    operation = find(f"{name}Sequence", "opset1" if peepholes else "opset5")
    assert operation is not None
    rows, count = GATES[name] * HIDDEN, 2 if direction == "bidirectional" else 1
    random = np.random.default_rng(0)
    weights = [(random.normal(size=(count, rows, *own)) / 3).astype(F32) for own in ((SIZE,), (HIDDEN,), ())]
    first = 3 if name == "LSTM" else 2
    constants = [None] * (1 + first) + [*weights, *peepholes]
    for position in missing:
        constants[1 + first + position] = None
    return CallSite(
        operation,
        operation.bind({"hidden_size": str(HIDDEN), "direction": direction, **attributes}),
        tuple(constants),
        (False,) * len(constants),
        3 if name == "LSTM" else 2,
    )


def make_inputs(name, count, lengths=TIME):
    random = np.random.default_rng(1)
    states = [random.normal(size=(BATCH, count, HIDDEN)).astype(F32) for _ in range(2 if name == "LSTM" else 1)]
    return [random.normal(size=(BATCH, TIME, SIZE)).astype(F32), *states, np.full(BATCH, lengths, np.int32)]


@pytest.mark.parametrize("direction", ["forward", "reverse", "bidirectional"])
@pytest.mark.parametrize("name", GATES)
def test_sequences_agree_with_the_plain_kernel(name, direction):
    site = make_site(name, direction)
    inputs = make_inputs(name, 2 if direction == "bidirectional" else 1)
    known = [*inputs, *site.constants[len(inputs) :]]
    for lengths in (TIME, TIME - 1):
        known[len(inputs) - 1] = inputs[-1] = np.full(BATCH, lengths, np.int32)
        expected = site.operation.kernel(*known, **site.attributes)
        for value, plain in zip(CellSequenceKernel(site)(*inputs), expected, strict=True):
            np.testing.assert_allclose(value, plain, rtol=1e-5, atol=2e-6)


@pytest.mark.parametrize("missing", [0, 1, 2])
@pytest.mark.parametrize("name", GATES)
def test_weights_are_constant(name, missing):
    with pytest.raises(NoKernelError, match="the weights are not constant"):
        CellSequenceKernel(make_site(name, missing=[missing]))


def test_peepholes_are_constant():
    peepholes = [np.ones((1, 3 * HIDDEN), F32)]
    CellSequenceKernel(make_site("LSTM", peepholes=peepholes))
    with pytest.raises(NoKernelError, match="the peepholes are not constant"):
        CellSequenceKernel(make_site("LSTM", peepholes=peepholes, missing=[3]))


@pytest.mark.parametrize(
    ("name", "activations", "is_refused"),
    [
        ("GRU", "relu,tanh", True),
        ("GRU", "ReLU,tanh", True),
        ("GRU", "sigmoid,relu", False),
        ("RNN", "relu", False),
        ("LSTM", "relu,tanh,tanh", False),
    ],
)
def test_gates_of_gated_units_have_bounds(name, activations, is_refused):
    site = make_site(name, activations=activations)
    if is_refused:
        reason = "the gates have no bounds, so that rounding errors grow from step to step"
        with pytest.raises(NoKernelError, match=f"^{re.escape(reason)}$"):
            CellSequenceKernel(site)
    else:
        CellSequenceKernel(site)


@pytest.mark.parametrize("name", GATES)
def test_other_inputs_are_left_to_the_plain_kernel(monkeypatch, name):
    monkeypatch.setattr(CallSite, "call_plain", lambda site, *inputs: "plain")
    kernel = CellSequenceKernel(make_site(name))
    X, *states, lengths = make_inputs(name, 1)
    both = make_inputs(name, 2)[1:-1]
    others = [
        (X.astype(np.float64), *states, lengths),
        (X[0], *states, lengths),
        (X[:, :0], *states, lengths * 0),
        (X, *both, lengths),
        (X, *states, lengths - [1, 0]),
        (X, *states[:-1], states[-1].astype(np.float64), lengths),
        (X, *states[:-1], states[-1][:, 0], lengths),
    ]
    assert [kernel(*inputs) for inputs in others] == ["plain"] * len(others)
    assert CellSequenceKernel(make_site(name, "bidirectional"))(X, *states, lengths) == "plain"
    assert len(kernel(X, *states, lengths)) == 1 + len(states)


@pytest.mark.parametrize("name", GATES)
def test_weights_have_all_directions(name):
    site = make_site(name)
    site.attributes["direction"] = "bidirectional"
    with pytest.raises(NoKernelError, match="the weights are not constant"):
        CellSequenceKernel(site)


def test_peepholes_of_other_cells_do_not_exist():
    """The input at the place of the peepholes of an LSTM holds the scores of an AUGRU."""
    for name in ("GRU", "RNN"):
        site = make_site(name)
        constants = (*site.constants, np.ones((1, 3 * HIDDEN), F32))
        site = CallSite(site.operation, site.attributes, constants, (False,) * len(constants), 2)
        steps = CellSequenceKernel(site)._loops[0].body.steps
        assert [len(step.inputs) for step in steps] == [2, 5, 2]


def test_shapes_that_a_cell_does_not_support_are_refused_when_they_are_prepared():
    kernel = CellSequenceKernel(make_site("GRU"))
    lengths = (BATCH,)
    kernel.prepare([(BATCH, TIME, SIZE), (BATCH, 1, HIDDEN), lengths])
    for X, state in (((BATCH, TIME, SIZE + 1), HIDDEN), ((BATCH, TIME, SIZE), HIDDEN + 1)):
        with pytest.raises(NoKernelError, match="do not match"):
            kernel.prepare([X, (BATCH, 1, state), lengths])


@pytest.mark.parametrize("direction", ["forward", "reverse"])
def test_scores_scale_the_update_gates_of_each_step(direction):
    for type_name in ("AUGRUSequence", "AUGRUCell", "Squeeze", "Unsqueeze"):
        load_kernels(type_name)
    operation = find("AUGRUSequence", "ie_internal_opset")
    assert operation is not None
    random = np.random.default_rng(0)
    rows = 3 * HIDDEN
    weights = [(random.normal(size=(1, rows, *own)) / 3).astype(F32) for own in ((SIZE,), (HIDDEN,), ())]
    attributes = operation.bind({"hidden_size": str(HIDDEN)}) | {"direction": direction}
    constants = (None, None, None, *weights, None)
    site = CallSite(operation, attributes, constants, (False,) * 7, 2)
    X, H, lengths = make_inputs("GRU", 1)
    scores = random.uniform(size=(BATCH, TIME, 1)).astype(F32)
    own = {key: value for key, value in attributes.items() if key != "direction"}
    if direction == "forward":
        expected = operation.kernel(X, H, lengths, *weights, scores, **own)
    else:  # the operation itself only runs forward
        outputs, last = operation.kernel(X[:, ::-1], H, lengths, *weights, scores[:, ::-1], **own)
        expected = outputs[:, :, ::-1], last
    kernel = CellSequenceKernel(site)
    kernel.prepare([X.shape, H.shape, lengths.shape, scores.shape])
    for value, plain in zip(kernel(X, H, lengths, scores), expected, strict=True):
        np.testing.assert_allclose(value, plain, rtol=1e-5, atol=2e-6)


def test_gates_of_scored_units_have_bounds():
    load_kernels("AUGRUSequence")
    operation = find("AUGRUSequence", "ie_internal_opset")
    site = CallSite(operation, {"hidden_size": HIDDEN, "activations": ["relu", "tanh"]}, (None,) * 7, (False,) * 7, 2)
    with pytest.raises(NoKernelError, match="the gates have no bounds"):
        CellSequenceKernel(site)
