"""The example of text generation: agreement with OpenVINO, its text, and the size of its files."""

from __future__ import annotations

import re
import runpy
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import irrun

FOLDER = Path(__file__).parents[2] / "examples" / "text_generation"
PROMPT = "Once there was a clever cat named Zoe"
STEPS = 32


@pytest.fixture(scope="module")
def compiled() -> irrun.CompiledModel:
    return irrun.compile_model(FOLDER / "model.xml")


def make_inputs(tokens: list[int], cached: int) -> dict[str, np.ndarray]:
    return {
        "input_ids": np.array([tokens[cached:]]),
        "attention_mask": np.ones((1, len(tokens)), np.int64),
        "position_ids": np.arange(cached, len(tokens))[None],
        "beam_idx": np.zeros(1, np.int32),
    }


def generate_greedily(request: Any, prompt: str, steps: int) -> list[int]:
    tokens, cached = list(prompt.encode()), 0
    for _ in range(steps):
        logits = request.infer(make_inputs(tokens, cached))["logits"]
        cached = len(tokens)
        tokens.append(int(logits[0, -1].argmax()))
    return tokens


@pytest.mark.parametrize("prompt", [PROMPT, "Once there was", "One morning the ", "x"])
def test_tokens_agree_with_openvino(compiled, prompt):
    openvino = pytest.importorskip("openvino")
    config = {"INFERENCE_PRECISION_HINT": "f32", "KV_CACHE_PRECISION": "f32"}
    expected = openvino.compile_model(FOLDER / "model.xml", "CPU", config).create_infer_request()
    assert generate_greedily(compiled.create_infer_request(), prompt, STEPS) == generate_greedily(
        expected, prompt, STEPS
    )


def test_cached_steps_agree_with_single_run(compiled):
    request = compiled.create_infer_request()
    tokens = generate_greedily(request, PROMPT, 16)
    step_by_step = request.infer(make_inputs(tokens, len(tokens) - 1))["logits"][0, -1]
    at_once = compiled.create_infer_request().infer(make_inputs(tokens, 0))["logits"][0, -1]
    np.testing.assert_allclose(step_by_step, at_once, atol=1e-4)


def test_generated_tale_is_about_prompt(monkeypatch, capsys):
    monkeypatch.setattr("sys.argv", ["generate.py", *PROMPT.split()])
    runpy.run_path(str(FOLDER / "generate.py"))
    out, err = capsys.readouterr()
    assert out.startswith(PROMPT)
    assert out.count("Zoe") >= 3
    (thing,) = re.findall(r"found a \w+ (\w+)", out)
    assert out.count(f" {thing}") >= 3
    assert out.endswith(".\n")
    assert err == ""


def test_files_are_small():
    assert sum((FOLDER / name).stat().st_size for name in ("model.xml", "model.bin")) < 1_000_000
