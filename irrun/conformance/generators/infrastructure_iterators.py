"""Conformance cases for TensorIterator."""

from __future__ import annotations

import itertools

import numpy as np

from irrun.conformance.cases import Case, register_cases
from irrun.conformance.generators.infrastructure import F32, create_constant, create_model, create_parameter


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

        outer = create_parameter([-1 if dynamic and i != axis else n for i, n in enumerate(shape)])
        chunk = [-1 if dynamic and i != axis else n for i, n in enumerate(shape)]
        chunk[axis] = part
        inner = create_parameter(chunk)
        doubled = o.multiply(inner, create_constant(F32(2)))
        iterator = op.tensor_iterator()
        iterator.set_body(create_model([doubled.output(0)], [inner]))
        iterator.set_sliced_input(inner, outer.output(0), start, stride, part, end, axis)
        result = iterator.get_body().get_results()[0].output(0)
        out = iterator.get_concatenated_slices(result, start, stride, part, end, axis)
        return create_model([out], [outer])

    return Case([x], build=build, note=f"axis {axis} stride {stride} part {part}")


def _make_two_slices_case(rng, first, second):
    """Return a case that multiplies two inputs sliced in different directions."""
    import openvino.opset8 as o

    a = rng.normal(size=(2, 5, 3)).astype(F32)
    b = rng.normal(size=(5, 2, 3)).astype(F32)

    def build():
        from openvino import op

        pa, pb = create_parameter(a.shape), create_parameter(b.shape)
        ia, ib = create_parameter((2, 1, 3)), create_parameter((1, 2, 3))
        flat = [o.reshape(i, create_constant(np.array([2, 3])), False) for i in (ia, ib)]
        body = o.unsqueeze(o.multiply(*flat), create_constant(np.array([1])))
        iterator = op.tensor_iterator()
        iterator.set_body(create_model([body.output(0)], [ia, ib]))
        for inner, outer, stride, axis in ((ia, pa, first, 1), (ib, pb, second, 0)):
            start, end = (0, -1) if stride > 0 else (-1, 0)
            iterator.set_sliced_input(inner, outer.output(0), start, stride, 1, end, axis)
        result = iterator.get_body().get_results()[0].output(0)
        out = iterator.get_concatenated_slices(result, 0, 1, 1, -1, 1)
        return create_model([out], [pa, pb])

    return Case([a, b], build=build, note=f"directions {first} {second}")


def _make_recurrent_case(rng, stride, back_edges):
    """Return a case with 1 to 3 states, an invariant input, last values and a concatenation."""
    import openvino.opset8 as o

    x = rng.normal(size=(2, 4, 3)).astype(F32)
    w = rng.normal(size=(3,)).astype(F32)
    states = [rng.normal(size=(2, 1, 3)).astype(F32) for _ in range(back_edges)]

    def build():
        from openvino import op

        outer = [create_parameter(v.shape) for v in (x, w, *states)]
        ix, iw, *inner = [
            create_parameter((2, 1, 3)),
            create_parameter((3,)),
            *[create_parameter((2, 1, 3)) for _ in states],
        ]
        step = o.multiply(ix, iw)
        following = [o.add(o.multiply(s, create_constant(F32(0.5))), step) for s in inner]
        iterator = op.tensor_iterator()
        iterator.set_body(create_model([f.output(0) for f in following], [ix, iw, *inner]))
        start, end = (0, -1) if stride > 0 else (-1, 0)
        iterator.set_sliced_input(ix, outer[0].output(0), start, stride, 1, end, 1)
        iterator.set_invariant_input(iw, outer[1].output(0))
        results = [r.output(0) for r in iterator.get_body().get_results()]
        for i, s in enumerate(inner):
            iterator.set_merged_input(s, outer[2 + i].output(0), results[i])
        outs = [iterator.get_iter_value(r, -1) for r in results]
        outs.append(iterator.get_concatenated_slices(results[0], start, stride, 1, end, 1))
        return create_model(outs, outer)

    return Case([x, w, *states], build=build, note=f"{back_edges} back edges, stride {stride}")


