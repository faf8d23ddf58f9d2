"""Configurations for Parameter, Constant, Result, TensorIterator, Loop, ReadValue and Assign."""

from __future__ import annotations

import itertools

import numpy as np

from conformance.harness import Case, configurations

F32 = np.float32


def _parameter(shape, dtype=F32):
    from openvino import PartialShape, Type, op

    return op.Parameter(Type(np.dtype(dtype)), PartialShape(list(shape)))


def _constant(value):
    from openvino import op

    return op.Constant(np.asarray(value))


def _model(outputs, parameters):
    import openvino as ov

    return ov.Model([ov.op.Result(o) for o in outputs], list(parameters))


# ------------------------------------------------------------------------------------------------ TensorIterator


@configurations("TensorIterator", since=1)
def tensor_iterator_1(rng):
    for axis, stride, part, dynamic in itertools.product((0, 1, 2), (1, -1), (1, 2), (False, True)):
        yield _sliced(rng, axis, stride * part, part, dynamic)
    for first, second in itertools.product((1, -1), (1, -1)):
        yield _two_slices(rng, first, second)
    for stride, back_edges in itertools.product((1, -1), (1, 2, 3)):
        yield _recurrent(rng, stride, back_edges)
    for dtype in (np.int64, np.int32, np.float16, np.float64, np.uint8, np.int8):
        yield _accumulating(rng, dtype)
    for out_stride, in_stride in itertools.product((1, -1), (1, -1)):
        yield _one_result_twice(rng, in_stride, out_stride)
    for count in (1, 3, 5):
        yield _no_slices(rng, count)
    for cell, stride in itertools.product(("LSTMCell", "GRUCell", "RNNCell"), (1, -1)):
        yield _cell(rng, cell, stride)
    for length in (1, 2, 7):
        yield _changing_invariant(rng, length)
    yield from _partial_ranges(rng)


def _sliced(rng, axis, stride, part, dynamic):
    """One sliced input, doubled and concatenated again, along each axis, forward and in reverse."""
    import openvino.opset8 as o

    shape = [4, 4, 4]
    shape[axis] = 6
    x = rng.normal(size=shape).astype(F32)
    start, end = (0, -1) if stride > 0 else (-1, 0)

    def build():
        from openvino import op

        outer = _parameter([-1 if dynamic and i != axis else n for i, n in enumerate(shape)])
        chunk = [-1 if dynamic and i != axis else n for i, n in enumerate(shape)]
        chunk[axis] = part
        inner = _parameter(chunk)
        doubled = o.multiply(inner, _constant(F32(2)))
        iterator = op.tensor_iterator()
        iterator.set_body(_model([doubled.output(0)], [inner]))
        iterator.set_sliced_input(inner, outer.output(0), start, stride, part, end, axis)
        result = iterator.get_body().get_results()[0].output(0)
        out = iterator.get_concatenated_slices(result, start, stride, part, end, axis)
        return _model([out], [outer])

    return Case([x], build=build, oracles=("cpu",), note=f"axis {axis} stride {stride} part {part}")


def _two_slices(rng, first, second):
    """Two sliced inputs in directions of their own, joined by a product."""
    import openvino.opset8 as o

    a = rng.normal(size=(2, 5, 3)).astype(F32)
    b = rng.normal(size=(5, 2, 3)).astype(F32)

    def build():
        from openvino import op

        pa, pb = _parameter(a.shape), _parameter(b.shape)
        ia, ib = _parameter((2, 1, 3)), _parameter((1, 2, 3))
        flat = [o.reshape(i, _constant(np.array([2, 3])), False) for i in (ia, ib)]
        body = o.unsqueeze(o.multiply(*flat), _constant(np.array([1])))
        iterator = op.tensor_iterator()
        iterator.set_body(_model([body.output(0)], [ia, ib]))
        for inner, outer, stride, axis in ((ia, pa, first, 1), (ib, pb, second, 0)):
            start, end = (0, -1) if stride > 0 else (-1, 0)
            iterator.set_sliced_input(inner, outer.output(0), start, stride, 1, end, axis)
        result = iterator.get_body().get_results()[0].output(0)
        out = iterator.get_concatenated_slices(result, 0, 1, 1, -1, 1)
        return _model([out], [pa, pb])

    return Case([a, b], build=build, oracles=("cpu",), note=f"directions {first} {second}")


