"""Fixtures of tests of the export."""

from __future__ import annotations

import pytest


@pytest.fixture
def graph():
    """Make a graph the current one."""
    from irrun.export.graph import Graph

    with Graph(21, "g", scope="layer").activate() as graph:
        yield graph
