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
[i.get_any_name() for i in m.inputs]
m.get_parameters()
[p.get_friendly_name() for p in m.parameters]
[o.get_index() for o in m.outputs]
m.input(0)
m.input('y').get_node()
m.input(tensor_name='y').get_node()
m.output(tensor_name='another').get_any_name()
m.input(2.5)
m.output([1])
m.get_sinks()
m.get_results()[0].get_friendly_name()
len(m.results)
m.get_parameter_index(x)
m.get_result_index(results[1])
m.get_result_index(split.output(1))
m.get_result_index(results[0].output(0))
m.get_sink_index(assign.output(0))
m.get_sink_index(3)
m.get_sink_index(x)
m.get_variable_by_id('state').info.variable_id
m.get_variable_by_id('nothing')
m.reshape({'x': [4, 3]}); str(m.input(0).partial_shape)
m.reshape({0: [4, 3], 'y': [2, 3]}); [str(i.partial_shape) for i in m.inputs]
m.reshape({x.output(0): '5,3'}); str(m.output(0).partial_shape)
m.reshape({m.input('x'): ov.PartialShape([-1, 3])}); str(m.output(0).partial_shape)
m.reshape({'x': (2, 3)}); str(m.output('total').shape)
m.reshape({'nothing': [1, 3]})
m.reshape({7: [1, 3]})
m.reshape({relu: [1, 3]})
m.reshape({'x': 3})
m.reshape(3)
m.reshape({'x': [2, 4]})
m.reshape({'x': [2, 3]}, {'state': [2, 3]}); str(m.input(0).shape)
m.reshape({'x': [2, 3]}, {3: [2, 3]})
x.set_layout(ov.Layout('NC')); y.set_layout(ov.Layout('?C')); ov.set_batch(m, 4); str(m.input(0).partial_shape)
x.set_layout(ov.Layout('NC')); ov.get_batch(m)
x.set_layout(ov.Layout('NC')); y.set_layout(ov.Layout('NC')); m.reshape({'x': [2, 3]}); str(ov.get_batch(m))
x.set_layout(ov.Layout('NC')); y.set_layout(ov.Layout('NC')); m.reshape({'x': [5, 3]}); str(ov.get_batch(m))
ov.get_batch(m)
ov.set_batch(m, 4)
[(relu < 2).get_type_name(), (relu <= 2).get_type_name(), (relu > 2).get_type_name(), (relu >= 2).get_type_name()]
[(relu == total).get_type_name() if hasattr(relu == total, 'get_type_name') else (relu == total)]
[(relu != total).get_type_name() if hasattr(relu != total, 'get_type_name') else (relu != total)]
[(-relu).get_type_name(), (relu ** 2).get_type_name(), (2 ** relu).get_type_name()]
[(2 ** relu).input_value(1), (relu - relu).input_value(1)]
(relu + total).get_output_partial_shape(0).to_string()
(relu // 2).get_type_name()
(relu % 2).get_type_name()
hash(relu) == hash(relu)
abs(relu).get_type_name()
c = ops.constant(np.array([[1, 2], [3, 4]], np.int8)); [c.data, c.get_data(), c.value]
c = ops.constant(np.array([[1, 2], [3, 4]], np.int8)); c.get_vector()
c = ops.constant(np.array([1.5, 2], np.float16)); [c.get_byte_size(), c.byte_size, c.get_value_strings()]
c = ops.constant(np.array([1.5, 2], np.float32)); c.get_data(dtype=np.float64)
c = ops.constant(np.array([1.5, 2], np.float32)); c.get_strides()
c = ops.constant(np.array([1.5, 2], np.float32)); c.strides
c = ops.constant(np.array([1.5, 2], np.float32)); c.get_tensor_view().data
c = ops.constant(np.array([1.5, 2], np.float32)); c.tensor_view.shape.to_string()
c = ops.constant(3, np.int32); [c.data, str(c.shape)]
c = ops.constant([1, 2], ov.Type.u4); c.data
c = ops.constant([1.7, 2.2], np.int32); c.data
c = ops.constant([300, -1], np.uint8); c.data
c = ov.op.Constant(ov.Type.f32, ov.Shape([2]), [1, 2]); c.data
c = ov.op.Constant(ov.Type.i4, ov.Shape([3]), [1, -2, 7]); c.data
c = ov.op.Constant(ov.Type.f32, ov.Shape([2, 2]), [3]); c.data
c = ov.op.Constant(ov.Type.f32, ov.Shape([2]), [1, 2, 3])
c = ov.op.Constant(np.array([1, 2], np.int32)); c.data
c = ov.op.Constant(ov.Tensor(np.array([1, 2], np.int32))); c.data
c = ops.constant(np.zeros(0, np.float32)); [c.data, str(c.shape)]
relu.data
relu.get_data()
p = ov.op.Parameter(ov.Type.f32, ov.PartialShape([1, -1])); [str(p.partial_shape), p.get_type_name()]
isinstance(x, ov.op.Parameter), isinstance(relu, ov.op.Parameter), isinstance(results[0], ov.op.Result)
r = ov.op.Result(relu.output(0)); r.get_type_name()
r = ops.result(relu); r.input_value(0)
relu.get_attributes()
split.get_attributes()
x.get_attributes()
sorted(read.get_attributes())
split.set_attribute('num_splits', 1); split.get_attributes()
relu.set_attribute('nothing', 1)
split.get_attributes()['num_splits']
[o.get_index() for o in split.outputs()]
[i.get_index() for i in total.inputs()]
split.get_output_size() == len(split.outputs())
str(total.get_output_partial_shape(0))
total.get_output_element_type(3)
total.get_input_element_type(1).get_type_name()
total.get_rt_info()
total.validate(); True
total.constructor_validate_and_infer_types(); str(total.output(0).partial_shape)
str(relu.output(0).get_partial_shape())
str(relu.output(0).get_element_type())
relu.output(0).get_shape()
str(split.output(0).get_shape())
relu.output(0).get_any_name() if relu.output(0).get_names() else 'none'
total.output(0).any_name
total.output(0).set_names({'a'}); total.output(0).names
total.output(0).add_names({'a'}); sorted(total.output(0).names)
relu.input(0).replace_source_output(y.output(0)); relu.input_value(0)
str(relu.input(0).get_partial_shape())
str(relu.input(0).get_element_type())
relu.input(0).get_shape()
relu.input(0).get_node()
relu.input(0).get_index()
str(total.input(1).get_shape())
relu.input(0).get_rt_info()
relu.input(0).rt_info
out = [tensor(2, 3)]; [relu.evaluate(out, [ov.Tensor(np.float32([[-1, 2, 3], [4, -5, 6]]))]), out[0].data]
out = [tensor(1)]; [total.evaluate(out, [tensor(1, 3), tensor(3)]), out[0].data]
ov.Model([relu], [y], 'n')
ov.Model([relu.output(0)], [x], 'n').outputs[0].get_node().get_type_name()
ov.Model(relu, [x]).get_friendly_name()
ov.Model([relu], [x]).get_friendly_name()
ov.Model([], [x], 'n')
ov.Model([results[0]], [x, y], 'n').get_output_size()
ov.Model(results, [assign], [x, y]).get_sinks()
ov.Model([relu], [x], 'n').clone().get_friendly_name()
m.clone().input('x').get_node()
m.get_rt_info(); True
m.set_rt_info({'a': 1, 'b': {'c': 'd'}}, 'k'); m.get_rt_info('k').value
m.set_rt_info(['a', 'b'], 'k'); m.get_rt_info('k').value
m.set_rt_info(True, 'k'); [m.get_rt_info('k').value, m.get_rt_info('k').astype(bool)]
m.set_rt_info('no', 'k'); m.get_rt_info('k').astype(bool)
m.set_rt_info('v', ['a', 'b']); m.get_rt_info(['a', 'x'])
m.set_rt_info('v', ['a', 'b']); [m.has_rt_info('a'), m.has_rt_info(['a', 'x']), m.has_rt_info(['x', 'b'])]
m.rt_info['k'] = 'v'; m.get_rt_info('k').value
m.rt_info['k'] = 5; m.rt_info['k'].value
ov.OVAny(5).value
ov.OVAny('a') == 'a'
ov.OVAny([1, 2]).aslist(int)
ov.OVAny([1, 2])[1]
ov.OVAny({'a': 1})['a']
ov.OVAny(2.5).astype(float)
ov.OVAny('1').astype(int)
ov.OVAny(5).set(6)
a = ov.OVAny(5); a.set('x'); a.get()
len(ov.OVAny([1, 2]))
ov.OVAny({'a': 1}).asdict() if hasattr(ov.OVAny(1), 'asdict') else 0
ov.OVAny(None).value
ov.OVAny(['a']).aslist(str)
ov.OVAny([]).aslist()
ov.layout_helpers.channels_idx(ov.Layout('NHW'))
ov.layout_helpers.get_layout(m.input(0)).to_string()
ov.layout_helpers.set_layout(m.input(0), ov.Layout('NC')); ov.layout_helpers.get_layout(m.input(0)).to_string()
ov.layout_helpers.get_layout(m.input('x')).empty
bool(ov.Dimension(2).has_symbol())
d = ov.Dimension(2); d.set_symbol(ov.Symbol()); d.has_symbol()
bool(ov.Symbol())
d = ov.Dimension(2); d.set_symbol(ov.Symbol()); bool(d.get_symbol())
bool(ov.Dimension(2).get_symbol())
ov.Dimension(-3, 5)
ov.Dimension(0, 2**63 - 1)
ov.Dimension(3, 3)
ov.Dimension('3..')
ov.Dimension('..4')
ov.Dimension('a..4')
ov.Dimension('1..b')
ov.Dimension('?')
ov.Dimension('-1')
ov.Dimension(2.5)
[ov.Dimension(2, 5) != ov.Dimension(2, 6), ov.Dimension(2) == 2.0, ov.Dimension(2) == 'a', ov.Dimension(2, 5) == 2]
[ov.Dimension(2, -1).max_length, ov.Dimension(2, -1).is_static, ov.Dimension(4).is_static, ov.Dimension(4).is_dynamic]
r = request(); r.infer(inputs); r.get_tensor(r.model_outputs[0]).data
r = request(); r.get_input_tensor()
r = request(); r.set_output_tensor(tensor(2, 3))
r = request(); r.set_input_tensors([tensor(2, 3)])
r = request(); r.set_tensors({'x': tensor(1, 3), 'y': tensor(2, 3)}); r.infer(); r.get_tensor('total').data
r = request(); r.set_tensors({'nothing': tensor(1, 3)})
r = request(); r.set_tensor(r.model_inputs[0], tensor(1, 3)); r.get_tensor('x').data
r = request(); r.set_tensor(x.output(0), tensor(1, 3)); r.get_tensor(x.output(0)).data
r = request(); r.start_async(inputs); r.wait(); r.wait_for(100)
r = request(); r.cancel()
r = request(); r.infer(inputs); r.latency >= 0
r = request(); r.infer({'x': inputs[0].data, 'y': inputs[1].data})[0]
r = request(); r.infer((inputs[0].data, inputs[1].data))[1]
r = request(); r.infer(inputs)['total']
r = request(); r.infer(inputs)['nothing']
r = request(); r.infer(inputs)[9]
r = request(); r.infer(inputs)[r.model_outputs[2]]
r = request(); s = r.infer(inputs); [len(s), len(list(s.keys())), len(list(s.values())), len(s.to_tuple())]
r = request(); s = r.infer(inputs); [v.tolist() for v in s.to_tuple()]
r = request(); s = r.infer(inputs); s.to_dict()[r.model_outputs[0]]
r = request(); s = r.infer(inputs); s.names()
r = request(); r.infer({'x': inputs[0].data.astype('f8'), 'y': inputs[1].data}, share_inputs=False)[0]
r = request(); r.infer({'x': 'abc', 'y': inputs[1].data})
r = request(); r.infer({('x',): inputs[0]})
r = request(); r.infer({'x': inputs[0], 0: inputs[0], 'y': inputs[1]})[0]
r = request(); seen = []; r.set_callback(lambda u: seen.append(u), 5); r.start_async(inputs); r.wait(); seen
r = request(); r.infer(inputs); st = r.query_state()[0]; st.state = tensor(2, 3); r.query_state()[0].state.data
r = request(); r.infer(inputs); r.infer(inputs); r.query_state()[0].state.data
compile().get_runtime_model().get_friendly_name()
[c.get_any_name() for c in compile().inputs]
compile().input(1).get_any_name()
compile().output(2).get_index()
compile().output()
compile()(inputs)[compile().output(0)]
c = compile(); c(inputs)[c.output(0)]
c = compile(); c([tensor(1, 3), tensor(2, 3)])['total']
c = compile(); c({'x': tensor(4, 3), 'y': tensor(2, 3)})[0]
c = compile(); c({'x': tensor(4, 4), 'y': tensor(2, 3)})
c = compile(); c(inputs); [s.name for s in c.query_state()]
c = compile(); c(inputs); c.reset_state(); c.query_state()[0].state.data
c = compile(); c.infer_new_request(inputs)[0]
c = compile(); c.infer_new_request({'x': inputs[0], 'y': inputs[1]})['total']
c = compile(); c.set_property({'PERF_COUNT': True})
c = compile(); c.get_property('nothing')
c = compile(); c.get_property('SUPPORTED_PROPERTIES')['NETWORK_NAME']
c = compile(); c.get_property('PERFORMANCE_HINT')
c = compile(); c.get_property('INFERENCE_PRECISION_HINT').get_type_name()
c = compile(); c.get_property('EXECUTION_DEVICES')
c = compile(); len(c.outputs), len(c.inputs)
q = ov.AsyncInferQueue(compile(), 2); [len(q), q.is_ready(), len(list(q))]
q = ov.AsyncInferQueue(compile(), 1); q.start_async(inputs, 'a'); q.wait_all(); q[0].results[0]
q = ov.AsyncInferQueue(compile(), 1); q.start_async(inputs); q.wait_all(); [q.get_idle_request_id(), q.userdata]
q = ov.AsyncInferQueue(compile(), 1); q.start_async(inputs, 5); q.wait_all(); q.userdata
q = ov.AsyncInferQueue(compile(), 1); q.start_async({'x': tensor(1, 4), 'y': tensor(2, 3)}); q.wait_all()
c = ov.Core(); c.available_devices
ov.Core().get_property('CPU', 'FULL_DEVICE_NAME') != ''
ov.Core().get_property('CPU', 'nothing')
ov.Core().get_property('nothing', 'FULL_DEVICE_NAME')
c = ov.Core(); c.set_property('CPU', {'PERF_COUNT': True}); c.get_property('CPU', 'PERF_COUNT')
c = ov.Core(); c.set_property({'CACHE_DIR': ''}); c.get_property('CACHE_DIR')
c = ov.Core(); c.set_property('CPU', {'NUM_STREAMS': 2}); str(c.get_property('CPU', 'NUM_STREAMS'))
ov.Core().compile_model(m, 'XYZ')
ov.Core().compile_model(m, 'CPU', {'nothing': 1})
ov.Core().compile_model(m)(inputs)['total']
ov.Core().compile_model(m, 'CPU', config={'PERF_COUNT': 'YES'}).get_property('PERF_COUNT')
ov.compile_model(m)(inputs)['total']
ov.compile_model(m, 'CPU')(inputs)['total']
ov.Core().read_model('nothing.xml')
ov.Core().read_model(3)
ov.Core().query_model(m, 'CPU')['relu']
ov.Core().get_versions('CPU')['CPU'].description != ''
ov.Core().unload_plugin('nothing')
ov.Core().import_model(b'xx', 'CPU')
ov.get_version() != ''
list(ov.AxisSet([2, 1, 2]))
len(ov.AxisSet([2, 1, 2]))
2 in ov.AxisSet([2, 1])
ov.Coordinate([1, 2])[0]
list(ov.Strides((3, 4)))
ov.Strides([1, 2]) != ov.Strides([1, 2])
t = ov.Tensor(ov.Type.f32, ov.Shape([2, 3])); t.shape = [1, 2]; str(t.shape)
t = tensor(2, 3); t.copy_from(tensor(2, 3)); t.data
t = tensor(2, 3); t.copy_from(tensor(3, 3))
t = tensor(2, 3); o = ov.Tensor(ov.Type.f32, ov.Shape([2, 3])); t.copy_to(o); o.data
t = tensor(2, 3); o = ov.Tensor(ov.Type.f32, ov.Shape([3])); t.copy_to(o); o.data
t = tensor(2, 3); o = ov.Tensor(ov.Type.f16, ov.Shape([2, 3])); t.copy_to(o)
t = tensor(2, 3); t.get_strides()
t = ov.Tensor(ov.Type.u4, ov.Shape([3])); t.strides
t = ov.Tensor(ov.Type.dynamic, ov.Shape([3]))
t = ov.Tensor(tensor(2, 3), ov.Coordinate([0, 1]), ov.Coordinate([2, 3])); t.data
ov.Tensor(np.zeros((2, 0), np.float32)).size
ov.Tensor(np.zeros(2, np.complex64))
ov.Tensor(np.array([1, 2], np.int8), ov.Shape([4]), ov.Type.u4).data
ov.utils.replace_node(relu, ops.tanh(x, name='t')); total.input_value(0)
ov.utils.replace_node(relu, [ops.tanh(x, name='t').output(0)]); total.input_value(0)
t = ops.tanh(x, name='t'); ov.utils.replace_output_update_name(total.output(0), t.output(0)); m.outputs[0].get_names()
t = ops.tanh(x, name='t'); ov.utils.replace_output_update_name(relu.output(0), t.output(0)); total.input_value(0)
t = ops.tanh(x, name='t'); [ov.utils.replace_output_update_name(relu.output(0), t.output(0)), total.input_value(0)]
c = compile(); np.shares_memory(c(inputs)[0], c(inputs)[0])
c = compile(); np.shares_memory(c(inputs, share_outputs=True)[0], c(inputs, share_outputs=True)[0])
c = compile(); a = inputs[0].data; c([a, inputs[1]]); np.shares_memory(c._infer_request.get_input_tensor(0).data, a)
ov.utils.replace_node(relu, ops.tanh(x, name='t').output(0)); total.input_value(0)
relu.output(0).set_names({'q'}); [relu.output(0).get_names(), total.output(0).get_names()]
""".strip().splitlines()


@pytest.mark.parametrize("expression", EXPRESSIONS)
def test_expressions_have_the_same_values(expression):
    assert evaluate(expression, "irrun.openvino") == evaluate(expression, "openvino")
