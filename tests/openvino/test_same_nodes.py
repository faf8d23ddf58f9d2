"""Nodes that the functions of the opsets create, as on OpenVINO."""

from __future__ import annotations

import importlib
from typing import Any

import numpy as np
import pytest
from openvino_programs import find_differences, read_programs

pytest.importorskip("openvino")


def make_inputs(ov: Any) -> Any:
    """Return opsets and nodes that programs use."""
    opsets = {f"o{n}": importlib.import_module(f"{ov.__name__}.opset{n}") for n in range(1, 16)}
    ops = opsets["o13"]
    return {
        **opsets,
        "F": importlib.import_module(f"{ov.__name__}.utils.node_factory").NodeFactory("opset8"),
        "split": ops.split(ops.parameter([2, 6, 4, 5]), ops.constant(np.int64(1)), 2, name="split"),
        "x": ops.parameter([2, 3, 4, 5], np.float32, name="x"),
        "d": ops.parameter([-1, 3, -1, 5], np.float32, name="d"),
        "u": ops.parameter(ov.PartialShape.dynamic(), np.float32, name="u"),
        "m": ops.parameter([3, 4], np.float32, name="m"),
        "i": ops.parameter([2, 3], np.int64, name="i"),
        "b": ops.parameter([2, 3], bool, name="b"),
        "w": ops.constant(np.ones((6, 3, 1, 1), np.float32)),
        "gw": ops.constant(np.ones((3, 2, 1, 1, 1), np.float32)),
        "a64": lambda *values: np.array(values, np.int64),
    }


NODES = read_programs("opsets")

FLOAT_ELEMENTWISE = ["mish", "softplus", "softsign"]

ELEMENTWISE = [
    "abs",
    "acos",
    "acosh",
    "asin",
    "asinh",
    "atan",
    "atanh",
    "ceiling",
    "cos",
    "cosh",
    "erf",
    "exp",
    "floor",
    "log",
    "negative",
    "relu",
    "sigmoid",
    "sign",
    "sin",
    "sinh",
    "sqrt",
    "tan",
    "tanh",
    "hswish",
    "hsigmoid",
]


def test_functions_of_opsets() -> None:
    assert find_differences(NODES, make_inputs) == {}


@pytest.mark.parametrize("value", ["x", "d", "u", "i"])
def test_elementwise_functions(value: Any) -> None:
    names = ELEMENTWISE + ([] if value == "i" else FLOAT_ELEMENTWISE)
    assert find_differences([f"o13.{name}({value})" for name in names], make_inputs) == {}


@pytest.mark.parametrize("number", range(1, 16))
def test_names_of_functions(number: Any) -> None:
    names = f"n for n in dir(o{number}) if callable(getattr(o{number}, n)) and n[0] != '_'"
    assert find_differences([f"[{names}]"], make_inputs) == {}
