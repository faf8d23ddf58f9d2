"""Validation of model files against XML schemas and structural rules."""

from __future__ import annotations

import os
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from irrun.errors import IrrunError, ModelError
from irrun.ir.reader import read_findings
from irrun.ir.structure import Finding
from irrun.ir.weights import WeightsSource
from irrun.ir.xml import parse_file

if TYPE_CHECKING:
    from lxml import etree

__all__ = ["find_schemas", "validate"]

#: The folder of the package `irrun`.
PACKAGE = Path(__file__).parent.parent


def find_schemas(package: Path = PACKAGE) -> Path:
    """Return the folder of the schemas, which a wheel has in the package and a checkout next to it.

    Args:
        package: The folder of the package `irrun`.
    """
    installed = package / "schemas"
    return installed if installed.is_dir() else package.parent / "schemas"


def validate(path: str | os.PathLike[str], weights: WeightsSource | None = None) -> list[Finding]:
    """Return all errors in a model file, ordered by line.

    Files of IR v10 and v11 are validated against a schema. The structure of files of all versions is checked.

    Args:
        path: The path of the .xml.
        weights: The weights, if they are not next to the .xml.

    Raises:
        ModelError: The file cannot be read, or is not well-formed XML.
    """
    root = parse_file(Path(path))
    version = root.get("version", "10").strip()
    findings: list[Finding] = []
    if root.tag != "net" or version in ("10", "11"):
        schema = _load_schema("11" if version == "11" else "10")
        if not schema.validate(root):
            findings = [Finding(entry.line, "", _reword(entry.message)) for entry in schema.error_log]
    try:
        findings.extend(read_findings(path, weights)[1])
    except ModelError as error:
        findings.append(Finding(error.line or 0, error.layer or "", error.message))
    except IrrunError as error:
        findings.append(Finding(0, "", str(error)))
    return sorted(dict.fromkeys(findings))


@lru_cache(maxsize=2)
def _load_schema(version: str) -> etree.XMLSchema:
    from lxml import etree

    return etree.XMLSchema(etree.parse(str(find_schemas() / f"ir-v{version}.xsd")))


def _reword(message: str) -> str:
    """Return a message of libxml2 in the style of irrun's messages."""
    return message.replace("Element '", "element '").replace("'.", "'").rstrip(". ")
