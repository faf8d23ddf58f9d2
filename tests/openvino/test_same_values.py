"""Dimensions, shapes, layouts, element types and values of any type, as on OpenVINO."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
from openvino_programs import find_differences, read_programs

pytest.importorskip("openvino")

DIMENSIONS = ["()", "(3)", "(0)", "(1, 5)", "(0, 3)", "(3, -1)", "(5, 5)", "(2, 9)", "(-1)"]
DIMENSIONS += ["('2..')", "('..4')", "('?')"]

#: Expressions of a dimension `a`.
OF_DIMENSION = read_programs("of_dimension")

#: Expressions of two dimensions.
OF_DIMENSIONS = ["a.compatible(b)", "a.refines(b)", "a.relaxes(b)", "a.same_scheme(b)", "a == b", "a != b"]

NEW_DIMENSIONS = read_programs("new_dimensions")

SHAPES = [
    "'...'",
    "[]",
    "[3]",
    "[3, 4]",
    "[-1, 4]",
    "[-1, -1]",
    "[(1, 5), 4]",
    "[(2, 4), (3, 9)]",
    "[3, 4, 5]",
    "'?,4'",
    "'[1..,..3]'",
    "[0, 4]",
    "[ov.Dimension(2), -1, '1..2']",
]

#: Expressions of a shape `a`.
OF_SHAPE = read_programs("of_shape")

OF_SHAPES = ["a.compatible(b)", "a.refines(b)", "a.relaxes(b)", "a.same_scheme(b)", "a == b", "a != b"]

NEW_SHAPES = read_programs("new_shapes")

LAYOUTS = [
    "NCHW",
    "NHWC",
    "N...C",
    "...",
    "",
    "?C",
    "NC",
    "N",
    "[batch,channels]",
    "[n,foo,?]",
    "...HW",
    "NCDHW",
    "CDHW",
]
LAYOUTS += ["CDHW", "[N,?,?,C]", "[...,b]", "abc", "[depth,height,width]", "**SCALAR**", "[]", "[ n , c ]"]

OF_LAYOUT = read_programs("of_layout")

NEW_LAYOUTS = read_programs("new_layouts")

TYPES = [
    "dynamic",
    "boolean",
    "bf16",
    "f16",
    "f32",
    "f64",
    "i4",
    "i8",
    "i16",
    "i32",
    "i64",
    "u1",
    "u2",
    "u3",
    "u4",
    "u6",
]
TYPES += ["u6", "u8", "u16", "u32", "u64", "nf4", "f8e4m3", "f8e5m2", "string", "f4e2m1", "f8e8m0"]

OF_TYPE = read_programs("of_type")

#: Expressions of element types with a width.
CONSTANTS = read_programs("constants_of_types")

NEW_TYPES = read_programs("new_types")


def assign(values: dict[str, str], expressions: list[str]) -> list[str]:
    """Return programs that assign values to names before each of some expressions."""
    start = "".join(f"{name} = {value}; " for name, value in values.items())
    return [start + expression for expression in expressions]


@pytest.mark.parametrize("dimension", DIMENSIONS)
def test_dimensions(dimension: Any) -> None:
    assert find_differences(assign({"a": f"ov.Dimension{dimension}"}, OF_DIMENSION)) == {}


def test_relations_of_dimensions() -> None:
    for a, b in itertools.product(DIMENSIONS, repeat=2):
        names = {"a": f"ov.Dimension{a}", "b": f"ov.Dimension{b}"}
        assert find_differences(assign(names, [f"[{', '.join(OF_DIMENSIONS)}]"])) == {}


@pytest.mark.parametrize("shape", SHAPES)
def test_shapes(shape: Any) -> None:
    assert find_differences(assign({"a": f"ov.PartialShape({shape})"}, OF_SHAPE)) == {}


def test_relations_of_shapes() -> None:
    for a, b in itertools.product(SHAPES, repeat=2):
        names = {"a": f"ov.PartialShape({a})", "b": f"ov.PartialShape({b})"}
        assert find_differences(assign(names, [f"[{', '.join(OF_SHAPES)}]"])) == {}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_layouts(layout: Any) -> None:
    assert find_differences(assign({"l": f"ov.Layout({layout!r})"}, OF_LAYOUT)) == {}


@pytest.mark.parametrize("name", TYPES)
def test_element_types(name: Any) -> None:
    constants = [] if name in ("dynamic", "string", "f8e8m0") else CONSTANTS
    assert find_differences(assign({"t": f"ov.Type.{name}"}, OF_TYPE + constants)) == {}


@pytest.mark.parametrize("programs", [NEW_DIMENSIONS, NEW_SHAPES, NEW_LAYOUTS, NEW_TYPES])
def test_new_values(programs: Any) -> None:
    assert find_differences(programs) == {}
