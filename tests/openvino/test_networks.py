"""Networks, blobs and requests of the Inference Engine, on small models."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import irrun.openvino as ov
from irrun.openvino.inference_engine import (
    Blob,
    DataPtr,
    ExecutableNetwork,
    IECore,
    IENetwork,
    IEPlugin,
    InferRequest,
    InputInfoPtr,
    PreProcessInfo,
    StatusCode,
    TensorDesc,
    data,
)

ops = ov.opset8

IMAGE = np.arange(24, dtype=np.float32).reshape(1, 2, 3, 4)


def make_network(shape: Any = (1, 2, 3, 4), dtype: Any = np.float32) -> IENetwork:
    """Return a network with the inputs "b" and "a" and the outputs "sum" and the halves of "b"."""
    b, a = (ops.parameter(list(shape), dtype, name=name) for name in "ba")
    split = ops.split(b, ops.constant(np.int64(1)), 2, name="split")
    results = [ops.result(ops.add(a, b, name="sum")), *map(ops.result, split.outputs())]
    return IENetwork(ov.Model(results, [b, a], "net"))


def load(network: IENetwork, **keywords: Any) -> ExecutableNetwork:
    return IECore().load_network(network, "CPU", **keywords)


# Data


@pytest.mark.parametrize(
    ("rank", "layout"),
    [(0, "SCALAR"), (1, "C"), (2, "NC"), (3, "CHW"), (4, "NCHW"), (5, "NCDHW"), (6, "BLOCKED"), (7, "BLOCKED")],
)
def test_layouts_of_ranks(rank: int, layout: str) -> None:
    parameter = ops.parameter([1] * rank, np.float32, name="x")
    assert data.get_default_layout(rank) == DataPtr("x", parameter.output(0)).layout == layout


@pytest.mark.parametrize(
    ("dtype", "precision"),
    [
        (ov.Type.f32, "FP32"),
        (ov.Type.f16, "FP32"),
        (ov.Type.bf16, "FP32"),
        (ov.Type.f64, "FP64"),
        (ov.Type.i8, "I8"),
        (ov.Type.u8, "U8"),
        (ov.Type.i64, "I64"),
        (ov.Type.boolean, "BOOL"),
        (ov.Type.dynamic, "FP32"),
    ],
)
def test_precisions_of_types(dtype: Any, precision: str) -> None:
    assert DataPtr("x", ops.parameter([1], dtype).output(0)).precision == precision


def test_precision_and_layout_are_set() -> None:
    pointer = DataPtr("x", ops.parameter([1, 2, 3, 4], np.float32).output(0))
    info = InputInfoPtr(pointer)
    assert (info.name, info.input_data, pointer.initialized, [*pointer]) == ("x", pointer, True, [1, 2, 3, 4])
    info.precision, info.layout = "u8", "nhwc"
    assert (pointer.precision, pointer.layout) == (info.precision, info.layout) == ("U8", "NHWC")
    assert info.tensor_desc == TensorDesc("U8", [1, 2, 3, 4], "NHWC")
    with pytest.raises(ValueError, match="Unsupported precision U7!"):
        pointer.precision = "U7"
    assert pointer.precision == "U8"


def test_descriptions_are_compared_by_their_parts() -> None:
    first = TensorDesc("FP32", (1, 2), "NC")
    assert (first.precision, first.dims, first.layout) == ("FP32", [1, 2], "NC")
    assert TensorDesc("FP32", [1]).layout == "ANY"
    others = [TensorDesc("FP16", [1, 2], "NC"), TensorDesc("FP32", [2, 1], "NC"), TensorDesc("FP32", [1, 2], "CN")]
    assert first == TensorDesc("FP32", [1, 2], "NC")
    assert hash(first) == hash(TensorDesc("FP32", [1, 2], "NC"))
    assert all(first != other for other in [*others, "FP32"])


def test_blobs_have_memory() -> None:
    empty = Blob(TensorDesc("I8", [2, 3]))
    assert (empty.buffer.dtype, empty.buffer.tolist()) == (np.int8, [[0, 0, 0], [0, 0, 0]])
    values = np.arange(6, dtype=np.float32)
    blob = Blob(TensorDesc("FP32", [2, 3]), values)
    values[0] = 9
    assert blob.buffer.tolist() == [[9, 1, 2], [3, 4, 5]]
    with pytest.raises(
        AttributeError, match="Number of elements in provided numpy array 6 and required by TensorDesc 8"
    ):
        Blob(TensorDesc("FP32", [2, 4]), values)
    with pytest.raises(ValueError, match="Data type float32 of provided numpy array doesn't match FP16"):
        Blob(TensorDesc("FP16", [2, 3]), values)


def test_preprocessing_does_nothing_by_default() -> None:
    info = PreProcessInfo()
    assert (int(info.resize_algorithm), int(info.color_format), int(info.mean_variant)) == (0, 0, 2)


@pytest.mark.parametrize(
    ("enumeration", "members"),
    [
        (data.ColorFormat, ["RAW", "RGB", "BGR", "RGBX", "BGRX", "NV12", "I420"]),
        (data.ResizeAlgorithm, ["NO_RESIZE", "RESIZE_BILINEAR", "RESIZE_AREA"]),
        (data.MeanVariant, ["MEAN_IMAGE", "MEAN_VALUE", "NONE"]),
    ],
)
def test_numbers_of_enumerations(enumeration: Any, members: list[str]) -> None:
    assert {name: int(member) for name, member in enumeration.__members__.items()} == {
        name: i for i, name in enumerate(members)
    }


def test_numbers_of_states() -> None:
    assert {member.name: int(member) for member in StatusCode} == {
        "OK": 0,
        "GENERAL_ERROR": -1,
        "RESULT_NOT_READY": -9,
        "NOT_ALLOCATED": -10,
        "INFER_NOT_STARTED": -11,
    }


# Networks


def test_networks_describe_themselves() -> None:
    network = make_network()
    assert network.name == "net"
    assert [*network.input_info] == [*network.inputs] == ["a", "b"]
    assert [*network.outputs] == ["split.0", "split.1", "sum"]
    assert [network.outputs[name].shape for name in network.outputs] == [[1, 1, 3, 4], [1, 1, 3, 4], [1, 2, 3, 4]]
    assert all(network.inputs[name] is network.input_info[name].input_data for name in "ab")
    assert [node.get_friendly_name() for node in network.get_ops()][:2] == ["a", "b"]


def test_layers_of_networks() -> None:
    layers = make_network().layers
    split = layers["split"]
    assert (split.name, split.type, split.params["num_splits"], split.affinity) == ("split", "Split", "2", "")
    assert [(out.name, out.shape) for out in split.out_data] == [("split", [1, 1, 3, 4])] * 2
    assert layers["a"].params == {"shape": "[1, 2, 3, 4]", "element_type": "f32"}


def test_batches_and_shapes_of_networks() -> None:
    network = make_network()
    assert network.batch_size == 1
    network.batch_size = 5
    assert network.batch_size == 5
    assert network.inputs["a"].shape == network.outputs["sum"].shape == [5, 2, 3, 4]
    for batch in (0, -1):
        with pytest.raises(AttributeError, match=f"Invalid batch size {batch}! Batch size should be positive"):
            network.batch_size = batch
    network.reshape({"a": (2, 4, 3, 4), "b": (2, 4, 3, 4)})
    assert network.outputs["split.1"].shape == [2, 2, 3, 4]
    with pytest.raises(RuntimeError, match="Input 'c' does not exist; the network has b, a"):
        network.reshape({"c": [1]})


def test_batch_of_numbers_does_not_change() -> None:
    x, y = ops.parameter([2, 3], np.float32, name="x"), ops.parameter([], np.float32, name="y")
    network = IENetwork(ov.Model([ops.multiply(x, y, name="product")], [x, y], "net"))
    network.batch_size = 4
    assert [network.inputs[name].shape for name in "xy"] == [[4, 3], []]


@pytest.mark.parametrize("outputs", ["split", ("split", 1), ["split", ("split", 1)], [("split", 0)]])
def test_layers_become_outputs(outputs: Any) -> None:
    x = ops.parameter([2, 3], np.float32, name="x")
    split = ops.split(x, ops.constant(np.int64(0)), 2, name="split")
    network = IENetwork(ov.Model([ops.add(*split.outputs(), name="sum")], [x], "net"))
    network.add_outputs(outputs)
    expected = {"split": [0], ("split", 1): [1]}.get(outputs if isinstance(outputs, (str, tuple)) else "")
    numbers = expected or ([0, 1] if len(outputs) == 2 else [0])
    assert [*network.outputs] == [*(f"split.{n}" for n in numbers), "sum"]
    results = load(network).infer({"x": np.arange(6).reshape(2, 3)})
    assert [results[f"split.{n}"].tolist() for n in numbers] == [[[3 * n, 3 * n + 1, 3 * n + 2]] for n in numbers]


def test_networks_are_written_and_read(tmp_path: Path) -> None:
    network = make_network()
    network.serialize(tmp_path / "a.xml", tmp_path / "b.bin")
    network.serialize(tmp_path / "c.xml")
    xml, weights = (tmp_path / "a.xml").read_bytes(), (tmp_path / "b.bin").read_bytes()
    core = IECore()
    read = [
        IENetwork(str(tmp_path / "a.xml"), str(tmp_path / "b.bin")),
        IENetwork.from_ir(str(tmp_path / "c.xml"), str(tmp_path / "c.bin")),
        core.read_network(tmp_path / "c.xml"),
        core.read_network(xml, weights, init_from_buffer=True),
        core.read_network(model=xml, weights=weights),
    ]
    assert [[*net.outputs] for net in read] == [[*network.outputs]] * 5


# Loading


def test_networks_are_loaded_with_properties(tmp_path: Path) -> None:
    network, core = make_network(), IECore()
    assert len(core.load_network(network).requests) == 1
    assert len(core.load_network(network, num_requests=3).requests) == 3
    assert len(load(network, config={"CPU_THROUGHPUT_STREAMS": "2"}, num_requests=0).requests) == 2
    loaded = load(network, config={"CPU_THREADS_NUM": "1", "CPU_BIND_THREAD": "NO", "ENFORCE_BF16": "NO"})
    assert loaded.get_config("CPU_THREADS_NUM") == 1
    assert loaded.get_config("NUM_STREAMS") == 1
    assert loaded.get_metric("NETWORK_NAME") == "net"
    with pytest.raises(RuntimeError, match="Unsupported property"):
        load(network, config={"NOTHING": 1})
    network.serialize(tmp_path / "net.xml")
    assert [*core.load_network(str(tmp_path / "net.xml")).outputs] == [*network.outputs]


def test_cores_keep_properties_of_devices() -> None:
    core, network = IECore("no file"), make_network()
    core.set_config({"PERF_COUNT": "YES"}, "CPU")
    core.set_config({"CPU_THREADS_NUM": "1"}, "CPU")
    assert (core.get_config("CPU", "PERF_COUNT"), core.get_config("CPU", "CPU_THREADS_NUM")) == ("YES", "1")
    assert core.get_config("CPU", "NUM_STREAMS") == 1
    loaded = core.load_network(network, "CPU")
    assert (loaded.get_config("PERF_COUNT"), loaded.get_config("CPU_THREADS_NUM")) == ("YES", 1)
    assert core.load_network(network, "CPU", {"PERF_COUNT": "NO"}).get_config("PERF_COUNT") == "NO"


def test_cores_describe_devices() -> None:
    core = IECore()
    assert core.available_devices == ["CPU"]
    assert core.get_metric("CPU", "AVAILABLE_DEVICES") == [""]
    assert "FULL_DEVICE_NAME" in core.get_metric("CPU", "SUPPORTED_METRICS")
    keys = core.get_metric("CPU", "SUPPORTED_CONFIG_KEYS")
    assert {"CPU_THREADS_NUM", "CPU_THROUGHPUT_STREAMS", "PERF_COUNT"} <= set(keys)
    version = core.get_versions("CPU")["CPU"]
    assert (version.description, version.major) == ("irrun_cpu_plugin", 2026)
    assert core.query_network(make_network(), "CPU")["sum"] == "CPU"
    for call in (core.get_versions, lambda name: core.get_metric(name, "FULL_DEVICE_NAME"), IEPlugin):
        with pytest.raises(RuntimeError, match="FPGA"):
            call("FPGA")
    core.add_extension("path", "CPU")
    core.register_plugin("name")
    core.unregister_plugin("CPU")


def test_plugins_load_networks() -> None:
    plugin, network = IEPlugin("CPU", plugin_dirs=["folder"]), make_network()
    assert (plugin.device, plugin.version.partition(".")[0]) == ("CPU", "2026")
    plugin.set_config({"PERF_COUNT": "YES"})
    plugin.add_cpu_extension("path")
    assert len(plugin.load(network).requests) == 1
    assert len(plugin.load(network, 2).requests) == 2
    assert plugin.load(network).get_config("PERF_COUNT") == "YES"
    assert plugin.load(network, config={"PERF_COUNT": "NO"}).get_config("PERF_COUNT") == "NO"
    assert {"sum", "split", "a"} <= plugin.get_supported_layers(network)


def test_networks_are_exported_and_imported(tmp_path: Path) -> None:
    load(make_network()).export(str(tmp_path / "net.blob"))
    imported = IECore().import_network(str(tmp_path / "net.blob"), "CPU", {"PERF_COUNT": "YES"}, num_requests=2)
    assert ([*imported.outputs], len(imported.requests)) == (["split.0", "split.1", "sum"], 2)
    assert imported.get_config("PERF_COUNT") == "YES"
    assert len(IECore().import_network(str(tmp_path / "net.blob")).requests) == 1
    with pytest.raises(ValueError, match="Incorrect number of requests"):
        IECore().import_network(str(tmp_path / "net.blob"), num_requests=-1)
    assert [*imported.get_exec_graph_info().outputs] == ["split.0", "split.1", "sum"]


# Runs


def test_results_are_copies_in_the_order_of_their_names() -> None:
    loaded = load(make_network())
    first = loaded.infer({"a": IMAGE, "b": IMAGE})
    second = loaded.infer({"b": 2 * IMAGE})
    assert [*first] == ["split.0", "split.1", "sum"]
    np.testing.assert_array_equal(first["sum"], 2 * IMAGE)
    np.testing.assert_array_equal(second["sum"], 3 * IMAGE)
    np.testing.assert_array_equal(second["split.1"], 2 * IMAGE[:, 1:])
    np.testing.assert_array_equal(loaded.infer()["sum"], 3 * IMAGE)
    assert [*loaded.inputs] == ["a", "b"]


def test_values_of_requests() -> None:
    request = load(make_network()).requests[0]
    assert [*request.inputs] == [*request.input_blobs] == request._inputs_list == ["a", "b"]
    assert [*request.outputs] == [*request.output_blobs] == request._outputs_list == ["split.0", "split.1", "sum"]
    assert request.outputs["sum"].shape == (1, 2, 3, 4)
    assert request.input_blobs["a"].tensor_desc == TensorDesc("FP32", [1, 2, 3, 4], "NCHW")
    assert request.output_blobs["sum"].tensor_desc == TensorDesc("FP32", [1, 2, 3, 4], "NCHW")
    request.input_blobs["a"].buffer[...] = IMAGE
    request.inputs["b"][...] = 1
    request.infer()
    np.testing.assert_array_equal(request.outputs["sum"], IMAGE + 1)
    np.testing.assert_array_equal(request.inputs["a"], IMAGE)
    assert request.latency > 0
    assert request.query_state() == []


def test_inputs_have_the_right_number_of_elements() -> None:
    request = load(make_network()).requests[0]
    request.infer({"a": IMAGE.reshape(-1), "b": np.array(2)})
    np.testing.assert_array_equal(request.outputs["sum"], IMAGE + 2)
    request.infer({"b": IMAGE[:, :, :1]})
    np.testing.assert_array_equal(request.outputs["sum"], IMAGE + IMAGE[:, :, :1])
    with pytest.raises(ValueError, match="broadcast"):
        request.infer({"a": np.zeros(5)})
    with pytest.raises(ValueError, match="No input with name 'c' found; the network has a, b"):
        request.infer({"c": IMAGE})


def test_blobs_are_set() -> None:
    request = load(make_network()).requests[0]
    blob = Blob(TensorDesc("FP32", [1, 2, 3, 4], "NCHW"), IMAGE)
    output = Blob(TensorDesc("FP32", [1, 2, 3, 4], "NCHW"))
    request.set_blob("a", blob)
    request.set_blob("sum", output)
    request.infer({"b": blob})
    assert request.input_blobs["a"] is request.input_blobs["b"] is blob
    assert request.output_blobs["sum"] is output
    np.testing.assert_array_equal(output.buffer, 2 * IMAGE)
    with pytest.raises(RuntimeError, match="Failed to find input or output with name: 'c'"):
        request.set_blob("c", blob)


def test_blobs_with_preprocessing() -> None:
    network = make_network()
    loaded = load(network)
    info = PreProcessInfo()
    info.resize_algorithm = data.ResizeAlgorithm.RESIZE_BILINEAR
    small = Blob(TensorDesc("FP32", [1, 2, 1, 1], "NCHW"), np.full((1, 2, 1, 1), 3, np.float32))
    request = loaded.requests[0]
    request.set_blob("a", small, info)
    assert loaded.input_info["a"].preprocess_info is info
    request.infer({"b": np.zeros((1, 2, 3, 4))})
    np.testing.assert_array_equal(request.outputs["sum"], np.full((1, 2, 3, 4), 3))


def test_images_are_resized_linearly() -> None:
    x = ops.parameter([1, 1, 2, 4], np.float32, name="x")
    network = IENetwork(ov.Model([ops.relu(x, name="y")], [x], "net"))
    network.input_info["x"].preprocess_info.resize_algorithm = data.ResizeAlgorithm.RESIZE_BILINEAR
    request = load(network).requests[0]
    request.infer({"x": np.array([[[[0, 4]]]], np.float32)})
    np.testing.assert_array_equal(request.outputs["y"], [[[[0, 1, 3, 4]] * 2]])
    same = np.arange(8, dtype=np.float32).reshape(1, 1, 2, 4)
    request.infer({"x": same})
    np.testing.assert_array_equal(request.outputs["y"], same)


@pytest.mark.parametrize("layout", ["NHWC", "CHWN", "NCHW", "BLOCKED", "NCDHW"])
def test_inputs_are_passed_in_their_layouts(layout: str) -> None:
    network = make_network()
    network.input_info["a"].layout = layout
    request = load(network).requests[0]
    is_transposed = sorted(layout) == sorted("NCHW")
    order = ["NCHW".index(name) for name in layout] if is_transposed else [0, 1, 2, 3]
    values = IMAGE.transpose(order)
    assert request.input_blobs["a"].buffer.shape == values.shape
    request.infer({"a": values, "b": np.zeros_like(IMAGE)})
    np.testing.assert_array_equal(request.outputs["sum"], IMAGE)


def test_precisions_of_inputs_and_outputs() -> None:
    network = make_network()
    network.input_info["a"].precision = "U8"
    network.outputs["sum"].precision = "I32"
    request = load(network).requests[0]
    request.infer({"a": np.full((1, 2, 3, 4), 7), "b": np.full((1, 2, 3, 4), 0.75)})
    assert request.inputs["a"].dtype == np.uint8
    assert (request.outputs["sum"].dtype, request.outputs["sum"].ravel()[0]) == (np.int32, 7)
    assert request.outputs["split.0"].dtype == np.float32


def test_requests_run_at_the_same_time() -> None:
    loaded = load(make_network(), num_requests=2)
    assert loaded.get_idle_request_id() == 0
    requests = [loaded.start_async(i, {"a": IMAGE, "b": np.full_like(IMAGE, i)}) for i in range(2)]
    assert requests == [*loaded.requests]
    assert loaded.wait() == StatusCode.OK
    for i, request in enumerate(requests):
        np.testing.assert_array_equal(request.outputs["sum"], IMAGE + i)
    for number in (-1, 2):
        with pytest.raises(ValueError, match="Incorrect request_id specified!"):
            loaded.start_async(number)


def test_networks_wait_for_requests(monkeypatch: pytest.MonkeyPatch) -> None:
    loaded = load(make_network(), num_requests=3)
    waited: list[Any] = []

    def wait(self: InferRequest, timeout: Any = None) -> int:
        waited.append((loaded.requests.index(self), timeout))
        return int(StatusCode.RESULT_NOT_READY) if self is loaded.requests[1] else 0

    monkeypatch.setattr(InferRequest, "wait", wait)
    assert (loaded.wait(), waited) == (0, [])
    for request in loaded.requests:
        request._is_started = True
    assert loaded.wait(num_requests=1, timeout=5) == StatusCode.OK
    assert waited == [(0, 5)]
    assert loaded.wait() == StatusCode.RESULT_NOT_READY
    assert waited[1:] == [(0, None), (1, None), (2, None)]


def test_no_request_is_idle(monkeypatch: pytest.MonkeyPatch) -> None:
    loaded = load(make_network(), num_requests=2)
    monkeypatch.setattr(loaded.requests[0]._request, "wait_for", lambda timeout: timeout != 0)
    assert loaded.get_idle_request_id() == 1
    monkeypatch.setattr(loaded.requests[1]._request, "wait_for", lambda timeout: timeout != 0)
    assert loaded.get_idle_request_id() == -1


def test_callbacks_get_states_and_data() -> None:
    request = load(make_network()).requests[0]
    seen: list[Any] = []
    request.set_completion_callback(lambda status, value: seen.append((status, value, request.outputs["sum"].sum())), 5)
    request.async_infer({"a": IMAGE, "b": IMAGE})
    assert request.wait() == StatusCode.OK
    assert seen == [(0, 5, 2 * IMAGE.sum())]
    request.set_completion_callback(lambda status, value: seen.append((status, value)))
    request.async_infer()
    assert request.wait() == StatusCode.OK
    assert seen[1:] == [(0, None)]


def test_failed_runs_have_a_state(monkeypatch: pytest.MonkeyPatch) -> None:
    request = load(make_network()).requests[0]
    seen: list[Any] = []
    request.set_completion_callback(lambda status, value: seen.append((status, value)))
    monkeypatch.setattr(request._request._request, "infer", lambda *_, **__: 1 / 0)
    request.async_infer()
    with pytest.raises(ZeroDivisionError):
        request.wait()
    assert seen == [(int(StatusCode.GENERAL_ERROR), None)]


def test_batches_of_loaded_networks_stay() -> None:
    request = load(make_network()).requests[0]
    request.set_batch(1)
    with pytest.raises(RuntimeError, match="does not support dynamic batches"):
        request.set_batch(2)


def test_outputs_of_other_shapes_get_new_blobs() -> None:
    x = ops.parameter([4], np.float32, name="x")
    network = IENetwork(ov.Model([ops.result(ops.non_zero(x, name="y"))], [x], "net"))
    loaded = load(network)
    request = loaded.requests[0]
    for values in ([0, 1, 1, 0], [1, 1, 1, 0]):
        request.infer({"x": values})
        assert request._output_blobs["y"].buffer.tolist() == [np.flatnonzero(values).tolist()]
        assert request._output_blobs["y"].tensor_desc == TensorDesc("I64", [1, sum(values)], "NC")
