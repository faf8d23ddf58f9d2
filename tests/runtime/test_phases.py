"""Which phases rewrite which programs: those that have something to rewrite."""

from __future__ import annotations

import numpy as np
import pytest
from ir_text import write_row_loop
from openvino_modules import import_builder

import irrun
from irrun.runtime.lowering import lower
from irrun.runtime.passes.phases import Facts, list_needed

ov = import_builder()
o = import_builder("openvino.opset13")

F32 = np.float32
ALWAYS = {"fusion", "specialization"}
JIT = {"jit", "jit_sequences"}


def make_sequence(x):
    state = o.constant(np.zeros((2, 1, 3), F32))
    weights = [o.constant(np.ones(shape, F32)) for shape in ((1, 9, 4), (1, 9, 3), (1, 9))]
    return o.gru_sequence(x, state, o.constant(np.array([5, 5])), *weights, 3, "forward").output(0)


def resize(x, then=lambda y: y):
    return then(o.interpolate(x, o.constant(np.array([8, 8])), "nearest", "sizes", axes=np.array([2, 3])))


def convolve(x):
    return o.convolution(x, o.constant(np.ones((2, 3, 1, 1), F32)), [1, 1], [0, 0], [0, 0], [1, 1])


#: A network of an input of some shape -> the phases that it needs without compiled kernels, and only with them.
NETWORKS = {
    "Relu": ([2, 3], o.relu, set(), set()),
    "constants": ([2, 3], lambda x: o.add(x, o.constant(np.ones(3, F32))), {"compressed_weights"}, set()),
    "shapes": ([2, 3], o.shape_of, {"common_subexpressions"}, set()),
    "attention": ([2, 5, 4], lambda x: o.scaled_dot_product_attention(x, x, x), {"grouped_attention"}, set()),
    "quantization": ([2, 3], lambda x: o.fake_quantize(x, F32(0), F32(1), F32(0), F32(1), 256),
                     {"compressed_weights", "quantization"}, set()),
    "means": ([2, 3], lambda x: o.reduce_mean(x, np.array([1])), {"compressed_weights"}, {"root_mean_squares"}),
    "sums": ([2, 3], lambda x: o.reduce_sum(x, np.array([1])), {"compressed_weights"}, set()),
    "Concat": ([2, 3], lambda x: o.concat([x, o.relu(x)], 0), set(), {"rotary_embeddings"}),
    "sequence": ([2, 5, 4], make_sequence, {"compressed_weights"}, {"jit_recurrences"}),
    "convolution": ([1, 3, 4, 4], convolve, {"compressed_weights"}, set()),
    "resized": ([1, 3, 4, 4], resize, {"compressed_weights"}, set()),
    "resized and convolved": ([1, 3, 4, 4], lambda x: resize(x, convolve),
                              {"compressed_weights", "early_projections"}, set()),
}  # fmt: skip


def list_modules(program, use_jit):
    return [phase.module for phase in list_needed(program, use_jit)]


@pytest.mark.parametrize(("shape", "build", "needed", "compiled"), NETWORKS.values(), ids=NETWORKS.keys())
def test_program_needs_the_phases_of_its_operations(shape, build, needed, compiled, tmp_path):
    x = o.parameter(shape, F32)
    ov.serialize(ov.Model([o.result(build(x))], [x], "model"), tmp_path / "model.xml")
    program = lower(irrun.read_model(tmp_path / "model.xml"))
    assert set(list_modules(program, False)) == ALWAYS | needed
    assert set(list_modules(program, True)) == ALWAYS | needed | JIT | compiled
    facts = Facts(program, True)
    assert (facts.has_variables, facts.has_bodies, facts.has_compressed_weights) == (False, False, False)


def test_loops_need_the_phases_of_bodies(tmp_path):
    program = lower(irrun.read_model(write_row_loop(tmp_path)))
    loops = {"loops_to_sequences", "loop_iterations", "loop_invariants"}
    assert set(list_modules(program, False)) == ALWAYS | loops
    assert set(list_modules(program, True)) == ALWAYS | loops | JIT | {"jit_loops", "jit_recurrences"}


def test_variables_and_compressed_weights_need_phases(tmp_path):
    x = o.parameter([2, 64], F32)
    state = o.read_value(o.constant(np.zeros((2, 64), F32)), "state")
    codes = o.convert(o.constant(np.arange(64 * 64).reshape(64, 64).astype(np.uint8)), F32)
    weights = o.multiply(codes, o.constant(np.ones((64, 1), F32)))
    total = o.add(o.matmul(x, weights, False, True), state)
    ov.serialize(ov.Model([o.result(total)], [o.assign(total, "state")], [x], "model"), tmp_path / "model.xml")
    program = irrun.compile_model(tmp_path / "model.xml", jit=False)._program
    assert bool(program.compressed) == Facts(program, True).has_compressed_weights
    assert {"growing_variables"} <= set(list_modules(program, False))
    assert ("merged_products" in list_modules(program, True)) == bool(program.compressed)
    assert "merged_products" not in list_modules(program, False)
    program.compressed = {0: None}
    assert "merged_products" in list_modules(program, True)
    assert "merged_products" not in list_modules(program, False)
