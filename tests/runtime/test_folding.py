"""Constant folding, within its budget."""

from __future__ import annotations

import numpy as np
import pytest
from openvino_modules import import_builder

import irrun

ov = import_builder()
o = import_builder("openvino.opset8")

X = np.arange(8, dtype=np.float32).reshape(2, 4)


def save_model(model, tmp_path):
    ov.serialize(model, tmp_path / "model.xml")
    return tmp_path / "model.xml"


@pytest.fixture
def compressed(tmp_path):
    """Save x @ ((u8 weights - zero point) * scale) + x @ (f16 weights)."""
    rng = np.random.default_rng(0)
    x = ov.op.Parameter(ov.Type.f32, ov.PartialShape([2, 4]))
    weights = ov.op.Constant(rng.integers(0, 255, (4, 64)).astype(np.uint8))
    plain = o.multiply(
        o.subtract(o.convert(weights, "f32"), ov.op.Constant(np.array(7, np.float32))),
        ov.op.Constant(np.array(0.5, np.float32)),
    )
    half = o.convert(ov.op.Constant(rng.normal(size=(4, 64)).astype(np.float16)), "f32")
    total = o.add(o.matmul(x, plain, False, False), o.matmul(x, half, False, False))
    return save_model(ov.Model([ov.op.Result(total.output(0))], [x]), tmp_path)


@pytest.mark.parametrize(("limit", "count"), [(0, 7), (1 << 20, 3), (1024, 4), (1023, 7)])
def test_constants_within_the_budget_are_folded_and_others_computed_on_use(compressed, limit, count):
    compiled = irrun.compile_model(compressed, weights_memory=limit)
    assert len(compiled._program.instructions) == count
    expected = irrun.compile_model(compressed, weights_memory=0)(X)[0]
    np.testing.assert_array_equal(compiled(X)[0], expected)
    np.testing.assert_array_equal(compiled(X)[0], expected)


def test_random_operations_are_never_folded(tmp_path):
    shape = ov.op.Constant(np.array([4]))
    numbers = o.random_uniform(
        shape, ov.op.Constant(np.array(0, np.float32)), ov.op.Constant(np.array(1, np.float32)), "f32", 1, 2
    )
    path = save_model(ov.Model([ov.op.Result(numbers.output(0))], []), tmp_path)
    compiled = irrun.compile_model(path)
    first, second = compiled()[0], compiled()[0]
    assert not np.array_equal(first, second)


def test_constant_output_belongs_to_the_caller(tmp_path):
    path = save_model(ov.Model([ov.op.Result(ov.op.Constant(np.ones(3, np.float32)).output(0))], []), tmp_path)
    compiled = irrun.compile_model(path)
    compiled()[0][:] = 5
    np.testing.assert_array_equal(compiled()[0], np.ones(3))


def test_failing_constant_instruction_is_reported_when_the_program_runs(tmp_path):
    from ir_text import layer, net, port, write

    data = 'element_type="i64" shape="{}" offset="{}" size="{}"'
    layers = [
        layer(0, "Const", data=data.format("2", 0, 16), outputs=[port(0, (2,), "I64")]),
        layer(1, "Const", data=data.format("1,1", 16, 8), outputs=[port(0, (1, 1), "I64")]),
        layer(2, "Const", data=data.format("1,1", 0, 8), outputs=[port(0, (1, 1), "I64")]),
        layer(3, "Gather", "opset7", inputs=[port(0), port(1), port(2)], outputs=[port(3, (), "I64")], name="pick"),
        layer(4, "Result", inputs=[port(0)]),
        layer(5, "Add", inputs=[port(0), port(1)], outputs=[port(2, (2,), "I64")], name="sum"),
        layer(6, "Result", inputs=[port(0)]),
    ]
    edges = [(0, 0, 3, 0), (1, 0, 3, 1), (2, 0, 3, 2), (3, 3, 4, 0), (0, 0, 5, 0), (0, 0, 5, 1), (5, 2, 6, 0)]
    path = write(tmp_path, net(layers, edges), np.array([0, 1, 7], np.int64).tobytes())
    compiled = irrun.compile_model(path)
    assert [i.layer.name for i in compiled._program.instructions] == ["pick"]  # the sum is folded
    with pytest.raises(irrun.InputError, match=r"'pick'.*axis has shape \[1, 1\]"):
        compiled()