def _recurrent(rng, stride, back_edges):
    """Sums with 1 to 3 states, an invariant input, last values and a concatenation."""
    import openvino.opset8 as o

    x = rng.normal(size=(2, 4, 3)).astype(F32)
    w = rng.normal(size=(3,)).astype(F32)
    states = [rng.normal(size=(2, 1, 3)).astype(F32) for _ in range(back_edges)]

    def build():
        from openvino import op

        outer = [_parameter(v.shape) for v in (x, w, *states)]
        ix, iw, *inner = [_parameter((2, 1, 3)), _parameter((3,)), *[_parameter((2, 1, 3)) for _ in states]]
        step = o.multiply(ix, iw)
        following = [o.add(o.multiply(s, _constant(F32(0.5))), step) for s in inner]
        iterator = op.tensor_iterator()
        iterator.set_body(_model([f.output(0) for f in following], [ix, iw, *inner]))
        start, end = (0, -1) if stride > 0 else (-1, 0)
        iterator.set_sliced_input(ix, outer[0].output(0), start, stride, 1, end, 1)
        iterator.set_invariant_input(iw, outer[1].output(0))
        results = [r.output(0) for r in iterator.get_body().get_results()]
        for i, s in enumerate(inner):
            iterator.set_merged_input(s, outer[2 + i].output(0), results[i])
        outs = [iterator.get_iter_value(r, -1) for r in results]
        outs.append(iterator.get_concatenated_slices(results[0], start, stride, 1, end, 1))
        return _model(outs, outer)

    return Case([x, w, *states], build=build, oracles=("cpu",), note=f"{back_edges} back edges, stride {stride}")


def _accumulating(rng, dtype):
    """A running sum in every element type, integers wrapping around."""
    import openvino.opset8 as o

    x = (rng.normal(size=(6, 2)) * 50).astype(dtype)
    s = np.zeros((1, 2), dtype)

    def build():
        from openvino import op

        px, ps = _parameter(x.shape, dtype), _parameter(s.shape, dtype)
        ix, inner = _parameter((1, 2), dtype), _parameter((1, 2), dtype)
        total = o.add(ix, inner)
        iterator = op.tensor_iterator()
        iterator.set_body(_model([total.output(0)], [ix, inner]))
        iterator.set_sliced_input(ix, px.output(0), 0, 1, 1, -1, 0)
        result = iterator.get_body().get_results()[0].output(0)
        iterator.set_merged_input(inner, ps.output(0), result)
        out = iterator.get_concatenated_slices(result, 0, 1, 1, -1, 0)
        return _model([out], [px, ps])

    # The CPU plugin adds f64 as f32, and 8-bit integers with saturation; the reference does not run bodies.
    own = dtype in (np.float64, np.uint8, np.int8)
    expected = [np.add.accumulate(x, 0, dtype)] if own else None
    return Case([x, s], build=build, oracles=() if own else ("cpu",), expected=expected, note=f"{np.dtype(dtype)}")


def _one_result_twice(rng, in_stride, out_stride):
    """Several outputs from one Result: both concatenations and the last value."""
    import openvino.opset8 as o

    x = rng.normal(size=(3, 4)).astype(F32)

    def build():
        from openvino import op

        outer, inner = _parameter(x.shape), _parameter((3, 1))
        negated = o.negative(inner)
        iterator = op.tensor_iterator()
        iterator.set_body(_model([negated.output(0)], [inner]))
        start, end = (0, -1) if in_stride > 0 else (-1, 0)
        iterator.set_sliced_input(inner, outer.output(0), start, in_stride, 1, end, 1)
        result = iterator.get_body().get_results()[0].output(0)
        start, end = (0, -1) if out_stride > 0 else (-1, 0)
        outs = [
            iterator.get_concatenated_slices(result, start, out_stride, 1, end, 1),
            iterator.get_iter_value(result, -1),
            iterator.get_concatenated_slices(result, *((-1, -1, 1, 0) if out_stride > 0 else (0, 1, 1, -1)), 1),
        ]
        return _model(outs, [outer])

    return Case([x], build=build, oracles=("cpu",), note=f"in {in_stride} out {out_stride}")


