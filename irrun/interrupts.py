"""Interrupts from the keyboard and from other processes: delayed where they would leave something half done."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["INTERRUPTS", "block_interrupts", "delay_interrupts"]

#: The signals that interrupt a command.
INTERRUPTS = [getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)]


@contextmanager
def delay_interrupts() -> Iterator[None]:
    """Deliver an interrupt that arrives in this block at its end.

    If an exception ends an import or the start of processes halfway, other threads print tracebacks. Interrupts only
    reach the main thread; in other threads, the block just runs.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    handlers = {number: signal.getsignal(number) for number in INTERRUPTS}
    delayed = {n: h for n, h in handlers.items() if callable(h) or (n == signal.SIGINT and h is not None)}
    received: list[int] = []
    for number in delayed:
        signal.signal(number, lambda number, frame: received.append(number))
    try:
        yield
    finally:
        for number, handler in delayed.items():
            signal.signal(number, handler)
        for number in received[:1]:
            signal.raise_signal(number)


@contextmanager
def block_interrupts() -> Iterator[None]:
    """Let processes that start in this block, and all that they start, never receive an interrupt.

    A terminal interrupts all processes of a command. Only the first process should react, and end the others.
    """
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    previous = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, previous)
