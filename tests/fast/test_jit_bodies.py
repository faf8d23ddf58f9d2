"""Operations of bodies that are compiled: the shapes of their results, and the reasons where they are not compiled."""

from __future__ import annotations

import functools
import re
from types import SimpleNamespace

import numpy as np
import pytest

pytest.importorskip("llvmlite")

from irrun.element_types import ELEMENT_TYPES
from irrun.fast.errors import NoKernelError
from irrun.fast.jit.body_kernels import CellKernel
from irrun.fast.jit.body_operations import MAX_ITEMS, add_step, can_compile
from irrun.fast.jit.body_plans import BodyPlanner, BodyStep, _locate
from irrun.fast.jit.compiled_loops import (
    CompiledLoop,
    InvariantStep,
    LoopBody,
    _BoundLoop,
    _count_iterations,
    _join,
    _read_condition,
    count_known,
)
from irrun.fast.jit.kernels import SoftmaxKernel
from irrun.fast.jit.nests import StridedLayout
from irrun.fast.specialization import CallSite
from irrun.ops._support.autoload import load_kernels
from irrun.ops._support.context import BackEdgeDescription, BodyRunner, InputDescription, OutputDescription
from irrun.ops._support.operation import Operation
from irrun.ops._support.registry import find

pytestmark = pytest.mark.usefixtures("own_kernel_cache")

F32, F64, F16, I32, I64, BOOL = (np.dtype(t) for t in ("f4", "f8", "f2", "i4", "i8", "?"))


def refuses(message):
    return pytest.raises(NoKernelError, match=f"^{re.escape(message)}")


def lay_out(*shape, dtype=F32, strides=None):
    return StridedLayout(shape, strides or np.empty(shape, dtype).strides, dtype)


def known(*values, dtype=I64):
    """Return a constant: a scalar for one value that is not in a list."""
    return np.array(values[0] if len(values) == 1 else values, dtype)


def add(name, inputs, attributes=None, version="opset8", outputs=1):
    """Add an operation to a plan, and return the values of its results.

    Args:
        name: The type of the operation.
        inputs: For each input, its layout or its constant value.
        attributes: The attributes.
        version: The opset.
        outputs: The number of outputs.
    """
    load_kernels(name)
    operation = find(name, version)
    assert operation is not None
    constants = {i: x for i, x in enumerate(inputs, 1) if isinstance(x, np.ndarray)}
    planner = BodyPlanner({i: x for i, x in enumerate(inputs, 1) if i not in constants}, constants)
    site = CallSite(
        operation,
        operation.bind(attributes or {}),
        tuple(constants.get(i) for i in range(1, 1 + len(inputs))),
        (False,) * len(inputs),
        outputs,
    )
    slots = tuple(range(100, 100 + outputs))
    step = BodyStep(site, tuple(range(1, 1 + len(inputs))), slots)
    assert can_compile(step) == ""
    add_step(planner, step)
    return [planner.values[slot] for slot in slots]


X = lay_out(2, 3, 4)
ROWS = lay_out(5, 3, 4, strides=(-48, 16, 4))

