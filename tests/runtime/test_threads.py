"""Requests can run on several threads at once."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np

import irrun

EXAMPLE = Path(__file__).parents[2] / "examples/date_translation"


def test_two_requests_on_two_threads_return_the_same_bits_as_one():
    """Run a model with a body, back edges and matrix products a thousand times."""
    compiled = irrun.compile_model(EXAMPLE / "model.xml")
    texts = np.load(EXAMPLE / "input.npy")
    inputs = [np.roll(texts[i % len(texts)], i // len(texts) % 3)[None] for i in range(500)]

    def run_all(_: int) -> list[tuple[bytes, bytes]]:
        request = compiled.create_infer_request()
        results = []
        for x in inputs:
            out = request.infer(x)
            results.append((out["beams"].tobytes(), out["scores"].tobytes()))
        return results

    expected = run_all(0)
    with ThreadPoolExecutor(2) as pool:
        for results in pool.map(run_all, range(2)):
            assert results == expected
