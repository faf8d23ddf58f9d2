"""Nodes with bodies, as on OpenVINO."""

from __future__ import annotations

import importlib
from typing import Any

import numpy as np
import pytest
from openvino_programs import find_differences, import_modules, read_programs

pytest.importorskip("openvino")


def make_loops(ov: Any) -> Any:
    """Return a Loop, a TensorIterator and an If, with their parts."""
    ops = import_modules(ov.__name__)["ops"]
    op = importlib.import_module(f"{ov.__name__}.op")
    util = importlib.import_module(f"{ov.__name__}.op.util")
    x = ops.parameter([4, 2], np.float32, name="x")
    relu = ops.relu(x, name="relu")
    three, yes = ops.constant(np.int64(3)), ops.constant(True)

    def make_body(name: str) -> Any:
        part, state = ops.parameter([1, 2], np.float32, name="part"), ops.parameter([1, 2], np.float32, name="state")
        total = ops.add(part, state, name="body_sum")
        results = [ops.result(total, name="next"), ops.result(ops.constant(True), name="condition")]
        return ov.Model(results, [part, state], name), part, state, total

    zero = ops.constant(np.zeros((1, 2), np.float32), name="zero")
    nodes = []
    for node in (op.loop(three.output(0), yes.output(0)), op.tensor_iterator()):
        body, part, state, total = make_body("body")
        node.set_function(body) if hasattr(node, "get_special_body_ports") else node.set_body(body)
        node.set_sliced_input(part, x.output(0), 0, 1, 1, -1, 0)
        node.set_merged_input(state, zero.output(0), total.output(0))
        if hasattr(node, "get_special_body_ports"):
            node.set_special_body_ports([-1, 1])
        node.get_iter_value(total.output(0), -1)
        node.get_concatenated_slices(total.output(0), 0, 1, 1, -1, 0)
        node.set_friendly_name("node")
        nodes.append(node)
    loop, iterator = nodes

    def make_branch(function: Any, name: str) -> Any:
        data = ops.parameter([4, 2], np.float32, name=f"{name}_data")
        return ov.Model([ops.result(function(data), name=f"{name}_result")], [data], name)

    def make_if(condition: Any) -> Any:
        then, otherwise = make_branch(ops.negative, "then"), make_branch(ops.abs, "else")
        branch = op.if_op(condition.output(0))
        branch.set_then_body(then)
        branch.set_else_body(otherwise)
        branch.set_input(x.output(0), then.parameters[0], otherwise.parameters[0])
        branch.set_output(then.results[0], otherwise.results[0])
        branch.set_friendly_name("branch")
        return branch

    def evaluate(outputs: Any, count: int) -> Any:
        model = ov.Model([ops.result(output) for output in outputs], [x], "model")
        compiled = ov.Core().compile_model(model, "CPU", {"INFERENCE_PRECISION_HINT": "f32"})
        results = compiled([np.arange(8, dtype=np.float32).reshape(4, 2)])
        return [results[i] for i in range(count)]

    def copy_of(node: Any) -> Any:
        """Return a TensorIterator that is made of the descriptions of another one."""
        copied = op.tensor_iterator()
        copied.set_body(node.get_body())
        copied.set_arguments(node.input_values())
        copied.set_input_descriptions(node.get_input_descriptions())
        copied.set_output_descriptions(node.get_output_descriptions())
        copied.validate_and_infer_types()
        return copied

    parts: tuple[str, ...] = ("input_index", "body_parameter_index", "body_value_index", "output_index", "iteration")
    parts += ("start", "stride", "part_size", "end", "axis")
    body, part, state, total = make_body("other body")
    return {
        "o": op,
        "U": util,
        "x": x,
        "open": ops.parameter([-1, 2], np.float32, name="open"),
        "relu": relu,
        "three": three,
        "yes": yes,
        "loop": loop,
        "iterator": iterator,
        "branch": make_if(yes),
        "body": body,
        "part": part,
        "other": ops.parameter([1, 2], np.float32, name="other"),
        "then": make_branch(ops.negative, "then"),
        "other_body": make_branch(ops.abs, "else"),
        "evaluate": evaluate,
        "evaluate_if": lambda value: evaluate(make_if(ops.constant(value)).outputs(), 1),
        "copy_of": copy_of,
        "parts": lambda d: [type(d).__name__, *((name, getattr(d, name)) for name in parts if hasattr(d, name))],
    }


def test_nodes_with_bodies() -> None:
    assert find_differences(read_programs("control_flow"), make_loops) == {}