ACCEPTED = [
    ("Transpose", [X, known(2, 0, 1)], {}, (4, 2, 3), F32),
    ("Reshape", [X, known(6, -1)], {}, (6, 4), F32),
    ("Reshape", [ROWS, known(15, 4)], {}, (15, 4), F32),
    ("Concat", [X, lay_out(2, 1, 4)], {"axis": "1"}, (2, 4, 4), F32),
    ("Concat", [X, lay_out(2, 0, 4)], {"axis": "-2"}, (2, 3, 4), F32),
    ("Broadcast", [X, known(5, 2, 3, 4)], {}, (5, 2, 3, 4), F32),
    ("Broadcast", [lay_out(2, 1, 4), known(2, 3, 4)], {}, (2, 3, 4), F32),
    ("Broadcast", [lay_out(2, 1, 4), known(3, 1)], {"mode": "bidirectional"}, (2, 3, 4), F32),
    ("Tile", [X, known(2, 3)], {}, (2, 6, 12), F32),
    ("Tile", [lay_out(4, dtype=I32), known(2, 3)], {}, (2, 12), I32),
    ("ScatterUpdate", [X, lay_out(5, dtype=I32), lay_out(2, 5, 4), known(1)], {}, (2, 3, 4), F32),
    ("ScatterUpdate", [X, lay_out(1, dtype=I64), lay_out(2, 4), known(-2)], {}, (2, 3, 4), F32),
    (
        "ScatterUpdate",
        [lay_out(3, dtype=BOOL), lay_out(2, dtype=I64), lay_out(2, dtype=BOOL), known(0)],
        {},
        (3,),
        BOOL,
    ),
    ("Gather", [X, lay_out(5, 6, dtype=I64), known(1)], {}, (2, 5, 6, 4), F32),
    ("Gather", [X, lay_out(2, 6, dtype=I32), known(1)], {"batch_dims": "1"}, (2, 6, 4), F32),
    ("Gather", [X, lay_out(2, 6, dtype=I32), known(2)], {"batch_dims": "-1"}, (2, 3, 6), F32),
    ("Add", [X, lay_out(4)], {}, (2, 3, 4), F32),
    ("Add", [lay_out(3, dtype=I32), lay_out(2, 1, dtype=I32)], {}, (2, 3), I32),
    ("Softmax", [X], {"axis": "1"}, (2, 3, 4), F32),
    ("LogSoftmax", [X], {"axis": "-3"}, (2, 3, 4), F32),
    ("MVN", [X, known([2])], {"normalize_variance": "true", "eps": "1", "eps_mode": "inside_sqrt"}, (2, 3, 4), F32),
    ("MVN", [X, known(-1, 1)], {"normalize_variance": "true", "eps": "1", "eps_mode": "inside_sqrt"}, (2, 3, 4), F32),
    ("TopK", [X, known(4)], {"axis": "2", "mode": "max", "sort": "value"}, (2, 3, 4), F32),
    ("TopK", [lay_out(5, 4, dtype=I64), known(1)], {"axis": "0", "mode": "min", "sort": "index"}, (1, 4), I64),
    ("ReduceSum", [X, known(0, -1)], {}, (3,), F32),
    ("ReduceSum", [X, known(1, 1)], {"keep_dims": "true"}, (2, 1, 4), F32),
    ("ReduceProd", [lay_out(2, 3, dtype=I32), known(0)], {}, (3,), I32),
    ("ReduceLogicalAnd", [lay_out(2, 3, dtype=BOOL), known([0])], {}, (3,), BOOL),
    ("MatMul", [lay_out(2, 3, 4), lay_out(4, 5)], {}, (2, 3, 5), F32),
    ("MatMul", [lay_out(2, 4, 3), lay_out(2, 5, 4)], {"transpose_a": "true", "transpose_b": "true"}, (2, 3, 5), F32),
    ("MatMul", [lay_out(2, 3, 4), np.ones((5, 4), F32)], {"transpose_b": "true"}, (2, 3, 5), F32),
    ("MatMul", [lay_out(MAX_ITEMS, 3, 4), lay_out(4, 5)], {}, (MAX_ITEMS, 3, 5), F32),
    ("MatMul", [lay_out(2, 3, 4), lay_out(4, 5, strides=(48, 8))], {}, (2, 3, 5), F32),
    ("MatMul", [lay_out(2, 3, 4, strides=(96, 32, 8)), lay_out(4, 5)], {}, (2, 3, 5), F32),
]

