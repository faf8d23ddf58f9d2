"""Tables on terminals."""

from __future__ import annotations

import io
import re

import numpy as np
import pytest

from irrun.cli.show import print_tensors, summarize_tensor
from irrun.cli.tables import ValueList, arrange_columns, format_columns, format_table, print_lines, print_table
from irrun.cli.terminal import measure_width

HEADER = ("layer", "operation", "type", "shape", "time", "range", "first values")
ROWS = [
    (
        "encoder/layer.3/attention/self/query/MatMul",
        "MatMul+Add+GELU+2 more",
        "f32",
        "[1,128,768]",
        "0.12 ms",
        "-1.235e+04 to 0.0001235",
        ValueList(["0.2514", "-1.5e-07", "3", "4.25"], False),
    ),
    ("x", "Parameter", "i64", "[1,128]", "10.00 ms", "0 to 30522", ValueList(["101", "102"], True)),
]
#: Numbers and shapes, which may not be divided.
NUMBER = re.compile(r"(?<![\w.])-?\d+(?:\.\d+)?(?:e[+-]\d+)?(?![\w.])|\[[\d,]*\]")


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture
def terminal(monkeypatch):
    """A function that opens a terminal of some columns as stdout."""

    def open_terminal(columns):
        stream = Terminal()
        monkeypatch.setenv("COLUMNS", str(columns))
        monkeypatch.setattr("sys.stdout", stream)
        return stream

    return open_terminal


@pytest.mark.parametrize("has_symbols", [True, False])
@pytest.mark.parametrize("width", range(38, 140))
def test_tables_fit_and_keep_numbers_whole(width, has_symbols):
    lines = list(format_table(HEADER, ROWS, width, right=("time",), has_symbols=has_symbols))
    assert all(measure_width(line) <= width for line in lines)
    known = {number for row in ROWS for cell in row for number in NUMBER.findall(cell)}
    body = "\n".join(lines[2:]).replace("…", " ").replace("...", " ")
    assert set(NUMBER.findall(body)) <= known | {"2", "3"}  # the 3 of a name, and of 2 more
    shapes, types = re.findall(r"\[.*?\]", body), re.findall(r"[fi]\d\d", body)
    assert (shapes, types) == (["[1,128,768]", "[1,128]"], ["f32", "i64"])


def test_wide_terminals_show_everything():
    lines = list(format_table(HEADER, ROWS, 200))
    assert len(lines) == 4
    assert all(cell in line for row, line in zip(ROWS, lines[2:], strict=True) for cell in row)


@pytest.mark.parametrize(
    ("width", "expected"),
    [
        (
            80,
            [
                "                                                                      first",
                "layer         operation    type  shape            time  range         values",
                "─" * 80,
                "encode…atMul  MatMul+Add+  f32   [1,128,768]   0.12 ms  -1.235e+04    0.2514 ...",
                "              GELU+2 more                               to 0.0001235",
                "x             Parameter    i64   [1,128]      10.00 ms  0 to 30522    101 102",
            ],
        ),
        (
            40,
            [
                "layer       operation  type  shape",
                "─" * 40,
                "encod…tMul  MatMul+    f32   [1,128,768]",
                "            Add+GELU+",
                "            2 more",
                "x           Parameter  i64   [1,128]",
                "no room for: time, range, first values",
            ],
        ),
    ],
)
def test_columns_are_narrowed_and_then_left_out(width, expected):
    assert list(format_table(HEADER, ROWS, width, right=("time",))) == expected


def test_texts_are_wrapped_and_long_words_divided():
    rows = [("a", "the result overflows in f16"), ("b", "x" * 30)]
    lines = list(format_table(("layer", "finding"), rows, 24, texts=("finding",)))
    assert lines[2:] == ["a      the result", "       overflows in f16", f"b      {'x' * 17}", f"       {'x' * 13}"]


def test_columns_without_contents_are_left_out_first():
    rows = [("a/long/name/of/a/layer", "0.5", "")]
    assert "remarks" in next(iter(format_table(("layer", "mean", "remarks"), rows, 80)))
    assert next(iter(format_table(("layer", "mean", "remarks"), rows, 30))).split() == ["layer", "mean"]


