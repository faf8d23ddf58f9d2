"""What the replacement of OpenVINO accepts, or says, in addition."""

from __future__ import annotations

import copy
import pickle
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import irrun
import irrun.openvino as ov
from irrun.openvino import helpers, preprocess, runtime_info
from irrun.openvino.attributes import convert_attributes
from irrun.openvino.constant_value import to_constant
from irrun.openvino.custom_operation import AttributeVisitor
from irrun.openvino.element_type import to_element_type
from irrun.openvino.exceptions import UserInputError
from irrun.openvino.node import Node
from irrun.openvino.ports import PortData, as_output
from irrun.openvino.properties.enumerations import Num
from irrun.openvino.utils.data_helpers import _data_dispatch
from irrun.openvino.utils.node_factory import NodeFactory
from irrun.ops._support import registry

ops = ov.opset13

ARRAY = np.array([1, -2], np.float32)


def make_model(element_type: Any = np.float32) -> ov.Model:
    x = ops.parameter([2], element_type, name="x")
    return ov.Model([ops.result(ops.convert(ops.convert(x, "f32"), "f32"), name="y")], [x], "m")


# Values


@pytest.mark.parametrize("name", ["f32", "u4", "dynamic", "string"])
def test_types_are_unique(name: str) -> None:
    member = getattr(ov.Type, name)
    copies = [copy.copy(member), copy.deepcopy(member), pickle.loads(pickle.dumps(member)), ov.Type(member)]
    assert all(other is member for other in copies)
    assert to_element_type(member) is to_element_type(name) is to_element_type(name.upper())


def test_types_have_names_and_numpy_types() -> None:
    assert to_element_type("undefined") is to_element_type(None) is None
    assert ov.Type.undefined is ov.Type.dynamic
    assert to_element_type("float32") is to_element_type(np.float32) is ov.Type.f32._element_type
    with pytest.raises((RuntimeError, TypeError)):
        to_element_type("nothing")


def test_values_of_any_type_are_containers() -> None:
    value = ov.OVAny({"a": 1})
    value["b"] = 2
    assert (sorted(value), "a" in value, "c" in value, bool(value), bool(ov.OVAny({}))) == (
        ["a", "b"],
        True,
        False,
        True,
        False,
    )
    assert value.value == {"a": 1, "b": 2}
    for number in (5, 2.5, True, None):
        for call in (lambda v: "a" in v, iter, len, lambda v: v[0], lambda v: v.__setitem__(0, 1)):
            with pytest.raises(AttributeError, match="has no elements"):
                call(ov.OVAny(number))


@pytest.mark.parametrize(
    ("value", "text"),
    [(None, ""), (True, "YES"), (False, "NO"), ([1, 2.5], "1 2.5"), ((1, "a"), "1 a"), ({"a": [1]}, "{a:1}"), (3, "3")],
)
def test_information_is_written_as_text(value: Any, text: str) -> None:
    assert ov.OVAny(value).astype(str) == text
    written = runtime_info.format_rt_info({"k": value if not isinstance(value, dict) else str(value)})
    assert written is not None
    assert runtime_info.parse_rt_info(written)["k"] == (text if not isinstance(value, dict) else str(value))


def test_information_has_names_that_xml_does_not_allow() -> None:
    values = {"a b": "1", "c": {"1d": "2", "e": {}}, "version": 11}
    written = runtime_info.format_rt_info(values)
    assert written == ('<rt_info><info name="a b" value="1"/><c><info name="1d" value="2"/><e/></c></rt_info>')
    assert runtime_info.parse_rt_info(written) == {"a b": "1", "c": {"1d": "2", "e": {}}}
    assert runtime_info.format_rt_info({}) is runtime_info.format_rt_info({"version": 10}) is None
    assert runtime_info.parse_rt_info(None) == runtime_info.parse_rt_info("") == {}


