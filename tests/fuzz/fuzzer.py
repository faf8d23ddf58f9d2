"""Run mutated and random models in worker processes with limits on time and memory.

    PYTHONPATH=tests python -m fuzz.fuzzer --seed 7 --count 20000 --workers 2 --failures /tmp/failures
    PYTHONPATH=tests python -m fuzz.fuzzer --cases graphs --count 2000
    PYTHONPATH=tests IRRUN_TOKENIZERS=FOLDER python -m fuzz.fuzzer --cases tokenizers --count 5000
    PYTHONPATH=tests python -m fuzz.fuzzer --replay /tmp/failures/7-1234

The cases of a seed are always the same. A case fails if it ends in anything but a result or an `IrrunError`, prints a
warning, takes more than 10 seconds of CPU time although runs end after 5, or grows the process by more than 1 GiB although
runs may take 256 MiB. Failures are saved as folders with the model, its inputs and the outcome. Random models run with plain, specialized and
compiled kernels, and fail as well if the results differ by more than rounding explains. With `--strict`, an
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

import numpy as np

from fuzz.mutations import make_case

TESTS = Path(__file__).parents[1]
from fuzz.seeds import Seed  # noqa: E402
from fuzz.tiers import run_tiers  # noqa: E402
from fuzz.worker import run_case  # noqa: E402

__all__ = ["FAILURES", "fuzz", "replay", "save_failure"]

#: Outcomes that are defects.
FAILURES = ("traceback", "warning", "slow", "memory", "killed", "hang", "difference")
#: CPU seconds, and seconds, of a worker without a line after which it is killed.
PATIENCE, MAX_WAIT = 40.0, 900.0
#: Bytes of memory after which a worker is killed.
MAX_RESIDENT = 2 << 30
#: Cases per worker process.
BATCH = 1000


def fuzz(
    seed: int, count: int, start: int = 0, workers: int = 1, kind: str = "mutations"
) -> Iterator[tuple[int, dict[str, str]]]:
    """Run cases and yield the number and the outcome of each.

    Args:
        seed: The seed of all cases.
        count: Number of cases.
        start: Number of the first case.
        workers: Number of processes at a time.
        kind: What the cases are; see `make_case`.
    """
    results: queue.Queue[tuple[int, dict[str, str]]] = queue.Queue()
    size = min(BATCH, -(-count // workers))
    batches = [(n, min(n + size, start + count)) for n in range(start, start + count, size)]
    with ThreadPoolExecutor(workers) as pool:
        for batch in batches:
            pool.submit(_run_batch, (seed, kind), *batch, results.put)
        for _ in range(count):
            yield results.get()


def _run_batch(cases: tuple[int, str], start: int, stop: int, report) -> None:
    while start < stop:
        last, outcome = _run_worker(cases, start, stop, report)
        if outcome is not None:
            report((last, outcome))
        start = last + 1


def _run_worker(cases: tuple[int, str], start: int, stop: int, report) -> tuple[int, dict[str, str] | None]:
    """Run a worker; return the last case, and its outcome if the worker did not survive it."""
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(map(str, (TESTS, TESTS.parent))),
        "OMP_NUM_THREADS": "1",
        "OPENBLAS_NUM_THREADS": "1",
    }
    arguments = (*cases, start, stop)
    command = [sys.executable, str(Path(__file__).with_name("worker.py")), *map(str, arguments)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment)
    current, is_running, kind = start, True, "killed"
    count = 0

    def watch() -> None:
        nonlocal kind
        last = -1
        while process.poll() is None:
            if last != count:
                last, begin, begin_cpu = count, time.monotonic(), _get_cpu_time(process.pid)
            is_large = _get_resident_size(process.pid) > MAX_RESIDENT
            is_hung = _get_cpu_time(process.pid) - begin_cpu > PATIENCE or time.monotonic() - begin > MAX_WAIT
            if is_large or is_hung:
                kind = "memory" if is_large else "hang"
                process.kill()
                return
            time.sleep(0.02)

    errors: list[str] = []
    threading.Thread(target=watch, daemon=True).start()
    reader = threading.Thread(target=lambda: errors.append(process.stderr.read()), daemon=True)
    reader.start()
    for line in process.stdout:
        count += 1
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
    reader.join()
    process.stdout.close()
    process.stderr.close()
    if not is_running and code == 0:
        return stop - 1, None
    message = f"exit code {code}: {''.join(errors)[-2000:]}"
    return current, {"kind": kind, "message": message}


def _get_resident_size(pid: int) -> int:
    """Return the bytes of memory of a process; 0 if it has ended or the system does not tell."""
    try:
        return int(Path(f"/proc/{pid}/statm").read_text(encoding="ascii").split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, IndexError):
        return 0


def _get_cpu_time(pid: int) -> float:
    """Return the CPU seconds of a process; 0 if it has ended or the system does not tell."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    except (OSError, ValueError, IndexError):
        return 0.0


def save_failure(folder: Path, seed: int, number: int, outcome: dict[str, str], kind: str = "mutations") -> Path:
    """Save a case as a folder and return its path."""
    case = make_case(seed, number, kind)
    path = folder / f"{seed}-{number}"
    path.mkdir(parents=True, exist_ok=True)
    (path / "model.xml").write_bytes(case.xml)
    (path / "model.bin").write_bytes(case.weights)
    np.savez(path / "inputs.npz", *[np.asarray(x) for x in case.inputs])
    (path / "outcome.json").write_text(json.dumps({"seed": seed, "number": number, "cases": kind, **outcome}, indent=1))
    return path


def replay(path: Path) -> dict[str, str]:
    """Run a saved case in this process and return its outcome."""
    is_graph = json.loads((path / "outcome.json").read_text(encoding="utf-8"))["cases"] == "graphs"
    with np.load(path / "inputs.npz", allow_pickle=True) as archive:  # our own file; strings are objects
        inputs = [archive[f"arr_{i}"] for i in range(len(archive.files))]
    case = Seed((path / "model.xml").read_bytes(), (path / "model.bin").read_bytes(), inputs)
    return run_tiers(case) if is_graph else run_case(case)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--count", type=int, default=2000)
    parser.add_argument("--start", type=int, default=0)
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--failures", type=Path, default=Path("fuzz-failures"))
    parser.add_argument("--strict", action="store_true", help="errors that wrap other exceptions fail too")
    parser.add_argument(
        "--cases", choices=("mutations", "extremes", "graphs", "tokenizers"), default="mutations", help="what to run"
    )
    parser.add_argument("--replay", type=Path)
    options = parser.parse_args()
    if options.replay:
        print(json.dumps(replay(options.replay), indent=1))
        return 0
    counts: Counter[str] = Counter()
    failing = (*FAILURES, *(["wrapped"] if options.strict else []))
    begin = time.monotonic()
    cases = fuzz(options.seed, options.count, options.start, options.workers, options.cases)
    for number, outcome in cases:
        counts[outcome["kind"]] += 1
        if outcome["kind"] in failing:
            path = save_failure(options.failures, options.seed, number, outcome, options.cases)
            print(f"{outcome['kind']} {path}: {outcome.get('message', '').strip().splitlines()[-1][-200:]}", flush=True)
    print(f"{dict(counts)} in {time.monotonic() - begin:.0f} s")
    return int(any(counts[kind] for kind in failing))


if __name__ == "__main__":
    sys.exit(main())
