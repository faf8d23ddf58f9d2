"""Conformance cases for Parameter, Constant, Result, TensorIterator, Loop, ReadValue and Assign."""

from __future__ import annotations

import itertools

import numpy as np

from irrun.conformance.harness import Case, register_cases

F32 = np.float32


def _create_parameter(shape, dtype=F32):
    from openvino import PartialShape, Type, op

    return op.Parameter(Type(np.dtype(dtype)), PartialShape(list(shape)))


def _create_constant(value):
    from openvino import op

    return op.Constant(np.asarray(value))


def _create_model(outputs, parameters):
    import openvino as ov

    return ov.Model([ov.op.Result(o) for o in outputs], list(parameters))


# ------------------------------------------------------------------------------------------------ TensorIterator


@register_cases("TensorIterator", since=1)
def tensor_iterator_1(rng):
    for axis, stride, part, dynamic in itertools.product((0, 1, 2), (1, -1), (1, 2), (False, True)):
        yield _make_sliced_case(rng, axis, stride * part, part, dynamic)
    for first, second in itertools.product((1, -1), (1, -1)):
        yield _make_two_slices_case(rng, first, second)
    for stride, back_edges in itertools.product((1, -1), (1, 2, 3)):
        yield _make_recurrent_case(rng, stride, back_edges)
    for dtype in (np.int64, np.int32, np.float16, np.float64, np.uint8, np.int8):
        yield _make_accumulating_case(rng, dtype)
    for out_stride, in_stride in itertools.product((1, -1), (1, -1)):
        yield _make_shared_result_case(rng, in_stride, out_stride)
    for count in (1, 3, 5):
        yield _make_unsliced_case(rng, count)
    for cell, stride in itertools.product(("LSTMCell", "GRUCell", "RNNCell"), (1, -1)):
        yield _make_cell_case(rng, cell, stride)
    for length in (1, 2, 7):
        yield _make_invariant_case(rng, length)
    yield from _generate_partial_range_cases(rng)


def _make_sliced_case(rng, axis, stride, part, dynamic):
    """Return a case with one sliced input that is doubled and concatenated."""
    import openvino.opset8 as o

    shape = [4, 4, 4]
    shape[axis] = 6
    x = rng.normal(size=shape).astype(F32)
    start, end = (0, -1) if stride > 0 else (-1, 0)

    def build():
        from openvino import op

        outer = _create_parameter([-1 if dynamic and i != axis else n for i, n in enumerate(shape)])
        chunk = [-1 if dynamic and i != axis else n for i, n in enumerate(shape)]
        chunk[axis] = part
        inner = _create_parameter(chunk)
        doubled = o.multiply(inner, _create_constant(F32(2)))
        iterator = op.tensor_iterator()
        iterator.set_body(_create_model([doubled.output(0)], [inner]))
        iterator.set_sliced_input(inner, outer.output(0), start, stride, part, end, axis)
        result = iterator.get_body().get_results()[0].output(0)
        out = iterator.get_concatenated_slices(result, start, stride, part, end, axis)
        return _create_model([out], [outer])

    return Case([x], build=build, note=f"axis {axis} stride {stride} part {part}")


def _make_two_slices_case(rng, first, second):
    """Return a case that multiplies two inputs sliced in different directions."""
    import openvino.opset8 as o

    a = rng.normal(size=(2, 5, 3)).astype(F32)
    b = rng.normal(size=(5, 2, 3)).astype(F32)

    def build():
        from openvino import op

        pa, pb = _create_parameter(a.shape), _create_parameter(b.shape)
        ia, ib = _create_parameter((2, 1, 3)), _create_parameter((1, 2, 3))
        flat = [o.reshape(i, _create_constant(np.array([2, 3])), False) for i in (ia, ib)]
        body = o.unsqueeze(o.multiply(*flat), _create_constant(np.array([1])))
        iterator = op.tensor_iterator()
        iterator.set_body(_create_model([body.output(0)], [ia, ib]))
        for inner, outer, stride, axis in ((ia, pa, first, 1), (ib, pb, second, 0)):
            start, end = (0, -1) if stride > 0 else (-1, 0)
            iterator.set_sliced_input(inner, outer.output(0), start, stride, 1, end, axis)
        result = iterator.get_body().get_results()[0].output(0)
        out = iterator.get_concatenated_slices(result, 0, 1, 1, -1, 1)
        return _create_model([out], [pa, pb])

    return Case([a, b], build=build, note=f"directions {first} {second}")


