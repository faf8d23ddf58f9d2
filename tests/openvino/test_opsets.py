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
    "gather_elements": lambda ops, x: ops.gather_elements(x, np.zeros((1, 3, 4, 4), np.int64)),
    "lrn": lambda ops, x: ops.lrn(x, np.array([1], np.int64)),
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


def test_defaults_of_functions_are_those_of_openvino(oracle: Any, irrun_ov: Any) -> None:
    """Some differ from the defaults of the specification, or the specification has none."""
    data = np.random.default_rng(0).random((2, 3, 4, 4), np.float32)

    def compute(ov: Any, opset: int, function: Any, values: Any) -> Any:
        ops = import_submodule(ov, f"opset{opset}")
        x = ops.parameter(list(values.shape), np.float32)
        outputs = function(ops, x).outputs()
        config = {"INFERENCE_PRECISION_HINT": "f32"}
        return ov.compile_model(ov.Model(outputs, [x], "model"), "CPU", config)(values).to_tuple()

    filters = np.ones((3, 2, 3, 3), np.float32)
    cases: list[tuple[int, Any, Any]] = [
        (2, lambda ops, x: ops.mvn(x), data),
        (8, lambda ops, x: ops.convolution_backprop_data(x, filters, [2, 2]), data),
        (8, lambda ops, x: ops.ctc_greedy_decoder_seq_len(x, np.full(2, 3, np.int32), None, False), data[:, 0]),
    ]
    for case in cases:
        for actual, expected in zip(compute(irrun_ov, *case), compute(oracle, *case), strict=True):
            assert actual.dtype == expected.dtype
            np.testing.assert_allclose(actual, expected, 1e-4, 1e-5)


#: Results of inputs of unknown rank: f is f16, i is i32, n is i64.
UNKNOWN: dict[str, Any] = {
    "adaptive_max_pool": lambda ops, f, i, n: ops.adaptive_max_pool(f, n, "i32"),
    "convert_like": lambda ops, f, i, n: ops.convert_like(i, f),
    "ctc": lambda ops, f, i, n: ops.ctc_greedy_decoder_seq_len(f, i, None, True, "i32", "i64"),
    "equal": lambda ops, f, i, n: ops.equal(f, f),
    "generate_proposals": lambda ops, f, i, n: ops.generate_proposals(f, f, f, f, 0.5, 0.5, 9, 9, roi_num_type="i32"),
    "is_nan": lambda ops, f, i, n: ops.is_nan(f),
    "matrix_nms": lambda ops, f, i, n: ops.matrix_nms(f, f, output_type="i32"),
    "multinomial": lambda ops, f, i, n: ops.multinomial(f, n, "i32", True, False),
    "nms": lambda ops, f, i, n: ops.non_max_suppression(f, f, n),
    "non_zero": lambda ops, f, i, n: ops.non_zero(f, "i32"),
    "one_hot": lambda ops, f, i, n: ops.one_hot(i, 3, np.float16(1), np.float16(0), -1),
    "prior_box_clustered": lambda ops, f, i, n: ops.prior_box_clustered(n, n, {"offset": 0.5}),
    "relu": lambda ops, f, i, n: ops.relu(f),
    "select": lambda ops, f, i, n: ops.select(ops.equal(f, f), i, i),
    "shape_of": lambda ops, f, i, n: ops.shape_of(f, "i32"),
    "topk": lambda ops, f, i, n: ops.topk(f, n, 0, "max", "value", "i64"),
    "unique": lambda ops, f, i, n: ops.unique(f, index_element_type="i32", count_element_type="i64"),
}


@pytest.mark.parametrize("name", UNKNOWN)
def test_types_do_not_depend_on_shapes(name: str, oracle: Any, irrun_ov: Any) -> None:
    def get_types(ov: Any) -> list[str]:
        ops = import_submodule(ov, "opset13")
        shape = ov.PartialShape.dynamic()
        inputs = [ops.parameter(shape, dtype) for dtype in (np.float16, np.int32, np.int64)]
        return [output.get_element_type().get_type_name() for output in UNKNOWN[name](ops, *inputs).outputs()]

    assert get_types(irrun_ov) == get_types(oracle)


#: Graphs that no input can run; x has shape [2,3].
INVALID: dict[str, Any] = {
    "broadcast": lambda ops, x: ops.broadcast(x, np.array([4, 4])),
    "clamp": lambda ops, x: ops.clamp(x, 2.0, 1.0),
    "maximum": lambda ops, x: ops.maximum(x, np.zeros((4, 5), np.float32)),
    "pad": lambda ops, x: ops.pad(x, np.array([1]), np.array([1]), "constant"),
    "reduce_sum": lambda ops, x: ops.reduce_sum(x, np.array(5)),
    "softmax": lambda ops, x: ops.softmax(x, 2),
    "split": lambda ops, x: ops.split(x, np.array(1), 2),
    "unsqueeze": lambda ops, x: ops.unsqueeze(x, np.array(9)),
    "variadic_split": lambda ops, x: ops.variadic_split(x, np.array(1), np.array([1, 1])),
}


@pytest.mark.parametrize("name", INVALID)
def test_invalid_nodes_are_reported_when_they_are_created(name: str, oracle: Any, irrun_ov: Any) -> None:
    for ov in (oracle, irrun_ov):
        ops = import_submodule(ov, "opset13")
        with pytest.raises(RuntimeError, match="While validating node"):
            INVALID[name](ops, ops.parameter([2, 3], np.float32))


