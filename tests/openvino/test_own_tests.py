"""What OpenVINO's own Python tests check, by class of cause, and the tool that runs them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import own_tests
import pytest
from openvino_modules import import_submodule


def test_all_outputs_of_a_node_become_outputs_of_a_model(ov: Any) -> None:
    ops = import_submodule(ov, "opset8")
    data = ops.parameter([4], np.float32, name="data")
    halves = ops.split(data, 0, 2)
    assert [list(port.shape) for port in ov.Model(halves, [data]).outputs] == [[2], [2]]
    assert [list(port.shape) for port in ov.Model([halves, data], [data]).outputs] == [[2], [4]]


def test_ports_are_found_by_keywords(ov: Any) -> None:
    ops = import_submodule(ov, "opset8")
    data = ops.parameter([4], np.float32, name="data")
    model = ov.Model(ops.relu(data), [data])
    for owner in (model, ov.compile_model(model, "CPU")):
        assert owner.input(tensor_name="data").any_name == "data"
        assert owner.input(index=0).any_name == "data"
        assert list(owner.output(index=0).shape) == [4]


def test_factories_create_nodes_that_are_connected_later(ov: Any) -> None:
    ops = import_submodule(ov, "opset8")
    factory = import_submodule(ov, "utils.node_factory").NodeFactory("opset1")
    node = factory.create("TopK")
    assert (node.get_type_name(), node.get_input_size(), node.get_output_size()) == ("TopK", 0, 0)
    data, k = ops.parameter([2, 10], np.int32), ops.constant(3, np.int32)
    node.set_arguments(factory._arguments_as_outputs([data, k]))
    for name, value in {"axis": 1, "mode": "max", "sort": "value"}.items():
        node.set_attribute(name, value)
    node.validate_and_infer_types()
    assert [list(node.get_output_shape(i)) for i in range(node.get_output_size())] == [[2, 3], [2, 3]]
    with pytest.raises(RuntimeError, match="Nope"):
        factory.create("Nope")


def test_padding_does_not_change_other_axes_of_the_first_interpolate(ov: Any) -> None:
    ops = import_submodule(ov, "opset1")
    attributes = {"axes": np.array([2, 3]), "mode": "cubic", "pads_begin": np.array([2, 2])}
    node = ops.interpolate(ops.parameter([1, 3, 8, 8], np.float32), np.array([4, 4]), attributes)
    assert list(node.get_output_shape(0)) == [1, 3, 4, 4]


def test_constants_are_made_of_tensors(ov: Any) -> None:
    ops = import_submodule(ov, "opset13")
    values = np.ones((2, 3), np.float32)
    tensor = ov.Tensor(values, [2, 3], ov.Type.f32)
    assert np.shares_memory(ops.constant(tensor=tensor, shared_memory=True).data, values)
    assert not np.shares_memory(ops.constant(tensor=tensor, shared_memory=False).data, values)
    with pytest.raises(TypeError):
        ops.constant(ov.Type.f32, [2], [1, 2])


def test_kind_of_memory_is_stated_by_the_input(ov: Any) -> None:
    ops = import_submodule(ov, "opset8")
    data = ops.parameter([4], np.float32)
    processor = import_submodule(ov, "preprocess").PrePostProcessor(ov.Model(ops.relu(data), [data]))
    processor.input().tensor().set_memory_type("surface")
    assert [key for key in processor.build().input().rt_info if "memory_type" in key]


def test_tensors_are_allocated_by_the_name_of_a_type(ov: Any) -> None:
    tensor = ov.Tensor("float32", ov.Shape([2, 1]))
    assert (tensor.element_type, list(tensor.shape)) == (ov.Type.f32, [2, 1])


def test_dimensions_of_a_shape_are_assigned(ov: Any) -> None:
    shape = ov.Shape([1, 2])
    shape[0] = ov.Dimension(3)
    assert list(shape) == [3, 2]
    with pytest.raises(RuntimeError, match="dynamic"):
        shape[0] = ov.Dimension()


def test_functions_of_utils_are_attributes(ov: Any) -> None:
    import_submodule(ov, "utils")
    assert ov.utils.types.get_dtype(ov.Type.i8) == np.int8
    with pytest.raises(AttributeError):
        _ = ov.utils.nothing


@pytest.mark.parametrize(
    ("call", "kind", "message"),
    [
        (lambda ov: ov.Dimension("?..5"), RuntimeError, 'Cannot parse min bound: "?"'),
        (lambda ov: ov.Dimension("5..?"), RuntimeError, 'Cannot parse max bound: "?"'),
        (lambda ov: ov.Dimension("C"), RuntimeError, 'Cannot parse dimension: "C"'),
        (lambda ov: ov.PartialShape("[?,,3]"), RuntimeError, '"[?,,3]" is incorrect'),
        (lambda ov: import_submodule(ov, "passes").Manager().register_pass(5), TypeError, "Invoked with:"),
        (lambda ov: make_model(ov).add_outputs(0), TypeError, "a value to add as output."),
        (lambda ov: make_model(ov).add_outputs([0, 0]), TypeError, "a value to add as output at index 0"),
        (lambda ov: make_model(ov).get_sink_index(0), TypeError, "Sink node is expected as argument."),
        (lambda ov: make_model(ov).reshape({0: [2]}, {0: [2]}), TypeError, "Incorrect key type <class 'int'>"),
        (lambda ov: make_model(ov).reshape({0: [2]}, {"v": range(3)}), TypeError, "type <class 'range'>"),
        (lambda ov: make_model(ov).reshape({make_model(ov).input().node: [2]}), TypeError, "op.Parameter'> to reshape"),
        (lambda ov: evaluate_wrong_shape(ov), RuntimeError, "Cannot evaluate model!"),
        (lambda ov: ov.Core().read_model(3), TypeError, "object type <class 'int'> isn't supported"),
        (lambda ov: ov.Core().compile_model(3, "CPU"), RuntimeError, "Path: '3' does not exist."),
        (lambda ov: run_with_key(ov, False), TypeError, "Incompatible key type for input: 0.5"),
        (lambda ov: run_with_key(ov, True), TypeError, "Unsupported key type: <class 'float'>"),
    ],
)
def test_errors_say_what_programs_look_for(ov: Any, call: Any, kind: type[Exception], message: str) -> None:
    with pytest.raises(kind) as raised:
        call(ov)
    assert message in str(raised.value)


def test_shapes_that_do_not_fit_are_inconsistent(irrun_ov: Any) -> None:
    ops = import_submodule(irrun_ov, "opset8")
    with pytest.raises(RuntimeError, match="Argument shapes are inconsistent"):
        ops.add(ops.parameter([2, 3]), ops.parameter([4]))


def test_properties_check_their_values(ov: Any) -> None:
    properties, hint = import_submodule(ov, "properties"), import_submodule(ov, "properties.hint")
    device, streams = import_submodule(ov, "properties.device"), import_submodule(ov, "properties.streams")
    assert properties.enable_profiling(1)[1].value is True
    assert properties.auto_batch_timeout(np.uint32(37))[1].value == 37
    assert streams.num(streams.Num.AUTO)[1].value == streams.Num().to_integer() == -1
    assert hint.activations_scale_factor(2)[1].value == 2.0
    assert device.priorities("CPU", "GPU")[1].value == "CPU,GPU,"
    low = import_submodule(ov, "properties.intel_gpu.hint").ThrottleLevel.LOW
    assert hint.model_priority(low)[1].value == hint.Priority.LOW
    assert [str(member) for member, _ in getattr(hint.Priority, "__entries").values()][2:] == [
        "Priority.HIGH",
        "Priority.MEDIUM",
    ]
    calls: list[Any] = [
        lambda: properties.supported_properties("x"),
        lambda: properties.cache_dir(6),
        lambda: properties.auto_batch_timeout(-3),
        lambda: properties.enable_mmap("x"),
        lambda: hint.inference_precision("f32"),
        lambda: hint.activations_scale_factor(None),
        lambda: device.priorities("CPU", 6),
    ]
    for call in calls:
        with pytest.raises(TypeError):
            call()


def test_devices_say_what_they_can_do(ov: Any) -> None:
    core = ov.Core()
    assert "EXPORT_IMPORT" in core.get_property("CPU", "OPTIMIZATION_CAPABILITIES")
    assert core.get_property("CPU", "OPTIMAL_NUMBER_OF_INFER_REQUESTS") >= 1


def test_tensors_of_a_batch_are_read_at_each_run(ov: Any) -> None:
    ops = import_submodule(ov, "opset8")
    data = ops.parameter([2, 3], np.float32, name="data")
    data.set_layout(ov.Layout("N..."))
    request = ov.compile_model(ov.Model(ops.add(data, np.float32(1)), [data]), "CPU").create_infer_request()
    arrays = [np.zeros((1, 3), np.float32) for _ in range(2)]
    request.set_input_tensors([ov.Tensor(array, shared_memory=True) for array in arrays])
    with pytest.raises(RuntimeError, match="get_tensor shall not be used"):
        request.get_tensor("data")
    arrays[1][:] = 4
    assert request.infer()[0].tolist() == [[1] * 3, [5] * 3]
    request.set_input_tensor(ov.Tensor(np.ones((2, 3), np.float32)))
    assert request.infer()[0].tolist() == [[2] * 3] * 2


def test_inputs_and_results_that_share_memory(ov: Any) -> None:
    model = make_model(ov)
    compiled = ov.compile_model(model, "CPU")
    frozen = np.frombuffer(b"\0\0\0?", np.float32)
    request = compiled.create_infer_request()
    results = request.infer({0: frozen}, share_inputs=True, share_outputs=True)
    assert not np.shares_memory(request.get_input_tensor(0).data, frozen)
    assert np.shares_memory(request.get_output_tensor(0).data, results[0])
    assert not results[0].flags["OWNDATA"]
    assert compiled(results)[0].tolist() == [0.5]  # results are inputs in their order
    assert np.shares_memory(ov.Tensor(results[0], True).data, results[0])


def test_weights_beside_onnx_are_ignored(ov: Any) -> None:
    onnx = pytest.importorskip("onnx")
    info = [onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, [2]) for name in "xy"]
    graph = onnx.helper.make_graph([onnx.helper.make_node("Relu", ["x"], ["y"])], "graph", info[:1], info[1:])
    model = ov.Core().read_model(onnx.helper.make_model(graph).SerializeToString(), ov.Tensor(np.uint8, []))
    assert model.input().any_name == "x"


def evaluate_wrong_shape(ov: Any) -> None:
    """Evaluate a model of one number for two."""
    make_model(ov).evaluate([ov.Tensor(np.float32, [1])], [ov.Tensor(np.float32, [2])])


def run_with_key(ov: Any, share_inputs: bool) -> None:
    """Run a model with a key that is not one of an input."""
    request = ov.compile_model(make_model(ov), "CPU").create_infer_request()
    request.infer({0.5: np.zeros(1, np.float32)}, share_inputs=share_inputs)


def test_variables_are_read_without_initial_values(irrun_ov: Any) -> None:
    ov = irrun_ov  # OpenVINO crashes without an initial value
    ops, util = import_submodule(ov, "opset13"), import_submodule(ov, "op.util")
    info = util.VariableInfo()
    info.variable_id, info.data_shape, info.data_type = "total", ov.PartialShape([2]), ov.Type.f32
    variable = util.Variable(info)
    assert list(ops.read_value("total", np.float32, [2]).get_output_shape(0)) == [2]
    data = ops.parameter([2], np.float32, name="data")
    total = ops.add(ops.read_value(variable), data)
    assign = ops.assign(total, variable)
    model = ov.Model(
        results=[ops.result(total)],
        sinks=[assign.output(0)],
        parameters=[data],
        variables=[variable],
        name="sum",
    )
    assert model.get_sink_index(assign.output(0)) == 0
    empty = ops.assign()
    model.add_sinks([empty])
    assert (empty.get_type_name().lower(), empty.get_output_size()) == ("assign", 0)
    assert model.get_sink_index(empty) == 1
    model.remove_sink(empty)
    assert model._get_raw_address() != make_model(ov)._get_raw_address()
    request = ov.compile_model(model, "CPU").create_infer_request()
    assert [request.infer([np.ones(2, np.float32)])[0].tolist() for _ in range(2)] == [[1, 1], [2, 2]]


def test_userdata_of_callbacks_stay_until_others_are_passed(ov: Any) -> None:
    request = ov.compile_model(make_model(ov), "CPU").create_infer_request()
    calls: list[Any] = []
    request.set_callback(calls.append, "first")
    for userdata in (None, "second"):
        request.start_async([np.zeros(1, np.float32)], userdata)
        request.wait()
    assert calls == ["first", "second"]


def test_descriptions_of_tensors_keep_bounds_and_symbols(ov: Any) -> None:
    tensor = make_model(ov).input().get_tensor()
    symbols = [ov.Symbol()]
    assert (tensor.size, tensor.get_value_symbol()) == (4, [])
    tensor.set_lower_value(ov.Tensor(np.zeros(1, np.float32)))
    tensor.set_upper_value(ov.Tensor(np.ones(1, np.float32)))
    tensor.set_value_symbol(symbols)
    assert (tensor.get_lower_value().data[0], tensor.get_upper_value().data[0]) == (0, 1)
    assert len(tensor.get_value_symbol()) == 1


def test_reading_creates_the_folder_of_the_cache(ov: Any, tmp_path: Path) -> None:
    ov.serialize(make_model(ov), tmp_path / "model.xml")
    ov.Core().read_model(tmp_path / "model.xml", config={"CACHE_DIR": str(tmp_path / "cache")})
    assert (tmp_path / "cache").is_dir()


def test_names_of_fused_layers_are_removed(ov: Any) -> None:
    model = make_model(ov)
    for node in model.get_ops():
        node.get_rt_info()["fused_names_0"] = "layer"
    import_submodule(ov, "_offline_transformations").apply_fused_names_cleanup(model)
    assert all(len(node.get_rt_info()) == 0 for node in model.get_ops())


def test_extensions_without_operations_are_accepted(ov: Any) -> None:
    class Nothing(ov.Extension):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()

    core = ov.Core()
    core.add_extension(Nothing())
    core.add_extension([Nothing(), Nothing()])
    assert core.compile_model(make_model(ov), "CPU").input(0).any_name == "data"


def make_model(ov: Any) -> Any:
    """Return a model of one layer."""
    ops = import_submodule(ov, "opset8")
    data = ops.parameter([1], np.float32, name="data")
    return ov.Model(ops.relu(data), [data])


def test_tool_runs_tests_on_irrun(tmp_path: Path) -> None:
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests" / "test_few.py").write_text(
        "import os, openvino.runtime as ov, pytest\n"
        "@pytest.mark.parametrize('value', [1, 2])\n"
        "def test_value(value):\n    assert ov.OVAny(value).value == 1\n"
        "def test_end():\n    os._exit(3)\n"
        "def test_last():\n    assert ov.__name__ == 'irrun.openvino'\n"
    )
    results = own_tests.run_file("irrun", tmp_path, "tests/test_few.py")
    assert {name.rpartition("::")[2]: state for name, (state, _) in results.items()} == {
        "test_value#0": "passed",
        "test_value#1": "failed",
        "test_end#0": "crashed",
        "test_last#0": "passed",
    }


def test_tool_counts_tests_that_pass_on_openvino() -> None:
    results = {
        "openvino": {"a.py::x#0": ["passed", ""], "a.py::y#0": ["passed", ""], "b.py::z#0": ["passed", ""]}
        | {"a.py::w#0": ["failed", "no"]},
        "irrun": {"a.py::x#0": ["passed", ""], "a.py::y#0": ["failed", "assert 3 == 12\nmore"]}
        | {"a.py::w#0": ["passed", ""], "b.py::import": ["failed", "ImportError: x"]},
    }
    comparison = own_tests.compare(results)
    assert comparison["files"] == {"a.py": [2, 1], "b.py": [1, 0]}
    assert comparison["causes"] == {"assert N == N": ["a.py::y#0"], "ImportError: x": ["b.py::z#0"]}


def test_tensors_of_ports_use_the_memory_of_arrays(ov: Any) -> None:
    values = np.ones(2, np.float32)
    data = import_submodule(ov, "opset8").parameter([2], np.float32)
    tensor = ov.Tensor(data.output(0), values)
    values[0] = 3
    assert tensor.data.tolist() == [3, 1]
    with pytest.raises(TypeError, match="Invoked with:"):
        import_submodule(ov, "passes").Serialize(path_to_xml="x.xml", path_to_bin="x.bin", model=5)


@pytest.mark.parametrize("name", ["i420_to_bgr", "i420_to_rgb"])
def test_two_planes_of_i420_are_refused(ov: Any, name: str) -> None:
    convert = getattr(import_submodule(ov, "opset8"), name)
    planes = [import_submodule(ov, "opset8").parameter([1, 4, 4, 1], np.float32) for _ in range(2)]
    for arguments in (planes, [planes[0], None, planes[1]]):
        with pytest.raises(import_submodule(ov, "exceptions").UserInputError, match="Operation I420to"):
            convert(*arguments)