def _make_accumulating_case(rng, dtype):
    """Return a case that computes a running sum with integer overflow."""
    import openvino.opset8 as o

    x = (rng.normal(size=(6, 2)) * 50).astype(dtype)
    s = np.zeros((1, 2), dtype)

    def build():
        from openvino import op

        px, ps = create_parameter(x.shape, dtype), create_parameter(s.shape, dtype)
        ix, inner = create_parameter((1, 2), dtype), create_parameter((1, 2), dtype)
        total = o.add(ix, inner)
        iterator = op.tensor_iterator()
        iterator.set_body(create_model([total.output(0)], [ix, inner]))
        iterator.set_sliced_input(ix, px.output(0), 0, 1, 1, -1, 0)
        result = iterator.get_body().get_results()[0].output(0)
        iterator.set_merged_input(inner, ps.output(0), result)
        out = iterator.get_concatenated_slices(result, 0, 1, 1, -1, 0)
        return create_model([out], [px, ps])

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

        outer, inner = create_parameter(x.shape), create_parameter((3, 1))
        negated = o.negative(inner)
        iterator = op.tensor_iterator()
        iterator.set_body(create_model([negated.output(0)], [inner]))
        start, end = (0, -1) if in_stride > 0 else (-1, 0)
        iterator.set_sliced_input(inner, outer.output(0), start, in_stride, 1, end, 1)
        result = iterator.get_body().get_results()[0].output(0)
        start, end = (0, -1) if out_stride > 0 else (-1, 0)
        outs = [
            iterator.get_concatenated_slices(result, start, out_stride, 1, end, 1),
            iterator.get_iter_value(result, -1),
            iterator.get_concatenated_slices(result, *((-1, -1, 1, 0) if out_stride > 0 else (0, 1, 1, -1)), 1),
        ]
        return create_model(outs, [outer])

    return Case([x], build=build, note=f"in {in_stride} out {out_stride}")


def _make_unsliced_case(rng, count):
    """Return a case without sliced inputs: the concatenated output determines the number of iterations."""
    import openvino.opset8 as o

    s = rng.normal(size=(1, 3)).astype(F32)

    def build():
        from openvino import op

        ps, inner = create_parameter(s.shape), create_parameter((1, 3))
        doubled = o.add(inner, create_constant(F32(1)))
        iterator = op.tensor_iterator()
        iterator.set_body(create_model([doubled.output(0)], [inner]))
        result = iterator.get_body().get_results()[0].output(0)
        iterator.set_merged_input(inner, ps.output(0), result)
        out = iterator.get_concatenated_slices(result, 0, 1, 1, count, 0)
        return create_model([out], [ps])

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

        outer = [create_parameter(v.shape) for v in (x, *states)]
        inner = [create_parameter((2, 1, width)), *[create_parameter((2, hidden)) for _ in states]]
        flat = o.squeeze(inner[0], create_constant(np.array([1])))
        arguments = [flat, *inner[1:], create_constant(w), create_constant(r), create_constant(b)]
        node = NodeFactory("opset4").create(cell, [a.output(0) for a in arguments], {"hidden_size": hidden})
        wide = o.unsqueeze(node.output(0), create_constant(np.array([1])))
        iterator = op.tensor_iterator()
        iterator.set_body(create_model([*node.outputs(), wide.output(0)], inner))
        start, end = (0, -1) if stride > 0 else (-1, 0)
        iterator.set_sliced_input(inner[0], outer[0].output(0), start, stride, 1, end, 1)
        results = [q.output(0) for q in iterator.get_body().get_results()]
        for i, s in enumerate(inner[1:]):
            iterator.set_merged_input(s, outer[1 + i].output(0), results[i])
        outs = [iterator.get_concatenated_slices(results[-1], start, stride, 1, end, 1)]
        outs += [iterator.get_iter_value(q, -1) for q in results[:-1]]
        return create_model(outs, outer)

    return Case([x, *states], build=build, tolerance=(1e-5, 1e-6), note=f"{cell} stride {stride}")


def _make_invariant_case(rng, length):
    """Return a case that multiplies each slice with an invariant input and outputs all and the last product."""
    import openvino.opset8 as o

    x = rng.normal(size=(length, 2)).astype(F32)
    m = rng.normal(size=(2, 3)).astype(F32)

    def build():
        from openvino import op

        px, pm = create_parameter(x.shape), create_parameter(m.shape)
        ix, im = create_parameter((1, 2)), create_parameter((2, 3))
        product = o.matmul(ix, im, False, False)
        iterator = op.tensor_iterator()
        iterator.set_body(create_model([product.output(0)], [ix, im]))
        iterator.set_sliced_input(ix, px.output(0), 0, 1, 1, -1, 0)
        iterator.set_invariant_input(im, pm.output(0))
        result = iterator.get_body().get_results()[0].output(0)
        outs = [iterator.get_concatenated_slices(result, 0, 1, 1, -1, 0), iterator.get_iter_value(result, -1)]
        return create_model(outs, [px, pm])

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

            outer, inner = create_parameter(x.shape), create_parameter((2, part))
            negated = o.negative(inner)
            iterator = op.tensor_iterator()
            iterator.set_body(create_model([negated.output(0)], [inner]))
            iterator.set_sliced_input(inner, outer.output(0), start, stride, part, end, 1)
            result = iterator.get_body().get_results()[0].output(0)
            return create_model([iterator.get_concatenated_slices(result, 0, part, part, -1, 1)], [outer])

        faults = () if (start, end, stride) in ranges else ("plugin-iterator-start",)
        note = f"start {start} end {end} stride {stride}"
        yield Case([x], build=build, faults=faults, expected=[-selected], note=note)
