"""Interrupts of the keyboard, which reach all processes of a run at once."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest

import irrun
from irrun.interrupts import block_interrupts, delay_interrupts

pytest.importorskip("distributed")
pytest.importorskip("zarr")
pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")

#: Seconds after the start of the imports: during the imports, the start of the processes, and the run.
MOMENTS = ((0.0, 0.3), (0.3, 0.8), (0.8, 1.5), (1.5, 3.0))


def start(model, folder, number):
    command = [sys.executable, "-m", "irrun", "map", model, folder / "x.npy", "-o", folder / f"{number}.zarr"]
    return subprocess.Popen(
        [*map(str, command), "--workers", "1"],
        env={**os.environ, "PYTHONPATH": str(Path(irrun.__file__).parents[1])},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # background processes of a shell ignore it
    )


def wait_for_imports(process):
    """Wait until a process has begun to import what the command requires."""
    while process.poll() is None and "numpy" not in Path(f"/proc/{process.pid}/maps").read_text():
        time.sleep(0.01)


def test_runs_end_in_one_line_at_any_moment(model, tmp_path):
    np.save(tmp_path / "x.npy", np.zeros((200_000, 8), np.float32))
    seed = int(os.environ.get("IRRUN_SEED", "0"))
    delays = [random.Random(seed + i).uniform(*moment) for i, moment in enumerate(MOMENTS)]
    processes = [start(model, tmp_path, number) for number in range(len(delays))]
    try:
        for process in processes:
            wait_for_imports(process)
        begin = time.monotonic()
        for delay, process in zip(delays, processes, strict=True):
            time.sleep(max(0.0, begin + delay - time.monotonic()))
            os.killpg(process.pid, signal.SIGINT)
        for delay, process in zip(delays, processes, strict=True):
            out, err = process.communicate(timeout=120)
            assert (process.returncode, out, err) == (130, "", "irrun: interrupted\n"), delay
    finally:
        for process in processes:
            process.kill()
            process.communicate()


#: Prints what happens to an interrupt in a block, and after it.
DELAYING_SCRIPT = """
import signal
from irrun.interrupts import delay_interrupts

@delay_interrupts()
def run():
    signal.raise_signal(signal.SIGINT)
    print("continued")

signal.signal(signal.SIGINT, signal.default_int_handler)  # background processes of a shell ignore it
try:
    run()
except KeyboardInterrupt:
    print("interrupted")
print(signal.getsignal(signal.SIGINT) is signal.default_int_handler)
with delay_interrupts():
    pass
"""


def test_delayed_interrupts_arrive_at_the_end_of_the_block():
    process = subprocess.run([sys.executable, "-c", DELAYING_SCRIPT], capture_output=True, text=True, timeout=60)
    assert (process.returncode, process.stdout, process.stderr) == (0, "continued\ninterrupted\nTrue\n", "")


def test_delays_do_not_change_the_handler_in_other_threads():
    handlers = []

    def run():
        with delay_interrupts():
            handlers.append(signal.getsignal(signal.SIGINT))

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    assert handlers == [signal.getsignal(signal.SIGINT)]


def test_processes_that_start_in_a_block_ignore_interrupts():
    with block_interrupts():
        process = subprocess.Popen(["sleep", "60"])
    process.send_signal(signal.SIGINT)
    process.terminate()
    assert process.wait(60) == -signal.SIGTERM
    assert signal.SIGINT not in signal.pthread_sigmask(signal.SIG_BLOCK, [])
