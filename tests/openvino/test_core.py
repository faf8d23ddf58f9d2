"""Reading, compiling and running of models, on OpenVINO and on its replacement."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from openvino_modules import import_submodule

import irrun
from irrun.openvino.properties import enumerations


def test_ports_describe_the_model(ov: Any, classifier: Path) -> None:
    model = ov.Core().read_model(classifier)
    data, scores = model.input(0), model.output("scores")
    assert data.any_name == data.get_any_name() == "data"
    assert data.names == data.get_names() == {"data"}
    assert data.partial_shape == ov.PartialShape([1, 3, 8, 8])
    assert list(data.shape) == [1, 3, 8, 8]
    assert data.get_element_type() == data.element_type == ov.Type.f32
    assert data.index == data.get_index() == 0
    assert data.get_node().get_type_name() == data.node.get_type_name() == "Parameter"
    assert scores.get_node().get_type_name() == "Result"
    assert data == model.input("data")
    assert len({data, model.input("data"), scores}) == 2
    assert repr(data) == "<Output: names[data] shape[1,3,8,8] type: f32>"
    assert data != scores


def test_repr_of_models_matches_openvino(oracle: Any, irrun_ov: Any, classifier: Path) -> None:
    texts = []
    for ov in (oracle, irrun_ov):
        model = ov.Core().read_model(classifier)
        compiled = ov.compile_model(model, "CPU")
        texts.append([repr(model), repr(compiled), repr(compiled.create_infer_request()), repr(compiled.input(0))])
        texts[-1] += [repr(ov.Core()), repr(ov.AsyncInferQueue(compiled, 2))]
    assert texts[0] == texts[1]


def test_model_is_read_from_bytes_and_streams(ov: Any, classifier: Path, image: np.ndarray) -> None:
    core = ov.Core()
    xml, weights = classifier.read_bytes(), classifier.with_suffix(".bin").read_bytes()
    models = [
        core.read_model(str(classifier)),
        core.read_model(classifier, classifier.with_suffix(".bin")),
        core.read_model(model=classifier, weights=""),
        core.read_model(xml, weights),
        core.read_model(io.BytesIO(xml), io.BytesIO(weights)),
        core.read_model(xml, ov.Tensor(np.frombuffer(weights, np.uint8))),
    ]
    results = [core.compile_model(model, "CPU")(image)["scores"] for model in models]
    for result in results[1:]:
        np.testing.assert_allclose(result, results[0], rtol=1e-5)


@pytest.mark.parametrize("key", ["index", "name", "port", "list", "array", "tensor", "tuple"])
def test_inputs_are_passed_in_many_ways(key: str, ov: Any, classifier: Path, image: np.ndarray) -> None:
    compiled = ov.Core().compile_model(classifier, "CPU")
    inputs = {
        "index": {0: image},
        "name": {"data": image},
        "port": {compiled.input(0): image},
        "list": [image],
        "array": image,
        "tensor": ov.Tensor(image),
        "tuple": (image,),
    }[key]
    expected = compiled(image)[0]
    for result in (compiled(inputs), compiled.create_infer_request().infer(inputs), compiled.infer_new_request(inputs)):
        np.testing.assert_allclose(result[0], expected, rtol=1e-5)


def test_results_are_a_mapping_from_ports(ov: Any, classifier: Path, image: np.ndarray) -> None:
    compiled = ov.Core().compile_model(classifier, "CPU")
    results = compiled(image)
    port = compiled.output("features")
    assert list(results) == list(results.keys()) == compiled.outputs
    assert results[port] is results["features"] or np.array_equal(results[port], results["features"])
    assert np.array_equal(results[1], results[port])
    assert len(results) == 2
    assert port in results
    assert [value.shape for value in results.values()] == [(1, 5), (1, 4, 8, 8)]
    assert [value.shape for value in results.to_tuple()] == [(1, 5), (1, 4, 8, 8)]
    assert results.names() == ({"scores"}, {"features"})
    assert set(results.to_dict()) == set(compiled.outputs)
    with pytest.raises(KeyError):
        results["unknown"]
    with pytest.raises(KeyError):
        results[7]


def test_results_match_openvino(oracle: Any, irrun_ov: Any, classifier: Path, image: np.ndarray) -> None:
    expected = oracle.compile_model(classifier, "CPU", {"INFERENCE_PRECISION_HINT": "f32"})(image)
    actual = irrun_ov.compile_model(classifier, "CPU")(image)
    for a, b in zip(actual.to_tuple(), expected.to_tuple(), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("dtype", ["f8", "f2", "i4", "u1", "i8"])
def test_inputs_of_other_types_are_cast(dtype: str, ov: Any, classifier: Path, image: np.ndarray) -> None:
    compiled = ov.Core().compile_model(classifier, "CPU")
    converted = (image * 7).astype(dtype)
    result = compiled(converted)[0]
    np.testing.assert_allclose(result, compiled(converted.astype(np.float32))[0], rtol=1e-5)


def test_wrong_inputs_are_reported(ov: Any, classifier: Path, image: np.ndarray) -> None:
    compiled = ov.Core().compile_model(classifier, "CPU")
    request = compiled.create_infer_request()
    with pytest.raises(RuntimeError, match="Port for tensor name unknown was not found"):
        request.infer({"unknown": image})
    with pytest.raises(RuntimeError, match="_M_range_check"):
        request.infer({5: image})
    with pytest.raises(RuntimeError, match=r"got \[1,1,8,8\] expecting \[1,3,8,8\]"):
        request.infer(image[:, :1].copy())
    with pytest.raises(TypeError, match="key type"):
        request.infer({1.5: image})
    with pytest.raises(RuntimeError, match="Port for tensor name unknown was not found"):
        request.get_tensor("unknown")
    with pytest.raises(RuntimeError, match="Input for tensor name 'unknown' is not found"):
        compiled.input("unknown")
    with pytest.raises(RuntimeError, match="Cannot get output for index: 3 outputs size is 2"):
        compiled.output(3)
    with pytest.raises(IndexError):
        ov.Core().read_model(classifier).input(7)


def test_missing_file_is_reported(ov: Any) -> None:
    with pytest.raises(RuntimeError, match="Could not open the file"):
        ov.Core().read_model("/does/not/exist.xml")


@pytest.mark.parametrize("device", ["GPU", "FOO", "NPU"])
def test_other_devices_raise(device: str, ov: Any, classifier: Path) -> None:
    with pytest.raises(RuntimeError):
        ov.Core().compile_model(classifier, device)


@pytest.mark.parametrize("device", ["CPU", "AUTO", "AUTO:CPU", None])
def test_model_runs_on_a_device(device: str | None, ov: Any, classifier: Path, image: np.ndarray) -> None:
    arguments = [] if device is None else [device]
    assert ov.Core().compile_model(classifier, *arguments)(image)[0].shape == (1, 5)


def test_tensors_share_the_memory_of_the_request(ov: Any, classifier: Path, image: np.ndarray) -> None:
    request = ov.Core().compile_model(classifier, "CPU").create_infer_request()
    expected = request.infer(image)["scores"]
    second = ov.Core().compile_model(classifier, "CPU").create_infer_request()
    scores = second.get_output_tensor(0).data
    second.get_input_tensor().data[:] = image
    second.infer()
    np.testing.assert_allclose(scores, expected, rtol=1e-5)
    np.testing.assert_allclose(second.get_tensor("scores").data, expected, rtol=1e-5)
    np.testing.assert_allclose(second.output_tensors[0].data, expected, rtol=1e-5)
    np.testing.assert_allclose(second.results["scores"], expected, rtol=1e-5)
    assert second.input_tensors[0].shape == ov.Shape([1, 3, 8, 8])
    assert second.latency > 0


def test_set_tensors_are_used(ov: Any, classifier: Path, image: np.ndarray) -> None:
    compiled = ov.Core().compile_model(classifier, "CPU")
    expected = compiled(image)["scores"]
    request = compiled.create_infer_request()
    output = np.zeros((1, 5), np.float32)
    request.set_input_tensor(ov.Tensor(image, shared_memory=True))
    request.set_output_tensor(0, ov.Tensor(output, shared_memory=True))
    request.infer()
    np.testing.assert_allclose(output, expected, rtol=1e-5)
    request.set_tensor("data", ov.Tensor(np.zeros_like(image)))
    request.infer()
    assert not np.allclose(output, expected)
    request.set_tensor(compiled.input(0), ov.Tensor(image))
    request.infer()
    np.testing.assert_allclose(output, expected, rtol=1e-5)
    with pytest.raises(RuntimeError):
        request.set_tensor("data", ov.Tensor(image.astype(np.float64)))
    with pytest.raises(RuntimeError):
        request.set_input_tensor(ov.Tensor(image[:, :2].copy()))


def test_results_belong_to_the_caller_unless_shared(ov: Any, classifier: Path, image: np.ndarray) -> None:
    request = ov.Core().compile_model(classifier, "CPU").create_infer_request()
    first = request.infer(image)["scores"]
    copy = first.copy()
    request.infer(image * 2 + 1)
    np.testing.assert_array_equal(first, copy)
    shared = request.infer(image, share_outputs=True)["scores"]
    before = shared.copy()
    request.infer(image * 2 + 1, share_outputs=True)
    assert not np.array_equal(shared, before)


def test_compiled_model_keeps_the_request_of_its_calls(ov: Any, classifier: Path, image: np.ndarray) -> None:
    """NNCF uses the attribute."""
    compiled = ov.compile_model(classifier, "CPU")
    assert compiled._infer_request is None
    compiled(image)
    assert isinstance(compiled._infer_request, ov.InferRequest)


def test_loaned_results_do_not_change_later(ov: Any, classifier: Path, image: np.ndarray) -> None:
    request = ov.Core().compile_model(classifier, "CPU").create_infer_request()
    first = request.infer(image)["scores"]
    copy = first.copy()
    request.get_output_tensor(0)
    request.infer(image * 2 + 1)
    np.testing.assert_array_equal(first, copy)


def test_shared_inputs_are_not_copied(ov: Any, classifier: Path, image: np.ndarray) -> None:
    request = ov.Core().compile_model(classifier, "CPU").create_infer_request()
    first = request.infer(image, share_inputs=True)["scores"]
    image += 1
    second = request.infer()["scores"]
    assert not np.allclose(first, second)


def test_reshape_changes_inputs_and_outputs(ov: Any, classifier: Path) -> None:
    for shapes in ([2, 3, 8, 8], {0: [2, 3, 8, 8]}, {"data": ov.PartialShape([2, 3, 8, 8])}, "[2,3,8,8]"):
        model = ov.Core().read_model(classifier)
        model.reshape(shapes)
        assert [str(port.partial_shape) for port in model.outputs] == ["[2,5]", "[2,4,8,8]"]
    model.reshape({model.input(0): [-1, 3, 16, 16]})
    assert [str(port.partial_shape) for port in model.outputs] == ["[?,5]", "[?,4,16,16]"]
    assert model.is_dynamic()
    result = ov.Core().compile_model(model, "CPU")(np.zeros((3, 3, 16, 16), np.float32))
    assert result["features"].shape == (3, 4, 16, 16)


def test_bounds_of_dimensions_are_kept(ov: Any, classifier: Path) -> None:
    model = ov.Core().read_model(classifier)
    model.reshape([(1, 4), 3, 8, 8])
    assert [str(port.partial_shape) for port in model.outputs] == ["[1..4,5]", "[1..4,4,8,8]"]


def test_invalid_shape_is_reported_and_undone(ov: Any, classifier: Path) -> None:
    model = ov.Core().read_model(classifier)
    with pytest.raises(RuntimeError, match="While validating node 'opset1::Convolution"):
        model.reshape([1, 3, 8])
    assert str(model.output(1).partial_shape) == "[1,4,8,8]"
    with pytest.raises(RuntimeError, match="not found"):
        model.reshape({"unknown": [1]})
    with pytest.raises(IndexError):
        model.reshape({9: [1]})
    with pytest.raises(TypeError):
        model.reshape(3)


def test_graph_is_read(ov: Any, classifier: Path) -> None:
    model = ov.Core().read_model(classifier)
    types = [node.get_type_name() for node in model.get_ordered_ops()]
    counts = {name: types.count(name) for name in types}
    assert counts["Constant"] == 3
    assert counts["Result"] == 2
    order = ["Parameter", "Convolution", "Relu", "ReduceMean", "MatMul", "Softmax"]
    assert [node_type for node_type in types if node_type in order] == order
    assert len(model.get_ops()) == 11
    softmax = next(node for node in model.get_ops() if node.get_type_name() == "Softmax")
    assert softmax.get_friendly_name() == "classes"
    assert softmax.get_attributes() == {"axis": 1}
    assert softmax.get_type_info().version_id == "opset8"
    assert softmax.input(0).get_source_output().get_node().get_type_name() == "MatMul"
    assert [t.get_node().get_type_name() for t in softmax.output(0).get_target_inputs()] == ["Result"]
    assert model.get_parameters()[0].get_friendly_name() == "data"
    assert len(model.get_results()) == 2
    assert model.get_parameter_index(model.get_parameters()[0]) == 0
    assert model.friendly_name == model.get_friendly_name() == "classifier"


def test_nodes_are_found_from_the_results_upwards(oracle: Any, irrun_ov: Any, classifier: Path) -> None:
    names = [[n.get_friendly_name() for n in ov.Core().read_model(classifier).get_ops()] for ov in (oracle, irrun_ov)]
    assert names[0] == names[1]


def test_all_processors_are_used_by_automatic_streams(ov: Any, classifier: Path) -> None:
    for streams in ("AUTO", -1, ov.properties.streams.Num.AUTO):
        compiled = ov.compile_model(classifier, "CPU", {"NUM_STREAMS": streams})
        expected = ov.compile_model(classifier, "CPU", {"PERFORMANCE_HINT": "THROUGHPUT"})
        name = "OPTIMAL_NUMBER_OF_INFER_REQUESTS"
        assert compiled.get_property(name) == expected.get_property(name)


def test_clone_is_independent(ov: Any, classifier: Path) -> None:
    model = ov.Core().read_model(classifier)
    copy = model.clone()
    copy.reshape([4, 3, 8, 8])
    assert str(model.input(0).partial_shape) == "[1,3,8,8]"
    assert str(copy.output(0).partial_shape) == "[4,5]"


def test_outputs_are_added(ov: Any, classifier: Path, image: np.ndarray) -> None:
    model = ov.Core().read_model(classifier)
    relu = next(node for node in model.get_ops() if node.get_type_name() == "Convolution")
    added = model.add_outputs(relu.output(0))
    assert len(model.outputs) == 3
    assert added[0].get_node().get_type_name() == "Result"
    added[0].set_names({"convolution"})
    results = ov.Core().compile_model(model, "CPU")(image)
    np.testing.assert_allclose(np.maximum(results["convolution"], 0), results["features"], atol=1e-6)
    with pytest.raises(RuntimeError, match="was not found"):
        model.add_outputs("unknown")


def test_runtime_information_is_nested(ov: Any, classifier: Path, tmp_path: Path) -> None:
    model = ov.Core().read_model(classifier)
    model.set_rt_info("detector", ["model_info", "model_type"])
    model.set_rt_info("a b c", ["model_info", "labels"])
    model.set_rt_info("1.5", "threshold")
    ov.save_model(model, tmp_path / "saved.xml", compress_to_fp16=False)
    for current in (model, ov.Core().read_model(tmp_path / "saved.xml")):
        assert current.get_rt_info(["model_info", "model_type"]).astype(str) == "detector"
        assert current.get_rt_info(["model_info", "labels"]).value == "a b c"
        assert current.get_rt_info("threshold").astype(float) == 1.5
        assert current.has_rt_info(["model_info", "labels"])
        assert not current.has_rt_info(["model_info", "unknown"])
        assert current.rt_info["threshold"].value == "1.5"
        with pytest.raises(
            RuntimeError, match=r"Cannot get runtime attribute\. Path to runtime attribute is incorrect"
        ):
            current.get_rt_info(["model_info", "unknown"])


def test_saved_model_gives_the_same_results(ov: Any, classifier: Path, image: np.ndarray, tmp_path: Path) -> None:
    model = ov.Core().read_model(classifier)
    expected = ov.compile_model(model, "CPU")(image)[0]
    ov.save_model(model, tmp_path / "half.xml")
    ov.serialize(model, str(tmp_path / "whole.xml"), str(tmp_path / "other.bin"))
    half = ov.compile_model(tmp_path / "half.xml", "CPU")(image)[0]
    whole = ov.Core().read_model(tmp_path / "whole.xml", tmp_path / "other.bin")
    np.testing.assert_allclose(half, expected, rtol=2e-2)
    np.testing.assert_allclose(ov.compile_model(whole, "CPU")(image)[0], expected, rtol=1e-5)
    assert (tmp_path / "half.bin").stat().st_size < (tmp_path / "other.bin").stat().st_size


def test_files_are_exchanged_with_openvino(
    oracle: Any, irrun_ov: Any, classifier: Path, image: np.ndarray, tmp_path: Path
) -> None:
    model = irrun_ov.Core().read_model(classifier)
    for compress in (False, True):
        irrun_ov.save_model(model, tmp_path / "saved.xml", compress)
        expected = oracle.compile_model(classifier, "CPU")(image)[0]
        actual = oracle.compile_model(tmp_path / "saved.xml", "CPU")(image)[0]
        np.testing.assert_allclose(actual, expected, rtol=2e-2 if compress else 1e-4)


def test_compiled_model_is_exported_and_imported(ov: Any, classifier: Path, image: np.ndarray) -> None:
    core = ov.Core()
    compiled = core.compile_model(classifier, "CPU")
    stream = io.BytesIO()
    compiled.export_model(stream)
    for source in (compiled.export_model(), stream):
        imported = core.import_model(source, "CPU")
        np.testing.assert_allclose(imported(image)[0], compiled(image)[0], rtol=1e-5)
    with pytest.raises(TypeError):
        core.import_model(None, "CPU")
    with pytest.raises(TypeError):
        ov.save_model(None, "model.xml")
    with pytest.raises(TypeError):
        ov.AsyncInferQueue(core.read_model(classifier))


def test_properties_of_devices(ov: Any) -> None:
    core = ov.Core()
    assert core.available_devices == ["CPU"]
    assert isinstance(core.get_property("CPU", "FULL_DEVICE_NAME"), str)
    assert "PERFORMANCE_HINT" in core.get_property("CPU", "SUPPORTED_PROPERTIES")
    assert core.get_property("CPU", ov.properties.execution_devices) == ["CPU"]
    core.set_property("CPU", {"INFERENCE_NUM_THREADS": 1})
    assert core.get_property("CPU", "INFERENCE_NUM_THREADS") == 1
    core.set_property("CPU", {ov.properties.num_streams(): 2})
    assert core.get_property("CPU", ov.properties.num_streams) == 2
    core.set_property({"CACHE_DIR": "folder"})
    assert core.get_property(ov.properties.cache_dir) == "folder"
    core.set_property({"CACHE_DIR": ""})
    core.set_property("CPU", properties={"INFERENCE_NUM_THREADS": 2})
    core.set_property(properties={"PERF_COUNT": False}, device_name="CPU")
    assert core.get_property(device_name="CPU", property="INFERENCE_NUM_THREADS") == 2
    with pytest.raises(TypeError):
        core.set_property(device_name="CPU")
    version = core.get_versions("CPU")["CPU"]
    assert (version.major, version.minor) == (2026, 4)


def test_unknown_properties_are_reported(ov: Any, classifier: Path) -> None:
    core = ov.Core()
    with pytest.raises(RuntimeError, match="Unsupported property FOO by CPU plugin"):
        core.compile_model(classifier, "CPU", {"FOO": 1})
    with pytest.raises(RuntimeError, match="Unsupported property FOO by CPU plugin"):
        core.set_property("CPU", {"FOO": 1})
    with pytest.raises(RuntimeError, match="Cannot get unsupported property: FOO"):
        core.get_property("CPU", "FOO")
    with pytest.raises(RuntimeError, match="PERFORMANCE_HINT"):
        core.compile_model(classifier, "CPU", {"PERFORMANCE_HINT": "FOO"})
    with pytest.raises(RuntimeError, match="Unsupported property: FOO"):
        core.compile_model(classifier, "CPU").get_property("FOO")


def test_properties_of_compiled_models(ov: Any, classifier: Path) -> None:
    hint = ov.properties.hint
    for config in (
        {"PERFORMANCE_HINT": "THROUGHPUT"},
        {hint.performance_mode: hint.PerformanceMode.THROUGHPUT},
        dict([hint.performance_mode(hint.PerformanceMode.THROUGHPUT)]),
    ):
        compiled = ov.Core().compile_model(classifier, "CPU", config)
        assert compiled.get_property("PERFORMANCE_HINT") == "THROUGHPUT"
        assert compiled.get_property("PERF_COUNT") == "NO"
        assert compiled.get_property(ov.properties.optimal_number_of_infer_requests) >= 1
    assert compiled.get_property("NETWORK_NAME") == "classifier"
    assert compiled.get_property("EXECUTION_DEVICES") == ["CPU"]
    precise = ov.Core().compile_model(classifier, "CPU", {"INFERENCE_PRECISION_HINT": "f32"})
    assert precise.get_property(hint.inference_precision) == ov.Type.f32


def test_property_objects_match_openvino(oracle: Any, irrun_ov: Any) -> None:
    import importlib

    for name in ("", ".hint", ".device", ".streams", ".log", ".intel_cpu", ".intel_gpu", ".intel_auto", ".intel_npu"):
        expected = importlib.import_module(f"openvino.properties{name}")
        actual = importlib.import_module(f"irrun.openvino.properties{name}")
        for attribute in actual.__all__:
            if isinstance(getattr(actual, attribute), str) and attribute != "cache_encryption_callbacks":
                assert getattr(actual, attribute) == getattr(expected, attribute), attribute
        for attribute in dir(expected):
            value = getattr(expected, attribute)
            if hasattr(value, "__members__"):
                members = getattr(actual, attribute).__members__
                assert {k: int(v) for k, v in members.items()} == {k: int(v) for k, v in value.__members__.items()}
    assert repr(enumerations.PerformanceMode.LATENCY) == repr(oracle.properties.hint.PerformanceMode.LATENCY)


def test_supported_layers_are_queried(ov: Any, classifier: Path) -> None:
    devices = ov.Core().query_model(ov.Core().read_model(classifier), "CPU")
    assert devices["classes"] == "CPU"


def test_other_formats_are_refused(irrun_ov: Any, tmp_path: Path) -> None:
    path = tmp_path / "model.tflite"
    path.write_bytes(b"\x1c\0\0\0TFL3\n")
    message = rf"^{path} is a TensorFlow Lite model; .*convert it with `ovc {path}` \(pip install openvino\)$"
    for read in (irrun_ov.Core().read_model, irrun_ov.Core().compile_model):
        with pytest.raises(RuntimeError, match=message):
            read(path)
    with pytest.raises(RuntimeError, match=r"^this is a TensorFlow Lite model"):
        irrun_ov.Core().read_model(path.read_bytes())
    with pytest.raises(RuntimeError, match="Could not open the file"):
        irrun_ov.Core().read_model(tmp_path / "other.tflite")
    with pytest.raises(RuntimeError, match="Install openvino"):
        irrun_ov.convert_model("model.tflite")


def test_profiling_names_the_layers(ov: Any, classifier: Path, image: np.ndarray) -> None:
    request = ov.Core().compile_model(classifier, "CPU", {"PERF_COUNT": True}).create_infer_request()
    request.infer(image)
    names = {info.node_type for info in request.profiling_info}
    assert {"Convolution", "Softmax"} & names
    assert all(info.real_time.total_seconds() >= 0 for info in request.get_profiling_info())
    assert ov.ProfilingInfo.Status.EXECUTED in {info.status for info in request.profiling_info}
    assert ov.ProfilingInfo.Status.EXECUTED.name == "EXECUTED"


def test_operation_in_python_runs_with_its_own_attributes(ov: Any, tmp_path: Path) -> None:
    """In a model that a program builds, it need not be registered. In a file, each run has an instance of its own."""

    class Scale(ov.Op):
        def __init__(self, inputs: Any = None, factor: float = 5.0) -> None:
            super().__init__(self, inputs)
            self.factor = factor

        def validate_and_infer_types(self) -> None:
            self.set_output_type(0, self.get_input_element_type(0), self.get_input_partial_shape(0))

        def clone_with_new_inputs(self, new_inputs: Any) -> Any:
            return Scale(new_inputs, self.factor)

        def evaluate(self, outputs: Any, inputs: Any, *_: Any) -> bool:
            outputs[0].data[:] = inputs[0].data * self.factor
            return True

        def has_evaluate(self) -> bool:
            return True

    x = ov.opset8.parameter([2], np.float32, name="x")
    inner = Scale([x.output(0)], 2.0)
    model = ov.Model([inner.output(0), Scale([inner.output(0)], 3.0).output(0)], [x], "model")
    core = ov.Core()
    first, second = core.compile_model(model, "CPU")(np.array([1, -2], np.float32)).to_tuple()
    assert (first.tolist(), second.tolist()) == ([2, -4], [6, -12])
    core.add_extension(Scale)
    ov.save_model(model, tmp_path / "model.xml")
    assert core.compile_model(tmp_path / "model.xml", "CPU")(np.array([1, 1], np.float32))[1].tolist() == [25, 25]


def test_state_of_a_wrong_shape_is_a_runtime_error(ov: Any) -> None:
    ops = ov.opset8
    x = ops.parameter([1, 3], np.float32)
    value = ov.opset6.read_value(x, "v", np.float32, ov.PartialShape([1, 3]))
    model = ov.Model([value.output(0)], [ov.opset6.assign(value, "v")], [x], "model")
    request = ov.compile_model(model, "CPU").create_infer_request()
    with pytest.raises(RuntimeError):
        request.query_state()[0].state = ov.Tensor(np.zeros((1, 4), np.float32))


def test_types_of_inputs_and_outputs_of_ir_v10_are_those_of_openvino(
    oracle: Any, irrun_ov: Any, tmp_path: Path
) -> None:
    ops = oracle.opset8
    dtypes = [np.float16, np.float64, np.int64, np.int32, np.uint8, bool, np.uint32, np.float32]
    inputs = [ops.parameter([2], dtype, name=f"x{i}") for i, dtype in enumerate(dtypes)]
    model = oracle.Model([ops.concat([x, x], 0) for x in inputs], inputs, "model")
    oracle.serialize(model, tmp_path / "model.xml")
    text = (tmp_path / "model.xml").read_text()
    text = text.replace('version="11"', 'version="10"').replace('precision="FP16" names="', 'precision="FP32" names="')
    (tmp_path / "model.xml").write_text(text)  # a wrong declaration has no effect
    models = [ov.Core().read_model(tmp_path / "model.xml") for ov in (oracle, irrun_ov)]
    for expected, actual in zip(*([*m.inputs, *m.outputs] for m in models), strict=True):
        assert actual.element_type.to_string() == expected.element_type.to_string()
        assert actual.names == expected.names
    assert len({port.element_type.to_string() for port in models[1].outputs}) == 2
    outputs = irrun_ov.compile_model(models[1], "CPU")(
        [np.array([0, 1], port.element_type.to_dtype()) for port in models[1].inputs]
    )
    assert [value.tolist() for value in outputs.values()] == [[0, 1, 0, 1]] * len(dtypes)


def test_layouts_are_exchanged_with_openvino(oracle: Any, irrun_ov: Any, tmp_path: Path) -> None:
    for writer, reader in ((oracle, irrun_ov), (irrun_ov, oracle), (irrun_ov, irrun_ov)):
        x = writer.opset8.parameter([1, 3, 2, 2], np.float32)
        x.set_layout(writer.Layout("NCHW"))
        result = writer.opset8.result(writer.opset8.relu(x))
        result.set_layout(writer.Layout("N..."))
        writer.save_model(writer.Model([result], [x], "model"), tmp_path / "model.xml")
        model = reader.Core().read_model(tmp_path / "model.xml")
        assert str(model.get_parameters()[0].layout) == "[N,C,H,W]"
        assert str(model.get_results()[0].layout) == "[N,...]"
        if reader is irrun_ov:  # a new layout replaces the one in the file
            model.get_parameters()[0].set_layout(reader.Layout("NHWC"))
            reader.save_model(model, tmp_path / "changed.xml")
            changed = oracle.Core().read_model(tmp_path / "changed.xml")
            assert str(changed.get_parameters()[0].layout) == "[N,H,W,C]"


def test_number_of_threads_is_a_property(irrun_ov: Any, classifier: Path) -> None:
    core = irrun_ov.Core()
    model = core.read_model(classifier)
    assert core.compile_model(model, "CPU", {"INFERENCE_NUM_THREADS": 1})._irrun.threads == 1
    assert core.compile_model(model, "CPU", {"INFERENCE_NUM_THREADS": 3})._irrun.threads == 3
    default = irrun.compile_model(classifier).threads
    assert core.compile_model(model, "CPU", {"INFERENCE_NUM_THREADS": 0})._irrun.threads == default
    assert core.compile_model(model, "CPU")._irrun.threads == default


@pytest.mark.parametrize(
    ("shape", "expected"), [([-1, 3], [0, 3]), ([(2, 5), 3], [0, 3]), ([(0, 4), -1], [0, 0])], ids=str
)
def test_memory_of_dynamic_dimensions_is_empty(ov: Any, shape: Any, expected: list[int]) -> None:
    ops = import_submodule(ov, "opset13")
    x = ops.parameter(ov.PartialShape(shape), np.float32, "x")
    request = ov.compile_model(ov.Model([ops.relu(x)], [x], "m"), "CPU").create_infer_request()
    assert list(request.get_input_tensor().shape) == expected
    assert list(request.get_output_tensor().shape) == expected


@pytest.mark.parametrize("shape", [(0, 3), (2, 3), ()], ids=str)
def test_constants_share_memory_of_any_size(ov: Any, shape: tuple[int, ...]) -> None:
    values = np.ones(shape, np.float32)
    constant = ov.op.Constant(values, shared_memory=True)
    assert tuple(constant.shape) == shape
    np.testing.assert_array_equal(constant.data, values)
    values[...] = 2
    np.testing.assert_array_equal(constant.data, values)


OLD_LAYERS = """<?xml version="1.0"?>
<net name="old" version="10">
    <layers>
        <layer id="0" name="x" type="Parameter" version="opset1">
            <data shape="1,1,4,4" element_type="f32"/><output><port id="0" precision="FP32">
                <dim>1</dim><dim>1</dim><dim>4</dim><dim>4</dim></port></output></layer>
        <layer id="1" name="pool" type="MaxPool" version="opset1">
            <data kernel="2,2" pads_begin="0,0" pads_end="0,0" strides="2,2" output_padding="0,0"/>
            <input><port id="0"><dim>1</dim><dim>1</dim><dim>4</dim><dim>4</dim></port></input>
            <output><port id="1" precision="FP32"><dim>1</dim><dim>1</dim><dim>2</dim><dim>2</dim></port></output>
        </layer>
        <layer id="2" name="y" type="Result" version="opset1">
            <input><port id="0"><dim>1</dim><dim>1</dim><dim>2</dim><dim>2</dim></port></input></layer>
    </layers>
    <edges>
        <edge from-layer="0" from-port="0" to-layer="1" to-port="0"/>
        <edge from-layer="1" from-port="1" to-layer="2" to-port="0"/>
    </edges>
    <meta_data>
        <MO_version value="2021.4"/>
        <cli_parameters>
            <scale value="2"/><data_type value="FP16"/><unset unset_cli_parameters="batch, mean"/>
        </cli_parameters>
    </meta_data>
