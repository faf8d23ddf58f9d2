"""Values of properties and names of devices, without models, and constants that passes fold."""

from __future__ import annotations

import os
import re
from types import SimpleNamespace

import numpy as np
import pytest

from irrun import openvino as ov
from irrun.openvino import compression, install, passes, preprocess
from irrun.openvino import opset13 as ops
from irrun.openvino.config import Config, parse_device
from irrun.openvino.inference_engine import IECore, IENetwork
from irrun.openvino.passes import predicates
from irrun.openvino.utils.node_factory import NodeFactory

CPUS = os.cpu_count() or 1


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        *(("PERF_COUNT", value, True) for value in (True, 1, "YES", "true", " On ", "1")),
        *(("PERF_COUNT", value, False) for value in (False, 0, "NO", "False", "off", "0")),
        ("INFERENCE_NUM_THREADS", "3", 3),
        ("INFERENCE_NUM_THREADS", 0, 0),
        ("NUM_STREAMS", 4, 4),
        ("NUM_STREAMS", "5", 5),
        ("NUM_STREAMS", 0, 1),
        ("NUM_STREAMS", "AUTO", CPUS),
        ("NUM_STREAMS", "auto", CPUS),
        ("NUM_STREAMS", -1, CPUS),
        ("NUM_STREAMS", "NUMA", 1),
        ("NUM_STREAMS", -2, 1),
        ("INFERENCE_PRECISION_HINT", "f16", ov.Type.f16),
        ("INFERENCE_PRECISION_HINT", "BF16", ov.Type.bf16),
        ("INFERENCE_PRECISION_HINT", ov.Type.f32, ov.Type.f32),
        ("INFERENCE_PRECISION_HINT", "undefined", ov.Type.dynamic),
        ("INFERENCE_PRECISION_HINT", "", ov.Type.dynamic),
    ],
)
def test_values_of_properties(name, value, expected):
    for properties in ({name: value}, (name, value), [(name, value)], ((name, value),)):
        found = Config(properties).get(name)
        assert (found, type(found)) == (expected, type(expected))


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("PERF_COUNT", 2, "Expected only true/false"),
        ("PERF_COUNT", "maybe", "Expected only true/false"),
        ("INFERENCE_NUM_THREADS", -1, "Expected only non-negative numbers"),
        ("INFERENCE_NUM_THREADS", "x", "invalid literal"),
        ("NUM_STREAMS", -3, "Expected only integers >= -1, NUMA or AUTO"),
        ("INFERENCE_PRECISION_HINT", "i8", "Supported values: bf16, f16, f32, dynamic"),
        ("INFERENCE_PRECISION_HINT", "float", "Expected only names of element types"),
    ],
)
def test_values_of_properties_that_are_refused(name, value, message):
    text = f"Wrong value {value} for property key {name}. {message}"
    with pytest.raises(RuntimeError, match=f"^{re.escape(text)}"):
        Config({name: value})


def test_properties_that_are_unknown():
    with pytest.raises(RuntimeError, match=r"^NotFound: Unsupported property OTHER by AUTO plugin\.$"):
        Config({"OTHER": 1}, "AUTO")
    with pytest.raises(RuntimeError, match=r"^Cannot get unsupported property: OTHER$"):
        Config().get("OTHER")
    with pytest.raises(RuntimeError, match=r"^Unsupported property: OTHER$"):
        Config().get_compiled("OTHER", "m")


def test_properties_of_other_devices_are_ignored():
    settings = {"DEVICE_PROPERTIES": {"CPU": {"PERF_COUNT": True}, "GPU": {"OTHER": 1}}}
    assert Config(settings).values == {"PERF_COUNT": True}
    assert Config(settings, "AUTO").values == {"PERF_COUNT": True}
    assert Config({"DEVICE_PROPERTIES": 3}).values == {}
    assert Config().values == {}


