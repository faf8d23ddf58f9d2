"""Conditions on values and on differences."""

from __future__ import annotations

import math

import ml_dtypes
import numpy as np
import pytest

import irrun
from irrun.inspection import Metrics, parse_condition
from irrun.inspection.conditions import MAX_LENGTH

NAN, INF = np.nan, np.inf


@pytest.mark.parametrize(
    ("text", "value", "expected"),
    [
        ("abs>=2", [1, -2], True),
        ("abs>2", [1, -2], False),
        ("abs<=2", [1, -2], True),
        ("abs<2", [1, -2], False),
        ("abs==2", [1, -2], True),
        ("abs!=2", [1, -2], False),
        ("abs!=3", [1, -2], True),
        ("min==-2", [1, -2, NAN], True),
        ("max==1", [1, -2, NAN], True),
        ("mean==-0.5", [1, -2, NAN, INF], True),
        ("std==1.5", [1, -2, NAN, INF], True),
        ("zeros==2", [0, -0.0, NAN], True),
        ("zeros==0", [1, NAN], True),
        ("nan", [1, NAN], True),
        ("nan", [1, 2], False),
        ("inf", [1, INF], True),
        ("inf", [1, -INF], True),
        ("inf", [1, NAN], False),
        ("min<-1e30", [1, -INF], True),
        ("min<-1e30", [1, INF], False),
        ("max>1e30", [1, INF], True),
        ("max>1e30", [1, -INF], False),
        ("max<0", [-INF], True),
        ("min>0", [INF], True),
        ("abs==inf", [INF], True),
        ("abs==inf", [-INF], True),
        ("abs==inf", [-INF, INF], True),
        ("abs>0", [NAN], False),
        ("abs>=0", [NAN], False),
        ("mean!=0", [INF], False),
        ("max>-.5", [-0.25], True),
        ("max>+1.5e-1", [0.25], True),
        ("ABS>2 OR NaN", [NAN], True),
        ("max>5 || min<0", [-1], True),
        ("max>5, min<0 ,nan", [-1], True),
        ("sqnr<20 or min<0", [-1], True),
        ("error", [-1], False),
        ("nan or abs<5", [1, 2], True),
    ],
)
def test_values_satisfy_a_condition(text, value, expected):
    condition = parse_condition(text)
    assert condition.holds_for_value(np.float32(value)) is expected
    assert condition.holds_for_any([None, np.float32(value)]) is expected
    assert condition.holds_for_any([np.float32(value), None]) is expected
    assert not condition.holds_for_any([])
    assert not condition.holds_for_any([None])


def test_empty_values_and_texts_satisfy_no_condition():
    for text in ("abs<1", "zeros==0", "zeros>=0", "nan"):
        assert not parse_condition(text).holds_for_value(np.zeros(0, np.float32))
        assert not parse_condition(text).holds_for_value(np.array(["a"], object))
    assert parse_condition("max==3").holds_for_value(np.array([1, 3], ml_dtypes.int4))


DIFFERENCE = Metrics(max_abs=1.0, max_rel=2.0, rms=3.0, cosine=0.5, sqnr_db=20.0, max_ulps=4.0, differing=5, count=9)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("sqnr==20", True),
        ("max_abs==1", True),
        ("max_rel==2", True),
        ("rms==3", True),
        ("cosine==0.5", True),
        ("ulps==4", True),
        ("differing==5", True),
        ("sqnr<20", False),
        ("sqnr<=20", True),
        ("ulps>4 or differing>=5", True),
        ("abs>0", False),
        ("nan", False),
        ("error", False),
        ("nan or rms>2.9", True),
    ],
)
def test_differences_satisfy_a_condition(text, expected):
    assert parse_condition(text).holds_for_difference(DIFFERENCE) is expected


def test_condition_states_what_it_requires():
    value, difference, error, both = map(parse_condition, (" abs>1 ", "sqnr<20", "error", "nan or sqnr<1"))
    assert str(value) == value.text == "abs>1"
    assert [c.requires_reference for c in (value, difference, error, both)] == [False, True, False, True]
    assert [c.is_error for c in (value, difference, error, both)] == [False, False, True, False]
    value.check_values_only()
    for condition in (difference, error, both):
        message = f"expected a condition on nan, inf, abs, min, max, mean, std, zeros, found '{condition.text}'"
        with pytest.raises(irrun.InputError, match=message):
            condition.check_values_only()
    (term,) = parse_condition("nan").terms
    assert (term.quantity, term.relation) == ("nan", "")
    assert math.isnan(term.limit)


def test_length_of_a_condition_is_limited():
    longest = "nan," * ((MAX_LENGTH - 3) // 4) + "nan" + " " * ((MAX_LENGTH - 3) % 4)
    assert len(longest) == MAX_LENGTH == 1000
    assert parse_condition(longest).holds_for_value(np.float32([NAN]))
    with pytest.raises(irrun.InputError, match="expected a condition of at most 1000 characters, found 1001"):
        parse_condition(longest + " ")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("abs>", "expected a condition such as 'nan', 'abs>1e4' or 'sqnr<20', found 'abs>'"),
        ("size>3", "unknown quantity 'size' in a condition, expected one of abs, min, .*, sqnr, .*, differing"),
        ("nan or", "found 'nan or'"),
        ("nan,,inf", "found ''"),
    ],
)
def test_invalid_part_of_a_condition_is_named(text, message):
    with pytest.raises(irrun.InputError, match=message):
        parse_condition(text)