def test_misaligned_constants_are_copied_within_the_budget(tmp_path):
    from ir_text import layer, net, port, write

    layers = [
        layer(0, "Parameter", data='shape="4" element_type="f32"', outputs=[port(0, (4,), "FP32")], name="x"),
        layer(1, "Const", data='element_type="f32" shape="4" offset="3" size="16"', outputs=[port(0, (4,), "FP32")]),
        layer(2, "Add", inputs=[port(0), port(1)], outputs=[port(2, (4,), "FP32")]),
        layer(3, "Const", data='element_type="f32" shape="4" offset="19" size="16"', outputs=[port(0, (4,), "FP32")]),
        layer(4, "Add", inputs=[port(0), port(1)], outputs=[port(2, (4,), "FP32")]),
        layer(5, "Result", inputs=[port(0)]),
    ]
    edges = [(0, 0, 2, 0), (1, 0, 2, 1), (2, 2, 4, 0), (3, 0, 4, 1), (4, 2, 5, 0)]
    path = write(tmp_path, net(layers, edges), b"abc" + np.arange(8, dtype=np.float32).tobytes())
    for limit, count in ((32, 2), (31, 1), (16, 1), (15, 0)):
        compiled = irrun.compile_model(path, weights_memory=limit)
        values = [compiled._program.initial[slot] for slot in compiled._program.constant_layers]
        assert sum(value.flags.aligned for value in values) == count
        np.testing.assert_array_equal(compiled(np.ones(4, np.float32))[0], [5, 7, 9, 11])


def test_memory_of_the_weights_is_released_while_constants_are_folded(compressed, monkeypatch):
    """Release it after every few bytes of new constants, and never if nothing is folded."""
    releases = []
    monkeypatch.setattr("irrun.ir.weights.Weights.release", lambda weights: releases.append(weights))
    irrun.compile_model(compressed, weights_memory=0)
    assert len(releases) == 0
    irrun.compile_model(compressed)
    assert len(releases) == 1
    monkeypatch.setattr("irrun.runtime.passes.budget.RELEASE_INTERVAL", 4 * 64 * 4)
    irrun.compile_model(compressed)
    assert len(releases) == 1 + 2


def list_remaining(tmp_path, node, inputs=(), **options):
    """Return the types of the operations that are computed in each run."""
    path = save_model(ov.Model([ov.op.Result(node.output(0))], list(inputs)), tmp_path)
    compiled = irrun.compile_model(path, optimize=False, **options)
    return [i.operation.type for i in compiled._program.instructions]


@pytest.mark.parametrize(
    ("left", "right", "remaining"),
    [
        ((65535, 1), (1, 1), []),
        ((65536, 1), (1, 1), ["MatMul"]),  # more than 65536 elements
        ((1, 2896), (2896, 1), []),
        ((1, 2897), (2897, 1), ["MatMul"]),  # more than 2 ** 23 pairs of elements
    ],
)
def test_operations_without_linear_cost_are_folded_for_small_inputs_only(tmp_path, left, right, remaining):
    a, b = (ov.op.Constant(np.ones(shape, np.float32)) for shape in (left, right))
    assert list_remaining(tmp_path, o.matmul(a, b, False, False)) == remaining


def test_constant_outputs_of_one_instruction_are_computed_once(tmp_path, monkeypatch):
    from irrun.runtime.passes import constant_folding

    x = ov.op.Constant(np.arange(12, dtype=np.float32).reshape(3, 4))
    parts = o.split(o.exp(x), ov.op.Constant(np.array(0)), 3).outputs()
    y = ov.op.Parameter(ov.Type.f32, ov.PartialShape([1, 4]))
    results = [o.add(y, part) for part in parts]
    path = save_model(ov.Model([ov.op.Result(r.output(0)) for r in results], [y]), tmp_path)
    calls = []
    compute = constant_folding._Folder.compute_instruction

    def count_calls(folder, instruction, arguments):
        calls.append(instruction.operation.type)
        return compute(folder, instruction, arguments)

    monkeypatch.setattr(constant_folding._Folder, "compute_instruction", count_calls)
    compiled = irrun.compile_model(path, optimize=False)
    assert calls == ["Exp", "Split"]
    assert [i.operation.type for i in compiled._program.instructions] == ["Add"] * 3
    expected = np.exp(np.arange(12, dtype=np.float32).reshape(3, 4))
    for i, value in enumerate(compiled(np.zeros((1, 4), np.float32)).to_tuple()):
        np.testing.assert_allclose(value, expected[i : i + 1], rtol=1e-6)


