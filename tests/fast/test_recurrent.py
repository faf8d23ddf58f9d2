"""Specialized recurrent cells and sequences compute what the plain kernels compute."""

from __future__ import annotations

import importlib.util

import numpy as np
import pytest
from openvino_modules import import_builder

import irrun
from irrun.fast.errors import NoKernelError
from irrun.fast.recurrent import RecurrentSequence, run_whole_direction, sequences
from irrun.fast.recurrent.matrices import PartedMatrix
from irrun.fast.recurrent.preparation import _prepare_lstm
from irrun.ops._support.checks import read_lengths

ov = import_builder()
ops = import_builder("openvino.opset13")

pytestmark = pytest.mark.usefixtures("own_kernel_cache")

F32 = np.float32
HAS_LLVM = importlib.util.find_spec("llvmlite") is not None
GATES = {"lstm": 4, "gru": 3, "rnn": 1}


def make_random(rng, *shape):
    return (rng.normal(size=shape) / max(1, shape[-1]) ** 0.5).astype(F32)


def find_instruction(compiled, type):
    return next(i for i in compiled._fast_program.instructions if i.operation.type == type)


def compare(tmp_path, model, inputs, type, *, is_specialized=True):
    """Run a model with and without specialized kernels and compare the outputs."""
    path = tmp_path / "model.xml"
    ov.save_model(model, path, compress_to_fp16=False)
    fast, plain = irrun.compile_model(path), irrun.compile_model(path, optimize=False)
    instruction = find_instruction(fast, type)
    assert (instruction.kernel is not instruction.operation.kernel) == is_specialized
    copies = [x.copy() for x in inputs]
    outputs = fast(inputs).to_tuple()
    for value, expected in zip(outputs, plain(inputs).to_tuple(), strict=True):
        assert value.dtype == expected.dtype
        np.testing.assert_allclose(value, expected, rtol=1e-5, atol=2e-6)
    for value, again in zip(outputs, fast(inputs).to_tuple(), strict=True):
        np.testing.assert_array_equal(value, again)
    if HAS_LLVM:
        compare_compiled(path, inputs, plain)
    for x, copy in zip(inputs, copies, strict=True):
        np.testing.assert_array_equal(x, copy)
    return fast


def compare_compiled(path, inputs, plain):
    """Run a model with compiled steps, and compare the outputs and their bits for several numbers of threads."""
    results = [irrun.compile_model(path, jit=True, threads=threads)(inputs).to_tuple() for threads in (1, 2)]
    for value, other, expected in zip(*results, plain(inputs).to_tuple(), strict=True):
        np.testing.assert_allclose(value, expected, rtol=1e-5, atol=2e-6)
        np.testing.assert_array_equal(value, other)


def build_sequence(rng, kind, size, hidden, direction, lengths=None, linear_before_reset=False, **options):
    """Build a sequence; its lengths are an input unless they are passed."""
    directions = 2 if direction == "bidirectional" else 1
    rows = GATES[kind] * hidden
    data = ops.parameter([-1, -1, size], F32)
    states = [ops.parameter([-1, directions, hidden], F32) for _ in range(2 if kind == "lstm" else 1)]
    length = ops.parameter([-1], np.int32) if lengths is None else ops.constant(np.array(lengths, np.int32))
    biases = rows + hidden * linear_before_reset
    shapes = [(directions, rows, size), (directions, rows, hidden), (directions, biases)]
    weights = [ops.constant(make_random(rng, *shape)) for shape in shapes]
    if kind == "gru":
        options["linear_before_reset"] = linear_before_reset
    build = {"lstm": ops.lstm_sequence, "gru": ops.gru_sequence, "rnn": ops.rnn_sequence}[kind]
    node = build(data, *states, length, *weights, hidden, direction, **options)
    parameters = [data, *states, *([length] if lengths is None else [])]
    return ov.Model([ops.result(output) for output in node.outputs()], parameters)


KINDS = [("lstm", False), ("gru", False), ("gru", True), ("rnn", False)]
SIZES = [(1, 7, 5, 3), (1, 3, 40, 64), (2, 5, 7, 33), (3, 9, 1, 20), (4, 2, 12, 128), (16, 3, 8, 96), (5, 4, 3, 1)]


