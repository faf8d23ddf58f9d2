"""Specialized loops compute what the plain kernels compute."""

from __future__ import annotations

import signal
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest
from openvino_modules import import_builder

import irrun
from irrun.fast.loops import SequenceLoop, SequenceStep, iterate_loop, iterate_tensor_iterator
from irrun.fast.vectorization import NotVectorizableError
from irrun.limits import MemoryLimitError, limit_allocations
from irrun.ops._support.context import InputDescription, OutputDescription
from irrun.runtime.executor import Executor

ov = import_builder()
ops = import_builder("openvino.opset13")

F32 = np.float32


def make_random(rng, *shape):
    return (rng.normal(size=shape) / max(1, shape[-1]) ** 0.5).astype(F32)


def get_loop(compiled):
    return next(i for i in compiled._fast_program.instructions if i.operation.type in ("TensorIterator", "Loop"))


def is_sequence(compiled):
    return isinstance(get_loop(compiled).kernel, SequenceLoop)


def compile_both(tmp_path, model):
    path = tmp_path / "model.xml"
    ov.save_model(model, path, compress_to_fp16=False)
    return irrun.compile_model(path), irrun.compile_model(path, optimize=False)


def compare(tmp_path, model, *runs, sequence):
    """Run a model with and without specialized kernels on several lists of inputs, and compare the outputs."""
    fast, plain = compile_both(tmp_path, model)
    assert is_sequence(fast) == sequence
    if not sequence:
        assert get_loop(fast).kernel.func in (iterate_loop, iterate_tensor_iterator)
    for inputs in runs:
        copies = [x.copy() for x in inputs]
        values, expected = fast(inputs).to_tuple(), plain(inputs).to_tuple()
        for value, reference in zip(values, expected, strict=True):
            assert value.dtype == reference.dtype
            assert value.shape == reference.shape
            np.testing.assert_allclose(value, reference, rtol=1e-5, atol=5e-6)
        for value, again in zip(values, fast(inputs).to_tuple(), strict=True):  # by the views of the first run
            np.testing.assert_array_equal(again, value)
            assert again.flags.writeable
        for x, copy in zip(inputs, copies, strict=True):
            np.testing.assert_array_equal(x, copy)
    return fast


def catch_error(compiled, inputs):
    with pytest.raises(irrun.IrrunError) as caught:
        compiled(inputs)
    return str(caught.value)


GATES = {"lstm": 4, "gru": 3, "rnn": 1}


def make_cell(rng, kind, x, states, size, hidden):
    """Return the outputs of a cell with random weights."""
    rows = GATES[kind] * hidden
    weights = [ops.constant(make_random(rng, *shape)) for shape in ((rows, size), (rows, hidden), (rows,))]
    if kind == "lstm":
        return ops.lstm_cell(x, *states, *weights, hidden).outputs()
    if kind == "gru":
        return ops.gru_cell(x, *states, *weights, hidden).outputs()
    return ops.rnn_cell(x, *states, *weights, hidden, ["tanh"], [], []).outputs()


def build_recurrent(
    rng, kind, *, batch, size, hidden, axis=1, step=1, output_step=1, prologue=(), epilogue=(), layers=1
):
    """Build a TensorIterator over cells, with one concatenated output and the last states."""
    shape = [batch, -1, size] if axis == 1 else [-1, batch, size]
    part = [batch, 1, size] if axis == 1 else [1, batch, size]
    data = ops.parameter(shape, F32)
    x = ops.parameter(part, F32)
    value = ops.squeeze(x, ops.constant(np.array([axis])))
    width = size
    for name in prologue:
        if name == "matmul":
            value = ops.matmul(value, ops.constant(make_random(rng, width + 1, width)), False, True)
            width += 1
        elif name == "relu":
            value = ops.relu(value)
        else:
            value = ops.add(value, ops.constant(make_random(rng, *([1, width] if name == "add2" else [width]))))
    parameters, initial, results, merged = [x], [], [], []
    for _ in range(layers):
        states = [ops.parameter([batch, hidden], F32) for _ in range(2 if kind == "lstm" else 1)]
        outer = [ops.parameter([batch, hidden], F32) for _ in states]
        outputs = make_cell(rng, kind, value, states, width, hidden)
        next_states = [ops.result(output) for output in outputs]
        merged += list(zip(states, outer, next_states, strict=True))
        parameters += states
        initial += outer
        results += next_states
        value, width = outputs[0], hidden
    if "tanh" in epilogue:
        value = ops.tanh(value)
    if "project" in epilogue:
        value = ops.matmul(value, ops.constant(make_random(rng, 5, width)), False, True)
    y = ops.result(ops.unsqueeze(value, ops.constant(np.array([axis]))))
    iterator = ops.tensor_iterator()
    iterator.set_body(ov.Model([y, *results], parameters))
    ends = (0, -1) if step > 0 else (-1, 0)
    iterator.set_sliced_input(x, data.output(0), ends[0], step, 1, ends[1], axis)
    for inner, outer, result in merged:
        iterator.set_merged_input(inner, outer.output(0), result.output(0))
    ends = (0, -1) if output_step > 0 else (-1, 0)
    outputs = [iterator.get_concatenated_slices(y.output(0), ends[0], output_step, 1, ends[1], axis)]
    outputs += [iterator.get_iter_value(result.output(0), -1) for result in results]
    return ov.Model([ops.result(output) for output in outputs], [data, *initial])


