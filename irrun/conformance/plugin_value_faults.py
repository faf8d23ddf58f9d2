"""Known faults of OpenVINO's CPU plugin with INFERENCE_PRECISION_HINT=f32: wrong values."""

from __future__ import annotations

from functools import partial

from irrun.conformance.fault import Fault

__all__ = ["PLUGIN_VALUE_FAULTS"]

_fault = partial(Fault, oracle="cpu")

PLUGIN_VALUE_FAULTS = [
    # Depends on the instruction set.
    _fault(
        "plugin-bf16",
        "Conversions to bf16 do not round without AVX-512",
        processors="no avx512",
        text=(
            "A value that is converted to bf16 and back is unchanged, and a value returned in bf16 is rounded "
            "towards zero. With AVX-512, both are rounded to nearest. Range and RandomUniform in bf16 are "
            "affected, too."
        ),
        code="""
x = ops.parameter([2], f32)
model = ov.Model([ops.convert(ops.convert(x, "bf16"), "f32")], [x])
actual = run_plugin(model, np.array([-2.7, 70000], f32))
expected = [-2.703125, 70144]
""",
        actual="np.array([-2.7, 70000], f32)",
    ),
    _fault(
        "plugin-p-relu",
        "PRelu of 0 with an infinite slope is NaN",
        processors="avx2",
        text="Only negative elements should be multiplied by the slope.",
        code="""
x, slope = ops.parameter([2], f32), ops.parameter([2], f32)
model = ov.Model([ops.prelu(x, slope)], [x, slope])
actual = run_plugin(model, np.array([0, -1], f32), np.array([inf, 2], f32))
expected = [0, -2]
""",
        actual="[nan, -2]",
    ),
    _fault(
        "plugin-greater-nan",
        "NaN is greater than all numbers, and all numbers are greater than NaN",
        processors="avx512",
        text="Greater and GreaterEqual return true if one of the inputs is NaN. Less and LessEqual return false.",
        code="""
x, y = ops.parameter([3], f32), ops.parameter([3], f32)
model = ov.Model([ops.greater(x, y)], [x, y])
actual = run_plugin(model, np.array([nan, 1, nan], f32), np.array([1, nan, nan], f32))
expected = [False, False, False]
""",
        actual="[True, True, True]",
    ),
    _fault(
        "plugin-gelu",
        "Gelu of infinity is NaN",
        processors="avx512",
        text='This affects the mode "erf". The result should be infinity.',
        code="""
x = ops.parameter([1], f32)
model = ov.Model([ops.gelu(x, "erf")], [x])
actual = run_plugin(model, np.array([inf], f32))
expected = [inf]
""",
        actual="[nan]",
    ),
    # Values.
    _fault(
        "plugin-binary-convolution",
        "BinaryConvolution reads the bits of each byte of the filters in reverse order",
        text=("The first element of a u1 tensor is the highest bit of the first byte. Padding with 0 is ignored, too."),
        code="""
x = ops.parameter([1, 8, 1, 1], f32)
filters = ov.op.Constant(ov.Tensor(np.array([0b00000001], u8), ov.Shape([1, 8, 1, 1]), ov.Type.u1))
attributes = {"strides": [1, 1], "pads_begin": [0, 0], "pads_end": [0, 0], "dilations": [1, 1]}
attributes |= {"mode": "xnor-popcount", "pad_value": 0.0}
node = NodeFactory("opset1").create("BinaryConvolution", [x.output(0), filters.output(0)], attributes)
model = ov.Model([node], [x])
actual = run_plugin(model, np.array([0, 0, 0, 0, 0, 0, 0, 1], f32).reshape(1, 8, 1, 1)).ravel()
expected = [8]
""",
        actual="[4]",
    ),
    _fault(
        "plugin-bicubic-pillow",
        'Interpolate in the mode "bicubic_pillow" ignores cube_coeff',
        text="The plugin always uses -0.5.",
        code="""
x = ops.parameter([1, 1, 1, 4], f32)
sizes, axes = ops.constant(np.array([1, 2])), ops.constant(np.array([2, 3]))
model = ov.Model([ops.interpolate(x, sizes, "bicubic_pillow", "sizes", cube_coeff=0.0, axes=axes)], [x])
data = np.array([[[[0, 1, 0, 0]]]], f32)
actual = run_plugin(model, data).ravel()
expected = run_reference(model, data).ravel()
""",
        actual="other numbers",
    ),
    _fault(
        "plugin-clamp-nan",
        "NaN becomes the lower limit of Clamp, Relu and HSigmoid",
        text="These operations should keep NaN.",
        code="""
x = ops.parameter([1], f32)
model = ov.Model([ops.clamp(x, -1, 1)], [x])
actual = run_plugin(model, np.array([nan], f32))
expected = [nan]
""",
        actual="[-1]",
    ),
    _fault(
        "plugin-deformable-convolution",
        "DeformableConvolutions that differ only in bilinear_interpolation_pad give the same results",
        text="If both are in one model, the second one uses the kernel of the first one.",
        code="""
x, mask, offsets = (ops.parameter([1, channels, 1, 1], f32) for channels in (1, 1, 2))
filters = ops.constant(np.ones((1, 1, 1, 1), f32))
arguments = [x, offsets, filters, [1, 1], [0, 0], [0, 0], [1, 1], mask]
nodes = [ops.deformable_convolution(*arguments, bilinear_interpolation_pad=pad) for pad in (False, True)]
model = ov.Model([ops.concat(nodes, 1)], [x, offsets, mask])
inputs = [np.full((1, channels, 1, 1), value, f32) for channels, value in ((1, 4), (2, 0.5), (1, 1))]
actual = run_plugin(model, *inputs).ravel()
expected = [4, 1]
""",
        actual="[4, 4]",
    ),
    _fault(
        "plugin-floor-division",
        "Divide of integers rounds toward zero if m_pythondiv is true",
        text="The attribute, which is true by default, selects rounding down.",
        code="""
x, y = ops.parameter([2], i32), ops.parameter([2], i32)
model = ov.Model([ops.divide(x, y)], [x, y])
actual = run_plugin(model, np.array([-7, 7], i32), np.array([2, -2], i32))
expected = [-4, -4]
""",
        actual="[-3, -3]",
    ),
    _fault(
        "plugin-gather",
        "Gather treats negative indices as out of range before opset 8",
        text="The slices are 0, while the reference implementation counts such indices from the end.",
        code="""
from openvino import opset7

indices = ops.parameter([2], np.int64)
model = ov.Model([opset7.gather(ops.constant(np.array([10, 20, 30], f32)), indices, ops.constant(0))], [indices])
actual = run_plugin(model, np.array([-1, 0]))
expected = [30, 10]
""",
        actual="[0, 10]",
    ),
    _fault(
        "plugin-hard-sigmoid",
        "HardSigmoid replaces an alpha or beta of 0 by the default",
        text="The defaults are 0.2 and 0.5.",
        code="""
x = ops.parameter([2], f32)
model = ov.Model([ops.hard_sigmoid(x, ops.constant(np.array(0, f32)), ops.constant(np.array(0.25, f32)))], [x])
actual = run_plugin(model, np.array([0, 1], f32))
expected = [0.25, 0.25]
""",
        actual="np.array([0.25, 0.45], f32)",
    ),
    _fault(
        "plugin-interpolate-antialias",
        'Interpolate in the mode "linear" ignores antialias',
        text="Where data becomes smaller, the result is the same as without antialiasing.",
        code="""
x = ops.parameter([1, 1, 1, 4], f32)
sizes, axes = ops.constant(np.array([1, 2])), ops.constant(np.array([2, 3]))
model = ov.Model([ops.interpolate(x, sizes, "linear", "sizes", antialias=True, axes=axes)], [x])
data = np.array([[[[0, 0, 8, 0]]]], f32)
actual = run_plugin(model, data).ravel()
expected = run_reference(model, data).ravel()  # 8/7 and 24/7
""",
        actual="[0, 4]",
    ),
    _fault(
        "plugin-interpolate-nan",
        "Interpolate skips infinity and NaN with weights of 0",
        text=(
            'This affects the mode "linear". The product of infinity and 0 should be NaN, as in the reference '
            "implementation."
        ),
        code="""
x = ops.parameter([1, 1, 1, 4], f32)
sizes, axes = ops.constant(np.array([1, 2])), ops.constant(np.array([2, 3]))
model = ov.Model([ops.interpolate(x, sizes, "linear", "sizes", axes=axes)], [x])
data = np.array([[[[1, inf, 2, 3]]]], f32)
actual = run_plugin(model, data).ravel()
expected = run_reference(model, data).ravel()  # inf and NaN
""",
        actual="[inf, 2.5]",
    ),
    _fault(
        "plugin-iterator-start",
        "TensorIterator ignores the start of a sliced input",
        text=(
            "The range only determines the number of iterations, and slices begin at the edge of the axis. The "
            "reference implementation does the same."
        ),
        code="""
x, part = ops.parameter([3], f32), ops.parameter([1], f32)
result = ops.result(ops.negative(part))
iterator = ops.tensor_iterator()
iterator.set_body(ov.Model([result], [part], "body"))
iterator.set_sliced_input(part, x.output(0), 1, 1, 1, -1, 0)
model = ov.Model([iterator.get_concatenated_slices(result.output(0), 0, 1, 1, -1, 0)], [x])
actual = run_plugin(model, np.array([1, 2, 3], f32))
expected = [-2, -3]
""",
        actual="[-1, -2]",
    ),
    _fault(
        "plugin-loop",
        "A Loop whose condition is false returns no elements instead of the initial value",
        text="Without iterations, the outputs should be the initial values of the merged inputs.",
        code="""
x, value = ops.parameter([1, 3], f32), ops.parameter([1, 3], f32)
go_on, result = ops.result(ops.constant(np.array(True))), ops.result(ops.add(value, value))
loop = ops.loop(ops.constant(np.array(3)), ops.constant(np.array(False)))
loop.set_function(ov.Model([go_on, result], [value], "body"))
loop.set_special_body_ports([-1, 0])
loop.set_merged_input(value, x.output(0), result.output(0))
model = ov.Model([loop.get_iter_value(result.output(0), -1)], [x])
actual = run_plugin(model, np.array([[1, 2, 3]], f32))
expected = [[1, 2, 3]]
""",
        actual="np.zeros((0, 3))",
    ),
    _fault(
        "plugin-lrn",
        "LRN along channels and spatial axes divides by a wrong number",
        text=(
            "The same happens along some of the spatial axes only, and with windows of even sizes. Results are "
            "right along the channels alone, and along all spatial axes with windows of odd sizes."
        ),
        code="""
x = ops.parameter([1, 2, 2, 2], f32)
model = ov.Model([ops.lrn(x, ops.constant(np.array([1, 2, 3])), 3.0, 1.0, 1.0, 3)], [x])
actual = run_plugin(model, np.ones((1, 2, 2, 2), f32)).ravel()
expected = np.full(8, 1 / (1 + 3 * 8 / 27), f32)  # the sum of 8 squares, divided by 3^3
""",
        actual="np.full(8, 3 / 7, f32)",
    ),
    _fault(
        "plugin-max-pool",
        "MaxPool with indices ignores auto_pad if shapes are dynamic",
        text=(
            'This affects MaxPool since opset 8 with two outputs and auto_pad "same_upper" or "same_lower". The'
            " windows begin at the first element, as if there were no padding."
        ),
        code="""
from openvino import opset8

x = ops.parameter([-1, -1, -1, -1], f32)
node = opset8.max_pool(x, [1, 2], [1, 1], [0, 0], [0, 0], [1, 2], "floor", "same_lower")
model = ov.Model([node.output(0), node.output(1)], [x])
actual = run_plugin(model, np.array([[[[1, 2, 3]]]], f32)).ravel()
expected = [1, 3]
""",
        actual="[2, 3]",
    ),
    _fault(
        "plugin-maximum-nan",
        "Maximum and Minimum return the second input if one is NaN",
        text="The reference implementation returns the first input.",
        code="""
x, y = ops.parameter([2], f32), ops.parameter([2], f32)
model = ov.Model([ops.maximum(x, y)], [x, y])
actual = run_plugin(model, np.array([nan, 1], f32), np.array([1, nan], f32))
expected = [nan, 1]
""",
        actual="[1, nan]",
    ),
    _fault(
        "plugin-mod",
        "Mod and FloorMod are wrong for infinite divisors and for large quotients",
        text=(
            "The plugin subtracts the divisor times the truncated quotient, computed in f32 even for integers. "
            "A finite number modulo infinity becomes NaN."
        ),
        code="""
x, y = ops.parameter([2], f32), ops.parameter([2], f32)
model = ov.Model([ops.mod(x, y)], [x, y])
actual = run_plugin(model, np.array([3, 1e10], f32), np.array([inf, 3], f32))
expected = [3, 1]
""",
        actual="[nan, 0]",
    ),
    _fault(
        "plugin-multinomial",
        "Multinomial draws other samples than the specification",
        text="The classes should follow from the random numbers of RandomUniform with the same seeds.",
        code="""
x = ops.parameter([1, 2], f32)
model = ov.Model([ops.multinomial(x, ops.constant(np.array([8])), "i32", True, False, 5, 6)], [x])
actual = run_plugin(model, np.array([[0.5, 0.5]], f32))
seeds = {"output_type": "f32", "global_seed": 5, "op_seed": 6}
shape, low, high = ops.constant(np.array([1, 8])), ops.constant(f32(0)), ops.constant(f32(1))
numbers = NodeFactory("opset8").create("RandomUniform", [n.output(0) for n in (shape, low, high)], seeds)
expected = run_reference(ov.Model([numbers], [])) > 0.5
""",
        actual="other classes",
    ),
    _fault(
        "plugin-non-zero",
        "NonZero of a scalar 0 has the shape [1, 0]",
        text="The reference implementation returns [0, 0]: a scalar has no dimensions.",
        code="""
x = ops.parameter([], f32)
model = ov.Model([ops.non_zero(x)], [x])
actual = run_plugin(model, np.array(0, f32)).shape
expected = (0, 0)
""",
        actual="(1, 0)",
    ),
    _fault(
        "plugin-pad-empty",
        "Pad of data without elements ignores the value if it is a Parameter",
        text="The result is filled with 0.",
        code="""
x, value = ops.parameter([0, 2], f32), ops.parameter([], f32)
pads = ops.constant(np.array([1, 0]))
model = ov.Model([ops.pad(x, pads, pads, "constant", value)], [x, value])
actual = run_plugin(model, np.zeros((0, 2), f32), np.array(7, f32))
expected = [[7, 7], [7, 7]]
""",
        actual="[[0, 0], [0, 0]]",
    ),
    _fault(
        "plugin-pdpd",
        'Shifts align the last dimensions in the mode "pdpd"',
        text="BitwiseLeftShift and BitwiseRightShift ignore auto_broadcast_axis.",
        code="""
x, y = ops.parameter([2, 2], i32), ops.parameter([2], i32)
mode = {"auto_broadcast": "pdpd", "auto_broadcast.auto_broadcast_axis": 0}
model = ov.Model([NodeFactory("opset15").create("BitwiseLeftShift", [x.output(0), y.output(0)], mode)], [x, y])
actual = run_plugin(model, np.ones((2, 2), i32), np.array([0, 3], i32))
expected = [[1, 1], [8, 8]]
""",
        actual="[[1, 8], [1, 8]]",
    ),
    _fault(
        "plugin-power",
        "Power with exponents of 0.5 and -0.5 computes square roots",
        text=(
            "This affects constant exponents. The root of -infinity should be infinity (or 0 for -0.5), and the"
            " sign of -0 should be dropped."
        ),
        code="""
x = ops.parameter([2], f32)
model = ov.Model([ops.power(x, ops.constant(np.array([0.5], f32)))], [x])
actual = run_plugin(model, np.array([-inf, 4], f32))
expected = [inf, 2]
""",
        actual="[nan, 2]",
    ),
    _fault(
        "plugin-reduce",
        "ReduceMax and ReduceMin return NaN where the reference implementation skips it",
        text="In a row of NaN and numbers, the result depends on their order.",
        code="""
x = ops.parameter([1, 2], f32)
model = ov.Model([ops.reduce_max(x, ops.constant(np.array([1])))], [x])
data = np.array([[nan, nan]], f32)
actual = run_plugin(model, data)
expected = run_reference(model, data)  # the lowest finite number
""",
        actual="[nan]",
    ),
    _fault(
        "plugin-reduce-empty",
        "ReduceMin of no elements is the largest finite number",
        text="The reference implementation returns infinity.",
        code="""
x = ops.parameter([2, 0], f32)
model = ov.Model([ops.reduce_min(x, ops.constant(np.array([1])))], [x])
actual = run_plugin(model, np.zeros((2, 0), f32))
expected = [inf, inf]
""",
        actual="np.full(2, np.finfo(f32).max)",
    ),
    _fault(
        "plugin-round",
        'Round in the mode "half_away_from_zero" adds 0.5 and rounds down',
        text="The sum rounds up for the largest number below 0.5, and for odd numbers above 2^23.",
        code="""
x = ops.parameter([2], f32)
model = ov.Model([ops.round(x, "half_away_from_zero")], [x])
actual = run_plugin(model, np.array([0.49999997, 8388609], f32))
expected = [0, 8388609]
""",
        actual="[1, 8388610]",
    ),
    _fault(
        "plugin-scatter-nan",
        "ScatterElementsUpdate keeps a NaN of the data",
        text=(
            'This affects the reductions "min" and "max". The reference implementation keeps a NaN of the '
            "updates instead."
        ),
        code="""
x = ops.parameter([2], f32)
indices, updates = ops.constant(np.array([0, 1])), ops.constant(np.array([5, nan], f32))
model = ov.Model([ops.scatter_elements_update(x, indices, updates, ops.constant(0), "max", True)], [x])
actual = run_plugin(model, np.array([nan, 1], f32))
expected = [5, nan]
""",
        actual="[nan, 1]",
    ),
    _fault(
        "plugin-segment-max",
        "SegmentMax fills empty segments in f16 with -infinity",
        text='This affects the fill mode "LOWEST", which should use the lowest finite number of the type.',
        code="""
x = ops.parameter([1], f16)
model = ov.Model([ops.segment_max(x, ops.constant(np.array([1])), fill_mode="LOWEST")], [x])
actual = run_plugin(model, np.array([3], f16))
expected = [-65504, 3]
""",
        actual="[-inf, 3]",
    ),
    _fault(
        "plugin-squared-difference",
        "SquaredDifference of 8-bit integers is 0",
        text="This affects i8 and u8.",
        code="""
x, y = ops.parameter([2], u8), ops.parameter([2], u8)
model = ov.Model([ops.squared_difference(x, y)], [x, y])
actual = run_plugin(model, np.array([9, 3], u8), np.array([4, 5], u8))
expected = [25, 4]
""",
        actual="[0, 0]",
    ),
    _fault(
        "plugin-topk",
        "TopK sorted by index does not select the first of equal elements",
        text=(
            "With stable=true, the order follows the data. The reference implementation selects the same "
            "elements without it."
        ),
        code="""
x = ops.parameter([9], f32)
model = ov.Model([ops.topk(x, ops.constant(np.array(7)), 0, "max", "index", stable=True).output(1)], [x])
actual = run_plugin(model, np.array([3, 1, 3, 0, 1, 0, 0, 2, 0], f32))
expected = [0, 1, 2, 3, 4, 5, 7]
""",
        actual="[0, 1, 2, 4, 5, 6, 7]",
    ),
    _fault(
        "plugin-unique",
        "Unique along an axis returns slices that are equal",
        text="The plugin only compares neighboring slices, before it sorts them.",
        code="""
x = ops.parameter([2, 8], i32)
model = ov.Model([ops.unique(x, ops.constant(np.array(1)), True)], [x])
data = np.array([[1, 1, 0, 1, 0, 1, 1, 1], [0, 1, 0, 0, 0, 1, 0, 0]], i32)
actual = run_plugin(model, data)
expected = [[0, 1, 1], [0, 0, 1]]
""",
        actual="[[0, 1, 1, 1], [0, 0, 1, 1]]",
    ),
]