def _make_recurrent_case(rng, stride, back_edges):
    """Return a case with 1 to 3 states, an invariant input, last values and a concatenation."""
    import openvino.opset8 as o

    x = rng.normal(size=(2, 4, 3)).astype(F32)
    w = rng.normal(size=(3,)).astype(F32)
    states = [rng.normal(size=(2, 1, 3)).astype(F32) for _ in range(back_edges)]

    def build():
        from openvino import op

        outer = [_create_parameter(v.shape) for v in (x, w, *states)]
        ix, iw, *inner = [
            _create_parameter((2, 1, 3)),
            _create_parameter((3,)),
            *[_create_parameter((2, 1, 3)) for _ in states],
        ]
        step = o.multiply(ix, iw)
        following = [o.add(o.multiply(s, _create_constant(F32(0.5))), step) for s in inner]
        iterator = op.tensor_iterator()
        iterator.set_body(_create_model([f.output(0) for f in following], [ix, iw, *inner]))
        start, end = (0, -1) if stride > 0 else (-1, 0)
        iterator.set_sliced_input(ix, outer[0].output(0), start, stride, 1, end, 1)
        iterator.set_invariant_input(iw, outer[1].output(0))
        results = [r.output(0) for r in iterator.get_body().get_results()]
        for i, s in enumerate(inner):
            iterator.set_merged_input(s, outer[2 + i].output(0), results[i])
        outs = [iterator.get_iter_value(r, -1) for r in results]
        outs.append(iterator.get_concatenated_slices(results[0], start, stride, 1, end, 1))
        return _create_model(outs, outer)

    return Case([x, w, *states], build=build, note=f"{back_edges} back edges, stride {stride}")


def _make_accumulating_case(rng, dtype):
    """Return a case that computes a running sum with integer overflow."""
    import openvino.opset8 as o

    x = (rng.normal(size=(6, 2)) * 50).astype(dtype)
    s = np.zeros((1, 2), dtype)

    def build():
        from openvino import op

        px, ps = _create_parameter(x.shape, dtype), _create_parameter(s.shape, dtype)
        ix, inner = _create_parameter((1, 2), dtype), _create_parameter((1, 2), dtype)
        total = o.add(ix, inner)
        iterator = op.tensor_iterator()
        iterator.set_body(_create_model([total.output(0)], [ix, inner]))
        iterator.set_sliced_input(ix, px.output(0), 0, 1, 1, -1, 0)
        result = iterator.get_body().get_results()[0].output(0)
        iterator.set_merged_input(inner, ps.output(0), result)
        out = iterator.get_concatenated_slices(result, 0, 1, 1, -1, 0)
        return _create_model([out], [px, ps])

    use_expected = dtype in (np.float64, np.uint8, np.int8)
    expected = [np.add.accumulate(x, 0, dtype)] if use_expected else None
    faults = ("plugin-64-bits", "plugin-bytes") if use_expected else ()
    return Case([x, s], build=build, faults=faults, expected=expected, note=f"{np.dtype(dtype)}")


def _make_shared_result_case(rng, in_stride, out_stride):
    """Return a case with several outputs from one Result: two concatenations and the last value."""
    import openvino.opset8 as o

    x = rng.normal(size=(3, 4)).astype(F32)

    def build():
        from openvino import op

        outer, inner = _create_parameter(x.shape), _create_parameter((3, 1))
        negated = o.negative(inner)
        iterator = op.tensor_iterator()
        iterator.set_body(_create_model([negated.output(0)], [inner]))
        start, end = (0, -1) if in_stride > 0 else (-1, 0)
        iterator.set_sliced_input(inner, outer.output(0), start, in_stride, 1, end, 1)
        result = iterator.get_body().get_results()[0].output(0)
        start, end = (0, -1) if out_stride > 0 else (-1, 0)
        outs = [
            iterator.get_concatenated_slices(result, start, out_stride, 1, end, 1),
            iterator.get_iter_value(result, -1),
            iterator.get_concatenated_slices(result, *((-1, -1, 1, 0) if out_stride > 0 else (0, 1, 1, -1)), 1),
        ]
        return _create_model(outs, [outer])

    return Case([x], build=build, note=f"in {in_stride} out {out_stride}")


