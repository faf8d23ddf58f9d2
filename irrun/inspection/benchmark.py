"""Benchmarks: start time, run time and memory of a model, in irrun and in OpenVINO.

The measured runs represent a process that has been running for a while: kernels are compiled, weights are
in the form that kernels read, and values that depend on shapes are known. irrun and OpenVINO take turns, so
that both run under the same conditions.
"""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from time import sleep
from typing import TYPE_CHECKING, Any

import numpy as np

from irrun.arguments import check_choice, check_integer, check_number
from irrun.inspection.bench_engines import Block, Engine, IrrunEngine, OpenVinoEngine, run_block, run_each
from irrun.inspection.peak_memory import PeakMeter, read_peak
from irrun.ir.model import Model
from irrun.ir.reader import read_model
from irrun.runtime.compilation import resolve_jit
from irrun.runtime.options import RunSettings
from irrun.runtime.plan import list_plan
from irrun.threads import get_default_thread_count
from irrun.version import __version__

if TYPE_CHECKING:
    from irrun.runtime.compilation import Jit
    from irrun.runtime.inputs import Inputs
    from irrun.runtime.request import CompiledModel

__all__ = ["Bench", "BenchRow", "EngineBench", "KernelState", "bench"]

#: Default duration of the measured runs in seconds, if the number of runs is not set.
DEFAULT_SECONDS = 5.0
#: Warm-up runs of each request. The second run copies weights, and the third reuses values that depend on shapes.
WARM_UP_RUNS = 3
#: Number of turns of irrun and OpenVINO.
TURNS = 10
#: Seconds between the turns, after which the idle threads of the other runtime no longer spin.
PAUSE = 0.02
#: Seconds of uncounted runs at the start of a turn, since caches and cores are still in use by the
#: other runtime; and the duration of single runs above which there are none.
SETTLING, MAX_SETTLING = 0.02, 0.05


@dataclass(frozen=True)
class KernelState:
    """The kernels that the measured runs used.

    Attributes:
        jit: The option `jit`: "auto", "on" or "off".
        counts: The number of instructions by implementation: "compiled", "specialized" (NumPy) and "plain".
        compile_seconds: With "auto", the time to compile the kernels in seconds. Ordinary runs compile them in the
            background for later models; here they were compiled before the measured runs. None if they were already
            compiled, with other values of `jit`, and without llvmlite.
    """

    jit: str
    counts: dict[str, int]
    compile_seconds: float | None


@dataclass(frozen=True, repr=False)
class EngineBench:
    """The measurements of irrun or OpenVINO. All times are in seconds.

    Attributes:
        name: "irrun" or "OpenVINO".
        version: Its version.
        read_seconds: The time to read the model; None for a model without a file.
        compile_seconds: The time to compile it.
        first_seconds: The time of the first inference.
        latencies: The time of each measured run.
        seconds: The total time of the measured runs; runs of several requests overlap.
        peak_bytes: The peak growth of the process's memory from before the model was read until the end of the warm-up,
            or None if the system does not report it.
    """

    name: str
    version: str
    read_seconds: float | None
    compile_seconds: float
    first_seconds: float
    latencies: tuple[float, ...]
    seconds: float
    peak_bytes: int | None

    @property
    def runs(self) -> int:
        """The number of measured runs."""
        return len(self.latencies)

    @property
    def throughput(self) -> float:
        """Runs per second, of all requests together."""
        return self.runs / self.seconds

    @property
    def average(self) -> float:
        """The mean time of the measured runs."""
        return float(np.mean(self.latencies))

    def get_percentile(self, percent: float) -> float:
        """Return a percentile of the times of the measured runs, with linear interpolation.

        Args:
            percent: 0 for the shortest time, 50 for the median, 100 for the longest.
        """
        return float(np.percentile(self.latencies, percent))

    def to_dict(self) -> dict[str, Any]:
        """Return the measurements for JSON."""
        return {
            "name": self.name,
            "version": self.version,
            "read_seconds": self.read_seconds,
            "compile_seconds": self.compile_seconds,
            "first_seconds": self.first_seconds,
            "runs": self.runs,
            "seconds": self.seconds,
            "median_seconds": self.get_percentile(50),
            "average_seconds": self.average,
            "min_seconds": self.get_percentile(0),
            "p90_seconds": self.get_percentile(90),
            "p99_seconds": self.get_percentile(99),
            "max_seconds": self.get_percentile(100),
            "throughput": self.throughput,
            "peak_bytes": self.peak_bytes,
        }

    def __repr__(self) -> str:
        return f"<EngineBench: {self.name}, {self.runs} runs, median {self.get_percentile(50) * 1000:.4g} ms>"