def _no_slices(rng, count):
    """No sliced input: the concatenated output says how many iterations there are."""
    import openvino.opset8 as o

    s = rng.normal(size=(1, 3)).astype(F32)

    def build():
        from openvino import op

        ps, inner = _parameter(s.shape), _parameter((1, 3))
        doubled = o.add(inner, _constant(F32(1)))
        iterator = op.tensor_iterator()
        iterator.set_body(_model([doubled.output(0)], [inner]))
        result = iterator.get_body().get_results()[0].output(0)
        iterator.set_merged_input(inner, ps.output(0), result)
        out = iterator.get_concatenated_slices(result, 0, 1, 1, count, 0)
        return _model([out], [ps])

    return Case([s], build=build, oracles=("cpu", "evaluate"), note=f"{count} iterations without slices")


def _cell(rng, cell, stride):
    """A recurrent cell in the body, as converters write recurrent layers."""
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

        outer = [_parameter(v.shape) for v in (x, *states)]
        inner = [_parameter((2, 1, width)), *[_parameter((2, hidden)) for _ in states]]
        flat = o.squeeze(inner[0], _constant(np.array([1])))
        arguments = [flat, *inner[1:], _constant(w), _constant(r), _constant(b)]
        node = NodeFactory("opset4").create(cell, [a.output(0) for a in arguments], {"hidden_size": hidden})
        wide = o.unsqueeze(node.output(0), _constant(np.array([1])))
        iterator = op.tensor_iterator()
        iterator.set_body(_model([*node.outputs(), wide.output(0)], inner))
        start, end = (0, -1) if stride > 0 else (-1, 0)
        iterator.set_sliced_input(inner[0], outer[0].output(0), start, stride, 1, end, 1)
        results = [q.output(0) for q in iterator.get_body().get_results()]
        for i, s in enumerate(inner[1:]):
            iterator.set_merged_input(s, outer[1 + i].output(0), results[i])
        outs = [iterator.get_concatenated_slices(results[-1], start, stride, 1, end, 1)]
        outs += [iterator.get_iter_value(q, -1) for q in results[:-1]]
        return _model(outs, outer)

    return Case([x, *states], build=build, oracles=("cpu",), tolerance=(1e-5, 1e-6), note=f"{cell} stride {stride}")


def _changing_invariant(rng, length):
    """An invariant input used whole in each iteration; all products with the slices, and the last one."""
    import openvino.opset8 as o

    x = rng.normal(size=(length, 2)).astype(F32)
    m = rng.normal(size=(2, 3)).astype(F32)

    def build():
        from openvino import op

        px, pm = _parameter(x.shape), _parameter(m.shape)
        ix, im = _parameter((1, 2)), _parameter((2, 3))
        product = o.matmul(ix, im, False, False)
        iterator = op.tensor_iterator()
        iterator.set_body(_model([product.output(0)], [ix, im]))
        iterator.set_sliced_input(ix, px.output(0), 0, 1, 1, -1, 0)
        iterator.set_invariant_input(im, pm.output(0))
        result = iterator.get_body().get_results()[0].output(0)
        outs = [iterator.get_concatenated_slices(result, 0, 1, 1, -1, 0), iterator.get_iter_value(result, -1)]
        return _model(outs, [px, pm])

    return Case([x, m], build=build, oracles=("cpu",), note=f"{length} rows")


