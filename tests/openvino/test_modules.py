"""The tree of modules that programs import, under the names of all releases."""

from __future__ import annotations

import functools
import importlib
import inspect
import subprocess
import sys
from typing import Any, Union

import numpy as np
import pytest
from openvino_modules import import_submodule

NAMES = {
    "runtime": "irrun.openvino",
    "_pyopenvino": "irrun.openvino",
    "pyopenvino": "irrun.openvino",
    "runtime.exceptions": "irrun.openvino.exceptions",
    "runtime.op.util": "irrun.openvino.op.util",
    "runtime.opset8": "irrun.openvino.opset8",
    "opset8.ops": "irrun.openvino.opset8",
    "runtime.opset_utils": "irrun.openvino.utils.node_factory",
    "runtime.passes.manager": "irrun.openvino.passes",
    "runtime.properties.hint": "irrun.openvino.properties.hint",
    "runtime.utils.data_helpers.wrappers": "irrun.openvino.utils.data_helpers",
    "runtime.utils.types": "irrun.openvino.utils.types",
    "_pyopenvino.op.util": "irrun.openvino.op.util",
    "_pyopenvino.util": "irrun.openvino.utils",
    "_pyopenvino._offline_transformations": "irrun.openvino._offline_transformations",
    "helpers.packing": "irrun.openvino.helpers",
    "package_utils": "irrun.openvino.utils",
    "properties._properties": "irrun.openvino.properties",
    "tools.ovc": "irrun.openvino.ovc",
    "utils.broadcasting": "irrun.openvino.utils.broadcasting",
    "utils.input_validation": "irrun.openvino.utils.input_validation",
    "utils.postponed_constant": "irrun.openvino.utils",
    "utils.reduction": "irrun.openvino.utils.reduction",
}


def test_each_module_exists_once_under_all_of_its_names() -> None:
    program = f"""
import importlib, sys, irrun
irrun.install_as_openvino(replace=True)
for name, own in {NAMES!r}.items():
    module = importlib.import_module("openvino." + name)
    assert module is sys.modules[own] and module.__name__ == own, name
    assert module.__spec__ is None or module.__spec__.name == own, name
from openvino.runtime.exceptions import UserInputError
from openvino.utils.node_factory import NodeFactory
try:
    NodeFactory().create("Add", None, {{}})
except UserInputError as error:
    print("caught:", error)
assert not [name for name in sys.modules if name.startswith("irrun.openvino.runtime.")]
"""
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert run.stdout == 'caught: Error: cannot create "Add" op without arguments.\n'


def test_modules_exist_once_without_the_name_openvino() -> None:
    facade = importlib.import_module("irrun.openvino.runtime")
    assert facade is importlib.import_module("irrun.openvino")
    errors = importlib.import_module("irrun.openvino.runtime.exceptions")
    assert errors is importlib.import_module("irrun.openvino.exceptions")
    with pytest.raises(ModuleNotFoundError):
        importlib.import_module("irrun.openvino.runtime.nothing")


# -- node factory


def test_factories_create_nodes_by_type(ov: Any) -> None:
    factory = import_submodule(ov, "utils.node_factory").NodeFactory("opset8")
    ops = import_submodule(ov, "opset8")
    data = ops.parameter([4, 3], np.float32)
    node = factory.create("Gather", [data, ops.constant(np.array([1])), ops.constant(np.int64(0))], {"batch_dims": 0})
    assert node.get_type_name() == "Gather"
    assert list(node.shape) == [1, 3]
    split = factory.create("Split", [data, ops.constant(np.int64(1))], {"num_splits": 3})
    assert list(factory.create("Concat", [split], {"axis": 1}).shape) == [4, 3]
    with pytest.raises(RuntimeError):
        factory.create("Nothing", [data], {})
    with pytest.raises((RuntimeError, TypeError)):
        factory.add_extension("nothing.so")


# -- helpers


