"""Known faults of OpenVINO's implementations.

Tests accept a difference from OpenVINO only if it is one of these. `docs/make_openvino_faults.py` writes the table as a
page, `docs/openvino_faults.md`, and `tests/conformance/test_faults.py` runs its reproductions.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from irrun.conformance.fault import Fault, Oracle
from irrun.conformance.plugin_memory_faults import PLUGIN_MEMORY_FAULTS
from irrun.conformance.plugin_rounding_faults import PLUGIN_ROUNDING_FAULTS
from irrun.conformance.plugin_value_faults import PLUGIN_VALUE_FAULTS
from irrun.conformance.reference_faults import REFERENCE_FAULTS

__all__ = ["accept_fault", "find_faults", "list_faults"]


@functools.cache
def list_faults() -> dict[str, Fault]:
    """Return the known faults by name."""
    faults = (*PLUGIN_VALUE_FAULTS, *PLUGIN_MEMORY_FAULTS, *PLUGIN_ROUNDING_FAULTS, *REFERENCE_FAULTS)
    return {fault.name: fault for fault in faults}


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
