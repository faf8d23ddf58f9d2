"""Generated language models of several sizes and caches, with the texts of OpenVINO GenAI."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest
from generated_folders import Weights, copy_tokenizer, multiply, number, parameter
from generated_language_models import CACHES, build_decoder

import irrun
import irrun.openvino as ov
from irrun.generation import TextGenerator
from irrun.generation.decoder import Decoder, compile_language_model
from irrun.openvino import opset13 as ops
from irrun.runtime.options import DEFAULT_SETTINGS

PROMPT = "Once there was a clever cat"
WORDS = 400
BEAMS = {"num_beams": 6, "num_beam_groups": 3, "diversity_penalty": 1.5, "num_return_sequences": 6}
#: Layers, heads, groups, size, inputs, and whether attention is one operation.
MODELS = [
    (1, 4, 4, 32, ("position_ids",), False),
    (2, 4, 2, 32, ("position_ids",), False),
    (3, 4, 1, 32, (), False),
    (4, 2, 2, 16, ("position_ids",), True),
    (1, 8, 2, 64, ("position_ids",), True),
    (2, 2, 1, 48, (), True),
    (4, 4, 4, 32, ("position_ids",), False),
    (3, 8, 8, 64, (), False),
    (2, 4, 2, 32, ("position_ids",), False),
    (1, 4, 4, 48, (), True),
]
#: The last models have tokens of words, the others of characters.
CHARACTER_MODELS = 8


def write_folder(folder, model):
    ov.save_model(model, copy_tokenizer(folder) / "openvino_model.xml", compress_to_fp16=False)
    return folder


@pytest.fixture(scope="module")
def word_models():
    """A tokenizer like BERT's and its detokenizer."""
    converter = pytest.importorskip("openvino_tokenizers")
    pytest.importorskip("transformers")
    pytest.importorskip("tokenizers")
    sys.path.insert(0, str(Path(__file__).parents[2] / "tools"))
    try:
        import make_tokenizers
    finally:
        sys.path.pop(0)
    tokenizer = make_tokenizers.make_bert(make_tokenizers.SENTENCES, WORDS)
    return converter.convert_tokenizer(tokenizer, with_detokenizer=True)


def list_texts(generator, **values):
    result = generator.generate(PROMPT, generator.config.replace({"ignore_eos": True, **values}))
    return [item.text for item in (result, *result.alternatives)]


@pytest.mark.parametrize("number", range(len(MODELS)))
def test_texts_equal_those_of_openvino_genai(tmp_path, request, number):
    genai = pytest.importorskip("openvino_genai")
    layers, heads, groups, size, inputs, fused = MODELS[number]
    has_words = number >= CHARACTER_MODELS
    options = {"layers": layers, "heads": heads, "groups": groups, "size": size, "inputs": inputs, "fused": fused}
    model = build_decoder(WORDS if has_words else 128, seed=number, **options)
    folder = write_folder(tmp_path / "model", model)
    if has_words:
        import openvino

        names = ("openvino_tokenizer", "openvino_detokenizer")
        for item, name in zip(request.getfixturevalue("word_models"), names, strict=True):
            openvino.save_model(item, folder / f"{name}.xml", compress_to_fp16=False)
    properties = {"INFERENCE_PRECISION_HINT": "f32", "KV_CACHE_PRECISION": "f32", "ATTENTION_BACKEND": "SDPA"}
    oracle, generator = genai.LLMPipeline(folder, "CPU", **properties), TextGenerator(folder)
    draws = {"do_sample": True, "rng_seed": number, "temperature": 0.8, "top_k": 20}
    for values in ({"max_new_tokens": 50}, {"max_new_tokens": 20, **BEAMS}, {"max_new_tokens": 30, **draws}):
        values["eos_token_id"] = ord("\n")
        config = genai.GenerationConfig(apply_chat_template=False, ignore_eos=True, **values)
        expected = oracle.generate([PROMPT], config).texts
        assert list_texts(generator, **values) == expected


@pytest.mark.parametrize("inputs", [(), ("position_ids", "token_type_ids")])
def test_texts_do_not_depend_on_where_the_cache_is(tmp_path, inputs):
    texts = []
    for cache in CACHES:
        model = build_decoder(layers=2, groups=2, cache=cache, inputs=inputs)
        generator = TextGenerator(write_folder(tmp_path / cache, model))
        greedy = list_texts(generator, max_new_tokens=30)
        texts.append([greedy, list_texts(generator, max_new_tokens=15, **BEAMS)])
    assert len(texts[0][0][0]) > 20
    assert len(set(texts[0][1])) > 1
    assert all(text == texts[0] for text in texts)


@pytest.mark.parametrize("is_f32", [True, False])
def test_caches_in_inputs_of_f32_become_variables(tmp_path, is_f32):
    model = build_decoder(size=16, heads=2, groups=2, cache="inputs" if is_f32 else "inputs of f16")
    path = write_folder(tmp_path, model) / "openvino_model.xml"
    compiled = compile_language_model(irrun.read_model(path), DEFAULT_SETTINGS)
    pasts = [spec for spec in compiled.inputs if any("past" in name for name in spec.names)]
    assert len(pasts) == (0 if is_f32 else 2)
    decoder = Decoder(compiled)
    scores = [decoder.run([[20, 30]], [0]), decoder.run([[40], [50]], [0, 0]), decoder.run([[60], [60]], [1, 0])]
    whole = Decoder(compiled).run([[20, 30, 50, 60]], [0])
    assert [score.shape for score in scores] == [(1, 128), (2, 128), (2, 128)]
    np.testing.assert_allclose(scores[2][0], whole[0], rtol=1e-4 if is_f32 else 1e-2, atol=1e-5 if is_f32 else 1e-2)
    assert len(compiled.create_infer_request().query_state()) == (2 if is_f32 else 0)


def cap(logits):
    """Return scores that are limited as Gemma 2 limits them."""
    scale = ops.constant(np.full((1, 1, 1), 5, np.float32))
    return ops.multiply(ops.tanh(ops.divide(ops.convert(logits, "f32"), scale)), scale)


@pytest.mark.parametrize(
    ("change", "is_cut"),
    [
        (lambda logits: logits, True),
        (lambda logits: ops.add(logits, ops.constant(np.arange(128, dtype=np.float32))), True),
        (cap, True),
        (lambda logits: ops.multiply(logits, ops.constant(np.array([1, 2, 3], np.float32).reshape(1, 3, 1))), False),
        (lambda logits: ops.add(logits, ops.multiply(logits, logits)), False),
        (lambda logits: ops.softmax(logits, 1), False),
    ],
)
def test_scores_of_the_last_token_alone_are_computed(tmp_path, change, is_cut):
    ids = parameter("input_ids", [-1, -1])
    weights = Weights()
    logits = change(multiply(ops.gather(weights(128, 16), ids, number(0)), weights(16, 128)))
    logits.output(0).set_names({"logits"})
    ov.save_model(ov.Model([ops.result(logits)], [ids], "m"), tmp_path / "m.xml", compress_to_fp16=False)
    model = irrun.read_model(tmp_path / "m.xml")
    compiled = compile_language_model(model, DEFAULT_SETTINGS)
    tokens = np.array([[5, 80, 33]])
    expected = irrun.compile_model(model)([tokens])["logits"]
    found = compiled([tokens])["logits"]
    assert found.shape[1] == (1 if is_cut else 3)
    np.testing.assert_allclose(found[:, -1], expected[:, -1], rtol=1e-5, atol=1e-6)
    np.testing.assert_array_equal(Decoder(compiled).run(tokens.tolist(), [0]), found[:, -1])
