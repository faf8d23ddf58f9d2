"""Hostile files end with an error or a result, within limits of time and memory."""

from __future__ import annotations

from pathlib import Path

import pytest

from hostile.cases import CASES
from hostile.limited import require_memory_limits, run_limited


@pytest.mark.parametrize("name", sorted(CASES))
def test_hostile_file(name):
    if name == "many_samples_per_region":
        require_memory_limits()
    run_limited(Path(__file__).with_name("cases.py"), name)
