"""A line on the terminal that shows the progress of a long command.

Another thread draws it a few times per second from the reports of `irrun.activity`; the computation is not affected.
It consists of printable characters and carriage returns only, so the terminal stays usable however the
process ends.
"""

from __future__ import annotations

import contextlib
import io
import os
import sys
import threading
from collections.abc import Sequence
from time import monotonic
from typing import Any, TextIO

import click

from irrun.activity import Step, find_step
from irrun.cli.terminal import can_encode, find_width, measure_width, shorten_middle
from irrun.errors import to_one_line
from irrun.forks import renew_in_children

__all__ = ["ProgressLine", "format_duration", "format_step"]

#: Seconds before the line appears, and between updates.
DELAY, INTERVAL = 0.7, 0.2
#: Minimum width of the line -> length of the bar, widest first.
BAR_WIDTHS = {100: 20, 60: 10}
#: Columns kept free for the ^C that a terminal echoes.
MARGIN = 3
#: Minimum length of shortened titles and names.
MIN_NAME = 8


class ProgressLine:
    """A progress line on stderr, from its creation until it is closed.

    Nothing is drawn if stderr is not a terminal, if the terminal cannot move the cursor (TERM=dumb), or if NO_COLOR
    asks for plain text. The line is also closed with the context of the command, before an error is reported.

    Args:
        title: The text at the start of the line.
    """

    def __init__(self, title: str) -> None:
        self.is_enabled = _is_drawable(sys.stderr)
        self._title = title
        self._start = monotonic()
        self._own: Step | None = None
        self._drawn = ""
        self._stands_in_text = False
        self._lock = threading.RLock()
        renew_in_children(self._lock)
        self._closed = threading.Event()
        self._stream: TextIO = sys.stderr
        self._guards: list[tuple[str, _GuardedStream]] = []
        if not self.is_enabled:
            self._closed.set()
            return
        context = click.get_current_context(silent=True)
        if context is not None:
            context.call_on_close(self.close)
        threading.Thread(target=self._run, name="irrun-progress", daemon=True).start()

    def __enter__(self) -> ProgressLine:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def update(self, text: str, done: int = 0, total: int = 0, unit: str = "") -> None:
        """Show a step of the command instead of the current activity of the process.

        Args:
            text: The description of the step.
            done: The number of parts that are done.
            total: The total number of parts; 0 if unknown.
            unit: The name of the parts.
        """
        self._own = Step(text, done=done, total=total, unit=unit)

    def close(self) -> None:
        """Erase the line. Nothing is drawn afterwards."""
        if self._closed.is_set():
            return
        with self._lock:
            self._closed.set()
            with contextlib.suppress(OSError, ValueError):
                self._erase()
            for name, guard in self._guards:
                if getattr(sys, name) is guard:
                    setattr(sys, name, guard.stream)

    def write(self, stream: TextIO, text: str) -> int:
        """Write other output to the terminal, instead of the line.

        Args:
            stream: The stream that it is printed to.
            text: The text.
        """
        with self._lock:
            self._erase()
            count = stream.write(text)
            stream.flush()
            if text:
                self._stands_in_text = not text.endswith("\n")
            return count

    def _run(self) -> None:
        is_closed = self._closed.wait(DELAY)
        while not is_closed:
            try:
                self._draw()
            except (OSError, ValueError):  # the terminal is gone
                return
            is_closed = self._closed.wait(INTERVAL)

    def _draw(self) -> None:
        step = self._own or find_step()
        text = ""
        if step is not None:
            width = find_width(self._stream) - MARGIN
            text = format_step(self._title, step, monotonic() - self._start, width, can_encode(self._stream))
        with self._lock:
            if self._closed.is_set() or self._stands_in_text or text == self._drawn:
                return
            if text:
                self._show(text)
            else:
                self._erase()

    def _show(self, text: str) -> None:
        if not self._guards:
            self._guard_streams()
        padding = " " * (measure_width(self._drawn) - measure_width(text))
        self._stream.write(f"\r{text}{padding}")
        self._stream.flush()
        self._drawn = text

    def _erase(self) -> None:
        if self._drawn:
            blank = " " * min(measure_width(self._drawn) + MARGIN - 1, find_width(self._stream) - 1)
            self._stream.write(f"\r{blank}\r")
            self._stream.flush()
            self._drawn = ""

    def _guard_streams(self) -> None:
        """Route other terminal output through the line, so that neither overwrites the other."""
        for name in ("stdout", "stderr"):
            stream = getattr(sys, name)
            if stream is not None and stream.isatty():
                guard = _GuardedStream(stream, self)
                self._guards.append((name, guard))
                setattr(sys, name, guard)


