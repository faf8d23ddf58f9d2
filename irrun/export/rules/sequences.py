"""Export of recurrent cells and sequences, attention and CTC."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from irrun.errors import UnsupportedError
from irrun.export.graph import Value, cast, constant, op, ops
from irrun.export.rules.helpers import (
    LAST,
    concat,
    expand,
    gather,
    loop,
    reshape,
    scalar_like,
    slice_axis,
    squeeze,
    transpose,
    unsqueeze,
    where,
)
from irrun.export.site import Site, exports

__all__: list[str] = []

Function = Callable[[Value], Value]

#: Activation function -> its name in ONNX, and the defaults of alpha and beta.
ACTIVATIONS = {
    "sigmoid": ("Sigmoid", 0.0, 0.0),
    "tanh": ("Tanh", 0.0, 0.0),
    "relu": ("Relu", 0.0, 0.0),
    "hardsigmoid": ("HardSigmoid", 0.2, 0.5),
}


def _list_activations(site: Site, defaults: Sequence[str]) -> list[tuple[str, float, float]]:
    """Return the names of the activation functions in ONNX, with alpha and beta."""
    found = []
    names, alphas, betas = site.activations, site.activations_alpha, site.activations_beta
    for i, default in enumerate(defaults):
        name = (names[i] if i < len(names) else default).strip().lower()
        if name not in ACTIVATIONS:
            raise UnsupportedError(f"the activation function {name!r}")
        kind, alpha, beta = ACTIVATIONS[name]
        found.append((kind, alphas[i] if i < len(alphas) else alpha, betas[i] if i < len(betas) else beta))
    return found


def _make_function(kind: str, alpha: float, beta: float) -> Function:
    if kind == "HardSigmoid":
        return lambda x: op("Clip", x * alpha + beta, scalar_like(x, 0.0), scalar_like(x, 1.0))
    return lambda x: op(kind, x)


def _limit(value: Value, bound: float) -> Value:
    if not (bound > 0 and math.isfinite(bound)):
        return value
    return op("Clip", value, scalar_like(value, -bound), scalar_like(value, bound))


class _Cell:
    """The weights of a cell and its step.

    Args:
        site: The layer.
        weights: W, R, B and the peepholes; None if omitted.
        gates: The number of gates.
        defaults: The default activation functions.
    """

    def __init__(self, site: Site, weights: Sequence[Value | None], gates: int, defaults: Sequence[str]) -> None:
        self.site = site
        self.size = int(site.hidden_size)
        self.gates = gates
        self.functions = [_make_function(*a) for a in _list_activations(site, defaults)]
        self.clip = float(site.clip)
        w, r, b, self.peepholes = weights
        assert w is not None
        if r is None or (r.rank == 1 and b is None):
            b = r
            w, r = slice_axis(w, 0, -self.size, 1), slice_axis(w, -self.size, LAST, 1)
        self.w, self.r, self.b = op("Transpose", w, perm=[1, 0]), op("Transpose", r, perm=[1, 0]), b

    def pick(self, value: Value, gate: int) -> Value:
        """Return the part of a gate."""
        return slice_axis(value, gate * self.size, (gate + 1) * self.size, 1)

    def project(self, x: Value) -> Value:
        """Return the contribution of the input to the gates."""
        projection = op("MatMul", x, self.w)
        if self.b is None:
            return projection
        return projection + slice_axis(self.b, 0, self.gates * self.size, 0)

    def step_rnn(self, x: Value, h: Value) -> list[Value]:
        """Return the new hidden state."""
        return [self.functions[0](_limit(self.project(x) + op("MatMul", h, self.r), self.clip))]

    def step_gru(self, x: Value, h: Value, attention: Value | None = None) -> list[Value]:
        """Return the new hidden state."""
        f, g = self.functions
        projection = self.project(x)
        state = op("MatMul", h, slice_axis(self.r, 0, 2 * self.size, 1))
        update, reset = (f(_limit(self.pick(projection, i) + self.pick(state, i), self.clip)) for i in (0, 1))
        r = slice_axis(self.r, 2 * self.size, 3 * self.size, 1)
        if self.site.linear_before_reset:
            candidate = op("MatMul", h, r)
            if self.b is not None and (self.b.shape is None or self.b.shape[-1] != 3 * self.size):
                candidate = candidate + slice_axis(self.b, 3 * self.size, 4 * self.size, 0)
            candidate = reset * candidate
        else:
            candidate = op("MatMul", reset * h, r)
        candidate = g(_limit(self.pick(projection, 2) + candidate, self.clip))
        if attention is not None:
            update = (1.0 - attention) * update
        return [(1.0 - update) * candidate + update * h]

    def step_lstm(self, x: Value, h: Value, c: Value, couples: bool) -> list[Value]:
        """Return the new hidden and cell state."""
        f, g, activate = self.functions
        total = self.project(x) + op("MatMul", h, self.r)
        gate = {name: self.pick(total, i) for i, name in enumerate("fico")}
        peepholes = None if self.peepholes is None else [
            slice_axis(self.peepholes, i * self.size, (i + 1) * self.size, 0) for i in range(3)
        ]  # fmt: skip
        forget, enter, out = gate["f"], gate["i"], gate["o"]
        if peepholes:
            forget, enter = forget + peepholes[0] * c, enter + peepholes[1] * c
        forget = f(_limit(forget, self.clip))
        enter = 1.0 - forget if couples else f(_limit(enter, self.clip))
        c = forget * c + enter * g(_limit(gate["c"], self.clip))
        if peepholes:
            out = out + peepholes[2] * c
        return [f(_limit(out, self.clip)) * activate(c), c]


def _get_weights(site: Site, first: int, count: int) -> list[Value | None]:
    return [*(site.get(i) for i in range(first, first + count)), *[None] * (4 - count)]


@exports("RNNCell-1", compute="f32")
def export_rnn_cell(site: Site) -> list[Value]:
    """Export RNNCell."""
    return _Cell(site, _get_weights(site, 2, 3), 1, ["tanh"]).step_rnn(site[0], site[1])


@exports("GRUCell-3", compute="f32")
def export_gru_cell(site: Site) -> list[Value]:
    """Export GRUCell."""
    return _Cell(site, _get_weights(site, 2, 3), 3, ["sigmoid", "tanh"]).step_gru(site[0], site[1])


@exports("AUGRUCell-ie_internal_opset", compute="f32")
def export_augru_cell(site: Site) -> list[Value]:
    """Export AUGRUCell."""
    return _Cell(site, _get_weights(site, 2, 3), 3, ["sigmoid", "tanh"]).step_gru(site[0], site[1], site[5])


@exports("LSTMCell-1", "LSTMCell-4", compute="f32")
def export_lstm_cell(site: Site) -> list[Value]:
    """Export LSTMCell."""
    cell = _Cell(site, _get_weights(site, 3, 4), 4, ["sigmoid", "tanh", "tanh"])
    couples = bool(site.attributes.get("input_forget", False))
    return cell.step_lstm(site[0], site[1], site[2], couples)


def _reorder(value: Value, order: Sequence[int], size: int, rank: int) -> Value:
    """Reorder the gates of weights [directions, gates * hidden, ...]."""
    if list(order) == sorted(order):
        return value
    positions = np.concatenate([np.arange(size) + gate * size for gate in order])
    return gather(value, positions, 1)


def _export_sequence(site: Site, operation: str, gates: int, defaults: Sequence[str]) -> list[Value]:
    """Export a sequence as the ONNX operation of the same kind."""
    is_lstm = operation == "LSTM"
    couples = is_lstm and bool(site.attributes.get("input_forget"))
    size = int(site.hidden_size)
    count = 3 + is_lstm
    x, lengths = transpose(site[0], [1, 0, 2]), cast(site[count - 1], "i32")
    states = [transpose(site[i], [1, 0, 2]) for i in range(1, count - 1)]
    w, r, b = site[count], site[count + 1], site[count + 2]
    order: Sequence[int] = range(gates)
    peepholes = site.get(count + 3) if is_lstm else None
    if is_lstm:
        present = site.attributes.get("weights_format", "fico")
        order = [present.index(gate) for gate in ("fofc" if couples else "iofc")]
    w, r = _reorder(w, order, size, 3), _reorder(r, order, size, 3)
    if operation == "GRU" and site.linear_before_reset:
        zeros = expand(constant(0.0, b.type), concat([op("Shape", b, result="i64", end=1), constant([2 * size])]))
        own, extra = slice_axis(b, 0, 3 * size, 1), slice_axis(b, 3 * size, 4 * size, 1)
        b = concat([own, zeros, extra], 1)
    else:
        b = _reorder(b, order, size, 2)
        b = concat([b, b - b], 1)
    functions = _list_activations(site, defaults)
    if couples:
        # ONNX computes f as 1 - i, and OpenVINO i as 1 - f, that is, sigmoid(-x).
        if functions[0][0] != "Sigmoid":
            raise UnsupportedError(f"input_forget with the activation function {functions[0][0]}")
        signs = np.repeat(np.array([-1, 1, 1, 1], np.float32), size)
        w, r, b = w * signs[:, np.newaxis], r * signs[:, np.newaxis], b * np.concatenate([signs, signs])
    directions = 2 if site.direction == "bidirectional" else 1
    names = [f[0] for f in functions] * directions
    attributes = {
        "hidden_size": size,
        "direction": site.direction,
        "activations": names,
        "clip": float(site.clip) if site.clip > 0 else None,
        "linear_before_reset": int(site.linear_before_reset) if operation == "GRU" else None,
    }
    if "HardSigmoid" in names:
        attributes["activation_alpha"] = [f[1] for f in functions if f[0] == "HardSigmoid"] * directions
        attributes["activation_beta"] = [f[2] for f in functions if f[0] == "HardSigmoid"] * directions
    extra_inputs: list[Value | None] = list(states)
    if peepholes is not None:
        if peepholes.rank != 2:
            raise UnsupportedError("peepholes of an unsupported rank")
        peepholes = _reorder(peepholes, [0, 2, 0] if couples else [1, 2, 0], size, 2)
        extra_inputs.append(peepholes * signs[: 3 * size] if couples else peepholes)
    if couples:
        attributes["input_forget"] = 1
    y, *last = ops(operation, x, w, r, b, lengths, *extra_inputs, outputs=count - 1, **attributes)
    return [transpose(y, [2, 1, 0, 3]), *(transpose(v, [1, 0, 2]) for v in last)]


@exports("RNNSequence-5", compute="f32")
def export_rnn_sequence(site: Site) -> list[Value]:
    """Export RNNSequence."""
    return _export_sequence(site, "RNN", 1, ["tanh"])


@exports("GRUSequence-5", compute="f32")
def export_gru_sequence(site: Site) -> list[Value]:
    """Export GRUSequence."""
    return _export_sequence(site, "GRU", 3, ["sigmoid", "tanh"])


@exports("LSTMSequence-5", compute="f32")
def export_lstm_sequence(site: Site) -> list[Value]:
    """Export LSTMSequence."""
    return _export_sequence(site, "LSTM", 4, ["sigmoid", "tanh", "tanh"])


@exports("AUGRUSequence-ie_internal_opset", compute="f32")
def export_augru_sequence(site: Site) -> list[Value]:
    """Export AUGRUSequence as a loop over time."""
    x, h, lengths, attention = site[0], squeeze(site[1], [1]), site[2], site[6]
    w, r, b = (squeeze(site[i], [0]) for i in (3, 4, 5))
    cell = _Cell(site, [w, r, b, None], 3, ["sigmoid", "tanh"])
    ends = unsqueeze(cast(lengths, "i64"), [1])
    steps = op("Shape", x, result="i64", start=1, end=2)

    def run(number: Value, states: list[Value]) -> tuple[list[Value], list[Value]]:
        (state,) = states
        at = [squeeze(slice_axis(v, number, number + 1, 1), [1]) for v in (x, attention)]
        (new,) = cell.step_gru(at[0], state, at[1])
        is_inside = reshape(number, [1, 1]) < ends
        return [where(is_inside, new, state)], [where(is_inside, new, 0.0)]

    (last,), (outputs,) = loop(steps, [h], run, 1)
    y = op("Transpose", outputs, perm=[1, 0, 2])
    is_empty = op("Equal", ends, 0)
    return [unsqueeze(y, [1]), unsqueeze(where(is_empty, 0.0, last), [1])]


def _compact(values: Value, keep: Value, fill: int) -> tuple[Value, Value]:
    """Move the kept values of each row to its front; return the values and their number."""
    length = op("Shape", values, result="i64", start=1, end=2)
    positions = op("Range", constant(0), reshape(length, []), constant(1))
    keys = where(keep, positions, positions + length)
    _, order = ops("TopK", keys, length, outputs=2, axis=1, largest=0, sorted=1, result="i64")
    counts = op("ReduceSum", cast(keep, "i64"), constant([1]), keepdims=1)
    moved = op("GatherElements", values, order, axis=1)
    return where(positions < counts, moved, fill), squeeze(counts, [1])


def _decode(data: Value, lengths: Value, blank: Value, *, merge: bool) -> tuple[Value, Value]:
    """Return the classes of [N, T, C] without blanks, and their number."""
    best = op("ArgMax", data, axis=2, keepdims=0, result="i64")
    steps = op("Shape", best, result="i64", start=1, end=2)
    positions = op("Range", constant(0), reshape(steps, []), constant(1))
    keep = (positions < unsqueeze(lengths, [1])) & ~op("Equal", best, blank)
    if merge:
        before = slice_axis(op("Pad", best, constant([0, 1, 0, 0]), constant(-1)), 0, -1, 1)
        keep = keep & ~op("Equal", best, before)
    return _compact(best, keep, -1)


@exports("CTCGreedyDecoder-1", compute="f32")
def export_ctc_greedy_decoder(site: Site) -> Value:
    """Export CTCGreedyDecoder."""
    data = op("Transpose", site[0], perm=[1, 0, 2])
    is_inside = cast(~op("Equal", site[1], 0.0), "i64")
    # The length of a sequence is the number of ones before the first zero of its mask.
    ended = op("CumSum", 1 - is_inside, constant(0))
    lengths = op("ReduceSum", cast(op("Equal", ended, 0), "i64"), constant([0]), keepdims=0)
    blank = op("Shape", site[0], result="i64", start=2, end=3) - 1
    classes, _ = _decode(data, lengths, blank, merge=site.ctc_merge_repeated)
    return unsqueeze(cast(classes, site[0].type), [2, 3])


@exports("CTCGreedyDecoderSeqLen-6", compute="f32")
def export_ctc_greedy_decoder_with_lengths(site: Site) -> list[Value]:
    """Export CTCGreedyDecoderSeqLen."""
    blank = site.get(2)
    if blank is None:
        blank = op("Shape", site[0], result="i64", start=2, end=3) - 1
    else:
        blank = reshape(cast(blank, "i64"), [1])
    classes, counts = _decode(site[0], cast(site[1], "i64"), blank, merge=site.merge_repeated)
    return [cast(classes, site.classes_index_type), cast(counts, site.sequence_length_type)]


@exports("CTCLoss-4", compute="f32")
def export_ctc_loss(site: Site) -> Value:
    """Export CTCLoss: the forward algorithm, as a loop over time."""
    logits, labels = site[0], cast(site[2], "i64")
    lengths, label_lengths = (unsqueeze(cast(site[i], "i64"), [1]) for i in (1, 3))
    blank = site.get(4)
    if blank is None:
        blank = op("Shape", logits, result="i64", start=2, end=3) - 1
    else:
        blank = reshape(cast(blank, "i64"), [1])
    steps = op("Shape", logits, result="i64", start=1, end=2)
    positions = op("Range", constant(0), reshape(steps, []), constant(1))
    keep = positions < label_lengths
    if site.unique:
        same = op("Equal", unsqueeze(labels, [1]), unsqueeze(labels, [2]))
        earlier = unsqueeze(positions, [0]) < unsqueeze(positions, [1])
        repeated = op("ReduceMax", cast(same & earlier, "i32"), constant([2]), keepdims=0)
        keep = keep & op("Equal", repeated, 0)
    elif site.preprocess_collapse_repeated:
        before = slice_axis(op("Pad", labels, constant([0, 1, 0, 0]), constant(-1)), 0, -1, 1)
        keep = keep & ~op("Equal", labels, before)
    target, counts = _compact(labels, keep, -1)
    target = where(target < 0, blank, target)
    counts = unsqueeze(counts, [1])
    pairs = concat(
        [expand(reshape(blank, [1, 1, 1]), op("Shape", unsqueeze(target, [2]), result="i64")), unsqueeze(target, [2])],
        2,
    )
    batch = op("Shape", logits, result="i64", end=1)
    last = expand(reshape(blank, [1, 1]), concat([batch, constant([1])]))
    states = concat([op("Reshape", pairs, concat([batch, constant([-1])])), last], 1)
    width = op("Shape", states, result="i64", start=1, end=2)
    numbers = op("Range", constant(0), reshape(width, []), constant(1))
    is_label = op("Equal", op("Mod", numbers, 2), 1)
    shifted = slice_axis(op("Pad", states, constant([0, 2, 0, 0]), constant(-1)), 0, -2, 1)
    can_skip = is_label & (numbers >= 2)
    if site.ctc_merge_repeated:
        can_skip = can_skip & ~op("Equal", states, shifted)
    else:
        can_skip = op("Expand", unsqueeze(can_skip, [0]), op("Shape", states, result="i64"))
    probability = op("LogSoftmax", logits, axis=2)
    low = -1e30
    first = where(op("Equal", numbers, 0), constant(0.0, logits.type), low)
    first = expand(first, op("Shape", states, result="i64"))

    def run(number: Value, values: list[Value]) -> tuple[list[Value], list[Value]]:
        (forward,) = values
        stay = forward if site.ctc_merge_repeated else where(is_label, low, forward)
        one, two = (
            slice_axis(op("Pad", forward, constant([0, n, 0, 0]), scalar_like(forward, low)), 0, -n, 1) for n in (1, 2)
        )
        skip = where(can_skip, two, low)
        terms = op("Concat", *(unsqueeze(v, [2]) for v in (stay, one, skip)), axis=2)
        total = op("ReduceLogSumExp", terms, constant([2]), keepdims=0)
        at = squeeze(slice_axis(probability, number, number + 1, 1), [1])
        total = total + op("GatherElements", at, states, axis=1)
        return [where(reshape(number, [1, 1]) < lengths, op("Max", total, scalar_like(total, low)), forward)], []

    (forward,), _ = loop(steps, [first], run, 0)
    end = op("GatherElements", forward, counts * 2, axis=1)
    label_end = op("GatherElements", forward, op("Max", counts * 2 - 1, constant(0)), axis=1)
    label_end = where(counts > 0, label_end, low)
    total = op("ReduceLogSumExp", concat([end, label_end], 1), constant([1]), keepdims=0)
    return where(total < low / 2, math.inf, -total)


@exports("ScaledDotProductAttention-13", compute="f32")
def export_attention(site: Site) -> Value:
    """Export ScaledDotProductAttention as products and a softmax."""
    query, key, value = site[0], site[1], site[2]
    mask, scale, sink = site.get(3), site.get(4), site.get(5)
    rank = site.get_rank(1)
    if scale is not None and scale.rank is not None:
        factor = cast(reshape(scale, []), query.type)
    else:
        size = site.get_shape(0)[-1]
        if size is not None:
            factor = constant(1 / math.sqrt(size), query.type)
        else:
            dimension = cast(op("Shape", query, result="i64", start=-1), query.type)
            factor = op("Reciprocal", op("Sqrt", dimension))
    scores = op("MatMul", query * factor, transpose(key, [*range(rank - 2), rank - 1, rank - 2]))
    if site.causal:
        rows, columns = (
            op("Range", constant(0), reshape(op("Shape", v, result="i64", start=-2, end=-1), []), constant(1))
            for v in (query, key)
        )
        allowed = unsqueeze(columns, [0]) <= unsqueeze(rows, [1])
        scores = where(allowed, scores, -math.inf)
    elif mask is not None and not (mask.rank == 0 and mask.type.is_float):
        if mask.type.kind == "boolean":
            scores = where(mask, scores, -math.inf)
        else:
            scores = scores + cast(mask, scores.type)
    elif mask is not None:
        scores = scores + cast(mask, scores.type)
    if sink is None:
        weights = op("Softmax", scores, axis=-1)
    else:
        lead = op("Shape", scores, result="i64", end=-1)
        column = expand(cast(sink, scores.type), concat([lead, constant([1])]))
        joined = op("Softmax", concat([scores, column], -1), axis=-1)
        weights = slice_axis(joined, 0, -1, -1)
    return op("MatMul", weights, value)
