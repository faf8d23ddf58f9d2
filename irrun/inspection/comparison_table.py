"""Tables of comparisons: rows of text, for the command line and for notebooks."""

from __future__ import annotations

from irrun.formatting import format_number
from irrun.inspection.comparison import Comparison, LayerComparison, OutputComparison
from irrun.inspection.metrics import Metrics

__all__ = ["LAYER_TITLES", "OUTPUT_TITLES", "make_layer_row", "make_output_rows"]

#: The titles of the columns of layers. All columns after the verdict are numbers.
LAYER_TITLES = ("layer", "type", "verdict", "own dB", "own max abs", "accumulated dB", "accumulated max abs")
#: The titles of the columns of outputs. All columns after the name are numbers.
OUTPUT_TITLES = ("output", "dB", "max abs", "top 5")


def make_layer_row(layer: LayerComparison, has_runs: bool = False) -> tuple[str, ...]:
    """Return the cells of a layer.

    Args:
        layer: The comparison of the layer.
        has_runs: Whether there are several runs, so the number of the run is shown.
    """
    key = f"{layer.key} (run {layer.run + 1})" if has_runs else layer.key
    return (key, layer.type, layer.verdict, *_format_metrics(layer.own), *_format_metrics(layer.accumulated))


def make_output_rows(comparison: Comparison) -> list[tuple[str, ...]]:
    """Return the cells of all outputs.

    Args:
        comparison: The comparison.
    """
    return [
        (
            _name_output(output, comparison.runs > 1),
            *(_format_metrics(output.metrics) if output.metrics else ("missing", "")),
            f"{output.top_k:.0%}",
        )
        for output in comparison.outputs
    ]


def _name_output(output: OutputComparison, has_runs: bool) -> str:
    return f"{output.name} (run {output.run + 1})" if has_runs else output.name


def _format_metrics(metrics: Metrics) -> tuple[str, str]:
    if metrics.is_exact:
        return "equal", "0"
    return f"{metrics.sqnr_db:.1f}", format_number(metrics.max_abs)
