"""Programs: their slots, copies and traversal, and when values are freed."""

from __future__ import annotations

import numpy as np
import pytest
from ir_text import chain, write, write_row_loop

import irrun
from irrun.runtime.lowering import lower
from irrun.runtime.program import ABSENT, Program


@pytest.fixture
def program(tmp_path):
    return lower(irrun.read_model(write(tmp_path, chain("Relu", "Exp"))))


@pytest.fixture
def loop(tmp_path):
    return lower(irrun.read_model(write_row_loop(tmp_path)))


def test_lowered_programs_are_run_as_they_are(program, loop):
    (body,) = loop.instructions[0].bodies.values()
    for current in (program, loop, body.program):
        assert (current.invariant_count, current.sequences, current.is_replaced) == (0, None, False)
        assert (current.refusals, current.computed_types, current.compressed) == ([], {}, {})
        for instruction in current.instructions:
            assert instruction.is_observed
            assert (instruction.plain, instruction.description) == ((), "")


def test_bodies_are_traversed_after_their_instruction(loop):
    found = [(depth, None if i is None else i.layer.name) for _, depth, i in loop.traverse()]
    assert found == [(0, "it"), (1, "layer1"), (1, None), (0, None)]
    assert next((depth, i and i.layer.name) for _, depth, i in loop.traverse(3)) == (3, "it")
    assert [i.layer.name for _, i in loop.walk()] == ["it", "layer1"]
    (body,) = loop.instructions[0].bodies.values()
    assert list(loop.walk_programs()) == [body.program, loop]


def test_copies_share_constants_but_no_instructions(loop):
    loop.is_replaced, loop.sequences = True, loop.instructions
    loop.refusals.append(None)
    copy = loop.copy()
    assert (copy.is_replaced, copy.sequences, copy.refusals) == (False, None, [])
    assert copy.initial is not loop.initial
    first, other = loop.instructions[0], copy.instructions[0]
    assert first is not other
    assert first.kernel is other.kernel
    (body,), (copied,) = first.bodies.values(), other.bodies.values()
    assert body.program is not copied.program
    assert body.program.instructions[0] is not copied.program.instructions[0]
    assert body.program.parameter_layers is copied.program.parameter_layers


def test_values_are_freed_after_their_last_use(program):
    first, second = program.instructions
    assert (first.frees, second.frees) == (first.inputs, first.outputs)
    program.results += first.outputs
    program.free_after_last_use()
    assert (first.frees, second.frees) == (first.inputs, ())


def test_outputs_that_nothing_reads_are_freed_at_once(program):
    first, second = program.instructions
    spare = program.add_slot()
    first.outputs = (*first.outputs, spare)
    first.inputs = (*first.inputs, ABSENT)
    program.free_after_last_use()
    assert set(first.frees) == {first.inputs[0], spare}
    assert second.frees == first.outputs[:1]


def test_constants_that_nothing_reads_are_dropped(program):
    layer = program.parameter_layers[0]
    used, kept, unused = (program.add_slot(np.float32(n), layer) for n in range(3))
    assert [program.initial[slot] for slot in (used, kept, unused)] == [0, 1, 2]
    program.instructions[0].inputs += (used,)
    program.results.append(kept)
    assert program.get_constant_results() == {1: 1}
    program.drop_unused_constants()
    assert set(program.constant_layers) == {used, kept}
    assert program.initial[unused] is None
    assert used not in program.instructions[0].frees


def test_slots_are_numbered_in_order():
    program = Program([], [None], [], [], [], [])
    assert [program.add_slot(), program.add_slot(np.float32(3))] == [1, 2]
    assert program.constant_layers == {}
    assert program.initial[2] == 3
