"""Groups of elementwise operations for compiled kernels: their members, and the instructions that replace them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from openvino_modules import import_builder

import irrun
from irrun.fast.errors import NoKernelError
from irrun.fast.packing import PackedMemory
from irrun.runtime.lowering import lower

pytest.importorskip("llvmlite")

from irrun.runtime.passes import jit_compilation
from irrun.runtime.passes.jit_compilation import Compilation, Group, is_row_or_full

ov = import_builder()
o = import_builder("openvino.opset13")

F32 = np.float32
SHAPE = (2, 3)


def make_compilation(folder, build, types=(F32, F32, F32), shapes=(SHAPE, SHAPE, SHAPE)):
    """Return the compilation of a network of parameters x, y and z."""
    parameters = [o.parameter(list(s), t, n) for s, t, n in zip(shapes, types, "xyz", strict=True)]
    results = build(*parameters)
    results = results if isinstance(results, list) else [results]
    ov.serialize(ov.Model([o.result(r) for r in results], parameters, "m"), folder / "m.xml")
    return Compilation(lower(irrun.read_model(folder / "m.xml")), PackedMemory(1 << 20))


def start(compilation, **fields):
    """Return a group of the values of x."""
    (x, *_) = compilation.program.parameters
    return Group(x, SHAPE, None, (x,), **fields)


def constant(*shape, dtype=F32):
    return o.constant(np.ones(shape, dtype))


#: Networks of one operation -> whether it is added to a group of x.
MEMBERS = {
    "of the value": (lambda x, y, z: o.exp(x), True),
    "of the value twice": (lambda x, y, z: o.multiply(x, x), True),
    "of another value too": (lambda x, y, z: o.subtract(y, x), True),
    "of a row": (lambda x, y, z: o.add(x, constant(3)), True),
    "of a column": (lambda x, y, z: o.add(constant(2, 1), x), True),
    "of a scalar": (lambda x, y, z: o.add(x, constant()), True),
    "of other values only": (lambda x, y, z: o.add(y, z), False),
    "with a larger result": (lambda x, y, z: o.add(x, constant(4, 2, 3)), False),
    "with a result of another rank": (lambda x, y, z: o.add(x, constant(1, 2, 3)), False),
    "of a condition": (lambda x, y, z: o.select(o.constant(np.ones(SHAPE, bool)), x, y), False),
    "with a boolean result": (lambda x, y, z: o.greater(x, y), False),
    "not elementwise": (lambda x, y, z: o.softmax(x, 1), False),
    "without a fast form": (lambda x, y, z: o.sin(x), False),
    "to another type": (lambda x, y, z: o.convert(x, "i32"), False),
}


@pytest.mark.parametrize(("build", "is_member"), MEMBERS.values(), ids=MEMBERS.keys())
def test_operations_on_values_of_the_group_are_members(build, is_member, tmp_path):
    compilation = make_compilation(tmp_path, build)
    group = start(compilation)
    assert compilation.add_member(group, 0) == is_member
    assert group.members == ([0] if is_member else [])
    assert len(group.steps) == is_member
    (instruction,) = compilation.instructions
    assert group.slots == ({instruction.outputs[0]: ("step", 0)} if is_member else {})
    if not is_member:
        assert (group.operands, group.is_cheap) == ([], True)


def test_steps_refer_to_the_value_to_operands_and_to_earlier_steps(tmp_path):
    compilation = make_compilation(
        tmp_path, lambda x, y, z: o.subtract(o.add(o.multiply(x, y), o.constant(np.full(3, 7, F32))), x)
    )
    x, y, _ = compilation.program.parameters
    group = start(compilation)
    assert [compilation.add_member(group, number) for number in range(3)] == [True] * 3
    assert group.operands[0] == y
    assert group.operands[1].tolist() == [7, 7, 7]
    assert [numbers for _, numbers in group.steps] == [
        [("value", 0), ("operand", 0)],
        [("step", 0), ("operand", 1)],
        [("step", 1), ("value", 0)],
    ]
    steps = compilation.number_steps(group)
    assert [(step.name, step.operands) for step in steps] == [
        ("Multiply", (0, 1)),
        ("Add", (3, 2)),
        ("Subtract", (4, 0)),
    ]
    assert x not in group.slots


@pytest.mark.parametrize(("build", "is_cheap"), [(o.relu, True), (o.exp, False)], ids=["relu", "exp"])
def test_group_is_cheap_if_all_operations_are(build, is_cheap, tmp_path):
    compilation = make_compilation(tmp_path, lambda x, y, z: o.relu(build(x)))
    group = start(compilation)
    assert compilation.add_member(group, 0)
    assert group.is_cheap == is_cheap
    assert compilation.add_member(group, 1)
    assert group.is_cheap == is_cheap


def test_kernels_may_not_have_a_form_for_an_operand(tmp_path):
    compilation = make_compilation(tmp_path, lambda x, y, z: [o.relu(x), o.add(x, constant(2, 1)), o.add(x, y)])
    numbers = {i.operation.type + str(len(i.inputs)): n for n, i in enumerate(compilation.instructions)}
    seen = []

    def accept(shape):
        seen.append(shape)
        return shape == SHAPE

    group = start(compilation, accepts=accept)
    added = [compilation.add_member(group, number) for number in range(3)]
    assert added.count(True) == 2
    assert added[numbers["Relu1"]]
    assert sorted(seen) == [(2, 1), (2, 3)]


def test_members_have_the_layout_of_the_codes_of_the_group(tmp_path):
    compilation = make_compilation(tmp_path, lambda x, y, z: o.relu(x))
    compilation.encoded[0] = "rows"
    assert not compilation.add_member(start(compilation), 0)
    assert compilation.add_member(start(compilation, layout="rows"), 0)


@pytest.mark.parametrize(
    ("build", "position"),
    [
        (lambda x, y, z: o.add(x, y), 0),
        (lambda x, y, z: o.add(constant(*SHAPE), y), 1),
        (lambda x, y, z: o.add(o.constant(F32(2)), z), 2),
        (lambda x, y, z: o.add(constant(4, 1, 1), z), None),
        (lambda x, y, z: o.add(x, constant(4, 2, 3)), None),
    ],
)
def test_running_value_is_the_first_variable_input_of_the_shape_of_the_result(build, position, tmp_path):
    compilation = make_compilation(tmp_path, build)
    expected = None if position is None else compilation.program.parameters[position]
    assert compilation.choose_running_value(compilation.instructions[0]) == expected


def test_scalars_are_no_running_values(tmp_path):
    compilation = make_compilation(tmp_path, lambda x, y, z: o.exp(x), shapes=((), SHAPE, SHAPE))
    assert compilation.choose_running_value(compilation.instructions[0]) is None


class Kernel:
    description = "compiled: test"


def test_replaced_instructions_are_taken(tmp_path):
    compilation = make_compilation(tmp_path, lambda x, y, z: o.tanh(o.exp(o.relu(x))))
    first, second, third = compilation.instructions
    assert all(map(compilation.is_replaceable, range(3)))
    kernel = Kernel()
    compilation.replace([0, 1], kernel, first.inputs)
    assert [compilation.is_replaceable(number) for number in range(3)] == [False, False, True]
    compilation.insertions[1] = [third]
    compilation.finish()
    joined, *rest = compilation.program.instructions
    assert (joined.kernel, joined.inputs, joined.outputs) == (kernel, first.inputs, second.outputs)
    assert (joined.plain, joined.layer, joined.attributes) == ((first, second), second.layer, {})
    assert joined.description == "compiled: test"
    assert rest == [third, third]
    assert joined.frees == first.inputs


def test_program_without_replacements_keeps_its_instructions(tmp_path):
    compilation = make_compilation(tmp_path, lambda x, y, z: o.exp(x))
    instructions = compilation.program.instructions
    compilation.taken.add(0)
    compilation.finish()
    assert compilation.program.instructions is instructions


@pytest.mark.parametrize(
    "change",
    [{"plain": (None,)}, {"bodies": {"body": None}}, {"provided": {"state": int}}, {"is_custom": True}],
    ids=lambda change: next(iter(change)),
)
def test_only_plain_instructions_of_irrun_are_replaced(change, tmp_path):
    compilation = make_compilation(tmp_path, lambda x, y, z: o.exp(x))
    instruction = compilation.instructions[0]
    if "is_custom" in change:
        operation = irrun.Operation.from_function(lambda data: data, "Exp", since=1)
        change = {"operation": operation}
    compilation.instructions[0] = replace(instruction, **change)
    assert not compilation.is_replaceable(0)
    called = []
    compilation.attempt(0, lambda *arguments: called.append(arguments))
    assert called == []


@pytest.mark.parametrize(
    ("error", "reasons"),
    [(NoKernelError("too small"), ["too small"]), (NoKernelError(), []), (ValueError("shape"), ["shape"]), (None, [])],
)
def test_reasons_of_refusals_are_kept(error, reasons, tmp_path):
    compilation = make_compilation(tmp_path, lambda x, y, z: o.exp(x))

    def attempt(own, number):
        assert (own, number) == (compilation, 0)
        if error is not None:
            raise error

    compilation.attempt(0, attempt)
    refusals = compilation.program.refusals
    name = compilation.instructions[0].layer.name
    assert [(r.layer, r.rule, r.reason) for r in refusals] == [(name, "compile", reason) for reason in reasons]


def test_errors_of_programs_are_not_refusals(tmp_path):
    compilation = make_compilation(tmp_path, lambda x, y, z: o.exp(x))

    def attempt(own, number):
        raise KeyError

    with pytest.raises(KeyError):
        compilation.attempt(0, attempt)


def test_following_operations_are_members_until_others_read_their_values(tmp_path):
    compilation = make_compilation(tmp_path, lambda x, y, z: [o.tanh(exp := o.exp(o.relu(x))), o.sigmoid(exp)])
    group = start(compilation)
    assert compilation.add_member(group, 0)
    compilation.extend(group)
    assert group.members == [0, 1]
    assert len(group.steps) == 2


def test_groups_have_limited_members(tmp_path, monkeypatch):
    monkeypatch.setattr(jit_compilation, "MAX_MEMBERS", 3)
    compilation = make_compilation(tmp_path, lambda x, y, z: o.tanh(o.exp(o.relu(o.abs(o.negative(x))))))
    group = start(compilation)
    assert compilation.add_member(group, 0)
    compilation.extend(group)
    assert group.members == [0, 1, 2]


@pytest.mark.parametrize(
    ("operand", "is_accepted"),
    [((), True), ((1,), True), ((3,), True), ((1, 3), True), ((2, 3), True), ((2, 1), False), ((3, 3), False)],
)
def test_products_accept_rows_and_values_of_their_own_shape(operand, is_accepted):
    assert is_row_or_full(SHAPE, operand) == is_accepted
