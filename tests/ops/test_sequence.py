"""Recurrent cells, CTC and attention where files written by OpenVINO do not reach."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from ir_text import run_layer

from irrun.errors import InputError
from irrun.ops.sequence.attention import scaled_dot_product_attention_13
from irrun.ops.sequence.cells import gru_cell_3, lstm_cell_1, lstm_cell_4, rnn_cell_1
from irrun.ops.sequence.ctc import ctc_greedy_decoder_seq_len_6, ctc_loss_4
from irrun.ops.sequence.sequences import lstm_sequence_5, rnn_sequence_5

rng = np.random.default_rng(5)
HIDDEN = 4


def normal(*shape):
    return rng.normal(size=shape).astype(np.float32)


def lstm_inputs(batch=3, size=5):
    return [
        normal(batch, size),
        normal(batch, HIDDEN),
        normal(batch, HIDDEN),
        normal(4 * HIDDEN, size),
        normal(4 * HIDDEN, HIDDEN),
        normal(4 * HIDDEN),
    ]


def test_peepholes_and_coupled_gates():
    pytest.importorskip("openvino")
    from conformance.generators.sequence_recurrent import peephole_lstm

    for clip, forget in product((0.0, 0.5), (False, True)):
        inputs = [*lstm_inputs(), normal(3 * HIDDEN)]
        expected = peephole_lstm(inputs, clip, forget)
        result = lstm_cell_1(*inputs, hidden_size=HIDDEN, clip=clip, input_forget=forget)
        for ours, theirs in zip(result, expected, strict=True):
            np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=2e-6)


def test_one_matrix_for_input_and_state():
    X, H, C, W, R, B = lstm_inputs()
    separate = lstm_cell_4(X, H, C, W, R, B, hidden_size=HIDDEN)
    joined = lstm_cell_4(X, H, C, np.concatenate([W, R], axis=1), B, hidden_size=HIDDEN)
    for a, b in zip(separate, joined, strict=True):
        np.testing.assert_array_equal(a, b)
    for kernel, gates in ((gru_cell_3, 3), (rnn_cell_1, 1)):
        w, r, b = W[: gates * HIDDEN], R[: gates * HIDDEN], B[: gates * HIDDEN]
        separate = kernel(X, H, w, r, b, hidden_size=HIDDEN)
        joined = kernel(X, H, np.concatenate([w, r], axis=1), b, hidden_size=HIDDEN)
        np.testing.assert_array_equal(separate, joined)


def test_bias_left_out_is_zero():
    X, H, C, W, R, B = lstm_inputs()
    for a, b in zip(
        lstm_cell_4(X, H, C, W, R, hidden_size=HIDDEN),
        lstm_cell_4(X, H, C, W, R, np.zeros_like(B), hidden_size=HIDDEN),
        strict=True,
    ):
        np.testing.assert_array_equal(a, b)
    before_reset = gru_cell_3(X, H, W[:12], R[:12], hidden_size=HIDDEN, linear_before_reset=True)
    zero = np.zeros(16, np.float32)
    np.testing.assert_array_equal(
        before_reset, gru_cell_3(X, H, W[:12], R[:12], zero, hidden_size=HIDDEN, linear_before_reset=True)
    )


def test_hard_sigmoid_takes_alpha_and_beta():
    X, H, _, W, R, B = lstm_inputs()
    W, R, B = W[:HIDDEN], R[:HIDDEN], B[:HIDDEN]
    total = X @ W.T + H @ R.T + B
    default = rnn_cell_1(X, H, W, R, B, hidden_size=HIDDEN, activations=["HardSigmoid"])
    np.testing.assert_allclose(default, np.clip(0.2 * total + 0.5, 0, 1), rtol=1e-5, atol=1e-6)
    own = rnn_cell_1(
        X,
        H,
        W,
        R,
        B,
        hidden_size=HIDDEN,
        activations=["hardsigmoid"],
        activations_alpha=[0.1],
        activations_beta=[0.25],
    )
    np.testing.assert_allclose(own, np.clip(0.1 * total + 0.25, 0, 1), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("direction", ["forward", "reverse"])
def test_sequence_equals_its_cells(direction):
    """Each sequence gives what its cell gives step by step within its own length, in its direction."""
    X = normal(3, 5, 2)
    H, C = normal(3, 1, HIDDEN), normal(3, 1, HIDDEN)
    W, R, B = normal(1, 16, 2), normal(1, 16, HIDDEN), normal(1, 16)
    lengths = np.array([5, 2, 0])
    Y, last_H, last_C = lstm_sequence_5(X, H, C, lengths, W, R, B, hidden_size=HIDDEN, direction=direction)
    for n, length in enumerate(lengths):
        h, c = H[n], C[n]
        times = range(length) if direction == "forward" else range(length - 1, -1, -1)
        for t in times:
            h, c = lstm_cell_4(X[n : n + 1, t], h, c, W[0], R[0], B[0], hidden_size=HIDDEN)
            np.testing.assert_allclose(Y[n, 0, t], h[0], rtol=1e-5, atol=1e-6)
        assert not Y[n, 0, length:].any()
        if length:
            np.testing.assert_allclose(last_H[n], h, rtol=1e-5, atol=1e-6)
            np.testing.assert_allclose(last_C[n], c, rtol=1e-5, atol=1e-6)
        else:
            assert not last_H[n].any()


def test_what_does_not_fit_is_named():
    X, H, C, W, R, B = lstm_inputs()
    with pytest.raises(InputError, match=r"W has shape \[16, 5\]"):
        lstm_cell_4(X[:, :3], H, C, W, R, B, hidden_size=HIDDEN)
    with pytest.raises(InputError, match="initial_cell_state"):
        lstm_cell_4(X, H, C[:1], W, R, B, hidden_size=HIDDEN)
    with pytest.raises(InputError, match="activation 'swish'"):
        lstm_cell_4(X, H, C, W, R, B, hidden_size=HIDDEN, activations=["swish", "tanh", "tanh"])
    with pytest.raises(InputError, match="expected 0 to 2"):
        rnn_sequence_5(
            normal(1, 2, 3),
            normal(1, 1, 4),
            np.array([3]),
            normal(1, 4, 3),
            normal(1, 4, 4),
            normal(1, 4),
            hidden_size=4,
            direction="forward",
        )


def test_ctc_loss_of_no_labels_is_that_of_blanks():
    logits = normal(1, 4, 3)
    loss = ctc_loss_4(logits, np.array([3]), np.zeros((1, 4), np.int32), np.array([0]))
    exp = np.exp(logits[0, :3].astype(np.float64))
    np.testing.assert_allclose(loss, [-np.log(exp[:, 2] / exp.sum(axis=-1)).sum()], rtol=1e-6)


def test_attention_without_keys_is_zero():
    result = scaled_dot_product_attention_13(normal(1, 2, 4), normal(1, 0, 4), normal(1, 0, 3))
    assert result.shape == (1, 2, 3)
    with pytest.raises(InputError, match="expected"):
        scaled_dot_product_attention_13(normal(1, 2, 4), normal(1, 2, 5), normal(1, 2, 3))


def test_attention_refuses_what_is_no_broadcast():
    """The specification's third example repeats dimensions several times, which OpenVINO refuses as well."""
    shapes = [(1, 6, 5, 4, 8), (2, 2, 2, 3, 8), (4, 3, 10, 3, 8)]
    with pytest.raises(InputError, match="do not fit together"):
        scaled_dot_product_attention_13(*[normal(*s) for s in shapes], causal=False)


