"""A sample of the trials of `mapping.chaos`: results that are damaged at random, and runs that are killed at random."""

from __future__ import annotations

import os

import pytest

pytest.importorskip("distributed")
pytest.importorskip("zarr")

from irrun.distributed import map_inputs
from mapping.chaos import OPTIONS, damage_once, kill_once, prepare, read_results

SEED = int(os.environ.get("IRRUN_SEED", "0"))


@pytest.fixture
def finished(tmp_path, scheduler):
    map_inputs(prepare(tmp_path), [str(tmp_path / "inputs")], tmp_path / "out.zarr", OPTIONS, scheduler=scheduler)
    return tmp_path / "out.zarr"


def test_damaged_results_are_repaired_or_refused(finished, scheduler):
    expected = read_results(finished)
    assert {"exp", "size", "rows/status", "ragged/exp/16"} <= set(expected)
    ends = [damage_once(finished, finished.parent, expected, scheduler, SEED * 1000 + i) for i in range(8)]
    assert all(end in ("equal", "refused") for _, end in ends), ends
    assert "equal" in dict(ends).values()


@pytest.mark.slow
@pytest.mark.skipif(not os.path.exists("/proc/self/stat"), reason="reads /proc")
def test_killed_runs_end_with_the_same_results(finished):
    expected = read_results(finished)
    ends = [kill_once(finished.parent, expected, SEED * 1000 + i, 3) for i in range(3)]
    assert all(end.startswith("equal") for _, end in ends), ends
