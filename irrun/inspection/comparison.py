"""Results of comparisons."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, field
from typing import Any, Literal

from irrun._lazy import get_provider
from irrun.formatting import format_number
from irrun.inspection.metrics import Metrics

__all__ = ["Comparison", "LayerComparison", "OutputComparison", "strip_iterations"]

#: Maximum number of layers in notebooks.
MAX_ROWS = 25


@dataclass(frozen=True)
class LayerComparison:
    """The comparison of one layer, in one iteration if it is in a body.

    Attributes:
        name: The name of the layer.
        type: The type of the layer.
        key: The key of the layer.
        matched_by: How it was matched: "name" or "order".
        own: The error that the layer adds, given the inputs of the reference.
        accumulated: The error in an ordinary run.
        verdict: The meaning of the errors: "adds", "inherits", "amplifies", "ill-conditioned", "one level", "near
            zero", "perturbed" or "exact".
        tolerance: The tolerance relative to the magnitude of the values.
        reason: The reason for the verdict "adds", such as a constant that differs; or "".
        run: The number of the run in a session of several runs, from 0.
        contribution_db: The SQNR of the outputs if only this layer adds its error; None if it was not measured.
        since: The nearest compared layers before this one, if the reference does not have the values of the layers in
            between, any of which may add the error.
    """

    name: str
    type: str
    key: str
    matched_by: str
    own: Metrics
    accumulated: Metrics
    verdict: str
    tolerance: float
    reason: str
    run: int = 0
    contribution_db: float | None = None
    since: tuple[str, ...] = ()

    @property
    def path(self) -> str:
        """The key with iteration 0 of every body that contains the layer."""
        return strip_iterations(self.key)

    def to_json(self) -> dict[str, Any]:
        """Return the layer for JSON."""
        return {
            "name": self.name,
            "type": self.type,
            "key": self.key,
            "matched_by": self.matched_by,
            "own": self.own.to_json(),
            "accumulated": self.accumulated.to_json(),
            "verdict": self.verdict,
            "reason": self.reason,
            "run": self.run,
            "contribution_db": _to_json(self.contribution_db),
            "since": list(self.since),
        }


@dataclass(frozen=True)
class OutputComparison:
    """The comparison of one output of the model.

    Attributes:
        name: The name of the output.
        metrics: The error; None if the reference does not have the output.
        top_k: The mean fraction of the five largest elements of each row that both have in common.
        agrees: Whether the error is within the tolerance, or rounding explains it because results of layers jump.
        run: The number of the run in a session of several runs, from 0.
        score: The value of the metric, by default the SQNR in dB; None if the reference does not have the output.
    """

    name: str
    metrics: Metrics | None
    top_k: float
    agrees: bool
    run: int = 0
    score: float | None = None

    def to_json(self) -> dict[str, Any]:
        """Return the output for JSON."""
        metrics = self.metrics.to_json() if self.metrics is not None else {"max_abs": None, "sqnr_db": None}
        result = {"name": self.name, **metrics, "top_k": self.top_k, "run": self.run}
        return {**result, "agrees": self.agrees, "score": _to_json(self.score)}


@dataclass(frozen=True, repr=False)
class Comparison:
    """The comparison of a model with a reference.

    Attributes:
        agrees: Whether no layer adds an error and the outputs agree.
        reference: The reference.
        precision: The precision that the reference actually used.
        layers: The matched layers in the order of execution.
        outputs: The outputs of the model.
        layers_total: The number of executed layers of the model, without layers that compute constants.
        notes: Messages for the user.
        causes: The layers that add an error, each once, ranked by their contribution to the errors of the outputs.
        runs: The number of runs.
    """

    agrees: bool
    reference: str
    precision: str
    layers: list[LayerComparison]
    outputs: list[OutputComparison]
    layers_total: int
    notes: list[str] = field(default_factory=list)
    causes: list[LayerComparison] = field(default_factory=list)
    runs: int = 1

    @property
    def outcome(self) -> Literal["agrees", "differs", "unexplained"]:
        """The outcome of the comparison: "unexplained" if the outputs differ although no layer adds an error."""
        if self.agrees:
            return "agrees"
        return "differs" if self.first is not None else "unexplained"

    @property
    def first(self) -> LayerComparison | None:
        """The first layer in the order of execution that adds an error, or None."""
        return next((layer for layer in self.layers if layer.verdict == "adds"), None)

    def describe(self) -> str:
        """Return the main finding: the layer that adds most of the error, or why the outputs differ without one."""
        if not self.causes:
            return "no layer adds an error" if self.agrees else f"the outputs differ, {self._explain_outputs()}"
        cause = self.causes[0]
        reason = f": {cause.reason}" if cause.reason else ""
        size = f"max abs {format_number(cause.own.max_abs)}, SQNR {cause.own.sqnr_db:.1f} dB"
        if not cause.own.same_shape:
            size = "another shape"
        count = len(self.causes)
        run = f" in run {cause.run + 1}" if self.runs > 1 else ""
        place = f"{cause.key} ({cause.type})"
        if cause.since:
            more = f" and {len(cause.since) - 3} more" if len(cause.since) > 3 else ""
            place = f"between {', '.join(cause.since[:3])}{more} and {place}"
            return f"an error arises {place}{run} ({size}); the reference does not have the values in between"
        first = self.first
        if first is None or first.path == cause.path:
            others = f"; {count} layers add one" if count > 1 else ""
            return f"{place} is the first layer that adds an error{run} ({size}){reason}{others}"
        others = f"; {count} layers add one, the first is {first.key}"
        return f"{place} adds the error that changes the outputs most{run} ({size}){reason}{others}"

    def _explain_outputs(self) -> str:
        """Explain outputs that differ although no layer adds an error."""
        missing = self.layers_total - self.matched
        if missing:
            return f"and {missing} of {self.layers_total} layers have no value to compare with"
        for verdict in ("ill-conditioned", "perturbed", "amplifies"):
            layers = [layer for layer in self.layers if layer.verdict == verdict]
            if layers:
                layer = min(layers, key=lambda layer: layer.accumulated.sqnr_db)
                others = f", one of {len(layers)} layers," if len(layers) > 1 else ""
                means = {"perturbed": "cannot be read without changing the reference"}.get(verdict, f"is {verdict}")
                means = "amplifies rounding errors" if verdict == "amplifies" else means
                return f"but no layer adds an error: {layer.key} ({layer.type}){others} {means}"
        return "but no layer adds an error: rounding errors add up"

    @property
    def matched(self) -> int:
        """The number of matched layers; iterations are not counted."""
        return len({strip_iterations(layer.key) for layer in self.layers})

    def __repr__(self) -> str:
        result = {"unexplained": "differs, without a layer that adds an error,"}.get(self.outcome, self.outcome)
        return f"<Comparison: {result} with {self.reference}, {self.matched} of {self.layers_total} layers matched>"

    def _repr_html_(self) -> str:
        html: str = get_provider("make_comparison_html")(self, MAX_ROWS)
        return html

    def to_json(self) -> dict[str, Any]:
        """Return the comparison for JSON."""
        first = self.first
        return {
            "agrees": self.agrees,
            "outcome": self.outcome,
            "reference": self.reference,
            "precision": self.precision,
            "matched": self.matched,
            "layers_total": self.layers_total,
            "first": None if first is None else first.key,
            "causes": [layer.key for layer in self.causes],
            "runs": self.runs,
            "notes": self.notes,
            "outputs": [output.to_json() for output in self.outputs],
            "layers": [layer.to_json() for layer in self.layers],
        }


def _to_json(number: float | None) -> float | str | None:
    return number if number is None or math.isfinite(number) else str(number)


def strip_iterations(key: str) -> str:
    """Return a key with iteration 0 of every body.

    Args:
        key: The key of a layer or value.
    """
    return re.sub(r"\[\d+\]/", "[0]/", key)
