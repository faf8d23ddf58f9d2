"""Interrupts of the keyboard: delayed where they would leave something half done."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["block_interrupts", "delay_interrupts"]


@contextmanager
def delay_interrupts() -> Iterator[None]:
    """Deliver an interrupt that arrives in this block at its end.

    Imports and the start of processes that an exception ends in the middle print tracebacks of other threads. In
    threads other than the main one, which no interrupt reaches, the block just runs.
    """
    previous = signal.getsignal(signal.SIGINT)
    if threading.current_thread() is not threading.main_thread() or previous is None:
        yield
        return
    received: list[int] = []
    signal.signal(signal.SIGINT, lambda number, frame: received.append(number))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, previous)
        if received:
            signal.raise_signal(signal.SIGINT)


@contextmanager
def block_interrupts() -> Iterator[None]:
    """Let processes that start in this block, and all that they start, never receive an interrupt.

    A terminal interrupts all processes of a command. Only the first one shall react, and end the others.
    """
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    previous = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, previous)