def _make_unsliced_case(rng, count):
    """Return a case without sliced inputs: the concatenated output determines the number of iterations."""
    import openvino.opset8 as o

    s = rng.normal(size=(1, 3)).astype(F32)

    def build():
        from openvino import op

        ps, inner = _create_parameter(s.shape), _create_parameter((1, 3))
        doubled = o.add(inner, _create_constant(F32(1)))
        iterator = op.tensor_iterator()
        iterator.set_body(_create_model([doubled.output(0)], [inner]))
        result = iterator.get_body().get_results()[0].output(0)
        iterator.set_merged_input(inner, ps.output(0), result)
        out = iterator.get_concatenated_slices(result, 0, 1, 1, count, 0)
        return _create_model([out], [ps])

    return Case([s], build=build, note=f"{count} iterations without slices")


def _make_cell_case(rng, cell, stride):
    """Return a case with a recurrent cell in the body, as converters write recurrent layers."""
    from openvino.utils.node_factory import NodeFactory

    gates = {"LSTMCell": 4, "GRUCell": 3, "RNNCell": 1}[cell]
    hidden, width, steps = 4, 3, 5
    x = rng.normal(size=(2, steps, width)).astype(F32)
    states = [rng.normal(size=(2, hidden)).astype(F32) for _ in range(2 if cell == "LSTMCell" else 1)]
    w, r, b = (
        rng.normal(size=s).astype(F32) for s in ((gates * hidden, width), (gates * hidden, hidden), gates * hidden)
    )

    def build():
        import openvino.opset8 as o
        from openvino import op

        outer = [_create_parameter(v.shape) for v in (x, *states)]
        inner = [_create_parameter((2, 1, width)), *[_create_parameter((2, hidden)) for _ in states]]
        flat = o.squeeze(inner[0], _create_constant(np.array([1])))
        arguments = [flat, *inner[1:], _create_constant(w), _create_constant(r), _create_constant(b)]
        node = NodeFactory("opset4").create(cell, [a.output(0) for a in arguments], {"hidden_size": hidden})
        wide = o.unsqueeze(node.output(0), _create_constant(np.array([1])))
        iterator = op.tensor_iterator()
        iterator.set_body(_create_model([*node.outputs(), wide.output(0)], inner))
        start, end = (0, -1) if stride > 0 else (-1, 0)
        iterator.set_sliced_input(inner[0], outer[0].output(0), start, stride, 1, end, 1)
        results = [q.output(0) for q in iterator.get_body().get_results()]
        for i, s in enumerate(inner[1:]):
            iterator.set_merged_input(s, outer[1 + i].output(0), results[i])
        outs = [iterator.get_concatenated_slices(results[-1], start, stride, 1, end, 1)]
        outs += [iterator.get_iter_value(q, -1) for q in results[:-1]]
        return _create_model(outs, outer)

    return Case([x, *states], build=build, tolerance=(1e-5, 1e-6), note=f"{cell} stride {stride}")


def _make_invariant_case(rng, length):
    """Return a case that multiplies each slice with an invariant input and outputs all and the last product."""
    import openvino.opset8 as o

    x = rng.normal(size=(length, 2)).astype(F32)
    m = rng.normal(size=(2, 3)).astype(F32)

    def build():
        from openvino import op

        px, pm = _create_parameter(x.shape), _create_parameter(m.shape)
        ix, im = _create_parameter((1, 2)), _create_parameter((2, 3))
        product = o.matmul(ix, im, False, False)
        iterator = op.tensor_iterator()
        iterator.set_body(_create_model([product.output(0)], [ix, im]))
        iterator.set_sliced_input(ix, px.output(0), 0, 1, 1, -1, 0)
        iterator.set_invariant_input(im, pm.output(0))
        result = iterator.get_body().get_results()[0].output(0)
        outs = [iterator.get_concatenated_slices(result, 0, 1, 1, -1, 0), iterator.get_iter_value(result, -1)]
        return _create_model(outs, [px, pm])

    return Case([x, m], build=build, note=f"{length} rows")


