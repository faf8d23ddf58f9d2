"""Exported operations in onnxruntime agree with irrun, for a sample of the cases of the conformance tests."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest

pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")
pytest.importorskip("openvino")

import onnx
import onnxruntime as ort

import irrun
from irrun.conformance.cases import GENERATORS, list_cases, load_generators
from irrun.conformance.harness import build_model, compare_outputs
from irrun.element_types import ELEMENT_TYPES
from irrun.export.rules import find_rule
from irrun.export.site import RULES

load_generators()
find_rule("")  # imports all rules

#: Cases of an operation, besides those whose attributes have other values and whose inputs have other ranks.
SAMPLE = 3
#: The number of cases whose inputs have dynamic dimensions.
DYNAMIC_SAMPLE = 3
#: Types that onnxruntime's Python API passes as NumPy arrays.
TYPES = "?bhilqBHILQfde"
#: Element types that it cannot pass, which attributes name as types of outputs.
UNPASSABLE = {t.name for t in ELEMENT_TYPES.values() if t.is_packed or t.dtype.char not in TYPES + "O"}


def choose_cases(type, since):
    """Return cases of an operation whose inputs and outputs can be passed to onnxruntime."""
    cases = [
        case
        for case in list_cases(type, since)
        if (case.build is None or not since)
        and all(x.dtype.char in TYPES or x.dtype == object for x in case.inputs if x is not None)
        and all(x is None or x.size for x in case.inputs)
        and not UNPASSABLE.intersection(map(str, case.attributes.values()))
        and not (type in ("Acos", "Asin") and case.inputs[0].dtype.kind == "u")  # NaN as an unsigned integer
        and not (type == "Divide" and case.inputs[0].dtype.kind in "iu" and not case.inputs[1].all())
        and not (type == "FakeConvert" and np.isnan(case.inputs[0]).any())  # ONNX does not keep the sign of NaN
    ]
    chosen = cases[:: max(1, len(cases) // SAMPLE)][:SAMPLE]
    seen = {feature for case in chosen for feature in list_features(case)}
    for case in cases:
        if not seen.issuperset(list_features(case)):
            chosen.append(case)
            seen.update(list_features(case))
    return [fix_parameters(case) if since else case for case in chosen]


def list_features(case):
    """Return the values of the attributes of a case, and the kinds of types and the ranks of its inputs."""
    options = {(name, str(value)) for name, value in case.attributes.items()}
    inputs = {(i, x.dtype.kind, x.ndim) for i, x in enumerate(case.inputs) if x is not None}
    return options | inputs


def fix_parameters(case):
    """Return a case whose axes, shapes and other lists of integers are constants, as in models."""
    lists = {i for i, x in enumerate(case.inputs) if i and x is not None and x.dtype.kind in "iu" and x.ndim < 2}
    if case.note == "axes as Parameters":
        lists = {1}
    return replace(case, constants=sorted({*case.constants, *lists}))


def run_exported(path, values, names):
    options = ort.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    session = ort.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    used = {value.name for value in session.get_inputs()}
    return session.run(None, {n: np.asarray(v) for n, v in zip(names, values, strict=True) if n in used})


def has_rule(type, since):
    """Return whether there is a rule for an operation; operations of version 0 are outside the numbered opsets."""
    return f"{type}-{since}" in RULES or (not since and any(name.partition("-")[0] == type for name in RULES))


OPERATIONS = sorted(key for key in GENERATORS if has_rule(*key))


def find_refusals(type, since, cases, folder, *, dynamic=False):
    """Compare cases with onnxruntime, and return the messages about those that cannot be exported."""
    import openvino as ov

    refused = []
    for case in cases:
        ov.serialize(build_model(type, since, case), folder / "model.xml")
        model = irrun.read_model(folder / "model.xml")
        if dynamic:
            model.reshape(
                {s.any_name: [-1] * len(s.partial_shape) for s in model.inputs if s.partial_shape is not None}
            )
        try:
            irrun.export_onnx(model, folder / "model.onnx")
        except irrun.UnsupportedError as error:
            refused.append(str(error))
            continue
        if not dynamic:  # the checker needs the ranks of outputs
            onnx.checker.check_model(str(folder / "model.onnx"))
        compiled = irrun.compile_model(model, precision="declared")
        results = compiled(list(case.parameter_values))
        expected = [np.asarray(results[i]) for i in range(len(compiled.outputs))]
        try:
            found = run_exported(folder / "model.onnx", case.parameter_values, [s.any_name for s in model.inputs])
        except Exception as error:  # onnxruntime's exceptions have no common base
            if dynamic and "mode only supports" in str(error):
                continue  # ranks and axes that onnxruntime cannot resize
            raise
        case.tolerance = TOLERANCES.get(expected[0].dtype.char, case.tolerance)
        compare_outputs(found[: len(expected)], expected, case, f"{case.note} {case.attributes}")
    failures = [text for text in refused if re.search(r"[A-Z]\w*Error: ", text)]
    assert not failures  # a rule refuses a layer with a message of its own
    return refused


@pytest.mark.parametrize(("type", "since"), OPERATIONS, ids=str)
def test_exported_operation_agrees(type, since, tmp_path):
    cases = choose_cases(type, since)
    refused = find_refusals(type, since, cases, tmp_path)
    assert len(refused) < len(cases) or not cases, refused


@pytest.mark.parametrize(("type", "since"), OPERATIONS, ids=str)
def test_exported_operation_of_dynamic_shape_agrees(type, since, tmp_path):
    cases = choose_cases(type, since)
    chosen = cases[:: max(1, len(cases) // DYNAMIC_SAMPLE)][:DYNAMIC_SAMPLE]
    find_refusals(type, since, chosen, tmp_path, dynamic=True)


#: Relative and absolute tolerances: onnxruntime's sums and functions round differently.
TOLERANCES = {"f": (1e-4, 1e-4), "e": (2e-2, 2e-2), "d": (1e-4, 1e-4)}
