"""Texts of speech, equal to OpenVINO GenAI's, and features, equal to those of transformers."""

from __future__ import annotations

import copy
import json
import re
import shutil
import wave
from dataclasses import replace

import numpy as np
import pytest
from command_line import call
from generated_folders import (
    EXAMPLE,
    build_speech_decoder,
    copy_tokenizer,
    make_embedding_folder,
    make_sound,
    make_speech_folder,
    save_decoder,
    write_sound,
)

import irrun
from irrun.generation.sound import FeatureExtractor, read_sound
from irrun.generation.transcription import SpeechRecognizer
from irrun.generation.transcription_config import TranscriptionConfig


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return make_speech_folder(tmp_path_factory.mktemp("speech"))


@pytest.fixture(scope="module")
def recognizer(folder):
    return SpeechRecognizer(folder)


@pytest.mark.parametrize("bands", [80, 128])
@pytest.mark.parametrize("length", [300, 480_000, 500_123])
def test_features_equal_those_of_transformers(bands, length):
    transformers = pytest.importorskip("transformers")
    extractor = transformers.WhisperFeatureExtractor(feature_size=bands)
    samples = make_sound(length) + np.random.default_rng(0).standard_normal(length).astype(np.float32) / 100
    padding = "max_length" if length <= 480_000 else "longest"
    expected = extractor(samples, sampling_rate=16000, return_tensors="np", truncation=False, padding=padding)
    features = FeatureExtractor(feature_size=bands).extract(samples)
    assert features.dtype == np.float32
    np.testing.assert_allclose(features, expected.input_features[0], atol=1e-6)


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"language": "<|de|>"},
        {"task": "translate", "language": "<|en|>"},
        {"return_timestamps": True},
        {"initial_prompt": "Zoe", "max_new_tokens": 9},
        {"hotwords": "Mila", "return_timestamps": True},
    ],
)
def test_texts_equal_those_of_openvino_genai(folder, recognizer, options):
    genai = pytest.importorskip("openvino_genai")
    oracle = genai.WhisperPipeline(folder, "CPU", INFERENCE_PRECISION_HINT="f32")
    own = SpeechRecognizer(folder)
    own.extractor = replace(own.extractor, reflects_end=False)
    values = {name: value.strip("<|>") if name == "language" else value for name, value in options.items()}
    for length in (4000, 16000, 40000):
        samples = make_sound(length)
        expected = oracle.generate(samples, **options)
        result = own.transcribe(samples, own.config.replace(values))
        assert (result.text, result.language) == (expected.texts[0], expected.language)
        assert [part.text for part in result.segments] == [part.text for part in expected.chunks or ()]
        times = [(part.start, part.end) for part in result.segments]
        wanted = [(part.start_ts, part.end_ts) for part in expected.chunks or ()]
        np.testing.assert_allclose(times, wanted, atol=1e-5)


def test_parts_of_texts_are_streamed(folder):
    for options in ({}, {"return_timestamps": True}):
        parts = []
        result = irrun.transcribe(folder, make_sound(40000), options, parts.append)
        assert (result.duration, "".join(parts)) == (2.5, result.text)
        assert len(parts) > 1
        stopped = irrun.transcribe(folder, make_sound(40000), options, lambda part: True)
        assert result.text.startswith(stopped.text)
        assert 0 < len(stopped.text) < len(result.text)


def test_decoders_without_variables_give_the_same_text(folder, tmp_path, recognizer):
    shutil.copytree(folder, tmp_path / "other")
    save_decoder(tmp_path / "other", build_speech_decoder(0, is_stateful=False))
    expected = recognizer.transcribe(make_sound(4000))
    assert SpeechRecognizer(tmp_path / "other").transcribe(make_sound(4000)).tokens == expected.tokens


def test_inputs_of_decoders(recognizer):
    """Decoders exported by other tools have the positions of the tokens as an input."""

    class Request:
        def infer(self, inputs, timeout):
            self.inputs, self.timeout = inputs, timeout
            return {"logits": np.array([[[9, 9, 9], [1, 2, 3]]], np.float16)}

    own, request, states = copy.copy(recognizer), Request(), np.zeros((1, 2, 3), np.float32)
    own._inputs = {"input_ids", "encoder_hidden_states", "cache_position", "beam_idx"}
    scores = own._run(request, states, 3, [7, 8])
    assert (scores.dtype, scores.tolist()) == (np.float32, [1, 2, 3])
    assert request.inputs.keys() == own._inputs
    assert {k: v.tolist() for k, v in request.inputs.items() if k != "encoder_hidden_states"} == {
        "input_ids": [[7, 8]],
        "cache_position": [3, 4],
        "beam_idx": [0],
    }
    assert request.inputs["encoder_hidden_states"] is states
    own._inputs = {"input_ids"}
    own._run(request, states, 0, [7])
    assert request.inputs.keys() == {"input_ids"}