def make_recurrent_inputs(rng, model, time, axis=1):
    shapes = [[d.get_length() if d.is_static else time for d in p.get_partial_shape()] for p in model.get_parameters()]
    return [make_random(rng, *shape) * 2 for shape in shapes]


@pytest.mark.parametrize(
    ("batch", "time", "size", "hidden"), [(1, 9, 4, 3), (1, 3, 70, 80), (4, 5, 6, 32), (16, 2, 3, 7)]
)
@pytest.mark.parametrize("options", [
    {},
    {"axis": 0},
    {"step": -1, "output_step": -1},
    {"step": -1, "axis": 0},
    {"prologue": ("add", "relu"), "epilogue": ("tanh",)},
    {"prologue": ("matmul", "add2"), "epilogue": ("project",)},
    {"layers": 2},
])  # fmt: skip
@pytest.mark.parametrize("kind", ["lstm", "gru", "rnn"])
def test_loops_around_cells_are_sequences(tmp_path, kind, options, batch, time, size, hidden):
    rng = np.random.default_rng(time)
    model = build_recurrent(rng, kind, batch=batch, size=size, hidden=hidden, **options)
    runs = [make_recurrent_inputs(rng, model, n) for n in (time, 1)]
    compare(tmp_path, model, *runs, sequence=True)


def test_sequences_of_inputs_with_any_layouts(tmp_path):
    """Views are created again for known shapes, whatever the strides of the inputs are."""
    rng = np.random.default_rng(5)
    model = build_recurrent(rng, "lstm", batch=-1, size=4, hidden=3, epilogue=("tanh",))
    runs = []
    for batch, time in [(1, 2), (2, 1), (3, 4), *((1, n) for n in range(3, 20)), (1, 2)]:
        whole, *states = make_random(rng, 2, batch, time, 8), make_random(rng, batch, 6), make_random(rng, 3, batch)
        runs += [[x, states[0][:, ::2], states[1].T] for x in (whole[0, :, :, ::2], whole[1, :, ::-1, :4].copy())]
    compare(tmp_path, model, *runs, sequence=True)


@pytest.mark.falls_back
def test_invalid_inputs_of_a_sequence_are_reported_as_by_the_loop(tmp_path):
    rng = np.random.default_rng(0)
    model = build_recurrent(rng, "lstm", batch=-1, size=3, hidden=4)
    fast, plain = compile_both(tmp_path, model)
    assert is_sequence(fast)
    inputs = [make_random(rng, 2, 5, 3), make_random(rng, 2, 4), make_random(rng, 3, 4)]
    message = catch_error(fast, inputs)
    assert message == catch_error(plain, inputs)
    assert "in iteration 0 of" in message


