"""The width of terminals, and texts that fit."""

from __future__ import annotations

import io
import sys
from types import SimpleNamespace

import pytest

from irrun.cli import ops
from irrun.cli.terminal import can_encode, find_width, measure_width, shorten_middle


@pytest.mark.parametrize(
    ("width", "expected"), [(10, "encoder/10"), (7, "enc…/10"), (8, "enco…/10"), (1, "…"), (2, "e…")]
)
def test_middle_of_names_is_omitted(width, expected):
    assert shorten_middle("encoder/10", width) == expected


@pytest.mark.parametrize(("width", "expected"), [(7, "en...10"), (3, "..."), (1, ".")])
def test_terminals_without_symbols_get_dots(width, expected):
    assert shorten_middle("encoder/10", width, "...") == expected


@pytest.mark.parametrize("width", range(1, 14))
def test_wide_characters_take_two_columns(width):
    """A name of 6 wide characters and an accent that combines."""
    name = "畳み込み層e\u0301"
    assert measure_width(name) == 11
    assert measure_width(shorten_middle(name, width)) <= width


@pytest.mark.parametrize(("columns", "expected"), [("120", 120), ("0", 80), ("wide", 80), ("", 80)])
def test_width_of_a_stream_that_has_none(columns, expected, monkeypatch):
    monkeypatch.setenv("COLUMNS", columns)
    assert find_width(io.StringIO()) == expected


@pytest.mark.parametrize(("encoding", "expected"), [("utf-8", True), ("ascii", False), ("cp1252", False)])
def test_symbols_depend_on_the_encoding(encoding, expected):
    assert can_encode(io.TextIOWrapper(io.BytesIO(), encoding=encoding)) is expected


@pytest.mark.parametrize(
    ("columns", "is_terminal", "width"), [(80, True, 80), (100, True, 100), (140, True, 100), (80, False, 100)]
)
def test_pages_of_operations_are_at_most_100_wide(columns, is_terminal, width, monkeypatch):
    monkeypatch.setenv("COLUMNS", str(columns))
    monkeypatch.setattr(sys, "stdout", SimpleNamespace(isatty=lambda: is_terminal))
    assert ops._get_width() == width
