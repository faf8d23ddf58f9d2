"""Programs for OpenVINO GenAI, with the real module and with its replacement.

The real one computes in f32 here; its default precision depends on the processor.
"""

from __future__ import annotations

import importlib
import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from generated_folders import EXAMPLE, make_embedding_folder, make_sound, make_speech_folder

import irrun.openvino_genai as own
from irrun.openvino import Tensor

PROMPT = "Once there was a clever cat named Zoe"
F32 = {"INFERENCE_PRECISION_HINT": "f32"}
CACHE_F32 = {**F32, "KV_CACHE_PRECISION": "f32"}
TEMPLATE = "{% for m in messages %}{{ m.content }}{% if not loop.last %} {% endif %}{% endfor %}"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """The example under the names of files that OpenVINO GenAI requires."""
    path = tmp_path_factory.mktemp("genai")
    for file in EXAMPLE.glob("*.[xb][mi][ln]"):
        shutil.copy(file, path / file.name.replace("model.", "openvino_model.", file.name.startswith("model.")))
    return path


@pytest.fixture(scope="module", params=["openvino_genai", "irrun.openvino_genai"])
def genai(request):
    """OpenVINO GenAI, then its replacement."""
    pytest.importorskip("regex")
    if request.param == "openvino_genai":
        return pytest.importorskip("openvino_genai")
    return importlib.import_module(request.param)


@pytest.fixture(scope="module")
def pipe(genai, folder):
    return genai.LLMPipeline(folder, "CPU", **CACHE_F32)


def get_tensor_class(genai):
    return importlib.import_module("openvino" if genai.__name__ == "openvino_genai" else "irrun.openvino").Tensor


def test_a_text_gives_a_text(pipe):
    assert pipe.generate(PROMPT, max_new_tokens=20) == " who lived by the ri"
    assert pipe(PROMPT, max_new_tokens=8, echo=True) == PROMPT + " who liv"
    assert pipe.generate(PROMPT, max_new_tokens=20, stop_strings={" lived"}) == " who"
    values = {"stop_strings": {" lived"}, "include_stop_str_in_output": True}
    assert pipe.generate(PROMPT, max_new_tokens=20, **values) == " who lived"
    drawn = pipe.generate(PROMPT, max_new_tokens=60, do_sample=True, temperature=1.5, top_k=3, rng_seed=3)
    assert drawn == " who lived under a bridge. Every day Zoe went out to look fo"


def test_texts_give_results(genai, pipe):
    results = pipe.generate(["Once there", "A dog"], max_new_tokens=8)
    assert (results.texts, results.scores, results.parsed) == ([" was a s", "o. Then "], [0, 0], [])
    assert [reason.name for reason in results.finish_reasons] == ["LENGTH", "LENGTH"]
    assert str(results) == "0.000000:  was a s\n0.000000: o. Then "
    assert repr(results.finish_reasons[0]) == "<GenerationFinishReason.LENGTH: 2>"
    assert str(pipe.generate(["Once there"], max_new_tokens=3)) == " wa"
    (score,) = pipe.generate(["Once there"], max_new_tokens=8, logprobs=1).scores
    assert score == pytest.approx(-0.9907, abs=2e-3)


BEAMS = """\
-0.081182:  who lived near the 
-0.090065:  who lived by the ri
-0.090148:  who lived under a b
-0.091242:  who lived on the gr
-0.092016:  who lived behind th
-0.864029:  bedgehog named Mila
-0.864639:  bedgehog named Emil
-0.910588:  bedgehog named Otto"""


def test_beams_are_printed_with_their_scores(genai, pipe):
    config = genai.GenerationConfig()
    config.max_new_tokens, config.num_beam_groups, config.num_beams = 20, 3, 15
    config.diversity_penalty, config.num_return_sequences = 1, 8
    results = pipe.generate([PROMPT], config)
    expected = [line.split(": ", 1) for line in BEAMS.splitlines()]
    assert results.texts == [text for _, text in expected]
    np.testing.assert_allclose(results.scores, [float(score) for score, _ in expected], atol=5e-6)
    assert re.sub(r"\d\d:", ":", str(results)) == re.sub(r"\d\d:", ":", BEAMS)
    config.num_return_sequences, config.stop_criteria = 1, genai.StopCriteria.EARLY
    assert pipe.generate(PROMPT, config) == " who lived near the "