def _partial_ranges(rng):
    """Bounds that leave part of the axis out.

    The CPU plugin and the reference implementation begin at the edge of the axis whatever `start` says, so only
    ranges that touch that edge are held against them; the others have worked values.
    """
    import openvino.opset8 as o

    ranges = [(0, -2, 1), (0, -3, 2), (-1, 2, -1), (-1, 3, -1), (0, -2, 1), (-1, 1, -1)]
    worked = [(1, -1, 1), (2, -1, 2), (2, 4, 1), (-2, 0, -1), (-3, 0, -2), (3, 1, -1), (-4, -2, 1), (0, 3, 2)]
    for start, end, stride in ranges + worked:
        x = rng.normal(size=(2, 6)).astype(F32)
        part = abs(stride)
        first, last = start % 6, end % 6
        order = np.arange(min(first, last), max(first, last) + 1).reshape(-1, part)
        picked = x[:, order[:: 1 if stride > 0 else -1].reshape(-1)]

        def build(start=start, end=end, stride=stride, part=part, x=x):
            from openvino import op

            outer, inner = _parameter(x.shape), _parameter((2, part))
            negated = o.negative(inner)
            iterator = op.tensor_iterator()
            iterator.set_body(_model([negated.output(0)], [inner]))
            iterator.set_sliced_input(inner, outer.output(0), start, stride, part, end, 1)
            result = iterator.get_body().get_results()[0].output(0)
            return _model([iterator.get_concatenated_slices(result, 0, part, part, -1, 1)], [outer])

        oracles = ("cpu",) if (start, end, stride) in ranges else ()
        note = f"start {start} end {end} stride {stride}"
        yield Case([x], build=build, oracles=oracles, expected=[-picked], note=note)


# ---------------------------------------------------------------------------------------------------------- Loop


@configurations("Loop", since=5)
def loop_5(rng):
    for count, dtype in itertools.product((1, 3, 5), (np.int64, np.int32)):
        yield _counted(rng, count, dtype)
    for limit in (0, 2, 4, 8):
        yield _while(rng, limit)
    for stride, axis in itertools.product((1, -1), (0, 1)):
        yield _loop_sliced(rng, stride, axis)
    for count in (1, 4):
        yield _growing(rng, count)
    for count in (1, 3):
        yield _loop_in_iterator(rng, count)
        yield _iterator_in_loop(rng, count)
    for count, dtype in itertools.product((2, 4), (np.int64, np.int32, np.float16)):
        yield _iteration_number(rng, count, dtype)
    yield _never(rng, trip_count=0, condition=True)
    yield _never(rng, trip_count=3, condition=False)
    for shape, (count, condition) in itertools.product(((-1, 3), (-1, -1)), ((0, True), (3, False))):
        yield _never_open(rng, shape, count, condition)
    yield _never_open(rng, (2, 3), 0, True, outputs=(0, 2, 3, 4, 5))  # nothing defines the last value of output 1


def _loop(trip_count, condition, body, counter=-1, condition_output=0):
    from openvino import op

    loop = op.loop(_constant(trip_count).output(0), _constant(condition).output(0))
    loop.set_function(body)
    loop.set_special_body_ports([counter, condition_output])
    return loop


def _counted(rng, count, dtype):
    """A for loop: a state, its last value and all its values."""
    import openvino.opset8 as o

    x = rng.normal(size=(1, 3)).astype(F32)

    def build():
        outer, inner = _parameter(x.shape), _parameter(x.shape)
        doubled = o.multiply(inner, _constant(F32(2)))
        body = _model([_constant(np.array(True)).output(0), doubled.output(0)], [inner])
        loop = _loop(np.array(count, dtype), np.array(True), body)
        results = [r.output(0) for r in body.get_results()]
        loop.set_merged_input(inner, outer.output(0), results[1])
        outs = [loop.get_iter_value(results[1], -1), loop.get_concatenated_slices(results[1], 0, 1, 1, -1, 0)]
        return _model(outs, [outer])

    return Case([x], build=build, oracles=("cpu",), note=f"{count} times, {np.dtype(dtype)}")


