"""Types, shapes, layouts and tensors: expressions that must have the same value in OpenVINO and in its replacement."""

from __future__ import annotations

import importlib
import re
from typing import Any

import numpy as np
import pytest

TYPES = [
    "ov.Type.{t}",
    "ov.Type.{t}.size",
    "ov.Type.{t}.bitwidth",
    "ov.Type.{t}.get_size()",
    "ov.Type.{t}.get_bitwidth()",
    "ov.Type.{t}.real",
    "ov.Type.{t}.is_real()",
    "ov.Type.{t}.signed",
    "ov.Type.{t}.integral",
    "ov.Type.{t}.integral_number",
    "ov.Type.{t}.is_quantized()",
    "ov.Type.{t}.is_dynamic()",
    "ov.Type.{t}.to_string()",
    "ov.Type.{t}.get_type_name()",
    "hash(ov.Type.{t})",
    "ov.Type.{t}.merge(ov.Type.dynamic)",
    "ov.Type.{t}.compatible(ov.Type.i8)",
]
MEMBERS = (
    "bf16",
    "boolean",
    "dynamic",
    "f16",
    "f32",
    "f4e2m1",
    "f64",
    "f8e4m3",
    "f8e5m2",
    "f8e8m0",
    "i16",
    "i32",
    "i4",
    "i64",
    "i8",
    "nf4",
    "string",
    "u1",
    "u16",
    "u2",
    "u3",
    "u32",
    "u4",
    "u6",
    "u64",
    "u8",
)

