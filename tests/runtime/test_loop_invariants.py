"""Instructions of a body that do not depend on the iteration run once."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
from ir_text import layer, net, port, write
from openvino_modules import import_builder

import irrun
from irrun.runtime.lowering import lower
from irrun.runtime.passes.loop_invariants import _hoist_in_body

ov = import_builder()
o = import_builder("openvino.opset13")

F32 = np.float32
COUNT = 5


def build_loop(*, is_sliced=False):
    """Build a TensorIterator: total * tanh(exp(w)) + slice, where w is invariant or sliced."""
    data, initial, w = o.parameter([COUNT, 2], F32), o.parameter([1, 2], F32), o.parameter([COUNT, 2], F32)
    x, total, weight = o.parameter([1, 2], F32), o.parameter([1, 2], F32), o.parameter([-1, 2], F32)
    factor = o.reduce_max(o.tanh(o.exp(weight)), o.constant(np.array([0])), True)
    value = o.result(o.softmax(o.add(o.multiply(total, factor), x), 1))
    iterator = o.tensor_iterator()
    iterator.set_body(ov.Model([value], [x, total, weight]))
    iterator.set_sliced_input(x, data.output(0), 0, 1, 1, -1, 0)
    iterator.set_merged_input(total, initial.output(0), value.output(0))
    if is_sliced:
        iterator.set_sliced_input(weight, w.output(0), 0, 1, 1, -1, 0)
    else:
        iterator.set_invariant_input(weight, w.output(0))
    return ov.Model([o.result(iterator.get_iter_value(value.output(0), -1))], [data, initial, w])


@pytest.mark.parametrize(("is_sliced", "runs"), [(False, 1), (True, COUNT)])
def test_chains_of_invariant_instructions_run_once(tmp_path, monkeypatch, is_sliced, runs):
    ov.save_model(build_loop(is_sliced=is_sliced), tmp_path / "m.xml", compress_to_fp16=False)
    compiled = irrun.compile_model(tmp_path / "m.xml", jit=False)
    (loop,) = compiled._fast_program.instructions
    (body,) = loop.bodies.values()
    calls = []

    def count_calls(kernel, name):
        def call(*inputs, **attributes):
            calls.append(name)
            return kernel(*inputs, **attributes)

        return call

    for instruction in body.program.instructions:
        types = [i.operation.type for i in instruction.plain or (instruction,)]
        instruction.kernel = count_calls(instruction.kernel, types[-1])
    rng = np.random.default_rng(0)
    for _ in range(2):  # the next run computes them again, for its own inputs
        inputs = [rng.normal(size=s).astype(F32) for s in ((COUNT, 2), (1, 2), (COUNT, 2))]
        calls.clear()
        actual = compiled(inputs)[0]
        np.testing.assert_allclose(
            actual, irrun.compile_model(tmp_path / "m.xml", optimize=False)(inputs)[0], rtol=1e-5
        )
        assert calls.count("ReduceMax") == runs
        assert calls.count("Softmax") == COUNT


def test_values_are_freed_after_their_last_use_in_the_new_order(tmp_path):
    """Of exp(w), once it is added to the state in each iteration."""
    f32 = [port(0, (2,), "FP32")]
    parameter = 'shape="2" element_type="f32"'
    layers = [
        *(layer(i, "Parameter", data=parameter, outputs=f32) for i in range(2)),
        layer(2, "Exp", inputs=[port(0)], outputs=[port(1, (2,), "FP32")]),
        layer(3, "Add", inputs=[port(0), port(1)], outputs=[port(2, (2,), "FP32")]),
        layer(4, "Sqrt", inputs=[port(0)], outputs=[port(1, (2,), "FP32")]),
        layer(5, "Multiply", inputs=[port(0), port(1)], outputs=[port(2, (2,), "FP32")]),
        layer(6, "Result", inputs=[port(0)]),
    ]
    edges = [(1, 0, 2, 0), (0, 0, 3, 0), (2, 1, 3, 1), (2, 1, 4, 0), (3, 2, 5, 0), (4, 1, 5, 1), (5, 2, 6, 0)]
    program = lower(irrun.read_model(write(tmp_path, net(layers, edges))))
    assert [i.operation.type for i in program.instructions] == ["Exp", "Add", "Sqrt", "Multiply"]
    body = SimpleNamespace(program=program, inputs=[], back_edges=[SimpleNamespace(parameter=0)])
    _hoist_in_body(body)  # type: ignore[arg-type]
    exp, sqrt, add, multiply = program.instructions
    assert [i.operation.type for i in program.instructions] == ["Exp", "Sqrt", "Add", "Multiply"]
    assert program.invariant_count == 2
    assert exp.outputs[0] not in sqrt.frees
    assert exp.outputs[0] in add.frees
    assert sqrt.outputs[0] in multiply.frees
