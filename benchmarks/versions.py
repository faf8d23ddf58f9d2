"""Compare the speed of two checkouts of irrun, side by side.

    git worktree add ../irrun-before v1.0
    python benchmarks/versions.py ../irrun-before                              # all groups, NumPy, one thread
    python benchmarks/versions.py ../irrun-before --jit on --threads 2 exported
    python benchmarks/versions.py ../irrun-before start --jit on               # new processes until the first result

Each checkout runs in a process of its own, with the Python environment of this script. The processes take turns, run by
run, so that the load of the machine affects both alike. A ratio is the minimum time of this checkout divided by that of
the other. Of stateful decoders, the same run is repeated with a growing state, and the median is compared.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import geometric_mean, median
from typing import Any

ROOT = Path(__file__).resolve().parents[1]

#: The program of the worker processes, which also old versions of irrun can run. Requests and responses are lines.
WORKER = """
import json, os, sys, time
start = time.perf_counter()
import numpy as np, irrun
clock = time.process_time if os.environ["CLOCK"] == "processor" else time.perf_counter
for line in sys.stdin:
    task = json.loads(line)
    if "model" in task:
        with np.load(task["inputs"]) as arrays:
            names = arrays.files
            inputs = [arrays[name] for name in names]
        if not names[0].startswith("arr_"):
            inputs = dict(zip(names, inputs))
        options = {"threads": task["threads"], "jit": task["jit"] == "on"}
        request = irrun.compile_model(task["model"], **options).create_infer_request()
        request.infer(inputs)
        print(time.perf_counter() - start, flush=True)
        continue
    begin = clock()
    request.infer(inputs)
    print(clock() - begin, flush=True)
