"""Which weights stay compressed, and what is decompressed when a model is compiled."""

from __future__ import annotations

import numpy as np
import pytest
from openvino_modules import import_builder

import irrun
from irrun.runtime.lowering import lower
from irrun.runtime.passes import compressed_weights
from irrun.runtime.passes.compressed_weights import _make_weights, find_compressed_weights

ov = import_builder()
o = import_builder("openvino.opset13")

F32 = np.float32
ROWS, COLUMNS = 160, 128
RNG = np.random.default_rng(0)


@pytest.fixture
def keeps_small_weights(monkeypatch):
    monkeypatch.setattr(compressed_weights.find_compressed_weights, "__defaults__", (0,))


def draw_codes(*shape):
    return o.constant(RNG.integers(0, 255, shape).astype(np.uint8))


def draw_scales(*shape):
    return o.constant(RNG.random(shape).astype(F32) / 50)


def save(folder, results, parameters):
    ov.save_model(ov.Model(list(results), list(parameters), "m"), folder / "model.xml", compress_to_fp16=False)
    return folder / "model.xml"


def save_products(folder, *weights):
    x = o.parameter([-1, COLUMNS], F32)
    return save(folder, [o.matmul(x, w, False, True) for w in weights], [x])


def check(path, count, rows=3):
    """Assert the number of weights that stay compressed, and that results equal the plain kernels'."""
    compiled = irrun.compile_model(path, jit=False)
    programs = {id(program): program for program, _ in compiled._program.walk()}.values()
    assert sum(len(program.compressed) for program in programs) == count
    x = RNG.normal(size=(rows, COLUMNS)).astype(F32)
    plain = irrun.compile_model(path, optimize=False)(x).to_tuple()
    for actual, expected in zip(compiled(x).to_tuple(), plain, strict=True):
        np.testing.assert_allclose(actual, expected, rtol=1e-5, atol=2e-5 * np.abs(expected).max())
    return compiled


@pytest.mark.parametrize("is_body", [False, True])
def test_weights_stay_compressed_from_a_total_size_in_f32(is_body, tmp_path):
    weights = [o.multiply(o.convert(draw_codes(n, COLUMNS), "f32"), draw_scales(n, 1)) for n in (ROWS, 2 * ROWS)]
    x = o.parameter([4, COLUMNS], F32)
    if is_body:
        part = o.parameter([1, COLUMNS], F32)
        results = [o.result(o.matmul(part, w, False, True)) for w in weights]
        iterator = o.tensor_iterator()
        iterator.set_body(ov.Model(results, [part], "body"))
        iterator.set_sliced_input(part, x.output(0), 0, 1, 1, -1, 0)
        outputs = [iterator.get_concatenated_slices(r.output(0), 0, 1, 1, -1, 0) for r in results]
    else:
        outputs = [o.matmul(x, w, False, True) for w in weights]
    model = irrun.read_model(save(tmp_path, outputs, [x]))
    size = 3 * ROWS * COLUMNS * 4
    for limits, count in (((size,), 2), ((size + 1,), 0), ((), 0)):  # by default, small weights are decompressed
        program = lower(model)
        find_compressed_weights(program, *limits)
        programs = {id(p): p for p, _ in program.walk()}.values()
        assert sum(len(p.compressed) for p in programs) == count


def test_small_weights_are_decompressed(tmp_path, keeps_small_weights):
    rows = compressed_weights.MIN_ELEMENTS // COLUMNS
    for count, is_kept in ((rows, True), (rows - 1, False)):
        weights = o.multiply(o.convert(draw_codes(count, COLUMNS), "f32"), draw_scales(count, 1))
        check(save_products(tmp_path, weights), is_kept)


def test_weights_in_f16_share_the_memory(tmp_path, keeps_small_weights):
    """The smallest ones are decompressed first, and observers cannot change them."""
    values = [RNG.normal(size=(n, COLUMNS)).astype(np.float16) for n in (2 * ROWS, ROWS, ROWS)]
    path = save_products(tmp_path, *(o.convert(o.constant(v), "f32") for v in values))
    size = ROWS * COLUMNS * 4
    x = RNG.normal(size=(2, COLUMNS)).astype(F32)
    for memory, count in ((4 * size, 0), (4 * size - 1, 1), (2 * size, 1), (2 * size - 1, 2), (size - 1, 3)):
        compiled = irrun.compile_model(path, weights_memory=memory, jit=False)
        kept = list(compiled._program.compressed.values())
        assert sorted((w.codes.shape[0] for w in kept), reverse=True) == [2 * ROWS, ROWS, ROWS][:count]
        weights = []
        compiled(x, observers=[lambda layer, inputs, *_, w=weights: w.extend(inputs[1:] * (layer.type == "MatMul"))])
        assert count or not any(w.flags.writeable for w in weights)
        for actual, value in zip(compiled(x).to_tuple(), values, strict=True):
            expected = x @ value.astype(F32).T
            np.testing.assert_allclose(actual, expected, rtol=1e-5, atol=2e-5 * np.abs(expected).max())