def test_work_of_folding_is_limited(tmp_path, monkeypatch):
    """What is left is computed in each run, with the same results."""
    from irrun.runtime.passes import constant_folding

    y = ov.op.Parameter(ov.Type.f32, ov.PartialShape([1000]))
    values = [o.exp(ov.op.Constant(np.full(1000, i, np.float32))) for i in range(6)]
    path = save_model(ov.Model([ov.op.Result(o.add(y, v).output(0)) for v in values], [y]), tmp_path)
    expected = [v.copy() for v in irrun.compile_model(path, optimize=False)(np.zeros(1000, np.float32)).to_tuple()]
    monkeypatch.setattr(constant_folding, "BASE_WORK", 40_000)
    monkeypatch.setattr(constant_folding, "WORK_PER_BYTE", 0)
    compiled = irrun.compile_model(path, optimize=False)
    types = [i.operation.type for i in compiled._program.instructions]
    assert 0 < types.count("Exp") < 6
    for value, other in zip(compiled(np.zeros(1000, np.float32)).to_tuple(), expected, strict=True):
        np.testing.assert_array_equal(value, other)


def test_values_of_parameters_are_not_folded(tmp_path):
    x = ov.op.Parameter(ov.Type.f32, ov.PartialShape([2]))
    two = ov.op.Constant(np.float32([2, 2]))
    node = o.add(o.add(x, two), o.add(two, two))
    assert list_remaining(tmp_path, node, [x]) == ["Add", "Add"]


@pytest.mark.parametrize(("memory", "remaining"), [(4000, []), (3999, ["Exp"]), (0, ["Exp"])])
def test_values_above_the_budget_are_not_folded(tmp_path, memory, remaining):
    node = o.exp(ov.op.Constant(np.ones(1000, np.float32)))
    assert list_remaining(tmp_path, node, weights_memory=memory) == remaining


def write_failing_graph(folder, kernel):
    """Write x + f(exp(a)), x + abs(f(exp(a))) and x + exp(b), for constants a, b, and return it compiled."""
    from ir_text import layer, net, port, write

    data = 'element_type="f32" shape="2,4" offset="{}" size="32"'
    shape = (2, 4)
    layers = [
        layer(0, "Parameter", data='shape="2,4" element_type="f32"', outputs=[port(0, shape, "FP32")], name="x"),
        layer(1, "Const", data=data.format(0), outputs=[port(0, shape, "FP32")]),
        layer(2, "Exp", inputs=[port(0)], outputs=[port(1, shape, "FP32")], name="first"),
        layer(3, "Custom", "extension", inputs=[port(0)], outputs=[port(1, shape, "FP32")], name="custom"),
        layer(4, "Abs", inputs=[port(0)], outputs=[port(1, shape, "FP32")], name="dependent"),
        layer(5, "Const", data=data.format(32), outputs=[port(0, shape, "FP32")]),
        layer(6, "Exp", inputs=[port(0)], outputs=[port(1, shape, "FP32")], name="independent"),
        layer(7, "Multiply", inputs=[port(0), port(1)], outputs=[port(2, shape, "FP32")], name="both"),
    ]
    edges = [(1, 0, 2, 0), (2, 1, 3, 0), (3, 1, 4, 0), (5, 0, 6, 0), (4, 1, 7, 0), (6, 1, 7, 1)]
    for number, (source, source_port) in enumerate([(7, 2), (3, 1), (4, 1), (6, 1)]):
        total, result = 10 + 2 * number, 11 + 2 * number
        layers.append(layer(total, "Add", inputs=[port(0), port(1)], outputs=[port(2, shape, "FP32")], name="sum"))
        layers.append(layer(result, "Result", inputs=[port(0)]))
        edges += [(0, 0, total, 0), (source, source_port, total, 1), (total, 2, result, 0)]
    path = write(folder, net(layers, edges), np.arange(16, dtype=np.float32).tobytes())
    operation = irrun.Operation.from_function(kernel, "Custom", opset="extension")
    return irrun.compile_model(path, operations=[operation], optimize=False)


