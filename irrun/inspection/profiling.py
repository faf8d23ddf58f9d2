"""Profiles: the time of a run by layer, type or module.

Profiles measure the program that ordinary runs execute. An instruction may compute several layers that passes
have fused. Numbers of operations belong to layers and are counted in a run with observers.
"""

from __future__ import annotations

import csv
import io
import json
import os
import statistics
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any, Literal

from irrun._lazy import get_provider
from irrun.arguments import check_choice, check_function, check_integer, check_path
from irrun.atomic_files import atomic_write
from irrun.errors import InputError
from irrun.inspection.instruments import (
    Event,
    FlopCounter,
    KernelTimer,
    MemoryMeter,
)
from irrun.inspection.keys import KeyTable
from irrun.inspection.machine import Machine, measure_machine
from irrun.inspection.modules import choose_depth, format_module
from irrun.inspection.profile_layers import LayerProfile, LayerProfiler, merge_profiles
from irrun.ir.model import Model
from irrun.ir.reader import read_model
from irrun.runtime.compiled_model import CompiledModel
from irrun.runtime.executor import Fallback
from irrun.runtime.inputs import Inputs
from irrun.runtime.options import KernelOptions, RunSettings
from irrun.runtime.request import InferRequest

if TYPE_CHECKING:
    from rich.table import Table
    from typing_extensions import Unpack

    from irrun.inspection.openvino_profile import OpenVinoProfile

__all__ = ["Grouping", "Profile", "profile"]

#: How the layers of a profile are grouped.
Grouping = Literal["layer", "type", "module"]

#: Maximum number of groups by module if no depth is given.
MAX_MODULES = 40
#: Maximum number of rows in the table that `rich` prints.
MAX_ROWS = 40


