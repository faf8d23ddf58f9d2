"""The end of a test run names what was skipped and what to install."""

from __future__ import annotations

import re
import sys
from collections import Counter
from importlib.metadata import metadata
from pathlib import Path

import pytest
from skips import INSTALLATION, count_reasons, describe_skips


def make_report(reason: str, kind=pytest.TestReport):
    report = kind.__new__(kind)
    report.longrepr = ("test_x.py", 1, reason)
    return report


def test_reasons_are_counted_by_tests_and_files():
    reports = [make_report("Skipped: requires Linux")] * 2 + [make_report("requires Linux", pytest.CollectReport)]
    assert count_reasons(reports) == {("test", "requires Linux"): 2, ("file", "requires Linux"): 1}


def test_packages_of_one_extra_share_a_line():
    reasons = Counter(
        {
            ("test", "llvmlite is not installed"): 1040,
            ("file", "could not import 'llvmlite.binding': No module named 'llvmlite'"): 2,
            ("test", "could not import 'dask': No module named 'dask'"): 1,
            ("file", "could not import 'distributed': No module named 'distributed'"): 2,
            ("test", "ResNet-50 is not built, and building it requires torch"): 1,
            ("test", "requires Linux 5.14"): 2,
        }
    )
    assert describe_skips(reasons, slow=71) == [
        "skipped: 2 files and 1,040 tests need llvmlite: pip install -e '.[jit]'",
        "skipped: 2 files and 1 test need Dask and Zarr: pip install -e '.[dask]'",
        "skipped: 1 test needs PyTorch and NNCF: pip install -e '.[zoo]'",
        "skipped: 2 tests: requires Linux 5.14",
        "skipped: 71 tests that take minutes: pytest -m slow",
    ]


def test_nothing_is_described_if_all_tests_ran():
    assert describe_skips(Counter()) == []


def test_extras_exist():
    extras = metadata("irrun").get_all("Provides-Extra")
    named = re.findall(r"\.\[(\w+)\]", " ".join(command for _, command in INSTALLATION.values()))
    assert {"dask", "jit", "openvino"} <= set(named) <= set(extras)


def test_reasons_of_skips_name_packages_that_an_extra_installs():
    """A test that is skipped since a package is missing has a line that says how to install it."""
    root = Path(__file__).parent
    names = set()
    for path in root.rglob("*.py"):
        names.update(re.findall(r'importorskip\("(\w+)', path.read_text(encoding="utf-8")))
    assert {"llvmlite", "openvino", "zarr"} <= names
    assert names - sys.stdlib_module_names <= INSTALLATION.keys()
