"""Times of a report, with the layers that one kernel computes together."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from time import perf_counter
from typing import Any

import numpy as np

from irrun.inspection.instruments import KernelTimer, list_layers
from irrun.inspection.report.structure import Structure
from irrun.inspection.report.summaries import shorten
from irrun.ir.graph import Layer
from irrun.ops._support import registry
from irrun.runtime.compiled_model import CompiledModel
from irrun.runtime.program import Instruction

__all__ = ["Times", "measure_times", "read_recorded_times"]

Array = np.ndarray[Any, Any]

#: Number of measured runs after a warm-up, and the seconds after which no further run starts.
RUNS = 5
MAX_SECONDS = 2.0
#: Kinds of operations that a kernel of several layers is named after.
MAIN_KINDS = ("product", "window", "recurrent", "control", "rowwise")


@dataclass(frozen=True)
class Times:
    """The times of a run.

    Attributes:
        source: The measured run, as described on the page.
        seconds: The median time of the run in seconds.
        runs: The number of runs.
        kernels: For each kernel call in the program: its layers by number, starting with the one that it is named
            after, its seconds in a run without its bodies, its number of calls, and its implementation.
    """

    source: str
    seconds: float
    runs: int
    kernels: list[dict[str, Any]]

    def to_json(self) -> dict[str, Any]:
        """Return the times for the page."""
        return {"source": self.source, "seconds": self.seconds, "runs": self.runs, "kernels": self.kernels}


def measure_times(
    structure: Structure, compiled: CompiledModel, arguments: Sequence[Array], timeout: float | None = None
) -> Times:
    """Measure runs without observers.

    Args:
        structure: The layers of the model.
        compiled: The model.
        arguments: Its inputs.
        timeout: Time limit of each run in seconds.

    Raises:
        IrrunError: The run failed.
    """
    compiled.finish_compilation()
    timer = KernelTimer()
    request = compiled.create_infer_request(timer)
    start = perf_counter()
    for run in range(RUNS + 1):
        request.reset_state()
        timer.start_run()
        begin = perf_counter()
        request.infer(list(arguments), timeout=timeout)
        timer.finish_run(perf_counter() - begin, is_counted=run > 0)
        if run and perf_counter() - start > MAX_SECONDS:
            break
    kernels = []
    taken: set[int] = set()
    # Layers belong to the kernels that computed them, not to kernels that failed earlier.
    for record in sorted(timer.records, key=lambda record: record.failures > 0):
        numbers = [n for n in _list_numbers(structure, record.instruction) if n not in taken]
        if numbers and record.calls:
            taken.update(numbers)
            kernel = {"layers": numbers, "seconds": _round(statistics.median(record.runs)), "calls": record.calls}
            kernels.append({**kernel, "text": shorten(record.instruction.description, 160)})
    source = "the optimized run" if compiled.optimize else "a run of the plain kernels"
    return Times(source, _round(statistics.median(timer.totals)), len(timer.totals), kernels)


def read_recorded_times(structure: Structure, records: Mapping[int, Mapping[str, Mapping[str, Any]]]) -> Times:
    """Return the times of a trace, recorded from plain kernels.

    Args:
        structure: The layers of the model.
        records: The records of a `Collector` that collected a trace.
    """
    sums = {n: sum(r.get("seconds", 0.0) for r in by_tag.values()) for n, by_tag in records.items()}
    inner: dict[int, float] = {}
    for number, seconds in sums.items():
        owner = structure.table.get_owner(structure.layers[number])
        if owner is not None:
            position = structure.numbers[id(owner)]
            inner[position] = inner.get(position, 0.0) + seconds
    kernels = [
        {"layers": [n], "seconds": _round(max(0.0, s - inner.get(n, 0.0))), "calls": len(records[n]), "text": ""}
        for n, s in sums.items()
        if s
    ]
    top = sum(s for n, s in sums.items() if structure.table.get_owner(structure.layers[n]) is None)
    return Times("the recorded run of the plain kernels", _round(top), 1, kernels)


def _list_numbers(structure: Structure, instruction: Instruction) -> list[int]:
    """Return the layers of an instruction by number, starting with the one that the kernel is named after."""
    layers = [n for n in list_layers(instruction) if id(n) in structure.numbers and not structure.is_constant(n)]
    main = min(layers, key=_rank, default=None)
    return [structure.numbers[id(n)] for n in sorted(layers, key=lambda n: n is not main)]


def _rank(layer: Layer) -> int:
    kind = registry.get_card(layer.type, layer.version).kind
    return MAIN_KINDS.index(kind) if kind in MAIN_KINDS else len(MAIN_KINDS)


def _round(seconds: float) -> float:
    return float(f"{seconds:.4g}")
