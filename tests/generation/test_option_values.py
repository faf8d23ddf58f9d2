"""Values that options of generation, tokenizers, transcription and embedding accept and refuse, without models."""

from __future__ import annotations

import dataclasses
import re
from types import SimpleNamespace

import numpy as np
import pytest

import irrun
from irrun.generation import GenerationConfig
from irrun.generation.embedding import EmbeddingConfig
from irrun.generation.sound import FeatureExtractor
from irrun.generation.tokenization import TextTokenizer, TokenizerOptions
from irrun.generation.transcription import SpeechRecognizer
from irrun.generation.transcription_config import TranscriptionConfig
from irrun.openvino import Tensor
from irrun.openvino_genai import generation_config as genai
from irrun.openvino_genai import llm_pipeline, options
from irrun.openvino_genai.chat_history import ChatHistory
from irrun.openvino_genai.configured import ConfiguredPipeline
from irrun.openvino_genai.embedding import EmbeddingPipelineConfig
from irrun.openvino_genai.enumerations import PoolingType, StopCriteria
from irrun.openvino_genai.scheduler_config import SchedulerConfig
from irrun.openvino_genai.tokenizer import Tokenizer

BEAMS = {"num_beams": 4}
GROUPS = {"num_beams": 4, "num_beam_groups": 2, "diversity_penalty": 1.0}
SAMPLE = {"do_sample": True}

#: Options, and the message about the last one; None if they are valid. They are those of irrun.
OWN = [
    ({"max_new_tokens": 1}, None),
    ({"max_new_tokens": 0}, "max_new_tokens is 0; expected at least 1"),
    ({"max_length": 1}, None),
    ({"max_length": 0}, "max_length is 0; expected at least 1"),
    ({"min_new_tokens": -1}, "min_new_tokens is -1; expected at least 0"),
    ({"top_k": -1}, "top_k is -1; expected at least 0"),
    ({"top_p": 1}, None),
    ({"top_p": 0}, None),
    ({"top_p": 1.01}, "top_p is 1.01; expected 0 to 1"),
    ({"min_p": 1}, None),
    ({"min_p": -0.1}, "min_p is -0.1; expected 0 to 1"),
    ({"presence_penalty": -2}, None),
    ({"presence_penalty": 2}, None),
    ({"presence_penalty": 2.1}, "presence_penalty is 2.1; expected -2 to 2"),
    ({"frequency_penalty": 2}, None),
    ({"frequency_penalty": -2}, None),
    ({"frequency_penalty": -2.1}, "frequency_penalty is -2.1; expected -2 to 2"),
    ({"rng_seed": 2**32 - 1}, None),
    ({"rng_seed": 2**32}, "rng_seed is 4294967296; expected 0 to 4294967295"),
    ({"num_beams": 0}, "num_beams is 0; expected 1 to"),
    ({"num_beam_groups": 0}, "num_beam_groups is 0; expected 1 to"),
    ({"num_return_sequences": 0}, "num_return_sequences is 0; expected 1 to"),
    ({"no_repeat_ngram_size": -1}, "no_repeat_ngram_size is -1; expected at least 0"),
    ({"length_penalty": -3.5}, None),
    ({"temperature": 0}, "temperature is 0; expected a positive number"),
    ({"temperature": float("inf")}, "temperature is inf; expected a positive number"),
    ({"repetition_penalty": 0}, "repetition_penalty is 0; expected a positive number"),
    ({"repetition_penalty": 0.1}, None),
    ({"top_k": 1.5}, "top_k is 1.5; expected an integer"),
    ({"max_length": True}, "max_length is True; expected an integer"),
    ({"top_p": "1"}, "top_p is '1'; expected a number"),
    ({"top_p": None}, "top_p is None; expected a number"),
    ({"stop_criteria": "never"}, None),
    ({"stop_criteria": "soon"}, "stop_criteria is 'soon'; expected one of"),
    ({"stop_criteria": None}, "stop_criteria is None; expected one of"),
    ({"echo": "yes"}, "echo is 'yes'"),
    ({"ignore_eos": "no"}, "ignore_eos is 'no'"),
    ({"stop_strings": ("a", 1)}, "stop_strings has 1; expected texts"),
    ({"stop_token_ids": (0, 2**31 - 1)}, None),
    ({"stop_token_ids": (0, -1)}, "stop_token_ids is -1; expected a token of 0 to"),
    ({"eos_token_id": True}, "eos_token_id is True; expected a token of 0 to"),
    ({"eos_token_id": 2**31}, "eos_token_id is 2147483648; expected a token of 0 to 2147483647"),
    ({"num_return_sequences": 2}, "num_return_sequences needs do_sample or num_beams"),
    ({**SAMPLE, "num_return_sequences": 2}, None),
    ({**BEAMS, "num_return_sequences": 4}, None),
    ({**BEAMS, "num_return_sequences": 5}, "num_return_sequences is larger than num_beams"),
    ({**BEAMS, **SAMPLE}, "beam search does not sample; omit do_sample or num_beams"),
    ({**BEAMS, "stop_strings": ("a",)}, "beam search does not support stop_strings"),
    ({**BEAMS, "repetition_penalty": 1.1}, "beam search does not support repetition, presence and frequency penalties"),
    ({**BEAMS, "presence_penalty": 0.5}, "beam search does not support repetition, presence and frequency penalties"),
    ({**BEAMS, "frequency_penalty": 0.5}, "beam search does not support repetition, presence and frequency penalties"),
    (GROUPS, None),
    ({**GROUPS, "num_beam_groups": 3}, "num_beams is not a multiple of num_beam_groups"),
    ({**GROUPS, "diversity_penalty": 0.0}, "several num_beam_groups need a diversity_penalty"),
    ({**GROUPS, "num_beam_groups": 1}, "diversity_penalty needs several num_beam_groups"),
    ({"presence_penalty": 0.5, "num_beams": 1}, None),
]


