"""Garbage collection while large data structures are built."""

from __future__ import annotations

import gc
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from irrun.forks import make_lock, renew_in_children

__all__ = ["pause_collection"]

#: The threads that pause the collection, each as often as it does.
_threads: list[int] = []
_was_enabled = False
_lock = make_lock()


@contextmanager
def pause_collection() -> Iterator[None]:
    """Disable the search for cyclic garbage inside a `with` block, in all threads.

    Models and modules consist of many small, long-lived objects that do not become garbage. Searching them again and
    again takes a quarter of the time of reading and compiling, and a tenth of the time of imports.
    """
    global _was_enabled
    thread = threading.get_ident()
    with _lock:
        if not _threads:
            _was_enabled = gc.isenabled()
            gc.disable()
        _threads.append(thread)
    try:
        yield
    finally:
        with _lock:
            _threads.remove(thread)
            if not _threads and _was_enabled:
                gc.enable()


class _Pauses:
    """The pauses of other threads, which end in child processes."""

    def _at_fork_reinit(self) -> None:
        own = [thread for thread in _threads if thread == threading.get_ident()]
        if _threads and not own and _was_enabled:
            gc.enable()
        _threads[:] = own


_pauses = _Pauses()
renew_in_children(_pauses)
