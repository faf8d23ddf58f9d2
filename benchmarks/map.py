"""Measure `irrun map`: what survives killed workers, the overhead per input, memory and throughput.

    python benchmarks/map.py                            # everything
    python benchmarks/map.py resume overhead            # on a busy machine, too
    python benchmarks/map.py throughput --networks mobilenet_v2

`resume` maps photos on two workers, kills one, stops the run, resumes it, and compares the results bit by bit with
those of one process. `overhead` is the CPU time of all processes per input besides that of the model. `memory` is the
proportional set size (PSS) of a second worker. `throughput` compares one, two and four workers and requires an
idle machine. Targets: nothing lost or computed twice, 1 ms per input, the activations plus 60 MB per worker, 1.8 times
the throughput.
"""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

import numpy as np
import zarr
import zoo
from ir_text import layer, net, port, write
from mapping.processes import find_children, find_workers
from PIL import Image

import irrun
from irrun.distributed import MapOptions, map_inputs
from irrun.distributed.store import RECORDS
from irrun.limits import MemoryLimitError

NETWORKS = ("mobilenet_v2", "bert_base")
#: Samples per network for the throughput: 20 to 60 seconds on one core.
SAMPLES = {"mobilenet_v2": 1024, "bert_base": 256}


def write_classifier(folder: Path) -> Path:
    """Write a model of one convolution and one matrix product on images of 64 x 64 pixels."""
    rng = np.random.default_rng(0)
    weights = np.concatenate([rng.standard_normal(16 * 27), rng.standard_normal(160)]).astype(np.float32)
    constant = 'element_type="f32" shape="{}" offset="{}" size="{}"'
    convolution = 'strides="2,2" dilations="1,1" pads_begin="0,0" pads_end="0,0" auto_pad="explicit"'
    layers = [
        layer(0, "Parameter", data='shape="1,3,64,64" element_type="f32"', outputs=[port(0, (1, 3, 64, 64))]),
        layer(1, "Const", data=constant.format("16,3,3,3", 0, 1728), outputs=[port(0, (16, 3, 3, 3))]),
        layer(2, "Convolution", data=convolution, inputs=[port(0), port(1)], outputs=[port(2)]),
        layer(3, "Sigmoid", inputs=[port(0)], outputs=[port(1)]),
        layer(4, "Const", data='element_type="i64" shape="2" offset="2368" size="16"', outputs=[port(0, (2,))]),
        layer(5, "ReduceMean", data='keep_dims="false"', inputs=[port(0), port(1)], outputs=[port(2)]),
        layer(6, "Const", data=constant.format("16,10", 1728, 640), outputs=[port(0, (16, 10))]),
        layer(7, "MatMul", inputs=[port(0), port(1)], outputs=[port(2)], name="y"),
        layer(8, "Result", inputs=[port(0)]),
    ]
    edges = [(0, 0, 2, 0), (1, 0, 2, 1), (2, 2, 3, 0), (3, 1, 5, 0), (4, 0, 5, 1), (5, 2, 7, 0), (6, 0, 7, 1)]
    return write(folder, net(layers, [*edges, (7, 2, 8, 0)]), weights.tobytes() + np.int64([2, 3]).tobytes())


def write_photos(folder: Path, count: int) -> None:
    """Write JPEG files of smooth noise in sizes of photos from a web page."""
    folder.mkdir()
    rng = np.random.default_rng(1)
    for i in range(count):
        size = (int(rng.integers(200, 400)), int(rng.integers(150, 300)))
        coarse = Image.fromarray(rng.integers(0, 256, (12, 16, 3), dtype=np.uint8))
        coarse.resize(size, Image.Resampling.BICUBIC).save(folder / f"{i:05d}.jpg", quality=85)


