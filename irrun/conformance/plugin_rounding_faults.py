"""Known faults of OpenVINO's CPU plugin: narrower types and rounding."""

from __future__ import annotations

from functools import partial

from irrun.conformance.fault import Fault

__all__ = ["PLUGIN_ROUNDING_FAULTS"]

_rounding = partial(Fault, oracle="cpu", kind="rounding")

PLUGIN_ROUNDING_FAULTS = [
    _rounding(
        "plugin-64-bits",
        "i64, u64 and u32 are computed in i32, and f64 in f32",
        text=("Values that do not fit are truncated to 32 bits or saturate. This also affects constants and outputs."),
        code="""
x = ops.parameter([1], np.int64)
model = ov.Model([ops.add(x, ops.constant(np.array([1])))], [x])
actual = run_plugin(model, np.array([2**40]))
expected = [2**40 + 1]
""",
        actual="[1]",
    ),
    _rounding(
        "plugin-root-of-integers",
        "ReduceL2 of integers truncates the root",
        text="OpenVINO's own tests and the reference implementation of Sqrt round it to the nearest integer.",
        code="""
x = ops.parameter([1, 3], i32)
model = ov.Model([ops.reduce_l2(x, np.array([1]), False)], [x])
actual = run_plugin(model, np.array([[3, 4, 6]], i32))
expected = [8]
""",
        actual="[7]",
    ),
    _rounding(
        "plugin-avg-pool",
        "AvgPool of integers rounds the quotient",
        text=(
            "The specification truncates the quotient, as does the reference implementation for some types. "
            "Without AVX-512, the operation does not support integers of more than 8 bits with one channel."
        ),
        code="""
from openvino import opset1

x = ops.parameter([1, 2, 2, 2], i32)
model = ov.Model([opset1.avg_pool(x, [2, 2], [0, 0], [0, 0], [2, 2], True)], [x])
actual = run_plugin(model, np.array([[[[1, 1], [1, 3]]] * 2], i32)).flatten()
expected = [1, 1]
""",
        actual="[2, 2]",
    ),
    _rounding(
        "plugin-bytes",
        "i8 and u8 saturate",
        text="In the reference implementation, arithmetic results that do not fit wrap around.",
        code="""
x, y = ops.parameter([2], u8), ops.parameter([2], u8)
model = ov.Model([ops.add(x, y)], [x, y])
actual = run_plugin(model, np.array([200, 1], u8), np.array([100, 1], u8))
expected = [44, 2]
""",
        actual="[255, 2]",
    ),
    _rounding(
        "plugin-convert",
        "Conversions to integers differ where values do not fit, and NaN becomes false",
        text="The reference implementation converts directly to the type, the plugin via i32 or f32.",
        code="""
x = ops.parameter([1], f32)
model = ov.Model([ops.convert(x, "boolean")], [x])
actual = run_plugin(model, np.array([nan], f32))
expected = [True]
""",
        actual="[False]",
    ),
    _rounding(
        "plugin-erf-inv",
        "ErfInv has relative errors of up to 1e-4",
        text="Errors are larger near 1. f64 is computed in f32.",
        code="""
from openvino import opset17

x = ops.parameter([1], f32)
model = ov.Model([opset17.erfinv(x)], [x])
actual = run_plugin(model, np.array([0.999999], f32)).round(3)
expected = np.array([3.459], f32)
""",
        actual="np.array([3.45], f32)",
    ),
    _rounding(
        "plugin-fake-convert",
        "FakeConvert rounds subnormal numbers to nearest",
        text=(
            "The reference implementation drops the bits of subnormal numbers that do not fit. In bf16, results"
            " are also rounded differently."
        ),
        code="""
x = ops.parameter([1], f32)
scale, shift = ops.constant(np.array([1], f32)), ops.constant(np.array([0], f32))
model = ov.Model([ops.fake_convert(x, scale, shift, "f8e4m3")], [x])
data = np.array([0.0015], f32)
actual = run_plugin(model, data)
expected = run_reference(model, data)
""",
        actual="[0.001953125]",
    ),
    _rounding(
        "plugin-fake-quantize",
        "FakeQuantize computes in another order",
        text="Results differ in the last bits, and by one level at ties.",
        code="""
x = ops.parameter([2], f32)
limits = [ops.constant(np.array(limit, f32)) for limit in (-1.3, 2.7, -1.3, 2.7)]
model = ov.Model([ops.fake_quantize(x, *limits, 255)], [x])
data = np.array([0.1, 0.7], f32)
actual = run_plugin(model, data)
expected = run_reference(model, data)
""",
        actual="numbers that differ in the last bit",
    ),
    _rounding(
        "plugin-grid-sample",
        'GridSample reflects points far away in f32, in the mode "bicubic"',
        text="The coordinates of points at a distance of 1e9 or more from the image are rounded.",
        code="""
x, grid = ops.parameter([1, 1, 2, 2], f32), ops.parameter([1, 1, 1, 2], f32)
attributes = {"align_corners": False, "mode": "bicubic", "padding_mode": "reflection"}
model = ov.Model([ops.grid_sample(x, grid, attributes)], [x, grid])
inputs = np.array([[[[1, 2], [3, 4]]]], f32), np.array([[[[1e9, 0.3]]]], f32)
actual = run_plugin(model, *inputs).ravel().round(3)
expected = run_reference(model, *inputs).ravel().round(3)  # 3.648
""",
        actual="np.array([2.648], f32)",
    ),
    _rounding(
        "plugin-integer-functions",
        "Functions of integers round to nearest",
        text=(
            "Exp, Log, Sin, Acos and similar functions are computed in f32. The reference implementation "
            "truncates or rounds the result, depending on the function."
        ),
        code="""
x = ops.parameter([1], i32)
model = ov.Model([ops.exp(x)], [x])
actual = run_plugin(model, np.array([1], i32))
expected = [2]
""",
        actual="[3]",
    ),
    _rounding(
        "plugin-integer-products",
        "MatMul of integers is computed in f32",
        text="Sums above 2^24 are rounded, and sums that do not fit saturate.",
        code="""
x = ops.parameter([1, 2], i32)
model = ov.Model([ops.matmul(x, ops.constant(np.array([[1], [1]], i32)), False, False)], [x])
actual = run_plugin(model, np.array([[2**24, 1]], i32))
expected = [[2**24 + 1]]
""",
        actual="[[2**24]]",
    ),
    _rounding(
        "plugin-integer-sums",
        "ReduceSum and ReduceMean of integers are computed in f32",
        text="Sums above 2^24 are rounded, and sums that do not fit saturate.",
        code="""
x = ops.parameter([1, 2], i32)
model = ov.Model([ops.reduce_sum(x, ops.constant(np.array([1])))], [x])
actual = run_plugin(model, np.array([[2**30, 1]], i32))
expected = [2**30 + 1]
""",
        actual="[2**30]",
    ),
    _rounding(
        "plugin-interpolate-bytes",
        "Interpolate of 8-bit integers rounds",
        text="The reference implementation truncates linear and cubic interpolations.",
        code="""
x = ops.parameter([1, 1, 1, 2], u8)
sizes, axes = ops.constant(np.array([1, 3])), ops.constant(np.array([2, 3]))
model = ov.Model([ops.interpolate(x, sizes, "linear_onnx", "sizes", axes=axes)], [x])
data = np.array([[[[0, 7]]]], u8)
actual = run_plugin(model, data).ravel()
expected = run_reference(model, data).ravel()  # 0, 3, 7
""",
        actual="[0, 4, 7]",
    ),
    _rounding(
        "plugin-random-uniform",
        "RandomUniform in f32 differs in the last bit",
        text=(
            "The random bits are the same, but the plugin applies the limits with a fused multiplication and "
            "addition. f64 and f16 are computed in f32."
        ),
        code="""
shape, low, high = ops.constant(np.array([9])), ops.constant(f32(-10)), ops.constant(f32(10))
model = ov.Model([ops.random_uniform(shape, low, high, "f32", 0, 11)], [])
actual = run_plugin(model)
expected = run_reference(model)
""",
        actual="numbers that differ in the last bit",
    ),
    _rounding(
        "plugin-random-uniform-i64",
        "RandomUniform in i64 draws 32-bit numbers",
        is_unsafe=True,
        text="This affects ranges of more than 2^32 numbers. Ranges that are multiples of 2^32 end the process.",
        code="""
shape, low, high = ops.constant(np.array([3])), ops.constant(np.array(0)), ops.constant(np.array(2**40 + 9))
model = ov.Model([ops.random_uniform(shape, low, high, "i64", 3, 4)], [])
actual = run_plugin(model)
expected = run_reference(model)
""",
        actual="numbers from 0 to 8",
    ),
    _rounding(
        "plugin-random-uniform-range",
        "RandomUniform in i32 returns the lower limit if the range does not fit into i32",
        text="The size of the range overflows.",
        code="""
limits = ops.constant(np.array(-(2**31), i32)), ops.constant(np.array(2**31 - 1, i32))
model = ov.Model([ops.random_uniform(ops.constant(np.array([2])), *limits, "i32", 3, 4)], [])
actual = run_plugin(model)
expected = run_reference(model)
""",
        actual="[-(2**31), -(2**31)]",
    ),
    _rounding(
        "plugin-range",
        "Range rounds its inputs to the output type and adds up the step",
        text=(
            "The specification truncates the inputs and multiplies the step. An empty range of integers gets "
            "one element."
        ),
        code="""
start, stop, step = (ops.parameter([], f32) for _ in range(3))
model = ov.Model([ops.range(start, stop, step, "i32")], [start, stop, step])
actual = run_plugin(model, np.array(1.7, f32), np.array(9.9, f32), np.array(1.5, f32))
expected = [1, 2, 3, 4, 5, 6, 7, 8]
""",
        actual="[2, 3, 5, 6, 8, 9]",
    ),
    _rounding(
        "plugin-scatter-mean",
        'ScatterElementsUpdate with the reduction "mean" rounds integers toward zero',
        text="The specification and the reference implementation round down.",
        code="""
x = ops.parameter([1], i32)
index, update = ops.constant(np.array([0])), ops.constant(np.array([-2], i32))
model = ov.Model([ops.scatter_elements_update(x, index, update, ops.constant(0), "mean", True)], [x])
actual = run_plugin(model, np.array([-1], i32))
expected = [-2]
""",
        actual="[-1]",
    ),
    _rounding(
        "plugin-soft-plus",
        "SoftPlus of negative numbers may be negative",
        text="The absolute error is up to 2e-6.",
        code="""
x = ops.parameter([1], f32)
model = ov.Model([ops.softplus(x)], [x])
actual = run_plugin(model, np.array([-20], f32)) > 0
expected = [True]
""",
        actual="[False]",
    ),
    _rounding(
        "plugin-subnormals",
        "Subnormal numbers become 0",
        text="This affects results of Exp, and conversions from types with wider exponents.",
        code="""
x = ops.parameter([1], f32)
model = ov.Model([ops.exp(x)], [x])
actual = run_plugin(model, np.array([-88], f32)) > 0
expected = [True]
""",
        actual="[False]",
    ),
    _rounding(
        "plugin-yuv",
        "Colors converted from NV12 and I420 differ by one level",
        text=(
            "This affects I420toRGB, NV12toRGB and the BGR forms in u8: the coefficients are rounded to f32, so"
            " that ties round down."
        ),
        code="""
x = ops.parameter([1, 3, 2, 1], u8)
model = ov.Model([ops.i420_to_rgb(x)], [x])
data = np.array([22, 22, 22, 22, 215, 149], u8).reshape(1, 3, 2, 1)  # red is 1.164 * 6 + 1.596 * 21 = 40.5
actual = run_plugin(model, data)[0, 0, 0]
expected = [41, 0, 183]
""",
        actual="[40, 0, 183]",
    ),
]
