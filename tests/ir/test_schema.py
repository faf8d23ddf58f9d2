"""Lookup of the XML schemas, and validation against them."""

from __future__ import annotations

import pytest
from ir_text import chain, write

import irrun
from irrun.ir.schema import find_schema_violations, find_schemas


@pytest.mark.parametrize("folder", ["irrun/schemas", "schemas"])
def test_schemas_are_found_in_the_package_or_next_to_it(tmp_path, folder):
    (tmp_path / "irrun").mkdir()
    (tmp_path / folder).mkdir()
    assert find_schemas(tmp_path / "irrun") == tmp_path / folder


def test_schemas_exist_for_all_current_versions():
    assert {path.name for path in find_schemas().iterdir()} >= {"ir-common.xsd", "ir-v10.xsd", "ir-v11.xsd"}


def test_schema_violations_have_lines(tmp_path):
    path = write(tmp_path, chain("Relu").replace('id="1" name', 'number="1" name'))
    violations = [finding for finding in irrun.validate(path) if "'number'" in finding.message]
    assert [finding.line for finding in violations] == [4]


def test_schema_is_that_of_the_version(tmp_path):
    text = chain("Relu").replace(' version="11"', "{}", 1).replace("<layers>", "<layers><other/>", 1)
    for version, expected in (
        (' version="11"', True),
        (' version="10"', True),
        (' version=" 10 "', True),
        ("", True),
        (' version="7"', False),
        (' version="12"', False),
    ):
        assert bool(find_schema_violations(write(tmp_path, text.replace("{}", version)))) == expected
    assert find_schema_violations(write(tmp_path, chain("Relu"))) == []
    (violation, *_) = find_schema_violations(write(tmp_path, '<other version="7"/>'))
    assert (violation.line, violation.layer) == (1, "")
    assert violation.message.startswith("element 'other': ")
    assert not violation.message.endswith((".", " "))
