"""Which instructions have compiled kernels, alone or with epilogues, and the reasons why others have none."""

from __future__ import annotations

import importlib.util

import numpy as np
import pytest
from ir_text import layer, net, port, write

import irrun
from irrun.element_types import ElementType

pytestmark = pytest.mark.skipif(importlib.util.find_spec("llvmlite") is None, reason="llvmlite is not installed")

F32 = np.float32
PRECISIONS = {"f32": "FP32", "f16": "FP16", "f64": "FP64", "i32": "I32", "i64": "I64", "boolean": "BOOL"}


@pytest.fixture(autouse=True)
def keep_compiled_kernels(tmp_path_factory, monkeypatch):
    monkeypatch.setenv("IRRUN_CACHE_DIR", str(tmp_path_factory.getbasetemp() / "kernels"))


def compile_layer(folder, type, opset, data, inputs, outputs, **options):
    """Compile a model of one layer.

    Args:
        folder: Where the model is written.
        type: The type of the layer.
        opset: Its opset.
        data: Its attributes.
        inputs: For each input, an array for a Constant, or the element type and the shape of a Parameter.
        outputs: The element types and shapes of its outputs.
        options: Options of the compiled model.

    Returns:
        The compiled model, and the reason why the layer has no compiled kernel, or None.
    """
    layers, edges, weights = [], [], b""
    for i, source in enumerate(inputs):
        if isinstance(source, np.ndarray):
            kind, shape = str(ElementType.of(source.dtype)), source.shape
            place = f'offset="{len(weights)}" size="{source.nbytes}"'
            weights += source.tobytes()
        else:
            kind, shape = source
            place = ""
        text = f'element_type="{kind}" shape="{",".join(map(str, shape))}" {place}'
        layers.append(
            layer(i, "Const" if place else "Parameter", data=text, outputs=[port(0, shape, PRECISIONS[kind])])
        )
        edges.append((i, 0, 100, i))
    ports = [port(50 + i, shape, PRECISIONS[kind]) for i, (kind, shape) in enumerate(outputs)]
    layers.append(layer(100, type, opset, data, [port(i) for i in range(len(inputs))], ports, name="tested"))
    for i in range(len(outputs)):
        layers.append(layer(200 + i, "Result", inputs=[port(0)]))
        edges.append((100, 50 + i, 200 + i, 0))
    path = write(folder, net(layers, edges), weights)
    compiled = irrun.compile_model(path, jit=True, **options)
    (instruction,) = (i for i in compiled._fast_program.instructions if i.layer.name == "tested")
    reasons = [r.reason for r in compiled._fast_program.refusals if r.layer == "tested" and r.rule == "compile"]
    assert instruction.description.startswith("compiled") is not bool(reasons)
    return compiled, "; ".join(reasons) or None


def weights(*shape):
    return np.linspace(-1, 1, int(np.prod(shape)), dtype=F32).reshape(shape)


@pytest.mark.parametrize(
    ("kind", "shape", "target", "reason"),
    [
        ("f16", (128, 128), "f32", None),
        ("f16", (-1, 2), "f32", None),  # as large as the rest is small
        ("f16", (128, 127), "f32", "NumPy is as fast for fewer than 16,384 elements"),
        ("i32", (128, 128), "f32", "not an input of the model in f16 that is converted to f32"),
        ("f16", (128, 128), "f64", "not an input of the model in f16 that is converted to f32"),
    ],
)
def test_conversions(kind, shape, target, reason, tmp_path):
    data = f'destination_type="{target}"'
    ports = [(kind, shape)], [(target, shape)]
    assert compile_layer(tmp_path, "Convert", "opset1", data, *ports, precision="declared")[1] == reason


