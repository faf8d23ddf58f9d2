"""Reports: one HTML file that shows a model, its values, its times and its errors."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np
    from typing_extensions import Unpack

    from irrun.inspection.comparison import Comparison
    from irrun.inspection.report.data import Source
    from irrun.inspection.trace import Trace
    from irrun.ir.model import Model
    from irrun.runtime.inputs import Inputs
    from irrun.runtime.observer import Observer
    from irrun.runtime.options import KernelOptions

__all__ = ["make_report"]


def make_report(
    model: Source,
    inputs: Inputs = None,
    *,
    trace: Trace | None = None,
    against: Model | str | os.PathLike[str] | Mapping[str, np.ndarray[Any, Any]] | None = None,
    comparison: Comparison | None = None,
    channels: str = "BGR",
    observers: Sequence[Observer] = (),
    tensor_bytes: int = 1_200_000,
    other: Model | str | os.PathLike[str] | None = None,
    **options: Unpack[KernelOptions],
) -> str:
    """Run a model and return a report: a self-contained page that shows its layers and their values.

    If a model has inputs but none are passed, it does not run, and the page shows its structure and its constants.

    Args:
        model: The model, or the path of its .xml file.
        inputs: An array, a sequence in the order of the Parameters, or a mapping from names to arrays.
        trace: Recorded values to show; by default the model runs.
        against: The reference, as for `compare`; None for no comparison.
        comparison: The comparison, if it already exists.
        channels: The order of the channels of images: "BGR" or "RGB".
        observers: Observers that are called first, in all runs.
        tensor_bytes: Limit for full values in compressed bytes; the page draws them and offers them for download.
        other: A model to show next to the model and, with inputs, to compare it with.
        options: `precision`, `jit`, `threads`, `memory` and `weights_memory`, as for `compile_model`, and `timeout`,
            the time limit of each run in seconds; or a `RunSettings` as `settings`.

    Returns:
        The page as HTML. If the run failed, it shows the error and the values before it.

    Raises:
        InputError: The inputs do not match the model, or the reference does not exist.
        IrrunError: The model is invalid, or the comparison failed.
    """
    from irrun.inspection.report.data import collect_report
    from irrun.inspection.report.page import render_page
    from irrun.runtime.options import RunSettings

    report = collect_report(
        model,
        inputs,
        trace=trace,
        against=against,
        comparison=comparison,
        channels=channels,
        observers=observers,
        settings=RunSettings.choose(options, compiles=True),
        tensor_bytes=tensor_bytes,
        other=other,
    )
    return render_page(report.to_json(), report.title)