MVN = {"normalize_variance": "true", "eps": "1", "eps_mode": "inside_sqrt"}
REFUSED = [
    ("Reshape", [X, lay_out(2, dtype=I64)], {}, "Reshape depends on values that are not constant"),
    ("Split", [lay_out(4, 0), known(0)], {"num_splits": "2"}, "a value is empty"),
    ("Concat", [X, lay_out(2, 3, 5)], {"axis": "1"}, "expected inputs of the same type, and of the same shape apart"),
    ("Concat", [X, lay_out(2, 3, 4, dtype=I32)], {"axis": "1"}, "expected inputs of the same type, and of the same"),
    ("Broadcast", [X, lay_out(3, dtype=I64)], {}, "input 1 of Broadcast is not constant"),
    ("Broadcast", [X, known(3, 4)], {}, "the value does not broadcast to the shape"),
    ("Broadcast", [X, known(2, 4, 4)], {}, "the value does not broadcast to the shape"),
    ("Broadcast", [X, known(2, 3, 4), known(0, 1, 2)], {"mode": "explicit"}, "Broadcast has the mode explicit"),
    ("Tile", [X, known(1, 0, 1)], {}, "a value is empty"),
    ("Tile", [X, lay_out(3, dtype=I64)], {}, "input 1 of Tile is not constant"),
    *(
        ("ScatterUpdate", [X, indices, updates, known(1)], {}, "ScatterUpdate has no compiled form for these element")
        for indices, updates in (
            (lay_out(5, dtype=BOOL), lay_out(2, 5, 4)),
            (lay_out(5, dtype=F32), lay_out(2, 5, 4)),
            (lay_out(5, dtype=I32), lay_out(2, 5, 4, dtype=I32)),
        )
    ),
    *(
        ("ScatterUpdate", [X, lay_out(5, dtype=I32), updates, known(1)], {}, "the shape of the updates does not match")
        for updates in (lay_out(2, 4, 4), lay_out(5, 2, 4), lay_out(2, 5), lay_out(2, 5, 4, 2))
    ),
    ("ScatterUpdate", [X, lay_out(5, dtype=I32), lay_out(2, 5, 4), lay_out(1, dtype=I32)], {}, "input 3 of ScatterUpd"),
    ("Gather", [X, lay_out(3, 6, dtype=I32), known(1)], {"batch_dims": "1"}, "the batch dimensions differ"),
    ("Gather", [X, lay_out(2, 3, dtype=I32), known(1)], {"batch_dims": "2"}, "the batch dimensions differ"),
    ("Gather", [X, lay_out(2, dtype=I32), known(2)], {"batch_dims": "2"}, "the batch dimensions differ"),
    ("Gather", [X, lay_out(2, dtype=I32), known(2)], {"batch_dims": "-2"}, "the batch dimensions differ"),
    ("Gather", [X, lay_out(5, dtype=BOOL), known(1)], {}, "the indices have type bool"),
    ("Add", [X, lay_out(4, dtype=I32)], {}, "expected f32"),
    ("Softmax", [lay_out(2, 3, dtype=F64)], {"axis": "1"}, "expected f32"),
    ("MVN", [X, known(0)], MVN, "MVN has no compiled form for these axes"),
    ("MVN", [X, known(0, 2)], MVN, "MVN has no compiled form for these axes"),
    ("MVN", [X, known([])], MVN, "MVN has no compiled form for these axes"),
    ("MVN", [X, lay_out(1, dtype=I64)], MVN, "input 1 of MVN is not constant"),
    ("TopK", [lay_out(4, dtype=BOOL), known(1)], {"axis": "0", "mode": "max", "sort": "value"}, "TopK has no compiled"),
    *(
        ("TopK", [X, known(k)], {"axis": "2", "mode": "max", "sort": sort}, "TopK has no compiled form in order of")
        for k, sort in ((0, "value"), (5, "value"), (2, "index"))
    ),
    ("TopK", [X, lay_out(dtype=I64)], {"axis": "2", "mode": "max", "sort": "value"}, "input 1 of TopK is not constant"),
    *(
        (name, [data, axes], {}, f"{name}-{version} has no compiled form for these axes and types")
        for name, version, data, axes in (
            ("ReduceSum", 1, lay_out(2, 3, dtype=BOOL), known(0)),
            ("ReduceSum", 1, X, known([])),
            ("ReduceSum", 1, lay_out(2, 3, dtype=F64), known(0)),
            ("ReduceMean", 1, lay_out(2, 3, dtype=I32), known(0)),
            ("ReduceL1", 4, lay_out(2, 3, dtype=I32), known(0)),
            ("ReduceL2", 4, lay_out(2, 3, dtype=I32), known(0)),
            ("ReduceLogicalOr", 1, lay_out(2, 3), known(0)),
        )
    ),
    ("ReduceMax", [X, lay_out(1, dtype=I64)], {}, "input 1 of ReduceMax is not constant"),
    ("MatMul", [X, lay_out(4)], {}, "expected matrices of f32"),
    ("MatMul", [lay_out(4), lay_out(4, 5)], {}, "expected matrices of f32"),
    ("MatMul", [X, lay_out(4, 5, dtype=F64)], {}, "expected matrices of f32"),
    ("MatMul", [X, lay_out(3, 5)], {}, "the shapes do not match"),
    ("MatMul", [lay_out(MAX_ITEMS + 1, 3, 4), lay_out(4, 5)], {}, "the product is too large"),
    ("MatMul", [lay_out(2, 3, 4), lay_out(4, 5, strides=(22, 4))], {}, "the product is too large"),
]


@pytest.mark.parametrize(("name", "inputs", "attributes", "shape", "dtype"), ACCEPTED)
def test_results_of_bodies_have_shapes_and_types(name, inputs, attributes, shape, dtype):
    outputs = add(name, inputs, attributes, outputs=2 if name == "TopK" else 1)
    assert (outputs[0].shape, outputs[0].dtype) == (shape, dtype)
    assert all(value.shape == shape for value in outputs)


@pytest.mark.parametrize(("name", "inputs", "attributes", "reason"), REFUSED)
def test_operations_of_bodies_are_refused(name, inputs, attributes, reason):
    with refuses(reason):
        add(name, inputs, attributes, outputs=2 if name in ("TopK", "Split") else 1)


@pytest.mark.parametrize(("type_name", "dtype"), [("i32", I32), ("i64", I64)])
def test_numbers_of_elements_have_the_stated_type(type_name, dtype):
    attributes = {"axis": "0", "mode": "max", "sort": "value", "index_element_type": type_name}
    values, indices = add("TopK", [lay_out(5), known(2)], attributes, outputs=2)
    assert (values.dtype, indices.dtype) == (F32, dtype)


def test_first_version_of_mvn_is_not_compiled():
    with refuses("MVN-2 has no compiled form"):
        add("MVN", [X], {"normalize_variance": "true", "eps": "1"}, "opset2")


