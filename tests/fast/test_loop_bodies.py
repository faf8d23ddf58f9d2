"""Loops over bodies in Python: specialized iterations against the plain kernels."""

from __future__ import annotations

import contextlib
import functools
import itertools
from dataclasses import replace

import numpy as np
import pytest

from fast.harness import assert_same_bits, find_operation
from irrun.errors import InputError
from irrun.fast.loops import (
    CellStep,
    SequenceLoop,
    SequenceStep,
    _ConcatenatedOutput,
    iterate_loop,
    iterate_tensor_iterator,
)
from irrun.fast.vectorization import NotVectorizableError
from irrun.limits import Collection, limit_allocations
from irrun.ops._support.context import BackEdgeDescription, BodyRunner, InputDescription, OutputDescription

F32 = np.float32
#: Number of slices of the inputs.
COUNT = 4


def make_part(shape, iteration, dtype=F32):
    return (np.arange(np.prod(shape, dtype=int)).reshape(shape) + 100 * iteration).astype(dtype)


def run_both(kind, inputs, body, *, calls_plain=False):
    """Return the outputs, after checking that they equal the plain kernel's and which of the two computed them."""
    name, iterate = {
        "loop": ("Loop-5", iterate_loop),
        "iterator": ("TensorIterator-1", iterate_tensor_iterator),
    }[kind]
    plain, expected, calls = find_operation(name).kernel, None, []

    def record(*arguments, **options):
        calls.append(arguments)
        return plain(*arguments, **options)

    with contextlib.suppress(InputError):
        expected = plain(*inputs, body=body)
    if expected is None:
        messages = []
        for kernel in (plain, functools.partial(iterate, record)):
            with pytest.raises(InputError) as caught:
                kernel(*inputs, body=body)
            messages.append(str(caught.value))
        assert messages[0] == messages[1]
        return None
    actual = iterate(record, *inputs, body=body)
    assert bool(calls) == calls_plain
    assert len(actual) == len(expected)
    for a, b in zip(actual, expected, strict=True):
        assert (a.dtype, a.shape) == (b.dtype, b.shape)
        assert_same_bits(a, b)
    return actual


def make_loop_body(run, outputs=(), inputs=(), *, parameters=1, results=1, **options):
    """Return a body whose Parameters and Results have no declared types and shapes."""
    unknown = {
        "result_shapes": (None,) * results,
        "result_dtypes": (None,) * results,
        "parameter_shapes": ((),) * parameters,
        "parameter_dtypes": (None,) * parameters,
    }
    count = max((o.port for o in outputs), default=-1) + 1
    return BodyRunner(run, parameters, count, tuple(inputs), tuple(outputs), **{**unknown, **options})


def trip(count, condition=True):
    return [np.array(count), np.array(condition)]


SHAPES = {
    "scalars": lambda i: (),
    "vectors": lambda i: (2,),
    "matrices": lambda i: (2, 3),
    "growing": lambda i: (2 + i, 2 + i)[: 1 + (i < 0)],
    "other shapes later": lambda i: (2,) if i < 2 else (3,),
    "other shapes at first": lambda i: (3,) if i < 1 else (2,),
    "empty": lambda i: (0,),
}
TYPES = {"one type": lambda i: F32, "other types later": lambda i: F32 if i < 2 else np.int64}


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("dtype", TYPES)
def test_concatenated_outputs_equal_those_of_the_plain_kernel(shape, dtype):
    for axis, stride, is_counted in itertools.product((0, 1, -1), (1, -1, 2, 0), (True, False)):
        if axis == 1 and shape != "matrices":
            continue

        def run(arguments, iteration):
            part = make_part(SHAPES[shape](iteration), iteration, TYPES[dtype](iteration))
            return [part, np.array(iteration < COUNT - 1)]

        outputs = [OutputDescription(0, 0, axis=axis, stride=stride), OutputDescription(1, 0)]
        if not is_counted:
            outputs.append(OutputDescription(-1, 1, purpose="execution_condition"))
        body = make_loop_body(run, outputs, parameters=0, results=2)
        assert run_both("loop", trip(COUNT if is_counted else -1), body) is not None


