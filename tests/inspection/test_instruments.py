"""Instruments with a clock of whole seconds, and their numbers in profiles."""

from __future__ import annotations

import importlib
import inspect
import itertools
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from ir_text import chain, write, write_row_loop

import irrun
from inspection.graphs import Row, make_model
from irrun.inspection import instruments
from irrun.inspection.instruments import FlopCounter, InstructionRecord, KernelTimer, MemoryMeter
from irrun.inspection.keys import KeyTable
from irrun.inspection.machine import Machine, measure_machine
from irrun.inspection.profile_layers import LayerProfiler

X = np.ones((2, 3), np.float32)
EXECUTOR = SimpleNamespace(owners=(), get_scope=lambda: ())

pytestmark = pytest.mark.usefixtures("known_machine")


@pytest.fixture
def _clock(monkeypatch):
    """Replace the clock by one that advances by a second in each call."""
    seconds = itertools.count()
    monkeypatch.setattr(instruments, "perf_counter", lambda: float(next(seconds)))


def time_loop(folder):
    """Run a loop of two iterations twice, and return the timer."""
    timer = KernelTimer()
    request = irrun.compile_model(write_row_loop(folder), optimize=False).create_infer_request(timer)
    for _ in range(2):
        timer.start_run()
        request.infer(X)
        timer.finish_run(10.0)
    return timer


@pytest.mark.usefixtures("_clock")
def test_times_of_bodies_are_not_those_of_their_owners(tmp_path):
    timer = time_loop(tmp_path)
    records = {record.instruction.layer.name: record for record in timer.records}
    assert list(records) == ["it", "layer1"]
    assert (records["it"].runs, records["it"].calls) == ([3, 3], 1)  # 5 seconds, of which its body takes 2
    assert (records["layer1"].runs, records["layer1"].calls) == ([2, 2], 2)
    assert timer.totals == [10, 10]
    assert timer.kernel_totals == [5, 5]
    events = [(e.instruction.layer.name, e.start, e.end, [n for _, n in e.scope]) for e in timer.events]
    assert events == [("layer1", 7, 8, [0]), ("layer1", 9, 10, [1]), ("it", 6, 11, [])]
    assert timer.events[0].scope[0][0].name == "it"
    assert timer.dropped == 0


@pytest.mark.usefixtures("_clock")
def test_events_are_limited(tmp_path, monkeypatch):
    monkeypatch.setattr(instruments, "MAX_EVENTS", 2)
    timer = time_loop(tmp_path)
    assert [e.instruction.layer.name for e in timer.events] == ["layer1", "layer1"]
    assert timer.dropped == 1


@pytest.mark.usefixtures("_clock")
def test_failures_and_kernels_that_appear_later_are_recorded():
    first, second = (SimpleNamespace(layer=name) for name in "ab")

    def fail():
        raise KeyboardInterrupt

    timer = KernelTimer()
    kernel = timer.wrap(fail, first, EXECUTOR)
    with pytest.raises(KeyboardInterrupt):
        kernel()
    assert timer.events[0] == instruments.Event(first, 0.0, 1.0, ())
    timer.finish_run(3.0)
    (record,) = timer.records
    assert (record.runs, record.seconds, record.calls, record.failures) == ([1.0], 1.0, 1, 1)
    timer.start_run()
    assert (record.seconds, record.calls, record.failures) == (0.0, 0, 0)
    assert timer.events == []
    late = timer.wrap(lambda x: 2 * x, second, EXECUTOR)
    assert late(3) == 6
    assert timer.wrap(lambda x: 3 * x, second, EXECUTOR)(3) == 9
    timer.finish_run(4.0)
    assert [record.instruction for record in timer.records] == [first, second]
    assert [(r.runs, r.calls, r.failures) for r in timer.records] == [([1, 0], 0, 0), ([0, 2], 2, 0)]
    assert timer.totals == [3, 4]
    assert timer.kernel_totals == [1, 2]


@pytest.mark.usefixtures("_clock")
def test_instructions_that_run_only_in_warm_ups_are_not_recorded():
    timer = KernelTimer()
    instructions = [SimpleNamespace(layer=name) for name in "ab"]
    kernels = [timer.wrap(lambda: None, instruction, EXECUTOR) for instruction in instructions]
    kernels[0]()
    timer.finish_run(1.0, is_counted=False)
    assert timer.records == []
    assert timer.totals == timer.kernel_totals == []
    timer.start_run()
    kernels[1]()
    timer.finish_run(2.0)
    assert [id(record.instruction) for record in timer.records] == [id(instructions[1])]
    assert timer.totals == [2]


# Memory


def measure_memory(compiled, *inputs, runs=1):
    meter = MemoryMeter()
    request = compiled.create_infer_request(meter)
    for _ in range(runs):
        request.infer(list(inputs))
    return {record.instruction.layer.name: record for record in meter.records.values()}, meter