def test_results_that_follow_from_constants_and_shapes_are_known():
    load_kernels("ShapeOf")
    load_kernels("Add")
    planner = BodyPlanner({1: X}, {2: known(1, 2, 3)})
    for name, inputs, output, attributes in (
        ("ShapeOf", (1,), 3, {"output_type": ELEMENT_TYPES["i64"]}),
        ("Add", (3, 2), 4, {}),
    ):
        operation = find(name, "opset8")
        site = CallSite(operation, attributes, (None,) * len(inputs), (False,) * len(inputs), 1)
        add_step(planner, BodyStep(site, inputs, (output,)))
    np.testing.assert_array_equal(planner.known[3], [2, 3, 4])
    np.testing.assert_array_equal(planner.known[4], [3, 5, 7])


def test_operations_without_an_emitter_have_no_compiled_form():
    load_kernels("Roll")
    site = CallSite(find("Roll", "opset8"), {}, (None,) * 3, (False,) * 3, 1)
    assert can_compile(BodyStep(site, (1, 2, 3), (4,))) == "Roll-7 has no compiled form"
    with refuses("Roll-7 has no compiled form"):
        add_step(BodyPlanner({1: X, 2: X, 3: X}, {}), BodyStep(site, (1, 2, 3), (4,)))


def test_custom_operations_are_not_compiled():
    custom = Operation.from_function(lambda x: x, "Relu", since=1)
    assert can_compile(BodyStep(CallSite(custom, {}, (None,), (False,), 1), (1,), (2,))) == "Relu is a custom operation"


def test_products_of_matrices_copy_what_they_cannot_read():
    """The kernel of small products reads rows of the left side, and rows or columns of the right one."""

    def count_tasks(left, right):
        planner = BodyPlanner({1: left, 2: right}, {})
        load_kernels("MatMul")
        site = CallSite(find("MatMul", "opset8"), {}, (None, None), (False, False), 1)
        add_step(planner, BodyStep(site, (1, 2), (3,)))
        return len(planner._tasks)

    assert count_tasks(lay_out(3, 4), lay_out(4, 5)) == 1
    assert count_tasks(lay_out(3, 4, strides=(64, 4)), lay_out(4, 5, strides=(4, 16))) == 1
    assert count_tasks(lay_out(3, 1, strides=(64, 8)), lay_out(1, 5)) == 1
    assert count_tasks(lay_out(3, 4, strides=(4, 12)), lay_out(4, 5)) == 2
    assert count_tasks(lay_out(3, 4), lay_out(4, 5, strides=(48, 8))) == 2
    assert count_tasks(lay_out(3, 4, strides=(4, 12)), lay_out(4, 5, strides=(48, 8))) == 3


# Values


def test_values_that_plans_do_not_hold_are_refused():
    planner = BodyPlanner({1: X, 3: lay_out(2, 3, 4, dtype=F64)}, {2: np.array(["text"], object)})
    for function, reason in (
        (lambda: planner.get(2), "the body has strings"),
        (lambda: planner.add_value((2, 0)), "a value is empty"),
        (lambda: planner.finish([], ()), "the body computes nothing"),
        (lambda: planner.add_kernel(SoftmaxKernel(3), [planner.get(3)]), "expected f32"),
        (lambda: _locate(planner.add_value((3,))), "expected a block with an address"),
    ):
        with refuses(reason):
            function()
    assert planner.add_kernel(SoftmaxKernel(3), [planner.get(1)]).layout == X
    assert len(planner.finish([1], ()).tasks) == 2


def test_values_without_gaps_are_contiguous():
    planner = BodyPlanner({1: X, 2: lay_out(2, 1, 4, strides=(16, 999, 4)), 3: ROWS, 4: lay_out(1, strides=(8,))}, {})
    assert [planner.get(slot).is_contiguous for slot in (1, 2, 3, 4)] == [True, True, False, True]
    assert planner.make_contiguous(planner.get(1)).layout == X
    assert planner.make_contiguous(planner.get(2)).strides == (16, 16, 4)
    copy = planner.make_contiguous(planner.get(3))
    assert copy.layout == lay_out(5, 3, 4)
    assert planner.make_contiguous(planner.get(3)) is copy
    assert len(planner._tasks) == 1


def test_constants_are_copied_unless_kernels_can_read_them():
    planner = BodyPlanner({}, {})
    straight = np.arange(12, dtype=np.float32).reshape(3, 4)
    unaligned = np.zeros(49, np.uint8)[1:].view(np.float32).reshape(3, 4)
    for array, is_kept in ((straight, True), (straight.T, False), (unaligned, False)):
        value = planner.add_constant(array)
        assert value.layout == lay_out(*array.shape)
        assert (planner._kept[-1] is array) == is_kept
        np.testing.assert_array_equal(planner._kept[-1], array)


# Cells

GATES = {"LSTMCell": 4, "GRUCell": 3, "RNNCell": 1}
VERSIONS = {"LSTMCell": "opset4", "GRUCell": "opset3", "RNNCell": "opset1"}


