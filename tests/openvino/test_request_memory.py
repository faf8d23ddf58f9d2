"""The threads, memory and states of requests and queues of the replacement of OpenVINO."""

from __future__ import annotations

import os
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import irrun.openvino as ov
from irrun.openvino import passes, preprocess

ops = ov.opset13

ARRAY = np.array([1, -2], np.float32)


def make_model() -> ov.Model:
    x = ops.parameter([2], np.float32, name="x")
    return ov.Model([ops.relu(x, name="relu")], [x], "m")


def make_request() -> Any:
    return ov.compile_model(make_model()).create_infer_request()


def test_threads_of_requests(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "cpu_count", lambda: 3)
    compiled = ov.compile_model(make_model())
    assert compiled._executor._max_workers == 6
    assert compiled._executor is compiled._executor
    many = ov.compile_model(make_model(), "CPU", {"PERFORMANCE_HINT_NUM_REQUESTS": 9})
    assert many._executor._max_workers == 9
    assert many._executor._thread_name_prefix == "irrun-request"
    monkeypatch.setattr(os, "cpu_count", lambda: None)
    assert ov.compile_model(make_model())._executor._max_workers == 2


def test_child_processes_have_threads_of_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    compiled = ov.compile_model(make_model())
    own = compiled._executor
    monkeypatch.setattr(os, "getpid", lambda: -5)
    assert compiled._executor is not own
    monkeypatch.undo()
    assert compiled._executor is own


def test_results_are_not_copied_until_they_are_needed() -> None:
    request = make_request()
    first = request.infer(ARRAY)[0]
    (port,) = request.model_outputs
    assert np.shares_memory(first, request._tensors[port].data)
    second = request.infer(2 * ARRAY)[0]
    assert (first.tolist(), second.tolist()) == ([1, 0], [2, 0])
    tensor = request.get_output_tensor()
    assert not np.shares_memory(tensor.data, second)
    third = request.infer(3 * ARRAY)[0]
    assert (tensor.data.tolist(), third.tolist(), second.tolist()) == ([3, 0], [3, 0], [2, 0])
    assert not np.shares_memory(tensor.data, third)
    shared = request.infer(4 * ARRAY, share_outputs=True)[0]
    assert np.shares_memory(tensor.data, shared)


def test_memory_of_inputs_that_was_returned_is_kept() -> None:
    request = make_request()
    tensor = request.get_input_tensor()
    request.infer(ARRAY)
    assert tensor.data.tolist() == [1, -2]
    assert request.get_input_tensor() is tensor
    request.infer(ARRAY, share_inputs=True)
    assert np.shares_memory(request.get_input_tensor().data, ARRAY)
    request.set_input_tensor(tensor)
    assert request.get_input_tensor() is tensor


def test_callbacks_do_not_wait_for_themselves() -> None:
    request = make_request()
    seen: list[Any] = []

    def callback(userdata: Any) -> None:
        seen.append((userdata, request.wait_for(10_000), request._callback_thread == threading.get_ident()))
        request.wait()

    request.set_callback(callback, 5)
    request.start_async(ARRAY)
    request.wait()
    assert seen == [(5, True, True)]
    assert request._callback_thread is None


def test_userdata_without_a_callback_has_no_effect() -> None:
    request = make_request()
    with pytest.warns(RuntimeWarning, match="There is no callback function!"):
        request.start_async(ARRAY, 5)
    request.wait()
    assert request.userdata is None
    request.set_callback(lambda _: None, 1)
    request.start_async(ARRAY, 6)
    request.wait()
    request.start_async(ARRAY)
    request.wait()
    assert request.userdata == 6


def test_requests_of_a_queue_are_idle_after_inputs_that_do_not_fit() -> None:
    queue = ov.AsyncInferQueue(ov.compile_model(make_model()), 1)
    for _ in range(2):
        with pytest.raises(RuntimeError):
            queue.start_async({"nothing": ARRAY})
        assert queue.is_ready()
    queue.start_async(ARRAY, "u")
    queue.wait_all()
    assert queue[0].results[0].tolist() == [1, 0]
    assert repr(queue) == "<AsyncInferQueue: 1 jobs>"


def test_requests_in_child_processes_start_anew() -> None:
    request = make_request()
    condition = request._condition
    request._at_fork_reinit()
    assert request._condition is not condition
    assert request._error is None
    request._is_running, request._pending = True, 1
    request._at_fork_reinit()
    assert (request._is_running, request._pending, request._callback_thread) == (False, 0, None)
    with pytest.raises(RuntimeError, match="the run continues in the parent process; start it again"):
        request.wait()
    assert request.infer(ARRAY)[0].tolist() == [1, 0]