@dataclass(frozen=True, repr=False)
class Profile:
    """The times of the layers of a run.

    Attributes:
        model: The name of the model.
        layers: The measurements, in order of execution.
        seconds: The median time of a run with timers, in seconds.
        executor_seconds: The median time outside of kernels in seconds: the executor and the timers.
        untimed_seconds: The median time of a run without timers, in seconds.
        runs: The number of runs.
        optimized: Whether the optimized program ran.
        machine: The speed of the machine.
        events: The calls of the last run.
        dropped_events: The number of calls of the last run that were not kept as events.
        openvino: The counters of OpenVINO, or None.
        fallbacks: Instructions whose specialized kernels failed, so that the plain kernels ran.
    """

    model: str
    layers: tuple[LayerProfile, ...]
    seconds: float
    executor_seconds: float
    untimed_seconds: float
    runs: int
    optimized: bool
    machine: Machine
    events: tuple[tuple[LayerProfile, Event], ...]
    dropped_events: int
    openvino: OpenVinoProfile | None = None
    fallbacks: tuple[Fallback, ...] = ()

    @property
    def total(self) -> LayerProfile:
        """The sum of all layers, without the executor."""
        return merge_profiles("total", "", self.layers)

    @property
    def peak(self) -> int:
        """The peak size of live values in bytes, without weights and inputs."""
        return max((layer.alive for layer in self.layers), default=0)

    @property
    def unknown_flops(self) -> list[str]:
        """The types of layers with an unknown number of operations."""
        return sorted({layer.type for layer in self.layers if layer.flops is None})

    def group(self, by: Grouping = "layer", depth: int | None = None) -> list[LayerProfile]:
        """Return the measurements of groups of layers, slowest first for types, else in order of execution.

        Args:
            by: The common property of a group's layers. Groups by "layer" are the layers themselves.
            depth: The length of the module paths; by default the longest with at most `MAX_MODULES` groups.

        Raises:
            InputError: `by` is not a grouping, or `depth` is not a length.
        """
        check_choice("by", by, ("layer", "type", "module"))
        if depth is not None:
            depth = check_integer("depth", depth, 0)
        if by == "layer":
            return list(self.layers)
        if depth is None:
            depth = choose_depth((layer.module for layer in self.layers), MAX_MODULES)
        groups: dict[Any, list[LayerProfile]] = {}
        for layer in self.layers:
            groups.setdefault(layer.type if by == "type" else layer.module[:depth], []).append(layer)
        if by == "module":
            return [
                replace(merge_profiles(format_module(path), "", group), module=path) for path, group in groups.items()
            ]
        return sorted((merge_profiles(name, name, group) for name, group in groups.items()), key=lambda g: -g.seconds)

    def to_dict(self, by: Grouping = "layer", depth: int | None = None) -> dict[str, Any]:
        """Return the profile for JSON.

        Args:
            by: How the layers are grouped.
            depth: As for `group`.
        """
        total = self.total
        result = {
            "model": self.model,
            "optimized": self.optimized,
            "runs": self.runs,
            "seconds": self.seconds,
            "executor_seconds": self.executor_seconds,
            "untimed_seconds": self.untimed_seconds,
            "layer_seconds": total.seconds,
            "flops": total.flops,
            "bytes": total.bytes,
            "peak": self.peak,
            "unknown_flops": self.unknown_flops,
            "fallbacks": [fallback._asdict() for fallback in self.fallbacks],
            "machine": self.machine.to_dict(),
            by + "s": [{**g.to_dict(), "share": self.get_share(g)} for g in self.group(by, depth)],
        }
        if self.openvino is not None:
            result["openvino"] = self.openvino.to_dict()
        return result

    def get_share(self, layer: LayerProfile) -> float:
        """Return the share of a layer or group in the time of all layers and the executor."""
        total = sum(x.seconds for x in self.layers) + self.executor_seconds
        return layer.seconds / total if total else 0.0

    def to_csv(self, by: Grouping = "layer", depth: int | None = None) -> str:
        """Return the layers or groups as CSV with a header.

        Args:
            by: How the layers are grouped.
            depth: As for `group`.
        """
        names = ("key", "type", "calls", "seconds", "share", "flops", "flops_per_second", "bytes", "alive", "bound")
        stream = io.StringIO()
        writer = csv.writer(stream, lineterminator="\n")
        writer.writerow((*names, "module", "outputs", "layers"))
        for group in self.group(by, depth):
            values = {**group.to_dict(), "share": self.get_share(group)}
            cells = [values[name] for name in names]
            texts = (format_module(group.module), " ".join(group.outputs), " ".join(group.layers))
            writer.writerow([_protect(x) for x in ("" if cell is None else cell for cell in (*cells, *texts))])
        return stream.getvalue()

    def to_chrome(self) -> dict[str, Any]:
        """Return the calls of the last run in the Trace Event Format, which Perfetto and speedscope open."""
        events: dict[str, Any] = get_provider("make_chrome_trace")(self)
        return events

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the layers to a .csv file, or the profile to a .json file.

        Args:
            path: The file.
        """
        is_csv = check_path("path", path).lower().endswith(".csv")
        text = self.to_csv() if is_csv else json.dumps(self.to_dict(), indent=1) + "\n"
        _write(path, text)

    def save_chrome(self, path: str | os.PathLike[str]) -> None:
        """Write the calls of the last run for Perfetto and speedscope.

        Args:
            path: The .json file.
        """
        _write(path, json.dumps(self.to_chrome()))

    def __repr__(self) -> str:
        return f"<Profile: {self.model!r}, {len(self.layers)} layers, {self.untimed_seconds * 1000:.3f} ms per run>"

    def __rich__(self) -> Table:
        table: Table = get_provider("make_rich_table")(self, MAX_ROWS)
        return table

    def _repr_html_(self) -> str:
        html: str = get_provider("make_profile_html")(self, MAX_ROWS)
        return html


def profile(
    model: Model | CompiledModel | str | os.PathLike[str],
    inputs: Inputs = None,
    *,
    runs: int = 10,
    optimize: bool = True,
    against: str | None = None,
    progress: Callable[[str], None] | None = None,
    **options: Unpack[KernelOptions],
) -> Profile:
    """Measure the time of each layer in a run.

    Args:
        model: A model, a compiled model, or the path of an .xml file.
        inputs: An array, a sequence in the order of the Parameters, or a mapping from names to arrays.
        runs: The number of measured runs after a warm-up. They alternate with as many runs without timers.
        optimize: Whether the optimized program runs, as in ordinary runs. Not used for a compiled model.
        against: "openvino" to also measure OpenVINO, in f32 with the same number of threads.
        progress: Called with a description of each step.
        options: `precision`, `jit`, `threads`, `memory` and `weights_memory`, as for `compile_model`, not used for a
            compiled model; and `timeout`, the time limit of each run in seconds; or a `RunSettings` as `settings`.
            With `jit="auto"`, compiled kernels are measured, as in models that are compiled later.

    Raises:
        InputError: The inputs do not match the model, OpenVINO is not installed, or an argument is invalid.
        ExecutionError: A kernel failed, or a run exceeded its time limit.
    """
    runs = check_integer("runs", runs, 1)
    check_choice("against", against, (None, "openvino"))
    check_function("progress", progress)
    if against is not None:
        from irrun.inspection.openvino_profile import check_is_installed

        check_is_installed()
    report = progress or (lambda _: None)
    settings, compiled = RunSettings.choose(options, compiles=True), model
    if not isinstance(compiled, CompiledModel):
        source = compiled if isinstance(compiled, Model) else read_model(compiled)
        compiled = settings.compile(source, optimize=optimize)
    report("compilation")
    compiled.finish_compilation()
    table = KeyTable(compiled.model)
    report("operations and memory")
    counter = FlopCounter(table)
    compiled.create_infer_request(counter).infer(inputs, observers=[counter], timeout=settings.timeout)
    meter = MemoryMeter()
    request = compiled.create_infer_request(meter)
    for _ in range(2):
        request.reset_state()
        meter.start_run()
        request.infer(inputs, timeout=settings.timeout)
    timer = KernelTimer()
    untimed = _measure_runs(compiled, inputs, timer, runs, report, settings.timeout)
    machine = measure_machine(compiled.threads)
    layers = LayerProfiler(compiled.model, table, counter).describe(timer.records, meter, machine)
    events = [(layers[id(event.instruction)], event) for event in timer.events if id(event.instruction) in layers]
    result = Profile(
        model=compiled.model.graph.name or (compiled.model.path.name if compiled.model.path else "model"),
        layers=tuple(layers.values()),
        seconds=statistics.median(timer.totals),
        executor_seconds=statistics.median(
            total - kernels for total, kernels in zip(timer.totals, timer.kernel_totals, strict=True)
        ),
        untimed_seconds=untimed,
        runs=runs,
        optimized=compiled.optimize,
        machine=machine,
        events=tuple(events),
        dropped_events=timer.dropped,
        fallbacks=tuple(request.fallbacks),
    )
    if against is None:
        return result
    from irrun.inspection.openvino_profile import profile_openvino

    report("OpenVINO")
    return replace(result, openvino=profile_openvino(compiled, inputs, result.layers, runs, table))


def _measure_runs(
    compiled: CompiledModel,
    inputs: Inputs,
    timer: KernelTimer,
    runs: int,
    report: Callable[[str], None],
    timeout: float | None,
) -> float:
    """Measure runs with timers, and return the median time of as many runs without timers."""
    timed, plain = compiled.create_infer_request(timer), compiled.create_infer_request()
    untimed = []
    for number in range(runs + 1):
        report(f"run {number} of {runs}" if number else "warm-up")
        timer.start_run()
        timer.finish_run(_measure_run(timed, inputs, timeout), is_counted=number > 0)
        seconds = _measure_run(plain, inputs, timeout)
        if number:
            untimed.append(seconds)
    return statistics.median(untimed)


def _measure_run(request: InferRequest, inputs: Inputs, timeout: float | None) -> float:
    """Return the seconds of a run that starts with the initial state."""
    request.reset_state()
    start = perf_counter()
    request.infer(inputs, timeout=timeout)
    return perf_counter() - start


def _protect(cell: object) -> object:
    """Return a cell of a CSV file that a spreadsheet does not evaluate as a formula."""
    return f"'{cell}" if isinstance(cell, str) and cell.startswith(("=", "+", "-", "@", "\t", "\r")) else cell


def _write(path: str | os.PathLike[str], text: str) -> None:
    target = Path(check_path("path", path))
    try:
        with atomic_write(target) as stream:
            stream.write(text.encode("utf-8", "surrogatepass"))
    except OSError as error:
        raise InputError(f"cannot write {target}: {error.strerror or error}") from None