def test_requests_that_keep_the_processor_busy():
    assert Config().count_requests() == 1
    assert Config({"PERFORMANCE_HINT": "THROUGHPUT"}).count_requests() == CPUS
    assert Config({"PERFORMANCE_HINT": "LATENCY"}).count_requests() == 1
    assert Config({"NUM_STREAMS": 7, "PERFORMANCE_HINT": "LATENCY"}).count_requests() == 7
    assert Config({"PERFORMANCE_HINT_NUM_REQUESTS": 5, "NUM_STREAMS": 7}).count_requests() == 5
    assert Config({"NUM_STREAMS": 7}).get_compiled("OPTIMAL_NUMBER_OF_INFER_REQUESTS", "m") == 7


def test_precisions():
    assert Config({"INFERENCE_PRECISION_HINT": "f32"}).get_precision() == "f32"
    for hint in ("f16", "bf16", "dynamic"):
        assert Config({"INFERENCE_PRECISION_HINT": hint}).get_precision() == "declared"


def test_properties_of_compiled_models_have_values():
    config = Config({"PERF_COUNT": True, "PERFORMANCE_HINT": "THROUGHPUT", "PERFORMANCE_HINT_NUM_REQUESTS": 3})
    names = ("NETWORK_NAME", "EXECUTION_DEVICES", "LOADED_FROM_CACHE", "PERF_COUNT", "PERFORMANCE_HINT")
    assert [config.get_compiled(name, "m") for name in names] == ["m", ["CPU"], False, "YES", "THROUGHPUT"]
    assert config.get_compiled("PERFORMANCE_HINT_NUM_REQUESTS", "m") == "3"
    assert config.get_compiled("NUM_STREAMS", "m") == 3
    assert Config({"NUM_STREAMS": 2}).get_compiled("NUM_STREAMS", "m") == 2
    assert Config().get_compiled("PERF_COUNT", "m") == "NO"
    supported = config.get_compiled("SUPPORTED_PROPERTIES", "m")
    assert set(supported.values()) == {"RO"}
    assert {"NETWORK_NAME", "PERF_COUNT", "NUM_STREAMS"} <= set(supported)
    for name in supported:
        if name != "SUPPORTED_PROPERTIES":
            config.get_compiled(name, "m")


@pytest.mark.parametrize(
    ("name", "device"),
    [
        ("CPU", "CPU"),
        ("CPU.0", "CPU"),
        ("AUTO", "AUTO"),
        ("AUTO:CPU", "AUTO"),
        ("AUTO:GPU,CPU", "AUTO"),
        ("AUTO:-GPU, CPU.1", "AUTO"),
        ("AUTO:-GPU", "AUTO"),
        ("MULTI:CPU", "AUTO"),
        ("MULTI:CPU(2)", "AUTO"),
        ("HETERO:CPU", "AUTO"),
        ("BATCH:CPU(4)", "AUTO"),
    ],
)
def test_names_of_devices(name, device):
    assert parse_device(name) == device


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("GPU", 'Device with "GPU" name is not available: irrun runs models on the device "CPU" only'),
        ("GPU.1", 'Device with "GPU.1" name is not available'),
        ("NPU", 'Device with "NPU" name is not available'),
        ("AUTO:GPU", 'Device with "GPU" name is not available'),
        ("AUTO:-CPU", 'Device with "AUTO:-CPU" name excludes "CPU"'),
        ("AUTO:-CPU.0", 'Device with "AUTO:-CPU.0" name excludes "CPU"'),
        ("AUTO:-CPU,GPU", 'Device with "GPU" name is not available'),
        ("HETERO:GPU,CPU", 'Device with "GPU" name is not available'),
        ("MULTI", 'Device with "MULTI" name is not available'),
        ("BATCH:GPU(4)", 'Device with "GPU" name is not available'),
        ("CPU:1", 'Device with "CPU:1" name is not registered in the OpenVINO Runtime'),
        ("XPU", 'Device with "XPU" name is not registered in the OpenVINO Runtime'),
        ("AUTO:XPU", 'Device with "XPU" name is not registered in the OpenVINO Runtime'),
    ],
)
def test_names_of_devices_that_are_refused(name, message):
    with pytest.raises(RuntimeError, match=re.escape(message)):
        parse_device(name)


