"""Asynchronous runs: callbacks, errors and queues.

They run on the replacement only, since callbacks in Python occasionally deadlock in OpenVINO.
"""

from __future__ import annotations

import concurrent.futures
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest


@pytest.fixture
def ov(irrun_ov: Any) -> Any:
    """Return the replacement of OpenVINO."""
    return irrun_ov


def test_request_runs_asynchronously(ov: Any, classifier: Path, image: np.ndarray) -> None:
    compiled = ov.Core().compile_model(classifier, "CPU")
    expected = compiled(image)["scores"]
    request = compiled.create_infer_request()
    seen = []
    request.set_callback(lambda data: seen.append((data, request.get_output_tensor(0).data.copy())), "data")
    request.start_async({"data": image}, "other")
    request.wait()
    assert seen[0][0] in ("data", "other")
    np.testing.assert_allclose(seen[0][1], expected, rtol=1e-5)
    assert request.wait_for(1000)
    assert request.userdata in ("data", "other")


def test_callback_restarts_its_request(ov: Any, classifier: Path, image: np.ndarray) -> None:
    request = ov.Core().compile_model(classifier, "CPU").create_infer_request()
    count = 0
    done = threading.Event()

    def restart(_: Any) -> None:
        nonlocal count
        count += 1
        if count < 100:
            request.start_async()
        else:
            done.set()

    request.set_callback(restart, None)
    request.start_async(image)
    assert done.wait(60)
    request.wait()
    assert count == 100


def test_callback_restarts_its_request_ten_thousand_times(irrun_ov: Any) -> None:
    ops = irrun_ov.opset8
    parameter = ops.parameter([1], np.float32, name="x")
    model = irrun_ov.Model([ops.add(parameter, np.array([1], np.float32))], [parameter], "increment")
    request = irrun_ov.Core().compile_model(model, "CPU").create_infer_request()
    received: list[int] = []

    def restart(userdata: int) -> None:
        received.append(userdata)
        assert request.get_output_tensor().data[0] == userdata + 1
        if userdata + 1 < 10_000:
            request.start_async({0: np.array([userdata + 1], np.float32)}, userdata + 1)

    request.set_callback(restart, 0)
    request.start_async({0: np.zeros(1, np.float32)}, 0)
    request.wait()
    assert received == list(range(10_000))


def test_busy_request_is_reported(irrun_ov: Any) -> None:
    started, release = threading.Event(), threading.Event()

    class Wait(irrun_ov.Op):
        def __init__(self, inputs: Any = None) -> None:
            super().__init__(self, inputs)

        def validate_and_infer_types(self) -> None:
            self.set_output_type(0, self.get_input_element_type(0), self.get_input_partial_shape(0))

        def evaluate(self, outputs: Any, inputs: Any, *_: Any) -> bool:
            started.set()
            release.wait(60)
            inputs[0].copy_to(outputs[0])
            return True

        def has_evaluate(self) -> bool:
            return True

    core = irrun_ov.Core()
    core.add_extension(Wait)
    parameter = irrun_ov.opset8.parameter([1], np.float32)
    model = irrun_ov.Model([Wait([parameter])], [parameter], "wait")
    request = core.compile_model(model, "CPU").create_infer_request()
    request.start_async(np.ones(1, np.float32))
    assert started.wait(60)
    with pytest.raises(RuntimeError, match="busy"):
        request.start_async(np.ones(1, np.float32))
    assert not request.wait_for(1)
    release.set()
    request.wait()
    assert request.get_output_tensor().data[0] == 1


def test_error_in_a_run_reaches_the_caller(irrun_ov: Any) -> None:
    request = compile_table(irrun_ov).create_infer_request()
    request.start_async(np.array([9], np.int32))
    with pytest.raises(RuntimeError):
        request.wait()
    request.start_async(np.array([1], np.int32))
    request.wait()
    assert request.get_output_tensor().data.tolist() == [11]


def test_error_in_a_callback_reaches_the_caller(irrun_ov: Any, classifier: Path, image: np.ndarray) -> None:
    request = irrun_ov.Core().compile_model(classifier, "CPU").create_infer_request()

    def fail(_: Any) -> None:
        raise KeyError("callback")

    request.set_callback(fail, None)
    request.start_async(image)
    with pytest.raises(KeyError):
        request.wait()


def test_queue_runs_all_jobs(ov: Any, classifier: Path, image: np.ndarray) -> None:
    compiled = ov.Core().compile_model(classifier, "CPU")
    expected = [compiled(image * i)["scores"] for i in range(32)]
    queue = ov.AsyncInferQueue(compiled, 8)
    assert len(queue) == 8
    results: dict[int, np.ndarray] = {}

    def store(request: Any, userdata: int) -> None:
        results[userdata] = request.get_output_tensor(0).data.copy()

    queue.set_callback(store)
    for i in range(32):
        queue.start_async({"data": image * i}, i)
    queue.wait_all()
    assert sorted(results) == list(range(32))
    for i, scores in enumerate(expected):
        np.testing.assert_allclose(results[i], scores, rtol=1e-4, atol=1e-6)
    assert queue.is_ready()
    assert [type(request).__name__ for request in queue] == ["InferRequest"] * 8
    assert queue[0].latency >= 0
    assert set(queue.userdata) <= set(range(32))


