"""Engines for `irrun bench`: requests of irrun and of OpenVINO, running side by side."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import Any, Protocol

import numpy as np

from irrun.element_types import ElementType
from irrun.errors import ExecutionError, IrrunError
from irrun.inspection.openvino_core import create_core
from irrun.inspection.openvino_model import is_unchanged
from irrun.inspection.openvino_profile import check_is_installed
from irrun.inspection.openvino_tensors import make_tensor
from irrun.ir.model import Model, index_names
from irrun.ir.reader import read_model
from irrun.ir.writer import save_model
from irrun.runtime.compiled_model import CompiledModel
from irrun.runtime.inputs import Inputs, collect_inputs
from irrun.runtime.options import RunSettings
from irrun.runtime.request import InferRequest

__all__ = ["Block", "Engine", "IrrunEngine", "OpenVinoEngine", "run_block", "run_each"]

#: Seconds between checks for an interrupt while threads measure.
POLL = 0.1


class Engine(Protocol):
    """A runtime with a prepared model.

    Attributes:
        read_seconds: The seconds to read the model, or None if it does not come from a file.
        compile_seconds: The seconds to compile it.
        has_state: Whether the model has variables; they are reset before each run.
    """

    read_seconds: float | None
    compile_seconds: float
    has_state: bool

    def create_requests(self, count: int) -> None:
        """Create requests in place of the existing ones."""

    def infer(self, index: int) -> float:
        """Run the request of an index, and return the seconds that it took."""


class IrrunEngine:
    """Requests of irrun.

    Args:
        model: The model.
        inputs: The inputs of all runs.
        settings: The settings for compiling and running the model.
        threads: Threads per run.
    """

    def __init__(self, model: Model, inputs: Inputs, settings: RunSettings, threads: int) -> None:
        self.read_seconds = _measure_reading(model)
        start = perf_counter()
        self.compiled: CompiledModel = settings.compile(model, threads=threads)
        self.compile_seconds = perf_counter() - start
        self._settings, self._inputs = settings, inputs
        self._timeout = settings.timeout
        self._requests: list[InferRequest] = []
        self.create_requests(1)
        self.has_state = bool(self._requests[0].query_state())

    def create_requests(self, count: int) -> None:
        """Create requests in place of the existing ones."""
        self._requests = [self.compiled.create_infer_request() for _ in range(count)]

    def compile_kernels(self) -> float:
        """Compile the model again with compiled kernels, and return the time for the kernels in seconds."""
        model, threads = self.compiled.model, self.compiled.threads
        del self._requests, self.compiled  # their memory is not needed at the same time
        self.compiled = self._settings.compile(model, threads=threads)
        start = perf_counter()
        self.compiled.finish_compilation()
        seconds = perf_counter() - start
        self.create_requests(1)
        return seconds

    def infer(self, index: int) -> float:
        """Run the request of an index, and return the seconds that it took."""
        request = self._requests[index]
        if self.has_state:
            request.reset_state()
        start = perf_counter()
        request.infer(self._inputs, timeout=self._timeout)
        return perf_counter() - start


class OpenVinoEngine:
    """Requests of OpenVINO on the CPU in f32, on the same files.

    Args:
        compiled: irrun's compiled model.
        inputs: The inputs of all runs.
        threads: Total number of threads of all requests.
        requests: The number of concurrent requests.

    Raises:
        InputError: OpenVINO is not installed.
        ExecutionError: OpenVINO does not accept the model or the inputs.
    """

    def __init__(self, compiled: CompiledModel, inputs: Inputs, threads: int, requests: int) -> None:
        self._openvino = check_is_installed()
        self.version = str(self._openvino.get_version())
        self._path = compiled.model.path
        self._arguments = collect_inputs(inputs, compiled.inputs, index_names(compiled.inputs))
        config = {
            "INFERENCE_PRECISION_HINT": "f32",
            "INFERENCE_NUM_THREADS": str(threads),
            "NUM_STREAMS": str(requests),
        }
        self._requests: list[Any] = []
        with self._report_errors(), TemporaryDirectory(prefix="irrun-") as folder:
            core = create_core(self._openvino, compiled.model)
            path = _find_file(compiled.model, Path(folder))
            start = perf_counter()
            model = core.read_model(path)
            self.read_seconds: float | None = perf_counter() - start
            start = perf_counter()
            self._compiled = core.compile_model(model, "CPU", config)
            self.compile_seconds = perf_counter() - start
            self._input_types = [
                ElementType.parse(tensor.get_element_type().get_type_name()) for tensor in self._compiled.inputs
            ]
            self.has_state = any(node.get_type_name() == "ReadValue" for node in model.get_ops())
        self.create_requests(1)

    def create_requests(self, count: int) -> None:
        """Create requests in place of the existing ones, and set their inputs."""
        with self._report_errors():
            self._requests = [self._compiled.create_infer_request() for _ in range(count)]
            for request in self._requests:
                for i, (value, declared) in enumerate(zip(self._arguments, self._input_types, strict=True)):
                    if value is not None and declared.is_float and declared.dtype != value.dtype:
                        value = value.astype(declared.dtype)  # OpenVINO reads f16 inputs of IR v10 as f32
                    request.set_input_tensor(i, make_tensor(self._openvino, np.asarray(value)))

    def infer(self, index: int) -> float:
        """Run the request of an index, and return the seconds that it took. Outputs are not copied."""
        request = self._requests[index]
        with self._report_errors():
            if self.has_state:
                request.reset_state()
            start = perf_counter()
            request.infer(None, share_outputs=True)
            return perf_counter() - start

    def _report_errors(self) -> _OpenVinoErrors:
        return _OpenVinoErrors(self._path)


class _OpenVinoErrors:
    """Context that reports the exceptions of OpenVINO as ExecutionError."""

    def __init__(self, path: Path | None) -> None:
        self._path = path

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        if isinstance(error, Exception) and not isinstance(error, IrrunError):
            lines = [line.strip() for line in str(error).splitlines() if line.strip()] or [type(error).__name__]
            raise ExecutionError(f"OpenVINO failed: {lines[-1]}", path=self._path) from None


@dataclass(frozen=True)
class Block:
    """The measurements of requests that ran one after another or concurrently.

    Attributes:
        latencies: The seconds of each run.
        seconds: The seconds from the first start to the last end.
    """

    latencies: tuple[float, ...]
    seconds: float


def run_block(
    infer: Callable[[int], float], requests: int, runs: int | None = None, seconds: float | None = None
) -> Block:
    """Run all requests concurrently, each in its own thread.

    Args:
        infer: Runs the request of an index, and returns the seconds of the run.
        requests: The number of requests.
        runs: The total number of runs of all requests; None for no limit.
        seconds: Seconds after which no run starts; None for no limit. The first run always starts.

    Returns:
        The measurements.

    Raises:
        IrrunError: A run failed.
    """
    numbers = itertools.count()
    latencies: list[float] = []
    start = perf_counter()

    def work(index: int, errors: list[BaseException]) -> None:
        while not errors:
            number = next(numbers)
            is_late = number and seconds is not None and perf_counter() - start >= seconds
            if is_late or (runs is not None and number >= runs):
                return
            latencies.append(infer(index))

    _run_threads(work, requests)
    return Block(tuple(latencies), perf_counter() - start)


def run_each(infer: Callable[[int], object], requests: int, times: int = 1) -> None:
    """Run all requests concurrently, each in its own thread, without measuring them.

    Args:
        infer: Runs the request of an index.
        requests: The number of requests.
        times: The number of runs of each request.

    Raises:
        IrrunError: A run failed.
    """

    def work(index: int, errors: list[BaseException]) -> None:
        for _ in range(times):
            if not errors:
                infer(index)

    _run_threads(work, requests)


def _run_threads(work: Callable[[int, list[BaseException]], None], count: int) -> None:
    """Call a function with its index in several threads, or in this one.

    Args:
        work: Called with the index and a list. As soon as the list contains an error, the function must return.
        count: The number of calls.

    Raises:
        BaseException: A call failed, or this thread was interrupted.
    """
    errors: list[BaseException] = []
    if count == 1:
        work(0, errors)
        return

    def run(index: int) -> None:
        try:
            work(index, errors)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=run, args=(i,), name=f"irrun-bench-{i}", daemon=True) for i in range(count)]
    for thread in threads:
        thread.start()
    try:
        for thread in threads:
            while thread.is_alive():
                thread.join(POLL)
    except BaseException as error:
        errors.append(error)
        for thread in threads:
            thread.join()
    if errors:
        raise errors[-1] if isinstance(errors[-1], KeyboardInterrupt) else errors[0]


def _measure_reading(model: Model) -> float | None:
    """Return the seconds to read the file of a model again, or None if there is no file."""
    if model.path is None:
        return None
    try:
        start = perf_counter()
        read_model(model.path, model.weights.path)
        return perf_counter() - start
    except (IrrunError, OSError):  # the file was removed, or is a pipe
        return None


def _find_file(model: Model, folder: Path) -> Path:
    """Return the .xml for OpenVINO: the model's file, or a copy if the model was changed or is too old."""
    if model.path is not None and model.source_version >= 10 and is_unchanged(model):
        return model.path
    layers = [replace(layer, name=f"L{i}") for i, layer in enumerate(model.graph.layers)]
    copy = folder / "model.xml"
    save_model(Model(replace(model.graph, layers=layers), model.weights), copy)
    return copy
