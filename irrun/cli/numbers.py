"""Types of options with numeric values."""

from __future__ import annotations

from typing import Any

import click

from irrun.numerals import parse_float, parse_integer

__all__ = ["IntegerRange", "NumberRange"]


class IntegerRange(click.IntRange):
    """Integers in a range, in ASCII digits."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return an integer."""
        if isinstance(value, str):
            try:
                value = parse_integer(value)
            except ValueError:
                self.fail(f"{value!r} is not a valid integer.", param, ctx)
        return super().convert(value, param, ctx)


class NumberRange(click.FloatRange):
    """Numbers in a range, in ASCII digits."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return a number."""
        if isinstance(value, str):
            try:
                value = parse_float(value)
            except ValueError:
                self.fail(f"{value!r} is not a valid float.", param, ctx)
        return super().convert(value, param, ctx)