def _while(rng, limit):
    """An endless loop that its own condition ends."""
    import openvino.opset8 as o

    x = np.zeros((1,), F32)

    def build():
        outer, inner = _parameter(x.shape), _parameter(x.shape)
        following = o.add(inner, _constant(F32(1)))
        again = o.reshape(o.less(following, _constant(np.array([limit], F32))), _constant(np.array([1])), False)
        body = _model([again.output(0), following.output(0)], [inner])
        loop = _loop(np.array(-1, np.int64), np.array(True), body)
        results = [r.output(0) for r in body.get_results()]
        loop.set_merged_input(inner, outer.output(0), results[1])
        outs = [loop.get_iter_value(results[1], -1), loop.get_concatenated_slices(results[1], 0, 1, 1, -1, 0)]
        return _model(outs, [outer])

    return Case([x], build=build, oracles=("cpu",), note=f"while below {limit}")


def _loop_sliced(rng, stride, axis):
    """A sliced input in a loop of as many iterations as it has slices."""
    import openvino.opset8 as o

    x = rng.normal(size=(4, 4)).astype(F32)
    chunk = [4, 4]
    chunk[axis] = 1

    def build():
        outer, inner = _parameter(x.shape), _parameter(chunk)
        negated = o.negative(inner)
        body = _model([_constant(np.array(True)).output(0), negated.output(0)], [inner])
        loop = _loop(np.array(4, np.int64), np.array(True), body)
        start, end = (0, -1) if stride > 0 else (-1, 0)
        loop.set_sliced_input(inner, outer.output(0), start, stride, 1, end, axis)
        result = body.get_results()[1].output(0)
        return _model([loop.get_concatenated_slices(result, 0, 1, 1, -1, axis)], [outer])

    return Case([x], build=build, oracles=("cpu",), note=f"slices, stride {stride}, axis {axis}")


def _growing(rng, count):
    """A state that changes its shape from iteration to iteration."""
    import openvino.opset8 as o

    x = rng.normal(size=(1, 2)).astype(F32)

    def build():
        outer, inner = _parameter((-1, 2)), _parameter((-1, 2))
        longer = o.concat([inner, _constant(np.ones((1, 2), F32))], 0)
        body = _model([_constant(np.array(True)).output(0), longer.output(0)], [inner])
        loop = _loop(np.array(count, np.int64), np.array(True), body)
        results = [r.output(0) for r in body.get_results()]
        loop.set_merged_input(inner, outer.output(0), results[1])
        return _model([loop.get_iter_value(results[1], -1)], [outer])

    return Case([x], build=build, oracles=("cpu",), note=f"grows {count} times")


def _iteration_number(rng, count, dtype):
    """The number of the iteration as an input of the body."""
    import openvino.opset8 as o

    x = rng.normal(size=(1, 2)).astype(F32)
    number_type = np.int64 if dtype == np.float16 else dtype

    def build():
        outer, inner, number = _parameter(x.shape), _parameter(x.shape), _parameter((), number_type)
        wide = o.convert(number, "f32")
        following = o.add(inner, wide)
        listed = o.reshape(number, _constant(np.array([1])), False)
        body = _model([_constant(np.array(True)).output(0), following.output(0), listed.output(0)], [number, inner])
        loop = _loop(np.array(count, np.int64), np.array(True), body, counter=0)
        results = [r.output(0) for r in body.get_results()]
        loop.set_merged_input(inner, outer.output(0), results[1])
        outs = [loop.get_iter_value(results[1], -1), loop.get_concatenated_slices(results[2], 0, 1, 1, -1, 0)]
        return _model(outs, [outer])

    return Case([x], build=build, oracles=("cpu",), note=f"counts to {count} in {np.dtype(number_type)}")


def _loop_in_iterator(rng, count):
    """A Loop in the body of a TensorIterator."""
    import openvino.opset8 as o

    x = rng.normal(size=(3, 2)).astype(F32)

    def build():
        from openvino import op

        px, middle, inner = _parameter(x.shape), _parameter((1, 2)), _parameter((1, 2))
        following = o.multiply(inner, _constant(F32(1.5)))
        body = _model([_constant(np.array(True)).output(0), following.output(0)], [inner])
        loop = _loop(np.array(count, np.int64), np.array(True), body)
        results = [r.output(0) for r in body.get_results()]
        loop.set_merged_input(inner, middle.output(0), results[1])
        last = loop.get_iter_value(results[1], -1)
        iterator = op.tensor_iterator()
        iterator.set_body(_model([last], [middle]))
        iterator.set_sliced_input(middle, px.output(0), -1, -1, 1, 0, 0)
        result = iterator.get_body().get_results()[0].output(0)
        return _model([iterator.get_concatenated_slices(result, 0, 1, 1, -1, 0)], [px])

    return Case([x], build=build, oracles=("cpu",), note=f"loop of {count} in an iterator")