def make_cell(name, **changes):
    """Return the inputs of a cell with 5 elements of the hidden state, for a batch of 2 and 3 elements of the input."""
    gates = GATES[name]
    values = {"X": lay_out(2, 3), "H": lay_out(2, 5)}
    if name == "LSTMCell":
        values["C"] = lay_out(2, 5)
    values |= {"W": np.ones((gates * 5, 3), F32), "R": np.ones((gates * 5, 5), F32), "B": np.ones(gates * 5, F32)}
    values |= changes
    return [value for value in values.values() if value is not None]


@pytest.mark.parametrize("name", GATES)
@pytest.mark.parametrize("bias", [True, False])
def test_cells_return_states(name, bias):
    count = 2 if name == "LSTMCell" else 1
    inputs = make_cell(name, **({} if bias else {"B": None}))
    outputs = add(name, inputs, {"hidden_size": "5"}, VERSIONS[name], outputs=count)
    assert [(value.shape, value.dtype) for value in outputs] == [((2, 5), F32)] * count


def test_linear_gates_have_a_bias_of_their_own():
    inputs = make_cell("GRUCell", B=np.ones(20, F32))
    attributes = {"hidden_size": "5", "linear_before_reset": "true"}
    assert add("GRUCell", inputs, attributes, "opset3")[0].shape == (2, 5)
    with refuses("the shape of the biases does not match"):
        add("GRUCell", make_cell("GRUCell"), attributes, "opset3")
    with refuses("the shape of the biases does not match"):
        add("GRUCell", inputs, {"hidden_size": "5"}, "opset3")


@pytest.mark.parametrize("name", GATES)
@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"W": lay_out(5, 3)}, "the weights are not constant"),
        ({"R": lay_out(5, 5)}, "the weights are not constant"),
        ({"B": lay_out(5)}, "the weights are not constant"),
        ({"W": np.ones(15, F32)}, "the shapes do not match"),
        ({"R": np.ones((5, 4), F32)}, "the shapes do not match"),
        ({"X": lay_out(2, 4)}, "the shapes do not match"),
        ({"X": lay_out(2, 3, 1)}, "the shapes do not match"),
        ({"W": np.ones((4, 3), F32)}, "expected weights in f32 of all gates"),
        ({"X": lay_out(2, 3, dtype=F64)}, "expected weights in f32 of all gates"),
        ({"H": lay_out(2, 5, dtype=F64)}, "expected weights in f32 of all gates"),
        ({"H": lay_out(1, 5)}, "the shapes of the states do not match"),
        ({"H": lay_out(2, 6)}, "the shapes of the states do not match"),
        ({"B": np.ones(4, F32)}, "the shape of the biases does not match"),
        ({"B": np.ones((1, 5), F32)}, "the shape of the biases does not match"),
    ],
)
def test_cells_of_other_shapes_are_refused(name, changes, reason):
    with refuses(reason):
        outputs = 2 if name == "LSTMCell" else 1
        add(name, make_cell(name, **changes), {"hidden_size": "5"}, VERSIONS[name], outputs=outputs)


@pytest.mark.parametrize(
    ("peepholes", "is_accepted"),
    [
        (np.ones(15, F32), True),
        (np.zeros(15, F32), True),
        (np.ones(5, F32), False),
        (np.ones(15, F64), False),
        (np.ones((3, 5), F32), False),
        (lay_out(15), False),
    ],
)
def test_peepholes_are_constant(peepholes, is_accepted):
    attributes = {"hidden_size": "5"}
    inputs = [*make_cell("LSTMCell"), peepholes]
    if is_accepted:
        assert len(add("LSTMCell", inputs, attributes, "opset1", outputs=2)) == 2
    else:
        with refuses("expected constant peepholes"):
            add("LSTMCell", inputs, attributes, "opset1", outputs=2)


@pytest.mark.parametrize(
    ("scores", "is_accepted"),
    [
        (lay_out(2, 1), True),
        (lay_out(2, 1, strides=(-8, 4)), True),
        (lay_out(1, 1), False),
        (lay_out(2, 5), False),
        (lay_out(2, 1, dtype=F64), False),
    ],
)
def test_scores_of_gates_have_one_element_per_row(scores, is_accepted):
    inputs = [*make_cell("GRUCell"), scores]
    if is_accepted:
        assert add("AUGRUCell", inputs, {"hidden_size": "5"}, "ie_internal_opset")[0].shape == (2, 5)
    else:
        with refuses("the shape of the scores does not match"):
            add("AUGRUCell", inputs, {"hidden_size": "5"}, "ie_internal_opset")


def test_cells_are_computed_in_f32():
    load_kernels("LSTMCell")
    values = [np.ones(x.shape, F32) if isinstance(x, StridedLayout) else x for x in make_cell("LSTMCell")]
    operation, attributes = find("LSTMCell", "opset4"), {"hidden_size": 5}
    site = CallSite(operation, operation.bind({"hidden_size": "5"}), (None,) * 3 + tuple(values[3:]), (False,) * 6, 2)
    kernel = CellKernel(site)
    expected = operation.kernel(*values, **attributes)
    for own, exact in zip(kernel(*values[:3]), expected, strict=True):
        np.testing.assert_allclose(own, exact, rtol=1e-5)
    for position in range(3):
        with refuses("expected f32"):
            kernel(*[x.astype(F64) if i == position else x for i, x in enumerate(values[:3])])