EXPRESSIONS = """
ov.Type(np.float32)
ov.Type(np.dtype('int64'))
ov.Type(np.bool_)
ov.Type('float32')
ov.Type('xx')
ov.Type('f32')
ov.Type(np.complex64)
ov.Type(np.str_)
ov.Type(str)
ov.Type(int)
ov.Type(float)
ov.Type.f32 == 'f32'
ov.Type.f32 == np.float32
ov.Type.f32.merge(ov.Type.i8)
ov.Shape([1, 2, 3])
str(ov.Shape([1, 2, 3]))
ov.Shape('[1,2]')
ov.Shape()
ov.Shape([1, 2]) == [1, 2]
ov.Shape([1, 2]) == (1, 2)
ov.Shape([1, 2]) == ov.PartialShape([1, 2])
tuple(ov.Shape([1, 2]))
list(ov.Shape([1, 2]))
np.zeros(ov.Shape([1, 2])).shape
ov.Shape([1, 2, 3])[1:]
ov.Shape([1, 2, 3])[-1]
len(ov.Shape([1, 2]))
ov.Shape([1, 2]).to_string()
hash(ov.Shape([1]))
ov.Shape([1, -1])
ov.Shape([2, 3]) + [1]
ov.PartialShape([1, -1, 3])
ov.PartialShape('[1,3,?]')
ov.PartialShape('1,3,2..8,..4,2..')
ov.PartialShape('...')
ov.PartialShape('?')
ov.PartialShape('')
ov.PartialShape([1, (2, 5), '?', '3..4', ov.Dimension(3)])
ov.PartialShape((1, 2))
ov.PartialShape.dynamic()
ov.PartialShape.dynamic(3)
ov.PartialShape.dynamic(ov.Dimension(2))
ov.PartialShape(ov.Shape([1, 2]))
ov.PartialShape([1, 2]) == [1, 2]
ov.PartialShape([1, 2]) == (1, 2)
ov.PartialShape([1, 2]) == ov.Shape([1, 2])
ov.PartialShape([1, -1]) == [1, -1]
ov.PartialShape([1, -1]) == '[1,?]'
ov.PartialShape([1, -1]) == ov.PartialShape('1,?')
ov.PartialShape([1, 2]).rank
ov.PartialShape.dynamic().rank
len(ov.PartialShape.dynamic())
len(ov.PartialShape([1, 2]))
ov.PartialShape([1, 2]).to_shape()
ov.PartialShape([1, -1]).to_shape()
ov.PartialShape([1, -1]).get_shape()
ov.PartialShape([1, -1]).is_dynamic
ov.PartialShape([1, -1]).is_static
ov.PartialShape([1, -1]).get_min_shape()
ov.PartialShape([1, (2, 4)]).get_max_shape()
ov.PartialShape([1, -1]).get_max_shape()
ov.PartialShape([1, -1])[1]
ov.PartialShape([1, -1, 3])[1:]
ov.PartialShape([1, -1])[7]
ov.PartialShape([1, -1]).to_string()
ov.PartialShape([1, -1]).get_dimension(1)
ov.PartialShape([1, -1]).compatible(ov.PartialShape([1, 3]))
ov.PartialShape([1, -1]).compatible(ov.PartialShape([1, 3, 3]))
ov.PartialShape([1, -1]).refines(ov.PartialShape([-1, -1]))
ov.PartialShape([1, -1]).relaxes(ov.PartialShape([1, 3]))
ov.PartialShape([1, -1]).same_scheme(ov.PartialShape([1, -1]))
ov.PartialShape([1, -1]).same_scheme(ov.PartialShape([1, 2]))
ov.PartialShape([1, -1]).same_scheme(ov.PartialShape.dynamic())
ov.PartialShape.dynamic().same_scheme(ov.PartialShape([1, -1]))
ov.PartialShape.dynamic().same_scheme(ov.PartialShape.dynamic())
ov.PartialShape.dynamic().refines(ov.PartialShape([1]))
ov.PartialShape([1]).refines(ov.PartialShape.dynamic())
ov.PartialShape.dynamic().relaxes(ov.PartialShape([1]))
list(ov.PartialShape([1, -1]))
list(ov.PartialShape.dynamic())
ov.PartialShape('[1,x]')
ov.PartialShape([1, 'x'])
ov.PartialShape([1, 2.5])
ov.PartialShape(3)
ov.PartialShape([1, (2, 3, 4)])
ov.PartialShape([1, -2])
hash(ov.PartialShape([1]))
ov.Dimension()
ov.Dimension(3)
ov.Dimension(2, 5)
ov.Dimension('2..5')
ov.Dimension(-1)
ov.Dimension(0, -1)
ov.Dimension(3) == 3
ov.Dimension() == -1
ov.Dimension(2, 5) == ov.Dimension(2, 5)
ov.Dimension(3).get_length()
ov.Dimension(2, 5).get_length()
ov.Dimension(2, 5).get_min_length()
ov.Dimension(2, 5).min_length
ov.Dimension().max_length
ov.Dimension().get_max_length()
ov.Dimension(2, 5).is_dynamic
len(ov.Dimension(4))
hash(ov.Dimension(4))
ov.Dimension.dynamic()
int(ov.Dimension(3))
ov.Dimension(3) + 1
ov.Dimension(2, 5).compatible(ov.Dimension(3))
ov.Dimension(2, 5).to_string()
ov.Dimension('')
ov.Dimension(3).same_scheme(ov.Dimension(3))
f'{ov.Dimension(3)}'
ov.Layout('NCHW')
ov.Layout('nchw')
ov.Layout('[N,C,H,W]')
ov.Layout('N...C')
ov.Layout('?C??')
ov.Layout('...')
ov.Layout()
ov.Layout('NCHW').get_index_by_name('C')
ov.Layout('NCHW').get_index_by_name('n')
ov.Layout('N...C').get_index_by_name('C')
ov.Layout('NCHW').get_index_by_name('X')
ov.Layout('NCHW').has_name('H')
ov.Layout('NCHW') == 'NCHW'
ov.Layout('NCHW') == ov.Layout('[N,C,H,W]')
ov.Layout('NCHW').empty
ov.Layout('').empty
ov.Layout.scalar()
ov.Layout('NN')
ov.Layout('N..C')
ov.Layout('N C')
ov.Layout('[N,]')
ov.Layout('NCHW').to_string()
ov.layout_helpers.has_batch(ov.Layout('NC'))
ov.layout_helpers.channels_idx(ov.Layout('NC'))
ov.layout_helpers.batch_idx(ov.Layout('HC'))
ov.layout_helpers.height_idx(ov.Layout('N...HW'))
hash(ov.Layout('NC'))
ov.Layout('[batch,channels]').get_index_by_name('batch')
ov.layout_helpers.has_batch(ov.Layout('[batch,channels]'))
ov.Layout('[C_1,N]')
ov.Tensor(x)
ov.Tensor(ov.Type.f32, ov.Shape([1, 2]))
ov.Tensor(np.float32, [1, 2])
ov.Tensor(ov.Type.f32, [1, 2]).data.shape
ov.Tensor([1, 2])
ov.Tensor([1.5, 2])
ov.Tensor(3)
ov.Tensor(['a', 'bc'])
ov.Tensor(['a', 'bc']).str_data.tolist()
ov.Tensor(['a', 'bc']).bytes_data.tolist()
ov.Tensor(np.array(['a', 'bc'])).str_data.tolist()
ov.Tensor(x).strides
ov.Tensor(x).byte_size
ov.Tensor(x).size
ov.Tensor(x).is_continuous()
ov.Tensor(x.T)
ov.Tensor(x.T, shared_memory=True)
ov.Tensor(np.zeros(2, 'i1'), ov.Shape([4]), ov.Type.i4)
ov.Tensor(np.zeros(2, 'i1'), [4], ov.Type.i4).data.tolist()
ov.Tensor(ov.Type.u1, [9]).data.shape
ov.Tensor(ov.Type.bf16, [2]).data.dtype
ov.Tensor(x, shared_memory=True).data.ctypes.data == x.ctypes.data
ov.Tensor(x).data.ctypes.data == x.ctypes.data
ov.Tensor(x).get_element_type()
ov.Tensor(x).shape
""".strip().splitlines()


