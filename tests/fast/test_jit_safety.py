"""Compiled kernels take addresses: whatever a model declares and whatever it is passed, they stay within the arrays."""

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import ir_text
import numpy as np
import pytest

import irrun
from irrun.fast.errors import NoKernelError

pytestmark = pytest.mark.skipif(importlib.util.find_spec("llvmlite") is None, reason="llvmlite is not installed")

WINDOWS = 'strides="1,1" dilations="1,1" pads_begin="1,1" pads_end="1,1" auto_pad="explicit"'
MVN = 'eps="1e-5" normalize_variance="true" eps_mode="inside_sqrt"'


@pytest.fixture(autouse=True)
def compile_small_kernels(tmp_path_factory, monkeypatch):
    from irrun.runtime.passes import jit_compilation, jit_groups

    monkeypatch.setenv("IRRUN_CACHE_DIR", str(tmp_path_factory.getbasetemp() / "kernels"))
    for name in ("MIN_SIZE", "MIN_CHEAP_SIZE"):
        monkeypatch.setattr(jit_compilation, name, 1)
    monkeypatch.setattr(jit_groups, "MIN_WEIGHTS", 1)


def write_model(folder, layers, declared):
    """Write a chain of layers, whose first data is reshaped at run time to any shape.

    Args:
        folder: Where to write it.
        layers: For each, its type, opset, attributes and further inputs: constants, or "data" for the reshaped data.
        declared: The shapes that are declared for the reshaped data and for the result of each layer.
    """
    weights = b""
    texts = [
        ir_text.layer(0, "Parameter", data='shape="?" element_type="f32"', outputs=[ir_text.port(0, [-1], "FP32")]),
        ir_text.layer(1, "Parameter", data='shape="?" element_type="i64"', outputs=[ir_text.port(0, [-1], "I64")]),
        ir_text.layer(
            2,
            "Reshape",
            data='special_zero="false"',
            inputs=[ir_text.port(0, [-1]), ir_text.port(1, [-1])],
            outputs=[ir_text.port(2, declared[0], "FP32")],
        ),
    ]
    edges = [(0, 0, 2, 0), (1, 0, 2, 1)]
    last, last_port = 2, 2
    for (type, opset, data, others), shape in zip(layers, declared[1:], strict=True):
        sources = [(last, last_port)]
        for other in others:
            if isinstance(other, str):
                sources.append((2, 2))
                continue
            number = len(texts)
            text = f'element_type="{irrun.element_types.ElementType.of(other.dtype)}" '
            text += f'shape="{",".join(map(str, other.shape))}" offset="{len(weights)}" size="{other.nbytes}"'
            texts.append(ir_text.layer(number, "Const", data=text, outputs=[ir_text.port(0, other.shape)]))
            weights += other.tobytes()
            sources.append((number, 0))
        number = len(texts)
        inputs = [ir_text.port(i) for i in range(len(sources))]
        texts.append(ir_text.layer(number, type, opset, data, inputs, [ir_text.port(len(sources), shape, "FP32")]))
        edges += [(source, port, number, i) for i, (source, port) in enumerate(sources)]
        last, last_port = number, len(sources)
    texts.append(ir_text.layer(len(texts), "Result", inputs=[ir_text.port(0)]))
    edges.append((last, last_port, len(texts) - 1, 0))
    return ir_text.write(folder, ir_text.net(texts, edges), weights)


def draw(*shape):
    return np.random.default_rng(sum(shape)).normal(size=shape).astype(np.float32)