def test_unknown_functions_of_gates_are_refused():
    attributes = {"hidden_size": "5", "activations": "sigmoid,other,tanh"}
    with refuses("the activation function 'other' is unknown"):
        add("LSTMCell", make_cell("LSTMCell"), attributes, "opset4", outputs=2)
    assert add("LSTMCell", make_cell("LSTMCell"), {**attributes, "activations": "Sigmoid, ReLU"}, "opset4", outputs=2)


@pytest.mark.parametrize("error", [ValueError("no value"), NoKernelError("no kernel")])
def test_operations_that_fail_before_a_loop_are_left_to_the_plain_loop(error):
    def fail(x):
        raise error

    body = LoopBody({}, (10,), (12,), (InvariantStep(fail, (10,), (11,)),), ())
    with refuses(str(error)):
        body.compute_invariants([np.ones(3, F32)])


def test_values_that_do_not_depend_on_the_iteration_are_computed_if_they_are_read():
    load_kernels("Relu")
    site = CallSite(find("Relu", "opset8"), {}, (None,), (False,), 1)
    steps = (InvariantStep(lambda x, y: (x.T, x + y), (10, 20), (11, 12)), InvariantStep(np.negative, (12,), (13,)))
    body = LoopBody({20: np.ones((2, 3), F32)}, (10,), (13,), steps, (BodyStep(site, (11,), (14,)),))
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    found = body.compute_invariants([x])
    assert list(found) == [11, 13]
    assert found[11].flags.c_contiguous
    np.testing.assert_array_equal(found[11], x.T)
    np.testing.assert_array_equal(found[13], -x - 1)


# The number of iterations


def slicers(*counts):
    return [SimpleNamespace(count=count) for count in counts]


BODY = SimpleNamespace(outputs=[], output_count=0, constant_results={})


@pytest.mark.parametrize(
    ("head", "counts", "expected"),
    [
        ((known(5), known(True, dtype=BOOL)), [], 5),
        ((known([5]), known([True], dtype=BOOL)), [5, 7], 5),
        ((known(-1), known(True, dtype=BOOL)), [], None),
        ((), [4, 4], 4),
        ((known(5), known(False, dtype=BOOL)), [], "expected at least one iteration"),
        ((known(0), known(True, dtype=BOOL)), [], "expected at least one iteration"),
        ((known(5, 5), known(True, dtype=BOOL)), [], "expected at least one iteration"),
        ((known(5), known(True, True, dtype=BOOL)), [], "expected at least one iteration"),
        ((known(5), known(True, dtype=BOOL)), [4], "expected slices for all iterations"),
        ((known(-1), known(True, dtype=BOOL)), [4], "expected slices for all iterations"),
        ((), [4, 5], "expected the same number of slices"),
        ((), [0], "expected at least one iteration"),
    ],
)
def test_iterations_are_counted(head, counts, expected):
    if isinstance(expected, str):
        with refuses(expected):
            _count_iterations(head, BODY, slicers(*counts))
    else:
        assert _count_iterations(head, BODY, slicers(*counts)) == expected


@pytest.mark.parametrize(
    ("value", "count", "expected"),
    [
        (None, 7, (0, 7)),
        (known(True, dtype=BOOL), 7, (None, 7)),
        (known([True], dtype=BOOL), None, (None, None)),
        (known(False, dtype=BOOL), 7, (None, 1)),
        (known(False, dtype=BOOL), None, (None, 1)),
    ],
)
def test_constant_conditions_limit_the_iterations(value, count, expected):
    outputs = [SimpleNamespace(result=3, purpose=None), SimpleNamespace(result=0, purpose="execution_condition")]
    constants = {3: known(1)} | ({} if value is None else {0: value})
    assert _read_condition(SimpleNamespace(outputs=outputs, constant_results=constants), count) == expected
    assert _read_condition(SimpleNamespace(outputs=outputs[:1], constant_results=constants), count) == (None, count)


def test_conditions_are_scalars():
    outputs = [SimpleNamespace(result=0, purpose="execution_condition")]
    with refuses("the execution condition is not a scalar"):
        _read_condition(SimpleNamespace(outputs=outputs, constant_results={0: known(True, True, dtype=BOOL)}), 3)
    assert count_known(0) == 0
    with refuses("expected a known number of iterations"):
        count_known(None)


