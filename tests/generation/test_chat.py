"""Chats with common templates, and values that are observed token by token."""

from __future__ import annotations

import io
import json
import os
import sys

import numpy as np
import pytest
from command_line import call
from generated_folders import EXAMPLE, copy_tokenizer
from generated_language_models import CACHES, build_decoder
from hostile.limited import require_memory_limits
from pseudo_terminal import needs_terminal, run_in_terminal

import irrun
import irrun.openvino as ov
import irrun.openvino_genai as own_genai
from irrun.deadlines import Deadline, end_at
from irrun.generation import TextGenerator, chat_template
from irrun.generation.chat import ChatFormat
from irrun.generation.chat_template import render_chat
from irrun.generation.decoder import Decoder
from irrun.generation.tokenization import TextTokenizer
from irrun.openvino import opset13 as ops

pytest.importorskip("jinja2")

TURN = "{{ '%s' + message['role'] + '%s' + message['content'] | trim + '%s' }}"
LOOP = "{% for message in messages %}"
END = "{% endfor %}{% if add_generation_prompt %}{{ 'PROMPT' }}{% endif %}"
TEMPLATES = {
    "ChatML": LOOP
    + TURN % (r"<|im_start|>", r"\n", r"<|im_end|>\n")
    + END.replace("PROMPT", r"<|im_start|>assistant\n"),
    "Llama": "{{ bos_token }}"
    + LOOP
    + "{% set content = '<|start_header_id|>' + message['role'] + '<|end_header_id|>\n\n' + "
    "message['content'] | trim + '<|eot_id|>' %}{{ content }}"
    + END.replace("PROMPT", r"<|start_header_id|>assistant<|end_header_id|>\n\n"),
    "Gemma": "{{ bos_token }}{% if messages[0]['role'] == 'system' %}{{ raise_exception('System role not supported') }}"
    "{% endif %}"
    + LOOP
    + "{% if (message['role'] == 'user') != (loop.index0 % 2 == 0) %}{{ raise_exception('roles must alternate') }}"
    "{% endif %}{% if message['role'] == 'assistant' %}{% set role = 'model' %}{% else %}"
    r"{% set role = message['role'] %}{% endif %}"
    r"{{ '<start_of_turn>' + role + '\n' + message['content'] | trim + '<end_of_turn>\n' }}"
    + END.replace("PROMPT", r"<start_of_turn>model\n"),
    "Phi": LOOP
    + "{% if message['role'] in ['system', 'user', 'assistant'] %}"
    + TURN % ("<|", r"|>\n", r"<|end|>\n")
    + "{% endif %}"
    + END.replace("PROMPT", r"<|assistant|>\n"),
    "Zephyr": "{%- for message in messages -%}\n  {%- if message['role'] == 'user' -%}\n"
    "{{ '<|user|>\n' + message['content'] + eos_token }}\n{% elif message['role'] == 'system' %}\n"
    "{{ '<|system|>\n' + message['content'] + eos_token }}\n{% elif message['role'] == 'assistant' %}\n"
    "{{ '<|assistant|>\n'  + message['content'] + eos_token }}\n{% endif %}\n"
    "{% if loop.last and add_generation_prompt %}\n{{ '<|assistant|>' }}\n{% endif %}\n{% endfor %}",
}
TURNS = [
    {"role": "user", "content": " Hi, who are you? "},
    {"role": "assistant", "content": "A cat."},
    {"role": "user", "content": "“Why”?\nTell me."},
]
PLAIN = "{% for m in messages %}{{ m.content }}{% if not loop.last %} {% endif %}{% endfor %}"


@pytest.mark.parametrize("name", TEMPLATES)
def test_messages_equal_those_of_openvino_genai(tmp_path, name):
    genai = pytest.importorskip("openvino_genai")
    folder = copy_tokenizer(tmp_path)
    values = {"chat_template": TEMPLATES[name], "bos_token": "<s>", "eos_token": {"content": "</s>"}}
    (folder / "tokenizer_config.json").write_text(json.dumps({**values, "eos_token": "</s>"}))
    oracle, own = genai.Tokenizer(folder), ChatFormat(folder, TextTokenizer.read(folder))
    system = [] if name == "Gemma" else [{"role": "system", "content": "Be brief."}]
    for messages in (TURNS, TURNS[:1], [*system, *TURNS]):
        assert own.render(messages) == oracle.apply_chat_template(messages, add_generation_prompt=True)


