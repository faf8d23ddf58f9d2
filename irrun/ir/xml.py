"""Safe parsing of XML from untrusted sources: no DTD, and thus no entities, no network access, limited nesting.

Python's expat parser builds the elements: models are read without lxml, which takes longer to import than small models
take to run, and as much memory as their values.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from xml.parsers import expat

from irrun.errors import ModelError

__all__ = ["MAX_ATTRIBUTES", "XmlElement", "move_declaration_first", "parse_bytes", "parse_file", "read_bytes"]

#: Maximum number of attributes of an element.
MAX_ATTRIBUTES = 1000

#: Maximum number of elements inside each other.
MAX_DEPTH = 256

#: Maximum number of bytes of a file. Models of a million layers take half of it.
MAX_SIZE = 1 << 30

#: Size in bytes of the part of a file that is parsed first.
CHUNK_SIZE = 1 << 16

#: The namespace of the prefix "xml", which documents do not declare.
XML_NAMESPACE = "http://www.w3.org/XML/1998/namespace"


class XmlElement(list["XmlElement"]):
    """An element: the list of its children.

    Attributes:
        tag: The name; `{namespace}name` in another namespace than that of the root element.
        attrib: The attributes.
        sourceline: The line of the file that it starts in.
        text: The text before the first child, or None.
        tail: The text after its end, or None.
    """

    __slots__ = ("attrib", "sourceline", "tag", "tail", "text")

    tag: str
    attrib: dict[str, str]
    sourceline: int
    text: str | None
    tail: str | None

    def get(self, name: str, default: Any = None) -> Any:
        """Return the value of an attribute, or a default."""
        return self.attrib.get(name, default)

    def iterchildren(self, tag: str) -> list[XmlElement]:
        """Return the children of a tag."""
        return [child for child in self if child.tag == tag]

    def find(self, path: str) -> XmlElement | None:
        """Return the first descendant at a path of tags such as "output/port", or None."""
        tag, _, rest = path.partition("/")
        for child in self:
            if child.tag == tag:
                element = child.find(rest) if rest else child
                if element is not None:
                    return element
        return None

    def iter(self, tag: str) -> Iterator[XmlElement]:
        """Yield the element and its descendants that have a tag, in the order of the file."""
        if self.tag == tag:
            yield self
        for child in self:
            yield from child.iter(tag)

    def to_text(self) -> str:
        """Return the element as text, without its tail."""
        parts: list[str] = []
        self._write(parts.append, {})
        return "".join(parts)

    def _write(self, write: Callable[[str], object], prefixes: dict[str, str]) -> None:
        outer = len(prefixes)
        prefixes = dict(prefixes)
        tag = _shorten_name(self.tag, prefixes)
        attributes = [(_shorten_name(name, prefixes), value) for name, value in self.attrib.items()]
        declared = [(f"xmlns:{prefix}", uri) for uri, prefix in list(prefixes.items())[outer:]]
        write(f"<{tag}")
        for name, value in declared + attributes:
            write(f' {name}="{_escape(value, in_attribute=True)}"')
        if not self and not self.text:
            write("/>")
            return
        write(f">{_escape(self.text or '')}")
        for child in self:
            child._write(write, prefixes)
            write(_escape(child.tail or ""))
        write(f"</{tag}>")


def _shorten_name(name: str, prefixes: dict[str, str]) -> str:
    """Replace the namespace of a name by a prefix, which is added to `prefixes`."""
    if "}" not in name:
        return name
    uri, _, local = name.lstrip("{").rpartition("}")
    if uri == XML_NAMESPACE:
        return f"xml:{local}"
    return f"{prefixes.setdefault(uri, f'ns{len(prefixes)}')}:{local}"


#: What must not occur in text, and in the values of attributes in addition.
_ESCAPES = {"&": "&amp;", "<": "&lt;", ">": "&gt;", "\r": "&#13;"}
_ATTRIBUTE_ESCAPES = {'"': "&quot;", "\n": "&#10;", "\t": "&#9;"}


def _escape(text: str, in_attribute: bool = False) -> str:
    for character, escape in _ESCAPES.items():
        if character in text:
            text = text.replace(character, escape)
    for character, escape in _ATTRIBUTE_ESCAPES.items() if in_attribute else ():
        if character in text:
            text = text.replace(character, escape)
    return text


def parse_file(path: Path) -> XmlElement:
    """Parse an XML file.

    Args:
        path: The file.

    Returns:
        The root element.

    Raises:
        ModelError: The file cannot be read, is not well-formed, contains a DTD, or is nested too deeply.
    """
    parser = _Parser(path)
    for chunk in _read_chunks(path):
        parser.feed(chunk)
    return parser.finish()


def parse_bytes(data: bytes, path: Path | None = None) -> XmlElement:
    """Parse an XML document.

    Elements of a default namespace are renamed to their local names, since OpenVINO ignores namespaces.

    Args:
        data: The document.
        path: The file that it was read from, for error messages.

    Returns:
        The root element.

    Raises:
        ModelError: The document is not well-formed, contains a DTD, or is nested too deeply.
    """
    parser = _Parser(path)
    parser.feed(data)
    return parser.finish()


def read_bytes(path: Path) -> bytes:
    """Read a file that `parse_file` accepts.

    Raises:
        ModelError: The file cannot be read, or is too large.
    """
    return b"".join(_read_chunks(path))


def _read_chunks(path: Path) -> Iterator[bytes]:
    """Yield the parts of a file, which grow: expat reads an incomplete token again with each part.

    Raises:
        ModelError: The file cannot be read, or is too large.
    """
    try:
        status = os.stat(path)
        # A pipe in /dev/fd comes from a shell. Reading from any other pipe could block forever.
        if stat.S_ISFIFO(status.st_mode) and not str(path).startswith(("/dev/fd/", "/dev/stdin", "/proc/self/fd/")):
            raise OSError("expected a regular file, found a pipe")
        if status.st_size > MAX_SIZE:
            raise OSError(f"expected at most {MAX_SIZE} bytes, found {status.st_size}")
        with open(path, "rb") as file:
            size, total = CHUNK_SIZE, 0
            while chunk := file.read(size):
                total += len(chunk)
                if total > MAX_SIZE:
                    raise OSError(f"expected at most {MAX_SIZE} bytes, found more")
                yield chunk
                size = total
    except OSError as error:
        raise ModelError(f"cannot read the model: {error.strerror or error}", path=path) from error
    except ValueError as error:  # a null byte in the path
        raise ModelError(f"cannot read the model: {error}", path=path) from error


class _Parser:
    """Builds the elements of a document that is passed in parts.

    Args:
        path: The file, for error messages.
    """

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._is_first = True
        self._document = XmlElement()
        #: The namespace of elements without a prefix that the root element declares.
        self._namespace: str | None = None
        self._parser = parser = expat.ParserCreate(None, "}")
        parser.buffer_text = True
        parser.StartDoctypeDeclHandler = self._refuse_doctype
        parser.StartNamespaceDeclHandler = self._add_namespace
        self._add_handlers()

    def _add_handlers(self) -> None:
        """Add the functions that build elements; variables of a function are faster than attributes."""
        parser = self._parser
        current = self._document
        outer: list[XmlElement] = []
        texts: list[str] = []

        def store_text() -> None:
            if current:
                current[-1].tail = "".join(texts)
            else:
                current.text = "".join(texts)
            texts.clear()

        def start_element(tag: str, attributes: dict[str, str]) -> None:
            nonlocal current
            if texts:
                store_text()
            element = XmlElement()
            element.tag, element.attrib, element.sourceline = tag, attributes, parser.CurrentLineNumber
            element.text = element.tail = None
            current.append(element)
            outer.append(current)
            current = element
            if len(outer) > MAX_DEPTH:
                raise ModelError(
                    f"expected at most {MAX_DEPTH} elements inside each other", path=self._path, line=element.sourceline
                )

        def end_element(tag: str) -> None:
            nonlocal current
            if texts:
                store_text()
            current = outer.pop()

        def start_element_in_namespace(tag: str, attributes: dict[str, str]) -> None:
            if "}" in tag:
                namespace, _, local = tag.rpartition("}")
                tag = local if namespace == self._namespace else f"{{{tag}"
            start_element(tag, {f"{{{name}" if "}" in name else name: value for name, value in attributes.items()})

        self._start_element_in_namespace = start_element_in_namespace
        parser.StartElementHandler = start_element
        parser.EndElementHandler = end_element
        parser.CharacterDataHandler = texts.append

    def _add_namespace(self, prefix: str | None, uri: str | None) -> None:
        if prefix is None and not self._document:
            self._namespace = uri
        self._parser.StartElementHandler = self._start_element_in_namespace

    def _refuse_doctype(self, name: str, *_: object) -> None:
        message = f"DTDs are not allowed in model files, found <!DOCTYPE {name}>"
        raise ModelError(message, path=self._path, line=self._parser.CurrentLineNumber)

    def feed(self, data: bytes) -> None:
        """Parse a part of the document.

        Raises:
            ModelError: It is not well-formed, contains a DTD, or is nested too deeply.
        """
        if self._is_first:
            data = move_declaration_first(data)
            self._is_first = False
        self._parse(data, False)

    def finish(self) -> XmlElement:
        """Return the root element.

        Raises:
            ModelError: The document is not complete.
        """
        self._parse(b"", True)
        return self._document[0]

    def _parse(self, data: bytes, is_last: bool) -> None:
        try:
            self._parser.Parse(data, is_last)
        except expat.ExpatError as error:
            message = f"not well-formed XML: {expat.ErrorString(error.code)}"
            raise ModelError(message, path=self._path, line=error.lineno) from error
        except (LookupError, ValueError) as error:  # an unsupported encoding
            raise ModelError(f"cannot decode the XML: {error}", path=self._path) from error


def move_declaration_first(data: bytes) -> bytes:
    """Move whitespace before the XML declaration behind it, since OpenVINO ignores such whitespace."""
    if data[:1].isspace() and data.lstrip().startswith(b"<?xml"):
        whitespace = data[: -len(data.lstrip())]
        declaration, end, rest = data.lstrip().partition(b"?>")
        return declaration + end + whitespace + rest
    return data