@pytest.mark.parametrize(
    ("options", "texts", "scores"),
    [
        ({"temperature": 1.7, "rng_seed": 3}, [" was a m", "o, and t"], [-2.04638, -5.85194]),
        ({"top_k": 3, "temperature": 1.5, "rng_seed": 3}, [" was a s", "o. Then "], [-0.82253, -0.93649]),
        ({"top_p": 0.8, "temperature": 1.5, "rng_seed": 3}, [" was a c", "o. Nobod"], [-1.25882, -2.55666]),
        (
            {"num_return_sequences": 2, "top_k": 5, "rng_seed": 1},
            [" was a s", " was a c", "odes to ", "o.Then a"],
            [-0.98742, -1.36153, -7.72689, -10.04073],
        ),
        ({"rng_seed": 3, "stop_strings": {"was", "The"}}, [" ", "o. "], [0, -0.27095]),
    ],
)
def test_texts_are_drawn_with_their_scores(pipe, options, texts, scores):
    results = pipe.generate(["Once there", "A dog"], max_new_tokens=8, do_sample=True, **options)
    assert results.texts == texts
    np.testing.assert_allclose(results.scores, scores, atol=2e-4)


def test_other_inputs_are_refused(genai, pipe):
    for inputs in (["Once there", 3], [3], 3):
        with pytest.raises(TypeError, match="incompatible function arguments"):
            pipe.generate(inputs, max_new_tokens=2)
    with pytest.raises(TypeError, match="incompatible function arguments"):
        pipe.generate("Once there", {"max_new_tokens": 2})


def test_times_of_steps_are_parts_of_the_whole(pipe):
    raw = pipe.generate(["Once there"], max_new_tokens=5).perf_metrics.raw_metrics
    total = raw.generate_durations[0]
    assert len(raw.m_new_token_times) == 5
    assert 0 < sum(raw.token_infer_durations) < total
    assert 0 <= sum(raw.sampling_durations) < total
    assert 0 < raw.m_times_to_first_token[0] < total
    assert 0 <= raw.tokenization_durations[0] < total


def test_tokens_give_tokens(genai, pipe):
    tokenizer = pipe.get_tokenizer()
    results = pipe.generate(tokenizer.encode(["Once there", "A dog"]), max_new_tokens=8)
    assert [tokenizer.decode(row) for row in results.tokens] == [" was a s", "o. Then "]
    tensor = get_tensor_class(genai)(np.array([[*b"Once there"]], np.int64))
    assert pipe.generate(tensor, max_new_tokens=4).tokens == [[*b" was"]]


def test_configurations_have_the_same_defaults(genai, pipe):
    config = genai.GenerationConfig()
    options = {name: getattr(config, name) for name in own.GenerationConfig._OPTIONS}
    options["stop_criteria"] = options["stop_criteria"].name
    expected = {name: default for name, (default, _) in own.GenerationConfig._OPTIONS.items()}
    assert options == {**expected, "stop_criteria": "HEURISTIC"}
    assert (pipe.get_generation_config().eos_token_id, pipe.get_generation_config().stop_token_ids) == (10, {10})
    config.max_new_tokens, config.eos_token_id, config.stop_token_ids = 5, 10, {10}
    before = pipe.get_generation_config()
    pipe.set_generation_config(config)
    assert pipe.generate("Once there") == " was "
    pipe.set_generation_config(before)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "Either 'eos_token_id', or 'stop_token_ids'"),
        ({"max_new_tokens": 5, "num_beams": 3, "num_beam_groups": 2}, "should be divisible by"),
        ({"max_new_tokens": 5, "do_sample": True, "temperature": -1.0}, "temperature must be a strictly positive"),
        ({"max_new_tokens": 5, "do_sample": True, "top_p": 0.0}, "top_p must be a positive float"),
        ({"max_new_tokens": 5, "presence_penalty": 3.0}, "'presence_penalty' penalty must be within"),
        ({"max_new_tokens": 5, "num_return_sequences": 2}, "'num_return_sequences' can be more than 1 only"),
    ],
)
def test_invalid_configurations_are_refused(genai, options, message):
    with pytest.raises(RuntimeError, match=message):
        genai.GenerationConfig(**options).validate()


def test_configurations_check_types(genai):
    config = genai.GenerationConfig(max_new_tokens=3, unknown=1)
    with pytest.raises(TypeError):
        config.max_new_tokens = "x"
    with pytest.raises(AttributeError):
        config.max_tokens = 3
    config.update_generation_config(eos_token_id=3)
    assert config.stop_token_ids == {3}
    config.eos_token_id = 4
    with pytest.raises(RuntimeError, match="'stop_token_ids' must contain 'eos_token_id'"):
        config.validate()


def test_files_of_configurations_are_read(genai, tmp_path):
    path = tmp_path / "generation_config.json"
    path.write_text(json.dumps({"eos_token_id": [5, 6], "max_new_tokens": 7, "do_sample": True, "unknown": 1}))
    config = genai.GenerationConfig(path)
    assert (config.eos_token_id, config.stop_token_ids, config.max_new_tokens, config.do_sample) == (5, {5, 6}, 7, True)


