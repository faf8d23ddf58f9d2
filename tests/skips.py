"""The end of a test run: what was skipped, and what to install so that it runs."""

from __future__ import annotations

import re
import sys
from collections import Counter
from collections.abc import Iterable, Mapping

import pytest

__all__ = ["count_reasons", "describe_skips"]

#: What installs a package, by the name that is imported. Packages of the same extra share a line.
INSTALLATION = {
    "PIL": ("Pillow", "pip install -e '.[images]'"),
    "cryptography": ("Dask and Zarr", "pip install -e '.[dask]'"),
    "dask": ("Dask and Zarr", "pip install -e '.[dask]'"),
    "distributed": ("Dask and Zarr", "pip install -e '.[dask]'"),
    "zarr": ("Dask and Zarr", "pip install -e '.[dask]'"),
    "llvmlite": ("llvmlite", "pip install -e '.[jit]'"),
    "openvino": ("OpenVINO", "pip install -e '.[openvino]'"),
    "safetensors": ("safetensors", "pip install -e '.[safetensors]'"),
    "regex": ("regex and Jinja", "pip install -e '.[text]'"),
    "jinja2": ("regex and Jinja", "pip install -e '.[text]'"),
    "playwright": ("Playwright and Chromium", "pip install -e '.[browser]' && apt-get install chromium"),
    "Playwright": ("Playwright and Chromium", "pip install -e '.[browser]' && apt-get install chromium"),
    "Chromium": ("Playwright and Chromium", "pip install -e '.[browser]' && apt-get install chromium"),
    "torch": ("PyTorch and NNCF", "pip install -e '.[zoo]'"),
    "transformers": ("PyTorch and NNCF", "pip install -e '.[zoo]'"),
    "nncf": ("PyTorch and NNCF", "pip install -e '.[zoo]'"),
    "ultralytics": ("ultralytics", "pip install ultralytics"),
    "model_api": ("Model API", "pip install openvino-model-api opencv-python-headless"),
    "cv2": ("Model API", "pip install openvino-model-api opencv-python-headless"),
    "optimum": ("Optimum", "pip install optimum-intel"),
}
#: Packages of the extra `test` itself.
TESTS = ("hypothesis", "ipykernel", "mpmath", "mypy", "nbclient", "nbformat", "onnx", "onnxruntime")
TESTS_OF_TEXT = ("openvino_tokenizers", "sentencepiece", "tokenizers")
INSTALLATION |= dict.fromkeys((*TESTS, *TESTS_OF_TEXT), ("packages of the tests", "pip install -e '.[test]'"))
