"""Vectors of texts, equal to OpenVINO GenAI's."""

from __future__ import annotations

import itertools
import json
import re
import shutil
import sys
from pathlib import Path

import numpy as np
import pytest
from command_line import call
from generated_folders import EXAMPLE, make_embedding_folder
from ir_text import chain, write

import irrun
from irrun.generation.embedding import EmbeddingConfig, TextEmbedder
from irrun.generation.tokenization import TextTokenizer, TokenizerOptions

TEXTS = ["Hello world, this is a sentence about layers.", "a", "Straße für 東京", "layer " * 8]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return make_embedding_folder(tmp_path_factory.mktemp("embedding"))


@pytest.fixture(scope="module")
def word_folder(tmp_path_factory):
    """A folder with a WordPiece tokenizer, which adds [CLS] and [SEP] and truncates."""
    converter = pytest.importorskip("openvino_tokenizers")
    pytest.importorskip("transformers")
    pytest.importorskip("tokenizers")
    sys.path.insert(0, str(Path(__file__).parents[2] / "tools"))
    try:
        import make_tokenizers
    finally:
        sys.path.pop(0)
    path = make_embedding_folder(tmp_path_factory.mktemp("words"), words=400)
    tokenizer = make_tokenizers.make_bert(TEXTS + make_tokenizers.SENTENCES, 400, model_max_length=24)
    import openvino

    models = converter.convert_tokenizer(tokenizer, with_detokenizer=True)
    for model, name in zip(models, ("openvino_tokenizer", "openvino_detokenizer"), strict=True):
        openvino.save_model(model, path / f"{name}.xml", compress_to_fp16=False)
    return path


@pytest.mark.parametrize("pooling_type", ["cls", "mean", "last_token"])
def test_vectors_equal_those_of_openvino_genai(word_folder, pooling_type):
    genai = pytest.importorskip("openvino_genai")
    config = genai.TextEmbeddingPipeline.Config(embed_instruction="text: ", query_instruction="query: ")
    config.pooling_type = getattr(genai.TextEmbeddingPipeline.PoolingType, pooling_type.upper())
    for normalize, length, side in ((True, None, None), (False, 9, "left")):
        config.normalize, config.max_length, config.padding_side = normalize, length, side
        config.pad_to_max_length = length is not None
        oracle = genai.TextEmbeddingPipeline(word_folder, "CPU", config, INFERENCE_PRECISION_HINT="f32")
        values = {
            "pooling_type": pooling_type,
            "normalize": normalize,
            "max_length": length,
            "pad_to_max_length": length is not None,
            "padding_side": side,
            "embed_instruction": "text: ",
            "query_instruction": "query: ",
        }
        embedder = TextEmbedder(word_folder, EmbeddingConfig(**values))
        np.testing.assert_allclose(embedder.embed_documents(TEXTS), oracle.embed_documents(TEXTS), atol=1e-5)
        np.testing.assert_allclose(embedder.embed_query("a layer"), oracle.embed_query("a layer"), atol=1e-5)


def test_options_of_tokenizers_equal_those_of_openvino_genai(word_folder):
    genai = pytest.importorskip("openvino_genai")
    oracle, tokenizer = genai.Tokenizer(word_folder), TextTokenizer.read(word_folder)
    flags = (True, False)
    for values in itertools.product(flags, flags, (None, 5), flags, (None, "left")):
        names = ("add_special_tokens", "truncation", "max_length", "pad_to_max_length", "padding_side")
        options = dict(zip(names, values, strict=True))
        expected = oracle.encode(TEXTS, **options)
        tokens, mask = tokenizer.encode(TEXTS, TokenizerOptions(**options))
        np.testing.assert_array_equal(tokens, expected.input_ids.data)
        np.testing.assert_array_equal(mask, expected.attention_mask.data)
    rows = np.array([[2, 40, 41, 3, 0]])
    for skips in flags:
        expected = oracle.decode(rows.tolist(), skip_special_tokens=skips)
        assert tokenizer.decode(rows, skip_special_tokens=skips) == expected


