"""Reproductions of known faults, each in a process of its own.

Usage: PYTHONPATH=tests python -m conformance.reproduce NAME...

For each fault, a line of JSON states its name and what happened: "shown", "gone", or the error in words.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from typing import Any

import numpy as np

from irrun.conformance.fault import PRELUDE, Fault
from irrun.conformance.faults import list_faults

__all__ = ["GONE", "SHOWN", "reproduce"]

SHOWN, GONE = "shown", "gone"
#: Seconds after which a reproduction has failed.
LIMIT = 60


def reproduce(fault: Fault) -> str:
    """Run a reproduction in this process.

    Returns:
        SHOWN, GONE, or a message if neither the recorded nor the expected value was computed.
    """
    namespace: dict[str, Any] = {}
    exec(PRELUDE + fault.code, namespace)
    actual, expected = np.asarray(namespace["actual"]), np.asarray(namespace["expected"])
    if _are_equal(actual, expected):
        return GONE
    if not fault.is_recorded:
        return SHOWN
    recorded = eval(fault.actual, namespace)
    is_recorded = actual.shape == np.shape(recorded) and np.allclose(
        actual, recorded, rtol=1e-6, atol=0, equal_nan=True
    )
    return SHOWN if is_recorded else f"found {actual.tolist()}, recorded {fault.actual}"


def _are_equal(a: np.ndarray, b: np.ndarray) -> bool:
    return a.shape == b.shape and np.array_equal(a, b, equal_nan="f" in a.dtype.kind + b.dtype.kind)


def main() -> None:
    """Reproduce the faults that the command line names."""
    import openvino  # noqa: F401  # once, before the processes are forked

    names = sys.argv[1:]
    for name in names:
        child = os.fork() if len(names) > 1 else 0  # emulated processes do not fork
        if not child:
            signal.alarm(LIMIT)
            try:
                result = reproduce(list_faults()[name])
            except (RuntimeError, IndexError, MemoryError, ValueError) as error:
                result = f"{type(error).__name__}: {error}"
            print(json.dumps([name, result]), flush=True)
            os._exit(0)
        _, status = os.waitpid(child, 0)
        if os.WIFSIGNALED(status):
            print(json.dumps([name, f"the process ends with signal {os.WTERMSIG(status)}"]), flush=True)


if __name__ == "__main__":
    main()
