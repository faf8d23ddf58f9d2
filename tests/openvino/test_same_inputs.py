"""The conversion of inputs to tensors, as on OpenVINO, for all types of inputs and values."""

from __future__ import annotations

import importlib
from typing import Any

import numpy as np
import pytest
from openvino_programs import OPSET, find_differences

pytest.importorskip("openvino")

#: Inputs of a request: shapes and types.
REQUESTS: dict[str, list[tuple[Any, str]]] = {
    "one": [([2, 2], "f32")],
    "two": [([2, 2], "f32"), ([2], "i32")],
    "number": [([], "f32")],
    "single": [([1, 1], "i8")],
    "dynamic": [("?,2", "f32")],
    "half": [([2, 2], "f16")],
    "brain": [([2, 2], "bf16")],
    "flags": [([2], "boolean")],
    "text": [([2], "string")],
}

VALUES = """
None
a
a.astype(np.float64)
a.astype(np.int8)
a.T
a[:, ::2]
frozen
np.float32(3)
np.float64(3)
np.int64(3)
np.bool_(1)
3
2.5
True
'text'
b'text'
np.array(3)
np.array(3, np.float32)
np.array([3], np.float32)
texts
np.array('a')
np.zeros((3, 2), np.float32)
t
[a]
[[1, 2], [3, 4]]
[1, 2]
[1.5, 2.5]
['a', 'b']
[a, b]
(a, b)
[t, b]
[a, 3]
[3, b]
[[1, 2], b]
{0: a}
{0: a, 1: b}
{'x0': a}
{'x1': b}
{'x0': t}
{port: a}
{'x0': 3}
{'x0': [1, 2]}
{'x0': np.array(3)}
{'nothing': a}
{5: a}
{1.5: a}
{0: None}
{0: set()}
set()
wrapped
[wrapped]
{'x0': wrapped}
[]
{}
""".strip().splitlines()


class Wrapped:
    """What converts to an array."""

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        return np.ones((2, 2), np.float32)


def make_requests(ov: Any) -> Any:
    """Return a function that makes requests, and values."""
    ops = importlib.import_module(f"{ov.__name__}.{OPSET}")
    helpers = importlib.import_module(f"{ov.__name__}.utils.data_helpers")
    compiled = {}
    for name, inputs in REQUESTS.items():
        nodes = [
            ops.parameter(ov.PartialShape(s), getattr(ov.Type, t), name=f"x{i}") for i, (s, t) in enumerate(inputs)
        ]
        compiled[name] = ov.Core().compile_model(ov.Model([ops.result(node) for node in nodes], nodes, "m"), "CPU")

    def dispatch(name: str, inputs: Any, is_shared: bool) -> Any:
        """Return what inputs are converted to, and the inputs of the request afterwards."""
        request = compiled[name].create_infer_request()
        for tensor in request.input_tensors:
            if tensor.element_type != ov.Type.string:
                tensor.data[...] = 0
        if isinstance(inputs, dict) and "port" in inputs:
            inputs = {compiled[name].inputs[0]: inputs.pop("port")}
        result = helpers._data_dispatch(request, inputs, is_shared)
        converted = {str(k): v for k, v in result.items()} if isinstance(result, dict) else result
        # OpenVINO does not initialize the memory of texts.
        is_set = inputs is texts and not is_shared
        return converted, [t for t in request.input_tensors if t.element_type != ov.Type.string or is_set]

    texts = np.array(["a", "b"])
    frozen = np.ones((2, 2), np.float32)
    frozen.flags.writeable = False
    values = {
        "a": np.arange(4, dtype=np.float32).reshape(2, 2),
        "b": np.array([5, 6], np.int32),
        "t": ov.Tensor(np.ones((2, 2), np.float32)),
        "frozen": frozen,
        "wrapped": Wrapped(),
        "port": "port",
        "texts": texts,
    }
    return {**values, "dispatch": dispatch}


@pytest.mark.parametrize("name", REQUESTS)
def test_inputs_become_tensors(name: str) -> None:
    values = [value for value in VALUES if (name, value) != ("single", "{'x0': 3}")]  # OpenVINO reads other memory
    programs = [f"dispatch({name!r}, {value}, {is_shared})" for value in values for is_shared in (True, False)]
    assert find_differences(programs, make_requests, together=len(programs)) == {}
