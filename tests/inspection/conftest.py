"""Fixtures of tests of inspections."""

from __future__ import annotations

import importlib

import pytest

from irrun.inspection.machine import Machine


@pytest.fixture(scope="module")
def known_machine():
    """Skip the measurement of the machine, which takes most of the time of a small profile."""
    with pytest.MonkeyPatch.context() as patch:
        module = importlib.import_module("irrun.inspection.profiling")
        patch.setattr(module, "measure_machine", lambda threads: Machine(threads, 1e11, 1e10))
        yield
