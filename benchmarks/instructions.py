"""Measure the time of single instructions on small tensors, in comparison with OpenVINO's CPU plugin.

    python benchmarks/instructions.py [--only Softmax Gather]

Each model has 200 equal layers, by default on f32[4,64]. Where the output can be the next input, the layers are a
chain. Otherwise all of them consume the Parameter, and OpenVINO, which would spend most of the time on its outputs, is
not measured. The figures are microseconds per instruction, the minimum of many runs: `plain` runs the definitions of
`irrun.ops`, `fast` is the default. Targets: 1.5 us for elementwise operations and data movement, 4 us for Softmax and
MVN.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("IRRUN_JIT", "off")

import numpy as np
import openvino as ov
from openvino import opset13 as ops

import irrun

X = np.linspace(0.5, 2, 256, dtype=np.float32).reshape(4, 64)
INTEGERS = np.arange(1, 257, dtype=np.int32).reshape(4, 64)
SCALAR = np.ones((1, 1), np.float32)
ROW = np.ones((1, 64), np.float32)


@dataclass
class Case:
    """A layer to repeat.

    Attributes:
        build: Creates the layer from its input.
        is_chain: Whether its output can be the next input; OpenVINO must not remove or merge such layers.
        value: The value of the Parameter.
        target: Microseconds.
        has_openvino: Whether OpenVINO's time for the chain is meaningful.
    """

    build: Callable[[Any], Any]
    is_chain: bool = True
    value: np.ndarray = None  # type: ignore[assignment]
    target: float = 1.5
    has_openvino: bool = True


def constant(*values: int) -> Any:
    """Return a Constant of i64 with one dimension."""
    return ops.constant(np.array(values, np.int64))


def make_mvn(x: Any) -> Any:
    return ops.mvn(x, constant(-1), True, 1e-6, "inside_sqrt")


def make_topk(x: Any) -> Any:
    return ops.topk(x, ops.constant(np.int64(5)), -1, "max", "value", "i32")


WEIGHTS = np.eye(64, dtype=np.float32)
SCATTERED = np.random.default_rng(0).permutation(64)

CASES: dict[str, Case] = {
    "Add, constant row": Case(lambda x: ops.add(x, ops.constant(ROW))),
    "Add, constant scalar": Case(lambda x: ops.add(x, ops.constant(SCALAR))),
    "Add, two variables": Case(lambda x: ops.add(x, x)),
    "Multiply, constant scalar": Case(lambda x: ops.multiply(x, ops.constant(SCALAR * 1.001))),
    "Multiply, constant row": Case(lambda x: ops.multiply(x, ops.constant(ROW * 1.001))),
    "Divide, constant scalar": Case(lambda x: ops.divide(x, ops.constant(SCALAR * 1.001))),
    "Divide, two variables": Case(lambda x: ops.divide(x, x)),
    "Sigmoid": Case(ops.sigmoid),
    "Tanh": Case(ops.tanh),
    "Clamp": Case(lambda x: ops.clamp(x, 0.0, 6.0)),
    "ReLU": Case(ops.relu),
    "MatMul, constant weights": Case(lambda x: ops.matmul(x, ops.constant(WEIGHTS), False, True), target=4),
    "StridedSlice": Case(
        lambda x: ops.strided_slice(x, constant(0, 0), constant(4, 32), constant(1, 1), [1, 0], [1, 0]), False
    ),
    "Slice": Case(lambda x: ops.slice(x, constant(1), constant(33), constant(1), constant(-1)), False),
    "Pad": Case(lambda x: ops.pad(x, constant(0, 1), constant(0, 2), "constant"), False),
    "Swish": Case(ops.swish),
    "Softmax": Case(lambda x: ops.softmax(x, -1), target=4),
    "LogSoftmax": Case(lambda x: ops.log_softmax(x, -1), target=4),
    "Gather, constant axis": Case(
        lambda x: ops.gather(x, x, ops.constant(np.int64(0))), value=np.arange(256, dtype=np.int32)[::-1].copy()
    ),
    "Gather, constant indices": Case(lambda x: ops.gather(x, ops.constant(SCATTERED), ops.constant(np.int64(1)))),
    "Gather, constant index": Case(
        lambda x: ops.gather(x, ops.constant(np.int64(3)), ops.constant(np.int64(1))), False
    ),
    "MVN": Case(make_mvn, target=4),
    "Gelu": Case(lambda x: ops.gelu(x, "erf")),
    "TopK": Case(make_topk, False),
    "Reshape": Case(lambda x: ops.reshape(x, constant(-1, 4), False), False),
    "Reshape, special zero": Case(lambda x: ops.reshape(x, constant(0, 8, -1), True), False),
    "Transpose": Case(lambda x: ops.transpose(x, constant(1, 0)), False),
    "Concat": Case(lambda x: ops.concat([x, x], 1), False),
    "Split": Case(lambda x: ops.split(x, ops.constant(np.int64(1)), 2), False),
    "VariadicSplit": Case(lambda x: ops.variadic_split(x, ops.constant(np.int64(1)), constant(10, -1)), False),
    "Squeeze": Case(lambda x: ops.squeeze(x, constant(0)), False, value=X[None]),
    "Unsqueeze": Case(lambda x: ops.unsqueeze(x, constant(0)), False),
    "ReduceSum": Case(lambda x: ops.reduce_sum(x, constant(1), True), False),
    "ReduceMean": Case(lambda x: ops.reduce_mean(x, constant(1), True), False),
    "ReduceMax": Case(lambda x: ops.reduce_max(x, constant(1), True), False),
    "Equal": Case(lambda x: ops.equal(x, ops.constant(SCALAR)), False),
    "Less": Case(lambda x: ops.less(x, x), False),
    "Select": Case(lambda x: ops.select(ops.constant(X > 1), x, ops.constant(SCALAR)), False),
    "Convert, i32 to f32": Case(lambda x: ops.convert(x, "f32"), False, value=INTEGERS),
    "Convert, f32 to i32": Case(lambda x: ops.convert(x, "i32"), False),
    "Broadcast": Case(lambda x: ops.broadcast(x, constant(2, 4, 64)), False),
    "ShapeOf": Case(ops.shape_of, False),
    "Power, 2": Case(lambda x: ops.power(x, ops.constant(SCALAR * 2))),
    "Power, 0.5": Case(lambda x: ops.power(x, ops.constant(SCALAR / 2))),
    "Sqrt": Case(ops.sqrt),
    "Exp": Case(ops.exp),
    "Floor": Case(ops.floor, has_openvino=False),
    "FloorMod, i32": Case(lambda x: ops.floor_mod(x, ops.constant(np.int32(300))), value=INTEGERS),
    "Divide, i32": Case(lambda x: ops.divide(x, ops.constant(np.int32(3))), value=INTEGERS),
    "Add, i32": Case(lambda x: ops.add(x, ops.constant(np.int32(3))), value=INTEGERS),
}


def build_model(case: Case, count: int) -> ov.Model:
    """Return a model of `count` layers."""
    value = X if case.value is None else case.value
    shape = [-1] * value.ndim if case.is_chain is False else list(value.shape)  # static shapes would be folded
    parameter = ops.parameter(shape, value.dtype)
    if case.is_chain:
        node = parameter
        for _ in range(count):
            node = case.build(node)
        return ov.Model([ops.result(node)], [parameter])
    outputs = [output for _ in range(count) for output in case.build(parameter).outputs()]
    return ov.Model([ops.result(output) for output in outputs], [parameter])


def find_minimum(function: Callable[[], object], seconds: float) -> float:
    """Return the minimum time of a call, in seconds."""
    best, end = float("inf"), time.perf_counter() + seconds
    while time.perf_counter() < end:
        start = time.perf_counter()
        function()
        best = min(best, time.perf_counter() - start)
    return best


def count_instructions(compiled: irrun.CompiledModel) -> int:
    return len(compiled._program.instructions)


def measure_irrun(path: Path, value: np.ndarray, seconds: float, optimize: bool) -> float:
    """Return microseconds per instruction, including the executor's loop."""
    compiled = irrun.compile_model(path, optimize=optimize)
    request = compiled.create_infer_request()
    request.infer(value)
    executor = request._get_executor(compiled._fast_program)
    with np.errstate(all="ignore"):
        best = find_minimum(lambda: executor.run([value]), seconds)
    return best / count_instructions(compiled) * 1e6