@pytest.mark.parametrize(("batch", "time", "size", "hidden"), SIZES)
@pytest.mark.parametrize("direction", ["forward", "reverse", "bidirectional"])
@pytest.mark.parametrize(("kind", "linear_before_reset"), KINDS)
def test_sequences(tmp_path, kind, linear_before_reset, direction, batch, time, size, hidden):
    rng = np.random.default_rng(batch * 100 + time)
    directions = 2 if direction == "bidirectional" else 1
    model = build_sequence(rng, kind, size, hidden, direction, linear_before_reset=linear_before_reset)
    states = [make_random(rng, batch, directions, hidden) for _ in range(2 if kind == "lstm" else 1)]
    data = make_random(rng, batch, time, size) * 3
    type = f"{kind.upper()}Sequence"
    for lengths in (np.full(batch, time), rng.integers(0, time + 1, batch)):
        compare(tmp_path, model, [data, *states, lengths.astype(np.int32)], type)


@pytest.mark.parametrize("hidden", [256, 257])
@pytest.mark.parametrize("batch", [1, 4, 16])
def test_large_sequences_with_constant_lengths(tmp_path, batch, hidden):
    rng = np.random.default_rng(0)
    model = build_sequence(rng, "lstm", 24, hidden, "forward", [600 // batch] * batch)
    inputs = [make_random(rng, batch, 600 // batch, 24), *(make_random(rng, batch, 1, hidden) for _ in range(2))]
    compare(tmp_path, model, inputs, "LSTMSequence")


@pytest.mark.falls_back
def test_sequence_of_length_zero_and_wrong_lengths(tmp_path):
    rng = np.random.default_rng(0)
    model = build_sequence(rng, "gru", 3, 4, "forward")
    inputs = [np.zeros((2, 0, 3), F32), make_random(rng, 2, 1, 4), np.zeros(2, np.int32)]
    fast = compare(tmp_path, model, inputs, "GRUSequence")
    with pytest.raises(irrun.IrrunError, match=r"sequence_lengths is \[9, 1\]"):
        fast([np.zeros((2, 5, 3), F32), make_random(rng, 2, 1, 4), np.array([9, 1], np.int32)])
    with pytest.raises(irrun.IrrunError, match="initial_hidden_state has shape"):
        fast([np.zeros((2, 5, 3), F32), make_random(rng, 3, 1, 4), np.array([5, 1], np.int32)])


@pytest.mark.parametrize("options", [{"clip": 0.5}, {"activations": ["sigmoid", "relu", "tanh"]}])
def test_other_attributes_are_left_to_the_plain_kernel(tmp_path, options):
    rng = np.random.default_rng(0)
    defaults = {"activations": ["sigmoid", "tanh", "tanh"], "activations_alpha": [], "activations_beta": []}
    model = build_sequence(rng, "lstm", 3, 4, "forward", [5, 5], **{**defaults, **options})
    inputs = [make_random(rng, 2, 5, 3), make_random(rng, 2, 1, 4), make_random(rng, 2, 1, 4)]
    compare(tmp_path, model, inputs, "LSTMSequence", is_specialized=False)


def build_cell(rng, kind, size, hidden, *, linear_before_reset=False):
    """Build a cell."""
    rows = GATES[kind] * hidden
    data = ops.parameter([-1, size], F32)
    states = [ops.parameter([-1, hidden], F32) for _ in range(2 if kind == "lstm" else 1)]
    shapes = [(rows, size), (rows, hidden), (rows + hidden * linear_before_reset,)]
    weights = [ops.constant(make_random(rng, *shape)) for shape in shapes]
    if kind == "lstm":
        node = ops.lstm_cell(data, *states, *weights, hidden)
    elif kind == "gru":
        node = ops.gru_cell(data, *states, *weights, hidden, linear_before_reset=linear_before_reset)
    else:
        node = ops.rnn_cell(data, *states, *weights, hidden, ["tanh"], [], [])
    return ov.Model([ops.result(output) for output in node.outputs()], [data, *states])


@pytest.mark.parametrize(("batch", "size", "hidden"), [(1, 3, 5), (1, 64, 64), (4, 32, 128), (3, 9, 31), (16, 7, 256)])
@pytest.mark.parametrize(("kind", "linear_before_reset"), KINDS)
def test_cells(tmp_path, kind, linear_before_reset, batch, size, hidden):
    rng = np.random.default_rng(batch)
    model = build_cell(rng, kind, size, hidden, linear_before_reset=linear_before_reset)
    states = [make_random(rng, batch, hidden) for _ in range(2 if kind == "lstm" else 1)]
    compare(tmp_path, model, [make_random(rng, batch, size) * 3, *states], f"{kind.upper()}Cell")


@pytest.mark.falls_back
@pytest.mark.parametrize(("kind", "linear_before_reset"), KINDS)
def test_cells_refuse_states_of_other_batches(tmp_path, kind, linear_before_reset):
    rng = np.random.default_rng(0)
    model = build_cell(rng, kind, 3, 5, linear_before_reset=linear_before_reset)
    states = [make_random(rng, 2, 5) for _ in range(2 if kind == "lstm" else 1)]
    fast = compare(tmp_path, model, [make_random(rng, 2, 3), *states], f"{kind.upper()}Cell")
    with pytest.raises(irrun.IrrunError, match="initial_hidden_state has shape"):
        fast([make_random(rng, 3, 3), *states])


@pytest.mark.skipif(not HAS_LLVM, reason="llvmlite is not installed")
@pytest.mark.parametrize(("kind", "linear_before_reset"), KINDS)
def test_steps_are_compiled(tmp_path, monkeypatch, kind, linear_before_reset):
    """Every number of rows up to the largest tile, with whole and ragged units, on one thread or several."""
    from irrun.fast.jit import recurrences
    from irrun.fast.jit.compiler import get_lanes

    monkeypatch.setattr(recurrences, "MIN_SHARED_SIZE", 1)
    rng = np.random.default_rng(3)
    hidden = 3 * get_lanes() - 1
    for size in (hidden, hidden + 1):
        model = build_sequence(rng, kind, 5, size, "forward", linear_before_reset=linear_before_reset)
        path = tmp_path / "model.xml"
        ov.save_model(model, path, compress_to_fp16=False)
        plain = irrun.compile_model(path, optimize=False)
        compiled = [irrun.compile_model(path, jit=True, threads=threads) for threads in (1, 2, 4)]
        instruction = find_instruction(compiled[0], f"{kind.upper()}Sequence")
        assert isinstance(instruction.kernel, RecurrentSequence)
        assert instruction.description == "compiled: steps of recurrences"
        for batch in range(1, 15):
            states = [make_random(rng, batch, 1, size) for _ in range(2 if kind == "lstm" else 1)]
            inputs = [make_random(rng, batch, 3, 5) * 3, *states, np.full(batch, 3, np.int32)]
            results = zip(*(model(inputs).to_tuple() for model in (plain, *compiled)), strict=True)
            for expected, value, *others in results:
                np.testing.assert_allclose(value, expected, rtol=1e-5, atol=2e-6)
                for other in others:
                    np.testing.assert_array_equal(value, other)


@pytest.mark.skipif(not HAS_LLVM, reason="llvmlite is not installed")
@pytest.mark.parametrize(("kind", "linear_before_reset"), KINDS)
@pytest.mark.parametrize("direction", ["forward", "reverse"])
def test_compiled_steps_in_several_blocks(tmp_path, monkeypatch, kind, linear_before_reset, direction):
    from irrun.fast.jit import recurrences

    monkeypatch.setattr(recurrences, "PROJECTION_SIZE", 1)
    monkeypatch.setattr(recurrences, "MIN_BLOCK_ROWS", 10)
    rng = np.random.default_rng(4)
    model = build_sequence(rng, kind, 5, 20, direction, linear_before_reset=linear_before_reset)
    for time, lengths in ((5, [5, 5, 5]), (4, [4, 4, 4]), (13, [13, 13, 13]), (9, [9, 2, 5])):
        states = [make_random(rng, 3, 1, 20) for _ in range(2 if kind == "lstm" else 1)]
        inputs = [make_random(rng, 3, time, 5) * 3, *states, np.array(lengths, np.int32)]
        compare(tmp_path, model, inputs, f"{kind.upper()}Sequence")


@pytest.mark.skipif(not HAS_LLVM, reason="llvmlite is not installed")
@pytest.mark.parametrize("has_bias", [False, True])
@pytest.mark.parametrize(("size", "columns"), [(5, 64), (300, 192), (1, 7)])
def test_projections_of_inputs_with_any_strides(size, columns, has_bias):
    """The same rows have the same bits, wherever they are and however many threads multiply them."""
    from irrun.fast.jit.projections import Projection
    from irrun.threads import use_threads

    rng = np.random.default_rng(5)
    weights, bias = make_random(rng, size, columns), make_random(rng, columns) if has_bias else None
    project = Projection(weights, bias)
    for batch, time in [(1, 1), (1, 40), (3, 1), (2, 17), (3, 9), (5, 33), (2, 400)]:
        data = make_random(rng, batch, time, size)
        wide = np.zeros((batch, time, 2 * size), F32)
        wide[:, :, :size] = data
        shifted = np.zeros(data.nbytes + 1, np.uint8)[1:].view(F32).reshape(data.shape)
        shifted[...] = data
        expected = data.transpose(1, 0, 2) @ weights + (0 if bias is None else bias)
        layouts = [data, data[:, ::-1].copy()[:, ::-1], wide[:, :, :size], np.asfortranarray(data), shifted]
        layouts = [x.transpose(1, 0, 2) for x in layouts] + [np.array(data.transpose(1, 0, 2))]
        results = []
        for threads in (1, 2, 4):
            with use_threads(threads):
                results += [project(x) for x in layouts]
        for result in results:
            np.testing.assert_allclose(result, expected, rtol=1e-5, atol=1e-5)
            np.testing.assert_array_equal(result, results[0])


@pytest.mark.skipif(not HAS_LLVM, reason="llvmlite is not installed")
def test_not_a_number_stays(tmp_path):
    rng = np.random.default_rng(3)
    path = tmp_path / "model.xml"
    ov.save_model(build_sequence(rng, "lstm", 5, 20, "forward", [4, 4]), path, compress_to_fp16=False)
    inputs = [make_random(rng, 2, 4, 5), *(make_random(rng, 2, 1, 20) for _ in range(2))]
    inputs[0][1, 2, 3] = np.nan
    outputs, _, _ = irrun.compile_model(path, jit=True)(inputs).to_tuple()
    assert not np.isnan(outputs[0]).any()
    assert not np.isnan(outputs[1, :, :2]).any()
    assert np.isnan(outputs[1, :, 2:]).all()


@pytest.mark.parametrize("value", [np.inf, -np.inf])
@pytest.mark.parametrize("hidden", [3, 33])
@pytest.mark.parametrize(("kind", "linear_before_reset"), KINDS)
def test_infinite_inputs_saturate_gates_and_leave_other_steps_finite(
    tmp_path, kind, linear_before_reset, hidden, value
):
    rng = np.random.default_rng(hidden)
    model = build_sequence(rng, kind, 4, hidden, "forward", linear_before_reset=linear_before_reset)
    states = [make_random(rng, 2, 1, hidden) for _ in range(2 if kind == "lstm" else 1)]
    data = make_random(rng, 2, 6, 4)
    data[0, 1, 2] = data[1, 0, 0] = value
    fast = compare(tmp_path, model, [data, *states, np.array([6, 5], np.int32)], kind.upper() + "Sequence")
    assert np.isfinite(fast([data, *states, np.array([6, 5], np.int32)])[0]).all()


@pytest.mark.parametrize("batch", [1, 5])
def test_results_do_not_depend_on_the_number_of_threads(tmp_path, batch):
    rng = np.random.default_rng(0)
    model = build_sequence(rng, "lstm", 300, 250, "bidirectional", [90] * batch)
    path = tmp_path / "model.xml"
    ov.save_model(model, path, compress_to_fp16=False)
    inputs = [make_random(rng, batch, 90, 300), *(make_random(rng, batch, 2, 250) for _ in range(2))]
    results = [irrun.compile_model(path, threads=threads)(inputs).to_tuple() for threads in (1, 2, 3)]
    for other in results[1:]:
        for value, expected in zip(other, results[0], strict=True):
            np.testing.assert_array_equal(value, expected)


@pytest.mark.parametrize("kind", ["lstm", "gru", "rnn"])
@pytest.mark.parametrize(
    ("lengths", "is_read"), [([4, 4], False), ([4, 3], True), ([3, 3], True), (None, True)], ids=str
)
def test_lengths_are_not_read_if_all_are_constant_and_that_of_the_data(tmp_path, monkeypatch, kind, lengths, is_read):
    rng = np.random.default_rng(0)
    model = build_sequence(rng, kind, 3, 5, "forward", lengths)
    inputs = [make_random(rng, 2, 4, 3), *[make_random(rng, 2, 1, 5)] * (2 if kind == "lstm" else 1)]
    inputs += [] if lengths else [np.array([4, 4], np.int32)]
    path = tmp_path / "model.xml"
    ov.save_model(model, path, compress_to_fp16=False)
    calls = []

    def count_calls(*arguments):
        calls.append(arguments)
        return read_lengths(*arguments)

    monkeypatch.setattr(sequences, "read_lengths", count_calls)
    irrun.compile_model(path)(inputs)
    assert len(calls) == is_read


@pytest.mark.parametrize(
    ("size", "hidden", "is_small"), [(39, 32, True), (40, 32, False), (127, 16, True), (128, 16, False)]
)
def test_weights_of_small_cells_are_multiplied_together(size, hidden, is_small):
    rng = np.random.default_rng(0)
    W, R, B = (make_random(rng, 4 * hidden, *columns) for columns in ((size,), (hidden,), ()))
    for biases in (B, None):
        weights = _prepare_lstm(W, R, biases)
        assert (weights.combined is not None) == is_small
        if weights.combined is not None:
            assert weights.combined.shape == (size + 1 + hidden, 4 * hidden)
            assert weights.combined[size].any() == (biases is not None)


@pytest.mark.parametrize(
    ("hidden", "columns", "batch", "parts"),
    [
        (128, 128, 16, 1),  # 262,144 multiplications
        (128, 128, 17, 2),
        (128, 128, 64, 4),
        (128, 128, 1000, 8),  # rows of 16 elements
        (48, 1 << 20, 1, 3),
        (36, 1 << 20, 1, 2),
        (20, 1 << 20, 1, 1),
        (10, 1 << 20, 1, 1),
    ],
)
def test_products_with_states_are_divided_into_small_ones(hidden, columns, batch, parts):
    matrix = PartedMatrix(np.broadcast_to(F32(0), (2 * hidden, 1)), 2)
    matrix.matrix = np.broadcast_to(F32(0), (2 * hidden, columns))
    assert matrix.count_parts(batch) == parts


@pytest.mark.parametrize(
    ("x", "states", "y", "reason"),
    [
        ((4, 2, 3), [(2, 5), (2, 5)], (4, 2, 5), ""),
        ((4, 2, 4), [(2, 5), (2, 5)], (4, 2, 5), r"X has shape \(4, 2, 4\), expected \(4, 2, 3\)"),
        ((3, 2, 3), [(2, 5), (2, 5)], (4, 2, 5), "X has shape"),
        ((4, 2, 3), [(2, 5), (2, 5)], (4, 2, 6), "X has shape"),
        ((4, 0, 3), [(0, 5), (0, 5)], (4, 0, 5), "X has shape"),
        ((4, 2, 3), [(2, 5)], (4, 2, 5), r"the states do not have the shape \(2, 5\)"),
        ((4, 2, 3), [(2, 5), (1, 5)], (4, 2, 5), "the states do not have the shape"),
        ((4, 2, 3), [(2, 6), (2, 5)], (4, 2, 5), "the states do not have the shape"),
    ],
)
def test_inputs_of_other_shapes_are_refused(x, states, y, reason):
    rng = np.random.default_rng(0)
    weights = _prepare_lstm(*(make_random(rng, 20, *columns) for columns in ((3,), (5,), ())))
    X, Y, initial = np.zeros(x, F32), np.zeros(y, F32), [np.zeros(shape, F32) for shape in states]
    if not reason:
        assert [s.shape for s in run_whole_direction(weights, X, initial, Y)] == states
        with pytest.raises(NoKernelError, match="X has shape"):
            run_whole_direction(weights, X.astype(np.float64), initial, Y)
        with pytest.raises(NoKernelError, match="the states do not have the shape"):
            run_whole_direction(weights, X, [initial[0], initial[1].astype(np.float64)], Y)
    else:
        with pytest.raises(NoKernelError, match=reason):
            run_whole_direction(weights, X, initial, Y)
