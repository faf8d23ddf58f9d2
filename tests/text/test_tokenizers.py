"""Whole tokenizers and detokenizers, compared with OpenVINO Tokenizers.

`IRRUN_TEXT_STRINGS` states the number of strings of slow tests, and `IRRUN_TOKENIZERS` a folder of tokenizers that
`tools/make_tokenizers.py` wrote, for a slow test.
"""

from __future__ import annotations

import functools
import os
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("regex")
pytest.importorskip("openvino_tokenizers")
pytest.importorskip("tokenizers")
pytest.importorskip("sentencepiece")
pytest.importorskip("transformers")

import make_tokenizers
import openvino
import sentencepiece

import irrun
from text.generators import make_any_text

STRINGS = int(os.environ.get("IRRUN_TEXT_STRINGS", "10000"))
FOLDERS = sorted(Path(os.environ["IRRUN_TOKENIZERS"]).iterdir()) if "IRRUN_TOKENIZERS" in os.environ else []
#: One tokenizer of each family.
FAMILIES = (
    "gpt2",
    "llama3",
    "qwen",
    "clip",
    "llama2",
    "gemma",
    "bert",
    "bert-pair",
    "t5",
    "xlmr",
    "words",
    "model-bpe",
)
#: Errors of OpenVINO: it has no room for more tokens than bytes, which a suffix of words needs, nor for empty pairs.
REFUSALS = ("ragged_offset < outputs[2].get_size()", "equal 0 cannot be broadcasted")
#: More ids than any of the vocabularies has.
MOST_IDS = 1540


@functools.cache
def read_texts():
    return make_tokenizers.read_texts()


def make_models(name, folder):
    """Return a tokenizer and a detokenizer, compiled by OpenVINO and by irrun."""
    compiled = []
    for number, model in enumerate(make_tokenizers.convert(make_tokenizers.TOKENIZERS[name], read_texts())):
        path = folder / f"{name}-{number}.xml"
        openvino.save_model(model, path)
        compiled.append((openvino.Core().compile_model(path, "CPU"), irrun.compile_model(path)))
    return compiled


def to_comparable(value):
    """Return an output as a list: OpenVINO shows bytes that are not UTF-8 as U+FFFD, without zeros at the end."""
    if value.dtype != object and value.dtype.kind != "U":
        return value.dtype.str, value.tolist()
    texts = [text.encode("utf-8", "surrogateescape").decode("utf-8", "replace") for text in value.reshape(-1).tolist()]
    return [text.rstrip("\0") for text in texts]


def check_models(reference, compiled, inputs):
    """Check that outputs are equal; return whether the reference has outputs."""
    try:
        expected = reference([np.array(v) if isinstance(v, list) else v for v in inputs])
    except RuntimeError as error:
        if not any(message in str(error) for message in REFUSALS):
            raise
        return False
    results = compiled([np.array(v, object) if isinstance(v, list) else v for v in inputs])
    for i in range(len(reference.outputs)):
        assert to_comparable(np.asarray(results[i])) == to_comparable(np.asarray(expected[i])), inputs
    return True


def compare(name, models, count, most_ids=MOST_IDS):
    """Compare a tokenizer on `count` strings, and its detokenizer on as many rows of ids."""
    random = np.random.default_rng([int(os.environ.get("IRRUN_SEED", "0")), *name.encode()])
    (reference, compiled), (reference_back, compiled_back) = models
    compared = 0
    for _ in range(0, count, 4):
        batch = int(random.integers(1, 8))
        texts = [[make_any_text(random) for _ in range(batch)] for _ in reference.inputs]
        compared += batch * check_models(reference, compiled, texts)
        ids = random.integers(0, most_ids, (batch, int(random.integers(0, 30))))
        check_models(reference_back, compiled_back, [ids])
    assert compared > count // 2


@pytest.mark.parametrize("name", FAMILIES)
def test_families_agree_with_openvino(name, tmp_path):
    compare(name, make_models(name, tmp_path), 60)


@pytest.mark.slow
@pytest.mark.parametrize("name", make_tokenizers.TOKENIZERS)
def test_tokenizers_agree_with_openvino(name, tmp_path):
    if name == "model-unigram" and sentencepiece.__version__ not in ("0.2.0", "0.2.1"):
        pytest.skip("since SentencePiece 0.2.2, unigram models choose others of several tokenizations of equal scores")
    compare(name, make_models(name, tmp_path), STRINGS)


@pytest.mark.slow
@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
def test_saved_tokenizers_agree_with_openvino(folder):
    paths = (folder / "openvino_tokenizer.xml", folder / "openvino_detokenizer.xml")
    models = [(openvino.Core().compile_model(path, "CPU"), irrun.compile_model(path)) for path in paths]
    compare(folder.name, models, STRINGS, most_ids=30000)