def measure_openvino(path: Path, value: np.ndarray, seconds: float, count: int) -> float:
    """Return microseconds per layer of the CPU plugin in f32 on one thread."""
    config = {"INFERENCE_PRECISION_HINT": "f32", "INFERENCE_NUM_THREADS": 1, "NUM_STREAMS": 1}
    request = ov.Core().compile_model(path, "CPU", config).create_infer_request()
    request.set_input_tensor(ov.Tensor(value))
    return find_minimum(request.infer, seconds) / count * 1e6


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", nargs="*", default=(), help="substrings of the names to measure")
    parser.add_argument("--layers", type=int, default=200, help="layers per model (default: 200)")
    parser.add_argument("--seconds", type=float, default=0.3, help="time per measurement (default: 0.3)")
    parser.add_argument("--json", action="store_true", help="print JSON")
    options = parser.parse_args()
    figures: dict[str, dict[str, float]] = {}
    if not options.json:
        print(f"{'':<28}{'plain':>8}{'fast':>8}{'OpenVINO':>10}{'target':>8}")
    for name, case in CASES.items():
        if options.only and not any(part in name for part in options.only):
            continue
        value = X if case.value is None else case.value
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "model.xml"
            ov.serialize(build_model(case, options.layers), path)
            plain, fast = (measure_irrun(path, value, options.seconds, optimize) for optimize in (False, True))
            figures[name] = {"plain": plain, "fast": fast, "target": case.target}
            if case.is_chain and case.has_openvino:
                figures[name]["OpenVINO"] = measure_openvino(path, value, options.seconds, options.layers)
        if options.json:
            continue
        other = f"{figures[name]['OpenVINO']:.2f}" if "OpenVINO" in figures[name] else ""
        verdict = "" if fast <= case.target else " missed"
        print(f"{name:<28}{plain:>8.2f}{fast:>8.2f}{other:>10}{case.target:>8.1f}{verdict}", flush=True)
    if options.json:
        print(json.dumps(figures, indent=1))


if __name__ == "__main__":
    main()
