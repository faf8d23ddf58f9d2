"""Known faults of OpenVINO's CPU plugin with INFERENCE_PRECISION_HINT=f32."""

from __future__ import annotations

from functools import partial

from irrun.conformance.fault import Fault

__all__ = ["PLUGIN_FAULTS"]

_fault = partial(Fault, oracle="cpu")
_rounding = partial(_fault, kind="rounding")
_memory = partial(_fault, kind="memory", is_unsafe=True)

PLUGIN_FAULTS = [
    # Depends on the instruction set.
    _fault(
        "plugin-bf16",
        "Conversions to bf16 do not round without AVX-512",
        processors="no avx512",
        text="A value that is converted to bf16 and back stays as it is, and one that is returned in bf16 is rounded "
        "towards zero. With AVX-512 both are rounded to nearest. Range and RandomUniform in bf16 are concerned "
        "too.",
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
        text="Only negative elements are multiplied by the slope.",
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
        "NaN is greater than all numbers, and these are greater than NaN",
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
        text='In the mode "erf". The limit is infinity.',
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
        text="The first element of a tensor in u1 is the highest bit of the first byte. Padding of 0 is ignored as "
        "well.",
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
        text="It always uses -0.5.",
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
        text="These operations keep NaN.",
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
        "DeformableConvolutions that differ in bilinear_interpolation_pad only compute the same",
        text="If they are in one model, the second one uses the kernel of the first.",
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
        text="The slices are 0. The reference implementation counts such indices from the end.",
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
        text="It is computed as without antialiasing where data becomes smaller.",
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
        text='In the mode "linear". The product of infinity and 0 is NaN, as in the reference implementation.',
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
        text="The range decides the number of iterations only, and slices begin at the edge of the axis. So does the "
        "reference implementation.",
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
        text="Without iterations, the outputs are the initial values of the merged inputs.",
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
        text="And along some of the spatial axes, or with windows of even sizes. It is right along the channels "
        "alone, and along all spatial axes with windows of odd sizes.",
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
        text='Since opset 8, with two outputs and auto_pad "same_upper" or "same_lower". The windows begin at the '
        "first element, as if there were no padding.",
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
        text="The reference implementation returns the first one.",
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
        text="They subtract the divisor times the truncated quotient, computed in f32, also for integers. A finite "
        "number modulo infinity is NaN.",
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
        text="Classes follow from the random numbers of RandomUniform with the same seeds.",
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
        text="The result is 0.",
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
        "Power with exponents of 0.5 and -0.5 is the square root",
        text="If the exponent is constant. The power of -infinity is infinity or 0, and the power of -0 has no sign.",
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
        text="The sum rounds up for the number below 0.5, and for odd numbers above 2^23.",
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
        text='With the reduction "min" or "max". The reference implementation keeps a NaN of the updates instead.',
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
        text='With the fill mode "LOWEST". The lowest finite number of the type is expected.',
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
        text="i8 and u8.",
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
        text="With stable=true, the order follows the data, and the reference implementation selects the same "
        "elements without it.",
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
        text="It only compares neighboring slices, before it sorts them.",
        code="""
x = ops.parameter([2, 8], i32)
model = ov.Model([ops.unique(x, ops.constant(np.array(1)), True)], [x])
data = np.array([[1, 1, 0, 1, 0, 1, 1, 1], [0, 1, 0, 0, 0, 1, 0, 0]], i32)
actual = run_plugin(model, data)
expected = [[0, 1, 1], [0, 0, 1]]
""",
        actual="[[0, 1, 1, 1], [0, 0, 1, 1]]",
    ),
    # Undefined values, and the end of the process.
    _memory(
        "plugin-binary-convolution-channels",
        "BinaryConvolution is undefined if the number of input channels is not a multiple of 8",
        text="Results differ from run to run, since bits beyond the filters are read.",
        code="""
x = ops.parameter([1, 3, 2, 2], f32)
filters = ov.op.Constant(ov.Tensor(np.array([0b11111111, 0b11110000], u8), ov.Shape([4, 3, 1, 1]), ov.Type.u1))
attributes = {"strides": [1, 1], "pads_begin": [0, 0], "pads_end": [0, 0], "dilations": [1, 1]}
attributes |= {"mode": "xnor-popcount", "pad_value": 0.0}
node = NodeFactory("opset1").create("BinaryConvolution", [x.output(0), filters.output(0)], attributes)
actual = run_plugin(ov.Model([node], [x]), np.ones((1, 3, 2, 2), f32))
expected = np.full((1, 4, 2, 2), 3)
""",
        actual="undefined numbers, such as 1",
    ),
    _memory(
        "plugin-eye",
        "Eye does not write the ones if batch_shape is an empty Parameter",
        is_unsafe=False,
        text="The result is undefined memory.",
        code="""
size, batch = ops.parameter([1], np.int64), ops.parameter([0], np.int64)
model = ov.Model([ops.eye(size, size, ops.constant(np.array([0])), "f32", batch)], [size, batch])
actual = run_plugin(model, np.array([2]), np.array([], np.int64))
expected = [[1, 0], [0, 1]]
""",
        actual="undefined numbers",
    ),
    _memory(
        "plugin-gather-axis",
        "Gather along an axis that is a Parameter ends the process",
        text="Or fails with a message about memory.",
        code="""
from openvino import opset1

x, indices, axis = ops.parameter([3, 4], f32), ops.parameter([2], np.int64), ops.parameter([], np.int64)
model = ov.Model([opset1.gather(x, indices, axis)], [x, indices, axis])
data = np.arange(12, dtype=f32).reshape(3, 4)
actual = run_plugin(model, data, np.array([0, 1]), np.array(-2))
expected = data[:2]
""",
        actual="the process ends with a segmentation fault",
    ),
    _memory(
        "plugin-gather-empty",
        "Gather of data or indices without elements ends the process",
        text="The result has no elements.",
        code="""
indices = ops.parameter([0], np.int64)
model = ov.Model([ops.gather(ops.constant(np.ones((3, 4), f32)), indices, ops.constant(0))], [indices])
actual = run_plugin(model, np.zeros(0, np.int64))
expected = np.zeros((0, 4))
""",
        actual="the process ends with an arithmetic exception",
    ),
    _memory(
        "plugin-gather-tree",
        "GatherTree does not write sequences of length 0",
        is_unsafe=False,
        text="All steps have the end token.",
        code="""
steps, length = ops.parameter([2, 1, 1], i32), ops.parameter([1], i32)
model = ov.Model([ops.gather_tree(steps, steps, length, ops.constant(np.array(7, i32)))], [steps, length])
actual = run_plugin(model, np.ones((2, 1, 1), i32), np.array([0], i32)).ravel()
expected = [7, 7]
""",
        actual="undefined numbers",
    ),
    _memory(
        "plugin-lrn-no-axes",
        "LRN without axes ends the process",
        text="The windows then have one element.",
        code="""
x = ops.parameter([1, 2, 2, 2], f32)
model = ov.Model([ops.lrn(x, ops.constant(np.array([], np.int64)), 3.0, 1.0, 1.0, 3)], [x])
actual = run_plugin(model, np.ones((1, 2, 2, 2), f32)).ravel()
expected = np.full(8, 1 / (1 + 3), f32)
""",
        actual="the process ends with a segmentation fault",
    ),
    _memory(
        "plugin-random-uniform-scalar",
        "RandomUniform of an empty shape is undefined",
        is_unsafe=False,
        text="One number is expected.",
        code="""
shape, low, high = ops.constant(np.array([], np.int64)), ops.constant(f32(2)), ops.constant(f32(7))
model = ov.Model([ops.random_uniform(shape, low, high, "f32", 5, 6)], [])
actual = run_plugin(model)
expected = run_reference(model)
""",
        actual="an undefined number",
    ),
    _memory(
        "plugin-rdft",
        "RDFT and IRDFT read past the end of the data if signal_size is larger",
        text="Missing elements are 0. Some sizes are refused, others have undefined results or end the process. So "
        "do axes that are Parameters.",
        code="""
x = ops.parameter([2, 4, 6, 2], f32)
model = ov.Model([ops.irdft(x, ops.constant(np.array([1, 2])), ops.constant(np.array([5, 8])))], [x])
data = np.random.default_rng(0).normal(size=(2, 4, 6, 2)).astype(f32)
actual = run_plugin(model, data).round(3)
expected = np.fft.irfftn(data[..., 0] + 1j * data[..., 1], (5, 8), (1, 2)).astype(f32).round(3)
""",
        actual="undefined numbers",
    ),
    _memory(
        "plugin-squeeze",
        "Squeeze along axes that are Parameters fails or ends the process",
        text="If the declared rank of the result is wrong for the axes: each axis is assumed to be removed.",
        code="""
x, axes = ops.parameter([1, 3, 1, 2], f32), ops.parameter([1], i32)
model = ov.Model([ops.squeeze(x, axes)], [x, axes])
actual = run_plugin(model, np.ones((1, 3, 1, 2), f32), np.array([1], i32))
expected = np.ones((1, 3, 1, 2))
""",
        actual="RuntimeError: ParameterMismatch: Can not clone with new dims",
    ),
    _memory(
        "plugin-strided-slice",
        "StridedSlice with an ellipsis and new or shrunk axes fails if bounds are Parameters",
        text="Or has undefined results, or ends the process.",
        code="""
x = ops.parameter([2, 3, 4], f32)
begin, end, strides = (ops.parameter([3], np.int64) for _ in range(3))
node = ops.strided_slice(x, begin, end, strides, [0, 0, 0], [0, 0, 0], [0, 1, 0], [], [1, 0, 0])
model = ov.Model([node], [x, begin, end, strides])
data = np.ones((2, 3, 4), f32)
actual = run_plugin(model, data, np.array([0, 0, 0]), np.array([0, 0, 4]), np.array([1, 1, 1]))
expected = data[:, :, None]
""",
        actual="RuntimeError: ParameterMismatch: Can not clone with new dims",
    ),
    _memory(
        "plugin-tile",
        "Tile without repeats is undefined",
        is_unsafe=False,
        text="The result is the data.",
        code="""
x = ops.parameter([2, 3], f32)
model = ov.Model([ops.tile(x, ops.constant(np.array([], np.int64)))], [x])
actual = run_plugin(model, np.ones((2, 3), f32))
expected = np.ones((2, 3))
""",
        actual="undefined numbers",
    ),
    _memory(
        "plugin-variable",
        "A variable that an input is assigned to is undefined",
        is_unsafe=False,
        text="If Assign stores a Parameter itself, ReadValue reads it in the wrong order. The difference between the "
        "input and the variable has the wrong sign from the second run on.",
        code="""
x = ops.parameter([1], f32)
previous = ops.read_value(ops.constant(np.zeros(1, f32)), "v", ov.Type.f32, ov.PartialShape([1]))
model = ov.Model([ops.result(ops.subtract(x, previous))], [ops.assign(x, "v")], [x])
request = ov.Core().compile_model(model, "CPU", {"INFERENCE_PRECISION_HINT": "f32"}).create_infer_request()
actual = [request.infer([np.array([k], f32)])[0].item() for k in (10, 30, 60)]
expected = [10, 20, 30]
""",
        actual="undefined numbers, such as [0, -30, -30]",
    ),
    # Narrower types and rounding.
    _rounding(
        "plugin-64-bits",
        "i64, u64 and u32 are computed in i32, and f64 in f32",
        text="Values that do not fit are truncated to 32 bits or saturate. Constants and outputs are concerned too.",
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
        text="The specification, like the reference implementation for some of the types, truncates it. Without "
        "AVX-512, the operation is not supported for integers of more than 8 bits with one channel.",
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
        text="Results of arithmetic that do not fit wrap around in the reference implementation.",
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
        text="The reference implementation converts to the type directly, the plugin by way of i32 or f32.",
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
        text="And more near 1. f64 is computed in f32.",
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
        text="Numbers that are too small for the type are dropped in the reference implementation. Results in bf16 "
        "differ in their rounding.",
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
        text="Its results differ in the last bits, and at ties by a level.",
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
        text="Points that are 1e9 and more away from the image are rounded.",
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
        text="Exp, Log, Sin, Acos and similar functions are computed in f32. The reference implementation truncates "
        "the result, or rounds it, according to the function.",
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
        text="Sums above 2^24 are rounded, and those that do not fit saturate.",
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
        text="Sums above 2^24 are rounded, and those that do not fit saturate.",
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
        text="The random bits are the same; limits are applied with a fused multiplication and addition. f64 and f16 "
        "are computed in f32.",
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
        "RandomUniform in i64 draws numbers of 32 bits",
        is_unsafe=True,
        text="If the range has more than 2^32 numbers. Ranges that are multiples of 2^32 end the process.",
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
        text="The specification truncates inputs, and multiplies the step. A range of integers without elements has "
        "one.",
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
        text="Results of Exp, and conversions from types with wider exponents.",
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
        "NV12 and I420 are converted to other colors by one level",
        text="I420toRGB, NV12toRGB and the BGR forms in u8. The coefficients are rounded to f32, so that ties round "
        "down.",
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