@pytest.mark.parametrize("device", ["AUTO", "MULTI", "HETERO", "BATCH"])
def test_devices_that_combine_devices_take_them_from_a_property(device, classifier):
    core = ov.Core()
    assert core.get_property(device, "FULL_DEVICE_NAME") == device
    compiled = core.compile_model(classifier, device, {"MULTI_DEVICE_PRIORITIES": "CPU"})
    assert compiled.get_property("EXECUTION_DEVICES") == ["CPU"]
    assert compiled.get_property("MULTI_DEVICE_PRIORITIES") == "CPU"
    core.set_property(device, {"MULTI_DEVICE_PRIORITIES": "CPU"})
    assert core.get_property(device, "MULTI_DEVICE_PRIORITIES") == "CPU"
    core.compile_model(classifier, device)
    with pytest.raises(RuntimeError, match='"GPU" name is not available'):
        core.compile_model(classifier, device, {"MULTI_DEVICE_PRIORITIES": "GPU"})


def test_values_of_properties_depend_on_the_device(classifier):
    core = ov.Core()
    hint = ov.properties.hint.PerformanceMode
    compiled = {device: core.compile_model(classifier, device) for device in ("CPU", "AUTO", "MULTI:CPU")}
    values = [model.get_property("PERFORMANCE_HINT") for model in compiled.values()]
    assert values == ["LATENCY", hint.LATENCY, hint.THROUGHPUT]
    assert [model.get_property("PERF_COUNT") for model in compiled.values()] == ["NO", False, False]
    assert compiled["CPU"].get_property("INFERENCE_NUM_THREADS") == CPUS
    core.compile_model(classifier, "AUTO", {"UNKNOWN": 1})  # AUTO passes properties on to devices that know them
    for name in ("MULTI_DEVICE_PRIORITIES", "CACHE_DIR"):
        with pytest.raises(RuntimeError, match=f"Unsupported property: {name}"):
            compiled["CPU"].get_property(name)
    with pytest.raises(RuntimeError, match="Unsupported property MODEL_PRIORITY by CPU plugin"):
        core.compile_model(classifier, "CPU", {"MODEL_PRIORITY": "HIGH"})


def fold(output, *parameters):
    """Return the types of the nodes that are left after constants are folded, and whether there were any."""
    model = ov.Model([ops.result(output)], list(parameters), "m")
    changed = passes.ConstantFolding().run_on_model(model)
    return sorted(node.get_type_name() for node in model.get_ordered_ops()), changed


def test_values_of_constants_are_folded():
    x = ops.parameter([2], np.float32)
    one = ops.constant(np.float32([1, 2]))
    assert fold(ops.add(ops.relu(x), ops.exp(ops.sqrt(one))), x) == (
        ["Add", "Constant", "Parameter", "Relu", "Result"], True
    )  # fmt: skip
    assert fold(ops.add(x, one), x) == (["Add", "Constant", "Parameter", "Result"], False)


def test_random_numbers_and_states_are_not_folded():
    shape, zero, one = ops.constant(np.array([2])), ops.constant(np.float32(0)), ops.constant(np.float32(1))
    random = ops.random_uniform(shape, zero, one, "f32")
    assert fold(random) == (["Constant"] * 3 + ["RandomUniform", "Result"], False)
    parts = ops.split(ops.constant(np.arange(4, dtype=np.float32)), ops.constant(np.int64(0)), 2, name="s")
    types, changed = fold(ops.add(parts.output(0), parts.output(1)))
    assert (types, changed) == (["Constant", "Result"], True)


def test_values_that_cannot_be_computed_stay():
    indices = ops.constant(np.array([0, 1, 7]))
    data = ops.parameter([2], np.float32)
    reshape = ops.reshape(ops.constant(np.float32([1, 2, 3])), ops.constant(np.array([-1])), False)
    assert fold(reshape) == (["Constant", "Result"], True)
    types, changed = fold(ops.gather(data, indices, ops.constant(np.int64(0))), data)
    assert ("Gather" in types, changed) == (True, False)