def test_attributes_are_validated(ov: Any) -> None:
    validation = import_submodule(ov, "utils.input_validation")
    error = import_submodule(ov, "exceptions").UserInputError
    assert validation.check_valid_attribute("Op", {"a": [1, 2]}, "a", np.integer, validation.is_positive_value, True)
    assert validation.check_valid_attribute("Op", {}, "a", np.integer)
    rows = [("a", True, np.integer, validation.is_non_negative_value), ("b", False, np.floating, None)]
    assert validation.check_valid_attributes("Op", {"a": 0, "b": 1.5}, rows)
    for attributes in ({}, {"a": -1}, {"a": 1.5}, {"a": 1, "b": 2}):
        with pytest.raises(error):
            validation.check_valid_attributes("Op", attributes, rows)
    validation.assert_list_of_ints([1, 2], "message")
    for values in ([1.5], 3):
        with pytest.raises(error, match="message"):
            validation.assert_list_of_ints(values, "message")


def test_types_of_python_and_numpy_are_converted(ov: Any) -> None:
    types = import_submodule(ov, "utils.types")
    assert types.get_element_type(int) == ov.Type.i32
    assert types.get_element_type(np.dtype(np.float16)) == ov.Type.f16
    assert types.get_element_type_str(float) == "f32"
    assert types.get_dtype(ov.Type.bf16) == np.uint16
    assert types.get_numpy_ctype(ov.Type.boolean) is bool
    assert [types.get_shape(value) for value in (np.ones((2, 3)), [1, 2], 3)] == [(2, 3), [2], []]
    for function, value in ((types.get_element_type, "nothing"), (types.get_dtype, ov.Type.u4)):
        with pytest.raises(import_submodule(ov, "exceptions").OVTypeError):
            function(value)
    left, right = types.as_nodes(np.float32(1), np.ones(2, np.int64))
    assert (left.get_element_type(), right.get_element_type()) == (ov.Type.f32, ov.Type.i64)


def test_axes_of_broadcasts_and_reductions(ov: Any) -> None:
    axes = import_submodule(ov, "utils.broadcasting").get_broadcast_axes
    assert sorted(axes([2, 3, 4], [4])) == [0, 1]
    assert sorted(axes([2, 3, 4], [3], 1)) == [0, 2]
    node = import_submodule(ov, "opset8").parameter([2, 3], np.float32)
    reduced = import_submodule(ov, "utils.reduction").get_reduction_axes
    assert [reduced(node, None), reduced(node, [1])] == [{0, 1}, {1}]


def test_decorators_convert_arguments_and_dispatch_by_type(ov: Any) -> None:
    decorators = import_submodule(ov, "utils.decorators")
    ops = import_submodule(ov, "opset8")
    add = decorators.binary_op(lambda left, right, name=None: ops.add(left, right))
    assert add(np.float32(1), np.float32(2), name="sum").get_friendly_name() == "sum"
    negate = decorators.unary_op(lambda value, name=None: ops.negative(value))
    assert negate(np.float32(1)).get_type_name() == "Negative"
    name = f"describe_{ov.__name__.replace('.', '_')}"

    def describe(value: Any) -> str:
        return "text" if isinstance(value, str) else "number"

    describe.__name__ = name
    decorators.overloading(str)(describe)
    method = decorators.overloading(int)(describe)
    assert [method("a"), method(1)] == ["text", "number"]
    with pytest.raises(TypeError, match="overload"):
        method([])
    with pytest.raises(TypeError, match="duplicate"):
        decorators.overloading(int)(describe)