def test_functions_receive_parts_of_texts(genai, pipe):
    parts = []
    assert pipe.generate("Once there", max_new_tokens=8, streamer=parts.append) == " was a s"
    assert "".join(parts) == " was a s"
    if genai.__name__ != "openvino_genai":  # whose thread may take several tokens at once
        assert parts == [" ", "w", "a", "s", " ", "a", " s"]
    parts.clear()
    stopped = pipe.generate("Once there", max_new_tokens=80, streamer=lambda part: genai.StreamingStatus.STOP)
    whole = pipe.generate("Once there", max_new_tokens=80)
    assert whole.startswith(stopped)
    with pytest.raises(RuntimeError, match="streaming is possible only with batch size=1"):
        pipe.generate(["Once there", "A dog"], max_new_tokens=8, streamer=parts.append)


def test_streamers_receive_tokens(genai, pipe):
    class Streamer(genai.StreamerBase):  # type: ignore[name-defined]
        def __init__(self):
            super().__init__()
            self.tokens, self.has_ended = [], False

        def write(self, token):
            self.tokens += token
            return genai.StreamingStatus.RUNNING

        def end(self):
            self.has_ended = True

    streamer = Streamer()
    pipe.generate("Once there", max_new_tokens=8, streamer=streamer)
    assert (bytes(streamer.tokens), streamer.has_ended) == (b" was a s", True)
    parts = []
    writer = genai.TextStreamer(pipe.get_tokenizer(), lambda part: bool(parts.append(part)))  # type: ignore[func-returns-value]
    for token in b"abcd\nef":
        assert writer.write(token) == genai.StreamingStatus.RUNNING
    writer.write([*b"gh"])
    writer.end()
    assert parts == ["a", "b", "c", "d", "ef", "gh"]


def test_chats_apply_the_template(genai, folder):
    tokenizer = genai.Tokenizer(folder)
    history = genai.ChatHistory([{"role": "user", "content": "Once"}])
    history.append({"role": "user", "content": "there"})
    with pytest.raises(RuntimeError, match="Chat template wasn't found"):
        tokenizer.apply_chat_template(history, True)
    tokenizer.set_chat_template(TEMPLATE)
    assert tokenizer.apply_chat_template(history, True) == "Once there"
    with_prompt = (
        "{{ bos_token }}{% for m in messages %}<{{ m.role }}>{% endfor %}{% if add_generation_prompt %}:{% endif %}"
    )
    assert tokenizer.apply_chat_template([{"role": "user", "content": ""}], True, with_prompt) == "<user>:"
    pipe = genai.LLMPipeline(folder, tokenizer, "CPU", **F32)
    results = pipe.generate(history, max_new_tokens=5)
    assert (str(results), results.texts) == (" was ", [" was "])
    with pytest.warns(DeprecationWarning, match="start_chat"):
        pipe.start_chat("Once")
    assert pipe.generate("there", max_new_tokens=5) == " was "
    assert pipe.generate("a", max_new_tokens=3)
    with pytest.warns(DeprecationWarning, match="finish_chat"):
        pipe.finish_chat()
    assert history.get_messages()[1] == history.pop()
    assert (len(history), bool(history), history.get_tools(), history.get_extra_context()) == (1, True, [], {})
    history.clear()
    with pytest.raises(IndexError):
        history.pop()


def test_tokenizers(genai, folder):
    tokenizer = genai.Tokenizer(folder)
    assert (tokenizer.get_eos_token(), tokenizer.get_eos_token_id(), tokenizer.get_pad_token_id()) == ("\n", 10, -1)
    inputs = tokenizer.encode(["a", "bcd"], padding_side="left")
    np.testing.assert_array_equal(inputs.input_ids.data, [[0, 0, 97], [98, 99, 100]])
    np.testing.assert_array_equal(inputs.attention_mask.data, [[0, 0, 1], [1, 1, 1]])
    assert tokenizer.encode("abc").input_ids.get_shape() == [1, 3]
    assert tokenizer.decode([72, 73]) == "HI"
    assert tokenizer.decode([[72, 73], [74]]) == ["HI", "J"]
    assert tokenizer.decode(tokenizer.encode("abc").input_ids) == ["abc"]
    assert tokenizer.decode([10]) == ""
    assert tokenizer.decode([10], skip_special_tokens=False) == "\n"
    assert tokenizer.get_vocab()[b"A"] == 65
    assert tokenizer.get_vocab_vector()[65] == "A"
    assert not tokenizer.supports_paired_input()


def test_special_tokens_are_read_from_files(genai, folder, tmp_path):
    shutil.copytree(folder, tmp_path / "other")
    added = {"1": {"content": "<pad>"}, "2": {"content": "<bos>"}}
    values = {"bos_token": "<bos>", "pad_token": "<pad>", "added_tokens_decoder": added}
    (tmp_path / "other" / "tokenizer_config.json").write_text(json.dumps({**values, "chat_template": TEMPLATE}))
    tokenizer = genai.Tokenizer(tmp_path / "other")
    assert (tokenizer.get_pad_token(), tokenizer.get_pad_token_id()) == ("<pad>", 1)
    assert (tokenizer.get_bos_token(), tokenizer.get_bos_token_id()) == ("<bos>", 2)
    assert (tokenizer.get_eos_token_id(), tokenizer.chat_template) == (10, TEMPLATE)
    assert tokenizer.get_original_chat_template() == TEMPLATE


