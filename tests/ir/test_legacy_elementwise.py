"""Legacy activations, elementwise layers, normalizations and reductions compared with OpenVINO."""

from __future__ import annotations

import functools

import numpy as np
import pytest
from legacy_ir import Case, LegacyNetwork, StoredInput, make_random, run_openvino

pytest.importorskip("openvino")

from openvino import opset13 as ops

from irrun.ir.legacy.activations import SIMPLE
from irrun.ir.legacy.arithmetic import TYPES
from irrun.ir.writer import save_model

X = make_random(2, 3, 4, 5)
POSITIVE = np.abs(X) + 0.1
BELOW_ONE = np.clip(X / 4, -0.9, 0.9)
ABOVE_ONE = np.abs(X) + 1.1


def make_f32(*values) -> object:
    return ops.constant(np.array(values[0] if len(values) == 1 else values, np.float32))


OPERATIONS = {
    "Abs": ops.absolute,
    "Acos": ops.acos,
    "Acosh": ops.acosh,
    "Asin": ops.asin,
    "Asinh": ops.asinh,
    "Atan": ops.atan,
    "Atanh": ops.atanh,
    "Ceil": ops.ceiling,
    "Ceiling": ops.ceiling,
    "Cos": ops.cos,
    "Cosh": ops.cosh,
    "Erf": ops.erf,
    "Exp": ops.exp,
    "Floor": ops.floor,
    "HSwish": ops.hswish,
    "HSigmoid": ops.hsigmoid,
    "Log": ops.log,
    "Mish": ops.mish,
    "Neg": ops.negative,
    "Negative": ops.negative,
    "Sigmoid": ops.sigmoid,
    "Logistic": ops.sigmoid,
    "Sign": ops.sign,
    "Sin": ops.sin,
    "Sinh": ops.sinh,
    "SoftPlus": ops.softplus,
    "Sqrt": ops.sqrt,
    "Tan": ops.tan,
    "TanH": ops.tanh,
}
DOMAINS = {
    "Acos": BELOW_ONE,
    "Asin": BELOW_ONE,
    "Atanh": BELOW_ONE,
    "Acosh": ABOVE_ONE,
    "Log": POSITIVE,
    "Sqrt": POSITIVE,
}


def make_activation_cases():
    for name in SIMPLE:
        yield Case(name, [DOMAINS.get(name, X)], OPERATIONS[name])
    for name in ("sigmoid", "tanh", "exp"):
        operation = {"sigmoid": ops.sigmoid, "tanh": ops.tanh, "exp": ops.exp}[name]
        yield Case("Activation", [X], operation, {"type": name}, version=3)
    yield Case("Activation", [X], lambda x: ops.elu(x, 0.5), {"type": "elu", "alpha": 0.5}, version=6)
    yield Case("Activation", [X], lambda x: ops.clamp(x, -1, 2), {"type": "Clamp", "min": -1, "max": 2}, version=6)
    yield Case("Activation", [X], lambda x: ops.clamp(x, 0, 6), {"type": "relu6"}, version=4)
    yield Case("Activation", [X], lambda x: ops.prelu(x, make_f32([0.2])), {"type": "relu", "negative_slope": 0.2})
    yield Case("Activation", [X], lambda x: ops.clamp(x, 0, 1.5), {"Type": "bounded_relu", "alpha": 1.5}, version=2)
    yield Case("Activation", [X], ops.softplus, {"type": "soft_relu"}, version=2)
    linear = {"type": "linear", "alpha": 2, "beta": -1}
    yield Case("Activation", [X], lambda x: ops.subtract(ops.multiply(x, make_f32(2)), make_f32(1)), linear, version=2)
    slopes = make_random(3, seed=1)
    yield Case("Activation", [X], lambda x: ops.prelu(x, make_f32(slopes)), {"type": "prelu"}, {"weights": slopes})
    yield Case("ReLU", [X], ops.relu, {"negative_slope": "0.0"}, version=2)
    yield Case("ReLU", [X], ops.relu, version=5)
    yield Case("ReLU", [X], lambda x: ops.prelu(x, make_f32([0.1])), {"negative_slope": 0.1})
    yield Case("ReLU6", [X], lambda x: ops.clamp(x, 0, 6))
    yield Case("ReLU6", [X], lambda x: ops.clamp(x, 0, 1), {"n": 1})
    yield Case("Clamp", [X], lambda x: ops.clamp(x, -0.5, 1.25), {"min": -0.5, "max": 1.25}, version=2)
    yield Case("ELU", [X], lambda x: ops.elu(x, 1.0))
    yield Case("GELU", [X], lambda x: ops.gelu(x, "erf"))
    yield Case("PReLU", [X], lambda x: ops.prelu(x, make_f32(slopes)), {"channel_shared": 0}, {"weights": slopes})
    yield Case(
        "PReLU", [X], lambda x: ops.prelu(x, make_f32([0.3])), {"channel_shared": 1}, {"weights": np.float32([0.3])}
    )
    yield Case(
        "HardSigmoid", [X], lambda x: ops.hard_sigmoid(x, make_f32(0.3), make_f32(0.6)), {"alpha": 0.3, "beta": 0.6}
    )
    yield Case("HardSigmoid", [X], lambda x: ops.hard_sigmoid(x, make_f32(0.2), make_f32(0.5)))
    yield Case("Selu", [X], lambda x: ops.selu(x, make_f32(1.5), make_f32(1.1)), {"alpha": 1.5, "gamma": 1.1})
    yield Case("Swish", [X], lambda x: ops.swish(x, make_f32(0.5)), {"alpha": 0.5})
    yield Case("Softsign", [X], ops.softsign)
    yield Case("Reciprocal", [POSITIVE], lambda x: ops.divide(make_f32(1), x))
    yield Case("Square", [X], lambda x: ops.multiply(x, x))
    yield Case("Round", [X], lambda x: ops.round(x, "half_away_from_zero"), {"mode": "half_away_from_zero"})
    yield Case("PowerFile", [make_random(2, 6)], lambda x: ops.add(x, make_f32([1, 0, 0, 0, 1, 0])), version=3)
    zeros = np.float32([[0, 1, 2, 0]])
    yield Case("LogicalNot", [zeros], lambda x: ops.logical_not(ops.convert(x, "boolean")))
    yield Case("Not", [zeros], lambda x: ops.convert(ops.logical_not(ops.convert(x, "boolean")), "f32"))
    ranges = [StoredInput(np.float32(v).reshape(1, 1, 1, 1)) for v in (-1, 1, -0.75, 1.25)]
    for name, version in (("Quantize", 5), ("FakeQuantize", 7)):
        yield Case(
            name,
            [X, *ranges],
            lambda x, a, b, c, d: ops.fake_quantize(x, a, b, c, d, 16),
            {"levels": 16},
            version=version,
        )


