"""Mutated models end with a result or an error, within limits of time and memory."""

from __future__ import annotations

import numpy as np
import pytest

from fuzz.fuzzer import FAILURES, fuzz, replay, save_failure
from fuzz.mutations import make_case

#: Cases that run with the other tests; `fuzzer.py` runs any number.
COUNT, BLOCK = 2000, 500


@pytest.mark.parametrize("start", range(0, COUNT, BLOCK))
def test_mutated_models(start, tmp_path):
    failures = [
        f"{outcome} in {save_failure(tmp_path, 0, number, outcome)}"
        for number, outcome in fuzz(0, BLOCK, start, workers=2)
        if outcome["kind"] in FAILURES
    ]
    assert not failures, "\n".join(failures)


def test_cases_depend_on_seed_and_number_only():
    first, second = make_case(3, 17), make_case(3, 17)
    assert first.xml == second.xml
    assert first.weights == second.weights
    for a, b in zip(first.inputs, second.inputs, strict=True):
        np.testing.assert_array_equal(a, b)


def test_saved_case_is_replayed(tmp_path):
    path = save_failure(tmp_path, 3, 17, {"kind": "traceback"})
    assert replay(path)["kind"] in ("ok", "refused", "wrapped")