@dataclass(frozen=True)
class BenchRow:
    """A measurement of irrun and of OpenVINO.

    Attributes:
        key: Its key in the dictionary of `EngineBench.to_dict`.
        irrun: The value of irrun, or None.
        openvino: The value of OpenVINO, or None.
    """

    key: str
    irrun: float | None
    openvino: float | None

    @property
    def ratio(self) -> float | None:
        """The value of irrun divided by OpenVINO's; None if one is missing or 0."""
        return self.irrun / self.openvino if self.irrun is not None and self.openvino else None


#: The measurements that are compared.
_KEYS = (
    "read_seconds",
    "compile_seconds",
    "first_seconds",
    "median_seconds",
    "average_seconds",
    "min_seconds",
    "p90_seconds",
    "p99_seconds",
    "max_seconds",
    "throughput",
    "peak_bytes",
)


@dataclass(frozen=True, repr=False)
class Bench:
    """The benchmark of a model.

    Attributes:
        model: The name of the model.
        inputs: The types and shapes of the inputs by name.
        threads: The total number of threads of all requests.
        requests: The number of concurrent requests.
        precision: The precision in which irrun computed. OpenVINO computes in f32.
        warm_up_runs: The number of warm-up runs of each request.
        kernels: The kernels that irrun's measured runs used.
        irrun: The measurements of irrun.
        openvino: The measurements of OpenVINO, or None.
        process_peak: The peak memory of the process after irrun's warm-up in bytes, or None.
    """

    model: str
    inputs: dict[str, str]
    threads: int
    requests: int
    precision: str
    warm_up_runs: int
    kernels: KernelState
    irrun: EngineBench
    openvino: EngineBench | None
    process_peak: int | None

    @property
    def threads_per_request(self) -> int:
        """The number of threads of each run of irrun."""
        return _share_threads(self.threads, self.requests)

    def list_rows(self) -> list[BenchRow]:
        """Return the measurements of irrun next to OpenVINO's."""
        own = self.irrun.to_dict()
        other = {} if self.openvino is None else self.openvino.to_dict()
        return [BenchRow(key, own[key], other.get(key)) for key in _KEYS]

    def to_dict(self) -> dict[str, Any]:
        """Return the measurements for JSON."""
        return {
            "model": self.model,
            "inputs": self.inputs,
            "threads": self.threads,
            "requests": self.requests,
            "threads_per_request": self.threads_per_request,
            "precision": self.precision,
            "warm_up_runs": self.warm_up_runs,
            "kernels": vars(self.kernels),
            "process_peak_bytes": self.process_peak,
            "irrun": self.irrun.to_dict(),
            "openvino": None if self.openvino is None else self.openvino.to_dict(),
            "ratios": None if self.openvino is None else {row.key: row.ratio for row in self.list_rows()},
        }

    def to_json(self) -> str:
        """Return the measurements as JSON."""
        return json.dumps(self.to_dict(), indent=1)

    def __repr__(self) -> str:
        other = "" if self.openvino is None else f", OpenVINO {self.openvino.get_percentile(50) * 1000:.4g} ms"
        return f"<Bench: {self.model!r}, median {self.irrun.get_percentile(50) * 1000:.4g} ms{other}>"


