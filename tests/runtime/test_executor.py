"""The loop of the executor, on programs whose kernels are replaced."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from ir_text import chain, write

import irrun
from irrun.errors import ExecutionError
from irrun.fast.errors import NoKernelError, NoPlanError
from irrun.limits import LARGE_PART
from irrun.runtime.executor import Executor, RequestState, _make_getter
from irrun.runtime.lowering import lower

F32 = np.float32
X = np.array([[-1, 2, -3]], F32)


def make_program(folder, *types):
    return lower(irrun.read_model(write(folder, chain(*types, shape=(1, 3)))))


class Joined:
    """A kernel that takes the place of several, and raises an error in its first runs."""

    def __init__(self, error, failures):
        self.error, self.failures, self.calls = error, failures, 0

    def __call__(self, x):
        self.calls += 1
        if self.calls <= self.failures:
            raise self.error
        return x - 10


def join(program, kernel, start, stop):
    """Let one instruction with a kernel take the place of several."""
    members = tuple(program.instructions[start:stop])
    joined = replace(members[-1], kernel=kernel, attributes={}, inputs=members[0].inputs, plain=members)
    program.instructions[start:stop] = [joined]
    program.free_after_last_use()


@pytest.mark.falls_back
@pytest.mark.parametrize(
    ("error", "failures", "calls"),
    [
        (NoKernelError("no"), 2, 3),
        (NoPlanError("no", is_lasting=False), 0, 3),
        (NoPlanError("no", is_lasting=True), 0, 1),
    ],
    ids=["no kernel", "changing", "lasting"],
)
def test_members_run_one_by_one_after_a_kernel_refused(error, failures, calls, tmp_path):
    """A lasting refusal separates them for good. Shapes without a plan are not counted as failures."""
    program = make_program(tmp_path, "Abs", "Negative", "Relu", "Abs")
    kernel, other = Joined(error, 2), Joined(None, 0)
    join(program, other, 2, 4)
    join(program, kernel, 0, 2)
    state = RequestState()
    executor = Executor(program, state)
    results = [executor.run([X])[0].tolist() for _ in range(3)]
    members = (-abs(X) - 10).tolist()
    assert results == [members, members, (X - 20).tolist() if calls > 2 else members]
    assert (kernel.calls, other.calls) == (calls, 3)
    assert [(f.layers, f.failures) for f in state.fallbacks.values()] == (
        [(("layer1", "layer2"), failures)] if failures else []
    )


@pytest.mark.falls_back
@pytest.mark.parametrize("error", [NoKernelError("no"), NoPlanError("no", is_lasting=False)])
def test_values_between_members_are_freed(error, tmp_path, monkeypatch):
    program = make_program(tmp_path, "Abs", "Negative", "Relu", "Abs")
    join(program, Joined(error, 1), 0, 3)
    inner = [slot for instruction in program.instructions[0].plain[:2] for slot in instruction.outputs]
    kept = []
    run_plain = Executor._run_plain

    def run(executor, instruction, values):
        run_plain(executor, instruction, values)
        kept.extend(values[slot] for slot in (*inner, *instruction.outputs))

    monkeypatch.setattr(Executor, "_run_plain", run)
    assert Executor(program, RequestState()).run([X])[0].tolist() == [[0, 0, 0]]
    assert [value is None for value in kept] == [True, True, False]


@pytest.mark.falls_back
def test_separated_members_are_counted_as_layers(tmp_path):
    program = make_program(tmp_path, "Abs", "Negative", "Relu")
    join(program, Joined(NoPlanError("no", is_lasting=True), 9), 0, 2)
    executor = Executor(program, RequestState())
    for _ in range(3):
        assert executor.run([X])[0].tolist() == [[0, 0, 0]]
        assert executor.count_layers() == (2, 3)
        assert executor.find_instruction().layer.name == "layer3"


@pytest.mark.falls_back
@pytest.mark.parametrize(
    ("messages", "reason"),
    [(["first", "second"], "first"), (["", "second"], "ValueError")],
)
def test_first_failure_of_a_kernel_is_its_reason(messages, reason, tmp_path):
    program = make_program(tmp_path, "Abs", "Negative")
    state = RequestState()
    for message in messages:
        state.count_fallback(program.instructions[1], ValueError(message))
    (fallback,) = state.fallbacks.values()
    assert fallback == (("layer2",), 2, reason)


def record_estimates(monkeypatch):
    """Return a list that collects the names of the layers whose allocations are estimated."""
    estimated = []

    def estimate(instruction, find):
        estimated.append(instruction.layer.name)
        return iter([(0, 0)])

    monkeypatch.setattr("irrun.runtime.executor.estimate_allocations", estimate)
    return estimated


@pytest.mark.parametrize("is_tuple", [False, True])
@pytest.mark.parametrize(("size", "is_estimated"), [(32, False), (33, True)])
def test_instructions_after_a_large_value_are_estimated(size, is_estimated, is_tuple, tmp_path, monkeypatch):
    """A value is large from one byte above the limit on, as one of several outputs too."""
    program = make_program(tmp_path, "Abs", *["Relu"] * 9)  # in short programs, large values are not counted
    value = np.ones(size, F32)

    def enlarge(x):
        return (x, value) if is_tuple else value

    spare = (program.add_slot(),) if is_tuple else ()
    first = program.instructions[0]
    outputs = (*spare, *first.outputs)
    program.instructions[0] = replace(first, kernel=enlarge, outputs=outputs)
    estimated = record_estimates(monkeypatch)
    state = RequestState(memory=LARGE_PART * 128)
    executor = Executor(program, state)
    assert executor.run([X])[0].tolist() == [1] * size
    assert estimated == ([f"layer{i}" for i in range(2, 11)] if is_estimated else [])


@pytest.mark.parametrize(("size", "is_estimated"), [(16, False), (17, True)])
def test_instructions_are_estimated_from_the_start_if_an_input_is_large(size, is_estimated, tmp_path, monkeypatch):
    estimated = record_estimates(monkeypatch)
    executor = Executor(make_program(tmp_path, "Abs", "Relu"), RequestState(memory=LARGE_PART * 64))
    executor.run([np.ones((1, size), F32)])
    assert estimated == (["layer1", "layer2"] if is_estimated else [])
    executor.run([np.ones((1, 1), F32)])  # each run starts anew
    assert estimated == (["layer1", "layer2"] if is_estimated else [])


@pytest.mark.parametrize(("sizes", "checked"), [((60, 4), []), ((60, 5), [65]), ((0, 64), []), ((0, 65), [65])])
def test_result_and_scratch_are_checked_together(sizes, checked, tmp_path, monkeypatch):
    """Scratch memory counts while a kernel runs that checks its result itself."""
    found = []
    state = RequestState(memory=LARGE_PART * 64)
    monkeypatch.setattr(state.memory, "check", found.append)
    monkeypatch.setattr("irrun.runtime.executor.estimate_allocations", lambda *_: iter([sizes]))
    program = make_program(tmp_path, "Abs")
    first = program.instructions[0]
    scratch = []

    def compute(x):
        scratch.append(state.memory.scratch)
        return x

    program.instructions[0] = replace(first, kernel=compute)
    Executor(program, state).run([np.ones((1, 17), F32)])
    assert [size for size in found if size] == checked
    assert scratch == [0 if sizes[0] else sizes[1]]
    assert state.memory.scratch == 0


@pytest.mark.parametrize("result", [(), []])
def test_kernel_returns_all_outputs(result, tmp_path):
    program = make_program(tmp_path, "Abs")
    program.instructions[0] = replace(program.instructions[0], kernel=lambda x: result)
    with pytest.raises(ExecutionError, match="returned 0 outputs, the layer has 1"):
        Executor(program, RequestState()).run([X])


def test_further_outputs_of_a_kernel_are_dropped(tmp_path):
    program = make_program(tmp_path, "Abs")
    program.instructions[0] = replace(program.instructions[0], kernel=lambda x: (x, x + 1))
    assert Executor(program, RequestState()).run([X])[0].tolist() == X.tolist()


@pytest.mark.parametrize(
    ("slots", "expected"), [([], []), ([2], ["c"]), ([3, 0], ["d", "a"]), ([1, 1, 2], ["b", "b", "c"])]
)
def test_getters_return_the_values_of_slots(slots, expected):
    assert list(_make_getter(slots)(["a", "b", "c", "d"])) == expected
