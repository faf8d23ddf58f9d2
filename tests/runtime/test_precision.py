"""The precision of computations: graphs in f16 and bf16 in f32, as declared, and in f64."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import irrun
from irrun.conformance.faults import accept_fault
from irrun.inspection.recording import record
from irrun.runtime.lowering import lower
from irrun.runtime.passes.precision import change_precision

ov = pytest.importorskip("openvino")
o = pytest.importorskip("openvino.opset13")

F16, F32 = np.float16, np.float32
HINT = {"INFERENCE_PRECISION_HINT": "f32"}
VALUES = np.array([1e-4, 1e-3, 100.1, 3.1, 60000.0], F16)


def save(tmp_path, results, parameters, sinks=()):
    """Save a model and return its path."""
    model = ov.Model([o.result(r) for r in results], list(sinks), list(parameters), "model")
    ov.serialize(model, tmp_path / "model.xml")
    return tmp_path / "model.xml"


def infer_with_openvino(path, *inputs):
    """Return the outputs of the CPU plugin at INFERENCE_PRECISION_HINT=f32."""
    compiled = ov.Core().compile_model(path, "CPU", HINT)
    return [np.array(value) for value in compiled(list(inputs)).values()]


def make_f16(values):
    return o.constant(np.asarray(values, F16))


def save_sum(tmp_path):
    """Save a model in f16 that computes 3 (x + 1), and a sum of 1000 terms."""
    x = o.parameter([5], F16, name="x")
    scaled = o.multiply(o.add(x, make_f16(1)), make_f16(3))
    terms = o.tile(o.divide(x, make_f16(7)), o.constant(np.array([1000])))
    return save(tmp_path, [scaled, o.reduce_sum(terms, o.constant(np.array([0])))], [x])


@pytest.mark.parametrize("optimize", [True, False])
def test_f16_graph_is_computed_in_f32(tmp_path, optimize):
    path = save_sum(tmp_path)
    actual = irrun.compile_model(path, optimize=optimize)(VALUES).to_tuple()
    wide = VALUES.astype(F32)
    exact = [(wide + 1) * 3, np.asarray((wide / 7).astype(np.float64).sum() * 1000)]
    with np.errstate(over="ignore"):
        for value, expected in zip(actual, exact, strict=True):
            assert value.dtype == F16
            np.testing.assert_allclose(value, expected.astype(F16), rtol=1e-3)
        for value, expected in zip(actual, infer_with_openvino(path, VALUES), strict=True):
            np.testing.assert_allclose(value, expected, rtol=1e-3)


def test_declared_precision_rounds_each_value(tmp_path):
    x = o.parameter([1], F16)
    path = save(tmp_path, [o.subtract(o.add(x, make_f16(2048)), make_f16(2048))], [x])
    value = np.array([1.0], F16) / 4
    assert irrun.compile_model(path, precision="declared")(value)[0] == 0
    for precision in ("f32", "f64"):
        assert irrun.compile_model(path, precision=precision)(value)[0] == value
    assert irrun.compile_model(path)(value)[0] == infer_with_openvino(path, value)[0]


def test_f64_exceeds_f32(tmp_path):
    x = o.parameter([1], F32)
    path = save(
        tmp_path, [o.subtract(o.add(x, o.constant(np.array([1e8], F32))), o.constant(np.array([1e8], F32)))], [x]
    )
    value = np.array([0.5], F32)
    assert irrun.compile_model(path)(value)[0] == 0
    result = irrun.compile_model(path, precision="f64")(value)[0]
    assert result == 0.5
    assert result.dtype == F32


def test_unknown_precision_is_refused(tmp_path):
    with pytest.raises(ValueError, match="precision is 'f8', expected 'declared', 'f32' or 'f64'"):
        irrun.compile_model(save_sum(tmp_path), precision="f8")


@pytest.mark.parametrize("kind", ["f16", "bf16"])
def test_conversions_round_as_in_openvino(tmp_path, kind):
    x, n = o.parameter([5], F32), o.parameter([5], np.int32)
    stored = o.constant(np.array([1.0001], F32))
    results = [
        o.convert(o.convert(x, kind), "f32"),
        o.convert(o.convert(n, kind), "f32"),
        o.convert(o.convert(x, kind), "i32"),
        o.multiply(o.convert(o.convert(stored, kind), "f32"), x),
    ]
    path = save(tmp_path, results, [x, n])
    values = np.array([1.0001, 1e-9, 70000, 3.14159265, -1e5], F32)
    integers = np.array([1, 2049, 70000, -70000, 4097], np.int32)
    if kind == "f16":  # computed in f32, except that constants are rounded
        rounded, numbers, factor = values, integers.astype(F32), F32(F16(1.0001))
    else:
        integers[2:4] = 65536, -65536  # OpenVINO does not round integers to the nearest bf16
        rounded, numbers = (x.astype(F32).astype(ml_dtypes.bfloat16).astype(F32) for x in (values, integers))
        factor = F32(ml_dtypes.bfloat16(1.0001))
    expected = [rounded, numbers, rounded.astype(np.int32), factor * values]
    for optimize in (True, False):
        actual = irrun.compile_model(path, optimize=optimize)([values, integers]).to_tuple()
        for a, b in zip(actual, expected, strict=True):
            np.testing.assert_array_equal(a, b)
    for a, b in zip(infer_with_openvino(path, values, integers), expected, strict=True):
        with accept_fault("plugin-bf16") if kind == "bf16" else nullcontext():
            np.testing.assert_array_equal(a, b)


def test_bf16_graph_is_computed_in_f32(tmp_path):
    x = o.parameter([5], ov.Type.bf16)
    factor = o.convert(o.constant(np.array([1.2345], F32)), "bf16")
    path = save(tmp_path, [o.convert(o.subtract(o.multiply(x, factor), x), "f32")], [x])
    values = VALUES.astype(ml_dtypes.bfloat16)
    wide = values.astype(F32)
    expected = wide * F32(1.2345).astype(ml_dtypes.bfloat16).astype(F32) - wide
    np.testing.assert_array_equal(irrun.compile_model(path)(values)[0], expected)


@pytest.mark.parametrize("precision", ["f32", "declared", "f64"])
def test_variables_keep_their_declared_type(tmp_path, precision):
    x = o.parameter([2], F16)
    previous = o.read_value(make_f16([0, 0]), "v", ov.Type.f16, ov.PartialShape([2]))
    total = o.add(previous, o.divide(x, make_f16(3)))
    path = save(tmp_path, [total], [x], [o.assign(total, "v")])
    request = irrun.compile_model(path, precision=precision, check=True).create_infer_request()
    value = np.array([1, 2], F16)
    for _ in range(3):
        result = request.infer(value)[0]
    assert request.mismatches == []
    (variable,) = request.query_state()
    assert variable.state.dtype == F16
    np.testing.assert_allclose(variable.state, [1, 2], rtol=2e-3)
    np.testing.assert_array_equal(result, variable.state)
    variable.state = np.array([5, 6], F16)
    np.testing.assert_allclose(request.infer(value)[0], [5.333, 6.666], rtol=1e-3)
    with pytest.raises(irrun.IrrunError, match="expected f16"):
        variable.state = np.array([5, 6], F32)
    request.reset_state()
    np.testing.assert_array_equal(request.query_state()[0].state, np.zeros(2, F16))


def save_loop(tmp_path, count):
    """Save a loop that adds x / 3 to x `count` times, and an If that selects the sum or its double."""
    x, condition = o.parameter([2], F16), o.parameter([], np.bool_)
    body_x, body_sum = o.parameter([2], F16), o.parameter([2], F16)
    body_result = o.result(o.add(body_sum, o.divide(body_x, make_f16(3))))
    go_on = o.result(o.constant(np.array(True)))
    loop = o.loop(o.constant(np.array(count)), o.constant(np.array(True)))
    loop.set_function(ov.Model([go_on, body_result], [body_x, body_sum], "body"))
    loop.set_special_body_ports([-1, 0])
    loop.set_invariant_input(body_x, x.output(0))
    loop.set_merged_input(body_sum, x.output(0), body_result.output(0))
    total = loop.get_iter_value(body_result.output(0), -1)
    then_x, else_x = o.parameter([2], F16), o.parameter([2], F16)
    then_result, else_result = o.result(o.multiply(then_x, make_f16(2))), o.result(o.sqrt(else_x))
    branch = o.if_op(condition)
    branch.set_then_body(ov.Model([then_result], [then_x], "then"))
    branch.set_else_body(ov.Model([else_result], [else_x], "else"))
    branch.set_input(total, then_x, else_x)
    return save(tmp_path, [branch.set_output(then_result, else_result), total], [x, condition])


@pytest.mark.parametrize("count", [0, 5])
@pytest.mark.parametrize("flag", [True, False])
def test_bodies_are_computed_in_f32(tmp_path, count, flag):
    path = save_loop(tmp_path, count)
    x = np.array([1.1, 2.2], F16)
    wide = x.astype(F32)
    total = wide.copy()
    for _ in range(count):
        total += wide / 3
    expected = [(total * 2 if flag else np.sqrt(total)).astype(F16), total.astype(F16)]
    for optimize in (True, False):
        compiled = irrun.compile_model(path, optimize=optimize, check=not optimize)
        request = compiled.create_infer_request()
        for a, b in zip(request.infer([x, np.array(flag)]).to_tuple(), expected, strict=True):
            assert a.dtype == F16
            np.testing.assert_array_equal(a, b)
        assert request.mismatches == []


def test_observers_see_computed_values_of_declared_layers(tmp_path):
    path = save_sum(tmp_path)
    model = irrun.read_model(path)
    seen = {}

    def observe(layer, inputs, outputs, seconds, scope):
        seen[layer.name] = (str(layer.outputs[0].element_type), [x.dtype for x in inputs], outputs[0].dtype)

    irrun.compile_model(model, weights_memory=0)(VALUES, observers=[observe])
    layers = {layer.name for layer in model.graph.layers}
    assert seen.keys() <= layers
    assert {value[0] for value in seen.values()} == {"f16"}
    assert {value[2] for value in seen.values()} == {np.dtype(F32)}
    for precision, expected in (("f32", "f32"), ("declared", "declared"), ("f64", "f64")):
        with record(irrun.compile_model(model, precision=precision), VALUES) as trace:
            assert trace.precision == expected


def test_large_constants_count_against_weights_memory(tmp_path):
    weights = np.random.default_rng(0).standard_normal((256, 256)).astype(F16)
    x = o.parameter([3, 256], F16)
    path = save(tmp_path, [o.matmul(x, o.constant(weights), False, False)], [x])
    value = np.random.default_rng(1).standard_normal((3, 256)).astype(F16)
    expected = (value.astype(F32) @ weights.astype(F32)).astype(F16)
    for weights_memory in (0, None):
        compiled = irrun.compile_model(path, weights_memory=weights_memory)
        np.testing.assert_allclose(compiled(value)[0], expected, rtol=2e-3, atol=1e-2)


def test_inputs_and_constants_can_be_outputs(tmp_path):
    x = o.parameter([2], F16)
    constant = make_f16([1.5, 2.5])
    path = save(tmp_path, [x, constant, o.add(x, constant)], [x])
    value = np.array([0.1, np.nan], F16)
    outputs = irrun.compile_model(path)(value).to_tuple()
    assert [v.dtype for v in outputs] == [np.dtype(F16)] * 3
    np.testing.assert_array_equal(outputs[0].view(np.uint16), value.view(np.uint16))
    np.testing.assert_array_equal(outputs[1], np.array([1.5, 2.5], F16))


def save_iterations(tmp_path):
    """Save a loop over x whose body multiplies constants in f16 by its slices, and returns a constant."""
    x, part = o.parameter([2, 3], F16), o.parameter([1, 3], F16)
    products = o.multiply(make_f16(7), o.multiply(make_f16([[0.1, 0.3, 0.7]]), o.multiply(part, make_f16(0.3))))
    body_results = [o.result(products), o.result(o.convert(o.multiply(o.convert(part, "f16"), make_f16(0.3)), "f16"))]
    body_results.append(o.result(o.divide(make_f16([[1.0, 2.0, 3.0]]), make_f16(3))))
    iterator = o.tensor_iterator()
    iterator.set_body(ov.Model(body_results, [part], "body"))
    iterator.set_sliced_input(part, x.output(0), 0, 1, 1, -1, 0)
    outputs = [iterator.get_concatenated_slices(r.output(0), 0, 1, 1, -1, 0) for r in body_results]
    results = [o.multiply(output, x) for output in outputs]
    return save(tmp_path, results, [x])


@pytest.mark.parametrize(("precision", "computed"), [("f32", F32), ("f64", np.float64), ("declared", F16)])
def test_constants_and_results_of_bodies_are_computed_in_the_precision(tmp_path, precision, computed):
    path = save_iterations(tmp_path)
    x = np.array([[1.1, 2.3, 3.7], [0.1, 5.7, 9.9]], F16)
    wide = x.astype(computed)
    scale, third, seven, rows = (np.asarray(v, F16).astype(computed) for v in (0.3, 3, 7, [[0.1, 0.3, 0.7]]))
    numbers = np.asarray([[1, 2, 3]] * 2, F16).astype(computed)
    # Constants in f16 are folded as declared, except in f64.
    quotients = numbers / third if computed != F32 else (numbers.astype(F16) / F16(3)).astype(F32)
    expected = [seven * (rows * (wide * scale)) * wide, wide * scale * wide, quotients * wide]
    for optimize in (True, False):
        types = set()
        compiled = irrun.compile_model(path, optimize=optimize, precision=precision)
        actual = compiled(x).to_tuple()
        for a, b in zip(actual, expected, strict=True):
            assert a.dtype == F16
            np.testing.assert_allclose(
                a.astype(F32), b.astype(F16).astype(F32), rtol=2**-10 if precision != "declared" else 2**-8
            )
        compiled(x, observers=[lambda layer, i, outputs, *_, t=types: t.update((layer.type, o.dtype) for o in outputs)])
        assert {dtype for type, dtype in types if type == "Multiply"} == {np.dtype(computed)}


@pytest.mark.parametrize("stored", [np.float64, F32, np.int32, np.uint8, F16])
def test_constants_of_wider_types_are_rounded_to_f16_before_they_are_computed_in_f64(tmp_path, stored):
    x = o.parameter([4], F16)
    values = np.array([1, 2049, 100, 255], np.float64) + (0.01 if np.dtype(stored).kind == "f" else 0)
    constant = np.minimum(values, 255).astype(stored) if stored == np.uint8 else values.astype(stored)
    path = save(tmp_path, [o.convert(o.multiply(o.convert(o.constant(constant), "f16"), x), "f64")], [x])
    numbers = np.array([1.1, 2.2, 3.3, 4.4], F16)
    expected = constant.astype(F16).astype(np.float64) * numbers.astype(np.float64)
    for optimize in (True, False):
        actual = irrun.compile_model(path, precision="f64", optimize=optimize)(numbers)[0]
        np.testing.assert_array_equal(actual, expected)


def test_promoted_types_are_computed_in_f32(tmp_path):
    promote = pytest.importorskip("openvino.opset14").convert_promote_types
    x, y = o.parameter([3], F16), o.parameter([3], F16)
    outputs = promote(x, y).outputs()
    third = make_f16(3)
    path = save(tmp_path, [o.divide(o.divide(output, third), third) for output in outputs], [x, y])
    inputs = [np.array([1.1, 5.3, 900], F16), np.array([0.1, 7.7, 3], F16)]
    for optimize in (True, False):
        for actual, value in zip(irrun.compile_model(path, optimize=optimize)(inputs).to_tuple(), inputs, strict=True):
            np.testing.assert_array_equal(actual, (value.astype(F32) / 3 / 3).astype(F16))


@pytest.mark.parametrize("element_type", ["f16", "f32", "f64", "i32"])
@pytest.mark.parametrize("is_computed", [False, True])
def test_random_numbers_are_the_same_in_f64(tmp_path, element_type, is_computed):
    """Their bits depend on the type, and so does whether they are indices."""
    x = o.parameter([4], F32)
    bounds = [o.constant(np.array(value, irrun.ElementType.parse(element_type).dtype)) for value in (0, 3)]
    if is_computed:
        bounds[1] = o.convert(o.reduce_max(x, o.constant(np.array([0]))), element_type)
    numbers = o.random_uniform(o.constant(np.array([4])), *bounds, element_type, 1, 2)
    result = o.gather(x, numbers, o.constant(np.array(0))) if element_type == "i32" else o.convert(numbers, "f32")
    path = save(tmp_path, [o.divide(result, x)], [x])
    values = np.array([3, 1, 2, 0.5], F32)
    expected = irrun.compile_model(path)(values)[0]
    for optimize in (True, False):
        compiled = irrun.compile_model(path, precision="f64", optimize=optimize)
        types = []
        observer = lambda layer, i, outputs, *_, t=types: t.append((layer.type, outputs[0].dtype))  # noqa: E731
        np.testing.assert_allclose(compiled(values)[0], expected, rtol=1e-6)
        compiled(values, observers=[observer])
        assert ("Divide", np.float64) in types


def test_promoted_integers_stay_integers(tmp_path):
    promote = pytest.importorskip("openvino.opset14").convert_promote_types
    x, n = o.parameter([3], F16), o.parameter([3], np.int32)
    integers, others = promote(n, o.constant(np.array([1, 2, 3], np.int64))).outputs()
    floats, halves = promote(x, n, promote_unsafe=True).outputs()
    path = save(tmp_path, [o.add(integers, others), o.divide(floats, make_f16(3)), halves], [x, n])
    inputs: list[Any] = [np.array([1.1, 5.3, 900], F16), np.array([4, 5, 6], np.int32)]
    for precision in ("f32", "f64", "declared"):
        first, second, third = irrun.compile_model(path, precision=precision)(inputs).to_tuple()
        np.testing.assert_array_equal(first, [5, 7, 9])
        np.testing.assert_allclose(second, inputs[0].astype(F32) / 3, rtol=2**-10)
        np.testing.assert_array_equal(third, inputs[1])
        assert (first.dtype, second.dtype, third.dtype) == (np.int64, F16, F16)


@pytest.mark.parametrize(("size", "count"), [(1 << 15, 0), ((1 << 15) + 1, 1)])
def test_small_constants_are_converted_before_constants_are_folded(size, count, tmp_path):
    x = o.parameter([size], F16)
    path = save(tmp_path, [o.add(x, o.constant(np.ones(size, F16)))], [x])
    program = lower(irrun.read_model(path))
    change_precision(program, "f32")
    converted = [i for i in program.instructions if i.operation.converts and i.inputs[0] in program.constant_layers]
    assert len(converted) == count