def test_small_lists_are_sliced_and_assigned() -> None:
    strides = ov.Strides([1, 2, 3])
    assert (strides[1:], strides[-1], strides == (1, 2, 3), strides == "123") == (ov.Strides([2, 3]), 3, True, False)
    strides[0] = 7
    assert [*strides] == [7, 2, 3]
    shape = ov.Shape([1, 2])
    shape[-1] = ov.Dimension(5)
    assert shape == ov.Shape([1, 5])
    assert [[*ov.Strides()], [*ov.AxisSet()], [*ov.AxisSet([2, 1, 2])]] == [[], [], [1, 2]]


def test_numbers_of_streams_are_compared() -> None:
    assert (Num(3) == Num(3), Num(3) == 3, Num(3) == Num(4), hash(Num(3)) == hash(3), Num()) == (
        True,
        True,
        False,
        True,
        Num.AUTO,
    )
    assert ov.properties.num_streams.name == "NUM_STREAMS"


# Tensors and constants


def test_memory_of_tensors() -> None:
    with pytest.raises(RuntimeError, match="the array has 4 bytes, expected at least 8"):
        ov.Tensor(np.zeros(4, np.int8), [2], ov.Type.f32)
    with pytest.raises(RuntimeError, match="a tensor requires an element type, found dynamic"):
        ov.Tensor(ov.Type.dynamic, [1])
    tensor = ov.Tensor(ARRAY)
    assert np.shares_memory(ov.Tensor(tensor).data, tensor.data)
    assert np.asarray(tensor, np.int8).tolist() == [1, -2]
    assert np.asarray(tensor) is not None
    assert ov.Tensor(np.float32(3)).data == 3
    with pytest.raises(RuntimeError, match="irrun has no devices with their own memory"):
        ov.RemoteTensor(1, a=2)
    region = ov.Tensor(ov.Tensor(np.arange(6).reshape(2, 3)), [0, 1], [2, 3])
    region.shape = ov.Shape([2, 2])
    assert region.data.tolist() == [[1, 2], [4, 5]]


def test_texts_are_constants() -> None:
    constant = ops.constant(["a", "bc"])
    assert (constant.get_value_strings(), constant.data.tolist()) == (["a", "bc"], [b"a", b"bc"])
    assert ops.constant([1, 2], ov.Type.string).get_value_strings() == ["1", "2"]
    with pytest.raises(RuntimeError, match="a Constant requires an element type"):
        ops.constant([1], ov.Type.dynamic)
    for value in (None, ov.Type.f32):
        with pytest.raises(TypeError, match="The necessary overload for constant was not found"):
            ops.constant(value)


@pytest.mark.parametrize("name", ["u4", "string", "f32"])
@pytest.mark.parametrize("size", [0, 2])
def test_memory_of_constants_is_shared_where_it_is_that_of_files(name: str, size: int) -> None:
    array = np.ones(size, np.float32)
    if name == "string":
        array = np.array(["a"] * size, object)
    constant = to_constant(array, name, shared_memory=True)
    if size:
        array[0] = 5 if name != "string" else "b"
    values = constant.to_array()
    assert values.shape == (size,)
    if size:
        assert bool(values[0] == array[0]) is (name == "f32")


def test_packing_needs_packed_types() -> None:
    for element_type in (ov.Type.f32, ov.Type.dynamic, ov.Type.i8):
        with pytest.raises(RuntimeError, match=r"Packing of the type .* is not supported"):
            helpers.pack_data(ARRAY, element_type)
        with pytest.raises(RuntimeError, match=r"Unpacking of the type .* is not supported"):
            helpers.unpack_data(np.zeros(1, np.uint8), element_type, [1])
    for name in ("u3", "u6"):
        packed = helpers.pack_data(np.arange(8), getattr(ov.Type, name))
        assert helpers.unpack_data(packed, getattr(ov.Type, name), [2, 4]).tolist() == [[0, 1, 2, 3], [4, 5, 6, 7]]


# Nodes and models