def test_bytes_add_up_over_calls_and_runs(tmp_path):
    loop = irrun.compile_model(write_row_loop(tmp_path), optimize=False)
    records, meter = measure_memory(loop, X)
    assert (records["layer1"].calls, records["layer1"].bytes) == (2, 2 * (12 + 12))
    assert records["layer1"].outputs == ((np.dtype(np.float32), (1, 3)),)
    assert (records["it"].calls, records["it"].bytes, records["it"].outputs[0][1]) == (1, 48, (2, 3))
    assert [owner.name for owner in records["layer1"].owners] == ["it"]
    meter.start_run()
    assert [(r.calls, r.bytes, r.alive) for r in records.values()] == [(0, 0, 0)] * 2
    records, _ = measure_memory(loop, X, runs=2)
    assert (records["layer1"].calls, records["layer1"].bytes) == (4, 96)


def test_empty_values_take_no_memory(tmp_path):
    compiled = irrun.compile_model(write(tmp_path, chain("Relu", shape=(0, 3))), optimize=False)
    records, _ = measure_memory(compiled, X[:0])
    assert (records["layer1"].bytes, records["layer1"].alive, records["layer1"].calls) == (0, 0, 1)
    fresh = InstructionRecord(records["layer1"].instruction, ())
    assert (fresh.seconds, fresh.calls, fresh.bytes, fresh.alive, fresh.failures, fresh.runs) == (0, 0, 0, 0, 0, [])


def test_each_value_is_counted_once():
    model = make_model(
        Row("x", "Parameter"),
        Row("c", "Constant", value=np.ones((1, 3), np.float32)),
        Row("square", "Multiply", ["x", "x"]),
        Row("sum", "Add", ["square", "c"]),
        Row("axis", "Constant", value=np.int64([1])),
        Row("parts", "Split", ["sum", "split_axis"], {"num_splits": "3"}, 3),
        Row("split_axis", "Constant", value=np.int64(1)),
        Row("y", "Result", ["parts:0"]),
        Row("z", "Result", ["parts:2"]),
    )
    records, _ = measure_memory(irrun.compile_model(model, optimize=False), X)
    assert records["square"].bytes == 24 + 24
    assert records["sum"].bytes == 24 + 12 + 24
    assert records["parts"].bytes == 8  # views; only the axis is read
    assert [shape for _, shape in records["parts"].outputs] == [(2, 1)] * 3
    assert [records[name].alive for name in ("square", "sum")] == [24, 48]


def test_repeated_elements_are_counted_once():
    def count(value):
        return instruments._count_moved_bytes([], [value])

    row = np.ones((1, 3), np.float32)
    assert count(row) == 12
    assert count(np.broadcast_to(row, (5, 3))) == 12
    assert count(np.broadcast_to(row[:, :1], (5, 4, 3))) == 4
    assert count(np.broadcast_to(row[:0], (0, 3))) == 0
    assert count(np.ones((4, 3), np.float32)[::2]) == 24
    assert instruments._count_moved_bytes([row, row], [row + 1]) == 24


# Operations and layers


def test_operations_of_layers_without_a_number_are_unknown():
    model = make_model(
        Row("x", "Parameter"),
        Row("k", "Constant", value=np.int64(1)),
        Row("topk", "TopK", ["x", "k"], {"axis": "1", "mode": "max", "sort": "value"}, 2),
        Row("relu", "Relu", ["topk:0"]),
        Row("y", "Result", ["relu"]),
    )
    result = irrun.profile(model, X, runs=1)
    rows = {row.key: row for row in result.layers}
    assert (rows["topk"].flops, rows["relu"].flops) == (None, 2)
    assert rows["topk"].outputs == ("f32[2,1]", "i32[2,1]")
    assert result.unknown_flops == ["TopK"]
    assert result.total.flops == 2


def test_operations_of_all_iterations_are_counted(tmp_path):
    compiled = irrun.compile_model(write_row_loop(tmp_path), optimize=False)
    counter = FlopCounter(KeyTable(compiled.model))
    compiled.create_infer_request(counter).infer(X, observers=[counter])
    assert [(layer.name, counter.flops[id(layer)]) for layer in counter.layers] == [("layer1", 6), ("it", 0)]
    compiled.create_infer_request(counter).infer(X, observers=[counter])
    assert [counter.flops[id(layer)] for layer in counter.layers] == [12, 0]


def test_layers_of_a_body_belong_to_the_instruction_that_replaces_the_loop(tmp_path):
    compiled = irrun.compile_model(write_row_loop(tmp_path), optimize=False)
    (loop,) = compiled._program.instructions
    fused = replace(loop, kernel=lambda x: np.maximum(x, 0), plain=(loop,), description="one Relu", bodies={})
    compiled._fast_program = replace(compiled._program, instructions=[fused])
    (row,) = irrun.profile(compiled, X, runs=1).layers
    assert row.layers == ("it", "it[*]/layer1")
    assert row.types == ("TensorIterator", "Relu")
    assert (row.key, row.flops, row.implementation) == ("it", 6, "one Relu")


