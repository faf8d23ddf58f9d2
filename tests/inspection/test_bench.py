"""Benchmarks: what is counted, what is measured beside OpenVINO, and which kernels ran."""

from __future__ import annotations

import importlib
import itertools
import json
import os
import sys
import threading
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from ir_text import chain, write

import irrun
from irrun.element_types import ELEMENT_TYPES
from irrun.errors import ExecutionError, InputError
from irrun.inspection import bench as inspection_bench
from irrun.inspection import bench_engines
from irrun.inspection.bench_engines import IrrunEngine, OpenVinoEngine, run_block, run_each
from irrun.inspection.bench_results import EngineBench
from irrun.inspection.benchmark import bench
from irrun.inspection.peak_memory import PeakMeter, read_peak
from irrun.runtime import compilation
from irrun.runtime.options import RunSettings
from irrun.runtime.plan import list_plan

MODULE = importlib.import_module("irrun.inspection.benchmark")  # the package has a function of this name
STATEFUL = Path(__file__).parents[2] / "examples" / "text_generation" / "model.xml"


@pytest.fixture
def model(tmp_path):
    """A model of Relu and Exp."""
    return write(tmp_path, chain("Relu", "Exp", shape=(64, 128)))


def test_bench_is_public():
    assert inspection_bench is bench


def test_runs_are_counted_and_summarized(model):
    result = bench(model, runs=23, jit=False, threads=1)
    own = result.irrun
    assert (own.name, own.version, own.runs) == ("irrun", irrun.__version__, 23)
    percentiles = [own.get_percentile(p) for p in (0, 50, 90, 99, 100)]
    assert percentiles == sorted(percentiles)
    assert (percentiles[0], percentiles[-1]) == (min(own.latencies), max(own.latencies))
    assert own.average == pytest.approx(sum(own.latencies) / 23)
    assert own.throughput == pytest.approx(23 / own.seconds)
    assert own.seconds >= sum(own.latencies)
    assert min(own.read_seconds, own.compile_seconds, own.first_seconds) > 0
    assert (result.model, result.inputs) == ("model.xml", {"x": "f32[64,128]"})
    assert (result.threads, result.requests, result.threads_per_request) == (1, 1, 1)
    assert result.openvino is None
    assert all(row.ratio is None for row in result.list_rows())


def test_percentiles_are_interpolated():
    own = EngineBench("irrun", "1", None, 1.0, 1.0, (4.0, 1.0, 3.0, 2.0), 8.0, None)
    assert [own.get_percentile(p) for p in (0, 50, 90, 100)] == pytest.approx([1, 2.5, 3.7, 4])
    assert (own.average, own.throughput) == (2.5, 0.5)


def test_result_is_json(model):
    result = bench(model, runs=2, jit=False)
    read = json.loads(result.to_json())
    assert read == result.to_dict()
    assert read["irrun"]["median_seconds"] == result.irrun.get_percentile(50)
    assert read["kernels"] == {
        "jit": "off",
        "counts": read["kernels"]["counts"],
        "compile_seconds": None,
    }
    assert (read["openvino"], read["ratios"]) == (None, None)


def test_time_limits_the_runs(model):
    assert bench(model, seconds=1e-9, jit=False).irrun.runs == 1
    assert bench(model, seconds=1e-9, runs=100, jit=False).irrun.runs == 1
    assert bench(model, seconds=1000, runs=3, jit=False).irrun.runs == 3


def test_kernels_are_those_of_the_program(model):
    compiled = irrun.compile_model(model, jit=False)
    counts = bench(model, runs=1, jit=False).kernels.counts
    assert sum(counts.values()) == len(list(list_plan(compiled._fast_program))) > 0
    assert counts["compiled"] == 0