def bench(
    model: Model | str | os.PathLike[str],
    inputs: Inputs = None,
    *,
    runs: int | None = None,
    seconds: float | None = None,
    requests: int = 1,
    against: str | None = None,
    progress: Callable[..., None] | None = None,
    precision: str = "f32",
    jit: Jit = None,
    threads: int | None = None,
    memory: int | str | None = None,
    weights_memory: int | str | None = None,
    timeout: float | None = None,
) -> Bench:
    """Measure how long a model takes to start and to run.

    Kernels that `jit="auto"` would compile in the background are compiled before the measured runs, as in
    models that are compiled later.

    Args:
        model: A model, or the path of an .xml file.
        inputs: An array, a sequence in the order of the Parameters, or a mapping from names to arrays; random values
            by default.
        runs: The total number of measured runs of all requests.
        seconds: Total duration of the measured runs in seconds; by default 5, if `runs` is not set. With both, the
            measurement ends as soon as one of them is reached.
        requests: The number of concurrent requests, each in its own thread. They share `threads`.
        against: "openvino" to also measure OpenVINO in f32, alternating with irrun, with as many threads and requests.
        progress: Called with a description of each step, and the keywords `done`, `total` and `unit` if it has parts.
        precision: This and the following arguments are as for `compile_model`.
        jit: Whether kernels are compiled.
        threads: Total number of threads of all requests.
        memory: Memory of the values of a run.
        weights_memory: Memory of decompressed weights.
        timeout: Time limit of each run of irrun in seconds.

    Returns:
        The measurements.

    Raises:
        ModelError: The file is invalid.
        InputError: The inputs do not match the model, a number is not positive, or OpenVINO is not installed.
        ExecutionError: A kernel failed, a run exceeded its time limit, or OpenVINO does not accept the model.
    """
    runs = None if runs is None else check_integer("runs", runs, 1)
    seconds = None if seconds is None else check_number("seconds", seconds, 0)
    requests = check_integer("requests", requests, 1)
    threads = get_default_thread_count() if threads is None else check_integer("threads", threads, 1)
    check_choice("against", against, (None, "openvino"))
    if against is not None:
        from irrun.inspection.openvino_profile import check_is_installed

        check_is_installed()
    if runs is None and seconds is None:
        seconds = DEFAULT_SECONDS
    report = progress or (lambda *_, **__: None)
    source = model if isinstance(model, Model) else read_model(model)
    arrays = _generate_inputs(source) if inputs is None else inputs
    settings = RunSettings(precision, None, memory, weights_memory, jit, timeout)

    report("reading and compiling")
    meter = PeakMeter()
    own = IrrunEngine(source, arrays, settings, _share_threads(threads, requests))
    first_seconds, kernel_seconds = _start(own, report)
    _warm_up(own, requests, report, "irrun")
    peak, process_peak = meter.read(), read_peak()
    counts = _count_kernels(own.compiled)
    engines: list[Engine] = [own]
    if against is not None:
        report("reading and compiling in OpenVINO")
        meter = PeakMeter()
        other = OpenVinoEngine(own.compiled, arrays, threads, requests)
        other_first = other.infer(0)
        _warm_up(other, requests, report, "OpenVINO")
        other_peak = meter.read()
        engines.append(other)
    measured = _measure(engines, requests, runs, seconds, report)
    result = _summarize("irrun", __version__, own, first_seconds, measured[0], peak)
    compared = None
    if against is not None:
        compared = _summarize("OpenVINO", other.version, other, other_first, measured[1], other_peak)
    return Bench(
        model=source.path.name if source.path else source.graph.name or "model",
        inputs=_describe_inputs(own.compiled, arrays),
        threads=threads,
        requests=requests,
        precision=precision,
        warm_up_runs=WARM_UP_RUNS,
        kernels=KernelState(_describe_jit(jit), counts, kernel_seconds),
        irrun=result,
        openvino=compared,
        process_peak=process_peak,
    )