def make_power_cases():
    yield Case(
        "Power",
        [POSITIVE],
        lambda x: ops.power(ops.add(ops.multiply(x, make_f32(2)), make_f32(0.5)), make_f32(1.5)),
        {"scale": 2, "shift": 0.5, "power": 1.5},
        version=2,
    )
    yield Case("Power", [X], lambda x: ops.multiply(x, make_f32(-1)), {"scale": -1, "shift": 0, "power": 1})
    yield Case("Power", [X], lambda x: ops.power(x, make_f32(2)), {"scale": 1, "shift": 0, "power": 2})
    integers = np.arange(-3, 9, dtype=np.int32).reshape(3, 4)
    yield Case(
        "Power",
        [integers],
        lambda x: ops.add(ops.multiply(x, ops.constant(np.int32(3))), ops.constant(np.int32(-2))),
        {"scale": 3, "shift": -2, "power": 1},
        precision="I32",
        note="of I32",
    )


Y = make_random(2, 3, 4, 5, seed=1)
Z = make_random(2, 3, 4, 5, seed=2)
ROUNDED_X, ROUNDED_Y = np.round(X), np.round(Y)


def to_float(node):
    return ops.convert(node, "f32")


def to_boolean(node):
    return ops.convert(node, "boolean")


def make_eltwise_cases():
    binary = {
        "sum": ops.add,
        "sub": ops.subtract,
        "mul": ops.multiply,
        "prod": ops.multiply,
        "div": ops.divide,
        "max": ops.maximum,
        "min": ops.minimum,
        "squared_diff": ops.squared_difference,
        "mean": lambda a, b: ops.divide(ops.add(a, b), make_f32(2)),
    }
    for name, function in binary.items():
        yield Case("Eltwise", [X, Y], function, {"operation": name}, version=6)
    yield Case("Eltwise", [X, POSITIVE], ops.floor_mod, {"operation": "floor_mod"})
    yield Case("Eltwise", [POSITIVE, Y], ops.power, {"operation": "pow"})
    comparisons = {
        "equal": ops.equal,
        "not_equal": ops.not_equal,
        "less": ops.less,
        "less_equal": ops.less_equal,
        "greater": ops.greater,
        "greater_equal": ops.greater_equal,
    }
    for name, function in comparisons.items():
        yield Case(
            "Eltwise",
            [ROUNDED_X, ROUNDED_Y],
            lambda a, b, f=function: to_float(f(a, b)),
            {"operation": name},
            version=6,
        )
    yield Case("Eltwise", [ROUNDED_X, ROUNDED_Y], ops.equal, {"operation": "equal"}, note="to BOOL")
    logical = {"logical_and": ops.logical_and, "logical_or": ops.logical_or, "logical_xor": ops.logical_xor}
    for name, function in logical.items():
        yield Case(
            "Eltwise",
            [ROUNDED_X, ROUNDED_Y],
            lambda a, b, f=function: to_float(f(to_boolean(a), to_boolean(b))),
            {"operation": name},
        )
    yield Case("Eltwise", [ROUNDED_X], lambda a: to_float(ops.logical_not(to_boolean(a))), {"operation": "logical_not"})
    yield Case("Eltwise", [X, Y, Z], lambda a, b, c: ops.maximum(ops.maximum(a, b), c), {"operation": "max"})
    yield Case("Eltwise", [X, Y], ops.add, version=2, data_tag="elementwise_data", note="no operation")
    scales = (0.5, -2.0, 1.0)
    yield Case(
        "Eltwise",
        [X, Y, Z],
        lambda *nodes: functools.reduce(
            ops.add, [ops.multiply(n, make_f32(c)) for n, c in zip(nodes, scales, strict=True)]
        ),
        {"operation": "sum", "coeff": list(scales)},
        version=2,
    )
    yield Case("Eltwise", [X, make_random(1, 3, 1, 1)], ops.multiply, {"operation": "mul"}, note="broadcast")
    for name, operation in TYPES.items():  # in late files of IR v7 the type of the layer states the operation
        if operation in logical:
            yield Case(name, [ROUNDED_X, ROUNDED_Y], lambda a, b, f=logical[operation]: f(to_boolean(a), to_boolean(b)))
        elif operation in comparisons:
            yield Case(name, [ROUNDED_X, ROUNDED_Y], comparisons[operation])
        else:
            function = {**binary, "floor_mod": ops.floor_mod, "mod": ops.mod, "pow": ops.power}[operation]
            yield Case(name, [POSITIVE, np.abs(Y) + 1], function)
    integers = np.arange(120, dtype=np.int32).reshape(2, 3, 4, 5)
    yield Case("Eltwise", [integers, integers[:1]], ops.add, {"operation": "sum"}, precision="I32", note="of I32")


