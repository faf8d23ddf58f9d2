"""Damages results of `irrun map` at random, and kills runs at random moments; a run that continues must end the same.

    cd tests
    python -m mapping.chaos damage --count 1000 --seed 1
    python -m mapping.chaos kill --count 100 --seed 1

Each trial of `damage` changes, inserts, removes or exchanges bytes of one file of finished results, or removes a file
or a folder. The run that continues either ends with the same results bit for bit, or with an error that says what is
damaged and how to go on. Each trial of `kill` starts a run, kills all of its processes at a random moment, and
continues it, up to three times.
"""

from __future__ import annotations

import argparse
import collections
import contextlib
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from ir_text import layer, net, port, write

from irrun.distributed import MapOptions, map_inputs
from irrun.errors import InputError
from mapping.processes import find_children

__all__ = ["connect_thread", "damage_once", "kill_once", "prepare", "read_results"]

#: What an error for results that cannot be continued says.
EXPECTED_ERROR = re.compile(r"is damaged .*delete the folder or choose another output|choose another output$")
#: Options of all runs: rows whose inputs cannot be read or do not fit are skipped.
OPTIONS = MapOptions(on_error="skip", jit=False)


def prepare(folder: Path, count: int = 36) -> Path:
    """Write a model with outputs of two types and dynamic shapes, and inputs, some of which are damaged or longer."""
    layers = [
        layer(0, "Parameter", data='shape="1,?" element_type="f32"', outputs=[port(0)], name="x"),
        layer(1, "Exp", inputs=[port(0)], outputs=[port(1, (), "FP32", "exp")]),
        layer(2, "ShapeOf", "opset3", 'output_type="i64"', [port(0)], [port(1, (), "I64", "size")]),
        layer(3, "Result", inputs=[port(0)]),
        layer(4, "Result", inputs=[port(0)]),
    ]
    model = write(folder, net(layers, [(0, 0, 1, 0), (0, 0, 2, 0), (1, 1, 3, 0), (2, 1, 4, 0)]))
    inputs = folder / "inputs"
    inputs.mkdir()
    rng = np.random.default_rng(7)
    for i in range(count):
        length = 12 if i % 11 == 5 else 8
        np.save(inputs / f"{i:04d}.npy", rng.standard_normal((1, length)).astype(np.float32))
        if i % 13 == 7:
            (inputs / f"{i:04d}.npy").write_bytes(b"\x93NUMPY damaged")
    return model


def read_results(output: Path) -> dict[str, Any]:
    """Return the contents of all arrays by their paths."""
    import zarr

    library: Any = zarr
    group = library.open_group(str(output), mode="r")
    found = {}
    for name, member in group.members(max_depth=None):
        if hasattr(member, "shape"):
            value = np.asarray(member[...])
            found[name] = (
                value.shape,
                str(value.dtype),
                value.tolist() if value.dtype.kind in "OT" else value.tobytes(),
                str(member.metadata.fill_value),
                dict(member.attrs),
            )
    return found


@contextlib.contextmanager
def connect_thread() -> Iterator[str]:
    """Yield the address of a scheduler whose worker is a thread of this process."""
    import distributed

    library: Any = distributed
    with library.LocalCluster(
        n_workers=1, threads_per_worker=1, processes=False, dashboard_address="127.0.0.1:0", silence_logs="CRITICAL"
    ) as cluster:
        yield cluster.scheduler_address


def damage(output: Path, choose: random.Random) -> str:
    """Damage a file or a folder of results, and return what was done."""
    paths = sorted(output.rglob("*"))
    path = choose.choice(paths)
    name = path.relative_to(output).as_posix()
    if path.is_dir():
        shutil.rmtree(path)
        return f"remove folder {name}"
    content = bytearray(path.read_bytes())
    action = choose.choice(["remove", "change", "change", "change", "cut", "insert", "exchange", "empty"])
    if action == "remove" or not content:
        path.unlink()
        return f"remove {name}"
    position = choose.randrange(len(content))
    if action == "change":
        content[position] ^= choose.randrange(1, 256)
    elif action == "cut":
        del content[position:]
    elif action == "insert":
        content[position:position] = choose.randbytes(choose.randrange(1, 20))
    elif action == "exchange":
        other = choose.choice([p for p in paths if p.is_file()])
        content = bytearray(other.read_bytes())
        name += f" by {other.relative_to(output).as_posix()}"
    else:
        content.clear()
    path.write_bytes(content)
    return f"{action} {name} at {position}"


