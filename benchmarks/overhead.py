"""What irrun costs besides its kernels: starting, reading, lowering, and the executor's loop.

    python benchmarks/overhead.py

Targets: `irrun --help` in 0.3 s of CPU time, a layer read and lowered in 60 us, an instruction run in 3 us.
All figures are CPU time, the least of a few repetitions.
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
from irrun.ir.model import Edge, Graph, Layer, Model, Port
from irrun.ir.weights import Weights
from irrun.shapes import PartialShape

#: What is measured -> its target, its unit.
TARGETS: dict[str, tuple[float | None, str]] = {
    "irrun --help": (0.3, "s"),
    "reading": (None, "us a layer"),
    "lowering": (None, "us a layer"),
    "reading and lowering": (60, "us a layer"),
    "executor, as a model runs": (3, "us an instruction"),
}


class Builder:
    """A chain of layers of f32[1,4,2,2] or i64, with what each needs besides the value."""

    def __init__(self) -> None:
        self.graph = Graph(name="generated")
        self.source = self.add("Parameter", np.zeros((1, 4, 2, 2), np.float32), element_type="f32", shape="1,4,2,2")

    def add(self, kind: str, like: np.ndarray | None, *sources: Layer, version: str = "opset1", **data: str) -> Layer:
        """A layer that reads `sources` and gives what looks like `like`."""
        inputs = [Port(i, s.outputs[0].element_type, s.outputs[0].shape) for i, s in enumerate(sources)]
        outputs = [] if like is None else [self.port(len(inputs), like)]
        layer = Layer(
            len(self.graph.layers), f"{kind}_{len(self.graph.layers)}", kind, version, dict(data), inputs, outputs
        )
        self.graph.layers.append(layer)
        for port, source in enumerate(sources):
            self.graph.edges.append(Edge(source.id, source.outputs[0].id, layer.id, port))
        return layer

    @staticmethod
    def port(number: int, like: np.ndarray) -> Port:
        return Port(number, ElementType.of(like.dtype), PartialShape(like.shape))

    def then(self, kind: str, like: np.ndarray, *constants: np.ndarray, **data: str) -> None:
        """The next layer of the chain, after the constants it reads."""
        others = [self.add("Constant", value) for value in constants]
        for layer, value in zip(others, constants, strict=True):
            layer.constant = Constant.from_array(value, ElementType.of(value.dtype))
        self.source = self.add(kind, like, self.source, *others, **data)

    def save(self, folder: Path) -> Path:
        self.add("Result", None, self.source)
        return irrun.save_model(Model(self.graph, Weights()), folder / "model.xml")[0]


def mixed(count: int) -> Builder:
    """About `count` layers, constants among them: convolutions, additions, reshapes."""
    x, flat = np.zeros((1, 4, 2, 2), np.float32), np.zeros((1, 16), np.float32)
    builder = Builder()
    while len(builder.graph.layers) < count:
        builder.then(
            "Convolution",
            x,
            np.eye(4, dtype=np.float32).reshape(4, 4, 1, 1),
            strides="1, 1",
            dilations="1, 1",
            pads_begin="0, 0",
            pads_end="0, 0",
            auto_pad="explicit",
        )
        builder.then("Add", x, np.zeros((1, 4, 1, 1), np.float32), auto_broadcast="numpy")
        builder.then("ReLU", x)
        builder.then("Reshape", flat, np.array([0, -1]), special_zero="true")
        builder.then("Clamp", flat, min="-1", max="6")
        builder.then("Reshape", x, np.array([1, 4, 2, 2]), special_zero="true")
        builder.then("Transpose", x, np.array([0, 1, 3, 2]))
    return builder


def chain(count: int) -> Builder:
    """`count` instructions that do next to nothing."""
    builder = Builder()
    for _ in range(count):
        builder.then("ReLU", np.zeros((1, 4, 2, 2), np.float32))
    return builder


def least(function: Callable[[], object], repeats: int) -> float:
    """The least CPU seconds that a call takes."""
    best = np.inf
    for _ in range(repeats):
        gc.collect()
        began = time.process_time()
        function()
        best = min(best, time.process_time() - began)
    return float(best)


def start(repeats: int) -> float:
    """CPU seconds of `irrun --help`, in a process of its own."""
    best = np.inf
    for _ in range(repeats):
        before = os.times()
        subprocess.run([sys.executable, "-m", "irrun", "--help"], check=True, stdout=subprocess.DEVNULL)
        after = os.times()
        best = min(best, after.children_user + after.children_system - before.children_user - before.children_system)
    return float(best)


def executor(folder: Path, count: int, repeats: int) -> float:
    """Microseconds for each instruction of a chain, without what its kernel takes when nothing else is done."""
    compiled = irrun.compile_model(chain(count).save(folder))
    value = np.ones((1, 4, 2, 2), np.float32)
    request = compiled.create_infer_request()
    whole = least(lambda: request.infer(value), repeats)
    kernels = [instruction.kernel for instruction in compiled._program.instructions]

    def alone() -> None:
        for kernel in kernels:
            kernel(value)

    with np.errstate(all="ignore"):
        own = least(alone, repeats)
    return (whole - own) / count * 1e6


@contextmanager
def folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory() as name:
        yield Path(name)


def measure(count: int, repeats: int) -> dict[str, float]:
    """Each figure by its name in TARGETS."""
    found = {"irrun --help": start(repeats)}
    with folder() as place:
        builder = mixed(count)
        path = builder.save(place)
        layers = len(builder.graph.layers)
        model = irrun.read_model(path)
        irrun.compile_model(model)  # registers kernels
        found["reading"] = least(lambda: irrun.read_model(path), repeats) / layers * 1e6
        found["lowering"] = least(lambda: irrun.compile_model(model), repeats) / layers * 1e6
        found["reading and lowering"] = found["reading"] + found["lowering"]
    with folder() as place:
        found["executor, as a model runs"] = executor(place, count, repeats)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--layers", type=int, default=20_000, help="of the generated files (default: 20000)")
    parser.add_argument("--repeats", type=int, default=5, help="of each measurement (default: 5)")
    parser.add_argument("--json", action="store_true", help="print JSON")
    options = parser.parse_args()
    found = measure(options.layers, options.repeats)
    if options.json:
        print(json.dumps(found, indent=1))
        return
    for name, value in found.items():
        target, unit = TARGETS[name]
        verdict = "" if target is None else f"  target {target:g}: {'met' if value <= target else 'MISSED'}"
        print(f"{name:<28}{value:>8.2f} {unit:<20}{verdict}")


if __name__ == "__main__":
    main()