def make_weighted_cases():
    scale, shift = make_random(3, seed=3), make_random(3, seed=4)

    def scale_and_shift(x, w, b):
        value = ops.multiply(x, make_f32(w.reshape(1, -1, 1, 1)))
        return value if b is None else ops.add(value, make_f32(b.reshape(1, -1, 1, 1)))

    yield Case(
        "ScaleShift",
        [X],
        lambda x: scale_and_shift(x, scale, shift),
        blobs={"weights": scale, "biases": shift},
        version=2,
    )
    yield Case("ScaleShift", [X], lambda x: scale_and_shift(x, scale, None), blobs={"weights": scale})
    factor = np.float32([1.5])
    yield Case(
        "ScaleShift",
        [X],
        lambda x: scale_and_shift(x, factor, factor),
        {"broadcast": 1},
        {"weights": factor, "biases": factor},
    )
    flat = make_random(2, 3)
    yield Case(
        "ScaleShift", [flat], lambda x: ops.multiply(x, make_f32(scale)), blobs={"weights": scale}, note="rank 2"
    )
    yield Case(
        "ScaleShift",
        [X, StoredInput(scale), StoredInput(shift)],
        lambda x, w, b: scale_and_shift(x, scale, shift),
        note="weights as inputs",
    )
    mean, variance = make_random(3, seed=5), np.abs(make_random(3, seed=6)) + 0.5
    yield Case(
        "BatchNormalization",
        [X],
        lambda x: ops.batch_norm_inference(
            x, make_f32([1, 1, 1]), make_f32([0, 0, 0]), make_f32(mean), make_f32(variance), 0.01
        ),
        {"epsilon": 0.01},
        {"weights": variance, "biases": mean},
        version=3,
    )
    condition = (X > 0).astype(np.float32)
    yield Case("Select", [condition, Y, Z], lambda c, a, b: ops.select(to_boolean(c), a, b))