def test_constants_that_depend_on_a_failing_layer_are_computed_when_the_program_runs(tmp_path):
    calls = []

    def fail_first(x):
        calls.append(x.copy())
        if len(calls) == 1:
            raise KeyError("refused")
        return -x

    compiled = write_failing_graph(tmp_path, fail_first)
    assert len(calls) == 1  # it is not tried again for each of its consumers
    names = [i.layer.name for i in compiled._program.instructions]
    assert {"custom", "dependent", "both"} < set(names)
    assert names.count("sum") == 4
    results = compiled(X).to_tuple()
    a, b = np.exp(np.arange(16, dtype=np.float32)).reshape(2, 2, 4)
    for result, constant in zip(results, [a * b, -a, a, b], strict=True):
        np.testing.assert_allclose(result, X + constant, rtol=1e-6)


def test_constants_that_do_not_depend_on_a_failing_layer_are_folded(tmp_path):
    def fail(x):
        raise KeyError("refused")

    compiled = write_failing_graph(tmp_path, fail)
    slots = {slot: layer.name for slot, layer in compiled._program.constant_layers.items()}
    assert "independent" in slots.values()
    with pytest.raises(irrun.ExecutionError, match=r"'custom'.*KeyError: 'refused'"):
        compiled(X)


def test_custom_operations_on_constants_are_folded(tmp_path):
    calls = []

    def negate(x):
        calls.append(x)
        return -x

    compiled = write_failing_graph(tmp_path, negate)
    assert [i.layer.name for i in compiled._program.instructions] == ["sum"] * 4
    count = len(calls)
    compiled(X)
    assert len(calls) == count > 0


def test_smallest_constants_are_folded_first(tmp_path):
    large, small = (o.exp(ov.op.Constant(np.ones(n, np.float32))) for n in (1000, 100))
    x = ov.op.Parameter(ov.Type.f32, ov.PartialShape([1]))
    results = [ov.op.Result(o.add(x, value).output(0)) for value in (large, small)]
    path = save_model(ov.Model(results, [x]), tmp_path)
    for memory, remaining in ((4400, []), (4399, [(1000,)]), (4000, [(1000,)]), (399, [(100,), (1000,)])):
        compiled = irrun.compile_model(path, weights_memory=memory, optimize=False)
        shapes = [tuple(i.layer.outputs[0].shape) for i in compiled._program.instructions if i.operation.type == "Exp"]
        assert sorted(shapes) == remaining
        np.testing.assert_allclose(compiled(np.zeros(1, np.float32))[1], np.full(100, np.exp(1)), rtol=1e-6)


def test_memory_of_a_large_constant_on_the_way_is_limited(tmp_path):
    """The result is small, but what it is selected from would take 40 MB."""
    tiled = o.tile(ov.op.Constant(np.ones(10, np.float32)), ov.op.Constant(np.array([1_000_000])))
    node = o.gather(tiled, ov.op.Constant(np.array([3])), ov.op.Constant(np.array(0)))
    assert list_remaining(tmp_path, node, weights_memory=1 << 20) == ["Tile", "Gather"]
    assert list_remaining(tmp_path, node, weights_memory=1 << 27) == []


@pytest.mark.parametrize(("base", "per_byte", "remaining"), [(0, 64, []), (0, 1, ["Exp"]), (1 << 20, 0, [])])
def test_work_of_folding_grows_with_the_constants(base, per_byte, remaining, tmp_path, monkeypatch):
    from irrun.runtime.passes import constant_folding

    monkeypatch.setattr(constant_folding, "BASE_WORK", base)
    monkeypatch.setattr(constant_folding, "WORK_PER_BYTE", per_byte)
    assert list_remaining(tmp_path, o.exp(ov.op.Constant(np.ones(10_000, np.float32)))) == remaining


