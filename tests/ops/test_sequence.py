"""Recurrent cells, CTC and attention beyond the conformance tests."""

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


def draw(*shape):
    return rng.normal(size=shape).astype(np.float32)


def draw_lstm_inputs(batch=3, size=5):
    return [
        draw(batch, size),
        draw(batch, HIDDEN),
        draw(batch, HIDDEN),
        draw(4 * HIDDEN, size),
        draw(4 * HIDDEN, HIDDEN),
        draw(4 * HIDDEN),
    ]


def test_peepholes_and_coupled_gates():
    pytest.importorskip("openvino")
    from irrun.conformance.generators.sequence_recurrent import compute_peephole_lstm

    for clip, forget in product((0.0, 0.5), (False, True)):
        inputs = [*draw_lstm_inputs(), draw(3 * HIDDEN)]
        expected = compute_peephole_lstm(inputs, clip, forget)
        result = lstm_cell_1(*inputs, hidden_size=HIDDEN, clip=clip, input_forget=forget)
        for actual, reference in zip(result, expected, strict=True):
            np.testing.assert_allclose(actual, reference, rtol=1e-5, atol=2e-6)


def test_combined_weights_equal_separate_weights():
    X, H, C, W, R, B = draw_lstm_inputs()
    separate = lstm_cell_4(X, H, C, W, R, B, hidden_size=HIDDEN)
    combined = lstm_cell_4(X, H, C, np.concatenate([W, R], axis=1), B, hidden_size=HIDDEN)
    for a, b in zip(separate, combined, strict=True):
        np.testing.assert_array_equal(a, b)
    for kernel, gates in ((gru_cell_3, 3), (rnn_cell_1, 1)):
        w, r, b = W[: gates * HIDDEN], R[: gates * HIDDEN], B[: gates * HIDDEN]
        separate = kernel(X, H, w, r, b, hidden_size=HIDDEN)
        combined = kernel(X, H, np.concatenate([w, r], axis=1), b, hidden_size=HIDDEN)
        np.testing.assert_array_equal(separate, combined)


def test_omitted_bias_is_zero():
    X, H, C, W, R, B = draw_lstm_inputs()
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


