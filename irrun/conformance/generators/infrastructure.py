"""Conformance cases for Parameter, Constant, Result, TensorIterator, Loop, ReadValue and Assign."""

from __future__ import annotations

import itertools

import numpy as np

from irrun.conformance.cases import Case, register_cases

F32 = np.float32


def create_parameter(shape, dtype=F32):
    from openvino import PartialShape, Type, op

    return op.Parameter(Type(np.dtype(dtype)), PartialShape(list(shape)))


def create_constant(value):
    from openvino import op

    return op.Constant(np.asarray(value))


def create_model(outputs, parameters):
    import openvino as ov

    return ov.Model([ov.op.Result(o) for o in outputs], list(parameters))


@register_cases("If", since=8)
def if_8(rng):
    for condition, same_shape, constant in itertools.product((True, False), (True, False), (True, False)):
        yield _make_branches_case(rng, condition, same_shape, constant)
    for condition in (True, False):
        yield _make_parameterless_case(rng, condition)
        yield _make_if_in_iterator_case(rng, condition)
        for shapes, constant in itertools.product(itertools.permutations(((), (1,), (3,)), 2), (True, False)):
            yield _make_scalar_or_vector_case(condition, shapes, constant)


def _make_branches_case(rng, condition, same_shape, constant):
    """Return a case with branches that use different inputs and may return different shapes."""
    import openvino.opset8 as o

    x = rng.normal(size=(2, 3)).astype(F32)
    y = rng.normal(size=(2, 3)).astype(F32)

    def build():
        from openvino import op

        cond, px, py = create_parameter((1,), np.bool_), create_parameter(x.shape), create_parameter(y.shape)
        then_x, else_x, else_y = (create_parameter(x.shape) for _ in range(3))
        then_body = create_model([o.negative(then_x).output(0)], [then_x])
        other = o.add(else_x, else_y) if same_shape else o.concat([else_x, else_y], 0)
        else_body = create_model([other.output(0)], [else_x, else_y])
        choice = create_constant(np.array([condition])) if constant else cond
        node = op.if_op(choice.output(0))
        node.set_then_body(then_body)
        node.set_else_body(else_body)
        node.set_input(px.output(0), then_x, else_x)
        node.set_input(py.output(0), None, else_y)
        out = node.set_output(then_body.get_results()[0], else_body.get_results()[0])
        return create_model([out], [px, py] if constant else [cond, px, py])

    inputs = [x, y] if constant else [np.array([condition]), x, y]
    return Case(inputs, build=build, note=f"{condition}, same shape {same_shape}")


def _make_parameterless_case(rng, condition):
    """Return a case with branches without inputs."""

    def build():
        import openvino.opset8 as o
        from openvino import op

        cond = create_parameter((), np.bool_)
        bodies = [create_model([o.negative(create_constant(np.full((2,), v, F32))).output(0)], []) for v in (1, 2)]
        node = op.if_op(cond.output(0))
        node.set_then_body(bodies[0])
        node.set_else_body(bodies[1])
        out = node.set_output(bodies[0].get_results()[0], bodies[1].get_results()[0])
        return create_model([out], [cond])

    return Case([np.array(condition)], build=build, note=f"no parameters, {condition}")


def _make_scalar_or_vector_case(condition, shapes, constant):
    """Return a case with a scalar in one branch and a vector in the other.

    Unless the condition is constant, the scalar becomes a vector of one element.
    """

    def build():
        import openvino.opset8 as o
        from openvino import op

        cond = create_parameter((), np.bool_)
        bodies = [create_model([o.negative(create_constant(np.full(shape, 2, F32))).output(0)], []) for shape in shapes]
        node = op.if_op((create_constant(np.array(condition)) if constant else cond).output(0))
        node.set_then_body(bodies[0])
        node.set_else_body(bodies[1])
        return create_model([node.set_output(*(body.get_results()[0] for body in bodies))], [] if constant else [cond])

    inputs = [] if constant else [np.array(condition)]
    return Case(inputs, build=build, note=f"{shapes[0]} or {shapes[1]}, {condition}")


def _make_if_in_iterator_case(rng, condition):
    """Return a case with an If in the body of a TensorIterator."""
    import openvino.opset8 as o

    x = rng.normal(size=(4, 2)).astype(F32)

    def build():
        from openvino import op

        px, cond = create_parameter(x.shape), create_parameter((1,), np.bool_)
        middle, middle_cond = create_parameter((1, 2)), create_parameter((1,), np.bool_)
        a, b = create_parameter((1, 2)), create_parameter((1, 2))
        bodies = [create_model([o.negative(a).output(0)], [a]), create_model([o.abs(b).output(0)], [b])]
        node = op.if_op(middle_cond.output(0))
        node.set_then_body(bodies[0])
        node.set_else_body(bodies[1])
        node.set_input(middle.output(0), a, b)
        out = node.set_output(bodies[0].get_results()[0], bodies[1].get_results()[0])
        iterator = op.tensor_iterator()
        iterator.set_body(create_model([out], [middle, middle_cond]))
        iterator.set_sliced_input(middle, px.output(0), 0, 1, 1, -1, 0)
        iterator.set_invariant_input(middle_cond, cond.output(0))
        result = iterator.get_body().get_results()[0].output(0)
        return create_model([iterator.get_concatenated_slices(result, 0, 1, 1, -1, 0)], [px, cond])

    return Case([x, np.array([condition])], build=build, note=f"in an iterator, {condition}")


