"""Beam search over tables of scores: repetitions, diversity, ends and scores, and the metrics of a generation."""

from __future__ import annotations

import math
from types import SimpleNamespace

import numpy as np
import pytest

from irrun.generation.beam_search import _find_repeating, _is_done, _normalize, search_beams
from irrun.generation.config import GenerationConfig
from irrun.generation.pipeline import count_overlap
from irrun.openvino_genai.perf_metrics import PerfMetrics, SummaryStats


@pytest.mark.parametrize(
    ("tokens", "size", "expected"),
    [
        ([1, 2, 1], 2, [2]),
        ([1, 2, 1, 3, 1], 2, [2, 3]),
        ([1, 2, 3, 1, 2], 3, [3]),
        ([1, 2, 3, 2], 3, []),
        ([1, 2], 1, [1, 2]),
        ([1], 1, []),
        ([1, 1], 2, [1]),
        ([1, 1], 3, []),
    ],
)
def test_tokens_that_would_repeat_a_sequence(tokens, size, expected):
    assert _find_repeating(tokens, size) == expected


def search(prompt=(0,), table=None, **options):
    """Return the beams of a model whose next scores depend on the last token only."""
    table = np.float32([[0, 3, 2, -9], [2, 0, 3, -9], [3, 2, 0, -9], [0, 0, 0, 0]] if table is None else table)
    config = GenerationConfig(num_beams=options.pop("num_beams", 2), max_new_tokens=4, **options)
    return search_beams(config, prompt, table[[prompt[-1]]], lambda tokens, rows: table[[t[-1] for t in tokens]])


def test_the_best_beam_has_the_highest_score():
    (beam,) = search()
    assert (beam.tokens, beam.reason) == ((1, 2, 0, 1), "length")
    step = 3 - math.log(math.exp(3) + math.exp(2) + 1 + math.exp(-9))
    assert beam.score == pytest.approx(step, rel=1e-5)  # four equal steps, divided by the length


def test_sequences_are_not_repeated():
    (beam,) = search(prompt=(1, 2, 0), no_repeat_ngram_size=2)
    assert beam.tokens == (1, 0, 2, 1)
    pairs = list(zip((1, 2, 0, *beam.tokens), (2, 0, *beam.tokens), strict=False))
    assert len(set(pairs)) == len(pairs)


def test_groups_choose_different_tokens():
    beams = search(num_beams=2, num_beam_groups=2, diversity_penalty=5.0, num_return_sequences=2)
    assert sorted(beam.tokens[0] for beam in beams) == [1, 2]
    assert beams[0].score >= beams[1].score


def test_a_stop_token_finishes_a_beam():
    beams = search(stop_token_ids=frozenset({2}), num_return_sequences=2)
    assert (beams[0].tokens, beams[0].reason) == ((1, 2), "stop")


def test_scores_are_divided_by_a_power_of_the_length():
    assert _normalize(np.float32(-8), 4, 1.0) == -2
    assert _normalize(np.float32(-8), 4, 0.5) == -4
    assert _normalize(np.float32(-8), 4, 0.0) == -8


def make_metrics():
    metrics = PerfMetrics()
    raw = metrics.raw_metrics
    names = ("generate", "tokenization", "detokenization", "chat_template", "inference", "sampling")
    for i, name in enumerate(names, 1):
        durations = raw.inference_durations if name == "inference" else getattr(raw, f"{name}_durations")
        durations += [1000.0 * i, 3000.0 * i]
    raw.m_times_to_first_token.append(5000.0)
    raw.m_durations += [2000.0, 2000.0]
    raw.token_infer_durations += [4000.0]
    metrics._input_tokens, metrics._generated_tokens, metrics._load_time = 3, 4, 7.0
    return metrics


def test_metrics_are_means_and_deviations_in_milliseconds():
    metrics = make_metrics()
    found = [
        tuple(getattr(metrics, f"get_{name}_duration")())
        for name in ("generate", "tokenization", "detokenization", "chat_template", "inference", "sampling")
    ]
    assert found == [(2.0 * i, 1.0 * i) for i in range(1, 7)]
    assert tuple(metrics.get_ttft()) == (5, 0)
    assert tuple(metrics.get_tpot()) == (2, 0)
    assert tuple(metrics.get_ipot()) == (4, 0)
    assert tuple(metrics.get_throughput()) == (500, 0)
    assert (metrics.get_num_input_tokens(), metrics.get_num_generated_tokens(), metrics.get_load_time()) == (3, 4, 7)
    assert metrics.get_grammar_compiler_init_times() == {}
    assert metrics.get_grammar_compile_time().as_tuple() == (-1, -1, -1, -1)
    assert SummaryStats(1, 2, 3, 4).as_tuple() == (1, 2, 3, 4)
    metrics.raw_metrics.m_durations[:] = [0.0]
    assert metrics.get_throughput().mean == math.inf
    assert math.isnan(metrics.get_throughput().std)


def test_metrics_of_calls_add_up():
    first, second = make_metrics(), make_metrics()
    both = first + second
    assert both.raw_metrics.generate_durations == [1000, 3000] * 2
    assert first.raw_metrics.generate_durations == [1000, 3000]
    assert (both.get_num_input_tokens(), both.get_num_generated_tokens()) == (6, 8)
    second._load_time = 8
    with pytest.raises(RuntimeError, match=r"^generation metrics can be accumulated only for the same pipeline$"):
        first + second
    with pytest.raises(TypeError):
        first + 1


@pytest.mark.parametrize(
    ("criteria", "penalty", "finished", "expected"),
    [
        ("early", 1.0, [-9.0, -9.0], True),
        ("early", 1.0, [-9.0], False),  # there are fewer finished beams than beams
        ("heuristic", 1.0, [-0.5, -1.0], True),  # the best beam has -4 / 4
        ("heuristic", 1.0, [-0.5, -1.1], False),
        ("never", 1.0, [-0.5, -0.4], True),  # it may get -4 / 10
        ("never", 1.0, [-0.3, -0.5], False),
        ("never", 0.0, [-3.0, -4.0], True),
        ("never", 0.0, [-3.0, -4.1], False),
        ("never", -1.0, [-3.0, -16.0], True),  # longer beams are worse
        ("never", -1.0, [-3.0, -16.1], False),
    ],
)
def test_searches_end_if_no_beam_can_beat_the_finished_ones(criteria, penalty, finished, expected):
    config = GenerationConfig(num_beams=4, num_beam_groups=2, diversity_penalty=1.0, stop_criteria=criteria,
                              length_penalty=penalty, max_new_tokens=10)  # fmt: skip
    beams = [SimpleNamespace(score=np.float32(score)) for score in finished]
    ongoing = [SimpleNamespace(tokens=(1, 2, 3, 4), score=np.float32(-4))]
    assert _is_done(SimpleNamespace(finished=beams, ongoing=ongoing), config, 10) == expected


@pytest.mark.parametrize(
    ("text", "stop", "expected"),
    [
        ("abc", "xyz", 0),
        ("abc", "cd", 1),
        ("abc", "bcd", 2),
        ("abc", "abc", 0),
        ("aa", "aaa", 2),
        ("", "a", 0),
        ("a", "", 0),
    ],
)
def test_ends_of_texts_that_may_begin_a_stop_string(text, stop, expected):
    assert count_overlap(text, stop) == expected