@pytest.mark.parametrize(
    ("type", "gates", "states"), [("RNNSequence", 1, 1), ("GRUSequence", 3, 1), ("LSTMSequence", 4, 2)]
)
def test_a_sequence_without_direction_goes_forward(tmp_path, type, gates, states):
    """The examples of the specification name the hidden size alone."""
    rows = gates * HIDDEN
    inputs = [normal(2, 3, 5), *[normal(2, 1, HIDDEN)] * states, np.array([3, 2])]
    inputs += [normal(1, rows, 5), normal(1, rows, HIDDEN), normal(1, rows)]
    found = run_layer(tmp_path, type, "opset5", f'hidden_size="{HIDDEN}"', *inputs, outputs=1 + states)
    named = f'hidden_size="{HIDDEN}" direction="forward"'
    for a, b in zip(found, run_layer(tmp_path, type, "opset5", named, *inputs, outputs=1 + states), strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize(
    ("data", "indices", "on", "off", "expected"),
    [
        ('axis="-1"', [0, 3, 1, 2], 1, 2, [[1, 2, 2], [2, 2, 2], [2, 1, 2], [2, 2, 1]]),
        (
            'axis="1"',
            [[0, 3, 1], [1, 2, 4]],
            1,
            0,
            [[[1, 0, 0], [0, 0, 1], [0, 0, 0]], [[0, 0, 0], [1, 0, 0], [0, 1, 0]]],
        ),
    ],
)
def test_the_examples_of_one_hot(tmp_path, data, indices, on, off, expected):
    inputs = [np.array(x) for x in (indices, 3, on, off)]
    (found,) = run_layer(tmp_path, "OneHot", "opset1", data, *inputs)
    np.testing.assert_array_equal(found, expected)


def one_hot_logits(text, classes):
    return np.log(np.eye(len(classes), dtype=np.float32)[[classes.index(c) for c in text]] + 0.01)[None]


@pytest.mark.parametrize(("merge", "expected"), [(True, "ABBB"), (False, "ABBBB")])
def test_the_example_of_greedy_decoding(merge, expected):
    data = one_hot_logits("ABB*B*B", "AB*")
    classes, length = ctc_greedy_decoder_seq_len_6(data, np.array([7]), merge_repeated=merge)
    assert "".join("AB"[c] for c in classes[0, : length[0]]) == expected
    assert (classes[0, length[0] :] == -1).all()


def test_the_examples_of_ctc_loss():
    """Labels are cut to their length; `unique` leaves each of them once, in the order of occurrence."""
    time = 10
    logits = normal(1, time, 5)

    def loss(labels, length, **attributes):
        padded = np.zeros((1, time), np.int32)
        padded[0, : len(labels)] = labels
        return ctc_loss_4(logits, np.array([time]), padded, np.array([length]), **attributes)

    cut = loss([0, 3, 2, 2, 2, 2, 2, 4, 3], 4)
    np.testing.assert_array_equal(cut, loss([0, 3, 2, 2], 4))
    repeated = [0, 1, 1, 0, 1, 3, 3, 2, 2, 3]
    np.testing.assert_array_equal(loss(repeated, 10, unique=True), loss([0, 1, 3, 2], 4))
    merged = loss(repeated, 10, preprocess_collapse_repeated=True)
    np.testing.assert_array_equal(merged, loss([0, 1, 0, 1, 3, 2, 3], 7))
    assert np.isfinite(cut).all()


def test_ctc_loss_sums_over_all_paths():
    """Step 2 and 3 of the specification, path by path."""
    logits = normal(1, 5, 3)
    log_softmax = logits[0] - np.log(np.exp(logits[0].astype(np.float64)).sum(axis=-1, keepdims=True))
    total = 0.0
    for path in product(range(3), repeat=5):
        merged = [c for i, c in enumerate(path) if i == 0 or c != path[i - 1]]
        if [c for c in merged if c != 2] == [0, 1, 1]:
            total += np.exp(log_softmax[range(5), path].sum())
    labels = np.array([[0, 1, 1, 0, 0]], np.int32)
    found = ctc_loss_4(logits, np.array([5]), labels, np.array([3]))
    np.testing.assert_allclose(found, [-np.log(total)], rtol=1e-5)


def test_attention_in_blocks_gives_what_it_gives_at_once(monkeypatch):
    from irrun.ops.sequence import attention

    rng = np.random.default_rng(0)
    q, k, v = (rng.normal(size=s).astype(np.float32) for s in ((2, 3, 50, 8), (2, 1, 40, 8), (2, 3, 40, 5)))
    masks = [
        None,
        rng.random((50, 40)) > 0.3,
        rng.normal(size=(2, 1, 50, 40)),
        rng.normal(size=(1, 40)),
        rng.random(40) > 0.3,
    ]
    sinks = [None, rng.normal(size=(1, 3, 50, 1)).astype(np.float32), rng.normal(size=(1, 3, 1, 1)).astype(np.float32)]
    for causal in (False, True):
        for mask in masks:
            if mask is not None and mask.dtype == np.float64:
                mask = mask.astype(np.float32)
            for sink in sinks:
                found = []
                for rows in (50, 7):
                    monkeypatch.setattr(attention, "ROWS", rows)
                    found.append(attention.scaled_dot_product_attention_13(q, k, v, mask, None, sink, causal=causal))
                np.testing.assert_allclose(found[0], found[1], rtol=1e-5, atol=1e-6)
                assert found[0].dtype == np.float32