@pytest.mark.parametrize("count", [5, 1, 0, -1, 3])
@pytest.mark.parametrize("condition", ["true", "false", "constant true", "constant false", "variable", "none", "two"])
def test_conditions_equal_those_of_the_plain_kernel(count, condition):
    """The number of iterations is limited by the trip count, the condition and its value after each iteration."""

    def run(arguments, iteration):
        value = {"true": True, "false": False}.get(condition.rpartition(" ")[2], iteration < 2)
        return [make_part((2,), iteration), np.array([value] * (2 if condition == "two" else 1))]

    outputs = [OutputDescription(0, 0, axis=0), OutputDescription(1, 0)]
    if condition != "none":
        outputs.append(OutputDescription(-1, 1, purpose="execution_condition"))
    constants = {1: np.array([condition.endswith("true")])} if condition.startswith("constant") else {}
    options = {"result_shapes": ((2,), (1,)), "result_dtypes": (np.dtype(F32), np.dtype(bool))}
    body = make_loop_body(run, outputs, parameters=0, results=2, constant_results=constants, **options)
    if count == -1 and condition in ("none", "true", "constant true"):
        return  # endless
    run_both("loop", trip(count), body, calls_plain=count == 0)
    run_both("loop", trip(count, condition=False), body, calls_plain=True)
    run_both("loop", [np.array([count]), np.array([[True]])], body, calls_plain=count == 0)


@pytest.mark.parametrize("kind", ["loop", "iterator"])
@pytest.mark.parametrize("stride", [1, -1])
@pytest.mark.parametrize("axis", [0, 1, -1])
def test_slices_states_and_invariants_equal_those_of_the_plain_kernel(kind, stride, axis):
    data = make_part((COUNT, COUNT), 0)
    state, invariant = make_part((COUNT,), 1), make_part((), 2)

    def run(arguments, iteration):
        x, state, invariant = arguments
        total = state + x.reshape(-1) * invariant
        return [total, x]

    first = 2 if kind == "loop" else 0
    start, end = (0, -1) if stride > 0 else (-1, 0)
    inputs = [
        InputDescription(first, 0, axis=axis, start=start, end=end, stride=stride),
        InputDescription(first + 1, 1),
        InputDescription(first + 2, 2),
    ]
    outputs = [OutputDescription(0, 0), OutputDescription(1, 1, axis=axis, stride=stride), OutputDescription(-1, 0)]
    body = make_loop_body(run, outputs, inputs, parameters=3, results=2, back_edges=(BackEdgeDescription(0, 1),))
    values = [data, state, invariant]
    if kind == "iterator":
        outputs = run_both(kind, values, body)
        np.testing.assert_array_equal(outputs[1], data)
        run_both(kind, [data[:0] if axis == 0 else data[:, :0], state, invariant], body, calls_plain=True)
        run_both(kind, [data[..., 0, 0], state, invariant], body)
        return
    for count, calls_plain in ((COUNT, False), (2, False), (0, True), (COUNT + 1, True)):
        run_both(kind, [*trip(count), *values], body, calls_plain=calls_plain)
    run_both(kind, [*trip(2), data[:0] if axis == 0 else data[:, :0], state, invariant], body, calls_plain=True)


def test_inputs_with_other_numbers_of_slices_are_left_to_the_plain_kernel():
    inputs = [InputDescription(0, 0, axis=0), InputDescription(1, 1, axis=0)]
    body = make_loop_body(lambda arguments, _: list(arguments), [OutputDescription(0, 0)], inputs, parameters=2)
    assert run_both("iterator", [make_part((3, 2), 0), make_part((2, 2), 0)], body) is None
    assert run_both("iterator", [make_part((3, 2), 0), make_part((3, 1), 0)], body) is not None


def test_iterators_without_sliced_inputs_count_their_outputs():
    inputs, outputs = [InputDescription(0, 0)], [OutputDescription(0, 0, axis=0, start=0, end=5)]
    body = make_loop_body(lambda arguments, i: [arguments[0] + i], outputs, inputs)
    assert run_both("iterator", [make_part((1, 2), 0)], body)[0].shape == (5, 2)


def test_slices_that_end_before_the_condition_are_an_error():
    inputs = [InputDescription(2, 0, axis=0)]
    outputs = [OutputDescription(0, 0, axis=0), OutputDescription(-1, 1, purpose="execution_condition")]
    body = make_loop_body(lambda arguments, i: [arguments[0], np.array(True)], outputs, inputs, results=2)
    assert run_both("loop", [*trip(-1), make_part((3, 2), 0)], body) is None


@pytest.mark.parametrize("shape", [(), (1,)])
@pytest.mark.parametrize("dtype", [None, np.dtype(np.int32)])
@pytest.mark.parametrize("count", [3, 1025])
def test_bodies_are_passed_the_number_of_the_iteration(shape, dtype, count):
    """It is computed for many iterations at once."""
    inputs = [InputDescription(-1, 0, purpose="current_iteration")]
    outputs = [OutputDescription(0, 0, axis=0)]
    options = {"parameter_shapes": (shape,), "parameter_dtypes": (dtype,)}
    body = make_loop_body(lambda arguments, i: [arguments[0].reshape(1)], outputs, inputs, **options)
    (numbers,) = run_both("loop", trip(count), body)
    np.testing.assert_array_equal(numbers, np.arange(count))
    assert numbers.dtype == (dtype or np.int64)