def test_models_in_memory(genai, folder):
    tensor = get_tensor_class(genai)

    def read(name):
        return (folder / f"{name}.xml").read_text(), tensor(np.fromfile(folder / f"{name}.bin", np.uint8))

    tokenizer = genai.Tokenizer(*read("openvino_tokenizer"), *read("openvino_detokenizer"))
    pipe = genai.LLMPipeline(*read("openvino_model"), tokenizer, "CPU", **F32)
    assert pipe.generate(PROMPT, max_new_tokens=8) == " who liv"


def test_metrics_count_tokens_and_times(pipe):
    metrics = pipe.generate([PROMPT], max_new_tokens=8).perf_metrics
    metrics += pipe.generate([PROMPT], max_new_tokens=8).perf_metrics
    assert (metrics.get_num_generated_tokens(), metrics.get_num_input_tokens()) == (16, 2 * len(PROMPT))
    raw = metrics.raw_metrics
    assert (len(raw.m_durations), len(raw.m_times_to_first_token), len(raw.token_infer_durations)) == (14, 2, 16)
    assert 0 < metrics.get_ttft().mean <= metrics.get_generate_duration().mean
    tpot, throughput = metrics.get_tpot(), metrics.get_throughput()
    assert throughput.mean == pytest.approx(1000 / tpot.mean, rel=1e-4)
    mean, std = metrics.get_tpot()
    assert (mean, std) == (tpot.mean, tpot.std)
    assert (metrics.get_load_time() > 0, tuple(metrics.get_chat_template_duration())) == (True, (-1, -1))


def test_vectors_of_texts(genai, tmp_path):
    folder = make_embedding_folder(tmp_path)
    config = genai.TextEmbeddingPipeline.Config(normalize=False, query_instruction="q: ")
    config.pooling_type = genai.TextEmbeddingPipeline.PoolingType.MEAN
    assert repr(config.pooling_type) == "<PoolingType.MEAN: 1>"
    pipe = genai.TextEmbeddingPipeline(folder, "CPU", config, **F32)
    documents, query = pipe.embed_documents(["q: a", "a longer text"]), pipe.embed_query("a")
    assert np.shape(documents) == (2, 32)
    np.testing.assert_allclose(documents[0], query, atol=1e-5)
    pipe.start_embed_query_async("a")
    np.testing.assert_allclose(pipe.wait_embed_query(), query, atol=1e-6)
    expected = irrun_vectors(folder)
    np.testing.assert_allclose(documents, expected, atol=1e-5)


def irrun_vectors(folder):
    config = {"pooling_type": "mean", "normalize": False}
    return importlib.import_module("irrun").embed(folder, ["q: a", "a longer text"], config)


@pytest.fixture(scope="module")
def speech_folder(tmp_path_factory):
    return make_speech_folder(tmp_path_factory.mktemp("speech"))


def test_texts_of_speech(genai, speech_folder):
    expected = importlib.import_module("irrun").transcribe(speech_folder, make_sound(4000), {"return_timestamps": True})
    pipe = genai.WhisperPipeline(speech_folder, "CPU", **F32)
    results = pipe.generate(make_sound(4000).tolist(), return_timestamps=True)
    assert (results.texts, results.scores, str(results)) == ([expected.text], [1], expected.text)
    assert (results.language, results.words) == (expected.language, None)
    assert [chunk.text for chunk in results.chunks] == [part.text for part in expected.segments]
    assert results.chunks[0].start_ts == np.float32(expected.segments[0].start)
    config = pipe.get_generation_config()
    assert (config.transcribe_token_id, config.eos_token_id, config.apply_chat_template) == (84, 80, False)
    config.language, config.max_new_tokens = "<|de|>", 6
    parts = []
    results = pipe.generate(make_sound(4000), config, parts.append)
    assert (results.chunks, results.language, "".join(parts)) == (None, "de", results.texts[0])
    assert pipe.get_tokenizer().decode([72]) == "H"
    assert results.perf_metrics.get_load_time() > 0
    assert len(results.perf_metrics.raw_metrics.generate_durations) == 1


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"language": "<|fr|>"}, "fr"),
        ({"task": "sing"}, "Task provided: 'sing'"),
        ({"is_multilingual": False, "language": "<|en|>"}, "Cannot specify 'language'"),
        ({"word_timestamps": True}, "word_timestamps"),
    ],
)
def test_invalid_options_of_speech_are_refused(genai, speech_folder, options, message):
    pipe = genai.WhisperPipeline(speech_folder, "CPU")
    with pytest.raises(RuntimeError, match=message):
        pipe.generate(make_sound(4000), **options)