def _make_stateful_case(rng, dtype, shape, version, with_initial=True, difference=False):
    """Return a case with a variable that accumulates the input, run once from the initial value.

    With `difference`, the input is assigned, and the output is its difference to the previous one.
    """
    x = np.abs(rng.normal(size=shape) * 10).astype(dtype)  # the CPU plugin saturates u8

    def build():
        import openvino as ov
        import openvino.opset8 as o
        from openvino.op.util import Variable, VariableInfo
        from openvino.utils.node_factory import NodeFactory

        px = create_parameter(shape, dtype)
        initial = create_constant(np.full(shape, 3, dtype))
        info = VariableInfo()
        info.data_shape = ov.PartialShape(list(shape))
        info.data_type = ov.Type(np.dtype(dtype))
        info.variable_id = "sum"
        if version == 3:
            factory = NodeFactory("opset3")
            read = factory.create("ReadValue", [initial.output(0)], {"variable_id": "sum"})
            total = o.add(read, px)
            assign = factory.create("Assign", [total.output(0)], {"variable_id": "sum"})
        else:
            variable = Variable(info)
            read = ov.opset6.read_value(initial if with_initial else variable, *([variable] if with_initial else []))
            total = o.subtract(px, read) if difference else o.add(read, px)
            assign = ov.opset6.assign(px if difference else total, variable)
        return ov.Model([ov.op.Result(total.output(0))], [assign], [px])

    note = f"{np.dtype(dtype)} {shape}"
    if difference:
        return Case(
            [x], build=build, faults=["plugin-variable"], expected=[x - dtype(3)], note=f"{note}, the input is assigned"
        )
    return Case([x], build=build, note=note)


@register_cases("ReadValue", since=3)
def read_value_3(rng):
    for dtype, shape in itertools.product((F32, np.int32, np.uint8, np.float16), ((2, 3), (1,))):
        yield _make_stateful_case(rng, dtype, shape, 3)


@register_cases("Assign", since=3)
def assign_3(rng):
    for dtype, shape in itertools.product((F32, np.int32), ((2, 3), (4,), (1, 1, 2), ())):
        yield _make_stateful_case(rng, dtype, shape, 3)


@register_cases("ReadValue", since=6)
def read_value_6(rng):
    for dtype, shape, initial in itertools.product((F32, np.int32, np.float16), ((2, 3), (1,)), (True, False)):
        yield _make_stateful_case(rng, dtype, shape, 6, initial)


@register_cases("Assign", since=6)
def assign_6(rng):
    for dtype, shape in itertools.product((F32, np.int32), ((2, 3), (4,), (1, 1, 2), ())):
        yield _make_stateful_case(rng, dtype, shape, 6)
    yield _make_stateful_case(rng, F32, (4,), 6, difference=True)


@register_cases("Parameter", since=1)
@register_cases("Result", since=1)
def _generate_pass_through_cases(rng):
    shapes = ((2, 3), (), (0, 2), (1, 2, 3, 4, 5))
    for dtype, shape in itertools.product((F32, np.int64, np.bool_, np.float16, np.uint8), shapes):
        x = (rng.normal(size=shape) * 4).astype(dtype)
        for dynamic in (False, True):

            def build(x=x, dynamic=dynamic):
                import openvino.opset8 as o

                parameter = create_parameter([-1] * x.ndim if dynamic else x.shape, x.dtype)
                copy = o.concat([parameter, parameter], 0) if x.ndim else parameter
                return create_model([parameter.output(0), copy.output(0)], [parameter])

            yield Case([x], build=build, note=f"dynamic {dynamic}")


@register_cases("Constant", since=1)
def constant_1(rng):
    dtypes = (F32, np.float64, np.float16, np.int64, np.int32, np.int16, np.int8, np.uint8, np.uint64, np.bool_)
    for dtype, shape in itertools.product(dtypes, ((2, 3), (), (5,))):
        value = (rng.normal(size=shape) * 5).astype(dtype)

        def build(value=value):
            return create_model([create_constant(value).output(0)], [])

        faults = ("plugin-64-bits",) if dtype in (np.float64, np.uint64) else ()
        yield Case([], build=build, faults=faults, expected=[value], note=f"{value.dtype} {value.shape}")
