"""Tensors, values of any type, and helpers of arrays, as on OpenVINO."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from openvino_programs import find_differences, read_programs

pytest.importorskip("openvino")


def make_arrays(ov: Any) -> Any:
    """Return arrays and tensors that programs use."""
    array = np.arange(6, dtype=np.float32).reshape(2, 3)
    return {
        "a": array,
        "t": ov.Tensor(array),
        "strings": np.array([["a", "bc"], ["", "\u00e9"]]),
        "make": lambda *shape, dtype=np.float32: ov.Tensor(np.arange(np.prod(shape), dtype=dtype).reshape(shape)),
        "zeros": lambda name, *shape: clear(ov.Tensor(getattr(ov.Type, name), list(shape))),
    }


def clear(tensor: Any) -> Any:
    """Return a tensor whose elements are zero; OpenVINO allocates memory without it."""
    tensor.data[...] = 0
    return tensor


NEW_TENSORS = read_programs("new_tensors")

OF_TENSORS = read_programs("of_tensors")

VALUES = ["5", "'a'", "2.5", "True", "False", "[1, 2]", "['a', 'b']", "{'a': 1}", "'1'", "'yes'", "'1 2'", "'x y'", "0"]
VALUES += ["[1.5]", "'YES'", "'no'", "'0'", "'2.5'", "-1", "ov.OVAny(3)", "None"]

OF_VALUES = read_programs("of_values")

HELPERS = read_programs("helpers")


def test_new_tensors() -> None:
    assert find_differences(NEW_TENSORS, make_arrays) == {}


def test_methods_of_tensors() -> None:
    assert find_differences(OF_TENSORS, make_arrays) == {}


@pytest.mark.parametrize("value", VALUES)
def test_values_of_any_type(value: Any) -> None:
    assert find_differences([f"v = ov.OVAny({value}); {program}" for program in OF_VALUES]) == {}


def test_helpers() -> None:
    assert find_differences(HELPERS, make_arrays) == {}
