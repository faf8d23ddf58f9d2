"""The results of a benchmark."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import numpy as np

__all__ = ["Bench", "BenchRow", "EngineBench", "KernelState", "share_threads"]


@dataclass(frozen=True)
class KernelState:
    """The kernels that the measured runs used.

    Attributes:
        jit: The option `jit`: "auto", "on" or "off".
        counts: The number of instructions by implementation: "compiled", "specialized" (NumPy) and "plain".
        compile_seconds: With "auto", the time in seconds to compile the kernels before the measured runs; ordinary runs
            compile them in the background for later models. None if they were already compiled, with other values of
            `jit`, and without llvmlite.
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
        return share_threads(self.threads, self.requests)

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


def share_threads(threads: int, requests: int) -> int:
    """Return the threads per run, if several requests share the threads.

    Args:
        threads: The number of threads.
        requests: The number of requests.
    """
    return max(threads // requests, 1)
