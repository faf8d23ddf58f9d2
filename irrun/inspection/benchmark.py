"""Benchmarks: start time, run time and memory of a model, in irrun and in OpenVINO.

The measured runs represent a process that has been running for a while: kernels are compiled, weights are
in the form that kernels read, and values that depend on shapes are known. irrun and OpenVINO take turns, so
that both run under the same conditions.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Sequence
from time import sleep
from typing import TYPE_CHECKING

from irrun.arguments import check_choice, check_integer, check_number
from irrun.inspection.bench_engines import Block, Engine, IrrunEngine, OpenVinoEngine, run_block, run_each
from irrun.inspection.bench_results import Bench, EngineBench, KernelState, share_threads
from irrun.inspection.peak_memory import PeakMeter, read_peak
from irrun.ir.model import Model
from irrun.ir.reader import read_model
from irrun.runtime.compilation import resolve_jit
from irrun.runtime.options import KernelOptions, RunSettings
from irrun.runtime.plan import list_plan
from irrun.threads import get_default_thread_count
from irrun.version import __version__

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from irrun.runtime.compilation import Jit
    from irrun.runtime.compiled_model import CompiledModel
    from irrun.runtime.inputs import Inputs

__all__ = ["bench"]

#: Default duration of the measured runs in seconds, if the number of runs is not set.
DEFAULT_SECONDS = 5.0
#: Warm-up runs of each request. The second run copies weights, and the third reuses values that depend on shapes.
WARM_UP_RUNS = 3
#: Number of turns of irrun and OpenVINO.
TURNS = 10
#: Seconds between the turns, after which the idle threads of the other runtime no longer spin.
PAUSE = 0.02
#: Seconds of uncounted runs at the start of a turn, while the other runtime still occupies caches and cores; and the
#: duration of single runs above which there are none.
SETTLING, MAX_SETTLING = 0.02, 0.05


def bench(
    model: Model | str | os.PathLike[str],
    inputs: Inputs = None,
    *,
    runs: int | None = None,
    seconds: float | None = None,
    requests: int = 1,
    against: str | None = None,
    progress: Callable[..., None] | None = None,
    **options: Unpack[KernelOptions],
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
        against: "openvino" to also measure OpenVINO in f32, alternating with irrun, with the same number of threads and
            requests.
        progress: Called with a description of each step, and the keywords `done`, `total` and `unit` if it has parts.
        options: `precision`, `jit`, `threads` of all requests together, `memory` and `weights_memory`, as for
            `compile_model`, and `timeout`, the time limit of each run of irrun in seconds; or a `RunSettings` as
            `settings`.

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
    settings = RunSettings.choose(options, compiles=True)
    threads = get_default_thread_count() if settings.threads is None else check_integer("threads", settings.threads, 1)
    check_choice("against", against, (None, "openvino"))
    if against is not None:
        from irrun.inspection.openvino_profile import check_is_installed

        check_is_installed()
    if runs is None and seconds is None:
        seconds = DEFAULT_SECONDS
    report = progress or (lambda *_, **__: None)
    source = model if isinstance(model, Model) else read_model(model)
    arrays = _generate_inputs(source) if inputs is None else inputs

    report("reading and compiling")
    meter = PeakMeter()
    own = IrrunEngine(source, arrays, settings, share_threads(threads, requests))
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
        precision=settings.precision,
        warm_up_runs=WARM_UP_RUNS,
        kernels=KernelState(_describe_jit(settings.jit), counts, kernel_seconds),
        irrun=result,
        openvino=compared,
        process_peak=process_peak,
    )


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