@pytest.mark.parametrize(
    ("shape", "axis", "reason"),
    [
        ((2, 3), 1, None),
        ((2, 3), -1, None),
        ((2, 1), 1, "rows have one element"),
        ((5, 64), 0, None),
        ((5, 63), 0, "only for at least 64 columns of 2 to "),
        ((2, 8, 8, 8), 1, None),
        ((1, 64), 0, "only for at least 64 columns of 2 to "),
        ((5, -1), 0, None),
        ((-1, 64), 0, "only for at least 64 columns of 2 to "),
    ],
)
def test_softmax(shape, axis, reason, tmp_path):
    compiled, found = compile_layer(tmp_path, "Softmax", "opset8", f'axis="{axis}"', [("f32", shape)], [("f32", shape)])
    assert found == reason or (reason and found and found.startswith(reason))
    if reason is None:
        x = np.random.default_rng(0).normal(size=[n if n > 0 else 70 for n in shape]).astype(F32)
        e = np.exp(x.astype(np.float64) - x.max(axis, keepdims=True))
        np.testing.assert_allclose(compiled(x)[0], e / e.sum(axis, keepdims=True), rtol=1e-5)


def test_softmax_of_the_longest_columns(tmp_path):
    from irrun.fast.jit.column_softmax import MAX_LENGTH

    for length, is_compiled in ((MAX_LENGTH, True), (MAX_LENGTH + 1, False)):
        ports = [("f32", (length, 64))]
        assert (compile_layer(tmp_path, "Softmax", "opset8", 'axis="0"', ports, ports)[1] is None) is is_compiled


def test_values_that_are_not_f32_are_left_to_numpy(tmp_path):
    reason = "not f32 of known rank with one variable input"
    ports = [("f64", (2, 3))]
    assert compile_layer(tmp_path, "Softmax", "opset8", 'axis="1"', ports, ports, precision="declared")[1] == reason


POOL = 'kernel="2,2" strides="2,2" pads_begin="0,0" pads_end="0,0" rounding_type="floor"'


def test_max_pool(tmp_path):
    images = [("f32", (1, 2, 4, 6))]
    compiled, reason = compile_layer(tmp_path, "MaxPool", "opset1", POOL, images, [("f32", (1, 2, 2, 3))])
    assert reason is None
    x = np.random.default_rng(0).normal(size=(1, 2, 4, 6)).astype(F32)
    np.testing.assert_array_equal(compiled(x)[0], x.reshape(1, 2, 2, 2, 3, 2).max((3, 5)))
    data = POOL.replace("2,2", "2").replace("0,0", "0")
    reason = compile_layer(tmp_path, "MaxPool", "opset1", data, [("f32", (1, 2, 4))], [("f32", (1, 2, 2))])[1]
    assert reason == "only for images, without indices"
    data = f'{POOL} dilations="1,1" axis="0" index_element_type="i64"'
    outputs = [("f32", (1, 2, 2, 3)), ("i64", (1, 2, 2, 3))]
    assert compile_layer(tmp_path, "MaxPool", "opset8", data, images, outputs)[1] == "only for images, without indices"


Q = ("f32", (1, 2, 4, 8))


