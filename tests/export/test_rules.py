"""Exported operations in onnxruntime agree with irrun, for a sample of the cases of the conformance tests."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")
pytest.importorskip("openvino")

import onnx
import onnxruntime as ort

import irrun
from export.test_layers import check_nodes, check_shapes
from irrun.conformance.cases import GENERATORS, Case, list_cases, load_generators
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
#: Operations whose results have other shapes than old versions declare, and than ONNX's rule for scalars says.
OTHER_SHAPES = {"NonMaxSuppression", "NonZero"}
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
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = ort.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    used = {value.name for value in session.get_inputs()}
    return session.run(None, {n: np.asarray(v) for n, v in zip(names, values, strict=True) if n in used})


def has_rule(type, since):
    """Return whether there is a rule for an operation; operations of version 0 are outside the numbered opsets."""
    return f"{type}-{since}" in RULES or (not since and any(name.partition("-")[0] == type for name in RULES))


OPERATIONS = sorted(key for key in GENERATORS if has_rule(*key))


@dataclass
class Example:
    """A case as a model in a file.

    Attributes:
        case: The case.
        path: The file.
    """

    case: Case
    path: Path

    @cached_property
    def model(self):
        return irrun.read_model(self.path)

    @cached_property
    def expected(self):
        """What the definitions of the operations compute."""
        compiled = irrun.compile_model(self.model, precision="declared", optimize=False)
        results = compiled(list(self.case.parameter_values))
        return [np.asarray(results[i]) for i in range(len(compiled.outputs))]


@pytest.fixture(scope="module", params=OPERATIONS, ids=lambda operation: "{}-{}".format(*operation))
def examples(request, tmp_path_factory):
    """Return models of an operation. No file is written twice, since file systems wait for the disk then."""
    import openvino as ov

    type, since = request.param
    folder = tmp_path_factory.mktemp("models")
    examples = [Example(case, folder / f"{i}.xml") for i, case in enumerate(choose_cases(type, since))]
    for example in examples:
        ov.serialize(build_model(type, since, example.case), example.path)
    return examples


def find_refusals(examples, folder, *, dynamic=False):
    """Compare models with onnxruntime, and return the messages about those that cannot be exported."""
    refused = []
    for example in examples:
        case = example.case
        model = irrun.read_model(example.path) if dynamic else example.model
        if dynamic:
            model.reshape(
                {s.any_name: [-1] * len(s.partial_shape) for s in model.inputs if s.partial_shape is not None}
            )
        path = folder / f"{example.path.stem}.onnx"
        try:
            irrun.export_onnx(model, path)
        except irrun.UnsupportedError as error:
            refused.append(str(error))
            continue
        if not dynamic:  # the checker needs the ranks of outputs
            onnx.checker.check_model(str(path))
        try:
            found = run_exported(path, case.parameter_values, [s.any_name for s in model.inputs])
        except Exception as error:  # onnxruntime's exceptions have no common base
            if dynamic and "mode only supports" in str(error):
                continue  # ranks and axes that onnxruntime cannot resize
            raise
        exported = onnx.load(str(path))
        check_nodes(exported.graph)
        if not dynamic and OTHER_SHAPES.isdisjoint(layer.type for layer in model.graph.layers):
            check_shapes(model, exported, example.expected)
        tolerance = TOLERANCES.get(example.expected[0].dtype.char, case.tolerance)
        found = found[: len(example.expected)]
        compare_outputs(found, example.expected, replace(case, tolerance=tolerance), f"{case.note} {case.attributes}")
    failures = [text for text in refused if re.search(r"[A-Z]\w*Error: ", text)]
    assert not failures  # a rule refuses a layer with a message of its own
    return refused


def test_exported_operation_agrees(examples, tmp_path):
    refused = find_refusals(examples, tmp_path)
    assert len(refused) < len(examples) or not examples, refused


def test_exported_operation_of_dynamic_shape_agrees(examples, tmp_path):
    chosen = examples[:: max(1, len(examples) // DYNAMIC_SAMPLE)][:DYNAMIC_SAMPLE]
    find_refusals(chosen, tmp_path, dynamic=True)


#: Relative and absolute tolerances: onnxruntime's sums and functions round differently.
TOLERANCES = {"f": (1e-4, 1e-4), "e": (2e-2, 2e-2), "d": (1e-4, 1e-4)}
