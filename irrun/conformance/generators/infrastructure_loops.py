"""Conformance cases for Loop."""

from __future__ import annotations

import itertools

import numpy as np

from irrun.conformance.cases import Case, register_cases
from irrun.conformance.generators.infrastructure import F32, create_constant, create_model, create_parameter


@register_cases("Loop", since=5)
def loop_5(rng):
    for count, dtype in itertools.product((1, 3, 5), (np.int64, np.int32)):
        yield _make_counted_case(rng, count, dtype)
    for limit in (0, 2, 4, 8):
        yield _make_while_case(rng, limit)
    for stride, axis in itertools.product((1, -1), (0, 1)):
        yield _make_sliced_loop_case(rng, stride, axis)
    for count in (1, 4):
        yield _make_growing_case(rng, count)
    for count in (1, 3):
        yield _make_loop_in_iterator_case(rng, count)
        yield _make_iterator_in_loop_case(rng, count)
    for count, dtype in itertools.product((2, 4), (np.int64, np.int32, np.float16)):
        yield _make_iteration_number_case(rng, count, dtype)
    yield _make_zero_iteration_case(rng, trip_count=0, condition=True)
    yield _make_zero_iteration_case(rng, trip_count=3, condition=False)
    for shape, (count, condition) in itertools.product(((-1, 3), (-1, -1)), ((0, True), (3, False))):
        yield _make_dynamic_zero_iteration_case(rng, shape, count, condition)
    yield _make_dynamic_zero_iteration_case(
        rng, (2, 3), 0, True, outputs=(0, 2, 3, 4, 5)
    )  # the last value of output 1 is undefined


def _create_loop(trip_count, condition, body, counter=-1, condition_output=0):
    from openvino import op

    loop = op.loop(create_constant(trip_count).output(0), create_constant(condition).output(0))
    loop.set_function(body)
    loop.set_special_body_ports([counter, condition_output])
    return loop


def _make_counted_case(rng, count, dtype):
    """Return a case of a for loop with a state, its last value and all its values."""
    import openvino.opset8 as o

    x = rng.normal(size=(1, 3)).astype(F32)

    def build():
        outer, inner = create_parameter(x.shape), create_parameter(x.shape)
        doubled = o.multiply(inner, create_constant(F32(2)))
        body = create_model([create_constant(np.array(True)).output(0), doubled.output(0)], [inner])
        loop = _create_loop(np.array(count, dtype), np.array(True), body)
        results = [r.output(0) for r in body.get_results()]
        loop.set_merged_input(inner, outer.output(0), results[1])
        outs = [loop.get_iter_value(results[1], -1), loop.get_concatenated_slices(results[1], 0, 1, 1, -1, 0)]
        return create_model(outs, [outer])

    return Case([x], build=build, note=f"{count} iterations, {np.dtype(dtype)}")


def _make_while_case(rng, limit):
    """Return a case of a while loop without a trip count."""
    import openvino.opset8 as o

    x = np.zeros((1,), F32)

    def build():
        outer, inner = create_parameter(x.shape), create_parameter(x.shape)
        following = o.add(inner, create_constant(F32(1)))
        again = o.reshape(
            o.less(following, create_constant(np.array([limit], F32))), create_constant(np.array([1])), False
        )
        body = create_model([again.output(0), following.output(0)], [inner])
        loop = _create_loop(np.array(-1, np.int64), np.array(True), body)
        results = [r.output(0) for r in body.get_results()]
        loop.set_merged_input(inner, outer.output(0), results[1])
        outs = [loop.get_iter_value(results[1], -1), loop.get_concatenated_slices(results[1], 0, 1, 1, -1, 0)]
        return create_model(outs, [outer])

    return Case([x], build=build, note=f"limit {limit}")


def _make_sliced_loop_case(rng, stride, axis):
    """Return a case with a sliced input and as many iterations as slices."""
    import openvino.opset8 as o

    x = rng.normal(size=(4, 4)).astype(F32)
    chunk = [4, 4]
    chunk[axis] = 1

    def build():
        outer, inner = create_parameter(x.shape), create_parameter(chunk)
        negated = o.negative(inner)
        body = create_model([create_constant(np.array(True)).output(0), negated.output(0)], [inner])
        loop = _create_loop(np.array(4, np.int64), np.array(True), body)
        start, end = (0, -1) if stride > 0 else (-1, 0)
        loop.set_sliced_input(inner, outer.output(0), start, stride, 1, end, axis)
        result = body.get_results()[1].output(0)
        return create_model([loop.get_concatenated_slices(result, 0, 1, 1, -1, axis)], [outer])

    return Case([x], build=build, note=f"slices, stride {stride}, axis {axis}")


def _make_growing_case(rng, count):
    """Return a case with a state that grows in each iteration."""
    import openvino.opset8 as o

    x = rng.normal(size=(1, 2)).astype(F32)

    def build():
        outer, inner = create_parameter((-1, 2)), create_parameter((-1, 2))
        longer = o.concat([inner, create_constant(np.ones((1, 2), F32))], 0)
        body = create_model([create_constant(np.array(True)).output(0), longer.output(0)], [inner])
        loop = _create_loop(np.array(count, np.int64), np.array(True), body)
        results = [r.output(0) for r in body.get_results()]
        loop.set_merged_input(inner, outer.output(0), results[1])
        return create_model([loop.get_iter_value(results[1], -1)], [outer])

    return Case([x], build=build, note=f"{count} growing iterations")


