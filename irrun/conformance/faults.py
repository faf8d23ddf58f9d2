"""Known faults of OpenVINO's implementations.

Tests accept a difference from OpenVINO only if it is one of these. `assets/faults.md` describes them.
`docs/make_openvino_faults.py` writes the table as a page, `docs/openvino_faults.md`, and
`tests/conformance/test_faults.py` runs its reproductions.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from irrun.conformance.fault import Fault, Oracle
from irrun.inspection.report.page import read_asset

__all__ = ["accept_fault", "find_faults", "list_faults"]


@functools.cache
def list_faults() -> dict[str, Fault]:
    """Return the known faults by name."""
    sections = read_asset("irrun.conformance", "faults.md").split("\n## ")[1:]
    return {fault.name: fault for fault in map(_parse_fault, sections)}


def _parse_fault(section: str) -> Fault:
    """Return the fault that a section of faults.md describes."""
    description, _, rest = section.partition("\n\n```python\n")
    code, _, actual = rest.partition("\n```\n\nActual: ")
    title, line, text = description.split("\n\n")
    name, _, facts = line.partition(": ")
    words: list[Any] = facts.split(", ")
    oracle, kind, processors = words[:3]
    text = text.replace("\n", " ")
    return Fault(name.strip("`"), title, oracle, text, code, actual.strip(), processors, kind, words[3:] == ["unsafe"])


def find_faults(names: Sequence[str], oracle: Oracle) -> list[Fault]:
    """Return the faults that an implementation shows on this processor."""
    faults = [list_faults()[name] for name in names]
    return [fault for fault in faults if fault.oracle == oracle and fault.is_present()]


@contextmanager
def accept_fault(name: str) -> Iterator[None]:
    """Accept that a comparison with OpenVINO fails, if this processor shows the fault."""
    try:
        yield
    except AssertionError:
        if not list_faults()[name].is_present():
            raise