def evaluate(expression: str, ov: Any) -> str:
    """Return the value of an expression, or the class of the exception and what matters of its message."""
    names = {"ov": ov, "np": np, "x": np.arange(6, dtype=np.float32).reshape(2, 3)}
    try:
        value = eval(expression, names)
    except Exception as error:
        text = re.sub(r"Exception from .*?:\d+:|Check .* failed at .*?:\d+:?|[\w.]*openvino\.\w+\.?", "", str(error))
        return f"{type(error).__name__}: {text.strip().splitlines()[0] if _is_specific(text) else ''}"
    return f"{value!r}"


def _is_specific(text: str) -> bool:
    unspecific = ("incompatible", "unhashable", "rank", "unsupported operand", "int() argument")
    return bool(text.strip()) and not any(word in text for word in unspecific)


@pytest.mark.parametrize("member", MEMBERS)
def test_type_has_the_properties_of_openvino(member: str, oracle: Any, irrun_ov: Any) -> None:
    for template in TYPES:
        expression = template.format(t=member)
        assert evaluate(expression, irrun_ov) == evaluate(expression, oracle), expression
    if member != "dynamic":
        expression = f"ov.Type.{member}.to_dtype()"
        assert evaluate(expression, irrun_ov) == evaluate(expression, oracle)


@pytest.mark.parametrize("expression", EXPRESSIONS)
def test_expression_has_the_value_of_openvino(expression: str, oracle: Any, irrun_ov: Any) -> None:
    assert evaluate(expression, irrun_ov) == evaluate(expression, oracle)


def test_dimensions_of_a_partial_shape_can_be_assigned(ov: Any) -> None:
    shape = ov.PartialShape([1, 2, 3])
    shape[0] = -1
    shape[1] = ov.Dimension(2, 8)
    shape[2] = 7
    assert str(shape) == "[?,2..8,7]"
    with pytest.raises(TypeError):
        shape[0] = "2..4"


def test_tensor_shares_memory_on_request(ov: Any) -> None:
    array = np.zeros((2, 2), np.float32)
    shared, copied = ov.Tensor(array, shared_memory=True), ov.Tensor(array)
    array[0, 0] = 5
    assert shared.data[0, 0] == 5
    assert copied.data[0, 0] == 0
    shared.data[1, 1] = 7
    assert array[1, 1] == 7


def test_tensor_is_copied_to_another_one(ov: Any) -> None:
    source, target = ov.Tensor(np.arange(6, dtype=np.float32)), ov.Tensor(ov.Type.f32, [2])
    source.copy_to(target)
    assert target.data.tolist() == [0, 1, 2, 3, 4, 5]
    with pytest.raises(RuntimeError, match="element types"):
        source.copy_to(ov.Tensor(ov.Type.i32, [6]))


def test_strings_of_a_tensor_can_be_assigned(ov: Any) -> None:
    tensor = ov.Tensor(ov.Type.string, [2])
    tensor.str_data = ["abc", "d"]
    assert tensor.bytes_data.tolist() == [b"abc", b"d"]


@pytest.mark.parametrize("name", ["u1", "u2", "u3", "u4", "u6", "i4"])
def test_packed_data_matches_openvino(name: str, oracle: Any, irrun_ov: Any) -> None:

    bits = int(name[1:])
    values = np.arange(24) % (1 << (bits - (name[0] == "i")))
    packed = [
        importlib.import_module(f"{ov.__name__}.helpers").pack_data(values, getattr(ov.Type, name))
        for ov in (oracle, irrun_ov)
    ]
    np.testing.assert_array_equal(*packed)
    unpacked = irrun_ov.helpers.unpack_data(packed[0], getattr(irrun_ov.Type, name), [24])
    np.testing.assert_array_equal(unpacked, values)


def test_shape_of_a_tensor_changes_within_its_memory(ov: Any) -> None:
    values = np.arange(4, dtype=np.float32)
    tensor = ov.Tensor(values, shared_memory=True)
    tensor.shape = [2]
    tensor.data[0] = 9
    tensor.shape = [2, 2]
    assert tensor.data.tolist() == [[9, 1], [2, 3]]
    assert values[0] == 9
    for shared in (tensor, ov.Tensor(ov.Tensor(values), [1], [3])):
        with pytest.raises(RuntimeError, match="et new shape"):
            shared.shape = [9]
    owner = ov.Tensor(values)
    owner.shape = [9]
    assert owner.data.shape == (9,)