def _generate_partial_range_cases(rng):
    """Yield cases with bounds that exclude a part of the axis.

    The CPU plugin and the reference implementation ignore `start` and begin at the edge of the axis. Ranges that do
    not touch the edge have precomputed values instead.
    """
    import openvino.opset8 as o

    ranges = [(0, -2, 1), (0, -3, 2), (-1, 2, -1), (-1, 3, -1), (0, -2, 1), (-1, 1, -1)]
    precomputed = [(1, -1, 1), (2, -1, 2), (2, 4, 1), (-2, 0, -1), (-3, 0, -2), (3, 1, -1), (-4, -2, 1), (0, 3, 2)]
    for start, end, stride in ranges + precomputed:
        x = rng.normal(size=(2, 6)).astype(F32)
        part = abs(stride)
        first, last = start % 6, end % 6
        order = np.arange(min(first, last), max(first, last) + 1).reshape(-1, part)
        selected = x[:, order[:: 1 if stride > 0 else -1].reshape(-1)]

        def build(start=start, end=end, stride=stride, part=part, x=x):
            from openvino import op

            outer, inner = _create_parameter(x.shape), _create_parameter((2, part))
            negated = o.negative(inner)
            iterator = op.tensor_iterator()
            iterator.set_body(_create_model([negated.output(0)], [inner]))
            iterator.set_sliced_input(inner, outer.output(0), start, stride, part, end, 1)
            result = iterator.get_body().get_results()[0].output(0)
            return _create_model([iterator.get_concatenated_slices(result, 0, part, part, -1, 1)], [outer])

        faults = () if (start, end, stride) in ranges else ("plugin-iterator-start",)
        note = f"start {start} end {end} stride {stride}"
        yield Case([x], build=build, faults=faults, expected=[-selected], note=note)


# ---------------------------------------------------------------------------------------------------------- Loop


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

    loop = op.loop(_create_constant(trip_count).output(0), _create_constant(condition).output(0))
    loop.set_function(body)
    loop.set_special_body_ports([counter, condition_output])
    return loop


def _make_counted_case(rng, count, dtype):
    """Return a case of a for loop with a state, its last value and all its values."""
    import openvino.opset8 as o

    x = rng.normal(size=(1, 3)).astype(F32)

    def build():
        outer, inner = _create_parameter(x.shape), _create_parameter(x.shape)
        doubled = o.multiply(inner, _create_constant(F32(2)))
        body = _create_model([_create_constant(np.array(True)).output(0), doubled.output(0)], [inner])
        loop = _create_loop(np.array(count, dtype), np.array(True), body)
        results = [r.output(0) for r in body.get_results()]
        loop.set_merged_input(inner, outer.output(0), results[1])
        outs = [loop.get_iter_value(results[1], -1), loop.get_concatenated_slices(results[1], 0, 1, 1, -1, 0)]
        return _create_model(outs, [outer])

    return Case([x], build=build, note=f"{count} iterations, {np.dtype(dtype)}")


def _make_while_case(rng, limit):
    """Return a case of a while loop without a trip count."""
    import openvino.opset8 as o

    x = np.zeros((1,), F32)

    def build():
        outer, inner = _create_parameter(x.shape), _create_parameter(x.shape)
        following = o.add(inner, _create_constant(F32(1)))
        again = o.reshape(
            o.less(following, _create_constant(np.array([limit], F32))), _create_constant(np.array([1])), False
        )
        body = _create_model([again.output(0), following.output(0)], [inner])
        loop = _create_loop(np.array(-1, np.int64), np.array(True), body)
        results = [r.output(0) for r in body.get_results()]
        loop.set_merged_input(inner, outer.output(0), results[1])
        outs = [loop.get_iter_value(results[1], -1), loop.get_concatenated_slices(results[1], 0, 1, 1, -1, 0)]
        return _create_model(outs, [outer])

    return Case([x], build=build, note=f"limit {limit}")


