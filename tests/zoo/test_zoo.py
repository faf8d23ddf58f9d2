"""Whole networks, exported from PyTorch, against OpenVINO: `pytest -m slow tests/zoo`.

`python benchmarks/zoo.py` builds them; those that the cache lacks are skipped where PyTorch is not installed,
and built where it is.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import irrun

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))
import zoo

ov = pytest.importorskip("openvino")
pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

#: How far an output may be from OpenVINO's, for the largest of its values.
TOLERANCE = 1e-3
STEPS = 32
#: OpenVINO's CPU device without what it does for speed alone: narrow floats, narrow caches, FakeQuantize in integers.
PRECISE = {
    "INFERENCE_PRECISION_HINT": "f32",
    "KV_CACHE_PRECISION": "f32",
    "DYNAMIC_QUANTIZATION_GROUP_SIZE": "0",
    "LP_TRANSFORMS_MODE": "NO",
}


def model_path(name: str) -> Path:
    if not (zoo.cache() / name / "model.xml").exists():
        for needed in ("torch", "transformers", "nncf"):
            pytest.importorskip(needed, reason="the zoo is not built, and cannot be built here")
    return zoo.fetch(name)


@lru_cache(maxsize=1)
def openvino_outputs(name: str) -> list[np.ndarray]:
    return run_openvino(model_path(name), zoo.inputs(name))


def run_openvino(path: Path, inputs: dict[str, np.ndarray]) -> list[np.ndarray]:
    compiled = ov.compile_model(path, "CPU", PRECISE)
    return [np.array(output) for output in compiled(inputs).to_tuple()]


def assert_agree(found: Sequence[np.ndarray], wanted: Sequence[np.ndarray], tolerance: float = TOLERANCE) -> None:
    assert len(found) == len(wanted)
    for ours, theirs in zip(found, wanted, strict=True):
        assert ours.dtype == theirs.dtype
        assert ours.shape == theirs.shape
        assert np.isfinite(theirs).all()
        assert theirs.std() > 1e-6 * np.abs(theirs).max(), "an output that is all the same tests nothing"
        np.testing.assert_allclose(ours, theirs, rtol=0, atol=tolerance * np.abs(theirs).max())


@pytest.mark.parametrize("name", zoo.NETWORKS)
def test_outputs_are_those_of_openvino(name):
    compiled = irrun.compile_model(model_path(name), check=True)
    request = compiled.create_infer_request()
    outputs = request.infer(zoo.inputs(name)).to_tuple()
    assert_agree(outputs, openvino_outputs(name))
    assert [str(mismatch) for mismatch in request.mismatches] == []


@pytest.mark.parametrize("name", zoo.NETWORKS)
def test_openvino_reads_what_irrun_saves(name, tmp_path):
    saved, _ = irrun.save_model(irrun.read_model(model_path(name)), tmp_path / "model.xml")
    assert_agree(run_openvino(saved, zoo.inputs(name)), openvino_outputs(name), tolerance=0)


@pytest.mark.parametrize("name", zoo.DEEPLY_QUANTIZED)
def test_quantized_outputs_are_as_near_as_openvino_is_to_itself(name):
    """A last bit decides which way a quantization rounds, and each layer spreads the difference further.

    So OpenVINO's integer kernels differ from its own FakeQuantize in f32; irrun may not differ more.
    """
    path = model_path(name)
    compiled = ov.compile_model(path, "CPU", PRECISE | {"LP_TRANSFORMS_MODE": "YES"})
    integer, real = compiled(zoo.inputs(name)).to_tuple(), openvino_outputs(name)
    found = irrun.compile_model(path)(zoo.inputs(name)).to_tuple()
    for ours, a, b in zip(found, integer, real, strict=True):
        spread = np.abs(a - b).mean()
        assert 0 < spread < 0.05 * np.abs(a).max()
        assert np.abs(ours - b).mean() < 1.5 * spread


class Session:
    """A language model of irrun or OpenVINO that is fed texts of the same length, and keeps them in its variables."""

    def __init__(self, request: Any, rows: int) -> None:
        self.request = request
        self.mask = np.ones((rows, 0), np.int64)

    def logits(self, tokens: np.ndarray, beams: Sequence[int] | None = None) -> np.ndarray:
        """[rows, length, vocabulary]; beams: the row that each row goes on from."""
        rows, length = tokens.shape
        beam_idx = np.arange(rows, dtype=np.int32) if beams is None else np.array(beams, np.int32)
        self.mask = np.concatenate([self.mask[beam_idx], np.ones((rows, length), np.int64)], 1)
        positions = np.broadcast_to(np.arange(self.mask.shape[1] - length, self.mask.shape[1]), tokens.shape)
        fed = {
            "input_ids": tokens,
            "attention_mask": self.mask,
            "position_ids": positions.copy(),
            "beam_idx": beam_idx,
        }
        return np.array(self.request.infer(fed)["logits"])

    def greedy(self, prompt: np.ndarray, steps: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """The likeliest next tokens [rows] and their logits [rows, vocabulary], step by step."""
        tokens = prompt
        for _ in range(steps):
            logits = self.logits(tokens)[:, -1]
            tokens = logits.argmax(-1)[:, None]
            yield tokens[:, 0], logits


def sessions(name: str, rows: int) -> tuple[Session, Session]:
    path = model_path(name)
    ours = irrun.compile_model(path).create_infer_request()
    return Session(ours, rows), Session(ov.compile_model(path, "CPU", PRECISE).create_infer_request(), rows)


def prompt(rows: int = 2, length: int = 7) -> np.ndarray:
    return np.random.default_rng(5).integers(0, 1000, (rows, length))


@pytest.mark.parametrize("name", zoo.LANGUAGE)
def test_greedy_tokens_are_those_of_openvino(name):
    ours, theirs = sessions(name, 2)
    pairs = list(zip(ours.greedy(prompt(), STEPS), theirs.greedy(prompt(), STEPS), strict=True))
    chosen = np.array([tokens for (tokens, _), _ in pairs])
    np.testing.assert_array_equal(chosen, [tokens for _, (tokens, _) in pairs])
    assert min(len(set(row)) for row in chosen.T) > 5, "text that repeats itself tests little"


@pytest.mark.parametrize("name", zoo.LANGUAGE)
def test_logits_are_those_of_openvino(name):
    for (_, found), (_, wanted) in zip(*(s.greedy(prompt(), 4) for s in sessions(name, 2)), strict=True):
        assert_agree([found], [wanted])


@pytest.mark.parametrize("name", zoo.LANGUAGE)
def test_beams_change_places_and_padding_is_masked(name):
    outputs = []
    for session in sessions(name, 3):
        session.mask = np.ones((3, 0), np.int64)
        first = session.logits(prompt(3))
        session.mask[1, :3] = 0
        second = session.logits(first[:, -1].argmax(-1)[:, None], beams=[2, 0, 0])
        third = session.logits(prompt(3, 4), beams=[1, 2, 1])
        outputs.append([first, second, third])
    assert_agree(*outputs)


@pytest.mark.parametrize("name", zoo.LANGUAGE)
def test_openvino_reads_the_language_model_that_irrun_saves(name, tmp_path):
    path = model_path(name)
    saved, _ = irrun.save_model(irrun.read_model(path), tmp_path / "model.xml")
    original, copy = (
        Session(ov.compile_model(p, "CPU", PRECISE).create_infer_request(), 2).greedy(prompt(), 8)
        for p in (path, saved)
    )
    for (tokens, logits), (again, logits_again) in zip(original, copy, strict=True):
        np.testing.assert_array_equal(tokens, again)
        assert_agree([logits_again], [logits], tolerance=1e-6)