@pytest.mark.parametrize(("values", "message"), OWN)
def test_options_of_generation(values, message):
    if message is None:
        assert {name: getattr(GenerationConfig(**values), name) for name in values} == values
        return
    with pytest.raises(irrun.InputError, match=f"^{re.escape(message)}"):
        GenerationConfig(**values)


def test_defaults_equal_those_of_openvino_genai():
    """The defaults of its replacement, which other tests compare with OpenVINO GenAI."""
    expected = {name: default for name, (default, _) in genai.WhisperGenerationConfig._OPTIONS.items()}
    expected |= {"max_new_tokens": None, "max_length": None, "top_k": 0, "no_repeat_ngram_size": 0}
    expected |= {"eos_token_id": None, "stop_criteria": "heuristic"}
    for config in (GenerationConfig(), TranscriptionConfig()):
        for field in dataclasses.fields(config):
            value = getattr(config, field.name)
            if isinstance(value, tuple):
                assert value == tuple(expected[field.name]), field.name
            elif field.name != "generation":
                assert value == expected[field.name], field.name
    assert TranscriptionConfig().generation == GenerationConfig()
    embedding, own = EmbeddingConfig(), EmbeddingPipelineConfig()
    assert (embedding.max_length, embedding.padding_side) == (own.max_length, own.padding_side)
    assert (embedding.pooling_type, embedding.normalize) == (own.pooling_type.name.lower(), own.normalize)
    assert TokenizerOptions() == TokenizerOptions(
        add_special_tokens=True, truncation=False, max_length=None, pad_to_max_length=False, padding_side=None
    )


def test_features_of_speech_are_those_of_whisper():
    extractor = FeatureExtractor()
    assert (extractor.feature_size, extractor.sampling_rate, extractor.hop_length) == (80, 16000, 160)
    assert (extractor.n_fft, extractor.chunk_length, extractor.nb_max_frames) == (400, 30, 3000)
    assert extractor.reflects_end


def test_limits_of_the_length():
    assert GenerationConfig(max_new_tokens=3, max_length=5).count_tokens(10) == 3
    assert GenerationConfig(max_new_tokens=None, max_length=5).count_tokens(2) == 3
    assert GenerationConfig(max_new_tokens=None, max_length=5).count_tokens(5) == 0
    assert GenerationConfig(max_new_tokens=None, max_length=5).count_tokens(9) == 0
    with pytest.raises(irrun.InputError, match="the length of the text has no limit: set max_new_tokens or max_length"):
        GenerationConfig(max_new_tokens=None).count_tokens(1)


def test_tokens_that_end_a_text():
    config = GenerationConfig(eos_token_id=3, stop_token_ids=(5,))
    assert config.stop_tokens == config.end_tokens == {3, 5}
    config = GenerationConfig(eos_token_id=3, ignore_eos=True)
    assert config.stop_tokens == {3}
    assert not config.end_tokens
    assert GenerationConfig().stop_tokens == frozenset()