#: Layers, the shapes that they declare, and the kernel that is compiled for them.
MODELS = {
    "elementwise": (
        [("Sigmoid", "opset1", "", []), ("Multiply", "opset1", "", ["data"]), ("Add", "opset1", "", [draw(3, 1, 1)])],
        [(2, 3, 6, 8)] * 4,
        "ExpressionKernel",
    ),
    "slopes": ([("PRelu", "opset1", "", [draw(3)])], [(2, 3, 6, 8)] * 2, "ExpressionKernel"),
    "convolution": (
        [("Convolution", "opset1", WINDOWS, [draw(3, 3, 3, 3)]), ("Add", "opset1", "", ["data"])],
        [(2, 3, 6, 8)] * 3,
        "ConvolutionKernel",
    ),
    "depthwise": (
        [("GroupConvolution", "opset1", WINDOWS, [draw(3, 1, 1, 3, 3)]), ("Multiply", "opset1", "", ["data"])],
        [(2, 3, 6, 8)] * 3,
        "ConvolutionKernel",
    ),
    "product": (
        [("MatMul", "opset1", "", [draw(8, 8)]), ("Add", "opset1", "", [draw(8)]), ("Add", "opset1", "", ["data"])],
        [(2, 3, 6, 8)] * 4,
        "ProductKernel",
    ),
    "normalization": (
        [("MVN", "opset6", MVN, [np.array([3])]), ("Multiply", "opset1", "", [draw(8)])],
        [(2, 3, 6, 8)] * 3,
        "NormalizationKernel",
    ),
    "softmax": ([("Softmax", "opset8", 'axis="3"', [])], [(2, 3, 6, 8)] * 2, "SoftmaxKernel"),
    "attention": (
        [("ScaledDotProductAttention", "opset13", 'causal="false"', ["data", "data"])],
        [(2, 3, 6, 8)] * 2,
        "AttentionKernel",
    ),
}

#: Shapes at run time, of which only the first is what the models declare.
SHAPES = [
    *[(2, 3, 6, 8), (4, 3, 6, 8), (0, 3, 6, 8), (2, 0, 6, 8), (2, 3, 0, 8), (2, 3, 6, 0), (1, 1, 1, 1), (2, 3, 1, 1)],
    *[(2, 3, 7, 9), (2, 4, 6, 8), (2, 6, 6, 8), (2, 3, 60, 8), (1, 3, 3, 3), (3, 6, 8), (2, 3, 8), (3, 8), (8,), ()],
    *[(1, 2, 3, 6, 8), (2, 1, 3, 6, 8), (3, 3, 3, 3, 3)],
]


def run(compiled, shape):
    """Return the result for data of a shape, or None if it is refused."""
    data = np.random.default_rng(0).normal(size=int(np.prod(shape))).astype(np.float32)
    try:
        return compiled([data, np.array(shape, np.int64)])[0]
    except irrun.IrrunError:
        return None


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.falls_back
def test_wrong_declarations_run_plain_kernels(name, tmp_path):
    layers, declared, kernel = MODELS[name]
    path = write_model(tmp_path, layers, declared)
    compiled, plain = irrun.compile_model(path, jit=True), irrun.compile_model(path, optimize=False)
    assert kernel in [type(i.kernel).__name__ for i in compiled._fast_program.instructions]
    results = {shape: (run(compiled, shape), run(plain, shape)) for shape in SHAPES}
    for shape, (result, expected) in results.items():
        assert (result is None) == (expected is None), shape
        if expected is not None:
            assert result.shape == expected.shape
            np.testing.assert_allclose(result, expected, rtol=1e-5, atol=2e-5, err_msg=str(shape))
    assert results[SHAPES[0]][0] is not None


@pytest.mark.parametrize("name", MODELS)
def test_views_of_any_layout_are_read(name, tmp_path):
    layers, declared, kernel = MODELS[name]
    compiled = irrun.compile_model(write_model(tmp_path, layers, declared), jit=True)
    instruction = next(i for i in compiled._fast_program.instructions if type(i.kernel).__name__ == kernel)
    x = np.ascontiguousarray(draw(2, 3, 6, 8))
    count = len(instruction.inputs)
    expected = instruction.kernel(*[x] * count)
    record = np.zeros(x.shape, [("byte", "u1"), ("value", "<f4"), ("more", "u1")])
    record["value"] = x
    buffer = np.zeros(x.nbytes + 1, np.uint8)
    unaligned = np.frombuffer(buffer.data, np.float32, x.size, offset=1).reshape(x.shape)
    unaligned[...] = x
    views = {
        "transposed": np.ascontiguousarray(x.transpose(3, 1, 0, 2)).transpose(2, 1, 3, 0),
        "reversed": np.ascontiguousarray(x[::-1, :, ::-1, ::-1])[::-1, :, ::-1, ::-1],
        "record": record["value"],
        "unaligned": unaligned,
        "padded": np.pad(x, [(0, 0), (1, 1), (2, 0), (0, 3)])[:, 1:-1, 2:, :-3],
    }
    for label, view in views.items():
        try:
            result = instruction.kernel(*[view] * count)
        except NoKernelError:
            assert label in ("record", "unaligned"), label
            continue
        np.testing.assert_array_equal(result, expected, err_msg=label)