def start_map(model: Path, inputs: Path, output: Path, workers: int) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "irrun", "map", str(model), str(inputs), "-o", str(output)]
    environment = {**os.environ, "PYTHONPATH": str(Path(irrun.__file__).parents[1])}
    return subprocess.Popen(
        [*command, "--workers", str(workers)],
        env=environment,
        stdout=subprocess.DEVNULL,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # shells ignore it in the background
    )


def list_records(output: Path) -> dict[str, int]:
    """Return the chunks that are finished, with the times at which they were written."""
    return {path.name: path.stat().st_mtime_ns for path in (output / RECORDS).glob("*.json")}


def wait_for_records(output: Path, count: int, process: subprocess.Popen[bytes]) -> None:
    while len(list_records(output)) < count:
        if process.poll() is not None:
            raise RuntimeError(f"the run ended early with exit code {process.returncode}")
        time.sleep(0.01)


def check_resume(folder: Path, count: int) -> bool:
    """Kill a worker, stop the run, resume it, and compare the results with one process."""
    model = write_classifier(folder)
    write_photos(folder / "photos", count)
    output = folder / "results.zarr"
    process = start_map(model, folder / "photos", output, 2)
    chunks = -(-count // 16)
    wait_for_records(output, chunks // 4, process)
    os.kill(find_workers(process.pid)[0], signal.SIGKILL)
    wait_for_records(output, chunks // 2, process)
    process.send_signal(signal.SIGINT)
    process.wait()
    before = list_records(output)
    code = start_map(model, folder / "photos", output, 2).wait()
    after = list_records(output)
    compiled = irrun.compile_model(model, threads=1)
    files = sorted((folder / "photos").iterdir())
    expected = np.concatenate([compiled(irrun.load_inputs([str(f)], compiled.inputs))[0] for f in files])
    is_equal = np.array_equal(zarr.open_group(str(output), mode="r")["y"][...], expected)
    kept = sum(after.get(name) == written for name, written in before.items())
    print(
        f"resume: {count} photos, a worker killed after {chunks // 4} of {chunks} chunks, stopped after {len(before)}; "
        f"exit code {code}, {kept} of {len(before)} chunks kept, {len(after)} chunks in all, "
        f"results {'equal' if is_equal else 'DIFFERENT'}"
    )
    return is_equal and not code and kept == len(before) < len(after) == chunks


def measure_children(function: Callable[[], object]) -> float:
    """Return the CPU seconds of the child processes that a function starts and waits for."""
    before = os.times()
    function()
    after = os.times()
    return after.children_user + after.children_system - before.children_user - before.children_system


def check_overhead(folder: Path, count: int) -> bool:
    """Compare the CPU time per row of an array with that of calls in one process."""
    model = write_classifier(folder)
    seconds = {}
    for rows in (count, 5 * count):
        np.save(folder / f"{rows}.npy", np.zeros((rows, 3, 64, 64), np.float32))
        outputs = iter(range(9))

        def run(rows: int = rows, outputs=outputs) -> None:
            if start_map(model, folder / f"{rows}.npy", folder / f"{rows}.{next(outputs)}.zarr", 1).wait():
                raise RuntimeError("the run failed")

        seconds[rows] = min(measure_children(run) for _ in range(3))
    mapped = (seconds[5 * count] - seconds[count]) / (4 * count)
    request = irrun.compile_model(model, threads=1).create_infer_request()
    x = np.zeros((1, 3, 64, 64), np.float32)
    times = []
    for _ in range(5):
        start = time.process_time()
        for _ in range(200):
            request.infer([x])
        times.append((time.process_time() - start) / 200)
    overhead = (mapped - min(times)) * 1e3
    print(
        f"overhead: {mapped * 1e3:.2f} ms per input, {min(times) * 1e3:.2f} ms of which is the model: {overhead:.2f} ms"
    )
    return overhead < 1


def get_pss(pid: int) -> int:
    for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
        if line.startswith("Pss:"):
            return int(line.split()[1]) << 10
    return 0


def save_samples(name: str, folder: Path, count: int) -> list[str]:
    """Save the inputs of a network `count` times; return the arguments of `irrun map`."""
    arguments = []
    for key, value in zoo.load_inputs(name).items():
        path = folder / f"{name}.{key}.npy"
        np.save(path, np.repeat(value[:1], count, axis=0))
        arguments.append(f"{key}={path}")
    return arguments


def run_map(name: str, folder: Path, count: int, workers: int) -> tuple[float, int]:
    """Return the samples per second after the start, and the bytes of all processes towards the end."""
    output = folder / f"{name}.{workers}.{count}.zarr"
    events: list[tuple[float, int]] = []
    size = 0

    def update(finished: int, total: int) -> None:
        nonlocal size
        events.append((time.perf_counter(), finished))
        if not size and finished >= 0.7 * total:
            size = sum(map(get_pss, [os.getpid(), *find_children(os.getpid())]))

    map_inputs(
        zoo.fetch(name), save_samples(name, folder, count), output, MapOptions(), workers=workers, progress=update
    )
    # The first event is the start. Each worker has finished one chunk at the event of that number.
    (start, first), (end, last) = events[workers], events[-1]
    return (last - first) / (end - start), size


def find_activations(name: str) -> int:
    """Return the smallest memory with which a run succeeds."""
    compiled = irrun.compile_model(zoo.fetch(name), threads=1)
    inputs = {key: value[:1] for key, value in zoo.load_inputs(name).items()}
    low, high = 1 << 16, 1 << 33
    while high > 1.02 * low:
        compiled.memory = int((low * high) ** 0.5)
        try:
            compiled.create_infer_request().infer(inputs)
            high = compiled.memory
        except MemoryLimitError:
            low = compiled.memory
    return high


def check_memory(name: str, folder: Path) -> bool:
    """Compare the memory of one, two and four workers."""
    first, second, fourth = (run_map(name, folder, 96, workers)[1] for workers in (1, 2, 4))
    activations = find_activations(name)
    further, limit = second - first, activations + 60 * 10**6
    print(
        f"memory of {name}: {first / 1e6:.0f} MB for one worker, {further / 1e6:.0f} MB for the second, "
        f"{(fourth - second) / 2e6:.0f} MB each for the third and fourth; "
        f"activations {activations / 1e6:.0f} MB, target {limit / 1e6:.0f} MB"
    )
    return further <= limit


def check_throughput(name: str, folder: Path) -> bool:
    """Compare the throughput of one, two and four workers; that of four depends on the number of cores."""
    one, two, four = (run_map(name, folder, SAMPLES[name], workers)[0] for workers in (1, 2, 4))
    print(
        f"throughput of {name}: {one:.2f} per second on one worker, {two:.2f} on two: {two / one:.2f} times, "
        f"{four:.2f} on four: {four / one:.2f} times ({os.cpu_count()} cores)"
    )
    return two >= 1.8 * one


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    names = ("resume", "overhead", "memory", "throughput")
    parser.add_argument("names", nargs="*", help=f"what to measure: {', '.join(names)} (default: all)")
    parser.add_argument("--networks", nargs="*", default=NETWORKS, help="networks for memory and throughput")
    parser.add_argument("--photos", type=int, default=2000, help="number of photos (default: 2000)")
    options = parser.parse_args()
    verdicts = []
    for name in options.names or names:
        for network in options.networks if name in ("memory", "throughput") else ("",):
            with tempfile.TemporaryDirectory() as text:
                folder = Path(text)
                if name == "resume":
                    is_met = check_resume(folder, options.photos)
                elif name == "overhead":
                    is_met = check_overhead(folder, 1000)
                elif name == "memory":
                    is_met = check_memory(network, folder)
                else:
                    is_met = check_throughput(network, folder)
            print(f"  target {'met' if is_met else 'MISSED'}", flush=True)
            verdicts.append(is_met)
    return int(not all(verdicts))


if __name__ == "__main__":
    sys.exit(main())
