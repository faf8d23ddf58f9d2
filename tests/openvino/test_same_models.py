"""Models, nodes and their ports, as on OpenVINO: whole models are compared after each program."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from openvino_programs import find_differences, import_modules, read_programs

pytest.importorskip("openvino")


def make_model(ov: Any) -> Any:
    """Return a model of two inputs, three outputs and a variable, and its parts."""
    ops = import_modules(ov.__name__)["ops"]
    x = ops.parameter([-1, 3], np.float32, name="x")
    y = ops.parameter([2, 3], np.float32, name="y")
    relu = ops.relu(x, name="relu")
    total = ops.add(relu, ops.constant(np.array([1, 2, 3], np.float32), name="c"), name="sum")
    split = ops.split(y, ops.constant(np.int64(0)), 2, name="split")
    read = ops.read_value(y, "state", np.float32, [2, 3], name="read")
    assign = ops.assign(ops.add(read, y, name="next"), "state")
    total.output(0).tensor.set_names({"total", "another"})
    results = [ops.result(total, name="r0"), ops.result(split.output(0)), ops.result(split.output(1))]
    m = ov.Model(results, [assign], [x, y], "net")
    names = {"m": m, "x": x, "y": y, "relu": relu, "total": total, "split": split, "read": read, "assign": assign}
    return {**names, "results": results, "tensor": lambda *shape: ov.Tensor(np.zeros(shape, np.float32))}


MODELS = read_programs("models")

NODES = read_programs("ports")


def test_models_after_programs() -> None:
    assert find_differences(MODELS, make_model) == {}


def test_nodes_and_ports() -> None:
    assert find_differences(NODES, make_model) == {}
