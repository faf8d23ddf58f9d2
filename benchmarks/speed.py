"""Compare the speed of irrun on whole networks with OpenVINO, onnxruntime and ONNX's reference evaluator.

    pip install irrun[bench,jit]
    python benchmarks/speed.py                              # all groups, one thread
    python benchmarks/speed.py --threads 2 exported public  # some groups, two threads
    python benchmarks/speed.py resnet50 model.xml           # single networks, files with an input.npz beside them
    python benchmarks/speed.py --measure start              # seconds of a new process until its first result
    python benchmarks/speed.py --measure memory             # peak memory of a new process
    python benchmarks/speed.py --growth                     # time against batch size, image size and sequence length
    python benchmarks/speed.py --processor-time public      # on a machine that does other work, with one thread

All runtimes run alternately on the same inputs, in one process, with the same number of threads. A ratio is the minimum
time of irrun divided by that of OpenVINO with f32 precision. onnxruntime and the reference evaluator, which are slow or
optional, take part with `--peers`. They run the same network exported to ONNX. "irrun auto" is what users get by
default: compiled kernels if an earlier model compiled them, and NumPy otherwise.
"""

from __future__ import annotations

import argparse
import inspect
import json
import os
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

THREADS = next((sys.argv[i + 1] for i, word in enumerate(sys.argv[:-1]) if word == "--threads"), "1")
for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "IRRUN_NUM_THREADS"):
    os.environ[variable] = THREADS  # before NumPy is imported

import numpy as np  # noqa: E402
import zoo  # noqa: E402

SHARED_DATA = Path(__file__).parents[2] / "shared" / "data"
#: OpenVINO computes in a thread of its own, which waits for a core on a machine that does other work.
CLOCK = time.process_time if "--processor-time" in sys.argv else time.perf_counter
#: Seconds between two runtimes, after which the idle threads of the first no longer spin.
PAUSE = 0.02

Run = Callable[[], Sequence[np.ndarray]]


def list_public_files() -> list[str]:
    """Return the paths of public models with real weights, if they are on this machine."""
    folders = [*sorted((SHARED_DATA / "public").glob("*")), SHARED_DATA / "face-detection-retail-0004" / "ir11"]
    return [str(folder / "model.xml") for folder in folders if (folder / "model.xml").exists()]


GROUPS: dict[str, Callable[[], Iterable[str]]] = {
    "exported": lambda: zoo.FULL_SIZE,
    "quantized": lambda: zoo.FULL_SIZE_QUANTIZED,
    "f16": lambda: zoo.FULL_SIZE_F16,
    "public": list_public_files,
}


def locate(name: str, kind: str = "xml") -> Path:
    """Return the path of a network's file; `name` is a network of the zoo or the path of an XML file."""
    if name.endswith(".xml"):
        path = Path(name).with_suffix(f".{kind}")
        if not path.exists():
            raise FileNotFoundError(path)
        return path
    return zoo.fetch(name, kind)


def load_inputs(name: str) -> dict[Any, np.ndarray]:
    """Return the inputs of a network, by name for networks of the zoo and by position for files."""
    if not name.endswith(".xml"):
        return zoo.load_inputs(name)
    folder = Path(name).parent
    for path in (folder / "inputs.npz", folder / "input.npz"):
        if path.exists():
            with np.load(path) as arrays:
                return dict(enumerate(arrays.values()))
    return {0: np.load(next(path for path in (folder / "input.npy", folder.parent / "input.npy") if path.exists()))}


def make_irrun_runner(name: str, inputs: dict[Any, np.ndarray], **options: Any) -> Run:
    import irrun

    if "jit" in inspect.signature(irrun.compile_model).parameters:
        options.setdefault("jit", False)
    elif options:
        raise ImportError("this version of irrun has no just-in-time compilation")
    compiled = irrun.compile_model(locate(name), **options)
    return lambda: compiled(inputs).to_tuple()


def make_jit_runner(name: str, inputs: dict[Any, np.ndarray]) -> Run:
    import llvmlite  # noqa: F401 - the extra `jit`

    return make_irrun_runner(name, inputs, jit=True)


def make_default_runner(name: str, inputs: dict[Any, np.ndarray]) -> Run:
    return make_irrun_runner(name, inputs, jit="auto")


def make_openvino_runner(name: str, inputs: dict[Any, np.ndarray]) -> Run:
    import openvino

    config = {"INFERENCE_PRECISION_HINT": "f32", "INFERENCE_NUM_THREADS": THREADS, "NUM_STREAMS": "1"}
    compiled = openvino.compile_model(locate(name), "CPU", config)
    return lambda: compiled(inputs).to_tuple()


def make_onnxruntime_runner(name: str, inputs: dict[Any, np.ndarray]) -> Run:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = int(THREADS)
    session = onnxruntime.InferenceSession(str(locate(name, "onnx")), options, providers=["CPUExecutionProvider"])
    return lambda: session.run(None, inputs)


