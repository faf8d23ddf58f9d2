"""The conditions of the rules for root mean squares and rotary embeddings: what they join, and why they do not."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from openvino_modules import import_builder

import irrun
from irrun.runtime.lowering import lower
from irrun.runtime.passes.engine import apply_rules

pytest.importorskip("llvmlite")

from irrun.runtime.passes import root_mean_squares, rotary_embeddings

ov = import_builder()
o = import_builder("openvino.opset13")

F32 = np.float32
LENGTH = 6
ROW = np.linspace(1, 2, LENGTH, dtype=F32)
ANY_RANK = ov.PartialShape.dynamic()


class Recorder:
    """Takes the place of a class of kernels, and keeps the arguments that a rule creates it with."""

    description = "recorded"

    def __init__(self, *arguments, **keywords):
        self.arguments, self.keywords, self.shapes = arguments, keywords, None

    def prepare(self, shapes):
        self.shapes = shapes

    def __call__(self, *inputs):
        raise NotImplementedError


@pytest.fixture(autouse=True)
def record_kernels(monkeypatch):
    monkeypatch.setattr(root_mean_squares, "NormalizationKernel", Recorder)
    monkeypatch.setattr(rotary_embeddings, "RotaryKernel", Recorder)


def make_program(folder, results, parameters):
    model = ov.Model([o.result(r) for r in results], parameters, "model")
    ov.serialize(model, folder / "model.xml")
    return lower(irrun.read_model(folder / "model.xml"))


def apply(program, module):
    """Apply the rules of a module, and return the joined instructions and the reasons of refusals."""
    apply_rules(program, module.RULES)
    return [i for i in program.instructions if i.plain], [refusal.reason for refusal in program.refusals]


def list_types(instruction):
    return [part.operation.type for part in instruction.plain]


# Root mean squares


def get_mean(squares, axis=(-1,), keep=True):
    return o.reduce_mean(squares, o.constant(np.asarray(axis, np.int64)), keep)


def get_root(x, epsilon=0.25):
    return o.sqrt(o.add(get_mean(o.multiply(x, x)), o.constant(np.asarray(epsilon, F32))))


def scale(value, factor):
    return o.multiply(value, o.constant(np.asarray(factor, F32)))


def join_mean(folder, build, shape=(2, 3, LENGTH), dtype=F32):
    """Return the joined instructions, the refusals and the program of a network of x and another value y."""
    x, y = o.parameter(list(shape), dtype, "x"), o.parameter(list(shape), dtype, "y")
    results = build(x, y)
    results = results if isinstance(results, list) else [results]
    program = make_program(folder, results, [x, y])
    return *apply(program, root_mean_squares), program


NORMALIZED = {
    "last axis": lambda x, y: o.divide(x, o.sqrt(o.add(get_mean(o.multiply(x, x), [2]), F32(0.25)))),
    "scalar axis": lambda x, y: o.divide(x, o.sqrt(o.add(get_mean(o.multiply(x, x), -1), F32(0.25)))),
    "vectors of one number": lambda x, y: o.multiply(
        o.power(o.add(get_mean(o.power(x, np.array([2], F32))), np.array([[0.25]], F32)), np.array([-0.5], F32)), x
    ),
    "numerator of one number": lambda x, y: o.multiply(o.divide(np.array([1], F32), get_root(x)), x),
}


@pytest.mark.parametrize("build", NORMALIZED.values(), ids=NORMALIZED.keys())
def test_mean_is_joined_with_what_follows(build, tmp_path):
    (joined,), refusals, program = join_mean(tmp_path, build)
    assert refusals == []
    assert program.instructions == [joined]
    assert joined.inputs == (program.parameters[0],)
    assert joined.outputs == tuple(program.results)
    assert (joined.attributes, joined.description) == ({}, "recorded")
    rank, axes, attributes, steps, operands = joined.kernel.arguments
    assert (rank, axes, tuple(steps), list(operands)) == (3, 1, (), [])
    assert attributes == {"eps": 0.25, "normalize_variance": True, "eps_mode": "inside_sqrt"}
    assert joined.kernel.keywords == {"is_centered": False}
    assert joined.kernel.shapes == [(2, 3, LENGTH)]


def test_kernel_is_prepared_for_dynamic_dimensions(tmp_path):
    (joined,), _, _ = join_mean(tmp_path, lambda x, y: o.divide(x, get_root(x)), shape=[-1, 3, LENGTH])
    assert joined.kernel.shapes == [(1, 3, LENGTH)]


def use_twice(x, y):
    value = o.divide(x, get_root(x))
    return [scale(value, ROW), o.relu(value)]


#: A network whose normalized value of shape [2, 3, 6] is multiplied -> whether the product is joined.
SCALES = {
    "row": (lambda x, y: scale(o.divide(x, get_root(x)), ROW), True),
    "row first": (lambda x, y: o.multiply(o.constant(ROW), o.divide(x, get_root(x))), True),
    "row of the same rank": (lambda x, y: scale(o.divide(x, get_root(x)), ROW[None, None]), True),
    "row of a higher rank": (lambda x, y: scale(o.divide(x, get_root(x)), ROW[None, None, None]), False),
    "scalar": (lambda x, y: scale(o.divide(x, get_root(x)), 2), False),
    "one number": (lambda x, y: scale(o.divide(x, get_root(x)), [2]), False),
    "column": (lambda x, y: scale(o.divide(x, get_root(x)), [[1], [2], [3]]), False),
    "column as long as a row": (lambda x, y: scale(o.divide(x, get_root(x)), np.ones((2, 3, 1))), False),
    "matrix": (lambda x, y: scale(o.divide(x, get_root(x)), np.ones((3, LENGTH))), False),
    "variable": (lambda x, y: o.multiply(o.divide(x, get_root(x)), y), False),
    "sum": (lambda x, y: o.add(o.divide(x, get_root(x)), o.constant(ROW)), False),
    "used twice": (use_twice, False),
}


@pytest.mark.parametrize(("build", "is_joined"), SCALES.values(), ids=SCALES.keys())
def test_only_a_constant_row_is_a_scale(build, is_joined, tmp_path):
    (joined,), _, _ = join_mean(tmp_path, build)
    chain = ["Multiply", "ReduceMean", "Add", "Sqrt", "Divide"]
    assert list_types(joined) == chain + ["Multiply"] * is_joined
    _, _, _, steps, operands = joined.kernel.arguments
    assert [(step.name, step.operands) for step in steps] == ([("Multiply", (0, 1))] if is_joined else [])
    assert [operand.tolist() for operand in operands] == ([ROW.tolist()] if is_joined else [])


def use_squares(x, y):
    squares = o.multiply(x, x)
    return [squares, o.divide(x, o.sqrt(o.add(get_mean(squares), F32(1))))]


def use_root(x, y):
    root = get_root(x)
    return [o.divide(x, root), o.relu(root)]


def use_mean(x, y):
    mean = get_mean(o.multiply(x, x))
    return [o.divide(x, o.sqrt(o.add(mean, F32(1)))), o.relu(mean)]


def invert(x, exponent, value):
    inverse = o.power(o.add(get_mean(o.multiply(x, x)), F32(1)), exponent)
    return o.multiply(value, inverse)


NO_SQUARES = "it is not the mean of squares, or the squares are used elsewhere"
NO_SCALAR = "an operand is not a constant scalar"
UNKNOWN = "not along a known last axis that is kept"
#: Networks with a mean that is computed alone, and the reason.
MEANS = {
    "no producer": (lambda x, y: o.divide(x, o.sqrt(o.add(get_mean(x), F32(1)))), NO_SQUARES),
    "product of two values": (lambda x, y: o.divide(x, o.sqrt(o.add(get_mean(o.multiply(x, y)), F32(1)))), NO_SQUARES),
    "another power": (lambda x, y: o.divide(x, o.sqrt(o.add(get_mean(o.power(x, F32(3))), F32(1)))), NO_SQUARES),
    "powers": (lambda x, y: o.divide(x, o.sqrt(o.add(get_mean(o.power(x, o.constant(2 * np.ones(LENGTH, F32)))),
                                                     F32(1)))), NO_SQUARES),
    "variable power": (lambda x, y: o.divide(x, o.sqrt(o.add(get_mean(o.power(x, y)), F32(1)))), NO_SQUARES),
    "absolute values": (lambda x, y: o.divide(x, o.sqrt(o.add(get_mean(o.abs(x)), F32(1)))), NO_SQUARES),
    "squares are used": (use_squares, NO_SQUARES),
    "mean is used": (use_mean, "ReduceMean is not followed by Add alone"),
    "mean is a result": (lambda x, y: get_mean(o.multiply(x, x)), "ReduceMean is not followed by Add alone"),
    "no sum": (lambda x, y: o.divide(x, o.sqrt(get_mean(o.multiply(x, x)))),
               "ReduceMean is not followed by Add alone"),
    "row is added": (lambda x, y: o.divide(x, get_root(x, ROW)), NO_SCALAR),
    "variable is added": (lambda x, y: o.divide(x, o.sqrt(o.add(get_mean(o.multiply(x, x)), y))), NO_SCALAR),
    "no root": (lambda x, y: o.divide(x, o.add(get_mean(o.multiply(x, x)), F32(1))),
                "Add is not followed by Sqrt or Power alone"),
    "root is used": (use_root, "Sqrt is not followed by Divide alone"),
    "root is multiplied": (lambda x, y: o.multiply(x, get_root(x)), "Sqrt is not followed by Divide alone"),
    "root is divided": (lambda x, y: o.divide(get_root(x), x), "the root is divided"),
    "another numerator": (lambda x, y: o.multiply(x, o.divide(F32(2), get_root(x))),
                          "found the constant 2.0, expected 1.0"),
    "variable numerator": (lambda x, y: o.multiply(x, o.divide(y, get_root(x))), NO_SCALAR),
    "inverse is added": (lambda x, y: o.add(x, o.divide(F32(1), get_root(x))),
                         "Divide is not followed by Multiply alone"),
    "another value is divided": (lambda x, y: o.multiply(y, o.divide(F32(1), get_root(x))),
                                 "another value is normalized"),
    "another exponent": (lambda x, y: invert(x, F32(-0.25), x), "found the constant -0.25, expected -0.5"),
    "variable exponent": (lambda x, y: invert(x, y, x), NO_SCALAR),
    "another value is multiplied": (lambda x, y: invert(x, F32(-0.5), y), "another value is normalized"),
    "power is added": (lambda x, y: o.add(x, o.power(o.add(get_mean(o.multiply(x, x)), F32(1)), F32(-0.5))),
                       "Power is not followed by Multiply alone"),
    "axis is dropped": (lambda x, y: o.sqrt(get_mean(o.multiply(x, x), keep=False)), UNKNOWN),
    "variable axis": (lambda x, y: o.reduce_mean(o.multiply(x, x), take(o.shape_of(y), 0, 1, axis=0), True), UNKNOWN),
    "another axis": (lambda x, y: get_mean(o.multiply(x, x), [1]), "not along the last axis alone"),
    "several axes": (lambda x, y: get_mean(o.multiply(x, x), [1, 2]), "not along the last axis alone"),
    "no axes": (lambda x, y: get_mean(o.multiply(x, x), np.zeros(0)), "not along the last axis alone"),
    "higher rank": (lambda x, y: o.divide(x, get_root(x, [[[[0.25]]]])),
                    "the normalized value is constant, or its shape is not known"),
}  # fmt: skip


@pytest.mark.parametrize(("build", "reason"), MEANS.values(), ids=MEANS.keys())
def test_mean_is_computed_alone(build, reason, tmp_path):
    joined, refusals, _ = join_mean(tmp_path, build)
    assert (joined, refusals) == ([], [reason])


@pytest.mark.parametrize(
    ("shape", "dtype", "reason"),
    [
        ([2, 3, -1], F32, UNKNOWN),
        (ANY_RANK, F32, UNKNOWN),
        ([2, 3, LENGTH], np.float64, "not f32"),
        ([2, 3, LENGTH], np.float16, "not f32"),
    ],
    ids=str,
)
def test_other_values_are_normalized_by_their_operations(shape, dtype, reason, tmp_path):
    x = o.parameter(shape, dtype)
    root = o.sqrt(o.add(get_mean(o.multiply(x, x)), o.constant(dtype(1))))
    program = make_program(tmp_path, [o.divide(x, root)], [x])
    assert apply(program, root_mean_squares) == ([], [reason])


def test_constant_is_not_normalized_by_a_kernel(tmp_path):
    x = o.parameter([1], F32)
    constant = o.constant(np.ones((2, LENGTH), F32))
    program = make_program(tmp_path, [o.divide(constant, get_root(constant)), x], [x])
    reason = "the normalized value is constant, or its shape is not known"
    assert apply(program, root_mean_squares) == ([], [reason])


def replace_kernel(program, kind):
    """Let an instruction of one type have a kernel that another phase chose."""
    program.instructions = [
        replace(i, plain=(i,)) if i.operation.type == kind else i for i in program.instructions
    ]  # fmt: skip


@pytest.mark.parametrize("kind", ["Multiply", "ReduceMean", "Add", "Sqrt", "Divide"])
def test_instructions_with_other_kernels_are_not_joined(kind, tmp_path):
    x = o.parameter([2, LENGTH], F32)
    program = make_program(tmp_path, [o.divide(x, get_root(x))], [x])
    replace_kernel(program, kind)
    apply_rules(program, root_mean_squares.RULES)
    assert len(program.instructions) == 5
    assert [refusal.reason for refusal in program.refusals] == ["an operation has another kernel"]


# Rotary embeddings


def rotate(x, cosine, sine, turned):
    return o.add(o.multiply(x, cosine), o.multiply(turned, sine))


def take(x, start, stop, step=1, axis=-1):
    return o.slice(x, *(o.constant(np.array([n])) for n in (start, stop, step, axis)))


def split(x, axis=-1, lengths=None):
    """Return the halves of a value, or parts of some lengths."""
    axis = o.constant(np.array(axis))
    return (o.split(x, axis, 2) if lengths is None else o.variadic_split(x, axis, np.array(lengths))).outputs()


def turn(x, axis=-1):
    """Return [-second, first] of the halves of rows."""
    first, second = split(x)
    return o.concat([o.negative(second), first], axis)


def join_rows(folder, build, shape=(2, 3, 5, 8), table=(1, 1, 5, 8), dtype=F32):
    """Return the joined instructions, the refusals and the program of a network of a value, cosines and sines."""
    parameters = [o.parameter(list(s), dtype, n) for s, n in zip((shape, table, table), "xcs", strict=True)]
    results = build(*parameters)
    program = make_program(folder, results if isinstance(results, list) else [results], parameters)
    return *apply(program, rotary_embeddings), program


ROTATED = {
    "Split": lambda x, c, s: rotate(x, c, s, turn(x)),
    "last axis": lambda x, c, s: rotate(x, c, s, turn(x, 3)),
    "slices": lambda x, c, s: rotate(x, c, s, o.concat([o.negative(take(x, 4, 99)), take(x, 0, 4)], -1)),
    "slices of axis 3": lambda x, c, s: rotate(
        x, c, s, o.concat([o.negative(take(x, 4, 8, axis=3)), take(x, 0, 4, axis=3)], -1)
    ),
}


@pytest.mark.parametrize("build", ROTATED.values(), ids=ROTATED.keys())
def test_rows_are_rotated_by_one_kernel(build, tmp_path):
    (joined,), refusals, program = join_rows(tmp_path, build)
    assert refusals == []
    assert program.instructions == [joined]
    assert joined.inputs == tuple(program.parameters)
    assert joined.outputs == tuple(program.results)
    assert (joined.kernel.arguments, joined.kernel.shapes) == ((4,), ())
    division = ["Slice", "Slice"] if "Slice" in list_types(joined) else ["Split"]
    assert list_types(joined) == [*division, "Negative", "Concat", "Multiply", "Multiply", "Add"]


@pytest.mark.parametrize("shape", [(5, 8), (3, 5, 8), (2, 3, 5, 8)], ids=str)
@pytest.mark.parametrize("table", [(8,), (1, 8), (5, 8)], ids=str)
def test_rows_of_two_to_four_axes_are_rotated(shape, table, tmp_path):
    (joined,), _, _ = join_rows(tmp_path, ROTATED["Split"], shape, table)
    assert joined.kernel.arguments == (len(shape),)


def use(which):
    """Return a network that uses an intermediate value twice."""

    def build(x, cosine, sine):
        first, second = split(x)
        negated = o.negative(second)
        turned = o.concat([negated, first], -1)
        one, two = o.multiply(x, cosine), o.multiply(turned, sine)
        values = {"first": first, "second": second, "negated": negated, "turned": turned, "one": one, "two": two}
        return [o.add(one, two), o.relu(values[which])]

    return build


def exchange(change, **options):
    return lambda x, c, s: rotate(x, c, s, o.concat(change(*split(x, **options)), -1))


def exchange_slices(first, second):
    return lambda x, c, s: rotate(x, c, s, o.concat([o.negative(take(x, *second)), take(x, *first)], -1))


def use_cell(x, cosine, sine):
    """Return a network of the outputs of an LSTMCell, which are half as long as its input."""
    states = [o.constant(np.zeros((5, 4), F32)) for _ in range(2)]
    weights = [o.constant(np.ones(shape, F32)) for shape in ((16, 8), (16, 4), (16,))]
    first, second = o.lstm_cell(x, *states, *weights, 4).outputs()
    return rotate(x, cosine, sine, o.concat([o.negative(second), first], -1))


NO_MATRIX = "does not concatenate two values along a known axis of a matrix"
NO_HALVES = "the concatenated values are not halves"
ELSEWHERE = "the halves are used elsewhere, or are not of one value"
NO_SLICES = "the last axis is not divided into halves"
NO_NEGATION = "the first value is not negated"
OTHER_SHAPE = "the divided value is constant, or does not have the shape of the result"
NO_PRODUCT = "the product is not added to a product of the value itself"
#: Networks with a Concat that is computed alone, and the reason.
CONCATS = {
    "three values": (exchange(lambda a, b: [o.negative(take(b, 0, 2)), take(b, 2, 4), a]), NO_MATRIX),
    "another axis": (lambda x, c, s: turn(x, 2), "does not concatenate f32 along the last axis"),
    "factor is not -1": (exchange(lambda a, b: [o.multiply(b, F32(-2)), a]), NO_NEGATION),
    "variable factor": (exchange(lambda a, b: [o.multiply(b, a), a]), NO_NEGATION),
    "row of factors": (exchange(lambda a, b: [o.multiply(b, o.constant(-np.ones(4, F32))), a]), NO_NEGATION),
    "unequal parts": (exchange(lambda a, b: [o.negative(b), a], lengths=[3, 5]), NO_HALVES),
    "parts of another axis": (lambda x, c, s: o.concat([o.negative(split(x, 0)[1]), split(x, 0)[0]], -1), OTHER_SHAPE),
    "slices of another axis": (lambda x, c, s: o.concat([o.negative(take(x, 1, 2, axis=0)), take(x, 0, 1, axis=0)], -1),
                               OTHER_SHAPE),
    "quarters": (lambda x, c, s: o.concat([o.negative(take(x, 2, 4)), take(x, 0, 2)], -1), OTHER_SHAPE),
    "first half is used": (use("first"), ELSEWHERE),
    "second half is used": (use("second"), ELSEWHERE),
    "halves of two values": (lambda x, c, s: rotate(x, c, s, o.concat([o.negative(take(c, 4, 8)), take(x, 0, 4)], -1)),
                             ELSEWHERE),
    "parameters": (lambda x, c, s: o.concat([o.negative(x), c], -1), ELSEWHERE),
    "halves in their order": (exchange(lambda a, b: [o.negative(a), b]), "the value is not divided by a Split"),
    "every second element": (exchange_slices((0, 8, 2), (4, 8)), NO_SLICES),
    "every second element last": (exchange_slices((0, 4), (1, 8, 2)), NO_SLICES),
    "first half starts later": (exchange_slices((1, 5), (4, 8)), NO_SLICES),
    "second half starts earlier": (exchange_slices((0, 4), (3, 7)), NO_SLICES),
    "turned value is added": (lambda x, c, s: o.add(o.multiply(x, c), o.add(turn(x), s)),
                              "the exchanged halves are not used by Multiply alone"),
    "turned value is used": (use("turned"), "the exchanged halves are not used by Multiply alone"),
    "difference": (lambda x, c, s: o.subtract(o.multiply(x, c), o.multiply(turn(x), s)),
                   "the exchanged halves are not used by Add alone"),
    "product of sines is used": (use("two"), "the exchanged halves are not used by Add alone"),
    "product of cosines is used": (use("one"), NO_PRODUCT),
    "variable is added": (lambda x, c, s: o.add(o.multiply(turn(x), s), c), NO_PRODUCT),
    "quotient is added": (lambda x, c, s: o.add(o.divide(x, c), o.multiply(turn(x), s)), NO_PRODUCT),
    "another product is added": (lambda x, c, s: o.add(o.multiply(c, s), o.multiply(turn(x), s)), NO_PRODUCT),
    "negated half is used": (use("negated"), "the negated half is used elsewhere"),
}  # fmt: skip


@pytest.mark.parametrize(("build", "reason"), CONCATS.values(), ids=CONCATS.keys())
def test_halves_are_exchanged_alone(build, reason, tmp_path):
    joined, refusals, _ = join_rows(tmp_path, build, table=(2, 3, 5, 8))
    assert (joined, refusals) == ([], [reason])


NO_ROWS = "cosines or sines are not rows as long as the value's"


@pytest.mark.parametrize(
    ("shape", "table", "dtype", "reason"),
    [
        ((8,), (8,), F32, NO_MATRIX),
        ((1, 2, 3, 5, 8), (8,), F32, NO_MATRIX),
        ((2, 3, 5, 8), (8,), np.float64, "does not concatenate f32 along the last axis"),
        ((2, 3, 5, 8), (1,), F32, NO_ROWS),
        ((2, 3, 5, 8), (), F32, NO_ROWS),
        ((2, 3, 5, 8), (5, 1), F32, NO_ROWS),
        ((2, 1, 5, 8), (2, 3, 5, 8), F32, "cosines or sines enlarge the value"),
        ((5, 8), (1, 5, 8), F32, "cosines or sines enlarge the value"),
        ((2, 3, 5, 8), ANY_RANK, F32, "cosines or sines enlarge the value"),
        ((2, 3, 5, -1), (8,), F32, NO_MATRIX),
    ],
    ids=str,
)
def test_other_shapes_and_types_are_rotated_by_their_operations(shape, table, dtype, reason, tmp_path):
    x, cosine, sine = [
        o.parameter(s if s is ANY_RANK else list(s), dtype, n)
        for s, n in zip((shape, table, table), "xcs", strict=True)
    ]
    program = make_program(tmp_path, [rotate(x, cosine, sine, turn(x))], [x, cosine, sine])
    assert apply(program, rotary_embeddings) == ([], [reason])


@pytest.mark.parametrize("is_sine", [False, True])
def test_cosines_and_sines_are_both_rows(is_sine, tmp_path):
    x, row, number = (o.parameter(shape, F32) for shape in ([5, 8], [8], [1]))
    cosine, sine = (row, number) if is_sine else (number, row)
    program = make_program(tmp_path, [rotate(x, cosine, sine, turn(x))], [x, row, number])
    assert apply(program, rotary_embeddings) == ([], [NO_ROWS])


def test_outputs_of_a_cell_are_not_halves(tmp_path):
    joined, refusals, _ = join_rows(tmp_path, use_cell, (5, 8), (5, 8))
    assert (joined, refusals) == ([], ["the value is not divided by a Split"])


def test_halves_of_a_constant_are_not_rotated_by_a_kernel(tmp_path):
    joined, refusals, _ = join_rows(
        tmp_path, lambda x, c, s: rotate(o.constant(np.ones((5, 8), F32)), c, s, turn(o.constant(np.ones((5, 8), F32))))
    )
    assert (joined, refusals) == ([], [OTHER_SHAPE])


@pytest.mark.parametrize("kind", ["Split", "Negative", "Concat", "Multiply", "Add"])
def test_operations_with_other_kernels_are_not_joined(kind, tmp_path):
    x, cosine, sine = [o.parameter([5, 8], F32, name) for name in "xcs"]
    program = make_program(tmp_path, [rotate(x, cosine, sine, turn(x))], [x, cosine, sine])
    replace_kernel(program, kind)
    apply_rules(program, rotary_embeddings.RULES)
    assert len(program.instructions) == 6
    assert [refusal.reason for refusal in program.refusals] == ["an operation has another kernel"]
