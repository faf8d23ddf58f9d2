"""No operation is without a kernel, and no kernel without configurations."""

from __future__ import annotations

import inspect
import json

import pytest
from conftest import SHARED

from conformance.harness import GENERATORS, load_generators
from irrun.ops._support import registry

load_generators()
NUMBERED = [o for o in registry.list_operations() if o.opset is None and o.kernel.__module__.startswith("irrun.")]


def listed():
    path = SHARED / "opsets.json"
    if not path.is_file():
        pytest.skip("the list of operations is not here")
    return json.loads(path.read_text())


def test_every_versioned_operation_has_a_kernel():
    have = {(o.type, o.since): o.category for o in NUMBERED}
    wanted = {(e["type"], e["since"]): e["category"] for e in listed()}
    assert len(wanted) == 245
    assert not wanted.keys() - have.keys()
    assert {key: have[key] for key in wanted} == wanted


def test_every_versioned_operation_has_configurations():
    assert not {(e["type"], e["since"]) for e in listed()} - GENERATORS.keys()


@pytest.mark.parametrize("operation", NUMBERED, ids=str)
def test_each_kernel_has_configurations_and_its_form(operation):
    """Generators, a docstring that names the source, attributes of known types, the module of its category."""
    assert (operation.type, operation.since) in GENERATORS
    text = inspect.getdoc(operation.kernel)
    assert text
    source = text[text.rindex("Spec: ") :]
    assert f"{operation.type}-".lower() in source.lower()
    for attribute in operation.attributes:
        assert attribute.type_name
        if not attribute.required and isinstance(attribute.default, str):
            attribute.convert(attribute.default)
    assert registry.find(operation.type, f"opset{operation.since}") is operation


def test_later_opsets_resolve_to_the_newest_version_before_them():
    for entry in listed():
        for opset in (entry["since"], entry["until"]):
            found = registry.find(entry["type"], f"opset{opset}")
            assert found is not None
            newer = [e["since"] for e in listed() if e["type"] == entry["type"] and e["since"] <= opset]
            assert found.since == max(newer)
