"""Expressions on models, nodes, ports and requests, which have the same values on OpenVINO and on its replacement."""

from __future__ import annotations

import copy
import functools
import importlib
import re

import numpy as np
import pytest

openvino = pytest.importorskip("openvino")

MODULES = {"openvino": "openvino.opset13", "irrun.openvino": "irrun.openvino.opset13"}


def compile_model(ov, model):
    return ov.Core().compile_model(model, "CPU", {"INFERENCE_PRECISION_HINT": "f32"})


def make_tensor(ov, *shape):
    return ov.Tensor(np.arange(np.prod(shape), dtype=np.float32).reshape(shape))


def build(name):
    """Return the names that expressions use: a model of two inputs, three outputs and a variable, and its parts."""
    ov, ops = importlib.import_module(name), importlib.import_module(MODULES[name])
    x = ops.parameter([-1, 3], np.float32, name="x")
    y = ops.parameter([2, 3], np.float32, name="y")
    relu = ops.relu(x, name="relu")
    total = ops.add(relu, ops.constant(np.array([1, 2, 3], np.float32), name="c"), name="sum")
    split = ops.split(y, ops.constant(np.int64(0)), 2, name="split")
    read = ops.read_value(y, "state", np.float32, [2, 3])
    assign = ops.assign(ops.add(read, y), "state")
    total.output(0).tensor.set_names({"total", "another"})
    results = [ops.result(total, name="r0"), ops.result(split.output(0)), ops.result(split.output(1))]
    m = ov.Model(results, [assign], [x, y], "net")
    return {
        "ov": ov,
        "ops": ops,
        "np": np,
        "copy": copy,
        "m": m,
        "x": x,
        "y": y,
        "relu": relu,
        "total": total,
        "split": split,
        "read": read,
        "assign": assign,
        "results": results,
        "compile": lambda: compile_model(ov, m),
        "request": lambda: compile_model(ov, m).create_infer_request(),
        "tensor": functools.partial(make_tensor, ov),
        "d": ov.Dimension(1, 5),
        "inputs": [make_tensor(ov, 1, 3), make_tensor(ov, 2, 3)],
    }


def describe(value):
    """Return what is compared of a value: the texts of objects, without their addresses."""
    if isinstance(value, np.ndarray):
        return value.dtype.str, value.tolist()
    if isinstance(value, (list, tuple)):
        return [describe(item) for item in value]
    if isinstance(value, (set, frozenset)):
        return sorted(map(describe, value))
    if isinstance(value, dict):
        return {str(describe(key)): describe(item) for key, item in value.items()}
    if isinstance(value, str):
        return _without_number(value)
    if value is None or isinstance(value, (bool, int, float)):
        return value
    if hasattr(value, "get_friendly_name"):
        return _without_number(value.get_friendly_name())
    if hasattr(value, "get_node"):
        return _without_number(value.get_node().get_friendly_name()), value.get_index()
    return str(value)


def _without_number(name):
    """Return a name without the number of a node that has no name of its own."""
    return re.sub(r"(^Model|_)\d+$", r"\1", name)


def evaluate(expression, name):
    try:
        scope = build(name)
        *statements, last = expression.split("; ")
        for statement in statements:
            exec(statement, scope)
        return describe(eval(last, scope))
    except Exception as error:
        return "raises", type(error).__name__