def test_configurations_of_speech_have_the_same_defaults(genai):
    config = genai.WhisperGenerationConfig()
    names = set(own.WhisperGenerationConfig._OPTIONS) - set(own.GenerationConfig._OPTIONS)
    expected = {name: own.WhisperGenerationConfig._OPTIONS[name][0] for name in names}
    assert {name: getattr(config, name) for name in names} == expected


def test_mistakes_are_errors_of_the_same_classes(genai, pipe, folder, tmp_path):
    with pytest.raises(TypeError):
        pipe.generate(5)
    with pytest.raises(RuntimeError, match="Prompt length cannot be 0"):
        pipe.generate("", max_new_tokens=3)
    with pytest.raises(RuntimeError, match="Could not find a model in the directory"):
        genai.LLMPipeline(tmp_path / "missing", "CPU")
    with pytest.raises(RuntimeError, match='"XPU" name is not registered'):
        genai.LLMPipeline(folder, "XPU")
    with pytest.raises(RuntimeError, match="Unsupported property UNKNOWN"):
        genai.LLMPipeline(folder, "CPU", UNKNOWN=1)


def test_other_names_are_errors_that_say_so():
    assert isinstance(own.VLMPipeline, type)
    assert own.VLMPipeline is own.VLMPipeline
    assert not isinstance(5, own.VLMPipeline)
    with pytest.raises(RuntimeError, match=r"^irrun does not provide openvino_genai\.VLMPipeline$"):
        own.VLMPipeline("folder", "CPU")
    with pytest.raises(RuntimeError, match=r"^irrun does not provide openvino_genai\.Scheduler$"):
        own.Scheduler.from_config  # noqa: B018
    with pytest.raises(AttributeError, match="type object 'Scheduler' has no attribute '__wrapped__'"):
        own.Scheduler.__wrapped__  # noqa: B018
    with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
        own.nothing  # noqa: B018
    with pytest.raises(RuntimeError, match="irrun does not support adapters"):
        own.LLMPipeline(EXAMPLE, "CPU", adapters=own.AdapterConfig(own.Adapter()))
    with pytest.raises(RuntimeError, match="irrun does not support adapters"):
        own.Adapter("adapter.safetensors")


def test_greedy_texts_are_the_same_with_proposed_tokens(folder, genai):
    pipe = genai.LLMPipeline(folder, "CPU", **CACHE_F32)
    expected = pipe.generate(PROMPT, max_new_tokens=20)
    assert pipe.generate(PROMPT, max_new_tokens=20, branching_factor=2) == expected
    config = genai.GenerationConfig()
    config.max_new_tokens, config.num_assistant_tokens, config.max_ngram_size = 20, 5, 3
    pipe = genai.LLMPipeline(folder, "CPU", prompt_lookup=True, **CACHE_F32)
    texts: list[str] = []
    assert pipe.generate(PROMPT, config, texts.append) == expected
    assert "".join(texts) == expected
    draft = genai.draft_model(folder, "CPU", **CACHE_F32)
    pipe = genai.LLMPipeline(folder, "CPU", draft_model=draft, **CACHE_F32)
    assert pipe.generate(PROMPT, max_new_tokens=20, num_assistant_tokens=4) == expected


def test_proposed_tokens_need_greedy_texts_and_a_model(folder, tmp_path):
    with pytest.raises(RuntimeError, match="does not support the option num_assistant_tokens"):
        own.LLMPipeline(folder, "CPU").generate(PROMPT, max_new_tokens=2, num_assistant_tokens=4, do_sample=True)
    with pytest.raises(RuntimeError, match="Could not find a model in the directory"):
        own.draft_model(tmp_path)
    with pytest.raises(RuntimeError, match="Unsupported property UNKNOWN"):
        own.draft_model(folder, UNKNOWN=1)
    with pytest.raises(TypeError, match=r"expected the result of openvino_genai\.draft_model"):
        own.LLMPipeline(folder, "CPU", draft_model=object())


def test_all_names_of_openvino_genai_are_known():
    extension = pytest.importorskip("openvino_genai.py_openvino_genai")
    names = {name for name in dir(extension) if not name.startswith("_")}
    assert {name for name in names if name not in own._ABSENT and not hasattr(own, name)} == set()
    assert {name for name in own._ABSENT if name not in names} == set()


def make_batches(genai, folder):
    config = genai.SchedulerConfig()
    config.cache_size = 1
    return genai.ContinuousBatchingPipeline(folder, config, "CPU", CACHE_F32)


