"""Run a function in a worker process with limits on memory and time."""

from __future__ import annotations

import functools
import os
import subprocess
import sys
from pathlib import Path

import pytest

__all__ = ["MEMORY", "PROCESSOR_TIME", "TIMEOUT", "require_memory_limits", "run_limited"]

#: Address space of a worker in bytes, most of which libraries reserve without using it.
MEMORY = 4 << 30
#: Seconds after which a worker that does not compute is killed, on a machine that is busy with other work. Emulated
#: tests have a higher limit.
TIMEOUT = max(250.0, float(os.environ.get("PYTEST_TIMEOUT", 0)))
#: Seconds of processor time after which a worker is killed. Cases take a fraction of a second to a few seconds.
PROCESSOR_TIME = int(60 * TIMEOUT / 250)

TESTS = Path(__file__).parents[1]


@functools.cache
def _limits_memory() -> bool:
    """Return whether a process gets no more memory than it was limited to, unlike emulated ones."""
    program = "import resource; resource.setrlimit(resource.RLIMIT_AS, (1 << 29,) * 2); bytearray(1 << 30)"
    return b"MemoryError" in subprocess.run([sys.executable, "-c", program], capture_output=True).stderr


def require_memory_limits() -> None:
    """Skip a test where limits on the memory of processes have no effect."""
    if not _limits_memory():
        pytest.skip("the system does not limit the memory of processes, for example because it is emulated")


def run_limited(script: Path, *arguments: str) -> str:
    """Run a script and return what it prints.

    Raises:
        AssertionError: It fails, is killed, exceeds a limit, or prints a traceback or a warning.
    """
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "PYTHONWARNINGS": "default"}
    environment["PYTHONPATH"] = os.pathsep.join([str(TESTS), str(TESTS.parent)])

    def limit() -> None:
        import resource  # not on Windows

        resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        resource.setrlimit(resource.RLIMIT_CPU, (PROCESSOR_TIME, PROCESSOR_TIME))

    try:
        process = subprocess.run(
            [sys.executable, str(script), *arguments],
            capture_output=True,
            text=True,
            errors="replace",
            timeout=TIMEOUT,
            env=environment,
            preexec_fn=limit,
            stdin=subprocess.DEVNULL,
        )
    except subprocess.TimeoutExpired:
        raise AssertionError(f"{' '.join(arguments)} did not end within {TIMEOUT:g} s") from None
    output = process.stdout + process.stderr
    assert process.returncode == 0, f"exit code {process.returncode}:\n{output[-3000:]}"
    assert "Traceback" not in output, output[-3000:]
    assert "Warning" not in output, output[-3000:]
    return output
