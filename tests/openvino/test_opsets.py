"""Graphs that are built with the functions of the opsets."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from openvino_modules import import_submodule


def test_all_functions_exist(oracle: Any, irrun_ov: Any) -> None:
    missing = []
    for number in range(1, 17):
        expected, actual = (import_submodule(ov, f"opset{number}") for ov in (oracle, irrun_ov))
        names = [name for name in dir(expected) if not name.startswith("_") and callable(getattr(expected, name))]
        missing += [f"{number}.{name}" for name in names if not hasattr(actual, name)]
    assert {name.partition(".")[2] for name in missing} <= {"if_op", "loop", "tensor_iterator"}


CASES: dict[str, Any] = {
    "add": lambda ops, x: ops.add(x, np.array([1], np.float32)),
    "avg_pool": lambda ops, x: ops.avg_pool(x, [1, 1], [0, 0], [0, 0], [2, 2], True),
    "max_pool": lambda ops, x: ops.max_pool(x, [2, 2], [1, 1], [0, 0], [0, 0], [2, 2]),
    "clamp": lambda ops, x: ops.clamp(x, 0.2, 0.6),
    "concat": lambda ops, x: ops.concat([x, x], 1),
    "convert": lambda ops, x: ops.convert(x, "i32"),
    "elu": lambda ops, x: ops.elu(x, 0.5),
    "gather": lambda ops, x: ops.gather(x, np.array([0, 2], np.int32), np.array(2, np.int32)),
    "gelu": lambda ops, x: ops.gelu(x, "tanh"),
    "group_norm": lambda ops, x: ops.mvn(x, np.array([2, 3], np.int64), True, 1e-5, "inside_sqrt"),
    "matmul": lambda ops, x: ops.matmul(x, x, False, True),
    "normalize_l2": lambda ops, x: ops.normalize_l2(x, np.array([1], np.int64), 1e-6, "add"),
    "one_hot": lambda ops, x: ops.one_hot(ops.convert(x, "i64"), np.array(3), np.array(1.0), np.array(0.0), 1),
    "pad": lambda ops, x: ops.pad(
        x, np.array([0, 0, 1, 1], np.int64), np.array([0, 0, 1, 1], np.int64), "constant", np.array(1, np.float32)
    ),
    "prelu": lambda ops, x: ops.prelu(x, np.array([0.1, 0.2, 0.3], np.float32)),
    "reduce_sum": lambda ops, x: ops.reduce_sum(x, np.array([1, 2], np.int64), True),
    "reshape": lambda ops, x: ops.reshape(x, np.array([0, -1], np.int64), True),
    "shape_of": lambda ops, x: ops.shape_of(x),
    "slice": lambda ops, x: ops.slice(x, *(np.array([v], np.int64) for v in (1, 4, 2, 3))),
    "softmax": lambda ops, x: ops.softmax(x, 1),
    "split": lambda ops, x: ops.split(x, np.array(1, np.int64), 3).output(1),
    "unsqueeze": lambda ops, x: ops.unsqueeze(x, np.array([0], np.int64)),
    "strided_slice": lambda ops, x: ops.strided_slice(
        x, np.array([0, 1], np.int64), np.array([0, 3], np.int64), np.array([1, 1], np.int64), [1, 0], [1, 0]
    ),
    "swish": lambda ops, x: ops.swish(x),
    "topk": lambda ops, x: ops.topk(x, np.array(2, np.int32), 1, "max", "value").output(0),
    "transpose": lambda ops, x: ops.transpose(x, np.array([0, 2, 3, 1], np.int64)),
    "variadic_split": lambda ops, x: ops.variadic_split(x, np.array(2), np.array([1, 3])).output(1),
}


@pytest.mark.parametrize("shape", ["static", "dynamic"])
@pytest.mark.parametrize("name", CASES)
def test_node_is_like_that_of_openvino(name: str, shape: str, oracle: Any, irrun_ov: Any, tmp_path: Path) -> None:
    values = np.random.default_rng(0).random((2, 3, 4, 4), np.float32) * 2 - 0.5
    described, results = [], []
    for ov in (oracle, irrun_ov):
        ops = import_submodule(ov, "opset8")
        x = ops.parameter([2, 3, 4, 4] if shape == "static" else [-1, 3, 4, 4], np.float32, name="x")
        value = CASES[name](ops, x)
        port = value if hasattr(value, "get_node") else value.output(0)
        described.append((str(port.partial_shape), port.element_type.to_string()))
        model = ov.Model([port], [x], "model")
        config = {"INFERENCE_PRECISION_HINT": "f32"}
        results.append(ov.compile_model(model, "CPU", config)(values)[0])
    assert described[1] == described[0]
    np.testing.assert_allclose(results[1], results[0], rtol=1e-4, atol=1e-5)
    irrun_ov.save_model(model, tmp_path / "model.xml", compress_to_fp16=False)
    saved = oracle.compile_model(tmp_path / "model.xml", "CPU", config)(values)[0]
    np.testing.assert_allclose(saved, results[0], rtol=1e-4, atol=1e-5)


def test_operators_create_nodes(ov: Any) -> None:
    ops = import_submodule(ov, "opset8")
    x = ops.relu(ops.parameter([2], np.float32))
    y = ops.relu(ops.parameter([2], np.float32))
    assert [n.get_type_name() for n in (x + y, x - y, x * y, x / y)] == ["Add", "Subtract", "Multiply", "Divide"]


def test_nodes_are_compared_by_identity(ov: Any) -> None:
    ops = import_submodule(ov, "opset8")
    x = ops.relu(ops.parameter([2], np.float32))
    y = ops.abs(x)
    assert x != y
    assert x == y.input_value(0).get_node()
    assert hash(x) == hash(y.input_value(0).get_node())
    assert x in [y, x]


def test_wrong_arguments_are_reported(ov: Any) -> None:
    ops = import_submodule(ov, "opset8")
    a, b = ops.parameter([2, 3], np.float32), ops.parameter([4, 5], np.float32)
    with pytest.raises(RuntimeError, match="While validating node 'opset1::Add"):
        ops.add(a, b)
    with pytest.raises(RuntimeError, match="While validating node 'opset1::MatMul"):
        ops.matmul(a, b, False, False)
    with pytest.raises(RuntimeError, match="undeclared parameters"):
        ov.Model([ops.relu(a)], [b], "model")


def test_model_with_state(ov: Any) -> None:
    ops = import_submodule(ov, "opset6")
    x = ops.parameter([1], np.float32, name="x")
    state = ops.read_value(ops.constant(np.zeros(1, np.float32)), "total", np.float32, [1])
    total = ops.add(state, x)
    model = ov.Model([ops.result(total)], [ops.assign(total, "total")], [x], "sum")
    request = ov.compile_model(model, "CPU").create_infer_request()
    assert [float(request.infer(np.ones(1, np.float32))[0][0]) for _ in range(3)] == [1, 2, 3]
    (variable,) = request.query_state()
    assert variable.name == "total"
    assert variable.state.data.tolist() == [3]
    variable.state = ov.Tensor(np.array([10], np.float32))
    assert float(request.infer(np.ones(1, np.float32))[0][0]) == 11
    variable.reset()
    assert float(request.infer(np.ones(1, np.float32))[0][0]) == 1
    request.reset_state()
    assert float(request.infer(np.ones(1, np.float32))[0][0]) == 1


def test_nodes_are_rewired(ov: Any) -> None:
    ops = import_submodule(ov, "opset8")
    x = ops.parameter([2], np.float32, name="x")
    relu = ops.relu(x)
    model = ov.Model([ops.abs(relu)], [x], "model")
    target = next(iter(relu.output(0).get_target_inputs()))
    target.replace_source_output(ops.negative(x).output(0))
    model.validate_nodes_and_infer_types()
    assert ov.compile_model(model, "CPU")(np.array([-1, 2], np.float32))[0].tolist() == [1, 2]
    assert [n.get_type_name() for n in model.get_ordered_ops()] == ["Parameter", "Negative", "Abs", "Result"]