class _GuardedStream:
    """A stream to a terminal that shows a progress line."""

    def __init__(self, stream: TextIO, line: ProgressLine) -> None:
        self.stream = stream
        self._line = line

    def write(self, text: str) -> int:
        return self._line.write(self.stream, text)

    def writelines(self, lines: Sequence[str]) -> None:
        self.write("".join(lines))

    def fileno(self) -> int:
        # So that `input` writes its prompt here, as for any stream without a file.
        raise io.UnsupportedOperation("the stream shares its terminal with a progress line")

    def __getattr__(self, name: str) -> Any:
        return getattr(self.stream, name)


def format_step(title: str, step: Step, seconds: float, width: int, has_symbols: bool = True) -> str:
    """Return the line that shows a step. If it is too long, names are shortened; numbers never are.

    Args:
        title: The text at its start.
        step: The step.
        seconds: The time since the command started.
        width: Maximum width of the line in columns.
        has_symbols: Whether characters outside ASCII may be used.
    """
    ellipsis = "…" if has_symbols else "..."
    length = next((length for least, length in BAR_WIDTHS.items() if width >= least), 0)
    bar = _format_bar(step.done / step.total, length, has_symbols) if step.total else ""
    time = format_duration(seconds)
    shortest = step._replace(text="" if step.total else step.text, name="", detail="", owner="")
    layouts = [(bar, step, time), ("", step, time)]
    layouts += [("", step._replace(text="", name=""), time)] if step.detail else []
    layouts += [("", shortest, time), ("", shortest, "")]
    for bar, part, time in layouts:
        names = [to_one_line(name) for name in (title, "" if part.name == title else part.name, part.owner)]
        rest = measure_width(_join(part, ["x" if name else "" for name in names], bar, time)) - sum(map(bool, names))
        line = _join(part, _fit_names(names, width - rest, ellipsis), bar, time)
        if measure_width(line) <= width:
            return line
    return shorten_middle(line, width, ellipsis)


def format_duration(seconds: float) -> str:
    """Format a time as minutes and seconds, such as "1:05", with hours if needed."""
    minutes, rest = divmod(int(seconds), 60)
    return f"{minutes}:{rest:02}" if minutes < 60 else f"{minutes // 60}:{minutes % 60:02}:{rest:02}"


def _join(step: Step, names: Sequence[str], bar: str, time: str) -> str:
    title, name, owner = names
    count = f"{step.done}/{step.total} {step.unit}".rstrip() if step.total else ""
    what = ", ".join(filter(None, (f"{step.text} {name}".strip(), f"{step.detail} {owner}".strip())))
    return "  ".join(filter(None, (title, bar, count, what, time)))


def _fit_names(names: Sequence[str], room: int, ellipsis: str) -> list[str]:
    """Shorten the longest names until all together fit into some columns."""
    widths = [measure_width(name) for name in names]
    limit = max(widths)
    while limit > MIN_NAME and sum(min(width, limit) for width in widths) > room:
        limit -= 1
    return [shorten_middle(name, limit, ellipsis) for name in names]


def _format_bar(share: float, length: int, has_symbols: bool) -> str:
    full, half, empty = ("━", "╸", "─") if has_symbols else ("#", "#", "-")
    halves = int(min(max(share, 0), 1) * 2 * length)
    return (full * (halves // 2) + half * (halves % 2)).ljust(length, empty)


def _is_drawable(stream: TextIO | None) -> bool:
    """Return whether a line can be drawn on a stream and erased again."""
    if stream is None or not stream.isatty():
        return False
    return not os.environ.get("NO_COLOR") and os.environ.get("TERM", "") not in ("dumb", "unknown")
