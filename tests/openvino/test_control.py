"""If, Loop and TensorIterator, built in Python."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from openvino_modules import import_submodule

ROWS = np.arange(6, dtype=np.float32).reshape(3, 2)
START = np.full((1, 2), 10, np.float32)


def build_body(ov: Any, ops: Any) -> tuple[Any, Any, Any, Any]:
    """Return a body that adds a row to a sum, its Parameters, and the sum."""
    row, total = ops.parameter([1, 2], np.float32, "row"), ops.parameter([1, 2], np.float32, "total")
    result = ops.add(row, total)
    return ov.Model([ops.constant(True), result], [row, total], "body"), row, total, result


@pytest.mark.parametrize("kind", ["loop", "tensor_iterator"])
@pytest.mark.parametrize("is_written", [False, True])
def test_loops_slice_merge_and_concatenate(ov: Any, tmp_path: Path, kind: str, is_written: bool) -> None:
    ops = import_submodule(ov, "opset13")
    body, row, total, result = build_body(ov, ops)
    rows, start = ops.parameter([3, 2], np.float32, "rows"), ops.parameter([1, 2], np.float32, "start")
    if kind == "loop":
        node = ops.loop(ops.constant(np.int64(3)), ops.constant(True))
        node.set_function(body)
        node.set_special_body_ports([-1, 0])
        assert list(node.get_special_body_ports()) == [-1, 0]
    else:
        node = ops.tensor_iterator()
        node.set_body(body)
        assert len(node.get_body().get_results()) == 2
    node.set_sliced_input(row, rows.output(0), 0, 1, 1, -1, 0)
    node.set_merged_input(total, start.output(0), result.output(0))
    last = node.get_iter_value(result.output(0), -1)
    every = node.get_concatenated_slices(result.output(0), 0, 1, 1, -1, 0)
    assert (list(last.shape), list(every.shape), every.element_type) == ([1, 2], [3, 2], ov.Type.f32)
    assert node.get_num_iterations() == 3
    names = [port.get_type_info().name for port in (*node.get_input_descriptions(), *node.get_output_descriptions())]
    assert names == [
        "SliceInputDescription",
        "MergedInputDescription",
        "BodyOutputDescription",
        "ConcatOutputDescription",
    ]
    model = ov.Model([last, every], [rows, start], "sums")
    if is_written:
        ov.serialize(model, tmp_path / "m.xml", tmp_path / "m.bin")
        model = ov.Core().read_model(tmp_path / "m.xml")
    results = ov.compile_model(model, "CPU")([ROWS, START])
    assert np.array_equal(results[0], START + ROWS.sum(0))
    assert np.array_equal(results[1], START + ROWS.cumsum(0))


def test_loops_count_iterations(ov: Any) -> None:
    ops = import_submodule(ov, "opset13")
    count, scale = ops.parameter([], np.int64, "count"), ops.parameter([1], np.float32, "scale")
    product = ops.multiply(ops.convert(ops.unsqueeze(count, ops.constant(np.int64(0))), "f32"), scale)
    body = ov.Model([ops.constant(True), product], [count, scale], "body")
    factor = ops.parameter([1], np.float32, "factor")
    node = ops.loop(ops.constant(np.int64(4)), ops.constant(True))
    node.set_function(body)
    node.set_special_body_ports([0, 0])
    node.set_invariant_input(scale, factor.output(0))
    every = node.get_concatenated_slices(product.output(0), 0, 1, 1, -1, 0)
    model = ov.Model([every], [factor], "count")
    assert ov.compile_model(model, "CPU")(np.array([2], np.float32))[0].tolist() == [0, 2, 4, 6]


@pytest.mark.parametrize("condition", [True, False])
def test_branches_are_chosen(ov: Any, condition: bool) -> None:
    ops = import_submodule(ov, "opset13")
    flag, data = ops.parameter([], bool, "flag"), ops.parameter([2], np.float32, "data")
    value, other = ops.parameter([2], np.float32), ops.parameter([2], np.float32)
    then_result, else_result = ops.result(ops.negative(value)), ops.result(ops.exp(other))
    node = ops.if_op(flag.output(0))
    node.set_then_body(ov.Model([then_result], [value], "then"))
    node.set_else_body(ov.Model([else_result], [other], "else"))
    node.set_input(data.output(0), value, other)
    output = node.set_output(then_result, else_result)
    assert (list(output.shape), output.element_type) == ([2], ov.Type.f32)
    assert [len(node.get_function(i).get_results()) for i in (0, 1)] == [1, 1]
    assert [port.body_parameter_index for i in (0, 1) for port in node.get_input_descriptions(i)] == [0, 0]
    model = ov.Model([output], [flag, data], "if")
    array = np.array([1, 2], np.float32)
    result = ov.compile_model(model, "CPU")([np.array(condition), array])[0]
    assert np.allclose(result, -array if condition else np.exp(array), rtol=1e-3)


def test_values_that_are_not_in_the_body_are_refused(ov: Any) -> None:
    ops = import_submodule(ov, "opset13")
    body, _, total, _ = build_body(ov, ops)
    other = ops.parameter([1, 2], np.float32)
    node = ops.tensor_iterator()
    node.set_body(body)
    with pytest.raises((RuntimeError, IndexError)):
        node.set_invariant_input(other, other.output(0))
    with pytest.raises((RuntimeError, IndexError)):
        node.set_merged_input(total, other.output(0), other.output(0))


def test_variables_are_read_and_assigned(ov: Any) -> None:
    ops = import_submodule(ov, "opset13")
    op, util = import_submodule(ov, "op"), import_submodule(ov, "op.util")
    info = util.VariableInfo()
    info.data_shape, info.data_type, info.variable_id = ov.PartialShape([2]), ov.Type.f32, "sum"
    variable = util.Variable(info)
    data = ops.parameter([2], np.float32)
    state = op.read_value(ops.constant(np.zeros(2, np.float32)), variable)
    total = ops.add(data, state)
    model = ov.Model([ops.result(total)], [op.assign(total, variable)], [data], "sum")
    request = ov.compile_model(model, "CPU").create_infer_request()
    assert [request.infer({0: np.ones(2, np.float32)})[0].tolist() for _ in range(2)] == [[1, 1], [2, 2]]
