"""The findings of a comparison for the page: the errors of layers, and the layers that add them."""

from __future__ import annotations

import re
from typing import Any

import numpy as np

from irrun.errors import IrrunError
from irrun.inspection.comparison import Comparison
from irrun.inspection.metrics import Metrics
from irrun.inspection.report.collection import Collector
from irrun.inspection.report.structure import Structure
from irrun.inspection.report.summaries import MAX_TEXT, shorten

__all__ = ["describe_errors", "describe_reference", "find_number"]


def find_number(structure: Structure, key: str) -> tuple[int | None, str]:
    """Return the number of a layer (or None) and the iterations of the bodies that contain it.

    Args:
        structure: The layers of the model.
        key: The key of the layer.
    """
    try:
        found = structure.table.find_layer(key)
    except IrrunError:
        return None, ""
    depth = structure.get_depth(found)
    return structure.numbers.get(id(found)), ",".join(re.findall(r"\[(\d+)\]/", key)[:depth])


def describe_errors(collector: Collector, comparison: Comparison) -> dict[int, dict[str, dict[str, Any]]]:
    """Return the errors of layers by their numbers and iterations.

    Args:
        collector: The values of the model.
        comparison: The comparison.
    """
    errors: dict[int, dict[str, dict[str, Any]]] = {}
    for layer in comparison.layers:
        number, tag = find_number(collector.structure, layer.key)
        if number is None or (tag and tag not in collector.records.get(number, {})):
            continue  # the iteration is not shown
        errors.setdefault(number, {})[tag] = {
            "own": _describe_metrics(layer.own),
            "accumulated": _describe_metrics(layer.accumulated),
            "verdict": layer.verdict,
            "reason": shorten(layer.reason),
        }
    return errors


def describe_reference(structure: Structure, comparison: Comparison) -> dict[str, Any]:
    """Return the findings of a comparison, with the layers that add an error in the order of `compare`.

    Args:
        structure: The layers of the model.
        comparison: The comparison.
    """
    causes = []
    for layer in comparison.causes:
        number, tag = find_number(structure, layer.key)
        causes.append(
            {
                "layer": number,
                "tag": tag,
                "key": shorten(layer.key),
                "type": shorten(layer.type, 80),
                "reason": shorten(layer.reason),
                "own": _describe_metrics(layer.own),
                "contribution": _limit_decibels(layer.contribution_db),
                "since": [shorten(name) for name in layer.since[:4]],
            }
        )
    return {
        "name": shorten(comparison.reference),
        "precision": shorten(comparison.precision),
        "outcome": comparison.outcome,
        "summary": shorten(comparison.describe(), 2 * MAX_TEXT),
        "matched": comparison.matched,
        "total": comparison.layers_total,
        "causes": causes,
        "notes": [shorten(note) for note in comparison.notes],
        "outputs": [
            {
                "name": shorten(output.name),
                "error": None if output.metrics is None else _describe_metrics(output.metrics),
                "agrees": output.agrees,
            }
            for output in comparison.outputs
        ],
    }


#: The SQNR of values of different shapes.
OTHER_SHAPE = -1000.0


def _describe_metrics(metrics: Metrics) -> dict[str, Any]:
    """Return an error for JSON: the SQNR in dB, null if the values are equal, and the largest difference."""
    if metrics.is_exact:
        return {"db": None, "abs": 0}
    if not metrics.same_shape:
        return {"db": OTHER_SHAPE, "abs": "inf"}
    largest = float(f"{metrics.max_abs:.4g}")
    return {"db": _limit_decibels(metrics.sqnr_db), "abs": largest if np.isfinite(largest) else str(largest)}


def _limit_decibels(db: float | None) -> float | None:
    """Return an SQNR for JSON, which has no infinities."""
    return None if db is None or np.isnan(db) else round(max(-999.0, min(999.0, db)), 2)
