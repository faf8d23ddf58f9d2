"""The teller of tales: its tokens against OpenVINO's, what it tells, and the size of what is committed."""

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


def feed(tokens: list[int], seen: int) -> dict[str, np.ndarray]:
    return {
        "input_ids": np.array([tokens[seen:]]),
        "attention_mask": np.ones((1, len(tokens)), np.int64),
        "position_ids": np.arange(seen, len(tokens))[None],
        "beam_idx": np.zeros(1, np.int32),
    }


def greedy(request: Any, prompt: str, steps: int) -> list[int]:
    tokens, seen = list(prompt.encode()), 0
    for _ in range(steps):
        logits = request.infer(feed(tokens, seen))["logits"]
        seen = len(tokens)
        tokens.append(int(logits[0, -1].argmax()))
    return tokens


@pytest.mark.parametrize("prompt", [PROMPT, "Once there was", "One morning the ", "x"])
def test_greedy_tokens_are_those_of_openvino(compiled, prompt):
    openvino = pytest.importorskip("openvino")
    config = {"INFERENCE_PRECISION_HINT": "f32", "KV_CACHE_PRECISION": "f32"}
    theirs = openvino.compile_model(FOLDER / "model.xml", "CPU", config).create_infer_request()
    assert greedy(compiled.create_infer_request(), prompt, STEPS) == greedy(theirs, prompt, STEPS)


def test_cached_steps_give_what_one_run_over_all_gives(compiled):
    request = compiled.create_infer_request()
    tokens = greedy(request, PROMPT, 16)
    step_by_step = request.infer(feed(tokens, len(tokens) - 1))["logits"][0, -1]
    at_once = compiled.create_infer_request().infer(feed(tokens, 0))["logits"][0, -1]
    np.testing.assert_allclose(step_by_step, at_once, atol=1e-4)


def test_generate_tells_a_tale_about_whom_it_is_asked(monkeypatch, capsys):
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
