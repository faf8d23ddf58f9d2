"""Known faults of OpenVINO's reference implementation, `Model.evaluate`."""

from __future__ import annotations

from functools import partial

from irrun.conformance.fault import Fault

__all__ = ["REFERENCE_FAULTS"]

_fault = partial(Fault, oracle="evaluate")
_crash = partial(_fault, kind="memory", is_unsafe=True)

REFERENCE_FAULTS = [
    _fault(
        "reference-bf16",
        "Convert to bf16 does not round to nearest",
        text=(
            "Some values are rounded towards zero, both when constants are folded and when bf16 results of "
            "operations such as Range and Interpolate are stored."
        ),
        code="""
x = ops.parameter([2], f32)
model = ov.Model([ops.convert(ops.convert(x, "bf16"), "f32")], [x])
actual = run_reference(model, np.array([-2.7, 70000], f32))
expected = [-2.703125, 70144]
""",
        actual="[-2.6875, 69632]",
    ),
    _crash(
        "reference-cum-sum",
        "CumSum of a scalar ends the process",
        text="CumSum of empty data ends it, too.",
        code="""
x = ops.parameter([], f32)
model = ov.Model([ops.cum_sum(x, ops.constant(np.array(0)))], [x])
actual = run_reference(model, np.array(3, f32))
expected = 3
""",
        actual="the process ends with a segmentation fault",
    ),
    _crash(
        "reference-division-by-zero",
        "An integer division by zero ends the process",
        text="Mod ends the process, Divide raises a ValueError, and FloorMod returns a result.",
        code="""
x = ops.parameter([1], i32)
model = ov.Model([ops.mod(x, ops.constant(np.array([0], i32)))], [x])
actual = run_reference(model, np.array([3], i32))
expected = [0]
""",
        actual="the process ends with an arithmetic exception",
    ),
    _crash(
        "reference-dynamic-output",
        "Outputs of dynamic shape are not allocated before they are written",
        text="MaxPool with two outputs, MVN, PriorBox, PriorBoxClustered, ROIAlign, DepthToSpace and SpaceToDepth "
        "write past the end of their outputs if the declared shape is dynamic, which corrupts the memory of the "
        "process.",
        code="""
x = ops.parameter([-1, -1, -1, -1], f32)
model = ov.Model([ops.depth_to_space(x, "blocks_first", 2)], [x])
actual = run_reference(model, np.arange(8, dtype=f32).reshape(1, 8, 1, 1)).ravel()
expected = [0, 2, 4, 6, 1, 3, 5, 7]
""",
        actual="no elements, and memory is corrupted",
    ),
    _fault(
        "reference-h-swish",
        "HSwish of large numbers is infinite",
        text=("The product of x and min(max(x + 3, 0), 6) overflows above 5.7e37, although the result x would fit."),
        code="""
x = ops.parameter([1], f32)
model = ov.Model([ops.hswish(x)], [x])
actual = run_reference(model, np.array([2.0**126], f32))
expected = [2.0**126]
""",
        actual="[inf]",
    ),
    _crash(
        "reference-mat-mul",
        "MatMul of broadcast batches without inner elements ends the process",
        text="Sums of no terms should be 0.",
        code="""
a, b = ops.parameter([2, 1, 3, 0], f32), ops.parameter([4, 0, 5], f32)
model = ov.Model([ops.matmul(a, b, False, False)], [a, b])
actual = run_reference(model, np.ones((2, 1, 3, 0), f32), np.ones((4, 0, 5), f32))
expected = np.zeros((2, 4, 3, 5))
""",
        actual="the process ends with an arithmetic exception",
    ),
    _fault(
        "reference-pdpd",
        'Greater and GreaterEqual align the wrong input in the mode "pdpd"',
        text=(
            "They are computed as Less and LessEqual with swapped inputs, and then the second of the swapped "
            "inputs is aligned."
        ),
        code="""
x, y = ops.parameter([2, 2, 2], f32), ops.parameter([2, 2], f32)
mode = {"auto_broadcast": "pdpd", "auto_broadcast.auto_broadcast_axis": 0}
model = ov.Model([NodeFactory("opset1").create("Greater", [x.output(0), y.output(0)], mode)], [x, y])
actual = run_reference(model, np.zeros((2, 2, 2), f32), np.array([[1, -1], [-1, 1]], f32))
expected = [[[False, False], [True, True]], [[True, True], [False, False]]]
""",
        actual="elements are compared with elements of other rows",
    ),
    _fault(
        "reference-roi-align",
        "ROIAlign in f16 rounds intermediate results to f16",
        kind="rounding",
        text="This affects opset 3 in f16. All other operations in f16 compute in f32.",
        code="""
from openvino import opset3

x = ops.parameter([1, 1, 4, 4], f16)
box, index = ops.constant(np.array([[0.3, 0.1, 3, 3]], f16)), ops.constant(np.array([0], i32))
model = ov.Model([opset3.roi_align(x, box, index, 1, 1, 2, 1.0, "avg")], [x])
data = np.random.default_rng(0).normal(size=(1, 1, 4, 4)).astype(f16)
actual = run_reference(model, data).ravel()
expected = np.array([-0.06360], f16)
""",
        actual="np.array([-0.06350], f16)",
    ),
    _fault(
        "reference-scatter-update",
        "ScatterUpdate with a scalar index is refused",
        text="In this case, the updates have one dimension less than the data, which the specification allows.",
        code="""
x = ops.parameter([6], f32)
index, update, axis = ops.constant(np.array(4)), ops.constant(np.array(7, f32)), ops.constant(np.array(0))
model = ov.Model([ops.scatter_update(x, index, update, axis)], [x])
actual = run_reference(model, np.zeros(6, f32))
expected = [0, 0, 0, 0, 7, 0]
""",
        actual="IndexError: vector::_M_range_check",
        is_unsafe=True,
    ),
    _crash(
        "reference-space-to-batch",
        "SpaceToBatch reads block shapes and pads in i32 as i64",
        text="The operation fails or ends the process.",
        code="""
x = ops.parameter([2, 4, 3], f32)
block, none = ops.constant(np.array([1, 2, 1], i32)), ops.constant(np.array([0, 0, 0], i32))
model = ov.Model([ops.space_to_batch(x, block, none, none)], [x])
actual = run_reference(model, np.ones((2, 4, 3), f32))
expected = np.ones((4, 2, 3))
""",
        actual="MemoryError: std::bad_alloc, or the process ends",
    ),
    _crash(
        "reference-strings",
        "Squeeze and Unsqueeze of strings end the process",
        text="They copy strings as bytes, and free them twice.",
        code="""
x = ops.parameter([1, 2], ov.Type.string)
model = ov.Model([ops.squeeze(x, ops.constant(np.array([0])))], [x])
outputs = [ov.Tensor(ov.Type.string, ov.Shape([2]))]
model.evaluate(outputs, [ov.Tensor(np.array([["a", "b"]]))])
actual, expected = outputs[0].str_data, ["a", "b"]
""",
        actual="the process is aborted",
    ),
]
