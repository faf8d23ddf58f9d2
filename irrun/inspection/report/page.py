"""Assembly of the page: a file with style, scripts and data, and a policy that forbids everything else."""

from __future__ import annotations

import base64
import hashlib
import html
import json
import re
from collections.abc import Mapping, Sequence
from functools import cache
from importlib.resources import files
from typing import Any

from irrun.errors import escape_unprintable

__all__ = ["encode_json", "fill_template", "make_policy", "read_asset", "render_page"]

#: The scripts of the page, in the order in which they are joined. They share one scope.
SCRIPTS = (
    "model.js",
    "format.js",
    "findings.js",
    "pair.js",
    "measures.js",
    "pictures.js",
    "tensors.js",
    "expected.js",
    "folding.js",
    "bodies.js",
    "layout.js",
    "view.js",
    "drawing.js",
    "export.js",
    "table.js",
    "panel.js",
    "overview.js",
    "values.js",
    "search.js",
    "report.js",
)


def render_page(data: dict[str, Any], title: str) -> str:
    """Return the page as HTML.

    Args:
        data: The result of `Report.to_json`.
        title: The title.
    """
    style, script, vendor = _read_asset("report.css"), _join_scripts(), _read_asset("vendor.js")
    parts = {
        "policy": make_policy([vendor, script], style),
        "title": html.escape(escape_unprintable(title)),
        "style": style,
        "vendor": vendor,
        "script": script,
        "data": encode_json(data),
    }
    return fill_template(_read_asset("page.html"), parts)


def fill_template(template: str, parts: Mapping[str, str]) -> str:
    """Replace each `{{name}}` in a template.

    Args:
        template: The template.
        parts: The replacements by name.
    """
    return re.sub(r"\{\{(\w+)\}\}", lambda match: parts[match[1]], template)


def make_policy(scripts: Sequence[str], style: str) -> str:
    """Return a Content-Security-Policy that allows inline scripts and an inline style, and nothing else.

    Args:
        scripts: The scripts.
        style: The style.
    """
    return "; ".join(
        [
            "default-src 'none'",
            f"script-src {' '.join(map(_hash, scripts))}",
            f"style-src {_hash(style)}",
            "img-src data:",
            "base-uri 'none'",
            "form-action 'none'",
        ]
    )


def encode_json(data: Any) -> str:
    """Return JSON that is valid inside a script element, for any texts in it.

    Args:
        data: The data, without infinities.
    """
    text = json.dumps(data, allow_nan=False, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def _join_scripts() -> str:
    sources = "\n".join(_read_asset(name) for name in SCRIPTS)
    return f'(() => {{\n"use strict";\n{sources}\n}})();\n'


def _hash(text: str) -> str:
    """Return the source expression of Content-Security-Policy for an inline script or style."""
    digest = hashlib.sha256(text.encode()).digest()
    return f"'sha256-{base64.b64encode(digest).decode()}'"


def _read_asset(name: str) -> str:
    return read_asset(__package__, name)


@cache
def read_asset(package: str, name: str) -> str:
    """Return the text of a file in the folder `assets` of a package.

    Args:
        package: The qualified name of the package.
        name: The name of the file.
    """
    text = (files(package) / "assets" / name).read_text(encoding="utf-8")
    if name.endswith((".js", ".css")) and re.search(r"</(script|style)", text, re.IGNORECASE):
        raise AssertionError(f"{name} contains an end tag")
    return text.replace("\r\n", "\n")