def test_queues_in_child_processes_have_idle_requests() -> None:
    queue = ov.AsyncInferQueue(ov.compile_model(make_model()), 3)
    queue._at_fork_reinit()
    assert (list(queue._idle), list(queue._errors)) == ([0, 1, 2], [])
    queue._idle.clear()
    queue._idle.append(1)
    queue._at_fork_reinit()
    assert list(queue._idle) == [1, 0, 2]
    with pytest.raises(RuntimeError, match="runs continue in the parent process; start them again"):
        queue.wait_all()
    queue.wait_all()


def test_times_of_layers_are_those_of_the_last_run() -> None:
    request = ov.compile_model(make_model(), "CPU", {"PERF_COUNT": True}).create_infer_request()
    for _ in range(2):
        request.infer(ARRAY)
        (info,) = [info for info in request.profiling_info if info.node_name == "relu"]
        assert (info.node_type, info.status, info.status.value) == ("Relu", info.EXECUTED, 2)
        assert info.real_time == info.cpu_time
        assert repr(info) == f"<ProfilingInfo: relu {info.real_time}>"
    assert [status.value for status in info.Status] == [0, 1, 2]
    assert [info.NOT_RUN.value, info.OPTIMIZED_OUT.value] == [0, 1]
    assert request.latency == request._seconds * 1000


def test_types_of_outputs_may_be_known_after_the_first_run() -> None:
    x = ops.parameter([2], ov.Type.dynamic, name="x")
    request = ov.compile_model(ov.Model([ops.relu(x)], [x], "m")).create_infer_request()
    with pytest.raises(RuntimeError, match="is known after the first run only"):
        request.get_output_tensor()
    request.set_input_tensor(ov.Tensor(ARRAY))
    assert request.infer()[0].tolist() == [1, 0]
    assert request.get_output_tensor().element_type == ov.Type.f32


def test_paths_may_be_bytes(tmp_path: Path) -> None:
    ov.save_model(make_model(), tmp_path / "m.xml")
    for source in (
        os.fsencode(tmp_path / "m.xml"),
        f" {(tmp_path / 'm.xml').read_text()}",
        (tmp_path / "m.xml").open("rb"),
    ):
        assert ov.Core().read_model(source).get_friendly_name() == "m"
    with pytest.raises(RuntimeError, match='Could not open the file: "no file"'):
        ov.Core().read_model(b"no file")
    with pytest.raises(
        TypeError, match="Provided python object type <class 'int'> isn't supported as 'model' argument"
    ):
        ov.Core().read_model(3)


def test_ranks_of_numbers_are_static() -> None:
    number = ops.parameter([], np.float32)
    pattern = passes.AnyInput(passes.has_static_dims([]))
    assert passes.Matcher(pattern).match(number)
    assert not passes.Matcher(passes.AnyInput(passes.has_static_dim(0))).match(number)


@pytest.mark.parametrize(
    ("shape", "layout", "step", "message"),
    [
        ([1, 3, -1, 4], "NCHW", "resize", "the model expects images of dynamic size, pass a height and a width"),
        ([1, 3, 4, -1], "NCHW", "resize", "the model expects images of dynamic size, pass a height and a width"),
        ([1, 3, 4, 4], "NC?W", "resize", r"Can't add resize for layout without W/H specified"),
        ([1, 3, 4, 4], "NCH?", "resize", r"Can't add resize for layout without W/H specified"),
        ([1, 3, 4, 4], "N?HW", "mean", r"Layout \[N,\?,H,W\] doesn't have `channels` dimension"),
        ([1, 3, 4, 4], "N?HW", "reverse", r"Layout \[N,\?,H,W\] doesn't have `channels` dimension"),
        ([1, 3, 4, 4], "NCHW", "color", "Source color format 'Unknown' is not convertible to 'RGB'"),
    ],
)
def test_steps_that_do_not_fit(shape: list[int], layout: str, step: str, message: str) -> None:
    x = ops.parameter(ov.PartialShape(shape), np.float32, name="x")
    processor = preprocess.PrePostProcessor(ov.Model([ops.relu(x)], [x], "m"))
    info = processor.input()
    info.tensor().set_layout(ov.Layout(layout))
    info.model().set_layout(ov.Layout(layout))
    steps = info.preprocess()
    if step == "resize":
        steps.resize(preprocess.ResizeAlgorithm.RESIZE_LINEAR)
    elif step == "mean":
        steps.mean([1.0, 2.0, 3.0])
    elif step == "reverse":
        steps.reverse_channels()
    else:
        steps.convert_color(preprocess.ColorFormat.RGB)
    with pytest.raises(RuntimeError, match=message):
        processor.build()