def test_requests_give_results(genai, folder):
    pipe = make_batches(genai, folder)
    config = genai.GenerationConfig(max_new_tokens=8)
    first, second = pipe.generate(["Once there was a cat", "A dog"], [config, config])
    assert (first.m_request_id, second.m_request_id) == (0, 1)
    assert (first.m_generation_ids, second.get_generation_ids()) == ([" hare na"], ["o. Then "])
    assert first.m_scores == second.m_scores == [0]
    assert first.m_status == genai.GenerationStatus.FINISHED
    assert repr(second) == "<py_continuous_batching.GenerationResult 1\n{ 0, o. Then  }\n\n>"
    assert first.perf_metrics.get_num_input_tokens() == 20
    tokens = pipe.get_tokenizer().encode("Once there was a cat").input_ids
    (result,) = pipe.generate([tokens], [config])
    assert bytes(result.m_generation_ids[0]) == b" hare na"
    parts: list[str] = []
    (result,) = pipe.generate("A dog", config, parts.append)
    assert "".join(parts) == result.m_generation_ids[0]
    (beams,) = pipe.generate(["Once"], [genai.GenerationConfig(max_new_tokens=6, num_beams=3, num_return_sequences=2)])
    assert len(beams.m_generation_ids) == 2
    assert beams.m_scores[0] > beams.m_scores[1]
    assert pipe.get_config().eos_token_id == pipe.get_tokenizer().get_eos_token_id()


def test_requests_run_step_by_step(genai, folder):
    pipe = make_batches(genai, folder)
    long = pipe.add_request(7, "Once there was a cat", genai.GenerationConfig(max_new_tokens=5))
    tokens = pipe.get_tokenizer().encode("A dog").input_ids
    short = pipe.add_request(8, tokens, genai.GenerationConfig(max_new_tokens=2))
    assert pipe.has_non_finished_requests()
    assert not long.can_read()
    states, parts = [], []
    while pipe.has_non_finished_requests():
        pipe.step()
        metrics = pipe.get_metrics()
        states.append((long.get_status().name, short.get_status().name, metrics.requests, metrics.scheduled_requests))
        ((_, output),) = long.read().items()
        parts.append((output.generated_ids, output.finish_reason.name))
    assert states == [
        ("RUNNING", "RUNNING", 2, 2),
        ("RUNNING", "FINISHED", 2, 2),
        *[("RUNNING", "FINISHED", 1, 1)] * 2,
        ("FINISHED", "FINISHED", 1, 1),
    ]
    assert parts == [([c], "NONE") for c in b" har"] + [([ord("e")], "LENGTH")]
    assert short.can_read()
    (output,) = short.read_all()
    assert (bytes(output.generated_ids), output.finish_reason.name, output.score) == (b"o.", "LENGTH", 0)
    assert (short.read_all(), short.can_read()) == ([], False)


def test_requests_are_stopped_and_cancelled(genai, folder):
    pipe = make_batches(genai, folder)
    config = genai.GenerationConfig(max_new_tokens=5)
    stopped, cancelled = (pipe.add_request(i, PROMPT, config) for i in range(2))
    pipe.step()
    stopped.stop()
    cancelled.cancel()
    assert (stopped.get_status().name, cancelled.get_status().name) == ("STOP", "CANCEL")
    assert not stopped.can_read()
    pipe.step()
    assert not pipe.has_non_finished_requests()
    assert (stopped.get_status().name, cancelled.get_status().name) == ("IGNORED", "IGNORED")
    (output,) = stopped.read_all()
    assert (bytes(output.generated_ids), output.finish_reason.name) == (b" ", "NONE")


def test_requests_need_configurations(genai, folder):
    pipe = make_batches(genai, folder)
    config = genai.GenerationConfig(max_new_tokens=5)
    with pytest.raises(TypeError):
        pipe.generate(["a"], config)
    with pytest.raises(IndexError):
        pipe.generate(["a", "b"], [config])
    with pytest.raises(RuntimeError, match="streaming is possible only with batch size=1"):
        pipe.generate(["a", "b"], [config, config], print)
    with pytest.raises(TypeError):
        pipe.add_request(0, "a", None)
    with pytest.raises(TypeError):
        genai.ContinuousBatchingPipeline(folder, "CPU")


def test_schedulers_have_options(genai):
    config = genai.SchedulerConfig()
    eviction = genai.CacheEvictionConfig(32, 64, 128, genai.AggregationMode.SUM, apply_rotation=True)
    sizes = (eviction.get_start_size(), eviction.get_recent_size(), eviction.get_max_cache_size())
    assert (*sizes, eviction.get_evictable_size()) == (32, 64, 128, 32)
    assert (eviction.aggregation_mode.name, eviction.apply_rotation, eviction.snapkv_window_size) == ("SUM", True, 8)
    config.cache_eviction_config = eviction
    assert config.cache_eviction_config.get_start_size() == 32
    assert "max_num_batched_tokens: 256\n  num_kv_blocks: 0\n" in config.to_string()
    config.sparse_attention_config = genai.SparseAttentionConfig(
        genai.SparseAttentionMode.XATTENTION, xattention_stride=4
    )
    assert "sparse" not in genai.KVCrushConfig(2, genai.KVCrushAnchorPointMode.MEAN).to_string()
    sparse = config.sparse_attention_config
    assert (sparse.mode.name, sparse.xattention_stride, sparse.num_last_dense_tokens_in_prefill) == (
        "XATTENTION",
        4,
        100,
    )
    for sizes in ((0, 64, 128), (32, 0, 128), (32, 64, 96)):
        with pytest.raises(RuntimeError, match="must be"):
            genai.CacheEvictionConfig(*sizes, genai.AggregationMode.SUM)