def test_tensors_of_new_models_are_named_after_their_nodes(oracle: Any, irrun_ov: Any) -> None:
    for ov in (oracle, irrun_ov):
        ops = import_submodule(ov, "opset13")
        x, y = (ops.parameter([2], np.float32, name=name) for name in "xy")
        y.output(0).set_names({"z"})
        inner = ops.relu(x, name="inner")
        model = ov.Model([ops.result(ops.abs(inner), name="first"), ops.add(inner, y)], [x, y], "model")
        assert [port.names for port in model.inputs] == [{"x"}, {"z"}]
        second = model.get_results()[1].get_friendly_name()
        assert second.startswith("Result_")
        assert [port.names for port in model.outputs] == [{"first"}, {second}]
        assert inner.output(0).names == set()
        added = model.add_outputs(inner.output(0))[0]
        assert added.names == {added.get_node().get_friendly_name()}
        late = ops.exp(inner)
        model.add_results([ops.result(late, name="late")])
        assert model.outputs[3].names == model.clone().outputs[3].names == set()
        results = ov.compile_model(model, "CPU")({"x": np.array([-1, 2], np.float32), "z": np.ones(2, np.float32)})
        assert results["first"].tolist() == [0, 2]


def test_constants_are_like_those_of_openvino(oracle: Any, irrun_ov: Any) -> None:
    def describe(ov: Any) -> list[Any]:
        ops = import_submodule(ov, "opset13")
        floats = ov.op.Constant(ov.Type.f32, ov.Shape([2, 2]), [1 / 3])
        nibbles = ops.constant([1, 2, 3], ov.Type.u4)
        parameters = [ops.parameter([1], dtype, name="x") for dtype in (np.uint8, np.int64, bool, np.float16)]
        named = ops.constant(1, name="one")
        return [
            [ops.constant(value).get_element_type().get_type_name() for value in (1.5, [1.5], 1, True, np.float32(1))],
            [ops.constant([1], dtype).get_element_type().get_type_name() for dtype in (int, float)],
            floats.data.tolist(),
            floats.get_value_strings(),
            floats.get_byte_size(),
            list(floats.get_strides()),
            floats.get_data(dtype=np.int8).tolist(),
            [nibbles.get_data(dtype=dtype).tolist() for dtype in (np.uint8, np.float32)],
            nibbles.get_byte_size(),
            ops.constant([True, False]).get_value_strings(),
            [repr(node) for node in (*parameters, named)],
        ]

    assert describe(irrun_ov) == describe(oracle)
    for ov in (oracle, irrun_ov):
        with pytest.raises(TypeError):
            import_submodule(ov, "opset13").constant(None)
        with pytest.raises(RuntimeError, match="Did not get the expected number of literals"):
            ov.op.Constant(ov.Type.f32, ov.Shape([3]), [1.0, 2.0])


@pytest.mark.parametrize("is_transposed", [False, True])
def test_fixed_batch_in_front_of_a_matrix_product_follows_the_input(
    is_transposed: bool, oracle: Any, irrun_ov: Any
) -> None:
    """The sample that creates LeNet relies on it."""
    weights = np.random.default_rng(0).random((5, 6), np.float32)

    def compute(ov: Any, batch: int) -> Any:
        ops = import_submodule(ov, "opset8")
        x = ops.parameter([4, 2, 3], np.float32)
        x.set_layout(ov.Layout("N..."))
        matrix = ops.reshape(x, np.array([4, 6]), False)
        if is_transposed:
            product = ops.matmul(ops.constant(weights), matrix, False, True)
        else:
            product = ops.matmul(matrix, ops.constant(weights), False, True)
        flat = ops.reshape(product, np.array([20]), False)
        model = ov.Model([flat], [x], "model")
        ov.set_batch(model, batch)
        data = np.arange(batch * 6, dtype=np.float32).reshape(batch, 2, 3)
        return ov.compile_model(model, "CPU", {"INFERENCE_PRECISION_HINT": "f32"})(data)[0]

    for batch in (3, 4):
        np.testing.assert_allclose(compute(irrun_ov, batch), compute(oracle, batch), 1e-5)


def test_functions_create_the_operations_of_openvino(oracle: Any, irrun_ov: Any) -> None:
    """Omitted inputs become Constants, and functions that later opsets took over create the first version."""
    found = []
    for ov in (oracle, irrun_ov):
        ops = import_submodule(ov, "opset9")
        x = ops.parameter([1, 3, 4, 4], np.float32)
        boxes, scores = ops.parameter([1, 6, 4], np.float32), ops.parameter([1, 2, 6], np.float32)
        shape = ops.constant(np.array([8, 8], np.int64))
        attributes = {"axes": [2, 3], "mode": "nearest"}
        index = ops.constant(np.array(3, np.int64))
        nodes = [
            ops.swish(x),
            ops.non_max_suppression(boxes, scores),
            import_submodule(ov, "opset5").non_max_suppression(boxes, scores),
            import_submodule(ov, "opset8").interpolate(x, shape, attributes),
            import_submodule(ov, "opset8").range(index, index, index),
            ops.concat({x, ops.relu(x)}, 1),
        ]
        found.append([(n.get_type_info().version_id, [str(v.shape) for v in n.input_values()]) for n in nodes])
    assert found[0] == found[1]


def test_result_is_passed_as_an_output(ov: Any) -> None:
    ops = import_submodule(ov, "opset8")
    x = ops.parameter([2], np.float32)
    model = ov.Model([ops.relu(x)], [x], "first")
    again = ov.Model([model.output(0)], [x], "second")
    assert [node.get_type_name() for node in again.get_ordered_ops()] == ["Parameter", "Relu", "Result"]
