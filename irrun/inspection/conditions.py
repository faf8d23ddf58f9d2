"""Conditions on values and on errors, such as "abs>1e4" and "sqnr<20"."""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from irrun.arguments import check_text
from irrun.errors import InputError
from irrun.inspection.metrics import Metrics, describe_values
from irrun.numerals import parse_float

__all__ = ["Condition", "parse_condition"]

Array = np.ndarray[Any, Any]

#: The quantities of one array. NaNs are ignored; infinities count as large numbers.
VALUE_QUANTITIES: dict[str, str] = {
    "abs": "the largest magnitude",
    "min": "the smallest element",
    "max": "the largest element",
    "mean": "the mean of the finite elements",
    "std": "the standard deviation of the finite elements",
    "zeros": "the number of zeros",
}
#: The quantities of the difference from a reference, with the attributes of `Metrics`.
DIFFERENCE_QUANTITIES: dict[str, str] = {
    "sqnr": "sqnr_db",
    "max_abs": "max_abs",
    "max_rel": "max_rel",
    "rms": "rms",
    "cosine": "cosine",
    "ulps": "max_ulps",
    "differing": "differing",
}
#: Conditions without a number.
WORDS: dict[str, str] = {
    "nan": "an element is NaN",
    "inf": "an element is infinite",
    "error": "the run raises an error",
}
_OPERATORS: dict[str, Callable[[float, float], bool]] = {
    "<=": operator.le,
    ">=": operator.ge,
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    ">": operator.gt,
}
_TERM = re.compile(r"([a-z_]+)\s*(<=|>=|==|!=|<|>)\s*([+-]?(?:\d+\.?\d*(?:e[+-]?\d+)?|\.\d+(?:e[+-]?\d+)?|inf))")
#: Maximum number of characters of a condition.
MAX_LENGTH = 1000


@dataclass(frozen=True)
class _Term:
    """One of the alternatives of a condition.

    Attributes:
        quantity: A quantity or a word.
        relation: The operator; "" for a word.
        limit: The number to compare the quantity with; NaN for a word.
    """

    quantity: str
    relation: str = ""
    limit: float = math.nan

    def compare(self, value: float) -> bool:
        return _OPERATORS[self.relation](value, self.limit)


@dataclass(frozen=True)
class Condition:
    """A condition on the values of a layer or on their difference from a reference.

    Attributes:
        text: The text that it was parsed from.
        terms: The alternatives.
    """

    text: str
    terms: tuple[_Term, ...]

    def __str__(self) -> str:
        return self.text

    @property
    def is_error(self) -> bool:
        """Whether the condition is an error of a run."""
        return any(term.quantity == "error" for term in self.terms)

    @property
    def requires_reference(self) -> bool:
        """Whether the condition concerns the difference from a reference."""
        return any(term.quantity in DIFFERENCE_QUANTITIES for term in self.terms)

    def check_values_only(self) -> None:
        """Check that the condition concerns values, so that it needs neither a reference nor the end of a run.

        Raises:
            InputError: The condition concerns something else.
        """
        if self.is_error or self.requires_reference:
            known = ", ".join(("nan", "inf", *VALUE_QUANTITIES))
            raise InputError(f"expected a condition on {known}, found {self.text!r}")

    def holds_for_value(self, value: Array) -> bool:
        """Return whether an array satisfies one of the alternatives. Terms on differences are never satisfied.

        Args:
            value: An array of any element type.
        """
        terms = [term for term in self.terms if term.quantity in VALUE_QUANTITIES or term.quantity in ("nan", "inf")]
        if not terms or not value.size or value.dtype.kind in "OUST":
            return False
        statistics = _describe(value)
        for term in terms:
            number = statistics.get(term.quantity)
            if number is not None and (term.compare(number) if term.relation else number > 0):
                return True
        return False

    def holds_for_any(self, values: Sequence[Array | None]) -> bool:
        """Return whether one of several arrays satisfies the condition.

        Args:
            values: The arrays; None is ignored.
        """
        return any(value is not None and self.holds_for_value(value) for value in values)

    def holds_for_difference(self, metrics: Metrics) -> bool:
        """Return whether the difference from a reference satisfies one of the alternatives.

        Args:
            metrics: The difference.
        """
        return any(
            term.quantity in DIFFERENCE_QUANTITIES
            and term.compare(float(getattr(metrics, DIFFERENCE_QUANTITIES[term.quantity])))
            for term in self.terms
        )


def parse_condition(text: str) -> Condition:
    """Parse a condition: "nan", "inf", "error", or a quantity, an operator and a number, such as "abs>1e4".

    Alternatives are separated by "or" or a comma. The text is never evaluated as code.

    Args:
        text: The condition. Quantities of values are abs, min, max, mean, std and zeros; quantities of differences are
            sqnr (in dB), max_abs, max_rel, rms, cosine, ulps and differing.

    Raises:
        InputError: The text is not a condition.
    """
    check_text("the condition", text, "a text such as 'nan' or 'abs>1e4'")
    if len(text) > MAX_LENGTH:
        raise InputError(f"expected a condition of at most {MAX_LENGTH} characters, found {len(text)}")
    terms = tuple(_parse_term(part.strip()) for part in re.split(r"\s+or\s+|,|\|\|", text.lower()))
    return Condition(text.strip(), terms)


def _parse_term(text: str) -> _Term:
    if text in WORDS:
        return _Term(text)
    match = _TERM.fullmatch(text)
    if match is None:
        raise InputError(f"expected a condition such as 'nan', 'abs>1e4' or 'sqnr<20', found {text!r}")
    quantity, relation, limit = match.groups()
    if quantity not in VALUE_QUANTITIES and quantity not in DIFFERENCE_QUANTITIES:
        known = ", ".join((*VALUE_QUANTITIES, *DIFFERENCE_QUANTITIES))
        raise InputError(f"unknown quantity {quantity!r} in a condition, expected one of {known}")
    return _Term(quantity, relation, parse_float(limit))


def _describe(value: Array) -> dict[str, float]:
    """Return the defined quantities of an array."""
    statistics = describe_values(value)
    result = {name: float(number) for name, number in statistics.items() if number is not None}
    infinities = _count_infinities(value) if result["infinities"] else (0, 0)
    if infinities[0]:
        result["min"] = -math.inf
    if infinities[1]:
        result["max"] = math.inf
    if infinities[0]:
        result.setdefault("max", -math.inf)
    if infinities[1]:
        result.setdefault("min", math.inf)
    if "min" in result:
        result["abs"] = max(abs(result["min"]), abs(result["max"]))
    result["nan"] = result["nans"]
    result["inf"] = float(sum(infinities))
    return result


def _count_infinities(value: Array) -> tuple[int, int]:
    return int(np.count_nonzero(value == -np.inf)), int(np.count_nonzero(value == np.inf))
