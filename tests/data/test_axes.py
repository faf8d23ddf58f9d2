"""The meaning of the axes of inputs, from layouts, ranks, sizes and names."""

from __future__ import annotations

import pytest

from irrun.data.axes import find_batch_axes, find_layout, find_roles
from irrun.element_types import ElementType
from irrun.ir.graph import Layer, Port
from irrun.ir.model import TensorSpec
from irrun.shapes import parse_shape

B, C, S, L, A, P, T = "batch", "channels", "size", "sequence", "audio", "past", "total"


def make_input(shape, kind="f32", name="x", layout=None, *, in_port=False):
    text = None if layout is None else f'<attribute name="layout" version="0" layout="{layout}"/>'
    layer = Layer(0, name, "Parameter", rt_info=None if in_port else text)
    port = Port(0, rt_info=text) if in_port else None
    return TensorSpec((name,), ElementType.parse(kind), parse_shape(shape), layer, port)


@pytest.mark.parametrize(
    ("tensor", "roles"),
    [
        (make_input("?,?"), [B, L]),
        (make_input("?,?,?"), [B, L, L]),
        (make_input("?"), [L]),
        (make_input(""), []),
        (make_input("..."), []),
        (make_input("?,?,?,?"), [B, C, S, S]),
        (make_input("?,3,?,?"), [B, C, S, S]),
        (make_input("?,?,?,3"), [B, S, S, C]),
        (make_input("?,?,?,1"), [B, S, S, C]),
        (make_input("?,?,?,4"), [B, S, S, C]),
        (make_input("?,?,?,2"), [B, C, S, S]),
        (make_input("?,3,?,3"), [B, C, S, S]),
        (make_input("?,8,?,3"), [B, S, S, C]),
        (make_input("?,?,?,3", "u8"), [B, S, S, C]),
        (make_input("?,?,?,3", "i64"), [B, L, L, L]),
        (make_input("3,?,?"), [C, S, S]),
        (make_input("3,?,8"), [B, L, L]),
        (make_input("4,?,?"), [B, L, L]),
        (make_input("3,?,?", "i32"), [B, L, L]),
        (make_input("?,?", name="audio_signal"), [B, A]),
        (make_input("?,?", "i64", name="audio_signal"), [B, L]),
        (make_input("?,?", name="input_values"), [B, A]),
        (make_input("?,?", "i64", name="attention_mask"), [B, L]),
        (make_input("?,?,?,?", name="past_key_values.0.key"), [B, P, P, P]),
        (make_input("?,?,?", name="cache"), [B, P, P]),
        (make_input("?,?,?", name="keyboard"), [B, L, L]),
        (make_input("?,?,?", name="block.values"), [B, P, P]),
        (make_input("?,?,?", layout="[N,C,T]"), [B, C, L]),
        (make_input("?,?,?", layout="CHW"), [C, S, S]),
        (make_input("?,?,?", layout="[t,n,x]"), [L, B, L]),
        (make_input("?,?", layout="NCHW"), [B, L]),  # another rank
        (make_input("?,?,?,?", layout="NHWC", in_port=True), [B, S, S, C]),
    ],
    ids=str,
)
def test_roles_of_a_single_input(tensor, roles):
    assert find_roles([tensor]) == [roles]


def test_masks_of_decoders_cover_the_past():
    mask, ids = make_input("?,?", "i64", "attention_mask"), make_input("?,?", "i64", "input_ids")
    past = make_input("?,2,?,8", name="past.0")
    assert find_roles([ids, mask, past]) == [[B, L], [B, T], [B, P, P, P]]
    assert find_roles([ids, mask]) == [[B, L], [B, L]]


@pytest.mark.parametrize(
    ("shapes", "axes"),
    [
        (["?,3"], [0]),
        (["3"], [None]),
        (["3", "?,3"], [None, 0]),
        (["?", "?,3"], [0, 0]),  # as many as there are rows
        (["?,3", "?"], [0, 0]),
        (["?,3", "7"], [0, None]),  # a step or a threshold
        (["7,3", "7"], [0, None]),
        (["7,3", "7,4"], [0, 0]),
        (["7,3", "4,7"], [0, None]),
        (["7,3", "4,7,5"], [0, 1]),
        (["7,3", "7,7,5"], [0, 0]),
        (["7,3", "4,5,7"], [0, None]),
        (["?,3", "2,?,5"], [0, 1]),
        (["?,3", "?,?,5"], [0, 0]),
        (["?,3", "2,2,2"], [0, None]),
        (["?,3", ""], [0, None]),
        (["?,3", "..."], [0, None]),
        (["...", "?,3", "?,4"], [None, 0, 0]),
    ],
)
def test_axes_of_the_same_size_are_the_batch(shapes, axes):
    assert find_batch_axes([make_input(shape) for shape in shapes]) == axes


def test_layouts_determine_the_batch():
    inputs = [make_input("2,?,4", layout="CNT"), make_input("?,3"), make_input("5,?", layout="CT"), make_input("2,?,4")]
    assert find_batch_axes(inputs) == [1, 0, None, 1]
    assert find_batch_axes([make_input("2,3", layout="CT"), make_input("4,5")]) == [None, 0]


@pytest.mark.parametrize(
    ("layout", "shape", "expected"),
    [
        ("[N,C,H,W]", "1,2,3,4", ["N", "C", "H", "W"]),
        (" nchw ", "1,2,3,4", ["N", "C", "H", "W"]),
        ("[N, ...]", "1,2", ["N", "..."]),
        ("[N,Width]", "1,2", ["N", "WIDTH"]),
        ("NCHW", "1,2,3", None),
        ("", "", None),
        (None, "1,2", None),
    ],
)
def test_layouts_have_a_letter_for_each_axis(layout, shape, expected):
    assert find_layout(make_input(shape, layout=layout)) == expected