def build_counted_loop(rng):
    """Build a Loop with a trip count that applies a cell to slices."""
    trips = ops.parameter([], np.int64)
    data = ops.parameter([2, -1, 3], F32)
    h0 = ops.parameter([2, 4], F32)
    x, h = ops.parameter([2, 1, 3], F32), ops.parameter([2, 4], F32)
    (output,) = make_cell(rng, "gru", ops.squeeze(x, ops.constant(np.array([1]))), [h], 3, 4)
    condition, h_next = ops.result(ops.constant(np.array(True))), ops.result(output)
    y = ops.result(ops.unsqueeze(ops.sigmoid(output), ops.constant(np.array([1]))))
    loop = ops.loop(trips, ops.constant(np.array(True)))
    loop.set_function(ov.Model([condition, h_next, y], [x, h]))
    loop.set_special_body_ports([-1, 0])
    loop.set_sliced_input(x, data.output(0), 0, 1, 1, -1, 1)
    loop.set_merged_input(h, h0.output(0), h_next.output(0))
    outputs = [loop.get_concatenated_slices(y.output(0), 0, 1, 1, -1, 1), loop.get_iter_value(h_next.output(0), -1)]
    return ov.Model([ops.result(value) for value in outputs], [trips, data, h0])


def test_loop_with_a_trip_count_around_a_cell_is_a_sequence(tmp_path):
    rng = np.random.default_rng(0)
    inputs = [make_random(rng, 2, 6, 3), make_random(rng, 2, 4)]
    compare(tmp_path, build_counted_loop(rng), *([np.array(n), *inputs] for n in (6, 3, 1)), sequence=True)


@pytest.mark.falls_back
def test_sequence_of_a_loop_has_no_steps_or_too_many(tmp_path):
    rng = np.random.default_rng(0)
    inputs = [make_random(rng, 2, 6, 3), make_random(rng, 2, 4)]
    fast = compare(tmp_path, build_counted_loop(rng), [np.array(0), *inputs], sequence=True)
    assert "iteration 6 is out of range: input 2 has 6 slices" in catch_error(fast, [np.array(7), *inputs])


def build_accumulation(part_size=1, step=1, output_step=1):
    """Build a TensorIterator that adds slices to a state."""
    data, initial = ops.parameter([2, -1, 3], F32), ops.parameter([2, 1, 3], F32)
    x, state = ops.parameter([2, part_size, 3], F32), ops.parameter([2, 1, 3], F32)
    total = ops.add(state, ops.reduce_sum(x, ops.constant(np.array([1])), True))
    y, total_result = ops.result(ops.add(x, total)), ops.result(total)
    iterator = ops.tensor_iterator()
    iterator.set_body(ov.Model([y, total_result], [x, state]))
    ends = (0, -1) if step > 0 else (-1, 0)
    iterator.set_sliced_input(x, data.output(0), ends[0], step, part_size, ends[1], 1)
    iterator.set_merged_input(state, initial.output(0), total_result.output(0))
    ends = (0, -1) if output_step > 0 else (-1, 0)
    outputs = [
        iterator.get_concatenated_slices(y.output(0), ends[0], output_step, part_size, ends[1], 1),
        iterator.get_iter_value(total_result.output(0), -1),
    ]
    return ov.Model([ops.result(output) for output in outputs], [data, initial])


@pytest.mark.parametrize("part_size", [1, 2])
@pytest.mark.parametrize("sign", [1, -1])
@pytest.mark.parametrize("output_sign", [1, -1])
def test_iterations_over_slices(tmp_path, part_size, sign, output_sign):
    rng = np.random.default_rng(0)
    model = build_accumulation(part_size, sign * part_size, output_sign * part_size)
    runs = [[make_random(rng, 2, n, 3), make_random(rng, 2, 1, 3)] for n in (8, 2)]
    compare(tmp_path, model, *runs, sequence=False)


def test_invalid_inputs_of_iterations_are_reported_as_by_the_plain_kernel(tmp_path):
    rng = np.random.default_rng(0)
    fast, plain = compile_both(tmp_path, build_accumulation(2, 2, 2))
    inputs = [make_random(rng, 2, 7, 3), make_random(rng, 2, 1, 3)]
    message = catch_error(fast, inputs)
    assert message == catch_error(plain, inputs)
    assert "cannot be divided into parts of 2" in message


