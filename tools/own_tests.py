"""Run OpenVINO's own Python tests on OpenVINO and on irrun, and print what passes on the first only.

    python tools/own_tests.py FOLDER [--only PATTERN] [--json results.json] [--reuse results.json] [--list]

FOLDER holds a package `tests`, such as `src/bindings/python` of a checkout of OpenVINO. Each file runs in a process of
its own, once on the OpenVINO that is installed and once on irrun. Only tests that pass on OpenVINO count. Tests are
named by file, function and number, since names of parameters may differ. Where a release of OpenVINO has no
`openvino.runtime` any more, that name stands for `openvino`, so that tests of earlier releases run; names that NumPy
and ONNX had in 2022 exist too. `--reuse` takes the results on OpenVINO from an earlier run. `--list` prints each test
that passes on OpenVINO only.
"""

from __future__ import annotations

import argparse
import collections
import contextlib
import importlib
import importlib.abc
import importlib.util
import json
import os
import re
import subprocess
import sys
import tempfile
import types
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

SIDES = ("openvino", "irrun")
#: Seconds for a file of tests.
TIMEOUT = 900
#: Names of OpenVINO's modules in earlier releases.
_OLD_NAMES = {"openvino.runtime": "openvino", "openvino.pyopenvino": "openvino._pyopenvino"}

Results = dict[str, dict[str, list[str]]]


