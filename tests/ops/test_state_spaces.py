"""Recurrences with a matrix as their state, and filters of sequences, compared with loops over steps and heads."""

from __future__ import annotations

import numpy as np
import pytest

from irrun.errors import InputError
from irrun.ops.internal.state_spaces import (
    gated_delta_net,
    paged_causal_conv_1d,
    paged_gated_delta_net,
    paged_selective_ssm,
    selective_ssm,
)

RNG = np.random.default_rng(7)
BATCH, STEPS, GROUPS, HEADS, SIZE, WIDTH = 2, 3, 2, 4, 5, 6
#: Two sequences of three and two tokens, with first states in rows 3 and 1 of a table, and an empty sequence.
PAGES = [np.array(x) for x in ([0, 3, 3, 5], [3, 2, 1], [0, 1, 2, 3], [0, 0, 0], [1, 1, 1])]


def draw(*shape):
    return RNG.normal(size=shape)


def make_delta_inputs(*lead):
    return [
        draw(*lead, GROUPS, SIZE),
        draw(*lead, GROUPS, SIZE),
        draw(*lead, HEADS, WIDTH),
        -np.abs(draw(*lead, HEADS)),
        RNG.uniform(size=(*lead, HEADS)),
    ]


def run_delta_rule(query, key, value, state, gate, beta, epsilons=None):
    """Return the outputs and the last states of a batch."""
    outputs, state = np.zeros_like(value), state.copy()
    for n, t, h in np.ndindex(value.shape[:3]):
        q, k = (x[n, t, h // (HEADS // GROUPS)] for x in (query, key))
        if epsilons:
            q, k = (x / np.sqrt((x * x).sum() + e) for x, e in zip((q, k), epsilons, strict=True))
        s = state[n, h] * np.exp(gate[n, t, h])
        s = s + beta[n, t, h] * np.outer(k, value[n, t, h] - s.T @ k)
        state[n, h] = s
        outputs[n, t, h] = s.T @ q / np.sqrt(SIZE)
    return outputs, state


@pytest.mark.parametrize("epsilons", [None, (0.3, 0.7)])
def test_delta_nets_learn_what_they_do_not_recall(epsilons):
    query, key, value, gate, beta = make_delta_inputs(BATCH, STEPS)
    state = draw(BATCH, HEADS, SIZE, WIDTH)
    attributes = {} if epsilons is None else {"q_l2_norm_eps": epsilons[0], "k_l2_norm_eps": epsilons[1]}
    expected = run_delta_rule(query, key, value, state, gate, beta, epsilons)
    result = gated_delta_net(query, key, value, state, gate, beta, fuse_qk_l2norm=epsilons is not None, **attributes)
    for found, wanted in zip(result, expected, strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-10, atol=1e-10)

    query, key, value, gate, beta = make_delta_inputs(5)
    table = draw(4, HEADS, SIZE, WIDTH)
    found = paged_gated_delta_net(
        query, key, value, table, gate, beta, *PAGES, use_qk_l2norm=epsilons is not None, **attributes
    )
    for part, row in ((slice(0, 3), 3), (slice(3, 5), 1)):
        q, k, v, g, b = (x[None, part] for x in (query, key, value, gate, beta))
        wanted, _ = run_delta_rule(q, k, v, table[row : row + 1], g, b, epsilons)
        np.testing.assert_allclose(found[part], wanted[0], rtol=1e-10, atol=1e-10)


def run_state_space(decay, dt, b, x, c, state):
    """Return the outputs and the last states of a batch."""
    outputs, state = np.zeros_like(x), state.copy()
    for n, t, h in np.ndindex(x.shape[:3]):
        group = h // (HEADS // GROUPS)
        step = dt[n, t, h]
        state[n, h] = np.exp(decay[h] * step) * state[n, h] + np.outer(x[n, t, h], step * b[n, t, group])
        outputs[n, t, h] = state[n, h] @ c[n, t, group]
    return outputs, state


def make_space_inputs(*lead):
    return [
        -np.abs(draw(HEADS)),
        RNG.uniform(size=(*lead, HEADS)),
        draw(*lead, GROUPS, WIDTH),
        draw(*lead, HEADS, SIZE),
        draw(*lead, GROUPS, WIDTH),
    ]


def test_state_spaces_decay_and_add_up_inputs():
    decay, dt, b, x, c = make_space_inputs(BATCH, STEPS)
    state = draw(BATCH, HEADS, SIZE, WIDTH)
    expected = run_state_space(decay, dt, b, x, c, state)
    for found, wanted in zip(selective_ssm(decay, dt, b, x, c, state), expected, strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-10, atol=1e-10)
    decay, dt, b, x, c = make_space_inputs(5)
    table = draw(4, HEADS, SIZE, WIDTH)
    found = paged_selective_ssm(decay, dt, b, x, c, table, *PAGES)
    for part, row in ((slice(0, 3), 3), (slice(3, 5), 1)):
        parts = [y[None, part] for y in (dt, b, x, c)]
        wanted, _ = run_state_space(decay, parts[0], parts[1], parts[2], parts[3], table[row : row + 1])
        np.testing.assert_allclose(found[part], wanted[0], rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("has_bias", [False, True])
def test_filters_read_the_tokens_before(has_bias):
    tokens, table, weights = draw(5, 3), draw(4, 3, 4), draw(3, 1, 4)
    bias = draw(3) if has_bias else np.zeros(0)
    result = paged_causal_conv_1d(tokens, table, weights, bias, *PAGES)
    for begin, end, row in ((0, 3, 3), (3, 5, 1)):
        known = np.concatenate([table[row].T, tokens[begin:end]])
        for i in range(begin, end):
            window = known[i - begin + 1 : i - begin + 5]
            expected = (window * weights[:, 0].T).sum(axis=0) + (bias if has_bias else 0)
            np.testing.assert_allclose(result[i], expected, rtol=1e-10, atol=1e-10)


DELTA = [(1, 3, 2, 5), (1, 3, 2, 5), (1, 3, 4, 6), (1, 4, 5, 6), (1, 3, 4), (1, 3, 4)]
PAGED_DELTA = [(5, 2, 5), (5, 2, 5), (5, 4, 6), (4, 4, 5, 6), (5, 4), (5, 4)]
SPACE = [(4,), (1, 3, 4), (1, 3, 2, 6), (1, 3, 4, 5), (1, 3, 2, 6), (1, 4, 5, 6)]
PAGED_SPACE = [(4,), (5, 4), (5, 2, 6), (5, 4, 5), (5, 2, 6), (4, 4, 5, 6)]
FILTERS = [(5, 3), (4, 3, 4), (3, 1, 4), (3,)]


@pytest.mark.parametrize(
    ("kernel", "shapes", "position", "wrong", "message"),
    [
        (gated_delta_net, DELTA, 0, (3, 2, 5), r"query has shape \[3, 2, 5\], expected a tensor of rank 4"),
        (gated_delta_net, DELTA, 2, (3, 4, 6), r"value has shape \[3, 4, 6\], expected a tensor of rank 4"),
        (gated_delta_net, DELTA, 1, (1, 3, 2, 4), "key has shape"),
        (gated_delta_net, DELTA, 3, (1, 4, 6, 5), "recurrent_state has shape"),
        (gated_delta_net, DELTA, 4, (1, 3, 3), "gate has shape"),
        (gated_delta_net, DELTA, 5, (1, 3, 3), "beta has shape"),
        (paged_gated_delta_net, PAGED_DELTA, 2, (4, 6), r"value has shape \[4, 6\], expected a tensor of rank 3"),
        (selective_ssm, SPACE, 3, (3, 4, 5), r"x has shape \[3, 4, 5\], expected a tensor of rank 4"),
        (selective_ssm, SPACE, 2, (3, 2, 6), r"B has shape \[3, 2, 6\], expected a tensor of rank 4"),
        (selective_ssm, SPACE, 0, (3,), r"A has shape \[3\]"),
        (selective_ssm, SPACE, 1, (1, 3, 3), "dt has shape"),
        (selective_ssm, SPACE, 2, (1, 2, 2, 6), "B has shape"),
        (selective_ssm, SPACE, 2, (1, 3, 3, 6), "C has shape"),
        (selective_ssm, SPACE, 4, (1, 3, 2, 5), "C has shape"),
        (selective_ssm, SPACE, 5, (1, 4, 6, 5), "recurrent_state has shape"),
        (paged_selective_ssm, PAGED_SPACE, 3, (4, 5), r"x has shape \[4, 5\], expected a tensor of rank 3"),
        (paged_causal_conv_1d, FILTERS, 0, (5,), r"input_embeds has shape \[5\], expected a tensor of rank 2"),
        (paged_causal_conv_1d, FILTERS, 1, (3, 4), r"conv_state_table has shape \[3, 4\], expected a tensor of rank 3"),
        (paged_causal_conv_1d, FILTERS, 1, (4, 2, 4), "conv_state_table has shape"),
        (paged_causal_conv_1d, FILTERS, 2, (3, 1, 5), "conv_weight has shape"),
    ],
)
def test_wrong_shapes_are_refused(kernel, shapes, position, wrong, message):
    pages = [] if kernel in (gated_delta_net, selective_ssm) else PAGES
    kernel(*map(np.ones, shapes), *pages)
    with pytest.raises(InputError, match=message):
        kernel(*map(np.ones, [*shapes[:position], wrong, *shapes[position + 1 :]]), *pages)


@pytest.mark.parametrize("kernel", [paged_gated_delta_net, paged_selective_ssm, paged_causal_conv_1d])
def test_sequences_are_listed(kernel):
    shapes = {paged_gated_delta_net: PAGED_DELTA, paged_selective_ssm: PAGED_SPACE, paged_causal_conv_1d: FILTERS}
    inputs = list(map(np.ones, shapes[kernel]))
    with pytest.raises(InputError, match=r"subsequence_begins has shape \[4, 1\], expected a tensor of rank 1"):
        kernel(*inputs, PAGES[0][:, None], *PAGES[1:])
    with pytest.raises(InputError, match="la_block_indices_begins has shape"):
        kernel(*inputs, *PAGES[:2], PAGES[2][:3], *PAGES[3:])
