"""Mutated models end with a result or an error, within limits of time and memory."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest
from ir_text import chain

from fuzz.fuzzer import FAILURES, fuzz, replay, save_failure
from fuzz.mutations import make_case
from fuzz.seeds import Seed
from fuzz.tiers import run_tiers
from irrun.runtime import passes

#: Cases that run with the other tests; `fuzzer.py` runs any number.
COUNT, BLOCK = 2000, 500
GRAPHS = 200
TOKENIZERS = 150


@pytest.mark.parametrize("start", range(0, COUNT, BLOCK))
def test_mutated_models(start, tmp_path):
    failures = [
        f"{outcome} in {save_failure(tmp_path, 0, number, outcome)}"
        for number, outcome in fuzz(0, BLOCK, start, workers=2)
        if outcome["kind"] in FAILURES
    ]
    assert not failures, "\n".join(failures)


@pytest.mark.parametrize("start", range(0, GRAPHS, GRAPHS // 4))
def test_kernels_agree_on_random_models(start, tmp_path):
    failures = [
        f"{outcome} in {save_failure(tmp_path, 0, number, outcome, 'graphs')}"
        for number, outcome in fuzz(0, GRAPHS // 4, start, workers=1, kind="graphs")
        if outcome["kind"] in (*FAILURES, "wrapped")
    ]
    assert not failures, "\n".join(failures)


def test_damaged_tokenizers(tmp_path):
    pytest.importorskip("regex")
    failures = [
        f"{outcome} in {save_failure(tmp_path, 0, number, outcome, 'tokenizers')}"
        for number, outcome in fuzz(0, TOKENIZERS, workers=1, kind="tokenizers")
        if outcome["kind"] in (*FAILURES, "wrapped")
    ]
    assert not failures, "\n".join(failures)


@pytest.mark.parametrize(("factor", "kind"), [(1.0, "ok"), (1.01, "difference"), (np.nan, "difference")])
def test_results_of_wrong_kernels_are_differences(factor, kind, monkeypatch):
    def optimize_wrongly(*arguments):
        program = optimize(*arguments)
        last = program.instructions[-1]
        last.kernel = partial(lambda kernel, *inputs, **attributes: kernel(*inputs, **attributes) * factor, last.kernel)
        return program

    optimize = passes.optimize
    monkeypatch.setattr(passes, "optimize", optimize_wrongly)
    case = Seed(chain("Exp", "Softmax", data=["", 'axis="1"']).encode(), b"", [np.ones((2, 3), np.float32)])
    outcome = run_tiers(case)
    assert outcome["kind"] == kind, outcome


def test_cases_depend_on_seed_and_number_only():
    first, second = make_case(3, 17), make_case(3, 17)
    assert first.xml == second.xml
    assert first.weights == second.weights
    for a, b in zip(first.inputs, second.inputs, strict=True):
        np.testing.assert_array_equal(a, b)


def test_saved_case_is_replayed(tmp_path):
    path = save_failure(tmp_path, 3, 17, {"kind": "traceback"})
    assert replay(path)["kind"] in ("ok", "refused", "wrapped")