def make_normalization_cases():
    for name, region, axes in (("Norm", "across", [1]), ("Norm", "same", [2, 3]), ("LRN", "Across", [1])):
        yield Case(
            name,
            [X],
            lambda x, axes=axes: ops.lrn(x, ops.constant(np.int64(axes)), 0.5, 0.75, 1.0, 3),
            {"alpha": 0.5, "beta": 0.75, "k": 1, "local-size": 3, "region": region},
            version=2 if region == "across" else 7,
            data_tag="norm_data" if region == "across" else "data",
        )
    weights = make_random(3, seed=7)
    for across in (0, 1):
        axes = ops.constant(np.int64([1, 2, 3] if across else [1]))
        yield Case(
            "Normalize",
            [X],
            lambda x, axes=axes: ops.multiply(
                ops.normalize_l2(x, axes, 1e-6, "add"), make_f32(weights.reshape(1, 3, 1, 1))
            ),
            {"across_spatial": across, "channel_shared": 0, "eps": 1e-6},
            {"weights": weights},
        )
        yield Case(
            "Normalize",
            [X],
            lambda x, axes=axes: ops.multiply(ops.normalize_l2(x, axes, 0.1, "add"), make_f32(2.5)),
            {"across_spatial": across, "channel_shared": 1, "eps": 0.1},
            {"weights": np.float32([2.5])},
            version=3,
        )
        for variance in (0, 1):
            yield Case(
                "MVN",
                [X],
                lambda x, axes=[1, 2, 3] if across else [2, 3], v=variance: ops.mvn(
                    x, ops.constant(np.int64(axes)), bool(v), 0.01, "inside_sqrt"
                ),
                {"across_channels": across, "normalize_variance": variance, "eps": 0.01},
            )
    for version in (3, 4):
        yield Case(
            "MVN",
            [X],
            lambda x, mode="outside_sqrt" if version == 3 else "inside_sqrt": ops.mvn(
                x, ops.constant(np.int64([2, 3])), True, 0.1, mode
            ),
            {"across_channels": 0, "normalize_variance": 1, "eps": 0.1},
            version=version,
        )
    yield Case("GRN", [X], lambda x: ops.grn(x, 0.5), {"bias": 0.5})
    for axis in (None, 0, 2, 3):
        data = {} if axis is None else {"axis": axis}
        yield Case("SoftMax", [X], lambda x, a=axis: ops.softmax(x, 1 if a is None else a), data, version=3)
        yield Case("LogSoftmax", [X], lambda x, a=axis: ops.log_softmax(x, -1 if a is None else a), data)


def make_reduction_cases():
    operations = {
        "ReduceSum": ops.reduce_sum,
        "ReduceMean": ops.reduce_mean,
        "ReduceMax": ops.reduce_max,
        "ReduceMin": ops.reduce_min,
        "ReduceProd": ops.reduce_prod,
        "ReduceL1": ops.reduce_l1,
        "ReduceL2": ops.reduce_l2,
        "ReduceSumSquare": lambda x, axes, keep: ops.reduce_sum(ops.multiply(x, x), axes, keep),
        "ReduceLogSumExp": lambda x, axes, keep: ops.log(ops.reduce_sum(ops.exp(x), axes, keep)),
    }
    axes = StoredInput(np.int32([1, -1]))
    for name, function in operations.items():
        yield Case(name, [X, axes], lambda x, a, f=function: f(x, a, True))
        yield Case(name, [X, axes], lambda x, a, f=function: f(x, a, False), {"keep_dims": "False"})
    yield Case("ReduceLogSum", [POSITIVE, axes], lambda x, a: ops.log(ops.reduce_sum(x, a, True)), {"keep_dims": 1})
    yield Case(
        "ReduceSum",
        [X, StoredInput(np.float32([2]))],
        lambda x, a: ops.reduce_sum(x, ops.convert(a, "i64"), True),
        version=6,
    )
    for name, function in (("ReduceAnd", ops.reduce_logical_and), ("ReduceOr", ops.reduce_logical_or)):
        yield Case(name, [ROUNDED_X, axes], lambda x, a, f=function: to_float(f(to_boolean(x), a, True)))


CASES = [
    *make_activation_cases(),
    *make_power_cases(),
    *make_eltwise_cases(),
    *make_weighted_cases(),
    *make_normalization_cases(),
    *make_reduction_cases(),
]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_layer_matches_openvino(case: Case, tmp_path) -> None:
    case.check(tmp_path)


@pytest.mark.parametrize("type", ["Eltwise", "Div"])
def test_integer_division_truncates_towards_zero(type: str, tmp_path) -> None:
    dividend, divisor = np.int32([7, -7, 7, -7, 0, -1]), np.int32([2, 2, -2, -2, -5, 3])
    net = LegacyNetwork(7, "I32")
    sources = [net.add_input(a.shape) for a in (dividend, divisor)]
    net.add_layer(type, sources, [dividend.shape], {"operation": "div"} if type == "Eltwise" else {})
    (result,) = net.run(dividend, divisor)
    assert result.tolist() == [3, -3, -3, 3, 0, 0]
    path, _ = save_model(net.read(), tmp_path / "upgraded.xml")
    assert run_openvino(path, [dividend, divisor])[0].tolist() == result.tolist()