def make_reference_runner(name: str, inputs: dict[Any, np.ndarray]) -> Run:
    from onnx.reference import ReferenceEvaluator

    evaluator = ReferenceEvaluator(str(locate(name, "onnx")))
    return lambda: evaluator.run(None, inputs)


#: The runtimes that are compared with OpenVINO.
OURS = ("irrun", "irrun jit", "irrun auto")
#: Runtime -> function that prepares a network, maximum number of runs.
PEERS: dict[str, tuple[Callable[[str, dict[str, np.ndarray]], Run], int]] = {
    "irrun": (make_irrun_runner, 100),
    "irrun jit": (make_jit_runner, 100),
    "irrun auto": (make_default_runner, 100),
    "OpenVINO": (make_openvino_runner, 100),
    "onnxruntime": (make_onnxruntime_runner, 100),
    "onnx.reference": (make_reference_runner, 2),
}


def compare(name: str, repeats: int, peers: Sequence[str]) -> dict[str, float]:
    """Return the minimum seconds of a run by runtime, and the largest error of irrun relative to OpenVINO.

    Runtimes that are not installed, have no file of the network, or cannot run it are left out.
    """
    inputs = load_inputs(name)
    runners: dict[str, Run] = {}
    outputs: dict[str, Sequence[np.ndarray]] = {}
    for peer in peers:
        try:
            runners[peer] = PEERS[peer][0](name, inputs)
        except (ImportError, FileNotFoundError):
            if peer == "irrun":
                raise
    seconds: dict[str, list[float]] = defaultdict(list)
    for turn in range(repeats + 1):
        for peer, run in list(runners.items()):
            if turn < PEERS[peer][1]:
                time.sleep(PAUSE)
                start = CLOCK()
                try:
                    outputs[peer] = run()
                except Exception as error:
                    if peer in OURS:
                        raise
                    print(f"{peer} cannot run {name}: {error}", file=sys.stderr)
                    del runners[peer]
                    continue
                seconds[peer].append(CLOCK() - start)
    result = {peer: min(times[1:] or times) for peer, times in seconds.items()}
    for peer in OURS:
        if peer in outputs and "OpenVINO" in outputs:
            result[f"{peer} error"] = max(map(measure_error, outputs[peer], outputs["OpenVINO"]))
    return result


def measure_error(ours: np.ndarray, theirs: np.ndarray) -> float:
    """Return the largest absolute difference, relative to the largest absolute value.

    Detections, shape [1, 1, N, 7], may change places with their neighbors, if rounding orders them otherwise.
    """
    if not theirs.size:
        return 0.0
    scale = float(np.abs(theirs).max()) or 1.0
    errors = np.abs(ours.astype(np.float64) - theirs)
    if theirs.ndim == 4 and theirs.shape[:2] == (1, 1) and theirs.shape[3] == 7:
        shifted = [np.abs(np.roll(ours, n, axis=2).astype(np.float64) - theirs).max(axis=3) for n in (-1, 0, 1)]
        errors = np.minimum.reduce(shifted)
    return float(errors.max()) / scale


CHILD = """
import json, sys, time
start = time.perf_counter()
import speed
run = speed.PEERS[sys.argv[2]][0](sys.argv[1], speed.load_inputs(sys.argv[1]))
run()
first = time.perf_counter() - start
for _ in range(2):
    run()
from irrun.inspection.peak_memory import read_peak
print(json.dumps({"start": first, "memory": read_peak() / 2**20}))
"""


def measure_processes(name: str, repeats: int, peers: Sequence[str], quantity: str) -> dict[str, float]:
    """Return, by runtime, the minimum over new processes of the seconds until the first result, or the peak memory."""
    results: dict[str, list[float]] = defaultdict(list)
    command = [sys.executable, "-c", CHILD, name]
    # As installed by pip, modules are compiled: the first process writes what is missing.
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONDONTWRITEBYTECODE"}
    for _ in range(repeats):
        for peer in peers:
            time.sleep(PAUSE)
            process = subprocess.run(
                [*command, peer], cwd=Path(__file__).parent, env=environment, capture_output=True, text=True
            )
            if process.returncode == 0:
                measured = json.loads(process.stdout.splitlines()[-1])
                results[peer].append(measured[quantity])
    return {peer: min(values) for peer, values in results.items()}


def compute_geometric_mean(values: Sequence[float]) -> float:
    return float(np.exp(np.mean(np.log(values)))) if values else float("nan")


