"""Compiled models and requests: which program a run uses, and what belongs to the caller."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
from ir_text import chain, layer, net, port, write

import irrun
import irrun.runtime.compiled_model  # before its functions are replaced

X = np.arange(6, dtype=np.float32).reshape(2, 3) - 3


def write_shape_computation(folder):
    """Write x as a vector, whose length several layers compute."""
    shape = (2, 3)
    layers = [
        layer(0, "Parameter", data='shape="?,3" element_type="f32"', outputs=[port(0, ("?", 3), "FP32")], name="x"),
        layer(1, "ShapeOf", "opset3", 'output_type="i64"', [port(0, shape)], [port(1, (2,), "I64")]),
        layer(2, "Const", data='element_type="i64" shape="1" offset="0" size="8"', outputs=[port(0, (1,), "I64")]),
        layer(3, "ReduceProd", "opset1", 'keep_dims="true"', [port(0), port(1)], [port(2, (1,), "I64")]),
        layer(4, "Abs", inputs=[port(0)], outputs=[port(1, (1,), "I64")]),
        layer(5, "Negative", inputs=[port(0)], outputs=[port(1, (1,), "I64")]),
        layer(6, "Abs", inputs=[port(0)], outputs=[port(1, (1,), "I64")]),
        layer(7, "Reshape", "opset1", 'special_zero="false"', [port(0), port(1)], [port(2, ("?",), "FP32")]),
        layer(8, "Result", inputs=[port(0)]),
    ]
    edges = [(0, 0, 1, 0), (1, 1, 3, 0), (2, 0, 3, 1), (3, 2, 4, 0), (4, 1, 5, 0), (5, 1, 6, 0), (0, 0, 7, 0)]
    edges += [(6, 1, 7, 1), (7, 2, 8, 0)]
    return write(folder, net(layers, edges), np.int64(0).tobytes())


class CountingInstrument:
    """An instrument that collects the layers that run."""

    def __init__(self):
        self.layers = []

    def wrap(self, kernel, instruction, executor):
        def run(*arguments):
            self.layers.extend(instruction.layers)
            return kernel(*arguments)

        return run


def test_instruments_measure_all_layers_in_every_run(tmp_path):
    """Other runs compute what depends on the shapes of the inputs once."""
    compiled = irrun.compile_model(write_shape_computation(tmp_path), jit=False)
    for _ in range(4):
        np.testing.assert_array_equal(compiled(X)[0], X.ravel())
    instrument = CountingInstrument()
    request = compiled.create_infer_request(instrument)
    counts = []
    for _ in range(4):
        instrument.layers.clear()
        np.testing.assert_array_equal(request.infer(X)[0], X.ravel())
        counts.append(len(instrument.layers))
    assert counts == [6] * 4


@pytest.mark.parametrize("optimize", [False, True])
def test_results_belong_to_the_caller(optimize, tmp_path):
    """An input, a view of it and a constant that are results are copied, and so are results that are passed twice."""
    constant = 'element_type="f32" shape="2,3" offset="0" size="24"'
    layers = [
        layer(0, "Parameter", data='shape="2,3" element_type="f32"', outputs=[port(0, (2, 3), "FP32")], name="x"),
        layer(1, "Const", data=constant, outputs=[port(0, (2, 3), "FP32")]),
        layer(2, "Relu", inputs=[port(0)], outputs=[port(1, (2, 3), "FP32")]),
        *(layer(3 + i, "Result", inputs=[port(0)]) for i in range(4)),
    ]
    edges = [(0, 0, 2, 0), (0, 0, 3, 0), (1, 0, 4, 0), (2, 1, 5, 0), (2, 1, 6, 0)]
    compiled = irrun.compile_model(write(tmp_path, net(layers, edges), X.tobytes()), optimize=optimize)
    x = X.copy()
    for _ in range(2):
        results = compiled(x).to_tuple()
        for result, expected in zip(results, (X, X, np.maximum(X, 0), np.maximum(X, 0)), strict=True):
            np.testing.assert_array_equal(result, expected)
            result[:] = 7
        np.testing.assert_array_equal(x, X)


def test_errors_of_runs_name_the_model(tmp_path):
    compiled = irrun.compile_model(write(tmp_path, chain("Relu", shape=("?", 3))))
    with pytest.raises(irrun.IrrunError) as caught:
        compiled(np.ones((2, 3), np.float32), timeout=0)
    assert caught.value.path == tmp_path / "model.xml"
    np.testing.assert_array_equal(compiled(X)[0], np.maximum(X, 0))


@pytest.mark.falls_back
def test_failures_of_specialized_kernels_are_counted(tmp_path):
    """Indices out of range make the specialized Gather fail; the plain one returns zeros for them."""
    ov = pytest.importorskip("openvino")
    from openvino import opset8 as o

    data = o.parameter([4, 3], np.float32)
    indices = o.parameter([2], np.int64)
    model = ov.Model([o.gather(data, indices, np.int64(0))], [data, indices])
    ov.serialize(model, tmp_path / "gather.xml")
    request = irrun.compile_model(tmp_path / "gather.xml").create_infer_request()
    request.infer([np.ones((4, 3), np.float32), np.array([0, 1])])
    assert request.fallbacks == []
    for _ in range(2):
        outputs = request.infer([np.ones((4, 3), np.float32), np.array([0, 9])])
        np.testing.assert_array_equal(outputs[0], [[1, 1, 1], [0, 0, 0]])
    (fallback,) = request.fallbacks
    assert fallback.failures == 2
    assert "out of bounds" in fallback.reason


def test_requests_need_an_instrument(tmp_path):
    compiled = irrun.compile_model(write(tmp_path, chain("Relu")))
    with pytest.raises(irrun.InputError, match=r"instrument is .*expected an Instrument"):
        compiled.create_infer_request(object())


class Cache:
    """Takes the place of the values computed once per set of input shapes, and counts the questions."""

    def __init__(self, pays=True, known=None, recording=None):
        self.pays, self.known, self.recording = pays, known, recording
        self.asked, self.started = [], []

    def find(self, key):
        self.asked.append(key)
        return self.known

    def start_recording(self, key):
        self.started.append(key)
        return self.recording


@pytest.mark.parametrize("pays", [False, True])
def test_shapes_are_looked_up_if_they_occur_twice_in_a_row(pays, tmp_path, monkeypatch):
    compiled = irrun.compile_model(write(tmp_path, chain("Relu", shape=("?", 3))), jit=False)
    cache = Cache(pays)
    monkeypatch.setattr(compiled, "_get_shape_cache", lambda: cache)
    request = compiled.create_infer_request()
    for rows in (1, 2, 2, 1, 1, 1, 2):
        request.infer(np.ones((rows, 3), np.float32))
    assert len(cache.asked) == len(cache.started) == (3 if pays else 0)
    assert len(set(cache.asked)) == (2 if pays else 0)
    request.infer(np.ones((2, 3), np.float32), observers=[lambda *_: None])
    assert len(cache.asked) == (3 if pays else 0)


def test_known_shapes_run_their_own_program(tmp_path, monkeypatch):
    compiled = irrun.compile_model(write(tmp_path, chain("Relu", shape=("?", 3))), jit=False)
    (tmp_path / "other").mkdir()
    other = irrun.compile_model(write(tmp_path / "other", chain("Negative", shape=("?", 3))), jit=False)
    cache = Cache(known=other._fast_program)
    monkeypatch.setattr(compiled, "_get_shape_cache", lambda: cache)
    request = compiled.create_infer_request()
    results = [request.infer(X)[0].tolist() for _ in range(2)]
    assert results == [np.maximum(X, 0).tolist(), (-X).tolist()]
    assert cache.started == []


def test_recorded_runs_keep_the_further_results(tmp_path, monkeypatch):
    compiled = irrun.compile_model(write(tmp_path, chain("Relu", "Exp", shape=("?", 3))), jit=False, optimize=False)
    program = compiled._program.copy()
    (inner,) = program.instructions[0].outputs
    program.results = [*program.results, inner]
    program.free_after_last_use()
    kept = []
    cache = Cache(recording=SimpleNamespace(program=program, keep=kept.extend))
    monkeypatch.setattr(compiled, "_get_shape_cache", lambda: cache)
    request = compiled.create_infer_request()
    for _ in range(2):
        outputs = request.infer(X)
        assert len(outputs) == 1
        np.testing.assert_allclose(outputs[0], np.exp(np.maximum(X, 0)), rtol=1e-6)
    (value,) = kept
    np.testing.assert_array_equal(value, np.maximum(X, 0))
