"""Tests that compare irrun with OpenVINO on whole networks exported from PyTorch: `pytest -m slow tests/zoo`.

`python benchmarks/zoo.py` builds the networks. A network that is missing from the cache is built if PyTorch is
installed; otherwise its tests are skipped.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zoo

import irrun

ov = pytest.importorskip("openvino")
pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

#: Largest difference from OpenVINO's output, relative to its largest absolute value.
TOLERANCE = 1e-3
STEPS = 32
#: Properties that turn off optimizations of OpenVINO's CPU plugin that reduce precision: low-precision floats and
#: caches, integer kernels for FakeQuantize.
PRECISE = {
    "INFERENCE_PRECISION_HINT": "f32",
    "KV_CACHE_PRECISION": "f32",
    "DYNAMIC_QUANTIZATION_GROUP_SIZE": "0",
    "LP_TRANSFORMS_MODE": "NO",
}


def get_model_path(name: str) -> Path:
    if not (zoo.get_cache() / name / "model.xml").exists():
        for package in ("torch", "transformers", "nncf"):
            pytest.importorskip(package, reason=f"{name} is not built, and building it requires {package}")
    return zoo.fetch(name)


@lru_cache(maxsize=1)
def compute_openvino_outputs(name: str) -> list[np.ndarray]:
    return run_openvino(get_model_path(name), zoo.load_inputs(name))


def run_openvino(path: Path, inputs: dict[str, np.ndarray]) -> list[np.ndarray]:
    compiled = ov.compile_model(path, "CPU", PRECISE)
    return [np.array(output) for output in compiled(inputs).to_tuple()]


def assert_outputs_agree(
    actual: Sequence[np.ndarray], expected: Sequence[np.ndarray], tolerance: float = TOLERANCE
) -> None:
    assert len(actual) == len(expected)
    for a, b in zip(actual, expected, strict=True):
        assert a.dtype == b.dtype
        assert a.shape == b.shape
        assert np.isfinite(b).all()
        assert b.std() > 1e-6 * np.abs(b).max(), "the expected output is constant, so the comparison is meaningless"
        np.testing.assert_allclose(a, b, rtol=0, atol=tolerance * np.abs(b).max())


@pytest.mark.parametrize("optimize", [True, False], ids=["optimized", "plain"])
@pytest.mark.parametrize("name", zoo.NETWORKS)
def test_outputs_equal_those_of_openvino(name, optimize):
    compiled = irrun.compile_model(get_model_path(name), check=True, optimize=optimize)
    request = compiled.create_infer_request()
    outputs = request.infer(zoo.load_inputs(name)).to_tuple()
    assert_outputs_agree(outputs, compute_openvino_outputs(name))
    assert [str(mismatch) for mismatch in request.mismatches] == []


@pytest.mark.parametrize("name", zoo.NETWORKS)
def test_openvino_reads_saved_model(name, tmp_path):
    saved, _ = irrun.save_model(irrun.read_model(get_model_path(name)), tmp_path / "model.xml")
    assert_outputs_agree(run_openvino(saved, zoo.load_inputs(name)), compute_openvino_outputs(name), tolerance=0)


@pytest.mark.parametrize("name", zoo.DEEPLY_QUANTIZED)
def test_quantized_outputs_differ_no_more_than_those_of_openvino_kernels(name):
    """Compare the error of irrun with the difference between OpenVINO's integer and f32 kernels.

    The last bit of a value decides how quantization rounds it, and each further layer amplifies the difference.
    OpenVINO's integer kernels therefore differ from its own FakeQuantize in f32. irrun may differ from the latter by
    at most one and a half times as much.
    """
    path = get_model_path(name)
    compiled = ov.compile_model(path, "CPU", PRECISE | {"LP_TRANSFORMS_MODE": "YES"})
    integer_outputs, float_outputs = compiled(zoo.load_inputs(name)).to_tuple(), compute_openvino_outputs(name)
    outputs = irrun.compile_model(path)(zoo.load_inputs(name)).to_tuple()
    for actual, by_integers, by_floats in zip(outputs, integer_outputs, float_outputs, strict=True):
        difference = np.abs(by_integers - by_floats).mean()
        assert 0 < difference < 0.05 * np.abs(by_integers).max()
        assert np.abs(actual - by_floats).mean() < 1.5 * difference


class Session:
    """A language model on irrun or OpenVINO that keeps the texts of a batch, all of the same length, in its variables.

    Attributes:
        request: The infer request.
        mask: The attention mask, [rows, length].
    """

    def __init__(self, request: Any, rows: int) -> None:
        self.request = request
        self.mask = np.ones((rows, 0), np.int64)

    def compute_logits(self, tokens: np.ndarray, beams: Sequence[int] | None = None) -> np.ndarray:
        """Append tokens to the texts and return their logits.

        Args:
            tokens: The next tokens, [rows, length].
            beams: The row of the previous step that each row continues. None keeps the rows.

        Returns:
            Logits, [rows, length, vocabulary].
        """
        rows, length = tokens.shape
        beam_idx = np.arange(rows, dtype=np.int32) if beams is None else np.array(beams, np.int32)
        self.mask = np.concatenate([self.mask[beam_idx], np.ones((rows, length), np.int64)], 1)
        positions = np.broadcast_to(np.arange(self.mask.shape[1] - length, self.mask.shape[1]), tokens.shape)
        inputs = {
            "input_ids": tokens,
            "attention_mask": self.mask,
            "position_ids": positions.copy(),
            "beam_idx": beam_idx,
        }
        return np.array(self.request.infer(inputs)["logits"])

    def generate_greedily(self, prompt: np.ndarray, steps: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Yield the most probable next tokens, [rows], and their logits, [rows, vocabulary], for each step."""
        tokens = prompt
        for _ in range(steps):
            logits = self.compute_logits(tokens)[:, -1]
            tokens = logits.argmax(-1)[:, None]
            yield tokens[:, 0], logits