def print_group(group: str, rows: dict[str, dict[str, float]], peers: Sequence[str], unit: str) -> None:
    """Print the measurements of a group of networks, their ratios to OpenVINO and the geometric means."""
    ours = [peer for peer in OURS if any(peer in row for row in rows.values())]
    others = [peer for peer in peers if peer not in ours and any(peer in row for row in rows.values())]
    factor = 1e3 if unit == "ms" else 1.0
    header = f"{group + ', ' + THREADS + ' thread(s)':<40}" + "".join(f"{f'{p} {unit}':>19}" for p in [*ours, *others])
    print(header + "".join(f"{f'{peer} ratio':>17}" for peer in ours) + f"{'error':>10}")
    ratios: dict[str, list[float]] = defaultdict(list)
    for name, row in rows.items():
        line = f"{name if not name.endswith('.xml') else Path(name).parent.name:<40}"
        line += "".join(f"{row[p] * factor:>19.1f}" if p in row else f"{'-':>19}" for p in [*ours, *others])
        for peer in ours:
            if peer in row and "OpenVINO" in row:
                ratios[peer].append(row[peer] / row["OpenVINO"])
                line += f"{ratios[peer][-1]:>17.2f}"
            else:
                line += f"{'-':>17}"
        errors = [row[key] for key in row if key.endswith("error")]
        print(line + (f"{max(errors):>10.0e}" if errors else f"{'-':>10}"), flush=True)
    means = "".join(f"{compute_geometric_mean(ratios[peer]):>17.2f}" for peer in ours)
    print(f"{'geometric mean':<40}{'':{19 * (len(ours) + len(others))}}{means}\n", flush=True)


#: Growing inputs: label, network, shape of its inputs.
GROWTH: tuple[tuple[str, str, list[int]], ...] = (
    *((f"MobileNetV2, batch {n}", "mobilenet_v2", [n, 3, 224, 224]) for n in (1, 2, 4, 8, 16, 32)),
    *((f"U-Net, image of {n}", "unet_wide", [1, 3, n, n]) for n in (64, 128, 256, 512, 1024)),
    *((f"MiniLM, sequence of {n}", "minilm_long", [1, n]) for n in (64, 128, 256, 512, 1024, 2048, 4096)),
)


def measure_growth(repeats: int, peers: Sequence[str]) -> dict[str, dict[str, float]]:
    """Return the minimum seconds of a run by runtime for growing batches, images and sequences."""
    import openvino

    rows: dict[str, dict[str, float]] = {}
    for label, name, shape in GROWTH:
        print(f"{label} ...", end="\r", file=sys.stderr, flush=True)
        with tempfile.TemporaryDirectory() as folder:
            model = openvino.Core().read_model(zoo.fetch(name))
            model.reshape(dict.fromkeys(model.inputs, shape))
            openvino.save_model(model, Path(folder, "model.xml"), compress_to_fp16=False)
            np.savez(Path(folder, "inputs.npz"), **{k: np.resize(v, shape) for k, v in zoo.load_inputs(name).items()})
            rows[label] = compare(str(Path(folder, "model.xml")), repeats, peers)
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "names",
        nargs="*",
        default=list(GROUPS),
        metavar="network",
        help=f"group ({', '.join(GROUPS)}), network or file",
    )
    parser.add_argument("--threads", type=int, default=1, help="number of threads (default: 1)")
    parser.add_argument(
        "--peers",
        nargs="+",
        choices=list(PEERS),
        default=["irrun", "irrun jit", "OpenVINO"],
        help="runtimes to compare",
    )
    parser.add_argument("--repeats", type=int, default=8, help="runs of each runtime (default: 8)")
    parser.add_argument("--measure", choices=["run", "start", "memory"], default="run", help="what to measure")
    parser.add_argument("--processor-time", action="store_true", help="measure the processor time of all threads")
    parser.add_argument("--growth", action="store_true", help="measure how time grows with the size of the inputs")
    parser.add_argument("--json", action="store_true", help="print JSON")
    options = parser.parse_args()
    groups: dict[str, list[str]] = defaultdict(list)
    for name in options.names:
        if name in GROUPS:
            groups[name].extend(GROUPS[name]())
        else:
            groups["networks"].append(str(Path(name).resolve()) if name.endswith(".xml") else name)
    results: dict[str, Any] = {}
    unit = {"run": "ms", "start": "ms", "memory": "MiB"}[options.measure]
    if options.growth:
        results["growth"] = measure_growth(options.repeats, options.peers)
        if not options.json:
            print_group("growth", results["growth"], options.peers, unit)
        groups.clear()
    for group, names in groups.items():
        rows = {}
        for name in names:
            print(f"{name} ...", end="\r", file=sys.stderr, flush=True)
            if options.measure == "run":
                rows[name] = compare(name, options.repeats, options.peers)
            else:
                rows[name] = measure_processes(name, options.repeats, options.peers, options.measure)
        results[group] = rows
        if not options.json:
            print_group(group, rows, options.peers, unit)
    if options.json:
        print(json.dumps(results, indent=1))


if __name__ == "__main__":
    main()
