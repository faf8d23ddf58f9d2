"""Tensors, Constants and inputs of one element, in the ways that programs create them."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
from openvino_modules import import_submodule

ARRAY = np.arange(6, dtype=np.float32).reshape(2, 3)


@pytest.mark.parametrize("dtype", [np.float32, np.dtype(np.int8), bool, np.uint64, str, bytes, np.str_])
def test_tensors_are_allocated_from_keywords(ov: Any, dtype: Any) -> None:
    for tensor in (ov.Tensor(type=dtype, shape=[2, 3]), ov.Tensor(type=ov.Type(dtype), shape=ov.Shape([2, 3]))):
        assert (list(tensor.shape), tensor.element_type) == ([2, 3], ov.Type(dtype))
    assert ov.Tensor(shape=ov.Shape([3]), type=ov.Type.u4).byte_size == 2
    assert np.shares_memory(ov.Tensor(array=ARRAY, shared_memory=True).data, ARRAY)
    assert not np.shares_memory(ov.Tensor(array=ARRAY, shared_memory=False).data, ARRAY)


def test_tensors_of_ports_have_their_type_and_shape(ov: Any) -> None:
    ops = import_submodule(ov, "opset8")
    port = ops.parameter([2], np.float32).output(0)
    with pytest.warns(RuntimeWarning):
        tensor = ov.Tensor(port, ARRAY)
    assert tensor.data.tolist() == [0, 1]
    with pytest.raises(RuntimeError):
        ov.Tensor(ops.parameter([9], np.float32).output(0), ARRAY)
    dynamic = ops.parameter(ov.PartialShape.dynamic(), np.float32).output(0)
    assert list(ov.Tensor(dynamic, ARRAY).shape) == [0]


def test_memory_that_does_not_fit_is_refused(ov: Any) -> None:
    with pytest.raises(RuntimeError):
        ov.Tensor(ARRAY, shared_memory=True).shape = [3, 3]
    with pytest.raises(RuntimeError):
        ov.Tensor(np.asfortranarray(ARRAY), shared_memory=True)
    with pytest.raises(RuntimeError):
        ov.Tensor(ov.Tensor(ov.Type.u4, [1, 3, 4, 4]), [0, 0, 2, 2], [1, 3, 4, 4])
    with pytest.raises(RuntimeError):
        ov.Tensor(ov.Tensor(ARRAY), [0, 1], [2, 9])


# -- strings


def test_strings_are_copied(ov: Any) -> None:
    with pytest.raises(RuntimeError):
        ov.Tensor(np.array(["a"]), shared_memory=True)
    tensor = ov.Tensor(np.array(["ä", "b"]))
    with pytest.warns(RuntimeWarning, match="copied"):
        assert tensor.data.dtype.kind == "S"
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert tensor.str_data.tolist() == ["ä", "b"]
        assert tensor.bytes_data.tolist() == ["ä".encode(), b"b"]


@pytest.mark.parametrize("name", ["bytes_data", "str_data"])
def test_strings_fill_tensors_of_their_size(ov: Any, name: str) -> None:
    tensor = ov.Tensor(ov.Type.string, [2, 2])
    for values in (["a", "b", "c", "d"], np.array([[b"a", b"b"], [b"c", b"d"]])):
        setattr(tensor, name, values)
        assert tensor.str_data.tolist() == [["a", "b"], ["c", "d"]]
    for refused in (["a"], np.array([1.5, 2, 3, 4]), [1, 2, 3, 4]):
        with pytest.raises(RuntimeError):
            setattr(tensor, name, refused)
    with pytest.raises(RuntimeError):
        setattr(ov.Tensor(ov.Type.f32, [1]), name, ["a"])


# -- Constants


def test_constants_share_memory_where_asked(ov: Any) -> None:
    constant = import_submodule(ov, "op").Constant
    ops = import_submodule(ov, "opset13")
    array = ARRAY.copy()
    tensor = ov.Tensor(array, shared_memory=True)
    shared = [
        constant(array, True),
        constant(array=array, shared_memory=True),
        constant(tensor),
        constant(tensor=tensor),
        ops.constant(array, shared_memory=True),
    ]
    copied = [
        constant(array),
        constant(tensor=tensor, shared_memory=False),
        ops.constant(array),
        ops.constant(array, dtype=ov.Type.f64, shared_memory=True),
    ]
    assert [np.shares_memory(node.data, array) for node in shared] == [True] * len(shared)
    assert [np.shares_memory(node.data, array) for node in copied] == [False] * len(copied)
    array += 1
    assert [np.array_equal(node.data, array) for node in shared] == [True] * len(shared)
    assert [np.array_equal(node.data, ARRAY) for node in copied] == [True] * len(copied)
    with pytest.raises(RuntimeError):
        ops.constant(array.T, shared_memory=True)


def test_shared_constants_are_computed_with(ov: Any) -> None:
    ops = import_submodule(ov, "opset13")
    array = ARRAY.copy()
    data = ops.parameter([2, 3], np.float32)
    model = ov.Model([ops.add(data, ops.constant(array, shared_memory=True))], [data], "sum")
    assert np.array_equal(ov.compile_model(model, "CPU")(ARRAY)[0], 2 * ARRAY)


# -- inputs of one element


@pytest.mark.parametrize("shape", [[], [1], [1, 1], [-1]])
@pytest.mark.parametrize("value", [np.array(2, np.float32), np.float32(2), np.array(2, np.int8)])
def test_numbers_are_accepted_for_inputs_of_one_element(ov: Any, shape: list[int], value: Any) -> None:
    ops = import_submodule(ov, "opset8")
    data = ops.parameter(ov.PartialShape(shape), np.float32)
    compiled = ov.compile_model(ov.Model([ops.relu(data)], [data], "relu"), "CPU")
    if shape == [-1] and not isinstance(value, np.ndarray):
        value = np.asarray(value)
    for inputs in (value, [value], {0: value}):
        result = compiled(inputs)[0]
        assert (result.shape, result.item()) == (tuple(abs(length) for length in shape), 2)


def test_other_numbers_of_elements_are_refused(ov: Any) -> None:
    ops = import_submodule(ov, "opset8")
    data = ops.parameter([2, 2], np.float32)
    compiled = ov.compile_model(ov.Model([ops.relu(data)], [data], "relu"), "CPU")
    for value in (np.array(2, np.float32), np.ones(4, np.float32), np.ones((1, 2), np.float32)):
        with pytest.raises((RuntimeError, ValueError)):
            compiled(value)
