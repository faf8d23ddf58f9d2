"""Compressed weights: products with them, rows of them, and their decompression."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
from openvino_modules import import_builder

import irrun
from fast.harness import list_sequences, run_single_instructions, run_with_threads
from irrun.element_types import ELEMENT_TYPES
from irrun.fast.arranged_weights import multiply_by_arranged_weights
from irrun.fast.compressed import CompressedWeights, decode, gather_rows, multiply_by_weights
from irrun.ops._support.conversion import convert
from irrun.packing import PostponedNibbles
from irrun.runtime import lowering
from irrun.runtime.passes import compressed_weights
from irrun.threads import use_threads

ov = import_builder()
o = import_builder("openvino.opset13")

RNG = np.random.default_rng(0)
F32 = np.float32
ROWS, GROUPS, GROUP_SIZE = 300, 4, 32
COLUMNS = GROUPS * GROUP_SIZE
#: Memory that OpenVINO's constants refer to without owning it.
MEMORY = []


@pytest.fixture(autouse=True)
def _keep_small_weights_compressed(monkeypatch):
    monkeypatch.setattr(compressed_weights.find_compressed_weights, "__defaults__", (0,))


def make_constant(shape, name):
    if name == "f16":
        return o.constant(RNG.normal(size=shape).astype(np.float16))
    if name in ("u8", "i8"):
        return o.constant(RNG.integers(0, 256, shape).astype(np.uint8).view(np.uint8 if name == "u8" else np.int8))
    element_type = ELEMENT_TYPES[name]
    MEMORY.append(RNG.integers(0, 256, element_type.get_byte_size(int(np.prod(shape)))).astype(np.uint8))
    return o.constant(ov.Tensor(MEMORY[-1], ov.Shape(list(shape)), getattr(ov.Type, name)))


def make_weights(name, groups, *, zero_point=True):
    """Decompress weights [ROWS, COLUMNS] as exporters write it."""
    shape = (ROWS, groups, COLUMNS // groups) if groups > 1 else (ROWS, COLUMNS)
    shared = (*shape[:-1], 1)
    codes = make_constant(shape, name)
    if name == "f16":
        return o.convert(codes, "f32")
    weights = o.convert(codes, "f16")
    if zero_point:
        zero_points = o.constant(RNG.integers(0, 16, shared).astype(np.uint8))
        weights = o.subtract(weights, o.convert(zero_points, "f16"))
    weights = o.multiply(weights, o.constant((RNG.random(shared) / 50).astype(np.float16)))
    if groups > 1:
        weights = o.reshape(weights, o.constant(np.array([ROWS, COLUMNS])), False)
    return o.convert(weights, "f32")


def save_model(path, weights, *, embedding=False, product=True):
    """Save x @ weights.T, and rows of the weights."""
    x = o.parameter([-1, -1, COLUMNS], F32, name="x")
    ids = o.parameter([-1, -1], np.int64, name="ids")
    results, parameters = [], []
    if product:
        results.append(o.matmul(x, weights, False, True))
        parameters.append(x)
    if embedding:
        results.append(o.gather(weights, ids, o.constant(np.array(0))))
        parameters.append(ids)
    ov.serialize(ov.Model([o.result(r) for r in results], parameters), path)
    return path


CASES = [(name, groups) for name in ("u8", "i8", "u4", "i4", "nf4") for groups in (1, GROUPS)] + [("f16", 1)]


@pytest.mark.parametrize(("name", "groups"), CASES)
@pytest.mark.parametrize("rows", [1, 3, 8, 9, 40])
def test_products_agree_with_the_plain_kernels(tmp_path, name, groups, rows):
    path = save_model(tmp_path / "model.xml", make_weights(name, groups))
    compiled = irrun.compile_model(path, weights_memory=0)
    assert len(compiled._program.compressed) == 1
    assert [i.kernel for i in compiled._fast_program.instructions] == [multiply_by_weights]
    x = RNG.normal(size=(1, rows, COLUMNS)).astype(F32)
    expected = irrun.compile_model(path, optimize=False)(x)[0]
    np.testing.assert_allclose(compiled(x)[0], expected, rtol=1e-5, atol=2e-5 * np.abs(expected).max())


@pytest.mark.parametrize(("name", "groups"), CASES)
def test_decompressed_weights_have_the_bits_of_the_plain_kernels(tmp_path, name, groups):
    path = save_model(tmp_path / "model.xml", make_weights(name, groups))
    (weights,) = irrun.compile_model(path, weights_memory=0)._program.compressed.values()
    plain = irrun.compile_model(path, optimize=False)._program
    (expected,) = [plain.initial[slot] for slot in plain.constant_layers]
    np.testing.assert_array_equal(weights.decompress().view(np.uint32), expected.view(np.uint32))


@pytest.mark.parametrize("product", [False, True])
@pytest.mark.parametrize(("name", "groups"), CASES)
def test_rows_of_an_embedding_have_the_bits_of_the_plain_kernels(tmp_path, name, groups, product):
    path = save_model(tmp_path / "model.xml", make_weights(name, groups), embedding=True, product=product)
    compiled = irrun.compile_model(path, weights_memory=0)
    assert gather_rows in [i.kernel for i in compiled._fast_program.instructions]
    inputs = {"ids": np.array([[0, 5, -1], [ROWS - 1, 5, 7]])}
    if product:
        inputs["x"] = np.ones((1, 1, COLUMNS), F32)
    actual, expected = (m(inputs).to_tuple()[-1] for m in (compiled, irrun.compile_model(path, optimize=False)))
    np.testing.assert_array_equal(actual, expected)


@pytest.mark.falls_back
def test_rows_out_of_range_are_those_of_the_plain_kernel(tmp_path):
    path = save_model(tmp_path / "model.xml", make_weights("u4", GROUPS), embedding=True, product=False)
    ids = np.array([[0, ROWS, 2]])
    actual, expected = (irrun.compile_model(path, optimize=optimize)(ids)[0] for optimize in (True, False))
    np.testing.assert_array_equal(actual, expected)


def test_infinite_inputs_give_the_results_of_the_plain_kernel(tmp_path):
    path = save_model(tmp_path / "model.xml", make_weights("u8", 1))
    x = np.ones((1, 1, COLUMNS), F32)
    x[0, 0, 3] = np.inf
    actual, expected = (irrun.compile_model(path, optimize=optimize)(x)[0] for optimize in (True, False))
    np.testing.assert_array_equal(actual, expected)


@pytest.mark.falls_back
def test_invalid_inputs_are_reported_by_the_plain_kernel(tmp_path):
    x = o.parameter([-1, -1, -1], F32)
    weights = make_weights("u8", 1)
    ov.serialize(ov.Model([o.result(o.matmul(x, weights, False, True))], [x]), tmp_path / "model.xml")
    with pytest.raises(irrun.InputError, match="the inner dimensions differ"):
        irrun.compile_model(tmp_path / "model.xml")(np.ones((1, 2, 7), F32))


def test_observed_runs_compute_every_layer(tmp_path):
    path = save_model(tmp_path / "model.xml", make_weights("u4", GROUPS))
    compiled = irrun.compile_model(path)
    x = RNG.normal(size=(1, 2, COLUMNS)).astype(F32)
    types = []
    observed = compiled(x, observers=[lambda layer, *_: types.append(layer.type)])[0]
    assert sorted(types) == ["Convert", "Convert", "Convert", "MatMul", "Multiply", "Reshape", "Subtract"]
    np.testing.assert_allclose(observed, compiled(x)[0], rtol=1e-4, atol=1e-4)


def test_weights_with_other_consumers_are_decompressed(tmp_path):
    x = o.parameter([1, COLUMNS], F32)
    weights = make_weights("u8", 1)
    results = [o.matmul(x, weights, False, True), o.reduce_sum(weights, o.constant(np.array([0])))]
    ov.serialize(ov.Model([o.result(r) for r in results], [x]), tmp_path / "model.xml")
    assert not irrun.compile_model(tmp_path / "model.xml")._program.compressed


def test_f16_is_decompressed_within_the_memory(tmp_path):
    path = save_model(tmp_path / "model.xml", make_weights("f16", 1))
    for memory, count in ((4 * ROWS * COLUMNS, 0), (4 * ROWS * COLUMNS - 1, 1)):
        assert len(irrun.compile_model(path, weights_memory=memory)._program.compressed) == count


@pytest.mark.parametrize("jit", [False, "auto"])
def test_weights_in_groups_are_arranged_within_the_memory(tmp_path, monkeypatch, jit):
    monkeypatch.setenv("IRRUN_CACHE_DIR", str(tmp_path / "cache"))
    path = save_model(tmp_path / "model.xml", make_weights("u4", GROUPS), embedding=True)
    inputs = {"x": RNG.normal(size=(1, 2, COLUMNS)).astype(F32), "ids": np.array([[3]])}
    results = []
    for memory, kernel in ((ROWS * COLUMNS, multiply_by_arranged_weights), (ROWS * COLUMNS - 1, multiply_by_weights)):
        compiled = irrun.compile_model(path, weights_memory=memory, jit=jit)
        assert {i.kernel for i in compiled._fast_program.instructions} == {kernel, gather_rows}
        results.append(compiled(inputs).to_tuple())
    np.testing.assert_allclose(results[0][0], results[1][0], rtol=1e-5, atol=1e-5)
    np.testing.assert_array_equal(results[0][1], results[1][1])


def test_weights_are_arranged_unless_compiled_kernels_read_them(tmp_path, monkeypatch):
    pytest.importorskip("llvmlite")
    monkeypatch.setenv("IRRUN_CACHE_DIR", str(tmp_path / "cache"))
    path = save_model(tmp_path / "model.xml", make_weights("u4", GROUPS))
    for jit, is_arranged in ((False, True), ("auto", True), (True, False), ("auto", False)):
        (instruction,) = irrun.compile_model(path, jit=jit)._fast_program.instructions
        assert (instruction.kernel is multiply_by_arranged_weights) == is_arranged, jit
        assert instruction.description.startswith("compiled") != is_arranged, jit


def test_f16_with_infinities_is_not_kept_compressed(tmp_path):
    values = RNG.normal(size=(ROWS, COLUMNS)).astype(np.float16)
    values[3, 4] = np.inf
    path = save_model(tmp_path / "model.xml", o.convert(o.constant(values), "f32"))
    compiled = irrun.compile_model(path, weights_memory=0)
    assert not compiled._program.compressed
    assert np.isinf(compiled(np.ones((1, 1, COLUMNS), F32))[0][0, 0, 3])


@pytest.mark.parametrize("zero_point", [0, 8])
def test_equal_zero_points_are_kept_once(tmp_path, zero_point):
    codes = o.convert(make_constant((ROWS, GROUPS, GROUP_SIZE), "u4"), "f16")
    zero_points = o.constant(np.full((ROWS, GROUPS, 1), zero_point, np.float16))
    scale = o.constant((RNG.random((ROWS, GROUPS, 1)) / 50).astype(np.float16))
    weights = o.reshape(o.multiply(o.subtract(codes, zero_points), scale), o.constant(np.array([ROWS, COLUMNS])), False)
    path = save_model(tmp_path / "model.xml", o.convert(weights, "f32"))
    compiled = irrun.compile_model(path, weights_memory=0)
    (kept,) = compiled._program.compressed.values()
    assert (kept.zero_point is None) if zero_point == 0 else (kept.zero_point.tolist() == [[8]])
    x = RNG.normal(size=(1, 3, COLUMNS)).astype(F32)
    expected = irrun.compile_model(path, optimize=False)(x)[0]
    np.testing.assert_allclose(compiled(x)[0], expected, rtol=1e-5, atol=2e-5 * np.abs(expected).max())


def draw_f32(*shape):
    return o.constant(RNG.random(shape).astype(F32))


OTHER_FORMS = {
    "scales of columns": lambda codes: o.multiply(codes, draw_f32(1, COLUMNS)),
    "scales of elements": lambda codes: o.multiply(codes, draw_f32(ROWS, COLUMNS)),
    "variable scales": lambda codes: o.multiply(codes, o.sqrt(draw_f32(ROWS, 1))),
    "roots": o.sqrt,
    "scale of a sum": lambda codes: o.multiply(o.add(codes, draw_f32(ROWS, 1)), draw_f32(ROWS, 1)),
    "scale before the zero point": lambda codes: o.subtract(o.multiply(codes, draw_f32(ROWS, 1)), draw_f32(ROWS, 1)),
    "another shape": lambda codes: o.reshape(codes, o.constant(np.array([ROWS // 2, -1])), False),
    "rows of halves": lambda codes: o.reshape(codes, o.constant(np.array([2 * ROWS, COLUMNS // 2])), False),
}


@pytest.mark.parametrize("name", OTHER_FORMS)
def test_weights_of_other_forms_are_decompressed(tmp_path, name):
    weights = OTHER_FORMS[name](o.convert(make_constant((ROWS, COLUMNS), "u8"), "f32"))
    x = o.parameter([-1, weights.shape[1]], F32)
    ov.serialize(ov.Model([o.result(o.matmul(x, weights, False, True))], [x]), tmp_path / "model.xml")
    compiled = irrun.compile_model(tmp_path / "model.xml")
    assert not compiled._program.compressed
    data = RNG.normal(size=(3, weights.shape[1])).astype(F32)
    expected = irrun.compile_model(tmp_path / "model.xml", optimize=False)(data)[0]
    np.testing.assert_allclose(compiled(data)[0], expected, rtol=1e-5, atol=2e-5 * np.abs(expected).max())


@pytest.mark.parametrize("shape", [(1, GROUPS, 1), (ROWS, 1, 1), (1, 1, GROUP_SIZE), (1, 1)])
def test_scales_shared_by_rows_or_groups_agree_with_the_plain_kernels(tmp_path, shape):
    codes = o.convert(make_constant((ROWS, GROUPS, GROUP_SIZE), "u4"), "f32")
    weights = o.reshape(o.multiply(codes, draw_f32(*shape)), o.constant(np.array([ROWS, COLUMNS])), False)
    path = save_model(tmp_path / "model.xml", weights)
    compiled = irrun.compile_model(path, weights_memory=0)
    assert len(compiled._program.compressed) == (shape == (1, 1))
    x = RNG.normal(size=(1, 3, COLUMNS)).astype(F32)
    expected = irrun.compile_model(path, optimize=False)(x)[0]
    np.testing.assert_allclose(compiled(x)[0], expected, rtol=1e-5, atol=2e-5 * np.abs(expected).max())


@pytest.mark.parametrize(("transpose_a", "transpose_b"), [(False, False), (True, True)])
def test_products_with_weights_that_are_not_transposed_are_decompressed(tmp_path, transpose_a, transpose_b):
    weights = o.multiply(o.convert(make_constant((COLUMNS, COLUMNS), "u8"), "f32"), draw_f32(COLUMNS, 1))
    x = o.parameter([COLUMNS, COLUMNS], F32)
    path = tmp_path / "model.xml"
    ov.serialize(ov.Model([o.result(o.matmul(x, weights, transpose_a, transpose_b))], [x]), path)
    compiled = irrun.compile_model(path)
    assert not compiled._program.compressed
    data = RNG.normal(size=(COLUMNS, COLUMNS)).astype(F32)
    expected = irrun.compile_model(path, optimize=False)(data)[0]
    np.testing.assert_allclose(compiled(data)[0], expected, rtol=1e-5, atol=2e-5 * np.abs(expected).max())


def test_rows_of_reshaped_weights_are_gathered_by_the_plain_kernel(tmp_path):
    codes = o.convert(make_constant((ROWS, COLUMNS), "u8"), "f32")
    ids = o.parameter([-1], np.int64)
    path = tmp_path / "model.xml"
    for shape in ((ROWS // 2, -1), (-1, COLUMNS // 2)):
        weights = o.reshape(codes, o.constant(np.array(shape)), False)
        ov.serialize(ov.Model([o.result(o.gather(weights, ids, o.constant(np.array(0))))], [ids]), path)
        fast, plain = (irrun.compile_model(path, optimize=optimize)(np.array([3, 0]))[0] for optimize in (True, False))
        np.testing.assert_array_equal(fast, plain)


def test_columns_of_an_embedding_are_gathered_by_the_plain_kernel(tmp_path):
    weights = make_weights("u8", 1)
    ids = o.parameter([-1], np.int64)
    path = tmp_path / "model.xml"
    ov.serialize(ov.Model([o.result(o.gather(weights, ids, o.constant(np.array(1))))], [ids]), path)
    compiled = irrun.compile_model(path)
    assert not compiled._program.compressed
    values = np.array([3, 0])
    np.testing.assert_array_equal(compiled(values)[0], irrun.compile_model(path, optimize=False)(values)[0])


def test_small_models_are_decompressed(tmp_path, monkeypatch):
    monkeypatch.undo()
    path = save_model(tmp_path / "model.xml", make_weights("u8", 1))
    assert not irrun.compile_model(path)._program.compressed


def test_every_finite_f16_is_decoded_exactly():
    codes = np.arange(1 << 16, dtype=np.uint16).view(np.float16)
    codes = codes[np.isfinite(codes)].reshape(1, -1)
    out = np.empty(codes.shape, F32)
    decode(codes, out)
    np.testing.assert_array_equal(out.view(np.uint32), codes.astype(F32).view(np.uint32))


@pytest.mark.parametrize("name", ["u2", "u3", "u4", "u6", "i4", "nf4", "f4e2m1", "f8e4m3", "f8e5m2", "f8e8m0"])
def test_every_code_is_decoded_as_convert_does(name):
    element_type = ELEMENT_TYPES[name]
    codes = np.arange(1 << element_type.bits, dtype=np.uint8).view(element_type.dtype).reshape(1, -1)
    out = np.empty(codes.shape, F32)
    decode(codes, out)
    np.testing.assert_array_equal(out, convert(codes, ELEMENT_TYPES["f32"]))


@pytest.mark.parametrize("rows", [1, 4, 33])
@pytest.mark.parametrize("groups", [1, 8])
def test_number_of_threads_does_not_change_bits(rows, groups):
    shape = (5000, 512)
    weights = CompressedWeights(
        RNG.integers(0, 16, shape).astype(np.uint8).view(ml_dtypes.uint4),
        np.full((1, 1), 8, F32),
        RNG.random((shape[0], groups)).astype(F32),
        groups,
    )
    x = RNG.normal(size=(rows, shape[1])).astype(F32)
    results = []
    for threads in (1, 2, 5):
        with use_threads(threads):
            results.append((multiply_by_weights(x, weights=weights).tobytes(), weights.decompress().tobytes()))
    assert results[0] == results[1] == results[2]


def test_compiled_products_of_the_same_value_are_merged(tmp_path):
    pytest.importorskip("llvmlite")
    x = o.parameter([-1, -1, COLUMNS], F32, name="x")
    products = [o.matmul(x, make_weights(name, groups), False, True) for name, groups in (("u8", 1), ("i4", GROUPS))]
    last = o.matmul(o.relu(x), make_weights("u4", GROUPS), False, True)
    results = [o.add(products[0], products[1]), products[1], last]
    ov.serialize(ov.Model([o.result(r) for r in results], [x]), tmp_path / "model.xml")
    compiled = irrun.compile_model(tmp_path / "model.xml", jit=True)
    layers = [sum(i.operation.type == "MatMul" for i in j.plain) for j in compiled._fast_program.instructions]
    assert sorted(layers)[-2:] == [1, 2]
    plain = irrun.compile_model(tmp_path / "model.xml", optimize=False)
    for count in (1, 2, 20):
        data = RNG.normal(size=(1, count, COLUMNS)).astype(F32)
        for actual, expected in zip(compiled(data).to_tuple(), plain(data).to_tuple(), strict=True):
            np.testing.assert_allclose(actual, expected, rtol=1e-5, atol=2e-5 * np.abs(expected).max())
    with pytest.raises(irrun.InputError):
        compiled(np.zeros((1, 0, COLUMNS + 1), F32))


@pytest.mark.parametrize("names", [("u8", "i4", "u4"), ("i8", "i8", "i8"), ("u4", "u4", "i4")])
def test_products_of_few_rows_are_joined_with_other_kernels(tmp_path, names):
    """Products of many rows run without the joined kernel, which is not a failure."""
    pytest.importorskip("llvmlite")
    x = o.parameter([1, -1, COLUMNS], F32, name="x")
    first, second, third = (make_weights(name, groups) for name, groups in zip(names, (GROUPS, 1, 2), strict=True))
    parts = [o.matmul(x, weights, False, True) for weights in (first, second)]
    last = o.matmul(o.add(o.relu(x), o.constant(RNG.normal(size=COLUMNS).astype(F32))), third, False, True)
    results = [o.swish(o.multiply(*parts)), o.add(last, parts[0])]
    ov.serialize(ov.Model([o.result(r) for r in results], [x]), tmp_path / "model.xml")
    compiled = irrun.compile_model(tmp_path / "model.xml", jit=True)
    (joined,) = list_sequences(compiled).values()
    assert joined.count("MatMul") == 2  # two are merged
    request = compiled.create_infer_request()
    for count in (1, 3, 1, 20, 8, 9, 1):
        data = RNG.normal(size=(1, count, COLUMNS)).astype(F32)
        expected = run_single_instructions(compiled, [data])
        actual = run_with_threads(lambda data=data: np.stack(request.infer(data).to_tuple()))
        np.testing.assert_array_equal(actual, expected)
    assert not request.fallbacks


@pytest.mark.parametrize(("name", "is_released"), [("u4", True), ("u8", False)])
def test_memory_of_packed_constants_is_released_when_a_model_is_lowered(tmp_path, monkeypatch, name, is_released):
    model = irrun.read_model(save_model(tmp_path / "model.xml", make_weights(name, GROUPS)))
    calls = []
    monkeypatch.setattr(lowering, "RELEASE_INTERVAL", ROWS * COLUMNS // 2)
    monkeypatch.setattr(type(model.weights), "release", lambda _: calls.append(name))
    lowering.lower(model)
    assert bool(calls) == is_released


@pytest.fixture
def filled(monkeypatch):
    """Postpone small constants too, with wrong values until they are filled; return the shapes that are filled."""
    pytest.importorskip("llvmlite")
    monkeypatch.setattr(lowering, "MIN_POSTPONED_BYTES", 0)
    shapes = []
    create, fill = PostponedNibbles.__init__, PostponedNibbles.fill

    def create_wrong(self, *arguments):
        create(self, *arguments)
        self._codes[:] = 3

    def fill_once(self):
        if self._raw is not None:
            shapes.append(self.array.shape)
        fill(self)

    monkeypatch.setattr(PostponedNibbles, "__init__", create_wrong)
    monkeypatch.setattr(PostponedNibbles, "fill", fill_once)
    return shapes


def make_packed_weights(name, groups):
    """Decompress weights with zero points of u4, and return them and their codes in f32."""
    shape = (ROWS, groups, COLUMNS // groups)
    codes = o.convert(make_constant(shape, name), "f32")
    centered = o.subtract(codes, o.convert(make_constant((ROWS, groups, 1), "u4"), "f32"))
    scaled = o.multiply(centered, draw_f32(ROWS, groups, 1))
    return o.reshape(scaled, o.constant(np.array([ROWS, COLUMNS])), False), codes


def compare_with_plain(compiled, path, inputs, **options):
    expected = irrun.compile_model(path, optimize=False)(inputs).to_tuple()
    for actual, values in zip(compiled(inputs, **options).to_tuple(), expected, strict=True):
        np.testing.assert_allclose(actual, values, rtol=1e-5, atol=2e-5 * np.abs(values).max())


@pytest.mark.parametrize("name", ["u4", "i4"])
@pytest.mark.parametrize("groups", [1, GROUPS, COLUMNS // 16])
@pytest.mark.parametrize("product", [False, True])
def test_stored_codes_are_unpacked_for_observers_only(tmp_path, filled, name, groups, product):
    """Groups of 16 columns are too short for two vectors of AVX-512, and are unpacked at once."""
    weights, _ = make_packed_weights(name, groups)
    path = save_model(tmp_path / "model.xml", weights, embedding=True, product=product)
    compiled = irrun.compile_model(path, jit=True)
    assert filled.pop(0) == (ROWS, groups, 1)
    assert not filled or groups == COLUMNS // 16
    inputs = {"ids": np.array([[0, 5, -1], [ROWS - 1, 5, 7]])}
    if product:
        inputs["x"] = RNG.normal(size=(1, 11, COLUMNS)).astype(F32)
    for count in (11, 2, 1):
        compare_with_plain(compiled, path, {k: v[:, :count] if k == "x" else v for k, v in inputs.items()})
    assert not filled or groups == COLUMNS // 16
    compare_with_plain(compiled, path, inputs, observers=[lambda *_: None])
    assert filled == [(ROWS, groups, COLUMNS // groups)]
    compare_with_plain(compiled, path, inputs)


def test_stored_codes_with_other_consumers_are_unpacked(tmp_path, filled):
    x = o.parameter([-1, -1, COLUMNS], F32)
    for consume in (lambda w, _: o.reduce_sum(w, o.constant(np.array([0]))), lambda _, c: c, lambda _, c: o.relu(c)):
        weights, codes = make_packed_weights("i4", GROUPS)
        results = [o.matmul(x, weights, False, True), consume(weights, codes)]
        ov.serialize(ov.Model([o.result(r) for r in results], [x]), tmp_path / "model.xml")
        compiled = irrun.compile_model(tmp_path / "model.xml", jit=True)
        compare_with_plain(compiled, tmp_path / "model.xml", RNG.normal(size=(1, 2, COLUMNS)).astype(F32))


@pytest.mark.falls_back
def test_stored_codes_are_unpacked_for_plain_kernels(tmp_path, filled, monkeypatch):
    from irrun.fast.errors import NoKernelError
    from irrun.fast.jit.compressed import CompressedKernel

    def refuse(self, data):
        raise NoKernelError("refused")

    path = save_model(tmp_path / "model.xml", make_packed_weights("i4", GROUPS)[0])
    compiled = irrun.compile_model(path, jit=True)
    filled.clear()
    monkeypatch.setattr(CompressedKernel, "__call__", refuse)
    compare_with_plain(compiled, path, RNG.normal(size=(1, 2, COLUMNS)).astype(F32))
    assert filled == [(ROWS, GROUPS, GROUP_SIZE)]


def test_products_that_are_not_compiled_read_unpacked_codes(tmp_path, filled, monkeypatch):
    from irrun.fast.jit import compressed

    monkeypatch.setattr(compressed, "supports", lambda weights: False)
    path = save_model(tmp_path / "model.xml", make_packed_weights("u4", GROUPS)[0], embedding=True)
    compiled = irrun.compile_model(path, jit=True)
    inputs = {"x": RNG.normal(size=(1, 2, COLUMNS)).astype(F32), "ids": np.array([[3]])}
    compare_with_plain(compiled, path, inputs)


def test_models_without_compiled_kernels_read_unpacked_codes(tmp_path, filled, monkeypatch):
    from irrun.runtime import prepared_model

    def fail(self):
        raise RuntimeError

    path = save_model(tmp_path / "model.xml", make_packed_weights("u4", GROUPS)[0])
    inputs = RNG.normal(size=(1, 2, COLUMNS)).astype(F32)
    for jit in (False, True):
        compare_with_plain(irrun.compile_model(path, jit=jit), path, inputs)
    monkeypatch.setattr(prepared_model.PreparedModel, "_compile_program", fail)
    compare_with_plain(irrun.compile_model(path, jit="auto"), path, inputs)