def test_configurations_without_adapters_are_accepted(genai, folder):
    config = genai.AdapterConfig()
    assert (bool(config), config.get_adapters(), config.get_adapters_and_alphas()) == (False, [], [])
    assert int(genai.AdapterConfig.Mode.MODE_FUSE) == 4
    pipe = genai.LLMPipeline(folder, "CPU", adapters=config, **CACHE_F32)
    assert pipe.generate(PROMPT, max_new_tokens=8, adapters=genai.AdapterConfig()) == " who liv"


def test_chats_need_a_template_and_messages(genai, folder):
    tokenizer = genai.Tokenizer(folder)
    history = genai.ChatHistory([{"role": "user", "content": "Once there"}])
    with pytest.raises(RuntimeError, match="Chat template must not be empty when using ChatHistory"):
        genai.LLMPipeline(folder, tokenizer, "CPU", **F32).generate(history, max_new_tokens=2)
    template = "{% for m in messages %}{{ m.content }} there{% endfor %}"
    tokenizer.set_chat_template(template)
    pipe = genai.LLMPipeline(folder, tokenizer, "CPU", **F32)
    with pytest.raises(RuntimeError, match="Chat template must be applied when using ChatHistory"):
        pipe.generate(history, max_new_tokens=2, apply_chat_template=False)
    with pytest.raises(RuntimeError, match="Chat history must not be empty when using ChatHistory"):
        pipe.generate(genai.ChatHistory(), max_new_tokens=2)
    assert pipe.generate("Once", max_new_tokens=8) == " was a s"  # the template is applied to texts
    assert pipe.generate("Once there", max_new_tokens=8, apply_chat_template=False) == " was a s"
    with pytest.warns(DeprecationWarning, match="start_chat"):
        pipe.start_chat()
    with pytest.raises(RuntimeError, match="Can't chat with multiple prompts"):
        pipe.generate(["Once", "A dog"], max_new_tokens=2)


def test_messages_of_a_chat_that_is_cancelled_are_forgotten(genai, folder):
    tokenizer = genai.Tokenizer(folder)
    tokenizer.set_chat_template(TEMPLATE)
    pipe = genai.LLMPipeline(folder, tokenizer, "CPU", **F32)
    with pytest.warns(DeprecationWarning, match="start_chat"):
        pipe.start_chat()
    stopped = pipe.generate("A dog", max_new_tokens=30, streamer=lambda part: genai.StreamingStatus.CANCEL)
    assert len(stopped) < 30
    assert pipe.generate("Once there", max_new_tokens=8) == " was a s"


def test_ends_of_texts(genai, pipe):
    """Texts end at tokens and strings that stop them, after the least number of tokens."""
    for options, expected in [
        ({"stop_token_ids": {ord("a"), 10}}, (" wa", "STOP")),
        ({"stop_token_ids": {ord("a"), 10}, "ignore_eos": True}, (" was a s", "LENGTH")),
        ({"stop_token_ids": {ord("a"), 10}, "min_new_tokens": 5}, (" wBs a", "STOP")),  # tokens that end texts score 0
        ({"stop_strings": {"as"}}, (" w", "STOP")),
        ({"stop_strings": {"s a", "was"}, "include_stop_str_in_output": True}, (" was", "STOP")),
    ]:
        results = pipe.generate(["Once there"], max_new_tokens=8, **options)
        assert (results.texts[0], results.finish_reasons[0].name) == expected, options
        streamed: list[str] = []
        assert pipe.generate("Once there", max_new_tokens=8, streamer=streamed.append, **options) == expected[0]
        assert "".join(streamed) == expected[0]


def test_drawn_texts_end_at_stop_strings(pipe):
    options = {"num_return_sequences": 3, "do_sample": True, "top_k": 2, "rng_seed": 2, "stop_strings": {"a"}}
    results = pipe.generate(["Once there"], max_new_tokens=6, echo=True, **options)
    assert len(results.texts) == 3
    assert all(text.startswith("Once there") for text in results.texts)
    for text, reason in zip(results.texts, results.finish_reasons, strict=True):
        rest = text.removeprefix("Once there")
        assert "a" not in rest
        assert (reason.name == "STOP") == (len(rest) < 6)


