"""The order of the nodes of a model, which programs print and index."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from openvino_modules import import_submodule


def test_nodes_of_several_results_are_in_openvinos_order(ov: Any) -> None:
    ops = import_submodule(ov, "opset8")
    x, y, unused = (ops.parameter([2], np.float32, name=name) for name in ("x", "y", "unused"))
    total = ops.add(x, y)
    total.set_friendly_name("total")
    variable = ops.read_value(ops.relu(y, name="initial"), "v")
    variable.set_friendly_name("variable")
    assigned = ops.assign(variable, "v")
    assigned.set_friendly_name("assigned")
    results = [ops.result(total, name="first"), ops.result(ops.exp(variable, name="exp"), name="second")]
    model = ov.Model(results, [assigned], [x, y, unused], "model")
    names = [node.get_friendly_name() for node in model.get_ordered_ops()]
    expected = ["unused", "y", "x", "initial", "variable", "assigned", "exp", "second", "total", "first"]
    assert names == expected


def test_nodes_of_a_file_are_in_openvinos_order(oracle: Any, irrun_ov: Any) -> None:
    path = Path(__file__).parents[2] / "examples" / "date_translation" / "model.xml"
    expected, actual = (
        [node.get_friendly_name() for node in module.Core().read_model(path).get_ordered_ops()]
        for module in (oracle, irrun_ov)
    )
    assert actual == expected