def test_bodies_that_count_themselves_are_not_passed_the_number():
    inputs = [InputDescription(2, 0, purpose="current_iteration")]
    edges = (BackEdgeDescription(0, 0),)
    run = {True: lambda arguments, i: [arguments[0] + 2], False: lambda arguments, i: [arguments[0]]}
    for counts in (True, False):
        body = make_loop_body(
            run[counts], [OutputDescription(0, 0, axis=0)], inputs, back_edges=edges if counts else ()
        )
        run_both("loop", [*trip(3), np.array([5])], body)


@pytest.mark.parametrize("is_counted", [True, False])
@pytest.mark.parametrize("shapes", ["equal", "changing"])
def test_concatenated_outputs_are_limited(is_counted, shapes):
    """One array for all iterations is refused in the first one if the number is known, else when it is needed."""
    iterations = []

    def run(arguments, iteration):
        iterations.append(iteration)
        return [make_part((8,) if shapes == "equal" or not iteration else (9,), 0), np.array(iteration < COUNT - 1)]

    outputs = [OutputDescription(0, 0, axis=0)]
    if not is_counted:
        outputs.append(OutputDescription(-1, 1, purpose="execution_condition"))
    body = make_loop_body(run, outputs, parameters=0, results=2)
    inputs = trip(COUNT if is_counted else -1)
    size = 4 * COUNT * 8 if shapes == "equal" else 4 * (COUNT * 9 if is_counted else 8 + (COUNT - 1) * 9)
    with limit_allocations(size):
        iterate_loop(find_operation("Loop-5").kernel, *inputs, body=body)
    iterations.clear()
    with limit_allocations(size - 1), pytest.raises(InputError, match="the result would take"):
        iterate_loop(find_operation("Loop-5").kernel, *inputs, body=body)
    assert len(iterations) == (COUNT if not is_counted else 1 if shapes == "equal" else 2)


def make_sequence(outputs, *, has_trip_count=False, inputs=None):
    """Return a loop that doubles a sliced input, next to an invariant one."""
    first = 2 if has_trip_count else 0
    inputs = inputs or (InputDescription(first, 0, axis=0), InputDescription(first + 1, 1))
    return SequenceLoop(
        initial=(None, None, None),
        parameters=(0, 1),
        results=(2, 1),
        inputs=tuple(inputs),
        outputs=tuple(outputs),
        steps=(SequenceStep(lambda x: x * 2, (0,), (2,)),),
        stacked=frozenset((0, 2)),
        output_count=len(outputs),
        has_trip_count=has_trip_count,
    )


def test_sequences_of_results_with_changing_layouts():
    """The results of a step have other strides, other owners or another type than in the first run."""
    functions = itertools.cycle((
        lambda x: np.array(x),
        lambda x: np.asfortranarray(x),
        lambda x: np.repeat(x, 2, axis=0)[::2],
        lambda x: x.astype(np.float64),
        lambda x: np.array(x)[::-1],
        lambda x: np.array(x),
        lambda x: np.array(x).reshape(-1).reshape(x.shape),
    ))  # fmt: skip
    computed = []

    def compute(x):
        computed.append(next(functions)(x))
        return computed[-1]

    loop = replace(
        make_sequence([OutputDescription(0, 0, axis=0), OutputDescription(1, 1, axis=1)]),
        initial=(None,) * 4,
        results=(3, 2),
        steps=(
            SequenceStep(compute, (0,), (2,)),
            SequenceStep(lambda x: x.transpose(0, 2, 1, 3), (2,), (3,), is_view=True),
        ),
        stacked=frozenset((0, 2, 3)),
    )
    rng = np.random.default_rng(0)
    for _ in range(16):
        first, second = loop(rng.normal(size=(COUNT, 2, 3)).astype(F32), np.zeros(1))
        assert_same_bits(first, computed[-1].transpose(0, 2, 1, 3).reshape(2 * COUNT, 1, 3))
        assert_same_bits(second, np.moveaxis(computed[-1], 0, 1).reshape(1, 2 * COUNT, 3))
    loop = replace(loop, results=(2, 2), steps=loop.steps[:1])
    for _ in range(16):
        first, second = loop(rng.normal(size=(COUNT, 2, 3)).astype(F32), np.zeros(1))
        assert_same_bits(first, computed[-1].reshape(2 * COUNT, 3)[:, np.newaxis].reshape(first.shape))
        assert_same_bits(second, np.moveaxis(computed[-1], 0, 1).reshape(1, 2 * COUNT, 3).reshape(second.shape))


