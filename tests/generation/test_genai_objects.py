"""Objects of OpenVINO GenAI's replacement without models: streamers, chats and files of configurations."""

from __future__ import annotations

import json
import re
from types import SimpleNamespace

import numpy as np
import pytest

import irrun.generation
from irrun.generation import pipeline
from irrun.generation.pipeline import GeneratedText
from irrun.generation.tokenization import TokenizerOptions
from irrun.generation.transcription_config import TranscriptionConfig
from irrun.openvino_genai import language_model
from irrun.openvino_genai.chat_history import ChatHistory
from irrun.openvino_genai.enumerations import StopCriteria, StreamingStatus
from irrun.openvino_genai.generation_config import GenerationConfig
from irrun.openvino_genai.language_model import GeneratedTokens, LanguageModel
from irrun.openvino_genai.llm_pipeline import LLMPipeline
from irrun.openvino_genai.options import keep_default
from irrun.openvino_genai.perf_metrics import MeanStdPair, SummaryStats
from irrun.openvino_genai.settings import make_settings
from irrun.openvino_genai.streamers import StreamerBase, TextStreamer, make_streamer, to_status
from irrun.openvino_genai.tokenizer import Tokenizer


class Letters:
    """A tokenizer whose tokens are characters; 0 is a part of the character that 1 completes."""

    def __init__(self):
        self.options = []

    def decode(self, tokens, **options):
        self.options.append(options)
        text = "".join({0: "\ufffd", 1: "é"}.get(token) or chr(token) for token in tokens)
        return text.replace("\ufffdé", "é")


def stream(*steps, status=None):
    """Return the parts of a text after each step, and the statuses."""
    parts, statuses, found = [], [], []

    def keep(part):
        parts.append(part)
        return status

    streamer = TextStreamer(Letters(), keep)
    for step in steps:
        tokens = [ord(c) for c in step] if isinstance(step, str) else step
        statuses.append(streamer.write(tokens))
        found.append("|".join(parts))
        parts.clear()
    streamer.end()
    return [*found, "|".join(parts)], statuses


@pytest.mark.parametrize(
    ("steps", "expected"),
    [
        (["a", "b", "c", "d", "e"], ["", "", "a", "b", "c", "de"]),
        (["abc", "d"], ["a", "b", "cd"]),
        (["ab\n", "c"], ["ab\n", "", "c"]),
        (["a", [0], [1], "b", "c"], ["", "", "a", "", "é", "bc"]),
        (["a", [], "\n"], ["", "", "a\n", ""]),
        (["abcd", "\n", "\n"], ["ab", "cd\n", "\n", ""]),
        ([], [""]),
    ],
)
def test_texts_are_passed_on_as_soon_as_they_are_known(steps, expected):
    assert stream(*steps)[0] == expected


def test_callbacks_end_a_text():
    assert stream("abc", status=True)[1] == [StreamingStatus.STOP]
    assert stream("abc", status=StreamingStatus.CANCEL)[1] == [StreamingStatus.CANCEL]
    assert stream("abc", status=None)[1] == [StreamingStatus.RUNNING]
    assert stream("ab", status=True)[1] == [StreamingStatus.RUNNING]  # nothing was passed on
    assert [to_status(value) for value in (True, False, None, StreamingStatus.CANCEL)] == [
        StreamingStatus.STOP, StreamingStatus.RUNNING, StreamingStatus.RUNNING, StreamingStatus.CANCEL
    ]  # fmt: skip


def test_streamers_get_the_options_of_decoding():
    tokenizer, parts = Letters(), []
    streamer = TextStreamer(tokenizer, parts.append, {"skip_special_tokens": False})
    streamer.write(ord("a"))
    assert tokenizer.options == [{"skip_special_tokens": False}]