NESTED = "{% set ns = namespace(x=[1]) %}{% for i in range(60) %}{% set ns.x = [ns.x, ns.x] %}{% endfor %}"
COMPARED = NESTED + NESTED.replace("ns", "other") + "{{ ns.x == other.x }}"
LOOPS = "{% for i in range(99999) %}" * 3 + "{% endfor %}" * 3


@pytest.mark.parametrize("template", [LOOPS, "{{ lipsum(n=10**9) }}", COMPARED])
def test_templates_end_within_the_time_limit(template):
    render_chat("", [], True, {})  # so that the process has started
    with end_at(Deadline(0.3)), pytest.raises(irrun.TimeLimitError, match=r"time limit of 0\.3 s"):
        render_chat(template, [], True, {})
    assert render_chat("{{ messages[0] }}", ["x"], True, {}) == "x"


@pytest.mark.parametrize(
    ("template", "message"),
    [
        ("{{ 'x' * 10**10 }}", "takes more than 512 MiB"),
        ("{{ 'x'.center(10**10) }}", "takes more than 512 MiB"),
        ("{{ '%9999999999d' % 1 }}", "takes more than 512 MiB"),
        ("{{ 'x' * 2**25 }}", "33554432 characters, expected at most 16777216"),
        ("{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}", "RecursionError"),
        ("{{ cycler.__init__.__globals__.os }}", "SecurityError"),
        ("{{ ''.__class__.__mro__ }}", "SecurityError"),
        ("{{ strftime_now.__globals__.os }}", "SecurityError"),
        ("{% include '/etc/passwd' %}", "no loader"),
        ("{% import 'os' as os %}", "no loader"),
        ("{{ raise_exception('a\n' * 9999) }}", "TemplateError: a a a"),
        ("{{ 9**9**9**9**9 }}", "takes more than 1 s|ValueError"),
        ("{{", "TemplateSyntaxError"),
    ],
)
def test_templates_can_do_nothing_but_make_text(template, message, monkeypatch):
    if "MiB" in message:
        require_memory_limits()
    monkeypatch.setattr(chat_template, "SECONDS", 1 if "**9**9**9" in template else 60)
    with pytest.raises(irrun.IrrunError, match=message) as caught:
        render_chat(template, [], True, {})
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 400


def test_messages_that_are_not_json_are_errors():
    with pytest.raises(irrun.IrrunError, match="cannot be written as JSON: found a value of type object"):
        render_chat("", [object()], True, {})


def test_templates_that_refuse_messages_are_errors(tmp_path):
    folder = copy_tokenizer(tmp_path)
    tokenizer = TextTokenizer.read(folder)
    with pytest.raises(irrun.InputError, match="has no chat template; expected"):
        ChatFormat(folder, tokenizer)
    (folder / "chat_template.jinja").write_text(TEMPLATES["Gemma"])
    with pytest.raises(irrun.IrrunError, match="System role not supported"):
        ChatFormat(folder, tokenizer).render([{"role": "system", "content": "x"}])
    (folder / "chat_template.jinja").write_text("{{ ''.__class__.__mro__[1].__subclasses__() }}")
    with pytest.raises(irrun.IrrunError, match="unsafe"):
        ChatFormat(folder, tokenizer).render(TURNS)


@pytest.fixture
def folder(tmp_path):
    """The example with a template that joins messages."""
    for path in EXAMPLE.glob("*.[xb][mi][ln]"):
        (tmp_path / path.name).write_bytes(path.read_bytes())
    (tmp_path / "chat_template.jinja").write_text(PLAIN)
    return tmp_path


def test_answers_are_part_of_the_chat(capsys, folder, monkeypatch):
    options = ("--chat", "--system", "Once there", "--max-new-tokens", 9)
    code, out, _ = call(capsys, "generate", folder, "was a cat", "and", *options, "--json")
    one, two = json.loads(out)
    assert (code, one["prompt"]) == (0, "Once there was a cat")
    assert two["prompt"] == f"Once there was a cat {one['text']} and"
    monkeypatch.setattr(sys, "stdin", io.StringIO("was a cat\n\nand\n"))
    code, out, _ = call(capsys, "generate", folder, *options)
    assert (code, out) == (0, f"{one['text']}\n{two['text']}\n")