def _make_iteration_number_case(rng, count, dtype):
    """Return a case with the iteration number as an input of the body."""
    import openvino.opset8 as o

    x = rng.normal(size=(1, 2)).astype(F32)
    number_type = np.int64 if dtype == np.float16 else dtype

    def build():
        outer, inner, number = (
            create_parameter(x.shape),
            create_parameter(x.shape),
            create_parameter((), number_type),
        )
        wide = o.convert(number, "f32")
        following = o.add(inner, wide)
        listed = o.reshape(number, create_constant(np.array([1])), False)
        body = create_model(
            [create_constant(np.array(True)).output(0), following.output(0), listed.output(0)], [number, inner]
        )
        loop = _create_loop(np.array(count, np.int64), np.array(True), body, counter=0)
        results = [r.output(0) for r in body.get_results()]
        loop.set_merged_input(inner, outer.output(0), results[1])
        outs = [loop.get_iter_value(results[1], -1), loop.get_concatenated_slices(results[2], 0, 1, 1, -1, 0)]
        return create_model(outs, [outer])

    return Case([x], build=build, note=f"counts to {count} in {np.dtype(number_type)}")


def _make_loop_in_iterator_case(rng, count):
    """Return a case with a Loop in the body of a TensorIterator."""
    import openvino.opset8 as o

    x = rng.normal(size=(3, 2)).astype(F32)

    def build():
        from openvino import op

        px, middle, inner = create_parameter(x.shape), create_parameter((1, 2)), create_parameter((1, 2))
        following = o.multiply(inner, create_constant(F32(1.5)))
        body = create_model([create_constant(np.array(True)).output(0), following.output(0)], [inner])
        loop = _create_loop(np.array(count, np.int64), np.array(True), body)
        results = [r.output(0) for r in body.get_results()]
        loop.set_merged_input(inner, middle.output(0), results[1])
        last = loop.get_iter_value(results[1], -1)
        iterator = op.tensor_iterator()
        iterator.set_body(create_model([last], [middle]))
        iterator.set_sliced_input(middle, px.output(0), -1, -1, 1, 0, 0)
        result = iterator.get_body().get_results()[0].output(0)
        return create_model([iterator.get_concatenated_slices(result, 0, 1, 1, -1, 0)], [px])

    return Case([x], build=build, note=f"loop of {count} in an iterator")


def _make_iterator_in_loop_case(rng, count):
    """Return a case with a TensorIterator in the body of a Loop."""
    import openvino.opset8 as o

    x = rng.normal(size=(3, 2)).astype(F32)

    def build():
        from openvino import op

        px, middle, inner = create_parameter(x.shape), create_parameter((3, 2)), create_parameter((1, 2))
        following = o.multiply(inner, create_constant(F32(0.5)))
        iterator = op.tensor_iterator()
        iterator.set_body(create_model([following.output(0)], [inner]))
        iterator.set_sliced_input(inner, middle.output(0), 0, 1, 1, -1, 0)
        result = iterator.get_body().get_results()[0].output(0)
        reversed_slices = iterator.get_concatenated_slices(result, -1, -1, 1, 0, 0)
        body = create_model([create_constant(np.array(True)).output(0), reversed_slices], [middle])
        loop = _create_loop(np.array(count, np.int64), np.array(True), body)
        results = [r.output(0) for r in body.get_results()]
        loop.set_merged_input(middle, px.output(0), results[1])
        return create_model([loop.get_iter_value(results[1], -1)], [px])

    return Case([x], build=build, note=f"iterator in a loop of {count}")


def _make_zero_iteration_case(rng, trip_count, condition):
    """Return a case without iterations, which outputs the initial state.

    The reference implementation rejects it.
    """
    import openvino.opset8 as o

    x = rng.normal(size=(1, 3)).astype(F32)

    def build():
        outer, inner = create_parameter(x.shape), create_parameter(x.shape)
        doubled = o.multiply(inner, create_constant(F32(2)))
        body = create_model([create_constant(np.array(True)).output(0), doubled.output(0)], [inner])
        loop = _create_loop(np.array(trip_count, np.int64), np.array(condition), body)
        results = [r.output(0) for r in body.get_results()]
        loop.set_merged_input(inner, outer.output(0), results[1])
        return create_model([loop.get_iter_value(results[1], -1)], [outer])

    note = f"trip count {trip_count}, condition {condition}"
    return Case([x], build=build, expected=[x], faults=("plugin-loop",), note=note)


def _make_dynamic_zero_iteration_case(rng, shape, trip_count, condition, outputs=None):
    """Return a case without iterations and with dynamic shapes, so that concatenations have dimensions of 0."""
    import openvino.opset8 as o

    x = rng.normal(size=(2, 3)).astype(F32)

    def build():
        outer, count, first = create_parameter(shape), create_parameter((), np.int64), create_parameter((), np.bool_)
        state, fixed = create_parameter(shape), create_parameter(shape)
        doubled, negated = o.multiply(state, create_constant(F32(2))), o.negative(fixed)
        body = create_model(
            [create_constant(np.array(True)).output(0), doubled.output(0), negated.output(0)], [state, fixed]
        )
        from openvino import op

        loop = op.loop(count.output(0), first.output(0))
        loop.set_function(body)
        loop.set_special_body_ports([-1, 0])
        results = [r.output(0) for r in body.get_results()]
        loop.set_merged_input(state, outer.output(0), results[1])
        loop.set_invariant_input(fixed, outer.output(0))
        outs = [loop.get_iter_value(r, -1) for r in results[1:]]
        outs += [loop.get_concatenated_slices(r, 0, 1, 1, -1, axis) for r in results[1:] for axis in (0, 1)]
        return create_model(outs, [outer, count, first])

    inputs = [x, np.array(trip_count, np.int64), np.array(condition)]
    note = f"{shape}, trip count {trip_count}, condition {condition}"
    return Case(inputs, build=build, outputs=outputs, note=note)
