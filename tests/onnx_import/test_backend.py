"""ONNX's backend tests, imported and run by irrun alone."""

from __future__ import annotations

import warnings
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx_backend.suite import compare_outputs, load_data_sets

import irrun
from onnx_import.reasons import RELEASE, find_reason

onnx = pytest.importorskip("onnx")


def test_backend_tests_pass_except_those_with_a_reason(
    backend_tests: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    errors: dict[str, str] = {}
    tests = backend_tests
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        for name, test in tests.items():
            try:
                run_test(test)
            except Exception as error:
                errors[name] = f"{type(error).__name__}: {error}"
    passed = len(tests) - len(errors)
    causes = Counter(find_reason(name) or "unknown" for name in errors)
    with capsys.disabled():
        print(f"\n{passed} of {len(tests)} backend tests of ONNX {onnx.__version__} pass")
        for cause, count in causes.most_common():
            print(f"  {count:4} {cause}")
    assert passed >= 0.85 * len(tests)
    if onnx.__version__.startswith(RELEASE + "."):
        unexplained = {name: error for name, error in errors.items() if not find_reason(name)}
        assert not unexplained, "\n".join(f"{name}: {error}" for name, error in unexplained.items())
        assert [name for name in tests if find_reason(name) and name not in errors] == []


def run_test(test: Any) -> None:
    """Import the model of a test, run it on each data set, and compare the outputs with those that ONNX expects."""
    model = test.model if test.model is not None else onnx.load(Path(test.model_dir) / "model.onnx")
    compiled = irrun.compile_model(irrun.read_model(model.SerializeToString()), precision="declared")
    names = {name for spec in compiled.inputs for name in spec.names}
    outputs, expected = [], []
    for inputs, results in load_data_sets(test, model):
        values = compiled({name: value for name, value in inputs.items() if name in names})
        outputs.append([values[i] for i in range(len(compiled.outputs))])
        expected.append(results)
    assert expected
    compare_outputs(outputs, expected, test.rtol, test.atol)
