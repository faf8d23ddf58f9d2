"""Measure the overhead of irrun besides its kernels: start-up, reading, lowering, and the executor's loop.

    python benchmarks/overhead.py

Targets: `irrun --help` in 0.3 s of CPU time, a layer read and lowered in 60 us, an instruction run in 3 us. Of these
the budget of memory takes at most 0.3 us, a few thousandths of the time of an instruction in a network.
All figures are CPU times, the minimum of several repetitions.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np

import irrun
from irrun.element_types import ElementType
from irrun.ir.constant import Constant
from irrun.ir.graph import Edge, Graph, Layer, Port
from irrun.ir.model import Model
from irrun.ir.weights import Weights
from irrun.shapes import PartialShape

#: Measurement -> target (None for no target), unit.
TARGETS: dict[str, tuple[float | None, str]] = {
    "irrun --help": (0.3, "s"),
    "reading": (None, "us per layer"),
    "lowering": (None, "us per layer"),
    "reading and lowering": (60, "us per layer"),
    "executor": (3, "us per instruction"),
    "budget": (0.3, "us per instruction"),
}


class Builder:
    """Builds a chain of layers on f32[1,4,2,2], each with its constants."""

    def __init__(self) -> None:
        self.graph = Graph(name="generated")
        self.source = self.add("Parameter", np.zeros((1, 4, 2, 2), np.float32), element_type="f32", shape="1,4,2,2")

    def add(
        self, kind: str, example: np.ndarray | None, *sources: Layer, version: str = "opset1", **data: str
    ) -> Layer:
        """Add a layer with the inputs `sources`; its output has the type and shape of `example`."""
        inputs = [Port(i, s.outputs[0].element_type, s.outputs[0].shape) for i, s in enumerate(sources)]
        outputs = [] if example is None else [self.make_port(len(inputs), example)]
        layer = Layer(
            len(self.graph.layers), f"{kind}_{len(self.graph.layers)}", kind, version, dict(data), inputs, outputs
        )
        self.graph.layers.append(layer)
        for port, source in enumerate(sources):
            self.graph.edges.append(Edge(source.id, source.outputs[0].id, layer.id, port))
        return layer

    @staticmethod
    def make_port(number: int, example: np.ndarray) -> Port:
        return Port(number, ElementType.of(example.dtype), PartialShape(example.shape))

    def append(self, kind: str, example: np.ndarray, *constants: np.ndarray, **data: str) -> None:
        """Add the next layer of the chain and its constants."""
        others = [self.add("Constant", value) for value in constants]
        for layer, value in zip(others, constants, strict=True):
            layer.constant = Constant.from_array(value, ElementType.of(value.dtype))
        self.source = self.add(kind, example, self.source, *others, **data)

    def save(self, folder: Path) -> Path:
        self.add("Result", None, self.source)
        return irrun.save_model(Model(self.graph, Weights()), folder / "model.xml")[0]


def build_mixed(count: int) -> Builder:
    """Build a model of about `count` layers, including constants: convolutions, additions, reshapes."""
    x, flat = np.zeros((1, 4, 2, 2), np.float32), np.zeros((1, 16), np.float32)
    builder = Builder()
    while len(builder.graph.layers) < count:
        builder.append(
            "Convolution",
            x,
            np.eye(4, dtype=np.float32).reshape(4, 4, 1, 1),
            strides="1, 1",
            dilations="1, 1",
            pads_begin="0, 0",
            pads_end="0, 0",
            auto_pad="explicit",
        )
        builder.append("Add", x, np.zeros((1, 4, 1, 1), np.float32), auto_broadcast="numpy")
        builder.append("ReLU", x)
        builder.append("Reshape", flat, np.array([0, -1]), special_zero="true")
        builder.append("Clamp", flat, min="-1", max="6")
        builder.append("Reshape", x, np.array([1, 4, 2, 2]), special_zero="true")
        builder.append("Transpose", x, np.array([0, 1, 3, 2]))
    return builder


def build_chain(count: int) -> Builder:
    """Build a model of `count` cheap instructions."""
    builder = Builder()
    for _ in range(count):
        builder.append("ReLU", np.zeros((1, 4, 2, 2), np.float32))
    return builder


def measure_cpu(function: Callable[[], object], repeats: int) -> float:
    """Return the minimum CPU time of a call in seconds."""
    best = np.inf
    for _ in range(repeats):
        gc.collect()
        start = time.process_time()
        function()
        best = min(best, time.process_time() - start)
    return float(best)


def measure_help(repeats: int) -> float:
    """Return the CPU time of `irrun --help` in a new process, in seconds."""
    best = np.inf
    for _ in range(repeats):
        before = os.times()
        subprocess.run([sys.executable, "-m", "irrun", "--help"], check=True, stdout=subprocess.DEVNULL)
        after = os.times()
        best = min(best, after.children_user + after.children_system - before.children_user - before.children_system)
    return float(best)


def measure_executor(folder: Path, count: int, repeats: int) -> float:
    """Return the microseconds per instruction of a chain, without the time of its kernels."""
    compiled = irrun.compile_model(build_chain(count).save(folder))
    value = np.ones((1, 4, 2, 2), np.float32)
    request = compiled.create_infer_request()
    total_time = measure_cpu(lambda: request.infer(value), repeats)
    kernels = [instruction.kernel for instruction in compiled._fast_program.instructions]

    def run_kernels() -> None:
        for kernel in kernels:
            kernel(value)

    with np.errstate(all="ignore"):
        kernel_time = measure_cpu(run_kernels, repeats)
    return (total_time - kernel_time) / count * 1e6


def measure_budget(folder: Path, count: int, repeats: int) -> float:
    """Return the microseconds per instruction that the budget of memory takes: checks, counts and guards.

    The loop of the executor is compared with the same loop without them, alternately.
    """
    compiled = irrun.compile_model(build_chain(count).save(folder))
    value = np.ones((1, 4, 2, 2), np.float32)
    request = compiled.create_infer_request()
    request.infer(value)
    executor = request._get_executor(compiled._fast_program)
    steps, ndarray = executor._variant_steps, np.ndarray

    def run_without_budget() -> None:
        values = executor._program.initial.copy()
        for slot in executor._parameters:
            values[slot] = value
        for kernel, get_inputs, outputs, frees, *_ in steps:
            result = kernel(*get_inputs(values))
            if type(result) is ndarray and len(outputs) == 1:
                values[outputs[0]] = result
            for slot in frees:
                values[slot] = None

    runs = (lambda: executor.run([value]), run_without_budget)
    with np.errstate(all="ignore"):
        seconds = np.min([[measure_cpu(run, 1) for run in runs] for _ in range(4 * repeats)], axis=0)
    return float(seconds[0] - seconds[1]) / count * 1e6


@contextmanager
def make_folder() -> Iterator[Path]:
    """Create a temporary folder for a `with` block."""
    with tempfile.TemporaryDirectory() as name:
        yield Path(name)


def measure(count: int, repeats: int) -> dict[str, float]:
    """Return the figures by their names in TARGETS."""
    figures = {"irrun --help": measure_help(repeats)}
    with make_folder() as folder:
        builder = build_mixed(count)
        path = builder.save(folder)
        layers = len(builder.graph.layers)
        model = irrun.read_model(path)
        irrun.compile_model(model)  # imports the kernels
        figures["reading"] = measure_cpu(lambda: irrun.read_model(path), repeats) / layers * 1e6
        figures["lowering"] = measure_cpu(lambda: irrun.compile_model(model), repeats) / layers * 1e6
        figures["reading and lowering"] = figures["reading"] + figures["lowering"]
    with make_folder() as folder:
        figures["executor"] = measure_executor(folder, count, repeats)
        figures["budget"] = measure_budget(folder, count, repeats)
    return figures


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--layers", type=int, default=20_000, help="number of layers of the generated model (default: 20000)"
    )
    parser.add_argument("--repeats", type=int, default=5, help="repetitions of each measurement (default: 5)")
    parser.add_argument("--json", action="store_true", help="print JSON")
    options = parser.parse_args()
    figures = measure(options.layers, options.repeats)
    if options.json:
        print(json.dumps(figures, indent=1))
        return
    for name, value in figures.items():
        target, unit = TARGETS[name]
        verdict = "" if target is None else f"  target {target:g}: {'met' if value <= target else 'MISSED'}"
        print(f"{name:<28}{value:>8.2f} {unit:<20}{verdict}")


if __name__ == "__main__":
    main()
