"""Files that disappear, models that refuse shapes, and types that are not changed."""

from __future__ import annotations

import os
from types import SimpleNamespace

import numpy as np
import pytest

import irrun
from irrun.data.dimensions import MAX_SUGGESTIONS, _suggest_sizes
from irrun.data.files import read_strings
from irrun.data.shapes import _reshape
from irrun.element_types import ELEMENT_TYPES, ElementType
from irrun.errors import InputError, ModelError
from irrun.ir.constant import Constant
from irrun.ir.graph import Graph, Layer


def test_element_types_are_immutable():
    for name, element_type in ELEMENT_TYPES.items():
        with pytest.raises(AttributeError, match=r"^element types are immutable, cannot assign to bits$"):
            element_type.bits = 3
        assert element_type.name == name


@pytest.mark.parametrize("error", [ModelError("does not fit"), ValueError("does not fit"), InputError("does not fit")])
def test_shapes_that_a_model_refuses_are_errors_of_the_inputs(error):
    def fail(shapes):
        raise error

    with pytest.raises(InputError, match=r"^does not fit$") as caught:
        _reshape(SimpleNamespace(reshape=fail), {0: irrun.PartialShape([1])})  # type: ignore[arg-type]
    assert (caught.value is error) is isinstance(error, InputError)
    _reshape(SimpleNamespace(reshape=fail), {})  # type: ignore[arg-type]


def test_lines_of_files_that_cannot_be_read_are_errors(tmp_path, monkeypatch):
    path = tmp_path / "x.txt"
    path.write_text("a\nb\n")
    assert read_strings(str(path), "t").tolist() == ["a", "b"]  # type: ignore[arg-type]
    path.unlink()
    monkeypatch.setattr(os.path, "isfile", lambda path: True)
    with pytest.raises(InputError, match=r"cannot read .*x\.txt: No such file or directory, for input t$"):
        read_strings(str(path), "t")  # type: ignore[arg-type]


def make_constant(number, value):
    value = np.asarray(value)
    return Layer(number, f"c{number}", "Constant", constant=Constant.from_array(value, ElementType.of(value.dtype)))


def test_sizes_of_constants_are_suggested_in_their_order():
    layers = [
        Layer(0, "x", "Parameter"),
        make_constant(1, np.zeros((1, 7, 5), np.float32)),
        make_constant(2, np.array([11, 1, -3, 1 << 20, (1 << 20) - 1])),
        make_constant(3, np.arange(20, 29)),  # more than eight elements
        make_constant(4, np.array([13.0, 17.0])),
        make_constant(5, np.array(19)),
    ]
    assert _suggest_sizes(Graph(layers, [])) == [7, 5, 11, (1 << 20) - 1, 9, 2, 19]
    many = [make_constant(i, np.zeros((100 + i, 1), np.int8)) for i in range(MAX_SUGGESTIONS + 9)]
    assert _suggest_sizes(Graph(many, [])) == [100 + i for i in range(MAX_SUGGESTIONS)]
