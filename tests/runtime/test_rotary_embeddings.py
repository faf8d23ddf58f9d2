"""Rotary position embeddings as exporters write them run in one compiled kernel."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import irrun
from irrun.fast.errors import NoKernelError
from irrun.runtime.plan import list_plan

pytest.importorskip("llvmlite")
ov = pytest.importorskip("openvino")
o = pytest.importorskip("openvino.opset13")

from irrun.fast.jit.rotary import RotaryKernel  # noqa: E402

F32 = np.float32
RNG = np.random.default_rng(3)
I64 = np.int64


@pytest.fixture(autouse=True)
def keep_compiled_kernels(tmp_path_factory, monkeypatch):
    monkeypatch.setenv("IRRUN_CACHE_DIR", str(tmp_path_factory.getbasetemp() / "kernels"))


def make_floats(*shape):
    return RNG.normal(size=shape).astype(F32)


def rotate(x, cosine, sine):
    """Return the definition in f64."""
    x, cosine, sine = (y.astype(np.float64) for y in (x, cosine, sine))
    first, second = np.split(x, 2, axis=-1)
    return x * cosine + np.concatenate([-second, first], axis=-1) * sine


SHAPES = [
    ((2, 3, 5, 8), (2, 1, 5, 8)),
    ((2, 3, 5, 8), (5, 8)),
    ((1, 14, 1, 64), (1, 1, 1, 64)),
    ((2, 3, 4, 34), (2, 3, 4, 34)),
    ((3, 7, 2), (7, 2)),
    ((4, 66), (1, 66)),
    ((4, 66), (66,)),
    ((16, 8, 20, 96), (1, 1, 20, 96)),
]


@pytest.mark.parametrize(("shape", "table"), SHAPES, ids=str)
@pytest.mark.parametrize("is_transposed", [False, True])
def test_kernel_follows_its_definition(shape, table, is_transposed):
    x, cosine, sine = make_floats(*shape), make_floats(*table), make_floats(*table)
    if is_transposed and len(shape) > 2:
        x, cosine = x.swapaxes(0, 1).copy().swapaxes(0, 1), cosine[..., ::-1]
    result = RotaryKernel(len(shape))(x, cosine, sine)
    assert result.shape == shape
    np.testing.assert_allclose(result, rotate(x, cosine, sine), rtol=0, atol=2e-7 * 30)


@pytest.mark.parametrize(
    ("shape", "table", "rank"),
    [
        ((2, 3, 5), (5,), 3),  # odd rows
        ((2, 3, 4), (1,), 3),
        ((2, 3, 4), (2, 4), 3),
        ((2, 1, 4), (2, 3, 4), 3),
        ((3, 4), (2, 3, 4), 2),
        ((3, 4), (4,), 3),
        ((0, 4), (4,), 2),
    ],
    ids=str,
)
def test_other_shapes_are_refused(shape, table, rank):
    with pytest.raises(NoKernelError):
        RotaryKernel(rank)(make_floats(*shape), make_floats(*table), make_floats(*table))


def test_other_types_are_refused():
    x = make_floats(3, 4)
    for operands in ((x.astype(np.float64), x, x), (x, x.astype(np.float16), x), (x, x, x.astype(np.int32))):
        with pytest.raises(NoKernelError, match="expected f32"):
            RotaryKernel(2)(*operands)


def divide(x, way, size):
    half, axis = size // 2, np.array([3])
    if way == "split":
        return o.split(x, np.array(-1), 2).outputs()
    if way == "lengths":
        return o.variadic_split(x, np.array(3), np.array([half, half])).outputs()
    one = np.array([1])
    return (
        o.slice(x, np.array([0]), np.array([half]), one, axis).output(0),
        o.slice(x, np.array([half]), np.array([np.iinfo(I64).max]), one, axis).output(0),
    )


def write(x, cosine, sine, *, way="split", negation="multiply", swaps=False, size=16):
    """Return the operations of a rotary embedding."""

    def combine(operation, *operands):
        return operation(*(reversed(operands) if swaps else operands))

    first, second = divide(x, way, size)
    negated = o.negative(second) if negation == "negative" else o.multiply(second, F32(-1))
    turned = o.concat([negated, first], -1 if swaps else 3)
    return combine(o.add, combine(o.multiply, x, cosine), combine(o.multiply, turned, sine))


def compile_networks(folder, build, shape=(-1, 3, -1, 16), table=(-1, 1, -1, 16)):
    """Return a model without compiled kernels, and one with them."""
    x, cosine, sine = (
        o.parameter(list(s), F32, name=name) for name, s in zip("xcs", (shape, table, table), strict=True)
    )
    result = build(x, cosine, sine)
    results = result if isinstance(result, list) else [result]
    ov.serialize(ov.Model(results, [x, cosine, sine]), folder / "model.xml")
    return [irrun.compile_model(folder / "model.xml", jit=jit, optimize=jit) for jit in (False, True)]


def has_kernel(compiled):
    return any("rotary" in entry.implementation for entry in list_plan(compiled._fast_program))


@pytest.mark.parametrize(
    ("way", "negation", "swaps"),
    list(itertools.product(("split", "lengths", "slices"), ("multiply", "negative"), (False, True))),
)
def test_all_ways_of_writing_it_are_found(tmp_path, way, negation, swaps):
    options = {"way": way, "negation": negation, "swaps": swaps}
    plain, fast = compile_networks(tmp_path, lambda *inputs: write(*inputs, **options))
    assert has_kernel(fast)
    assert len(list(list_plan(fast._fast_program))) == 1
    for length in (1, 6):
        inputs = [make_floats(2, 3, length, 16), make_floats(2, 1, length, 16), make_floats(2, 1, length, 16)]
        np.testing.assert_allclose(fast(inputs)[0], plain(inputs)[0], rtol=0, atol=3e-6)
        assert not fast.create_infer_request().fallbacks


def test_tables_may_be_constant(tmp_path):
    cosine, sine = make_floats(5, 16), make_floats(5, 16)
    plain, fast = compile_networks(tmp_path, lambda x, *others: [write(x, cosine, sine), o.add(*others)], (2, 3, 5, 16))
    assert has_kernel(fast)
    inputs = [make_floats(2, 3, 5, 16), make_floats(2, 1, 1, 16), make_floats(2, 1, 1, 16)]
    np.testing.assert_allclose(fast(inputs)[0], plain(inputs)[0], rtol=0, atol=3e-6)


def use_half(x, cosine, sine):
    first, second = divide(x, "split", 16)
    turned = o.concat([o.negative(second), first], 3)
    return [o.add(o.multiply(x, cosine), o.multiply(turned, sine)), o.relu(first)]


def turn(change):
    """Return a network in which the halves are exchanged in another way."""

    def build(x, cosine, sine):
        first, second = divide(x, "split", 16)
        return o.add(o.multiply(x, cosine), o.multiply(o.concat(change(first, second), 3), sine))

    return build


OTHERS = {
    "a half is a result": use_half,
    "not negated": turn(lambda first, second: [o.multiply(second, F32(1)), first]),
    "both negated": turn(lambda first, second: [o.negative(second), o.negative(first)]),
    "not exchanged": turn(lambda first, second: [o.negative(first), second]),
    "the same half": turn(lambda first, second: [o.negative(second), second]),
    "difference": lambda x, c, s: o.subtract(o.multiply(x, c), o.multiply(turned(x), s)),
    "another value": lambda x, c, s: o.add(o.multiply(o.relu(x), c), o.multiply(turned(x), s)),
    "no cosine": lambda x, c, s: o.add(o.add(x, c), o.multiply(turned(x), s)),
    "reversed slices": lambda x, c, s: o.add(o.multiply(x, c), o.multiply(turned(x, -1), s)),
    "scalar cosine": lambda x, c, s: [o.add(o.multiply(x, F32(2)), o.multiply(turned(x), s)), c],
}


def turned(x, step=1):
    if step == 1:
        first, second = divide(x, "slices", 16)
    else:
        axis, step = np.array([3]), np.array([-1])
        first = o.slice(x, np.array([7]), np.array([-17]), step, axis)
        second = o.slice(x, np.array([15]), np.array([7]), step, axis)
    return o.concat([o.negative(second), first], 3)


@pytest.mark.parametrize("build", OTHERS.values(), ids=OTHERS.keys())
def test_other_networks_keep_their_results(tmp_path, build):
    plain, fast = compile_networks(tmp_path, build)
    inputs = [make_floats(2, 3, 5, 16), make_floats(2, 1, 5, 16), make_floats(2, 1, 5, 16)]
    for actual, expected in zip(fast(inputs).values(), plain(inputs).values(), strict=True):
        np.testing.assert_allclose(actual, expected, rtol=0, atol=3e-6)
    assert not has_kernel(fast)


def test_same_bits_for_any_number_of_threads(tmp_path):
    compile_networks(tmp_path, write, (8, 8, 64, 16), (1, 1, 64, 16))
    inputs = [make_floats(8, 8, 64, 16), make_floats(1, 1, 64, 16), make_floats(1, 1, 64, 16)]
    results = [irrun.compile_model(tmp_path / "model.xml", jit=True, threads=n)(inputs)[0] for n in (1, 2, 4)]
    assert results[0].tobytes() == results[1].tobytes() == results[2].tobytes()


def test_tables_along_another_axis_are_not_rows(tmp_path):
    def build(x, cosine, sine):
        first, second = o.split(x, np.array(-1), 2).outputs()
        products = o.multiply(x, cosine, "PDPD"), o.multiply(o.concat([o.negative(second), first], 1), sine, "PDPD")
        return o.add(*products)  # the tables belong to the first axis

    plain, fast = compile_networks(tmp_path, build, (16, 16), (16,))
    inputs = [make_floats(16, 16), make_floats(16), make_floats(16)]
    np.testing.assert_allclose(fast(inputs)[0], plain(inputs)[0], rtol=0, atol=3e-6)
    assert not has_kernel(fast)


def test_states_of_variables_are_not_halves_of_a_value(tmp_path):
    from openvino import op
    from openvino.op.util import Variable, VariableInfo

    def make_variable(name):
        info = VariableInfo()
        info.data_shape, info.data_type, info.variable_id = ov.PartialShape([2, 2]), ov.Type.f32, name
        return Variable(info)

    variables = [make_variable(name) for name in "ab"]
    first, second = (op.read_value(variable) for variable in variables)  # without an initial value
    x = o.parameter([2, 4], F32)
    result = o.add(o.multiply(o.concat([o.negative(second), first], 1), x), x)
    states = [op.assign(o.constant(make_floats(2, 2)), variable) for variable in variables]
    ov.serialize(ov.Model([o.result(result)], states, [x], "model"), tmp_path / "model.xml")
    plain, fast = (
        irrun.compile_model(tmp_path / "model.xml", jit=jit, optimize=jit).create_infer_request()
        for jit in (False, True)
    )
    for _ in range(2):
        value = make_floats(2, 4)
        np.testing.assert_allclose(fast.infer(value)[0], plain.infer(value)[0], rtol=0, atol=3e-6)