FORMS = {
    "codes": (lambda c: c, 1),
    "scales": (lambda c: o.multiply(c, draw_scales(ROWS, 1)), 1),
    "one scale": (lambda c: o.multiply(c, draw_scales(1)), 1),
    "one scale of rank 3": (lambda c: o.multiply(c, draw_scales()), 1),
    "zero points": (lambda c: o.multiply(o.subtract(c, draw_scales(ROWS, 1)), draw_scales(ROWS, 1)), 1),
    "zero points in u8": (lambda c: o.subtract(c, o.convert(draw_codes(ROWS, 1), "f32")), 1),
    "scales of another shape": (lambda c: o.multiply(c, o.reshape(draw_scales(ROWS), [ROWS, 1], False)), 1),
    "scales with a new axis": (lambda c: o.multiply(c, o.unsqueeze(draw_scales(ROWS), o.constant(np.array(1)))), 1),
    "squared scales": (lambda c: o.multiply(c, o.exp(draw_scales(ROWS, 1))), 0),
    "scales of rows twice": (lambda c: o.multiply(o.multiply(c, draw_scales(ROWS, 1)), draw_scales(ROWS, 1)), 0),
    "converted twice": (lambda c: o.convert(o.multiply(c, draw_scales(ROWS, 1)), "f32"), 1),
    "reshaped": (lambda c: o.reshape(c, [ROWS, COLUMNS], False), 1),
    "reshaped with an unknown size": (lambda c: o.reshape(c, [-1, COLUMNS], False), 0),
    "scales first": (lambda c: o.multiply(draw_scales(ROWS, 1), c), 0),
    "codes that are gathered": (lambda c: o.gather(c, o.constant(np.arange(ROWS)), o.constant(np.array(0))), 1),
}


@pytest.mark.parametrize("form", FORMS)
def test_forms_of_weights_that_stay_compressed(form, tmp_path, keeps_small_weights):
    make, count = FORMS[form]
    check(save_products(tmp_path, make(o.convert(draw_codes(ROWS, COLUMNS), "f32"))), count)


def test_constants_in_f32_with_scales_are_folded(tmp_path, keeps_small_weights):
    weights = o.multiply(o.constant(RNG.normal(size=(ROWS, COLUMNS)).astype(F32)), draw_scales(ROWS, 1))
    check(save_products(tmp_path, weights), 0)


