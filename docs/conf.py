"""Configuration of the documentation site: `sphinx-build -W docs build/docs`."""

from __future__ import annotations

import runpy
from pathlib import Path
from typing import Any

import irrun

project = "irrun"
author = "the irrun developers"
release = version = irrun.__version__

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "sphinx.ext.viewcode"]
html_theme = "furo"
html_title = "irrun"
exclude_patterns = ["build"]

default_role = "code"
autodoc_typehints = "none"
autodoc_member_order = "bysource"
autodoc_preserve_defaults = True
add_module_names = False
napoleon_google_docstring = True
napoleon_numpy_docstring = False
napoleon_use_rtype = False
napoleon_custom_sections = ["Spec", "Examples"]
myst_enable_extensions = ["colon_fence"]
myst_heading_anchors = 3
suppress_warnings = ["myst.xref_missing"]  # links to files of the repository


def _keep_colons(app: Any, kind: str, name: str, value: object, options: object, lines: list[str]) -> None:
    """Mark results as untyped, since napoleon takes the text before a colon for a type."""
    for i, line in enumerate(lines[:-1]):
        if line.strip() == "Returns:" and ":" in lines[i + 1]:
            text = lines[i + 1].lstrip()
            lines[i + 1] = lines[i + 1].removesuffix(text) + ": " + text.replace("*", r"\*")


def setup(app: Any) -> None:
    """Generate the reference pages before each build."""
    app.connect("autodoc-process-docstring", _keep_colons, priority=400)  # before napoleon
    folder = Path(__file__).parent
    write_pages = runpy.run_path(str(folder / "make_reference.py"))["write_pages"]
    app.connect("builder-inited", lambda _: write_pages(folder / "reference"))