def build_loop(*, limit=None, growing=False, is_failing=False):
    """Build a Loop that counts, with a condition if `limit` is given, and a state that grows if `growing`."""
    trips, initial = ops.parameter([], np.int64), ops.parameter([-1], F32)
    number, state = ops.parameter([], np.int64), ops.parameter([-1], F32)
    value = ops.add(state, ops.convert(number, "f32"))
    if growing:
        value = ops.concat([value, ops.constant(np.array([5], F32))], 0)
    if is_failing:  # from iteration 3 on, the operands have different lengths
        stop = ops.maximum(number, ops.constant(np.array(2)))
        value = ops.add(value, ops.range(ops.constant(np.array(0)), stop, ops.constant(np.array(1)), "f32"))
    if limit is None:
        condition = ops.constant(np.array(True))
    else:
        condition = ops.less(number, ops.constant(np.array(limit)))
    results = [ops.result(condition), ops.result(value), ops.result(ops.multiply(number, ops.constant(np.array(2))))]
    loop = ops.loop(trips, ops.constant(np.array(True)))
    loop.set_function(ov.Model(results, [number, state]))
    loop.set_special_body_ports([0, 0])
    loop.set_merged_input(state, initial.output(0), results[1].output(0))
    outputs = [
        loop.get_concatenated_slices(results[1].output(0), 0, 1, 1, -1, 0),
        loop.get_iter_value(results[1].output(0), -1),
        loop.get_iter_value(results[2].output(0), -1),
    ]
    return ov.Model([ops.result(output) for output in outputs], [trips, initial])


@pytest.mark.parametrize("growing", [False, True])
@pytest.mark.parametrize(("limit", "counts"), [(None, (5, 1, 0)), (4, (3, 9, -1, 0)), (2000, (-1,))])
def test_loops_with_conditions(tmp_path, limit, counts, growing):
    if growing and limit == 2000:
        limit = 40
    model = build_loop(limit=limit, growing=growing)
    compare(tmp_path, model, *([np.array(n), np.zeros(2, F32)] for n in counts), sequence=False)


def test_loops_without_iterations_and_with_invalid_inputs_are_those_of_the_plain_kernel(tmp_path):
    """The number of iterations, the condition and the slices are inputs."""
    trips, start = ops.parameter([-1], np.int64), ops.parameter([-1], np.bool_)
    data, initial = ops.parameter([-1, 3], F32), ops.parameter([1, 3], F32)
    x, state = ops.parameter([1, 3], F32), ops.parameter([1, 3], F32)
    results = [ops.result(ops.constant(np.array(True))), ops.result(ops.add(x, state))]
    loop = ops.loop(trips, start)
    loop.set_function(ov.Model(results, [x, state]))
    loop.set_special_body_ports([-1, 0])
    loop.set_sliced_input(x, data.output(0), 0, 1, 1, -1, 0)
    loop.set_merged_input(state, initial.output(0), results[1].output(0))
    output = loop.get_iter_value(results[1].output(0), -1)
    model = ov.Model([ops.result(output)], [trips, start, data, initial])
    rng = np.random.default_rng(0)
    state = make_random(rng, 1, 3)

    def make_inputs(count, condition, slices):
        return [np.array(count), np.array(condition), make_random(rng, slices, 3), state]

    runs = [([4], [True], 4), ([3], [True], 4), ([0], [True], 4), ([4], [False], 4), ([0], [False], 0)]
    fast = compare(tmp_path, model, *(make_inputs(*run) for run in runs), sequence=False)
    _, plain = compile_both(tmp_path, model)
    for run, message in (
        (([4], [True], 3), "out of range"),
        (([4], [True], 0), "0"),
        (([2, 2], [True], 4), "trip_count"),
        (([2], [True, True], 4), "condition"),
    ):
        inputs = make_inputs(*run)
        error = catch_error(fast, inputs)
        assert error == catch_error(plain, inputs)
        assert message in error


def test_outputs_that_cannot_be_stored_are_refused_in_the_first_iteration(tmp_path):
    fast, _ = compile_both(tmp_path, build_loop())
    with pytest.raises(irrun.InputError, match="the result would take"):
        fast.create_infer_request().infer([np.array(1 << 40), np.zeros(2, F32)], timeout=30)
    _, plain = compile_both(tmp_path, build_accumulation())
    calls = []
    inputs = [np.zeros((2, 100, 3), F32), np.zeros((2, 1, 3), F32)]
    with limit_allocations(1000), pytest.raises(irrun.InputError, match="the result would take"):
        plain(inputs, observers=[lambda layer, *_: calls.append(layer.type)])
    assert calls.count("ReduceSum") == 1


