"""Compiled models, requests, queues and properties, as on OpenVINO."""

from __future__ import annotations

import io
import re
from typing import Any

import numpy as np
import pytest
from openvino_programs import find_differences, import_modules, read_programs

pytest.importorskip("openvino")

PRECISION = {"INFERENCE_PRECISION_HINT": "f32"}


def make_request(ov: Any) -> Any:
    """Return a model of two inputs, three outputs and a variable, compiled, with a request and inputs."""
    ops = import_modules(ov.__name__)["ops"]
    x = ops.parameter([-1, 3], np.float32, name="x")
    y = ops.parameter([2, 3], np.float32, name="y")
    relu = ops.relu(x, name="relu")
    total = ops.add(relu, ops.constant(np.array([1, 2, 3], np.float32)), name="sum")
    total.output(0).set_names({"total"})
    split = ops.split(y, ops.constant(np.int64(0)), 2, name="split")
    split.output(0).set_names({"first"})
    split.output(1).set_names({"second"})
    read = ops.read_value(y, "state", np.float32, [2, 3], name="read")
    assign = ops.assign(ops.add(read, y), "state")
    m = ov.Model([ops.result(v) for v in (total, split.output(0), split.output(1))], [assign], [x, y], "net")
    core = ov.Core()
    data = [np.arange(6, dtype=np.float32).reshape(2, 3) - 2, np.ones((2, 3), np.float32)]
    return {
        "m": m,
        "x": x,
        "relu": relu,
        "k": core,
        "io": io,
        "texts": ops.parameter([2], str, name="texts"),
        "single": ov.Model([relu], [x], "single"),
        "compile": lambda model: core.compile_model(model, "CPU", PRECISION),
        "data": data,
        "tensors": list(map(ov.Tensor, data)),
    }


def prepare(program: str) -> str:
    """Return a program that first compiles the models that it uses."""
    start = "c = compile(m); r = c.create_infer_request(); " if re.search(r"\b[cr]\b", program) else ""
    return start + ("one = compile(single); " if "one" in program else "") + program


def test_expressions_of_compiled_models() -> None:
    programs = [prepare("[c, r, one]"), *read_programs("compiled_models")]
    assert find_differences(programs, make_request, together=1000) == {}


def test_runs() -> None:
    assert find_differences(map(prepare, read_programs("runs")), make_request) == {}
