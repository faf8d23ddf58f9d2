"""Scores of tokens: penalties, candidates and disallowed tokens, compared with plain definitions; and options."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from irrun.errors import InputError, ModelError
from irrun.generation import pipeline
from irrun.generation.config import GenerationConfig
from irrun.generation.sampling import Sampler
from irrun.generation.tokenization import TokenizerOptions
from irrun.generation.transcription import SpeechRecognizer, _check_models, _get_size
from irrun.generation.transcription_config import TranscriptionConfig
from irrun.openvino_genai.tokenizer import Tokenizer

INF = np.inf


@pytest.mark.parametrize(
    ("options", "length", "expected"),
    [
        ({}, 9, [4, -2, 1, 0.5, 3]),
        ({"min_new_tokens": 3, "stop_token_ids": (0, 99), "eos_token_id": 4}, 2, [0, -2, 1, 0.5, 0]),
        ({"min_new_tokens": 3, "stop_token_ids": (0, 99), "eos_token_id": 4}, 3, [4, -2, 1, 0.5, 3]),
        ({"repetition_penalty": 2.0}, 9, [2, -4, 1, 0.5, 1.5]),  # tokens 0, 1 and 4 occurred
        ({"presence_penalty": 0.5}, 9, [4, -1.5, 1, 0.5, 2.5]),  # tokens 1 and 4 were generated
        ({"frequency_penalty": 0.25}, 9, [4, -1.75, 1, 0.5, 2.5]),  # once and twice
        ({"presence_penalty": 0.5, "frequency_penalty": 0.25, "repetition_penalty": 2.0}, 9, [2, -3.25, 1, 0.5, 0.5]),
    ],
)
def test_penalties(options, length, expected):
    sampler = Sampler(GenerationConfig(max_new_tokens=9, **options), [0, 200])
    sampler._counts.update([1, 4, 4])
    scores = np.float32([4, -2, 1, 0.5, 3])
    assert sampler._penalize(scores.copy(), length).tolist() == pytest.approx(expected)


def list_candidates(scores, top_k, min_p, top_p, temperature):
    """Return the tokens that may be drawn and their probabilities, the most probable first."""
    order = sorted(range(len(scores)), key=lambda i: -scores[i])[: top_k or None]
    weights = {i: np.exp((scores[i] - scores[order[0]]) / temperature) for i in order}
    weights = {i: weight for i, weight in weights.items() if weight >= min_p}
    total, kept, reached = sum(weights.values()), {}, 0.0
    for i, weight in weights.items():
        kept[i] = weight
        reached += weight / total
        if reached > top_p:
            break
    total = sum(kept.values())
    return {i: weight / total for i, weight in kept.items()}


@pytest.mark.parametrize(
    ("top_k", "min_p", "top_p", "temperature"),
    [(0, 0.0, 1.0, 1.0), (3, 0.0, 1.0, 0.7), (1, 0.0, 1.0, 1.0), (0, 0.2, 1.0, 1.5), (0, 0.0, 0.6, 1.0),
     (5, 0.05, 0.9, 2.0), (7, 0.0, 0.5, 1.0)],
)  # fmt: skip
def test_tokens_are_drawn_from_the_most_probable_ones(top_k, min_p, top_p, temperature):
    scores = np.float32([0.3, 2.1, -1.7, 1.4, 0.9, -0.2, 1.1])
    expected = list_candidates(scores.tolist(), top_k, min_p, top_p, temperature)
    config = GenerationConfig(
        max_new_tokens=9, do_sample=True, top_k=top_k, min_p=min_p, top_p=top_p, temperature=temperature
    )
    sampler = Sampler(config, [])
    found: dict[int, list[float]] = {}
    steps = (np.arange(400) + 0.5) / 400
    numbers = iter(np.float32([0, *steps, np.nextafter(np.float32(1), np.float32(0))]))
    sampler._make_uniform = lambda: next(numbers)  # type: ignore[method-assign]
    for _ in range(402):
        token, logarithm = sampler._draw(scores)
        found.setdefault(token, []).append(logarithm)
    assert set(found) == set(expected)
    for token, probability in expected.items():
        assert len(found[token]) / 402 == pytest.approx(probability, abs=3 / 402)
        np.testing.assert_allclose(found[token], np.log(probability), atol=1e-5)


def test_scores_that_are_no_numbers_give_some_token():
    sampler = Sampler(GenerationConfig(max_new_tokens=1, do_sample=True), [])
    with np.errstate(all="ignore"):
        assert 0 <= sampler.choose(np.float32([np.nan, 1, 2])) < 3


def test_numbers_are_drawn_below_one():
    sampler = Sampler(GenerationConfig(max_new_tokens=1), [])
    bounds = []

    def draw(low, high, dtype):
        bounds.append((low, high))
        return dtype(high - 1)

    sampler._random = SimpleNamespace(randint=draw)  # type: ignore[assignment]
    assert sampler._make_uniform() == 1 - 2**-24
    assert bounds == [(0, 2**32)]
    assert Sampler(GenerationConfig(max_new_tokens=1, rng_seed=3), [])._make_uniform() == np.float32(
        np.random.RandomState(3).randint(0, 1 << 32, dtype=np.uint32) / 2**32
    )


# Speech. The tokens 6 to 9 are times; 5 means "no times".

SPEECH = {"no_timestamps_token_id": 5, "max_initial_timestamp_index": 1, "eos_token_id": 4}


def suppress(tokens, *, has_times=True, scores=None, **options):
    """Return the tokens that remain allowed."""
    config = TranscriptionConfig().replace({**SPEECH, **options})
    values = np.zeros(10, np.float32) if scores is None else np.array(scores, np.float32)
    model = SimpleNamespace(model=SimpleNamespace(path=None))
    SpeechRecognizer._suppress(SimpleNamespace(
        _decoder=model, _check_tokens=lambda *values: SpeechRecognizer._check_tokens(
            SimpleNamespace(_decoder=model), *values)), values, tokens, config, has_times)  # type: ignore[arg-type]  # fmt: skip
    return np.flatnonzero(values > -INF).tolist()


LOW = [0.0] * 6 + [-9.0] * 4


@pytest.mark.parametrize(
    ("tokens", "options", "expected"),
    [
        ([], {}, [6, 7]),  # texts begin with a time, at most the second one
        ([6], {"scores": LOW}, [0, 1, 2, 3, 4]),  # text follows the time that begins a segment
        ([6, 1], {"scores": LOW}, [0, 1, 2, 3, 4, 7, 8, 9]),
        ([7, 1], {"scores": LOW}, [0, 1, 2, 3, 4, 8, 9]),
        ([6, 1, 7], {"scores": LOW}, [4, 7, 8, 9]),  # the next segment may begin at the same time, or the text ends
        ([6, 1, 7, 7], {"scores": LOW}, [0, 1, 2, 3, 4]),
        ([6, 1], {}, [7, 8, 9]),  # times together are more probable than any text
        ([1], {"has_times": False}, list(range(10))),
        ([1], {"has_times": False, "suppress_tokens": [2, 3], "begin_suppress_tokens": [0]}, [0, 1, *range(4, 10)]),
        ([], {"has_times": False, "suppress_tokens": [2], "begin_suppress_tokens": [0]}, [1, *range(3, 10)]),
    ],
)
def test_tokens_of_speech_that_are_allowed(tokens, options, expected):
    assert suppress(tokens, **options) == expected


@pytest.mark.parametrize("options", [{"suppress_tokens": [10]}, {"no_timestamps_token_id": 9}])
def test_tokens_of_speech_that_the_model_does_not_have(options):
    with pytest.raises(ModelError, match=r"contains the token 10, but the decoder has 10 tokens"):
        suppress([], **options)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"suppress_tokens": 3}, "suppress_tokens is 3; expected a list of tokens"),
        ({"begin_suppress_tokens": ["a"]}, "begin_suppress_tokens is 'a'; expected a token, which is 0 or a positive"),
        ({"eos_token_id": 2**31}, "eos_token_id is 2147483648; expected a token"),
        ({"language": "fr"}, "the model does not support the language 'fr'; it supports de, en"),
        ({"language": "fr", "lang_to_id": {}}, "the model does not support the language 'fr'; it supports none"),
        ({"is_multilingual": False, "language": "de"}, "the model supports English only: language and task cannot be"),
        ({"is_multilingual": False, "task": "translate"}, "the model supports English only"),
        ({"task": "sing"}, "task"),
    ],
)
def test_options_of_speech_that_are_refused(values, message):
    config = TranscriptionConfig().replace({"lang_to_id": {"<|en|>": 1, "<|de|>": 2}})
    with pytest.raises(InputError, match=message):
        config.replace(values)


def test_options_of_speech():
    config = TranscriptionConfig().replace({"lang_to_id": {"<|en|>": 1, "de": 2}, "max_new_tokens": 5})
    assert config.generation.max_new_tokens == 5
    assert [config.replace({"language": name}).find_language() for name in ("en", "de")] == [1, 2]
    assert config.replace({"suppress_tokens": [1, 2]}).suppress_tokens == (1, 2)
    assert config.replace({"is_multilingual": False}).language is None


def test_files_of_options_of_speech(tmp_path):
    text = '{"task_to_id": {"transcribe": 7, "sing": 8}, "translate_token_id": 9, "language": "fr", "eos_token_id": 3}'
    (tmp_path / "generation_config.json").write_text(text)
    config = TranscriptionConfig.read(tmp_path)
    assert (config.transcribe_token_id, config.translate_token_id) == (7, 9)
    assert (config.language, config.generation.eos_token_id) == (None, 3)


def test_sizes_in_files():
    assert (_get_size({}, "n", 4), _get_size({"n": 1}, "n", 4)) == (4, 1)
    for value, shown in ((0, "0"), ("3", "'3'"), (None, "None|null")):
        with pytest.raises(InputError, match=rf"^config\.json: n is ({shown}); expected a positive integer$"):
            _get_size({"n": value}, "n", 4)


def continue_speech(options, streamer=None, *, is_stateful=True, positions=448):
    """Return what a model that counts continues, whether the streamer ended it, and the tokens of each run."""
    runs: list[list[int]] = []

    def run(request, states, past, tokens):
        runs.append([past, *tokens])
        scores = np.zeros(10, np.float32)
        scores[(tokens[-1] + 1) % 10] = 1
        return scores

    recognizer = SimpleNamespace(
        _target_positions=positions, _decoder=SimpleNamespace(create_infer_request=lambda: None), _run=run,
        _suppress=lambda *_: None, _is_stateful=is_stateful,
    )  # fmt: skip
    config = TranscriptionConfig().replace({"eos_token_id": 9, **options})
    tokens, is_ended = SpeechRecognizer._decode(recognizer, None, [2, 3], config, False, streamer)  # type: ignore[arg-type]
    return tokens, is_ended, runs


def test_speech_is_continued_until_it_ends():
    assert continue_speech({})[:2] == ([4, 5, 6, 7, 8, 9], False)
    assert continue_speech({"max_new_tokens": 2}) == ([4, 5], False, [[0, 2, 3], [2, 4]])
    assert continue_speech({"max_new_tokens": 2}, is_stateful=False)[2] == [[0, 2, 3], [0, 2, 3, 4]]
    assert continue_speech({"max_length": 5})[0] == [4, 5, 6]
    assert continue_speech({}, positions=4)[0] == [4, 5]
    assert continue_speech({}, positions=1)[0] == []
    assert continue_speech({"min_new_tokens": 8, "max_new_tokens": 9})[0] == [4, 5, 6, 7, 8, 0, 1, 2, 3]  # 9 scores 0
    seen: list[int] = []
    assert continue_speech({}, lambda tokens: bool(seen.extend(tokens)) or tokens == [6])[:2] == ([4, 5, 6], True)  # type: ignore[func-returns-value]
    assert seen == [4, 5, 6]


@pytest.mark.parametrize(
    ("encoder", "decoder", "expected"),
    [
        (("input_features",), ("input_ids", "encoder_hidden_states"), ["input_ids", "encoder_hidden_states"]),
        (("input_features",), ("input_ids",), ["input_ids"]),
        (("input_features",), ("encoder_hidden_states",), None),
        (("input_features", "other"), ("input_ids",), None),
        (("input_features",), ("input_ids", "other"), None),
        ((), ("input_ids",), None),
        (("input_features",), (), None),
    ],
)
@pytest.mark.parametrize("output", ["logits", "other"])
def test_inputs_and_outputs_of_speech_models(encoder, decoder, output, expected):
    def make(inputs, result):
        specs = [SimpleNamespace(names=(name,), any_name=name) for name in inputs]
        outputs = [SimpleNamespace(names=(result,))]
        return SimpleNamespace(inputs=specs, model=SimpleNamespace(outputs=outputs, path=None), outputs=outputs)

    models = make(encoder, "last_hidden_state"), make(decoder, output)
    if expected is not None and output == "logits":
        assert _check_models(*models) == expected
        return
    with pytest.raises(ModelError, match=r"^the inputs are .*, the outputs .*; expected .*, and the output "):
        _check_models(*models)


def test_options_of_encoding_are_passed_on():
    """The options of OpenVINO GenAI's tokenizer, by position and by name."""
    found: list[tuple[list[str], TokenizerOptions, list[str] | None]] = []

    def encode(texts, options, pairs):
        found.append((texts, options, pairs))
        return np.zeros((1, 1), np.int64), np.ones((1, 1), np.int64)

    tokenizer = object.__new__(Tokenizer)
    tokenizer._tokenizer = SimpleNamespace(encode=encode)  # type: ignore[assignment]
    tokenizer.encode("a")
    tokenizer.encode(["a"], None, False, True, 7, "left", True)
    tokenizer.encode(prompts_1=["a"], prompts_2=["b"], add_special_tokens=False)
    tokenizer.encode([("a", "b")], max_length=3, truncation=True)
    tokenizer.encode(prompt="a", padding_side="right", pad_to_max_length=True)
    tokenizer.encode([])
    assert found == [
        (["a"], TokenizerOptions(True, False, None, False, None), None),
        (["a"], TokenizerOptions(False, True, 7, True, "left"), None),
        (["a"], TokenizerOptions(False, False, None, False, None), ["b"]),
        (["a"], TokenizerOptions(True, True, 3, False, None), ["b"]),
        (["a"], TokenizerOptions(True, False, None, True, "right"), None),
        ([], TokenizerOptions(True, False, None, False, None), None),
    ]
    with pytest.raises(TypeError, match="pass options by keyword"):
        tokenizer.encode(["a"], True)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("own", "token", "expected"),
    [
        ({}, None, (None, ())),
        ({}, 7, (7, ())),
        ({"eos_token_id": 3}, 7, (3, ())),
        ({"stop_token_ids": (4,)}, 7, (None, (4,))),
    ],
)
def test_the_end_of_texts_comes_from_the_tokenizer_if_no_file_states_it(own, token, expected, monkeypatch):
    tokenizer = SimpleNamespace(get_token=lambda name: token if name == "eos_token_id" else None)
    monkeypatch.setattr(pipeline, "TextTokenizer", SimpleNamespace(read=lambda *_: tokenizer))
    for name in ("compile_language_model", "read_model", "find_file"):
        monkeypatch.setattr(pipeline, name, lambda *_: None)
    config = GenerationConfig(**own)
    monkeypatch.setattr(pipeline, "GenerationConfig", SimpleNamespace(read=lambda _: config))
    found = pipeline.TextGenerator("folder").config
    assert (found.eos_token_id, tuple(found.stop_token_ids)) == expected