def test_functions_become_streamers():
    assert make_streamer(None, Letters()) is None
    streamer = TextStreamer(Letters(), print)
    assert make_streamer(streamer, Letters()) is streamer
    assert isinstance(make_streamer(print, Letters()), TextStreamer)
    with pytest.raises(TypeError, match=r"^streamer is 3; expected a function, a StreamerBase or None$"):
        make_streamer(3, Letters())
    for method in ("write", "end"):
        with pytest.raises(RuntimeError, match=f'^Tried to call pure virtual function "StreamerBase::{method}"$'):
            getattr(StreamerBase(), method)(*[1][: method == "write"])


def test_chats_keep_copies_of_messages():
    content = ["a"]
    message = {"role": "user", "content": content}
    history = ChatHistory()
    history.append(message)
    content.append("b")
    history.get_messages()[0]["content"].append("c")
    assert history.get_messages() == [{"role": "user", "content": ["a"]}]
    with pytest.raises(TypeError, match=r"^append\(\): incompatible function arguments: expected a dict, found 3$"):
        history.append(3)
    assert len(history) == 1
    assert history.pop() == {"role": "user", "content": ["a"]}
    with pytest.raises(IndexError, match=r"^Cannot pop from an empty chat history$"):
        history.pop()
    tools, context = [{"name": "f"}], {"x": [1]}
    history.set_tools(tools)
    history.set_extra_context(context)
    tools[0]["name"], context["x"][0] = "g", 2
    history.get_tools()[0]["name"] = "h"
    assert (history.get_tools(), history.get_extra_context()) == ([{"name": "f"}], {"x": [1]})
    history.set_messages([message, message])
    assert len(history) == 2
    history.clear()
    assert len(history) == 0


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ({"eos_token_id": [5, 7]}, {"eos_token_id": 5, "stop_token_ids": {5, 7}}),
        ({"eos_token_id": [5, 7], "stop_token_ids": [9]}, {"eos_token_id": 5, "stop_token_ids": {5, 7, 9}}),
        ({"eos_token_id": 4}, {"eos_token_id": 4, "stop_token_ids": {4}}),
        ({"eos_token_id": []}, {"eos_token_id": -1, "stop_token_ids": set()}),
        ({"eos_token_id": None, "top_k": None}, {"eos_token_id": -1, "stop_token_ids": set()}),
        ({"early_stopping": True}, {"stop_criteria": StopCriteria.EARLY}),
        ({"early_stopping": False}, {"stop_criteria": StopCriteria.HEURISTIC}),
        ({"early_stopping": "never"}, {"stop_criteria": StopCriteria.NEVER}),
        ({"early_stopping": "x", "unknown": 3}, {"stop_criteria": StopCriteria.HEURISTIC}),
    ],
)
def test_files_of_configurations_state_ends(values, expected, tmp_path):
    path = tmp_path / "generation_config.json"
    path.write_text(json.dumps(values))
    config = GenerationConfig(path)
    assert {name: getattr(config, name) for name in expected} == expected


def test_files_of_configurations_that_cannot_be_read(tmp_path):
    path = tmp_path / "no.json"
    with pytest.raises(RuntimeError, match=f"^Failed to open '{re.escape(str(path))}' with generation config$"):
        GenerationConfig(path)
    path.write_text("[")
    with pytest.raises(RuntimeError, match=r"no\.json"):
        GenerationConfig(path)


@pytest.mark.parametrize(
    ("options", "kinds"),
    [
        ({}, {"greedy_decoding"}),
        ({"do_sample": True}, {"multinomial"}),
        ({"num_beams": 2}, {"beam_search"}),
        ({"num_assistant_tokens": 3}, {"greedy_decoding", "assisting_generation"}),
        ({"assistant_confidence_threshold": 0.5}, {"greedy_decoding", "assisting_generation"}),
    ],
)
def test_configurations_tell_how_tokens_are_chosen(options, kinds):
    config = GenerationConfig(**options)
    names = ("greedy_decoding", "multinomial", "beam_search", "assisting_generation", "tree_search")
    assert {name for name in names if getattr(config, f"is_{name}")()} == kinds
    config.set_eos_token_id(3)
    assert (config.eos_token_id, config.stop_token_ids) == (3, {3})


