"""Arrays of all element types as tensors of OpenVINO, and back."""

from __future__ import annotations

import numpy as np
import pytest

from irrun.element_types import ELEMENT_TYPES
from irrun.inspection.openvino_tensors import make_tensor, read_tensor

ov = pytest.importorskip("openvino")

NAMES = ["f32", "f64", "f16", "bf16", "i8", "u8", "i16", "u16", "i32", "u32", "i64", "u64", "boolean"]
NAMES += ["u4", "i4", "u2", "nf4", "f8e4m3", "f8e5m2", "f4e2m1", "f8e8m0"]


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("shape", [(3, 5), (7,), (0, 2), ()])
def test_elements_are_kept(name, shape):
    element_type = ELEMENT_TYPES[name]
    rng = np.random.default_rng(0)
    if name == "boolean":
        value = np.asarray(rng.integers(0, 2, shape), bool)
    else:
        codes = rng.integers(0, 1 << min(element_type.bits, 8), shape)
        value = np.asarray(codes, np.uint8).view(element_type.dtype) if element_type.bits <= 8 else np.asarray(
            codes, element_type.dtype)  # fmt: skip
    tensor = make_tensor(ov, value)
    assert tensor.get_element_type().get_type_name() == name
    assert tuple(tensor.get_shape()) == shape
    result = read_tensor(tensor)
    assert result.dtype == value.dtype
    assert result.shape == shape
    assert result.tobytes() == value.tobytes()


@pytest.mark.parametrize("name", ["f32", "bf16", "u4"])
def test_arrays_need_not_be_contiguous(name):
    codes = np.arange(12, dtype=np.uint8).reshape(3, 4)
    value = codes.view(ELEMENT_TYPES["u4"].dtype) if name == "u4" else codes.astype(ELEMENT_TYPES[name].dtype)
    np.testing.assert_array_equal(read_tensor(make_tensor(ov, value.T)), value.T)


@pytest.mark.parametrize("shape", [(2, 2), (4,)])
def test_strings_are_kept(shape):
    value = np.array(["a", "", "längere", "x y"], object).reshape(shape)
    result = read_tensor(make_tensor(ov, value))
    assert result.dtype == object
    np.testing.assert_array_equal(result, value)


def test_tensors_are_copies():
    value = np.ones(3, np.float32)
    tensor = make_tensor(ov, value)
    result = read_tensor(tensor)
    value[:] = 2
    tensor.data[:] = 3
    np.testing.assert_array_equal(result, 1)
