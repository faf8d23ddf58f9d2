"""Elements of XML files, compared with those of lxml."""

from __future__ import annotations

import subprocess
import sys

import pytest
from ir_text import chain, write
from lxml import etree

from irrun.errors import ModelError
from irrun.ir import xml
from irrun.ir.xml import MAX_DEPTH, parse_bytes, parse_file

DOCUMENTS = {
    "model": chain("Relu", "Exp"),
    "texts": "<net>\n a <b/> c\n<d> e<f/>g </d>h</net>",
    "characters": '<net a="&lt;&amp;&quot;\'&gt;&#10;&#9;&#13;é">&lt;&amp;"\'&gt;]]&gt;&#13;\u4e2d</net>',
    "comments": "<net><!-- a --><b><?c d?>e<!-- f -->g</b><![CDATA[<h>&]]></net>",
    "spaces": '<net a=" b\t c " xml:space="preserve" xml:lang="en"> </net>',
    "attributes": '<net><layer id="1" name="a" type="b"></layer>\n<layer/></net>',
    "namespaces": '<net xmlns:b="u" b:c="d"><b:e xmlns:f="v"><f:g f:h="i" j="k"/></b:e><l xmlns="w"><m/></l></net>',
}


def assert_equal(element, expected):
    assert element.tag == expected.tag
    assert element.sourceline == expected.sourceline
    assert (element.text or "", element.tail or "") == (expected.text or "", expected.tail or "")
    attributes = {name.lstrip("{"): value for name, value in expected.attrib.items()}
    assert {name.lstrip("{"): value for name, value in element.attrib.items()} == attributes
    assert len(element) == len(expected)
    for child, other in zip(element, expected, strict=True):
        assert_equal(child, other)


@pytest.mark.parametrize("text", DOCUMENTS.values(), ids=DOCUMENTS.keys())
def test_elements_are_those_of_lxml(text):
    expected = etree.fromstring(text, etree.XMLParser(remove_comments=True, remove_pis=True))
    root = parse_bytes(text.encode())
    assert_equal(root, expected)
    again, text = (etree.canonicalize(t, rewrite_prefixes=True, with_comments=False) for t in (root.to_text(), text))
    assert again == text.replace("<?c d?>", "")


def test_text_without_namespaces_is_that_of_lxml():
    for text in DOCUMENTS.values():
        if ":" not in text:
            expected = etree.fromstring(text, etree.XMLParser(remove_comments=True, remove_pis=True))
            assert parse_bytes(text.encode()).to_text() == etree.tostring(expected, encoding="unicode")


def test_namespace_of_the_root_is_ignored():
    root = parse_bytes(b'<net xmlns="u" xmlns:v="u" xmlns:w="x"><a/><v:a/><w:a/><b xmlns="y"/></net>')
    assert [element.tag for element in (root, *root)] == ["net", "a", "a", "{x}a", "{y}b"]
    assert parse_bytes(b'<v:net xmlns:v="u"/>').tag == "{u}net"


def test_elements_are_found_by_their_tags():
    root = parse_bytes(b'<net><a/><b><c n="1"/></b><b><d n="2"/><c n="3"><c n="4"/></c></b></net>')
    assert root.find("b/d").get("n") == "2"
    assert root.find("b/c").attrib == {"n": "1"}
    assert root.find("b/a") is None
    assert root.find("e") is None
    assert root.find("a").get("n", 5) == 5
    assert [len(child) for child in root.iterchildren("b")] == [1, 2]
    assert [element.get("n") for element in root.iter("c")] == ["1", "3", "4"]


def test_line_of_an_element_is_where_it_starts():
    root = parse_bytes(b'<net>\n<layer id="1"\n name="a"\n type="b"/>\n<layer/></net>')
    assert [element.sourceline for element in (root, *root)] == [1, 2, 5]


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16", "iso-8859-1", "cp1252"])
def test_encodings_are_those_of_the_declaration(encoding):
    text = f'<?xml version="1.0" encoding="{encoding}"?><net name="é"/>'
    assert parse_bytes(text.encode(encoding)).get("name") == "é"


def test_unknown_encodings_are_refused():
    for encoding in ("nonsense", "shift_jis"):
        with pytest.raises(ModelError, match=r"cannot decode|not well-formed"):
            parse_bytes(f'<?xml version="1.0" encoding="{encoding}"?><net name="a"/>'.encode())


def test_nesting_is_limited():
    for depth, is_valid in ((MAX_DEPTH, True), (MAX_DEPTH + 1, False)):
        text = "\n<a>" * depth + "</a>" * depth
        if is_valid:
            assert parse_bytes(text.encode()).to_text()
            continue
        with pytest.raises(ModelError, match=f"at most {MAX_DEPTH} elements inside each other") as caught:
            parse_bytes(text.encode())
        assert caught.value.line == MAX_DEPTH + 2


@pytest.mark.parametrize(
    "text", ["<net>&a;</net>", "<net><a:b/></net>", "<net a='1' a='2'/>", "<net/><net/>", "", "<a"]
)
def test_documents_that_are_not_well_formed_are_refused(text):
    with pytest.raises(ModelError, match="not well-formed XML"):
        parse_bytes(text.encode())


def test_files_are_parsed_in_parts(tmp_path, monkeypatch):
    text = "\n " + chain("Relu", "Exp").replace("Relu", "R\u00e9lu")
    path = write(tmp_path, text)
    expected = parse_bytes(text.encode())
    for size in (1 << 16, 700, 50):
        monkeypatch.setattr(xml, "CHUNK_SIZE", size)
        assert_equal(parse_file(path), expected)


def test_models_are_read_without_lxml(tmp_path):
    path = write(tmp_path, chain("Relu").replace("</net>", '<rt_info><a value="1"/></rt_info></net>'))
    script = f"""if True:
        import sys
        import irrun
        compiled = irrun.compile_model({str(path)!r})
        compiled([[-1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])
        assert compiled.model.rt_info == '<rt_info><a value="1"/></rt_info>'
        assert "lxml" not in sys.modules
    """
    subprocess.run([sys.executable, "-c", script], check=True)
