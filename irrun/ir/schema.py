"""Validation of model files against XML schemas."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from irrun.ir.file_kinds import is_onnx
from irrun.ir.structure import Finding
from irrun.ir.xml import parse_file

if TYPE_CHECKING:
    from lxml import etree

__all__ = ["find_schema_violations", "find_schemas"]

#: The folder of the package `irrun`.
PACKAGE = Path(__file__).parent.parent


def find_schemas(package: Path = PACKAGE) -> Path:
    """Return the folder of the schemas: inside the package in a wheel, next to it in a checkout.

    Args:
        package: The folder of the package `irrun`.
    """
    installed = package / "schemas"
    return installed if installed.is_dir() else package.parent / "schemas"


def find_schema_violations(path: Path) -> list[Finding]:
    """Return the violations of the schema in a file of IR v10 or v11; none for files of other versions.

    Args:
        path: The path of the .xml.

    Raises:
        ModelError: The file cannot be read, or is not well-formed XML.
    """
    if is_onnx(path):
        return []
    root = parse_file(path)
    version = root.get("version", "10").strip()
    if root.tag == "net" and version not in ("10", "11"):
        return []
    schema = _load_schema("11" if version == "11" else "10")
    if schema.validate(root):
        return []
    return [Finding(entry.line, "", _reword(entry.message)) for entry in schema.error_log]


@lru_cache(maxsize=2)
def _load_schema(version: str) -> etree.XMLSchema:
    from lxml import etree

    return etree.XMLSchema(etree.parse(str(find_schemas() / f"ir-v{version}.xsd")))


def _reword(message: str) -> str:
    """Return a message of libxml2 in the style of irrun's messages."""
    return message.replace("Element '", "element '").replace("'.", "'").rstrip(". ")
