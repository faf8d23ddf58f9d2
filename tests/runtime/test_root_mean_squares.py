"""Root mean square normalization as exporters write it runs in one compiled kernel."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import irrun
from irrun.runtime.plan import list_plan

pytest.importorskip("llvmlite")
ov = pytest.importorskip("openvino")
o = pytest.importorskip("openvino.opset13")

F32 = np.float32
RNG = np.random.default_rng(7)
LENGTH = 37
ROW = RNG.normal(size=LENGTH).astype(F32)


@pytest.fixture(autouse=True)
def keep_compiled_kernels(tmp_path_factory, monkeypatch):
    monkeypatch.setenv("IRRUN_CACHE_DIR", str(tmp_path_factory.getbasetemp() / "kernels"))


def normalize(x, *, square="power", inverse="divide", swaps=False, epsilon=1e-5, axis=-1, keep=True, one=1.0):
    """Return x / sqrt(mean(x ** 2) + epsilon), written in one of several ways."""

    def combine(operation, *operands):
        return operation(*(reversed(operands) if swaps else operands))

    squares = o.power(x, F32(2)) if square == "power" else o.multiply(x, x)
    mean = o.reduce_mean(squares, np.array([axis]), keep)
    variance = combine(o.add, mean, o.constant(F32(epsilon)))
    if inverse == "power":
        return combine(o.multiply, x, o.power(variance, F32(-0.5)))
    root = o.sqrt(variance)
    if inverse == "direct":
        return o.divide(x, root)
    return combine(o.multiply, x, o.divide(F32(one), root))


def compile_networks(folder, shape, build):
    """Return a model without compiled kernels, and one with them."""
    x = o.parameter(shape, F32)
    results = build(x)
    ov.serialize(ov.Model(results if isinstance(results, list) else [results], [x]), folder / "model.xml")
    return [irrun.compile_model(folder / "model.xml", jit=jit, optimize=jit) for jit in (False, True)]


def describe(compiled):
    return [(entry.operations, entry.implementation) for entry in list_plan(compiled._fast_program)]


def has_one_kernel(compiled):
    return any("normalization" in text and "ReduceMean" in types for types, text in describe(compiled))


WAYS = [
    {"square": square, "inverse": inverse, "swaps": swaps}
    for square, inverse, swaps in itertools.product(("power", "product"), ("divide", "power", "direct"), (False, True))
]


@pytest.mark.parametrize("way", WAYS, ids=lambda way: "-".join(map(str, way.values())))
def test_all_ways_of_writing_it_are_found(tmp_path, way):
    plain, fast = compile_networks(tmp_path, [-1, 3, LENGTH], lambda x: o.multiply(normalize(x, **way), ROW))
    assert has_one_kernel(fast)
    assert len(describe(fast)) == 1
    for count in (1, 5):
        x = (RNG.normal(size=(count, 3, LENGTH)) * [[[1], [1e-3], [50]]]).astype(F32)
        np.testing.assert_allclose(fast(x)[0], plain(x)[0], rtol=2e-6)


@pytest.mark.parametrize("scale", [ROW, ROW[None, None], ROW[None], np.array([2], F32)], ids=lambda s: str(s.shape))
@pytest.mark.parametrize("length", [1, 15, LENGTH])
def test_scale_is_a_row(tmp_path, scale, length):
    scale = scale[..., :length]
    plain, fast = compile_networks(tmp_path, [2, 3, length], lambda x: o.multiply(normalize(x), scale))
    x = RNG.normal(size=(2, 3, length)).astype(F32)
    np.testing.assert_allclose(fast(x)[0], plain(x)[0], rtol=2e-6)
    assert has_one_kernel(fast)
    assert len(describe(fast)) == (1 if scale.size == length else 2)


def test_column_does_not_become_a_row(tmp_path):
    column = RNG.normal(size=(3, 1)).astype(F32)
    plain, fast = compile_networks(tmp_path, [2, 3, 3], lambda x: o.multiply(normalize(x), column))
    x = RNG.normal(size=(2, 3, 3)).astype(F32)
    np.testing.assert_allclose(fast(x)[0], plain(x)[0], rtol=2e-6)


def test_scale_along_another_axis_is_not_a_row(tmp_path):
    def build(x):
        return o.multiply(normalize(x), ROW, "PDPD")  # along the first axis

    plain, fast = compile_networks(tmp_path, [LENGTH, LENGTH], build)
    x = RNG.normal(size=(LENGTH, LENGTH)).astype(F32)
    np.testing.assert_allclose(fast(x)[0], plain(x)[0], rtol=2e-6)
    assert has_one_kernel(fast)
    assert len(describe(fast)) == 2


def test_rows_of_zeros_and_infinities_are_as_without_the_kernel(tmp_path):
    plain, fast = compile_networks(tmp_path, [4, LENGTH], lambda x: normalize(x, epsilon=0.0))
    x = np.ones((4, LENGTH), F32)
    x[1], x[2, 3], x[3] = 0, np.inf, 1e30
    np.testing.assert_allclose(fast(x)[0], plain(x)[0], rtol=2e-6)


def use_mean(x):
    mean = o.reduce_mean(o.multiply(x, x), np.array([-1]), True)
    return [mean, o.divide(x, o.sqrt(o.add(mean, F32(1e-5))))]


OTHERS = {
    "mean is a result": use_mean,
    "another axis": lambda x: normalize(x, axis=0),
    "axis is dropped": lambda x: o.multiply(o.unsqueeze(o.sqrt(o.add(o.reduce_mean(o.multiply(x, x), np.array([-1]),
                                                                                False), F32(1))), np.array([-1])), x),
    "numerator is not 1": lambda x: normalize(x, one=2.0),
    "root is divided": lambda x: o.divide(o.sqrt(o.add(o.reduce_mean(o.power(x, F32(2)), np.array([-1]), True),
                                                       F32(1))), x),
    "cubes": lambda x: o.divide(x, o.sqrt(o.add(o.reduce_mean(o.power(x, F32(4)), np.array([-1]), True), F32(1)))),
    "no addition": lambda x: o.divide(x, o.sqrt(o.reduce_mean(o.power(x, F32(2)), np.array([-1]), True))),
    "row is added": lambda x: o.divide(x, o.sqrt(o.add(o.reduce_mean(o.power(x, F32(2)), np.array([-1]), True),
                                                       np.abs(ROW)))),
    "other exponent": lambda x: o.multiply(x, o.power(o.add(o.reduce_mean(o.power(x, F32(2)), np.array([-1]), True),
                                                            F32(1)), F32(-0.25))),
    "another value": lambda x: o.multiply(o.add(x, F32(1)), o.power(o.add(o.reduce_mean(o.power(x, F32(2)),
                                          np.array([-1]), True), F32(1)), F32(-0.5))),
    "means of values": lambda x: o.divide(x, o.sqrt(o.add(o.reduce_mean(o.abs(x), np.array([-1]), True), F32(1)))),
}  # fmt: skip


@pytest.mark.parametrize("build", OTHERS.values(), ids=OTHERS.keys())
def test_other_networks_keep_their_results(tmp_path, build):
    plain, fast = compile_networks(tmp_path, [5, LENGTH], build)
    x = RNG.normal(size=(5, LENGTH)).astype(F32)
    for actual, expected in zip(fast(x).values(), plain(x).values(), strict=True):
        np.testing.assert_allclose(actual, expected, rtol=2e-6)
    assert not has_one_kernel(fast)


@pytest.mark.parametrize("dtype", [np.float16, np.float64])
def test_other_types_keep_their_results(tmp_path, dtype):
    x = o.parameter([5, LENGTH], dtype)
    mean = o.reduce_mean(o.multiply(x, x), np.array([-1]), True)
    model = ov.Model([o.divide(x, o.sqrt(o.add(mean, o.constant(dtype(1e-3)))))], [x])
    ov.serialize(model, tmp_path / "model.xml")
    plain, fast = (irrun.compile_model(tmp_path / "model.xml", jit=jit, optimize=jit) for jit in (False, True))
    x = RNG.normal(size=(5, LENGTH)).astype(dtype)
    tolerance = 2e-3 if dtype == np.float16 else 1e-12
    np.testing.assert_allclose(fast(x)[0], plain(x)[0], rtol=tolerance)
    assert has_one_kernel(fast) == (dtype == np.float16)  # computed in f32


def test_same_bits_for_any_number_of_threads(tmp_path):
    x = o.parameter([64, 1024], F32)
    scale = RNG.normal(size=1024).astype(F32)
    ov.serialize(ov.Model([o.multiply(normalize(x), scale)], [x]), tmp_path / "model.xml")
    value = RNG.normal(size=(64, 1024)).astype(F32)
    results = [irrun.compile_model(tmp_path / "model.xml", jit=True, threads=n)(value)[0] for n in (1, 2, 4)]
    assert results[0].tobytes() == results[1].tobytes() == results[2].tobytes()


def test_plan_says_why_a_mean_is_computed_alone(tmp_path):
    _, fast = compile_networks(tmp_path, [5, LENGTH], OTHERS["no addition"])
    reasons = [refusal.reason for refusal in fast._fast_program.refusals]
    assert "ReduceMean is not followed by Add alone" in reasons