@pytest.mark.parametrize(
    ("values", "source", "expected"),
    [
        ({"early_stopping": True}, "f.json", {"stop_criteria": "early"}),
        ({"early_stopping": False}, "f.json", {"stop_criteria": "heuristic"}),
        ({"early_stopping": "never"}, "f.json", {"stop_criteria": "never"}),
        ({"early_stopping": 5, "unknown": 1}, "f.json", {"stop_criteria": "heuristic"}),
        ({"eos_token_id": [1, 2], "stop_token_ids": [7]}, "", {"stop_token_ids": (7,), "eos_token_id": None}),
        ({"stop_token_ids": [7], "eos_token_id": [1, 2]}, "", {"stop_token_ids": (7, 1, 2), "eos_token_id": None}),
        ({"eos_token_id": -1}, "f.json", {"eos_token_id": None}),
        ({"temperature": None, "max_length": None}, "", {"temperature": 1.0, "max_length": None}),
        ({"stop_criteria": "EARLY"}, "", {"stop_criteria": "early"}),
        ({"stop_token_ids": 4}, "", {"stop_token_ids": (4,)}),
        ({"stop_strings": {"a"}}, "", {"stop_strings": ("a",)}),
    ],
)
def test_values_of_files_and_users(values, source, expected):
    config = GenerationConfig().replace(values, source)
    assert {name: getattr(config, name) for name in expected} == expected


@pytest.mark.parametrize(
    ("values", "source", "message"),
    [
        ({"tempature": 1}, "", "unknown option tempature; expected one of diversity_penalty, do_sample"),
        ({"early_stopping": True}, "", "unknown option early_stopping"),
        ({"stop_strings": 1.5}, "", "stop_strings is 1.5; expected a list"),
        ({"stop_strings": 1.5}, "f.json", "f.json: stop_strings is 1.5; expected a list"),
        ({"top_p": 3}, "f.json", "f.json: top_p is 3; expected 0 to 1"),
        ({"eos_token_id": -1}, "", "eos_token_id is -1; expected a token"),
    ],
)
def test_values_of_files_and_users_that_are_refused(values, source, message):
    with pytest.raises(irrun.InputError, match=f"^{re.escape(message)}"):
        GenerationConfig().replace(values, source)