EXPRESSIONS = """
m.name
m.get_name()
m.set_friendly_name('other'); m.friendly_name
m.sinks
m.get_output_size()
m.get_output_op(1)
m.get_output_op(7)
str(m.get_output_element_type(0))
str(m.get_output_partial_shape(0))
str(m.get_output_shape(1))
m.get_output_shape(0)
m.get_result_index(m.outputs[2])
m.get_result_index(total.output(0))
m.get_result_index(relu.output(0))
m.get_result()
m.result
m.get_sink_index(assign)
m.get_sink_index(relu)
[v.info.variable_id for v in m.variables]
[v.info.variable_id for v in m.get_variables()]
m.dynamic
m.is_dynamic()
copy.copy(m)
copy.deepcopy(m).get_friendly_name()
copy.deepcopy(m) is m
m.reshape([2, 3])
m.add_outputs('nothing')
m.add_outputs(3)
m.add_outputs(('relu', 0)); [len(m.outputs), m.outputs[3].get_node().get_friendly_name()]
m.add_outputs(('relu', 4))
m.add_outputs(['total']); len(m.outputs)
m.add_outputs([relu.output(0), split.output(1)]); len(m.outputs)
m.add_outputs(relu.input(0))
p = ops.parameter([1], np.float32); m.add_parameters([p]); len(m.inputs)
m.remove_sink(assign); m.sinks
m.remove_result(results[1]); [len(m.outputs), m.get_output_size()]
m.remove_parameter(y); len(m.get_parameters())
p = ops.parameter([5, 3], name='z'); m.replace_parameter(0, p); [m.inputs[0].get_node(), m.get_parameters()[0]]
m.get_parameter_index(y)
m.input('nothing')
m.input(5)
m.input()
m.output('total')
m.output('nothing')
m.output()
m.output(1)
m.is_dynamic() == m.dynamic
m.set_rt_info('v', 'k'); [m.get_rt_info('k').value, m.has_rt_info('k'), m.has_rt_info('q')]
m.set_rt_info('v', ['a', 'b']); [m.get_rt_info(['a', 'b']).value, m.has_rt_info(['a', 'b'])]
m.get_rt_info('nothing')
m.set_rt_info(5, 'k'); m.get_rt_info('k').astype(int)
m.set_rt_info('yes', 'k'); m.get_rt_info('k').astype(bool)
m.set_rt_info('1 2 3', 'k'); m.get_rt_info('k').aslist(int)
m.set_rt_info(2.5, 'k'); m.get_rt_info('k').astype(float)
m.set_rt_info('v', 'k'); m.get_rt_info('k') == 'v'
m.set_rt_info('v', 'k'); len(m.get_rt_info('k'))
[op.get_friendly_name() for op in m.get_ordered_ops() if op.get_type_name() == 'Add'][0]
len(m.get_ops()) == len(m.get_ordered_ops())
x.output(0) < y.output(0)
relu.output(0) == relu.output(0)
relu.output(0) == total.output(0)
relu.output(0) <= relu.output(0)
relu.output(0) >= relu.output(0)
relu.output(0) > relu.output(0)
relu.output(0) != total.output(0)
hash(relu.output(0)) == hash(relu.output(0))
relu.get_type_info().name
relu.type_info == total.type_info
relu.type_info == ops.relu(x).type_info
relu.type_info != 3
relu.type_info.version_id
relu.name == relu.get_name()
relu.friendly_name
relu.friendly_name = 'n'; relu.get_friendly_name()
relu.get_instance_id() == relu.get_instance_id()
relu.get_input_size()
split.get_output_size()
str(relu.get_input_partial_shape(0))
str(y.get_output_shape(0))
relu.get_input_shape(0)
split.get_input_shape(0)
str(relu.get_input_element_type(0))
str(relu.get_output_element_type(0))
relu.get_input_tensor(0).get_names()
total.get_output_tensor(0).names
total.output(0).get_tensor().get_any_name()
total.output(0).tensor.any_name
relu.output(0).get_any_name()
relu.output(0).tensor.get_any_name()
total.output(0).get_tensor().add_names({'third'}); total.output(0).get_names()
total.output(0).tensor.names = {'new'}; total.output(0).names
str(total.output(0).tensor.element_type)
str(total.output(0).tensor.get_element_type())
str(total.output(0).tensor.partial_shape)
str(total.output(0).tensor.get_partial_shape())
str(split.output(0).tensor.shape)
str(split.output(0).tensor.get_shape())
total.output(0).tensor.shape
relu.output(3)
relu.input(3)
len(relu.output(0).target_inputs)
[i.get_index() for i in relu.output(0).get_target_inputs()]
relu.output(0).remove_target_input(list(relu.output(0).get_target_inputs())[0]); len(relu.output(0).get_target_inputs())
relu.input(0).get_source_output()
total.input(1).get_source_output()
total.input_value(0)
[v.get_node().get_friendly_name() for v in total.input_values()][0]
relu.set_argument(0, y.output(0)); relu.input_value(0)
relu.rt_info['k'] = 'v'; [relu.get_rt_info()['k'].value, len(relu.rt_info), list(relu.rt_info)]
relu.rt_info['k'] = 1; del relu.rt_info['k']; len(relu.get_rt_info())
relu.output(0).rt_info['k'] = 'v'; relu.output(0).get_rt_info()['k'].value
relu.set_rt_info('v', 'k') if hasattr(relu, 'set_rt_info') else None; True
y.element_type == ov.Type.f32
x.set_element_type(ov.Type.f16); x.get_element_type() == ov.Type.f16
x.element_type = ov.Type.i32; str(x.get_element_type())
x.set_partial_shape(ov.PartialShape([4, 3])); str(x.partial_shape)
x.partial_shape = ov.PartialShape([5, '..3']); str(x.get_partial_shape())
x.set_layout(ov.Layout('NC')); str(x.get_layout())
x.layout = ov.Layout('NC'); [str(x.layout), x.layout == ov.Layout('NC')]
str(x.layout)
str(y.shape)
x.shape
ov.Tensor(np.zeros(3, np.float32)).get_size()
copy.copy(relu.output(0)).get_index()
copy.deepcopy(relu.output(0))
r = request(); [p.get_any_name() if p.get_names() else None for p in r.model_outputs]
r = request(); len(r.model_inputs)
r = request(); r.get_compiled_model().get_property('NETWORK_NAME')
r = request(); r.set_input_tensors({0: tensor(2, 3), 1: tensor(2, 3)}); r.infer(); r.get_output_tensor(0).data
r = request(); r.set_tensors({'total': tensor(2, 3)}); r.get_tensor('total').data
r = request(); r.set_tensor('nothing', tensor(2, 3))
r = request(); r.set_tensor('total', 3)
r = request(); r.get_tensor('nothing')
r = request(); r.set_input_tensor(tensor(2, 3))
r = request(); r.set_input_tensor(9, tensor(2, 3))
r = request(); r.get_input_tensor(9)
r = request(); r.get_output_tensor()
r = request(); r.set_input_tensor(1, tensor(2, 3)); r.get_input_tensor(1).data
r = request(); r.set_input_tensor(1, tensor(3, 3))
r = request(); r.set_output_tensor(1, tensor(1, 3)); r.infer(inputs); r.get_output_tensor(1).data
r = request(); r.set_output_tensors({1: tensor(1, 3)}); r.infer(inputs); r.get_output_tensor(1).data
r = request(); r.start_async(inputs); r.wait(); r.results[r.model_outputs[1]]
r = request(); r.start_async({7: tensor(1, 3)})
r = request(); r.infer({7: tensor(1, 3)})
[repr(ov.AxisSet({1, 2})), repr(ov.AxisVector([2, 1])), repr(ov.Strides([1, 2])), repr(ov.CoordinateDiff([1, 2]))]
r = request(); r.infer(inputs); [s.name for s in r.query_state()]
r = request(); r.infer(inputs); r.reset_state(); r.query_state()[0].state.data
compile().get_property('OPTIMAL_NUMBER_OF_INFER_REQUESTS') >= 1
[p.get_index() for p in compile().outputs]
compile().input('nothing')
compile().output(9)
compile().input()
compile().output('total').get_any_name()
compile()(inputs)[0]
[v.tolist() for v in compile()({'x': inputs[0], 'y': inputs[1]}).values()]
str(ov.Strides([1, 2]))
str(ov.AxisSet({1, 2}))
str(ov.AxisVector([1, 2]))
str(ov.Shape([1, 2]))
[ov.Strides([1, 2]) == ov.Strides([1, 2]), ov.Strides([1, 2]) == ov.Strides([2, 1]), len(ov.Strides([1, 2, 3]))]
ov.Strides([4, 5])[1]
list(ov.CoordinateDiff([1, -2]))
ov.Shape([2, 3]) == [2, 3]
[str(ov.Dimension(1, 5)), str(ov.Dimension(3)), str(ov.Dimension()), str(ov.Dimension(-1, 5))]
[ov.Dimension(1, 5).get_min_length(), ov.Dimension(1, 5).get_max_length(), ov.Dimension(3).get_length()]
ov.Dimension(1, 5).get_length()
[d.compatible(ov.Dimension(3)), d.compatible(ov.Dimension(7)), ov.Dimension(3).relaxes(ov.Dimension(3))]
[ov.Dimension(1, 5).refines(ov.Dimension(0, 9)), ov.Dimension(1, 5).same_scheme(ov.Dimension(1, 5))]
str(ov.PartialShape([1, '2..5', -1]))
[ov.PartialShape([1, -1]).rank.get_length(), ov.PartialShape.dynamic().rank.is_dynamic]
ov.PartialShape([1, -1]).compatible(ov.PartialShape([1, 5]))
ov.PartialShape([1, -1]).refines(ov.PartialShape([-1, -1]))
str(ov.PartialShape([ov.Dimension(2, 4), 3]).get_max_shape())
str(ov.PartialShape([ov.Dimension(2, 4), 3]).get_min_shape())
ov.PartialShape([2, -1]).get_shape()
ov.PartialShape([2, -1]).to_shape()
[t.get_type_name() for t in (ov.Type.f32, ov.Type.u4, ov.Type.boolean)]
[t.get_bitwidth() if hasattr(t, 'get_bitwidth') else t.bitwidth for t in (ov.Type.f32, ov.Type.u4)]
[ov.Type.f32.is_real(), ov.Type.u4.is_integral(), ov.Type.u8.is_signed(), ov.Type.i4.is_quantized(), ov.Type.f32.size]
[ov.Type(np.float32) == ov.Type.f32, ov.Type('i8') == ov.Type.i8]
ov.Type('nothing')
str(ov.Type.f16.to_dtype())
ov.Type.f32.compatible(ov.Type.dynamic)
ov.Type.f32.merge(ov.Type.dynamic).get_type_name()
ov.Type.f32.merge(ov.Type.i8)
""".strip().splitlines()


@pytest.mark.parametrize("expression", EXPRESSIONS)
def test_expressions_have_the_same_values(expression):
    assert evaluate(expression, "irrun.openvino") == evaluate(expression, "openvino")
