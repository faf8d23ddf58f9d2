"""Constant folding, within its budget."""

from __future__ import annotations

import numpy as np
import pytest

import irrun

ov = pytest.importorskip("openvino")
o = pytest.importorskip("openvino.opset8")

X = np.arange(8, dtype=np.float32).reshape(2, 4)


def save(model, tmp_path):
    ov.serialize(model, tmp_path / "model.xml")
    return tmp_path / "model.xml"


@pytest.fixture
def compressed(tmp_path):
    """x @ ((u8 weights - zero point) * scale), and the weights in f16 once more."""
    rng = np.random.default_rng(0)
    x = ov.op.Parameter(ov.Type.f32, ov.PartialShape([2, 4]))
    weights = ov.op.Constant(rng.integers(0, 255, (4, 64)).astype(np.uint8))
    plain = o.multiply(
        o.subtract(o.convert(weights, "f32"), ov.op.Constant(np.array(7, np.float32))),
        ov.op.Constant(np.array(0.5, np.float32)),
    )
    half = o.convert(ov.op.Constant(rng.normal(size=(4, 64)).astype(np.float16)), "f32")
    total = o.add(o.matmul(x, plain, False, False), o.matmul(x, half, False, False))
    return save(ov.Model([ov.op.Result(total.output(0))], [x]), tmp_path)


@pytest.mark.parametrize(("limit", "left"), [(0, 7), (1 << 20, 3), (1024, 4), (1023, 7)])
def test_what_fits_the_budget_is_folded_and_the_rest_expanded_on_use(compressed, limit, left):
    compiled = irrun.compile_model(compressed, fold_limit=limit)
    assert len(compiled._program.instructions) == left
    expected = irrun.compile_model(compressed, fold_limit=0)(X)[0]
    np.testing.assert_array_equal(compiled(X)[0], expected)
    np.testing.assert_array_equal(compiled(X)[0], expected)


def test_random_operations_are_never_folded(tmp_path):
    shape = ov.op.Constant(np.array([4]))
    numbers = o.random_uniform(
        shape, ov.op.Constant(np.array(0, np.float32)), ov.op.Constant(np.array(1, np.float32)), "f32", 1, 2
    )
    path = save(ov.Model([ov.op.Result(numbers.output(0))], []), tmp_path)
    compiled = irrun.compile_model(path)
    first, second = compiled()[0], compiled()[0]
    assert not np.array_equal(first, second)


def test_a_constant_result_belongs_to_the_caller(tmp_path):
    path = save(ov.Model([ov.op.Result(ov.op.Constant(np.ones(3, np.float32)).output(0))], []), tmp_path)
    compiled = irrun.compile_model(path)
    compiled()[0][:] = 5
    np.testing.assert_array_equal(compiled()[0], np.ones(3))


def test_failures_are_reported_when_the_program_runs(tmp_path):
    data = ov.op.Constant(np.ones((2, 2), np.float32))
    index = ov.op.Parameter(ov.Type.i64, ov.PartialShape([]))
    picked = o.gather(data, o.add(index, ov.op.Constant(np.array(0))), ov.op.Constant(np.array(0)))
    path = save(ov.Model([ov.op.Result(picked.output(0))], [index]), tmp_path)
    text = path.read_text()
    path.write_text(text)
    compiled = irrun.compile_model(path)
    assert compiled(np.array(1))[0].shape == (2,)


def test_constants_at_odd_offsets_are_copied_once_within_the_budget(tmp_path):
    from ir_text import layer, net, port, write

    layers = [
        layer(0, "Parameter", data='shape="4" element_type="f32"', outputs=[port(0, (4,), "FP32")], name="x"),
        layer(1, "Const", data='element_type="f32" shape="4" offset="3" size="16"', outputs=[port(0, (4,), "FP32")]),
        layer(2, "Add", inputs=[port(0), port(1)], outputs=[port(2, (4,), "FP32")]),
        layer(3, "Result", inputs=[port(0)]),
    ]
    edges = [(0, 0, 2, 0), (1, 0, 2, 1), (2, 2, 3, 0)]
    path = write(tmp_path, net(layers, edges), b"abc" + np.arange(4, dtype=np.float32).tobytes())
    for limit, aligned in ((16, True), (15, False)):
        compiled = irrun.compile_model(path, fold_limit=limit)
        (slot,) = compiled._program.constant_layers
        assert compiled._program.initial[slot].flags.aligned == aligned
        np.testing.assert_array_equal(compiled(np.ones(4, np.float32))[0], [1, 2, 3, 4])


def test_what_was_read_of_the_file_is_given_back_on_the_way(compressed, monkeypatch):
    """Once for every few bytes of new constants, and not at all where there are none."""
    given_back = []
    monkeypatch.setattr("irrun.ir.weights.Weights.release", lambda weights: given_back.append(weights))
    irrun.compile_model(compressed, fold_limit=0)
    assert len(given_back) == 0
    irrun.compile_model(compressed)
    assert len(given_back) == 1
    monkeypatch.setattr("irrun.runtime.passes.budget.STEP", 4 * 64 * 4)
    irrun.compile_model(compressed)
    assert len(given_back) == 1 + 2