LIMIT = {"max_new_tokens": 5}
#: Options of OpenVINO GenAI, and the message about them; None if they are valid.
GENAI = [
    ({}, "Either 'eos_token_id', or 'stop_token_ids', or 'stop_strings', or 'max_new_tokens', or 'max_length'"),
    ({"eos_token_id": 0}, None),
    ({"stop_token_ids": {0}}, None),
    ({"stop_strings": {"a"}}, None),
    ({"max_length": 5}, None),
    (LIMIT, None),
    ({"stop_token_ids": {-1}}, "'stop_token_ids' must be non-negative"),
    ({"ignore_eos": True, "eos_token_id": 1}, "ignore_eos is true, in this case either"),
    ({"ignore_eos": True, "max_length": 4}, None),
    ({"max_new_tokens": 0}, "'max_new_tokens' must be greater than 0, if `echo` is set, 0 is also accepted"),
    ({"max_new_tokens": 0, "echo": True}, None),
    ({**LIMIT, "min_new_tokens": 5}, None),
    ({**LIMIT, "min_new_tokens": 6}, "min_new_tokens must be less or equal max_new_tokens"),
    ({**LIMIT, "num_return_sequences": 0}, "num_return_sequences must be greater than 0"),
    ({**LIMIT, "num_return_sequences": 2}, "'num_return_sequences' can be more than 1 only in case of beam search"),
    ({**LIMIT, **SAMPLE, "num_return_sequences": 2}, None),
    ({**LIMIT, **BEAMS, "num_return_sequences": 4}, None),
    ({**LIMIT, **BEAMS, "num_return_sequences": 5}, "'num_beams' (4) must be greater equal than"),
    ({**LIMIT, "frequency_penalty": 2}, None),
    ({**LIMIT, "frequency_penalty": 2.5}, "'frequence_penalty' penalty must be within [-2.0; 2.0], but got 2.5"),
    ({**LIMIT, "presence_penalty": -2}, None),
    ({**LIMIT, "presence_penalty": -2.5}, "'presence_penalty' penalty must be within [-2.0; 2.0], but got -2.5"),
    ({**LIMIT, "repetition_penalty": 0}, "'repetition_penalty' must be a strictly positive float, but got 0"),
    ({**LIMIT, **GROUPS}, None),
    ({**LIMIT, **GROUPS, "num_beam_groups": 3}, "'num_beams' (4) should be divisible by 'num_beam_groups' (3)"),
    ({**LIMIT, **GROUPS, "num_beam_groups": 0}, "'num_beams' (4) should be divisible by 'num_beam_groups' (0)"),
    ({**LIMIT, **GROUPS, "diversity_penalty": 0}, "For grouped beam search 'diversity_penalty' should not be zero"),
    ({**LIMIT, **GROUPS, "num_beam_groups": 1}, "For beam search 'diversity_penalty' is applicable only when grouped"),
    ({**LIMIT, **BEAMS, **SAMPLE}, "Beam search with sampling is not supported yet."),
    ({**LIMIT, **BEAMS, "no_repeat_ngram_size": 0}, "'no_repeat_ngram_size' must be positive"),
    ({**LIMIT, **BEAMS, "repetition_penalty": 2}, "penalties of tokens are not currently supported by beam search"),
    ({**LIMIT, **SAMPLE, "top_p": 1}, None),
    ({**LIMIT, **SAMPLE, "top_p": 0}, "When 'do_sample' is true, top_p must be a positive float > 0.0 and <= 1.0"),
    ({**LIMIT, **SAMPLE, "top_p": 1.5}, "When 'do_sample' is true, top_p must be a positive float > 0.0 and <= 1.0"),
    ({**LIMIT, "top_p": 1.5}, None),
    ({**LIMIT, **SAMPLE, "temperature": 0}, "When 'do_sample' is true, temperature must be a strictly positive float"),
    ({**LIMIT, **SAMPLE, "min_p": 0.5}, None),
    ({**LIMIT, **SAMPLE, "min_p": 1}, "When 'do_sample' is true, min_p must be in [0.0, 1.0), but got 1"),
]


@pytest.mark.parametrize(("values", "message"), GENAI)
def test_options_of_openvino_genai(values, message):
    config = genai.GenerationConfig(**values)
    if message is None:
        config.validate()
        return
    with pytest.raises(RuntimeError, match=f"^{re.escape(message)}"):
        config.validate()


def test_the_end_token_must_be_a_stop_token():
    config = genai.GenerationConfig(eos_token_id=3)
    assert config.stop_token_ids == {3}
    config.stop_token_ids = {4}
    with pytest.raises(RuntimeError, match="'stop_token_ids' must contain 'eos_token_id'"):
        config.validate()
    config.set_eos_token_id(5)
    config.validate()
    assert (config.eos_token_id, config.stop_token_ids) == (5, {4, 5})
    config.update_generation_config(eos_token_id=-1)
    assert config.stop_token_ids == {4, 5}


@pytest.mark.parametrize(
    ("values", "greedy", "kinds"),
    [
        ({}, True, set()),
        (SAMPLE, False, {"multinomial"}),
        ({"num_beams": 2}, False, {"beam_search"}),
        ({"tree_depth": 1}, False, {"tree_search"}),
        ({"assistant_confidence_threshold": 0.1}, True, {"assisting_generation"}),
        ({"num_assistant_tokens": 1}, True, {"assisting_generation"}),
        ({"num_assistant_tokens": 1, "max_ngram_size": 1}, True, {"assisting_generation", "prompt_lookup"}),
        ({"num_assistant_tokens": 0, "max_ngram_size": 1}, True, set()),
        ({"max_ngram_size": 1}, True, set()),
    ],
)
def test_kinds_of_decoding(values, greedy, kinds):
    config = genai.GenerationConfig(**values)
    names = ("multinomial", "beam_search", "tree_search", "assisting_generation", "prompt_lookup")
    assert config.is_greedy_decoding() == greedy
    assert {name for name in names if getattr(config, f"is_{name}")()} == kinds


