"""When helper threads take part in the computation of compiled kernels."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

pytest.importorskip("llvmlite")

from irrun.fast.jit import team
from irrun.fast.jit.team import MAX_DELAY, MAX_PENALTY, MIN_PENALTY, SAMPLE_TIME

START = 10**12


@pytest.fixture
def clock(monkeypatch):
    """Return the time, and how long the thread has waited for a core, as tests set them."""
    times = {"now": START, "delay": 0}
    monkeypatch.setattr(team, "time", SimpleNamespace(perf_counter_ns=lambda: times["now"]))
    monkeypatch.setattr(team, "_read_delay", lambda: times["delay"])
    return times


def sample(load, clock, elapsed, delay):
    """Return whether helpers are allowed after some time in which the thread waited for a core."""
    clock["now"] += elapsed
    clock["delay"] += delay
    return load.allows_helpers(clock["now"])


@pytest.mark.parametrize(
    ("elapsed", "delay", "expected"),
    [
        (SAMPLE_TIME - 1, SAMPLE_TIME, True),  # too early to tell
        (SAMPLE_TIME, int(MAX_DELAY * SAMPLE_TIME), False),
        (SAMPLE_TIME, int(MAX_DELAY * SAMPLE_TIME) - 1, True),
        (10 * SAMPLE_TIME, 2 * SAMPLE_TIME, False),
        (10 * SAMPLE_TIME + 1, 20 * SAMPLE_TIME, True),  # too long ago to matter
    ],
)
def test_helpers_pause_if_the_thread_waited_for_a_core(clock, elapsed, delay, expected):
    load = team._Load()
    assert sample(load, clock, 0, 0)
    assert sample(load, clock, elapsed, delay) == expected


def test_waiting_of_another_thread_does_not_count(clock, monkeypatch):
    load = team._Load()
    assert sample(load, clock, 0, 5)
    monkeypatch.setattr(team, "threading", SimpleNamespace(get_ident=lambda: -1))
    assert sample(load, clock, SAMPLE_TIME, SAMPLE_TIME)
    assert not sample(load, clock, SAMPLE_TIME, SAMPLE_TIME)


def test_delays_are_counted_since_the_last_sample(clock):
    load = team._Load()
    clock["delay"] = 50 * SAMPLE_TIME
    assert load.allows_helpers(clock["now"])
    for _ in range(5):
        assert sample(load, clock, SAMPLE_TIME, int(MAX_DELAY * SAMPLE_TIME) - 1)


def test_pauses_are_doubled_up_to_a_limit(clock):
    load = team._Load()
    expected = MIN_PENALTY
    for _ in range(10):
        clock["now"] += 1
        load.judge_waiting(clock["now"] - 1, 4, 1e12)
        assert not load.allows_helpers(clock["now"] + expected - 1)
        assert load.allows_helpers(clock["now"] + expected)
        clock["now"] += expected
        expected = min(MAX_PENALTY, 2 * expected)
    assert expected == MAX_PENALTY


def test_pauses_are_short_again_after_a_while(clock):
    load = team._Load()
    load.judge_waiting(START, 4, 1e12)
    end = START + MIN_PENALTY
    clock["now"] = end + 10 * MIN_PENALTY - 1
    load.judge_waiting(clock["now"], 4, 1e12)
    assert not load.allows_helpers(clock["now"] + 2 * MIN_PENALTY - 1)
    end = clock["now"] + 2 * MIN_PENALTY
    clock["now"] = end + 20 * MIN_PENALTY
    load.judge_waiting(clock["now"], 4, 1e12)
    assert load.allows_helpers(clock["now"] + MIN_PENALTY)


@pytest.mark.parametrize(
    ("elapsed", "parts", "waited", "expected"),
    [
        (1000, 4, 333.0, True),  # 667 for four parts
        (1000, 4, 334.0, False),
        (1000, 0, 1000.0, True),
        (1000, 1, 666.0, True),
        (1000, 1, 667.0, False),
    ],
)
def test_waits_for_helpers_may_take_as_long_as_two_parts(clock, elapsed, parts, waited, expected):
    load = team._Load()
    clock["now"] += elapsed
    load.judge_waiting(START, parts, waited)
    assert load.allows_helpers(clock["now"]) == expected