def _iterator_in_loop(rng, count):
    """A TensorIterator in the body of a Loop."""
    import openvino.opset8 as o

    x = rng.normal(size=(3, 2)).astype(F32)

    def build():
        from openvino import op

        px, middle, inner = _parameter(x.shape), _parameter((3, 2)), _parameter((1, 2))
        following = o.multiply(inner, _constant(F32(0.5)))
        iterator = op.tensor_iterator()
        iterator.set_body(_model([following.output(0)], [inner]))
        iterator.set_sliced_input(inner, middle.output(0), 0, 1, 1, -1, 0)
        result = iterator.get_body().get_results()[0].output(0)
        turned = iterator.get_concatenated_slices(result, -1, -1, 1, 0, 0)
        body = _model([_constant(np.array(True)).output(0), turned], [middle])
        loop = _loop(np.array(count, np.int64), np.array(True), body)
        results = [r.output(0) for r in body.get_results()]
        loop.set_merged_input(middle, px.output(0), results[1])
        return _model([loop.get_iter_value(results[1], -1)], [px])

    return Case([x], build=build, oracles=("cpu",), note=f"iterator in a loop of {count}")


def _never(rng, trip_count, condition):
    """No iteration: the first value of the state comes out. (The reference implementation refuses it.)"""
    import openvino.opset8 as o

    x = rng.normal(size=(1, 3)).astype(F32)

    def build():
        outer, inner = _parameter(x.shape), _parameter(x.shape)
        doubled = o.multiply(inner, _constant(F32(2)))
        body = _model([_constant(np.array(True)).output(0), doubled.output(0)], [inner])
        loop = _loop(np.array(trip_count, np.int64), np.array(condition), body)
        results = [r.output(0) for r in body.get_results()]
        loop.set_merged_input(inner, outer.output(0), results[1])
        return _model([loop.get_iter_value(results[1], -1)], [outer])

    return Case([x], build=build, expected=[x], oracles=(), note=f"trip count {trip_count}, condition {condition}")


def _never_open(rng, shape, trip_count, condition, outputs=None):
    """No iteration of a body of open shapes: what it would have given is empty, open dimensions are 0."""
    import openvino.opset8 as o

    x = rng.normal(size=(2, 3)).astype(F32)

    def build():
        outer, count, first = _parameter(shape), _parameter((), np.int64), _parameter((), np.bool_)
        state, fixed = _parameter(shape), _parameter(shape)
        doubled, negated = o.multiply(state, _constant(F32(2))), o.negative(fixed)
        body = _model([_constant(np.array(True)).output(0), doubled.output(0), negated.output(0)], [state, fixed])
        from openvino import op

        loop = op.loop(count.output(0), first.output(0))
        loop.set_function(body)
        loop.set_special_body_ports([-1, 0])
        results = [r.output(0) for r in body.get_results()]
        loop.set_merged_input(state, outer.output(0), results[1])
        loop.set_invariant_input(fixed, outer.output(0))
        outs = [loop.get_iter_value(r, -1) for r in results[1:]]
        outs += [loop.get_concatenated_slices(r, 0, 1, 1, -1, axis) for r in results[1:] for axis in (0, 1)]
        return _model(outs, [outer, count, first])

    fed = [x, np.array(trip_count, np.int64), np.array(condition)]
    note = f"{shape}, trip count {trip_count}, condition {condition}"
    return Case(fed, build=build, oracles=("cpu",), outputs=outputs, note=note)


# ------------------------------------------------------------------------------------------------------------ If


