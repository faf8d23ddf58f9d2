"""Values that depend on the shapes of the inputs only are computed once for inputs of the same shapes."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from openvino_modules import import_builder

import irrun
from irrun.runtime import shape_values
from irrun.runtime.shape_values import find_shape_instructions

ov = import_builder()
o = import_builder("openvino.opset13")


def compile_both(folder, results, parameters):
    """Return the model with and without optimization."""
    path = folder / "model.xml"
    ov.save_model(ov.Model(results, parameters), path, compress_to_fp16=False)
    return irrun.compile_model(path, jit=False), irrun.compile_model(path, optimize=False)


def make_floats(*shape, seed=0):
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def i64(*values):
    return o.constant(np.array(values, np.int64))


def flatten_by_shape(x):
    """Reshape to [first dimension, -1], with a pattern that is computed from the shape."""
    first = o.gather(o.shape_of(x), i64(0), o.constant(np.int64(0)))
    size = o.multiply(first, i64(1))
    return o.reshape(x, o.concat([size, i64(-1)], 0), special_zero=False), size


def get_instruction_count(compiled, *arguments):
    cache = compiled._shape_cache
    program = cache.find(shape_values.get_shape_key(arguments))
    return None if program is None else len(program.instructions)


def test_values_follow_every_change_of_shapes(tmp_path):
    x = o.parameter([-1, -1, 4], np.float32)
    flat, size = flatten_by_shape(o.relu(x))
    mask = o.broadcast(o.constant(np.float32(2)), o.concat([size, i64(1)], 0))
    compiled, plain = compile_both(tmp_path, [o.multiply(flat, mask), size], [x])
    request = compiled.create_infer_request()
    for seed, shape in enumerate(
        [(2, 3), (2, 3), (2, 3), (3, 3), (2, 3), (2, 3), (3, 3), (3, 3), (3, 3), (1, 1), (2, 3)]
    ):
        data = make_floats(*shape, 4, seed=seed)
        for result, expected in zip(request.infer(data).to_tuple(), plain(data).to_tuple(), strict=True):
            np.testing.assert_array_equal(result, expected)
    assert get_instruction_count(compiled, make_floats(2, 3, 4)) < len(compiled._fast_program.instructions)
    assert get_instruction_count(compiled, make_floats(1, 1, 4)) is None  # ran once


def test_shapes_that_depend_on_values_are_not_kept(tmp_path):
    x = o.parameter([-1], np.float32)
    indices = o.convert(o.non_zero(x), np.float32)  # [1, number of elements that are not zero]
    flat, size = flatten_by_shape(o.transpose(indices, i64(1, 0)))
    compiled, plain = compile_both(tmp_path, [flat, size], [x])
    for data in ([1, 0, 0], [1, 1, 0], [1, 1, 1], [0, 0, 1]):
        array = np.array(data, np.float32)
        for result, expected in zip(compiled(array).to_tuple(), plain(array).to_tuple(), strict=True):
            np.testing.assert_array_equal(result, expected)


def test_sizes_that_inputs_hold_are_not_kept(tmp_path):
    x, target = o.parameter([2, 6], np.float32), o.parameter([2], np.int64)
    flat, size = flatten_by_shape(o.reshape(x, target, special_zero=False))
    compiled, plain = compile_both(tmp_path, [flat, size], [x, target])
    data = make_floats(2, 6)
    for shape in ([3, 4], [3, 4], [3, 4], [6, 2], [1, 12]):
        for result, expected in zip(compiled([data, shape]).to_tuple(), plain([data, shape]).to_tuple(), strict=True):
            np.testing.assert_array_equal(result, expected)


def test_shapes_of_variables_are_not_kept(tmp_path):
    x = o.parameter([1, 2], np.float32)
    past = o.read_value(o.constant(np.zeros((0, 2), np.float32)), "cache", np.float32, [-1, 2])
    joined = o.concat([past, x], 0)
    flat, size = flatten_by_shape(joined)
    path = tmp_path / "model.xml"
    ov.save_model(ov.Model([o.result(flat), o.result(size)], [o.assign(joined, "cache")], [x]), path)
    request = irrun.compile_model(path, jit=False).create_infer_request()
    lengths = [request.infer(make_floats(1, 2)).to_tuple()[1].item() for _ in range(5)]
    assert lengths == [1, 2, 3, 4, 5]


def test_results_belong_to_the_caller(tmp_path):
    x = o.parameter([-1, 4], np.float32)
    flat, size = flatten_by_shape(x)
    scaled = o.broadcast(o.constant(np.float32(3)), o.concat([size, i64(4)], 0))
    chain = o.relu(o.negative(o.add(scaled, o.constant(np.float32(-5)))))  # computed in place where that is possible
    compiled, plain = compile_both(tmp_path, [size, scaled, o.add(chain, flat)], [x])
    data = make_floats(3, 4)
    for _ in range(4):
        for result, expected in zip(compiled(data).to_tuple(), plain(data).to_tuple(), strict=True):
            np.testing.assert_array_equal(result, expected)
            result[...] = 77


def test_large_values_are_computed_in_each_run(tmp_path, monkeypatch):
    monkeypatch.setattr(shape_values, "MAX_BYTES", 7)
    x = o.parameter([-1, 4], np.float32)
    flat, size = flatten_by_shape(x)
    compiled, plain = compile_both(tmp_path, [flat, size], [x])
    data = make_floats(3, 4)
    for _ in range(3):
        np.testing.assert_array_equal(compiled(data)[0], plain(data)[0])
    assert get_instruction_count(compiled, data) is None


def test_observers_see_all_layers(tmp_path):
    x = o.parameter([-1, 4], np.float32)
    flat, size = flatten_by_shape(x)
    compiled, _ = compile_both(tmp_path, [flat, size], [x])
    request = compiled.create_infer_request()
    counts = []
    for _ in range(4):
        request.infer(make_floats(3, 4))
        seen: list[str] = []
        request.infer(make_floats(3, 4), observers=[lambda layer, *_, seen=seen: seen.append(layer.name)])
        counts.append(len(seen))
    assert len(set(counts)) == 1
    assert counts[0] >= 5


def test_requests_of_several_threads_agree(tmp_path):
    x = o.parameter([-1, -1, 4], np.float32)
    flat, size = flatten_by_shape(o.relu(x))
    compiled, plain = compile_both(tmp_path, [flat, size], [x])
    inputs = [make_floats(2 + i % 3, 3, 4, seed=i) for i in range(60)]
    expected = [plain(data)[0] for data in inputs]

    def run_all(_):
        request = compiled.create_infer_request()
        return [request.infer(data)[0] for data in (*inputs, *sorted(inputs, key=len))][: len(inputs)]

    with ThreadPoolExecutor(4) as pool:
        for results in pool.map(run_all, range(4)):
            for result, value in zip(results, expected, strict=True):
                np.testing.assert_array_equal(result, value)


def test_at_most_a_few_combinations_of_shapes_are_kept(tmp_path):
    x = o.parameter([-1, 4], np.float32)
    flat, size = flatten_by_shape(x)
    compiled, plain = compile_both(tmp_path, [flat, size], [x])
    for length in range(1, shape_values.MAX_SHAPES + 4):
        for _ in range(3):
            np.testing.assert_array_equal(compiled(make_floats(length, 4))[0], plain(make_floats(length, 4))[0])
    assert get_instruction_count(compiled, make_floats(1, 4)) is None
    assert get_instruction_count(compiled, make_floats(length, 4)) is not None


def make_scalar(n):
    return o.squeeze(o.convert(n, np.int32), i64(0))


@pytest.mark.parametrize(
    ("name", "make", "is_known"),
    [
        ("elementwise", lambda x, n: o.add(x, n), True),
        ("reduction", lambda x, n: o.reduce_sum(x, o.constant(np.int64(0)), keep_dims=False), True),
        ("gather", lambda x, n: o.gather(x, o.convert(n, np.int64), o.constant(np.int64(0))), True),
        ("range", lambda x, n: o.range(o.constant(0), make_scalar(n), o.constant(1), "i32"), False),
        ("tile", lambda x, n: o.tile(x, o.convert(n, np.int64)), False),
        ("top k", lambda x, n: o.topk(x, make_scalar(n), 0, "max", "value").output(0), False),
        ("non-zero", lambda x, n: o.non_zero(x), False),
        ("segments", lambda x, n: o.non_max_suppression(
            o.reshape(o.concat([x, x, x, x], 0), i64(1, -1, 4), False), o.reshape(x, i64(1, 1, -1), False), i64(3)
        ).output(0), False),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)  # fmt: skip
def test_only_shapes_that_follow_from_shapes_are_known(tmp_path, name, make, is_known):
    x, n = o.parameter([5], np.float32), o.parameter([1], np.float32)
    result = make(x, n)
    size = o.multiply(o.shape_of(result), i64(3))
    compiled, _ = compile_both(tmp_path, [o.relu(o.convert(result, np.float32)), size], [x, n])
    types = {compiled._program.instructions[i].operation.type for i in find_shape_instructions(compiled._program)}
    assert ("ShapeOf" in types) == is_known


def test_attributes_may_have_the_names_of_arguments(tmp_path):
    x = o.parameter([-1, 3], np.float32)
    shape = o.convert(o.concat([i64(1, 1), o.shape_of(x)], 0), np.float32)
    pooled = o.avg_pool(o.reshape(shape, i64(1, 1, 4), False), [1], [0], [0], [2], True)  # has an attribute "kernel"
    compiled, plain = compile_both(tmp_path, [o.relu(x), pooled], [x])
    request = compiled.create_infer_request()
    for _ in range(4):
        data = make_floats(2, 3)
        for result, expected in zip(request.infer(data).to_tuple(), plain(data).to_tuple(), strict=True):
            np.testing.assert_array_equal(result, expected)
