"""Requests on several threads share nothing that changes."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np

import irrun

EXAMPLE = Path(__file__).parents[2] / "examples/date_translation"


def test_two_requests_on_two_threads_give_the_bits_of_one_after_the_other():
    """A thousand runs with bodies, state on back edges and matrix products."""
    compiled = irrun.compile_model(EXAMPLE / "model.xml")
    texts = np.load(EXAMPLE / "input.npy")
    inputs = [np.roll(texts[i % len(texts)], i // len(texts) % 3)[None] for i in range(500)]

    def walk(_: int) -> list[tuple[bytes, bytes]]:
        request = compiled.create_infer_request()
        found = []
        for x in inputs:
            out = request.infer(x)
            found.append((out["beams"].tobytes(), out["scores"].tobytes()))
        return found

    alone = walk(0)
    with ThreadPoolExecutor(2) as pool:
        for found in pool.map(walk, range(2)):
            assert found == alone