def test_speed_is_that_after_the_first_token():
    text = GeneratedText("", "abc", (1, 2, 3), 5, "length", 2.0, 6.0)
    assert text.tokens_per_second == 0.5
    assert (text.score, text.alternatives) == (None, ())
    assert GeneratedText("", "a", (1,), 5, "stop", 2.0, 6.0).tokens_per_second == 0
    assert GeneratedText("", "ab", (1, 2), 5, "stop", 2.0, 2.0).tokens_per_second == 0


def test_the_first_time_of_speech_is_bounded():
    assert TranscriptionConfig().max_initial_timestamp_index == 50


def test_other_options_keep_their_defaults():
    assert keep_default([]) == []
    with pytest.raises(RuntimeError, match=r"^irrun does not support structured output$"):
        keep_default([1])


def test_statistics_are_zero_by_default():
    assert tuple(MeanStdPair()) == (0, 0)
    assert SummaryStats().as_tuple() == (0, 0, 0, 0)
    values = vars(SummaryStats())
    assert set(values.values()) == {0}
    assert {"mean", "std", "min", "max"} <= set(values)


@pytest.mark.parametrize(
    ("text", "stops", "expected"),
    [
        ("abc", {"cd"}, (None, 1)),
        ("abc", {"bcd", "cx"}, (None, 2)),
        ("abc", {"abcd"}, (None, 3)),
        ("abc", {"x", "bd"}, (None, 0)),
        ("abc", set(), (None, 0)),
        ("abcd", {"bc"}, (1, 0)),
        ("abcd", {"cd", "b"}, (1, 0)),
        ("abcd", {"ab"}, (0, 0)),
        ("", {"ab"}, (None, 0)),
    ],
)
def test_last_tokens_that_may_begin_a_stop_string_are_held(text, stops, expected):
    model = object.__new__(LanguageModel)
    model._tokenizer = SimpleNamespace(decode=lambda tokens: "".join(map(chr, tokens)))
    config = GenerationConfig(stop_strings=stops)
    assert model._find_stop([ord(c) for c in text], config) == expected


def test_times_are_in_microseconds():
    pipe = object.__new__(LLMPipeline)
    pipe._load_time = 12.0
    prompts = SimpleNamespace(rows=[[1, 2, 3], [4]], tokenizations=[0.5, 0.25], templates=[2.0])
    results = [
        GeneratedTokens([7, 8], times=[10.0, 10.5], inferences=[0.25, 0.125], samplings=[0.0, 1.0]),
        GeneratedTokens([9], times=[11.0], inferences=[0.5], samplings=[0.5]),
    ]
    metrics = pipe._measure(prompts, results, 9.0)
    assert (metrics.get_load_time(), metrics.get_num_input_tokens(), metrics.get_num_generated_tokens()) == (12, 3, 3)
    found = {name: values for name, values in vars(metrics.raw_metrics).items() if values}
    assert found == {
        "tokenization_durations": [500_000, 250_000],
        "chat_template_durations": [2_000_000],
        "m_new_token_times": [10_000_000, 10_500_000, 11_000_000],
        "m_batch_sizes": [1, 1, 1],
        "m_durations": [500_000],
        "token_infer_durations": [250_000, 125_000, 500_000],
        "sampling_durations": [0, 1_000_000, 500_000],
        "m_times_to_first_token": [1_000_000],
        "inference_durations": [875_000],
    }
    assert vars(pipe._measure(prompts, [], 9.0).raw_metrics)["m_times_to_first_token"] == []


@pytest.mark.parametrize(
    ("properties", "threads", "precision"),
    [
        ({}, None, "f32"),
        ({"INFERENCE_NUM_THREADS": 3}, 3, "f32"),
        ({"INFERENCE_NUM_THREADS": 0, "INFERENCE_PRECISION_HINT": "f32"}, None, "f32"),
    ],
)
def test_properties_that_are_settings(properties, threads, precision):
    settings = make_settings("CPU", properties)
    assert (settings.threads, settings.precision) == (threads, precision)


