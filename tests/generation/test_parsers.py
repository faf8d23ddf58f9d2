"""Parsers of OpenVINO GenAI, with the real module and with its replacement."""

from __future__ import annotations

import importlib
import shutil
from typing import Any

import pytest
from generated_folders import EXAMPLE

PROMPT = "Once there was a cat"
F32 = {"INFERENCE_PRECISION_HINT": "f32", "KV_CACHE_PRECISION": "f32"}

TEXTS = [
    '<think>abc def</think>Answer [f(a="1", b = "x y")] {"k": [1]}',
    "no tags at all",
    "<think>never closed",
    "abc</think>tail",
    "x<think>in</think>out</think>",
    "</think>a<think>b</think>c",
    "<think></think>",
    "[g(]{bad} ",
]
#: The arguments of parsers of reasoning.
OPTIONS = [{}, {"keep_original_content": False}, {"expect_open_tag": False}]
OPTIONS += [{"expect_open_tag": False, "keep_original_content": False}, {"open_tag": "abc", "close_tag": "def"}]
NAMES = ["DeepSeekR1ReasoningParser", "Phi4ReasoningParser", "Llama3JsonToolParser", "Llama3PythonicToolParser"]


@pytest.fixture(scope="module", params=["openvino_genai", "irrun.openvino_genai"])
def genai(request):
    """OpenVINO GenAI, then its replacement."""
    pytest.importorskip("regex")
    if request.param == "openvino_genai":
        return pytest.importorskip("openvino_genai")
    return importlib.import_module(request.param)


@pytest.fixture(scope="module")
def pipe(genai, tmp_path_factory):
    path = tmp_path_factory.mktemp("parsers")
    for file in EXAMPLE.glob("*.[xb][mi][ln]"):
        shutil.copy(file, path / file.name.replace("model.", "openvino_model.", file.name.startswith("model.")))
    return genai.LLMPipeline(path, "CPU", **F32)


def parse_whole(genai, text):
    """Return what all parsers make of a text."""
    parsers = [genai.ReasoningParser(**options) for options in OPTIONS]
    results = []
    for parser in [*parsers, *(getattr(genai, name)() for name in NAMES)]:
        message = {"content": text, "role": "assistant"}
        try:
            parser.parse(message)
        except RuntimeError:
            message = None
        results.append(message)
    return results


def parse_parts(genai, text, size):
    """Return what incremental parsers make of the parts of a text, and of another text."""
    names = ["DeepSeekR1ReasoningIncrementalParser", "Phi4ReasoningIncrementalParser"]
    parsers = [genai.ReasoningIncrementalParser(**options) for options in OPTIONS]
    results = []
    for parser in [*parsers, *(getattr(genai, name)() for name in names)]:
        for part in [*(text[i : i + size] for i in range(0, len(text), size)), None, "<think>q"]:
            message = {}
            results.append(parser.reset() if part is None else (parser.parse(message, part), message))
        assert parser.get_status().name == "RUNNING"
    return results


@pytest.mark.parametrize("text", TEXTS)
def test_parsers_find_the_same(text):
    modules = [pytest.importorskip("openvino_genai"), importlib.import_module("irrun.openvino_genai")]
    expected, actual = (parse_whole(module, text) for module in modules)
    assert actual == expected
    for size in (1, 2, 3, 5, 100):
        expected, actual = (parse_parts(module, text, size) for module in modules)
        assert actual == expected


def test_reasoning_and_calls_are_found(genai):
    message: dict[str, Any] = {"content": TEXTS[0]}
    genai.ReasoningParser(keep_original_content=False).parse(message)
    assert message["reasoning_content"] == "abc def"
    assert message["content"] == 'Answer [f(a="1", b = "x y")] {"k": [1]}'
    genai.Llama3PythonicToolParser().parse(message)
    assert message["tool_calls"] == [{"name": "f", "arguments": {"a": "1", "b": "x y"}}]
    genai.Llama3JsonToolParser().parse(message)
    assert message["tool_calls"] == [{"k": [1]}]


def test_texts_are_parsed(genai, pipe):
    class Upper(genai.Parser):  # type: ignore[name-defined]
        def parse(self, message):
            message["upper"] = message["content"].upper()

    parsers = [Upper(), genai.ReasoningParser()]
    config = genai.GenerationConfig(max_new_tokens=8)
    config.parsers = parsers
    results = pipe.generate([PROMPT, "A dog"], config)
    assert results.parsed == [
        {"content": " hare na", "upper": " HARE NA", "reasoning_content": ""},
        {"content": "o. Then ", "upper": "O. THEN ", "reasoning_content": ""},
    ]
    assert pipe.generate(PROMPT, config) == " hare na"


def test_streamers_parse(genai, pipe):
    class Count(genai.IncrementalParser):  # type: ignore[name-defined]
        def parse(self, delta_message, delta_text, delta_tokens=None):
            delta_message["count"] = "i"
            return delta_text.replace("a", "A")

        def reset(self):
            pass

    class Streamer(genai.TextParserStreamer):  # type: ignore[name-defined]
        def write(self, message):
            parts.append(message)
            return genai.StreamingStatus.RUNNING

    parts: list[dict[str, str]] = []
    parsers = [Count()]
    streamer = Streamer(pipe.get_tokenizer(), parsers)
    (message,) = pipe.generate([PROMPT], genai.GenerationConfig(max_new_tokens=8), streamer).parsed
    assert message == streamer.get_parsed_message()
    assert message["content"] == "".join(part["content"] for part in parts) == " hAre nA"
    assert message["count"] == "i" * len(parts)
    streamer.reset()
    assert streamer.get_parsed_message() == {"content": ""}
    assert [streamer._write(text).name for text in ("ab", "c\n")] == ["RUNNING", "RUNNING"]
    assert streamer.get_parsed_message() == {"content": "Abc\n", "count": "ii"}


def test_a_parser_stops_a_text(genai, pipe):
    class Stop(genai.IncrementalParser):  # type: ignore[name-defined]
        def parse(self, delta_message, delta_text, delta_tokens=None):
            self.set_status(genai.StreamingStatus.STOP)
            return delta_text

        def reset(self):
            self.set_status(genai.StreamingStatus.RUNNING)

    class Streamer(genai.TextParserStreamer):  # type: ignore[name-defined]
        def write(self, message):
            return genai.StreamingStatus.RUNNING

    parsers = [Stop()]
    streamer = Streamer(pipe.get_tokenizer(), parsers)
    assert streamer._write("ab").name == "STOP"
    streamer.reset()
    assert parsers[0].get_status().name == "RUNNING"


def test_parsers_must_be_overridden(genai):
    with pytest.raises(RuntimeError, match="parse method not implemented in Python subclass"):
        genai.Parser().parse({"content": ""})
    with pytest.raises(RuntimeError, match="parse method not implemented in Python subclass"):
        genai.IncrementalParser().parse({}, "a")
    with pytest.raises(RuntimeError):
        genai.IncrementalParser().reset()
    with pytest.raises(TypeError):
        genai.GenerationConfig().parsers = [3]
