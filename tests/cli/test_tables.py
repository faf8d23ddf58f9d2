"""Tables on terminals."""

from __future__ import annotations

import io
import re

import pytest

from irrun.cli.tables import fit_widths, print_table


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("natural", "available", "expected"),
    [
        ([10, 5, 20], 40, [10, 5, 20]),
        ([10, 5, 20], 30, [10, 5, 15]),
        ([60, 5, 60], 60, [30, 5, 25]),
        ([60, 30, 60], 20, [10, 8, 8]),
        ([60, 5], 30, [25, 5]),
    ],
)
def test_widest_columns_are_narrowed_first(natural, available, expected):
    assert fit_widths(natural, available) == expected


def test_no_column_disappears_on_a_narrow_terminal(monkeypatch):
    terminal = Terminal()
    monkeypatch.setattr("sys.stdout", terminal)
    monkeypatch.setenv("COLUMNS", "80")
    header = ("layer", "operation", "type", "time", "first values")
    print_table(header, [("encoder.layer.3/attention", "MatMul", "f32", "0.12 ms", "0.25 " * 30)], right=("time",))
    print_table(header, [])
    lines = re.sub(r"\x1b\[\d*m", "", terminal.getvalue()).splitlines()
    assert all(len(line) <= 80 for line in lines)
    assert lines[2].split()[:5] == ["encoder.layer.3/attention", "MatMul", "f32", "0.12", "ms"]


def test_numbers_are_aligned_on_the_right_of_terminals(monkeypatch):
    terminal = Terminal()
    monkeypatch.setattr("sys.stdout", terminal)
    print_table(("layer", "max abs"), [("a", "1"), ("longer", "100")], right=("max abs",))
    title, _, first, second = re.sub(r"\x1b\[\d*m", "", terminal.getvalue()).splitlines()
    assert re.split(r"\s{2,}", title.strip()) == ["layer", "max abs"]
    assert first.startswith("a ")
    assert first.rstrip().endswith(" 1")
    assert len(first.rstrip()) == len(second.rstrip()) == len(title.rstrip())
