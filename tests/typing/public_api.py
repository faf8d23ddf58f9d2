"""A program that mypy checks with --strict; it is never run. Each `type: ignore` must suppress an error."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from typing_extensions import assert_type

import irrun

Array = np.ndarray[Any, Any]

model = irrun.read_model("model.xml")
assert_type(model, irrun.Model)
assert_type(irrun.read_model(b"<net/>", weights=b""), irrun.Model)
assert_type(model.inputs, list[irrun.TensorSpec])
for graph, layer in model.graph.walk():
    assert_type(graph, irrun.Graph)
    assert_type(layer, irrun.Layer)

compiled = irrun.compile_model(Path("model.xml"), "CPU", check=True)
assert_type(compiled, irrun.CompiledModel)
irrun.compile_model(model, device_name="AUTO", operations=[irrun.Operation.from_function(print, "Print", opset="mine")])

outputs = compiled({"x": np.zeros(3), 0: [1.0, 2.0], compiled.inputs[0]: 5})
assert_type(outputs, irrun.Outputs)
assert_type(outputs[0], Array)
assert_type(outputs["y"], Array)
assert_type(outputs[compiled.outputs[0]], Array)
assert_type(outputs.to_dict(), dict[str, Array])
compiled([np.zeros(3), np.ones(2)])
compiled([[1, 2], [3, 4]])
compiled(np.zeros(3))
compiled(object())  # type: ignore[arg-type]
compiled.infer(np.zeros(3))  # type: ignore[attr-defined]

request = compiled.create_infer_request()
assert_type(request, irrun.InferRequest)
assert_type(request.query_state(), list[irrun.VariableState])
assert_type(request.query_state()[0].state, Array)
assert_type(request.mismatches, list[irrun.Mismatch])


def observe(
    layer: irrun.Layer,
    inputs: Sequence[Array | None],
    outputs: Sequence[Array],
    seconds: float,
    scope: irrun.Scope,
) -> None:
    """Do nothing."""


observer: irrun.Observer = observe
request.infer(None, observers=[observer, observe])
request.infer(None, observers=[lambda layer: None])  # type: ignore[list-item]

assert_type(irrun.validate("model.xml"), list[irrun.Finding])


@irrun.op("MyOp", opset="extension")
def my_op(data: Array, *, alpha: float = 1.0) -> Array:
    """Scale `data`."""
    return data * alpha


assert_type(my_op(np.zeros(3), alpha=2.0), Array)
irrun.op("MyOp", oopset="extension")  # type: ignore[call-arg]
