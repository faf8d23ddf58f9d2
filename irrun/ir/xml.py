"""XML from anywhere, opened safely: no DTD, no entities, no network, bounded nesting."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import TYPE_CHECKING
from xml.parsers import expat

from irrun.errors import ModelError

if TYPE_CHECKING:
    from lxml import etree

__all__ = ["MOST_ATTRIBUTES", "parse_bytes", "parse_file"]

#: Of one element; lxml takes time in proportion to the square of their number.
MOST_ATTRIBUTES = 1000
_CHUNK = 1 << 16


class _RootReached(Exception):
    pass


def parse_file(path: Path) -> etree._Element:
    """The root element of an XML file.

    Raises:
        ModelError: it cannot be read, is not well-formed, holds a DTD, or nests deeper than libxml2 allows.
    """
    try:
        # What a shell hands over ends; whoever writes into another pipe may never come.
        if stat.S_ISFIFO(os.stat(path).st_mode) and not str(path).startswith("/dev/"):
            raise OSError("it is a pipe, which may never end")
        with open(path, "rb") as file:
            head = file.read(_CHUNK)
            _refuse_dtd(_declaration_first(head), path)  # what is no XML (/dev/zero, say) is not read to its end
            data = head + file.read()
    except OSError as error:
        raise ModelError(f"cannot read the model: {error.strerror or error}", path=path) from error
    except ValueError as error:  # a zero byte in the path
        raise ModelError(f"cannot read the model: {error}", path=path) from error
    return parse_bytes(data, path)


def parse_bytes(data: bytes, path: Path | None = None) -> etree._Element:
    """The root element of an XML document.

    Raises:
        ModelError: as `parse_file`.
    """
    from lxml import etree

    data = _declaration_first(data)
    _refuse_dtd(data, path)
    parser = etree.XMLParser(
        resolve_entities=False,
        no_network=True,
        load_dtd=False,
        dtd_validation=False,
        huge_tree=False,
        remove_comments=True,
        remove_pis=True,
    )
    try:
        root = etree.fromstring(data, parser)
    except (etree.XMLSyntaxError, ValueError) as error:
        line = getattr(error, "lineno", None)
        raise ModelError(f"not well-formed XML: {getattr(error, 'msg', error)}", path=path, line=line) from error
    if root.getroottree().docinfo.doctype:
        raise ModelError("has a DTD, which model files never need", path=path)
    namespace = root.nsmap.get(None)
    if namespace:  # OpenVINO knows no namespaces: what has no prefix goes by its plain name
        for element in root.iter(f"{{{namespace}}}*"):
            element.tag = etree.QName(element).localname
        etree.cleanup_namespaces(root)
    return root


def _declaration_first(data: bytes) -> bytes:
    """`data` with blanks before the XML declaration, which OpenVINO passes over, put behind it."""
    if data[:1].isspace() and data.lstrip().startswith(b"<?xml"):
        blanks = data[: -len(data.lstrip())]
        declaration, end, rest = data.lstrip().partition(b"?>")
        return declaration + end + blanks + rest
    return data


def _refuse_dtd(data: bytes, path: Path | None) -> None:
    """Stop at a DOCTYPE before libxml2 sees it: expat reads up to the root element and no further."""
    parser = expat.ParserCreate()

    def refuse(name: str, *_: object) -> None:
        line = parser.CurrentLineNumber
        raise ModelError(f"has a DTD (<!DOCTYPE {name}>), which model files never need", path=path, line=line)

    def stop(*_: object) -> None:
        raise _RootReached

    parser.StartDoctypeDeclHandler = refuse
    parser.StartElementHandler = stop
    try:
        start, size = 0, _CHUNK
        while start < len(data):
            parser.Parse(data[start : start + size], False)
            start += size
            size *= 2  # what is not complete is looked at again with the next piece
    except _RootReached:
        return
    except expat.ExpatError as error:
        message = expat.ErrorString(error.code)
        raise ModelError(f"not well-formed XML: {message}", path=path, line=error.lineno) from error
    except LookupError as error:
        raise ModelError(f"not readable: {error}", path=path) from error