def test_types_of_nodes_have_texts() -> None:
    info = ops.relu(ops.parameter([1])).get_type_info()
    assert repr(info) == "<DiscreteTypeInfo: Relu opset1>"
    assert hash(info) == hash(ov.DiscreteTypeInfo("Relu", "opset1"))
    assert info == ov.DiscreteTypeInfo("Relu", "opset1")
    assert all(
        info != other for other in (ov.DiscreteTypeInfo("Relu", "opset2"), ov.DiscreteTypeInfo("Abs", "opset1"), "Relu")
    )


def test_ports_that_are_not_connected() -> None:
    relu = ops.relu(ops.parameter([1]))
    relu.input_value(0).remove_target_input(relu.input(0))
    with pytest.raises(RuntimeError, match=r"Input 0 of Relu_.* is not connected"):
        relu.input_value(0)
    assert relu.input(0).element_type == ov.Type.dynamic
    assert PortData().names == set()
    split = ops.split(ops.parameter([2]), ops.constant(np.int64(0)), 2)
    with pytest.raises(RuntimeError, match="has 2 outputs, expected one"):
        as_output(split)
    with pytest.raises(TypeError, match="expected a Node or an Output, found int"):
        as_output(3)
    compiled = ov.compile_model(make_model())
    assert type(as_output(compiled.inputs[0])) is ov.Output


def test_models_and_compiled_models_are_context_managers() -> None:
    with make_model() as model, ov.compile_model(model) as compiled:
        assert compiled(ARRAY)[0].tolist() == [1, -2]
    assert model.get_friendly_name() == "m"


def test_models_with_parameters_that_are_not_declared() -> None:
    x, y = (ops.parameter([2], np.float32, name=name) for name in "xy")
    with pytest.raises(RuntimeError, match="Model references undeclared parameters: y"):
        ov.Model([ops.add(x, y)], [x], "m")
    model = ov.Model([ops.relu(x)], [x], "m")
    model.remove_parameter(x)
    with pytest.raises(RuntimeError, match="undeclared parameters: x"):
        ov.compile_model(model)


def test_shapes_that_do_not_fit_change_nothing() -> None:
    x = ops.parameter([1, 6], np.float32, name="x")
    flat = ops.reshape(x, ops.constant(np.array([1, 6])), False, name="flat")
    model = ov.Model([ops.add(flat, ops.constant(np.ones((1, 6), np.float32)), name="sum")], [x], "m")
    before = [(n.get_friendly_name(), str(n.output(0).partial_shape)) for n in model.get_ordered_ops()]
    for shape in ([2, 5], [3, 7]):
        with pytest.raises(RuntimeError):
            model.reshape(shape)
        assert [(n.get_friendly_name(), str(n.output(0).partial_shape)) for n in model.get_ordered_ops()] == before
    assert ov.compile_model(model)(np.zeros((1, 6), np.float32))[0].tolist() == [[1] * 6]


def test_attributes_are_converted() -> None:
    softmax = registry.find("Softmax", "opset8")
    pool = registry.find("AvgPool", "opset1")
    assert softmax is not None
    assert pool is not None
    assert (
        convert_attributes(softmax, {"axis": np.int8(2)}) == convert_attributes(softmax, {"axis": "2"}) == {"axis": 2}
    )
    assert convert_attributes(softmax, {"axis": None}) == {"axis": 1}
    assert convert_attributes(softmax, {"axis": [3]}) == {"axis": [3]}
    assert type(convert_attributes(softmax, {"axis": True})["axis"]) is int
    with pytest.raises(RuntimeError, match=r"attribute axis='x': .*, expected int"):
        convert_attributes(softmax, {"axis": "x"})
    converted = convert_attributes(pool, {"strides": np.array([1, 2]), "exclude_pad": True, "kernel": 3, "other": (1,)})
    assert [converted[name] for name in ("strides", "exclude-pad", "kernel", "other")] == [[1, 2], True, 3, (1,)]
    assert convert_attributes(pool, {"kernel": (3, 3)})["kernel"] == [3, 3]