def create_sessions(name: str, rows: int, optimize: bool = True) -> tuple[Session, Session]:
    """Return a session on irrun and one on OpenVINO."""
    path = get_model_path(name)
    request = irrun.compile_model(path, optimize=optimize).create_infer_request()
    return Session(request, rows), Session(ov.compile_model(path, "CPU", PRECISE).create_infer_request(), rows)


def create_prompt(rows: int = 2, length: int = 7) -> np.ndarray:
    return np.random.default_rng(5).integers(0, 1000, (rows, length))


@pytest.mark.parametrize("name", zoo.LANGUAGE)
def test_greedy_tokens_equal_those_of_openvino(name):
    actual, expected = (s.generate_greedily(create_prompt(), STEPS) for s in create_sessions(name, 2))
    pairs = list(zip(actual, expected, strict=True))
    tokens = np.array([tokens for (tokens, _), _ in pairs])
    np.testing.assert_array_equal(tokens, [tokens for _, (tokens, _) in pairs])
    assert min(len(set(row)) for row in tokens.T) > 5, "the generated text is too repetitive to be a useful test"


@pytest.mark.parametrize("optimize", [True, False], ids=["optimized", "plain"])
@pytest.mark.parametrize("name", zoo.LANGUAGE)
def test_logits_equal_those_of_openvino(name, optimize):
    sessions = create_sessions(name, 2, optimize)
    steps = zip(*(session.generate_greedily(create_prompt(), 4) for session in sessions), strict=True)
    for (_, actual), (_, expected) in steps:
        assert_outputs_agree([actual], [expected])


@pytest.mark.parametrize("name", zoo.LANGUAGE)
def test_beams_are_reordered_and_padding_is_masked(name):
    outputs = []
    for session in create_sessions(name, 3):
        session.mask = np.ones((3, 0), np.int64)
        first = session.compute_logits(create_prompt(3))
        session.mask[1, :3] = 0
        second = session.compute_logits(first[:, -1].argmax(-1)[:, None], beams=[2, 0, 0])
        third = session.compute_logits(create_prompt(3, 4), beams=[1, 2, 1])
        outputs.append([first, second, third])
    assert_outputs_agree(*outputs)


@pytest.mark.parametrize("name", zoo.LANGUAGE)
def test_openvino_reads_saved_language_model(name, tmp_path):
    path = get_model_path(name)
    saved, _ = irrun.save_model(irrun.read_model(path), tmp_path / "model.xml")
    original, copy = (
        Session(ov.compile_model(p, "CPU", PRECISE).create_infer_request(), 2).generate_greedily(create_prompt(), 8)
        for p in (path, saved)
    )
    for (tokens, logits), (copy_tokens, copy_logits) in zip(original, copy, strict=True):
        np.testing.assert_array_equal(tokens, copy_tokens)
        assert_outputs_agree([copy_logits], [logits], tolerance=1e-6)