def _share_threads(threads: int, requests: int) -> int:
    """Return the threads per run, if several requests share the threads."""
    return max(threads // requests, 1)


def _generate_inputs(model: Model) -> Inputs:
    """Return random inputs."""
    from irrun.data.load import load_inputs

    return load_inputs(["random"] * len(model.inputs), model.inputs)


def _start(engine: IrrunEngine, report: Callable[..., None]) -> tuple[float, float | None]:
    """Run for the first time, then compile the kernels that later models use.

    Returns:
        The seconds of the run, and of the compilation; None without compilation.
    """
    report("first inference")
    first_seconds = engine.infer(0)
    if engine.compiled.jit != "auto" or engine.compiled._kernels is None or engine.compiled._is_compiled:
        return first_seconds, None
    report("compiling kernels")
    return first_seconds, engine.compile_kernels()


def _warm_up(engine: Engine, requests: int, report: Callable[..., None], name: str) -> None:
    """Run each request several times."""
    report(f"warm-up of {name}")
    engine.create_requests(requests)
    run_each(engine.infer, requests, WARM_UP_RUNS)


def _measure(
    engines: Sequence[Engine],
    requests: int,
    runs: int | None,
    seconds: float | None,
    report: Callable[..., None],
) -> list[list[Block]]:
    """Let engines run in turns, and return the blocks of each engine."""
    blocks: list[list[Block]] = [[] for _ in engines]
    turns = TURNS if runs is None else min(TURNS, runs)
    for turn in range(turns):
        report("measuring", done=turn, total=turns, unit="turns")
        count = None if runs is None else runs * (turn + 1) // turns - runs * turn // turns
        for engine, own in zip(engines, blocks, strict=True):
            if len(engines) > 1:
                sleep(PAUSE)
                if not own or min(own[-1].latencies) < MAX_SETTLING:
                    run_block(engine.infer, requests, seconds=SETTLING)
            own.append(run_block(engine.infer, requests, count, None if seconds is None else seconds / turns))
        if seconds is not None and any(sum(block.seconds for block in own) >= seconds for own in blocks):
            break
    return blocks


def _summarize(
    name: str, version: str, engine: Engine, first_seconds: float, blocks: Sequence[Block], peak: int | None
) -> EngineBench:
    return EngineBench(
        name=name,
        version=version,
        read_seconds=engine.read_seconds,
        compile_seconds=engine.compile_seconds,
        first_seconds=first_seconds,
        latencies=tuple(latency for block in blocks for latency in block.latencies),
        seconds=sum(block.seconds for block in blocks),
        peak_bytes=peak,
    )


def _count_kernels(compiled: CompiledModel) -> dict[str, int]:
    """Return the number of instructions by implementation, in bodies too."""
    kinds: Counter[str] = Counter()
    for entry in list_plan(compiled._fast_program):
        text = entry.implementation
        kinds["compiled" if text.startswith("compiled") else "plain" if text == "plain" else "specialized"] += 1
    return {kind: kinds[kind] for kind in ("compiled", "specialized", "plain")}


def _describe_jit(jit: Jit) -> str:
    resolved = resolve_jit(jit)
    return "auto" if resolved == "auto" else "on" if resolved else "off"


def _describe_inputs(compiled: CompiledModel, inputs: Inputs) -> dict[str, str]:
    """Return the types and shapes of inputs by name."""
    from irrun.element_types import ElementType
    from irrun.ir.model import index_names
    from irrun.runtime.inputs import collect_inputs

    arrays = collect_inputs(inputs, compiled.inputs, index_names(compiled.inputs))
    described = {}
    for i, (tensor, array) in enumerate(zip(compiled.inputs, arrays, strict=True)):
        name = tensor.names[0] if tensor.names else str(i)
        if array is not None:
            described[name] = f"{ElementType.of(array.dtype)}[{','.join(map(str, array.shape))}]"
    return described