"""


class Worker:
    """A process that runs models on one checkout.

    Args:
        checkout: The folder that contains the package `irrun`.
        clock: "wall" or "processor".
    """

    def __init__(self, checkout: Path, clock: str, threads: int) -> None:
        counts = {f"{name}_NUM_THREADS": str(threads) for name in ("OMP", "OPENBLAS", "MKL")}
        # Kernels of one version are of no use to another, and old versions do not know their own.
        cache = Path(tempfile.gettempdir(), f"irrun-kernels-{checkout.name}")
        environment = {**os.environ, **counts, "PYTHONPATH": str(checkout), "CLOCK": clock}
        environment.setdefault("IRRUN_CACHE_DIR", str(cache))
        self.threads = threads
        self.process = subprocess.Popen(
            [sys.executable, "-c", WORKER],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=environment,
            cwd=checkout,
        )

    def _ask(self, **task: Any) -> float:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(json.dumps(task) + "\n")
        self.process.stdin.flush()
        answer = self.process.stdout.readline()
        if not answer:
            raise RuntimeError("a worker ended; its error is above")
        return float(answer)

    def load(self, model: Path, inputs: Path, jit: str) -> float:
        """Compile a model and run it once; return the seconds since the start of the process."""
        return self._ask(model=str(model), inputs=str(inputs), jit=jit, threads=self.threads)

    def run(self) -> float:
        """Run the model; return the seconds."""
        return self._ask()

    def close(self) -> None:
        self.process.communicate()


Case = tuple[str, Path, Path]


def yield_networks(folder: Path, group: str) -> Iterator[Case]:
    """Yield the networks of a group of `speed.py`."""
    import numpy as np
    import speed

    for name in speed.GROUPS[group]():
        inputs = folder / "inputs.npz"
        values = speed.load_inputs(name)
        if isinstance(next(iter(values)), int):
            np.savez(inputs, *values.values())
        else:
            np.savez(inputs, **values)
        yield (Path(name).parent.name if name.endswith(".xml") else name), speed.locate(name), inputs


def yield_sequences(folder: Path) -> Iterator[Case]:
    """Yield loops and recurrent sequences."""
    import numpy as np
    import openvino as ov
    from sequence_models import CASES

    for name, case in CASES.items():
        ov.save_model(case.build(), folder / "model.xml", compress_to_fp16=False)
        np.savez(folder / "inputs.npz", *case.make_inputs())
        yield name, folder / "model.xml", folder / "inputs.npz"


def yield_instructions(folder: Path) -> Iterator[Case]:
    """Yield models of 200 equal small layers."""
    import instructions
    import numpy as np
    import openvino as ov

    for name, case in instructions.CASES.items():
        ov.serialize(instructions.build_model(case, 200), folder / "model.xml")
        np.savez(folder / "inputs.npz", instructions.X if case.value is None else case.value)
        yield name, folder / "model.xml", folder / "inputs.npz"


def yield_decoders(folder: Path) -> Iterator[Case]:
    """Yield decoders of 0.5 B parameters, which generate a token in each run."""
    import decoders
    import numpy as np

    values = {"input_ids": np.array([[7]]), "position_ids": np.array([[0]]), "beam_idx": np.zeros(1, np.int32)}
    np.savez(folder / "inputs.npz", **values)
    for weights in ("int8", "int4"):
        decoders.save_decoder(folder / "model.xml", weights)
        yield f"decoder, {weights}", folder / "model.xml", folder / "inputs.npz"


GROUPS: dict[str, Callable[[Path], Iterator[Case]]] = {
    "exported": lambda folder: yield_networks(folder, "exported"),
    "public": lambda folder: yield_networks(folder, "public"),
    "sequences": yield_sequences,
    "instructions": yield_instructions,
    "decoders": yield_decoders,
    "start": lambda folder: yield_networks(folder, "exported"),
}


def measure(group: str, case: Case, checkouts: list[Path], options: argparse.Namespace) -> list[float]:
    """Return the seconds of each checkout."""
    _, model, inputs = case
    if group == "start":
        starts: list[list[float]] = [[], []]
        for _ in range(options.repeats + 1):
            for times, checkout in zip(starts, checkouts, strict=True):
                worker = Worker(checkout, options.clock, options.threads)
                times.append(worker.load(model, inputs, options.jit))
                worker.close()
        return [min(times[1:]) for times in starts]
    workers = [Worker(checkout, options.clock, options.threads) for checkout in checkouts]
    for worker in workers:
        worker.load(model, inputs, options.jit)
        worker.run()
    times = [[], []]
    end = time.perf_counter() + options.seconds
    while len(times[0]) < options.repeats or time.perf_counter() < end:
        for values, worker in zip(times, workers, strict=True):
            values.append(worker.run())
    for worker in workers:
        worker.close()
    return [(median if group == "decoders" else min)(values) for values in times]


def main() -> None:
    """Print a table of all cases and the geometric mean of each group."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("other", type=Path, help="another checkout of irrun")
    parser.add_argument("groups", nargs="*", default=list(GROUPS), metavar="group", help=", ".join(GROUPS))
    parser.add_argument("--threads", type=int, default=1, help="number of threads (default: 1)")
    parser.add_argument("--jit", choices=["on", "off"], default="off", help="compiled kernels (default: off)")
    parser.add_argument("--clock", choices=["wall", "processor"], default="wall", help="what is measured")
    parser.add_argument("--repeats", type=int, default=8, help="smallest number of runs (default: 8)")
    parser.add_argument("--seconds", type=float, default=1.0, help="smallest duration of a case (default: 1)")
    parser.add_argument("--json", action="store_true", help="print JSON")
    options = parser.parse_args()
    if unknown := set(options.groups) - set(GROUPS):
        parser.error(f"unknown groups: {', '.join(sorted(unknown))}; known are {', '.join(GROUPS)}")
    checkouts = [ROOT, options.other.resolve()]
    rows: dict[str, dict[str, float]] = {}
    for group in options.groups:
        ratios = []
        with tempfile.TemporaryDirectory() as folder:
            for case in GROUPS[group](Path(folder)):
                ours, other = measure(group, case, checkouts, options)
                ratios.append(ours / other)
                rows[f"{group}: {case[0]}"] = {"this": ours, "other": other, "ratio": ratios[-1]}
                if not options.json:
                    print(f"{case[0]:44} {ours * 1e3:10.3f} ms {other * 1e3:10.3f} ms {ratios[-1]:6.2f}", flush=True)
        if not options.json:
            print(f"{group + ', geometric mean':44} {'':13} {'':13} {geometric_mean(ratios):6.2f}\n", flush=True)
    if options.json:
        print(json.dumps(rows, indent=1))


if __name__ == "__main__":
    main()
