"""Compiled loops compute what the plain loops compute: random bodies, and each operation of bodies by itself."""

from __future__ import annotations

import importlib.util

import numpy as np
import pytest
from openvino_modules import import_builder

import irrun
from irrun.fast.jit import recurrences
from irrun.fast.jit.body_kernels import CellKernel
from irrun.fast.jit.cell_sequences import CellSequenceKernel
from irrun.fast.jit.compiled_loops import CompiledLoop
from irrun.inspection.instruments import KernelTimer
from irrun.limits import MemoryLimitError

ov = import_builder()
o = import_builder("openvino.opset13")

pytestmark = [
    pytest.mark.skipif(importlib.util.find_spec("llvmlite") is None, reason="llvmlite is not installed"),
    pytest.mark.usefixtures("own_kernel_cache"),
]

F32, I32, I64 = np.float32, np.int32, np.int64


def c(value, dtype=I64):
    return o.constant(np.asarray(value, dtype))


def draw(rng, *shape):
    return rng.normal(size=shape).astype(F32)


def compile_both(folder, model, **options):
    path = folder / "model.xml"
    ov.save_model(model, path, compress_to_fp16=False)
    return irrun.compile_model(path, jit=True, **options), irrun.compile_model(path, optimize=False)


def get_loop(compiled):
    return next(i for i in compiled._fast_program.instructions if i.operation.type in ("TensorIterator", "Loop"))


def list_plain_runs(compiled):
    """Return a list to which each run of a plain loop is added, of all loops."""
    calls = []
    for _, instruction in compiled._fast_program.walk():
        if isinstance(instruction.kernel, CompiledLoop):
            plain = instruction.kernel.plain

            def record(*inputs, plain=plain, **options):
                calls.append(inputs)
                return plain(*inputs, **options)

            instruction.kernel.plain = record
    return calls


def compare(folder, model, *runs, compiled=True, is_sensitive=False):
    """Run a model compiled and plain on several lists of inputs, and compare the outputs.

    Rounding errors grow where a loop is sensitive to them, by as much for the plain program.
    """
    fast, plain = compile_both(folder, model)
    exact = irrun.compile_model(folder / "model.xml", precision="f64") if is_sensitive else None
    assert isinstance(get_loop(fast).kernel, CompiledLoop)
    calls = list_plain_runs(fast)
    for inputs in runs:
        values, expected = fast(inputs).to_tuple(), plain(inputs).to_tuple()
        bounds = [2e-5] * len(values)
        if exact is not None:
            errors = (np.abs(x - y).max() for x, y in zip(expected, exact(inputs).to_tuple(), strict=True))
            bounds = [2e-5 + 30 * error for error in errors]
        for value, reference, bound in zip(values, expected, bounds, strict=True):
            assert (value.dtype, value.shape) == (reference.dtype, reference.shape)
            if value.dtype.kind == "f":
                np.testing.assert_allclose(value, reference, rtol=2e-5, atol=bound)
            else:
                np.testing.assert_array_equal(value, reference)
    assert bool(calls) != compiled
    return fast


def make_iterator(step, data, states, wholes=(), *, axis=0, stride=1, part=1, outputs=None):
    """Return the outputs of a TensorIterator over slices of `data`.

    Args:
        step: Takes the slice, the states and the whole values; returns the next states and other values.
        data: The sliced input.
        states: The initial states.
        wholes: Inputs that are passed whole.
        axis: The axis of the slices.
        stride: 1 or -1.
        part: The size of a part.
        outputs: For each concatenated value after the states, its axis.
    """
    shape = [d.get_length() if d.is_static else -1 for d in data.get_partial_shape()]
    x = o.parameter([part if i == axis else d for i, d in enumerate(shape)], data.get_element_type())
    parameters = [o.parameter(s.get_partial_shape(), s.get_element_type()) for s in states]
    others = [o.parameter(s.get_partial_shape(), s.get_element_type()) for s in wholes]
    values = step(x.output(0), [p.output(0) for p in parameters], [p.output(0) for p in others])
    results = [o.result(v) for v in values]
    iterator = o.tensor_iterator()
    iterator.set_body(ov.Model(results, [x, *parameters, *others]))
    ends = (0, -1) if stride > 0 else (-1, 0)
    iterator.set_sliced_input(x, data, ends[0], stride * part, part, ends[1], axis)
    for parameter, initial, result in zip(parameters, states, results, strict=False):
        iterator.set_merged_input(parameter, initial, result.output(0))
    for parameter, value in zip(others, wholes, strict=True):
        iterator.set_invariant_input(parameter, value)
    found = [iterator.get_iter_value(r.output(0), -1) for r in results[: len(states)]]
    axes = outputs or [0] * (len(results) - len(states))
    for result, own in zip(results[len(states) :], axes, strict=True):
        length = result.output(0).get_partial_shape()[own]
        size = length.get_length() if length.is_static else 1
        found.append(iterator.get_concatenated_slices(result.output(0), ends[0], stride * size, size, ends[1], own))
    return found


def wrap(parameters, outputs):
    return ov.Model([o.result(v) for v in outputs], list(parameters))