@pytest.mark.parametrize("axis", [0, 1, -1, None])
@pytest.mark.parametrize("stride", [1, -1])
def test_values_of_iterations_are_joined(axis, stride):
    values = np.arange(24).reshape(4, 2, 3)
    joined = _join(SimpleNamespace(axis=axis, stride=stride), values)
    np.testing.assert_array_equal(joined, np.concatenate(values[::stride], axis or 0))
    scalars = _join(SimpleNamespace(axis=0, stride=stride), values[:, 0, 0])
    np.testing.assert_array_equal(scalars, values[::stride, 0, 0])


# Loops for certain inputs


def describe(inputs, edges=(), outputs=(), parameter_shapes=(), constants=None):
    """Return a body whose Parameters and Results are numbered from 0."""
    return BodyRunner(
        lambda *_: [],
        2,
        1,
        tuple(inputs),
        tuple(outputs),
        tuple(BackEdgeDescription(*edge) for edge in edges),
        parameter_shapes=parameter_shapes or ((3,), (3,)),
        parameter_dtypes=(F32, F32),
        constant_results=constants or {},
    )


def bind_loop(arrays, body, *, has_trip_count=False, parameters=(10, 11)):
    """Return a loop whose body returns its second Parameter, for certain inputs."""
    own = LoopBody({}, parameters, (parameters[-1],), (), ())
    return _BoundLoop(CompiledLoop(lambda *_, **__: (), own, has_trip_count), arrays, body)


DATA, STATE = np.ones((4, 3), F32), np.ones(3, F32)
WHOLE = InputDescription(1, 1)
SLICED = InputDescription(0, 0, axis=0)
COUNTER = InputDescription(-1, 0, purpose="current_iteration")


def test_parameters_are_read_where_their_values_are():
    loop = bind_loop([DATA, STATE], describe([SLICED, WHOLE], edges=[(0, 1)], outputs=[OutputDescription(0, 0)]))
    assert loop._count == 4
    assert loop._sources == {10: (0, 0), 11: (1, 0)}
    assert loop._steps == {10: 12}
    assert loop._layouts == {10: lay_out(1, 3), 11: lay_out(3)}
    assert (loop._edges, loop._results, loop._condition) == ({11: 11}, [11], None)
    backward = bind_loop([DATA, STATE], describe([InputDescription(0, 0, 0, -1, 0, -2, 2), WHOLE]))
    assert (backward._count, backward._sources[10], backward._steps) == (2, (0, 24), {10: -24})
    assert backward._layouts[10] == lay_out(2, 3)


@pytest.mark.parametrize(
    ("shape", "expected"), [((), ()), ((1,), (1,)), (None, (1,)), ((None,), (1,))], ids=["scalar", "vector", "?", "[?]"]
)
def test_number_of_the_iteration_has_the_declared_rank(shape, expected):
    body = describe([COUNTER, InputDescription(2, 1)], parameter_shapes=(shape, (3,)))
    loop = bind_loop([known(3), known(True, dtype=BOOL), STATE], body, has_trip_count=True)
    assert loop._counter == (10, F32, -1)
    assert loop._layouts[10] == lay_out(*expected)
    assert 10 not in loop._sources


@pytest.mark.parametrize(
    ("arrays", "inputs", "edges", "reason"),
    [
        ([DATA, STATE], [SLICED], [], "a Parameter has no value"),
        ([DATA, STATE], [WHOLE], [], "a Parameter has no value"),
        ([DATA, DATA[:1]], [SLICED, WHOLE], [(0, 0)], "a Parameter has several values"),
        ([DATA, STATE], [SLICED, SLICED, WHOLE], [], "expected slices with elements"),
        ([DATA[:, :0], STATE], [SLICED, WHOLE], [], "expected slices with elements"),
        ([DATA, STATE], [COUNTER, COUNTER, WHOLE], [], "expected one number of the iteration"),
        ([DATA, STATE], [COUNTER, WHOLE], [(0, 0)], "expected one number of the iteration"),
        ([DATA, STATE], [InputDescription(1, 0), COUNTER, WHOLE], [], "expected one number of the iteration"),
    ],
)
def test_loops_whose_parameters_have_no_value_or_several_are_refused(arrays, inputs, edges, reason):
    with refuses(reason):
        bind_loop(arrays, describe(inputs, edges))


def test_states_that_are_numbers_of_the_iteration_are_states():
    """The body itself counts; the number that the loop would give is not used."""
    body = describe([InputDescription(1, 0), COUNTER, WHOLE], edges=[(0, 0)])
    loop = bind_loop([DATA, STATE], body._replace(outputs=(OutputDescription(0, 0, axis=0, start=0, end=5),)))
    assert loop._counter is None
    assert loop._sources == {10: (1, 0), 11: (1, 0)}


def test_bodies_that_count_from_another_number_are_left_to_the_plain_loop():
    body = describe([InputDescription(2, 0), COUNTER, InputDescription(3, 1)])
    arrays = [known(3), known(True, dtype=BOOL), known([0]), STATE]
    loop = bind_loop(arrays, body, has_trip_count=True)
    assert loop._counter == (10, I64, 2)
    arrays[2] = known([7])
    with refuses("iterations are not counted from 0"):
        loop.run(arrays, {}, None)


