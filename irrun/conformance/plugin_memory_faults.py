"""Known faults of OpenVINO's CPU plugin: undefined values, and the end of the process."""

from __future__ import annotations

from functools import partial

from irrun.conformance.fault import Fault

__all__ = ["PLUGIN_MEMORY_FAULTS"]

_memory = partial(Fault, oracle="cpu", kind="memory", is_unsafe=True)

PLUGIN_MEMORY_FAULTS = [
    _memory(
        "plugin-binary-convolution-channels",
        "BinaryConvolution is undefined if the number of input channels is not a multiple of 8",
        text="The plugin reads bits beyond the filters, so results differ from run to run.",
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
        text="The result contains undefined memory.",
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
        text="In some cases, it fails with an error about memory instead.",
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
        text="The result should be empty.",
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
        text="All steps of such sequences should contain the end token.",
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
        text="Without axes, each window should have one element.",
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
        text="The result should be a single number.",
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
        text=(
            "Missing elements should count as 0. Some sizes are rejected, others give undefined results or end "
            "the process, and so do axes that are Parameters."
        ),
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
        text=(
            "This happens if the declared rank of the result does not match the axes, because the plugin "
            "assumes that each axis is removed."
        ),
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
        text="In other cases, it gives undefined results or ends the process.",
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
        text="The result should equal the data.",
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
        "A variable that stores an input of the model is undefined",
        is_unsafe=False,
        text=(
            "If Assign stores a Parameter directly, ReadValue reads the variable at the wrong time. From the "
            "second run on, the difference between the input and the variable has the wrong sign."
        ),
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
]
