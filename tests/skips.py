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
    "nncf": ("PyTorch and NNCF", "pip install -e '.[zoo]'"),
    "ultralytics": ("ultralytics", "pip install ultralytics"),
    "model_api": ("Model API", "pip install openvino-model-api opencv-python-headless"),
    "cv2": ("Model API", "pip install openvino-model-api opencv-python-headless"),
    "optimum": ("Optimum", "pip install optimum-intel"),
}
#: Packages of the extra `test` itself.
TESTS = ("hypothesis", "ipykernel", "mpmath", "mypy", "nbclient", "nbformat", "onnx", "onnxruntime")
TESTS_OF_TEXT = ("openvino_genai", "openvino_tokenizers", "sentencepiece", "tokenizers", "transformers")
INSTALLATION |= dict.fromkeys((*TESTS, *TESTS_OF_TEXT), ("packages of the tests", "pip install -e '.[test]'"))
if sys.version_info < (3, 11):
    INSTALLATION["zarr"] = ("Zarr 3", "install Python 3.11 or later")

_PACKAGE = re.compile(r"could not import '([\w.]+)'|\b(\w+) is not installed$|requires (\w+)$")


def count_reasons(reports: Iterable[pytest.CollectReport | pytest.TestReport]) -> Counter[tuple[str, str]]:
    """Count skipped tests by their reason.

    Args:
        reports: Reports of skipped tests, and of files that are skipped as a whole.

    Returns:
        Counts by "file" or "test" and the reason.
    """
    counts: Counter[tuple[str, str]] = Counter()
    for report in reports:
        reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
        kind = "file" if isinstance(report, pytest.CollectReport) else "test"
        counts[kind, reason.removeprefix("Skipped: ")] += 1
    return counts


def describe_skips(reasons: Mapping[tuple[str, str], int], slow: int = 0) -> list[str]:
    """Describe skipped tests: a line for each extra that is missing, and for each other reason.

    Args:
        reasons: Counts by kind and reason.
        slow: The number of tests that are left out since they are marked as slow.
    """
    needs: dict[tuple[str, str], Counter[str]] = {}
    others: dict[str, Counter[str]] = {}
    for (kind, reason), count in reasons.items():
        match = _PACKAGE.search(reason)
        package = next(filter(None, match.groups())).partition(".")[0] if match else ""
        if package in INSTALLATION:
            needs.setdefault(INSTALLATION[package], Counter())[kind] += count
        else:
            others.setdefault(reason, Counter())[kind] += count
    lines = []
    for (name, command), counts in sorted(needs.items(), key=lambda item: -item[1].total()):
        verb = "needs" if counts.total() == 1 else "need"
        lines.append(f"skipped: {_describe(counts)} {verb} {name}: {command}")
    for reason, counts in sorted(others.items(), key=lambda item: -item[1].total()):
        lines.append(f"skipped: {_describe(counts)}: {reason}")
    if slow:
        lines.append(f"skipped: {_count(slow, 'test')} that {'takes' if slow == 1 else 'take'} minutes: pytest -m slow")
    return lines


def _describe(counts: Counter[str]) -> str:
    return " and ".join(_count(counts[kind], kind) for kind in ("file", "test") if counts[kind])


def _count(count: int, noun: str) -> str:
    return f"{count:,} {noun}" + ("" if count == 1 else "s")
