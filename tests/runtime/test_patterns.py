"""Patterns of rules: irrun's own operations of numbered opsets, by type or property, and their producers."""

from __future__ import annotations

import numpy as np
import pytest
from ir_text import chain, write

import irrun
from irrun.ops._support import registry
from irrun.runtime.lowering import lower
from irrun.runtime.passes.engine import (
    ANYTHING,
    Pattern,
    RefusalError,
    Rule,
    View,
    apply_rules,
    get_other_input,
    join,
)


@pytest.fixture
def program(tmp_path):
    return lower(irrun.read_model(write(tmp_path, chain("Relu", "Exp", "Tanh"))))


def replace_operation(instruction, operation):
    instruction.operation = operation
    return instruction


def test_patterns_accept_own_operations_of_numbered_opsets(program):
    relu = program.instructions[0]
    assert Pattern("p", ("Relu",)).accepts(relu)
    assert Pattern("p", ("Exp", "Relu")).accepts(relu)
    assert not Pattern("p", ("Exp",)).accepts(relu)
    assert Pattern("p", has=lambda operation: operation.kind == "elementwise").accepts(relu)
    assert not Pattern("p", has=lambda operation: operation.converts).accepts(relu)
    assert ANYTHING.accepts(relu)


@pytest.mark.parametrize("is_numbered", [False, True])
def test_custom_operations_and_those_of_other_opsets_are_not_accepted(is_numbered, program):
    options = {"since": 1} if is_numbered else {"opset": "extension"}
    custom = irrun.Operation.from_function(lambda data: data, "Relu", **options)
    relu = replace_operation(program.instructions[0], custom)
    assert not Pattern("p", ("Relu",)).accepts(relu)
    assert not Pattern("p", has=lambda operation: True).accepts(relu)
    assert ANYTHING.accepts(relu)


def test_own_operations_outside_of_numbered_opsets_are_not_accepted(program):
    other = next(operation for operation in registry.list_operations() if operation.opset and not operation.is_custom)
    instruction = replace_operation(program.instructions[0], other)
    assert not Pattern("p", (other.type,)).accepts(instruction)
    assert not Pattern("p", has=lambda operation: True).accepts(instruction)


def test_patterns_match_producers(program):
    relu, exp, tanh = program.instructions
    view = View(program)
    chain = Pattern("tanh", ("Tanh",), {0: Pattern("exp", ("Exp",), {0: Pattern("relu", ("Relu",))})})
    assert chain.match(view, tanh) == {"tanh": tanh, "exp": exp, "relu": relu}
    assert chain.match(view, exp) is None
    assert chain.match(view, None) is None
    assert Pattern("exp", ("Exp",), {0: Pattern("tanh", ("Tanh",))}).match(view, exp) is None
    assert Pattern("relu", ("Relu",), {0: ANYTHING}).match(view, relu) is None  # a parameter has no producer
    assert Pattern("relu", ("Relu",), {1: ANYTHING}).match(view, relu) is None  # there is one input
    assert Pattern("exp", ("Exp",), {0: ANYTHING}).match(view, exp) == {"exp": exp, "instruction": relu}


def test_view_counts_uses(program):
    relu, exp, tanh = program.instructions
    (value,), (middle,), (result,) = relu.outputs, exp.outputs, tanh.outputs
    view = View(program)
    assert [view.count_uses(slot) for slot in (value, middle, result)] == [1, 1, 1]
    assert (view.get_sole_producer(value), view.get_sole_consumer(value)) == (relu, exp)
    assert (view.get_sole_producer(result), view.get_sole_consumer(result)) == (tanh, None)
    assert view.is_result(result)
    assert not view.is_result(value)
    exp.inputs = (value, value)
    view = View(program)
    assert view.consumers[value] == [exp]
    assert view.count_uses(value) == 2
    assert (view.get_sole_producer(value), view.get_sole_consumer(value)) == (None, None)
    assert view.get_sole_producer(program.parameters[0]) is None
    assert view.get_sole_consumer(program.parameters[0]) is relu
    program.results += [middle, middle]
    view = View(program)
    assert view.count_uses(middle) == 3
    assert (view.get_sole_producer(middle), view.get_sole_consumer(middle)) == (None, None)


def test_other_input_of_two(program):
    relu = program.instructions[0]
    for inputs, slot, other in (((1, 2), 1, 2), ((1, 2), 2, 1), ((3, 3), 3, 3)):
        relu.inputs = inputs
        assert get_other_input(relu, slot) == other


class Kernel:
    description = "three in one"


def test_rules_replace_what_they_match(program):
    members, kernel = list(program.instructions), Kernel()
    relu, _, tanh = members
    rule = Rule("join", Pattern("tanh", ("Tanh",)), lambda view, match: join(members, kernel, relu.inputs))
    apply_rules(program, [rule])
    (joined,) = program.instructions
    assert (joined.kernel, joined.inputs, joined.outputs, joined.layer) == (
        kernel, relu.inputs, tanh.outputs, tanh.layer,
    )  # fmt: skip
    assert (joined.plain, joined.description, joined.attributes) == (tuple(members), "three in one", {})
    assert joined.frees == relu.inputs
    assert program.refusals == []


def test_reasons_of_checks_and_builders_are_kept(program):
    def refuse(view, match):
        raise RefusalError("while building")

    built = []
    rules = [
        Rule("first", Pattern("p", ("Exp",)), lambda view, match: built, lambda view, match: "by the check"),
        Rule("second", Pattern("p", ("Tanh",)), refuse),
        Rule("third", Pattern("p", ("Sigmoid",)), refuse),
    ]
    before = list(program.instructions)
    apply_rules(program, rules)
    assert program.instructions == before
    assert program.refusals == [("layer2", "first", "by the check"), ("layer3", "second", "while building")]


def test_replaced_instructions_are_not_matched_again(program):
    seen = []

    def remove(view, match):
        seen.append(match["p"].layer.name)
        following = view.get_sole_consumer(match["p"].outputs[0])
        if following is not None:
            return [(match["p"], ()), (following, (following.copy(),))]
        return []

    apply_rules(program, [Rule("remove", Pattern("p", has=lambda operation: operation.kind == "elementwise"), remove)])
    assert seen == ["layer1", "layer3"]
    assert [i.layer.name for i in program.instructions] == ["layer2", "layer3"]


def test_views_know_constants_shapes_and_types(program):
    slot = program.add_slot(np.ones((2, 1), np.int32), program.parameter_layers[0])
    plain = program.add_slot(np.ones(3, np.int32))
    view = View(program)
    assert view.get_constant(slot).tolist() == [[1], [1]]
    assert view.get_constant(plain) is None  # a value before the first instruction, which is no constant
    assert view.get_shape(slot) == (2, 1)
    assert view.get_dtype(slot) == np.int32
    assert (view.get_shape(plain), view.get_dtype(plain), view.get_static_shape(plain)) == (None, None, None)
    value = program.instructions[0].outputs[0]
    assert (view.get_shape(value), view.get_static_shape(value), view.is_f32(value)) == ((2, 3), (2, 3), True)
    assert not view.is_f32(slot)