def test_weights_of_cells_in_sequences_are_replaced():
    cell = CellStep(object())
    other = SequenceStep(np.negative, (0,), (1,))
    loop = replace(make_sequence([]), steps=(SequenceStep(cell, (0,), (2,)), other))
    changed = loop.replace_weights(lambda weights: (weights, "changed"))
    assert changed.steps[0] == SequenceStep(CellStep((cell.weights, "changed")), (0,), (2,))
    assert changed.steps[1] is other
    assert replace(loop, steps=changed.steps) == changed


def test_cells_need_stacked_inputs():
    with pytest.raises(NotVectorizableError):
        CellStep(object())(np.zeros((2, 3), F32))


def double(arguments, iteration):
    return [arguments[0] * 2, arguments[1]]


@pytest.mark.parametrize("has_trip_count", [False, True])
@pytest.mark.parametrize("shape", [(2, 3), (2,), ()])
def test_sequences_equal_the_loop(has_trip_count, shape):
    data, other = make_part((COUNT, 2, 3), 0), make_part(shape, 1)
    kind, start = ("loop", trip(COUNT)) if has_trip_count else ("iterator", [])
    for axis, stride in itertools.product((None, 0, -1), (1, -1, 0)):
        outputs = [OutputDescription(i, i, axis=axis, stride=stride) for i in range(2)]
        loop = make_sequence([*outputs, OutputDescription(-1, 0)], has_trip_count=has_trip_count)
        body = make_loop_body(double, loop.outputs, loop.inputs, parameters=2, results=2)
        expected = run_both(kind, [*start, data, other], body)
        for a, b in zip(loop(*start, data, other), expected, strict=False):
            assert_same_bits(a, b)
            assert a.shape == b.shape


def test_sequences_with_other_numbers_of_iterations_are_left_to_the_loop():
    outputs = [OutputDescription(0, 0, axis=0)]
    loop, iterator = make_sequence(outputs, has_trip_count=True), make_sequence(outputs)
    data, other = make_part((COUNT, 2), 0), make_part((2,), 1)
    assert loop(*trip(2), data, other)[0].shape == (2, 2)
    for arguments in (trip(COUNT + 1), trip(0), trip(-1), trip(2, condition=False)):
        with pytest.raises(NotVectorizableError):
            loop(*arguments, data, other)
    with pytest.raises(NotVectorizableError):
        iterator(data[:0], other)
    both = (InputDescription(0, 0, axis=0), InputDescription(1, 1, axis=0))
    iterator = make_sequence(outputs, inputs=both)
    with pytest.raises(NotVectorizableError):
        iterator(data, data[:2])
    assert iterator(data, data)[0].shape == (COUNT, 2)


def test_unchanged_outputs_of_sequences_are_limited():
    loop = make_sequence([OutputDescription(0, 1, axis=0)])
    data, other = make_part((COUNT, 1), 0), make_part((1, 8), 1)
    with limit_allocations(4 * COUNT * 8):
        loop(data, other)
    with limit_allocations(4 * COUNT * 8 - 1), pytest.raises(InputError, match="the result would take"):
        loop(data, other)


@pytest.mark.parametrize("stride", [1, -1])
@pytest.mark.parametrize(("shape", "axis"), [((2, 3), 0), ((2, 3), 1), ((), 0), ((4,), -1)])
def test_values_of_known_number_are_written_into_one_array(shape, axis, stride):
    parts = [make_part(shape, seed) for seed in range(3)]
    output = _ConcatenatedOutput(OutputDescription(0, 0, axis=axis, stride=stride), 3, Collection(None))
    assert output.get_value() is None
    for number, part in enumerate(parts, 1):
        output.add(part)
        assert (output.position, output.parts) == (number, [])
    assert output.get_value() is output.value
    assert_same_bits(output.value, np.concatenate([np.atleast_1d(part) for part in parts[::stride]], axis))


@pytest.mark.parametrize("count", [None, 4])
@pytest.mark.parametrize("change", [lambda part: part[:1], lambda part: part.astype(np.float64)])
def test_values_that_change_or_are_not_counted_are_collected(count, change):
    parts = [make_part((2, 3), seed) for seed in range(4)]
    output = _ConcatenatedOutput(OutputDescription(0, 0, axis=0), count, Collection(None))
    for part in parts[:2]:
        output.add(part)
    assert (output.value is None) == (count is None)
    assert len(output.parts) == (2 if count is None else 0)
    parts[2] = change(parts[2])
    for part in parts[2:]:
        output.add(part)
    assert output.value is None
    assert len(output.parts) == 4
    for own, part in zip(output.parts, parts, strict=True):
        assert_same_bits(own, part)
    if parts[2].dtype == F32:
        assert_same_bits(output.get_value(), np.concatenate(parts))
