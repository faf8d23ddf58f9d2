"""The peak memory of a run, against the weights in use plus 1.5 times the values alive at once.

    pip install irrun[bench]
    python benchmarks/memory.py

Each network is read, lowered and run once, twice over, each time in a process of its own, and measured in two ways:

- "process": how far the peak of the resident memory, as the kernel keeps it (VmHWM), rises above what the process
  held before the file was read. That counts everything: arrays, mapped weights, the buffers of BLAS, the model as
  Python objects. It is what a user pays, but some 10 MB of it have nothing to do with the size of the arrays.
- "run": how far the peak of what tracemalloc sees, which are arrays and Python's objects, rises from the beginning of
  the run to its end, and the weights in use. The same on every machine.

The values alive at once are followed through another run: what an instruction reads and writes, and what later
ones still need; views of the same memory count once.
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
#: How many times the values alive at once may be held.
ALLOWANCE = 1.5


def resident(field: str) -> int:
    """Bytes of a field of /proc/self/status: VmRSS is held now, VmHWM was held at most."""
    line = next(line for line in STATUS.read_text().splitlines() if line.startswith(field))
    return int(line.split()[1]) * 1024


def measure(name: str, way: str) -> dict[str, int]:
    """Bytes: weights in the file and in use, values alive at once, and the peak in one way of measuring."""
    import irrun
    import irrun.ops._support.autoload  # kernels are not what is measured

    fed = zoo.inputs(name)
    np.ones((256, 256), np.float32) @ np.ones((256, 256), np.float32)  # BLAS takes its buffers
    path = zoo.fetch(name)
    if way == "process":
        before = resident("VmRSS")
        compiled = irrun.compile_model(path)
        compiled(fed)
        peak = resident("VmHWM") - before
    else:
        compiled = irrun.compile_model(path)
        tracemalloc.start()
        compiled(fed)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    held = {owner(v): v.nbytes for v in compiled._program.initial if v is not None}
    weights = sum(held.values())
    return {
        "stored": path.with_suffix(".bin").stat().st_size,
        "weights": weights,
        "alive": alive(compiled, fed),
        way: peak + weights * (way == "run"),
    }


def owner(array: np.ndarray) -> int:
    """Where the memory begins that an array is a view of; a mapped constant is by itself."""
    while isinstance(array.base, np.ndarray):
        array = array.base
    return int(array.__array_interface__["data"][0])


def alive(compiled: Any, fed: dict[str, np.ndarray]) -> int:
    """The most bytes that the inputs and outputs of an instruction and all that is needed later take together."""
    program = compiled._program
    instructions = {id(i.layer): i for i in program.instructions}
    constants = {owner(v) for v in program.initial if v is not None}
    values: dict[int, np.ndarray] = {
        slot: np.asarray(fed[tensor.any_name]) for slot, tensor in zip(program.parameters, compiled.inputs, strict=True)
    }
    most = 0

    def follow(layer: Any, inputs: Any, outputs: Any, seconds: float, scope: Any) -> None:
        nonlocal most
        if scope:
            return
        instruction = instructions[id(layer)]
        values.update(zip(instruction.outputs, outputs, strict=False))
        sizes: dict[int, int] = {}
        for value in values.values():
            place = owner(value)
            if place not in constants:
                sizes[place] = max(sizes.get(place, 0), value.nbytes)
        most = max(most, sum(sizes.values()))
        for slot in instruction.frees:
            values.pop(slot, None)

    compiled(fed, observers=[follow])
    return most


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
        found: dict[str, int] = {}
        for way in ("process", "run") if STATUS.exists() else ("run",):
            command = [sys.executable, __file__, name, "--child", way]
            found |= json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)
        found["allowed"] = found["weights"] + math.ceil(ALLOWANCE * found["alive"])
        results[name] = found
    if options.json:
        print(json.dumps(results, indent=1))
        return
    columns = {"stored": "in the file", "weights": "weights", "alive": "alive", "allowed": "allowed"}
    print(f"MB; allowed are the weights and {ALLOWANCE} x alive")
    print(f"{'network':<20}" + "".join(f"{title:>12}" for title in columns.values()) + "     process           run")
    for name, found in results.items():
        line = f"{name:<20}" + "".join(f"{found[key] / 1e6:>12.1f}" for key in columns)
        for way in ("process", "run"):
            peak = found.get(way)
            line += f"{peak / 1e6:>7.1f} ({peak / found['allowed']:.2f})" if peak else f"{'-':>14}"
        print(line)


if __name__ == "__main__":
    main()
