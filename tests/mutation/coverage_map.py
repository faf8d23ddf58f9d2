"""Plugin of pytest that records which tests execute which lines.

The record selects the tests of a mutation; see mutate.py. With pytest-xdist, each process writes a record of its own.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import coverage
import pytest

__all__ = ["CoverageMap"]


class CoverageMap:
    """Records the lines of irrun that each test executes, under the id of the test, and its processor time.

    Args:
        folder: Where the records are written.
        source: The folder of the package.
    """

    def __init__(self, folder: Path, source: Path) -> None:
        self._folder = folder
        self._seconds: dict[str, float] = {}
        self._coverage = coverage.Coverage(
            data_file=str(folder / f"record.{os.getpid()}"), source=[str(source)], config_file=False, branch=False
        )

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        """Record one test. It makes the kernels that it uses, whether or not an earlier one has."""
        if "irrun.fast.jit" in sys.modules:
            from fast.harness import forget_kernels

            forget_kernels()
        if sys.gettrace() is None:  # tests of debuggers end the recording
            self._coverage.stop()
            self._coverage.start()
        self._coverage.switch_context(item.nodeid)
        start = time.process_time()
        result = yield
        self._seconds[item.nodeid] = round(time.process_time() - start, 2)
        self._coverage.switch_context("")
        return result

    def start(self) -> None:
        """Start to record."""
        self._coverage.start()

    def save(self) -> None:
        """Write the record."""
        self._coverage.stop()
        self._coverage.save()
        (self._folder / f"seconds.{os.getpid()}.json").write_text(json.dumps(self._seconds))


def pytest_configure(config: pytest.Config) -> None:
    """Record the tests of this process; the process that distributes them to others has none."""
    if getattr(config.option, "numprocesses", None) and not hasattr(config, "workerinput"):
        return
    plugin = CoverageMap(Path(os.environ["IRRUN_COVERAGE_MAP"]), config.rootpath / "irrun")
    config.pluginmanager.register(plugin, "irrun-coverage-map")
    plugin.start()


def pytest_unconfigure(config: pytest.Config) -> None:
    """Write the record."""
    plugin = config.pluginmanager.get_plugin("irrun-coverage-map")
    if isinstance(plugin, CoverageMap):
        plugin.save()