@pytest.mark.parametrize(
    ("inputs", "causal", "reason"),
    [
        ([Q, Q, Q], "false", None),
        ([Q, Q, Q], "true", None),
        ([Q, Q, Q, ("f32", (4, 4))], "false", None),
        ([Q, Q, Q, ("boolean", (4, 4))], "false", None),
        ([Q, Q, Q, np.zeros((4, 4), F32)], "false", None),
        ([Q, Q, Q, ("f32", (4, 4)), np.array(0.5, F32)], "false", None),
        ([Q, Q, Q, ("f32", (4, 4)), ("f32", (1,))], "false", "queries, keys or values are constant"),
        ([Q, weights(1, 2, 4, 8), Q], "false", "queries, keys or values are constant"),
        ([Q, Q, weights(1, 2, 4, 8)], "false", "queries, keys or values are constant"),
        ([weights(1, 2, 4, 8), Q, Q], "false", "queries, keys or values are constant"),
    ],
    ids=str,
)
def test_attention(inputs, causal, reason, tmp_path):
    arguments = ("ScaledDotProductAttention", "opset13", f'causal="{causal}"', inputs, [("f32", (1, 2, 4, 8))])
    compiled, found = compile_layer(tmp_path, *arguments)
    assert found == reason or (reason and found and found.startswith(reason))
    plain = irrun.compile_model(tmp_path / "model.xml", optimize=False)
    rng = np.random.default_rng(0)
    values = []
    for source in inputs:
        if not isinstance(source, np.ndarray):
            kind, shape = source
            values.append(rng.random(shape) > 0.3 if kind == "boolean" else rng.normal(size=shape).astype(F32))
    if len(values) > 3 and values[3].dtype == bool:
        values[3][:, 0] = True
    np.testing.assert_allclose(compiled(values)[0], plain(values)[0], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("batch", "options", "reason"),
    [
        (3, {}, None),
        (-1, {}, None),
        (1, {}, "NumPy is as fast for one row"),
        (3, {"precision": "f64"}, "not f32 of known rank"),
        (3, {"weights_memory": 0}, "the prepared weights do not fit into the memory for weights"),
    ],
)
def test_cells(batch, options, reason, tmp_path):
    inputs = [("f32", (batch, 3)), ("f32", (batch, 4)), weights(12, 3), weights(12, 4), weights(12)]
    data = 'hidden_size="4"'
    compiled, found = compile_layer(tmp_path, "GRUCell", "opset3", data, inputs, [("f32", (batch, 4))], **options)
    assert found == reason
    x, h = np.ones((abs(batch) * 3, 3), F32)[: max(batch, 3)], np.zeros((max(batch, 3), 4), F32)
    if batch != 1:
        plain = irrun.compile_model(tmp_path / "model.xml", optimize=False)
        np.testing.assert_allclose(compiled([x, h])[0], plain([x, h])[0], rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize(("kind", "reason"), [("i32", None), ("f32", "not integers, or an input is not connected")])
def test_gather_tree(kind, reason, tmp_path):
    steps = (3, 1, 2)
    end = np.array(9, np.int32 if kind == "i32" else F32)
    inputs = [(kind, steps), (kind, steps), (kind, (1,)), end]
    assert compile_layer(tmp_path, "GatherTree", "opset1", "", inputs, [(kind, steps)])[1] == reason


# Operations that start compiled kernels with epilogues

CONVOLUTION = 'strides="1,1" pads_begin="1,1" pads_end="1,1" dilations="1,1"'
LINE = 'strides="1" pads_begin="1" pads_end="1" dilations="1"'
IMAGES = ("f32", (1, 4, 6, 6))
CONSTANT_FILTERS = "not f32 with constant filters"
RANKS = "not a variable value of rank 3 or 4"
NO_MEMORY = "the prepared weights do not fit into the memory for weights"


@pytest.mark.parametrize(
    ("data", "inputs", "output", "options", "reason"),
    [
        (CONVOLUTION, [IMAGES, weights(8, 4, 3, 3)], (1, 8, 6, 6), {}, None),
        (LINE, [("f32", (1, 4, 6)), weights(8, 4, 3)], (1, 8, 6), {}, None),
        (CONVOLUTION, [IMAGES, ("f32", (8, 4, 3, 3))], (1, 8, 6, 6), {}, CONSTANT_FILTERS),
        (CONVOLUTION, [("f64", IMAGES[1]), weights(8, 4, 3, 3).astype(float)], (1, 8, 6, 6), {}, CONSTANT_FILTERS),
        (CONVOLUTION, [IMAGES, weights(8, 4, 3, 3)], (1, 8, 6, 6), {"weights_memory": 1000}, NO_MEMORY),
        (CONVOLUTION, [IMAGES, weights(8, 4, 3, 3)], (1, 8, 6, 6), {"weights_memory": 0}, NO_MEMORY),
        (CONVOLUTION, [weights(1, 4, 6, 6), ("f32", (8, 4, 3, 3))], (1, 8, 6, 6), {}, CONSTANT_FILTERS),
    ],
    ids=str,
)
def test_convolutions(data, inputs, output, options, reason, tmp_path):
    kind = "f32" if isinstance(inputs[0], np.ndarray) else inputs[0][0]
    arguments = ("Convolution", "opset1", data, inputs, [(kind, output)])
    assert compile_layer(tmp_path, *arguments, precision="declared", **options)[1] == reason


def test_convolutions_of_three_dimensions(tmp_path):
    data = 'strides="1,1,1" pads_begin="0,0,0" pads_end="0,0,0" dilations="1,1,1"'
    inputs = [("f32", (1, 2, 3, 3, 3)), weights(4, 2, 1, 1, 1)]
    assert compile_layer(tmp_path, "Convolution", "opset1", data, inputs, [("f32", (1, 4, 3, 3, 3))])[1] == RANKS


CONSTANT_MATRIX = "not f32 with a constant matrix as the second input"


@pytest.mark.parametrize(
    ("data", "inputs", "output", "options", "reason"),
    [
        ("", [("f32", (3, 32)), weights(32, 32)], (3, 32), {}, None),
        ("", [("f32", (3, 32)), weights(32, 31)], (3, 31), {}, "NumPy is as fast for fewer than 1,024 weights"),
        ('transpose_b="true"', [("f32", (3, 32)), weights(40, 32)], (3, 40), {}, None),
        ('transpose_a="true"', [("f32", (32, 3)), weights(32, 40)], (3, 40), {}, None),
        ('transpose_a="true"', [("f32", (32,)), weights(32, 40)], (40,), {}, "a vector is not transposed"),
        ("", [("f32", (32,)), weights(32, 40)], (40,), {}, None),
        ("", [("f32", (3, 32)), weights(32, 40)], (3, 40), {"weights_memory": 5000}, NO_MEMORY),
        ("", [("f32", (3, 32)), weights(2, 32, 40)], (2, 3, 40), {}, CONSTANT_MATRIX),
        ("", [weights(3, 32), ("f32", (32, 40))], (3, 40), {}, CONSTANT_MATRIX),
        ("", [("f64", (3, 32)), weights(32, 40).astype(float)], (3, 40), {}, CONSTANT_MATRIX),
        ("", [("f32", (16, 32)), ("f32", (32, 40))], (16, 40), {}, None),
        ("", [("f32", (2, 16, 32)), ("f32", (2, 32, 40))], (2, 16, 40), {}, None),
        ("", [("f64", (16, 32)), ("f64", (32, 40))], (16, 40), {}, "not f32"),
        ("", [("f32", (-1, 32)), ("f32", (32, 40))], (-1, 40), {}, "not matrices of known shapes"),
        ("", [("f32", (32,)), ("f32", (32, 40))], (40,), {}, "not matrices of known shapes"),
    ],
    ids=str,
)
def test_products(data, inputs, output, options, reason, tmp_path):
    kind = next(source[0] for source in inputs if not isinstance(source, np.ndarray))
    attributes = " ".join(f'{name}="false"' for name in ("transpose_a", "transpose_b") if name not in data)
    arguments = ("MatMul", "opset1", f"{data} {attributes}", inputs, [(kind, output)])
    compiled, found = compile_layer(tmp_path, *arguments, precision="declared", **options)
    assert found == reason
    plain = irrun.compile_model(tmp_path / "model.xml", optimize=False, precision="declared")
    rng = np.random.default_rng(0)
    shapes = [source for source in inputs if not isinstance(source, np.ndarray)]
    values = [rng.normal(size=[5 if n < 0 else n for n in s]).astype("f4" if k == "f32" else "f8") for k, s in shapes]
    np.testing.assert_allclose(compiled(values)[0], plain(values)[0], rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("transpose_b", [False, True])
def test_products_of_few_rows_or_large_matrices_are_left_to_numpy(transpose_b, tmp_path):
    from irrun.fast.jit.variable_products import MAX_PACKED_SIZE, MIN_ROWS

    reason = f"NumPy is as fast for fewer than {MIN_ROWS} rows, or large matrices"
    data = f'transpose_a="false" transpose_b="{str(transpose_b).lower()}"'
    columns = MAX_PACKED_SIZE // 64
    for rows, size, expected in (
        (MIN_ROWS, columns, None),
        (MIN_ROWS - 1, columns, reason),
        (MIN_ROWS, columns + 1, reason),
    ):
        second = (size, 64) if transpose_b else (64, size)
        inputs = [("f32", (rows, 64)), ("f32", second)]
        assert compile_layer(tmp_path, "MatMul", "opset1", data, inputs, [("f32", (rows, size))])[1] == expected


@pytest.mark.parametrize(
    ("axes", "kind", "reason"),
    [
        ([-1], "f32", None),
        ([2], "f32", None),
        ([1, 2], "f32", None),
        ([-1, -2], "f32", None),
        ([2, 0, 1], "f32", None),
        ([1], "f32", "not along the last axes"),
        ([0, 2], "f32", "not along the last axes"),
        ([2], "f64", "not f32 of known rank with constant axes"),
        (None, "f32", "not f32 of known rank with constant axes"),
    ],
)
def test_normalizations(axes, kind, reason, tmp_path):
    data = 'eps="1e-5" normalize_variance="true" eps_mode="inside_sqrt"'
    inputs = [(kind, (3, 4, 40)), ("i64", (1,)) if axes is None else np.array(axes, np.int64)]
    arguments = ("MVN", "opset6", data, inputs, [(kind, (3, 4, 40))])
    compiled, found = compile_layer(tmp_path, *arguments, precision="declared")
    assert found == reason
    if axes is not None:
        x = np.random.default_rng(0).normal(size=(3, 4, 40)).astype("f4" if kind == "f32" else "f8")
        axis = tuple(axes)
        expected = (x - x.mean(axis, keepdims=True)) / np.sqrt(x.var(axis, keepdims=True) + 1e-5)
        np.testing.assert_allclose(compiled(x)[0], expected, rtol=1e-4, atol=1e-5)


# Elementwise operations

SAME_SHAPE = "no variable input is known to have the shape of the result"


@pytest.mark.parametrize(
    ("type", "inputs", "output", "reason"),
    [
        ("Exp", [("f32", (512, 64))], (512, 64), None),
        ("Exp", [("f32", (-1, 64))], (-1, 64), None),  # as large as 64 rows
        ("Add", [("f32", (512, 64)), ("f32", (64,))], (512, 64), None),
        ("Add", [("f32", (64,)), ("f32", (512, 64))], (512, 64), None),
        ("Add", [weights(512, 64), ("f32", (512, 64))], (512, 64), None),
        ("Add", [("f32", (512, 1)), ("f32", (1, 64))], (512, 64), SAME_SHAPE),
        ("Add", [("f32", (64,)), weights(512, 64)], (512, 64), SAME_SHAPE),
        ("Exp", [("f64", (512, 64))], (512, 64), "an operand is not f32, or does not broadcast"),
        ("Sin", [("f32", (512, 64))], (512, 64), "vectors have no fast form of sin"),
    ],
    ids=str,
)
def test_elementwise_operations(type, inputs, output, reason, tmp_path):
    kind = next(source[0] for source in inputs if not isinstance(source, np.ndarray))
    data = 'auto_broadcast="numpy"' if type == "Add" else ""
    _, found = compile_layer(tmp_path, type, "opset1", data, inputs, [(kind, output)], precision="declared")
    assert found == reason or (reason and found and found.startswith(reason)), found


@pytest.mark.parametrize(("type", "name"), [("Exp", "MIN_SIZE"), ("Relu", "MIN_CHEAP_SIZE")])
def test_few_elements_are_left_to_numpy(type, name, tmp_path):
    from irrun.runtime.passes import jit_compilation

    limit = getattr(jit_compilation, name)
    for size, reason in ((limit, None), (limit - 1, f"NumPy is as fast for fewer than {limit:,} elements")):
        ports = [("f32", (1, size))]
        assert compile_layer(tmp_path, type, "opset1", "", ports, ports)[1] == reason