@pytest.mark.parametrize("groups", [1, 2, 8])
@pytest.mark.parametrize(("shape", "count"), [("groups", 1), ("rows", 0), ("columns", 0)])
def test_groups_of_weights_have_scales(groups, shape, count, tmp_path, keeps_small_weights):
    scales = {"groups": (ROWS, groups, 1), "rows": (ROWS, 1, 1), "columns": (1, 1, COLUMNS // groups)}[shape]
    codes = o.convert(draw_codes(ROWS, groups, COLUMNS // groups), "f32")
    weights = o.reshape(o.multiply(codes, draw_scales(*scales)), [ROWS, COLUMNS], False)
    check(save_products(tmp_path, weights), 1 if groups == 1 and shape == "rows" else count)


def test_weights_of_several_products_are_shared(tmp_path, keeps_small_weights):
    x, y = o.parameter([-1, COLUMNS], F32), o.parameter([-1], np.int64)
    weights = o.multiply(o.convert(draw_codes(ROWS, COLUMNS), "f32"), draw_scales(ROWS, 1))
    results = [o.matmul(x, weights, False, True), o.matmul(o.exp(x), weights, False, True)]
    check(save(tmp_path, results, [x]), 1)
    rows = [o.gather(weights, y, o.constant(np.array(axis))) for axis in (0, -2)]
    path = save(tmp_path, [*results, *rows], [x, y])
    inputs = [RNG.normal(size=(3, COLUMNS)).astype(F32), np.array([5, 0, -1])]
    compiled = irrun.compile_model(path, jit=False)
    assert len(compiled._program.compressed) == 1
    plain = irrun.compile_model(path, optimize=False)(inputs).to_tuple()
    for actual, expected in zip(compiled(inputs).to_tuple(), plain, strict=True):
        np.testing.assert_allclose(actual, expected, rtol=1e-5, atol=2e-5 * np.abs(expected).max())


def test_weights_that_are_results_are_decompressed(tmp_path, keeps_small_weights):
    x = o.parameter([-1, COLUMNS], F32)
    weights = o.multiply(o.convert(draw_codes(ROWS, COLUMNS), "f32"), draw_scales(ROWS, 1))
    check(save(tmp_path, [o.matmul(x, weights, False, True), weights], [x]), 0)


def test_products_of_weights_alone_are_folded(tmp_path, keeps_small_weights):
    """The weights are both factors, or the first one."""
    weights = o.multiply(o.convert(draw_codes(COLUMNS, COLUMNS), "f32"), draw_scales(COLUMNS, 1))
    x = o.parameter([-1, COLUMNS], F32)
    squares = o.matmul(weights, weights, False, True)
    check(save(tmp_path, [o.matmul(x, squares, False, True)], [x]), 0)
    check(save(tmp_path, [o.matmul(weights, x, False, True)], [x]), 0)


@pytest.mark.parametrize("jit", [False, True])
def test_custom_operations_replace_products_and_rows_of_compressed_weights(jit, tmp_path, keeps_small_weights):
    def multiply(a, b, *, transpose_a: bool = False, transpose_b: bool = False):
        return a @ b.T + F32(1000)

    def gather(data, indices, axis, *, batch_dims: int = 0):
        return data[indices] + F32(1000)

    x, y = o.parameter([-1, COLUMNS], F32), o.parameter([-1], np.int64)
    weights = o.multiply(o.convert(draw_codes(ROWS, COLUMNS), "f32"), draw_scales(ROWS, 1))
    path = save(tmp_path, [o.matmul(x, weights, False, True), o.gather(weights, y, o.constant(0))], [x, y])
    inputs = [RNG.normal(size=(3, COLUMNS)).astype(F32), np.array([5, 0])]
    own = irrun.compile_model(path, jit=jit)(inputs).to_tuple()
    operations = [
        irrun.Operation.from_function(multiply, "MatMul", since=1),
        irrun.Operation.from_function(gather, "Gather", since=8),
    ]
    custom = irrun.compile_model(path, jit=jit, operations=operations)(inputs).to_tuple()
    for actual, expected in zip(custom, own, strict=True):
        np.testing.assert_allclose(actual, expected + 1000, rtol=1e-5)


def floats(*shape):
    return np.arange(1, 1 + np.prod(shape, dtype=int), dtype=np.float32).reshape(shape)


@pytest.mark.parametrize(
    ("codes", "zero_point", "scale", "shape", "groups"),
    [
        ((4, 6), None, None, None, 1),
        ((4, 6), None, floats(4, 1), None, 1),
        ((4, 6), floats(4, 1), floats(), None, 1),
        ((4, 6), floats(1, 1), floats(4, 1), (4, 6), 1),
        ((4, 2, 3), floats(4, 2, 1), floats(4, 2, 1), (4, 6), 2),
        ((4, 2, 3), floats(1), floats(4, 2, 1), (4, 6), 2),
        ((4, 6), None, None, (6, 4), None),
        ((4, 2, 3), None, None, None, None),  # not reshaped to a matrix
        ((4,), None, None, None, None),
        ((4, 3, 2, 1), None, None, (4, 6), None),
        ((4, 0), None, None, None, None),
        ((0, 4), None, None, None, None),
        ((4, 2, 3), None, floats(4, 1), (4, 6), None),
        ((4, 2, 3), None, floats(4, 1, 1), (4, 6), None),
        ((4, 2, 3), None, floats(4, 2, 3), (4, 6), None),
        ((4, 6), None, floats(1, 6), None, None),
        ((4, 6), None, floats(2, 1), None, None),
        ((4, 6), floats(4, 6), None, None, None),
        ((4, 6), floats(4), None, None, None),
    ],
    ids=lambda value: "x".join(map(str, value.shape)) if isinstance(value, np.ndarray) else str(value),
)
def test_weights_have_one_parameter_or_one_per_row_and_group(codes, zero_point, scale, shape, groups):
    codes = np.arange(np.prod(codes), dtype=np.uint8).reshape(codes)
    weights = _make_weights(codes, zero_point, scale, shape)
    if groups is None:
        assert weights is None
        return
    assert weights.groups == groups
    np.testing.assert_array_equal(weights.codes, codes.reshape(4, 6))
    for kept, given in ((weights.zero_point, zero_point), (weights.scale, scale)):
        if given is None:
            assert kept is None
        else:
            np.testing.assert_array_equal(kept, given.reshape(1 if given.size == 1 else 4, -1))
            assert kept.flags.f_contiguous


def test_zero_points_that_are_equal_are_one():
    codes = np.zeros((4, 6), np.uint8)
    for value, expected in ((7, [[7]]), (0, None)):
        weights = _make_weights(codes, np.full((4, 1), value, np.float32), floats(4, 1), None)
        assert (weights.zero_point is None) if expected is None else weights.zero_point.tolist() == expected
    assert _make_weights(codes, np.zeros((1, 1), np.float32), None, None).zero_point is None
    assert _make_weights(codes, None, np.full((4, 1), 2, np.float32), None).scale.shape == (4, 1)