def _make_sliced_loop_case(rng, stride, axis):
    """Return a case with a sliced input and as many iterations as slices."""
    import openvino.opset8 as o

    x = rng.normal(size=(4, 4)).astype(F32)
    chunk = [4, 4]
    chunk[axis] = 1

    def build():
        outer, inner = _create_parameter(x.shape), _create_parameter(chunk)
        negated = o.negative(inner)
        body = _create_model([_create_constant(np.array(True)).output(0), negated.output(0)], [inner])
        loop = _create_loop(np.array(4, np.int64), np.array(True), body)
        start, end = (0, -1) if stride > 0 else (-1, 0)
        loop.set_sliced_input(inner, outer.output(0), start, stride, 1, end, axis)
        result = body.get_results()[1].output(0)
        return _create_model([loop.get_concatenated_slices(result, 0, 1, 1, -1, axis)], [outer])

    return Case([x], build=build, note=f"slices, stride {stride}, axis {axis}")


def _make_growing_case(rng, count):
    """Return a case with a state that grows in each iteration."""
    import openvino.opset8 as o

    x = rng.normal(size=(1, 2)).astype(F32)

    def build():
        outer, inner = _create_parameter((-1, 2)), _create_parameter((-1, 2))
        longer = o.concat([inner, _create_constant(np.ones((1, 2), F32))], 0)
        body = _create_model([_create_constant(np.array(True)).output(0), longer.output(0)], [inner])
        loop = _create_loop(np.array(count, np.int64), np.array(True), body)
        results = [r.output(0) for r in body.get_results()]
        loop.set_merged_input(inner, outer.output(0), results[1])
        return _create_model([loop.get_iter_value(results[1], -1)], [outer])

    return Case([x], build=build, note=f"{count} growing iterations")


def _make_iteration_number_case(rng, count, dtype):
    """Return a case with the iteration number as an input of the body."""
    import openvino.opset8 as o

    x = rng.normal(size=(1, 2)).astype(F32)
    number_type = np.int64 if dtype == np.float16 else dtype

    def build():
        outer, inner, number = (
            _create_parameter(x.shape),
            _create_parameter(x.shape),
            _create_parameter((), number_type),
        )
        wide = o.convert(number, "f32")
        following = o.add(inner, wide)
        listed = o.reshape(number, _create_constant(np.array([1])), False)
        body = _create_model(
            [_create_constant(np.array(True)).output(0), following.output(0), listed.output(0)], [number, inner]
        )
        loop = _create_loop(np.array(count, np.int64), np.array(True), body, counter=0)
        results = [r.output(0) for r in body.get_results()]
        loop.set_merged_input(inner, outer.output(0), results[1])
        outs = [loop.get_iter_value(results[1], -1), loop.get_concatenated_slices(results[2], 0, 1, 1, -1, 0)]
        return _create_model(outs, [outer])

    return Case([x], build=build, note=f"counts to {count} in {np.dtype(number_type)}")


def _make_loop_in_iterator_case(rng, count):
    """Return a case with a Loop in the body of a TensorIterator."""
    import openvino.opset8 as o

    x = rng.normal(size=(3, 2)).astype(F32)

    def build():
        from openvino import op

        px, middle, inner = _create_parameter(x.shape), _create_parameter((1, 2)), _create_parameter((1, 2))
        following = o.multiply(inner, _create_constant(F32(1.5)))
        body = _create_model([_create_constant(np.array(True)).output(0), following.output(0)], [inner])
        loop = _create_loop(np.array(count, np.int64), np.array(True), body)
        results = [r.output(0) for r in body.get_results()]
        loop.set_merged_input(inner, middle.output(0), results[1])
        last = loop.get_iter_value(results[1], -1)
        iterator = op.tensor_iterator()
        iterator.set_body(_create_model([last], [middle]))
        iterator.set_sliced_input(middle, px.output(0), -1, -1, 1, 0, 0)
        result = iterator.get_body().get_results()[0].output(0)
        return _create_model([iterator.get_concatenated_slices(result, 0, 1, 1, -1, 0)], [px])

    return Case([x], build=build, note=f"loop of {count} in an iterator")


