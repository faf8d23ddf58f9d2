"""HTML of traces, comparisons and profiles for notebooks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from irrun._html import make_table, shorten
from irrun.formatting import format_count, format_number
from irrun.inspection.comparison_table import LAYER_TITLES, OUTPUT_TITLES, make_layer_row, make_output_rows
from irrun.inspection.profile_table import describe_profile, make_profile_rows

if TYPE_CHECKING:
    from irrun.inspection.comparison import Comparison
    from irrun.inspection.profiling import Profile
    from irrun.inspection.trace import Trace

__all__ = ["make_comparison_html", "make_profile_html", "make_trace_html"]


def make_trace_html(trace: Trace, max_rows: int) -> str:
    """Return a table of the values of a trace.

    Args:
        trace: The trace.
        max_rows: Maximum number of rows.
    """
    rows = []
    for value in list(trace.entries.values())[:max_rows]:
        statistics = value.statistics
        low, high, mean = (statistics.get(name) for name in ("min", "max", "mean"))
        remarks = [f"{statistics[key]} {name}" for key, name in REMARKS.items() if statistics.get(key)]
        rows.append(
            (
                value.key,
                value.layer_type,
                f"{value.type}[{','.join(map(str, value.shape))}]",
                f"{value.seconds * 1000:.2f} ms",
                "" if low is None or high is None else f"{format_number(low)} to {format_number(high)}",
                "" if mean is None else format_number(mean),
                ", ".join(remarks),
            )
        )
    header = ("value", "operation", "type", "time", "range", "mean", "remarks")
    title = f"Trace: {len(trace)} values" + (f" in {shorten(str(trace.path))}" if trace.path else "")
    notes = [format_count(len(trace) - max_rows, "more value")] if len(trace) > max_rows else []
    notes += [f"The run failed: {trace.error}"] if trace.error else []
    return make_table(title, header, rows, ("time", "mean"), ". ".join(notes))


#: Statistics shown if they are not 0.
REMARKS = {"nans": "NaN", "infinities": "inf"}


def make_comparison_html(comparison: Comparison, max_rows: int) -> str:
    """Return a table of the layers that add, inherit or amplify errors, and one of the outputs.

    Args:
        comparison: The comparison.
        max_rows: Maximum number of layers.
    """
    layers = [layer for layer in comparison.layers if layer.verdict != "exact"]
    rows = [(*make_layer_row(layer), layer.reason) for layer in layers[:max_rows]]
    first = comparison.first
    title = "Comparison: " + ("the model agrees" if comparison.agrees else "the model differs")
    if first is not None:
        title += f", {shorten(first.key)} ({first.type}) is the first layer that adds an error"
    counts = f"{comparison.matched} of {comparison.layers_total} layers matched"
    notes = [f"Compared with {comparison.reference} ({comparison.precision}); {counts}", *comparison.notes]
    notes += [format_count(len(layers) - max_rows, "more layer")] if len(layers) > max_rows else []
    table = make_table(title, (*LAYER_TITLES, "reason"), rows, LAYER_TITLES[3:], ". ".join(notes))
    outputs = make_table("Outputs", OUTPUT_TITLES, make_output_rows(comparison), OUTPUT_TITLES[1:])
    return f"<div>{table}{outputs}</div>"


def make_profile_html(profile: Profile, max_rows: int) -> str:
    """Return a table of the slowest layers of a profile.

    Args:
        profile: The profile.
        max_rows: Maximum number of layers.
    """
    header, rows, right = make_profile_rows(profile, sort="time", top=max_rows)
    title, *notes = describe_profile(profile)
    omitted = len(profile.layers) - max_rows
    notes += [format_count(omitted, "more layer")] if omitted > 0 else []
    return make_table(title, header, rows, right, ". ".join(notes))
