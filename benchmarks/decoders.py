"""Compare the speed and memory of stateful decoders with OpenVINO's CPU plugin.

Each model is measured in processes of its own, one for irrun and one for OpenVINO, which take turns token by token so
that the load of the machine affects both alike. OpenVINO computes the same as irrun: in f32, without dynamic
quantization, with a KV cache in f32.

    python benchmarks/decoders.py                       # all weights, one and two threads
    python benchmarks/decoders.py int4 --threads 1 --tokens 512
    python benchmarks/decoders.py int8 --weights-memory 0
    IRRUN_JIT=off python benchmarks/decoders.py         # kernels on NumPy; by default they are compiled
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

os.environ.setdefault("IRRUN_JIT", "on")

ROOT = Path(__file__).resolve().parents[1]

PREFILL = 32
#: Prefills, the first of which are slower: irrun compiles kernels for their shapes.
PREFILL_COUNT = 7
#: Positions at which the time of a token is shown: the median of as many tokens before them as `WINDOW`.
POSITIONS, WINDOW = (32, 128, 256, 512), 16
OPENVINO_CONFIG = {
    "INFERENCE_PRECISION_HINT": "f32",
    "DYNAMIC_QUANTIZATION_GROUP_SIZE": "0",
    "KV_CACHE_PRECISION": "f32",
}


def save_decoder(path: Path, weights: str) -> None:
    """Build a decoder in a process of its own, since that takes a lot of memory."""
    program = (
        "import sys, openvino as ov\n"
        "from benchmarks.sequence_models import DecoderShape, build_decoder\n"
        "ov.save_model(build_decoder(DecoderShape(), sys.argv[2]), sys.argv[1], compress_to_fp16=False)\n"
    )
    subprocess.run([sys.executable, "-c", program, str(path), weights], check=True, cwd=ROOT)


def serve(engine: str, path: str, threads: int, weights_memory: int | None) -> None:
    """Compile a model and run it on request: one line per run with the number of tokens; "reset" resets the state.

    Prints the seconds of each run, and at the end the peak memory in bytes.
    """
    start = time.perf_counter()
    if engine == "irrun":
        import irrun

        request: Any = irrun.compile_model(path, threads=threads, weights_memory=weights_memory).create_infer_request()
    else:
        import openvino as ov

        config = {**OPENVINO_CONFIG, "INFERENCE_NUM_THREADS": threads}
        request = ov.Core().compile_model(path, "CPU", config).create_infer_request()
    print(time.perf_counter() - start, flush=True)
    position = 0
    rng = np.random.default_rng(0)
    checksum = 0.0
    for line in sys.stdin:
        if line.strip() == "reset":
            request.reset_state()
            position = 0
            rng = np.random.default_rng(0)
            continue
        count = int(line)
        ids = rng.integers(0, 150_000, (1, count))
        positions = np.arange(position, position + count)[None]
        start = time.perf_counter()
        outputs = request.infer({"input_ids": ids, "position_ids": positions, "beam_idx": np.zeros(1, np.int32)})
        seconds = time.perf_counter() - start
        checksum = float(np.abs(outputs[0][0, -1]).sum())
        position += count
        print(seconds, flush=True)
    from irrun.inspection.peak_memory import read_peak  # after the measured runs

    print(json.dumps({"peak": read_peak(), "checksum": checksum}))


class Engine:
    """A process that runs a model.

    Args:
        name: "irrun" or "openvino".
        path: The model.
        threads: The number of threads.
        weights_memory: Bytes that decompressed weights may take in irrun; None for its default.
    """

    def __init__(self, name: str, path: Path, threads: int, weights_memory: int | None) -> None:
        arguments = ["--serve", name, "--model", str(path), "--threads", str(threads)]
        if weights_memory is not None:
            arguments += ["--weights-memory", str(weights_memory)]
        self.process = subprocess.Popen(
            [sys.executable, __file__, *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
        )
        self.compile_time = self.read()

    def read(self) -> float:
        assert self.process.stdout is not None
        return float(self.process.stdout.readline())

    def send(self, line: str) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(f"{line}\n")
        self.process.stdin.flush()

    def run(self, count: int) -> float:
        """Process tokens and return the seconds."""
        self.send(str(count))
        return self.read()

    def finish(self) -> dict[str, float]:
        """End the process; return its peak memory and a checksum of the last output."""
        output, _ = self.process.communicate()
        return json.loads(output)


def measure(path: Path, threads: int, tokens: int, weights_memory: int | None) -> None:
    """Measure both engines alternately and print a table."""
    engines = {name: Engine(name, path, threads, weights_memory) for name in ("irrun", "openvino")}
    prefills: dict[str, list[float]] = {name: [] for name in engines}
    steps: dict[str, list[float]] = {name: [] for name in engines}
    for _ in range(PREFILL_COUNT):
        for name, engine in engines.items():
            engine.send("reset")
            prefills[name].append(engine.run(PREFILL))
    for _ in range(tokens):
        for name, engine in engines.items():
            steps[name].append(engine.run(1))
    results = {name: engine.finish() for name, engine in engines.items()}
    print(f"\n{path.stem}, {threads} thread(s), weights_memory={weights_memory}")
    print(f"{'':28}{'irrun':>10}{'openvino':>10}{'ratio':>8}")
    rows = {
        "compile, s": {name: engine.compile_time for name, engine in engines.items()},
        f"prefill of {PREFILL} tokens, ms": {name: 1e3 * min(times[1:]) for name, times in prefills.items()},
        "token, ms: median": {name: 1e3 * float(np.median(times)) for name, times in steps.items()},
        "token, ms: fastest": {name: 1e3 * min(times) for name, times in steps.items()},
        **{
            f"token {n}, ms": {name: 1e3 * float(np.median(times[n - WINDOW : n])) for name, times in steps.items()}
            for n in POSITIONS
            if n <= tokens
        },
        "all tokens, s": {name: sum(times) for name, times in steps.items()},
        "peak memory, MiB": {name: results[name]["peak"] / 2**20 for name in engines},
        "checksum": {name: results[name]["checksum"] for name in engines},
    }
    for label, values in rows.items():
        print(
            f"{label:28}{values['irrun']:10.4g}{values['openvino']:10.4g}{values['irrun'] / values['openvino']:8.2f}",
            flush=True,
        )


def main() -> None:
    """Parse the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("weights", nargs="*", default=["int4", "int8", "f16"], help="int4, int8 or f16")
    parser.add_argument("--threads", type=int, action="append", help="number of threads; may be repeated")
    parser.add_argument("--tokens", type=int, default=64, help="number of tokens after the prefill")
    parser.add_argument("--weights-memory", type=int, help="bytes that decompressed weights may take in irrun")
    parser.add_argument("--folder", type=Path, help="where the models are, or are saved")
    parser.add_argument("--serve", help=argparse.SUPPRESS)
    parser.add_argument("--model", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.serve:
        serve(options.serve, options.model, options.threads[0], options.weights_memory)
        return
    with tempfile.TemporaryDirectory() as temporary:
        folder = options.folder or Path(temporary)
        for weights in options.weights:
            path = folder / f"{weights}.xml"
            if not path.exists():
                save_decoder(path, weights)
            for threads in options.threads or [1, 2]:
                measure(path, threads, options.tokens, options.weights_memory)


if __name__ == "__main__":
    main()
