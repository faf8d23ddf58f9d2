"""Documents that are parsed, and documents that are refused."""

from __future__ import annotations

import os
from pathlib import Path

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


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be", "utf-32", "utf-32-le", "utf-32-be"])
@pytest.mark.parametrize("declaration", ["", '<?xml version="1.0" encoding="utf-8"?>\n', '<?xml version="1.0"?>'])
def test_wide_encodings_are_found_in_the_bytes(encoding, declaration, tmp_path, monkeypatch):
    monkeypatch.setattr("irrun.ir.xml.CHUNK_SIZE", 98)  # ends within a character of UTF-32
    data = f"{declaration}<net name='é\U0001f600'/>".encode(encoding)
    path = tmp_path / "model.xml"
    path.write_bytes(data)
    for root in (parse_bytes(data), parse_file(path)):
        assert (root.tag, root.get("name"), root.sourceline) == ("net", "é\U0001f600", 1 + declaration.count("\n"))


def test_wide_encodings_that_end_within_a_character_are_refused():
    with pytest.raises(ModelError, match=r"^cannot decode the XML: truncated data"):
        parse_bytes("<net/>".encode("utf-16") + b"a")


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


def test_lines_are_those_of_the_file():
    for text, line in (
        ("<net/>", 1),
        ("\n\n<net/>", 3),
        ('<?xml version="1.0"?>\n<net/>', 2),
        ('\n \n<?xml version="1.0"?>\n<net/>', 4),
        ('<?xml version="1.0"?><!-- ' + "x" * 100_000 + "\n" * 1000 + " -->\n<net/>", 1002),
    ):
        assert parse_bytes(text.encode()).sourceline == line
    with pytest.raises(ModelError, match=r"^line 3: not well-formed XML: "):
        parse_bytes(b"\n\n<net")
    for text in (
        b"a<?xml version='1.0'?><net/>",
        b" a<?xml version='1.0'?><net/>",
        b" <!-- --><?xml version='1.0'?><net/>",
    ):
        with pytest.raises(ModelError, match="not well-formed XML"):
            parse_bytes(text)


def test_dtd_is_refused_wherever_it_is():
    for text in ("<!DOCTYPE net><net/>", " <!DOCTYPE net [<!ENTITY a 'b'>]><net/>", "<!-- a --><!DOCTYPE net><net/>"):
        with pytest.raises(ModelError, match=r"^line 1: DTDs are not allowed in model files, found <!DOCTYPE net>$"):
            parse_bytes(text.encode())


def test_files_of_any_size_are_read(tmp_path, monkeypatch):
    monkeypatch.setattr("irrun.ir.xml.CHUNK_SIZE", 16)
    for length in (0, 1, 15, 16, 17, 100, 1000):
        path = tmp_path / "model.xml"
        path.write_text("<net><!-- " + "x" * length + " --><layers/></net>")
        assert [element.tag for element in parse_file(path)] == ["layers"]
        path.write_text("<!-- " + "x" * length + " --><net><layers/></net>")
        assert [element.tag for element in parse_file(path)] == ["layers"]


def test_pipes_of_a_shell_are_read():
    if not os.path.isdir("/dev/fd"):
        pytest.skip("requires /dev/fd")
    for prefix in ("/dev/fd", "/proc/self/fd"):
        if not os.path.isdir(prefix):
            continue
        reader, writer = os.pipe()
        os.write(writer, b"<net/>")
        os.close(writer)
        assert parse_file(Path(f"{prefix}/{reader}")).tag == "net"
        os.close(reader)


def test_whitespace_before_the_declaration_is_ignored(tmp_path):
    text = chain("Relu", "Exp")
    assert len(parse_file(write(tmp_path, "\n " + text))) == len(parse_bytes(text.encode()))


@pytest.mark.skipif(not os.path.exists("/dev/zero"), reason="requires /dev/zero")
def test_endless_files_are_refused_after_their_first_bytes(monkeypatch):
    monkeypatch.setattr("irrun.ir.xml.MAX_SIZE", 1 << 20)
    with pytest.raises(ModelError, match=r"^/dev/zero is a binary file, not XML; "):
        parse_file(Path("/dev/zero"))