@pytest.mark.parametrize(
    ("arguments", "texts", "seconds"),
    [
        ({"prompts": "a"}, ["a"], None),
        ({"prompt": "a"}, ["a"], None),
        ({"prompts": ["a", "b"]}, ["a", "b"], None),
        ({"prompts": [["a", "b"], ("c", "d")]}, ["a", "c"], ["b", "d"]),
        ({"prompts": ["a"], "prompts_2": ["b"]}, ["a"], ["b"]),
        ({"prompts_1": ["a"], "prompts_2": ["b"]}, ["a"], ["b"]),
        ({"prompts": ["ab"]}, ["ab"], None),
        ({"prompts": []}, [], None),
        ({"prompts": [["a"]]}, None, None),
        ({"prompts": [["a", "b", "c"]]}, None, None),
        ({"prompts": [["a", "b"], "c"]}, None, None),
        ({"prompts": ["a"], "prompts_2": [3]}, None, None),
        ({"prompts": ["a"], "prompts_2": True}, None, None),
    ],
)
def test_pairs_of_texts(arguments, texts, seconds):
    calls = []

    def encode(*given):
        calls.append(given)
        return np.zeros((1, 2), np.int64), np.ones((1, 2), np.int64)

    tokenizer = object.__new__(Tokenizer)
    tokenizer._tokenizer = SimpleNamespace(encode=encode)
    if texts is None:
        with pytest.raises(TypeError, match=re.escape("encode(): ")):
            tokenizer.encode(**arguments)
        return
    tokens = tokenizer.encode(**arguments, max_length=3, padding_side="left")
    assert (tokens.input_ids.data.tolist(), tokens.attention_mask.data.tolist()) == ([[0, 0]], [[1, 1]])
    assert calls == [(texts, TokenizerOptions(max_length=3, padding_side="left"), seconds)]


class NegativeScores:
    """A decoder whose scores are negative, so that an end token with a penalized score of 0 is the best."""

    def __init__(self, compiled=None):
        pass

    def run(self, tokens, rows):
        return np.tile(np.float32([-1, -2, -9]), (len(rows), 1))

    def start(self, prompt):
        return self.run([prompt], [0])


@pytest.mark.parametrize(("least", "reason"), [(0, "LENGTH"), (1, "STOP"), (3, "STOP"), (5, "STOP"), (9, "LENGTH")])
def test_end_tokens_do_not_end_shorter_texts(least, reason, monkeypatch):
    """Scores of end tokens are 0 before, as in OpenVINO GenAI, so one may be chosen."""
    monkeypatch.setattr(language_model, "Decoder", NegativeScores)
    model = object.__new__(LanguageModel)
    model._compiled, model._kept = None, None
    options = {"min_new_tokens": least, "max_new_tokens": 5, "stop_token_ids": {2}}
    config = irrun.generation.GenerationConfig(**options)
    drawn = irrun.generation.GenerationConfig(**options, num_return_sequences=2, do_sample=True, top_k=1)
    expected = [2] * min(least, 5) if least else [0] * 5
    result = model.generate([7], config, False, None, False)
    results = model.draw([7], drawn, False)
    assert [(r.tokens, r.reason.name) for r in (result, *results)] == [(expected, reason)] * 3
    for timed in (result, results[0]):  # the first one has the times of all
        assert len(timed.times) == len(timed.inferences) == len(timed.samplings) == len(expected)
    assert not results[1].times
    writer = SimpleNamespace(write=lambda token: False)
    texts = [pipeline._Sequence(writer) for _ in range(2)]
    pipeline._sample(texts, drawn, [7], NegativeScores().start([7]), NegativeScores())
    assert [(text.tokens, text.reason) for text in texts] == [(expected, reason.lower())] * 2