def test_attributes_of_own_operations_become_lists_and_texts() -> None:
    visitor = AttributeVisitor()
    attributes = {
        "a": np.array([1, 2]),
        "b": ov.Dimension(1, 3),
        "c": ov.Shape([1]),
        "d": ov.Type.f32,
        "e": (1, "x"),
        "f": True,
    }
    visitor.on_attributes({**attributes, "g": ov.PartialShape([-1]), "h": make_model()})
    expected = {"a": [1, 2], "b": "1..3", "c": "[1]", "d": "f32", "e": [1, "x"], "f": True, "g": "[?]"}
    assert visitor.attributes == expected


def test_versions_have_three_numbers() -> None:
    version = ov.Core().get_versions("CPU")["CPU"]
    assert repr(version) == f"<Version: {ov.get_version()} {version.description}>"
    other = ov.Version("2030.12.34-5-text", "name")
    assert (other.major, other.minor, other.patch, repr(other)) == (
        2030,
        12,
        34,
        "<Version: 2030.12.34-5-text name>",
    )


def test_factories_set_attributes_of_own_operations() -> None:
    class Scaled(ov.Op):
        factor = 1

        def __init__(self, *inputs: Any) -> None:
            super().__init__(self, inputs)

        def set_attribute(self, name: str, value: Any) -> None:
            setattr(self, name, value)

    factory = NodeFactory("opset13")
    factory.add_extension([Scaled])
    x = ops.parameter([2], np.float32)
    node: Any = factory.create("Scaled", [x], {"factor": 3})
    assert (type(node), node.factor, node.input_value(0).get_node()) == (Scaled, 3, x)
    assert factory.create("Scaled").get_input_size() == 0
    assert factory.create("Scaled", [x, x.output(0)]).get_input_size() == 2
    assert factory.create("Relu", [x], {}).get_type_name() == "Relu"
    assert factory.create("Relu").get_input_size() == 0
    with pytest.raises(UserInputError, match='cannot create "Scaled" op without arguments'):
        factory.create("Scaled", None, {"factor": 3})


def test_own_operations_get_inputs_in_several_ways() -> None:
    x = ops.parameter([2], np.float32)

    class Own(ov.Op):
        def __init__(self, *inputs: Any) -> None:
            super().__init__(self, inputs)

    assert [
        Own(*inputs).get_input_size() for inputs in ((), (x,), (x, x), ([x, x],), ([x], x)) if inputs != ([x], x)
    ] == [0, 1, 2, 2]
    assert (Own(x).output(0).element_type, Own(x).has_evaluate(), Own().get_output_size()) == (ov.Type.f32, False, 0)
    assert ov.Op(None, [x]).get_type_name() == "Op"


def test_operations_of_irrun_are_extensions() -> None:
    @irrun.op("OwnDouble", opset="own_extension")
    def double(data: Any) -> Any:
        return 2 * data

    core: Any = ov.Core()
    operation = registry.find("OwnDouble", "own_extension")
    assert core.add_extension(operation) is core.add_extension([operation]) is None
    x = ops.parameter([2], np.float32, name="x")
    node = Node("OwnDouble", "own_extension", [x.output(0)])
    node._ports[0].element_type, node._ports[0].shape = x._ports[0].element_type, x._ports[0].shape
    assert core.compile_model(ov.Model([node], [x], "m"))(ARRAY)[0].tolist() == [2, -4]


# Inputs, cores and steps


@pytest.mark.parametrize("name", ["u4", "i4", "bf16", "f16", "u8", "f8e4m3", "f64"])
def test_inputs_of_types_that_numpy_does_not_have(name: str) -> None:
    compiled = ov.compile_model(make_model(getattr(ov.Type, name)), "CPU", {"INFERENCE_PRECISION_HINT": "f32"})
    stored = ov.Tensor(getattr(ov.Type, name), [2]).element_type.to_dtype()
    values = {
        "bf16": np.array([0x3F80, 0x4000], np.uint16).view(np.float16),
        "f8e4m3": np.array([0x38, 0x40], np.uint8),
    }
    array = values.get(name, np.array([1, 2], stored))
    for share in (False, True):
        assert compiled(array, share_inputs=share)[0].tolist() == [1, 2]