def test_options_become_those_of_irrun():
    config = genai.GenerationConfig(**LIMIT, stop_strings={"b", "a"}, stop_criteria=StopCriteria.NEVER, logprobs=1)
    converted = config._to_irrun()
    assert (converted.max_new_tokens, converted.stop_strings, converted.stop_criteria) == (5, ("a", "b"), "never")
    assert genai.GenerationConfig(num_assistant_tokens=3, max_ngram_size=2)._to_irrun() == GenerationConfig()
    for values, message in [
        ({"num_assistant_tokens": 3, **SAMPLE}, "irrun does not support the option num_assistant_tokens"),
        ({"pruning_ratio": 3}, "irrun does not support the option pruning_ratio"),
        ({**SAMPLE, "top_k": 0}, "top_k must be a strictly positive, but got 0"),
        ({"temperature": -1}, "temperature is -1"),
    ]:
        with pytest.raises(RuntimeError, match=f"^{message}"):
            genai.GenerationConfig(**values)._to_irrun()


SPEECH = {"max_new_tokens": 3, "lang_to_id": {"<|en|>": 1}}


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (SPEECH, None),
        ({**SPEECH, "word_timestamps": True}, "irrun does not support word_timestamps of WhisperGenerationConfig"),
        ({**SPEECH, "lang_to_id": {}}, "'lang_to_id' map must be provided for multilingual models."),
        ({**SPEECH, "lang_to_id": {}, "is_multilingual": False}, None),
        ({**SPEECH, "task": "transcribe", "language": "<|en|>"}, None),
        ({**SPEECH, "task": "translate"}, None),
        ({**SPEECH, "task": "sing"}, "'task' must be 'transcribe' or 'translate'. Task provided: 'sing'."),
        ({**SPEECH, "is_multilingual": False, "language": "en"}, "Cannot specify 'language' for not multilingual"),
        ({**SPEECH, "is_multilingual": False, "task": "translate"}, "Cannot specify 'task' for not multilingual"),
    ],
)
def test_options_of_transcription_in_openvino_genai(values, message):
    config = genai.WhisperGenerationConfig(**values)
    if message is None:
        config.validate()
        return
    with pytest.raises(RuntimeError, match=f"^{re.escape(message)}"):
        config.validate()


def test_languages_are_converted_with_and_without_brackets():
    for language in ("en", "<|en|>"):
        config = genai.WhisperGenerationConfig(**SPEECH, language=language, suppress_tokens=[3])
        converted = config._to_transcription()
        assert (converted.language, converted.suppress_tokens, converted.generation.max_new_tokens) == ("en", (3,), 3)
    assert genai.WhisperGenerationConfig(**SPEECH)._to_transcription().language is None
    with pytest.raises(RuntimeError, match="decoder_start_token_id"):
        genai.WhisperGenerationConfig(**SPEECH, decoder_start_token_id=-1)._to_transcription()


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"decoder_start_token_id": -1}, "decoder_start_token_id is -1"),
        ({"max_initial_timestamp_index": 1.5}, "max_initial_timestamp_index is 1.5"),
        ({"begin_suppress_tokens": (1, -2)}, "begin_suppress_tokens is -2"),
        ({"suppress_tokens": (True,)}, "suppress_tokens is True"),
        ({"lang_to_id": [1]}, "lang_to_id is a list of 1; expected languages and their tokens"),
        ({"lang_to_id": {"en": "1"}}, "lang_to_id is '1'"),
        ({"language": 3}, "language is 3; expected a text"),
        ({"task": True}, "task is True; expected a text"),
        ({"initial_prompt": ["a"]}, "initial_prompt is a list of 1; expected a text"),
        ({"hotwords": 0}, "hotwords is 0; expected a text"),
        ({"is_multilingual": "yes"}, "is_multilingual is 'yes'"),
        ({"return_timestamps": None}, "return_timestamps is None"),
    ],
)
def test_options_of_transcription(values, message):
    with pytest.raises(irrun.InputError, match=f"^{re.escape(message)}"):
        TranscriptionConfig(**values)


def test_options_of_tokenizers():
    assert TokenizerOptions(max_length=1, padding_side="left") == TokenizerOptions(True, False, 1, False, "left")
    with pytest.raises(irrun.InputError, match=r"^padding_side is 'top'; expected left or right$"):
        TokenizerOptions(padding_side="top")
    with pytest.raises(irrun.InputError, match=r"^max_length is 0; expected at least 1$"):
        TokenizerOptions(max_length=0)