def test_overloads_are_chosen_by_numbers_of_arguments_unions_and_keywords(ov: Any) -> None:
    decorators = import_submodule(ov, "utils.decorators")
    name = f"choose_{ov.__name__.replace('.', '_')}"

    def make(text: str, function: Any, *kinds: Any) -> Any:
        function.__name__ = name
        function.__annotations__ = dict(zip(inspect.signature(function).parameters, kinds, strict=True))
        functools.update_wrapper(wrapper := (lambda *args, **kwargs: text), function)
        return decorators.overloading(*kinds)(wrapper)

    def one(value: int) -> None: ...
    def two(value: str, other: float) -> None: ...
    def union(value: float | list[int]) -> None: ...

    make("one", one, int)
    make("two", two, str, float)
    method = make("union", union, Union[float, list[int]])  # noqa: UP007
    assert [method(1), method("a", 1.0), method(1.0), method([1])] == ["one", "two", "union", "union"]
    assert [method(value=1), method(value="a", other=1.0), method(other=1.0)] == ["one", "two", "two"]
    assert method("a", other=1.0) == "two"
    for args, kwargs in (((None,), {}), (("a", 1), {}), ((), {"unknown": 1})):
        with pytest.raises(TypeError, match=f"The necessary overload for {name} was not found"):
            method(*args, **kwargs)


def test_connections_of_bodies_keep_their_numbers(ov: Any) -> None:
    util = import_submodule(ov, "op.util")
    merged = util.MergedInputDescription(0, 1, 2)
    assert (merged.input_index, merged.body_parameter_index, merged.body_value_index) == (0, 1, 2)
    assert merged.get_type_info().name == "MergedInputDescription"
    assert util.SliceInputDescription(0, 1, 2, 3, 4, 5, 6).copy().axis == 6
    assert util.BodyOutputDescription(1, 2).iteration == -1
    assert util.ConcatOutputDescription(0, 1, 2, 3, 4, 5, 6).part_size == 4
    assert util.InvariantInputDescription(3, 4).body_parameter_index == 4
    slices = ("start", "stride", "part_size", "end", "axis")
    for kind, names in (
        ("SliceInputDescription", ("input_index", "body_parameter_index", *slices)),
        ("MergedInputDescription", ("input_index", "body_parameter_index", "body_value_index")),
        ("InvariantInputDescription", ("input_index", "body_parameter_index")),
        ("ConcatOutputDescription", ("body_value_index", "output_index", *slices)),
        ("BodyOutputDescription", ("body_value_index", "output_index")),
    ):
        description = getattr(util, kind)()
        assert [getattr(description, name) for name in names] == [0] * len(names)
    info = util.VariableInfo()
    info.data_shape, info.data_type, info.variable_id = ov.PartialShape([2]), ov.Type.f32, "state"
    variable = util.Variable(info)
    assert (variable.info.variable_id, variable.get_info().data_shape) == ("state", ov.PartialShape([2]))
    with pytest.raises(TypeError, match="No constructor"):
        util.BinaryElementwiseArithmetic()


# -- dispatch of inputs


def make_request(ov: Any, shape: Any, dtype: Any = np.float32, count: int = 1) -> Any:
    """Return a request of a model whose outputs are its inputs."""
    ops = import_submodule(ov, "opset8")
    inputs = [ops.parameter(shape, dtype) for _ in range(count)]
    model = ov.Model([ops.result(value) for value in inputs], inputs, "identity")
    return ov.Core().compile_model(model, "CPU").create_infer_request()


class Wrapped:
    """What converts to an array."""

    def __init__(self, array: np.ndarray) -> None:
        self.array = array

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        return self.array


def test_shared_inputs_become_tensors_of_their_memory(ov: Any) -> None:
    dispatch = import_submodule(ov, "utils.data_helpers")._data_dispatch
    array = np.ones((2, 2), np.float32)
    assert np.shares_memory(dispatch(make_request(ov, [2, 2]), array, True).data, array)
    assert np.shares_memory(dispatch(make_request(ov, [2, 2]), Wrapped(array), True).data, array)
    both = dispatch(make_request(ov, [2, 2], count=2), [Wrapped(array), array], True)
    assert [np.shares_memory(both[i].data, array) for i in (0, 1)] == [True, True]
    other = dispatch(make_request(ov, [2, 2]), array.astype(np.float64), True)
    assert other.element_type == ov.Type.f32
    turned = np.asfortranarray(np.ones((2, 3), np.float32))
    assert not np.shares_memory(dispatch(make_request(ov, [2, 3]), turned, True).data, turned)