def test_queue_without_a_callback(ov: Any, classifier: Path, image: np.ndarray) -> None:
    queue = ov.AsyncInferQueue(ov.Core().compile_model(classifier, "CPU"), 2)
    for _ in range(4):
        index = queue.get_idle_request_id()
        assert index in (0, 1)
        queue.start_async(image)
    queue.wait_all()
    assert queue[0].results["scores"].shape == (1, 5)


def test_error_in_the_callback_of_a_queue_reaches_the_caller(ov: Any, classifier: Path, image: np.ndarray) -> None:
    queue = ov.AsyncInferQueue(ov.Core().compile_model(classifier, "CPU"), 2)

    def fail(request: Any, userdata: Any) -> None:
        raise TypeError("callback")

    queue.set_callback(fail)
    queue.start_async(image, 1)
    with pytest.raises(TypeError, match="callback"):
        queue.wait_all()


def test_queue_survives_errors_in_some_jobs(irrun_ov: Any) -> None:
    queue = irrun_ov.AsyncInferQueue(compile_table(irrun_ov), 8)
    seen: list[tuple[int, int]] = []
    queue.set_callback(lambda request, data: seen.append((data, int(request.get_output_tensor().data[0]))))
    failures = 0
    for i in range(400):
        index = 9 if i % 10 == 3 else i % 4
        while True:
            try:
                queue.start_async(np.array([index], np.int32), i)
                break
            except RuntimeError:
                failures += 1
    try:
        queue.wait_all()
    except RuntimeError:
        failures += 1
    queue.wait_all()
    assert failures > 0
    assert sorted(data for data, _ in seen) == [i for i in range(400) if i % 10 != 3]
    assert all(value == 10 + data % 4 for data, value in seen)


def test_callback_restarts_a_request_of_a_queue(irrun_ov: Any, classifier: Path, image: np.ndarray) -> None:
    queue = irrun_ov.AsyncInferQueue(irrun_ov.Core().compile_model(classifier, "CPU"), 2)
    seen: list[Any] = []

    def restart(request: Any, userdata: Any) -> None:
        seen.append(userdata)
        if len(seen) < 50:
            request.start_async()

    queue.set_callback(restart)
    queue.start_async(image, "first")
    queue.wait_all()
    assert seen == ["first"] * 50


def test_failed_start_lets_waiting_threads_continue(
    irrun_ov: Any, classifier: Path, image: np.ndarray, monkeypatch: pytest.MonkeyPatch
) -> None:
    queue = irrun_ov.AsyncInferQueue(irrun_ov.Core().compile_model(classifier, "CPU"), 1)
    starting, failing = threading.Event(), threading.Event()
    start = type(queue[0]).start_async

    def start_slowly(request: Any, inputs: Any, **arguments: Any) -> None:
        if inputs is None:
            starting.set()
            failing.wait(20)
            raise RuntimeError("no inputs")
        start(request, inputs, **arguments)

    monkeypatch.setattr(type(queue[0]), "start_async", start_slowly)
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        failed = pool.submit(queue.start_async, None)
        assert starting.wait(20)
        second = threading.Thread(target=queue.start_async, args=(image,), daemon=True)
        second.start()
        while not queue._condition._waiters:
            time.sleep(0.001)
        failing.set()
        with pytest.raises(RuntimeError, match="no inputs"):
            failed.result(20)
    second.join(20)
    assert not second.is_alive()
    queue.wait_all()


def test_requests_run_at_the_same_time(ov: Any, classifier: Path, image: np.ndarray) -> None:
    compiled = ov.Core().compile_model(classifier, "CPU")
    requests = [compiled.create_infer_request() for _ in range(4)]
    for i, request in enumerate(requests):
        request.start_async({0: image * i})
    for i, request in enumerate(requests):
        request.wait()
        np.testing.assert_allclose(request.results[0], compiled(image * i)[0], rtol=1e-4, atol=1e-6)


def compile_table(ov: Any) -> Any:
    """Compile a model that adds 10 to the inputs 0 to 3, and fails for other inputs."""

    class Table(ov.Op):
        def __init__(self, inputs: Any = None) -> None:
            super().__init__(self, inputs)

        def validate_and_infer_types(self) -> None:
            self.set_output_type(0, self.get_input_element_type(0), self.get_input_partial_shape(0))

        def evaluate(self, outputs: Any, inputs: Any, *_: Any) -> bool:
            if inputs[0].data[0] > 3:
                raise ValueError("index out of range")
            outputs[0].data[:] = inputs[0].data + 10
            return True

        def has_evaluate(self) -> bool:
            return True

    core = ov.Core()
    core.add_extension(Table)
    index = ov.opset8.parameter([1], np.int32, name="index")
    return core.compile_model(ov.Model([Table([index])], [index], "table"), "CPU")
