"""How fast irrun runs whole networks, side by side with ONNX's reference evaluator, OpenVINO and onnxruntime.

    pip install irrun[bench]
    python benchmarks/speed.py                      # ResNet-50, MobileNetV2, BERT-base
    python benchmarks/speed.py bert_base --profile  # which operations take the time in irrun
    python benchmarks/speed.py --threads 2 --peers onnx.reference

All on the same inputs, in turns, in one process, with the same number of threads. The reference evaluator runs the
same network exported to ONNX; so does onnxruntime, where it is installed. With several threads, name one peer at a
time: those of OpenVINO and onnxruntime go on spinning for a while, in the way of the next.
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


def irrun_runner(name: str, fed: dict[str, np.ndarray]) -> Run:
    import irrun

    compiled = irrun.compile_model(zoo.fetch(name))
    return lambda: compiled(fed).to_tuple()


def reference_runner(name: str, fed: dict[str, np.ndarray]) -> Run:
    from onnx.reference import ReferenceEvaluator

    evaluator = ReferenceEvaluator(str(zoo.fetch(name, "onnx")))
    return lambda: evaluator.run(None, fed)


def openvino_runner(name: str, fed: dict[str, np.ndarray]) -> Run:
    import openvino

    config = {"INFERENCE_PRECISION_HINT": "f32", "INFERENCE_NUM_THREADS": THREADS, "NUM_STREAMS": "1"}
    compiled = openvino.compile_model(zoo.fetch(name), "CPU", config)
    return lambda: compiled(fed).to_tuple()


def onnxruntime_runner(name: str, fed: dict[str, np.ndarray]) -> Run:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = int(THREADS)
    session = onnxruntime.InferenceSession(str(zoo.fetch(name, "onnx")), options, providers=["CPUExecutionProvider"])
    return lambda: session.run(None, fed)


#: Who runs the networks, how it is made ready, and how often it runs at most.
PEERS: dict[str, tuple[Callable[[str, dict[str, np.ndarray]], Run], int]] = {
    "irrun": (irrun_runner, 100),
    "onnx.reference": (reference_runner, 2),
    "OpenVINO": (openvino_runner, 100),
    "onnxruntime": (onnxruntime_runner, 100),
}


def compare(name: str, repeats: int, peers: Sequence[str]) -> dict[str, float]:
    """The least seconds that a run took, for irrun and each of `peers` that is installed.

    Raises:
        AssertionError: the outputs of two differ by more than a thousandth of the largest value.
    """
    fed = zoo.inputs(name)
    runners: dict[str, Run] = {}
    outputs: dict[str, Sequence[np.ndarray]] = {}
    for peer, (make, _) in PEERS.items():
        if peer != "irrun" and peer not in peers:
            continue
        try:
            runners[peer] = make(name, fed)
        except ImportError:
            if peer == "irrun":
                raise
    seconds: dict[str, list[float]] = defaultdict(list)
    for turn in range(repeats):
        for peer, run in runners.items():
            if turn < PEERS[peer][1]:
                began = time.perf_counter()
                outputs[peer] = run()
                seconds[peer].append(time.perf_counter() - began)
    for peer, found in outputs.items():
        for ours, theirs in zip(outputs["irrun"], found, strict=True):
            error = np.abs(ours - theirs).max() / np.abs(theirs).max()
            assert error < 1e-3, f"{name}: irrun and {peer} differ by {error:.1e} of the largest value"
    return {peer: min(taken) for peer, taken in seconds.items()}


def blas_rate(size: int = 1024) -> float:
    """Multiplications and additions a second in a large product of float32 matrices."""
    a = np.random.default_rng(0).standard_normal((size, size), np.float32)
    best = np.inf
    for _ in range(5):
        began = time.perf_counter()
        a @ a
        best = min(best, time.perf_counter() - began)
    return float(2 * size**3 / best)


def work(layer: Any, inputs: Sequence[Any], outputs: Sequence[Any]) -> float:
    """Multiplications and additions of a layer that is a sum of products; 0 of others."""
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
    """Seconds by operation in irrun, the fastest of `repeats` runs, and how long BLAS would need for its sums."""
    import irrun

    request = irrun.compile_model(zoo.fetch(name)).create_infer_request()
    rate = blas_rate()
    runs = []
    for _ in range(max(2, repeats)):
        taken: dict[str, list[float]] = defaultdict(lambda: [0, 0.0, 0.0])

        def note(
            layer: Any, inputs: Any, outputs: Any, seconds: float, scope: Any, taken: dict[str, list[float]] = taken
        ) -> None:
            entry = taken[layer.type]
            entry[0] += 1
            entry[1] += seconds
            entry[2] += work(layer, inputs, outputs) / rate

        request.infer(zoo.inputs(name), observers=[note])
        runs.append(taken)
    fastest = min(runs, key=lambda run: sum(entry[1] for entry in run.values()))
    return {
        kind: {"layers": int(n), "seconds": seconds, "blas_seconds": blas}
        for kind, (n, seconds, blas) in sorted(fastest.items(), key=lambda item: -item[1][1])
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", default=["resnet50", "mobilenet_v2", "bert_base"], metavar="network")
    parser.add_argument("--threads", type=int, default=1, help="of each peer (default: 1)")
    parser.add_argument(
        "--peers", nargs="+", choices=list(PEERS), default=list(PEERS), help="who runs besides irrun (default: all)"
    )
    parser.add_argument("--repeats", type=int, default=5, help="runs of each peer (default: 5; the slow one: 2)")
    parser.add_argument("--profile", action="store_true", help="seconds by operation in irrun")
    parser.add_argument("--json", action="store_true", help="print JSON")
    options = parser.parse_args()
    results: dict[str, Any] = {}
    for name in options.names:
        if options.profile:
            results[name] = profile(name, options.repeats)
        else:
            results[name] = compare(name, options.repeats, options.peers)
        if not options.json:
            (show_profile if options.profile else show)(name, results[name])
    if options.json:
        print(json.dumps(results, indent=1))


def show(name: str, seconds: dict[str, float]) -> None:
    print(f"{name}, {THREADS} thread(s)")
    for peer, taken in seconds.items():
        ratio = taken / seconds["irrun"]
        note = (
            "" if peer == "irrun" else f"irrun is {ratio:.1f}x as fast" if ratio >= 1 else f"{1 / ratio:.1f}x as fast"
        )
        print(f"  {peer:<16}{taken * 1e3:>10.1f} ms  {note}")


def show_profile(name: str, taken: dict[str, Any]) -> None:
    total = sum(entry["seconds"] for entry in taken.values())
    print(f"{name}: {total * 1e3:.1f} ms in kernels, {THREADS} thread(s)")
    print(f"  {'operation':<28}{'layers':>7}{'ms':>10}{'share':>8}{'BLAS ms':>10}{'times BLAS':>12}")
    for kind, entry in taken.items():
        blas = entry["blas_seconds"]
        bound = f"{blas * 1e3:>10.1f}{entry['seconds'] / blas:>12.1f}" if blas else ""
        share = entry["seconds"] / total
        if share >= 0.002:
            print(f"  {kind:<28}{entry['layers']:>7}{entry['seconds'] * 1e3:>10.2f}{share:>8.1%}{bound}")


if __name__ == "__main__":
    main()
