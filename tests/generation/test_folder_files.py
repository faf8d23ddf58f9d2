"""JSON files of folders from anywhere: each ends in a text or in one error that names the file."""

from __future__ import annotations

import json
import re
from types import SimpleNamespace

import numpy as np
import pytest
from command_line import call
from generated_folders import EXAMPLE, copy_tokenizer
from generated_language_models import build_decoder

pytest.importorskip("regex")
pytest.importorskip("jinja2")

import irrun
import irrun.openvino as ov
import irrun.openvino_genai as own_genai
from irrun.generation import GenerationConfig, TextGenerator
from irrun.generation.folder_files import SpecialTokens
from irrun.generation.tokenization import TextTokenizer, TokenizerOptions

FILES = {
    "generation_config.json": (
        *("max_new_tokens", "max_length", "do_sample", "temperature", "top_k", "top_p", "repetition_penalty"),
        *("stop_strings", "stop_token_ids", "eos_token_id", "num_return_sequences", "stop_criteria", "early_stopping"),
        *("echo", "rng_seed", "num_beam_groups", "diversity_penalty", "length_penalty", "num_beams", "min_p"),
    ),
    "tokenizer_config.json": ("chat_template", "bos_token", "eos_token", "pad_token", "added_tokens_decoder"),
    "special_tokens_map.json": ("bos_token", "eos_token", "pad_token"),
    "config.json": ("bos_token_id", "eos_token_id", "pad_token_id"),
    "chat_template.json": ("chat_template",),
}  # fmt: skip
VALUES = (
    *(None, True, 0, 1, -1, 3, 1.5, -0.5, float("nan"), float("inf"), 2**31, 2**64, 10**30, "", "x", "²", "9" * 30, []),
    *([1], ["a"], [[1]], [None], [2**70], {}, {"content": "<s>"}, {"content": 5}, {"5": {"content": "x"}}, "\ud800"),
    *("{{ messages }}", "{{", [{"name": "default", "template": "x"}], [{"name": [1]}], "a" * 500, -1e30, 1e-300),
)
CONTENTS = ("", "[]", "5", "{", "[" * 100_000, '{"a":' * 100_000, '{"max_length": ' + "9" * 6000 + "}", "\ufeff{}")
TURN = [{"role": "user", "content": "Once"}]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = copy_tokenizer(tmp_path_factory.mktemp("small"))
    ov.save_model(build_decoder(size=8, heads=2, groups=2), folder / "openvino_model.xml", compress_to_fp16=False)
    return folder


def write_files(folder, random):
    """Write some files with some odd values."""
    for name, entries in FILES.items():
        kind = random.random()
        values = {"max_new_tokens": 2} if name == "generation_config.json" else {}
        for _ in range(random.integers(1, 4)):
            values[entries[random.integers(len(entries))]] = VALUES[random.integers(len(VALUES))]
        content = CONTENTS[random.integers(len(CONTENTS))] if kind < 0.05 else json.dumps(values)
        (folder / name).unlink(missing_ok=True)
        if kind < 0.6:
            (folder / name).write_text(content, encoding="utf-8")


@pytest.mark.parametrize("seed", range(30))
@pytest.mark.filterwarnings("error")
def test_odd_files_end_in_a_text_or_an_error(folder, seed):
    write_files(folder, np.random.default_rng(seed))
    errors = []
    try:
        generator = TextGenerator(folder)
        config = generator.config.replace({"max_new_tokens": 2})
        assert len(generator.generate("Once", config).tokens) <= 2
        assert generator.chat(TURN, config).prompt
    except irrun.IrrunError as error:
        errors.append(error)
    try:
        config = own_genai.GenerationConfig(folder / "generation_config.json", max_new_tokens=2)
        own_genai.LLMPipeline(folder, "CPU").generate(["Once"], config)
    except RuntimeError as error:
        errors.append(error)
    assert not [error for error in errors if len(str(error)) > 500 or "\n" in str(error)]
    assert not [error for error in errors if isinstance(error, irrun.ExecutionError)]


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("generation_config.json", '{"top_k": 2.5}', "top_k is 2.5; expected an integer"),
        ("generation_config.json", '{"stop_strings": 5}', "stop_strings has 5; expected texts"),
        ("generation_config.json", '{"stop_strings": {}}', "stop_strings is an empty dict; expected a list"),
        ("generation_config.json", '{"eos_token_id": ["a"]}', "stop_token_ids is 'a'; expected a token of 0 to"),
        ("generation_config.json", '{"num_beams": 1000000000}', "num_beams is 1000000000; expected 1 to 10000"),
        ("generation_config.json", '{"stop_criteria": []}', "stop_criteria is an empty list; expected one of"),
        ("generation_config.json", '{"do_sample": "no"}', "do_sample is 'no', expected True or False"),
        ("generation_config.json", "[" * 100_000, "maximum recursion depth"),
        ("tokenizer_config.json", "[]", "expected a JSON object"),
        ("config.json", '{"eos_token_id": 1000000000000}', "eos_token_id is 1000000000000"),
        ("chat_template.json", '{"chat_template": "{{"}', "TemplateSyntaxError"),
        ("chat_template.jinja", "\ud800", "cannot read .*chat_template.jinja"),
    ],
)
def test_nonsense_is_refused(capsys, tmp_path, name, content, message):
    folder = copy_tokenizer(tmp_path)
    for path in EXAMPLE.glob("model.*"):
        (folder / path.name).symlink_to(path)
    (folder / "chat_template.jinja").write_text("{{ messages[0].content }}")
    if name == "chat_template.json":
        (folder / "chat_template.jinja").unlink()
    (folder / name).write_bytes(content.encode("utf-8", "surrogatepass"))
    code, out, err = call(capsys, "generate", folder, "Once", "--chat", "--max-new-tokens", "1")
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert re.search(message, err)