def test_work_does_not_grow_with_constants_that_share_bytes(tmp_path, monkeypatch):
    from ir_text import layer, net, port, write

    from irrun.runtime.passes import constant_folding

    monkeypatch.setattr(constant_folding, "BASE_WORK", 0)
    monkeypatch.setattr(constant_folding, "WORK_PER_BYTE", 4)
    counts = []
    for offset in (0, 40_000):
        layers, edges = [], []
        for i in range(20):
            shape = (1,) * i + (10_000,)
            data = f'element_type="f32" shape="{",".join(map(str, shape))}" offset="{i * offset}" size="40000"'
            layers.append(layer(3 * i, "Const", data=data, outputs=[port(0, shape, "FP32")]))
            layers.append(layer(3 * i + 1, "Exp", inputs=[port(0)], outputs=[port(1, shape, "FP32")]))
            layers.append(layer(3 * i + 2, "Result", inputs=[port(0)]))
            edges += [(3 * i, 0, 3 * i + 1, 0), (3 * i + 1, 1, 3 * i + 2, 0)]
        path = write(tmp_path, net(layers, edges), np.zeros(200_000, np.float32).tobytes())
        counts.append(len(irrun.compile_model(path, optimize=False)._program.instructions))
    assert counts[0] >= 18
    assert counts[1] == 0


@pytest.mark.parametrize("step", [1, -1])
def test_constants_are_ordered_by_their_bytes(step, tmp_path):
    """The values of two types, of which the one with more bytes has fewer elements, in any order."""
    x = ov.op.Parameter(ov.Type.f32, ov.PartialShape([1]))
    wide, narrow = (o.exp(ov.op.Constant(np.ones(n, t))) for n, t in ((300, np.float64), (400, np.float32)))
    results = [ov.op.Result(o.add(o.convert(x, t), v).output(0)) for t, v in (("f64", wide), ("f32", narrow))][::step]
    path = save_model(ov.Model(results, [x]), tmp_path)
    for memory, remaining in ((4000, []), (2400, [(300,)]), (1600, [(300,)]), (1599, [(300,), (400,)])):
        compiled = irrun.compile_model(path, weights_memory=memory, optimize=False)
        shapes = [tuple(i.layer.outputs[0].shape) for i in compiled._program.instructions if i.operation.type == "Exp"]
        assert sorted(shapes) == remaining


def test_folded_constants_cannot_be_changed(tmp_path):
    """Neither the value nor the array that owns its memory, so that kernels may keep what they derive from it."""
    x = ov.op.Parameter(ov.Type.f32, ov.PartialShape([4]))
    total = o.add(x, o.exp(ov.op.Constant(np.ones(4, np.float32))))
    path = save_model(ov.Model([ov.op.Result(total.output(0))], [x]), tmp_path)
    program = irrun.compile_model(path, optimize=False)._program
    (slot,) = program.constant_layers
    value = program.initial[slot]
    assert not value.flags.writeable
    assert not value.base.flags.writeable
    np.testing.assert_allclose(value, np.full(4, np.exp(1)), rtol=1e-6)


@pytest.mark.parametrize(("work", "remaining"), [(1 << 8, []), (1 << 40, ["Exp", "Exp"])])
def test_work_includes_the_search_for_dependencies(work, remaining, tmp_path, monkeypatch):
    monkeypatch.setattr("irrun.runtime.passes.constant_folding.WORK_PER_VISIT", work)
    node = o.exp(o.exp(ov.op.Constant(np.ones(4, np.float32))))
    assert list_remaining(tmp_path, node) == remaining


@pytest.mark.parametrize(("work", "count"), [(12_000, 3), (14_000, 0)])
def test_every_instruction_takes_work(work, count, tmp_path, monkeypatch):
    """At least 4096 bytes each, so that many small ones are limited too."""
    monkeypatch.setattr("irrun.runtime.passes.constant_folding.BASE_WORK", work)
    monkeypatch.setattr("irrun.runtime.passes.constant_folding.WORK_PER_BYTE", 0)
    values = [operation(ov.op.Constant(np.ones(4, np.float32))) for operation in (o.exp, o.sin)]
    assert len(list_remaining(tmp_path, o.concat(values, 0))) == count