def test_output_of_all_iterations_counts_before_the_second(tmp_path, monkeypatch):
    ov.save_model(build_loop(), tmp_path / "model.xml", compress_to_fp16=False)
    compiled = irrun.compile_model(tmp_path / "model.xml", memory="4M")
    iterations = []
    run = Executor.run

    def record(self, arguments, iteration=0):
        iterations.append(iteration)
        return run(self, arguments, iteration)

    monkeypatch.setattr(Executor, "run", record)
    with pytest.raises(MemoryLimitError, match="expected at most 4 MiB"):
        compiled([np.array(100), np.zeros(1 << 15, F32)])  # the output takes 12.5 MiB
    assert max(iterations) == 0


def test_outputs_of_no_iteration_have_the_declared_type(tmp_path):
    for compiled in compile_both(tmp_path, build_loop()):
        parts, state, number = compiled([np.array(0), np.ones(2, F32)]).to_tuple()
        assert (parts.dtype, parts.shape) == (F32, (0,))
        np.testing.assert_array_equal(state, np.ones(2, F32))
        assert (number.dtype, number.shape, number.item()) == (np.int64, (), 0)


@pytest.mark.falls_back
def test_errors_name_the_iteration(tmp_path):
    fast, plain = compile_both(tmp_path, build_loop(is_failing=True))
    inputs = [np.array(9), np.zeros(2, F32)]
    message = catch_error(fast, inputs)
    assert message == catch_error(plain, inputs)
    assert "in iteration 3 of" in message


#: Runs a loop of many iterations until a timer interrupts it.
INTERRUPTED = """
import signal, sys
import numpy as np
import irrun

def interrupt(*_):
    raise KeyboardInterrupt

compiled = irrun.compile_model(sys.argv[1])
signal.signal(signal.SIGALRM, interrupt)
try:
    signal.setitimer(signal.ITIMER_REAL, 0.3)
    compiled([np.array(10**8), np.zeros(2, np.float32)])
except KeyboardInterrupt:
    print("interrupted")
"""


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="the platform has no interval timers")
def test_long_loops_can_be_interrupted(tmp_path):
    compile_both(tmp_path, build_loop(limit=10**9))
    # In a separate process: the time limits of tests use the same timer.
    command = [sys.executable, "-c", INTERRUPTED, str(tmp_path / "model.xml")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stdout, done.stderr) == (0, "interrupted\n", "")


def test_nested_loops(tmp_path):
    """The body of a Loop contains a TensorIterator around a cell and one that accumulates."""
    rng = np.random.default_rng(0)
    data, h0 = ops.parameter([2, -1, 3], F32), ops.parameter([2, 3], F32)
    inner_data, inner_h = ops.parameter([2, -1, 3], F32), ops.parameter([2, 3], F32)

    def iterate(make_body, source, state):
        x, h = ops.parameter([2, 1, 3], F32), ops.parameter([2, 3], F32)
        result = ops.result(make_body(ops.squeeze(x, ops.constant(np.array([1]))), h))
        iterator = ops.tensor_iterator()
        iterator.set_body(ov.Model([result], [x, h]))
        iterator.set_sliced_input(x, source.output(0), 0, 1, 1, -1, 1)
        iterator.set_merged_input(h, state.output(0), result.output(0))
        return iterator.get_iter_value(result.output(0), -1)

    first = iterate(lambda x, h: make_cell(rng, "gru", x, [h], 3, 3)[0], inner_data, inner_h)
    second = iterate(lambda x, h: ops.tanh(ops.add(x, ops.multiply(h, h))), inner_data, inner_h)
    result = ops.result(ops.add(first, second))
    condition = ops.result(ops.constant(np.array(True)))
    loop = ops.loop(ops.constant(np.array(4)), ops.constant(np.array(True)))
    loop.set_function(ov.Model([condition, result], [inner_data, inner_h]))
    loop.set_special_body_ports([-1, 0])
    loop.set_invariant_input(inner_data, data.output(0))
    loop.set_merged_input(inner_h, h0.output(0), result.output(0))
    model = ov.Model([ops.result(loop.get_iter_value(result.output(0), -1))], [data, h0])
    fast = compare(tmp_path, model, [make_random(rng, 2, 5, 3), make_random(rng, 2, 3)], sequence=False)
    inner = [i for i in get_loop(fast).bodies["body"].program.instructions if i.operation.type == "TensorIterator"]
    assert sorted(isinstance(i.kernel, SequenceLoop) for i in inner) == [False, True]


