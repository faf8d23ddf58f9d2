"""Safe parsing of XML from untrusted sources: no DTD, no entities, no network access, limited nesting."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import TYPE_CHECKING

from irrun.errors import ModelError

if TYPE_CHECKING:
    from lxml import etree

__all__ = ["MAX_ATTRIBUTES", "parse_bytes", "parse_file"]

#: Maximum number of attributes of an element. lxml takes quadratic time to read them.
MAX_ATTRIBUTES = 1000

#: Maximum number of bytes of a file. Models of a million layers take half of it.
MAX_SIZE = 1 << 30

#: Size in bytes of the part of a file that is parsed first.
CHUNK_SIZE = 1 << 16


def parse_file(path: Path) -> etree._Element:
    """Parse an XML file.

    Args:
        path: The file.

    Returns:
        The root element.

    Raises:
        ModelError: The file cannot be read, is not well-formed, contains a DTD, or is nested too deeply for libxml2.
    """
    try:
        status = os.stat(path)
        # A pipe in /dev/fd comes from a shell. Reading from any other pipe could block forever.
        if stat.S_ISFIFO(status.st_mode) and not str(path).startswith(("/dev/fd/", "/dev/stdin", "/proc/self/fd/")):
            raise OSError("expected a regular file, found a pipe")
        if status.st_size > MAX_SIZE:
            raise OSError(f"expected at most {MAX_SIZE} bytes, found {status.st_size}")
        with open(path, "rb") as file:
            head = file.read(CHUNK_SIZE)
            _check_prolog(_move_declaration_first(head), path)  # before reading an endless file such as /dev/zero
            parts = [head]
            while parts[-1] and sum(map(len, parts)) <= MAX_SIZE:
                parts.append(file.read(len(parts) * CHUNK_SIZE))
            data = b"".join(parts)
        if len(data) > MAX_SIZE:
            raise OSError(f"expected at most {MAX_SIZE} bytes, found more")
    except OSError as error:
        raise ModelError(f"cannot read the model: {error.strerror or error}", path=path) from error
    except ValueError as error:  # a null byte in the path
        raise ModelError(f"cannot read the model: {error}", path=path) from error
    return parse_bytes(data, path)


def parse_bytes(data: bytes, path: Path | None = None) -> etree._Element:
    """Parse an XML document.

    Elements of a default namespace are renamed to their local names, since OpenVINO ignores namespaces.

    Args:
        data: The document.
        path: The file that it was read from, for error messages.

    Returns:
        The root element.

    Raises:
        ModelError: The document is not well-formed, contains a DTD, or is nested too deeply for libxml2.
    """
    from lxml import etree

    data = _move_declaration_first(data)
    _check_prolog(data, path)
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
        raise ModelError("DTDs are not allowed in model files", path=path)
    namespace = root.nsmap.get(None)
    if namespace:
        for element in root.iter(f"{{{namespace}}}*"):
            element.tag = etree.QName(element).localname
        etree.cleanup_namespaces(root)
    return root


def _move_declaration_first(data: bytes) -> bytes:
    """Move whitespace before the XML declaration behind it, since OpenVINO ignores such whitespace."""
    if data[:1].isspace() and data.lstrip().startswith(b"<?xml"):
        whitespace = data[: -len(data.lstrip())]
        declaration, end, rest = data.lstrip().partition(b"?>")
        return declaration + end + whitespace + rest
    return data


class _RootReachedError(Exception):
    """Stops a parser at the root element."""


class _RootDetector:
    """The target of a parser that is stopped at the root element."""

    def start(self, tag: str, attributes: dict[str, str]) -> None:
        raise _RootReachedError


def _check_prolog(data: bytes, path: Path | None) -> None:
    """Reject a DTD before libxml2 reads it, by parsing everything before the root element with defusedxml."""
    from xml.parsers.expat import ErrorString

    from defusedxml.ElementTree import DefusedXMLParser, DTDForbidden, ParseError

    parser = DefusedXMLParser(target=_RootDetector(), forbid_dtd=True)
    start, size = 0, CHUNK_SIZE
    try:
        while start < len(data):
            parser.feed(data[start : start + size])
            start += size
            size *= 2  # an incomplete token is parsed again with each chunk
    except _RootReachedError:
        return
    except DTDForbidden as error:
        line = parser.parser.CurrentLineNumber
        message = f"DTDs are not allowed in model files, found <!DOCTYPE {error.name}>"
        raise ModelError(message, path=path, line=line) from error
    except ParseError as error:
        raise ModelError(
            f"not well-formed XML: {ErrorString(error.code)}", path=path, line=error.position[0]
        ) from error
    except (LookupError, ValueError) as error:  # an unsupported encoding
        raise ModelError(f"cannot decode the XML: {error}", path=path) from error