def test_tokenizers_without_models():
    tokenizer = TextTokenizer(None, None)
    assert not tokenizer.takes_pairs
    assert tokenizer.get_info("eos_token_id") is None
    assert tokenizer.get_token("eos_token_id") is None
    with pytest.raises(irrun.InputError, match=r"^there is no tokenizer$"):
        tokenizer.encode(["a"])
    with pytest.raises(irrun.InputError, match=r"^there is no detokenizer$"):
        tokenizer.decode(np.array([[1]]))


def test_options_of_embedding_in_openvino_genai():
    config = EmbeddingPipelineConfig(max_length=1, batch_size=1, unknown=3)
    config.validate()
    assert (config.pooling_type, config.normalize, config.padding_side) == (PoolingType.CLS, True, None)
    for name in ("max_length", "batch_size"):
        with pytest.raises(RuntimeError, match=f"^{name} should be greater than 0$"):
            EmbeddingPipelineConfig(**{name: 0}).validate()
    with pytest.raises(TypeError, match=r"^pooling_type: incompatible value 'mean': expected a PoolingType"):
        EmbeddingPipelineConfig(pooling_type="mean")


@pytest.mark.parametrize(
    ("convert", "value", "expected"),
    [
        (options.to_bool, True, True),
        (options.to_number, 2, 2.0),
        (options.to_criteria, StopCriteria.EARLY, StopCriteria.EARLY),
        (options.to_text, "a", "a"),
        (options.to_texts, ["a", "a"], {"a"}),
        (options.to_tokens, (np.int64(3), 3), {3}),
        (options.to_token_list, (np.int64(3), 3), [3, 3]),
        (options.to_languages, {"en": np.int32(4)}, {"en": 4}),
        (options.to_optional(options.to_text), None, None),
        (options.to_optional(options.to_text), "a", "a"),
        (options.keep_default, [], []),
        (options.keep_default, (), ()),
    ],
)
def test_conversions_of_options(convert, value, expected):
    result = convert(value)
    assert (type(result), result) == (type(expected), expected)


@pytest.mark.parametrize(
    ("convert", "value", "message"),
    [
        (options.to_bool, 1, "expected a bool, found 1"),
        (options.to_number, "1", "expected a number, found '1'"),
        (options.to_number, b"1", "expected a number, found b'1'"),
        (options.to_criteria, "EARLY", "expected a StopCriteria, found 'EARLY'"),
        (options.to_text, 1, "expected a str, found 1"),
        (options.to_texts, "ab", "expected a set of str, found 'ab'"),
        (options.to_texts, ["a", 1], "expected a set of str, found a list of 2"),
        (options.to_languages, {1: 1}, "expected a str, found 1"),
        (options.to_tokens, [1.5], "'float' object cannot be interpreted as an integer"),
        (options.to_token_list, [1.5], "'float' object cannot be interpreted as an integer"),
    ],
)
def test_conversions_of_options_that_fail(convert, value, message):
    with pytest.raises(TypeError, match=f"^{re.escape(message)}$"):
        convert(value)


def test_options_are_attributes():
    config = SchedulerConfig()
    assert (config.max_num_batched_tokens, config.max_num_seqs, config.dynamic_split_fuse) == (256, 256, True)
    with pytest.raises(AttributeError, match=r"^'SchedulerConfig' object has no attribute 'other'$"):
        config.other = 1
    with pytest.raises(AttributeError, match=r"^'SchedulerConfig' object has no attribute 'other'$"):
        _ = config.other
    with pytest.raises(TypeError, match=r"^cache_size: incompatible value 1.5: 'float' object"):
        config.cache_size = 1.5
    first, second = genai.GenerationConfig(), genai.GenerationConfig()
    first.stop_strings.add("a")
    assert second.stop_strings == set()


TENSOR = Tensor(np.zeros(3, np.uint8))