def test_loop_without_states_is_computed_at_once(tmp_path):
    rng = np.random.default_rng(0)
    data, other = ops.parameter([-1, 2, 3], F32), ops.parameter([2, 1], F32)
    x, invariant = ops.parameter([1, 2, 3], F32), ops.parameter([2, 1], F32)
    value = ops.multiply(ops.transpose(ops.squeeze(x, ops.constant(np.array([0]))), ops.constant(np.array([1, 0]))),
                         ops.reshape(invariant, ops.constant(np.array([1, 2])), False))  # fmt: skip
    value = ops.concat([value, ops.exp(value)], -1)
    y, last, same = ops.result(value), ops.result(ops.add(value, value)), ops.result(ops.add(invariant, invariant))
    iterator = ops.tensor_iterator()
    iterator.set_body(ov.Model([y, last, same], [x, invariant]))
    iterator.set_sliced_input(x, data.output(0), 0, 1, 1, -1, 0)
    iterator.set_invariant_input(invariant, other.output(0))
    outputs = [
        iterator.get_concatenated_slices(y.output(0), 0, 1, 1, -1, 1),
        iterator.get_iter_value(last.output(0), -1),
        iterator.get_concatenated_slices(same.output(0), 0, 1, 1, -1, 0),
    ]
    model = ov.Model([ops.result(output) for output in outputs], [data, other])
    compare(tmp_path, model, [make_random(rng, 5, 2, 3), make_random(rng, 2, 1)], sequence=True)


@pytest.mark.parametrize(("axis", "is_sequence"), [(0, True), (1, False)])
def test_rows_of_a_table_are_looked_up_at_once(tmp_path, axis, is_sequence):
    rng = np.random.default_rng(0)
    data, x = ops.parameter([-1, 2], np.int64), ops.parameter([1, 2], np.int64)
    rows = ops.gather(ops.constant(make_random(rng, 4, 4)), x, ops.constant(np.array(axis)))
    y = ops.result(ops.reshape(rows, ops.constant(np.array([1, -1])), False))
    iterator = ops.tensor_iterator()
    iterator.set_body(ov.Model([y], [x]))
    iterator.set_sliced_input(x, data.output(0), 0, 1, 1, -1, 0)
    output = iterator.get_concatenated_slices(y.output(0), 0, 1, 1, -1, 0)
    model = ov.Model([ops.result(output)], [data])
    compare(tmp_path, model, [rng.integers(0, 4, (5, 2))], sequence=is_sequence)


def build_iteration(kind):
    """Return a model that computes something of each row of x, f32[3,4]."""
    x, bias = ops.parameter([3, 4], np.float32), ops.parameter([1, 4], np.float32)
    row, inner_bias, state = (ops.parameter([1, 4], np.float32) for _ in range(3))
    value = ops.exp(ops.add(row, inner_bias))
    if kind == "state":
        value = ops.add(value, state)
    elif kind == "two outputs":
        value = ops.add(
            *(ops.tanh(part) for part in ops.split(ops.add(row, inner_bias), ops.constant(np.array(1)), 2).outputs())
        )
    result = ops.result(ops.concat([value, value], 1) if kind == "two outputs" else value)
    results = [result]
    parameters = [row, inner_bias]
    iterator = ops.tensor_iterator()
    if kind in ("state", "unused state"):
        parameters.append(state)
        if kind == "unused state":
            results.append(ops.result(ops.relu(row)))
    iterator.set_body(ov.Model(results, parameters, "body"))
    iterator.set_sliced_input(row, x.output(0), 0, 1, 1, -1, 0)
    iterator.set_invariant_input(inner_bias, bias.output(0))
    if state in parameters:
        iterator.set_merged_input(state, bias.output(0), results[-1].output(0))
    if kind == "last":
        output = iterator.get_iter_value(result.output(0), -1)
    else:
        output = iterator.get_concatenated_slices(result.output(0), 0, 1, 1, -1, 0)
    return ov.Model([ops.result(output)], [x, bias])


