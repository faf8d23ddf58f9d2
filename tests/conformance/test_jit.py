"""Tests that compiled kernels agree with OpenVINO, for a sample of the cases of the operations that are compiled.

`IRRUN_JIT=on pytest tests/conformance/test_jit.py` runs all of their cases.
"""

from __future__ import annotations

import importlib.util
import os

import numpy as np
import pytest

pytest.importorskip("openvino")

from irrun.conformance.cases import GENERATORS, Case, list_cases, load_generators
from irrun.conformance.harness import run_case

pytestmark = pytest.mark.skipif(importlib.util.find_spec("llvmlite") is None, reason="llvmlite is not installed")

TYPES = frozenset(
    (
        *("Abs", "Add", "Ceiling", "Clamp", "Convolution", "Divide", "Elu", "Erf", "Exp", "FakeQuantize", "Floor"),
        *("Gelu", "GroupConvolution", "HSigmoid", "HSwish", "Log", "MVN", "MatMul", "Maximum", "Minimum", "Mish"),
        *("Multiply", "Negative", "PRelu", "Power", "Relu", "ScaledDotProductAttention", "Sigmoid", "SoftPlus"),
        *("Softmax", "Sqrt", "SquaredDifference", "Subtract", "Swish", "Tanh"),
    )
)
#: Versions of which no case of the sample is compiled: other attributes, and exponents other than 2.
PLAIN = {("MVN", 2), ("Power", 1)}
#: Cases of a type in a sample, and of types whose kernels depend on attributes and shapes.
SAMPLE, LARGE_SAMPLE = 2, 5
LARGE = ("Convolution", "FakeQuantize", "GroupConvolution", "MVN", "MatMul", "ScaledDotProductAttention", "Softmax")
#: Whether all cases run, decided before a test sets the variable.
RUNS_ALL = os.environ.get("IRRUN_JIT") == "on"

load_generators()


def is_compiled(x: np.ndarray | None) -> bool:
    """Return whether kernels are compiled for such data; scalars and empty arrays are left to plain kernels."""
    return x is not None and x.dtype == np.float32 and x.ndim > 0 and x.size > 0


def choose_cases(type: str, since: int) -> list[Case]:
    """Return all cases of an operation, or some of those in f32."""
    cases = list(list_cases(type, since))
    if RUNS_ALL:
        return cases
    cases = [c for c in cases if c.build is None and is_compiled(c.inputs[0])]
    count = LARGE_SAMPLE if type in LARGE else SAMPLE
    return cases[:: max(1, len(cases) // count)][:count]


@pytest.mark.parametrize(("type", "since"), sorted(key for key in GENERATORS if key[0] in TYPES), ids=str)
def test_compiled_operation_agrees_with_openvino(type, since, monkeypatch, tmp_path_factory):
    from irrun.runtime.passes import jit, jit_compilation, jit_groups

    compiled = []
    compile_program = jit.compile_program

    def record(program, packed):
        compile_program(program, packed)
        compiled.extend(i for i in program.instructions if i.description.startswith("compiled: "))

    monkeypatch.setenv("IRRUN_JIT", "on")
    monkeypatch.setenv("IRRUN_CACHE_DIR", str(tmp_path_factory.getbasetemp() / "kernels"))
    monkeypatch.setattr(jit, "compile_program", record)
    for name in ("MIN_SIZE", "MIN_CHEAP_SIZE"):
        monkeypatch.setattr(jit_compilation, name, 1)
    monkeypatch.setattr(jit_groups, "MIN_WEIGHTS", 1)
    for case in choose_cases(type, since):
        try:
            run_case(type, since, case)
        except AssertionError as error:
            raise AssertionError(f"{case.note} {case.attributes}\n{error}") from error
    assert compiled or (type, since) in PLAIN