@pytest.mark.parametrize("width", [1, 2, 3, 4])
@pytest.mark.parametrize("channels", [1, 2])
def test_sounds_are_read(tmp_path, width, channels):
    samples = make_sound(1000)
    path = write_sound(tmp_path / "a.wav", samples, width=width, channels=channels)
    found = read_sound(path)
    assert (found.dtype, found.shape) == (np.float32, (1000,))
    np.testing.assert_allclose(found, samples, atol=1.1 / 2 ** (8 * width - 1) + 1e-7)


@pytest.mark.parametrize("rate", [8000, 11025, 44100, 48000])
def test_other_sampling_rates_are_converted(tmp_path, rate):
    times = np.arange(rate) / rate
    path = write_sound(tmp_path / "a.wav", np.sin(2 * np.pi * 440 * times) / 2, rate=rate)
    expected = np.sin(2 * np.pi * 440 * np.arange(16000) / 16000) / 2
    np.testing.assert_allclose(read_sound(path), expected, atol=1e-3)


def test_the_command_prints_the_text(capsys, folder, tmp_path):
    path = write_sound(tmp_path / "a.wav")
    expected = irrun.transcribe(folder, path)
    code, out, err = call(capsys, "transcribe", folder, path)
    assert (code, out) == (0, expected.text + "\n")
    assert re.fullmatch(r"1 s of (en|de) in [\d.e-]+ s\n", err)
    code, out, _ = call(capsys, "transcribe", folder, path, "--return-timestamps", "--language", "de")
    parts = irrun.transcribe(folder, path, {"return_timestamps": True, "language": "de"}).segments
    assert out == "".join(f"{part.start:.2f} to {part.end:.2f}: {part.text}\n" for part in parts)
    code, out, _ = call(capsys, "transcribe", folder, path, path, "--json")
    first, second = json.loads(out)
    assert (first["text"], first["tokens"]) == (expected.text, second["tokens"])


def write_bytes(path, content):
    path.write_bytes(content)
    return path


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda path: path, "cannot read .*: No such file"),
        (lambda path: path.parent, "cannot read .*: (Is a directory|Permission denied)"),
        (lambda path: write_bytes(path, b""), "is not a WAV file with PCM samples: the file is truncated"),
        (lambda path: write_bytes(path, b"ID3" * 40), "is not a WAV file with PCM samples: file does not start with"),
        (lambda path: write_bytes(path, write_sound(path).read_bytes()[:30]), "is not a WAV file with PCM samples"),
        (lambda path: write_bytes(path, write_sound(path).read_bytes()[:44]), "has no samples"),
        (lambda path: write_sound(path, np.zeros(10)), "expected one channel of more than 200 samples"),
        (lambda path: write_sound(path, rate=10**9), "expected one channel of more than 200 samples"),
    ],
)
def test_broken_sounds_end_in_one_line(capsys, folder, tmp_path, make, message):
    code, out, err = call(capsys, "transcribe", folder, make(tmp_path / "a.wav"))
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert re.search(message, err)


@pytest.mark.parametrize(
    ("position", "content", "message"),
    [
        (24, b"\0\0\0\0", "has 16 bits, 1 channels and 0 Hz, which is not supported"),
        (34, b"\x28\0", "has 40 bits, 1 channels and 16000 Hz, which is not supported"),
        (24, b"\x01\0\0\0", None),
    ],
)
def test_formats_of_sounds(position, content, message, tmp_path):
    path = write_sound(tmp_path / "a.wav")
    bytes_ = bytearray(path.read_bytes())
    bytes_[position : position + len(content)] = content
    path.write_bytes(bytes_)
    if message is None:
        assert read_sound(path, 1).dtype == np.float32
        return
    with pytest.raises(irrun.InputError, match=message):
        read_sound(path)


def test_files_of_floating_point_samples_are_refused(tmp_path):
    path = write_sound(tmp_path / "a.wav", width=4)
    content = bytearray(path.read_bytes())
    content[20] = 3  # WAVE_FORMAT_IEEE_FLOAT
    path.write_bytes(bytes(content))
    with pytest.raises(irrun.InputError, match="not a WAV file with PCM samples: unknown format: 3"):
        read_sound(path)
    with wave.open(str(write_sound(path)), "rb") as reader:
        assert reader.getnframes() == 16000


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"language": "fr"}, "does not support the language 'fr'; it supports de, en"),
        ({"task": "sing"}, "task is 'sing', expected None, 'transcribe' or 'translate'"),
        ({"is_multilingual": False, "language": "en"}, "the model supports English only"),
        ({"tempo": 3}, "unknown option tempo"),
        ({"max_new_tokens": 0}, "max_new_tokens is 0; expected at least 1"),
    ],
)
def test_invalid_options_are_refused(recognizer, change, message):
    with pytest.raises(irrun.InputError, match=message):
        recognizer.config.replace(change)


