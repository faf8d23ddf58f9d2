"""Compare the speed of irrun on whole networks with ONNX's reference evaluator, OpenVINO and onnxruntime.

    pip install irrun[bench]
    python benchmarks/speed.py                      # ResNet-50, MobileNetV2, BERT-base
    python benchmarks/speed.py bert_base --profile  # time per operation in irrun
    python benchmarks/speed.py --threads 2 --peers onnx.reference

All runtimes run alternately on the same inputs, in one process, with the same number of threads. The reference
evaluator and onnxruntime, if it is installed, run the same network exported to ONNX. With several threads, select one
peer at a time: the idle threads of OpenVINO and onnxruntime keep spinning for a while and slow down the next runtime.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import Any

THREADS = next((sys.argv[i + 1] for i, word in enumerate(sys.argv[:-1]) if word == "--threads"), "1")
for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[variable] = THREADS  # before NumPy is imported

import numpy as np  # noqa: E402
import zoo  # noqa: E402

Run = Callable[[], Sequence[np.ndarray]]


def make_irrun_runner(name: str, inputs: dict[str, np.ndarray]) -> Run:
    import irrun

    compiled = irrun.compile_model(zoo.fetch(name))
    return lambda: compiled(inputs).to_tuple()


def make_reference_runner(name: str, inputs: dict[str, np.ndarray]) -> Run:
    from onnx.reference import ReferenceEvaluator

    evaluator = ReferenceEvaluator(str(zoo.fetch(name, "onnx")))
    return lambda: evaluator.run(None, inputs)


def make_openvino_runner(name: str, inputs: dict[str, np.ndarray]) -> Run:
    import openvino

    config = {"INFERENCE_PRECISION_HINT": "f32", "INFERENCE_NUM_THREADS": THREADS, "NUM_STREAMS": "1"}
    compiled = openvino.compile_model(zoo.fetch(name), "CPU", config)
    return lambda: compiled(inputs).to_tuple()


def make_onnxruntime_runner(name: str, inputs: dict[str, np.ndarray]) -> Run:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = int(THREADS)
    session = onnxruntime.InferenceSession(str(zoo.fetch(name, "onnx")), options, providers=["CPUExecutionProvider"])
    return lambda: session.run(None, inputs)


#: Runtime -> function that prepares a network, maximum number of runs.
PEERS: dict[str, tuple[Callable[[str, dict[str, np.ndarray]], Run], int]] = {
    "irrun": (make_irrun_runner, 100),
    "onnx.reference": (make_reference_runner, 2),
    "OpenVINO": (make_openvino_runner, 100),
    "onnxruntime": (make_onnxruntime_runner, 100),
}


def compare(name: str, repeats: int, peers: Sequence[str]) -> dict[str, float]:
    """Return the minimum seconds of a run, for irrun and each of `peers` that is installed.

    Raises:
        AssertionError: Outputs differ by more than a thousandth of the largest value.
    """
    inputs = zoo.load_inputs(name)
    runners: dict[str, Run] = {}
    outputs: dict[str, Sequence[np.ndarray]] = {}
    for peer, (make, _) in PEERS.items():
        if peer != "irrun" and peer not in peers:
            continue
        try:
            runners[peer] = make(name, inputs)
        except ImportError:
            if peer == "irrun":
                raise
    seconds: dict[str, list[float]] = defaultdict(list)
    for turn in range(repeats):
        for peer, run in runners.items():
            if turn < PEERS[peer][1]:
                start = time.perf_counter()
                outputs[peer] = run()
                seconds[peer].append(time.perf_counter() - start)
    for peer, arrays in outputs.items():
        for ours, theirs in zip(outputs["irrun"], arrays, strict=True):
            error = np.abs(ours - theirs).max() / np.abs(theirs).max()
            assert error < 1e-3, f"{name}: irrun and {peer} differ by {error:.1e} of the largest value"
    return {peer: min(times) for peer, times in seconds.items()}


def measure_blas_rate(size: int = 1024) -> float:
    """Return the floating-point operations per second of a large product of float32 matrices."""
    a = np.random.default_rng(0).standard_normal((size, size), np.float32)
    best = np.inf
    for _ in range(5):
        start = time.perf_counter()
        a @ a
        best = min(best, time.perf_counter() - start)
    return float(2 * size**3 / best)


def count_operations(layer: Any, inputs: Sequence[Any], outputs: Sequence[Any]) -> float:
    """Return the floating-point operations of a convolution or matrix product, and 0 for other layers."""
    if layer.type in ("Convolution", "GroupConvolution"):
        filters = inputs[1].shape
        return 2.0 * outputs[0].size * np.prod(filters[1 if layer.type == "Convolution" else 2 :])
    if layer.type == "MatMul":
        shared = inputs[0].shape[-2 if layer.attributes.get("transpose_a") == "true" else -1]
        return 2.0 * outputs[0].size * shared
    if layer.type == "ScaledDotProductAttention":
        return 4.0 * outputs[0].size * inputs[1].shape[-2]
    return 0.0


def profile(name: str, repeats: int) -> dict[str, Any]:
    """Return the seconds per operation type in the fastest of `repeats` runs, and the time that BLAS would take."""
    import irrun

    request = irrun.compile_model(zoo.fetch(name)).create_infer_request()
    rate = measure_blas_rate()
    runs = []
    for _ in range(max(2, repeats)):
        times: dict[str, list[float]] = defaultdict(lambda: [0, 0.0, 0.0])

        def observe(
            layer: Any, inputs: Any, outputs: Any, seconds: float, scope: Any, times: dict[str, list[float]] = times
        ) -> None:
            entry = times[layer.type]
            entry[0] += 1
            entry[1] += seconds
            entry[2] += count_operations(layer, inputs, outputs) / rate

        request.infer(zoo.load_inputs(name), observers=[observe])
        runs.append(times)
    fastest = min(runs, key=lambda run: sum(entry[1] for entry in run.values()))
    return {
        kind: {"layers": int(n), "seconds": seconds, "blas_seconds": blas}
        for kind, (n, seconds, blas) in sorted(fastest.items(), key=lambda item: -item[1][1])
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", default=["resnet50", "mobilenet_v2", "bert_base"], metavar="network")
    parser.add_argument("--threads", type=int, default=1, help="number of threads (default: 1)")
    parser.add_argument(
        "--peers", nargs="+", choices=list(PEERS), default=list(PEERS), help="runtimes to compare with (default: all)"
    )
    parser.add_argument(
        "--repeats", type=int, default=5, help="runs of each runtime (default: 5; at most 2 of onnx.reference)"
    )
    parser.add_argument("--profile", action="store_true", help="print the time per operation type in irrun")
    parser.add_argument("--json", action="store_true", help="print JSON")
    options = parser.parse_args()
    results: dict[str, Any] = {}
    for name in options.names:
        if options.profile:
            results[name] = profile(name, options.repeats)
        else:
            results[name] = compare(name, options.repeats, options.peers)
        if not options.json:
            (print_profile if options.profile else print_comparison)(name, results[name])
    if options.json:
        print(json.dumps(results, indent=1))


def print_comparison(name: str, seconds: dict[str, float]) -> None:
    print(f"{name}, {THREADS} thread(s)")
    for peer, duration in seconds.items():
        ratio = duration / seconds["irrun"]
        note = (
            "" if peer == "irrun" else f"irrun is {ratio:.1f}x as fast" if ratio >= 1 else f"{1 / ratio:.1f}x as fast"
        )
        print(f"  {peer:<16}{duration * 1e3:>10.1f} ms  {note}")


def print_profile(name: str, profiles: dict[str, Any]) -> None:
    total = sum(entry["seconds"] for entry in profiles.values())
    print(f"{name}: {total * 1e3:.1f} ms in kernels, {THREADS} thread(s)")
    print(f"  {'operation':<28}{'layers':>7}{'ms':>10}{'share':>8}{'BLAS ms':>10}{'vs. BLAS':>12}")
    for kind, entry in profiles.items():
        blas = entry["blas_seconds"]
        bound = f"{blas * 1e3:>10.1f}{entry['seconds'] / blas:>12.1f}" if blas else ""
        share = entry["seconds"] / total
        if share >= 0.002:
            print(f"  {kind:<28}{entry['layers']:>7}{entry['seconds'] * 1e3:>10.2f}{share:>8.1%}{bound}")


if __name__ == "__main__":
    main()