def test_profile_has_ten_runs_of_the_optimized_program_by_default(tmp_path):
    path = write(tmp_path, chain("Tanh", "Relu"))
    messages: list[str] = []
    result = irrun.profile(path, X, progress=messages.append)
    assert messages == ["compilation", "operations and memory", "warm-up", *(f"run {i} of 10" for i in range(1, 11))]
    assert result.runs == 10
    assert result.optimized
    assert result.machine.threads == irrun.compile_model(path).threads
    assert irrun.profile(path, X, runs=1, threads=1).machine.threads == 1
    assert result.model == "net"
    model = irrun.read_model(path)
    model.graph.name = ""
    assert irrun.profile(model, X, runs=1).model == "model.xml"
    model.path = None
    plain = irrun.profile(model, X, runs=1, optimize=False)
    assert (plain.model, plain.optimized) == ("model", False)
    assert result.dropped_events == 0
    assert len(result.events) == len(result.layers)


def test_medians_of_runs_are_stated(tmp_path, monkeypatch):
    module = importlib.import_module("irrun.inspection.profiling")
    times = iter([100.0, 0, 1, 2, 3.0, 4.5, 5, 7, 10, 10.5, 20, 22, 30, 34, 40, 41])
    monkeypatch.setattr(module, "perf_counter", lambda: next(times))
    # After the warm-up of 100 - 0 seconds, runs with and without timers take turns.
    calls = []
    monkeypatch.setattr(module.KernelTimer, "finish_run", spy_on(module.KernelTimer.finish_run, calls))
    result = irrun.profile(write(tmp_path, chain("Tanh")), X, runs=3)
    assert calls == [(-100.0, False), (1.5, True), (0.5, True), (4.0, True)]
    assert result.seconds == 1.5
    assert result.untimed_seconds == 2.0
    assert result.executor_seconds == pytest.approx(1.5, abs=0.2)
    assert result.executor_seconds < 1.5  # without the time of the kernel


def spy_on(function, calls):
    def spy(self, seconds, is_counted=True):
        calls.append((seconds, is_counted))
        function(self, seconds, is_counted)

    return spy


def test_bound_of_the_machine_is_measured(monkeypatch):
    from irrun.inspection import machine

    monkeypatch.setattr(machine, "_measure", lambda run: 0.5)
    assert measure_machine(1) == Machine(1, 2 * 1024**3 / 0.5, 2 * (64 << 20) / 0.5)
    stacks = iter([1.0, 0.125, 0.5])
    monkeypatch.setattr(machine, "_measure", lambda run: next(stacks))
    assert measure_machine(1).flops_per_second == 2 * 16 * 16 * 96**3 / 0.125
    monkeypatch.undo()
    times = iter([0, 5, 10, 12, 20, 23, 30, 39, 40, 48])
    monkeypatch.undo()
    monkeypatch.setattr(machine, "perf_counter", lambda: float(next(times)))
    calls = []
    assert machine._measure(lambda: calls.append(1)) == 2
    assert len(calls) == 5
    assert Machine(2, 10.0, 5.0).to_dict() == {"threads": 2, "flops_per_second": 10.0, "bytes_per_second": 5.0}


def test_types_that_are_not_element_types_are_named_by_numpy():
    model = make_model(Row("x", "Parameter"), Row("a", "Relu", ["x"]), Row("y", "Result", ["a"]))
    compiled = irrun.compile_model(model, optimize=False)
    (instruction,) = compiled._program.instructions
    table = KeyTable(compiled.model)
    record = InstructionRecord(instruction, (), runs=[1.0, 2.0, 6.0], calls=4, bytes=8, alive=9)
    record.outputs = ((np.dtype(np.complex64), (2,)), (np.dtype(np.float32), ()))
    rows = LayerProfiler(compiled.model, table, FlopCounter(table)).describe([record], MemoryMeter(), Machine(1, 2, 4))
    (row,) = rows.values()
    assert row.outputs == ("complex64[2]", "f32[]")
    assert (row.seconds, row.calls, row.bytes, row.alive, row.bound, row.flops) == (2.0, 4, 8, 9, 2.0, 0)


def test_machine_is_measured_with_all_products_and_bytes(monkeypatch):
    from irrun.inspection import machine

    copies, products = [], []

    def run_all(function, parts):
        arrays = inspect.getclosurevars(function).nonlocals
        for part in range(parts):
            function(part)
        if "target" in arrays:
            copies.append((parts, arrays["source"].nbytes, bool(arrays["target"].any())))
        else:
            np.testing.assert_allclose(arrays["products"], arrays["small"] @ arrays["small"], atol=1e-4)
            products.append(arrays["small"].shape)

    monkeypatch.setattr(machine, "COPY_SIZE", 64)
    monkeypatch.setattr(machine, "run_parallel", run_all)
    monkeypatch.setattr(machine, "multiply_matrices", lambda a, b: (a.shape, b.shape))
    machine.measure_machine(1)
    assert products == [(16, 16, 96, 96)] * 5
    assert copies == [(16, 64, False)] * 5