def damage_once(finished: Path, folder: Path, expected: dict[str, Any], scheduler: str, seed: int) -> tuple[str, str]:
    """Damage a copy of finished results, and continue the run.

    Returns:
        What was done, and how the run ended: "equal", "refused", or what is wrong.
    """
    output = folder / "damaged.zarr"
    shutil.rmtree(output, ignore_errors=True)
    shutil.copytree(finished, output)
    action = damage(output, random.Random(seed))
    try:
        map_inputs(folder / "model.xml", [str(folder / "inputs")], output, OPTIONS, scheduler=scheduler)
        found = read_results(output)
    except InputError as error:
        return action, "refused" if EXPECTED_ERROR.search(str(error)) else f"WRONG: {error}"
    except Exception as error:
        return action, f"WRONG: {type(error).__name__}: {error}"
    differing = sorted(name for name in expected.keys() | found.keys() if expected.get(name) != found.get(name))
    return action, f"WRONG: {', '.join(differing)} differ" if differing else "equal"


def kill_once(folder: Path, expected: dict[str, Any], seed: int, seconds: float) -> tuple[str, str]:
    """Kill a run and its processes at random moments, and continue it.

    Args:
        folder: The folder with the model and the inputs.
        expected: The results of a run that is not killed.
        seed: Of the moments.
        seconds: How long a run takes.

    Returns:
        The moments, and how the last run ended.
    """
    choose = random.Random(seed)
    output = folder / "killed.zarr"
    shutil.rmtree(output, ignore_errors=True)
    command = [sys.executable, "-m", "irrun", "map", str(folder / "model.xml"), str(folder / "inputs")]
    command += ["-o", str(output), "--workers", "2", "--on-error", "skip", "--jit", "off"]
    moments = []
    for _ in range(choose.randrange(1, 4)):
        moments.append(choose.uniform(0, 1.1 * seconds))
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(moments[-1])
        if process.poll() is None:
            for number in (process.pid, *find_children(process.pid)):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(number, signal.SIGKILL)
        process.wait()
    action = "kill after " + ", ".join(f"{moment:.2f} s" for moment in moments)
    last = subprocess.run(command, capture_output=True, text=True, timeout=300)
    if last.returncode not in (0, 1):  # 1: some inputs were skipped
        return action, f"WRONG: exit code {last.returncode}: {last.stderr.strip()}"
    found = read_results(output)
    differing = sorted(name for name in expected.keys() | found.keys() if expected.get(name) != found.get(name))
    leftovers = [p.name for p in output.rglob(".irrun-*")]
    return action, f"WRONG: {', '.join(differing)} differ" if differing else f"equal, {len(leftovers)} temporary files"


def main() -> int:
    """Run the trials, and print how they ended."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("mode", choices=["damage", "kill"])
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    ends: collections.Counter[str] = collections.Counter()
    with tempfile.TemporaryDirectory() as name, connect_thread() as scheduler:
        folder = Path(name)
        model = prepare(folder, 36 if arguments.mode == "damage" else 400)
        finished = folder / "finished.zarr"
        map_inputs(model, [str(folder / "inputs")], finished, OPTIONS, scheduler=scheduler)
        expected = read_results(finished)
        seconds = 0.0
        if arguments.mode == "kill":
            start = time.monotonic()
            command = [sys.executable, "-m", "irrun", "map", str(model), str(folder / "inputs"), "--workers", "2"]
            command += ["-o", str(folder / "timed.zarr"), "--on-error", "skip", "--jit", "off"]
            subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            seconds = time.monotonic() - start
        for seed in range(arguments.seed * 10**6, arguments.seed * 10**6 + arguments.count):
            if arguments.mode == "damage":
                action, end = damage_once(finished, folder, expected, scheduler, seed)
            else:
                action, end = kill_once(folder, expected, seed, seconds)
            ends[end if len(end) < 40 else end[:40]] += 1
            if end.startswith("WRONG"):
                print(f"{seed}: {action}: {end}", flush=True)
    print(", ".join(f"{count} {end}" for end, count in ends.most_common()))
    return any(end.startswith("WRONG") for end in ends)


if __name__ == "__main__":
    sys.exit(main())