def test_loops_without_an_end_are_refused():
    head, state = [known(-1), known(True, dtype=BOOL)], InputDescription(2, 1)
    body = describe([InputDescription(2, 0), state])
    with refuses("expected a known number of iterations"):
        bind_loop([*head, STATE], body, has_trip_count=True)
    ending = body._replace(outputs=(OutputDescription(-1, 0, purpose="execution_condition"),))
    loop = bind_loop([*head, STATE], ending, has_trip_count=True)
    assert (loop._condition, loop._count) == (0, None)
    once = ending._replace(constant_results={0: known(False, dtype=BOOL)})
    assert bind_loop([*head, STATE], once, has_trip_count=True)._count == 1


def test_results_are_written_in_place_unless_their_number_is_unknown():
    outputs = (OutputDescription(0, 0, axis=0), OutputDescription(-1, 0, purpose="execution_condition"))
    body = describe([SLICED, WHOLE], outputs=outputs[:1])
    loop = bind_loop([DATA, STATE], body)
    assert (loop._collected, loop._copied) == ({11}, set())
    loop = bind_loop([DATA, STATE], body._replace(outputs=outputs))
    assert (loop._collected, loop._copied) == (set(), {11})
    loop = bind_loop([DATA, STATE], body._replace(outputs=(OutputDescription(-1, 0, axis=0), OutputDescription(0, 0))))
    assert (loop._collected, loop._copied) == (set(), set())


@pytest.mark.parametrize(
    ("axis", "stride", "port", "is_copied"),
    [(0, 1, 0, False), (1, 1, 0, True), (0, -1, 0, True), (0, 0, 0, True), (1, 1, -1, False), (None, 1, 0, False)],
)
def test_outputs_that_are_not_in_order_are_copied_in_counted_memory(axis, stride, port, is_copied):
    load_kernels("Relu")
    site = CallSite(find("Relu", "opset8"), {}, (None,), (False,), 1)
    own = LoopBody({}, (10,), (12,), (), (BodyStep(site, (10,), (12,)),))

    def measure(*outputs):
        body = describe([SLICED], outputs=outputs, parameter_shapes=((1, 3),))
        loop = _BoundLoop(CompiledLoop(lambda *_, **__: (), own, False), [DATA], body)
        loop.make_plan({})
        return loop.size

    written = OutputDescription(0, 0, axis=0)
    result = 4 * 12  # bytes
    assert measure(written) == result
    assert measure(written, OutputDescription(port, 0, axis=axis, stride=stride)) == result * (2 if is_copied else 1)


@pytest.mark.parametrize(
    ("sizes", "places"),
    [((64, 64), 256), ((4096, 64), 128), ((1 << 18, 1 << 18), 2), ((1 << 17, 1 << 17), 4), ((1 << 20, 64), 2)],
)
def test_results_of_several_iterations_are_kept_until_the_condition_is_checked(sizes, places):
    loop = make_loop_with_condition(lay_out(1, dtype=BOOL), dict(zip((11, 12), sizes, strict=True)))
    _BoundLoop._add_places(loop, loop._condition)
    assert loop._places == {11: (sizes[0], places), 12: (sizes[1], places)}


@pytest.mark.parametrize("layout", [lay_out(dtype=I32), lay_out(2, dtype=BOOL), lay_out(1)])
def test_conditions_of_other_types_and_sizes_are_refused(layout):
    with refuses("the execution condition is not a boolean"):
        _BoundLoop._add_places(make_loop_with_condition(layout, {11: 64}), 0)


def make_loop_with_condition(layout, sizes):
    """Return what a loop knows about its results, the first of which is its execution condition."""
    return SimpleNamespace(
        _plan=SimpleNamespace(results={11: layout, 12: lay_out(3)}),
        _own=SimpleNamespace(results=(11, 12)),
        _condition=0,
        _places={slot: (size, 2) for slot, size in sizes.items()},
    )


def test_offsets_of_the_first_iterations_are_kept():
    loop = SimpleNamespace(_first_offsets=None, _formula=np.array([[0, -1, 8], [-1, 1, 4]]).T)
    loop._compute_offsets = functools.partial(_BoundLoop._compute_offsets, loop)
    numbers, offsets = first = _BoundLoop._compute_first_offsets(loop, 3)
    np.testing.assert_array_equal(numbers, [0, 1, 2])
    np.testing.assert_array_equal(offsets, [[0, 4], [8, 0], [16, 4]])
    assert _BoundLoop._compute_first_offsets(loop, 3) is first
    assert len(_BoundLoop._compute_first_offsets(loop, 5)[0]) == 5
    np.testing.assert_array_equal(_BoundLoop._compute_offsets(loop, 7, 2)[1], [[56, 0], [64, 4]])