@pytest.mark.parametrize(
    ("name", "change", "message"),
    [
        ("generation", {"suppress_tokens": "abc"}, "suppress_tokens is 'abc'; expected a list of tokens"),
        ("generation", {"begin_suppress_tokens": [1.5]}, "begin_suppress_tokens is 1.5; expected a token"),
        ("generation", {"lang_to_id": [1]}, "lang_to_id is a list of 1; expected languages"),
        ("generation", {"lang_to_id": {"<|en|>": "x"}}, "lang_to_id is 'x'; expected a token"),
        ("generation", {"decoder_start_token_id": 10**30}, "decoder_start_token_id is .*; expected a token"),
        ("generation", {"no_timestamps_token_id": -5}, "no_timestamps_token_id is -5; expected a token"),
        ("generation", {"task_to_id": {"transcribe": None}}, "transcribe_token_id is None; expected a token"),
        ("generation", {"eos_token_id": "e"}, "eos_token_id is 'e'; expected"),
        ("generation", {"is_multilingual": "yes"}, "is_multilingual is 'yes', expected True or False"),
        ("preprocessor", {"feature_size": 10**9}, "feature_size is 1000000000; expected 1 to 1024"),
        ("preprocessor", {"hop_length": 10**5}, "hop_length is 100000, longer than a chunk"),
        ("preprocessor", {"chunk_length": "x"}, "chunk_length is 'x'; expected 1 to 600"),
    ],
)
def test_wrong_entries_are_refused(capsys, folder, tmp_path, name, change, message):
    shutil.copytree(folder, tmp_path / "other")
    path = tmp_path / "other" / f"{name}_config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **change}))
    code, out, err = call(capsys, "transcribe", tmp_path / "other", write_sound(tmp_path / "a.wav"))
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert re.search(message, err)


def test_tokens_that_end_texts(folder, tmp_path):
    """The tokenizer names one if the configuration does not."""
    other = shutil.copytree(folder, tmp_path / "other")
    path = other / "generation_config.json"
    values = json.loads(path.read_text())
    assert SpeechRecognizer(other).config.generation.end_tokens == {values.pop("eos_token_id")} == {80}
    path.write_text(json.dumps(values))
    assert SpeechRecognizer(other).config.generation.end_tokens == {10}
    for name in ("tokenizer", "detokenizer"):
        model = other / f"openvino_{name}.xml"
        model.write_text(model.read_text().replace("eos_token_id", "another"))
    with pytest.raises(irrun.InputError, match="other has no eos_token_id, the token that ends a text"):
        SpeechRecognizer(other)
    path.write_text(json.dumps({**values, "stop_token_ids": [3]}))
    assert SpeechRecognizer(other).config.generation.end_tokens == {3}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"suppress_tokens": [500]}, "contains the token 500, but the decoder has 128 tokens"),
        ({"lang_to_id": {"<|en|>": 128}}, "contains the token 128"),
        ({"lang_to_id": {}}, "has no lang_to_id, the tokens of languages"),
    ],
)
def test_wrong_tokens_are_refused(tmp_path, changes, message):
    recognizer = SpeechRecognizer(make_speech_folder(tmp_path, **changes))
    with pytest.raises(irrun.IrrunError, match=message):
        recognizer.transcribe(make_sound())


def test_english_models_force_fewer_tokens(tmp_path):
    recognizer = SpeechRecognizer(make_speech_folder(tmp_path, is_multilingual=False, lang_to_id={}))
    assert recognizer.transcribe(make_sound()).language == "en"


def test_other_folders_are_refused(capsys, folder, tmp_path):
    sound = write_sound(tmp_path / "a.wav")
    code, _, err = call(capsys, "transcribe", EXAMPLE, sound)
    assert code == 2
    assert "has no openvino_encoder_model.xml" in err
    other = copy_tokenizer(tmp_path / "other")
    make_embedding_folder(tmp_path / "bert")
    for name in ("encoder", "decoder"):
        for suffix in ("xml", "bin"):
            shutil.copy(tmp_path / "bert" / f"openvino_model.{suffix}", other / f"openvino_{name}_model.{suffix}")
    code, _, err = call(capsys, "transcribe", other, sound)
    assert (code, err.count("\n")) == (2, 1)
    assert "the inputs are input_ids, attention_mask, token_type_ids" in err
    shutil.copytree(folder, tmp_path / "broken")
    (tmp_path / "broken" / "preprocessor_config.json").write_text("{")
    with pytest.raises(irrun.InputError, match=r"cannot read .*preprocessor_config.json"):
        SpeechRecognizer(tmp_path / "broken")
    with pytest.raises(irrun.InputError, match="infinite values or NaN"):
        irrun.transcribe(folder, np.full(16000, np.nan, np.float32))


def test_configurations_are_read(folder):
    config = TranscriptionConfig.read(folder)
    assert (config.transcribe_token_id, config.translate_token_id, config.suppress_tokens[-1]) == (84, 85, 87)
    assert (config.generation.eos_token_id, config.generation.max_length) == (80, 32)