def test_names_of_folded_values():
    split = ops.split(ops.constant(np.arange(4, dtype=np.float32)), ops.constant(np.int64(0)), 2, name="s")
    model = ov.Model([ops.result(split.output(0)), ops.result(split.output(1))], [], "m")
    passes.ConstantFolding().run_on_model(model)
    assert [result.input_value(0).get_node().get_friendly_name() for result in model.get_results()] == ["s.0", "s.1"]
    exp = ops.exp(ops.constant(np.float32([0])), name="e")
    model = ov.Model([ops.result(exp)], [], "m")
    passes.ConstantFolding().run_on_model(model)
    assert model.get_results()[0].input_value(0).get_node().get_friendly_name() == "e"


@pytest.mark.parametrize(
    ("steps", "message"),
    [
        (lambda p: p.input(3), "index 3|out of range|3"),
        (lambda p: p.input("nothing"), "nothing"),
        (lambda p: p.output(2), "2"),
    ],
)
def test_inputs_of_preprocessing_that_do_not_exist(steps, message):
    x = ops.parameter([1, 3, 4, 4], np.float32, name="x")
    processor = preprocess.PrePostProcessor(ov.Model([ops.result(ops.relu(x))], [x], "m"))
    with pytest.raises(RuntimeError, match=message):
        steps(processor)


@pytest.mark.parametrize("sizes", [(8,), (None, 8)])
def test_images_are_resized_to_a_height_and_a_width(sizes):
    x = ops.parameter([1, 3, 4, 4], np.float32, name="x")
    processor = preprocess.PrePostProcessor(ov.Model([ops.result(ops.relu(x))], [x], "m"))
    with pytest.raises(TypeError, match="expected a height and a width, or neither"):
        processor.input().preprocess().resize(preprocess.ResizeAlgorithm.RESIZE_LINEAR, *sizes)


def test_requests_are_complete_after_runs_and_errors():
    x = ops.parameter([2], np.float32, name="x")
    request = ov.Core().compile_model(ov.Model([ops.result(ops.relu(x))], [x], "m"), "CPU").create_infer_request()
    good, bad = {"x": np.zeros(2, np.float32)}, {"x": np.zeros(3, np.float32)}
    assert request.wait_for(0)
    request.infer(good)
    assert request.wait_for(0)
    for run in (request.infer, request.start_async):
        with pytest.raises(RuntimeError):
            run(bad)
        assert request.wait_for(0)
    request.start_async(good)
    request.wait()
    assert request.wait_for(0)


def test_states_are_not_folded():
    read = ops.read_value(ops.constant(np.float32([1, 2])), "v", np.float32, [2])
    assert fold(ops.relu(read)) == (["Constant", "ReadValue", "Relu", "Result"], False)


def test_values_of_constants_are_found_through_a_few_operations():
    constant = ops.constant(np.int8([1, 2]))
    value = ops.convert(constant, "f32")
    assert compression._find_value(constant.output(0)).tolist() == [1, 2]
    for _ in range(2):
        assert compression._find_value(value.output(0)).tolist() == [1, 2]
        value = ops.relu(value)
    assert compression._find_value(value.output(0)).tolist() == [1, 2]
    assert compression._find_value(ops.relu(value).output(0)) is None  # four operations
    zero = ops.constant(np.float32(0))
    random = ops.random_uniform(ops.constant(np.array([2])), zero, ops.constant(np.float32(1)), "f32")
    split = ops.split(constant, ops.constant(np.int64(0)), 2)
    for output in (ops.parameter([2]).output(0), random.output(0), split.output(0)):
        assert compression._find_value(output) is None


def test_names_follow_the_value_that_an_output_becomes():
    x = ops.parameter([1, 3], np.float32, name="x")
    relu = ops.relu(x)
    relu.output(0).set_names({"y"})
    processor = preprocess.PrePostProcessor(ov.Model([ops.result(relu)], [x], "m"))
    processor.output().tensor().set_element_type(ov.Type.i32)
    model = processor.build()
    assert model.output(0).get_names() == {"y"}
    assert model.output(0).get_element_type() == ov.Type.i32
    assert relu.output(0).get_names() == set()


