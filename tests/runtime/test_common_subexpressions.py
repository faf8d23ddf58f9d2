"""Values that several layers compute from the same inputs are computed once."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

import irrun
from irrun.runtime.plan import list_plan

ov = pytest.importorskip("openvino")
o = pytest.importorskip("openvino.opset13")

I64 = np.int64
F32 = np.float32


def save(folder, results, parameters):
    ov.serialize(ov.Model(results, parameters), folder / "model.xml")
    return folder / "model.xml"


def count(compiled):
    return Counter(kind for entry in list_plan(compiled._fast_program) for kind in entry.operations)


def take_dimension(x, index=0, axis=0):
    return o.gather(o.shape_of(x), np.array([index]), np.array(axis))


def check(path, *inputs):
    """Check that results are the same without optimization, and return the model."""
    fast = irrun.compile_model(path)
    plain = irrun.compile_model(path, optimize=False)
    for actual, expected in zip(fast(list(inputs)).values(), plain(list(inputs)).values(), strict=True):
        assert actual.dtype == expected.dtype
        np.testing.assert_array_equal(actual, expected)
    return fast


def test_shapes_and_targets_are_computed_once(tmp_path):
    x, y = o.parameter([-1, 2, 3], F32), o.parameter([-1, 6], F32)

    def flatten():
        return o.reshape(x, o.concat([take_dimension(x), np.array([6])], 0), False)

    total = o.add(o.multiply(flatten(), y), o.subtract(flatten(), y))
    fast = check(save(tmp_path, [total], [x, y]), np.ones((4, 2, 3), F32), np.ones((4, 6), F32))
    assert {
        kind: n for kind, n in count(fast).items() if kind in ("ShapeOf", "Gather", "Concat", "Reshape")
    } == dict.fromkeys(("ShapeOf", "Gather", "Concat", "Reshape"), 1)


def test_all_values_are_observed(tmp_path):
    x = o.parameter([-1, 3], F32)
    sums = o.add(take_dimension(x), take_dimension(x))
    path = save(tmp_path, [o.add(sums, o.constant([1], I64))], [x])
    observed = []
    request = irrun.compile_model(path).create_infer_request()
    request.infer(np.ones((4, 3), F32), observers=[lambda layer, *_: observed.append(layer.type)])
    assert observed.count("ShapeOf") == 2


DIFFERENT = {
    "index": lambda x: (take_dimension(x, 0), take_dimension(x, 1)),
    "type": lambda x: (o.shape_of(x, "i64"), o.convert(o.shape_of(x, "i32"), "i64")),
    "operation": lambda x: (o.reduce_sum(o.shape_of(x), np.array([0]), True),
                            o.reduce_prod(o.shape_of(x), np.array([0]), True)),
    "attribute": lambda x: (o.reduce_max(o.shape_of(x), np.array([0]), True),
                            o.unsqueeze(o.reduce_max(o.shape_of(x), np.array([0]), False), np.array([0]))),
    "order": lambda x: (o.subtract(take_dimension(x, 0), take_dimension(x, 1)),
                        o.subtract(take_dimension(x, 1), take_dimension(x, 0))),
    "constant type": lambda x: (o.convert(o.gather(o.convert(o.shape_of(x), "u8"), np.array([0]), np.array(0)), "i64"),
                                o.convert(o.gather(o.convert(o.shape_of(x), "u8"), np.array([1]), np.array(0)), "i64")),
    "shape of a constant": lambda x: (o.broadcast(take_dimension(x), np.array([1, 2])),
                                      o.broadcast(take_dimension(x), np.array([2, 1]))),
}  # fmt: skip


@pytest.mark.parametrize("build", DIFFERENT.values(), ids=DIFFERENT.keys())
def test_different_values_are_not_merged(tmp_path, build):
    x = o.parameter([-1, -1], F32)
    first, second = build(x)
    # A subtraction would be 0 if the values were merged.
    check(save(tmp_path, [o.subtract(first, o.multiply(second, o.constant([3], I64)))], [x]), np.ones((4, 7), F32))


def test_large_constants_are_compared_by_identity(tmp_path):
    x = o.parameter([-1, 2], F32)
    table = np.arange(300)

    def look_up():
        return o.gather(o.constant(table), take_dimension(x), np.array(0))

    path = save(tmp_path, [o.add(look_up(), look_up())], [x])
    fast = check(path, np.ones((5, 2), F32))
    assert count(fast)["Gather"] == 3


def test_results_of_the_model_stay_separate(tmp_path):
    x = o.parameter([-1, 3], F32)
    fast = check(save(tmp_path, [take_dimension(x), take_dimension(x)], [x]), np.ones((4, 3), F32))
    first, second = fast(np.ones((4, 3), F32)).values()
    assert first is not second
    assert not np.shares_memory(first, second)


def test_floating_point_values_are_computed_again_unless_they_move(tmp_path):
    x, y = o.parameter([-1, 3], F32), o.parameter([-1], I64)
    operands = [o.transpose(o.sigmoid(x), np.array([1, 0])) for _ in range(2)]
    moved = [o.broadcast(x, o.concat([take_dimension(y), o.shape_of(x)], 0)) for _ in range(2)]
    path = save(tmp_path, [o.matmul(*operands, False, True), o.add(*moved)], [x, y])
    fast = check(path, np.ones((4, 3), F32), np.ones(2, I64))
    assert count(fast)["Sigmoid"] == 2
    assert count(fast)["Broadcast"] == 1


def test_random_numbers_are_drawn_separately(tmp_path):
    x = o.parameter([-1, 3], F32)
    draws = [
        o.random_uniform(o.shape_of(x), o.constant(0, I64), o.constant(1 << 40, I64), "i64", 0, 0) for _ in range(2)
    ]
    path = save(tmp_path, [o.subtract(*draws)], [x])
    assert irrun.compile_model(path)(np.ones((4, 3), F32))[0].any()


def test_values_in_bodies_are_merged(tmp_path):
    x = o.parameter([3, 4, 2], F32)
    row = o.parameter([1, -1, 2], F32)
    body = ov.Model([o.add(take_dimension(row, 1), take_dimension(row, 1))], [row])
    iterator = o.tensor_iterator()
    iterator.set_body(body)
    iterator.set_sliced_input(row, x.output(0), 0, 1, 1, -1, 0)
    result = iterator.get_concatenated_slices(body.outputs[0].node.input_value(0), 0, 1, 1, -1, 0)
    fast = check(save(tmp_path, [result], [x]), np.ones((3, 4, 2), F32))
    assert count(fast)["Gather"] <= 1
