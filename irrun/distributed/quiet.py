"""Warnings of Zarr and Dask about versions of formats and addresses, not about results."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["silence_libraries"]

#: Modules with hidden warnings: libraries, and modules of irrun that call them.
MODULES = r"(zarr|numcodecs|dask|distributed|tornado|irrun\.distributed)(\.|$)"


@contextmanager
def silence_libraries() -> Iterator[None]:
    """Hide the warnings of Zarr and Dask in this block, and show all others."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", module=MODULES)
        yield