@configurations("If", since=8)
def if_8(rng):
    for truth, same_shape, constant in itertools.product((True, False), (True, False), (True, False)):
        yield _branches(rng, truth, same_shape, constant)
    for truth in (True, False):
        yield _without_parameters(rng, truth)
        yield _if_in_iterator(rng, truth)
        for shapes, constant in itertools.product(itertools.permutations(((), (1,), (3,)), 2), (True, False)):
            yield _scalar_or_vector(truth, shapes, constant)


def _branches(rng, truth, same_shape, constant):
    """Branches that use different inputs and may give different shapes."""
    import openvino.opset8 as o

    x = rng.normal(size=(2, 3)).astype(F32)
    y = rng.normal(size=(2, 3)).astype(F32)

    def build():
        from openvino import op

        cond, px, py = _parameter((1,), np.bool_), _parameter(x.shape), _parameter(y.shape)
        then_x, else_x, else_y = (_parameter(x.shape) for _ in range(3))
        then_body = _model([o.negative(then_x).output(0)], [then_x])
        other = o.add(else_x, else_y) if same_shape else o.concat([else_x, else_y], 0)
        else_body = _model([other.output(0)], [else_x, else_y])
        choice = _constant(np.array([truth])) if constant else cond
        node = op.if_op(choice.output(0))
        node.set_then_body(then_body)
        node.set_else_body(else_body)
        node.set_input(px.output(0), then_x, else_x)
        node.set_input(py.output(0), None, else_y)
        out = node.set_output(then_body.get_results()[0], else_body.get_results()[0])
        return _model([out], [px, py] if constant else [cond, px, py])

    fed = [x, y] if constant else [np.array([truth]), x, y]
    return Case(fed, build=build, oracles=("cpu", "evaluate"), note=f"{truth}, same shape {same_shape}")


def _without_parameters(rng, truth):
    """Branches that take no input at all."""

    def build():
        import openvino.opset8 as o
        from openvino import op

        cond = _parameter((), np.bool_)
        bodies = [_model([o.negative(_constant(np.full((2,), v, F32))).output(0)], []) for v in (1, 2)]
        node = op.if_op(cond.output(0))
        node.set_then_body(bodies[0])
        node.set_else_body(bodies[1])
        out = node.set_output(bodies[0].get_results()[0], bodies[1].get_results()[0])
        return _model([out], [cond])

    return Case([np.array(truth)], build=build, oracles=("cpu",), note=f"no parameters, {truth}")


def _scalar_or_vector(truth, shapes, constant):
    """One branch gives a scalar, the other one dimension: the scalar gets it, too, if the condition is open."""

    def build():
        import openvino.opset8 as o
        from openvino import op

        cond = _parameter((), np.bool_)
        bodies = [_model([o.negative(_constant(np.full(shape, 2, F32))).output(0)], []) for shape in shapes]
        node = op.if_op((_constant(np.array(truth)) if constant else cond).output(0))
        node.set_then_body(bodies[0])
        node.set_else_body(bodies[1])
        return _model([node.set_output(*(body.get_results()[0] for body in bodies))], [] if constant else [cond])

    fed = [] if constant else [np.array(truth)]
    return Case(fed, build=build, oracles=("cpu",), note=f"{shapes[0]} or {shapes[1]}, {truth}")


def _if_in_iterator(rng, truth):
    """An If in the body of a TensorIterator."""
    import openvino.opset8 as o

    x = rng.normal(size=(4, 2)).astype(F32)

    def build():
        from openvino import op

        px, cond = _parameter(x.shape), _parameter((1,), np.bool_)
        middle, middle_cond = _parameter((1, 2)), _parameter((1,), np.bool_)
        a, b = _parameter((1, 2)), _parameter((1, 2))
        bodies = [_model([o.negative(a).output(0)], [a]), _model([o.abs(b).output(0)], [b])]
        node = op.if_op(middle_cond.output(0))
        node.set_then_body(bodies[0])
        node.set_else_body(bodies[1])
        node.set_input(middle.output(0), a, b)
        out = node.set_output(bodies[0].get_results()[0], bodies[1].get_results()[0])
        iterator = op.tensor_iterator()
        iterator.set_body(_model([out], [middle, middle_cond]))
        iterator.set_sliced_input(middle, px.output(0), 0, 1, 1, -1, 0)
        iterator.set_invariant_input(middle_cond, cond.output(0))
        result = iterator.get_body().get_results()[0].output(0)
        return _model([iterator.get_concatenated_slices(result, 0, 1, 1, -1, 0)], [px, cond])

    return Case([x, np.array([truth])], build=build, oracles=("cpu",), note=f"in an iterator, {truth}")