@pytest.mark.parametrize(
    ("kind", "is_sequence"),
    [("rows", True), ("last", True), ("state", False), ("unused state", True), ("two outputs", False)],
)
def test_iterations_that_do_not_depend_on_each_other_are_computed_at_once(kind, is_sequence, tmp_path):
    ov.save_model(build_iteration(kind), tmp_path / "m.xml", compress_to_fp16=False)
    fast, plain = (irrun.compile_model(tmp_path / "m.xml", optimize=optimize) for optimize in (True, False))
    assert any(isinstance(i.kernel, SequenceLoop) for i in fast._fast_program.instructions) == is_sequence
    rng = np.random.default_rng(0)
    inputs = [rng.normal(size=shape).astype(np.float32) for shape in ((3, 4), (1, 4))]
    np.testing.assert_allclose(fast(inputs)[0], plain(inputs)[0], rtol=1e-5)


def make_sequence_loop(*steps, results=(3,)):
    """Return a loop whose body has the Parameters in the slots 0 and 1, and slots up to 5."""
    inputs = (InputDescription(0, 0, axis=0), InputDescription(1, 1))
    outputs = tuple(OutputDescription(i, i, axis=0) for i in range(len(results)))
    return SequenceLoop(
        (None,) * 6, (0, 1), results, inputs, outputs, steps, frozenset({0, 2, 3, 4}), len(results), False
    )


class CountedStep:
    """A kernel that counts its calls."""

    def __init__(self, function):
        self.function, self.calls = function, 0

    def __call__(self, *values):
        self.calls += 1
        return self.function(*values)


@pytest.mark.parametrize("is_view", [True, False])
def test_views_in_sequences_are_found_once(is_view):
    turn, double = CountedStep(lambda x: x[:, 0]), CountedStep(lambda x: 2 * x)
    again = CountedStep(lambda x: x[:, ::-1])
    first, second = SequenceStep(turn, (0,), (2,), is_view), SequenceStep(double, (2,), (3,))
    loop = make_sequence_loop(first, second, SequenceStep(again, (3,), (4,), is_view), results=(3, 4))
    for seed in range(3):
        x = np.random.default_rng(seed).normal(size=(5, 3)).astype(F32)
        whole, turned = loop(x, x)
        np.testing.assert_array_equal(whole, (2 * x).reshape(-1))
        np.testing.assert_array_equal(turned, (2 * x)[:, ::-1].reshape(-1))
    assert (turn.calls, double.calls, again.calls) == ((1, 3, 1) if is_view else (3, 3, 3))


def test_views_of_other_layouts_are_found_again():
    turn, double = CountedStep(lambda x: x[:, 0]), CountedStep(lambda x: 2 * x)
    loop = make_sequence_loop(SequenceStep(turn, (0,), (2,), True), SequenceStep(double, (2,), (3,)))
    x = np.arange(15, dtype=F32).reshape(5, 3)
    for data in (x, x[:4], x[:, :2], np.asfortranarray(x), x, np.asfortranarray(x)):
        np.testing.assert_array_equal(loop(data, x)[0], 2 * data.reshape(-1))
    assert (turn.calls, double.calls) == (5, 6)  # slices of inputs that are not contiguous are found in each run
    shape = iter([(5, 3), (5, 3), (15,)])
    changing = CountedStep(lambda x: (2 * x).reshape(next(shape)))
    loop = make_sequence_loop(SequenceStep(turn, (0,), (2,), True), SequenceStep(changing, (2,), (3,)))
    loop(x, x)
    loop(x, x)
    with pytest.raises(StopIteration):  # the plan does not fit, so that the steps are computed without it
        loop(x, x)


def test_numbers_of_slices_determine_the_iterations_of_sequences():
    loop = make_sequence_loop(SequenceStep(lambda x: x, (0,), (3,)))
    with pytest.raises(NotVectorizableError):
        loop(np.zeros((0, 3), F32), np.zeros(3, F32))
    unequal = replace(loop, inputs=(InputDescription(0, 0, axis=0), InputDescription(1, 1, axis=0)))
    with pytest.raises(NotVectorizableError):
        unequal(np.zeros((4, 3), F32), np.zeros((5, 3), F32))
    assert unequal(np.ones((4, 3), F32), np.ones((4, 3), F32))[0].shape == (4, 3)
