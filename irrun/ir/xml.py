"""Safe parsing of XML from untrusted sources: no DTD, no entities, no network access, limited nesting."""

from __future__ import annotations

import os
import re
import stat
from pathlib import Path
from typing import TYPE_CHECKING

from irrun.errors import ModelError
from irrun.ir.file_kinds import explain_file, explain_folder

if TYPE_CHECKING:
    from lxml import etree

__all__ = ["MAX_ATTRIBUTES", "parse_bytes", "parse_file"]

#: Maximum number of attributes of an element. lxml takes quadratic time to read them.
MAX_ATTRIBUTES = 1000

#: Maximum number of bytes of a file. Models of a million layers take half of it.
MAX_SIZE = 1 << 30

#: Size in bytes of the part of a file that is parsed first.
CHUNK_SIZE = 1 << 16

#: How documents in UTF-16 and UTF-32 start, with and without a byte order mark.
_WIDE_STARTS = [
    (b"\xff\xfe\x00\x00", "utf-32"),
    (b"\x00\x00\xfe\xff", "utf-32"),
    (b"<\x00\x00\x00", "utf-32-le"),
    (b"\x00\x00\x00<", "utf-32-be"),
    (b"\xff\xfe", "utf-16"),
    (b"\xfe\xff", "utf-16"),
    (b"<\x00", "utf-16-le"),
    (b"\x00<", "utf-16-be"),
]
_DECLARED_ENCODING = re.compile(r"""^(\s*<\?xml\b[^>]{0,80}?)\s+encoding\s*=\s*["'][^"']*["']""")


def parse_file(path: Path) -> etree._Element:
    """Parse an XML file.

    Args:
        path: The file.

    Returns:
        The root element.

    Raises:
        ModelError: The file cannot be read, is of another format, is not well-formed, contains a DTD, or is nested too
            deeply for libxml2.
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
            start = _to_utf8(head, is_complete=False)
            _check_kind(start, path)
            _check_prolog(_move_declaration_first(start), path)  # before reading an endless file such as /dev/zero
            parts = [head]
            while parts[-1] and sum(map(len, parts)) <= MAX_SIZE:
                parts.append(file.read(len(parts) * CHUNK_SIZE))
            data = b"".join(parts)
        if len(data) > MAX_SIZE:
            raise OSError(f"expected at most {MAX_SIZE} bytes, found more")
    except IsADirectoryError as error:
        raise ModelError(explain_folder(path)) from error
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
        ModelError: The document is of another format, is not well-formed, contains a DTD, or is nested too deeply for
            libxml2.
    """
    from lxml import etree

    try:
        data = _move_declaration_first(_to_utf8(data))
    except UnicodeDecodeError as error:
        raise ModelError(f"cannot decode the XML: {error.reason}", path=path) from error
    _check_kind(data, path)
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


def _check_kind(head: bytes, path: Path | None) -> None:
    """Reject files of other known formats."""
    explanation = explain_file(head, path)
    if explanation is not None:
        raise ModelError(explanation)


def _to_utf8(data: bytes, *, is_complete: bool = True) -> bytes:
    """Convert a document in UTF-16 or UTF-32 to UTF-8. As in OpenVINO, the bytes decide, not the declaration.

    Args:
        data: The document, or its start.
        is_complete: Whether the data do not end within a character.

    Raises:
        UnicodeDecodeError: The document is not in this encoding.
    """
    encoding = next((encoding for start, encoding in _WIDE_STARTS if data.startswith(start)), None)
    if encoding is None or not data[:80].decode(encoding, "ignore").lstrip().startswith("<"):
        return data
    text = data.decode(encoding, "strict" if is_complete else "ignore")
    return (_DECLARED_ENCODING.sub(r"\1", text[:200]) + text[200:]).encode()


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
