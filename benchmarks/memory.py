"""Measure the peak memory of a run, compared with the weights in use plus 1.5 times the live values.

    pip install irrun[bench]
    python benchmarks/memory.py

Each network is read, compiled and run once in each of two new processes, and measured in two ways:

- "process": the increase of the peak resident memory (VmHWM) since before the file was read. It includes arrays, mapped
  weights, the buffers of BLAS and the model as Python objects. It is the actual cost, but about 10 MB of it do not
  depend on the size of the arrays.
- "run": the increase of the peak memory that tracemalloc observes (arrays and Python objects) during the run, plus the
  weights in use. It is the same on every machine.

The live values are determined in another run: the inputs and outputs of an instruction and all values that later
instructions read. Views of the same memory count once.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import subprocess
import sys
import tracemalloc
from pathlib import Path
from typing import Any

for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(variable, "1")

import numpy as np  # noqa: E402
import zoo  # noqa: E402

STATUS = Path("/proc/self/status")
DEFAULT = ("resnet50", "mobilenet_v2", "bert_base", "unet", "swin", "whisper_encoder", "lstm", "mobilenet_v2_f16")
#: Allowed multiple of the live values.
ALLOWANCE = 1.5


def read_status(field: str) -> int:
    """Return a field of /proc/self/status in bytes: VmRSS, the resident memory, or VmHWM, its peak."""
    line = next(line for line in STATUS.read_text().splitlines() if line.startswith(field))
    return int(line.split()[1]) * 1024


def measure(name: str, method: str) -> dict[str, int]:
    """Return bytes: the weights in the file and in use, the live values, and the peak measured by one method."""
    import irrun
    import irrun.ops._support.autoload  # kernels are not part of the measurement

    inputs = zoo.load_inputs(name)
    np.ones((256, 256), np.float32) @ np.ones((256, 256), np.float32)  # BLAS allocates its buffers
    path = zoo.fetch(name)
    if method == "process":
        before = read_status("VmRSS")
        compiled = irrun.compile_model(path)
        compiled(inputs)
        peak = read_status("VmHWM") - before
    else:
        compiled = irrun.compile_model(path)
        tracemalloc.start()
        compiled(inputs)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    sizes = {get_address(v): v.nbytes for v in compiled._program.initial if v is not None}
    weights = sum(sizes.values())
    return {
        "stored": path.with_suffix(".bin").stat().st_size,
        "weights": weights,
        "live": measure_live_values(compiled, inputs),
        method: peak + weights * (method == "run"),
    }


def get_address(array: np.ndarray) -> int:
    """Return the address of the array that owns the memory of `array`; a mapped constant counts as its owner."""
    while isinstance(array.base, np.ndarray):
        array = array.base
    return int(array.__array_interface__["data"][0])


def measure_live_values(compiled: Any, inputs: dict[str, np.ndarray]) -> int:
    """Return the maximum number of bytes of values that are live at the same time."""
    program = compiled._program
    instructions = {id(i.layer): i for i in program.instructions}
    constants = {get_address(v) for v in program.initial if v is not None}
    values: dict[int, np.ndarray] = {
        slot: np.asarray(inputs[tensor.any_name])
        for slot, tensor in zip(program.parameters, compiled.inputs, strict=True)
    }
    peak = 0

    def observe(layer: Any, _: Any, outputs: Any, seconds: float, scope: Any) -> None:
        nonlocal peak
        if scope:
            return
        instruction = instructions[id(layer)]
        values.update(zip(instruction.outputs, outputs, strict=False))
        sizes: dict[int, int] = {}
        for value in values.values():
            address = get_address(value)
            if address not in constants:
                sizes[address] = max(sizes.get(address, 0), value.nbytes)
        peak = max(peak, sum(sizes.values()))
        for slot in instruction.frees:
            values.pop(slot, None)

    compiled(inputs, observers=[observe])
    return peak


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", default=DEFAULT, metavar="network")
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--child", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        print(json.dumps(measure(options.names[0], options.child)))
        return
    results = {}
    for name in options.names:
        zoo.fetch(name)
        figures: dict[str, int] = {}
        for method in ("process", "run") if STATUS.exists() else ("run",):
            command = [sys.executable, __file__, name, "--child", method]
            figures |= json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)
        figures["allowed"] = figures["weights"] + math.ceil(ALLOWANCE * figures["live"])
        results[name] = figures
    if options.json:
        print(json.dumps(results, indent=1))
        return
    columns = {"stored": "in the file", "weights": "weights", "live": "live", "allowed": "allowed"}
    print(f"MB; allowed = weights + {ALLOWANCE} x live")
    print(f"{'network':<20}" + "".join(f"{title:>12}" for title in columns.values()) + "     process           run")
    for name, figures in results.items():
        line = f"{name:<20}" + "".join(f"{figures[key] / 1e6:>12.1f}" for key in columns)
        for method in ("process", "run"):
            peak = figures.get(method)
            line += f"{peak / 1e6:>7.1f} ({peak / figures['allowed']:.2f})" if peak else f"{'-':>14}"
        print(line)


if __name__ == "__main__":
    main()
