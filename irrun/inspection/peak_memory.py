"""The peak memory of the process, as the operating system counts it."""

from __future__ import annotations

import contextlib
import sys
from pathlib import Path

__all__ = ["PeakMeter", "read_peak"]

STATUS = Path("/proc/self/status")
RESET = Path("/proc/self/clear_refs")


class PeakMeter:
    """Measures the peak growth of the process's resident memory from now on.

    Pages of mapped files count when they are read. Linux can restart the measurement. On other systems, growth below
    an earlier peak is unknown.
    """

    def __init__(self) -> None:
        self._start = _read_status("VmRSS")
        self._is_reset = False
        if self._start is not None:
            with contextlib.suppress(OSError):
                RESET.write_text("5")
                self._is_reset = True
        self._previous = read_peak()

    def read(self) -> int | None:
        """Return the growth in bytes, or None if it is unknown."""
        peak = read_peak()
        if peak is None or self._previous is None:
            return None
        if not self._is_reset and peak == self._previous:
            return None
        return max(peak - (self._previous if self._start is None else self._start), 0)


def read_peak() -> int | None:
    """Return the peak resident memory of the process in bytes, or None if the system does not report it."""
    peak = _read_status("VmHWM")
    if peak is not None:
        return peak
    try:
        import resource
    except ImportError:  # Windows
        return None
    size = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return int(size if sys.platform == "darwin" else size * 1024)


def _read_status(name: str) -> int | None:
    """Return a field of the status of the process in bytes, or None."""
    try:
        lines = STATUS.read_text().splitlines()
    except OSError:
        return None
    return next((int(line.split()[1]) * 1024 for line in lines if line.startswith(f"{name}:")), None)
