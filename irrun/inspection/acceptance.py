"""Limits for the outputs of a comparison in continuous integration, and reports in JUnit's format."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from xml.etree.ElementTree import Element, SubElement, tostring

import numpy as np

from irrun.errors import InputError
from irrun.formatting import format_number
from irrun.inspection.comparison import Comparison, OutputComparison
from irrun.numerals import parse_float

__all__ = ["Failure", "Limit", "find_failures", "make_junit", "measure_accuracy", "parse_limit"]

Array = np.ndarray[Any, Any]

_LIMIT = re.compile(r"(?:(.*)=)?([+-]?(?:\d+\.?\d*|\.\d+)(?:e[+-]?\d+)?)(?:\s*(dB))?", re.IGNORECASE | re.DOTALL)


@dataclass(frozen=True)
class Limit:
    """The minimum score of outputs.

    Attributes:
        output: The name of the output; "" for all outputs that have no separate limit.
        minimum: The SQNR in dB, or a value of the metric of the comparison.
    """

    output: str
    minimum: float


@dataclass(frozen=True)
class Failure:
    """An output that does not reach its limit.

    Attributes:
        output: The output.
        score: Its score.
        minimum: The limit.
    """

    output: OutputComparison
    score: float
    minimum: float

    def __str__(self) -> str:
        run = f" of run {self.output.run + 1}" if self.output.run else ""
        return f"output {self.output.name!r}{run} has {format_number(self.score)}, below {format_number(self.minimum)}"


def measure_accuracy(output: Array, labels: Array) -> float:
    """Return the accuracy: the fraction of rows with the largest element at the position of the label.

    Args:
        output: Scores, with classes along the last axis.
        labels: The number of the correct class of each row.

    Raises:
        InputError: The numbers of labels and rows differ.
    """
    predicted = np.atleast_1d(output).argmax(axis=-1).reshape(-1)
    expected = np.asarray(labels).reshape(-1)
    if len(predicted) != len(expected):
        raise InputError(f"found {len(expected)} labels for an output with {len(predicted)} rows of scores")
    return float(np.mean(predicted == expected))


def parse_limit(text: str) -> Limit:
    """Parse a limit, such as "40dB", "scores=30dB" or "0.9".

    Args:
        text: The limit.

    Raises:
        InputError: The text is not a limit.
    """
    match = _LIMIT.fullmatch(text.strip())
    if match is None:
        raise InputError(f"expected a limit such as 40dB or scores=30dB, found {text!r}")
    return Limit(match[1] or "", parse_float(match[2]))


def find_failures(comparison: Comparison, limits: Sequence[Limit]) -> list[Failure]:
    """Return the outputs that do not reach their limits. An output without a reference fails.

    Args:
        comparison: The comparison.
        limits: The limits. An output without a limit does not fail.

    Raises:
        InputError: The model does not have an output that a limit names.
    """
    names = {output.name for output in comparison.outputs}
    for limit in limits:
        if limit.output and limit.output not in names:
            raise InputError(f"the model has no output {limit.output!r}, expected one of {', '.join(sorted(names))}")
    minima = {limit.output: limit.minimum for limit in limits}
    failures = []
    for output in comparison.outputs:
        minimum = minima.get(output.name, minima.get(""))
        if minimum is None:
            continue
        score = output.score
        if score is None or not score >= minimum:
            failures.append(Failure(output, float("nan") if score is None else score, minimum))
    return failures


def make_junit(comparison: Comparison, name: str, limits: Sequence[Limit] = ()) -> bytes:
    """Return a report in JUnit's format, with a test for each output and a test for the layers.

    Args:
        comparison: The comparison.
        name: The name of the test suite.
        limits: The limits of outputs. Without one, outputs and layers must agree; otherwise layers may add errors.
    """
    failures = {id(failure.output): str(failure) for failure in find_failures(comparison, limits)}
    if not limits:
        failures = {id(o): f"output {o.name!r} differs" for o in comparison.outputs if not o.agrees}
    suite = Element("testsuite", name=_clean(name))
    for output in comparison.outputs:
        run = f" (run {output.run + 1})" if comparison.runs > 1 else ""
        _add_case(suite, name, f"output {output.name}{run}", failures.get(id(output), ""))
    layers = "" if limits or not comparison.causes else comparison.describe()
    _add_case(suite, name, "layers", layers)
    count = len(suite)
    suite.set("tests", str(count))
    suite.set("failures", str(len(failures) + bool(layers)))
    suite.set("errors", "0")
    content: bytes = tostring(suite, encoding="utf-8", xml_declaration=True)
    return content


def _add_case(suite: Element, group: str, name: str, message: str) -> None:
    case = SubElement(suite, "testcase", classname=_clean(group), name=_clean(name))
    if message:
        SubElement(case, "failure", message=_clean(message))


def _clean(text: str) -> str:
    """Return a text without the characters that XML does not allow."""
    return re.sub(r"[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]", "?", text)
