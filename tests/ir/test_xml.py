"""Documents that are parsed, and those that are refused."""

from __future__ import annotations

import pytest
from ir_text import chain, write

from irrun.errors import ModelError
from irrun.ir.xml import parse_bytes, parse_file


def test_namespace_of_the_root_is_ignored():
    root = parse_bytes(b'<net xmlns="u" xmlns:v="u" xmlns:w="x"><a/><v:a/><w:a/><b xmlns="y"/></net>')
    assert [element.tag for element in (root, *root)] == ["net", "a", "a", "{x}a", "{y}b"]


def test_comments_and_instructions_are_left_out():
    root = parse_bytes(b"<net><!-- a --><b><?c d?>e<!-- f -->g</b><![CDATA[<h>&]]></net>")
    assert [element.tag for element in root] == ["b"]
    assert root[0].text == "eg"
    assert root[0].tail == "<h>&"


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16", "iso-8859-1", "cp1252"])
def test_encodings_are_those_of_the_declaration(encoding):
    text = f'<?xml version="1.0" encoding="{encoding}"?><net name="é"/>'
    assert parse_bytes(text.encode(encoding)).get("name") == "é"


@pytest.mark.parametrize("encoding", ["nonsense", "shift_jis"])
def test_unknown_encodings_are_refused(encoding):
    with pytest.raises(ModelError, match=r"cannot decode|not well-formed"):
        parse_bytes(f'<?xml version="1.0" encoding="{encoding}"?><net name="a"/>'.encode())


def test_nesting_is_limited():
    assert parse_bytes(b"<a>" * 255 + b"</a>" * 255).tag == "a"
    with pytest.raises(ModelError, match="not well-formed XML: Excessive depth"):
        parse_bytes(b"<a>" * 300 + b"</a>" * 300)


@pytest.mark.parametrize(
    "text", ["<net>&a;</net>", "<net><a:b/></net>", "<net a='1' a='2'/>", "<net/><net/>", "", "<a"]
)
def test_documents_that_are_not_well_formed_are_refused(text):
    with pytest.raises(ModelError, match="not well-formed XML"):
        parse_bytes(text.encode())


def test_whitespace_before_the_declaration_is_ignored(tmp_path):
    text = chain("Relu", "Exp")
    assert len(parse_file(write(tmp_path, "\n " + text))) == len(parse_bytes(text.encode()))