def test_metadata_of_the_replacement():
    finder = install._Finder("openvino")
    for name in (None, "openvino"):
        (distribution,) = finder.find_distributions(SimpleNamespace(name=name))
        assert (distribution.metadata["Name"], distribution.version) == ("openvino", ov.get_version().partition("-")[0])
    assert list(finder.find_distributions(SimpleNamespace(name="numpy"))) == []
    assert len(list(finder.find_distributions())) == 1
    assert distribution.read_text("entry_points.txt") is None
    assert distribution.read_text("PKG-INFO") == distribution.read_text("METADATA")


@pytest.mark.parametrize(
    "name",
    [
        "CACHE_DIR", "CPU_DENORMALS_OPTIMIZATION", "CPU_SPARSE_WEIGHTS_DECOMPRESSION_RATE", "DEVICE_ID",
        "DYNAMIC_QUANTIZATION_GROUP_SIZE", "ENABLE_CPU_PINNING", "ENABLE_CPU_RESERVATION", "ENABLE_HYPER_THREADING",
        "ENABLE_TENSOR_PARALLEL", "ENABLE_WEIGHTLESS", "EXECUTION_MODE_HINT", "INFERENCE_NUM_THREADS",
        "KEY_CACHE_GROUP_SIZE", "LOG_LEVEL", "MODEL_DISTRIBUTION_POLICY", "NUM_STREAMS", "PERFORMANCE_HINT",
        "PERFORMANCE_HINT_NUM_REQUESTS", "PERF_COUNT", "SCHEDULING_CORE_TYPE", "VALUE_CACHE_GROUP_SIZE", "WEIGHTS_PATH",
    ],
)  # fmt: skip
def test_defaults_of_properties_equal_those_of_openvino(name):
    original = pytest.importorskip("openvino")
    assert str(ov.Core().get_property("CPU", name)) == str(original.Core().get_property("CPU", name))


def test_defaults_of_properties_of_other_devices():
    flags = {
        "ALLOW_AUTO_BATCHING": True,
        "DEVICE_BIND_BUFFER": False,
        "ENABLE_MMAP": True,
        "FORCE_TBB_TERMINATE": False,
    }
    flags |= {"ENABLE_RUNTIME_FALLBACK": True, "ENABLE_STARTUP_FALLBACK": True, "AUTO_BATCH_TIMEOUT": 1000}
    assert {name: Config(device="AUTO").get(name) for name in flags} == flags
    assert Config().get("COMPILATION_NUM_THREADS") == CPUS


def test_layouts_of_postprocessed_outputs():
    x = ops.parameter([1, 3, 4, 5], np.float32, name="x")
    processor = preprocess.PrePostProcessor(ov.Model([ops.result(ops.relu(x))], [x], "m"))
    processor.output().model().set_layout(ov.Layout("NCHW"))
    processor.output().tensor().set_layout(ov.Layout("NHWC"))
    model = processor.build()
    assert model.get_results()[0].get_layout() == ov.Layout("NHWC")
    assert model.output(0).get_shape() == [1, 4, 5, 3]


def test_requests_of_old_networks():
    x = ops.parameter([1, 3], np.float32, name="x")
    model = ov.Model([ops.result(ops.relu(x))], [x], "m")
    network = IENetwork(model)
    for arguments, count in (({}, 1), ({"num_requests": 3}, 3)):
        assert len(IECore().load_network(network, **arguments).requests) == count
    with pytest.raises(ValueError, match="Incorrect number of requests specified: -1"):
        IECore().load_network(network, num_requests=-1)


@pytest.mark.parametrize(
    ("name", "value", "known", "expected", "after"),
    [
        ("?", 3, {}, True, {}),
        ("3", 3, {}, True, {}),
        ("3", 4, {}, False, {}),
        ("3", ov.Dimension(), {}, False, {}),
        ("-1", 3, {}, False, {}),
        ("A", 3, {}, True, {"A": 3}),
        ("A", 3, {"A": 3}, True, {"A": 3}),
        ("A", 3, {"A": 4}, False, {"A": 4}),
        ("A", [1, 2], {"A": [1, 2]}, True, {"A": [1, 2]}),
    ],
)
def test_symbols_of_shapes(name, value, known, expected, after):
    symbols = dict(known)
    assert predicates._bind(symbols, name, value) is expected
    assert symbols == after