def test_kernels_are_compiled_before_the_measured_runs(model, monkeypatch, tmp_path):
    pytest.importorskip("llvmlite")
    monkeypatch.setenv("IRRUN_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(compilation, "_known", {})
    kernels = bench(model, runs=1, jit="auto").kernels
    assert kernels.jit == "auto"
    assert kernels.compile_seconds > 0
    assert kernels.counts["compiled"] > 0
    kernels = bench(model, runs=1, jit="auto").kernels
    assert kernels.compile_seconds is None  # they were loaded with the model
    assert kernels.counts["compiled"] > 0
    kernels = bench(model, runs=1, jit=True).kernels
    assert (kernels.jit, kernels.compile_seconds) == ("on", None)  # it is part of the compilation of the model
    assert kernels.counts["compiled"] > 0


def test_requests_share_the_threads_and_the_runs(model):
    result = bench(model, runs=10, requests=3, threads=4, jit=False)
    assert (result.threads, result.threads_per_request, result.irrun.runs) == (4, 1, 10)
    assert bench(model, runs=1, requests=2, threads=5, jit=False).threads_per_request == 2


def test_each_request_runs_in_a_thread_of_its_own():
    seen, barrier = set(), threading.Barrier(3, timeout=60)

    def infer(index):
        barrier.wait()
        seen.add((index, threading.get_ident()))
        return 1.0

    run_each(infer, 3, times=2)
    assert len(seen) == 3
    assert {index for index, _ in seen} == {0, 1, 2}
    block = run_block(infer, 3, runs=3)
    assert block.latencies == (1.0,) * 3


def test_error_of_one_request_ends_all():
    started = threading.Barrier(2, timeout=60)

    def infer(index):
        started.wait()
        if index:
            raise InputError("wrong")
        return 1.0

    with pytest.raises(InputError, match="wrong"):
        run_each(infer, 2)

    def fail_at_once(index):
        if index:
            raise InputError("wrong")
        return 1.0

    with pytest.raises(InputError, match="wrong"):
        run_block(fail_at_once, 2)  # the other request has no limit


def test_interrupt_ends_all_requests(monkeypatch):
    join = threading.Thread.join
    interrupted = []

    def interrupt(thread, timeout=None):
        if not interrupted:
            interrupted.append(thread)
            raise KeyboardInterrupt
        join(thread, timeout)

    monkeypatch.setattr(threading.Thread, "join", interrupt)
    with pytest.raises(KeyboardInterrupt):
        run_block(lambda index: 1.0, 2)
    assert not interrupted[0].is_alive()


def test_variables_are_reset_before_each_run():
    inputs = {
        "input_ids": np.ones((1, 4), np.int64),
        "attention_mask": np.ones((1, 4), np.int64),
        "position_ids": np.arange(4)[None],
        "beam_idx": np.zeros(1, np.int32),
    }
    engine = IrrunEngine(irrun.read_model(STATEFUL), inputs, RunSettings(jit=False), 1)
    assert engine.has_state
    for _ in range(3):  # otherwise, the mask would be too short for the tokens of both runs
        engine.infer(0)
    assert {value.state.shape[2] for value in engine._requests[0].query_state()} == {4}


def test_inputs_are_checked(model):
    for options, message in (
        ({"runs": 0}, "runs"),
        ({"seconds": -1}, "seconds"),
        ({"requests": 0}, "requests"),
        ({"threads": 0}, "threads"),
        ({"against": "onnxruntime"}, "against"),
    ):
        with pytest.raises(InputError, match=message):
            bench(model, **options)
    with pytest.raises(InputError, match="does not accept shape"):
        bench(model, np.zeros(3, np.float32), runs=1, jit=False)
    with pytest.raises(ExecutionError, match="time limit"):
        bench(model, runs=1, jit=False, timeout=0)


def test_steps_are_reported(model):
    steps = []
    bench(model, runs=2, jit=False, progress=lambda text, **parts: steps.append((text, parts)))
    assert [text for text, _ in steps] == [
        "reading and compiling",
        "first inference",
        "warm-up of irrun",
        "measuring",
        "measuring",
    ]
    assert steps[-1][1] == {"done": 1, "total": 2, "unit": "turns"}


def test_model_without_a_file_has_no_time_to_read(model):
    source = irrun.read_model(model.read_bytes())
    result = bench(source, runs=1, jit=False)
    assert result.irrun.read_seconds is None
    assert result.irrun.compile_seconds > 0


@pytest.mark.skipif(not os.path.exists("/proc/self/clear_refs"), reason="requires the measurement of memory of Linux")
def test_peak_of_memory_is_measured_from_the_start():
    first = PeakMeter()
    array = np.ones(1 << 26, np.uint8)
    grown = first.read()
    assert grown >= 50 << 20
    assert read_peak() >= grown
    second = PeakMeter()
    assert second.read() < grown
    del array


def test_peak_of_memory_is_optional(monkeypatch, tmp_path):
    monkeypatch.setattr("irrun.inspection.peak_memory.STATUS", tmp_path / "status")
    monkeypatch.setattr("irrun.inspection.peak_memory.RESET", tmp_path)
    monkeypatch.setattr("irrun.inspection.peak_memory.read_peak", lambda: 5)
    assert PeakMeter().read() is None  # below an earlier peak
    monkeypatch.setattr("irrun.inspection.peak_memory.read_peak", lambda: None)
    assert PeakMeter().read() is None


class TestOpenVino:
    """Benchmarks beside OpenVINO."""

    @pytest.fixture(autouse=True)
    def requires_openvino(self):
        pytest.importorskip("openvino")

    def test_both_take_turns(self, model, monkeypatch):
        order = []
        for name, engine in (("irrun", IrrunEngine), ("OpenVINO", OpenVinoEngine)):

            def note(self, index, name=name, infer=engine.infer):
                order.append(name)
                return infer(self, index)

            monkeypatch.setattr(engine, "infer", note)
        monkeypatch.setattr(MODULE, "SETTLING", 0)
        monkeypatch.setattr(MODULE, "PAUSE", 0)
        result = bench(model, runs=4, jit=False, against="openvino")
        warm_up = ["irrun"] * 4 + ["OpenVINO"] * 4
        assert order == warm_up + ["irrun", "irrun", "OpenVINO", "OpenVINO"] * 4  # one run of each turn is not counted
        assert (result.irrun.runs, result.openvino.runs) == (4, 4)
        ratios = result.to_dict()["ratios"]
        own, other = result.to_dict()["irrun"], result.to_dict()["openvino"]
        assert ratios["median_seconds"] == own["median_seconds"] / other["median_seconds"]
        assert ratios["throughput"] == own["throughput"] / other["throughput"]
        assert "ms, OpenVINO " in repr(result)

    def test_threads_and_streams_are_the_same(self, model, monkeypatch):
        import openvino

        configs = []
        compile_model = openvino.Core.compile_model

        def note(core, source, device, config):
            configs.append((device, config))
            return compile_model(core, source, device, config)

        monkeypatch.setattr(openvino.Core, "compile_model", note)
        bench(model, runs=2, requests=2, threads=2, jit=False, against="openvino")
        settings = {"INFERENCE_PRECISION_HINT": "f32", "INFERENCE_NUM_THREADS": "2", "NUM_STREAMS": "2"}
        assert configs == [("CPU", settings)]

    def test_changed_models_are_copied(self, model, tmp_path):
        source = irrun.read_model(model)
        assert bench_engines._find_file(source, tmp_path / "copy") == model
        model.write_text(model.read_text().replace('version="11"', 'version="10"'))
        assert bench_engines._find_file(irrun.read_model(model), tmp_path) == model
        source.reshape([7, 3])
        result = bench(source, runs=1, jit=False, against="openvino")
        assert result.inputs == {"x": "f32[7,3]"}
        assert result.openvino.runs == 1

    def test_errors_are_one_line(self, model, monkeypatch):
        def fail(*_):
            raise RuntimeError("Exception from a.cpp:\nCheck failed\n  no such layer\n")

        monkeypatch.setattr("openvino.Core.read_model", fail)
        with pytest.raises(ExecutionError, match=r"model\.xml: OpenVINO failed: no such layer$"):
            bench(model, runs=1, jit=False, against="openvino")

    def test_it_must_be_installed(self, model, monkeypatch):
        monkeypatch.setitem(sys.modules, "openvino", None)
        with pytest.raises(InputError, match="requires OpenVINO: pip install"):
            bench(model, runs=1, jit=False, against="openvino")
        monkeypatch.setitem(sys.modules, "openvino", SimpleNamespace(__name__="irrun.openvino"))
        with pytest.raises(InputError, match="found irrun in its place"):
            bench(model, runs=1, jit=False, against="openvino")


def test_steps_of_openvino_are_reported(model):
    pytest.importorskip("openvino")
    steps = []
    bench(model, runs=1, jit=False, against="openvino", progress=lambda text, **parts: steps.append(text))
    assert list(dict.fromkeys(steps)) == [
        "reading and compiling",
        "first inference",
        "warm-up of irrun",
        "reading and compiling in OpenVINO",
        "warm-up of OpenVINO",
        "measuring",
    ]


def test_inputs_have_the_types_that_openvino_declares(monkeypatch):
    """It reads f16 inputs of IR v10 as f32. Integers are passed as they are, and inputs may be omitted."""
    tensors = []
    request = SimpleNamespace(set_input_tensor=lambda i, tensor: tensors.append((i, tensor)))
    monkeypatch.setattr(bench_engines, "make_tensor", lambda openvino, value: value)
    engine = object.__new__(OpenVinoEngine)
    engine._path, engine._openvino = None, None
    engine._compiled = SimpleNamespace(create_infer_request=lambda: request)
    given = [np.float16([1]), np.float32([1]), np.float16([1]), np.int32([1]), None]
    engine._arguments = given
    engine._input_types = [ELEMENT_TYPES[name] for name in ("f32", "f32", "f16", "i64", "f32")]
    engine.create_requests(1)
    assert [i for i, _ in tensors] == [0, 1, 2, 3, 4]
    dtypes = [tensor.dtype for _, tensor in tensors[:4]]
    assert dtypes == [np.float32, np.float32, np.float16, np.int32]
    assert all(tensor is value for (_, tensor), value in zip(tensors[1:4], given[1:4], strict=True))


@pytest.fixture
def clock(monkeypatch):
    """Time that passes by a quarter of a second whenever it is read."""
    times = itertools.count(100, 0.25)
    monkeypatch.setattr(bench_engines, "perf_counter", lambda: next(times))


def test_reading_is_timed(model, tmp_path, clock):
    source = irrun.read_model(model)
    assert bench_engines._measure_reading(source) == 0.25
    model.unlink()
    assert bench_engines._measure_reading(source) is None
    assert bench_engines._measure_reading(irrun.read_model(write(tmp_path, chain("Relu")).read_bytes())) is None


@pytest.mark.parametrize(("runs", "seconds", "count"), [(3, None, 3), (None, 0.75, 3), (2, 9.0, 2), (9, 0.0, 1)])
def test_runs_end_after_their_number_or_time(runs, seconds, count, clock):
    """The time is read at the start, before each run but the first, and at the end."""
    block = run_block(lambda index: 0.5, 1, runs, seconds)
    assert block.latencies == (0.5,) * count
    assert block.seconds > 0


def test_requests_run_once_by_default():
    seen = []
    run_each(seen.append, 1)
    run_each(seen.append, 1, 2)
    assert seen == [0, 0, 0]
