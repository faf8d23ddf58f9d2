"""A model, inputs, and a cluster in the process of the tests."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from ir_text import layer, net, port, write


def write_model(folder: Path, batch: str = "?") -> Path:
    """Write a model that sums the exponentials of 8 numbers, which rounds."""
    layers = [
        layer(0, "Parameter", data=f'shape="{batch},8" element_type="f32"', outputs=[port(0)], name="x"),
        layer(1, "Exp", inputs=[port(0)], outputs=[port(1)]),
        layer(2, "Const", data='element_type="f32" shape="8,4" offset="0" size="128"', outputs=[port(0, (8, 4))]),
        layer(3, "MatMul", inputs=[port(0), port(1)], outputs=[port(2)], name="y"),
        layer(4, "Result", inputs=[port(0)], name="result"),
    ]
    weights = np.random.default_rng(0).standard_normal((8, 4)).astype(np.float32)
    return write(folder, net(layers, [(0, 0, 1, 0), (1, 1, 3, 0), (2, 0, 3, 1), (3, 2, 4, 0)]), weights)


@pytest.fixture
def model(tmp_path):
    return write_model(tmp_path)


@pytest.fixture(scope="session")
def scheduler():
    """Return the address of a scheduler whose worker is a thread, which starts at once."""
    distributed = pytest.importorskip("distributed")
    with distributed.LocalCluster(
        n_workers=1, threads_per_worker=1, processes=False, dashboard_address="127.0.0.1:0", silence_logs="CRITICAL"
    ) as cluster:
        yield cluster.scheduler_address
