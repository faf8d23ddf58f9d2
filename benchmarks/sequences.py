"""Run times of loops, recurrent sequences and GatherTree, side by side with OpenVINO's CPU plugin.

    pip install irrun[test]
    python benchmarks/sequences.py                      # one thread
    python benchmarks/sequences.py --threads 2
    python benchmarks/sequences.py --threads 2 --busy   # while another process keeps a core busy
    python benchmarks/sequences.py --threads 2 --alone  # irrun alone, with one and two threads in turns
    python benchmarks/sequences.py --growth             # time against iterations, lengths and batch sizes
    python benchmarks/sequences.py --processor-time     # on a machine that does other work, with one thread
    IRRUN_JIT=off python benchmarks/sequences.py        # kernels on NumPy; by default they are compiled

Both run the same files on the same inputs, in turns, in one process, with the same number of threads. Runs in different
processes are not comparable on machines whose speed varies.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import contextmanager
from pathlib import Path
from statistics import geometric_mean

THREADS = next((sys.argv[i + 1] for i, word in enumerate(sys.argv[:-1]) if word == "--threads"), "1")
for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[variable] = THREADS  # before NumPy is imported
os.environ.setdefault("IRRUN_JIT", "on")
#: OpenVINO computes in a thread of its own, which waits for a core on a machine that does other work.
CLOCK = time.process_time if "--processor-time" in sys.argv else time.perf_counter

import numpy as np  # noqa: E402
import openvino as ov  # noqa: E402
from sequence_models import CASES, GROWTH, Case  # noqa: E402

import irrun  # noqa: E402

CONFIG = {"INFERENCE_PRECISION_HINT": "f32", "INFERENCE_NUM_THREADS": THREADS, "NUM_STREAMS": "1"}


def _spin() -> None:
    while True:
        pass


@contextmanager
def busy_core(enabled: bool):
    """Keep one core busy with another process."""
    process = multiprocessing.get_context("spawn").Process(target=_spin, daemon=True) if enabled else None
    if process:
        process.start()
        time.sleep(0.5)
    try:
        yield
    finally:
        if process:
            process.kill()


def measure(runs: dict[str, Callable[[], object]], seconds: float) -> dict[str, float]:
    """Return the minimum seconds of each run; they alternate until `seconds` have passed."""
    for run in runs.values():
        run()
        run()
    times: dict[str, list[float]] = {name: [] for name in runs}
    end = time.perf_counter() + seconds
    while time.perf_counter() < end or len(times[next(iter(runs))]) < 5:
        for name, run in runs.items():
            start = CLOCK()
            run()
            times[name].append(CLOCK() - start)
    return {name: min(values) for name, values in times.items()}


def compare(case: Case, folder: Path, seconds: float) -> dict[str, float]:
    """Measure one case, after checking that both engines agree.

    Raises:
        AssertionError: The outputs differ by more than a thousandth of the largest value.
    """
    path = folder / "model.xml"
    ov.save_model(case.build(), path, compress_to_fp16=False)
    inputs = case.make_inputs()
    ours = irrun.compile_model(path)
    request = ov.compile_model(path, "CPU", CONFIG).create_infer_request()
    expected = [np.array(value) for value in request.infer(inputs).values()]
    for value, reference in zip(ours(inputs).to_tuple(), expected, strict=True):
        np.testing.assert_allclose(value, reference, rtol=1e-3, atol=1e-3 * max(1e-6, float(np.abs(reference).max())))
    runs = {"irrun": lambda: ours(inputs), "OpenVINO": lambda: request.infer(inputs, share_inputs=True)}
    return measure(runs, seconds)


def compare_threads(case: Case, folder: Path, seconds: float) -> dict[str, float]:
    """Measure one case with one thread and with several, after checking that the results have the same bits."""
    path = folder / "model.xml"
    ov.save_model(case.build(), path, compress_to_fp16=False)
    inputs = case.make_inputs()
    one, several = (irrun.compile_model(path, threads=count) for count in (1, int(THREADS)))
    for value, expected in zip(several(inputs).to_tuple(), one(inputs).to_tuple(), strict=True):
        np.testing.assert_array_equal(value, expected)
    return measure({f"{THREADS} threads": lambda: several(inputs), "1 thread": lambda: one(inputs)}, seconds)


def main() -> None:
    """Print a table of all cases."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("cases", nargs="*", help="parts of the names of the cases to run; all by default")
    parser.add_argument("--threads", default="1", help="threads of both engines")
    parser.add_argument("--busy", action="store_true", help="keep one core busy with another process")
    parser.add_argument("--alone", action="store_true", help="compare irrun with one thread and with --threads")
    parser.add_argument("--seconds", type=float, default=1.0, help="how long each case runs")
    parser.add_argument("--growth", action="store_true", help="measure how time grows, instead of the cases")
    parser.add_argument("--processor-time", action="store_true", help="measure the processor time of all threads")
    parser.add_argument("--json", action="store_true", help="print JSON")
    options = parser.parse_args()
    cases = CASES
    if options.growth:
        cases = {f"{label}: {n}": case for label, sizes in GROWTH.items() for n, case in sizes.items()}
    rows = {}
    with tempfile.TemporaryDirectory() as folder, busy_core(options.busy):
        for name, case in cases.items():
            if options.cases and not any(part in name for part in options.cases):
                continue
            times = (compare_threads if options.alone else compare)(case, Path(folder), options.seconds)
            ours, peer = times.values()
            target = 1.0 if options.alone else case.target
            rows[name] = {**times, "ratio": ours / peer, "target": target}
            if not options.json:
                ratio = ours / peer
                print(
                    f"{name:52} {ours * 1e3:9.3f} ms {peer * 1e3:9.3f} ms {ratio:6.2f}  (target {target:g})", flush=True
                )
    if options.json:
        print(json.dumps(rows, indent=2))
    else:
        print(f"{'geometric mean':52} {'':12} {'':12} {geometric_mean(r['ratio'] for r in rows.values()):6.2f}")


if __name__ == "__main__":
    main()
