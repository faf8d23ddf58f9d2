"""The API of the Inference Engine on legacy IR."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import irrun
import irrun.openvino as ov
from irrun.openvino.inference_engine import Blob, IECore, IENetwork, IEPlugin, StatusCode, TensorDesc


@pytest.fixture
def network_path(data: Path) -> Path:
    """Return a detector of IR v3."""
    path = data / "face-detection-retail-0004" / "ir3" / "model.xml"
    if not path.is_file():
        pytest.skip("the real models are not in ../shared/data")
    return path


@pytest.fixture
def frame(network_path: Path) -> np.ndarray:
    """Return an input of the detector."""
    return np.load(network_path.parents[1] / "input.npy").astype(np.float32)


def get_expected(path: Path, frame: np.ndarray) -> np.ndarray:
    return irrun.compile_model(path)(frame)[0]


def test_program_of_2019_runs_ir_v3(network_path: Path, frame: np.ndarray) -> None:
    core = IECore()
    net = IENetwork(model=str(network_path), weights=str(network_path.with_suffix(".bin")))
    input_blob, out_blob = next(iter(net.inputs)), next(iter(net.outputs))
    assert (input_blob, out_blob) == ("data", "detection_out")
    n, c, h, w = net.inputs[input_blob].shape
    assert [n, c, h, w] == [1, 3, 300, 300]
    assert net.inputs[input_blob].precision == "FP32"
    assert net.inputs[input_blob].layout == "NCHW"
    assert net.outputs[out_blob].shape == [1, 1, 200, 7]
    executable = core.load_network(network=net, device_name="CPU")
    result = executable.infer(inputs={input_blob: frame})
    np.testing.assert_allclose(result[out_blob], get_expected(network_path, frame), rtol=1e-5)


def test_network_is_reshaped(network_path: Path, frame: np.ndarray) -> None:
    core = IECore()
    net = core.read_network(network_path)
    net.reshape({"data": (2, 3, 320, 256)})
    assert net.input_info["data"].input_data.shape == [2, 3, 320, 256]
    assert net.outputs["detection_out"].shape == [1, 1, 400, 7]
    result = core.load_network(net, "CPU").infer({"data": np.zeros((2, 3, 320, 256), np.float32)})
    assert result["detection_out"].shape == (1, 1, 400, 7)
    net.batch_size = 1
    assert net.batch_size == 1
    assert net.outputs["detection_out"].shape == [1, 1, 200, 7]


def test_network_is_exported_and_imported(network_path: Path, frame: np.ndarray, tmp_path: Path) -> None:
    core = IECore()
    executable = core.load_network(core.read_network(network_path), "CPU")
    executable.export(str(tmp_path / "network.blob"))
    imported = core.import_network(str(tmp_path / "network.blob"))
    expected, actual = (e.infer({"data": frame})["detection_out"] for e in (executable, imported))
    np.testing.assert_array_equal(actual, expected)


def test_requests_run_asynchronously(network_path: Path, frame: np.ndarray) -> None:
    core = IECore()
    executable = core.load_network(core.read_network(network_path), "CPU", num_requests=2)
    assert len(executable.requests) == 2
    assert executable.requests[1].wait(0) == StatusCode.INFER_NOT_STARTED
    seen: list[Any] = []
    executable.requests[0].set_completion_callback(lambda status, data: seen.append((status, data)), "data")
    for i in range(2):
        executable.start_async(request_id=i, inputs={"data": frame})
    assert executable.requests[0].wait(-1) == 0
    assert executable.wait() == 0
    assert seen == [(0, "data")]
    assert executable.get_idle_request_id() in (0, 1)
    assert executable.requests[0]._outputs_list == ["detection_out"]
    for request in executable.requests:
        np.testing.assert_allclose(request.outputs["detection_out"], get_expected(network_path, frame), rtol=1e-5)
        np.testing.assert_array_equal(request.output_blobs["detection_out"].buffer, request.outputs["detection_out"])


def test_blobs_precision_and_layout(network_path: Path, frame: np.ndarray) -> None:
    core = IECore()
    net = core.read_network(str(network_path), str(network_path.with_suffix(".bin")))
    net.input_info["data"].precision = "U8"
    net.input_info["data"].layout = "NHWC"
    executable = core.load_network(net, "CPU")
    image = np.clip(frame, 0, 255).astype(np.uint8)
    expected = get_expected(network_path, image.astype(np.float32))
    result = executable.infer({"data": np.ascontiguousarray(image.transpose(0, 2, 3, 1))})
    np.testing.assert_allclose(result["detection_out"], expected, rtol=1e-5)
    request = executable.requests[0]
    request.input_blobs["data"].buffer[:] = image.transpose(0, 2, 3, 1)
    request.infer()
    np.testing.assert_allclose(request.outputs["detection_out"], expected, rtol=1e-5)
    blob = Blob(TensorDesc("U8", [1, 300, 300, 3], "NHWC"), np.zeros((1, 300, 300, 3), np.uint8))
    request.set_blob("data", blob)
    request.infer()
    assert request.output_blobs["detection_out"].tensor_desc.dims == [1, 1, 200, 7]


def test_plugin_of_2018_runs_the_network(network_path: Path, frame: np.ndarray) -> None:
    plugin = IEPlugin(device="CPU", plugin_dirs=None)
    plugin.add_cpu_extension("libcpu_extension.so")
    net = IENetwork.from_ir(model=str(network_path), weights=str(network_path.with_suffix(".bin")))
    assert tuple(net.inputs["data"]) == (1, 3, 300, 300)
    assert set(net.layers) >= {"data", "detection_out"}
    assert set(net.layers) <= plugin.get_supported_layers(net) | set(net.layers)
    assert len(plugin.load(net).requests) == 1
    executable = plugin.load(network=net, num_requests=2)
    assert len(executable.requests) == 2
    executable.start_async(0, {"data": frame})
    assert executable.requests[0].wait(-1) == 0
    assert executable.requests[0].outputs["detection_out"].shape == (1, 1, 200, 7)


def test_layers_become_outputs(network_path: Path, frame: np.ndarray) -> None:
    core = IECore()
    net = core.read_network(network_path)
    name = next(n for n, layer in net.layers.items() if layer.type == "Convolution")
    net.add_outputs(name)
    result = core.load_network(net, "CPU").infer({"data": frame})
    assert set(result) == {"detection_out", name}


def test_new_files_are_read_too(classifier: Path, image: np.ndarray) -> None:
    core = IECore()
    net = core.read_network(classifier)
    assert list(net.input_info) == ["data"]
    assert "classes" in net.outputs
    assert list(net.outputs) == sorted(net.outputs)
    result = core.load_network(net, "CPU", {"CPU_THREADS_NUM": "1"}).infer({"data": image})
    assert result["classes"].shape == (1, 5)
    assert core.available_devices == ["CPU"]
    assert "CPU" in core.get_metric("CPU", "FULL_DEVICE_NAME") or core.get_metric("CPU", "FULL_DEVICE_NAME")
    assert core.get_versions("CPU")["CPU"].major == 2026


def test_wrong_arguments_are_reported(classifier: Path, image: np.ndarray) -> None:
    core = IECore()
    net = core.read_network(classifier)
    executable = core.load_network(net, "CPU")
    with pytest.raises(ValueError, match="No input with name"):
        executable.infer({"unknown": image})
    with pytest.raises(RuntimeError):
        core.load_network(net, "GPU")
    with pytest.raises(ValueError, match="precision"):
        net.input_info["data"].precision = "FOO"
    with pytest.raises(RuntimeError, match="does not exist"):
        net.reshape({"unknown": [1]})


def test_inputs_and_outputs_are_in_the_order_of_their_names() -> None:
    ops = ov.opset8
    b, a = (ops.parameter([2], np.float32, name=name) for name in "ba")
    nodes = [ops.relu(b, name="z"), ops.negative(a, name="y")]
    network = IENetwork(ov.Model(nodes, [b, a], "model"))
    executable = IECore().load_network(network, "CPU")
    results = executable.infer({"a": np.array([1, 2]), "b": np.array([-3, 4])})
    assert [*network.inputs] == [*executable.input_info] == ["a", "b"]
    assert [*network.outputs] == [*executable.outputs] == [*results] == ["y", "z"]
    assert [value.tolist() for value in results.values()] == [[-1, -2], [0, 4]]


@pytest.fixture
def old_request() -> Any:
    """Return a request of a network of one layer."""
    x = ov.opset13.parameter([1, 3], np.float32, name="x")
    model = ov.Model([ov.opset13.result(ov.opset13.relu(x))], [x], "m")
    return IECore().load_network(IENetwork(model), "CPU").requests[0]


def test_status_of_a_run(old_request: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    assert old_request.wait() == StatusCode.INFER_NOT_STARTED
    old_request.async_infer({"x": np.zeros((1, 3), np.float32)})
    assert [old_request.wait(timeout) for timeout in (None, -1, 0, 1000)] == [StatusCode.OK] * 4
    waited: list[int] = []

    def wait_for(timeout: int) -> bool:
        waited.append(timeout)
        return False

    monkeypatch.setattr(old_request._request, "wait_for", wait_for)
    assert [old_request.wait(timeout) for timeout in (0, 7)] == [StatusCode.RESULT_NOT_READY] * 2
    assert old_request.wait(-1) == old_request.wait() == StatusCode.OK
    assert waited == [0, 7]

    def fail() -> None:
        raise RuntimeError

    monkeypatch.setattr(old_request._request, "wait", fail)
    assert old_request.wait() == StatusCode.GENERAL_ERROR


def test_times_of_layers_are_in_microseconds(old_request: Any) -> None:
    times = {"real_time": timedelta(milliseconds=1.5), "cpu_time": timedelta(seconds=2)}
    infos = [SimpleNamespace(node_name=name, node_type="Relu", exec_type="numpy", **times) for name in ("a", "b")]
    old_request._request = SimpleNamespace(profiling_info=infos)
    expected = {
        "status": "EXECUTED",
        "layer_type": "Relu",
        "exec_type": "numpy",
        "real_time": 1500,
        "cpu_time": 2000000,
    }
    assert old_request.get_perf_counts() == {
        "a": {**expected, "execution_index": 0},
        "b": {**expected, "execution_index": 1},
    }
