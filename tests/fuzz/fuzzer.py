"""Run mutated models in worker processes with limits on time and memory.

    python tests/fuzz/fuzzer.py --seed 7 --count 20000 --workers 2 --failures /tmp/failures
    python tests/fuzz/fuzzer.py --replay /tmp/failures/7-1234

The cases of a seed are always the same. A case fails if it ends in anything but a result or an `IrrunError`, prints a
warning, takes more than 10 seconds although runs end after 5, or grows the process by more than 1 GiB although runs may
take 256 MiB. Failures are saved as folders with the model, its inputs and the outcome. With `--strict`, an
ExecutionError that wraps another exception fails too.
"""

from __future__ import annotations

import argparse
import json
import os
import queue
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

TESTS = Path(__file__).parents[1]
sys.path[:0] = [str(TESTS), str(TESTS.parent)]

import numpy as np  # noqa: E402

from fuzz.mutations import make_case  # noqa: E402
from fuzz.seeds import Seed  # noqa: E402
from fuzz.worker import run_case  # noqa: E402

__all__ = ["FAILURES", "fuzz", "replay", "save_failure"]

#: Outcomes that are defects.
FAILURES = ("traceback", "warning", "slow", "memory", "killed", "hang")
#: Seconds without a line from a worker after which it is killed.
PATIENCE = 40.0
#: Cases per worker process.
BATCH = 250


def fuzz(seed: int, count: int, start: int = 0, workers: int = 1) -> Iterator[tuple[int, dict[str, str]]]:
    """Run cases and yield the number and the outcome of each.

    Args:
        seed: The seed of all cases.
        count: Number of cases.
        start: Number of the first case.
        workers: Number of processes at a time.
    """
    results: queue.Queue[tuple[int, dict[str, str]]] = queue.Queue()
    batches = [(n, min(n + BATCH, start + count)) for n in range(start, start + count, BATCH)]
    with ThreadPoolExecutor(workers) as pool:
        for batch in batches:
            pool.submit(_run_batch, seed, *batch, results.put)
        for _ in range(count):
            yield results.get()


def _run_batch(seed: int, start: int, stop: int, report) -> None:
    while start < stop:
        last, outcome = _run_worker(seed, start, stop, report)
        if outcome is not None:
            report((last, outcome))
        start = last + 1


def _run_worker(seed: int, start: int, stop: int, report) -> tuple[int, dict[str, str] | None]:
    """Run a worker; return the last case, and its outcome if the worker did not survive it."""
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(map(str, (TESTS, TESTS.parent))),
        "OMP_NUM_THREADS": "1",
        "OPENBLAS_NUM_THREADS": "1",
    }
    command = [sys.executable, str(Path(__file__).with_name("worker.py")), str(seed), str(start), str(stop)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment)
    current, is_running, is_hung = start, True, False
    last_line = [time.monotonic()]

    def watch() -> None:
        nonlocal is_hung
        while process.poll() is None:
            if time.monotonic() - last_line[0] > PATIENCE:
                is_hung = True
                process.kill()
                return
            time.sleep(0.2)

    errors: list[str] = []
    threading.Thread(target=watch, daemon=True).start()
    threading.Thread(target=lambda: errors.append(process.stderr.read()), daemon=True).start()
    for line in process.stdout:
        last_line[0] = time.monotonic()
        try:
            event = json.loads(line)
        except ValueError:
            continue
        if "start" in event:
            current, is_running = event["start"], True
        else:
            is_running = False
            report((event.pop("end"), event))
    code = process.wait()
    if not is_running and code == 0:
        return stop - 1, None
    kind = "hang" if is_hung else "killed"
    message = f"exit code {code}: {''.join(errors)[-2000:]}"
    return current, {"kind": kind, "message": message}


def save_failure(folder: Path, seed: int, number: int, outcome: dict[str, str]) -> Path:
    """Save a case as a folder and return its path."""
    case = make_case(seed, number)
    path = folder / f"{seed}-{number}"
    path.mkdir(parents=True, exist_ok=True)
    (path / "model.xml").write_bytes(case.xml)
    (path / "model.bin").write_bytes(case.weights)
    np.savez(path / "inputs.npz", *[np.asarray(x) for x in case.inputs])
    (path / "outcome.json").write_text(json.dumps({"seed": seed, "number": number, **outcome}, indent=1))
    return path


def replay(path: Path) -> dict[str, str]:
    """Run a saved case in this process and return its outcome."""
    with np.load(path / "inputs.npz", allow_pickle=True) as archive:  # our own file; strings are objects
        inputs = [archive[f"arr_{i}"] for i in range(len(archive.files))]
    return run_case(Seed((path / "model.xml").read_bytes(), (path / "model.bin").read_bytes(), inputs))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--count", type=int, default=2000)
    parser.add_argument("--start", type=int, default=0)
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--failures", type=Path, default=Path("fuzz-failures"))
    parser.add_argument("--strict", action="store_true", help="errors that wrap other exceptions fail too")
    parser.add_argument("--replay", type=Path)
    options = parser.parse_args()
    if options.replay:
        print(json.dumps(replay(options.replay), indent=1))
        return 0
    counts: Counter[str] = Counter()
    failing = (*FAILURES, *(["wrapped"] if options.strict else []))
    begin = time.monotonic()
    for number, outcome in fuzz(options.seed, options.count, options.start, options.workers):
        counts[outcome["kind"]] += 1
        if outcome["kind"] in failing:
            path = save_failure(options.failures, options.seed, number, outcome)
            print(f"{outcome['kind']} {path}: {outcome.get('message', '').strip().splitlines()[-1][-200:]}", flush=True)
    print(f"{dict(counts)} in {time.monotonic() - begin:.0f} s")
    return int(any(counts[kind] for kind in failing))


if __name__ == "__main__":
    sys.exit(main())