def test_pooling_ignores_padding(folder):
    for pooling_type in ("cls", "mean", "last_token"):
        together = irrun.embed(folder, ["ab", "a much longer text"], {"pooling_type": pooling_type})
        alone = irrun.embed(folder, "ab", {"pooling_type": pooling_type})
        assert alone.shape == (32,)
        np.testing.assert_allclose(together[0], alone, atol=1e-6)
        np.testing.assert_allclose(np.linalg.norm(together, axis=1), 1, atol=1e-6)
        in_turn = irrun.embed(folder, ["ab", "a much longer text"], {"pooling_type": pooling_type, "batch_size": 1})
        np.testing.assert_allclose(in_turn, together, atol=1e-6)


def test_instructions_precede_texts(folder):
    config = EmbeddingConfig(query_instruction="q: ", embed_instruction="d: ", normalize=False)
    embedder = TextEmbedder(folder, config)
    np.testing.assert_array_equal(embedder.embed_query("x"), embedder.embed(["q: x"])[0])
    np.testing.assert_array_equal(embedder.embed_documents(["x"]), embedder.embed(["d: x"]))
    np.testing.assert_array_equal(irrun.embed(folder, "x", config, is_query=True), embedder.embed_query("x"))


def test_the_command_prints_and_writes_vectors(capsys, folder, tmp_path, monkeypatch):
    code, out, err = call(capsys, "embed", folder, "a cat", "a cat")
    assert (code, err, len(out.splitlines())) == (0, "", 3)
    assert re.match(r"a cat +f32 +\[32\] +-0\.\d+ to 0\.\d+ ", out.splitlines()[1])
    code, out, _ = call(capsys, "embed", folder, "a cat", "--json", "--pooling-type", "mean", "--no-normalize")
    expected = irrun.embed(folder, "a cat", {"pooling_type": "mean", "normalize": False})
    np.testing.assert_array_equal(np.float32(json.loads(out)[0]["vector"]), expected)
    lines = tmp_path / "lines.txt"
    lines.write_text("one\ntwo\n")
    with lines.open() as file:
        monkeypatch.setattr(sys, "stdin", file)
        code, out, _ = call(capsys, "embed", folder, "-", "-o", tmp_path / "v.npy")
    assert (code, out) == (0, f"wrote {tmp_path / 'v.npy'}, 2 of 32 values\n")
    np.testing.assert_array_equal(np.load(tmp_path / "v.npy"), irrun.embed(folder, ["one", "two"]))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["missing", "x"], "missing is not a folder"),
        ([EXAMPLE, "x"], "the inputs of the embedding model are input_ids"),
        (["FOLDER", ""], "the texts have no tokens"),
        (["FOLDER", "x", "-o", "v.pt"], "v.pt"),
        (["FOLDER", "x", "--pooling-type", "max"], "pooling-type"),
    ],
)
def test_mistakes_end_in_one_line(capsys, folder, arguments, message):
    code, out, err = call(capsys, "embed", *(folder if text == "FOLDER" else text for text in arguments))
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert message in err


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({"pooling": "mean"}, "unknown option pooling; expected one of max_length"),
        ({"pooling_type": "max"}, "pooling_type is 'max', expected"),
        ({"max_length": 0}, "max_length is 0; expected a positive integer"),
        ({"query_instruction": 1}, "query_instruction is 1; expected a text"),
    ],
)
def test_invalid_options_are_refused(folder, config, message):
    with pytest.raises(irrun.InputError, match=message):
        irrun.embed(folder, "x", config)
    with pytest.raises(irrun.InputError, match="there are no texts"):
        irrun.embed(folder, [])


def test_other_models_are_refused(folder, tmp_path):
    shutil.copytree(folder, tmp_path / "other")
    shutil.copy(write(tmp_path, chain("Relu")), tmp_path / "other" / "openvino_model.xml")
    with pytest.raises(irrun.ModelError, match=r"the inputs of the embedding model are .*; expected input_ids"):
        TextEmbedder(tmp_path / "other")