# --------------------------------------------------------------------------------------------- state and the rest


def _stateful(rng, dtype, shape, version, with_initial=True):
    """A variable that sums what is fed, run once from its first value."""
    x = np.abs(rng.normal(size=shape) * 10).astype(dtype)  # the CPU plugin adds u8 with saturation

    def build():
        import openvino as ov
        import openvino.opset8 as o
        from openvino.op.util import Variable, VariableInfo
        from openvino.utils.node_factory import NodeFactory

        px = _parameter(shape, dtype)
        initial = _constant(np.full(shape, 3, dtype))
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
            total = o.add(read, px)
            assign = ov.opset6.assign(total, variable)
        return ov.Model([ov.op.Result(total.output(0))], [assign], [px])

    return Case([x], build=build, oracles=("cpu",), note=f"{np.dtype(dtype)} {shape}")


@configurations("ReadValue", since=3)
def read_value_3(rng):
    for dtype, shape in itertools.product((F32, np.int32, np.uint8, np.float16), ((2, 3), (1,))):
        yield _stateful(rng, dtype, shape, 3)


@configurations("Assign", since=3)
def assign_3(rng):
    for dtype, shape in itertools.product((F32, np.int32), ((2, 3), (4,), (1, 1, 2), ())):
        yield _stateful(rng, dtype, shape, 3)


@configurations("ReadValue", since=6)
def read_value_6(rng):
    for dtype, shape, initial in itertools.product((F32, np.int32, np.float16), ((2, 3), (1,)), (True, False)):
        yield _stateful(rng, dtype, shape, 6, initial)


@configurations("Assign", since=6)
def assign_6(rng):
    for dtype, shape in itertools.product((F32, np.int32), ((2, 3), (4,), (1, 1, 2), ())):
        yield _stateful(rng, dtype, shape, 6)


@configurations("Parameter", since=1)
def parameter_1(rng):
    yield from _passed_through(rng)


@configurations("Result", since=1)
def result_1(rng):
    yield from _passed_through(rng)


def _passed_through(rng):
    shapes = ((2, 3), (), (0, 2), (1, 2, 3, 4, 5))
    for dtype, shape in itertools.product((F32, np.int64, np.bool_, np.float16, np.uint8), shapes):
        x = (rng.normal(size=shape) * 4).astype(dtype)
        for dynamic in (False, True):

            def build(x=x, dynamic=dynamic):
                import openvino.opset8 as o

                parameter = _parameter([-1] * x.ndim if dynamic else x.shape, x.dtype)
                copy = o.concat([parameter, parameter], 0) if x.ndim else parameter
                return _model([parameter.output(0), copy.output(0)], [parameter])

            yield Case([x], build=build, oracles=("cpu",), note=f"dynamic {dynamic}")


@configurations("Constant", since=1)
def constant_1(rng):
    dtypes = (F32, np.float64, np.float16, np.int64, np.int32, np.int16, np.int8, np.uint8, np.uint64, np.bool_)
    for dtype, shape in itertools.product(dtypes, ((2, 3), (), (5,))):
        value = (rng.normal(size=shape) * 5).astype(dtype)

        def build(value=value):
            return _model([_constant(value).output(0)], [])

        # The CPU plugin narrows constants of 64 bits, so it is asked for the others only.
        oracles = () if dtype in (np.float64, np.uint64) else ("cpu",)
        yield Case([], build=build, oracles=oracles, expected=[value], note=f"{value.dtype} {value.shape}")