def _make_iterator_in_loop_case(rng, count):
    """Return a case with a TensorIterator in the body of a Loop."""
    import openvino.opset8 as o

    x = rng.normal(size=(3, 2)).astype(F32)

    def build():
        from openvino import op

        px, middle, inner = _create_parameter(x.shape), _create_parameter((3, 2)), _create_parameter((1, 2))
        following = o.multiply(inner, _create_constant(F32(0.5)))
        iterator = op.tensor_iterator()
        iterator.set_body(_create_model([following.output(0)], [inner]))
        iterator.set_sliced_input(inner, middle.output(0), 0, 1, 1, -1, 0)
        result = iterator.get_body().get_results()[0].output(0)
        reversed_slices = iterator.get_concatenated_slices(result, -1, -1, 1, 0, 0)
        body = _create_model([_create_constant(np.array(True)).output(0), reversed_slices], [middle])
        loop = _create_loop(np.array(count, np.int64), np.array(True), body)
        results = [r.output(0) for r in body.get_results()]
        loop.set_merged_input(middle, px.output(0), results[1])
        return _create_model([loop.get_iter_value(results[1], -1)], [px])

    return Case([x], build=build, note=f"iterator in a loop of {count}")


def _make_zero_iteration_case(rng, trip_count, condition):
    """Return a case without iterations, which outputs the initial state.

    The reference implementation rejects it.
    """
    import openvino.opset8 as o

    x = rng.normal(size=(1, 3)).astype(F32)

    def build():
        outer, inner = _create_parameter(x.shape), _create_parameter(x.shape)
        doubled = o.multiply(inner, _create_constant(F32(2)))
        body = _create_model([_create_constant(np.array(True)).output(0), doubled.output(0)], [inner])
        loop = _create_loop(np.array(trip_count, np.int64), np.array(condition), body)
        results = [r.output(0) for r in body.get_results()]
        loop.set_merged_input(inner, outer.output(0), results[1])
        return _create_model([loop.get_iter_value(results[1], -1)], [outer])

    note = f"trip count {trip_count}, condition {condition}"
    return Case([x], build=build, expected=[x], faults=("plugin-loop",), note=note)


