"""Child processes of `os.fork`, which only have the forking thread.

A lock that another thread holds at that moment would never be released in the child. Locks are therefore renewed in the
child, forking waits until other threads have finished their imports, and locks of libraries that cannot be renewed are
held while the process forks.
"""

from __future__ import annotations

import _imp
import contextlib
import importlib
import os
import sys
import threading
import weakref
from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import cached_property
from typing import Any

__all__ = ["hold_while_forking", "make_lock", "renew_in_children"]

#: Packages with modules that are imported on demand, on any thread.
PACKAGES = frozenset({"irrun", "llvmlite", "lxml", "ml_dtypes", "numpy"})

_renewed: weakref.WeakSet[Any] = weakref.WeakSet()
_held: list[AbstractContextManager[object]] = []


def make_lock() -> threading.Lock:
    """Return a lock that no thread holds in child processes.

    The protected data must be valid after each instruction, since the thread that holds the lock may not finish.
    """
    lock = threading.Lock()
    _renewed.add(lock)
    return lock


def renew_in_children(renewed: Any) -> None:
    """Renew an object in child processes, as long as it exists.

    Args:
        renewed: Its method `_at_fork_reinit` is called there; locks of Python have it.
    """
    _renewed.add(renewed)


def hold_while_forking(lock: AbstractContextManager[object]) -> None:
    """Let the process fork only while no other thread holds a lock.

    Args:
        lock: A lock. Its holder releases it soon. A thread that holds it may take locks that are added later.
    """
    if lock not in _held:
        _held.append(lock)


def _find_imports() -> set[str]:
    """Return the modules that are being imported."""
    return {
        name
        for name, module in sys.modules.copy().items()
        if name.partition(".")[0] in PACKAGES and getattr(getattr(module, "__spec__", None), "_initializing", False)
    }


def _await_imports() -> set[str]:
    """Wait until other threads have finished their imports; return the modules that this thread imports."""
    own: set[str] = set()
    while names := _find_imports() - own:
        for name in names:
            with contextlib.suppress(Exception):
                importlib.import_module(name)  # waits for the thread that imports it
        own |= names & _find_imports()
    return own


def _prepare() -> None:
    """Wait for other threads, and prevent them from importing modules and taking locks."""
    while True:
        own = _await_imports()
        for lock in _held:
            lock.__enter__()
        _imp.acquire_lock()
        if own >= _find_imports():
            return
        _continue()


def _continue() -> None:
    """Let other threads import modules and take locks again."""
    _imp.release_lock()
    for lock in reversed(_held):
        lock.__exit__(None, None, None)


def _renew() -> None:
    """Renew the locks that other threads held in the parent process."""
    locks: dict[str, Callable[[], Any]] = getattr(sys.modules["importlib._bootstrap"], "_module_locks", {})
    for name, find in list(locks.items()):
        lock = find()
        if lock is not None and lock.owner not in (None, threading.get_ident()):
            del locks[name]
    if sys.version_info < (3, 12):
        _renew_cached_properties()
    for renewed in list(_renewed):
        renewed._at_fork_reinit()
    _continue()


def _renew_cached_properties() -> None:
    """Renew the locks of cached properties, which later versions of Python do not have."""
    for name, module in sys.modules.copy().items():
        if name.startswith("irrun."):
            for value in list(vars(module).values()):
                if isinstance(value, type):
                    for attribute in vars(value).values():
                        if isinstance(attribute, cached_property):
                            attribute.lock = threading.RLock()  # type: ignore[attr-defined]


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_prepare, after_in_parent=_continue, after_in_child=_renew)