</net>
"""


def test_meta_data_of_old_files_is_runtime_information(oracle: Any, irrun_ov: Any) -> None:
    found = []
    for ov in (oracle, irrun_ov):
        model = ov.Core().read_model(OLD_LAYERS.encode())
        model.set_rt_info("v", ["b", "z"])
        model.set_rt_info("v", ["b", "a"])
        parameters = model.rt_info["conversion_parameters"]
        parameters = getattr(parameters, "value", parameters)
        texts = {name: getattr(value, "value", value) for name, value in parameters.items()}
        names = [name for name in model.rt_info if name != "optimization"]  # which has the settings of POT
        found.append((names, list(texts.items()), model.rt_info["version"].value, list(model.rt_info["b"])))
        node = next(node for node in model.get_ops() if node.get_type_name() == "MaxPool")
        found[-1] += (sorted(node.get_attributes().items()),)
    assert found[0] == found[1]
    assert found[1][0] == ["MO_version", "b", "conversion_parameters", "version"]


@pytest.mark.parametrize(
    ("element_type", "value", "expected"),
    [
        ("string", ["a", "b"], [2]),
        ("string", ["a"], [1]),
        ("string", [["a", "b"], ["c", "d"], ["e", "f"]], [3, 2]),
        ("i64", [1, 2, 3], [3]),
        ("i64", [[1, 2]], [1, 2]),
        ("f64", [0.5, 1.5], [2]),
    ],
)
@pytest.mark.parametrize("share_inputs", [False, True])
def test_a_list_of_numbers_or_texts_is_one_input(ov, element_type, value, expected, share_inputs):
    ops = import_submodule(ov, "opset8")
    data = ops.parameter(ov.PartialShape([-1] * len(expected)), getattr(ov.Type, element_type))
    compiled = ov.compile_model(ov.Model([ops.shape_of(data)], [data]), "CPU")
    assert compiled(value, share_inputs=share_inputs)[0].tolist() == expected


def test_a_list_of_numbers_is_not_converted_to_the_type_of_the_input(ov):
    ops = import_submodule(ov, "opset8")
    data = ops.parameter([2], ov.Type.f32)
    compiled = ov.compile_model(ov.Model([ops.relu(data)], [data]), "CPU")
    with pytest.raises(RuntimeError, match=r"element type|ParameterMismatch|tensor"):
        compiled([0.5, 1.5])


@pytest.mark.parametrize("layout", ["N?", "NCHW...C", "NC...", "NCHW", "..."])
@pytest.mark.parametrize("shape", [[1, 3, 4, 4], [-1, 3], [1], []])
def test_layouts_fit_the_ranks_of_inputs_and_outputs(ov: Any, layout: str, shape: list[int]) -> None:
    ops = import_submodule(ov, "opset8")
    data = ops.parameter(ov.PartialShape(shape), ov.Type.f32)
    model = ov.Model([ops.relu(data)], [data])
    named = len(layout.replace("...", ""))
    fits = named <= len(shape) if "..." in layout else named == len(shape)
    if layout == "NCHW...C":
        with pytest.raises(RuntimeError, match="multiple times"):
            ov.Layout(layout)
        return
    for node in (model.get_parameters()[0], model.get_results()[0]):
        if fits:
            node.set_layout(ov.Layout(layout))
            assert node.get_layout() == ov.Layout(layout)
        else:
            with pytest.raises(RuntimeError, match="is not compatible with shape"):
                node.set_layout(ov.Layout(layout))


def test_absent_devices_accept_properties(ov: Any) -> None:
    core = ov.Core()
    core.set_property("GPU", {"PERFORMANCE_HINT": "LATENCY", "CONFIG_FILE": "kernels.xml"})
    core.set_property("NPU", {"NPU_TURBO": True})
    with pytest.raises(RuntimeError, match="is not registered"):
        core.set_property("MYRIAD", {"PERFORMANCE_HINT": "LATENCY"})


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("LOG_LEVEL", "LOG_NONE"),
        ("LOG_LEVEL", "LOG_ERROR"),
        ("LOG_LEVEL", "LOG_DEBUG"),
        ("CPU_RUNTIME_CACHE_CAPACITY", "0"),
        ("EXCLUSIVE_ASYNC_REQUESTS", "YES"),
        ("LP_TRANSFORMS_MODE", "NO"),
        ("SNIPPETS_MODE", "DISABLE"),
    ],
)
def test_unlisted_properties_and_texts_of_levels_are_accepted(ov: Any, classifier: Path, name: str, value: str) -> None:
    compiled = ov.Core().compile_model(classifier, "CPU", {name: value})
    if name == "LOG_LEVEL":
        expected = {"LOG_NONE": "NO", "LOG_ERROR": "ERR"}.get(value, value.removeprefix("LOG_"))
        assert compiled.get_property(name).name == expected
    assert name == "LOG_LEVEL" or name not in ov.Core().get_property("CPU", "SUPPORTED_PROPERTIES")


def test_values_of_unlisted_properties_are_checked(ov: Any, classifier: Path) -> None:
    with pytest.raises(RuntimeError, match="Wrong value x for property key CPU_RUNTIME_CACHE_CAPACITY"):
        ov.Core().compile_model(classifier, "CPU", {"CPU_RUNTIME_CACHE_CAPACITY": "x"})
