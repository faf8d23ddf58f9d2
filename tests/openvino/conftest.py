"""Fixtures: OpenVINO and its replacement, and small models."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from openvino_modules import import_submodule

MODULES = {"openvino": "openvino", "irrun": "irrun.openvino"}


@pytest.fixture(params=list(MODULES))
def ov(request: pytest.FixtureRequest) -> Any:
    """Return OpenVINO, then its replacement."""
    if request.param == "openvino":
        return pytest.importorskip("openvino")
    return importlib.import_module(MODULES[request.param])


@pytest.fixture
def oracle() -> Any:
    """Return OpenVINO."""
    return pytest.importorskip("openvino")


@pytest.fixture
def irrun_ov() -> Any:
    """Return the replacement of OpenVINO."""
    return importlib.import_module("irrun.openvino")


def build_classifier(ov: Any, shape: Any = (1, 3, 8, 8)) -> Any:
    """Build a convolutional network with the input "data" and the outputs "scores" and "features"."""
    ops = import_submodule(ov, "opset8")
    rng = np.random.default_rng(0)
    data = ops.parameter(list(shape), np.float32, name="data")
    data.output(0).set_names({"data"})
    filters = ops.constant(rng.standard_normal((4, 3, 3, 3)).astype(np.float32))
    features = ops.relu(ops.convolution(data, filters, [1, 1], [1, 1], [1, 1], [1, 1]))
    features.output(0).set_names({"features"})
    pooled = ops.reduce_mean(features, ops.constant(np.array([2, 3], np.int64)), False)
    weights = ops.constant(rng.standard_normal((4, 5)).astype(np.float32))
    scores = ops.softmax(ops.matmul(pooled, weights, False, False), 1)
    scores.set_friendly_name("classes")
    scores.output(0).set_names({"scores"})
    return ov.Model([ops.result(scores), ops.result(features)], [data], "classifier")


@pytest.fixture
def classifier(tmp_path: Path) -> Path:
    """Write the classifier as IR, with OpenVINO if it is installed."""
    path = tmp_path / "classifier.xml"
    try:
        writer = importlib.import_module("openvino")
    except ImportError:
        writer = importlib.import_module("irrun.openvino")
    writer.save_model(build_classifier(writer), path, compress_to_fp16=False)
    return path


@pytest.fixture
def image() -> np.ndarray:
    """Return an input of the classifier."""
    return np.random.default_rng(1).random((1, 3, 8, 8), np.float32)
