"""Texts of the example, as OpenVINO GenAI 2026.4.1 generates them with the CPU plugin in f32."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import numpy as np
import pytest
from command_line import call
from ir_text import chain, write

import irrun
from irrun.generation import GenerationConfig, TextGenerator
from irrun.generation.sampling import Sampler, _select_largest

EXAMPLE = Path(__file__).parents[2] / "examples" / "text_generation"
PROMPT = "Once there was a clever cat named Zoe"


@pytest.fixture(scope="module")
def generator():
    return TextGenerator(EXAMPLE)


RIVER = " who lived by the river. Every day Zoe went out to look for "


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, RIVER),
        ({"repetition_penalty": 1.3}, RIVER),
        ({"presence_penalty": 0.7, "frequency_penalty": 0.3}, RIVER),
        ({"do_sample": True, "rng_seed": 0}, " who lived in the old forest. Every day Zoe went out to look"),
        ({"do_sample": True, "rng_seed": 1}, " who lived in the old forest. Zoe liked nothing better than "),
        (
            {"do_sample": True, "temperature": 1.7, "rng_seed": 3},
            " who lived 1b]Id behind the mill. Wanda liked nothing bettee",
        ),
        (
            {"do_sample": True, "temperature": 1.5, "top_k": 3, "rng_seed": 3},
            " who lived under a bridge. Every day Zoe went out to look fo",
        ),
        ({"do_sample": True, "temperature": 1.5, "top_p": 0.8, "rng_seed": 3}, RIVER),
        (
            {"do_sample": True, "temperature": 2.0, "top_p": 0.9, "top_k": 4, "rng_seed": 5},
            " who lived near the sea. Every day Zoe went out to look for ",
        ),
        (
            {"do_sample": True, "temperature": 2.0, "min_p": 0.1, "rng_seed": 5},
            " who lived in the old forest. Every day Zoe went out to look",
        ),
    ],
)
def test_texts_equal_those_of_openvino_genai(generator, options, expected):
    config = generator.config.replace({"max_new_tokens": 60, **options})
    parts = []
    result = generator.generate(PROMPT, config, parts.append)
    assert result.text == "".join(parts) == expected
    assert (result.reason, len(result.tokens), result.prompt_tokens) == ("length", 60, len(PROMPT))


def test_the_end_token_ends_a_text(generator):
    result = generator.generate("Once there was", generator.config.replace({"max_new_tokens": 2000}))
    assert (result.reason, result.tokens[-1]) == ("stop", ord("\n"))
    assert "\n" not in result.text
    longer = generator.config.replace({"max_new_tokens": len(result.tokens) + 5, "ignore_eos": True})
    assert len(generator.generate("Once there was", longer).tokens) == len(result.tokens) + 5


@pytest.mark.parametrize(("keeps", "expected"), [(False, " who lived by the"), (True, " who lived by the river")])
def test_stop_strings_end_a_text_and_are_not_streamed(generator, keeps, expected):
    values = {"max_new_tokens": 60, "stop_strings": (" river", "unseen"), "include_stop_str_in_output": keeps}
    parts = []
    result = generator.generate(PROMPT, generator.config.replace(values), parts.append)
    assert (result.text, result.reason) == (expected, "stop")
    assert "".join(parts) == expected


def test_a_streamer_ends_a_text(generator):
    result = generator.generate(PROMPT, generator.config, lambda part: part == "l")
    assert (result.text, result.reason) == (" who l", "stop")


def test_echo_begins_with_the_prompt(generator):
    result = generator.generate(PROMPT, generator.config.replace({"echo": True, "max_new_tokens": 4}))
    assert result.text == PROMPT + " who"


def test_several_prompts_give_several_texts():
    one, two = irrun.generate(EXAMPLE, [PROMPT, "Once there was"], {"max_new_tokens": 4})
    assert (one.text, two.prompt_tokens) == (" who", 14)
    assert irrun.generate(EXAMPLE, PROMPT, {"max_new_tokens": 4}).text == " who"


ROSA = ("bear named Rosa who", "hedgehog named Feli")
MILL = [f" a curious {name} who lived behind the mill." for name in ("hedgehog named Felix", "bear named Mila")]
ENDING = {"max_new_tokens": 60, "num_beams": 3, "num_return_sequences": 2, "stop_token_ids": [46]}


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (
            {"max_new_tokens": 30, "num_beams": 4, "num_return_sequences": 4},
            [f" a curious {name}" for name in ("bear named Emil who", "bear named Mila who", *ROSA)],
        ),
        (
            {"num_beams": 6, "num_beam_groups": 3, "diversity_penalty": 2.0, "num_return_sequences": 6}
            | {"stop_token_ids": [32], "max_new_tokens": 30},
            [" ", " ", " ", "s ", ", ", "a "],
        ),
        ({**ENDING, "length_penalty": 0.5, "no_repeat_ngram_size": 6}, MILL),
        ({**ENDING, "stop_criteria": "EARLY"}, MILL),
        ({**ENDING, "stop_criteria": "never"}, MILL),
    ],
)
def test_texts_of_beam_search_equal_those_of_openvino_genai(generator, options, expected):
    result = generator.generate("Once there was", generator.config.replace(options))
    results = [result, *result.alternatives]
    assert [item.text for item in results] == expected
    assert [item.score for item in results] == sorted((item.score for item in results), reverse=True)
    assert {item.reason for item in results} == {"stop" if "stop_token_ids" in options else "length"}


def test_several_texts_are_drawn(generator):
    values = {"max_new_tokens": 12, "do_sample": True, "num_return_sequences": 3, "rng_seed": 3, "temperature": 1.5}
    result = generator.generate(PROMPT, generator.config.replace(values))
    scores = [result.score, *(item.score for item in result.alternatives)]
    assert len(scores) == 3
    assert scores == sorted(scores, reverse=True)
    (one,) = irrun.generate(EXAMPLE, [PROMPT], {**values, "num_return_sequences": 1})
    assert one.alternatives == ()


def test_several_texts_cannot_be_streamed(generator):
    config = generator.config.replace({"num_beams": 2})
    with pytest.raises(irrun.InputError, match="only one text can be streamed"):
        generator.generate(PROMPT, config, print)


def test_long_texts_are_decoded_in_parts(generator):
    lengths = []
    decode = generator.decode
    config = generator.config.replace({"max_new_tokens": 200, "ignore_eos": True})
    parts = []

    def count(tokens):
        lengths.append(len(tokens))
        return decode(tokens)

    try:
        generator.decode = count
        text = generator.generate(PROMPT, config, parts.append).text
    finally:
        del generator.decode
    assert "".join(parts) == text
    assert sorted(lengths)[-2:] == [32, 200]


def test_the_prompt_of_an_echo_is_streamed_at_once(generator):
    parts = []
    generator.generate(PROMPT, generator.config.replace({"echo": True, "max_new_tokens": 1}), parts.append)
    assert parts == [PROMPT, " "]


def test_few_candidates_have_the_order_of_a_heap():
    assert _select_largest(np.array([5, 1, 4, 2, 3, 9], np.float32), 1) == [5]
    scores = np.random.default_rng(0).standard_normal(1000).astype(np.float32)
    for count in (2, 7, 50):
        chosen = _select_largest(scores, count)
        assert sorted(chosen) == sorted(np.argsort(scores)[-count:])
        assert all(scores[chosen[(i - 1) // 2]] <= scores[chosen[i]] for i in range(1, count))


def test_penalties_lower_the_scores_of_tokens_that_occurred():
    config = GenerationConfig(repetition_penalty=2, presence_penalty=1, frequency_penalty=0.5)
    sampler = Sampler(config, [0])
    assert sampler.choose(np.array([8, 5, -1, 1], np.float32)) == 1  # 4, 5
    assert sampler.choose(np.array([8, 5, -1, 1], np.float32)) == 0  # 4, 2.5 - 1.5
    assert sampler.choose(np.array([8, 5, -1, 3.1], np.float32)) == 3  # 4 - 1.5, 2.5 - 1.5


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"temperature": 0}, "temperature is 0; expected a positive number"),
        ({"top_p": 1.5}, "top_p is 1.5; expected 0 to 1"),
        ({"max_new_tokens": 0}, "max_new_tokens is 0; expected at least 1"),
        ({"num_beams": 4, "do_sample": True}, "beam search does not sample"),
        ({"num_beams": 4, "num_beam_groups": 3}, "num_beams is not a multiple of num_beam_groups"),
        ({"num_beams": 4, "num_beam_groups": 2}, "several num_beam_groups need a diversity_penalty"),
        ({"num_beams": 4, "repetition_penalty": 2}, "beam search does not support repetition"),
        ({"num_beams": 2, "num_return_sequences": 3}, "num_return_sequences is larger than num_beams"),
        ({"num_return_sequences": 3}, "num_return_sequences needs do_sample or num_beams"),
        ({"stop_criteria": "soon"}, "stop_criteria is 'soon'; expected one of early, heuristic, never"),
        ({"tempertaure": 1}, "unknown option tempertaure; expected one of .*temperature"),
        ({"temperature": "hot"}, "temperature is 'hot'; expected a number"),
    ],
)
def test_invalid_options_are_refused(values, message):
    with pytest.raises(irrun.IrrunError, match=message):
        GenerationConfig().replace(values)


def copy_example(folder):
    for path in EXAMPLE.glob("*.[xb][mi][ln]"):
        shutil.copy(path, folder)
    return folder


def test_files_of_configurations_are_read(tmp_path):
    folder = copy_example(tmp_path)
    text = {"max_new_tokens": 7, "eos_token_id": [10, 46], "transformers_version": "5", "top_k": None}
    (folder / "generation_config.json").write_text(json.dumps(text))
    config = TextGenerator(folder).config
    assert (config.max_new_tokens, sorted(config.end_tokens), config.top_k) == (7, [10, 46], 0)
    (folder / "generation_config.json").write_text("{")
    with pytest.raises(irrun.InputError, match=r"cannot read .*generation_config.json"):
        TextGenerator(folder)


def test_other_models_are_refused(tmp_path):
    folder = copy_example(tmp_path)
    (folder / "model.xml").unlink()
    with pytest.raises(irrun.InputError, match=r"has no .* or openvino_model.xml or model.xml"):
        TextGenerator(folder)
    shutil.copy(write(tmp_path, chain("Relu")), folder / "openvino_model.xml")
    with pytest.raises(irrun.ModelError, match=r"the inputs of the language model are .*; expected input_ids"):
        TextGenerator(folder)


def test_the_command_prints_the_text(capsys):
    code, out, err = call(capsys, "generate", EXAMPLE, PROMPT, "--max-new-tokens", 10, "--echo")
    assert (code, out) == (0, PROMPT + " who lived\n")
    assert re.fullmatch(r"10 tokens, the first after [\d.e-]+ s, [\d.e+]+ tokens per second\n", err)
    beams = ("--num-beams", 3, "--num-return-sequences", 2, "--max-new-tokens", 9, "--stop-criteria", "early")
    code, out, _ = call(capsys, "generate", EXAMPLE, PROMPT, *beams)
    assert (code, out.splitlines()) == (0, [" who live", " came alo"])
    code, out, _ = call(capsys, "generate", EXAMPLE, PROMPT, *beams, "--json")
    assert [text["text"] for text in json.loads(out)[0]["alternatives"]] == [" came alo"]
    code, out, _ = call(capsys, "generate", EXAMPLE, PROMPT, PROMPT, "--max-new-tokens", 10, "--json")
    assert [text["text"] for text in json.loads(out)] == [" who lived"] * 2


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([EXAMPLE, ""], "the prompt has no tokens"),
        ([EXAMPLE.parent, "x"], "has no openvino_tokenizer.xml"),
        ([EXAMPLE / "missing", "x"], "missing is not a folder"),
        ([EXAMPLE, "x", "--temperature", "0"], "temperature is 0.0; expected a positive number"),
    ],
)
def test_mistakes_end_in_one_line(capsys, arguments, message):
    code, out, err = call(capsys, "generate", *arguments)
    assert (code, out) == (2, "")
    assert message in err
    assert "Traceback" not in err


@pytest.mark.parametrize(
    ("name", "low", "high"),
    [
        ("max_new_tokens", 1, None),
        ("max_length", 1, None),
        ("min_new_tokens", 0, None),
        ("top_k", 0, None),
        ("top_p", 0, 1),
        ("min_p", 0, 1),
        ("presence_penalty", -2, 2),
        ("frequency_penalty", -2, 2),
        ("rng_seed", 0, 2**32 - 1),
        ("no_repeat_ngram_size", 0, None),
    ],
)
def test_limits_of_options(name, low, high):
    limits = f"at least {low}" if high is None else f"{low} to {high}"
    for value in (low, low + 1, *(() if high is None else (high,))):
        assert getattr(GenerationConfig(**{name: value}), name) == value
    for value in (low - 1, *(() if high is None else (high + 1,))):
        with pytest.raises(irrun.InputError, match=f"^{name} is {value}; expected {limits}$"):
            GenerationConfig(**{name: value})
