"""Run large models of one operation under memory limits in processes of their own, and measure what they take.

    PYTHONPATH=tests python -m fuzz.memory --seed 7
    PYTHONPATH=tests python -m fuzz.memory --seed 7 --operations Unique,TopK

Dimensions of the conformance cases are multiplied at random until the inputs take 80 MiB. A run without a limit shows
what an operation takes; runs with a part of that as the limit may end with a result or an error, but the process may not
grow by more than the limit and `ALLOWANCE`.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import pickle
import random
import signal
import sys
import time
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

import irrun
from fuzz.seeds import Seed, make_seed
from irrun.conformance.cases import GENERATORS, load_generators
from irrun.inspection.peak_memory import RESET, read_peak

__all__ = ["Run", "measure", "survey"]

#: Bytes by which a process may grow beyond the limit: small arrays, blocks of kernels, stacks and code.
ALLOWANCE = 48 << 20
#: Bytes of the inputs, and by which a process has to grow for a measurement.
INPUT_SIZE, MIN_GROWTH = 80 << 20, 64 << 20
#: The limits, as parts of what a run without a limit takes.
PARTS = (0.3, 0.6)
#: The limit of the first run; seconds of a run, of a process, and for an operation.
UNLIMITED, TIMEOUT, PATIENCE, BUDGET = 6 << 30, 20.0, 60, 20.0
TIERS: dict[str, dict[str, Any]] = {
    "plain": {"optimize": False, "jit": False},
    "numpy": {"jit": False},
    "jit": {"jit": True},
}
#: Cases of an operation that are considered, and attempts to enlarge one of them.
CASES, ATTEMPTS = 40, 30


class Run(NamedTuple):
    """The outcome of a run.

    Attributes:
        kind: "ok", "refused", or what is wrong.
        growth: Bytes by which the process grew.
        message: The error.
    """

    kind: str
    growth: int
    message: str


def measure(seed: Seed, memory: int, tier: str, threads: int) -> Run:
    """Run a model once in a forked process.

    Args:
        seed: The model.
        memory: The limit in bytes.
        tier: A key of `TIERS`.
        threads: Number of threads.
    """
    reader, writer = os.pipe()
    process = os.fork()
    if not process:
        os.close(reader)
        signal.alarm(PATIENCE)
        with os.fdopen(writer, "wb") as file:
            pickle.dump(_run(seed, memory, tier, threads), file)
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader, "rb") as file:
        answer = file.read()
    _, status = os.waitpid(process, 0)
    return pickle.loads(answer) if answer else Run("hang or crash", 0, f"status {status}")


def _run(seed: Seed, memory: int, tier: str, threads: int) -> Run:
    before, kind, message = 0, "ok", ""
    try:
        model = irrun.read_model(seed.xml, seed.weights)
        request = irrun.compile_model(model, memory=memory, threads=threads, **TIERS[tier]).create_infer_request()
        RESET.write_text("5")
        before = read_peak()
        request.infer(list(seed.inputs), timeout=TIMEOUT)
    except irrun.IrrunError as error:
        kind, message = "refused" if before else "invalid", str(error)
    except Exception as error:  # a defect
        kind, message = "traceback", repr(error)
    return Run(kind, read_peak() - before if before else 0, message)


def enlarge(case: Any, rng: random.Random) -> tuple[list[np.ndarray], list[np.ndarray]] | None:
    """Return the inputs of a case with some dimensions doubled, and with the same dimensions multiplied until they are large.

    Args:
        case: A conformance case.
        rng: Chooses the dimensions: those of an axis, of a size, or one.
    """
    inputs = [x for x in case.inputs if x is not None]
    free = [i for i, x in enumerate(inputs) if i not in case.constants and x.ndim]
    if not free:
        return None
    chosen, kind = rng.choice(free), rng.choice(["axis", "size", "one"])
    axis = rng.randrange(inputs[chosen].ndim)
    size = inputs[chosen].shape[axis]
    axes: dict[int, list[int]] = {}
    for i in free:
        alike = [k for k, n in enumerate(inputs[i].shape) if n == size]
        axes[i] = alike if kind == "size" else [k for k in alike if k == axis] if kind == "axis" or i == chosen else []
    factor = 1
    while size and sum(inputs[i].nbytes * (2 * factor) ** len(axes[i]) for i in free) < INPUT_SIZE and factor < 1 << 24:
        factor *= 2
    if factor < 2:
        return None

    def repeat(times: int) -> list[np.ndarray]:
        return [np.tile(x, [times if k in axes.get(i, ()) else 1 for k in range(x.ndim)]) for i, x in enumerate(inputs)]

    return repeat(2), repeat(factor)


def survey(type: str, since: int, seed: int) -> Iterator[dict[str, Any]]:
    """Yield what one large model of an operation takes, or why there is none.

    Args:
        type: The operation.
        since: Its opset.
        seed: The seed of the choices.
    """
    rng = random.Random(f"{seed}/{type}/{since}")
    cases = []
    with contextlib.suppress(ImportError):  # some expect what OpenVINO computes
        for case in GENERATORS[type, since](np.random.default_rng(seed)):
            if case.build is None:
                cases.append(case)
            if len(cases) == CASES:
                break
    end = time.monotonic() + BUDGET
    for _ in range(ATTEMPTS if cases else 0):
        case = rng.choice(cases)
        inputs = enlarge(case, rng)
        if inputs is None or time.monotonic() > end:
            continue
        small, large = (make_seed(type, since, x, case.attributes, case.constants) for x in inputs)
        if measure(small, UNLIMITED, "plain", 1).kind != "ok":
            continue
        tier, threads = rng.choice(list(TIERS)), rng.choice([1, 2])
        row = {"operation": f"{type}-{since}", "tier": tier, "threads": threads, "shapes": [x.shape for x in inputs[1]]}
        whole = measure(large, UNLIMITED, tier, threads)
        if whole.kind == "ok" and tier == "jit":  # without the memory of the compiler
            whole = measure(large, UNLIMITED, tier, threads)
        if whole.kind not in ("ok", "refused"):
            yield {**row, "defect": f"{whole.kind}: {whole.message}"}
        elif whole.kind == "ok" and whole.growth >= MIN_GROWTH:
            limits = [int(part * whole.growth) for part in PARTS]
            excess = max(measure(large, limit, tier, threads).growth - limit for limit in limits)
            row |= {"growth": whole.growth >> 20, "excess": excess >> 20}
            yield {**row, "defect": "exceeds the limit"} if excess > ALLOWANCE else row
            return
    yield {"operation": f"{type}-{since}", "skipped": "no large case"}


def main() -> int:
    """Print a line for each operation, and return 1 if one is a defect."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--operations", default="", help="types, separated by commas")
    arguments = parser.parse_args()
    load_generators()
    chosen = set(filter(None, arguments.operations.split(",")))
    defects = measured = 0
    for type, since in sorted(GENERATORS):
        if not chosen or type in chosen:
            for row in survey(type, since, arguments.seed):
                defects += "defect" in row
                measured += "excess" in row
                print(", ".join(f"{name} {value}" for name, value in row.items()), flush=True)
    print(f"{measured} operations measured, {defects} defects")
    return int(defects > 0)


if __name__ == "__main__":
    sys.exit(main())
