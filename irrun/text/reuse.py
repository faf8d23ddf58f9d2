"""Models of tokenizers, which are built from constants once and used in many runs.

A run gets constants as new views of the same memory. Constants are told apart by their memory, and other arrays by
their values.
"""

from __future__ import annotations

import hashlib
import threading
import weakref
from collections import OrderedDict
from collections.abc import Callable, Hashable, Sequence
from typing import Any, TypeVar

import numpy as np

__all__ = ["reuse"]

Array = np.ndarray[Any, Any]
T = TypeVar("T")

#: Models that are kept at most.
MAX_MODELS = 16

_models: OrderedDict[Hashable, tuple[Any, list[weakref.ref[Any]]]] = OrderedDict()
_lock = threading.Lock()


def reuse(build: Callable[..., T], arrays: Sequence[Array], *options: Hashable) -> T:
    """Return what a function builds from arrays, from a former call if that had the same arrays.

    Args:
        build: The function, which takes the arrays and the options.
        arrays: What is built from, any types and shapes.
        options: Other arguments.
    """
    owners: list[Any] = []
    key = (build, options, *[_identify(array, owners) for array in arrays])
    entry = _models.get(key)
    if entry is not None and all(owner() is not None for owner in entry[1]):
        return entry[0]  # type: ignore[no-any-return]
    model = build(*arrays, *options)
    with _lock:
        for old in [k for k, (_, refs) in _models.items() if any(owner() is None for owner in refs)]:
            del _models[old]
        _models[key] = model, [weakref.ref(owner) for owner in {id(owner): owner for owner in owners}.values()]
        while len(_models) > MAX_MODELS:
            _models.popitem(last=False)
    return model


def _identify(array: Array, owners: list[Any]) -> Hashable:
    """Return what tells an array from others; add the owner of its memory if that identifies it."""
    if array.dtype == object:
        return array.shape, *array.reshape(-1).tolist()
    owner = _find_owner(array)
    if owner is None:
        digest = hashlib.blake2b(array.tobytes()).digest()
        return array.dtype.str, array.shape, digest
    owners.append(owner)
    address = array.__array_interface__["data"][0]
    return address, array.dtype.str, array.shape, array.strides


def _find_owner(array: Array) -> Any:
    """Return the owner of memory that nobody changes; None if it is not known to be fixed."""
    owner: Any = array
    while isinstance(owner, np.ndarray):
        if owner.flags.writeable:
            return None
        if owner.base is None:
            return owner
        owner = owner.base
    while isinstance(owner, memoryview):
        if not owner.readonly:
            return None
        owner = owner.obj
    try:
        weakref.ref(owner)
    except TypeError:
        return None
    return owner