@pytest.mark.parametrize("cache", [*CACHES, "inputs of f16"])
def test_messages_that_continue_the_last_ones_are_computed_alone(tmp_path, monkeypatch, cache):
    folder = copy_tokenizer(tmp_path)
    model = build_decoder(size=16, heads=2, groups=2, cache=cache)
    ov.save_model(model, folder / "openvino_model.xml", compress_to_fp16=False)
    (folder / "chat_template.jinja").write_text(
        "{% for m in messages %}{{ m.content }}{{ ': ' if m.role == 'user' else '. ' }}{% endfor %}"
    )
    counts = []
    run = Decoder.run

    def count(self, tokens, rows):
        counts.append(len(tokens[0]))
        scores = run(self, tokens, rows)
        return np.where((np.arange(128) > 64) & (np.arange(128) < 91), scores, -np.inf)  # letters

    monkeypatch.setattr(Decoder, "run", count)
    chat = own_genai.LLMPipeline(folder, "CPU")
    generator, messages = TextGenerator(folder), []
    config = generator.config.replace({"max_new_tokens": 5, "ignore_eos": True})
    with pytest.warns(DeprecationWarning, match="start_chat"):
        chat.start_chat()
    for turn, text in enumerate(("Once there was", "a cat", "Zoe")):
        messages.append({"role": "user", "content": text})
        counts.clear()
        result = generator.chat(messages, config)
        is_whole = cache == "none" or not turn
        expected = result.prompt_tokens if is_whole else len(text) + 5  # with separators, and a token that was not run
        assert counts == [expected, 1, 1, 1, 1]
        assert result.tokens == TextGenerator(folder).chat(messages, config).tokens
        counts.clear()
        assert chat.generate(text, max_new_tokens=5, ignore_eos=True) == result.text
        assert counts[0] == expected
        messages.append({"role": "assistant", "content": result.text})
    other = [{"role": "user", "content": "A dog"}]
    assert generator.chat(other, config).tokens == TextGenerator(folder).chat(other, config).tokens


@needs_terminal
def test_a_chat_on_a_terminal(folder):
    expected = irrun.generate(folder, "Once there was", {"max_new_tokens": 6}).text
    command = ["generate", str(folder), "--chat", "--max-new-tokens", "6"]
    (result,) = run_in_terminal(folder, [command], react=lambda text: "Once there was\n\x04" if "> " in text else None)
    assert expected in str(result)


def test_mistakes_end_in_one_line(capsys, folder):
    for arguments, message in (((), "Missing argument"), (("x", "--system", "y"), "--system needs --chat")):
        code, out, err = call(capsys, "generate", folder, *arguments)
        assert (code, out) == (2, "")
        assert message in err
    code, _, err = call(capsys, "generate", folder, "x", "--trace", folder / "missing" / "t.json")
    assert code == 2
    assert "cannot write" in err


def test_layers_are_traced_token_by_token(capsys, folder):
    path = folder / "trace.json"
    code, out, err = call(capsys, "generate", folder, "Once", "--max-new-tokens", 3, "--trace", path, "--check")
    assert (code, len(out)) == (0, 4)
    assert "all values are finite" in err
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    assert {line["token"] for line in lines} == {0, 1, 2}
    first, last = ([line["name"] for line in lines if line["token"] == token] for token in (0, 2))
    assert len(first) > 100
    assert set(last) == set(first)


def test_the_first_layer_with_nan_is_named_with_its_token(capsys, tmp_path):
    model = build_decoder(layers=2)
    folder = copy_tokenizer(tmp_path)
    (gather,) = (
        node
        for node in model.get_ops()
        if node.get_type_name() == "Gather" and str(node.input_value(0).get_partial_shape()) == "[4096,32]"
    )
    table = gather.input_value(0).get_node().data.copy()
    table[6] = 1e38  # the position of the third new token, which overflows when the fourth one is computed
    gather.input(0).replace_source_output(ops.constant(table).output(0))
    ov.save_model(model, folder / "openvino_model.xml", compress_to_fp16=False)
    code, _, err = call(capsys, "generate", folder, "Once", "--max-new-tokens", 5, "--ignore-eos", "--check")
    assert code == 1
    assert "token 3: " in err


@pytest.mark.parametrize("is_own", [True, False])
def test_only_the_process_that_started_a_renderer_ends_it(is_own):
    renderer = chat_template._Renderer()
    renderer.stop()  # nothing to end
    assert renderer.answer(json.dumps({"template": "{{ a }}", "variables": {"a": 3}})) == {"text": "3"}
    process, owner = renderer._process, renderer._owner
    assert owner == os.getpid()
    renderer._owner = owner if is_own else 0
    renderer.stop()
    try:
        assert renderer._process is None
        assert (process.poll() is not None) == process.stdin.closed == process.stdout.closed == is_own
    finally:
        renderer._process, renderer._owner = process, owner
        renderer.stop()