class OldNameFinder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Finds modules of OpenVINO by their names of earlier releases."""

    def find_spec(self, name: str, path: Sequence[str] | None, target: Any = None) -> Any:
        """Return the specification of a module, or None."""
        if self._find_new_name(name) is None:
            return None
        return importlib.machinery.ModuleSpec(name, self, is_package=True)

    def create_module(self, spec: Any) -> Any:
        """Return the module of today."""
        module = importlib.import_module(self._find_new_name(spec.name) or "openvino")
        self._specification = module.__spec__
        return module

    def exec_module(self, module: Any) -> None:
        """Restore the specification, which the import system replaced."""
        module.__spec__ = self._specification

    def _find_new_name(self, name: str) -> str | None:
        for old, new in _OLD_NAMES.items():
            if name == old or name.startswith(f"{old}."):
                return new + name[len(old) :]
        return None


class Recorder:
    """Writes the result of each test to a file, as a plugin of pytest.

    Args:
        path: The file, a JSON list per line.
        skipped: How many tests to leave out at the start.
    """

    def __init__(self, path: str, skipped: int) -> None:
        self._path = path
        self._skipped = skipped
        self._names: dict[str, str] = {}
        self._failed: set[str] = set()

    def pytest_collection_modifyitems(self, items: list[Any]) -> None:
        """Name the tests, and leave out those that have run."""
        numbers: collections.Counter[str] = collections.Counter()
        for item in items:
            base = item.nodeid.partition("[")[0]
            self._names[item.nodeid] = f"{base}#{numbers[base]}"
            numbers[base] += 1
        del items[: self._skipped]

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        """Record that a test started."""
        self._write(nodeid, "crashed", "the process ended")

    def pytest_runtest_logreport(self, report: Any) -> None:
        """Record the result of a phase of a test."""
        if report.failed:
            self._failed.add(report.nodeid)
            crash = getattr(report.longrepr, "reprcrash", None)
            self._write(report.nodeid, "failed", crash.message if crash else str(report.longrepr))
        elif report.when == "call" or report.skipped:
            state = "skipped" if report.skipped or hasattr(report, "wasxfail") else "passed"
            self._write(report.nodeid, state, "")

    def pytest_collectreport(self, report: Any) -> None:
        """Record that a file cannot be imported."""
        if report.failed:
            lines = [line for line in str(report.longrepr).splitlines() if line.startswith("E ")]
            self._names[report.nodeid] = f"{report.nodeid}::import"
            self._write(report.nodeid, "failed", lines[-1][1:].strip() if lines else str(report.longrepr))

    def _write(self, nodeid: str, state: str, message: str) -> None:
        if state == "passed" and nodeid in self._failed:
            return
        with open(self._path, "a", encoding="utf-8") as file:
            print(json.dumps([self._names.get(nodeid, nodeid), state, message]), file=file)


def run_child(side: str, test_file: str, path: str, skipped: int) -> int:
    """Run a file of tests in this process.

    Args:
        side: "openvino" or "irrun".
        test_file: The file, relative to the working folder.
        path: The file for the results.
        skipped: How many tests to leave out at the start.
    """
    import pytest

    if side == "irrun":
        from irrun import install_as_openvino

        install_as_openvino(replace=True)
    else:
        sys.meta_path.insert(0, OldNameFinder())  # the other finders would load modules again
        importlib.import_module("openvino.runtime")
    sys.path[0] = os.getcwd()
    _restore_old_names()
    options = ["-q", "--no-header", "--tb=short", "-p", "no:cacheprovider", "-W", "ignore", "--rootdir", os.getcwd()]
    return int(pytest.main([*options, "-c", os.devnull, test_file], plugins=[Recorder(path, skipped)]))


def _restore_old_names() -> None:
    """Add the names that tests of 2022 use and NumPy and ONNX do not have any more."""
    import numpy as np

    for name, kind in {"float": float, "int": int, "str": str, "object": object}.items():
        if name not in vars(np):
            setattr(np, name, kind)
    with contextlib.suppress(ImportError):
        import onnx
        from onnx import helper

        if importlib.util.find_spec("onnx.mapping") is None:
            mapping = types.ModuleType("onnx.mapping")
            numbers = {kind: helper.tensor_dtype_to_np_dtype(kind) for kind in helper.get_all_tensor_dtypes()}
            vars(mapping)["TENSOR_TYPE_TO_NP_TYPE"] = numbers
            vars(mapping)["NP_TYPE_TO_TENSOR_TYPE"] = {dtype: kind for kind, dtype in reversed(numbers.items())}
            sys.modules["onnx.mapping"] = vars(onnx)["mapping"] = mapping


def run_file(side: str, folder: Path, test_file: str) -> dict[str, list[str]]:
    """Return the result of each test of a file: its state and its message."""
    results: dict[str, list[str]] = {}
    with tempfile.TemporaryDirectory() as temporary:
        while True:
            path = Path(temporary, f"{len(results)}.jsonl")
            command = [sys.executable, os.path.abspath(__file__), "--child", side, test_file, str(path)]
            environment = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, map(os.path.abspath, sys.path)))}
            with contextlib.suppress(subprocess.TimeoutExpired):
                subprocess.run(
                    [*command, str(len(results))],
                    cwd=folder,
                    env=environment,
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.DEVNULL,
                    timeout=TIMEOUT,
                )
            lines = path.read_text().splitlines() if path.exists() else []
            found = {name: [state, message] for name, state, message in map(json.loads, lines)}
            results |= found
            if not found or next(reversed(found.values()))[0] != "crashed":
                return results


def normalize(message: str) -> str:
    """Return the first line of a message, with numbers and addresses left out."""
    line = message.strip().splitlines()[0] if message.strip() else ""
    return re.sub(r"0x[0-9a-f]+|\d+", "N", line)[:110]


def compare(results: Results) -> dict[str, Any]:
    """Return the figures of each file and the tests that pass on OpenVINO only, by message."""
    files: dict[str, list[int]] = {}
    causes: dict[str, list[str]] = {}
    for name, (state, _) in results["openvino"].items():
        if state != "passed":
            continue
        file = name.partition("::")[0]
        default = results["irrun"].get(f"{file}::import", ["failed", "the test does not exist"])
        other, message = results["irrun"].get(name, default)
        counts = files.setdefault(file, [0, 0])
        counts[0] += 1
        if other == "passed":
            counts[1] += 1
        else:
            causes.setdefault(normalize(message) or other, []).append(name)
    return {"files": files, "causes": dict(sorted(causes.items(), key=lambda item: -len(item[1])))}


def report(comparison: dict[str, Any], with_tests: bool) -> None:
    """Print figures by file, and the rest by message."""
    for file, (passed, same) in sorted(comparison["files"].items()):
        print(f"{same:6} of {passed:6}  {file}")
    passed = sum(counts[0] for counts in comparison["files"].values())
    same = sum(counts[1] for counts in comparison["files"].values())
    print(f"{same:6} of {passed:6}  {100 * same / max(passed, 1):.1f} %\n")
    for message, names in comparison["causes"].items():
        print(f"{len(names):6}  {message}")
        for name in names if with_tests else ():
            print(f"          {name}")


def main(arguments: Sequence[str]) -> int:
    """Run the tests and print what differs."""
    if arguments[:1] == ["--child"]:
        return run_child(arguments[1], arguments[2], arguments[3], int(arguments[4]))
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="folder with the package `tests`")
    parser.add_argument("--only", default="", help="part of the paths of files")
    parser.add_argument("--json", type=Path, help="file for the results")
    parser.add_argument("--reuse", type=Path, help="results whose part on OpenVINO is used")
    parser.add_argument("--list", action="store_true", help="print each test that passes on OpenVINO only")
    options = parser.parse_args(arguments)
    found: Iterable[Path] = sorted(options.folder.glob("tests/**/test_*.py"))
    names = [str(path.relative_to(options.folder)) for path in found]
    names = [name for name in names if options.only in name]
    results: dict[str, Any] = {side: {} for side in SIDES}
    if options.reuse:
        kept = json.loads(options.reuse.read_text())["openvino"]
        results["openvino"] = {name: value for name, value in kept.items() if name.partition("::")[0] in names}
    for name in names:
        for side in SIDES[bool(options.reuse) :]:
            results[side] |= run_file(side, options.folder, name)
    comparison = compare(results)
    report(comparison, options.list)
    if options.json:
        options.json.write_text(json.dumps(results | comparison, indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