def test_copied_inputs_are_written_to_the_tensors_of_the_request(ov: Any) -> None:
    dispatch = import_submodule(ov, "utils.data_helpers")._data_dispatch
    array = np.ones((2, 2))
    for inputs in (array, Wrapped(array), [array], {0: array}, (Wrapped(array),)):
        request = make_request(ov, [2, 2])
        assert dispatch(request, inputs, False) == {}
        assert np.array_equal(request.input_tensors[0].data, array)
        assert not np.shares_memory(request.input_tensors[0].data, array)
    for value in (np.float64(2), 2, 2.0):
        tensor = dispatch(make_request(ov, [1]), value, False)
        assert (list(tensor.shape), tensor.element_type, tensor.data) == ([], ov.Type.f32, 2)
    request = make_request(ov, [1])
    assert dispatch(request, np.array(2, np.int8), False) == {}
    assert list(dispatch(make_request(ov, ov.PartialShape([-1])), np.array(1, np.float32), True).shape) == [1]


@pytest.mark.parametrize("is_shared", [True, False])
def test_texts_are_dispatched(ov: Any, is_shared: bool) -> None:
    dispatch = import_submodule(ov, "utils.data_helpers")._data_dispatch
    request = make_request(ov, [2], str)
    result = dispatch(request, np.array(["ä", "b"]), is_shared)
    assert list((result if is_shared else request.input_tensors[0]).str_data) == ["ä", "b"]
    assert list(dispatch(make_request(ov, [2], str), ["ä", "b"], is_shared)[0].str_data) == ["ä", "b"]
    assert dispatch(make_request(ov, [1], str), "ä", is_shared).str_data == "ä"


def test_unsupported_inputs_are_refused(ov: Any) -> None:
    dispatch = import_submodule(ov, "utils.data_helpers")._data_dispatch
    refused: list[Any] = [{1.5: np.ones(1, np.float32)}, [set()], set(), {0: None}]
    for inputs in refused:
        for is_shared in (True, False):
            with pytest.raises(TypeError):
                dispatch(make_request(ov, [1]), inputs, is_shared)


# -- attributes of nodes


def test_nodes_have_getters_and_setters_of_their_attributes(ov: Any) -> None:
    ops = import_submodule(ov, "opset13")
    data = ops.parameter([1, 3, 8, 8], np.float32)
    filters = ops.constant(np.ones((4, 3, 3, 3), np.float32))
    convolution = ops.convolution(data, filters, [2, 1], [0, 0], [0, 0], [1, 1])
    assert (list(convolution.get_strides()), list(convolution.get_pads_begin())) == ([2, 1], [0, 0])
    softmax = ops.softmax(data, 1)
    softmax.set_axis(2)
    assert (softmax.get_axis(), softmax.get_attributes()) == (2, {"axis": 2})
    for name in ("get_nothing", "set_nothing", "axis", "nothing"):
        assert not hasattr(softmax, name)
    assert ops.add(data, data).get_attributes() == {"auto_broadcast": "numpy"}


def test_operands_of_different_types_are_refused(ov: Any) -> None:
    ops = import_submodule(ov, "opset13")
    data, index = ops.parameter([2], np.float32), ops.parameter([2], np.int32)
    for function in (ops.add, ops.divide, ops.power, ops.less, ops.maximum):
        with pytest.raises(RuntimeError, match="element type"):
            function(data, index)
    assert ops.add(data, np.float32(1)).get_element_type() == ov.Type.f32


def test_modules_that_openvino_imports_are_attributes() -> None:
    import irrun.openvino as ov

    names = ("_ov_api", "_pyopenvino", "ie_api", "pyopenvino", "runtime")
    assert [getattr(ov, name) for name in names] == [ov] * len(names)
    assert ov._op_base.Op is ov.Op
    assert ov.package_utils is ov.util is ov.utils
    with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
        _ = ov.nothing