# Random bodies

UNARY = [o.relu, o.tanh, o.sigmoid, o.exp, o.abs, o.negative, o.softplus]
BINARY = [o.add, o.subtract, o.multiply, o.maximum, o.minimum]


def limit(value):
    """Keep a value finite, so that errors stay bounded."""
    return o.tanh(value).output(0)


def add_random_operation(rng, pool):
    """Add an operation to values of f32 [rows, columns] or scalars by row."""
    kind = rng.choice(
        ["unary", "binary", "broadcast", "transpose", "slice", "concat", "gather", "softmax", "matmul", "integer",
         "select", "topk", "reduce_shape", "reshape"]
    )  # fmt: skip
    x = pool[rng.integers(len(pool))]
    if kind in ("integer", "select", "topk"):
        x = pool[0]  # steps of a function of states would make rounding errors large
    rows, columns = (d.get_length() for d in x.get_partial_shape())
    if kind == "unary":
        function = UNARY[rng.integers(len(UNARY))]
        value = function(limit(x))
    elif kind == "binary":
        value = BINARY[rng.integers(len(BINARY))](x, pool[rng.integers(len(pool))])
    elif kind == "broadcast":
        shape = [(1, columns), (rows, 1), (columns,), ()][rng.integers(4)]
        value = BINARY[rng.integers(len(BINARY))](x, o.constant(draw(rng, *shape)))
    elif kind == "transpose":
        square = o.matmul(
            o.transpose(x, c([1, 0])), o.constant(draw(rng, rows, columns) / F32(9 * columns)), False, False
        )
        value = o.matmul(limit(x), limit(square), False, bool(rng.integers(2)))
    elif kind == "slice":
        step = int(rng.choice([-2, -1, 1]))
        ends = ([columns - 1], [-columns - 1]) if step < 0 else ([0], [columns])
        part = o.slice(x, c(ends[0]), c(ends[1]), c([step]), c([1]))
        value = o.gather(part, c(rng.integers(0, -(-columns // abs(step)), columns)), c(1))
    elif kind == "concat":
        left, right = o.split(x, c(1), 2).outputs() if columns % 2 == 0 else (x, x)
        joined = o.concat([right, left], 1)
        value = o.slice(joined, c([0]), c([columns]), c([1]), c([1]))
    elif kind == "gather":
        value = o.gather(x, o.constant(rng.integers(-rows, rows, rows).astype(rng.choice([I32, I64]))), c(0))
    elif kind == "softmax":
        function = (o.softmax, o.log_softmax)[rng.integers(2)]
        value = function(x, int(rng.integers(-2, 2)))
    elif kind == "matmul":
        value = limit(
            o.matmul(x, o.constant(draw(rng, columns, columns) / F32(4 * columns)), False, bool(rng.integers(2)))
        )
    elif kind == "integer":
        codes = o.convert(o.greater(x, o.constant(F32(0))), str(rng.choice(["i32", "i64"])))
        dtype = I32 if codes.get_element_type() == ov.Type.i32 else I64
        sums = o.add(o.multiply(codes, c(3, dtype)), c(rng.integers(-5, 5, columns), dtype))
        value = o.convert(o.divide(o.mod(sums, c(4, dtype)), c(2, dtype)), "f32")
        value = o.add(value, o.convert(o.floor_mod(sums, c(3, dtype)), "f32"))
    elif kind == "select":
        condition = o.logical_or(o.less(x, o.constant(F32(0.1))), o.equal(x, o.constant(F32(1))))
        value = o.select(o.logical_not(condition), x, o.constant(draw(rng, 1, columns)))
    elif kind == "topk":
        mode = str(rng.choice(["max", "min"]))
        best = o.topk(x, c(1 + int(rng.integers(columns))), 1, mode, "value").outputs()
        count = best[0].get_partial_shape()[1].get_length()
        index = o.constant(rng.integers(0, count, columns).astype(I32))
        value = o.add(o.gather(best[0], index, c(1)), o.convert(o.gather(best[1], index, c(1)), "f32"))
    elif kind == "reduce_shape":
        shape = o.shape_of(x)
        value = o.reshape(o.broadcast(o.constant(F32(0.5)), shape), shape, False)
        value = o.multiply(value, x)
    else:
        flat = o.reshape(x, c([columns, rows]), False)
        value = o.reshape(o.transpose(flat, c([1, 0])), c([rows, columns]), False)
    return value if isinstance(value, ov.Output) else value.output(0)


CELLS = ["none", "none", "lstm", "gru", "gru linear", "rnn"]


def add_cell(rng, kind, x, state, memory):
    """Return the next states of a cell over `x`, whose options are random."""
    columns = x.get_partial_shape()[1].get_length()
    hidden = state.get_partial_shape()[1].get_length()
    gates = {"lstm": 4, "gru": 3, "gru linear": 3, "rnn": 1}[kind]
    biases = gates + (kind == "gru linear")
    weights = [
        o.constant(draw(rng, *s)) for s in ((gates * hidden, columns), (gates * hidden, hidden), (biases * hidden,))
    ]
    names = [str(n) for n in rng.choice(["sigmoid", "tanh", "relu", "hardsigmoid"], 3)]
    clip = float(rng.choice([0.0, 0.7]))
    x = limit(x)
    if kind == "lstm":
        names = ["sigmoid", "tanh", "tanh"] if rng.integers(2) else ["sigmoid", *names[1:]]
        return o.lstm_cell(x, state, memory, *weights, hidden, names, [], [], clip).outputs()
    if kind == "rnn":
        return [*o.rnn_cell(x, state, *weights, hidden, names[:1], [], [], clip).outputs(), memory]
    is_linear = kind == "gru linear"
    cell = o.gru_cell(x, state, *weights, hidden, ["sigmoid", "tanh"], [], [], clip, is_linear)
    return [*cell.outputs(), memory]


@pytest.mark.parametrize("seed", range(16))
def test_random_bodies(tmp_path, seed):
    rng = np.random.default_rng(seed)
    rows, columns, count = int(rng.integers(1, 5)), int(rng.choice([1, 4, 17, 24])), int(rng.choice([1, 2, 9, 40]))
    axis, stride = int(rng.integers(2)), int(rng.choice([-1, 1]))
    data = o.parameter([count, rows, columns] if axis == 0 else [rows, count, columns], F32)
    state, memory = (o.parameter([rows, columns], F32) for _ in range(2))
    token = o.parameter([rows], I32)
    whole = o.parameter([1, columns], F32)
    kind = str(rng.choice(CELLS))

    def step(x, states, wholes):
        a, b, n = states
        pool = [o.squeeze(x, c([axis])).output(0), a, b, o.add(a, wholes[0]).output(0)]
        for _ in range(int(rng.integers(1, 8))):
            # Each operation contracts, so that rounding errors stay small.
            pool.append(limit(o.multiply(add_random_operation(rng, pool), o.constant(F32(0.4)))))
        last = limit(o.multiply(o.add(limit(pool[-1]), a), o.constant(F32(0.3))))
        if kind == "none":
            a, b = (b, last) if rng.integers(2) else (last, o.multiply(b, o.constant(F32(0.9))).output(0))
        else:
            a, b = add_cell(rng, kind, last, a, b)
        n = o.mod(o.add(n, c([3], I32)), c([7], I32)).output(0)
        row = o.convert(o.unsqueeze(n, c([1])), "f32")
        return [a, b, n, o.unsqueeze(o.add(last, row), c([0])).output(0), pool[-1]]

    outputs = make_iterator(
        step, data.output(0), [x.output(0) for x in (state, memory, token)], [whole.output(0)],
        axis=axis, stride=stride, outputs=[0, int(rng.integers(2))],
    )  # fmt: skip
    model = wrap([data, state, memory, token, whole], outputs)
    runs = [
        [draw(rng, *data.shape), draw(rng, rows, columns), draw(rng, rows, columns),
         rng.integers(0, 7, rows).astype(I32), draw(rng, 1, columns)]
        for _ in range(2)
    ]  # fmt: skip
    compare(tmp_path, model, *runs, is_sensitive=True)


# Single operations

OPERATIONS = {
    "ReduceSum": lambda x, n: [
        o.reduce_sum(x, c([0]), False),
        o.reduce_sum(x, c([-1]), True),
        o.reduce_sum(n, c([1]), False),
    ],
    "ReduceMean": lambda x, n: [o.reduce_mean(x, c([0, 1]), True), o.reduce_mean(x, c([1]), False)],
    "ReduceMax": lambda x, n: [o.reduce_max(x, c([1]), True), o.reduce_max(n, c([0]), False)],
    "ReduceMin": lambda x, n: [o.reduce_min(x, c([0]), True), o.reduce_min(n, c([0, 1]), False)],
    "ReduceProd": lambda x, n: [o.reduce_prod(o.tanh(x), c([1]), True), o.reduce_prod(n, c([0]), False)],
    "ReduceL1": lambda x, n: [o.reduce_l1(x, c([1]), True), o.reduce_l2(x, c([0]), False)],
    "ReduceLogical": lambda x, n: [
        o.reduce_logical_and(o.greater(x, c(0.5, F32)), c([0]), False),
        o.reduce_logical_or(o.less(n, c(-8)), c([1]), True),
    ],
    "integers": lambda x, n: [o.add(n, c(2)), o.subtract(c([[1], [2], [3], [4]]), n), o.multiply(n, n), o.negative(n)],
    "extrema": lambda x, n: [o.maximum(n, c(1)), o.minimum(n, c([2, -3, 4, -5, 6, 7]))],
    "Divide": lambda x, n: [o.divide(n, c(d)) for d in (3, -3, 1, -1, 0)] + [o.divide(c([7, -7, 5, -5, 1, 0]), n)],
    "Divide toward zero": lambda x, n: [o.divide(n, c([3, -3, 1, -1, 2, 7]), auto_broadcast="NUMPY")],
    "FloorMod": lambda x, n: [o.floor_mod(n, c([3, -3, 1, -1, 2, 7])), o.floor_mod(c(7), n)],
    "Mod": lambda x, n: [o.mod(n, c([3, -3, 1, -1, 2, 7])), o.mod(c(-7), n)],
    "comparisons": lambda x, n: [
        f(a, b)
        for f in (o.equal, o.not_equal, o.less, o.less_equal, o.greater, o.greater_equal)
        for a, b in ((x, c(0.5, F32)), (n, c(2)))
    ],
    "logic": lambda x, n: [
        f(o.greater(x, c(0, F32)), o.less(n, c(0))) for f in (o.logical_and, o.logical_or, o.logical_xor, o.equal)
    ],
    "Convert": lambda x, n: [
        o.convert(v, to)
        for v in (x, o.multiply(x, c([1e9, 1e20, -1e20, np.nan, np.inf, 0], F32)), n, o.greater(x, c(0, F32)))
        for to in ("f32", "i32", "i64", "boolean")
    ],
    "Select": lambda x, n: [o.select(o.less(n, c(0)), x, c([[1.5]], F32)), o.select(o.greater(x, c(0, F32)), n, c(-9))],
    "Tile": lambda x, n: [o.tile(x, c([2, 1])), o.tile(n, c([2, 1, 3]))],
    "Broadcast": lambda x, n: [
        o.broadcast(o.reduce_sum(x, c([1]), True), c([2, 4, 6])),
        o.add(o.broadcast(o.slice(n, c([0]), c([1]), c([1]), c([0])), c([4, 6])), n),
    ],
    "ScatterUpdate": lambda x, n: [
        o.scatter_update(x, c([2, 0], I32), c(np.ones((2, 6)), F32), c(0)),
        o.scatter_update(n, c(5), c(np.arange(4)), c(1)),
        o.scatter_update(o.less(n, c(0)), c([[1, 3], [0, 1]]), c(np.ones((2, 2, 6)), np.bool_), c(0)),
    ],
    "Gather": lambda x, n: [
        o.gather(x, o.mod(n, c(9)), c(0)),
        o.gather(x, o.mod(n, c(6)), c(1), 1),
        o.gather(o.less(n, c(0)), c(-1), c(1)),
        o.gather(n, c(0, I32), c(0)),
    ],
    "TopK": lambda x, n: [
        v for a in (0, 1) for m in ("max", "min") for y in (x, n) for v in o.topk(y, c(3), a, m, "value").outputs()
    ],
    "TopK of NaN": lambda x, n: [
        v
        for m in ("max", "min")
        for v in o.topk(
            o.multiply(x, c([1, np.nan, np.inf, -np.inf, 0, np.nan], F32)), c(6), 1, m, "value", "i64"
        ).outputs()
    ],
    "movement": lambda x, n: [
        o.transpose(n, c([1, 0])),
        o.concat([n, n], 0),
        o.concat([o.transpose(x, c([1, 0])), c(np.ones((6, 1)), F32)], 1),
        o.slice(x, c([5]), c([-7]), c([-2]), c([1])),
        *o.split(n, c(1), 3).outputs(),
        o.reshape(o.transpose(x, c([1, 0])), c([3, 8]), False),
        o.squeeze(o.unsqueeze(o.less(n, c(0)), c([0, 2])), c([0])),
    ],
    "MatMul": lambda x, n: [
        o.matmul(x, o.transpose(x, c([1, 0])), False, False),
        o.matmul(x, x, True, False),
        o.matmul(x, c(np.ones((5, 6)), F32), False, True),
        o.matmul(c(np.ones((3, 5, 4)), F32), x, False, False),
        o.matmul(o.broadcast(x, c([2, 4, 6])), o.broadcast(x, c([2, 4, 6])), False, True),
    ],
    "MVN": lambda x, n: (
        [o.mvn(x, c([-1]), v, 1e-6, m) for v in (True, False) for m in ("inside_sqrt", "outside_sqrt")]
        + [o.mvn(x, c([0, 1]), True, 1e-6, "inside_sqrt")]
    ),
    "Softmax": lambda x, n: [f(x, a) for f in (o.softmax, o.log_softmax) for a in (0, 1, -1)],
}


@pytest.mark.parametrize("name", OPERATIONS)
def test_operations(tmp_path, name):
    rng = np.random.default_rng(0)
    data, codes, state = o.parameter([9, 4, 6], F32), o.parameter([9, 4, 6], I64), o.parameter([1], F32)
    x, n, s = o.parameter([1, 4, 6], F32), o.parameter([1, 4, 6], I64), o.parameter([1], F32)
    values = OPERATIONS[name](o.squeeze(x, c([0])), o.squeeze(n, c([0])))
    following = o.result(o.add(s, c([1], F32)))
    results = [o.result(o.unsqueeze(v, c([0]))) for v in values]
    iterator = o.tensor_iterator()
    iterator.set_body(ov.Model([following, *results], [x, n, s]))
    iterator.set_sliced_input(x, data.output(0), 0, 1, 1, -1, 0)
    iterator.set_sliced_input(n, codes.output(0), 0, 1, 1, -1, 0)
    iterator.set_merged_input(s, state.output(0), following.output(0))
    outputs = [iterator.get_iter_value(following.output(0), -1)]
    outputs += [iterator.get_concatenated_slices(r.output(0), 0, 1, 1, -1, 0) for r in results]
    inputs = [draw(rng, 9, 4, 6), rng.integers(-9, 9, (9, 4, 6)), np.zeros(1, F32)]
    extreme = [inputs[0], np.where(inputs[1] > 5, np.iinfo(I64).min, inputs[1]), inputs[2]]
    compare(tmp_path, wrap([data, codes, state], outputs), inputs, *([extreme] if "ather" not in name else []))


def test_indices_out_of_range_are_errors_of_the_plain_loop(tmp_path):
    data, state = o.parameter([3, 1], I64), o.parameter([4], F32)

    def step(x, states, _):
        return [o.scatter_update(states[0], o.squeeze(x, c([0, 1])), c(5, F32), c(0)).output(0)]

    model = wrap([data, state], make_iterator(step, data.output(0), [state.output(0)]))
    compare(tmp_path, model, [np.array([[3], [0], [2]]), np.zeros(4, F32)])
    fast, _ = compile_both(tmp_path, model)
    with pytest.raises(irrun.IrrunError, match=r"ScatterUpdate.*in iteration 1 of.*index 4 is out of range"):
        fast([np.array([[3], [4], [2]]), np.zeros(4, F32)])


@pytest.mark.parametrize(("count", "compiled"), [(1, True), (2, False)])
def test_elements_in_order_of_indices_are_selected_by_the_plain_loop(tmp_path, count, compiled):
    data, state = o.parameter([5, 4, 6], F32), o.parameter([1], F32)

    def step(x, states, _):
        best = o.topk(o.squeeze(x, c([0])), c(count), 1, "max", "index").outputs()
        return [o.add(states[0], c([1], F32)).output(0), *(o.unsqueeze(v, c([0])).output(0) for v in best)]

    model = wrap([data, state], make_iterator(step, data.output(0), [state.output(0)]))
    inputs = [draw(np.random.default_rng(0), 5, 4, 6), np.zeros(1, F32)]
    fast, plain = compile_both(tmp_path, model)
    assert isinstance(get_loop(fast).kernel, CompiledLoop) == compiled
    for value, expected in zip(fast(inputs).to_tuple(), plain(inputs).to_tuple(), strict=True):
        np.testing.assert_array_equal(value, expected)


# Cells


def build_cell(rng, kind, batch, *, clip=0.0, names=None, biases=True, size=5, hidden=19):
    """Build a cell as an IR with all of its attributes."""
    gates = {"LSTMCell": 4, "GRUCell": 3, "RNNCell": 1, "linear": 3}[kind]
    states = 2 if kind == "LSTMCell" else 1
    X = o.parameter([batch, size], F32)
    own = [o.parameter([batch, hidden], F32) for _ in range(states)]
    rows = gates * hidden
    shapes = [(rows, size), (rows, hidden), ((gates + (kind == "linear")) * hidden,)]
    W, R, B = (o.constant(draw(rng, *shape) * F32(0.3)) for shape in shapes)
    if not biases:
        B = o.constant(np.zeros(shapes[2], F32))
    names = names or {"LSTMCell": ["sigmoid", "tanh", "tanh"], "RNNCell": ["tanh"]}.get(kind, ["sigmoid", "tanh"])
    if kind == "LSTMCell":
        cell = o.lstm_cell(X, *own, W, R, B, hidden, names, [], [], clip)
    elif kind == "RNNCell":
        cell = o.rnn_cell(X, *own, W, R, B, hidden, names, [], [], clip)
    else:
        cell = o.gru_cell(X, *own, W, R, B, hidden, names, [], [], clip, kind == "linear")
    return wrap([X, *own], cell.outputs())


@pytest.mark.parametrize("kind", ["LSTMCell", "GRUCell", "RNNCell", "linear"])
@pytest.mark.parametrize("batch", [2, 7, -1])
def test_cells(tmp_path, kind, batch):
    rng = np.random.default_rng(0)
    count = 3 if kind == "LSTMCell" else 2
    for clip, names, biases in ((0.0, None, True), (0.4, None, False), (0.0, ["relu", "hardsigmoid", "sigmoid"], True)):
        names = names and names[: {"LSTMCell": 3, "RNNCell": 1}.get(kind, 2)]
        model = build_cell(rng, kind, batch, clip=clip, names=names, biases=biases)
        fast, plain = compile_both(tmp_path, model)
        assert isinstance(fast._fast_program.instructions[0].kernel, CellKernel)
        for rows in (batch,) if batch > 0 else (1, 3, 40):
            inputs = [draw(rng, rows, 5 if i == 0 else 19) for i in range(count)]
            for value, expected in zip(fast(inputs).to_tuple(), plain(inputs).to_tuple(), strict=True):
                np.testing.assert_allclose(value, expected, rtol=2e-6, atol=2e-6)


@pytest.mark.parametrize(("name", "gates"), [("LSTM", 4), ("GRU", 3), ("RNN", 1), ("ResetFirstGRU", 2)])
@pytest.mark.parametrize("hidden", [64, 70])
def test_tiles_of_rows_and_gates(monkeypatch, name, gates, hidden):
    rng = np.random.default_rng(0)
    batch, steps = 19, 3
    matrices = [draw(rng, gates * hidden, hidden) * F32(0.1)]
    if name == "ResetFirstGRU":
        matrices.append(draw(rng, hidden, hidden) * F32(0.1))
    columns = hidden * (gates + (name == "ResetFirstGRU"))
    projection = recurrences.arrange_gates(draw(rng, steps, batch, columns), hidden)
    states = [draw(rng, batch, hidden) for _ in range(1 + (name == "LSTM"))]

    def run(registers, group_size, rows=batch):
        monkeypatch.setattr(recurrences, "REGISTERS", dict.fromkeys((4, 8, 16), registers))
        monkeypatch.setattr(recurrences, "GROUP_SIZES", dict.fromkeys((4, 8, 16), group_size))
        for function in (recurrences._prepare_step, recurrences._compile_step):
            function.cache_clear()
        weights = recurrences.pack_weights(name, matrices)
        output = np.empty((steps, rows, hidden), F32)
        recurrence = recurrences.CompiledRecurrence(weights, rows, [state[:rows] for state in states])
        recurrence.run_block(projection[:, :rows], output)
        return output

    expected = run(27, gates)
    np.testing.assert_allclose(run(27, 1), expected, rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(run(15, 2), expected, rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(run(9, 4), expected, rtol=1e-6, atol=1e-6)
    for rows in (1, 2, 5):
        np.testing.assert_allclose(run(27, gates, rows), expected[:, :rows], rtol=1e-6, atol=1e-6)
    for function in (recurrences._prepare_step, recurrences._compile_step):
        function.cache_clear()


def test_functions_of_gates():
    """With weights of 0, the results are functions of the projections: of any size, infinity and NaN."""
    hidden = 1000
    special = [0.0, -0.0, 1e-30, -1e-20, 1e-7, 9.4, -9.6, 20.0, -100.0, 1e30, np.inf, -np.inf, np.nan]
    x = np.concatenate([np.linspace(-12, 12, 2 * hidden - len(special)), special]).astype(F32).reshape(2, 1, hidden)

    def run(name, gates, values, *states):
        weights = recurrences.pack_weights(name, [np.zeros((gates * hidden, hidden), F32)])
        output = np.empty((1, 1, hidden), F32)
        projection = recurrences.arrange_gates(np.concatenate(values).reshape(1, 1, -1), hidden)
        recurrences.CompiledRecurrence(weights, 1, states).run_block(projection, output)
        return output[0, 0]

    zeros, half = np.zeros((1, hidden), F32), np.full((1, hidden), 0.5, F32)
    for (row,) in x:
        exact = row.astype(np.float64)
        with np.errstate(over="ignore"):
            sigmoid, tanh = 1 / (1 + np.exp(-2 * exact)), np.tanh(exact)  # the weights of sigmoid gates are halved
        np.testing.assert_allclose(run("RNN", 1, [row], zeros), tanh, rtol=5e-7, atol=1e-37)
        forgotten = run("LSTM", 4, [zeros[0], row, zeros[0], zeros[0]], zeros, half)
        np.testing.assert_allclose(forgotten, 0.5 * np.tanh(0.5 * sigmoid), rtol=1e-6, atol=2e-7)
        added = run("LSTM", 4, [row, zeros[0], zeros[0], row], zeros, zeros)
        np.testing.assert_allclose(added, np.tanh(0.5 * tanh) * sigmoid, rtol=1e-6, atol=2e-7)
        updated = run("GRU", 3, [row, zeros[0], half[0]], zeros)
        np.testing.assert_allclose(updated, (1 - sigmoid) * np.tanh(0.5), rtol=1e-6, atol=2e-7)


@pytest.mark.parametrize("direction", ["forward", "reverse", "bidirectional"])
@pytest.mark.parametrize("kind", ["lstm", "gru", "rnn"])
def test_sequences_with_other_attributes(tmp_path, kind, direction):
    rng = np.random.default_rng(0)
    count, size, hidden = 1 + (direction == "bidirectional"), 5, 19
    gates = {"lstm": 4, "gru": 3, "rnn": 1}[kind]
    data, *states = (
        o.parameter([-1, *shape], F32) for shape in [(-1, size)] + [(count, hidden)] * (1 + (kind == "lstm"))
    )
    lengths = o.parameter([-1], I32)
    shapes = [(count, gates * hidden, size), (count, gates * hidden, hidden), (count, gates * hidden)]
    weights = [o.constant(draw(rng, *shape) * F32(0.3)) for shape in shapes]
    create = {"lstm": o.lstm_sequence, "gru": o.gru_sequence, "rnn": o.rnn_sequence}[kind]
    names = ["hardsigmoid", "relu", "tanh"][: {"lstm": 3, "gru": 2, "rnn": 1}[kind]]
    node = create(data, *states, lengths, *weights, hidden, direction, names, [], [], 0.8)
    fast, plain = compile_both(tmp_path, wrap([data, *states, lengths], node.outputs()))
    assert isinstance(fast._fast_program.instructions[0].kernel, CellSequenceKernel)
    for batch, time, last in ((3, 7, 7), (1, 1, 1), (4, 40, 40), (2, 6, 3)):
        initial = [draw(rng, batch, count, hidden) for _ in states]
        inputs = [draw(rng, batch, time, size), *initial, np.array([time] * (batch - 1) + [last], I32)]
        request = fast.create_infer_request()
        for value, expected in zip(request.infer(inputs).to_tuple(), plain(inputs).to_tuple(), strict=True):
            assert value.shape == expected.shape
            np.testing.assert_allclose(value, expected, rtol=1e-5, atol=1e-5)
        assert not request.fallbacks


# Loops


def build_loop(limit=None, *, collects=True, trips=None):
    """Build a Loop that counts and adds up its iterations, and ends when the sum reaches a limit."""
    trip_count, initial = o.parameter([], I64), o.parameter([3], F32)
    number, state, total = o.parameter([], I64), o.parameter([3], F32), o.parameter([1], I32)
    value = o.add(o.tanh(state), o.convert(number, "f32"))
    sum_ = o.add(total, o.convert(number, "i32"))
    condition = c(True, np.bool_) if limit is None else o.less(o.squeeze(sum_, c([0])), c(limit, I32))
    results = [o.result(x) for x in (condition, value, sum_, o.unsqueeze(value, c([1])))]
    loop = o.loop(trip_count, c(True, np.bool_))
    loop.set_function(ov.Model(results, [number, state, total]))
    loop.set_special_body_ports([0, 0])
    loop.set_merged_input(state, initial.output(0), results[1].output(0))
    loop.set_merged_input(total, c([0], I32).output(0), results[2].output(0))
    outputs = [loop.get_iter_value(results[i].output(0), -1) for i in (1, 2)]
    if collects:
        outputs.append(loop.get_concatenated_slices(results[3].output(0), 0, 1, 1, -1, 1))
    return wrap([trip_count, initial], outputs)


@pytest.mark.parametrize("collects", [False, True])
@pytest.mark.parametrize("limit", [None, 0, 20, 700])
def test_loops_count_and_end_early(tmp_path, limit, collects):
    x = np.array([0.1, -2, 3], F32)
    compare(tmp_path, build_loop(limit, collects=collects), *([np.array(n), x] for n in (1, 2, 9, 300)))


def test_loops_without_a_maximum_end_by_their_condition(tmp_path):
    x = np.array([0.1, -2, 3], F32)
    compare(tmp_path, build_loop(700, collects=False), [np.array(-1), x])
    compare(tmp_path, build_loop(700), *([np.array(n), x] for n in (-1, np.iinfo(I64).max, 5)))


def test_loops_without_iterations_are_plain(tmp_path):
    compare(tmp_path, build_loop(), [np.array(0), np.ones(3, F32)], compiled=False)


def build_sum(shape, *, data_shape=None):
    """Build a loop that adds up the softmax of slices."""
    data, state = o.parameter(data_shape or [-1, *shape], F32), o.parameter(shape, F32)

    def step(x, states, _):
        total = o.add(o.softmax(o.squeeze(x, c([0])), -1), states[0]).output(0)
        return [total, o.unsqueeze(o.multiply(total, total), c([0])).output(0)]

    return wrap([data, state], make_iterator(step, data.output(0), [state.output(0)]))


def test_dynamic_shapes_have_plans_of_their_own(tmp_path):
    rng = np.random.default_rng(0)
    model = build_sum([-1, -1])
    shapes = [(3, 2, 5), (1, 2, 5), (4, 7, 1), (3, 2, 5), (20, 1, 33)]
    compare(tmp_path, model, *([draw(rng, *s), draw(rng, *s[1:])] for s in shapes))


def test_values_before_the_iterations_have_any_shape_in_each_run(tmp_path):
    """The number of non-zero elements differs between runs with inputs of one shape."""
    data, mask = o.parameter([6, 1], F32), o.parameter([5], F32)

    def step(x, states, wholes):
        positions = o.convert(o.non_zero(wholes[0], "i64"), "f32").output(0)
        products = o.multiply(x, positions)
        return [o.add(states[0], o.reduce_sum(products, c([1]), True)).output(0), positions]

    outputs = make_iterator(step, data.output(0), [c([[0]], F32).output(0)], [mask.output(0)], outputs={})
    rng = np.random.default_rng(0)
    runs = [(draw(rng, 6, 1), np.array(mask, F32)) for mask in ((0, 1, 0, 0, 1), (1, 1, 1, 1, 1), (0, 0, 1, 0, 0))]
    compare(tmp_path, ov.Model([o.result(x) for x in outputs], [data, mask]), *runs, *runs)


def test_states_that_change_their_shape_are_left_to_the_plain_loop(tmp_path):
    rng = np.random.default_rng(0)
    compare(tmp_path, build_sum([-1, -1]), [draw(rng, 3, 2, 5), draw(rng, 1, 5)], compiled=False)


def test_inputs_with_any_strides(tmp_path):
    rng = np.random.default_rng(0)
    model = build_sum([4, 6])
    data = draw(rng, 10, 6, 4).transpose(0, 2, 1)[::-2]
    compare(tmp_path, model, [data, np.asfortranarray(draw(rng, 4, 6))])
    bytes_ = np.zeros(data.size * 4 + 1, np.uint8)
    unaligned = bytes_[1:].view(F32).reshape(data.shape)
    unaligned[...] = data
    compare(tmp_path, model, [unaligned, draw(rng, 4, 6)])


def test_results_do_not_depend_on_threads_and_repetitions(tmp_path):
    rng = np.random.default_rng(0)
    model = build_sum([300, 700])
    ov.save_model(model, tmp_path / "model.xml", compress_to_fp16=False)
    inputs = [draw(rng, 4, 300, 700), draw(rng, 300, 700)]
    expected = None
    for threads in (1, 2, 4):
        compiled = irrun.compile_model(tmp_path / "model.xml", jit=True, threads=threads)
        for _ in range(2):
            values = [x.tobytes() for x in compiled(inputs).to_tuple()]
            expected = expected or values
            assert values == expected


def test_loops_in_loops(tmp_path):
    """The inner loop is compiled, the outer one says why it is not."""
    data, state = o.parameter([4, 5], F32), o.parameter([1, 5], F32)
    rows, total = o.parameter([4, 5], F32), o.parameter([1, 5], F32)

    def add(row, totals, _):
        return [o.add(o.exp(row), totals[0]).output(0)]

    (sums,) = make_iterator(add, rows.output(0), [o.tanh(total).output(0)])
    results = [o.result(c(True, np.bool_)), o.result(sums)]
    loop = o.loop(c(3), c(True, np.bool_))
    loop.set_function(ov.Model(results, [rows, total]))
    loop.set_special_body_ports([-1, 0])
    loop.set_invariant_input(rows, data.output(0))
    loop.set_merged_input(total, state.output(0), results[1].output(0))
    model = wrap([data, state], [loop.get_iter_value(results[1].output(0), -1)])
    fast, plain = compile_both(tmp_path, model)
    rng = np.random.default_rng(0)
    inputs = [draw(rng, 4, 5), draw(rng, 1, 5)]
    np.testing.assert_allclose(fast(inputs)[0], plain(inputs)[0], rtol=1e-6)
    outer = get_loop(fast)
    assert not isinstance(outer.kernel, CompiledLoop)
    inner = [i for i in outer.bodies["body"].program.instructions if i.bodies]
    assert [isinstance(i.kernel, CompiledLoop) for i in inner] == [True]
    refusals = [r.reason for r in fast._fast_program.refusals if r.rule == "compile a loop"]
    assert len(refusals) == 1
    assert "is not compiled in bodies" in refusals[0]


def test_operations_without_a_compiled_form_are_named(tmp_path):
    data, state = o.parameter([3, 4], F32), o.parameter([1, 4], F32)
    outputs = make_iterator(lambda x, s, _: [o.sin(o.add(x, s[0])).output(0)], data.output(0), [state.output(0)])
    fast, plain = compile_both(tmp_path, wrap([data, state], outputs))
    inputs = [np.ones((3, 4), F32), np.ones((1, 4), F32)]
    np.testing.assert_allclose(fast(inputs)[0], plain(inputs)[0], rtol=1e-6)
    assert any("Sin-1" in r.reason for r in fast._fast_program.refusals if r.rule == "compile a loop")


def test_observers_and_profiles_see_the_layers_of_bodies(tmp_path):
    rng = np.random.default_rng(0)
    ov.save_model(build_sum([4, 6]), tmp_path / "model.xml", compress_to_fp16=False)
    compiled = irrun.compile_model(tmp_path / "model.xml", jit=True)
    calls = list_plain_runs(compiled)
    inputs = [draw(rng, 3, 4, 6), draw(rng, 4, 6)]
    timer = KernelTimer()
    compiled.create_infer_request(timer).infer(inputs)
    assert len(calls) == 1
    assert len(timer.records) > 2, timer.records


def test_time_limits_hold(tmp_path):
    ov.save_model(build_loop(), tmp_path / "model.xml", compress_to_fp16=False)
    compiled = irrun.compile_model(tmp_path / "model.xml", jit=True)
    calls = list_plain_runs(compiled)
    with pytest.raises(irrun.IrrunError, match=r"Loop.*time limit of 0.05 s in iteration \d+"):
        compiled.create_infer_request().infer([np.array(1 << 22), np.zeros(3, F32)], timeout=0.05)
    assert not calls


def test_memory_limits_hold(tmp_path):
    ov.save_model(build_loop(), tmp_path / "model.xml", compress_to_fp16=False)
    compiled = irrun.compile_model(tmp_path / "model.xml", jit=True, memory="4M")
    with pytest.raises(MemoryLimitError, match="memory"):
        compiled([np.array(1 << 20), np.zeros(3, F32)])
