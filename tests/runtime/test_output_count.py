"""Kernels with an OutputCount compute only the outputs that have consumers."""

from __future__ import annotations

import numpy as np
import pytest
from ir_text import layer, net, port, write
from openvino_modules import import_builder

import irrun
from irrun.ops.pooling.windows import max_pool_1, max_pool_8
from irrun.runtime.lowering import lower

ov = import_builder()
o = import_builder("openvino.opset8")

X = np.random.default_rng(0).normal(size=(1, 2, 6, 6)).astype(np.float32)
WINDOWS = {"strides": [2, 2], "pads_begin": [0, 0], "pads_end": [0, 0], "kernel": [2, 2]}


def compile_max_pool(tmp_path, outputs):
    """Compile MaxPool-8 with Results at the positions `outputs`."""
    x = ov.op.Parameter(ov.Type.f32, ov.PartialShape([1, 2, 6, 6]))
    pool = o.max_pool(x, [2, 2], [1, 1], [0, 0], [0, 0], [2, 2])
    ov.serialize(ov.Model([ov.op.Result(pool.output(i)) for i in outputs], [x]), tmp_path / "model.xml")
    return irrun.compile_model(tmp_path / "model.xml")


@pytest.mark.parametrize(("outputs", "count"), [((0,), 1), ((0, 1), 2), ((1,), 2)])
def test_outputs_after_the_last_consumed_one_are_omitted(tmp_path, outputs, count):
    model = compile_max_pool(tmp_path, outputs)
    seen = []
    results = model(X, observers=[lambda layer, inputs, values, seconds, scope: seen.append(len(values))])
    assert seen == [count]
    expected = max_pool_8(X, **WINDOWS)
    for result, i in zip(results.to_tuple(), outputs, strict=True):
        np.testing.assert_array_equal(result, expected[i])


def test_values_alone_equal_those_of_the_first_version(tmp_path):
    np.testing.assert_array_equal(compile_max_pool(tmp_path, (0,))(X)[0], max_pool_1(X, **WINDOWS))


def test_one_output_is_kept_if_none_is_consumed(tmp_path):
    data = 'strides="2,2" dilations="1,1" pads_begin="0,0" pads_end="0,0" kernel="2,2"'
    shape, small = (1, 2, 6, 6), (1, 2, 3, 3)
    layers = [
        layer(0, "Parameter", data='shape="1,2,6,6" element_type="f32"', outputs=[port(0, shape, "FP32")]),
        layer(1, "MaxPool", "opset8", data, [port(0, shape)], [port(1, small, "FP32"), port(2, small, "I64")]),
        layer(2, "Result", inputs=[port(0, shape)]),
    ]
    path = write(tmp_path, net(layers, [(0, 0, 1, 0), (0, 0, 2, 0)]))
    (pool,) = lower(irrun.read_model(path)).instructions
    assert len(pool.outputs) == 1