def test_variables_of_templates(genai, folder):
    tokenizer = genai.Tokenizer(folder)
    template = "{% if tools %}{{ tools[0].name }}{% endif %}|{{ mood }}|{% if add_generation_prompt %}:{% endif %}"
    tokenizer.chat_template = template
    assert (tokenizer.chat_template, tokenizer.get_original_chat_template()) == (template, template)
    history = genai.ChatHistory([{"role": "user", "content": "a"}])
    assert tokenizer.apply_chat_template(history, False) == "||"
    history.set_tools([{"name": "own"}])
    history.set_extra_context({"mood": "calm"})
    assert tokenizer.apply_chat_template(history, True) == "own|calm|:"
    other = {"tools": [{"name": "other"}], "extra_context": {"mood": "glad"}}
    assert tokenizer.apply_chat_template(history, False, **other) == "other|glad|"
    with pytest.raises(RuntimeError):
        tokenizer.apply_chat_template(history, False, chat_template="{{ nothing.of.this }}")
    with pytest.raises(RuntimeError, match="Applied chat template resulted in an empty string"):
        tokenizer.apply_chat_template(history, False, chat_template="{{ '' }}")


def test_texts_are_encoded_by_keywords(genai, folder):
    tokenizer = genai.Tokenizer(folder)
    assert tokenizer.encode(prompt="abc").input_ids.data.tolist() == [[97, 98, 99]]
    padded = tokenizer.encode(["abcd", "a"], max_length=3, pad_to_max_length=True)
    assert padded.input_ids.get_shape()[0] == 2
    for prompts in ([1, 2], [["a", 1]]):
        with pytest.raises((TypeError, RuntimeError)):
            tokenizer.encode(prompts)
    with pytest.raises(RuntimeError):
        tokenizer.encode(["a"], ["b"])


def test_documents_that_are_set_before(genai, tmp_path):
    pipe = genai.TextEmbeddingPipeline(make_embedding_folder(tmp_path), "CPU", batch_size=2, **F32)
    pipe.start_embed_documents_async(["a", "b"])
    np.testing.assert_allclose(pipe.wait_embed_documents(), pipe.embed_documents(["a", "b"]), atol=1e-6)
    with pytest.raises(RuntimeError, match=r"should be equal to batch_size\(2\)"):
        pipe.embed_documents(["a"])


def test_enumerations_are_numbers(genai):
    assert [int(status) for status in (genai.StreamingStatus.RUNNING, genai.StreamingStatus.CANCEL)] == [0, 2]
    assert [10, 20, 30][genai.StopCriteria.NEVER.value] == 30


def test_devices_are_texts(folder):
    with pytest.raises(TypeError, match="device is 5; expected a str"):
        own.draft_model(folder, 5)


def test_times_of_speech_that_are_not_measured():
    metrics = own.WhisperPerfMetrics()
    names = ("features_extraction", "encode_inference", "decode_inference", "word_level_timestamps_processing")
    assert {tuple(getattr(metrics, f"get_{name}_duration")()) for name in names} == {(-1, -1)}
    for i, name in enumerate(names):
        setattr(metrics.whisper_raw_metrics, f"{name}_durations", [1000 * (i + 1), 3000 * (i + 1)])
    assert [tuple(getattr(metrics, f"get_{name}_duration")()) for name in names] == [(2, 1), (4, 2), (6, 3), (8, 4)]
    results = own.WhisperDecodedResults(["a", "b"], [0.5, 1], "en", None, None, metrics)
    assert str(results) == "0.500000: a\n1.000000: b"
    assert own.WhisperDecodedResultChunk() == own.WhisperDecodedResultChunk(-1, -1, "")


PROGRAM = """
import sys
from openvino import Tensor
import openvino_genai as ov_genai
pipe = ov_genai.LLMPipeline(sys.argv[1], "CPU")
config = ov_genai.GenerationConfig()
config.max_new_tokens = 20
print(ov_genai.__name__, pipe.generate(sys.argv[2], config))
"""


@pytest.mark.parametrize("way", ["module", "function"])
def test_programs_run_unchanged(tmp_path, folder, way):
    program = tmp_path / "program.py"
    begin = "import irrun; irrun.install_as_openvino(replace=True)\n" if way == "function" else ""
    program.write_text(begin + PROGRAM)
    command = [sys.executable, *(["-m", "irrun.openvino", "--replace"] if way == "module" else [])]
    result = subprocess.run(
        [*command, str(program), str(folder), PROMPT],
        capture_output=True,
        text=True,
        check=True,
        cwd=Path(__file__).parents[2],
        env={**importlib.import_module("os").environ, "PYTHONPATH": str(Path(__file__).parents[2])},
    )
    assert result.stdout == "irrun.openvino_genai  who lived by the ri\n"


def test_tensors_are_those_of_the_replacement(folder):
    assert isinstance(own.Tokenizer(folder).encode("a").input_ids, Tensor)