def test_a_stop_string_need_not_be_in_a_list():
    assert GenerationConfig().replace({"stop_strings": "END"}).stop_strings == ("END",)
    assert GenerationConfig().replace({"eos_token_id": -1}, "generation_config.json").eos_token_id is None


ADDED = {"7": {"content": "</s>"}}


@pytest.mark.parametrize(
    ("config", "special", "tokenizer", "ids", "texts"),
    [
        ({}, {}, {}, (-1, -1, -1), ("", "", "")),
        ({"pad_token_id": 3, "bos_token_id": 0, "eos_token_id": 2**31 - 1}, {}, {}, (3, 0, 2**31 - 1), ("", "", "")),
        ({"pad_token_id": True, "bos_token_id": -7, "eos_token_id": "5"}, {}, {}, (-1, -1, -1), ("", "", "")),
        ({}, {"bos_token": "<s>", "eos_token": {"content": "</s>"}}, {}, (-1, -1, -1), ("", "", "</s>")),
        ({}, {"eos_token": {"content": "a"}}, {"eos_token": "b"}, (-1, -1, -1), ("a", "", "a")),
        ({}, {}, {"bos_token": "<s>", "eos_token": {"content": "</s>"}}, (-1, -1, -1), ("</s>", "<s>", "</s>")),
        ({}, {}, {"eos_token": "</s>", "added_tokens_decoder": ADDED}, (7, -1, 7), ("</s>", "", "</s>")),
        ({"eos_token_id": 2}, {}, {"eos_token": "</s>", "added_tokens_decoder": ADDED}, (7, -1, 2),
         ("</s>", "", "</s>")),
        ({}, {}, {"eos_token": "</s>", "pad_token": "<p>", "added_tokens_decoder": ADDED}, (7, -1, 7),
         ("<p>", "", "</s>")),
        ({"eos_token_id": 2}, {}, {"pad_token": "<p>"}, (-1, -1, 2), ("<p>", "", "")),
        *(({}, {}, {"bos_token": "<s>", "added_tokens_decoder": added}, (-1, -1, -1), ("", "<s>", ""))
          for added in ({"²": {"content": "<s>"}}, {"x": {"content": "<s>"}}, {"1" * 10: {"content": "<s>"}},
                        {"1": "<s>"}, {"1": {"content": "x"}}, [1])),
        ({}, {}, {"bos_token": "<s>", "added_tokens_decoder": {"1" * 9: {"content": "<s>"}}}, (-1, 111111111, -1),
         ("", "<s>", "")),
    ],
)  # fmt: skip
def test_special_tokens_of_folders(config, special, tokenizer, ids, texts, tmp_path):
    for name, values in (("config", config), ("special_tokens_map", special), ("tokenizer_config", tokenizer)):
        (tmp_path / f"{name}.json").write_text(json.dumps(values))
    found = SpecialTokens(SimpleNamespace(get_token=lambda name: None, tokenizer=None, detokenizer=None), tmp_path)
    assert (tuple(found.ids.values()), tuple(found.texts.values())) == (ids, texts)


def test_special_tokens_are_below_a_limit(tmp_path):
    (tmp_path / "config.json").write_text(json.dumps({"eos_token_id": 2**31}))
    with pytest.raises(irrun.InputError, match=r"config\.json: eos_token_id is 2147483648"):
        SpecialTokens(SimpleNamespace(get_token=lambda name: None), tmp_path)


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, [[97, 98], [99, 0]]),
        ({"max_length": 4}, [[97, 98], [99, 0]]),
        ({"max_length": 4, "pad_to_max_length": True}, [[97, 98, 0, 0], [99, 0, 0, 0]]),
        ({"max_length": 4, "pad_to_max_length": True, "padding_side": "left"}, [[0, 0, 97, 98], [0, 0, 0, 99]]),
        ({"padding_side": "left"}, [[97, 98], [0, 99]]),
        ({"padding_side": "right"}, [[97, 98], [99, 0]]),
    ],
)
def test_texts_are_padded_to_a_length_on_a_side(options, expected, tmp_path):
    tokens, mask = TextTokenizer.read(copy_tokenizer(tmp_path)).encode(["ab", "c"], TokenizerOptions(**options))
    assert tokens.tolist() == expected
    assert mask.tolist() == [[int(token > 0) for token in row] for row in expected]