@pytest.mark.parametrize(
    ("args", "kwargs", "expected", "rest"),
    [
        (("folder", "CPU"), {}, {"models_path": "folder", "device": "CPU"}, {}),
        (("folder",), {"device": "CPU", "x": 1}, {"models_path": "folder", "device": "CPU"}, {"x": 1}),
        (("folder", "CPU", {"a": 1}), {}, {"models_path": "folder", "device": "CPU", "config": {"a": 1}}, {}),
        (("m", TENSOR, "t", "CPU"), {}, {"model": "m", "weights": TENSOR, "tokenizer": "t", "device": "CPU"}, {}),
        ((), {"model": "m", "weights": TENSOR, "tokenizer": "t", "device": "CPU", "generation_config": 3},
         {"model": "m", "weights": TENSOR, "tokenizer": "t", "device": "CPU", "generation_config": 3}, {}),
        (("folder",), {"tokenizer": "t", "device": "CPU"},
         {"models_path": "folder", "tokenizer": "t", "device": "CPU"}, {}),
    ],
)  # fmt: skip
def test_arguments_of_pipelines(args, kwargs, expected, rest):
    assert llm_pipeline._bind(args, kwargs) == expected
    assert kwargs == rest


@pytest.mark.parametrize(
    ("args", "kwargs", "names"),
    [
        (("folder",), {}, "models_path, device"),
        (("folder", "CPU", {}, 1), {}, "models_path, device"),
        (("m", TENSOR), {"device": "CPU"}, "model, weights, tokenizer, device"),
        (("folder",), {"tokenizer": "t"}, "models_path, tokenizer, device"),
    ],
)
def test_arguments_of_pipelines_that_are_missing(args, kwargs, names):
    with pytest.raises(TypeError, match=rf"^LLMPipeline\(\): incompatible constructor arguments: expected {names}"):
        llm_pipeline._bind(args, kwargs)


def test_folders_without_tokenizers(tmp_path):
    with pytest.raises(RuntimeError, match="Neither tokenizer nor detokenzier models were provided"):
        Tokenizer(tmp_path)
    with pytest.raises(RuntimeError, match="should be a path to a dir not a xml file"):
        Tokenizer(tmp_path / "openvino_tokenizer.xml")


def test_chats_are_replaced():
    history = ChatHistory([{"role": "user", "content": "a"}])
    history.set_messages([{"role": "user", "content": "b"}])
    assert history.get_messages() == [{"role": "user", "content": "b"}]
    history.set_tools([{"name": "f"}])
    history.set_tools([{"name": "g"}])
    history.set_extra_context({"a": 1})
    history.set_extra_context({"b": 2})
    assert (history.get_tools(), history.get_extra_context()) == ([{"name": "g"}], {"b": 2})
    history.clear()
    assert len(history) == 0


BEGIN = TranscriptionConfig().no_timestamps_token_id + 1


@pytest.mark.parametrize(
    ("tokens", "segments", "kept", "step"),
    [
        ([], [], [], 100),
        ([7, 8], [], [], 100),
        ([BEGIN, 7, 8, BEGIN + 20], [(5, 5.4, [7, 8])], [7, 8], 100),
        ([BEGIN + 5, 7, BEGIN + 20, BEGIN + 20, 8], [(5.1, 5.4, [7])], [7], 40),
        ([BEGIN, 7, BEGIN + 9, BEGIN + 9, 8, BEGIN + 30], [(5, 5.18, [7]), (5.18, 5.6, [8])], [7, 8], 100),
        ([BEGIN + 5, 7, 8], [(5.1, -1.0, [7, 8])], [7, 8], 100),
        ([BEGIN + 5], [], [], 100),
        ([7, BEGIN + 5], [], [], 100),
        ([BEGIN, 7, BEGIN], [(5, -1.0, [7, BEGIN])], [7, BEGIN], 100),
    ],
)
def test_tokens_are_divided_into_segments_at_their_times(tokens, segments, kept, step):
    recognizer = SpeechRecognizer.__new__(SpeechRecognizer)
    recognizer.extractor = SimpleNamespace(nb_max_frames=100, chunk_length=1)
    recognizer._source_positions = 50
    recognizer.decode = list
    found = recognizer._divide(tokens, TranscriptionConfig(), 5.0)
    assert [(pytest.approx(s.start), pytest.approx(s.end), s.text) for s in found[0]] == segments
    assert found[1:] == (kept, step)


@pytest.mark.parametrize(("own", "token", "expected"), [(-1, 7, 7), (5, 7, 5), (-1, -1, -1), (5, -1, 5)])
def test_the_end_token_of_the_tokenizer_is_a_default(own, token, expected):
    pipeline = ConfiguredPipeline()
    pipeline._find_end_token = lambda: token
    config = genai.GenerationConfig(eos_token_id=own)
    pipeline._set_end_token(config)
    assert (config.eos_token_id, config.stop_token_ids) == (expected, {expected} - {-1})
