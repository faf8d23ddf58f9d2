"""Two models side by side: matching layers and their differences."""

from __future__ import annotations

from typing import Any

from irrun.inspection.differences import LayerDifferences
from irrun.inspection.matching import match_layers
from irrun.inspection.report.structure import Structure, name_model
from irrun.inspection.report.summaries import shorten

__all__ = ["describe_pair"]

#: Maximum number of differences listed per layer.
MAX_DIFFERENCES = 12


def describe_pair(structure: Structure, other: Structure) -> dict[str, Any]:
    """Return the matches and differences of two models, for JSON.

    Args:
        structure: The model.
        other: The model beside it.

    Returns:
        The names of the other model, the number of its first layer and graph, the matches by number, the differences
        of matched layers by number, and the layers without a match. A difference between the constants of a
        layer counts for the layer.
    """
    matches = match_layers(structure.model.graph, other.model.graph)
    found = LayerDifferences(structure.table, other.table, matches)
    constants = {id(layer): match for layer, match in matches.constants}
    partners: dict[int, int] = {}
    differences: dict[int, list[str]] = {}
    for layer in structure.layers:
        match = matches.find(layer)
        partner = match.layer if match is not None else constants.get(id(layer))
        if partner is None or id(partner) not in other.numbers:
            continue
        number = structure.numbers[id(layer)]
        partners[number] = other.numbers[id(partner)]
        texts = found.list_all(layer, partner)
        if texts:
            differences[number] = [shorten(text) for text in texts[:MAX_DIFFERENCES]]
    matched = {*partners, *partners.values()}
    drawn = [s.numbers[id(n)] for s in (structure, other) for n in s.layers if not s.is_constant(n)]
    return {
        "names": name_model(other.model),
        "layer": other.first,
        "graph": other.first_graph,
        "partners": partners,
        "differences": differences,
        "unmatched": [number for number in drawn if number not in matched],
    }