@pytest.mark.parametrize(
    ("extents", "available", "expected"),
    [
        ([(10, [10]), (5, [5]), (20, [8])], 41, [10, 5, 20]),
        ([(10, [10]), (5, [5]), (20, [8])], 34, [10, 5, 15]),
        ([(60, [60, 24]), (5, [5]), (60, [8])], 84, [60, 5, 15]),
        ([(60, [60, 24]), (5, [5]), (60, [8])], 64, [47, 5, 8]),
        ([(60, [60, 24]), (30, [30]), (60, [8])], 60, [28, 30]),
        ([(60, [60, 24])], 30, [30]),
    ],
)
def test_widest_columns_are_narrowed_first(extents, available, expected):
    assert arrange_columns(extents, available) == expected


@pytest.mark.parametrize(
    ("width", "expected"),
    [
        (30, "0.25 -1.5e-07 3 4.25 ..."),
        (24, "0.25 -1.5e-07 3 4.25 ..."),
        (23, "0.25 -1.5e-07 3 ..."),
        (18, "0.25 -1.5e-07 ..."),
        (16, "0.25 ..."),
    ],
)
def test_lists_show_whole_values(width, expected):
    assert ValueList(["0.25", "-1.5e-07", "3", "4.25"], False).fit(width) == expected


def test_strings_in_lists_may_be_shortened():
    cell = ValueList([repr("a text that is\x1b long"), "'b'"], True)
    assert cell == r"'a text that is\x1b long' 'b'"
    assert cell.fit(20) == "'a text …b long' ..."
    assert ValueList([], True).least == 0


def test_numbers_are_aligned_on_the_right():
    lines = list(format_table(("layer", "max abs"), [("a", "1"), ("longer", "100")], 80, right=("max abs",)))
    assert lines == ["layer   max abs", "───────────────", "a             1", "longer      100"]


def test_titles_are_wrapped_only_if_they_do_not_fit():
    assert len(list(format_table(("output", "max abs error"), [("y", "0.5")], 80))) == 3
    lines = list(format_table(("output", "max abs error"), [("y", "0.5")], 16, right=("max abs error",)))
    assert lines == ["        max abs", "output    error", "───────────────", "y           0.5"]


@pytest.mark.parametrize("columns", [200, 80, 40])
def test_outputs_fit_the_terminal(columns, terminal):
    stream = terminal(columns)
    values = np.linspace(-1, 1, 1000, dtype=np.float32).reshape(1, 10, 100) / 3
    print_tensors({"a/very/long/name/of/an/output/of/a/model/with/scopes": values, "畳み込み層": values > 0})
    lines = stream.getvalue().splitlines()
    assert all(measure_width(line) <= columns for line in lines)
    shown = " ".join(" ".join(lines).split())
    assert ("-0.3333 -0.3327 -0.332 -0.3313 -0.3307 -0.33 ..." in shown) is (columns == 200)
    assert ("-0.3333 -0.3327 ..." in shown) is (columns == 80)
    assert "-0.3333" in shown
    assert "f32" in shown
    assert "[1,10,100]" in shown


def test_pipes_get_complete_lines(capsys, monkeypatch):
    """Whatever the size of a terminal may be."""
    monkeypatch.setenv("COLUMNS", "10")
    print_table(HEADER, ROWS, right=("time",))
    print_lines(["  a long line that is longer than ten columns"])
    out = capsys.readouterr().out
    assert out == format_columns([HEADER, *ROWS]) + "\n  a long line that is longer than ten columns\n"
    assert all(cell in out for row in ROWS for cell in row)


def test_long_lines_are_wrapped_between_words_on_terminals(terminal):
    stream = terminal(20)
    print_lines(["short", "  a_very_long_name_of_an_input: f32[1,3]", ""])
    assert stream.getvalue() == "short\n  a_very_long_name_of_an_input:\n    f32[1,3]\n\n"


def test_values_have_four_digits():
    kind, shape, bounds, first = summarize_tensor(np.array([1 / 3, 1e-7, 12345.678, 255], np.float32))
    assert (kind, shape, bounds) == ("f32", "[4]", "1e-07 to 1.235e+04")
    assert first == "0.3333 1e-07 1.235e+04 255"
    assert summarize_tensor(np.array([123456789]))[2:] == ("123456789 to 123456789", "123456789")
