"""Patterns, rewrites and transformations, as on OpenVINO: models are compared afterwards."""

from __future__ import annotations

import importlib
from typing import Any

import numpy as np
import pytest
from openvino_programs import find_differences, import_modules, read_programs

pytest.importorskip("openvino")


def make_graph(ov: Any) -> Any:
    """Return nodes and models that passes match and change."""
    ops = import_modules(ov.__name__)["ops"]
    p = importlib.import_module(f"{ov.__name__}.passes")
    x = ops.parameter([-1, 3], np.float32, name="x")
    y = ops.parameter([2, 3], np.float32, name="y")
    relu = ops.relu(x, name="relu")
    total, minus = ops.add(y, relu, name="total"), ops.subtract(y, relu, name="minus")
    split = ops.split(y, ops.constant(np.int64(0)), 2, name="split")
    two = ops.add(ops.constant(np.array([1], np.float32)), ops.constant(np.array([2], np.float32)), name="two")
    folded = ops.multiply(total, two, name="folded")
    kept = ops.convert(ops.shape_of(y, name="shape"), "f32", name="converted")
    r2 = ops.result(ops.tanh(y, name="tanh"), name="r2")
    results = [ops.result(folded, name="r"), ops.result(minus, name="r1"), r2, ops.result(kept, name="r3")]
    model = ov.Model(results, [x, y], "model")

    def replace_relu(m: Any) -> bool:
        root = m.get_match_root()
        tanh = ops.tanh(root.input_value(0))
        tanh.set_friendly_name(root.get_friendly_name())
        ov.utils.replace_node(root, tanh)
        return True

    class Renaming(p.ModelPass):  # type: ignore[misc, name-defined]
        def run_on_model(self, model: Any) -> bool:
            model.set_friendly_name("renamed")
            return True

    def constants(values: Any, dtype: Any = np.float32) -> Any:
        data = ops.parameter([len(values)], dtype, name="data")
        return ov.Model(
            [ops.add(data, ops.constant(np.array(values, dtype), name="c"), name="sum")], [data], "constants"
        )

    def quantized(values: Any, low: float, high: float, levels: int) -> Any:
        data = ops.parameter([2, 2], np.float32, name="data")
        weights = ops.constant(np.array(values, np.float32).reshape(2, 2), name="weights")
        limits = [ops.constant(np.float32(limit)) for limit in (low, high, low, high)]
        product = ops.matmul(data, ops.fake_quantize(weights, *limits, levels, name="fq"), False, False, name="product")
        return ov.Model([product], [data], "quantized")

    plain = ov.Model([ops.relu(y)], [y], "plain")
    return {
        "o1": importlib.import_module(f"{ov.__name__}.opset1"),
        "W": p.WrapType,
        "A": p.AnyInput,
        "O": p.Or,
        "p": p,
        "f": importlib.import_module(f"{ov.__name__}._offline_transformations"),
        "match": lambda pattern, value: p.Matcher(pattern, "matcher").match(value),
        "x": x,
        "y": y,
        "z": ops.parameter([3, 4], np.float32),
        "s": ops.parameter([], np.float32),
        "u": ops.parameter(ov.PartialShape.dynamic(), np.float32),
        "i": ops.parameter([2], np.int64),
        "relu": relu,
        "total": total,
        "minus": minus,
        "split": split,
        "r2": r2,
        "model": model,
        "plain": plain,
        "replace_relu": replace_relu,
        "Renaming": Renaming,
        "constants": constants,
        "quantized": quantized,
    }


def test_patterns_and_passes() -> None:
    assert find_differences(read_programs("passes"), make_graph) == {}
