"""Attributes and ports of legacy layers, as conversions read them."""

from __future__ import annotations

import re

import pytest

import irrun
from irrun.ir.legacy.layer import LegacyLayer


def make_layer(**attributes: str) -> LegacyLayer:
    return LegacyLayer("name", "Type", 7, 0, attributes)


BOOLEANS = [
    *((text, True) for text in ("1", "true", "True", " YES ", "2", "0.5", "-1")),
    *((text, False) for text in ("0", "false", "No", "0.0", "00")),
]


def test_booleans_are_parsed():
    for text, expected in BOOLEANS:
        for default in (False, True):
            assert make_layer(a=text).get_bool("a", default=default) is expected
        assert make_layer().get_bool("a") is False
        assert make_layer(a=" ").get_bool("a", default=True) is True
        with pytest.raises(irrun.ModelError, match="attribute a='maybe' is not a boolean"):
            make_layer(a="maybe").get_bool("a")


INTEGERS = [("3", 3), (" -3 ", -3), ("3.0", 3), ("3.5", None), ("x", None), ("inf", None), ("", None)]


def test_integers_are_parsed():
    for text, expected in INTEGERS:
        if expected is not None:
            assert make_layer(a=text).get_int("a") == expected
            assert make_layer(a=f"{text}, 7 8,").get_ints("a") == [expected, 7, 8]
            continue
        with pytest.raises(irrun.ModelError, match=re.escape(f"attribute a={text!r} is not an integer")):
            make_layer(a=text).get_int("a")
        if text:
            with pytest.raises(irrun.ModelError, match=re.escape(f"attribute a='{text} 1' is not a list of integers")):
                make_layer(a=f"{text} 1").get_ints("a")
            if text not in ("3.5", "inf"):
                with pytest.raises(irrun.ModelError, match="is not a list of numbers"):
                    make_layer(a=f"{text} 1").get_floats("a")


def test_first_of_several_names_counts():
    layer = make_layer(b="2", c="3")
    assert layer.get_int("a", "b", "c") == 2
    assert layer.get_int("c", "b") == 3
    assert layer.get_int("a", default=5) == 5
    assert layer.has_attribute("a", "b")
    assert not layer.has_attribute("a", "d")
    with pytest.raises(irrun.ModelError, match=r"^layer 'name' \(Type, legacy\): requires the attribute a$"):
        layer.get_text("a", "d")


AXES = [
    ("0", 1, 0),
    ("-1", 3, 2),
    ("-3", 3, 0),
    ("2", 3, 2),
    ("3", 3, None),
    ("-4", 3, None),
]


def test_axes_are_counted_from_either_end():
    for axis, rank, expected in AXES:
        if expected is None:
            with pytest.raises(irrun.ModelError, match=rf"axis {axis} is out of range \[-3, 2\]"):
                make_layer(axis=axis).get_axis(rank)
            continue
        assert make_layer(axis=axis).get_axis(rank) == expected
        assert make_layer(other=axis).get_axis(rank, "other") == expected
        assert make_layer().get_axis(rank, default=int(axis)) == expected


def test_missing_ports_of_a_layer_are_reported():
    for position in (0, 2):
        with pytest.raises(irrun.ModelError, match=f"has 0 inputs, requires at least {position + 1}"):
            make_layer().get_input_shape(position)
        with pytest.raises(irrun.ModelError, match=f"has 0 outputs, requires at least {position + 1}"):
            make_layer().get_output_shape(position)
        assert make_layer().get_output_type(position).name == "f32"