def test_dynamic_dimensions_equal_no_other():
    dimension = ov.Dimension()
    assert not predicates._bind({"A": dimension}, "A", dimension)
    with pytest.raises(RuntimeError, match=r"expected at most one \.\.\. in \[A\.\.\., B\.\.\.\]"):
        predicates.shape_matches("[A..., B...]")


class Doubled(ov.Op):
    """An operation of the caller."""

    def __init__(self, *inputs):
        super().__init__(self, list(inputs))


def test_factories_create_operations_of_the_caller():
    x = ops.parameter([2], np.float32)
    for extension in (Doubled, [Doubled], (Doubled,)):
        factory = NodeFactory()
        factory.add_extension(extension)
        assert factory.create("Doubled", [x]).get_type_name() == "Doubled"
    with pytest.raises(RuntimeError, match="irrun runs operations written in Python only"):
        NodeFactory().add_extension("library.so")
    for extension in (3, int):
        with pytest.raises(TypeError, match="Unknown argument type"):
            NodeFactory().add_extension(extension)


def test_factories_take_all_outputs_of_a_node():
    x = ops.parameter([4], np.float32)
    split = ops.split(x, ops.constant(np.int64(0)), 2)
    factory = NodeFactory("opset13")
    node = factory.create("Concat", [split, x.output(0)], {"axis": 0})
    assert [value.get_index() for value in node.input_values()] == [0, 1, 0]
    assert node.get_output_shape(0) == [8]
    assert factory.create("Relu").get_output_size() == 0


def test_ranks_above_a_number():
    pattern = passes.WrapType("opset13.Parameter", predicates.rank_more_than(2))
    shapes = ([2], [2, 3], [2, 3, 4], [-1, -1, -1], ov.PartialShape.dynamic())
    found = [passes.Matcher(pattern, "t").match(ops.parameter(shape)) for shape in shapes]
    assert found == [False, False, True, True, False]


@pytest.mark.parametrize(
    ("name", "default"),
    [
        ("ALLOW_AUTO_BATCHING", True),
        ("AUTO_BATCH_TIMEOUT", 1000),
        ("CACHE_ENCRYPTION_CALLBACKS", None),
        ("CACHE_MODE", ov.properties.CacheMode.OPTIMIZE_SPEED),
        ("COMPILATION_NUM_THREADS", CPUS),
        ("ENABLE_HYPER_THREADING", True),
        ("ENABLE_MMAP", True),
        ("ENABLE_WEIGHTLESS", False),
        ("FORCE_TBB_TERMINATE", False),
        ("INFERENCE_NUM_THREADS", 0),
        ("INFERENCE_PRECISION_HINT", ov.Type.f32),
        ("KEY_CACHE_PRECISION", ov.Type.f32),
        ("KV_CACHE_PRECISION", ov.Type.f32),
        ("VALUE_CACHE_PRECISION", ov.Type.f32),
        ("LOG_LEVEL", ov.properties.log.Level.NO),
        ("SCHEDULE_POLICY", "DEVICE_PRIORITY"),
        ("TBB_PARTITIONER", "NONE"),
    ],
)
def test_defaults_of_properties(name, default):
    value = Config(device="AUTO").get(name)
    assert (value, type(value)) == (default, type(default))


@pytest.mark.parametrize("name", ["", "missing"])
def test_devices_without_names_are_refused(name):
    with pytest.raises(RuntimeError, match="is not registered in the OpenVINO Runtime"):
        parse_device(name)


def test_unknown_numbers_of_processors_count_as_one(monkeypatch):
    monkeypatch.setattr(os, "cpu_count", lambda: None)
    core = ov.Core()
    assert core.get_property("CPU", "RANGE_FOR_STREAMS") == (1, 1)
    core.set_property("CPU", {"NUM_STREAMS": -1})
    assert core.get_property("CPU", "NUM_STREAMS") == 1
