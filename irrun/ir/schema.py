"""Validation of a file against the XSD of its version, then of its structure."""

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

PACKAGE = Path(__file__).parent.parent

__all__ = ["SCHEMAS", "validate"]

SCHEMAS = next((p for p in (PACKAGE / "schemas", PACKAGE.parent / "schemas") if p.is_dir()), PACKAGE / "schemas")


def validate(path: str | os.PathLike[str], weights: WeightsSource | None = None) -> list[Finding]:
    """Everything that is wrong with a model file, by line; files older than version 10 have no schema.

    Raises:
        ModelError: the file cannot be read, or is no well-formed XML.
    """
    root = parse_file(Path(path))
    version = root.get("version", "10").strip()
    findings: list[Finding] = []
    if root.tag != "net" or version in ("10", "11"):
        schema = _schema("11" if version == "11" else "10")
        if not schema.validate(root):
            findings = [Finding(entry.line, "", _plain(entry.message)) for entry in schema.error_log]
    try:
        findings.extend(read_findings(path, weights)[1])
    except ModelError as error:
        findings.append(Finding(error.line or 0, error.layer or "", error.message))
    except IrrunError as error:
        findings.append(Finding(0, "", str(error)))
    return sorted(dict.fromkeys(findings))


@lru_cache(maxsize=2)
def _schema(version: str) -> etree.XMLSchema:
    from lxml import etree

    return etree.XMLSchema(etree.parse(str(SCHEMAS / f"ir-v{version}.xsd")))


def _plain(message: str) -> str:
    return message.replace("Element '", "element '").replace("'.", "'").rstrip(". ")