def test_ports_of_other_models_are_refused() -> None:
    compiled, other = (ov.compile_model(make_model()) for _ in range(2))
    with pytest.raises(RuntimeError, match="Cannot find tensor for port"):
        compiled({other.input(0): ARRAY})
    with pytest.raises(RuntimeError, match="Cannot find tensor for port"):
        compiled.create_infer_request().get_tensor(ops.parameter([7]).output(0))


def test_cores_accept_more_arguments(tmp_path: Path) -> None:
    core: Any = ov.Core()
    assert repr(core) == "<Core: available plugins[CPU]>"
    assert core.compile_model(make_model(), {"PERF_COUNT": True}).get_property("PERF_COUNT") is True
    x = ops.parameter([2], np.float32, name="x")
    ov.serialize(ov.Model([ops.add(x, ops.constant(ARRAY))], [x], "m"), tmp_path / "m.xml")
    xml, weights = (tmp_path / "m.xml").read_bytes(), (tmp_path / "m.bin").read_bytes()
    memory = ov.Tensor(np.frombuffer(weights, np.uint8))
    for compiled in (
        core.compile_model(xml, weights, "CPU"),
        core.compile_model(xml, memory),
        core.compile_model(xml, "CPU", weights=memory),
        core.compile_model(core.read_model(ov.Tensor(np.frombuffer(xml, np.uint8)), memory), "CPU"),
    ):
        assert compiled(ARRAY)[0].tolist() == [2, -4]
    for call in (core.register_plugin, core.register_plugins, core.create_context, core.get_default_context):
        with pytest.raises(RuntimeError, match="irrun does not support plugins of OpenVINO"):
            call("CPU")


def test_steps_that_need_other_layouts() -> None:
    def prepare(tensor: str, model: str, rank: int = 4) -> tuple[preprocess.PrePostProcessor, Any]:
        x = ops.parameter([2] * rank, np.float32, name="x")
        processor = preprocess.PrePostProcessor(ov.Model([ops.relu(x)], [x], "m"))
        processor.input().tensor().set_layout(ov.Layout(tensor))
        processor.input().model().set_layout(ov.Layout(model))
        return processor, processor.input().preprocess()

    processor, steps = prepare("NCHW", "NC??")
    steps.resize(preprocess.ResizeAlgorithm.RESIZE_LINEAR)
    with pytest.raises(RuntimeError, match=r"Resize: the layout \[N,C,\?,\?\] of the model has no dimension H"):
        processor.build()
    processor, steps = prepare("NCH", "NHC", rank=4)
    with pytest.raises(RuntimeError, match=r"Layout \[N,H,C\] does not fit the rank 4"):
        processor.build()
    processor, _ = prepare("NCHW", "NHWC")
    processor.output().model().set_color_format(preprocess.ColorFormat.RGB).set_layout("NHWC")
    processor.output().postprocess().convert_color(preprocess.ColorFormat.BGR)
    processor.input().tensor().set_shape([1, 3, 2, 2])
    with pytest.raises(RuntimeError, match="is not aligned with original parameter's shape"):
        processor.build()


def test_inputs_are_copied_to_requests_by_default() -> None:
    request = ov.compile_model(make_model(), "CPU").create_infer_request()
    assert _data_dispatch(request, ARRAY) == _data_dispatch(request) == {}
    assert request.input_tensors[0].data.tolist() == [1, -2]
    assert not np.shares_memory(request.input_tensors[0].data, ARRAY)


def test_latency_is_the_duration_of_the_run() -> None:
    request = ov.compile_model(make_model(), "CPU").create_infer_request()
    start = time.perf_counter()
    request.infer(ARRAY)
    assert 0 < request.latency <= 1000 * (time.perf_counter() - start)
