"""The compiled conversion of f16 has the bits of NumPy's."""

import importlib.util

import numpy as np
import pytest
from ir_text import layer, net, port, write

import irrun
from irrun.threads import use_threads

pytestmark = pytest.mark.skipif(importlib.util.find_spec("llvmlite") is None, reason="llvmlite is not installed")

ALL = np.arange(1 << 16, dtype=np.uint16).view(np.float16)


@pytest.fixture(autouse=True)
def keep_compiled_kernels(tmp_path_factory, monkeypatch):
    monkeypatch.setenv("IRRUN_CACHE_DIR", str(tmp_path_factory.getbasetemp() / "kernels"))


@pytest.mark.parametrize(
    "data", [ALL, ALL[:33], ALL[5:6], ALL[:0], ALL.reshape(256, 256).T, ALL[7]], ids=lambda x: x.shape
)
@pytest.mark.parametrize("threads", [1, 3])
def test_f16_is_widened_exactly(data, threads, monkeypatch):
    from irrun.fast.jit import conversion

    monkeypatch.setattr(conversion, "MIN_PART_SIZE", 1000)
    data = np.asarray(data)
    with use_threads(threads):
        result = conversion.WideningKernel()(data)
    assert result.shape == data.shape
    assert result.dtype == np.float32
    expected = data.astype(np.float32)
    # Processors may change the bits of NaN.
    np.testing.assert_array_equal(result, expected)
    np.testing.assert_array_equal(np.signbit(result), np.signbit(expected))


def test_inputs_of_graphs_in_f16_are_widened(tmp_path):
    layers = [
        layer(0, "Parameter", data='element_type="f16" shape="?,200"', outputs=[port(0, [-1, 200], "FP16")]),
        layer(1, "Relu", inputs=[port(0, [-1, 200])], outputs=[port(1, [-1, 200], "FP16")]),
        layer(2, "Result", inputs=[port(0, [-1, 200])]),
    ]
    path = write(tmp_path, net(layers, [(0, 0, 1, 0), (1, 1, 2, 0)]))
    compiled = irrun.compile_model(path, jit=True)
    assert any("f16 to f32" in i.description for i in compiled._fast_program.instructions)
    for count in (3, 100):
        x = np.random.default_rng(count).normal(size=(count, 200)).astype(np.float16)
        np.testing.assert_array_equal(compiled(x)[0], np.maximum(x, 0))
