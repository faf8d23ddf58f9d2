"""Tests that every operation has a kernel and every kernel has conformance cases."""

from __future__ import annotations

import inspect
import json
import re
from pathlib import Path

import pytest

from irrun.conformance.cases import GENERATORS, load_generators
from irrun.ops._support import registry
from irrun.ops._support.operation import StructuralOperation

load_generators()
NUMBERED = [o for o in registry.list_operations() if o.opset is None and o.kernel.__module__.startswith("irrun.")]


def read_operation_list():
    """Return type, first and last opset, and category of every versioned operation."""
    return json.loads((Path(__file__).parent / "operations.json").read_text(encoding="utf-8"))


def test_every_versioned_operation_has_a_kernel():
    categories = {(o.type, o.since): o.category for o in NUMBERED}
    expected = {(e["type"], e["since"]): e["category"] for e in read_operation_list()}
    assert len(expected) == 245
    assert not expected.keys() - categories.keys()
    assert {key: categories[key] for key in expected} == expected


def test_every_versioned_operation_has_conformance_cases():
    assert not {(e["type"], e["since"]) for e in read_operation_list()} - GENERATORS.keys()


@pytest.mark.parametrize("operation", NUMBERED, ids=str)
def test_kernel_has_cases_and_a_valid_declaration(operation):
    """Check that it has cases, documentation, convertible default values, and resolves to itself."""
    assert (operation.type, operation.since) in GENERATORS
    if isinstance(operation, StructuralOperation):
        assert operation.summary
    else:
        docstring = inspect.getdoc(operation.kernel)
        assert docstring
        specification = docstring[docstring.rindex("Spec:") :]
        assert f"{operation.type}-".lower() in specification.lower()
    for attribute in operation.attributes:
        assert attribute.type_name
        if not attribute.required and isinstance(attribute.default, str):
            attribute.convert(attribute.default)
    assert registry.find(operation.type, f"opset{operation.since}") is operation


def test_kernels_describe_their_parameters_in_order():
    """Check whole docstrings: those of similar operations are completed, see `describes_like`."""
    for operation in registry.list_operations():
        if isinstance(operation, StructuralOperation) or not operation.kernel.__module__.startswith("irrun."):
            continue
        section = inspect.getdoc(operation.kernel).partition("Args:\n")[2].partition("\n\n")[0]
        described = re.findall(r"^    (\w+): \S", section, re.MULTILINE)
        parameters = inspect.signature(operation.kernel).parameters
        variadic = {name for name, parameter in parameters.items() if parameter.kind is parameter.VAR_POSITIONAL}
        assert [n for n in described if n not in variadic] == [n for n in parameters if n not in variadic], operation


def test_later_opsets_resolve_to_the_newest_earlier_version():
    for entry in read_operation_list():
        for opset in (entry["since"], entry["until"]):
            operation = registry.find(entry["type"], f"opset{opset}")
            assert operation is not None
            versions = [e["since"] for e in read_operation_list() if e["type"] == entry["type"] and e["since"] <= opset]
            assert operation.since == max(versions)
