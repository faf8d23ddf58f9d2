"""Models of loops, recurrent sequences and decoders with random weights, built with OpenVINO's Python API."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import openvino as ov
from openvino import opset13 as ops

__all__ = ["CASES", "GROWTH", "Case", "DecoderShape", "build_decoder"]

RNG = np.random.default_rng(0)
F32 = np.float32


@dataclass(frozen=True)
class Case:
    """A model and its inputs.

    Attributes:
        build: Returns the model.
        make_inputs: Returns its inputs in order.
        target: The largest ratio of run times, irrun to OpenVINO, that is acceptable.
    """

    build: Callable[[], ov.Model]
    make_inputs: Callable[[], list[np.ndarray]]
    target: float = 2.0


def random(*shape: int) -> np.ndarray:
    """Return normally distributed f32 values of a scale that keeps recurrent states bounded."""
    return (RNG.normal(size=shape) / max(1, shape[-1]) ** 0.5).astype(F32)


def _cell_weights(gates: int, inputs: int, hidden: int) -> list[Any]:
    shapes = [(gates * hidden, inputs), (gates * hidden, hidden), (gates * hidden,)]
    return [ops.constant(random(*shape)) for shape in shapes]


def build_lstm_iterator(batch: int, length: int, size: int, hidden: int, *, activated: bool = False) -> ov.Model:
    """Build a TensorIterator over an LSTMCell, as in the specification's second example.

    Args:
        batch: Batch size.
        length: Number of iterations.
        size: Size of the input.
        hidden: Size of the state.
        activated: Whether the body adds a constant and applies ReLU before the cell.
    """
    data = ops.parameter([batch, length, size], F32, name="data")
    h0, c0 = (ops.parameter([batch, hidden], F32, name=name) for name in ("h0", "c0"))
    x = ops.parameter([batch, 1, size], F32)
    h, c = (ops.parameter([batch, hidden], F32) for _ in range(2))
    step = ops.reshape(x, ops.constant(np.array([batch, size])), False)
    if activated:
        step = ops.relu(ops.add(step, ops.constant(random(size))))
    cell = ops.lstm_cell(step, h, c, *_cell_weights(4, size, hidden), hidden)
    y = ops.result(ops.unsqueeze(cell.output(0), ops.constant(np.array([1]))))
    h_next, c_next = (ops.result(cell.output(i)) for i in range(2))
    iterator = ops.tensor_iterator()
    iterator.set_body(ov.Model([y, h_next, c_next], [x, h, c]))
    iterator.set_sliced_input(x, data.output(0), 0, 1, 1, -1, 1)
    iterator.set_merged_input(h, h0.output(0), h_next.output(0))
    iterator.set_merged_input(c, c0.output(0), c_next.output(0))
    outputs = [
        iterator.get_concatenated_slices(y.output(0), 0, 1, 1, -1, 1),
        iterator.get_iter_value(h_next.output(0), -1),
        iterator.get_iter_value(c_next.output(0), -1),
    ]
    return ov.Model([ops.result(output) for output in outputs], [data, h0, c0])


def build_state_iterator(batch: int, length: int, size: int, *, has_cell: bool = False) -> ov.Model:
    """Build a TensorIterator whose iterations depend on each other through more than cells.

    Args:
        batch: Batch size.
        length: Number of iterations.
        size: Size of the input and of the state.
        has_cell: Whether the body has a GRUCell whose input depends on the state.
    """
    data, initial = ops.parameter([length, batch, size], F32), ops.parameter([batch, size], F32)
    x, state = ops.parameter([1, batch, size], F32), ops.parameter([batch, size], F32)
    value = ops.add(ops.squeeze(x, ops.constant(np.array([0]))), ops.multiply(state, ops.constant(F32(0.5))))
    if has_cell:
        value = ops.gru_cell(ops.relu(value), state, *_cell_weights(3, size, size), size)
    result = ops.result(ops.tanh(value))
    step = ops.result(ops.unsqueeze(result.input_value(0), ops.constant(np.array([0]))))
    iterator = ops.tensor_iterator()
    iterator.set_body(ov.Model([result, step], [x, state]))
    iterator.set_sliced_input(x, data.output(0), 0, 1, 1, -1, 0)
    iterator.set_merged_input(state, initial.output(0), result.output(0))
    outputs = [
        iterator.get_iter_value(result.output(0), -1),
        iterator.get_concatenated_slices(step.output(0), 0, 1, 1, -1, 0),
    ]
    return ov.Model([ops.result(output) for output in outputs], [data, initial])


def build_gather_tree(steps: int, batch: int, beams: int) -> ov.Model:
    """Build GatherTree on `[steps, batch, beams]`."""
    ids, parents = (ops.parameter([steps, batch, beams], np.int32) for _ in range(2))
    lengths = ops.parameter([batch], np.int32)
    return ov.Model([ops.gather_tree(ids, parents, lengths, ops.constant(np.int32(0)))], [ids, parents, lengths])


def make_gather_tree_inputs(steps: int, batch: int, beams: int) -> list[np.ndarray]:
    """Return step ids, parent ids and lengths."""
    ids = RNG.integers(1, 100, (steps, batch, beams)).astype(np.int32)
    parents = RNG.integers(0, beams, (steps, batch, beams)).astype(np.int32)
    return [ids, parents, np.full(batch, steps, np.int32)]


def build_lstm_sequence(batch: int, length: int, size: int, hidden: int) -> ov.Model:
    """Build a forward LSTMSequence."""
    data = ops.parameter([batch, length, size], F32)
    h0, c0 = (ops.parameter([batch, 1, hidden], F32) for _ in range(2))
    w, r, b = (ops.constant(v.data[None].copy()) for v in _cell_weights(4, size, hidden))
    lengths = ops.constant(np.full(batch, length, np.int32))
    node = ops.lstm_sequence(data, h0, c0, lengths, w, r, b, hidden, "forward")
    return ov.Model([ops.result(node.output(i)) for i in range(3)], [data, h0, c0])


def build_gru_sequence(batch: int, length: int, size: int, hidden: int) -> ov.Model:
    """Build a bidirectional GRUSequence."""
    data = ops.parameter([batch, length, size], F32)
    h0 = ops.parameter([batch, 2, hidden], F32)
    w, r, b = (ops.constant(random(2, *shape)) for shape in ((3 * hidden, size), (3 * hidden, hidden), (3 * hidden,)))
    lengths = ops.constant(np.full(batch, length, np.int32))
    node = ops.gru_sequence(data, h0, lengths, w, r, b, hidden, "bidirectional")
    return ov.Model([ops.result(node.output(i)) for i in range(2)], [data, h0])


@dataclass(frozen=True)
class DecoderShape:
    """The dimensions of a decoder: by default of a common model of 0.5 B parameters."""

    hidden: int = 896
    layers: int = 24
    heads: int = 14
    kv_heads: int = 2
    feed_forward: int = 4864
    vocabulary: int = 151936
    head_size: int = 64


def build_decoder(shape: DecoderShape, weights: str) -> ov.Model:
    """Build a stateful decoder with a KV cache, as exporters write them.

    Args:
        shape: The dimensions.
        weights: "f32", "f16", "int8" or "int4"; integers are compressed with zero points, int4 in groups of 64.
    """
    ids = ops.parameter([-1, -1], np.int64, name="input_ids")
    positions = ops.parameter([-1, -1], np.int64, name="position_ids")
    beams = ops.parameter([-1], np.int32, name="beam_idx")
    axis0 = ops.constant(np.array(0))

    def make_weight(rows: int, columns: int) -> Any:
        scale = 1 / columns**0.5
        if weights == "f32":
            return ops.constant(RNG.standard_normal((rows, columns), F32) * F32(scale))
        if weights == "f16":
            values = (RNG.standard_normal((rows, columns), F32) * F32(scale)).astype(np.float16)
            return ops.convert(ops.constant(values), "f32")
        bits, group = (8, columns) if weights == "int8" else (4, 64)
        codes_shape = [rows, columns // group, group]
        codes = RNG.integers(0, 256, rows * columns * bits // 8, np.uint8)
        tensor = ov.Tensor(codes, ov.Shape(codes_shape), ov.Type.u8 if bits == 8 else ov.Type.u4)
        make_weight.memory.append(codes)
        centre = 1 << bits - 1
        zeros = np.full((rows, columns // group, 1), centre, np.uint8)
        if bits == 8:
            zero = ops.constant(zeros)
        else:
            packed = np.full((zeros.size + 1) // 2, centre | centre << 4, np.uint8)
            make_weight.memory.append(packed)
            zero = ops.constant(ov.Tensor(packed, ov.Shape(list(zeros.shape)), ov.Type.u4))
        scales = np.full(zeros.shape, 1.7 * scale / centre, np.float16)
        shifted = ops.subtract(ops.convert(ops.constant(tensor), "f16"), ops.convert(zero, "f16"))
        scaled = ops.multiply(shifted, ops.constant(scales))
        flat = ops.reshape(scaled, ops.constant(np.array([rows, columns])), False)
        return ops.convert(flat, "f32")

    make_weight.memory = []

    def normalize(x: Any) -> Any:
        mean = ops.reduce_mean(ops.multiply(x, x), ops.constant(np.array([-1])), True)
        root = ops.sqrt(ops.add(mean, ops.constant(F32(1e-6))))
        gain = ops.constant(np.ones((1, 1, shape.hidden), F32))
        return ops.multiply(ops.multiply(x, ops.divide(ops.constant(F32(1)), root)), gain)

    def project(x: Any, rows: int, columns: int) -> Any:
        return ops.matmul(x, make_weight(rows, columns), False, True)

    def split_heads(x: Any, heads: int) -> Any:
        split = ops.reshape(x, ops.constant(np.array([0, 0, heads, shape.head_size])), True)
        return ops.transpose(split, ops.constant(np.array([0, 2, 1, 3])))

    def rotate(x: Any) -> Any:
        half = shape.head_size // 2
        first, second = ops.split(x, ops.constant(np.array(3)), 2).outputs()
        turned = ops.concat([ops.multiply(second, ops.constant(F32(-1))), first], 3)
        del half
        return ops.add(ops.multiply(x, cosine), ops.multiply(turned, sine))

    def cache(x: Any, name: str) -> tuple[Any, Any]:
        variable = ov.op.util.VariableInfo()
        variable.data_shape = ov.PartialShape([-1, shape.kv_heads, -1, shape.head_size])
        variable.data_type = ov.Type.f32
        variable.variable_id = name
        store = ov.op.util.Variable(variable)
        batch = ops.gather(ops.shape_of(ids), ops.constant(np.array([0])), axis0)
        rest = [ops.constant(np.array([n])) for n in (shape.kv_heads, 0, shape.head_size)]
        initial = ops.broadcast(ops.constant(F32(0)), ops.concat([batch, *rest], 0))
        past = ops.gather(ops.read_value(initial, store), beams, axis0)
        present = ops.concat([past, x], 2)
        sinks.append(ops.assign(present, store))
        return present, past

    frequencies = (1e6 ** -(np.arange(shape.head_size // 2) * 2 / shape.head_size)).astype(F32)
    angles = ops.multiply(
        ops.unsqueeze(ops.convert(positions, "f32"), ops.constant(np.array([1, 3]))),
        ops.constant(np.concatenate([frequencies, frequencies])[None, None, None]),
    )
    cosine, sine = ops.cos(angles), ops.sin(angles)
    sinks: list[Any] = []
    embedding = make_weight(shape.vocabulary, shape.hidden)
    x = ops.gather(embedding, ids, axis0)
    groups = shape.heads // shape.kv_heads
    for n in range(shape.layers):
        y = normalize(x)
        q = rotate(split_heads(project(y, shape.heads * shape.head_size, shape.hidden), shape.heads))
        k = rotate(split_heads(project(y, shape.kv_heads * shape.head_size, shape.hidden), shape.kv_heads))
        v = split_heads(project(y, shape.kv_heads * shape.head_size, shape.hidden), shape.kv_heads)
        (k, _), (v, _) = cache(k, f"past_key.{n}"), cache(v, f"past_value.{n}")
        target = ops.constant(np.array([1, 1, groups, 1, 1]))
        flat = ops.constant(np.array([0, shape.heads, -1, shape.head_size]))
        k, v = (
            ops.reshape(
                ops.broadcast(ops.unsqueeze(z, ops.constant(np.array([2]))), target, broadcast_spec="BIDIRECTIONAL"),
                flat,
                True,
            )
            for z in (k, v)
        )
        total, new = (ops.gather(ops.shape_of(z), ops.constant(np.array(2)), axis0) for z in (k, q))
        columns = ops.range(ops.constant(np.array(0)), total, ops.constant(np.array(1)), "i64")
        rows = ops.range(ops.subtract(total, new), total, ops.constant(np.array(1)), "i64")
        visible = ops.less_equal(columns, ops.unsqueeze(rows, ops.constant(np.array(1))))
        attended = ops.scaled_dot_product_attention(q, k, v, ops.unsqueeze(visible, ops.constant(np.array([0, 1]))))
        merged = ops.reshape(
            ops.transpose(attended, ops.constant(np.array([0, 2, 1, 3]))),
            ops.constant(np.array([0, 0, shape.heads * shape.head_size])),
            True,
        )
        x = ops.add(x, project(merged, shape.hidden, shape.heads * shape.head_size))
        y = normalize(x)
        gate = ops.swish(project(y, shape.feed_forward, shape.hidden))
        up = project(y, shape.feed_forward, shape.hidden)
        x = ops.add(x, project(ops.multiply(gate, up), shape.hidden, shape.feed_forward))
    logits = ops.matmul(normalize(x), embedding, False, True)
    result = ops.result(logits)
    model = ov.Model([result], sinks, [ids, positions, beams])
    model.memory = make_weight.memory  # the tensors do not own it
    return model


def _recurrent_inputs(batch: int, length: int, size: int, hidden: int) -> Callable[[], list[np.ndarray]]:
    return lambda: [random(batch, length, size), random(batch, hidden), random(batch, hidden)]


def _sequence_inputs(batch: int, length: int, size: int, hidden: int, states: int, directions: int = 1) -> Any:
    return lambda: [random(batch, length, size), *(random(batch, directions, hidden) for _ in range(states))]


def _make_date_inputs() -> list[np.ndarray]:
    return [np.load(Path(__file__).parents[1] / "examples/date_translation/input.npy")]


def _read_date_model() -> ov.Model:
    return ov.Core().read_model(Path(__file__).parents[1] / "examples/date_translation/model.xml")


def _iterator_case(*shape: int, target: float = 2.0, activated: bool = False) -> Case:
    return Case(lambda: build_lstm_iterator(*shape, activated=activated), _recurrent_inputs(*shape), target)


def _state_case(batch: int, length: int, size: int, *, has_cell: bool = False) -> Case:
    return Case(
        lambda: build_state_iterator(batch, length, size, has_cell=has_cell),
        lambda: [random(length, batch, size), random(batch, size)],
    )


def _tree_case(*shape: int) -> Case:
    return Case(lambda: build_gather_tree(*shape), lambda: make_gather_tree_inputs(*shape), 4.0)


CASES: dict[str, Case] = {
    "date translator": Case(_read_date_model, _make_date_inputs),
    "TensorIterator LSTM [1,25,512]->256": _iterator_case(1, 25, 512, 256),
    "TensorIterator LSTM [16,100,512]->256": _iterator_case(16, 100, 512, 256),
    "TensorIterator LSTM 2000 x 16": _iterator_case(1, 2000, 16, 16, target=6.0),
    "TensorIterator Add+ReLU+LSTM [4,200,64]->64": _iterator_case(4, 200, 64, 64, activated=True),
    "TensorIterator of a state [1,1000,16]": _state_case(1, 1000, 16),
    "TensorIterator GRU of a state [4,50,256]": _state_case(4, 50, 256, has_cell=True),
    "GatherTree [100,1,10]": _tree_case(100, 1, 10),
    "GatherTree [100,64,10]": _tree_case(100, 64, 10),
    "GatherTree [500,16,5]": _tree_case(500, 16, 5),
    "LSTMSequence [4,200,512]->256": Case(
        lambda: build_lstm_sequence(4, 200, 512, 256), _sequence_inputs(4, 200, 512, 256, 2)
    ),
    "LSTMSequence [1,25,512]->256": Case(
        lambda: build_lstm_sequence(1, 25, 512, 256), _sequence_inputs(1, 25, 512, 256, 2)
    ),
    "GRUSequence [2,100,80]->128 bidirectional": Case(
        lambda: build_gru_sequence(2, 100, 80, 128), _sequence_inputs(2, 100, 80, 128, 1, 2)
    ),
}


def _sequence_case(batch: int, length: int, size: int, hidden: int) -> Case:
    return Case(
        lambda: build_lstm_sequence(batch, length, size, hidden),
        _sequence_inputs(batch, length, size, hidden, 2),
    )


#: Quantity -> its value -> a case, for measuring how time grows.
GROWTH: dict[str, dict[int, Case]] = {
    "iterations of a loop, [1, n, 16] -> 16": {n: _iterator_case(1, n, 16, 16) for n in (1, 10, 100, 1000, 10_000)},
    "iterations of a loop of a state, [1, n, 16]": {n: _state_case(1, n, 16) for n in (10, 100, 1000, 10_000, 100_000)},
    "batch of a loop of a state, GRU [n, 50, 256]": {n: _state_case(n, 50, 256, has_cell=True) for n in (1, 4, 16, 64)},
    "size of a loop of a state, GRU [2, 20, n]": {
        n: _state_case(2, 20, n, has_cell=True) for n in (16, 64, 256, 1024, 2048)
    },
    "batch of a loop, [n, 50, 256] -> 256": {n: _iterator_case(n, 50, 256, 256) for n in (1, 4, 16, 64)},
    "length of an LSTMSequence, [1, n, 128] -> 128": {n: _sequence_case(1, n, 128, 128) for n in (64, 512, 4096)},
    "batch of an LSTMSequence, [n, 50, 256] -> 256": {n: _sequence_case(n, 50, 256, 256) for n in (1, 4, 16, 64)},
}
