"""Kernels with an OutputCount compute only the outputs that have consumers."""

from __future__ import annotations

import numpy as np
import pytest
from openvino_modules import import_builder

import irrun
from irrun.ops.pooling.windows import max_pool_1, max_pool_8

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