@pytest.mark.parametrize("name", MODELS)
def test_other_types_are_refused(name, tmp_path):
    layers, declared, kernel = MODELS[name]
    compiled = irrun.compile_model(write_model(tmp_path, layers, declared), jit=True)
    instruction = next(i for i in compiled._fast_program.instructions if type(i.kernel).__name__ == kernel)
    x = draw(2, 3, 6, 8)
    for dtype in (np.float16, np.float64, np.int32, ">f4"):
        for position in range(len(instruction.inputs)):
            inputs = [x] * len(instruction.inputs)
            inputs[position] = x.astype(dtype)
            with pytest.raises(NoKernelError, match=r"expected|match"):
                instruction.kernel(*inputs)


@pytest.mark.parametrize(
    ("kernel", "attributes", "shape"),
    [
        ((2, 2), {"dilations": [1 << 27, 1], "pads_begin": [1 << 27, 0]}, (1, 2, 2, 2)),  # a panel of 2 GiB
        ((2, 1), {"pads_begin": [0, 1 << 20], "pads_end": [0, 0]}, (1, 1000, 2, 2)),
        ((1, 1), {"pads_begin": [1 << 22, 0], "pads_end": [0, 0]}, (1, 1 << 14, 2, 2)),
    ],
)
def test_huge_pads_are_left_to_plain_kernels(kernel, attributes, shape):
    from irrun.fast.jit.kernels import ConvolutionKernel

    pairs = {name: [0, 0] for name in ("pads_begin", "pads_end")} | {"strides": [1, 1], "dilations": [1, 1]}
    filters = np.zeros((1, 1, shape[1], *kernel), np.float32)
    convolution = ConvolutionKernel(filters, {**pairs, **attributes}, (), [])
    with pytest.raises(NoKernelError, match="the rows are too long, or the blocks are too many"):
        convolution.prepare([shape])


@pytest.mark.parametrize(
    "layers",
    [
        [("Softmax", "opset8", 'axis="0"', [])],
        [("MVN", "opset6", MVN, [np.array([0])])],
        [("MVN", "opset6", MVN, [np.array([4])])],
        [("Clamp", "opset1", 'min="-1e300" max="1e300"', [])],
        [("FakeQuantize", "opset1", 'levels="256"', [draw(3), draw(4), draw(3), draw(3)])],
        [("Convolution", "opset1", WINDOWS, [draw(3, 3, 9, 9)])],
        [("Convolution", "opset1", WINDOWS, [draw(0, 3, 3, 3)])],
        [("MatMul", "opset1", "", [draw(0, 8)])],
    ],
    ids=lambda layers: layers[0][0],
)
@pytest.mark.parametrize("shape", [(), (0,), (1, 3, 4, 4)])
@pytest.mark.filterwarnings("error")
@pytest.mark.falls_back
def test_special_cases_are_compiled_without_errors(layers, shape, tmp_path):
    path = write_model(tmp_path, layers, [shape, shape])
    compiled, plain = irrun.compile_model(path, jit=True), irrun.compile_model(path, optimize=False)
    result, expected = run(compiled, shape), run(plain, shape)
    assert (result is None) == (expected is None)
    if expected is not None:
        np.testing.assert_allclose(result, expected, rtol=1e-6, atol=1e-6)


@pytest.mark.skipif(sys.platform != "linux", reason="pages are protected on Linux only")
@pytest.mark.parametrize("side", ["before", "after"])
def test_kernels_stay_within_their_arrays(side):
    script = Path(__file__).parent / "guard_pages.py"
    tests = str(Path(__file__).parents[1])
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([tests, str(Path(tests).parent)])}
    process = subprocess.run([sys.executable, str(script), side], capture_output=True, text=True, env=environment)
    assert process.returncode == 0, process.stderr[-2000:]
    assert process.stdout == "done\n"