def test_hard_sigmoid_uses_alpha_and_beta():
    X, H, _, W, R, B = draw_lstm_inputs()
    W, R, B = W[:HIDDEN], R[:HIDDEN], B[:HIDDEN]
    total = X @ W.T + H @ R.T + B
    default = rnn_cell_1(X, H, W, R, B, hidden_size=HIDDEN, activations=["HardSigmoid"])
    np.testing.assert_allclose(default, np.clip(0.2 * total + 0.5, 0, 1), rtol=1e-5, atol=1e-6)
    custom = rnn_cell_1(
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
    np.testing.assert_allclose(custom, np.clip(0.1 * total + 0.25, 0, 1), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("direction", ["forward", "reverse"])
def test_sequence_equals_repeated_cells(direction):
    X = draw(3, 5, 2)
    H, C = draw(3, 1, HIDDEN), draw(3, 1, HIDDEN)
    W, R, B = draw(1, 16, 2), draw(1, 16, HIDDEN), draw(1, 16)
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


def test_mismatched_inputs_are_reported():
    X, H, C, W, R, B = draw_lstm_inputs()
    with pytest.raises(InputError, match=r"W has shape \[16, 5\]"):
        lstm_cell_4(X[:, :3], H, C, W, R, B, hidden_size=HIDDEN)
    with pytest.raises(InputError, match="initial_cell_state"):
        lstm_cell_4(X, H, C[:1], W, R, B, hidden_size=HIDDEN)
    with pytest.raises(InputError, match="unknown activation 'swish'"):
        lstm_cell_4(X, H, C, W, R, B, hidden_size=HIDDEN, activations=["swish", "tanh", "tanh"])
    with pytest.raises(InputError, match=r"sequence_lengths is \[3\], expected values in \[0, 2\]"):
        rnn_sequence_5(
            draw(1, 2, 3),
            draw(1, 1, 4),
            np.array([3]),
            draw(1, 4, 3),
            draw(1, 4, 4),
            draw(1, 4),
            hidden_size=4,
            direction="forward",
        )


def test_ctc_loss_without_labels_is_that_of_blanks():
    logits = draw(1, 4, 3)
    loss = ctc_loss_4(logits, np.array([3]), np.zeros((1, 4), np.int32), np.array([0]))
    exp = np.exp(logits[0, :3].astype(np.float64))
    np.testing.assert_allclose(loss, [-np.log(exp[:, 2] / exp.sum(axis=-1)).sum()], rtol=1e-6)


def test_attention_without_keys_is_zero():
    result = scaled_dot_product_attention_13(draw(1, 2, 4), draw(1, 0, 4), draw(1, 0, 3))
    assert result.shape == (1, 2, 3)
    with pytest.raises(InputError, match="expected"):
        scaled_dot_product_attention_13(draw(1, 2, 4), draw(1, 2, 5), draw(1, 2, 3))


def test_attention_rejects_repeated_dimensions():
    """The third example of the specification repeats dimensions, which OpenVINO rejects as well."""
    shapes = [(1, 6, 5, 4, 8), (2, 2, 2, 3, 8), (4, 3, 10, 3, 8)]
    with pytest.raises(InputError, match="do not match"):
        scaled_dot_product_attention_13(*[draw(*s) for s in shapes], causal=False)


@pytest.mark.parametrize(
    ("type", "gates", "states"), [("RNNSequence", 1, 1), ("GRUSequence", 3, 1), ("LSTMSequence", 4, 2)]
)
def test_default_direction_is_forward(tmp_path, type, gates, states):
    """The examples of the specification state only the hidden size."""
    rows = gates * HIDDEN
    inputs = [draw(2, 3, 5), *[draw(2, 1, HIDDEN)] * states, np.array([3, 2])]
    inputs += [draw(1, rows, 5), draw(1, rows, HIDDEN), draw(1, rows)]
    default = run_layer(tmp_path, type, "opset5", f'hidden_size="{HIDDEN}"', *inputs, outputs=1 + states)
    attributes = f'hidden_size="{HIDDEN}" direction="forward"'
    forward = run_layer(tmp_path, type, "opset5", attributes, *inputs, outputs=1 + states)
    for a, b in zip(default, forward, strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize(
    ("attributes", "indices", "on", "off", "expected"),
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
def test_one_hot_examples_of_specification(tmp_path, attributes, indices, on, off, expected):
    inputs = [np.array(x) for x in (indices, 3, on, off)]
    (result,) = run_layer(tmp_path, "OneHot", "opset1", attributes, *inputs)
    np.testing.assert_array_equal(result, expected)


def make_logits(text, classes):
    return np.log(np.eye(len(classes), dtype=np.float32)[[classes.index(c) for c in text]] + 0.01)[None]


@pytest.mark.parametrize(("merge", "expected"), [(True, "ABBB"), (False, "ABBBB")])
def test_greedy_decoder_example_of_specification(merge, expected):
    data = make_logits("ABB*B*B", "AB*")
    classes, length = ctc_greedy_decoder_seq_len_6(data, np.array([7]), merge_repeated=merge)
    assert "".join("AB"[c] for c in classes[0, : length[0]]) == expected
    assert (classes[0, length[0] :] == -1).all()


def test_ctc_loss_examples_of_specification():
    """Labels after their length are ignored; `unique` keeps the first of equal labels."""
    time = 10
    logits = draw(1, time, 5)

    def compute_loss(labels, length, **attributes):
        padded = np.zeros((1, time), np.int32)
        padded[0, : len(labels)] = labels
        return ctc_loss_4(logits, np.array([time]), padded, np.array([length]), **attributes)

    truncated = compute_loss([0, 3, 2, 2, 2, 2, 2, 4, 3], 4)
    np.testing.assert_array_equal(truncated, compute_loss([0, 3, 2, 2], 4))
    repeated = [0, 1, 1, 0, 1, 3, 3, 2, 2, 3]
    np.testing.assert_array_equal(compute_loss(repeated, 10, unique=True), compute_loss([0, 1, 3, 2], 4))
    merged = compute_loss(repeated, 10, preprocess_collapse_repeated=True)
    np.testing.assert_array_equal(merged, compute_loss([0, 1, 0, 1, 3, 2, 3], 7))
    assert np.isfinite(truncated).all()


def test_ctc_loss_sums_over_all_paths():
    """Steps 2 and 3 of the specification, path by path."""
    logits = draw(1, 5, 3)
    log_softmax = logits[0] - np.log(np.exp(logits[0].astype(np.float64)).sum(axis=-1, keepdims=True))
    total = 0.0
    for path in product(range(3), repeat=5):
        merged = [c for i, c in enumerate(path) if i == 0 or c != path[i - 1]]
        if [c for c in merged if c != 2] == [0, 1, 1]:
            total += np.exp(log_softmax[range(5), path].sum())
    labels = np.array([[0, 1, 1, 0, 0]], np.int32)
    loss = ctc_loss_4(logits, np.array([5]), labels, np.array([3]))
    np.testing.assert_allclose(loss, [-np.log(total)], rtol=1e-5)


def test_attention_of_f32_equals_that_of_f64():
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
                arguments = (mask, None, sink)
                result = attention.scaled_dot_product_attention_13(q, k, v, *arguments, causal=causal)
                wide = [None if x is None or x.dtype == bool else x.astype(np.float64) for x in (q, k, v, *arguments)]
                wide[3] = mask if mask is not None and mask.dtype == bool else wide[3]
                expected = attention.scaled_dot_product_attention_13(*wide, causal=causal)
                np.testing.assert_allclose(result, expected, rtol=1e-5, atol=1e-6)
                assert result.dtype == np.float32


def test_peephole_weights_of_another_size_are_refused() -> None:
    batch, time, size, hidden = 2, 3, 4, 5
    x, states = np.ones((batch, time, size), np.float32), [np.ones((batch, 1, hidden), np.float32)] * 2
    w, r, b = (np.ones(shape, np.float32) for shape in ((1, 20, size), (1, 20, hidden), (1, 20)))
    lengths = np.full(batch, time)

    def run(peepholes: np.ndarray) -> tuple[np.ndarray, ...]:
        return lstm_sequence_5(x, states[0], states[1], lengths, w, r, b, peepholes, hidden_size=hidden)

    assert run(np.zeros((1, 15), np.float32))[0].shape == (batch, 1, time, hidden)
    for shape in ((1, 20), (2, 15), (15,), (3, 5)):
        with pytest.raises(InputError, match="P has shape"):
            run(np.zeros(shape, np.float32))