def _make_dynamic_zero_iteration_case(rng, shape, trip_count, condition, outputs=None):
    """Return a case without iterations and with dynamic shapes, so that concatenations have dimensions of 0."""
    import openvino.opset8 as o

    x = rng.normal(size=(2, 3)).astype(F32)

    def build():
        outer, count, first = _create_parameter(shape), _create_parameter((), np.int64), _create_parameter((), np.bool_)
        state, fixed = _create_parameter(shape), _create_parameter(shape)
        doubled, negated = o.multiply(state, _create_constant(F32(2))), o.negative(fixed)
        body = _create_model(
            [_create_constant(np.array(True)).output(0), doubled.output(0), negated.output(0)], [state, fixed]
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
        return _create_model(outs, [outer, count, first])

    inputs = [x, np.array(trip_count, np.int64), np.array(condition)]
    note = f"{shape}, trip count {trip_count}, condition {condition}"
    return Case(inputs, build=build, outputs=outputs, note=note)


# ------------------------------------------------------------------------------------------------------------ If


@register_cases("If", since=8)
def if_8(rng):
    for condition, same_shape, constant in itertools.product((True, False), (True, False), (True, False)):
        yield _make_branches_case(rng, condition, same_shape, constant)
    for condition in (True, False):
        yield _make_parameterless_case(rng, condition)
        yield _make_if_in_iterator_case(rng, condition)
        for shapes, constant in itertools.product(itertools.permutations(((), (1,), (3,)), 2), (True, False)):
            yield _make_scalar_or_vector_case(condition, shapes, constant)


def _make_branches_case(rng, condition, same_shape, constant):
    """Return a case with branches that use different inputs and may return different shapes."""
    import openvino.opset8 as o

    x = rng.normal(size=(2, 3)).astype(F32)
    y = rng.normal(size=(2, 3)).astype(F32)

    def build():
        from openvino import op

        cond, px, py = _create_parameter((1,), np.bool_), _create_parameter(x.shape), _create_parameter(y.shape)
        then_x, else_x, else_y = (_create_parameter(x.shape) for _ in range(3))
        then_body = _create_model([o.negative(then_x).output(0)], [then_x])
        other = o.add(else_x, else_y) if same_shape else o.concat([else_x, else_y], 0)
        else_body = _create_model([other.output(0)], [else_x, else_y])
        choice = _create_constant(np.array([condition])) if constant else cond
        node = op.if_op(choice.output(0))
        node.set_then_body(then_body)
        node.set_else_body(else_body)
        node.set_input(px.output(0), then_x, else_x)
        node.set_input(py.output(0), None, else_y)
        out = node.set_output(then_body.get_results()[0], else_body.get_results()[0])
        return _create_model([out], [px, py] if constant else [cond, px, py])

    inputs = [x, y] if constant else [np.array([condition]), x, y]
    return Case(inputs, build=build, note=f"{condition}, same shape {same_shape}")


def _make_parameterless_case(rng, condition):
    """Return a case with branches without inputs."""

    def build():
        import openvino.opset8 as o
        from openvino import op

        cond = _create_parameter((), np.bool_)
        bodies = [_create_model([o.negative(_create_constant(np.full((2,), v, F32))).output(0)], []) for v in (1, 2)]
        node = op.if_op(cond.output(0))
        node.set_then_body(bodies[0])
        node.set_else_body(bodies[1])
        out = node.set_output(bodies[0].get_results()[0], bodies[1].get_results()[0])
        return _create_model([out], [cond])

    return Case([np.array(condition)], build=build, note=f"no parameters, {condition}")


def _make_scalar_or_vector_case(condition, shapes, constant):
    """Return a case with a scalar in one branch and a vector in the other.

    Unless the condition is constant, the scalar becomes a vector of one element.
    """

    def build():
        import openvino.opset8 as o
        from openvino import op

        cond = _create_parameter((), np.bool_)
        bodies = [
            _create_model([o.negative(_create_constant(np.full(shape, 2, F32))).output(0)], []) for shape in shapes
        ]
        node = op.if_op((_create_constant(np.array(condition)) if constant else cond).output(0))
        node.set_then_body(bodies[0])
        node.set_else_body(bodies[1])
        return _create_model([node.set_output(*(body.get_results()[0] for body in bodies))], [] if constant else [cond])

    inputs = [] if constant else [np.array(condition)]
    return Case(inputs, build=build, note=f"{shapes[0]} or {shapes[1]}, {condition}")


def _make_if_in_iterator_case(rng, condition):
    """Return a case with an If in the body of a TensorIterator."""
    import openvino.opset8 as o

    x = rng.normal(size=(4, 2)).astype(F32)

    def build():
        from openvino import op

        px, cond = _create_parameter(x.shape), _create_parameter((1,), np.bool_)
        middle, middle_cond = _create_parameter((1, 2)), _create_parameter((1,), np.bool_)
        a, b = _create_parameter((1, 2)), _create_parameter((1, 2))
        bodies = [_create_model([o.negative(a).output(0)], [a]), _create_model([o.abs(b).output(0)], [b])]
        node = op.if_op(middle_cond.output(0))
        node.set_then_body(bodies[0])
        node.set_else_body(bodies[1])
        node.set_input(middle.output(0), a, b)
        out = node.set_output(bodies[0].get_results()[0], bodies[1].get_results()[0])
        iterator = op.tensor_iterator()
        iterator.set_body(_create_model([out], [middle, middle_cond]))
        iterator.set_sliced_input(middle, px.output(0), 0, 1, 1, -1, 0)
        iterator.set_invariant_input(middle_cond, cond.output(0))
        result = iterator.get_body().get_results()[0].output(0)
        return _create_model([iterator.get_concatenated_slices(result, 0, 1, 1, -1, 0)], [px, cond])

    return Case([x, np.array([condition])], build=build, note=f"in an iterator, {condition}")


# --------------------------------------------------------------------------------- state and structural operations


def _make_stateful_case(rng, dtype, shape, version, with_initial=True, difference=False):
    """Return a case with a variable that accumulates the input, run once from the initial value.

    With `difference`, the input is assigned, and the output is its difference to the previous one.
    """
    x = np.abs(rng.normal(size=shape) * 10).astype(dtype)  # the CPU plugin saturates u8

    def build():
        import openvino as ov
        import openvino.opset8 as o
        from openvino.op.util import Variable, VariableInfo
        from openvino.utils.node_factory import NodeFactory

        px = _create_parameter(shape, dtype)
        initial = _create_constant(np.full(shape, 3, dtype))
        info = VariableInfo()
        info.data_shape = ov.PartialShape(list(shape))
        info.data_type = ov.Type(np.dtype(dtype))
        info.variable_id = "sum"
        if version == 3:
            factory = NodeFactory("opset3")
            read = factory.create("ReadValue", [initial.output(0)], {"variable_id": "sum"})
            total = o.add(read, px)
            assign = factory.create("Assign", [total.output(0)], {"variable_id": "sum"})
        else:
            variable = Variable(info)
            read = ov.opset6.read_value(initial if with_initial else variable, *([variable] if with_initial else []))
            total = o.subtract(px, read) if difference else o.add(read, px)
            assign = ov.opset6.assign(px if difference else total, variable)
        return ov.Model([ov.op.Result(total.output(0))], [assign], [px])

    note = f"{np.dtype(dtype)} {shape}"
    if difference:
        return Case(
            [x], build=build, faults=["plugin-variable"], expected=[x - dtype(3)], note=f"{note}, the input is assigned"
        )
    return Case([x], build=build, note=note)


@register_cases("ReadValue", since=3)
def read_value_3(rng):
    for dtype, shape in itertools.product((F32, np.int32, np.uint8, np.float16), ((2, 3), (1,))):
        yield _make_stateful_case(rng, dtype, shape, 3)


@register_cases("Assign", since=3)
def assign_3(rng):
    for dtype, shape in itertools.product((F32, np.int32), ((2, 3), (4,), (1, 1, 2), ())):
        yield _make_stateful_case(rng, dtype, shape, 3)


@register_cases("ReadValue", since=6)
def read_value_6(rng):
    for dtype, shape, initial in itertools.product((F32, np.int32, np.float16), ((2, 3), (1,)), (True, False)):
        yield _make_stateful_case(rng, dtype, shape, 6, initial)


@register_cases("Assign", since=6)
def assign_6(rng):
    for dtype, shape in itertools.product((F32, np.int32), ((2, 3), (4,), (1, 1, 2), ())):
        yield _make_stateful_case(rng, dtype, shape, 6)
    yield _make_stateful_case(rng, F32, (4,), 6, difference=True)


@register_cases("Parameter", since=1)
def parameter_1(rng):
    yield from _generate_pass_through_cases(rng)


@register_cases("Result", since=1)
def result_1(rng):
    yield from _generate_pass_through_cases(rng)


def _generate_pass_through_cases(rng):
    shapes = ((2, 3), (), (0, 2), (1, 2, 3, 4, 5))
    for dtype, shape in itertools.product((F32, np.int64, np.bool_, np.float16, np.uint8), shapes):
        x = (rng.normal(size=shape) * 4).astype(dtype)
        for dynamic in (False, True):

            def build(x=x, dynamic=dynamic):
                import openvino.opset8 as o

                parameter = _create_parameter([-1] * x.ndim if dynamic else x.shape, x.dtype)
                copy = o.concat([parameter, parameter], 0) if x.ndim else parameter
                return _create_model([parameter.output(0), copy.output(0)], [parameter])

            yield Case([x], build=build, note=f"dynamic {dynamic}")


@register_cases("Constant", since=1)
def constant_1(rng):
    dtypes = (F32, np.float64, np.float16, np.int64, np.int32, np.int16, np.int8, np.uint8, np.uint64, np.bool_)
    for dtype, shape in itertools.product(dtypes, ((2, 3), (), (5,))):
        value = (rng.normal(size=shape) * 5).astype(dtype)

        def build(value=value):
            return _create_model([_create_constant(value).output(0)], [])

        faults = ("plugin-64-bits",) if dtype in (np.float64, np.uint64) else ()
        yield Case([], build=build, faults=faults, expected=[value], note=f"{value.dtype} {value.shape}")
