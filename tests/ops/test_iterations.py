"""Iterations of loops, with bodies that are functions."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from irrun.errors import InputError
from irrun.limits import limit_allocations
from irrun.ops._support.context import BackEdgeDescription, BodyRunner, InputDescription, OutputDescription
from irrun.ops._support.iterations import COUNTER_BLOCK, run_iterations
from irrun.ops.infrastructure.loops import loop_5, tensor_iterator_1

Array = np.ndarray[Any, Any]

I64 = np.dtype(np.int64)


def make_body(function: Any, parameters: int, count: int = 1, **description: Any) -> tuple[BodyRunner, list[Any]]:
    """Return a body, and the list of the numbers of iterations that it will be told."""
    expected: list[Any] = []
    results = description.get("outputs", ())
    description.setdefault("result_shapes", (None,) * len(results))
    description.setdefault("result_dtypes", (I64,) * len(results))

    def run(arguments: Any, iteration: int) -> list[Array]:
        return [np.asarray(x) for x in function(iteration, *arguments)]

    return BodyRunner(run, parameters, count, expect_iterations=expected.append, **description), expected


def count_runs(limit: int, starts: bool, condition: Any, constant: Any = None) -> tuple[int, list[Any]]:
    """Return how often a Loop runs a body that returns a condition, and the numbers of iterations that it expects."""
    numbers: list[int] = []

    def function(iteration: int) -> list[Any]:
        numbers.append(iteration)
        return [condition(iteration)]

    outputs = (OutputDescription(-1, 0, purpose="execution_condition"),)
    known = {} if constant is None else {0: np.array(constant)}
    body, expected = make_body(function, 0, 0, outputs=outputs, constant_results=known)
    assert loop_5(np.array(limit), np.array(starts), body=body) == ()
    assert numbers == list(range(len(numbers)))
    return len(numbers), expected


def test_loops_end_by_their_number_or_their_condition() -> None:
    assert count_runs(3, True, lambda i: True) == (3, [None])
    assert count_runs(3, True, lambda i: i < 1) == (2, [None])
    assert count_runs(-1, True, lambda i: i < 4) == (5, [None])
    assert count_runs(0, True, lambda i: True) == (0, [None])
    assert count_runs(3, False, lambda i: True) == (0, [None])


def test_constant_conditions_determine_the_number_of_iterations() -> None:
    assert count_runs(3, True, lambda i: False, constant=True) == (3, [3])
    assert count_runs(3, True, lambda i: True, constant=False) == (1, [1])
    assert count_runs(0, True, lambda i: True, constant=False) == (0, [0])
    assert count_runs(-1, True, lambda i: True, constant=[False]) == (1, [1])
    assert count_runs(3, True, lambda i: i < 1, constant=[True, True]) == (2, [None])


CONCATENATED = OutputDescription(0, 0, axis=0)


@pytest.mark.parametrize(
    ("axis", "stride", "expected"),
    [
        (0, 1, [[0, 1], [10, 11], [20, 21]]),
        (0, -1, [[20, 21], [10, 11], [0, 1]]),
        (1, 1, [[0, 1, 10, 11, 20, 21]]),
        (-1, -1, [[20, 21, 10, 11, 0, 1]]),
    ],
)
def test_parts_are_concatenated_along_an_axis(axis: int, stride: int, expected: Any) -> None:
    output = OutputDescription(0, 0, axis=axis, stride=stride)
    body, _ = make_body(lambda i: [[[10 * i, 10 * i + 1]]], 0, outputs=(output,))
    (result,) = run_iterations([], body, [], 3)
    assert result.tolist() == expected


def test_scalars_are_concatenated_and_last_values_returned() -> None:
    outputs = (OutputDescription(1, 0), OutputDescription(0, 0, axis=0, stride=-1))
    body, _ = make_body(lambda i: [i * i], 0, 2, outputs=outputs)
    joined, last = run_iterations([], body, [], 4)
    assert (joined.tolist(), last.tolist()) == ([9, 4, 1, 0], 9)


def test_states_are_passed_on_and_slices_in_order() -> None:
    """The first input is sliced, the second one a state, and the third one passed whole."""
    inputs = (InputDescription(0, 0, axis=0), InputDescription(1, 2), InputDescription(2, 1))
    body, _ = make_body(
        lambda i, part, whole, state: [state * whole + part],
        3,
        inputs=inputs,
        outputs=(OutputDescription(0, 0),),
        back_edges=(BackEdgeDescription(0, 2),),
    )
    (result,) = tensor_iterator_1(np.array([1, 2, 3]), np.array([5]), np.array(10), body=body)
    assert result.tolist() == [5123]


def test_slices_must_suffice_and_have_the_same_number() -> None:
    inputs = (InputDescription(2, 0, axis=0),)
    body, _ = make_body(lambda i, part: [part], 1, inputs=inputs, outputs=(OutputDescription(0, 0),))
    (result,) = loop_5(np.array(2), np.array(True), np.arange(3), body=body)
    assert result.tolist() == [1]
    with pytest.raises(InputError, match="iteration 3 is out of range: input 2 has 3 slices"):
        loop_5(np.array(4), np.array(True), np.arange(3), body=body)
    inputs = (InputDescription(0, 0, axis=0), InputDescription(1, 1, axis=0))
    body, _ = make_body(lambda i, a, b: [a + b], 2, inputs=inputs, outputs=(OutputDescription(0, 0),))
    with pytest.raises(InputError, match=r"different numbers of iterations \(input 0: 2, input 1: 3\)"):
        tensor_iterator_1(np.arange(2), np.arange(3), body=body)


@pytest.mark.parametrize(("shape", "dtype"), [((), np.int32), ((1,), np.int64), (None, None)])
def test_bodies_may_count_iterations(shape: Any, dtype: Any) -> None:
    count = 2 * COUNTER_BLOCK + 3
    body, _ = make_body(
        lambda i, number: [number],
        1,
        inputs=(InputDescription(-1, 0, purpose="current_iteration"),),
        outputs=(CONCATENATED,),
        parameter_shapes=(shape,),
        parameter_dtypes=(None if dtype is None else np.dtype(dtype),),
    )
    (result,) = run_iterations([], body, [], count)
    assert result.dtype == (dtype or np.int64)
    np.testing.assert_array_equal(result, np.arange(count))


def test_counters_start_at_their_input_or_are_counted_by_the_body() -> None:
    inputs = (InputDescription(0, 0), InputDescription(-1, 0, purpose="current_iteration"))
    known = {"inputs": inputs, "outputs": (CONCATENATED,), "parameter_shapes": ((2,),), "parameter_dtypes": (I64,)}
    body, _ = make_body(lambda i, number: [number], 1, **known)
    (result,) = run_iterations([np.array([7, 8])], body, [], 3)
    assert result.tolist() == [7, 8, 1, 1, 2, 2]
    body, _ = make_body(lambda i, number: [number * 2], 1, back_edges=(BackEdgeDescription(0, 0),), **known)
    (result,) = run_iterations([np.array([7, 8])], body, [], 2)
    assert result.tolist() == [14, 16, 28, 32]


@pytest.mark.parametrize(
    ("output", "shape", "dtype", "expected"),
    [
        (OutputDescription(0, 0, axis=1), (2, 3, None), np.float64, np.zeros((2, 0, 0))),
        (OutputDescription(0, 0, axis=-3), (2, 3, None), np.float64, np.zeros((0, 3, 0))),
        (OutputDescription(0, 0, axis=1), None, None, np.zeros((0, 0), np.float32)),
        (OutputDescription(0, 0, axis=-2), None, None, np.zeros(0, np.float32)),
        (OutputDescription(0, 0), (2, None), np.int8, np.zeros((2, 0), np.int8)),
        (OutputDescription(0, 0), (3,), None, np.zeros(3, np.float32)),
    ],
)
def test_outputs_without_an_iteration_have_the_declared_shape(
    output: OutputDescription, shape: Any, dtype: Any, expected: Array
) -> None:
    if output.axis == -2:
        output = output._replace(axis=-1)
    dtypes = (None if dtype is None else np.dtype(dtype),)
    body, _ = make_body(lambda i: [i], 0, outputs=(output,), result_shapes=(shape,), result_dtypes=dtypes)
    (result,) = run_iterations([], body, [], 0)
    assert (result.dtype, result.shape) == (expected.dtype, expected.shape)
    np.testing.assert_array_equal(result, expected)


def test_outputs_without_an_iteration_are_initial_states_or_undefined() -> None:
    known = {"inputs": (InputDescription(0, 1),), "outputs": (OutputDescription(0, 0),)}
    body, _ = make_body(lambda i, a, b: [b], 2, back_edges=(BackEdgeDescription(0, 1),), **known)
    (result,) = run_iterations([np.array([4, 5])], body, [], 3, run_first=False)
    assert result.tolist() == [4, 5]
    body, _ = make_body(lambda i, a, b: [b], 2, back_edges=(BackEdgeDescription(1, 1),), **known)
    with pytest.raises(InputError, match=r"^output 0 is undefined, because no iteration ran$"):
        run_iterations([np.array([4, 5])], body, [], 0)


def test_large_outputs_are_refused_before_or_after_the_iterations() -> None:
    part = np.zeros((1, 1000), np.uint8)
    body, _ = make_body(lambda i: [part], 0, outputs=(CONCATENATED,))
    with limit_allocations(5000):
        (result,) = run_iterations([], body, [], 5)
        assert result.shape == (5, 1000)
        with pytest.raises(InputError, match=r"6 \* 1000 bytes"):
            run_iterations([], body, [], 6)
    with limit_allocations(1000), pytest.raises(InputError, match="bytes, expected at most"):
        run_iterations(
            [],
            make_body(lambda i: [np.zeros((50, 50))], 0, outputs=(OutputDescription(0, 0),), result_shapes=((50, 50),))[
                0
            ],
            [],
            0,
        )
